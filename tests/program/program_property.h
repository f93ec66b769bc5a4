/* What holds for any program up to the limits: the fuzzer and the replay of its corpus check it. */
#ifndef GD_TESTS_OPTIM_PROGRAM_PROPERTY_H
#define GD_TESTS_OPTIM_PROGRAM_PROPERTY_H

#include "../../backends/cuda/dialect.h"
#include "program/random_program.h"

/* ---- bytes to choices ---- */

/* The bytes of an input, then a stream that follows from them: a short input makes a long program too. */
typedef struct choices {
    const uint8_t *data;
    size_t size;
    uint64_t state;
    int gather; /* from this instruction on, values that nothing has read yet are read first */
    int oldest; /* no earlier value is unread */
    bool read[GD_MAX_INSTRS];
} choices;

static inline int choose(choices *c, int limit)
{
    if (!c->size) return pick(&c->state, limit);
    int byte = *c->data;
    c->data++, c->size--;
    c->state = c->state * 31 + (uint64_t)byte;
    return limit > 256 ? (byte * limit) >> 8 : byte % limit;
}

/* The oldest element value that nothing has read since `gather`; the last one when all were. */
static inline int32_t oldest_unread(const gd_program *p, choices *c)
{
    while (c->oldest < p->count - 1 && (c->read[c->oldest] || p->instr[c->oldest].uniform)) c->oldest++;
    return c->oldest;
}

static inline int32_t last_element_value(const gd_program *p)
{
    int32_t value = p->count - 1;
    while (value > 0 && p->instr[value].uniform) value--;
    return value;
}

/* Any value, a late one or the oldest that is unread.  The first operand is mostly the element value before, so that what
 * was made early and is read late belongs to the result and is alive for long. */
static inline int32_t choose_value(const gd_program *p, choices *c, int operand)
{
    bool gathering = p->count >= c->gather;
    int32_t late = p->count < 6 ? p->count : 6, value;
    int way = choose(c, 8);
    if (way == 0)
        value = choose(c, p->count);
    else if (way == 1)
        value = p->count - 1 - choose(c, late);
    else
        value = gathering && operand ? oldest_unread(p, c) : last_element_value(p);
    if (gathering) c->read[value] = true;
    return value;
}

static inline void choose_leaves(gd_program *p, choices *c)
{
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_F16, GD_BF16};
    int arrays = 1 + choose(c, GD_MAX_ARRAYS), uniforms = choose(c, GD_MAX_UNIFORMS + 1);
    for (int k = 0; k < arrays; k++) {
        int32_t from = add_array(p, choose(c, 2) ? p->compute : dtypes[choose(c, 4)]);
        if (k == 0 || choose(c, 4)) add_load(p, from);
    }
    if (uniforms > GD_MAX_UNIFORMS - 6) uniforms = GD_MAX_UNIFORMS - 6;
    for (int k = 0; k < uniforms; k++) add_uniform(p);
    for (int k = choose(c, 4); k > 0 && p->arrays < GD_MAX_ARRAYS; k--)
        add_random(p, (gd_random_kind)choose(c, 3), k);
}

static inline void choose_instr(gd_program *p, choices *c)
{
    unsigned op = (unsigned)choose(c, GD_I_SUM_ALONG); /* axes: axes_property.h */
    if (op < GD_I_neg) {
        add_const(p, random_number(&c->state));
        return;
    }
    if (gd__is_reduction(op) && p->reductions == GD_MAX_REDUCTIONS) op = GD_I_add;
    int32_t o[3];
    for (int k = 0; k < 3; k++) o[k] = k < gd__opcode_operands(op) ? choose_value(p, c, k) : -1;
    add_instr(p, (gd_instr){.op = (uint8_t)op,
                            .extent = (uint8_t)(gd__is_reduction(op) && choose(c, 2)),
                            .a = o[0],
                            .b = o[1],
                            .c = o[2],
                            .index = -1});
}

/* What a program costs: instructions, all of which a pass may compute again, times elements.  The limit is a tenth of a second under
 * sanitizers, so that a fuzzer sees many programs. */
#define MOST_WORK 300000
static inline int64_t work_of(const gd_program *p, int64_t elements)
{
    return (p->levels + 1) * (int64_t)p->count * elements;
}

