/* Running tapes. */
#include "trace/tape.h"

#include <string.h>

/* A product and the sum that is all it is for, in one step.  Both are rounded. */
#define FUSED(X)            \
    X(MUL_ADD, x *y + z)    \
    X(MUL_SUB, x *y - z)    \
    X(SUB_MUL, z - x * y)   \
    X(SCALED_ADD, x *i + z) \
    X(SCALED_SUB, x *i - z) \
    X(SUB_SCALED, z - x * i)

enum {
#define FUSED_ENUM(name, expression) FUSED_##name,
    FUSED(FUSED_ENUM)
#undef FUSED_ENUM
        FUSED_STEPS
};

enum {
    STEP_FUSED = 2 * GD_TAPE_MATHS,
    STEP_LOAD_8 = STEP_FUSED + 2 * FUSED_STEPS,
    STEP_LOAD_4,
    STEP_LOAD_1,
    STEP_STORE_8,
    STEP_STORE_4,
    STEP_STORE_1,
    STEP_KERNEL,
    STEP_END,
    STEPS
};

/* ---- the interpreter ---- */

#define AT(place, type) (*(type *)(void *)((char *)slot + (place)))
#define MATH(name, expression, type, first)                                                       \
    first##name:                                                                                  \
    {                                                                                             \
        const type x = AT(s->x, type), y = AT(s->y, type), z = AT(s->z, type), i = (type)s->as.i; \
        (void)y, (void)z, (void)i;                                                                \
        AT(s->to, type) = (type)(expression);                                                     \
        NEXT;                                                                                     \
    }
#define DOUBLE(name, operator, expression) MATH(name, expression, double, f64_)
#define SINGLE(name, operator, expression) MATH(name, expression, float, f32_)
#define FUSED_DOUBLE(name, expression)     MATH(name, expression, double, f64_)
#define FUSED_SINGLE(name, expression)     MATH(name, expression, float, f32_)
#define LOAD(size)                         memcpy(&AT(s->to, char), base[s->x] + (int32_t)s->y, size)
#define STORE(size)                        memcpy(base[s->x] + (int32_t)s->y, &AT(s->to, char), size)
#define NEXT                               goto *(++s)->go

/* Labels as values: a jump at the end of each operation, which the processor predicts one by one, in place of one for all. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
/* Returns 0.  With s NULL: *slot gets the addresses to go to, by step. */
static int execute(const gd_tape_step *s, gd_tape_slot *slot, char *const *base)
{
    static const void *const label[STEPS] = {
#define F64(name, operator, expression) [GD_TAPE_##name] = &&f64_##name,
#define F32(name, operator, expression) [GD_TAPE_MATHS + GD_TAPE_##name] = &&f32_##name,
#define FUSED64(name, expression)       [STEP_FUSED + FUSED_##name] = &&f64_##name,
#define FUSED32(name, expression)       [STEP_FUSED + FUSED_STEPS + FUSED_##name] = &&f32_##name,
        GD_TAPE_OPS(F64) GD_TAPE_OPS(F32) FUSED(FUSED64) FUSED(FUSED32)[STEP_LOAD_8] = &&load_8,
        [STEP_LOAD_4] = &&load_4,
        [STEP_LOAD_1] = &&load_1,
        [STEP_STORE_8] = &&store_8,
        [STEP_STORE_4] = &&store_4,
        [STEP_STORE_1] = &&store_1,
        [STEP_KERNEL] = &&kernel,
        [STEP_END] = &&end};
    if (!s) {
        slot->label = label;
        return 0;
    }
    goto * s->go;
    GD_TAPE_OPS(DOUBLE)
    GD_TAPE_OPS(SINGLE)
    FUSED(FUSED_DOUBLE)
    FUSED(FUSED_SINGLE)
load_8:
    LOAD(8);
    NEXT;
load_4:
    LOAD(4);
    NEXT;
load_1:
    LOAD(1);
    NEXT;
store_8:
    STORE(8);
    NEXT;
store_4:
    STORE(4);
    NEXT;
store_1:
    STORE(1);
    NEXT;
kernel : {
    const gd_tape_value *v = s->as.value;
    v->fn(&AT(s->to, char), &AT(s->x, char), &AT(s->y, char), &AT(s->z, char), 1, v->as.f);
    NEXT;
}
end:
    return 0;
}
#pragma GCC diagnostic pop

