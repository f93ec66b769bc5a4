/* What the tests of modules share: checks that read well. */
#ifndef GD_TESTS_MODULE_SUPPORT_H
#define GD_TESTS_MODULE_SUPPORT_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradus/gradus.h"
#include "gradus/layers.h"
#include "gradus/module.h"
#include "support/support.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

#define ok(expression) assert_string_equal(gd_status_name(expression), "OK")

static inline void expect_values_at(const gd_tensor *t, int64_t count, const double *values, double tolerance,
                                    const char *file, int line)
{
    bool same = t && gd_numel(t) == count;
    double *got = calloc((size_t)(same && count ? count : 1), sizeof *got);
    if (same) same = gd_read_f64(t, got, count) == GD_OK;
    for (int64_t i = 0; i < count && same; i++) {
        same = fabs(got[i] - values[i]) <= tolerance * (1 + fabs(values[i]));
        if (!same) print_error("element %lld is %.17g, expected %.17g\n", (long long)i, got[i], values[i]);
    }
    free(got);
    if (same) return;
    if (!t)
        print_error("the tensor is NULL\n");
    else
        print_error("%lld elements, expected %lld\n", (long long)gd_numel(t), (long long)count);
    _fail(file, line);
}

#define expect_values(t, ...)                                                        \
    expect_values_at(t, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
                     (double[]){__VA_ARGS__}, 0, __FILE__, __LINE__)
#define expect_near(t, tolerance, ...)                                               \
    expect_values_at(t, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
                     (double[]){__VA_ARGS__}, tolerance, __FILE__, __LINE__)

/* A class below Module. */
static inline gd_class *module_class(gd_ctx *ctx, const char *name)
{
    gd_class *base = gd_class_module(ctx);
    return gd_class_new(ctx, name, &base, 1);
}

#endif
