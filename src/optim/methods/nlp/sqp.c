/* Sl1QP with exact Hessians (Fletcher 1987, 12.4; Byrd, Nocedal & Waltz 2008): each step minimises
 *
 *     g d + d'W d / 2 + nu |linearised violation|_1      in the bounds and |d_i| <= radius max(1, |x_i|)
 *
 * by the interior point, which needs no evaluation of the problem.  The penalty nu is controlled by the least possible violation in that
 * region; a trial rejected because rows curve gets a second-order correction.  Merit: f + nu |violation|_1. */
#include "optim/methods/nlp/sqp.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define RADIUS 3
#define NU     10
#define EVALS  40
#define DOUBT  1e-6 /* of f: the violation weighted by its multipliers */

/* ---- memory ---- */

static gd_ip_problem subproblem(const gd_ip_problem *p)
{
    return (gd_ip_problem){.n = p->n, .rows = p->rows, .tails = 2 * p->rows, .slacks = p->slacks};
}

int64_t gd__sqp_kept(const gd_ip_problem *p) { return p->n + 2 * p->rows; }

int64_t gd__sqp_room(const gd_ip_problem *p)
{
    gd_ip_problem sub = subproblem(p);
    int64_t n = p->n, m = p->rows;
    return gd__sqp_kept(p) + gd__ip_room(&sub) + 10 * n + 6 * m + n * m + 2 * n * n + 3 * sub.tails;
}

static double *take_room(double **at, int64_t count)
{
    double *taken = *at;
    *at += count;
    return taken;
}

/* ---- the subproblem's functions ---- */

static gd_status sub_values(void *user, double *d, double *f, double *c)
{
    const gd_sqp *s = user;
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double curved = 0;
        for (int64_t k = 0; k < s->n; k++) curved += s->curve[i * s->n + k] * d[k];
        sum += d[i] * (s->slope[i] + 0.5 * curved);
    }
    *f = sum;
    for (int64_t i = 0; i < s->rows; i++) {
        c[i] = s->from[i];
        for (int64_t k = 0; k < s->n; k++) c[i] += s->j[i * s->n + k] * d[k];
    }
    return GD_OK;
}

static gd_status sub_first(void *user, const double *d, double *g, double *j)
{
    const gd_sqp *s = user;
    for (int64_t i = 0; i < s->n; i++) {
        g[i] = s->slope[i];
        for (int64_t k = 0; k < s->n; k++) g[i] += s->curve[i * s->n + k] * d[k];
    }
    memcpy(j, s->j, (size_t)(s->n * s->rows) * sizeof *j);
    return GD_OK;
}

static gd_status sub_second(void *user, const double *d, double weight, const double *y, double *w)
{
    const gd_sqp *s = user;
    (void)d, (void)y;
    for (int64_t i = 0; i < s->n * s->n; i++) w[i] = weight * s->curve[i];
    return GD_OK;
}

/* Slacks of inequalities, then the violation of each row above 0, then that of equalities below. */
static void place_tails(gd_sqp *s, double *sign, int64_t *row)
{
    int64_t m = s->rows, slacks = s->p->slacks;
    for (int64_t t = 0; t < 2 * m; t++) {
        bool slack = t < slacks, over = !slack && t < slacks + m;
        row[t] = slack ? s->equal + t : over ? t - slacks : t - slacks - m;
        sign[t] = over ? -1 : 1;
    }
}

