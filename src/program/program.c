/* Programs: their passes, their uniform part, the verifier, and the text buffer that emitters write to. */
#include "program/program.h"

#include "base/math/gamma.h"
#include "program/element.h"

#include <math.h>
#include <string.h>

/* A row for every instruction, by name: ROW(name, operands). */
#define SETTINGS_0      0
#define SETTINGS_1      1
#define SETTINGS_2      2
#define SETTINGS_CHOICE 0
#define ROWS_BEFORE     GD_INSTR_LEAVES(ROW)
#define ROWS_BEHIND     GD_MORE_ELEMENTS(ROW) GD_INSTR_REDUCTIONS(ROW)

const char *gd__opcode_name(unsigned op)
{
    static const char *const names[GD_I_COUNT] = {
#define NAME_OF(name, ...) [GD_I_##name] = #name,
#define ROW(...)           NAME_OF(__VA_ARGS__, )
        ROWS_BEFORE
#define ELEMENT(name, inputs, settings, kind, needs, takes, ...) GD_IF_##takes(ROW(name))
#define ELEMENT0(name, inputs, settings, kind, takes, ...)       GD_IF_##takes(ROW(name))
#define ELEMENT_C(...)
#include "tensor/ops.def"
            ROWS_BEHIND
#undef ROW
#undef NAME_OF
    };
    return op < GD_I_COUNT ? names[op] : "unknown";
}

int gd__opcode_operands(unsigned op)
{
    static const uint8_t operands[GD_I_COUNT] = {
#define OPERANDS_OF(name, count, ...) [GD_I_##name] = count,
#define ROW(...)                      OPERANDS_OF(__VA_ARGS__, )
        ROWS_BEFORE
#define ELEMENT(name, inputs, settings, kind, needs, takes, ...) \
    GD_IF_##takes(ROW(name, (inputs) + SETTINGS_##settings))
#define ELEMENT0(name, inputs, settings, kind, takes, ...) \
    GD_IF_##takes(ROW(name, (inputs) + SETTINGS_##settings))
#define ELEMENT_C(...)
#include "tensor/ops.def"
            ROWS_BEHIND
#undef ROW
#undef OPERANDS_OF
    };
    return op < GD_I_COUNT ? operands[op] : 0;
}

int gd__opcode_of(gd_op_id op)
{
    static const uint8_t opcode[GD_OP_COUNT] = {
#define ELEMENT(name, inputs, settings, kind, needs, takes, ...) GD_IF_##takes([GD_OP_##name] = GD_I_##name, )
#define ELEMENT0(name, inputs, settings, kind, takes, ...)       GD_IF_##takes([GD_OP_##name] = GD_I_##name, )
#define ELEMENT_C(...)
#include "tensor/ops.def"
    };
    return (unsigned)op < GD_OP_COUNT && opcode[op] ? opcode[op] : -1;
}

void gd__program_free(gd_program *p)
{
    if (p) gd__free(p->ctx, p, sizeof *p);
}

/* ---- uniform instructions: once per tensor, in f64 ---- */

/* Powers of step counts end in 0, and no result takes pow longer.  log(a) <= a - 1, and exp(-746) is nearer to 0 than to the
 * smallest number. */
static double power(double a, double b) { return a > 0 && a < 1 && (1 - a) * b > 746 ? 0 : pow(a, b); }

#define T         double
#define F(name)   gd__##name##_f64
#define V(name)   (list->eager ? gd__##name##_f64 : libm_##name)
#define libm_exp  exp
#define libm_log  log
#define libm_tanh tanh
#define libm_pow  power

/* Marks the operands of wanted uniform instructions. */
static void want_operands(const gd_program *p, bool *wanted)
{
    for (int i = p->count; i-- > 0;) {
        const gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        bool here = wanted[i] && in->uniform && !gd__is_reduction(in->op);
        for (int k = 0; here && k < gd__opcode_operands(in->op); k++) wanted[operand[k]] = true;
    }
}

