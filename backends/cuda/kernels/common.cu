/* Types and element functions that all kernels share.  A dtype is its number in gd_dtype. */
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;
#define GD_RNG_TEXT

template <int D> struct Memory { typedef float type; };
template <> struct Memory<1> { typedef double type; };
template <> struct Memory<2> { typedef u16 type; };
template <> struct Memory<3> { typedef u16 type; };
template <> struct Memory<4> { typedef int type; };
template <> struct Memory<5> { typedef i64 type; };
template <> struct Memory<6> { typedef u8 type; };
template <> struct Memory<7> { typedef u8 type; };

template <int D> struct Compute { typedef float type; };
template <> struct Compute<1> { typedef double type; };
template <> struct Compute<4> { typedef i64 type; };
template <> struct Compute<5> { typedef i64 type; };
template <> struct Compute<6> { typedef i64 type; };
template <> struct Compute<7> { typedef i64 type; };

#ifndef GD_HOST_SHIM
__device__ inline float half_to_float(u16 h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ inline u16 float_to_half(float f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
#endif
__device__ inline float bf16_to_float(u16 h) { return __uint_as_float((unsigned)h << 16); }
__device__ inline u16 float_to_bf16(float f)
{
    unsigned u = __float_as_uint(f), rounded = (u + 0x7FFFu + (u >> 16 & 1)) >> 16;
    return (u16)((u & 0x7FFFFFFF) > 0x7F800000u ? (u >> 16 | 0x40u) : rounded);
}

template <int D> __device__ inline typename Compute<D>::type load(typename Memory<D>::type v)
{
    if (D == 2) return half_to_float((u16)v);
    if (D == 3) return bf16_to_float((u16)v);
    return (typename Compute<D>::type)v;
}

template <int D> __device__ inline typename Memory<D>::type store(typename Compute<D>::type v)
{
    if (D == 2) return (typename Memory<D>::type)float_to_half((float)v);
    if (D == 3) return (typename Memory<D>::type)float_to_bf16((float)v);
    if (D == 7) return (typename Memory<D>::type)(v != 0);
    return (typename Memory<D>::type)v;
}

#define FUNCTION(name, f32, f64)                                    \
    __device__ inline float name(float x) { return f32; }           \
    __device__ inline double name(double x) { return f64; }
FUNCTION(d_abs, fabsf(x), fabs(x))
FUNCTION(d_sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x * 0.0f, x > 0 ? 1.0 : x < 0 ? -1.0 : x * 0.0)
FUNCTION(d_sqrt, sqrtf(x), sqrt(x))
FUNCTION(d_rsqrt, 1.0f / sqrtf(x), 1.0 / sqrt(x))
FUNCTION(d_exp, expf(x), exp(x))
FUNCTION(d_expm1, expm1f(x), expm1(x))
FUNCTION(d_log, logf(x), log(x))
FUNCTION(d_log1p, log1pf(x), log1p(x))
FUNCTION(d_log2, log2f(x), log2(x))
FUNCTION(d_log10, log10f(x), log10(x))
FUNCTION(d_sin, sinf(x), sin(x))
FUNCTION(d_cos, cosf(x), cos(x))
FUNCTION(d_tan, tanf(x), tan(x))
FUNCTION(d_asin, asinf(x), asin(x))
FUNCTION(d_acos, acosf(x), acos(x))
FUNCTION(d_atan, atanf(x), atan(x))
FUNCTION(d_sinh, sinhf(x), sinh(x))
FUNCTION(d_cosh, coshf(x), cosh(x))
FUNCTION(d_asinh, asinhf(x), asinh(x))
FUNCTION(d_acosh, acoshf(x), acosh(x))
FUNCTION(d_atanh, atanhf(x), atanh(x))
FUNCTION(d_tanh, tanhf(x), tanh(x))
FUNCTION(d_erf, erff(x), erf(x))
FUNCTION(d_erfc, erfcf(x), erfc(x))
FUNCTION(d_lgamma, (float)lgamma((double)x), lgamma(x))
FUNCTION(d_floor, floorf(x), floor(x))
FUNCTION(d_ceil, ceilf(x), ceil(x))
FUNCTION(d_round, rintf(x), rint(x))
FUNCTION(d_trunc, truncf(x), trunc(x))
FUNCTION(d_sigmoid, 1.0f / (1.0f + expf(-x)), x < 0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x)))
FUNCTION(d_softplus, (x > 0 ? x : 0) + log1pf(expf(-fabsf(x))) + (x != x ? x : 0),
         (x > 0 ? x : 0) + log1p(exp(-fabs(x))) + (x != x ? x : 0))