void gd__sqp_open(gd_sqp *s, const gd_ip_problem *p, double *room)
{
    int64_t n = p->n, m = p->rows;
    double *at = room;
    *s = (gd_sqp){.p = p, .n = n, .rows = m, .equal = m - p->slacks, .tol = 1e-8, .violation_tol = 1e-8};
    s->most_evals = EVALS;
    s->sub = subproblem(p);
    s->x = take_room(&at, n), s->y = take_room(&at, m), s->scale = take_room(&at, m);
    s->c = take_room(&at, m), s->yd = take_room(&at, m), s->ct = take_room(&at, m),
    s->ct2 = take_room(&at, m);
    s->shifted = take_room(&at, m);
    s->g = take_room(&at, n), s->d = take_room(&at, n), s->d2 = take_room(&at, n),
    s->trial = take_room(&at, n);
    s->size = take_room(&at, n), s->low = take_room(&at, n), s->high = take_room(&at, n),
    s->zero = take_room(&at, n);
    s->best = take_room(&at, n + m);
    s->j = take_room(&at, n * m), s->w = take_room(&at, n * n), s->little = take_room(&at, n * n);
    double *sign = take_room(&at, s->sub.tails);
    s->cost = take_room(&at, s->sub.tails);
    int64_t *row = (int64_t *)(void *)take_room(&at, s->sub.tails);
    place_tails(s, sign, row);
    s->sub.low = s->low, s->sub.high = s->high;
    s->sub.row = row, s->sub.sign = sign, s->sub.cost = s->cost;
    s->sub.user = s;
    s->sub.values = sub_values, s->sub.first = sub_first, s->sub.second = sub_second;
    for (int64_t i = 0; i < n; i++) s->little[i * n + i] = 1e-6;
    gd_ip_options o = gd__ip_defaults();
    gd__ip_open(&s->qp, &s->sub, &o, at);
}

/* ---- solving it ---- */

static gd_status solve_once(gd_sqp *s, bool adaptive, gd_ip_end *end)
{
    gd_ip *q = &s->qp;
    const gd_ip_problem *p = &s->sub;
    q->o = gd__ip_defaults();
    q->o.tol = 1e-9;
    q->o.violation_tol = INFINITY;
    q->o.least_mu = 1e-12;
    q->o.theta_most = 1e4;
    q->o.corrections = 4;
    q->o.max_steps = adaptive ? 100 : 200;
    q->o.adaptive = adaptive;
    q->o.thorough = false;
    for (int64_t t = p->slacks; t < p->tails; t++) q->x[s->n + t] = fmax(-p->sign[t] * s->from[p->row[t]], 0);
    gd_status status = gd__ip_start(q, s->zero, end);
    while (!status && *end == GD_IP_GOES_ON) status = gd__ip_step(q, end);
    return status;
}

/* d and y of a subproblem; `from`: its rows at d = 0. */
static gd_status solve_sub(gd_sqp *s, const double *slope, const double *curve, const double *from, double nu,
                           double *d, double *y)
{
    gd_ip *q = &s->qp;
    gd_ip_end end;
    s->slope = slope, s->curve = curve, s->from = from;
    for (int64_t t = s->sub.slacks; t < s->sub.tails; t++) s->cost[t] = nu;
    gd_status status = solve_once(s, true, &end);
    for (int turn = 0; turn < 2 && !status; turn++) {
        if (turn && end == GD_IP_SOLVED) break;
        double error = q->error;
        if (turn) {
            if ((status = solve_once(s, false, &end))) break;
            if (end != GD_IP_SOLVED && !(q->error < error)) break;
        }
        memcpy(d, q->x, (size_t)s->n * sizeof *d);
        for (int64_t i = 0; i < s->rows; i++) y[i] = q->y[i] * q->scale[i] / q->k.weight;
    }
    return status;
}

/* ---- small things ---- */

static double violation_of(const gd_sqp *s, const double *c)
{
    double sum = 0;
    for (int64_t i = 0; i < s->rows; i++) sum += i < s->equal ? fabs(c[i]) : fmax(c[i], 0);
    return sum;
}

static void linearised(const gd_sqp *s, const double *d, double *c)
{
    for (int64_t i = 0; i < s->rows; i++) {
        c[i] = s->c[i];
        for (int64_t k = 0; k < s->n; k++) c[i] += s->j[i * s->n + k] * d[k];
    }
}

static double left_along(gd_sqp *s, const double *d)
{
    linearised(s, d, s->shifted);
    return violation_of(s, s->shifted);
}

