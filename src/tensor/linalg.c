/* Linear algebra: matrices are the last two axes, all others are batches.
 *
 * The operators themselves get nameless tensors with broadcast batches. Names are removed before and put on the result by
 * recorded views, so gradient rules do not handle them. */
#include "tensor/linalg.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

#include <string.h>

/* ---- axes ---- */

static bool carried(const gd_axes *axes, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (axes->name[i] == name) return true;
    return false;
}

gd_tensor *gd__with_axes(gd_tensor *x, const gd_axis_source *source)
{
    if (!x) return NULL;
    bool any = false;
    for (int i = 0; i < x->ndim; i++) any = any || (source[i].from && source[i].from->axes);
    if (!any) return x;
    gd_axes *axes = gd__axes_new(x->head.ctx);
    gd_tensor *view = axes ? gd__bare(x) : NULL;
    if (!view) {
        gd__axes_release(axes);
        return NULL;
    }
    view->axes = axes;
    for (int i = 0; i < x->ndim; i++) {
        const gd_tensor *from = source[i].from;
        if (!from || !from->axes) continue;
        const char *name = gd__name(from, source[i].axis);
        if (name && !carried(axes, i, name)) axes->name[i] = name;
        if (from->size[source[i].axis] == x->size[i])
            axes->labels[i] = gd__labels_retain(gd__labels(from, source[i].axis));
    }
    return gd__recorded(GD_OP_relabel, x, &(gd_attrs){0}, view);
}

gd_tensor *gd__match_labels(const char *what, gd_tensor *a, int i, gd_tensor *b, int j)
{
    gd_labels *want = gd__labels(a, i), *have = gd__labels(b, j);
    if (!want || !have || want == have || want->count != have->count) return b;
    if (gd__name(a, i) != gd__name(b, j) && gd__name(a, i) && gd__name(b, j)) return b;
    gd_ctx *ctx = a->head.ctx;
    gd_tensor *index = gd__new(gd__cpu(ctx), GD_I64, 1, &want->count);
    int64_t *place = index ? (int64_t *)(void *)index->data : NULL;
    bool moved = false;
    for (int64_t k = 0; k < want->count && index; k++) {
        place[k] = want->text[k] == have->text[k] ? k : gd_axis_index(b, j, want->text[k]);
        moved = moved || place[k] != k;
        if (place[k] >= 0) continue;
        char axis[64];
        (void)gd_fail(ctx, GD_LABEL, "%s: axis %s has the label '%.80s' only on one side", what,
                      gd__axis_text(a, i, axis), want->text[k]);
        index = NULL;
    }
    if (!index || !moved) return index ? b : NULL;
    return gd__index_select(b, j, gd_to_device(index, b->storage->device), want);
}

/* ---- checks ---- */

bool gd__can_multiply(const char *what, const gd_tensor *a, const gd_tensor *b)
{
    gd_ctx *ctx = a->head.ctx;
    if (a->dtype != GD_BOOL || b->dtype != GD_BOOL) return true;
    (void)gd_fail(ctx, GD_DTYPE, "%s: bool has no arithmetic; cast it first", what);
    return false;
}

static bool has_axes(const char *what, const gd_tensor *t, int least)
{
    if (t->ndim >= least) return true;
    (void)gd_fail(t->head.ctx, GD_SHAPE, "%s: needs a %s, got %d axes", what,
                  least == 1 ? "vector or matrix" : "matrix", (int)t->ndim);
    return false;
}

static bool is_square(const char *what, const gd_tensor *a)
{
    char shape[256];
    if (!has_axes(what, a, 2) || !gd__need_float(what, a)) return false;
    if (a->size[a->ndim - 1] == a->size[a->ndim - 2]) return true;
    (void)gd_fail(a->head.ctx, GD_SHAPE, "%s: needs a square matrix, got %s", what,
                  gd__shape_text(a, shape, sizeof shape));
    return false;
}

/* ---- batches ---- */

#define MOST_NAMED_BATCHES (GD_MAX_DIMS - 4)

/* Brings named batch axes into one order.  The matrix axes become four anonymous ones that cannot be mistaken for each
 * other, [rows, columns, 1, 1] and [1, 1, rows, columns]; then the axes match as for element-wise operands. */
