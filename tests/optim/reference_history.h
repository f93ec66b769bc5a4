/* References of links that keep the last gradients: eigenvectors of the n x n sum of their products, by Jacobi's rotations,
 * where the links go through the small matrix of their inner products. */
#ifndef GD_TESTS_OPTIM_REFERENCE_HISTORY_H
#define GD_TESTS_OPTIM_REFERENCE_HISTORY_H

#include "reference_matrix.h"

#define ROWS 4 /* gradients that are kept at most, in s[0] to s[3] */

/* Eigenvalues of sum g g^T over elements from <= i < to, the largest first, those below tol times it and all but `most` left
 * out; u: eigenvectors as rows of N.  Their number. */
static int spectrum(moment_of *x, int from, int to, double tol, int most, double *l, double u[ROWS][N])
{
    int n = to - from, count = 0;
    double a[N * N] = {0}, value[N], v[N * N];
    for (int k = 0; k < ROWS; k++)
        for (int i = 0; i < n * n; i++) a[i] += x->s[k][from + i / n] * x->s[k][from + i % n];
    jacobi(n, a, value, v);
    for (double top = 0; count < most; count++) {
        int best = 0;
        for (int i = 1; i < n; i++)
            if (value[i] > value[best]) best = i;
        if (count == 0) top = value[best];
        if (!(value[best] > tol * top)) break;
        l[count] = value[best];
        for (int i = 0; i < n; i++) u[count][from + i] = v[i * n + best];
        value[best] = -1;
    }
    return count;
}

static double along(const double *a, const double *b, int from, int to)
{
    double sum = 0;
    for (int i = from; i < to; i++) sum += a[i] * b[i];
    return sum;
}

/* u = U w U^T u with the weights of `count` eigenvectors. */
static void weigh(moment_of *x, int from, int to, int count, const double *w, double u[ROWS][N])
{
    double out[N] = {0};
    for (int k = 0; k < count; k++) {
        double c = w[k] * along(u[k], x->u, from, to);
        for (int i = from; i < to; i++) out[i] += c * u[k][i];
    }
    for (int i = from; i < to; i++) x->u[i] = out[i];
}

static void keep_row(moment_of *x, int at, int rows, const double *row)
{
    memcpy(x->s[at % rows], row, N * sizeof *row);
}

/* Agarwal et al. 2019 without a window of decay: Duchi et al.'s full matrix from the last gradients. */
static void lm_adagrad(moment_of *x)
{
    double l[N], u[ROWS][N], w[ROWS], norm = 0;
    keep_row(x, x->t - 1, 2, x->u);
    int count = spectrum(x, 0, N, 1e-14, ROWS, l, u);
    for (int k = 0; k < count; k++) norm += l[k] * l[k];
    for (int k = 0; k < count; k++) w[k] = 1 / sqrt(l[k] + 0.01 + 0.02 * sqrt(norm));
    weigh(x, 0, N, count, w, u);
}

/* Each tensor for itself, every second gradient, damping of roots; eigenvectors of every third step (s[4] to s[7], k). */
static void lm_adagrad_seldom(moment_of *x)
{
    if ((x->t - 1) % 2 == 0) keep_row(x, (x->t - 1) / 2, 2, x->u);
    for (int j = 0; j < TENSORS; j++) {
        double l[N] = {0}, u[ROWS][N] = {{0}}, w[ROWS];
        if ((x->t - 1) % 3 == 0) {
            int count = spectrum(x, begin[j], begin[j + 1], 1e-14, begin[j + 1] - begin[j], l, u);
            for (int k = 0; k < ROWS; k++) {
                x->k[ROWS * j + k] = k < count ? l[k] : 0;
                for (int i = begin[j]; i < begin[j + 1]; i++) x->s[4 + k][i] = k < count ? u[k][i] : 0;
            }
        }
        for (int k = 0; k < ROWS; k++) w[k] = 1 / (sqrt(x->k[ROWS * j + k]) + 0.1);
        weigh(x, begin[j], begin[j + 1], ROWS, w, x->s + 4);
    }
}

/* Differences of gradients; the first step has none.  s[4]: the gradient of before. */
static void lm_adagrad_differences(moment_of *x)
{
    double l[N], u[ROWS][N], w[ROWS], row[N];
    EACH(i)
    {
        row[i] = x->u[i] - x->s[4][i];
        x->s[4][i] = x->u[i];
    }
    if (x->t > 1) {
        keep_row(x, x->t - 2, 2, row);
        int count = spectrum(x, 0, N, 1e-14, ROWS, l, u);
        for (int k = 0; k < count; k++) w[k] = 1 / sqrt(l[k] + 0.5);
        weigh(x, 0, N, count, w, u);
    }
    EACH(i) x->u[i] += x->g[i]; /* all directions go on moving */
}

