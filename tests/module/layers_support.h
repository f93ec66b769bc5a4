/* What the suites of layers share: gradients against central differences. */
#ifndef GD_TESTS_MODULE_LAYERS_SUPPORT_H
#define GD_TESTS_MODULE_LAYERS_SUPPORT_H

#include "module/support.h"

static inline gd_tensor *random_tensor(gd_ctx *ctx, int ndim, const int64_t *shape)
{
    return gd_randn(ctx, GD_F64, ndim, shape);
}

static inline double *values_of(gd_tensor *t)
{
    double *out = calloc((size_t)gd_numel(t) + 1, sizeof *out);
    ok(gd_read_f64(t, out, gd_numel(t)));
    return out;
}

/* sum(sin(y)): every output counts, with different weights. */
static inline gd_tensor *loss_of(gd_module *m, gd_tensor *x)
{
    return gd_sum(gd_sin(gd_module_call(m, x)), NULL, false);
}

static inline double loss_at(gd_module *m, gd_tensor *x)
{
    gd_ctx *ctx = gd_module_ctx(m);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    double value = gd_item(loss_of(m, x));
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return value;
}

/* Compares the gradient of one leaf with central differences. */
static inline void check_leaf(gd_module *m, gd_tensor *x, gd_tensor *leaf, const char *name)
{
    gd_tensor *grad = gd_grad_of(leaf);
    if (!grad) fail_msg("'%s' has no gradient", name);
    double *analytic = values_of(grad), h = 1e-6;
    for (int64_t i = 0; i < gd_numel(leaf); i++) {
        double *data = gd_data_mut(leaf), old = data[i];
        data[i] = old + h;
        double up = loss_at(m, x);
        data = gd_data_mut(leaf);
        data[i] = old - h;
        double down = loss_at(m, x);
        data = gd_data_mut(leaf);
        data[i] = old;
        double numeric = (up - down) / (2 * h);
        if (fabs(numeric - analytic[i]) > 1e-6 * (1 + fabs(numeric)))
            fail_msg("'%s'[%lld]: gradient %.10g, difference %.10g", name, (long long)i, analytic[i],
                     numeric);
    }
    free(analytic);
}

static inline void check_gradients(gd_module *m, gd_tensor *x)
{
    ok(gd_backward(loss_of(m, x), NULL, 0));
    gd_named *all = gd_module_parameters(m, NULL);
    for (int64_t i = 0; i < gd_named_count(all); i++)
        check_leaf(m, x, gd_named_tensor(all, i), gd_named_name(all, i));
    if (gd_requires_grad(x)) check_leaf(m, x, x, "input");
}

static inline void expect_between(gd_tensor *t, double low, double high)
{
    double *v = values_of(t), least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < gd_numel(t); i++) {
        least = fmin(least, v[i]);
        most = fmax(most, v[i]);
    }
    free(v);
    assert_true(least >= low && most < high);
    assert_true(most - least > 0.8 * (high - low)); /* and they fill it */
}

#endif
