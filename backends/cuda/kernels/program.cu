/* What emitted CUDA kernels use; the structs are those of dialect.h.  Tests also compile it for the CPU, where
 * tests/cuda/host_shim.h stands in for what only a GPU has (GD_HOST_SHIM). */
typedef long long i64;
typedef unsigned short u16;

struct Chunk {
    i64 start, n;
    i64 member;
};

#define COMMON 96
struct Launch {
    const Chunk *chunk;
    i64 chunks;
    char *const *pointer;
    const double *input, *reduced;
    double *partial;
    double common[COMMON];
};

#ifndef GD_HOST_SHIM
#define GD_RNG_TEXT
__device__ inline float half_to_float(u16 h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ inline u16 float_to_half(float f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
#endif
__device__ inline float bf16_to_float(u16 h) { return __uint_as_float((unsigned)h << 16); }
__device__ inline u16 float_to_bf16(float f)
{
    unsigned u = __float_as_uint(f), rounded = (u + 0x7FFFu + (u >> 16 & 1)) >> 16;
    return (u16)((u & 0x7FFFFFFF) > 0x7F800000u ? (u >> 16 | 0x40u) : rounded);
}

#define abs_f32 fabsf
#define abs_f64 fabs
#define sqrt_f32 sqrtf
#define sqrt_f64 sqrt
#define floor_f32 floorf
#define floor_f64 floor
#define copysign_f32 copysignf
#define copysign_f64 copysign
#define exp_f32 expf
#define exp_f64 exp
#define log_f32 logf
#define log_f64 log
#define tanh_f32 tanhf
#define tanh_f64 tanh
#define pow_wide pow
#define largest_f32 3.40282347e38f
#define largest_f64 1.7976931348623157e308
#define infinity_f32 __int_as_float(0x7f800000)
#define infinity_f64 __longlong_as_double(0x7ff0000000000000LL)
#define nan_f32 __int_as_float(0x7fc00000)
#define nan_f64 __longlong_as_double(0x7ff8000000000000LL)

/* W elements of a thread in accesses of 16 bytes; at the end of a tensor, and where it is not aligned, one by one. */
template <class T> struct alignas(16) Piece { T v[16 / sizeof(T)]; };

template <int W, class T> __device__ inline void take(T *to, const T *from, int left)
{
    const int n = 16 / sizeof(T);
    if (left == W && ((unsigned long long)from & 15) == 0) {
#pragma unroll
        for (int j = 0; j < W; j += n) {
            Piece<T> x = *(const Piece<T> *)(from + j);
#pragma unroll
            for (int k = 0; k < n; k++) to[j + k] = x.v[k];
        }
    } else {
#pragma unroll
        for (int k = 0; k < W; k++) to[k] = k < left ? from[k] : (T)0;
    }
}

template <int W, class T> __device__ inline void give(T *to, const T *from, int left)
{
    const int n = 16 / sizeof(T);
    if (left == W && ((unsigned long long)to & 15) == 0) {
#pragma unroll
        for (int j = 0; j < W; j += n) {
            Piece<T> x;
#pragma unroll
            for (int k = 0; k < n; k++) x.v[k] = from[j + k];
            *(Piece<T> *)(to + j) = x;
        }
    } else {
#pragma unroll
        for (int k = 0; k < W; k++)
            if (k < left) to[k] = from[k];
    }
}

template <bool MAX> __device__ inline double join_two(double a, double b)
{
    if (!MAX) return a + b;
    return a != a ? a : (b > a) | (b != b) ? b : a;
}

#ifndef GD_HOST_SHIM
/* One number a block, always joined in the same order. */
template <bool MAX> __device__ inline void block_join(double v, double *out)
{
    __shared__ double room[32];
    for (int width = 16; width; width /= 2) v = join_two<MAX>(v, __shfl_down_sync(0xffffffffu, v, width));
    if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < (int)(blockDim.x + 31) / 32; k++) v = join_two<MAX>(v, room[k]);
        *out = v;
    }
    __syncthreads();
}
#else
/* Threads run one after the other: each joins its number to what those before it left. */
template <bool MAX> inline void block_join(double v, double *out)
{
    *out = threadIdx.x == 0 ? v : join_two<MAX>(*out, v);
}
#endif

#ifdef JOINS
/* Joins the partial results of each member's chunks: block m has chunks first[m] to first[m + 1]. */
struct Join {
    const double *partial;
    double *reduced;
    const i64 *first;
    i64 members, reductions, number, column, columns; /* partial[chunk * columns + column] -> reduced[m * reductions + number] */
    int max;
};

#define GROUPS 16
struct JoinAll {
    double *reduced[GROUPS];
    i64 members[GROUPS], groups, reductions, number;
    int max;
};

extern "C" __global__ void join_chunks(const Join J)
{
    for (i64 m = blockIdx.x; m < J.members; m += gridDim.x) {
        double v = J.max ? -infinity_f64 : 0.0;
        for (i64 c = J.first[m] + threadIdx.x; c < J.first[m + 1]; c += blockDim.x) {
            double x = J.partial[c * J.columns + J.column];
            v = J.max ? join_two<true>(v, x) : v + x;
        }
        if (J.max) block_join<true>(v, &J.reduced[m * J.reductions + J.number]);
        else block_join<false>(v, &J.reduced[m * J.reductions + J.number]);
    }
}

/* One block: all members of all groups together, and the result back to each. */
extern "C" __global__ void join_all(const JoinAll J)
{
    __shared__ double result;
    double v = J.max ? -infinity_f64 : 0.0;
    for (int g = 0; g < (int)J.groups; g++)
        for (i64 m = threadIdx.x; m < J.members[g]; m += blockDim.x) {
            double x = J.reduced[g][m * J.reductions + J.number];
            v = J.max ? join_two<true>(v, x) : v + x;
        }
    if (J.max) block_join<true>(v, &result);
    else block_join<false>(v, &result);
    __syncthreads();
    for (int g = 0; g < (int)J.groups; g++)
        for (i64 m = threadIdx.x; m < J.members[g]; m += blockDim.x)
            J.reduced[g][m * J.reductions + J.number] = result;
}
#endif
