/* The rule builder: turns the rules of links into one program.
 *
 * Equal instructions are made once.  Arithmetic on uniform values is uniform, so bias corrections and the like cost nothing
 * per element.  A failure (unknown name, too large a program) is recorded once and every later call returns -1. */
#include "base/narrow.h"
#include "optim/rule/build.h"
#include "program/element.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define GD_DRAWS 64 /* streams of random numbers in a half of a link's rule */

struct gd_rule {
    gd_build *build;
    gd_program *p;
    gd_link *link; /* whose rule is being written */
    int holes;     /* children that are not rules, called so far */
    int draws;     /* random numbers asked for by this link, in this rule */
    gd_value hole; /* the input of the first of them whose result is missing */
    bool failed;   /* or done: build->child is set, the rest of the rule is ignored */
    bool missed;   /* it reads an undeclared value */
};

static gd_value fail_with(gd_rule *r, gd_status status, const char *why, const char *name)
{
    if (!r) return -1;
    if (!r->failed)
        (void)gd_fail(r->build->ctx, status, "rule of '%s': %s%s%s", r->link ? r->link->cls->name : "?", why,
                      name ? " " : "", name ? name : "");
    r->failed = true;
    return -1;
}

static gd_value fail(gd_rule *r, const char *why, const char *name)
{
    return fail_with(r, GD_INTERNAL, why, name);
}

/* A caller with several links then tries with fewer of them. */
static gd_value too_large(gd_rule *r, const char *what)
{
    return fail_with(r, GD_OVERFLOW, "the program has too many", what);
}

/* ---- instructions ---- */

static bool same_instr(const gd_instr *a, const gd_instr *b)
{
    return a->op == b->op && a->a == b->a && a->b == b->b && a->c == b->c && a->index == b->index &&
           a->extent == b->extent && a->along == b->along && memcmp(&a->imm, &b->imm, sizeof a->imm) == 0;
}

/* Constant exponents that are multiples of 1/2, at most 32, become products and roots; other powers stay calls. */
static gd_opcode power_op(const gd_program *p, const gd_instr *pow)
{
    bool there = pow->a >= 0 && pow->a < p->count && pow->b >= 0 && pow->b < p->count;
    if (!there || p->instr[pow->a].uniform || p->instr[pow->b].op != GD_I_CONST) return GD_I_pow;
    double exponent = p->instr[pow->b].imm;
    return fabs(exponent) <= 32 && floor(2 * exponent) == 2 * exponent ? GD_I_scalar_pow : GD_I_pow;
}

static gd_value emit(gd_rule *r, gd_instr i)
{
    if (!r || r->failed) return -1;
    gd_program *p = r->p;
    if (i.op == GD_I_pow) i.op = (uint8_t)power_op(p, &i);
    int n = gd__opcode_operands(i.op);
    const int32_t operand[3] = {i.a, i.b, i.c};
    bool uniform = i.op != GD_I_LOAD && i.op != GD_I_RANDOM;
    for (int k = 0; k < n; k++) {
        if (operand[k] < 0 || operand[k] >= p->count) return fail(r, "uses a value that is not there", NULL);
        const gd_instr *from = &p->instr[operand[k]];
        uniform = uniform && from->uniform;
        if (from->level > i.level) i.level = from->level;
        i.along = gd__axes_union(i.along, from->along);
    }
    i.uniform = uniform;
    if (uniform) i.along = 0;
    for (int k = 0; k < p->count; k++)
        if (same_instr(&p->instr[k], &i)) return k;
    if (p->count == GD_MAX_INSTRS) return too_large(r, "instructions");
    p->instr[p->count] = i;
    return p->count++;
}

static gd_instr instr(gd_opcode op, gd_value a, gd_value b, gd_value c)
{
    return (gd_instr){.op = (uint8_t)op, .a = a, .b = b, .c = c, .index = -1, .place = -1};
}

