#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <string>
#include <vector>

#include "deq/core/cell.h"
#include "deq/models/monotone/options.h"

namespace deq::models {

struct MonotoneTier;

/// One step of a splitting of a monotone network. Its input is an image with a border of zeros,
/// [B, image_channels, S + 2, S + 2]; its state is one image per tier. Forward–backward's state is
/// z itself; Peaceman–Rachford's is u, of which equilibrium() makes z. Parameters have the names
/// that the authors' checkpoints have.
class MonotoneCellImpl : public Cell {
 public:
  explicit MonotoneCellImpl(const MonotoneOptions& options,
                            std::optional<at::Generator> generator = {});

  State initial_state(const Inputs& inputs) override;
  Context prepare(const Inputs& inputs) override;
  State step(const State& state, const Context& context) override;
  /// No number of its own changes once it is made.
  std::optional<ReplayKey> replay_key() const override { return ReplayKey{}; }

  /// z of a state that was solved for.
  State equilibrium(const State& state) const;

 private:
  struct TierParameters {
    torch::Tensor a, g;        // A = √|g| · a/‖a‖
    torch::Tensor b, h;        // B = h · b/‖b‖
    torch::Tensor down, gain;  // D = √|gain| · down/‖down‖; undefined on the last tier
  };
  std::vector<MonotoneTier> made_tiers() const;

  MonotoneOptions options_;
  torch::Tensor u_, bias_;
  std::vector<TierParameters> tiers_;
};
TORCH_MODULE(MonotoneCell);

}  // namespace deq::models
