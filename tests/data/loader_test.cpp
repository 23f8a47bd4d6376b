#include "deq/lab/data/batches/loader.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "core/require.h"
#include "deq/lab/data/batches/tensor_batches.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using std::chrono::microseconds;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

/// Batch (epoch, index) is the two numbers. Counts what is alive, from the moment it is begun.
class Counted : public BatchSource {
 public:
  explicit Counted(int64_t batches) : batches_(batches) {}
  ~Counted() override { EXPECT_EQ(in_work_, 0) << "a thread outlived its loader"; }

  std::function<microseconds(int64_t position)> duration = [](int64_t) { return microseconds(0); };
  std::set<int64_t> failing;

  int64_t batches() const override { return batches_; }
  Batch batch(int64_t epoch, int64_t index) const override {
    ++begun_;
    ++in_work_;
    const auto alive = ++alive_;
    for (auto seen = most_alive_.load(); seen < alive;) {
      if (most_alive_.compare_exchange_weak(seen, alive)) break;
    }
    const auto position = epoch * batches_ + index;
    const auto wait = duration(position);
    if (wait.count() > 0) std::this_thread::sleep_for(wait);
    --in_work_;
    if (failing.contains(position)) {
      --alive_;
      throw Error(fmt::format("batch {} is broken", position));
    }
    auto* numbers = new int64_t[2]{epoch, index};
    const auto release = [this](void* memory) {
      delete[] static_cast<int64_t*>(memory);
      --alive_;
    };
    return {{torch::from_blob(numbers, {1, 2}, release, torch::kInt64)}};
  }

  int64_t begun() const { return begun_; }
  int64_t alive() const { return alive_; }
  int64_t most_alive() const { return most_alive_; }

 private:
  int64_t batches_;
  mutable std::atomic<int64_t> begun_ = 0, in_work_ = 0, alive_ = 0, most_alive_ = 0;
};

int64_t position_of(const Batch& batch, int64_t batches) {
  const auto* numbers = batch.tensors[0].const_data_ptr<int64_t>();
  return numbers[0] * batches + numbers[1];
}

class Loading : public test::SeededWith<LoaderOptions> {
 protected:
  int64_t draw(int64_t limit) { return torch::randint(limit, {1}, generator_).item<int64_t>(); }
};

TEST_P(Loading, GivesTheBatchesOfTheSourceInOrder) {
  const auto data = torch::randn({37, 3}, generator_);
  const auto source = std::make_shared<TensorBatches>(std::vector<torch::Tensor>{data},
                                                      Shard{.batch_size = 5, .seed = test::seed()});
  Loader loader(source, GetParam());
  for (int64_t position = 0; position < 40; ++position) {
    EXPECT_EQ(loader.position(), position);
    EXPECT_TRUE(
        loader.next().tensors[0].equal(source->batch(position / 7, position % 7).tensors[0]))
        << position;
  }
}

TEST_P(Loading, SeeksAnywhere) {
  const auto source = std::make_shared<Counted>(6);
  Loader loader(source, GetParam());
  for (int jump = 0; jump < 30; ++jump) {
    const auto start = draw(100), count = draw(9);
    loader.seek(start);
    for (int64_t position = start; position < start + count; ++position) {
      ASSERT_EQ(position_of(loader.next(), 6), position);
    }
    EXPECT_EQ(loader.position(), start + count);
  }
}

TEST_P(Loading, OrderDoesNotDependOnHowLongABatchTakes) {
  const auto source = std::make_shared<Counted>(4);
  std::vector<int64_t> durations;
  for (int i = 0; i < 60; ++i) durations.push_back(draw(4) == 0 ? draw(3000) : 0);
  source->duration = [&](int64_t position) {
    return microseconds(durations[static_cast<size_t>(position) % durations.size()]);
  };
  Loader loader(source, GetParam());
  for (int64_t position = 0; position < 60; ++position) {
    if (draw(4) == 0) std::this_thread::sleep_for(microseconds(draw(2000)));  // a slow consumer
    ASSERT_EQ(position_of(loader.next(), 4), position);
  }
}

TEST_P(Loading, HoldsNoMoreThanPrefetch) {
  const auto source = std::make_shared<Counted>(5);
  const auto held = GetParam().workers == 0 ? 1 : GetParam().prefetch;
  {
    Loader loader(source, GetParam());
    for (int64_t position = 0; position < 50; ++position) {
      loader.next();  // let go at once
      if (position % 10 == 0) std::this_thread::sleep_for(microseconds(2000));
    }
    EXPECT_LE(source->most_alive(), held + 1);  // and the one that is being let go
    EXPECT_LE(source->begun(), 50 + held);
  }
  EXPECT_EQ(source->alive(), 0);
}