static gd_status meet_batches(const char *what, gd_tensor **a, gd_tensor **b)
{
    gd_tensor *l = *a, *r = *b;
    if ((!l->axes && !r->axes) || l->ndim == 2 || r->ndim == 2) return GD_OK;
    gd_ctx *ctx = l->head.ctx;
    if (l->ndim - 2 > MOST_NAMED_BATCHES || r->ndim - 2 > MOST_NAMED_BATCHES)
        return gd_fail(ctx, GD_SHAPE, "%s: more than %d batch axes with names", what, MOST_NAMED_BATCHES);
    gd_axis_source left[GD_MAX_DIMS] = {{0}}, right[GD_MAX_DIMS] = {{0}};
    for (int i = 0; i < l->ndim - 2; i++) left[i] = (gd_axis_source){l, i};
    for (int i = 0; i < r->ndim - 2; i++) right[i] = (gd_axis_source){r, i};
    l = gd__with_axes(gd__nameless(l), left);
    r = gd__with_axes(gd__nameless(r), right);
    l = gd_unsqueeze(gd_unsqueeze(l, -1, NULL), -1, NULL);
    r = gd_unsqueeze(gd_unsqueeze(r, -3, NULL), -3, NULL);
    if (!l || !r) return gd_error(ctx);
    gd_tensor *in[2] = {l, r};
    gd_status status = gd__meet(what, in, 2);
    if (status) return status;
    *a = gd_squeeze(in[0], "-2, -1");
    *b = gd_squeeze(in[1], "-4, -3");
    return *a && *b ? GD_OK : gd_error(ctx);
}

/* The common batch axes of a and b in front of two axes for the caller; the number of axes, or -1. */
static int common_batch(const char *what, const gd_tensor *a, const gd_tensor *b, int64_t *size)
{
    int n = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int i = 0; i < n - 2; i++) {
        int p = i - (n - a->ndim), q = i - (n - b->ndim);
        int64_t x = p < 0 ? 1 : a->size[p], y = q < 0 ? 1 : b->size[q];
        size[i] = x == 1 ? y : x;
        if (x == y || x == 1 || y == 1) continue;
        char left[256], right[256], name[64];
        (void)gd_fail(a->head.ctx, GD_SHAPE,
                      "%s: batch axis %s has %lld on the left and %lld on the right; shapes %s and %s", what,
                      gd__axis_text(a, p, name), (long long)x, (long long)y,
                      gd__shape_text(a, left, sizeof left), gd__shape_text(b, right, sizeof right));
        return -1;
    }
    return n;
}

/* A nameless view of t with the given batch axes in front of its matrix. */
static gd_tensor *over_batch(gd_tensor *t, int ndim, const int64_t *batch)
{
    int64_t size[GD_MAX_DIMS];
    memcpy(size, batch, sizeof size);
    size[ndim - 2] = t->size[t->ndim - 2];
    size[ndim - 1] = t->size[t->ndim - 1];
    bool same = t->ndim == ndim && !memcmp(size, t->size, (size_t)ndim * sizeof *size);
    t = gd__nameless(t);
    return same || !t ? t : gd_expand(t, ndim, size);
}

/* Batch axes of a result: from a, or from b where a has no name. */
static void batch_sources(gd_tensor *a, gd_tensor *b, int ndim, gd_axis_source *source)
{
    for (int i = 0; i < ndim - 2; i++) {
        int p = i - (ndim - a->ndim), q = i - (ndim - b->ndim);
        bool left = p >= 0 && (gd__name(a, p) || gd__labels(a, p) || q < 0);
        source[i] = left ? (gd_axis_source){a, p} : (gd_axis_source){q < 0 ? NULL : b, q};
    }
}

/* ---- products ---- */

gd_tensor *gd__product(gd_tensor *a, gd_tensor *b)
{
    if (!a || !b) return NULL;
    int64_t size[GD_MAX_DIMS];
    memcpy(size, a->size, sizeof size);
    size[a->ndim - 1] = b->size[b->ndim - 1];
    return gd__product_into(gd__new_checked(a->storage->device, "matmul", a->dtype, a->ndim, size), a, b);
}

