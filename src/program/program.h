/* Programs: the compiled form of rules.
 *
 * A program is a list of instructions in the order they were made; an operand is the number of an earlier instruction.
 * Instructions are of two kinds:
 *   uniform   the same for a whole tensor: settings, step counts, norms and arithmetic on them; run once per tensor in f64
 *   element   run for every element in the compute type (f64 for f64 tensors, else f32)
 *
 * Reductions cut a program into passes.  Pass k computes the reductions of level k and writes nothing; the last pass
 * recomputes everything from the unchanged arrays and does all writes, so no temporary is stored:
 *
 *   clip_norm(1) | adam | lr(0.1):   pass 0: read g            -> sum g*g
 *                                    pass 1: read g, m, v, p   -> write m, v, p
 *
 * Values may also vary along some axes only: one per row, or one per column.  A sum along axes makes such a value out of a finer
 * one.  Adjacent axes that no value distinguishes count as one, the innermost last, and a set of them is a mask of bits. Values of
 * one mask form a space; each pass runs over one space, and reads values of a coarser space from memory:
 *
 *   centralize(dim=1) | lr(0.1):     pass 0: over elements: read g       -> sum along the rows, one per row
 *                                    pass 1: over rows:     read the sum -> write the mean, which elements read, to scratch
 *                                    pass 2: over elements: read g, mean, p -> write p */
#ifndef GD_PROGRAM_PROGRAM_H
#define GD_PROGRAM_PROGRAM_H

#include "base/text/text.h"
#include "gradus/link/rule.h"

/* Instructions.  Those for elements are rows of tensor/ops.def, by their names, and a few more (GD_MORE_ELEMENTS in element.h);
 * GD_INSTR_LIST has the others: name and number of operands. */
/* clang-format off */
#define GD_INSTR_LEAVES(X)                                                                                      \
    X(CONST, 0)   /* imm */                                                                                     \
    X(UNIFORM, 0) /* uniform input `index` */                                                                   \
    X(LOAD, 0)    /* array `index` */                                                                           \
    X(RANDOM, 2)  /* random numbers, one per element: key and step, both uniform; array `index` represents them */
#define GD_INSTR_REDUCTIONS(X)                                                                                  \
    /* of an element value: uniform results */                                                                  \
    X(SUM, 1) X(MAXIMUM, 1)                                                                                     \
    /* along axes: one result per position on the other axes */                                                   \
    X(SUM_ALONG, 1) X(MAXIMUM_ALONG, 1)
/* Elements that are not operators of tensors: name, operands, what it computes (as in ops.def) */
#define GD_MORE_ELEMENTS(X)                                                                                     \
    X(scalar_pow, 2, F(scalar_pow)(a, b))          /* a^b with the bits of gd_pow_scalar */                     \
    X(as_f16, 1, F(as_f16)(a))                     /* rounded to a half and back */                             \
    X(as_bf16, 1, F(as_bf16)(a))
/* clang-format on */

/* Rows of ops.def that take floats are instructions. */
#define GD_IF_FLOATS(...) __VA_ARGS__
#define GD_IF_INTS(...)   __VA_ARGS__
#define GD_IF_ANY(...)    __VA_ARGS__
#define GD_IF_WHOLE(...)

typedef enum gd_opcode {
#define GD_INSTR_ENUM(name, ...) GD_I_##name,
    GD_INSTR_LEAVES(GD_INSTR_ENUM)
#define ELEMENT(name, inputs, settings, kind, needs, takes, ...) GD_IF_##takes(GD_I_##name, )
#define ELEMENT0(name, inputs, settings, kind, takes, ...)       GD_IF_##takes(GD_I_##name, )
#define ELEMENT_C(...)
#include "tensor/ops.def"
        GD_MORE_ELEMENTS(GD_INSTR_ENUM) GD_INSTR_REDUCTIONS(GD_INSTR_ENUM)
#undef GD_INSTR_ENUM
            GD_I_COUNT
} gd_opcode;

