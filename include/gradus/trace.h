/* gradus/trace.h: traced functions, which are recorded once and replayed.
 *
 *     static gd_tensor *loss(void *user, gd_tensor *const *in, int count)
 *     {
 *         return gd_sum(gd_square(gd_sub(in[0], user)), NULL, false);
 *     }
 *     gd_tensor *value, *grad;
 *     gd_status status = GD_OK;
 *     gd_traced *f = gd_trace(ctx, loss, d, NULL);
 *     for (int i = 0; i < 1000 && !status; i++) status = gd_traced_gradient(f, &x, 1, &value, &grad);
 *     gd_traced_free(f);
 *
 * The first call for inputs of a shape runs the function.  The next two calls also record its kernels, and the two recordings
 * are compared.  Later calls replay the recording: the same bits, without operators, graph or allocations.
 *
 * A function can be traced if it does the same each time: the values of its inputs and of tensors that it captures may change,
 * its operators and their numbers may not.  A function that reads a value on the host, branches on data, draws from generators
 * of its own or changes captured tensors is recognised: it still runs, without a recording, and gd_explain_trace gives the
 * reason.  A C variable that changes later and is passed to an operator as a number is not recognised: use gd_traced_input for
 * it.  A captured tensor may be replaced by a different one if the old one is released: the function is then recorded again; one that
 * is kept beside the new one goes on being read, so pass both as inputs.  With GRADUS_TRACE=check in the environment every replay is compared with the function.  Side effects of the function
 * happen in the first calls only.
 *
 * All inputs may be on one device that is not the CPU: kernels run there, with the bits of the function there, and are captured as
 * one graph where the device has graphs (docs/howto/traced.md says which are not). */
#ifndef GRADUS_TRACE_H
#define GRADUS_TRACE_H

#include "gradus/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_traced gd_traced; /* a traced function and its recordings */

/* When small work is compiled with the system's C compiler.  The bits do not depend on it. */
typedef enum gd_trace_compile {
    GD_TRACE_LATER,    /* when interpreting has taken longer than compiling would */
    GD_TRACE_AT_ONCE,  /* at the first replay, which waits for the compiler */
    GD_TRACE_INTERPRET /* never */
} gd_trace_compile;

/* Start from gd_trace_defaults(). */
typedef struct gd_trace_options {
    gd_trace_compile compile;
    bool check; /* run the function beside each replay: MISMATCH if their bits differ */
    int by;     /* derivatives by the first so many inputs only, the others are data; 0: by all */
    int shapes; /* most recordings kept, one per kind of evaluation and shape of the inputs; the least recently used goes first */
} gd_trace_options;

/* Compiled later, check off, derivatives by all inputs, 16 shapes. */
gd_trace_options gd_trace_defaults(void);

/* Makes a traced function; `user` is passed to it; options NULL: the defaults.  Nothing runs yet.  New; freed by
 * gd_traced_free, before the context.  NULL with the error recorded: no function, shapes below 1, no memory. */
gd_traced *gd_trace(gd_ctx *ctx, gd_function function, void *user, const gd_trace_options *options);
/* Frees it with its recordings and results; NULL is fine.  If functions of gd_traced_share still replay it, nothing is freed and STATE
 * is recorded. */
void gd_traced_free(gd_traced *traced);

/* The value of the function, without history.  Borrowed until the next call with this function: retain it to keep it (the
 * next replay then allocates).  The function must not change its inputs.  NULL with the function's error. */
gd_tensor *gd_traced_value(gd_traced *traced, gd_tensor *const *inputs, int count);
/* The value (NULL: not wanted) and its gradient by each input, as gd_grad gives them.  Borrowed, as above; entries are NULL on
 * failure, and for inputs that are data (gd_trace_options.by), also below. */
GD_NODISCARD gd_status gd_traced_gradient(gd_traced *traced, gd_tensor *const *inputs, int count,
                                          gd_tensor **value, gd_tensor **grads);
/* The product of the Hessian with v, one vector per input, as gd_hvp gives it.  Borrowed, as above. */
GD_NODISCARD gd_status gd_traced_hvp(gd_traced *traced, gd_tensor *const *inputs, int count,
                                     gd_tensor *const *v, gd_tensor **out);
/* The Jacobian by each input, as gd_jacobian gives it.  Borrowed, as above. */
GD_NODISCARD gd_status gd_traced_jacobian(gd_traced *traced, gd_tensor *const *inputs, int count,
                                          gd_tensor **out);

/* The recordings that `traced` replays by now, for a thread with a context of its own: graph and compiled code are shared, memory and
 * results are not, so all run side by side, each with its context's tensors and random numbers.
 * Evaluate `traced` three times first: it records twice, then replays.  Then call this once per thread.
 *
 * It only replays: STATE for evaluations and shapes that were not recorded.  Captured tensors, and data of gd_traced_input, must not
 * change while threads read them.  No thread may use `traced` during this call.  New; freed by gd_traced_free before `traced`, whose
 * context must live.  NULL with the error recorded in ctx: no memory; DEVICE: a recording is on a device that is not the CPU. */