void gd__tape_interpret(const gd_tape *t, char *const *base) { (void)execute(t->step, t->slot, base); }

/* ---- its steps ---- */

static int step_of(const gd_tape_value *v)
{
    bool single = v->type == GD_TAPE_F32;
    if (v->op < GD_TAPE_MATHS) return v->op + (single ? GD_TAPE_MATHS : 0);
    if (v->op == GD_TAPE_KERNEL) return STEP_KERNEL;
    return single ? STEP_LOAD_4 : v->type == GD_TAPE_BOOL ? STEP_LOAD_1 : STEP_LOAD_8;
}

static uint32_t slot_at(int32_t value)
{
    return value < 0 ? 0 : (uint32_t)value * (uint32_t)sizeof(gd_tape_slot);
}

static void put_number(gd_tape *t, int k)
{
    const gd_tape_value *v = &t->value[k];
    if (v->type == GD_TAPE_F32)
        t->slot[k].f32 = (float)v->as.f[0];
    else
        t->slot[k].f64 = v->as.f[0];
}

/* The product that a value is for, among its operands; -1: none.  uses: of each value. */
static int32_t product_in(const gd_tape *t, int32_t operand, const int32_t *uses)
{
    const gd_tape_value *v = operand < 0 ? NULL : &t->value[operand];
    bool product = v && (v->op == GD_TAPE_MUL || v->op == GD_TAPE_SQUARE || v->op == GD_TAPE_MUL_NUMBER);
    return product && uses[operand] == 1 ? operand : -1;
}

/* The product that the step of a sum does, too; -1: none. */
static int32_t product_of(const gd_tape *t, int32_t k, const int32_t *uses)
{
    const gd_tape_value *v = &t->value[k];
    if (v->op != GD_TAPE_ADD && v->op != GD_TAPE_SUB) return -1;
    int32_t first = product_in(t, v->a, uses);
    return first >= 0 ? first : product_in(t, v->b, uses);
}

static void count_uses(const gd_tape *t, int32_t *uses)
{
    memset(uses, 0, (size_t)t->values * sizeof *uses);
    for (int k = 0; k < t->values; k++) {
        const gd_tape_value *v = &t->value[k];
        if (v->op == GD_TAPE_LOAD) continue;
        if (v->a >= 0) uses[v->a]++;
        if (v->b >= 0) uses[v->b]++;
        if (v->c >= 0) uses[v->c]++;
    }
    for (int i = 0; i < t->stores; i++) uses[t->store[i].value]++;
}

/* -1 as the uses of a product: its sum does it. */
static void mark_fused(const gd_tape *t, int32_t *uses)
{
    for (int32_t k = 0; k < t->values; k++) {
        int32_t product = product_of(t, k, uses);
        if (product >= 0) uses[product] = -1 - k;
    }
}

static gd_tape_step *put_step(const gd_tape *t, gd_tape_step *s, int32_t k, const int32_t *uses,
                              const void *const *label)
{
    const gd_tape_value *v = &t->value[k];
    bool loads = v->op == GD_TAPE_LOAD;
    *s = (gd_tape_step){.go = label[step_of(v)], .to = slot_at(k), .as.i = v->as.f[0]};
    if (v->op == GD_TAPE_KERNEL) s->as.value = v;
    s->x = loads ? (uint32_t)v->a : slot_at(v->a);
    s->y = loads ? (uint32_t)v->b : slot_at(v->b);
    s->z = loads ? 0 : slot_at(v->c);
    if (v->op != GD_TAPE_ADD && v->op != GD_TAPE_SUB) return s + 1;
    bool first = uses[v->a] == -1 - k, second = !first && uses[v->b] == -1 - k;
    if (!first && !second) return s + 1;
    const gd_tape_value *product = &t->value[first ? v->a : v->b];
    int how = v->op == GD_TAPE_ADD ? FUSED_MUL_ADD : first ? FUSED_MUL_SUB : FUSED_SUB_MUL;
    if (product->op == GD_TAPE_MUL_NUMBER) how += FUSED_SCALED_ADD - FUSED_MUL_ADD;
    if (v->type == GD_TAPE_F32) how += FUSED_STEPS;
    s->go = label[STEP_FUSED + how];
    s->as.i = product->as.f[0];
    s->x = slot_at(product->a);
    s->y = slot_at(product->op == GD_TAPE_SQUARE ? product->a : product->b);
    s->z = slot_at(first ? v->b : v->a);
    return s + 1;
}

