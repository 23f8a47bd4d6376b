#include "deq/models/transformer/looped_cell.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/layer_norm.h>

#include <cstddef>
#include <string>

#include "core/require.h"
#include "kernels/common/tensor_cores.h"
#include "models/transformer/attention.h"
#include "models/transformer/context.h"
#include "models/transformer/feed_forward.h"
#include "models/transformer/linear.h"
#include "models/transformer/looped_parts.h"
#include "models/transformer/parameters.h"

namespace deq::models {
namespace {

/// A context begins with these; the slots of the layers follow, one layer after the other.
enum LoopedSlot : size_t {
  kStateMatrix,  ///< A of the adapter, to multiply with from the right
  kEntry,        ///< E e + b [B·q, …]
  kLoopedSlots
};

/// What one layer has of a context.
Context slots_of_layer(const Context& context, size_t layer) {
  const auto begin =
      context.begin() + static_cast<std::ptrdiff_t>(kLoopedSlots + layer * kTransformerSlots);
  return {begin, begin + kTransformerSlots};
}

}  // namespace

/// One layer of the core.
class LoopedLayer : public torch::nn::Module {
 public:
  LoopedLayer(const TransformerOptions& options, const std::optional<at::Generator>& generator)
      : attention_(register_module("dec_attn",
                                   std::make_shared<TransformerAttention>(options, generator))),
        feed_forward_(register_module(
            "pos_ff", std::make_shared<TransformerFeedForward>(options, generator))) {}

  Context prepare(const AttentionInputs& inputs) const {
    Context context(kTransformerSlots);
    attention_->prepare(context, inputs);
    feed_forward_->prepare(context, inputs.batch, inputs.numbers);
    return context;
  }

  torch::Tensor step(const torch::Tensor& h, const Context& context) const {
    return feed_forward_->step(attention_->step(h, context), context);
  }

 private:
  std::shared_ptr<TransformerAttention> attention_;
  std::shared_ptr<TransformerFeedForward> feed_forward_;
};

LoopedCellImpl::LoopedCellImpl(const LoopedTransformerOptions& options,
                               const std::optional<at::Generator>& generator)
    : d_model_((validate(options), options.d_model)),
      start_std_(options.start_std),
      adapter_(register_module("adapter", std::make_shared<TransformerLinear>(
                                              TransformerLinearOptions{.in = 2 * options.d_model,
                                                                       .out = options.d_model,
                                                                       .spread = options.init_std},
                                              generator))) {
  const auto list = register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  for (int64_t i = 0; i < options.core; ++i) {
    layers_.push_back(list->register_module(
        std::to_string(i), std::make_shared<LoopedLayer>(core_layer(options), generator)));
  }
  start_ = register_buffer("start", normal_numbers({d_model_}, start_std_, generator));
}

void LoopedCellImpl::check(const Inputs& inputs) const {
  const auto layers = layers_.size();
  require(inputs.size() == 2 || inputs.size() == 2 + layers,
          "looped transformer: {} inputs, must be the prelude's result and distances, and a memory "
          "for each of the {} layers",
          inputs.size(), layers);
  const auto& e = inputs[0];
  require(e.dim() == 3 && e.size(1) > 0 && e.size(2) == d_model_,
          "looped transformer: the prelude's result of shape {}, must be [B, q, {}] with q ≥ 1",
          e.sizes(), d_model_);
  const auto memory = inputs.size() == 2 ? 0 : inputs[2].size(1);
  require(inputs[1].dim() == 2 && inputs[1].size(0) == memory + e.size(1) &&
              inputs[1].size(1) == d_model_,
          "looped transformer: distances of shape {}, must be [{}, {}]", inputs[1].sizes(),
          memory + e.size(1), d_model_);
  const std::vector<int64_t> shape{e.size(0), memory, d_model_};
  for (size_t i = 2; i < inputs.size(); ++i) {
    require(inputs[i].sizes() == shape, "looped transformer: a memory of shape {}, must be {}",
            inputs[i].sizes(), c10::IntArrayRef(shape));
  }
}

State LoopedCellImpl::initial_state(const Inputs& inputs) {
  check(inputs);
  const auto& e = inputs[0];
  if (is_training()) return {torch::randn_like(e.detach()) * start_std_};
  return {start_.to(e.scalar_type()).expand(e.sizes()).contiguous()};
}

Context LoopedCellImpl::prepare(const Inputs& inputs) {
  check(inputs);
  const auto& e = inputs[0];
  const auto matrix = adapter_->matrix({.in = 2});
  const auto rows = matrix.size(0) / 2;
  const auto of_e = matrix.narrow(0, rows, rows);
  Context context(kLoopedSlots);
  context[kStateMatrix] = matrix.narrow(0, 0, rows);
  context[kEntry] =
      at::addmm(adapter_->bias_for(matrix), kernels::factor_of(e.flatten(0, 1), of_e), of_e);
  AttentionInputs seen{.batch = e.size(0),
                       .length = e.size(1),
                       .numbers = e.options().requires_grad(false),
                       .distances = inputs[1]};
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (inputs.size() > 2) seen.memory = inputs[2 + i];
    const auto slots = layers_[i]->prepare(seen);
    context.insert(context.end(), slots.begin(), slots.end());
  }
  return context;
}

torch::Tensor LoopedCellImpl::entry(const torch::Tensor& s, const Context& context) const {
  require(context.size() == kLoopedSlots + layers_.size() * kTransformerSlots,
          "looped transformer: this context was not made by the cell's prepare()");
  const auto& matrix = context[kStateMatrix];
  const auto h = at::addmm(context[kEntry], kernels::factor_of(s.flatten(0, 1), matrix), matrix)
                     .narrow(1, 0, d_model_)
                     .view(s.sizes());
  // Autocast may have left another type.
  return at::layer_norm(h.to(s.scalar_type()), d_model_);
}

State LoopedCellImpl::step(const State& s, const Context& context) {
  auto h = entry(s[0], context);
  for (size_t i = 0; i < layers_.size(); ++i) {
    h = layers_[i]->step(h, slots_of_layer(context, i));
  }
  return {h};
}

std::vector<torch::Tensor> LoopedCellImpl::layer_inputs(const State& s, const Context& context) {
  std::vector<torch::Tensor> inputs{entry(s[0], context)};
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    inputs.push_back(layers_[i]->step(inputs.back(), slots_of_layer(context, i)));
  }
  return inputs;
}

}  // namespace deq::models
