#include "nn/recorded_adjoint.h"

#include <utility>

#include "nn/replayed.h"

namespace deq {
namespace {

class RecordedProducts final : public JacobianProducts {
 public:
  RecordedProducts(Inputs inputs, std::shared_ptr<RecordedStep> recorded)
      : inputs_(std::move(inputs)), recorded_(std::move(recorded)) {}

  torch::Tensor vjp(const torch::Tensor& u, bool differentiable) override {
    if (!differentiable) return recorded_->vjp(u).clone();
    const auto number = taken_++;
    return replayed(recorded_->leaves(inputs_), recorded_->product(number, u),
                    [number, recorded = recorded_](const torch::Tensor& w) {
                      return recorded->product_gradients(number, w);
                    });
  }

  torch::Tensor passing_vjp(const torch::Tensor& u) override { return recorded_->vjp(u); }
  torch::Tensor place_of_u() const override { return recorded_->place_of_u(); }

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
