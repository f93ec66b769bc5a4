/* A primal-dual interior point with a filter line search (Wachter & Biegler 2006) and an adaptive barrier (Nocedal, Wachter &
 * Waltz 2009), dense.
 *
 * Every row reads c(x) + E t = 0, where t >= 0 are tails: slacks, or the violation of an elastic row.  With the barrier
 * function phi = f - mu sum log(distances to bounds) and multipliers y of rows, zl and zu of bounds, a step solves
 *
 *     [ W + S + dw I    J' ] [ dx ]     [ grad phi + J'y ]
 *     [ J              -D  ] [ dy ] = - [ c + E t        ],     S = zl / (x - low) + zu / (high - x)
 *
 * (tails are eliminated: each adds 1 / (S + dw) to D of its row), where dw makes the inertia (n, rows, 0), so the step is one of
 * descent, and is cut so that distances and multipliers stay positive.  A trial is accepted if violation or phi falls and the
 * filter, made of earlier points, does not reject it.  mu falls with the complementarity while that helps, else by the monotone rule.
 *
 * A step of this file is one accepted point.  This file does not use tensors; restoration.c and sqp.c run the same engine on other
 * functions.  Arrays go variables first, then tails. */
#include "optim/methods/nlp/engine.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define SLOWER \
    0.9999 /* an error that did not fall below this of the largest of the last four ends the adaptive barrier */
#define MOST_SHIFT 1e40

gd_ip_options gd__ip_defaults(void)
{
    return (gd_ip_options){.tol = 1e-8,
                           .violation_tol = 1e-8,
                           .first_mu = 0.1,
                           .least_mu = 1e-11,
                           .push = 1e-2,
                           .theta_most = 100,
                           .max_steps = 1000,
                           .corrections = 1,
                           .adaptive = true,
                           .scaled = true,
                           .least_squares = true,
                           .thorough = true};
}

/* ---- memory ---- */

static double *take_room(double **at, int64_t count)
{
    double *taken = *at;
    *at += count;
    return taken;
}

int64_t gd__ip_kept(const gd_ip_problem *p) { return 3 * (p->n + p->tails) + 3 * p->rows + 2 * GD_IP_FILTER; }

int64_t gd__ip_room(const gd_ip_problem *p)
{
    int64_t n = p->n, m = p->rows, all = n + p->tails, order = n + m;
    return gd__ip_kept(p) + 9 * all + 7 * m + n * m + n * n + order * order + 9 * order +
           gd__bordered_room(n, m);
}

/* The rows of a subproblem differ from those of the one before. */
static void read_bounds(gd_ip *e)
{
    for (int64_t i = 0; i < e->all; i++) {
        e->low[i] = i < e->n ? e->p->low[i] : 0;
        e->high[i] = i < e->n ? e->p->high[i] : INFINITY;
    }
}

void gd__ip_open(gd_ip *e, const gd_ip_problem *p, const gd_ip_options *o, double *room)
{
    int64_t n = p->n, m = p->rows, all = n + p->tails, order = n + m;
    double *at = room;
    *e = (gd_ip){.p = p, .o = *o, .n = n, .rows = m, .all = all, .error = INFINITY, .violation = INFINITY};
    e->x = take_room(&at, all), e->zl = take_room(&at, all), e->zu = take_room(&at, all);
    e->y = take_room(&at, m), e->scale = take_room(&at, m), e->relaxed = take_room(&at, m);
    e->filter = take_room(&at, 2 * GD_IP_FILTER);
    e->g = take_room(&at, all), e->low = take_room(&at, all), e->high = take_room(&at, all),
    e->trial = take_room(&at, all);
    e->dx = take_room(&at, all), e->dx2 = take_room(&at, all), e->dzl = take_room(&at, all),
    e->dzu = take_room(&at, all);
    e->barrier = take_room(&at, all);
    e->c = take_room(&at, m), e->r = take_room(&at, m), e->ct = take_room(&at, m), e->rt = take_room(&at, m),
    e->cc = take_room(&at, m);
    e->dy = take_room(&at, m), e->dy2 = take_room(&at, m);
    e->j = take_room(&at, n * m), e->w = take_room(&at, n * n);
    e->matrix = take_room(&at, order * order);
    e->room = e->ldl.a = take_room(&at, gd__bordered_room(n, m)); /* one or the other */
    e->b = take_room(&at, 3 * order), e->b2 = take_room(&at, 3 * order);
    e->ldl.pivot = (int64_t *)(void *)take_room(&at, order);
    e->ldl.work = take_room(&at, 2 * order);
    e->ldl.n = order;
    read_bounds(e);
}

