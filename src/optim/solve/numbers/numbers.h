/* Least squares on arrays of numbers: what its files share.
 *
 *   numbers.c gd_lsq_solve: arguments, differences, other losses than squares
 *   numbers_steps.c    Levenberg-Marquardt inside bounds
 *   numbers_linear.c   damped linear least squares: QR, L D L^T or LSMR
 *   numbers_result.c   covariances
 *   sparse.h           a Jacobian by rows and its factors; cholesky_plugin.h: those of a plugin
 *   sparse_fit.c       residuals made of operators: reads.c finds the pattern of their Jacobian
 *   many_fits.c        many fits side by side; many_rows.c: of a model made of operators */
#ifndef GD_OPTIM_SOLVE_NUMBERS_H
#define GD_OPTIM_SOLVE_NUMBERS_H

#include "gradus/lsq.h"
#include "optim/solve/numbers/cholesky_plugin.h"
#include "optim/solve/numbers/sparse.h"
#include "optim/solve/solve_internal.h"

typedef double gd_four __attribute__((vector_size(32), aligned(8), may_alias));

/* The product of elements from .. m - 1, in four sums. */
static inline double gd__numbers_product(const double *v, const double *w, int64_t from, int64_t m)
{
    gd_four sum = {0};
    int64_t i = from;
    for (; i + 4 <= m; i += 4)
        sum += *(const gd_four *)(const void *)(v + i) * *(const gd_four *)(const void *)(w + i);
    for (; i < m; i++) sum[0] += v[i] * w[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* min |A s + r|^2 + lambda |s|^2, A = J / scale. */
typedef struct gd_damped {
    gd_ctx *ctx;
    int64_t m, n, entries;
    bool sparse, factored; /* factored: by L D L^T, else by LSMR */
    /* reduced: steps are solved by Schur's complement, outside: by the plugin; there is an L only after gd__damped_needs_factor */
    bool reduced, outside;
    gd_csr j;
    gd_sparse_factor ldl;
    gd_schur schur;
    gd_outer_factor plugin;
    double *room; /* dense: [m, n + 1] by columns; LSMR: its own; L: the right side [n] */
    size_t room_bytes;
    double *triangle, *turned; /* dense: R with its right side [n, n + 1], and rotated with the damping */
    size_t triangle_bytes;
    const double *value, *scale, *r; /* the last values set; borrowed */
    const bool *fixed;
    double tol; /* LSMR's */
} gd_damped;

GD_NODISCARD gd_status gd__damped_begin(gd_ctx *ctx, const gd_lsq_problem *problem, gd_damped *out);
void gd__damped_end(gd_damped *a);
/* How steps are solved: "QR", "LDL", ...; borrowed. */
const char *gd__damped_name(const gd_damped *a);
/* If Schur's complement or a plugin was enough for steps: makes L, if it is not too large. */
GD_NODISCARD gd_status gd__damped_needs_factor(gd_damped *a);
/* value: the elements of J; fixed: columns that stay 0, NULL: none; all borrowed until the last solve. */
GD_NODISCARD gd_status gd__damped_set(gd_damped *a, const double *value, const double *scale, const double *r,
                                      const bool *fixed);
/* s [n]; lambda 0: of what is not determined, nothing moves.  *lost: how many columns that was; NULL: not wanted. */
GD_NODISCARD gd_status gd__damped_solve(gd_damped *a, double lambda, double *s, int64_t *lost);
/* out [m] = J v, out [n] = J^T u. */
void gd__damped_times(const gd_damped *a, const double *value, const double *v, double *out);
void gd__damped_transposed(const gd_damped *a, const double *value, const double *u, double *out);

#define GD_NAME_ROOM 48 /* bytes of the name of an element */

/* A fit under way. */
typedef struct gd_numbers {
    gd_ctx *ctx;
    const gd_lsq_problem *problem;
    const gd_lsq_options *options;
    void (*round)(void *user, double *x); /* rounds to the dtype of the parameters; NULL: all f64 */
    gd_damped a;
    int64_t m, n, entries, steps, evals;
    double f, start, radius, lambda, growth;
    double *x, *trial, *scale, *g, *s, *d; /* [n] */
    double *r, *there, *moved;             /* [m] */
    double *j, *next;                      /* elements of the Jacobian here, and at a trial point */
    bool *fixed;                           /* [n] */
    size_t bytes;
    gd_stop reason;
    bool stopped;
    /* differences */
    int32_t *group; /* [n] columns that share no row; NULL: there is a Jacobian or it is dense */
    int32_t groups;
    /* another loss */
    gd_lsq_loss loss;
    double loss_scale; /* 0: squares */
} gd_numbers;

/* ---- numbers.c ---- */

/* Residuals at x into r, and the sum of squares of the transformed ones, NAN if one is not finite. */
GD_NODISCARD gd_status gd__numbers_residuals(gd_numbers *p, const double *x, double *r, double *f);
/* The Jacobian at x, where residuals were computed last and are r; *finite: all elements are. Both are transformed afterwards. */
GD_NODISCARD gd_status gd__numbers_jacobian(gd_numbers *p, const double *x, double *r, double *j,
                                            bool *finite);
/* As gd_lsq_solve, for a caller that rounds. */
GD_NODISCARD gd_status gd__numbers_solve(gd_ctx *ctx, const gd_lsq_problem *problem, double *x,
                                         const gd_lsq_options *options, void (*round)(void *user, double *x),
                                         gd_lsq_result *result);

/* ---- sparse_fit.c ---- */

/* A fit of residuals made of operators whose Jacobian has few elements; *done false: it has many, and only one evaluation was made. */
GD_NODISCARD gd_status gd__sparse_fit(gd_tensor *const *params, int count,
                                      gd_tensor *(*residuals)(void *user), void *user,
                                      const gd_lsq_options *options, gd_lsq_result *result, bool *done);

/* ---- numbers_steps.c ---- */

GD_NODISCARD gd_status gd__numbers_run(gd_numbers *p);
/* -1, 1: at a bound beyond which the loss falls; 0: free. */
int gd__numbers_active(const gd_numbers *p, int64_t i);
/* The largest element of x - P(x - gradient). */
double gd__numbers_gradient(const gd_numbers *p);

/* ---- numbers_result.c ---- */

GD_NODISCARD gd_status gd__numbers_result(gd_numbers *p, gd_lsq_result *out);

#endif
