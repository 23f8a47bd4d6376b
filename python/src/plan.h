#pragma once

#include <variant>

#include "deq/deq.h"
#include "graph.h"

namespace deq::python {

/// A plan whose failures become exceptions of Python's, also in backward(): torch would make a
/// RuntimeError of any other that is thrown there.
class PythonPlan {
 public:
  explicit PythonPlan(const EquilibriumOptions& options)
      : options_(options), plan_(reporting(options)) {}

  const EquilibriumOptions& options() const { return options_; }
  const EquilibriumPlan& plan() const { return plan_; }

  /// Where that was asked for, raises a failure of this pass, and lets backward() raise its own.
  void raise_failures(const Equilibrated& eq) const {
    if (options_.on_failure != OnFailure::Throw) return;
    if (has_failed(eq.report)) {
      throw ConvergenceError("the forward solve failed: " + eq.report.brief());
    }
    if (tests_adjoint()) raise_when_adjoint_fails(eq);
  }

  bool solves_adjoint() const { return adjoint_solver(options_.gradient) != nullptr; }
  bool takes_products() const {
    return solves_adjoint() || std::holds_alternative<Truncated>(options_.gradient);
  }
  /// Whether backward() can fail.
  bool tests_adjoint() const {
    return solves_adjoint() || std::holds_alternative<Reversible>(options_.gradient);
  }

  static EquilibriumOptions reporting(EquilibriumOptions options) {
    options.on_failure = OnFailure::Report;
    return options;
  }

 private:
  EquilibriumOptions options_;
  EquilibriumPlan plan_;
};

}  // namespace deq::python
