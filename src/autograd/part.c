#include "autograd/part.h"
#include "tensor/shape.h"

#include <string.h>

/* ---- axes ---- */

/* A view of value with other axes, and where they move the row. */
typedef struct layout {
    int ndim;
    int64_t size[GD_MAX_DIMS], step[GD_MAX_DIMS], stride[GD_MAX_DIMS];
} layout;

/* Axis `axis` of the part comes next. */
static void take(layout *l, const gd_part *p, int axis)
{
    l->size[l->ndim] = p->value->size[axis];
    l->step[l->ndim] = p->value->stride[axis];
    l->stride[l->ndim++] = p->stride[axis];
}

/* A new axis along which neither the row nor the place in memory moves. */
static void insert(layout *l, int64_t size)
{
    l->size[l->ndim] = size;
    l->step[l->ndim] = l->stride[l->ndim] = 0;
    l->ndim++;
}

static void take_lead(layout *l, const gd_part *p)
{
    for (int i = 0; i < gd__part_lead(p); i++) take(l, p, i);
}

static gd_tensor *view(const gd_tensor *t, int ndim, const int64_t *size, const int64_t *stride,
                       int64_t offset)
{
    gd_tensor *v = gd__bare(t);
    if (!v) return NULL;
    v->ndim = (uint8_t)ndim;
    v->numel = 1;
    for (int i = 0; i < ndim; i++) {
        v->size[i] = size[i];
        v->stride[i] = stride[i];
        v->numel *= size[i];
    }
    v->data += offset * (int64_t)gd__item_size(t);
    return v;
}

static gd_status lay(gd_part *p, const layout *l, int ndim)
{
    gd_tensor *v = view(p->value, l->ndim, l->size, l->step, 0);
    if (!v) return GD_NOMEM;
    p->value = v;
    p->ndim = ndim;
    memcpy(p->stride, l->stride, sizeof p->stride);
    return GD_OK;
}

static void all_of(gd_part *p, int axis)
{
    p->start[axis] = 0;
    p->step[axis] = 1;
}

static bool covers(const gd_part *p, const gd_tensor *t, int axis)
{
    return p->start[axis] == 0 && p->step[axis] == 1 &&
           p->value->size[gd__part_lead(p) + axis] == t->size[axis];
}

static bool covers_all(const gd_part *p, const gd_tensor *t)
{
    bool all = true;
    for (int i = 0; i < p->ndim && all; i++) all = covers(p, t, i);
    return all;
}

/* ---- parts ---- */

gd_part gd__part_identity(const gd_tensor *t)
{
    gd_part p = {.ndim = t->ndim};
    for (int i = 0; i < t->ndim; i++) all_of(&p, i);
    gd__row_major(t->ndim, t->size, p.stride);
    p.value = gd__new(t->storage->device, t->dtype, t->ndim, t->size);
    if (p.value && gd_fill(p.value, 1)) p.value = NULL;
    return p;
}

gd_part gd__part_whole(gd_tensor *value)
{
    gd_part p = {.value = value, .ndim = value->ndim - 1, .stride = {1}};
    for (int i = 0; i < p.ndim; i++) all_of(&p, i);
    return p;
}

bool gd__part_is_whole(const gd_part *p, const gd_tensor *t, int64_t rows)
{
    if (gd__part_lead(p) != 1 || p->row || p->value->size[0] != rows || !covers_all(p, t)) return false;
    bool whole = p->stride[0] == 1 || rows == 1;
    for (int i = 1; i <= p->ndim && whole; i++) whole = p->stride[i] == 0;
    return whole;
}

void gd__part_tidy(gd_part *p)
{
    int lead = gd__part_lead(p);
    for (int i = 0; i < p->value->ndim; i++) {
        if (p->value->size[i] != 1) continue;
        p->stride[i] = 0;
        if (i >= lead) p->step[i - lead] = 1;
    }
}

bool gd__part_alike(const gd_part *a, const gd_part *b)
{
    if (!gd__same_shape(a->value, b->value) || a->ndim != b->ndim || a->row != b->row) return false;
    bool alike = true;
    for (int i = 0; i < a->value->ndim && alike; i++) alike = a->stride[i] == b->stride[i];
    for (int i = 0; i < a->ndim && alike; i++) alike = a->start[i] == b->start[i] && a->step[i] == b->step[i];
    return alike;
}

gd_status gd__part_write(const gd_part *p, const gd_tensor *t, gd_tensor *matrix, bool first)
{
    int lead = gd__part_lead(p);
    int64_t stride[GD_MAX_DIMS], along[GD_MAX_DIMS], offset = p->row * matrix->stride[0];
    gd__row_major(t->ndim, t->size, along);
    for (int i = 0; i < p->value->ndim; i++) {
        stride[i] = p->stride[i] * matrix->stride[0];
        if (i < lead) continue;
        offset += p->start[i - lead] * along[i - lead] * matrix->stride[1];
        stride[i] += p->step[i - lead] * along[i - lead] * matrix->stride[1];
    }
    gd_tensor *there = view(matrix, p->value->ndim, p->value->size, stride, offset);
    gd_tensor *value = p->value;
    if (!first && value->dtype != matrix->dtype) value = gd_cast(value, matrix->dtype);
    if (!first) value = gd_add(there, value);
    return there && value ? gd_assign(there, value) : gd_error(matrix->head.ctx);
}

