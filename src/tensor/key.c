/* Index expressions: x[...] as in NumPy, read and written.
 *
 * A key is read once into a plan: one part for each axis of x, and for each new axis, in the order of the key.  Reading takes numbers
 * and slices as views, joins all axes that are selected from, and selects there. Writing computes the position of every element in memory
 * and stores the values there. */
#include "tensor/device.h"
#include "tensor/elementwise.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#include <string.h>

#define MAX_PARTS 32

typedef enum part_kind {
    PART_SLICE,
    PART_NUMBER, /* start is its place */
    PART_NEW,
    PART_PICK,   /* an i64 index into an axis */
    PART_WHETHER /* a mask without axes: an index that has one element or none, into no axis */
} part_kind;

typedef struct part {
    part_kind kind;
    int axis; /* of x; -1: none */
    int64_t start, count, step;
    gd_tensor *index; /* as given: with names */
} part;

typedef struct plan {
    const char *what;
    gd_tensor *x;
    int count, picks;
    part part[MAX_PARTS];
    int place;      /* position of the axes of the indices in the result */
    int kept, wide; /* axes of slices and new ones; axes of the indices together */
    int64_t size[GD_MAX_DIMS];
} plan;

/* ---- reading a key ---- */

static gd_status add_part(plan *p, part new)
{
    if (p->count == MAX_PARTS)
        return gd_fail(p->x->head.ctx, GD_INDEX, "%s: more than %d parts", p->what, MAX_PARTS);
    p->part[p->count++] = new;
    p->picks += new.kind == PART_PICK || new.kind == PART_WHETHER;
    return GD_OK;
}

static gd_status add_number(plan *p, int axis, int64_t number)
{
    int64_t size = p->x->size[axis];
    char name[64];
    if (number < -size || number >= size)
        return gd_fail(p->x->head.ctx, GD_INDEX, "%s: index %lld is out of range: axis %s has %lld elements",
                       p->what, (long long)number, gd__axis_text(p->x, axis, name), (long long)size);
    return add_part(p, (part){PART_NUMBER, axis, number < 0 ? number + size : number, 1, 1, NULL});
}

static gd_status add_slice(plan *p, int axis, int64_t start, int64_t stop, int64_t step)
{
    int64_t count = gd__slice_count(p->x->size[axis], &start, stop, step);
    if (count < 0)
        return gd_fail(p->x->head.ctx, GD_VALUE, "%s: the step of a slice is %lld", p->what, (long long)step);
    return add_part(p, (part){PART_SLICE, axis, count ? start : 0, count, count > 1 ? step : 1, NULL});
}

/* The positions where a mask is true, one index for each of its axes; without axes one element or none. */
static gd_status add_places(plan *p, int axis, const gd_tensor *mask, const uint8_t *flag)
{
    gd_ctx *ctx = p->x->head.ctx;
    int64_t count = 0, at[GD_MAX_DIMS] = {0}, *to[GD_MAX_DIMS];
    for (int64_t k = 0; k < mask->numel; k++) count += flag[k] != 0;
    for (int i = 0; i < mask->ndim || i == 0; i++) {
        gd_tensor *index = gd__new(gd__cpu(ctx), GD_I64, 1, &count);
        if (!index) return gd_error(ctx);
        to[i] = (int64_t *)(void *)index->data;
        part new = {PART_PICK, axis + i, 0, count, 1, index};
        if (!mask->ndim) new = (part){PART_WHETHER, -1, 0, count, 1, index};
        gd_status status = add_part(p, new);
        if (status) return status;
    }
    for (int64_t k = 0; k < mask->numel; k++) {
        for (int i = 0; flag[k] && (i < mask->ndim || i == 0); i++) *to[i]++ = at[i];
        for (int i = mask->ndim; i-- > 0 && ++at[i] == mask->size[i];) at[i] = 0;
    }
    return GD_OK;
}

