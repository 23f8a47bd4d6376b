#include "deq/lab/train/optimiser.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <omp.h>

#include <cmath>

#include "core/require.h"

namespace deq::lab {
namespace {

constexpr std::string_view kNames[] = {"adam", "adamw", "sgd"};
static_assert(std::size(kNames) == std::variant_size_v<OptimiserOptions>);

template <class AnyAdam>
void check(std::string_view who, const AnyAdam& o) {
  require(o.beta1 >= 0 && o.beta1 < 1, "{}: beta1 = {:g}, must be in [0, 1)", who, o.beta1);
  require(o.beta2 >= 0 && o.beta2 < 1, "{}: beta2 = {:g}, must be in [0, 1)", who, o.beta2);
  require(o.eps > 0, "{}: eps = {:g}, must be > 0", who, o.eps);
}

void check(std::string_view who, const Sgd& o) {
  require(o.momentum >= 0 && o.momentum < 1, "{}: momentum = {:g}, must be in [0, 1)", who,
          o.momentum);
  require(!o.nesterov || o.momentum > 0, "{}: nesterov needs momentum > 0", who);
}

/// libtorch's fused kernels wake every thread whatever the size; for a small model that costs many
/// times the work itself. One thread, for this thread's parallel regions, while in scope.
class OneThreadIfSmall {
 public:
  explicit OneThreadIfSmall(int64_t numbers) : before_(omp_get_max_threads()) {
    if (numbers < kWorthWaking) omp_set_num_threads(1);
  }
  ~OneThreadIfSmall() { omp_set_num_threads(before_); }
  OneThreadIfSmall(const OneThreadIfSmall&) = delete;
  OneThreadIfSmall& operator=(const OneThreadIfSmall&) = delete;

 private:
  static constexpr int64_t kWorthWaking = 32'768;
  int before_;
};

std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace

std::string_view name(const OptimiserOptions& options) {
  return kNames[options.index()];
}

void validate(const OptimiserOptions& options) {
  std::visit(
      [&options](const auto& o) {
        check(name(options), o);
        require(o.weight_decay >= 0, "{}: weight_decay = {:g}, must be ≥ 0", name(options),
                o.weight_decay);
      },
      options);
}

struct Optimiser::Touched {
  std::vector<torch::Tensor> parameters, gradients, first, second, steps;
};

Optimiser::Optimiser(const OptimiserOptions& options, const NamedParameters& parameters)
    : options_(options) {
  validate(options_);
  const auto* sgd = std::get_if<Sgd>(&options_);
  for (const auto& [parameter_name, parameter] : parameters) {
    if (sgd == nullptr || sgd->momentum > 0) first_.push_back(torch::zeros_like(parameter));
    if (sgd == nullptr) {
      second_.push_back(torch::zeros_like(parameter));
      steps_.push_back(torch::zeros({}, parameter.options().dtype(torch::kFloat32)));
    }
    names_.push_back(parameter_name);
    parameters_.push_back(parameter);
  }
}

Optimiser::Touched Optimiser::touched() {
  Touched lists;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    lists.parameters.push_back(parameters_[i]);
    lists.gradients.push_back(parameters_[i].grad());
    if (!first_.empty()) lists.first.push_back(first_[i]);
    if (!second_.empty()) lists.second.push_back(second_[i]);
    if (!steps_.empty()) lists.steps.push_back(steps_[i]);
  }
  return lists;
}

void Optimiser::step(double lr) {
  const torch::NoGradGuard no_grad;
  const auto lists = touched();
  if (lists.parameters.empty()) return;
  if (!lists.steps.empty()) at::_foreach_add_(lists.steps, 1);
  int64_t numbers = 0;
  for (const auto& parameter : lists.parameters) numbers += parameter.numel();
  const OneThreadIfSmall threads(numbers);
  if (const auto* adam = std::get_if<Adam>(&options_)) {
    at::_fused_adam_(lists.parameters, lists.gradients, lists.first, lists.second, {}, lists.steps,
                     lr, adam->beta1, adam->beta2, adam->weight_decay, adam->eps,
                     /*amsgrad=*/false, /*maximize=*/false);
  } else if (const auto* adamw = std::get_if<AdamW>(&options_)) {
    at::_fused_adamw_(lists.parameters, lists.gradients, lists.first, lists.second, {}, lists.steps,
                      lr, adamw->beta1, adamw->beta2, adamw->weight_decay, adamw->eps,
                      /*amsgrad=*/false, /*maximize=*/false);
  } else {
    const auto& sgd = std::get<Sgd>(options_);
    // A momentum that starts at zero makes the first step like any other.
    at::_fused_sgd_(lists.parameters, lists.gradients, lists.first, sgd.weight_decay, sgd.momentum,
                    lr, /*dampening=*/0, sgd.nesterov, /*maximize=*/false,
                    /*is_first_step=*/false);
  }
}

void Optimiser::zero_grad() {
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
}

std::map<std::string, torch::Tensor> Optimiser::state() const {
  const bool sgd = std::holds_alternative<Sgd>(options_);
  std::map<std::string, torch::Tensor> tensors;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!first_.empty()) tensors[(sgd ? "momentum/" : "exp_avg/") + names_[i]] = first_[i];
    if (!second_.empty()) tensors["exp_avg_sq/" + names_[i]] = second_[i];
    if (!steps_.empty()) tensors["step/" + names_[i]] = steps_[i];
  }
  return tensors;
}

Optimiser::NamedParameters trainable(const torch::nn::Module& model) {
  Optimiser::NamedParameters named;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) named.emplace_back(item.key(), item.value());
  }
  require(!named.empty(), "the model has no parameters to train");
  return named;
}

double gradient_norm(const std::vector<torch::Tensor>& parameters) {
  const torch::NoGradGuard no_grad;
  const auto gradients = gradients_of(parameters);
  if (gradients.empty()) return 0;
  const auto norms = at::_foreach_norm(gradients, 2);
  if (norms.front().is_cuda()) return torch::stack(norms).norm().item<double>();  // one host read
  double square = 0;
  for (const auto& norm : norms) square += std::pow(norm.item<double>(), 2);
  return std::sqrt(square);
}

void scale_gradients(const std::vector<torch::Tensor>& parameters, double factor) {
  const torch::NoGradGuard no_grad;
  const auto gradients = gradients_of(parameters);
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor);
}

}  // namespace deq::lab
