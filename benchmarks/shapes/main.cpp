#include <torch/torch.h>

#include <chrono>
#include <cstdio>

#include "deq/models/mdeq/mdeq.h"

// Batches whose shapes come in turn, replayed where that may pay, against the same evaluated: the
// time of all training steps, from the first.
//
//   deq_shapes [SHAPES ROUNDS]

namespace {

using deq::models::MdeqClassifier;

double milliseconds(deq::Replay replay, int64_t shapes, int64_t rounds, torch::Device device) {
  torch::manual_seed(0);
  MdeqClassifier model(deq::models::MdeqOptions{});
  model->to(device);
  const deq::Anderson solver{.tol = {.rtol = 0}, .max_evals = 7};
  const deq::EquilibriumPlan plan(
      {.forward = solver, .gradient = deq::Implicit{.solver = solver}, .replay = replay});
  const auto step = [&](int64_t batch) {
    const auto images = torch::randn({batch, 3, 32, 32}, device);
    model->forward(images, plan).logits.square().mean().backward();
    model->zero_grad();
  };
  step(2);  // libraries are loaded and algorithms chosen, whoever comes first
  const auto finish = [&] {
    if (device.is_cuda()) torch::cuda::synchronize();
  };
  finish();
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t round = 0; round < rounds; ++round) {
    for (int64_t shape = 0; shape < shapes; ++shape) step(8 + shape);
  }
  finish();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  return time.count() / static_cast<double>(rounds * shapes);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t shapes = argc > 1 ? std::stoll(argv[1]) : 9;
  const int64_t rounds = argc > 2 ? std::stoll(argv[2]) : 20;
  const auto device = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
  const double evaluated = milliseconds(deq::Replay::Off, shapes, rounds, device);
  const double replayed = milliseconds(deq::Replay::Automatic, shapes, rounds, device);
  std::printf(
      "%lld shapes in turn, %lld rounds: evaluated %.2f ms, automatic %.2f ms, ratio %.2f\n",
      static_cast<long long>(shapes), static_cast<long long>(rounds), evaluated, replayed,
      replayed / evaluated);
}
