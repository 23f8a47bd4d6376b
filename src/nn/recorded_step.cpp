#include "nn/recorded_step.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/_foreach_copy.h>
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
  return torch::empty_like(like).copy_(like.detach());
}

}  // namespace

RecordedStep::RecordedStep(const BoundStep& like, const torch::Tensor& z)
    : constant_{.cell = like.cell, .layout = like.layout, .context = {}},
      tape_(constant_),
      recorder_(make_graph_recorder(z.device())) {
  const torch::NoGradGuard no_grad;
  for (const auto& tensor : like.context) {
    constant_.context.push_back(tensor.defined() ? own_memory(tensor) : tensor);
    tape_.context.push_back(constant_.context.back());
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    tape_.context.back() = constant_.context.back().detach().requires_grad_();
    own_leaves_.push_back(tape_.context.back());
  }
  for (const auto& parameter : like.cell->parameters()) {
    if (parameter.requires_grad()) parameters_.push_back(parameter);
  }
  own_leaves_.insert(own_leaves_.end(), parameters_.begin(), parameters_.end());
  z_ = own_memory(z);
  f_graph_ = record([this] {
    const torch::NoGradGuard constant;
    f_ = constant_(z_);
  });
}

std::unique_ptr<DeviceGraph> RecordedStep::record(const std::function<void()>& work) {
  const NoRememberedCasts fresh_casts;
  return recorder_->record(work);
}

void RecordedStep::load(const Context& context) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> own, from;
  for (size_t i = 0; i < context.size(); ++i) {
    if (!context[i].defined()) continue;
    own.push_back(constant_.context[i].variable_data());
    from.push_back(context[i].detach());
  }
  if (!own.empty()) at::_foreach_copy_(own, from);
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
  if (tape_graph_) return;
  z_star_ = own_memory(z_).requires_grad_();
  u_ = torch::zeros_like(z_);
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

void RecordedStep::record_product() {
  product_u_ = torch::zeros_like(z_);
  w_ = torch::zeros_like(z_);
  const NoAutocast in_forward_types(z_);
  product_graph_ = record([this] {
    const torch::AutoGradMode on_tape(true);
    product_ = gradient_of(f_star_, product_u_, /*differentiable=*/true);
  });
  product_gradients_graph_ = record([this] { product_gradients_ = gradients_of(product_, w_); });
}

torch::Tensor RecordedStep::product(const torch::Tensor& u) {
  if (!product_graph_) record_product();
  copy_into(product_u_, u);
  product_graph_->replay();
  return product_.detach().clone();
}

const std::vector<torch::Tensor>& RecordedStep::product_gradients(const torch::Tensor& w) {
  copy_into(w_, w);
  product_gradients_graph_->replay();
  return product_gradients_;
}

std::vector<torch::Tensor> RecordedStep::leaves(const Context& context) const {
  std::vector<torch::Tensor> result;
  for (const auto& tensor : context) {
    if (tensor.defined() && tensor.requires_grad()) result.push_back(tensor);
  }
  result.insert(result.end(), parameters_.begin(), parameters_.end());
  return result;
}

}  // namespace deq