/* Is it constant over runs? Known for its operands. */
static bool is_steady(const gd_program *p, int i, const bool *steady)
{
    const gd_instr *in = &p->instr[i];
    if (in->op == GD_I_UNIFORM) return !gd__changes_each_run(p->uniform[in->index].kind);
    const int32_t operand[3] = {in->a, in->b, in->c};
    bool all = in->uniform && !gd__is_reduction(in->op);
    for (int k = 0; k < gd__opcode_operands(in->op); k++) all = all && steady[operand[k]];
    return all;
}

/* Takes the wanted instructions of a level, only steady ones if there is a list of them. */
static int list_level(const gd_program *p, bool *wanted, const bool *steady, int level, gd_uniform_item *item)
{
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        const gd_instr *in = &p->instr[i];
        if (!wanted[i] || in->level != level || (steady && !steady[i])) continue;
        wanted[i] = false;
        item[count++] = (gd_uniform_item){.op = (uint8_t)in->op,
                                          .level = (uint8_t)in->level,
                                          .to = (int16_t)i,
                                          .index = (int16_t)in->index,
                                          /* unused operands may be anything */
                                          .a = (int16_t)(in->a < 0 ? 0 : in->a),
                                          .b = (int16_t)(in->b < 0 ? 0 : in->b),
                                          .c = (int16_t)(in->c < 0 ? 0 : in->c)};
    }
    return count;
}

void gd__program_list_uniforms(const gd_program *p, const gd_pass *pass, int passes, gd_uniform_list *list,
                               double *value)
{
    bool wanted[GD_MAX_INSTRS], steady[GD_MAX_INSTRS];
    memset(wanted, !pass, sizeof wanted);
    for (int i = 0; i < passes; i++, pass++)
        for (int k = 0; k < pass->scalars; k++) wanted[pass->used[k]] = true;
    for (int u = 0; u < p->uniforms; u++)
        if (p->uniform[u].store >= 0) wanted[p->uniform[u].store] = true;
    want_operands(p, wanted);
    for (int i = 0; i < p->count; i++) {
        if (p->instr[i].op == GD_I_CONST) value[i] = p->instr[i].imm;
        wanted[i] = wanted[i] && p->instr[i].uniform && p->instr[i].op != GD_I_CONST;
        steady[i] = is_steady(p, i, steady);
    }
    list->eager = p->eager;
    int count = list_level(p, wanted, steady, 0, list->item);
    list->steady = count;
    for (int level = 0; level <= p->levels; level++)
        count += list_level(p, wanted, NULL, level, list->item + count);
    list->item[count] = (gd_uniform_item){.level = UINT8_MAX};
}

void gd__program_uniforms(const gd_uniform_list *list, int from, int level, const double *input,
                          const double *reduced, double *value)
{
    for (const gd_uniform_item *u = list->item + from; u->level <= level; u++) {
        double a = value[u->a], b = value[u->b], c = value[u->c];
        switch (u->op) {
        case GD_I_UNIFORM: value[u->to] = input[u->index]; break;
        case GD_I_SUM:
        case GD_I_MAXIMUM: value[u->to] = reduced[u->index]; break;
#define CASE(name, operands, element) \
    case GD_I_##name:                 \
        value[u->to] = element;       \
        break;
#define ELEMENT(name, inputs, settings, kind, needs, takes, batch, element, ...) \
    GD_IF_##takes(CASE(name, inputs, element))
#define ELEMENT0(name, inputs, settings, kind, takes, element, ...) GD_IF_##takes(CASE(name, inputs, element))
#define ELEMENT_C(...)
#include "tensor/ops.def"
            GD_MORE_ELEMENTS(CASE)
#undef CASE
        }
    }
}

/* ---- the verifier ---- */

