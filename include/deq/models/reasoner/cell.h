#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <optional>

#include "deq/core/cell.h"
#include "deq/models/reasoner/options.h"

namespace deq::models {

class ReasonerBlock;

/// One recursion of a reasoner. Its state is the answer y and the thought z, both [B, tokens,
/// width]; its input the embedded puzzle x of the same shape:
///
///   inner_steps times  z ← (1 − λ) z + λ block(z + y + x) + σ ε,  then
///                      y ← (1 − λ) y + λ block(y + z) + σ ε.
///
/// The noise ε, in training only, is drawn by prepare(): during a solve f is one function.
class ReasonerCellImpl : public Cell {
 public:
  explicit ReasonerCellImpl(const ReasonerOptions& options,
                            const std::optional<at::Generator>& generator = {});

  /// Zeros. A Reasoner brings its own start.
  State initial_state(const Inputs& inputs) override;
  Context prepare(const Inputs& inputs) override;
  State step(const State& state, const Context& context) override;
  std::optional<ReplayKey> replay_key() const override;

 private:
  void check(const Inputs& inputs) const;

  ReasonerOptions options_;
  std::shared_ptr<ReasonerBlock> block_;
};
TORCH_MODULE(ReasonerCell);

}  // namespace deq::models
