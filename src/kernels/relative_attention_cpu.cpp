#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/block_cache.h"
#include "kernels/product.h"
#include "kernels/relative_attention.h"
#include "kernels/small_product.h"

// A thread takes pairs of a head and a sample, whose queries, keys and values fit into its cache,
// and goes through the queries a few at a time: their scores, probabilities and results are done
// before the next ones begin. What causality hides is neither multiplied nor exponentiated, but for
// what fills up whole lanes. Rows of numbers are padded to whole lanes.

namespace deq::kernels {
namespace {

constexpr int64_t kLanes = kExpLanes;

constexpr int64_t padded(int64_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

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
  int64_t key_row() const { return padded(keys()); }
  int64_t head_row() const { return padded(width); }
  /// Distances of a head, transposed: a query's begin at a place that depends on it, and whole
  /// lanes are read.
  int64_t place_row() const { return padded(keys() + queries) + 2 * kLanes; }
  /// The keys that query i sees: from `first` to before `last`.
  int64_t last(int64_t i) const { return keys() - queries + i + 1; }
  int64_t first(int64_t i) const {
    return horizon > 0 ? std::max<int64_t>(0, last(i) - horizon) : 0;
  }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(width))); }
};

const float* numbers(const at::Tensor& tensor) {
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
  /// What ∈ {1, 2} of place j among all keys.
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
  std::vector<float> along;         // the other or the same, by rows [key_row + kTileRows, …]
  std::vector<float> places;        // of the head's distances [width, place_row]
  std::vector<float> places_along;  // by rows [keys + kTileRows, head_row]
  int64_t head = -1;                // whose distances they are

  explicit Workspace(const Shape& s)
      : content(size(s.queries * s.head_row())),
        position(content.size()),
        across(size(s.width * s.key_row())),
        along(size((s.key_row() + kTileRows) * s.head_row())),
        places(size(s.width * s.place_row())),
        places_along(size((s.keys() + kTileRows) * s.head_row())) {}

  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  void fill_queries(const Pair& pair) {
    const auto& s = pair.shape;
    const float scale = s.scale();
    for (int64_t i = 0; i < s.queries; ++i) {
      const auto* const q = pair.own(s.own - s.queries + i, 0);
      for (int64_t d = 0; d < s.width; ++d) {
        const auto place = size(i * s.head_row() + d);
        content[place] = scale * (q[d] + pair.content_bias[pair.head * s.width + d]);
        position[place] = scale * (q[d] + pair.position_bias[pair.head * s.width + d]);
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
  void fill_places(const Pair& pair, const float* positions, int64_t row, bool by_rows) {
    if (head == pair.head) return;
    head = pair.head;
    const auto& s = pair.shape;
    for (int64_t d = 0; d < s.width; ++d) {
      const auto* const from = positions + (head * s.width + d) * row;
      std::copy_n(from, s.keys(), places.data() + d * s.place_row());
      if (!by_rows) continue;
      for (int64_t t = 0; t < s.keys(); ++t) places_along[size(t * s.head_row() + d)] = from[t];
    }
  }
};

/// s += t over whole lanes, −∞ outside [first, last), and the largest.
[[gnu::always_inline]] inline float add_and_mask(float* s, const float* t, int64_t first,
                                                 int64_t last, int64_t n) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < n; j += kLanes) lanes(s + j) += lanes(t + j);
  std::fill(s, s + first, kNone);
  std::fill(s + last, s + n, kNone);
  FloatLanes most = lanes(s);
  for (int64_t j = kLanes; j < n; j += kLanes) most = lanes(s + j) > most ? lanes(s + j) : most;
  float result = most[0];
  for (int64_t l = 1; l < kLanes; ++l) result = result > most[l] ? result : most[l];
  return result;
}

/// Scores, without those of places, to probabilities: 0 outside [first, last).
[[gnu::always_inline]] inline void to_probabilities(float* s, const float* by_place, int64_t first,
                                                    int64_t last, int64_t n) {
  const float most = add_and_mask(s, by_place, first, last, n);
  for (int64_t j = 0; j < n; j += kLanes) {
    FloatLanes p = lanes(s + j) - most;
    exponentiate(p);
    lanes(s + j) = p;
  }
  std::fill(s, s + first, 0.0F);
  std::fill(s + last, s + n, 0.0F);
  FloatLanes sums{};
  for (int64_t j = 0; j < n; j += kLanes) sums += lanes(s + j);
  float sum = 0;
  for (int64_t l = 0; l < kLanes; ++l) sum += sums[l];
  const float share = 1 / sum;
  for (int64_t j = 0; j < n; j += kLanes) lanes(s + j) *= share;
}

/// Probabilities p of `rows` queries from query i on; `scratch` has room for as many.
DEQ_VECTORISED void probabilities_of(const Shape& s, const Workspace& w, int64_t i, int64_t rows,
                                     float* __restrict p, float* __restrict scratch) {
  const int64_t row = s.key_row(), n = padded(s.last(i + rows - 1));
  const auto from = i * s.head_row();
  multiply_few_rows<false>({.a = w.content.data() + from,
                            .a_row = s.head_row(),
                            .a_step = 1,
                            .b = w.across.data(),
                            .b_step = row},
                           rows, s.width, p, row, n);
  multiply_few_rows<true>({.a = w.position.data() + from,
                           .a_row = s.head_row(),
                           .a_step = 1,
                           .b = w.places.data() + s.queries - 1 - i,
                           .b_step = s.place_row(),
                           .b_back = 1},
                          rows, s.width, scratch, row, n);
  for (int64_t r = 0; r < rows; ++r) {
    to_probabilities(p + r * row, scratch + r * row, s.first(i + r), s.last(i + r), n);
    std::fill(p + r * row + n, p + (r + 1) * row, 0.0F);
  }
}

/// to = Σⱼ p[r, j] along[j] for `rows` queries from query i on.
DEQ_VECTORISED void weighted_sums(const Shape& s, const float* along, int64_t i, int64_t rows,
                                  const float* p, float* to) {
  multiply_few_rows<false>(
      {.a = p, .a_row = s.key_row(), .a_step = 1, .b = along, .b_step = s.head_row()}, rows,
      s.last(i + rows - 1), to, s.head_row(), s.head_row());
}

/// The same over distances: row r of them begins where that query's do.
DEQ_VECTORISED void weighted_places(const Shape& s, const Workspace& w, int64_t i, int64_t rows,
                                    const float* p, float* to) {
  multiply_few_rows<true>({.a = p,
                           .a_row = s.key_row(),
                           .a_step = 1,
                           .b = w.places_along.data() + (s.queries - 1 - i) * s.head_row(),
                           .b_step = s.head_row(),
                           .b_back = s.head_row()},
                          rows, s.last(i + rows - 1), to, s.head_row(), s.head_row());
}

/// to = Σᵢ p[i, j] rows_of[i] for `count` keys from key j on, over the queries that see one of
/// them.
DEQ_VECTORISED void sums_over_queries(const Shape& s, const float* p, const float* rows_of,
                                      int64_t j, int64_t count, float* to) {
  const int64_t from = std::max<int64_t>(0, j - (s.keys() - s.queries));
  multiply_few_rows<false>({.a = p + from * s.key_row() + j,
                            .a_row = 1,
                            .a_step = s.key_row(),
                            .b = rows_of + from * s.head_row(),
                            .b_step = s.head_row()},
                           count, s.queries - from, to, s.head_row(), s.head_row());
}

/// The gradients of scores from those of probabilities, of `rows` queries from query i on:
///   ∂s = p ⊙ (∂p − Σⱼ pⱼ ∂pⱼ),  ∂p = (∂y·values) ⊙ dropout.
DEQ_VECTORISED void pull_scores(const Shape& s, const Workspace& w, const float* g, int64_t i,
                                int64_t rows, const float* dropout, const float* __restrict p,
                                float* __restrict to) {
  const int64_t row = s.key_row(), n = padded(s.last(i + rows - 1));
  multiply_few_rows<false>(
      {.a = g, .a_row = s.head_row(), .a_step = 1, .b = w.across.data(), .b_step = row}, rows,
      s.width, to, row, n);
  for (int64_t r = 0; r < rows; ++r) {
    float* const own = to + r * row;
    const float* const probability = p + r * row;
    if (dropout != nullptr) {
      for (int64_t j = 0; j < s.keys(); ++j) own[j] *= dropout[r * s.keys() + j];
    }
    FloatLanes sums{};
    for (int64_t j = 0; j < n; j += kLanes) sums += lanes(own + j) * lanes(probability + j);
    float sum = 0;
    for (int64_t l = 0; l < kLanes; ++l) sum += sums[l];
    for (int64_t j = 0; j < n; j += kLanes) {
      lanes(own + j) = lanes(probability + j) * (lanes(own + j) - sum);
    }
    std::fill(own + n, own + row, 0.0F);
  }
}

/// Calls body(pair, its number, workspace) for all pairs.
template <class Body>
void for_pairs(const Shape& shape, const at::Tensor& qkv, const AttentionTerms& terms,
               const Body& body) {
  at::parallel_for(0, shape.pairs(), 1, [&](int64_t begin, int64_t end) {
    Workspace workspace(shape);
    for (int64_t k = begin; k < end; ++k) {
      const Pair pair{.shape = shape,
                      .head = k / shape.batch,
                      .sample = k % shape.batch,
                      .qkv = numbers(qkv),
                      .past = numbers(terms.past),
                      .content_bias = numbers(terms.content_bias),
                      .position_bias = numbers(terms.position_bias)};
      body(pair, k, workspace);
    }
  });
}

/// Terms with numbers one after the other.
AttentionTerms dense(const AttentionTerms& terms) {
  auto result = terms;
  for (auto* tensor : {&result.content_bias, &result.position_bias, &result.positions, &result.past,
                       &result.dropout}) {
    if (tensor->defined()) *tensor = tensor->contiguous();
  }
  return result;
}

}  // namespace

