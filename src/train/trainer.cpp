#include "deq/train/trainer.h"

#include <ATen/Context.h>
#include <torch/autograd.h>

#include <chrono>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "deq/core/error.h"
#include "deq/data/loader.h"
#include "deq/distributed/gradient_averager.h"
#include "deq/jacobian/frobenius.h"
#include "deq/train/checkpoints.h"
#include "deq/train/experiment.h"
#include "deq/train/gamma_controller.h"
#include "deq/train/optimiser.h"
#include "deq/train/recorder.h"
#include "deq/train/run.h"
#include "train/memory.h"
#include "train/persistence.h"
#include "train/step_figures.h"
#include "train/step_plan.h"
#include "train/training_state.h"

namespace deq {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Shard shard_of(const Recipe& recipe, const World& world) {
  return {.batch_size = recipe.train.batch_size,
          .rank = world.rank(),
          .ranks = world.size(),
          .parts = recipe.train.accumulation,
          .seed = step_key(recipe, Stream::Order, 0)};
}

}  // namespace

class Trainer::Loop {
 public:
  Loop(Task& task, const Recipe& recipe, const std::string& config,
       const std::filesystem::path& run, std::shared_ptr<World> world, TrainerHooks hooks)
      : task_(task),
        recipe_(recipe),
        run_(run),
        world_(std::move(world)),
        hooks_(std::move(hooks)),
        optimiser_(recipe.train.optimiser, trainable(task.model())),
        device_(optimiser_.parameters().front().device()),
        shard_(shard_of(recipe, *world_)),
        source_(task.training_batches(shard_, recipe.train.loader.unreadable)),
        loader_(source_, recipe.train.loader.threads),
        averager_(world_, optimiser_.parameters()),
        controller_(recipe.jacobian.control, recipe.jacobian.gamma.at(0)),
        persistence_(task, optimiser_, world_,
                     Checkpoints(checkpoint_folder(run), recipe.train.checkpoints.keep), config),
        steps_per_epoch_(source_->batches() / shard_.parts),
        steps_(recipe.train.steps.value_or(recipe.train.epochs * steps_per_epoch_)) {
    world_->require_same("the configuration", config);
    state_.gamma = controller_.gamma();
    state_ = persistence_.share(state_);
  }

  void resume() {
    open_recorder();
    load_newest();
  }

  TrainingEnd run() {
    auto end = TrainingEnd::Finished;
    world_->run([&] { end = train(); });
    return end;
  }

 private:
  TrainingEnd train() {
    open_recorder();
    task_.model().train();
    reset_peak_memory(
        device_);  // that of a run which this process trained before is not this one's
    resumed_at_ = window_start_ = last_saved_ = Clock::now();
    seconds_before_ = state_.seconds;
    // Something to go back to, from the first step on.
    if (state_.step == 0) save();
    while (state_.step < steps_) {
      const auto figures = take_step();
      if (state_.skipped_in_a_row >= recipe_.train.failure.skipped_in_a_row) {
        go_back();
        continue;
      }
      forget_pretraining();
      control(figures);
      const bool improved = evaluation_due() && evaluate();
      const bool asked = figures[StepFigures::kInterrupted] > 0;
      if (improved || asked || checkpoint_due()) save();
      if (improved) persistence_.mark_best(state_.step);
      if (state_.step % recipe_.train.log_every == 0) flush_window();
      if (asked && state_.step < steps_) return TrainingEnd::Interrupted;
    }
    return TrainingEnd::Finished;
  }

  // ---- one step ---------------------------------------------------------------------------------

