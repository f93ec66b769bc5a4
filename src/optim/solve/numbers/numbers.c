/* gd_lsq_solve: checks of the arguments, derivatives by differences, and losses other than squares. */
#include "optim/solve/numbers/numbers.h"
#include "optim/solve/solve_robust.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEW    5  /* steps between two scales of a loss */
#define STAGES 50 /* scales that are tried */

/* ---- evaluating ---- */

/* r with r^2 / 2 = s^2 rho(r / s), and its derivative. */
static double bend(const gd_numbers *p, double r, double *slope)
{
    double z = r / p->loss_scale, bent = p->loss_scale * sqrt(2 * gd__robust_loss(p->loss, z));
    *slope = fabs(z) < 1e-6 ? 1 : fabs(r) * gd_lsq_loss_weight(p->loss, z) / bent;
    return fabs(z) < 1e-6 ? r : copysign(bent, r);
}

static gd_status call_residual(gd_numbers *p, const double *x, double *r)
{
    p->evals++;
    gd_status status = p->problem->residual(p->problem->user, x, r);
    if (status && !gd_error(p->ctx)) gd_fail(p->ctx, status, "least squares: the residuals failed");
    return status;
}

gd_status gd__numbers_residuals(gd_numbers *p, const double *x, double *r, double *f)
{
    double slope;
    *f = 0;
    gd_status status = call_residual(p, x, r);
    if (status) return status;
    if (!(p->loss_scale > 0)) *f = gd__numbers_product(r, r, 0, p->m);
    for (int64_t i = 0; i < p->m && p->loss_scale > 0; i++) {
        double bent = bend(p, r[i], &slope);
        *f += bent * bent;
    }
    if (!isfinite(*f)) *f = NAN;
    return GD_OK;
}

/* ---- differences ---- */

/* A step that stays inside the bounds and changes the number. */
static double step_of(const gd_numbers *p, double x, int64_t i)
{
    double h = sqrt(DBL_EPSILON) * (x != 0 ? fabs(x) : 1);
    double low = p->options->low ? p->options->low[i] : -INFINITY,
           high = p->options->high ? p->options->high[i] : INFINITY;
    if (x + h > high) h = x - h >= low ? -h : (high - x > x - low ? high - x : low - x);
    volatile double moved = x + h;
    return moved - x;
}

static gd_status differences(gd_numbers *p, const double *x, const double *r, double *j)
{
    bool sparse = p->a.sparse;
    int64_t groups = sparse ? p->groups : p->n;
    gd_status status = GD_OK;
    memcpy(p->s, x, (size_t)p->n * sizeof *p->s);
    for (int64_t g = 0; g < groups && !status; g++) {
        for (int64_t c = sparse ? 0 : g; c < (sparse ? p->n : g + 1); c++)
            if (!sparse || p->group[c] == g) p->s[c] += p->d[c] = step_of(p, x[c], c);
        status = call_residual(p, p->s, p->moved);
        for (int64_t c = sparse ? 0 : g; c < (sparse ? p->n : g + 1) && !status; c++) {
            if (sparse && p->group[c] != g) continue;
            p->s[c] = x[c];
            int64_t from = sparse ? p->a.j.down[c] : 0, to = sparse ? p->a.j.down[c + 1] : p->m;
            for (int64_t k = from; k < to; k++) {
                int64_t row = sparse ? p->a.j.row[k] : k;
                j[sparse ? p->a.j.at[k] : k * p->n + c] = p->d[c] == 0 ? 0
                                                                       : (p->moved[row] - r[row]) / p->d[c];
            }
        }
    }
    return status;
}

/* Residuals and rows of the Jacobian, transformed by the loss. */
static void bend_all(gd_numbers *p, double *r, double *j)
{
    if (!(p->loss_scale > 0)) return;
    for (int64_t i = 0; i < p->m; i++) {
        double slope;
        int64_t from = p->a.sparse ? p->a.j.start[i] : i * p->n,
                to = p->a.sparse ? p->a.j.start[i + 1] : (i + 1) * p->n;
        r[i] = bend(p, r[i], &slope);
        for (int64_t e = from; e < to; e++) j[e] *= slope;
    }
}

/* 0 times what is not finite is NaN. */
static bool all_finite(const double *x, int64_t n)
{
    gd_four none = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) none += 0 * *(const gd_four *)(const void *)(x + i);
    for (; i < n; i++) none[0] += 0 * x[i];
    return none[0] + none[1] + (none[2] + none[3]) == 0;
}

