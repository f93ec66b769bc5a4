/* Products of matrices that lie in memory in every way views allow, results too, on the CPU and where there is a GPU on it:
 * against plain loops over the same numbers. */
#include "support/support.h"

#include "base/rng.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#include <math.h>

#define MOST 5 /* axes */

typedef struct trial {
    gd_ctx *ctx;
    gd_device *device;
    gd_rng rng;
    gd_dtype dtype;
    int ndim;
    int64_t batch[MOST];
    int64_t multiple; /* sizes are multiples of this; 1: odd ones, too */
} trial;

static int64_t below(trial *t, int64_t n)
{
    uint32_t word[4];
    gd__philox(t->rng.key, t->rng.counter++, word);
    return word[0] % n;
}

/* A view of the given shape: axes in any order in memory, with gaps, backwards, off their beginning or spread, whose matrices
 * are mostly readable in place. */
static gd_tensor *any_view(trial *t, const int64_t *size, bool result)
{
    int n = t->ndim, order[MOST], back[MOST];
    int64_t stored[MOST];
    bool spread[MOST] = {false};
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = 0; i < n - 1; i++) { /* the last axis stays last in half of the cases */
        int end = below(t, 2) ? n : n - 1, j = i + (int)below(t, end > i ? end - i : 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (int i = 0; i < n; i++) {
        spread[i] = !result && order[i] < n - 2 && below(t, 6) == 0;
        stored[i] = spread[i] ? 1 : size[order[i]];
        back[order[i]] = i;
    }
    int64_t wide[MOST] = {0}, step[MOST] = {0}, first[MOST] = {0};
    for (int i = 0; i < n; i++) {
        step[i] = spread[i] || below(t, 8) ? 1 : 2;
        first[i] = spread[i] || below(t, 3) ? 0 : t->multiple;
        wide[i] = first[i] + stored[i] * step[i];
    }
    gd_tensor *x = gd_rand(t->ctx, GD_F64, n, wide);
    x = gd_to_device(gd_cast(gd_add_scalar(x, -0.5), t->dtype), t->device);
    for (int i = 0; i < n && x; i++) x = gd__slice(x, i, first[i], stored[i], step[i]);
    for (int i = 0; i < n && x && !result; i++)
        if (below(t, 12) == 0) {
            char axis[2] = {(char)('0' + i), 0};
            x = gd_flip(x, axis);
        }
    x = gd_permute(x, back);
    return x ? gd_expand(x, n, size) : NULL;
}

/* All elements of a tensor as doubles. */
static double *values(gd_tensor *x)
{
    double *v = malloc((size_t)(gd_numel(x) + 1) * sizeof *v);
    assert_non_null(v);
    assert_int_equal(gd_read(gd_cast(x, GD_F64), v, (size_t)gd_numel(x) * sizeof *v), GD_OK);
    return v;
}

static double allowed(gd_dtype dtype)
{
    return dtype == GD_F64 ? 1e-14 : dtype == GD_F32 ? 2e-6 : dtype == GD_F16 ? 2e-3 : 1.6e-2;
}

static void compare(trial *t, gd_tensor *left, gd_tensor *right, gd_tensor *out)
{
    int n = t->ndim;
    int64_t rows = left->size[n - 2], inner = left->size[n - 1], columns = right->size[n - 1];
    double *a = values(left), *b = values(right), *c = values(out);
    for (int64_t i = 0; i < out->numel; i++) {
        int64_t column = i % columns, row = i / columns % rows, m = i / columns / rows;
        double sum = 0, size = 1;
        for (int64_t k = 0; k < inner; k++) {
            double x = a[(m * rows + row) * inner + k] * b[(m * inner + k) * columns + column];
            sum += x;
            size += fabs(x);
        }
        if (!(fabs(c[i] - sum) <= allowed(t->dtype) * size))
            fail_msg("%s on %s: element %lld of %lld x %lld x %lld is %g, not %g", gd_dtype_name(t->dtype),
                     gd_device_name(t->device), (long long)i, (long long)rows, (long long)inner,
                     (long long)columns, c[i], sum);
    }
    free(a);
    free(b);
    free(c);
}

/* What lies around the result in its storage must stay as it is. */
static gd_tensor *whole_storage(gd_tensor *view)
{
    gd_tensor *all = gd__bare(view);
    assert_non_null(all);
    all->ndim = 1;
    all->data = view->storage->data;
    all->numel = all->size[0] = (int64_t)(view->storage->bytes / gd_dtype_size(view->dtype));
    all->stride[0] = 1;
    return all;
}

static void check_surroundings(gd_tensor *out, const double *before, gd_tensor *all)
{
    double *after = values(all);
    char *written = calloc((size_t)all->numel + 1, 1);
    int64_t start = (out->data - all->data) / (int64_t)gd_dtype_size(out->dtype);
    for (int64_t i = 0; i < out->numel; i++) {
        int64_t at = start, rest = i;
        for (int d = out->ndim - 1; d >= 0; d--) {
            at += rest % out->size[d] * out->stride[d];
            rest /= out->size[d];
        }
        written[at] = 1;
    }
    for (int64_t i = 0; i < all->numel; i++)
        if (!written[i] && after[i] != before[i])
            fail_msg("element %lld beside the result was written", (long long)i);
    free(written);
    free(after);
}

/* The product is right where it was wanted, and nothing beside it has changed. */
static void check_into(trial *t, gd_tensor *a, gd_tensor *b, gd_tensor *c)
{
    gd_tensor *all = whole_storage(c);
    double *before = values(all);
    assert_ptr_equal(gd__product_into(c, a, b), c);
    assert_no_error(t->ctx);
    compare(t, a, b, c);
    check_surroundings(c, before, all);
    free(before);
}

static void one_trial(trial *t)
{
    int64_t left[MOST], right[MOST], result[MOST];
    t->ndim = 2 + (int)below(t, 4);
    t->multiple = below(t, 2) ? 8 : 1;
    int64_t most = t->multiple == 8 ? 4 : 19, none = below(t, 40); /* now and then an axis without elements */
    for (int i = 0; i < t->ndim - 2; i++) left[i] = right[i] = result[i] = none == i ? 0 : 1 + below(t, 4);
    int64_t m = t->multiple * (1 + below(t, most)), n = t->multiple * (1 + below(t, most)),
            k = none == 5 ? 0 : t->multiple * (1 + below(t, most));
    left[t->ndim - 2] = result[t->ndim - 2] = m;
    left[t->ndim - 1] = right[t->ndim - 2] = k;
    right[t->ndim - 1] = result[t->ndim - 1] = n;
    gd_scope_begin(t->ctx);
    gd_tensor *a = any_view(t, left, false), *b = any_view(t, right, false), *c = any_view(t, result, true);
    assert_no_error(t->ctx);
    compare(t, a, b, gd__product(a, b));
    check_into(t, a, b, c);
    gd_scope_end(t->ctx);
}

static void products_agree_with_loops(gd_ctx *ctx, gd_device *device, int trials)
{
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_F16, GD_BF16};
    for (int d = 0; d < COUNT_OF(dtypes); d++) {
        trial t = {.ctx = ctx, .device = device, .dtype = dtypes[d], .rng.key = 11 + (uint64_t)d};
        for (int i = 0; i < trials; i++) one_trial(&t);
    }
}

