#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "data/image_codecs.h"

// libpng reports an error by calling a function that must not return. Every entry into the library
// is therefore a function that sets a jump first, holds nothing with a destructor, and throws where
// the jump lands.

namespace deq::codecs {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp text) {
          static_cast<Reader*>(png_get_error_ptr(png))->fail(text);
        },
        // What libpng only warns of leaves the pixels as they are.
        [](png_structp, png_const_charp) {});
    require(png_ != nullptr, "there is no memory for the PNG decoder");
    read_header();
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  ImageSize size() const {
    return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  }

  int64_t channels() const {
    const bool palette = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE;
    return palette ? 3 : png_get_channels(png_, info_);
  }

  void read_rows(uint8_t* pixels) {
    if (setjmp(jump_) != 0) throw Error(message_);
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const auto row_bytes = png_get_rowbytes(png_, info_);
    const auto height = png_get_image_height(png_, info_);
    if (row_bytes != size_t{3} * png_get_image_width(png_, info_)) fail("unexpected row size");
    for (int pass = 0; pass < passes; ++pass) {
      for (png_uint_32 row = 0; row < height; ++row) {
        png_read_row(png_, pixels + row * row_bytes, nullptr);
      }
    }
    // Reads on to the end chunk, which a truncated file does not have.
    png_read_end(png_, nullptr);
  }

 private:
  void read_header() {
    if (setjmp(jump_) != 0) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw Error(message_);
    }
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) fail("out of memory");
    png_set_read_fn(png_, this, [](png_structp png, png_bytep out, size_t count) {
      static_cast<Reader*>(png_get_io_ptr(png))->take(out, count);
    });
    png_read_info(png_, info_);
  }

  void take(png_bytep out, size_t count) {
    if (count > rest_.size()) fail("unexpected end of the file");
    std::memcpy(out, rest_.data(), count);
    rest_.remove_prefix(count);
  }

  [[noreturn]] void fail(const char* text) {
    std::snprintf(message_, sizeof message_, "the PNG decoder says \"%s\"", text);
    std::longjmp(jump_, 1);
  }

  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[256]{};
};

}  // namespace

bool is_png(std::string_view bytes) {
  return bytes.starts_with("\x89PNG\r\n\x1a\n");
}

ImageSize png_size(std::string_view bytes) {
  return Reader(bytes).size();
}

int64_t png_channels(std::string_view bytes) {
  return Reader(bytes).channels();
}

torch::Tensor decode_png(std::string_view bytes, const DecodeOptions& options) {
  Reader png(bytes);
  require_decodable(png.size(), options);
  const auto pixels = torch::empty({png.size().height, png.size().width, 3}, torch::kUInt8);
  png.read_rows(pixels.data_ptr<uint8_t>());
  return pixels.permute({2, 0, 1});
}

}  // namespace deq::codecs
