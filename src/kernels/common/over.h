#pragma once

namespace deq::kernels {

/// Which dimension of [B, tokens, features] an operation works along.
enum class Over {
  Features,  ///< the last
  Tokens,    ///< the last but one
};

}  // namespace deq::kernels
