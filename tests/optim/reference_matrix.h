/* References of links that see the 2 x 2 matrix as one: elements 3 to 6, by rows. */
#ifndef GD_TESTS_OPTIM_REFERENCE_MATRIX_H
#define GD_TESTS_OPTIM_REFERENCE_MATRIX_H

#include "reference.h"

/* o = a b for 2 x 2 matrices, transposed where asked. */
static void product_22(const double *a, bool at, const double *b, bool bt, double *o)
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            o[2 * i + j] = 0;
            for (int k = 0; k < 2; k++)
                o[2 * i + j] += a[at ? 2 * k + i : 2 * i + k] * b[bt ? 2 * j + k : 2 * k + j];
        }
}

/* Liu et al. 2025, section 2.2. */
static void muon_adjust_lr(moment_of *x) { EACH_OF(i, 1) x->u[i] *= 0.7 * 0.2 * sqrt(2); }

/* Jordan et al. 2024: the quintic iteration, then Bernstein & Newhouse's factor. */
static void orthogonalize(moment_of *x)
{
    double *u = x->u + begin[1], m[4], a[4], aa[4], am[4], aam[4], norm = norm_in(u, 0, 4) + 1e-7, dual = 0;
    for (int i = 0; i < 4; i++) m[i] = u[i] / norm;
    for (int step = 0; step < 5; step++) {
        product_22(m, false, m, true, a);
        product_22(a, false, a, false, aa);
        product_22(a, false, m, false, am);
        product_22(aa, false, m, false, aam);
        for (int i = 0; i < 4; i++) m[i] = 3.4445 * m[i] - 4.7750 * am[i] + 2.0315 * aam[i];
    }
    for (int i = 0; i < 4; i++) dual += m[i] * u[i];
    for (int i = 0; i < 4; i++) u[i] = m[i] * dual * 0.2 * sqrt(2);
}

/* The orthogonal matrix nearest to a b; c d is a rotation of (a + d, b - c) where ad > bc, else a reflection. */
static void polar(moment_of *x)
{
    double *u = x->u + begin[1], turn = u[0] * u[3] - u[1] * u[2] > 0 ? 1 : -1;
    double p = u[0] + turn * u[3], q = u[1] - turn * u[2], r = sqrt(p * p + q * q);
    u[0] = p / r;
    u[1] = q / r;
    u[2] = -turn * q / r;
    u[3] = turn * p / r;
}

/* Eigenvalues and vectors (columns of v) of a symmetric n x n matrix by Jacobi's rotations. */
static void jacobi(int n, const double *matrix, double *l, double *v)
{
    double a[N * N];
    memcpy(a, matrix, (size_t)(n * n) * sizeof *a);
    for (int i = 0; i < n * n; i++) v[i] = i / n == i % n;
    for (int sweep = 0; sweep < 30; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                double x = a[p * n + q];
                if (x == 0) continue;
                double theta = (a[q * n + q] - a[p * n + p]) / (2 * x);
                double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < n; k++) {
                    double y = a[k * n + p], z = a[k * n + q];
                    a[k * n + p] = c * y - s * z;
                    a[k * n + q] = s * y + c * z;
                }
                for (int k = 0; k < n; k++) {
                    double y = a[p * n + k], z = a[q * n + k], e = v[k * n + p], f = v[k * n + q];
                    a[p * n + k] = c * y - s * z;
                    a[q * n + k] = s * y + c * z;
                    v[k * n + p] = c * e - s * f;
                    v[k * n + q] = s * e + c * f;
                }
            }
    for (int i = 0; i < n; i++) l[i] = a[i * n + i];
}

/* o = matrix^e. */
static void matrix_power(int n, const double *matrix, double shift, double e, double *o)
{
    double l[N], v[N * N];
    jacobi(n, matrix, l, v);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            o[i * n + j] = 0;
            for (int k = 0; k < n; k++) o[i * n + j] += v[i * n + k] * pow(l[k] + shift, e) * v[j * n + k];
        }
}