gd_status gd__numbers_jacobian(gd_numbers *p, const double *x, double *r, double *j, bool *finite)
{
    gd_status status;
    if (p->problem->jacobian) {
        status = p->problem->jacobian(p->problem->user, x, j);
        if (status && !gd_error(p->ctx)) gd_fail(p->ctx, status, "least squares: the Jacobian failed");
    } else
        status = differences(p, x, r, j);
    if (status) return status;
    *finite = all_finite(j, p->entries);
    bend_all(p, r, j);
    return GD_OK;
}

/* ---- other losses ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* 1.4826 median |r|, for m residuals of n free parameters; p->there is used up. */
static gd_status spread_of(gd_numbers *p, double *scale)
{
    double save = p->loss_scale, f, middle;
    int64_t counted = p->m - p->options->weightless;
    p->loss_scale = 0;
    gd_status status = gd__numbers_residuals(p, p->x, p->there, &f);
    p->loss_scale = save;
    if (status) return status;
    for (int64_t i = 0; i < p->m; i++) p->there[i] = fabs(p->there[i]);
    qsort(p->there, (size_t)p->m, sizeof *p->there, by_size);
    const double *sorted = p->there + (p->m - counted); /* those of weight 0 are 0 and come first */
    middle = counted % 2 ? sorted[counted / 2] : 0.5 * (sorted[counted / 2 - 1] + sorted[counted / 2]);
    if (counted <= p->n || !(middle > 0) || !isfinite(middle))
        return gd_fail(
            p->ctx, GD_VALUE,
            "least squares: half of the residuals are 0, not finite, or too few for a scale: give loss_scale");
    *scale = 1.4826 * middle * (double)counted / (double)(counted - p->n);
    return GD_OK;
}

/* No more steps: later fits stop at their start. */
static bool spent(const gd_numbers *p)
{
    int64_t most = p->options->solve.max_steps;
    return p->reason == GD_STOP_NOT_FINITE || p->reason == GD_STOP_CALLER || p->reason == GD_STOP_TIME ||
           p->reason == GD_STOP_MAX_EVALS || (most && p->steps >= most);
}

/* Huber fits of a few steps, each with the scale at its start, until the scale settles: METHODS "Scale of robust losses". */
static gd_status settle_scale(gd_numbers *p)
{
    gd_lsq_options few = *p->options;
    const gd_lsq_options *whole = p->options;
    double scale = 0;
    gd_status status = spread_of(p, &scale);
    few.polish = false;
    for (int k = 0; k < STAGES && !status; k++) {
        few.solve.max_steps = p->steps + FEW;
        if (whole->solve.max_steps && whole->solve.max_steps < few.solve.max_steps)
            few.solve.max_steps = whole->solve.max_steps;
        p->loss_scale = scale;
        p->options = &few;
        status = gd__numbers_run(p);
        p->options = whole;
        double next = 0;
        if (status || spent(p)) break;
        if ((status = spread_of(p, &next))) break;
        next = fmax(next, scale / 4);
        bool same = fabs(next - scale) <= 0.01 * scale;
        scale = next;
        if (same) break;
    }
    p->loss_scale = scale;
    return status;
}

static double loss_at_end(gd_numbers *p, double scale, gd_status *status)
{
    double save = p->loss_scale, f = INFINITY;
    p->loss_scale = scale;
    if (!*status) *status = gd__numbers_residuals(p, p->x, p->there, &f);
    p->loss_scale = save;
    return isfinite(f) ? f : INFINITY;
}

/* Two runs, from the start and from the fit of squares; the one with the lower loss at the smaller scale is kept. */
static gd_status find_scale(gd_numbers *p, double *room)
{
    size_t bytes = (size_t)p->n * sizeof *room;
    double *start = room, *first = room + p->n;
    memcpy(start, p->x, bytes);
    gd_status status = settle_scale(p);
    double scale = p->loss_scale;
    memcpy(first, p->x, bytes);
    if (status || spent(p)) return status;
    memcpy(p->x, start, bytes);
    p->loss_scale = 0;
    status = gd__numbers_run(p);
    bool usable = !status && gd_stop_converged(p->reason);
    if (usable) status = settle_scale(p);
    double other = p->loss_scale, smaller = usable ? fmin(scale, other) : scale, here = INFINITY, there;
    if (usable) here = loss_at_end(p, smaller, &status);
    memcpy(start, p->x, bytes);
    memcpy(p->x, first, bytes);
    p->loss_scale = scale;
    if (status || !usable) return status;
    there = loss_at_end(p, smaller, &status);
    if (fabs(here - there) > 0.01 * fmin(here, there))
        gd_warn(p->ctx, "least squares: two minima of the loss, %g and %g: the lower one is taken",
                fmin(here, there), fmax(here, there));
    if (here < there) {
        memcpy(p->x, start, bytes);
        p->loss_scale = other;
    }
    return status;
}

