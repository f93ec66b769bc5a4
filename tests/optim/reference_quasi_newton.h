/* References of dense and diagonal quasi-Newton methods: all elements are one vector, matrices are written out. */
#ifndef GD_TESTS_OPTIM_REFERENCE_QUASI_NEWTON_H
#define GD_TESTS_OPTIM_REFERENCE_QUASI_NEWTON_H

#include "reference.h"

typedef struct secant {
    double *a, *b; /* N x N: the matrix, and another */
    double s[N], y[N];
    const double *g;
    double f, f_before;
    bool first;
} secant;

typedef void (*secant_fn)(secant *x);

static double inner(const double *x, const double *y)
{
    double sum = 0;
    EACH(i) sum += x[i] * y[i];
    return sum;
}

static void apply_matrix(const double *a, bool transposed, const double *x, double *out)
{
    double sum[N] = {0};
    EACH(i) EACH(j) sum[i] += (transposed ? a[j * N + i] : a[i * N + j]) * x[j];
    memcpy(out, sum, sizeof sum);
}

/* A x = b by elimination with pivots, in the place of b. */
static void eliminate(const double *matrix, double *b)
{
    double a[N][N];
    memcpy(a, matrix, sizeof a);
    EACH(k)
    {
        int best = k;
        for (int i = k; i < N; i++)
            if (fabs(a[i][k]) > fabs(a[best][k])) best = i;
        EACH(j)
        {
            double swap = a[k][j];
            a[k][j] = a[best][j], a[best][j] = swap;
        }
        double swap = b[k];
        b[k] = b[best], b[best] = swap;
        EACH(i)
        {
            double f = a[i][k] / a[k][k];
            if (i == k) continue;
            EACH(j) a[i][j] -= f * a[k][j];
            b[i] -= f * b[k];
        }
    }
    EACH(k) b[k] /= a[k][k];
}

static void multiple_of_identity(double *a, double value)
{
    EACH(i) EACH(j) a[i * N + j] = i == j ? value : 0;
}

/* s: the two matrices, last parameters and gradient; k: last loss.  hessian: the matrix is B.  automatic: it is scaled to the
 * first pair.  every: steps from restart to restart, with which the second matrix becomes the first. */
static void by_pairs(moment_of *x, secant_fn change, bool hessian, bool automatic, int every)
{
    secant v = {.a = x->s[0], .b = x->s[7], .g = x->g, .f = x->loss, .f_before = x->k[0], .first = x->t == 2};
    double *p = x->s[14], *g = x->s[15];
    if (x->t == 1) multiple_of_identity(v.a, 1);
    EACH(i)
    {
        v.s[i] = x->p[i] - p[i], v.y[i] = x->g[i] - g[i];
        p[i] = x->p[i], g[i] = x->g[i];
    }
    x->k[0] = x->loss;
    double scale = inner(v.s, v.y) / inner(v.y, v.y);
    if (x->t == 2 && automatic) multiple_of_identity(v.a, hessian ? 1 / scale : scale);
    if (x->t > 1 && every && (x->t - 1) % every == 0)
        memcpy(v.a, v.b, N * N * sizeof *v.a);
    else if (x->t > 1)
        change(&v);
    if (hessian)
        eliminate(v.a, x->u);
    else
        apply_matrix(v.a, false, x->u, x->u);
}

/* ---- rank one ---- */

static void add_outer(double *a, double factor, const double *x, const double *y)
{
    EACH(i) EACH(j) a[i * N + j] += factor * x[i] * y[j];
}

/* H += (s - H y) c^T / c y */
static void change_along(secant *x, const double *c)
{
    double v[N];
    apply_matrix(x->a, false, x->y, v);
    EACH(i) v[i] = x->s[i] - v[i];
    add_outer(x->a, 1 / inner(c, x->y), v, c);
}