namespace cpu {

bool attend_serves(const at::Tensor& qkv, const AttentionTerms& terms) {
  const auto fits = [](const at::Tensor& tensor) {
    return !tensor.defined() || (tensor.is_cpu() && tensor.scalar_type() == at::kFloat);
  };
  return fits(qkv) && fits(terms.content_bias) && fits(terms.position_bias) &&
         fits(terms.positions) && fits(terms.past) && fits(terms.dropout) &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

Attention attend(const at::Tensor& qkv, int64_t queries, const AttentionTerms& terms, bool keep) {
  const WithoutGradients guard;
  const auto x = qkv.contiguous();
  const auto given = dense(terms);
  const Shape s(x, queries, given);
  Attention result{
      .seen = empty_reused({s.batch, s.queries, s.heads * s.width}, x.options()),
      .probabilities =
          keep ? empty_reused({s.pairs(), s.queries, s.key_row()}, x.options()) : at::Tensor()};
  auto* const seen = result.seen.data_ptr<float>();
  for_pairs(s, x, given, [&](const Pair& pair, int64_t number, Workspace& w) {
    w.fill_queries(pair);
    w.fill_across(pair, 1);
    w.fill_along(pair, 2);
    w.fill_places(pair, numbers(given.positions), given.positions.size(2), /*by_rows=*/false);
    const auto tile = Workspace::size(kTileRows * s.key_row());
    std::vector<float> own(tile), scratch(tile), dropped(tile);
    std::vector<float> sums(Workspace::size(kTileRows * s.head_row()));
    for (int64_t i = 0; i < s.queries; i += kTileRows) {
      const auto rows = std::min(kTileRows, s.queries - i);
      float* p =
          keep ? result.probabilities.data_ptr<float>() + (number * s.queries + i) * s.key_row()
               : own.data();
      probabilities_of(s, w, i, rows, p, scratch.data());
      if (given.dropout.defined()) {
        const auto* const factors = numbers(given.dropout) + (number * s.queries + i) * s.keys();
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t j = 0; j < s.keys(); ++j) {
            const auto place = r * s.key_row() + j;
            dropped[Workspace::size(place)] = p[place] * factors[r * s.keys() + j];
          }
        }
        p = dropped.data();
      }
      weighted_sums(s, w.along.data(), i, rows, p, sums.data());
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(sums.data() + r * s.head_row(), s.width,
                    seen + ((pair.sample * s.queries + i + r) * s.heads + pair.head) * s.width);
      }
    }
  });
  return result;
}

