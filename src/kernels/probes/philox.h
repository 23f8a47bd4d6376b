#pragma once

#include <cstdint>

#include "kernels/common/host_device.h"

// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), for host and
// device: 128 random bits as a function of a key and a counter, without a state. Rounds are
// unrolled by the compiler's front end, so that loops around them vectorise. at::Philox4_32 gives
// the same bits as fast on the CPU (1.36 ns per normal number), but its header does not stand by
// itself under nvcc, and with what it needs probes_cuda.cu compiles in 16 s in place of 5.

namespace deq::kernels {

struct PhiloxBlock {
  uint32_t word[4];
};

template <int kRounds>
DEQ_HOST_DEVICE PhiloxBlock philox_rounds(const PhiloxBlock& in, uint32_t key0, uint32_t key1) {
  const uint64_t a = uint64_t{0xD2511F53} * in.word[0], b = uint64_t{0xCD9E8D57} * in.word[2];
  const PhiloxBlock out{
      {static_cast<uint32_t>(b >> 32) ^ in.word[1] ^ key0, static_cast<uint32_t>(b),
       static_cast<uint32_t>(a >> 32) ^ in.word[3] ^ key1, static_cast<uint32_t>(a)}};
  if constexpr (kRounds == 1) {
    return out;
  } else {
    return philox_rounds<kRounds - 1>(out, key0 + 0x9E3779B9, key1 + 0xBB67AE85);
  }
}

DEQ_HOST_DEVICE PhiloxBlock philox(uint64_t key, uint64_t low_counter, uint64_t high_counter) {
  const PhiloxBlock counter{
      {static_cast<uint32_t>(low_counter), static_cast<uint32_t>(low_counter >> 32),
       static_cast<uint32_t>(high_counter), static_cast<uint32_t>(high_counter >> 32)}};
  return philox_rounds<10>(counter, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
}

}  // namespace deq::kernels
