/* Levenberg-Marquardt on numbers: damping by Nielsen (1999), columns scaled by the largest norms so far (More 1978), bounds by an active
 * set, and Gauss-Newton steps at the end for the last digits. */
#include "optim/solve/numbers/numbers.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define FIRST_DAMPING 1e-3 /* relative to columns of norm 1 */
#define MOST_DAMPING  1e20
#define TAKEN         1e-4 /* of the decrease that the model predicts */
#define GOOD          0.1  /* a ratio so near 1 lets the damping fall faster than by 1 / 3, */
#define FASTER        0.03 /* by this */
#define HITS          20   /* rounds in which bounds that a step reaches are added */
#define POLISHES      10
#define ROUNDING \
    (16 * DBL_EPSILON) /* of the loss: rounding differences of sums of squares at the same point */
#define SHORTEST (2 * DBL_EPSILON) /* step, by the parameters: it is mostly the rounding of x + d */

static double norm(const double *v, const double *scale, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = scale ? v[i] * scale[i] : v[i];
        sum += x * x;
    }
    return sqrt(sum);
}

static void stop(gd_numbers *p, gd_stop reason)
{
    if (!p->stopped) p->reason = reason;
    p->stopped = true;
}

static double low(const gd_numbers *p, int64_t i) { return p->options->low ? p->options->low[i] : -INFINITY; }
static double high(const gd_numbers *p, int64_t i)
{
    return p->options->high ? p->options->high[i] : INFINITY;
}

int gd__numbers_active(const gd_numbers *p, int64_t i)
{
    if (p->x[i] <= low(p, i) && (p->g[i] > 0 || low(p, i) == high(p, i))) return -1;
    return p->x[i] >= high(p, i) && p->g[i] < 0 ? 1 : 0;
}

double gd__numbers_gradient(const gd_numbers *p)
{
    double largest = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double to = fmin(fmax(p->x[i] - 2 * p->g[i], low(p, i)), high(p, i));
        largest = fmax(largest, fabs(p->x[i] - to));
    }
    return largest;
}

static bool out_of_time(const gd_numbers *p)
{
    const gd_solve_options *o = &p->options->solve;
    return o->max_seconds > 0 && gd__seconds() - p->start >= o->max_seconds;
}

static bool out_of_evals(const gd_numbers *p)
{
    const gd_solve_options *o = &p->options->solve;
    return o->max_evals && p->evals >= o->max_evals;
}

static void check_limits(gd_numbers *p)
{
    const gd_solve_options *o = &p->options->solve;
    if (o->max_steps && p->steps >= o->max_steps) stop(p, GD_STOP_MAX_STEPS);
    if (out_of_evals(p)) stop(p, GD_STOP_MAX_EVALS);
    if (out_of_time(p)) stop(p, GD_STOP_TIME);
}

#define FEW_COLUMNS 8 /* read together: their rows stay in the cache */

/* J^T r and the squares of the columns, in one pass over a dense J. */
static void square_columns(gd_numbers *p, double *column)
{
    int64_t m = p->m, n = p->n;
    if (n > FEW_COLUMNS) {
        gd__damped_transposed(&p->a, p->j, p->r, p->g);
        memset(column, 0, (size_t)n * sizeof *column);
        for (int64_t e = 0; e < p->entries; e += n)
            for (int64_t c = 0; c < n; c++) column[c] += p->j[e + c] * p->j[e + c];
        return;
    }
    for (int64_t c = 0; c < n; c++) {
        const double *j = p->j + c, *r = p->r;
        double slope = 0, square = 0;
        for (int64_t i = 0; i < m; i++, j += n) slope += *j * r[i], square += *j * *j;
        p->g[c] = slope;
        column[c] = square;
    }
}

/* Gradient and scale from the present Jacobian. */
static void measure_columns(gd_numbers *p)
{
    double *column = p->d;
    if (p->a.sparse) {
        gd__damped_transposed(&p->a, p->j, p->r, p->g);
        memset(column, 0, (size_t)p->n * sizeof *column);
        for (int64_t e = 0; e < p->entries; e++) column[p->a.j.column[e]] += p->j[e] * p->j[e];
    } else
        square_columns(p, column);
    for (int64_t i = 0; i < p->n; i++) {
        double size = sqrt(column[i]);
        p->scale[i] = fmax(p->scale[i], size);
        if (!(p->scale[i] > 0)) p->scale[i] = 1;
    }
}

/* ---- a step inside the bounds ---- */

