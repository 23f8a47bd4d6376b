#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <memory>
#include <optional>
#include <vector>

#include "deq/core/error.h"
#include "deq/core/replay.h"
#include "deq/core/state_layout.h"

namespace deq {

using Inputs = std::vector<torch::Tensor>;
using Context = std::vector<torch::Tensor>;

/// One layer f of an equilibrium model, split into what depends on z and what does not.
class Cell : public torch::nn::Module {
 public:
  /// z₀ for these inputs: its shapes are the state's shapes. It may have a graph, for a loss of its
  /// own (start_distance); a solve's gradients do not go there.
  virtual State initial_state(const Inputs& inputs) = 0;

  /// Whether initial_state() may give another state later for the same inputs: it draws, or
  /// parameters predict it. A pass then keeps the one that it began at.
  virtual bool start_may_change() const { return false; }

  /// All of f that is constant during a solve (injections, masks, normalised weights). Runs once
  /// per solve, on the tape. By default the inputs themselves.
  virtual Context prepare(const Inputs& inputs) { return inputs; }

  /// f(z). Must not keep tensors from one call to the next, nor write into z.
  virtual State step(const State& z, const Context& context) = 0;

  /// By a key the cell promises that prepare() and step() depend on their arguments, on the
  /// registered modules, parameters and buffers, and on these numbers, on nothing else; it may then
  /// be replayed on a GPU. Without one, as by default, it is evaluated at every call.
  virtual std::optional<ReplayKey> replay_key() const { return std::nullopt; }
};

/// A module with forward(z, x) is a cell: z has x's shape and starts at zero. It may have a
/// replay_key() as well.
template <class Layer>
concept InjectedModule = requires(Layer& module, const torch::Tensor& tensor) {
  { module.forward(tensor, tensor) } -> std::convertible_to<torch::Tensor>;
};

/// Makes a Cell of a module with forward(z, x).
template <InjectedModule Layer>
class InjectedCell final : public Cell {
 public:
  explicit InjectedCell(std::shared_ptr<Layer> module)
      : module_(register_module("module", std::move(module))) {}

  State initial_state(const Inputs& inputs) override { return {torch::zeros_like(inputs.at(0))}; }

  State step(const State& z, const Context& context) override {
    return {module_->forward(z[0], context[0])};
  }

  std::optional<ReplayKey> replay_key() const override {
    if constexpr (requires { module_->replay_key(); }) {
      return module_->replay_key();
    } else {
      return std::nullopt;
    }
  }

 private:
  std::shared_ptr<Layer> module_;
};

/// The cell of a module: itself, or wrapped.
template <class Layer>
std::shared_ptr<Cell> as_cell(const torch::nn::ModuleHolder<Layer>& holder) {
  if (holder.is_empty()) throw Error("a layer needs a module, got an empty holder");
  if constexpr (std::derived_from<Layer, Cell>) {
    return holder.ptr();
  } else {
    return std::make_shared<InjectedCell<Layer>>(holder.ptr());
  }
}

}  // namespace deq
