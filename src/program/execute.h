/* Executing programs: a program over a table of tensors, and sets of such tables with common reductions.
 *
 *   set --> table: a program and the tensors it runs over, its members, all on one device
 *             |--> passes:  a kernel each, or the interpreter
 *             |--> chunks:  fixed pieces of members; tasks: runs of chunks large enough for a thread
 *
 * The owner of a set defines its arrays and uniform inputs: it fills `pointer` and `input`, runs the set, and reads
 * `stored`.  This file does not know their origin.  Reductions are joined chunk by chunk, then member by member, in a fixed
 * order, so results do not depend on the number of threads.
 *
 * Belongs here: passes, chunks, threads, joining, tables on a device.  Does not: links, settings, state, plans. */
#ifndef GD_PROGRAM_EXECUTE_H
#define GD_PROGRAM_EXECUTE_H

#include "program/program.h"
#include "tensor/device.h"

typedef struct gd_chunk {
    int64_t start, n;
    int member;
    int64_t row, rows, column; /* of a tile, whose n is its width: see execute_axes.c */
} gd_chunk;

typedef struct gd_work {
    gd_chunk *chunk;
    int64_t *task; /* first chunk of each task, one more at the end */
    int64_t chunks, tasks;
} gd_work;

typedef struct gd_device_table gd_device_table; /* see execute_device.c */
typedef struct gd_device_start gd_device_start;

/* Launches of a run, collected to be started together. */
typedef struct gd_launches {
    gd_device_start *start;
    int count, room;
} gd_launches;

/* Members whose other elements are run by other processes. */
typedef struct gd_exec_share {
    /* Joins numbers of all processes; each has those of its own elements, and 0 elsewhere. */
    gd_status (*join)(void *user, double *numbers, int64_t count);
    void *user;
} gd_exec_share;

typedef struct gd_exec {
    gd_program *p; /* owned */
    gd_device *device;
    int members;
    int64_t *numel; /* [members] */
    int64_t *size;  /* [members, axes of the program] */
    int passes;
    gd_pass *pass;
    gd_kernel_fn *kernel; /* NULL: interpret */
    gd_executor *how;
    gd_work last, reduce;
    gd_work *own;    /* [passes] of passes over a space other than elements, or along axes */
    char **pointer;  /* [members, arrays] filled by the owner */
    double *input;   /* [members, uniforms] the same */
    double *reduced; /* [members, reductions] */
    double *scalar;  /* [members, scalar_room] */
    double *stored;  /* [members, uniforms] kept scalars computed by the program, after a run */
    double *value;   /* [instructions] */
    gd_uniform_list needed;
    bool alike;        /* all members have the same inputs, and `value` has the constant ones */
    bool reduces_each; /* there are reductions of members, not only over all */
    double *partial;   /* [chunks, reductions of a pass] */
    char *buffer;      /* [threads, buffer_bytes] values of a chunk that are not in memory */
    int scalar_room;
    bool stores_scalars;
    int64_t partial_room;
    size_t buffer_bytes;
    double *along;     /* partial results of a pass that reduces along axes, ... */
    int64_t *along_at; /* [sums, members] ... where they begin */
    double *joined;    /* results before they are rounded */
    char *scratch;     /* values passed between passes */
    size_t scratch_bytes, along_places;
    int64_t along_room, joined_room;
    gd_device_table *on_device; /* NULL on the CPU and before the first run */
    const gd_exec_share
        *share; /* NULL: this process runs all elements; else, the owner's, of each member ... */
    int64_t *own_from, *own_to; /* [members] ... these, whole chunks; owned */
    /* while the last pass runs part by part: its tasks that have run, up to which member they are requested, the stride of scalars
     * between members */
    int64_t walked;
    int wanted, stride;
} gd_exec;

typedef struct gd_exec_set {
    gd_ctx *ctx;
    gd_exec *table;
    int tables, levels;
    int count;                 /* members of all tables, in an order of the owner's: */
    int *table_of, *member_of; /* [count] where each is; reductions over all go in this order */
    gd_device *device;         /* all tables are on this one, which is not the CPU; NULL: they are not */
    gd_launches launches;
    void *graph; /* the device's record of the launches, for replays */
} gd_exec_set;

/* ---- making ---- */

/* The passes of a table that has its program and device, and kernels for them unless they are to be interpreted. */
gd_status gd__exec_passes(gd_exec *x, bool interpret);
/* Prepares a run over members of these sizes: chunks and memory.  numel, and size (of the program's axes, a row per member;
 * NULL where it has none), become the table's, also on failure. */
