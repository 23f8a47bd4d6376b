#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "kernels/common/vectorised.h"
#include "kernels/history/history.h"

// Work is cut into tiles of one sample and kTile numbers: small enough that a tile of the vector
// being built stays in a near cache while the history streams past it once, and long enough that
// memory is read ahead. Partial sums are kept for every tile and added in order, so a result
// depends neither on the number of threads nor on the other samples of the batch.

namespace deq::kernels {
namespace {

constexpr int64_t kTile = 8192;
constexpr int64_t kLanes = 32;
constexpr int64_t kNumbersForAThread = 1 << 15;

// Independent lanes let the compiler vectorise a sum without reordering one. Sums are in float64:
// the passes wait for memory anyway, and squares of float32 numbers leave float32's range.
constexpr auto dot = vectorised([]<class T>(const T* a, const T* b, int64_t n) DEQ_INLINED {
  double sum = 0;
  int64_t i = 0;
  if (n >= kLanes) {
    double lanes[kLanes] = {};
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) {
        lanes[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
      }
    }
    for (int64_t l = 0; l < kLanes; ++l) sum += lanes[l];
  }
  for (; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
});

constexpr auto subtract =
    vectorised([]<class T>(const T* a, const T* b, T* out, int64_t n) DEQ_INLINED {
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] - b[i];
    });

constexpr auto add = vectorised([]<class T>(const T* a, const T* b, T* out, int64_t n) DEQ_INLINED {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
});

constexpr auto write_scaled =
    vectorised([]<class T>(T c, const T* a, T* out, int64_t n) DEQ_INLINED {
      for (int64_t i = 0; i < n; ++i) out[i] = c * a[i];
    });

constexpr auto add_scaled = vectorised([]<class T>(T c, const T* a, T* out, int64_t n) DEQ_INLINED {
  for (int64_t i = 0; i < n; ++i) out[i] += c * a[i];
});

/// Calls body(sample, begin, length, sums) for every tile; `sums` are `width` zeroed partial sums.
/// Returns the sums per sample, [batch, width].
template <class Body>
at::Tensor for_each_tile(int64_t batch, int64_t dim, int64_t width, const Body& body) {
  const int64_t per_sample = (dim + kTile - 1) / kTile;
  const int64_t tiles = batch * per_sample;
  // With one tile per sample, the bodies write every number.
  auto result = per_sample > 1 ? at::zeros({batch, width}, at::kDouble)
                               : at::empty({batch, width}, at::kDouble);
  double* const totals = result.data_ptr<double>();
  std::vector<double> partial(per_sample > 1 ? static_cast<size_t>(tiles * width) : 0);
  double* const sums = per_sample > 1 ? partial.data() : totals;
  const int64_t grain = std::max<int64_t>(1, kNumbersForAThread / std::min(dim, kTile));
  at::parallel_for(0, tiles, grain, [&](int64_t first, int64_t last) {
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t sample = tile / per_sample;
      const int64_t begin = (tile % per_sample) * kTile;
      body(sample, begin, std::min(kTile, dim - begin), sums + tile * width);
    }
  });
  if (per_sample > 1) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      for (int64_t i = 0; i < width; ++i) {
        totals[(tile / per_sample) * width + i] += partial[static_cast<size_t>(tile * width + i)];
      }
    }
  }
  return result;
}

template <class T>
std::vector<const T*> pointers(at::TensorList rows) {
  std::vector<const T*> result;
  result.reserve(rows.size());
  for (const auto& row : rows) result.push_back(row.const_data_ptr<T>());
  return result;
}

}  // namespace

namespace cpu {

at::Tensor observe(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows,
                   const std::optional<at::Tensor>& newest,
                   const std::optional<at::Tensor>& /*marks*/) {
  const int64_t batch = z.size(0), dim = z.size(1);
  return AT_DISPATCH_FLOATING_TYPES(z.scalar_type(), "observe", [&] {
    const auto row = pointers<scalar_t>(rows);
    const auto* f_data = f.const_data_ptr<scalar_t>();
    const auto* z_data = z.const_data_ptr<scalar_t>();
    const auto* newest_data = newest ? newest->const_data_ptr<scalar_t>() : nullptr;
    auto* g_data = g.data_ptr<scalar_t>();
    const auto width = static_cast<int64_t>(newest ? 2 * row.size() : row.size()) + 2;
    return for_each_tile(batch, dim, width, [&](int64_t b, int64_t begin, int64_t n, double* sums) {
      const int64_t at = b * dim + begin;
      subtract(f_data + at, z_data + at, g_data + at, n);
      sums[0] = dot(g_data + at, g_data + at, n);
      sums[1] = dot(f_data + at, f_data + at, n);
      for (size_t i = 0; i < row.size(); ++i) sums[i + 2] = dot(g_data + at, row[i] + at, n);
      if (newest_data == nullptr) return;
      double* newest_sums = sums + 2 + row.size();
      for (size_t i = 0; i < row.size(); ++i) {
        newest_sums[i] = dot(newest_data + at, row[i] + at, n);
      }
    });
  });
}

at::Tensor dots(const at::Tensor& v, at::TensorList rows) {
  const int64_t batch = v.size(0), dim = v.size(1);
  return AT_DISPATCH_FLOATING_TYPES(v.scalar_type(), "dots", [&] {
    const auto row = pointers<scalar_t>(rows);
    const auto* v_data = v.const_data_ptr<scalar_t>();
    return for_each_tile(batch, dim, static_cast<int64_t>(row.size()),
                         [&](int64_t b, int64_t begin, int64_t n, double* sums) {
                           const int64_t at = b * dim + begin;
                           for (size_t i = 0; i < row.size(); ++i) {
                             sums[i] = dot(v_data + at, row[i] + at, n);
                           }
                         });
  });
}

at::Tensor combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out,
                   const std::optional<at::Tensor>& base, std::optional<at::Tensor> moved,
                   at::TensorList dot_rows) {
  const int64_t batch = out.size(0), dim = out.size(1);
  const auto count = static_cast<int64_t>(rows.size());
  const double* c = coefficients.const_data_ptr<double>();
  return AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "combine", [&] {
    const auto row = pointers<scalar_t>(rows);
    const auto dot_row = pointers<scalar_t>(dot_rows);
    auto* out_data = out.data_ptr<scalar_t>();
    const auto* base_data = base ? base->const_data_ptr<scalar_t>() : nullptr;
    auto* moved_data = moved ? moved->data_ptr<scalar_t>() : nullptr;
    return for_each_tile(batch, dim, static_cast<int64_t>(dot_row.size()),
                         [&](int64_t b, int64_t begin, int64_t n, double* sums) {
                           const int64_t at = b * dim + begin;
                           bool empty = true;
                           for (int64_t i = 0; i < count; ++i) {
                             const auto weight = static_cast<scalar_t>(c[b * count + i]);
                             if (weight == 0) continue;
                             const auto* source = row[static_cast<size_t>(i)] + at;
                             if (empty) {
                               write_scaled(weight, source, out_data + at, n);
                             } else {
                               add_scaled(weight, source, out_data + at, n);
                             }
                             empty = false;
                           }
                           if (empty) std::fill_n(out_data + at, n, scalar_t(0));
                           if (moved_data != nullptr)
                             add(base_data + at, out_data + at, moved_data + at, n);
                           for (size_t i = 0; i < dot_row.size(); ++i) {
                             sums[i] = dot(out_data + at, dot_row[i] + at, n);
                           }
                         });
  });
}

}  // namespace cpu

}  // namespace deq::kernels
