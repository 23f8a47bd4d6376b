#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/common/panels.h"
#include "kernels/common/vectorised.h"

// Winograd's F(4×4, 3×3) for images in channels-last order: y = x ⋆ w, a 3×3 convolution of stride
// 1 that keeps the size, by tiles of 4×4 outputs. With d the 6×6 inputs of a tile, for every pair
// of channels,
//
//   y = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ d B) ] A,
//
// so that a tile costs 36 products per pair of channels instead of 144, and these are 36 small
// matrix products over the channels. The interpolation points are 0, ±√½, ±√2 and ∞: the error is
// about four times that of a direct convolution in float32, half of that with the usual ±1, ±2.

namespace deq::kernels::winograd {

inline constexpr int64_t kOut = 4, kIn = 6, kPoints = kIn * kIn;  // of a tile's edge; of its inputs
inline constexpr int64_t kBlock = 16;  // tiles that are transformed together, to stay in the cache

inline constexpr float kP = 0.70710678F, kQ = 1.41421356F;

using panels::kLanes, panels::Lanes, panels::Vector, panels::vector_at;  // of channels
#define DEQ_INLINE [[gnu::always_inline]] inline

/// A batch of images. Channels in and out are multiples of kLanes; x has its own distance between
/// samples, so that it may be part of a wider tensor.
struct Shape {
  int64_t batch = 0, height = 0, width = 0, in = 0, out = 0, x_stride = 0;

  int64_t down() const { return (height + kOut - 1) / kOut; }
  int64_t across() const { return (width + kOut - 1) / kOut; }
  int64_t tiles() const { return batch * down() * across(); }
  int64_t blocks() const { return (tiles() + kBlock - 1) / kBlock; }
  int64_t weights() const { return kPoints * in * out; }
  int64_t workspace() const { return kPoints * kBlock * (in + out); }
};

/// Where a tile of the batch lies.
struct Tile {
  int64_t sample, top, left;
};

DEQ_INLINE Tile tile_at(const Shape& shape, int64_t index) {
  const int64_t across = shape.across(), in_sample = shape.down() * across;
  const int64_t tile = index % in_sample;
  return {index / in_sample, tile / across * kOut, tile % across * kOut};
}

/// r = Bᵀ d for one column of six, `step` apart in d and in r.
template <int64_t kWidth>
DEQ_INLINE void transform_in(const Lanes<kWidth>* d, Lanes<kWidth>* r, int64_t step) {
  using V = Lanes<kWidth>;
  const V d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step];
  const V even_p = d4 - 2.0F * d2, odd_p = kP * (d3 - 2.0F * d1);
  const V even_q = d4 - 0.5F * d2, odd_q = kQ * (d3 - 0.5F * d1);
  const V first = d[0] - 2.5F * d2 + d4, last = d1 - 2.5F * d3 + d[5 * step];
  r[0] = first;
  r[step] = even_p + odd_p;
  r[2 * step] = even_p - odd_p;
  r[3 * step] = even_q + odd_q;
  r[4 * step] = even_q - odd_q;
  r[5 * step] = last;
}

/// y = Aᵀ m: six numbers, `step` apart, to four, `out_step` apart.
template <int64_t kWidth>
DEQ_INLINE void transform_out(const Lanes<kWidth>* m, int64_t step, Lanes<kWidth>* y,
                              int64_t out_step) {
  using V = Lanes<kWidth>;
  const V sum_p = m[step] + m[2 * step], difference_p = m[step] - m[2 * step];
  const V sum_q = m[3 * step] + m[4 * step], difference_q = m[3 * step] - m[4 * step];
  y[0] = m[0] + sum_p + sum_q;
  y[out_step] = kP * difference_p + kQ * difference_q;
  y[2 * out_step] = 0.5F * sum_p + 2.0F * sum_q;
  y[3 * out_step] = 0.5F * kP * difference_p + 2.0F * kQ * difference_q + m[5 * step];
}

/// Calls body(first channel, the width of a vector as a constant) for all channels: with AVX-512 in
/// wide vectors, as far as they go.
template <class Body>
DEQ_INLINE void for_vectors(int64_t channels, const Body& body) {
  int64_t c = 0;
  if (widest_instructions == InstructionSet::kAvx512) {
    for (; c + 2 * kLanes <= channels; c += 2 * kLanes) {
      body(c, std::integral_constant<int64_t, 2 * kLanes>{});
    }
  }
  for (; c < channels; c += kLanes) body(c, std::integral_constant<int64_t, kLanes>{});
}

/// A tile's inputs, all channels, to v[point][in], points `stride` apart.
DEQ_INLINE void gather_tile(const Shape& shape, const Tile& tile, const float* x, float* v,
                            int64_t stride) {
  const float* const image = x + tile.sample * shape.x_stride;
  const bool inside = tile.top > 0 && tile.left > 0 && tile.top + kOut < shape.height &&
                      tile.left + kOut < shape.width;
  for_vectors(shape.in, [&](int64_t c, auto width) DEQ_INLINED {
    constexpr int64_t kWidth = decltype(width)::value;
    Lanes<kWidth> d[kPoints], r[kPoints];
    for (int64_t i = 0; i < kIn; ++i) {
      const int64_t row = tile.top + i - 1;
      const bool row_inside = row >= 0 && row < shape.height;
      for (int64_t j = 0; j < kIn; ++j) {
        const int64_t column = tile.left + j - 1;
        const bool there = inside || (row_inside && column >= 0 && column < shape.width);
        d[i * kIn + j] =
            there ? vector_at<kWidth>(image + (row * shape.width + column) * shape.in + c)
                  : Lanes<kWidth>{};
      }
    }
    for (int64_t j = 0; j < kIn; ++j) transform_in<kWidth>(d + j, r + j, kIn);
    for (int64_t i = 0; i < kIn; ++i) transform_in<kWidth>(r + i * kIn, d + i * kIn, 1);
    for (int64_t k = 0; k < kPoints; ++k) vector_at<kWidth>(v + k * stride + c) = d[k];
  });
}

