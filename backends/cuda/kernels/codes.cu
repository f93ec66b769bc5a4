/* Codes of eight bits by tables in shared memory (base/narrow.h, whose text stands before): a number is one look-up, a code the
 * lesser of two lines.  The formulas that all tables are made of are evaluated by the compiler. */
#ifndef CODES
#define CODES
/* coding takes longer than memory does with fewer warps at a time */
#undef BOUNDS
#define BOUNDS 256, 4

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

/* The place of a number among all cells; beyond 1 it stays at the end, NaN is at the beginning. */
__device__ inline float place_in(const CodeLines *lines, float x)
{
    const float a = fminf(fmaxf(x, 0x1p-31f), 1.0f);
    const CodeLines l = lines[__float_as_uint(a) >> 24 & 15];
    return fminf(a * l.slope[0] + l.start[0], a * l.slope[1] + l.start[1]);
}

__device__ inline int code_signed(const Codes &codes, float x)
{
    const int code = (int)copysignf(place_in(codes.signed_, fabsf(x)), x);
    return code > -127 ? code : -127; /* -128 and 128 are the same byte */
}

__device__ inline int code_positive(const Codes &codes, float x)
{
    const int code = (int)place_in(codes.positive, x), least = x > 0.0f;
    return code > least ? code : least;
}
#endif