/* ---- small things ---- */

/* The cost of a tail in the scaled problem, whose rows are scaled and whose coefficients of tails are not. */
static double cost_of(const gd_ip *e, int64_t t)
{
    return e->k.weight * e->p->cost[t] / e->scale[e->p->row[t]];
}

/* out += J'y, tails too. */
static void add_rows(const gd_ip *e, const double *y, double *out)
{
    for (int64_t i = 0; i < e->rows; i++)
        for (int64_t k = 0; k < e->n; k++) out[k] += e->j[i * e->n + k] * y[i];
    for (int64_t t = 0; t < e->p->tails; t++) out[e->n + t] += e->p->sign[t] * y[e->p->row[t]];
}

/* c + E t. */
void gd__ip_rows(const gd_ip *e, const double *c, const double *x, double *r)
{
    memcpy(r, c, (size_t)e->rows * sizeof *r);
    for (int64_t t = 0; t < e->p->tails; t++) r[e->p->row[t]] += e->p->sign[t] * x[e->n + t];
}

static double sum_of(const double *r, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += fabs(r[i]);
    return sum;
}

double gd__ip_violation(const gd_ip *e, const double *c, const double *x, double *most)
{
    gd__ip_rows(e, c, x, e->rt);
    if (most) *most = most_of(e->rt, e->rows);
    return sum_of(e->rt, e->rows);
}

static double theta_of(const gd_ip *e) { return sum_of(e->r, e->rows); }

double gd__ip_barrier(const gd_ip *e, double f, const double *x, double mu)
{
    double sum = 0;
    for (int64_t i = 0; i < e->all; i++) {
        if (has_low(e, i)) sum += log(below(e, x, i));
        if (has_high(e, i)) sum += log(above(e, x, i));
    }
    return f - mu * sum;
}

/* ---- evaluating ---- */

/* Scaled values; *f has the costs of the tails. */
gd_status gd__ip_values(gd_ip *e, double *x, double *f, double *c)
{
    gd_status status = e->p->values(e->p->user, x, f, c);
    *f *= e->k.weight;
    for (int64_t t = 0; t < e->p->tails; t++) *f += cost_of(e, t) * x[e->n + t];
    for (int64_t i = 0; i < e->rows; i++) c[i] = (c[i] - e->relaxed[i]) * e->scale[i];
    return status;
}

static void scale_first(gd_ip *e)
{
    for (int64_t i = 0; i < e->n; i++) e->g[i] *= e->k.weight;
    for (int64_t t = 0; t < e->p->tails; t++) e->g[e->n + t] = cost_of(e, t);
    for (int64_t i = 0; i < e->rows; i++)
        for (int64_t k = 0; k < e->n; k++) e->j[i * e->n + k] *= e->scale[i];
}

gd_status gd__ip_derive(gd_ip *e)
{
    gd_status status = e->p->first(e->p->user, e->x, e->g, e->j);
    scale_first(e);
    gd__ip_rows(e, e->c, e->x, e->r);
    return status;
}

gd_status gd__ip_look(gd_ip *e)
{
    gd_status status = gd__ip_values(e, e->x, &e->f, e->c);
    return status ? status : gd__ip_derive(e);
}

/* b: y of the rows as they were given. */
gd_status gd__ip_curvature(gd_ip *e)
{
    for (int64_t i = 0; i < e->rows; i++) e->b[i] = e->y[i] * e->scale[i];
    return e->p->second(e->p->user, e->x, e->k.weight, e->b, e->w);
}

/* ---- the start ---- */

static double inside(const gd_ip *e, double x, int64_t i, double push)
{
    double width = e->high[i] - e->low[i];
    double low = fmin(push * fmax(1, fabs(e->low[i])), push * width),
           high = fmin(push * fmax(1, fabs(e->high[i])), push * width);
    if (has_low(e, i)) x = fmax(x, e->low[i] + low);
    if (has_high(e, i)) x = fmin(x, e->high[i] - high);
    return x;
}

static gd_status try_start(gd_ip *e, const double *x, double push, bool *finite)
{
    for (int64_t i = 0; i < e->n; i++) e->x[i] = inside(e, x[i], i, push);
    gd_status status = gd__ip_values(e, e->x, &e->f, e->c);
    *finite = isfinite(e->f) && all_finite(e->c, e->rows);
    return status;
}

