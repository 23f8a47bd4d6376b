#include "replay/recorded_step.h"

#include <torch/autograd.h>

#include "core/require.h"
#include "core/write_check.h"
#include "replay/recording_gate.h"

namespace deq {

torch::Tensor BoundStep::operator()(const torch::Tensor& slab) const {
  const auto step = [this](const torch::Tensor& z) {
    return layout.pack(cell->step(layout.unpack(z), context));
  };
  if (!autocast || autocast->stands()) return image_of(step, slab);
  const AutocastAs as_it_was(*autocast);
  return image_of(step, slab);
}

BoundStep without_gradients(BoundStep step) {
  for (auto& tensor : step.context) {
    if (tensor.defined()) tensor = tensor.detach();
  }
  return step;
}

void RecordedStep::Tape::prepare(bool with_gradients) {
  const torch::AutoGradMode on_tape(with_gradients);
  step.context = step.cell->prepare(inputs);
}

void RecordedStep::Tape::linearise() {
  const torch::AutoGradMode on_tape(true);
  f = step(z);
  ends.redirect(f);
}

torch::Tensor RecordedStep::Tape::product(const torch::Tensor& u, bool differentiable) const {
  const torch::AutoGradMode on_tape(differentiable);
  auto result = torch::autograd::grad({f}, {z}, {u}, /*retain_graph=*/true, differentiable,
                                      /*allow_unused=*/true)[0];
  result = result.defined() ? result.contiguous() : torch::zeros_like(z);
  if (differentiable) ends.redirect(result);
  return result;
}

/// The same pass evaluated, beside the one that is replayed.
class RecordedStep::Evaluated {
 public:
  explicit Evaluated(RecordedStep& recorded)
      : recorded_(recorded),
        check_(recorded.z_.device()),
        tape_{.step = recorded.tape_.step, .ends = recorded.work_.ends()} {}

  void load(const Inputs& inputs) {
    tape_.inputs = own_inputs(inputs, recorded_.with_gradients_);
    products_.clear();
    both("prepare()", *recorded_.prepare_graph_,
         [this] { tape_.prepare(recorded_.with_gradients_); });
    check_.expect_same("prepare()'s result", recorded_.tape_.step.context, tape_.step.context);
  }

  void f() {
    torch::Tensor value;
    both("f(z)", *recorded_.f_graph_, [&] {
      const torch::NoGradGuard constant;
      value = tape_.step(recorded_.z_);
    });
    check_.expect_same("f(z)", recorded_.f_, value);
  }

  void linearise() {
    tape_.z = recorded_.tape_.z.detach().clone().requires_grad_();
    both("f(z*)", *recorded_.tape_graph_, [this] { tape_.linearise(); });
    check_.expect_same("f(z*)", recorded_.tape_.f, tape_.f);
  }

  void vjp() {
    torch::Tensor value;
    backward("a product with J", *recorded_.vjp_graph_,
             [&] { value = tape_.product(recorded_.u_, /*differentiable=*/false); });
    check_.expect_same("a product with J", recorded_.vjp_, value);
  }

  void gradients() {
    std::vector<torch::Tensor> values;
    backward("the gradients", *recorded_.gradients_graph_,
             [&] { values = tape_.gradients(tape_.f, recorded_.u_); });
    check_.expect_same_gradients("the gradients", recorded_.gradients_, values);
  }

  void product(size_t number) {
    auto& recorded = *recorded_.products_[number];
    torch::Tensor value;
    backward("a product with J", *recorded.graph,
             [&] { value = tape_.product(recorded.u, /*differentiable=*/true); });
    check_.expect_same("a product with J", recorded.value, value);
    products_.resize(std::max(products_.size(), number + 1));
    products_[number] = value;
  }

  void product_gradients(size_t number) {
    auto& recorded = *recorded_.products_[number];
    std::vector<torch::Tensor> values;
    backward("the gradients of a product with J", *recorded.gradients_graph,
             [&] { values = tape_.gradients(products_.at(number), recorded.w); });
    check_.expect_same_gradients("the gradients of a product with J", recorded.gradients, values);
  }

 private:
  void both(const char* what, DeviceGraph& graph, const std::function<void()>& evaluate) {
    check_.replay_and_evaluate(
        recorded_.work_, what, [&graph] { graph.replay(); }, evaluate);
  }

  void backward(const char* what, DeviceGraph& graph, const std::function<void()>& evaluate) {
    const NoAutocast in_forward_types(recorded_.z_.device());
    both(what, graph, evaluate);
  }