bool gd__tape_prepare(gd_tape *t)
{
    gd_tape_slot found;
    (void)execute(NULL, &found, NULL);
    const void *const *label = found.label;
    size_t bytes = (size_t)t->values * sizeof(int32_t) + 1;
    t->slot = gd__quiet_alloc(t->ctx, (size_t)t->values * sizeof *t->slot);
    t->step = gd__quiet_alloc(t->ctx, (size_t)(t->values + t->stores + 1) * sizeof *t->step);
    int32_t *uses = t->slot && t->step ? gd__quiet_alloc(t->ctx, bytes) : NULL;
    if (!uses) return false;
    count_uses(t, uses);
    mark_fused(t, uses);
    gd_tape_step *s = t->step;
    for (int k = 0; k < t->values; k++) {
        if (t->value[k].op == GD_TAPE_NUMBER)
            put_number(t, k); /* stays there */
        else if (uses[k] >= 0)
            s = put_step(t, s, k, uses, label);
    }
    gd__free(t->ctx, uses, bytes);
    for (int i = 0; i < t->stores; i++) {
        const gd_tape_store *store = &t->store[i];
        uint8_t type = t->value[store->value].type;
        int step = type == GD_TAPE_F32 ? STEP_STORE_4 : type == GD_TAPE_BOOL ? STEP_STORE_1 : STEP_STORE_8;
        *s++ = (gd_tape_step){.go = label[step],
                              .to = slot_at(store->value),
                              .x = (uint32_t)store->buffer,
                              .y = (uint32_t)store->offset};
    }
    *s = (gd_tape_step){.go = label[STEP_END]};
    return true;
}

/* ---- when to compile ---- */

/* Nanoseconds, roughly: of a value when it is interpreted, of compiling one, of starting the compiler. */
#define INTERPRETED 3.0
#define COMPILED    120e3
#define STARTED     60e6
#define LOOK_AFTER  1 /* runs: a compiled file on disk loads in less than a millisecond */

static bool worth_compiling(const gd_tape *t)
{
    if (t->compile == GD_TRACE_AT_ONCE) return true;
    double spent = (double)t->runs * t->values * INTERPRETED;
    return spent > STARTED + t->values * COMPILED;
}

static void consider(gd_tape *t, char *const *base)
{
    bool never = !t->ctx->compile || t->compile == GD_TRACE_INTERPRET;
    if (never || worth_compiling(t)) {
        t->tried = true;
        if (!never) gd__tape_compile(t, base, false);
    } else if (!t->looked && t->runs >= LOOK_AFTER) {
        t->looked = true;
        gd__tape_compile(t, base, true);
    }
}

/* As a compiled tape is called, with the steps where that has its kernels. */
static int interpreted(char *const *base, void *slot, const void *step, const double *setting)
{
    (void)setting;
    return execute(step, slot, base);
}

bool gd__tape_settled(gd_tape *t, gd_shortcut *how)
{
    if (!t->compiled && !t->tried) return false;
    how->run = t->compiled ? t->compiled : interpreted;
    how->slot = t->slot;
    how->kernel = t->compiled ? (const void *)t->kernel : t->step;
    how->setting = t->setting;
    return true;
}

void gd__tape_run(gd_tape *t, char *const *base)
{
    if (!t->compiled && !t->tried) {
        t->runs++;
        consider(t, base);
    }
    if (t->compiled)
        (void)t->compiled(base, t->slot, t->kernel, t->setting);
    else
        gd__tape_interpret(t, base);
}
