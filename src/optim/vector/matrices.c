/* Stacks of matrices: those of one size together. */
#include "gradus/link/matrices.h"

#include "base/ctx.h"
#include "tensor/shape.h"

#include <float.h>
#include <math.h>

/* ---- one call per size ---- */

/* A list in progress: the results of fn so far. */
typedef struct mapping {
    gd_tensor **stacks, **part, **made;
    int *kind, *entry, count;
    gd_stack_fn fn;
    void *user;
} mapping;

static bool go_together(const mapping *m, int i, int j)
{
    const gd_tensor *a = m->stacks[i], *b = m->stacks[j];
    if (!b || m->made[j] || m->kind[i] != m->kind[j] || a->ndim != b->ndim || a->dtype != b->dtype)
        return false;
    for (int k = 1; k < a->ndim; k++)
        if (a->size[k] != b->size[k]) return false;
    return a->storage->device == b->storage->device;
}

static gd_status share_out(mapping *m, gd_tensor *made, int first, int64_t whole)
{
    gd_ctx *ctx = made->head.ctx;
    if (made->ndim < 1 || made->size[0] != whole)
        return gd_fail(ctx, GD_SHAPE, "map_stacked: %lld matrices, and a result without an axis of that many",
                       (long long)whole);
    int64_t at = 0;
    for (int j = first; j < m->count; j++) {
        if (!m->part[j]) continue;
        int64_t end = at + m->stacks[j]->size[0];
        m->made[j] = gd_slice(made, "0", at, end, 1);
        if (!m->made[j]) return gd_error(ctx);
        at = end;
        m->part[j] = NULL;
    }
    return GD_OK;
}

/* Entry `first` and those of the same stack. */
static gd_status map_alike(mapping *m, int first)
{
    gd_ctx *ctx = m->stacks[first]->head.ctx;
    int parts = 0;
    int64_t whole = 0;
    for (int j = first; j < m->count; j++) {
        if (!go_together(m, first, j)) continue;
        m->part[j] = m->stacks[j];
        whole += m->stacks[j]->size[0];
    }
    for (int j = first; j < m->count; j++) {
        if (!m->part[j]) continue;
        m->entry[parts] = j;
        if (!(m->part[m->count + parts++] = gd_drop_names(m->part[j]))) return gd_error(ctx);
    }
    gd_tensor **list = m->part + m->count;
    gd_tensor *all = parts == 1 ? list[0] : gd_cat(list, parts, "0");
    gd_tensor *made = all ? m->fn(m->user, all, m->entry, parts) : NULL;
    if (!made)
        return gd_error(ctx) ? gd_error(ctx) : gd_fail(ctx, GD_CALLBACK, "map_stacked: nothing was made");
    return share_out(m, made, first, whole);
}

static gd_status map_all(mapping *m, gd_ctx *ctx)
{
    gd_scope_begin(ctx);
    gd_status status = GD_OK;
    for (int i = 0; i < m->count && !status; i++)
        if (m->stacks[i] && !m->made[i]) status = map_alike(m, i);
    for (int i = 0; i < m->count && !status; i++)
        if (m->made[i]) m->stacks[i] = gd_keep(m->made[i]);
    gd_scope_end(ctx);
    return status;
}

static gd_tensor *first_of(gd_tensor *const *stacks, int count)
{
    for (int i = 0; i < count; i++)
        if (stacks[i]) return stacks[i];
    return NULL;
}

static gd_status all_are_stacks(gd_tensor *const *stacks, int count)
{
    for (int i = 0; i < count; i++)
        if (stacks[i] && stacks[i]->ndim < 1)
            return gd_fail(stacks[i]->head.ctx, GD_SHAPE, "map_stacked: tensor %d has no axis", i);
    return GD_OK;
}

gd_status gd_map_stacked(gd_tensor **stacks, int count, gd_stack_kind_fn kind, gd_stack_fn fn, void *user)
{
    if (count < 0 || (count && !stacks) || !fn) return GD_ARGUMENT;
    gd_tensor *any = first_of(stacks, count);
    if (!any) return GD_OK;
    gd_ctx *ctx = any->head.ctx;
    gd_status status = all_are_stacks(stacks, count);
    if (status) return status;
    size_t entry = 3 * sizeof(gd_tensor *) + 2 * sizeof(int), n = (size_t)count;
    gd_tensor **room = gd__alloc_array(ctx, n, entry);
    if (!room) return GD_NOMEM;
    mapping m = {
        .stacks = stacks, .part = room, .made = room + 2 * n, .count = count, .fn = fn, .user = user};
    m.kind = (int *)(void *)(room + 3 * n);
    m.entry = m.kind + n;
    for (int i = 0; i < count; i++) {
        room[i] = m.made[i] = NULL;
        m.kind[i] = kind && stacks[i] ? kind(user, i) : 0;
    }
    status = map_all(&m, ctx);
    gd__free(ctx, room, n * entry);
    return status;
}