typedef struct gd_instr {
    uint8_t op;
    uint8_t uniform; /* 1: once per tensor, in f64 */
    uint8_t level;   /* passes that must run before it is known; a reduction: one more than its operand */
    uint8_t extent;  /* reductions: GD_EACH or GD_ALL */
    uint16_t
        along; /* the axes it varies along; 0 where it is uniform, and everywhere in programs without axes */
    int16_t place;   /* scratch array for values of coarser passes read by finer ones, -1: none */
    int32_t a, b, c; /* operands, -1: none */
    int32_t index;   /* LOAD, RANDOM: array; UNIFORM: uniform input; reductions: reduction number */
    double imm;      /* CONST */
} gd_instr;

/* The source of an array of a program. */
typedef enum gd_array_kind {
    GD_ARRAY_INPUT, /* the incoming update (or gradient) */
    GD_ARRAY_PARAM,
    GD_ARRAY_GRAD,
    GD_ARRAY_STATE,   /* slot `slot` of its owner */
    GD_ARRAY_HOLE,    /* result number `slot` of a child that is not a rule */
    GD_ARRAY_SCRATCH, /* values passed between passes, of the executor; number `slot` */
    GD_ARRAY_RANDOM, /* not in memory: stream `slot` / GD_RANDOM_KINDS of its owner, of the kind that remains */
    GD_ARRAY_OUTPUT /* where a materialised update goes */
} gd_array_kind;

typedef struct gd_array {
    gd_array_kind kind;
    gd_dtype dtype;    /* in memory; GD_U8: codes of eight bits, see base/narrow.h */
    bool positive;     /* of codes: for numbers that are never negative */
    int rest, rest_of; /* of codes: the array of their errors, and its owner; numbers from 1 on, 0: none */
    bool
        by_chance; /* 16-bit values are rounded stochastically, from the uniform instruction `chance` in [0, 1), and not to nearest */
    int32_t chance;
    bool second; /* of two arrays that share the random bits of `chance`: takes the lower ones */
    void *owner; /* STATE: its owner; opaque here */
    int slot;
    int32_t store;    /* instruction whose value is written by the last pass, -1: only read */
    bool loaded;      /* a LOAD reads it */
    uint16_t along;   /* the axes it has */
    uint16_t without; /* STATE: the axes of the parameter that it lacks, by their numbers there */
} gd_array;

/* The source of a uniform input. */
typedef enum gd_uniform_kind {
    GD_U_SETTING, /* setting `index` of its owner */
    GD_U_STEP,    /* runs of its owner over this tensor, this one included */
    GD_U_NUMEL,   /* elements of this tensor (GD_EACH) or of all (GD_ALL, index 1) */
    GD_U_FRESH,   /* 1 when slot `index` of its owner was made for this run */
    GD_U_SCALAR,  /* scalar `index` of its owner for this tensor */
    GD_U_SIZE,    /* product of the sizes of the axes in the mask `index`, by their numbers in the tensor */
    GD_U_KEY,     /* of the owner's random numbers for this tensor: a whole number below 2^53 */
    GD_U_DRAW, /* random number `index` / 2 of its owner in [0, 1): of this tensor (even), or one for all (odd) */
    GD_U_LOSS,
    GD_U_EXTERNAL /* number `index` given by the caller */
} gd_uniform_kind;

typedef struct gd_uniform {
    gd_uniform_kind kind;
    void *owner; /* opaque here */
    int index;
    int32_t store; /* SCALAR: uniform instruction written back after the last pass, -1: none */
} gd_uniform;

#define GD_MAX_INSTRS     512
#define GD_MAX_ARRAYS     32
#define GD_MAX_UNIFORMS   96
#define GD_MAX_REDUCTIONS 16
#define GD_MAX_PASSES     96

