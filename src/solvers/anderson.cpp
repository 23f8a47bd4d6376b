#include <cmath>
#include <limits>

#include "kernels/history.h"
#include "solvers/methods.h"
#include "solvers/small_systems.h"

// Anderson acceleration (Anderson 1965; Walker & Ni 2011), type II, one problem a sample.
//
//   gᵢ = f(zᵢ) − zᵢ, the last n ≤ m iterates kept;   H = [gᵢ·gⱼ] + ridge·I
//   α = argmin ‖Σ αᵢ gᵢ‖² + ridge·‖α‖²  with Σ αᵢ = 1,  so  α = H⁻¹1 / (1ᵀH⁻¹1)
//   z ← Σ αᵢ (zᵢ + β gᵢ) = Σ αᵢ fᵢ + (β − 1) Σ αᵢ gᵢ
//
// A step adds one row to [gᵢ·gⱼ]: the dots of the new g with the old ones, which the driver
// computes in the pass that makes g. Slots are used in turn. A sample that restarts forgets its
// older slots; the slabs stay for the others.

namespace deq {
namespace {

constexpr double kRidgeGrowth = 100.0;
constexpr double kLargestWeights = 1e8;  // Σ|αᵢ| beyond this cancels every digit of a float64

class AndersonMethod final : public Method {
 public:
  explicit AndersonMethod(const Anderson& options) : options_(options) {}

  // What is kept for every sample stays allocated from one solve to the next, and so do the small
  // systems: where f is cheap, memory would cost more than arithmetic.
  void begin() override {
    f_.clear();
    g_.clear();
    lengths_.clear();
    smallest_.clear();
    steps_ = 0;
  }

  void step(Iteration& it) override {
    remember(it);
    const auto slots = static_cast<int64_t>(f_.size());
    const bool mixes = options_.beta != 1.0;
    // The combination's rows: every f, then (when β ≠ 1) every g, then z for the frozen samples.
    std::vector<torch::Tensor> rows = f_;
    if (mixes) rows.insert(rows.end(), g_.begin(), g_.end());
    rows.push_back(it.z());
    const auto z_row = static_cast<int64_t>(rows.size()) - 1;
    auto coefficients = torch::zeros({it.batch(), z_row + 1}, torch::kDouble);
    auto c = coefficients.accessor<double, 2>();
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (!it.active(b)) {
        c[b][z_row] = 1.0;
        continue;
      }
      find_weights(it, b);
      for (size_t i = 0; i < alpha_.size(); ++i) {
        c[b][used_[i]] = alpha_[i];
        if (mixes) c[b][slots + used_[i]] = (options_.beta - 1.0) * alpha_[i];
      }
    }
    auto next = it.slab();
    kernels::combine(rows, coefficients, next);
    // The slot that the next iterate will take is let go first: its slabs can be reused, and nobody
    // asks for its dots.
    std::vector<torch::Tensor> others = g_;
    if (slots == options_.memory) {
      const int64_t oldest = steps_ % options_.memory;
      f_[static_cast<size_t>(oldest)].reset();
      g_[static_cast<size_t>(oldest)].reset();
      others.erase(others.begin() + oldest);
    }
    rows.clear();
    it.move_to(next, others);
  }

 private:
  /// Takes the current f and g into the slot whose turn it is, and their dots into the Gram
  /// matrices.
  void remember(Iteration& it) {
    const int64_t slot = steps_ % options_.memory;
    if (slot == static_cast<int64_t>(f_.size())) {
      f_.emplace_back();
      g_.emplace_back();
    }
    f_[static_cast<size_t>(slot)] = it.f();
    g_[static_cast<size_t>(slot)] = it.g();
    const auto slots = static_cast<int64_t>(f_.size());
    gram_.resize(static_cast<size_t>(it.batch() * options_.memory * options_.memory));
    lengths_.resize(static_cast<size_t>(it.batch()), 0);
    smallest_.resize(static_cast<size_t>(it.batch()), std::numeric_limits<double>::infinity());
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (!it.active(b)) continue;
      for (int64_t i = 0; i < slots; ++i) {
        if (i != slot) gram(b, slot, i) = gram(b, i, slot) = it.dot(b, i < slot ? i : i - 1);
      }
      gram(b, slot, slot) = it.squared_norm(b);
      auto& length = lengths_[static_cast<size_t>(b)];
      auto& smallest = smallest_[static_cast<size_t>(b)];
      length = std::min(length + 1, slots);
      if (length > 1 && it.residual(b) > options_.restart_factor * smallest) {
        restart(it, b);
        smallest = it.residual(b);  // what came before must not restart the new history too
      }
      smallest = std::min(smallest, it.residual(b));
    }
    ++steps_;
  }

  void restart(Iteration& it, int64_t b) {
    lengths_[static_cast<size_t>(b)] = 1;
    ++it.report().restarts;
  }

  double& gram(int64_t b, int64_t i, int64_t j) {
    return gram_[static_cast<size_t>((b * options_.memory + i) * options_.memory + j)];
  }

  /// Fills `used_` with the sample's slots, the newest first, and `alpha_` with their weights.
  /// Where the system is singular the ridge grows; where that does not help the history restarts,
  /// and the plain step remains.
  void find_weights(Iteration& it, int64_t b) {
    const int64_t n = lengths_[static_cast<size_t>(b)];
    used_.clear();
    double mean_diagonal = 0;
    for (int64_t age = 1; age <= n; ++age) {
      used_.push_back((steps_ - age) % options_.memory);
      mean_diagonal += gram(b, used_.back(), used_.back()) / static_cast<double>(n);
    }
    double ridge = options_.ridge;
    if (options_.ridge_scale == RidgeScale::Relative) ridge *= mean_diagonal;
    for (;;) {
      system_.reset(n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          system_(i, j) = gram(b, used_[static_cast<size_t>(i)], used_[static_cast<size_t>(j)]);
        }
        system_(i, i) += ridge;
      }
      alpha_.assign(used_.size(), 1.0);
      if (solve_positive_definite(system_, alpha_) && normalise(alpha_)) return;
      if (!(ridge < mean_diagonal) || n == 1) break;
      ridge = std::max(kRidgeGrowth * ridge, 1e-14 * mean_diagonal);
      ++it.report().ridge_raises;
    }
    if (n > 1) restart(it, b);
    alpha_.assign(1, 1.0);
  }

  static bool normalise(std::vector<double>& alpha) {
    double sum = 0, magnitude = 0;
    for (const double a : alpha) {
      sum += a;
      magnitude += std::abs(a);
    }
    if (!std::isfinite(magnitude) || magnitude > kLargestWeights * std::abs(sum)) return false;
    for (double& a : alpha) a /= sum;
    return true;
  }

  Anderson options_;
  std::vector<torch::Tensor> f_, g_;  // by slot
  std::vector<double> gram_;          // by sample, slot and slot
  std::vector<int64_t> lengths_;      // by sample: how many of the newest slots it uses
  std::vector<double> smallest_;      // by sample: the smallest residual since its last restart
  int64_t steps_ = 0;

  // Of the sample at hand.
  std::vector<int64_t> used_;
  std::vector<double> alpha_;
  SmallMatrix system_{0};
};

}  // namespace

std::unique_ptr<Method> make_method(const Anderson& options) {
  return std::make_unique<AndersonMethod>(options);
}

}  // namespace deq
