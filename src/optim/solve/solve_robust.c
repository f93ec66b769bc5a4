/* Fits whose outliers pull less: sum rho(r / s) in place of the sum of squares (Huber 1964; Holland & Welsch 1977 for the
 * constants).
 *
 * The least-squares solver does the work, on transformed residuals w with w^2 / 2 = s^2 rho(r / s): their sum of squares is 2 s^2 times
 * the loss, so bounds, saddles and stopping rules hold as they are.  Each is r times a smooth root, or continues with r's sign.
 *
 * Without a given scale, solve_scale.c finds it by Huber fits.  The loss of Tukey has several minima: it starts where Huber's ends.
 * All fits of a call share one budget (solve_budget.h).
 *
 * Covariance: A^-1 B A^-1 m / (m - n) s^2, with A = sum psi' J J' + s psi r'' and B = sum psi^2 J J', psi = rho' at r / s. */
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "optim/solve/solve_robust.h"
#include "optim/vector/jacobian.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

#include <math.h>

#define SMALL       1e-4 /* squares below which a series stands for log(1 + v) / v */
#define FEW         5    /* steps between two scales */
#define EXACT_LIMIT 256  /* parameters up to which A has its second derivatives */

static const struct {
    const char *name;
    double constant;
} losses[] = {
#define ROW(id, name, constant) {name, constant},
    GD_LSQ_LOSS_LIST(ROW)
#undef ROW
};

const char *gd_lsq_loss_name(gd_lsq_loss loss)
{
    return (unsigned)loss < GD_LSQ_LOSS_COUNT ? losses[loss].name : "";
}

double gd_lsq_loss_weight(gd_lsq_loss loss, double z)
{
    if ((unsigned)loss >= GD_LSQ_LOSS_COUNT) return NAN;
    double k = losses[loss].constant, u = z / k, v = u * u;
    switch (loss) {
    case GD_LSQ_HUBER: return fabs(z) <= k ? 1 : k / fabs(z);
    case GD_LSQ_SOFT_L1: return 1 / sqrt(1 + v);
    case GD_LSQ_CAUCHY: return 1 / (1 + v);
    case GD_LSQ_TUKEY: return v < 1 ? (1 - v) * (1 - v) : 0;
    default: return 1;
    }
}

double gd__robust_loss(gd_lsq_loss loss, double z)
{
    double k = losses[loss].constant, v = z / k * (z / k);
    switch (loss) {
    case GD_LSQ_HUBER: return fabs(z) <= k ? 0.5 * z * z : k * (fabs(z) - 0.5 * k);
    case GD_LSQ_SOFT_L1: return k * k * (sqrt(1 + v) - 1);
    case GD_LSQ_CAUCHY: return 0.5 * k * k * log1p(v);
    case GD_LSQ_TUKEY: return v < 1 ? k * k / 6 * (1 - (1 - v) * (1 - v) * (1 - v)) : k * k / 6;
    default: return 0.5 * z * z;
    }
}

double gd__robust_bend(gd_lsq_loss loss, double z)
{
    double k = losses[loss].constant, v = z / k * (z / k);
    switch (loss) {
    case GD_LSQ_HUBER: return fabs(z) <= k;
    case GD_LSQ_SOFT_L1: return 1 / ((1 + v) * sqrt(1 + v));
    case GD_LSQ_CAUCHY: return (1 - v) / ((1 + v) * (1 + v));
    case GD_LSQ_TUKEY: return v < 1 ? (1 - v) * (1 - 5 * v) : 0;
    default: return 1;
    }
}

/* ---- transformed residuals; k is the constant times the scale ---- */

static gd_tensor *bent_huber(gd_tensor *r, double k)
{
    gd_tensor *size = gd_abs(r), *limit = gd_mul_scalar(gd_ones_like(r), k);
    gd_tensor *root = gd_sqrt(gd_add_scalar(gd_mul_scalar(gd_maximum(size, limit), 2 * k), -k * k));
    return gd_where(gd_le(size, limit), r, gd_mul(gd_sign(r), root));
}

static gd_tensor *bent_soft_l1(gd_tensor *r, double k)
{
    gd_tensor *root = gd_sqrt(gd_add_scalar(gd_square(gd_mul_scalar(r, 1 / k)), 1));
    return gd_mul(r, gd_sqrt(gd_mul_scalar(gd_reciprocal(gd_add_scalar(root, 1)), 2)));
}

