/* Programs made by hand or at random, and memory for them to run on: what the tests of executors share. */
#ifndef GD_TESTS_OPTIM_RANDOM_PROGRAM_H
#define GD_TESTS_OPTIM_RANDOM_PROGRAM_H

#include "base/narrow.h"
#include "support/support.h"

#include <math.h>

#include "base/math/gamma.h"
#include "program/element.h"

/* An empty one, to be freed. */
static inline gd_program *new_program(void)
{
    gd_program *p = calloc(1, sizeof *p);
    assert_non_null(p);
    return p;
}

/* ---- random numbers ---- */

static inline int pick(uint64_t *state, int n) { return (int)random_below(state, n); }

/* Mostly of order one, now and then anything: zeros, infinities, NaN, subnormals, huge, tiny. */
static inline double random_number(uint64_t *state)
{
    static const double special[] = {0,     -0.0,   1,      -1,    INFINITY, -INFINITY, NAN,
                                     1e-40, -1e-42, 1e-310, 1e300, -1e300,   1e38,      -1e38,
                                     1e-38, 65504,  -65520, 6e-8,  3,        0.5};
    if (pick(state, 8) == 0) return special[pick(state, (int)(sizeof special / sizeof *special))];
    return (random_unit(state) - 0.5) * (pick(state, 4) ? 4 : 200);
}

/* ---- building programs ---- */

static inline int32_t add_instr(gd_program *p, gd_instr in)
{
    int32_t operand[3] = {in.a, in.b, in.c};
    int n = gd__opcode_operands(in.op);
    in.place = -1;
    in.uniform = !gd__is_load(in.op);
    if (gd__is_load(in.op) && in.index >= 0) in.along = p->array[in.index].along;
    for (int k = 0; k < n; k++) {
        const gd_instr *from = &p->instr[operand[k]];
        if (!from->uniform) in.uniform = 0;
        if (from->level > in.level) in.level = from->level;
        if (!gd__is_along(in.op)) in.along = gd__axes_union(in.along, from->along);
    }
    if (gd__is_along(in.op) && ++in.level > p->levels) p->levels = in.level;
    if (gd__is_reduction(in.op)) {
        in.uniform = 1;
        in.along = 0;
        in.level++;
        in.index = p->reductions;
        if (in.level > p->levels) p->levels = in.level;
        p->reduction[p->reductions++] = p->count;
    }
    p->instr[p->count] = in;
    return p->count++;
}

static inline int32_t add_op(gd_program *p, gd_opcode op, int32_t a, int32_t b, int32_t c)
{
    return add_instr(p, (gd_instr){.op = (uint8_t)op, .a = a, .b = b, .c = c, .index = -1});
}

static inline int32_t add_const(gd_program *p, double value)
{
    return add_instr(p, (gd_instr){.op = GD_I_CONST, .a = -1, .b = -1, .c = -1, .index = -1, .imm = value});
}

static inline int32_t add_uniform(gd_program *p)
{
    p->uniform[p->uniforms] = (gd_uniform){.kind = GD_U_EXTERNAL, .index = p->uniforms, .store = -1};
    return add_instr(p, (gd_instr){.op = GD_I_UNIFORM, .a = -1, .b = -1, .c = -1, .index = p->uniforms++});
}

static inline int32_t add_array(gd_program *p, gd_dtype dtype)
{
    p->array[p->arrays] = (gd_array){
        .kind = GD_ARRAY_STATE, .slot = p->arrays, .dtype = dtype, .store = -1, .along = p->full};
    return p->arrays++;
}

static inline int32_t add_load(gd_program *p, int32_t from)
{
    p->array[from].loaded = true;
    return add_instr(p, (gd_instr){.op = GD_I_LOAD, .a = -1, .b = -1, .c = -1, .index = from});
}

