// Writes the files that test_formats.py opens with the readers of other projects.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "deq/io/checkpoint_file.h"
#include "deq/io/event_file.h"

namespace deq {
namespace {

class Samples : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("DEQ_WRITE_SAMPLES");
    if (folder == nullptr) GTEST_SKIP() << "DEQ_WRITE_SAMPLES names no folder";
    folder_ = folder;
  }

  std::filesystem::path folder_;
};

TEST_F(Samples, Checkpoint) {
  std::string config = "name = \"ρ\"\n";
  config.append(65'536, '#');
  write_checkpoint_file(folder_ / "sample.safetensors",
                        {.tensors = {{"weight", torch::arange(6, torch::kFloat32).view({2, 3}) / 4},
                                     {"double", torch::full({1}, 1.0 / 3.0, torch::kFloat64)},
                                     {"half", torch::full({3}, 0.5, torch::kFloat16)},
                                     {"mask", torch::arange(5) % 2 == 0},
                                     {"state", torch::arange(5, torch::kUInt8)},
                                     {"empty", torch::zeros({0, 3})},
                                     {"step", torch::scalar_tensor(-12, torch::kInt64)}},
                         .metadata = {{"config", config}}});
}

TEST_F(Samples, Events) {
  {
    EventFile file(folder_ / "events");
    file.start_session(0);
    for (int64_t step = 1; step <= 10; ++step) {
      const auto value = static_cast<double>(step);
      file.scalars(step, {{"train/loss", 1 / value}, {"train/rate", value}});
    }
  }
  // As after a crash at step 10 and a checkpoint at step 6.
  EventFile file(folder_ / "events");
  file.start_session(6);
  file.scalars(7, {{"train/loss", 70.0}});
  file.scalars(8, {{"train/loss", 80.0}});
}

}  // namespace
}  // namespace deq
