/* Spaces of programs: axes of values, spaces of passes, and the order of sums along axes.
 *
 * While a program is being made its masks are of the tensor's axes.  At the end adjacent axes that no mask distinguishes become one,
 * so that a matrix of a four-dimensional tensor is one here, and a program where no value is coarser than elements has no axes. */
#include "program/element.h"

#include <string.h>

uint16_t gd__axes_full(int ndim, const int64_t *size)
{
    unsigned full = 0;
    for (int i = 0; i < ndim; i++)
        if (size[i] != 1) full |= 1u << i;
    return (uint16_t)(full ? full : GD_AXIS_ONE);
}

uint16_t gd__axes_union(uint16_t a, uint16_t b)
{
    unsigned both = a | b;
    return (uint16_t)(both & ~GD_AXIS_ONE ? both & ~GD_AXIS_ONE : both);
}

/* ---- places ---- */

static int take_place(gd_program *p, int32_t i)
{
    if (p->arrays == GD_MAX_ARRAYS) return -1;
    bool along = gd__is_along(
        p->instr[i].op); /* its pass hands the operand of every element to the executor */
    p->array[p->arrays] = (gd_array){.kind = GD_ARRAY_SCRATCH,
                                     .dtype = p->compute,
                                     .slot = p->arrays,
                                     .store = along ? p->instr[i].a : i,
                                     .along = p->instr[i].along};
    return p->arrays++;
}

static bool read_elsewhere(const gd_program *p, int32_t i)
{
    uint16_t along = p->instr[i].along;
    bool read = false;
    for (int j = i + 1; j < p->count && !read; j++) {
        const gd_instr *in = &p->instr[j];
        bool walks = !in->uniform && !gd__is_along(in->op);
        read = walks && in->along != along && (in->a == i || in->b == i || in->c == i);
    }
    for (int k = 0; k < p->arrays && !read; k++)
        read = p->array[k].store == i && p->array[k].along != along && p->array[k].kind != GD_ARRAY_SCRATCH;
    return read;
}

static bool take_places(gd_program *p)
{
    for (int32_t i = 0; i < p->count; i++) {
        gd_instr *in = &p->instr[i];
        if (in->uniform || gd__is_load(in->op)) continue;
        if (!gd__is_along(in->op) && (in->along == p->full || !read_elsewhere(p, i))) continue;
        in->place = (int16_t)take_place(p, i);
        if (in->place < 0) return false;
    }
    return true;
}

/* ---- levels ---- */

void gd__program_delay(gd_program *p, int r, int level)
{
    p->instr[p->reduction[r]].level = (uint8_t)level;
    for (int i = p->reduction[r] + 1; i < p->count; i++) {
        gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        int least = 0;
        for (int k = 0; k < gd__opcode_operands(in->op); k++)
            if (p->instr[operand[k]].level > least) least = p->instr[operand[k]].level;
        least += gd__is_reduction(in->op) || gd__is_along(in->op);
        if (in->level < least) in->level = (uint8_t)least;
    }
    for (int i = 0; i < p->count; i++)
        if (p->instr[i].level > p->levels) p->levels = p->instr[i].level;
}

/* The level at which each instruction must be known. */
static void find_needs(const gd_program *p, int *need)
{
    for (int i = 0; i < p->count; i++) need[i] = p->levels;
    for (int i = p->count - 1; i >= 0; i--) {
        const gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        bool reduces = gd__is_reduction(in->op) || gd__is_along(in->op);
        int when = reduces ? in->level - 1 : in->place >= 0 && in->level < need[i] ? in->level : need[i];
        for (int k = 0; k < gd__opcode_operands(in->op); k++)
            if (when < need[operand[k]]) need[operand[k]] = when;
    }
}

/* Is there a pass that reduces to uniform values, over the same space as r and at the level before `level`, without it? */
static bool has_company(const gd_program *p, int r, int level)
{
    uint16_t along = p->instr[p->instr[p->reduction[r]].a].along;
    for (int k = 0; k < p->reductions; k++) {
        const gd_instr *in = &p->instr[p->reduction[k]];
        if (k != r && in->level == level && p->instr[in->a].along == along) return true;
    }
    return false;
}

/* A reduction that has its own pass, and is not needed before a later one, moves there: this saves a pass over memory. */
static void share_passes(gd_program *p)
{
    int need[GD_MAX_INSTRS];
    for (int r = 0; r < p->reductions; r++) {
        const gd_instr *in = &p->instr[p->reduction[r]];
        if (has_company(p, r, in->level)) continue;
        find_needs(p, need);
        for (int level = in->level + 1; level <= need[p->reduction[r]]; level++) {
            if (!has_company(p, r, level)) continue;
            gd__program_delay(p, r, level);
            break;
        }
    }
}

