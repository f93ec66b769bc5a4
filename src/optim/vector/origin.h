/* Keeps the parameters before a trial, and restores them.
 *
 *     gd_origin here = {0};
 *     gd_status status = gd__origin_keep(&here, ctx, params, count);
 *     ... moves the parameters, evaluates ...
 *     gd_status back = gd__origin_return(&here);      bit for bit, also after a failed evaluation
 *     gd__origin_free(&here);
 *
 * After the return graphs that were recorded at the origin may be used again: a storage's version identifies its contents, which are
 * restored. Versions used in between are never reused, so graphs of trial points stay invalid. (If a parameter is a view, the rest of its storage
 * must not change.) */
#ifndef GD_OPTIM_VECTOR_ORIGIN_H
#define GD_OPTIM_VECTOR_ORIGIN_H

#include "gradus/tensor.h"

typedef struct gd_origin {
    gd_ctx *ctx;
    gd_tensor *const *params; /* borrowed */
    int count;
    gd_tensor **value; /* values at the origin; owned */
    uint32_t *version; /* of their storages there */
    bool kept;
} gd_origin;

/* The parameters are at the origin now.  Called again it takes no new memory; params and count are those of before. */
GD_NODISCARD gd_status gd__origin_keep(gd_origin *o, gd_ctx *ctx, gd_tensor *const *params, int count);
/* Restores all of them, even if one fails. */
GD_NODISCARD gd_status gd__origin_return(gd_origin *o);
void gd__origin_free(gd_origin *o);

#endif
