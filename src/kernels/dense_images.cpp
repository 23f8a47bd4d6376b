#include "kernels/dense_images.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include "kernels/images_tensors_cuda.h"
#include "kernels/operators.h"

namespace deq::kernels {
namespace {

constexpr auto kOrder = at::MemoryFormat::ChannelsLast;

bool is_done(const at::Tensor& x, at::ScalarType type) {
  return x.scalar_type() == type && (!x.is_cuda() || x.is_contiguous(kOrder));
}

constexpr int64_t kMostSamples = 65535;  // of a grid

/// What the kernel reads: float32, pixels without gaps, 16 bytes at once.
bool serves(const at::Tensor& x, at::ScalarType type) {
  const auto numbers = c10::multiply_integers(x.sizes().slice(1));
  return x.is_cuda() && x.size(0) <= kMostSamples &&
         (type == at::kFloat || type == at::kBFloat16) && numbers % 8 == 0 &&
         cuda::are_ready(x, at::kFloat, /*width=*/4);
}

at::Tensor call(const at::Tensor& x, at::ScalarType type) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, at::ScalarType)>("deq::dense_images");
  return op.call(x, type);
}

struct DenseImages : torch::autograd::Function<DenseImages> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x,
                            at::ScalarType type) {
    return call(x, type);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* /*context*/,
                                               torch::autograd::tensor_list gradients) {
    return {gradients[0].to(at::kFloat), at::Tensor()};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("dense_images(Tensor x, ScalarType type) -> Tensor");
}

at::Tensor dense_images(const at::Tensor& x, at::ScalarType type) {
  if (is_done(x, type)) return x;
  if (serves(x, type)) return DenseImages::apply(x, type);
  return x.to(type).contiguous(kOrder);
}

}  // namespace deq::kernels
