/* Transforms of lists of tensors. */
#ifndef GD_OPTIM_STEP_TRANSFORM_H
#define GD_OPTIM_STEP_TRANSFORM_H

#include "optim/link/link.h"

/* What a link is applied to.  All borrowed. */
typedef struct gd_call_args {
    gd_link *link;
    gd_var *var; /* NULL by hand */
    gd_tensor *const *params;
    gd_tensor *const *keys;
    gd_tensor *const *grads; /* may be NULL, and so may the loss */
    gd_tensor *loss;
    int count;
} gd_call_args;

bool gd__is_transform(const gd_link *link);
const char *gd__target_of(const gd_link *link);

/* Entries of tensors are owned; apply replaces them, update does not. */
gd_status gd__call_update(const gd_call_args *c, gd_tensor **tensors);
gd_status gd__call_apply(const gd_call_args *c, gd_tensor **tensors);
gd_status gd__call_both(const gd_call_args *c, gd_tensor **tensors);
/* A whole link or chain on tensors, with everything else as in a call (c->link does not matter). */
gd_status gd__transform_with(gd_link *link, gd_tensor **tensors, const gd_call_args *c);
/* The same where the parameters are some of the var's: a step of its own for these. */
gd_status gd__transform_part(gd_link *link, gd_tensor **tensors, const gd_call_args *c);

#endif
