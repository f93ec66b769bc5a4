/* Element-wise operators: how operands meet, and the public functions.
 *
 * Anonymous operands meet from the right as in NumPy.  With names, the operands are first brought into one order by
 * recorded views (permute, unsqueeze, label order), so that gradients find their way back by themselves; after that the
 * same right-aligned broadcast serves. */
#include "base/special.h"
#include "tensor/elementwise.h"
#include "tensor/device.h"
#include "tensor/linalg.h"

#include <string.h>

/* ---- meeting by name ---- */

#define MAX_OPERANDS 3

/* The joint axes of several operands and where they come from. */
typedef struct meeting {
    int ndim;
    const char *name[GD_MAX_DIMS * 2];
    int from[MAX_OPERANDS][GD_MAX_DIMS * 2]; /* axis of each operand, or -1 */
} meeting;

static meeting alone(const gd_tensor *t, int side)
{
    meeting m = {.ndim = t->ndim};
    for (int i = 0; i < t->ndim; i++) {
        m.name[i] = gd__name(t, i);
        for (int s = 0; s < MAX_OPERANDS; s++) m.from[s][i] = s == side ? i : -1;
    }
    return m;
}

/* The axis of b that meets axis i of a: the same name, or the same place among anonymous ones from the right. */
static int partner(const meeting *a, int i, const meeting *b)
{
    int rank = 0;
    for (int k = i + 1; k < a->ndim; k++) rank += !a->name[k];
    for (int j = b->ndim; j-- > 0;)
        if (a->name[i] ? b->name[j] == a->name[i] : !b->name[j] && rank-- == 0) return j;
    return -1;
}

static bool covers(const meeting *a, const meeting *b)
{
    for (int j = 0; j < b->ndim; j++)
        if (partner(b, j, a) < 0) return false;
    return true;
}

/* What `other` knows of its axis j goes to axis i of m. */
static void take_sources(meeting *m, int i, const meeting *other, int j)
{
    for (int s = 0; s < MAX_OPERANDS; s++)
        if (other->from[s][j] >= 0) m->from[s][i] = other->from[s][j];
}

static void insert(meeting *m, int at, const meeting *other, int j)
{
    for (int i = m->ndim++; i > at; i--) {
        m->name[i] = m->name[i - 1];
        for (int s = 0; s < MAX_OPERANDS; s++) m->from[s][i] = m->from[s][i - 1];
    }
    m->name[at] = other->name[j];
    for (int s = 0; s < MAX_OPERANDS; s++) m->from[s][at] = -1;
    take_sources(m, at, other, j);
}

/* The result has the axes of the side that covers the other (the left one if both do).  Otherwise: the left's axes, the
 * right's new names behind the left's last name, its extra anonymous axes before the left's first anonymous one. */
static meeting joined(const meeting *a, const meeting *b)
{
    bool left = covers(a, b) || !covers(b, a);
    const meeting *lead = left ? a : b, *other = left ? b : a;
    meeting m = *lead;
    int named_end = 0, first_anonymous = lead->ndim, added = 0;
    for (int i = 0; i < lead->ndim; i++) {
        int j = partner(lead, i, other);
        if (j >= 0) take_sources(&m, i, other, j);
        if (lead->name[i])
            named_end = i + 1;
        else if (first_anonymous == lead->ndim)
            first_anonymous = i;
    }
    for (int j = 0; j < other->ndim; j++) {
        if (partner(other, j, lead) >= 0) continue;
        bool named = other->name[j] != NULL;
        int at = named ? named_end++ : first_anonymous + added;
        if (named && at <= first_anonymous) first_anonymous++;
        if (!named) {
            if (first_anonymous + added < named_end) named_end++;
            added++;
        }
        insert(&m, at, other, j);
    }
    return m;
}

/* Checks sizes and labels of axes that meet; puts labelled elements into the order of the first operand that has
 * labels. */
