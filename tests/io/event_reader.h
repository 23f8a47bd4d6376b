#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A reader of event files that shares nothing with the writer: bit-by-bit checksums and a
// protocol-buffers parser of its own.

namespace deq::test {

struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  std::map<std::string, float> scalars;
  bool starts_session = false;
};

/// All events; nothing when the bytes are not whole frames with the right checksums.
std::optional<std::vector<ReadEvent>> parse_event_file(std::string_view bytes);

}  // namespace deq::test
