#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "kernels/attention/attention_rows.h"
#include "kernels/attention/relative_attention.h"
#include "kernels/common/block_cache.h"
#include "kernels/common/product.h"

// A thread takes pairs of a head and a sample and goes through the queries a few at a time: their
// scores, probabilities and results are done before the next ones begin.

namespace deq::kernels {
namespace {

using attention::numbers;
using attention::Pair;
using attention::Shape;
using attention::Workspace;

std::vector<float> zeros(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count));
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

/// to = p ⊙ dropout for some rows; those of p and `to` are padded.
void drop(const Shape& s, const float* p, const float* dropout, int64_t rows, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < s.keys(); ++j) {
      to[r * s.key_row() + j] = p[r * s.key_row() + j] * dropout[r * s.keys() + j];
    }
  }
}

/// What goes back through one pair, and where to.
struct Pullback {
  const Pair& pair;
  const Workspace& workspace;
  const float *probabilities, *dropout;   // of the pair; dropout may be none
  float *for_qkv, *for_past;              // the whole tensors; for_past may be none
  float *content, *position, *distances;  // of the pair: biases, distances; none where not wanted
  std::vector<float> pull{};              // ∂y [queries, head_row]
  std::vector<float> scores{};            // ∂ of the scores [queries, key_row]

  float* own_row(int64_t i, int64_t what) const { return for_qkv + (pair.own(i, what) - pair.qkv); }

  void take_pull(const float* g) {
    const auto& s = pair.shape;
    pull = zeros(s.queries * s.head_row());
    for (int64_t i = 0; i < s.queries; ++i) {
      std::copy_n(g + ((pair.sample * s.queries + i) * s.heads + pair.head) * s.width, s.width,
                  pull.data() + i * s.head_row());
    }
  }

  /// Of scores, queries and biases.
  void through_queries() {
    const auto& s = pair.shape;
    const float scale = s.scale();
    scores = zeros(s.queries * s.key_row());
    auto by_content = zeros(kTileRows * s.head_row()), by_position = by_content;
    for (int64_t i = 0; i < s.queries; i += kTileRows) {
      const auto rows = std::min(kTileRows, s.queries - i);
      float* const own = scores.data() + i * s.key_row();
      attention::pull_scores(s, workspace, pull.data() + i * s.head_row(), i, rows,
                             dropout == nullptr ? nullptr : dropout + i * s.keys(),
                             probabilities + i * s.key_row(), own);
      attention::weighted_sums(s, workspace.along.data(), i, rows, own, by_content.data());
      attention::weighted_distances(s, workspace, i, rows, own, by_position.data());
      for (int64_t r = 0; r < rows; ++r) {
        const float* const first = by_content.data() + r * s.head_row();
        const float* const second = by_position.data() + r * s.head_row();
        float* const to = own_row(s.own - s.queries + i + r, 0);
        for (int64_t d = 0; d < s.width; ++d) to[d] = scale * (first[d] + second[d]);
        if (content == nullptr) continue;
        for (int64_t d = 0; d < s.width; ++d) {
          content[d] += scale * first[d];
          position[d] += scale * second[d];
        }
      }
    }
  }

  /// Of keys and values, those of the past where they are wanted.
  void through_keys_and_values() const {
    const auto& s = pair.shape;
    std::vector<float> dropped;
    if (dropout != nullptr) {
      dropped = zeros(s.queries * s.key_row());
      drop(s, probabilities, dropout, s.queries, dropped.data());
    }
    const float* const weights = dropout != nullptr ? dropped.data() : probabilities;
    auto sums = zeros(kTileRows * s.head_row());
    for (int64_t j = for_past != nullptr ? 0 : s.past; j < s.keys(); j += kTileRows) {
      const auto count = std::min(kTileRows, s.keys() - j);
      for (const int64_t what : {1, 2}) {
        attention::sums_over_queries(s, what == 1 ? scores.data() : weights,
                                     what == 1 ? workspace.content.data() : pull.data(), j, count,
                                     sums.data());
        for (int64_t r = 0; r < count; ++r) {
          float* const to = j + r >= s.past ? own_row(j + r - s.past, what)
                                            : for_past + (pair.at(j + r, what) - pair.past);
          std::copy_n(sums.data() + r * s.head_row(), s.width, to);
        }
      }
    }
  }

