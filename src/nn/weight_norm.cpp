#include "deq/nn/weight_norm.h"

#include <vector>

#include "core/autocast.h"
#include "core/require.h"

namespace deq {

torch::Tensor slice_norms(const torch::Tensor& v) {
  require(v.dim() >= 2,
          "weight norm: a weight of shape {} has no slices, it must have at least two dimensions",
          v.sizes());
  std::vector<int64_t> others;
  for (int64_t d = 1; d < v.dim(); ++d) others.push_back(d);
  return torch::linalg_vector_norm(v, 2, others, /*keepdim=*/true);
}

torch::Tensor normalised_weight(const torch::Tensor& v, const torch::Tensor& g) {
  // On a GPU torch's own takes its roots in float32.
  if (v.is_cuda() && v.scalar_type() == torch::kFloat64) return v * (g / slice_norms(v));
  return torch::_weight_norm(v, g, 0);
}

LayerWeight::LayerWeight(torch::nn::Module& owner, const std::string& name,
                         const torch::Tensor& initial, bool normalised) {
  if (normalised) {
    g_ = owner.register_parameter(name + "_g", slice_norms(initial.detach()));
    v_ = owner.register_parameter(name + "_v", initial.detach());
  } else {
    v_ = owner.register_parameter(name, initial.detach());
  }
}

torch::Tensor LayerWeight::value() const {
  const auto weight = g_.defined() ? normalised_weight(v_, g_) : v_;
  return weight.to(compute_type(weight));
}

}  // namespace deq