gd_tensor *gd__product_into(gd_tensor *out, gd_tensor *a, gd_tensor *b)
{
    if (!a || !b) return NULL;
    return gd__run1(GD_OP_matmul, (gd_tensor *[]){a, b}, 2, &(gd_attrs){0}, out);
}

gd_tensor *gd__linear(gd_tensor *x, gd_tensor *w, gd_tensor *b)
{
    if (!gd__given("linear", (gd_tensor *[]){x, w, b}, 3) || !gd__need_float("linear", x)) return NULL;
    int64_t size[GD_MAX_DIMS], inputs = w->size[1];
    memcpy(size, x->size, sizeof size);
    size[x->ndim - 1] = w->size[0];
    int64_t rows = inputs ? x->numel / inputs : 0, flat[2] = {rows, w->size[0]};
    gd_tensor *tall = gd__reshape(x, 2, (int64_t[]){rows, inputs});
    gd_tensor *out = gd__new_checked(x->storage->device, "linear", x->dtype, 2, flat);
    if (tall) out = gd__run1(GD_OP_linear, (gd_tensor *[]){tall, w, b}, 3, &(gd_attrs){0}, out);
    return tall && out ? gd__reshape(out, x->ndim, size) : NULL;
}

gd_status gd__linear_grad(gd_tensor *g, gd_tensor *x, gd_tensor *w, gd_tensor *grad[3])
{
    if (!gd__given("linear_grad", (gd_tensor *[]){g, x, w}, 3)) return GD_ARGUMENT;
    gd_device *device = g->storage->device;
    grad[0] = gd__new(device, x->dtype, 2, x->size);
    grad[1] = grad[0] ? gd__new(device, w->dtype, 2, w->size) : NULL;
    grad[2] = grad[1] ? gd__new(device, w->dtype, 1, w->size) : NULL;
    if (!grad[2]) return GD_NOMEM;
    return gd__run(GD_OP_linear_grad, (gd_tensor *[]){g, x, w}, 3, &(gd_attrs){0}, grad, 3);
}

static bool one_kind(const gd_tensor *a, const gd_tensor *b)
{
    return a->dtype == b->dtype && a->storage->device == b->storage->device;
}

/* Matrices with nothing to broadcast, to name or to convert. */
static bool plain_factors(const gd_tensor *a, const gd_tensor *b)
{
    int n = a->ndim;
    if (a->axes || b->axes || n < 2 || b->ndim != n) return false;
    for (int i = 0; i < n - 2; i++)
        if (a->size[i] != b->size[i]) return false;
    return one_kind(a, b) && gd_dtype_is_float(a->dtype) && a->size[n - 1] == b->size[n - 2];
}

gd_tensor *gd_matmul_fast(gd_tensor *a, gd_tensor *b)
{
    if (!gd__given2("matmul_fast", a, b) || !gd__can_multiply("matmul_fast", a, b)) return NULL;
    if (!plain_factors(a, b)) return gd_matmul(a, b);
    int64_t size[GD_MAX_DIMS];
    memcpy(size, a->size, sizeof size);
    size[a->ndim - 1] = b->size[b->ndim - 1];
    gd_tensor *out = gd__new_checked(a->storage->device, "matmul_fast", a->dtype, a->ndim, size);
    return gd__run1(GD_OP_matmul, (gd_tensor *[]){a, b}, 2, &(gd_attrs){.ni = 1, .i = {1}}, out);
}

/* c has the product's shape and dtype, and the product has terms: BLAS can add to it. */
static bool adds_in_place(const gd_tensor *c, const gd_tensor *a, const gd_tensor *b)
{
    int n = a->ndim;
    if (!plain_factors(a, b) || c->axes || c->ndim != n || !one_kind(a, c) || !a->size[n - 1]) return false;
    for (int i = 0; i < n - 1; i++)
        if (c->size[i] != a->size[i]) return false;
    return c->size[n - 1] == b->size[n - 1];
}

