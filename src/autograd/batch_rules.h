/* Derivatives for many rows at once: one function per operator or family, placed by the last column of ops.def.
 *
 * A rule takes a part of the matrix of derivatives by the result of a node and makes of it the part by operand k, in place
 * (part.h).  NOT_IMPLEMENTED, without an error: not in this form; then it is called again with the whole matrix. */
#ifndef GD_AUTOGRAD_BATCH_RULES_H
#define GD_AUTOGRAD_BATCH_RULES_H

#include "autograd/part.h"

typedef struct gd_batch_step {
    const gd_node *node;
    const gd_tensor *result; /* of the node: its shape */
    int k;                   /* the operand */
    int64_t rows, limit;     /* of the matrix; entries of a part that are no burden, 0: any number */
} gd_batch_step;

typedef gd_status gd_batch_fn(const gd_batch_step *s, gd_part *p);
extern gd_batch_fn *const gd__batch_rules[]; /* by operator; NULL: row by row */

/* Entries that a part for a tensor of numel elements may have: memory of the forward pass and of the result is needed anyway. */
static inline int64_t gd__batch_most(int64_t limit, int64_t numel)
{
    return !limit ? INT64_MAX : numel > limit / 4 ? 4 * numel : limit;
}

#define OP(name, nin, nout, kind, needs, takes, batch, reads) gd_batch_fn gd__batch_##batch;
#define OP0(name, ...)
#include "tensor/ops.def"

#endif