/* ---- a tensor as matrices ---- */

gd_tensor *gd_to_matrices(gd_tensor *x)
{
    if (!gd__given1("to_matrices", x)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    if (x->ndim < 2) return gd__refuse(ctx, GD_SHAPE, "to_matrices: needs two axes, got %d", (int)x->ndim);
    int order[GD_MAX_DIMS];
    int64_t matrices = 1;
    for (int i = 2; i < x->ndim; i++) matrices *= x->size[i];
    for (int i = 0; i < x->ndim; i++) order[i] = (i + 2) % x->ndim;
    gd_scope_begin(ctx);
    gd_tensor *out = gd_permute(gd_drop_names(x), order);
    return gd__scope_leave(ctx, gd_reshape(out, 3, (int64_t[]){matrices, x->size[0], x->size[1]}));
}

gd_tensor *gd_from_matrices(gd_tensor *stack, gd_tensor *like)
{
    if (!gd__given2("from_matrices", stack, like)) return NULL;
    gd_ctx *ctx = stack->head.ctx;
    if (like->ndim < 2 || stack->numel != like->numel)
        return gd__refuse(ctx, GD_SHAPE, "from_matrices: %lld elements for a tensor of %d axes and %lld",
                          (long long)stack->numel, (int)like->ndim, (long long)like->numel);
    int order[GD_MAX_DIMS], n = like->ndim;
    int64_t size[GD_MAX_DIMS];
    for (int i = 0; i < n; i++) {
        size[i] = like->size[(i + 2) % n];
        order[i] = (i + n - 2) % n;
    }
    gd_scope_begin(ctx);
    gd_tensor *out = gd_contiguous(gd_permute(gd_reshape(stack, n, size), order));
    return gd__scope_leave(ctx, out ? gd__relabel_like(out, like) : NULL);
}

gd_tensor *gd_named_like(gd_tensor *x, gd_tensor *like)
{
    if (!gd__given2("named_like", x, like)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    bool same = x->ndim == like->ndim;
    for (int i = 0; i < x->ndim && same; i++) same = x->size[i] == like->size[i];
    char one[256], other[256];
    if (!same)
        return gd__refuse(ctx, GD_SHAPE, "named_like: shapes %s and %s", gd__shape_text(x, one, sizeof one),
                          gd__shape_text(like, other, sizeof other));
    gd_scope_begin(ctx);
    gd_tensor *out = gd_contiguous(gd_drop_names(x));
    return gd__scope_leave(ctx, out ? gd__relabel_like(out, like) : NULL);
}

/* ---- powers ---- */

static gd_tensor *or_nan(gd_tensor *condition, gd_tensor *x)
{
    return x ? gd_where(condition, x, gd_full_like(x, NAN)) : NULL;
}

gd_status gd_finite_eigh(gd_tensor *stack, gd_tensor **values, gd_tensor **vectors)
{
    if (!gd__given1("finite_eigh", stack)) return GD_ARGUMENT;
    gd_ctx *ctx = stack->head.ctx;
    if (!values || !vectors) return gd_fail(ctx, GD_ARGUMENT, "finite_eigh: needs places for both results");
    gd_scope_begin(ctx);
    gd_tensor *finite = gd_all(gd_isfinite(stack), "-2, -1", true), *l = NULL, *v = NULL;
    gd_tensor *tame = finite ? gd_where(finite, stack, gd_zeros_like(stack)) : NULL;
    gd_status status = tame ? gd_eigh(tame, &l, &v) : gd_error(ctx);
    l = status ? NULL : or_nan(gd_squeeze(finite, "-1"), l);
    v = l ? or_nan(finite, v) : NULL;
    if (!status && !v) status = gd_error(ctx);
    *values = status ? NULL : gd_keep(l);
    *vectors = status ? NULL : gd_keep(v);
    gd_scope_end(ctx);
    return status;
}

gd_tensor *gd_matrix_power(gd_tensor *stack, double shift, double exponent)
{
    if (!gd__given1("matrix_power", stack)) return NULL;
    gd_ctx *ctx = stack->head.ctx;
    gd_tensor *l = NULL, *v = NULL, *out = NULL;
    gd_scope_begin(ctx);
    if (gd_finite_eigh(stack, &l, &v) == GD_OK) {
        double epsilon = stack->dtype == GD_F64 ? DBL_EPSILON : FLT_EPSILON;
        gd_tensor *error = gd_mul_scalar(gd_max(gd_abs(l), "-1", true),
                                         epsilon * (double)stack->size[stack->ndim - 1]);
        l = gd_maximum(gd_add_scalar(l, shift), error);
        gd_tensor *p = gd_where(gd_eq(l, gd_zeros_like(l)), gd_zeros_like(l), gd_pow_scalar(l, exponent));
        out = gd_matmul(gd_mul(v, gd_unsqueeze(p, -2, NULL)), gd_transpose(v, -1, -2));
    }
    return gd__scope_leave(ctx, out);
}
