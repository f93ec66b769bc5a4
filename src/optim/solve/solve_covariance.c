/* The covariance of parameters from residuals made of them. */
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "optim/solve/solve_fit.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

#include <math.h>

static gd_status check_residuals(gd_ctx *ctx, gd_tensor *residuals)
{
    if (!gd_dtype_is_float(residuals->dtype))
        return gd_fail(ctx, GD_DTYPE, "covariance: residuals of dtype %s, need a floating one",
                       gd_dtype_name(residuals->dtype));
    if (!gd_requires_grad(residuals))
        return gd_fail(ctx, GD_ARGUMENT,
                       "covariance: the residuals have no history: nothing depends on the parameters");
    return residuals->numel ? GD_OK : gd_fail(ctx, GD_SHAPE, "covariance: no residuals");
}

/* The model of all residuals over the elements that are not fixed. */
static gd_status model_of(gd_lm_model *a, gd_tensor *residuals, gd_tensor *const *params, int count,
                          const bool *fixed, double *rss)
{
    gd_ctx *ctx = residuals->head.ctx;
    gd_tensor *j = NULL, *r = NULL;
    bool finite = false;
    gd_status status = gd__linear_from(residuals, params, count, true, &j, &r);
    if (!status) status = gd__lm_begin(a, ctx, gd_size(j, 0), gd_size(j, 1));
    if (!status) status = gd__lm_set(a, j, r, false, &finite);
    if (!status && !finite)
        status = gd_fail(ctx, GD_VALUE, "covariance: the residuals or their derivatives are not finite");
    if (!status) status = gd__lm_restrict(a, fixed, NULL);
    gd_tensor *sum = status ? NULL : gd_dot(r, r);
    *rss = sum ? gd_item(sum) : NAN;
    gd_release(sum);
    gd__release(j);
    gd__release(r);
    return status ? status : gd_error(ctx);
}

gd_tensor *gd_covariance(gd_tensor *residuals, gd_tensor *const *params, int count, const bool *fixed,
                         double sigma)
{
    gd_lm_model a = {0};
    double rss = NAN;
    if (!residuals) return NULL;
    gd_ctx *ctx = residuals->head.ctx;
    if (gd_error(ctx) || gd__lsq_check_params(ctx, "covariance", params, count) ||
        check_residuals(ctx, residuals))
        return NULL;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *flat = gd__reshape(gd_drop_names(residuals), 1, &residuals->numel), *out = NULL;
    gd_enable_grad_end(ctx, previous);
    gd_no_grad_begin(ctx);
    if (flat && !model_of(&a, flat, params, count, fixed, &rss)) {
        double dof = (double)(a.m - a.free),
               variance = isnan(sigma) ? dof > 0 ? rss / dof : NAN : sigma * sigma;
        out = gd__lm_covariance(&a, gd__lm_rank(&a, GD_FLAT_SINGULAR), variance);
    }
    gd__lm_end(&a);
    gd_no_grad_end(ctx);
    return gd__scope_leave(ctx, out);
}
