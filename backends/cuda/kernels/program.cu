/* What emitted CUDA kernels use; the structs are those of dialect.h.  Tests also compile it for the CPU, where
 * tests/cuda/host_shim.h stands in for what only a GPU has (GD_HOST_SHIM). */
typedef long long i64;
typedef unsigned short u16;
typedef unsigned char u8;

struct Chunk {
    i64 start, n;
    i64 member;
};

struct Tile {
    i64 start, n;
    i64 member;
    i64 first, rows, columns, rows_at, row_step, columns_at;
};

#define COMMON 96
struct Launch {
    const Chunk *chunk;
    i64 chunks;
    char *const *pointer;
    const double *input, *reduced;
    double *partial;
    const i64 *size;
    double *along;
    const i64 *along_at;
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

#define BOUNDS 256 /* threads of a kernel over a table, and perhaps how many blocks of them there is room for */
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
#define pow_f32(a, b) ((float)pow((double)(a), (double)(b)))
#define pow_f64 pow
#define infinity_f32 __int_as_float(0x7f800000)
#define infinity_f64 __longlong_as_double(0x7ff0000000000000LL)
#define nan_f32 __int_as_float(0x7fc00000)
#define nan_f64 __longlong_as_double(0x7ff8000000000000LL)

#ifdef GD_HOST_SHIM /* the functions that the interpreter uses, so that results can be compared bit for bit */
#define ceil_f32 gd__ceil_f32
#define ceil_f64 gd__ceil_f64
#define expm1_f32 gd__expm1_f32
#define expm1_f64 gd__expm1_f64
#define log1p_f32 gd__log1p_f32
#define log1p_f64 gd__log1p_f64
#define log2_f32 gd__log2_f32
#define log2_f64 gd__log2_f64
#define log10_f32 gd__log10_f32
#define log10_f64 gd__log10_f64
#define sin_f32 gd__sin_f32
#define sin_f64 gd__sin_f64
#define cos_f32 gd__cos_f32
#define cos_f64 gd__cos_f64
#define tan_f32 gd__tan_f32
#define tan_f64 gd__tan_f64
#define asin_f32 gd__asin_f32
#define asin_f64 gd__asin_f64
#define acos_f32 gd__acos_f32
#define acos_f64 gd__acos_f64
#define atan_f32 gd__atan_f32
#define atan_f64 gd__atan_f64
#define sinh_f32 gd__sinh_f32
#define sinh_f64 gd__sinh_f64
#define cosh_f32 gd__cosh_f32
#define cosh_f64 gd__cosh_f64
#define asinh_f32 gd__asinh_f32
#define asinh_f64 gd__asinh_f64
#define acosh_f32 gd__acosh_f32
#define acosh_f64 gd__acosh_f64
#define atanh_f32 gd__atanh_f32
#define atanh_f64 gd__atanh_f64
#define erf_f32 gd__erf_f32
#define erf_f64 gd__erf_f64
#define erfc_f32 gd__erfc_f32
#define erfc_f64 gd__erfc_f64
#define lgamma_f32 gd__lgamma_f32
#define lgamma_f64 gd__lgamma_f64
#define atan2_f32 gd__atan2_f32
#define atan2_f64 gd__atan2_f64
#define hypot_f32 gd__hypot_f32
#define hypot_f64 gd__hypot_f64
#define nextafter_f32 gd__nextafter_f32
#define nextafter_f64 gd__nextafter_f64
#define fma_f32 gd__fma_f32
#define fma_f64 gd__fma_f64
#define round_f32 gd__round_f32
#define round_f64 gd__round_f64
#define trunc_f32 gd__trunc_f32
#define trunc_f64 gd__trunc_f64
#define sigmoid_f32 gd__sigmoid_f32
#define sigmoid_f64 gd__sigmoid_f64
#define softplus_f32 gd__softplus_f32
#define softplus_f64 gd__softplus_f64
#define gelu_f32 gd__gelu_f32
#define gelu_f64 gd__gelu_f64
#define gelu_slope_f32 gd__gelu_slope_f32
#define gelu_slope_f64 gd__gelu_slope_f64
#define mod_f32 gd__mod_f32
#define mod_f64 gd__mod_f64
#define scalar_pow_f32 gd__scalar_pow_f32
#define scalar_pow_f64 gd__scalar_pow_f64
#define as_f16_f32 gd__as_f16_f32
#define as_f16_f64 gd__as_f16_f64
#define as_bf16_f32 gd__as_bf16_f32
#define as_bf16_f64 gd__as_bf16_f64
#else
#define ceil_f32 ceilf
#define ceil_f64 ceil
#define expm1_f32 expm1f
#define expm1_f64 expm1
#define log1p_f32 log1pf
#define log1p_f64 log1p
#define log2_f32 log2f
#define log2_f64 log2
#define log10_f32 log10f
#define log10_f64 log10
#define sin_f32 sinf
#define sin_f64 sin
#define cos_f32 cosf
#define cos_f64 cos
#define tan_f32 tanf
#define tan_f64 tan
#define asin_f32 asinf
#define asin_f64 asin
#define acos_f32 acosf
#define acos_f64 acos
#define atan_f32 atanf
#define atan_f64 atan
#define sinh_f32 sinhf
#define sinh_f64 sinh
#define cosh_f32 coshf
#define cosh_f64 cosh
#define asinh_f32 asinhf
#define asinh_f64 asinh
#define acosh_f32 acoshf
#define acosh_f64 acosh
#define atanh_f32 atanhf
#define atanh_f64 atanh
#define erf_f32 erff
#define erf_f64 erf
#define erfc_f32 erfcf
#define erfc_f64 erfc
#define lgamma_f32 lgammaf
#define lgamma_f64 lgamma
#define atan2_f32 atan2f
#define atan2_f64 atan2
#define hypot_f32 hypotf
#define hypot_f64 hypot
#define nextafter_f32 nextafterf
#define nextafter_f64 nextafter
#define fma_f32 fmaf
#define fma_f64 fma
#define round_f32 rintf
#define round_f64 rint
#define trunc_f32 truncf
#define trunc_f64 trunc
template <class T> __device__ inline T logistic(T x)
{
    T e = exp(x < 0 ? x : -x);
    return (x < 0 ? e : (T)1) / ((T)1 + e);
}
#define sigmoid_f32(x) logistic<float>(x)
#define sigmoid_f64(x) logistic<double>(x)
__device__ inline double softplus_f64(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))) + (x != x ? x : 0); }
#define softplus_f32(x) ((float)softplus_f64((double)(x)))
__device__ inline double gelu_f64(double x) { return 0.5 * x * erfc(x * -0.70710678118654752); }
#define gelu_f32(x) ((float)gelu_f64((double)(x)))
__device__ inline double gelu_slope_f64(double x)
{
    return 0.5 * erfc(-0.70710678118654752 * x) + 0.39894228040143268 * x * exp(-0.5 * x * x);
}
#define gelu_slope_f32(x) ((float)gelu_slope_f64((double)(x)))
__device__ inline double mod_f64(double x, double y)
{
    double r = fmod(x, y);
    return r == 0 ? copysign(0.0, y) : (r < 0) != (y < 0) ? r + y : r;
}
#define mod_f32(x, y) ((float)mod_f64((double)(x), (double)(y)))
/* as gd__scalar_pow_f64 of base/vmath_special.h, with the same bits */
__device__ inline double products_f64(double x, double k)
{
    double size = fabs(k), p, y, low = 0.0, power = 1.0, power_low = 0.0;
    if (k < 0) {
        y = 1.0 / x;
        p = x * y;
        low = ((1.0 - p) - fma(x, y, -p)) * y;
        x = y;
    }
    if (floor(size) != size) {
        power = sqrt(x);
        p = power * power;
        power_low = (((x - p) - fma(power, power, -p)) + low) / (2.0 * power);
    }
    for (int n = (int)size; n; n >>= 1) {
        if (n & 1) {
            p = power * x;
            power_low = fma(power, x, -p) + (power * low + power_low * x);
            power = p;
        }
        p = x * x;
        low = fma(x, x, -p) + 2.0 * x * low;
        x = p;
    }
    return fabs(power) > 1e-290 && fabs(power_low) < fabs(power) ? power + power_low : power;
}
__device__ inline float products_f32(float x_, float k)
{
    double x = k < 0 ? 1.0 / (double)x_ : (double)x_, size = fabs((double)k);
    double power = floor(size) != size ? sqrt(x) : 1.0;
    for (int n = (int)size; n; n >>= 1) {
        power = n & 1 ? power * x : power;
        x *= x;
    }
    return (float)power;
}
template <class T> __device__ inline T scalar_pow(T x, T k)
{
    T root = x == (T)-infinity_f32 ? (T)infinity_f32 : x + (T)0;
    if (!(fabs(k) <= (T)32) || floor(2 * k) != 2 * k) return (T)pow((double)x, (double)k);
    if (k == (T)0) return (T)1;
    if (k == (T)1) return x;
    if (k == (T)2) return x * x;
    if (k == (T)3) return x * x * x;
    if (k == (T)-1) return (T)1 / x;
    if (k == (T)0.5) return sqrt(root);
    if (k == (T)-0.5) return (T)1 / sqrt(root);
    if (k == (T)1.5) return root * sqrt(root);
    x = floor(k) == k ? x : root;
    return sizeof(T) == sizeof(float) ? (T)products_f32((float)x, (float)k) : (T)products_f64((double)x, (double)k);
}
#define scalar_pow_f32(x, k) scalar_pow<float>(x, k)
#define scalar_pow_f64(x, k) scalar_pow<double>(x, k)
#define as_f16_f32(x) half_to_float(float_to_half(x))
#define as_f16_f64(x) ((double)as_f16_f32((float)(x)))
#define as_bf16_f32(x) bf16_to_float(float_to_bf16(x))
#define as_bf16_f64(x) ((double)as_bf16_f32((float)(x)))
#endif

