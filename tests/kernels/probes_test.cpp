#include "kernels/probes/probes.h"

#include <ATen/Parallel.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/format.h"
#include "deq/core/error.h"
#include "kernels/probes/philox.h"
#include "kernels/probes/probes_numbers.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

TEST(Philox, IsThatOfTorch) {
  for (const uint64_t key : {uint64_t{0}, uint64_t{1}, test::seed(), ~uint64_t{0}}) {
    for (const uint64_t low : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40}) {
      for (const uint64_t high : {uint64_t{0}, uint64_t{3}, ~uint64_t{0}}) {
        at::Philox4_32 oracle(key, high, low);
        const auto block = philox(key, low, high);
        for (const auto word : block.word) EXPECT_EQ(word, oracle());
      }
    }
  }
}

TEST(Philox, EndsOfTheUniformNumbersAreFinite) {
  for (const uint32_t radius : {0U, 1U, 0x7fffffffU, 0x80000000U, ~0U}) {
    for (uint32_t eighth = 0; eighth < 8; ++eighth) {
      for (const uint32_t angle : {eighth << 29, (eighth << 29) + 1, (eighth << 29) - 1}) {
        const double r = std::sqrt(-2 * std::log((radius + 0.5) * 0x1p-32));
        const double x = r * std::cos(angle * 0x1p-31 * M_PI);
        const double y = r * std::sin(angle * 0x1p-31 * M_PI);
        const auto wide = normal_pair<double>(radius, angle);
        EXPECT_NEAR(wide.first, x, 4e-15);
        EXPECT_NEAR(wide.second, y, 4e-15);
        // In float32 a uniform number next to 1 rounds by 2^-25, and its radius is a square root.
        const auto narrow = normal_pair<float>(radius, angle);
        EXPECT_NEAR(narrow.first, x, radius == ~0U ? 3e-4 : 2e-6);
        EXPECT_NEAR(narrow.second, y, radius == ~0U ? 3e-4 : 2e-6);
      }
    }
  }
}

struct ProbesCase {
  Probe kind;
  at::ScalarType type;
};

std::string name(const ProbesCase& c) {
  return fmt::format("{}{}", c.kind == Probe::Normal ? "Normal" : "Signs", c.type);
}

class ProbeTest : public test::SeededWith<ProbesCase> {
 protected:
  ~ProbeTest() override { at::set_num_threads(threads_); }

  at::Tensor draw(int64_t rows, int64_t columns, uint64_t key, int64_t first_row = 0) const {
    auto out = at::full({rows, columns}, std::nan(""), GetParam().type);
    draw_probe(out, GetParam().kind, key, first_row);
    return out;
  }
  /// A large draw in float64.
  at::Tensor numbers(uint64_t key) const { return draw(200, 1000, key).to(at::kDouble); }

  const uint64_t key_ = test::seed();

 private:
  int threads_ = at::get_num_threads();
};

TEST_P(ProbeTest, MatchesTheReference) {
  const auto [kind, type] = GetParam();
  for (const int64_t columns : {0, 1, 5, 15, 16, 17, 31, 32, 33, 1023, 1024, 1025, 2500}) {
    for (const int64_t rows : {0, 1, 3, 4, 9}) {
      for (const int64_t first_row : {0, 1, 6, 1000003}) {
        const auto probe = draw(rows, columns, key_, first_row);
        auto expected = at::empty_like(probe);
        reference::probe(expected, kind == Probe::Signs, static_cast<int64_t>(key_), first_row);
        // A uniform float32 next to 1 rounds by 2^-25, and the radius is a square root.
        const double bound = kind == Probe::Signs ? 0 : type == at::kFloat ? 3e-4 : 4e-15;
        EXPECT_TRUE(((probe - expected).abs() <= bound).all().item<bool>())
            << rows << " × " << columns << " from row " << first_row;
      }
    }
  }
}

TEST_P(ProbeTest, RowsOfALargerDrawAreThoseOfASmallerOne) {
  const auto whole = draw(23, 300, key_, 5);
  for (int64_t begin = 0; begin < 23; begin += 3) {
    for (const int64_t count : {1, 2, 5}) {
      if (begin + count > 23) continue;
      EXPECT_TRUE(draw(count, 300, key_, 5 + begin).equal(whole.narrow(0, begin, count)))
          << begin << ", " << count;
    }
  }
  // Nor do the other columns matter.
  for (const int64_t columns : {1, 40, 299}) {
    EXPECT_TRUE(draw(23, columns, key_, 5).equal(whole.narrow(1, 0, columns))) << columns;
  }
}