static gd_status match(const char *what, const meeting *m, gd_tensor **in, int count)
{
    gd_ctx *ctx = in[0]->head.ctx;
    for (int k = 0; k < m->ndim; k++) {
        int first = -1, labelled = -1;
        for (int s = 0; s < count; s++) {
            int axis = m->from[s][k];
            if (axis < 0) continue;
            char text[64];
            if (first < 0) first = s;
            int lead = m->from[first][k];
            if (m->name[k] && in[s]->size[axis] != in[first]->size[lead])
                return gd_fail(ctx, GD_SHAPE, "%s: axis %s has %lld on the left and %lld on the right", what,
                               gd__axis_text(in[s], axis, text), (long long)in[first]->size[lead],
                               (long long)in[s]->size[axis]);
            if (labelled >= 0)
                in[s] = gd__match_labels(what, in[labelled], m->from[labelled][k], in[s], axis);
            if (!in[s]) return gd_error(ctx);
            if (labelled < 0 && gd__labels(in[s], axis)) labelled = s;
        }
    }
    return GD_OK;
}

/* t seen with the axes of the meeting: permuted, with axes of size 1 where it has none. */
static gd_tensor *seen_as(gd_tensor *t, const meeting *m, int side)
{
    int order[GD_MAX_DIMS], n = 0;
    bool in_order = true;
    for (int k = 0; k < m->ndim; k++) {
        int axis = m->from[side][k];
        if (axis < 0) continue;
        if (axis != n) in_order = false;
        order[n++] = axis;
    }
    if (!in_order) t = gd_permute(t, order);
    /* leading missing axes need nothing: the broadcast adds them */
    int lead = 0;
    while (lead < m->ndim && m->from[side][lead] < 0) lead++;
    for (int k = lead; k < m->ndim && t; k++)
        if (m->from[side][k] < 0) t = gd_unsqueeze(t, k - lead, NULL);
    return t;
}

static gd_status meet(const char *what, gd_tensor **in, int count)
{
    gd_ctx *ctx = in[0]->head.ctx;
    meeting m = alone(in[0], 0);
    for (int s = 1; s < count; s++) {
        meeting next = alone(in[s], s);
        m = joined(&m, &next);
        if (m.ndim > GD_MAX_DIMS)
            return gd_fail(ctx, GD_SHAPE, "%s: the result would have %d axes, more than %d", what, m.ndim,
                           GD_MAX_DIMS);
    }
    gd_status status = match(what, &m, in, count);
    for (int s = 0; s < count && !status; s++)
        if (!(in[s] = seen_as(in[s], &m, s))) status = gd_error(ctx);
    return status;
}

gd_status gd__meet(const char *what, gd_tensor **a, gd_tensor **b)
{
    if (!(*a)->axes && !(*b)->axes) return GD_OK;
    if ((*a)->axes == (*b)->axes && gd__same_shape(*a, *b)) return GD_OK;
    gd_tensor *in[2] = {*a, *b};
    gd_status status = meet(what, in, 2);
    if (status) return status;
    *a = in[0];
    *b = in[1];
    return GD_OK;
}

static bool same_labels(const gd_labels *a, const gd_labels *b)
{
    if (a == b || !a || !b) return true;
    return a->count == b->count && !memcmp(a->text, b->text, (size_t)a->count * sizeof *a->text);
}

bool gd__same_axes(const gd_tensor *x, const gd_tensor *like)
{
    bool same = x->ndim == like->ndim;
    for (int i = 0; i < x->ndim && same; i++)
        same = gd__name(x, i) == gd__name(like, i) && same_labels(gd__labels(x, i), gd__labels(like, i));
    return same;
}

gd_tensor *gd__aligned_to(const char *what, gd_tensor *x, const gd_tensor *like)
{
    if (!gd__may_differ(x, like) || gd__same_axes(x, like)) return x;
    gd_tensor *lead = (gd_tensor *)(uintptr_t)like; /* only looked at */
    meeting to = alone(lead, 0), from = alone(x, 1);
    if (!covers(&to, &from)) {
        char a[256], b[256];
        return gd__refuse(x->head.ctx, GD_AXIS, "%s: not every axis of %s is one of %s", what,
                          gd__shape_text(x, a, sizeof a), gd__shape_text(like, b, sizeof b));
    }
    meeting m = joined(&to, &from);
    for (int k = 0; k < m.ndim && x; k++)
        if (m.from[1][k] >= 0) x = gd__match_labels(what, lead, k, x, m.from[1][k]);
    return x ? seen_as(x, &m, 1) : NULL;
}

