#include "kernels/words/cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>

#include <cmath>

#include "core/format.h"
#include "gpu_test.h"

namespace deq::kernels {
namespace {

using test::distance;
using test::largest;
using WordTensors = std::vector<at::Tensor>;

struct CrossEntropyCase {
  int64_t vectors, width;
  std::vector<int64_t> words;  // of every table
};

// Rows of fewer words than a block has threads, of more, and of a number that no vector divides.
const CrossEntropyCase kCrossEntropyCases[] = {
    {1, 3, {5}}, {7, 8, {300, 3}}, {65, 16, {2048}}, {20, 5, {9001, 2, 1}}};

class CrossEntropyCudaTest : public test::GpuTest {
 protected:
  /// Vectors, then weight and bias of every table, and targets.
  WordTensors variables(const CrossEntropyCase& c, at::ScalarType type) {
    WordTensors all{draw({c.vectors, c.width}, type)};
    for (const auto words : c.words) {
      all.push_back(draw({words, c.width}, type));
      all.push_back(draw({words}, type));
    }
    for (auto& variable : all) variable.requires_grad_();
    return all;
  }

  at::Tensor targets(const CrossEntropyCase& c) {
    int64_t words = 0;
    for (const auto table : c.words) words += table;
    auto result = torch::randint(words, {c.vectors}, generator_, torch::kInt64);
    result[0] = words - 1;
    return result.to(at::kCUDA);
  }
};

std::vector<WordScores> tables_of(const WordTensors& variables) {
  std::vector<WordScores> tables;
  for (size_t i = 1; i < variables.size(); i += 2) {
    tables.push_back({.weight = variables[i], .bias = variables[i + 1]});
  }
  return tables;
}

/// The costs; their gradients, without a graph and with one; the gradients of those.
template <class Function>
WordTensors derive_costs(const Function& f, const WordTensors& variables, const at::Tensor& targets,
                         const at::Tensor& g) {
  const auto costs = f(variables[0], tables_of(variables), targets);
  WordTensors all{costs};
  for (const auto& plain : torch::autograd::grad({costs}, variables, {g}, /*retain_graph=*/true)) {
    all.push_back(plain);
  }
  const auto once = torch::autograd::grad({costs}, variables, {g}, /*retain_graph=*/true,
                                          /*create_graph=*/true);
  at::Tensor sum = once[0].square().sum();
  for (size_t i = 1; i < once.size(); ++i) sum = sum + once[i].square().sum();
  for (const auto& gradient : once) all.push_back(gradient);
  for (const auto& twice : torch::autograd::grad({sum}, {variables[0], variables[1]})) {
    all.push_back(twice);
  }
  return all;
}

WordTensors in_float64(const WordTensors& variables) {
  WordTensors wide;
  for (const auto& variable : variables) {
    wide.push_back(variable.detach().to(at::kDouble).requires_grad_());
  }
  return wide;
}

TEST_F(CrossEntropyCudaTest, ItAndItsDerivativesAreTheReferencesInFloat64) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    for (const auto& c : kCrossEntropyCases) {
      SCOPED_TRACE(
          fmt::format("{}, {} vectors, words {}", type, c.vectors, c10::IntArrayRef(c.words)));
      const auto given = variables(c, type);
      const auto words = targets(c);
      const auto g = draw({c.vectors}, type);
      const auto found = derive_costs(cross_entropy, given, words, g);
      const auto expected =
          derive_costs(reference::cross_entropy, in_float64(given), words, g.to(at::kDouble));
      ASSERT_EQ(found.size(), expected.size());
      const double unit = type == at::kDouble ? 1e-12 : 2e-5;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_LE(distance(found[i], expected[i]), unit * (1 + largest(expected[i]))) << i;
      }
    }
  }
}

TEST_F(CrossEntropyCudaTest, AutocastRoundsScoresAndNothingElse) {
  for (const auto& c : kCrossEntropyCases) {
    SCOPED_TRACE(fmt::format("{} vectors, words {}", c.vectors, c10::IntArrayRef(c.words)));
    auto given = variables(c, at::kFloat);
    const auto words = targets(c);
    const auto g = draw({c.vectors});
    at::autocast::set_autocast_enabled(at::kCUDA, true);
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    const auto costs = cross_entropy(given[0], tables_of(given), words);
    at::autocast::set_autocast_enabled(at::kCUDA, false);
    const auto gradients = torch::autograd::grad({costs}, given, {g});
    const auto wide = in_float64(given);
    const auto exact = reference::cross_entropy(wide[0], tables_of(wide), words);
    const auto expected = torch::autograd::grad({exact}, wide, {g.to(at::kDouble)});
    EXPECT_EQ(costs.scalar_type(), at::kFloat);
    EXPECT_LE(distance(costs, exact), 0x1p-5 * (1 + largest(exact)));
    for (size_t i = 0; i < given.size(); ++i) {
      EXPECT_EQ(gradients[i].scalar_type(), at::kFloat) << i;
      EXPECT_LE(distance(gradients[i], expected[i]), 0x1p-4 * (1 + largest(expected[i]))) << i;
    }
  }
}

TEST_F(CrossEntropyCudaTest, LargeScoresDoNotOverflowAndNaNStaysInItsRow) {
  const CrossEntropyCase c{.vectors = 9, .width = 4, .words = {700}};
  auto given = variables(c, at::kFloat);
  const auto words = targets(c);
  const torch::NoGradGuard no_grad;
  given[0].mul_(1000);
  given[0][3][1] = std::nan("");
  const auto costs = cross_entropy(given[0], tables_of(given), words);
  EXPECT_TRUE(costs[3].isnan().item<bool>());
  EXPECT_EQ(costs.isfinite().sum().item<int64_t>(), 8);
}

}  // namespace
}  // namespace deq::kernels
