/* Running a recording again.
 *
 * What only captured tensors and constants lead to is computed first (the prologue), and again when a captured tensor has
 * changed.  The rest runs each time, in memory planned once.  A run makes no tensors and asks for no memory; kernels that need
 * room of their own still do. */
#ifndef GD_TRACE_REPLAY_H
#define GD_TRACE_REPLAY_H

#include "gradus/trace.h"
#include "trace/record.h"

typedef struct gd_tape gd_tape; /* see trace/tape.h */

/* Neighbouring calls of the body that run in one way. */
typedef struct gd_unit {
    int first, count;
    gd_tape *tape; /* NULL: call by call */
} gd_unit;

/* A buffer that is not the replay's: where is it now, has it changed? */
typedef struct gd_watch {
    int buffer, input; /* input -1: captured */
    int64_t offset;    /* of the input's first element */
    const char *base;
    const gd_storage *storage; /* captured */
    uint32_t version;
} gd_watch;

typedef struct gd_replay {
    gd_ctx *ctx;
    gd_recording *r;     /* owned */
    gd_storage *storage; /* of each buffer: what kernels see */
    gd_tensor *look;     /* of each operand */
    gd_tensor **list;    /* the address of each look */
    int *looks;          /* operands by buffer: those of buffer b from at[b] to at[b + 1] */
    int *at;
    int *prologue, *body; /* calls, in order */
    int prologues, bodies;
    int *begins, *ends; /* of each buffer: the first and the last place in the body that uses it; -1: none */
    gd_unit *unit;
    int units;
    char **base;       /* of each buffer's bytes */
    uint32_t *version; /* of each buffer's storage when the prologue ran */
    gd_watch *watched; /* what each run looks at */
    int watches;
    gd_tensor **memory; /* of each buffer that has outputs, as bytes; else NULL */
    uint32_t *holders;  /* references of its storage that are the replay's own */
    gd_tensor **result; /* borrowed by callers until the next run */
    char *arena;
    size_t arena_bytes;
    size_t *place; /* of each buffer in the arena */
    gd_trace_compile compile;
    bool ready; /* the prologue has run, for the captured tensors as they are */
    bool stale; /* what the host read while recording has changed: record again */
    int64_t runs;
} gd_replay;

/* Takes the recording, also on failure.  NULL: no memory, with no error recorded. */
gd_replay *gd__replay_new(gd_recording *r, gd_trace_compile compile);
void gd__replay_free(gd_replay *p);
/* Fills p->result.  p->stale: nothing was done. */
GD_NODISCARD gd_status gd__replay_run(gd_replay *p, gd_tensor *const *inputs);
/* Have the results the bits of these tensors? */
bool gd__replay_agrees(const gd_replay *p, gd_tensor *const *outputs);

/* The units of the body; of a replay whose calls are split.  Without memory for tapes there are none. */
void gd__replay_group(gd_replay *p);
/* What has to run and where buffers lie; of a replay whose recording is set.  False: no memory. */
bool gd__replay_plan(gd_replay *p);

#endif
