#include <algorithm>
#include <cmath>

#include "core/require.h"
#include "deq/solvers/method.h"
#include "kernels/history/history.h"
#include "solvers/evaluate.h"
#include "solvers/judging.h"

// The driver: everything about a solve that does not depend on the method.

namespace deq {

struct Iteration::Impl {
  const Problem& problem;
  JudgingRules rules;
  int64_t budget;
  const Callback& callback;
  SlabPool& pool;

  torch::Tensor z, f, g, best;
  std::vector<JudgedSample> samples{};
  std::vector<uint8_t> improved{};  // by sample: whether the current iterate is its best
  int64_t active_count = 0;
  torch::Tensor dots{};  // [B, 2 + rows] of the last observation
  Report report{};

  /// The start's image may be known, and is then the result where nothing better comes.
  torch::Tensor image_of(const torch::Tensor& at) {
    const bool is_start = report.trace.empty();
    if (!is_start || !problem.f_of_start.defined()) return evaluate(at);
    auto image = checked_image(problem.f_of_start, at);
    best = pool.take().copy_(image);
    return image;
  }

  torch::Tensor evaluate(const torch::Tensor& at) {
    ++report.evaluations;
    auto value = deq::evaluate(problem, at);
    return problem.overwrites_results ? value.clone() : value;
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
    const bool whole = rules.tol.scope == NormScope::WholeBatch;
    const bool undecided = kind == Evaluate::Trial || kind == Evaluate::Retrial;
    const bool is_new = kind == Evaluate::Iterate || kind == Evaluate::Trial;

    TracePoint point;
    point.evaluations = report.evaluations;
    point.active = active_count;
    improved.assign(samples.size(), 0);
    int64_t improved_count = 0;
    bool any_set_back = false;
    for (int64_t b = 0; b < batch; ++b) {
      JudgedSample& sample = samples[static_cast<size_t>(b)];
      if (!sample.active()) continue;
      const double absolute = std::sqrt(whole ? batch_g : sums[b * width]);
      const double image = std::sqrt(whole ? batch_f : sums[b * width + 1]);
      add_to(point, absolute, residual_ratio(absolute, image));
      if (judge(sample, absolute, image, report.evaluations, rules, undecided, is_new)) {
        improved[static_cast<size_t>(b)] = 1;
        ++improved_count;
      }
      any_set_back = any_set_back || sample.goes_back();
    }
    keep_best(improved_count);
    if (any_set_back) set_back();
    active_count = std::count_if(samples.begin(), samples.end(),
                                 [](const JudgedSample& sample) { return sample.active(); });
    report.trace.push_back(point);
    if (callback && !callback({z, f, report.trace.back()})) stop_all(Status::UserStopped);
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
                     .rules = {tolerance(options), guards(options),
                               /*start_is_candidate=*/!problem.f_of_start.defined()},
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
  return dots(sample)[row];
}

const double* Iteration::dots(int64_t sample) const {
  return impl_->dots.const_data_ptr<double>() + sample * impl_->dots.size(1) + 2;
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
          "a method moved to a tensor of shape {} and type {}", z.sizes(), z.scalar_type());
  if (impl.samples.empty()) {
    impl.samples.resize(static_cast<size_t>(z.size(0)));
    impl.active_count = z.size(0);
  }
  impl.z = z.contiguous();
  impl.f = impl.image_of(impl.z);
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
  conclude(impl.samples, impl.report);
  impl.pool.give_away(impl.best);
  return {impl.best, std::move(impl.report)};
}

}  // namespace deq
