#pragma once

#include <string_view>
#include <variant>

namespace deq::lab {

/// Adam (Kingma & Ba 2015); weight decay is added to the gradient.
struct Adam {
  double beta1 = 0.9;       ///< in [0, 1)
  double beta2 = 0.999;     ///< in [0, 1)
  double eps = 1e-8;        ///< > 0
  double weight_decay = 0;  ///< ≥ 0
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019).
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

/// Stochastic gradient descent with momentum.
struct Sgd {
  double momentum = 0.9;    ///< in [0, 1)
  bool nesterov = true;     ///< needs momentum > 0
  double weight_decay = 0;  ///< ≥ 0
};

using OptimiserOptions = std::variant<Adam, AdamW, Sgd>;

/// "adam", "adamw", "sgd".
std::string_view name(const OptimiserOptions& options);

/// Throws Error unless every field is in its range.
void validate(const OptimiserOptions& options);

}  // namespace deq::lab
