/* Running a recording again.
 *
 * Values that depend only on captured tensors and constants are computed first (the prologue), and again if a captured tensor has
 * changed. The rest runs each time, in memory planned once. A run makes no tensors and no allocations, except for work memory of kernels. */
#ifndef GD_TRACE_REPLAY_H
#define GD_TRACE_REPLAY_H

#include "gradus/trace.h"
#include "trace/record.h"

typedef struct gd_tape gd_tape; /* see trace/tape.h */
typedef struct gd_loop gd_loop; /* see trace/trace_loop.h */

/* Adjacent calls of the body that run as one unit. */
typedef struct gd_unit {
    int first, count;
    gd_tape *tape; /* one of the three, or all NULL: call by call */
    gd_loop *loop;
    struct gd_fused *fused; /* see trace/device/on_device.h */
} gd_unit;

/* A foreign buffer: its address, and whether it has changed. */
typedef struct gd_watch {
    int buffer, input;         /* input -1: captured */
    int64_t offset;            /* of the input's first element */
    const gd_storage *storage; /* captured */
    uint32_t version;
} gd_watch;

/* A body of one tape, with all data for the checks before a run, which dominate the cost of a small function. */
typedef struct gd_short_input {
    gd_dtype dtype;
    uint8_t ndim;
    const gd_device *device;
    const gd_axes *axes;
    const int64_t *size, *stride;
    char **base; /* memory of the tape */
    int64_t offset;
} gd_short_input;

typedef struct gd_short_output {
    gd_tensor *tensor;
    const gd_storage *storage;
} gd_short_output;

typedef struct gd_shortcut {
    const gd_ctx *ctx;
    uint64_t structure;
    int kind, count, outputs;
    gd_short_input *in;
    gd_short_output *out;
    gd_tensor *const *results;
    int vectors; /* 1: one input with one axis; then also: */
    gd_short_input input;
    int64_t extent, stride;
    gd_short_output value, grad;
    /* interpreted or compiled, with its arguments; returns 0 */
    int (*run)(char *const *base, void *slot, const void *kernel, const double *setting);
    char **base;
    void *slot;
    const void *kernel;
    const double *setting;
    int64_t runs; /* unknown to the replay */
} gd_shortcut;

typedef struct gd_replay {
    gd_ctx *ctx;
    gd_recording *r; /* owned, except for one that shares it */
    bool shares; /* the recording and the code of its units are those of a replay of a different context */
    bool shared; /* it is such a replay, and stays as long as the traced function */
    struct gd_replay *retired;  /* the next one that has to stay */
    struct gd_scan_call **scan; /* of each call: the loop that it is */
    gd_axes **axes;             /* of each result; owned by one that shares */
    gd_storage *storage;        /* of each buffer: its tensor for kernels */
    gd_tensor *look;            /* of each operand */
    gd_tensor **list;           /* the address of each view */
    int *looks;                 /* operands by buffer: those of buffer b from at[b] to at[b + 1] */
    int *at;
    int *prologue, *body; /* calls, in order */
    int prologues, bodies;
    int *writer; /* of each buffer: the only call of the prologue that writes it; -1: none, -2: several */
    int *begins, *ends; /* of each buffer: the first and the last place in the body that uses it; -1: none */
    gd_unit *unit;
    int units;
    char **base;       /* of each buffer's bytes */
    uint32_t *version; /* of each buffer's storage when the prologue ran */
    gd_watch *watched; /* foreign buffers that each run checks */
    int watches;
    gd_tensor **memory; /* of each buffer that has outputs, as bytes; else NULL */
    uint32_t *holders;  /* references of its storage that are the replay's own */
    gd_tensor **result; /* borrowed by callers until the next run */
    char *arena;
    size_t arena_bytes;
    size_t *place;           /* of each buffer in the arena */
    gd_device *device;       /* where all of it is */
    struct gd_on_device *on; /* NULL: the device is the CPU */
    gd_trace_compile compile;
    bool settled,
        looked; /* loops: they are compiled or never will be; it was tried to find their kernels on disk */
    int64_t bodies_run; /* until settled */
    bool ready;         /* the prologue has run for the present captured tensors */
    bool stale;         /* data that the host read while recording have changed: record again */
    int64_t runs;
    gd_shortcut brief;
    gd_short_output *brief_out; /* room for it, of each output */
    struct gd_lanes
        *lanes; /* the body for many problems at once, see trace/many/lanes.h; NULL: not yet, or never */
    char why_no_lanes[120]; /* empty: it was not tried */
    char *unused[1];        /* the base of an input that shares memory with a second one */
} gd_replay;

/* Takes the recording, also on failure.  NULL: no memory, with no error recorded. */
gd_replay *gd__replay_new(gd_recording *r, gd_trace_compile compile);
void gd__replay_free(gd_replay *p);
/* The same recording, code and plan, with memory and results of its own in a different context, whose thread may run it in parallel.
 * `from` must not run meanwhile, and outlives it.  NULL: no memory, with no error recorded. */
gd_replay *gd__replay_share(gd_replay *from, gd_ctx *ctx);
/* Fills p->result.  p->stale: nothing was done. */
GD_NODISCARD gd_status gd__replay_run(gd_replay *p, gd_tensor *const *inputs);
/* Sets the address of a buffer. */
void gd__replay_place(gd_replay *p, int buffer, char *base);
/* The two parts of a run, for a caller that sets the addresses of inputs, captured tensors and results. */
GD_NODISCARD gd_status gd__replay_prologue(gd_replay *p);
GD_NODISCARD gd_status gd__replay_body(gd_replay *p);
/* After a successful run: the next may take the fast path, with `in` for the inputs. NULL: not possible, because the body is more than a
 * tape, data are captured, or results are held. */
gd_shortcut *gd__replay_shortcut(gd_replay *p, int inputs, gd_short_input *in);
/* Do the results have the bits of these tensors? */
GD_NODISCARD gd_status gd__replay_compare(const gd_replay *p, gd_tensor *const *outputs, bool *same);
/* Calls of the recording, one by one. */
GD_NODISCARD gd_status gd__replay_calls(gd_replay *p, const int *calls, int count);

/* The units of the body, of a replay whose calls are split: calls are grouped, and `begins` and `ends`
 * are filled.  Without memory for tapes or loops there are none. */
void gd__replay_group(gd_replay *p);
/* Fills `begins` and `ends`. */
void gd__replay_note_uses(gd_replay *p);
/* Is all of a buffer one number, filled in by the prologue, or made by element-wise operators of such? */
bool gd__filled_with(const gd_replay *p, int buffer, double *value);
/* Plans calls and memory; of a replay whose recording is set.  False: no memory. */
bool gd__replay_plan(gd_replay *p);

#endif
