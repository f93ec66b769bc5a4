/* The scale of a robust loss: s = 1.4826 median|r| m / (m - n) of a Huber fit at that scale.
 *
 * A squares fit distorted by outliers gives a bad scale: the scale is large, at a large scale the loss is nearly a sum of squares, and the fit
 * stays in the wrong minimum.  So there are two runs, from the start of the
 * user and from the squares fit, the latter only if that has converged.  Each alternates a few steps with a new scale until the scale
 * has settled, and then converges at it. The run with the lower loss at the smaller of both scales is kept, and scale and Huber
 * fit take turns there until the scale no longer changes. */
#include "base/ctx.h"
#include "optim/solve/solve_robust.h"
#include "tensor/tensor_internal.h"

#include <math.h>

#define MAD    1.4826
#define ROUNDS 100 /* of fits and scales, in a run and at its end */
#define NEAR \
    0.01 /* change of the scale at which it has settled, and of the loss at which two minima differ */
#define SETTLED 1e-10 /* change of the scale that counts as none */
#define FALL \
    4 /* the scale falls at most by this factor in a stage: half of the points of a bad fit may lie close to it */

/* Where a run has ended. */
typedef struct run_end {
    bool there;
    double scale, *x;
} run_end;

/* The k-th smallest, by Hoare's selection; the order of v changes. */
static double select_smallest(double *v, int64_t count, int64_t k)
{
    for (int64_t low = 0, high = count - 1; low < high;) {
        double pivot = v[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot) i++;
            while (v[j] > pivot) j--;
            if (i > j) break;
            double other = v[i];
            v[i++] = v[j];
            v[j--] = other;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return v[k];
}

static bool is_scale(double scale) { return scale > 0 && isfinite(scale); }

/* 1.4826 median|r| m / (m - n), over the residuals with weight, at the present parameters; 0 or NAN if there are none. */
static gd_status measure_scale(gd_robust *q, int64_t free, double *scale)
{
    gd_status status = gd__robust_residuals(q);
    if (status) return status;
    int64_t none = q->options->weightless, m = q->m - none;
    bool finite = true;
    *scale = NAN;
    for (int64_t i = 0; i < q->m; i++) {
        q->size[i] = fabs(q->size[i]);
        finite = finite && isfinite(q->size[i]);
    }
    if (m <= free || !finite) return GD_OK;
    double median = select_smallest(q->size, q->m, none + m / 2);
    if (m % 2 == 0) median = (median + select_smallest(q->size, q->m, none + m / 2 - 1)) / 2;
    *scale = MAD * median * (double)m / (double)(m - free);
    return GD_OK;
}

static gd_status no_scale(gd_robust *q, int64_t free)
{
    int64_t m = q->m - q->options->weightless;
    if (m <= free)
        return gd_fail(q->ctx, GD_VALUE,
                       "least squares: %lld residuals for %lld parameters say nothing of their scale",
                       (long long)m, (long long)free);
    return gd_fail(q->ctx, GD_VALUE, "least squares: half of the residuals are 0: the loss %s wants a scale",
                   gd_lsq_loss_name(q->options->loss));
}

/* Parameters without equal bounds. */
static int64_t count_free(const gd_robust *q, int64_t n)
{
    const gd_lsq_options *o = q->options;
    int64_t free = n;
    for (int64_t i = 0; i < n && o->low && o->high; i++) free -= o->low[i] == o->high[i];
    return free;
}

/* Is the budget spent? */
static bool spent(gd_robust *q)
{
    gd_solve_options left;
    return !gd__budget_left(&q->budget, &left);
}

/* Alternates a few steps and a new scale from the present parameters, then fits at the settled scale. */
static gd_status alternate(gd_robust *q, int64_t free, double scale, run_end *end, gd_lsq_result *result)
{
    gd_status status = GD_OK;
    bool settled = false;
    end->there = false;
    for (int i = 0; i < ROUNDS && !settled; i++) {
        if (!is_scale(scale)) return GD_OK;
        q->scale = scale;
        if (spent(q)) break;
        gd_lsq_result_clear(result);
        status = gd__robust_step(q, GD_LSQ_HUBER, GD_ROBUST_FEW, result);
        if (!status && spent(q)) break;
        if (status || !gd__robust_usable(result)) return status;
        if ((status = measure_scale(q, result->active ? result->free : free, &scale))) return status;
        scale = fmax(scale, q->scale / FALL);
        settled = fabs(scale - q->scale) <= NEAR * q->scale;
    }
    if (!spent(q)) {
        gd_lsq_result_clear(result);
        status = gd__robust_step(q, GD_LSQ_HUBER, GD_ROBUST_CONVERGED, result);
    }
    end->there = !status && (q->budget.spent || gd__robust_usable(result));
    end->scale = q->scale;
    return status ? status : gd__list_read(q->params, q->count, end->x);
}

/* 2 s^2 sum rho(r / s) at the end of a run, of the requested loss. */
static gd_status loss_at(gd_robust *q, const run_end *end, double scale, double *loss)
{
    gd_status status = gd__list_write(q->params, q->count, end->x);
    if (!status) status = gd__robust_residuals(q);
    *loss = 0;
    for (int64_t i = 0; i < q->m && !status; i++)
        *loss += 2 * scale * scale * gd__robust_loss(q->options->loss, q->size[i] / scale);
    return status;
}

/* The parameters and q->scale at the better of two ends. */
static gd_status keep_lower(gd_robust *q, const run_end *start, const run_end *squares)
{
    const run_end *best = squares->there ? squares : start;
    if (start->there && squares->there) {
        double scale = fmin(start->scale, squares->scale), from_start, from_squares;
        gd_status status = loss_at(q, start, scale, &from_start);
        if (!status) status = loss_at(q, squares, scale, &from_squares);
        if (status) return status;
        bool differ = fabs(from_start - from_squares) > NEAR * fmin(from_start, from_squares);
        if (from_start < from_squares) best = start;
        if (differ)
            gd_warn(q->ctx,
                    "least squares: the loss %s has two minima: %.6g from the start, %.6g from the fit of "
                    "squares, both at the scale %.6g; the lower one is kept",
                    gd_lsq_loss_name(q->options->loss), from_start, from_squares, scale);
    }
    q->scale = best->scale;
    return gd__list_write(q->params, q->count, best->x);
}

/* Alternates Huber fits and scales until the scale no longer changes. */
static gd_status settle(gd_robust *q, int64_t free, gd_lsq_result *result)
{
    gd_status status = GD_OK;
    for (int i = 0; i < ROUNDS && !status && !spent(q); i++) {
        double scale = 0;
        gd_lsq_result_clear(result);
        status = gd__robust_step(q, GD_LSQ_HUBER, GD_ROBUST_CONVERGED, result);
        if (status || spent(q) || !gd__robust_usable(result)) break;
        free = result->free;
        if ((status = measure_scale(q, free, &scale))) break;
        if (!is_scale(scale)) return no_scale(q, free);
        bool settled = fabs(scale - q->scale) <= SETTLED * scale;
        q->scale = scale;
        if (settled) break;
    }
    return status;
}

/* A run from the squares fit, if that has converged.  alone: the user's start gave no run, so this one must find a scale. */
static gd_status from_squares(gd_robust *q, bool alone, run_end *end, gd_lsq_result *result)
{
    double scale = NAN;
    gd_lsq_result_clear(result);
    gd_status status = gd__robust_step(q, GD_LSQ_SQUARES, GD_ROBUST_CONVERGED, result);
    bool go_on = alone ? gd__robust_usable(result) : gd_stop_converged(result->solve.reason);
    if (status || spent(q) || !go_on) return status;
    int64_t free = result->free;
    if ((status = measure_scale(q, free, &scale))) return status;
    if (!is_scale(scale)) return alone ? no_scale(q, free) : GD_OK;
    status = alternate(q, free, scale, end, result);
    return status || end->there || !alone || q->budget.spent ? status : no_scale(q, free);
}

/* After the run from the start: the run from the squares fit, and which of both is kept. */
static gd_status second_run(gd_robust *q, const run_end *start, run_end *squares, const double *begun,
                            gd_lsq_result *result)
{
    gd_status status = gd__list_write(q->params, q->count, begun);
    if (!status) status = from_squares(q, !start->there, squares, result);
    if (status || (!start->there && !squares->there)) return status;
    return keep_lower(q, start, squares);
}

static gd_status run_both(gd_robust *q, double *room, int64_t n, gd_lsq_result *result)
{
    run_end start = {.x = room + n}, squares = {.x = room + 2 * n};
    gd_origin best = {0};
    double scale = NAN;
    int64_t free = count_free(q, n);
    gd_status status = gd__list_read(q->params, q->count, room);
    if (!status) status = measure_scale(q, free, &scale);
    if (!status) status = alternate(q, free, scale, &start, result);
    if (status || q->budget.spent) return status;
    if (start.there) status = gd__origin_keep(&best, q->ctx, q->params, q->count);
    if (!status) status = second_run(q, &start, &squares, room, result);
    /* after a failure of the function the parameters are at the best point, not at that of the other run */
    gd_status back = status ? gd__origin_return(&best) : GD_OK;
    gd__origin_free(&best);
    if (status) return status;
    return back || (!start.there && !squares.there) ? back : settle(q, free, result);
}

gd_status gd__robust_find_scale(gd_robust *q, gd_lsq_result *result)
{
    int64_t n = gd__list_numel(q->params, q->count);
    size_t bytes = (size_t)(3 * n) * sizeof(double);
    double *room = n ? gd__alloc(q->ctx, bytes) : NULL;
    if (n && !room) return GD_NOMEM;
    gd_status status = n ? run_both(q, room, n, result)
                         : gd_fail(q->ctx, GD_SHAPE, "least squares: no parameters");
    if (room) gd__free(q->ctx, room, bytes);
    return status;
}
