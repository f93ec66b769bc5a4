/* State whose parameter had its axes, or the elements along one, in a different order when it was saved.
 *
 *     file   w [f = a b c]      here   w [f = c a b]      state element f = c goes to the first place
 *     file   w [i, j]           here   w [j, i]           state is transposed
 *
 * Axes are matched by name and elements by label if both sides have them, else by position.  State with one number
 * for each element of its parameter can follow.  Other state (factors of matrices, vectors over all parameters) is made of
 * sums over places, and is refused. */
#include "optim/state/state.h"
#include "base/text/json.h"
#include "gradus/autograd.h"
#include "tensor/elementwise.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

/* ---- the axes in a file ---- */

static bool same_dtype(const json_t *j, const gd_tensor *t)
{
    const char *dtype = json_string_value(json_object_get(j, "dtype"));
    return dtype && !strcmp(dtype, gd_dtype_name(t->dtype));
}

static int64_t size_in(const json_t *shape, int axis)
{
    return json_integer_value(json_array_get(shape, (size_t)axis));
}

/* The same number of axes and the same sizes; in_order: in the same order. */
static bool same_sizes(const json_t *shape, const gd_tensor *t, bool in_order)
{
    bool same = json_array_size(shape) == t->ndim, met[GD_MAX_DIMS] = {false};
    for (int i = 0; i < t->ndim && same; i++) {
        int k = in_order ? i : 0;
        while (k < t->ndim && (met[k] || size_in(shape, k) != t->size[i]) && !in_order) k++;
        same = k < t->ndim && size_in(shape, k) == t->size[i];
        if (same) met[k] = true;
    }
    return same;
}

static gd_tensor *with_labels(gd_tensor *t, int axis, const json_t *list)
{
    char at[16];
    gd_ctx *ctx = t->head.ctx;
    size_t count = json_array_size(list);
    const char **label = gd__alloc_array(ctx, count + 1, sizeof *label);
    bool good = label && (int64_t)count == t->size[axis];
    for (size_t i = 0; i < count && good; i++) good = (label[i] = json_string_value(json_array_get(list, i)));
    if (label && !good) (void)gd__state_malformed(ctx, "the labels of a parameter");
    snprintf(at, sizeof at, "%d", axis);
    gd_tensor *labelled = good ? gd_with_labels(t, at, label) : NULL;
    gd__free(ctx, label, (count + 1) * sizeof *label);
    return labelled;
}

/* A tensor with the axes of the file and unset elements; borrowed from the scope. */
static gd_tensor *axes_in(gd_ctx *ctx, const json_t *j)
{
    const json_t *axes = json_object_get(j, "axes"), *shape = json_object_get(j, "shape");
    int ndim = (int)json_array_size(shape);
    int64_t size[GD_MAX_DIMS];
    for (int i = 0; i < ndim; i++) size[i] = size_in(shape, i);
    if (json_array_size(axes) != (size_t)ndim)
        return (void)gd__state_malformed(ctx, "the axes of a parameter"), NULL;
    gd_tensor *t = gd_expand(gd_zeros(ctx, GD_F32, 0, NULL), ndim, size);
    for (int i = 0; i < ndim && t; i++) {
        char at[16];
        const json_t *axis = json_array_get(axes, (size_t)i), *labels = json_object_get(axis, "labels");
        const char *name = json_string_value(json_object_get(axis, "name"));
        snprintf(at, sizeof at, "%d", i);
        if (labels) t = with_labels(t, i, labels);
        if (t && name) t = gd_rename_axis(t, at, name);
    }
    return t;
}

/* ---- meeting ---- */

static bool labels_meet(const gd_tensor *file, int at, const gd_tensor *here, int axis)
{
    const gd_labels *want = gd__labels(here, axis);
    if (!want || !gd__labels(file, at)) return true;
    for (int64_t k = 0; k < want->count; k++)
        if (gd_axis_index(file, at, want->text[k]) < 0) return false;
    return true;
}

/* The axes of the file in the order of those here; false: they do not match. */
static bool order_of(const gd_tensor *file, const gd_tensor *here, int *order)
{
    bool used[GD_MAX_DIMS] = {false}, good = true;
    for (int i = 0; i < here->ndim; i++) {
        const char *name = gd__name(here, i);
        order[i] = name ? gd_axis_find(file, name) : -1;
        if (order[i] >= 0) used[order[i]] = true;
    }
    for (int i = 0, k = 0; i < here->ndim; i++) {
        if (order[i] >= 0) continue;
        while (used[k]) k++;
        order[i] = k++;
        const char *name = gd__name(here, i), *there = gd__name(file, order[i]);
        /* a name matches an unnamed axis only at the same position */
        if ((name && there) || ((name || there) && order[i] != i)) good = false;
    }
    for (int i = 0; i < here->ndim && good; i++)
        good = file->size[order[i]] == here->size[i] && labels_meet(file, order[i], here, i);
    return good;
}