gd_value gd_rule_const(gd_rule *r, double value)
{
    gd_instr i = instr(GD_I_CONST, -1, -1, -1);
    i.imm = value;
    return emit(r, i);
}

gd_value gd_rule_largest(gd_rule *r)
{
    if (!r) return -1;
    switch (r->build->param->dtype) {
    case GD_F64: return gd_rule_const(r, DBL_MAX);
    case GD_F16: return gd_rule_const(r, 65504);
    case GD_BF16: return gd_rule_const(r, 0x1.fep127);
    default: return gd_rule_const(r, FLT_MAX);
    }
}

/* ---- inputs ---- */

static gd_value uniform_input(gd_rule *r, gd_uniform_kind kind, gd_link *link, int index)
{
    if (!r || r->failed) return -1;
    gd_program *p = r->p;
    int u = 0;
    while (u < p->uniforms &&
           !(p->uniform[u].kind == kind && p->uniform[u].owner == link && p->uniform[u].index == index))
        u++;
    if (u == GD_MAX_UNIFORMS) return too_large(r, "scalars");
    if (u == p->uniforms)
        p->uniform[p->uniforms++] = (gd_uniform){.kind = kind, .owner = link, .index = index, .store = -1};
    gd_instr i = instr(GD_I_UNIFORM, -1, -1, -1);
    i.index = u;
    return emit(r, i);
}

static int array_of(gd_rule *r, gd_array_kind kind, gd_link *link, int slot, gd_dtype dtype)
{
    gd_program *p = r->p;
    for (int k = 0; k < p->arrays; k++)
        if (p->array[k].kind == kind && p->array[k].owner == link && p->array[k].slot == slot) return k;
    if (p->arrays == GD_MAX_ARRAYS) {
        too_large(r, "arrays");
        return -1;
    }
    p->array[p->arrays] = (gd_array){
        .kind = kind, .dtype = dtype, .owner = link, .slot = slot, .store = -1, .along = p->full};
    return p->arrays++;
}

static gd_value load_array(gd_rule *r, int k)
{
    if (k < 0) return -1;
    r->p->array[k].loaded = true;
    gd_instr i = instr(GD_I_LOAD, -1, -1, -1);
    i.index = k;
    i.along = r->p->array[k].along;
    return emit(r, i);
}

static gd_value load(gd_rule *r, gd_array_kind kind, gd_link *link, int slot, gd_dtype dtype)
{
    return load_array(r, !r || r->failed ? -1 : array_of(r, kind, link, slot, dtype));
}

static int need_field(gd_rule *r, const char *name)
{
    int field = r ? gd__field_index(r->link->cls, name) : -1;
    if (field < 0) fail(r, "there is no setting", name);
    return field;
}

gd_value gd_rule_setting(gd_rule *r, const char *name)
{
    int field = need_field(r, name);
    if (field < 0) return -1;
    if (!(r->link->cls->fields[field].kinds & (GD_SET_REAL | GD_SET_BOOL)))
        return fail(r, "is no number:", name);
    return uniform_input(r, GD_U_SETTING, r->link, field);
}

gd_value gd_rule_step(gd_rule *r)
{
    if (r) r->link->reads_step = true;
    return uniform_input(r, GD_U_STEP, r ? r->link : NULL, 0);
}

gd_value gd_rule_numel(gd_rule *r) { return uniform_input(r, GD_U_NUMEL, NULL, GD_EACH); }

gd_value gd_rule_count(gd_rule *r, gd_extent extent)
{
    return uniform_input(r, GD_U_NUMEL, NULL, (int)extent);
}

gd_value gd_rule_param(gd_rule *r)
{
    return r ? load(r, GD_ARRAY_PARAM, NULL, 0, r->build->param->dtype) : -1;
}

/* A class need not say that its rule reads gradient or loss: the first build finds it and fails, also if it ends at a child,
 * before anything ran; the caller then evaluates the missing input and builds again (gd__rules_need_more). */
