#include "nn/recorded_step.h"

#include <torch/autograd.h>

#include "deq/core/error.h"

namespace deq {

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
      work_(like.z.device(), parameters_),
      z_(own_memory(like.z)) {
  inputs_ = own_inputs(like.inputs, with_gradients_);
  own_leaves_ = leaves_of(inputs_, parameters_);
  prepare_graph_ = work_.record_forward([this] {
    const torch::AutoGradMode on_tape(with_gradients_);
    tape_.context = tape_.cell->prepare(inputs_);
    constant_ = without_gradients(tape_);
  });
  f_graph_ = work_.record_forward([this] {
    const torch::NoGradGuard constant;
    f_ = constant_(z_);
  });
  if (with_gradients_) record_gradients();
}

void RecordedStep::load(const Inputs& inputs) {
  copy_inputs(inputs_, inputs);
  prepare_graph_->replay();
}

const torch::Tensor& RecordedStep::f(const torch::Tensor& z) {
  copy_into(z_, z);
  f_graph_->replay();
  return f_;
}

torch::Tensor RecordedStep::gradient_of(const torch::Tensor& value, const torch::Tensor& along,
                                        bool differentiable) const {
  const auto result = torch::autograd::grad({value}, {z_star_}, {along}, /*retain_graph=*/true,
                                            differentiable, /*allow_unused=*/true)[0];
  return result.defined() ? result.contiguous() : torch::zeros_like(z_star_);
}

void RecordedStep::record_gradients() {
  z_star_ = own_memory(z_).requires_grad_();
  u_ = own_memory(z_);
  tape_graph_ = work_.record_forward([this] {
    const torch::AutoGradMode on_tape(true);
    f_star_ = tape_(z_star_);
  });
  require(f_star_.requires_grad(), "f does not depend on z by a graph");
  vjp_graph_ =
      work_.record_backward([this] { vjp_ = gradient_of(f_star_, u_, /*differentiable=*/false); });
  gradients_graph_ =
      work_.record_backward([this] { gradients_ = gradients_of(f_star_, own_leaves_, u_); });
}

void RecordedStep::linearise(const torch::Tensor& z) {
  copy_into(z_star_, z);
  tape_graph_->replay();
}

const torch::Tensor& RecordedStep::vjp(const torch::Tensor& u) {
  copy_into(u_, u);
  vjp_graph_->replay();
  return vjp_;
}

const std::vector<torch::Tensor>& RecordedStep::gradients(const torch::Tensor& u) {
  copy_into(u_, u);
  gradients_graph_->replay();
  return gradients_;
}

std::unique_ptr<RecordedStep::Product> RecordedStep::record_product() {
  auto product = std::make_unique<Product>(Product{.u = own_memory(z_), .w = own_memory(z_)});
  // It must outlive products and gradients that are replayed between it and its own gradients.
  work_.begin_own_memory();
  product->graph = work_.record_backward([this, &own = *product] {
    const torch::AutoGradMode on_tape(true);
    own.value = gradient_of(f_star_, own.u, /*differentiable=*/true);
  });
  product->gradients_graph = work_.record_backward(
      [this, &own = *product] { own.gradients = gradients_of(own.value, own_leaves_, own.w); });
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

}  // namespace deq
