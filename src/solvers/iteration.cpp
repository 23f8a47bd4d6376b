#include <algorithm>
#include <cmath>
#include <limits>

#include "deq/core/error.h"
#include "deq/solvers/method.h"
#include "kernels/history.h"

// The driver: everything about a solve that does not depend on the method.

namespace deq {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kStagnationFactor =
    0.99;  // the best residual must fall below this share of itself

double ratio(double numerator, double denominator) {
  return numerator == 0 ? 0 : numerator / denominator;
}

struct Sample {
  Status status = Status::NotRun;  // NotRun while it is active
  double absolute = kInfinity;     // of the current iterate
  double first = kInfinity;        // ‖g‖ at z₀
  double smallest = kInfinity;     // ‖g‖ seen
  double merit = kInfinity;        // of the current iterate; smaller is better
  double best_merit = kInfinity;
  double best_absolute = kInfinity, best_relative = kInfinity;
  double stagnation_mark = kInfinity;
  int64_t iterates_since_mark = 0;
  int64_t evaluations = 0;

  bool active() const { return status == Status::NotRun; }
  bool goes_back() const { return !active() && status != Status::Converged; }
};

}  // namespace

struct Iteration::Impl {
  const Problem& problem;
  Tolerance tol;
  Guards guards;
  int64_t budget;
  const Callback& callback;
  SlabPool& pool;

  torch::Tensor z, f, g, best;
  std::vector<Sample> samples{};
  std::vector<uint8_t> improved{};  // by sample: whether the current iterate is its best
  int64_t active_count = 0;
  torch::Tensor dots{};  // [B, 2 + rows] of the last observation
  Report report{};

  torch::Tensor evaluate(const torch::Tensor& at) {
    ++report.evaluations;
    auto value = problem.f(at);
    require(value.sizes() == at.sizes(), "f returned a tensor of shape ", value.sizes(),
            " for a state of shape ", at.sizes());
    require(value.scalar_type() == at.scalar_type(), "f returned ", value.scalar_type(),
            " for a state of type ", at.scalar_type());
    return value.contiguous();
  }

  // The quantity that ranks iterates: the residual in units of its tolerance.
  double merit(double absolute, double image) const {
    const double threshold = tol.atol + tol.rtol * image;
    const double unit = tol.atol + tol.rtol > 0 ? threshold : image;
    const double value = ratio(absolute, unit);
    return std::isfinite(value) ? value : kInfinity;
  }

  void observe(torch::TensorList rows, Evaluate kind) {
    g = pool.take();
    dots = kernels::observe(f, z, g, rows);
    const auto batch = static_cast<int64_t>(samples.size());
    const double* sums = dots.const_data_ptr<double>();
    const int64_t width = dots.size(1);
    double batch_g = 0, batch_f = 0;
    for (int64_t b = 0; b < batch; ++b) {
      batch_g += sums[b * width];
      batch_f += sums[b * width + 1];
    }
    const bool whole = tol.scope == NormScope::WholeBatch;

    TracePoint point;
    point.evaluations = report.evaluations;
    point.active = active_count;
    improved.assign(samples.size(), 0);
    int64_t improved_count = 0;
    bool any_set_back = false;
    for (int64_t b = 0; b < batch; ++b) {
      Sample& sample = samples[static_cast<size_t>(b)];
      if (!sample.active()) continue;
      const double absolute = std::sqrt(whole ? batch_g : sums[b * width]);
      const double image = std::sqrt(whole ? batch_f : sums[b * width + 1]);
      const double relative = ratio(absolute, image);
      point.mean_absolute += absolute / static_cast<double>(active_count);
      point.mean_relative += relative / static_cast<double>(active_count);
      point.max_absolute = std::fmax(point.max_absolute, absolute);
      point.max_relative = std::fmax(point.max_relative, relative);
      if (judge(sample, absolute, image, relative, kind)) {
        improved[static_cast<size_t>(b)] = 1;
        ++improved_count;
      }
      any_set_back = any_set_back || sample.goes_back();
    }
    keep_best(improved_count);
    if (any_set_back) set_back();
    active_count = std::count_if(samples.begin(), samples.end(),
                                 [](const Sample& sample) { return sample.active(); });
    report.trace.push_back(point);
    if (callback && !callback({z, f, report.trace.back()})) stop_all(Status::UserStopped);
  }

  /// Updates a sample's figures and its status; true when the iterate is its best so far.
  bool judge(Sample& sample, double absolute, double image, double relative, Evaluate kind) const {
    const bool first = sample.evaluations == 0;
    const bool finite = std::isfinite(absolute) && std::isfinite(image);
    sample.evaluations = report.evaluations;
    sample.absolute = finite ? absolute : kInfinity;
    sample.merit = finite ? merit(absolute, image) : kInfinity;
    if (first) sample.first = sample.absolute;
    sample.smallest = std::min(sample.smallest, sample.absolute);
    // Where f vanishes no relative residual exists: there the absolute one ranks.
    const bool better =
        sample.merit < sample.best_merit ||
        (sample.merit == sample.best_merit && sample.absolute < sample.best_absolute);
    if (better) {
      sample.best_merit = sample.merit;
      sample.best_absolute = absolute;
      sample.best_relative = relative;
    }
    if (sample.best_merit < kStagnationFactor * sample.stagnation_mark) {
      sample.stagnation_mark = sample.best_merit;
      sample.iterates_since_mark = 0;
    } else {
      ++sample.iterates_since_mark;
    }
    if (finite && absolute <= tol.atol + tol.rtol * image) {
      sample.status = Status::Converged;
    } else if (kind == Evaluate::Iterate && !finite) {
      sample.status = Status::NonFinite;
    } else if (kind == Evaluate::Iterate && absolute > guards.divergence_factor * sample.first) {
      sample.status = Status::Diverged;
    } else if (guards.stagnation_window > 0 &&
               sample.iterates_since_mark >= guards.stagnation_window) {
      sample.status = Status::Stagnated;
    }
    return better;
  }

