/* Gradient rules of reductions and shape operators. */
#include "autograd/rules.h"

#define RULE(name) void gd__grad_##name(gd_pullback *p)
#define G          gd__g(p)

/* ---- reductions: attributes are outer, reduced, inner, first axis, last axis ---- */

/* A reduced result spread over the shape of the operand again. */
static gd_tensor *spread(const gd_pullback *p, gd_tensor *reduced)
{
    const gd_tensor *x = p->node->in[0];
    int64_t size[GD_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) {
        bool inside = i >= gd__attr(p, 3) && i <= gd__attr(p, 4);
        size[i] = inside ? 1 : x->size[i];
    }
    return gd_expand(gd__reshape(reduced, x->ndim, size), x->ndim, x->size);
}

RULE(sum) { gd__set(p, 0, spread(p, G)); }

/* Every element times the product of the others.  Without zeros that is y / x; with zeros the products are taken over
 * rows of an [n, n] matrix whose diagonal is 1. */
static gd_tensor *prod_of_others(gd_tensor *x)
{
    if (!x) return NULL;
    int64_t n = x->size[1];
    gd_tensor *eye = gd_eye(gd_tensor_ctx(x), GD_F64, n, n);
    eye = gd_cast(gd_to_device(gd_cast(eye, x->dtype), gd_tensor_device(x)), GD_BOOL);
    gd_tensor *rows = gd_expand(gd_unsqueeze(x, 1, NULL), 4, (int64_t[]){x->size[0], n, n, x->size[2]});
    gd_tensor *mask = gd__reshape(eye, 4, (int64_t[]){1, n, n, 1});
    return gd_prod(gd_where(mask, gd_ones_like(rows), rows), "2", false);
}

static gd_tensor *prod_without_zeros(const gd_pullback *p, gd_tensor *x)
{
    return gd_div(spread(p, gd_mul(G, gd__out(p, 0))), x);
}

static gd_tensor *prod_with_zeros(const gd_pullback *p, gd_tensor *x)
{
    int64_t size[3] = {gd__attr(p, 0), gd__attr(p, 1), gd__attr(p, 2)};
    gd_tensor *others = gd__reshape(prod_of_others(gd__reshape(x, 3, size)), x->ndim, x->size);
    return gd_mul(spread(p, G), others);
}

#define MOST_BOTH 64 /* factors whose matrix is cheap */

RULE(prod)
{
    gd_tensor *x = gd__in(p, 0);
    gd_tensor *zeros = gd_any(gd_eq(x, gd_zeros_like(x)), NULL, false);
    if (!zeros) return;
    /* a recording must be valid with and without zeros: computes both, and selects by operators. Not if the caller differentiates
     * the gradient again: the unselected one would have NaN in its derivatives. */
    if (p->node->ctx->recorder && !gd_grad_enabled(p->node->ctx) && gd__attr(p, 1) <= MOST_BOTH)
        gd__set(p, 0, gd_where(zeros, prod_with_zeros(p, x), prod_without_zeros(p, x)));
    else
        gd__set(p, 0, gd_item(zeros) == 0 ? prod_without_zeros(p, x) : prod_with_zeros(p, x));
}

/* Text of the last reduced axis. */
static const char *axis_text(const gd_pullback *p, char buf[2])
{
    buf[0] = (char)('0' + gd__attr(p, 4));
    buf[1] = 0;
    return buf;
}

/* The gradient goes to the first extreme. */
static void to_the_place(gd_pullback *p, gd_tensor *(*place_of)(gd_tensor *, const char *, bool))
{
    int64_t size[3] = {gd__attr(p, 0), gd__attr(p, 1), gd__attr(p, 2)}, one[3] = {size[0], 1, size[2]};
    const gd_tensor *x = p->node->in[0];
    gd_tensor *place = place_of(gd__reshape(gd__in(p, 0), 3, size), "1", true);
    gd_tensor *zeros = gd__reshape(gd__zeros_in(p, 0), 3, size);
    gd__set(p, 0, gd__reshape(gd__scatter_add(zeros, 1, place, gd__reshape(G, 3, one)), x->ndim, x->size));
}

RULE(highest) { to_the_place(p, gd_argmax); }
RULE(lowest) { to_the_place(p, gd_argmin); }

RULE(logsumexp)
{
    const gd_tensor *x = p->node->in[0];
    int64_t size[3] = {gd__attr(p, 0), gd__attr(p, 1), gd__attr(p, 2)}, one[3] = {size[0], 1, size[2]};
    gd_tensor *in = gd__in(p, 0);
    if (gd__once(p, in)) {
        gd__set(p, 0, gd__softmax_times(in, G, size));
        return;
    }
    gd_tensor *share = gd_softmax(gd__reshape(in, 3, size), "1");
    gd__set(p, 0, gd__reshape(gd_mul(gd__reshape(G, 3, one), share), x->ndim, x->size));
}