/// m[point][out], points `stride` apart, to a tile's outputs.
DEQ_INLINE void scatter_tile(const Shape& shape, const Tile& tile, const float* m, int64_t stride,
                             float* y) {
  float* const image =
      y + ((tile.sample * shape.height + tile.top) * shape.width + tile.left) * shape.out;
  const int64_t rows = std::min(kOut, shape.height - tile.top);
  const int64_t columns = std::min(kOut, shape.width - tile.left);
  for_vectors(shape.out, [&](int64_t c, auto width) DEQ_INLINED {
    constexpr int64_t kWidth = decltype(width)::value;
    Lanes<kWidth> d[kPoints], r[kOut * kIn], t[kOut * kOut];
    for (int64_t k = 0; k < kPoints; ++k) d[k] = vector_at<kWidth>(m + k * stride + c);
    for (int64_t j = 0; j < kIn; ++j) transform_out<kWidth>(d + j, kIn, r + j, kIn);
    for (int64_t i = 0; i < kOut; ++i) transform_out<kWidth>(r + i * kIn, 1, t + i * kOut, 1);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        vector_at<kWidth>(image + (i * shape.width + j) * shape.out + c) = t[i * kOut + j];
      }
    }
  });
}

/// Tiles kBlock·block and the next: x to y. `u` is what transform_weights() made.
inline constexpr auto convolve_block =
    vectorised([](const Shape& shape, int64_t block, const float* x, const float* u,
                  float* workspace, float* y) DEQ_INLINED {
      const int64_t first = block * kBlock, count = std::min(kBlock, shape.tiles() - first);
      float* const v = workspace;                        // [point][tile][in]
      float* const m = v + kPoints * kBlock * shape.in;  // [point][tile][out]
      for (int64_t t = 0; t < count; ++t) {
        gather_tile(shape, tile_at(shape, first + t), x, v + t * shape.in, kBlock * shape.in);
      }
      const int64_t vectors = shape.out / kLanes;
      for (int64_t point = 0; point < kPoints; ++point) {
        const float* const weights = u + point * shape.in * shape.out;
        for (int64_t j = 0, panel = 0; j < vectors; j += panel) {
          panel = panels::panel_vectors(vectors - j);
          panels::multiply_panel({.a = v + point * kBlock * shape.in,
                                  .a_row = shape.in,
                                  .c = m + point * kBlock * shape.out + j * kLanes,
                                  .c_row = shape.out},
                                 count, shape.in, weights + j * kLanes * shape.in, panel,
                                 /*add=*/false);
        }
      }
      for (int64_t t = 0; t < count; ++t) {
        scatter_tile(shape, tile_at(shape, first + t), m + t * shape.out, kBlock * shape.out, y);
      }
    });

/// r = G w: three numbers, `step` apart, to six, `out_step` apart.
DEQ_INLINE void transform_weight(const Vector* w, int64_t step, Vector* r, int64_t out_step) {
  const Vector w0 = w[0], w1 = w[step], w2 = w[2 * step];
  const Vector even_p = (w0 + 0.5F * w2) / -1.5F, odd_p = kP / -1.5F * w1;
  const Vector even_q = (w0 + 2.0F * w2) / 6.0F, odd_q = kQ / 6.0F * w1;
  r[0] = w0;
  r[out_step] = even_p + odd_p;
  r[2 * out_step] = even_p - odd_p;
  r[3 * out_step] = even_q + odd_q;
  r[4 * out_step] = even_q - odd_q;
  r[5 * out_step] = w2;
}

/// u = G w Gᵀ of w [3, 3, in, out], in panels: [point][panel][in][vectors of a panel].
inline constexpr auto transform_weights =
    vectorised([](const Shape& shape, const float* w, float* u) DEQ_INLINED {
      const int64_t pairs = shape.in * shape.out;
      for (int64_t panel = 0, end = 0; panel < shape.out; panel = end) {
        end = panel + panels::panel_vectors((shape.out - panel) / kLanes) * kLanes;
        float* to = u + panel * shape.in;
        for (int64_t i = 0; i < shape.in; ++i) {
          for (int64_t o = panel; o < end; o += kLanes, to += kLanes) {
            Vector d[9], r[3 * kIn], t[kPoints];
            for (int64_t k = 0; k < 9; ++k) {
              d[k] = *reinterpret_cast<const Vector*>(w + k * pairs + i * shape.out + o);
            }
            for (int64_t j = 0; j < 3; ++j) transform_weight(d + j, 3, r + j, 3);
            for (int64_t k = 0; k < kIn; ++k) transform_weight(r + 3 * k, 1, t + kIn * k, 1);
            for (int64_t k = 0; k < kPoints; ++k) *reinterpret_cast<Vector*>(to + k * pairs) = t[k];
          }
        }
      }
    });

#undef DEQ_INLINE

}  // namespace deq::kernels::winograd
