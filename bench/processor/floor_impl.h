/* Included by floor.c for f32 and f64. */

#define LOOP(name, expression)                                          \
    void F(floor_##name)(void *o_, const void *a_, void *b_, int64_t n) \
    {                                                                   \
        (void)b_;                                                       \
        S *o = o_;                                                      \
        const S *a = a_;                                                \
        for (int64_t i = 0; i < n; i += WIDTH) {                        \
            V x = F(vld1q)(a + i);                                      \
            F(vst1q)(o + i, expression);                                \
        }                                                               \
    }
#define LOOP2(name, expression)                                         \
    void F(floor_##name)(void *o_, const void *a_, void *b_, int64_t n) \
    {                                                                   \
        S *o = o_;                                                      \
        const S *a = a_, *b = b_;                                       \
        for (int64_t i = 0; i < n; i += WIDTH) {                        \
            V x = F(vld1q)(a + i), y = F(vld1q)(b + i);                 \
            F(vst1q)(o + i, expression);                                \
        }                                                               \
    }

#define ALL(x) F(vdupq_n)(x)

LOOP2(add, x + y)
LOOP2(mul, x *y)
LOOP2(div, x / y)
LOOP(sqrt, F(vsqrtq)(x))
LOOP(square, x *x)
LOOP(relu, F(vmaxq)(x, ALL(0)))

static inline V F(polynomial)(const S *c, int terms, V r)
{
    V p = ALL(c[0]);
#pragma GCC unroll 16
    for (int i = 1; i < terms; i++) p = F(vfmaq)(ALL(c[i]), p, r);
    return p;
}

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static inline V F(exp_of)(V x)
{
    V c = F(vmaxq)(F(vminq)(x, ALL(HIGHEST)), ALL(LOWEST));
    V t = F(vfmaq)(ALL(ROUNDER), c, ALL((S)1.4426950408889634)), m = t - ALL(ROUNDER);
    V r = F(vfmsq)(F(vfmsq)(c, m, ALL(LN2_HIGH)), m, ALL(LN2_LOW));
    V p = F(vfmaq)(r, F(polynomial)(TAYLOR, COUNT(TAYLOR), r) * r, r) + ALL(1);
    U k = AS_BITS(t), half = B(vshrq_n)(k, 1);
    return p * AS_REAL(B(vshlq_n)(half, FRACTION)) * AS_REAL(B(vshlq_n)(k - half, FRACTION));
}
LOOP(exp, F(exp_of)(x))

static inline V F(log_of)(V x)
{
    U raw = AS_BITS(x), tiny = B(vcltq)(raw, B(vdupq_n)((BITS)1 << FRACTION));
    U bits = AS_BITS(F(vbslq)(tiny, x * ALL((S)(1ull << TINY)), x)),
      k = ARITHMETIC(bits - B(vdupq_n)(ROOT_HALF));
    V f = AS_REAL(bits - B(vshlq_n)(k, FRACTION)) - ALL(1), s = f / (f + ALL(2)), z = s * s;
    k -= tiny & B(vdupq_n)(TINY);
    V e = CONVERT, h = f * f * ALL((S)0.5), r = F(polynomial)(LOG_SERIES, COUNT(LOG_SERIES), z) * z;
    V y = F(vfmaq)(f - (h - F(vfmaq)(e * ALL(LN2_LOW), s, h + r)), e, ALL(LN2_HIGH));
    /* NaN of what is negative, -infinity of 0, infinity and NaN of themselves */
    y = AS_REAL(AS_BITS(y) | B(vcgtq)(raw, B(vdupq_n)((BITS)1 << (8 * sizeof(S) - 1))));
    y = F(vbslq)(F(vceqzq)(x), ALL(-(S)__builtin_inf()), y);
    return F(vbslq)(B(vcgeq)(raw, AS_BITS(ALL((S)__builtin_inf()))), F(vaddq)(x, y), y);
}
LOOP(log, F(log_of)(x))

/* e^-|x|, the divisor, and what stands above it */
static inline V F(sigmoid_of)(V x)
{
    V e = F(exp_of)(-F(vabsq)(x));
    return F(vbslq)(F(vcltzq)(x), e, ALL(1)) / (e + ALL(1));
}
LOOP(sigmoid, F(sigmoid_of)(x))

/* in sixteen lanes, as the library's: the order is part of the result */
void F(floor_sum)(void *o, const void *a_, void *b, int64_t n)
{
    (void)b;
    const S *a = a_;
    V lane[16 / WIDTH] = {0};
    for (int64_t i = 0; i < n; i += 16)
#pragma GCC unroll 8
        for (int k = 0; k < 16 / WIDTH; k++) lane[k] += F(vld1q)(a + i + k * WIDTH);
    V sum = lane[0];
    for (int k = 1; k < 16 / WIDTH; k++) sum += lane[k];
    *(S *)o = F(vaddvq)(sum);
}

/* NEON's maximum keeps a NaN */
static inline S F(highest)(const S *a, int64_t n)
{
    V high = F(vld1q)(a);
    for (int64_t i = 0; i < n; i += WIDTH) high = F(vmaxq)(high, F(vld1q)(a + i));
    return F(vmaxvq)(high);
}
void F(floor_max)(void *o, const void *a, void *b, int64_t n)
{
    (void)b;
    *(S *)o = F(highest)(a, n);
}

void F(floor_softmax)(void *o_, const void *a_, void *b, int64_t n)
{
    (void)b;
    S *o = o_;
    const S *a = a_;
    V shift = ALL(F(highest)(a, n)), sum = ALL(0);
    for (int64_t i = 0; i < n; i += WIDTH) {
        V e = F(exp_of)(F(vld1q)(a + i) - shift);
        F(vst1q)(o + i, e);
        sum += e;
    }
    V scale = ALL(1 / F(vaddvq)(sum));
    for (int64_t i = 0; i < n; i += WIDTH) F(vst1q)(o + i, F(vld1q)(o + i) * scale);
}

/* Adam's step in one pass */
#define ADAM(name, gradient, direction)                                                             \
    static inline void F(name)(S * p, const S *g, S *m, int64_t n, V factor)                        \
    {                                                                                               \
        S *v = m + n;                                                                               \
        for (int64_t i = 0; i < n; i += WIDTH) {                                                    \
            V x = gradient, w = F(vld1q)(p + i), first = F(vld1q)(m + i), second = F(vld1q)(v + i); \
            first = F(vfmaq)(first, x - first, ALL((S)0.1));                                        \
            second = F(vfmaq)(second * ALL((S)0.999), x * x, ALL((S)0.001));                        \
            F(vst1q)(m + i, first);                                                                 \
            F(vst1q)(v + i, second);                                                                \
            V u = first / (F(vsqrtq)(second * factor) + ALL((S)1e-8));                              \
            F(vst1q)(p + i, F(vfmsq)(w, direction, ALL((S)1e-3)));                                  \
        }                                                                                           \
    }
ADAM(adam_pass, F(vld1q)(g + i), u)
ADAM(clipped_pass, F(vld1q)(g + i) * factor, F(vfmaq)(u, w, ALL((S)0.01)))

void F(floor_adam)(void *o, const void *a, void *b, int64_t n) { F(adam_pass)(o, a, b, n, ALL((S)1.5)); }

void F(floor_clipped_adam)(void *o, const void *a, void *b, int64_t n)
{
    const S *g = a;
    V sum = ALL(0);
    for (int64_t i = 0; i < n; i += WIDTH) sum = F(vfmaq)(sum, F(vld1q)(g + i), F(vld1q)(g + i));
    F(clipped_pass)(o, a, b, n, ALL(1 / (1 + F(vaddvq)(sum))));
}

/* A tile of a product: 8 rows and 3 vectors of columns stay in registers; a has 8 numbers of a column of the left matrix after another,
 * b 3 vectors of a row of the right one. */
#define TILE_ROW(i) \
    for (int j = 0; j < 3; j++) c[i][j] = F(vfmaq_laneq)(c[i][j], right[j], left[(i) / WIDTH], (i) % WIDTH);
static inline void F(product_tile)(S *o, const S *a, const S *b, int64_t n)
{
    V c[8][3] = {0};
    for (int64_t k = 0; k < n; k++, a += 8, b += 3 * WIDTH) {
        V left[8 / WIDTH], right[3];
#pragma GCC unroll 4
        for (int i = 0; i < 8 / WIDTH; i++) left[i] = F(vld1q)(a + i * WIDTH);
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) right[j] = F(vld1q)(b + j * WIDTH);
        TILE_ROW(0)
        TILE_ROW(1)
        TILE_ROW(2)
        TILE_ROW(3)
        TILE_ROW(4)
        TILE_ROW(5)
        TILE_ROW(6)
        TILE_ROW(7)
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) F(vst1q)(o + i * n + j * WIDTH, c[i][j]);
}
void F(floor_product)(void *o, const void *a, void *b, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8)
        for (int64_t j = 0; j < n; j += 3 * WIDTH)
            F(product_tile)((S *)o + i * n + j, (const S *)a + i * n, (const S *)b + j * n, n);
}

#undef TILE_ROW
#undef LOOP
#undef LOOP2
#undef ALL
#undef COUNT
#undef ADAM