/* r sqrt(log(1 + v) / v), v = (r / k)^2; near 0 by the series of the quotient, which is 0 / 0 there. */
static gd_tensor *bent_cauchy(gd_tensor *r, double k)
{
    gd_tensor *v = gd_square(gd_mul_scalar(r, 1 / k)), *one = gd_ones_like(r);
    gd_tensor *small = gd_lt(v, gd_mul_scalar(one, SMALL)), *safe = gd_where(small, one, v);
    gd_tensor *series = gd_add_scalar(gd_mul_scalar(v, -0.25), 1.0 / 3);
    series = gd_add_scalar(gd_mul(v, gd_add_scalar(gd_mul(v, series), -0.5)), 1);
    gd_tensor *quotient = gd_div(gd_log1p(safe), safe);
    return gd_mul(r, gd_sqrt(gd_where(small, series, quotient)));
}

/* c sqrt(1 - v + v^2 / 3), v = (c / k)^2, c = r cut at -+k: beyond it is constant. */
static gd_tensor *bent_tukey(gd_tensor *r, double k)
{
    gd_tensor *c = gd_clamp(r, -k, k), *v = gd_square(gd_mul_scalar(c, 1 / k));
    gd_tensor *sum = gd_add_scalar(gd_mul(v, gd_add_scalar(gd_mul_scalar(v, 1.0 / 3), -1)), 1);
    return gd_mul(c, gd_sqrt(sum));
}

gd_tensor *gd__bent(gd_lsq_loss loss, gd_tensor *r, double scale)
{
    double k = losses[loss].constant * scale;
    switch (loss) {
    case GD_LSQ_HUBER: return bent_huber(r, k);
    case GD_LSQ_SOFT_L1: return bent_soft_l1(r, k);
    case GD_LSQ_CAUCHY: return bent_cauchy(r, k);
    case GD_LSQ_TUKEY: return bent_tukey(r, k);
    default: return r;
    }
}

/* ---- fits ---- */

static gd_tensor *bent_residuals(void *user)
{
    gd_robust *q = user;
    gd_tensor *r = q->fn(q->user);
    return r ? gd__bent(q->loss, r, q->scale) : NULL;
}

/* The rules of a fit that only evaluates its start. */
static void take_no_step(gd_lsq_options *o)
{
    o->solve.max_evals = 1;
    o->solve.max_steps = 0;
    o->solve.max_seconds = 0;
    o->solve.callback = NULL;
    o->leave_saddles = false;
}

/* If no step could be taken, the slope at the start says nothing about the end: a loss may be flat there. */
static gd_status say_spent(const gd_robust *q, gd_lsq_result *result)
{
    result->solve.reason = q->budget.reason;
    result->solve.converged = false;
    result->says[0] = 0;
    if (!result->undetermined) return GD_OK;
    return gd_fill(result->undetermined, 0);
}

gd_status gd__robust_step(gd_robust *q, gd_lsq_loss loss, gd_robust_end end, gd_lsq_result *result)
{
    gd_lsq_options o = *q->options;
    o.rows = NULL; /* scales need all residuals at once */
    o.loss = GD_LSQ_SQUARES;
    o.covariance = false;
    if (end != GD_ROBUST_LAST) o.polish = false;
    if (!gd__budget_left(&q->budget, &o.solve)) take_no_step(&o);
    if (end == GD_ROBUST_FEW) {
        o.leave_saddles = false; /* the end of a few steps is no minimum, so its curvature is not checked */
        if (!o.solve.max_steps || o.solve.max_steps > FEW) o.solve.max_steps = FEW;
    }
    bool looks = q->budget.spent;
    q->loss = loss;
    gd_status status = gd_least_squares(q->params, q->count, bent_residuals, q, &o, result);
    gd__budget_add(&q->budget, &result->solve);
    if (looks && !status && result->solve.reason != GD_STOP_NOT_FINITE) status = say_spent(q, result);
    result->solve.steps = q->budget.steps;
    result->solve.evals = q->budget.evals;
    return status;
}

bool gd__robust_usable(const gd_lsq_result *result)
{
    gd_stop reason = result->solve.reason;
    return gd_stop_converged(reason) || reason == GD_STOP_STUCK || reason == GD_STOP_MAX_STEPS ||
           reason == GD_STOP_UNDETERMINED;
}

gd_status gd__robust_residuals(gd_robust *q)
{
    gd_scope_begin(q->ctx);
    gd_no_grad_begin(q->ctx);
    gd_tensor *r = q->fn(q->user);
    q->budget.evals++;
    gd_status status = r ? GD_OK : gd__lsq_no_residuals(q->ctx);
    if (!status && !q->size) {
        q->m = gd_numel(r);
        q->size = gd__alloc_array(q->ctx, (size_t)q->m, sizeof *q->size);
        if (!q->size) status = GD_NOMEM;
    }
    if (!status) status = gd_read_f64(r, q->size, q->m);
    gd_no_grad_end(q->ctx);
    gd_scope_end(q->ctx);
    return status;
}

