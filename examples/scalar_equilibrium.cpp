// The equilibrium of one number, z = a·cos(z), for three values of a at once.
//
// The slope of f at its equilibrium is −a·sin(z*). Where its size is below 1, applying f again and
// again converges. Where it is above (a = 1.5), that runs in circles; the equilibrium is there all
// the same, and Anderson and Broyden find it. The gradient dz*/da follows from the implicit
// function theorem, whatever found z*.
//
// Expected output (numbers to 1%):
//
//   picard   a = 0.5: converged after 10 evaluations
//   picard   a = 1.0: converged after 36 evaluations
//   picard   a = 1.5: stagnated after 37 evaluations
//   anderson a = 0.5: converged after 5 evaluations
//   anderson a = 1.0: converged after 6 evaluations
//   anderson a = 1.5: converged after 7 evaluations
//   broyden  a = 0.5: converged after 5 evaluations
//   broyden  a = 1.0: converged after 6 evaluations
//   broyden  a = 1.5: converged after 7 evaluations
//   a = 0.5: z* = 0.450184, spectral radius 0.2176, dz*/da = 0.739482 (by hand 0.739482)
//   a = 1.0: z* = 0.739085, spectral radius 0.6736, dz*/da = 0.441611 (by hand 0.441611)
//   a = 1.5: z* = 0.914856, spectral radius 1.1887, dz*/da = 0.278659 (by hand 0.278659)

#include <deq/deq.h>
#include <torch/torch.h>

#include <cstdio>

struct CosineImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& z, const torch::Tensor& a) {
    return a * torch::cos(z);
  }
};
TORCH_MODULE(Cosine);

int main() {
  // A batch of three samples, each with a state of one number.
  const auto a = torch::tensor({0.5, 1.0, 1.5}, torch::kDouble).view({3, 1}).requires_grad_();
  deq::Equilibrium layer{Cosine()};

  // Anderson keeps two iterates: more say nothing new about a state of one number.
  const deq::Tolerance tol{.rtol = 1e-6};
  for (const deq::SolverOptions& options :
       {deq::SolverOptions(deq::Picard{.tol = tol}),
        deq::SolverOptions(deq::Anderson{.memory = 2, .tol = tol}),
        deq::SolverOptions(deq::Broyden{.tol = tol})}) {
    const deq::Solver solver(options);
    const auto report = layer->forward({a}, {.solver = &solver}).report;
    for (int i = 0; i < 3; ++i) {
      const auto& sample = report.samples[i];
      std::printf("%-8s a = %.1f: %s after %d evaluations\n", deq::solver_name(options).data(),
                  a[i].item<double>(), deq::status_name(sample.status).data(),
                  static_cast<int>(sample.evaluations));
    }
  }

  const deq::EquilibriumPlan precise(
      {.forward = deq::Broyden{.tol = {.rtol = 1e-12}},
       .gradient = deq::Implicit{.solver = deq::Broyden{.tol = {.rtol = 1e-12}}}});
  const auto eq = layer->forward({a}, {.plan = &precise});
  const auto rho = deq::spectral_radius(eq.linearization()).rho;
  eq.z().sum().backward();  // frees the graph that the linearisation shares, so it comes last
  const auto z = eq.z().detach();
  const auto formula = torch::cos(z) / (1 + a.detach() * torch::sin(z));
  for (int i = 0; i < 3; ++i) {
    std::printf("a = %.1f: z* = %.6f, spectral radius %.4f, dz*/da = %.6f (by hand %.6f)\n",
                a[i].item<double>(), z[i].item<double>(), rho[i], a.grad()[i].item<double>(),
                formula[i].item<double>());
  }
}
