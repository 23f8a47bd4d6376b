#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deq/lab/settings/recipe.h"

namespace deq::lab {

/// [data]: y = h(x) + noise, x uniform on [x_min, x_max].
struct SyntheticData {
  int64_t train_samples = 4096;
  int64_t valid_samples = 1000;
  double noise = 0.05;  ///< standard deviation
  double x_min = -2.0;
  double x_max = 2.0;
};

/// [model].
struct SyntheticModel {
  int64_t hidden = 50;
};

/// The scalar regression task. The defaults are the paper's, with one of its four gammas.
struct SyntheticConfig : Recipe {
  SyntheticConfig();

  SyntheticData data{};
  SyntheticModel model{};
};

}  // namespace deq::lab
