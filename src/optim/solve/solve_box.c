/* Bounds of a least-squares fit: steps inside box and trust region with a true active set.
 *
 * A parameter is active where it lies on a bound and its multiplier, the slope of the loss into the box, is positive; near a bound
 * does not count as on it.  A step minimises the linear model over the free parameters in the trust region; where that leaves the
 * box it goes as far as the first bound, fixes what is there, and minimises again over the others.  Box and ball are convex
 * and every leg goes to a minimum over what is still free, so the model falls on every leg, and a start on a bound, or next to one,
 * costs one leg.  Points that reach a bound are put on it bit for bit. */
#include "base/ctx.h"
#include "optim/solve/solve_fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LEGS  64   /* of a step; one that has not ended by then stops at a bound */
#define NUDGE 1e-6 /* of a start on a bound where the model is not finite */

/* ---- the box ---- */

static size_t room(const gd_lsq *p) { return (size_t)(2 * p->n) * sizeof(double); }

/* Bounds rounded to the dtypes of the parameters, so that a parameter can be exactly on one: each is written to and read from the parameters. */
static gd_status round_bounds(gd_lsq *p)
{
    gd_status status = GD_OK;
    for (double *bound = p->low; bound <= p->high && !status; bound += p->n) {
        status = gd__list_write(p->params, p->count, bound);
        if (!status) status = gd__list_read(p->params, p->count, bound);
    }
    return status;
}

static gd_status check_bounds(const gd_lsq *p)
{
    for (int64_t i = 0; i < p->n; i++)
        if (!(p->low[i] <= p->high[i]) || p->low[i] == INFINITY || p->high[i] == -INFINITY)
            return gd_fail(p->ctx, GD_ARGUMENT, "least squares: element %lld: no number is between %g and %g",
                           (long long)i, p->low[i], p->high[i]);
    return GD_OK;
}

gd_status gd__box_begin(gd_lsq *p)
{
    const gd_lsq_options *o = p->options;
    if (!o->low && !o->high) return GD_OK;
    if (!(p->low = gd__alloc(p->ctx, room(p)))) return GD_NOMEM;
    p->high = p->low + p->n;
    if (!(p->fixed = gd__calloc(p->ctx, (size_t)p->n * sizeof *p->fixed))) return GD_NOMEM;
    if (!(p->hit = gd__calloc(p->ctx, (size_t)p->n * sizeof *p->hit))) return GD_NOMEM;
    for (int64_t i = 0; i < p->n; i++) {
        p->low[i] = o->low ? o->low[i] : -INFINITY;
        p->high[i] = o->high ? o->high[i] : INFINITY;
    }
    gd_status status = check_bounds(p);
    if (status) return status;
    status = round_bounds(p);
    if (!status) gd__box_clamp(p, p->x);
    gd_status back = gd__list_write(p->params, p->count, p->x);
    return status ? status : back;
}

void gd__box_end(gd_lsq *p)
{
    if (p->hit) gd__free(p->ctx, p->hit, (size_t)p->n * sizeof *p->hit);
    if (p->fixed) gd__free(p->ctx, p->fixed, (size_t)p->n * sizeof *p->fixed);
    if (p->low) gd__free(p->ctx, p->low, room(p));
}

void gd__box_clamp(const gd_lsq *p, double *x)
{
    for (int64_t i = 0; i < p->n && p->low; i++) {
        x[i] = p->hit[i] < 0 ? p->low[i] : p->hit[i] > 0 ? p->high[i] : x[i];
        x[i] = x[i] < p->low[i] ? p->low[i] : x[i] > p->high[i] ? p->high[i] : x[i];
    }
}

void gd__box_forget(gd_lsq *p)
{
    for (int64_t i = 0; i < p->n && p->low; i++) p->hit[i] = 0;
}