gd_tensor *gd__part_look(const gd_part *p, gd_tensor *x)
{
    int lead = gd__part_lead(p), shift = p->ndim - x->ndim;
    int64_t stride[GD_MAX_DIMS] = {0}, offset = 0;
    for (int i = shift; i < p->ndim; i++) {
        int64_t along = x->size[i - shift] == 1 ? 0 : x->stride[i - shift];
        offset += p->start[i] * along;
        stride[i] = p->step[i] * along;
    }
    return view(x, p->ndim, p->value->size + lead, stride, offset);
}

/* ---- shapes ---- */

gd_status gd__part_of_slice(gd_part *p, int axis, int64_t start, int64_t step, bool left_out)
{
    if (left_out) {
        layout l = {0};
        if (p->value->ndim == GD_MAX_DIMS) return GD_NOT_IMPLEMENTED;
        take_lead(&l, p);
        for (int i = 0; i <= p->ndim; i++) {
            if (i == axis) insert(&l, 1);
            if (i < p->ndim) take(&l, p, gd__part_lead(p) + i);
        }
        for (int i = p->ndim; i > axis; i--) {
            p->start[i] = p->start[i - 1];
            p->step[i] = p->step[i - 1];
        }
        all_of(p, axis);
        gd_status status = lay(p, &l, p->ndim + 1);
        if (status) return status;
    }
    p->start[axis] = start + step * p->start[axis];
    p->step[axis] *= step;
    return GD_OK;
}

gd_status gd__part_of_embed(gd_part *p, const gd_tensor *t, int axis, int64_t start, int64_t count,
                            int64_t step)
{
    int at = gd__part_lead(p) + axis;
    int64_t from = start, first = 0, last = count;
    if (!covers(p, t, axis)) {
        /* what both have */
        if (step != 1 || p->step[axis] != 1) return GD_NOT_IMPLEMENTED;
        int64_t begin = p->start[axis], end = begin + p->value->size[at];
        first = begin > start ? begin - start : 0;
        last = end < start + count ? end - start : count;
        if (last < first) last = first = 0;
        from = first < last ? start + first - begin : 0;
    }
    p->value = gd__slice(p->value, at, from, last - first, step);
    p->row += from * p->stride[at];
    p->stride[at] *= step;
    p->start[axis] = first;
    p->step[axis] = 1;
    return p->value ? GD_OK : GD_NOMEM;
}

gd_status gd__part_of_permute(gd_part *p, const int64_t *order)
{
    gd_part was = *p;
    int back[GD_MAX_DIMS] = {0}, lead = gd__part_lead(p);
    for (int i = 0; i < p->ndim; i++) back[order[i]] = i;
    layout l = {0};
    take_lead(&l, p);
    for (int i = 0; i < p->ndim; i++) {
        take(&l, p, lead + back[i]);
        p->start[i] = was.start[back[i]];
        p->step[i] = was.step[back[i]];
    }
    return lay(p, &l, p->ndim);
}

gd_status gd__part_of_reshape(gd_part *p, const gd_tensor *t, const gd_tensor *x)
{
    int lead = gd__part_lead(p);
    if (!covers_all(p, t) || lead + x->ndim > GD_MAX_DIMS) return GD_NOT_IMPLEMENTED;
    gd_tensor rows = *t; /* the rows as places in memory */
    int64_t size[GD_MAX_DIMS], stride[GD_MAX_DIMS];
    memcpy(rows.stride, p->stride + lead, (size_t)p->ndim * sizeof *rows.stride);
    if (x->numel && !gd__view_strides(&rows, x->ndim, x->size, stride)) return GD_NOT_IMPLEMENTED;
    for (int i = 0; i < lead; i++) size[i] = p->value->size[i];
    for (int i = 0; i < x->ndim; i++) {
        size[lead + i] = x->size[i];
        p->stride[lead + i] = x->size[i] > 1 ? stride[i] : 0;
        all_of(p, i);
    }
    p->ndim = x->ndim;
    p->value = gd__reshape(p->value, lead + x->ndim, size);
    return p->value ? GD_OK : GD_NOMEM;
}

