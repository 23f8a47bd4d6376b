#include "solvers/device_methods.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "kernels/history/history.h"
#include "solvers/broyden_inverse.h"

// Picard, Anderson and both Broydens (notation in the files of the methods) without the host. What
// is kept, when, and in which slab is known beforehand; what depends on numbers is decided in
// decisions.h.

namespace deq {
namespace {

class DevicePicard final : public DeviceMethod {
 public:
  explicit DevicePicard(const Picard& options) : options_(options) {}

  Move propose(DeviceIteration& it) override {
    if (!coefficients_.defined()) {
      coefficients_ = it.numbers({it.batch(), 2});
      coefficients_.select(1, 0).fill_(options_.damping);
      coefficients_.select(1, 1).fill_(1.0 - options_.damping);
    }
    return {it.next({it.f(), it.z()}, coefficients_)};
  }

  void count(DeviceIteration& /*it*/, Report& /*report*/) const override {}

 private:
  Picard options_;
  torch::Tensor coefficients_;
};

class DeviceAnderson final : public DeviceMethod {
 public:
  explicit DeviceAnderson(const Anderson& options)
      : options_(options), rules_(anderson_rules(options)) {}

  Move propose(DeviceIteration& it) override {
    remember(it);
    const auto slots = static_cast<int64_t>(f_.size());
    std::vector<torch::Tensor> rows = f_;
    if (options_.beta != 1.0) rows.insert(rows.end(), g_.begin(), g_.end());
    auto coefficients = it.numbers({it.batch(), static_cast<int64_t>(rows.size())});
    decisions::anderson(it.sums(), it.samples(), it.marks(), gram_, histories_, coefficients,
                        steps_, options_.beta, rules_);
    Move move{it.next(rows, coefficients), g_};
    // The slot that the next iterate will take is let go first: its slabs can be reused, and nobody
    // asks for its dots.
    if (slots == options_.memory) {
      const int64_t oldest = steps_ % options_.memory;
      f_[static_cast<size_t>(oldest)].reset();
      g_[static_cast<size_t>(oldest)].reset();
      move.rows.erase(move.rows.begin() + oldest);
    }
    return move;
  }

  void count(DeviceIteration& it, Report& report) const override {
    if (!histories_.defined()) return;
    for (const auto& history : it.on_host<AndersonHistory>(histories_)) {
      report.restarts += history.restarts;
      report.ridge_raises += history.ridge_raises;
    }
  }

 private:
  void remember(DeviceIteration& it) {
    if (!gram_.defined()) {
      gram_ = it.numbers({it.batch(), options_.memory, options_.memory});
      histories_ = it.histories<AndersonHistory>();
    }
    const int64_t slot = steps_ % options_.memory;
    if (slot == static_cast<int64_t>(f_.size())) {
      f_.emplace_back();
      g_.emplace_back();
    }
    f_[static_cast<size_t>(slot)] = it.lasting_f();
    g_[static_cast<size_t>(slot)] = it.g();
    ++steps_;
  }

  Anderson options_;
  AndersonRules rules_;
  std::vector<torch::Tensor> f_, g_;  // by slot
  torch::Tensor gram_, histories_;
  int64_t steps_ = 0;
};

class DeviceBroyden final : public DeviceMethod {
 public:
  explicit DeviceBroyden(const Broyden& options) : options_(options) {}

  Move propose(DeviceIteration& it) override {
    if (!gram_.defined()) {
      gram_ = it.numbers({it.batch(), triangle(std::min(options_.memory, it.budget()))});
      histories_ = it.histories<BroydenHistory>();
    }
    ended_.clear();
    const auto n = static_cast<int64_t>(steps_.size());
    const bool full = n == options_.memory;
    auto coefficients = it.numbers({it.batch(), n + 1});
    decisions::broyden(it.sums(), it.marks(), gram_, histories_, coefficients, n, full);
    std::vector<torch::Tensor> rows{it.g()};
    rows.insert(rows.end(), steps_.begin(), steps_.end());
    const auto step = options_.bfloat16_steps ? it.half_slab() : it.slab();
    const auto next = it.next(rows, coefficients, step);
    steps_.push_back(step);
    // The history is full: this step was the last to use it, and the next is a plain one. Where
    // all samples have stopped it is not taken, and the solve ends with the history that it has.
    if (full) {
      ended_ = std::exchange(steps_, {});
      return {next};
    }
    // The Gram matrix's new row is left to the pass that will read all steps anyway.
    return {next, steps_, step};
  }

  void count(DeviceIteration& it, Report& report) const override {
    if (!histories_.defined()) return;
    for (const auto& history : it.on_host<BroydenHistory>(histories_)) {
      report.restarts += history.restarts;
    }
  }

