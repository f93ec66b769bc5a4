/* Requests of links, their state and lists of tensors to the other ranks of a distributed optimizer.
 *
 * optim/ranks fills the one table there is.  An optimizer that is alone has none (gd_optimizer.shared.call is NULL); while functions of a link run
 * over this rank's shards, gd_ctx.own_lists points to it. Nothing else in link and vector depends on other ranks. */
#ifndef GD_OPTIM_OTHER_RANKS_H
#define GD_OPTIM_OTHER_RANKS_H

#include "gradus/optim.h"

struct gd_entry;
struct gd_global;

typedef struct gd_ranks {
    /* Elements [from, to) of a parameter are this rank's; false: it is not a parameter, or has no owners. */
    bool (*owned)(const gd_optimizer *optimizer, const gd_tensor *param, int64_t *from, int64_t *to);
    /* A slot becomes this rank's shard, or whole; slot -1: all of an entry that one rank keeps. */
    gd_status (*slot_own)(gd_link *link, struct gd_entry *entry, int slot);
    gd_status (*slot_whole)(gd_link *link, struct gd_entry *entry, int slot);
    /* The same of a link-wide matrix of which each rank has some columns. */
    gd_status (*columns_whole)(gd_link *link, struct gd_global *global);
    /* Sums numbers over all ranks: each rank has those of its own elements, and 0 for the others. */
    gd_status (*join)(gd_optimizer *optimizer, double *numbers, int64_t count);
    /* Every rank gets the shards that others own of tensors like the parameters `keys`. */
    gd_status (*gather)(gd_optimizer *optimizer, gd_tensor *const *keys, gd_tensor *const *list, int count);
    /* Drops shards of gradients that are still being sent. */
    void (*forget)(gd_optimizer *optimizer);
    /* This rank has failed: reports it to the others.  Returns the given status. */
    gd_status (*agree)(gd_optimizer *optimizer, gd_status status);
} gd_ranks;

#endif
