#pragma once

#include <torch/types.h>

#include <string_view>

#include "core/require.h"
#include "deq/lab/data/images/image_decode.h"

// One decoder per format. Each answers for bytes that begin with the format's signature, and throws
// Error with a reason that reads as a sentence after "a.jpg cannot be read: ".

namespace deq::lab::codecs {

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
          "the image is {} × {}, must have at most {} pixels", size.width, size.height,
          options.max_pixels);
}

/// Of a file that ends long before its pixels could: no memory is asked for in their name.
inline void require_enough(bool enough, std::string_view bytes, const ImageSize& size) {
  require(enough, "the file has {} bytes, too few for an image of {} × {}", bytes.size(),
          size.width, size.height);
}

}  // namespace deq::lab::codecs
