#include "data/image_codecs.h"
#include "data/png_reader.h"
#include "deq/data/mask_decode.h"

namespace deq {

torch::Tensor decode_mask(std::string_view bytes) {
  require(!bytes.empty(), "the file is empty");
  require(codecs::is_png(bytes), "it is no PNG, which a mask must be");
  codecs::PngReader png(bytes);
  codecs::require_decodable(png.size(), {});
  require(png.is_grey() || png.is_palette(), "it has ", png.channels(),
          " channels, a mask must be grey or have a palette");
  require(png.bits() <= 8, "it has ", png.bits(), " bits a pixel, a mask must have at most 8");
  auto numbers = torch::empty({png.size().height, png.size().width}, torch::kUInt8);
  png.read_numbers(numbers.data_ptr<uint8_t>());
  return numbers;
}

}  // namespace deq
