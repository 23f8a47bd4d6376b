#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>

#include "kernels/common/block_cache.h"
#include "kernels/common/exponential.h"
#include "kernels/common/vectorised.h"
#include "kernels/feed_forward/gate.h"
#include "kernels/feed_forward/gate_numbers.h"

namespace deq::kernels {
namespace {

constexpr int64_t kPart = 4096;  // numbers that are worth a thread

template <class T>
[[gnu::always_inline]] inline GateNumber<T> gate_number(T a, T u) {
  return {a, u, logistic(a)};
}

/// h of n numbers.
constexpr auto gate_part = vectorised([]<class T>(const T* __restrict a, const T* __restrict u,
                                                  T* __restrict h, int64_t n) DEQ_INLINED {
  for (int64_t i = 0; i < n; ++i) h[i] = gate_number(a[i], u[i]).hidden();
});

/// ∂a, ∂u and h of n numbers.
constexpr auto pull_part = vectorised(
    []<class T>(const T* __restrict g, const T* __restrict a, const T* __restrict u,
                T* __restrict for_a, T* __restrict for_u, T* __restrict h, int64_t n) DEQ_INLINED {
      for (int64_t i = 0; i < n; ++i) {
        const auto number = gate_number(a[i], u[i]);
        for_a[i] = number.for_gate(g[i]);
        for_u[i] = number.for_up(g[i]);
        h[i] = number.hidden();
      }
    });

/// body(place in h, place in `both` of the first half, numbers), n to a half of a row.
template <class Body>
void for_parts(int64_t rows, int64_t n, const Body& body) {
  const int64_t parts = (n + kPart - 1) / kPart;
  const int64_t grain = std::max<int64_t>(kPart / std::max<int64_t>(n, 1), 1);
  at::parallel_for(0, rows * parts, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i / parts, begin = i % parts * kPart;
      body(row * n + begin, 2 * row * n + begin, std::min(kPart, n - begin));
    }
  });
}

}  // namespace

namespace cpu {

at::Tensor gate(const at::Tensor& both, at::IntArrayRef shape, int64_t rows) {
  auto h = empty_reused(shape, both.options());
  const auto n = h.numel() / std::max<int64_t>(rows, 1);
  AT_DISPATCH_FLOATING_TYPES(both.scalar_type(), "gate", [&] {
    const auto* const from = both.const_data_ptr<scalar_t>();
    auto* const to = h.data_ptr<scalar_t>();
    for_parts(rows, n, [&](int64_t place, int64_t first, int64_t count) {
      gate_part(from + first, from + first + n, to + place, count);
    });
  });
  return h;
}

GateGradients gate_backward(const at::Tensor& g, const at::Tensor& both, int64_t rows) {
  const auto for_both = empty_reused(both.sizes(), both.options());
  const auto h = empty_reused(g.sizes(), both.options());
  const auto n = h.numel() / std::max<int64_t>(rows, 1);
  AT_DISPATCH_FLOATING_TYPES(both.scalar_type(), "gate_backward", [&] {
    const auto* const pulled = g.const_data_ptr<scalar_t>();
    const auto* const from = both.const_data_ptr<scalar_t>();
    auto* const to = for_both.data_ptr<scalar_t>();
    auto* const again = h.data_ptr<scalar_t>();
    for_parts(rows, n, [&](int64_t place, int64_t first, int64_t count) {
      pull_part(pulled + place, from + first, from + first + n, to + first, to + first + n,
                again + place, count);
    });
  });
  return {for_both, h};
}

}  // namespace cpu

}  // namespace deq::kernels