  StepFigures take_step() {
    plan_ = plan_step(recipe_, controller_, state_.step, steps_, steps_per_epoch_);
    StepFigures figures;
    optimiser_.zero_grad();
    for (int64_t part = 0; part < shard_.parts; ++part) backpropagate(part, figures);
    figures[StepFigures::kInterrupted] =
        hooks_.interrupted && hooks_.interrupted() != 0 ? 1.0 : 0.0;
    figures.reduce(*world_, device_);
    gradient_norm_ = gradient_norm(optimiser_.parameters());
    const bool finite = std::isfinite(figures[StepFigures::kLoss]) && std::isfinite(gradient_norm_);
    if (finite) {
      const auto clip = recipe_.train.clip_norm;
      if (clip && gradient_norm_ > *clip) {
        scale_gradients(optimiser_.parameters(), *clip / gradient_norm_);
      }
      optimiser_.step(plan_.lr * state_.lr_scale);
      window_.add(figures);
    }
    state_.skipped_in_a_row = finite ? 0 : state_.skipped_in_a_row + 1;
    state_.skipped += finite ? 0 : 1;
    ++state_.step;
    if (world_->is_main() && hooks_.progress) {
      hooks_.progress({.step = state_.step,
                       .steps = steps_,
                       .loss = figures[StepFigures::kLoss],
                       .nfe_forward = figures[StepFigures::kForward],
                       .residual = figures[StepFigures::kResidual]});
    }
    return figures;
  }

  void backpropagate(int64_t part, StepFigures& figures) {
    seed_model(part);
    const double weight = 1.0 / static_cast<double>(shard_.parts);
    const auto batch = loader_.next().to(device_, storage_type(recipe_.precision));
    const TensorFloat32Scope products(recipe_.precision, device_);  // of backward too
    TaskPass pass;
    torch::Tensor loss, penalty;
    {
      const PrecisionScope precision(recipe_.precision, device_);
      pass = task_.forward(batch, ready(plan_.how));
      loss = pass.loss;
      if (plan_.penalised && !pass.equilibria.empty()) {
        penalty = penalty_of(pass, part);
        loss = torch::add(loss, penalty, plan_.gamma);
      }
    }
    if (part + 1 == shard_.parts) averager_.expect_backward(loss);
    // Named inputs, so that the leaf of the linearisation gets no gradient, which nobody wants.
    torch::autograd::backward({shard_.parts == 1 ? loss : loss * weight}, {}, {}, false,
                              optimiser_.parameters());
    figures.add(pass, weight);
    figures[StepFigures::kLoss] += weight * loss.item<double>();
    figures[StepFigures::kTaskLoss] += weight * pass.loss.item<double>();
    if (penalty.defined()) {
      figures[StepFigures::kPenalty] += weight * penalty.item<double>();
      figures[StepFigures::kPenalised] += weight;
    }
    figures[StepFigures::kUnreadable] += static_cast<double>(batch.skipped * world_->size());
    last_reports_.clear();
    for (auto& equilibrium : pass.equilibria)
      last_reports_.push_back(std::move(equilibrium.report));
  }

  /// Plans differ in their phase and budget only, and keep workspaces worth reusing.
  const EquilibriumPlan& ready(const EquilibriumOptions& how) {
    const auto* unrolled = std::get_if<Unrolled>(&how.gradient);
    const std::tuple key(how.gradient.index(), max_evals(how.forward),
                         unrolled != nullptr && unrolled->replayed);
    return ready_.try_emplace(key, how).first->second;
  }

  torch::Tensor penalty_of(const TaskPass& pass, int64_t part) const {
    torch::Tensor sum;
    for (size_t layer = 0; layer < pass.equilibria.size(); ++layer) {
      const ProbeKey key{.key = step_key(recipe_, Stream::Probes, state_.step) + layer,
                         .first_sample = shard_.first_position(part)};
      const auto one =
          jacobian_penalty(pass.equilibria[layer].linearization(), recipe_.jacobian.estimator, key);
      sum = sum.defined() ? sum + one : one;
    }
    return sum;
  }

  /// Models may draw from torch's own generator, e.g. for dropout.
  void seed_model(int64_t part) {
    auto generator = at::globalContext().defaultGenerator(device_);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(step_key(recipe_, Stream::Model, state_.step) +
                               static_cast<uint64_t>(part * world_->size() + world_->rank()));
  }

  // ---- what happens between steps ---------------------------------------------------------------

