#include "kernels/probes/probes_cuda.h"

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

namespace deq::kernels::cuda {
namespace {

void probe_op(at::Tensor& out, bool signs, int64_t key, int64_t first_row) {
  const c10::cuda::CUDAGuard guard(out.device());
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "probe", [&] {
    probe<scalar_t>(out.data_ptr<scalar_t>(), signs, static_cast<uint64_t>(key), first_row,
                    out.size(0), out.size(1), c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("probe", &probe_op);
}

}  // namespace deq::kernels::cuda