static bool all_finite(const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static gd_status values_at(gd_sqp *s, double *x, double *f, double *c)
{
    gd_status status = s->p->values(s->p->user, x, f, c);
    s->k.evals++;
    *f *= s->k.weight;
    for (int64_t i = 0; i < s->rows; i++) c[i] *= s->scale[i];
    return status;
}

static gd_status derive(gd_sqp *s)
{
    gd_status status = s->p->first(s->p->user, s->x, s->g, s->j);
    for (int64_t i = 0; i < s->n; i++) {
        s->g[i] *= s->k.weight;
        s->size[i] = fmax(1, fabs(s->x[i]));
    }
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->n; k++) s->j[i * s->n + k] *= s->scale[i];
    return status;
}

static double factor_for(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(x[i]));
    return fmax(1e-8, fmin(1, 100 / fmax(DBL_MIN, most)));
}

/* Scales by the gradients at the start, multipliers of least squares there. */
static void scale_start(gd_sqp *s)
{
    double weight = factor_for(s->g, s->n), most = 0;
    s->k.weight = weight;
    s->f *= weight;
    for (int64_t i = 0; i < s->n; i++) s->g[i] *= weight;
    for (int64_t i = 0; i < s->rows; i++) {
        s->scale[i] = factor_for(s->j + i * s->n, s->n);
        s->c[i] *= s->scale[i];
        for (int64_t k = 0; k < s->n; k++) s->j[i * s->n + k] *= s->scale[i];
    }
    if (s->rows) gd__least_norm(s->n, s->rows, s->j, s->g, s->y, s->qp.room);
    for (int64_t i = s->equal; i < s->rows; i++) s->y[i] = fmax(s->y[i], 0);
    for (int64_t i = 0; i < s->rows; i++) most = fmax(most, fabs(s->y[i]));
    if (!(most <= 1e3)) memset(s->y, 0, (size_t)s->rows * sizeof *s->y);
    s->k.nu = NU;
    s->k.radius = RADIUS;
    s->k.begun = 1;
}

gd_status gd__sqp_look(gd_sqp *s, gd_ip_end *end)
{
    bool first = s->k.begun == 0;
    double evals = s->k.evals;
    *end = GD_IP_GOES_ON;
    if (first) {
        s->k.weight = 1;
        for (int64_t i = 0; i < s->rows; i++) s->scale[i] = 1;
    }
    gd_status status = values_at(s, s->x, &s->f, s->c);
    s->k.evals = first ? s->k.evals : evals; /* known from the step before */
    if (status) return status;
    if (!isfinite(s->f) || !all_finite(s->c, s->rows)) {
        *end = GD_IP_BAD_START;
        return GD_OK;
    }
    if ((status = derive(s))) return status;
    if (!all_finite(s->g, s->n) || !all_finite(s->j, s->n * s->rows))
        *end = GD_IP_NOT_FINITE;
    else if (first)
        scale_start(s);
    return GD_OK;
}

/* Stationarity without elements held by bounds, complementarity, violation. */
static void measure_kkt(gd_sqp *s, const double *y, double *doubt)
{
    double dual = 0, products = 0, sum = 0;
    *doubt = s->violation = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double g = s->g[i], near = 1e-9 * s->size[i];
        for (int64_t k = 0; k < s->rows; k++) g += s->j[k * s->n + i] * y[k];
        if (s->x[i] - s->p->low[i] <= near) g = fmin(g, 0);
        if (s->p->high[i] - s->x[i] <= near) g = fmax(g, 0);
        dual = fmax(dual, fabs(g));
        if (isnan(g)) dual = INFINITY;
    }
    for (int64_t i = 0; i < s->rows; i++) {
        double over = i < s->equal ? fabs(s->c[i]) : fmax(s->c[i], 0);
        sum += fabs(y[i]);
        *doubt += fabs(y[i]) * over / s->k.weight;
        if (i >= s->equal) products = fmax(products, fabs(y[i] * s->c[i]));
        s->violation = fmax(s->violation, over / s->scale[i]);
    }
    double by = fmin(100, fmax(100, sum / fmax(1, (double)s->rows)) / 100);
    s->error = fmax(dual, products) / by;
}