bool gd__box_nudge(gd_lsq *p)
{
    bool moved = false;
    for (int64_t i = 0; i < p->n && p->low; i++) {
        double *x = &p->x[i], width = p->high[i] - p->low[i];
        if (width == 0 || (*x != p->low[i] && *x != p->high[i])) continue;
        double by = NUDGE * (isfinite(width) ? width : fmax(1, fabs(*x)));
        *x += *x == p->low[i] ? by : -by;
        moved = true;
    }
    return moved;
}

/* ---- the active set ---- */

int gd__box_active(const gd_lsq *p, int64_t i)
{
    if (!p->low) return 0;
    bool low = p->x[i] == p->low[i], high = p->x[i] == p->high[i];
    /* below this a multiplier is rounding of its sum */
    double g = p->model.gradient[i], noise = 8 * DBL_EPSILON * p->model.columns[i] * sqrt(p->f);
    if (low && (high || g > noise)) return -1;
    return high && g < -noise ? 1 : 0;
}

gd_status gd__box_free(gd_lsq *p)
{
    bool any = false, same = true;
    for (int64_t i = 0; i < p->n && p->low; i++) {
        p->fixed[i] = gd__box_active(p, i) != 0;
        any = any || p->fixed[i];
        same = same && p->fixed[i] == p->model.fixed[i];
    }
    /* if steps skipped columns of the model, their displacement is still part of the model */
    if (!p->low || (same && !any)) return GD_OK;
    return gd__lm_restrict(&p->model, p->fixed, NULL);
}

double gd__box_gradient(const gd_lsq *p)
{
    double most = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double g = 2 * p->model.gradient[i];
        if (p->low) g = fmin(fmax(g, p->x[i] - p->high[i]), p->x[i] - p->low[i]);
        most = fmax(most, fabs(g));
    }
    return most;
}

/* ---- a step ---- */

/* How far along s -> target parameter i can go: 1 where it stays inside. */
static double reach(const gd_lsq *p, int64_t i, double target, int *side)
{
    double here = p->x[i] + p->s[i] / p->model.scale[i], there = p->x[i] + target / p->model.scale[i];
    *side = there < p->low[i] ? -1 : there > p->high[i] ? 1 : 0;
    if (!*side) return 1;
    double bound = *side < 0 ? p->low[i] : p->high[i];
    return fmin(fmax((bound - here) / (there - here), 0), 1);
}

/* From p->s towards the target, to the first bound; elements there become fixed.  True at the target. */
static bool walk_in_box(gd_lsq *p, const double *target)
{
    double far = 1;
    int side;
    bool ended = true;
    for (int64_t i = 0; i < p->n; i++)
        if (!p->fixed[i]) far = fmin(far, reach(p, i, target[i], &side));
    for (int64_t i = 0; i < p->n; i++) {
        if (p->fixed[i]) continue;
        double own = reach(p, i, target[i], &side);
        if (side && own <= far) {
            p->s[i] = ((side < 0 ? p->low[i] : p->high[i]) - p->x[i]) * p->model.scale[i];
            p->hit[i] = (signed char)side;
            p->fixed[i] = true;
            ended = false;
        } else
            p->s[i] += far * (target[i] - p->s[i]);
    }
    return ended;
}

/* The radius that is left for the free parameters. */
static double left_of(const gd_lsq *p)
{
    double used = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (p->fixed[i]) used = hypot(used, p->s[i] / p->radius);
    return used < 1 ? p->radius * sqrt((1 - used) * (1 + used)) : 0;
}

gd_status gd__box_step(gd_lsq *p)
{
    gd_status status = gd__box_free(p);
    memset(p->s, 0, (size_t)p->n * sizeof *p->s);
    gd__box_forget(p);
    for (int leg = 0; leg < LEGS && !status; leg++) {
        double radius = left_of(p);
        if (!(radius > 1e-3 * p->radius)) break;
        if (leg) status = gd__lm_restrict(&p->model, p->fixed, p->s);
        if (status) break;
        gd__lm_step(&p->model, radius, &p->lambda, p->a);
        if (walk_in_box(p, p->a)) break;
    }
    gd__lm_predict_for(&p->model, p->s, &p->decrease, &p->slope);
    return status;
}