static bool known(gd_rule *r, bool said, bool *seen, bool there)
{
    bool news = !said && !*seen;
    if (news) gd__optimizer_changed(r->link->optimizer, true);
    r->missed = r->missed || (news && !there);
    r->failed = r->failed || r->missed;
    *seen = true;
    return !r->failed;
}

gd_value gd_rule_grad(gd_rule *r)
{
    if (!r || !known(r, r->link->cls->traits.uses_grad, &r->link->reads_grad, r->build->has_grad)) return -1;
    if (r->build->input_is_grad) return load(r, GD_ARRAY_INPUT, NULL, 0, r->build->input_dtype);
    return load(r, GD_ARRAY_GRAD, NULL, 0, r->build->grad_dtype);
}

gd_value gd_rule_loss(gd_rule *r)
{
    if (!r || !known(r, r->link->cls->traits.uses_loss, &r->link->reads_loss, r->build->has_loss)) return -1;
    return uniform_input(r, GD_U_LOSS, NULL, 0);
}

/* Every call has its own stream, also in the other half of the link's rule. */
gd_value gd_rule_random(gd_rule *r, gd_random_kind kind)
{
    if (!r || r->failed) return -1;
    if ((int)kind < GD_RANDOM_UNIFORM || kind > GD_RANDOM_SIGN)
        return fail(r, "there is no such kind of random numbers", NULL);
    if (r->draws == 2 * GD_DRAWS) return too_large(r, "random numbers");
    int slot = r->draws++ * GD_RANDOM_KINDS + (int)kind;
    gd_instr i = instr(GD_I_RANDOM, uniform_input(r, GD_U_KEY, r->link, 0), gd_rule_step(r), -1);
    i.index = array_of(r, GD_ARRAY_RANDOM, r->link, slot, r->p->compute);
    if (i.index < 0) return -1;
    i.along = r->p->full;
    r->p->array[i.index].loaded = true;
    return emit(r, i);
}

/* ---- the tensor ---- */

static const gd_tensor *look_at_shape(gd_rule *r)
{
    if (!r) return NULL;
    r->build->shaped = true;
    return r->build->param;
}

int gd_rule_ndim(gd_rule *r)
{
    const gd_tensor *t = look_at_shape(r);
    return t ? t->ndim : 0;
}

static int axis_of(const gd_tensor *t, int axis)
{
    if (!t) return -1;
    if (axis < 0) axis += t->ndim;
    return axis < t->ndim ? axis : -1;
}

int64_t gd_rule_size(gd_rule *r, int axis)
{
    const gd_tensor *t = look_at_shape(r);
    axis = axis_of(t, axis);
    return axis < 0 ? 0 : t->size[axis];
}

gd_value gd_rule_draw(gd_rule *r, gd_extent extent)
{
    if (!r || r->failed) return -1;
    if (r->draws == 2 * GD_DRAWS) return too_large(r, "random numbers");
    return uniform_input(r, GD_U_DRAW, r->link, r->draws++ * 2 + (extent == GD_ALL));
}

/* ---- settings that shape the program ---- */

static const gd_setting *shaping(gd_rule *r, const char *name)
{
    int field = need_field(r, name);
    return field < 0 ? NULL : gd__resolve(r->link, field, r->build->key);
}

bool gd_rule_flag(gd_rule *r, const char *name)
{
    const gd_setting *s = shaping(r, name);
    return s && s->kind == GD_SET_BOOL && s->real != 0;
}

bool gd_rule_is_none(gd_rule *r, const char *name)
{
    const gd_setting *s = shaping(r, name);
    return s && s->kind == GD_SET_NONE;
}

bool gd_rule_is(gd_rule *r, const char *name, const char *string)
{
    const gd_setting *s = shaping(r, name);
    return s && string && s->kind == GD_SET_STRING && !strcmp(s->string, string);
}

