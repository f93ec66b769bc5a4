/* Running tapes. */
#include "trace/tape.h"

#include <string.h>

/* A product used only in one sum, with that sum, in one step. Both are rounded. */
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
    STEP_RUNS, /* of the operations above, f64 alone */
    STEP_FUSED_RUNS = STEP_RUNS + GD_TAPE_MATHS,
    STEP_LOAD_RUN = STEP_FUSED_RUNS + FUSED_STEPS,
    STEP_STORE_RUN,
    STEP_KERNEL_RUN,
    STEPS
};

typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

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
/* Adjacent slots, four at a time. A common operand is repeated four times. */
#define OPERAND(p, at, by)                                   \
    const double *p = &AT(at, double);                       \
    const four p##_alike = {*p, *p, *p, *p};                 \
    const size_t p##_by = (by) ? 4 : 0;                      \
    if (!(by)) p = (const double *)(const void *)&p##_alike; \
    (void)p, (void)p##_by
#define FOUR(p) (*(const four *)(const void *)(p))
#define RUN(name, expression)                                    \
    run_##name:                                                  \
    {                                                            \
        const double i = s->as.i;                                \
        double *to = &AT(s->to, double), *end = to + s[1].to;    \
        OPERAND(px, s->x, s[1].x);                               \
        OPERAND(py, s->y, s[1].y);                               \
        OPERAND(pz, s->z, s[1].z);                               \
        (void)i;                                                 \
        for (; to + 4 <= end; to += 4) {                         \
            const four x = FOUR(px), y = FOUR(py), z = FOUR(pz); \
            (void)y, (void)z;                                    \
            *(four *)(void *)to = expression;                    \
            px += px_by, py += py_by, pz += pz_by;               \
        }                                                        \
        for (int k = 0; to < end; to++, k++) {                   \
            const double x = px[k], y = py[k], z = pz[k];        \
            (void)y, (void)z;                                    \
            *to = expression;                                    \
        }                                                        \
        s++;                                                     \
        NEXT;                                                    \
    }
#define PLAIN_RUN(name, operator, expression) RUN(name, expression)
#define LOAD(size)                            memcpy(&AT(s->to, char), base[s->x] + (int32_t)s->y, size)
#define STORE(size)                           memcpy(base[s->x] + (int32_t)s->y, &AT(s->to, char), size)
#define NEXT                                  goto *(++s)->go

/* Labels as values: a jump at the end of each operation, which the processor predicts separately, instead of one common jump. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
/* Returns 0.  With s NULL: *slot gets the jump addresses, by step. */
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
        [STEP_END] = &&end,
#define RUN_OF(name, operator, expression) [STEP_RUNS + GD_TAPE_##name] = &&run_##name,
#define FUSED_RUN_OF(name, expression)     [STEP_FUSED_RUNS + FUSED_##name] = &&run_##name,
        GD_TAPE_PLAIN(RUN_OF) FUSED(FUSED_RUN_OF)[STEP_LOAD_RUN] = &&load_run,
        [STEP_STORE_RUN] = &&store_run,
        [STEP_KERNEL_RUN] = &&kernel_run};
    if (!s) {
        slot->label = label;
        return 0;
    }
    goto * s->go;
    GD_TAPE_OPS(DOUBLE)
    GD_TAPE_OPS(SINGLE)
    FUSED(FUSED_DOUBLE)
    FUSED(FUSED_SINGLE)
    GD_TAPE_PLAIN(PLAIN_RUN)
    FUSED(RUN)
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
load_run:
    memcpy(&AT(s->to, char), base[s->x] + (int32_t)s->y, s[1].to * sizeof(double));
    s++;
    NEXT;
store_run:
    memcpy(base[s->x] + (int32_t)s->y, &AT(s->to, char), s[1].to * sizeof(double));
    s++;
    NEXT;
