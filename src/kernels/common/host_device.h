#pragma once

// Marks a small function for host and device. Always inlined: loops around it vectorise on one
// side, and its arrays stay in registers on the other.

#ifdef __CUDACC__
#define DEQ_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define DEQ_HOST_DEVICE __attribute__((always_inline)) inline
#endif
