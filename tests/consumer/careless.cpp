// What users do to a layer of their own between two passes. The layer may be replayed on a GPU;
// each time it must do what the same layer does when everything is evaluated.
#include <deq/deq.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
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
  deq::Context prepare(const deq::Inputs& x) override { return {dropout(u(x[0]))}; }
  deq::State step(const deq::State& z, const deq::Context& context) override {
    return {scale * torch::tanh(w(z[0]) + context[0])};
  }
  // By this the layer may be replayed; without, it is evaluated.
  std::optional<deq::ReplayKey> replay_key() const override { return deq::ReplayKey{scale}; }

  torch::nn::Linear w, u;
  torch::nn::Dropout dropout;
  double scale = 0.6;
};
TORCH_MODULE(Layer);

struct Outcome {
  torch::Tensor z;
  std::vector<torch::Tensor> gradients;
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
    return {eq.z().detach(), torch::autograd::grad({loss}, layer->parameters())};
  }

  static double difference(const Outcome& a, const Outcome& b) {
    const auto relative = [](const torch::Tensor& one, const torch::Tensor& other) {
      return ((one - other).norm() / other.norm()).item<double>();
    };
    double largest = relative(a.z, b.z);
    for (size_t i = 0; i < b.gradients.size(); ++i) {
      largest = std::max(largest, relative(a.gradients[i], b.gradients[i]));
    }
    return largest;
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

double after(const std::function<void(Trial&)>& change, double p = 0) {
  Trial trial(p);
  const double before = trial.compare();
  change(trial);
  return std::max(before, trial.compare());
}

double in_threads() {
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
  return *std::max_element(differences.begin(), differences.end());
}

int main(int count, char** arguments) {
  if (!tell_device(count, arguments)) return 2;
  torch::manual_seed(0);
  const std::vector<std::pair<const char*, double>> rows{
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
      {"four threads", in_threads()}};
  bool right = true;
  for (const auto& [what, difference] : rows) {
    const bool same = difference < 1e-8;
    right = right && same;
    std::printf("%-36s %-6s %.1e\n", what, same ? "right" : "WRONG", difference);
  }
  // Later GPU calls of the process still work.
  torch::rand({4}, Trial().device).sum().item<double>();
  return right ? 0 : 1;
}
