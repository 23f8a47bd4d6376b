#include <cuda_bf16.h>

#include "kernels/history/history_cuda.h"

// A block owns one tile of one sample: kThreads·kPerThread numbers, kept in registers while the
// history streams past once, coalesced. Bytes moved (float32): observe 4·(3 + n) per number, 4 more
// with `newest`, dots 4·(1 + n), combine 4·(1 + n) and 8 more with `moved`, advance 4·(1 + n), 8
// more with `step`, and 8 more for a sample that improved; rows of bfloat16 take half of it: all
// are bound by memory bandwidth. Each warp sums what it has of every dot, and the block adds its
// warps at the end: one synchronisation per block. Sums are made per tile and added in a fixed
// order, so results do not vary from run to run.

namespace deq::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 8;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kTile = kThreads * kPerThread;

struct TileRange {
  int64_t sample;
  int64_t offset;  // of this thread's first number in the slab
  int64_t left;    // numbers of the sample from there on
};

__device__ TileRange tile_range(int64_t dim) {
  const int64_t per_sample = (dim + kTile - 1) / kTile;
  const int64_t sample = blockIdx.x / per_sample;
  const int64_t begin = (blockIdx.x % per_sample) * kTile + threadIdx.x;
  return {sample, sample * dim + begin, dim - begin};
}

template <class S, class T>
__device__ void load(const S* source, const TileRange& range, T (&values)[kPerThread]) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    values[i] =
        i * kThreads < range.left ? static_cast<T>(source[range.offset + i * kThreads]) : T(0);
  }
}

template <class S, class T>
__device__ void store(S* target, const TileRange& range, const T (&values)[kPerThread]) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (i * kThreads < range.left) target[range.offset + i * kThreads] = static_cast<S>(values[i]);
  }
}

template <class T>
__device__ void load_row(const Rows<T>& rows, int i, const TileRange& range,
                         T (&values)[kPerThread]) {
  if ((rows.halves >> i & 1) != 0) {
    load(static_cast<const __nv_bfloat16*>(rows.data[i]), range, values);
  } else {
    load(static_cast<const T*>(rows.data[i]), range, values);
  }
}

/// Leaves in `values` what was stored.
template <class T>
__device__ void store_step(const StepTarget& step, const TileRange& range,
                           T (&values)[kPerThread]) {
  if (!step.half) return store(static_cast<T*>(step.data), range, values);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    values[i] = static_cast<T>(static_cast<__nv_bfloat16>(values[i]));
  }
  store(static_cast<__nv_bfloat16*>(step.data), range, values);
}

/// This warp's share of a dot product, valid in its first lane.
template <class T>
__device__ double warp_dot(const T (&a)[kPerThread], const T (&b)[kPerThread]) {
  double sum = 0;  // squares of float32 numbers leave float32's range
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  return sum;
}

/// The sums of one block, by warp and column. No warp waits for another before `finish`.
template <int kColumns>
struct BlockSums {
  double values[kWarps][kColumns];

  __device__ void set(int column, double sum) {
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32][column] = sum;
  }
  /// This tile's partial sums, warp after warp.
  __device__ void finish(double* partial, int width) {
    __syncthreads();
    double* sums = partial + static_cast<int64_t>(blockIdx.x) * width;
    for (int column = static_cast<int>(threadIdx.x); column < width; column += kThreads) {
      double total = 0;
      for (int warp = 0; warp < kWarps; ++warp) total += values[warp][column];
      sums[column] = total;
    }
  }
};

__device__ bool is_active(const uint8_t* marks, int64_t sample) {
  return (marks[sample] & kActive) != 0;
}

/// For a sample that does not move any more: nobody looks at them, but they are added up.
__device__ void no_sums(double* partial, int width) {
  double* sums = partial + static_cast<int64_t>(blockIdx.x) * width;
  for (int column = static_cast<int>(threadIdx.x); column < width; column += kThreads) {
    sums[column] = 0;
  }
}

template <class T, bool kWithNewest>
__global__ void observe_kernel(const T* f, const T* z, T* g, Rows<T> rows, Rows<T> newest,
                               const uint8_t* marks, double* partial, int64_t dim) {
  __shared__ BlockSums<2 + (kWithNewest ? 2 : 1) * kMaxRows> sums;
  const TileRange range = tile_range(dim);
  const int width = 2 + (kWithNewest ? 2 : 1) * rows.count;
  if (marks != nullptr && !is_active(marks, range.sample)) return no_sums(partial, width);
  T image[kPerThread], residual[kPerThread];
  load(f, range, image);
  load(z, range, residual);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) residual[i] = image[i] - residual[i];
  store(g, range, residual);
  sums.set(0, warp_dot(residual, residual));
  sums.set(1, warp_dot(image, image));
  if constexpr (kWithNewest) load_row(newest, 0, range, image);
  T row[kPerThread];
  for (int i = 0; i < rows.count; ++i) {
    load_row(rows, i, range, row);
    sums.set(2 + i, warp_dot(residual, row));
    if constexpr (kWithNewest) sums.set(2 + rows.count + i, warp_dot(image, row));
  }
  sums.finish(partial, width);
}

template <class T>
__global__ void dots_kernel(const T* v, Rows<T> rows, double* partial, int64_t dim) {
  __shared__ BlockSums<kMaxRows> sums;
  const TileRange range = tile_range(dim);
  T values[kPerThread], row[kPerThread];
  load(v, range, values);
  for (int i = 0; i < rows.count; ++i) {
    load_row(rows, i, range, row);
    sums.set(i, warp_dot(values, row));
  }
  sums.finish(partial, rows.count);
}

