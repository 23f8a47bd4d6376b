#include "kernels/feed_forward/token_mixer_blocks_cuda.h"
#include "kernels/norms/sum_norm_plan.h"

//   (G x)ᵀ = xᵀ Gᵀ   [features, inner], 16 of the inner numbers at a time, for gate and up,
//   (D h)ᵀ = hᵀ Dᵀ   [features, tokens], added up over the inner numbers.
//
// xᵀ is read once, into registers; h is made where the first product left it; what the second
// leaves is a whole row for the norm over the tokens. With 81 tokens there are 1.15 times the
// operations that are needed. Bytes: 4 for each number of x. Bound by the tensor cores and shared
// memory.

namespace deq::kernels::cuda {
namespace {

using namespace token_mixer;

constexpr int kWidth = 32;  // features of a strip
using OwnStrip = Strip<kWidth>;

Layout forward_layout(const MixerShape& shape) {
  const int tokens16 = tokens16_of(shape);
  return {tokens16, static_cast<int>(shape.inner), tokens16 * OwnStrip::kRow};
}

/// N tiles of 8 tokens.
template <int N>
__global__ void __launch_bounds__(kWarps* kWarp, 1)
    mixer_kernel(MixerShape shape, Layout layout, const Bf16* __restrict__ xs,
                 const Bf16* __restrict__ gate_up, int64_t stride, const Bf16* __restrict__ down,
                 Bf16* __restrict__ ys, float* __restrict__ rs) {
  constexpr int kSteps = (N + 1) / 2;  // of 16 tokens
  constexpr int kTiles = kWidth / 16;  // of 16 features
  extern __shared__ __align__(16) unsigned char memory[];
  Bf16* const gates = reinterpret_cast<Bf16*>(memory);
  const Bf16* const downs = gates + layout.down_begin();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  Bf16* const held = gates + layout.warps_begin() + warp * layout.of_warp;
  fill_matrices(gates, layout, shape, gate_up, stride, down);
  __syncthreads();

  const Lane lane;
  const int tokens = static_cast<int>(shape.tokens), inner = layout.inner;
  const int64_t strips = shape.samples * ((shape.features + kWidth - 1) / kWidth);
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + warp; index < strips;
       index += static_cast<int64_t>(gridDim.x) * kWarps) {
    const OwnStrip strip(shape, index);
    strip.load(held, xs, shape, layout.tokens16);
    wait_for_strips();
    unsigned x[kTiles][kSteps][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        load_transposed(x[m][k], held + (16 * k + lane.given + lane.outer_side) * OwnStrip::kRow +
                                     16 * m + lane.inner_side);
      }
    }
    __syncwarp();

    float mixed[kTiles][N][4] = {};
    for (int i = 0; i < inner; i += 16) {
      float gate[kTiles][2][4] = {}, up[kTiles][2][4] = {};
      const Bf16* const gate_rows =
          gates + (i + lane.given + lane.outer_side) * layout.gate_row() + lane.inner_side;
      const Bf16* const up_rows = gate_rows + inner * layout.gate_row();
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        unsigned of_gate[4], of_up[4];
        load_matrices(of_gate, gate_rows + 16 * k);
        load_matrices(of_up, up_rows + 16 * k);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          multiply_add(gate[m][0], x[m][k], of_gate[0], of_gate[1]);
          multiply_add(gate[m][1], x[m][k], of_gate[2], of_gate[3]);
          multiply_add(up[m][0], x[m][k], of_up[0], of_up[1]);
          multiply_add(up[m][1], x[m][k], of_up[2], of_up[3]);
        }
      }
      unsigned hidden[kTiles][4];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          float& number = gate[m][k / 4][k % 4];
          number = gate_number(number, up[m][k / 4][k % 4]).hidden();
        }
        pack_tiles(hidden[m], gate[m]);
      }
      const Bf16* const down_rows =
          downs + (lane.given + lane.outer_side) * layout.down_row() + i + lane.inner_side;
#pragma unroll
      for (int n = 0; n < N; n += 2) {
        unsigned of_down[4];
        load_matrices(of_down, down_rows + 8 * n * layout.down_row());
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          multiply_add(mixed[m][n], hidden[m], of_down[0], of_down[1]);
          if (n + 1 < N) multiply_add(mixed[m][n + 1], hidden[m], of_down[2], of_down[3]);
        }
      }
    }

    // The results take the place of x, number by number, each by the lane that reads it.
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int feature = 16 * m + 8 * half + lane.row;
        Bf16* const column = held + feature;
        float squares = 0;
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            float& sum = mixed[m][n][2 * half + k];
            sum += __bfloat162float(column[(8 * n + lane.pair + k) * OwnStrip::kRow]);
            squares += sum * sum;  // zeros behind the last token
          }
        }
        squares += __shfl_xor_sync(0xffffffff, squares, 1);
        squares += __shfl_xor_sync(0xffffffff, squares, 2);
        const float r =
            rsqrtf(squares / static_cast<float>(tokens) + static_cast<float>(kSumNormEps));
        if (lane.pair == 0 && feature < strip.width) {
          rs[strip.sample * shape.features + strip.first + feature] = r;
        }
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            column[(8 * n + lane.pair + k) * OwnStrip::kRow] =
                __float2bfloat16_rn(r * mixed[m][n][2 * half + k]);
          }
        }
      }
    }
    __syncwarp();
    strip.store(ys, held, shape);
    __syncwarp();
  }
}

}  // namespace

void mix_tokens(const MixerShape& shape, const MixerForward& a, cudaStream_t stream) {
  with_tiles(shape, [&]<int N>() {
    const auto layout = forward_layout(shape);
    const auto bytes = static_cast<int>(layout.bytes());
    cudaFuncSetAttribute(mixer_kernel<N>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    mixer_kernel<N><<<blocks_for(shape, kWidth), kWarps * kWarp, bytes, stream>>>(
        shape, layout, static_cast<const Bf16*>(a.x), static_cast<const Bf16*>(a.matrices.gate_up),
        a.matrices.stride, static_cast<const Bf16*>(a.matrices.down), static_cast<Bf16*>(a.y),
        static_cast<float*>(a.r));
  });
}

int64_t mixer_bytes(const MixerShape& shape) {
  return forward_layout(shape).bytes();
}

}  // namespace deq::kernels::cuda
