#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "core/require.h"
#include "deq/lab/data/images/mask_decode.h"
#include "lab/data/images/image_codecs.h"

// libpng reports an error by calling a function that must not return. Every entry into the library
// is therefore a function that sets a jump first, holds nothing with a destructor, and throws where
// the jump lands.

namespace deq::lab {
namespace codecs {
namespace {

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
  /// Deflate makes at most 1032 bytes of one.
  bool could_be_in(std::string_view bytes) const {
    return png_get_rowbytes(png_, info_) <= 1032 * bytes.size() / png_get_image_height(png_, info_);
  }
  int64_t channels() const { return is_palette() ? 3 : png_get_channels(png_, info_); }

  /// Three bytes per pixel, whatever the file has.
  void read_colours(uint8_t* pixels);
  /// One byte per pixel, as it is in the file: of grey images and palettes of at most 8 bits.
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
  // Texts, profiles and the like leave the pixels as they are, and may ask for any memory.
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
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

}  // namespace

bool is_png(std::string_view bytes) {
  return bytes.starts_with("\x89PNG\r\n\x1a\n");
}

ImageSize png_size(std::string_view bytes) {
  return PngReader(bytes).size();
}

int64_t png_channels(std::string_view bytes) {
  return PngReader(bytes).channels();
}

torch::Tensor decode_png(std::string_view bytes, const DecodeOptions& options) {
  PngReader png(bytes);
  require_decodable(png.size(), options);
  require_enough(png.could_be_in(bytes), bytes, png.size());
  const auto pixels = torch::empty({png.size().height, png.size().width, 3}, torch::kUInt8);
  png.read_colours(pixels.data_ptr<uint8_t>());
  return pixels.permute({2, 0, 1});
}

}  // namespace codecs

torch::Tensor decode_mask(std::string_view bytes) {
  require(!bytes.empty(), "the file is empty");
  require(codecs::is_png(bytes), "it is no PNG, which a mask must be");
  codecs::PngReader png(bytes);
  codecs::require_decodable(png.size(), {});
  codecs::require_enough(png.could_be_in(bytes), bytes, png.size());
  require(png.is_grey() || png.is_palette(),
          "it has {} channels, a mask must be grey or have a palette", png.channels());
  require(png.bits() <= 8, "it has {} bits per pixel, a mask must have at most 8", png.bits());
  auto numbers = torch::empty({png.size().height, png.size().width}, torch::kUInt8);
  png.read_numbers(numbers.data_ptr<uint8_t>());
  return numbers;
}

}  // namespace deq::lab
