/* Executing programs: a program over a table of tensors, and sets of such tables whose reductions meet.
 *
 *   set --> table: a program and the tensors it runs over, its members, all on one device
 *             |--> passes:  a kernel each, or the interpreter
 *             |--> chunks:  fixed pieces of members; tasks: runs of chunks worth a thread's while
 *
 * Whoever owns a set says what arrays and uniform inputs mean: it fills `pointer` and `input`, runs the set, and reads
 * `stored`.  Nothing here knows where they come from.  Reductions are joined chunk by chunk, then member by member, in a fixed
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

/* Members of which other processes run other elements. */
typedef struct gd_exec_share {
    /* Brings numbers of all processes together, each of which has those of its own elements, and 0 elsewhere. */
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
    double *stored;  /* [members, uniforms] what the program makes of scalars that are kept, after a run */
    double *value;   /* [instructions] */
    gd_uniform_list needed;
    bool alike;        /* all members have the same inputs, and `value` has what is steady of them */
    bool reduces_each; /* there are reductions of members, not only over all */
    double *partial;   /* [chunks, reductions of a pass] */
    char *buffer;      /* [threads, buffer_bytes] what a thread makes of a chunk that is not in memory */
    int scalar_room;
    bool stores_scalars;
    int64_t partial_room;
    size_t buffer_bytes;
    double *along;     /* partial results of a pass that reduces along axes, ... */
    int64_t *along_at; /* [sums, members] ... where they begin */
    double *joined;    /* results before they are rounded */
    char *scratch;     /* what passes leave for each other */
    size_t scratch_bytes, along_places;
    int64_t along_room, joined_room;
    gd_device_table *on_device; /* NULL on the CPU and before the first run */
    const gd_exec_share
        *share; /* NULL: this process runs all elements; else, the owner's, of each member ... */
    int64_t *own_from, *own_to; /* [members] ... these, whole chunks; owned */
    /* while the last pass runs part by part: its tasks that have run, up to which member they are wanted, how far the scalars
     * of members are apart */
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
    void *graph; /* what the device remembers of the launches, when they are replayed */
} gd_exec_set;

/* ---- making ---- */

/* The passes of a table that has its program and device, and kernels for them unless they are to be interpreted. */
gd_status gd__exec_passes(gd_exec *x, bool interpret);
/* Makes it fit to run over members of these sizes: chunks and room.  numel, and size (of the program's axes, a row per member;
 * NULL where it has none), become the table's, also on failure. */
gd_status gd__exec_members(gd_exec *x, int members, int64_t *numel, int64_t *size);
void gd__exec_free(gd_exec *x);
/* Does this process run something of a member? */
static inline bool gd__exec_runs(const gd_exec *x, int member)
{
    return !x->share || x->own_from[member] < x->own_to[member];
}
/* Is a chunk run by a different process?  Those along axes are no shards of elements: their members are run whole or not at all. */
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
/* To be called when all tables of a set are there: NOT_IMPLEMENTED where a reduction over all members meets tables that
 * reduce differently. */
gd_status gd__execs_join(gd_exec_set *set);
/* Frees the tables and memory on devices; the arrays of the set are the owner's. */
void gd__execs_free(gd_exec_set *set);

/* ---- running ---- */

typedef struct gd_exec_run {
    bool replay;     /* run the launches of a device as one graph, where it can */
    bool replayed;   /* out: it did */
    bool not_finite; /* out: a reduction over some elements was not finite (checked on the CPU only) */
    /* Where other processes run other elements: told, while the last pass still runs, that the first `members` of the set have
     * their results; in the end, that all have.  Nothing but this is between the processes from the first call on.  NULL: nobody asks. */
    void (*ready)(void *user, int members);
    void *user;
} gd_exec_run;

/* To be called when the owner changed pointers, or inputs other than those that change from run to run and are the same for all
 * members: goes to the devices, and what follows from inputs alone is worked out. */
gd_status gd__exec_send(gd_exec *x, bool inputs);
/* Every pass of every table, reductions joined in between. */
gd_status gd__execs_run(gd_exec_set *set, gd_exec_run *run);
bool gd__exec_by_host(const gd_exec *x); /* on the CPU, or on a device that cannot run programs itself */
/* After a run: `stored` has the scalars that the program keeps, also from a device. */
gd_status gd__exec_fetch_stored(gd_exec *x);

/* ---- along axes ---- */

#define GD_PIECE \
    1024 /* elements worth a call of a kernel: what is made for them stays in the first-level cache */

/* Room between passes, and its end. */
gd_status gd__axes_rooms(gd_exec *x);
void gd__axes_free(gd_exec *x);
/* Offsets from `scratch` of values that passes leave for later passes. */
void gd__scratch_place(gd_exec *x, char *scratch);
/* The tiles of a pass that reduces along axes. */
gd_status gd__tiles_make(const gd_exec *x, const gd_pass *pass, gd_work *w);
/* Those of a device as its kernels read them; with the places of partial results (gd_along_place) of its sum s. */
struct gd_table_tile;
struct gd_along_place;
void gd__tiles_table(const gd_exec *x, const gd_pass *pass, const gd_work *w, struct gd_table_tile *tile);
void gd__along_places(const gd_exec *x, const gd_pass *pass, int s, const int64_t *at,
                      struct gd_along_place *place);
/* What a thread needs for a pass beside memory. */
size_t gd__buffer_bytes(const gd_pass *pass);
/* Where the partial results of a pass begin (at NULL: only how many there are). */
int64_t gd__partials_place(const gd_exec *x, const gd_pass *pass, int64_t *at);
/* Makes in a buffer what n elements from `start` read and memory does not hold so, at most 4096 of them; array gets where it
 * lies.  Returns the rest of the buffer. */
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
/* Partial sums of a pass that other processes run chunks of. */
gd_status gd__device_fetch_partials(gd_exec *x, int pass);
gd_status gd__device_send_partials(gd_exec *x, int pass);

#endif
