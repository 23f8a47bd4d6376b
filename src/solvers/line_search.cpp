#include "solvers/line_search.h"

#include "kernels/history/history.h"

namespace deq {
namespace {
constexpr int kMaxHalvings = 5;
constexpr double kSufficientDecrease = 1e-4;
/// A sample that has stopped stays where the driver put it, though others are still tried: its
/// steps begin there and have no length.
torch::Tensor where_stopped(const Iteration& it, std::vector<double>& length,
                            const torch::Tensor& start) {
  const auto stopped = torch::zeros({it.batch(), 1}, torch::kBool);
  bool any = false;
  for (size_t b = 0; b < length.size(); ++b) {
    if (length[b] == 0.0 || it.active(static_cast<int64_t>(b))) continue;
    stopped.data_ptr<bool>()[b] = any = true;
    length[b] = 0.0;
  }
  return any ? torch::where(stopped.to(start.device()), it.z(), start) : start;
}

}  // namespace

std::vector<double> backtrack(Iteration& it, const torch::Tensor& step, torch::TensorList rows) {
  auto start = it.z();
  const auto batch = static_cast<size_t>(it.batch());
  std::vector<double> length(batch, 0.0), old_residual(batch);
  for (size_t b = 0; b < batch; ++b) {
    length[b] = it.active(static_cast<int64_t>(b)) ? 1.0 : 0.0;
    old_residual[b] = it.residual(static_cast<int64_t>(b));
  }
  for (int halvings = 0; it.running(); ++halvings) {
    auto coefficients = torch::ones({it.batch(), 2}, torch::kDouble);
    for (size_t b = 0; b < batch; ++b) coefficients.data_ptr<double>()[2 * b + 1] = length[b];
    auto trial = it.slab();
    kernels::combine({start, step}, coefficients, trial);
    const bool last = halvings == kMaxHalvings;
    const auto later = last ? Evaluate::LastTrial : Evaluate::Retrial;
    it.move_to(trial, rows, halvings == 0 ? Evaluate::Trial : later);
    if (last) break;
    start = where_stopped(it, length, start);
    bool rejected = false;
    for (size_t b = 0; b < batch; ++b) {
      if (!it.active(static_cast<int64_t>(b))) continue;
      const double wanted = (1.0 - kSufficientDecrease * length[b]) * old_residual[b];
      if (it.residual(static_cast<int64_t>(b)) <= wanted) continue;
      length[b] *= 0.5;
      ++it.report().step_rejections;
      rejected = true;
    }
    if (!rejected) break;
  }
  return length;
}

}  // namespace deq