static void good_change(secant *x)
{
    double c[N];
    apply_matrix(x->a, true, x->s, c);
    change_along(x, c);
}
static void bad_change(secant *x) { change_along(x, x->y); }
static void mccormick_change(secant *x) { change_along(x, x->s); }
static void greenstadt1_change(secant *x) { change_along(x, x->g); }
static void pearson_change(secant *x)
{
    double c[N];
    apply_matrix(x->a, false, x->y, c);
    change_along(x, c);
}
static void greenstadt2_change(secant *x)
{
    double c[N];
    apply_matrix(x->a, false, x->y, c);
    apply_matrix(x->a, false, c, c);
    change_along(x, c);
}
static void icum_change(secant *x)
{
    double c[N] = {0};
    int most = 0;
    EACH(i) if (fabs(x->y[i]) > fabs(x->y[most])) most = i;
    c[most] = 1;
    change_along(x, c);
}
static void thomas_change(secant *x)
{
    double d[N], c[N], size = sqrt(inner(x->s, x->s)), *r = x->b;
    if (x->first) multiple_of_identity(r, 1);
    apply_matrix(r, false, x->s, d);
    EACH(i) d[i] += size / 2 * x->s[i];
    apply_matrix(x->a, true, d, c);
    change_along(x, c);
    double ds = inner(d, x->s);
    EACH(i) EACH(j) r[i * N + j] = (1 + size) * ((i == j) * size + r[i * N + j] - d[i] * d[j] / ds);
}
static void projected_change(secant *x)
{
    double ry[N], v[N];
    if (x->first) memcpy(x->b, x->a, N * N * sizeof *x->a);
    apply_matrix(x->a, false, x->y, ry);
    apply_matrix(x->b, false, x->y, v);
    EACH(i) v[i] = x->s[i] - v[i];
    add_outer(x->b, 1 / inner(x->y, ry), v, ry);
    add_outer(x->a, -1 / inner(x->y, ry), ry, ry);
}

#define BY_PAIRS(NAME, CHANGE, ...) \
    static void NAME(moment_of *x) { by_pairs(x, CHANGE, __VA_ARGS__); }
BY_PAIRS(broyden_good, good_change, false, true, 0)
BY_PAIRS(broyden_bad, bad_change, false, true, 0)
BY_PAIRS(mccormick, mccormick_change, false, true, 0)
BY_PAIRS(greenstadt1, greenstadt1_change, false, true, 0)
BY_PAIRS(greenstadt2, greenstadt2_change, false, true, 0)
BY_PAIRS(pearson, pearson_change, false, true, 0)
BY_PAIRS(icum, icum_change, false, true, 0)
BY_PAIRS(thomas, thomas_change, false, true, 0)
BY_PAIRS(projected_newton_raphson, projected_change, false, true, N)
BY_PAIRS(projected_newton_raphson_4, projected_change, false, true, 4)

/* ---- symmetric ---- */

/* (1 - f) DFP + f BFGS, BFGS as (I - s y^T / s y) H (I - y s^T / s y) + s s^T / s y. */
static void mix(secant *x, double f)
{
    double hy[N], left[N * N], half[N * N] = {0}, bfgs[N * N] = {0}, sy = inner(x->s, x->y);
    if (sy <= 0) return;
    apply_matrix(x->a, false, x->y, hy);
    EACH(i) EACH(j) left[i * N + j] = (i == j) - x->s[i] * x->y[j] / sy;
    EACH(i) EACH(j) EACH(k) half[i * N + j] += left[i * N + k] * x->a[k * N + j];
    EACH(i) EACH(j) EACH(k) bfgs[i * N + j] += half[i * N + k] * left[j * N + k];
    add_outer(bfgs, 1 / sy, x->s, x->s);
    add_outer(x->a, 1 / sy, x->s, x->s);
    add_outer(x->a, -1 / inner(x->y, hy), hy, hy);
    for (int i = 0; i < N * N; i++) x->a[i] = (1 - f) * x->a[i] + f * bfgs[i];
}
static double quadratic_form(secant *x)
{
    double hy[N];
    apply_matrix(x->a, false, x->y, hy);
    return inner(x->y, hy);
}
static void fletcher_change(secant *x) { mix(x, inner(x->s, x->y) >= quadratic_form(x)); }
static void hoshino_change(secant *x)
{
    double sy = inner(x->s, x->y);
    mix(x, sy / (sy + quadratic_form(x)));
}

