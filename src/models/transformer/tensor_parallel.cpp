#include "models/transformer/tensor_parallel.h"

#include <ATen/Context.h>
#include <ATen/core/ivalue.h>
#include <torch/autograd.h>
#include <torch/custom_class.h>

#include <mutex>

namespace deq::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool alone(const TensorGroup& group) {
  return !group || group->size() == 1;
}

torch::Tensor summed(const torch::Tensor& x, TensorParallel& group) {
  auto sum = x.detach().clone(torch::MemoryFormat::Contiguous);
  group.sum(sum);
  return sum;
}

/// What a node of the graph keeps of a group.
struct KeptGroup : torch::CustomClassHolder {
  explicit KeptGroup(TensorGroup kept) : group(std::move(kept)) {}
  TensorGroup group;
};

struct ToParts : torch::autograd::Function<ToParts> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const TensorGroup& group) {
    context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<KeptGroup>(group));
    return x.view_as(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto kept = context->saved_data["group"].toCapsule();
    return {summed(gradients[0], *static_cast<const KeptGroup&>(*kept).group), {}};
  }
};

struct SumOfParts : torch::autograd::Function<SumOfParts> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& x, const TensorGroup& group) {
    return summed(x, *group);
  }

  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0], {}};
  }
};

}  // namespace

torch::Tensor to_parts(const torch::Tensor& x, const TensorGroup& group) {
  return alone(group) ? x : ToParts::apply(x, group);
}

torch::Tensor sum_of_parts(const torch::Tensor& x, const TensorGroup& group) {
  return alone(group) ? x : SumOfParts::apply(x, group);
}

PartsNoise::PartsNoise(torch::Device device, uint64_t key, const TensorParallel& group)
    : device_(device) {
  auto generator = at::globalContext().defaultGenerator(device_);
  const std::lock_guard lock(generator.mutex());
  before_ = generator.get_state();
  generator.set_current_seed(key + static_cast<uint64_t>(group.rank()));
}

PartsNoise::~PartsNoise() {
  auto generator = at::globalContext().defaultGenerator(device_);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(before_);
}

}  // namespace deq::models
