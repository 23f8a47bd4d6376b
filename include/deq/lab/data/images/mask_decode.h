#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string_view>

namespace deq::lab {

/// The number of pixels that belong to no class and do not count.
inline constexpr int64_t kIgnoredLabel = 255;

/// The class numbers of a PNG file's pixels as uint8 [H, W]: its grey values, or the indices into
/// its palette, of 8 bits or fewer and as they are in the file. Colours, transparency and 16 bits
/// are an Error, as is whatever decode_image() refuses.
torch::Tensor decode_mask(std::string_view bytes);

}  // namespace deq::lab