static void products_of_views_are_right_on_the_cpu(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 2, NULL);
    products_agree_with_loops(ctx, gd_device_get(ctx, "cpu"), 400);
    end_context(ctx, NULL);
}

static void products_of_views_are_right_on_the_gpu(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 2, NULL);
    bool there = gd_gpu_count(ctx) > 0;
    if (there) products_agree_with_loops(ctx, gd_device_get(ctx, "gpu"), 400);
    end_context(ctx, NULL);
    if (!there) skip();
}

/* Large enough to be made of parts where a device does that: within 2^-15 of the sum of products of absolute values, and in the
 * ways that operands may lie. */
static void fast_products_are_near_on(gd_device *device, gd_ctx *ctx)
{
    int64_t shape[3] = {2, 640, 512};
    gd_scope_begin(ctx);
    gd_seed(ctx, 3);
    gd_tensor *x = gd_randn(ctx, GD_F32, 3, shape), *wide = gd_cast(x, GD_F64);
    gd_tensor *on = gd_to_device(x, device), *turned = gd_transpose(on, 1, 2);
    gd_tensor *exact = gd_matmul(wide, gd_transpose(wide, 1, 2)), *size = gd_abs(wide);
    size = gd_matmul(size, gd_transpose(size, 1, 2));
    gd_tensor *other = gd_to_device(gd_mul_scalar(x, 1), device); /* the same numbers elsewhere */
    gd_tensor *made[2] = {gd_matmul_fast(on, turned), gd_matmul_fast(on, gd_transpose(other, 1, 2))};
    for (int k = 0; k < 2; k++) {
        gd_tensor *off = gd_abs(
            gd_sub(gd_cast(gd_to_device(made[k], gd_device_get(ctx, "cpu")), GD_F64), exact));
        assert_no_error(ctx);
        assert_true(gd_item(gd_max(gd_div(off, size), NULL, false)) < 0x1p-15);
    }
    gd_scope_end(ctx);
}

static void fast_products_are_near(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 2, NULL);
    fast_products_are_near_on(gd_device_get(ctx, "cpu"), ctx);
    if (gd_gpu_count(ctx) > 0) fast_products_are_near_on(gd_device_get(ctx, "gpu"), ctx);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_views_are_right_on_the_cpu),
                                       cmocka_unit_test(fast_products_are_near),
                                       cmocka_unit_test(products_of_views_are_right_on_the_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
