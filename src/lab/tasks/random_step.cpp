#include "lab/tasks/random_step.h"

#include <cmath>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/settings/files.h"
#include "lab/base/model_noise.h"
#include "lab/base/random_streams.h"
#include "lab/networks/image_classifier.h"
#include "lab/networks/language_network.h"
#include "lab/runs/model_state.h"

namespace deq::lab {
namespace {

constexpr int64_t kColours = 3;

class RandomImages final : public RandomStep {
 public:
  RandomImages(const VisionConfig& config, torch::Device device)
      : config_(config), classifier_(config, device) {
    const auto size = config.data.image_size, batch = config.train.batch_size;
    const auto numbers = torch::TensorOptions(device).dtype(storage_type(config.precision));
    images_ = torch::randn({batch, kColours, size, size}, numbers);
    labels_ = torch::randint(classifier_.classes(), {batch}, numbers.dtype(torch::kInt64));
  }

  torch::nn::Module& model() override { return classifier_.module(); }

  TaskPass forward(const EquilibriumPlan& how) override {
    auto scores = classifier_.scores(images_, how);
    return {.loss = training_loss(scores.logits, labels_, config_),
            .equilibria = std::move(scores.equilibria)};
  }

  std::vector<std::pair<std::string, int64_t>> shapes() const override {
    return {{"batch_size", images_.size(0)},
            {"image_size", images_.size(2)},
            {"classes", classifier_.classes()}};
  }

 private:
  VisionConfig config_;
  ImageClassifier classifier_;
  torch::Tensor images_, labels_;
};

/// The memory is that of the words before, as many as are remembered.
class RandomText final : public RandomStep {
 public:
  RandomText(const LanguageConfig& config, int64_t words, torch::Device device)
      : words_(words),
        capacity_(config.data.memory),
        network_(make_language_network(config.model, words,
                                       random_stream(config.seed, RandomStream::LanguageWeights))) {
    move_model(model(), device, storage_type(config.precision));
    const std::vector<int64_t> shape{config.train.batch_size, config.data.segment};
    tokens_ = random_words(shape, words, device);
    targets_ = random_words(shape, words, device);
    const torch::NoGradGuard no_grad;
    const PrecisionScope precision(config.precision, device);
    model().eval();
    for (int64_t read = 0; read < std::max<int64_t>(capacity_, 1); read += config.data.segment) {
      memory_ = cost(EquilibriumOptions{}).memory;
    }
  }

  torch::nn::Module& model() override { return network_->module(); }

  TaskPass forward(const EquilibriumPlan& how) override {
    auto result = cost(how);
    return {.loss = result.loss(), .equilibria = std::move(result.equilibria)};
  }

  std::vector<std::pair<std::string, int64_t>> shapes() const override {
    return {{"batch_size", tokens_.size(0)},
            {"segment", tokens_.size(1)},
            {"memory", capacity_},
            {"words", words_}};
  }

 private:
  TextCost cost(const EquilibriumPlan& how) {
    return network_->forward(tokens_, targets_, memory_, capacity_, how);
  }

  int64_t words_, capacity_;
  std::unique_ptr<LanguageNetwork> network_;
  torch::Tensor tokens_, targets_;
  TextMemory memory_;
};

template <class Config>
Config load_for(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                const RandomStepOptions& options) {
  auto config = load_config<Config>(path, overrides);
  config.precision = options.precision;
  config.train.batch_size = options.batch_size.value_or(config.train.batch_size);
  seed_model_noise(options.device, static_cast<uint64_t>(config.seed));
  return config;
}

}  // namespace

std::unique_ptr<RandomStep> make_random_step(const std::filesystem::path& config,
                                             const std::vector<std::string>& overrides,
                                             const RandomStepOptions& options) {
  const auto experiment = experiment_of(config, overrides);
  if (experiment == "vision") {
    return std::make_unique<RandomImages>(load_for<VisionConfig>(config, overrides, options),
                                          options.device);
  }
  require<UsageError>(experiment == "language",
                      "{} describes the experiment \"{}\", must be \"vision\" or \"language\"",
                      config.string(), experiment);
  const auto text = load_for<LanguageConfig>(config, overrides, options);
  require_readable_segments(text);
  return std::make_unique<RandomText>(text, text.data.max_words.value_or(options.words),
                                      options.device);
}

torch::Tensor random_words(c10::IntArrayRef shape, int64_t vocabulary, torch::Device device) {
  const auto share = torch::rand(shape, torch::TensorOptions(device).dtype(torch::kFloat64));
  return share.mul(std::log(static_cast<double>(vocabulary)))
      .exp_()
      .sub_(1)
      .floor_()
      .clamp_(0, vocabulary - 1)
      .to(torch::kInt64);
}

}  // namespace deq::lab
