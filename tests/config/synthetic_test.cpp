#include "deq/lab/settings/synthetic.h"
#include "config/source_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/settings/files.h"
#include "lab/settings/reference.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

SyntheticConfig parse_synthetic(const std::string& lines,
                                const std::vector<std::string>& overrides = {}) {
  return parse_config<SyntheticConfig>("experiment = \"synthetic\"\n" + lines, "x.toml", overrides);
}

void expect_round_trip(const SyntheticConfig& config) {
  const std::string text = to_toml(config);
  EXPECT_EQ(to_toml(parse_config<SyntheticConfig>(text, "effective")), text);
}

TEST(SyntheticConfig, TheDefaultsAreThePapers) {
  const auto path = kSource / "configs/paper/synthetic.toml";
  EXPECT_EQ(experiment_of(path), "synthetic");
  EXPECT_EQ(to_toml(load_config<SyntheticConfig>(path)), to_toml(SyntheticConfig{}));
  EXPECT_EQ(to_toml(parse_synthetic("")), to_toml(SyntheticConfig{}));
}

TEST(SyntheticConfig, AnotherSolverCanBeChosenForARunsEffectiveConfiguration) {
  auto trained = SyntheticConfig{};
  trained.solver.forward = Broyden{.memory = 50, .tol = {.rtol = 1e-5}, .max_evals = 17};
  const auto choose = [&](const std::vector<std::string>& overrides) {
    return parse_config<SyntheticConfig>(to_toml(trained), "config.toml", overrides).solver.forward;
  };
  const auto anderson = std::get<Anderson>(choose({"solver.forward.name=anderson"}));
  EXPECT_EQ(anderson.memory, Anderson{}.memory) << "Broyden's is another thing";
  EXPECT_EQ(anderson.max_evals, 17);
  EXPECT_EQ(anderson.tol.rtol, 1e-5);
  EXPECT_EQ(std::get<Picard>(choose({"solver.forward.name=picard"})).max_evals, 17);
  EXPECT_EQ(std::get<Anderson>(choose({"solver.forward.name=anderson", "solver.forward.memory=4"}))
                .memory,
            4);
  EXPECT_EQ(std::get<Broyden>(choose({"solver.forward.name=broyden"})).memory, 50);
  EXPECT_EQ(std::get<Broyden>(choose({"solver.forward.name=picard", "solver.forward.name=broyden"}))
                .max_evals,
            17);
  EXPECT_THROW(choose({"solver.forward.name=picard", "solver.forward.memory=4"}), ConfigError);
}

TEST(SyntheticConfig, ReadsEveryKindOfKey) {
  const SyntheticConfig config = parse_synthetic(R"(
seed = 9
[data]
noise = 0
[solver.forward]
name = "anderson"
memory = 3
norm = "whole-batch"
ridge_scale = "absolute"
[solver.adjoint]
line_search = true
max_evals = 11
[jacobian]
gamma = { schedule = "staircase", start = 1.9, increment = 0.1, every = 35000, stop = 90000 }
distribution = "rademacher"
stop_epoch = 90
[jacobian.control]
hold = "rho"
target = 0.8
[train]
clip_norm = 0.25
eval_budgets = [1, 2, 6]
[train.optimiser]
name = "sgd"
momentum = 0.95
[train.lr_schedule]
name = "step"
warmup_steps = 100
every = 30
[train.pretrain]
steps = 3000
layers = 10
)");
  EXPECT_EQ(config.seed, 9);
  EXPECT_EQ(config.data.noise, 0.0);
  const auto& forward = std::get<Anderson>(config.solver.forward);
  EXPECT_EQ(forward.memory, 3);
  EXPECT_EQ(forward.tol.scope, NormScope::WholeBatch);
  EXPECT_EQ(forward.ridge_scale, RidgeScale::Absolute);
  EXPECT_EQ(forward.beta, Anderson{}.beta);
  const auto& adjoint = std::get<Broyden>(config.solver.adjoint);
  EXPECT_TRUE(adjoint.line_search);
  EXPECT_EQ(adjoint.max_evals, 11);
  const auto& gamma = std::get<StaircaseSchedule>(config.jacobian.gamma.shape);
  EXPECT_EQ(gamma.start, 1.9);
  EXPECT_EQ(gamma.every, 35000);
  EXPECT_EQ(config.jacobian.gamma.stop, 90000);
  EXPECT_EQ(config.jacobian.estimator.distribution, ProbeDistribution::Rademacher);
  EXPECT_EQ(config.jacobian.stop_epoch, 90);
  EXPECT_EQ(config.jacobian.control.hold, Held::SpectralRadius);
  EXPECT_EQ(config.train.clip_norm, 0.25);
  EXPECT_EQ(config.train.eval_budgets, (std::vector<int64_t>{1, 2, 6}));
  EXPECT_EQ(std::get<Sgd>(config.train.optimiser).momentum, 0.95);
  EXPECT_EQ(config.train.lr_schedule.warmup_steps, 100);
  EXPECT_EQ(std::get<StepRate>(config.train.lr_schedule.shape).every, 30);
  EXPECT_EQ(config.train.pretrain.layers, 10);
  expect_round_trip(config);
}

TEST(SyntheticConfig, AnotherSolverKeepsBudgetAndTolerance) {
  for (const std::string solver :
       {"picard", "anderson", "broyden", "limited-broyden", "newton-krylov"}) {
    const SyntheticConfig config = parse_synthetic("", {"solver.adjoint.name=" + solver});
    EXPECT_EQ(solver_name(config.solver.adjoint), solver);
    EXPECT_EQ(max_evals(config.solver.adjoint), 6);
    EXPECT_EQ(tolerance(config.solver.adjoint).rtol, 1e-4);
    expect_round_trip(config);
  }
}

