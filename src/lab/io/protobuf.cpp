#include "lab/io/protobuf.h"

#include <bit>

namespace deq::lab::io {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

enum WireType : uint8_t { kVarint = 0, kEightBytes = 1, kLengthAndBytes = 2, kFourBytes = 5 };

// Seven bits per byte, the lowest first; the eighth says that more follow.
void append_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

void append_key(std::string& bytes, int field, WireType type) {
  append_varint(bytes, static_cast<uint64_t>(field) << 3 | type);
}

template <class Number>
void append_raw(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void Message::whole(int field, int64_t value) {
  append_key(bytes_, field, kVarint);
  append_varint(bytes_, static_cast<uint64_t>(value));
}

void Message::float32(int field, float value) {
  append_key(bytes_, field, kFourBytes);
  append_raw(bytes_, value);
}

void Message::float64(int field, double value) {
  append_key(bytes_, field, kEightBytes);
  append_raw(bytes_, value);
}

void Message::text(int field, std::string_view bytes) {
  append_key(bytes_, field, kLengthAndBytes);
  append_varint(bytes_, bytes.size());
  bytes_ += bytes;
}

}  // namespace deq::lab::io