typedef struct gd_program {
    gd_ctx *ctx;
    gd_dtype compute; /* GD_F32 or GD_F64 */
    bool
        eager; /* exp, log, tanh and pow are those of operators; else the C library's, which older optimizer results used in f64 */
    int count, arrays, uniforms, reductions, levels; /* levels: passes = levels + 1 */
    gd_instr instr[GD_MAX_INSTRS];
    gd_array array[GD_MAX_ARRAYS];
    gd_uniform uniform[GD_MAX_UNIFORMS];
    int32_t reduction[GD_MAX_REDUCTIONS]; /* instruction of each reduction */
    int axes;                             /* 0: no value tells axes apart */
    uint16_t full;                        /* all of them; what elements vary along */
    int8_t
        axis_of[GD_MAX_DIMS]; /* to which of them each axis of the tensor belongs, -1: none, its size is 1 */
} gd_program;

/* Represents the axes of a tensor of one element, and of values without axes that are not uniform. */
#define GD_AXIS_ONE (1u << 15)
/* The relevant axes of a tensor: those longer than 1. */
uint16_t gd__axes_full(int ndim, const int64_t *size);
/* The axes of a value computed from two. */
uint16_t gd__axes_union(uint16_t a, uint16_t b);
/* Ends the making of a program whose masks are of the tensor's own axes: joins indistinguishable axes, and assigns memory to values
 * that finer passes read.  OVERFLOW: too many of them. */
gd_status gd__program_axes(gd_program *p, int ndim);
/* Moves reduction r, and values that depend on it, to `level` or later. */
void gd__program_delay(gd_program *p, int r, int level);
/* The sizes of the program's axes for a tensor: p->axes of them. */
void gd__program_sizes(const gd_program *p, int ndim, const int64_t *size, int64_t *out);
/* The number of elements along these axes; size: those of the program's axes. */
int64_t gd__axes_numel(const gd_program *p, const int64_t *size, uint16_t along, int64_t numel);

void gd__program_free(gd_program *p); /* with its memory; NULL is fine */

/* ---- verifying ---- */

/* Checks order of operands, arities, levels, uniformity, array bounds, single stores; INTERNAL names the instruction. */
gd_status gd__program_verify(const gd_program *p);

/* ---- one pass, the interface of kernels ----
 *
 * A kernel runs n consecutive elements of one tensor, from number `start` of them on; where it writes codes, whole blocks:
 *   array[k]   pointer to the first of the n elements of array k (arrays a pass does not touch may be NULL); of codes: to that
 *              of the first element of the tensor
 *   scalar[k]  value of uniform instruction number used[k] for this tensor, in f64; elements use it in the compute type;
 *              from gd__chances_at on: those that round by chance
 *   out[k]     partial result of the k-th reduction of this pass (sums in sixteen lanes as reduce.c does), f64; of no
 *              elements: 0 for a sum, -infinity for a maximum
 * Reductions are combined by the caller over fixed chunks, so that results do not depend on threads. */
typedef void (*gd_kernel_fn)(int64_t start, int64_t n, char *const *array, const double *scalar, double *out);

typedef enum gd_pass_kind {
    GD_PASS_PREPARE, /* writes values of its space for finer passes */
    GD_PASS_REDUCE,  /* to uniform values */
    GD_PASS_ALONG,   /* along axes */
    GD_PASS_STORE    /* writes the results of the program */
} gd_pass_kind;