/* Free elements that the step takes out of the box go to the bound and stay there; true if there were some. */
static bool hit_bounds(gd_numbers *p)
{
    bool hit = false;
    for (int64_t i = 0; i < p->n; i++) {
        if (p->fixed[i]) continue;
        double to = p->x[i] + p->s[i] / p->scale[i], inside = fmin(fmax(to, low(p, i)), high(p, i));
        if (to == inside) continue;
        p->fixed[i] = hit = true;
        p->d[i] = inside - p->x[i];
    }
    return hit;
}

/* p->d, p->trial: the damped step of the free elements. */
static gd_status aim_step(gd_numbers *p, double lambda)
{
    bool bounded = p->options->low || p->options->high;
    memset(p->d, 0, (size_t)p->n * sizeof *p->d);
    for (int64_t i = 0; i < p->n; i++) p->fixed[i] = bounded && gd__numbers_active(p, i);
    const double *r = p->r;
    for (int round = 0;; round++) {
        gd_status status = GD_OK;
        /* without bounds the same system serves all dampings */
        if (bounded || p->a.value != p->j || p->a.r != p->r)
            status = gd__damped_set(&p->a, p->j, p->scale, r, p->fixed);
        if (!status) status = gd__damped_solve(&p->a, lambda, p->s, NULL);
        if (status) return status;
        if (!bounded || round == HITS || !hit_bounds(p)) break;
        gd__damped_times(&p->a, p->j, p->d, p->moved);
        for (int64_t i = 0; i < p->m; i++) p->moved[i] += p->r[i];
        r = p->moved;
    }
    for (int64_t i = 0; i < p->n; i++) {
        if (!p->fixed[i]) p->d[i] = p->s[i] / p->scale[i];
        p->trial[i] = p->x[i] + p->d[i];
        if (bounded) p->trial[i] = fmin(fmax(p->trial[i], low(p, i)), high(p, i));
    }
    if (p->round) p->round(p->problem->user, p->trial);
    for (int64_t i = 0; i < p->n; i++) p->d[i] = p->trial[i] - p->x[i];
    return GD_OK;
}

/* |J d|^2 by the triangle of the scaled columns, which is of all of them. */
static double bent_by_triangle(const gd_numbers *p)
{
    int64_t n = p->n, rows = p->m < n ? p->m : n;
    double bent = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double *row = p->a.triangle + i * (n + 1);
        double sum = 0;
        for (int64_t c = i; c < n; c++) sum += row[c] * (p->d[c] * p->scale[c]);
        bent += sum * sum;
    }
    return bent;
}

/* The decrease |r|^2 - |r + J d|^2 of the model. */
static double predicted(gd_numbers *p)
{
    double slope = 0, bent = 0;
    for (int64_t i = 0; i < p->n; i++) slope += p->g[i] * p->d[i];
    if (!p->a.sparse && !p->options->low && !p->options->high) return -2 * slope - bent_by_triangle(p);
    gd__damped_times(&p->a, p->j, p->d, p->moved);
    for (int64_t i = 0; i < p->m; i++) bent += p->moved[i] * p->moved[i];
    return -2 * slope - bent;
}

static void swap(double **a, double **b)
{
    double *c = *a;
    *a = *b, *b = c;
}

static void take_trial(gd_numbers *p, double f)
{
    swap(&p->x, &p->trial);
    swap(&p->r, &p->there);
    swap(&p->j, &p->next);
    p->f = f;
    p->a.value = NULL;
    measure_columns(p);
}

static void tell(gd_numbers *p, double length)
{
    const gd_solve_options *o = &p->options->solve;
    if (o->callback && !gd__lsq_tell(o, p->steps, p->evals, p->f, gd__numbers_gradient(p), length, p->start))
        stop(p, GD_STOP_CALLER);
}

/* Does the attempt end the fit? */
static void check_end(gd_numbers *p, double foreseen, double actual, double length)
{
    const gd_solve_options *o = &p->options->solve;
    double size = norm(p->x, p->scale, p->n);
    bool rounded = fabs(actual) <= fmax(o->loss_tol, ROUNDING) * p->f;
    if (rounded && foreseen <= o->loss_tol * p->f) stop(p, GD_STOP_LOSS);
    if (length <= o->step_tol * size) stop(p, GD_STOP_STEP);
    if (p->f == 0 || (o->gradient_tol > 0 && gd__numbers_gradient(p) <= o->gradient_tol))
        stop(p, GD_STOP_GRADIENT);
}

