#include "bench/subject.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include <cmath>

#include "bench/stopwatch.h"
#include "deq/models/mdeq.h"
#include "deq/models/transformer.h"

namespace deq::cli {
namespace {

constexpr uint64_t kSeed = 0;

/// One evaluation of a cell of the same shapes for one sample, in float64 on the CPU, where every
/// product is torch's own and is counted.
double flops_for_one(Cell& cell, const Inputs& inputs) {
  const torch::NoGradGuard no_grad;
  const auto context = cell.prepare(inputs);
  const auto z = cell.initial_state(inputs);
  return count_flops([&] { cell.step(z, context); });
}

class MdeqSubject final : public Subject {
 public:
  MdeqSubject(const std::string& preset, int64_t batch, const torch::Device& device,
              Precision precision)
      : preset_(preset), options_(mdeq_preset(preset)), batch_(batch) {
    torch::manual_seed(kSeed);
    size_ = preset.starts_with("cifar") ? 32 : 224;
    model_ = MdeqClassifier(options_);
    model_->to(device, storage_type(precision));
    const auto numbers = torch::TensorOptions(device).dtype(storage_type(precision));
    images_ = torch::randn({batch, options_.image_channels, size_, size_}, numbers);
    labels_ = torch::randint(options_.classes, {batch}, numbers.dtype(torch::kInt64));
  }

  std::string name() const override {
    return fmt::format("multiscale DEQ {}, {} images of {}×{}", preset_, batch_, size_, size_);
  }
  torch::nn::Module& model() override { return *model_; }

  TaskPass forward(const EquilibriumPlan& how) override {
    auto output = model_->forward(images_, how);
    return {.loss = torch::nn::functional::cross_entropy(output.logits, labels_),
            .equilibria = {std::move(output.equilibrium)}};
  }

  double flops_of_f() override {
    const auto side = size_ >> options_.downsample_times;
    MdeqCell cell(options_);
    cell->to(torch::kFloat64);
    cell->eval();
    const auto injection = torch::zeros({1, options_.channels[0], side, side}, torch::kFloat64);
    return static_cast<double>(batch_) * flops_for_one(*cell, {injection});
  }

 private:
  std::string preset_;
  MdeqOptions options_;
  int64_t batch_, size_ = 0;
  MdeqClassifier model_{nullptr};
  torch::Tensor images_, labels_;
};

class TransformerSubject final : public Subject {
 public:
  static constexpr int64_t kLength = 150;  // words read at a time, and words remembered

  TransformerSubject(bool pre_ln, int64_t batch, const torch::Device& device, Precision precision)
      : options_{.pre_ln = pre_ln}, batch_(batch) {
    torch::manual_seed(kSeed);
    model_ = DeqTransformer(options_);
    model_->to(device, storage_type(precision));
    const auto numbers = torch::TensorOptions(device).dtype(storage_type(precision));
    const auto words = numbers.dtype(torch::kInt64);
    tokens_ = draw_words(batch, words);
    targets_ = draw_words(batch, words);
    memory_.capacity = kLength;
    memory_.z = torch::randn({batch, kLength, options_.d_model}, numbers);
    memory_.u = torch::randn({batch, kLength, 3 * options_.heads * options_.d_head}, numbers);
  }

  std::string name() const override {
    return fmt::format("DEQ-Transformer, {}, {} × {} words, {} remembered",
                       options_.pre_ln ? "pre-LN" : "post-LN", batch_, kLength, kLength);
  }
  torch::nn::Module& model() override { return *model_; }

  TaskPass forward(const EquilibriumPlan& how) override {
    auto output = model_->forward(tokens_, targets_, memory_, how);
    return {.loss = output.nll.mean(), .equilibria = {std::move(output.reading.equilibrium)}};
  }

  double flops_of_f() override {
    TransformerCell cell(options_);
    cell->to(torch::kFloat64);
    cell->eval();
    const auto numbers = torch::TensorOptions(torch::kFloat64);
    const auto width = 3 * options_.heads * options_.d_head;
    const Inputs inputs{torch::zeros({1, kLength, width}, numbers),
                        torch::zeros({2 * kLength, options_.d_model}, numbers),
                        torch::zeros({1, kLength, options_.d_model}, numbers),
                        torch::zeros({1, kLength, width}, numbers)};
    return static_cast<double>(batch_) * flops_for_one(*cell, inputs);
  }

 private:
  /// Log-uniformly: frequent words come first in a vocabulary, as Zipf's law has them.
  torch::Tensor draw_words(int64_t batch, const torch::TensorOptions& options) const {
    const auto share = torch::rand({batch, kLength}, options.dtype(torch::kFloat64));
    return share.mul(std::log(static_cast<double>(options_.vocabulary)))
        .exp_()
        .sub_(1)
        .floor_()
        .clamp_(0, options_.vocabulary - 1)
        .to(torch::kInt64);
  }

  TransformerOptions options_;
  int64_t batch_;
  DeqTransformer model_{nullptr};
  torch::Tensor tokens_, targets_;
  TransformerMemory memory_;
};

}  // namespace

std::unique_ptr<Subject> mdeq_subject(const std::string& preset, int64_t batch,
                                      const torch::Device& device, Precision precision) {
  return std::make_unique<MdeqSubject>(preset, batch, device, precision);
}

std::unique_ptr<Subject> transformer_subject(bool pre_ln, int64_t batch,
                                             const torch::Device& device, Precision precision) {
  return std::make_unique<TransformerSubject>(pre_ln, batch, device, precision);
}

}  // namespace deq::cli
