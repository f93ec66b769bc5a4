/* Nonlinear least squares: Levenberg-Marquardt as a trust region (More 1978) with geodesic acceleration (Transtrum &
 * Sethna 2012) and Newton steps at the end.
 *
 * A step s of the model r + J s inside |D s| <= radius is bent by a second-order term along it, a = -(J^T J + lambda D^2)^-1
 * J^T r''(s, s) / 2, where that term is small beside s: follows curved valleys that plain steps cross in many small ones.
 * All derivatives come from the graph of one evaluation of the residuals, so an evaluation is one call of the user's
 * function, whatever is derived from it.  Rejected trial points cost one each. */
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "optim/jacobian.h"
#include "optim/solve.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define BENDING      0.1  /* largest acceleration by velocity */
#define RATIO_TAKEN  1e-4 /* of actual to predicted decrease */
#define ATTEMPTS     60
#define POLISHES     40
#define NEWTON_LIMIT 256 /* parameters up to which the last steps use the exact Hessian */

typedef struct fit {
    gd_ctx *ctx;
    gd_tensor *const *params;
    int count;
    gd_tensor *(*fn)(void *user);
    void *user;
    const gd_fit_options *options;
    int64_t m, n, steps, evals;
    double eps, start;             /* precision of the parameters; clock at the start */
    gd_tensor *r;                  /* residuals here, with history; owned */
    double f;                      /* their sum of squares */
    gd_tensor *j;                  /* Jacobian here; owned */
    uint32_t *version;             /* of the parameters' storages when r was made */
    double *x, *trial, *s, *a, *d; /* here, a trial point, scaled step, acceleration, step; [n] */
    gd_lm_model model;
    double radius, lambda;
    gd_stop reason;
    bool stopped, fresh; /* fresh: the model is that of the point here */
} fit;

/* ---- parameters as numbers ---- */

static gd_status read_params(fit *p, double *x)
{
    gd_status status = GD_OK;
    for (int i = 0; i < p->count && !status; x += p->params[i++]->numel)
        status = gd_read_f64(p->params[i], x, p->params[i]->numel);
    return status;
}

static gd_status write_params(fit *p, const double *x)
{
    gd_status status = GD_OK;
    for (int i = 0; i < p->count && !status; x += p->params[i++]->numel)
        status = gd_write_f64(p->params[i], x, p->params[i]->numel);
    return status;
}

/* Back to where r was made, bit for bit; its graph may then be used again. */
static gd_status go_back(fit *p)
{
    gd_status status = write_params(p, p->x);
    for (int i = 0; i < p->count && !status; i++) p->params[i]->storage->version = p->version[i];
    return status;
}

static void remember_versions(fit *p)
{
    for (int i = 0; i < p->count; i++) p->version[i] = p->params[i]->storage->version;
}

/* ---- evaluating ---- */

/* Residuals with history where the parameters are; owned.  *f is NAN where one is not finite. */
static gd_status evaluate(fit *p, gd_tensor **out, double *f)
{
    gd_ctx *ctx = p->ctx;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *r = p->fn(p->user);
    p->evals++;
    gd_status status = r ? GD_OK : gd_error(ctx);
    if (!r && !status) status = gd_fail(ctx, GD_CALLBACK, "least squares: the function returned NULL");
    if (!status && !gd_dtype_is_float(r->dtype))
        status = gd_fail(ctx, GD_DTYPE, "least squares: residuals of dtype %s, need a floating one",
                         gd_dtype_name(r->dtype));
    if (!status && p->m && r->numel != p->m)
        status = gd_fail(ctx, GD_SHAPE, "least squares: %lld residuals, before there were %lld",
                         (long long)r->numel, (long long)p->m);
    r = status ? NULL : gd__reshape(gd_drop_names(r), 1, &r->numel);
    gd__own(r);
    gd_enable_grad_end(ctx, previous);
    gd_no_grad_begin(ctx);
    gd_tensor *sum = r ? gd_sum(gd_square(gd_cast(gd_detach(r), GD_F64)), NULL, false) : NULL;
    *f = sum ? gd_item(sum) : NAN;
    if (!isfinite(*f)) *f = NAN;
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    if (!status && !sum) status = gd_error(ctx);
    if (status) gd__release(r);
    *out = status ? NULL : r;
    return status;
}

