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

static const reference matrix_references[] = {
    {"muon_adjust_lr(0.7)", muon_adjust_lr, 0.1},
    {"orthogonalize(adjust_lr=true, dual_norm_correction=true, precision=\"full\")", orthogonalize, 0.01},
    {"orthogonalize(method=\"svd\")", polar, 0.02},
};

#endif
