/* Benchmarks: each measures gradus against something and reports one or more lines.  A new one is a row in
 * benches.def and a function bench_<name>. */
#ifndef GD_BENCH_H
#define GD_BENCH_H

#include "gradus/autograd.h"

#include <stdio.h>

typedef struct bench_row {
    const char *name, *help;
    void (*run)(void);
} bench_row;

extern const bench_row bench_rows[]; /* ended by a row without a name */
const bench_row *bench_find(const char *name);

/* Benchmarks between begin and end report to it. */
typedef struct bench_run {
    bool json;
    void (*line)(void *user, const char *text); /* prints, with its line end */
    void *user;
    int lines, missed; /* reports so far, and those that missed a limit */
} bench_run;

void bench_begin(bench_run *run);
void bench_end(bench_run *run);

typedef struct report {
    const char *name;    /* "matmul 512" */
    double value;        /* measured */
    const char *unit;    /* "us" */
    const char *against; /* what it is compared with, NULL: only a limit */
    double other;        /* its measurement in the same unit */
    double limit;        /* value may be at most this; 0: none */
    double ratio_limit;  /* other / value must be at least this; 0: none */
} report;

/* Prints a line (or a JSON object). */
void bench_report(report r);
/* A line of two texts that is no measurement; JSON leaves it out. */
void bench_note(const char *text, const char *more);

double bench_now(void);                         /* seconds */
double bench_median(double *values, int count); /* which it sorts */
int bench_threads(void);

typedef void (*bench_fn)(void *arg);

/* Median time of one call in seconds, over repeats that fill about a third of a second each. */
double bench_time(bench_fn fn, void *arg);
/* Medians of two functions measured in turn, so that a busy machine disturbs both alike; fewer times where both are steady. */
void bench_compare(bench_fn ours, void *our_arg, bench_fn other, void *other_arg, double *our_time,
                   double *other_time);

/* A context with as many threads as the comparison; ends the program when there is an error. */
gd_ctx *bench_context(int threads);
/* Runs a script of this folder with Python, to read what it prints: pclose.  NULL where there is none. */
FILE *bench_python(const char *script, int threads);
void bench_check(gd_ctx *ctx);

/* Seconds of a fit of a million rows with six parameters, the fastest of some (shell.c). */
double bench_fit_rows(int threads, bool traced);
double bench_scipy_rows(void); /* the same by SciPy's curve_fit; 0: it is not there */

#define BENCH(name, help) void bench_##name(void);
#include "benches.def"
#undef BENCH

/* ---- the plain loops, see plain.c ---- */

typedef enum plain_op { PLAIN_ADD, PLAIN_MUL, PLAIN_EXP } plain_op;

/* o = a op b on that many threads, which are started once and wait spinning in between. */
typedef struct plain_pool plain_pool;
plain_pool *plain_start(int threads);
void plain_run(plain_pool *pool, plain_op op, float *o, const float *a, const float *b, long n);
/* One tensor of an Adam step: bits of gradient, moments and parameter. */
typedef struct plain_step {
    const unsigned *g;
    unsigned *m, *v, *p;
    long n;
} plain_step;
/* Reads and writes the bytes that an ideal fused step must and computes nothing: with norm a pass that reads g (4 bytes an
 * element), then one that reads g, m, v, p and writes m, v, p (28 bytes). */
void plain_adam(plain_pool *pool, const plain_step *list, long count, bool norm);
/* Reads an array from end to end, then writes it. */
void plain_read_write(plain_pool *pool, unsigned *data, long n);
/* Reads and writes every element in one pass. */
void plain_touch(plain_pool *pool, unsigned *data, long n);
/* One pass that reads the first `reads` of these arrays and writes the last `writes` of those. */
#define PLAIN_STREAMS 12
void plain_move(plain_pool *pool, unsigned *const *stream, int reads, int writes, long n);
/* The same, PLAIN_PIECE elements at a time, after each of which something is computed. */
#define PLAIN_PIECE 4096
typedef void (*plain_more_fn)(void *arg, long start, long n);
void plain_move_and(plain_pool *pool, unsigned *const *stream, int reads, int writes, long n,
                    plain_more_fn more, void *arg);
void plain_stop(plain_pool *pool);

#endif
