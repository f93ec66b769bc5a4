/* The Moré-Garbow-Hillstrom problems: 35 sums of squares in 42 instances, from the definitions in
 *
 *   J. J. Moré, B. S. Garbow, K. E. Hillstrom, Testing unconstrained optimization software, ACM TOMS 7, 1981.
 *
 * Residuals are made with gradus operators from one vector x, so every derivative is exact. */
#ifndef GD_PROBLEMS_MGH_H
#define GD_PROBLEMS_MGH_H

#include "gradus/tensor.h"

#include <math.h>

#define MGH_COUNT  42
#define MGH_MOST   12 /* parameters */
#define MGH_MINIMA 3

typedef struct mgh_problem {
    const char *name;
    int n, m;
    gd_tensor *(*residuals)(gd_tensor *x, int n, int m); /* [m]; new */
    void (*start)(double *x, int n);
    double first;               /* sum of squares at the start */
    double minimum[MGH_MINIMA]; /* known minima; unused ones are negative */
} mgh_problem;

/* ---- short ways ---- */

static gd_ctx *ctx_of(gd_tensor *x) { return gd_tensor_ctx(x); }
static gd_tensor *at(gd_tensor *x, int i) { return gd_index(x, "0", i - 1); } /* x_i, from 1 */
static gd_tensor *data(gd_tensor *x, const double *v, int m)
{
    return gd_from_f64(ctx_of(x), GD_F64, 1, (int64_t[]){m}, v);
}
static gd_tensor *listed(gd_tensor **part, int count) { return gd_stack(part, count, 0, NULL); }
static gd_tensor *plus(gd_tensor *x, double c) { return gd_add_scalar(x, c); }
static gd_tensor *times(gd_tensor *x, double c) { return gd_mul_scalar(x, c); }
static gd_tensor *total(gd_tensor *x) { return gd_sum(x, NULL, false); }
static gd_tensor *joined(gd_tensor *a, gd_tensor *b) { return gd_cat((gd_tensor *[]){a, b}, 2, "0"); }
static gd_tensor *alone(gd_tensor *x) { return gd_reshape(x, 1, (int64_t[]){1}); } /* a number as a vector */
/* x_first, x_(first + step), ... */
static gd_tensor *every(gd_tensor *x, int first, int step)
{
    return gd_slice(x, "0", first - 1, gd_size(x, 0), step);
}
/* first, first + step, ... as a vector */
static gd_tensor *ramp(gd_tensor *x, double first, double step, int count)
{
    double v[128];
    for (int i = 0; i < count; i++) v[i] = first + step * i;
    return data(x, v, count);
}

static void filled(double *x, int n, double value)
{
    for (int i = 0; i < n; i++) x[i] = value;
}
static void set(double *x, int n, const double *v)
{
    for (int i = 0; i < n; i++) x[i] = v[i];
}
#define START(name, ...) \
    static void name(double *x, int n) { set(x, n, (const double[]){__VA_ARGS__}); }

/* ---- 1 .. 7 ---- */

static gd_tensor *rosenbrock(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    return listed(
        (gd_tensor *[]){times(gd_sub(at(x, 2), gd_square(at(x, 1))), 10), plus(gd_neg(at(x, 1)), 1)}, 2);
}
START(rosenbrock_start, -1.2, 1)

static gd_tensor *freudenstein_roth(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    gd_tensor *a = at(x, 1), *b = at(x, 2);
    gd_tensor *f = gd_add(plus(a, -13), gd_mul(plus(gd_mul(plus(gd_neg(b), 5), b), -2), b));
    gd_tensor *g = gd_add(plus(a, -29), gd_mul(plus(gd_mul(plus(b, 1), b), -14), b));
    return listed((gd_tensor *[]){f, g}, 2);
}
START(freudenstein_roth_start, 0.5, -2)

static gd_tensor *powell_badly_scaled(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    gd_tensor *product = plus(times(gd_mul(at(x, 1), at(x, 2)), 1e4), -1);
    gd_tensor *sum = gd_add(gd_exp(gd_neg(at(x, 1))), gd_exp(gd_neg(at(x, 2))));
    return listed((gd_tensor *[]){product, plus(sum, -1.0001)}, 2);
}
START(powell_badly_scaled_start, 0, 1)

