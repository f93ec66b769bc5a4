/* Steps that several processes make together: who owns which elements, and what travels.
 *
 *   parameter   |--- rank 0 ---|--- rank 1 ---|- rank 2 -|     cut at multiples of GD_SHARE_BLOCK, or whole tensors
 *
 * A plan runs the chunks that this rank owns; state of them is a tensor of that stretch alone.  Partial sums of chunks are
 * brought together before they are joined (gd__share_join), results after a run (gd__share_gather): nobody else knows that there
 * are other ranks.
 *
 * Belongs here: ownership, buckets, telling others of errors.  Does not: which gradients are summed when (step/distribute.c). */
#ifndef GD_OPTIM_PLAN_SHARE_H
#define GD_OPTIM_PLAN_SHARE_H

#include "optim/link/owner.h"
#include "world/world.h"

#define GD_SHARE_BLOCK 16384 /* elements: chunks of every kind of pass end where it does */

struct gd_share {
    gd_world *world; /* borrowed */
    gd_distribute_options options;
    bool told; /* the error of this step is known to all ranks */
};

/* A collective of a step. */
gd_status gd__share_call(gd_share *share, const gd_collective *what);
/* A step has failed here: the others, who wait in a collective or come to one, are told.  The status it is given. */
gd_status gd__share_tell(gd_optimizer *optimizer, gd_status status);
/* Adds up tensors of all ranks, each in its place; small ones together. */
gd_status gd__share_sum(gd_optimizer *optimizer, gd_tensor *const *list, int count);

#endif
