#include "bench/subject.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/functional/loss.h>

#include <regex>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/models/mdeq/mdeq.h"
#include "deq/models/reasoner/reasoner.h"
#include "deq/models/transformer/transformer.h"
#include "lab/base/misuse.h"
#include "lab/tasks/puzzle_loss.h"
#include "lab/tasks/random_step.h"

namespace deq::lab::cli {
namespace {

constexpr uint64_t kSeed = 0;

/// The scale at whose size a convolution of a cell puts out its pixels, by the published name.
int64_t scale_of(const std::string& name) {
  std::smatch parts;
  if (std::regex_search(name, parts,
                        std::regex("fuse_layers\\.(\\d+)\\.(\\d+)\\.net(?:\\.(\\d+))?"))) {
    const auto from = std::stoll(parts[2]);
    return parts[3].matched ? from + std::stoll(parts[3]) + 1 : from;
  }
  std::regex_search(name, parts, std::regex("\\.(\\d+)\\."));
  return std::stoll(parts[1]);
}

models::MdeqOptions options_of(const MdeqSizes& sizes) {
  auto options = models::mdeq_preset(sizes.preset);
  if (sizes.groups) options.groups = *sizes.groups;
  if (sizes.channels) {
    const auto finest = options.channels.front();
    for (auto& channels : options.channels) channels = channels / finest * *sizes.channels;
  }
  refusals_as_misuse([&] { models::validate(options); });
  return options;
}

int64_t side_of(const MdeqSizes& sizes, const models::MdeqOptions& options) {
  const auto side = sizes.image_size.value_or(sizes.preset.starts_with("cifar") ? 32 : 224);
  const auto halvings = options.downsample_times + static_cast<int64_t>(options.scales()) - 1;
  require<UsageError>(
      side % (int64_t{1} << halvings) == 0,
      "--size {}: must be a multiple of {}, since this model halves images {} times", side,
      int64_t{1} << halvings, halvings);
  return side;
}

class MdeqSubject final : public EquilibriumSubject {
 public:
  MdeqSubject(const MdeqSizes& sizes, const torch::Device& device, Precision precision)
      : preset_(sizes.preset),
        options_(options_of(sizes)),
        batch_(sizes.batch),
        size_(side_of(sizes, options_)) {
    torch::manual_seed(kSeed);
    model_ = models::MdeqClassifier(options_);
    model_->to(device, storage_type(precision));
    const auto numbers = torch::TensorOptions(device).dtype(storage_type(precision));
    images_ = torch::randn({batch_, options_.image_channels, size_, size_}, numbers);
    labels_ = torch::randint(options_.classes, {batch_}, numbers.dtype(torch::kInt64));
  }

  std::string name() const override {
    return fmt::format("multiscale DEQ {} with {} channels, {} images of {}×{}", preset_,
                       fmt::join(options_.channels, ", "), batch_, size_, size_);
  }
  torch::nn::Module& model() override { return *model_; }

  TaskPass forward(const EquilibriumPlan& how) override {
    auto output = model_->forward(images_, how);
    return {.loss = torch::nn::functional::cross_entropy(output.logits, labels_),
            .equilibria = {std::move(output.equilibrium)}};
  }

  double flops_of_f() override {
    double pairs = 0;  // of a weight and a pixel
    for (const auto& item : model_->cell()->named_parameters()) {
      if (item.value().dim() != 4 || item.key().ends_with("_g")) continue;
      const auto side = (size_ >> options_.downsample_times) >> scale_of("." + item.key());
      pairs += static_cast<double>(item.value().numel() * side * side);
    }
    return 2 * static_cast<double>(batch_) * pairs;
  }

 private:
  std::string preset_;
  models::MdeqOptions options_;
  int64_t batch_, size_;
  models::MdeqClassifier model_{nullptr};
  torch::Tensor images_, labels_;
};

class TransformerSubject final : public EquilibriumSubject {
 public:
  static constexpr int64_t kLength = 150;  // words read at a time, and words remembered

