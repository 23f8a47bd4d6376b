#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <vector>

// What the CPU kernels of group_norm.h share. A thread takes whole samples, in channels-last order:
// a first pass sums over the pixels of every channel, a second one writes. Numbers that belong to
// channels are repeated for a few pixels, so that the inner loops are long. Sums are float64 from
// strip to strip.

namespace deq::kernels::cpu {

/// Of one sample: `rows` rows of `width` numbers, each several pixels of all channels.
struct Rows {
  int64_t channels, repeats, width, rows;

  Rows(int64_t of_channels, int64_t pixels) : channels(of_channels), repeats(1) {
    while (repeats * channels < 64 && pixels % (2 * repeats) == 0) repeats *= 2;
    width = repeats * channels;
    rows = pixels / repeats;
  }

  int64_t pixels() const { return rows * repeats; }
  /// Room for this many rows.
  template <class T>
  std::vector<T> scratch(int64_t count) const {
    return std::vector<T>(static_cast<size_t>(count * width));
  }
};

/// Calls body(first row, rows, sums) strip by strip; it adds to `kinds` rows of sums, which are
/// then added over repeats into totals [kinds, channels].
template <class T, class Body>
void sum_in_strips(const Rows& rows, int64_t kinds, T* sums, double* totals, const Body& body) {
  constexpr int64_t kStrip = 32;  // times that a strip adds to each of its sums
  std::fill_n(totals, kinds * rows.channels, 0.0);
  for (int64_t row = 0; row < rows.rows; row += kStrip) {
    std::fill_n(sums, kinds * rows.width, T{0});
    body(row, std::min(kStrip, rows.rows - row), sums);
    for (int64_t kind = 0; kind < kinds; ++kind) {
      const T* from = sums + kind * rows.width;
      double* const to = totals + kind * rows.channels;
      for (int64_t pixel = 0; pixel < rows.repeats; ++pixel, from += rows.channels) {
        for (int64_t c = 0; c < rows.channels; ++c) to[c] += from[c];
      }
    }
  }
}

/// The first `channels` numbers of a row, repeated for all its pixels.
template <class T>
void repeat(const Rows& rows, T* row) {
  for (int64_t i = rows.channels; i < rows.width; ++i) row[i] = row[i - rows.channels];
}

/// A row of what every channel's group has.
template <class T>
void fill_from_groups(const Rows& rows, const T* of_groups, int64_t per_group, T* row) {
  for (int64_t c = 0; c < rows.channels; ++c) row[c] = of_groups[c / per_group];
  repeat(rows, row);
}

template <class T>
const T* sample(const at::Tensor& images, int64_t b) {
  return images.defined() ? images.const_data_ptr<T>() + b * images.stride(0) : nullptr;
}

template <class T>
const T* numbers(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

}  // namespace deq::kernels::cpu
