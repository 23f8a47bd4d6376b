#include "lab/config/writer.h"

#include <fmt/format.h>

namespace deq::lab::config {

std::string text_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (code < 0x20 || code == 0x7f) {
      quoted += fmt::format("\\u{:04X}", code);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string schedule_toml(const Schedule& schedule) {
  const auto* constant = std::get_if<ConstantSchedule>(&schedule.shape);
  if (constant != nullptr && !schedule.stop) return io::number_text(constant->value);
  Schedule described = schedule;
  Writer lines;
  describe_schedule(lines, described, any_number());
  std::string inline_table = "{ ";
  for (const char c : lines.text())
    inline_table += c == '\n' ? std::string(", ") : std::string(1, c);
  inline_table.replace(inline_table.size() - 2, 2, " }");
  return inline_table;
}

void Writer::write(std::string_view key, const std::string& value) {
  // Tables that hold only tables need no header of their own.
  if (!header_written_) text_ += "\n[" + path_ + "]\n";
  header_written_ = true;
  text_ += std::string(key) + " = " + value + "\n";
}

}  // namespace deq::lab::config