/* Averages of eigenvectors (s[4] to s[7]), each with the sign nearer to its average, and of eigenvalues (k). */
static void lm_adagrad_averages(moment_of *x)
{
    double l[N], u[ROWS][N], w[ROWS];
    keep_row(x, x->t - 1, 2, x->u);
    int count = spectrum(x, 0, N, 1e-14, ROWS, l, u);
    for (int k = 0; k < ROWS; k++) {
        bool first = x->t == 1;
        double turn = k < count && !first && along(u[k], x->s[4 + k], 0, N) < 0 ? -1 : 1;
        EACH(i)
        {
            double now = k < count ? turn * u[k][i] : 0;
            x->s[4 + k][i] = first ? now : 0.6 * x->s[4 + k][i] + 0.4 * now;
        }
        double value = k < count ? l[k] : 0;
        x->k[k] = first ? value : 0.7 * x->k[k] + 0.3 * value;
        w[k] = x->k[k] > 0 ? 1 / sqrt(x->k[k] + 0.1) : 0;
    }
    weigh(x, 0, N, ROWS, w, x->s + 4);
}

/* Agarwal et al. 2019, algorithm 1. */
static void ggt(moment_of *x)
{
    double l[N], u[ROWS][N], w[ROWS];
    keep_row(x, x->t - 1, ROWS, x->u);
    int count = spectrum(x, 0, N, 1e-3, 3, l, u);
    for (int k = 0; k < count; k++) w[k] = pow(l[k] + 0.01 + 0.1 * l[0], -0.6);
    weigh(x, 0, N, count, w, u);
}

/* Adam in the basis: moments in k, first m, then v. */
static void adam_in_space(moment_of *x, int count, double u[ROWS][N])
{
    double c[ROWS] = {0}, w[ROWS];
    for (int k = 0; k < ROWS; k++) {
        if (k < count) c[k] = along(u[k], x->u, 0, N);
        x->k[k] = 0.9 * x->k[k] + 0.1 * c[k];
        x->k[ROWS + k] = 0.99 * x->k[ROWS + k] + 0.01 * c[k] * c[k];
        w[k] = x->k[k] / (sqrt(x->k[ROWS + k]) + 1e-8) * sqrt(1 - pow(0.99, x->t)) / (1 - pow(0.9, x->t));
    }
    EACH(i)
    {
        x->u[i] = 0;
        for (int k = 0; k < count; k++) x->u[i] += w[k] * u[k][i];
    }
}

/* Coordinates stay where they are while the vectors turn, so signs matter: s[4] to s[7] have those of before. */
static void ggt_adam(moment_of *x)
{
    double l[N], u[ROWS][N];
    keep_row(x, x->t - 1, ROWS, x->u);
    int count = spectrum(x, 0, N, 1e-2, 2, l, u);
    for (int k = 0; k < count; k++) {
        double turn = along(u[k], x->s[4 + k], 0, N) < 0 ? -1 : 1;
        EACH(i) x->s[4 + k][i] = u[k][i] *= turn;
    }
    adam_in_space(x, count, u);
}

/* The moments turned with the vectors; approximately: their squares by squares alone. */
static void ggt_basis_of(moment_of *x, bool approximately)
{
    double l[N], u[ROWS][N] = {{0}}, m[ROWS], v[ROWS];
    keep_row(x, x->t - 1, ROWS, x->u);
    int count = spectrum(x, 0, N, 1e-2, 3, l, u);
    for (int k = 0; k < ROWS; k++) {
        m[k] = v[k] = 0;
        double sum = 0;
        for (int j = 0; j < ROWS; j++) {
            double t = along(u[k], x->s[4 + j], 0, N), mean = x->k[j], square = x->k[ROWS + j];
            double w = approximately ? 0 : clip(mean, sqrt(square));
            m[k] += t * mean;
            sum += t * w;
            v[k] += t * t * (square - w * w);
        }
        v[k] += sum * sum;
    }
    memcpy(x->k, m, sizeof m);
    memcpy(x->k + ROWS, v, sizeof v);
    for (int k = 0; k < ROWS; k++) memcpy(x->s[4 + k], u[k], sizeof u[k]);
    adam_in_space(x, count, u);
}
static void ggt_basis(moment_of *x) { ggt_basis_of(x, false); }
static void ggt_basis_squares(moment_of *x) { ggt_basis_of(x, true); }

static const reference history_references[] = {
    {"lm_adagrad(2, damping=0.01, rdamping=0.02)", lm_adagrad, 0.5},
    {"lm_adagrad(2, update_freq=3, damping=0.1, true_damping=false, interval=2, concat_params=false)",
     lm_adagrad_seldom, 0.1},
    {"lm_adagrad(2, damping=0.5, order=2) | add(grad)", lm_adagrad_differences, 0.3},
    {"lm_adagrad(2, damping=0.1, U_beta=0.6, L_beta=0.7)", lm_adagrad_averages, 0.5},
    {"ggt(4, eig_tol=1e-3, truncate=3, damping=0.01, rdamping=0.1, matrix_power=-0.6)", ggt, 0.05},
    {"ggt(4, eig_tol=1e-2, truncate=2, basis_optimizer=adam(0.9, 0.99))", ggt_adam, 0.05},
    {"ggt_basis(adam(0.9, 0.99), 4, eig_tol=1e-2, truncate=3)", ggt_basis, 0.02},
    {"ggt_basis(adam(0.9, 0.99), 4, eig_tol=1e-2, truncate=3, approx_sq_reproject=true)", ggt_basis_squares,
     0.02},
};

#endif
