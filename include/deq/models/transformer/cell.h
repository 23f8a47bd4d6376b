#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>

#include "deq/core/cell.h"
#include "deq/models/transformer/options.h"

namespace deq::models {

class TransformerAttention;
class TransformerFeedForward;
class TransformerStart;

/// One Transformer layer with relative positions. Its state is z [B, q, d_model]; its inputs are
///   the injections into queries, keys and values [B, q, 3·heads·d_head],
///   the distances of the m + q keys, encoded [m + q, d_model], the farthest first,
/// and where there is a memory of m > 0 positions, its states [B, m, d_model] and its injections
/// [B, m, 3·heads·d_head].
class TransformerCellImpl : public Cell {
 public:
  explicit TransformerCellImpl(const TransformerOptions& options,
                               const std::optional<at::Generator>& generator = {});

  State initial_state(const Inputs& inputs) override;
  bool start_may_change() const override { return start_ != nullptr; }
  Context prepare(const Inputs& inputs) override;
  State step(const State& z, const Context& context) override;
  /// No number of its own changes once it is made.
  std::optional<ReplayKey> replay_key() const override { return ReplayKey{}; }

 private:
  void check(const Inputs& inputs) const;

  int64_t d_model_, d_injection_;
  std::shared_ptr<TransformerAttention> attention_;
  std::shared_ptr<TransformerFeedForward> feed_forward_;
  std::shared_ptr<TransformerStart> start_;  // none: zeros
};
TORCH_MODULE(TransformerCell);

}  // namespace deq::models