/* ---- right-aligned broadcast ---- */

/* The size of t on an axis counted from the right; 1 where it has none. */
static int64_t size_from_right(const gd_tensor *t, int place)
{
    return place < t->ndim ? t->size[t->ndim - 1 - place] : 1;
}

/* Operand k does not fit the others on an axis counted from the right: names the first one it disagrees with. */
static void broadcast_error(const char *what, gd_tensor *const *in, int k, int place)
{
    int left = 0;
    while (left < k - 1 && size_from_right(in[left], place) == 1) left++;
    const gd_tensor *a = in[left], *b = in[k];
    char shape_a[256], shape_b[256], name[64];
    (void)gd_fail(a->head.ctx, GD_SHAPE,
                  "%s: axis %s has %lld on the left and %lld on the right; shapes %s and %s", what,
                  gd__axis_text(a, a->ndim - 1 - place, name), (long long)size_from_right(a, place),
                  (long long)size_from_right(b, place), gd__shape_text(a, shape_a, sizeof shape_a),
                  gd__shape_text(b, shape_b, sizeof shape_b));
}

/* Widens (ndim, size) so that t broadcasts into it; on failure *bad is the axis, counted from the right. */
static bool widen(int *ndim, int64_t *size, const gd_tensor *t, int *bad)
{
    int n = *ndim > t->ndim ? *ndim : t->ndim;
    if (n > *ndim) {
        int shift = n - *ndim;
        for (int i = n; i-- > shift;) size[i] = size[i - shift];
        for (int i = 0; i < shift; i++) size[i] = 1;
        *ndim = n;
    }
    for (int i = 0; i < t->ndim; i++) {
        int64_t *s = &size[n - t->ndim + i];
        if (*s == t->size[i] || t->size[i] == 1) continue;
        if (*s != 1) {
            *bad = t->ndim - 1 - i;
            return false;
        }
        *s = t->size[i];
    }
    return true;
}

/* Axis names and labels of a result: from whichever operand has them at that place. */
static gd_status merge_axes(gd_tensor *out, gd_tensor *const *in, int nin)
{
    gd_tensor *only = NULL;
    for (int k = 0; k < nin; k++)
        if (in[k]->axes) only = in[k]->axes && only ? out : in[k];
    if (!only) return GD_OK;
    if (only != out && gd__same_shape(only, out)) {
        gd__axes_retain(out->axes = only->axes);
        return GD_OK;
    }
    if (!(out->axes = gd__axes_new(out->head.ctx))) return GD_NOMEM;
    for (int k = 0; k < nin; k++) {
        int shift = out->ndim - in[k]->ndim;
        for (int i = 0; i < in[k]->ndim; i++) {
            if (!out->axes->name[i + shift]) out->axes->name[i + shift] = gd__name(in[k], i);
            if (!out->axes->labels[i + shift] && in[k]->size[i] == out->size[i + shift])
                out->axes->labels[i + shift] = gd__labels_retain(gd__labels(in[k], i));
        }
    }
    return GD_OK;
}

/* An empty tensor of the broadcast shape of all operands (right-aligned), with their axes merged. */
static gd_tensor *broadcast_result(const char *what, gd_tensor *const *in, int nin, gd_dtype dtype)
{
    bool same = true;
    for (int k = 0; k < nin; k++) same = same && !in[k]->axes && gd__same_shape(in[0], in[k]);
    if (same) return gd__new_like(in[0], dtype);
    int64_t size[GD_MAX_DIMS];
    int ndim = in[0]->ndim, bad = 0;
    memcpy(size, in[0]->size, sizeof size);
    for (int k = 1; k < nin; k++) {
        if (!widen(&ndim, size, in[k], &bad)) {
            broadcast_error(what, in, k, bad);
            return NULL;
        }
    }
    gd_tensor *out = gd__new_checked(in[0]->storage->device, what, dtype, ndim, size);
    if (out && merge_axes(out, in, nin)) {
        gd_release(out);
        return NULL;
    }
    return out;
}