  void control(const StepFigures& figures) {
    const auto& control = recipe_.jacobian.control;
    if (!controller_.active() || state_.step <= recipe_.train.pretrain.steps) return;
    const double figure =
        figures[control.hold == Held::Residual ? StepFigures::kResidual : StepFigures::kPerSample];
    if (std::isfinite(figure)) {
      state_.held_sum += figure;
      ++state_.held_steps;
    }
    if (state_.step % control.every != 0) return;
    const double measured = control.hold == Held::SpectralRadius
                                ? spectral_radius()
                                : state_.held_sum / static_cast<double>(state_.held_steps);
    controller_.adjust(measured);
    state_.held_sum = 0;
    state_.held_steps = 0;
  }

  double spectral_radius() {
    average_buffers();
    task_.model().eval();
    const double rho = number(task_.stability(evaluation_options(recipe_)), "rho");
    task_.model().train();
    return of_main(rho);
  }

  /// Statistics that layers keep, such as BatchNorm's, come from each rank's own samples. Whoever
  /// looks at the model sees their mean.
  void average_buffers() {
    if (world_->size() == 1) return;
    const torch::NoGradGuard no_grad;
    for (auto& buffer : task_.model().buffers()) {
      if (!buffer.is_floating_point()) continue;
      world_->sum(buffer);
      buffer.div_(world_->size());
    }
  }

  /// The main rank's number, on every rank.
  double of_main(double number) {
    if (world_->size() == 1) return number;
    const auto shared = torch::tensor(number, torch::TensorOptions(device_).dtype(torch::kFloat64));
    world_->broadcast(shared);
    return shared.item<double>();
  }

  /// From its first equilibrium on the peak of memory is that of the equilibria.
  void forget_pretraining() {
    const auto unrolled = recipe_.train.pretrain.steps;
    if (unrolled > 0 && state_.step == unrolled + 1) reset_peak_memory(device_);
  }

  bool evaluation_due() const {
    if (state_.step == steps_) return true;
    if (const auto every = recipe_.train.eval_every_steps) return state_.step % *every == 0;
    return state_.step % (recipe_.train.eval_every * steps_per_epoch_) == 0;
  }

  /// Whether this is the best so far.
  bool evaluate() {
    flush_window();
    average_buffers();
    task_.model().eval();
    auto line = head_of_line("valid");
    {
      const torch::NoGradGuard no_grad;
      const PrecisionScope precision(recipe_.precision, device_);
      const auto how = evaluation_options(recipe_);
      append(line, task_.evaluate(how, *world_));
      const bool solves = std::isfinite(number(line, "nfe_forward"));
      for (const int64_t budget : recipe_.train.eval_budgets) {
        if (!solves) break;  // an explicit network has no budget
        auto hurry = how;
        hurry.forward = with_max_evals(how.forward, budget);
        const auto hurried = task_.evaluate(hurry, *world_);
        for (const auto& name : {task_.goal().metric, std::string("residual")}) {
          line.emplace_back(c10::str(name, "@", budget), number(hurried, name));
        }
      }
    }
    append(line, task_.stability(evaluation_options(recipe_)));
    if (state_.step == steps_) append(line, task_.closing());
    task_.model().train();
    record(line);
    window_start_ = Clock::now();  // the throughput is that of training alone
    const auto goal = task_.goal();
    const double value = number(line, goal.metric);
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
        c10::str("the loss or its gradient was not finite in ", state_.skipped_in_a_row,
                 " steps in a row, up to step ", state_.step);
    const std::string tried =
        state_.rollbacks == 0 ? "" : c10::str(", after going back ", state_.rollbacks, " times");
    require<DivergedError>(state_.rollbacks < failure.rollbacks, "training stopped: ", what, tried,
                           "; ", advice_on_failure());
    const auto before = state_;
    load_newest();
    state_.lr_scale = before.lr_scale * failure.lr_factor;
    state_.skipped = before.skipped;
    state_.skipped_in_a_row = 0;
    state_.rollbacks = before.rollbacks + 1;
    window_ = {};
    warn(c10::str(what, ": going back to step ", state_.step, " with the learning rate times ",
                  state_.lr_scale));
    save();  // so that a resumed run knows
  }

