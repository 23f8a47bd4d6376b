#include "lab/train/weight_average.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "deq/lab/io/checkpoint_file.h"
#include "deq/lab/runs/checkpoints.h"
#include "io/temporary_folder.h"
#include "lab/train/persistence.h"
#include "support/seed.h"
#include "train/training_run.h"

namespace deq::lab {
namespace {

constexpr double kDecay = 0.6;

class WeightAverageTest : public test::Seeded {};

// Parameters and the statistics of batch norms alike; how many batches these have seen is no mean.
TEST_F(WeightAverageTest, KeepsMeansOfParametersAndStatistics) {
  torch::nn::BatchNorm1d norm(3);
  WeightAverage average(*norm, kDecay);
  ASSERT_EQ(average.means().size(), 4);  // weight, bias, running_mean, running_var
  auto weight = norm->weight.detach().clone(), statistic = norm->running_mean.clone();
  for (int64_t step = 1; step <= 4; ++step) {
    norm->forward(torch::randn({8, 3}, generator_));
    {
      const torch::NoGradGuard no_grad;
      norm->weight.add_(torch::randn({3}, generator_));
    }
    average.update(step);
    const auto steps = static_cast<double>(step);
    const double kept = std::min(kDecay, (1 + steps) / (10 + steps));
    weight = kept * weight + (1 - kept) * norm->weight.detach();
    statistic = kept * statistic + (1 - kept) * norm->running_mean;
  }
  const auto trained = norm->weight.detach().clone(), measured = norm->running_mean.clone();
  {
    const WeightAverage::InPlace averaged(average);
    EXPECT_TRUE(torch::allclose(norm->weight, weight, 1e-5, 1e-7));
    EXPECT_TRUE(torch::allclose(norm->running_mean, statistic, 1e-5, 1e-7));
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 4);
  }
  EXPECT_TRUE(norm->weight.equal(trained));
  EXPECT_TRUE(norm->running_mean.equal(measured));
  EXPECT_FALSE(torch::allclose(measured, statistic, 1e-3, 1e-3));
}

/// A training with a buffer that its passes would change.
struct Training {
  explicit Training(const std::filesystem::path& folder)
      : task(test::short_config()),
        statistic(task.model().register_buffer("statistic", torch::zeros({2}))),
        optimiser({}, trainable(task.model())),
        average(task.model(), kDecay),
        files(folder, 2),
        persistence(task, optimiser, average, World::alone(), World::alone(), files, "") {}

  SyntheticTask task;
  torch::Tensor statistic;
  Optimiser optimiser;
  WeightAverage average;
  Checkpoints files;
  Persistence persistence;
};

TEST_F(WeightAverageTest, ACheckpointHoldsBothAndOneWithoutGoesOn) {
  const test::TemporaryFolder folder;
  Training first(folder.path());
  first.statistic.fill_(3);
  first.average.update(1);
  first.persistence.save({.step = 1});
  const auto load = [&] {
    Training again(folder.path());
    again.persistence.load_newest({}, [](const std::string& why) { FAIL() << why; });
    return std::pair(again.statistic.clone(), again.average.means().at("statistic").clone());
  };
  const auto mean = first.average.means().at("statistic");
  EXPECT_FALSE(mean.equal(first.statistic));
  const auto [trained, averaged] = load();
  EXPECT_TRUE(trained.equal(first.statistic));
  EXPECT_TRUE(averaged.equal(mean));

  // As versions wrote it that kept no means of buffers: the trained one under its own name.
  auto file = read_checkpoint_file(first.files.file_of(1));
  file.tensors.at("statistic") = file.tensors.at("trained/statistic");
  file.tensors.erase("trained/statistic");
  first.files.save(1, file);
  const auto [of_old, averaged_of_old] = load();
  EXPECT_TRUE(of_old.equal(first.statistic));
  EXPECT_TRUE(averaged_of_old.equal(first.statistic));
}

}  // namespace
}  // namespace deq::lab
