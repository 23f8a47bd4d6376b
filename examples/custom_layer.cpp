// A layer of your own, trained with and without the Jacobian penalty.
//
// Its state is wider than its input, so the layer is a deq::Cell, which says where the state
// begins, what of f does not depend on z, and what does. docs/own-layer.md goes through it. The
// task is to learn y = sin(2a) + a·b from 256 pairs (a, b).
//
// Expected output (numbers to 20%):
//
//   gamma 0: 99.8% of the variance explained, spectral radius 0.69
//     mean evaluations to 1e-3: Picard 23.9, Anderson 11.0, Broyden 10.9
//   gamma 1: 99.7% of the variance explained, spectral radius 0.38
//     mean evaluations to 1e-3: Picard 9.4, Anderson 7.7, Broyden 7.3

#include <deq/deq.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <utility>

/// f(z; x) = tanh(W z + U x + b), on a state of its own width.
struct WideCellImpl : deq::Cell {
  WideCellImpl(int64_t inputs, int64_t width)
      : u(register_module("u", torch::nn::Linear(inputs, width))),
        w(register_parameter("w", torch::randn({width, width}) * (0.5 / std::sqrt(width)))) {}

  // Where a solve begins: the shapes are those of the state.
  deq::State initial_state(const deq::Inputs& x) override {
    return {torch::zeros({x[0].size(0), w.size(0)}, x[0].options())};
  }

  // What does not depend on z, once per solve.
  deq::Context prepare(const deq::Inputs& x) override { return {u(x[0])}; }

  // f itself, once per evaluation.
  deq::State step(const deq::State& z, const deq::Context& context) override {
    return {torch::tanh(torch::addmm(context[0], z[0], w))};
  }

  // Nothing else decides the result, so a GPU may replay it.
  std::optional<deq::ReplayKey> replay_key() const override { return deq::ReplayKey{}; }

  torch::nn::Linear u;
  torch::Tensor w;
};
TORCH_MODULE(WideCell);

std::pair<torch::Tensor, torch::Tensor> draw(int64_t count) {
  const auto x = 4 * torch::rand({count, 2}) - 2;
  const auto a = x.slice(1, 0, 1), b = x.slice(1, 1, 2);
  return {x, torch::sin(2 * a) + a * b};
}

void train_and_measure(double gamma) {
  torch::manual_seed(1);
  const auto [x, y] = draw(256);
  const auto [new_x, new_y] = draw(256);
  deq::Equilibrium layer(WideCell(2, 32),
                         deq::EquilibriumOptions{.forward = deq::Anderson{.max_evals = 60}});
  torch::nn::Linear head(32, 1);
  auto parameters = layer->parameters();
  for (const auto& parameter : head->parameters()) parameters.push_back(parameter);
  torch::optim::Adam optimiser(parameters, 1e-2);

  for (int step = 0; step < 250; ++step) {
    const auto eq = layer->forward(x);
    const auto loss =
        torch::mse_loss(head(eq.z()), y) + gamma * deq::jacobian_penalty(eq.linearization());
    optimiser.zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(parameters, 1.0);
    optimiser.step();
  }

  const torch::NoGradGuard no_grad;
  const auto eq = layer->forward(new_x);
  const auto error = torch::mse_loss(head(eq.z()), new_y) / new_y.var();
  const auto evaluations = [&layer, &inputs = new_x](const deq::SolverOptions& options) {
    double sum = 0;
    const deq::Solver solver(options);
    const auto report = layer->forward({inputs}, {.solver = &solver}).report;
    for (const auto& sample : report.samples) sum += static_cast<double>(sample.evaluations);
    return sum / static_cast<double>(report.samples.size());
  };
  std::printf("gamma %.0f: %.1f%% of the variance explained, spectral radius %.2f\n", gamma,
              100 * (1 - error.item<double>()), deq::spectral_radius(eq.linearization()).mean());
  std::printf("  mean evaluations to 1e-3: Picard %.1f, Anderson %.1f, Broyden %.1f\n",
              evaluations(deq::Picard{.max_evals = 100}), evaluations(deq::Anderson{}),
              evaluations(deq::Broyden{}));
}

int main() {
  train_and_measure(0);
  train_and_measure(1);
}
