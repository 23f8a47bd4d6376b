#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <vector>

#include "kernels/images/convolution.h"
#include "kernels/images/images.h"
#include "kernels/images/residual_branch.h"
#include "kernels/images/winograd.h"
#include "kernels/norms/group_norm_samples.h"

namespace deq::kernels::cpu {
namespace {

/// Convolves one sample after the other, by one thread.
class SampleConvolution {
 public:
  SampleConvolution(const at::Tensor& x, int64_t in, int64_t out, const at::Tensor& transformed)
      : shape_{.batch = 1, .height = x.size(2), .width = x.size(3), .in = in, .out = out},
        u_(transformed.const_data_ptr<float>()),
        workspace_(static_cast<size_t>(shape_.workspace())) {}

  void operator()(const float* x, float* y) {
    for (int64_t block = 0; block < shape_.blocks(); ++block) {
      winograd::convolve_block(shape_, block, x, u_, workspace_.data(), y);
    }
  }

 private:
  winograd::Shape shape_;
  const float* u_;
  std::vector<float> workspace_;
};

float* sample_to(const at::Tensor& images, int64_t b) {
  return images.data_ptr<float>() + b * images.stride(0);
}

}  // namespace

bool residual_branch_serves(const at::Tensor& x, const BranchWeights& weights) {
  const auto &first = weights.first, &second = weights.second;
  const auto is_float = [](const at::Tensor& t) {
    return !t.defined() || t.scalar_type() == at::kFloat;
  };
  if (x.dim() != 4 || !winograd_serves(x, first) || !winograd_serves(x, second)) return false;
  // Of fewer tiles than are transformed together, the weights would be read too often; of few
  // samples, threads would wait for each other.
  const winograd::Shape one{.batch = 1, .height = x.size(2), .width = x.size(3)};
  const bool enough = one.tiles() >= winograd::kBlock && x.size(0) >= 2 * at::get_num_threads();
  return enough && second.size(1) == first.size(0) && is_float(weights.norm_weight) &&
         is_float(weights.norm_bias);
}

BranchOutputs residual_branch(const at::Tensor& x, const BranchWeights& weights, bool keep) {
  const auto images = dense_pixels(x);
  const auto batch = x.size(0), height = x.size(2), width = x.size(3);
  const auto inner = weights.first.size(0), out = weights.second.size(0);
  BranchOutputs result{.y = empty_images({batch, out, height, width}, x.options()),
                       .mean = at::empty({batch, weights.groups}, x.options()),
                       .rstd = at::empty({batch, weights.groups}, x.options())};
  if (keep) {
    result.inner = empty_images({batch, inner, height, width}, x.options());
    result.hidden = empty_images({batch, inner, height, width}, x.options());
  }
  const auto first_weights = winograd_weights(weights.first);
  const auto second_weights = winograd_weights(weights.second);
  const auto pixels = height * width;
  at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
    SampleConvolution convolve_first(x, x.size(1), inner, first_weights);
    SampleConvolution convolve_second(x, inner, out, second_weights);
    GroupNormSamples<float> norm(inner, pixels, weights.groups, weights.norm_weight);
    std::vector<float> own(keep ? 0 : static_cast<size_t>(inner * pixels));
    for (int64_t b = begin; b < end; ++b) {
      float* const middle = keep ? sample_to(result.inner, b) : own.data();
      float* const hidden = keep ? sample_to(result.hidden, b) : own.data();
      convolve_first(sample<float>(images, b), middle);
      norm.forward(middle, /*addend=*/nullptr, numbers<float>(weights.norm_bias), weights.eps,
                   /*relu=*/true, hidden, result.mean.data_ptr<float>() + b * weights.groups,
                   result.rstd.data_ptr<float>() + b * weights.groups);
      convolve_second(hidden, sample_to(result.y, b));
    }
  });
  return result;
}

at::Tensor residual_branch_backward(const at::Tensor& g, const BranchOutputs& at,
                                    const BranchWeights& weights) {
  const auto images = dense_pixels(g);
  const auto inner = at.inner.size(1), in = weights.first.size(1), groups = weights.groups;
  const auto pixels = g.size(2) * g.size(3);
  auto for_x = empty_images({g.size(0), in, g.size(2), g.size(3)}, g.options());
  const auto first_weights = winograd_weights(turned(weights.first));
  const auto second_weights = winograd_weights(turned(weights.second));
  at::parallel_for(0, g.size(0), 1, [&](int64_t begin, int64_t end) {
    SampleConvolution back_second(g, g.size(1), inner, second_weights);
    SampleConvolution back_first(g, inner, in, first_weights);
    GroupNormSamples<float> norm(inner, pixels, groups, weights.norm_weight);
    std::vector<float> pulled(static_cast<size_t>(inner * pixels));
    std::vector<double> totals(static_cast<size_t>(2 * inner));
    for (int64_t b = begin; b < end; ++b) {
      back_second(sample<float>(images, b), pulled.data());
      norm.backward(pulled.data(), sample<float>(at.inner, b), sample<float>(at.hidden, b),
                    at.mean.const_data_ptr<float>() + b * groups,
                    at.rstd.const_data_ptr<float>() + b * groups, pulled.data(), pulled.data(),
                    totals.data());
      back_first(pulled.data(), sample_to(for_x, b));
    }
  });
  return for_x;
}

}  // namespace deq::kernels::cpu
