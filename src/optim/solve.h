/* The inside of gd_least_squares. */
#ifndef GD_OPTIM_SOLVE_H
#define GD_OPTIM_SOLVE_H

#include "gradus/solve.h"

double gd__seconds(void); /* of a clock that only goes forward */

/* ---- the linear model r + J s of the residuals, in parameters scaled by the columns of J ----
 *
 * A = J / scale = U S V^T, by SVD of the triangle of a QR of [A r]; c = U^T r.  The damped step is
 *
 *     s(lambda) = -V S c / (S^2 + lambda) */
typedef struct gd_lm_model {
    gd_ctx *ctx;
    int64_t m, n, k;  /* residuals, parameters, the smaller of both */
    double *scale;    /* [n], never shrinks (More 1978) */
    double *values;   /* S [k], descending */
    double *c;        /* [k] */
    double *vt;       /* V^T [k, n] */
    double *gradient; /* J^T r [n] */
    double *columns;  /* norms of the columns of J [n] */
    int64_t rank;
} gd_lm_model;

gd_status gd__lm_begin(gd_lm_model *a, gd_ctx *ctx, int64_t m, int64_t n);
void gd__lm_end(gd_lm_model *a);
/* From J [m, n] and r [m], both f64 on the CPU.  grow: the scale becomes at least the norms of the columns.  *finite is
 * false, and nothing changed, where an element is not finite. */
gd_status gd__lm_set(gd_lm_model *a, gd_tensor *j, gd_tensor *r, bool grow, bool *finite);
/* Scaled step of norm about radius (within a tenth), or the full one inside it with *lambda = 0; *lambda is a guess too. */
void gd__lm_step(const gd_lm_model *a, double radius, double *lambda, double *s);
/* -(A^T A + lambda I)^-1 A^T y / 2 for the second derivative y of the residuals along the step. */
void gd__lm_acceleration(const gd_lm_model *a, double lambda, const double *jty, double *out);
/* Decrease of the squared norm that the model predicts for s(lambda), and |A s|^2. */
void gd__lm_predict(const gd_lm_model *a, double lambda, double *decrease, double *bent);
/* (J^T J)^-1 and its undetermined directions: covariance [n * n] for variance 1; infinite where not determined. */
void gd__lm_covariance(const gd_lm_model *a, double *out);

#endif
