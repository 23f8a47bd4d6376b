#pragma once

#include <c10/util/Exception.h>

#include <memory>
#include <string_view>

#include "deq/core/cell.h"

// Misuse of a layer gets one sentence, where torch would print a trace from within f.

namespace deq {

/// The cell, or an Error where there is none.
std::shared_ptr<Cell> require_cell(std::shared_ptr<Cell> cell);

/// Throws Error where one of them is undefined. `what` names one: "input", "start".
void require_defined(const std::vector<torch::Tensor>& tensors, std::string_view what);

/// Throws Error unless all are float32 or float64, which solvers compute in.
void require_solvable(const State& state);

/// Where torch has refused something in a pass from `start`: throws Error that says how start or
/// inputs differ from what the cell takes, or the refusal again where they do not.
[[noreturn]] void explain_refusal(const c10::Error& refusal, Cell& cell, const Inputs& inputs,
                                  const State& start);

}  // namespace deq