double gd__ip_factor(double most) { return fmax(1e-8, fmin(1, 100 / fmax(DBL_MIN, most))); }

static void choose_scales(gd_ip *e)
{
    double most = most_of(e->g, e->n);
    for (int64_t t = 0; t < e->p->tails; t++) most = fmax(most, e->p->cost[t]);
    e->k.weight = gd__ip_factor(most);
    for (int64_t i = 0; i < e->rows; i++) e->scale[i] = gd__ip_factor(most_of(e->j + i * e->n, e->n));
    e->f *= e->k.weight;
    for (int64_t i = 0; i < e->rows; i++) e->c[i] *= e->scale[i];
}

/* Tails inside their bounds, slacks as large as their rows need. */
static void place_tails(gd_ip *e)
{
    const gd_ip_problem *p = e->p;
    for (int64_t t = p->slacks; t < p->tails; t++) e->x[e->n + t] = fmax(e->x[e->n + t], e->o.push);
    for (int64_t t = 0; t < p->slacks; t++) e->x[e->n + t] = 0;
    gd__ip_rows(e, e->c, e->x, e->r);
    for (int64_t t = 0; t < p->slacks; t++) e->x[e->n + t] = fmax(-e->r[p->row[t]], e->o.push);
    for (int64_t t = 0; t < p->tails; t++) e->f += cost_of(e, t) * e->x[e->n + t];
}

/* y from least squares of the stationarity; 0 if that is large. */
static void least_squares(gd_ip *e)
{
    const gd_ip_problem *p = e->p;
    int64_t n = e->n, m = e->rows, order = n + m;
    double *a = e->ldl.a, *b = e->b;
    if (!m) return;
    memset(a, 0, (size_t)(order * order) * sizeof *a);
    for (int64_t c = 0; c < n; c++) {
        a[c * order + c] = 1;
        for (int64_t i = 0; i < m; i++) a[c * order + n + i] = e->j[i * n + c];
        b[c] = -(e->g[c] - e->zl[c] + e->zu[c]);
    }
    for (int64_t i = 0; i < m; i++) a[(n + i) * order + n + i] = -1e-12;
    memset(b + n, 0, (size_t)m * sizeof *b);
    for (int64_t t = 0; t < p->tails; t++) {
        int64_t i = n + p->row[t];
        a[i * order + i] -= 1;
        b[i] += p->sign[t] * (e->g[n + t] - e->zl[n + t]);
    }
    gd__ldl_factor(&e->ldl);
    gd__ldl_solve(&e->ldl, b);
    bool good = all_finite(b + n, m) && most_of(b + n, m) <= 1e3;
    for (int64_t i = 0; i < m; i++) e->y[i] = good ? b[n + i] : 0;
}

gd_status gd__ip_start(gd_ip *e, const double *x, gd_ip_end *end)
{
    bool finite;
    e->k = (gd_ip_numbers){
        .mu = e->o.first_mu, .is_free = e->o.adaptive, .weight = 1, .least_seen = INFINITY};
    *end = GD_IP_GOES_ON;
    read_bounds(e);
    for (int64_t i = 0; i < e->rows; i++) e->scale[i] = 1, e->relaxed[i] = 0;
    const gd_ip_problem *p = e->p;
    memset(e->x + e->n, 0, (size_t)p->slacks * sizeof *e->x);
    gd_status status = try_start(e, x, e->o.push, &finite);
    if (!status && !finite) status = try_start(e, x, 1e-10, &finite);
    if (status) return status;
    if (!finite) {
        *end = GD_IP_BAD_START;
        return GD_OK;
    }
    for (int64_t t = 0; t < p->tails; t++) e->f -= cost_of(e, t) * e->x[e->n + t];
    status = p->first(p->user, e->x, e->g, e->j);
    if (status) return status;
    if (e->o.scaled) choose_scales(e);
    scale_first(e);
    place_tails(e);
    for (int64_t i = 0; i < e->all; i++) {
        e->zl[i] = has_low(e, i);
        e->zu[i] = has_high(e, i);
    }
    memset(e->y, 0, (size_t)e->rows * sizeof *e->y);
    if (e->o.least_squares) least_squares(e);
    gd__ip_rows(e, e->c, e->x, e->r);
    double theta = theta_of(e);
    e->k.theta_most = e->o.theta_most * fmax(1, theta);
    e->k.theta_least = 1e-4 * fmax(1, theta);
    e->k.first_f = e->f;
    e->k.first_size = fmax(1, most_of(e->x, e->n));
    return GD_OK;
}

