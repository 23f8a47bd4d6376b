#pragma once

#include <cstddef>

namespace deq::models {

/// The tensors of a solve's context, in this order. Masks may be undefined. A head has d numbers,
/// or a few more where a GPU wants them aligned.
enum TransformerSlot : size_t {
  kInjection,  ///< what is added to queries, keys and values [B·q, 3·h·d], undefined without one
  kMemory,     ///< keys and values of the memory [2, h, B, hidden + m, d], or undefined
  kPositions,  ///< position_keys()
  kMask,       ///< attention_mask()
  kHidden,     ///< [hidden, 0]: no numbers, only how many keys are hidden
  kContentBias,       ///< [h, d]
  kPositionBias,      ///< [h, d]
  kAttentionDropout,  ///< [h·B, q, k]
  kQkvMatrix,
  kOutMatrix,
  kOutBias,
  kOutDropout,  ///< [B, 1, d_model]
  kInnerMatrix,
  kInnerBias,
  kInnerDropout,  ///< [B, 1, d_inner]
  kOuterMatrix,
  kOuterBias,
  kOuterDropout,  ///< [B, 1, d_model]
  kTransformerSlots
};

}  // namespace deq::models
