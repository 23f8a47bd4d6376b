// What users do to a layer of their own between two passes. The layer may be replayed on a GPU, and
// then is; each time it must do what the same layer does when everything is evaluated.
#include <deq/deq.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_part.h"

constexpr int64_t kBatch = 16, kWidth = 32;

struct LayerImpl : deq::Cell {
  explicit LayerImpl(double p)
      : w(register_module("w", torch::nn::Linear(kWidth, kWidth))),
        u(register_module("u", torch::nn::Linear(kWidth, kWidth))),
        dropout(register_module("dropout", torch::nn::Dropout(p))) {}

  deq::State initial_state(const deq::Inputs& x) override { return {torch::zeros_like(x[0])}; }
  deq::Context prepare(const deq::Inputs& x) override {
    if (does_nothing_in_prepare) return x;
    return {u(x[0]), dropout(torch::ones_like(x[0]))};
  }
  deq::State step(const deq::State& z, const deq::Context& context) override {
    ++steps;
    auto next = scale * torch::tanh(w(z[0]) + context[0]);
    if (waits_for_the_device) next = next + 0 * next.sum().item<double>();
    return {context.size() > 1 ? context[1] * next : next};
  }
  // By this the layer may be replayed; without, it is evaluated.
  std::optional<deq::ReplayKey> replay_key() const override { return deq::ReplayKey{scale}; }

  torch::nn::Linear w, u;
  torch::nn::Dropout dropout;
  double scale = 0.6;
  bool does_nothing_in_prepare = false, waits_for_the_device = false;
  std::atomic<int64_t> steps{0};  // calls of step()
};
TORCH_MODULE(Layer);

/// torch's warnings of this thread.
struct Warnings : c10::WarningHandler {
  void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }
  std::vector<std::string> messages;
  c10::WarningUtils::WarningHandlerGuard here{this};
};

struct Outcome {
  torch::Tensor z;
  std::vector<torch::Tensor> gradients;
};

struct Verdict {
  double difference = 0;
  std::string complaint{};  // what else is wrong
};

struct Trial {
  explicit Trial(double p = 0) : layer(p) {
    layer->to(device, torch::kDouble);
    const auto options = [](deq::Replay replay) {
      const deq::Broyden solver{.tol = {.rtol = 1e-12}, .max_evals = 60};
      return deq::EquilibriumOptions{
          .forward = solver, .gradient = deq::Implicit{solver}, .replay = replay};
    };
    replaying = deq::Equilibrium(layer, options(deq::Replay::Automatic));
    evaluating = deq::Equilibrium(layer, options(deq::Replay::Off));
  }

  Outcome pass(deq::Equilibrium& equilibrium, const torch::Tensor& x) const {
    const auto eq = equilibrium->forward(x);
    const auto loss = eq.z().square().mean() +
                      0.1 * deq::jacobian_penalty(eq.linearization(), {}, deq::ProbeKey{.key = 1});
    return {eq.z().detach(), torch::autograd::grad({loss}, layer->parameters(), {}, {},
                                                   /*create_graph=*/false, /*allow_unused=*/true)};
  }

  static double difference(const Outcome& a, const Outcome& b) {
    const auto relative = [](const torch::Tensor& one, const torch::Tensor& other) {
      return ((one - other).norm() / other.norm()).item<double>();
    };
    double largest = relative(a.z, b.z);
    for (size_t i = 0; i < b.gradients.size(); ++i) {
      if (!b.gradients[i].defined() && !a.gradients[i].defined()) continue;
      largest = std::max(largest, relative(a.gradients[i], b.gradients[i]));
    }
    return largest;
  }

  /// On a GPU a pass like those before it does not ask the layer.
  bool replays() {
    if (!device.is_cuda()) return true;
    const int64_t before = layer->steps;
    pass(replaying, input());
    return layer->steps == before;
  }

  /// The largest difference in some passes with new inputs.
  double compare() {
    double largest = 0;
    for (uint64_t k = 0; k < 4; ++k) {
      const auto x = input();
      torch::manual_seed(k);
      const auto replayed = pass(replaying, x);
      torch::manual_seed(k);
      largest = std::max(largest, difference(replayed, pass(evaluating, x)));
    }
    return largest;
  }

  torch::Tensor input() const {
    return torch::randn({kBatch, kWidth}, torch::TensorOptions(device).dtype(torch::kDouble));
  }

  torch::Device device = deq::cuda_status().available ? torch::kCUDA : torch::kCPU;
  Layer layer;
  deq::Equilibrium replaying{nullptr}, evaluating{nullptr};
};

Verdict compare(Trial& trial) {
  const double difference = trial.compare();
  return {difference, trial.replays() ? "" : "evaluated, not replayed"};
}

Verdict after(const std::function<void(Trial&)>& change, double p = 0) {
  Trial trial(p);
  const auto before = compare(trial);
  change(trial);
  auto then = compare(trial);
  then.difference = std::max(before.difference, then.difference);
  if (then.complaint.empty()) then.complaint = before.complaint;
  return then;
}

Verdict without_work_in_prepare() {
  Warnings warnings;
  Trial trial;
  trial.layer->does_nothing_in_prepare = true;
  auto verdict = compare(trial);
  if (!warnings.messages.empty()) verdict.complaint = "torch warns: " + warnings.messages[0];
  return verdict;
}

