#pragma once

#include "kernels/history/history_common.h"
#include "solvers/anderson_weights.h"
#include "solvers/broyden_direction.h"
#include "solvers/judging.h"
#include "solvers/limited_pairs.h"

// decisions.h for one sample of a batch, on raw pointers, for host and device. Nothing here
// computes anything: it finds a sample's numbers and hands them to the functions that every solve
// shares.

namespace deq {

/// The longest history whose systems are solved where the slabs are.
constexpr int64_t kMaxAndersonMemory = 16;
constexpr int64_t kMaxBroydenSteps = kernels::kMaxRows - 1;
constexpr int64_t kMaxLimitedSteps = kernels::kMaxRows / 2;

/// One sample's history; all zeros is an empty one.
struct BroydenHistory {
  int64_t first = 0;  // the oldest step it uses
  int64_t taken = 0;  // steps before it stopped
  int64_t restarts = 0;
};

struct JudgeArguments {
  const double* sums;  // [batch, width], as observe gives them
  int64_t batch, width;
  JudgedSample* samples;
  uint8_t* marks;
  double* residuals;  // [batch, 2] of this evaluation: absolute and relative
  int64_t evaluation;
  JudgingRules rules;
};

struct AndersonArguments {
  const double* sums;
  int64_t batch, width;
  const JudgedSample* samples;
  const uint8_t* marks;
  double* gram;  // [batch, memory, memory]
  AndersonHistory* histories;
  double* coefficients;  // [batch, slots], or [batch, 2·slots] for β ≠ 1
  int64_t steps;
  double beta;
  AndersonRules rules;
};

struct BroydenArguments {
  const double* sums;
  int64_t batch, width;
  const uint8_t* marks;
  double* gram;  // [batch, triangle(capacity)]
  int64_t gram_stride;
  BroydenHistory* histories;
  double* coefficients;  // [batch, steps + 1]
  int64_t steps;
  bool full;  // the history is thrown away after this step
};

struct LimitedArguments {
  const double* sums;  // rows: every step, every update, the g before
  int64_t batch, width;
  const uint8_t* marks;
  double* pairs;  // [batch, LimitedPairs::numbers(capacity)]
  int64_t capacity;
  int64_t* skipped;        // updates, by sample
  double* update_weights;  // [batch, kept + 2], where `kept` steps are left after one is dropped
  double* step_weights;    // [batch, kept + 1]
  int64_t steps;
  bool drop;  // the oldest pair, before the new one is made
};

DEQ_HOST_DEVICE bool is_active(const uint8_t* marks, int64_t sample) {
  return (marks[sample] & kernels::kActive) != 0;
}

/// Judges an active sample, notes its residuals and marks it. True while it is active.
DEQ_HOST_DEVICE bool judge_sample(const JudgeArguments& a, int64_t b) {
  JudgedSample sample;
  if (a.evaluation > 1) sample = a.samples[b];
  if (!sample.active()) {
    a.marks[b] = 0;
    return false;
  }
  double square = a.sums[b * a.width], image_square = a.sums[b * a.width + 1];
  if (a.rules.tol.scope == NormScope::WholeBatch) {
    square = image_square = 0;
    for (int64_t i = 0; i < a.batch; ++i) {
      square += a.sums[i * a.width];
      image_square += a.sums[i * a.width + 1];
    }
  }
  const double absolute = std::sqrt(square), image = std::sqrt(image_square);
  a.residuals[2 * b] = absolute;
  a.residuals[2 * b + 1] = residual_ratio(absolute, image);
  const bool better = judge(sample, absolute, image, a.evaluation, a.rules);
  // The start is kept even where nothing about it is finite.
  const bool kept = better || (a.evaluation == 1 && a.rules.start_is_candidate);
  a.marks[b] = static_cast<uint8_t>((sample.active() ? kernels::kActive : 0) |
                                    (kept ? kernels::kImproved : 0));
  a.samples[b] = sample;
  return sample.active();
}

/// The coefficients of Anderson's next iterate. `system` has room for memory² numbers and `alpha`
/// for memory.
DEQ_HOST_DEVICE void choose_anderson(const AndersonArguments& a, int64_t b, double* system,
                                     double* alpha) {
  const int64_t m = a.rules.memory, slots = std::min(a.steps, m);
  const bool mixes = a.beta != 1.0;
  const int64_t columns = mixes ? 2 * slots : slots;
  double* c = a.coefficients + b * columns;
  for (int64_t i = 0; i < columns; ++i) c[i] = 0.0;
  if (!is_active(a.marks, b)) return;
  const double* sums = a.sums + b * a.width;
  double* gram = a.gram + b * m * m;
  AndersonHistory history = a.histories[b];
  remember_residual(a.rules, a.steps, sums[0], sums + 2, a.samples[b].absolute, gram, history);
  const int64_t used = anderson_weights(a.rules, a.steps, gram, history, system, alpha);
  for (int64_t i = 0; i < used; ++i) {
    const int64_t slot = older_slot((a.steps - 1) % m, i, m);
    c[slot] = alpha[i];
    if (mixes) c[slots + slot] = (a.beta - 1.0) * alpha[i];
  }
  a.histories[b] = history;
}

/// The newest row of a Gram matrix: the numbers that `observe` gave after the dots of g.
DEQ_HOST_DEVICE const double* newest_gram_row(const BroydenArguments& a, int64_t b) {
  return a.sums + b * a.width + 2 + a.steps;
}

/// The coefficients c of Broyden's next step, steps + 1 numbers, given the Gram matrix up to its
/// newest row. `along` has room for as many numbers as there are steps.
DEQ_HOST_DEVICE void choose_broyden(const BroydenArguments& a, int64_t b, const double* gram,
                                    double* along, double* c) {
  for (int64_t i = 0; i <= a.steps; ++i) c[i] = 0.0;
  if (a.steps == 0) a.histories[b].first = a.histories[b].taken = 0;
  if (!is_active(a.marks, b)) return;
  BroydenHistory history = a.histories[b];
  if (!broyden_direction(a.sums + b * a.width + 2, gram, nullptr, history.first, a.steps, along,
                         c)) {
    history.first = a.steps;  // this sample starts anew
    ++history.restarts;
  }
  history.taken = a.steps + 1;
  if (a.full) ++history.restarts;
  a.histories[b] = history;
}

/// The weights of limited-memory Broyden's newest u, where there is a step, and of its next step.
DEQ_HOST_DEVICE void choose_limited(const LimitedArguments& a, int64_t b) {
  const int64_t n = a.steps, kept = a.drop ? n - 1 : n;
  double* update = a.update_weights + b * (kept + 2);
  double* step = a.step_weights + b * (kept + 1);
  for (int64_t i = 0; i < kept + 2; ++i) update[i] = 0.0;
  for (int64_t i = 0; i < kept + 1; ++i) step[i] = 0.0;
  if (!is_active(a.marks, b)) return;
  const auto pairs = LimitedPairs::in(a.pairs + b * LimitedPairs::numbers(a.capacity), a.capacity);
  if (n > 0) {
    const double* dots = a.sums + b * a.width + 2;  // of g with all rows
    const double* newest = dots + 2 * n;            // of the newest step with all rows
    turn_to_previous(pairs, n - 1);
    add_step(pairs, n - 1, newest[2 * n - 1], newest[n - 1], newest + n);
    remember_dots(pairs, n, dots);
    if (a.drop) drop_oldest(pairs, n);
    if (!update_weights(pairs, kept, update)) ++a.skipped[b];
  }
  step_weights(pairs, kept, step);
}

}  // namespace deq
