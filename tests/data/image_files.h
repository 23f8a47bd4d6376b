#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>

namespace deq::test {

/// uint8 [3, H, W], smooth enough for JPEG to keep; another for every `variant`.
torch::Tensor smooth_image(int64_t height, int64_t width, int64_t variant = 0);

enum class JpegKind { Rgb, Grey, Cmyk, AdobeCmyk, AdobeYcck };

struct JpegOptions {
  JpegKind kind = JpegKind::Rgb;
  bool progressive = false;
  int quality = 95;
};

/// `image` is uint8 [C, H, W] with the channels of its kind: 3, 1 or 4.
std::string encode_jpeg(const torch::Tensor& image, const JpegOptions& options = {});

struct PngOptions {
  int bits = 8;  ///< 16: the values of `image` are the high bytes
  bool interlaced = false;
  bool palette = false;  ///< `image` has one channel, of indices into `smooth_palette`
};

/// [3, 1, 256]
torch::Tensor smooth_palette();

/// `image` is uint8 [C, H, W]: grey, grey and alpha, RGB, or RGB and alpha.
std::string encode_png(const torch::Tensor& image, const PngOptions& options = {});

/// Without waiting for the disk. Makes the folder.
void put_file(const std::filesystem::path& path, const std::string& bytes);

}  // namespace deq::test
