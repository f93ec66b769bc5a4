/* The covariance of parameters from residuals that depend on them. */
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

/* ---- at the end of a fit ---- */

static gd_tensor *flags(gd_lsq *p, int (*flag)(const gd_lsq *p, int64_t i))
{
    for (int64_t i = 0; i < p->n; i++) p->s[i] = flag(p, i);
    return gd_from_f64(p->ctx, GD_I32, 1, &p->n, p->s);
}

static int is_flat(const gd_lsq *p, int64_t i) { return gd__saddle_flat(p, i); }

/* C B C with C = (J^T J)^-1 and B of squared residuals, each by its leverage; C where it is infinite. */
static gd_tensor *robust_to_variances(gd_lsq *p, gd_tensor *c)
{
    if (!c || !isfinite(gd_item(gd_sum(c, NULL, false)))) return c;
    gd_tensor *r = gd__numbers(p->r), *j = p->j;
    gd_tensor *kept = gd_add_scalar(gd_neg(gd_sum(gd_mul(gd_matmul(j, c), j), "1", false)), 1);
    gd_tensor *one = gd_ones_like(kept), *fine = gd_gt(kept, gd_mul_scalar(one, 1e-10));
    gd_tensor *w = gd_square(gd_div(r, gd_where(fine, kept, one)));
    w = gd_unsqueeze(gd_where(fine, w, gd_zeros_like(one)), 1, NULL);
    gd_tensor *b = gd_matmul(gd_transpose(j, 0, 1), gd_mul(j, w));
    gd_release(r);
    return gd_matmul(gd_matmul(c, b), c);
}

static gd_tensor *hc3(gd_lsq *p, int64_t rank)
{
    if (p->blocks)
        return gd__refuse(p->ctx, GD_NOT_IMPLEMENTED,
                          "least squares: hc3 needs all residuals at once, not rows");
    gd_scope_begin(p->ctx);
    gd_no_grad_begin(p->ctx);
    gd_tensor *c = gd__lm_covariance(&p->model, rank, 1);
    c = robust_to_variances(p, c);
    gd_no_grad_end(p->ctx);
    return gd__scope_leave(p->ctx, c);
}

static gd_status check_chosen(const gd_lsq *p)
{
    const gd_lsq_options *o = p->options;
    for (int64_t i = 0; o->chosen && i < o->chosen_count; i++)
        if (o->chosen[i] < 0 || o->chosen[i] >= p->n)
            return gd_fail(p->ctx, GD_INDEX,
                           "least squares: chosen[%lld] is %lld, there are elements 0 to %lld", (long long)i,
                           (long long)o->chosen[i], (long long)p->n - 1);
    return GD_OK;
}

/* Rows and columns of the chosen elements. */
static gd_status choose_elements(gd_lsq *p, gd_lsq_result *result)
{
    const gd_lsq_options *o = p->options;
    if (!o->chosen) return GD_OK;
    gd_scope_begin(p->ctx);
    gd_tensor *index = gd_from_data(p->ctx, GD_I64, 1, &o->chosen_count, o->chosen);
    gd_tensor *some = gd_index_select(gd_index_select(result->covariance, "0", index), "1", index);
    some = gd__scope_leave(p->ctx, some);
    if (!some) return gd_error(p->ctx);
    gd_release(result->covariance);
    result->covariance = some;
    return GD_OK;
}

/* Over the free parameters; those at an active bound count as known. */
static gd_status covariance(gd_lsq *p, gd_lsq_result *result)
{
    bool flat = p->reason == GD_STOP_UNDETERMINED;
    int64_t rank = flat ? gd__lm_rank(&p->model, GD_FLAT_SINGULAR) : p->model.rank;
    double sigma = p->options->sigma > 0 ? p->options->sigma : result->sigma;
    gd_status bad = check_chosen(p);
    if (bad) return bad;
    result->covariance = p->options->errors == GD_LSQ_HC3 ? hc3(p, rank)
                                                          : gd__lm_covariance(&p->model, rank, sigma * sigma);
    gd_tensor *variances = result->covariance ? gd_diagonal(result->covariance) : NULL;
    gd_status status = variances ? gd_read_f64(variances, p->s, p->n) : gd_error(p->ctx);
    gd_release(variances);
    if (status) return status;
    for (int64_t i = 0; i < p->n; i++) p->s[i] = p->model.fixed[i] ? NAN : sqrt(p->s[i]);
    result->standard_errors = gd_from_f64(p->ctx, GD_F64, 1, &p->n, p->s);
    return result->standard_errors ? choose_elements(p, result) : gd_error(p->ctx);
}

/* Rank and covariance by the linear model at the end. */
gd_status gd__lsq_spread(gd_lsq *p, gd_lsq_result *result)
{
    bool finite = true;
    gd_status status = p->fresh ? GD_OK : gd__lsq_model_from(p, p->r, false, &finite);
    if (!status && finite) status = gd__box_free(p);
    if (status || !finite) return status;
    result->rank = p->model.rank;
    result->free = p->model.free;
    result->dof = p->m - p->options->weightless - result->free;
    result->sigma = result->dof > 0 ? sqrt(p->f / (double)result->dof) : NAN;
    result->active = flags(p, gd__box_active);
    result->undetermined = flags(p, is_flat);
    if (!result->active || !result->undetermined) return gd_error(p->ctx);
    return p->options->covariance ? covariance(p, result) : GD_OK;
}
