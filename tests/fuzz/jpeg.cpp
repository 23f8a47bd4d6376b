// JPEG images.

#include "fuzz/fuzz.h"
#include "lab/data/images/image_codecs.h"

namespace deq::fuzz {

// A million pixels, which may be inks in int32 and coefficients of a progressive file besides.
const size_t kSpareBytes = size_t{96} << 20;

void read(std::string_view input) {
  if (!lab::codecs::is_jpeg(input)) return;
  const auto size = lab::image_size(input);
  promise(lab::image_channels(input) >= 1, "an image has no channels");
  const auto image = lab::decode_image(input, {.max_pixels = 1'000'000});
  promise(image.size(1) == size.height && image.size(2) == size.width,
          "an image has another size than its header says");
  attempt([&] { lab::decode_image(input, {.max_pixels = 1'000'000, .shrink = 8}); });
}

}  // namespace deq::fuzz
