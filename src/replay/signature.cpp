#include "replay/signature.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <sstream>

#include "core/float32_rounding.h"

namespace deq {
namespace {

using torch::nn::Module;

using AddOptions = void (*)(const Module& module, RecordingSignature& signature);

void add_nothing(const Module&, RecordingSignature&) {}

/// As text, which modules of torch print. It takes microseconds.
void add_printed(const Module& module, RecordingSignature& signature) {
  std::ostringstream text;
  module.pretty_print(text);
  signature.add(static_cast<int64_t>(std::hash<std::string>()(text.str())));
}

template <class Norm>
void add_batch_norm(const Module& module, RecordingSignature& signature) {
  const auto& options = static_cast<const Norm&>(module).options;
  // Without momentum it is the mean over all.
  signature.add(options.eps()).add(options.momentum().value_or(-1.0));
}

void add_eps(const Module& module, RecordingSignature& signature) {
  signature.add(static_cast<const torch::nn::LayerNormImpl&>(module).options.eps());
}

void add_groups(const Module& module, RecordingSignature& signature) {
  const auto& options = static_cast<const torch::nn::GroupNormImpl&>(module).options;
  signature.add(options.num_groups()).add(options.eps());
}

void add_probability(const Module& module, RecordingSignature& signature) {
  signature.add(static_cast<const torch::nn::DropoutImpl&>(module).options.p());
}

void add_convolution(const Module& module, RecordingSignature& signature) {
  const auto& options = static_cast<const torch::nn::Conv2dImpl&>(module).options;
  for (const auto stride : *options.stride()) signature.add(stride);
  for (const auto dilation : *options.dilation()) signature.add(dilation);
  signature.add(options.groups());
  signature.add(static_cast<int64_t>(options.padding_mode().index()));
  signature.add(static_cast<int64_t>(options.padding().index()));
  if (const auto* numbers = std::get_if<torch::ExpandingArray<2>>(&options.padding())) {
    for (const auto padding : **numbers) signature.add(padding);
  }
}

template <class Kind>
bool is(const Module& module) {
  return dynamic_cast<const Kind*>(&module) != nullptr;
}

/// The common modules of torch are read, the others print themselves.
AddOptions options_of(const Module& module) {
  namespace nn = torch::nn;
  // No option of these is read once they are made, or it does not change what they compute.
  if (is<nn::LinearImpl>(module) || is<nn::ReLUImpl>(module) || is<nn::SequentialImpl>(module)) {
    return add_nothing;
  }
  if (is<nn::Conv2dImpl>(module)) return add_convolution;
  if (is<nn::BatchNorm1dImpl>(module)) return add_batch_norm<nn::BatchNorm1dImpl>;
  if (is<nn::BatchNorm2dImpl>(module)) return add_batch_norm<nn::BatchNorm2dImpl>;
  if (is<nn::GroupNormImpl>(module)) return add_groups;
  if (is<nn::LayerNormImpl>(module)) return add_eps;
  if (is<nn::DropoutImpl>(module)) return add_probability;
  std::ostringstream text;
  module.pretty_print(text);
  return text.str() == module.name() ? add_nothing : add_printed;
}

// Constants of splitmix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

}  // namespace

RecordingSignature::RecordingSignature(const torch::Device& device) {
  add(device.index());
  // What is recorded for one stream shares workspaces, and must not be replayed on two at a time.
  add(c10::impl::VirtualGuardImpl(device.type()).getStream(device).id());
  add_precision(device);
  add_algorithms();
}

void RecordingSignature::add_precision(const torch::Device& device) {
  const auto& context = at::globalContext();
  add(at::autocast::is_autocast_enabled(device.type()));
  add(static_cast<int64_t>(at::autocast::get_autocast_dtype(device.type())));
  add(static_cast<int64_t>(c10::typeMetaToScalarType(c10::get_default_dtype())));
  for (const auto setting : float32_settings()) add(setting);
  add(at::NoTF32Guard::should_disable_tf32());
  add(static_cast<int64_t>(context.allowFP16ReductionCuBLAS()));
  add(static_cast<int64_t>(context.allowBF16ReductionCuBLAS()));
  add(context.allowFP16AccumulationCuBLAS());
  add(context.allowFP16BF16ReductionMathSDP());
  add(context.allowFP16ReductionCPU());
}

void RecordingSignature::add_algorithms() {
  auto& context = at::globalContext();
  add(context.deterministicAlgorithms());
  add(context.deterministicFillUninitializedMemory());
  add(context.deterministicCuDNN()).add(context.benchmarkCuDNN());
  add(context.userEnabledCuDNN()).add(context.userEnabledMkldnn());
  add(context.userEnabledFlashSDP()).add(context.userEnabledMemEfficientSDP());
  add(context.userEnabledMathSDP()).add(context.userEnabledCuDNNSDP());
  for (const auto backend : context.sDPPriorityOrder()) add(static_cast<int64_t>(backend));
  add(static_cast<int64_t>(context.blasPreferredBackend()));
  add(static_cast<int64_t>(context.linalgPreferredBackend()));
}

RecordingSignature& RecordingSignature::mix(uint64_t bits) {
  first_ = mixed(first_ + bits + 0x9e3779b97f4a7c15ULL);
  second_ = mixed((second_ ^ bits) + 0xd1b54a32d192ed03ULL);
  return *this;
}

RecordingSignature& RecordingSignature::add(const ReplayKey& key) {
  add(static_cast<int64_t>(key.size()));
  for (const double number : key) add(number);
  return *this;
}

RecordingSignature& RecordingSignature::add(const torch::Tensor& tensor) {
  if (!tensor.defined()) return add(-1);
  add(tensor.dim()).add(static_cast<int64_t>(tensor.scalar_type()));
  add(tensor.requires_grad());
  for (const auto size : tensor.sizes()) add(size);
  for (const auto stride : tensor.strides()) add(stride);
  return *this;
}

RecordingSignature& RecordingSignature::add_address(const torch::Tensor& tensor) {
  add(tensor);
  if (!tensor.defined()) return *this;
  return add(static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor.const_data_ptr())));
}

namespace {

/// A module's own parameters where they are: parameters() copies them together with their names,
/// which takes longer than all that the host does for a small solve.
struct OwnParameters : Module {
  static const torch::OrderedDict<std::string, torch::Tensor>& of(const Module& module) {
    return module.*&OwnParameters::parameters_;
  }
};

}  // namespace

void ModuleStates::add(const Module& module, RecordingSignature& signature) {
  std::vector<std::shared_ptr<Module>> parts;
  module.apply([&parts](const std::shared_ptr<Module>& part) { parts.push_back(part); });
  const auto same = [](const Part& known, const std::shared_ptr<Module>& part) {
    return known.module.lock() == part;
  };
  const std::lock_guard lock(mutex_);
  auto& known = known_[&module];
  if (!std::equal(known.begin(), known.end(), parts.begin(), parts.end(), same)) {
    known.clear();
    for (const auto& part : parts) known.push_back({part, options_of(*part)});
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    signature.add(parts[i]->is_training());
    known[i].add_options(*parts[i], signature);
    const auto& parameters = OwnParameters::of(*parts[i]);
    signature.add(parameters.size());
    for (const auto& parameter : parameters) signature.add_address(parameter.value());
    const auto buffers = parts[i]->buffers(/*recurse=*/false);
    signature.add(buffers.size());
    for (const auto& buffer : buffers) signature.add_address(buffer);
  }
}

}  // namespace deq
