#include "kernels/history/history.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "kernels/history/history_common.h"
#include "support/seed.h"

// The fused CPU kernels against plain torch. D is chosen around the kernels' tile of 2048 numbers
// and their lanes of 16 and 32.

namespace deq::kernels {
namespace {

struct Shape {
  int64_t batch, dim, rows;
  at::ScalarType type;
};

void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.batch << " × " << s.dim << ", " << s.rows << " rows, " << s.type;
}

std::vector<Shape> shapes() {
  std::vector<Shape> result;
  for (const auto type : {at::kFloat, at::kDouble}) {
    int64_t rows = 0;
    for (const int64_t dim : {1, 2, 15, 17, 100, 2047, 2048, 2049, 5000}) {
      for (const int64_t batch : {1, 3}) result.push_back({batch, dim, rows++ % 8, type});
    }
    for (int64_t n = 0; n <= 7; ++n) result.push_back({2, 2300, n, type});
  }
  return result;
}

class HistoryTest : public test::SeededWith<Shape> {
 protected:
  at::Tensor draw() {
    const auto& s = GetParam();
    return at::randn({s.batch, s.dim}, generator_, at::TensorOptions(at::kDouble)).to(s.type);
  }
  std::vector<at::Tensor> draw_rows(int64_t count) {
    std::vector<at::Tensor> rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back(draw());
    return rows;
  }
  double unit_roundoff() const { return GetParam().type == at::kFloat ? 0x1p-24 : 0x1p-53; }
  /// What a sum of products may be off by: at most 2048/16 additions in one lane, then few more.
  at::Tensor dot_bound(const at::Tensor& v, at::TensorList rows) const {
    std::vector<at::Tensor> absolute;
    for (const auto& row : rows) absolute.push_back(row.abs());
    return reference::dots(v.abs(), absolute) * (140 * unit_roundoff());
  }
  static void expect_within(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bound) {
    ASSERT_EQ(a.sizes(), b.sizes());
    ASSERT_EQ(a.scalar_type(), b.scalar_type());
    EXPECT_TRUE(((a - b).abs() <= bound).all().item<bool>())
        << "largest difference " << (a - b).abs().max().item<double>();
  }
};

TEST_P(HistoryTest, DotsMatchReference) {
  if (GetParam().rows == 0) {
    EXPECT_EQ(cpu::dots(draw(), {}).sizes(), (std::vector<int64_t>{GetParam().batch, 0}));
    return;
  }
  const auto v = draw();
  const auto rows = draw_rows(GetParam().rows);
  expect_within(cpu::dots(v, rows), reference::dots(v, rows), dot_bound(v, rows));
}

TEST_P(HistoryTest, ObserveMatchesReference) {
  const auto f = draw(), z = draw();
  const auto rows = draw_rows(GetParam().rows);
  auto g = at::empty_like(z), expected_g = at::empty_like(z);
  const auto sums = cpu::observe(f, z, g, rows);
  const auto expected = reference::observe(f, z, expected_g, rows);
  EXPECT_TRUE(g.equal(expected_g));
  auto all = rows;
  all.insert(all.begin(), {g, f});
  auto bound = dot_bound(g, all);
  bound.select(1, 1).copy_(dot_bound(f, {f}).squeeze(1));
  expect_within(sums, expected, bound);
}

TEST_P(HistoryTest, ObserveGivesTheNewestRowsDotsToo) {
  if (GetParam().rows == 0) return;
  const auto f = draw(), z = draw();
  const auto rows = draw_rows(GetParam().rows);
  auto g = at::empty_like(z);
  const auto sums = cpu::observe(f, z, g, rows, rows.back());
  auto again = at::empty_like(z);
  EXPECT_TRUE(sums.narrow(1, 0, GetParam().rows + 2).equal(cpu::observe(f, z, again, rows)));
  EXPECT_TRUE(
      sums.narrow(1, GetParam().rows + 2, GetParam().rows).equal(cpu::dots(rows.back(), rows)));
  expect_within(reference::observe(f, z, again, rows, rows.back()), sums,
                at::cat({dot_bound(g, {g}), dot_bound(f, {f}), dot_bound(g, rows),
                         dot_bound(rows.back(), rows)},
                        1));
}

TEST_P(HistoryTest, CombineMatchesReference) {
  const auto& s = GetParam();
  const auto rows = draw_rows(s.rows);
  const auto c = at::randn({s.batch, s.rows}, generator_, at::TensorOptions(at::kDouble));
  auto out = at::full({s.batch, s.dim}, 7.0, s.type), expected = at::empty_like(out);
  auto moved = at::empty_like(out), expected_moved = at::empty_like(out);
  const auto base = draw();
  auto dot_rows = draw_rows(2);
  auto expected_dot_rows = dot_rows;
  dot_rows.push_back(out);  // the result itself may be asked for
  expected_dot_rows.push_back(expected);
  const auto dots = cpu::combine(rows, c, out, base, moved, dot_rows);
  const auto expected_dots =
      reference::combine(rows, c, expected, base, expected_moved, expected_dot_rows);

  auto size = at::zeros_like(out);
  for (int64_t i = 0; i < s.rows; ++i) {
    size += (c.narrow(1, i, 1) * rows[static_cast<size_t>(i)]).abs().to(s.type);
  }
  expect_within(out, expected, size * (10 * unit_roundoff()));
  EXPECT_TRUE(moved.equal(base + out));
  expect_within(dots, reference::dots(out, dot_rows), dot_bound(out, dot_rows));
  EXPECT_EQ(expected_dots.sizes(), dots.sizes());
}

TEST_P(HistoryTest, AdvanceMovesActiveSamplesAndKeepsTheBest) {
  const auto& s = GetParam();
  const auto rows = draw_rows(s.rows);
  const auto c = at::randn({s.batch, s.rows}, generator_, at::TensorOptions(at::kDouble));
  const auto z = draw(), start = draw();
  auto sum = at::empty_like(z);
  cpu::combine(rows, c, sum, std::nullopt, std::nullopt, {});
  for (const int64_t mark : {0, 1, 2, 3}) {
    // The first sample has this mark, all others its complement.
    auto marks = at::full({s.batch}, 3 - mark, at::kByte);
    marks[0] = mark;
    auto best = start.clone(), step = at::empty_like(z), next = at::empty_like(z);
    cpu::advance(rows, c, z, best, marks, std::nullopt, next);
    auto moved = at::empty_like(z), same_best = start.clone();
    reference::advance(rows, c, z, same_best, marks, step, moved);
    EXPECT_TRUE(best.equal(same_best));
    for (int64_t b = 0; b < s.batch; ++b) {
      const auto own = marks[b].item<int64_t>();
      EXPECT_TRUE(best[b].equal((own & kImproved) != 0 ? z[b] : start[b]));
      EXPECT_TRUE(next[b].equal((own & kActive) != 0 ? sum[b] : best[b]));
      EXPECT_TRUE(moved[b].equal((own & kActive) != 0 ? z[b] + step[b] : best[b]));
    }
  }
}

TEST_P(HistoryTest, ZeroCoefficientsSkipNonFiniteRows) {
  const auto& s = GetParam();
  auto rows = draw_rows(3);
  rows[1].fill_(std::numeric_limits<double>::quiet_NaN());
  rows[2].fill_(std::numeric_limits<double>::infinity());
  auto c = at::zeros({s.batch, 3}, at::kDouble);
  c.select(1, 0).fill_(2.0);
  auto out = at::empty_like(rows[0]), expected = at::empty_like(rows[0]);
  combine(rows, c, out);
  EXPECT_TRUE(out.equal(2 * rows[0]));
  reference::combine(rows, c, expected, std::nullopt, std::nullopt, {});
  EXPECT_TRUE(expected.equal(2 * rows[0]));
  c.zero_();
  combine(rows, c, out);
  EXPECT_TRUE(out.equal(at::zeros_like(out)));
}

TEST_P(HistoryTest, ResultsDependOnNoOtherSample) {
  const auto& s = GetParam();
  const auto f = draw(), z = draw();
  const auto rows = draw_rows(s.rows);
  auto g = at::empty_like(z);
  const auto sums = cpu::observe(f, z, g, rows);
  for (int64_t b = 0; b < s.batch; ++b) {
    const auto alone = [b](const at::Tensor& t) { return t.narrow(0, b, 1).contiguous(); };
    std::vector<at::Tensor> own_rows;
    for (const auto& row : rows) own_rows.push_back(alone(row));
    auto own_g = alone(g);
    EXPECT_TRUE(cpu::observe(alone(f), alone(z), own_g, own_rows).equal(alone(sums))) << b;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HistoryTest, ::testing::ValuesIn(shapes()));

class HistoryThreads : public test::SeededWith<at::ScalarType> {
 protected:
  ~HistoryThreads() override { at::set_num_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};

TEST_P(HistoryThreads, ResultsDoNotDependOnTheirNumber) {
  const auto draw = [&] {
    return at::randn({5, 40000}, generator_, at::TensorOptions(at::kDouble)).to(GetParam());
  };
  const auto f = draw(), z = draw();
  const std::vector<at::Tensor> rows{draw(), draw(), draw()};
  const auto c = at::randn({5, 3}, generator_, at::TensorOptions(at::kDouble));
  std::vector<at::Tensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    at::set_num_threads(threads);
    auto g = at::empty_like(z), out = at::empty_like(z), moved = at::empty_like(z);
    const auto sums = observe(f, z, g, rows);
    const auto dot_values = dots(g, rows);
    const auto gram = combine_and_move(rows, c, out, z, moved, rows);
    const std::vector<at::Tensor> results{sums, dot_values, gram, g, out, moved};
    if (first.empty()) first = results;
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(results[i].equal(first[i])) << "result " << i << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HistoryThreads, ::testing::Values(at::kFloat, at::kDouble));

TEST(HistoryRange, SquaresOutsideFloat32AreKept) {
  // These are ordinary float32 numbers whose squares are not: 0 would read as convergence, infinity
  // as a failure.
  for (const double value : {0x1p80, 0x1p-80}) {
    const auto v = at::full({1, 100}, value, at::kFloat);
    const double expected = 100 * value * value;
    EXPECT_EQ(reference::dots(v, {v}).item<double>(), expected);
    EXPECT_NEAR(cpu::dots(v, {v}).item<double>(), expected, 1e-6 * expected) << value;
  }
}

}  // namespace
}  // namespace deq::kernels
