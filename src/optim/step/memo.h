/* Evaluations with a gradient that may be asked for again, for objectives that are functions of the parameters alone. */
#ifndef GD_OPTIM_STEP_MEMO_H
#define GD_OPTIM_STEP_MEMO_H

#include "optim/step/optimizer.h"

typedef struct gd_memo gd_memo;

/* For that many parameters.  New; NULL on no memory. */
gd_memo *gd__memo_new(gd_ctx *ctx, int count);
void gd__memo_free(gd_memo *memo); /* NULL is fine */
/* Loss and gradients (NULL: not wanted) if they are known for the parameters as they are: references of the caller's. */
bool gd__memo_find(gd_memo *memo, const gd_var *var, gd_tensor **loss, gd_tensor **grads);
/* Remembers an evaluation at the parameters as they are, beside that of the point where the step began.  Does nothing on
 * other devices than the CPU. */
GD_NODISCARD gd_status gd__memo_keep(gd_memo *memo, const gd_var *var, gd_tensor *loss,
                                     gd_tensor *const *grads);
bool gd__memo_has(const gd_memo *memo, const gd_var *var);
/* A value is wanted at a new point: should its gradient be computed too?  Yes for the first trial of a step, while first
 * trials are accepted: the next step begins there, with that gradient. */
bool gd__memo_ahead(gd_memo *memo, const gd_var *var);
/* Will the step after this one begin with an evaluation that can be remembered?  It will if this one did, and no step has
 * asked for a graph: those are made anew each time (gd__memo_note_graph). */
bool gd__memo_serves(const gd_memo *memo, int64_t step);
void gd__memo_note_graph(gd_memo *memo);

#endif
