/* Rows over processes: each keeps a part of what is learnt from and, every epoch, has the rows of its own microbatches brought.
 *
 *     x            rank 0: [----]  rank 1: [----]  rank 2: [---]     the parts; a row goes where it is wanted, once
 *     order        8 3 5 | 0 7 2 | 1 4 6                             the same everywhere: a function of seed and epoch
 *     taken        those of the microbatches of this rank, in their order: a microbatch is a slice
 *
 * What is to be predicted is whole everywhere: it is the small part of a row. */
#ifndef GD_TRAIN_ROW_PARTS_H
#define GD_TRAIN_ROW_PARTS_H

#include "train/run/trainer.h"

/* Lets go of the rows that other ranks keep, of those to learn from and those to validate with. */
GD_NODISCARD gd_status gd__part_keep(gd_trainer *t);
/* The rows of this rank's microbatches, once the order of an epoch is known. */
GD_NODISCARD gd_status gd__part_take(gd_trainer *t, int64_t rows);
/* Rows order[at .. at + count), which are of one microbatch of this rank.  New. */
gd_tensor *gd__part_rows(gd_trainer *t, int64_t at, int64_t count);
void gd__part_free(gd_trainer *t);

#endif
