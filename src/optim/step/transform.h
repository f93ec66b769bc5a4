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
    bool own_grads; /* so it is of the gradients */
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
/* The same where the parameters are some of the var's: a step of its own for these. */
gd_status gd__transform_part(gd_link *link, gd_tensor **tensors, const gd_call_args *c);

/* ---- spread.c ---- */

/* May a step of the link take and give what this rank owns of the update? */
bool gd__keeps_to_own(gd_link *link, const gd_var *var);
/* Is what a function of tensors keeps for a parameter of no other's concern? */
bool gd__spreads_by_tensors(const gd_link *link);
/* May its functions have what a rank owns of each tensor, with sums over lists of them? */
bool gd__spreads_by_elements(const gd_link *link);
/* Has it a history, of which each rank keeps the columns of the elements it owns? */
bool gd__keeps_columns(const gd_link *link);
/* fn over the tensors, or what of each, this rank owns, where the link spreads so; gives: what it makes of them, and of the others
 * what their owners make. */
gd_status gd__on_own(const gd_call_args *c, gd_tensor **tensors, bool gives,
                     gd_status (*fn)(const gd_call_args *c, gd_tensor **tensors));
/* Entries for all parameters, in their order: which rank has what of them, or whose tensors went together, leaves no trace. */
gd_status gd__list_entries(const gd_call_args *c);

#endif
