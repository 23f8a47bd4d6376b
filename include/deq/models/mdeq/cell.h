#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "deq/core/cell.h"
#include "deq/models/mdeq/options.h"

namespace deq::models {

class MdeqBlockImpl;
class MdeqFusion;
class MdeqStart;

/// One layer of a multiscale DEQ. Its input is the injection [B, C₀, H, W], which enters the finest
/// scale; its state is one image per scale, [B, Cᵢ, H/2ⁱ, W/2ⁱ]. A step runs the residual blocks of
/// every scale, then gives every scale the sum of all, resampled. A single scale has only blocks.
class MdeqCellImpl : public Cell {
 public:
  explicit MdeqCellImpl(const MdeqOptions& options, std::optional<at::Generator> generator = {});

  State initial_state(const Inputs& inputs) override;
  bool start_may_change() const override { return start_ != nullptr; }
  Context prepare(const Inputs& inputs) override;
  State step(const State& z, const Context& context) override;
  /// No number of its own changes once it is made.
  std::optional<ReplayKey> replay_key() const override { return ReplayKey{}; }

 private:
  std::vector<int64_t> channels_;
  std::vector<std::vector<std::shared_ptr<MdeqBlockImpl>>> branches_;  // blocks of each scale
  std::vector<std::shared_ptr<MdeqFusion>> fusions_;                   // one per scale
  std::shared_ptr<MdeqStart> start_;                                   // none: zeros
};
TORCH_MODULE(MdeqCell);

}  // namespace deq::models
