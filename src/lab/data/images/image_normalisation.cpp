#include "lab/data/images/image_normalisation.h"

#include <algorithm>

namespace deq::lab {
namespace {

/// One row of the window: margin, pixels, margin.
struct Row {
  int64_t before, inside, after;
};

Row cut(int64_t first, int64_t count, int64_t limit) {
  const auto before = std::clamp<int64_t>(-first, 0, count);
  const auto inside = std::max<int64_t>(std::min(first + count, limit) - (first + before), 0);
  return {before, inside, count - before - inside};
}

/// What comes out is `height` × `width` with three channels.
void erase(const Hole& hole, int64_t height, int64_t width, float* out) {
  const auto rows = cut(hole.top, hole.side, height), columns = cut(hole.left, hole.side, width);
  for (int64_t channel = 0; channel < 3; ++channel, out += height * width) {
    auto* row = out + (hole.top + rows.before) * width + hole.left + columns.before;
    for (int64_t y = 0; y < rows.inside; ++y, row += width) std::fill_n(row, columns.inside, 0.0F);
  }
}

}  // namespace

Normalisation::Normalisation(const ImageTransform& transform) {
  const auto* padded = std::get_if<PaddedCrop>(&transform.crop);
  const bool black = padded == nullptr || padded->margin == Margin::Black;
  for (size_t channel = 0; channel < 3; ++channel) {
    const auto mean = static_cast<float>(transform.mean[channel]);
    const auto deviation = static_cast<float>(transform.deviation[channel]);
    auto* of_channel = values_.data() + channel * kEntries;
    for (int value = 0; value < kOutside; ++value) {
      of_channel[value] = (static_cast<float>(value) / 255.0F - mean) / deviation;
    }
    of_channel[kOutside] = black ? of_channel[0] : 0.0F;
  }
}

torch::Tensor Normalisation::table() const {
  return torch::tensor(at::ArrayRef<float>(values_.data(), values_.size()));
}

Pixels::Pixels(const torch::Tensor& image)
    : data(image.const_data_ptr<uint8_t>()),
      size{image.size(1), image.size(2)},
      channel_stride(image.stride(0)),
      row_stride(image.stride(1)),
      column_stride(image.stride(2)) {}

Pixels::Pixels(const uint8_t* first, const ImageSize& dimensions)
    : data(first),
      size(dimensions),
      channel_stride(dimensions.height * dimensions.width),
      row_stride(dimensions.width),
      column_stride(1) {}

void normalise(const Pixels& image, const Window& window, const Normalisation& normalisation,
               float* out) {
  const auto columns = cut(window.left, window.width, image.size.width);
  const auto rows = cut(window.top, window.height, image.size.height);
  const auto step = image.column_stride;
  auto* const first = out;
  for (int64_t channel = 0; channel < 3; ++channel) {
    const auto* value_of = normalisation.channel(channel);
    const auto outside = value_of[Normalisation::kOutside];
    out = std::fill_n(out, rows.before * window.width, outside);
    const auto* row = image.data + channel * image.channel_stride +
                      (window.top + rows.before) * image.row_stride +
                      (window.left + columns.before) * step;
    for (int64_t y = 0; y < rows.inside; ++y, row += image.row_stride) {
      out = std::fill_n(out, window.mirrored ? columns.after : columns.before, outside);
      if (window.mirrored) {
        for (int64_t x = columns.inside; x-- > 0;) *out++ = value_of[row[x * step]];
      } else {
        for (int64_t x = 0; x < columns.inside; ++x) *out++ = value_of[row[x * step]];
      }
      out = std::fill_n(out, window.mirrored ? columns.before : columns.after, outside);
    }
    out = std::fill_n(out, rows.after * window.width, outside);
  }
  erase(window.hole, window.height, window.width, first);
}

}  // namespace deq::lab
