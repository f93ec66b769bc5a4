/* Profile intervals: one element is held, the others are fitted again under their bounds, and the interval ends where the sum
 * of squares has risen by t^2 s^2 (Bates & Watts 1988, chapter 6).  An element at an active bound has its interval on the
 * inner side only, where normal theory does not apply. */
#include "base/ctx.h"
#include "optim/solve/solve_budget.h"
#include "optim/vector/layout.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <string.h>

#define WIDENINGS  40   /* by fours, before an end counts as infinite */
#define NARROWINGS 80   /* of a bracket */
#define WITHIN     1e-8 /* of the distance to an end */

typedef struct profile {
    gd_ctx *ctx;
    gd_tensor *const *params;
    int count;
    gd_tensor *(*fn)(void *user);
    void *user;
    gd_lsq_options options; /* of the fits with one element held */
    gd_budget budget;       /* of all of them */
    int64_t n, element;
    double *best, *x, *low, *high; /* end of the fit, restart point, bounds; [n] */
    double rss, rise;              /* at the best; s^2 t^2 */
    double from, to;               /* bounds of the element */
    bool better;
} profile;

/* How far the root of the rise at z is from its limit; INFINITY where the model is not finite there. */
static gd_status excess(profile *q, double z, double *out)
{
    gd_lsq_result fit;
    q->low[q->element] = q->high[q->element] = q->x[q->element] = z;
    *out = INFINITY;
    if (!gd__budget_left(&q->budget, &q->options.solve)) return GD_OK;
    gd_status status = gd__list_write(q->params, q->count, q->x);
    if (!status) status = gd_least_squares(q->params, q->count, q->fn, q->user, &q->options, &fit);
    if (status) return status;
    gd__budget_add(&q->budget, &fit.solve);
    double rss = fit.rss;
    bool finite = fit.solve.reason != GD_STOP_NOT_FINITE && isfinite(rss);
    if (fit.solve.reason == GD_STOP_CALLER)
        status = gd_fail(q->ctx, GD_INTERRUPTED, "profile: the callback stopped it");
    gd_lsq_result_clear(&fit);
    if (status || !finite) return status;
    /* more than rounding: the fit had not found the minimum */
    q->better = rss < q->rss - 1e-6 * q->rise - 1e-9 * q->rss;
    *out = sqrt(fmax(rss - q->rss, 0)) - sqrt(q->rise);
    return gd__list_read(q->params, q->count, q->x);
}

/* The zero between a (below) and b (above), by false position that halves a value kept twice (Illinois). */
static gd_status narrow(profile *q, double a, double b, double below, double above, double *end)
{
    gd_status status = GD_OK;
    double centre = q->best[q->element];
    int kept = 0;
    for (int i = 0; i < NARROWINGS && fabs(b - a) > WITHIN * fabs(b - centre) && !q->budget.spent; i++) {
        double z = isfinite(above) ? b - above * (b - a) / (above - below) : 0.5 * (a + b), at;
        if (!(z > fmin(a, b) && z < fmax(a, b))) z = 0.5 * (a + b);
        if (z == a || z == b) break;
        if ((status = excess(q, z, &at)) || q->better) return status;
        if (q->budget.spent) break;
        if (at > 0) {
            b = z;
            above = at;
            below *= kept > 0 ? 0.5 : 1;
            kept = 1;
        } else {
            a = z;
            below = at;
            above *= kept < 0 ? 0.5 : 1;
            kept = -1;
        }
        if (at == 0) break;
    }
    *end = fabs(above) < fabs(below) ? b : a;
    return status;
}

/* The end on one side; the bound if it is reached first, infinite if nothing limits it. */
static gd_status find_end(profile *q, double side, double first, double *end)
{
    double centre = q->best[q->element], limit = side < 0 ? q->from : q->to, inner = centre,
           below = -sqrt(q->rise), above;
    gd_status status = GD_OK;
    *end = limit;
    if (centre == limit) return GD_OK;
    memcpy(q->x, q->best, (size_t)q->n * sizeof *q->x);
    for (int i = 0; i < WIDENINGS; i++, first *= 4) {
        double z = centre + side * first;
        if (side * (limit - z) < 0) z = limit;
        if ((status = excess(q, z, &above)) || q->better) return status;
        if (q->budget.spent) return GD_OK;
        if (above > 0) return narrow(q, inner, z, below, above, end);
        if (z == limit) return GD_OK;
        inner = z;
        below = above;
    }
    *end = side * INFINITY;
    return GD_OK;
}