typedef struct gd_pass {
    int level;
    bool last;
    gd_pass_kind kind;
    uint16_t along; /* the space it walks over; p->full: all elements */
    uint32_t views; /* arrays of coarser spaces among the loads */
    int sums;
    int32_t sum[GD_MAX_ARRAYS]; /* instructions of the reductions along axes */
    int used_count, scalars;
    /* uniform instructions that elements of this pass read; up to `scalars`: also keys and steps of its random numbers, and
     * those that round by chance */
    int32_t used[GD_MAX_INSTRS + 3 * GD_MAX_ARRAYS];
    bool needed[GD_MAX_INSTRS]; /* element instructions of this pass */
    int reductions;
    int32_t reduction[GD_MAX_REDUCTIONS]; /* reduction numbers computed by this pass */
    uint32_t loads, stores;               /* bits of arrays */
    int randoms;
    int32_t random
        [GD_MAX_ARRAYS]; /* RANDOM instructions: their arrays, among the loads, are made for every chunk */
    int chances;
    int32_t chance[GD_MAX_ARRAYS]; /* arrays it stores with stochastic rounding */
} gd_pass;

/* The index in the scalars of a pass where keys of stochastic rounding begin: after keys and steps of random numbers. */
static inline int gd__chances_at(const gd_pass *pass) { return pass->used_count + 2 * pass->randoms; }

/* A stream of random numbers: element i of a tensor gets the i-th on any device. */
#define GD_RANDOM_KINDS 4
typedef struct gd_stream {
    uint64_t key;
    uint64_t high; /* of the counter: the step, and above 32 bits the number of the stream in its link */
    int kind;      /* gd_random_kind */
} gd_stream;
static inline gd_stream gd__stream(const gd_program *p, const gd_instr *in, double key, double step)
{
    uint64_t slot = (uint64_t)p->array[in->index].slot;
    return (gd_stream){.key = (uint64_t)key,
                       .high = (slot / GD_RANDOM_KINDS) << 32 | (uint32_t)(uint64_t)step,
                       .kind = (int)(slot % GD_RANDOM_KINDS)};
}

/* The passes in the order in which they run.  Without axes: one per level, and the last, number p->levels, stores. */
int gd__program_passes(const gd_program *p);
void gd__program_pass(const gd_program *p, int number, gd_pass *pass);
/* The array that an instruction is read from in a pass, -1: it is computed there. */
int gd__array_read(const gd_program *p, const gd_pass *pass, int32_t instr);

/* The space of a reduction along axes, independent of others in the same pass: blocks of rows of columns.
 *   columns   the innermost axes, reduced or kept alike
 *   rows      if columns are kept: the axes next to them, which are reduced; else all other axes
 *   blocks the remaining axes */
typedef struct gd_tiling {
    uint16_t inner, next;
    bool columns_kept;
} gd_tiling;
gd_tiling gd__tiling(const gd_program *p, const gd_instr *in);

typedef struct gd_uniform_item {
    uint8_t op, level;
    int16_t to, index, a, b, c;
} gd_uniform_item;
typedef struct gd_uniform_list {
    bool eager;                              /* as the program */
    int steady;                              /* this many from the first on are constant over runs */
    gd_uniform_item item[GD_MAX_INSTRS + 1]; /* by level, followed by one with a level that no pass has */
} gd_uniform_list;
/* Does an input of this kind change between runs even if settings and memory do not? */
static inline bool gd__changes_each_run(gd_uniform_kind kind)
{
    return kind == GD_U_STEP || kind == GD_U_SCALAR || kind >= GD_U_KEY;
}
/* The uniform instructions that passes need (NULL: all of them); constants are put into `value`, one f64 an instruction. */
void gd__program_list_uniforms(const gd_program *p, const gd_pass *pass, int passes, gd_uniform_list *list,
                               double *value);
/* Runs those from number `from` on up to `level` for one tensor.  input: values of the uniform inputs; reduced: results of
 * earlier reductions (by number). */
void gd__program_uniforms(const gd_uniform_list *list, int from, int level, const double *input,
                          const double *reduced, double *value);

/* ---- executors ---- */

/* The reference: blocks of elements, one instruction at a time.  Same contract as a kernel. */
void gd__interpret(const gd_program *p, const gd_pass *pass, int64_t start, int64_t n, char *const *array,
                   const double *scalar, double *out);

#define GD_KERNELS_TOGETHER 32 /* at most, in one call of the compiler */

