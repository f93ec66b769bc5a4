/* gradus/trace.h: functions that are recorded once and replayed.
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
 * The first call for inputs of some shape runs the function.  The next two run it and record the kernels that it runs, and the
 * two recordings are compared.  From then on calls replay the recording: the same bits, without operators, graph or memory.
 *
 * A function can be traced if it does the same each time: the values of its inputs and of tensors that it captures may change,
 * its operators and their numbers may not.  A function that reads a value on the host, branches on data, draws from generators
 * of its own or changes captured tensors is recognised; it goes on running as it is, and gd_explain_trace says why.  Not
 * recognised is a number of the program that changes later and that the function hands to an operator: gd_traced_input is for
 * those, and with GRADUS_TRACE=check in the environment every replay is compared with the function itself.  Side effects of the
 * function beside its operators happen in the first calls only. */
#ifndef GRADUS_TRACE_H
#define GRADUS_TRACE_H

#include "gradus/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_traced gd_traced; /* a function and its recordings */

/* When small work is compiled with the system's C compiler.  Compiled or interpreted, the bits are the same. */
typedef enum gd_trace_compile {
    GD_TRACE_LATER,    /* when interpreting it has taken longer than compiling will */
    GD_TRACE_AT_ONCE,  /* at the first replay, which waits for the compiler */
    GD_TRACE_INTERPRET /* never */
} gd_trace_compile;

/* Start from gd_trace_defaults(). */
typedef struct gd_trace_options {
    gd_trace_compile compile;
    bool check; /* run the function beside each replay: MISMATCH where their bits differ */
    int shapes; /* recordings kept, one per kind of evaluation and shape of the inputs; the one used last goes last */
} gd_trace_options;

/* Compiled later, check off, 16 shapes. */
gd_trace_options gd_trace_defaults(void);

/* A function that is to be traced, with what it is given as `user`; options NULL: the defaults.  Nothing runs yet.  New; freed by
 * gd_traced_free, before the context.  NULL with the error recorded: no function, shapes below 1, no memory. */
gd_traced *gd_trace(gd_ctx *ctx, gd_function function, void *user, const gd_trace_options *options);
/* With its recordings and results; NULL is fine. */
void gd_traced_free(gd_traced *traced);

/* The function of these inputs, without history.  Borrowed until the next call for this function: retain it to keep it (the
 * next replay then has memory of its own).  Inputs must not be changed by the function.  NULL with the function's error. */
gd_tensor *gd_traced_value(gd_traced *traced, gd_tensor *const *inputs, int count);
/* The value (NULL: not wanted) and its gradient by each input, as gd_grad gives them.  Borrowed, as above; entries are NULL on
 * failure. */
GD_NODISCARD gd_status gd_traced_gradient(gd_traced *traced, gd_tensor *const *inputs, int count,
                                          gd_tensor **value, gd_tensor **grads);
/* The product of the Hessian with v, one vector per input, as gd_hvp gives it.  Borrowed, as above. */
GD_NODISCARD gd_status gd_traced_hvp(gd_traced *traced, gd_tensor *const *inputs, int count,
                                     gd_tensor *const *v, gd_tensor **out);
/* The Jacobian by each input, as gd_jacobian gives it.  Borrowed, as above. */
GD_NODISCARD gd_status gd_traced_jacobian(gd_traced *traced, gd_tensor *const *inputs, int count,
                                          gd_tensor **out);

/* A tensor of numbers that are read again at `data` in each replay, for what changes between calls of a traced function and is no
 * input of it: a step size, an index, a target.  Outside of traced functions as gd_from_data.  The numbers stay at the same
 * place while the traced function lives.  New. */
gd_tensor *gd_traced_input(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, const void *data);

/* What each recording does, one paragraph per kind of evaluation and shape: operators, memory, how often it ran; or why there is
 * none.  Writes at most size bytes with the final 0, returns the length of the whole text. */
int gd_explain_trace(const gd_traced *traced, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
