#include "models/recurrent/repeated.h"

#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/autograd.h>
#include <torch/custom_class.h>

#include <array>
#include <utility>
#include <vector>

#include "core/autocast.h"
#include "core/require.h"
#include "kernels/common/affine.h"

namespace deq::models {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

namespace {

/// What the applications leave in a backward pass for the gradients of the parameters: for each of
/// several quantities, that of every application.
struct Applications : torch::CustomClassHolder {
  static constexpr size_t kQuantities = 4;
  std::array<tensor_list, kQuantities> left;

  void leave(const tensor_list& quantities) {
    for (size_t i = 0; i < quantities.size(); ++i) left[i].push_back(quantities[i]);
  }
  bool empty() const { return left.front().empty(); }
  /// One after the other, as rows; forgotten here.
  torch::Tensor take(size_t quantity) {
    const auto all = std::exchange(left[quantity], {});
    return all.size() == 1 ? all.front() : torch::cat(all, 0);
  }
};

// As torch's layer norms have it.
constexpr double kNormEps = 1e-5;

void refuse_second_derivatives() {
  require(!torch::GradMode::is_enabled(),
          "a recurrence's gradient cannot be differentiated again (create_graph)");
}

c10::intrusive_ptr<Applications> applications_of(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<Applications>(
      context->saved_data["applications"].toCapsule());
}

torch::Tensor rows_of(const torch::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

struct LinearMap {
  enum Left : size_t { kInputs, kGradients };

  static torch::Tensor value(const torch::Tensor& rows, const torch::Tensor& weight,
                             const torch::Tensor& bias, tensor_list& /*saved*/) {
    return kernels::affine(rows, weight.t(), bias);
  }

  static torch::Tensor input_gradient(const torch::Tensor& g, const torch::Tensor& /*rows*/,
                                      const torch::Tensor& weight, const tensor_list& /*saved*/) {
    return kernels::affine(g, weight);
  }

  static tensor_list left(const torch::Tensor& g, const torch::Tensor& rows,
                          const tensor_list& /*saved*/) {
    return {rows, g};
  }

  static tensor_list parameter_gradients(Applications& all, int64_t /*features*/) {
    const auto rows = all.take(kInputs), g = all.take(kGradients);
    return {kernels::affine(g.t(), rows), g.sum(0)};
  }
};

struct NormMap {
  enum Left : size_t { kInputs, kGradients, kMeans, kScales };

  static torch::Tensor value(const torch::Tensor& rows, const torch::Tensor& weight,
                             const torch::Tensor& bias, tensor_list& saved) {
    auto [y, mean, scale] = at::native_layer_norm(rows, {rows.size(-1)}, weight, bias, kNormEps);
    saved = {mean, scale};
    return y;
  }

  static torch::Tensor input_gradient(const torch::Tensor& g, const torch::Tensor& rows,
                                      const torch::Tensor& weight, const tensor_list& saved) {
    return gradients(g, rows, saved[0], saved[1], weight, {true, false, false})[0];
  }

  static tensor_list left(const torch::Tensor& g, const torch::Tensor& rows,
                          const tensor_list& saved) {
    return {rows, g, saved[0], saved[1]};
  }

  static tensor_list parameter_gradients(Applications& all, int64_t features) {
    const auto rows = all.take(kInputs), g = all.take(kGradients);
    const auto mean = all.take(kMeans), scale = all.take(kScales);
    // The numbers of the weight make no difference to its own gradient.
    const auto weight = rows.new_ones({features});
    const auto found = gradients(g, rows, mean, scale, weight, {false, true, true});
    return {found[1], found[2]};
  }

 private:
  static tensor_list gradients(const torch::Tensor& g, const torch::Tensor& rows,
                               const torch::Tensor& mean, const torch::Tensor& scale,
                               const torch::Tensor& weight, std::array<bool, 3> wanted) {
    // The bias is only asked whether there is one.
    auto [x, w, b] = at::native_layer_norm_backward(g, rows, {rows.size(-1)}, mean, scale, weight,
                                                    /*bias=*/weight, wanted);
    return {x, w, b};
  }
};

/// The parameters of all applications, as one tensor without numbers. Autograd comes here when it
/// has been to all of them.
template <class Map>
struct ParametersOf : torch::autograd::Function<ParametersOf<Map>> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& weight,
                               const torch::Tensor& /*bias*/, const c10::IValue& applications) {
    context->saved_data["applications"] = applications;
    context->saved_data["features"] = weight.size(0);
    return torch::empty({0}, weight.options());
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& /*gradients*/) {
    refuse_second_derivatives();
    auto& all = *applications_of(context);
    tensor_list result(3);
    if (all.empty()) return result;
    auto found = Map::parameter_gradients(all, context->saved_data["features"].toInt());
    for (size_t i = 0; i < found.size(); ++i) result[i] = std::move(found[i]);
    return result;
  }
};

/// One application. Its weight and bias are constants to autograd: their gradients are the token's.
template <class Map>
struct ApplicationOf : torch::autograd::Function<ApplicationOf<Map>> {
  enum Argument : size_t { kRows, kToken, kArguments = 5 };

  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& rows,
                               const torch::Tensor& /*token*/, const torch::Tensor& weight,
                               const torch::Tensor& bias, const c10::IValue& applications) {
    tensor_list saved;
    auto value = Map::value(rows, weight, bias, saved);
    saved.insert(saved.begin(), {rows, weight});
    context->save_for_backward(saved);
    context->saved_data["applications"] = applications;
    return value;
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    refuse_second_derivatives();
    auto saved = context->get_saved_variables();
    const auto rows = saved[0].detach(), weight = saved[1];
    saved.erase(saved.begin(), saved.begin() + 2);
    const auto g = gradients[0].contiguous();
    tensor_list result(kArguments);
    if (context->needs_input_grad(kRows)) {
      result[kRows] = Map::input_gradient(g, rows, weight, saved);
    }
    if (context->needs_input_grad(kToken)) {
      applications_of(context)->leave(Map::left(g, rows, saved));
    }
    return result;
  }
};

}  // namespace

Repeated::Repeated(Kind kind, const torch::Tensor& weight, const torch::Tensor& bias)
    : kind_(kind), applications_(c10::IValue::make_capsule(c10::make_intrusive<Applications>())) {
  // Autocast would cast inside, where the backward does not see it. It leaves norms as they are.
  const auto type = kind == Kind::Linear ? compute_type(weight) : weight.scalar_type();
  const auto w = weight.to(type), b = bias.to(type);
  token_ = kind == Kind::Linear ? ParametersOf<LinearMap>::apply(w, b, applications_)
                                : ParametersOf<NormMap>::apply(w, b, applications_);
  weight_ = w.detach();
  bias_ = b.detach();
}

Repeated Repeated::linear(const torch::Tensor& weight, const torch::Tensor& bias) {
  return {Kind::Linear, weight, bias};
}

Repeated Repeated::layer_norm(const torch::Tensor& weight, const torch::Tensor& bias) {
  return {Kind::LayerNorm, weight, bias};
}

torch::Tensor Repeated::operator()(const torch::Tensor& x) const {
  const auto rows = rows_of(x).to(weight_.scalar_type());
  const auto value =
      kind_ == Kind::Linear
          ? ApplicationOf<LinearMap>::apply(rows, token_, weight_, bias_, applications_)
          : ApplicationOf<NormMap>::apply(rows, token_, weight_, bias_, applications_);
  auto shape = x.sizes().vec();
  shape.back() = value.size(-1);
  return value.view(shape);
}

}  // namespace deq::models
