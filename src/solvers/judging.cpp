#include "solvers/judging.h"

namespace deq {

void conclude(std::vector<JudgedSample>& samples, Report& report) {
  report.status = Status::Converged;
  for (JudgedSample& sample : samples) {
    if (sample.active()) sample.status = Status::MaxEvaluations;
    report.samples.push_back(
        {sample.status, sample.evaluations, sample.best_absolute, sample.best_relative});
    report.status = std::max(report.status, sample.status);
  }
}

}  // namespace deq
