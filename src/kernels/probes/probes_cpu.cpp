#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>

#include "kernels/common/vectorised.h"
#include "kernels/probes/probes.h"
#include "kernels/probes/probes_numbers.h"

// A strip is kProbeRows rows by a few columns: always computed whole, by the same vector
// instructions for every column, so that a number does not depend on where its strip begins or
// ends.

namespace deq::kernels {
namespace {

constexpr int64_t kNormalColumns = 16;

template <class T, int64_t kColumns>
using Strip = T[kProbeRows][kColumns];

template <class T>
DEQ_HOST_DEVICE void fill(uint64_t key, uint64_t group, uint64_t column,
                          Strip<T, kNormalColumns>& strip) {
  for (uint64_t i = 0; i < kNormalColumns; ++i) {
    const auto block = philox(key, column + i, group);
    const auto upper = normal_pair<T>(block.word[0], block.word[1]);
    const auto lower = normal_pair<T>(block.word[2], block.word[3]);
    strip[0][i] = upper.first;
    strip[1][i] = upper.second;
    strip[2][i] = lower.first;
    strip[3][i] = lower.second;
  }
}

template <class T>
DEQ_HOST_DEVICE void fill(uint64_t key, uint64_t group, uint64_t column,
                          Strip<T, kSignColumns>& strip) {
  const auto block = philox(key, column / kSignColumns, group);
  for (int64_t row = 0; row < kProbeRows; ++row) {
    for (uint32_t i = 0; i < kSignColumns; ++i) {
      strip[row][i] = sign_of_bit<T>(block.word[row], i);
    }
  }
}

struct Draw {
  uint64_t key;
  int64_t first_row, rows, columns;
};

/// The part of `group` (rows kProbeRows·group and the next) from column `begin` to `end`.
template <int64_t kColumns, class T>
DEQ_HOST_DEVICE void fill_columns(const Draw& draw, int64_t group, int64_t begin, int64_t end,
                                  T* out) {
  const int64_t top = group * kProbeRows - draw.first_row;
  const int64_t from = std::max<int64_t>(0, -top), to = std::min(kProbeRows, draw.rows - top);
  Strip<T, kColumns> strip;
  for (int64_t column = begin; column < end; column += kColumns) {
    fill<T>(draw.key, static_cast<uint64_t>(group), static_cast<uint64_t>(column), strip);
    const int64_t count = std::min(kColumns, end - column);
    for (int64_t row = from; row < to; ++row) {
      std::copy_n(strip[row], count, out + (top + row) * draw.columns + column);
    }
  }
}

constexpr auto normals =
    vectorised([]<class T>(const Draw& draw, int64_t group, int64_t begin, int64_t end, T* out)
                   DEQ_INLINED { fill_columns<kNormalColumns>(draw, group, begin, end, out); });

constexpr auto signs =
    vectorised([]<class T>(const Draw& draw, int64_t group, int64_t begin, int64_t end, T* out)
                   DEQ_INLINED { fill_columns<kSignColumns>(draw, group, begin, end, out); });

}  // namespace

namespace cpu {

void probe(at::Tensor& out, bool as_signs, int64_t key, int64_t first_row) {
  constexpr int64_t kTile = 1024, kGrain = 4;  // columns of a tile; tiles that are worth a thread
  const Draw draw{static_cast<uint64_t>(key), first_row, out.size(0), out.size(1)};
  const int64_t first_group = first_row / kProbeRows;
  const int64_t groups = (first_row + draw.rows + kProbeRows - 1) / kProbeRows - first_group;
  const int64_t per_group = (draw.columns + kTile - 1) / kTile;
  const int64_t grain = kGrain * kTile / std::clamp<int64_t>(draw.columns, 1, kTile);
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "probe", [&] {
    auto* const data = out.data_ptr<scalar_t>();
    at::parallel_for(0, groups * per_group, grain, [&](int64_t first, int64_t last) {
      for (int64_t tile = first; tile < last; ++tile) {
        const int64_t group = first_group + tile / per_group, begin = tile % per_group * kTile;
        const int64_t end = std::min(begin + kTile, draw.columns);
        as_signs ? signs(draw, group, begin, end, data) : normals(draw, group, begin, end, data);
      }
    });
  });
}

}  // namespace cpu

}  // namespace deq::kernels
