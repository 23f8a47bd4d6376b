#pragma once

#include <memory>

#include "deq/lab/settings/recipe.h"
#include "deq/lab/train/task.h"

namespace deq::lab {

/// What a training measures on its model between steps. Every rank calls it and gets the same; the
/// model is in training mode before and after, also where a measurement throws.
class Validation {
 public:
  /// All except the world must outlive it.
  /// `copies` are the ranks that hold the same part of the model as this one.
  Validation(Task& task, const Recipe& recipe, std::shared_ptr<World> world,
             std::shared_ptr<World> copies, torch::Device device);

  /// At the recipe's own budget and at its further ones; with `closing`, what is measured once.
  Metrics measure(bool closing);

  /// ρ alone.
  double spectral_radius();

  /// The main rank's number, on every rank.
  double of_main(double number);

 private:
  Metrics at_every_budget();
  Metrics stability();

  Task& task_;
  const Recipe& recipe_;
  std::shared_ptr<World> world_, copies_;
  torch::Device device_;
};

}  // namespace deq::lab
