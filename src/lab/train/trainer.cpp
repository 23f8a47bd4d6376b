#include "deq/lab/train/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "core/require.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/train/optimiser.h"
#include "lab/train/gamma_controller.h"
#include "lab/train/give_up.h"
#include "lab/train/memory.h"
#include "lab/train/model_parts.h"
#include "lab/train/persistence.h"
#include "lab/train/run_gaps.h"
#include "lab/train/step_figures.h"
#include "lab/train/step_passes.h"
#include "lab/train/step_plan.h"
#include "lab/train/training_log.h"
#include "lab/train/training_state.h"
#include "lab/train/validation.h"
#include "lab/train/weight_average.h"

namespace deq::lab {
namespace {

using TrainingClock = std::chrono::steady_clock;

double seconds_since(TrainingClock::time_point start) {
  return std::chrono::duration<double>(TrainingClock::now() - start).count();
}

}  // namespace

class Trainer::Loop {
 public:
  Loop(Task& task, const Recipe& recipe, const std::string& config,
       const std::filesystem::path& run, std::shared_ptr<World> world, TrainerHooks hooks,
       std::shared_ptr<World> copies)
      : task_(task),
        recipe_(recipe),
        run_(run),
        world_(std::move(world)),
        copies_(copies ? std::move(copies) : world_),
        hooks_(std::move(hooks)),
        optimiser_(recipe.train.optimiser, trainable(task.model())),
        average_(task.model(), recipe.train.weight_average),
        device_(optimiser_.parameters().front().device()),
        passes_(task, recipe_, copies_, optimiser_),
        validation_(task, recipe_, world_, copies_, device_),
        controller_(recipe.jacobian.control, recipe.jacobian.gamma.at(0)),
        persistence_(task, optimiser_, average_, world_, copies_,
                     Checkpoints(checkpoint_folder(run), recipe.train.checkpoints.keep), config),
        steps_per_epoch_(passes_.steps_per_epoch()),
        steps_(recipe.train.steps.value_or(recipe.train.epochs * steps_per_epoch_)),
        log_(run, world_, device_,
             {.batch_size = recipe.train.batch_size, .steps_per_epoch = steps_per_epoch_},
             hooks_.on_metrics) {
    world_->require_same("the configuration", config);
    state_.gamma = controller_.gamma();
    state_ = persistence_.share(state_);
  }

  void resume() {
    const auto lines = world_->is_main() ? metrics_lines(run_) : std::vector<Metrics>{};
    if (world_->is_main()) require_checkpoints(run_, lines);
    load_state();
    if (world_->is_main()) {
      for (const auto& gap : {lost_lines(run_, lines, state_),
                              lost_checkpoints(run_, lines, state_, recipe_.train)}) {
        if (!gap.empty()) warn(gap);
      }
    }
    const bool finished = state_.step == steps_;
    lacks_last_evaluation_ =
        finished && validation_.of_main(is_evaluated(lines, steps_) ? 1 : 0) == 0;
    log_.open();
    go_on_from_state();
  }

  int64_t step() const { return state_.step; }
  int64_t steps() const { return steps_; }

  TrainingEnd run() {
    auto end = TrainingEnd::Finished;
    world_->run([&] { end = train(); });
    return end;
  }

 private:
  TrainingEnd train() {
    log_.open();
    task_.model().train();
    reset_peak_memory(
        device_);  // that of a run which this process trained before is not this one's
    last_saved_ = TrainingClock::now();
    log_.start(state_);
    for (const auto& warning : task_.warnings()) warn(warning);
    if (lacks_last_evaluation_ && !state_.unevaluated) {
      warn(
          fmt::format("the evaluation of step {}, the last, is missing: it is made again", steps_));
      state_.unevaluated = true;
    }
    if (state_.unevaluated) {
      evaluate_and_save(/*must_save=*/true);
      if (state_.unevaluated) return TrainingEnd::Interrupted;
    }
    bool told = false;
    // Something to go back to, from the first step on.
    if (state_.step == 0) save();
    while (state_.step < steps_) {
      const auto figures = take_step();
      if (!std::exchange(told, true)) warn_of_the_plan();
      if (state_.skipped_in_a_row >= recipe_.train.failure.skipped_in_a_row) {
        go_back();
        continue;
      }
      forget_pretraining();
      control(figures);
      const bool asked = figures[StepFigures::kInterrupted] > 0;
      state_.unevaluated = evaluation_due();
      evaluate_and_save(/*must_save=*/asked);
      if (state_.step % recipe_.train.log_every == 0) log_steps();
      if (state_.unevaluated || (asked && state_.step < steps_)) return TrainingEnd::Interrupted;
    }
    return TrainingEnd::Finished;
  }

  // ---- one step ---------------------------------------------------------------------------------

