#include "deq/nn/fixed_point.h"

#include "core/require.h"

namespace deq {
namespace {

class FunctionCell final : public Cell {
 public:
  explicit FunctionCell(std::function<State(const State&)> f) : f_(std::move(f)) {}

  State initial_state(const Inputs&) override { throw Error("a function has no state of its own"); }
  State step(const State& z, const Context&) override { return f_(z); }

 private:
  std::function<State(const State&)> f_;
};

}  // namespace

Equilibrated fixed_point(std::function<State(const State&)> f, const State& z0,
                         const EquilibriumOptions& options) {
  require(f != nullptr, "fixed_point: f is empty, must be something that can be called");
  require(!z0.empty(), "fixed_point: z0 holds no tensor");
  Equilibrium layer(std::make_shared<FunctionCell>(std::move(f)), options);
  return layer->forward(Inputs{}, {.start = z0});
}

}  // namespace deq