  std::string advice_on_failure() const {
    for (const auto& report : last_reports_) {
      if (!report.converged()) return std::string(advice(report.status));
    }
    return "lower train.lr or set train.clip_norm";
  }

  // ---- metrics ----------------------------------------------------------------------------------

  Metrics head_of_line(const std::string& split) {
    state_.seconds = seconds_before_ + seconds_since(resumed_at_);
    return {{"step", state_.step},
            {"epoch", 1 + (state_.step - 1) / steps_per_epoch_},
            {"split", split},
            {"seconds", state_.seconds}};
  }

  void flush_window() {
    if (window_.steps() == 0) return;
    auto line = head_of_line("train");
    append(line, window_.means());
    if (!last_reports_.empty()) {
      for (const auto& metric : residual_metrics(last_reports_)) {
        if (metric.first != "residual") line.push_back(metric);
      }
    }
    append(line, {{"gamma", plan_.gamma}, {"probability", plan_.probability}});
    if (controller_.smoothed()) line.emplace_back("held", *controller_.smoothed());
    append(line, {{"lr", plan_.lr * state_.lr_scale},
                  {"grad_norm", gradient_norm_},
                  {"skipped_steps", state_.skipped},
                  {"rollbacks", state_.rollbacks},
                  {"samples_per_s", static_cast<double>(window_.steps() * shard_.batch_size) /
                                        seconds_since(window_start_)},
                  {"peak_memory_mib", peak_memory_mib(device_)}});
    record(line);
    window_ = {};
    window_start_ = Clock::now();
  }

  /// Not before there is something to do in the run folder: what can be refused is refused earlier.
  void open_recorder() {
    if (world_->is_main() && !recorder_) recorder_ = std::make_unique<Recorder>(run_);
  }

  void record(const Metrics& line) {
    if (!world_->is_main()) return;
    recorder_->record(line);
    if (hooks_.record) hooks_.record(line);
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
    return of_main(seconds_since(last_saved_)) > 60 * policy.every_minutes;
  }

  void save() {
    flush_window();
    state_.seconds = seconds_before_ + seconds_since(resumed_at_);
    state_.gamma = controller_.gamma();
    state_.held_smoothed = controller_.smoothed();
    average_buffers();
    last_saved_ = Clock::now();
    persistence_.save(state_);
  }

  void load_newest() {
    state_ = persistence_.load_newest(state_, [this](const std::string& why) { warn(why); });
    controller_.restore(state_.gamma, state_.held_smoothed);
    loader_.seek(state_.step * shard_.parts);
    if (recorder_) recorder_->rewind(state_.step);
  }

  Task& task_;
  Recipe recipe_;
  std::filesystem::path run_;
  std::shared_ptr<World> world_;
  TrainerHooks hooks_;
  Optimiser optimiser_;
  torch::Device device_;
  Shard shard_;
  std::shared_ptr<const BatchSource> source_;
  Loader loader_;
  GradientAverager averager_;
  GammaController controller_;
  Persistence persistence_;
  int64_t steps_per_epoch_, steps_;
  std::unique_ptr<Recorder> recorder_;  // of the main rank

  TrainingState state_;
  StepPlan plan_;
  std::map<std::tuple<size_t, int64_t, bool>, EquilibriumPlan> ready_;
  StepWindow window_;
  double gradient_norm_ = 0;
  std::vector<Report> last_reports_;
  Clock::time_point resumed_at_, window_start_, last_saved_;
  double seconds_before_ = 0;
};

Trainer::Trainer(Task& task, const Recipe& recipe, const std::string& config,
                 const std::filesystem::path& run, std::shared_ptr<World> world, TrainerHooks hooks)
    : loop_(std::make_unique<Loop>(task, recipe, config, run, std::move(world), std::move(hooks))) {
}

Trainer::~Trainer() = default;

void Trainer::resume() {
  loop_->resume();
}

TrainingEnd Trainer::run() {
  return loop_->run();
}

}  // namespace deq
