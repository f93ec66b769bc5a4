/* Declarations that solve_robust.c (losses, covariance) and solve_scale.c (the scale of a loss) share. */
#ifndef GD_OPTIM_SOLVE_SOLVE_ROBUST_H
#define GD_OPTIM_SOLVE_SOLVE_ROBUST_H

#include "optim/solve/solve_budget.h"
#include "optim/solve/solve_fit.h"

typedef struct gd_robust {
    gd_ctx *ctx;
    gd_tensor *const *params;
    int count;
    gd_tensor *(*fn)(void *user);
    void *user;
    const gd_lsq_options *options;
    gd_lsq_loss loss; /* of the fit under way */
    double scale;
    gd_budget budget; /* of all fits of the call */
    double *size;     /* |residuals|, [m] */
    int64_t m;
} gd_robust;

/* How exact a fit is to be. */
typedef enum gd_robust_end {
    GD_ROBUST_FEW,       /* a few steps */
    GD_ROBUST_CONVERGED, /* as in the options, without the last digits */
    GD_ROBUST_LAST       /* to the last digits; if the budget is spent, results without a step */
} gd_robust_end;

/* ---- solve_robust.c ---- */

/* A fit with that loss at q->scale from where the parameters are.  If the budget is spent, no step is taken and the reason of the
 * result is the budget's. */
GD_NODISCARD gd_status gd__robust_step(gd_robust *q, gd_lsq_loss loss, gd_robust_end end,
                                       gd_lsq_result *result);
/* Did it end at a point where a second fit can start? */
bool gd__robust_usable(const gd_lsq_result *result);
/* Residuals where the parameters are, as numbers in q->size, [q->m]. */
GD_NODISCARD gd_status gd__robust_residuals(gd_robust *q);
/* rho(z), as in the header. */
double gd__robust_loss(gd_lsq_loss loss, double z);
/* psi'(z), psi = rho'. */
double gd__robust_bend(gd_lsq_loss loss, double z);

/* ---- solve_scale.c ---- */

/* q->scale by itself, and the parameters where a fit at that scale ended. */
GD_NODISCARD gd_status gd__robust_find_scale(gd_robust *q, gd_lsq_result *result);

#endif
