#pragma once

#include <cuda_bf16.h>
#include <cuda_pipeline.h>

#include "kernels/feed_forward/gate_numbers.h"
#include "kernels/feed_forward/token_mixer_cuda.h"

// What the two kernels of token_mixer_cuda.h share.
//
// Blocks stay, one on each multiprocessor, with both matrices in shared memory. A warp takes strips
// of 16 or 32 features of one sample, all tokens of them, by itself: while one waits for memory,
// the others compute. All products are transposed, so that their rows are features: what one leaves
// in registers is then already where the next wants its left factor. Arithmetic is mma.m16n8k16
// with sums in float32; what is between two products is rounded to bfloat16.
//
// Rows in shared memory are 16 bytes longer than a multiple of 32, so that eight of them, which are
// read at once, begin at different banks. Behind the last token and the last feature are zeros.

namespace deq::kernels::cuda::token_mixer {

using Bf16 = __nv_bfloat16;

constexpr int kWarp = 32, kWarps = 8;
constexpr int kVector = 8;  // numbers of 16 bytes
constexpr int kMostTokens = 96;

/// Of shared memory, in numbers.
struct Layout {
  int tokens16;  // tokens, rounded up to whole products
  int inner;
  int of_warp;  // what a warp has for itself

  __host__ __device__ int gate_row() const { return tokens16 + 8; }
  __host__ __device__ int down_row() const { return inner + 8; }
  __host__ __device__ int down_begin() const { return 2 * inner * gate_row(); }
  __host__ __device__ int warps_begin() const { return down_begin() + tokens16 * down_row(); }
  __host__ __device__ int64_t bytes() const {
    return (warps_begin() + int64_t{kWarps} * of_warp) * static_cast<int64_t>(sizeof(Bf16));
  }
};

/// Which part of 8×8 matrices belongs to a lane.
struct Lane {
  int index = static_cast<int>(threadIdx.x) % kWarp;
  // Of what it holds: a row, and the first of two neighbours in it.
  int row = index / 4, pair = index % 4 * 2;
  // Of the rows whose addresses it gives, of four matrices in a square: its row in a matrix, and
  // how far its matrix is from the first one, counted along one side first, or along the other.
  int given = index % 8, inner_side = index / 8 % 2 * 8, outer_side = index / 16 * 8;
};

/// Four 8×8 matrices.
__device__ __forceinline__ void load_matrices(unsigned (&parts)[4], const Bf16* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
               : "r"(address));
}
/// The same, each of them transposed.
__device__ __forceinline__ void load_transposed(unsigned (&parts)[4], const Bf16* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
               : "r"(address));
}

/// sums [16, 8] += left [16, 16] · right [16, 8].
__device__ __forceinline__ void multiply_add(float (&sums)[4], const unsigned (&left)[4],
                                             unsigned right0, unsigned right1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

__device__ __forceinline__ GateNumber<float> gate_number(float a, float u) {
  return {a, u, __fdividef(1.0F, 1.0F + __expf(-a))};
}

__device__ __forceinline__ unsigned packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

/// Two tiles [16, 8] of a product, side by side, as a left factor [16, 16].
__device__ __forceinline__ void pack_tiles(unsigned (&left)[4], const float (&tiles)[2][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    left[2 * i] = packed(tiles[i][0], tiles[i][1]);
    left[2 * i + 1] = packed(tiles[i][2], tiles[i][3]);
  }
}

/// A matrix in memory, whose rows begin where vectors do.
struct Matrix {
  const Bf16* data;
  int64_t stride;
  int rows, columns;
};

/// By all threads of a block: `rows` rows of `columns` numbers, a multiple of 8, of which those
/// that the matrix does not have are zeros.
inline __device__ void fill(Bf16* to, int row_size, int rows, int columns, const Matrix& from) {
  const int vectors = columns / kVector;
  for (int i = static_cast<int>(threadIdx.x); i < rows * vectors; i += kWarps * kWarp) {
    const int row = i / vectors, column = i % vectors * kVector;
    alignas(16) Bf16 numbers[kVector];
    auto& whole = *reinterpret_cast<uint4*>(numbers);
    whole = make_uint4(0, 0, 0, 0);
    if (row < from.rows && column < from.columns) {
      whole = *reinterpret_cast<const uint4*>(from.data + row * from.stride + column);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        if (column + k >= from.columns) numbers[k] = Bf16{};
      }
    }
    *reinterpret_cast<uint4*>(to + row * row_size + column) = whole;
  }
}

