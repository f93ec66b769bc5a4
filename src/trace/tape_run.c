/* Running tapes. */
#include "trace/tape.h"

#include <string.h>

enum { LOAD_8 = 2 * GD_TAPE_MATHS, LOAD_4, LOAD_1, NUMBER, KERNEL };

/* What the interpreter does for a value: operations of f64, those of f32, then the rest. */
uint32_t gd__tape_code(const gd_tape_value *v)
{
    bool single = v->type == GD_TAPE_F32;
    if (v->op < GD_TAPE_MATHS) return v->op + (single ? (uint32_t)GD_TAPE_MATHS : 0);
    if (v->op == GD_TAPE_NUMBER) return NUMBER;
    if (v->op == GD_TAPE_KERNEL) return KERNEL;
    return single ? LOAD_4 : v->type == GD_TAPE_BOOL ? LOAD_1 : LOAD_8;
}

static void run_kernel(const gd_tape_value *v, gd_tape_slot *slot, gd_tape_slot *to)
{
    v->fn(to, v->a < 0 ? NULL : &slot[v->a], v->b < 0 ? NULL : &slot[v->b], v->c < 0 ? NULL : &slot[v->c], 1,
          v->as.f);
}

#define OPERANDS(type, member)                                                                              \
    type x = slot[v->a].member, y = slot[v->b < 0 ? 0 : v->b].member, z = slot[v->c < 0 ? 0 : v->c].member, \
         i = (type)v->as.f[0];                                                                              \
    (void)y, (void)z, (void)i
#define DOUBLE(name, expression)    \
    case GD_TAPE_##name: {          \
        OPERANDS(double, f64);      \
        slot[k].f64 = (expression); \
        break;                      \
    }
#define SINGLE(name, expression)           \
    case GD_TAPE_MATHS + GD_TAPE_##name: { \
        OPERANDS(float, f32);              \
        slot[k].f32 = (float)(expression); \
        break;                             \
    }

static void store_all(const gd_tape *t, char *const *base)
{
    for (int i = 0; i < t->stores; i++) {
        const gd_tape_store *s = &t->store[i];
        char *to = base[s->buffer] + s->offset;
        const gd_tape_slot *from = &t->slot[s->value];
        switch (t->value[s->value].type) {
        case GD_TAPE_F32: memcpy(to, from, 4); break;
        case GD_TAPE_BOOL: memcpy(to, from, 1); break;
        default: memcpy(to, from, 8); break;
        }
    }
}

void gd__tape_numbers(gd_tape *t)
{
    for (int k = 0; k < t->values; k++) {
        const gd_tape_value *v = &t->value[k];
        if (v->op != GD_TAPE_NUMBER) continue;
        if (v->type == GD_TAPE_F32)
            t->slot[k].f32 = (float)v->as.f[0];
        else
            t->slot[k].f64 = v->as.f[0];
    }
}

void gd__tape_interpret(const gd_tape *t, char *const *base)
{
    gd_tape_slot *slot = t->slot;
    const gd_tape_value *v = t->value;
    for (int k = 0; k < t->values; k++, v++) {
        switch (v->code) {
            GD_TAPE_OPS(DOUBLE)
            GD_TAPE_OPS(SINGLE)
        case LOAD_8: memcpy(&slot[k], base[v->a] + v->b, 8); break;
        case LOAD_4: memcpy(&slot[k], base[v->a] + v->b, 4); break;
        case LOAD_1: memcpy(&slot[k], base[v->a] + v->b, 1); break;
        case NUMBER: break; /* is there */
        default: run_kernel(v, slot, &slot[k]); break;
        }
    }
    store_all(t, base);
}

/* ---- when to compile ---- */

/* Nanoseconds, roughly: of a value when it is interpreted, of compiling one, of starting the compiler. */
#define INTERPRETED 3.0
#define COMPILED    120e3
#define STARTED     60e6
#define LOOK_AFTER  1 /* runs: what lies compiled on disk costs less than a millisecond to load */

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

void gd__tape_run(gd_tape *t, char *const *base)
{
    if (!t->compiled && !t->tried) {
        t->runs++;
        consider(t, base);
    }
    if (t->compiled)
        t->compiled(base, t->slot, t->kernel, t->setting);
    else
        gd__tape_interpret(t, base);
}