static gd_status robust(gd_numbers *p, double *room)
{
    gd_lsq_loss loss = p->options->loss;
    gd_status status = GD_OK;
    p->loss = GD_LSQ_HUBER;
    p->loss_scale = p->options->loss_scale;
    if (p->options->loss_scale == 0)
        status = find_scale(p, room);
    else if (loss == GD_LSQ_TUKEY)
        status = gd__numbers_run(p);
    if (status || p->reason == GD_STOP_NOT_FINITE) return status;
    p->loss = loss;
    return gd__numbers_run(p);
}

/* ---- the whole ---- */

static gd_status check_structure(gd_ctx *ctx, const gd_lsq_problem *p)
{
    if (!p->row_start) return GD_OK;
    if (p->row_start[0])
        return gd_fail(ctx, GD_SHAPE, "least squares: row_start begins with %lld, must be 0",
                       (long long)p->row_start[0]);
    for (int64_t i = 0; i < p->residuals; i++) {
        if (p->row_start[i + 1] < p->row_start[i])
            return gd_fail(ctx, GD_SHAPE, "least squares: row_start falls after row %lld", (long long)i);
        for (int64_t e = p->row_start[i]; e < p->row_start[i + 1]; e++)
            if (p->column[e] < 0 || p->column[e] >= p->params ||
                (e > p->row_start[i] && p->column[e] <= p->column[e - 1]))
                return gd_fail(
                    ctx, GD_SHAPE,
                    "least squares: row %lld: column %lld is outside 0 .. %lld or not above the one before it",
                    (long long)i, (long long)p->column[e], (long long)p->params - 1);
    }
    return GD_OK;
}

static gd_status check_bounds(gd_ctx *ctx, const gd_lsq_problem *p, const gd_lsq_options *o)
{
    for (int64_t i = 0; i < p->params; i++) {
        double low = o->low ? o->low[i] : -INFINITY, high = o->high ? o->high[i] : INFINITY;
        if (!(low <= high))
            return gd_fail(ctx, GD_ARGUMENT, "least squares: element %lld: bounds %g and %g leave nothing",
                           (long long)i, low, high);
    }
    for (int64_t i = 0; o->chosen && i < o->chosen_count; i++)
        if (o->chosen[i] < 0 || o->chosen[i] >= p->params)
            return gd_fail(ctx, GD_INDEX, "least squares: chosen[%lld] is %lld, there are elements 0 to %lld",
                           (long long)i, (long long)o->chosen[i], (long long)p->params - 1);
    return GD_OK;
}

static gd_status check_problem(gd_ctx *ctx, const gd_lsq_problem *p, const gd_lsq_options *o)
{
    if (p->residuals <= 0 || p->params <= 0 || p->residuals > INT32_MAX || p->params > INT32_MAX)
        return gd_fail(ctx, GD_ARGUMENT, "least squares: %lld residuals and %lld parameters",
                       (long long)p->residuals, (long long)p->params);
    if (!p->residual || (p->row_start && !p->column))
        return gd_fail(ctx, GD_ARGUMENT, "least squares: %s",
                       p->residual ? "row_start without column" : "no residuals");
    if (o->rows) return gd_fail(ctx, GD_ARGUMENT, "least squares: rows are for residuals made of operators");
    if ((unsigned)o->loss >= GD_LSQ_LOSS_COUNT || !(o->loss_scale >= 0) || isinf(o->loss_scale))
        return gd_fail(ctx, GD_ARGUMENT, "least squares: no such loss, or a scale that is none");
    gd_status status = gd__lsq_check_options(ctx, o);
    if (!status) status = check_structure(ctx, p);
    return status ? status : check_bounds(ctx, p, o);
}

static gd_status make_numbers(gd_numbers *p, double **block)
{
    size_t numbers = (size_t)(8 * p->n + 3 * p->m) + 2 * (size_t)p->entries;
    p->bytes = numbers * sizeof(double) + (size_t)p->n;
    double *at = *block = gd__calloc(p->ctx, p->bytes);
    if (!at) return GD_NOMEM;
    double **of_n[] = {&p->x, &p->trial, &p->scale, &p->g, &p->s, &p->d},
           **of_m[] = {&p->r, &p->there, &p->moved};
    at += 2 * p->n;
    for (int i = 0; i < 6; i++, at += p->n) *of_n[i] = at;
    for (int i = 0; i < 3; i++, at += p->m) *of_m[i] = at;
    p->j = at, at += p->entries;
    p->next = at, at += p->entries;
    p->fixed = (bool *)at;
    return GD_OK;
}

