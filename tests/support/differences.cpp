#include "support/differences.h"

namespace deq::test {

torch::Tensor numeric_gradient(const std::function<double()>& loss, torch::Tensor tensor,
                               double spacing) {
  const torch::NoGradGuard no_grad;
  auto values = tensor.detach().view(-1);
  auto gradient = torch::zeros_like(values);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double centre = values[i].item<double>();
    const auto at = [&](double steps) {
      values[i] = centre + steps * spacing;
      return loss();
    };
    gradient[i] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * spacing);
    values[i] = centre;
  }
  return gradient.view(tensor.sizes());
}

double largest_entry(const torch::Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

}  // namespace deq::test
