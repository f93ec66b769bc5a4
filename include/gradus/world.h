/* gradus/world.h: several processes, or threads with a context each, that compute one thing together.
 *
 *     static gd_status work(gd_world *world, void *user)
 *     {
 *         (void)user;
 *         gd_tensor *x = gd_full(gd_world_ctx(world), GD_F32, 1, (int64_t[]){3}, gd_world_rank(world));
 *         gd_status status = gd_world_all_reduce(world, x, GD_REDUCE_EXACT);
 *         gd_release(x);
 *         return status;
 *     }
 *     gd_status status = gd_world_run(ctx, "threads:4", NULL, work, NULL);
 *
 * Every rank calls the same collectives in the same order, with tensors of the same shape and dtype.  If ranks disagree, the
 * collective returns an error that names them on all ranks; no tensor is changed, and the world stays usable.  The world fails if a
 * collective waits longer than the timeout (the error names the missing ranks), if a rank leaves while others wait for it, or if the
 * transport reports an error (IO on that rank, its rank and text on the others).  Tensors of pending collectives are then undefined.
 * A world, like its context, is for one thread.
 *
 * A failed world of threads returns an error (STATE).  A failed world of processes cannot continue: the plugin writes the message
 * to standard error and ends the process, and the launcher ends the others. */
#ifndef GRADUS_WORLD_H
#define GRADUS_WORLD_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_world gd_world;               /* the processes or threads that compute together */
typedef struct gd_exchange gd_exchange;         /* a pending collective */
typedef struct gd_microbatches gd_microbatches; /* a sum over the pieces of a batch */

/* Start from gd_world_defaults(). */
typedef struct gd_world_options {
    double timeout; /* seconds that a collective waits for other ranks (300) */
} gd_world_options;

gd_world_options gd_world_defaults(void); /* the same as NULL options */

/* Joins the world of a name; NULL options are the defaults.  "self" is this process alone.  Others, such as "mpi", are
 * plugins: DEVICE if the plugin is missing.  "threads:4" is entered by gd_world_run only: STATE.  "mpi" is opened by all
 * processes: any number of times by a program that has called MPI_Init_thread (STATE after MPI_Init), otherwise once, because MPI ends
 * with the world and cannot restart (STATE).  New; free it with gd_world_free before the context. */
gd_world *gd_world_open(gd_ctx *ctx, const char *name, const gd_world_options *options);

/* Leaves the world.  Pending collectives and their handles are dropped.  NULL is fine; a world of
 * gd_world_run is not freed until the function returns. */
void gd_world_free(gd_world *world);

/* The work of one rank. */
typedef gd_status (*gd_world_fn)(gd_world *world, void *user);

/* Calls fn once per rank of this process: with "threads:4" on four new threads, each with a new context (gd_world_ctx) with
 * the allocator of ctx; with other worlds once, with ctx.  Returns when all have returned.  The error of the lowest rank that
 * failed is recorded in ctx, prefixed with its rank. */
GD_NODISCARD gd_status gd_world_run(gd_ctx *ctx, const char *name, const gd_world_options *options,
                                    gd_world_fn fn, void *user);

gd_ctx *gd_world_ctx(const gd_world *world);       /* borrowed */
const char *gd_world_name(const gd_world *world);  /* "threads:4"; borrowed */
const char *gd_world_about(const gd_world *world); /* its transport, as text; borrowed */
int gd_world_rank(const gd_world *world);          /* 0 ... size - 1; -1 for NULL */
int gd_world_size(const gd_world *world);          /* number of ranks; 0 for NULL */

/* The names of worlds of plugins, 0, 1, ...; NULL after the last.  Borrowed, static. */
const char *gd_world_known(int index);
/* True if the world can be opened here.  Writes a description, or why it is not available.  Joins nothing. */
bool gd_world_describe(gd_ctx *ctx, const char *name, char *text, size_t size);

/* The consecutive items of `total` that belong to this rank: the same number for each, one more for the first ranks if it does
 * not divide evenly. */
void gd_world_share(const gd_world *world, int64_t total, int64_t *first, int64_t *count);

/* ---- collectives ---- */

/* The order of sums over ranks. */
typedef enum gd_reduce {
    GD_REDUCE_EXACT, /* one binary tree over the ranks: the same bits for every transport */
    GD_REDUCE_FAST   /* the fastest way of the transport, without equal bits */
} gd_reduce;

/* Each rank's tensor becomes the sum of all: f32, f64, f16 and bf16 (summed in f32, rounded once), i32, i64; others are DTYPE.
 * Tensors on a device are staged through the host, except in worlds with device memory ("self", "nccl").  MISMATCH: exact sums
 * between processes with different instruction sets or C libraries. */