gd_traced *gd_traced_share(gd_traced *traced, gd_ctx *ctx);

/* The result for which a traced function is evaluated. */
typedef enum gd_traced_kind {
    GD_TRACED_VALUE,    /* the value */
    GD_TRACED_GRADIENT, /* the value, then a gradient per input that is no data */
    GD_TRACED_HVP,      /* of inputs, then a vector per input that is no data: as many products */
    GD_TRACED_JACOBIAN, /* a Jacobian per input that is no data */
    GD_TRACED_HESSIAN   /* the Hessian, [n, n] */
} gd_traced_kind;

/* Evaluates many problems of one shape at once: each input has one axis more, its first, over the problems; NULL or, for the inputs
 * that all problems share, same[i] true.  Outputs, as many as the kind has, have the axis of problems in front: new, without
 * history, NULL on failure.  Each problem has the bits that it has alone.  Many small fits: parameters are
 * the first input, data the others, gd_trace_options.by is 1; two calls give all residuals and Jacobians.
 *
 * If the recording consists of element-wise operators, copies and sums of operands of at most 1024 elements, 16 problems go
 * through its operations together, on all threads of the context; gd_explain_trace says so, or which operator prevents it, or that
 * they are on a device: then problems are evaluated one after the other.  Data that differ between problems are inputs, not gd_traced_input. */
GD_NODISCARD gd_status gd_traced_batch(gd_traced *traced, gd_traced_kind kind, gd_tensor *const *inputs,
                                       int count, const bool *same, gd_tensor **out);

/* The Hessian of a scalar function by all inputs, flattened and concatenated, as gd_hessian gives it.  Borrowed, as above; NULL with
 * the error recorded. */
gd_tensor *gd_traced_hessian(gd_traced *traced, gd_tensor *const *inputs, int count);

/* Which derivatives can be other than zero, from the recorded graph: GD_TRACED_JACOBIAN, rows are the elements of the value,
 * GD_TRACED_HESSIAN, rows are those of the inputs; columns are those of the inputs, one after the other.  Entry i is at rows[i],
 * columns[i], row by row: i64, new.  Others are zero everywhere.  Evaluates until there is a recording.  NOT_IMPLEMENTED with the
 * reason if the function is not traced, or has other operators than gd_traced_batch takes together. */
GD_NODISCARD gd_status gd_traced_sparsity(gd_traced *traced, gd_traced_kind kind, gd_tensor *const *inputs,
                                          int count, gd_tensor **rows, gd_tensor **columns);

/* A tensor of numbers that each replay reads again from `data`, for values that change between calls and are not inputs: a step
 * size, an index, a target.  Outside of traced functions the same as gd_from_data.  `data` must stay valid as long as the traced
 * function.  New. */
gd_tensor *gd_traced_input(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, const void *data);

/* One step of a loop: the states after it, and its results, of the states before it and a slice of each list.  Tensors are borrowed;
 * results are new. */
typedef gd_status (*gd_scan_step)(void *user, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                                  gd_tensor **y);

/* The body of a loop. */
typedef struct gd_scan_body {
    gd_scan_step step;
    void *user;
    void (*destroy)(
        void *
            user); /* ends user when neither the loop nor its graph needs it, also on failure; NULL: nothing to do */
    int states, xs, ys; /* at most 64 of each */
    bool backwards;     /* from the last slices to the first; results stay beside their slices */
    size_t
        most_bytes; /* of states kept for the gradient; 0: 256 MiB.  Beyond it only every sqrt(steps)-th is kept */
} gd_scan_body;

/* Runs the step `steps` times: a recurrent network, an integrator, an iteration.  The states go from step to step; slice i of each
 * list xs, [steps, ...], goes to step i; last[states] are the states after the last step, ys[ys] the results of all steps, stacked.
 *
 *     last, y = state, []
 *     for i in 0..steps: last, y[i] = step(last, xs[i])
 *
 * The first three steps run with operators, the second and third are recorded, and if both do the same work, the others replay it:
 * time and memory do not grow with the operators of the loop, the gradient runs the step again instead of keeping what it
 * computed, and inside a traced function the loop is one call.  It may be differentiated any number of times.  A step that is not
 * the same each time (gd_trace says when), that draws random numbers, that has named axes, or whose states change shape, dtype or
 * device, runs with operators each time.  Values and first derivatives have the same bits either way, except that zeros may
 * change sign and that the loop's part of the gradient of a captured tensor is one term of its sum.  New.  NULL entries on
 * failure. */
GD_NODISCARD gd_status gd_scan(gd_ctx *ctx, const gd_scan_body *body, gd_tensor *const *state,
                               gd_tensor *const *xs, int64_t steps, gd_tensor **last, gd_tensor **ys);

/* Describes each recording, one paragraph per kind of evaluation and shape: operators, memory, number of runs; or why there is
 * none.  Writes at most size bytes with the final 0, returns the length of the whole text. */
int gd_explain_trace(const gd_traced *traced, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