double gd_rule_number(gd_rule *r, const char *name)
{
    const gd_setting *s = shaping(r, name);
    int field = s ? gd__field_index(r->link->cls, name) : -1;
    if (field >= 0 && !r->link->cls->fields[field].structural && s->kind == GD_SET_REAL)
        fail(r, "reads a number that is not declared structural:", name);
    return s && s->kind == GD_SET_REAL ? s->real : NAN;
}

const double *gd_rule_list(gd_rule *r, const char *name, int *count)
{
    const gd_setting *s = shaping(r, name);
    bool list = s && s->kind == GD_SET_LIST;
    if (count) *count = list ? s->list_count : 0;
    return list ? s->list : NULL;
}

unsigned gd_rule_axes(gd_rule *r, const char *field, const char *inverse)
{
    const gd_setting *s = shaping(r, field);
    const gd_tensor *t = look_at_shape(r);
    if (!s || !t) return 0;
    const double *list = s->kind == GD_SET_LIST ? s->list : &s->real;
    int count = s->kind == GD_SET_LIST ? s->list_count : s->kind == GD_SET_REAL;
    unsigned mask = 0;
    for (int i = 0; i < count; i++) {
        int axis = axis_of(t, (int)list[i]);
        if (axis >= 0) mask |= 1u << axis;
    }
    return inverse && gd_rule_flag(r, inverse) ? ~mask & ((1u << t->ndim) - 1) : mask;
}

/* ---- state ---- */

static int need_slot(gd_rule *r, const char *name)
{
    int slot = r ? gd__slot_index(r->link->cls, name) : -1;
    if (slot < 0) fail(r, "declares no state", name);
    return slot;
}

/* The array of a slot. */
static int state_array(gd_rule *r, int slot)
{
    gd_dtype dtype = gd__slot_dtype(r->link, slot, r->build->param, r->build->key);
    int k = array_of(r, GD_ARRAY_STATE, r->link, slot, dtype);
    if (k >= 0)
        r->p->array[k].positive = r->link->cls->slots[slot].flags & (GD_SLOT_SQUARE | GD_SLOT_POSITIVE);
    if (gd__state_chosen(r->link, r->build->key) == GD_U8) r->build->shaped = true; /* not for small ones */
    return k;
}

/* With feedback, codes have an array for their error; -1 if there is none, or no room. */
static int rest_array(gd_rule *r, int k)
{
    gd_array *a = &r->p->array[k];
    if (a->rest) return a->rest - 1;
    if (a->dtype != GD_U8 || !gd__state_feedback(r->link, r->build->key)) return -1;
    if (r->p->arrays == GD_MAX_ARRAYS) {
        too_large(r, "arrays");
        return -1;
    }
    gd_array rest = {.kind = GD_ARRAY_STATE,
                     .dtype = GD_U8,
                     .owner = a->owner,
                     .slot = a->slot,
                     .rest_of = k + 1,
                     .store = -1,
                     .along = r->p->full};
    r->p->array[r->p->arrays++] = rest;
    a->rest = r->p->arrays;
    return a->rest - 1;
}

static gd_value load_state(gd_rule *r, int k)
{
    int rest = rest_array(r, k);
    gd_value code = load_array(r, k), left = rest < 0 || r->failed ? -1 : load_array(r, rest);
    if (left < 0) return code;
    gd_value sum = gd_rule_add(r, code, left);
    if (!r->p->array[k].positive) return sum;
    return gd_rule_max(r, sum, gd_rule_mul(r, code, gd_rule_const(r, (double)GD_LEAST_OF_POSITIVE)));
}

/* State in 16 bits, except copies of other tensors, uses stochastic rounding; its streams follow those that rules draw, one for two
 * slots. */
