/* Element-wise work over long arrays in one pass.
 *
 * A loop is a group of calls of the body: element-wise operators, broadcasts, copies, slices with unit step, their embedded
 * gradients, and the reductions that end them: sums, products, extremes, and softmax and its relatives along rows.  Elements are counted in memory
 * order, so that a slice, or a row of a matrix, is the same array with a different start, and reshaping is free.  Values used only inside the
 * group are never stored:
 *
 *   domain   all stores and sums of one number of elements
 *   region   a range of a domain in which every embedded operand is either inside or outside: a program (program/program.h) with
 *            the flag `eager`.  The program reads element i + shift of its operands; values of the group are recomputed for each shift
 *   block    the elements of a domain that operators sum first; a task processes its blocks of all domains
 *
 *   chained Rosenbrock: domain n - 1: sum f(x[i], x[i+1]);  domain n: store g(x[i], x[i+1]) + h(x[i-1], x[i]), whose first and
 *   last element are separate regions
 *
 * A reduction is made of a block that its program has just written: in the operator's order, by its loops.  Bits are those of
 * operators. */
#ifndef GD_TRACE_TRACE_LOOP_H
#define GD_TRACE_TRACE_LOOP_H

#include "program/program.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/row_kernels.h"
#include "trace/replay.h"

#define GD_LOOP_NODES   64
#define GD_LOOP_DOMAINS 8
#define GD_LOOP_REGIONS 24 /* of all domains */
#define GD_LOOP_SUMS    8
#define GD_LOOP_TASKS   64
#define GD_LOOP_PIECE   4096 /* elements that a program runs over at a time */

/* How a reduction joins elements: GD_FOLD_*, or these: exponentials of whole rows. */
#define GD_LOOP_EXPONENTIALS GD_FOLD_COUNT

/* A call of the group. */
typedef struct gd_loop_node {
    int place; /* in the body */
    const gd_recorded *call;
    const gd_operand *in, *out;
    int64_t numel; /* of the result; of a reduction: of its operand */
    bool sums;     /* a reduction, also below */
    int fold;      /* of it */
    int64_t start; /* of an embedded operand: its first element in the result */
    bool
        padded; /* an embedded operand that is not a range of the result: gathered, with the fill around it */
    int views;  /* operands that are gathered */
} gd_loop_node;

/* The calls of a group, and the buffers they write. */
typedef struct gd_loop_group {
    const gd_replay *p;
    gd_loop_node node[GD_LOOP_NODES];
    int nodes, most, views;
    gd_dtype dtype; /* of the numbers: f32 or f64 */
    bool shifts;    /* values of the group may be read at shifted positions */
    int32_t *made;  /* [buffers] 1 + the node that makes it */
} gd_loop_group;

/* Numbers of a program in memory. */
typedef struct gd_loop_array {
    int buffer;
    gd_dtype dtype;
    bool gathered;  /* read: strides, or bool: element by element into room of the task */
    int64_t offset; /* in bytes, of element 0 of the domain */
    int64_t shift;  /* gathered: of the operand's elements */
    int ndim;
    int64_t size[GD_MAX_DIMS], stride[GD_MAX_DIMS]; /* gathered */
    int64_t period; /* gathered: element i + period is element i; 0: it does not repeat */
    int64_t numel;
    const gd_recorded *embed; /* gathered into a longer tensor: the call, its input and output; else NULL */
    const gd_operand *from, *to;
    size_t room;        /* in the room of a task: what is gathered, or the block that is stored */
    bool stored, whole; /* stored: its destination; whole: to task memory, for a sum, or for a conversion */
} gd_loop_array;

typedef struct gd_loop_scalar {
    int buffer;
    gd_dtype dtype;
    int64_t offset;
} gd_loop_scalar;

typedef struct gd_loop_region {
    int64_t first, last;
    gd_program *program;
    gd_pass *pass;
    gd_kernel_fn kernel;
    int arrays, scalars;
    gd_loop_array array[GD_MAX_ARRAYS];
    gd_loop_scalar scalar[GD_MAX_ARRAYS];
    double number[GD_MAX_INSTRS]; /* the program's inputs, in its numbering */
    int64_t
        row; /* 0, or gathered operands have contiguous rows of so many elements: read in place, row by row */
    int64_t row_shift;
} gd_loop_region;

/* A result that is not stored by the program itself. */
typedef struct gd_loop_end {
    size_t room;    /* its operand, in the memory of a task */
    gd_dtype dtype; /* bool: to be converted */
    bool sums;
    int fold;
    gd_op_id op;
    double scale;                                 /* of exponentials */
    int64_t outer, reduced, inner, chunk, chunks; /* of a sum, for operators */
    int buffer;
    int64_t offset;
    char *partial; /* owned; NULL: results are stored in place */
    size_t bytes;
} gd_loop_end;

typedef struct gd_loop_domain {
    int64_t numel, block, blocks;
    int region, regions; /* of the loop's */
    int ends;
    gd_loop_end end[GD_LOOP_SUMS];
} gd_loop_domain;

struct gd_loop {
    gd_ctx *ctx;
    gd_dtype dtype;
    int domains, regions, tasks;
    gd_loop_domain domain[GD_LOOP_DOMAINS];
    gd_loop_region *region;
    char *room; /* of all tasks */
    size_t task_room;
    bool shares;    /* programs and kernels are those of a different loop */
    int operations; /* instructions of all programs */
};

/* May a call be part of the group so far?  Fills the node. */
bool gd__loop_takes(const gd_loop_group *g, const gd_recorded *call, gd_loop_node *node);
/* The loop of a group; `later`: buffers that are read after it.  NULL: no memory, or it would be too long, or recompute too much. */
gd_loop *gd__loop_new(const gd_loop_group *g, const bool *later);
void gd__loop_free(gd_loop *loop); /* NULL is fine */
/* The same programs with separate memory, for a thread with a different context; `from` outlives it. It is compiled if `from` already is.
 * NULL: no memory. */
gd_loop *gd__loop_share(const gd_loop *from, gd_ctx *ctx);
void gd__loop_run(gd_loop *loop, char *const *base);
/* Before a run of the body: compiles the programs of all its loops, in one call of the compiler, if interpreting them has taken as long;
 * kernels of an earlier compilation are taken from disk after the first run. */
void gd__loops_consider(gd_replay *p);
/* The approximate number of instructions of an operator. */
int gd__loop_cost(gd_op_id op);
/* Is it row-major without gaps? */
bool gd__loop_dense(const gd_operand *o);
/* The block length of a sum; -1: a loop cannot compute it. */
int64_t gd__loop_block(const gd_loop_node *node);

#endif
