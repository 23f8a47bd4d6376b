#include "deq/models/transformer/gpt2_footprint.h"

#include "core/require.h"

// Per layer, with s words in each of b rows, width h, a heads and t processes that share it:
//
//   everything    s b h (10 + 24/t + 5 a s / (h t))
//   no scores     s b h (10 + 24/t)
//   its input     2 s b h

namespace deq::models {

Gpt2Activations gpt2_activations(const Gpt2Options& options, const Gpt2Load& load) {
  validate(options, load.parts);
  require(load.batch >= 1, "gpt2: a micro-batch of {} rows, must have ≥ 1", load.batch);
  require(load.words >= 1 && load.words <= options.positions,
          "gpt2: {} words in a row, must be from 1 to positions = {}", load.words,
          options.positions);
  const auto s = static_cast<double>(load.words), b = static_cast<double>(load.batch);
  const auto h = static_cast<double>(options.d_model), a = static_cast<double>(options.heads);
  const auto t = static_cast<double>(load.parts), layers = static_cast<double>(options.layers);
  const double sbh = s * b * h;
  const double no_scores = sbh * (10 + 24 / t), scores = sbh * 5 * a * s / (h * t);
  // A mask, the inputs of norm and softmax, and all scores.
  const double outside = sbh * (1 + 2 + 2) + 4 * s * b * static_cast<double>(options.vocabulary);
  return {.everything = layers * (no_scores + scores),
          .no_scores = layers * no_scores,
          .inputs_only = layers * 2 * sbh + no_scores + scores,
          .outside = outside};
}

Gpt2Footprint gpt2_footprint(const Gpt2Options& options, const Gpt2Load& load) {
  const auto activations = gpt2_activations(options, load);
  const auto count = parameter_count(options, load.parts);
  const auto numbers = static_cast<double>(count);
  return {.parameters = count,
          .weights = 2 * numbers,
          .gradients = 2 * numbers,
          .optimiser = (4 + 4 + 4) * numbers,
          .activations = activations};
}

}  // namespace deq::models