AttentionGradients attend_backward(const at::Tensor& g, const at::Tensor& qkv, int64_t queries,
                                   const AttentionTerms& terms, const at::Tensor& probabilities,
                                   bool with_terms) {
  const WithoutGradients guard;
  const auto x = qkv.contiguous(), pulls = g.contiguous();
  const auto given = dense(terms);
  const Shape s(x, queries, given);
  const auto places = given.positions.size(2);
  AttentionGradients result{.for_qkv = empty_reused(x.sizes(), x.options())};
  if (s.queries < s.own) result.for_qkv.select(2, 0).zero_();
  at::Tensor content, position, distances;
  if (with_terms) {
    content = at::zeros({s.heads, s.batch, s.width}, x.options());
    position = at::zeros_like(content);
    distances = at::zeros({s.heads, s.batch, places, s.width}, x.options());
    if (s.past > 0) result.for_past = empty_reused(given.past.sizes(), x.options());
  }
  const float scale = s.scale();
  for_pairs(s, x, given, [&](const Pair& pair, int64_t number, Workspace& w) {
    w.fill_queries(pair);
    w.fill_across(pair, 2);
    w.fill_along(pair, 1);
    w.fill_places(pair, numbers(given.positions), places, /*by_rows=*/true);
    const auto* const p = numbers(probabilities) + number * s.queries * s.key_row();
    const auto* const dropout =
        given.dropout.defined() ? numbers(given.dropout) + number * s.queries * s.keys() : nullptr;
    std::vector<float> pull(Workspace::size(s.queries * s.head_row()));
    for (int64_t i = 0; i < s.queries; ++i) {
      std::copy_n(numbers(pulls) + ((pair.sample * s.queries + i) * s.heads + pair.head) * s.width,
                  s.width, pull.data() + i * s.head_row());
    }
    std::vector<float> scores(Workspace::size(s.queries * s.key_row()));
    std::vector<float> by_content(Workspace::size(kTileRows * s.head_row())),
        by_position(by_content.size());
    auto* const for_qkv = result.for_qkv.data_ptr<float>();
    const auto own_row = [&](int64_t at, int64_t what) {
      return for_qkv + (pair.own(at, what) - pair.qkv);
    };
    for (int64_t i = 0; i < s.queries; i += kTileRows) {
      const auto rows = std::min(kTileRows, s.queries - i);
      float* const own = scores.data() + i * s.key_row();
      pull_scores(s, w, pull.data() + i * s.head_row(), i, rows,
                  dropout == nullptr ? nullptr : dropout + i * s.keys(), p + i * s.key_row(), own);
      weighted_sums(s, w.along.data(), i, rows, own, by_content.data());
      weighted_places(s, w, i, rows, own, by_position.data());
      for (int64_t r = 0; r < rows; ++r) {
        float* const to = own_row(s.own - s.queries + i + r, 0);
        for (int64_t d = 0; d < s.width; ++d) {
          const auto place = Workspace::size(r * s.head_row() + d);
          to[d] = scale * (by_content[place] + by_position[place]);
          if (!with_terms) continue;
          content.data_ptr<float>()[number * s.width + d] += scale * by_content[place];
          position.data_ptr<float>()[number * s.width + d] += scale * by_position[place];
        }
      }
    }
    std::vector<float> dropped;
    if (dropout != nullptr) {
      dropped.assign(p, p + s.queries * s.key_row());
      for (int64_t i = 0; i < s.queries; ++i) {
        for (int64_t j = 0; j < s.keys(); ++j) {
          dropped[Workspace::size(i * s.key_row() + j)] *= dropout[i * s.keys() + j];
        }
      }
    }
    std::vector<float> sums(Workspace::size(kTileRows * s.head_row()));
    for (int64_t j = with_terms ? 0 : s.past; j < s.keys(); j += kTileRows) {
      const auto count = std::min(kTileRows, s.keys() - j);
      for (const int64_t what : {1, 2}) {
        const float* const weights =
            what == 1 ? scores.data() : (dropout != nullptr ? dropped.data() : p);
        sums_over_queries(s, weights, what == 1 ? w.content.data() : pull.data(), j, count,
                          sums.data());
        for (int64_t r = 0; r < count; ++r) {
          float* const to = j + r >= s.past ? own_row(j + r - s.past, what)
                                            : result.for_past.data_ptr<float>() +
                                                  (pair.at(j + r, what) - pair.past);
          std::copy_n(sums.data() + r * s.head_row(), s.width, to);
        }
      }
    }
    if (!with_terms) return;
    float* const to = distances.data_ptr<float>() + number * places * s.width;
    for (int64_t i = 0; i < s.queries; ++i) {
      const auto* const query = w.position.data() + i * s.head_row();
      for (int64_t j = s.first(i); j < s.last(i); ++j) {
        const float weight = scores[Workspace::size(i * s.key_row() + j)];
        float* const row = to + (j + s.queries - 1 - i) * s.width;
        for (int64_t d = 0; d < s.width; ++d) row[d] += weight * query[d];
      }
    }
  });
  if (!with_terms) return result;
  result.for_content_bias = content.sum(1);
  result.for_position_bias = position.sum(1);
  result.for_positions = distances.sum(1).transpose(1, 2);
  return result;
}

}  // namespace cpu

}  // namespace deq::kernels