/* ---- errors ---- */

typedef struct residual {
    double dual, rows, products, all;
} residual;

/* grad L into e->b2 [all]. */
void gd__ip_stationarity(gd_ip *e, double *out)
{
    for (int64_t i = 0; i < e->all; i++) out[i] = e->g[i] - e->zl[i] + e->zu[i];
    add_rows(e, e->y, out);
}

static residual error_for(gd_ip *e, double mu)
{
    double y = sum_of(e->y, e->rows), z = 0;
    int64_t bounds = 0;
    residual r = {.rows = most_of(e->r, e->rows)};
    gd__ip_stationarity(e, e->barrier);
    r.dual = most_of(e->barrier, e->all);
    for (int64_t i = 0; i < e->all; i++) {
        z += e->zl[i] + e->zu[i];
        bounds += has_low(e, i) + has_high(e, i);
        if (has_low(e, i)) r.products = fmax(r.products, fabs(below(e, e->x, i) * e->zl[i] - mu));
        if (has_high(e, i)) r.products = fmax(r.products, fabs(above(e, e->x, i) * e->zu[i] - mu));
    }
    /* multipliers may be large; the cap keeps two copies of a row from looking like a solution */
    double for_dual = (y + z) / fmax(1, (double)(e->rows + bounds)),
           for_products = z / fmax(1, (double)bounds);
    r.dual /= fmin(100, fmax(100, for_dual) / 100);
    r.products /= fmin(100, fmax(100, for_products) / 100);
    r.all = fmax(fmax(r.dual, r.rows), r.products);
    if (isnan(r.dual) || isnan(r.rows) || isnan(r.products)) r.all = INFINITY;
    return r;
}

static double given_violation(const gd_ip *e)
{
    double most = 0;
    for (int64_t i = 0; i < e->rows; i++) most = fmax(most, fabs(e->r[i] / e->scale[i]));
    return most;
}

/* ---- the end ---- */

static void judge_size(const gd_ip *e, gd_ip_end *end)
{
    double f = e->f / e->k.weight, size = most_of(e->x, e->n);
    if (e->k.steps >= e->o.max_steps)
        *end = GD_IP_LIMIT;
    else if (f < -1e20 && e->violation <= 1e-6)
        *end = GD_IP_UNBOUNDED;
    else if (size > 1e15)
        *end = e->violation <= 1e-6 * size && e->f < e->k.first_f - 1 ? GD_IP_UNBOUNDED : GD_IP_STALLED;
}

/* Is this point the end? *moved: a saddle was left. */
static gd_status judge_point(gd_ip *e, gd_ip_end *end, bool *moved)
{
    *moved = false;
    for (;;) {
        residual r = error_for(e, 0);
        e->error = r.all;
        e->dual = r.dual;
        e->violation = given_violation(e);
        bool small = r.all <= e->o.tol && e->violation <= e->o.violation_tol;
        if (small && e->o.thorough && gd__ip_scale_anew(e)) continue;
        if (!small || gd__ip_is_far(e)) break;
        gd_status status = e->o.thorough && e->k.kicks < 3 ? gd__ip_leave_saddle(e, moved) : GD_OK;
        if (!*moved) *end = GD_IP_SOLVED;
        return status;
    }
    judge_size(e, end);
    return GD_OK;
}

/* ---- the barrier parameter ---- */

static void look_at_products(const gd_ip *e, double *least, double *mean)
{
    double sum = 0, low = INFINITY;
    int64_t count = 0;
    for (int64_t i = 0; i < e->all; i++) {
        double a = below(e, e->x, i) * e->zl[i], b = above(e, e->x, i) * e->zu[i];
        if (has_low(e, i)) sum += a, low = fmin(low, a), count++;
        if (has_high(e, i)) sum += b, low = fmin(low, b), count++;
    }
    *least = low;
    *mean = count ? sum / (double)count : 0;
}

static void set_barrier(gd_ip *e, double mu)
{
    if (mu != e->k.mu) forget_filter(e);
    e->k.mu = mu;
}

