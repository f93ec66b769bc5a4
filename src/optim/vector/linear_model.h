/* Residuals linearised at a point, r + J s: common code of fits, covariances and the links gauss_newton and levenberg_marquardt.
 *
 *     residuals with a graph  --gd__linear_from-->  J, r  --gd__triangle-->  triangle of [J r]  --> steps, ranks, covariances
 *
 * Steps and covariances need only the triangle of the rows, and nothing forms J^T J. With a given damping, as in links, gd__damped
 * solves; a fit searches the damping for a radius, and decomposes the triangle once. */
#ifndef GD_OPTIM_VECTOR_LINEAR_MODEL_H
#define GD_OPTIM_VECTOR_LINEAR_MODEL_H

#include "gradus/tensor.h"
#include "optim/vector/direct.h"

/* J [m, n] and r [m], without names and history, of J's dtype and device, or as numbers: f64 on the CPU.  Owned. */
GD_NODISCARD gd_status gd__linear_from(gd_tensor *residuals, gd_tensor *const *params, int count,
                                       bool numbers, gd_tensor **j, gd_tensor **r);
/* A copy or view without names and history; owned. */
gd_tensor *gd__linear_copy(gd_tensor *t, gd_device *device, gd_dtype dtype);
/* An f64 one on the CPU; owned. */
gd_tensor *gd__numbers(gd_tensor *t);

/* The first min(m, n) rows of the triangle of a QR of [A b], [.., n + 1]; b NULL: of A.  New.  The only place that reads every row. */
gd_tensor *gd__triangle(gd_tensor *a, gd_tensor *b);
/* That of [sqrt(factor) A, b / sqrt(factor)] over [sqrt(shift) I, 0]: with it T x = t is (factor A^T A + shift I) x = A^T b.  A, b may
 * themselves be a triangle. */
gd_tensor *gd__damped(gd_tensor *a, gd_tensor *b, double factor, double shift);

/* ---- the model of gd_least_squares, in parameters scaled by the columns of J ----
 *
 * A = J / scale = U S V^T, by SVD of the triangle; c = U^T r.  The damped step is
 *
 *     s(lambda) = -V S c / (S^2 + lambda)
 *
 * With many parameters an SVD is made only if columns may be dependent; else the model is *direct* (direct.h). */
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
    double *work;       /* the columns of it that are decomposed, [k, n], and its right side [k] */
    bool *fixed;        /* [n]: parameters that the decomposition leaves out */
    int64_t rank, free; /* of the decomposed columns; parameters not fixed */
    bool is_direct;     /* then values, c and vt are not there, and the rank is that of all free columns */
    gd_direct direct;   /* of the free columns */
} gd_lm_model;

gd_status gd__lm_begin(gd_lm_model *a, gd_ctx *ctx, int64_t m, int64_t n);
void gd__lm_end(gd_lm_model *a);
/* From J [m, n] and r [m], both f64 on the CPU.  grow: the scale becomes at least the norms of the columns.  *finite is
 * false, and nothing changed, where an element is not finite. */
gd_status gd__lm_set(gd_lm_model *a, gd_tensor *j, gd_tensor *r, bool grow, bool *finite);
/* Scales again by the norms of the columns, as gd__lm_set without grow, from the triangle that is there. */
gd_status gd__lm_rescale(gd_lm_model *a);
/* Scaled step of norm about radius (within a tenth), or the full one inside it with *lambda = 0; *lambda is a guess too. */
void gd__lm_step(gd_lm_model *a, double radius, double *lambda, double *s);
/* -(A^T A + lambda I)^-1 A^T y / 2 for the second derivative y of the residuals along the step. */
void gd__lm_acceleration(gd_lm_model *a, double lambda, const double *jty, double *out);
/* Decrease of the squared norm that the model predicts for s(lambda), the last step, and |A s|^2. */
void gd__lm_predict(const gd_lm_model *a, double lambda, double *decrease, double *bent);
/* The same for any scaled step, and the slope r.A s. */
void gd__lm_predict_for(const gd_lm_model *a, const double *s, double *decrease, double *slope);
/* Decomposes the columns that are not fixed (NULL: all), for steps after the fixed ones have moved by s (NULL: not): columns of
 * zeros do not affect a step, so indices stay. */
gd_status gd__lm_restrict(gd_lm_model *a, const bool *fixed, const double *s);
/* The decrease of the squared norm by a step to the minimum of the model, and the length of that step. */
void gd__lm_full(gd_lm_model *a, double *decrease, double *length);
/* Singular values above that fraction of the largest, GD_FLAT_SINGULAR at most. */
int64_t gd__lm_rank(const gd_lm_model *a, double tolerance);
/* Has parameter j a component outside the first `rank` directions? */
bool gd__lm_undetermined(const gd_lm_model *a, int64_t rank, int64_t j);
/* |cosine| of two columns; 0 where one is zero. */
double gd__lm_alike(const gd_lm_model *a, int64_t i, int64_t j);
/* variance (J^T J)^-1 over the first `rank` directions, [n, n]; infinite where not determined, 0 for fixed parameters.  New. */
gd_tensor *gd__lm_covariance(const gd_lm_model *a, int64_t rank, double variance);

#endif
