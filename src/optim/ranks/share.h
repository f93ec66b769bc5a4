/* Steps that several processes make together: who owns which elements, and what travels.
 *
 *   parameter   |--- rank 0 ---|--- rank 1 ---|- rank 2 -|     cut at multiples of GD_SHARE_BLOCK, or whole tensors
 *
 * A plan runs the chunks that this rank owns; state of them is a tensor of that shard alone.  Partial sums of chunks are
 * brought together before they are joined (gd__share_join), results after a run (gd__share_gather).  Links, their state and lists of
 * tensors ask through one table (optim/other_ranks.h); step, methods and state, which stand above this room, call it.
 *
 * Belongs here: ownership, buckets, telling others of errors.  Does not: which gradients are summed when (step/distribute.c). */
#ifndef GD_OPTIM_RANKS_SHARE_H
#define GD_OPTIM_RANKS_SHARE_H

#include "optim/link/owner.h"
#include "optim/vector/layout.h"
#include "program/execute.h"
#include "world/world_internal.h"

#define GD_SHARE_BLOCK GD_SPAN /* elements: chunks of every kind of pass end where it does */

#define GD_ABOUT      104
#define GD_SHARE_NAME (GD_ABOUT + 16)

typedef struct gd_scatter gd_scatter; /* scatter.c */

struct gd_share {
    gd_world *world; /* borrowed */
    gd_distribute_options options;
    gd_exec_share exec;
    uint64_t structure; /* of the optimizer, when it was seen who owns what */
    int number;         /* among the optimizers of the world */
    uint32_t chain;     /* a number made of its text */
    char settings[40];  /* those of groups, or their beginning and a number for the rest */
    uint64_t printed;   /* `numbers` of the optimizer, when that was so */
    char about
        [GD_ABOUT]; /* which step this is: part of the names of its collectives, so ranks at a different step get an error */
    bool told;        /* all ranks know the error of this step */
    bool together;    /* all ranks make this call, so shards may be gathered */
    bool accumulated; /* the step has shards of gradients of a batch */
    gd_scatter
        *scatter;     /* sums of gradients of which each rank gets what it owns; NULL: nothing is sharded */
    gd_tensor **kept; /* while a step has shards of gradients that are whole; owned */
    int kepts;
};

/* Do other ranks keep parts of the state? */
static inline bool gd__shares_state(const gd_optimizer *o)
{
    return o && o->shared.share && o->shared.share->options.shard != GD_SHARD_NONE &&
           gd_world_size(o->shared.share->world) > 1;
}
/* Do gradients go to their owners in the backward pass, so that no rank has them whole? */
static inline bool gd__shards_gradients(const gd_optimizer *o)
{
    return gd__shares_state(o) && o->shared.share->options.shard == GD_SHARD_GRADIENTS;
}
/* A collective of a step. */
gd_status gd__share_call(gd_share *share, const gd_collective *what);
/* Reports a failed step to the other ranks, which wait in a collective or enter one.  Returns the given status. */
gd_status gd__share_tell(gd_optimizer *optimizer, gd_status status);
/* "gradients of optimizer 1, step 7, ..." (share->about), for a collective: ranks that are at another step, one having failed alone, or
 * use a different one, get an error. */
const char *gd__share_name(const gd_optimizer *optimizer, const char *what, char name[GD_SHARE_NAME]);
/* Adds up tensors of all ranks, each in its place; small ones together. */
gd_status gd__share_sum(gd_optimizer *optimizer, gd_tensor *const *list, int count);
/* The table of this room, for links, their state and lists (optim/other_ranks.h). */
extern const gd_ranks gd__other_ranks;
gd_status gd__share_join(gd_optimizer *optimizer, double *numbers, int64_t count);
/* The same for gd_exec_share.join; user is the share. */
gd_status gd__share_join_partial(void *user, double *numbers, int64_t count);
/* Every rank gets the shards that others own of tensors like the parameters `keys`, in their order in memory. */
gd_status gd__share_gather(gd_optimizer *optimizer, gd_tensor *const *keys, gd_tensor *const *list,
                           int count);
/* Runs a set whose results those are, in the order of its members: what is there of them is gathered while the rest is made.  Where
 * that fails, and parameters are not as before, the optimizer is partially_updated. */
gd_status gd__share_run(gd_optimizer *optimizer, gd_tensor *const *keys, gd_tensor *const *list, int count,
                        gd_exec_set *set, gd_exec_run *run);
/* Brings the shards of a slot together, for gd_ranks.slot_whole: STATE where this rank may be alone in it. */
gd_status gd__share_make_whole(gd_link *link, gd_entry *entry, int slot);
/* All of a slot that is sharded, with every rank: *whole is new. */
gd_status gd__share_whole(gd_optimizer *optimizer, const gd_entry *entry, int slot, gd_tensor **whole);
/* The same for all state that is sharded. */
gd_status gd__share_make_all_whole(gd_optimizer *optimizer);

/* Memory of a device as a tensor for collectives; of the innermost scope. */
gd_tensor *gd__share_memory(gd_device *device, gd_dtype dtype, void *data, int64_t count);

typedef struct gd_place {
    gd_device *device;
    char *data;
} gd_place;

