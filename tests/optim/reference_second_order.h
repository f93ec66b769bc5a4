/* References of Newton's relatives, with the Hessian written out. */
#ifndef GD_TESTS_OPTIM_REFERENCE_SECOND_ORDER_H
#define GD_TESTS_OPTIM_REFERENCE_SECOND_ORDER_H

#include "reference_matrix.h"
#include "reference_quasi_newton.h"

static void hessian_at(const double *p, double *h)
{
    EACH(i) EACH(j) h[i * N + j] = 0.1 + (i == j ? bowl_weight[i] + 0.9 * cos(3 * p[i]) : 0);
}

/* d += J(at)^-1 F(of), and the other way where W is given: (2 - J^-1 J(q)) of that. */
static void newton_step_of(const double *at, const double *of, const double *q, double *d)
{
    double h[N * N], g[N], w[N];
    (void)loss_at(of, g);
    hessian_at(at, h);
    eliminate(h, g);
    if (q) {
        double hq[N * N];
        hessian_at(q, hq);
        apply_matrix(hq, false, g, w);
        eliminate(h, w);
        EACH(i) g[i] = 2 * g[i] - w[i];
    }
    EACH(i) d[i] += g[i];
}

static void less(const double *p, const double *d, double factor, double *out)
{
    EACH(i) out[i] = p[i] - factor * d[i];
}

static void sixth_3p(moment_of *x)
{
    double d[N] = {0}, q[N], r[N];
    newton_step_of(x->p, x->p, NULL, d);
    less(x->p, d, 1, q);
    newton_step_of(q, q, NULL, d);
    less(x->p, d, 1, r);
    newton_step_of(q, r, NULL, d);
    memcpy(x->u, d, sizeof d);
}

static void sixth_3pm2(moment_of *x)
{
    double d[N] = {0}, q[N], r[N];
    newton_step_of(x->p, x->p, NULL, d);
    less(x->p, d, 1, q);
    newton_step_of(x->p, q, q, d);
    less(x->p, d, 1, r);
    newton_step_of(x->p, r, q, d);
    memcpy(x->u, d, sizeof d);
}

static void sixth_5p(moment_of *x)
{
    double d[N] = {0}, m[N], r[N];
    newton_step_of(x->p, x->p, NULL, d);
    less(x->p, d, 0.5, m);
    memset(d, 0, sizeof d);
    newton_step_of(m, x->p, NULL, d);
    less(x->p, d, 1, r);
    newton_step_of(r, r, NULL, d);
    memcpy(x->u, d, sizeof d);
}

static void newton_whole(moment_of *x)
{
    double d[N] = {0};
    newton_step_of(x->p, x->p, NULL, d);
    memcpy(x->u, d, sizeof d);
}

/* (H + g a^T) d = g solved as it stands; s: last parameters and gradient. */
static void improved(moment_of *x)
{
    double h[N * N], s[N], y[N], hs[N], *p = x->s[0], *g = x->s[1];
    hessian_at(x->p, h);
    EACH(i)
    {
        s[i] = x->p[i] - p[i], y[i] = x->g[i] - g[i];
        p[i] = x->p[i], g[i] = x->g[i];
    }
    apply_matrix(h, false, s, hs);
    double rest = 1 - inner(y, hs) / inner(y, y);
    if (x->t > 1) EACH(i) EACH(j) h[i * N + j] += x->g[i] * rest * s[j] / inner(s, s);
    eliminate(h, x->u);
}

/* Eigenvalues of H below 0 count as 0; 0.5 is added. */
static void nystrom_whole(moment_of *x)
{
    double h[N * N], l[N], v[N * N], out[N] = {0};
    hessian_at(x->p, h);
    jacobi(N, h, l, v);
    EACH(i) EACH(j) EACH(k) out[i] += v[i * N + k] / (fmax(l[k], 0) + 0.5) * v[j * N + k] * x->u[j];
    memcpy(x->u, out, sizeof out);
}

/* Subspaces as large as the space are no restriction, whatever is drawn. */
static const reference second_order_references[] = {
    {"inm", improved, 0.05},
    {"nystrom_sketch_and_solve(7, reg=0.5)", nystrom_whole, 0.05},
    {"nystrom_sketch_and_solve(100, reg=0.5)", nystrom_whole, 0.05},
    {"rsn(7)", newton_whole, 0.05},
    {"rsn(9, sketch_type=\"mixed\", use_lstsq=false)", newton_whole, 0.05},
    {"rsn(7, sketch_type=\"gaussian\", use_lstsq=false)", newton_whole, 0.05},
    {"sixth_order_3p", sixth_3p, 1e-8},
    {"sixth_order_3pm2", sixth_3pm2, 1e-8},
    {"sixth_order_5p", sixth_5p, 1e-8},
};

#endif
