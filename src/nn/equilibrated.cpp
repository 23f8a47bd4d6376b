#include "adjoint/graph_leaves.h"
#include "core/jacobian_products.h"
#include "core/require.h"
#include "nn/check_inputs.h"
#include "nn/pass_tape.h"

namespace deq {
namespace {

/// What was made in inference mode cannot be part of a graph; a copy can.
torch::Tensor out_of_inference(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.is_inference() ? tensor.clone() : tensor;
}

}  // namespace

const BoundStep& Equilibrated::Tape::f() {
  if (bound_) return *bound_;
  std::optional<AutocastAs> as_it_was;
  if (!autocast.stands()) as_it_was.emplace(autocast);
  bound_ = BoundStep{
      .cell = cell, .layout = layout, .context = cell->prepare(inputs), .autocast = autocast};
  has_graph_ = torch::GradMode::is_enabled();
  return *bound_;
}

const BoundStep& Equilibrated::Tape::f_on_tape() {
  const c10::InferenceMode leave(false);
  const torch::AutoGradMode grad(true);
  if (bound_ && !has_graph_ && !cell->is_training()) bound_.reset();
  for (auto& input : inputs) input = out_of_inference(input);
  f();
  for (auto& tensor : bound_->context) tensor = out_of_inference(tensor);
  return *bound_;
}

void Equilibrated::Tape::prepare_to_evaluate_again() {
  evaluated_again_ = true;
  f();
  for (auto& tensor : bound_->context) {
    const bool is_leaf = tensor.defined() && tensor.requires_grad() && tensor.is_leaf();
    if (is_leaf) tensor = tensor.view_as(tensor);
  }
}

void Equilibrated::Tape::settle(const torch::Tensor& z) {
  z_star_ = z;
  since_settled_ = WriteCheck(z);
}

const Linearization& Equilibrated::Tape::linearize() {
  std::call_once(linearized_, [this] {
    require(!since_settled_.written(),
            "the state of this equilibrium was written to since it was solved for: write to a "
            "clone() of it, or call linearization() before");
    if (loan) {
      loan->get()->linearise(z_star_);
      at = recorded_linearization(inputs, z_star_, loan);
      return;
    }
    const auto& step = f_on_tape();
    const c10::InferenceMode leave(false);
    const torch::AutoGradMode grad(true);
    const auto z = out_of_inference(z_star_).detach().requires_grad_();
    // Casts that autocast remembers are older than f's graph, and made anew in backward.
    std::optional<AutocastAs> unremembered;
    if (evaluated_again_) unremembered.emplace(autocast);
    begin = graph_begins();
    at = Linearization(z, step(z));
    if (has_graph_) return;
    products_of(at).refuse_derivatives(
        "this pass was made in training mode and without gradients, so it has no graph of "
        "prepare() to differentiate: make it with gradients, or in eval mode");
  });
  return at;
}

bool Equilibrated::Tape::leads_anywhere() {
  if (loan) return !loan->get()->leaves(inputs).empty();
  return leads_beyond(products_of(at).f(), at.z());
}

const Report& Equilibrated::adjoint() const {
  require(adjoint_ != nullptr, "this equilibrium holds no solve");
  return *adjoint_;
}

bool Equilibrated::replayed() const {
  return tape_ != nullptr && tape_->replayed;
}

const Linearization& Equilibrated::linearization() const {
  require(tape_ != nullptr, "this equilibrium holds no solve");
  const PassScope pass;
  return tape_->linearize();
}

State Equilibrated::start() const {
  require(tape_ != nullptr, "this equilibrium holds no solve");
  return tape_->start.empty() ? tape_->cell->initial_state(tape_->inputs) : tape_->start;
}

State Equilibrated::stepped_from(const State& z) const {
  require(tape_ != nullptr, "this equilibrium holds no solve");
  require_defined(z, "state");
  require(!tape_->replayed || !tape_->cell->is_training(),
          "this pass was replayed, and prepare() may draw other numbers for a further step: turn "
          "replay off for passes in training mode that are stepped on from");
  const PassScope pass;
  return tape_->layout.unpack(tape_->f_on_tape()(tape_->layout.pack(z)));
}

Solution Equilibrated::solved_from(const State& start, const Solver& solver) const {
  require(tape_ != nullptr, "this equilibrium holds no solve");
  require_defined(start, "start");
  const PassScope pass;
  const auto f = without_gradients(tape_->f_on_tape());
  return solver.solve(Problem{.f = f}, tape_->layout.pack(start).detach());
}

}  // namespace deq
