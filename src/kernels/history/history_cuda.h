#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/history/history_common.h"

// The CUDA side of history.h: raw device pointers and a stream, no torch headers, so that the
// kernels compile in seconds. `sums` are [batch, width] float64 on the device; `partial` is scratch
// for batch · tiles(dim) · width numbers.

namespace deq::kernels::cuda {

/// The rows of one launch; a longer history takes several. Rows of float32 slabs may be bfloat16.
template <class T>
struct Rows {
  const void* data[kMaxRows];
  uint64_t halves;  // one bit per row
  int count;
};

/// Where a step goes; null where it goes nowhere.
struct StepTarget {
  void* data;
  bool half;
};

int64_t tiles(int64_t dim);

/// g = f − z; sums = [‖g‖², ‖f‖², g·rows…], and newest·rows… where there is a `newest`, at most
/// one. With `marks`, samples that are not active are left out.
template <class T>
void observe(const T* f, const T* z, T* g, const Rows<T>& rows, const Rows<T>& newest,
             const uint8_t* marks, double* partial, double* sums, int64_t batch, int64_t dim,
             cudaStream_t stream);

/// enqueue::advance of history.h; `next` may be null.
template <class T>
void advance(const Rows<T>& rows, const double* coefficients, const T* z, T* best,
             const uint8_t* marks, StepTarget step, T* next, int64_t batch, int64_t dim,
             cudaStream_t stream);

/// sums = [v·rows…].
template <class T>
void dots(const T* v, const Rows<T>& rows, double* partial, double* sums, int64_t batch,
          int64_t dim, cudaStream_t stream);

/// out = Σ coefficients[b, first + i]·rows[i] (+ out when `accumulate`); then, when `moved` is
/// given, moved = base + out. `coefficients` is [batch, stride].
template <class T>
void combine(const Rows<T>& rows, const double* coefficients, int64_t stride, int64_t first,
             bool accumulate, T* out, const T* base, T* moved, int64_t batch, int64_t dim,
             cudaStream_t stream);

}  // namespace deq::kernels::cuda
