/* Codes of eight bits by tables in shared memory (base/narrow.h, whose text stands before): a number is one look-up, a code the
 * lesser of two lines.  The formulas that all tables are made of are evaluated by the compiler. */
#ifndef CODES
#define CODES
/* GD_CODED_THREADS; what is read ahead needs registers */
#undef BOUNDS
#define BOUNDS 128, 5

struct alignas(16) CodeLines {
    float slope[2], start[2];
};
struct alignas(16) Codes {
    float value_signed[256], value_positive[256];
    CodeLines signed_[16], positive[16];
};

constexpr float slopes_signed[GD_SQUARES] = {GD_LINES_SIGNED(GD_SLOPES)};
constexpr float starts_signed[GD_SQUARES] = {GD_LINES_SIGNED(GD_STARTS)};
constexpr float slopes_positive[GD_SQUARES] = {GD_LINES_POSITIVE(GD_SLOPES)};
constexpr float starts_positive[GD_SQUARES] = {GD_LINES_POSITIVE(GD_STARTS)};

constexpr Codes make_codes()
{
    Codes c{};
    for (int k = 0; k < 256; k++) {
        c.value_signed[k] = gd__value_signed(k);
        c.value_positive[k] = gd__value_positive(k);
    }
    for (int k = 0; k < 32; k++) {
        const int square = k / 2, end = k % 2;
        c.signed_[square].slope[end] = slopes_signed[square + end];
        c.signed_[square].start[end] = starts_signed[square + end];
        c.positive[square].slope[end] = slopes_positive[square + end];
        c.positive[square].start[end] = starts_positive[square + end];
    }
    return c;
}
__device__ constexpr Codes all_codes = make_codes();

__device__ inline void codes_begin(Codes &codes)
{
#ifdef GD_HOST_SHIM
    codes = all_codes; /* threads run one after the other */
#else
    const int pieces = (int)(sizeof(Codes) / sizeof(CodeLines));
    for (int k = (int)threadIdx.x; k < pieces; k += (int)blockDim.x)
        ((CodeLines *)&codes)[k] = ((const CodeLines *)&all_codes)[k];
    __syncthreads();
#endif
}

__device__ inline unsigned word_of(u8) { return 0; }
__device__ inline unsigned word_of(u16) { return 0; }
__device__ inline float word_of(float) { return 0; }
__device__ inline double word_of(double) { return 0; }

/* What is read ahead waits in whole words: bytes of their own would take a register each. */
template <class T, int W> struct Ahead {
    static const int per = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1;
    using Word = decltype(word_of(T{}));
    Word word[W / per];

    __device__ inline void take(const T *from, int left, bool whole)
    {
        if (per == 1) {
            ::take<W>((T *)word, from, left, whole);
        } else if (whole) {
            ::take<W / per>(word, (const Word *)from, W / per, true);
        } else {
#pragma unroll
            for (int k = 0; k < W; k++) {
                const Word next = k < left ? (Word)((unsigned)from[k] << 32 / per * (k % per)) : (Word)0;
                word[k / per] = k % per ? (Word)((unsigned)word[k / per] | (unsigned)next) : next;
            }
        }
    }
    __device__ inline void arrive(T *to) const
    {
#pragma unroll
        for (int k = 0; k < W; k++) to[k] = per == 1 ? (T)word[k] : (T)((unsigned)word[k / per] >> 32 / per * (k % per));
    }
};

/* Of a number from 0 to 255, in the last byte. */
__device__ inline unsigned whole_part(float x)
{
#ifdef GD_HOST_SHIM
    return (unsigned)x;
#else
    return __float_as_uint(__fadd_rz(x, 8388608.0f));
#endif
}

/* The place of a number from 2^-31 on among all cells. */
__device__ inline float place_in(const CodeLines *lines, float a)
{
    const CodeLines l = lines[__float_as_uint(a) >> 24 & 15];
    return fminf(a * l.slope[0] + l.start[0], a * l.slope[1] + l.start[1]);
}

/* NaN is at the beginning; -128 and 128 are the same byte. */
template <int W> __device__ inline void code_signed(const Codes &codes, u8 *to, const float *y, float inverse)
{
#pragma unroll
    for (int k = 0; k < W; k++) {
        const float x = y[k] * inverse, place = place_in(codes.signed_, fmaxf(fabsf(x), 0x1p-31f));
        to[k] = (u8)(int)fmaxf(copysignf(place, x), -127.0f);
    }
}

template <int W> __device__ inline void code_positive(const Codes &codes, u8 *to, const float *y, float inverse)
{
#pragma unroll
    for (int k = 0; k < W; k++) {
        const float x = y[k] * inverse, place = place_in(codes.positive, fmaxf(x, 0x1p-31f));
        to[k] = (u8)whole_part(fmaxf(place, x > 0.0f ? 1.0f : 0.0f));
    }
}

/* What lies beyond the end counts for nothing. */
template <int W> __device__ inline void clear_beyond(float *y, int left)
{
#pragma unroll
    for (int k = 0; k < W; k++) y[k] = k < left ? y[k] : 0.0f;
}
/* The largest size of a block (gd__code_size_...): what is not finite is looked for only where it came out as the largest. */
template <int W> __device__ inline uint32_t largest_signed(float *y, int left)
{
    if (left < W) clear_beyond<W>(y, left);
    uint32_t most = 0;
#pragma unroll
    for (int k = 0; k < W; k++) {
        const uint32_t u = __float_as_uint(y[k]), turned = u << 1 | u >> 31;
        most = turned > most ? turned : most;
    }
    most = warp_largest(most);
    if (most < 0xFF000000u) return most + 0x01000000u;
    most = 0;
    for (int k = 0; k < W; k++) {
        const uint32_t size = gd__code_size_signed(y[k]);
        most = size > most ? size : most;
    }
    return warp_largest(most);
}

template <int W> __device__ inline uint32_t largest_positive(float *y, int left)
{
    if (left < W) clear_beyond<W>(y, left);
    int32_t most = 0;
#pragma unroll
    for (int k = 0; k < W; k++) {
        const int32_t bits = (int32_t)__float_as_uint(y[k]);
        most = bits > most ? bits : most;
    }
    most = (int32_t)warp_largest((uint32_t)most);
    if (most < 0x7F800000) return ((uint32_t)most << 1) + 0x01000000u;
    uint32_t size = 0;
    for (int k = 0; k < W; k++) {
        const uint32_t next = gd__code_size_positive(y[k]);
        size = next > size ? next : size;
    }
    return warp_largest(size);
}
#endif
