#include "kernels/words/cross_entropy.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <limits>
#include <tuple>

#include "core/autocast.h"
#include "kernels/common/operators.h"
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

/// The scores […, words] and the two factors that they are the product of, in the type that is
/// computed in. Where a GPU wants aligned rows there are more columns: words of probability 0.
struct Scores {
  at::Tensor vectors, weight, all;
};

Scores scores_of(const at::Tensor& vectors, const WordScores& table) {
  const auto type = compute_type(table.weight);
  const auto weight = aligned_matrix(table.weight.to(type));
  const auto more = weight.size(0) - table.bias.size(0);
  auto bias = table.bias.to(type);
  if (more > 0)
    bias = at::constant_pad_nd(bias, {0, more}, -std::numeric_limits<double>::infinity());
  const auto factor = with_zeros(vectors.to(type), weight.size(1), type);
  return {.vectors = factor, .weight = weight, .all = at::linear(factor, weight, bias)};
}

}  // namespace

at::Tensor log_probabilities(const at::Tensor& vectors, const std::vector<WordScores>& tables) {
  const auto table = joined(tables);
  const auto scores = scores_of(vectors, table).all;
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

bool has_kernels_for_scores(const at::Tensor& vectors, const std::vector<WordScores>& tables) {
  const auto type = compute_type(tables.front().weight);
  return vectors.is_cuda() && (type == at::kBFloat16 || type == at::kFloat || type == at::kDouble);
}

/// log Σ exp and the cost of every row.
std::tuple<at::Tensor, at::Tensor> call_word_costs(const at::Tensor& scores,
                                                   const at::Tensor& targets) {
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&);
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<Signature>("deq::word_costs");
  return op.call(scores, targets.contiguous());
}

at::Tensor call_word_costs_backward(const at::Tensor& g, const at::Tensor& scores,
                                    const at::Tensor& targets, const at::Tensor& log_sum) {
  using Signature =
      at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&);
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<Signature>("deq::word_costs_backward");
  return op.call(g.to(log_sum.scalar_type()).contiguous(), scores, targets.contiguous(), log_sum);
}

/// With all scores at once, on a GPU.
struct ScoredCrossEntropy : torch::autograd::Function<ScoredCrossEntropy> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& vectors,
                            const at::Tensor& targets, at::TensorList tables) {
    const auto scores = scores_of(vectors, joined(unflattened(tables)));
    const auto [log_sum, cost] = call_word_costs(scores.all, targets);
    std::vector<at::Tensor> saved{vectors,        targets,       log_sum,
                                  scores.vectors, scores.weight, scores.all};
    saved.insert(saved.end(), tables.begin(), tables.end());
    context->save_for_backward(saved);
    return cost;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &vectors = saved[0], &targets = saved[1];
    const auto tables = unflattened(at::TensorList(saved).slice(kSaved));
    torch::autograd::tensor_list all(2);
    if (at::GradMode::is_enabled()) {
      const auto result = differentiable_cross_entropy(gradients[0], vectors, tables, targets);
      all[0] = result.for_vectors;
      for (auto& gradient : flattened(result.for_tables)) all.push_back(std::move(gradient));
      return all;
    }
    const Scores scores{.vectors = saved[3], .weight = saved[4], .all = saved[5]};
    const auto pull = call_word_costs_backward(gradients[0], scores.all, targets, saved[2]);
    if (context->needs_input_grad(0)) {
      all[0] = at::mm(pull, scores.weight).narrow(1, 0, vectors.size(1)).to(vectors.scalar_type());
    }
    bool for_tables = false;
    for (size_t i = 0; i < 2 * tables.size(); ++i) {
      for_tables = for_tables || context->needs_input_grad(2 + i);
    }
    all.resize(2 + 2 * tables.size());
    if (!for_tables) return all;
    const auto for_weight = at::mm(pull.t(), scores.vectors);
    const auto for_bias = pull.sum(0, /*keepdim=*/false, tables[0].bias.scalar_type());
    int64_t first = 0;
    for (size_t i = 0; i < tables.size(); ++i) {
      const auto& [weight, bias] = tables[i];
      const auto words = bias.size(0);
      all[2 + 2 * i] =
          for_weight.narrow(0, first, words).narrow(1, 0, weight.size(1)).to(weight.scalar_type());
      all[3 + 2 * i] = for_bias.narrow(0, first, words);
      first += words;
    }
    return all;
  }

 private:
  static constexpr size_t kSaved = 6;  // before the tables
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("word_costs(Tensor scores, Tensor targets) -> (Tensor, Tensor)");
  library.def(
      "word_costs_backward(Tensor g, Tensor scores, Tensor targets, Tensor log_sums) -> Tensor");
}

at::Tensor cross_entropy(const at::Tensor& vectors, const std::vector<WordScores>& tables,
                         const at::Tensor& targets) {
  const auto all = flattened(tables);
  if (has_kernels_for_scores(vectors, tables)) {
    return ScoredCrossEntropy::apply(vectors, targets, at::TensorList(all));
  }
  if (!cpu::cross_entropy_serves(vectors, tables)) {
    return reference::cross_entropy(vectors, tables, targets);
  }
  if (!at::GradMode::is_enabled()) return cpu::cross_entropy(vectors, tables, targets).cost;
  return CrossEntropy::apply(vectors, targets, at::TensorList(all));
}

}  // namespace deq::kernels
