/* Powers with one exponent: whole and half ones are products and roots.  Against powl, and exactly so where IEEE 754 says what
 * a zero, an infinity or a negative number gives. */
#include "support/own_context.h"

#include <math.h>

enum { MANY = 4096 };

static const double exponents[] = {0,    1,    2,    3,    4,     5,        7,         8,    12,   13,
                                   31,   32,   33,   -1,   -2,    -3,       -4,        -7,   -16,  -32,
                                   0.5,  1.5,  2.5,  7.5,  -0.5,  -1.5,     -2.5,      -6.5, 0.25, 0.3,
                                   -0.7, 3.25, 1e-9, 1e10, 1e300, INFINITY, -INFINITY, NAN,  65,   -65};
static const double specials[] = {0,       -0.0,     1,      -1,     INFINITY, -INFINITY, NAN,
                                  5e-324,  -5e-324,  1e-310, 2,      -2,       0.5,       -0.5,
                                  1.7e308, -1.7e308, 3e-39,  1e-160, 1e154,    -1e154,    1e38,
                                  -1e38,   1e-38,    3,      -3,     0.99,     1.01,      -1e103};

static bool same_special(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
}

static void check(gd_dtype dtype, double exponent, const double *x, int64_t n, double most)
{
    gd_scope_begin(ctx);
    gd_tensor *t = gd_from_f64(ctx, dtype, 1, &n, x), *y = gd_pow_scalar(t, exponent);
    static double in[MANY], out[MANY];
    assert_int_equal(gd_read_f64(t, in, n), GD_OK);
    assert_int_equal(gd_read_f64(y, out, n), GD_OK);
    for (int64_t i = 0; i < n; i++) {
        double want = dtype == GD_F32 ? (double)(float)pow(in[i], exponent) : pow(in[i], exponent);
        double least = dtype == GD_F32 ? 1.1754943508222875e-38 : 2.2250738585072014e-308;
        double unit = dtype == GD_F32 ? 1.1920928955078125e-07 : 2.220446049250313e-16;
        bool fine = same_special(out[i], want) ||
                    (isfinite(want) && want != 0 &&
                     fabs(out[i] - want) <= most * unit * fmax(fabs(want), least));
        if (!fine)
            print_error("%s: pow(%.17g, %g) is %.17g, not %.17g\n", gd_dtype_name(dtype), in[i], exponent,
                        out[i], want);
        assert_true(fine);
    }
    gd_scope_end(ctx);
}

static void special_values_are_those_of_pow(void **state)
{
    (void)state;
    for (int e = 0; e < COUNT_OF(exponents); e++)
        for (int d = 0; d < 2; d++)
            check(d ? GD_F64 : GD_F32, exponents[e], specials, COUNT_OF(specials), 1.01);
}

static void powers_are_within_an_ulp(void **state)
{
    (void)state;
    static double x[MANY];
    uint64_t seed = 3;
    for (int e = 0; e < COUNT_OF(exponents); e++) {
        for (int i = 0; i < MANY; i++) {
            double v = exp2((double)random_below(&seed, 2000000) / 1e5 - 10);
            x[i] = i % 3 ? v : -v;
        }
        for (int d = 0; d < 2; d++) check(d ? GD_F64 : GD_F32, exponents[e], x, MANY - 7, 1.01);
    }
}

/* e x^(e - 1), with what IEEE 754 says of it at 0 and for negative x. */
static void gradients_are_powers(void **state)
{
    (void)state;
    static const double x[] = {2, -2, 0, -0.0, 0.25, INFINITY, -INFINITY};
    int64_t n = COUNT_OF(x);
    for (int e = 0; e < COUNT_OF(exponents); e++) {
        double exponent = exponents[e], got[COUNT_OF(x)];
        if (!(fabs(exponent) < 40)) continue;
        gd_scope_begin(ctx);
        gd_tensor *t = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, &n, x)), *g;
        gd_tensor *y = gd_pow_scalar(t, exponent);
        assert_int_equal(gd_grad(y, gd_ones_like(y), &t, 1, 0, &g), GD_OK);
        assert_int_equal(gd_read_f64(g, got, n), GD_OK);
        for (int i = 0; i < n; i++) {
            double want = exponent == 0 ? 0 : exponent * pow(x[i], exponent - 1);
            bool fine = isnan(want) ? isnan(got[i])
                                    : got[i] == want || fabs(got[i] - want) <= 1e-14 * fabs(want);
            if (!fine) print_error("d pow(%g, %g) is %g, not %g\n", x[i], exponent, got[i], want);
            assert_true(fine);
        }
        gd_scope_end(ctx);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(special_values_are_those_of_pow),
        TEST(powers_are_within_an_ulp),
        TEST(gradients_are_powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
