#include <algorithm>

#include "kernels/history/history.h"
#include "solvers/broyden_direction.h"
#include "solvers/broyden_inverse.h"
#include "solvers/line_search.h"
#include "solvers/methods.h"
#include "solvers/small_systems.h"

// "Good" Broyden (Broyden 1965) on g(z) = f(z) − z, one problem per sample, with H ≈ (J − I)⁻¹,
// H₀ = −I:
//
//   dₖ = −Hₖ gₖ,  sₖ = λₖ dₖ,  zₖ₊₁ = zₖ + sₖ,  y = gₖ₊₁ − gₖ
//   Hₖ₊₁ = (I + uₖ sₖᵀ) Hₖ,   uₖ = (sₖ − Hₖ y) / (sₖᵀ Hₖ y)
//
// Only the steps s are kept (Kelley 1995, §7.3), because with w = −Hₖ gₖ₊₁ and σ = sₖᵀw
//
//   Hₖ y = sₖ/λₖ − w,   dₖ₊₁ = w + uₖ σ,   so   uₖ = (λₖ/λₖ₊₁ sₖ₊₁ + (λₖ − 1) sₖ) / ‖sₖ‖².
//
// Applying H to the new g then needs its dots with all s (computed by the driver in the pass that
// makes g), a recurrence over the Gram matrix [sᵢ·sⱼ], and one combination of all s.
// That combination also yields the new Gram row: two passes over the history per step.

namespace deq {
namespace {

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
      if (!it.active(b)) continue;
      direction(it, b, coefficients.data_ptr<double>() + b * (n + 1));
      samples_[static_cast<size_t>(b)].taken = n + 1;
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

  std::shared_ptr<const SecantInverse> inverse(const Iteration& it) const override {
    std::vector<BroydenUpdates> updates(static_cast<size_t>(it.batch()));
    for (size_t b = 0; b < samples_.size(); ++b) {
      const auto& sample = samples_[b];
      updates[b] = {.gram = {sample.gram.data(), sample.gram.data() + triangle(sample.taken)},
                    .lengths = sample.lengths,
                    .first = sample.first,
                    .taken = sample.taken};
    }
    return std::make_shared<BroydenInverse>(steps_, std::move(updates));
  }

 private:
  struct Sample {
    GrowingSymmetric gram;        // sᵢ·sⱼ
    std::vector<double> lengths;  // λ
    int64_t first = 0;            // the oldest step it uses
    int64_t taken = 0;            // steps before it stopped
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
    const auto n = static_cast<int64_t>(steps_.size());
    along_.resize(steps_.size());
    const bool usable = broyden_direction(it.dots(b), sample.gram.data(), sample.lengths.data(),
                                          sample.first, n, along_.data(), c);
    if (usable) return;
    sample.first = n;  // this sample starts anew
    ++it.report().restarts;
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
  std::vector<double> along_;  // of the sample at hand
};

}  // namespace

std::unique_ptr<Method> make_method(const Broyden& options) {
  return std::make_unique<BroydenMethod>(options);
}

}  // namespace deq