/* Duchi et al. 2011; s: the 7 x 7 matrix. */
static void full_matrix(moment_of *x, double decay, double share, bool divide, double exponent)
{
    double *m = x->s[0], root[N * N], u[N] = {0};
    if (x->t == 1) EACH(i) m[i * N + i] = 1;
    EACH(i) EACH(j) m[i * N + j] = decay * m[i * N + j] + share * x->u[i] * x->u[j];
    double g[N * N];
    EACH(i) EACH(j) g[i * N + j] = m[i * N + j] / (divide ? x->t : 1);
    matrix_power(N, g, 1e-12, exponent, root);
    EACH(i) EACH(j) u[i] += root[i * N + j] * x->u[j];
    memcpy(x->u, u, sizeof u);
}
static void full_matrix_adagrad(moment_of *x) { full_matrix(x, 1, 1, false, -0.5); }
static void full_matrix_average(moment_of *x) { full_matrix(x, 0.9, 0.1, false, -1); }
static void full_matrix_divided(moment_of *x) { full_matrix(x, 0.97, 1, true, -0.5); }

/* Gupta et al. 2018, algorithm 1, for the matrix; Adagrad for the vector.  s: L, R, their roots, squares. */
static void shampoo(moment_of *x)
{
    double *l = x->s[0], *r = x->s[1], *l_root = x->s[2], *r_root = x->s[3], *u = x->u + begin[1], lu[4],
           gg[4];
    if (x->t == 1) l[0] = l[3] = r[0] = r[3] = 1;
    product_22(u, false, u, true, gg);
    for (int i = 0; i < 4; i++) l[i] += gg[i];
    product_22(u, true, u, false, gg);
    for (int i = 0; i < 4; i++) r[i] += gg[i];
    if ((x->t - 1) % 3 == 0) {
        matrix_power(2, l, 1e-12, -0.25, l_root);
        matrix_power(2, r, 1e-12, -0.25, r_root);
    }
    product_22(l_root, false, u, false, lu);
    product_22(lu, false, r_root, false, u);
    EACH_OF(i, 0)
    {
        x->s[4][i] += x->u[i] * x->u[i];
        x->u[i] /= sqrt(x->s[4][i]) + 1e-8;
    }
}

/* All elements of a tensor as one axis; s: the two matrices, 9 and 16 numbers. */
static void shampoo_merged(moment_of *x)
{
    for (int k = 0; k < TENSORS; k++) {
        int n = begin[k + 1] - begin[k];
        double *m = k ? x->s[2] : x->s[0], *u = x->u + begin[k], root[16], out[4] = {0};
        for (int i = 0; i < n * n; i++) {
            if (x->t == 1) m[i] = i / n == i % n;
            m[i] = 0.9 * m[i] + 0.1 * u[i / n] * u[i % n];
        }
        matrix_power(n, m, 1e-12, -0.5, root);
        for (int i = 0; i < n * n; i++) out[i / n] += root[i] * u[i % n];
        memcpy(u, out, (size_t)n * sizeof *u);
    }
}

/* Two orthonormal columns from those of a, by Gram and Schmidt. */
static void columns_22(double *a)
{
    double n = sqrt(a[0] * a[0] + a[2] * a[2]);
    a[0] /= n, a[2] /= n;
    double along = a[0] * a[1] + a[2] * a[3];
    a[1] -= along * a[0], a[3] -= along * a[2];
    n = sqrt(a[1] * a[1] + a[3] * a[3]);
    a[1] /= n, a[3] /= n;
}

static void swap_22(double *a, int i, int j, int k, int l)
{
    double x = a[i], y = a[j];
    a[i] = a[k], a[j] = a[l], a[k] = x, a[l] = y;
}

/* The next basis of a factor; true: its vectors change places. */
static bool power_22(const double *factor, double *q)
{
    double p[4], first, second;
    product_22(factor, false, q, false, p);
    first = q[0] * p[0] + q[2] * p[2];
    second = q[1] * p[1] + q[3] * p[3];
    if (second > first) swap_22(p, 0, 2, 1, 3);
    memcpy(q, p, sizeof p);
    columns_22(q);
    return second > first;
}

