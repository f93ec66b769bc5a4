/* gradus/projection.h: for links whose child steps over other tensors in place of the parameters.
 *
 * A projection says what stands in for a list of tensors (parameters, gradients, updates) and the way back; the library keeps
 * the stand-ins, gives the child its closure over them, and saves what the child keeps for them under the link's name:
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

/* A way from tensors like the parameters to stand-ins for them, and back. */
typedef struct gd_projection {
    /* How many stand-ins a parameter has; NULL: there is one for all parameters together. */
    int64_t (*parts)(const gd_tensor *param);
    /* What stands in for these tensors, which are like the parameters: new ones in out, those of the first parameter first.
     * Linear.  The error may be left in the context: an entry that is NULL fails. */
    gd_status (*project)(gd_link *link, gd_tensor *const *tensors, int count, gd_tensor **out);
    /* The way back: new tensors like params[i] in out[i]. */
    gd_status (*unproject)(gd_link *link, gd_tensor *const *stand_ins, gd_tensor *const *params, int count,
                           gd_tensor **out);
} gd_projection;

/* For .parts: one stand-in a parameter. */
int64_t gd_project_each(const gd_tensor *param);

/* What the child is given: the update (else it begins with the gradient), the values of the parameters with a closure over
 * them (else stand-ins hold zeros and it cannot evaluate), the gradient where it is there. */
enum { GD_PROJECT_UPDATE = 1, GD_PROJECT_PARAMS = 2, GD_PROJECT_GRAD = 4, GD_PROJECT_ALL = 7 };

/* For .step: a step of the child over the stand-ins, and its update, projected back, as the var's.  Where the child moves them
 * itself, the parameters follow. */
GD_NODISCARD gd_status gd_link_step_projected(gd_link *link, gd_link *child, gd_var *var,
                                              const gd_projection *projection, unsigned what);

#ifdef __cplusplus
}
#endif
#endif