RULE(softmax)
{
    char axis[2];
    gd_tensor *y = gd__out(p, 0);
    double scale = gd__attr_f(p, 0);
    if (!gd_grad_enabled(p->node->ctx)) {
        gd__set(p, 0, gd__softmax_grad(G, y, p->node->i, scale, gd__attr(p, 5)));
        return;
    }
    gd_tensor *gy = gd_mul(G, y), *g = gd_sub(gy, gd_mul(y, gd_sum(gy, axis_text(p, axis), true)));
    gd__set(p, 0, scale == 1 ? g : gd_mul_scalar(g, scale));
}

typedef struct standard {
    gd_tensor *y, *rate;
} standard;

/* y = (x - mean) rate, rate = 1 / sqrt(variance + eps), of the rows of a matrix */
static standard standardized(gd_tensor *x, double eps)
{
    gd_tensor *centred = gd_sub(x, gd_mean(x, "1", true));
    gd_tensor *rate = gd_rsqrt(gd_add_scalar(gd_mean(gd_square(centred), "1", true), eps));
    return (standard){.y = gd_mul(centred, rate), .rate = rate};
}

/* rate (g - mean g - y mean g y) */
static gd_tensor *back_through(const standard *s, gd_tensor *g)
{
    gd_tensor *along = gd_mul(s->y, gd_mean(gd_mul(g, s->y), "1", true));
    return gd_mul(s->rate, gd_sub(gd_sub(g, gd_mean(g, "1", true)), along));
}

RULE(standardize)
{
    gd_tensor *x = gd__in(p, 0), *g = G;
    int count = (int)gd__attr(p, 3);
    double eps = gd__attr_f(p, 0);
    if (!x || !gd_grad_enabled(p->node->ctx)) {
        gd__set(p, 0, gd__standardize_grad(g, x, count, eps));
        return;
    }
    int64_t rows[2] = {gd__attr(p, 0), gd__attr(p, 1)};
    standard s = standardized(gd__reshape(x, 2, rows), eps);
    gd__set(p, 0, gd__reshape(back_through(&s, gd__reshape(g, 2, rows)), x->ndim, x->size));
}

/* The same with g weight for g; weight and bias get sums over rows. */
RULE(layer_norm)
{
    gd_tensor *x = gd__in(p, 0), *weight = gd__in(p, 1), *g = G, *stats = gd__out(p, 1), *sums[2] = {NULL};
    const gd_tensor *const *in = (const gd_tensor *const *)p->node->in;
    if (!x || !weight || !g) return;
    if (!gd_grad_enabled(p->node->ctx)) {
        if (gd__need(p, 0)) gd__set(p, 0, gd__layer_norm_grad(g, x, weight, stats));
        if ((gd__need(p, 1) || gd__need(p, 2)) && gd__layer_norm_sums(g, x, stats, sums)) return;
    } else {
        int64_t rows[2] = {gd__attr(p, 0), gd__attr(p, 1)}, row[2] = {1, rows[1]};
        standard s = standardized(gd__reshape(x, 2, rows), gd__attr_f(p, 0));
        gd_tensor *h = gd__reshape(g, 2, rows);
        gd_tensor *back = back_through(&s, gd_mul(h, gd__reshape(weight, 2, row)));
        gd__set(p, 0, gd__reshape(back, x->ndim, x->size));
        sums[0] = gd_sum(gd_mul(h, s.y), "0", false);
        sums[1] = gd_sum(h, "0", false);
    }
    for (int k = 0; k < 2; k++)
        if (gd__need(p, k + 1)) gd__set(p, k + 1, gd__reshape(sums[k], in[k + 1]->ndim, in[k + 1]->size));
}

RULE(log_softmax)
{
    char axis[2];
    gd_tensor *y = gd__out(p, 0);
    gd__set(p, 0,
            gd__once(p, y) ? gd__log_softmax_grad(G, y, p->node->i)
                           : gd_sub(G, gd_mul(gd_exp(y), gd_sum(G, axis_text(p, axis), true))));
}

RULE(cumsum) { gd__set(p, 0, gd__cumsum(G, (int)gd__attr(p, 3), !gd__attr(p, 5))); }

/* ---- views ---- */

RULE(reshape) { gd__set(p, 0, gd__reshape(G, p->node->in[0]->ndim, p->node->in[0]->size)); }

RULE(permute)
{
    int back[GD_MAX_DIMS];
    for (int i = 0; i < p->node->ni; i++) back[gd__attr(p, i)] = i;
    gd__set(p, 0, gd_permute(G, back));
}

RULE(expand) { gd__set(p, 0, gd__unbroadcast(G, p->node->in[0])); }

RULE(relabel) { gd__set(p, 0, G); }

RULE(slice)
{
    const gd_tensor *x = p->node->in[0];
    int64_t start[GD_MAX_DIMS] = {0}, step[GD_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) step[i] = 1;
    int axis = (int)gd__attr(p, 0);
    start[axis] = gd__attr(p, 1);
    step[axis] = gd__attr(p, 2);
    bool left_out = p->node->ni > 3;
    gd__set(p, 0, gd__embed(left_out ? gd_unsqueeze(G, axis, NULL) : G, x->size, start, step, 0));
}

RULE(embed)
{
    const gd_tensor *x = p->node->in[0];
    gd_tensor *g = G;
    for (int i = 0; i < x->ndim && g; i++)
        g = gd__slice(g, i, gd__attr(p, i), x->size[i], gd__attr(p, x->ndim + i));
    gd__set(p, 0, g);
}