/* An end that the budget does not reach is unknown, not infinite. */
static gd_status find_limited_end(profile *q, double side, double first, double *end)
{
    gd_status status = find_end(q, side, first, end);
    if (status || !q->budget.spent || q->better) return status;
    *end = NAN;
    gd_warn(q->ctx, "profile: the interval of element %lld has no %s end: %s", (long long)q->element,
            side < 0 ? "lower" : "upper", gd_stop_text(q->budget.reason));
    return GD_OK;
}

static gd_status begin(profile *q, const gd_lsq_options *o)
{
    q->n = gd__list_numel(q->params, q->count);
    if (q->element < 0 || q->element >= q->n)
        return gd_fail(q->ctx, GD_INDEX, "profile: element %lld of %lld", (long long)q->element,
                       (long long)q->n);
    if (!(q->best = gd__alloc(q->ctx, (size_t)(4 * q->n) * sizeof(double)))) return GD_NOMEM;
    q->x = q->best + q->n;
    q->low = q->x + q->n;
    q->high = q->low + q->n;
    for (int64_t i = 0; i < q->n; i++) {
        q->low[i] = o->low ? o->low[i] : -INFINITY;
        q->high[i] = o->high ? o->high[i] : INFINITY;
    }
    q->from = q->low[q->element];
    q->to = q->high[q->element];
    q->options = *o;
    q->budget = gd__budget_begin(&o->solve, true);
    q->options.low = q->low;
    q->options.high = q->high;
    q->options.covariance = q->options.polish = q->options.leave_saddles = false;
    return gd__list_read(q->params, q->count, q->best);
}

/* A first guess of the distance to an end. */
static double first_guess(const profile *q, const gd_lsq_result *fit, double t)
{
    double error = NAN; /* without one, only the guess is poorer */
    if (fit->standard_errors && !gd_read_f64(fit->standard_errors, q->x, q->n)) error = q->x[q->element];
    double size = fabs(q->best[q->element]), width = q->to - q->from;
    if (isfinite(error) && error > 0) return t * error;
    return 1e-3 * (isfinite(width) ? width : size > 0 ? size : 1);
}

gd_status gd_lsq_profile(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user), void *user,
                         const gd_lsq_options *options, const gd_lsq_result *fit, int64_t element, double t,
                         double *interval, bool *better)
{
    gd_lsq_options defaults = gd_lsq_defaults();
    if (better) *better = false;
    if (!params || count <= 0 || !params[0] || !fit || !interval) return GD_ARGUMENT;
    if (!residuals && !(options && options->rows)) return GD_ARGUMENT;
    if (options && options->loss != GD_LSQ_SQUARES)
        return gd_fail(params[0]->head.ctx, GD_ARGUMENT, "profile: intervals are those of squares, not of %s",
                       gd_lsq_loss_name(options->loss));
    profile q = {.ctx = params[0]->head.ctx,
                 .params = params,
                 .count = count,
                 .fn = residuals,
                 .user = user,
                 .element = element,
                 .rss = fit->rss,
                 .rise = fit->sigma * fit->sigma * t * t};
    if (options && options->sigma > 0) q.rise = options->sigma * options->sigma * t * t;
    gd_status status = begin(&q, options ? options : &defaults);
    if (!status) {
        interval[0] = q.from;
        interval[1] = q.to;
        double first = first_guess(&q, fit, t);
        bool any = isfinite(q.rise); /* else nothing is known except the bounds */
        if (any && q.rise == 0) interval[0] = interval[1] = q.best[element], any = false;
        for (int side = 0; side < 2 && any && !status && !q.better; side++)
            status = find_limited_end(&q, side ? 1 : -1, first, &interval[side]);
    }
    if (!status && q.better && better) *better = true;
    if (q.best && (status || !(better && *better))) {
        gd_status back = gd__list_write(params, count, q.best);
        if (!status) status = back;
    }
    if (q.best) gd__free(q.ctx, q.best, (size_t)(4 * q.n) * sizeof(double));
    return status;
}
