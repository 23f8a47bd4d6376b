#pragma once

// One build serves every machine: what vectorised() wraps is compiled for each of these instruction
// sets, and the widest one that the machine has is called.

namespace deq::kernels {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

/// The widest that this machine has, and that ATEN_CPU_CAPABILITY allows: the variable holds for
/// torch's own kernels too ("avx512", "avx2" or "default").
extern const InstructionSet widest_instructions;

/// Behind the parameters of what vectorised() takes: only what is inlined is compiled for the
/// instruction sets, and so are the functions that it calls.
#define DEQ_INLINED __attribute__((always_inline))

template <class Function>
struct Vectorised {
  template <class... Arguments>
  auto operator()(const Arguments&... arguments) const {
#ifdef __x86_64__
    switch (widest_instructions) {
      case InstructionSet::kAvx512:
        return with_avx512(arguments...);
      case InstructionSet::kAvx2:
        return with_avx2(arguments...);
      case InstructionSet::kBaseline:
        break;
    }
#endif
    return Function{}(arguments...);
  }

 private:
#ifdef __x86_64__
  // As torch understands these names. Named one by one, since of a function for another "arch" GCC
  // inlines nothing that it need not.
  template <class... Arguments>
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))) static auto with_avx512(
      const Arguments&... arguments) {
    return Function{}(arguments...);
  }
  template <class... Arguments>
  __attribute__((target("avx2,fma"))) static auto with_avx2(const Arguments&... arguments) {
    return Function{}(arguments...);
  }
#endif
};

/// Of a lambda that captures nothing and whose arguments may be references:
///   constexpr auto twice = vectorised([](float* x, int64_t n) DEQ_INLINED { … });
template <class Function>
constexpr Vectorised<Function> vectorised(Function /*function*/) {
  return {};
}

}  // namespace deq::kernels
