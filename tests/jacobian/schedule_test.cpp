#include "deq/jacobian/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"

namespace deq {
namespace {

TEST(ScheduleTest, DefaultIsZero) {
  EXPECT_EQ(Schedule{}.at(17), 0.0);
}

TEST(ScheduleTest, Constant) {
  const Schedule schedule{ConstantSchedule{0.5}};
  for (const int64_t step : {0, 1, 1000000}) EXPECT_EQ(schedule.at(step), 0.5);
}

TEST(ScheduleTest, LinearBetweenItsEnds) {
  const Schedule schedule{LinearSchedule{.from = 1.0, .to = 3.0, .begin = 10, .end = 20}};
  EXPECT_EQ(schedule.at(0), 1.0);
  EXPECT_EQ(schedule.at(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(11), 1.2);
  EXPECT_DOUBLE_EQ(schedule.at(15), 2.0);
  EXPECT_DOUBLE_EQ(schedule.at(19), 2.8);
  EXPECT_EQ(schedule.at(20), 3.0);
  EXPECT_EQ(schedule.at(1000), 3.0);
}

TEST(ScheduleTest, LinearMayFall) {
  const Schedule schedule{LinearSchedule{.from = 2.0, .to = 0.0, .begin = 0, .end = 4}};
  EXPECT_DOUBLE_EQ(schedule.at(1), 1.5);
  EXPECT_EQ(schedule.at(4), 0.0);
}

TEST(ScheduleTest, LinearOfNoLengthIsAStep) {
  const Schedule schedule{LinearSchedule{.from = 1.0, .to = 3.0, .begin = 5, .end = 5}};
  EXPECT_EQ(schedule.at(4), 1.0);
  EXPECT_EQ(schedule.at(5), 3.0);
}

TEST(ScheduleTest, StaircaseRisesEveryFewSteps) {
  const Schedule schedule{StaircaseSchedule{.start = 1.9, .increment = 0.1, .every = 100}};
  EXPECT_EQ(schedule.at(0), 1.9);
  EXPECT_EQ(schedule.at(99), 1.9);
  EXPECT_DOUBLE_EQ(schedule.at(100), 2.0);
  EXPECT_DOUBLE_EQ(schedule.at(250), 2.1);
}

TEST(ScheduleTest, StopEndsEveryShape) {
  for (const auto& shape :
       {Schedule{ConstantSchedule{2.0}, 7},
        Schedule{LinearSchedule{.from = 2.0, .to = 2.0, .begin = 0, .end = 9}, 7},
        Schedule{StaircaseSchedule{.start = 2.0, .every = 3}, 7}}) {
    EXPECT_EQ(shape.at(6), 2.0);
    EXPECT_EQ(shape.at(7), 0.0);
    EXPECT_EQ(shape.at(100), 0.0);
  }
  EXPECT_EQ((Schedule{ConstantSchedule{2.0}, 0}.at(0)), 0.0);
}

TEST(ScheduleTest, ValidationNamesTheFields) {
  const auto expect = [](const Schedule& schedule, const char* message) {
    EXPECT_THAT([&] { validate(schedule); },
                ::testing::ThrowsMessage<Error>(::testing::StrEq(message)));
  };
  expect({LinearSchedule{.begin = 5, .end = 4}},
         "linear schedule: begin = 5, end = 4, must be 0 ≤ begin ≤ end");
  expect({LinearSchedule{.begin = -1, .end = 4}},
         "linear schedule: begin = -1, end = 4, must be 0 ≤ begin ≤ end");
  expect({StaircaseSchedule{.every = 0}}, "staircase schedule: every = 0, must be ≥ 1");
  expect({ConstantSchedule{}, -1}, "schedule: stop = -1, must be ≥ 0");
  EXPECT_NO_THROW(validate(Schedule{LinearSchedule{.begin = 3, .end = 3}, 0}));
}

}  // namespace
}  // namespace deq