/* A pass that is to have a kernel. */
typedef struct gd_kernel_wish {
    const gd_program *p;
    const gd_pass *pass;
    gd_kernel_fn fn; /* NULL: interpret */
} gd_kernel_wish;

/* Hash of the emitted text, which is equal for passes whose kernels are equal: links and settings do not enter. */
uint64_t gd__program_hash(const gd_program *p, const gd_pass *pass);

/* Text that grows.  A failure (no memory) sticks, and is recorded in the context. */
void gd__emit_c(const gd_program *p, const gd_pass *pass, const char *name, gd_text *out);
/* What the emitted C of some passes uses: the helper functions (base/vmath.h, narrow.h) and the names of functions. */
void gd__emit_c_prelude(const gd_kernel_wish *list, int count, gd_text *out);
/* Only the names, for a file that includes base/vmath.h. */
void gd__emit_c_names(gd_text *out);

/* Values equal for every tensor of a table: everything that depends only on them is computed by the host. */
enum { GD_COMMON_SETTINGS = 1, GD_COMMON_STEPS = 2, GD_COMMON_ALL = 3 };
/* The same pass as the source of a kernel over a table of tensors, in the words of a backend (dialect.h). */
struct gd_dialect;
void gd__emit_table(const gd_program *p, const gd_pass *pass, const struct gd_dialect *d, const char *name,
                    int common, gd_text *out);
/* Elements that a thread of such a kernel has at a time. */
int gd__table_width(const gd_program *p, const gd_pass *pass);
/* Threads of a block of it. */
int gd__table_threads(const gd_program *p, const gd_pass *pass);
/* A source of its own: the kernels join_chunks, join_all and join_along. */
void gd__emit_joins(const struct gd_dialect *d, gd_text *out);
/* The uniform instructions whose values are arguments of that kernel, in order; returns their number. */
int gd__table_common(const gd_program *p, const gd_pass *pass, int common, int32_t *list);
/* The uniform inputs that differ between tensors: the columns of the table on the device, a row per tensor. */
int gd__table_inputs(const gd_program *p, int common, int32_t *list);

typedef enum gd_executor { GD_EXEC_INTERPRETER, GD_EXEC_BUILT_IN, GD_EXEC_COMPILED } gd_executor;

/* The best kernel for a pass: built in, then compiled by the system compiler if the context allows it (cached in memory
 * and on disk), else NULL: interpret.  Never records an error. */
gd_kernel_fn gd__kernel_for(gd_ctx *ctx, const gd_program *p, const gd_pass *pass, gd_executor *how);
/* The same for several passes at once: those that are neither built in nor in memory are compiled by one call of the compiler, and kept
 * together on disk.  stored: only those that such a call left in memory or on disk. */
void gd__kernels_for(gd_ctx *ctx, gd_kernel_wish *wish, int count, bool stored);
/* The function gd_kernel of a C source of one's own, compiled and kept in the same way; stored: only if that was done before and is
 * in memory or on disk.  NULL: not available. Its results are not checked.  Never records an error. */
void *gd__compiled_text(gd_ctx *ctx, const char *source, bool stored);
/* The reason why the last compilation gave no kernel; "" if nothing went wrong. Borrowed from the context. */
const char *gd__kernel_trouble(gd_ctx *ctx);

/* Built-in programs: a table for each instruction set, sorted by hash.  Made by gen_builtin at build time; weak, as the
 * generator itself is linked without. */
typedef struct gd_builtin {
    uint64_t hash;
    gd_kernel_fn fn;
} gd_builtin;

typedef struct gd_builtin_table {
    const gd_builtin *item;
    size_t count;
} gd_builtin_table;

extern const gd_builtin_table gd__builtin_base __attribute__((weak));
extern const gd_builtin_table gd__builtin_avx2 __attribute__((weak));
extern const gd_builtin_table gd__builtin_avx512 __attribute__((weak));

#endif
