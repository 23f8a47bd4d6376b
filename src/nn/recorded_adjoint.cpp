#include "nn/recorded_adjoint.h"

#include <torch/autograd.h>

#include <functional>
#include <utility>

#include "deq/core/error.h"

namespace deq {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// What a replayed value's backward does: from its gradient to those of the leaves.
struct LeafGradients : torch::CustomClassHolder {
  using Function = std::function<tensor_list(const torch::Tensor&)>;
  explicit LeafGradients(Function gradients) : of(std::move(gradients)) {}
  Function of;
};

/// A value that was computed elsewhere, as a function of `leaves`.
struct Replayed : torch::autograd::Function<Replayed> {
  static torch::Tensor forward(AutogradContext* context, at::TensorList leaves,
                               const torch::Tensor& value,
                               const c10::intrusive_ptr<LeafGradients>& gradients) {
    context->saved_data["gradients"] = c10::IValue::make_capsule(gradients);
    context->saved_data["leaves"] = static_cast<int64_t>(leaves.size());
    return value.view_as(value);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    require(!torch::GradMode::is_enabled(),
            "a replayed equilibrium cannot be differentiated again (create_graph); use the "
            "Unrolled gradient where second derivatives are needed");
    const auto capsule = c10::static_intrusive_pointer_cast<LeafGradients>(
        context->saved_data["gradients"].toCapsule());
    auto result = capsule->of(gradients[0].contiguous());
    require(static_cast<int64_t>(result.size()) == context->saved_data["leaves"].toInt(),
            "a replayed equilibrium has gradients for ", result.size(), " leaves of ",
            context->saved_data["leaves"].toInt());
    result.emplace_back();  // for `value`
    result.emplace_back();  // for `gradients`
    return result;
  }
};

torch::Tensor replayed(const std::vector<torch::Tensor>& leaves, const torch::Tensor& value,
                       LeafGradients::Function gradients) {
  return Replayed::apply(at::TensorList(leaves), value,
                         c10::make_intrusive<LeafGradients>(std::move(gradients)));
}

class RecordedProducts final : public JacobianProducts {
 public:
  RecordedProducts(Inputs inputs, std::shared_ptr<RecordedStep> recorded)
      : inputs_(std::move(inputs)), recorded_(std::move(recorded)) {}

  torch::Tensor vjp(const torch::Tensor& u, bool differentiable) override {
    if (!differentiable) return recorded_->vjp(u);
    const auto number = taken_++;
    return replayed(recorded_->leaves(inputs_), recorded_->product(number, u),
                    [number, recorded = recorded_](const torch::Tensor& w) {
                      return recorded->product_gradients(number, w);
                    });
  }

 private:
  Inputs inputs_;
  std::shared_ptr<RecordedStep> recorded_;
  size_t taken_ = 0;  // differentiable products, each with a graph on memory of its own
};

}  // namespace

Linearization recorded_linearization(const Inputs& inputs, const torch::Tensor& z_star,
                                     std::shared_ptr<RecordedStep> recorded) {
  return {.z = z_star.detach().requires_grad_(),
          .f = {},
          .products = std::make_shared<RecordedProducts>(inputs, std::move(recorded))};
}

torch::Tensor attach_recorded_adjoint(const Inputs& inputs, const Linearization& at,
                                      std::shared_ptr<RecordedStep> recorded, AdjointRule rule,
                                      std::shared_ptr<Report> report) {
  const auto leaves = recorded->leaves(inputs);
  return replayed(leaves, at.z.detach(),
                  [at, recorded = std::move(recorded), rule = std::move(rule),
                   report = std::move(report)](const torch::Tensor& g) {
                    Report outcome;
                    const auto u = rule(at, g, outcome);
                    *report = std::move(outcome);
                    return recorded->gradients(u);
                  });
}

}  // namespace deq
