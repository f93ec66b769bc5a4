/* From rules to programs: which links, for which parameter, and the use of the value at their end.
 *
 * Belongs here: writing programs.  Does not: running them (plan/). */
#ifndef GD_OPTIM_RULE_BUILD_H
#define GD_OPTIM_RULE_BUILD_H

#include "optim/link/owner.h"
#include "program/program.h"

/* How a pending link is applied. */
typedef enum gd_mode { GD_MODE_STEP, GD_MODE_UPDATE, GD_MODE_APPLY } gd_mode;

typedef struct gd_pending {
    gd_link *link; /* borrowed */
    gd_mode mode;
} gd_pending;

#define GD_MAX_PENDING 64

/* The use of the value at the end of the pending rules. */
typedef enum gd_sink {
    GD_SINK_UPDATE, /* becomes var->update */
    GD_SINK_PARAMS, /* is subtracted from the parameters */
    GD_SINK_NOTHING /* only state changes count */
} gd_sink;

/* Builds the program of some links for one parameter (its structural settings count). */
typedef struct gd_build {
    gd_ctx *ctx;
    gd_optimizer *optimizer;
    const gd_pending *pending;
    int pendings;
    gd_tensor *param, *key;
    gd_dtype input_dtype, grad_dtype;
    int holes; /* available results of children */
    bool input_is_grad;
    bool has_grad, has_loss; /* available to the program, although no rule was known to read them */
    gd_sink sink;
    bool parted;    /* out: it depends on the parameter itself, a link chose a chain for it */
    bool shaped;    /* out: the program depends on the shape of the parameter */
    gd_link *child; /* out: the program makes the input of this child, which is not a rule */
} gd_build;
gd_program *gd__build(gd_build *build); /* new; NULL on failure */

/* Inputs of rules besides the update. */
typedef struct gd_needs {
    bool grad, loss;
} gd_needs;
static inline gd_needs gd__rules_need(const gd_pending *pending, int pendings)
{
    gd_needs n = {0};
    for (int i = 0; i < pendings; i++) {
        const gd_link *link = gd__facts_of(pending[i].link);
        n.grad |= link->found.needs_grad;
        n.loss |= link->found.needs_loss;
    }
    return n;
}
/* After a failed run: true if the rules read more inputs than was known. Then *had names them, the error is cleared, and the
 * caller runs again with them. */
bool gd__rules_need_more(gd_ctx *ctx, const gd_pending *pending, int pendings, gd_needs *had);

#endif
