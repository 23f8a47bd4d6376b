#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/block_cache.h"
#include "kernels/common/exponential.h"
#include "kernels/common/lanes.h"
#include "kernels/common/product.h"
#include "kernels/common/vectorised.h"
#include "kernels/words/cross_entropy.h"

// A thread takes blocks of words and makes the scores of some vectors and these words, which stay
// in its cache. Forward leaves of every vector and block the largest score and the sum of the
// exponentials relative to it; these are joined in the order of the blocks, so that a cost does not
// depend on the number of threads.

namespace deq::kernels {
namespace {

constexpr int64_t kWordRows = 256;              // vectors of a block at most
constexpr int64_t kScores = 256 * 512;          // of a block
constexpr int64_t kFewest = 512, kMost = 8192;  // words of a block

/// Adds the bias to a row of scores, fills it up to whole lanes with −∞ and gives its largest.
constexpr auto add_bias =
    vectorised([](float* __restrict s, const float* __restrict bias, int64_t n) DEQ_INLINED {
      const int64_t whole = whole_lanes(n);
      for (int64_t j = 0; j < n; ++j) s[j] += bias[j];
      for (int64_t j = n; j < whole; ++j) s[j] = -std::numeric_limits<float>::infinity();
      return largest_of(s, whole);
    });

/// Σ exp(s − most) over whole lanes; what fills them up adds next to nothing.
constexpr auto sum_exponentials =
    vectorised([](const float* __restrict s, float most, int64_t n) DEQ_INLINED {
      constexpr int64_t kAtOnce = 16 * kLanes;  // a sum in the loop would not be vectorised
      FloatLanes sums{};
      float terms[kAtOnce];
      for (int64_t first = 0; first < n; first += kAtOnce) {
        const int64_t count = std::min(kAtOnce, whole_lanes(n - first));
        for (int64_t j = 0; j < count; ++j) terms[j] = exponential(s[first + j] - most);
        for (int64_t j = 0; j < count; j += kLanes) sums += lanes(terms + j);
      }
      return sum_of(sums);
    });

/// s = exp(s + bias − log_sum)·g, in place, also added to `total`.
constexpr auto pull_back_words =
    vectorised([](float* __restrict s, const float* __restrict bias, float log_sum, float g,
                  int64_t n, float* __restrict total) DEQ_INLINED {
      for (int64_t j = 0; j < n; ++j) {
        s[j] = exponential(s[j] + bias[j] - log_sum) * g;
        total[j] += s[j];
      }
    });

/// Words of a block, in whole lanes: the more, the fewer vectors there are.
int64_t block_words(const at::Tensor& vectors) {
  const auto rows = std::max<int64_t>(1, std::min(kWordRows, vectors.size(0)));
  return std::clamp(kScores / rows / kLanes * kLanes, kFewest, kMost);
}

/// Some words of one table.
struct Block {
  at::Tensor weight;  // [words, n]
  size_t table;
  int64_t first;  // in the table
  int64_t words;
  int64_t column;  // of its first word among all words
};

std::vector<Block> blocks_of(const std::vector<WordScores>& tables, int64_t most) {
  std::vector<Block> blocks;
  int64_t before = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    const auto& weight = tables[i].weight;
    for (int64_t first = 0; first < weight.size(0); first += most) {
      const auto words = std::min(most, weight.size(0) - first);
      blocks.push_back({.weight = weight.narrow(0, first, words),
                        .table = i,
                        .first = first,
                        .words = words,
                        .column = before + first});
    }
    before += weight.size(0);
  }
  return blocks;
}

/// Calls body(block, its number, first vector, scores [vectors, width], of which the block's words
/// are filled in, without bias), the vectors of a block one after the other on the same thread.
template <class Body>
void for_scores(const at::Tensor& vectors, const std::vector<Block>& blocks, int64_t width,
                const Body& body) {
  const auto most = std::min(kWordRows, vectors.size(0));
  const auto scratch = empty_reused({at::get_num_threads(), most, width}, vectors.options());
  at::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    const WithoutGradients guard;
    const auto own = scratch[at::get_thread_num()];
    for (int64_t b = begin; b < end; ++b) {
      const auto& block = blocks[static_cast<size_t>(b)];
      const auto transposed = block.weight.t();
      for (int64_t row = 0; row < vectors.size(0); row += kWordRows) {
        const auto rows = std::min(kWordRows, vectors.size(0) - row);
        const auto scores = own.narrow(0, 0, rows);
        multiply(scores.narrow(1, 0, block.words), vectors.narrow(0, row, rows), transposed);
        body(block, b, row, scores);
      }
    }
  });
}

bool is_float(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat;
}

}  // namespace