/* Vyas et al. 2024, algorithm 3, for the matrix; Adam for the vector.  s: moments, factors, bases. */
static void soap(moment_of *x)
{
    double *m = x->s[0], *v = x->s[1], *l = x->s[2], *r = x->s[3], *ql = x->s[4], *qr = x->s[5],
           *u = x->u + begin[1];
    double g[4], y[4], z[4], gg[4], value[2];
    int n = x->t - 1;
    memcpy(g, u, sizeof g);
    if (n == 0)
        EACH(i) x->u[i] = clip(x->u[i], 0.1);
    else {
        double scale = 0.7 * sqrt(1 - pow(0.8, n)) / (1 - pow(0.9, n));
        EACH(i) m[i] = 0.9 * m[i] + 0.1 * x->u[i];
        product_22(ql, true, g, false, z);
        product_22(z, false, qr, false, y);
        EACH_OF(i, 0) v[i] = 0.8 * v[i] + 0.2 * x->u[i] * x->u[i];
        for (int i = 0; i < 4; i++) v[3 + i] = 0.8 * v[3 + i] + 0.2 * y[i] * y[i];
        EACH_OF(i, 0) x->u[i] = scale * m[i] / (sqrt(v[i]) + 1e-8);
        product_22(ql, true, m + 3, false, z);
        product_22(z, false, qr, false, y);
        for (int i = 0; i < 4; i++) y[i] *= scale / (sqrt(v[3 + i]) + 1e-8);
        product_22(ql, false, y, false, z);
        product_22(z, false, qr, true, u);
    }
    product_22(g, false, g, true, gg);
    for (int i = 0; i < 4; i++) l[i] = 0.95 * l[i] + 0.05 * gg[i];
    product_22(g, true, g, false, gg);
    for (int i = 0; i < 4; i++) r[i] = 0.95 * r[i] + 0.05 * gg[i];
    if (n == 0) {
        jacobi(2, l, value, ql);
        if (value[1] > value[0]) swap_22(ql, 0, 2, 1, 3);
        jacobi(2, r, value, qr);
        if (value[1] > value[0]) swap_22(qr, 0, 2, 1, 3);
    } else if (n % 3 == 0) {
        if (power_22(l, ql)) swap_22(v + 3, 0, 1, 2, 3);
        if (power_22(r, qr)) swap_22(v + 3, 0, 2, 1, 3);
    }
}

/* Osher et al. 2018: (1 - sigma D) y = u solved by eliminating in the full matrix. */
static void smooth(double *u, int n, double sigma)
{
    double a[N][N] = {{0}};
    for (int i = 0; i < n; i++) {
        a[i][i] += 1 + 2 * sigma;
        a[i][(i + 1) % n] -= sigma;
        a[i][(i + n - 1) % n] -= sigma;
    }
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            double f = a[i][k] / a[k][k];
            if (i == k) continue;
            for (int j = 0; j < n; j++) a[i][j] -= f * a[k][j];
            u[i] -= f * u[k];
        }
    for (int k = 0; k < n; k++) u[k] /= a[k][k];
}
static void laplacian_each(moment_of *x) { smooth(x->u + begin[1], 4, 30); }
static void laplacian_all(moment_of *x) { smooth(x->u, N, 0.4); }

static const reference matrix_references[] = {
    {"laplacian_smoothing(30)", laplacian_each, 0.1},
    {"laplacian_smoothing(0.4, layerwise=false)", laplacian_all, 0.1},
    {"full_matrix_adagrad", full_matrix_adagrad, 0.1},
    {"full_matrix_adagrad(beta=0.9, sqrt=false)", full_matrix_average, 0.01},
    {"full_matrix_adagrad(decay=0.97, divide=true)", full_matrix_divided, 0.01},
    {"shampoo(update_freq=3, exp_override=none, merge_small=false, precondition_1d=false)", shampoo, 0.1},
    {"shampoo(beta=0.9, update_freq=1)", shampoo_merged, 0.1},
    {"soap(0.9, 0.8, precond_freq=3, merge_small=false, precondition_1d=false, alpha=0.7)", soap, 0.01},
    {"soap_basis(adam(0.9, 0.8, alpha=0.7), precond_freq=3, merge_small=false, precondition_1d=false)", soap,
     0.01},
    {"muon_adjust_lr(0.7)", muon_adjust_lr, 0.1},
    {"orthogonalize(adjust_lr=true, dual_norm_correction=true, precision=\"full\")", orthogonalize, 0.01},
    {"orthogonalize(method=\"svd\")", polar, 0.02},
};

#endif
