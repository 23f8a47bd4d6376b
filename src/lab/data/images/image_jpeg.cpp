#include <csetjmp>
#include <cstdio>
// Not sorted in: jpeglib.h needs the types of <cstdio>.
#include <jerror.h>
#include <jpeglib.h>

#include <array>
#include <string>

#include "lab/data/images/image_codecs.h"

// libjpeg reports an error by calling error_exit, which must not return. Every entry into the
// library is therefore a function that sets a jump first, holds nothing with a destructor, and
// throws where the jump lands.

namespace deq::lab::codecs {
namespace {

// Every scan of a progressive file is a pass over the image; encoders write about ten.
constexpr int kMostScans = 500;

class Decompressor {
 public:
  explicit Decompressor(std::string_view bytes) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { self(info)->fail(info); };
    errors_.emit_message = [](j_common_ptr info, int level) { self(info)->hear(info, level); };
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
    create();
    progress_.progress_monitor = [](j_common_ptr info) { self(info)->count_scans(); };
    info_.progress = &progress_;
    read_header(bytes);
  }
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  ImageSize size() const { return {info_.image_height, info_.image_width}; }
  int64_t channels() const { return info_.num_components; }

  /// A Huffman code is a bit at least, and one is there for every 64 pixels of the largest
  /// component; two that are large in one direction each have half as many. Arithmetic codes may be
  /// shorter.
  bool could_be_in(std::string_view bytes) const {
    return info_.arith_code || size().height * size().width / 1024 <= std::ssize(bytes);
  }

  /// What comes out is 3 bytes per pixel, or 4 for the inks of CMYK.
  bool has_inks() const {
    return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  }
  bool inks_are_inverted() const { return info_.saw_Adobe_marker != 0; }

  /// Starts, and returns the size that comes out.
  ImageSize start(unsigned shrink) {
    if (setjmp(jump_) != 0) throw Error(message_);
    info_.scale_num = 1;
    info_.scale_denom = shrink;
    info_.out_color_space = has_inks() ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info_);
    return {info_.output_height, info_.output_width};
  }

  void read_rows(uint8_t* pixels, size_t row_bytes) {
    if (setjmp(jump_) != 0) throw Error(message_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    // Reads on to the end marker, which a truncated file does not have.
    jpeg_finish_decompress(&info_);
  }

 private:
  static Decompressor* self(j_common_ptr info) {
    return static_cast<Decompressor*>(info->client_data);
  }

  void create() {
    if (setjmp(jump_) != 0) throw Error(message_);
    jpeg_create_decompress(&info_);
  }

  void read_header(std::string_view bytes) {
    if (setjmp(jump_) != 0) {
      jpeg_destroy_decompress(&info_);
      throw Error(message_);
    }
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info_, TRUE);
  }

  [[noreturn]] void fail(j_common_ptr info) {
    std::array<char, JMSG_LENGTH_MAX> text{};
    errors_.format_message(info, text.data());
    std::snprintf(message_, sizeof message_, "the JPEG decoder says \"%s\"", text.data());
    std::longjmp(jump_, 1);
  }

  // A warning means that pixels were made up, unless it is about bytes between the segments.
  void hear(j_common_ptr info, int level) {
    const int code = errors_.msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM) fail(info);
  }

  void count_scans() {
    if (info_.input_scan_number <= kMostScans) return;
    std::snprintf(message_, sizeof message_, "the JPEG has more than %d scans", kMostScans);
    std::longjmp(jump_, 1);
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX + 64]{};
};

/// Light that is left of white after each ink and black.
torch::Tensor without_inks(const torch::Tensor& inks, bool inverted) {
  auto light = inks.to(torch::kInt32);
  if (!inverted) light = 255 - light;
  const auto product = light.narrow(2, 0, 3) * light.narrow(2, 3, 1);
  return torch::div(product + 127, 255, "floor").to(torch::kUInt8);
}

}  // namespace

bool is_jpeg(std::string_view bytes) {
  return bytes.starts_with("\xff\xd8\xff");
}

ImageSize jpeg_size(std::string_view bytes) {
  return Decompressor(bytes).size();
}

int64_t jpeg_channels(std::string_view bytes) {
  return Decompressor(bytes).channels();
}

torch::Tensor decode_jpeg(std::string_view bytes, const DecodeOptions& options) {
  Decompressor jpeg(bytes);
  require_decodable(jpeg.size(), options);
  require_enough(jpeg.could_be_in(bytes), bytes, jpeg.size());
  const auto size = jpeg.start(static_cast<unsigned>(options.shrink));
  const int64_t channels = jpeg.has_inks() ? 4 : 3;
  const auto pixels = torch::empty({size.height, size.width, channels}, torch::kUInt8);
  jpeg.read_rows(pixels.data_ptr<uint8_t>(), static_cast<size_t>(size.width * channels));
  const auto rgb = jpeg.has_inks() ? without_inks(pixels, jpeg.inks_are_inverted()) : pixels;
  return rgb.permute({2, 0, 1});
}

}  // namespace deq::lab::codecs
