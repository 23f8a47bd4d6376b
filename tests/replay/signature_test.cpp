#include "replay/signature.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <functional>

// Every setting of torch's that decides which numbers an operation gives makes another signature.

namespace deq {
namespace {

struct Setting {
  const char* name;
  std::function<void(at::Context&)> change, restore;
};

template <class Value>
Setting setting(const char* name, void (at::Context::*set)(Value), Value other, Value usual) {
  return {name, [=](at::Context& context) { (context.*set)(other); },
          [=](at::Context& context) { (context.*set)(usual); }};
}

std::vector<Setting> all_settings() {
  using at::Context;
  std::vector<Setting> settings{
      setting("TF32 products", &Context::setAllowTF32CuBLAS, true, false),
      setting("TF32 convolutions", &Context::setAllowTF32CuDNN, false, true),
      {"float16 sums", [](Context& c) { c.setAllowFP16ReductionCuBLAS(false); },
       [](Context& c) { c.setAllowFP16ReductionCuBLAS(true); }},
      {"bfloat16 sums", [](Context& c) { c.setAllowBF16ReductionCuBLAS(false); },
       [](Context& c) { c.setAllowBF16ReductionCuBLAS(true); }},
      setting("float16 accumulation", &Context::setAllowFP16AccumulationCuBLAS, true, false),
      setting("sums of attention", &Context::setAllowFP16BF16ReductionMathSDP, true, false),
      {"deterministic algorithms", [](Context& c) { c.setDeterministicAlgorithms(true, true); },
       [](Context& c) { c.setDeterministicAlgorithms(false, false); }},
      setting("filled memory", &Context::setDeterministicFillUninitializedMemory, false, true),
      setting("deterministic cuDNN", &Context::setDeterministicCuDNN, true, false),
      setting("cuDNN's benchmark", &Context::setBenchmarkCuDNN, true, false),
      setting("cuDNN", &Context::setUserEnabledCuDNN, false, true),
      setting("flash attention", &Context::setSDPUseFlash, false, true),
      setting("lean attention", &Context::setSDPUseMemEfficient, false, true),
      setting("plain attention", &Context::setSDPUseMath, false, true),
      setting("cuDNN's attention", &Context::setSDPUseCuDNN, false, true)};
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11
  // The newer settings alone: torch's older questions throw while these differ.
  for (const auto op : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN}) {
    const auto set = [op](at::Float32Precision precision) {
      return [=](Context& c) { c.setFloat32Precision(at::Float32Backend::CUDA, op, precision); };
    };
    const bool products = op == at::Float32Op::MATMUL;
    constexpr auto kTf32 = at::Float32Precision::TF32, kNone = at::Float32Precision::NONE;
    settings.push_back({"float32's precision", set(products ? kTf32 : at::Float32Precision::IEEE),
                        set(products ? kNone : kTf32)});
  }
#endif
  return settings;
}

TEST(SignatureTest, NoticesEverySettingAndItsReturn) {
  auto& context = at::globalContext();
  const auto now = [] { return RecordingSignature(torch::kCPU); };
  const auto before = now();
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(setting.name);
    setting.change(context);
    EXPECT_NO_THROW(EXPECT_NE(now(), before));
    setting.restore(context);
    EXPECT_EQ(now(), before);
  }
}

TEST(SignatureTest, NoticesThatTf32IsForbiddenForAWhile) {
  at::globalContext().setAllowTF32CuBLAS(true);
  const RecordingSignature before(torch::kCPU);
  {
    const at::NoTF32Guard exact;
    EXPECT_NE(RecordingSignature(torch::kCPU), before);
  }
  EXPECT_EQ(RecordingSignature(torch::kCPU), before);
  at::globalContext().setAllowTF32CuBLAS(false);
}

}  // namespace
}  // namespace deq
