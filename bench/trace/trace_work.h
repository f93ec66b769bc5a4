/* Traced work that is more than a function of tensors: a training step, a regression, small fits, first calls. */
#ifndef GD_BENCH_TRACE_WORK_H
#define GD_BENCH_TRACE_WORK_H

#include "transformer.h"
#include "gradus/trace.h"

typedef struct bench_training {
    transformer t;
} bench_training;

/* The transformer of `bench peers` with a traced loss. */
void bench_training_open(bench_training *run, gd_ctx *ctx);
void bench_training_step(void *run);
void bench_training_close(bench_training *run);

/* Logistic regression over 1e5 x 100 with a penalty, by L-BFGS to a gradient of 1e-4. */
typedef struct bench_logistic {
    gd_tensor *table, *label, *w;
    gd_traced *loss;
} bench_logistic;

void bench_logistic_open(bench_logistic *run, gd_ctx *ctx);
void bench_logistic_fit(void *run);
void bench_logistic_gradient(void *run);
void bench_logistic_close(bench_logistic *run);

/* Seconds of 1e4 fits of 20 points by one call, and one after the other. */
void bench_lanes(double *many, double *single);

/* The most memory in use while a function of one tensor is replayed, over what the tensor and its gradient take. */
double bench_replay_memory(gd_function function, gd_dtype dtype, int64_t n);

/* Seconds until the compiled replay has run: without and with a kernel cache.  Of 24,000 operators also the slowest call where
 * nothing waits for the compiler, and the function with operators. */
typedef struct bench_first {
    double numbers[2], vectors[2], usable, eager, compiled;
} bench_first;

void bench_first_calls(bench_first *out);

#endif
