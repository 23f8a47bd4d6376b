#include "kernels/images/dense_images.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>

#include "kernels/common/operators.h"
#include "kernels/images/images_tensors_cuda.h"

namespace deq::kernels {
namespace {

constexpr auto kOrder = at::MemoryFormat::ChannelsLast;

bool is_done(const at::Tensor& x, at::ScalarType type) {
  return x.scalar_type() == type && (!x.is_cuda() || x.is_contiguous(kOrder));
}

/// What the kernel reads: float32, pixels without gaps, 16 bytes at once.
bool serves_dense_images(const at::Tensor& x, at::ScalarType type) {
  const auto numbers = c10::multiply_integers(x.sizes().slice(1));
  return x.is_cuda() && x.size(0) <= cuda::kMostSamples &&
         (type == at::kFloat || type == at::kBFloat16) && numbers % 8 == 0 &&
         cuda::are_ready(x, at::kFloat, /*width=*/4);
}

at::Tensor call_dense_images(const at::Tensor& x, at::ScalarType type) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, at::ScalarType)>("deq::dense_images");
  return op.call(x, type);
}

void call_spread(const at::Tensor& dense, const at::Tensor& out) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<void(const at::Tensor&, const at::Tensor&)>("deq::spread_images");
  op.call(dense, out);
}

/// The gradients in float32, as parts of one slab in their order.
std::vector<at::Tensor> spread(const std::vector<at::Tensor>& gradients) {
  std::vector<int64_t> sizes;
  int64_t whole = 0;
  for (const auto& gradient : gradients) {
    sizes.push_back(c10::multiply_integers(gradient.sizes().slice(1)));
    whole += sizes.back();
  }
  const auto slab =
      at::empty({gradients[0].size(0), whole}, gradients[0].options().dtype(at::kFloat));
  auto parts = slab.split_with_sizes(sizes, 1);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& g = gradients[i];
    parts[i] = parts[i].view({g.size(0), g.size(2), g.size(3), g.size(1)}).permute({0, 3, 1, 2});
    call_spread(g.contiguous(kOrder), parts[i]);
  }
  return parts;
}

struct DenseParts : torch::autograd::Function<DenseParts> {
  static torch::autograd::tensor_list forward(torch::autograd::AutogradContext* /*context*/,
                                              at::TensorList parts, at::ScalarType type) {
    torch::autograd::tensor_list dense;
    for (const auto& part : parts) dense.push_back(call_dense_images(part, type));
    return dense;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* /*context*/,
                                               torch::autograd::tensor_list gradients) {
    if (at::GradMode::is_enabled()) {
      for (auto& gradient : gradients) gradient = gradient.to(at::kFloat);
    } else {
      gradients = spread(gradients);
    }
    gradients.emplace_back();  // for `type`
    return gradients;
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("dense_images(Tensor x, ScalarType type) -> Tensor");
  library.def("spread_images(Tensor dense, Tensor(a!) out) -> ()");
}

std::vector<at::Tensor> dense_images(const std::vector<at::Tensor>& parts, at::ScalarType type) {
  const bool together = std::all_of(parts.begin(), parts.end(), [&](const at::Tensor& part) {
    return !is_done(part, type) && serves_dense_images(part, type);
  });
  if (together) return DenseParts::apply(at::TensorList(parts), type);
  auto dense = parts;
  for (auto& part : dense) part = dense_images(part, type);
  return dense;
}

at::Tensor dense_images(const at::Tensor& x, at::ScalarType type) {
  if (is_done(x, type)) return x;
  if (serves_dense_images(x, type)) return DenseParts::apply(at::TensorList(x), type)[0];
  return x.to(type).contiguous(kOrder);
}

}  // namespace deq::kernels
