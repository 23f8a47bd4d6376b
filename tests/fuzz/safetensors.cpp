// Files of tensors, read and mapped.

#include "deq/lab/io/safetensors.h"

#include "fuzz/fuzz.h"
#include "lab/io/checksum.h"
#include "lab/io/mapped_safetensors.h"

namespace deq::fuzz {

const size_t kSpareBytes = size_t{4} << 20;

void read(std::string_view input) {
  const auto path = put("file.safetensors", input);
  attempt([&] {
    // Looks at every byte of every tensor.
    lab::content_checksum(lab::io::map_safetensors(path));
  });
  std::string sum;
  {
    const auto file = lab::read_safetensors(path);
    sum = lab::content_checksum(file);
    lab::write_safetensors(path, file);
  }
  promise(lab::content_checksum(lab::read_safetensors(path)) == sum,
          "a file reads back otherwise than it was written");
}

}  // namespace deq::fuzz
