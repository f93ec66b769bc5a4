/* Nonlinear least squares: Levenberg-Marquardt as a trust region (More 1978) with geodesic acceleration (Transtrum &
 * Sethna 2012) and Newton steps at the end.
 *
 * A step s of the model r + J s inside |D s| <= radius is corrected by a second-order term along it, a = -(J^T J + lambda D^2)^-1
 * J^T r''(s, s) / 2, if that term is small relative to s: this follows curved valleys, in which plain steps must be short.
 * All derivatives come from the graph of one evaluation of the residuals, so an evaluation is one call of the user's
 * function.  Rejected trial points cost one each. */
#include "base/ctx.h"
#include "base/system.h"
#include "gradus/autograd.h"
#include "optim/vector/jacobian.h"
#include "optim/solve/numbers/numbers.h"
#include "optim/solve/solve_fit.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define BENDING     0.1  /* largest acceleration by velocity */
#define STRAIGHT    1e-4 /* steps, relative to the size of the point, up to which acceleration is negligible */
#define RATIO_TAKEN 1e-4 /* of actual to predicted decrease */
#define POOR        0.25 /* the same, below which a linear model is */
#define ATTEMPTS    60
#define POLISHES    40
#define NEARLY_HERE \
    1e-4 /* relative to the size of the point: distance within which a Hessian is reused for a Newton step */
#define NEWTON_LIMIT 256 /* parameters up to which the last steps use the exact Hessian */

/* ---- evaluating ---- */

static gd_status count_residuals(gd_lsq *p, int64_t count)
{
    if (!p->m || count == p->m) return GD_OK;
    return gd_fail(p->ctx, GD_SHAPE, "least squares: %lld residuals, before there were %lld",
                   (long long)count, (long long)p->m);
}

/* Most points are accepted, so computing loss and triangle in one pass is cheaper than one pass each. */
static gd_status evaluate_blocks(gd_lsq *p, gd_tensor **out, double *f)
{
    gd_status status = gd__blocks_triangle(p->blocks, out, f);
    p->evals++;
    if (!isfinite(*f)) *f = NAN;
    if (!status) status = count_residuals(p, gd__blocks_residuals(p->blocks));
    if (status) gd__release(*out), *out = NULL;
    return status;
}

gd_status gd__lsq_no_residuals(gd_ctx *ctx)
{
    gd_status status = gd_error(ctx);
    return status ? status : gd_fail(ctx, GD_CALLBACK, "least squares: the function returned NULL");
}

