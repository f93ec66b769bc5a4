/* A least-squares fit under way: what its files share.
 *
 *   solve_fit.c      evaluating, the trust region, the last digits, results
 *   solve_box.c      bounds: which parameters are active, steps inside the box
 *   solve_covariance.c covariance of the parameters at the end
 *   solve_saddle.c   curvature where a fit stops: leaves saddles, names undetermined parameters
 *   solve_profile.c  profile intervals
 *   solve_bootstrap.c  intervals by resampling
 *   solve_robust.c   losses other than squares, by fits of transformed residuals
 *   solve_scale.c    the scale of such a loss
 *   solve_budget.c   one budget for several fits
 *   solve_distance.c distances of points from a curve, as residuals for errors in x */
#ifndef GD_OPTIM_SOLVE_SOLVE_FIT_H
#define GD_OPTIM_SOLVE_SOLVE_FIT_H

#include "optim/solve/solve_internal.h"
#include "optim/vector/row_blocks.h"
#include "optim/vector/layout.h"
#include "optim/vector/linear_model.h"
#include "optim/vector/origin.h"

/* Fractions of the largest singular value of the scaled Jacobian, and of the largest eigenvalue of the scaled Hessian, that count
 * as zero.  Well-posed regressions go down to 1.6e-5 of the former. */
#define GD_FLAT_SINGULAR 1e-8
#define GD_FLAT_CURVED   1e-8

typedef struct gd_lsq {
    gd_ctx *ctx;
    gd_tensor *const *params;
    int count;
    gd_tensor *(*fn)(void *user);
    void *user, *state; /* state: of few rows, the result of their open */
    const gd_lsq_options *options;
    int64_t m, n, steps, evals;
    double eps, start;             /* precision of the parameters; clock at the start */
    gd_blocks *blocks;             /* many rows: passes over them; NULL: the function gives all residuals */
    gd_tensor *r;                  /* residuals here, with history; of blocks, the triangle of [J r]; owned */
    double f;                      /* their sum of squares */
    gd_tensor *j;                  /* Jacobian here; owned */
    gd_origin here;                /* the point where r was computed, kept before a trial */
    double *x, *trial, *s, *a, *d; /* here, a trial point, scaled step, acceleration, step; [n] */
    double *slide;                 /* a direction without slope, [n] */
    double *bend;       /* of blocks, the sum of r r'', [n, n], at `curved`, where it was computed last */
    double *curved;     /* [n] */
    int poor;           /* consecutive attempts that the model predicted badly */
    double *low, *high; /* bounds [n]; NULL: none */
    bool *fixed;        /* bounded: left out of the step, [n] */
    signed char *hit;   /* bounded: the step ends at the low (-1) or high (1) bound, [n] */
    gd_lm_model model;
    double radius, lambda, decrease, slope; /* the last two as the model predicts for s */
    gd_stop reason;
    bool stopped, fresh,
        current;            /* the model is that of the point here; its scale is that of the columns here */
    int escapes;            /* saddles left so far */
    char says[GD_LSQ_TEXT]; /* undetermined elements */
} gd_lsq;

/* ---- solve_fit.c ---- */

/* ARGUMENT unless all are floating leaves that want gradients. */
gd_status gd__lsq_check_params(gd_ctx *ctx, const char *what, gd_tensor *const *params, int count);
/* The error if the user's function gave no residuals. */
gd_status gd__lsq_no_residuals(gd_ctx *ctx);
double gd__lsq_norm(const double *v, const double *scale, int64_t n);
/* Residuals at p->trial, kept in the box and rounded to the parameters' dtype; *r owned.  *f is NAN where one is not finite. */
gd_status gd__lsq_try(gd_lsq *p, gd_tensor **r, double *f);
/* Moves to the trial point, or back to where r was made, bit for bit; `r` is consumed by both. */
void gd__lsq_settle(gd_lsq *p, gd_tensor *r, double f);
gd_status gd__lsq_go_back(gd_lsq *p, gd_tensor *r);
/* Jacobian and model from residuals just made; grow, finite: see gd__lm_set. */
gd_status gd__lsq_model_from(gd_lsq *p, gd_tensor *r, bool grow, bool *finite);
/* The model where p->x is, scaled by the columns there. */
gd_status gd__lsq_model_here(gd_lsq *p, bool *finite);
/* Are evaluations or time used up? */
bool gd__lsq_spent(const gd_lsq *p);
bool gd__lsq_out_of_steps(const gd_lsq *p);
/* Half the Hessian of the sum of squares, scaled, as [n, n] f64; new, or NULL if it is not available. within: with many rows, how far
 * p->x may be from the point where it was computed, relative to its size. */
gd_tensor *gd__lsq_hessian(gd_lsq *p, double within);

/* ---- solve_covariance.c ---- */

/* Results of the linear model at the end: rank, covariance, errors, active bounds. */
gd_status gd__lsq_spread(gd_lsq *p, gd_lsq_result *result);

/* ---- solve_box.c ---- */

/* Takes the bounds of the options and puts p->x inside. */
gd_status gd__box_begin(gd_lsq *p);
void gd__box_end(gd_lsq *p);
/* -1, 1: parameter i lies on its low or high bound, beyond which the loss falls (or both bounds are equal); 0: free. */
int gd__box_active(const gd_lsq *p, int64_t i);
/* Decomposes the model over the free parameters. */
gd_status gd__box_free(gd_lsq *p);
/* The largest element of x - P(x - gradient), the gradient's largest without bounds. */
double gd__box_gradient(const gd_lsq *p);
/* p->s, p->lambda, p->hit: a step inside trust region and box. */
gd_status gd__box_step(gd_lsq *p);
/* Puts a point into the box, exactly on the bounds that the step has hit. */
void gd__box_clamp(const gd_lsq *p, double *x);
/* The next point does not end a step: resets the bounds hit. */
void gd__box_forget(gd_lsq *p);
/* Moves p->x off its bounds a little, for models that are not finite on them; false where it is on none. */
bool gd__box_nudge(gd_lsq *p);

/* ---- solve_saddle.c ---- */

/* Before the first step: leaves a start where columns of the Jacobian coincide and the loss bends down between them. */
gd_status gd__saddle_leave_start(gd_lsq *p);
/* Where a fit has stopped: either a saddle that was left (*again), or p->reason says what it is. */
gd_status gd__saddle_judge(gd_lsq *p, bool *again);
/* After such a stop: is element i not determined? */
bool gd__saddle_flat(const gd_lsq *p, int64_t i);

/* ---- solve_robust.c ---- */

/* The residuals whose halved squares are s^2 rho(r / s). */
gd_tensor *gd__bent(gd_lsq_loss loss, gd_tensor *r, double scale);

/* gd_least_squares with a robust loss; the parameters are checked. */
gd_status gd__robust_fit(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user), void *user,
                         const gd_lsq_options *options, gd_lsq_result *result);

#endif
