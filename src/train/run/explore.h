/* Importance of columns, and search for a learning rate. */
#ifndef GD_TRAIN_EXPLORE_H
#define GD_TRAIN_EXPLORE_H

#include "train/run/trainer.h"

/* ---- permutation importance (Breiman 2001) ---- */

#define GD_SHUFFLES 5

/* Of each column of a table, or of each number of rows with one axis, sorted, the most important first: out has `count` of them.
 * Measured on standardised rows on the model's device. */
GD_NODISCARD gd_status gd__importance(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, const gd_metric *by,
                                      gd_importance *out, int count);

/* ---- a learning rate (Smith 2017) ---- */

/* Steps with a rate that grows from 1e-6 to 10, until the loss is four times the lowest or not finite.  The model is unusable afterwards.
 * VALUE: the loss never falls; ATTRIBUTE: the chain has no lr. */
GD_NODISCARD gd_status gd__find_rate(gd_trainer *t, gd_rates *out);
/* The loss over the rate. */
GD_NODISCARD gd_status gd__draw_rates(gd_ctx *ctx, const gd_rates *rates, const char *path, bool dark);

#endif
