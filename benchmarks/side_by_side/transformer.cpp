#include "deq/models/transformer/transformer.h"

#include "deq/jacobian/frobenius.h"
#include "side_by_side/subject.h"

namespace {

class Transformer final : public Subject {
 public:
  explicit Transformer(deq::lab::TensorFile file) : Subject(std::move(file)), model_(options()) {
    load_weights();
    keep_first(tensor("tokens").size(0));
  }

  torch::nn::Module& model() override { return *model_; }

  void infer(const deq::EquilibriumPlan& plan) override { forward(plan); }

  torch::Tensor loss(const deq::EquilibriumPlan& plan, bool penalised) override {
    const auto output = forward(plan);
    auto loss = output.nll.mean();
    if (penalised) loss = loss + deq::jacobian_penalty(output.reading.equilibrium.linearization());
    return loss;
  }

  deq::lab::TensorFile check() override {
    auto cell = model_->cell();
    const auto context = cell->prepare(model_->cell_inputs(model_->inject(tokens_), memory_));
    const auto f = cell->step({tensor("z")}, context)[0];
    const auto nll = model_->cost(f, targets_);
    nll.mean().backward();
    deq::lab::TensorFile answer;
    answer.tensors["f"] = f;
    answer.tensors["nll"] = nll;
    return answer;
  }

  void keep_first(int64_t samples) override {
    const auto part = [&](const char* name) { return tensor(name).narrow(0, 0, samples); };
    tokens_ = part("tokens");
    targets_ = part("targets");
    memory_ = {
        .capacity = tensor("memory.z").size(1), .z = part("memory.z"), .u = part("memory.u")};
  }

 private:
  /// The sizes are the peer's, read from its weights.
  deq::models::TransformerOptions options() const {
    deq::models::TransformerOptions options;
    options.d_model = options.d_embed = tensor("memory.z").size(2);
    options.heads = tensor("param.func.dec_attn.r_w_bias").size(0);
    options.d_head = tensor("param.func.dec_attn.r_w_bias").size(1);
    options.d_inner = tensor("param.func.pos_ff.ff1_net.bias").size(0);
    options.dropout = options.attention_dropout = 0;
    return options;
  }

  deq::models::TransformerOutput forward(const deq::EquilibriumPlan& plan) {
    return model_->forward(tokens_, targets_, memory_, plan);
  }

  deq::models::DeqTransformer model_;
  torch::Tensor tokens_, targets_;
  deq::models::TransformerMemory memory_;
};

}  // namespace

std::unique_ptr<Subject> make_transformer(deq::lab::TensorFile file) {
  return std::make_unique<Transformer>(std::move(file));
}
