#pragma once

#include <memory>
#include <vector>

#include "core/device_graph.h"
#include "deq/nn/cell.h"

namespace deq {

/// f with all that is constant during one pass.
struct BoundStep {
  std::shared_ptr<Cell> cell;
  StateLayout layout;
  Context context;

  torch::Tensor operator()(const torch::Tensor& slab) const {
    return layout.pack(cell->step(layout.unpack(slab), context));
  }
};

/// A cell's step at fixed shapes, its products with J and its gradients, as graphs on memory of
/// their own: what a pass brings is copied in, what it wants is copied out. Serves one pass at a
/// time, whose order is load, f as often as wanted, linearise, product, then vjp and the gradients.
class RecordedStep {
 public:
  /// Records f for passes with contexts like this one's.
  RecordedStep(const BoundStep& like, const torch::Tensor& z);
  /// Records what linearise, vjp and gradients need, once.
  void record_gradients();

  void load(const Context& context);
  torch::Tensor f(const torch::Tensor& z);

  /// f with its graph at z, which all that follows refers to.
  void linearise(const torch::Tensor& z);
  torch::Tensor vjp(const torch::Tensor& u);
  /// uᵀ∂f/∂θ for all θ of `leaves`; undefined where f does not depend on one. They hold until the
  /// next call.
  const std::vector<torch::Tensor>& gradients(const torch::Tensor& u);

  /// uᵀJ once more, this time to be differentiated, and w·∂(uᵀJ)/∂θ.
  torch::Tensor product(const torch::Tensor& u);
  const std::vector<torch::Tensor>& product_gradients(const torch::Tensor& w);

  /// Everything of a pass with gradients: the tensors of its context, then the cell's parameters.
  std::vector<torch::Tensor> leaves(const Context& context) const;

 private:
  void record_product();
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work);
  torch::Tensor gradient_of(const torch::Tensor& value, const torch::Tensor& along,
                            bool differentiable) const;
  std::vector<torch::Tensor> gradients_of(const torch::Tensor& value,
                                          const torch::Tensor& along) const;

  BoundStep constant_, tape_;              // the same memory as context; the second with gradients
  std::vector<torch::Tensor> parameters_;  // those of the cell that are trained
  std::vector<torch::Tensor> own_leaves_;  // on the tape
  std::unique_ptr<GraphRecorder> recorder_;

  torch::Tensor z_, f_;              // of the solve
  torch::Tensor z_star_, f_star_;    // on the tape
  torch::Tensor u_, product_u_, w_;  // what products and gradients are taken along
  torch::Tensor vjp_, product_;
  std::vector<torch::Tensor> gradients_, product_gradients_;
  std::unique_ptr<DeviceGraph> f_graph_, tape_graph_, vjp_graph_, gradients_graph_, product_graph_,
      product_gradients_graph_;
};

}  // namespace deq