/* One result for each place on the axes that are kept. */
static inline int32_t add_along(gd_program *p, gd_opcode op, int32_t a, uint16_t kept)
{
    return add_instr(p, (gd_instr){.op = (uint8_t)op, .a = a, .b = -1, .c = -1, .index = -1, .along = kept});
}

/* Random numbers of a kind from stream number `stream`; key and step are uniform inputs of their own. */
static inline int32_t add_random(gd_program *p, gd_random_kind kind, int stream)
{
    int32_t from = add_array(p, p->compute), key = add_uniform(p), step = add_uniform(p);
    p->uniform[p->uniforms - 2].kind = GD_U_KEY;
    p->array[from].kind = GD_ARRAY_RANDOM;
    p->array[from].slot = stream * GD_RANDOM_KINDS + (int)kind;
    p->array[from].loaded = true;
    return add_instr(p, (gd_instr){.op = GD_I_RANDOM, .a = key, .b = step, .c = -1, .index = from});
}

/* Adam with decoupled weight decay after a clipped gradient, states in `state`: arrays g, p, m, v. */
static inline void make_adamw(gd_program *p, gd_ctx *ctx, gd_dtype compute, gd_dtype state, bool clip)
{
    *p = (gd_program){.ctx = ctx, .compute = compute};
    int32_t ag = add_array(p, compute), ap = add_array(p, compute), am = add_array(p, state),
            av = add_array(p, state);
    int32_t g = add_load(p, ag), w = add_load(p, ap), m = add_load(p, am), v = add_load(p, av);
    int32_t beta1 = add_uniform(p), beta2 = add_uniform(p), eps = add_uniform(p), decay = add_uniform(p),
            lr = add_uniform(p);
    if (clip) {
        int32_t sum = add_instr(
            p,
            (gd_instr){
                .op = GD_I_SUM, .extent = GD_ALL, .a = add_op(p, GD_I_square, g, -1, -1), .b = -1, .c = -1});
        int32_t ratio = add_op(p, GD_I_div, add_const(p, 1), add_op(p, GD_I_sqrt, sum, -1, -1), -1);
        g = add_op(p, GD_I_mul, g, add_op(p, GD_I_minimum, ratio, add_const(p, 1), -1), -1);
    }
    m = add_op(p, GD_I_add, m, add_op(p, GD_I_mul, beta1, add_op(p, GD_I_sub, g, m, -1), -1), -1);
    int32_t g2 = add_op(p, GD_I_square, g, -1, -1);
    v = add_op(p, GD_I_add, v, add_op(p, GD_I_mul, beta2, add_op(p, GD_I_sub, g2, v, -1), -1), -1);
    int32_t bottom = add_op(p, GD_I_add, add_op(p, GD_I_sqrt, v, -1, -1), eps, -1);
    int32_t step = add_op(p, GD_I_div, m, bottom, -1);
    step = add_op(p, GD_I_add, step, add_op(p, GD_I_mul, decay, w, -1), -1);
    p->array[am].store = m;
    p->array[av].store = v;
    p->array[ap].store = add_op(p, GD_I_sub, w, add_op(p, GD_I_mul, lr, step, -1), -1);
}

