#include "lab/io/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lab/io/checksum.h"
#include "lab/io/descriptor.h"
#include "lab/io/protobuf.h"

// The file is a list of TFRecords: a length (8 bytes, little endian), the length's checksum, the
// data, the data's checksum. Each holds one tensorflow.Event, of which these fields are used:
//   Event       1 wall_time: double   2 step: int64   3 file_version: string
//               5 summary: Summary    7 session_log: SessionLog
//   Summary     1 value: Value, repeated
//   Value       1 tag: string         2 simple_value: float
//   SessionLog  1 status: START = 1

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

using io::Message;

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

// TensorBoard reads the files of a folder in the order of their names: the time comes first, fine
// enough that a session begun right after another sorts behind it.
fs::path new_name(const fs::path& folder) {
  static std::atomic<uint64_t> counter{0};
  return folder / fmt::format("events.out.tfevents.{:.6f}.{}.{}.{}", unix_seconds(), host_name(),
                              ::getpid(), counter++);
}

// The format masks checksums, because a checksum of bytes that hold checksums is a poor one.
uint32_t masked_checksum(std::string_view bytes) {
  const uint32_t sum = crc32c(bytes);
  return (sum >> 15 | sum << 17) + 0xa282ead8;
}

template <class Number>
std::string little_endian(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string framed(const Message& event) {
  const std::string& data = event.bytes();
  const std::string length = little_endian(uint64_t{data.size()});
  return length + little_endian(masked_checksum(length)) + data +
         little_endian(masked_checksum(data));
}

// TensorBoard gives up a file with a tag that is not UTF-8; U+FFFD takes the place of such bytes.
std::string valid_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

Message event_now() {
  Message event;
  event.float64(1, unix_seconds());
  return event;
}

Message event_at(int64_t step) {
  Message event = event_now();
  event.whole(2, step);
  return event;
}

}  // namespace

EventFile::EventFile(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) io::throw_system_error("create", folder, code.value());
  do {
    path_ = new_name(folder);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) io::throw_system_error("write", path_, errno);
  try {
    Message event = event_now();
    event.text(3, "brain.Event:2");
    io::append_whole(descriptor_, path_, framed(event));
  } catch (...) {
    ::close(descriptor_);
    ::unlink(path_.c_str());
    throw;
  }
}

EventFile::~EventFile() {
  ::close(descriptor_);
}

void EventFile::start_session(int64_t step) {
  Message session;
  session.whole(1, 1);
  // TensorBoard forgets from the event's own step on.
  Message event = event_at(step + 1);
  event.message(7, session);
  io::append_whole(descriptor_, path_, framed(event));
}

void EventFile::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  Message summary;
  for (const auto& [tag, number] : values) {
    const auto kept = static_cast<float>(number);
    if (!std::isfinite(kept)) continue;
    Message value;
    value.text(1, valid_utf8(tag));
    value.float32(2, kept);
    summary.message(1, value);
  }
  if (summary.bytes().empty()) return;
  Message event = event_at(step);
  event.message(5, summary);
  io::append_whole(descriptor_, path_, framed(event));
}

}  // namespace deq::lab
