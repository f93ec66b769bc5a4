/* Tapes as C.
 *
 * Compilers need seconds per thousand operations for functions of more than a hundred, so tapes are cut into parts.  Values that a
 * later part reads are kept in the interpreter's slots; the others are variables.  Kernels are called by address, with
 * their settings; numbers are written as bits, independent of the locale. */
#include "base/text/text.h"
#include "program/program.h"
#include "trace/tape.h"

#include <string.h>

#define PART 100 /* operations in a function */

typedef struct emitter {
    const gd_tape *t;
    gd_text *out;
    int32_t *last; /* the last part that reads each value */
    int part, kernels;
    const gd_tape_rounds *rounds; /* NULL: one run */
} emitter;

static const char prelude[] =
    "typedef union { double d; float f; long long i; unsigned char b; } slot;\n"
    "typedef void (*kernel)(void *, const void *, const void *, const void *, long long, const double *);\n"
    "static inline double D(unsigned long long u) { union { unsigned long long u; double d; } v = {u}; return v.d; }\n";

static const char *const type_word[] = {"double", "float", "long long", "unsigned char"};
static const char member[] = "dfib";

static void put_functions(gd_text *out)
{
    gd__text_add(out, prelude);
#define EMIT(name, operator, expression)                                                                 \
    gd__text_put(out,                                                                                    \
                 "static inline double op%d_d(double x, double y, double z, double i) { return %s; }\n", \
                 GD_TAPE_##name, #expression);                                                           \
    gd__text_put(out, "static inline float op%d_f(float x, float y, float z, float i) { return %s; }\n", \
                 GD_TAPE_##name, #expression);
    GD_TAPE_OPS(EMIT)
#undef EMIT
}

static int part_of(int32_t value) { return value / PART; }

static bool is_local(const emitter *e, int32_t value) { return e->rounds || part_of(value) == e->part; }

/* A value as an operand: a variable of this part, a number, or a slot. */
static void put_value(emitter *e, int32_t k)
{
    const gd_tape_value *v = &e->t->value[k];
    if (is_local(e, k))
        gd__text_put(e->out, "v%d", (int)k);
    else
        gd__text_put(e->out, "w[%d].%c", (int)k, member[v->type]);
}

static void put_number(emitter *e, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    gd__text_put(e->out, "D(0x%llxu)", (unsigned long long)bits);
}

static void put_address(emitter *e, int32_t k)
{
    if (k < 0) {
        gd__text_put(e->out, ", 0");
        return;
    }
    gd__text_put(e->out, ", &");
    put_value(e, k);
}

static void put_math(emitter *e, const gd_tape_value *v)
{
    const int32_t operand[3] = {v->a, v->b, v->c};
    gd__text_put(e->out, "op%d_%c(", v->op, member[v->type]);
    for (int i = 0; i < 3; i++) {
        if (operand[i] < 0)
            gd__text_put(e->out, "0");
        else
            put_value(e, operand[i]);
        gd__text_put(e->out, ", ");
    }
    put_number(e, v->as.f[0]);
    gd__text_put(e->out, ");\n");
}

static void put_place(emitter *e, const char *constant, const char *type, int buffer, int offset)
{
    bool moves = false;
    for (int i = 0; e->rounds && i < e->rounds->moves; i++)
        moves = moves || e->rounds->move[i].buffer == buffer;
    gd__text_put(e->out, moves ? "*(%s%s *)(b%d + %d)" : "*(%s%s *)(p[%d] + %d)", constant, type, buffer,
                 offset);
}

static void put_definition(emitter *e, int32_t k)
{
    const gd_tape_value *v = &e->t->value[k];
    const char *type = type_word[v->type];
    if (v->op == GD_TAPE_KERNEL) {
        gd__text_put(e->out, "    %s v%d; k[%d](&v%d", type, (int)k, e->kernels, (int)k);
        put_address(e, v->a);
        put_address(e, v->b);
        put_address(e, v->c);
        gd__text_put(e->out, ", 1, s + %d);\n", 2 * e->kernels++);
        return;
    }
    gd__text_put(e->out, "    %s v%d = ", type, (int)k);
    if (v->op == GD_TAPE_NUMBER) {
        put_number(e, v->as.f[0]);
        gd__text_put(e->out, ";\n");
    } else if (v->op == GD_TAPE_LOAD) {
        put_place(e, "const ", type, v->a, v->b);
        gd__text_put(e->out, ";\n");
    } else
        put_math(e, v);
}

static void put_store(emitter *e, const gd_tape_store *s)
{
    gd__text_put(e->out, "    ");
    put_place(e, "", type_word[e->t->value[s->value].type], s->buffer, s->offset);
    gd__text_put(e->out, " = ");
    put_value(e, s->value);
    gd__text_put(e->out, ";\n");
}

static const char arguments[] = "(char *const *p, slot *w, kernel const *k, const double *s)";

static void begin_part(emitter *e, int part)
{
    e->part = part;
    gd__text_put(e->out, "static void part%d%s\n{\n", part, arguments);
}

static bool stored_elsewhere(const emitter *e, int32_t k, int parts)
{
    return parts > 1 && e->last[k] > part_of(k);
}

/* Stores are the last parts, because they come after all loads. */
static int put_parts(emitter *e, int parts)
{
    const gd_tape *t = e->t;
    for (int part = 0; part < parts; part++) {
        begin_part(e, part);
        for (int32_t k = part * PART; k < (part + 1) * PART && k < t->values; k++) {
            put_definition(e, k);
            if (stored_elsewhere(e, k, parts))
                gd__text_put(e->out, "    w[%d].%c = v%d;\n", (int)k, member[t->value[k].type], (int)k);
        }
        for (int i = 0; i < t->stores && parts == 1; i++) put_store(e, &t->store[i]);
        gd__text_put(e->out, "}\n");
    }
    if (parts == 1) return 1;
    for (int i = 0; i < t->stores; i += PART) {
        begin_part(e, parts + i / PART);
        for (int k = i; k < i + PART && k < t->stores; k++) put_store(e, &t->store[k]);
        gd__text_put(e->out, "}\n");
    }
    return parts + (t->stores + PART - 1) / PART;
}

static void note_reader(emitter *e, int32_t value, int part)
{
    if (value >= 0 && e->last[value] < part) e->last[value] = part;
}

static void note_readers(emitter *e, int parts)
{
    const gd_tape *t = e->t;
    for (int32_t k = 0; k < t->values; k++) {
        const gd_tape_value *v = &t->value[k];
        if (v->op == GD_TAPE_LOAD) continue;
        note_reader(e, v->a, part_of(k));
        note_reader(e, v->b, part_of(k));
        note_reader(e, v->c, part_of(k));
    }
    for (int i = 0; i < t->stores; i++) note_reader(e, t->store[i].value, parts);
}

static void put_source(const gd_tape *t, gd_text *out, int32_t *last)
{
    int parts = (t->values + PART - 1) / PART;
    emitter e = {.t = t, .out = out, .last = last};
    note_readers(&e, parts);
    put_functions(out);
    int all = put_parts(&e, parts);
    gd__text_put(out, "int gd_kernel%s\n{\n", arguments);
    for (int part = 0; part < all; part++) gd__text_put(out, "    part%d(p, w, k, s);\n", part);
    gd__text_put(out, "    return 0;\n}\n");
}

/* ---- rounds ---- */

#define MOST_ROUNDED 2000 /* operations of a round */

/* The store that the next round reads instead of a load; -1: none. */
static int carried_by(const emitter *e, const gd_tape_value *load)
{
    for (int c = 0; c < e->rounds->carries; c++)
        for (int i = 0; i < e->t->stores && load->a == e->rounds->from[c]; i++) {
            const gd_tape_store *s = &e->t->store[i];
            if (s->buffer == e->rounds->to[c] && s->offset == load->b &&
                e->t->value[s->value].type == load->type)
                return i;
        }
    return -1;
}

static bool is_moved(const emitter *e, int buffer)
{
    for (int i = 0; i < e->rounds->moves; i++)
        if (e->rounds->move[i].buffer == buffer) return true;
    return false;
}

/* Constants of all rounds, and values from the previous round, are variables outside of the loop. */
static void put_before(emitter *e)
{
    for (int i = 0; i < e->rounds->moves; i++)
        gd__text_put(e->out, "    char *b%d = p[%d];\n", e->rounds->move[i].buffer,
                     e->rounds->move[i].buffer);
    for (int32_t k = 0; k < e->t->values; k++) {
        const gd_tape_value *v = &e->t->value[k];
        if (v->op != GD_TAPE_LOAD || (carried_by(e, v) < 0 && is_moved(e, v->a))) continue;
        gd__text_put(e->out, "    %s c%d = ", type_word[v->type], (int)k);
        put_place(e, "const ", type_word[v->type], v->a, v->b);
        gd__text_put(e->out, ";\n");
    }
}

/* Memory that only the loop writes is loaded once; values written there are carried in variables. */
static void put_round(emitter *e)
{
    const gd_tape *t = e->t;
    for (int32_t k = 0; k < t->values; k++) {
        const gd_tape_value *v = &t->value[k];
        bool outside = v->op == GD_TAPE_LOAD && (carried_by(e, v) >= 0 || !is_moved(e, v->a));
        if (outside)
            gd__text_put(e->out, "    %s v%d = c%d;\n", type_word[v->type], (int)k, (int)k);
        else
            put_definition(e, k);
    }
    for (int i = 0; i < t->stores; i++)
        if (is_moved(e, t->store[i].buffer)) put_store(e, &t->store[i]);
    for (int32_t k = 0; k < t->values; k++) {
        int store = t->value[k].op == GD_TAPE_LOAD ? carried_by(e, &t->value[k]) : -1;
        if (store < 0) continue;
        gd__text_put(e->out, "    c%d = ", (int)k);
        put_value(e, t->store[store].value);
        gd__text_put(e->out, ";\n");
    }
    for (int i = 0; i < e->rounds->moves; i++)
        gd__text_put(e->out, "    b%d += %lld;\n", e->rounds->move[i].buffer,
                     (long long)e->rounds->move[i].by);
}

/* Stores to fixed addresses are done after the last round. */
static void put_rounds(const gd_tape *t, gd_text *out, const gd_tape_rounds *rounds)
{
    emitter e = {.t = t, .out = out, .rounds = rounds};
    put_functions(out);
    gd__text_put(
        out, "int gd_kernel(char *const *p, slot *w, kernel const *k, const double *s, long long n)\n{\n");
    put_before(&e);
    gd__text_put(out, "    for (long long t = 0; t < n; t++) {\n");
    put_round(&e);
    for (int i = 0; i < t->stores; i++) {
        if (is_moved(&e, t->store[i].buffer)) continue;
        gd__text_put(out, "    if (t == n - 1) {\n");
        put_store(&e, &t->store[i]);
        gd__text_put(out, "    }\n");
    }
    gd__text_put(out, "    }\n    return 0;\n}\n");
}

/* ---- kernels that are called ---- */

bool gd__tape_list_kernels(gd_tape *t)
{
    int count = 0, n = 0;
    for (int k = 0; k < t->values; k++) count += t->value[k].op == GD_TAPE_KERNEL;
    gd_vec_fn *kernel = gd__quiet_alloc(t->ctx, (size_t)count * sizeof *kernel);
    double *setting = kernel ? gd__quiet_alloc(t->ctx, 2 * (size_t)count * sizeof *setting) : NULL;
    if (!setting) {
        gd__free(t->ctx, kernel, (size_t)count * sizeof *kernel);
        return false;
    }
    for (int k = 0; k < t->values; k++) {
        if (t->value[k].op != GD_TAPE_KERNEL) continue;
        kernel[n] = t->value[k].fn;
        memcpy(setting + 2 * n++, t->value[k].as.f, sizeof t->value[k].as.f);
    }
    t->kernel = kernel;
    t->setting = setting;
    t->kernels = count;
    return true;
}

enum { BEFORE, INTERPRETED, COMPILED, MOMENTS };

/* The present contents of the tape's stores. */
static void copy_stored(const gd_tape *t, char *const *base, gd_tape_slot *copy, bool back)
{
    static const size_t size_of[] = {8, 4, 8, 1};
    for (int i = 0; i < t->stores; i++) {
        const gd_tape_store *s = &t->store[i];
        char *there = base[s->buffer] + s->offset;
        size_t size = size_of[t->value[s->value].type];
        if (back)
            memcpy(there, &copy[i], size);
        else
            memcpy(&copy[i], there, size);
    }
}

/* Does it store the interpreter's results for the present memory? They are also in place afterwards. */
static bool agrees_here(gd_tape *t, char *const *base, gd_tape_fn fn)
{
    size_t one = (size_t)t->stores * sizeof(gd_tape_slot);
    gd_tape_slot *copy = gd__quiet_alloc(t->ctx, MOMENTS * one);
    if (!copy) return false;
    memset(copy, 0, MOMENTS * one);
    copy_stored(t, base, copy, false);
    gd__tape_interpret(t, base);
    copy_stored(t, base, copy + INTERPRETED * t->stores, false);
    copy_stored(t, base, copy, true);
    (void)fn(base, t->slot, t->kernel, t->setting);
    copy_stored(t, base, copy + COMPILED * t->stores, false);
    copy_stored(t, base, copy, true);
    bool same = !memcmp(copy + INTERPRETED * t->stores, copy + COMPILED * t->stores, one);
    gd__free(t->ctx, copy, MOMENTS * one);
    return same;
}

void gd__tape_compile(gd_tape *t, char *const *base, bool stored)
{
    gd_status before = gd_error(t->ctx);
    size_t bytes = (size_t)t->values * sizeof(int32_t);
    int32_t *last = gd__quiet_alloc(t->ctx, bytes);
    gd_text source = {.ctx = t->ctx};
    if (last && (t->kernel || gd__tape_list_kernels(t))) {
        for (int k = 0; k < t->values; k++) last[k] = -1;
        put_source(t, &source, last);
        void *symbol = source.failed ? NULL : gd__compiled_text(t->ctx, source.data, stored);
        gd_tape_fn fn;
        memcpy(&fn, &symbol, sizeof fn);
        if (symbol && agrees_here(t, base, fn)) t->compiled = fn;
    }
    gd__text_free(&source);
    gd__free(t->ctx, last, bytes);
    if (!before && gd_error(t->ctx)) gd_clear_error(t->ctx);
}

gd_tape_rounds_fn gd__tape_compile_rounds(gd_tape *t, const gd_tape_rounds *rounds, bool stored)
{
    gd_status before = gd_error(t->ctx);
    gd_text source = {.ctx = t->ctx};
    gd_tape_rounds_fn fn = NULL;
    if (t->values <= MOST_ROUNDED && (t->kernel || gd__tape_list_kernels(t))) {
        put_rounds(t, &source, rounds);
        void *symbol = source.failed ? NULL : gd__compiled_text(t->ctx, source.data, stored);
        memcpy(&fn, &symbol, sizeof fn);
    }
    gd__text_free(&source);
    if (!before && gd_error(t->ctx)) gd_clear_error(t->ctx);
    return fn;
}
