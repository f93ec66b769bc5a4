/* References of PSGD's whitening: Q as plain matrices and their inverses by elimination, E[v v^T] = 1. */
#ifndef GD_TESTS_OPTIM_REFERENCE_PSGD_H
#define GD_TESTS_OPTIM_REFERENCE_PSGD_H

#include "reference_matrix.h"

/* o = a^-1 for n x n matrices, by Gauss and Jordan with pivots. */
static void inverse_of(int n, const double *a, double *o)
{
    double m[N][2 * N] = {{0}};
    for (int i = 0; i < n * n; i++) m[i / n][i % n] = a[i], m[i / n][n + i % n] = i / n == i % n;
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k; i < n; i++)
            if (fabs(m[i][k]) > fabs(m[best][k])) best = i;
        for (int j = 0; j < 2 * n; j++) {
            double x = m[k][j];
            m[k][j] = m[best][j], m[best][j] = x;
        }
        for (int j = 2 * n - 1; j >= k; j--) m[k][j] /= m[k][k];
        for (int i = 0; i < n; i++)
            for (int j = 2 * n - 1; j >= k && i != k; j--) m[i][j] -= m[i][k] * m[k][j];
    }
    for (int i = 0; i < n * n; i++) o[i] = m[i / n][n + i % n];
}

static double bound_22(const double *a)
{
    double frobenius = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2] + a[3] * a[3]);
    return fmin(frobenius, fmax(fabs(a[0]) + fabs(a[1]), fabs(a[2]) + fabs(a[3])));
}

static double raise_bound(double *bound, double l)
{
    *bound = fmax(0.8 * *bound + 0.2 * l, l);
    return 0.1 / *bound;
}

/* First Q: (mean g^2)^(-1/4), its root for each of two factors. */
static double first_q(const double *g, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += g[i] * g[i];
    return pow(sum / n, -0.25);
}

/* The vector: a diagonal q (s[0]); k[0] its bound. */
static void whiten_vector(moment_of *x)
{
    double s[3], l = 0, *q = x->s[0];
    for (int i = 0; i < 3; i++) {
        if (x->t == 1) q[i] = first_q(x->u, 3);
        double a = q[i] * q[i] * x->u[i];
        s[i] = a * a - 1;
        l = fmax(l, a * a + 1);
    }
    double rate = raise_bound(&x->k[0], l);
    for (int i = 0; i < 3; i++) q[i] *= 1 - rate * s[i];
    for (int i = 0; i < 3; i++) x->u[i] *= q[i] * q[i];
}

/* P u of the matrix with factors l and r. */
static void precondition_22(const double *l, const double *r, double *u)
{
    double a[4], b[4];
    product_22(l, false, u, false, a);
    product_22(l, true, a, false, b);
    product_22(b, false, r, true, a);
    product_22(a, false, r, false, u);
}

static void balance_22(double *l, double *r)
{
    double a = 0, b = 0;
    for (int i = 0; i < 4; i++) a = fmax(a, fabs(l[i])), b = fmax(b, fabs(r[i]));
    for (int i = 0; i < 4; i++) l[i] *= sqrt(a * b) / a, r[i] *= sqrt(a * b) / b;
}

static void first_22(moment_of *x)
{
    double scale = sqrt(first_q(x->u + 3, 4));
    if (x->t == 1) x->s[1][0] = x->s[1][3] = x->s[2][0] = x->s[2][3] = scale;
}

/* Q - Q S; each factor with the other axis summed over: its mean of v v^T is 2. */
static void kron_whiten_qeq(moment_of *x)
{
    double *q[2] = {x->s[1], x->s[2]}, a[4], next[2][4];
    whiten_vector(x);
    first_22(x);
    memcpy(a, x->u + 3, sizeof a);
    precondition_22(q[0], q[1], a);
    for (int d = 0; d < 2; d++) {
        double plus[4], sum[4], s[4];
        product_22(a, d == 1, a, d == 0, plus);
        for (int i = 0; i < 4; i++) sum[i] = plus[i] + (i == 0 || i == 3 ? 2 : 0);
        double rate = raise_bound(&x->k[1 + d], bound_22(sum));
        for (int i = 0; i < 4; i++) s[i] = rate * (plus[i] - (i == 0 || i == 3 ? 2 : 0));
        product_22(q[d], false, s, false, next[d]);
        for (int i = 0; i < 4; i++) next[d][i] = q[d][i] - next[d][i];
    }
    for (int d = 0; d < 2; d++) memcpy(q[d], next[d], sizeof next[d]);
    balance_22(q[0], q[1]);
    precondition_22(q[0], q[1], x->u + 3);
}

