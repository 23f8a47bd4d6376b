#pragma once

#include <string_view>

#include "deq/lab/settings/recipe.h"
#include "lab/config/description.h"

namespace deq::lab::config {

/// Of counts that are multiplied: with the steps of any epoch the product is still a number.
inline constexpr double kManyEpochs = 1e9;

inline constexpr Choice<CosineRate::Origin> kCosineOrigins[] = {
    {"warmup", CosineRate::Origin::Warmup}, {"start", CosineRate::Origin::Start}};
inline constexpr Choice<OnUnreadable> kOnUnreadable[] = {{"fail", OnUnreadable::Fail},
                                                         {"skip", OnUnreadable::Skip}};

template <>
struct Alternatives<OptimiserOptions> {
  static std::string_view name(const OptimiserOptions& options) { return lab::name(options); }
  static void carry_over(const OptimiserOptions&, OptimiserOptions&) {}
};

using RateShape = decltype(LearningRateSchedule::shape);

template <>
struct Alternatives<RateShape> {
  static std::string_view name(const RateShape& shape) {
    constexpr std::string_view kNames[] = {"cosine", "constant", "step"};
    static_assert(std::size(kNames) == std::variant_size_v<RateShape>);
    return kNames[shape.index()];
  }
  static void carry_over(const RateShape&, RateShape&) {}
};

template <class Visitor, class AnyAdam>
void describe_adam(Visitor& v, AnyAdam& adam) {
  v.number("beta1", adam.beta1, from_to_below(0, 1), "The decay of the mean gradient.");
  v.number("beta2", adam.beta2, from_to_below(0, 1), "The decay of the mean squared gradient.");
  v.number("eps", adam.eps, above(0), "Added to the root of the mean squared gradient.");
}

template <class Visitor>
void describe_own(Visitor& v, Adam& adam) {
  describe_adam(v, adam);
  v.number("weight_decay", adam.weight_decay, at_least(0), "Times the weights, into the gradient.");
}

template <class Visitor>
void describe_own(Visitor& v, AdamW& adam) {
  describe_adam(v, adam);
  v.number("weight_decay", adam.weight_decay, at_least(0),
           "Times the learning rate, off the weights.");
}

template <class Visitor>
void describe_own(Visitor& v, Sgd& sgd) {
  v.number("momentum", sgd.momentum, from_to_below(0, 1), "The weight of earlier gradients.");
  v.flag("nesterov", sgd.nesterov, "Whether the momentum looks one step ahead.");
  v.number("weight_decay", sgd.weight_decay, at_least(0), "Times the weights, into the gradient.");
}

template <class Visitor>
void describe(Visitor& v, OptimiserOptions& options) {
  v.select("name", options, "The method.");
  v.alternatives("name", options,
                 [](auto& inner, auto& optimiser) { describe_own(inner, optimiser); });
}

template <class Visitor>
void describe_own(Visitor& v, CosineRate& shape) {
  v.number("final_lr", shape.final_lr, at_least(0), "The rate at the end.");
  v.choice("origin", shape.origin, kCosineOrigins,
           "Whether the cosine is counted from the end of the warm-up or, as in the paper's code, "
           "from the start.");
}

template <class Visitor>
void describe_own(Visitor&, ConstantRate&) {}

template <class Visitor>
void describe_own(Visitor& v, StepRate& shape) {
  v.number("every", shape.every, at_least(1), "Steps from one fall of the rate to the next.");
  v.number("factor", shape.factor, above_up_to(0, 1), "What each fall multiplies the rate by.");
}

template <class Visitor>
void describe(Visitor& v, LearningRateSchedule& schedule) {
  v.select("name", schedule.shape, "How the rate goes on after the warm-up.");
  v.number("warmup_steps", schedule.warmup_steps, at_least(0),
           "Steps in which the rate rises linearly to train.lr.");
  v.alternatives("name", schedule.shape,
                 [](auto& inner, auto& shape) { describe_own(inner, shape); });
}

inline constexpr Choice<VariedSteps> kVariedSteps[] = {{"all", VariedSteps::All},
                                                       {"penalised", VariedSteps::Penalised}};

template <class Visitor>
void describe(Visitor& v, SwitchConfig& config) {
  v.number("extra_evals", config.extra_evals, between(0, 1e9),
           "Evaluations that forward and adjoint budgets have more in the first step after the "
           "unrolled ones.");
  v.number("steps", config.steps, at_least(0), "Steps in which this falls to 0, linearly.");
  v.flag("blended", config.blended,
         "Whether these steps are drawn to be unrolled as well, as those of [train.pretrain], with "
         "a probability that falls from 1 to 0.");
}

template <class Visitor>
void describe(Visitor& v, PretrainConfig& config) {
  v.number("steps", config.steps, at_least(0), "Steps at the start that unroll f.");
  v.number("layers", config.layers, at_least(1), "How often f is applied in them.");
  v.number("gamma", config.gamma, at_least(0), "The weight of the penalty in them.");
}

template <class Visitor>
void describe(Visitor& v, LoaderConfig& config) {
  v.number("workers", config.threads.workers, between(0, 1024),
           "Threads that load ahead; 0 loads in between steps.");
  v.number("prefetch", config.threads.prefetch, between(1, 65'536),
           "Batches held ready at most, those in work included.");
  v.choice("unreadable", config.unreadable, kOnUnreadable,
           "Whether a sample that cannot be read ends the run or is left out and counted.");
}

template <class Visitor>
void describe(Visitor& v, CheckpointConfig& config) {
  v.optional_number("every_steps", config.every_steps, at_least(1),
                    "Steps from one checkpoint to the next.");
  v.number("every_minutes", config.every_minutes, above(0),
           "The longest time between two checkpoints.");
  v.number("keep", config.keep, at_least(1),
           "How many of the last ones are kept; the best always is.");
}

template <class Visitor>
void describe(Visitor& v, FailureConfig& config) {
  v.number("skipped_in_a_row", config.skipped_in_a_row, at_least(1),
           "After this many steps without a finite loss and gradient the run goes back to its last "
           "checkpoint.");
  v.number("rollbacks", config.rollbacks, at_least(0), "How often it may go back before it stops.");
  v.number("lr_factor", config.lr_factor, above_up_to(0, 1),
           "What going back multiplies the learning rate by.");
}

template <class Visitor>
void describe(Visitor& v, TrainConfig& config) {
  v.number("epochs", config.epochs, between(1, kManyEpochs), "Passes over the training set.");
  v.optional_number("steps", config.steps, at_least(1), "Steps in all, instead of epochs.");
  v.number("batch_size", config.batch_size, at_least(1),
           "Samples per step, over all processes and parts.");
  v.number("accumulation", config.accumulation, at_least(1),
           "Parts in which a step's batch is computed, to save memory.");
  v.number("lr", config.lr, above(0), "The learning rate at its highest.");
  v.optional_number("clip_norm", config.clip_norm, above(0),
                    "Gradients are scaled down to this norm where theirs is larger.");
  v.number(
      "weight_average", config.weight_average, from_to_below(0, 1),
      "The decay of a running mean of the weights, with which the model is validated and saved; "
      "0 keeps none.");
  v.number("start_noise", config.start_noise, between(0, 1e9),
           "How strong the normal noise is that is added, in training, to where a solve begins; "
           "0 begins at the model's own start.");
  v.number("start_penalty", config.start_penalty, between(0, 1e9),
           "The weight of the distance from a predicted start to the equilibrium, relative and "
           "squared (model.predicted_start).");
  v.number("step_penalty", config.step_penalty, between(0, 1e9),
           "The weight of the same distance after one step of f.");
  v.number("step_evals", config.step_evals, between(0, 1e9),
           "Evaluations of the solver before that step at most: each training step draws how many, "
           "from 0 on; from 0 it is a step from the start. Less than solver.forward.max_evals.");
  v.span(
      "random_evals", config.random_evals, between(-1e9, 1e9),
      "By how many evaluations, drawn from here, the forward budget of a training step differs.");
  v.choice("random_evals_on", config.random_evals_on, kVariedSteps,
           "Whose budgets differ: those of all steps, or of the steps that apply the penalty.");
  v.number("eval_every", config.eval_every, between(1, kManyEpochs),
           "Epochs from one validation to the next.");
  v.optional_number("eval_every_steps", config.eval_every_steps, at_least(1),
                    "Steps from one validation to the next, instead of epochs.");
  v.whole_numbers("eval_budgets", config.eval_budgets, at_least(1),
                  "More forward budgets that each validation tries.");
  v.number("log_every", config.log_every, at_least(1),
           "Steps from one line of training metrics to the next, which averages over them.");
  v.table("optimiser", config.optimiser, "What steps the parameters.");
  v.table("lr_schedule", config.lr_schedule, "How the learning rate changes.");
  v.table("pretrain", config.pretrain, "An unrolled start.");
  v.table("switch", config.switching, "From the unrolled start to equilibria.");
  v.table("loader", config.loader, "How batches are loaded.");
  v.table("checkpoints", config.checkpoints, "When the run is saved.");
  v.table("failure", config.failure, "What happens when numbers are no longer finite.");
}

}  // namespace deq::lab::config