/* W elements of a thread in accesses of 16 bytes, or fewer where they are not as many; at the end of a tensor, and where it is
 * not aligned, one by one. */
template <class T, int N> struct alignas(N * sizeof(T)) Piece { T v[N]; };

template <int W, class T> __device__ inline bool is_even(const T *at)
{
    const int n = 16 / (int)sizeof(T) < W ? 16 / (int)sizeof(T) : W;
    return ((unsigned long long)at & (n * sizeof(T) - 1)) == 0;
}

template <int W, class T> __device__ inline void take(T *to, const T *from, int left, bool whole)
{
    const int n = 16 / (int)sizeof(T) < W ? 16 / (int)sizeof(T) : W;
    if (whole) {
#pragma unroll
        for (int j = 0; j < W; j += n) {
            Piece<T, n> x = *(const Piece<T, n> *)(from + j);
#pragma unroll
            for (int k = 0; k < n; k++) to[j + k] = x.v[k];
        }
    } else {
#pragma unroll
        for (int k = 0; k < W; k++) to[k] = k < left ? from[k] : (T)0;
    }
}

template <int W, class T> __device__ inline void take(T *to, const T *from, int left)
{
    take<W>(to, from, left, left == W && is_even<W>(from));
}

template <int W, class T> __device__ inline void give(T *to, const T *from, int left, bool whole)
{
    const int n = 16 / (int)sizeof(T) < W ? 16 / (int)sizeof(T) : W;
    if (whole) {
#pragma unroll
        for (int j = 0; j < W; j += n) {
            Piece<T, n> x;
#pragma unroll
            for (int k = 0; k < n; k++) x.v[k] = from[j + k];
            *(Piece<T, n> *)(to + j) = x;
        }
    } else {
#pragma unroll
        for (int k = 0; k < W; k++)
            if (k < left) to[k] = from[k];
    }
}