/* An f64 copy or view on the CPU, owned. */
static gd_tensor *as_numbers(gd_tensor *t)
{
    if (!t) return NULL;
    gd_ctx *ctx = t->head.ctx;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *out = gd_cast(gd_to_device(gd_detach(t), gd_device_get(ctx, "cpu")), GD_F64);
    gd__own(out);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return out;
}

/* Jacobian and model from residuals just made; *finite as gd__lm_set says. */
static gd_status model_from(fit *p, gd_tensor *r, bool grow, bool *finite)
{
    gd_tensor *raw = gd__jacobian_matrix(r, p->params, p->count), *j = as_numbers(raw),
              *numbers = as_numbers(r);
    gd_release(raw);
    gd_status status = j && numbers ? gd__lm_set(&p->model, j, numbers, grow, finite) : gd_error(p->ctx);
    gd__release(numbers);
    if (!status && *finite) {
        gd__release(p->j);
        p->j = j;
        p->fresh = true;
    } else
        gd__release(j);
    return status;
}

/* ---- second derivatives ---- */

static gd_tensor *along(gd_tensor *y, gd_tensor *const *params, gd_tensor *const *v, int count,
                        gd_tensor **grads)
{
    gd_tensor *u = gd_require_grad(gd_zeros_like(y)), *sum = NULL, *out = NULL;
    if (!u || gd_grad(y, u, params, count, GD_CREATE_GRAPH, grads)) return NULL;
    for (int i = 0; i < count; i++) {
        gd_tensor *part = gd_sum(gd_mul(gd_drop_names(grads[i]), v[i]), NULL, false);
        sum = sum ? gd_add(sum, part) : part;
    }
    return sum && gd_grad(sum, NULL, &u, 1, GD_CREATE_GRAPH, &out) == GD_OK ? out : NULL;
}

/* J^T r''(v, v) into out; *finite false where it is of no use. */
static gd_status second_along(fit *p, const double *direction, double *out, bool *finite)
{
    gd_ctx *ctx = p->ctx;
    *finite = false;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    size_t bytes = (size_t)p->count * sizeof(gd_tensor *);
    gd_tensor **v = gd__calloc(ctx, 2 * bytes), **grads = v ? v + p->count : NULL, *y = NULL;
    gd_status status = v ? GD_OK : GD_NOMEM;
    for (int i = 0; i < p->count && !status; direction += p->params[i++]->numel) {
        gd_tensor *like = p->params[i];
        v[i] = gd_empty_on(like->storage->device, like->dtype, like->ndim, like->size);
        status = v[i] ? gd_write_f64(v[i], direction, like->numel) : gd_error(ctx);
    }
    if (!status && gd_requires_grad(p->r)) y = along(p->r, p->params, v, p->count, grads);
    if (y && gd_requires_grad(y))
        y = along(y, p->params, v, p->count, grads);
    else
        y = NULL; /* linear in the parameters */
    if (!status) status = gd_error(ctx);
    gd_no_grad_begin(ctx);
    if (y && !status) {
        gd_tensor *numbers = as_numbers(y),
                  *product = numbers ? gd_matmul(gd_transpose(p->j, 0, 1), numbers) : NULL;
        gd__release(numbers);
        status = product ? gd_read_f64(product, out, p->n) : gd_error(ctx);
        *finite = !status;
        for (int64_t i = 0; i < p->n && !status; i++) *finite = *finite && isfinite(out[i]);
    }
    gd_no_grad_end(ctx);
    if (v) gd__free(ctx, v, 2 * bytes);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status;
}

/* ---- stopping ---- */

static double norm_of(const double *v, const double *scale, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum = hypot(sum, v[i] * (scale ? scale[i] : 1));
    return sum;
}

static double largest(const double *v, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(v[i]));
    return most;
}

static void stop(fit *p, gd_stop reason)
{
    if (!p->stopped) p->reason = reason;
    p->stopped = true;
}

static bool out_of_evals(const fit *p)
{
    const gd_solve_options *o = &p->options->solve;
    return o->max_evals && p->evals >= o->max_evals;
}