/* Random instructions over a few arrays of random dtypes; every instruction can come up. */
static inline void make_random(gd_program *p, gd_ctx *ctx, uint64_t *state, int length)
{
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_F16, GD_BF16};
    *p = (gd_program){.ctx = ctx, .compute = pick(state, 3) ? GD_F32 : GD_F64};
    p->eager = pick(state, 2);
    int arrays = 1 + pick(state, 6), uniforms = pick(state, 5), constants = pick(state, 4);
    for (int k = 0; k < arrays; k++) {
        int32_t from = add_array(p, pick(state, 2) ? p->compute : dtypes[pick(state, 4)]);
        if (k == 0 || pick(state, 4)) add_load(p, from);
    }
    for (int k = 0; k < uniforms; k++) add_uniform(p);
    for (int k = pick(state, 3); k > 0; k--) add_random(p, (gd_random_kind)pick(state, 3), k);
    for (int k = 0; k < constants; k++) add_const(p, random_number(state));
    while (p->count < length) {
        unsigned op = (unsigned)GD_I_neg + (unsigned)pick(state, GD_I_SUM_ALONG - GD_I_neg);
        int n = gd__opcode_operands(op);
        /* prefer what came last, so that chains become deep */
        int32_t o[3];
        for (int k = 0; k < 3; k++) {
            int back = pick(state, 2) ? pick(state, p->count) : pick(state, p->count < 6 ? p->count : 6);
            o[k] = k < n ? p->count - 1 - back : -1;
        }
        if (gd__is_reduction(op) && (p->reductions == 6 || p->instr[o[0]].level == 3)) continue;
        add_instr(p, (gd_instr){.op = (uint8_t)op,
                                .extent = (uint8_t)pick(state, 2),
                                .a = o[0],
                                .b = o[1],
                                .c = o[2],
                                .index = -1});
    }
    for (int k = 0; k < p->arrays; k++) {
        if ((k && pick(state, 4) == 0) || p->array[k].kind == GD_ARRAY_RANDOM) continue;
        int back = pick(state, p->count < 8 ? p->count : 8);
        p->array[k].store = pick(state, 10) ? p->count - 1 - back : pick(state, p->count);
    }
}

/* ---- memory ---- */

typedef struct tensors {
    int64_t n;
    char *array[GD_MAX_ARRAYS];
    int64_t count[GD_MAX_ARRAYS]; /* elements: fewer than n where the array has not all axes */
    size_t bytes[GD_MAX_ARRAYS];
    char *base[GD_MAX_ARRAYS]; /* the block that an array lies in: codes have their scales before them */
} tensors;

static inline void set_number(char *data, gd_dtype dtype, int64_t i, double value)
{
    if (dtype == GD_F32)
        ((float *)(void *)data)[i] = (float)value;
    else if (dtype == GD_F64)
        ((double *)(void *)data)[i] = value;
    else
        ((uint16_t *)(void *)data)[i] = dtype == GD_F16 ? gd__f32_to_f16((float)value)
                                                        : gd__f32_to_bf16((float)value);
}

static inline double get_number(const char *data, gd_dtype dtype, int64_t i)
{
    if (dtype == GD_F32) return (double)((const float *)(const void *)data)[i];
    if (dtype == GD_F64) return ((const double *)(const void *)data)[i];
    uint16_t half = ((const uint16_t *)(const void *)data)[i];
    return (double)(dtype == GD_F16 ? gd__f16_to_f32(half) : gd__bf16_to_f32(half));
}

/* Arrays of a program, random elements each; the memory is exactly as long, so that a sanitizer sees every overrun.
 * size: of the program's axes, NULL where it has none. */
static inline tensors make_member(const gd_program *p, const int64_t *size, int64_t n, uint64_t seed)
{
    tensors m = {.n = n};
    for (int k = 0; k < p->arrays; k++) {
        if (p->array[k].kind == GD_ARRAY_SCRATCH) continue; /* the executor's */
        m.count[k] = gd__axes_numel(p, size, p->array[k].along, n);
        m.bytes[k] = (size_t)m.count[k] * gd_dtype_size(p->array[k].dtype);
        bool coded = p->array[k].dtype == GD_U8;
        if (coded) m.bytes[k] = (size_t)gd__coded_bytes(n);
        m.array[k] = m.base[k] = malloc(m.bytes[k] ? m.bytes[k] : 1);
        assert_non_null(m.array[k]);
        if (coded) {
            for (size_t i = 0; i < m.bytes[k]; i++) m.base[k][i] = (char)random_bits(&seed);
            m.array[k] += gd__coded_before(n);
            for (int64_t b = 0; b * GD_CODED_BLOCK < n; b++)
                set_number(m.array[k], GD_F32, -1 - b, 0.1 + random_unit(&seed));
        }
        for (int64_t i = 0; i < m.count[k] && !coded; i++)
            set_number(m.array[k], p->array[k].dtype, i, random_number(&seed));
    }
    return m;
}

