/* Keeps the interior point from false solutions: scales chosen at a distant point, gradients that are small only relative to |f|, saddles,
 * rows without an interior, linearly dependent rows. */
#include "optim/methods/nlp/engine.h"

#include <float.h>
#include <string.h>

#define FAR \
    1e6 /* of |x| by that of the start: a minimum beyond must also have a small gradient relative to |x| */
#define COLLAPSED 1e-12
#define RELAXED   1e-9
#define MOST_Y    1e8

/* f's scale was chosen where its gradient was much larger. */
bool gd__ip_scale_anew(gd_ip *e)
{
    double weight = gd__ip_factor(most_of(e->g, e->n) / e->k.weight), by = weight / e->k.weight;
    if (!e->o.scaled || e->k.kicks >= 3 || !(by > 10)) return false;
    e->k.kicks++;
    e->k.weight = weight;
    e->f *= by;
    e->k.first_f *= by;
    for (int64_t i = 0; i < e->all; i++) e->g[i] *= by, e->zl[i] *= by, e->zu[i] *= by;
    for (int64_t i = 0; i < e->rows; i++) e->y[i] *= by;
    e->k.mu = fmax(e->k.mu * by, e->o.least_mu);
    forget_filter(e);
    forget_errors(e);
    return true;
}

/* Far out every slope looks flat: the gradient must be small relative to |f| / |x| too. */
bool gd__ip_is_far(gd_ip *e)
{
    double size = most_of(e->x, e->n), sum = 0;
    gd__ip_stationarity(e, e->barrier);
    for (int64_t i = 0; i < e->n; i++) sum += fabs(e->barrier[i] * e->x[i]) / e->k.weight;
    return size > FAR * e->k.first_size && sum > 1e-4 * fmax(1, fabs(e->f / e->k.weight));
}

static bool near_bound(double distance, double z) { return distance < 1e-6 || distance < z; }

/* Curvature on the null space of the active rows: rows without a slack, or whose slack is small relative to its multiplier. */
static gd_status falls(gd_ip *e, double *d, bool *found)
{
    const gd_ip_problem *p = e->p;
    int64_t n = e->n, active = 0;
    gd_status status = gd__ip_curvature(e);
    double *rows = e->matrix; /* not in use between steps */
    bool *held = (bool *)(void *)e->b2;
    if (status) return status;
    for (int64_t i = 0; i < n; i++)
        held[i] = (has_low(e, i) && near_bound(below(e, e->x, i), e->zl[i])) ||
                  (has_high(e, i) && near_bound(above(e, e->x, i), e->zu[i]));
    for (int64_t i = 0; i < e->rows; i++) e->b[i] = 1;
    for (int64_t t = 0; t < p->tails; t++)
        if (!near_bound(e->x[n + t], e->zl[n + t])) e->b[p->row[t]] = 0;
    for (int64_t i = 0; i < e->rows; i++)
        if (e->b[i] != 0) memcpy(rows + active++ * n, e->j + i * n, (size_t)n * sizeof *rows);
    *found = all_finite(e->w, n * n) && gd__falling_direction(n, active, e->w, rows, held, 1e-6, d, e->room);
    return GD_OK;
}

static double room_along(const gd_ip *e, const double *d, double sign)
{
    double a = 1e300;
    for (int64_t i = 0; i < e->n; i++) {
        double v = sign * d[i];
        if (has_low(e, i) && v < 0) a = fmin(a, below(e, e->x, i) / -v);
        if (has_high(e, i) && v > 0) a = fmin(a, above(e, e->x, i) / v);
    }
    return a;
}

