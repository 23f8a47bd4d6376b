#include "kernels/words/cross_entropy.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <limits>

#include "core/autocast.h"
#include "kernels/common/tensor_cores.h"

namespace deq::kernels {
namespace {

/// Several tables as one.
WordScores joined(const std::vector<WordScores>& tables) {
  if (tables.size() == 1) return tables.front();
  std::vector<at::Tensor> weights, biases;
  for (const auto& table : tables) {
    weights.push_back(table.weight);
    biases.push_back(table.bias);
  }
  return {.weight = at::cat(weights), .bias = at::cat(biases)};
}

/// […, words], or more columns where a GPU wants aligned rows: those are words of probability 0.
at::Tensor scores_of(const at::Tensor& vectors, const WordScores& table) {
  const auto type = compute_type(table.weight);
  if (!vectors.is_cuda() || type == table.weight.scalar_type()) {
    return at::linear(vectors, table.weight, table.bias);
  }
  const auto weight = aligned_matrix(table.weight.to(type));
  const auto more = weight.size(0) - table.bias.size(0);
  const auto bias =
      at::constant_pad_nd(table.bias.to(type), {0, more}, -std::numeric_limits<double>::infinity());
  return at::linear(with_zeros(vectors, weight.size(1), type), weight, bias);
}

}  // namespace

at::Tensor log_probabilities(const at::Tensor& vectors, const std::vector<WordScores>& tables) {
  const auto table = joined(tables);
  const auto scores = scores_of(vectors, table);
  // Probabilities of thousands of words need more digits than bfloat16 has.
  const bool reduced = scores.element_size() < 4;
  return at::log_softmax(scores, -1, reduced ? at::kFloat : scores.scalar_type())
      .narrow(-1, 0, table.bias.size(0));
}

namespace reference {

at::Tensor cross_entropy(const at::Tensor& vectors, const std::vector<WordScores>& tables,
                         const at::Tensor& targets) {
  const auto log_p = log_probabilities(vectors, tables);
  return log_p.gather(1, targets.unsqueeze(1)).squeeze(1).neg();
}

}  // namespace reference

namespace {

/// The gradients in operations that can be differentiated again.
cpu::CrossEntropyGradients differentiable_cross_entropy(const at::Tensor& g,
                                                        const at::Tensor& vectors,
                                                        const std::vector<WordScores>& tables,
                                                        const at::Tensor& targets) {
  const auto [weight, bias] = joined(tables);
  const auto p = at::softmax(at::linear(vectors, weight, bias), -1);
  const auto columns = targets.unsqueeze(1);
  const auto pull = (p - at::zeros_like(p).scatter(1, columns, 1)) * g.unsqueeze(1);
  cpu::CrossEntropyGradients result{.for_vectors = pull.mm(weight), .for_tables = {}};
  const auto for_weight = pull.t().mm(vectors), for_bias = pull.sum(0);
  int64_t first = 0;
  for (const auto& table : tables) {
    const auto words = table.bias.size(0);
    result.for_tables.push_back(
        {.weight = for_weight.narrow(0, first, words), .bias = for_bias.narrow(0, first, words)});
    first += words;
  }
  return result;
}

/// Weights and biases in turn.
std::vector<at::Tensor> flattened(const std::vector<WordScores>& tables) {
  std::vector<at::Tensor> all;
  for (const auto& [weight, bias] : tables) all.insert(all.end(), {weight, bias});
  return all;
}

std::vector<WordScores> unflattened(at::TensorList all) {
  std::vector<WordScores> tables;
  for (size_t i = 0; i < all.size(); i += 2) {
    tables.push_back({.weight = all[i], .bias = all[i + 1]});
  }
  return tables;
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& vectors,
                            const at::Tensor& targets, at::TensorList tables) {
    const auto [log_sum, cost] = cpu::cross_entropy(vectors, unflattened(tables), targets);
    std::vector<at::Tensor> saved{vectors, targets, log_sum};
    saved.insert(saved.end(), tables.begin(), tables.end());
    context->save_for_backward(saved);
    return cost;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto tables = unflattened(at::TensorList(saved).slice(3));
    const auto& g = gradients[0];
    const auto result = at::GradMode::is_enabled()
                            ? differentiable_cross_entropy(g, saved[0], tables, saved[1])
                            : cpu::cross_entropy_backward(g, saved[0], tables, saved[1], saved[2]);
    torch::autograd::tensor_list all{result.for_vectors, at::Tensor()};
    for (auto& gradient : flattened(result.for_tables)) all.push_back(std::move(gradient));
    return all;
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& vectors, const std::vector<WordScores>& tables,
                         const at::Tensor& targets) {
  if (!cpu::cross_entropy_serves(vectors, tables)) {
    return reference::cross_entropy(vectors, tables, targets);
  }
  if (!at::GradMode::is_enabled()) return cpu::cross_entropy(vectors, tables, targets).cost;
  const auto all = flattened(tables);
  return CrossEntropy::apply(vectors, targets, at::TensorList(all));
}

}  // namespace deq::kernels
