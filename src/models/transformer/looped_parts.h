#pragma once

#include "deq/models/transformer/looped_options.h"
#include "deq/models/transformer/options.h"
#include "deq/models/transformer/transformer_xl.h"

// A looped Transformer's options as those of what it is made of.

namespace deq::models {

/// Of so many explicit layers with embedding and softmax.
TransformerXlOptions explicit_part(const LoopedTransformerOptions& options, int64_t layers);

/// Of a layer of the core.
TransformerOptions core_layer(const LoopedTransformerOptions& options);

}  // namespace deq::models
