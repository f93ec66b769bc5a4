/* Digamma and trigamma functions in vectors, for every instruction set.  Included by kernels.c.
 *
 * psi(x) = psi(x + n) - sum of 1 / (x + k), k < n, up to where the expansion at infinity holds (Abramowitz and Stegun 6.3.6, 6.3.18), with the
 * rounding errors of additions and divisions; near its zero 1.46 a polynomial.  psi'(x) is the same with squares and the other sign.  Numbers that
 * are not positive come from 1 - x by cot(pi x) and its slope.  f32 is computed in f64 without rounding errors. */

enum { GAMMA_BLOCK = 32 };

#define GAMMA_ROOT      1.4616321449683622
#define GAMMA_ROOT_REST 9.549995429965697e-17

typedef struct gamma_block {
    double x[GAMMA_BLOCK], low[GAMMA_BLOCK]; /* above 0 */
    double at[GAMMA_BLOCK], at_low[GAMMA_BLOCK], sum[GAMMA_BLOCK], rest[GAMMA_BLOCK];
} gamma_block;

/* The number of steps up to `end` that an element of the block needs. */
static int gamma_steps(const gamma_block *b, double end)
{
    double least = end;
    for (int i = 0; i < GAMMA_BLOCK; i++) least = b->x[i] < least ? b->x[i] : least;
    return (int)ceil(end - least);
}

/* at = x + n >= 12, and the sum of 1 / (x + k) or of its square. */
static void gamma_shift_f64(gamma_block *b, bool squares)
{
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        b->at[i] = b->x[i];
        b->at_low[i] = b->low[i];
        b->sum[i] = b->rest[i] = 0;
    }
    for (int k = 1, n = gamma_steps(b, 12); k <= n; k++)
        for (int i = 0; i < GAMMA_BLOCK; i++) {
            double at = b->at[i], term = 1.0 / at, p = term * at, lost, next_low;
            double term_low = (((1.0 - p) - gd__lost_f64(p, term, at)) - term * b->at_low[i]) * term;
            double square = term * term,
                   square_low = gd__lost_f64(square, term, term) + 2.0 * term * term_low;
            term = squares ? square : term;
            term_low = squares ? square_low : term_low;
            term_low = term < 1e280 ? term_low : 0;
            double sum = gd__two_sum_f64(b->sum[i], at < 12 ? term : 0, &lost);
            double next = gd__two_sum_f64(b->x[i], (double)k, &next_low);
            b->rest[i] += lost + (at < 12 ? term_low : 0);
            b->sum[i] = sum;
            b->at[i] = at < 12 ? next : at;
            b->at_low[i] = at < 12 ? next_low + b->low[i] : b->at_low[i];
        }
}

/* psi(root + d) */
static inline double digamma_at_root_f64(double d)
{
    double p = GD_HORNER(d, 0.002369246466194002, -0.0034637491819986257, 0.00492527446510519,
                         -0.007202320402493014, 0.010538809590645392, -0.015424792401594301,
                         0.02259764811766434, -0.03316112630521734, 0.04880428816451682, -0.07219956125701184,
                         0.10782405069126183, -0.16394270544240572, 0.258499760955651, -0.4427631689835921,
                         0.9676722454476212);
    return p * d;
}

static void digamma_block_f64(double *restrict o, gamma_block *b)
{
    gamma_shift_f64(b, false);
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        double at = b->at[i], log_low, lost, y = 1.0 / at, z = y * y;
        double log_high = gd__log_pair_f64(at < INFINITY ? at : 1.0, 0.0, &log_low);
        double tail = GD_HORNER(z, -0.4432598039215686, 0.08333333333333333, -0.021092796092796094,
                                0.007575757575757576, -0.004166666666666667, 0.003968253968253968,
                                -0.008333333333333333,
                                0.08333333333333333); /* Bernoulli's numbers B_2k / 2k */
        double high = gd__two_sum_f64(log_high, -b->sum[i], &lost);
        double far = high + (lost + (((log_low + b->at_low[i] * y) - b->rest[i]) - (0.5 * y + tail * z)));
        double d = ((b->x[i] - GAMMA_ROOT) - GAMMA_ROOT_REST) + b->low[i], near = digamma_at_root_f64(d);
        double value = b->sum[i] < 1e280 ? far : -b->sum[i];
        value = fabs(d) < 0.125 ? near : value;
        o[i] = at < INFINITY ? value : at;
    }
}

static void trigamma_block_f64(double *restrict o, gamma_block *b)
{
    gamma_shift_f64(b, true);
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        double at = b->at[i], lost, y = 1.0 / at, p = y * at, z = y * y;
        double y_low = (((1.0 - p) - gd__lost_f64(p, y, at)) - y * b->at_low[i]) * y;
        double tail = GD_HORNER(z, 1.1666666666666667, -0.2531135531135531, 0.07575757575757576,
                                -0.03333333333333333, 0.023809523809523808, -0.03333333333333333,
                                0.16666666666666666); /* Bernoulli's numbers B_2k */
        double high = gd__two_sum_f64(b->sum[i], y, &lost);
        double value = high + (lost + (b->rest[i] + (y_low + z * (0.5 + y * tail))));
        value = b->sum[i] < 1e280 ? value : b->sum[i];
        o[i] = at < INFINITY ? value : at > 0 ? 0.0 : at;
    }
}

