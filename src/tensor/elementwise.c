/* Element-wise operators: the broadcast and the public functions.
 *
 * Operands with names or labels are first brought into one order by recorded views (meet.c); after that, one right-aligned
 * broadcast handles all. */
#include "base/special.h"
#include "tensor/elementwise.h"
#include "tensor/device.h"

#include <stdio.h>
#include <string.h>

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
    int i = a->ndim - 1 - place, j = b->ndim - 1 - place;
    char shape_a[256], shape_b[256], name_a[64], name_b[64], other[80] = "";
    if (gd__name(a, i) != gd__name(b, j)) /* a name on one side only */
        (void)snprintf(other, sizeof other, "axis %s has ", gd__axis_text(b, j, name_b));
    (void)gd_fail(a->head.ctx, GD_SHAPE,
                  "%s: axis %s has %lld on the left and %s%lld on the right; shapes %s and %s", what,
                  gd__axis_text(a, i, name_a), (long long)size_from_right(a, place), other,
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

/* Axis names and labels of a result: from the operand that has them at that position. */
static gd_status merge_axes(gd_tensor *out, gd_tensor *const *in, int nin)
{
    gd_tensor *only = NULL;
    for (int k = 0; k < nin; k++)
        if (in[k]->axes) only = only && only->axes != in[k]->axes ? out : in[k];
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

gd_tensor *gd__in_common(gd_tensor *(*fn)(gd_tensor *, gd_tensor *), gd_tensor *a, gd_tensor *b)
{
    gd_ctx *ctx = a->head.ctx;
    gd_dtype dtype = gd__promoted(a->dtype, b->dtype);
    gd_scope_begin(ctx);
    a = gd_cast(a, dtype);
    b = gd_cast(b, dtype);
    return gd__scope_leave(ctx, a && b ? fn(a, b) : NULL);
}

/* Operands of an element-wise operator, from `first` on, promoted to a common dtype; a quotient of integers is a float. They are cast before
 * any device gets them, and gradients have each operand's dtype. */
static gd_status widen_operands(gd_op_id op, gd_tensor **in, int first, int count)
{
    gd_dtype dtype = in[first]->dtype;
    for (int k = first + 1; k < count; k++) dtype = gd__promoted(dtype, in[k]->dtype);
    if (op == GD_OP_div && !gd_dtype_is_float(dtype)) dtype = GD_F64;
    for (int k = first; k < count; k++)
        if (!(in[k] = in[k]->dtype == dtype ? in[k] : gd_cast(in[k], dtype)))
            return gd_error(gd_tensor_ctx(in[first]));
    return GD_OK;
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

/* Operators on bits, for truth values. */
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

static gd_tensor *binary(gd_op_id op, gd_tensor **in)
{
    const char *what = gd__ops[op].name;
    if (!dtype_fits(op = of_truth(op, in[0]), in[0])) return NULL;
    if ((in[0]->axes || in[1]->axes) && gd__meet(what, in, 2)) return NULL;
    gd_tensor *out = broadcast_result(what, in, 2, gd__ops[op].kind == GD_KIND_TEST ? GD_BOOL : in[0]->dtype);
    return gd__run1(op, in, 2, &no_attrs, out);
}

gd_tensor *gd__binary(gd_op_id op, gd_tensor *a, gd_tensor *b)
{
    gd_tensor *in[2] = {a, b};
    if (!gd__given2(gd__ops[op].name, a, b)) return NULL;
    bool widens = a->dtype != b->dtype || (op == GD_OP_div && !gd__is_float(a));
    if (!widens && !a->axes && !b->axes) return binary(op, in);
    gd_ctx *ctx = a->head.ctx;
    gd_scope_begin(ctx);
    gd_status status = widens ? widen_operands(op, in, 0, 2) : GD_OK;
    return gd__scope_leave(ctx, status ? NULL : binary(op, in));
}

gd_tensor *gd__slope(gd_op_id op, double setting, gd_tensor *g, gd_tensor *of)
{
    if (!gd__given2("slope", g, of)) return NULL;
    gd_attrs attrs = {.ni = 1, .i = {op}, .nf = 1, .f = {setting}};
    return gd__run1(GD_OP_slope, (gd_tensor *[]){g, of}, 2, &attrs, gd__new_like(of, of->dtype));
}

static gd_tensor *ternary(gd_op_id op, gd_tensor *a, gd_tensor *b, gd_tensor *c)
{
    const char *what = gd__ops[op].name;
    gd_tensor *in[3] = {a, b, c}, *out = NULL;
    if (!gd__given(what, in, 3)) return NULL;
    gd_ctx *ctx = a->head.ctx;
    if (op == GD_OP_where && a->dtype != GD_BOOL)
        return gd__refuse(ctx, GD_DTYPE, "where: the condition is %s, not bool", gd_dtype_name(a->dtype));
    gd_scope_begin(ctx);
    gd_status status = widen_operands(op, in, op == GD_OP_where, 3);
    if (!status && dtype_fits(op, in[1]) && !gd__meet(what, in, 3))
        out = gd__run1(op, in, 3, &no_attrs, broadcast_result(what, in, 3, in[1]->dtype));
    return gd__scope_leave(ctx, out);
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

/* Squares and reciprocals are separate operators, with cheaper gradients. */
gd_tensor *gd_pow_scalar(gd_tensor *x, double exponent)
{
    if (x && gd__is_float(x) && exponent == 2) return gd_square(x);
    if (x && gd__is_float(x) && exponent == -1) return gd_reciprocal(x);
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