GD_NODISCARD gd_status gd_world_all_reduce(gd_world *world, gd_tensor *tensor, gd_reduce how);
/* `out`, with 1/size of the elements of `tensor`, becomes this rank's shard of the sum of all `tensor`s, exact. */
GD_NODISCARD gd_status gd_world_reduce_scatter(gd_world *world, gd_tensor *tensor, gd_tensor *out);
/* `out`, with size times the elements of `tensor` and its dtype, becomes the `tensor`s of all ranks one after the other. */
GD_NODISCARD gd_status gd_world_all_gather(gd_world *world, gd_tensor *tensor, gd_tensor *out);
/* Elements cuts[r] ... cuts[r + 1] - 1 of `tensor` go to rank r, and out_cuts[r] ... out_cuts[r + 1] - 1 of `out` come from it: size
 * + 1 numbers each, from 0 to the last element.  Nothing else is sent.  MISMATCH if a rank expects more or less than it gets. */
GD_NODISCARD gd_status gd_world_all_to_all(gd_world *world, gd_tensor *tensor, const int64_t *cuts,
                                           gd_tensor *out, const int64_t *out_cuts);
/* The tensor of the rank `root` goes to all. */
GD_NODISCARD gd_status gd_world_broadcast(gd_world *world, gd_tensor *tensor, int root);
/* Returns when all ranks have called it. */
GD_NODISCARD gd_status gd_world_barrier(gd_world *world);
/* A barrier that also passes the status of each rank.  If a rank failed, all get the error of the lowest such rank, whose text
 * names it; a rank that failed itself keeps its own error.  A failure that all ranks have from the collective before is not
 * reported again.  Ranks that are in a different collective, or have started several, get this error for all of them, and cannot
 * start a new one before gd_world_wait has returned it for the first. */
GD_NODISCARD gd_status gd_world_agree(gd_world *world, gd_status status);

/* The kinds of collectives. */
typedef enum gd_collective_kind {
    GD_BARRIER,
    GD_BROADCAST,
    GD_ALL_GATHER,
    GD_REDUCE_SCATTER,
    GD_ALL_REDUCE,
    GD_ALL_TO_ALL
} gd_collective_kind;

/* The arguments of a collective. */
typedef struct gd_collective {
    gd_collective_kind kind;
    gd_tensor *tensor;
    gd_tensor *out; /* of all_gather, reduce_scatter and all_to_all */
    const int64_t *
        cuts; /* of these: elements cuts[r] ... cuts[r + 1] - 1 of the whole are rank r's, size + 1 numbers, borrowed
                            until gd_world_wait; NULL: equal parts.  For an all_gather without a tensor, this rank's
                            shard is already in `out` */
    const int64_t *out_cuts; /* of all_to_all, as cuts: the elements of `out` from each rank */
    gd_microbatches *
        microbatches; /* all_reduce: the sum over these goes into `tensor`; reduce_scatter with cuts and without a tensor: each
                        * rank's shard of it into `out`.  NULL: over the ranks' tensors */
    gd_reduce how;
    int root;         /* of a broadcast */
    gd_status failed; /* this rank could not compute its input: all get its error, nothing is changed */
    const char *name; /* of the data, for messages, or NULL; ranks must agree; borrowed for the call */
} gd_collective;

/* Starts a collective and returns at once; data is transferred inside calls for this world.  Its tensors must be
 * neither read nor changed before gd_world_wait; it holds references to them.  New; gd_world_wait frees it. */
gd_exchange *gd_world_start(gd_world *world, const gd_collective *what);
/* Waits for it.  Consumed. */
GD_NODISCARD gd_status gd_world_wait(gd_exchange *work);

/* ---- sums over a batch that do not depend on the number of processes ----
 * A batch is cut into `total` microbatches of a fixed number of rows; this rank computes those of gd_world_share, in order.
 * Their values are added in one binary tree over the numbers of the microbatches, in f32 (f64 for f64) and rounded once, so that
 * equal microbatches give equal bits for any number of processes:
 *
 *     gd_world *world = gd_world_open(ctx, "mpi", NULL);
 *     gd_microbatches *sum = gd_microbatches_new(world, x, 8);
 *     int64_t first, count;
 *     gd_status status = GD_OK;
 *     gd_world_share(world, 8, &first, &count);
 *     for (int64_t g = first; g < first + count && !status; g++) status = gd_microbatches_add(sum, loss(&g));
 *     if (!status) status = gd_microbatches_sum(sum, x);           it is empty again, for the next batch */

/* A sum of values with the shape and dtype of `like`.  New; free it with gd_microbatches_free, before the world. */
gd_microbatches *gd_microbatches_new(gd_world *world, const gd_tensor *like, int64_t total);
void gd_microbatches_free(gd_microbatches *microbatches);
/* Adds the value of the next microbatch of this rank, which is copied.  STATE if all were added. */
GD_NODISCARD gd_status gd_microbatches_add(gd_microbatches *microbatches, gd_tensor *value);
/* The sum over all microbatches of all ranks, in every rank's `out`. */
GD_NODISCARD gd_status gd_microbatches_sum(gd_microbatches *microbatches, gd_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
