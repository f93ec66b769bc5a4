/* Emitted CUDA on the CPU: included before such a source when a C++ compiler of the host translates it.  A launch runs
 * its threads one after the other, so kernels whose threads wait for each other must be started with one thread. */
#ifndef GD_TESTS_CUDA_HOST_SHIM_H
#define GD_TESTS_CUDA_HOST_SHIM_H

#define GD_HOST_SHIM 1
#define JOINS        1

#include "base/math/gamma.h"

/* The functions of f32 that the interpreter uses, so that results can be compared bit for bit. */
#define expf  gd__exp_f32
#define logf  gd__log_f32
#define tanhf gd__tanh_f32

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)

struct Place {
    unsigned x;
};
static Place threadIdx, blockIdx, blockDim, gridDim;

static inline void __syncthreads() {}
static inline float __uint_as_float(unsigned u) { return gd__bits_f32(u); }
static inline unsigned __float_as_uint(float f) { return gd__f32_bits(f); }
static inline float __int_as_float(int i) { return gd__bits_f32((uint32_t)i); }
static inline double __longlong_as_double(long long i) { return gd__bits_f64((uint64_t)i); }
static inline float half_to_float(unsigned short h) { return gd__f16_to_f32(h); }
static inline unsigned short float_to_half(float f) { return gd__f32_to_f16(f); }

template <class Args>
static void host_run(void (*kernel)(Args), const void *args, long long blocks, int threads)
{
    gridDim.x = (unsigned)blocks;
    blockDim.x = (unsigned)threads;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) kernel(*(const Args *)args);
}

/* What the test calls: host_NAME. */
#define HOST_ENTRY(name)                                                         \
    extern "C" void host_##name(const void *args, long long blocks, int threads) \
    {                                                                            \
        host_run(name, args, blocks, threads);                                   \
    }

#endif
