/* gradus/lsq.h: least squares from functions that fill arrays, dense or sparse.
 *
 *     static gd_status residual(void *user, const double *x, double *r)
 *     {
 *         r[0] = 10 * (x[1] - x[0] * x[0]);
 *         r[1] = 1 - x[0];
 *         return GD_OK;
 *     }
 *     double x[] = {-1.2, 1};
 *     gd_lsq_problem problem = {.residuals = 2, .params = 2, .residual = residual};
 *     gd_lsq_result fit;
 *     gd_status status = gd_lsq_solve(ctx, &problem, x, NULL, &fit);
 *     gd_lsq_result_clear(&fit);
 *
 * Residuals that are made of operators need none of this: gd_least_squares differentiates them, and finds by itself where their Jacobian is
 * sparse. */
#ifndef GRADUS_LSQ_H
#define GRADUS_LSQ_H

#include "gradus/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Residuals as numbers.  Functions return a status other than GD_OK to end the fit; NaN among the residuals makes a point bad, no error. */
typedef struct gd_lsq_problem {
    int64_t residuals, params; /* how many */
    void *user;
    gd_status (*residual)(void *user, const double *x, double *r); /* r [residuals] at x [params] */
    /* The Jacobian where the residuals were asked for last: [residuals, params], row by row, or with a structure its elements in the order
     * of `column`.  NULL: differences of the residuals, one evaluation per group of columns that share no row, inside the bounds */
    gd_status (*jacobian)(void *user, const double *x, double *values);
    /* Where the Jacobian has elements (CSR): row i has those of the columns column[row_start[i]] .. column[row_start[i + 1] - 1],
     * ascending; borrowed; NULL: it is dense */
    const int64_t *row_start, *column;
} gd_lsq_problem;

/* Minimises the sum of squares of the residuals, with another loss 2 s^2 sum rho(r / s), from x [params], which ends at the best point:
 * Levenberg-Marquardt with the damping of Nielsen (1999), scaled by the columns (More 1978); bounds by an active set.  A dense Jacobian is
 * decomposed by QR.  A sparse one needs memory for its elements and a factor L of J^T J in an order of minimum degree: an own L D L^T, or where that takes
 * more than a million multiplications and the SuiteSparse plugin is there (docs/howto/from_c_libraries.md) CHOLMOD, with the same results but for rounding.  Parameters that fall into small
 * blocks without common residuals, as the points of a bundle adjustment, are eliminated first (Schur's complement).  Where L would have
 * more than 12 million elements, or take more than 4e9 multiplications, LSMR solves for the steps and no factor is made.  gd_lsq_result.linear
 * says which it was.
 *
 * Options are those of gd_least_squares but for acceleration and leave_saddles, which need second derivatives, and rows (ARGUMENT).  The
 * result has what the one of gd_least_squares has; where L was too large, standard errors and covariance of chosen elements only
 * (gd_lsq_options.chosen).  ctx owns the result.  ARGUMENT: a size or a pointer that is missing, an option that cannot be; SHAPE: a
 * structure that is none, naming the row; what a callback returns. */
GD_NODISCARD gd_status gd_lsq_solve(gd_ctx *ctx, const gd_lsq_problem *problem, double *x,
                                    const gd_lsq_options *options, gd_lsq_result *result);

/* ---- many fits of one model ---- */

/* Independent fits: one model, other data.  Either `problem` says what fit i is, as arrays, or `rows` has a model made of operators and
 * tables of which fit i has the rows first[i] .. first[i + 1] - 1. */
typedef struct gd_lsq_many {
    int64_t fits;
    void *user;
    /* What a thread needs for itself, given its context, and its end; NULL: `user` is all */
    void *(*open)(void *user, gd_ctx *ctx);
    void (*close)(void *state);
    /* The problem of a fit, whose functions get its own `user`; valid until the next call with this state */
    gd_status (*problem)(void *state, int64_t fit, gd_lsq_problem *out);
    int64_t params; /* of each fit */

    /* In place of all of the above: the model (each row's residuals depend on that row alone, and `first` is 0 in every call), its
     * parameters for shapes and dtypes, and where the rows of each fit begin [fits + 1]; borrowed */
    const gd_rows *rows;
    gd_tensor *const *like;
    int like_count;
    const int64_t *first;

    const double *low, *high; /* [fits, params], bounds of each fit; NULL: those of the options, for all */
    double *errors;           /* [fits, params] gets standard errors; NULL: not wanted */
    double *covariance;       /* [fits, params, params] gets covariances; NULL: not wanted */
} gd_lsq_many;

/* One fit of many. */
typedef struct gd_lsq_one {
    gd_status status; /* GD_OK, or what its functions failed with: then the rest is not known */
    gd_stop reason;
    bool converged;
    int64_t residuals, dof, free, rank, steps, evals;
    double loss, rss, sigma, scale;
} gd_lsq_one;

/* Fits all from x [fits, params], which has the best points afterwards, on the threads of the context: each fit gives the numbers of
 * gd_lsq_solve for it alone, the same bits on any number of threads.  A fit that fails or does not converge does not end the others; limits
 * of the options are per fit.  Models made of operators are traced.  ARGUMENT: something is missing, or options have a callback, names or
 * chosen elements; SHAPE: first falls, or says more rows than there are. */
GD_NODISCARD gd_status gd_least_squares_many(gd_ctx *ctx, const gd_lsq_many *many,
                                             const gd_lsq_options *options, double *x, gd_lsq_one *out);

#ifdef __cplusplus
}
#endif
#endif