/* Q - triu(A A^T - mean B B^T) Q with A = Q g, B = Q^-T v. */
static void kron_whiten_eq(moment_of *x)
{
    double *q[2] = {x->s[1], x->s[2]}, a[4], b[4], next[2][4], inverse[2][4], size[2] = {0};
    double g[3];
    memcpy(g, x->u, sizeof g);
    /* the diagonal: A = q g, the mean of B^2 is 1 / q^2 */
    double s[3], l = 0, *v = x->s[0];
    for (int i = 0; i < 3; i++) {
        if (x->t == 1) v[i] = first_q(g, 3);
        double plus = v[i] * v[i] * g[i] * g[i], minus = 1 / (v[i] * v[i]);
        s[i] = plus - minus;
        l = fmax(l, plus + minus);
    }
    double vector_rate = raise_bound(&x->k[0], l);
    for (int i = 0; i < 3; i++) v[i] *= 1 - vector_rate * s[i], x->u[i] = v[i] * v[i] * g[i];
    first_22(x);
    product_22(q[0], false, x->u + 3, false, b);
    product_22(b, false, q[1], true, a);
    for (int d = 0; d < 2; d++) {
        inverse_of(2, q[d], inverse[d]);
        for (int i = 0; i < 4; i++) size[d] += inverse[d][i] * inverse[d][i];
    }
    for (int d = 0; d < 2; d++) {
        double plus[4], minus[4], sum[4], e[4];
        product_22(a, d == 1, a, d == 0, plus);
        product_22(inverse[d], true, inverse[d], false, minus);
        for (int i = 0; i < 4; i++) minus[i] *= size[1 - d], sum[i] = plus[i] + minus[i];
        double rate = raise_bound(&x->k[1 + d], bound_22(sum));
        for (int i = 0; i < 4; i++) e[i] = i == 2 ? 0 : rate * (plus[i] - minus[i]);
        product_22(e, false, q[d], false, next[d]);
        for (int i = 0; i < 4; i++) next[d][i] = q[d][i] - next[d][i];
    }
    for (int d = 0; d < 2; d++) memcpy(q[d], next[d], sizeof next[d]);
    precondition_22(q[0], q[1], x->u + 3);
}

/* Q = (1 + U V^T) diag(d) as a 7 x 7 matrix.  s: d, U (two columns), V (two columns); k: bounds of U, V, d. */
static void low_rank_matrix(const moment_of *x, double *q)
{
    EACH(i)
    EACH(j)
    q[i * N + j] = ((i == j) + x->s[1][i] * x->s[3][j] + x->s[2][i] * x->s[4][j]) * x->s[0][j];
}

static double norm_of(const double *x, int n) { return norm_in(x, 0, n); }

/* c = a b of matrices [m, k] and [k, n], a transposed where asked. */
static void multiply_to(int m, int k, int n, const double *a, bool at, const double *b, double *c)
{
    for (int i = 0; i < m * n; i++) {
        c[i] = 0;
        for (int j = 0; j < k; j++) c[i] += a[at ? j * m + i / n : i / n * k + j] * b[j * n + i % n];
    }
}

static void lra_whiten(moment_of *x)
{
    double q[N * N], inverse[N * N], g[N * N], second[N * N], a[N], p[N], down[N], most = 0, pi = acos(-1);
    if (x->t == 1) EACH(i)
        {
            x->s[0][i] = first_q(x->u, N);
            for (int k = 0; k < 2; k++) x->s[3 + k][i] = 0.1 * sqrt(2.0 / N) * cos(pi * (i + 0.5) * k / N);
        }
    low_rank_matrix(x, q);
    inverse_of(N, q, inverse);
    multiply_to(N, N, 1, q, false, x->u, a);
    multiply_to(N, N, 1, q, true, a, p);
    multiply_to(N, N, N, inverse, true, inverse, second); /* Q^-T Q^-1 */
    EACH(i) EACH(j) g[i * N + j] = a[i] * a[j] - second[i * N + j];
    EACH(i)
    {
        double minus = 0;
        EACH(j) minus += inverse[i * N + j] * inverse[i * N + j];
        most = fmax(most, fabs(x->u[i] * p[i]) + minus);
        down[i] = x->s[0][i] * (x->u[i] * p[i] - minus);
    }
    /* U from V at first, then V from U, in turns */
    bool first = (x->t - 1) % 2 == 0;
    double w[N * 2], gw[N * 2], sw[N * 2], wa[2], wwa[N], turn[4], step[N * 2], u[N * 2], v[N * 2];
    EACH(i) for (int k = 0; k < 2; k++)
    {
        u[2 * i + k] = x->s[1 + k][i];
        v[2 * i + k] = x->s[3 + k][i];
        w[2 * i + k] = first ? v[2 * i + k] : u[2 * i + k];
    }
    multiply_to(N, N, 2, g, false, w, gw);
    multiply_to(N, N, 2, second, false, w, sw);
    multiply_to(2, N, 1, w, true, a, wa);
    multiply_to(N, 2, 1, w, false, wa, wwa);
    double l = norm_of(a, N) * norm_of(wwa, N) + norm_of(sw, 2 * N) * norm_of(w, 2 * N);
    double rate = raise_bound(&x->k[first ? 0 : 1], l), d_rate = raise_bound(&x->k[2], most);
    if (first) {
        multiply_to(2, N, 2, v, true, u, turn);
        turn[0] += 1, turn[3] += 1;
        multiply_to(N, 2, 2, gw, false, turn, step);
    } else {
        multiply_to(2, N, 2, u, true, gw, turn);
        multiply_to(N, 2, 2, v, false, turn, step);
        for (int i = 0; i < 2 * N; i++) step[i] += gw[i];
    }
    EACH(i)
    {
        for (int k = 0; k < 2; k++) x->s[(first ? 1 : 3) + k][i] -= rate * step[2 * i + k];
        x->s[0][i] -= d_rate * down[i];
    }
    low_rank_matrix(x, q);
    multiply_to(N, N, 1, q, false, x->u, a);
    multiply_to(N, N, 1, q, true, a, x->u);
}

static const reference psgd_references[] = {
    {"psgd_kron_whiten(betaL=0.8, damping=0, dQ=\"QEQ\", balance_probability=1)", kron_whiten_qeq, 0.05},
    {"psgd_kron_whiten(betaL=0.8, damping=0, dQ=\"EQ\", balance_probability=0)", kron_whiten_eq, 0.05},
    {"psgd_lra_whiten(2, betaL=0.8, damping=0)", lra_whiten, 0.05},
};

#endif