gd_tensor *gd_addmm(gd_tensor *c, gd_tensor *a, gd_tensor *b, double beta, double alpha)
{
    if (!gd__given("addmm", (gd_tensor *[]){c, a, b}, 3)) return NULL;
    gd_ctx *ctx = c->head.ctx;
    gd_status before = gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *out = NULL;
    if (adds_in_place(c, a, b)) {
        out = gd__new_checked(a->storage->device, "addmm", a->dtype, c->ndim, c->size);
        gd_tensor *flat = out ? gd_contiguous(c) : NULL;
        if (flat)
            out = gd__run1(GD_OP_addmm, (gd_tensor *[]){flat, a, b}, 3,
                           &(gd_attrs){.nf = 2, .f = {beta, alpha}}, out);
    } else
        out = gd_add(gd_mul_scalar(c, beta), gd_mul_scalar(gd_matmul(a, b), alpha));
    gd__scope_leave(ctx, out);
    gd__blame(ctx, before, "addmm");
    return out;
}

gd_status gd__add_product(gd_tensor *c, gd_tensor *a, gd_tensor *b, double alpha)
{
    gd_attrs attrs = {.nf = 2, .f = {1, alpha}};
    gd_status status = gd__execute(GD_OP_addmm, (gd_tensor *[]){c, a, b}, 3, &attrs, &c, 1);
    gd__touch(c);
    return status;
}

/* One matrix for the whole batch on the right: the rows of all batches are one tall matrix. */
static gd_tensor *tall_product(gd_tensor *a, gd_tensor *b)
{
    int n = a->ndim;
    int64_t size[GD_MAX_DIMS], rows = 1;
    memcpy(size, a->size, sizeof size);
    for (int i = 0; i < n - 1; i++) rows *= size[i];
    size[n - 1] = b->size[1];
    gd_tensor *tall = gd__reshape(gd__nameless(a), 2, (int64_t[]){rows, a->size[n - 1]});
    return gd__reshape(gd__product(tall, gd__nameless(b)), n, size);
}

static bool inner_fits(const gd_tensor *a, const gd_tensor *b)
{
    int64_t columns = a->size[a->ndim - 1], rows = b->size[b->ndim > 1 ? b->ndim - 2 : 0];
    if (columns == rows) return true;
    char left[256], right[256];
    (void)gd_fail(a->head.ctx, GD_SHAPE,
                  "matmul: the left has %lld columns, the right %lld rows; shapes %s and %s",
                  (long long)columns, (long long)rows, gd__shape_text(a, left, sizeof left),
                  gd__shape_text(b, right, sizeof right));
    return false;
}

/* Both are matrices or stacks of them. */
static gd_tensor *stacked_product(gd_tensor *a, gd_tensor *b)
{
    gd_axis_source rows = {a, a->ndim - 2}, columns = {b, b->ndim - 1}, source[GD_MAX_DIMS];
    b = gd__match_labels("matmul", a, a->ndim - 1, b, b->ndim - 2);
    if (!b || meet_batches("matmul", &a, &b)) return NULL;
    int64_t batch[GD_MAX_DIMS] = {0};
    int n = common_batch("matmul", a, b, batch);
    if (n < 0) return NULL;
    gd_tensor *out = a->ndim > 2 && b->ndim == 2
                         ? tall_product(a, b)
                         : gd__product(over_batch(a, n, batch), over_batch(b, n, batch));
    batch_sources(a, b, n, source);
    source[n - 2] = rows;
    source[n - 1] = columns;
    return gd__with_axes(out, source);
}

gd_tensor *gd_matmul(gd_tensor *a, gd_tensor *b)
{
    if (!gd__given2("matmul", a, b) || !gd__can_multiply("matmul", a, b)) return NULL;
    if (a->dtype != b->dtype) return gd__in_common(gd_matmul, a, b);
    if (!has_axes("matmul", a, 1) || !has_axes("matmul", b, 1) || !inner_fits(a, b)) return NULL;
    if (a->ndim == 2 && b->ndim == 2 && !a->axes && !b->axes) return gd__product(a, b);
    gd_ctx *ctx = a->head.ctx;
    bool row = a->ndim == 1, column = b->ndim == 1;
    gd_scope_begin(ctx);
    if (row) a = gd_unsqueeze(a, 0, NULL);
    if (column) b = gd_unsqueeze(b, 1, NULL);
    gd_tensor *out = a && b ? stacked_product(a, b) : NULL;
    if (row) out = gd_squeeze(out, "-2");
    if (column) out = gd_squeeze(out, "-1");
    return gd__scope_leave(ctx, out);
}