/* From the centrality of the point (LOQO's rule), while the error falls. */
static void adapt_barrier(gd_ip *e, double least, double mean)
{
    gd_ip_numbers *k = &e->k;
    double recent = 0;
    for (int i = 0; i < 4; i++) recent = fmax(recent, k->recent[i]);
    if (k->seen >= 4 && e->error > SLOWER * recent) {
        k->is_free = 0;
        k->mu = fmax(0.8 * mean, e->o.least_mu);
        forget_filter(e);
        return;
    }
    k->recent[(int)fmod(k->seen, 4)] = e->error;
    k->seen++;
    k->least_seen = fmin(k->least_seen, e->error);
    double xi = least / mean, at = fmin(0.05 * (1 - xi) / fmax(xi, DBL_MIN), 2);
    set_barrier(e, fmax(fmin(0.1 * at * at * at * mean, 1e3), e->o.least_mu));
}

static void lower_barrier(gd_ip *e)
{
    gd_ip_numbers *k = &e->k;
    bool changed = false;
    while (error_for(e, k->mu).all <= 10 * k->mu && k->mu > e->o.least_mu) {
        k->mu = fmax(e->o.least_mu, fmin(0.2 * k->mu, k->mu * sqrt(k->mu)));
        changed = true;
    }
    if (!changed) return;
    forget_filter(e);
    if (!e->o.adaptive || !(e->error < 0.9 * k->least_seen)) return;
    k->is_free = 1;
    forget_errors(e);
}

static void update_barrier(gd_ip *e)
{
    double least, mean;
    look_at_products(e, &least, &mean);
    if (!isfinite(least)) return; /* there are no bounds */
    if (e->k.is_free != 0) adapt_barrier(e, least, mean);
    if (e->k.is_free == 0) lower_barrier(e);
}

/* ---- the direction ---- */

static double sigma_of(const gd_ip *e, int64_t i)
{
    return (has_low(e, i) ? e->zl[i] / below(e, e->x, i) : 0) +
           (has_high(e, i) ? e->zu[i] / above(e, e->x, i) : 0);
}

/* Gradient of the Lagrangian of the barrier function. */
static void barrier_gradient(gd_ip *e)
{
    double mu = e->k.mu, *out = e->barrier;
    for (int64_t i = 0; i < e->all; i++)
        out[i] = e->g[i] - (has_low(e, i) ? mu / below(e, e->x, i) : 0) +
                 (has_high(e, i) ? mu / above(e, e->x, i) : 0);
    add_rows(e, e->y, out);
}

static void build(gd_ip *e, double dw, double dc)
{
    const gd_ip_problem *p = e->p;
    int64_t n = e->n, order = n + e->rows;
    double *a = e->matrix;
    memset(a, 0, (size_t)(order * order) * sizeof *a);
    for (int64_t c = 0; c < n; c++) {
        memcpy(a + c * order + c, e->w + c * n + c, (size_t)(n - c) * sizeof *a);
        a[c * order + c] += sigma_of(e, c) + dw;
        for (int64_t i = 0; i < e->rows; i++) a[c * order + n + i] = e->j[i * n + c];
    }
    for (int64_t i = n; i < order; i++) a[i * order + i] = -dc;
    for (int64_t t = 0; t < p->tails; t++) {
        int64_t i = n + p->row[t];
        a[i * order + i] -= 1 / (sigma_of(e, n + t) + dw);
    }
    memcpy(e->ldl.a, a, (size_t)(order * order) * sizeof *a);
    gd__ldl_factor(&e->ldl);
}

/* out = b - K x. */
static void left_over(const gd_ip *e, const double *x, const double *b, double *out)
{
    int64_t order = e->ldl.n;
    memcpy(out, b, (size_t)order * sizeof *out);
    for (int64_t c = 0; c < order; c++) {
        const double *a = e->matrix + c * order;
        double sum = a[c] * x[c];
        for (int64_t i = c + 1; i < order; i++) {
            out[i] -= a[i] * x[c];
            sum += a[i] * x[i];
        }
        out[c] -= sum;
    }
}

/* x = K^-1 b, refined; b and x: [3 order] with room behind. */
static void solve(gd_ip *e, double *b, double *x)
{
    int64_t order = e->ldl.n;
    double *r = b + order, size = most_of(b, order);
    memcpy(x, b, (size_t)order * sizeof *x);
    gd__ldl_solve(&e->ldl, x);
    for (int k = 0; k < 2; k++) {
        left_over(e, x, b, r);
        if (most_of(r, order) <= 1e-14 * (size + DBL_MIN)) break;
        gd__ldl_solve(&e->ldl, r);
        for (int64_t i = 0; i < order; i++) x[i] += r[i];
    }
}

