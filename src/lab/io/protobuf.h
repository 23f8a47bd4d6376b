#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace deq::lab::io {

/// A protocol-buffers message in the making: fields one after the other, each with its number.
/// libprotobuf would take five more packages (19 MB), 2,280 generated lines and 4 s of every build.
class Message {
 public:
  void whole(int field, int64_t value);
  void float32(int field, float value);
  void float64(int field, double value);
  void text(int field, std::string_view bytes);
  void message(int field, const Message& inner) { text(field, inner.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace deq::lab::io
