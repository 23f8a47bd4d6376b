#include "data/image_files.h"

#include <png.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
// Not sorted in: jpeglib.h needs the types of <cstdio>.
#include <jpeglib.h>

namespace deq::test {
namespace {

struct Colours {
  J_COLOR_SPACE in, stored;
  bool adobe;
};

Colours colours_of(JpegKind kind) {
  switch (kind) {
    case JpegKind::Rgb:
      return {JCS_RGB, JCS_YCbCr, false};
    case JpegKind::Grey:
      return {JCS_GRAYSCALE, JCS_GRAYSCALE, false};
    case JpegKind::Cmyk:
      return {JCS_CMYK, JCS_CMYK, false};
    case JpegKind::AdobeCmyk:
      return {JCS_CMYK, JCS_CMYK, true};
    case JpegKind::AdobeYcck:
      return {JCS_CMYK, JCS_YCCK, true};
  }
  return {};
}

}  // namespace

torch::Tensor smooth_image(int64_t height, int64_t width, int64_t variant) {
  const auto y = torch::linspace(0, 3, height).unsqueeze(1);
  const auto x = torch::linspace(0, 3, width).unsqueeze(0);
  const auto shift = 0.7 * static_cast<double>(variant);
  const auto waves = torch::stack({torch::sin(x + y + shift), torch::cos(x - y + 2 * shift),
                                   torch::sin(x * y / 2 + 3 * shift)});
  return ((waves + 1) * 127).to(torch::kUInt8);
}

std::string encode_jpeg(const torch::Tensor& image, const JpegOptions& options) {
  const auto pixels = image.permute({1, 2, 0}).contiguous();
  const auto colours = colours_of(options.kind);
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&info, &memory, &size);
  info.image_height = static_cast<JDIMENSION>(image.size(1));
  info.image_width = static_cast<JDIMENSION>(image.size(2));
  info.input_components = static_cast<int>(image.size(0));
  info.in_color_space = colours.in;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, colours.stored);
  info.write_Adobe_marker = colours.adobe ? TRUE : FALSE;
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const auto row_bytes = image.size(2) * image.size(0);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data_ptr<uint8_t>() + info.next_scanline * row_bytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(memory), size);
  std::free(memory);
  return bytes;
}

torch::Tensor smooth_palette() {
  return smooth_image(1, 256, 5);
}

std::string encode_png(const torch::Tensor& image, const PngOptions& options) {
  auto pixels = image.permute({1, 2, 0}).contiguous();
  // Big endian, the low byte being a value that the conversion must not see.
  if (options.bits == 16) {
    pixels = torch::stack({pixels, pixels}, 3).contiguous();
  }
  constexpr int kTypes[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  std::string bytes;
  auto* png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  auto* info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp writer, png_bytep data, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(writer))
            ->append(reinterpret_cast<const char*>(data), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.size(2)),
               static_cast<png_uint_32>(image.size(1)), options.bits,
               options.palette ? PNG_COLOR_TYPE_PALETTE : kTypes[image.size(0)],
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> colours(256);
  if (options.palette) {
    const auto palette = smooth_palette();
    for (int64_t i = 0; i < 256; ++i) {
      const auto value = [&](int64_t channel) { return palette[channel][0][i].item<uint8_t>(); };
      colours[static_cast<size_t>(i)] = {value(0), value(1), value(2)};
    }
    png_set_PLTE(png, info, colours.data(), 256);
  }
  std::vector<png_bytep> rows;
  const auto row_bytes = image.size(0) * image.size(2) * options.bits / 8;
  for (int64_t y = 0; y < image.size(1); ++y) {
    rows.push_back(pixels.data_ptr<uint8_t>() + y * row_bytes);
  }
  png_write_info(png, info);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

void put_file(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace deq::test