/* Shifts until the inertia is that of descent. */
static bool factor(gd_ip *e, double *shift)
{
    double dw = 0, dc = 0, last = e->k.last_shift;
    for (int tries = 0; tries < 60; tries++) {
        build(e, dw, dc);
        const gd_ldl *f = &e->ldl;
        bool singular = f->zero > 0 || !all_finite(f->a, f->n * f->n);
        if (f->positive == e->n && f->negative == e->rows && !singular) {
            if (dw > 0) e->k.last_shift = dw;
            *shift = dw;
            return true;
        }
        if ((singular || f->negative < e->rows) && dc == 0 && e->rows)
            dc = 1e-8 * sqrt(sqrt(e->k.mu));
        else if (dw == 0)
            dw = last == 0 ? 1e-4 : fmax(1e-20, last / 3);
        else
            dw *= last == 0 ? 100 : 8;
        if (dw > MOST_SHIFT) break;
    }
    return false;
}

/* dx [all] and dy for the rows at cc. */
static void direction(gd_ip *e, const double *cc, double dw, double *dx, double *dy)
{
    const gd_ip_problem *p = e->p;
    int64_t n = e->n;
    for (int64_t i = 0; i < n; i++) e->b[i] = -e->barrier[i];
    for (int64_t i = 0; i < e->rows; i++) e->b[n + i] = -cc[i];
    for (int64_t t = 0; t < p->tails; t++)
        e->b[n + p->row[t]] += p->sign[t] * e->barrier[n + t] / (sigma_of(e, n + t) + dw);
    solve(e, e->b, e->b2);
    memcpy(dx, e->b2, (size_t)n * sizeof *dx);
    memcpy(dy, e->b2 + n, (size_t)e->rows * sizeof *dy);
    for (int64_t t = 0; t < p->tails; t++)
        dx[n + t] = -(e->barrier[n + t] + p->sign[t] * dy[p->row[t]]) / (sigma_of(e, n + t) + dw);
}

/* The largest step of the multipliers, by their direction. */
static double bound_multipliers(gd_ip *e, double tau)
{
    double a = 1, mu = e->k.mu;
    for (int64_t i = 0; i < e->all; i++) {
        double l = below(e, e->x, i), u = above(e, e->x, i);
        e->dzl[i] = has_low(e, i) ? mu / l - e->zl[i] - e->zl[i] / l * e->dx[i] : 0;
        e->dzu[i] = has_high(e, i) ? mu / u - e->zu[i] + e->zu[i] / u * e->dx[i] : 0;
        if (e->dzl[i] < 0) a = fmin(a, tau * e->zl[i] / -e->dzl[i]);
        if (e->dzu[i] < 0) a = fmin(a, tau * e->zu[i] / -e->dzu[i]);
    }
    return a;
}

static double to_boundary(const gd_ip *e, const double *dx, double tau)
{
    double a = 1;
    for (int64_t i = 0; i < e->all; i++) {
        if (has_low(e, i) && dx[i] < 0) a = fmin(a, tau * below(e, e->x, i) / -dx[i]);
        if (has_high(e, i) && dx[i] > 0) a = fmin(a, tau * above(e, e->x, i) / dx[i]);
    }
    return a;
}

/* ---- the filter ---- */

bool gd__ip_accepts(const gd_ip *e, double theta, double phi)
{
    if (!isfinite(theta) || !isfinite(phi) || !(theta < e->k.theta_most)) return false;
    for (int i = 0; i < (int)e->k.filter; i++)
        if (!(theta < (1 - 1e-5) * e->filter[2 * i] || phi < e->filter[2 * i + 1] - 1e-8 * e->filter[2 * i]))
            return false;
    return true;
}

/* Removes pairs that the new pair dominates; if there is no room, the oldest. */
void gd__ip_forbid(gd_ip *e, double theta, double phi)
{
    double t = (1 - 1e-5) * theta, f = phi - 1e-8 * theta;
    int kept = 0, count = (int)e->k.filter;
    for (int i = 0; i < count; i++) {
        if (e->filter[2 * i] >= t && e->filter[2 * i + 1] >= f) continue;
        e->filter[2 * kept] = e->filter[2 * i];
        e->filter[2 * kept++ + 1] = e->filter[2 * i + 1];
    }
    if (kept == GD_IP_FILTER) memmove(e->filter, e->filter + 2, (size_t)(2 * --kept) * sizeof *e->filter);
    e->filter[2 * kept] = t;
    e->filter[2 * kept + 1] = f;
    e->k.filter = kept + 1;
}

/* ---- the search ---- */