/* A broadcast axis along which the row moves stays, as one that is none of x; the others are summed. */
gd_status gd__part_of_expand(gd_part *p, const gd_tensor *x)
{
    int lead = gd__part_lead(p), shift = p->ndim - x->ndim;
    unsigned sum = 0;
    bool lost = shift > 0;
    for (int i = 0; i < p->ndim; i++) {
        if (i >= shift && x->size[i - shift] != 1) continue;
        if (p->value->size[lead + i] > 1) {
            lost = true;
            if (p->stride[lead + i] == 0) sum |= 1u << (lead + i);
        }
        if (i >= shift) all_of(p, i);
    }
    if (!lost) return GD_OK;
    if (sum && !(p->value = gd__sum_axes(p->value, sum, true))) return GD_NOMEM;
    layout l = {0};
    take_lead(&l, p);
    for (int i = 0; i < p->ndim; i++) {
        bool kept = i >= shift && x->size[i - shift] != 1;
        if (!kept && p->value->size[lead + i] > 1) take(&l, p, lead + i);
    }
    if (l.ndim + x->ndim > GD_MAX_DIMS) return GD_NOT_IMPLEMENTED;
    for (int i = shift; i < p->ndim; i++) {
        if (x->size[i - shift] != 1)
            take(&l, p, lead + i);
        else
            insert(&l, 1);
        p->start[i - shift] = p->start[i];
        p->step[i - shift] = p->step[i];
    }
    return lay(p, &l, x->ndim);
}

gd_status gd__part_of_sum(gd_part *p, const gd_tensor *x, int first, int last)
{
    int lead = gd__part_lead(p), from = 0;
    bool kept = p->ndim == x->ndim; /* the summed axes, with size 1 */
    gd_part was = *p;
    if (lead + x->ndim > GD_MAX_DIMS) return GD_NOT_IMPLEMENTED;
    layout l = {0};
    take_lead(&l, p);
    for (int i = 0; i < x->ndim; i++) {
        if (i >= first && i <= last) {
            insert(&l, x->size[i]);
            all_of(p, i);
            from += kept;
        } else {
            take(&l, p, lead + from);
            p->start[i] = was.start[from];
            p->step[i] = was.step[from++];
        }
    }
    return lay(p, &l, x->ndim);
}

/* ---- products ----
 *
 * Along the axis that a product sums over, every place may have rows of its own: then nothing is summed, and the axis stays
 * as one that is none of x. */

/* Is `axis` of the matrix t summed, and are there no more than `most` entries with `wide` for it? */
static gd_status product_fits(const gd_part *p, const gd_tensor *t, int axis, int64_t wide, int64_t most,
                              bool *summed)
{
    if (!covers_all(p, t)) return GD_NOT_IMPLEMENTED;
    *summed = p->stride[gd__part_lead(p) + axis] == 0 || t->size[axis] == 1;
    int64_t kept = *summed ? p->value->numel / t->size[axis] : p->value->numel;
    bool many = wide && kept > most / wide, room = *summed || p->value->ndim < GD_MAX_DIMS;
    return many || !room ? GD_NOT_IMPLEMENTED : GD_OK;
}

/* value with an axis of size 1 before axis `at`, times the other factor. */
static gd_tensor *each_times(const gd_part *p, int at, gd_tensor *factor)
{
    gd_tensor *wide = gd_unsqueeze(p->value, at, NULL);
    return wide && factor ? gd_mul(wide, factor) : NULL;
}

gd_status gd__part_of_right_product(gd_part *p, const gd_tensor *t, gd_tensor *m, int64_t most)
{
    bool summed;
    gd_status status = m ? product_fits(p, t, 1, m->size[1], most, &summed) : GD_NOMEM;
    if (status) return status;
    int lead = gd__part_lead(p);
    p->value = summed ? gd_matmul(p->value, m)
                      : each_times(p, lead + 2, m); /* [.., row, column of t, of x] */
    if (!p->value) return GD_NOMEM;
    if (summed) {
        p->stride[lead + 1] = 0;
        return GD_OK;
    }
    layout l = {0};
    p->stride[lead + 2] = 0;
    for (int i = 0; i < lead; i++) take(&l, p, i);
    take(&l, p, lead + 1); /* goes in front */
    take(&l, p, lead);
    take(&l, p, lead + 2);
    return lay(p, &l, 2);
}

gd_status gd__part_of_left_product(gd_part *p, const gd_tensor *t, gd_tensor *m, int64_t most)
{
    bool summed;
    gd_status status = m ? product_fits(p, t, 0, m->size[1], most, &summed) : GD_NOMEM;
    if (status) return status;
    int lead = gd__part_lead(p);
    if (summed) {
        /* columns of single numbers are rows: one product instead of one for every axis in front */
        p->value = t->size[1] == 1 ? gd_transpose(gd_matmul(gd_transpose(p->value, -1, -2), m), -1, -2)
                                   : gd_matmul(gd_transpose(m, 0, 1), p->value);
        p->stride[lead] = 0;
        return p->value ? GD_OK : GD_NOMEM;
    }
    p->value = each_times(p, lead + 1, gd_unsqueeze(m, 2, NULL)); /* [.., row of t, row of x, column] */
    p->stride[lead + 2] = p->stride[lead + 1];
    p->stride[lead + 1] = 0;
    return p->value ? GD_OK : GD_NOMEM;
}