/* ---- covariance ---- */

/* J' diag(weight) J. */
static gd_tensor *gram(gd_tensor *j, const double *weight)
{
    int64_t m = gd_size(j, 0);
    gd_tensor *w = gd_from_f64(gd_tensor_ctx(j), GD_F64, 1, &m, weight);
    return gd_matmul(gd_transpose(j, 0, 1), gd_mul(j, gd_unsqueeze(w, 1, NULL)));
}

/* s^2 times the Hessian of the loss; NULL without an error if there are too many parameters. */
static gd_tensor *hessian(gd_robust *q, gd_tensor *r, int64_t n)
{
    if (n > EXACT_LIMIT) return NULL;
    gd_tensor **grads = gd__calloc(q->ctx, (size_t)q->count * sizeof *grads), *h = NULL;
    gd_tensor *w = grads ? gd__bent(q->loss, r, q->scale) : NULL;
    gd_tensor *half = gd_mul_scalar(gd_sum(gd_square(w), NULL, false), 0.5);
    if (half && gd_grad(half, NULL, q->params, q->count, GD_CREATE_GRAPH, grads) == GD_OK)
        h = gd__derivative_rows(grads, q->count, q->params, q->count);
    gd__free(q->ctx, grads, (size_t)q->count * sizeof *grads);
    return h ? gd_to_device(gd_cast(gd_detach(h), GD_F64), gd_device_get(q->ctx, "cpu")) : NULL;
}

/* a over the free elements, scaled, with the identity in place of the others. */
static gd_tensor *over_free(gd_tensor *a, gd_tensor *scale, gd_tensor *is_free)
{
    gd_tensor *both = gd_mul(gd_unsqueeze(is_free, 1, NULL), is_free);
    gd_tensor *eye = gd_eye(gd_tensor_ctx(a), GD_F64, gd_size(a, 0), gd_size(a, 0));
    a = gd_mul(gd_div(gd_div(a, scale), gd_unsqueeze(scale, 1, NULL)), both);
    return gd_add(gd_mul_scalar(gd_add(a, gd_transpose(a, 0, 1)), 0.5),
                  gd_mul(eye, gd_add_scalar(gd_neg(is_free), 1)));
}

/* The first of the candidates that is positive definite; NULL: none, or an error. */
static gd_tensor *definite(gd_tensor *const *candidate, int count, gd_tensor *scale, gd_tensor *is_free)
{
    for (int i = 0; i < count; i++) {
        if (!candidate[i]) continue;
        gd_ctx *ctx = gd_tensor_ctx(candidate[i]);
        gd_tensor *a = over_free(candidate[i], scale, is_free);
        if (!a || gd_cholesky(a)) return a;
        if (gd_error(ctx) != GD_SINGULAR) return NULL;
        gd_clear_error(ctx);
    }
    return NULL;
}

/* A^-1 B A^-1 factor; A is the Hessian, with the mean of psi' where it is not definite, at last without second derivatives. */
static gd_tensor *sandwich(gd_robust *q, gd_tensor *r, gd_tensor *j, double *psi, const gd_lsq_result *result)
{
    int64_t m = gd_size(j, 0), n = gd_size(j, 1);
    double mean = 0,
           factor = (double)(m - q->options->weightless) / (double)result->dof * q->scale * q->scale;
    double *slope = psi + m;
    for (int64_t i = 0; i < m; i++) {
        double z = psi[i] / q->scale;
        psi[i] = pow(z * gd_lsq_loss_weight(q->loss, z), 2);
        mean += (slope[i] = gd__robust_bend(q->loss, z)) / (double)(m - q->options->weightless);
    }
    mean -= (double)q->options->weightless / (double)(m - q->options->weightless); /* psi'(0) is 1 */
    gd_tensor *is_free = gd_add_scalar(gd_neg(gd_square(gd_cast(result->active, GD_F64))), 1);
    gd_tensor *h = hessian(q, r, n);
    gd_no_grad_begin(q->ctx);
    gd_tensor *plain = gram(j, slope), *flat = gd_mul_scalar(gd_matmul(gd_transpose(j, 0, 1), j), mean);
    gd_tensor *scale = gd_sqrt(gd_sum(gd_square(j), "0", false));
    scale = gd_where(gd_gt(scale, gd_zeros_like(scale)), scale, gd_ones_like(scale));
    gd_tensor *const tried[] = {h ? h : plain, h ? gd_add(h, gd_sub(flat, plain)) : NULL, flat};
    gd_tensor *a = gd_error(q->ctx) ? NULL : definite(tried, mean > 0 ? 3 : 2, scale, is_free), *out = NULL;
    if (a) {
        gd_tensor *b = over_free(gram(j, psi), scale, is_free);
        out = gd_solve(a, gd_transpose(gd_solve(a, b), 0, 1));
        out = gd_div(gd_div(gd_mul_scalar(out, factor), scale), gd_unsqueeze(scale, 1, NULL));
        out = gd_mul(out, gd_mul(gd_unsqueeze(is_free, 1, NULL), is_free));
    } else if (!gd_error(q->ctx))
        out = gd_full(q->ctx, GD_F64, 2, (int64_t[]){n, n}, INFINITY);
    gd_no_grad_end(q->ctx);
    return out;
}

