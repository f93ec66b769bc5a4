/* When to stop: "grad_norm<1e-8, loss<=0.1, seconds>30".
 *
 * Quantities, after a step: loss, loss_change (by the step), grad_norm (costs an evaluation per step unless it is known)
 * , kkt (largest element of x - P(x - gradient), with P the projection into the bounds; costs the same), step_norm (how far the parameters
 * moved), evals, seconds.  A step that failed has no loss_change and no step_norm: NaN. */
#ifndef GD_OPTIM_TEXT_UNTIL_H
#define GD_OPTIM_TEXT_UNTIL_H

#include "base/ctx.h"

#define GD_MAX_CONDITIONS 16

typedef enum gd_quantity {
    GD_UNTIL_LOSS,
    GD_UNTIL_LOSS_CHANGE,
    GD_UNTIL_GRAD_NORM,
    GD_UNTIL_STEP_NORM,
    GD_UNTIL_EVALS,
    GD_UNTIL_SECONDS,
    GD_UNTIL_KKT,
    GD_UNTIL_COUNT
} gd_quantity;

typedef struct gd_until {
    int count;
    struct {
        gd_quantity quantity;
        char sign; /* < > or l for <=, g for >= */
        double limit;
        char text[48];
    } condition[GD_MAX_CONDITIONS];
    bool uses[GD_UNTIL_COUNT];
} gd_until;

/* "loss"; static.  NULL past the end. */
const char *gd__until_name(int quantity);
/* Adds the conditions of a text.  PARSE: "--until: column 5: ..." */
GD_NODISCARD gd_status gd__until_parse(gd_ctx *ctx, const char *text, gd_until *until);
/* The text of the first condition that holds, NULL if none does.  NaN fulfils no condition. */
const char *gd__until_met(const gd_until *until, const double values[GD_UNTIL_COUNT]);

#endif