template <int W, class T> __device__ inline void give(T *to, const T *from, int left)
{
    give<W>(to, from, left, left == W && is_even<W>(to));
}

/* The axes of a space that lie innermost and are kept or not alike. */
constexpr unsigned inner_axes(int axes, unsigned space, unsigned kept)
{
    int g = axes - 1;
    while (!(space >> g & 1)) g--;
    const unsigned like = kept >> g & 1;
    unsigned inner = 0;
    for (; g >= 0 && (!(space >> g & 1) || (kept >> g & 1) == like); g--) inner |= 1u << g & space;
    return inner;
}

/* The number of a row among those that differ along KEPT. */
template <int AXES, unsigned OTHERS, unsigned KEPT> __device__ inline i64 row_among(const i64 *size, i64 row)
{
    if ((KEPT & OTHERS) == OTHERS) return row;
    if (!(KEPT & OTHERS)) return 0;
    i64 among = 0, step = 1;
#pragma unroll
    for (int g = AXES - 1; g >= 0; g--) {
        if (!(OTHERS >> g & 1)) continue;
        if (KEPT >> g & 1) {
            among += row % size[g] * step;
            step *= size[g];
        }
        row /= size[g];
    }
    return among;
}

/* W elements of an array that has only the axes KEPT of the SPACE, from element `at` of the space on. */
template <int W, int AXES, unsigned SPACE, unsigned KEPT, class T>
__device__ inline void look(T *to, const T *from, const i64 *size, i64 at, int left)
{
    constexpr unsigned inner = inner_axes(AXES, SPACE, KEPT);
    constexpr bool differs = (inner & KEPT) != 0;
    i64 columns = 1;
#pragma unroll
    for (int g = 0; g < AXES; g++)
        if (inner >> g & 1) columns *= size[g];
    if (!left) columns = 1; /* none: there may be none */
    /* one division for all of them, and of 32 bits where they suffice */
    i64 row = (at | columns) >> 32 ? at / columns : (i64)((unsigned)at / (unsigned)columns), column = at - row * columns;
    i64 first = row_among<AXES, (SPACE & ~inner), KEPT>(size, left ? row : 0) * (differs ? columns : 1);
#pragma unroll
    for (int k = 0; k < W; k++) {
        to[k] = k < left ? from[differs ? first + column : first] : (T)0;
        if (k + 1 < left && ++column == columns) {
            column = 0;
            first = row_among<AXES, (SPACE & ~inner), KEPT>(size, ++row) * (differs ? columns : 1);
        }
    }
}

