#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>

#include "deq/core/linearization.h"
#include "deq/core/precision.h"
#include "deq/core/state_layout.h"
#include "deq/models/mdeq/cell.h"
#include "gpu_test.h"

// The multiscale cell on the GPU, in every precision, against the CPU in float64.

namespace deq {
namespace {

/// Shapes like those that matter, and some that no vector divides.
models::MdeqOptions cell_options(bool odd) {
  models::MdeqOptions options{.expansion = 5, .groups = odd ? 2 : 8, .dropout = 0};
  options.channels = odd ? std::vector<int64_t>{6, 10, 14} : std::vector<int64_t>{32, 64, 128};
  options.head_channels = {2, 2, 2};
  return options;
}

struct Outcome {
  torch::Tensor f{}, product{};
  std::vector<torch::Tensor> gradients{};  // of ⟨v, f⟩ + ½‖vᵀJ‖², for all parameters and the input
};

struct Sizes {
  double longest_sum, entries;
};

/// How far the GPU may be from float64, by norms. With the unit roundoff u of products and s of
/// sums,
///   f          ε = 16 u + 32 √n s      some 16 operations one after the other, sums of n terms
///   with
///                                      algorithms (Winograd) that lose a few bits
///   vᵀJ        √p + ε                  rounding switches the ReLUs of what is near zero. Of
///   numbers
///                                      N(0, 1) that are moved by ε N(0, 1) a share ε/π changes
///                                      sign; with three ReLUs in a row p = 3 ε/π, or one entry of
///                                      all
///   gradients  2 (√p + ε)              that of ½‖vᵀJ‖² passes the ReLUs twice
struct Bound {
  double f, product, gradients;
};

Bound bound_of(Precision precision, const Sizes& sizes) {
  const double sums = precision == Precision::Float64 ? 0x1p-53 : 0x1p-24;
  const double products = precision == Precision::BFloat16        ? 0x1p-8
                          : precision == Precision::TensorFloat32 ? 0x1p-11
                                                                  : sums;
  const double error = 16 * products + 32 * std::sqrt(sizes.longest_sum) * sums;
  double switched = 3 * error / M_PI * sizes.entries;
  const bool unlikely = switched < 1e-6;
  switched = unlikely ? 0 : std::max(switched, 1.0);
  const double product = std::sqrt(switched / sizes.entries) + error;
  return {.f = error, .product = product, .gradients = 2 * product};
}

class MdeqCudaTest : public test::GpuTest {
 protected:
  Outcome outcome(models::MdeqCell cell, torch::Device device, Precision precision,
                  const torch::Tensor& injection, const torch::Tensor& slab,
                  const torch::Tensor& probe) {
    const auto type = storage_type(precision);
    cell->to(device, type);
    const PrecisionScope scope(precision, device);
    const auto leaf = [&](const torch::Tensor& t) { return t.to(device, type).detach(); };
    const auto input = leaf(injection).requires_grad_();
    const auto v = leaf(probe);
    const auto layout = StateLayout::of(cell->initial_state({input}));
    const auto context = cell->prepare({input});
    const auto z = leaf(slab).requires_grad_();
    const auto f = layout.pack(cell->step(layout.unpack(z), context));
    EXPECT_EQ(f.scalar_type(), type);
    const Linearization at(z, f);
    Outcome result{.f = f.detach(), .product = at.vjp(v, /*differentiable=*/true)};
    auto variables = cell->parameters();
    variables.push_back(input);
    const auto scalar = (v * f).sum() + result.product.square().sum() / 2;
    result.gradients = torch::autograd::grad({scalar}, variables);
    return result;
  }

  static double relative(const torch::Tensor& gpu, const torch::Tensor& cpu) {
    const auto expected = cpu.detach().to(torch::kFloat64);
    const auto difference = gpu.detach().to(torch::kCPU, torch::kFloat64) - expected;
    return (difference.norm() / expected.norm()).item<double>();
  }
};

TEST_F(MdeqCudaTest, EveryPrecisionIsTheCpusWithinIts) {
  for (const bool odd : {false, true}) {
    models::MdeqCell cell(cell_options(odd), generator_);
    const int64_t batch = 3;
    const auto f64 = torch::TensorOptions(torch::kFloat64);
    const auto injection = torch::randn({batch, odd ? 6 : 32, 8, 12}, generator_, f64);
    const auto dim = StateLayout::of(cell->initial_state({injection})).dim();
    const auto slab = torch::randn({batch, dim}, generator_, f64);
    const auto probe = torch::randn({batch, dim}, generator_, f64);
    const auto exact = outcome(cell, torch::kCPU, Precision::Float64, injection, slab, probe);
    const Sizes sizes{.longest_sum = 9.0 * 5 * (odd ? 14 : 128),
                      .entries = static_cast<double>(batch * dim)};
    for (const auto precision :
         {Precision::Float64, Precision::Float32, Precision::TensorFloat32, Precision::BFloat16}) {
      const auto bound = bound_of(precision, sizes);
      SCOPED_TRACE(fmt::format("{}{}", odd ? "odd, " : "even, ", static_cast<int>(precision)));
      const auto gpu = outcome(cell, torch::kCUDA, precision, injection, slab, probe);
      EXPECT_LT(relative(gpu.f, exact.f), bound.f);
      EXPECT_LT(relative(gpu.product, exact.product), bound.product);
      std::vector<torch::Tensor> own, expected;
      for (size_t i = 0; i < exact.gradients.size(); ++i) {
        own.push_back(gpu.gradients[i].flatten());
        expected.push_back(exact.gradients[i].flatten());
        EXPECT_TRUE(own[i].ne(0).any().item<bool>()) << cell->named_parameters().keys()[i];
      }
      EXPECT_LT(relative(torch::cat(own), torch::cat(expected)), bound.gradients);
    }
    cell->to(torch::kCPU, torch::kFloat64);
  }
}

TEST_F(MdeqCudaTest, TheStateIsWrittenIntoOneSlabInChannelsLastOrder) {
  models::MdeqCell cell(cell_options(false), generator_);
  cell->to(torch::kCUDA);
  const auto injection = draw({2, 32, 8, 8});
  const PrecisionScope scope(Precision::BFloat16, torch::kCUDA);
  const torch::NoGradGuard no_grad;
  const auto z = cell->initial_state({injection});
  const auto next = cell->step(z, cell->prepare({injection}));
  for (const auto& scale : next) {
    EXPECT_EQ(scale.scalar_type(), torch::kFloat32);
    const auto sample = scale.narrow(0, 0, 1);
    EXPECT_TRUE(sample.is_contiguous(torch::MemoryFormat::ChannelsLast)) << scale.sizes();
  }
  const auto slab = StateLayout::of(z).pack(next);
  EXPECT_EQ(slab.const_data_ptr(), next[0].const_data_ptr());
}

}  // namespace
}  // namespace deq
