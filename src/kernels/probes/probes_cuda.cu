#include "kernels/probes/probes_cuda.h"
#include "kernels/probes/probes_numbers.h"

// A thread makes the kProbeRows numbers of one column that share a Philox block; neighbouring
// threads have neighbouring columns, so that each of its writes is part of a whole line. The 32
// columns of a block of signs are a warp, whose threads all compute it: that is cheaper than
// sharing it.

namespace deq::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__device__ void normal_column(uint64_t key, uint64_t group, uint64_t column,
                              T (&numbers)[kProbeRows]) {
  const PhiloxBlock block = philox(key, column, group);
  const auto upper = normal_pair<T>(block.word[0], block.word[1]);
  const auto lower = normal_pair<T>(block.word[2], block.word[3]);
  numbers[0] = upper.first;
  numbers[1] = upper.second;
  numbers[2] = lower.first;
  numbers[3] = lower.second;
}

template <class T>
__device__ void sign_column(uint64_t key, uint64_t group, uint64_t column,
                            T (&numbers)[kProbeRows]) {
  const PhiloxBlock block = philox(key, column / kSignColumns, group);
#pragma unroll
  for (int row = 0; row < kProbeRows; ++row) {
    numbers[row] = sign_of_bit<T>(block.word[row], static_cast<uint32_t>(column % kSignColumns));
  }
}

template <class T>
__global__ void probe_kernel(T* out, bool signs, uint64_t key, int64_t first_row, int64_t rows,
                             int64_t columns, int64_t total) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= total) return;
  const int64_t group = first_row / kProbeRows + index / columns, column = index % columns;
  T numbers[kProbeRows];
  if (signs) {
    sign_column(key, group, column, numbers);
  } else {
    normal_column(key, group, column, numbers);
  }
#pragma unroll
  for (int i = 0; i < kProbeRows; ++i) {
    const int64_t row = group * kProbeRows + i - first_row;
    if (row >= 0 && row < rows) out[row * columns + column] = numbers[i];
  }
}

}  // namespace

template <class T>
void probe(T* out, bool signs, uint64_t key, int64_t first_row, int64_t rows, int64_t columns,
           cudaStream_t stream) {
  const int64_t end_group = (first_row + rows + kProbeRows - 1) / kProbeRows;
  const int64_t total = (end_group - first_row / kProbeRows) * columns;
  if (total == 0) return;
  const auto blocks = static_cast<unsigned>((total + kThreads - 1) / kThreads);
  probe_kernel<<<blocks, kThreads, 0, stream>>>(out, signs, key, first_row, rows, columns, total);
}

template void probe<float>(float*, bool, uint64_t, int64_t, int64_t, int64_t, cudaStream_t);
template void probe<double>(double*, bool, uint64_t, int64_t, int64_t, int64_t, cudaStream_t);

}  // namespace deq::kernels::cuda
