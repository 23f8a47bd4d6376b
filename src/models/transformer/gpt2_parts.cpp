#include "deq/models/transformer/gpt2_parts.h"

#include <string_view>
#include <utility>

#include "core/require.h"
#include "models/transformer/gpt2_cuts.h"

namespace deq::models {
namespace {

/// A view of what belongs to the part.
torch::Tensor view_of_part(const torch::Tensor& whole, TensorCut cut, const TensorPart& part) {
  const auto range = [&part](const torch::Tensor& tensor, int64_t dim) {
    require(tensor.size(dim) % part.size == 0,
            "gpt2: a tensor of shape {} cannot be shared by {} processes", tensor.sizes(),
            part.size);
    const auto share = tensor.size(dim) / part.size;
    return tensor.narrow(dim, part.rank * share, share);
  };
  switch (cut) {
    case TensorCut::Rows:
      return range(whole, 0);
    case TensorCut::RowsOfThree:
      return range(whole.unflatten(0, {3, -1}), 1);
    case TensorCut::Columns:
      return range(whole, 1);
    case TensorCut::None:
      break;
  }
  return whole;
}

TensorCut cut_of(const std::string& name, const torch::Tensor& tensor) {
  // A step counter of an optimiser has the name of its parameter, and is one number.
  return tensor.dim() == 0 ? TensorCut::None : gpt2_cut(name);
}

}  // namespace

TensorCut gpt2_cut(std::string_view name) {
  constexpr std::pair<std::string_view, TensorCut> kCuts[] = {
      {"qkv.weight", TensorCut::RowsOfThree},
      {"qkv.bias", TensorCut::RowsOfThree},
      {"attention_out.weight", TensorCut::Columns},
      {"inner.weight", TensorCut::Rows},
      {"inner.bias", TensorCut::Rows},
      {"outer.weight", TensorCut::Columns}};
  for (const auto& [end, cut] : kCuts) {
    if (name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.')) {
      return cut;
    }
  }
  return TensorCut::None;
}

torch::Tensor own_part(const torch::Tensor& whole, TensorCut cut, const TensorPart& part) {
  if (cut == TensorCut::None || part.size == 1) return whole;
  const auto own = view_of_part(whole, cut, part).clone(torch::MemoryFormat::Contiguous);
  return cut == TensorCut::RowsOfThree ? own.flatten(0, 1) : own;
}

void put_part(const torch::Tensor& whole, TensorCut cut, const TensorPart& part,
              const torch::Tensor& own) {
  const auto place = view_of_part(whole, cut, part);
  place.copy_(own.view_as(place));
}

std::vector<int64_t> whole_shape(const torch::Tensor& own, TensorCut cut, int64_t parts) {
  auto shape = own.sizes().vec();
  if (cut != TensorCut::None) shape[cut == TensorCut::Columns ? 1 : 0] *= parts;
  return shape;
}

bool gpt2_in_parts(const std::string& name, const torch::Tensor& tensor) {
  return cut_of(name, tensor) != TensorCut::None;
}

NamedTensors cut_gpt2(const NamedTensors& whole, const TensorPart& part) {
  NamedTensors own;
  for (const auto& [name, tensor] : whole) {
    own[name] = own_part(tensor.detach(), cut_of(name, tensor), part);
  }
  return own;
}

NamedTensors join_gpt2(const std::vector<NamedTensors>& parts) {
  require(!parts.empty(), "gpt2: no parts to join");
  const auto size = static_cast<int64_t>(parts.size());
  NamedTensors whole;
  for (const auto& [name, first] : parts.front()) {
    const auto cut = cut_of(name, first);
    whole[name] = torch::empty(whole_shape(first, cut, size), first.options().requires_grad(false));
    const auto copies = cut == TensorCut::None ? 1 : size;
    for (int64_t rank = 0; rank < copies; ++rank) {
      const auto& part = parts[static_cast<size_t>(rank)];
      const auto found = part.find(name);
      require(found != part.end() && found->second.sizes() == first.sizes(),
              "gpt2: part {} of {} lacks \"{}\" of shape {}", rank, size, name, first.sizes());
      put_part(whole[name], cut, {.rank = rank, .size = size}, found->second.detach());
    }
  }
  return whole;
}

NamedTensors join_gpt2(const NamedTensors& part, TensorParallel& group) {
  NamedTensors whole;
  for (const auto& [name, own] : part) {
    const auto cut = cut_of(name, own);
    if (cut == TensorCut::None) {
      whole[name] = own.detach();
      continue;
    }
    whole[name] =
        torch::zeros(whole_shape(own, cut, group.size()), own.options().requires_grad(false));
    put_part(whole[name], cut, part_of(&group), own.detach());
    group.sum(whole[name]);
  }
  return whole;
}

}  // namespace deq::models