/* Checks the operands, and computes level and uniformity from them. */
static const char *check_operands(const gd_program *p, int i, int *level, bool *uniform, uint16_t *along)
{
    const gd_instr *in = &p->instr[i];
    const int32_t operand[3] = {in->a, in->b, in->c};
    int count = gd__opcode_operands(in->op);
    *along = gd__is_load(in->op) ? p->full : 0;
    for (int k = 0; k < 3; k++) {
        if (k >= count) {
            if (operand[k] != -1) return "has too many operands";
            continue;
        }
        if (operand[k] < 0) return "lacks an operand";
        if (operand[k] >= i) return "reads what comes later";
        const gd_instr *from = &p->instr[operand[k]];
        if (from->level > *level) *level = from->level;
        if (!from->uniform) *uniform = false;
        *along |= from->along;
    }
    return NULL;
}

/* The axes that the value varies along: those of its operands, without the axes that are summed. */
static const char *check_along(const gd_program *p, const gd_instr *in, uint16_t along)
{
    bool less = gd__is_along(in->op);
    if (along & p->full) along &= p->full; /* the axis of one element is dropped with others */
    if (in->op == GD_I_LOAD) along = p->array[in->index].along;
    if (in->uniform || gd__is_reduction(in->op)) along = 0;
    if (less ? !in->along || in->along == along || in->along & ~along : in->along != along)
        return "varies along the wrong axes";
    if (less && in->place < 0) return "has no place for its results";
    return in->place < -1 || in->place >= p->arrays ||
                   (in->place >= 0 && p->array[in->place].along != in->along)
               ? "has a place that is not there"
               : NULL;
}

static const char *check_instr(const gd_program *p, int i)
{
    const gd_instr *in = &p->instr[i];
    if (in->op >= GD_I_COUNT) return "is not an instruction";
    int level = 0;
    bool uniform = !gd__is_load(in->op);
    uint16_t along;
    const char *wrong = check_operands(p, i, &level, &uniform, &along);
    if (wrong) return wrong;
    if (in->op == GD_I_RANDOM && !(p->instr[in->a].uniform && p->instr[in->b].uniform))
        return "has a key that differs between elements";
    if (gd__is_load(in->op)) {
        if (in->index < 0 || in->index >= p->arrays) return "reads an array that is not there";
        if (!p->array[in->index].loaded) return "reads an array that is not marked as loaded";
        if ((in->op == GD_I_RANDOM) != (p->array[in->index].kind == GD_ARRAY_RANDOM))
            return "mistakes memory for random numbers";
    }
    if (in->op == GD_I_UNIFORM && (in->index < 0 || in->index >= p->uniforms))
        return "reads a uniform input that is not there";
    if (gd__is_reduction(in->op)) {
        uniform = true;
        if (in->index < 0 || in->index >= p->reductions || p->reduction[in->index] != i)
            return "is not in the list of reductions";
        if (in->extent != GD_EACH && in->extent != GD_ALL) return "has an unknown extent";
        if (p->axes && p->instr[in->a].uniform) return "sums a uniform value";
    }
    if (gd__is_reduction(in->op) || gd__is_along(in->op)) level++; /* known after the pass that computes it */
    /* a reduction may be deferred to a later pass */
    if (gd__is_reduction(in->op) && p->axes ? in->level < level : in->level != level)
        return "is at the wrong level";
    if (in->uniform != uniform) return uniform ? "should be uniform" : "cannot be uniform";
    return p->axes ? check_along(p, in, along) : gd__is_along(in->op) ? "has no axes" : NULL;
}

