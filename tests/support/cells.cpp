#include "support/cells.h"

namespace deq::test {

TanhCellImpl::TanhCellImpl(const torch::Tensor& w_value, const torch::Tensor& u_value)
    : w(register_parameter("w", w_value.clone())), u(register_parameter("u", u_value.clone())) {}

State TanhCellImpl::initial_state(const Inputs& inputs) {
  return {torch::zeros_like(inputs.at(0))};
}

Context TanhCellImpl::prepare(const Inputs& inputs) {
  ++prepared;
  return {inputs.at(0).mm(u.t())};
}

State TanhCellImpl::step(const State& z, const Context& context) {
  ++steps;
  return {torch::tanh(torch::addmm(context[0], z[0], w.t()))};
}

torch::Tensor CellProblem::jacobian() const {
  return ((1 - z_star.square()).unsqueeze(2) * cell->w).detach();
}

std::vector<torch::Tensor> CellProblem::pull_back(const torch::Tensor& v) const {
  const torch::NoGradGuard no_grad;
  const auto inner = v * (1 - z_star.square());
  return {inner.t().mm(z_star), inner.t().mm(x), inner.mm(cell->u)};
}

CellProblem cell_problem(int64_t batch, int64_t dim, double radius, at::Generator generator) {
  const auto problem = tanh_problem(batch, dim, radius, generator);
  const auto u = torch::eye(dim, f64()) + 0.2 * torch::randn({dim, dim}, generator, f64());
  const auto x = torch::linalg_solve(u, problem.map.x.t()).t().contiguous();
  return {TanhCell(problem.map.w, u), x, problem.z_star};
}

PairCellImpl::PairCellImpl(int64_t n, at::Generator generator)
    : w(register_parameter("w", matrix_with_radius(n, 0.6, generator))),
      s(register_parameter("s", torch::rand({2, 3}, generator, f64()) + 0.5)) {}

State PairCellImpl::initial_state(const Inputs& inputs) {
  const auto& x = inputs.at(0);
  return {torch::zeros_like(x), torch::zeros({x.size(0), 2, 3}, x.options())};
}

State PairCellImpl::step(const State& z, const Context& context) {
  const auto& a = z[0];
  const auto& c = z[1];
  return {torch::tanh(a.mm(w) + c.mean(c10::IntArrayRef{1, 2}).unsqueeze(1) + context[0]),
          0.5 * torch::sin(c * s) + 0.25 * a.mean(1).view({-1, 1, 1})};
}

}  // namespace deq::test
