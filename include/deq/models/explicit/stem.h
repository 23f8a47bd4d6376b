#pragma once

namespace deq::models {

/// How an explicit image network begins.
enum class Stem {
  Cifar,     ///< a 3×3 convolution that keeps the size, for images of 32×32
  ImageNet,  ///< a 7×7 convolution of stride 2 and a 3×3 max pooling of stride 2, for 224×224
};

}  // namespace deq::models