/* Oren & Spedicato 1976; e by solving with H. */
static void self_scaling(secant *x, int choice)
{
    double hy[N], v[N], bs[N], o = inner(x->s, x->y), t = quadratic_form(x), scale, share;
    memcpy(bs, x->s, sizeof bs);
    eliminate(x->a, bs);
    double e = inner(x->s, bs);
    if (choice == 2 || choice == 4) {
        scale = sqrt(e / t);
        share = choice == 4 ? 0.5 : 1 / (1 + sqrt(t * e / (o * o)));
    } else if (e / o <= 1)
        scale = e / o, share = 0;
    else if (o / t >= 1)
        scale = o / t, share = 1;
    else
        scale = 1, share = o * (choice == 1 ? e - o : t - o) / (e * t - o * o);
    apply_matrix(x->a, false, x->y, hy);
    EACH(i) v[i] = sqrt(t) * (x->s[i] / o - hy[i] / t);
    add_outer(x->a, -1 / t, hy, hy);
    add_outer(x->a, share, v, v);
    for (int i = 0; i < N * N; i++) x->a[i] *= scale;
    add_outer(x->a, 1 / o, x->s, x->s);
}
static void ssvm_change_1(secant *x) { self_scaling(x, 1); }
static void ssvm_change_2(secant *x) { self_scaling(x, 2); }
static void ssvm_change_3(secant *x) { self_scaling(x, 3); }
static void ssvm_change_4(secant *x) { self_scaling(x, 4); }

/* BFGS with s s^T / q for s s^T / s y. */
static void function_values(secant *x, double q)
{
    double sy = inner(x->s, x->y);
    if (q <= 0) return;
    mix(x, 1);
    add_outer(x->a, 1 / q - 1 / sy, x->s, x->s);
}
static void new_ssm_change_1(secant *x)
{
    function_values(x, 2 * (x->f - x->f_before) + 2 * inner(x->s, x->y));
}
static void new_ssm_change_2(secant *x) { function_values(x, x->f_before - x->f + inner(x->s, x->y) / 2); }

static void psb_change(secant *x)
{
    double r[N], ss = inner(x->s, x->s);
    apply_matrix(x->a, false, x->s, r);
    EACH(i) r[i] = x->y[i] - r[i];
    add_outer(x->a, 1 / ss, r, x->s);
    add_outer(x->a, 1 / ss, x->s, r);
    add_outer(x->a, -inner(x->s, r) / (ss * ss), x->s, x->s);
}

/* Shor's B with H = B B^T: B (I - (1 - alpha) r r^T / r r), r = B^T y; b is B. */
static void shor_change(secant *x)
{
    double r[N], br[N], *b = x->b;
    if (x->first) multiple_of_identity(b, 1);
    apply_matrix(b, true, x->y, r);
    apply_matrix(b, false, r, br);
    add_outer(b, -(1 - 0.7) / inner(r, r), br, r);
    memset(x->a, 0, N * N * sizeof *x->a);
    EACH(i) EACH(j) EACH(k) x->a[i * N + j] += b[i * N + k] * b[j * N + k];
}
static void projection_change(secant *x)
{
    double hy[N];
    apply_matrix(x->a, false, x->y, hy);
    add_outer(x->a, -1 / inner(x->y, hy), hy, hy);
}

