// Packed sets of images: an index, as it is and with the checksum that belongs to it, over a file
// of images.

#include "deq/lab/data/images/packed_images.h"

#include "fuzz/fuzz.h"
#include "lab/data/images/packed_index.h"
#include "lab/io/checksum.h"

namespace deq::fuzz {
namespace {

void read_set() {
  const lab::PackedImages set(folder());
  for (int64_t i = 0; i < set.size(); ++i) {
    promise(set.label(i) < std::ssize(set.classes()), "a label has no class");
    attempt([&] { set.encoded(i); });
  }
}

}  // namespace

const size_t kSpareBytes = size_t{4} << 20;

void read(std::string_view input) {
  Parts parts(input);
  put("images-00000.bin", parts.text());
  const auto path = put("index.safetensors", parts.rest());
  attempt(read_set);
  auto index = tensors_in(parts.rest());
  if (!index) return;
  index->metadata["format"] = "deq-packed-images";
  index->metadata["version"] = "1";
  index->metadata[lab::kChecksumKey] = lab::content_checksum(*index);
  lab::write_safetensors(path, *index);
  read_set();
}

}  // namespace deq::fuzz