/* Residuals and Jacobian at the end without transformation, for the results. */
static gd_status look_unbent(gd_numbers *p)
{
    double save = p->loss_scale, f = 0;
    bool finite = false;
    if (!(save > 0)) return GD_OK;
    p->loss_scale = 0;
    gd_status status = gd__numbers_residuals(p, p->x, p->r, &f);
    if (!status) status = gd__numbers_jacobian(p, p->x, p->r, p->j, &finite);
    p->loss_scale = save;
    return status;
}

static gd_status report(gd_numbers *p, gd_lsq_result *out)
{
    double loss = p->f;
    bool usable = p->reason != GD_STOP_NOT_FINITE && p->reason != GD_STOP_ERROR;
    double gradient = usable ? gd__numbers_gradient(p) : NAN;
    gd_status status = usable ? look_unbent(p) : GD_OK;
    out->rss = usable ? 0 : NAN;
    for (int64_t i = 0; i < p->m && usable; i++) out->rss += p->r[i] * p->r[i];
    out->residuals = p->m;
    out->free = p->n;
    out->dof = p->m - p->options->weightless - p->n;
    if (p->loss_scale > 0) out->scale = out->sigma = p->loss_scale;
    if (!status && usable) status = gd__numbers_result(p, out);
    out->solve = (gd_solve_result){.reason = p->reason,
                                   .converged = gd_stop_converged(p->reason),
                                   .loss = loss,
                                   .gradient_norm = gradient,
                                   .steps = p->steps,
                                   .evals = p->evals,
                                   .seconds = gd__seconds() - p->start,
                                   .derivatives = p->problem->jacobian ? GD_DERIVATIVES_EXACT
                                                                       : GD_DERIVATIVES_DIFFERENCES};
    return status;
}

static gd_status fit_numbers(gd_numbers *p, double *x, double **block, gd_lsq_result *out)
{
    gd_status status = gd__damped_begin(p->ctx, p->problem, &p->a);
    p->entries = p->a.entries;
    if (!status) status = make_numbers(p, block);
    if (!status && p->a.sparse && !p->problem->jacobian)
        status = gd__csr_groups(p->ctx, &p->a.j, &p->group, &p->groups);
    if (status) return status;
    for (int64_t i = 0; i < p->n; i++) {
        double low = p->options->low ? p->options->low[i] : -INFINITY,
               high = p->options->high ? p->options->high[i] : INFINITY;
        p->x[i] = fmin(fmax(x[i], low), high);
    }
    if (p->round) p->round(p->problem->user, p->x);
    status = p->options->loss == GD_LSQ_SQUARES ? gd__numbers_run(p) : robust(p, *block);
    memcpy(x, p->x, (size_t)p->n * sizeof *x); /* after a failure too: the best point */
    return status ? status : report(p, out);
}

gd_status gd__numbers_solve(gd_ctx *ctx, const gd_lsq_problem *problem, double *x,
                            const gd_lsq_options *options, void (*round)(void *user, double *x),
                            gd_lsq_result *result)
{
    gd_lsq_options defaults = gd_lsq_defaults();
    gd_lsq_result unused, *out = result ? result : &unused;
    *out = (gd_lsq_result){
        .solve = {.reason = GD_STOP_ERROR, .loss = NAN}, .sigma = NAN, .rss = NAN, .scale = NAN};
    if (!ctx) return GD_ARGUMENT;
    if (gd_error(ctx)) return gd_error(ctx);
    if (!problem || !x) return gd_fail(ctx, GD_ARGUMENT, "least squares: no problem, or no start");
    gd_numbers p = {.ctx = ctx,
                    .problem = problem,
                    .options = options ? options : &defaults,
                    .round = round,
                    .m = problem->residuals,
                    .n = problem->params,
                    .start = gd__seconds(),
                    .reason = GD_STOP_ERROR};
    double *block = NULL;
    gd_status status = check_problem(ctx, problem, p.options);
    if (!status) status = fit_numbers(&p, x, &block, out);
    if (block) gd__free(ctx, block, p.bytes);
    if (p.group) gd__free(ctx, p.group, (size_t)p.n * sizeof *p.group);
    gd__damped_end(&p.a);
    if (status && gd_error(ctx)) status = gd_error(ctx);
    if (status || !result) gd_lsq_result_clear(out);
    return status;
}

gd_status gd_lsq_solve(gd_ctx *ctx, const gd_lsq_problem *problem, double *x, const gd_lsq_options *options,
                       gd_lsq_result *result)
{
    return gd__numbers_solve(ctx, problem, x, options, NULL, result);
}