static gd_tensor *brown_badly_scaled(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    return listed(
        (gd_tensor *[]){plus(at(x, 1), -1e6), plus(at(x, 2), -2e-6), plus(gd_mul(at(x, 1), at(x, 2)), -2)},
        3);
}
START(brown_badly_scaled_start, 1, 1)

static gd_tensor *beale(gd_tensor *x, int n, int m)
{
    (void)n;
    gd_tensor *part[3];
    const double y[] = {1.5, 2.25, 2.625};
    gd_tensor *power = at(x, 2);
    for (int i = 0; i < m; i++) {
        part[i] = plus(gd_mul(at(x, 1), plus(power, -1)), y[i]);
        power = gd_mul(power, at(x, 2));
    }
    return listed(part, m);
}
START(beale_start, 1, 1)

static gd_tensor *jennrich_sampson(gd_tensor *x, int n, int m)
{
    (void)n;
    gd_tensor *i = ramp(x, 1, 1, m);
    return gd_sub(plus(times(i, 2), 2), gd_add(gd_exp(gd_mul(i, at(x, 1))), gd_exp(gd_mul(i, at(x, 2)))));
}
START(jennrich_sampson_start, 0.3, 0.4)

static gd_tensor *helical_valley(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    gd_tensor *turn = times(gd_atan2(at(x, 2), at(x, 1)), 1 / (2 * 3.14159265358979323846));
    gd_tensor *radius = gd_sqrt(gd_add(gd_square(at(x, 1)), gd_square(at(x, 2))));
    gd_tensor *first = times(gd_sub(at(x, 3), times(turn, 10)), 10);
    return listed((gd_tensor *[]){first, times(plus(radius, -1), 10), at(x, 3)}, 3);
}
START(helical_valley_start, -1, 0, 0)

/* ---- 8 .. 12 ---- */

static gd_tensor *bard(gd_tensor *x, int n, int m)
{
    (void)n;
    const double y[] = {.14, .18, .22, .25, .29, .32, .35, .39, .37, .58, .73, .96, 1.34, 2.10, 4.39};
    double u[15], v[15], w[15];
    for (int i = 0; i < m; i++) {
        u[i] = i + 1;
        v[i] = 15 - i;
        w[i] = fmin(u[i], v[i]);
    }
    gd_tensor *below = gd_add(gd_mul(data(x, v, m), at(x, 2)), gd_mul(data(x, w, m), at(x, 3)));
    return gd_sub(data(x, y, m), gd_add(at(x, 1), gd_div(data(x, u, m), below)));
}
START(bard_start, 1, 1, 1)

static gd_tensor *gaussian(gd_tensor *x, int n, int m)
{
    (void)n;
    const double y[] = {.0009, .0044, .0175, .0540, .1295, .2420, .3521, .3989,
                        .3521, .2420, .1295, .0540, .0175, .0044, .0009};
    gd_tensor *t = ramp(x, 3.5, -0.5, m);
    gd_tensor *power = times(gd_mul(at(x, 2), gd_square(gd_sub(t, at(x, 3)))), -0.5);
    return gd_sub(gd_mul(at(x, 1), gd_exp(power)), data(x, y, m));
}
START(gaussian_start, 0.4, 1, 0)

static gd_tensor *meyer(gd_tensor *x, int n, int m)
{
    (void)n;
    const double y[] = {34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744,
                        8261,  7030,  6005,  5147,  4427,  3820,  3307,  2872};
    gd_tensor *t = ramp(x, 50, 5, m);
    return gd_sub(gd_mul(at(x, 1), gd_exp(gd_div(at(x, 2), gd_add(t, at(x, 3))))), data(x, y, m));
}
START(meyer_start, 0.02, 4000, 250)

static gd_tensor *gulf(gd_tensor *x, int n, int m)
{
    (void)n;
    double t[99], y[99];
    for (int i = 0; i < m; i++) {
        t[i] = (i + 1) / 100.0;
        y[i] = 25 + pow(-50 * log(t[i]), 2.0 / 3);
    }
    gd_tensor *distance = gd_abs(gd_sub(data(x, y, m), at(x, 2)));
    gd_tensor *power = gd_div(gd_pow(distance, at(x, 3)), at(x, 1));
    return gd_sub(gd_exp(gd_neg(power)), data(x, t, m));
}
START(gulf_start, 5, 2.5, 0.15)

