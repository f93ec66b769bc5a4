/* Common code of reductions: the operand as [outer, reduced, inner], and tasks over pieces of it. */
#ifndef GD_TENSOR_CPU_REDUCE_H
#define GD_TENSOR_CPU_REDUCE_H

#include "tensor/cpu/cpu.h"
#include "tensor/cpu/row_kernels.h"

typedef struct gd_reduction {
    const gd_vec_table *vec;
    const gd_rows_table *rows; /* of the compute type; NULL: integers */
    const char *in, *other;    /* other: the second operand */
    char *out;
    char
        *partial; /* [outer, chunks, inner] of the compute type; the output itself when one chunk is enough */
    int64_t *place; /* the same for places */
    int64_t outer, reduced, inner;
    int64_t chunks, chunk, blocks, columns; /* columns: of a block */
    int64_t units, units_per_task;
    int type, fold;
    gd_dtype dtype;            /* of the operand */
    gd_convert_fn load, store; /* from it to the compute type, and from that to the result; NULL: the same */
    size_t item, step;         /* bytes of an element of the compute type, and of the operand */
    int64_t
        causal; /* rows of a matrix whose row i has elements only up to column i, counted from its end; 0: no matrix */
    double f;            /* scale or eps */
    bool reverse, tiled; /* tiled: short rows, GD_TILE_ROWS in a unit */
    gd_op_id op;
} gd_reduction;

gd_reduction gd__reduction_of(gd_device *device, const gd_call *call);

/* Runs fn over `units` pieces of work of about `size` elements each. */
void gd__spread(gd_device *device, gd_reduction *v, int64_t units, int64_t size, void (*fn)(void *, int64_t));

#define EACH_UNIT(v, task, u)                                                                        \
    for (int64_t u = (task) * (v)->units_per_task,                                                   \
                 end_ = u + (v)->units_per_task < (v)->units ? u + (v)->units_per_task : (v)->units; \
         u < end_; u++)

/* Folds v->in of floats into v->out, both of the compute type: GD_FOLD_*. */
gd_status gd__fold(gd_device *device, gd_reduction *v, int fold);

/* softmax, log_softmax or logsumexp of v->outer rows of v->reduced elements, one after the other, in this thread. */
void gd__exponentials_of_rows(gd_reduction *v);

/* Rows of the tile that is unit u of `rows` short ones. */
static inline int64_t gd__tile_rows(int64_t rows, int64_t u)
{
    int64_t left = rows - u * GD_TILE_ROWS;
    return left < GD_TILE_ROWS ? left : GD_TILE_ROWS;
}

#endif
