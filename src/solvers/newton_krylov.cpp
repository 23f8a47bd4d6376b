#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/history/history.h"
#include "solvers/arnoldi.h"
#include "solvers/line_search.h"
#include "solvers/methods.h"
#include "solvers/small_systems.h"

// Newton's method on g(z) = f(z) − z (Knoll & Keyes 2004), one problem per sample:
//
//   (I − J(z)) d = g(z) by GMRES from d = 0,   z ← z + λ d.
//
// All samples share the Krylov steps; each has its own Hessenberg matrix, Givens rotations and
// stopping point. J v is the problem's own product, or (f(z + εv) − f(z)) / ε with
// ε = √eps·(1 + ‖z‖) for the unit vector v. A step always keeps one evaluation for its move.

namespace deq {
namespace {

/// One sample's least-squares problem  min ‖β e₁ − H y‖, factored column by column.
class Hessenberg {
 public:
  Hessenberg(int64_t columns, double beta)
      : r_(columns), rhs_(static_cast<size_t>(columns) + 1, 0.0) {
    rhs_[0] = beta;
  }

  /// Adds the column h of length columns() + 1 and the subdiagonal entry below it.
  void append(std::vector<double> h, double below) {
    const size_t j = cosines_.size();
    for (size_t i = 0; i < j; ++i) {
      const double upper = cosines_[i] * h[i] + sines_[i] * h[i + 1];
      h[i + 1] = -sines_[i] * h[i] + cosines_[i] * h[i + 1];
      h[i] = upper;
    }
    const double length = std::hypot(h[j], below);
    cosines_.push_back(length > 0 ? h[j] / length : 1.0);
    sines_.push_back(length > 0 ? below / length : 0.0);
    h[j] = length;
    for (size_t i = 0; i <= j; ++i) r_(static_cast<int64_t>(i), static_cast<int64_t>(j)) = h[i];
    rhs_[j + 1] = -sines_[j] * rhs_[j];
    rhs_[j] = cosines_[j] * rhs_[j];
  }

  size_t columns() const { return cosines_.size(); }
  double residual() const { return std::abs(rhs_[columns()]); }

  std::vector<double> solve() const {
    const auto n = static_cast<int64_t>(columns());
    std::vector<double> y(rhs_.begin(), rhs_.begin() + n);
    for (int64_t i = n - 1; i >= 0; --i) {
      double& value = y[static_cast<size_t>(i)];
      for (int64_t k = i + 1; k < n; ++k) value -= r_(i, k) * y[static_cast<size_t>(k)];
      value = r_(i, i) > 0 ? value / r_(i, i) : 0.0;
    }
    return y;
  }

 private:
  SmallMatrix r_;
  std::vector<double> rhs_, cosines_, sines_;
};

class NewtonKrylovMethod final : public Method {
 public:
  explicit NewtonKrylovMethod(const NewtonKrylov& options) : options_(options) {}

  void begin() override {}

  void step(Iteration& it) override {
    const auto direction = newton_direction(it);
    backtrack(it, direction, {});
  }

 private:
  torch::Tensor newton_direction(Iteration& it) const {
    const auto batch = static_cast<size_t>(it.batch());
    std::vector<Hessenberg> systems;
    std::vector<bool> open(batch, false);
    auto scale = torch::zeros({it.batch(), 1}, torch::kDouble);
    for (size_t b = 0; b < batch; ++b) {
      const double beta = std::sqrt(it.squared_norm(static_cast<int64_t>(b)));
      systems.emplace_back(options_.krylov_dim, beta);
      open[b] = it.active(static_cast<int64_t>(b)) && beta > 0 && std::isfinite(beta);
      if (open[b]) scale.data_ptr<double>()[b] = 1.0 / beta;
    }
    std::vector<torch::Tensor> basis{it.slab()};
    kernels::combine({it.g()}, scale, basis[0]);
    if (it.remaining() == 1) return it.g();  // no room for a product: a plain step
    const auto spacing = difference_spacing(it);
    const int64_t columns = std::min(options_.krylov_dim, it.remaining() - 1);
    for (int64_t j = 0; j < columns && any(open); ++j) {
      auto next = product(it, basis.back(), spacing);
      extend(it, basis, next, systems, open);
    }
    auto coefficients =
        torch::zeros({it.batch(), static_cast<int64_t>(basis.size())}, torch::kDouble);
    for (size_t b = 0; b < batch; ++b) {
      const auto y = systems[b].solve();
      std::copy(y.begin(), y.end(), coefficients.data_ptr<double>() + b * basis.size());
    }
    auto direction = it.slab();
    kernels::combine(basis, coefficients, direction);
    return direction;
  }

  static bool any(const std::vector<bool>& open) {
    return std::find(open.begin(), open.end(), true) != open.end();
  }

  /// ε per sample, [B, 1], for differences along a unit vector.
  static torch::Tensor difference_spacing(Iteration& it) {
    const double eps = it.z().scalar_type() == torch::kFloat64
                           ? std::numeric_limits<double>::epsilon()
                           : static_cast<double>(std::numeric_limits<float>::epsilon());
    return (kernels::dots(it.z(), {it.z()}).sqrt() + 1.0) * std::sqrt(eps);
  }

  /// (I − J) v.
  static torch::Tensor product(Iteration& it, const torch::Tensor& v,
                               const torch::Tensor& spacing) {
    auto result = it.slab();
    const auto one = torch::ones_like(spacing);
    const auto jv = it.jacobian_product(v);
    if (jv.defined()) {
      kernels::combine({v, jv}, torch::cat({one, -one}, 1), result);
      return result;
    }
    auto point = it.slab();
    kernels::combine({it.z(), v}, torch::cat({one, spacing}, 1), point);
    const auto moved = it.probe(point);
    kernels::combine({v, moved, it.f()}, torch::cat({one, -1 / spacing, 1 / spacing}, 1), result);
    return result;
  }

  /// Adds the next basis vector, and a column to every system that is still open.
  void extend(Iteration& it, std::vector<torch::Tensor>& basis, const torch::Tensor& vector,
              std::vector<Hessenberg>& systems, std::vector<bool>& open) const {
    auto column = orthonormalise(basis, vector, [&it] { return it.slab(); });
    for (size_t b = 0; b < open.size(); ++b) {
      if (!open[b]) continue;
      const double below = column.below[b];
      if (!std::isfinite(below)) {
        open[b] = false;  // f was non-finite near z: make do with the columns there are
        continue;
      }
      systems[b].append(column.dots[b], below);
      const double target = options_.forcing * std::sqrt(it.squared_norm(static_cast<int64_t>(b)));
      open[b] = below > 0 && systems[b].residual() > target;
    }
    basis.push_back(column.unit);
  }

  NewtonKrylov options_;
};

}  // namespace

std::unique_ptr<Method> make_method(const NewtonKrylov& options) {
  return std::make_unique<NewtonKrylovMethod>(options);
}

}  // namespace deq
