#include "kernels/feed_forward/token_mixer_blocks_cuda.h"

// With s the sum that is normed, by 16 of the inner numbers at a time:
//
//   (G x)ᵀ = xᵀ Gᵀ,  (∂h)ᵀ = (∂s)ᵀ D   [features, inner],
//   (∂x)ᵀ = (∂s)ᵀ + (∂(G x))ᵀ G         [features, tokens], added up over the inner numbers.
//
// h and ∂(G x), from which the gradients of D and G are made, go to memory by way of shared memory,
// since their rows there are the columns here. Bytes for each number of x, with 81 tokens and 256
// inner numbers: 6, and 6 for each of h, of which there are 3.2 times as many. Bound by shared
// memory.

namespace deq::kernels::cuda {
namespace {

using namespace token_mixer;

constexpr int kWidth = 16;  // features of a strip
using OwnStrip = Strip<kWidth>;
constexpr int kWays = 3;                              // h, and the two halves of ∂(G x)
constexpr int kStaged = kWays * 16 * OwnStrip::kRow;  // numbers of 16 inner rows

/// x, whose place those that are staged take as soon as it is in registers; and ∂s.
Layout backward_layout(const MixerShape& shape) {
  const int tokens16 = tokens16_of(shape), strip = tokens16 * OwnStrip::kRow;
  const int shared = strip > kStaged ? strip : kStaged;
  return {tokens16, static_cast<int>(shape.inner), shared + strip};
}

/// A tile [16 features, 16 inner numbers], transposed, in one of the ways.
__device__ __forceinline__ void stage(Bf16* staged, int way, const Lane& lane,
                                      const float (&tiles)[2][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int inner = way * 16 + 8 * i + lane.pair + k % 2, feature = lane.row + k / 2 * 8;
      staged[inner * OwnStrip::kRow + feature] = __float2bfloat16_rn(tiles[i][k]);
    }
  }
}

/// N tiles of 8 tokens.
template <int N>
__global__ void __launch_bounds__(kWarps* kWarp, 1)
    mixer_backward_kernel(MixerShape shape, Layout layout, const Bf16* __restrict__ for_ss,
                          const Bf16* __restrict__ xs, const Bf16* __restrict__ gate_up,
                          int64_t stride, const Bf16* __restrict__ down, Bf16* __restrict__ for_xs,
                          Bf16* __restrict__ for_boths, Bf16* __restrict__ hiddens) {
  constexpr int kSteps = (N + 1) / 2;  // of 16 tokens
  extern __shared__ __align__(16) unsigned char memory[];
  Bf16* const gates = reinterpret_cast<Bf16*>(memory);
  const Bf16* const downs = gates + layout.down_begin();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  Bf16* const held_x = gates + layout.warps_begin() + warp * layout.of_warp;
  Bf16* const held_s = held_x + layout.of_warp - layout.tokens16 * OwnStrip::kRow;
  fill_matrices(gates, layout, shape, gate_up, stride, down);
  __syncthreads();

  const Lane lane;
  const int inner = layout.inner;
  const int64_t strips = shape.samples * ((shape.features + kWidth - 1) / kWidth);
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + warp; index < strips;
       index += static_cast<int64_t>(gridDim.x) * kWarps) {
    const OwnStrip strip(shape, index);
    strip.load(held_x, xs, shape, layout.tokens16);
    strip.load(held_s, for_ss, shape, layout.tokens16);
    wait_for_strips();
    unsigned x[kSteps][4], for_s[kSteps][4];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const int at = (16 * k + lane.given + lane.outer_side) * OwnStrip::kRow + lane.inner_side;
      load_transposed(x[k], held_x + at);
      load_transposed(for_s[k], held_s + at);
    }
    __syncwarp();