static void store_state(gd_rule *r, int k, gd_value value)
{
    gd_array *a = &r->p->array[k];
    bool half = a->dtype == GD_F16 || a->dtype == GD_BF16;
    if (half && !(r->link->cls->slots[a->slot].flags & GD_SLOT_EXACT)) {
        a->chance = uniform_input(r, GD_U_DRAW, r->link, (2 * GD_DRAWS + a->slot / 2) * 2 + GD_EACH);
        a->second = a->slot % 2;
        a->by_chance = true; /* -1: the rule has failed */
    }
    a->store = value;
    int rest = rest_array(r, k);
    if (rest >= 0) r->p->array[rest].store = value;
}

gd_value gd_rule_state(gd_rule *r, const char *name)
{
    int slot = need_slot(r, name);
    if (slot < 0) return -1;
    for (int k = 0; k < r->p->arrays; k++) {
        gd_array *a = &r->p->array[k];
        if (a->kind == GD_ARRAY_STATE && a->owner == r->link && a->slot == slot && a->store >= 0)
            return a->store;
    }
    int k = r->failed ? -1 : state_array(r, slot);
    return k < 0 ? -1 : load_state(r, k);
}

gd_value gd_rule_fresh(gd_rule *r, const char *name)
{
    int slot = need_slot(r, name);
    return slot < 0 ? -1 : uniform_input(r, GD_U_FRESH, r->link, slot);
}

gd_value gd_rule_state_or(gd_rule *r, const char *name, gd_value first)
{
    return gd_rule_where(r, gd_rule_fresh(r, name), first, gd_rule_state(r, name));
}

void gd_rule_set(gd_rule *r, const char *name, gd_value value)
{
    int slot = need_slot(r, name);
    if (slot < 0 || value < 0 || r->failed) return;
    int k = state_array(r, slot);
    if (k < 0) return;
    uint16_t has = r->p->array[k].along;
    if (gd__axes_union(has, r->p->instr[value].along) != has)
        fail(r, "sets state to something that differs along axes it has not:", name);
    else
        store_state(r, k, value);
}

void gd_rule_slot_without(gd_rule *r, const char *name, unsigned axes)
{
    int slot = need_slot(r, name);
    if (slot < 0 || r->failed) return;
    if (!(r->link->cls->slots[slot].flags & GD_SLOT_PARTIAL)) {
        fail(r, "state is not declared to be without axes:", name);
        return;
    }
    int k = state_array(r, slot);
    if (k < 0) return;
    if (r->p->array[k].dtype == GD_U8) r->p->array[k].dtype = GD_F32; /* codes are for whole tensors */
    unsigned along = r->p->full & ~axes;
    r->p->array[k].along = (uint16_t)(along ? along : GD_AXIS_ONE);
    r->p->array[k].without = (uint16_t)(axes & ((1u << r->build->param->ndim) - 1));
    r->build->shaped = true;
}

gd_value gd_rule_scalar(gd_rule *r, const char *name)
{
    int index = r ? gd__scalar_index(r->link->cls, name) : -1;
    if (index < 0) return fail(r, "declares no scalar", name);
    gd_value v = uniform_input(r, GD_U_SCALAR, r->link, index);
    gd_value set = v < 0 ? -1 : r->p->uniform[r->p->instr[v].index].store;
    return set >= 0 ? set : v;
}

void gd_rule_set_scalar(gd_rule *r, const char *name, gd_value value)
{
    int index = r ? gd__scalar_index(r->link->cls, name) : -1;
    if (index < 0) {
        fail(r, "declares no scalar", name);
        return;
    }
    gd_value v = uniform_input(r, GD_U_SCALAR, r->link, index);
    if (v < 0 || value < 0) return;
    if (!r->p->instr[value].uniform) {
        fail(r, "sets a scalar to something that differs between elements:", name);
        return;
    }
    r->p->uniform[r->p->instr[v].index].store = value;
}

/* ---- arithmetic ---- */

/* Shorter names of some. */
#define GD_I_not GD_I_logical_not
#define GD_I_and GD_I_logical_and
#define GD_I_or  GD_I_logical_or
#define GD_I_min GD_I_minimum
#define GD_I_max GD_I_maximum

