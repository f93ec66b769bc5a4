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
 * Every rank calls the same collectives in the same order, with tensors of the same shape and dtype.  Ranks that disagree are
 * told so, by name, at that collective: all of them get the error, no tensor is changed, and the world can be used on.  One
 * that waits longer than the time-out names who is missing, not who waits as well; then, and where a rank leaves while others wait for it or
 * what moves the bytes reports an error (IO there, its rank and text elsewhere), the world is given up and tensors of collectives under way
 * have no defined contents.  A world, like its context, belongs to one thread.
 *
 * A world of threads reports that it was given up as an error (STATE).  One of processes cannot go on without the missing:
 * the plugin writes the sentence to standard error and ends the process, and the launcher ends the others. */
#ifndef GRADUS_WORLD_H
#define GRADUS_WORLD_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_world gd_world;               /* the processes or threads that compute together */
typedef struct gd_exchange gd_exchange;         /* a collective under way */
typedef struct gd_microbatches gd_microbatches; /* a sum over the pieces of a batch */

/* Start from gd_world_defaults(). */
typedef struct gd_world_options {
    double timeout; /* seconds that a collective waits for others (300) */
} gd_world_options;

gd_world_options gd_world_defaults(void); /* what NULL options stand for */

/* Joins the world of a name; NULL options are the defaults.  "self" is this process alone.  Others, such as "mpi", come
 * from plugins: DEVICE where one is not there.  "threads:4" is entered by gd_world_run only: STATE.  "mpi" is opened by all
 * processes: by a program with an MPI of its own (MPI_Init_thread, not MPI_Init: STATE) as often as it likes, else once: MPI ends with
 * the world and does not start again: STATE.  New; end it with gd_world_free before the context. */
gd_world *gd_world_open(gd_ctx *ctx, const char *name, const gd_world_options *options);

/* Leaves the world.  Collectives that nobody has waited for are dropped, their handles with them.  NULL is fine, and so is a world
 * that gd_world_run has given: it ends when the function returns. */
void gd_world_free(gd_world *world);

/* What one rank does. */
typedef gd_status (*gd_world_fn)(gd_world *world, void *user);

/* Calls fn once for every rank that this process has: with "threads:4" on four threads of their own, each with a context
 * made for it (gd_world_ctx), whose memory comes from where ctx has its; with others once, with ctx.  Returns when all have
 * returned.  The error of the lowest rank that failed becomes that of ctx, its rank before it. */
GD_NODISCARD gd_status gd_world_run(gd_ctx *ctx, const char *name, const gd_world_options *options,
                                    gd_world_fn fn, void *user);

gd_ctx *gd_world_ctx(const gd_world *world);       /* borrowed */
const char *gd_world_name(const gd_world *world);  /* "threads:4"; borrowed */
const char *gd_world_about(const gd_world *world); /* what moves its bytes, as text; borrowed */
int gd_world_rank(const gd_world *world);          /* 0 ... size - 1; -1 for NULL */
int gd_world_size(const gd_world *world);          /* number of ranks; 0 for NULL */

/* The names of worlds that plugins bring, 0, 1, ...; NULL behind the last.  Borrowed, static. */
const char *gd_world_known(int index);
/* Could it be opened here?  Writes what it is, or why it is not there.  Joins nothing. */
bool gd_world_describe(gd_ctx *ctx, const char *name, char *text, size_t size);

/* Which of `total` things in a row are this rank's: as many for each, those that are left over for the first ranks. */
void gd_world_share(const gd_world *world, int64_t total, int64_t *first, int64_t *count);

/* ---- collectives ---- */

/* How sums over the ranks are taken. */
typedef enum gd_reduce {
    GD_REDUCE_EXACT, /* one binary tree over the ranks: the same bits whatever moves them */
    GD_REDUCE_FAST   /* whatever the transport does best: promises nothing about bits */
} gd_reduce;

/* Each rank's tensor becomes the sum of all: f32, f64, f16 and bf16 (summed in f32, rounded once), i32, i64; others are DTYPE.
 * Tensors on a device are staged through the host, but for worlds that reach it ("self", "nccl").  Exact sums are refused between
 * processes that compute with other instruction sets or C libraries: MISMATCH. */