/* A mask covers axes of the same sizes; names that both have are equal, and labels are brought into the order of x's. */
static gd_tensor *fitting_mask(const plan *p, int axis, gd_tensor *mask)
{
    gd_tensor *x = p->x;
    char a[64], b[64];
    for (int i = 0; i < mask->ndim && mask; i++) {
        const char *here = gd__name(x, axis + i), *there = gd__name(mask, i);
        if (mask->size[i] != x->size[axis + i])
            return gd__refuse(x->head.ctx, GD_INDEX,
                              "%s: the mask has %lld elements on its axis %s, the tensor %lld on its axis %s",
                              p->what, (long long)mask->size[i], gd__axis_text(mask, i, a),
                              (long long)x->size[axis + i], gd__axis_text(x, axis + i, b));
        if (here && there && here != there)
            return gd__refuse(x->head.ctx, GD_AXIS, "%s: the mask's axis %s is at axis %s of the tensor",
                              p->what, gd__axis_text(mask, i, a), gd__axis_text(x, axis + i, b));
        mask = gd__match_labels(p->what, x, axis + i, mask, i);
    }
    return mask;
}

static gd_status add_mask(plan *p, int axis, gd_tensor *mask)
{
    gd_ctx *ctx = p->x->head.ctx;
    if (!(mask = fitting_mask(p, axis, mask))) return gd_error(ctx);
    size_t bytes = (size_t)mask->numel;
    uint8_t *flag = gd__alloc(ctx, bytes + 1);
    if (!flag) return GD_NOMEM;
    gd_status status = bytes ? gd_read(mask, flag, bytes) : GD_OK;
    if (!status) status = add_places(p, axis, mask, flag);
    gd__free(ctx, flag, bytes + 1);
    return status;
}

static gd_status add_index(plan *p, int axis, gd_tensor *index)
{
    gd_ctx *ctx = p->x->head.ctx;
    if (index->dtype == GD_BOOL) return add_mask(p, axis, index);
    if (gd__is_float(index))
        return gd_fail(ctx, GD_DTYPE, "%s: an index is %s, not an integer or a mask", p->what,
                       gd_dtype_name(index->dtype));
    if (!index->ndim) {
        int64_t number;
        gd_tensor *whole = gd__as_index(p->what, index);
        if (!whole || gd_read(whole, &number, sizeof number)) return gd_error(ctx);
        return add_number(p, axis, number);
    }
    return add_part(p, (part){PART_PICK, axis, 0, 0, 1, index});
}

/* How many axes of x a part of the key takes. */
static int axes_of(const gd_key *k)
{
    if (k->kind == GD_KEY_NEW || k->kind == GD_KEY_REST) return 0;
    return k->kind == GD_KEY_INDEX && k->index->dtype == GD_BOOL ? k->index->ndim : 1;
}

static gd_status check_key(const plan *p, const gd_key *key, int count, int *taken)
{
    gd_ctx *ctx = p->x->head.ctx;
    int rests = 0;
    *taken = 0;
    for (int i = 0; i < count; i++) {
        if ((unsigned)key[i].kind > GD_KEY_INDEX)
            return gd_fail(ctx, GD_VALUE, "%s: no kind %d of a part", p->what, (int)key[i].kind);
        if (key[i].kind == GD_KEY_INDEX && !key[i].index) return gd__null(ctx, "index: an index is NULL");
        rests += key[i].kind == GD_KEY_REST;
        *taken += axes_of(&key[i]);
    }
    if (rests > 1) return gd_fail(ctx, GD_INDEX, "%s: '...' stands %d times", p->what, rests);
    char shape[256];
    if (*taken <= p->x->ndim) return GD_OK;
    return gd_fail(ctx, GD_INDEX, "%s: the key takes %d axes, the tensor has %d: %s", p->what, *taken,
                   (int)p->x->ndim, gd__shape_text(p->x, shape, sizeof shape));
}

