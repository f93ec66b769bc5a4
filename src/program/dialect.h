/* How a backend writes kernels: the words the emitter puts programs together from, and what a launch gives a kernel.
 *
 * A kernel runs one pass over a table of tensors.  Its only argument is a gd_table_launch, called L; a block works on one
 * chunk of one member at a time, a thread on a few neighbouring elements:
 *
 *   head                        opens the function and the loop over chunks: b is the chunk's number, c the chunk
 *     s0, s1, ...               uniform values of this member: the host's (L.common), or computed here
 *     loop                      over pieces of `width` elements; `left` of them are in the chunk
 *       take                    those elements of every array the pass reads, into a0, a1, ...
 *       v0, v1, ...             the instructions, for each of them
 *       give                    the arrays it writes
 *     join                      a reduction of the block, into L.partial
 *   tail
 *
 * A backend that brings a dialect also has program and launch in its table; one that has neither gets its programs from the
 * interpreter. */
#ifndef GD_PROGRAM_DIALECT_H
#define GD_PROGRAM_DIALECT_H

#include <stdint.h>

#define GD_DIALECT_TYPES  2 /* f32, f64 */
#define GD_DIALECT_DTYPES 4 /* f32, f64, f16, bf16 */

typedef struct gd_dialect {
    const char *type[GD_DIALECT_TYPES];    /* of values */
    const char *suffix[GD_DIALECT_TYPES];  /* of functions and constants: _T in element.h */
    const char *memory[GD_DIALECT_DTYPES]; /* elements of an array */
    const char *load[GD_DIALECT_DTYPES];   /* an element, %s, as f32 or f64 */
    const char *store[GD_DIALECT_DTYPES];  /* a value, %s, as an element */
    const char *const *prelude;            /* lines before every kernel, NULL-terminated */
    const char *const *joins;              /* lines before them in the source of join_chunks and join_all */
    const char *head;                      /* of the function %s */
    const char *loop;                      /* its four %d are the width */
    const char *unroll;                    /* before the loop over the elements of a piece */
    const char *take;                      /* %d: width, number of the array twice */
    const char *give;                      /* the same */
    const char *join; /* %s: "true" for a maximum, "false" for a sum; %d: number, columns, number */
    const char *tail;
} gd_dialect;

/* ---- what kernels get ---- */

#define GD_LAUNCH_COMMON 96 /* most uniform values that go with a launch */
#define GD_DEVICE_TABLES 16 /* most tables whose reductions are joined on the device */

typedef struct gd_table_chunk {
    int64_t start, n, member;
} gd_table_chunk;

typedef struct gd_table_launch {
    const void *chunk;
    int64_t chunks;
    const void *pointer, *input, *reduced;
    void *partial;
    double common[GD_LAUNCH_COMMON];
} gd_table_launch;

/* join_chunks: partial[chunk * columns + column] of the chunks first[m] to first[m + 1] -> reduced[m * reductions + number] */
typedef struct gd_join_launch {
    const void *partial;
    void *reduced;
    const void *first;
    int64_t members, reductions, number, column, columns;
    int max;
} gd_join_launch;

/* join_all, one block: all members of all tables together, and the result back to each. */
typedef struct gd_join_all_launch {
    void *reduced[GD_DEVICE_TABLES];
    int64_t members[GD_DEVICE_TABLES], tables, reductions, number;
    int max;
} gd_join_all_launch;

#endif
