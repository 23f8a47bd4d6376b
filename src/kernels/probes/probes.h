#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

// Random probes [B, D] without a generator's state: the number in row r and column c depends only
// on the key, on first_row + r and on c, on every device and for every type. A batch that is split
// over processes or cut into parts therefore gets the same probes as the whole.
//
// Four rows share a Philox block, one word each. For normal numbers the counter is the column, and
// the words of two neighbouring rows make a Box–Muller pair; for signs a block serves 32 columns,
// one bit each.

namespace deq::kernels {

enum class Probe { Normal, Signs };

/// Fills `out` [B, D], contiguous, float32 or float64. Signs are the same bits everywhere, normal
/// numbers the same to rounding.
void draw_probe(at::Tensor& out, Probe kind, uint64_t key, int64_t first_row);

namespace reference {
void probe(at::Tensor& out, bool signs, int64_t key, int64_t first_row);
}  // namespace reference

namespace cpu {
void probe(at::Tensor& out, bool signs, int64_t key, int64_t first_row);
}  // namespace cpu

}  // namespace deq::kernels
