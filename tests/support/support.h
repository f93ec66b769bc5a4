/* What the suites share: an allocator that counts and fails on demand, contexts, seeded numbers, elements
 * of every dtype as long double, plain arrays. */
#ifndef GD_TESTS_SUPPORT_H
#define GD_TESTS_SUPPORT_H

#include "gradus/autograd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- memory ---- */

typedef struct memory {
    int64_t bytes, blocks; /* alive */
    int64_t most;          /* bytes alive at a time */
    size_t largest;        /* block asked for */
    int64_t requests;      /* allocations asked for so far */
    int64_t fail_at;       /* this request gets NULL; 0: none does */
    bool fail_on;          /* and so do all after it */
    bool failed;           /* it happened */
} memory;

gd_allocator memory_allocator(memory *m);

/* ---- contexts ---- */

/* A context with that many threads; with m, its memory is counted and nothing is pooled. */
gd_ctx *context(memory *m, int threads, const char *isa);
/* Fails the test when objects are alive, then frees the context and fails when memory is. */
void end_context(gd_ctx *ctx, const memory *m);

/* Setup and teardown for cmocka: *state is a context of the test's own with counted memory.  Nothing may be alive and no error
 * recorded when the test ends.  With a scope around the test, or without. */
int begin_test(void **state);
int end_test(void **state);
int begin_scoped_test(void **state);
int end_scoped_test(void **state);
memory *test_memory(void); /* of that context */
#define CTX(state) ((gd_ctx *)*(state))

/* Lets allocation 1, 2, ... of a scenario fail until none does: it then returns false with GD_NOMEM recorded, and nothing
 * leaks.  The scenario runs in a scope and returns true when all of it worked. */
void fail_each_allocation(int threads, bool (*scenario)(gd_ctx *ctx));
/* Fails the test with the context's error text unless there is none. */
#define assert_no_error(ctx) assert_no_error_at(ctx, __FILE__, __LINE__)
void assert_no_error_at(gd_ctx *ctx, const char *file, int line);
/* Checks the recorded error and the start of its text, and clears it. */
#define assert_error(ctx, status, text) assert_error_at(ctx, status, text, __FILE__, __LINE__)
void assert_error_at(gd_ctx *ctx, gd_status status, const char *text, const char *file, int line);
/* The same, the text having that part somewhere. */
#define expect_error(ctx, status, part) expect_error_at(ctx, status, part, __FILE__, __LINE__)
void expect_error_at(gd_ctx *ctx, gd_status status, const char *part, const char *file, int line);
/* Compares an f64 view of a tensor with the numbers given. */
#define assert_values(t, ...)                                                                           \
    assert_values_at(t, (double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / 8), 1e-12, \
                     __FILE__, __LINE__)
#define assert_values_near(t, tolerance, ...)                                                               \
    assert_values_at(t, (double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / 8), tolerance, \
                     __FILE__, __LINE__)
void assert_values_at(const gd_tensor *t, const double *want, int64_t count, double tolerance,
                      const char *file, int line);
#define assert_shape(t, ...)                                                                            \
    assert_shape_at(t, (int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), __FILE__, \
                    __LINE__)
void assert_shape_at(const gd_tensor *t, const int64_t *shape, int ndim, const char *file, int line);

/* Short ways to make f64 tensors. */
#define COUNT_OF(a) ((int)(sizeof(a) / sizeof *(a)))
#define VECTOR(ctx, ...)                                                                                  \
    gd_from_f64(ctx, GD_F64, 1, (int64_t[]){(int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))}, \
                (double[]){__VA_ARGS__})
#define MATRIX(ctx, rows, columns, ...) \
    gd_from_f64(ctx, GD_F64, 2, (int64_t[]){rows, columns}, (double[]){__VA_ARGS__})
#define INDEX(ctx, ...)                                                                                      \
    gd_from_data(ctx, GD_I64, 1, (int64_t[]){(int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))}, \
                 (int64_t[]){__VA_ARGS__})

/* ---- numbers ---- */

/* GD_TEST_SHARE=n, set where suites are run once more, in another locale, on another device or under a sanitizer: those that
 * loop over hundreds of like cases take every n-th of them. */
int test_share(void);
int emulated_share(void); /* that under an emulator (./dev cross), 1 elsewhere */
/* splitmix64: a stream of its own, nothing to do with the library's generator. */
uint64_t random_bits(uint64_t *state);
double random_unit(uint64_t *state); /* [0, 1) */
int64_t random_below(uint64_t *state, int64_t limit);

/* What the tests themselves read and write has a decimal point, whatever locale the suite runs in. */
double point_strtod(const char *text, char **end);
int point_snprintf(char *out, size_t size, const char *format, ...) GD_PRINTF(3, 4);
int point_vsnprintf(char *out, size_t size, const char *format, va_list args) GD_PRINTF(3, 0);
int point_fprintf(FILE *file, const char *format, ...) GD_PRINTF(2, 3);
int point_fscanf(FILE *file, const char *format, ...) __attribute__((format(scanf, 2, 3)));
int point_sscanf(const char *text, const char *format, ...) __attribute__((format(scanf, 2, 3)));
#undef strtod
#undef snprintf
#undef vsnprintf
#undef fprintf
#undef fscanf
#undef sscanf
#define strtod    point_strtod
#define snprintf  point_snprintf
#define vsnprintf point_vsnprintf
#define fprintf   point_fprintf
#define fscanf    point_fscanf
#define sscanf    point_sscanf

/* Elements: value to memory (to nearest, ties to even; integers wrap) and back. */
void encode_item(gd_dtype dtype, long double value, void *out);
long double decode_item(gd_dtype dtype, const void *item);
/* The distance from 1 to the next number; 0 for integers. */
long double epsilon_of(gd_dtype dtype);

/* ---- plain arrays: row-major, long double ---- */

typedef struct array {
    int ndim;
    int64_t size[GD_MAX_DIMS], numel;
    long double *v;
    long double *scale; /* magnitude that rounding errors are relative to; NULL: |v| */
} array;

array array_new(int ndim, const int64_t *size);
void array_free(array *a);
/* Steps a row-major index; false after the last. */
bool array_next(const array *a, int64_t *index);
int64_t array_offset(const array *a, const int64_t *index);
/* The element that broadcasts to `index` of an array with ndim axes. */
long double array_broadcast(const array *a, const int64_t *index, int ndim);
/* Elements of a tensor, read with gd_read. */
array array_of(const gd_tensor *t);

#endif
