// An equilibrium layer on a GPU, where there is one: to(device) is all it takes.
//
// The same layer is solved and differentiated on the device in float32, and on the CPU in float64.
// Without a GPU both are the CPU. Which device it was, and why, is said on the error output.
//
// Expected output (numbers to 0%):
//
//   converged: yes
//   z* agrees with the CPU's in float64: yes
//   the gradient agrees: yes
//   the penalty agrees: yes

#include <deq/deq.h>
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

struct CellImpl : torch::nn::Module {
  explicit CellImpl(int64_t d)
      : w(register_module("w", torch::nn::Linear(d, d))),
        u(register_module("u", torch::nn::Linear(d, d))) {}
  torch::Tensor forward(const torch::Tensor& z, const torch::Tensor& x) {
    return torch::tanh(w(z) + u(x));
  }
  torch::nn::Linear w, u;
};
TORCH_MODULE(Cell);

struct Outcome {
  torch::Tensor z, gradient, penalty;
  bool converged;
};

Outcome solve(deq::Equilibrium& layer, const torch::Tensor& x) {
  layer->zero_grad();
  const auto eq = layer->forward(x);
  const auto penalty = deq::jacobian_penalty(eq.linearization(), {.probes = 4}, {.key = 1});
  (eq.z().square().mean() + penalty).backward();
  const auto gradient = layer->named_parameters()["cell.module.w.weight"].grad();
  return {eq.z().detach(), gradient.clone(), penalty.detach(), eq.report.converged()};
}

const char* agrees(const torch::Tensor& one, const torch::Tensor& other) {
  const auto wide = one.to(torch::kCPU, torch::kDouble);
  const auto distance = (wide - other).norm() / other.norm();
  return distance.item<double>() < 1e-3 ? "yes" : "no";
}

int main() {
  torch::manual_seed(0);
  const auto& cuda = deq::cuda_status();
  const auto device = cuda.available ? torch::kCUDA : torch::kCPU;
  std::cerr << "device: " << (cuda.available ? "cuda" : "cpu, because " + cuda.reason) << '\n';

  const deq::Broyden solver{.tol = {.rtol = 1e-5}};
  deq::Equilibrium layer(
      Cell(64), deq::EquilibriumOptions{.forward = solver, .gradient = deq::Implicit{solver}});
  const auto x = torch::randn({32, 64});
  layer->to(device);
  const auto there = solve(layer, x.to(device));
  layer->to(torch::kCPU, torch::kDouble);
  const auto here = solve(layer, x.to(torch::kDouble));

  std::printf("converged: %s\n", there.converged ? "yes" : "no");
  std::printf("z* agrees with the CPU's in float64: %s\n", agrees(there.z, here.z));
  std::printf("the gradient agrees: %s\n", agrees(there.gradient, here.gradient));
  std::printf("the penalty agrees: %s\n", agrees(there.penalty, here.penalty));
}