/* As gd__gelu_f64 of base/vmath.h: 1 + erf would lose the lower tail; what the rounding of z has lost is put back by the slope. */
__device__ inline double d_normal_tail(double x)
{
    double z = x * -0.70710678118654752, e = erfc(z);
    double lost = fma(x, -0.70710678118654752, -z) + x * 4.8336466567264567e-17;
    return 0.5 * (e - (z > 0 ? e * lost * (z + sqrt(z * z + 1.2732395447351628)) : 0));
}
FUNCTION(d_gelu, 0.5f * x * erfcf(x * -0.70710678f), x * d_normal_tail(x))
FUNCTION(d_gelu_slope, 0.5f * erfcf(-0.70710678f * x) + 0.39894228f * x * expf(-0.5f * x * x),
         0.5 * erfc(-0.70710678118654752 * x) + 0.39894228040143268 * x * exp(-0.5 * x * x))
__device__ inline i64 d_abs(i64 x) { return x < 0 ? -x : x; }
__device__ inline i64 d_sign(i64 x) { return (x > 0) - (x < 0); }
__device__ inline i64 d_floor(i64 x) { return x; }
__device__ inline i64 d_ceil(i64 x) { return x; }
__device__ inline i64 d_round(i64 x) { return x; }
__device__ inline i64 d_trunc(i64 x) { return x; }
__device__ inline bool d_isfinite(float x) { return fabsf(x) <= 3.40282347e38f; }
__device__ inline bool d_isfinite(double x) { return fabs(x) <= 1.7976931348623157e308; }
__device__ inline bool d_isfinite(i64) { return true; }
__device__ inline float d_pow(float x, double y) { return (float)pow((double)x, y); }
__device__ inline double d_pow(double x, double y) { return pow(x, y); }
/* By squaring; with an exponent below 0 the whole part of the quotient. */
__device__ inline i64 d_pow(i64 x, i64 n)
{
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0;
    u64 y = 1, square = (u64)x;
    for (; n; n >>= 1, square *= square)
        if (n & 1) y *= square;
    return (i64)y;
}
__device__ inline float d_atan2(float x, float y) { return atan2f(x, y); }
__device__ inline double d_atan2(double x, double y) { return atan2(x, y); }
__device__ inline float d_hypot(float x, float y) { return hypotf(x, y); }
__device__ inline double d_hypot(double x, double y) { return hypot(x, y); }
__device__ inline float d_copysign(float x, float y) { return copysignf(x, y); }
__device__ inline double d_copysign(double x, double y) { return copysign(x, y); }
__device__ inline float d_nextafter(float x, float y) { return nextafterf(x, y); }
__device__ inline double d_nextafter(double x, double y) { return nextafter(x, y); }
__device__ inline bool d_signbit(float x) { return x == x && copysignf(1.0f, x) < 0; }
__device__ inline bool d_signbit(double x) { return x == x && copysign(1.0, x) < 0; }
__device__ inline bool d_signbit(i64 x) { return x < 0; }
template <class C> __device__ inline C d_logaddexp(C x, C y)
{
    return x == y ? x + (C)0.69314718055994531 : (x > y ? x : y) + d_log1p(d_exp(-d_abs(x - y)));
}
__device__ inline float d_fma(float x, float y, float z) { return fmaf(x, y, z); }
__device__ inline double d_fma(double x, double y, double z) { return fma(x, y, z); }
__device__ inline float d_clamp(float x, const double *f) { return x < (float)f[0] ? (float)f[0] : x > (float)f[1] ? (float)f[1] : x; }
__device__ inline double d_clamp(double x, const double *f) { return x < f[0] ? f[0] : x > f[1] ? f[1] : x; }
__device__ inline i64 d_clamp(i64 x, const double *f) { return (double)x < f[0] ? (i64)ceil(f[0]) : (double)x > f[1] ? (i64)floor(f[1]) : x; }
template <class C> __device__ inline C d_min(C x, C y) { return x != x ? x : y < x || y != y ? y : x; }
template <class C> __device__ inline C d_max(C x, C y) { return x != x ? x : y > x || y != y ? y : x; }

