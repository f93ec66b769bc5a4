/* The way back through a graph: the nodes that an output depends on, the latest first (a node's number is larger than its
 * inputs'), and the gradients that have arrived at each so far. */
#ifndef GD_AUTOGRAD_WALK_H
#define GD_AUTOGRAD_WALK_H

#include "tensor/tensor.h"

typedef struct gd_visit {
    gd_node *node;
    gd_tensor *grad[GD_MAX_OUTPUTS]; /* of each output; owned */
    bool useful;                     /* does it lead to something that was asked for? */
    gd_tensor *room; /* for the gradients of split3's parts, lent to the rules that make them; owned */
    bool lent[GD_MAX_OUTPUTS];
} gd_visit;

typedef struct gd_walk {
    gd_ctx *ctx;
    gd_visit *item; /* node->slot is its place here */
    size_t count, capacity;
    gd_tensor *const *input; /* whose gradients are asked for; NULL: those of all leaves */
    gd_tensor **result;
    int inputs;
    int flags; /* of gd_backward */
} gd_walk;

/* Finds the nodes.  One whose graph was freed stops it: *spent, and GD_GRAPH without a message. */
GD_NODISCARD gd_status gd__walk_collect(gd_walk *w, gd_node *root, const gd_node **spent);
void gd__walk_free(gd_walk *w);

/* *sum += g; takes its own reference of g. */
GD_NODISCARD gd_status gd__accumulate(gd_tensor **sum, gd_tensor *g);

#endif
