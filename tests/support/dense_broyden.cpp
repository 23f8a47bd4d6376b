#include "support/dense_broyden.h"

#include "support/maps.h"

namespace deq::test {

DenseBroyden dense_broyden(const Map& f, const torch::Tensor& start, const Broyden& options) {
  const auto g_at = [&f](const torch::Tensor& z) { return (f(z.unsqueeze(0))[0] - z); };
  const auto first_inverse = -torch::eye(start.size(0), f64());
  auto z = start;
  auto g = g_at(z);
  auto inverse = first_inverse;
  int64_t updates = 0;
  DenseBroyden result{.norms = {g.norm().item<double>()}, .inverse = inverse};
  auto& norms = result.norms;
  const auto spent = [&] { return static_cast<int64_t>(norms.size()) >= options.max_evals; };
  while (!spent()) {
    result.inverse = inverse;
    const auto direction = -torch::mv(inverse, g);
    const double old = g.norm().item<double>();
    double length = 1.0;
    torch::Tensor new_g;
    for (int halvings = 0;; ++halvings) {
      new_g = g_at(z + length * direction);
      norms.push_back(new_g.norm().item<double>());
      const bool accepted = norms.back() <= (1 - 1e-4 * length) * old;
      if (!options.line_search || halvings == 5 || accepted) break;
      length *= 0.5;
      ++result.rejections;
      if (spent()) return result;
    }
    const auto s = length * direction;
    if (updates == options.memory) {
      result.inverse = inverse = first_inverse;
      updates = 0;
    } else {
      const auto inverse_y = torch::mv(inverse, new_g - g);
      const auto s_inverse = torch::mv(inverse.t(), s);
      inverse = inverse + torch::outer(s - inverse_y, s_inverse) / s.dot(inverse_y);
      ++updates;
    }
    z = z + s;
    g = new_g;
  }
  return result;
}

}  // namespace deq::test