/* The rules that do not say anything about convergence. */
static void check_limits(fit *p)
{
    const gd_solve_options *o = &p->options->solve;
    if (o->max_steps && p->steps >= o->max_steps) stop(p, GD_STOP_MAX_STEPS);
    if (out_of_evals(p)) stop(p, GD_STOP_MAX_EVALS);
    if (o->max_seconds > 0 && gd__seconds() - p->start >= o->max_seconds) stop(p, GD_STOP_TIME);
}

static void tell_caller(fit *p, double step)
{
    const gd_solve_options *o = &p->options->solve;
    if (!o->callback) return;
    gd_progress progress = {.step = p->steps,
                            .evals = p->evals,
                            .loss = p->f,
                            .gradient_norm = 2 * largest(p->model.gradient, p->n),
                            .step_norm = step,
                            .seconds = gd__seconds() - p->start};
    if (!o->callback(o->callback_user, &progress)) stop(p, GD_STOP_CALLER);
}

/* ---- one step: attempts until a point is taken ---- */

/* d from the scaled step, bent where the second-order term is small; sets p->s, p->d. */
static gd_status propose(fit *p)
{
    bool finite = false;
    gd_status status = GD_OK;
    gd__lm_step(&p->model, p->radius, &p->lambda, p->s);
    for (int64_t i = 0; i < p->n; i++) p->d[i] = p->s[i] / p->model.scale[i];
    double length = norm_of(p->s, NULL, p->n);
    if (!p->options->acceleration || !(length > 0)) return GD_OK;
    status = second_along(p, p->d, p->trial, &finite);
    if (status || !finite) return status;
    gd__lm_acceleration(&p->model, p->lambda, p->trial, p->a);
    if (2 * norm_of(p->a, NULL, p->n) > BENDING * length) return GD_OK;
    for (int64_t i = 0; i < p->n; i++) p->d[i] = (p->s[i] + p->a[i]) / p->model.scale[i];
    return GD_OK;
}

/* The radius after a ratio, by More's rules. */
static void adapt(fit *p, double ratio, double there, double bent, double length)
{
    if (ratio > 0.75 || (ratio >= 0.25 && p->lambda == 0)) {
        p->radius = p->lambda > 0 ? 2 * length : fmax(p->radius, 2 * length);
        p->lambda *= 0.5;
    } else if (!(ratio >= 0.25)) {
        /* minimum of the parabola through loss, slope and loss there */
        double factor = 0.1;
        if (there < 100 * p->f) {
            double slope = -(bent + p->lambda * length * length) / p->f, actual = 1 - there / p->f;
            factor = actual >= 0 ? 0.5 : 0.5 * slope / (slope + 0.5 * actual);
            factor = fmin(fmax(factor, 0.1), 0.5);
        }
        p->radius = factor * fmin(p->radius, 10 * length);
        p->lambda /= factor;
    }
}

/* Moves to the trial point with its residuals. */
static void settle(fit *p, gd_tensor *r, double f)
{
    gd__release(p->r);
    p->r = r;
    p->f = f;
    memcpy(p->x, p->trial, (size_t)p->n * sizeof *p->x);
    remember_versions(p);
}

/* Evaluates at x + d; takes the point if its ratio is good and its Jacobian finite. */
static gd_status attempt(fit *p, double decrease, double bent, bool *taken, double *actual)
{
    double there = NAN, length = norm_of(p->s, NULL, p->n);
    gd_tensor *r = NULL;
    for (int64_t i = 0; i < p->n; i++) p->trial[i] = p->x[i] + p->d[i];
    gd_status status = write_params(p, p->trial);
    if (!status) status = read_params(p, p->trial); /* as rounded to their dtype */
    if (!status) status = evaluate(p, &r, &there);
    *actual = p->f - there;
    double ratio = decrease > 0 ? *actual / decrease : -1;
    adapt(p, ratio, isfinite(there) ? there : INFINITY, bent, length);
    *taken = !status && ratio > RATIO_TAKEN && there < p->f;
    if (*taken) status = model_from(p, r, true, taken);
    if (!status && *taken) {
        settle(p, r, there);
        return GD_OK;
    }
    gd__release(r);
    gd_status back = go_back(p);
    return status ? status : back;
}

