#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include "kernels/common/vectorised.h"
#include "kernels/images/images.h"
#include "kernels/images/upsample.h"

// A row of the small image goes to two rows of the large one, or comes from these.

namespace deq::kernels {
namespace {

/// y = s (+ x) for a row of pixels that each stand for two; then zero where `least` says so: below
/// zero, or where there is a mask and it is not positive.
constexpr auto add_repeated =
    vectorised([]<class T>(const T* s, const T* x, const T* mask, bool relu, int64_t pixels,
                           int64_t channels, T* y) DEQ_INLINED {
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        const T* const own = s + pixel / 2 * channels;
        const int64_t at = pixel * channels;
        for (int64_t c = 0; c < channels; ++c) {
          T sum = own[c];
          if (x != nullptr) sum += x[at + c];
          if (mask != nullptr) sum = mask[at + c] > 0 ? sum : T{0};
          y[at + c] = relu && sum < 0 ? T{0} : sum;
        }
      }
    });

/// Adds g, where there is no mask or it is positive, to the pixel it came from; to for_x too where
/// there is a mask.
constexpr auto add_pairs =
    vectorised([]<class T>(const T* g, const T* mask, int64_t pixels, int64_t channels,
                           T* for_small, T* for_x) DEQ_INLINED {
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        T* const own = for_small + pixel / 2 * channels;
        const int64_t at = pixel * channels;
        for (int64_t c = 0; c < channels; ++c) {
          T pull = g[at + c];
          if (mask != nullptr) {
            pull = mask[at + c] > 0 ? pull : T{0};
            for_x[at + c] = pull;
          }
          own[c] += pull;
        }
      }
    });

template <class T>
const T* row_of(const at::Tensor& images, int64_t b, int64_t row) {
  return images.defined()
             ? images.const_data_ptr<T>() + b * images.stride(0) + row * images.stride(2)
             : nullptr;
}
template <class T>
T* row_to(const at::Tensor& images, int64_t b, int64_t row) {
  return images.defined() ? images.data_ptr<T>() + b * images.stride(0) + row * images.stride(2)
                          : nullptr;
}

/// Calls body(sample, row of the small image).
template <class Body>
void for_rows(const at::Tensor& small, const Body& body) {
  constexpr int64_t kWorthAThread = 1 << 14;  // numbers
  const int64_t height = small.size(2), numbers = small.size(1) * small.size(3);
  at::parallel_for(0, small.size(0) * height, kWorthAThread / (numbers + 1) + 1,
                   [&](int64_t first, int64_t last) {
                     for (int64_t k = first; k < last; ++k) body(k / height, k % height);
                   });
}

}  // namespace

namespace cpu {

at::Tensor upsample_add(const at::Tensor& small, const OptionalTensor& x,
                        const OptionalTensor& mask, bool relu) {
  auto y = empty_images({small.size(0), small.size(1), 2 * small.size(2), 2 * small.size(3)},
                        small.options());
  const auto added = x.value_or(at::Tensor()), shown = mask.value_or(at::Tensor());
  AT_DISPATCH_FLOATING_TYPES(small.scalar_type(), "upsample_add", [&] {
    for_rows(small, [&](int64_t b, int64_t h) {
      for (const int64_t row : {2 * h, 2 * h + 1}) {
        add_repeated(row_of<scalar_t>(small, b, h), row_of<scalar_t>(added, b, row),
                     row_of<scalar_t>(shown, b, row), relu, y.size(3), y.size(1),
                     row_to<scalar_t>(y, b, row));
      }
    });
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor> upsample_add_backward(const at::Tensor& g,
                                                         const OptionalTensor& mask) {
  const auto for_small =
      empty_images({g.size(0), g.size(1), g.size(2) / 2, g.size(3) / 2}, g.options());
  for_small.zero_();
  const auto for_x = mask ? empty_images(g.sizes(), g.options()) : at::Tensor();
  const auto shown = mask.value_or(at::Tensor());
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "upsample_add_backward", [&] {
    for_rows(for_small, [&](int64_t b, int64_t h) {
      for (const int64_t row : {2 * h, 2 * h + 1}) {
        add_pairs(row_of<scalar_t>(g, b, row), row_of<scalar_t>(shown, b, row), g.size(3),
                  g.size(1), row_to<scalar_t>(for_small, b, h), row_to<scalar_t>(for_x, b, row));
      }
    });
  });
  return {for_small, for_x};
}

}  // namespace cpu

}  // namespace deq::kernels