  std::shared_ptr<const SecantInverse> inverse(DeviceIteration& it) const override {
    std::vector<BroydenUpdates> updates(static_cast<size_t>(it.batch()));
    if (!histories_.defined()) return std::make_shared<BroydenInverse>(steps_, std::move(updates));
    const auto histories = it.on_host<BroydenHistory>(histories_);
    const bool thrown_away = std::any_of(
        histories.begin(), histories.end(),
        [this](const BroydenHistory& history) { return history.taken > options_.memory; });
    const auto& steps = steps_.empty() && !thrown_away ? ended_ : steps_;
    const auto gram = gram_.cpu();
    for (size_t b = 0; b < updates.size() && !steps.empty(); ++b) {
      const auto* own = gram.const_data_ptr<double>() + static_cast<int64_t>(b) * gram.size(1);
      updates[b] = {.gram = {own, own + gram.size(1)},
                    .first = histories[b].first,
                    .taken = histories[b].taken};
    }
    return std::make_shared<BroydenInverse>(steps, std::move(updates));
  }

 private:
  Broyden options_;
  std::vector<torch::Tensor> steps_, ended_;
  torch::Tensor gram_, histories_;
};

class DeviceLimitedBroyden final : public DeviceMethod {
 public:
  explicit DeviceLimitedBroyden(const LimitedBroyden& options)
      : options_(options), capacity_(std::min(options.memory, options.max_evals) + 1) {}

  Move propose(DeviceIteration& it) override {
    if (!pairs_.defined()) {
      pairs_ = it.numbers({it.batch(), LimitedPairs::numbers(capacity_)});
      skipped_ = it.histories<int64_t>().view(torch::kInt64);
    }
    const auto n = static_cast<int64_t>(steps_.size());
    const bool drop = n > options_.memory;
    const int64_t kept = drop ? n - 1 : n;
    auto update_weights = it.numbers({it.batch(), kept + 2});
    auto step_weights = it.numbers({it.batch(), kept + 1});
    decisions::limited_broyden(it.sums(), it.marks(), pairs_, skipped_, update_weights,
                               step_weights, capacity_, n, drop);
    if (drop) {
      steps_.pop_front();
      updates_.pop_front();
    }
    if (n > 0) append_update(it, update_weights);
    return take_step(it, step_weights);
  }

  void count(DeviceIteration& it, Report& report) const override {
    if (!skipped_.defined()) return;
    for (const auto skipped : it.on_host<int64_t>(skipped_)) report.skipped_updates += skipped;
  }

 private:
  void append_update(DeviceIteration& it, const torch::Tensor& weights) {
    std::vector<torch::Tensor> rows{it.g(), previous_g_, steps_.back()};
    rows.insert(rows.end(), updates_.begin(), updates_.end());
    auto update = it.slab();
    kernels::enqueue::combine(rows, weights, update);
    updates_.push_back(update);
  }

  Move take_step(DeviceIteration& it, const torch::Tensor& weights) {
    std::vector<torch::Tensor> rows{it.g()};
    rows.insert(rows.end(), updates_.begin(), updates_.end());
    const auto step = it.slab();
    Move move{it.next(rows, weights, step)};
    previous_g_ = it.g();
    steps_.push_back(step);
    move.rows.assign(steps_.begin(), steps_.end());
    move.rows.insert(move.rows.end(), updates_.begin(), updates_.end());
    move.rows.push_back(previous_g_);
    move.newest = step;
    return move;
  }

  LimitedBroyden options_;
  int64_t capacity_;  // pairs
  std::deque<torch::Tensor> steps_, updates_;
  torch::Tensor pairs_, skipped_, previous_g_;
};

std::unique_ptr<DeviceMethod> make(const Picard& options) {
  return std::make_unique<DevicePicard>(options);
}

std::unique_ptr<DeviceMethod> make(const Anderson& options) {
  if (options.memory > kMaxAndersonMemory || options.mixing) return nullptr;
  return std::make_unique<DeviceAnderson>(options);
}

std::unique_ptr<DeviceMethod> make(const Broyden& options) {
  const bool too_long = std::min(options.memory, options.max_evals) > kMaxBroydenSteps;
  if (options.line_search || too_long) return nullptr;
  return std::make_unique<DeviceBroyden>(options);
}

std::unique_ptr<DeviceMethod> make(const LimitedBroyden& options) {
  if (std::min(options.memory, options.max_evals) + 1 > kMaxLimitedSteps) return nullptr;
  return std::make_unique<DeviceLimitedBroyden>(options);
}

std::unique_ptr<DeviceMethod> make(const NewtonKrylov& /*options*/) {
  return nullptr;
}

}  // namespace

std::unique_ptr<DeviceMethod> make_device_method(const SolverOptions& options) {
  return std::visit([](const auto& o) { return make(o); }, options);
}

}  // namespace deq