TEST_P(Loading, AnErrorComesInItsTurn) {
  const auto source = std::make_shared<Counted>(10);
  source->failing = {3, 4, 12};
  Loader loader(source, GetParam());
  for (int64_t position = 0; position < 30; ++position) {
    if (!source->failing.contains(position)) {
      ASSERT_EQ(position_of(loader.next(), 10), position);
      continue;
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_THAT([&] { loader.next(); },
                  ThrowsMessage<Error>(StrEq(fmt::format("batch {} is broken", position))));
      EXPECT_EQ(loader.position(), position);
    }
    loader.seek(position + 1);
  }
}

TEST_P(Loading, ABatchThatFailedOnceIsTriedAgain) {
  class Flaky : public Counted {
   public:
    Flaky() : Counted(3) {}
    Batch batch(int64_t epoch, int64_t index) const override {
      require(index != 1 || tries_++ > 0, "not yet");
      return Counted::batch(epoch, index);
    }

   private:
    mutable std::atomic<int> tries_ = 0;
  };
  Loader loader(std::make_shared<Flaky>(), GetParam());
  EXPECT_EQ(position_of(loader.next(), 3), 0);
  EXPECT_THROW(loader.next(), Error);
  for (const int64_t position : {1, 2, 3, 4}) EXPECT_EQ(position_of(loader.next(), 3), position);
}

TEST_P(Loading, OneBatchAnEpochIsEnough) {
  Loader loader(std::make_shared<Counted>(1), GetParam());
  for (int64_t position = 0; position < 20; ++position) {
    EXPECT_EQ(position_of(loader.next(), 1), position);
  }
}

TEST_P(Loading, EndsInMidLoad) {
  // Neither the destructor nor seek begins another batch: as many as are in work end, no more.
  for (int round = 0; round < 10; ++round) {
    const auto source = std::make_shared<Counted>(5);
    source->duration = [](int64_t) { return microseconds(500); };
    {
      Loader loader(source, GetParam());
      for (int64_t i = draw(3); i > 0; --i) loader.next();
      std::this_thread::sleep_for(microseconds(draw(1500)));
      loader.seek(77);
      if (draw(2) == 0) {
        EXPECT_EQ(position_of(loader.next(), 5), 77);
      }
    }
    EXPECT_EQ(source->alive(), 0);
  }
}

TEST_P(Loading, BuildsNoGraphAndStaysInItsThread) {
  class Watching : public Counted {
   public:
    Watching() : Counted(3) {}
    Batch batch(int64_t epoch, int64_t index) const override {
      EXPECT_FALSE(torch::GradMode::is_enabled());
      torch::ones({200000}).add_(1);  // large enough for torch to share it out
      at::parallel_for(0, 100, 1, [&](int64_t, int64_t) {});
      threads = at::get_num_threads();
      return Counted::batch(epoch, index);
    }
    mutable std::atomic<int> threads = 0;
  };
  const auto own_threads = at::get_num_threads();
  at::set_num_threads(3);
  const auto source = std::make_shared<Watching>();
  Loader loader(source, GetParam());
  loader.next();
  EXPECT_EQ(source->threads, GetParam().workers == 0 ? 3 : 1);
  EXPECT_EQ(at::get_num_threads(), 3);
  std::jthread([] { EXPECT_EQ(at::get_num_threads(), 3); });
  at::set_num_threads(own_threads);
}

INSTANTIATE_TEST_SUITE_P(Workers, Loading,
                         ::testing::Values(LoaderOptions{0, 2}, LoaderOptions{1, 1},
                                           LoaderOptions{1, 4}, LoaderOptions{3, 1},
                                           LoaderOptions{3, 2}, LoaderOptions{3, 7},
                                           LoaderOptions{8, 8}, LoaderOptions{8, 3}),
                         [](const auto& c) {
                           return fmt::format("{}Prefetch{}", c.param.workers, c.param.prefetch);
                         });

TEST(LoaderAhead, WorkersLoadWhileTheConsumerIsBusy) {
  const auto source = std::make_shared<Counted>(100);
  Loader loader(source, {.workers = 2, .prefetch = 5});
  EXPECT_EQ(source->begun(), 0) << "nothing is loaded before seek had a chance";
  loader.next();
  // One taken and five ahead; the limit is for a broken loader only.
  for (int i = 0; i < 5000 && source->begun() < 6; ++i) {
    std::this_thread::sleep_for(microseconds(1000));
  }
  EXPECT_EQ(source->begun(), 6);
}

TEST(LoaderOptions, AreValidated) {
  const auto source = std::make_shared<Counted>(1);
  EXPECT_THAT([&] { Loader(source, {.workers = -1}); },
              ThrowsMessage<Error>(StrEq("loader: workers = -1, must be ≥ 0")));
  EXPECT_THAT([&] { Loader(source, {.prefetch = 0}); },
              ThrowsMessage<Error>(StrEq("loader: prefetch = 0, must be ≥ 1")));
  Loader loader(source);
  EXPECT_THAT([&] { loader.seek(-1); },
              ThrowsMessage<Error>(StrEq("loader: position = -1, must be ≥ 0")));
}

}  // namespace
}  // namespace deq::lab
