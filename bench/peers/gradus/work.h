/* What gradus does in ./dev bench peers, by its public functions: one file a kind of work. */
#ifndef GD_PEER_GRADUS_H
#define GD_PEER_GRADUS_H

#include <gradus/gradus.h>

#include "peer.h"

extern const peer_kind gradus_step, gradus_rosenbrock, gradus_mlp, gradus_conv, gradus_transformer,
    gradus_gradient, gradus_product, gradus_hessian, gradus_fit;

gd_ctx *gradus_context(void);   /* with the threads that everybody has; inside a scope */
void gradus_check(gd_ctx *ctx); /* ends the program with its error */
void gradus_end(gd_ctx *ctx);
void *gradus_memory(size_t size); /* zeros */

#endif