static bool is_vector(const char *what, const gd_tensor *t)
{
    char shape[256];
    if (t->ndim == 1) return true;
    (void)gd_fail(t->head.ctx, GD_SHAPE, "%s: needs vectors, got %s", what,
                  gd__shape_text(t, shape, sizeof shape));
    return false;
}

gd_tensor *gd_dot(gd_tensor *a, gd_tensor *b)
{
    if (!gd__given2("dot", a, b) || !is_vector("dot", a) || !is_vector("dot", b)) return NULL;
    if (!gd__can_multiply("dot", a, b)) return NULL;
    if (a->size[0] == b->size[0]) return gd_matmul(a, b);
    return gd__refuse(a->head.ctx, GD_SHAPE, "dot: %lld elements on the left and %lld on the right",
                      (long long)a->size[0], (long long)b->size[0]);
}

gd_tensor *gd_outer(gd_tensor *a, gd_tensor *b)
{
    if (!gd__given2("outer", a, b) || !is_vector("outer", a) || !is_vector("outer", b)) return NULL;
    if (!gd__can_multiply("outer", a, b)) return NULL;
    gd_ctx *ctx = a->head.ctx;
    gd_status before = gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *out = gd_mul(gd__reshape(a, 2, (int64_t[]){a->size[0], 1}), gd__nameless(b));
    out = gd__with_axes(out, (gd_axis_source[]){{a, 0}, {b, 0}});
    gd__scope_leave(ctx, out);
    gd__blame(ctx, before, "outer");
    return out;
}

/* ---- factorisations ---- */

/* The mean of a and its transpose, without names: the derivative is then that of a symmetric matrix, whichever triangle
 * the kernel reads.  A symmetric matrix keeps its bits. */
static gd_tensor *symmetric(gd_tensor *a)
{
    gd_tensor *half = gd_mul_scalar(gd__nameless(a), 0.5);
    return gd_add(half, gd_transpose(half, -1, -2));
}

/* A result of a with its batch axes, then its rows (-2), columns (-1) or an anonymous axis (0).  A result with fewer axes has the
 * leading ones. */
static gd_tensor *with_axes_of(gd_tensor *x, gd_tensor *a, int rows, int columns)
{
    gd_axis_source source[GD_MAX_DIMS];
    int n = a->ndim;
    for (int i = 0; i < n; i++) {
        int from = i < n - 2 ? i - n : i == n - 2 ? rows : columns;
        source[i] = from < 0 ? (gd_axis_source){a, n + from} : (gd_axis_source){NULL, 0};
    }
    return gd__with_axes(x, source);
}

/* An empty result with a's batch axes and `count` sizes more. */
static gd_tensor *room_for(const char *what, const gd_tensor *a, int count, int64_t first, int64_t second)
{
    int64_t size[GD_MAX_DIMS];
    memcpy(size, a->size, sizeof size);
    if (count > 0) size[a->ndim - 2] = first;
    if (count > 1) size[a->ndim - 1] = second;
    return gd__new_checked(a->storage->device, what, a->dtype, a->ndim - 2 + count, size);
}

gd_tensor *gd__cholesky(gd_tensor *a)
{
    int64_t n = a ? a->size[a->ndim - 1] : 0;
    if (!a) return NULL;
    return gd__run1(GD_OP_cholesky, &a, 1, &(gd_attrs){0}, room_for("cholesky", a, 2, n, n));
}

gd_tensor *gd_cholesky(gd_tensor *a)
{
    if (!a || !is_square("cholesky", a)) return NULL;
    gd_ctx *ctx = a->head.ctx;
    gd_scope_begin(ctx);
    return gd__scope_leave(ctx, with_axes_of(gd__cholesky(symmetric(a)), a, -2, 0));
}

gd_tensor *gd_logdet(gd_tensor *a)
{
    if (!a || !is_square("logdet", a)) return NULL;
    gd_ctx *ctx = a->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *bare = gd__nameless(a), *out = NULL;
    if (bare) out = gd__run1(GD_OP_logdet, &bare, 1, &(gd_attrs){0}, room_for("logdet", a, 0, 0, 0));
    return gd__scope_leave(ctx, with_axes_of(out, a, 0, 0));
}

/* The two last axes of a factor: those of a (-2, -1), one with the smaller of both sizes, or none. */
enum { SHORTER = 0, NONE = 1 };