/* One accepted step, or a reason to stop. */
static gd_status step(fit *p)
{
    const gd_solve_options *o = &p->options->solve;
    gd_status status = GD_OK;
    bool taken = false;
    double decrease = 0, bent = 0, actual = 0, before = p->f, moved = 0;
    for (int i = 0; i < ATTEMPTS && !taken && !status && !p->stopped; i++) {
        if (i && out_of_evals(p)) break;
        if ((status = propose(p))) break;
        gd__lm_predict(&p->model, p->lambda, &decrease, &bent);
        moved = norm_of(p->s, NULL, p->n);
        if (decrease <= p->eps * before)
            stop(p, GD_STOP_LOSS);
        else if (moved <= 0.5 * p->eps * norm_of(p->x, p->model.scale, p->n))
            stop(p, GD_STOP_STEP);
        else
            status = attempt(p, decrease, bent, &taken, &actual);
        /* a decrease that rounding hides */
        if (!taken && decrease <= 64 * p->eps * before) stop(p, GD_STOP_LOSS);
    }
    if (status || p->stopped) return status;
    if (!taken) {
        stop(p, out_of_evals(p) ? GD_STOP_MAX_EVALS : GD_STOP_STUCK);
        return GD_OK;
    }
    p->steps++;
    double size = norm_of(p->x, p->model.scale, p->n);
    if (2 * largest(p->model.gradient, p->n) <= o->gradient_tol || p->f == 0) stop(p, GD_STOP_GRADIENT);
    if (o->step_tol > 0 && moved <= o->step_tol * size) stop(p, GD_STOP_STEP);
    if (o->loss_tol > 0 && decrease <= o->loss_tol * before && actual <= o->loss_tol * before)
        stop(p, GD_STOP_LOSS);
    tell_caller(p, norm_of(p->d, NULL, p->n));
    check_limits(p);
    return GD_OK;
}

/* ---- the last digits ---- */

/* Half the Hessian of the sum of squares, scaled, as [n, n] f64; new, or NULL where it is not at hand. */
static gd_tensor *scaled_hessian(fit *p)
{
    gd_ctx *ctx = p->ctx;
    gd_tensor *out = NULL, **grads = gd__calloc(ctx, (size_t)p->count * sizeof(gd_tensor *));
    if (!grads) return NULL;
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *half = gd_mul_scalar(gd_sum(gd_square(p->r), NULL, false), 0.5), *h = NULL;
    if (half && gd_grad(half, NULL, p->params, p->count, GD_CREATE_GRAPH, grads) == GD_OK)
        h = gd__derivative_rows(grads, p->count, p->params, p->count);
    gd_enable_grad_end(ctx, previous);
    gd_no_grad_begin(ctx);
    gd_tensor *numbers = as_numbers(h), *scale = gd_from_f64(ctx, GD_F64, 1, &p->n, p->model.scale);
    if (numbers && scale) {
        out = gd_div(gd_div(numbers, scale), gd_unsqueeze(scale, 1, NULL));
        out = gd_mul_scalar(gd_add(out, gd_transpose(out, 0, 1)), 0.5);
    }
    gd__release(numbers);
    gd_no_grad_end(ctx);
    gd__free(ctx, grads, (size_t)p->count * sizeof *grads);
    return out;
}

/* The scaled Newton step into p->s where the Hessian is positive definite; else the Gauss-Newton step is left there. */
static gd_status newton_step(fit *p)
{
    gd_ctx *ctx = p->ctx;
    double lambda = 0;
    gd__lm_step(&p->model, INFINITY, &lambda, p->s);
    if (p->n > NEWTON_LIMIT) return GD_OK;
    gd_scope_begin(ctx);
    gd_tensor *h = scaled_hessian(p), *lower = h ? gd_cholesky(h) : NULL;
    if (lower) {
        for (int64_t i = 0; i < p->n; i++) p->trial[i] = -p->model.gradient[i] / p->model.scale[i];
        gd_tensor *b = gd_from_f64(ctx, GD_F64, 1, &p->n, p->trial);
        gd_tensor *x = gd_triangular_solve(lower, gd_triangular_solve(lower, b, true, false, false), true,
                                           true, false);
        if (x && gd_read_f64(x, p->a, p->n) == GD_OK && isfinite(norm_of(p->a, NULL, p->n)))
            memcpy(p->s, p->a, (size_t)p->n * sizeof *p->s);
    }
    if (gd_error(ctx) == GD_SINGULAR) gd_clear_error(ctx);
    gd_scope_end(ctx);
    return gd_error(ctx);
}

