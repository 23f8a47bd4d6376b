#include "deq/lab/data/batches/synthetic.h"

namespace deq::lab {

torch::Tensor synthetic_target(const torch::Tensor& x) {
  return 1.5 * x.pow(3) + x.square() - 5 * x + 2 * x.sin() - 3;
}

SyntheticSet draw_synthetic(int64_t samples, double x_min, double x_max, double noise,
                            at::Generator generator) {
  const auto x = torch::rand({samples, 1}, generator) * (x_max - x_min) + x_min;
  const auto y = synthetic_target(x) + noise * torch::randn({samples, 1}, generator);
  return {x, y};
}

}  // namespace deq::lab