static gd_tensor *box(gd_tensor *x, int n, int m)
{
    (void)n;
    double c[10];
    for (int i = 0; i < m; i++) c[i] = exp(-0.1 * (i + 1)) - exp(-(i + 1.0));
    gd_tensor *t = ramp(x, -0.1, -0.1, m);
    gd_tensor *two = gd_sub(gd_exp(gd_mul(t, at(x, 1))), gd_exp(gd_mul(t, at(x, 2))));
    return gd_sub(two, gd_mul(at(x, 3), data(x, c, m)));
}
START(box_start, 0, 10, 20)

/* ---- 13 .. 20 ---- */

/* n of 4: [x_1 + 10 x_2, sqrt(5) (x_3 - x_4), (x_2 - 2 x_3)^2, sqrt(10) (x_1 - x_4)^2] for every four */
static gd_tensor *powell_singular(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    gd_tensor *a = every(x, 1, 4), *b = every(x, 2, 4), *c = every(x, 3, 4), *d = every(x, 4, 4);
    gd_tensor *first = joined(gd_add(a, times(b, 10)), times(gd_sub(c, d), sqrt(5)));
    gd_tensor *second = joined(gd_square(gd_sub(b, times(c, 2))), times(gd_square(gd_sub(a, d)), sqrt(10)));
    return joined(first, second);
}
static void powell_singular_start(double *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = (const double[]){3, -1, 0, 1}[i % 4];
}

static gd_tensor *wood(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    gd_tensor *a = at(x, 1), *b = at(x, 2), *c = at(x, 3), *d = at(x, 4);
    return listed((gd_tensor *[]){times(gd_sub(b, gd_square(a)), 10), plus(gd_neg(a), 1),
                                  times(gd_sub(d, gd_square(c)), sqrt(90)), plus(gd_neg(c), 1),
                                  times(plus(gd_add(b, d), -2), sqrt(10)), times(gd_sub(b, d), 1 / sqrt(10))},
                  6);
}
START(wood_start, -3, -1, -3, -1)

static gd_tensor *kowalik_osborne(gd_tensor *x, int n, int m)
{
    (void)n;
    const double y[] = {.1957, .1947, .1735, .1600, .0844, .0627, .0456, .0342, .0323, .0235, .0246};
    const double v[] = {4, 2, 1, .5, .25, .167, .125, .1, .0833, .0714, .0625};
    gd_tensor *u = data(x, v, m), *uu = gd_square(u);
    gd_tensor *above = gd_mul(at(x, 1), gd_add(uu, gd_mul(u, at(x, 2))));
    return gd_sub(data(x, y, m), gd_div(above, gd_add(gd_add(uu, gd_mul(u, at(x, 3))), at(x, 4))));
}
START(kowalik_osborne_start, 0.25, 0.39, 0.415, 0.39)

static gd_tensor *brown_dennis(gd_tensor *x, int n, int m)
{
    (void)n;
    gd_tensor *t = ramp(x, 0.2, 0.2, m);
    gd_tensor *a = gd_sub(gd_add(at(x, 1), gd_mul(t, at(x, 2))), gd_exp(t));
    gd_tensor *b = gd_sub(gd_add(at(x, 3), gd_mul(gd_sin(t), at(x, 4))), gd_cos(t));
    return gd_add(gd_square(a), gd_square(b));
}
START(brown_dennis_start, 25, 5, -5, -1)

static gd_tensor *osborne1(gd_tensor *x, int n, int m)
{
    (void)n;
    const double y[] = {.844, .908, .932, .936, .925, .908, .881, .850, .818, .784, .751,
                        .718, .685, .658, .628, .603, .580, .558, .538, .522, .506, .490,
                        .478, .467, .457, .448, .438, .431, .424, .420, .414, .411, .406};
    gd_tensor *t = ramp(x, 0, -10, m);
    gd_tensor *a = gd_mul(at(x, 2), gd_exp(gd_mul(t, at(x, 4)))),
              *b = gd_mul(at(x, 3), gd_exp(gd_mul(t, at(x, 5))));
    return gd_sub(data(x, y, m), gd_add(at(x, 1), gd_add(a, b)));
}
START(osborne1_start, 0.5, 1.5, -1, 0.01, 0.02)