    float for_x[N][4] = {};
    for (int i = 0; i < inner; i += 16) {
      float gate[2][4] = {}, up[2][4] = {}, for_hidden[2][4] = {};
      const Bf16* const gate_rows =
          gates + (i + lane.given + lane.outer_side) * layout.gate_row() + lane.inner_side;
      const Bf16* const up_rows = gate_rows + inner * layout.gate_row();
      const Bf16* const down_rows =
          downs + (lane.given + lane.inner_side) * layout.down_row() + i + lane.outer_side;
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        unsigned right[4];
        load_matrices(right, gate_rows + 16 * k);
        multiply_add(gate[0], x[k], right[0], right[1]);
        multiply_add(gate[1], x[k], right[2], right[3]);
        load_matrices(right, up_rows + 16 * k);
        multiply_add(up[0], x[k], right[0], right[1]);
        multiply_add(up[1], x[k], right[2], right[3]);
        load_transposed(right, down_rows + 16 * k * layout.down_row());
        multiply_add(for_hidden[0], for_s[k], right[0], right[1]);
        multiply_add(for_hidden[1], for_s[k], right[2], right[3]);
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const auto number = gate_number(gate[k / 4][k % 4], up[k / 4][k % 4]);
        float& pulled = for_hidden[k / 4][k % 4];
        gate[k / 4][k % 4] = number.for_gate(pulled);
        up[k / 4][k % 4] = number.for_up(pulled);
        pulled = number.hidden();  // its place is free
      }
      stage(held_x, 0, lane, gate);
      stage(held_x, 1, lane, up);
      stage(held_x, 2, lane, for_hidden);
      unsigned for_gate[4], for_up[4];
      pack_tiles(for_gate, gate);
      pack_tiles(for_up, up);
      const Bf16* const gate_columns =
          gates + (i + lane.given + lane.inner_side) * layout.gate_row() + lane.outer_side;
      const Bf16* const up_columns = gate_columns + inner * layout.gate_row();
#pragma unroll
      for (int n = 0; n < N; n += 2) {
        unsigned right[4];
        load_transposed(right, gate_columns + 8 * n);
        multiply_add(for_x[n], for_gate, right[0], right[1]);
        if (n + 1 < N) multiply_add(for_x[n + 1], for_gate, right[2], right[3]);
        load_transposed(right, up_columns + 8 * n);
        multiply_add(for_x[n], for_up, right[0], right[1]);
        if (n + 1 < N) multiply_add(for_x[n + 1], for_up, right[2], right[3]);
      }
      __syncwarp();
#pragma unroll
      for (int k = 0; k < kWays * 16 * OwnStrip::kVectors / kWarp; ++k) {
        const int vector = k * kWarp + lane.index;
        const int row = vector / OwnStrip::kVectors;
        const int column = vector % OwnStrip::kVectors * kVector;
        if (column >= strip.width) continue;
        const int way = row / 16, number = i + row % 16;
        Bf16* const rows =
            way == 2 ? hiddens + (strip.sample * inner + number) * shape.features
                     : for_boths + ((strip.sample * 2 + way) * inner + number) * shape.features;
        *reinterpret_cast<uint4*>(rows + strip.first + column) =
            *reinterpret_cast<const uint4*>(held_x + row * OwnStrip::kRow + column);
      }
      __syncwarp();
    }

    // The results take the place of ∂s, number by number, each by the lane that reads it.
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int token = 8 * n + lane.pair + k % 2, feature = lane.row + k / 2 * 8;
        Bf16& number = held_s[token * OwnStrip::kRow + feature];
        number = __float2bfloat16_rn(__bfloat162float(number) + for_x[n][k]);
      }
    }
    __syncwarp();
    strip.store(for_xs, held_s, shape);
    __syncwarp();
  }
}

}  // namespace

bool mixer_fits(const MixerShape& shape) {
  if (shape.features % kVector != 0 || shape.inner % 16 != 0 || shape.tokens > kMostTokens) {
    return false;
  }
  const int64_t forward = mixer_bytes(shape), backward = backward_layout(shape).bytes();
  return (forward > backward ? forward : backward) <=
         attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

void mix_tokens_backward(const MixerShape& shape, const MixerBackward& a, cudaStream_t stream) {
  with_tiles(shape, [&]<int N>() {
    const auto layout = backward_layout(shape);
    const auto bytes = static_cast<int>(layout.bytes());
    cudaFuncSetAttribute(mixer_backward_kernel<N>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         bytes);
    mixer_backward_kernel<N><<<blocks_for(shape, kWidth), kWarps * kWarp, bytes, stream>>>(
        shape, layout, static_cast<const Bf16*>(a.for_s), static_cast<const Bf16*>(a.x),
        static_cast<const Bf16*>(a.matrices.gate_up), a.matrices.stride,
        static_cast<const Bf16*>(a.matrices.down), static_cast<Bf16*>(a.for_x),
        static_cast<Bf16*>(a.for_both), static_cast<Bf16*>(a.hidden));
  });
}

}  // namespace deq::kernels::cuda
