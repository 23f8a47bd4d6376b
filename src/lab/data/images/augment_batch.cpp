#include "lab/data/images/augment_batch.h"

#include <ATen/Parallel.h>

namespace deq::lab {
namespace {

// Rows of the small table that goes to the device in one copy.
enum PixelRow : int64_t { kSample, kTop, kLeft, kMirrored, kHoleTop, kHoleLeft, kHoleSide, kRows };

torch::Tensor describe_image(const int64_t* chosen, const std::vector<Window>& windows) {
  const auto count = static_cast<int64_t>(windows.size());
  auto rows = torch::empty({kRows, count}, torch::kInt64);
  auto* row = rows.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const auto& window = windows[static_cast<size_t>(i)];
    row[kSample * count + i] = chosen[i];
    row[kTop * count + i] = window.top;
    row[kLeft * count + i] = window.left;
    row[kMirrored * count + i] = window.mirrored ? 1 : 0;
    row[kHoleTop * count + i] = window.hole.top;
    row[kHoleLeft * count + i] = window.hole.left;
    row[kHoleSide * count + i] = window.hole.side;
  }
  return rows;
}

torch::Tensor within(const torch::Tensor& coordinates, int64_t limit) {
  return (coordinates >= 0).logical_and_(coordinates < limit);
}

}  // namespace

torch::Tensor cut_batch(const torch::Tensor& images, const int64_t* chosen,
                        const std::vector<Window>& windows, const Normalisation& normalisation) {
  const auto count = static_cast<int64_t>(windows.size());
  const auto height = windows.front().height, width = windows.front().width;
  const ImageSize size{images.size(2), images.size(3)};
  auto batch = torch::empty({count, 3, height, width});
  const auto* bytes = images.const_data_ptr<uint8_t>();
  auto* out = batch.data_ptr<float>();
  at::parallel_for(0, count, /*grain_size=*/16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      normalise(Pixels(bytes + chosen[i] * 3 * size.height * size.width, size),
                windows[static_cast<size_t>(i)], normalisation, out + i * 3 * height * width);
    }
  });
  return batch;
}

torch::Tensor gather_batch(const torch::Tensor& images, const int64_t* chosen,
                           const std::vector<Window>& windows, const torch::Tensor& values) {
  const auto height = windows.front().height, width = windows.front().width;
  const auto source_height = images.size(2), source_width = images.size(3);
  const auto rows = describe_image(chosen, windows).to(images.device());
  const auto numbers = torch::TensorOptions(torch::kInt64).device(images.device());
  const auto column = [&](PixelRow row) { return rows[row].unsqueeze(1); };

  const auto y = column(kTop) + torch::arange(height, numbers);
  const auto forward = torch::arange(width, numbers);
  const auto x = column(kLeft) + torch::where(column(kMirrored) == 1, width - 1 - forward, forward);
  const auto inside =
      within(y, source_height).unsqueeze(2).logical_and(within(x, source_width).unsqueeze(1));
  const auto pixel = y.clamp(0, source_height - 1).unsqueeze(2) * source_width +
                     x.clamp(0, source_width - 1).unsqueeze(1);

  const auto channel = torch::arange(3, numbers).view({1, 3, 1, 1});
  const auto plane = rows[kSample].view({-1, 1, 1, 1}) * 3 + channel;
  const auto pixels =
      images.take(plane * (source_height * source_width) + pixel.unsqueeze(1))
          .to(torch::kInt64)
          .masked_fill_(inside.logical_not_().unsqueeze(1), Normalisation::kOutside);
  auto batch = values.take(pixels + channel * Normalisation::kEntries);
  // One transform drew all windows.
  if (windows.front().hole.side == 0) return batch;
  const auto in_hole = [&](PixelRow first, int64_t count) {
    const auto offset = torch::arange(count, numbers) - column(first);
    return (offset >= 0).logical_and_(offset < column(kHoleSide));
  };
  const auto erased =
      in_hole(kHoleTop, height).unsqueeze(2).logical_and(in_hole(kHoleLeft, width).unsqueeze(1));
  return batch.masked_fill_(erased.unsqueeze(1), 0.0F);
}

}  // namespace deq::lab
