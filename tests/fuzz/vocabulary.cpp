// Vocabularies: as they are, and with the checksum that belongs to what they hold; and texts in
// their words.

#include "deq/lab/data/text/vocabulary.h"

#include "fuzz/fuzz.h"
#include "lab/data/text/vocabulary_file.h"

namespace deq::fuzz {

const size_t kSpareBytes = size_t{4} << 20;

void read(std::string_view input) {
  Parts parts(input);
  const auto text = parts.text();
  const auto path = put("vocabulary.safetensors", parts.rest());
  attempt([&] { lab::read_vocabulary(path); });
  const auto held = tensors_in(parts.rest());
  if (!held) return;
  const auto vocabulary = lab::unpack_vocabulary(*held);
  lab::write_vocabulary(path, vocabulary);
  promise(lab::checksum(lab::read_vocabulary(path)) == lab::checksum(vocabulary),
          "a vocabulary reads back otherwise than it was written");
  const auto numbers = vocabulary.encode(text);
  promise(vocabulary.encode(vocabulary.decode(numbers)) == numbers,
          "words read back otherwise than they were written");
}

}  // namespace deq::fuzz
