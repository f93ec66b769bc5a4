/* Small work as single operations on numbers.
 *
 * Kernels over a few elements cost a thousand times what they compute.  Neighbouring ones become a tape: every element is a
 * value of its own, copies and views vanish, equal work is done once, and unused values are dropped.  Loads come before
 * stores.  Every operation is the one that the kernel does for that element, so bits stay.
 *
 * A tape is interpreted, or compiled as C. */
#ifndef GD_TRACE_TAPE_H
#define GD_TRACE_TAPE_H

#include "tensor/cpu/cpu.h"
#include "trace/replay.h"

#define GD_TAPE_ELEMENTS 32   /* of an operand, at most */
#define GD_LANE_ELEMENTS 1024 /* the same where many problems share the work of each operation */

/* Operations: their name, the operator they are and what they compute, of x, y, z and the number i, in f64 or f32.  Interpreter, C
 * and what becomes which operation are made of this list.  PLAIN: the expression is also one of vectors. */
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
    GD_TAPE_LOAD = GD_TAPE_MATHS, /* what is in memory: buffer a, offset b */
    GD_TAPE_NUMBER,               /* i */
    GD_TAPE_KERNEL                /* the vector kernel of an operator, for one element */
} gd_tape_op;

typedef enum gd_tape_type { GD_TAPE_F64, GD_TAPE_F32, GD_TAPE_I64, GD_TAPE_BOOL, GD_TAPE_TYPES } gd_tape_type;

/* A value; its number is its place in the tape. */
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

/* What the interpreter goes through: where it goes for an operation, slots in bytes.  Loads and stores: buffer x, offset y.  A run, one
 * operation for neighbouring slots, is two of them: the second has how many in `to`, and by how many slots x, y and z go on each time. */
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
    bool tried, looked; /* to compile it; for what was compiled before */
    bool shares;        /* values, stores and steps are those of a different tape */
    gd_vec_fn *kernel;  /* compiled: those it calls, and two settings for each */
    double *setting;
    int kernels;
};

/* The tape of calls first .. first + calls - 1 of the body.  NULL: no memory, or the calls cannot be one; with no error. */
gd_tape *gd__tape_new(const gd_replay *p, int first, int calls);
void gd__tape_free(gd_tape *tape);
/* The same operations with slots of its own, for a thread with a different context; `from` outlives it.  NULL: no memory. */
gd_tape *gd__tape_share(const gd_tape *from, gd_ctx *ctx);
/* The kernels that it calls when it is compiled, and their settings.  False: no memory. */
bool gd__tape_list_kernels(gd_tape *tape);
/* Its slots, with the numbers in them, and its steps.  False: no memory. */
bool gd__tape_prepare(gd_tape *tape);
/* May a call be a part of a tape, whose operands have so many elements? */
bool gd__tape_takes(const gd_replay *p, const gd_recorded *call, int64_t most);
void gd__tape_run(gd_tape *tape, char *const *base);
/* Whether it is known how it runs from now on; then with which function and arguments. */
bool gd__tape_settled(gd_tape *tape, gd_shortcut *how);
/* Interprets it whatever there is. */
void gd__tape_interpret(const gd_tape *tape, char *const *base);
/* Compiles it, or with `cached` only looks whether that was done before; afterwards it runs compiled if that went well and
 * gives the bits of the interpreter for what is in memory. */
void gd__tape_compile(gd_tape *tape, char *const *base, bool cached);

/* A tape that runs again and again, as a step of a loop. */
typedef struct gd_tape_move {
    int buffer;
    ptrdiff_t by; /* its memory is so many bytes further on in each round */
} gd_tape_move;

typedef struct gd_tape_rounds {
    const gd_tape_move *move;
    int moves, carries;
    const int *from,
        *to; /* carries: buffers that a round reads what the one before has written to the other */
} gd_tape_rounds;

typedef int (*gd_tape_rounds_fn)(char *const *base, void *slot, const void *kernel, const double *setting,
                                 long long rounds);

/* All rounds as one function; NULL: it cannot be compiled, or with `cached` was not.  No error is recorded. */
gd_tape_rounds_fn gd__tape_compile_rounds(gd_tape *tape, const gd_tape_rounds *rounds, bool cached);

#endif
