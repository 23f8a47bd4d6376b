#pragma once

#include <cstdint>

namespace deq {

/// What the numbers of one seed are drawn for; different purposes never share any.
enum RandomPurpose : uint64_t { kOrderOfAnEpoch, kSamplesOfAnEpoch };

}  // namespace deq