kernel_run : {
    const gd_tape_value *v = s->as.value;
    v->fn(&AT(s->to, char), &AT(s->x, char), &AT(s->y, char), &AT(s->z, char), s[1].to, v->as.f);
    s++;
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

/* place: of each value, see find_places. */
static uint32_t slot_at(const int32_t *place, int32_t value)
{
    return value < 0 ? 0 : (uint32_t)place[value] * (uint32_t)sizeof(gd_tape_slot);
}

static void put_number(gd_tape *t, int k)
{
    const gd_tape_value *v = &t->value[k];
    if (v->type == GD_TAPE_F32)
        t->slot[k].f32 = (float)v->as.f[0];
    else
        t->slot[k].f64 = v->as.f[0];
}

/* The product operand that only this value uses; -1: none.  uses: of each value. */
static int32_t product_in(const gd_tape *t, int32_t operand, const int32_t *uses)
{
    const gd_tape_value *v = operand < 0 ? NULL : &t->value[operand];
    bool product = v && (v->op == GD_TAPE_MUL || v->op == GD_TAPE_SQUARE || v->op == GD_TAPE_MUL_NUMBER);
    return product && uses[operand] == 1 ? operand : -1;
}

/* The product fused into the step of a sum; -1: none. */
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

/* Slots of loads, of computed values, and of values fused into another step. */
static int turn_of(const gd_tape *t, int32_t k, const int32_t *uses)
{
    return uses[k] < 0 ? 2 : t->value[k].op == GD_TAPE_LOAD ? 0 : 1;
}

/* Slots: loads first, so that those of the same operation over several elements are adjacent. Constants have their own slots, because compiled
 * parts overwrite those of values. */
static void find_places(const gd_tape *t, const int32_t *uses, int32_t *place)
{
    int32_t at = 0;
    for (int turn = 0; turn < 3; turn++)
        for (int32_t k = 0; k < t->values; k++) {
            bool number = t->value[k].op == GD_TAPE_NUMBER;
            if (number) place[k] = k;
            if (number || turn_of(t, k, uses) != turn) continue;
            while (t->value[at].op == GD_TAPE_NUMBER) at++;
            place[k] = at++;
        }
}

static gd_tape_step *put_step(const gd_tape *t, gd_tape_step *s, int32_t k, const int32_t *uses,
                              const int32_t *place, const void *const *label)
{
    const gd_tape_value *v = &t->value[k];
    bool loads = v->op == GD_TAPE_LOAD;
    *s = (gd_tape_step){.go = label[step_of(v)], .to = slot_at(place, k), .as.i = v->as.f[0]};
    if (v->op == GD_TAPE_KERNEL) s->as.value = v;
    s->x = loads ? (uint32_t)v->a : slot_at(place, v->a);
    s->y = loads ? (uint32_t)v->b : slot_at(place, v->b);
    s->z = loads ? 0 : slot_at(place, v->c);
    if (v->op != GD_TAPE_ADD && v->op != GD_TAPE_SUB) return s + 1;
    bool first = uses[v->a] == -1 - k, second = !first && uses[v->b] == -1 - k;
    if (!first && !second) return s + 1;
    const gd_tape_value *product = &t->value[first ? v->a : v->b];
    int how = v->op == GD_TAPE_ADD ? FUSED_MUL_ADD : first ? FUSED_MUL_SUB : FUSED_SUB_MUL;
    if (product->op == GD_TAPE_MUL_NUMBER) how += FUSED_SCALED_ADD - FUSED_MUL_ADD;
    if (v->type == GD_TAPE_F32) how += FUSED_STEPS;
    s->go = label[STEP_FUSED + how];
    s->as.i = product->as.f[0];
    s->x = slot_at(place, product->a);
    s->y = slot_at(place, product->op == GD_TAPE_SQUARE ? product->a : product->b);
    s->z = slot_at(place, first ? v->b : v->a);
    return s + 1;
}

/* ---- runs ---- */

#define LEAST_RUN 3

/* The step of a run of such steps; 0: there is none. */
static int run_of(const void *const *label, const void *go)
{
    for (int k = 0; k < GD_TAPE_MATHS; k++)
        if (go == label[k]) return label[STEP_RUNS + k] ? STEP_RUNS + k : 0;
    for (int k = 0; k < FUSED_STEPS; k++)
        if (go == label[STEP_FUSED + k]) return STEP_FUSED_RUNS + k;
    return go == label[STEP_LOAD_8]    ? STEP_LOAD_RUN
           : go == label[STEP_STORE_8] ? STEP_STORE_RUN
           : go == label[STEP_KERNEL]  ? STEP_KERNEL_RUN
                                       : 0;
}

/* Does an operand advance by 0 or 1 slots, and is it computed before the run? */
static bool goes_on(uint32_t first, uint32_t before, uint32_t now, uint32_t made, bool second)
{
    bool by = now != first, stays = second || by == (before != first);
    return stays && (!by || now == before + sizeof(gd_tape_slot)) && now < made;
}

static bool of_f64(const gd_tape *t, const gd_tape_value *v)
{
    const int32_t in[] = {v->a, v->b, v->c};
    for (int k = 0; k < 3; k++)
        if (in[k] >= 0 && t->value[in[k]].type != GD_TAPE_F64) return false;
    return v->type == GD_TAPE_F64;
}

/* The same kernel on adjacent f64 operands, read as vectors. */
static bool same_kernel(const gd_tape *t, const gd_tape_step *first, const gd_tape_step *now, uint32_t k)
{
    const gd_tape_value *v = first->as.value, *w = now->as.value;
    const int32_t in[] = {v->a, v->b, v->c};
    const uint32_t a[] = {first->x, first->y, first->z}, b[] = {now->x, now->y, now->z};
    if (v->fn != w->fn || memcmp(&v->as, &w->as, sizeof v->as) || !of_f64(t, v) || !of_f64(t, w))
        return false;
    for (int i = 0; i < 3; i++)
        if (in[i] >= 0 && b[i] != a[i] + k * sizeof(gd_tape_slot)) return false;
    return true;
}

/* May step k, which follows the others, join the run that begins with the first? */
static bool joins_run(const gd_tape *t, const gd_tape_step *s, int run, uint32_t k)
{
    const gd_tape_step *before = s + k - 1, *now = s + k;
    if (now->go != s->go || now->to != before->to + sizeof(gd_tape_slot)) return false;
    if (run == STEP_LOAD_RUN || run == STEP_STORE_RUN)
        return now->x == s->x && now->y == before->y + sizeof(gd_tape_slot);
    if (run == STEP_KERNEL_RUN && !same_kernel(t, s, now, k)) return false;
    if (run != STEP_KERNEL_RUN && memcmp(&now->as, &s->as, sizeof s->as)) return false;
    return goes_on(s->x, before->x, now->x, s->to, k == 1) &&
           goes_on(s->y, before->y, now->y, s->to, k == 1) && goes_on(s->z, before->z, now->z, s->to, k == 1);
}

/* Joins neighbouring steps, in place. */
static void join_runs(const gd_tape *t, const void *const *label)
{
    gd_tape_step *out = t->step;
    for (const gd_tape_step *s = t->step; s->go != label[STEP_END];) {
        int run = run_of(label, s->go);
        uint32_t n = 1;
        while (run && s[n].go != label[STEP_END] && joins_run(t, s, run, n)) n++;
        if (n < LEAST_RUN) {
            *out++ = *s++;
            continue;
        }
        gd_tape_step first = *s,
                     more = {.to = n, .x = s[1].x != s->x, .y = s[1].y != s->y, .z = s[1].z != s->z};
        s += n;
        first.go = label[run];
        *out++ = first;
        *out++ = more;
    }
    *out = (gd_tape_step){.go = label[STEP_END]};
}

bool gd__tape_prepare(gd_tape *t)
{
    gd_tape_slot found;
    (void)execute(NULL, &found, NULL);
    const void *const *label = found.label;
    size_t bytes = 2 * (size_t)t->values * sizeof(int32_t) + 1;
    t->slot = gd__quiet_alloc(t->ctx, (size_t)t->values * sizeof *t->slot);
    t->step = gd__quiet_alloc(t->ctx, (size_t)(t->values + t->stores + 1) * sizeof *t->step);
    int32_t *uses = t->slot && t->step ? gd__quiet_alloc(t->ctx, bytes) : NULL;
    if (!uses) return false;
    int32_t *place = uses + t->values;
    count_uses(t, uses);
    mark_fused(t, uses);
    find_places(t, uses, place);
    gd_tape_step *s = t->step;
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < t->values; k++) {
            bool number = t->value[k].op == GD_TAPE_NUMBER;
            if (number && turn == 0) put_number(t, k); /* stays there */
            if (!number && turn_of(t, k, uses) == turn) s = put_step(t, s, k, uses, place, label);
        }
    for (int i = 0; i < t->stores; i++) {
        const gd_tape_store *store = &t->store[i];
        uint8_t type = t->value[store->value].type;
        int step = type == GD_TAPE_F32 ? STEP_STORE_4 : type == GD_TAPE_BOOL ? STEP_STORE_1 : STEP_STORE_8;
        *s++ = (gd_tape_step){.go = label[step],
                              .to = slot_at(place, store->value),
                              .x = (uint32_t)store->buffer,
                              .y = (uint32_t)store->offset};
    }
    *s = (gd_tape_step){.go = label[STEP_END]};
    gd__free(t->ctx, uses, bytes);
    join_runs(t, label);
    return true;
}

/* ---- when to compile ---- */

/* Nanoseconds, roughly: of interpreting a value, of compiling one, of starting the compiler. */
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

/* Called like a compiled tape, with the steps in place of its kernels. */
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
