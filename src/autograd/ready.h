/* Being told in gd_backward that the gradient of a leaf is complete: nothing more of this pass arrives at it, while other
 * leaves still wait for theirs.  The callback may take the gradient away. */
#ifndef GD_AUTOGRAD_READY_H
#define GD_AUTOGRAD_READY_H

#include "autograd/walk.h"

/* The caller's own memory, while it is added. */
typedef struct gd_ready {
    gd_status (*fn)(void *user, gd_tensor *leaf); /* where it fails the pass does */
    void *user;
    struct gd_ready *next;
} gd_ready;

void gd__ready_add(gd_ctx *ctx, gd_ready *ready);
void gd__ready_remove(gd_ctx *ctx, gd_ready *ready); /* one that was not added: nothing */

/* As gd_grad, where each gradient is handed on as soon as it is complete: owned, and fn owns it then.  For inputs that nothing reaches
 * fn is not called. */
typedef gd_status (*gd_each_fn)(void *user, int input, gd_tensor *grad);
GD_NODISCARD gd_status gd__grad_each(gd_tensor *output, gd_tensor *seed, gd_tensor *const *inputs, int count,
                                     gd_each_fn fn, void *user);

/* Before a pass: how often each leaf is an operand of what leads on. */
gd_status gd__ready_count(gd_walk *w);
/* A node has handed on what it has. */
gd_status gd__ready_done(gd_walk *w, const gd_node *node);
void gd__ready_free(gd_walk *w);
/* The results of a leaf, or of all there are (NULL), to who takes them one by one. */
gd_status gd__hand_on(gd_walk *w, const gd_tensor *leaf);

#endif