  /// Frozen samples have z = best, so that z can be shared whenever no active sample got worse.
  /// Slabs are never written to once they are an iterate.
  void keep_best(int64_t improved_count) {
    if (!best.defined() || improved_count == active_count) {
      best = z;
    } else if (improved_count > 0) {
      best = selected(improved, z, best);
    }
  }

  /// A sample that stops without converging goes on as its best iterate: nothing non-finite reaches
  /// f again.
  void set_back() {
    std::vector<uint8_t> back(samples.size());
    for (size_t b = 0; b < samples.size(); ++b) back[b] = samples[b].goes_back() ? 1 : 0;
    z = selected(back, best, z);
  }

  /// For every sample yes where it is marked, else no.
  torch::Tensor selected(std::vector<uint8_t>& marks, const torch::Tensor& yes,
                         const torch::Tensor& no) {
    auto result = pool.take();
    const auto mask =
        torch::from_blob(marks.data(), {static_cast<int64_t>(marks.size()), 1}, torch::kBool);
    at::where_out(result, mask.to(result.device()), yes, no);
    return result;
  }

  void stop_all(Status status) {
    for (auto& sample : samples) {
      if (sample.active()) sample.status = status;
    }
    active_count = 0;
  }
};

Iteration::Iteration(const Problem& problem, const SolverOptions& options, const Callback& callback,
                     SlabPool& pool)
    : impl_(new Impl{.problem = problem,
                     .tol = tolerance(options),
                     .guards = guards(options),
                     .budget = max_evals(options),
                     .callback = callback,
                     .pool = pool,
                     .z = {},
                     .f = {},
                     .g = {},
                     .best = {}}) {}

Iteration::~Iteration() = default;

int64_t Iteration::batch() const {
  return impl_->z.size(0);
}
int64_t Iteration::dim() const {
  return impl_->z.size(1);
}
const torch::Tensor& Iteration::z() const {
  return impl_->z;
}
const torch::Tensor& Iteration::f() const {
  return impl_->f;
}
const torch::Tensor& Iteration::g() const {
  return impl_->g;
}

bool Iteration::active(int64_t sample) const {
  return impl_->samples[static_cast<size_t>(sample)].active();
}

double Iteration::residual(int64_t sample) const {
  return impl_->samples[static_cast<size_t>(sample)].absolute;
}

double Iteration::best_residual(int64_t sample) const {
  return impl_->samples[static_cast<size_t>(sample)].smallest;
}

double Iteration::squared_norm(int64_t sample) const {
  return impl_->dots.const_data_ptr<double>()[sample * impl_->dots.size(1)];
}

double Iteration::dot(int64_t sample, int64_t row) const {
  return impl_->dots.const_data_ptr<double>()[sample * impl_->dots.size(1) + 2 + row];
}

int64_t Iteration::remaining() const {
  return impl_->budget - impl_->report.evaluations;
}

bool Iteration::running() const {
  return impl_->active_count > 0 && remaining() > 0;
}

void Iteration::move_to(const torch::Tensor& z, torch::TensorList rows, Evaluate kind) {
  Impl& impl = *impl_;
  require(!impl.z.defined() || (z.sizes() == impl.z.sizes() && z.dtype() == impl.z.dtype()),
          "a method moved to a tensor of shape ", z.sizes(), " and type ", z.dtype());
  if (impl.samples.empty()) {
    impl.samples.resize(static_cast<size_t>(z.size(0)));
    impl.active_count = z.size(0);
  }
  impl.z = z.contiguous();
  impl.f = impl.evaluate(impl.z);
  impl.observe(rows, kind);
}

torch::Tensor Iteration::probe(const torch::Tensor& z) {
  return impl_->evaluate(z);
}

torch::Tensor Iteration::jacobian_product(const torch::Tensor& v) {
  if (!impl_->problem.jacobian_product) return {};
  ++impl_->report.evaluations;
  return impl_->problem.jacobian_product(impl_->z, v).contiguous();
}

torch::Tensor Iteration::slab() {
  return impl_->pool.take();
}

Report& Iteration::report() {
  return impl_->report;
}

Solution Iteration::finish() {
  Impl& impl = *impl_;
  impl.stop_all(Status::MaxEvaluations);
  Report& report = impl.report;
  report.status = Status::Converged;
  for (const Sample& sample : impl.samples) {
    report.samples.push_back(
        {sample.status, sample.evaluations, sample.best_absolute, sample.best_relative});
    report.status = std::max(report.status, sample.status);
  }
  impl.pool.give_away(impl.best);
  return {impl.best, std::move(report)};
}

}  // namespace deq
