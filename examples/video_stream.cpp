// Warm starts over a video: a multiscale DEQ looks at stripes that move.
//
// A solve begins at the equilibrium of the picture before: the less a picture differs from it, the
// fewer evaluations are left to do. Even another picture's is a better start than zeros.
//
// Expected output (numbers to 20%):
//
//   a hundredth of a pixel   cold 14.0 evaluations, warm  2.1
//   a tenth of a pixel       cold 14.2 evaluations, warm  6.6
//   a pixel                  cold 14.3 evaluations, warm 10.8
//   anywhere                 cold 14.3 evaluations, warm 10.6

#include <deq/models.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <vector>

/// Stripes [N, 1, 12, 12] at these phases [N], level where `is_level` [N] says so, else upright.
torch::Tensor stripes(const torch::Tensor& phase, const torch::Tensor& is_level) {
  const auto waves = torch::sin(torch::arange(12).view({1, 12}) + phase.view({-1, 1}));
  const auto level = waves.unsqueeze(2).expand({-1, 12, 12});
  const auto upright = waves.unsqueeze(1).expand({-1, 12, 12});
  return torch::where(is_level.view({-1, 1, 1}), level, upright).unsqueeze(1);
}

torch::Tensor random_phase(int64_t count) {
  return 2 * M_PI * torch::rand({count});
}

int main() {
  torch::manual_seed(0);
  deq::models::MdeqClassifier model(deq::models::MdeqOptions{.image_channels = 1,
                                                             .channels = {8, 16},
                                                             .expansion = 2,
                                                             .groups = 4,
                                                             .dropout = 0,
                                                             .head_channels = {4, 8},
                                                             .final_channels = 32,
                                                             .classes = 2});
  const deq::EquilibriumPlan training(
      {.forward = deq::Anderson{.max_evals = 8},
       .gradient = deq::Implicit{.solver = deq::Anderson{.max_evals = 8}}});
  torch::optim::Adam optimiser(model->parameters(), 5e-3);
  for (int step = 0; step < 60; ++step) {
    const auto labels = torch::arange(24) % 2;
    const auto pictures = stripes(random_phase(24), labels == 0);
    const auto output = model->forward(pictures + 0.5 * torch::randn_like(pictures), training);
    const auto loss = torch::cross_entropy_loss(output.logits, labels) +
                      0.1 * deq::jacobian_penalty(output.equilibrium.linearization());
    optimiser.zero_grad();
    loss.backward();
    optimiser.step();
  }

  model->eval();
  const torch::NoGradGuard no_grad;
  const deq::Equilibrium layer(
      model->cell(),
      deq::EquilibriumOptions{.forward = deq::Broyden{.tol = {.rtol = 1e-3}, .max_evals = 60}});
  constexpr int kPictures = 40;
  const auto watch = [&](const char* what, auto&& next_phase) {
    deq::Stream stream(layer, {.compare_every = 1});
    const auto is_level = torch::ones({1}, torch::kBool);
    for (int k = 0; k < kPictures; ++k) {
      stream.next(model->inject(stripes(next_phase(k), is_level)));
    }
    const auto& cost = stream.cost();
    const auto per_picture = [&](int64_t evaluations) {
      return static_cast<double>(evaluations) / static_cast<double>(cost.compared);
    };
    std::printf("%-24s cold %4.1f evaluations, warm %4.1f\n", what, per_picture(cost.compared_cold),
                per_picture(cost.compared_warm));
  };
  for (const auto& [what, pixels] : std::vector<std::pair<const char*, double>>{
           {"a hundredth of a pixel", 0.01}, {"a tenth of a pixel", 0.1}, {"a pixel", 1.0}}) {
    watch(what, [pixels = pixels](int k) { return torch::full({1}, pixels * k); });
  }
  watch("anywhere", [](int) { return random_phase(1); });
}
