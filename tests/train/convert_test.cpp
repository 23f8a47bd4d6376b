#include "lab/trained/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/models/explicit/resnet.h"
#include "deq/models/transformer/transformer.h"

namespace deq::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

using Tensors = std::map<std::string, torch::Tensor>;

/// Two layers with a norm between them: parameters, buffers, and a count in whole numbers.
struct ModelImpl : torch::nn::Module {
  ModelImpl() {
    register_module("first", torch::nn::Linear(3, 2));
    register_module("norm", torch::nn::BatchNorm1d(2));
  }
};
TORCH_MODULE(Model);

class Convert : public ::testing::Test {
 protected:
  /// What the model has, each name behind `prefix`, each number one larger.
  Tensors state_dict(const std::string& prefix = "") const {
    Tensors all;
    for (const auto& item : model_->named_parameters()) {
      all[prefix + item.key()] = item.value().detach() + 1;
    }
    for (const auto& item : model_->named_buffers()) all[prefix + item.key()] = item.value() + 1;
    return all;
  }
  Conversion convert(const Tensors& given, const ConvertOptions& options = {}) const {
    return convert_state_dict(given, *model_, "the file", options);
  }
  void expect_all_fits(const Conversion& conversion) const {
    EXPECT_THAT(conversion.missing, IsEmpty());
    EXPECT_THAT(conversion.superfluous, IsEmpty());
    const auto expected = state_dict();
    ASSERT_EQ(conversion.tensors.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      EXPECT_TRUE(conversion.tensors.at(name).equal(tensor)) << name;
    }
  }

  Model model_;
};

TEST_F(Convert, TheSameNamesFitAsTheyAre) {
  const auto conversion = convert(state_dict());
  expect_all_fits(conversion);
  EXPECT_EQ(conversion.prefix, "");
}

TEST_F(Convert, PrefixesThatAllNamesShareAreTakenOff) {
  for (const std::string prefix : {"module.", "module._orig_mod.", "a.b.c."}) {
    const auto conversion = convert(state_dict(prefix));
    expect_all_fits(conversion);
    EXPECT_EQ(conversion.prefix, prefix);
  }
}

TEST_F(Convert, APrefixThatNotAllShareMustBeAskedFor) {
  auto given = state_dict("module.");
  given["epoch"] = torch::tensor(7);
  EXPECT_THROW(convert(given), Error);
  const auto conversion = convert(given, {.prefix = "module."});
  EXPECT_THAT(conversion.missing, IsEmpty());
  EXPECT_THAT(conversion.superfluous, ElementsAre("epoch"));
}

TEST_F(Convert, AComponentOfTheModelsOwnIsNoPrefix) {
  const auto all = state_dict();
  const auto conversion = convert({{"first.weight", all.at("first.weight")}});
  EXPECT_EQ(conversion.prefix, "");
  EXPECT_EQ(conversion.missing.size(), all.size() - 1);
}

TEST_F(Convert, WhatIsMissingKeepsTheModelsValuesAndWhatIsSuperfluousIsLeftOut) {
  auto given = state_dict();
  given.erase("norm.num_batches_tracked");
  given.erase("first.bias");
  given["second.weight"] = torch::ones({2, 2});
  const auto conversion = convert(given);
  EXPECT_THAT(conversion.missing, ElementsAre("first.bias", "norm.num_batches_tracked"));
  EXPECT_THAT(conversion.superfluous, ElementsAre("second.weight"));
  const auto bias = model_->named_parameters()["first.bias"];
  EXPECT_TRUE(conversion.tensors.at("first.bias").equal(bias));
  EXPECT_FALSE(conversion.tensors.at("first.bias").is_alias_of(bias));
  EXPECT_FALSE(conversion.tensors.contains("second.weight"));
}

TEST_F(Convert, NumbersTakeTheModelsType) {
  auto given = state_dict();
  for (auto& [name, tensor] : given) {
    if (tensor.is_floating_point()) tensor = tensor.to(torch::kFloat64);
  }
  expect_all_fits(convert(given));
  // All of a model that is moved to float64 is float64, its counters too.
  const auto saved = state_dict();
  model_->to(torch::kFloat64);
  const auto counter = convert(saved).tensors.at("norm.num_batches_tracked");
  EXPECT_EQ(counter.scalar_type(), torch::kFloat64);
  EXPECT_EQ(counter.item<double>(), 1);
}

TEST_F(Convert, TheModelIsNotChanged) {
  const auto before = model_->named_parameters()["first.weight"].detach().clone();
  convert(state_dict());
  EXPECT_TRUE(model_->named_parameters()["first.weight"].equal(before));
}

