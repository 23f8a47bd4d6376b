#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <algorithm>

#include "kernels/common/affine.h"
#include "kernels/common/block_cache.h"
#include "kernels/common/product.h"
#include "kernels/common/vectorised.h"
#include "kernels/feed_forward/feed_forward.h"

// A thread takes rows of x and goes through the inner features block by block: what it multiplies
// with W for a block, it multiplies with V and adds up while the block is in the cache.

namespace deq::kernels {
namespace {

constexpr int64_t kRows = 256;      // of x that are multiplied at once
constexpr int64_t kColumns = 512;   // of a block
constexpr int64_t kLeastRows = 16;  // that are worth a thread that reads all of the weights

/// h = max((h + bias) ⊙ mask, 0) over n numbers; no mask is one of ones. NaN stays.
constexpr auto activate = vectorised([](float* __restrict h, const float* __restrict bias,
                                        const float* __restrict mask, int64_t n) DEQ_INLINED {
  if (mask != nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      const float value = (h[i] + bias[i]) * mask[i];
      h[i] = value < 0 ? 0 : value;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const float value = h[i] + bias[i];
      h[i] = value < 0 ? 0 : value;
    }
  }
});

/// g = g ⊙ mask where hidden > 0, else 0.
constexpr auto pull_back = vectorised([](float* __restrict g, const float* __restrict hidden,
                                         const float* __restrict mask, int64_t n) DEQ_INLINED {
  if (mask != nullptr) {
    for (int64_t i = 0; i < n; ++i) g[i] = hidden[i] > 0 ? g[i] * mask[i] : 0;
  } else {
    for (int64_t i = 0; i < n; ++i) g[i] = hidden[i] > 0 ? g[i] : 0;
  }
});

/// Of a matrix of B·q rows, each with the mask [B, 1, inner] of its sample.
struct Masks {
  const float* numbers;
  int64_t per_sample, inner;

  Masks(const at::Tensor& mask, int64_t rows_of_sample)
      : numbers(mask.defined() ? mask.const_data_ptr<float>() : nullptr),
        per_sample(rows_of_sample),
        inner(mask.defined() ? mask.size(2) : 0) {}

  const float* at(int64_t row, int64_t column) const {
    return numbers == nullptr ? nullptr : numbers + row / per_sample * inner + column;
  }
};

/// Calls body(first row, rows, first column, columns, scratch [rows, columns]) for all blocks of a
/// matrix, the columns of some rows one after the other on the same thread.
template <class Body>
void for_blocks(int64_t rows, int64_t columns, const at::TensorOptions& options, const Body& body) {
  const auto threads = at::get_num_threads();
  const auto scratch = empty_reused({threads, kRows * kColumns}, options);
  at::parallel_for(0, rows, kLeastRows, [&](int64_t begin, int64_t end) {
    const WithoutGradients guard;
    const auto own = scratch[at::get_thread_num()];
    for (int64_t row = begin; row < end; row += kRows) {
      const auto count = std::min(kRows, end - row);
      for (int64_t column = 0; column < columns; column += kColumns) {
        const auto width = std::min(kColumns, columns - column);
        body(row, count, column, width, own.narrow(0, 0, count * width).view({count, width}));
      }
    }
  });
}

at::Tensor block(const at::Tensor& matrix, int64_t row, int64_t rows, int64_t column,
                 int64_t columns) {
  return matrix.narrow(0, row, rows).narrow(1, column, columns);
}

}  // namespace

namespace cpu {

bool feed_forward_serves(const at::Tensor& x, const FeedForwardWeights& weights) {
  const auto is_float = [](const at::Tensor& t) {
    return t.is_cpu() && t.scalar_type() == at::kFloat;
  };
  return is_float(x) && is_float(weights.inner) && is_float(weights.outer) && x.dim() == 3 &&
         x.size(0) * x.size(1) >= kLeastRows * at::get_num_threads() &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask, const at::Tensor& hidden) {
  const WithoutGradients guard;
  const auto rows = x.reshape({-1, x.size(2)});
  const auto inner = weights.inner.size(1), out = weights.outer.size(1);
  const auto bias = weights.inner_bias.contiguous();
  const Masks masks(mask, x.size(1));
  const auto y = empty_reused({rows.size(0), out}, x.options());
  for_blocks(
      rows.size(0), inner, x.options(),
      [&](int64_t row, int64_t count, int64_t column, int64_t width, const at::Tensor& scratch) {
        const auto h = hidden.defined() ? block(hidden, row, count, column, width) : scratch;
        multiply(h, rows.narrow(0, row, count), weights.inner.narrow(1, column, width));
        auto* const numbers = h.data_ptr<float>();
        for (int64_t i = 0; i < count; ++i) {
          activate(numbers + i * h.stride(0), bias.const_data_ptr<float>() + column,
                   masks.at(row + i, column), width);
        }
        const auto to = y.narrow(0, row, count);
        if (column == 0) to.copy_(weights.outer_bias.expand_as(to));
        multiply(to, h, weights.outer.narrow(0, column, width), /*add=*/true);
      });
  return y.view({x.size(0), x.size(1), out});
}

FeedForwardGradients feed_forward_backward(const at::Tensor& g, const at::Tensor& x,
                                           const at::Tensor& hidden,
                                           const FeedForwardWeights& weights,
                                           const at::Tensor& mask, bool with_weights) {
  const WithoutGradients guard;
  const auto pull = g.reshape({-1, g.size(2)}), rows = x.reshape({-1, x.size(2)});
  const auto inner = hidden.size(1);
  const auto from_outer = weights.outer.t(), from_inner = weights.inner.t();
  const Masks masks(mask, x.size(1));
  const auto for_x = empty_reused(rows.sizes(), x.options());
  const auto for_hidden = with_weights ? empty_reused(hidden.sizes(), x.options()) : at::Tensor();
  for_blocks(
      rows.size(0), inner, x.options(),
      [&](int64_t row, int64_t count, int64_t column, int64_t width, const at::Tensor& scratch) {
        const auto h = with_weights ? block(for_hidden, row, count, column, width) : scratch;
        multiply(h, pull.narrow(0, row, count), from_outer.narrow(1, column, width));
        auto* const numbers = h.data_ptr<float>();
        const auto* const was = hidden.const_data_ptr<float>() + row * inner + column;
        for (int64_t i = 0; i < count; ++i) {
          pull_back(numbers + i * h.stride(0), was + i * inner, masks.at(row + i, column), width);
        }
        multiply(for_x.narrow(0, row, count), h, from_inner.narrow(0, column, width),
                 /*add=*/column > 0);
      });
  FeedForwardGradients result{.for_x = for_x.view(x.sizes())};
  if (!with_weights) return result;
  // In the order of the parameters, [out, in], so that they need no copy on their way back.
  result.for_inner = affine(for_hidden.t(), rows).t();
  result.for_inner_bias = for_hidden.sum(0);
  result.for_outer = affine(pull.t(), hidden).t();
  result.for_outer_bias = pull.sum(0);
  return result;
}

}  // namespace cpu

}  // namespace deq::kernels
