#include "deq/lab/data/images/augmented_tensor_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/batches/loader.h"
#include "lab/base/random_streams.h"
#include "lab/data/images/augment_batch.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

constexpr int64_t kSamples = 50;

/// Labels are the indices in the set, so that a batch says which samples it holds.
class Augmented : public test::Seeded {
 protected:
  ImageTensors set_{torch::randint(0, 256, {kSamples, 3, 32, 32}, generator_, torch::kUInt8),
                    torch::arange(kSamples),
                    {}};
  Shard shard_{.batch_size = 8, .seed = test::seed()};
};

TEST_F(Augmented, ASampleIsTheTransformedImage) {
  for (const auto& transform : {cifar_training(), cifar_evaluation()}) {
    const AugmentedTensorBatches source(set_, transform, shard_);
    ASSERT_EQ(source.batches(), 6);
    for (const int64_t epoch : {0, 3}) {
      const auto batch = source.batch(epoch, 2);
      ASSERT_EQ(batch.tensors[0].sizes(), (std::vector<int64_t>{8, 3, 32, 32}));
      EXPECT_EQ(batch.tensors[0].scalar_type(), torch::kFloat32);
      for (int64_t i = 0; i < 8; ++i) {
        const auto sample = batch.tensors[1][i].item<int64_t>();
        const auto key = deq::random_key(shard_.seed, epoch_stream(EpochStream::Samples, epoch),
                                         static_cast<uint64_t>(sample));
        EXPECT_TRUE(
            batch.tensors[0][i].equal(transform_image(set_.images[sample], transform, key)));
      }
    }
  }
}

TEST_F(Augmented, TheGatherGivesTheSameBits) {
  const ImageTransform small{.size = 20, .crop = PaddedCrop{.padding = 3}};
  const ImageTransform large{.size = 37, .crop = PaddedCrop{.padding = 9, .margin = Margin::Mean}};
  auto erased = cifar_training();
  erased.erased = 16;
  for (const auto& transform : {cifar_training(), cifar_evaluation(), small, large, erased}) {
    const Normalisation normalisation(transform);
    std::vector<int64_t> chosen;
    std::vector<Window> windows;
    for (int64_t i = 0; i < 40; ++i) {
      chosen.push_back((i * 7) % kSamples);
      windows.push_back(draw_window(transform, {32, 32}, deq::random_key(test::seed(), 3, i)));
    }
    EXPECT_TRUE(gather_batch(set_.images, chosen.data(), windows, normalisation.table())
                    .equal(cut_batch(set_.images, chosen.data(), windows, normalisation)));
  }
}

TEST_F(Augmented, AGpuGivesTheSameBits) {
  if (!cuda_status().available) GTEST_SKIP() << cuda_status().reason;
  const ImageTensors there{set_.images.to(torch::kCUDA), set_.labels.to(torch::kCUDA), {}};
  auto transform = cifar_training();
  transform.erased = 9;
  const AugmentedTensorBatches here(set_, transform, shard_);
  const AugmentedTensorBatches on_gpu(there, transform, shard_);
  for (int64_t i = 0; i < here.batches(); ++i) {
    const auto expected = here.batch(1, i), batch = on_gpu.batch(1, i);
    EXPECT_TRUE(batch.tensors[0].is_cuda());
    EXPECT_TRUE(batch.tensors[0].cpu().equal(expected.tensors[0])) << i;
    EXPECT_TRUE(batch.tensors[1].cpu().equal(expected.tensors[1])) << i;
  }
}

TEST_F(Augmented, DependsOnSeedEpochAndSampleOnly) {
  const auto collect = [&](const Shard& shard, int64_t epoch) {
    auto images = torch::zeros({kSamples, 3, 32, 32});
    const AugmentedTensorBatches source(set_, cifar_training(), shard);
    for (int64_t i = 0; i < source.batches(); ++i) {
      const auto batch = source.batch(epoch, i);
      images.index_put_({batch.tensors[1]}, batch.tensors[0]);
    }
    return images;
  };
  const auto images = collect({.batch_size = 5, .seed = 1}, 2);
  EXPECT_TRUE(collect({.batch_size = 10, .parts = 5, .seed = 1}, 2).equal(images));
  EXPECT_TRUE(collect({.batch_size = 50, .seed = 1, .shuffle = false}, 2).equal(images));
  EXPECT_FALSE(collect({.batch_size = 5, .seed = 1}, 3).equal(images));
  EXPECT_FALSE(collect({.batch_size = 5, .seed = 2}, 2).equal(images));
}

TEST_F(Augmented, RanksAndPartsMakeTheBatchOfOneProcess) {
  const AugmentedTensorBatches whole(set_, cifar_training(), {.batch_size = 12, .seed = 4});
  for (int64_t step = 0; step < whole.batches(); ++step) {
    std::vector<torch::Tensor> slices;
    for (int64_t part = 0; part < 2; ++part) {
      for (int64_t rank = 0; rank < 3; ++rank) {
        const AugmentedTensorBatches source(
            set_, cifar_training(),
            {.batch_size = 12, .rank = rank, .ranks = 3, .parts = 2, .seed = 4});
        slices.push_back(source.batch(1, step * 2 + part).tensors[0]);
      }
    }
    EXPECT_TRUE(torch::cat(slices).equal(whole.batch(1, step).tensors[0])) << step;
  }
}

TEST_F(Augmented, WorkersDoNotMatter) {
  const auto source = std::make_shared<AugmentedTensorBatches>(set_, cifar_training(), shard_);
  Loader alone(source), several(source, {.workers = 3, .prefetch = 5});
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(alone.next().tensors[0].equal(several.next().tensors[0])) << i;
  }
}

TEST_F(Augmented, MisuseIsNamed) {
  const auto complaint = [&](const ImageTensors& set, const ImageTransform& transform) {
    try {
      AugmentedTensorBatches(set, transform, shard_);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto resizing = cifar_evaluation();
  resizing.crop = CentreCrop{.shorter_side = 40};
  for (const auto& transform : {imagenet_training(), resizing}) {
    EXPECT_EQ(complaint(set_, transform),
              "transform: the crop resizes, must be one that does not for images in memory");
  }
  const ImageTransform large{.size = 50};
  EXPECT_EQ(complaint(set_, large),
            "the image is 40 × 40 with its padding, must be at least 50 × 50");
  EXPECT_EQ(complaint({set_.images.to(torch::kFloat32), set_.labels, {}}, {}),
            "images: they are Float[50, 3, 32, 32], must be Byte[samples, 3, height, width]");
  EXPECT_EQ(complaint({set_.images, torch::zeros({50}), {}}, {}),
            "labels: they are Float[50], must be Long[50]");
  EXPECT_EQ(complaint({set_.images, torch::arange(49), {}}, {}),
            "labels: they are Long[49], must be Long[50]");
  EXPECT_THROW(AugmentedTensorBatches(set_, {}, {.batch_size = 51}), UsageError);
}

}  // namespace
}  // namespace deq::lab