static gd_tensor *biggs(gd_tensor *x, int n, int m)
{
    (void)n;
    double y[13];
    for (int i = 0; i < m; i++) {
        double s = 0.1 * (i + 1);
        y[i] = exp(-s) - 5 * exp(-10 * s) + 3 * exp(-4 * s);
    }
    gd_tensor *t = ramp(x, -0.1, -0.1, m);
    gd_tensor *a = gd_mul(at(x, 3), gd_exp(gd_mul(t, at(x, 1)))),
              *b = gd_mul(at(x, 4), gd_exp(gd_mul(t, at(x, 2))));
    gd_tensor *c = gd_mul(at(x, 6), gd_exp(gd_mul(t, at(x, 5))));
    return gd_sub(gd_add(gd_sub(a, b), c), data(x, y, m));
}
START(biggs_start, 1, 2, 1, 1, 1, 1)

static gd_tensor *osborne2(gd_tensor *x, int n, int m)
{
    (void)n;
    const double y[] = {1.366, 1.191, 1.112, 1.013, .991, .885, .831, .847, .786, .725, .746, .679, .608,
                        .655,  .616,  .606,  .602,  .626, .651, .724, .649, .649, .694, .644, .624, .661,
                        .612,  .558,  .533,  .495,  .500, .423, .395, .375, .372, .391, .396, .405, .428,
                        .429,  .523,  .562,  .607,  .653, .672, .708, .633, .668, .645, .632, .591, .559,
                        .597,  .625,  .739,  .710,  .729, .720, .636, .581, .428, .292, .162, .098, .054};
    gd_tensor *t = ramp(x, 0, 0.1, m), *sum = gd_mul(at(x, 1), gd_exp(gd_neg(gd_mul(t, at(x, 5)))));
    for (int k = 2; k <= 4; k++) {
        gd_tensor *power = gd_mul(gd_square(gd_sub(t, at(x, k + 7))), at(x, k + 4));
        sum = gd_add(sum, gd_mul(at(x, k), gd_exp(gd_neg(power))));
    }
    return gd_sub(data(x, y, m), sum);
}
START(osborne2_start, 1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5)

static gd_tensor *watson(gd_tensor *x, int n, int m)
{
    (void)m;
    double powers[29 * MGH_MOST], slopes[29 * MGH_MOST];
    for (int i = 0; i < 29; i++)
        for (int j = 0; j < n; j++) {
            double t = (i + 1) / 29.0;
            powers[i * n + j] = pow(t, j);
            slopes[i * n + j] = j ? j * pow(t, j - 1) : 0;
        }
    gd_tensor *p = gd_from_f64(ctx_of(x), GD_F64, 2, (int64_t[]){29, n}, powers);
    gd_tensor *s = gd_from_f64(ctx_of(x), GD_F64, 2, (int64_t[]){29, n}, slopes);
    gd_tensor *f = plus(gd_sub(gd_matmul(s, x), gd_square(gd_matmul(p, x))), -1);
    gd_tensor *last = plus(gd_sub(at(x, 2), gd_square(at(x, 1))), -1);
    return joined(f, listed((gd_tensor *[]){at(x, 1), last}, 2));
}
static void zeros(double *x, int n) { filled(x, n, 0); }

/* ---- 21 .. 27 ---- */

static gd_tensor *extended_rosenbrock(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    gd_tensor *odd = every(x, 1, 2), *even = every(x, 2, 2);
    return joined(times(gd_sub(even, gd_square(odd)), 10), plus(gd_neg(odd), 1));
}
static void extended_rosenbrock_start(double *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = i % 2 ? 1 : -1.2;
}

static gd_tensor *penalty1(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    return joined(times(plus(x, -1), sqrt(1e-5)), alone(plus(total(gd_square(x)), -0.25)));
}
static void counted(double *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = i + 1;
}

