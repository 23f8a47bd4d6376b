#include "deq/models/transformer/gpt2_parts.h"

#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/models/transformer/gpt2.h"
#include "models/gpt2_small.h"

namespace deq::models {
namespace {

NamedTensors state_of(const GPT2& model) {
  NamedTensors state;
  for (const auto& item : model->named_parameters()) state[item.key()] = item.value().detach();
  return state;
}

TEST(Gpt2Parts, GoTogetherAgain) {
  const auto whole = state_of(GPT2(test::small_clustered_gpt2()));
  for (const int64_t size : {1, 2, 4}) {
    std::vector<NamedTensors> parts;
    for (int64_t rank = 0; rank < size; ++rank) parts.push_back(cut_gpt2(whole, {rank, size}));
    const auto joined = join_gpt2(parts);
    ASSERT_EQ(joined.size(), whole.size());
    for (const auto& [name, tensor] : whole) EXPECT_TRUE(joined.at(name).equal(tensor)) << name;
  }
}

TEST(Gpt2Parts, AreHeadsAndInnerFeatures) {
  const auto options = test::small_gpt2();  // 4 heads of 3 features, 20 inner ones
  const auto whole = state_of(GPT2(options));
  const auto part = cut_gpt2(whole, {.rank = 1, .size = 2});
  const auto rows = [](int64_t first, int64_t end) { return torch::arange(first, end); };
  // Heads 2 and 3, of queries, of keys and of values.
  const auto heads = torch::cat({rows(6, 12), rows(18, 24), rows(30, 36)});
  for (const std::string name : {"weight", "bias"}) {
    const auto qkv = "layers.1.qkv." + name, inner = "layers.1.inner." + name;
    EXPECT_TRUE(part.at(qkv).equal(whole.at(qkv).index_select(0, heads)));
    EXPECT_TRUE(part.at(inner).equal(whole.at(inner).index_select(0, rows(10, 20))));
  }
  EXPECT_TRUE(part.at("layers.0.attention_out.weight")
                  .equal(whole.at("layers.0.attention_out.weight").index_select(1, rows(6, 12))));
  EXPECT_TRUE(part.at("layers.0.outer.weight")
                  .equal(whole.at("layers.0.outer.weight").index_select(1, rows(10, 20))));
  for (const std::string name :
       {"layers.0.attention_out.bias", "layers.0.outer.bias", "final_norm.weight",
        "position_emb.weight", "layers.1.feed_forward_norm.bias", "word_emb.emb_layers.0.weight"}) {
    EXPECT_TRUE(part.at(name).equal(whole.at(name))) << name;
    EXPECT_FALSE(gpt2_in_parts(name, whole.at(name))) << name;
  }
}

TEST(Gpt2Parts, OfAnOptimisersStateAreCutAlike) {
  const NamedTensors state{{"exp_avg/layers.0.inner.weight", torch::rand({20, 12})},
                           {"step/layers.0.inner.weight", torch::ones({})}};
  const auto part = cut_gpt2(state, {.rank = 3, .size = 4});
  EXPECT_TRUE(part.at("exp_avg/layers.0.inner.weight")
                  .equal(state.at("exp_avg/layers.0.inner.weight").slice(0, 15)));
  EXPECT_EQ(part.at("step/layers.0.inner.weight").item<double>(), 1);
}

TEST(Gpt2Parts, ThatDoNotFitAreRefused) {
  const NamedTensors state{{"layers.0.inner.weight", torch::rand({20, 12})}};
  EXPECT_THROW(cut_gpt2(state, {.rank = 0, .size = 3}), Error);
  EXPECT_THROW(join_gpt2({state, {}}), Error);
  EXPECT_THROW(join_gpt2({state, {{"layers.0.inner.weight", torch::rand({10, 12})}}}), Error);
  EXPECT_THROW(join_gpt2(std::vector<NamedTensors>{}), Error);
}

/// A group of which only this process is there.
class NobodyElse final : public TensorParallel {
 public:
  NobodyElse(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  void sum(const torch::Tensor&) override {}

 private:
  int64_t rank_, size_;
};

TEST(Gpt2Parts, HaveTheParametersThatAreCounted) {
  for (const auto& options : {test::small_gpt2(), test::small_clustered_gpt2(3)}) {
    for (const int64_t size : {1, 2, 4}) {
      const GPT2 model(options, std::optional<at::Generator>(),
                       std::make_shared<NobodyElse>(size - 1, size));
      int64_t count = 0;
      for (const auto& parameter : model->parameters()) count += parameter.numel();
      EXPECT_EQ(parameter_count(options, size), count) << size;
    }
  }
}

}  // namespace
}  // namespace deq::models