typedef struct factor {
    int rows, columns;
} factor;

static int64_t length_of(const gd_tensor *a, int axis)
{
    int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1];
    return axis == -2 ? m : axis == -1 || n < m ? n : m;
}

/* Factors of each matrix: all of them leave the scope together, or none. */
static gd_status factorise(gd_op_id op, gd_tensor *a, const factor *f, gd_tensor **const *to, int count)
{
    const char *what = gd__ops[op].name;
    bool square = op == GD_OP_eigh;
    for (int i = 0; i < count; i++)
        if (to[i]) *to[i] = NULL;
    if (!a) return GD_ARGUMENT;
    gd_ctx *ctx = a->head.ctx;
    if (square ? !is_square(what, a) : !has_axes(what, a, 2) || !gd__need_float(what, a))
        return gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *in = square ? symmetric(a) : gd__nameless(a), *out[3];
    gd_status status = in ? GD_OK : gd_error(ctx);
    for (int i = 0; i < count && !status; i++)
        if (!(out[i] = room_for(what, a, f[i].columns == NONE ? 1 : 2, length_of(a, f[i].rows),
                                length_of(a, f[i].columns))))
            status = gd_error(ctx);
    if (!status) status = gd__run(op, &in, 1, &(gd_attrs){0}, out, count);
    for (int i = 0; i < count && !status; i++)
        if (!(out[i] = with_axes_of(out[i], a, f[i].rows, f[i].columns))) status = gd_error(ctx);
    for (int i = 0; i < count && !status; i++)
        if (to[i]) gd__keep(*to[i] = out[i]);
    gd_scope_end(ctx);
    return status;
}

gd_status gd_qr(gd_tensor *a, gd_tensor **q, gd_tensor **r)
{
    return factorise(GD_OP_qr, a, (factor[]){{-2, SHORTER}, {SHORTER, -1}}, (gd_tensor * *[]){q, r}, 2);
}

gd_status gd_eigh(gd_tensor *a, gd_tensor **values, gd_tensor **vectors)
{
    return factorise(GD_OP_eigh, a, (factor[]){{SHORTER, NONE}, {-2, SHORTER}},
                     (gd_tensor * *[]){values, vectors}, 2);
}

gd_status gd_svd(gd_tensor *a, gd_tensor **u, gd_tensor **s, gd_tensor **vt)
{
    return factorise(GD_OP_svd, a, (factor[]){{-2, SHORTER}, {SHORTER, NONE}, {SHORTER, -1}},
                     (gd_tensor * *[]){u, s, vt}, 3);
}

/* ---- solving ---- */

/* The differences between the two solvers. */
typedef struct solver {
    const char *what;
    gd_op_id op;
    gd_attrs attrs;
    bool transposed;
} solver;

static bool sides_fit(const char *what, const gd_tensor *a, const gd_tensor *b)
{
    int64_t n = a->size[a->ndim - 1], rows = b->size[b->ndim - 2];
    if (n == rows) return true;
    char left[256], right[256];
    (void)gd_fail(a->head.ctx, GD_SHAPE,
                  "%s: the matrix has %lld rows, the right side %lld; shapes %s and %s", what, (long long)n,
                  (long long)rows, gd__shape_text(a, left, sizeof left),
                  gd__shape_text(b, right, sizeof right));
    return false;
}

static gd_tensor *run_solver(const solver *s, gd_tensor *a, gd_tensor *b)
{
    if (!a || !b) return NULL;
    gd_tensor *out = gd__new_checked(b->storage->device, s->what, b->dtype, b->ndim, b->size);
    return gd__run1(s->op, (gd_tensor *[]){a, b}, 2, &s->attrs, out);
}

/* One matrix for the whole batch: the right sides of all batches are the columns of one. */
static gd_tensor *wide_solve(const solver *s, gd_tensor *a, gd_tensor *b)
{
    int n = b->ndim, there[GD_MAX_DIMS], back[GD_MAX_DIMS];
    int64_t size[GD_MAX_DIMS], columns = 1;
    for (int i = 0; i < n; i++) {
        there[i] = i == 0 ? n - 2 : i < n - 1 ? i - 1 : i;
        back[there[i]] = i;
        size[i] = b->size[there[i]];
        if (i > 0) columns *= size[i];
    }
    gd_tensor *wide = gd__reshape(gd_permute(gd__nameless(b), there), 2, (int64_t[]){size[0], columns});
    gd_tensor *x = gd__reshape(run_solver(s, gd__nameless(a), wide), n, size);
    return gd_contiguous(gd_permute(x, back));
}

