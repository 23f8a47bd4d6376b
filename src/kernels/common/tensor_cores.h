#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>

// A GPU multiplies matrices of two-byte numbers about three times as fast when their rows begin at
// multiples of 16 bytes. So there every size is rounded up to a multiple of eight, with zeros.

namespace deq::kernels {

/// Whether products with this matrix are those of tensor cores in half precision.
inline bool wants_aligned_rows(const at::Tensor& matrix) {
  return matrix.is_cuda() && matrix.element_size() == 2;
}

/// Numbers of a row that are aligned: n, or a few more.
inline int64_t aligned_size(int64_t n) {
  constexpr int64_t kMultiple = 8;
  return (n + kMultiple - 1) / kMultiple * kMultiple;
}

/// […, groups · n] as […, groups · size]: every group with zeros up to `size` numbers.
inline at::Tensor widened_groups(const at::Tensor& x, int64_t groups, int64_t size) {
  const auto width = x.size(-1) / groups;
  if (width == size) return x;
  return at::constant_pad_nd(x.unflatten(-1, {groups, width}), {0, size - width}).flatten(-2);
}

/// [m, n] with zeros up to the next aligned sizes, where that matters. Rows and columns may be
/// groups of as many, such as the heads of an attention, each of which is then aligned.
inline at::Tensor aligned_matrix(const at::Tensor& matrix, int64_t row_groups = 1,
                                 int64_t column_groups = 1) {
  if (!wants_aligned_rows(matrix)) return matrix;
  const auto rows = matrix.size(0) / row_groups, columns = matrix.size(1) / column_groups;
  const auto all_rows = aligned_size(rows), all_columns = aligned_size(columns);
  if (rows == all_rows && columns == all_columns) return matrix;
  return at::constant_pad_nd(matrix.reshape({row_groups, rows, column_groups, columns}),
                             {0, all_columns - columns, 0, 0, 0, all_rows - rows})
      .view({row_groups * all_rows, column_groups * all_columns});
}

/// […, n] in this type, with zeros up to `size` numbers in the last dimension.
inline at::Tensor with_zeros(const at::Tensor& x, int64_t size, at::ScalarType type) {
  if (x.size(-1) == size) return x;
  return at::constant_pad_nd(x.to(type), {0, size - x.size(-1)});
}

/// x […, in] as the left factor of an aligned matrix.
inline at::Tensor factor_of(const at::Tensor& x, const at::Tensor& matrix) {
  return with_zeros(x, matrix.size(0), matrix.scalar_type());
}

}  // namespace deq::kernels