/* Steps whose effect on the loss is below its rounding: kept going while they shrink. */
static gd_status polish(fit *p)
{
    bool finite = true;
    gd_status status = GD_OK;
    double last = INFINITY;
    for (int i = 0; i < POLISHES && !status && !out_of_evals(p); i++) {
        if (i) p->steps++;
        if ((status = model_from(p, p->r, false, &finite)) || !finite || p->model.rank < p->n) break;
        if ((status = newton_step(p))) break;
        double size = norm_of(p->x, p->model.scale, p->n),
               moved = norm_of(p->s, NULL, p->n) / (size > 0 ? size : 1);
        if (!(moved > 0.01 * p->eps) || moved > 1e-4 || moved >= last * (moved > 1e3 * p->eps ? 0.9 : 0.3))
            break;
        last = moved;
        double there = NAN;
        gd_tensor *r = NULL;
        for (int64_t k = 0; k < p->n; k++) p->trial[k] = p->x[k] + p->s[k] / p->model.scale[k];
        status = write_params(p, p->trial);
        if (!status) status = read_params(p, p->trial);
        if (!status) status = evaluate(p, &r, &there);
        /* the loss may only rise by its rounding */
        if (!status && there <= p->f + 1e-9 * p->f) {
            settle(p, r, there);
            p->fresh = false;
            continue;
        }
        gd__release(r);
        gd_status back = go_back(p);
        if (!status) status = back;
        break;
    }
    return status;
}

/* ---- the whole ---- */

static gd_status check_params(gd_tensor *const *params, int count)
{
    for (int i = 0; i < count; i++) {
        if (!params[i]) return GD_ARGUMENT;
        gd_ctx *ctx = params[i]->head.ctx;
        if (gd_requires_grad(params[i]) && gd_is_leaf(params[i]) && gd_dtype_is_float(params[i]->dtype))
            continue;
        return gd_fail(ctx, GD_ARGUMENT,
                       "least squares: parameter %d is not a floating leaf that wants gradients", i);
    }
    return count > 0 ? GD_OK : GD_ARGUMENT;
}

static size_t numbers_size(const fit *p) { return (size_t)(5 * p->n) * sizeof(double); }

static gd_status begin(fit *p)
{
    p->start = gd__seconds();
    p->eps = DBL_EPSILON;
    for (int i = 0; i < p->count; i++) {
        p->n += p->params[i]->numel;
        if (p->params[i]->dtype != GD_F64) p->eps = 0x1p-23;
    }
    p->version = gd__calloc(p->ctx, (size_t)p->count * sizeof *p->version);
    p->x = p->version ? gd__calloc(p->ctx, numbers_size(p)) : NULL;
    if (!p->x) return GD_NOMEM;
    p->trial = p->x + p->n;
    p->s = p->trial + p->n;
    p->a = p->s + p->n;
    p->d = p->a + p->n;
    gd_status status = read_params(p, p->x);
    if (!status) status = evaluate(p, &p->r, &p->f);
    if (status) return status;
    p->m = p->r->numel;
    remember_versions(p);
    if (p->m == 0 || p->n == 0)
        return gd_fail(p->ctx, GD_SHAPE, "least squares: no residuals or no parameters");
    status = gd__lm_begin(&p->model, p->ctx, p->m, p->n);
    bool finite = isfinite(p->f);
    if (!status && finite) status = model_from(p, p->r, true, &finite);
    if (status || !finite) {
        stop(p, GD_STOP_NOT_FINITE);
        return status;
    }
    double size = norm_of(p->x, p->model.scale, p->n);
    if (size == 0) { /* a start at zero says nothing about sizes: the first full step does */
        gd__lm_step(&p->model, INFINITY, &p->lambda, p->s);
        size = norm_of(p->s, NULL, p->n);
    }
    p->radius = p->options->first_radius * (size > 0 ? size : 1);
    if (p->f == 0 || 2 * largest(p->model.gradient, p->n) <= p->options->solve.gradient_tol)
        stop(p, GD_STOP_GRADIENT);
    return GD_OK;
}

