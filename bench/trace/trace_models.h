/* Functions of tensors that are timed beside jax.jit and PyTorch (trace_jax.py, trace_torch.py): the same work, other numbers. */
#ifndef GD_BENCH_TRACE_MODELS_H
#define GD_BENCH_TRACE_MODELS_H

#include "gradus/trace.h"

#define MODEL_TENSORS 8

/* A function, what it is differentiated by and what it captures: shapes such as "100x3 8"; "i128:10" are 128 labels below 10. */
typedef struct bench_model {
    const char *name, *text;
    gd_function function;
    gd_dtype dtype;
    const char *inputs, *data;
    double scale;   /* of random inputs */
    bool network;   /* beside PyTorch, not JAX */
    double at_most; /* times the peer's time */
} bench_model;

extern const bench_model bench_models[]; /* ended by a row without a name */

typedef struct model_run {
    gd_ctx *ctx;
    gd_tensor *input[MODEL_TENSORS], *data[MODEL_TENSORS], *value, *grad[MODEL_TENSORS];
    int inputs, captured;
    gd_traced *traced;
} model_run;

/* Traced, compiled at once.  What fails sticks in the context. */
void bench_model_open(model_run *run, gd_ctx *ctx, const bench_model *model);
void bench_model_gradient(void *run); /* value and gradient */
void bench_model_close(model_run *run);

#endif
