/* Restoration (Wachter & Biegler 2006, 3.3): the engine on
 *
 *     min rho sum(p + q) + zeta/2 |D (x - x_r)|^2   under   c(x) + E t - p + q = 0,   low <= x <= high,   t, p, q >= 0,
 *
 * D = 1 / max(1, |x_r|).  The tails of the problem stay tails, and p and q are additional ones. It ends when the violation has fallen
 * to 0.9 and the filter of the problem accepts the point; if it converges without that, no point nearby satisfies the rows. */
#include "optim/methods/nlp/restoration.h"

#include <math.h>
#include <string.h>

#define RHO   1000
#define STEPS 200

/* ---- the functions ---- */

static double weight_of(const gd_restoration *r, int64_t i)
{
    double d = 1 / fmax(1, fabs(r->from[i]));
    return r->k.zeta * d * d;
}

static gd_status values(void *user, double *x, double *f, double *c)
{
    gd_restoration *r = user;
    const gd_ip *e = r->outer;
    gd_status status = e->p->values(e->p->user, x, &r->f, c);
    r->f *= e->k.weight;
    for (int64_t i = 0; i < e->rows; i++) r->c[i] = c[i] = (c[i] - e->relaxed[i]) * e->scale[i];
    *f = 0;
    for (int64_t i = 0; i < e->n; i++)
        *f += 0.5 * weight_of(r, i) * (x[i] - r->from[i]) * (x[i] - r->from[i]);
    return status;
}

static gd_status first(void *user, const double *x, double *g, double *j)
{
    gd_restoration *r = user;
    const gd_ip *e = r->outer;
    gd_status status = e->p->first(e->p->user, x, g, j);
    for (int64_t i = 0; i < e->n; i++) g[i] = weight_of(r, i) * (x[i] - r->from[i]);
    for (int64_t i = 0; i < e->rows; i++)
        for (int64_t k = 0; k < e->n; k++) j[i * e->n + k] *= e->scale[i];
    return status;
}

static gd_status second(void *user, const double *x, double weight, const double *y, double *w)
{
    gd_restoration *r = user;
    const gd_ip *e = r->outer;
    for (int64_t i = 0; i < e->rows; i++) e->ct[i] = y[i] * e->scale[i];
    gd_status status = e->p->second(e->p->user, x, 0, e->ct, w);
    for (int64_t i = 0; i < e->n; i++) w[i * e->n + i] += weight * weight_of(r, i);
    return status;
}

/* ---- memory ---- */

static gd_ip_problem shape_of(const gd_ip_problem *outer)
{
    gd_ip_problem p = *outer;
    p.tails = outer->tails + 2 * outer->rows;
    p.slacks = 0;
    return p;
}

int64_t gd__restoration_kept(const gd_ip_problem *outer)
{
    gd_ip_problem p = shape_of(outer);
    return p.n + gd__ip_kept(&p);
}

int64_t gd__restoration_room(const gd_ip_problem *outer)
{
    gd_ip_problem p = shape_of(outer);
    return p.n + gd__ip_room(&p) + p.rows + 3 * p.tails;
}

void gd__restoration_open(gd_restoration *r, gd_ip *outer, double *room)
{
    const gd_ip_problem *of = outer->p;
    gd_ip_options o = gd__ip_defaults();
    *r = (gd_restoration){.outer = outer, .p = shape_of(of)};
    double *at = room + of->n + gd__ip_room(&r->p), *sign, *cost;
    int64_t *row;
    r->from = room;
    r->c = at;
    sign = r->c + of->rows;
    cost = sign + r->p.tails;
    row = (int64_t *)(void *)(cost + r->p.tails);
    for (int64_t t = 0; t < of->tails; t++) row[t] = of->row[t], sign[t] = of->sign[t], cost[t] = 0;
    for (int64_t i = 0; i < 2 * of->rows; i++) {
        row[of->tails + i] = i % of->rows;
        sign[of->tails + i] = i < of->rows ? -1 : 1;
        cost[of->tails + i] = RHO;
    }
    r->p.row = row, r->p.sign = sign, r->p.cost = cost;
    r->p.user = r;
    r->p.values = values, r->p.first = first, r->p.second = second;
    o.push = 1e-12;
    o.theta_most = 1e4;
    o.corrections = 4;
    o.max_steps = STEPS;
    o.tol = outer->o.tol;
    o.adaptive = o.scaled = o.least_squares = o.thorough = false;
    gd__ip_open(&r->ip, &r->p, &o, room + of->n);
}

