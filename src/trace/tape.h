/* Small work as single operations on numbers.
 *
 * The overhead of kernels over a few elements is a thousand times their work. Adjacent ones become a tape: every element is a
 * value of its own, copies and views vanish, equal work is done once, and unused values are dropped.  Loads come before
 * stores.  Every operation is that of the kernel for the element, so bits are the same.
 *
 * A tape is interpreted, or compiled as C. */
#ifndef GD_TRACE_TAPE_H
#define GD_TRACE_TAPE_H

#include "tensor/cpu/cpu.h"
#include "trace/replay.h"

#define GD_TAPE_ELEMENTS 32   /* of an operand, at most */
#define GD_LANE_ELEMENTS 1024 /* the same if each operation handles many problems */

/* Operations: name, operator, and expression in x, y, z and the number i, in f64 or f32. Interpreter, emitted C and the choice of
 * operations are generated from this list. PLAIN: the expression also works for vectors. */
#define GD_TAPE_PLAIN(X)             \
    X(ADD, add, x + y)               \
    X(SUB, sub, x - y)               \
    X(MUL, mul, x *y)                \
    X(DIV, div, x / y)               \
    X(NEG, neg, -x)                  \
    X(SQUARE, square, x *x)          \
    X(RECIPROCAL, reciprocal, 1 / x) \
    X(ADD_NUMBER, add_scalar, x + i) \
    X(MUL_NUMBER, mul_scalar, x *i)  \
    X(LERP, lerp, x + z * (y - x))
#define GD_TAPE_OPS(X)           \
    GD_TAPE_PLAIN(X)             \
    X(RELU, relu, x < 0 ? 0 : x) \
    X(RELU_GRAD, relu_grad, y > 0 ? x : 0)

typedef enum gd_tape_op {
#define GD_TAPE_ENUM(name, operator, expression) GD_TAPE_##name,
    GD_TAPE_OPS(GD_TAPE_ENUM)
#undef GD_TAPE_ENUM
        GD_TAPE_MATHS,
    GD_TAPE_LOAD = GD_TAPE_MATHS, /* from memory: buffer a, offset b */
    GD_TAPE_NUMBER,               /* i */
    GD_TAPE_KERNEL                /* the vector kernel of an operator, for one element */
} gd_tape_op;

typedef enum gd_tape_type { GD_TAPE_F64, GD_TAPE_F32, GD_TAPE_I64, GD_TAPE_BOOL, GD_TAPE_TYPES } gd_tape_type;

/* A value; its number is its index in the tape. */
typedef struct gd_tape_value {
    uint8_t op, type;
    uint16_t kernel; /* the operator */
    int32_t a, b, c; /* values, -1: none; of a load: buffer and offset */
    union {
        double f[2]; /* settings; f[0] is i */
        int64_t whole;
    } as;
    gd_vec_fn fn;
} gd_tape_value;

typedef struct gd_tape_store {
    int32_t value, buffer, offset;
} gd_tape_store;

typedef union gd_tape_slot {
    double f64;
    float f32;
    int64_t i64;
    uint8_t truth;
    const void *const *label; /* of the interpreter */
} gd_tape_slot;

/* A step of the interpreter: jump address of the operation, slots in bytes. Loads and stores: buffer x, offset y. A run, one operation for
 * adjacent slots, has two steps: the second has the count in `to`, and the strides of x, y and z. */
typedef struct gd_tape_step {
    const void *go;
    union {
        double i;
        const gd_tape_value *value;
    } as;
    uint32_t to, x, y, z;
} gd_tape_step;

typedef int (*gd_tape_fn)(char *const *base, void *slot, const void *kernel, const double *setting);

struct gd_tape {
    gd_ctx *ctx;
    gd_tape_value *value;
    gd_tape_store *store;
    gd_tape_slot *slot;
    gd_tape_step *step;
    int values, stores, value_room, store_room;
    int first, calls; /* of the body */
    gd_trace_compile compile;
    int64_t runs;
    gd_tape_fn compiled;
    bool tried, looked; /* to compile it; to load code compiled before */
    bool shares;        /* values, stores and steps are those of a different tape */
    gd_vec_fn *kernel;  /* compiled: those it calls, and two settings for each */
    double *setting;
    int kernels;
};

/* The tape of calls first .. first + calls - 1 of the body.  NULL: no memory, or the calls cannot be one; with no error. */
gd_tape *gd__tape_new(const gd_replay *p, int first, int calls);
void gd__tape_free(gd_tape *tape);
/* The same operations with separate slots, for a thread with a different context; `from` outlives it.  NULL: no memory. */
gd_tape *gd__tape_share(const gd_tape *from, gd_ctx *ctx);
/* The kernels that it calls when it is compiled, and their settings.  False: no memory. */
bool gd__tape_list_kernels(gd_tape *tape);
/* Its slots, with the numbers in them, and its steps.  False: no memory. */
bool gd__tape_prepare(gd_tape *tape);
/* May a call with operands of so many elements be part of a tape? */
bool gd__tape_takes(const gd_replay *p, const gd_recorded *call, int64_t most);
void gd__tape_run(gd_tape *tape, char *const *base);
/* Is the way it runs decided? Then its function and arguments. */
bool gd__tape_settled(gd_tape *tape, gd_shortcut *how);
/* Always interprets it. */
void gd__tape_interpret(const gd_tape *tape, char *const *base);
/* Compiles it, or with `cached` only loads earlier code; afterwards it runs compiled if that succeeded and gives the interpreter's
 * bits for the present memory. */
void gd__tape_compile(gd_tape *tape, char *const *base, bool cached);

/* A tape that runs again and again, as a step of a loop. */
typedef struct gd_tape_move {
    int buffer;
    ptrdiff_t by; /* its address advances by so many bytes in each round */
} gd_tape_move;

typedef struct gd_tape_rounds {
    const gd_tape_move *move;
    int moves, carries;
    const int *from,
        *to; /* carries: pairs of buffers: a round reads from one what the previous round wrote to the other */
} gd_tape_rounds;

typedef int (*gd_tape_rounds_fn)(char *const *base, void *slot, const void *kernel, const double *setting,
                                 long long rounds);

/* All rounds as one function; NULL: it cannot be compiled, or with `cached` was not.  No error is recorded. */
gd_tape_rounds_fn gd__tape_compile_rounds(gd_tape *tape, const gd_tape_rounds *rounds, bool cached);

#endif
