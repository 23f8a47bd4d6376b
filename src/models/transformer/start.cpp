#include "models/transformer/start.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/layer_norm.h>

#include "kernels/common/tensor_cores.h"

namespace deq::models {
namespace {

torch::Tensor mapped(const TransformerLinear& linear, const torch::Tensor& x) {
  const auto matrix = linear.matrix();
  return at::addmm(linear.bias_for(matrix), kernels::factor_of(x, matrix), matrix)
      .narrow(1, 0, linear.bias().size(0));
}

}  // namespace

TransformerStart::TransformerStart(const TransformerOptions& options,
                                   const std::optional<at::Generator>& generator) {
  const auto linear = [&](const char* name, int64_t in, double spread) {
    return register_module(
        name, std::make_shared<TransformerLinear>(
                  TransformerLinearOptions{.in = in, .out = options.d_model, .spread = spread},
                  generator));
  };
  inner_ = linear("inner", 3 * options.heads * options.d_head, -1);
  outer_ = linear("outer", options.d_model, 0);
}

torch::Tensor TransformerStart::predict(const torch::Tensor& injection) const {
  const auto u = injection.flatten(0, 1);
  const auto start = mapped(*outer_, mapped(*inner_, at::layer_norm(u, u.size(1))).relu());
  // Autocast may have left another type; that of the injection is the state's.
  return start.to(injection.scalar_type()).reshape({injection.size(0), injection.size(1), -1});
}

}  // namespace deq::models