__device__ inline double d_mod(double x, double y)
{
    double r = fmod(x, y);
    return r == 0 ? copysign(0.0, y) : (r < 0) != (y < 0) ? r + y : r;
}

__device__ inline double d_mod(float x, float y) { return d_mod((double)x, (double)y); }
/* Integers as NumPy has them: by 0 both are 0, the least number by -1 is itself. */
__device__ inline long long d_mod(long long x, long long y)
{
    long long r = y == 0 || y == -1 ? 0 : x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
__device__ inline float d_floor_div(float x, float y) { return floorf(x / y); }
__device__ inline double d_floor_div(double x, double y) { return floor(x / y); }
__device__ inline long long d_floor_div(long long x, long long y)
{
    if (y == 0) return 0;
    if (y == -1) return (long long)(0 - (u64)x);
    long long q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

/* jn() is NaN for negative orders here */
__device__ inline double d_bessel_j(int n, double x)
{
    double y = jn(n < 0 ? -n : n, x);
    return n < 0 && n % 2 ? -y : y;
}

/* As gd__polygamma of base/special.c: recurrence up to where the expansion at infinity holds. */
__device__ inline double d_cot_derivative(int n, double t)
{
    double p[22] = {0, 1}, c = cos(t) / sin(t), value = 0;
    for (int k = 0; k < n; k++) {
        double next[22] = {0};
        for (int i = 1; i <= k + 1; i++) {
            next[i - 1] -= i * p[i];
            next[i + 1] -= i * p[i];
        }
        for (int i = 0; i <= k + 2 && i < 22; i++) p[i] = next[i];
    }
    for (int i = n + 1 < 22 ? n + 1 : 21; i >= 0; i--) value = value * c + p[i];
    return value;
}

__device__ inline double d_polygamma(int n, double x)
{
    const double bernoulli[12] = {1.0 / 6,       -1.0 / 30,       1.0 / 42,       -1.0 / 30,
                                  5.0 / 66,      -691.0 / 2730,   7.0 / 6,        -3617.0 / 510,
                                  43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};
    const double pi = 3.14159265358979323846, infinity = 1.0 / 0.0;
    if (x == infinity) return n ? 0 : x;
    if (!(x > -infinity) || (x <= 0 && x == floor(x))) return infinity - infinity;
    double mirrored = 0, outer = 1;
    if (x < 0) {
        mirrored = pow(pi, n + 1) * d_cot_derivative(n, pi * (x - floor(x)));
        outer = n % 2 ? -1 : 1;
        x = 1 - x;
    }
    double below = 0, tail = 0, factorial = 1; /* (n - 1)!, at least 1 */
    for (int i = 2; i < n; i++) factorial *= i;
    for (; x < 15 + n; x += 1) below += pow(x, -(n + 1));
    for (int k = 12; k >= 1; k--) {
        double rising = n ? 1 : 1.0 / (2 * k);
        for (int i = 2 * k + 1; i < 2 * k + n; i++) rising *= i;
        tail = (tail + bernoulli[k - 1] * rising) / (x * x);
    }
    if (n == 0) return log(x) - 0.5 / x - tail - below - mirrored;
    double value = (factorial + factorial * n * 0.5 / x + tail) / pow(x, n) + factorial * n * below;
    return outer * (n % 2 ? value : -value) - mirrored;
}

#define EACH(i, n) \
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x, step_ = (i64)gridDim.x * blockDim.x; i < (n); i += step_)
