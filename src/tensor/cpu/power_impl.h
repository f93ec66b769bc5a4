/* Powers, for every instruction set: whole and half exponents are products and roots.  Zeros, infinities, negative
 * numbers and NaNs give the results of pow in IEEE 754.  The same for one number, with the same bits: gd__scalar_pow_f64 and its like in
 * base/vmath_special.h.  Included by kernels.c. */

enum { POWER_BLOCK = 64, MOST_FACTORS = 32 };

/* As roots of powers see x: sqrt(-0) is -0 and sqrt(-inf) NaN, but pow(-0, 0.5) is 0 and pow(-inf, 0.5) inf. */
static inline float rooted_f32(float x) { return x == -INFINITY ? INFINITY : x + 0.0f; }
static inline double rooted_f64(double x) { return x == -INFINITY ? INFINITY : x + 0.0; }

#define POWER(name, T, element)                                                                       \
    static void name(void *o_, const void *a_, const void *b_, const void *c_, int64_t n, settings f) \
    {                                                                                                 \
        (void)b_;                                                                                     \
        (void)c_;                                                                                     \
        (void)f;                                                                                      \
        T *restrict o = o_;                                                                           \
        const T *x = a_;                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                             \
            const T a = x[i];                                                                         \
            o[i] = (T)(element);                                                                      \
        }                                                                                             \
    }
#define POWERS(name, e32, e64) POWER(name##_f32, float, e32) POWER(name##_f64, double, e64)
POWERS(power_none, ((void)a, 1), ((void)a, 1))
POWERS(power_same, a, a)
POWERS(power_cube, a *a *a, a *a *a)
POWERS(power_root, sqrtf(rooted_f32(a)), sqrt(rooted_f64(a)))
POWERS(power_over_root, 1.0f / sqrtf(rooted_f32(a)), 1.0 / sqrt(rooted_f64(a)))
POWERS(power_times_root, rooted_f32(a) * sqrtf(rooted_f32(a)), rooted_f64(a) * sqrt(rooted_f64(a)))

/* ---- products ---- */

/* Numbers with their rounding errors: x is high + low. */
typedef struct power_block {
    double high[POWER_BLOCK], low[POWER_BLOCK];
} power_block;

static void block_times(power_block *restrict x, const power_block *restrict y)
{
    for (int i = 0; i < POWER_BLOCK; i++) {
        double p = x->high[i] * y->high[i];
        x->low[i] = gd__lost_f64(p, x->high[i], y->high[i]) +
                    (x->high[i] * y->low[i] + x->low[i] * y->high[i]);
        x->high[i] = p;
    }
}

static void block_squared(power_block *x)
{
    for (int i = 0; i < POWER_BLOCK; i++) {
        double y = x->high[i], p = y * y;
        x->low[i] = gd__lost_f64(p, y, y) + 2 * y * x->low[i];
        x->high[i] = p;
    }
}

static void block_inverted(power_block *x)
{
    for (int i = 0; i < POWER_BLOCK; i++) {
        double y = 1 / x->high[i], p = x->high[i] * y;
        x->low[i] = ((1 - p) - gd__lost_f64(p, x->high[i], y)) * y;
        x->high[i] = y;
    }
}

static void block_root(power_block *restrict root, const power_block *restrict x)
{
    for (int i = 0; i < POWER_BLOCK; i++) {
        double y = sqrt(x->high[i]), p = y * y;
        root->low[i] = (((x->high[i] - p) - gd__lost_f64(p, y, y)) + x->low[i]) / (2 * y);
        root->high[i] = y;
    }
}

/* result *= x^k; x is overwritten. No product is further from 1 than the power itself, so none overflows alone. */
static void block_power(power_block *restrict result, power_block *restrict x, int k)
{
    while (k) {
        if (k & 1) block_times(result, x);
        if (k >>= 1) block_squared(x);
    }
}

/* Up to POWER_BLOCK numbers to the power of a whole or half exponent, within 0.6 ULP.  Rounding errors of products are NaN if they are
 * infinite, and incomplete if they are subnormal. */