typedef struct search {
    double theta, phi, slope; /* at the point; of phi along the direction */
    double a, theta_here, f;  /* of the trial */
    bool by_phi;              /* accepted because phi fell enough */
} search;

/* Evaluates x + a dx. */
static gd_status go(gd_ip *e, const double *dx, double a, search *s, double *phi)
{
    for (int64_t i = 0; i < e->all; i++) e->trial[i] = e->x[i] + a * dx[i];
    gd_status status = gd__ip_values(e, e->trial, &s->f, e->ct);
    s->theta_here = gd__ip_violation(e, e->ct, e->trial, NULL);
    *phi = gd__ip_barrier(e, s->f, e->trial, e->k.mu);
    return status;
}

static gd_status try_at(gd_ip *e, const double *dx, double length, double a, search *s, bool *accepted)
{
    double phi, margin = 10 * DBL_EPSILON * fmax(1, fabs(s->phi));
    gd_status status = go(e, dx, length, s, &phi);
    *accepted = false;
    if (status || !isfinite(s->f) || !gd__ip_accepts(e, s->theta_here, phi)) return status;
    bool switching = s->slope < 0 && a * pow(-s->slope, 2.3) > pow(s->theta, 1.1);
    s->by_phi = switching && s->theta <= e->k.theta_least;
    if (s->by_phi)
        *accepted = phi <= s->phi + 1e-8 * a * s->slope + margin;
    else
        *accepted = s->theta_here <= (1 - 1e-5) * s->theta || phi <= s->phi - 1e-8 * s->theta + margin;
    return GD_OK;
}

/* A second-order correction: the same matrix with the rows as they are at the trial. */
static gd_status correct(gd_ip *e, double dw, double tau, search *s, bool *accepted)
{
    gd_status status = GD_OK;
    double last = s->theta_here, a = s->a;
    for (int64_t i = 0; i < e->rows; i++) e->cc[i] = a * e->r[i] + e->rt[i];
    for (int k = 0; k < e->o.corrections && !status; k++) {
        direction(e, e->cc, dw, e->dx2, e->dy2);
        double length = to_boundary(e, e->dx2, tau);
        status = try_at(e, e->dx2, length, a, s, accepted);
        if (status || *accepted || !isfinite(s->theta_here) || s->theta_here > 0.99 * last) break;
        last = s->theta_here;
        for (int64_t i = 0; i < e->rows; i++) e->cc[i] = length * e->cc[i] + e->rt[i];
    }
    return status;
}

static double least_length(const gd_ip *e, const search *s)
{
    double a = 1e-5;
    if (s->slope < 0) {
        a = fmin(a, 1e-8 * s->theta / -s->slope);
        if (s->theta <= e->k.theta_least && s->theta > 0)
            a = fmin(a, pow(s->theta, 1.1) / pow(-s->slope, 2.3));
    }
    return fmax(0.05 * a, 1e-14);
}

static gd_status search_along(gd_ip *e, double dw, double tau, search *s, bool *found)
{
    double least = least_length(e, s), first = s->a;
    gd_status status = GD_OK;
    *found = false;
    for (; s->a >= least && !status && !*found; s->a *= 0.5) {
        status = try_at(e, e->dx, s->a, s->a, s, found);
        bool worse = isfinite(s->theta_here) && s->theta_here >= s->theta;
        if (!status && !*found && s->a == first && e->rows && worse && e->o.corrections)
            status = correct(e, dw, tau, s, found);
        if (*found) break;
    }
    return status;
}

/* ---- the step ---- */

static double clamped(double z, double mu, double distance)
{
    return fmin(fmax(z, mu / 1e10 / distance), 1e10 * mu / distance);
}

static gd_status take_trial(gd_ip *e, const search *s, double dual)
{
    double mu = e->k.mu;
    memcpy(e->x, e->trial, (size_t)e->all * sizeof *e->x);
    memcpy(e->c, e->ct, (size_t)e->rows * sizeof *e->c);
    e->f = s->f;
    for (int64_t i = 0; i < e->rows; i++) e->y[i] += s->a * e->dy[i];
    for (int64_t i = 0; i < e->all; i++) {
        if (has_low(e, i)) e->zl[i] = clamped(e->zl[i] + dual * e->dzl[i], mu, below(e, e->x, i));
        if (has_high(e, i)) e->zu[i] = clamped(e->zu[i] + dual * e->dzu[i], mu, above(e, e->x, i));
    }
    gd_status status = gd__ip_derive(e);
    if (status) return status;
    if (e->o.thorough) {
        gd__ip_relax(e);
        gd__ip_cut_multipliers(e);
        gd__ip_rows(e, e->c, e->x, e->r);
    }
    e->k.steps++;
    return GD_OK;
}