static gd_tensor *penalty2(gd_tensor *x, int n, int m)
{
    (void)m;
    double y[MGH_MOST];
    for (int i = 2; i <= n; i++) y[i - 2] = exp(i / 10.0) + exp((i - 1) / 10.0);
    gd_tensor *e = gd_exp(times(x, 0.1)), *upper = every(e, 2, 1), *lower = gd_slice(e, "0", 0, n - 1, 1);
    gd_tensor *pairs = times(gd_sub(gd_add(upper, lower), data(x, y, n - 1)), sqrt(1e-5));
    gd_tensor *single = times(plus(upper, -exp(-0.1)), sqrt(1e-5));
    gd_tensor *weighted = plus(total(gd_mul(ramp(x, n, -1, n), gd_square(x))), -1);
    return joined(joined(alone(plus(at(x, 1), -0.2)), pairs), joined(single, alone(weighted)));
}
static void halves(double *x, int n) { filled(x, n, 0.5); }

static gd_tensor *variably_dimensioned(gd_tensor *x, int n, int m)
{
    (void)m;
    gd_tensor *f = plus(x, -1), *sum = total(gd_mul(ramp(x, 1, 1, n), f));
    return joined(f, listed((gd_tensor *[]){sum, gd_square(sum)}, 2));
}
static void falling(double *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = 1 - (i + 1.0) / n;
}

static gd_tensor *trigonometric(gd_tensor *x, int n, int m)
{
    (void)m;
    gd_tensor *c = gd_cos(x), *weighted = gd_mul(ramp(x, 1, 1, n), plus(gd_neg(c), 1));
    return gd_sub(gd_add(plus(gd_neg(total(c)), n), weighted), gd_sin(x));
}
static void shares(double *x, int n) { filled(x, n, 1.0 / n); }

static gd_tensor *brown_almost_linear(gd_tensor *x, int n, int m)
{
    (void)m;
    gd_tensor *f = plus(gd_add(x, total(x)), -(n + 1.0));
    return joined(gd_slice(f, "0", 0, n - 1, 1), alone(plus(gd_prod(x, NULL, false), -1)));
}

/* ---- 28 .. 31 ---- */

/* x_(i - 1) and x_(i + 1), zero beyond the ends */
static gd_tensor *before(gd_tensor *x)
{
    return gd_slice(gd_pad(x, (int64_t[]){1}, (int64_t[]){0}, 0), "0", 0, -1, 1);
}
static gd_tensor *after(gd_tensor *x)
{
    return gd_slice(gd_pad(x, (int64_t[]){0}, (int64_t[]){1}, 0), "0", 1, gd_size(x, 0) + 1, 1);
}
/* (x + t + 1)^3 */
static gd_tensor *cube(gd_tensor *x, gd_tensor *t)
{
    gd_tensor *s = plus(gd_add(x, t), 1);
    return gd_mul(s, gd_square(s));
}

static gd_tensor *discrete_boundary(gd_tensor *x, int n, int m)
{
    (void)m;
    double h = 1.0 / (n + 1);
    gd_tensor *t = ramp(x, h, h, n);
    gd_tensor *second = gd_sub(gd_sub(times(x, 2), before(x)), after(x));
    return gd_add(second, times(cube(x, t), h * h / 2));
}
static void parabola(double *x, int n)
{
    for (int i = 0; i < n; i++) {
        double t = (i + 1.0) / (n + 1);
        x[i] = t * (t - 1);
    }
}

static gd_tensor *discrete_integral(gd_tensor *x, int n, int m)
{
    (void)m;
    double h = 1.0 / (n + 1), k[MGH_MOST * MGH_MOST];
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= n; j++)
            k[(i - 1) * n + j - 1] = j <= i ? (1 - i * h) * (j * h) : i * h * (1 - j * h);
    gd_tensor *kernel = gd_from_f64(ctx_of(x), GD_F64, 2, (int64_t[]){n, n}, k);
    return gd_add(x, times(gd_matmul(kernel, cube(x, ramp(x, h, h, n))), h / 2));
}

static gd_tensor *broyden_tridiagonal(gd_tensor *x, int n, int m)
{
    (void)n, (void)m;
    gd_tensor *f = gd_mul(plus(times(x, -2), 3), x);
    return plus(gd_sub(gd_sub(f, before(x)), times(after(x), 2)), 1);
}
static void minus_ones(double *x, int n) { filled(x, n, -1); }

