#pragma once

#include "config/description.h"
#include "deq/config/parts.h"

namespace deq::config {

inline constexpr Choice<LearningRateSchedule> kLearningRateSchedules[] = {
    {"cosine", LearningRateSchedule::Cosine}, {"constant", LearningRateSchedule::Constant}};

template <class Visitor>
void describe(Visitor& v, TrainConfig& config) {
  v.number("epochs", config.epochs, at_least(1), "Passes over the training set.");
  v.number("batch_size", config.batch_size, at_least(1), "Samples a step.");
  v.number("lr", config.lr, above(0), "The learning rate at its highest.");
  v.choice("lr_schedule", config.lr_schedule, kLearningRateSchedules,
           "Whether the learning rate falls to 0 as a half cosine or stays.");
  v.number("eval_every", config.eval_every, at_least(1), "Epochs from one validation to the next.");
}

}  // namespace deq::config