/* A program of up to GD_MAX_INSTRS instructions; returns the number of elements to run it on. */
static inline int64_t choose_program(gd_program *p, gd_ctx *ctx, gd_dtype compute, choices *c)
{
    *p = (gd_program){.ctx = ctx, .compute = compute};
    int64_t n = choose(c, 4) ? choose(c, 80) : choose(c, 700);
    int length = 1 + choose(c, GD_MAX_INSTRS);
    c->gather = choose(c, GD_MAX_INSTRS);
    choose_leaves(p, c);
    while (p->count < length) choose_instr(p, c);
    for (int k = 0; k < p->arrays; k++)
        if ((k == 0 || choose(c, 4)) && p->array[k].kind != GD_ARRAY_RANDOM)
            p->array[k].store = k == 0 ? last_element_value(p) : choose_value(p, c, 1);
    return work_of(p, n) <= MOST_WORK ? n : MOST_WORK / work_of(p, 1);
}

/* ---- the property ---- */

static inline const char *emission_fault(gd_ctx *ctx, const gd_program *p)
{
    for (int level = 0; level <= p->levels; level++) {
        gd_pass pass;
        gd_text text = {.ctx = ctx};
        gd__program_pass(p, level, &pass);
        gd__emit_c(p, &pass, "f", &text);
        gd__emit_table(p, &pass, &cuda_dialect, "f", level % (GD_COMMON_ALL + 1), &text);
        if (gd_error(ctx) || !text.used) return "emitting fails";
        gd__text_free(&text);
    }
    return NULL;
}

/* The kernels of the system's compiler; false when one is not to be had. */
static inline bool compile_all(gd_ctx *ctx, const gd_program *p, gd_kernel_fn *kernel)
{
    for (int level = 0; level <= p->levels; level++) {
        gd_pass pass;
        gd_executor how;
        gd__program_pass(p, level, &pass);
        kernel[level] = gd__kernel_for(ctx, p, &pass, &how);
        if (!kernel[level]) return false;
    }
    return true;
}

/* The bits of `want` come out on the instruction set of ctx, by the interpreter or by kernels. */
static inline const char *run_fault(gd_ctx *ctx, gd_program *p, const gd_kernel_fn *kernel, uint64_t seed,
                                    const tensors *want, const double *wanted)
{
    double input[GD_MAX_UNIFORMS], reduced[GD_MAX_REDUCTIONS] = {0};
    for (int u = 0; u < p->uniforms; u++) input[u] = random_number(&seed);
    tensors got = make_tensors(p, want->n, 1);
    p->ctx = ctx;
    run_program(p, kernel, &got, input, reduced);
    bool same = same_tensors(p, want, &got);
    for (int r = 0; r < p->reductions; r++) same = same && same_number(wanted[r], reduced[r]);
    free_tensors(&got);
    return same ? NULL : kernel ? "a compiled kernel gives other bits" : "instruction sets give other bits";
}

static inline const char *flat_fault(gd_ctx *const *ctx, int contexts, gd_ctx *compiler, gd_dtype compute,
                                     choices *c)
{
    gd_program *p = malloc(sizeof *p);
    if (!p) return "no memory";
    int64_t n = choose_program(p, ctx[0], compute, c);
    uint64_t seed = c->state, s = seed;
    double input[GD_MAX_UNIFORMS], reduced[GD_MAX_REDUCTIONS] = {0};
    for (int u = 0; u < p->uniforms; u++) input[u] = random_number(&s);
    const char *fault = gd__program_verify(p) ? "the verifier refuses it" : emission_fault(ctx[0], p);
    tensors want = make_tensors(p, n, 1);
    run_program(p, NULL, &want, input, reduced);
    for (int k = 1; !fault && k < contexts; k++) fault = run_fault(ctx[k], p, NULL, seed, &want, reduced);
    gd_kernel_fn kernel[GD_MAX_REDUCTIONS + 1];
    if (!fault && compiler && compile_all(compiler, p, kernel))
        fault = run_fault(compiler, p, kernel, seed, &want, reduced);
    free_tensors(&want);
    free(p);
    return fault;
}

#endif
