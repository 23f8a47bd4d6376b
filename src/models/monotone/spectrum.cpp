#include "models/monotone/spectrum.h"

namespace deq::models {
namespace {

using torch::Tensor;

/// [out, in, rows, columns] to [rows·columns, out, in], and back.
Tensor frequencies_first(const Tensor& transformed) {
  return transformed.permute({2, 3, 0, 1}).flatten(0, 1);
}
Tensor frequencies_last(const Tensor& spectrum, int64_t size) {
  return spectrum.unflatten(0, {size, size / 2 + 1}).permute({2, 3, 0, 1});
}

}  // namespace

Tensor spectrum_of_kernel(const Tensor& kernel, int64_t size) {
  const auto rest = size - kernel.size(2);
  const auto centred =
      torch::roll(torch::constant_pad_nd(kernel, {0, rest, 0, rest}), {-1, -1}, {2, 3});
  // conv2d() correlates: it looks ahead where a convolution looks back.
  return frequencies_first(torch::fft_rfft2(centred).conj());
}

Tensor every_other_pixel(const Tensor& spectrum, int64_t size) {
  const auto kernel = torch::fft_irfft2(frequencies_last(spectrum, size), {{size, size}});
  return frequencies_first(torch::fft_rfft2(kernel.slice(2, {}, {}, 2).slice(3, {}, {}, 2)));
}

Tensor filter(const Tensor& spectrum, const Tensor& image) {
  const auto size = image.size(2);
  const auto type = c10::toRealValueType(spectrum.scalar_type());
  const auto transformed = torch::fft_rfft2(image.to(type)).permute({2, 3, 1, 0}).flatten(0, 1);
  const auto product = frequencies_last(torch::matmul(spectrum, transformed), size);
  return torch::fft_irfft2(product.transpose(0, 1), {{size, size}});
}

}  // namespace deq::models
