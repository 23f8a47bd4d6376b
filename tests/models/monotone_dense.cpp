#include "monotone_dense.h"

#include <fmt/format.h>

#include "support/maps.h"

namespace deq::test {
namespace {

using torch::Tensor;

Tensor wrapped(const Tensor& image, int64_t dim) {
  const auto size = image.size(dim);
  return image.index_select(dim, torch::arange(-1, size + 1).remainder(size));
}

Tensor convolved(const Tensor& image, const Tensor& kernel, int64_t stride) {
  return torch::conv2d(wrapped(wrapped(image, 2), 3), kernel, {}, stride);
}

}  // namespace

Tensor convolution_matrix(const Tensor& kernel, int64_t size, int64_t stride) {
  const auto in = kernel.size(1);
  const auto basis = torch::eye(in * size * size, f64()).view({-1, in, size, size});
  auto result = convolved(basis, kernel, stride);
  if (stride == 2) result = torch::constant_pad_nd(result, {0, 1, 0, 1});
  return result.flatten(1).t();
}

DenseMonotone::DenseMonotone(const models::MonotoneOptions& options, const torch::nn::Module& cell)
    : options_(options) {
  const auto parameters = cell.named_parameters();
  const auto tiers = options.tiers();
  const auto name = [&](const char* one, const char* many, size_t i) {
    return tiers == 1 ? std::string(one) : fmt::format("{}.{}", many, i);
  };
  const auto unit = [&](const std::string& path) {
    const auto& weight = parameters[path + ".weight"];
    return weight / weight.square().sum().sqrt();
  };
  u_ = parameters["U.weight"];
  bias_ = parameters["U.bias"];
  std::vector<std::vector<Tensor>> a(tiers), b(tiers);  // blocks [row][column]
  std::vector<Tensor> inside;
  for (size_t i = 0; i < tiers; ++i) {
    const auto size = options.image_size / (int64_t{1} << i) + 2;
    const auto n = options.channels[i] * size * size;
    for (size_t j = 0; j < tiers; ++j) {
      const auto other = options.image_size / (int64_t{1} << j) + 2;
      a[i].push_back(torch::zeros({n, options.channels[j] * other * other}, f64()));
      b[i].push_back(a[i].back());
    }
    const auto& g = parameters[name("g", "g", i)];
    a[i][i] = g.sqrt() * convolution_matrix(unit(name("A", "A0", i)), size);
    b[i][i] = parameters[name("h", "h", i)] * convolution_matrix(unit(name("B", "B0", i)), size);
    if (i > 0) {
      const auto& gain = parameters[fmt::format("gn.{}", i - 1)];
      const auto above = options.image_size / (int64_t{1} << (i - 1)) + 2;
      a[i][i - 1] = gain.sqrt() * convolution_matrix(unit(fmt::format("A_n0.{}", i - 1)), above, 2);
      b[i][i - 1] = -torch::matmul(a[i][i].t(), a[i][i - 1]);
    }
    auto border = torch::zeros({options.channels[i], size, size}, f64());
    border.narrow(1, 1, size - 2).narrow(2, 1, size - 2).fill_(1);
    inside.push_back(border.flatten());
  }
  const auto whole = [](const std::vector<std::vector<Tensor>>& blocks) {
    std::vector<Tensor> rows;
    for (const auto& row : blocks) rows.push_back(torch::cat(row, 1));
    return torch::cat(rows, 0);
  };
  const auto big_a = whole(a), big_b = whole(b);
  w = (1 - options.strength) * torch::eye(big_a.size(0), f64()) - torch::matmul(big_a.t(), big_a) +
      big_b - big_b.t();
  mask = torch::cat(inside);
}

Tensor DenseMonotone::injection(const Tensor& image) const {
  const auto given = (convolved(image, u_, 1) + bias_.view({-1, 1, 1})).flatten(1);
  return torch::constant_pad_nd(given, {0, w.size(0) - given.size(1)});
}

Tensor DenseMonotone::solution(const Tensor& image) const {
  const auto big_m = m();
  const auto c = injection(image);
  Tensor u = torch::zeros_like(c);
  {
    const torch::NoGradGuard no_grad;
    const auto v = torch::inverse(torch::eye(w.size(0), f64()) + big_m);
    for (int k = 0; k < 3000; ++k) {
      const auto reflected = 2 * rectified(u) - u;
      u = 2 * torch::matmul(reflected + c, v.t()) - reflected;
    }
  }
  std::vector<Tensor> rows;
  for (int64_t s = 0; s < c.size(0); ++s) {
    const auto positive = (u[s] * mask).gt(0).nonzero().squeeze(1);
    const auto block = big_m.index_select(0, positive).index_select(1, positive);
    const auto values = torch::linalg_solve(block, c[s].index_select(0, positive));
    rows.push_back(torch::zeros_like(c[s]).index_copy(0, positive, values));
  }
  const auto z = torch::stack(rows);
  const auto again = rectified(torch::matmul(z, w.t()) + c);
  TORCH_CHECK(relative_difference(again, z) < 1e-12, "the dense solution is none");
  return z;
}

std::vector<models::MonotoneOptions> small_monotone() {
  models::MonotoneOptions single{.image_channels = 2,
                                 .image_size = 5,
                                 .channels = {3},
                                 .strength = 0.8,
                                 .splitting = models::Splitting::PeacemanRachford,
                                 .alpha = 0.7,
                                 .classes = 3};
  auto two = single;
  two.image_size = 6;
  two.channels = {2, 3};
  auto three = single;
  three.image_size = 8;
  three.channels = {1, 2, 3};
  return {single, two, three};
}

models::MonotoneCell small_monotone_cell(const models::MonotoneOptions& options,
                                         at::Generator generator, double gain) {
  models::MonotoneCell cell(options, generator);
  cell->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : cell->parameters()) {
    // Gains apart from each other, none at the value where it hides.
    if (parameter.dim() == 0) parameter.mul_(gain).add_(torch::rand({}, generator, f64()));
  }
  return cell;
}

}  // namespace deq::test
