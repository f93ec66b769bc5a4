/* Steps s(lambda) that minimise |R s + c|^2 + lambda |s|^2, from a triangle [R c] alone (More 1978).
 *
 * An SVD, which gives s for every lambda, costs as much as thirty such triangles.  If the columns of R are clearly independent it gives
 * no better result, and for many parameters each trial of lambda costs a triangle of R over sqrt(lambda) I. */
#ifndef GD_OPTIM_VECTOR_DIRECT_H
#define GD_OPTIM_VECTOR_DIRECT_H

#include "optim/vector/layout.h"

typedef struct gd_direct {
    gd_ctx *ctx;
    const gd_vector_loops *loops;
    int64_t most, n;  /* columns: the most; now */
    double *factor;   /* [R c], [n + 1, n + 1] */
    double *damped;   /* the same over sqrt(lambda) I, for the lambda next to it */
    double *inverse;  /* of R, [n, n] */
    double *room, *x; /* [most + 1, most + 1]; [most + 1], the last step */
    double **column;  /* [most + 1] */
    double lambda;
} gd_direct;

GD_NODISCARD gd_status gd__direct_begin(gd_direct *d, gd_ctx *ctx, int64_t most);
void gd__direct_end(gd_direct *d);
/* The columns of triangle [all, all + 1] that are not fixed, where the fixed ones have moved by s (NULL: not).  False if R is so nearly
 * singular that singular values are needed. */
bool gd__direct_set(gd_direct *d, const double *triangle, int64_t all, const bool *fixed, const double *s);
/* d->x = s(lambda); returns its norm, and the derivative of that by lambda (NULL: not). */
double gd__direct_step(gd_direct *d, double lambda, double *slope);
/* |R^T c| */
double gd__direct_gradient(gd_direct *d);
/* x = (R^T R + lambda I)^-1 x */
void gd__direct_solve(gd_direct *d, double lambda, double *x);
/* For the last step s(lambda): the decrease of |R s + c|^2, and |R s|^2. */
void gd__direct_predict(const gd_direct *d, double *decrease, double *bent);
/* Element i, j of (R^T R)^-1. */
double gd__direct_covariance(const gd_direct *d, int64_t i, int64_t j);

#endif
