/* Where parameters are before they are tried elsewhere, and the way back.
 *
 *     gd_origin here = {0};
 *     gd_status status = gd__origin_keep(&here, ctx, params, count);
 *     ... moves the parameters, evaluates ...
 *     gd_status back = gd__origin_return(&here);      bit for bit, also where the evaluation failed
 *     gd__origin_free(&here);
 *
 * After the return graphs that were recorded at the origin may be used again: a storage's version names what is in it, and it
 * has again what it had.  Names given in between are never given again, so graphs of the points tried stay refused.  (What
 * else lies in the storage of a parameter that is a view must be as it was.) */
#ifndef GD_OPTIM_VECTOR_ORIGIN_H
#define GD_OPTIM_VECTOR_ORIGIN_H

#include "gradus/tensor.h"

typedef struct gd_origin {
    gd_ctx *ctx;
    gd_tensor *const *params; /* borrowed */
    int count;
    gd_tensor **value; /* what they hold at the origin; owned */
    uint32_t *version; /* of their storages there */
    bool kept;
} gd_origin;

/* The parameters are at the origin now.  Called again it takes no new memory; params and count are those of before. */
GD_NODISCARD gd_status gd__origin_keep(gd_origin *o, gd_ctx *ctx, gd_tensor *const *params, int count);
/* All of them, also where one fails. */
GD_NODISCARD gd_status gd__origin_return(gd_origin *o);
void gd__origin_free(gd_origin *o);

#endif
