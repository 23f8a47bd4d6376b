#include "nn/replayed_function.h"

#include "nn/graph_work.h"
#include "nn/recordings.h"
#include "nn/replayed.h"

namespace deq {
namespace {

using Tensors = ReplayedFunction::Tensors;
using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

Tensors trained(const Modules& modules) {
  Tensors all;
  for (const auto& module : modules) {
    for (const auto& parameter : deq::trained(*module)) all.push_back(parameter);
  }
  return all;
}

/// Recording runs the work several times; for the statistics of modules it has not happened.
class UntouchedBuffers {
 public:
  explicit UntouchedBuffers(const Modules& modules) {
    for (const auto& module : modules) {
      for (const auto& buffer : module->buffers()) {
        buffers_.push_back(buffer);
        before_.push_back(buffer.clone());
      }
    }
  }
  ~UntouchedBuffers() {
    for (size_t i = 0; i < buffers_.size(); ++i) copy_into(buffers_[i], before_[i]);
  }
  UntouchedBuffers(const UntouchedBuffers&) = delete;
  UntouchedBuffers& operator=(const UntouchedBuffers&) = delete;

 private:
  Tensors buffers_, before_;
};

}  // namespace

/// Serves one call at a time, from its value to the end of its backward.
class RecordedFunction {
 public:
  RecordedFunction(const Modules& modules, const ReplayedFunction::Function& function,
                   const Tensors& like, bool differentiable)
      : parameters_(differentiable ? trained(modules) : Tensors()),
        work_(like.front().device(), parameters_) {
    const UntouchedBuffers untouched(modules);
    inputs_ = own_inputs(like, differentiable);
    value_graph_ = work_.record_forward([this, function, differentiable] {
      const torch::AutoGradMode on_tape(differentiable);
      value_ = function(inputs_);
    });
    if (!differentiable || !value_.requires_grad()) return;
    own_leaves_ = leaves_of(inputs_, parameters_);
    along_ = own_memory(value_);
    gradients_graph_ =
        work_.record_backward([this] { gradients_ = gradients_of(value_, own_leaves_, along_); });
  }

  torch::Tensor value(const Tensors& inputs) {
    copy_inputs(inputs_, inputs);
    value_graph_->replay();
    return value_.detach().clone();
  }

  const Tensors& gradients(const torch::Tensor& along) {
    copy_into(along_, along);
    gradients_graph_->replay();
    return gradients_;
  }

  bool differentiable() const { return gradients_graph_ != nullptr; }
  Tensors leaves(const Tensors& inputs) const { return leaves_of(inputs, parameters_); }

 private:
  Tensors parameters_, inputs_, own_leaves_, gradients_;
  torch::Tensor value_, along_;
  GraphWork work_;
  std::unique_ptr<DeviceGraph> value_graph_, gradients_graph_;
};

struct ReplayedFunction::Cache : Recordings<RecordedFunction> {};

ReplayedFunction::ReplayedFunction(Modules modules, Function function)
    : modules_(std::move(modules)),
      function_(std::move(function)),
      cache_(std::make_unique<Cache>()) {}

ReplayedFunction::~ReplayedFunction() = default;

torch::Tensor ReplayedFunction::operator()(const Tensors& inputs) {
  const auto device = inputs.front().device();
  if (!records_graphs(device)) return function_(inputs);
  const bool differentiable = torch::GradMode::is_enabled();
  RecordingSignature signature(device);
  signature.add(differentiable ? 1 : 0);
  for (const auto& input : inputs) signature.add(input);
  for (const auto& module : modules_) cache_->add(*module, signature);
  const auto recorded = cache_->lend(signature, [&] {
    return std::make_shared<RecordedFunction>(modules_, function_, inputs, differentiable);
  });
  if (!recorded) return function_(inputs);
  auto value = recorded->value(inputs);
  if (!recorded->differentiable()) return value;
  return replayed(recorded->leaves(inputs), value,
                  [recorded](const torch::Tensor& g) { return recorded->gradients(g); });
}

}  // namespace deq
