#pragma once

#include <torch/types.h>

#include <limits>

#include "support/maps.h"

namespace deq::test {

/// f(z) = p/(1 + z²) + q z + r elementwise, per sample. Each operation is correctly rounded, so f
/// of a row has the same bits wherever the row is.
struct RationalMap {
  torch::Tensor p, q, r;  // [B, D]

  torch::Tensor operator()(const torch::Tensor& z) const { return p / (1 + z * z) + q * z + r; }
  RationalMap rows(int64_t first, int64_t count) const {
    return {p.narrow(0, first, count), q.narrow(0, first, count), r.narrow(0, first, count)};
  }
  RationalMap to(const torch::TensorOptions& options) const {
    return {p.to(options), q.to(options), r.to(options)};
  }
};

constexpr int64_t kMixedBatch = 7;

/// An ordinary sample, and neighbours that stop at once, soon, late, by overflow or by NaN.
inline RationalMap mixed_map(int64_t dim, at::Generator generator) {
  const auto draw = [&] { return torch::rand({kMixedBatch, dim}, generator, f64()); };
  RationalMap map{draw(), 0.4 * draw(), draw()};
  map.p[1].zero_(), map.q[1].zero_();      // constant: the second evaluation is exact
  map.p[2].zero_(), map.q[2].fill_(0.97);  // slow
  map.p[3].zero_(), map.q[3].fill_(3.0);   // Picard runs away
  map.r[4].fill_(std::numeric_limits<double>::quiet_NaN());
  map.p[5].fill_(-3.0), map.q[5].copy_(-0.9 * draw()[0]);  // zig-zag
  map.p[6].zero_(), map.q[6].fill_(1e150);                 // overflows in a step or two
  return map;
}

}  // namespace deq::test