/// Work that waits for the device cannot be recorded: it is evaluated, and one line says so.
Verdict with_a_recording_that_fails() {
  Warnings warnings;
  Trial trial(0.3);
  trial.layer->waits_for_the_device = true;
  Verdict verdict{trial.compare()};
  const size_t expected = trial.device.is_cuda() ? 1 : 0;
  if (warnings.messages.size() != expected) {
    verdict.complaint = std::to_string(warnings.messages.size()) + " warnings";
  }
  for (const auto& message : warnings.messages) {
    if (message.find('\n') != std::string::npos) verdict.complaint = "a warning of many lines";
  }
  // Neither is later work of the process disturbed, nor another layer.
  torch::rand({4}, trial.device).sum().item<double>();
  const auto another = after([](Trial&) {}, 0.3);
  verdict.difference = std::max(verdict.difference, another.difference);
  if (verdict.complaint.empty()) verdict.complaint = another.complaint;
  return verdict;
}

/// While a layer with dropout is recorded, torch refuses numbers of the GPU's own generator to
/// other threads (docs/own-layer.md); a moment later there are some.
void draw_between_passes(const Trial& trial, bool may_be_refused) {
  for (int attempt = 0; may_be_refused && attempt < 1000; ++attempt) {
    try {
      trial.input();
      return;
    } catch (const c10::Error&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  trial.input();
}

Verdict in_threads(double p) {
  Trial trial(p);
  const auto x = trial.input();
  std::vector<std::vector<Outcome>> outcomes(4);
  std::vector<std::string> complaints(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        for (int k = 0; k < 20; ++k) {
          outcomes[i].push_back(trial.pass(trial.replaying, x));
          draw_between_passes(trial, trial.device.is_cuda() && p > 0);
        }
      } catch (const std::exception& error) {
        complaints[i] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  Verdict verdict;
  for (const auto& own : outcomes) {
    for (const auto& outcome : own) {
      // Masks differ from pass to pass, so what is compared is f(z) = z with one of them.
      const torch::NoGradGuard no_grad;
      const auto unmasked = trial.layer->step({outcome.z}, {trial.layer->u(x)})[0];
      const auto mask = (outcome.z / unmasked > 0.5 / (1 - p)).to(torch::kDouble) / (1 - p);
      const double difference =
          ((mask * unmasked - outcome.z).norm() / outcome.z.norm()).item<double>();
      verdict.difference = std::max(verdict.difference, difference);
    }
  }
  if (!trial.replays()) verdict.complaint = "evaluated, not replayed";
  for (const auto& complaint : complaints) {
    if (!complaint.empty()) verdict.complaint = complaint;
  }
  return verdict;
}

/// With the same masks in all threads, none, gradients can be compared as well.
Verdict gradients_in_threads() {
  Trial trial;
  const auto x = trial.input();
  const auto expected = trial.pass(trial.evaluating, x);
  std::vector<double> differences(4, 0);
  std::vector<std::thread> threads;
  for (auto& own : differences) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const auto outcome = trial.pass(trial.replaying, x);
        own = std::max(own, Trial::difference(outcome, expected));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return {*std::max_element(differences.begin(), differences.end()),
          trial.replays() ? "" : "evaluated, not replayed"};
}

int main(int count, char** arguments) {
  if (!tell_device(count, arguments)) return 2;
  torch::manual_seed(0);
  const std::vector<std::pair<const char*, Verdict>> rows{
      {"nothing", after([](Trial&) {})},
      {"a number in f", after([](Trial& trial) { trial.layer->scale = 0.2; })},
      {"a dropout inside put into eval()",
       after([](Trial& trial) { trial.layer->dropout->eval(); }, 0.3)},
      {"its p set to 0", after([](Trial& trial) { trial.layer->dropout->options.p(0); }, 0.3)},
      {"a hook on a parameter", after([](Trial& trial) {
         trial.layer->w->weight.register_hook([](const torch::Tensor& g) { return 2 * g; });
       })},
      {"weights replaced", after([](Trial& trial) {
         trial.layer->w->weight.set_data(0.5 * trial.layer->w->weight.detach());
       })},
      {"inference mode at the same shape", after([](Trial& trial) {
         const c10::InferenceMode guard;
         for (int k = 0; k < 3; ++k) trial.replaying->forward(trial.input());
       })},
      {"prepare() does nothing", without_work_in_prepare()},
      {"a recording that fails", with_a_recording_that_fails()},
      {"four threads", gradients_in_threads()},
      {"four threads that draw numbers", in_threads(0)},
      {"four threads with dropout", in_threads(0.3)}};
  bool right = true;
  for (const auto& [what, verdict] : rows) {
    const bool good = verdict.difference < 1e-8 && verdict.complaint.empty();
    right = right && good;
    std::printf("%-36s %-6s %.1e %s\n", what, good ? "right" : "WRONG", verdict.difference,
                verdict.complaint.c_str());
  }
  // Later GPU calls of the process still work.
  torch::rand({4}, Trial().device).sum().item<double>();
  return right ? 0 : 1;
}
