#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string_view>

namespace deq::lab {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const ImageSize&) const = default;
};

struct DecodeOptions {
  int64_t max_pixels = 100'000'000;  ///< ≥ 1; a larger image is refused before it is decoded
  int64_t shrink = 1;                ///< 1, 2, 4 or 8: a JPEG is decoded at 1/shrink of its size
};

void validate(const DecodeOptions& options);

/// The size that the header of a JPEG or PNG file states.
ImageSize image_size(std::string_view bytes);

/// The channels that it states: 1 for grey, 3 for colour, one more with transparency, 4 for inks. A
/// palette counts as colour.
int64_t image_channels(std::string_view bytes);

/// The image of a JPEG or PNG file as uint8 [3, H, W] RGB, its channels last in memory. Grey, CMYK,
/// palettes and 16 bits are converted; transparency is dropped; orientation tags are not followed.
/// Whatever is damaged, incomplete or too large is an Error with the reason: there are no partial
/// images.
torch::Tensor decode_image(std::string_view bytes, const DecodeOptions& options = {});

}  // namespace deq::lab