namespace cpu {

bool cross_entropy_serves(const at::Tensor& vectors, const std::vector<WordScores>& tables) {
  return is_float(vectors) && !at::autocast::is_autocast_enabled(at::kCPU) &&
         std::all_of(tables.begin(), tables.end(),
                     [](const auto& table) { return is_float(table.weight); });
}

CrossEntropy cross_entropy(const at::Tensor& vectors, const std::vector<WordScores>& tables,
                           const at::Tensor& targets) {
  const WithoutGradients guard;
  const auto count = vectors.size(0);
  const auto width = block_words(vectors);
  const auto blocks = blocks_of(tables, width);
  const auto dense_targets = targets.contiguous();
  const auto* const target = dense_targets.const_data_ptr<int64_t>();
  const auto partial =
      empty_reused({static_cast<int64_t>(blocks.size()), 2, count}, vectors.options());
  auto log_sum = at::empty({count}, vectors.options()), cost = at::empty_like(log_sum);
  auto* const costs = cost.data_ptr<float>();
  for_scores(vectors, blocks, width,
             [&](const Block& block, int64_t number, int64_t row, const at::Tensor& scores) {
               auto* const most = partial.data_ptr<float>() + 2 * number * count + row;
               auto* const s = scores.data_ptr<float>();
               const auto* const bias =
                   tables[block.table].bias.const_data_ptr<float>() + block.first;
               for (int64_t i = 0; i < scores.size(0); ++i) {
                 most[i] = add_bias(s + i * width, bias, block.words);
                 most[count + i] = sum_exponentials(s + i * width, most[i], block.words);
                 const auto word = target[row + i] - block.column;
                 if (word >= 0 && word < block.words) costs[row + i] = -s[i * width + word];
               }
             });
  const auto most = partial.select(1, 0), sums = partial.select(1, 1);
  const auto largest = most.amax(0);
  const auto total = (sums * (most - largest).exp_()).sum(0);
  at::add_out(log_sum, largest, total.log_());
  cost.add_(log_sum);
  return {.log_sum = log_sum, .cost = cost};
}

CrossEntropyGradients cross_entropy_backward(const at::Tensor& g, const at::Tensor& vectors,
                                             const std::vector<WordScores>& tables,
                                             const at::Tensor& targets, const at::Tensor& log_sum) {
  const WithoutGradients guard;
  const auto width = block_words(vectors);
  const auto blocks = blocks_of(tables, width);
  const auto dense_targets = targets.contiguous(), pull = g.contiguous();
  const auto* const target = dense_targets.const_data_ptr<int64_t>();
  const auto* const weight_of = pull.const_data_ptr<float>();
  const auto* const sums = log_sum.const_data_ptr<float>();
  CrossEntropyGradients result{.for_vectors = {}, .for_tables = {}};
  for (const auto& table : tables) {
    result.for_tables.push_back({.weight = empty_reused(table.weight.sizes(), vectors.options()),
                                 .bias = at::empty_like(table.bias)});
  }
  // Every thread adds up its own share for the vectors.
  const auto shares =
      at::zeros({at::get_num_threads(), vectors.size(0), vectors.size(1)}, vectors.options());
  const auto workspace = empty_reused({at::get_num_threads(), 2, width}, vectors.options());
  for_scores(vectors, blocks, width,
             [&](const Block& block, int64_t, int64_t row, const at::Tensor& scores) {
               const auto rows = scores.size(0);
               const auto& to = result.for_tables[block.table];
               auto* const s = scores.data_ptr<float>();
               auto* const bias = workspace.data_ptr<float>() + at::get_thread_num() * 2 * width;
               auto* const total = bias + width;
               if (row == 0) {
                 std::fill_n(bias, 2 * width, 0.0F);
                 std::copy_n(tables[block.table].bias.const_data_ptr<float>() + block.first,
                             block.words, bias);
               }
               for (int64_t i = 0; i < rows; ++i) {
                 auto* const own = s + i * width;
                 pull_back_words(own, bias, sums[row + i], weight_of[row + i], block.words, total);
                 const auto word = target[row + i] - block.column;
                 if (word >= 0 && word < block.words) {
                   own[word] -= weight_of[row + i];
                   total[word] -= weight_of[row + i];
                 }
               }
               const auto pulled = scores.narrow(1, 0, block.words);
               const auto own_share = shares[at::get_thread_num()].narrow(0, row, rows);
               multiply(own_share, pulled, block.weight, /*add=*/true);
               multiply(to.weight.narrow(0, block.first, block.words), pulled.t(),
                        vectors.narrow(0, row, rows), /*add=*/row > 0);
               std::copy_n(total, block.words, to.bias.data_ptr<float>() + block.first);
             });
  result.for_vectors = shares.sum(0);
  return result;
}

}  // namespace cpu

}  // namespace deq::kernels
