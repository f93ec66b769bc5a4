/* gradus/presets.h: well-known optimizers as chains.  A preset builds a chain and has no class: print it
 * to see its links.  Single links with all their options are in gradus/links.h.
 *
 *     gd_sgd_options o = gd_sgd_defaults();
 *     o.momentum = 0.9;
 *     gd_optimizer *opt = gd_optimizer_new(ctx, gd_sgd(ctx, &o));     heavy_ball(...) | lr(0.001)
 */
#ifndef GRADUS_PRESETS_H
#define GRADUS_PRESETS_H

#include "gradus/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stochastic gradient descent: weight_decay | heavy_ball or nag | lr, without the links whose setting is 0.  The velocity starts at
 * zero. */
typedef struct gd_sgd_options {
    double lr, momentum, dampening, weight_decay;
    bool nesterov;
} gd_sgd_options;
gd_sgd_options gd_sgd_defaults(void);                        /* lr 1e-3, the rest 0 */
gd_link *gd_sgd(gd_ctx *ctx, const gd_sgd_options *options); /* new; NULL options are the defaults */

/* Adam with decoupled weight decay: adam | weight_decay | lr. */
typedef struct gd_adamw_options {
    double lr, beta1, beta2, eps, weight_decay;
    bool amsgrad;
    const char *eps_at; /* "raw" (also for NULL), or "corrected" as in PyTorch */
} gd_adamw_options;
gd_adamw_options gd_adamw_defaults(void);                        /* 1e-3, 0.9, 0.999, 1e-8, 0.01, "raw" */
gd_link *gd_adamw(gd_ctx *ctx, const gd_adamw_options *options); /* new */

#ifdef __cplusplus
}
#endif
#endif