/* Residuals with history where the parameters are; owned.  *f is NAN where one is not finite. */
static gd_status evaluate(gd_lsq *p, gd_tensor **out, double *f)
{
    gd_ctx *ctx = p->ctx;
    if (p->blocks) return evaluate_blocks(p, out, f);
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *r = p->fn(p->user);
    p->evals++;
    gd_status status = r ? GD_OK : gd__lsq_no_residuals(ctx);
    if (!status && !gd_dtype_is_float(r->dtype))
        status = gd_fail(ctx, GD_DTYPE, "least squares: residuals of dtype %s, need a floating one",
                         gd_dtype_name(r->dtype));
    if (!status) status = count_residuals(p, r->numel);
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

gd_status gd__lsq_try(gd_lsq *p, gd_tensor **r, double *f)
{
    *r = NULL;
    *f = NAN;
    gd__box_clamp(p, p->trial);
    gd_status status = p->here.kept ? GD_OK : gd__origin_keep(&p->here, p->ctx, p->params, p->count);
    if (!status) status = gd__list_write(p->params, p->count, p->trial);
    if (!status) status = gd__list_read(p->params, p->count, p->trial);
    return status ? status : evaluate(p, r, f);
}

void gd__lsq_settle(gd_lsq *p, gd_tensor *r, double f)
{
    gd__release(p->r);
    p->r = r;
    p->f = f;
    p->fresh = p->current = p->here.kept = false;
    memcpy(p->x, p->trial, (size_t)p->n * sizeof *p->x);
}

gd_status gd__lsq_go_back(gd_lsq *p, gd_tensor *r)
{
    gd__release(r);
    return gd__origin_return(&p->here);
}

/* A triangle of [J r] replaces J and r. */
static gd_status part_triangle(gd_lsq *p, gd_tensor *triangle, gd_tensor **j, gd_tensor **r)
{
    gd__aside_begin(p->ctx);
    gd__own(*j = gd_contiguous(gd_slice(triangle, "1", 0, p->n, 1)));
    gd__own(*r = gd_contiguous(gd_index(triangle, "1", p->n)));
    gd__aside_end(p->ctx);
    if (*j && *r) return GD_OK;
    gd__release(*j);
    gd__release(*r);
    return gd_error(p->ctx);
}

gd_status gd__lsq_model_from(gd_lsq *p, gd_tensor *r, bool grow, bool *finite)
{
    gd_tensor *j = NULL, *numbers = NULL;
    gd_status status = p->blocks ? part_triangle(p, r, &j, &numbers)
                                 : gd__linear_from(r, p->params, p->count, true, &j, &numbers);
    if (status) return status;
    status = gd__lm_set(&p->model, j, numbers, grow, finite);
    gd__release(numbers);
    if (!status && *finite) {
        gd__release(p->j);
        p->j = j;
        p->fresh = true;
        p->current = !grow;
    } else
        gd__release(j);
    return status;
}

gd_status gd__lsq_model_here(gd_lsq *p, bool *finite)
{
    *finite = true;
    if (!p->fresh) return gd__lsq_model_from(p, p->r, false, finite);
    gd_status status = p->current ? GD_OK : gd__lm_rescale(&p->model);
    p->current = !status;
    return status;
}

/* ---- second derivatives ---- */

/* J^T y for y = r''(v, v); false if there is none. */
static bool second_of_all(gd_lsq *p, const double *direction, double *out)
{
    gd_ctx *ctx = p->ctx;
    gd_scope_begin(ctx);
    gd_tensor *y = gd__second_along(p->r, p->params, p->count, direction), *product = NULL;
    gd_no_grad_begin(ctx);
    gd_tensor *numbers = gd__numbers(y);
    if (numbers) product = gd_matmul(gd_transpose(p->j, 0, 1), numbers);
    gd__release(numbers);
    bool found = product && gd_read_f64(product, out, p->n) == GD_OK;
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return found;
}

/* J^T r''(v, v) into out; *finite false if it is not usable. */
static gd_status second_along(gd_lsq *p, const double *direction, double *out, bool *finite)
{
    *finite = p->blocks ? gd__blocks_second(p->blocks, direction, out) == GD_OK
                        : second_of_all(p, direction, out);
    for (int64_t i = 0; i < p->n && *finite; i++) *finite = isfinite(out[i]);
    return gd_error(p->ctx);
}

/* ---- stopping ---- */

double gd__lsq_norm(const double *v, const double *scale, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum = hypot(sum, v[i] * (scale ? scale[i] : 1));
    return sum;
}

static void stop(gd_lsq *p, gd_stop reason)
{
    if (!p->stopped) p->reason = reason;
    p->stopped = true;
}

static gd_world *world_of(const gd_lsq_options *options);

/* Inside a step only a process that is alone looks at its clock: ranks must evaluate alike. */
static bool out_of_time(const gd_lsq *p)
{
    const gd_solve_options *o = &p->options->solve;
    return o->max_seconds > 0 && !world_of(p->options) && gd__seconds() - p->start >= o->max_seconds;
}

static bool out_of_evals(const gd_lsq *p)
{
    const gd_solve_options *o = &p->options->solve;
    return o->max_evals && p->evals >= o->max_evals;
}

bool gd__lsq_spent(const gd_lsq *p) { return out_of_evals(p) || out_of_time(p); }

bool gd__lsq_out_of_steps(const gd_lsq *p)
{
    const gd_solve_options *o = &p->options->solve;
    return o->max_steps && p->steps >= o->max_steps;
}

static void check_counts(gd_lsq *p)
{
    if (gd__lsq_out_of_steps(p)) stop(p, GD_STOP_MAX_STEPS);
    if (out_of_evals(p)) stop(p, GD_STOP_MAX_EVALS);
}

/* Stopping rules other than convergence. */
static void check_limits(gd_lsq *p)
{
    const gd_solve_options *o = &p->options->solve;
    check_counts(p);
    if (o->max_seconds > 0 && gd__seconds() - p->start >= o->max_seconds) stop(p, GD_STOP_TIME);
}

static void tell_caller(gd_lsq *p, double step)
{
    const gd_solve_options *o = &p->options->solve;
    if (o->callback && !gd__lsq_tell(o, p->steps, p->evals, p->f, gd__box_gradient(p), step, p->start))
        stop(p, GD_STOP_CALLER);
}

/* ---- one step: attempts until a point is taken ---- */

/* p->s inside the trust region, and the predicted decrease. */
static gd_status plain_step(gd_lsq *p)
{
    if (p->low) return gd__box_step(p);
    double bent, length;
    gd__lm_step(&p->model, p->radius, &p->lambda, p->s);
    gd__lm_predict(&p->model, p->lambda, &p->decrease, &bent);
    length = gd__lsq_norm(p->s, NULL, p->n);
    p->slope = -(bent + p->lambda * length * length);
    return GD_OK;
}

/* d from the scaled step, with the second-order term if it is small; sets p->s, p->d. */
static gd_status propose_step(gd_lsq *p)
{
    bool finite = false;
    gd_status status = plain_step(p);
    if (status) return status;
    for (int64_t i = 0; i < p->n; i++) p->d[i] = p->s[i] / p->model.scale[i];
    double length = gd__lsq_norm(p->s, NULL, p->n);
    /* the term is quadratic in the step: short steps do not need it */
    bool straight = length <= STRAIGHT * gd__lsq_norm(p->x, p->model.scale, p->n);
    if (!p->options->acceleration || !(length > 0) || straight) return GD_OK;
    /* it costs three to five evaluations, which pays for a step inside the region only after the model has failed; with many rows,
     * only in a valley that keeps turning */
    if (p->poor < 2 && (p->blocks || p->lambda == 0)) return GD_OK;
    status = second_along(p, p->d, p->trial, &finite);
    if (status || !finite) return status;
    gd__lm_acceleration(&p->model, p->lambda, p->trial, p->a);
    for (int64_t i = 0; i < p->n && p->low; i++)
        if (p->fixed[i]) p->a[i] = 0;
    if (2 * gd__lsq_norm(p->a, NULL, p->n) > BENDING * length) return GD_OK;
    for (int64_t i = 0; i < p->n; i++) p->d[i] = (p->s[i] + p->a[i]) / p->model.scale[i];
    return GD_OK;
}

/* The radius after a ratio, by More's rules. */
static void adapt(gd_lsq *p, double ratio, double there, double length)
{
    if (ratio > 0.75 || (ratio >= 0.25 && p->lambda == 0)) {
        p->radius = p->lambda > 0 ? 2 * length : fmax(p->radius, 2 * length);
        p->lambda *= 0.5;
    } else if (!(ratio >= 0.25)) {
        /* minimum of the parabola through loss, slope and loss there */
        double factor = 0.1;
        if (there < 100 * p->f) {
            double slope = p->slope / p->f, actual = 1 - there / p->f;
            factor = actual >= 0 ? 0.5 : 0.5 * slope / (slope + 0.5 * actual);
            factor = fmin(fmax(factor, 0.1), 0.5);
        }
        p->radius = factor * fmin(p->radius, 10 * length);
        p->lambda /= factor;
    }
}

/* Evaluates at x + d; takes the point if its ratio is good and its Jacobian finite. */
static gd_status attempt(gd_lsq *p, bool *taken, double *actual)
{
    double there = NAN, length = gd__lsq_norm(p->s, NULL, p->n);
    gd_tensor *r = NULL;
    for (int64_t i = 0; i < p->n; i++) p->trial[i] = p->x[i] + p->d[i];
    gd_status status = gd__lsq_try(p, &r, &there);
    *actual = p->f - there;
    double ratio = p->decrease > 0 ? *actual / p->decrease : -1;
    *taken = !status && ratio > RATIO_TAKEN && there < p->f;
    bool better = *taken;
    if (better) status = gd__lsq_model_from(p, r, true, taken);
    /* a point whose derivatives are not finite is rejected like one whose loss is not */
    if (better && !*taken) ratio = -1, there = INFINITY;
    p->poor = ratio < POOR ? p->poor + 1 : 0;
    adapt(p, ratio, isfinite(there) ? there : INFINITY, length);
    if (!status && *taken) {
        gd__lsq_settle(p, r, there);
        p->fresh = true;
        return GD_OK;
    }
    gd_status back = gd__lsq_go_back(p, r);
    return status ? status : back;
}

/* One accepted step, or a reason to stop. */
static gd_status step(gd_lsq *p)
{
    const gd_solve_options *o = &p->options->solve;
    gd_status status = GD_OK;
    bool taken = false;
    double actual = 0, before = p->f, moved = 0;
    for (int i = 0; i < ATTEMPTS && !taken && !status && !p->stopped; i++) {
        if (i && gd__lsq_spent(p)) break;
        if ((status = propose_step(p))) break;
        moved = gd__lsq_norm(p->s, NULL, p->n);
        if (p->decrease <= p->eps * before)
            stop(p, GD_STOP_LOSS);
        else if (moved <= 0.5 * p->eps * gd__lsq_norm(p->x, p->model.scale, p->n))
            stop(p, GD_STOP_STEP);
        else
            status = attempt(p, &taken, &actual);
        /* a decrease below rounding */
        if (!taken && p->decrease <= 64 * p->eps * before) stop(p, GD_STOP_LOSS);
    }
    if (status || p->stopped) return status;
    if (!taken) {
        stop(p, out_of_evals(p) ? GD_STOP_MAX_EVALS : out_of_time(p) ? GD_STOP_TIME : GD_STOP_STUCK);
        return GD_OK;
    }
    p->steps++;
    double size = gd__lsq_norm(p->x, p->model.scale, p->n);
    if (gd__box_gradient(p) <= o->gradient_tol || p->f == 0) stop(p, GD_STOP_GRADIENT);
    if (o->step_tol > 0 && moved <= o->step_tol * size) stop(p, GD_STOP_STEP);
    if (o->loss_tol > 0 && p->decrease <= o->loss_tol * before && actual <= o->loss_tol * before)
        stop(p, GD_STOP_LOSS);
    tell_caller(p, gd__lsq_norm(p->d, NULL, p->n));
    check_limits(p);
    return GD_OK;
}

/* ---- the last digits ---- */

/* Rows and columns of fixed parameters become those of the identity. */
static gd_tensor *without_fixed(gd_lsq *p, gd_tensor *h)
{
    for (int64_t i = 0; i < p->n; i++) p->trial[i] = !p->model.fixed[i];
    gd_tensor *mask = gd_from_f64(p->ctx, GD_F64, 1, &p->n, p->trial);
    gd_tensor *eye = gd_eye(p->ctx, GD_F64, p->n, p->n), *both = gd_mul(gd_unsqueeze(mask, 1, NULL), mask);
    return gd_add(gd_mul(h, both), gd_mul(eye, gd_add_scalar(gd_neg(mask), 1)));
}

static size_t curved_size(const gd_lsq *p) { return (size_t)(p->n * (p->n + 1)) * sizeof(double); }

/* With blocks: reuses the last one if p->x is within that fraction of its size from the point where it was computed. */
static gd_tensor *curvature_of_blocks(gd_lsq *p, double within)
{
    double moved = INFINITY, size = gd__lsq_norm(p->x, p->model.scale, p->n);
    if (p->bend) {
        for (int64_t i = 0; i < p->n; i++) p->trial[i] = p->x[i] - p->curved[i];
        moved = gd__lsq_norm(p->trial, p->model.scale, p->n);
    } else if (!(p->bend = gd__alloc(p->ctx, curved_size(p))))
        return NULL;
    p->curved = p->bend + p->n * p->n;
    if (!(moved <= within * size)) {
        if (gd__blocks_curvature(p->blocks, p->bend)) return NULL;
        memcpy(p->curved, p->x, (size_t)p->n * sizeof *p->x);
    }
    return gd_from_f64(p->ctx, GD_F64, 2, (int64_t[]){p->n, p->n}, p->bend);
}

/* J^T J, scaled, from the triangle of the model. */
static gd_tensor *squared_triangle(const gd_lsq *p)
{
    gd_tensor *both = gd_from_f64(p->ctx, GD_F64, 2, (int64_t[]){p->model.k, p->n + 1}, p->model.triangle);
    gd_tensor *a = both ? gd_slice(both, "1", 0, p->n, 1) : NULL;
    return a ? gd_matmul(gd_transpose(a, 0, 1), a) : NULL;
}

gd_tensor *gd__lsq_hessian(gd_lsq *p, double within)
{
    gd_ctx *ctx = p->ctx;
    gd_tensor *out = NULL, *h = p->blocks ? curvature_of_blocks(p, within)
                                          : gd__squares_curvature(p->r, p->params, p->count);
    gd_no_grad_begin(ctx);
    gd_tensor *numbers = gd__numbers(h), *scale = gd_from_f64(ctx, GD_F64, 1, &p->n, p->model.scale),
              *square = squared_triangle(p);
    if (numbers && scale && square) {
        out = gd_div(gd_div(numbers, scale), gd_unsqueeze(scale, 1, NULL));
        out = gd_add(square, gd_mul_scalar(gd_add(out, gd_transpose(out, 0, 1)), 0.5));
        if (p->model.free < p->n) out = without_fixed(p, out);
    }
    gd__release(numbers);
    gd_no_grad_end(ctx);
    return out;
}

/* The scaled Newton step into p->s where the Hessian is positive definite; else the Gauss-Newton step is left there. */
static gd_status newton_step(gd_lsq *p)
{
    gd_ctx *ctx = p->ctx;
    double lambda = 0;
    gd__lm_step(&p->model, INFINITY, &lambda, p->s);
    if (p->n > NEWTON_LIMIT) return GD_OK;
    gd_scope_begin(ctx);
    gd_tensor *h = gd__lsq_hessian(p, NEARLY_HERE), *lower = h ? gd_cholesky(h) : NULL;
    if (lower) {
        for (int64_t i = 0; i < p->n; i++)
            p->trial[i] = p->model.fixed[i] ? 0 : -p->model.gradient[i] / p->model.scale[i];
        gd_tensor *b = gd_from_f64(ctx, GD_F64, 1, &p->n, p->trial);
        gd_tensor *x = gd_triangular_solve(lower, gd_triangular_solve(lower, b, true, false, false), true,
                                           true, false);
        if (x && gd_read_f64(x, p->a, p->n) == GD_OK && isfinite(gd__lsq_norm(p->a, NULL, p->n)))
            memcpy(p->s, p->a, (size_t)p->n * sizeof *p->s);
    }
    if (gd_error(ctx) == GD_SINGULAR) gd_clear_error(ctx);
    gd_scope_end(ctx);
    return gd_error(ctx);
}

/* The trial point at the end of p->s; false where a free parameter would leave the box. */
static bool aim(gd_lsq *p)
{
    bool inside = true;
    for (int64_t i = 0; i < p->n; i++) {
        p->trial[i] = p->model.fixed[i] ? p->x[i] : p->x[i] + p->s[i] / p->model.scale[i];
        inside = inside && (!p->low || (p->trial[i] >= p->low[i] && p->trial[i] <= p->high[i]));
    }
    gd__box_forget(p);
    return inside;
}

/* Steps whose effect on the loss is below its rounding: continued while they shrink. */
static gd_status polish(gd_lsq *p)
{
    bool finite = true;
    gd_status status = GD_OK;
    double last = INFINITY;
    for (int i = 0; i < POLISHES && !status && !gd__lsq_spent(p); i++) {
        if (i && gd__lsq_out_of_steps(p)) break;
        if (i) p->steps++;
        if ((status = gd__lsq_model_here(p, &finite)) || !finite) break;
        if ((status = gd__box_free(p)) || p->model.rank < p->model.free) break;
        if ((status = newton_step(p))) break;
        double size = gd__lsq_norm(p->x, p->model.scale, p->n),
               moved = gd__lsq_norm(p->s, NULL, p->n) / (size > 0 ? size : 1);
        if (!(moved > 0.01 * p->eps) || moved > 1e-4 || moved >= last * (moved > 1e3 * p->eps ? 0.9 : 0.3))
            break;
        last = moved;
        double there = NAN;
        gd_tensor *r = NULL;
        if (!aim(p)) break;
        status = gd__lsq_try(p, &r, &there);
        /* the loss may only rise by its rounding */
        if (!status && there <= p->f + 1e-9 * p->f) {
            gd__lsq_settle(p, r, there);
            continue;
        }
        gd_status back = gd__lsq_go_back(p, r);
        return status ? status : back;
    }
    return status;
}

/* ---- the whole ---- */

gd_status gd__lsq_check_params(gd_ctx *ctx, const char *what, gd_tensor *const *params, int count)
{
    if (!params || count <= 0) return gd_fail(ctx, GD_ARGUMENT, "%s: no parameters", what);
    for (int i = 0; i < count; i++)
        if (!params[i] || !gd_requires_grad(params[i]) || !gd_is_leaf(params[i]) ||
            !gd_dtype_is_float(params[i]->dtype))
            return gd_fail(ctx, GD_ARGUMENT, "%s: parameter %d is not a floating leaf that wants gradients",
                           what, i);
    return GD_OK;
}

static size_t numbers_size(const gd_lsq *p) { return (size_t)(6 * p->n) * sizeof(double); }

static gd_status make_room(gd_lsq *p)
{
    p->eps = DBL_EPSILON;
    p->n = gd__list_numel(p->params, p->count);
    for (int i = 0; i < p->count; i++)
        if (p->params[i]->dtype != GD_F64) p->eps = 0x1p-23;
    if (!(p->x = gd__calloc(p->ctx, numbers_size(p)))) return GD_NOMEM;
    p->trial = p->x + p->n;
    p->s = p->trial + p->n;
    p->a = p->s + p->n;
    p->d = p->a + p->n;
    p->slide = p->d + p->n;
    return GD_OK;
}

/* All rows as one range, of the caller's own tensors. */
static gd_tensor *all_rows(void *user)
{
    const gd_lsq *p = user;
    return p->options->rows->residuals(p->state, p->params, p->options->rows->data, 0);
}

/* Few rows are one block; fewer rows than parameters have no triangle. */
static gd_status open_rows(gd_lsq *p)
{
    const gd_rows *rows = p->options->rows;
    if (!rows) return GD_OK;
    if (rows->world && rows->count <= p->n)
        return gd_fail(p->ctx, GD_SHAPE, "least squares: %lld rows of several ranks for %lld parameters",
                       (long long)rows->count, (long long)p->n);
    if (rows->world || (rows->count > GD_BLOCK_ROWS && rows->count > p->n)) {
        p->blocks = gd__blocks_new(rows, p->params, p->count);
        return p->blocks ? GD_OK : gd_error(p->ctx);
    }
    gd_status status = gd__blocks_check(p->ctx, rows);
    if (status) return status;
    p->state = rows->open ? rows->open(rows->user, p->ctx) : rows->user;
    p->fn = all_rows;
    p->user = p;
    return gd_error(p->ctx);
}

/* Dense Jacobian and triangle: refused before rows are computed if they do not fit into memory. */
static gd_status check_size(const gd_lsq *p)
{
    double need = 2.0 * sizeof(double) * (double)p->m * (double)p->n, room = (double)gd__memory_bytes();
    if (p->blocks || need <= room) return GD_OK;
    return gd_fail(
        p->ctx, GD_NOMEM,
        "least squares: %lld residuals by %lld parameters need %.3g GB for the Jacobian and its triangle, there are "
        "%.3g GB; gd_minimize with lbfgs needs no Jacobian, and rows (gd_lsq_options) need one block of it at a time",
        (long long)p->m, (long long)p->n, need / 1e9, room / 1e9);
}

/* Residuals and model where p->x is. */
static gd_status look_at_start(gd_lsq *p, bool *finite)
{
    gd__release(p->r);
    gd_status status = evaluate(p, &p->r, &p->f);
    if (status) return status;
    p->m = p->blocks ? gd__blocks_residuals(p->blocks) : p->r->numel;
    if (p->m == 0 || p->n == 0)
        return gd_fail(p->ctx, GD_SHAPE, "least squares: no residuals or no parameters");
    if ((status = check_size(p))) return status;
    if (!p->model.scale) status = gd__lm_begin(&p->model, p->ctx, p->m, p->n);
    *finite = isfinite(p->f);
    return status || !*finite ? status : gd__lsq_model_from(p, p->r, true, finite);
}

static gd_status begin(gd_lsq *p)
{
    p->start = gd__seconds();
    bool finite = false;
    gd_status status = make_room(p);
    if (!status) status = open_rows(p);
    if (!status) status = gd__list_read(p->params, p->count, p->x);
    if (!status) status = gd__box_begin(p);
    if (!status) status = look_at_start(p, &finite);
    if (!status && !finite && gd__box_nudge(p)) {
        status = gd__list_write(p->params, p->count, p->x);
        if (!status) status = look_at_start(p, &finite);
    }
    if (status || !finite) {
        stop(p, GD_STOP_NOT_FINITE);
        return status;
    }
    double size = gd__lsq_norm(p->x, p->model.scale, p->n);
    if (size == 0) { /* a start at zero has no scale: the first full step gives one */
        gd__lm_step(&p->model, INFINITY, &p->lambda, p->s);
        size = gd__lsq_norm(p->s, NULL, p->n);
    }
    p->radius = p->options->first_radius * (size > 0 ? size : 1);
    if (p->f == 0 || gd__box_gradient(p) <= p->options->solve.gradient_tol) stop(p, GD_STOP_GRADIENT);
    return GD_OK;
}

/* ---- results ---- */

static void report(gd_lsq *p, gd_lsq_result *result)
{
    result->rss = p->f;
    result->residuals = p->m;
    result->free = p->n;
    result->dof = p->m - p->options->weightless - p->n;
    memcpy(result->says, p->says, sizeof p->says);
    memcpy(result->linear, "QR", sizeof "QR");
    result->solve = (gd_solve_result){.reason = p->reason,
                                      .converged = gd_stop_converged(p->reason),
                                      .loss = p->f,
                                      .gradient_norm = p->j ? gd__box_gradient(p) : NAN,
                                      .steps = p->steps,
                                      .evals = p->evals,
                                      .seconds = gd__seconds() - p->start,
                                      .derivatives = GD_DERIVATIVES_EXACT};
}

static void end(gd_lsq *p)
{
    gd__lm_end(&p->model);
    gd__box_end(p);
    gd__release(p->r);
    gd__release(p->j);
    gd__blocks_free(p->blocks);
    if (p->fn == all_rows && p->state && p->options->rows->close) p->options->rows->close(p->state);
    if (p->bend) gd__free(p->ctx, p->bend, curved_size(p));
    if (p->x) gd__free(p->ctx, p->x, numbers_size(p));
    gd__origin_free(&p->here);
}

/* The world whose ranks have shares of the rows; NULL: this process is alone. */
static gd_world *world_of(const gd_lsq_options *options)
{
    return options && options->rows ? options->rows->world : NULL;
}

static gd_status stop_together(gd_lsq *p)
{
    gd_stop reason = p->stopped ? p->reason : GD_STOP_COUNT;
    gd_status status = gd__stop_together(world_of(p->options), p->steps, &reason);
    if (status || reason == GD_STOP_COUNT) return status;
    p->reason = reason;
    p->stopped = true;
    return GD_OK;
}

/* Steps until a stop that is not a saddle. */
static gd_status run(gd_lsq *p)
{
    gd_status status = GD_OK;
    check_counts(p); /* the start may take all evaluations, and leaving a saddle is a step */
    for (bool again = true; again && !status;) {
        again = false;
        while (!status && !p->stopped) {
            status = step(p);
            if (!status) status = stop_together(p);
        }
        bool ended = gd_stop_converged(p->reason);
        if (!status && p->options->polish && ended && p->f > 0) status = polish(p);
        if (!status && (ended || p->reason == GD_STOP_STUCK)) status = gd__saddle_judge(p, &again);
        if (again) check_counts(p);
    }
    return status;
}

gd_lsq_options gd_lsq_defaults(void)
{
    gd_lsq_options o = {.solve = gd_solve_defaults(),
                        .first_radius = 1,
                        .acceleration = true,
                        .polish = true,
                        .covariance = true,
                        .leave_saddles = true};
    o.solve.gradient_tol = 0;
    o.solve.step_tol = 1e-14;
    o.solve.loss_tol = 1e-15;
    return o;
}

void gd_lsq_result_clear(gd_lsq_result *result)
{
    if (!result) return;
    gd_release(result->covariance);
    gd_release(result->standard_errors);
    gd_release(result->active);
    gd_release(result->undetermined);
    result->covariance = result->standard_errors = result->active = result->undetermined = NULL;
}

bool gd__lsq_tell(const gd_solve_options *o, int64_t steps, int64_t evals, double loss, double gradient,
                  double step, double start)
{
    const gd_progress progress = {.step = steps,
                                  .evals = evals,
                                  .loss = loss,
                                  .loss_after = loss,
                                  .gradient_norm = gradient,
                                  .gradient_length = NAN,
                                  .violation = NAN,
                                  .step_norm = step,
                                  .seconds = gd__seconds() - start};
    return o->callback(o->callback_user, &progress);
}

gd_status gd__lsq_check_options(gd_ctx *ctx, const gd_lsq_options *o)
{
    gd_status status = gd__solve_check(ctx, "least squares", &o->solve);
    if (!status && !(o->first_radius > 0))
        status = gd_fail(ctx, GD_ARGUMENT, "least squares: first_radius is %g, must be above 0",
                         o->first_radius);
    if (!status && !(o->sigma >= 0))
        status = gd_fail(ctx, GD_ARGUMENT, "least squares: sigma is %g, must be 0 or more", o->sigma);
    if (!status && o->weightless < 0)
        status = gd_fail(ctx, GD_ARGUMENT, "least squares: weightless is %lld, must be 0 or more",
                         (long long)o->weightless);
    if (!status && (unsigned)o->errors >= GD_LSQ_ERRORS_COUNT)
        status = gd_fail(ctx, GD_ARGUMENT, "least squares: no such standard errors, %d", (int)o->errors);
    if (!status && o->errors == GD_LSQ_HC3 && (o->sigma > 0 || o->loss != GD_LSQ_SQUARES))
        status = gd_fail(ctx, GD_ARGUMENT, "least squares: hc3 takes no sigma and no loss but squares");
    return status;
}

static gd_status fit(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user), void *user,
                     const gd_lsq_options *options, gd_lsq_result *result)
{
    gd_lsq_options defaults = gd_lsq_defaults();
    gd_lsq_result unused, *out = result ? result : &unused;
    *out = (gd_lsq_result){
        .solve = {.reason = GD_STOP_ERROR, .loss = NAN}, .sigma = NAN, .rss = NAN, .scale = NAN};
    if (!params || count <= 0 || !params[0]) return GD_ARGUMENT;
    if (!residuals && !(options && options->rows)) return GD_ARGUMENT;
    gd_status status = gd__lsq_check_params(params[0]->head.ctx, "least squares", params, count);
    if (status) return status;
    const gd_lsq_options *how = options ? options : &defaults;
    bool done = false;
    if (residuals && !how->rows && !gd_error(params[0]->head.ctx)) {
        if (!(status = gd__lsq_check_options(params[0]->head.ctx, how)))
            status = gd__sparse_fit(params, count, residuals, user, how, out, &done);
        if (status || done) {
            if (status || !result) gd_lsq_result_clear(out);
            return status;
        }
    }
    if (options && options->loss != GD_LSQ_SQUARES) {
        if (!residuals)
            return gd_fail(params[0]->head.ctx, GD_ARGUMENT,
                           "least squares: %s needs the function of all residuals, not rows alone",
                           gd_lsq_loss_name(options->loss));
        if (options->rows && options->rows->world)
            return gd_fail(params[0]->head.ctx, GD_NOT_IMPLEMENTED,
                           "least squares: %s needs all residuals in one process, not rows of several ranks",
                           gd_lsq_loss_name(options->loss));
        status = gd__robust_fit(params, count, residuals, user, options, out);
        if (!result) gd_lsq_result_clear(out);
        return status;
    }
    gd_lsq p = {.ctx = params[0]->head.ctx,
                .params = params,
                .count = count,
                .fn = residuals,
                .user = user,
                .options = options ? options : &defaults,
                .reason = GD_STOP_ERROR};
    if (gd_error(p.ctx)) return gd_error(p.ctx);
    status = gd__lsq_check_options(p.ctx, p.options);
    if (!status) status = begin(&p);
    if (!status && !p.stopped && p.options->leave_saddles) status = gd__saddle_leave_start(&p);
    if (!status) status = run(&p);
    if (status && gd_error(p.ctx)) status = gd_error(p.ctx); /* the first error is the cause */
    if (status) p.reason = GD_STOP_ERROR;
    if (p.r) report(&p, out);
    if (!status && p.j) status = gd__lsq_spread(&p, out);
    if (status && gd_error(p.ctx)) status = gd_error(p.ctx);
    if (status || !result) gd_lsq_result_clear(out);
    end(&p);
    return status;
}

gd_status gd_least_squares(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user),
                           void *user, const gd_lsq_options *options, gd_lsq_result *result)
{
    gd_status status = fit(params, count, residuals, user, options, result);
    gd_world *world = world_of(options);
    return gd__solve_tell(world, gd_world_ctx(world), status);
}
