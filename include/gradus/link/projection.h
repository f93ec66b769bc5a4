/* gradus/link/projection.h: for links whose child steps over stand-ins for the parameters.
 *
 * A projection maps a list of tensors (parameters, gradients, updates) to stand-ins and back.  The library keeps the stand-ins,
 * gives the child a closure over them, and saves the child's state for them under the link's name:
 *
 *     static gd_status halves(gd_link *link, gd_tensor *const *tensors, int count, gd_tensor **out)
 *     {
 *         (void)link;
 *         for (int i = 0; i < count; i++) out[i] = gd_mul_scalar(tensors[i], 0.5);
 *         return GD_OK;
 *     }
 *     static gd_status doubles(gd_link *link, gd_tensor *const *tensors, gd_tensor *const *like, int count, gd_tensor **out)
 *     {
 *         (void)link, (void)like;
 *         for (int i = 0; i < count; i++) out[i] = gd_mul_scalar(tensors[i], 2);
 *         return GD_OK;
 *     }
 *     static const gd_projection half = {.parts = gd_project_each, .project = halves, .unproject = doubles};
 *     static gd_status half_step(gd_link *link, gd_var *var)
 *     {
 *         return gd_link_step_projected(link, gd_link_child(link, "modules"), var, &half, GD_PROJECT_ALL);
 *     }
 */
#ifndef GRADUS_PROJECTION_H
#define GRADUS_PROJECTION_H

#include "gradus/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Maps tensors of the parameters' shapes to stand-ins, and back. */
typedef struct gd_projection {
    /* The number of stand-ins of a parameter; NULL: one for all parameters together. */
    int64_t (*parts)(const gd_tensor *param);
    /* The stand-ins for tensors of the parameters' shapes: new tensors in out, those of the first parameter first.
     * Linear.  A NULL entry is an error, recorded in the context. */
    gd_status (*project)(gd_link *link, gd_tensor *const *tensors, int count, gd_tensor **out);
    /* The inverse: new tensors like params[i] in out[i]. */
    gd_status (*unproject)(gd_link *link, gd_tensor *const *stand_ins, gd_tensor *const *params, int count,
                           gd_tensor **out);
} gd_projection;

/* For .parts: one stand-in per parameter. */
int64_t gd_project_each(const gd_tensor *param);

/* The inputs of the child: the update (else it starts with the gradient), the values of the parameters with a closure over
 * them (else stand-ins are zero and it cannot evaluate), the gradient if it is known. */
enum { GD_PROJECT_UPDATE = 1, GD_PROJECT_PARAMS = 2, GD_PROJECT_GRAD = 4, GD_PROJECT_ALL = 7 };

/* For .step: a step of the child over the stand-ins; its update, projected back, becomes the var's.  If the child moves the
 * stand-ins itself, the parameters follow. */
GD_NODISCARD gd_status gd_link_step_projected(gd_link *link, gd_link *child, gd_var *var,
                                              const gd_projection *projection, unsigned what);

#ifdef __cplusplus
}
#endif
#endif
