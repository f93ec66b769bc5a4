/* References of links that solve with the Hessian of the bowl: diag(w + 0.9 cos(3 p)) + 0.1. */
#ifndef GD_TESTS_OPTIM_REFERENCE_NEWTON_H
#define GD_TESTS_OPTIM_REFERENCE_NEWTON_H

#include "reference_psgd.h"

static void bowl_hessian(const double *p, double *h)
{
    EACH(i) EACH(j) h[i * N + j] = 0.1 + (i == j ? bowl_weight[i] + 0.9 * cos(3 * p[i]) : 0);
}

static double dot_of(const double *a, const double *b)
{
    double sum = 0;
    EACH(i) sum += a[i] * b[i];
    return sum;
}

/* Saheya et al. 2016: (H + g a^T) u = g, by the inverse of that matrix itself; s: parameters and gradient of before. */
static void improved_newton(moment_of *x)
{
    double h[N * N], m[N * N], inverse[N * N], hs[N], s[N], y[N], a[N] = {0};
    bowl_hessian(x->p, h);
    EACH(i) s[i] = x->p[i] - x->s[0][i], y[i] = x->g[i] - x->s[1][i];
    multiply_to(N, N, 1, h, false, s, hs);
    EACH(i) h[i * N + i] += 0.5;
    if (x->t > 1) EACH(i) a[i] = (1 - dot_of(y, hs) / dot_of(y, y)) * s[i] / dot_of(s, s);
    EACH(i) EACH(j) m[i * N + j] = h[i * N + j] + x->g[i] * a[j];
    EACH(i) x->s[0][i] = x->p[i], x->s[1][i] = x->g[i];
    inverse_of(N, m, inverse);
    multiply_to(N, N, 1, inverse, false, x->g, x->u);
}

/* Gower et al. 2019 in the space of the last two gradients, by Gram and Schmidt; s[0]: the gradient of before. */
static void subspace_newton(moment_of *x)
{
    double h[N * N], q[2][N], hq[N], small[4], inverse[4], norm = sqrt(dot_of(x->g, x->g));
    int k = x->t > 1 ? 2 : 1;
    bowl_hessian(x->p, h);
    EACH(i) q[0][i] = x->g[i] / norm;
    double along = dot_of(q[0], x->s[0]);
    EACH(i) q[1][i] = x->s[0][i] - along * q[0][i];
    norm = sqrt(dot_of(q[1], q[1]));
    if (k == 2) EACH(i) q[1][i] /= norm;
    for (int c = 0; c < k; c++) {
        multiply_to(N, N, 1, h, false, q[c], hq);
        for (int r = 0; r < k; r++) small[r * k + c] = dot_of(q[r], hq) + (r == c ? 0.4 : 0);
    }
    inverse_of(k, small, inverse);
    memcpy(x->s[0], x->g, sizeof q[0]);
    EACH(i)
    {
        x->u[i] = 0;
        for (int r = 0; r < k; r++)
            for (int c = 0; c < k; c++) x->u[i] += q[r][i] * inverse[r * k + c] * dot_of(q[c], x->g);
    }
}

static const reference newton_references[] = {
    {"improved_newton(damping=0.5)", improved_newton, 0.3},
    {"subspace_newton(2, damping=0.4)", subspace_newton, 0.3},
};

#endif
