/* LSMR (Fong & Saunders, SIAM J. Sci. Comput. 33, 2011): least squares by products alone.
 *
 * Golub and Kahan's bidiagonalisation of A, two rotations per step.  The gradient of the damped problem never grows, and its size is
 * known without computing it. */
#include "optim/solve/numbers/sparse.h"

#include <math.h>
#include <string.h>

typedef struct system {
    const gd_csr *j;
    const double *value, *scale;
    const bool *fixed;
    double *u, *au;                /* [m] */
    double *v, *av, *h, *bar, *sv; /* [n] */
} system;

static double norm(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static double unit(double *x, int64_t n)
{
    double length = norm(x, n);
    for (int64_t i = 0; i < n && length > 0; i++) x[i] /= length;
    return length;
}

/* u = A v - alpha u */
static void forward(const system *s, double alpha)
{
    for (int64_t i = 0; i < s->j->n; i++) s->sv[i] = s->fixed && s->fixed[i] ? 0 : s->v[i] / s->scale[i];
    gd__csr_times(s->j, s->value, s->sv, s->au);
    for (int64_t i = 0; i < s->j->m; i++) s->u[i] = s->au[i] - alpha * s->u[i];
}

/* v = A^T u - beta v */
static void back(const system *s, double beta)
{
    gd__csr_transposed(s->j, s->value, s->u, s->av);
    for (int64_t i = 0; i < s->j->n; i++)
        s->v[i] = (s->fixed && s->fixed[i] ? 0 : s->av[i] / s->scale[i]) - beta * s->v[i];
}

int64_t gd__lsmr(const gd_csr *j, const double *value, const double *scale, const bool *fixed,
                 const double *r, double damp, double tol, int64_t most, double *room, double *s)
{
    int64_t m = j->m, n = j->n, products = 2;
    system a = {.j = j, .value = value, .scale = scale, .fixed = fixed};
    a.u = room, a.au = room + m;
    a.v = a.au + m, a.av = a.v + n, a.h = a.av + n, a.bar = a.h + n, a.sv = a.bar + n;
    memset(s, 0, (size_t)n * sizeof *s);
    for (int64_t i = 0; i < m; i++) a.u[i] = -r[i];
    double beta = unit(a.u, m);
    memset(a.v, 0, (size_t)n * sizeof *a.v);
    if (!(beta > 0)) return 0;
    back(&a, 0);
    double alpha = unit(a.v, n), start = alpha * beta;
    if (!(alpha > 0)) return products;
    memcpy(a.h, a.v, (size_t)n * sizeof *a.h);
    memset(a.bar, 0, (size_t)n * sizeof *a.bar);
    double alpha_bar = alpha, zeta_bar = start, rho = 1, rho_bar = 1, c_bar = 1, s_bar = 0;
    while (products < most && fabs(zeta_bar) > tol * start) {
        forward(&a, alpha);
        beta = unit(a.u, m);
        back(&a, beta);
        alpha = unit(a.v, n);
        products += 2;
        /* the rotations: of the damping, of the bidiagonal matrix, of the remaining element */
        double alpha_hat = hypot(alpha_bar, damp), rho_old = rho, rho_bar_old = rho_bar;
        rho = hypot(alpha_hat, beta);
        double c = alpha_hat / rho, sine = beta / rho, theta = sine * alpha, theta_bar = s_bar * rho;
        alpha_bar = c * alpha;
        rho_bar = hypot(c_bar * rho, theta);
        double zeta = c_bar * rho / rho_bar * zeta_bar;
        c_bar = c_bar * rho / rho_bar;
        s_bar = theta / rho_bar;
        zeta_bar = -s_bar * zeta_bar;
        if (!(rho > 0) || !(rho_bar > 0)) break;
        for (int64_t i = 0; i < n; i++) {
            a.bar[i] = a.h[i] - theta_bar * rho / (rho_old * rho_bar_old) * a.bar[i];
            s[i] += zeta / (rho * rho_bar) * a.bar[i];
            a.h[i] = a.v[i] - theta / rho * a.h[i];
        }
    }
    return products;
}
