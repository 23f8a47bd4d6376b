#include "lab/io/checksum.h"

#include <fmt/format.h>

#include "lab/io/safetensors_header.h"

namespace deq::lab {
namespace {

// Every text is preceded by its length, so that nothing moves from one field to the next unnoticed.
class Sum {
 public:
  void add(uint64_t number) {
    raw({reinterpret_cast<const char*>(&number), sizeof number});  // little endian
  }
  void add(std::string_view text) {
    add(text.size());
    raw(text);
  }
  std::string hex() const { return fmt::format("{:08x}", sum_); }

 private:
  void raw(std::string_view bytes) { sum_ = crc32c(bytes, sum_); }

  uint32_t sum_ = 0;
};

void add_metadata(Sum& sum, const std::map<std::string, std::string>& metadata) {
  sum.add(metadata.size() - metadata.count(kChecksumKey));
  for (const auto& [key, text] : metadata) {
    if (key == kChecksumKey) continue;
    sum.add(key);
    sum.add(text);
  }
}

void add_tensor(Sum& sum, const std::string& name, const torch::Tensor& tensor) {
  io::require_storable(name, tensor);
  sum.add(name);
  sum.add(io::type_name(tensor.scalar_type()).value());
  sum.add(static_cast<uint64_t>(tensor.dim()));
  for (const int64_t size : tensor.sizes()) sum.add(static_cast<uint64_t>(size));
  const torch::Tensor stored = io::as_stored(tensor);
  sum.add(io::bytes_of(stored));
}

}  // namespace

std::string content_checksum(const TensorFile& file) {
  Sum sum;
  add_metadata(sum, file.metadata);
  sum.add(file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) add_tensor(sum, name, tensor);
  return sum.hex();
}

}  // namespace deq::lab
