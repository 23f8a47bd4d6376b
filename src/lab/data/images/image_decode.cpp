#include "deq/lab/data/images/image_decode.h"

#include "core/require.h"
#include "lab/data/images/image_codecs.h"

namespace deq::lab {
namespace {

[[noreturn]] void refuse(std::string_view bytes) {
  require(!bytes.empty(), "the file is empty");
  throw Error("it is neither JPEG nor PNG");
}

}  // namespace

void validate(const DecodeOptions& options) {
  require(options.max_pixels >= 1, "decode: max_pixels = {}, must be ≥ 1", options.max_pixels);
  const auto shrink = options.shrink;
  require(shrink == 1 || shrink == 2 || shrink == 4 || shrink == 8,
          "decode: shrink = {}, must be 1, 2, 4 or 8", shrink);
}

ImageSize image_size(std::string_view bytes) {
  if (codecs::is_jpeg(bytes)) return codecs::jpeg_size(bytes);
  if (codecs::is_png(bytes)) return codecs::png_size(bytes);
  refuse(bytes);
}

int64_t image_channels(std::string_view bytes) {
  if (codecs::is_jpeg(bytes)) return codecs::jpeg_channels(bytes);
  if (codecs::is_png(bytes)) return codecs::png_channels(bytes);
  refuse(bytes);
}

torch::Tensor decode_image(std::string_view bytes, const DecodeOptions& options) {
  validate(options);
  if (codecs::is_jpeg(bytes)) return codecs::decode_jpeg(bytes, options);
  if (codecs::is_png(bytes)) return codecs::decode_png(bytes, options);
  refuse(bytes);
}

}  // namespace deq::lab
