#include "support/maps.h"

#include <algorithm>
#include <cmath>

namespace deq::test {

torch::Tensor matrix_with_radius(int64_t dim, double radius, at::Generator generator) {
  const auto m = torch::randn({dim, dim}, generator, f64());
  return m * (radius / dense_radius(m.unsqueeze(0)).item<double>());
}

torch::Tensor matrix_with_eigenvalues(const std::vector<double>& eigenvalues,
                                      at::Generator generator) {
  const auto dim = static_cast<int64_t>(eigenvalues.size());
  // Q (Λ + N) Qᵀ with N strictly upper triangular: a general matrix, yet a well-conditioned change
  // of basis.
  const auto q = orthogonal(dim, generator);
  const auto n = torch::triu(torch::randn({dim, dim}, generator, f64()), 1) * 0.3;
  return q.mm(torch::diag(torch::tensor(eigenvalues, f64())) + n).mm(q.t());
}

torch::Tensor rotation(double angle, double radius) {
  const double c = radius * std::cos(angle), s = radius * std::sin(angle);
  return torch::tensor({c, -s, s, c}, f64()).view({2, 2});
}

torch::Tensor orthogonal(int64_t dim, at::Generator generator) {
  return std::get<0>(torch::linalg_qr(torch::randn({dim, dim}, generator, f64())));
}

torch::Tensor dense_radius(const torch::Tensor& matrices) {
  return std::get<0>(torch::linalg_eigvals(matrices).abs().max(-1));
}

torch::Tensor AffineMap::operator()(const torch::Tensor& z) const {
  const auto image = a.dim() == 2 ? z.mm(a.t()) : torch::bmm(a, z.unsqueeze(2)).squeeze(2);
  return image + b;
}

torch::Tensor AffineMap::fixed_point() const {
  const auto identity = torch::eye(b.size(1), a.options());
  return torch::linalg_solve((identity - a).expand({b.size(0), b.size(1), b.size(1)}),
                             b.unsqueeze(2))
      .squeeze(2);
}

torch::Tensor TanhMap::operator()(const torch::Tensor& z) const {
  return torch::tanh(torch::addmm(x, z, w.t()));
}

torch::Tensor TanhMap::jacobian(const torch::Tensor& z) const {
  return (1 - (*this)(z).square()).unsqueeze(2) * w;
}

TanhProblem tanh_problem(int64_t batch, int64_t dim, double radius, at::Generator generator) {
  // Any point is the fixed point of f for the right x: x = atanh(z*) − z* Wᵀ.
  const auto z_star = torch::rand({batch, dim}, generator, f64()) * 1.4 - 0.7;
  const auto slope = (1 - z_star.square()).unsqueeze(2);
  for (;;) {
    auto w = torch::randn({dim, dim}, generator, f64());
    w = w * (radius / dense_radius(slope * w).max().item<double>());
    // Beyond radius 1 an eigenvalue may come to lie at 1, where there is no gradient to test.
    const auto distance = (torch::linalg_eigvals(slope * w) - 1).abs().min().item<double>();
    if (distance < std::min(0.5 * std::abs(1 - radius), 0.25)) continue;
    return {{w, torch::atanh(z_star) - z_star.mm(w.t())}, z_star};
  }
}

torch::Tensor dense_adjoint(const torch::Tensor& jacobian, const torch::Tensor& g) {
  const auto identity = torch::eye(jacobian.size(1), jacobian.options());
  return torch::linalg_solve((identity - jacobian).transpose(1, 2), g.unsqueeze(2)).squeeze(2);
}

Linearization linearize(const Map& f, const torch::Tensor& z) {
  const torch::AutoGradMode grad(true);
  auto leaf = z.detach().clone().requires_grad_();
  return {leaf, f(leaf)};
}

double relative_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return a.equal(b) ? 0.0 : ((a - b).abs().max() / b.abs().max()).item<double>();
}

Residuals residuals(const Map& f, const torch::Tensor& z) {
  const torch::NoGradGuard no_grad;
  const auto image = f(z);
  const auto norm = [](const torch::Tensor& t) {
    return t.to(torch::kFloat64).square().sum(1).sqrt();
  };
  const auto absolute = norm(image - z);
  return {absolute, torch::where(absolute == 0, absolute, absolute / norm(image))};
}

}  // namespace deq::test
