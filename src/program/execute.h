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

typedef struct gd_exec {
    gd_program *p; /* owned */
    gd_device *device;
    int members;
    int64_t *numel; /* [members] */
    gd_pass *pass;
    gd_kernel_fn *kernel; /* NULL: interpret */
    gd_executor *how;
    gd_work last, reduce;
    char **pointer;  /* [members, arrays] filled by the owner */
    double *input;   /* [members, uniforms] the same */
    double *reduced; /* [members, reductions] */
    double *scalar;  /* [members, scalar_room] */
    double *stored;  /* [members, uniforms] what the program makes of scalars that are kept, after a run */
    double *value;   /* [instructions] */
    double *partial; /* [chunks, reductions of a pass] */
    char *buffer;    /* [threads, buffer_bytes] what a thread makes of a chunk that is not in memory */
    int scalar_room;
    bool stores_scalars;
    int64_t partial_room;
    size_t buffer_bytes;
    gd_device_table *on_device; /* NULL on the CPU and before the first run */
} gd_exec;

typedef struct gd_exec_set {
    gd_ctx *ctx;
    gd_exec *table;
    int tables;
    int count;                 /* members of all tables, in an order of the owner's: */
    int *table_of, *member_of; /* [count] where each is; reductions over all go in this order */
    gd_device *device;         /* all tables are on this one, which is not the CPU; NULL: they are not */
    gd_launches launches;
    void *graph; /* what the device remembers of the launches, when they are replayed */
} gd_exec_set;

/* ---- making ---- */

/* The passes of a table that has its program and device, and kernels for them unless they are to be interpreted. */
gd_status gd__exec_passes(gd_exec *x, bool interpret);
/* Makes it fit to run over members of these sizes: chunks and room.  numel becomes the table's, also on failure. */
gd_status gd__exec_members(gd_exec *x, int members, int64_t *numel);
void gd__exec_free(gd_exec *x);
/* To be called when all tables of a set are there: NOT_IMPLEMENTED where a reduction over all members meets tables that
 * reduce differently. */
gd_status gd__execs_join(gd_exec_set *set);
/* Frees the tables and what lies on devices; the arrays of the set are the owner's. */
void gd__execs_free(gd_exec_set *set);

/* ---- running ---- */

typedef struct gd_exec_run {
    bool replay;     /* run the launches of a device as one graph, where it can */
    bool replayed;   /* out: it did */
    bool not_finite; /* out: a reduction over some elements was not finite (looked at on the CPU only) */
} gd_exec_run;

/* Sends what the owner changed in pointers and inputs to the devices; nothing to do on the CPU. */
gd_status gd__exec_send(gd_exec *x);
/* Every pass of every table, reductions joined in between. */
gd_status gd__execs_run(gd_exec_set *set, gd_exec_run *run);
bool gd__exec_by_host(const gd_exec *x); /* on the CPU, or on a device that cannot run programs itself */
/* After a run: `stored` has the scalars that the program keeps, also from a device. */
gd_status gd__exec_fetch_stored(gd_exec *x);

/* ---- tables on a device ---- */

void gd__device_table_free(gd_exec *x);
/* These start kernels; with a list they are only noted there, for gd__launch_all. */
gd_status gd__device_pass(gd_exec *x, int level, gd_launches *list);
/* Joins the chunks of each member. */
gd_status gd__device_join(gd_exec *x, int level, gd_launches *list);
/* Joins the members of all tables, which are on one device, where a reduction is over all. */
gd_status gd__device_join_all(gd_exec *table, int tables, int level, gd_launches *list);
/* Starts what was noted; with a graph, as one. */
gd_status gd__launch_all(gd_device *device, gd_launches *list, void **graph);
void gd__launches_free(gd_ctx *ctx, gd_launches *list);
gd_status gd__device_fetch_reduced(gd_exec *x);
gd_status gd__device_send_reduced(gd_exec *x);

#endif