/* ---- dtypes ---- */

static gd_status same_dtype(const char *what, const gd_tensor *a, const gd_tensor *b)
{
    if (a->dtype == b->dtype) return GD_OK;
    return gd_fail(a->head.ctx, GD_DTYPE, "%s: %s on the left and %s on the right; cast one of them", what,
                   gd_dtype_name(a->dtype), gd_dtype_name(b->dtype));
}

static bool dtype_fits(gd_op_id op, const gd_tensor *t)
{
    const char *what = gd__ops[op].name;
    if (!(gd__ops[op].takes & GD_TAKES_INTS)) return gd__need_float(what, t);
    if (gd__ops[op].takes == GD_TAKES_WHOLE && gd__is_float(t)) {
        (void)gd_fail(t->head.ctx, GD_DTYPE, "%s: needs integers, got %s; cast it first", what,
                      gd_dtype_name(t->dtype));
        return false;
    }
    if (t->dtype == GD_BOOL && gd__ops[op].takes != GD_TAKES_ANY) {
        (void)gd_fail(t->head.ctx, GD_DTYPE, "%s: bool has no arithmetic; cast it first", what);
        return false;
    }
    return true;
}

/* ---- the three arities ---- */

static const gd_attrs no_attrs;

/* What operators on bits are on truth values. */
static gd_op_id of_truth(gd_op_id op, const gd_tensor *x)
{
    if (x->dtype != GD_BOOL) return op;
    return op == GD_OP_bit_and   ? GD_OP_logical_and
           : op == GD_OP_bit_or  ? GD_OP_logical_or
           : op == GD_OP_bit_xor ? GD_OP_logical_xor
           : op == GD_OP_bit_not ? GD_OP_logical_not
                                 : op;
}

static gd_tensor *unary(gd_op_id op, gd_tensor *x, const gd_attrs *attrs)
{
    if (!x || !dtype_fits(op = of_truth(op, x), x)) return NULL;
    gd_tensor *out = gd__new_like(x, gd__ops[op].kind == GD_KIND_TEST ? GD_BOOL : x->dtype);
    return gd__run1(op, &x, 1, attrs, out);
}

gd_tensor *gd__binary(gd_op_id op, gd_tensor *a, gd_tensor *b)
{
    const char *what = gd__ops[op].name;
    if (!gd__given2(what, a, b) || same_dtype(what, a, b) || !dtype_fits(op = of_truth(op, a), a))
        return NULL;
    bool named = a->axes || b->axes;
    gd_ctx *ctx = a->head.ctx;
    if (named) gd_scope_begin(ctx);
    gd_tensor *in[2] = {a, b}, *out = NULL;
    if (!named || gd__meet(what, &in[0], &in[1]) == GD_OK) {
        out = broadcast_result(what, in, 2, gd__ops[op].kind == GD_KIND_TEST ? GD_BOOL : a->dtype);
        out = gd__run1(op, in, 2, &no_attrs, out);
    }
    if (named) {
        gd__scope_leave(ctx, out);
    }
    return out;
}

static gd_tensor *ternary(gd_op_id op, gd_tensor *a, gd_tensor *b, gd_tensor *c)
{
    const char *what = gd__ops[op].name;
    gd_tensor *in[3] = {a, b, c}, *out = NULL;
    if (!gd__given(what, in, 3)) return NULL;
    gd_ctx *ctx = a->head.ctx;
    if (op == GD_OP_where && a->dtype != GD_BOOL)
        return gd__refuse(ctx, GD_DTYPE, "where: the condition is %s, not bool", gd_dtype_name(a->dtype));
    if ((op != GD_OP_where && same_dtype(what, a, b)) || same_dtype(what, b, c) || !dtype_fits(op, b))
        return NULL;
    gd_scope_begin(ctx);
    gd_status status = GD_OK;
    if (a->axes || b->axes || c->axes) status = meet(what, in, 3);
    if (!status) out = broadcast_result(what, in, 3, b->dtype);
    return gd__scope_leave(ctx, status ? NULL : gd__run1(op, in, 3, &no_attrs, out));
}

