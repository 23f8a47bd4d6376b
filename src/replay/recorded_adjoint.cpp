#include "replay/recorded_adjoint.h"

#include <utility>

#include "replay/recording_gate.h"
#include "replay/replayed.h"

namespace deq {
namespace {

class RecordedProducts final : public JacobianProducts {
 public:
  RecordedProducts(const torch::Tensor& z, Inputs inputs, StepLoan loan)
      : JacobianProducts(z.detach().requires_grad_()),
        inputs_(std::move(inputs)),
        loan_(std::move(loan)) {}

  torch::Tensor vjp(const torch::Tensor& u, bool differentiable) override {
    const auto recorded = loan_->get();
    const auto leaves = recorded->leaves(inputs_);
    if (!differentiable || !need_graph(leaves)) return recorded->vjp(u).clone();
    if (!recorded->records_product(taken_)) return evaluated(*recorded, leaves, u);
    const auto number = taken_++;
    return replayed(leaves, recorded->product(number, u),
                    [number, held = loan_->hold()](const torch::Tensor& w) {
                      return held->product_gradients(number, w);
                    });
  }

  torch::Tensor passing_vjp(const torch::Tensor& u) override { return loan_->get()->vjp(u); }
  torch::Tensor u_buffer() const override { return loan_->get()->u_buffer(); }
  torch::Tensor f() const override { return loan_->get()->f_at_linearisation().clone(); }

 private:
  torch::Tensor evaluated(RecordedStep& recorded, const std::vector<torch::Tensor>& leaves,
                          const torch::Tensor& u) {
    auto pause = std::make_shared<RecordingPause>();
    const PassScope pass;
    const auto product = recorded.evaluated_product(u);
    return replayed(leaves, product.detach().clone(),
                    [product, held = loan_->hold(), pause](const torch::Tensor& w) {
                      return held->evaluated_product_gradients(product, w);
                    });
  }

  Inputs inputs_;
  StepLoan loan_;
  size_t taken_ = 0;  // differentiable products, each with a graph on memory of its own
};

}  // namespace

Linearization recorded_linearization(const Inputs& inputs, const torch::Tensor& z_star,
                                     StepLoan loan) {
  return Linearization(std::make_shared<RecordedProducts>(z_star, inputs, std::move(loan)));
}

torch::Tensor attach_recorded_adjoint(const torch::Tensor& value, const Inputs& inputs,
                                      const Linearization& at, const StepLoan& loan,
                                      AdjointRule rule, std::shared_ptr<Report> report) {
  const auto leaves = loan->get()->leaves(inputs);
  if (!need_graph(leaves)) return value.detach();
  return replayed(leaves, value,
                  [at, held = loan->hold(), rule = std::move(rule),
                   report = std::move(report)](const torch::Tensor& g) {
                    Report outcome;
                    const auto u = rule(at, g, outcome);
                    *report = std::move(outcome);
                    return held->gradients(u);
                  });
}

}  // namespace deq
