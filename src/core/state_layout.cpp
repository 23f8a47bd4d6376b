#include "deq/core/state_layout.h"

#include <torch/autograd.h>

#include <algorithm>
#include <numeric>

#include "core/require.h"

namespace deq {
namespace {

/// Whether the numbers of every sample lie one after the other, the last dimension fastest, or with
/// `channels_last` the second one. Samples themselves may be further apart.
bool lie_in_order(const torch::Tensor& tensor, bool channels_last) {
  int64_t expected = 1;
  const auto follows = [&](int64_t d) {
    const bool fits = tensor.size(d) == 1 || tensor.stride(d) == expected;
    expected *= tensor.size(d);
    return fits;
  };
  if (channels_last) return follows(1) && follows(3) && follows(2);
  for (int64_t d = tensor.dim() - 1; d > 0; --d) {
    if (!follows(d)) return false;
  }
  return true;
}

bool is_channels_last(const torch::Tensor& tensor) {
  return tensor.dim() == 4 && !lie_in_order(tensor, false) && lie_in_order(tensor, true);
}

/// The slab whose columns these are, `sizes` of them each, in this order; undefined where there is
/// none.
torch::Tensor slab_around(const std::vector<torch::Tensor>& parts,
                          const std::vector<int64_t>& sizes) {
  const auto dim = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const auto* expected = static_cast<const char*>(parts[0].const_data_ptr());
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& part = parts[i];
    const bool fits = part.scalar_type() == parts[0].scalar_type() && !part.requires_grad() &&
                      part.is_alias_of(parts[0]) && part.const_data_ptr() == expected &&
                      (part.size(0) == 1 || part.stride(0) == dim);
    if (!fits) return {};
    expected += sizes[i] * part.element_size();
  }
  return parts[0].as_strided({parts[0].size(0), dim}, {dim, 1});
}

/// The columns of a slab. Where their gradients are those of a slab, as some kernels write them,
/// its gradient is that slab; torch's own split would gather a copy.
struct Columns : torch::autograd::Function<Columns> {
  static torch::autograd::tensor_list forward(torch::autograd::AutogradContext* context,
                                              const torch::Tensor& slab,
                                              const std::vector<int64_t>& sizes) {
    context->saved_data["sizes"] = sizes;
    return slab.split_with_sizes(sizes, 1);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto sizes = context->saved_data["sizes"].toIntVector();
    const bool ordered = std::ranges::all_of(gradients, [](const auto& gradient) {
      return gradient.size(1) == 1 || gradient.stride(1) == 1;
    });
    auto slab = ordered ? slab_around(gradients, sizes) : torch::Tensor();
    return {slab.defined() ? slab : torch::cat(gradients, 1), torch::Tensor()};
  }
};

std::vector<torch::Tensor> columns_of(const torch::Tensor& slab,
                                      const std::vector<int64_t>& sizes) {
  const bool on_tape = slab.requires_grad() && torch::GradMode::is_enabled();
  return slab.is_cuda() && on_tape ? Columns::apply(slab, sizes) : slab.split_with_sizes(sizes, 1);
}

}  // namespace

StateLayout StateLayout::of(const State& state) {
  require(!state.empty(), "a state needs at least one tensor");
  StateLayout layout;
  layout.type_ = state[0].scalar_type();
  for (const auto& tensor : state) {
    require(tensor.dim() >= 1, "a state tensor needs a batch dimension, got a scalar");
    require(tensor.size(0) == state[0].size(0), "state tensors differ in batch size: {} and {}",
            state[0].size(0), tensor.size(0));
    require(tensor.scalar_type() == state[0].scalar_type(),
            "state tensors differ in type: {} and {}", state[0].scalar_type(),
            tensor.scalar_type());
    require(tensor.device() == state[0].device(),
            "state tensors are on different devices: {} and {}", state[0].device(),
            tensor.device());
    layout.shapes_.push_back(tensor.sizes().slice(1).vec());
    layout.sizes_.push_back(c10::multiply_integers(tensor.sizes().slice(1)));
    layout.dim_ += layout.sizes_.back();
    layout.channels_last_.push_back(is_channels_last(tensor));
  }
  require(layout.dim_ > 0, "a state must hold at least one number per sample");
  return layout;
}

torch::Tensor StateLayout::slab_of(const State& state) const {
  for (size_t i = 0; i < state.size(); ++i) {
    const bool fits = state[i].scalar_type() == type_ && lie_in_order(state[i], channels_last_[i]);
    if (!fits) return {};
  }
  return slab_around(state, sizes_);
}

torch::Tensor StateLayout::pack(const State& state) const {
  require(state.size() == shapes_.size(), "the state has {} tensors, expected {}", state.size(),
          shapes_.size());
  for (size_t i = 0; i < state.size(); ++i) {
    require(state[i].sizes().slice(1) == c10::IntArrayRef(shapes_[i]),
            "state tensor {} has shape {}, expected [B] followed by {}", i, state[i].sizes(),
            c10::IntArrayRef(shapes_[i]));
    require(state[i].size(0) == state[0].size(0), "state tensors differ in batch size: {} and {}",
            state[0].size(0), state[i].size(0));
  }
  if (state.size() > 1) {
    if (auto slab = slab_of(state); slab.defined()) return slab;
  }
  std::vector<torch::Tensor> flat;
  flat.reserve(state.size());
  for (size_t i = 0; i < state.size(); ++i) {
    // A view costs more than a small step of f, and one more node in every product with J.
    const bool flat_already = state[i].dim() == 2;
    const auto ordered = channels_last_[i] ? state[i].permute({0, 2, 3, 1}) : state[i];
    flat.push_back(
        (flat_already ? state[i] : ordered.reshape({state[i].size(0), sizes_[i]})).to(type_));
  }
  return flat.size() == 1 ? flat[0] : torch::cat(flat, 1);
}

State StateLayout::unpack(const torch::Tensor& slab) const {
  require(slab.dim() == 2 && slab.size(1) == dim_,
          "a slab of shape {} does not fit a state of {} numbers per sample", slab.sizes(), dim_);
  if (shapes_.size() == 1 && shapes_[0].size() == 1) return {slab};
  // One split has one node in every product with J, where slices would each fill a slab.
  auto state = shapes_.size() == 1 ? State{slab} : columns_of(slab, sizes_);
  for (size_t i = 0; i < shapes_.size(); ++i) {
    std::vector<int64_t> shape{slab.size(0)};
    shape.insert(shape.end(), shapes_[i].begin(), shapes_[i].end());
    if (channels_last_[i]) {
      state[i] = state[i].view({shape[0], shape[2], shape[3], shape[1]}).permute({0, 3, 1, 2});
    } else {
      state[i] = state[i].view(shape);
    }
  }
  return state;
}

}  // namespace deq
