#include <algorithm>
#include <sstream>

#include "data/cifar_files.h"

// Every image is one byte of label and its pixels.

namespace deq::cifar {

void read_binary_batch(std::string_view bytes, const Rows& rows) {
  const auto expected = rows.count * (1 + kPixelBytes);
  require(static_cast<int64_t>(bytes.size()) == expected, "it has ", bytes.size(),
          " bytes, must be ", expected);
  const auto* next = reinterpret_cast<const uint8_t*>(bytes.data());
  for (int64_t i = 0; i < rows.count; ++i, next += 1 + kPixelBytes) {
    require_label(*next, i);
    rows.labels[i] = *next;
    std::copy_n(next + 1, kPixelBytes, rows.pixels + i * kPixelBytes);
  }
}

std::vector<std::string> read_binary_classes(std::string_view text) {
  std::vector<std::string> classes;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) classes.push_back(line);
  }
  return classes;
}

}  // namespace deq::cifar
