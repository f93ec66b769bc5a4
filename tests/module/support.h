/* What the tests of modules share: a context with a counting, failing allocator, and checks that read well. */
#ifndef GD_TESTS_MODULE_SUPPORT_H
#define GD_TESTS_MODULE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradus/gradus.h"
#include "gradus/layers.h"
#include "gradus/module.h"

/* Counts what is allocated; fails the k-th allocation when fail_at is k (0: never). */
typedef struct meter {
    int64_t bytes, blocks;
    int64_t calls, fail_at;
} meter;

static inline void *meter_alloc(void *user, void *old, size_t old_size, size_t new_size)
{
    meter *m = user;
    if (!new_size) {
        if (old) {
            m->bytes -= (int64_t)old_size;
            m->blocks--;
        }
        free(old);
        return NULL;
    }
    if (++m->calls == m->fail_at) return NULL;
    void *block = aligned_alloc(64, (new_size + 63) & ~(size_t)63);
    if (!block) return NULL;
    if (old) {
        memcpy(block, old, old_size < new_size ? old_size : new_size);
        free(old);
        m->bytes -= (int64_t)old_size;
        m->blocks--;
    }
    m->bytes += (int64_t)new_size;
    m->blocks++;
    return block;
}

typedef struct fixture {
    gd_ctx *ctx;
    meter memory;
} fixture;

static inline gd_ctx *metered_ctx(meter *m)
{
    gd_options options = gd_options_default();
    options.allocator = (gd_allocator){meter_alloc, m};
    options.pool = false;
    options.threads = 1;
    options.seed = 42;
    return gd_ctx_new(&options);
}

/* cmocka setup: *state is a gd_ctx.  Nothing may be alive, and no error recorded, when the test ends. */
static inline int begin(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->ctx = metered_ctx(&f->memory);
    *state = f;
    return f->ctx ? 0 : -1;
}

static inline int end(void **state)
{
    fixture *f = *state;
    gd_status status = gd_error(f->ctx);
    if (status) print_error("left over error: %s\n", gd_error_text(f->ctx));
    int64_t live = gd_ctx_live(f->ctx);
    if (live) print_error("%lld objects are still alive\n", (long long)live);
    gd_ctx_free(f->ctx);
    int64_t blocks = f->memory.blocks;
    if (blocks) print_error("%lld blocks are still allocated\n", (long long)blocks);
    free(f);
    return status || live || blocks ? -1 : 0;
}

static inline gd_ctx *context(void **state) { return ((fixture *)*state)->ctx; }

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#define ok(expression) assert_string_equal(gd_status_name(expression), "OK")

/* The error that must be recorded now, with a piece of its text; then it is cleared. */
static inline void expect_error_at(gd_ctx *ctx, gd_status status, const char *text, const char *file,
                                   int line)
{
    gd_status got = gd_error(ctx);
    if (got != status || !strstr(gd_error_text(ctx), text)) {
        print_error("expected %s with \"%s\", got %s: \"%s\"\n", gd_status_name(status), text,
                    gd_status_name(got), gd_error_text(ctx));
        _fail(file, line);
    }
    gd_clear_error(ctx);
}

#define expect_error(ctx, status, text) expect_error_at(ctx, status, text, __FILE__, __LINE__)

static inline gd_tensor *vector(gd_ctx *ctx, int64_t count, const double *values)
{
    return gd_from_f64(ctx, GD_F64, 1, &count, values);
}

#define VECTOR(ctx, ...) \
    vector(ctx, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

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
