#pragma once

#include <cuda_runtime_api.h>

#include "solvers/decisions_samples.h"

// The CUDA side of decisions.h: raw device pointers and a stream, no torch headers.

namespace deq::decisions::cuda {

/// `active` may be memory of the host that the device can write to.
void judge(const JudgeArguments& arguments, int* active, cudaStream_t stream);
void anderson(const AndersonArguments& arguments, cudaStream_t stream);
void broyden(const BroydenArguments& arguments, cudaStream_t stream);
void limited_broyden(const LimitedArguments& arguments, cudaStream_t stream);

}  // namespace deq::decisions::cuda