static gd_status spread(fit *p, gd_fit_result *result)
{
    bool finite = true;
    gd_status status = p->fresh ? GD_OK : model_from(p, p->r, false, &finite);
    if (status || !finite) return status;
    result->rank = p->model.rank;
    if (!p->options->covariance) return GD_OK;
    size_t bytes = (size_t)(p->n * p->n) * sizeof(double);
    double *matrix = gd__alloc(p->ctx, bytes), variance = result->sigma * result->sigma;
    if (!matrix) return GD_NOMEM;
    gd__lm_covariance(&p->model, matrix);
    for (int64_t i = 0; i < p->n * p->n; i++) matrix[i] *= variance;
    for (int64_t i = 0; i < p->n; i++) p->s[i] = sqrt(matrix[i * p->n + i]);
    result->covariance = gd_from_f64(p->ctx, GD_F64, 2, (int64_t[]){p->n, p->n}, matrix);
    result->standard_errors = gd_from_f64(p->ctx, GD_F64, 1, &p->n, p->s);
    gd__free(p->ctx, matrix, bytes);
    return result->covariance && result->standard_errors ? GD_OK : gd_error(p->ctx);
}

static void report(fit *p, gd_fit_result *result)
{
    result->rss = p->f;
    result->residuals = p->m;
    result->dof = p->m - p->n;
    result->sigma = result->dof > 0 ? sqrt(p->f / (double)result->dof) : NAN;
    result->solve = (gd_solve_result){.reason = p->reason,
                                      .converged = gd_stop_converged(p->reason),
                                      .loss = p->f,
                                      .gradient_norm = p->j ? 2 * largest(p->model.gradient, p->n) : NAN,
                                      .steps = p->steps,
                                      .evals = p->evals,
                                      .seconds = gd__seconds() - p->start};
}

static void end(fit *p)
{
    gd__lm_end(&p->model);
    gd__release(p->r);
    gd__release(p->j);
    if (p->x) gd__free(p->ctx, p->x, numbers_size(p));
    if (p->version) gd__free(p->ctx, p->version, (size_t)p->count * sizeof *p->version);
}

gd_fit_options gd_fit_defaults(void)
{
    gd_fit_options o = {.solve = gd_solve_defaults(),
                        .first_radius = 1,
                        .acceleration = true,
                        .polish = true,
                        .covariance = true};
    o.solve.gradient_tol = 0;
    o.solve.step_tol = 1e-14;
    o.solve.loss_tol = 1e-15;
    return o;
}

void gd_fit_result_clear(gd_fit_result *result)
{
    if (!result) return;
    gd_release(result->covariance);
    gd_release(result->standard_errors);
    result->covariance = result->standard_errors = NULL;
}

gd_status gd_least_squares(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user),
                           void *user, const gd_fit_options *options, gd_fit_result *result)
{
    gd_fit_options defaults = gd_fit_defaults();
    gd_fit_result unused, *out = result ? result : &unused;
    *out = (gd_fit_result){.solve.reason = GD_STOP_ERROR, .sigma = NAN, .rss = NAN};
    gd_status status = params && residuals ? check_params(params, count) : GD_ARGUMENT;
    if (status) return status;
    fit p = {.ctx = params[0]->head.ctx,
             .params = params,
             .count = count,
             .fn = residuals,
             .user = user,
             .options = options ? options : &defaults,
             .reason = GD_STOP_ERROR};
    if (gd_error(p.ctx)) return gd_error(p.ctx);
    status = begin(&p);
    while (!status && !p.stopped) status = step(&p);
    if (!status && p.options->polish && gd_stop_converged(p.reason) && p.f > 0) status = polish(&p);
    if (status && gd_error(p.ctx)) status = gd_error(p.ctx); /* the first error is the cause */
    if (status) p.reason = GD_STOP_ERROR;
    if (p.r) report(&p, out);
    if (!status && p.j) status = spread(&p, out);
    if (status && gd_error(p.ctx)) status = gd_error(p.ctx);
    if (status || !result) gd_fit_result_clear(out);
    end(&p);
    return status;
}