/* A point whose derivatives are not finite is rejected like one whose loss is not. */
static gd_status attempt(gd_numbers *p, bool *taken)
{
    bool finite = false;
    gd_status status = aim_step(p, p->lambda);
    if (status) return status;
    double foreseen = predicted(p), length = norm(p->d, p->scale, p->n), there = NAN, before = p->f;
    if (!(foreseen > 0)) { /* no decrease is possible along this step */
        bool rounded = length <= fmax(p->options->solve.step_tol, SHORTEST) * norm(p->x, p->scale, p->n);
        stop(p, foreseen >= -1e-14 * p->f ? GD_STOP_LOSS : rounded ? GD_STOP_STEP : GD_STOP_STUCK);
        return GD_OK;
    }
    status = gd__numbers_residuals(p, p->trial, p->there, &there);
    double actual = before - there, ratio = actual / foreseen;
    *taken = !status && ratio > TAKEN && there < before;
    if (*taken) status = gd__numbers_jacobian(p, p->trial, p->there, p->next, &finite);
    *taken = *taken && !status && finite;
    if (*taken) {
        double bend = 2 * ratio - 1;
        take_trial(p, there);
        p->lambda = fmax(
            p->lambda * (fabs(ratio - 1) < GOOD ? FASTER : fmax(1.0 / 3, 1 - bend * bend * bend)), 1e-15);
        p->growth = 2;
        check_end(p, foreseen, actual, length);
        tell(p, length);
        return GD_OK;
    }
    if (!status && isfinite(there) && !(there < before)) check_end(p, foreseen, actual, length);
    p->lambda *= p->growth;
    p->growth *= 2;
    if (p->lambda > MOST_DAMPING) stop(p, GD_STOP_STUCK);
    return status;
}

static gd_status step(gd_numbers *p)
{
    gd_status status = GD_OK;
    for (bool taken = false; !taken && !p->stopped && !status;) {
        status = attempt(p, &taken);
        if (taken) p->steps++;
        if (status || p->stopped) break;
        if (!taken && (out_of_evals(p) || out_of_time(p))) break;
    }
    if (!status) check_limits(p);
    return status;
}

/* Gauss-Newton steps whose effect on the loss is below its rounding, while they shrink. */
static gd_status polish(gd_numbers *p)
{
    double last = INFINITY;
    gd_status status = GD_OK;
    for (int i = 0; i < POLISHES && !out_of_evals(p) && !out_of_time(p); i++) {
        bool finite = false;
        double there = NAN;
        p->a.tol = 1e-14;
        if ((status = aim_step(p, 0))) break;
        double size = norm(p->x, p->scale, p->n), moved = norm(p->d, p->scale, p->n) / (size > 0 ? size : 1);
        if (!(moved > 0.01 * DBL_EPSILON) || moved > 1e-4 || moved >= last * (moved > 1e-13 ? 0.9 : 0.3))
            break;
        last = moved;
        status = gd__numbers_residuals(p, p->trial, p->there, &there);
        if (status || !(there <= p->f + 1e-9 * p->f)) break;
        status = gd__numbers_jacobian(p, p->trial, p->there, p->next, &finite);
        if (status || !finite) break;
        take_trial(p, there);
    }
    return status;
}

/* The damping at which the first step is no longer than first_radius times the start. */
static gd_status first_damping(gd_numbers *p)
{
    double size = norm(p->x, p->scale, p->n);
    gd_status status = GD_OK;
    p->lambda = FIRST_DAMPING;
    p->growth = 2;
    for (int i = 0; i < 60 && size > 0; i++) {
        if ((status = aim_step(p, p->lambda)) ||
            norm(p->d, p->scale, p->n) <= p->options->first_radius * size)
            break;
        p->lambda *= 4;
    }
    return status;
}

gd_status gd__numbers_run(gd_numbers *p)
{
    bool finite = false;
    p->stopped = false;
    p->a.value = NULL;
    gd_status status = gd__numbers_residuals(p, p->x, p->r, &p->f);
    if (!status && isfinite(p->f)) status = gd__numbers_jacobian(p, p->x, p->r, p->j, &finite);
    if (status || !finite) {
        stop(p, status ? GD_STOP_ERROR : GD_STOP_NOT_FINITE);
        return status;
    }
    memset(p->scale, 0, (size_t)p->n * sizeof *p->scale);
    measure_columns(p);
    if (p->f == 0 || gd__numbers_gradient(p) <= p->options->solve.gradient_tol) stop(p, GD_STOP_GRADIENT);
    check_limits(p);
    if (!p->stopped) status = first_damping(p);
    while (!status && !p->stopped) status = step(p);
    if (!status && p->options->polish && gd_stop_converged(p->reason) && p->f > 0) status = polish(p);
    return status;
}