/* Solves op(a) x = b for matrices or stacks of them; the rows of x are the columns of op(a). */
static gd_tensor *stacked_solve(const solver *s, gd_tensor *a, gd_tensor *b)
{
    if (!sides_fit(s->what, a, b)) return NULL;
    int last = a->ndim - 1;
    gd_axis_source rows = {a, s->transposed ? last - 1 : last}, columns = {b, b->ndim - 1},
                   source[GD_MAX_DIMS];
    b = gd__match_labels(s->what, a, s->transposed ? last : last - 1, b, b->ndim - 2);
    if (!b || meet_batches(s->what, &a, &b)) return NULL;
    int64_t batch[GD_MAX_DIMS] = {0};
    int n = common_batch(s->what, a, b, batch);
    if (n < 0) return NULL;
    gd_tensor *out = a->ndim == 2 && n > 2 ? wide_solve(s, a, b)
                                           : run_solver(s, over_batch(a, n, batch), over_batch(b, n, batch));
    batch_sources(a, b, n, source);
    source[n - 2] = rows;
    source[n - 1] = columns;
    return gd__with_axes(out, source);
}

/* b is a vector when it has one axis, or one less than a and the sizes of a's rows. */
static bool is_right_vector(const gd_tensor *a, const gd_tensor *b)
{
    if (b->ndim == 1) return true;
    return b->ndim == a->ndim - 1 && !memcmp(a->size, b->size, (size_t)b->ndim * sizeof *b->size);
}

static gd_tensor *solve_by(const solver *s, gd_tensor *a, gd_tensor *b)
{
    if (!gd__given2(s->what, a, b) || !is_square(s->what, a) || !has_axes(s->what, b, 1)) return NULL;
    if (!gd__can_multiply(s->what, a, b)) return NULL;
    gd_ctx *ctx = a->head.ctx;
    bool vector = is_right_vector(a, b);
    gd_dtype dtype = gd__promoted(a->dtype, b->dtype);
    gd_scope_begin(ctx);
    a = gd_cast(a, dtype);
    b = gd_cast(b, dtype);
    if (vector) b = gd_unsqueeze(b, -1, NULL);
    gd_tensor *out = a && b ? stacked_solve(s, a, b) : NULL;
    if (vector) out = gd_squeeze(out, "-1");
    return gd__scope_leave(ctx, out);
}

gd_tensor *gd_solve(gd_tensor *a, gd_tensor *b)
{
    solver s = {.what = "solve", .op = GD_OP_solve, .attrs = {.ni = 1}};
    return solve_by(&s, a, b);
}

gd_tensor *gd_triangular_solve(gd_tensor *a, gd_tensor *b, bool lower, bool transpose, bool unit)
{
    solver s = {.what = "triangular_solve",
                .op = GD_OP_triangular_solve,
                .attrs = {.ni = 3, .i = {lower, transpose, unit}},
                .transposed = transpose};
    return solve_by(&s, a, b);
}

/* Solves a x = 1; the axes of the result are those of a, exchanged. */
gd_tensor *gd_inverse(gd_tensor *a)
{
    if (!a || !is_square("inverse", a)) return NULL;
    gd_ctx *ctx = a->head.ctx;
    int n = a->ndim;
    gd_scope_begin(ctx);
    gd_tensor *one = gd_eye(ctx, a->dtype, a->size[n - 1], a->size[n - 1]);
    one = gd_to_device(one, a->storage->device);
    gd_tensor *in[2] = {gd__nameless(a), one ? gd_expand(one, n, a->size) : NULL}, *out = NULL;
    if (in[0] && in[1])
        out = gd__run1(GD_OP_solve, in, 2, &(gd_attrs){.ni = 1, .i = {1}},
                       room_for("inverse", a, 2, a->size[n - 1], a->size[n - 1]));
    return gd__scope_leave(ctx, with_axes_of(out, a, -1, -2));
}
