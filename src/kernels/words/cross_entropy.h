#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

// What words cost: with the scores sᵢⱼ = hᵢ·wⱼ + bⱼ of vector i and word j,
//
//   costᵢ = log Σⱼ exp(sᵢⱼ) − sᵢₜ,  t the target of i.
//
// The CPU kernel never has all scores: it makes them block by block, in the cache, and once more to
// go back. On a GPU they are one product of matrices, which the operators deq::word_costs and
// deq::word_costs_backward of the CUDA plugin read once each way.

namespace deq::kernels {

/// Some of the words.
struct WordScores {
  at::Tensor weight;  ///< [words, n]
  at::Tensor bias;    ///< [words]
};

/// [N] for vectors [N, n] and targets [N], int64, numbered through all tables. Differentiable as
/// often as wanted; for vectors, weights and biases.
at::Tensor cross_entropy(const at::Tensor& vectors, const std::vector<WordScores>& tables,
                         const at::Tensor& targets);

/// log p of all words, [N, words], in plain torch; float32 where the scores have fewer digits.
at::Tensor log_probabilities(const at::Tensor& vectors, const std::vector<WordScores>& tables);

namespace reference {
at::Tensor cross_entropy(const at::Tensor& vectors, const std::vector<WordScores>& tables,
                         const at::Tensor& targets);
}  // namespace reference

namespace cpu {
bool cross_entropy_serves(const at::Tensor& vectors, const std::vector<WordScores>& tables);

/// Of every vector the logarithm of the sum, and the cost, both [N].
struct CrossEntropy {
  at::Tensor log_sum, cost;
};
CrossEntropy cross_entropy(const at::Tensor& vectors, const std::vector<WordScores>& tables,
                           const at::Tensor& targets);

struct CrossEntropyGradients {
  at::Tensor for_vectors;
  std::vector<WordScores> for_tables;
};
/// For g [N], the gradient of the costs.
CrossEntropyGradients cross_entropy_backward(const at::Tensor& g, const at::Tensor& vectors,
                                             const std::vector<WordScores>& tables,
                                             const at::Tensor& targets, const at::Tensor& log_sum);
}  // namespace cpu

}  // namespace deq::kernels
