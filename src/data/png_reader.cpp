#include "data/png_reader.h"

#include <cstdio>
#include <cstring>

#include "deq/core/error.h"

namespace deq::codecs {

PngReader::PngReader(std::string_view bytes) : rest_(bytes) {
  png_ = png_create_read_struct(
      PNG_LIBPNG_VER_STRING, this,
      [](png_structp png, png_const_charp text) {
        static_cast<PngReader*>(png_get_error_ptr(png))->fail(text);
      },
      // What libpng only warns of leaves the pixels as they are.
      [](png_structp, png_const_charp) {});
  require(png_ != nullptr, "there is no memory for the PNG decoder");
  read_header();
}

ImageSize PngReader::size() const {
  return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
}

void PngReader::read_colours(uint8_t* pixels) {
  if (setjmp(jump_) != 0) throw Error(message_);
  png_set_expand(png_);
  png_set_scale_16(png_);
  png_set_strip_alpha(png_);
  png_set_gray_to_rgb(png_);
  read_rows(pixels, 3);
}

void PngReader::read_numbers(uint8_t* pixels) {
  if (setjmp(jump_) != 0) throw Error(message_);
  png_set_packing(png_);
  read_rows(pixels, 1);
}

// Called with the jump set.
void PngReader::read_rows(uint8_t* pixels, size_t bytes_a_pixel) {
  const int passes = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  const auto row_bytes = png_get_rowbytes(png_, info_);
  const auto height = png_get_image_height(png_, info_);
  if (row_bytes != bytes_a_pixel * png_get_image_width(png_, info_)) fail("unexpected row size");
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 row = 0; row < height; ++row) {
      png_read_row(png_, pixels + row * row_bytes, nullptr);
    }
  }
  // Reads on to the end chunk, which a truncated file does not have.
  png_read_end(png_, nullptr);
}

void PngReader::read_header() {
  if (setjmp(jump_) != 0) {
    png_destroy_read_struct(&png_, &info_, nullptr);
    throw Error(message_);
  }
  info_ = png_create_info_struct(png_);
  if (info_ == nullptr) fail("out of memory");
  png_set_read_fn(png_, this, [](png_structp png, png_bytep out, size_t count) {
    static_cast<PngReader*>(png_get_io_ptr(png))->take(out, count);
  });
  png_read_info(png_, info_);
}

void PngReader::take(png_bytep out, size_t count) {
  if (count > rest_.size()) fail("unexpected end of the file");
  std::memcpy(out, rest_.data(), count);
  rest_.remove_prefix(count);
}

void PngReader::fail(const char* text) {
  std::snprintf(message_, sizeof message_, "the PNG decoder says \"%s\"", text);
  std::longjmp(jump_, 1);
}

}  // namespace deq::codecs
