#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "deq/core/cell.h"
#include "deq/models/transformer/looped_options.h"

namespace deq::models {

class LoopedLayer;
class TransformerLinear;

/// The core of a looped Transformer. Its state is s [B, q, d_model], and one loop is
///
///   h₀ = norm(A s + E e + b),   hᵢ = layerᵢ(hᵢ₋₁),   f(s) = h of the last layer,
///
/// e being what the prelude made of the words. Layers add attention, then a feed-forward part, and
/// normalise after each: with a normalised input and norms without parameters that is the sandwich,
/// a norm before and after each part, and every position of f(s) has mean 0 and spread 1.
///
/// Inputs are e [B, q, d_model], the distances of the m + q keys, encoded [m + q, d_model], the
/// farthest first, and where there is a memory of m > 0 positions, the input hᵢ₋₁ [B, m, d_model]
/// of every layer there.
class LoopedCellImpl : public Cell {
 public:
  explicit LoopedCellImpl(const LoopedTransformerOptions& options,
                          const std::optional<at::Generator>& generator = {});

  /// In training numbers from torch's own generator; else the same vector at every position, drawn
  /// once and kept with the weights.
  State initial_state(const Inputs& inputs) override;
  bool start_may_change() const override { return is_training(); }
  Context prepare(const Inputs& inputs) override;
  State step(const State& s, const Context& context) override;
  /// No number of its own changes once it is made.
  std::optional<ReplayKey> replay_key() const override { return ReplayKey{}; }

  /// What the layers get in the loop from s: h₀, h₁, … except the last.
  std::vector<torch::Tensor> layer_inputs(const State& s, const Context& context);

 private:
  void check(const Inputs& inputs) const;
  /// The adapter's, at s.
  torch::Tensor entry(const torch::Tensor& s, const Context& context) const;

  int64_t d_model_;
  double start_std_;
  std::shared_ptr<TransformerLinear> adapter_;
  std::vector<std::shared_ptr<LoopedLayer>> layers_;
  torch::Tensor start_;
};
TORCH_MODULE(LoopedCell);

}  // namespace deq::models
