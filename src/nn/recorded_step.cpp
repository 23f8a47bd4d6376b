#include "nn/recorded_step.h"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>

#include "deq/core/error.h"

namespace deq {
namespace {

/// Casts that autocast remembers would be recorded as they are now, and be old at the next replay.
class NoRememberedCasts {
 public:
  NoRememberedCasts() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoRememberedCasts() { at::autocast::set_autocast_cache_enabled(before_); }
  NoRememberedCasts(const NoRememberedCasts&) = delete;
  NoRememberedCasts& operator=(const NoRememberedCasts&) = delete;

 private:
  bool before_;
};

/// Backward computes in the types of forward, and nothing is cast on the way.
class NoAutocast {
 public:
  explicit NoAutocast(const torch::Tensor& like)
      : device_(like.device().type()), before_(at::autocast::is_autocast_enabled(device_)) {
    at::autocast::set_autocast_enabled(device_, false);
  }
  ~NoAutocast() { at::autocast::set_autocast_enabled(device_, before_); }
  NoAutocast(const NoAutocast&) = delete;
  NoAutocast& operator=(const NoAutocast&) = delete;

 private:
  torch::DeviceType device_;
  bool before_;
};

/// Without a new version: autograd need not know, because what it saved is computed anew as well.
void copy_into(const torch::Tensor& own, const torch::Tensor& from) {
  const torch::NoGradGuard no_grad;
  own.variable_data().copy_(from);
}

torch::Tensor own_memory(const torch::Tensor& like) {
  const torch::NoGradGuard no_grad;
  return torch::empty_like(like).copy_(like.detach());
}

std::vector<torch::Tensor> trained(const torch::nn::Module& module) {
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : module.parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  return parameters;
}

}  // namespace

BoundStep without_gradients(BoundStep step) {
  for (auto& tensor : step.context) {
    if (tensor.defined()) tensor = tensor.detach();
  }
  return step;
}

RecordedStep::RecordedStep(const StepShape& like)
    : with_gradients_(like.with_gradients),
      tape_{.cell = like.cell, .layout = like.layout, .context = {}},
      constant_(tape_),
      parameters_(trained(*like.cell)),
      accumulators_(parameters_),
      recorder_(make_graph_recorder(like.z.device())),
      z_(own_memory(like.z)) {
  for (const auto& input : like.inputs) {
    inputs_.push_back(input.defined() ? own_memory(input) : input);
    if (!with_gradients_ || !input.defined() || !input.requires_grad()) continue;
    own_leaves_.push_back(inputs_.back().requires_grad_());
  }
  own_leaves_.insert(own_leaves_.end(), parameters_.begin(), parameters_.end());
  prepare_graph_ = record([this] {
    const torch::AutoGradMode on_tape(with_gradients_);
    tape_.context = tape_.cell->prepare(inputs_);
    constant_ = without_gradients(tape_);
  });
  f_graph_ = record([this] {
    const torch::NoGradGuard constant;
    f_ = constant_(z_);
  });
  if (with_gradients_) record_gradients();
}

std::unique_ptr<DeviceGraph> RecordedStep::record(const std::function<void()>& work) {
  const NoRememberedCasts fresh_casts;
  return recorder_->record([this, work] {
    const GradAccumulators::Scope own(accumulators_);
    work();
  });
}

void RecordedStep::load(const Inputs& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) copy_into(inputs_[i], inputs[i]);
  }
  prepare_graph_->replay();
}

torch::Tensor RecordedStep::f(const torch::Tensor& z) {
  copy_into(z_, z);
  f_graph_->replay();
  return f_.clone();
}

torch::Tensor RecordedStep::gradient_of(const torch::Tensor& value, const torch::Tensor& along,
                                        bool differentiable) const {
  const auto result = torch::autograd::grad({value}, {z_star_}, {along}, /*retain_graph=*/true,
                                            differentiable, /*allow_unused=*/true)[0];
  return result.defined() ? result.contiguous() : torch::zeros_like(z_star_);
}

std::vector<torch::Tensor> RecordedStep::gradients_of(const torch::Tensor& value,
                                                      const torch::Tensor& along) const {
  if (own_leaves_.empty() || !value.requires_grad()) {
    return std::vector<torch::Tensor>(own_leaves_.size());
  }
  return torch::autograd::grad({value}, own_leaves_, {along}, /*retain_graph=*/true,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

void RecordedStep::record_gradients() {
  z_star_ = own_memory(z_).requires_grad_();
  u_ = own_memory(z_);
  tape_graph_ = record([this] {
    const torch::AutoGradMode on_tape(true);
    f_star_ = tape_(z_star_);
  });
  require(f_star_.requires_grad(), "f does not depend on z by a graph");
  const NoAutocast in_forward_types(z_);
  vjp_graph_ = record([this] { vjp_ = gradient_of(f_star_, u_, /*differentiable=*/false); });
  gradients_graph_ = record([this] { gradients_ = gradients_of(f_star_, u_); });
}

void RecordedStep::linearise(const torch::Tensor& z) {
  copy_into(z_star_, z);
  tape_graph_->replay();
}

torch::Tensor RecordedStep::vjp(const torch::Tensor& u) {
  copy_into(u_, u);
  vjp_graph_->replay();
  return vjp_.clone();
}

const std::vector<torch::Tensor>& RecordedStep::gradients(const torch::Tensor& u) {
  copy_into(u_, u);
  gradients_graph_->replay();
  return gradients_;
}

std::unique_ptr<RecordedStep::Product> RecordedStep::record_product() {
  auto product = std::make_unique<Product>(Product{.u = own_memory(z_), .w = own_memory(z_)});
  const NoAutocast in_forward_types(z_);
  product->graph = record([this, &own = *product] {
    const torch::AutoGradMode on_tape(true);
    own.value = gradient_of(f_star_, own.u, /*differentiable=*/true);
  });
  product->gradients_graph =
      record([this, &own = *product] { own.gradients = gradients_of(own.value, own.w); });
  return product;
}

torch::Tensor RecordedStep::product(size_t number, const torch::Tensor& u) {
  while (products_.size() <= number) products_.push_back(record_product());
  auto& product = *products_[number];
  copy_into(product.u, u);
  product.graph->replay();
  return product.value.detach().clone();
}

const std::vector<torch::Tensor>& RecordedStep::product_gradients(size_t number,
                                                                  const torch::Tensor& w) {
  auto& product = *products_[number];
  copy_into(product.w, w);
  product.gradients_graph->replay();
  return product.gradients;
}

std::vector<torch::Tensor> RecordedStep::leaves(const Inputs& inputs) const {
  std::vector<torch::Tensor> result;
  for (const auto& input : inputs) {
    if (input.defined() && input.requires_grad()) result.push_back(input);
  }
  result.insert(result.end(), parameters_.begin(), parameters_.end());
  return result;
}

}  // namespace deq
