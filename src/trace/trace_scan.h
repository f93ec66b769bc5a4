/* Loops: see gd_scan in gradus/trace.h.
 *
 * The first steps run with operators; the second and the third are recorded and compared.  If they agree, the loop is one call:
 * a replay of the step, with the addresses of states and slices advanced from step to step.  If not, the other steps run with
 * operators too.
 *
 * The gradient is a loop backwards.  Its state is the gradients of the states and of the captured tensors so far; a step runs the
 * body again, from the state that was kept, and its backward pass. The first steps back may produce gradients for new tensors; they run
 * with operators until the set is constant.  Sums have the order of a graph of all steps. */
#ifndef GD_TRACE_TRACE_SCAN_H
#define GD_TRACE_TRACE_SCAN_H

#include "autograd/rules.h"
#include "autograd/walk.h"
#include "trace/replay.h"

#define GD_SCAN_LEAST 5                   /* steps; fewer run with operators */
#define GD_SCAN_MOST  64                  /* states, slices or results of a step */
#define GD_SCAN_BYTES ((size_t)256 << 20) /* of kept states */

/* All steps, as one call.  Operands: the states, xs, captured tensors; then the states after the last step (keeps: before the first and
 * after each), ys. */
typedef struct gd_scan_call {
    gd_ctx *ctx;
    uint32_t refs;
    gd_replay *body; /* owned; inputs: states, slices; outputs: states, results */
    int states, xs, ys, captured;
    int64_t steps;
    bool keeps;
    bool back[2 * GD_SCAN_MOST]; /* of xs and ys: from the last to the first */
    struct gd_scan_place *place; /* of states, slices, next states, results */
    int *capture;                /* buffers */
    struct gd_tape_move *move;
    int moves;
    struct gd_scan_compiled *compiled; /* if the body is one tape */
    char *room; /* the states before a step, if the body may write its results before it has read them */
    size_t room_bytes;
} gd_scan_call;

typedef struct gd_scan_shape {
    int states, xs, ys;
    int64_t steps;
    bool keeps;
    const bool *back;
} gd_scan_shape;

/* Takes the recording of a step.  NULL: no memory, with no error recorded. */
gd_scan_call *gd__scan_new(gd_recording *r, const gd_scan_shape *shape);
gd_scan_call *gd__scan_retain(gd_scan_call *s);
void gd__scan_release(gd_scan_call *s);
/* The same steps with separate memory, for a thread with a different context; `from` outlives it.  NULL: no memory. */
gd_scan_call *gd__scan_share(const gd_scan_call *from, gd_ctx *ctx);
/* Operands as above; memory without gaps. */
GD_NODISCARD gd_status gd__scan_run(gd_scan_call *s, gd_tensor *const *in, gd_tensor *const *out);
/* Whether two are of the same work, as gd__recordings_agree; captured tensors are operands of the calls, and compared there. */
bool gd__scans_agree(const gd_scan_call *a, const gd_scan_call *b, char *why, size_t size);
/* The setting for compiling its steps. */
void gd__scan_compile(gd_scan_call *s, gd_trace_compile compile);

/* The body of a loop, kept as long as something may run it again. */
typedef struct gd_scan_core {
    gd_ctx *ctx;
    uint32_t refs;
    gd_scan_step step;
    void *user;
    void (*destroy)(void *user);
    int states, xs, ys; /* ys -1: found by the first step */
    int64_t steps;
    bool back[2 * GD_SCAN_MOST];
} gd_scan_core;

/* The result of gd__scan_try. */
typedef struct gd_scan_outcome {
    bool taken; /* all steps are done */
    int steps;  /* else: this many were run by core->step, one after the other; the caller runs the rest */
    gd_tensor *next[GD_SCAN_MOST]; /* the states after those, and their results */
    gd_tensor *y[3][GD_SCAN_MOST];
    char reason[240];
} gd_scan_outcome;

/* The slice of a list that a step takes or gives: backwards from the end for some. */
int64_t gd__scan_place(const gd_scan_core *core, int list, int64_t step);
/* One step with operators, x at its index; missing results are NULL.  A step without its first state stops the attempt. */
GD_NODISCARD gd_status gd__scan_step(gd_scan_core *core, int64_t step, gd_tensor *const *state,
                                     gd_tensor *const *xs, gd_tensor **next, gd_tensor **y);
/* A loop as one call.  last and ys are new, set if it was taken.  Not taken: the steps that ran are the first ones of an ordinary loop,
 * each from the states that the one before returned. */
GD_NODISCARD gd_status gd__scan_try(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *xs,
                                    gd_tensor **last, gd_tensor **ys, gd_scan_outcome *how);
/* The same in pieces of sqrt(steps), if states of more than so many bytes would be kept; then it is always taken. */
GD_NODISCARD gd_status gd__scan_pieces(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *xs,
                                       size_t most_bytes, gd_tensor **last, gd_tensor **ys,
                                       gd_scan_outcome *how);
/* The same, and the remaining steps. */
GD_NODISCARD gd_status gd__scan_all(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *xs,
                                    size_t most_bytes, gd_tensor **last, gd_tensor **ys);
gd_scan_core *gd__core_retain(gd_scan_core *core);
void gd__core_release(gd_scan_core *core);

/* Inputs of the gradient of a loop. */
typedef struct gd_scan_back {
    gd_scan_core *core;
    gd_tensor *kept[GD_SCAN_MOST]; /* the states, [steps + 1, ...], without history */
    gd_tensor *x[GD_SCAN_MOST];
    int alias[GD_SCAN_MOST]; /* of each result: the state that it equals, which has its gradient; -1: none */
} gd_scan_back;

/* Makes the results depend on states, xs and captured tensors.  out: last states, kept states, ys that are not states.  Takes `back`,
 * also on failure, and if status is an error already, which it returns. */
GD_NODISCARD gd_status gd__scan_depend(gd_scan_back *back, gd_tensor *const *inputs, int count,
                                       gd_tensor *const *out, int outs, gd_status status);

#endif