/* Leaves a saddle, to the lower side. */
static gd_status leave(gd_ip *e, const double *d, bool *left)
{
    gd_status status = GD_OK;
    double low = INFINITY, size = fmax(1, most_of(e->x, e->n)), f;
    double *best = e->dx2;
    *left = false;
    for (int k = 0; k < 2 && !status; k++) {
        double sign = k ? -1 : 1, a = 0.99 * fmin(room_along(e, d, sign), 1e-2 * size);
        memcpy(e->trial, e->x, (size_t)e->all * sizeof *e->x);
        for (int64_t i = 0; i < e->n; i++) e->trial[i] += sign * a * d[i];
        status = gd__ip_values(e, e->trial, &f, e->ct);
        if (status || !isfinite(f) || !all_finite(e->ct, e->rows) || !(f < low)) continue;
        low = f;
        *left = true;
        memcpy(best, e->trial, (size_t)e->all * sizeof *best);
        memcpy(e->cc, e->ct, (size_t)e->rows * sizeof *e->cc);
    }
    if (status || !*left) return status;
    memcpy(e->x, best, (size_t)e->all * sizeof *best);
    memcpy(e->c, e->cc, (size_t)e->rows * sizeof *e->c);
    e->f = low;
    if ((status = gd__ip_derive(e))) return status;
    const gd_ip_problem *p = e->p;
    for (int64_t t = 0; t < p->slacks; t++) e->x[e->n + t] = fmax(-e->c[p->row[t]], e->x[e->n + t]);
    gd__ip_rows(e, e->c, e->x, e->r);
    e->k.mu = fmax(e->k.mu, 1e-4);
    for (int64_t i = 0; i < e->all; i++) {
        if (has_low(e, i)) e->zl[i] = fmax(e->zl[i], e->k.mu / fmax(below(e, e->x, i), DBL_MIN));
        if (has_high(e, i)) e->zu[i] = fmax(e->zu[i], e->k.mu / fmax(above(e, e->x, i), DBL_MIN));
    }
    e->k.is_free = 0;
    e->k.kicks++;
    forget_filter(e);
    forget_errors(e);
    return GD_OK;
}

/* Leaves a saddle or a maximum on the active rows, if it is one. */
gd_status gd__ip_leave_saddle(gd_ip *e, bool *left)
{
    bool found = false;
    *left = false;
    gd_status status = falls(e, e->dx, &found);
    return status || !found ? status : leave(e, e->dx, left);
}

/* A slack that collapsed: its row has no interior, and gets one. */
void gd__ip_relax(gd_ip *e)
{
    const gd_ip_problem *p = e->p;
    for (int64_t t = 0; t < p->slacks; t++) {
        int64_t i = p->row[t], s = e->n + t;
        if (e->x[s] >= COLLAPSED || e->relaxed[i] != 0) continue;
        e->relaxed[i] = RELAXED;
        e->c[i] -= RELAXED * e->scale[i];
        e->x[s] += RELAXED * e->scale[i];
        e->zl[s] = fmin(e->zl[s], fmax(e->k.mu / e->x[s], 1e-8));
        forget_filter(e);
    }
}

/* Linearly dependent rows have unbounded multipliers: takes those of least norm, for rows without a tail. */
void gd__ip_cut_multipliers(gd_ip *e)
{
    int64_t m = 0, n = e->n;
    double most = 0, *rows = e->matrix, *r = e->barrier;
    for (int64_t i = 0; i < e->rows; i++) e->b[i] = 1;
    for (int64_t t = 0; t < e->p->tails; t++) e->b[e->p->row[t]] = 0;
    for (int64_t i = 0; i < e->rows; i++)
        if (e->b[i] != 0) most = fmax(most, fabs(e->y[i]));
    if (!(most > MOST_Y)) return;
    for (int64_t i = 0; i < e->rows; i++)
        if (e->b[i] != 0) e->y[i] = 0, memcpy(rows + m++ * n, e->j + i * n, (size_t)n * sizeof *rows);
    gd__ip_stationarity(e, r);
    gd__least_norm(n, m, rows, r, e->b2, e->room);
    for (int64_t i = 0, k = 0; i < e->rows; i++)
        if (e->b[i] != 0) e->y[i] = e->b2[k++];
}