static const char *check_array(const gd_program *p, int k)
{
    const gd_array *array = &p->array[k];
    if ((unsigned)array->kind > GD_ARRAY_OUTPUT) return "is of an unknown kind";
    if (!gd_dtype_is_float(array->dtype) && array->dtype != GD_U8)
        return "has a dtype that programs do not compute with";
    if (array->dtype == GD_U8 && (array->kind != GD_ARRAY_STATE || array->along != p->full))
        return "cannot hold codes";
    if (array->rest_of < 0 || array->rest_of > k ||
        (array->rest_of && p->array[array->rest_of - 1].rest != k + 1) ||
        (array->rest_of && array->store != p->array[array->rest_of - 1].store))
        return "holds the rest of a different array";
    if (array->by_chance &&
        (array->chance < 0 || array->chance >= p->count || !p->instr[array->chance].uniform))
        return "is rounded by a missing value";
    if (array->store < -1 || array->store >= p->count) return "stores a missing value";
    bool loaded = false;
    for (int i = 0; i < p->count; i++)
        loaded = loaded || (gd__is_load(p->instr[i].op) && p->instr[i].index == k);
    if (array->kind == GD_ARRAY_RANDOM && (array->store >= 0 || array->dtype != p->compute))
        return "cannot hold random numbers";
    if (array->loaded != loaded)
        return loaded ? "is loaded but not marked" : "is marked as loaded but is not";
    for (int j = 0; j < k; j++) {
        const gd_array *other = &p->array[j];
        bool state = array->kind >= GD_ARRAY_STATE && array->kind < GD_ARRAY_OUTPUT;
        if (other->kind == array->kind &&
            (!state || (other->owner == array->owner && other->slot == array->slot && !array->rest_of)))
            return "is there twice";
    }
    return NULL;
}

static const char *check_uniform(const gd_program *p, int k)
{
    const gd_uniform *uniform = &p->uniform[k];
    if ((unsigned)uniform->kind > GD_U_EXTERNAL) return "is of an unknown kind";
    if (uniform->store == -1) return NULL;
    if (uniform->kind != GD_U_SCALAR) return "stores but is no scalar";
    if (uniform->store < 0 || uniform->store >= p->count) return "stores a missing value";
    return p->instr[uniform->store].uniform ? NULL : "stores an element value";
}

/* Every listed reduction is one, and there are as many levels as the deepest needs. */
static const char *check_reductions(const gd_program *p)
{
    int levels = 0;
    for (int r = 0; r < p->reductions; r++) {
        int32_t at = p->reduction[r];
        if (at < 0 || at >= p->count || !gd__is_reduction(p->instr[at].op) || p->instr[at].index != r)
            return "list of reductions is wrong";
        if (p->instr[at].level > levels) levels = p->instr[at].level;
    }
    for (int i = 0; i < p->count; i++)
        if (gd__is_along(p->instr[i].op) && p->instr[i].level > levels) levels = p->instr[i].level;
    return levels == p->levels ? NULL : "number of levels is wrong";
}

static bool outside(int count, int most) { return count < 0 || count > most; }

gd_status gd__program_verify(const gd_program *p)
{
    gd_ctx *ctx = p->ctx;
    const char *wrong = NULL;
    if (p->compute != GD_F32 && p->compute != GD_F64)
        return gd_fail(ctx, GD_INTERNAL, "program: computes in neither f32 nor f64");
    if (outside(p->count, GD_MAX_INSTRS) || outside(p->arrays, GD_MAX_ARRAYS) ||
        outside(p->uniforms, GD_MAX_UNIFORMS) || outside(p->reductions, GD_MAX_REDUCTIONS) ||
        outside(p->axes, GD_MAX_DIMS + 1))
        return gd_fail(ctx, GD_INTERNAL, "program: a count is out of range");
    for (int i = 0; i < p->count; i++)
        if ((wrong = check_instr(p, i)))
            return gd_fail(ctx, GD_INTERNAL, "program: instruction %d (%s) %s", i,
                           gd__opcode_name(p->instr[i].op), wrong);
    for (int k = 0; k < p->arrays; k++)
        if ((wrong = check_array(p, k))) return gd_fail(ctx, GD_INTERNAL, "program: array %d %s", k, wrong);
    for (int k = 0; k < p->uniforms; k++)
        if ((wrong = check_uniform(p, k)))
            return gd_fail(ctx, GD_INTERNAL, "program: uniform input %d %s", k, wrong);
    if ((wrong = check_reductions(p))) return gd_fail(ctx, GD_INTERNAL, "program: %s", wrong);
    return GD_OK;
}

/* ---- text ---- */
