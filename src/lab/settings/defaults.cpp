#include "deq/lab/settings/language.h"
#include "deq/lab/settings/reasoning.h"
#include "deq/lab/settings/segmentation.h"
#include "deq/lab/settings/synthetic.h"
#include "deq/lab/settings/vision.h"

// What an experiment is where its file says nothing.

namespace deq::lab {

SyntheticConfig::SyntheticConfig() {
  solver = {.forward = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 6},
            .adjoint = Broyden{.tol = {.rtol = 1e-4}, .max_evals = 6}};
  jacobian.gamma = {.shape = ConstantSchedule{.value = 1.0}};
  jacobian.probability = {.shape = ConstantSchedule{.value = 0.4}};
  train.epochs = 50;
  train.batch_size = 64;
  train.lr = 1e-3;
  train.eval_every = 10;
}

VisionConfig::VisionConfig() {
  solver = {.forward = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 8},
            .adjoint = Broyden{.tol = {.rtol = 1e-4}, .max_evals = 8}};
  jacobian.gamma = {.shape = ConstantSchedule{.value = 0.5}};
  jacobian.probability = {.shape = ConstantSchedule{.value = 0.05}};
  train.epochs = 200;
  train.batch_size = 96;
  train.lr = 1e-3;
}

LanguageConfig::LanguageConfig() {
  solver = {.forward = Anderson{.tol = {.rtol = 1e-3}, .max_evals = 12},
            .adjoint = Broyden{.tol = {.rtol = 1e-4}, .max_evals = 12}};
  jacobian.gamma = {.shape = StaircaseSchedule{.start = 1.6, .increment = 0.1, .every = 35'000}};
  jacobian.probability = {.shape = ConstantSchedule{.value = 0.35}};
  train.epochs = 23;
  train.batch_size = 60;
  train.lr = 2.5e-4;
  train.clip_norm = 0.25;
}

SegmentationConfig::SegmentationConfig() {
  model.mdeq = {.channels = {32, 64, 128, 256},
                .dropout = 0.05,
                .post_norm_affine = true,
                .downsample_times = 2,
                .head_channels = {},
                .classes = 19};
  solver = {.forward = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 27},
            .adjoint = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 30}};
  jacobian.gamma = {.shape = ConstantSchedule{.value = 0}};
  train.epochs = 500;
  train.batch_size = 12;
  train.lr = 0.01;
  train.optimiser = Sgd{.momentum = 0.9, .nesterov = false, .weight_decay = 2e-4};
}

ReasoningConfig::ReasoningConfig() {
  // Sixteen segments of three recursions. A puzzle may seem stuck and settle all the same.
  solver = {.forward = Picard{.tol = {.rtol = 1e-3},
                              .max_evals = 48,
                              .guards = {.stagnation_window = 0, .divergence_factor = 1e9}},
            .adjoint = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 8}};
  gradient = UnrolledGradient{{.steps = 3, .backpropagated = 1}};
  train.steps = 50'000;
  train.eval_every_steps = 5'000;
  train.batch_size = 768;
  train.lr = 1e-4;
  train.weight_average = 0.999;
  train.optimiser = AdamW{.beta2 = 0.95, .weight_decay = 1.0};
  train.lr_schedule = {.warmup_steps = 2000, .shape = ConstantRate{}};
}

}  // namespace deq::lab
