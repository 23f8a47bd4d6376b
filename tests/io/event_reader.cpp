#include "io/event_reader.h"

#include <cstring>
#include <stdexcept>

namespace deq::test {
namespace {

class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }

  std::string_view take(size_t count) {
    if (count > rest_.size()) throw std::out_of_range("torn");
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<uint8_t>();
      value |= uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }

  std::string_view text() { return take(varint()); }

 private:
  std::string_view rest_;
};

void check(bool ok) {
  if (!ok) throw std::invalid_argument("not an event file");
}

uint32_t masked_crc(std::string_view bytes) {
  uint32_t sum = 0xffffffff;
  for (const char byte : bytes) {
    sum ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum % 2 == 1 ? sum / 2 ^ 0x82f63b78 : sum / 2;
  }
  sum = ~sum;
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8;
}

// Keys are field number × 8 + wire type, as protoc would print them.
void parse_value(Bytes value, ReadEvent& event) {
  std::string tag;
  while (!value.empty()) {
    switch (value.varint()) {
      case 1 * 8 + 2:
        tag = value.text();
        break;
      case 2 * 8 + 5:
        event.scalars[tag] = value.number<float>();
        break;
      default:
        check(false);
    }
  }
}

ReadEvent parse_event(Bytes data) {
  ReadEvent event;
  while (!data.empty()) {
    switch (data.varint()) {
      case 1 * 8 + 1:
        event.wall_time = data.number<double>();
        break;
      case 2 * 8 + 0:
        event.step = static_cast<int64_t>(data.varint());
        break;
      case 3 * 8 + 2:
        event.file_version = data.text();
        break;
      case 5 * 8 + 2:
        for (Bytes summary(data.text()); !summary.empty();) {
          check(summary.varint() == 1 * 8 + 2);
          parse_value(Bytes(summary.text()), event);
        }
        break;
      case 7 * 8 + 2:
        event.starts_session = data.text() == std::string_view("\x08\x01");
        break;
      default:
        check(false);
    }
  }
  return event;
}

}  // namespace

std::optional<std::vector<ReadEvent>> parse_event_file(std::string_view bytes) {
  std::vector<ReadEvent> events;
  try {
    for (Bytes rest(bytes); !rest.empty();) {
      const auto length = rest.take(8);
      check(rest.number<uint32_t>() == masked_crc(length));
      const auto data = rest.take(Bytes(length).number<uint64_t>());
      check(rest.number<uint32_t>() == masked_crc(data));
      events.push_back(parse_event(Bytes(data)));
    }
  } catch (const std::logic_error&) {
    return std::nullopt;
  }
  return events;
}

}  // namespace deq::test
