#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

namespace deq {

/// A CPU generator of its own for each purpose: streams of one seed are independent, and drawing
/// more from one does not shift the others.
at::Generator random_stream(uint64_t seed, uint64_t stream);

/// A seed for something that has two numbers, such as sample `index` of epoch `stream`. Every
/// triple gives another, unrelated one.
uint64_t random_key(uint64_t seed, uint64_t stream, uint64_t index = 0);

}  // namespace deq
