#include "deq/models/mdeq/mdeq.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include "deq/jacobian/frobenius.h"
#include "side_by_side/subject.h"

namespace {

class Mdeq final : public Subject {
 public:
  explicit Mdeq(deq::lab::TensorFile file)
      : Subject(std::move(file)),
        model_(options()),
        images_(tensor("images")),
        labels_(tensor("labels")) {
    load_weights();
  }

  torch::nn::Module& model() override { return *model_; }
  void infer(const deq::EquilibriumPlan& plan) override { model_->forward(images_, plan); }

  torch::Tensor loss(const deq::EquilibriumPlan& plan, bool penalised) override {
    const auto output = model_->forward(images_, plan);
    auto loss = torch::nn::functional::cross_entropy(output.logits, labels_);
    if (penalised) loss = loss + deq::jacobian_penalty(output.equilibrium.linearization());
    return loss;
  }

  deq::lab::TensorFile check() override {
    auto cell = model_->cell();
    const auto f =
        cell->step({tensor("z.0"), tensor("z.1")}, cell->prepare({model_->inject(images_)}));
    const auto logits = model_->classify(f);
    torch::nn::functional::cross_entropy(logits, labels_).backward();
    deq::lab::TensorFile answer;
    answer.tensors["logits"] = logits;
    for (size_t i = 0; i < f.size(); ++i) answer.tensors[fmt::format("f.{}", i)] = f[i];
    return answer;
  }

  void keep_first(int64_t samples) override {
    images_ = tensor("images").narrow(0, 0, samples);
    labels_ = tensor("labels").narrow(0, 0, samples);
  }

 private:
  static deq::models::MdeqOptions options() {
    auto options = deq::models::mdeq_preset("cifar-tiny");
    options.dropout = 0;
    return options;
  }

  deq::models::MdeqClassifier model_;
  torch::Tensor images_, labels_;
};

}  // namespace

std::unique_ptr<Subject> make_mdeq(deq::lab::TensorFile file) {
  return std::make_unique<Mdeq>(std::move(file));
}
