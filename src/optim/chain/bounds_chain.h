/* Bounds of parameters as a link in front of a chain. */
#ifndef GD_OPTIM_CHAIN_BOUNDS_CHAIN_H
#define GD_OPTIM_CHAIN_BOUNDS_CHAIN_H

#include "gradus/chain.h"

/* The link `box` with these bounds before the chain, which is consumed.  New. */
gd_link *gd__bounds_chain(gd_ctx *ctx, gd_link *chain, gd_tensor *const *params, int count, const double *low,
                          const double *high);

#endif