static inline tensors make_tensors(const gd_program *p, int64_t n, uint64_t seed)
{
    return make_member(p, NULL, n, seed);
}

static inline void free_tensors(tensors *m)
{
    for (int k = 0; k < GD_MAX_ARRAYS; k++) free(m->base[k]);
}

/* The same bits, but one NaN is as good as another. */
static inline bool same_number(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static inline bool same_tensors(const gd_program *p, const tensors *a, const tensors *b)
{
    for (int k = 0; k < p->arrays; k++) {
        if (p->array[k].kind == GD_ARRAY_RANDOM || !a->bytes[k]) continue;
        if (!memcmp(a->base[k], b->base[k], a->bytes[k])) continue;
        if (p->array[k].dtype == GD_U8) {
            print_error("array %d: other codes\n", k);
            return false;
        }
        for (int64_t i = 0; i < a->count[k]; i++) {
            double x = get_number(a->array[k], p->array[k].dtype, i),
                   y = get_number(b->array[k], p->array[k].dtype, i);
            if (same_number(x, y)) continue;
            print_error("array %d, element %lld: %a and %a\n", k, (long long)i, x, y);
            return false;
        }
    }
    return true;
}

/* A key and a step are whole numbers whatever a test draws. */
static inline double key_number(double x) { return x == x && fabs(x) < 0x1p53 ? floor(fabs(x)) : 7; }

/* The random numbers of a pass, where kernels look for them. */
static inline void make_randoms(const gd_program *p, const gd_pass *pass, const double *value, tensors *m)
{
    for (int k = 0; k < pass->randoms; k++) {
        const gd_instr *in = &p->instr[pass->random[k]];
        gd_stream s = gd__stream(p, in, key_number(value[in->a]), key_number(value[in->b]));
        char *even = malloc((size_t)(m->n + 1) * sizeof(double));
        assert_non_null(even);
        gd__blocks(p->ctx)->random[p->compute == GD_F64](even, &s, 0, m->n);
        memcpy(m->array[in->index], even, m->bytes[in->index]);
        free(even);
    }
}

/* What a pass rounds by chance with, behind its other scalars. */
static inline void put_chances(const gd_program *p, const gd_pass *pass, const double *value, double *scalar)
{
    for (int k = 0; k < pass->chances; k++)
        scalar[gd__chances_at(pass) + k] = value[p->array[pass->chance[k]].chance];
}

static inline void all_uniforms(const gd_program *p, int level, const double *input, const double *reduced,
                                double *value)
{
    gd_uniform_list all;
    gd__program_list_uniforms(p, NULL, 0, &all, value);
    gd__program_uniforms(&all, 0, level, input, reduced, value);
}

/* Runs all passes over one tensor with a kernel for each pass, NULL: interpreted. */
static inline void run_program(const gd_program *p, const gd_kernel_fn *kernel, tensors *m,
                               const double *input, double *reduced)
{
    double value[GD_MAX_INSTRS] = {0}, scalar[GD_MAX_UNIFORMS + GD_MAX_INSTRS + 3 * GD_MAX_ARRAYS],
           out[GD_MAX_REDUCTIONS];
    for (int level = 0; level <= p->levels; level++) {
        gd_pass pass;
        gd__program_pass(p, level, &pass);
        all_uniforms(p, level, input, reduced, value);
        for (int k = 0; k < pass.used_count; k++) scalar[k] = value[pass.used[k]];
        make_randoms(p, &pass, value, m);
        put_chances(p, &pass, value, scalar);
        if (kernel && kernel[level])
            kernel[level](0, m->n, m->array, scalar, out);
        else
            gd__interpret(p, &pass, 0, m->n, m->array, scalar, out);
        for (int r = 0; r < pass.reductions; r++) reduced[pass.reduction[r]] = out[r];
    }
}

#endif
