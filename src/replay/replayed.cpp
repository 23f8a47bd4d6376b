#include "replay/replayed.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <utility>

#include "core/require.h"

namespace deq {
namespace {

using torch::autograd::variable_list;

class ReplayedValue final : public torch::autograd::Node {
 public:
  ReplayedValue(LeafGradients gradients, const std::vector<torch::Tensor>& leaves)
      : gradients_(std::move(gradients)) {
    set_next_edges(torch::autograd::collect_next_edges(leaves));
    for (const auto& leaf : leaves) {
      const bool keeps = leaf.is_leaf() && leaf.is_non_overlapping_and_dense();
      strides_.emplace_back(keeps ? c10::DimVector(leaf.strides()) : c10::DimVector());
    }
  }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    gradients_ = {};
  }

  std::string name() const override { return "deq::ReplayedValue"; }

 private:
  variable_list apply(variable_list&& along) override {
    const std::lock_guard lock(mutex_);
    require(!torch::GradMode::is_enabled(),
            "a replayed value cannot be differentiated again (create_graph); use the Unrolled "
            "gradient where second derivatives are needed");
    require(
        gradients_ != nullptr,
        "backward() through a replayed value a second time: the first freed what it needs; call "
        "it with retain_graph");
    if (!along[0].defined()) return variable_list(strides_.size());
    auto recorded = gradients_(along[0].contiguous());
    require(recorded.size() == strides_.size(),
            "a replayed value has gradients for {} leaves of {}", recorded.size(), strides_.size());
    return copied(recorded);
  }

  /// Out of the recording's memory, all in one go: one by one a GPU would wait for the host. As
  /// parameters lie in memory, so that they can keep them.
  variable_list copied(const variable_list& recorded) const {
    variable_list all(recorded.size()), own, from;
    for (size_t i = 0; i < recorded.size(); ++i) {
      const auto& gradient = recorded[i];
      if (!gradient.defined()) continue;
      const bool as_leaf = strides_[i].size() == static_cast<size_t>(gradient.dim());
      all[i] = as_leaf ? at::empty_strided(gradient.sizes(), strides_[i], gradient.options())
                       : at::empty_like(gradient);
      if (all[i].strides() != gradient.strides()) {
        all[i].copy_(gradient);  // one such pair, and torch would copy all of them one by one
        continue;
      }
      own.push_back(all[i]);
      from.push_back(gradient);
    }
    if (!own.empty()) at::_foreach_copy_(own, from);
    return all;
  }

  LeafGradients gradients_;
  std::vector<c10::DimVector> strides_;
};

}  // namespace

bool need_graph(const std::vector<torch::Tensor>& leaves) {
  return torch::autograd::compute_requires_grad(leaves);
}

torch::Tensor replayed(const std::vector<torch::Tensor>& leaves, const torch::Tensor& value,
                       LeafGradients gradients) {
  auto result = value.variable_data();
  if (!need_graph(leaves)) return result;
  const std::shared_ptr<ReplayedValue> node(new ReplayedValue(std::move(gradients), leaves),
                                            torch::autograd::deleteNode);
  torch::autograd::set_history(result, node);
  return result;
}

}  // namespace deq