BY_PAIRS(fletcher_vmm, fletcher_change, false, true, 0)
BY_PAIRS(hoshino, hoshino_change, false, true, 0)
BY_PAIRS(ssvm_1, ssvm_change_1, false, true, 0)
BY_PAIRS(ssvm_2, ssvm_change_2, false, true, 0)
BY_PAIRS(ssvm_3, ssvm_change_3, false, true, 0)
BY_PAIRS(ssvm_4, ssvm_change_4, false, true, 0)
BY_PAIRS(new_ssm_1, new_ssm_change_1, false, true, 0)
BY_PAIRS(new_ssm_2, new_ssm_change_2, false, true, 0)
BY_PAIRS(psb, psb_change, true, true, 0)
BY_PAIRS(shor_r, shor_change, false, false, 0)

/* Begins anew every N + 1 steps. */
static void projected_gradient(moment_of *x)
{
    by_pairs(x, projection_change, false, false, 0);
    if (x->t % (N + 1)) return;
    multiple_of_identity(x->s[0], 1);
    memcpy(x->u, x->g, N * sizeof *x->u);
}

/* ---- diagonals ---- */

static double diagonal(const secant *x, int i) { return x->a[i * N + i]; }

static void diagonal_bfgs_change(secant *x)
{
    double yhy = 0, sy = inner(x->s, x->y);
    if (sy <= 0) return;
    EACH(i) yhy += diagonal(x, i) * x->y[i] * x->y[i];
    EACH(i)
    {
        double s = x->s[i], y = x->y[i], h = diagonal(x, i);
        x->a[i * N + i] = h + (1 + yhy / sy) * s * s / sy - 2 * h * y * s / sy;
    }
}
static void diagonal_direct_change(secant *x)
{
    double sbs = 0, sy = inner(x->s, x->y);
    if (sy <= 0) return;
    EACH(i) sbs += diagonal(x, i) * x->s[i] * x->s[i];
    EACH(i)
    {
        double s = x->s[i], y = x->y[i], b = diagonal(x, i);
        x->a[i * N + i] = b + y * y / sy - b * s * b * s / sbs;
    }
}
static void diagonal_sr1_change(secant *x)
{
    double v[N], vy = 0;
    EACH(i) v[i] = x->s[i] - diagonal(x, i) * x->y[i], vy += v[i] * x->y[i];
    if (fabs(vy) <= 1e-8 * sqrt(inner(v, v) * inner(x->y, x->y))) return;
    EACH(i) x->a[i * N + i] += (1 - 0.8) * v[i] * v[i] / vy;
}

/* b + (missing) / sum(w^2 d^4) w^2 d^2 */
static void weak(secant *x, const double *d, bool weighted, double more)
{
    double missing = inner(x->s, x->y) + more, fourth = 0;
    EACH(i)
    {
        double w = weighted ? diagonal(x, i) : 1;
        missing -= diagonal(x, i) * d[i] * d[i];
        fourth += w * w * pow(d[i], 4);
    }
    EACH(i)
    {
        double w = weighted ? diagonal(x, i) : 1, b = diagonal(x, i) + missing / fourth * w * w * d[i] * d[i];
        if (more != 0 || b > 0) x->a[i * N + i] = b;
    }
}
static void cauchy_change(secant *x) { weak(x, x->s, false, 0); }
static void weighted_change(secant *x) { weak(x, x->s, true, 0); }
static void cauchy_inverse_change(secant *x) { weak(x, x->y, false, 0); }

static void bound(secant *x, double low, double high)
{
    EACH(i) if (!(diagonal(x, i) >= low && diagonal(x, i) <= high)) x->a[i * N + i] = 1;
}
static void dnrtr_change(secant *x)
{
    weak(x, x->s, false, inner(x->s, x->s));
    EACH(i) x->a[i * N + i] -= 1;
    bound(x, 0.01, 1e5);
}
static void new_dqn_change(secant *x)
{
    double fourth = 0;
    EACH(i) fourth += pow(x->s[i], 4);
    EACH(i) x->a[i * N + i] += inner(x->s, x->y) / fourth * x->s[i] * x->s[i];
    bound(x, 0.5, 3);
}

