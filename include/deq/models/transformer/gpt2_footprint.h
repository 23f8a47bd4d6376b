#pragma once

#include <cstdint>

#include "deq/models/transformer/gpt2_options.h"

namespace deq::models {

/// What a process computes at once, and with how many others it shares every layer.
struct Gpt2Load {
  int64_t parts = 1;     ///< processes that share a layer, ≥ 1
  int64_t batch = 1;     ///< rows of a micro-batch, ≥ 1
  int64_t words = 1024;  ///< of a row, ≥ 1 and at most the model's positions
};

/// Bytes that activations take from forward to backward, in 16 bits and with masks of a byte each
/// (Korthikanti et al. 2022). The formulas hold for inner features of four times the width.
struct Gpt2Activations {
  double everything = 0;  ///< of all layers
  double no_scores = 0;  ///< the same without attention's scores, which fused attention makes again
  double inputs_only = 0;  ///< of every layer its input, and of one layer, made again, everything
  double outside = 0;  ///< of the layers: embedding, last norm, and the words' scores in float32
};

Gpt2Activations gpt2_activations(const Gpt2Options& options, const Gpt2Load& load);

/// What one process holds in training with Adam in mixed precision, in bytes.
struct Gpt2Footprint {
  int64_t parameters = 0;  ///< numbers, not bytes
  double weights = 0;      ///< bfloat16
  double gradients = 0;    ///< bfloat16
  double optimiser = 0;    ///< float32: master weights and two moments
  Gpt2Activations activations;

  double states() const { return weights + gradients + optimiser; }
};

/// Throws Error naming the field, its value and the constraint. Nothing is allocated.
Gpt2Footprint gpt2_footprint(const Gpt2Options& options, const Gpt2Load& load);

}  // namespace deq::models