/* If other parts are between indices (and numbers next to them), the axes of the indices come first. */
typedef struct neighbours {
    int runs;
    bool inside;
} neighbours;

static void note_run(plan *p, neighbours *n, bool picked)
{
    if (picked && !n->inside && !n->runs++) p->place = p->kept;
    n->inside = picked;
}

static gd_status read_part(plan *p, const gd_key *k, int *axis, int rest)
{
    gd_status status = GD_OK;
    int taken = axes_of(k);
    switch (k->kind) {
    case GD_KEY_NUMBER: status = add_number(p, *axis, k->start); break;
    case GD_KEY_SLICE: status = add_slice(p, *axis, k->start, k->stop, k->step); break;
    case GD_KEY_NEW: status = add_part(p, (part){PART_NEW, -1, 0, 1, 1, NULL}); break;
    case GD_KEY_INDEX: status = add_index(p, *axis, k->index); break;
    case GD_KEY_REST:
        taken = rest;
        for (int i = 0; i < rest && !status; i++) status = add_slice(p, *axis + i, 0, INT64_MAX, 1);
    }
    *axis += taken;
    p->kept += k->kind == GD_KEY_SLICE || k->kind == GD_KEY_NEW ? 1 : k->kind == GD_KEY_REST ? rest : 0;
    return status;
}

/* The broadcast shape of the indices. */
static gd_status join_sizes(plan *p, const gd_tensor *index)
{
    int n = index->ndim > p->wide ? index->ndim : p->wide, shift = n - p->wide;
    memmove(p->size + shift, p->size, (size_t)p->wide * sizeof *p->size);
    for (int i = 0; i < shift; i++) p->size[i] = 1;
    p->wide = n;
    for (int i = 0; i < index->ndim; i++) {
        int64_t *size = &p->size[n - index->ndim + i], other = index->size[i];
        if (*size != other && *size != 1 && other != 1)
            return gd_fail(p->x->head.ctx, GD_INDEX,
                           "%s: indices of %lld and %lld elements on an axis do not broadcast", p->what,
                           (long long)*size, (long long)other);
        if (*size == 1) *size = other;
    }
    return GD_OK;
}

static gd_status read_key(plan *p, const char *what, gd_tensor *x, const gd_key *key, int count)
{
    int taken, axis = 0;
    *p = (plan){.what = what, .x = x};
    gd_status status = check_key(p, key, count, &taken);
    neighbours n = {0, false};
    for (int i = 0; i < count && !status; i++) {
        note_run(p, &n, key[i].kind == GD_KEY_NUMBER || key[i].kind == GD_KEY_INDEX);
        status = read_part(p, &key[i], &axis, x->ndim - taken);
    }
    if (!status && axis < x->ndim)
        status = read_part(p, &(gd_key){.kind = GD_KEY_REST}, &axis, x->ndim - axis);
    if (n.runs > 1) p->place = 0;
    for (int i = 0; i < p->count && !status; i++)
        if (p->part[i].index) status = join_sizes(p, p->part[i].index);
    if (!status && p->kept + p->wide > GD_MAX_DIMS)
        status = gd_fail(x->head.ctx, GD_SHAPE, "%s: the result would have %d axes, more than %d", what,
                         p->kept + p->wide, GD_MAX_DIMS);
    return status;
}

/* ---- positions of selected elements ---- */

