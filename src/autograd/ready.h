/* Callbacks of gd_backward when the gradient of a leaf is complete: nothing more of this pass is added to it, while other leaves
 * are still incomplete.  The callback may take the gradient away. */
#ifndef GD_AUTOGRAD_READY_H
#define GD_AUTOGRAD_READY_H

#include "autograd/walk.h"

/* The caller's own memory, while it is added. */
typedef struct gd_ready {
    gd_status (*fn)(void *user, gd_tensor *leaf); /* if it fails, the pass fails */
    void *user;
    struct gd_ready *next;
} gd_ready;

void gd__ready_add(gd_ctx *ctx, gd_ready *ready);
void gd__ready_remove(gd_ctx *ctx, gd_ready *ready); /* does nothing if it was not added */

/* As gd_grad, where each gradient is passed on as soon as it is complete: owned, and fn owns it then.  fn is not called for unreached inputs. */
typedef gd_status (*gd_each_fn)(void *user, int input, gd_tensor *grad);
GD_NODISCARD gd_status gd__grad_each(gd_tensor *output, gd_tensor *seed, gd_tensor *const *inputs, int count,
                                     gd_each_fn fn, void *user);

/* Before a pass: counts how often each leaf is an operand of relevant nodes. */
gd_status gd__ready_count(gd_walk *w);
/* A node has passed on its gradients. */
gd_status gd__ready_done(gd_walk *w, const gd_node *node);
void gd__ready_free(gd_walk *w);
/* Passes the results of a leaf, or of all (NULL), to the callback. */
gd_status gd__hand_on(gd_walk *w, const gd_tensor *leaf);

#endif
