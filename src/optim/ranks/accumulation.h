/* Gradients by microbatches of a batch of which each rank keeps what it owns (GD_SHARD_GRADIENTS).
 *
 *     microbatch 0   backward   d c b a     each is added to this rank's subtrees and forgotten
 *     microbatch 1   backward   d c b a
 *     all ranks know the loss, and that none has failed
 *     microbatch 2   backward   d c | b a   complete ones are sent, from the last parameter to the first: see scatter.c
 *                          under way
 *
 * With one microbatch a rank never has more of the gradients than its shards, a few buckets and what the backward pass has just made;
 * with several, it has the sum over its microbatches until the last one. */
#ifndef GD_OPTIM_RANKS_ACCUMULATION_H
#define GD_OPTIM_RANKS_ACCUMULATION_H

#include "optim/link/owner.h"

typedef struct gd_accumulation gd_accumulation;

/* For the gradients of these by `total` microbatches of a batch; both are borrowed.  NULL: no memory. */
gd_accumulation *gd__accumulation_new(gd_optimizer *optimizer, gd_tensor *const *params, int count,
                                      int64_t total);
void gd__accumulation_free(gd_accumulation *accumulation);
/* Gradients of the next microbatch of this rank, of a seeded loss.  After gd__accumulation_leave, with the last microbatch, they are sent. */
GD_NODISCARD gd_status gd__accumulation_microbatch(gd_accumulation *accumulation, gd_tensor *loss,
                                                   gd_tensor *seed);
void gd__accumulation_leave(gd_accumulation *accumulation);
/* After gd__accumulation_leave.  failed: they could not be computed, and all ranks get that error.  *list is borrowed, until the next step. */
GD_NODISCARD gd_status gd__accumulation_end(gd_accumulation *accumulation, gd_status failed,
                                            gd_tensor *const **list);

#endif