/* A block of 256 codes belongs to a warp, eight to a thread; on the CPU to one thread. */
#ifndef GD_HOST_SHIM
#define CODED_WIDTH 8
__device__ inline unsigned warp_largest(unsigned v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, v);
#else
#pragma unroll
    for (int width = 16; width; width /= 2) {
        unsigned other = __shfl_xor_sync(0xffffffffu, v, width);
        v = other > v ? other : v;
    }
    return v;
#endif
}
#else
#define CODED_WIDTH 256
inline unsigned warp_largest(unsigned v) { return v; }
#endif

template <bool MAX> __device__ inline double join_two(double a, double b)
{
    if (!MAX) return a + b;
    return a != a ? a : (b > a) | (b != b) ? b : a;
}

/* Where a thread stands in a tile of n columns: `lanes` of them side by side in a row, W columns each. */
struct Lanes {
    int lane, lanes, group, groups;
};
template <int W> __device__ inline Lanes lanes_of(i64 n)
{
    int lanes = 1;
    while (lanes * W < n && lanes < 32 && lanes < (int)blockDim.x) lanes *= 2;
    return {(int)threadIdx.x % lanes, lanes, (int)threadIdx.x / lanes, (int)blockDim.x / lanes};
}

#ifndef GD_HOST_SHIM
/* The lanes of a row together; the first one has it. */
template <bool MAX> __device__ inline double lanes_joined(double v, const Lanes &l)
{
    for (int width = l.lanes / 2; width; width /= 2)
        v = join_two<MAX>(v, __shfl_down_sync(0xffffffffu, v, width, l.lanes));
    return v;
}