RULE(tri) { gd__set(p, 0, gd__tri(G, gd__attr(p, 0), gd__attr(p, 1))); }

/* ---- selection and placement ---- */

/* G added to zeros at the places that operand 1 names: into the zeros themselves unless this is recorded. */
static gd_tensor *added_to_zeros(gd_pullback *p, gd_op_id op)
{
    gd_ctx *ctx = p->node->ctx;
    int axis = (int)gd__attr(p, 0);
    gd_tensor *zeros = gd__zeros_in(p, 0), *in[3] = {zeros, gd__in(p, 1), G};
    bool alone = !gd_grad_enabled(ctx) && !ctx->recorder && zeros && in[1] && in[2] &&
                 in[2]->dtype == zeros->dtype && zeros->storage->device == ctx->cpu &&
                 gd__item_size(zeros) >= 4;
    if (!alone)
        return op == GD_OP_gather ? gd__scatter_add(zeros, axis, in[1], in[2])
                                  : gd__index_add(zeros, axis, in[1], in[2]);
    gd_attrs attrs = {.ni = 1, .i = {axis}};
    op = op == GD_OP_gather ? GD_OP_scatter_add : GD_OP_index_add;
    return gd__execute(op, in, 3, &attrs, &zeros, 1) ? NULL : zeros;
}

RULE(index_select) { gd__set(p, 0, added_to_zeros(p, GD_OP_index_select)); }

RULE(index_add)
{
    if (gd__need(p, 0)) gd__set(p, 0, G);
    if (gd__need(p, 2)) gd__set(p, 2, gd__index_select(G, (int)gd__attr(p, 0), gd__in(p, 1), NULL));
}

/* Values for places that later ones overwrote were not used: their gradient is zero. */
RULE(index_put)
{
    int axis = (int)gd__attr(p, 0);
    gd_tensor *index = gd__in(p, 1), *g = G;
    if (!index || !g) return;
    if (gd__need(p, 0)) gd__set(p, 0, gd__index_put(g, axis, index, gd__zeros_in(p, 2)));
    if (!gd__need(p, 2)) return;
    gd_tensor *turn = gd_arange(p->node->ctx, GD_I64, 0, (double)index->numel, 1), *last;
    turn = gd_to_device(turn, index->storage->device);
    last = gd_empty_on(index->storage->device, GD_I64, 1, &g->size[axis]);
    last = gd__index_select(gd__index_put(last, 0, index, turn), 0, index, NULL);
    int64_t size[GD_MAX_DIMS];
    for (int i = 0; i < g->ndim; i++) size[i] = i == axis ? index->numel : 1;
    gd_tensor *used = gd__reshape(gd_eq(last, turn), g->ndim, size);
    gd__set(p, 2, gd_where(used, gd__index_select(g, axis, index, NULL), gd__zeros_in(p, 2)));
}

RULE(gather) { gd__set(p, 0, added_to_zeros(p, GD_OP_gather)); }

RULE(scatter_add)
{
    if (gd__need(p, 0)) gd__set(p, 0, G);
    if (gd__need(p, 2)) gd__set(p, 2, gd__gather(G, (int)gd__attr(p, 0), gd__in(p, 1)));
}

RULE(cat)
{
    int axis = (int)gd__attr(p, 0);
    int64_t start = 0;
    for (int k = 0; k < p->node->nin; k++) {
        int64_t n = p->node->in[k]->size[axis];
        if (gd__need(p, k)) gd__set(p, k, gd__slice(G, axis, start, n, 1));
        start += n;
    }
}

static bool same_place(const gd_tensor *a, const gd_tensor *b)
{
    bool same = a->data == b->data && a->storage == b->storage;
    for (int i = 0; i < a->ndim && same; i++) same = a->size[i] <= 1 || a->stride[i] == b->stride[i];
    return same;
}

/* Joins pieces with the strides of x, which may be a view: views of x in that order are contiguous again.
 * Most were written there by the rules that made them. */
static gd_tensor *joined(const gd_pullback *p)
{
    gd_tensor *out = p->room ? gd__alias(p->room)
                             : gd__new_laid_like(p->node->out[0]->storage->device, p->node->in[0]);
    for (int k = 0; k < p->node->nout && out; k++) {
        gd_tensor window = gd__piece_of(out, k), *piece = gd__g_or_zero(p, k);
        if (!piece) return NULL;
        if (window.numel && !same_place(&window, piece) && gd__copy_into(&window, piece)) return NULL;
    }
    return out;
}

/* The same to be differentiated again. */
static gd_tensor *stacked(const gd_pullback *p)
{
    gd_tensor *piece[GD_MAX_SPLIT];
    for (int k = 0; k < p->node->nout; k++) piece[k] = gd_unsqueeze(gd__g_or_zero(p, k), 0, NULL);
    return gd_cat(piece, p->node->nout, "0");
}

RULE(split) { gd__set(p, 0, gd_grad_enabled(p->node->ctx) ? stacked(p) : joined(p)); }