/* sum += factor * index where the index broadcasts over the axes of sum; all on the CPU. */
static gd_status add_on_host(const plan *p, const part *k, const gd_tensor *index, int64_t factor,
                             gd_tensor *sum)
{
    int64_t *to = (int64_t *)(void *)sum->data, at[GD_MAX_DIMS] = {0}, from = 0, step[GD_MAX_DIMS],
            size = k->axis < 0 ? 1 : p->x->size[k->axis];
    const int64_t *value = (const int64_t *)(const void *)index->data;
    int shift = sum->ndim - index->ndim;
    for (int i = 0; i < sum->ndim; i++)
        step[i] = i < shift || index->size[i - shift] == 1 ? 0 : index->stride[i - shift];
    for (int64_t n = 0; n < sum->numel; n++) {
        int64_t v = value[from];
        char name[64];
        if (v < -size || v >= size)
            return gd_fail(p->x->head.ctx, GD_INDEX,
                           "%s: index %lld is out of range: axis %s has %lld elements", p->what, (long long)v,
                           gd__axis_text(p->x, k->axis, name), (long long)size);
        to[n] += factor * (v < 0 ? v + size : v);
        for (int i = sum->ndim; i-- > 0;) {
            from += step[i];
            if (++at[i] < sum->size[i]) break;
            from -= step[i] * sum->size[i];
            at[i] = 0;
        }
    }
    return GD_OK;
}

/* The same on a device, by operators: an index out of range becomes an invalid position, which the kernel reports. */
static gd_tensor *added_on_device(const plan *p, const part *k, gd_tensor *index, int64_t factor,
                                  gd_tensor *sum)
{
    int64_t size = k->axis < 0 ? 1 : p->x->size[k->axis];
    gd_tensor *behind = gd_lt(index, gd_zeros_like(index));
    gd_tensor *place = gd_where(behind, gd_add_scalar(index, (double)size), index);
    gd_tensor *fits = gd_logical_and(gd_ge(place, gd_zeros_like(index)),
                                     gd_lt(place, gd_full_like(index, (double)size)));
    place = gd_where(fits, gd_mul_scalar(place, (double)factor), gd_full_like(index, -0x1p60));
    return gd_add(sum, place);
}

/* The positions selected by the indices, [their axes], with a factor for each axis of x. */
static gd_tensor *picked_places(const plan *p, const int64_t *factor)
{
    gd_ctx *ctx = p->x->head.ctx;
    gd_device *device = p->x->storage->device, *cpu = gd__cpu(ctx);
    bool on_host = !ctx->recorder; /* a recording only contains operators */
    for (int i = 0; i < p->count; i++)
        if (p->part[i].index) on_host = on_host && p->part[i].index->storage->device == cpu;
    gd_tensor *sum = gd_empty_on(on_host ? cpu : device, GD_I64, p->wide, p->size);
    if (!sum || gd_fill(sum, 0)) return NULL;
    for (int i = 0; i < p->count && sum; i++) {
        const part *k = &p->part[i];
        if (!k->index) continue;
        gd_tensor *index = gd__nameless(gd__as_index(p->what, k->index));
        int64_t by = k->axis < 0 ? 0 : factor[k->axis];
        if (!on_host)
            sum = added_on_device(p, k, gd_to_device(index, device), by, sum);
        else if (!(index = gd_contiguous(index)) || add_on_host(p, k, index, by, sum))
            return NULL;
    }
    return gd_to_device(sum, device);
}

/* ---- reading ---- */

/* x with its slices, numbers and new axes; *axis[i]: where part i is in it, or -1. */
static gd_tensor *basic_view(const plan *p, int *axis)
{
    gd_tensor *y = p->x;
    int at = 0;
    for (int i = 0; i < p->count && y; i++) {
        const part *k = &p->part[i];
        axis[i] = k->kind == PART_NUMBER || k->kind == PART_WHETHER ? -1 : at++;
        if (k->kind == PART_NUMBER) y = gd__at_place(y, at, k->start);
        if (k->kind == PART_NEW) y = gd_unsqueeze(y, at - 1, NULL);
        bool all = k->kind == PART_SLICE && k->start == 0 && k->step == 1 && k->count == p->x->size[k->axis];
        if (k->kind == PART_SLICE && !all) y = gd__slice(y, at - 1, k->start, k->count, k->step);
    }
    return y == p->x ? gd__same(y) : y;
}

