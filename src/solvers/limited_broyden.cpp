#include <cmath>
#include <deque>

#include "kernels/history.h"
#include "solvers/methods.h"

// "Good" Broyden with the last m updates only (notation as in broyden.cpp):
//
//   H = (I + uₙ₋₁ sₙ₋₁ᵀ) ⋯ (I + u₀ s₀ᵀ)·(−I),   pairs (sⱼ, uⱼ) kept, the oldest dropped when full.
//
// Once a pair is dropped, −H gₖ is no longer the step that was taken, so u does not follow from the
// steps alone and is kept as well; the secant condition Hₖ₊₁ y = sₖ still holds exactly. With
// −H v = v + Σ cⱼ(v) uⱼ, where cⱼ(v) = sⱼ·v + Σ_{i<j} cᵢ(v) sⱼ·uᵢ is linear in v:
//
//   −H y = y + Σ cⱼ(y) uⱼ,   u = (s − H y) / (sᵀH y),   d = −H g + u (sᵀ(−H g)).

namespace deq {
namespace {

constexpr double kSmallestDenominator = 1e-10;  // of sᵀHy, in units of ‖s‖²

class LimitedBroydenMethod final : public Method {
 public:
  explicit LimitedBroydenMethod(const LimitedBroyden& options) : options_(options) {}

  void begin() override {
    steps_.clear();
    updates_.clear();
    samples_.clear();
    previous_g_.reset();
  }

  void step(Iteration& it) override {
    samples_.resize(static_cast<size_t>(it.batch()));
    if (previous_g_.defined()) {
      remember_dots(it);
      // Dropped before the new pair is made, so that the secant condition holds for what is left.
      if (static_cast<int64_t>(updates_.size()) == options_.memory) drop_oldest();
      append_update(it);
    }
    take_step(it);
  }

 private:
  struct Pair {
    double s_g = 0;             // s·g for the current g
    double s_previous = 0;      // s·g for the g before it
    double s_s = 0;             // ‖s‖²
    std::vector<double> s_u{};  // s·uᵢ for the pairs before this one
    bool used = true;           // false: a breakdown; its u is zero
  };
  using Sample = std::deque<Pair>;  // one Pair a step kept; the newest lacks its u until g is known

  /// c(v) for the pairs that have a u, given sⱼ·v.
  template <class DotOf>
  static std::vector<double> coefficients(const Sample& sample, size_t pairs, const DotOf& dot_of) {
    std::vector<double> c(pairs, 0.0);
    for (size_t j = 0; j < pairs; ++j) {
      if (!sample[j].used) continue;
      c[j] = dot_of(sample[j]);
      for (size_t i = 0; i < j; ++i) c[j] += c[i] * sample[j].s_u[i];
    }
    return c;
  }

  /// The new g along every step.
  void remember_dots(const Iteration& it) {
    for (int64_t b = 0; b < it.batch(); ++b) {
      auto& sample = samples_[static_cast<size_t>(b)];
      for (size_t j = 0; j < sample.size(); ++j) sample[j].s_g = it.dot(b, static_cast<int64_t>(j));
    }
  }

  /// The u of the step just taken, from the g it led to.
  void append_update(Iteration& it) {
    const size_t pairs = updates_.size();
    const auto width = static_cast<int64_t>(pairs) + 3;
    std::vector<torch::Tensor> rows{it.g(), previous_g_, steps_.back()};
    rows.insert(rows.end(), updates_.begin(), updates_.end());
    auto weights = torch::zeros({it.batch(), width}, torch::kDouble);
    for (int64_t b = 0; b < it.batch(); ++b) {
      auto& sample = samples_[static_cast<size_t>(b)];
      if (!it.active(b)) {
        sample.back().used = false;
        continue;
      }
      auto& newest = sample.back();
      const auto c =
          coefficients(sample, pairs, [](const Pair& p) { return p.s_g - p.s_previous; });
      double minus_s_h_y = newest.s_g - newest.s_previous;  // sᵀ(−H y)
      for (size_t i = 0; i < pairs; ++i) minus_s_h_y += c[i] * newest.s_u[i];
      if (!(std::abs(minus_s_h_y) > kSmallestDenominator * newest.s_s)) {
        newest.used = false;
        ++it.report().skipped_updates;
        continue;
      }
      const double scale = -1.0 / minus_s_h_y;
      double* w = weights.data_ptr<double>() + b * width;
      w[0] = scale;
      w[1] = -scale;
      w[2] = scale;
      for (size_t i = 0; i < pairs; ++i) w[3 + i] = scale * c[i];
    }
    auto update = it.slab();
    kernels::combine(rows, weights, update);
    updates_.push_back(update);
  }

  void drop_oldest() {
    steps_.pop_front();
    updates_.pop_front();
    for (auto& sample : samples_) {
      sample.pop_front();
      for (auto& pair : sample) {
        if (!pair.s_u.empty()) pair.s_u.erase(pair.s_u.begin());
      }
    }
  }

  void take_step(Iteration& it) {
    const size_t pairs = updates_.size();
    const auto width = static_cast<int64_t>(pairs) + 1;
    std::vector<torch::Tensor> rows{it.g()};
    rows.insert(rows.end(), updates_.begin(), updates_.end());
    auto weights = torch::zeros({it.batch(), width}, torch::kDouble);
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (!it.active(b)) continue;
      double* w = weights.data_ptr<double>() + b * width;
      const auto& sample = samples_[static_cast<size_t>(b)];
      const auto c = coefficients(sample, pairs, [](const Pair& p) { return p.s_g; });
      w[0] = 1.0;
      std::copy(c.begin(), c.end(), w + 1);
    }
    previous_g_ = it.g();
    auto step = it.slab();
    auto next = it.slab();
    std::vector<torch::Tensor> dot_rows{step, previous_g_};
    dot_rows.insert(dot_rows.end(), updates_.begin(), updates_.end());
    const auto dots = kernels::combine_and_move(rows, weights, step, it.z(), next, dot_rows);
    for (int64_t b = 0; b < it.batch(); ++b) {
      auto& sample = samples_[static_cast<size_t>(b)];
      for (auto& pair : sample) pair.s_previous = pair.s_g;
      const double* row = dots.const_data_ptr<double>() + b * (width + 1);
      sample.push_back({.s_previous = row[1], .s_s = row[0], .s_u = {row + 2, row + 1 + width}});
    }
    steps_.push_back(step);
    rows.clear();
    dot_rows.clear();
    it.move_to(next, std::vector<torch::Tensor>(steps_.begin(), steps_.end()));
  }

  LimitedBroyden options_;
  std::deque<torch::Tensor> steps_, updates_;
  std::vector<Sample> samples_;
  torch::Tensor previous_g_;
};

}  // namespace

std::unique_ptr<Method> make_method(const LimitedBroyden& options) {
  return std::make_unique<LimitedBroydenMethod>(options);
}

}  // namespace deq
