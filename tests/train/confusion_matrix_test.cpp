#include "lab/tasks/confusion_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deq/core/error.h"
#include "deq/lab/data/images/mask_decode.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

constexpr int64_t kClasses = 5;

/// Counted pixel by pixel, with sets.
struct Oracle {
  double mean_iou = 0, accuracy = 0;

  Oracle(const torch::Tensor& predicted, const torch::Tensor& labels) {
    const auto p = predicted.flatten(), t = labels.flatten();
    double pixels = 0, right = 0, known = 0;
    for (int64_t label = 0; label < kClasses; ++label) {
      double both = 0, either = 0;
      for (int64_t i = 0; i < t.numel(); ++i) {
        const auto truth = t[i].item<int64_t>(), guess = p[i].item<int64_t>();
        if (truth == kIgnoredLabel) continue;
        both += truth == label && guess == label ? 1 : 0;
        either += truth == label || guess == label ? 1 : 0;
        pixels += truth == label ? 1 : 0;
      }
      right += both;
      if (either > 0) mean_iou += both / either;
      known += either > 0 ? 1 : 0;
    }
    mean_iou /= known;
    accuracy = right / pixels;
  }
};

class Confusion : public test::Seeded {
 protected:
  torch::Tensor numbers(int64_t below) {
    return torch::randint(below, {3, 8, 9}, generator_, torch::kInt64);
  }
};

TEST_F(Confusion, AgreesWithCountingPixels) {
  for (const bool ignoring : {false, true}) {
    auto labels = numbers(kClasses);
    if (ignoring) labels.masked_fill_(numbers(3).eq(0), kIgnoredLabel);
    const auto predicted =
        torch::where(numbers(2).eq(0), labels.clamp_max(kClasses - 1), numbers(kClasses));
    ConfusionMatrix matrix(kClasses);
    // In parts, and as bytes, as a task adds them.
    for (int64_t i = 0; i < 3; ++i) matrix.add(predicted[i], labels[i].to(torch::kUInt8));
    const Oracle oracle(predicted, labels);
    EXPECT_NEAR(matrix.mean_iou(), oracle.mean_iou, 1e-12);
    EXPECT_NEAR(matrix.pixel_accuracy(), oracle.accuracy, 1e-12);
    EXPECT_EQ(matrix.pixels(), labels.ne(kIgnoredLabel).sum().item<double>());
    EXPECT_EQ(matrix.count(1, 3), (labels.eq(1) & predicted.eq(3)).sum().item<double>());
  }
}

TEST_F(Confusion, AClassThatIsNowhereHasNoIou) {
  // Class 1 is there and never found, 2 found and never there, 3 neither.
  const auto labels = torch::tensor({0, 0, 1, 1, 4, 255});
  const auto predicted = torch::tensor({0, 2, 0, 0, 4, 3});
  ConfusionMatrix matrix(kClasses);
  matrix.add(predicted, labels);
  EXPECT_DOUBLE_EQ(matrix.iou(0).value(), 1.0 / 4);
  EXPECT_DOUBLE_EQ(matrix.iou(1).value(), 0);
  EXPECT_DOUBLE_EQ(matrix.iou(2).value(), 0);
  EXPECT_FALSE(matrix.iou(3).has_value());
  EXPECT_DOUBLE_EQ(matrix.iou(4).value(), 1);
  EXPECT_DOUBLE_EQ(matrix.mean_iou(), 1.25 / 4);
  EXPECT_DOUBLE_EQ(matrix.mean_iou(), Oracle(predicted, labels).mean_iou);
  EXPECT_DOUBLE_EQ(matrix.pixel_accuracy(), 2.0 / 5);
}

TEST_F(Confusion, CountsAddUpToThoseOfTheWhole) {
  const auto labels = numbers(kClasses), predicted = numbers(kClasses);
  ConfusionMatrix whole(kClasses), one(kClasses), other(kClasses);
  whole.add(predicted, labels);
  one.add(predicted[0], labels[0]);
  other.add(predicted.narrow(0, 1, 2), labels.narrow(0, 1, 2));
  for (size_t i = 0; i < one.counts().size(); ++i) one.counts()[i] += other.counts()[i];
  EXPECT_EQ(one.mean_iou(), whole.mean_iou());
  EXPECT_EQ(one.pixel_accuracy(), whole.pixel_accuracy());
}

TEST_F(Confusion, NothingCountedIsNoNumber) {
  ConfusionMatrix matrix(kClasses);
  matrix.add(torch::zeros({4}, torch::kInt64), torch::full({4}, kIgnoredLabel));
  EXPECT_TRUE(std::isnan(matrix.mean_iou()));
  EXPECT_TRUE(std::isnan(matrix.pixel_accuracy()));
}

TEST_F(Confusion, MisuseIsNamed) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  ConfusionMatrix matrix(3);
  EXPECT_THAT(
      [&] {
        matrix.add(torch::tensor({0, 1}), torch::tensor({0}));
      },
      ThrowsMessage<Error>(HasSubstr("predictions of shape [2], must be [1]")));
  EXPECT_THAT([&] { matrix.add(torch::tensor({0}), torch::tensor({3})); },
              ThrowsMessage<Error>(HasSubstr("a class 3, must be in [0, 3)")));
  EXPECT_THAT([] { ConfusionMatrix(0); }, ThrowsMessage<Error>(HasSubstr("classes = 0")));
}

}  // namespace
}  // namespace deq::lab