/* The usual index, of one axis and without names: the axis keeps its own. */
static const part *only_plain(const plan *p)
{
    const part *only = NULL;
    for (int i = 0; i < p->count; i++)
        if (p->part[i].kind == PART_PICK) only = &p->part[i];
    return p->picks == 1 && only && p->wide == 1 && !only->index->axes ? only : NULL;
}

static gd_tensor *get_plain(const plan *p, const part *k, const int *axis, gd_tensor *y)
{
    int64_t factor[GD_MAX_DIMS] = {0};
    int from = axis[k - p->part], order[GD_MAX_DIMS], n = 0;
    factor[k->axis] = 1;
    gd_tensor *index = picked_places(p, factor), *out = gd__index_select(y, from, index, NULL);
    if (!out || gd__label_picked(out, from, y, from, index)) return NULL;
    if (from == p->place) return out;
    for (int i = 0; i < y->ndim; i++) {
        if (n == p->place) order[n++] = from;
        if (i != from) order[n++] = i;
    }
    return gd_permute(out, order);
}

/* Names and labels of a result whose axes of indices stand at p->place: of slices from y's kept axes, the others from the indices. */
static gd_tensor *with_names(const plan *p, gd_tensor *out, gd_tensor *y, const int *kept)
{
    gd_axis_source source[GD_MAX_DIMS] = {{NULL, 0}};
    for (int i = 0; i < p->kept; i++) source[i < p->place ? i : i + p->wide] = (gd_axis_source){y, kept[i]};
    for (int i = 0; i < p->count; i++) {
        gd_tensor *index = p->part[i].index;
        for (int j = 0; index && index->axes && j < index->ndim; j++) {
            gd_axis_source *to = &source[p->place + p->wide - index->ndim + j];
            if (!to->from && (gd__name(index, j) || gd__labels(index, j))) *to = (gd_axis_source){index, j};
        }
    }
    return gd__with_axes(out, source);
}

/* y's axes: those of slices and new ones, in order, and those that indices select from. */
static void sort_axes(const plan *p, const int *axis, int *kept, int *picked, int *count)
{
    int n = 0;
    *count = 0;
    for (int i = 0; i < p->count; i++) {
        if (p->part[i].kind == PART_PICK) picked[(*count)++] = axis[i];
        if (p->part[i].kind == PART_SLICE || p->part[i].kind == PART_NEW) kept[n++] = axis[i];
    }
}

/* Joins the axes that are selected from into one, at p->place; selects there, and replaces it by the axes of the indices. */
static gd_tensor *get_joined(const plan *p, const int *axis, gd_tensor *y)
{
    int kept[GD_MAX_DIMS], picked[GD_MAX_DIMS], count, order[GD_MAX_DIMS], n = 0;
    int64_t factor[GD_MAX_DIMS] = {0}, size[GD_MAX_DIMS], all = 1;
    sort_axes(p, axis, kept, picked, &count);
    for (int i = p->count; i-- > 0;) {
        if (p->part[i].kind != PART_PICK) continue;
        factor[p->part[i].axis] = all;
        all *= p->x->size[p->part[i].axis];
    }
    for (int i = 0; i < p->kept; i++) size[i < p->place ? i : i + 1] = y->size[kept[i]];
    size[p->place] = all;
    for (int i = 0; i <= p->kept; i++) {
        for (int j = 0; i == p->place && j < count; j++) order[n++] = picked[j];
        if (i < p->kept) order[n++] = kept[i];
    }
    gd_tensor *index = picked_places(p, factor);
    index = index ? gd__reshape(index, 1, &index->numel) : NULL;
    gd_tensor *out = gd__reshape(gd_permute(gd__nameless(y), order), p->kept + 1, size);
    out = gd__index_select(out, p->place, index, NULL);
    int64_t last[GD_MAX_DIMS];
    for (int i = 0; i < p->kept; i++) last[i < p->place ? i : i + p->wide] = y->size[kept[i]];
    memcpy(last + p->place, p->size, (size_t)p->wide * sizeof *p->size);
    out = gd__reshape(out, p->kept + p->wide, last);
    return with_names(p, out, y, kept);
}

