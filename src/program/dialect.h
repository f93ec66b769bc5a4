/* How a backend writes kernels: text fragments for the emitter, and the arguments of a launch.
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
 * Values of a coarser space are looked up for each element (look).  One that reduces along axes walks over
 * tiles instead (gd_table_tile): `lanes` of a block's threads work side by side on a row, groups of them on different rows.
 *
 *   tile_head                   as head; c is a tile
 *     lanes                     the position of a thread, l, and its first column
 *     rows                      over the rows of the tile, a row per group; take and so on as above
 *       join_row                the sum of a row, into L.along
 *     join_column               the sum of a column, into L.along
 *   tail
 *
 * A backend with a dialect also has program and launch in its table; without them, its programs are interpreted. */
#ifndef GD_PROGRAM_DIALECT_H
#define GD_PROGRAM_DIALECT_H

#include <stdint.h>

#define GD_DIALECT_TYPES  2 /* f32, f64 */
#define GD_DIALECT_DTYPES 5 /* f32, f64, f16, bf16, codes */

typedef struct gd_dialect {
    const char *type[GD_DIALECT_TYPES];   /* of values */
    const char *suffix[GD_DIALECT_TYPES]; /* of functions and constants */
    const char *own;                      /* prefix of the names of the library's own functions; NULL: none */
    const char *memory[GD_DIALECT_DTYPES]; /* elements of an array */
    const char *load[GD_DIALECT_DTYPES];   /* an element, %s, as f32 or f64; not of codes */
    const char *store[GD_DIALECT_DTYPES];  /* a value, %s, as an element; not of codes */
    const char *const *prelude;            /* lines before every kernel, NULL-terminated */
    const char *const *joins;              /* lines before them in the source of join_chunks and join_all */
    const char *const *codes;              /* lines after base/narrow.h in kernels that read or write codes */
    const char *codes_begin;               /* the beginning of such a kernel */
    const char *value;                     /* %s, %s: "signed" or "positive", a code; as f32 */
    const char *head;                      /* of the function %s; %s: codes_begin, or nothing */
    const char *loop;                      /* its four %s are the width */
    /* Passes that write codes: threads that share a block stay together, `left` may be negative, and the next piece is
     * prefetched while one is processed. */
    const char *coded_width; /* elements of a thread in such passes */
    const char *even;        /* %s, %d: width, number of an array: and it may be moved in whole pieces */
    const char *ahead;       /* opens what reads the piece at i; its three %s are the width */
    const char *room_ahead;  /* %s, %s, %d: memory word, width, number of an array: its prefetched value */
    const char *take_ahead;  /* %d: number of the array twice */
    const char *arrive;      /* the same: converts prefetched values to elements */
    const char *begin_ahead; /* closes it and reads a thread's first piece; %s: width */
    const char *coded_loop;  /* its four %s are the width */
    const char *go_ahead;    /* reads the next piece; %s: width */
    const char *
        largest; /* %s, %s, %d: kind, width, array: the largest size of a block's numbers, in all its threads */
    const char *code;       /* %s, %s, %d: kind, width, array three times: numbers become codes */
    const char *coded_give; /* as give */
    const char *unroll;     /* before the loop over the elements of a piece */
    const char *take;       /* %s, %d: width, number of the array twice */
    const char *give;       /* the same */
    const char *join;       /* %s: "true" for a maximum, "false" for a sum; %d: number, columns, number */
    const char *tail;
    const char
        *look; /* %s, %d: width, axes of the program; %u: the space's, the array's; %d: array twice, axes */
    const char *tile_head, *lanes, *rows; /* as head; their %d are the width */
    const char *join_row;                 /* %s: "true" for a maximum; %d: number of the sum, sums, number */
    const char *join_column;              /* %s, %d: the same; number, sums, number */
} gd_dialect;

/* ---- arguments of kernels ---- */

#define GD_LAUNCH_COMMON 96  /* uniform values in a launch, at most */
#define GD_DEVICE_TABLES 16  /* most tables whose reductions are joined on the device */
#define GD_TILE_LANES    32  /* most threads in a row of a tile */
#define GD_THREADS       256 /* of a block */
#define GD_CODED_THREADS 128 /* of one that reads or writes codes */

typedef struct gd_table_chunk {
    int64_t start, n, member;
} gd_table_chunk;

/* Rows of `columns` elements from `first` on, of which n: the sum of row r goes to rows_at + r * row_step of the partial
 * results of its sum, that of column k to columns_at + k.  start is 0. */
typedef struct gd_table_tile {
    int64_t start, n, member;
    int64_t first, rows, columns, rows_at, row_step, columns_at;
} gd_table_tile;

typedef struct gd_table_launch {
    const void *chunk;
    int64_t chunks;
    const void *pointer, *input, *reduced;
    void *partial;
    const void *size;     /* [members, axes] */
    void *along;          /* partial results along axes */
    const void *along_at; /* [members, sums] where they begin */
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

/* Positions of partial results of a member: [others, steps, columns] from `at` on. */
typedef struct gd_along_place {
    int64_t at, columns, steps;
} gd_along_place;

/* join_along: the partial results of a sum along axes -> array `array` of every member.  chunk: of the results. */
typedef struct gd_along_launch {
    const void *chunk;
    int64_t chunks;
    const void *place, *along, *pointer, *size;
    int64_t arrays, array, axes, others, kept;
    int max, wide; /* wide: results are f64 */
} gd_along_launch;

/* join_all, one block: all members of all tables together, and the result back to each. */
typedef struct gd_join_all_launch {
    void *reduced[GD_DEVICE_TABLES];
    int64_t members[GD_DEVICE_TABLES], tables, reductions, number;
    int max;
} gd_join_all_launch;

#endif
