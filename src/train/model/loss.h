/* Losses.
 *
 *   cross_entropy    of classes, each row times the weight of its class
 *   squares          of numbers, as all below in their standard deviations: (p - y)^2
 *   absolute         |p - y|: the median
 *   huber[:d]        squares up to d (1), then straight
 *   quantile:q       the pinball loss: p with a share q of the numbers below it
 *   poisson          of counts: p is a rate, the exponential of the model's output */
#ifndef GD_TRAIN_LOSS_H
#define GD_TRAIN_LOSS_H

#include "base/text/compose.h"
#include "gradus/tensor.h"

typedef enum gd_loss_kind {
    GD_LOSS_CROSS_ENTROPY,
    GD_LOSS_SQUARES,
    GD_LOSS_ABSOLUTE,
    GD_LOSS_HUBER,
    GD_LOSS_QUANTILE,
    GD_LOSS_POISSON,
    GD_LOSS_KINDS
} gd_loss_kind;

typedef struct gd_loss {
    gd_loss_kind kind;
    double number; /* of huber and quantile */
} gd_loss;

/* PARSE: "loss: ..." as the caller spells it */
GD_NODISCARD gd_status gd__loss_parse(gd_ctx *ctx, const char *text, gd_loss *out);
/* Its text, which can be parsed again. */
void gd__loss_print(gd_text *out, const gd_loss *loss);
/* The mean loss over rows of the model's output; y are classes, standardised numbers or counts.  weight: of each class; NULL: all
 * alike.  New. */
gd_tensor *gd__loss(const gd_loss *loss, gd_tensor *given, gd_tensor *y, gd_tensor *weight);

#endif
