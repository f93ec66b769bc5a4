/* gradus fit --starts N: fits from several points, the best of them is refined.  The first is the given one; the others are a Latin
 * hypercube (McKay, Beckman & Conover 1979): each element has one point in every N - 1-th part of its range.  The range is that of the
 * bounds if both exist, logarithmic if they span many powers; else a tenth to ten times the start, or -1 to 1 around 0. */
#include "base/rng.h"
#include "fit/fit_job.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <string.h>

#define SAME   1e-6 /* relative difference of sums of squares that counts as none */
#define POWERS 100  /* a range of positive bounds from here on is taken logarithmically */

/* Number k of the stream that belongs to element i. */
static double draw_number(const gd_fit *j, int64_t i, int64_t k)
{
    uint32_t word[4];
    double pair[2];
    gd__philox_at(j->spec.seed, (uint64_t)k, (uint64_t)i + 1, word);
    gd__random_pair(0, 0x1p53, word, pair);
    return pair[0];
}

/* Where element i is at part u of its range. */
static double spread_out(const gd_fit *j, int64_t i, double u)
{
    double low = j->element.low[i], high = j->element.high[i], x = j->element.x[i];
    if (isfinite(low) && isfinite(high))
        return low > 0 && high > POWERS * low ? low * pow(high / low, u) : low + u * (high - low);
    x = x == 0 ? 2 * u - 1 : x * pow(10, 2 * u - 1);
    return fmin(fmax(x, low), high);
}

/* Points 1, 2, ... of the hypercube, [starts - 1, elements]. */
static void fill_points(const gd_fit *j, double *points)
{
    int64_t n = j->element.count, count = j->start.count - 1;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < count; k++) points[k * n + i] = (double)k;
        for (int64_t k = count - 1; k > 0; k--) { /* parts in an order by chance */
            int64_t other = (int64_t)(draw_number(j, i, k) * (double)(k + 1));
            double kept = points[k * n + i];
            points[k * n + i] = points[other * n + i];
            points[other * n + i] = kept;
        }
        for (int64_t k = 0; k < count; k++)
            points[k * n + i] = spread_out(
                j, i, (points[k * n + i] + draw_number(j, i, count + k)) / (double)count);
    }
}

/* A fit from the present parameters; *cost: the quantity to minimise, NAN after a failure. An interrupted fit has the cost of the point reached,
 * and the parameters are there. */
static gd_status try_start(gd_fit *j, const gd_lsq_options *o, double *cost)
{
    gd_lsq_result fit = {.solve.loss = NAN, .scale = NAN};
    *cost = NAN;
    gd_status status = gd_least_squares(j->param, j->params, gd__fit_residuals, j, o, &fit);
    if (status && status != GD_INTERRUPTED) return status;
    if (!status && fit.solve.reason == GD_STOP_CALLER)
        status = gd_fail(j->ctx, GD_INTERRUPTED, "fit: interrupted");
    /* losses of different scales are not comparable, their scales are */
    if (fit.solve.reason != GD_STOP_NOT_FINITE)
        *cost = j->robust.loss && !(j->robust.scale > 0) ? fit.scale : fit.solve.loss;
    gd_lsq_result_clear(&fit);
    return status;
}

/* The cost of every start; the parameters end at the best. */
static gd_status try_all(gd_fit *j, const gd_lsq_options *o, const double *points, double *best,
                         double *costs)
{
    double least = INFINITY;
    int64_t n = j->element.count;
    gd_trouble why = {.status = GD_OK};
    gd_status status = GD_OK;
    memcpy(best, j->element.x, (size_t)n * sizeof *best);
    for (int64_t k = 0; k < j->start.count && !status && !why.status; k++) {
        costs[k] = NAN;
        status = gd__list_write(j->param, j->params, k ? points + (k - 1) * n : j->element.x);
        if (!status) status = try_start(j, o, &costs[k]);
        gd__fit_tell(j, "start", k + 1, j->start.count, costs[k]);
        /* after an interruption too: the best point so far is the result */
        gd__put_aside(j->ctx, status, &why);
        status = GD_OK;
        if (!(costs[k] < least)) continue;
        least = costs[k];
        status = gd__list_read(j->param, j->params, best);
    }
    for (int64_t k = 0; k < j->start.count && !status && !why.status; k++)
        j->start.agreed += costs[k] <= least + SAME * fabs(least);
    gd__put_aside(j->ctx, status, &why);
    status = gd__list_write(j->param, j->params, best);
    if (!status && isfinite(least)) j->reached = least;
    return why.status ? gd__tell(j->ctx, &why, NULL, NULL) : status;
}

/* Fits from each of two points [2, elements]; ends: [2, elements]. */
static gd_status try_points(gd_fit *j, const gd_lsq_options *o, const double *points, double *ends,
                            double cost[2])
{
    gd_status status = GD_OK;
    int64_t n = j->element.count;
    for (int k = 0; k < 2 && !status; k++) {
        status = gd__list_write(j->param, j->params, points + k * n);
        if (!status) status = try_start(j, o, &cost[k]);
        /* cost and point of an interrupted one are the last ones reached */
        if (gd__list_read(j->param, j->params, ends + k * n)) cost[k] = NAN;
        gd__fit_tell(j, "start", k + 1, 2, cost[k]);
    }
    return status;
}

gd_status gd__fit_try_two(gd_fit *j, const gd_lsq_options *options, const double *one, bool *first)
{
    gd_lsq_options o = *options;
    int64_t n = j->element.count;
    size_t bytes = (size_t)(4 * n) * sizeof(double);
    double *points = gd__alloc(j->ctx, bytes), cost[2] = {NAN, NAN};
    if (!points) return GD_NOMEM;
    o.covariance = false;
    memcpy(points, one, (size_t)n * sizeof *points);
    gd_status status = gd__list_read(j->param, j->params, points + n);
    gd__fit_tell(j, "start", 0, 2, NAN);
    if (!status) status = try_points(j, &o, points, points + 2 * n, cost);
    gd__fit_tell_end(j);
    *first = cost[0] <= cost[1] || (isnan(cost[1]) && !isnan(cost[0]));
    double least = *first ? cost[0] : cost[1];
    /* from its start the fit repeats the same steps, with all reports; after an interruption the end itself is used */
    gd_trouble why = {.status = GD_OK};
    gd__put_aside(j->ctx, status, &why);
    status = gd__list_write(j->param, j->params, points + ((why.status ? 2 : 0) + (*first ? 0 : 1)) * n);
    if (!status && why.status && isfinite(least)) j->reached = least;
    gd__free(j->ctx, points, bytes);
    return why.status ? gd__tell(j->ctx, &why, NULL, NULL) : status;
}

gd_status gd__fit_try_starts(gd_fit *j, const gd_lsq_options *options)
{
    gd_lsq_options o = *options;
    size_t bytes = (size_t)(j->start.count * (j->element.count + 1)) * sizeof(double);
    double *points = gd__alloc(j->ctx, bytes);
    if (!points) return GD_NOMEM;
    double *best = points + (j->start.count - 1) * j->element.count, *costs = best + j->element.count;
    o.polish = o.covariance = false;
    gd_status status = gd__list_read(j->param, j->params, j->element.x);
    if (!status) {
        fill_points(j, points);
        gd__fit_tell(j, "start", 0, j->start.count, NAN);
        status = try_all(j, &o, points, best, costs);
        gd__fit_tell_end(j);
    }
    gd__free(j->ctx, points, bytes);
    return status;
}
