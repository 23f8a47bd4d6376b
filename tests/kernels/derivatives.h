#pragma once

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <vector>

// What a kernel and its derivatives must be: those of the plain version in float64, as exact as the
// plain version is in float32.

namespace deq::test {

using Variables = std::vector<at::Tensor>;
using Operation = std::function<at::Tensor(const Variables&)>;

/// Leaves with the same values in another type.
inline Variables leaves(const Variables& variables, at::ScalarType type) {
  Variables result;
  for (const auto& variable : variables) {
    result.push_back(variable.detach().to(type).requires_grad_());
  }
  return result;
}

/// f; its gradients for all variables, without a graph and with one; the gradients, for variables
/// and g, of a function of those.
inline std::vector<at::Tensor> derivatives(const Operation& f, Variables variables,
                                           const at::Tensor& g) {
  const auto y = f(variables);
  std::vector<at::Tensor> all{y};
  for (const auto& plain : torch::autograd::grad({y}, variables, {g}, /*retain_graph=*/true)) {
    all.push_back(plain);
  }
  const auto first = torch::autograd::grad({y}, variables, {g}, /*retain_graph=*/true,
                                           /*create_graph=*/true);
  auto scalar = first[0].square().sum();
  for (size_t i = 1; i < first.size(); ++i) scalar = scalar + first[i].square().sum();
  for (const auto& once : first) all.push_back(once);
  variables.push_back(g);
  const auto second = torch::autograd::grad({scalar}, variables, {}, /*retain_graph=*/{},
                                            /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < second.size(); ++i) {
    all.push_back(second[i].defined() ? second[i] : at::zeros_like(variables[i]));
  }
  return all;
}

/// `own` in float32 against `plain` in float64. What `plain` loses in float32 says how exact a
/// result can be. That is one sample of an error, so 8 times it is allowed.
inline void expect_derivatives(const Operation& own, const Operation& plain,
                               const Variables& variables, const at::Tensor& g) {
  const auto in = [&](const Operation& f, at::ScalarType type) {
    return derivatives(f, leaves(variables, type), leaves({g}, type).front());
  };
  const auto results = in(own, at::kFloat), narrow = in(plain, at::kFloat);
  const auto expected = in(plain, at::kDouble);
  const auto difference = [](const at::Tensor& a, const at::Tensor& b) {
    return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  };
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].sizes(), expected[i].sizes()) << "derivative " << i;
    const double scale = std::max(1.0, expected[i].abs().max().item<double>());
    const double allowed = std::max(2e-6 * scale, 8 * difference(narrow[i], expected[i]));
    EXPECT_LT(difference(results[i], expected[i]), allowed) << "derivative " << i;
  }
}

}  // namespace deq::test