/* As above, for results that are rounded to f32. */
static void gamma_shift_f32(gamma_block *b, bool squares)
{
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        b->at[i] = b->x[i];
        b->sum[i] = 0;
    }
    for (int k = 1, n = gamma_steps(b, 8); k <= n; k++)
        for (int i = 0; i < GAMMA_BLOCK; i++) {
            double at = b->at[i], term = 1.0 / at;
            term = squares ? term * term : term;
            b->sum[i] += at < 8 ? term : 0;
            b->at[i] = at < 8 ? b->x[i] + (double)k : at;
        }
}

static void digamma_block_f32(double *restrict o, gamma_block *b)
{
    gamma_shift_f32(b, false);
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        double at = b->at[i], y = 1.0 / at, z = y * y,
               tail = GD_HORNER(z, 0.007575757575757576, -0.004166666666666667, 0.003968253968253968,
                                -0.008333333333333333, 0.08333333333333333);
        double far = gd__log_normal(at < INFINITY ? at : 1.0, 0.0) - b->sum[i] - (0.5 * y + tail * z);
        double d = (b->x[i] - GAMMA_ROOT) + b->low[i],
               p = GD_HORNER(d, -0.03328138002169518, 0.048981292452919975, -0.07219926934985132,
                             0.1078236181756673, -0.16394270566773908, 0.25849976129369007,
                             -0.44276316898356605, 0.9676722454475799);
        double value = fabs(d) < 0.0625 ? p * d : far;
        o[i] = at < INFINITY ? value : at;
    }
}

static void trigamma_block_f32(double *restrict o, gamma_block *b)
{
    gamma_shift_f32(b, true);
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        double at = b->at[i], y = 1.0 / at, z = y * y,
               tail = GD_HORNER(z, 0.07575757575757576, -0.03333333333333333, 0.023809523809523808,
                                -0.03333333333333333, 0.16666666666666666);
        double value = b->sum[i] + (y + z * (0.5 + y * tail));
        o[i] = at < INFINITY ? value : at > 0 ? 0.0 : at;
    }
}

/* ---- any number ---- */

/* Up to GAMMA_BLOCK numbers of which some are not positive: psi(x) = psi(1 - x) - pi cot(pi x). */
static void mirror_block(gamma_block *b, const double *x)
{
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        double low, mirrored = gd__two_sum_f64(1.0, -x[i], &low);
        b->x[i] = x[i] <= 0 ? mirrored : x[i];
        b->low[i] = x[i] <= 0 ? low : 0;
    }
}

/* At most half a turn from a whole number, which is a pole. */
static inline double from_pole(double x)
{
    double r = x - __builtin_rint(x);
    return r == 0 ? NAN : r * 3.141592653589793;
}

static void digamma_mirrored(double *restrict o, const double *x)
{
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        double back = o[i] - 3.141592653589793 / gd__near_tan_f64(from_pole(x[i]));
        o[i] = x[i] <= 0 ? back : o[i];
    }
}

static void trigamma_mirrored(double *restrict o, const double *x)
{
    for (int i = 0; i < GAMMA_BLOCK; i++) {
        double s = 3.141592653589793 / gd__near_sin_f64(from_pole(x[i])), back = s * s - o[i];
        o[i] = x[i] <= 0 ? back : o[i];
    }
}

#define GAMMA_LOOP(name, type, suffix)                                                               \
    static void name##_##suffix(void *o_, const void *a_, const void *b_, const void *c_, int64_t n, \
                                settings f)                                                          \
    {                                                                                                \
        (void)b_;                                                                                    \
        (void)c_;                                                                                    \
        (void)f;                                                                                     \
        type *o = o_;                                                                                \
        const type *a = a_;                                                                          \
        for (int64_t start = 0; start < n; start += GAMMA_BLOCK) {                                   \
            int count = n - start < GAMMA_BLOCK ? (int)(n - start) : GAMMA_BLOCK, some = 0;          \
            double x[GAMMA_BLOCK], y[GAMMA_BLOCK];                                                   \
            gamma_block b;                                                                           \
            for (int i = 0; i < GAMMA_BLOCK; i++) x[i] = 100.0;                                      \
            for (int i = 0; i < count; i++) x[i] = (double)a[start + i];                             \
            for (int i = 0; i < count; i++) some |= x[i] <= 0;                                       \
            mirror_block(&b, x);                                                                     \
            name##_block_##suffix(y, &b);                                                            \
            if (some) name##_mirrored(y, x);                                                         \
            for (int i = 0; i < count; i++) o[start + i] = (type)y[i];                               \
        }                                                                                            \
    }
GAMMA_LOOP(digamma, float, f32)
GAMMA_LOOP(digamma, double, f64)
GAMMA_LOOP(trigamma, float, f32)
GAMMA_LOOP(trigamma, double, f64)

#define POLYGAMMA_LOOP(type)                                                                               \
    static void polygamma_by_order_##type(void *o, const void *a, const void *b, const void *c, int64_t n, \
                                          settings f)                                                      \
    {                                                                                                      \
        (f[0] == 0 ? digamma_##type : f[0] == 1 ? trigamma_##type : polygamma_##type)(o, a, b, c, n, f);   \
    }
POLYGAMMA_LOOP(f32)
POLYGAMMA_LOOP(f64)
#define polygamma_f32 polygamma_by_order_f32
#define polygamma_f64 polygamma_by_order_f64
