#pragma once

#include "deq/lab/data/text/vocabulary.h"
#include "deq/lab/io/safetensors.h"

namespace deq::lab {

/// The tensors that hold a vocabulary: counts int64 [V], ends int64 [V] into text uint8 [bytes].
TensorFile pack_vocabulary(const Vocabulary& vocabulary);

/// Error without a path when they hold none.
Vocabulary unpack_vocabulary(const TensorFile& file);

}  // namespace deq::lab
