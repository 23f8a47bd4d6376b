#pragma once

#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <string_view>

#include "deq/data/image_decode.h"

namespace deq::codecs {

/// libpng with errors as exceptions. The library reports an error by calling a function that must
/// not return. Every entry into it is therefore a function that sets a jump first, holds nothing
/// with a destructor, and throws where the jump lands.
class PngReader {
 public:
  /// Reads the header.
  explicit PngReader(std::string_view bytes);
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  ImageSize size() const;
  int bits() const { return png_get_bit_depth(png_, info_); }
  bool is_palette() const { return png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE; }
  bool is_grey() const { return png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY; }
  int64_t channels() const { return is_palette() ? 3 : png_get_channels(png_, info_); }

  /// Three bytes a pixel, whatever the file has.
  void read_colours(uint8_t* pixels);
  /// One byte a pixel, as it is in the file: of grey images and palettes of at most 8 bits.
  void read_numbers(uint8_t* pixels);

 private:
  void read_header();
  void read_rows(uint8_t* pixels, size_t bytes_a_pixel);
  void take(png_bytep out, size_t count);
  [[noreturn]] void fail(const char* text);

  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[256]{};
};

}  // namespace deq::codecs
