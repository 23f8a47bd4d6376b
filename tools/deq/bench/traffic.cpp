#include "bench/traffic.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace deq::lab::cli {
namespace {

enum class Kind {
  MovesNothing,  ///< a view, or memory that is only taken
  Whole,         ///< one kernel or several that belong together: what it calls is not counted
  Perhaps,       ///< counted unless it is made of others
};

struct Call : at::ObserverContext {
  Kind kind = Kind::MovesNothing;
  bool of_others = false;
  double read = 0;
  Call* caller = nullptr;
};

struct Count {
  double bytes = 0;
  Call* innermost = nullptr;
};

thread_local Count counted;  // callbacks are plain functions

double bytes_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    return tensor.defined() ? static_cast<double>(tensor.nbytes()) : 0;
  }
  double sum = 0;
  if (value.isTensorList()) {
    for (const auto& tensor : value.toTensorVector()) sum += bytes_of(tensor);
  }
  return sum;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

Kind kind_of(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  if (name.starts_with("deq::")) return Kind::Whole;
  if (name.starts_with("aten::empty") || name.starts_with("aten::new_empty")) {
    return Kind::MovesNothing;
  }
  const bool view = std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
  return view ? Kind::MovesNothing : Kind::Perhaps;
}

/// Whether the old values of an argument matter.
bool is_read(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  if (!written) return true;
  return !argument.is_out() &&
         !is_one_of(schema.name(), {"aten::copy_", "aten::zero_", "aten::fill_"});
}

double bytes_read(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> inputs) {
  double sum = 0;
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < std::min(inputs.size(), arguments.size()); ++i) {
    if (is_read(schema, arguments[i])) sum += bytes_of(inputs[i]);
  }
  return sum;
}

bool inside_a_whole_one(const Call* call) {
  for (; call != nullptr; call = call->caller) {
    if (call->kind == Kind::Whole) return true;
  }
  return false;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  auto call = std::make_unique<Call>();
  call->caller = counted.innermost;
  const auto name = function.operator_name();
  const auto found =
      name ? c10::Dispatcher::singleton().findSchema(*name) : std::optional<c10::OperatorHandle>();
  if (found && !inside_a_whole_one(call->caller)) {
    call->kind = kind_of(found->schema());
    call->read = bytes_read(found->schema(), function.inputs());
  }
  if (call->kind != Kind::MovesNothing) {
    for (auto* outer = call->caller; outer != nullptr; outer = outer->caller)
      outer->of_others = true;
  }
  counted.innermost = call.get();
  return call;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  auto& call = *static_cast<Call*>(context);
  counted.innermost = call.caller;
  const bool counts = call.kind == Kind::Whole || (call.kind == Kind::Perhaps && !call.of_others);
  if (!counts) return;
  counted.bytes += call.read;
  for (const auto& output : function.outputs()) counted.bytes += bytes_of(output);
}

}  // namespace

double bytes_moved(const std::function<void()>& work) {
  counted = {};
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end)
                                                     .needsInputs(true)
                                                     .needsOutputs(true)
                                                     .scopes({at::RecordScope::FUNCTION}));
  try {
    work();
  } catch (...) {
    at::removeCallback(handle);
    throw;
  }
  at::removeCallback(handle);
  return counted.bytes;
}

}  // namespace deq::lab::cli
