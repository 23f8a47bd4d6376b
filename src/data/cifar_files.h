#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "deq/core/error.h"

// The two formats of CIFAR-10. Each file is read into the rows of a tensor that has room for
// exactly as many images as it must hold.

namespace deq::cifar {

inline constexpr int64_t kPixelBytes = 3 * 32 * 32;  ///< red, green, blue; rows from the top
inline constexpr int64_t kClasses = 10;

/// Rows to fill: kPixelBytes and one label for each image.
struct Rows {
  int64_t count;
  uint8_t* pixels;
  int64_t* labels;
};

void read_binary_batch(std::string_view bytes, const Rows& rows);
std::vector<std::string> read_binary_classes(std::string_view text);

void read_python_batch(std::string_view bytes, const Rows& rows);
std::vector<std::string> read_python_classes(std::string_view bytes);

inline void require_label(int64_t label, int64_t image) {
  require(label >= 0 && label < kClasses, "the label of image ", image, " is ", label,
          ", must be ≥ 0 and < ", kClasses);
}

}  // namespace deq::cifar