/* ---- joining axes ---- */

/* Do two axes belong to the same values? */
static bool alike(const gd_program *p, int a, int b)
{
    bool same = true;
    for (int i = 0; i < p->count && same; i++)
        same = (p->instr[i].along >> a & 1) == (p->instr[i].along >> b & 1);
    for (int k = 0; k < p->arrays && same; k++)
        same = (p->array[k].along >> a & 1) == (p->array[k].along >> b & 1);
    return same;
}

static uint16_t renamed(const gd_program *p, uint16_t along, int one)
{
    unsigned to = along & GD_AXIS_ONE && one >= 0 ? 1u << one : 0;
    for (int i = 0; i < GD_MAX_DIMS; i++)
        if (along >> i & 1 && p->axis_of[i] >= 0) to |= 1u << p->axis_of[i];
    return (uint16_t)to;
}

static void forget_axes(gd_program *p)
{
    for (int i = 0; i < p->count; i++) p->instr[i].along = 0;
    for (int k = 0; k < p->arrays; k++) p->array[k].along = 0;
    p->axes = 0;
    p->full = 0;
}

static bool tells_axes_apart(const gd_program *p)
{
    for (int i = 0; i < p->count; i++)
        if (!p->instr[i].uniform && p->instr[i].along != p->full) return true;
    for (int k = 0; k < p->arrays; k++)
        if (p->array[k].along != p->full) return true;
    return false;
}

static void join_axes(gd_program *p, int ndim)
{
    uint16_t used = p->full;
    for (int k = 0; k < p->arrays; k++) used |= p->array[k].along;
    for (int i = 0; i < p->count; i++) used |= p->instr[i].along;
    int one = used & GD_AXIS_ONE ? p->axes++ : -1, before = -1;
    for (int i = 0; i < GD_MAX_DIMS; i++) p->axis_of[i] = -1;
    for (int i = 0; i < ndim; i++) {
        if (!(used >> i & 1)) continue;
        bool joins = before >= 0 && alike(p, before, i);
        p->axis_of[i] = (int8_t)(joins ? p->axes - 1 : p->axes++);
        before = i;
    }
    for (int i = 0; i < p->count; i++) p->instr[i].along = renamed(p, p->instr[i].along, one);
    for (int k = 0; k < p->arrays; k++) p->array[k].along = renamed(p, p->array[k].along, one);
    p->full = renamed(p, p->full, one);
}

gd_status gd__program_axes(gd_program *p, int ndim)
{
    if (!tells_axes_apart(p)) {
        forget_axes(p);
        return GD_OK;
    }
    if (!take_places(p)) return gd_fail(p->ctx, GD_OVERFLOW, "the program has too many values along axes");
    join_axes(p, ndim);
    share_passes(p);
    if (gd__program_passes(p) <= GD_MAX_PASSES) return GD_OK;
    return gd_fail(p->ctx, GD_OVERFLOW, "the program has too many passes");
}

void gd__program_sizes(const gd_program *p, int ndim, const int64_t *size, int64_t *out)
{
    for (int g = 0; g < p->axes; g++) out[g] = 1;
    for (int i = 0; i < ndim && p->axes; i++)
        if (p->axis_of[i] >= 0) out[p->axis_of[i]] *= size[i];
}

int64_t gd__axes_numel(const gd_program *p, const int64_t *size, uint16_t along, int64_t numel)
{
    if (along == p->full) return numel;
    int64_t n = 1;
    for (int g = 0; g < p->axes; g++)
        if (along >> g & 1) n *= size[g];
    return n;
}

/* ---- passes ---- */

gd_tiling gd__tiling(const gd_program *p, const gd_instr *in)
{
    uint16_t space = p->instr[in->a].along, kept = in->along;
    int g = p->axes - 1;
    while (!(space >> g & 1)) g--;
    gd_tiling t = {.columns_kept = kept >> g & 1};
    for (; g >= 0 && (!(space >> g & 1) || (kept >> g & 1) == t.columns_kept); g--)
        t.inner |= (uint16_t)(1u << g & space);
    for (; g >= 0 && (!(space >> g & 1) || (kept >> g & 1) != t.columns_kept || !t.columns_kept); g--)
        t.next |= (uint16_t)(1u << g & space);
    return t;
}