/* Where elements of a tensor begin, in the order of memory. */
gd_place gd__share_place(const gd_tensor *t, int64_t first);
/* Copies elements from one device, or the same, to another. */
gd_status gd__share_move(gd_place to, gd_place from, gd_dtype dtype, int64_t count);

/* ---- scatter.c: gradients of which every rank keeps what it owns ---- */

/* If gradients are sharded, backward passes call it from now until gd__scatter_free.  NULL: no memory. */
gd_scatter *gd__scatter_new(gd_optimizer *optimizer);
void gd__scatter_free(gd_optimizer *optimizer);
/* Waits for those of a step: list[i] is borrowed, this rank's shard of the gradient of params[i]. */
gd_status gd__scatter_take(gd_optimizer *optimizer, gd_tensor *const *params, int count,
                           gd_tensor *const **list);
/* The same for gradients that are given.  stay: this rank's shard of the sum replaces that of the gradient, which is there until
 * gd__scatter_forget. */
gd_status gd__scatter_sums(gd_optimizer *optimizer, gd_tensor *const *params, gd_tensor *const *grads,
                           int count, bool stay, gd_tensor *const **list);
/* A gradient as partial sums are: of their dtype, lying as its parameter, and except for `shared` nobody else's.  Consumed; owned, NULL
 * with the error recorded. */
gd_tensor *gd__partial_of(gd_tensor *grad, const gd_tensor *param, bool shared);
/* By microbatches of a batch.  Are no gradients of backward passes waiting for a step? */
bool gd__scatter_is_free(const gd_optimizer *optimizer);
/* Begins: of each of these a rank gives the sums over its `sums` subtrees of `total` microbatches. */
void gd__scatter_batch(gd_optimizer *optimizer, gd_tensor *const *params, int count, int64_t total, int sums);
/* All ranks give all of them, in one order: those of a parameter, lying as it does and of the dtype of partial sums.  The list is
 * borrowed until gd__scatter_end, its tensors are consumed; NULL: this rank has failed, and all hear of it at the end. */
void gd__scatter_give(gd_optimizer *optimizer, const gd_tensor *param, gd_tensor **sum);
/* Waits for them, as gd__scatter_take. */
gd_status gd__scatter_end(gd_optimizer *optimizer, gd_tensor *const *params, int count,
                          gd_tensor *const **list);
/* Drops the shards, after use or unused. */
void gd__scatter_forget(gd_optimizer *optimizer);
/* Whole gradients from shards: an owned list.  NULL with the error recorded. */
gd_tensor **gd__scatter_whole(gd_optimizer *optimizer, gd_tensor *const *params, gd_tensor *const *shards,
                              int count);

/* ---- owners.c ---- */

/* Says who owns what of parameters that are new. */
gd_status gd__share_own(gd_optimizer *optimizer);
/* The elements of a parameter that this rank owns; false: the tensor is not a parameter, or has no owners. */
bool gd__share_of(const gd_optimizer *optimizer, const gd_tensor *param, int64_t *from, int64_t *to);
/* The rank that owns all of a parameter; -1: there is none. */
int gd__share_owner(const gd_optimizer *optimizer, const gd_tensor *param);
/* This rank's shards of tensors with the strides of the parameters `keys`: whole tensors, parts, or tensors without elements.
 * fill: their numbers, not only room.  An owned list; NULL with the error recorded. */
gd_tensor **gd__share_list(gd_optimizer *optimizer, gd_tensor *const *keys, gd_tensor *const *whole,
                           int count, bool fill);
/* Lists of tensors like these parameters have what this rank owns of them, until the end (gd_ctx.own_lists). */
gd_status gd__own_lists_begin(gd_own_lists *own, gd_optimizer *optimizer, gd_tensor *const *keys, int count);
void gd__own_lists_end(gd_own_lists *own, gd_optimizer *optimizer);
/* A slot of a rule whose rank owns elements [from, to) of its parameter: made, or cut out of the whole. */
gd_status gd__share_slot(gd_link *link, gd_entry *entry, int slot, gd_dtype dtype, const gd_tensor *param,
                         unsigned without, int64_t from, int64_t to);

/* ---- entries.c: state of links that work on whole tensors ---- */

/* From now on only the rank that owns the parameter keeps the entry: the others drop theirs. */
void gd__share_part(gd_link *link, gd_entry *entry);
/* Every rank gets it; without bytes numbers and the shapes of slots, which have no memory then. */
gd_status gd__share_entry(gd_link *link, gd_entry *entry, bool bytes);

/* ---- columns.c: matrices over all parameters, of which each rank has the columns of the elements it owns ---- */

/* Who owns the elements of a list of parameters, one after the other; new.  NULL with NOMEM recorded. */
gd_column_owners *gd__columns_new(gd_optimizer *optimizer, gd_tensor *const *params, int count);
/* This rank's columns of a whole matrix, owned. */
gd_tensor *gd__columns_of(gd_optimizer *optimizer, const gd_tensor *whole, const gd_column_owners *columns);
/* All columns, new, at every rank or at rank 0 alone (others get NULL). */
gd_status gd__columns_whole(gd_link *link, const gd_global *global, bool all, gd_tensor **whole);
/* For gd_ranks.columns_whole: STATE where this rank may be alone in it. */
gd_status gd__columns_make_whole(gd_link *link, gd_global *global);

#endif
