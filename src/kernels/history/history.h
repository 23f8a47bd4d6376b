#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

// The three passes over a solver's history that every accelerated method is made of. A history is a
// list of n slabs [B, D]; each sample has its own coefficients. Small results come back to the host
// in float64, because the small systems are solved there; the functions in `enqueue` leave them
// where the slabs are, so that a GPU goes on without the host.
//
// Each operation exists as a fused CPU kernel (history_cpu.cpp), as a CUDA kernel in the plugin
// (history_cuda.cu), and as plain torch (the `reference` namespace), which serves every other
// device and is the oracle of the tests.

namespace deq::kernels {

/// g = f − z, and for every sample [‖g‖², ‖f‖², g·rows[0], …, g·rows[n−1]]: a host tensor [B, 2 +
/// n]. Must read f, z and each row once and write g once.
at::Tensor observe(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows);

/// For every sample [v·rows[0], …, v·rows[n−1]]: a host tensor [B, n].
at::Tensor dots(const at::Tensor& v, at::TensorList rows);

/// out[b] = Σᵢ coefficients[b, i]·rows[i][b]. A zero coefficient skips its row, so that whatever a
/// frozen sample left there (NaN included) does not spread. `coefficients` is a host tensor [B, n].
void combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out);

/// combine, then moved = base + out, and the dots of out with `dot_rows` ([B, k], host), in one
/// pass. `out` itself may be among `dot_rows`.
at::Tensor combine_and_move(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out,
                            const at::Tensor& base, at::Tensor& moved, at::TensorList dot_rows);

namespace enqueue {

/// As observe, with the sums where the slabs are. With `newest`, one of the rows, its dots with all
/// rows follow: [B, 2 + 2n], from the same pass. Samples not active in `marks` (bytes of Mark,
/// history_common.h) may be left out: their g and sums are then not written.
at::Tensor observe(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows,
                   const std::optional<at::Tensor>& newest, const std::optional<at::Tensor>& marks);

/// combine, with the coefficients where the slabs are.
void combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out);

/// best[b] = z[b] where the sample has improved. Then, for an active sample, next = Σᵢ
/// coefficients[b, i]·rows[i], or with `step` this sum in it and next = z + step; any other sample
/// stays at its best. `next` may be z itself. Without `next`, only `best` is written.
/// `coefficients` are where the slabs are; at most kMaxRows rows.
void advance(at::TensorList rows, const at::Tensor& coefficients, const at::Tensor& z,
             at::Tensor& best, const at::Tensor& marks, const std::optional<at::Tensor>& step,
             const std::optional<at::Tensor>& next);

}  // namespace enqueue

namespace reference {
at::Tensor observe(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows,
                   const std::optional<at::Tensor>& newest = std::nullopt,
                   const std::optional<at::Tensor>& marks = std::nullopt);
void advance(at::TensorList rows, const at::Tensor& coefficients, const at::Tensor& z,
             at::Tensor& best, const at::Tensor& marks, std::optional<at::Tensor> step,
             std::optional<at::Tensor> next);
at::Tensor dots(const at::Tensor& v, at::TensorList rows);
at::Tensor combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out,
                   const std::optional<at::Tensor>& base, std::optional<at::Tensor> moved,
                   at::TensorList dot_rows);
}  // namespace reference

namespace cpu {
at::Tensor observe(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows,
                   const std::optional<at::Tensor>& newest = std::nullopt,
                   const std::optional<at::Tensor>& marks = std::nullopt);
void advance(at::TensorList rows, const at::Tensor& coefficients, const at::Tensor& z,
             at::Tensor& best, const at::Tensor& marks, std::optional<at::Tensor> step,
             std::optional<at::Tensor> next);
at::Tensor dots(const at::Tensor& v, at::TensorList rows);
at::Tensor combine(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out,
                   const std::optional<at::Tensor>& base, std::optional<at::Tensor> moved,
                   at::TensorList dot_rows);
}  // namespace cpu

}  // namespace deq::kernels