template <bool MAX> __device__ inline void row_join(double v, const Lanes &l, bool inside, double *out)
{
    v = lanes_joined<MAX>(v, l);
    if (inside && l.lane == 0) *out = v;
}

/* One number a lane, of the threads that have it in all groups. */
template <bool MAX> __device__ inline void column_join(double v, const Lanes &l, bool inside, double *out)
{
    __shared__ double room[256];
    room[threadIdx.x] = v;
    __syncthreads();
    for (int width = (int)blockDim.x / 2; width >= l.lanes; width /= 2) {
        if ((int)threadIdx.x < width)
            room[threadIdx.x] = join_two<MAX>(room[threadIdx.x], room[threadIdx.x + width]);
        __syncthreads();
    }
    if (inside && l.group == 0) *out = room[threadIdx.x];
    __syncthreads();
}

/* One number per block, always joined in the same order. */
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
template <bool MAX> inline double lanes_joined(double v, const Lanes &) { return v; } /* started with one */
template <bool MAX> inline void row_join(double v, const Lanes &l, bool inside, double *out)
{
    if (inside) *out = l.lane == 0 ? v : join_two<MAX>(*out, v);
}
template <bool MAX> inline void column_join(double v, const Lanes &l, bool inside, double *out)
{
    if (inside) *out = l.group == 0 ? v : join_two<MAX>(*out, v);
}
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

/* A result of a sum along axes for every row of threads: its partial results lie at [others, steps, columns], those of the
 * others that are not kept belong to it. */
struct AlongPlace {
    i64 at, columns, steps;
};
struct JoinAlong {
    const Chunk *chunk;
    i64 chunks;
    const AlongPlace *place;
    const double *along;
    char *const *pointer;
    const i64 *size;
    i64 arrays, array, axes, others, kept;
    int max, wide;
};

__device__ inline i64 partial_of(const JoinAlong &J, const i64 *size, const AlongPlace &p, i64 result, i64 j)
{
    i64 kept = result / p.columns, other = j / p.steps, at = 0, step = 1;
    for (int g = (int)J.axes - 1; g >= 0; g--) {
        if (!(J.others >> g & 1)) continue;
        i64 *from = J.kept >> g & 1 ? &kept : &other;
        at += *from % size[g] * step;
        *from /= size[g];
        step *= size[g];
    }
    return p.at + (at * p.steps + j % p.steps) * p.columns + result % p.columns;
}

template <bool MAX> __device__ inline void join_results(const JoinAlong &J, const Chunk &c)
{
    const Lanes l = lanes_of<1>(32);
    const AlongPlace p = J.place[c.member];
    const i64 *size = J.size + c.member * J.axes;
    char *to = J.pointer[c.member * J.arrays + J.array];
    i64 terms = p.steps;
    for (int g = 0; g < (int)J.axes; g++)
        if ((J.others & ~J.kept) >> g & 1) terms *= size[g];
    for (i64 r = l.group; r - l.group < c.n; r += l.groups) {
        double v = MAX ? -infinity_f64 : 0.0;
        for (i64 j = l.lane; r < c.n && j < terms; j += l.lanes)
            v = join_two<MAX>(v, J.along[partial_of(J, size, p, c.start + r, j)]);
        v = lanes_joined<MAX>(v, l);
        if (r >= c.n || l.lane) continue;
        if (J.wide) ((double *)to)[c.start + r] = v;
        else ((float *)to)[c.start + r] = (float)v;
    }
}

extern "C" __global__ void join_along(const JoinAlong J)
{
    for (i64 b = blockIdx.x; b < J.chunks; b += gridDim.x) {
        const Chunk c = J.chunk[b];
        if (J.max) join_results<true>(J, c);
        else join_results<false>(J, c);
    }
}
#endif