gd_status gd__exec_members(gd_exec *x, int members, int64_t *numel, int64_t *size);
void gd__exec_free(gd_exec *x);
/* Does this process run something of a member? */
static inline bool gd__exec_runs(const gd_exec *x, int member)
{
    return !x->share || x->own_from[member] < x->own_to[member];
}
/* Is a chunk run by a different process?  Passes along axes have no shards of elements: their members are run whole or not at all. */
static inline bool gd__exec_is_elsewhere(const gd_exec *x, const gd_chunk *chunk)
{
    if (!x->share) return false;
    int64_t from = x->own_from[chunk->member], to = x->own_to[chunk->member];
    return x->p->axes ? from >= to : chunk->start < from || chunk->start >= to;
}
/* The members cut into chunks of `size` elements of a space, small ones collected into tasks.  Also after a failure: free. */
gd_status gd__work_make(const gd_exec *x, int64_t size, uint16_t along, gd_work *w);
void gd__work_free(gd_ctx *ctx, gd_work *w);
const gd_work *gd__work_of(const gd_exec *x, int pass);
/* Before the passes of any table are made: programs that reduce over all members do so at the same level. */
void gd__execs_align(gd_exec_set *set);
/* Call after making all tables of a set: NOT_IMPLEMENTED if a reduction over all members involves tables that reduce
 * differently. */
gd_status gd__execs_join(gd_exec_set *set);
/* Frees the tables and memory on devices; the arrays of the set are the owner's. */
void gd__execs_free(gd_exec_set *set);

/* ---- running ---- */

typedef struct gd_exec_run {
    bool replay;     /* run the launches of a device as one graph, where it can */
    bool replayed;   /* out: it did */
    bool not_finite; /* out: a reduction over some elements was not finite (checked on the CPU only) */
    /* If other processes run other elements: called, while the last pass still runs, when the first `members` of the set have their
     * results; at the end, for all. From the first call on, processes communicate only through it. NULL: none. */
    void (*ready)(void *user, int members);
    void *user;
} gd_exec_run;

/* Call after changing pointers, or inputs except those that change in every run and are equal for all members: sends them to the
 * devices, and computes values that depend on inputs only. */
gd_status gd__exec_send(gd_exec *x, bool inputs);
/* Every pass of every table, reductions joined in between. */
gd_status gd__execs_run(gd_exec_set *set, gd_exec_run *run);
bool gd__exec_by_host(const gd_exec *x); /* on the CPU, or on a device that cannot run programs itself */
/* After a run: `stored` has the scalars that the program keeps, also from a device. */
gd_status gd__exec_fetch_stored(gd_exec *x);

/* ---- along axes ---- */

#define GD_PIECE 1024 /* elements per call of a kernel: their values stay in the L1 cache */

/* Memory between passes, and freeing it. */
gd_status gd__axes_rooms(gd_exec *x);
void gd__axes_free(gd_exec *x);
/* Offsets from `scratch` of values for later passes. */
void gd__scratch_place(gd_exec *x, char *scratch);
/* The tiles of a pass that reduces along axes. */
gd_status gd__tiles_make(const gd_exec *x, const gd_pass *pass, gd_work *w);
/* Those of a device as its kernels read them; with the places of partial results (gd_along_place) of its sum s. */
struct gd_table_tile;
struct gd_along_place;
void gd__tiles_table(const gd_exec *x, const gd_pass *pass, const gd_work *w, struct gd_table_tile *tile);
void gd__along_places(const gd_exec *x, const gd_pass *pass, int s, const int64_t *at,
                      struct gd_along_place *place);
/* Bytes that a thread needs for a pass. */
size_t gd__buffer_bytes(const gd_pass *pass);
/* Starts of the partial results of a pass (at NULL: only their number). */
int64_t gd__partials_place(const gd_exec *x, const gd_pass *pass, int64_t *at);
/* Computes into a buffer the inputs of n elements from `start` that are not in memory, at most 4096 elements; array gets their
 * address.  Returns the rest of the buffer. */
char *gd__make_inputs(const gd_exec *x, const gd_pass *pass, int member, int64_t start, int64_t n,
                      const double *scalar, char *buffer, char **array);
/* Runs the kernel of a tile piece by piece with run, which writes the operand of sum k to operand[k], and adds up. */
typedef void (*gd_chunk_fn)(const void *user, const gd_chunk *piece, char *buffer, char *const *operand);
void gd__run_tile(const gd_exec *x, const gd_pass *pass, const gd_chunk *tile, char *buffer, gd_chunk_fn run,
                  const void *user);
/* Joins the partial results of a pass into the arrays of its sums; false when one is not finite. */
bool gd__join_along(gd_exec *x, const gd_pass *pass);

/* ---- tables on a device ---- */

void gd__device_table_free(gd_exec *x);
gd_status gd__device_send(gd_exec *x); /* pointers and inputs */
/* These start kernels; with a list they are only noted there, for gd__launch_all. */
gd_status gd__device_pass(gd_exec *x, int pass, gd_launches *list);
/* Joins the chunks of each member, and what a pass made along axes. */
gd_status gd__device_join(gd_exec *x, int pass, gd_launches *list);
/* Joins the members of all tables, which are on one device, in reduction r of each. */
gd_status gd__device_join_all(gd_exec *table, int tables, int r, gd_launches *list);
/* Starts what was noted; with a graph, as one. */
gd_status gd__launch_all(gd_device *device, gd_launches *list, void **graph);
void gd__launches_free(gd_ctx *ctx, gd_launches *list);
gd_status gd__device_fetch_reduced(gd_exec *x);
gd_status gd__device_send_reduced(gd_exec *x);
/* Partial sums of a pass whose chunks are distributed over processes. */
gd_status gd__device_fetch_partials(gd_exec *x, int pass);
gd_status gd__device_send_partials(gd_exec *x, int pass);

#endif