static void powers_of_block(double *o, const double *a, int n, double exponent)
{
    power_block x, result;
    memset(&x, 0, sizeof x);
    bool half = floor(exponent) != exponent;
    for (int i = 0; i < n; i++) x.high[i] = half ? rooted_f64(a[i]) : a[i];
    if (exponent < 0) block_inverted(&x);
    for (int i = 0; i < POWER_BLOCK; i++) {
        result.high[i] = 1;
        result.low[i] = 0;
    }
    if (half) block_root(&result, &x);
    block_power(&result, &x, (int)fabs(exponent));
    for (int i = 0; i < n; i++) {
        double high = result.high[i], low = result.low[i], size = fabs(high);
        o[i] = size > 1e-290 && fabs(low) < size ? high + low : high;
    }
}

static void powers_f64(double *o, const double *a, int64_t n, double exponent)
{
    for (int64_t i = 0; i < n; i += POWER_BLOCK)
        powers_of_block(o + i, a + i, n - i < POWER_BLOCK ? (int)(n - i) : POWER_BLOCK, exponent);
}

/* In f64, which keeps all but the last of its digits and has room for all powers that f32 can hold. */
static void powers_f32(float *restrict o, const float *a, int64_t n, double exponent)
{
    bool half = floor(exponent) != exponent;
    for (int64_t start = 0; start < n; start += POWER_BLOCK) {
        int count = n - start < POWER_BLOCK ? (int)(n - start) : POWER_BLOCK;
        double x[POWER_BLOCK] = {0}, y[POWER_BLOCK];
        for (int i = 0; i < count; i++) x[i] = (double)(half ? rooted_f32(a[start + i]) : a[start + i]);
        for (int i = 0; i < POWER_BLOCK && exponent < 0; i++) x[i] = 1 / x[i];
        for (int i = 0; i < POWER_BLOCK; i++) y[i] = half ? sqrt(x[i]) : 1;
        for (int k = (int)fabs(exponent); k; k >>= 1) {
            for (int i = 0; i < POWER_BLOCK && k & 1; i++) y[i] *= x[i];
            for (int i = 0; i < POWER_BLOCK; i++) x[i] *= x[i];
        }
        for (int i = 0; i < count; i++) o[start + i] = (float)y[i];
    }
}

/* The same of -2, without blocks. */
static inline float over_square_f32(float a)
{
    double y = 1.0 / (double)a;
    return (float)(y * y);
}
static inline double over_square_f64(double a)
{
    double y = 1.0 / a, p = a * y, square = y * y;
    double low = gd__lost_f64(square, y, y) + 2.0 * y * (((1.0 - p) - gd__lost_f64(p, a, y)) * y);
    return ((fabs(square) > 1e-290) & (fabs(low) < fabs(square))) ? square + low : square;
}
POWERS(power_over_square, over_square_f32(a), over_square_f64(a))

/* ---- any exponent ---- */

POWERS(power_any, gd__power_f32(a, f[0]), gd__pow_f64(a, f[0]))

/* ---- by exponent ---- */

#define POWER_LOOP(type)                                                                                     \
    static loop *power_loop_##type(double exponent)                                                          \
    {                                                                                                        \
        static const struct {                                                                                \
            double exponent;                                                                                 \
            loop *fn;                                                                                        \
        } table[] = {                                                                                        \
            {0, power_none_##type},         {1, power_same_##type},         {2, square_##type},              \
            {3, power_cube_##type},         {-1, reciprocal_##type},        {0.5, power_root_##type},        \
            {-0.5, power_over_root_##type}, {1.5, power_times_root_##type}, {-2, power_over_square_##type}}; \
        for (size_t i = 0; i < sizeof table / sizeof *table; i++)                                            \
            if (table[i].exponent == exponent) return table[i].fn;                                           \
        return NULL;                                                                                         \
    }                                                                                                        \
    static void pow_scalar_##type(void *o, const void *a, const void *b, const void *c, int64_t n,           \
                                  settings f)                                                                \
    {                                                                                                        \
        loop *fn = power_loop_##type(f[0]);                                                                  \
        bool factors = fabs(f[0]) <= (double)MOST_FACTORS && 2 * f[0] == floor(2 * f[0]);                    \
        if (fn || !factors)                                                                                  \
            (fn ? fn : power_any_##type)(o, a, b, c, n, f);                                                  \
        else                                                                                                 \
            powers_##type(o, a, n, f[0]);                                                                    \
    }
typedef void loop(void *o, const void *a, const void *b, const void *c, int64_t n, settings f);
POWER_LOOP(f32)
POWER_LOOP(f64)
