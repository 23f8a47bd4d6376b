#include <cmath>

#include "kernels/history.h"
#include "solvers/line_search.h"
#include "solvers/methods.h"
#include "solvers/small_systems.h"

// "Good" Broyden (Broyden 1965) on g(z) = f(z) − z, one problem a sample, with H ≈ (J − I)⁻¹, H₀ =
// −I:
//
//   dₖ = −Hₖ gₖ,  sₖ = λₖ dₖ,  zₖ₊₁ = zₖ + sₖ,  y = gₖ₊₁ − gₖ
//   Hₖ₊₁ = (I + uₖ sₖᵀ) Hₖ,   uₖ = (sₖ − Hₖ y) / (sₖᵀ Hₖ y)
//
// Only the steps s are kept (Kelley 1995, §7.3), because with w = −Hₖ gₖ₊₁ and σ = sₖᵀw
//
//   Hₖ y = sₖ/λₖ − w,   dₖ₊₁ = w + uₖ σ,   so   uₖ = (λₖ/λₖ₊₁ sₖ₊₁ + (λₖ − 1) sₖ) / ‖sₖ‖².
//
// Applying H to the new g then needs its dots with all s (computed by the driver in the pass that
// makes g), a recurrence on the host over the Gram matrix [sᵢ·sⱼ], and one combination of all s.
// That combination also yields the new Gram row: two passes over the history a step.

namespace deq {
namespace {

constexpr double kSmallestDenominator = 1e-10;  // of sᵀHy, in units of ‖s‖²

class BroydenMethod final : public Method {
 public:
  explicit BroydenMethod(const Broyden& options) : options_(options) {}

  void begin() override { forget(); }

  void step(Iteration& it) override {
    const auto n = static_cast<int64_t>(steps_.size());
    samples_.resize(static_cast<size_t>(it.batch()));
    // The combination's rows: g, then every step.
    std::vector<torch::Tensor> rows{it.g()};
    rows.insert(rows.end(), steps_.begin(), steps_.end());
    auto coefficients = torch::zeros({it.batch(), n + 1}, torch::kDouble);
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (it.active(b)) direction(it, b, coefficients.data_ptr<double>() + b * (n + 1));
    }
    auto step = it.slab();
    auto next = it.slab();
    steps_.push_back(step);
    const auto gram_rows =
        kernels::combine_and_move(rows, coefficients, step, it.z(), next, steps_);
    rows.clear();
    for (int64_t b = 0; b < it.batch(); ++b) {
      auto& sample = samples_[static_cast<size_t>(b)];
      sample.gram.append(gram_rows.const_data_ptr<double>() + b * (n + 1));
      sample.lengths.push_back(1.0);
    }
    if (n == options_.memory) restart(it);
    if (options_.line_search) {
      next.reset();
      search(it, step);
    } else {
      it.move_to(next, steps_);
    }
  }

 private:
  struct Sample {
    GrowingSymmetric gram;        // sᵢ·sⱼ
    std::vector<double> lengths;  // λ
    int64_t first = 0;            // the oldest step it uses
  };

  void forget() {
    steps_.clear();
    samples_.clear();
  }

  /// The history is full: this step was the last to use it, and the next is a plain one.
  void restart(Iteration& it) {
    forget();
    for (int64_t b = 0; b < it.batch(); ++b) it.report().restarts += it.active(b) ? 1 : 0;
  }

  /// The coefficients of −H g on [g, s₀, s₁, …] for one sample.
  void direction(Iteration& it, int64_t b, double* c) {
    auto& sample = samples_[static_cast<size_t>(b)];
    const auto newest = static_cast<int64_t>(steps_.size()) - 1;
    c[0] = 1.0;
    if (newest < sample.first) return;
    // sⱼ·w for the w built so far. A line search asks for g·s before it shortens the newest step.
    const auto along = [&](int64_t j) {
      double value = it.dot(b, j) * (j == newest ? sample.lengths.back() : 1.0);
      for (int64_t i = sample.first; i <= newest; ++i) value += c[i + 1] * sample.gram(j, i);
      return value;
    };
    const auto length = [&](int64_t j) { return sample.lengths[static_cast<size_t>(j)]; };
    for (int64_t j = sample.first; j < newest; ++j) {
      const double a = along(j) / sample.gram(j, j);
      c[j + 2] += a * length(j) / length(j + 1);
      c[j + 1] += a * (length(j) - 1.0);
    }
    const double sigma = along(newest);
    const double square = sample.gram(newest, newest);
    const double denominator = square / length(newest) - sigma;
    if (!std::isfinite(sigma) || !(std::abs(denominator) > kSmallestDenominator * square)) {
      // The secant condition has no usable solution: this sample starts anew with a plain step.
      std::fill(c + 1, c + newest + 2, 0.0);
      c[0] = 1.0;
      sample.first = newest + 1;
      ++it.report().restarts;
      return;
    }
    const double gain = 1.0 + sigma / denominator;
    for (int64_t i = 0; i <= newest + 1; ++i) c[i] *= gain;
    c[newest + 1] += (1.0 - 1.0 / length(newest)) * sigma / denominator;
  }

  /// Moves along `step`, shortened per sample; the stored step and its Gram row follow.
  void search(Iteration& it, torch::Tensor& step) {
    const auto lengths = backtrack(it, step, steps_);
    if (steps_.empty()) return;
    auto coefficients = torch::ones({it.batch(), 1}, torch::kDouble);
    bool shortened = false;
    for (int64_t b = 0; b < it.batch(); ++b) {
      const double length = lengths[static_cast<size_t>(b)];
      if (length == 0.0 || length == 1.0) continue;
      shortened = true;
      auto& sample = samples_[static_cast<size_t>(b)];
      sample.lengths.back() = length;
      sample.gram.scale_last(length);
      coefficients.data_ptr<double>()[b] = length;
    }
    if (!shortened) return;
    auto scaled = it.slab();
    kernels::combine({step}, coefficients, scaled);
    steps_.back() = scaled;
  }

  Broyden options_;
  std::vector<torch::Tensor> steps_;
  std::vector<Sample> samples_;
};

}  // namespace

std::unique_ptr<Method> make_method(const Broyden& options) {
  return std::make_unique<BroydenMethod>(options);
}

}  // namespace deq