/// values += Σ weights[i]·rows[i]. A zero weight skips its row.
template <class T>
__device__ void add_rows(const Rows<T>& rows, const double* weights, const TileRange& range,
                         T (&values)[kPerThread]) {
  T row[kPerThread];
  for (int i = 0; i < rows.count; ++i) {
    const T weight = static_cast<T>(weights[i]);
    if (weight == T(0)) continue;
    load_row(rows, i, range, row);
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) values[k] += weight * row[k];
  }
}

template <class T>
__global__ void combine_kernel(Rows<T> rows, const double* coefficients, int64_t stride,
                               int64_t first, bool accumulate, T* out, const T* base, T* moved,
                               int64_t dim) {
  const TileRange range = tile_range(dim);
  T values[kPerThread] = {}, sum[kPerThread];
  if (accumulate) load(out, range, values);
  add_rows(rows, coefficients + range.sample * stride + first, range, values);
  store(out, range, values);
  if (moved == nullptr) return;
  load(base, range, sum);
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) sum[k] += values[k];
  store(moved, range, sum);
}

template <class T>
__global__ void advance_kernel(Rows<T> rows, const double* coefficients, const T* z, T* best,
                               const uint8_t* marks, StepTarget step, T* next, int64_t dim) {
  const TileRange range = tile_range(dim);
  const bool active = is_active(marks, range.sample);
  const bool improved = (marks[range.sample] & kImproved) != 0;
  T here[kPerThread];
  if (improved || (active && step.data != nullptr)) {
    load(z, range, here);
  } else if (!active && next != nullptr) {
    load(best, range, here);
  }
  if (improved) store(best, range, here);
  if (next == nullptr) return;
  if (!active) {
    store(next, range, here);
    return;
  }
  T values[kPerThread] = {};
  add_rows(rows, coefficients + range.sample * rows.count, range, values);
  if (step.data != nullptr) {
    store_step(step, range, values);
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) values[k] += here[k];
  }
  store(next, range, values);
}

/// sums[b, i] = Σ over the tiles, in order.
__global__ void add_tiles_kernel(const double* partial, double* sums, int64_t tile_count, int width,
                                 int64_t total) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= total) return;
  const int64_t sample = index / width, column = index % width;
  double sum = 0;
  for (int64_t tile = 0; tile < tile_count; ++tile) {
    sum += partial[(sample * tile_count + tile) * width + column];
  }
  sums[index] = sum;
}

unsigned blocks_of(int64_t batch, int64_t dim) {
  return static_cast<unsigned>(batch * tiles(dim));
}

void add_tiles(const double* partial, double* sums, int64_t batch, int64_t dim, int width,
               cudaStream_t stream) {
  const int64_t total = batch * width;
  if (total == 0) return;
  const auto blocks = static_cast<unsigned>((total + kThreads - 1) / kThreads);
  add_tiles_kernel<<<blocks, kThreads, 0, stream>>>(partial, sums, tiles(dim), width, total);
}

}  // namespace

int64_t tiles(int64_t dim) {
  return (dim + kTile - 1) / kTile;
}

template <class T>
void observe(const T* f, const T* z, T* g, const Rows<T>& rows, const Rows<T>& newest,
             const uint8_t* marks, double* partial, double* sums, int64_t batch, int64_t dim,
             cudaStream_t stream) {
  const unsigned blocks = blocks_of(batch, dim);
  if (newest.count == 0) {
    observe_kernel<T, false>
        <<<blocks, kThreads, 0, stream>>>(f, z, g, rows, newest, marks, partial, dim);
  } else {
    observe_kernel<T, true>
        <<<blocks, kThreads, 0, stream>>>(f, z, g, rows, newest, marks, partial, dim);
  }
  add_tiles(partial, sums, batch, dim, 2 + (newest.count == 0 ? 1 : 2) * rows.count, stream);
}

template <class T>
void advance(const Rows<T>& rows, const double* coefficients, const T* z, T* best,
             const uint8_t* marks, StepTarget step, T* next, int64_t batch, int64_t dim,
             cudaStream_t stream) {
  advance_kernel<<<blocks_of(batch, dim), kThreads, 0, stream>>>(rows, coefficients, z, best, marks,
                                                                 step, next, dim);
}

template <class T>
void dots(const T* v, const Rows<T>& rows, double* partial, double* sums, int64_t batch,
          int64_t dim, cudaStream_t stream) {
  if (rows.count == 0) return;
  dots_kernel<<<blocks_of(batch, dim), kThreads, 0, stream>>>(v, rows, partial, dim);
  add_tiles(partial, sums, batch, dim, rows.count, stream);
}

template <class T>
void combine(const Rows<T>& rows, const double* coefficients, int64_t stride, int64_t first,
             bool accumulate, T* out, const T* base, T* moved, int64_t batch, int64_t dim,
             cudaStream_t stream) {
  combine_kernel<<<blocks_of(batch, dim), kThreads, 0, stream>>>(rows, coefficients, stride, first,
                                                                 accumulate, out, base, moved, dim);
}

#define DEQ_INSTANTIATE(T)                                                                         \
  template void observe<T>(const T*, const T*, T*, const Rows<T>&, const Rows<T>&, const uint8_t*, \
                           double*, double*, int64_t, int64_t, cudaStream_t);                      \
  template void advance<T>(const Rows<T>&, const double*, const T*, T*, const uint8_t*,            \
                           StepTarget, T*, int64_t, int64_t, cudaStream_t);                        \
  template void dots<T>(const T*, const Rows<T>&, double*, double*, int64_t, int64_t,              \
                        cudaStream_t);                                                             \
  template void combine<T>(const Rows<T>&, const double*, int64_t, int64_t, bool, T*, const T*,    \
                           T*, int64_t, int64_t, cudaStream_t);

DEQ_INSTANTIATE(float)
DEQ_INSTANTIATE(double)

}  // namespace deq::kernels::cuda
