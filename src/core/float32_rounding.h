#pragma once

#include <array>
#include <cstdint>

namespace deq {

/// What torch's settings let happen to the factors of float32 products, as numbers that only mean
/// something to torch: products, convolutions and recurrent layers of a GPU, then of the CPU.
/// torch's older questions (allowTF32CuBLAS) throw where a program uses its newer settings; this
/// never does.
std::array<int64_t, 6> float32_settings();

/// Whether a GPU may round the factors of products, and those of convolutions, to TF32.
struct Tf32Allowed {
  bool products, convolutions;
};
Tf32Allowed tf32_allowed();

}  // namespace deq
