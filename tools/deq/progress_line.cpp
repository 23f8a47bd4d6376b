#include "progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace deq::lab::cli {
namespace {

constexpr int64_t kBarWidths[] = {24, 12};
constexpr size_t kUsualColumns = 80;

bool begins_a_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

size_t columns_of(std::string_view utf8) {
  return static_cast<size_t>(std::ranges::count_if(utf8, begins_a_character));
}

std::string bar_text(int64_t done, int64_t total, int64_t width) {
  const auto share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1));
  const auto filled = static_cast<size_t>(static_cast<double>(width) * std::clamp(share, 0.0, 1.0));
  return " [" + std::string(filled, '#') + std::string(static_cast<size_t>(width) - filled, '.') +
         "]";
}

std::string without_beginning(std::string text, size_t columns) {
  while (columns_of(text) > columns) {
    do text.erase(0, 1);
    while (!text.empty() && !begins_a_character(text.front()));
  }
  return text;
}

}  // namespace

std::string progress_line(const std::string& label, int64_t done, int64_t total,
                          const std::vector<std::string>& facts, size_t columns) {
  // A full last column makes some terminals begin a new line.
  const size_t room = columns - std::min<size_t>(columns, 1);
  const auto count = fmt::format(" {}/{}", done, total);
  const auto line = [&](const std::string& bar, size_t shown) {
    auto text = label + bar + count;
    for (size_t i = 0; i < shown; ++i) text += "  " + facts[i];
    return text;
  };
  for (size_t shown = facts.size(); shown > 0; --shown) {
    for (const int64_t width : kBarWidths) {
      auto text = line(bar_text(done, total, width), shown);
      if (columns_of(text) <= room) return text;
    }
  }
  auto text = line("", std::min<size_t>(facts.size(), 1));
  return without_beginning(columns_of(text) <= room ? std::move(text) : line("", 0), room);
}

size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* named = std::getenv("COLUMNS");
  const std::string_view text = named == nullptr ? "" : named;
  size_t columns = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), columns);
  const bool is_number = failure == std::errc{} && stop == text.data() + text.size();
  return is_number && columns > 0 ? columns : kUsualColumns;
}

}  // namespace deq::lab::cli
