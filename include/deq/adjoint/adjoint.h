#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "deq/core/linearization.h"
#include "deq/core/report.h"
#include "deq/solvers/solver.h"

namespace deq {

/// g [B, D] → u [B, D]: how a gradient at z* becomes the vector that f's graph is pulled back with.
/// The report is filled in on the way.
using AdjointRule =
    std::function<torch::Tensor(const Linearization&, const torch::Tensor& g, Report& report)>;

/// u (I − J) = g by `solver`, from u = 0. Where the solve fails, the best u found is used (at worst
/// g).
AdjointRule implicit_rule(Solver solver);

/// u = g (I + J + … + J^terms). Its residual is not measured: the report has no samples.
AdjointRule truncated_rule(int64_t terms);

/// u = g H with the inverse of the forward solve, and g where that u is too large or not finite;
/// the report counts these samples. With `refinement`, u (I − J) = g is solved from there; without,
/// no residual is measured.
AdjointRule shine_rule(std::shared_ptr<const SecantInverse> inverse, double fallback,
                       std::optional<Solver> refinement);

/// A value, z* or f(z*), with gradient: backward calls `rule` and sends u down the graph of f that
/// `at` was made from. The rule's report lands in `*report`. Everything it needs lives in the
/// graph, so a layer may be used many times in one graph and from several threads. Cannot be
/// differentiated twice, and says so.
torch::Tensor attach_adjoint(const torch::Tensor& value, const Linearization& at, AdjointRule rule,
                             std::shared_ptr<Report> report);

/// A function of explicit arguments, the first of them z, with a graph to all it depends on.
using ExplicitMap = std::function<torch::Tensor(const std::vector<torch::Tensor>& arguments)>;

/// The same, and its gradient can be differentiated again, to any order: u too is an equilibrium,
/// of u ↦ uJ + g, and gets its gradient in this very way. `at` was made from f(z, arguments);
/// `arguments` are tensors of its graph with a history of their own. What else f uses and did not
/// make is told by its age: `begin` is autograd's number from just before f was evaluated
/// (at::sequence_number::peek()).
torch::Tensor attach_differentiable_adjoint(const torch::Tensor& value, const Linearization& at,
                                            ExplicitMap f,
                                            const std::vector<torch::Tensor>& arguments,
                                            uint64_t begin, AdjointRule rule,
                                            std::shared_ptr<Report> report);

}  // namespace deq