TEST_P(ProbeTest, DoesNotDependOnTheNumberOfThreads) {
  at::set_num_threads(1);
  const auto one = draw(37, 5000, key_);
  for (const int threads : {2, 3, 7}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(draw(37, 5000, key_).equal(one)) << threads;
  }
}

TEST_P(ProbeTest, HasTheMomentsOfItsDistribution) {
  const auto x = numbers(key_);
  const double n = std::sqrt(static_cast<double>(x.numel()));
  const auto mean = [&](int power) { return x.pow(power).mean().item<double>(); };
  EXPECT_NEAR(mean(1), 0, 5 / n);
  if (GetParam().kind == Probe::Signs) {
    EXPECT_TRUE((x.abs() == 1).all().item<bool>());
    return;
  }
  // The variance of xᵏ is E x²ᵏ − (E xᵏ)², with E x⁴ = 3, E x⁶ = 15 and E x⁸ = 105.
  EXPECT_NEAR(mean(2), 1, 5 * std::sqrt(2.0) / n);
  EXPECT_NEAR(mean(3), 0, 5 * std::sqrt(15.0) / n);
  EXPECT_NEAR(mean(4), 3, 5 * std::sqrt(96.0) / n);
  const auto below = (x < 1).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(below, 0.5 * std::erfc(-std::sqrt(0.5)), 5 * 0.5 / n);
  EXPECT_GT(x.abs().max().item<double>(), 3.5);
}

TEST_P(ProbeTest, RowsColumnsAndKeysAreUncorrelated) {
  const auto x = numbers(key_);
  const auto expect_uncorrelated = [](const at::Tensor& a, const at::Tensor& b,
                                      const std::string& what) {
    const double bound = 5 / std::sqrt(static_cast<double>(a.numel()));
    EXPECT_NEAR((a * b).mean().item<double>(), 0, bound) << what;
    // Squares as well: the two numbers of a Box–Muller pair share a radius.
    const auto square = ((a.square() - 1) * (b.square() - 1)).mean().item<double>();
    EXPECT_NEAR(square, 0, 2 * bound) << what;
  };
  for (const int64_t shift : {1, 2, 3, 4, 5, 8}) {
    expect_uncorrelated(x.slice(0, shift), x.slice(0, 0, -shift), fmt::format("rows {}", shift));
  }
  for (const int64_t shift : {1, 2, 4, 16, 31, 32, 33, 128}) {
    expect_uncorrelated(x.slice(1, shift), x.slice(1, 0, -shift), fmt::format("columns {}", shift));
  }
  for (const uint64_t other : {key_ + 1, key_ ^ (uint64_t{1} << 32), ~key_}) {
    expect_uncorrelated(x, numbers(other), fmt::format("key {}", other));
  }
}

TEST_P(ProbeTest, RowsHaveIndependentSums) {
  // E‖ε‖⁴ and the spread of row sums would show a dependence that single pairs do not.
  const auto sums = numbers(key_).sum(1) / std::sqrt(1000.0);
  EXPECT_NEAR(sums.square().mean().item<double>(), 1, 5 * std::sqrt(2.0 / 200));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ProbeTest,
                         ::testing::Values(ProbesCase{Probe::Normal, at::kFloat},
                                           ProbesCase{Probe::Normal, at::kDouble},
                                           ProbesCase{Probe::Signs, at::kFloat},
                                           ProbesCase{Probe::Signs, at::kDouble}),
                         [](const auto& c) { return name(c.param); });

TEST(ProbeMisuse, IsNamed) {
  auto vector = at::empty({3}), integers = at::empty({3, 2}, at::kLong), good = at::empty({3, 2});
  EXPECT_THAT([&] { draw_probe(vector, Probe::Signs, 0, 0); },
              ThrowsMessage<Error>(StrEq("probe: out must be a contiguous [B, D]")));
  EXPECT_THAT([&] { draw_probe(integers, Probe::Signs, 0, 0); },
              ThrowsMessage<Error>(StrEq("probe: out is Long, must be float32 or float64")));
  EXPECT_THAT([&] { draw_probe(good, Probe::Signs, 0, -1); },
              ThrowsMessage<Error>(StrEq("probe: first_row = -1, must be ≥ 0")));
}

}  // namespace
}  // namespace deq::kernels
