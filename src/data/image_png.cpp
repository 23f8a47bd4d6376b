#include "data/image_codecs.h"
#include "data/png_reader.h"

namespace deq::codecs {

bool is_png(std::string_view bytes) {
  return bytes.starts_with("\x89PNG\r\n\x1a\n");
}

ImageSize png_size(std::string_view bytes) {
  return PngReader(bytes).size();
}

int64_t png_channels(std::string_view bytes) {
  return PngReader(bytes).channels();
}

torch::Tensor decode_png(std::string_view bytes, const DecodeOptions& options) {
  PngReader png(bytes);
  require_decodable(png.size(), options);
  const auto pixels = torch::empty({png.size().height, png.size().width, 3}, torch::kUInt8);
  png.read_colours(pixels.data_ptr<uint8_t>());
  return pixels.permute({2, 0, 1});
}

}  // namespace deq::codecs
