#include "core/rng.h"

#include <ATen/CPUGeneratorImpl.h>

namespace deq {
namespace {

// The finaliser of SplitMix64 (Steele, Lea & Flood 2014): neighbouring numbers become unrelated
// seeds.
uint64_t scramble(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

at::Generator random_stream(uint64_t seed, uint64_t stream) {
  return at::make_generator<at::CPUGeneratorImpl>(scramble(scramble(seed) + stream));
}

uint64_t random_key(uint64_t seed, uint64_t stream, uint64_t index) {
  return scramble(scramble(scramble(seed) + stream) + index);
}

}  // namespace deq
