#include "kernels/history_cuda.h"

// A block owns one tile of one sample: kThreads·kPerThread numbers, kept in registers while the
// history streams past once, coalesced. Bytes moved (float32): observe 4·(3 + n) a number, dots
// 4·(1 + n), combine 4·(1 + n) and 8 more with `moved`: all are bound by memory bandwidth. Sums are
// made per tile and added in a fixed order, so results do not vary from run to run.

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

template <class T>
__device__ void load(const T* source, const TileRange& range, T (&values)[kPerThread]) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    values[i] = i * kThreads < range.left ? source[range.offset + i * kThreads] : T(0);
  }
}

template <class T>
__device__ void store(T* target, const TileRange& range, const T (&values)[kPerThread]) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (i * kThreads < range.left) target[range.offset + i * kThreads] = values[i];
  }
}

/// The block's dot product, valid in thread 0. `scratch` holds kWarps numbers.
template <class T>
__device__ double block_dot(const T (&a)[kPerThread], const T (&b)[kPerThread], double* scratch) {
  double sum = 0;  // squares of float32 numbers leave float32's range
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  __syncthreads();  // the previous sum has been read
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
  __syncthreads();
  double total = 0;
  if (threadIdx.x == 0) {
    for (int warp = 0; warp < kWarps; ++warp) total += scratch[warp];
  }
  return total;
}

/// Dots of the numbers in registers with every row, into this tile's partial sums.
template <class T>
__device__ void dot_rows(const T (&values)[kPerThread], const Rows<T>& rows, const TileRange& range,
                         double* scratch, double* sums) {
  T row[kPerThread];
  for (int i = 0; i < rows.count; ++i) {
    load(rows.data[i], range, row);
    const double sum = block_dot(values, row, scratch);
    if (threadIdx.x == 0) sums[i] = sum;
  }
}

__device__ double* tile_sums(double* partial, int width) {
  return partial + static_cast<int64_t>(blockIdx.x) * width;
}

template <class T>
__global__ void observe_kernel(const T* f, const T* z, T* g, Rows<T> rows, double* partial,
                               int64_t dim) {
  __shared__ double scratch[kWarps];
  const TileRange range = tile_range(dim);
  double* sums = tile_sums(partial, rows.count + 2);
  T image[kPerThread], residual[kPerThread];
  load(f, range, image);
  load(z, range, residual);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) residual[i] = image[i] - residual[i];
  store(g, range, residual);
  const double own = block_dot(residual, residual, scratch);
  const double norm = block_dot(image, image, scratch);
  if (threadIdx.x == 0) {
    sums[0] = own;
    sums[1] = norm;
  }
  dot_rows(residual, rows, range, scratch, sums + 2);
}

template <class T>
__global__ void dots_kernel(const T* v, Rows<T> rows, double* partial, int64_t dim) {
  __shared__ double scratch[kWarps];
  const TileRange range = tile_range(dim);
  T values[kPerThread];
  load(v, range, values);
  dot_rows(values, rows, range, scratch, tile_sums(partial, rows.count));
}

template <class T>
__global__ void combine_kernel(Rows<T> rows, const double* coefficients, int64_t stride,
                               int64_t first, bool accumulate, T* out, const T* base, T* moved,
                               int64_t dim) {
  const TileRange range = tile_range(dim);
  T values[kPerThread] = {}, row[kPerThread];
  if (accumulate) load(out, range, values);
  const double* weights = coefficients + range.sample * stride + first;
  for (int i = 0; i < rows.count; ++i) {
    const T weight = static_cast<T>(weights[i]);
    if (weight == T(0)) continue;
    load(rows.data[i], range, row);
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) values[k] += weight * row[k];
  }
  store(out, range, values);
  if (moved == nullptr) return;
  load(base, range, row);
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) row[k] += values[k];
  store(moved, range, row);
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
void observe(const T* f, const T* z, T* g, const Rows<T>& rows, double* partial, double* sums,
             int64_t batch, int64_t dim, cudaStream_t stream) {
  observe_kernel<<<blocks_of(batch, dim), kThreads, 0, stream>>>(f, z, g, rows, partial, dim);
  add_tiles(partial, sums, batch, dim, rows.count + 2, stream);
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

#define DEQ_INSTANTIATE(T)                                                                      \
  template void observe<T>(const T*, const T*, T*, const Rows<T>&, double*, double*, int64_t,   \
                           int64_t, cudaStream_t);                                              \
  template void dots<T>(const T*, const Rows<T>&, double*, double*, int64_t, int64_t,           \
                        cudaStream_t);                                                          \
  template void combine<T>(const Rows<T>&, const double*, int64_t, int64_t, bool, T*, const T*, \
                           T*, int64_t, int64_t, cudaStream_t);

DEQ_INSTANTIATE(float)
DEQ_INSTANTIATE(double)

}  // namespace deq::kernels::cuda