static void judge_iterate(gd_sqp *s, gd_ip_end *end)
{
    double doubt, f = s->f / s->k.weight;
    measure_kkt(s, s->y, &doubt);
    if (s->error <= s->tol && s->violation <= s->violation_tol)
        *end = doubt <= DOUBT * fmax(1, fabs(f)) ? GD_IP_SOLVED : GD_IP_STALLED;
    else if (f < -1e20)
        *end = GD_IP_UNBOUNDED;
    else if (s->k.evals >= s->most_evals)
        *end = GD_IP_LIMIT;
}

/* ---- the step ---- */

static void set_region(gd_sqp *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        double edge = s->k.radius * s->size[i];
        s->low[i] = fmax(s->p->low[i] - s->x[i], -edge);
        s->high[i] = fmin(s->p->high[i] - s->x[i], edge);
    }
}

/* nu grows until the remaining violation is the least possible. *left: that violation; STALLED: no step reduces it. */
static gd_status steer(gd_sqp *s, double here, double *left, gd_ip_end *end)
{
    bool much = *left > 1e-7 * sqrt(fmax(1, here)) + 1e-10;
    if (!s->rows || !much) return GD_OK;
    gd_status status = solve_sub(s, s->zero, s->little, s->c, 1, s->d2, s->shifted);
    double least = left_along(s, s->d2);
    if (status) return status;
    if (here - least > 1e-6 * here || s->violation <= 1e-6)
        s->k.useless = 0;
    else if (s->k.useless > 2 || s->k.radius > 1e-3) {
        if (++s->k.useless > 3) {
            *end = GD_IP_INFEASIBLE;
            return GD_OK;
        }
    }
    double none = 1e-8 * fmax(1, here), some = 1e-7 * fmax(1, here);
    for (int k = 0; k < 8 && s->k.nu < 1e10 && !status; k++) {
        if (!(least <= none && *left > some) && !(here - *left < 0.1 * (here - least))) break;
        s->k.nu *= 10;
        status = solve_sub(s, s->g, s->w, s->c, s->k.nu, s->d, s->yd);
        *left = left_along(s, s->d);
    }
    return status;
}

static double predicted(const gd_sqp *s, const double *d)
{
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double curved = 0;
        for (int64_t k = 0; k < s->n; k++) curved += s->w[i * s->n + k] * d[k];
        sum -= d[i] * (s->g[i] + 0.5 * curved);
    }
    return sum;
}

static double length_of(const gd_sqp *s, const double *d)
{
    double most = 0;
    for (int64_t i = 0; i < s->n; i++) most = fmax(most, fabs(d[i] / s->size[i]));
    return most;
}

typedef struct trial {
    double merit, pred, eps; /* merit here, and its decrease by the model */
    double f, rho, length;
    bool finite;
} trial;

/* Evaluates x + d; returns the ratio of actual to predicted decrease. */
static gd_status go(gd_sqp *s, const double *d, double *x, double *c, trial *t)
{
    for (int64_t i = 0; i < s->n; i++) x[i] = fmin(fmax(s->x[i] + d[i], s->p->low[i]), s->p->high[i]);
    gd_status status = values_at(s, x, &t->f, c);
    t->finite = isfinite(t->f) && all_finite(c, s->rows);
    t->length = length_of(s, d);
    t->rho = -INFINITY;
    if (t->finite) t->rho = (t->merit - t->f - s->k.nu * violation_of(s, c) + t->eps) / (t->pred + t->eps);
    return status;
}

/* Second-order correction: the subproblem with the rows at the trial. */
static gd_status correct(gd_sqp *s, trial *t)
{
    trial other = *t;
    double *y = s->best + s->n, *x = s->best;
    linearised(s, s->d, s->shifted);
    for (int64_t i = 0; i < s->rows; i++) s->shifted[i] = s->ct[i] - (s->shifted[i] - s->c[i]);
    gd_status status = solve_sub(s, s->g, s->w, s->shifted, s->k.nu, s->d2, y);
    if (!status) status = go(s, s->d2, x, s->ct2, &other);
    if (status || !(other.rho > fmax(t->rho, 1e-4))) return status;
    *t = other;
    memcpy(s->trial, x, (size_t)s->n * sizeof *x);
    memcpy(s->ct, s->ct2, (size_t)s->rows * sizeof *s->ct);
    memcpy(s->yd, y, (size_t)s->rows * sizeof *y);
    return GD_OK;
}