TEST_F(Convert, WhatCannotFitIsRefused) {
  auto wrong_shape = state_dict("module.");
  wrong_shape["module.first.weight"] = torch::ones({2, 4});
  EXPECT_THAT([&] { convert(wrong_shape); },
              ThrowsMessage<Error>(
                  HasSubstr("the file's \"first.weight\" has shape [2, 4], this model's [2, 3]")));
  auto wrong_type = state_dict();
  wrong_type["first.bias"] = torch::ones({2}, torch::kInt8);
  EXPECT_THAT([&] { convert(wrong_type); },
              ThrowsMessage<Error>(HasSubstr("\"first.bias\" is of type Char, this model's")));
  EXPECT_THAT(
      [&] {
        convert({{"w", torch::ones(1)}});
      },
      ThrowsMessage<Error>(HasSubstr("nothing of this model: its first name is \"w\"")));
  EXPECT_THAT([&] { convert({}); }, ThrowsMessage<Error>(HasSubstr("holds no tensors")));
  auto twice = state_dict();
  twice["module.first.bias"] = torch::ones(2);
  EXPECT_THAT([&] { convert(twice, {.prefix = "module."}); },
              ThrowsMessage<Error>(HasSubstr("\"first.bias\" with and without the prefix")));
}

TEST_F(Convert, AResNetWithoutItsCountersIsCompleteButForOneLine) {
  // Published weights are older than the counters of batch normalisation.
  const models::ResNet network(models::resnet18());
  Tensors given;
  for (const auto& item : network->named_parameters()) given["model." + item.key()] = item.value();
  for (const auto& item : network->named_buffers()) {
    if (item.value().dim() > 0) given["model." + item.key()] = item.value();
  }
  const auto conversion = convert_state_dict(given, *network, "the file");
  EXPECT_EQ(conversion.missing.size(), 20U);
  EXPECT_THAT(conversion.superfluous, IsEmpty());
  EXPECT_THAT(grouped_names(conversion.missing),
              ElementsAre("bn1.num_batches_tracked", "16 × layer*.*.bn*.num_batches_tracked",
                          "3 × layer*.*.downsample.*.num_batches_tracked"));
}

/// A language model as published: what its softmax shares with its embedding is there twice.
class ConvertTied : public ::testing::Test {
 protected:
  ConvertTied() {
    for (const auto& item : model_->named_parameters()) given_[item.key()] = item.value() + 1;
    for (const auto& item : model_->named_buffers()) given_[item.key()] = item.value() + 1;
    for (const auto& [name, owner] : model_->tied()) given_[name] = given_.at(owner).clone();
  }

  static models::TransformerOptions options() {
    models::TransformerOptions small;
    small.vocabulary = 12;
    small.cutoffs = {4, 8};
    small.div_val = 2;
    small.d_model = small.d_embed = 4;
    small.heads = small.d_head = 2;
    small.d_inner = 3;
    small.tie_projections = {false, true, true};
    return small;
  }
  Conversion convert() const {
    return convert_state_dict(given_, *model_, "the file", {.tied = model_->tied()});
  }

  models::DeqTransformer model_{options()};
  Tensors given_;
};

TEST_F(ConvertTied, NamesAreUnderstood) {
  ASSERT_EQ(model_->tied().size(), 3 + 2);  // the tables, and the projections of two clusters
  const auto conversion = convert();
  EXPECT_THAT(conversion.missing, IsEmpty());
  EXPECT_THAT(conversion.superfluous, IsEmpty());
  const auto without = convert_state_dict(given_, *model_, "the file");
  EXPECT_EQ(without.superfluous.size(), 5);
}

TEST_F(ConvertTied, EitherNameServes) {
  for (const auto& [name, owner] : model_->tied()) {
    const auto expected = given_.at(owner);
    given_.erase(owner);
    EXPECT_TRUE(convert().tensors.at(owner).equal(expected)) << owner;
    EXPECT_THAT(convert().missing, IsEmpty()) << owner;
    given_.erase(name);
    EXPECT_THAT(convert().missing, ElementsAre(owner));
    given_[owner] = expected;
  }
}

TEST_F(ConvertTied, DifferentNumbersUnderTiedNamesAreRefused) {
  given_.at("crit.out_layers.1.weight")[0][0] += 1;
  EXPECT_THAT([&] { convert(); },
              ThrowsMessage<Error>(HasSubstr(
                  "the file's \"crit.out_layers.1.weight\" and \"word_emb.emb_layers.1.weight\" "
                  "are not the same")));
}

TEST(GroupedNames, ThoseThatDifferInNumbersOnly) {
  EXPECT_THAT(grouped_names({}), IsEmpty());
  EXPECT_THAT(grouped_names({"a10.w", "a9.w", "a9.b", "c"}), ElementsAre("a9.b", "2 × a*.w", "c"));
}

}  // namespace
}  // namespace deq::lab
