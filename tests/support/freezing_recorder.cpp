#include "support/freezing_recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace deq::test {
namespace {

// Operations are seen before autograd is, so that a call is kept with what autograd saves of it.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, kKey);

struct Call {
  c10::OperatorHandle operation;
  torch::jit::Stack arguments, results;
};

thread_local std::vector<Call>* calls = nullptr;

void for_tensors(const c10::IValue& value, const std::function<void(const torch::Tensor&)>& visit) {
  if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
  if (value.isTensorList()) {
    for (const torch::Tensor& tensor : value.toTensorList()) visit(tensor);
  }
}

/// What was made by a call is made again where it was.
void copy_results(const torch::jit::Stack& from, const torch::jit::Stack& to) {
  std::vector<torch::Tensor> made, kept;
  for (const auto& value : from) for_tensors(value, [&](const auto& t) { made.push_back(t); });
  for (const auto& value : to) for_tensors(value, [&](const auto& t) { kept.push_back(t); });
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].data_ptr() != made[i].data_ptr()) kept[i].variable_data().copy_(made[i]);
  }
}

/// Arguments as they are now: autograd's changes of a tensor in place are not the graph's.
torch::jit::Stack frozen(const torch::jit::Stack& stack, size_t count) {
  torch::jit::Stack result;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    const auto& value = stack[i];
    if (value.isTensor() && value.toTensor().defined()) {
      result.emplace_back(value.toTensor().variable_data());
    } else if (value.isTensorList()) {
      c10::List<torch::Tensor> list;
      for (const torch::Tensor& tensor : value.toTensorList()) {
        list.push_back(tensor.variable_data());
      }
      result.emplace_back(std::move(list));
    } else {
      result.push_back(value);
    }
  }
  return result;
}

/// Made of other operations, each of which is seen by itself.
bool is_composite(const c10::OperatorHandle& operation, c10::DispatchKeySet keys) {
  const bool own = operation.operator_name().name.starts_with("deq::");
  if (own) {
    return keys.has_any(c10::autograd_dispatch_keyset) &&
           operation.hasKernelForDispatchKey(c10::DispatchKey::Autograd);
  }
  return operation.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !operation.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

void refuse_what_waits(const c10::OperatorHandle& operation) {
  static const std::set<std::string> kWaits{"aten::_local_scalar_dense", "aten::nonzero",
                                            "aten::equal", "aten::is_nonzero",
                                            "aten::masked_select"};
  if (kWaits.contains(operation.operator_name().name)) {
    throw std::runtime_error(operation.operator_name().name + " waits for the device");
  }
}

void observe_call(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  const bool composite = is_composite(operation, keys);
  if (calls == nullptr || composite) {
    operation.redispatchBoxed(keys & kBelow, stack);
    return;
  }
  refuse_what_waits(operation);
  auto arguments = frozen(*stack, operation.schema().arguments().size());
  {
    const c10::impl::ExcludeDispatchKeyGuard parts_unseen(kKey);
    operation.redispatchBoxed(keys & kBelow, stack);
  }
  calls->push_back(
      {operation, std::move(arguments), frozen(*stack, operation.schema().returns().size())});
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&observe_call>());
}

class FrozenCalls final : public DeviceGraph {
 public:
  explicit FrozenCalls(std::vector<Call> all) : calls_(std::move(all)) {}

  void replay() override {
    const torch::NoGradGuard values_only;
    const at::AutoDispatchBelowADInplaceOrView kernels_only;
    const c10::InferenceMode ordinary_tensors(false);
    for (const auto& call : calls_) {
      auto stack = call.arguments;
      call.operation.callBoxed(stack);
      copy_results(stack, call.results);
    }
  }

 private:
  std::vector<Call> calls_;
};

class FreezingRecorder final : public GraphRecorder {
 public:
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    work();  // as a GPU's recorder warms up
    std::vector<Call> own;
    {
      const c10::impl::IncludeDispatchKeyGuard seen(kKey);
      auto* const before = std::exchange(calls, &own);
      try {
        work();
      } catch (...) {
        calls = before;
        throw;
      }
      calls = before;
    }
    return std::make_unique<FrozenCalls>(std::move(own));
  }
  void begin_own_memory() override {}
};

}  // namespace

std::unique_ptr<GraphRecorder> make_freezing_recorder() {
  return std::make_unique<FreezingRecorder>();
}

}  // namespace deq::test