static gd_tensor *broyden_banded(gd_tensor *x, int n, int m)
{
    (void)m;
    double band[MGH_MOST * MGH_MOST];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) band[i * n + j] = j != i && j >= i - 5 && j <= i + 1;
    gd_tensor *near = gd_matmul(gd_from_f64(ctx_of(x), GD_F64, 2, (int64_t[]){n, n}, band),
                                gd_mul(x, plus(x, 1)));
    return gd_sub(plus(gd_mul(x, plus(times(gd_square(x), 5), 2)), 1), near);
}

/* ---- 32 .. 35 ---- */

static gd_tensor *linear_full_rank(gd_tensor *x, int n, int m)
{
    gd_tensor *rest = gd_zeros(ctx_of(x), GD_F64, 1, (int64_t[]){m - n});
    return plus(gd_add(joined(x, rest), times(total(x), -2.0 / m)), -1);
}
static void ones(double *x, int n) { filled(x, n, 1); }

static gd_tensor *linear_rank1(gd_tensor *x, int n, int m)
{
    return plus(gd_mul(ramp(x, 1, 1, m), total(gd_mul(ramp(x, 1, 1, n), x))), -1);
}

static gd_tensor *linear_rank1_zero(gd_tensor *x, int n, int m)
{
    double row[32] = {0}, column[MGH_MOST] = {0};
    for (int i = 2; i < m; i++) row[i - 1] = i - 1;
    for (int j = 2; j < n; j++) column[j - 1] = j;
    return plus(gd_mul(data(x, row, m), total(gd_mul(data(x, column, n), x))), -1);
}

static gd_tensor *chebyquad(gd_tensor *x, int n, int m)
{
    gd_tensor *part[MGH_MOST], *last = gd_ones_like(x), *y = plus(times(x, 2), -1), *now = y;
    for (int i = 1; i <= m; i++) {
        part[i - 1] = plus(times(total(now), 1.0 / n), i % 2 ? 0 : 1 / (i * i - 1.0));
        gd_tensor *next = gd_sub(times(gd_mul(y, now), 2), last);
        last = now;
        now = next;
    }
    return listed(part, m);
}
static void spread(double *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = (i + 1.0) / (n + 1);
}