/* ---- steps ---- */

/* The best p and q for the present row: the minimum of the barrier function in closed form. */
static void place_elastics(gd_restoration *r, double mu)
{
    const gd_ip *e = r->outer;
    double *p = r->ip.x + e->all, *q = p + e->rows;
    for (int64_t i = 0; i < e->rows; i++) {
        double half = (mu - RHO * e->r[i]) / (2 * RHO);
        q[i] = half + sqrt(half * half + mu * e->r[i] / (2 * RHO));
        p[i] = e->r[i] + q[i];
    }
}

gd_status gd__restoration_start(gd_restoration *r, gd_ip_end *end)
{
    gd_ip *e = r->outer, *ip = &r->ip;
    double most = 0;
    for (int64_t i = 0; i < e->rows; i++) most = fmax(most, fabs(e->r[i]));
    double mu = fmax(e->k.mu, most);
    memcpy(r->from, e->x, (size_t)e->n * sizeof *r->from);
    memcpy(ip->x + e->n, e->x + e->n, (size_t)(e->all - e->n) * sizeof *e->x);
    place_elastics(r, mu);
    r->k.zeta = sqrt(mu);
    r->k.theta = gd__ip_violation(e, e->c, e->x, NULL);
    ip->o.first_mu = mu;
    gd_status status = gd__ip_start(ip, e->x, end);
    for (int64_t i = 0; i < ip->all; i++) {
        if (ip->low[i] > -INFINITY) ip->zl[i] = fmin(mu / fmax(ip->x[i] - ip->low[i], 1e-12), 1e3);
        if (ip->high[i] < INFINITY) ip->zu[i] = fmin(mu / fmax(ip->high[i] - ip->x[i], 1e-12), 1e3);
    }
    if (*end == GD_IP_GOES_ON) *end = GD_IP_RESTORE;
    return status;
}

/* The problem continues from here. */
static gd_status hand_over(gd_restoration *r)
{
    gd_ip *e = r->outer;
    memcpy(e->x, r->ip.x, (size_t)e->all * sizeof *e->x);
    memcpy(e->c, r->c, (size_t)e->rows * sizeof *e->c);
    e->f = r->f;
    e->k.steps += r->ip.k.steps;
    return gd__ip_go_on_from(e);
}

/* It ended by itself: the least violation is 0, or nothing better was found. */
static gd_status give_up(gd_restoration *r, gd_ip_end *end)
{
    gd_ip *e = r->outer;
    double most;
    gd_status status = hand_over(r);
    (void)gd__ip_violation(e, e->c, e->x, &most);
    bool settled = *end == GD_IP_SOLVED || *end == GD_IP_STALLED;
    e->violation = 0;
    for (int64_t i = 0; i < e->rows; i++) e->violation = fmax(e->violation, fabs(e->r[i] / e->scale[i]));
    bool broken = most > 10 * e->o.tol && e->violation > e->o.violation_tol;
    *end = settled && broken ? GD_IP_INFEASIBLE : GD_IP_STALLED;
    return status;
}

gd_status gd__restoration_step(gd_restoration *r, gd_ip_end *end)
{
    gd_ip *e = r->outer;
    gd_status status = gd__ip_step(&r->ip, end);
    if (status) return status;
    if (*end != GD_IP_GOES_ON) return give_up(r, end);
    double theta = gd__ip_violation(e, r->c, r->ip.x, NULL);
    *end = GD_IP_RESTORE;
    if (!(theta <= 0.9 * r->k.theta) || !gd__ip_accepts(e, theta, gd__ip_barrier(e, r->f, r->ip.x, e->k.mu)))
        return GD_OK;
    *end = GD_IP_GOES_ON;
    return hand_over(r);
}