GD_NODISCARD gd_status gd_world_all_reduce(gd_world *world, gd_tensor *tensor, gd_reduce how);
/* `out`, with 1/size of the elements of `tensor`, becomes this rank's shard of the sum of all `tensor`s, exact. */
GD_NODISCARD gd_status gd_world_reduce_scatter(gd_world *world, gd_tensor *tensor, gd_tensor *out);
/* `out`, with size times the elements of `tensor` and its dtype, becomes the `tensor`s of all ranks one after the other. */
GD_NODISCARD gd_status gd_world_all_gather(gd_world *world, gd_tensor *tensor, gd_tensor *out);
/* Elements cuts[r] ... cuts[r + 1] - 1 of `tensor` go to rank r, and out_cuts[r] ... out_cuts[r + 1] - 1 of `out` come from it: size
 * + 1 numbers each, from 0 to the last element.  Nothing else travels.  MISMATCH where a rank expects more or less than it is sent. */
GD_NODISCARD gd_status gd_world_all_to_all(gd_world *world, gd_tensor *tensor, const int64_t *cuts,
                                           gd_tensor *out, const int64_t *out_cuts);
/* The tensor of the rank `root` goes to all. */
GD_NODISCARD gd_status gd_world_broadcast(gd_world *world, gd_tensor *tensor, int root);
/* Returns when all are there. */
GD_NODISCARD gd_status gd_world_barrier(gd_world *world);
/* The same where each may have failed: brings how its own work went.  Where one of them did, all get the error of the lowest such
 * rank, which its text names; a rank that failed itself keeps its own error.  A failure that all have from the collective before
 * is not told again.  Others may be at another collective, and have started more: all of these end with that error, and nothing
 * can be started before gd_world_wait has told it of the first. */
GD_NODISCARD gd_status gd_world_agree(gd_world *world, gd_status status);

/* What ranks do together. */
typedef enum gd_collective_kind {
    GD_BARRIER,
    GD_BROADCAST,
    GD_ALL_GATHER,
    GD_REDUCE_SCATTER,
    GD_ALL_REDUCE,
    GD_ALL_TO_ALL
} gd_collective_kind;

/* A collective, to be begun or run. */
typedef struct gd_collective {
    gd_collective_kind kind;
    gd_tensor *tensor;
    gd_tensor *out; /* of all_gather, reduce_scatter and all_to_all */
    const int64_t *
        cuts; /* of these: elements cuts[r] ... cuts[r + 1] - 1 of the whole are rank r's, size + 1 numbers, borrowed
                            until gd_world_wait; NULL: as many for each.  An all_gather without a tensor then has this rank's
                            shard of `out` in its place */
    const int64_t *out_cuts; /* of all_to_all, as cuts: what of `out` comes from each rank */
    gd_microbatches *
        microbatches; /* all_reduce: the sum over these goes into `tensor`; reduce_scatter with cuts and without a tensor: each
                        * rank's shard of it into `out`.  NULL: over the ranks' tensors */
    gd_reduce how;
    int root;         /* of a broadcast */
    gd_status failed; /* what this rank brings could not be made: all get its error, nothing is changed */
    const char
        *name; /* of what it is about, or NULL: ranks must agree, messages say it; borrowed for the call */
} gd_collective;

/* Starts a collective and returns at once; bytes move inside calls for this world.  Until gd_world_wait its tensors may
 * be neither read nor changed; it holds references to them.  New; gd_world_wait ends it. */
gd_exchange *gd_world_start(gd_world *world, const gd_collective *what);
/* Waits for it.  Consumed. */
GD_NODISCARD gd_status gd_world_wait(gd_exchange *work);

/* ---- sums over a batch that do not depend on the number of processes ----
 * A batch is cut into `total` microbatches, pieces of a fixed number of rows; this rank computes those that gd_world_share gives
 * it, one after the other.  Their values are added in one binary tree over the microbatches' numbers, in f32 (f64: in f64) and
 * rounded once, so that equal microbatches give equal bits with any number of processes:
 *
 *     gd_world *world = gd_world_open(ctx, "mpi", NULL);
 *     gd_microbatches *sum = gd_microbatches_new(world, x, 8);
 *     int64_t first, count;
 *     gd_status status = GD_OK;
 *     gd_world_share(world, 8, &first, &count);
 *     for (int64_t g = first; g < first + count && !status; g++) status = gd_microbatches_add(sum, loss(&g));
 *     if (!status) status = gd_microbatches_sum(sum, x);           it is empty again, for the next batch */

/* For values of the shape and dtype of `like`.  New; end it with gd_microbatches_free, before the world. */
gd_microbatches *gd_microbatches_new(gd_world *world, const gd_tensor *like, int64_t total);
void gd_microbatches_free(gd_microbatches *microbatches);
/* The value of the next microbatch of this rank, which is copied.  STATE when all were there. */
GD_NODISCARD gd_status gd_microbatches_add(gd_microbatches *microbatches, gd_tensor *value);
/* The sum over all microbatches of all ranks, in every rank's `out`. */
GD_NODISCARD gd_status gd_microbatches_sum(gd_microbatches *microbatches, gd_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