/// Both matrices into shared memory.
inline __device__ void fill_matrices(Bf16* shared, const Layout& layout, const MixerShape& shape,
                                     const Bf16* gate_up, int64_t stride, const Bf16* down) {
  const int tokens = static_cast<int>(shape.tokens), inner = layout.inner;
  fill(shared, layout.gate_row(), 2 * inner, layout.tokens16, {gate_up, stride, 2 * inner, tokens});
  fill(shared + layout.down_begin(), layout.down_row(), layout.tokens16, inner,
       {down, inner, tokens, inner});
}

/// `Width` features of all tokens of a sample.
template <int Width>
struct Strip {
  static constexpr int kRow = Width + 8;  // numbers in shared memory
  static constexpr int kVectors = Width / kVector;

  int64_t sample, first;  // the first feature
  int width;              // features from there on, which may be more or less

  __device__ Strip(const MixerShape& shape, int64_t index) {
    const int64_t per_sample = (shape.features + Width - 1) / Width;
    sample = index / per_sample;
    first = index % per_sample * Width;
    width = static_cast<int>(shape.features - first);
  }

  /// Of one token's features in memory, [samples, tokens, features].
  __device__ int64_t place(const MixerShape& shape, int token) const {
    return (sample * shape.tokens + token) * shape.features + first;
  }

  /// Begins to copy into shared memory, with zeros up to whole products.
  __device__ void load(Bf16* to, const Bf16* from, const MixerShape& shape, int tokens16) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int i = lane; i < tokens16 * kVectors; i += kWarp) {
      const int token = i / kVectors, column = i % kVectors * kVector;
      Bf16* const vector = to + token * kRow + column;
      if (token < shape.tokens && column < width) {
        __pipeline_memcpy_async(vector, from + place(shape, token) + column, 16);
      } else {
        *reinterpret_cast<uint4*>(vector) = make_uint4(0, 0, 0, 0);
      }
    }
  }

  __device__ void store(Bf16* to, const Bf16* from, const MixerShape& shape) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int i = lane; i < static_cast<int>(shape.tokens) * kVectors; i += kWarp) {
      const int token = i / kVectors, column = i % kVectors * kVector;
      if (column >= width) continue;
      *reinterpret_cast<uint4*>(to + place(shape, token) + column) =
          *reinterpret_cast<const uint4*>(from + token * kRow + column);
    }
  }
};

/// Ends all that load() has begun, for the whole warp.
inline __device__ void wait_for_strips() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
}

/// Tiles of 8 tokens: the fewest that there are kernels for. 81 tokens have one of their own.
inline int tiles_of(const MixerShape& shape) {
  const auto tiles = (shape.tokens + 7) / 8;
  return tiles <= 2 ? 2 : tiles <= 6 ? 6 : tiles <= 11 ? 11 : 12;
}

inline int tokens16_of(const MixerShape& shape) {
  return (tiles_of(shape) + 1) / 2 * 16;
}

/// Calls launch.operator()<N>() for N tiles.
template <class Launch>
void with_tiles(const MixerShape& shape, const Launch& launch) {
  if (shape.samples * shape.tokens * shape.features == 0) return;
  switch (tiles_of(shape)) {
    case 2:
      return launch.template operator()<2>();
    case 6:
      return launch.template operator()<6>();
    case 11:
      return launch.template operator()<11>();
    default:
      launch.template operator()<12>();
  }
}

inline int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, which, device);
  return value;
}

/// As many blocks as there are multiprocessors, or fewer where strips are few.
inline unsigned blocks_for(const MixerShape& shape, int width) {
  const int64_t strips = shape.samples * ((shape.features + width - 1) / width);
  const int64_t wanted = (strips + kWarps - 1) / kWarps;
  const int most = attribute(cudaDevAttrMultiProcessorCount);
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

}  // namespace deq::kernels::cuda::token_mixer
