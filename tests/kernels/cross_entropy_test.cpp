#include "kernels/words/cross_entropy.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "derivatives.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

struct Case {
  int64_t vectors, width;
  std::vector<int64_t> words;  // of every table
};

// Blocks are of 256 vectors and of at least 512 words, more for fewer vectors.
const Case kCases[] = {{1, 3, {5}},          {7, 4, {3, 2}},      {300, 8, {1100, 3}},
                       {20, 2, {9000}},      {257, 5, {512, 17}}, {3, 16, {8192, 1, 40}},
                       {600, 1, {15, 16, 1}}};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.vectors << " vectors of " << c.width << ", words " << c.words;
}

class CrossEntropyTest : public test::Seeded {
 protected:
  at::Tensor draw(at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64);
  }

  /// Vectors, then weight and bias of every table.
  test::Variables variables(const Case& c) {
    test::Variables all{draw({c.vectors, c.width})};
    for (const auto words : c.words) {
      all.push_back(draw({words, c.width}));
      all.push_back(draw({words}));
    }
    return all;
  }

  at::Tensor targets(const Case& c) {
    int64_t words = 0;
    for (const auto table : c.words) words += table;
    auto result = torch::randint(words, {c.vectors}, generator_, torch::kInt64);
    result[0] = words - 1;
    return result;
  }
};

std::vector<WordScores> tables(const test::Variables& variables) {
  std::vector<WordScores> result;
  for (size_t i = 1; i < variables.size(); i += 2) {
    result.push_back({.weight = variables[i], .bias = variables[i + 1]});
  }
  return result;
}

template <class Function>
test::Operation operation(const Function& f, const at::Tensor& targets) {
  return [f, targets](const test::Variables& v) { return f(v[0], tables(v), targets); };
}

TEST_F(CrossEntropyTest, ItAndItsDerivativesAreTheReferences) {
  for (const auto& c : kCases) {
    SCOPED_TRACE(::testing::Message() << c);
    const auto given = variables(c);
    const auto words = targets(c);
    const auto narrow = test::leaves(given, at::kFloat);
    ASSERT_TRUE(cpu::cross_entropy_serves(narrow[0], tables(narrow)));
    test::expect_derivatives(operation(cross_entropy, words),
                             operation(reference::cross_entropy, words), given, draw({c.vectors}));
  }
}

TEST_F(CrossEntropyTest, LargeScoresDoNotOverflow) {
  const auto& c = kCases[2];
  auto given = variables(c);
  given[0].mul_(1000);
  const auto words = targets(c);
  const auto own = operation(cross_entropy, words)(test::leaves(given, at::kFloat));
  const auto expected = operation(reference::cross_entropy, words)(given);
  EXPECT_LT((own.to(at::kDouble) - expected).abs().max().item<double>(),
            1e-6 * expected.abs().max().item<double>());
}

TEST_F(CrossEntropyTest, ACostDependsNeitherOnThreadsNorOnTheOtherVectors) {
  const auto& c = kCases[3];
  const auto given = test::leaves(variables(c), at::kFloat);
  const auto words = targets(c);
  const torch::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = operation(cross_entropy, words)(given);
  at::set_num_threads(3);
  EXPECT_TRUE(operation(cross_entropy, words)(given).equal(one));
  at::set_num_threads(threads);
  const auto alone = cross_entropy(given[0].narrow(0, 4, 1), tables(given), words.narrow(0, 4, 1));
  EXPECT_LT((alone - one.narrow(0, 4, 1)).abs().item<double>(), 1e-5);
}

TEST_F(CrossEntropyTest, NaNReachesTheCostsOfItsVectorAlone) {
  const auto& c = kCases[4];
  auto given = test::leaves(variables(c), at::kFloat);
  const torch::NoGradGuard no_grad;
  given[0][9][1] = std::nan("");
  const auto costs = operation(cross_entropy, targets(c))(given);
  EXPECT_TRUE(costs[9].isnan().item<bool>());
  EXPECT_EQ(costs.isnan().sum().item<int64_t>(), 1);
}

}  // namespace
}  // namespace deq::kernels
