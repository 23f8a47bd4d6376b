#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>

#include "kernels/common/block_cache.h"
#include "kernels/common/exponential.h"
#include "kernels/common/vectorised.h"
#include "kernels/recurrence/forget_pool.h"
#include "kernels/recurrence/forget_pool_numbers.h"

// A thread takes some features of one row of the batch and walks through time with them; their
// states stay in its cache.

namespace deq::kernels {
namespace {

constexpr int64_t kPoolFeatures = 256;   // of a block
constexpr int64_t kPoolNumbers = 16384;  // that are worth a thread

template <class T>
[[gnu::always_inline]] inline PoolNumber<T> pool_number(T candidate, T forget, T output) {
  return {hyperbolic_tangent(candidate), logistic(forget), logistic(output)};
}

/// c and h of n features of one position.
constexpr auto pool_position =
    vectorised([]<class T>(const T* __restrict y, int64_t stride, const T* __restrict before,
                           T* __restrict c, T* __restrict h, int64_t n) DEQ_INLINED {
      for (int64_t i = 0; i < n; ++i) {
        const auto number = pool_number(y[i], y[stride + i], y[2 * stride + i]);
        c[i] = number.state(before[i]);
        h[i] = number.hidden(c[i]);
      }
    });

/// ∂y of n features of one position; `later` becomes the gradient of the state before.
constexpr auto pull_position =
    vectorised([]<class T>(const T* __restrict g, const T* __restrict y, int64_t stride,
                           const T* __restrict before, const T* __restrict c, T* __restrict for_y,
                           T* __restrict later, int64_t n) DEQ_INLINED {
      for (int64_t i = 0; i < n; ++i) {
        const auto pulled = pool_number(y[i], y[stride + i], y[2 * stride + i])
                                .gradients(g[i], later[i], before[i], c[i]);
        for_y[i] = pulled.candidate;
        for_y[stride + i] = pulled.forget;
        for_y[2 * stride + i] = pulled.output;
        later[i] = pulled.before;
      }
    });

struct PoolSizes {
  int64_t rows, positions, features;

  explicit PoolSizes(const at::Tensor& y)
      : rows(y.size(0)), positions(y.size(1)), features(y.size(2) / 3) {}
};

/// body(row of the batch, first feature, features).
template <class Body>
void for_blocks(const PoolSizes& sizes, const Body& body) {
  const int64_t blocks = (sizes.features + kPoolFeatures - 1) / kPoolFeatures;
  const int64_t numbers = std::max<int64_t>(kPoolFeatures * sizes.positions, 1);
  const int64_t grain = std::max<int64_t>(kPoolNumbers / numbers, 1);
  at::parallel_for(0, sizes.rows * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kPoolFeatures;
      body(i / blocks, first, std::min(kPoolFeatures, sizes.features - first));
    }
  });
}

}  // namespace

namespace cpu {

std::tuple<at::Tensor, at::Tensor> forget_pool(const at::Tensor& y, const at::Tensor& start) {
  const PoolSizes sizes(y);
  const auto shape = {sizes.rows, sizes.positions, sizes.features};
  const auto h = empty_reused(shape, y.options()), c = empty_reused(shape, y.options());
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "forget_pool", [&] {
    const auto* const from = y.const_data_ptr<scalar_t>();
    const auto* const starts = start.const_data_ptr<scalar_t>();
    auto* const hidden = h.data_ptr<scalar_t>();
    auto* const states = c.data_ptr<scalar_t>();
    const int64_t n = sizes.features;
    for_blocks(sizes, [&](int64_t row, int64_t first, int64_t count) {
      const scalar_t* before = starts + row * n + first;
      for (int64_t t = 0; t < sizes.positions; ++t) {
        const int64_t position = row * sizes.positions + t;
        auto* const own = states + position * n + first;
        pool_position(from + 3 * position * n + first, n, before, own,
                      hidden + position * n + first, count);
        before = own;
      }
    });
  });
  return {h, c};
}

std::tuple<at::Tensor, at::Tensor> forget_pool_backward(const at::Tensor& g,
                                                        const at::Tensor& g_last,
                                                        const at::Tensor& y,
                                                        const at::Tensor& start,
                                                        const at::Tensor& c) {
  const PoolSizes sizes(y);
  const auto for_y = empty_reused(y.sizes(), y.options());
  const auto for_start = g_last.clone();
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "forget_pool_backward", [&] {
    const auto* const pulled = g.const_data_ptr<scalar_t>();
    const auto* const from = y.const_data_ptr<scalar_t>();
    const auto* const starts = start.const_data_ptr<scalar_t>();
    const auto* const states = c.const_data_ptr<scalar_t>();
    auto* const to = for_y.data_ptr<scalar_t>();
    auto* const to_start = for_start.data_ptr<scalar_t>();
    const int64_t n = sizes.features;
    for_blocks(sizes, [&](int64_t row, int64_t first, int64_t count) {
      for (int64_t t = sizes.positions - 1; t >= 0; --t) {
        const int64_t position = row * sizes.positions + t, place = position * n + first;
        const auto* const before = t > 0 ? states + place - n : starts + row * n + first;
        const int64_t gates = 3 * position * n + first;
        pull_position(pulled + place, from + gates, n, before, states + place, to + gates,
                      to_start + row * n + first, count);
      }
    });
  });
  return {for_y, for_start};
}

}  // namespace cpu

}  // namespace deq::kernels
