#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The CUDA side of token_mixer.h, in bfloat16. All tensors begin where vectors of 16 bytes do.

namespace deq::kernels::cuda {

/// `features` is a multiple of 8, `inner` of 16.
struct MixerShape {
  int64_t samples, tokens, features, inner;
};

/// gate_up [2·inner, tokens], whose rows begin `stride` numbers after each other, a multiple of 8;
/// down [tokens, inner], dense.
struct MixerMatrices {
  const void* gate_up;
  int64_t stride;
  const void* down;
};

/// x, y [samples, tokens, features]; r [samples, features] in float32.
struct MixerForward {
  MixerMatrices matrices;
  const void* x;
  void *y, *r;
};

/// for_s, x, for_x [samples, tokens, features]; for_both [samples, 2·inner, features]; hidden
/// [samples, inner, features].
struct MixerBackward {
  MixerMatrices matrices;
  const void *for_s, *x;
  void *for_x, *for_both, *hidden;
};

/// Whether both kernels have room for the matrices and all else in shared memory.
bool mixer_fits(const MixerShape& shape);

/// Of shared memory that the forward kernel takes.
int64_t mixer_bytes(const MixerShape& shape);

void mix_tokens(const MixerShape& shape, const MixerForward& a, cudaStream_t stream);
void mix_tokens_backward(const MixerShape& shape, const MixerBackward& a, cudaStream_t stream);

}  // namespace deq::kernels::cuda