TEST(SyntheticConfig, TheAdjointSolverIsTheImplicitGradients) {
  SyntheticConfig config = parse_synthetic("", {"solver.adjoint.max_evals=17"});
  auto options = gradient_options(config.gradient, config.solver.adjoint);
  EXPECT_EQ(max_evals(std::get<Implicit>(options).solver), 17);
  for (const std::string gradient :
       {"implicit", "truncated", "jacobian-free", "shine", "phantom", "unrolled", "reversible"}) {
    config = parse_synthetic("", {"gradient.name=" + gradient});
    EXPECT_EQ(gradient_name(gradient_options(config.gradient, config.solver.adjoint)), gradient);
    expect_round_trip(config);
  }
}

TEST(SyntheticConfig, ARefinedShineHasTheAdjointSolver) {
  for (const bool refined : {false, true}) {
    const SyntheticConfig config = parse_synthetic(
        "", {"gradient.name=shine", "gradient.fallback=2.5", "solver.adjoint.max_evals=3",
             std::string("gradient.refined=") + (refined ? "true" : "false")});
    const auto shine = std::get<Shine>(gradient_options(config.gradient, config.solver.adjoint));
    EXPECT_EQ(shine.fallback, 2.5);
    ASSERT_EQ(shine.refinement.has_value(), refined);
    if (refined) {
      EXPECT_EQ(max_evals(*shine.refinement), 3);
    }
    expect_round_trip(config);
  }
}

TEST(SyntheticConfig, OverridesAreTomlOrElseText) {
  EXPECT_EQ(parse_synthetic("seed = 1\n", {"seed=2", " seed = 3 "}).seed, 3);
  EXPECT_EQ(parse_synthetic("", {"train.lr=1"}).train.lr, 1.0);
  EXPECT_EQ(solver_name(parse_synthetic("", {"solver.forward.name=picard"}).solver.forward),
            "picard");
  EXPECT_EQ(solver_name(parse_synthetic("", {"solver.forward.name=\"picard\""}).solver.forward),
            "picard");
  const auto gamma =
      parse_synthetic("", {"jacobian.gamma={schedule=\"linear\",from=1,to=2,begin=0,end=9}"})
          .jacobian.gamma;
  EXPECT_EQ(std::get<LinearSchedule>(gamma.shape).to, 2.0);
  EXPECT_EQ(parse_synthetic("[train]\nepochs = 3\n", {"train={lr=0.5}"}).train.epochs, 50);
  EXPECT_EQ(experiment_in("", "x.toml", {"experiment=synthetic"}), "synthetic");
}

TEST(SyntheticConfig, OverridesReachIntoASchedule) {
  const std::string file = "[jacobian.gamma]\nschedule = \"constant\"\nvalue = 1\n";
  const auto gamma =
      parse_synthetic(file, {"jacobian.gamma.value=3", "jacobian.gamma.stop=5"}).jacobian.gamma;
  EXPECT_EQ(std::get<ConstantSchedule>(gamma.shape).value, 3.0);
  EXPECT_EQ(gamma.stop, 5);
}

TEST(SyntheticConfig, NothingHidesBehindAnOverride) {
  EXPECT_THROW(parse_synthetic("", {"seed=3#4"}), ConfigError);
  EXPECT_THROW(parse_synthetic("", {"seed=3\nx=4"}), ConfigError);
  EXPECT_THROW(parse_synthetic("", {"seed=3, 4"}), ConfigError);
  EXPECT_THROW(parse_synthetic("", {"seed=3]\nx=[4"}), ConfigError);
  EXPECT_THROW(parse_synthetic("", {"seed="}), ConfigError);
}

TEST(SyntheticConfig, RoundTripsExactly) {
  const uint64_t seed = test::seed();
  SCOPED_TRACE(::testing::Message() << "DEQ_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit;
  for (int trial = 0; trial < 100; ++trial) {
    SyntheticConfig config;
    config.seed = static_cast<int64_t>(random() >> 1);
    config.data.noise = std::ldexp(unit(random), static_cast<int>(random() % 2000) - 1000);
    config.train.lr = std::nextafter(unit(random), 2.0);
    config.jacobian.gamma = {
        .shape =
            LinearSchedule{.from = unit(random), .to = 1e300 * unit(random), .begin = 5, .end = 7},
        .stop = 8};
    const SyntheticConfig read = parse_config<SyntheticConfig>(to_toml(config), "effective");
    EXPECT_EQ(read.seed, config.seed);
    EXPECT_EQ(read.data.noise, config.data.noise);
    EXPECT_EQ(read.train.lr, config.train.lr);
    const auto& shape = std::get<LinearSchedule>(read.jacobian.gamma.shape);
    EXPECT_EQ(shape.to, std::get<LinearSchedule>(config.jacobian.gamma.shape).to);
    expect_round_trip(config);
  }
}

TEST(Reference, IsTheDocument) {
  const auto path = kSource / "docs/config.md";
  if (std::getenv("DEQ_WRITE_REFERENCE") != nullptr) {
    write_file_atomically(path, reference_markdown());
  }
  EXPECT_TRUE(read_file(path) == reference_markdown())
      << path << " is out of date; DEQ_WRITE_REFERENCE=1 test_config writes it";
}

}  // namespace
}  // namespace deq::lab
