// The files that test_formats.py opens with the readers of other projects: written into the folder
// that DEQ_WRITE_SAMPLES names, or into one of their own, and read by our own readers.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/checkpoint_file.h"
#include "io/event_reader.h"
#include "io/temporary_folder.h"
#include "lab/io/event_file.h"

namespace deq::lab {
namespace {

class Samples : public ::testing::Test {
 protected:
  std::filesystem::path folder() const {
    const char* named = std::getenv("DEQ_WRITE_SAMPLES");
    return named == nullptr ? own_.path() : std::filesystem::path(named);
  }

 private:
  const test::TemporaryFolder own_;
};

TEST_F(Samples, Checkpoint) {
  std::string config = "name = \"ρ\"\n";
  config.append(65'536, '#');
  const auto path = folder() / "sample.safetensors";
  write_checkpoint_file(path,
                        {.tensors = {{"weight", torch::arange(6, torch::kFloat32).view({2, 3}) / 4},
                                     {"double", torch::full({1}, 1.0 / 3.0, torch::kFloat64)},
                                     {"half", torch::full({3}, 0.5, torch::kFloat16)},
                                     {"mask", torch::arange(5) % 2 == 0},
                                     {"state", torch::arange(5, torch::kUInt8)},
                                     {"empty", torch::zeros({0, 3})},
                                     {"step", torch::scalar_tensor(-12, torch::kInt64)}},
                         .metadata = {{"config", config}}});
  const auto file = read_checkpoint_file(path);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"config", config}}));
  EXPECT_EQ(file.tensors.size(), 7U);
  EXPECT_EQ(file.tensors.at("step").item<int64_t>(), -12);
}

TEST_F(Samples, Events) {
  const auto events = folder() / "events";
  {
    EventFile file(events);
    file.start_session(0);
    for (int64_t step = 1; step <= 10; ++step) {
      const auto value = static_cast<double>(step);
      file.scalars(step, {{"train/loss", 1 / value}, {"train/rate", value}});
    }
  }
  // As after a crash at step 10 and a checkpoint at step 6.
  {
    EventFile file(events);
    file.start_session(6);
    file.scalars(7, {{"train/loss", 70.0}});
    file.scalars(8, {{"train/loss", 80.0}});
  }
  std::multiset<int64_t> steps;
  for (const auto& entry : std::filesystem::directory_iterator(events)) {
    const auto found = test::parse_event_file(read_file(entry.path()));
    ASSERT_TRUE(found.has_value()) << entry.path();
    for (const auto& event : *found) {
      if (event.scalars.contains("train/loss")) steps.insert(event.step);
    }
  }
  EXPECT_EQ(steps, (std::multiset<int64_t>{1, 2, 3, 4, 5, 6, 7, 7, 8, 8, 9, 10}));
}

}  // namespace
}  // namespace deq::lab