BY_PAIRS(diagonal_bfgs, diagonal_bfgs_change, false, true, 0)
BY_PAIRS(diagonal_bfgs_direct, diagonal_direct_change, true, true, 0)
BY_PAIRS(diagonal_sr1, diagonal_sr1_change, false, false, 0)
BY_PAIRS(diagonal_quasi_cauchy, cauchy_change, true, true, 0)
BY_PAIRS(diagonal_quasi_cauchy_inverse, cauchy_inverse_change, false, true, 0)
BY_PAIRS(diagonal_weighted, weighted_change, true, true, 0)
BY_PAIRS(dnrtr, dnrtr_change, true, true, 0)
BY_PAIRS(new_dqn, new_dqn_change, true, true, 0)

/* The gradient at the minimum along the last step; s: last parameters and gradient. */
static void gradient_correction(moment_of *x)
{
    double su = 0, sy = 0;
    EACH(i) su += (x->p[i] - x->s[0][i]) * x->g[i];
    EACH(i) sy += (x->p[i] - x->s[0][i]) * (x->g[i] - x->s[1][i]);
    EACH(i)
    {
        double y = x->g[i] - x->s[1][i];
        x->s[0][i] = x->p[i], x->s[1][i] = x->g[i];
        if (x->t > 1) x->u[i] -= y * su / sy;
    }
}

/* A matrix kept as H and as B is the same method: the references are those of H. */
static const reference quasi_newton_references[] = {
    {"broyden_bad", broyden_bad, 0.03},
    {"broyden_bad(inverse=false)", broyden_bad, 0.03},
    {"broyden_good", broyden_good, 0.03},
    {"broyden_good(inverse=false)", broyden_good, 0.03},
    {"diagonal_bfgs", diagonal_bfgs, 0.03},
    {"diagonal_bfgs(inverse=false)", diagonal_bfgs_direct, 0.03},
    {"diagonal_quasi_cauchi", diagonal_quasi_cauchy, 0.03},
    {"diagonal_quasi_cauchi(inverse=true)", diagonal_quasi_cauchy_inverse, 0.03},
    {"diagonal_sr1(1, beta=0.8)", diagonal_sr1, 0.1},
    {"diagonal_weighted_quasi_cauchi", diagonal_weighted, 0.03},
    {"dnrtr", dnrtr, 0.03},
    {"fletcher_vmm", fletcher_vmm, 0.03},
    {"fletcher_vmm(inverse=false)", fletcher_vmm, 0.03},
    {"gradient_correction", gradient_correction, 0.03},
    {"greenstadt1", greenstadt1, 0.03},
    {"greenstadt1(inverse=false)", greenstadt1, 0.01},
    {"greenstadt2", greenstadt2, 0.03},
    {"greenstadt2(inverse=false)", greenstadt2, 0.01},
    {"horisho", hoshino, 0.03},
    {"horisho(inverse=false)", hoshino, 0.03},
    {"icum", icum, 0.03},
    {"mccormick", mccormick, 0.03},
    {"mccormick(inverse=false)", mccormick, 0.01},
    {"new_dqn(0.5, 3)", new_dqn, 0.03},
    {"new_ssm", new_ssm_1, 0.03},
    {"new_ssm(2)", new_ssm_2, 0.03},
    {"pearson", pearson, 0.03},
    {"pearson(inverse=false)", pearson, 0.01},
    {"projected_gradient_method", projected_gradient, 0.03},
    {"projected_newton_raphson", projected_newton_raphson, 0.1},
    {"projected_newton_raphson(restart_interval=4)", projected_newton_raphson_4, 0.03},
    {"psb", psb, 0.03},
    {"psb(inverse=true)", psb, 0.03},
    {"shor_r(0.7)", shor_r, 0.03},
    {"ssvm(1)", ssvm_1, 0.03},
    {"ssvm(2)", ssvm_2, 0.03},
    {"ssvm", ssvm_3, 0.03},
    {"ssvm(4)", ssvm_4, 0.03},
    {"thomas_optimal_method", thomas, 0.03},
    {"thomas_optimal_method(inverse=false)", thomas, 0.01},
};

#endif
