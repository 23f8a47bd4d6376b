// A multiscale DEQ that tells stripes apart: level, upright, or checked.
//
// After the training the same weights are used with several budgets: how many evaluations of f an
// image gets is chosen when the model is used, not when it is built. One evaluation only measures
// the state that a solve begins with; the classes are then guessed from nothing.
//
// Expected output (numbers to 10%):
//
//   budget 1: accuracy 33%
//   budget 2: accuracy 60%
//   budget 3: accuracy 96%
//   budget 6: accuracy 98%

#include <deq/models.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

struct Images {
  torch::Tensor pixels;  ///< [N, 1, 12, 12]
  torch::Tensor labels;  ///< [N]: 0 level, 1 upright, 2 checked
};

/// Stripes of random width and phase, under noise.
Images draw(int64_t count) {
  const auto labels = torch::arange(count) % 3;
  const auto along = torch::arange(12).view({1, 12});
  const auto waves = [&] {
    return torch::sin(along * (0.6 + torch::rand({count, 1})) + 2 * M_PI * torch::rand({count, 1}));
  };
  const auto level = waves().unsqueeze(2).expand({count, 12, 12});
  const auto upright = waves().unsqueeze(1).expand({count, 12, 12});
  const auto kind = labels.view({count, 1, 1});
  const auto clean =
      torch::where(kind == 0, level, torch::where(kind == 1, upright, level * upright));
  return {(clean + 0.5 * torch::randn({count, 12, 12})).unsqueeze(1), labels};
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
                                                             .classes = 3});
  const deq::EquilibriumPlan training(
      {.forward = deq::Anderson{.max_evals = 6},
       .gradient = deq::Implicit{.solver = deq::Anderson{.max_evals = 6}}});
  torch::optim::Adam optimiser(model->parameters(), 5e-3);
  for (int step = 0; step < 80; ++step) {
    const auto batch = draw(24);
    const auto output = model->forward(batch.pixels, training);
    const auto loss = torch::cross_entropy_loss(output.logits, batch.labels) +
                      0.1 * deq::jacobian_penalty(output.equilibrium.linearization());
    optimiser.zero_grad();
    loss.backward();
    optimiser.step();
  }

  model->eval();
  const torch::NoGradGuard no_grad;
  const auto unseen = draw(150);
  for (const int budget : {1, 2, 3, 6}) {
    const deq::EquilibriumOptions how{.forward = deq::Anderson{.max_evals = budget}};
    const auto output = model->forward(unseen.pixels, how);
    const auto right = output.logits.argmax(1).eq(unseen.labels).to(torch::kDouble).mean();
    std::printf("budget %d: accuracy %.0f%%\n", budget, 100 * right.item<double>());
  }
}
