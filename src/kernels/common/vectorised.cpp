#include "kernels/common/vectorised.h"

#include <ATen/Version.h>

namespace deq::kernels {
namespace {

InstructionSet widest() {
  const auto capability = at::get_cpu_capability();
  if (capability == "AVX512") return InstructionSet::kAvx512;
  if (capability == "AVX2") return InstructionSet::kAvx2;
  return InstructionSet::kBaseline;
}

}  // namespace

const InstructionSet widest_instructions = widest();

}  // namespace deq::kernels
