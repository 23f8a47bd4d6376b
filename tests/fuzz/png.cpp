// PNG images and masks: as they are, and with the checksums that belong to their chunks.

#include <zlib.h>

#include "deq/lab/data/images/mask_decode.h"
#include "fuzz/fuzz.h"
#include "lab/data/images/image_codecs.h"

namespace deq::fuzz {

// A million pixels, and what libpng unpacks of texts and profiles, at most 8 MB each.
const size_t kSpareBytes = size_t{64} << 20;

namespace {

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

/// A chunk is its length, its name, its content, and a checksum over the last two.
std::string with_checksums(std::string_view input) {
  std::string png(input);
  for (size_t chunk = 8; chunk + 12 <= png.size();) {
    const auto* begin = reinterpret_cast<const unsigned char*>(png.data()) + chunk;
    const size_t length = size_t{begin[0]} << 24 | begin[1] << 16 | begin[2] << 8 | begin[3];
    if (length > png.size() - chunk - 12) break;
    const auto sum = ::crc32(0, begin + 4, static_cast<unsigned>(length + 4));
    png.replace(chunk + 8 + length, 4, big_endian(static_cast<uint32_t>(sum)));
    chunk += 12 + length;
  }
  return png;
}

void read_png(std::string_view input) {
  const auto size = lab::image_size(input);
  promise(lab::image_channels(input) >= 1, "an image has no channels");
  if (size.height * size.width <= 1'000'000) attempt([&] { lab::decode_mask(input); });
  const auto image = lab::decode_image(input, {.max_pixels = 1'000'000});
  promise(image.size(1) == size.height && image.size(2) == size.width,
          "an image has another size than its header says");
}

}  // namespace

void read(std::string_view input) {
  if (!lab::codecs::is_png(input)) return;
  attempt([&] { read_png(input); });
  read_png(with_checksums(input));
}

}  // namespace deq::fuzz