static gd_status accept(gd_sqp *s, const trial *t)
{
    double most = 0;
    memcpy(s->x, s->trial, (size_t)s->n * sizeof *s->x);
    memcpy(s->c, s->ct, (size_t)s->rows * sizeof *s->c);
    memcpy(s->y, s->yd, (size_t)s->rows * sizeof *s->y);
    s->f = t->f;
    for (int64_t i = 0; i < s->rows; i++) most = fmax(most, fabs(s->y[i]));
    double enough = fmax(NU, 3 * most);
    if (enough < 0.3 * s->k.nu && s->k.lowered < 10) {
        s->k.nu = enough;
        s->k.lowered++;
    }
    if (t->rho > 0.7 && t->length > 0.9 * s->k.radius)
        s->k.radius = fmin(4 * s->k.radius, 1e15);
    else if (t->rho < 0.25)
        s->k.radius = fmax(0.5 * t->length, 0.25 * s->k.radius);
    return derive(s);
}

/* One subproblem and its trial. */
static gd_status attempt(gd_sqp *s, gd_ip_end *end, bool *moved)
{
    double here = violation_of(s, s->c);
    set_region(s);
    gd_status status = solve_sub(s, s->g, s->w, s->c, s->k.nu, s->d, s->yd);
    double left = status ? 0 : left_along(s, s->d);
    if (!status) status = steer(s, here, &left, end);
    if (status || *end != GD_IP_GOES_ON) return status;
    trial t = {.merit = s->f + s->k.nu * here, .pred = predicted(s, s->d) + s->k.nu * (here - left)};
    t.length = length_of(s, s->d);
    t.eps = 10 * DBL_EPSILON * fmax(1, fabs(t.merit));
    if (!(t.pred > 0) && t.length > 1e-12 && s->k.radius > 1e-10) {
        /* a solution of the subproblem that is worse than d = 0 is not evaluated */
        s->k.radius = 0.25 * fmin(s->k.radius, t.length);
        return GD_OK;
    }
    if (t.length <= 1e-15 || (t.pred <= 1e-14 * fmax(1, fabs(t.merit)) && s->k.radius < 1e-10)) {
        memcpy(s->y, s->yd, (size_t)s->rows * sizeof *s->y);
        judge_iterate(s, end);
        if (*end != GD_IP_SOLVED) *end = GD_IP_STALLED;
        return GD_OK;
    }
    status = go(s, s->d, s->trial, s->ct, &t);
    if (!status && t.finite && t.rho < 0.1 && s->rows) status = correct(s, &t);
    *moved = t.rho > 1e-4;
    if (status || *moved) return status ? status : accept(s, &t);
    s->k.radius = (t.finite ? 0.25 : 0.1) * fmin(s->k.radius, t.length);
    return GD_OK;
}

gd_status gd__sqp_step(gd_sqp *s, gd_ip_end *end)
{
    bool moved = false;
    *end = GD_IP_GOES_ON;
    judge_iterate(s, end);
    if (*end != GD_IP_GOES_ON) return GD_OK;
    for (int64_t i = 0; i < s->rows; i++) s->shifted[i] = s->y[i] * s->scale[i];
    gd_status status = s->p->second(s->p->user, s->x, s->k.weight, s->shifted, s->w);
    if (!status && !all_finite(s->w, s->n * s->n)) *end = GD_IP_NOT_FINITE;
    while (!status && !moved && *end == GD_IP_GOES_ON) {
        status = attempt(s, end, &moved);
        if (!moved && *end == GD_IP_GOES_ON && s->k.radius < 1e-14) *end = GD_IP_STALLED;
        if (!moved && *end == GD_IP_GOES_ON && s->k.evals >= s->most_evals) *end = GD_IP_LIMIT;
    }
    return status;
}