  StepFigures take_step() {
    plan_ = plan_step(recipe_, controller_, state_.step, steps_, steps_per_epoch_);
    auto figures = passes_.run(state_.step, plan_);
    figures[StepFigures::kInterrupted] =
        hooks_.interrupted && hooks_.interrupted() != 0 ? 1.0 : 0.0;
    figures.reduce(*world_, device_);
    gradient_norm_ = norm_of_gradients();
    const bool finite = std::isfinite(figures[StepFigures::kLoss]) && std::isfinite(gradient_norm_);
    if (finite) {
      const auto clip = recipe_.train.clip_norm;
      if (clip && gradient_norm_ > *clip) {
        scale_gradients(optimiser_.parameters(), *clip / gradient_norm_);
      }
      optimiser_.step(plan_.lr * state_.lr_scale);
      average_.update(state_.step + 1);
      log_.add(figures);
    }
    state_.skipped_in_a_row = finite ? 0 : state_.skipped_in_a_row + 1;
    state_.skipped += finite ? 0 : 1;
    ++state_.step;
    show({.step = state_.step,
          .steps = steps_,
          .phase = plan_.pretraining ? TrainingPhase::Pretraining : TrainingPhase::Training,
          .loss = figures[StepFigures::kLoss],
          .nfe_forward = figures[StepFigures::kForward],
          .residual = figures[StepFigures::kResidual]});
    return figures;
  }

  double norm_of_gradients() {
    const auto* parts = task_.in_parts();
    return parts == nullptr ? gradient_norm(optimiser_.parameters())
                            : parts->gradient_norm(trainable(task_.model()));
  }

  // ---- what happens between steps ---------------------------------------------------------------

  void control(const StepFigures& figures) {
    const auto& control = recipe_.jacobian.control;
    if (!controller_.active() || plan_.pretraining) return;
    const double figure =
        figures[control.hold == Held::Residual ? StepFigures::kResidual : StepFigures::kPerSample];
    if (std::isfinite(figure)) {
      state_.held_sum += figure;
      ++state_.held_steps;
    }
    if (state_.step % control.every != 0) return;
    const double measured = control.hold == Held::SpectralRadius
                                ? validation_.spectral_radius()
                                : state_.held_sum / static_cast<double>(state_.held_steps);
    controller_.adjust(measured);
    state_.held_sum = 0;
    state_.held_steps = 0;
  }

  /// When no step is unrolled any more, the peak of memory is that of the equilibria.
  void forget_pretraining() {
    const auto unrolled = steps_with_pretraining(recipe_.train);
    if (unrolled > 0 && state_.step == unrolled + 1) reset_peak_memory(device_);
  }

  bool evaluation_due() const {
    if (state_.step == steps_) return true;
    if (const auto every = recipe_.train.eval_every_steps) return state_.step % *every == 0;
    return state_.step % (recipe_.train.eval_every * steps_per_epoch_) == 0;
  }

  /// What is due at this step. A validation that is given up is still due in the checkpoint.
  void evaluate_and_save(bool must_save) {
    const bool improved = state_.unevaluated && evaluate();
    if (improved || must_save || state_.unevaluated || checkpoint_due()) save();
    if (improved) persistence_.mark_best(state_.step);
  }

  /// Nothing where a signal comes meanwhile. Processes that validate together do not give up: each
  /// would wait for the others.
  std::optional<Metrics> measured() {
    std::optional<GiveUpWhenAsked> patience;
    if (world_->size() == 1 && hooks_.interrupted) patience.emplace(hooks_.interrupted);
    const WeightAverage::InPlace averaged(average_);
    try {
      return validation_.measure(/*closing=*/state_.step == steps_);
    } catch (const GivenUp&) {
      return std::nullopt;
    }
  }

  /// Whether this is the best so far.
  bool evaluate() {
    log_steps();
    show({.step = state_.step, .steps = steps_, .phase = TrainingPhase::Evaluating});
    state_.seconds = log_.seconds();
    const auto found = measured();
    if (!found) {
      log_.leave_evaluation(state_.seconds);
      return false;
    }
    state_.unevaluated = false;
    const auto& metrics = *found;
    log_.write_evaluation(state_, state_.seconds, metrics);
    const auto goal = task_.goal();
    const double value = number(metrics, goal.metric);
    const bool improved =
        std::isfinite(value) &&
        (!state_.best || (goal.lower_is_better ? value < *state_.best : value > *state_.best));
    if (improved) {
      state_.best = value;
      state_.best_step = state_.step;
    }
    return improved;
  }