/* Instructions with the same view of the space run in one pass; `first` represents them. */
static bool same_tiles(const gd_program *p, int32_t first, int32_t i)
{
    const gd_instr *a = &p->instr[first], *b = &p->instr[i];
    if (!gd__is_along(b->op) || a->level != b->level || p->instr[a->a].along != p->instr[b->a].along)
        return false;
    gd_tiling s = gd__tiling(p, a), t = gd__tiling(p, b);
    return s.inner == t.inner && (!s.columns_kept || !t.columns_kept || s.next == t.next);
}

/* Is it the first of its kind? Then it defines a pass. Sums of columns define passes first, because the others can join any of them. */
static bool leads(const gd_program *p, int32_t i)
{
    bool columns = gd__tiling(p, &p->instr[i]).columns_kept;
    for (int32_t j = 0; j < p->count; j++) {
        if (j == i || !gd__is_along(p->instr[j].op) || !same_tiles(p, j, i)) continue;
        bool first = gd__tiling(p, &p->instr[j]).columns_kept;
        if (first != columns ? first : j < i) return false;
    }
    return true;
}

/* The pass of an instruction: the first one that it can join. */
static bool follows(const gd_program *p, int32_t leader, int32_t i)
{
    if (!gd__is_along(p->instr[i].op) || !same_tiles(p, leader, i)) return false;
    for (int32_t j = 0; j < leader; j++)
        if (gd__is_along(p->instr[j].op) && leads(p, j) && same_tiles(p, j, i)) return false;
    return true;
}

typedef struct pass_list {
    const gd_program *p;
    int count, wanted; /* wanted: the number of the pass to be described in *found */
    gd_pass *found;
} pass_list;

static void add_pass(pass_list *list, gd_pass_kind kind, int level, uint16_t along, int32_t leader)
{
    if (list->count++ != list->wanted) return;
    gd_pass *pass = list->found;
    pass->kind = kind;
    pass->level = level;
    pass->along = along;
    pass->last = kind == GD_PASS_STORE;
    if (kind == GD_PASS_ALONG) pass->sum[pass->sums++] = leader; /* it defines the tiles */
    for (int32_t i = 0; kind == GD_PASS_ALONG && i < list->p->count; i++)
        if (i != leader && follows(list->p, leader, i)) pass->sum[pass->sums++] = i;
}

static bool prepares(const gd_program *p, int level, uint16_t along)
{
    for (int i = 0; i < p->count; i++) {
        const gd_instr *in = &p->instr[i];
        if (in->place >= 0 && !in->uniform && !gd__is_along(in->op) && in->level == level &&
            in->along == along)
            return true;
    }
    return false;
}

static bool reduces(const gd_program *p, int level, uint16_t along)
{
    for (int r = 0; r < p->reductions; r++) {
        const gd_instr *in = &p->instr[p->reduction[r]];
        if (in->level == level + 1 && p->instr[in->a].along == along) return true;
    }
    return false;
}

static bool stores(const gd_program *p, uint16_t along)
{
    for (int k = 0; k < p->arrays; k++)
        if (p->array[k].store >= 0 && p->array[k].kind != GD_ARRAY_SCRATCH && p->array[k].along == along)
            return true;
    return along == p->full;
}

/* The number of axes of a space; the first is the one for no axes, without an axis of the tensor. */
static int axes_in(const gd_program *p, unsigned along)
{
    bool stands_for_none = true;
    for (int i = 0; i < GD_MAX_DIMS; i++) stands_for_none = stands_for_none && p->axis_of[i] != 0;
    return __builtin_popcount(along) - (stands_for_none && along & 1);
}

/* Masks by the number of their axes, coarse spaces first: values there are read by finer ones. */
static void list_level(pass_list *list, int level)
{
    const gd_program *p = list->p;
    for (int bits = 0; bits <= p->axes; bits++)
        for (unsigned along = 1; along <= p->full || along < 1u << p->axes; along++)
            if (axes_in(p, along) == bits && along != p->full && prepares(p, level, (uint16_t)along))
                add_pass(list, GD_PASS_PREPARE, level, (uint16_t)along, -1);
    for (unsigned along = 1; level < p->levels && along < 1u << p->axes; along++)
        if (reduces(p, level, (uint16_t)along)) add_pass(list, GD_PASS_REDUCE, level, (uint16_t)along, -1);
    for (int32_t i = 0; i < p->count; i++)
        if (gd__is_along(p->instr[i].op) && p->instr[i].level == level + 1 && leads(p, i))
            add_pass(list, GD_PASS_ALONG, level, p->instr[p->instr[i].a].along, i);
    /* coarse state that finer passes still read is written after them */
    for (int bits = p->axes; level == p->levels && bits >= 0; bits--)
        for (unsigned along = 1; along < 1u << p->axes; along++)
            if (axes_in(p, along) == bits && stores(p, (uint16_t)along))
                add_pass(list, GD_PASS_STORE, level, (uint16_t)along, -1);
}