#define UNARY(name) \
    gd_value gd_rule_##name(gd_rule *r, gd_value a) { return emit(r, instr(GD_I_##name, a, -1, -1)); }
GD_RULE_UNARY(UNARY)
#define BINARY(name)                                            \
    gd_value gd_rule_##name(gd_rule *r, gd_value a, gd_value b) \
    {                                                           \
        return emit(r, instr(GD_I_##name, a, b, -1));           \
    }
GD_RULE_BINARY(BINARY)

gd_value gd_rule_where(gd_rule *r, gd_value c, gd_value a, gd_value b)
{
    return emit(r, instr(GD_I_where, c, a, b));
}

gd_value gd_rule_lerp(gd_rule *r, gd_value a, gd_value b, gd_value weight)
{
    return gd_rule_add(r, a, gd_rule_mul(r, weight, gd_rule_sub(r, b, a)));
}

gd_value gd_rule_clamp(gd_rule *r, gd_value x, gd_value low, gd_value high)
{
    return gd_rule_min(r, gd_rule_max(r, x, low), high);
}

/* ---- reductions ---- */

static gd_value reduction(gd_rule *r, gd_opcode op, gd_value x, gd_extent extent)
{
    if (!r || r->failed || x < 0) return -1;
    gd_program *p = r->p;
    gd_instr i = instr(op, x, -1, -1);
    i.extent = (uint8_t)extent;
    i.level = (uint8_t)(p->instr[x].level + 1);
    i.uniform = 1;
    for (int k = 0; k < p->reductions; k++) {
        const gd_instr *old = &p->instr[p->reduction[k]];
        if (old->op == i.op && old->a == i.a && old->extent == i.extent) return p->reduction[k];
    }
    if (p->reductions == GD_MAX_REDUCTIONS || p->count == GD_MAX_INSTRS) return too_large(r, "reductions");
    i.index = p->reductions;
    p->reduction[p->reductions++] = p->count;
    if (i.level > p->levels) p->levels = i.level;
    p->instr[p->count] = i;
    return p->count++;
}

gd_value gd_rule_count_along(gd_rule *r, unsigned axes)
{
    axes &= r && !r->failed ? r->p->full & ~GD_AXIS_ONE : 0;
    return axes ? uniform_input(r, GD_U_SIZE, NULL, (int)axes) : gd_rule_const(r, 1);
}

gd_value gd_rule_sum(gd_rule *r, gd_value x, gd_extent extent)
{
    /* a uniform is the same everywhere: times the number of elements */
    if (r && !r->failed && x >= 0 && r->p->instr[x].uniform)
        return gd_rule_mul(r, x, gd_rule_count(r, extent));
    if (r && !r->failed && x >= 0 && r->p->instr[x].along != r->p->full)
        x = gd_rule_mul(r, x, gd_rule_count_along(r, r->p->full & ~(unsigned)r->p->instr[x].along));
    return reduction(r, GD_I_SUM, x, extent);
}

static gd_value along(gd_rule *r, gd_opcode op, gd_value x, unsigned axes)
{
    gd_program *p = r->p;
    gd_instr i = instr(op == GD_I_SUM ? GD_I_SUM_ALONG : GD_I_MAXIMUM_ALONG, x, -1, -1);
    unsigned from = p->instr[x].along;
    if (!(from & axes)) return x;
    if (!(from & ~axes)) return reduction(r, op, x, GD_EACH);
    i.along = (uint16_t)(from & ~axes);
    i.level = (uint8_t)(p->instr[x].level + 1);
    for (int k = 0; k < p->count; k++)
        if (same_instr(&p->instr[k], &i)) return k;
    if (p->count == GD_MAX_INSTRS) return too_large(r, "instructions");
    if (i.level > p->levels) p->levels = i.level;
    p->instr[p->count] = i;
    return p->count++;
}

gd_value gd_rule_sum_along(gd_rule *r, gd_value x, unsigned axes)
{
    if (!r || r->failed || x < 0) return -1;
    r->build->shaped = true;
    axes &= r->p->full;
    /* along axes where it is the same: times their size */
    unsigned same = axes & ~(unsigned)r->p->instr[x].along;
    if (same) x = gd_rule_mul(r, x, gd_rule_count_along(r, same));
    return r->failed ? -1 : along(r, GD_I_SUM, x, axes);
}

gd_value gd_rule_max_along(gd_rule *r, gd_value x, unsigned axes)
{
    if (!r || r->failed || x < 0) return -1;
    r->build->shaped = true;
    return along(r, GD_I_MAXIMUM, x, axes & r->p->full);
}

gd_value gd_rule_max_over(gd_rule *r, gd_value x, gd_extent extent)
{
    if (r && !r->failed && x >= 0 && r->p->instr[x].uniform) return x;
    return reduction(r, GD_I_MAXIMUM, x, extent);
}

/* Over a tensor, over all (axes NULL), or along axes. */
static gd_value norm(gd_rule *r, gd_value x, double p, gd_extent extent, const unsigned *axes)
{
    if (isinf(p)) {
        x = gd_rule_abs(r, x);
        return axes ? gd_rule_max_along(r, x, *axes) : gd_rule_max_over(r, x, extent);
    }
    x = p == 2   ? gd_rule_square(r, x)
        : p == 1 ? gd_rule_abs(r, x)
                 : gd_rule_pow(r, gd_rule_abs(r, x), gd_rule_const(r, p));
    gd_value sum = axes ? gd_rule_sum_along(r, x, *axes) : gd_rule_sum(r, x, extent);
    return p == 2 ? gd_rule_sqrt(r, sum) : p == 1 ? sum : gd_rule_pow(r, sum, gd_rule_const(r, 1 / p));
}

gd_value gd_rule_norm(gd_rule *r, gd_value x, double p, gd_extent extent)
{
    return norm(r, x, p, extent, NULL);
}

gd_value gd_rule_norm_along(gd_rule *r, gd_value x, double p, unsigned axes)
{
    return norm(r, x, p, GD_EACH, &axes);
}

/* ---- links inside links ---- */

/* Links pass on values per element: a value that is the same everywhere, or along an axis, is rounded as if it were stored, so that the result
 * does not depend on whether the next link is in the same program. */
static gd_value spread(gd_rule *r, gd_value x)
{
    if (r->failed || x < 0 || r->p->instr[x].along == r->p->full) return x;
    return gd_rule_where(r, gd_rule_const(r, 1), x, load(r, GD_ARRAY_INPUT, NULL, 0, r->build->input_dtype));
}

static gd_value link_rule(gd_rule *r, gd_link *link, gd_mode mode, gd_value x);

static gd_value part_rule(gd_rule *r, gd_link *link, gd_value x)
{
    int child = link->cls->part(link, r->build->param);
    r->build->parted = true;
    if (child >= link->children) return fail(r, "chooses a child that is not there", NULL);
    return child < 0 ? x : link_rule(r, link->child[child], GD_MODE_STEP, x);
}

/* The rule of one link in a given mode. */
static gd_value link_rule(gd_rule *r, gd_link *link, gd_mode mode, gd_value x)
{
    gd_link *outer = r->link;
    int draws = r->draws;
    r->link = link;
    r->draws = 0;
    gd_value out = x;
    if (gd__is_chain(link)) {
        for (int i = 0; i < link->children && out >= 0; i++) out = link_rule(r, link->child[i], mode, out);
    } else {
        if (mode != GD_MODE_APPLY && link->cls->update_rule) link->cls->update_rule(r, x);
        r->draws = GD_DRAWS; /* also if update_rule ran in a different program */
        if (mode != GD_MODE_UPDATE)
            out = link->cls->part ? part_rule(r, link, x) : spread(r, link->cls->rule(r, x));
    }
    r->link = outer;
    r->draws = draws;
    return out;
}

/* A child that runs outside of programs: its result if it is known, else this program ends with its input. */
static gd_value hole(gd_rule *r, gd_link *child, gd_value x)
{
    int number = r->holes++;
    if (number < r->build->holes) return load(r, GD_ARRAY_HOLE, NULL, number, r->build->param->dtype);
    r->build->child = child;
    r->hole = spread(r, x);
    r->failed = true;
    return -1;
}

static gd_value child_rule(gd_rule *r, gd_link *child, gd_value x)
{
    if (r->failed || x < 0) return -1;
    return gd__fusable(child) ? link_rule(r, child, GD_MODE_STEP, x) : hole(r, child, x);
}

gd_value gd_rule_child_at(gd_rule *r, int child, gd_value x)
{
    if (!r || child < 0 || child >= r->link->children) return fail(r, "has no such child", NULL);
    return child_rule(r, r->link->child[child], x);
}

gd_value gd_rule_child(gd_rule *r, const char *field, gd_value x)
{
    gd_link *child = r ? gd_link_child(r->link, field) : NULL;
    return child ? child_rule(r, child, x) : fail(r, "has no child", field);
}

int gd_rule_children(gd_rule *r) { return r ? r->link->children : 0; }

bool gd_rule_has_child(gd_rule *r, const char *field) { return r && gd_link_child(r->link, field); }

gd_value gd_rule_operand(gd_rule *r, const char *field, gd_value x)
{
    return gd_rule_has_child(r, field) ? gd_rule_child(r, field, x) : gd_rule_setting(r, field);
}

/* ---- the whole program ---- */

/* The end of the program: stores the value. */
static void finish(gd_rule *r, gd_value value)
{
    const gd_build *b = r->build;
    if (r->failed || b->sink == GD_SINK_NOTHING) return;
    gd_array_kind kind = b->sink == GD_SINK_PARAMS ? GD_ARRAY_PARAM : GD_ARRAY_OUTPUT;
    if (b->sink == GD_SINK_PARAMS) value = gd_rule_sub(r, gd_rule_param(r), value);
    int k = r->failed ? -1 : array_of(r, kind, NULL, 0, b->param->dtype);
    if (k >= 0) r->p->array[k].store = value;
}

/* A program that ends with the input of a child writes nothing else. */
static void finish_at_hole(gd_rule *r)
{
    gd_program *p = r->p;
    for (int k = 0; k < p->arrays; k++) p->array[k].store = -1;
    for (int u = 0; u < p->uniforms; u++) p->uniform[u].store = -1;
    r->failed = false;
    int k = array_of(r, GD_ARRAY_OUTPUT, NULL, 0, r->build->param->dtype);
    if (k >= 0) p->array[k].store = r->hole;
}

gd_program *gd__build(gd_build *build)
{
    gd_program *p = gd__calloc(build->ctx, sizeof *p);
    if (!p) return NULL;
    p->ctx = build->ctx;
    p->compute = build->param->dtype == GD_F64 ? GD_F64 : GD_F32;
    p->full = gd__axes_full(build->param->ndim, build->param->size);
    build->child = NULL;
    build->shaped = false;
    gd_rule r = {.build = build, .p = p};
    gd_value value = load(&r, GD_ARRAY_INPUT, NULL, 0, build->input_dtype);
    for (int i = 0; i < build->pendings && !r.failed; i++) {
        gd_value next = link_rule(&r, build->pending[i].link, build->pending[i].mode, value);
        if (next < 0 && !r.missed) fail(&r, "returned no value", NULL);
        value = next;
    }
    if (r.missed)
        (void)gd_fail(build->ctx, GD_STATE, "a rule reads the gradient or the loss, which are not there");
    else if (build->child)
        finish_at_hole(&r);
    else
        finish(&r, value);
    if (!r.failed && gd__program_axes(p, build->param->ndim) == GD_OK && gd__program_verify(p) == GD_OK)
        return p;
    gd__program_free(p);
    return NULL;
}
