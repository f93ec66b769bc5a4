/* Transforms of lists of tensors. */
#ifndef GD_OPTIM_STEP_TRANSFORM_H
#define GD_OPTIM_STEP_TRANSFORM_H

#include "optim/link/link_internal.h"

/* The arguments of a link's transform.  All borrowed. */
typedef struct gd_call_args {
    gd_link *link;
    gd_var *var; /* NULL by hand */
    gd_tensor *const *params;
    gd_tensor *const *keys;
    gd_tensor *const *grads; /* may be NULL, and so may the loss */
    gd_tensor *loss;
    int count;
    bool own;       /* of the tensors this rank has what it owns, and gives no more (gd__share_list) */
    bool own_grads; /* the same for the gradients */
} gd_call_args;

bool gd__is_transform(const gd_link *link);
const char *gd__target_of(const gd_link *link);
/* Does it see all parameters as one vector? */
bool gd__concatenates(const gd_link *link);

/* Entries of tensors are owned; apply replaces them, update does not. */
gd_status gd__call_update(const gd_call_args *c, gd_tensor **tensors);
gd_status gd__call_apply(const gd_call_args *c, gd_tensor **tensors);
gd_status gd__call_both(const gd_call_args *c, gd_tensor **tensors);
/* A whole link or chain on tensors, with everything else as in a call (c->link does not matter). */
gd_status gd__transform_with(gd_link *link, gd_tensor **tensors, const gd_call_args *c);
/* The same if the parameters are a subset of the var's: a separate step for these. */
gd_status gd__transform_part(gd_link *link, gd_tensor **tensors, const gd_call_args *c);

/* ---- spread.c ---- */

/* May a step of the link take and return this rank's shard of the update? */
bool gd__keeps_to_own(gd_link *link, const gd_var *var);
/* Is the state of a function of tensors for a parameter independent of other parameters? */
bool gd__spreads_by_tensors(const gd_link *link);
/* May its functions get a rank's shard of each tensor, with sums over lists of them? */
bool gd__spreads_by_elements(const gd_link *link);
/* Does it have a history of which each rank keeps the columns of its elements? */
bool gd__keeps_columns(const gd_link *link);
/* fn over the tensors, or shards, that this rank owns, if the link distributes so; gives: its results, and those of other owners. */
gd_status gd__on_own(const gd_call_args *c, gd_tensor **tensors, bool gives,
                     gd_status (*fn)(const gd_call_args *c, gd_tensor **tensors));
/* Entries for all parameters, in their order: ownership and grouping do not affect the order. */
gd_status gd__list_entries(const gd_call_args *c);

#endif
