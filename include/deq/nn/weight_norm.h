#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>

namespace deq {

/// ‖vᵢ‖₂ of every slice vᵢ = v[i, …], shaped [n, 1, …, 1].
torch::Tensor slice_norms(const torch::Tensor& v);

/// Weight normalisation over the first dimension:  wᵢ = gᵢ vᵢ / ‖vᵢ‖₂,  g shaped [n, 1, …, 1].
torch::Tensor normalised_weight(const torch::Tensor& v, const torch::Tensor& g);

/// A layer's weight, kept as it is or as a length and a direction.
class LayerWeight {
 public:
  /// Registers `initial` with `owner`: as the parameter <name>, or, when normalised, as <name>_g
  /// (the norms of its slices) and <name>_v (itself).
  LayerWeight(torch::nn::Module& owner, const std::string& name, const torch::Tensor& initial,
              bool normalised);

  /// The weight to compute with, on the tape. A cell asks for it in prepare(), once per solve;
  /// under autocast it comes in the type that autocast would otherwise cast it to at every step.
  torch::Tensor value() const;

 private:
  torch::Tensor v_;
  torch::Tensor g_;  // undefined when the weight is v itself
};

}  // namespace deq