/* Covariance and errors at the end. */
static gd_status spread(gd_robust *q, gd_lsq_result *result)
{
    gd_ctx *ctx = q->ctx;
    gd_tensor *j = NULL, *numbers = NULL, *covariance = NULL;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *r = q->fn(q->user);
    gd_tensor *flat = r ? gd__reshape(gd_drop_names(r), 1, &r->numel) : NULL;
    gd_status status = flat ? gd__linear_from(flat, q->params, q->count, true, &j, &numbers)
                            : gd__lsq_no_residuals(ctx);
    double *psi = status ? NULL : gd__alloc_array(ctx, (size_t)q->m, 2 * sizeof *psi);
    if (!status) status = psi ? gd_read_f64(numbers, psi, q->m) : GD_NOMEM;
    if (!status) covariance = sandwich(q, flat, j, psi, result);
    gd_enable_grad_end(ctx, previous);
    gd__release(j);
    gd__release(numbers);
    gd__free(ctx, psi, (size_t)q->m * 2 * sizeof *psi);
    bool flat_out = result->solve.reason == GD_STOP_UNDETERMINED;
    if (covariance && flat_out)
        covariance = gd_full(ctx, GD_F64, 2, (int64_t[]){gd_size(covariance, 0), gd_size(covariance, 0)},
                             INFINITY);
    if (covariance) {
        gd_tensor *held = gd_ne(result->active, gd_zeros_like(result->active)),
                  *errors = gd_sqrt(gd_diagonal(covariance));
        errors = gd_where(held, gd_mul_scalar(gd_ones_like(errors), NAN), errors);
        result->covariance = gd_keep(gd_detach(covariance));
        result->standard_errors = gd_keep(gd_detach(errors));
    }
    gd_scope_end(ctx);
    return status ? status : gd_error(ctx);
}

/* ---- the whole ---- */

static gd_status fit(gd_robust *q, gd_lsq_result *result)
{
    gd_lsq_loss loss = q->options->loss;
    bool given = q->options->loss_scale > 0, first = !given || loss == GD_LSQ_TUKEY;
    gd_status status = GD_OK;
    q->scale = given ? q->options->loss_scale : 0;
    if (!given)
        status = gd__robust_find_scale(q, result);
    else if (first)
        status = gd__robust_step(q, GD_LSQ_HUBER, GD_ROBUST_CONVERGED, result);
    if (status || !(!first || q->budget.spent || gd__robust_usable(result))) return status;
    if (!(q->scale > 0)) return GD_OK; /* the budget was spent before the first one */
    gd_lsq_result_clear(result);
    status = gd__robust_step(q, loss, GD_ROBUST_LAST, result);
    if (status || result->solve.reason == GD_STOP_NOT_FINITE) return status;
    result->scale = result->sigma = q->scale;
    if ((status = gd__robust_residuals(q))) return status;
    result->rss = 0;
    for (int64_t i = 0; i < q->m; i++) result->rss += q->size[i] * q->size[i];
    return q->options->covariance && result->active ? spread(q, result) : GD_OK;
}

gd_status gd__robust_fit(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user), void *user,
                         const gd_lsq_options *options, gd_lsq_result *result)
{
    gd_ctx *ctx = params[0]->head.ctx;
    if ((unsigned)options->loss >= GD_LSQ_LOSS_COUNT || !(options->loss_scale >= 0) ||
        isinf(options->loss_scale))
        return gd_fail(ctx, GD_ARGUMENT, "least squares: no such loss, or a scale that is none");
    gd_status status = gd__solve_check(ctx, "least squares", &options->solve);
    if (status) return status;
    gd_robust q = {.ctx = ctx,
                   .params = params,
                   .count = count,
                   .fn = residuals,
                   .user = user,
                   .options = options,
                   .budget = gd__budget_begin(&options->solve, false)};
    status = fit(&q, result);
    result->solve.seconds = gd__seconds() - q.budget.begun;
    result->solve.evals = q.budget.evals;
    gd__free(ctx, q.size, (size_t)q.m * sizeof *q.size);
    if (status) gd_lsq_result_clear(result);
    return status;
}
