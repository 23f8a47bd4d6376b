#include <algorithm>
#include <deque>

#include "kernels/history/history.h"
#include "solvers/limited_pairs.h"
#include "solvers/methods.h"

// "Good" Broyden with the last m updates only (notation as in broyden.cpp):
//
//   H = (I + uₙ₋₁ sₙ₋₁ᵀ) ⋯ (I + u₀ s₀ᵀ)·(−I),   pairs (sⱼ, uⱼ) kept, the oldest dropped when full.
//
// Once a pair is dropped, −H gₖ is no longer the step that was taken, so u does not follow from the
// steps any more and is kept as well; the secant condition Hₖ₊₁ y = sₖ still holds exactly. With
// −H v = v + Σ cⱼ(v) uⱼ, where cⱼ(v) = sⱼ·v + Σ_{i<j} cᵢ(v) sⱼ·uᵢ is linear in v:
//
//   −H y = y + Σ cⱼ(y) uⱼ,   u = (s − H y) / (sᵀH y),   d = −H g + u (sᵀ(−H g)).

namespace deq {
namespace {

class LimitedBroydenMethod final : public Method {
 public:
  explicit LimitedBroydenMethod(const LimitedBroyden& options)
      : options_(options), capacity_(std::min(options.memory, options.max_evals) + 1) {}

  void begin() override {
    steps_.clear();
    updates_.clear();
    previous_g_.reset();
  }

  void step(Iteration& it) override {
    if (previous_g_.defined()) {
      for (int64_t b = 0; b < it.batch(); ++b) remember_dots(pairs(b), steps(), it.dots(b));
      // Dropped before the new pair is made, so that the secant condition holds for what is left.
      if (static_cast<int64_t>(updates_.size()) == options_.memory) drop_oldest(it.batch());
      append_update(it);
    }
    take_step(it);
  }

 private:
  int64_t steps() const { return static_cast<int64_t>(steps_.size()); }

  LimitedPairs pairs(int64_t b) {
    return LimitedPairs::in(numbers_.data() + b * LimitedPairs::numbers(capacity_), capacity_);
  }

  /// The u of the step just taken, from the g it led to.
  void append_update(Iteration& it) {
    const int64_t width = steps() + 2;
    std::vector<torch::Tensor> rows{it.g(), previous_g_, steps_.back()};
    rows.insert(rows.end(), updates_.begin(), updates_.end());
    auto weights = torch::zeros({it.batch(), width}, torch::kDouble);
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (!it.active(b)) continue;
      const bool usable = update_weights(pairs(b), steps(), weights.data_ptr<double>() + b * width);
      it.report().skipped_updates += usable ? 0 : 1;
    }
    auto update = it.slab();
    kernels::combine(rows, weights, update);
    updates_.push_back(update);
  }

  void drop_oldest(int64_t batch) {
    for (int64_t b = 0; b < batch; ++b) deq::drop_oldest(pairs(b), steps());
    steps_.pop_front();
    updates_.pop_front();
  }

  void take_step(Iteration& it) {
    const int64_t count = steps(), width = count + 1;
    std::vector<torch::Tensor> rows{it.g()};
    rows.insert(rows.end(), updates_.begin(), updates_.end());
    auto weights = torch::zeros({it.batch(), width}, torch::kDouble);
    numbers_.resize(static_cast<size_t>(it.batch() * LimitedPairs::numbers(capacity_)));
    for (int64_t b = 0; b < it.batch(); ++b) {
      if (it.active(b)) step_weights(pairs(b), count, weights.data_ptr<double>() + b * width);
    }
    previous_g_ = it.g();
    auto step = it.slab();
    auto next = it.slab();
    std::vector<torch::Tensor> dot_rows{step, previous_g_};
    dot_rows.insert(dot_rows.end(), updates_.begin(), updates_.end());
    const auto dots = kernels::combine_and_move(rows, weights, step, it.z(), next, dot_rows);
    for (int64_t b = 0; b < it.batch(); ++b) {
      turn_to_previous(pairs(b), count);
      const double* row = dots.const_data_ptr<double>() + b * (width + 1);
      add_step(pairs(b), count, row[1], row[0], row + 2);
    }
    steps_.push_back(step);
    rows.clear();
    dot_rows.clear();
    it.move_to(next, std::vector<torch::Tensor>(steps_.begin(), steps_.end()));
  }

  LimitedBroyden options_;
  int64_t capacity_;  // pairs
  std::deque<torch::Tensor> steps_, updates_;
  std::vector<double> numbers_;  // the pairs of every sample
  torch::Tensor previous_g_;
};

}  // namespace

std::unique_ptr<Method> make_method(const LimitedBroyden& options) {
  return std::make_unique<LimitedBroydenMethod>(options);
}

}  // namespace deq