static bool is_small(const gd_ip *e)
{
    double most = 0;
    for (int64_t i = 0; i < e->all; i++) most = fmax(most, fabs(e->dx[i]) / (1 + fabs(e->x[i])));
    return most < 10 * DBL_EPSILON;
}

/* No trial was accepted: restore where rows are violated, else the monotone barrier, else it is stuck. */
static void refused(gd_ip *e, const search *s, gd_ip_end *end)
{
    double least, mean;
    bool feasible = !e->rows || s->theta <= 1e-12 * fmax(1, most_of(e->c, e->rows));
    if (!feasible && e->o.thorough) {
        *end = ++e->k.restorations > 20 ? GD_IP_STALLED : GD_IP_RESTORE;
        return;
    }
    if (e->error <= 1e2 * e->o.tol || e->k.is_free == 0) {
        *end = GD_IP_STALLED;
        return;
    }
    look_at_products(e, &least, &mean);
    e->k.is_free = 0;
    e->k.mu = fmax(fmax(e->k.mu, e->o.least_mu), 0.1 * mean);
    e->k.steps++;
    forget_filter(e);
}

static double slope_of(const gd_ip *e)
{
    double sum = 0, mu = e->k.mu;
    for (int64_t i = 0; i < e->all; i++) {
        sum += e->g[i] * e->dx[i];
        if (has_low(e, i)) sum -= mu * e->dx[i] / below(e, e->x, i);
        if (has_high(e, i)) sum += mu * e->dx[i] / above(e, e->x, i);
    }
    return sum;
}

static gd_status newton_step(gd_ip *e, gd_ip_end *end, bool *moved)
{
    double dw, tau = fmax(0.99, 1 - e->k.mu), phi;
    gd_status status = gd__ip_curvature(e);
    if (status) return status;
    *end = all_finite(e->w, e->n * e->n) ? factor(e, &dw) ? GD_IP_GOES_ON : GD_IP_SINGULAR : GD_IP_NOT_FINITE;
    if (*end != GD_IP_GOES_ON) return GD_OK;
    barrier_gradient(e);
    direction(e, e->r, dw, e->dx, e->dy);
    double dual = bound_multipliers(e, tau);
    search s = {.theta = theta_of(e), .phi = gd__ip_barrier(e, e->f, e->x, e->k.mu), .slope = slope_of(e)};
    s.a = to_boundary(e, e->dx, tau);
    if (is_small(e)) {
        if (++e->k.tiny >= 3)
            *end = GD_IP_STALLED;
        else if (!(status = go(e, e->dx, s.a, &s, &phi)))
            *moved = isfinite(s.f) && isfinite(s.theta_here);
    } else {
        e->k.tiny = 0;
        status = search_along(e, dw, tau, &s, moved);
    }
    if (status || *end != GD_IP_GOES_ON) return status;
    if (*moved && !s.by_phi) gd__ip_forbid(e, s.theta, s.phi);
    if (*moved)
        status = take_trial(e, &s, dual);
    else {
        refused(e, &s, end);
        if (*end == GD_IP_RESTORE) gd__ip_forbid(e, s.theta, s.phi);
    }
    if (!status && *moved && !(all_finite(e->g, e->all) && all_finite(e->j, e->n * e->rows)))
        *end = GD_IP_NOT_FINITE;
    return status;
}

gd_status gd__ip_step(gd_ip *e, gd_ip_end *end)
{
    bool moved = false;
    *end = GD_IP_GOES_ON;
    gd_status status = judge_point(e, end, &moved);
    while (!status && !moved && *end == GD_IP_GOES_ON) {
        update_barrier(e);
        status = newton_step(e, end, &moved);
    }
    return status;
}

gd_status gd__ip_go_on_from(gd_ip *e)
{
    gd_status status = gd__ip_derive(e);
    double mu = e->k.mu;
    for (int64_t i = 0; i < e->all; i++) {
        if (has_low(e, i)) e->zl[i] = fmin(fmax(mu / below(e, e->x, i), 1e-8), 1e3);
        if (has_high(e, i)) e->zu[i] = fmin(fmax(mu / above(e, e->x, i), 1e-8), 1e3);
    }
    if (!status) least_squares(e);
    e->k.last_shift = e->k.is_free = 0;
    e->k.mu = fmax(mu, 1e-6);
    return status;
}
