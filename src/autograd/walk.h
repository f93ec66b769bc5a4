/* The traversal of a graph: the nodes that an output depends on, the latest first (a node's number is larger than its
 * inputs'), and their gradients so far. */
#ifndef GD_AUTOGRAD_WALK_H
#define GD_AUTOGRAD_WALK_H

#include "tensor/tensor_internal.h"

/* One output of a node; those of a node are adjacent, and the first represents the node. */
typedef struct gd_visit {
    gd_node *node;
    gd_tensor *grad; /* owned */
    gd_tensor *
        room; /* of the first: one tensor for the gradients of a split's pieces, lent to the rules that make them; owned */
    uint8_t output;
    bool useful; /* of the first: does it lead to a requested tensor? */
    bool lent;   /* is its piece of the buffer? */
} gd_visit;

typedef struct gd_walk {
    gd_ctx *ctx;
    gd_visit *item; /* node->slot is the place of its first output here */
    size_t count, capacity;
    gd_tensor *const *input; /* requested gradients; NULL: those of all leaves */
    gd_tensor **result;
    int inputs;
    int flags; /* of gd_backward */
    /* called with each result when it is complete; NULL: none */
    gd_status (*each)(void *user, int input, gd_tensor *grad);
    void *user;
    struct gd_waiting *waiting; /* for callbacks on complete leaves, see ready.c; else NULL */
} gd_walk;

/* Finds the nodes.  One whose graph was freed stops it: *spent, and GD_GRAPH without a message. */
GD_NODISCARD gd_status gd__walk_collect(gd_walk *w, gd_node *root, const gd_node **spent);
void gd__walk_free(gd_walk *w);
/* The first operand that the rule of a node needs and that was changed in place since; nin: a result was.  -1: none. */
int gd__changed(const gd_node *node);
/* Can derivatives be taken through the graph of t: nothing that is needed was freed or changed since it was made? */
bool gd__graph_intact(const gd_tensor *t);

/* A flag of gd_grad: requested tensors are leaves, whatever their history. */
#define GD_STOP_AT_INPUTS 256

/* Does the traversal end at an inner tensor, because it is requested? */
static inline bool gd__stops_at(const gd_walk *w, const gd_tensor *t)
{
    if (!(w->flags & GD_STOP_AT_INPUTS)) return false;
    for (int i = 0; i < w->inputs; i++)
        if (w->input[i] == t || (w->input[i]->node == t->node && w->input[i]->output == t->output && t->node))
            return true;
    return false;
}

static inline bool gd__asked_for(const gd_walk *w, const gd_tensor *t)
{
    if (!w->input) return t->leaf_grad && !t->node;
    for (int i = 0; i < w->inputs; i++)
        if (w->input[i] == t) return true;
    return false;
}

/* True when a gradient of t leads anywhere. */
static inline bool gd__leads_on(const gd_walk *w, const gd_tensor *t)
{
    if (!t->node) return gd__asked_for(w, t);
    return gd__stops_at(w, t) || w->item[t->node->slot].useful;
}

/* *sum += g; takes its own reference of g. */
GD_NODISCARD gd_status gd__accumulate(gd_tensor **sum, gd_tensor *g);

#endif