  /// Back to the last checkpoint, with a smaller step.
  void go_back() {
    const auto& failure = recipe_.train.failure;
    const std::string what =
        fmt::format("the loss or its gradient was not finite in {} steps in a row, up to step {}",
                    state_.skipped_in_a_row, state_.step);
    const std::string tried =
        state_.rollbacks == 0 ? "" : fmt::format(", after going back {} times", state_.rollbacks);
    require<DivergedError>(state_.rollbacks < failure.rollbacks, "training stopped: {}{}; {}", what,
                           tried, advice_on_failure());
    const auto before = state_;
    load_newest();
    state_.lr_scale = before.lr_scale * failure.lr_factor;
    state_.skipped = before.skipped;
    state_.skipped_in_a_row = 0;
    state_.rollbacks = before.rollbacks + 1;
    warn(fmt::format("{}: going back to step {} with the learning rate times {:g}", what,
                     state_.step, state_.lr_scale));
    save();  // so that a resumed run knows
  }

  std::string advice_on_failure() const {
    for (const auto& report : passes_.last_reports()) {
      if (!report.converged()) return std::string(advice(report.status));
    }
    return "lower train.lr or set train.clip_norm";
  }

  // ---- what is said -----------------------------------------------------------------------------

  void log_steps() {
    if (!log_.has_steps()) return;
    Metrics last;
    for (const auto& metric : residual_metrics(passes_.last_reports())) {
      if (metric.first != "residual") last.push_back(metric);
    }
    append(last, {{"gamma", plan_.gamma}, {"probability", plan_.probability}});
    if (controller_.smoothed()) last.emplace_back("held", *controller_.smoothed());
    append(last, {{"lr", plan_.lr * state_.lr_scale},
                  {"grad_norm", gradient_norm_},
                  {"skipped_steps", state_.skipped},
                  {"rollbacks", state_.rollbacks}});
    log_.write_steps(state_, last);
  }

  void show(const StepNews& news) const {
    if (world_->is_main() && hooks_.progress) hooks_.progress(news);
  }

  /// After a step: an explicit network, which has nothing to solve, reports nothing.
  void warn_of_the_plan() const {
    const auto unrolled = recipe_.train.pretrain.steps;
    if (steps_ <= unrolled && !passes_.last_reports().empty()) {
      warn(
          fmt::format("all {} steps are pretraining (train.pretrain.steps = {}): the layer is "
                      "unrolled in them and never solved for its equilibrium",
                      steps_, unrolled));
    }
  }

  void warn(const std::string& message) const {
    if (world_->is_main() && hooks_.warn) hooks_.warn(message);
  }

  // ---- checkpoints ------------------------------------------------------------------------------

  bool checkpoint_due() {
    if (state_.step == steps_) return true;
    const auto& policy = recipe_.train.checkpoints;
    if (policy.every_steps && state_.step % *policy.every_steps == 0) return true;
    // The clocks of ranks differ: the main one's decides, where all of them look.
    if (state_.step % recipe_.train.log_every != 0) return false;
    return validation_.of_main(seconds_since(last_saved_)) > 60 * policy.every_minutes;
  }

  void save() {
    log_steps();
    state_.seconds = log_.seconds();
    state_.seconds_validating = log_.seconds_validating();
    state_.gamma = controller_.gamma();
    state_.held_smoothed = controller_.smoothed();
    last_saved_ = TrainingClock::now();
    persistence_.save(state_);
  }

  void load_newest() {
    load_state();
    go_on_from_state();
  }

  void load_state() {
    state_ = persistence_.load_newest(state_, [this](const std::string& why) { warn(why); });
  }

  void go_on_from_state() {
    controller_.restore(state_.gamma, state_.held_smoothed);
    passes_.seek(state_.step);
    log_.rewind(state_.step);
  }

  Task& task_;
  Recipe recipe_;
  std::filesystem::path run_;
  std::shared_ptr<World> world_, copies_;  // of all ranks, of those with the same part of the model
  TrainerHooks hooks_;
  Optimiser optimiser_;
  WeightAverage average_;
  torch::Device device_;
  StepPasses passes_;
  Validation validation_;
  GammaController controller_;
  Persistence persistence_;
  int64_t steps_per_epoch_, steps_;
  TrainingLog log_;

  TrainingState state_;
  bool lacks_last_evaluation_ = false;
  StepPlan plan_;
  double gradient_norm_ = 0;
  TrainingClock::time_point last_saved_;
};

Trainer::Trainer(Task& task, const Recipe& recipe, const std::string& config,
                 const std::filesystem::path& run, std::shared_ptr<World> world, TrainerHooks hooks,
                 std::shared_ptr<World> copies)
    : loop_(std::make_unique<Loop>(task, recipe, config, run, std::move(world), std::move(hooks),
                                   std::move(copies))) {}

Trainer::~Trainer() = default;

void Trainer::resume() {
  loop_->resume();
}

TrainingEnd Trainer::run() {
  return loop_->run();
}

int64_t Trainer::step() const {
  return loop_->step();
}

int64_t Trainer::steps() const {
  return loop_->steps();
}

}  // namespace deq::lab