/* Has any element moved? */
static bool is_moved(const gd_tensor *file, const gd_tensor *here, const int *order)
{
    for (int i = 0; i < here->ndim; i++) {
        const gd_labels *there = gd__labels(file, order[i]), *want = gd__labels(here, i);
        if (order[i] != i) return true;
        for (int64_t k = 0; there && want && k < want->count; k++)
            if (there->text[k] != want->text[k]) return true;
    }
    return false;
}

static void note_shapes(gd_load_notes *other, const char *name, const json_t *j, const gd_tensor *t)
{
    char here[256], there[128];
    const char *dtype = json_string_value(json_object_get(j, "dtype"));
    gd__load_note(other, "%s is %s %s here and %s %s in the file", name, gd_dtype_name(t->dtype),
                  gd__shape_text(t, here, sizeof here), dtype ? dtype : "?",
                  gd__json_write(json_object_get(j, "shape"), there, sizeof there));
}

static void note_axes(gd_load_notes *other, const char *name, const gd_tensor *file, const gd_tensor *here)
{
    char a[256], b[256];
    if (strcmp(gd__shape_text(here, a, sizeof a), gd__shape_text(file, b, sizeof b)) != 0)
        gd__load_note(other, "%s has axes %s here and %s in the file", name, a, b);
    else
        gd__load_note(other, "%s has other labels here than in the file, axes %s", name, a);
}

gd_status gd__state_axes_meet(gd_load_notes *other, const char *name, const json_t *j, const gd_tensor *here,
                              gd_state_axes *out)
{
    gd_ctx *ctx = here->head.ctx;
    const json_t *shape = json_object_get(j, "shape");
    bool axes = json_object_get(j, "axes");
    if (!same_dtype(j, here) || !same_sizes(shape, here, !axes))
        return note_shapes(other, name, j, here), GD_OK;
    if (!axes) return GD_OK;
    gd_scope_begin(ctx);
    gd_tensor *file = axes_in(ctx, j);
    if (file && !order_of(file, here, out->order))
        note_axes(other, name, file, here);
    else if (file && is_moved(file, here, out->order))
        gd__own(out->file = file);
    gd_scope_end(ctx);
    return file ? GD_OK : gd_error(ctx);
}

/* Has state all names and labels of its parameter? Then it has one number per element. */
static bool has_axes_of(const gd_tensor *t, const gd_tensor *param)
{
    bool all = gd__same_axes(t, param);
    for (int i = 0; i < param->ndim && all; i++) all = !gd__labels(param, i) || gd__labels(t, i);
    return all;
}

gd_tensor *gd__state_axes_move(const gd_state_axes *a, const gd_link *link, gd_tensor *t, gd_tensor *here)
{
    gd_ctx *ctx = here->head.ctx;
    if (!gd__same_shape(t, a->file) || (!gd__is_rule(link) && !has_axes_of(t, a->file))) return NULL;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    t = gd_permute(gd__relabel_like(gd__nameless(t), a->file), a->order);
    for (int i = 0; i < here->ndim && t; i++) t = gd__match_labels("optimizer state", here, i, t, i);
    gd_tensor *own = t ? gd__copy_on(gd_contiguous(t), here->storage->device) : NULL;
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return own;
}

#define ORDER "whose elements are in a different order here"

void gd__state_axes_joint(gd_load_notes *other, const gd_optimizer *o, const gd_state_axes *axes,
                          const char *path, const json_t *link)
{
    const json_t *blocks = json_object_get(link, "stand_ins"), *block;
    size_t k;
    for (int i = 0; i < o->count; i++) {
        const char *name = o->param[i].name;
        if (!axes[i].file) continue;
        bool joint = json_array_size(json_object_get(link, "tensors"));
        json_array_foreach(blocks, k, block)
        {
            const char *of = json_string_value(json_object_get(block, "of"));
            joint = joint || !of || !strcmp(of, name);
        }
        if (joint) gd__load_note(other, "the state of %s cannot follow %s, " ORDER, path, name);
    }
}

void gd__state_axes_lists(gd_load_notes *other, const char *path, const char *param, json_t *settings)
{
    const char *key;
    json_t *j;
    json_object_foreach(settings, key, j)
    {
        if (json_array_size(j) > 1)
            gd__load_note(other, "the list %s of %s cannot follow %s, " ORDER, key, path, param);
    }
}
