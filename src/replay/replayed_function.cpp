#include "replay/replayed_function.h"

#include <optional>

#include "core/autocast.h"
#include "replay/check.h"
#include "replay/graph_work.h"
#include "replay/recordings.h"
#include "replay/replayed.h"

namespace deq {

using Tensors = ReplayedFunction::Tensors;

/// Serves one call at a time, from its value to the end of its backward.
class RecordedFunction {
 public:
  RecordedFunction(const Modules& modules, ReplayedFunction::Function function, const Tensors& like,
                   bool differentiable, bool checked)
      : function_(std::move(function)),
        differentiable_(differentiable),
        work_(like.front().device(), modules, differentiable) {
    inputs_ = own_inputs(like, differentiable);
    value_graph_ = work_.record_forward([this] { value_ = evaluate(inputs_); });
    if (checked) check_.emplace(like.front().device());
    if (!differentiable || !value_.requires_grad()) return;
    along_ = own_memory(value_);
    gradients_graph_ =
        work_.record_backward([this] { gradients_ = gradients_of(value_, inputs_); });
  }

  torch::Tensor value(const Tensors& inputs) {
    copy_inputs(inputs_, inputs);
    check_ ? check_value(inputs) : value_graph_->replay();
    return value_.detach().clone();
  }

  const Tensors& gradients(const torch::Tensor& along) {
    copy_into(along_, along);
    check_ ? check_gradients() : gradients_graph_->replay();
    return gradients_;
  }

  bool differentiable() const { return gradients_graph_ != nullptr; }
  Tensors leaves(const Tensors& inputs) const { return leaves_of(inputs, work_.parameters()); }

 private:
  torch::Tensor evaluate(const Tensors& inputs) {
    const torch::AutoGradMode on_tape(differentiable_);
    auto value = function_(inputs);
    work_.ends().redirect(value);
    return value;
  }

  Tensors gradients_of(const torch::Tensor& value, const Tensors& inputs) {
    return work_.ends().gradients(value, leaves_of(inputs), along_);
  }

  void check_value(const Tensors& inputs) {
    evaluated_inputs_ = own_inputs(inputs, differentiable_);
    check_->replay_and_evaluate(
        work_, "its value", [this] { value_graph_->replay(); },
        [this] { evaluated_ = evaluate(evaluated_inputs_); });
    check_->expect_same("its value", value_, evaluated_);
  }

  void check_gradients() {
    const NoAutocast in_forward_types(along_.device());
    Tensors values;
    check_->replay_and_evaluate(
        work_, "its gradients", [this] { gradients_graph_->replay(); },
        [&] { values = gradients_of(evaluated_, evaluated_inputs_); });
    check_->expect_same_gradients("its gradients", gradients_, values);
  }

  ReplayedFunction::Function function_;
  bool differentiable_;
  Tensors inputs_, gradients_;
  torch::Tensor value_, along_;
  GraphWork work_;
  std::unique_ptr<DeviceGraph> value_graph_, gradients_graph_;

  std::optional<ReplayCheck> check_;  // where replays are checked
  Tensors evaluated_inputs_;
  torch::Tensor evaluated_;
};

struct ReplayedFunction::Cache : Recordings<RecordedFunction> {};

ReplayedFunction::ReplayedFunction(Modules modules, Function function)
    : modules_(std::move(modules)),
      function_(std::move(function)),
      cache_(std::make_unique<Cache>()) {}

ReplayedFunction::~ReplayedFunction() = default;

std::shared_ptr<RecordedFunction> ReplayedFunction::record(const Tensors& inputs, Replay replay,
                                                           const ReplayKey& key) {
  const auto device = inputs.front().device();
  if (replay == Replay::Off || PassScope::inside() || !records_graphs(device)) return nullptr;
  if (!all_are_on(device, inputs)) return nullptr;
  const bool differentiable = torch::GradMode::is_enabled();
  const bool checked = replay == Replay::Checked;
  RecordingSignature signature(device);
  signature.add(differentiable).add(checked).add(key);
  for (const auto& input : inputs) signature.add(input);
  for (const auto& module : modules_) cache_->add(*module, signature);
  return cache_->lend(signature, [&] {
    return std::make_shared<RecordedFunction>(modules_, function_, inputs, differentiable, checked);
  });
}

torch::Tensor ReplayedFunction::operator()(const Tensors& inputs, Replay replay,
                                           const ReplayKey& key, bool* was_replayed) {
  const auto recorded = record(inputs, replay, key);
  if (was_replayed != nullptr) *was_replayed = recorded != nullptr;
  const PassScope pass;
  if (!recorded) return function_(inputs);
  auto value = recorded->value(inputs);
  if (!recorded->differentiable()) return value;
  return replayed(recorded->leaves(inputs), value,
                  [recorded](const torch::Tensor& g) { return recorded->gradients(g); });
}

}  // namespace deq
