#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "core/autocast.h"
#include "core/write_check.h"
#include "deq/nn/equilibrium.h"
#include "replay/recorded_adjoint.h"
#include "replay/recorded_step.h"

namespace deq {

/// One pass: its f on the slab, and what is made of it on demand.
struct Equilibrated::Tape {
  Tape(std::shared_ptr<Cell> f_cell, StateLayout f_layout, Inputs f_inputs,
       const torch::Device& device)
      : cell(std::move(f_cell)),
        layout(std::move(f_layout)),
        inputs(std::move(f_inputs)),
        autocast(device) {}

  std::shared_ptr<Cell> cell;
  StateLayout layout;
  Inputs inputs;
  AutocastSetting autocast;  // of the pass: f may be evaluated anywhere later on
  State start{};             // where it cannot be made again
  bool replayed = false;     // the solve, or the unrolled steps
  StepLoan loan{};           // where f's graph at z* is replayed
  Linearization at{};
  uint64_t begin = 0;  // of f's graph there

  /// f with its context attached: where gradients are on, they reach the inputs and prepare()'s
  /// parameters.
  const BoundStep& f();

  /// The same with a graph, whatever the caller's mode. Outside of training prepare() gives once
  /// more what a pass without gradients got of it; in training it may draw, so what that pass got
  /// stays.
  const BoundStep& f_on_tape();

  /// For a gradient that evaluates f in backward. That for an argument which is a leaf is told from
  /// that for the leaf itself, which f may use besides.
  void prepare_to_evaluate_again();

  void settle(const torch::Tensor& z);

  const Linearization& linearize();

  /// Whether gradients of z* would reach anything; once it is linearised.
  bool leads_anywhere();

 private:
  std::optional<BoundStep> bound_{};
  bool has_graph_ = false;        // `bound_` has one, to the inputs and prepare()'s parameters
  bool evaluated_again_ = false;  // f, by the gradient in backward
  std::once_flag linearized_{};
  torch::Tensor z_star_{};  // a detached slab
  WriteCheck since_settled_{};
};

}  // namespace deq