  TransformerSubject(bool pre_ln, int64_t batch, const torch::Device& device, Precision precision)
      : options_{.pre_ln = pre_ln}, batch_(batch) {
    torch::manual_seed(kSeed);
    model_ = models::DeqTransformer(options_);
    model_->to(device, storage_type(precision));
    const auto numbers = torch::TensorOptions(device).dtype(storage_type(precision));
    tokens_ = random_words({batch, kLength}, options_.vocabulary, device);
    targets_ = random_words({batch, kLength}, options_.vocabulary, device);
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
    const auto width = static_cast<double>(options_.heads * options_.d_head);
    const auto model = static_cast<double>(options_.d_model);
    const auto inner = static_cast<double>(options_.d_inner);
    constexpr double kKeys = 2 * kLength;
    // Queries, keys and values; contents, distances and values seen; the way out; the feed-forward
    // part.
    const double pairs = 3 * model * width + 3 * kKeys * width + width * model + 2 * model * inner;
    return 2 * static_cast<double>(batch_ * kLength) * pairs;
  }

 private:
  models::TransformerOptions options_;
  int64_t batch_;
  models::DeqTransformer model_{nullptr};
  torch::Tensor tokens_, targets_;
  models::TransformerMemory memory_;
};

class ReasonerSubject final : public EquilibriumSubject {
 public:
  ReasonerSubject(const ReasonerSizes& sizes, const torch::Device& device, Precision precision)
      : sizes_(sizes) {
    torch::manual_seed(kSeed);
    model_ = models::Reasoner(models::ReasonerOptions{.tokens = sizes.tokens,
                                                      .width = sizes.width,
                                                      .attention = sizes.attention,
                                                      .damping = 0.95,
                                                      .noise = 0.01,
                                                      .start = models::ReasonerStart::Random});
    model_->to(device, storage_type(precision));
    const auto whole = torch::TensorOptions(device).dtype(torch::kInt64);
    const std::vector<int64_t> shape{sizes.batch, sizes.tokens};
    questions_ = torch::randint(model_->options().vocabulary, shape, whole);
    answers_ = torch::randint(model_->options().vocabulary, shape, whole);
    right_ = torch::zeros({sizes.batch}, whole.dtype(torch::kFloat32));
    start_ = model_->start_of(questions_);
  }

  std::string name() const override {
    return fmt::format("Equilibrium Reasoner{}, {} puzzles of {} cells, width {}",
                       sizes_.attention ? " with attention" : "", sizes_.batch, sizes_.tokens,
                       sizes_.width);
  }
  torch::nn::Module& model() override { return *model_; }

  TaskPass forward(const EquilibriumPlan& how) override {
    auto output = model_->forward(questions_, start_, how);
    const auto logits = output.logits.to(torch::kFloat32);
    const auto settled = torch::nn::functional::binary_cross_entropy_with_logits(
        output.settled.to(torch::kFloat32), right_);
    return {.loss = cell_losses(logits, answers_, CellLoss::Stablemax).mean() + 0.5 * settled,
            .equilibria = {std::move(output.equilibrium)}};
  }

  double flops_of_f() override {
    double pairs = 0;  // of a weight and a number that it multiplies
    for (const auto& item : model_->cell()->named_parameters()) {
      const bool mixes = item.key().find(".tokens.") != std::string::npos;
      pairs += static_cast<double>(item.value().numel() * (mixes ? sizes_.width : sizes_.tokens));
    }
    if (sizes_.attention) {  // scores, and what is seen
      pairs += static_cast<double>(2 * model_->options().layers * sizes_.tokens * sizes_.tokens *
                                   sizes_.width);
    }
    const auto applications = static_cast<double>(model_->options().inner_steps + 1);
    return 2 * static_cast<double>(sizes_.batch) * applications * pairs;
  }

 private:
  ReasonerSizes sizes_;
  models::Reasoner model_{nullptr};
  torch::Tensor questions_, answers_, right_;
  State start_;
};

}  // namespace

std::unique_ptr<EquilibriumSubject> mdeq_subject(const MdeqSizes& sizes,
                                                 const torch::Device& device, Precision precision) {
  return std::make_unique<MdeqSubject>(sizes, device, precision);
}

std::unique_ptr<EquilibriumSubject> transformer_subject(bool pre_ln, int64_t batch,
                                                        const torch::Device& device,
                                                        Precision precision) {
  return std::make_unique<TransformerSubject>(pre_ln, batch, device, precision);
}

std::unique_ptr<EquilibriumSubject> reasoner_subject(const ReasonerSizes& sizes,
                                                     const torch::Device& device,
                                                     Precision precision) {
  return std::make_unique<ReasonerSubject>(sizes, device, precision);
}

}  // namespace deq::lab::cli
