/* The inside of gd_least_squares. */
#ifndef GD_OPTIM_SOLVE_SOLVE_H
#define GD_OPTIM_SOLVE_SOLVE_H

#include "gradus/solve.h"

double gd__seconds(void); /* of a clock that only goes forward */

/* ---- the linear model r + J s of the residuals, in parameters scaled by the columns of J ----
 *
 * A = J / scale = U S V^T, by SVD of the triangle of a QR of [A r]; c = U^T r.  The damped step is
 *
 *     s(lambda) = -V S c / (S^2 + lambda) */
typedef struct gd_lm_model {
    gd_ctx *ctx;
    int64_t m, n, k;    /* residuals, parameters, the smaller of both */
    double *scale;      /* [n], never shrinks (More 1978) */
    double *values;     /* S [k], descending */
    double *c;          /* [k] */
    double *vt;         /* V^T [k, n] */
    double *gradient;   /* J^T r [n] */
    double *columns;    /* norms of the columns of J [n] */
    double *triangle;   /* of the QR of [A r], [k, n + 1] */
    double *work;       /* the part of it that is decomposed, [k, n], and its right side [k] */
    bool *fixed;        /* [n]: parameters that the decomposition leaves out */
    int64_t rank, free; /* of the part decomposed; parameters not fixed */
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
/* The same for any scaled step, and the slope r.A s. */
void gd__lm_predict_for(const gd_lm_model *a, const double *s, double *decrease, double *slope);
/* Decomposes the columns that are not fixed (NULL: all), for steps where the fixed ones have moved by s (NULL: not): columns
 * of zeros take no part in a step, so nothing is numbered anew. */
gd_status gd__lm_restrict(gd_lm_model *a, const bool *fixed, const double *s);
/* Singular values above that part of the largest. */
int64_t gd__lm_rank(const gd_lm_model *a, double tolerance);
/* Has parameter j a part outside the first `rank` directions? */
bool gd__lm_undetermined(const gd_lm_model *a, int64_t rank, int64_t j);
/* |cosine| of two columns; 0 where one is zero. */
double gd__lm_alike(const gd_lm_model *a, int64_t i, int64_t j);
/* (J^T J)^-1 over the first `rank` directions: covariance [n * n] for variance 1; infinite where not determined, 0 for fixed
 * parameters. */
void gd__lm_covariance(const gd_lm_model *a, int64_t rank, double *out);

#endif