  RecordedStep& recorded_;
  ReplayCheck check_;
  Tape tape_;
  std::vector<torch::Tensor> products_;
};

RecordedStep::RecordedStep(const StepShape& like)
    : with_gradients_(like.with_gradients),
      work_(like.z.device(), {like.cell}, with_gradients_),
      tape_{.step = {.cell = like.cell, .layout = like.layout, .context = {}},
            .ends = work_.ends()},
      constant_(tape_.step),
      z_(own_memory(like.z)),
      notice_(like.notice) {
  tape_.inputs = own_inputs(like.inputs, with_gradients_);
  prepare_graph_ = work_.record_forward([this] {
    tape_.prepare(with_gradients_);
    constant_ = without_gradients(tape_.step);
  });
  f_graph_ = work_.record_forward([this] {
    const torch::NoGradGuard constant;
    f_ = constant_(z_);
  });
  if (with_gradients_) record_gradients();
  if (like.checked) check_ = std::make_unique<Evaluated>(*this);
}

RecordedStep::~RecordedStep() = default;

void RecordedStep::load(const Inputs& inputs) {
  copy_inputs(tape_.inputs, inputs);
  if (check_) return check_->load(inputs);
  prepare_graph_->replay();
}

const torch::Tensor& RecordedStep::f(const torch::Tensor& z) {
  copy_into(z_, z);
  check_ ? check_->f() : f_graph_->replay();
  return f_;
}

void RecordedStep::record_gradients() {
  tape_.z = own_memory(z_).requires_grad_();
  u_ = own_memory(z_);
  tape_graph_ = work_.record_forward([this] { tape_.linearise(); });
  require(tape_.f.requires_grad(), "f does not depend on z by a graph");
  vjp_graph_ =
      work_.record_backward([this] { vjp_ = tape_.product(u_, /*differentiable=*/false); });
  gradients_graph_ = work_.record_backward([this] { gradients_ = tape_.gradients(tape_.f, u_); });
}

void RecordedStep::linearise(const torch::Tensor& z) {
  copy_into(tape_.z, z);
  check_ ? check_->linearise() : tape_graph_->replay();
}

const torch::Tensor& RecordedStep::vjp(const torch::Tensor& u) {
  copy_into(u_, u);
  check_ ? check_->vjp() : vjp_graph_->replay();
  return vjp_;
}

const std::vector<torch::Tensor>& RecordedStep::gradients(const torch::Tensor& u) {
  copy_into(u_, u);
  check_ ? check_->gradients() : gradients_graph_->replay();
  return gradients_;
}

std::unique_ptr<RecordedStep::Product> RecordedStep::record_product() {
  auto product = std::make_unique<Product>(Product{.u = own_memory(z_), .w = own_memory(z_)});
  // It must outlive products and gradients that are replayed between it and its own gradients.
  work_.begin_own_memory();
  product->graph = work_.record_backward(
      [this, &own = *product] { own.value = tape_.product(own.u, /*differentiable=*/true); });
  product->gradients_graph = work_.record_backward(
      [this, &own = *product] { own.gradients = tape_.gradients(own.value, own.w); });
  return product;
}

bool RecordedStep::records_product(size_t number) {
  if (number < products_.size()) return true;
  if (products_refused_) return false;
  const RecordingPermit permit;
  if (!permit) return false;
  try {
    while (products_.size() <= number) products_.push_back(record_product());
    return true;
  } catch (const std::exception& error) {
    products_refused_ = true;
    notice_->tell(error);
    return false;
  }
}

torch::Tensor RecordedStep::product(size_t number, const torch::Tensor& u) {
  auto& product = *products_[number];
  copy_into(product.u, u);
  check_ ? check_->product(number) : product.graph->replay();
  return product.value.detach().clone();
}

torch::Tensor RecordedStep::evaluated_product(const torch::Tensor& u) {
  const NoAutocast in_forward_types(z_.device());
  const c10::InferenceMode ordinary_tensors(false);
  const GradientEnds::Making making(work_.ends());
  return tape_.product(u, /*differentiable=*/true);
}

std::vector<torch::Tensor> RecordedStep::evaluated_product_gradients(const torch::Tensor& product,
                                                                     const torch::Tensor& w) {
  const NoAutocast in_forward_types(z_.device());
  return tape_.gradients(product, w);
}

const std::vector<torch::Tensor>& RecordedStep::product_gradients(size_t number,
                                                                  const torch::Tensor& w) {
  auto& product = *products_[number];
  copy_into(product.w, w);
  check_ ? check_->product_gradients(number) : product.gradients_graph->replay();
  return product.gradients;
}

}  // namespace deq
