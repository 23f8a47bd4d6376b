#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "deq/lab/settings/language.h"
#include "deq/models/transformer/tensor_parallel.h"
#include "deq/nn/equilibrium.h"

namespace deq::lab {

/// What a network remembers of the text before: tensors [B, …], one row for each stream. Empty at
/// the beginning of a text.
using TextMemory = std::vector<torch::Tensor>;

struct TextReading {
  torch::Tensor hidden;  ///< [B, T, features] what the next words are predicted from
  TextMemory memory;
  std::vector<Equilibrated> equilibria;  ///< none from an explicit network
};

struct TextCost {
  torch::Tensor nll;  ///< −log p of every target [B, T]
  TextMemory memory;
  std::vector<Equilibrated> equilibria;
  torch::Tensor loops{};    ///< that each word took [B, T], where words leave a loop by themselves
  torch::Tensor penalty{};  ///< added to the training's loss, where the network has one

  /// What a training step minimises.
  torch::Tensor loss() const { return penalty.defined() ? nll.mean() + penalty : nll.mean(); }
};

/// The networks that predict words, under one interface.
class LanguageNetwork {
 public:
  virtual ~LanguageNetwork() = default;
  virtual torch::nn::Module& module() = 0;
  /// Names under which published checkpoints repeat a parameter, and its own.
  virtual std::vector<models::TiedName> tied() const = 0;

  /// The cost of `targets`, the word after each of `tokens`; both [B, T]. At most `capacity`
  /// positions are remembered; a recurrent network keeps its state unless that is 0.
  virtual TextCost forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                           const TextMemory& memory, int64_t capacity,
                           const EquilibriumPlan& plan) = 0;

  /// The tolerances at which words are to leave a loop by themselves; none where there is no loop.
  virtual const std::vector<double>& exits() const {
    static const std::vector<double> kNone;
    return kNone;
  }

  /// As forward(), by so many loops at most as the plan takes, from which words leave at `rtol`.
  virtual TextCost forward_with_exits(const torch::Tensor& tokens, const torch::Tensor& targets,
                                      const TextMemory& memory, int64_t capacity,
                                      const EquilibriumPlan& plan, double rtol);

  /// The same without targets; where `start` is defined, the solve begins there.
  virtual TextReading read(const torch::Tensor& tokens, const TextMemory& memory, int64_t capacity,
                           const EquilibriumPlan& plan, const torch::Tensor& start) = 0;

  /// log p of every word as the next one.
  virtual torch::Tensor log_probabilities(const torch::Tensor& hidden) = 0;
};

/// With a group, the part of this process, which only GPT-2 has.
std::unique_ptr<LanguageNetwork> make_language_network(
    const LanguageModel& model, int64_t words, at::Generator generator,
    const std::shared_ptr<models::TensorParallel>& group = {});

/// Throws UsageError where segments with their memory are longer than the network can read at once.
void require_readable_segments(const LanguageConfig& config);

}  // namespace deq::lab