  void through_distances() const {
    const auto& s = pair.shape;
    for (int64_t i = 0; i < s.queries; ++i) {
      const float* const query = workspace.position.data() + i * s.head_row();
      for (int64_t j = s.first(i); j < s.last(i); ++j) {
        const float weight = scores[static_cast<size_t>(i * s.key_row() + j)];
        float* const row = distances + (j + s.queries - 1 - i) * s.width;
        for (int64_t d = 0; d < s.width; ++d) row[d] += weight * query[d];
      }
    }
  }
};

}  // namespace

namespace cpu {

bool attend_serves(const at::Tensor& qkv, const AttentionTerms& terms) {
  const auto fits = [](const at::Tensor& tensor) {
    return !tensor.defined() || (tensor.is_cpu() && tensor.scalar_type() == at::kFloat);
  };
  return terms.hidden == 0 && fits(qkv) && fits(terms.content_bias) && fits(terms.position_bias) &&
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
    w.fill_distances(pair, numbers(given.positions), given.positions.size(2), /*by_rows=*/false);
    auto own = zeros(kTileRows * s.key_row()), scratch = own, dropped = own;
    auto sums = zeros(kTileRows * s.head_row());
    for (int64_t i = 0; i < s.queries; i += kTileRows) {
      const auto rows = std::min(kTileRows, s.queries - i);
      const auto first = number * s.queries + i;
      float* p = keep ? result.probabilities.data_ptr<float>() + first * s.key_row() : own.data();
      attention::probabilities_of(s, w, i, rows, p, scratch.data());
      if (given.dropout.defined()) {
        drop(s, p, numbers(given.dropout) + first * s.keys(), rows, dropped.data());
        p = dropped.data();
      }
      attention::weighted_sums(s, w.along.data(), i, rows, p, sums.data());
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
  const auto padded_keys = given.positions.size(2);
  AttentionGradients result{.for_qkv = empty_reused(x.sizes(), x.options())};
  if (s.queries < s.own) result.for_qkv.select(2, 0).zero_();
  at::Tensor content, position, distances;  // of every pair
  if (with_terms) {
    content = at::zeros({s.heads, s.batch, s.width}, x.options());
    position = at::zeros_like(content);
    distances = at::zeros({s.heads, s.batch, padded_keys, s.width}, x.options());
    if (s.past > 0) result.for_past = empty_reused(given.past.sizes(), x.options());
  }
  const auto of_pair = [](const at::Tensor& tensor, int64_t number) {
    return tensor.defined() ? tensor.data_ptr<float>() + number * tensor.stride(1) : nullptr;
  };
  for_pairs(s, x, given, [&](const Pair& pair, int64_t number, Workspace& w) {
    w.fill_queries(pair);
    w.fill_across(pair, 2);
    w.fill_along(pair, 1);
    w.fill_distances(pair, numbers(given.positions), padded_keys, /*by_rows=*/true);
    const auto* const dropout = numbers(given.dropout);
    Pullback back{.pair = pair,
                  .workspace = w,
                  .probabilities = numbers(probabilities) + number * s.queries * s.key_row(),
                  .dropout = dropout == nullptr ? nullptr : dropout + number * s.queries * s.keys(),
                  .for_qkv = result.for_qkv.data_ptr<float>(),
                  .for_past = of_pair(result.for_past, 0),
                  .content = of_pair(content, number),
                  .position = of_pair(position, number),
                  .distances = of_pair(distances, number)};
    back.take_pull(numbers(pulls));
    back.through_queries();
    back.through_keys_and_values();
    if (with_terms) back.through_distances();
  });
  if (!with_terms) return result;
  result.for_content_bias = content.sum(1);
  result.for_position_bias = position.sum(1);
  result.for_positions = distances.sum(1).transpose(1, 2);
  return result;
}

}  // namespace cpu

}  // namespace deq::kernels
