#include "solvers/device_iteration.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "kernels/history/history.h"
#include "solvers/evaluate.h"

namespace deq {
namespace {

/// The points of a trace from the residuals, absolute and relative, of the samples active at each.
/// Every observation counts as an evaluation.
std::vector<TracePoint> trace_of(const std::vector<JudgedSample>& samples, int64_t observations,
                                 const std::vector<double>& residuals) {
  std::vector<TracePoint> trace(static_cast<size_t>(observations));
  for (size_t e = 0; e < trace.size(); ++e) {
    auto& point = trace[e];
    point.evaluations = static_cast<int64_t>(e) + 1;
    const auto was_active = [&point](const JudgedSample& sample) {
      return sample.evaluations >= point.evaluations;
    };
    point.active = std::count_if(samples.begin(), samples.end(), was_active);
    for (size_t b = 0; b < samples.size(); ++b) {
      if (!was_active(samples[b])) continue;
      const auto* own = &residuals[2 * (e * samples.size() + b)];
      add_to(point, own[0], own[1]);
    }
  }
  return trace;
}

}  // namespace

ActiveCount::ActiveCount(const torch::Device& device)
    : device_(device),
      memory_(at::zeros({1}, at::TensorOptions(at::kInt).pinned_memory(device.is_cuda()))) {
  if (device.is_cuda()) written_.emplace(device.type());
}

ActiveCount::~ActiveCount() {
  try {
    if (written_) written_->synchronize();
  } catch (const c10::Error&) {  // the device has failed: nothing writes any more
  }
}

void ActiveCount::mark() {
  if (written_) written_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

int ActiveCount::wait() const {
  if (written_) written_->synchronize();
  return *memory_.const_data_ptr<int>();
}

DeviceIteration::DeviceIteration(const Problem& problem, const SolverOptions& options,
                                 SlabPool& pool, const torch::Tensor& z0)
    : problem_(problem),
      known_(problem.f_of_start.defined() ? 1 : 0),
      rules_{tolerance(options), guards(options), /*start_is_candidate=*/known_ == 0},
      budget_(max_evals(options) + known_),
      pool_(pool),
      z_(slab_for_z()),
      best_(pool.take()),
      notes_(batch() * kHistoryBytes + DeviceNotes::bytes_of<JudgedSample>(batch()) +
                 DeviceNotes::bytes_of<double>(2 * budget_ * batch()) +
                 DeviceNotes::bytes_of<uint8_t>(batch()),
             z0.device()),
      samples_(notes_.take<JudgedSample>(batch())),
      residuals_(notes_.take<double>(2 * budget_ * batch())
                     .view(torch::kDouble)
                     .view({budget_, batch(), 2})),
      marks_(notes_.take<uint8_t>(batch())),
      active_(z0.device()) {
  z_.copy_(z0);
  move_to({z_});
}

torch::Tensor DeviceIteration::half_slab() {
  if (!z_.is_cuda() || z_.scalar_type() != torch::kFloat32) return slab();
  return torch::empty_like(z_, z_.options().dtype(torch::kBFloat16));
}

torch::Tensor DeviceIteration::numbers(at::IntArrayRef shape) const {
  return torch::empty(shape, z_.options().dtype(torch::kDouble));
}

bool DeviceIteration::stopped() const {
  const bool can_converge = rules_.tol.atol > 0 || rules_.tol.rtol > 0;
  return can_converge && active_.wait() == 0;
}

torch::Tensor DeviceIteration::next(torch::TensorList rows, const torch::Tensor& coefficients,
                                    const std::optional<torch::Tensor>& step) {
  auto result = slab_for_z();
  kernels::enqueue::advance(rows, coefficients, z_, best_, marks_, step, result);
  return result;
}

void DeviceIteration::move_to(const Move& move) {
  const bool is_start = observations_ == 0;
  const auto marks = is_start ? std::nullopt : std::optional(marks_);
  ++observations_;
  z_ = move.z;
  if (is_start && known_ > 0) {
    f_ = checked_image(problem_.f_of_start, z_);
    best_.copy_(f_);
  } else {
    f_ = evaluate(problem_, z_);
  }
  g_ = pool_.take();
  sums_ = kernels::enqueue::observe(f_, z_, g_, move.rows, move.newest, marks);
  decisions::judge(sums_, samples_, marks_, residuals_, active_.memory(), observations_, rules_);
  active_.mark();
}

Solution DeviceIteration::finish(Report report) {
  kernels::enqueue::advance({}, numbers({batch(), 0}), z_, best_, marks_, std::nullopt,
                            std::nullopt);
  auto samples = notes_.on_host<JudgedSample>(samples_);
  for (const auto& sample : samples) {
    report.evaluations = std::max(report.evaluations, sample.evaluations);
  }
  report.trace = trace_of(samples, report.evaluations, notes_.on_host<double>(residuals_));
  conclude(samples, report);
  report.shift_evaluations(-known_);
  pool_.give_away(best_);
  return {best_, std::move(report)};
}

}  // namespace deq