static gd_tensor *get(const plan *p)
{
    int axis[MAX_PARTS];
    gd_tensor *y = basic_view(p, axis);
    const part *plain = only_plain(p);
    if (!y || !p->picks) return y;
    return plain ? get_plain(p, plain, axis, y) : get_joined(p, axis, y);
}

static bool given_key(const char *what, gd_tensor *x, const gd_key *key, int count)
{
    gd_tensor *some = NULL; /* it knows the context where x is NULL */
    for (int i = 0; i < count && key && !x; i++)
        if (key[i].kind == GD_KEY_INDEX && key[i].index) some = key[i].index;
    if (!x) return gd__given2(what, x, some);
    if (count < 0 || (count && !key)) {
        (void)gd__null(x->head.ctx, "index: the key is NULL");
        return false;
    }
    for (int i = 0; i < count; i++) /* a part that was not created */
        if (key[i].kind == GD_KEY_INDEX && !key[i].index && gd_error(x->head.ctx)) return false;
    return true;
}

gd_tensor *gd_get(gd_tensor *x, const gd_key *key, int count)
{
    if (!given_key("get", x, key, count)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    plan p;
    gd_scope_begin(ctx);
    gd_tensor *out = read_key(&p, "get", x, key, count) ? NULL : get(&p);
    return gd__scope_leave(ctx, out);
}

/* ---- writing ---- */

/* The memory positions of the selected elements for those strides, shaped like the result of reading; without names. */
static gd_tensor *all_places(const plan *p, const int64_t *stride)
{
    gd_ctx *ctx = p->x->head.ctx;
    gd_device *device = p->x->storage->device;
    int n = p->kept + p->wide, at = 0;
    int64_t offset = 0, size[GD_MAX_DIMS];
    for (int i = 0; i < n; i++) size[i] = 1;
    memcpy(size + p->place, p->size, (size_t)p->wide * sizeof *size);
    gd_tensor *places = gd__reshape(picked_places(p, stride), n, size);
    for (int i = 0; i < p->count && places; i++) {
        const part *k = &p->part[i];
        if (k->kind == PART_NUMBER) offset += k->start * stride[k->axis];
        if (k->kind != PART_SLICE && k->kind != PART_NEW) continue;
        int to = at < p->place ? at : at + p->wide;
        at++;
        int64_t by = k->axis < 0 ? 0 : stride[k->axis];
        for (int j = 0; j < n; j++) size[j] = j == to ? k->count : 1;
        gd_tensor *along = gd__new(gd__cpu(ctx), GD_I64, n, size);
        for (int64_t j = 0; along && j < k->count; j++)
            ((int64_t *)(void *)along->data)[j] = (k->start + j * k->step) * by;
        places = gd_add(places, gd_to_device(along, device));
    }
    return offset && places ? gd_add_scalar(places, (double)offset) : places;
}

static bool broadcasts(const plan *p, const gd_tensor *values, const gd_tensor *places)
{
    int shift = places->ndim - values->ndim;
    bool fits = shift >= 0;
    char a[256], b[256];
    for (int i = 0; fits && i < values->ndim; i++)
        fits = values->size[i] == 1 || values->size[i] == places->size[i + shift];
    if (!fits)
        (void)gd_fail(p->x->head.ctx, GD_SHAPE, "%s: values %s do not broadcast to the chosen elements %s",
                      p->what, gd__shape_text(values, a, sizeof a), gd__shape_text(places, b, sizeof b));
    return fits;
}

/* Values cast, broadcast and flat, one per position; names match those of the result of reading. */
static gd_tensor *row_of_values(const plan *p, gd_tensor *values, const gd_tensor *places)
{
    gd_ctx *ctx = p->x->head.ctx;
    gd_tensor *like = NULL;
    if (values->axes && p->x->axes) {
        gd__aside_begin(ctx);
        like = gd__aside_leave(ctx, get(p));
        values = like ? gd__placed_in(p->what, values, like, -1) : NULL; /* as gd_assign */
    }
    while (values && values->ndim > places->ndim && values->size[0] == 1) values = gd__squeeze(values, 0);
    if (!values || !broadcasts(p, values, places)) return NULL;
    values = gd_cast(values, p->x->dtype);
    values = gd_expand(gd__nameless(values), places->ndim, places->size);
    return gd__reshape(values, 1, &places->numel);
}

gd_tensor *gd_put(gd_tensor *x, const gd_key *key, int count, gd_tensor *values)
{
    if (!gd__given2("put", x, values) || !given_key("put", x, key, count)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    plan p;
    int64_t stride[GD_MAX_DIMS];
    gd_tensor *out = NULL;
    gd_scope_begin(ctx);
    if (!read_key(&p, "put", x, key, count)) {
        gd__row_major(x->ndim, x->size, stride);
        gd_tensor *places = all_places(&p, stride);
        values = places ? row_of_values(&p, values, places) : NULL;
        places = places ? gd__reshape(places, 1, &places->numel) : NULL;
        out = gd__index_put(gd__reshape(x, 1, &x->numel), 0, places, values);
        out = gd__relabel_like(gd__reshape(out, x->ndim, x->size), x);
    }
    return gd__scope_leave(ctx, out);
}

/* All memory between the first and the last element of t as one axis; *first: where t's element 0 is in it. */
static gd_tensor *memory_of(const gd_tensor *t, int64_t *first)
{
    gd_tensor *flat = gd__bare(t);
    int64_t low = 0, high = 0;
    for (int i = 0; flat && i < t->ndim; i++) {
        int64_t reach = (t->size[i] - 1) * t->stride[i];
        *(reach < 0 ? &low : &high) += reach;
    }
    if (!flat) return NULL;
    flat->ndim = 1;
    flat->numel = flat->size[0] = high - low + 1;
    flat->stride[0] = 1;
    flat->data += low * (int64_t)gd__item_size(t);
    *first = -low;
    return flat;
}

static gd_status put_picked(plan *p, gd_tensor *dst, gd_tensor *values)
{
    gd_ctx *ctx = dst->head.ctx;
    int64_t first = 0;
    gd_tensor *places = all_places(p, dst->stride), *row = NULL;
    if (!places || !(row = row_of_values(p, values, places))) return gd_error(ctx);
    if (!places->numel) return GD_OK;
    if (row->storage == dst->storage) row = gd_copy(row); /* the old values are used */
    gd_tensor *flat = memory_of(dst, &first);
    if (first) places = gd_add_scalar(places, (double)first);
    places = places ? gd__reshape(places, 1, &places->numel) : NULL;
    if (!flat || !places || !row) return gd_error(ctx);
    gd_tensor *in[3] = {flat, places, row};
    gd_status status = gd__execute(GD_OP_index_put, in, 3, &(gd_attrs){.ni = 1}, &flat, 1);
    if (!status) gd__touch(dst);
    return status;
}

gd_status gd_put_into(gd_tensor *dst, const gd_key *key, int count, const gd_tensor *values)
{
    if (!dst || !values) return gd__null(gd_tensor_ctx(dst ? dst : values), "put_into: an operand is NULL");
    gd_ctx *ctx = dst->head.ctx;
    if (!given_key("put_into", dst, key, count)) return gd_error(ctx);
    gd_status status = gd__writable("put_into", dst);
    if (status) return status;
    plan p;
    gd__aside_begin(ctx);
    status = read_key(&p, "put_into", dst, key, count);
    if (!status && p.picks)
        status = put_picked(&p, dst, (gd_tensor *)(uintptr_t)values);
    else if (!status) {
        gd_tensor *view = get(&p);
        status = view ? gd_assign(view, values) : gd_error(ctx);
    }
    gd__aside_end(ctx);
    return status;
}
