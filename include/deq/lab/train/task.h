#pragma once

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deq/lab/data/batches/batch_source.h"
#include "deq/lab/data/batches/dataset_batches.h"
#include "deq/lab/data/batches/shard.h"
#include "deq/lab/distributed/world.h"
#include "deq/lab/runs/metrics.h"
#include "deq/nn/equilibrium.h"

namespace deq::lab {

class ModelParts;

/// What a model makes of one batch.
struct TaskPass {
  torch::Tensor loss;                    ///< the mean over the batch, with its graph
  std::vector<Equilibrated> equilibria;  ///< one per equilibrium layer; none in an explicit network
};

/// The metric by which the best checkpoint is chosen.
struct Goal {
  std::string metric;
  bool lower_is_better = true;
};

/// A model with its data and its measure of success: all that the trainer does not know.
class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;

  /// Its parameters and buffers go into checkpoints under their own names.
  virtual torch::nn::Module& model() = 0;

  /// Where several processes hold the model in parts: how these go together. Else null.
  virtual const ModelParts* in_parts() const { return nullptr; }

  /// The training batches of one process.
  virtual std::shared_ptr<const BatchSource> training_batches(const Shard& shard,
                                                              OnUnreadable on_unreadable) = 0;

  /// The loss on a batch that lies on the model's device. `how` is what its equilibrium layers are
  /// to be solved and differentiated with.
  virtual TaskPass forward(const Batch& batch, const EquilibriumPlan& how) = 0;

  /// What goes on from one training batch to the next beside the weights, such as the memory of a
  /// language model; rows are the samples of a whole step. Every rank calls it and gets the same.
  virtual std::map<std::string, torch::Tensor> carried(World& /*world*/) { return {}; }

  /// The training goes on after `step` steps, where this was carried.
  virtual void carry_on(int64_t /*step*/, const std::map<std::string, torch::Tensor>& /*carried*/) {
  }

  /// The validation set, solved with `how`: the goal's metric, the cost and the residuals. Every
  /// rank calls it and may do its share; all get the same result.
  virtual Metrics evaluate(const EquilibriumPlan& how, World& world) = 0;

  /// ρ and whatever else says how stable validation samples are, at the states in which a solve
  /// with `how` ends. The model is in eval mode.
  virtual Metrics stability(const EquilibriumPlan& /*how*/) { return {}; }

  /// What is worth measuring once, after the training.
  virtual Metrics closing() { return {}; }

  virtual Goal goal() const = 0;

  /// How many samples evaluate() looks at, all ranks together; 0 where nobody counts them.
  virtual int64_t validation_samples() const { return 0; }

  /// What those samples are called.
  virtual std::string sample_name() const { return "samples"; }

  /// What evaluate() looks at: "valid", or "test" where the configuration says so.
  virtual std::string evaluated_split() const { return "valid"; }

  /// What there is to know about its data, a sentence each.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// Names under which published checkpoints repeat a parameter, and its name in the model.
  virtual std::vector<std::pair<std::string, std::string>> tied() const { return {}; }

  /// The names of the classes that the model tells apart, in the order of its outputs. Checkpoints
  /// keep them, so that a model can be used where its data is not.
  virtual std::vector<std::string> classes() const { return {}; }

  /// What a sample is, where neither the weights nor the classes tell: "maze 30x30". Checkpoints
  /// keep it, too.
  virtual std::string sample_form() const { return {}; }
};

}  // namespace deq::lab