#define NO -1
static const mgh_problem mgh_problems[MGH_COUNT] = {
    {"1 Rosenbrock", 2, 2, rosenbrock, rosenbrock_start, 24.2, {0, NO, NO}},
    {"2 Freudenstein-Roth", 2, 2, freudenstein_roth, freudenstein_roth_start, 400.5, {0, 48.9842, NO}},
    {"3 Powell badly scaled", 2, 2, powell_badly_scaled, powell_badly_scaled_start, 1.13526, {0, NO, NO}},
    {"4 Brown badly scaled", 2, 3, brown_badly_scaled, brown_badly_scaled_start, 9.99998e11, {0, NO, NO}},
    {"5 Beale", 2, 3, beale, beale_start, 14.2031, {0, NO, NO}},
    {"6 Jennrich-Sampson", 2, 10, jennrich_sampson, jennrich_sampson_start, 4171.31, {124.362, NO, NO}},
    {"7 Helical valley", 3, 3, helical_valley, helical_valley_start, 2500, {0, NO, NO}},
    {"8 Bard", 3, 15, bard, bard_start, 41.6817, {8.21488e-3, 17.4286, NO}},
    {"9 Gaussian", 3, 15, gaussian, gaussian_start, 3.88811e-6, {1.12793e-8, NO, NO}},
    {"10 Meyer", 3, 16, meyer, meyer_start, 1.69361e9, {87.9459, NO, NO}},
    {"11 Gulf", 3, 99, gulf, gulf_start, 12.1107, {0, NO, NO}},
    {"12 Box 3-D", 3, 10, box, box_start, 1031.15, {0, NO, NO}},
    {"13 Powell singular", 4, 4, powell_singular, powell_singular_start, 215, {0, NO, NO}},
    {"14 Wood", 4, 6, wood, wood_start, 19192, {0, NO, NO}},
    {"15 Kowalik-Osborne",
     4,
     11,
     kowalik_osborne,
     kowalik_osborne_start,
     5.31317e-3,
     {3.07506e-4, 1.02734e-3, NO}},
    {"16 Brown-Dennis", 4, 20, brown_dennis, brown_dennis_start, 7.92669e6, {85822.2, NO, NO}},
    {"17 Osborne 1", 5, 33, osborne1, osborne1_start, 0.879026, {5.46489e-5, NO, NO}},
    {"18 Biggs EXP6", 6, 13, biggs, biggs_start, 0.77907, {0, 5.65565e-3, NO}},
    {"19 Osborne 2", 11, 65, osborne2, osborne2_start, 2.09342, {4.01377e-2, NO, NO}},
    {"20 Watson 6", 6, 31, watson, zeros, 30, {2.28767005355e-3, NO, NO}},
    {"20 Watson 9", 9, 31, watson, zeros, 30, {1.3997601381e-6, NO, NO}},
    {"20 Watson 12", 12, 31, watson, zeros, 30, {4.72238110589e-10, NO, NO}},
    {"21 Extended Rosenbrock", 10, 10, extended_rosenbrock, extended_rosenbrock_start, 121, {0, NO, NO}},
    {"22 Extended Powell singular", 12, 12, powell_singular, powell_singular_start, 645, {0, NO, NO}},
    {"23 Penalty I, 4", 4, 5, penalty1, counted, 885.063, {2.24998e-5, NO, NO}},
    {"23 Penalty I, 10", 10, 11, penalty1, counted, 148033, {7.08765e-5, NO, NO}},
    {"24 Penalty II, 4", 4, 8, penalty2, halves, 2.34001, {9.37629e-6, NO, NO}},
    {"24 Penalty II, 10", 10, 20, penalty2, halves, 162.653, {2.93661e-4, NO, NO}},
    {"25 Variably dimensioned", 10, 12, variably_dimensioned, falling, 2.19855e6, {0, NO, NO}},
    {"26 Trigonometric", 10, 10, trigonometric, shares, 7.07576e-3, {0, 2.79506e-5, NO}},
    {"27 Brown almost-linear", 10, 10, brown_almost_linear, halves, 273.248, {0, 1, NO}},
    {"28 Discrete boundary value", 10, 10, discrete_boundary, parabola, 7.88519e-4, {0, NO, NO}},
    {"29 Discrete integral", 10, 10, discrete_integral, parabola, 6.34168e-2, {0, NO, NO}},
    {"30 Broyden tridiagonal", 10, 10, broyden_tridiagonal, minus_ones, 21, {0, NO, NO}},
    {"31 Broyden banded", 10, 10, broyden_banded, minus_ones, 360, {0, NO, NO}},
    {"32 Linear, full rank", 10, 20, linear_full_rank, ones, 50, {10, NO, NO}},
    {"33 Linear, rank 1", 10, 20, linear_rank1, ones, 8.65867e6, {190.0 / 41, NO, NO}},
    {"34 Linear, rank 1, zeros", 10, 20, linear_rank1_zero, ones, 4.068e6, {454.0 / 74, NO, NO}},
    {"35 Chebyquad 7", 7, 7, chebyquad, spread, 0.0338, {0, NO, NO}},
    {"35 Chebyquad 8", 8, 8, chebyquad, spread, 0.0386, {3.51687e-3, NO, NO}},
    {"35 Chebyquad 9", 9, 9, chebyquad, spread, 0.0289, {0, NO, NO}},
    {"35 Chebyquad 10", 10, 10, chebyquad, spread, 0.0338, {6.50395e-3, 4.77271e-3, NO}},
};
#undef NO
#undef START

/* Within 1e-4 of a known minimum; below 1e-8 where that is 0. */
static bool mgh_solved(const mgh_problem *p, double loss)
{
    for (int i = 0; i < MGH_MINIMA; i++) {
        double least = p->minimum[i];
        if (least < 0 || isnan(loss)) continue;
        if (least == 0 ? loss < 1e-8 : loss <= least * (1 + 1e-4) && loss >= least * (1 - 1e-4)) return true;
    }
    return false;
}

#endif
