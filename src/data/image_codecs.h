#pragma once

#include <torch/types.h>

#include <string_view>

#include "deq/core/error.h"
#include "deq/data/image_decode.h"

// One decoder a format. Each answers for bytes that begin with the format's signature, and throws
// Error with a reason that reads as a sentence after "a.jpg cannot be read: ".

namespace deq::codecs {

bool is_jpeg(std::string_view bytes);
ImageSize jpeg_size(std::string_view bytes);
int64_t jpeg_channels(std::string_view bytes);
torch::Tensor decode_jpeg(std::string_view bytes, const DecodeOptions& options);

bool is_png(std::string_view bytes);
ImageSize png_size(std::string_view bytes);
int64_t png_channels(std::string_view bytes);
torch::Tensor decode_png(std::string_view bytes, const DecodeOptions& options);

inline void require_decodable(const ImageSize& size, const DecodeOptions& options) {
  // By division: the product of two sides from a header may overflow.
  require(size.height >= 1 && size.width >= 1 && size.height <= options.max_pixels / size.width,
          "the image is ", size.width, " × ", size.height, ", must have at most ",
          options.max_pixels, " pixels");
}

}  // namespace deq::codecs
