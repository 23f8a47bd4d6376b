#include "deq/core/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace deq {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Status kStatuses[] = {Status::Converged, Status::UserStopped, Status::MaxEvaluations,
                                Status::Stagnated, Status::Diverged,    Status::NonFinite,
                                Status::NotRun};

SampleReport sample(Status status, double absolute, double relative) {
  return {.status = status, .evaluations = 1, .absolute = absolute, .relative = relative};
}

Report three_samples() {
  Report report;
  report.status = Status::Diverged;
  report.evaluations = 17;
  report.samples = {sample(Status::Converged, 0.5, 0.1), sample(Status::Diverged, 4.0, 0.7),
                    sample(Status::Converged, 0.25, 0.4)};
  return report;
}

TEST(Status, NamesAndAdviceAreDistinct) {
  std::set<std::string_view> names, advices;
  for (const Status status : kStatuses) {
    names.insert(status_name(status));
    advices.insert(advice(status));
    EXPECT_FALSE(advice(status).empty());
  }
  EXPECT_EQ(names.size(), std::size(kStatuses));
  EXPECT_EQ(advices.size(), std::size(kStatuses));
}

TEST(Status, WorseOutcomesCompareGreater) {
  // The batch's status is the largest of its samples': failures must outrank what merely ran out.
  EXPECT_LT(Status::Converged, Status::MaxEvaluations);
  EXPECT_LT(Status::MaxEvaluations, Status::Stagnated);
  EXPECT_LT(Status::Stagnated, Status::Diverged);
  EXPECT_LT(Status::Diverged, Status::NonFinite);
}

TEST(Report, DefaultIsNotRun) {
  const Report report;
  EXPECT_EQ(report.status, Status::NotRun);
  EXPECT_FALSE(report.converged());
  EXPECT_EQ(report.mean_relative(), 0.0);
  EXPECT_EQ(report.relative_quantile(0.5), 0.0);
  EXPECT_THAT(report.brief(), HasSubstr("not run"));
}

TEST(Report, CountsAndMoments) {
  const auto report = three_samples();
  EXPECT_EQ(report.count(Status::Converged), 2);
  EXPECT_EQ(report.count(Status::Diverged), 1);
  EXPECT_EQ(report.count(Status::NonFinite), 0);
  EXPECT_DOUBLE_EQ(report.mean_relative(), 0.4);
  EXPECT_EQ(report.max_relative(), 0.7);
  EXPECT_EQ(report.max_absolute(), 4.0);
}

TEST(Report, Quantiles) {
  const auto report = three_samples();
  EXPECT_EQ(report.relative_quantile(0.0), 0.1);
  EXPECT_EQ(report.relative_quantile(0.5), 0.4);
  EXPECT_EQ(report.relative_quantile(1.0), 0.7);
  Report hundred;
  for (int i = 100; i >= 0; --i) hundred.samples.push_back(sample(Status::Converged, 0, i));
  EXPECT_EQ(hundred.relative_quantile(0.9), 90.0);
  EXPECT_EQ(hundred.relative_quantile(0.99), 99.0);
}

TEST(Report, BriefSaysStatusCostResidualAndAdvice) {
  const auto line = three_samples().brief();
  EXPECT_THAT(line, HasSubstr(std::string(status_name(Status::Diverged))));
  EXPECT_THAT(line, HasSubstr("17 evaluations"));
  EXPECT_THAT(line, HasSubstr("2/3 samples"));
  EXPECT_THAT(line, HasSubstr("mean 4.00e-01"));
  EXPECT_THAT(line, HasSubstr("max 7.00e-01"));
  EXPECT_THAT(line, HasSubstr(std::string(advice(Status::Diverged))));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

TEST(Report, BriefNamesRejectionsOnlyWhenThereWereAny) {
  auto report = three_samples();
  for (const char* word : {"restarts", "ridge", "skipped", "shortened", "fall-backs"}) {
    EXPECT_THAT(report.brief(), Not(HasSubstr(word)));
  }
  report.restarts = 2;
  report.ridge_raises = 3;
  report.skipped_updates = 4;
  report.step_rejections = 5;
  report.fallbacks = 6;
  for (const char* words : {"2 restarts", "3 ridge", "4 skipped", "5 shortened", "6 fall-backs"}) {
    EXPECT_THAT(report.brief(), HasSubstr(words));
  }
}

TEST(Report, BriefOfSuccessHasNoAdvice) {
  Report report;
  report.status = Status::Converged;
  report.samples = {sample(Status::Converged, 0, 0)};
  EXPECT_THAT(report.brief(), Not(HasSubstr(std::string(advice(Status::Converged)))));
}

}  // namespace
}  // namespace deq