static int walk_passes(const gd_program *p, int wanted, gd_pass *found)
{
    pass_list list = {.p = p, .wanted = wanted, .found = found};
    for (int level = 0; level <= p->levels; level++) {
        if (p->axes)
            list_level(&list, level);
        else
            add_pass(&list, level < p->levels ? GD_PASS_REDUCE : GD_PASS_STORE, level, 0, -1);
    }
    return list.count;
}

int gd__program_passes(const gd_program *p) { return p->axes ? walk_passes(p, -1, NULL) : p->levels + 1; }

int gd__array_read(const gd_program *p, const gd_pass *pass, int32_t i)
{
    const gd_instr *in = &p->instr[i];
    if (gd__is_load(in->op)) return in->index;
    return !in->uniform && (gd__is_along(in->op) || in->along != pass->along) ? in->place : -1;
}

/* Marks the operands of marked element instructions, back to front, and notes the uniforms they read. */
static void close_needs(const gd_program *p, gd_pass *pass, bool *read)
{
    for (int i = p->count - 1; i >= 0; i--) {
        const gd_instr *in = &p->instr[i];
        if (!read[i]) continue;
        if (in->uniform) {
            /* constants are part of the kernel */
            if (in->op == GD_I_CONST) read[i] = false;
            continue;
        }
        pass->needed[i] = true;
        int from = gd__array_read(p, pass, i);
        if (from >= 0) {
            pass->loads |= 1u << from;
            if (in->along != pass->along) pass->views |= 1u << from;
            /* the generator reads key and step, not the elements */
            if (in->op == GD_I_RANDOM) pass->random[pass->randoms++] = i;
            continue;
        }
        const int32_t operand[3] = {in->a, in->b, in->c};
        for (int k = 0; k < gd__opcode_operands(in->op); k++) read[operand[k]] = true;
    }
}

static void mark_stores(const gd_program *p, gd_pass *pass, bool *read)
{
    for (int k = 0; k < p->arrays; k++) {
        const gd_array *a = &p->array[k];
        bool scratch = a->kind == GD_ARRAY_SCRATCH, wanted = false;
        if (a->store < 0) continue;
        if (pass->kind == GD_PASS_STORE) wanted = !scratch && a->along == pass->along;
        if (pass->kind == GD_PASS_PREPARE)
            wanted = scratch && p->instr[a->store].place == k && a->along == pass->along &&
                     p->instr[a->store].level == pass->level;
        for (int s = 0; s < pass->sums && !wanted; s++) wanted = p->instr[pass->sum[s]].place == k;
        if (!wanted) continue;
        read[a->store] = true;
        pass->stores |= 1u << k;
        if (a->by_chance) pass->chance[pass->chances++] = k;
    }
}

void gd__program_pass(const gd_program *p, int number, gd_pass *pass)
{
    bool read[GD_MAX_INSTRS] = {false};
    memset(pass, 0, sizeof *pass);
    (void)walk_passes(p, number, pass);
    mark_stores(p, pass, read);
    for (int r = 0; pass->kind == GD_PASS_REDUCE && r < p->reductions; r++) {
        const gd_instr *in = &p->instr[p->reduction[r]];
        if (in->level != pass->level + 1 || p->instr[in->a].along != pass->along) continue;
        read[in->a] = true;
        pass->reduction[pass->reductions++] = r;
    }
    close_needs(p, pass, read);
    for (int i = 0; i < p->count; i++)
        if (read[i] && p->instr[i].uniform) pass->used[pass->used_count++] = i;
    int32_t *next = pass->used + pass->used_count;
    for (int k = 0; k < pass->randoms; k++) {
        *next++ = p->instr[pass->random[k]].a;
        *next++ = p->instr[pass->random[k]].b;
    }
    for (int k = 0; k < pass->chances; k++) *next++ = p->array[pass->chance[k]].chance;
    pass->scalars = (int)(next - pass->used);
}
