#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/relative_attention.h"
#include "kernels/common/small_product.h"

// One head of one sample: its queries, keys and values fit into a thread's cache. Rows of numbers
// are padded to whole lanes.

namespace deq::kernels::attention {

struct Shape {
  int64_t batch, own, past, queries, heads, width, horizon;

  Shape(const at::Tensor& qkv, int64_t of_queries, const AttentionTerms& terms)
      : batch(qkv.size(0)),
        own(qkv.size(1)),
        past(terms.past.defined() ? terms.past.size(3) : 0),
        queries(of_queries),
        heads(qkv.size(3)),
        width(qkv.size(4)),
        horizon(terms.horizon) {}

  int64_t keys() const { return past + own; }
  int64_t pairs() const { return heads * batch; }
  int64_t key_row() const { return whole_lanes(keys()); }
  int64_t head_row() const { return whole_lanes(width); }
  /// Distances of a head, transposed: a query's begin at a column that depends on it, and whole
  /// lanes are read.
  int64_t distance_row() const { return whole_lanes(keys() + queries) + 3 * kLanes; }
  /// The keys that query i sees: from `first` to before `last`.
  int64_t last(int64_t i) const { return keys() - queries + i + 1; }
  int64_t first(int64_t i) const {
    return horizon > 0 ? std::max<int64_t>(0, last(i) - horizon) : 0;
  }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(width))); }
};

inline const float* numbers(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

/// One head of one sample: where its rows are.
struct Pair {
  const Shape& shape;
  int64_t head, sample;
  const float *qkv, *past, *content_bias, *position_bias;

  /// What ∈ {0, 1, 2} of own position i: query, key or value.
  const float* own(int64_t i, int64_t what) const {
    return qkv + (((sample * shape.own + i) * 3 + what) * shape.heads + head) * shape.width;
  }
  /// What ∈ {1, 2} of position j among all keys.
  const float* at(int64_t j, int64_t what) const {
    if (j >= shape.past) return own(j - shape.past, what);
    const auto row = (((what - 1) * shape.heads + head) * shape.batch + sample) * shape.past + j;
    return past + row * shape.width;
  }
};

/// Workspace of a thread, and what is filled in from a pair's tensors.
struct Workspace {
  std::vector<float> content, position;  // queries with bias, scaled [queries, head_row]
  std::vector<float> across;             // keys or values, transposed [width, key_row]
  std::vector<float> along;            // the other or the same, by rows [key_row + kTileRows, …]
  std::vector<float> distances;        // of the head's distances [width, distance_row]
  std::vector<float> distances_along;  // by rows [keys + kTileRows, head_row]
  int64_t head = -1;                   // whose distances they are

  explicit Workspace(const Shape& s)
      : content(size(s.queries * s.head_row())),
        position(content.size()),
        across(size(s.width * s.key_row())),
        along(size((s.key_row() + kTileRows) * s.head_row())),
        distances(size(s.width * s.distance_row())),
        distances_along(size((s.keys() + kTileRows) * s.head_row())) {}

  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  void fill_queries(const Pair& pair) {
    const auto& s = pair.shape;
    const float scale = s.scale();
    for (int64_t i = 0; i < s.queries; ++i) {
      const auto* const q = pair.own(s.own - s.queries + i, 0);
      for (int64_t d = 0; d < s.width; ++d) {
        const auto index = size(i * s.head_row() + d);
        content[index] = scale * (q[d] + pair.content_bias[pair.head * s.width + d]);
        position[index] = scale * (q[d] + pair.position_bias[pair.head * s.width + d]);
      }
    }
  }

  void fill_across(const Pair& pair, int64_t what) {
    const auto& s = pair.shape;
    for (int64_t j = 0; j < s.keys(); ++j) {
      const auto* const row = pair.at(j, what);
      for (int64_t d = 0; d < s.width; ++d) across[size(d * s.key_row() + j)] = row[d];
    }
  }

  void fill_along(const Pair& pair, int64_t what) {
    const auto& s = pair.shape;
    for (int64_t j = 0; j < s.keys(); ++j) {
      std::copy_n(pair.at(j, what), s.width, along.data() + j * s.head_row());
    }
  }

  /// Of a head's distances [width, row].
  void fill_distances(const Pair& pair, const float* positions, int64_t row, bool by_rows) {
    if (head == pair.head) return;
    head = pair.head;
    const auto& s = pair.shape;
    for (int64_t d = 0; d < s.width; ++d) {
      const auto* const from = positions + (head * s.width + d) * row;
      std::copy_n(from, s.keys(), distances.data() + d * s.distance_row());
      if (!by_rows) continue;
      for (int64_t t = 0; t < s.keys(); ++t) distances_along[size(t * s.head_row() + d)] = from[t];
    }
  }
};

}  // namespace deq::kernels::attention