/* ---- public ---- */

#define UNARY(name) \
    gd_tensor *gd_##name(gd_tensor *x) { return unary(GD_OP_##name, x, &no_attrs); }
GD_UNARY_LIST(UNARY)
#define BINARY(name) \
    gd_tensor *gd_##name(gd_tensor *a, gd_tensor *b) { return gd__binary(GD_OP_##name, a, b); }
GD_BINARY_LIST(BINARY)

gd_tensor *gd_add_scalar(gd_tensor *x, double value)
{
    return unary(GD_OP_add_scalar, x, &(gd_attrs){.nf = 1, .f = {value}});
}

gd_tensor *gd_mul_scalar(gd_tensor *x, double value)
{
    return unary(GD_OP_mul_scalar, x, &(gd_attrs){.nf = 1, .f = {value}});
}

gd_tensor *gd_pow_scalar(gd_tensor *x, double exponent)
{
    return unary(GD_OP_pow_scalar, x, &(gd_attrs){.nf = 1, .f = {exponent}});
}

/* An operator with a whole number for a setting. */
static gd_tensor *of_order(gd_op_id op, gd_tensor *x, int order, int least, int most)
{
    if (!x) return NULL;
    if (order < least || order > most) {
        (void)gd_fail(x->head.ctx, GD_VALUE, "%s: the order is %d, it may be %d to %d", gd__ops[op].name,
                      order, least, most);
        return NULL;
    }
    return unary(op, x, &(gd_attrs){.nf = 1, .f = {order}});
}

gd_tensor *gd_polygamma(gd_tensor *x, int order)
{
    return of_order(GD_OP_polygamma, x, order, 0, GD_POLYGAMMA_ORDERS);
}

gd_tensor *gd_bessel_j(gd_tensor *x, int order) { return of_order(GD_OP_bessel_j, x, order, -1000, 1000); }

gd_tensor *gd_clamp(gd_tensor *x, double low, double high)
{
    if (!x) return NULL;
    if (!(low <= high)) return gd__refuse(x->head.ctx, GD_VALUE, "clamp: low %g is above high %g", low, high);
    return unary(GD_OP_clamp, x, &(gd_attrs){.nf = 2, .f = {low, high}});
}

gd_tensor *gd_where(gd_tensor *condition, gd_tensor *a, gd_tensor *b)
{
    return ternary(GD_OP_where, condition, a, b);
}

gd_tensor *gd_fma(gd_tensor *a, gd_tensor *b, gd_tensor *c) { return ternary(GD_OP_fma, a, b, c); }

gd_tensor *gd_lerp(gd_tensor *a, gd_tensor *b, gd_tensor *weight)
{
    return ternary(GD_OP_lerp, a, b, weight);
}

gd_status gd_add_into(gd_tensor *dst, const gd_tensor *src, double alpha)
{
    gd_tensor *from = (gd_tensor *)(uintptr_t)src;
    if (!dst || !src) return gd__null(gd_tensor_ctx(dst ? dst : src), "add_into: an operand is NULL");
    gd_ctx *ctx = dst->head.ctx;
    gd_status before = gd_error(ctx);
    gd_scope_begin(ctx);
    uint8_t grad_off = ctx->grad_off;
    ctx->grad_off = 1;
    gd_tensor *sum = gd_add(dst, alpha == 1 ? from : gd_mul_scalar(from, alpha));
    gd_status status = sum ? gd_assign(dst, sum) : gd_error(ctx);
    ctx->grad_off = grad_off;
    gd_scope_end(ctx);
    gd__blame(ctx, before, "add_into");
    return status;
}
