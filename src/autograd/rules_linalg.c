/* Gradient rules of linear algebra and of image windows.  A bar over X is the gradient of the loss by X, written gX.
 *
 * Sources: Giles, "Collected matrix derivative results" (2008); Murray, "Differentiation of the Cholesky decomposition"
 * (2016); Townsend, "Differentiating the singular value decomposition" (2016); Walter and Lehmann, "Algorithmic
 * differentiation of linear algebra functions" (2010); Roberts and Roberts, "QR and LQ decomposition matrix
 * backpropagation" (2020, for more columns than rows).
 *
 * If factors are not unique the gradient does not exist: equal eigenvalues or singular values (for the vectors), zero
 * singular values (for the vectors), a QR of deficient rank.  Reciprocals of zero differences count as 0 there, so that results
 * independent of the ambiguity are still correct and nothing becomes NaN. */
#include "autograd/rules.h"
#include "tensor/linalg.h"

#include <math.h>

#define RULE(name) void gd__grad_##name(gd_pullback *p)

/* ---- helpers for matrices ---- */

static gd_tensor *T(gd_tensor *x) { return gd_transpose(x, -1, -2); }

static gd_tensor *times(gd_tensor *a, gd_tensor *b) { return gd__product(a, b); }

/* A vector as a column / row, to scale the rows / columns of a matrix. */
static gd_tensor *column(gd_tensor *x) { return gd_unsqueeze(x, -1, NULL); }
static gd_tensor *row(gd_tensor *x) { return gd_unsqueeze(x, -2, NULL); }

static int64_t rows_of(const gd_tensor *x) { return x->size[x->ndim - 2]; }
static int64_t columns_of(const gd_tensor *x) { return x->size[x->ndim - 1]; }

/* 1 / x, and 0 where x is 0. */
static gd_tensor *safe_reciprocal(gd_tensor *x)
{
    if (!x) return NULL;
    gd_tensor *zero = gd_zeros_like(x), *at_zero = gd_eq(x, zero);
    return gd_where(at_zero, zero, gd_reciprocal(gd_where(at_zero, gd_ones_like(x), x)));
}

/* The lower triangle and its mirror image above. */
static gd_tensor *mirror_lower(gd_tensor *x) { return gd_add(gd_tril(x, 0), T(gd_tril(x, -1))); }

/* The diagonal of the last two axes as a matrix: x times the identity. */
static gd_tensor *diagonal_matrix(gd_tensor *x)
{
    if (!x) return NULL;
    int64_t n = x->size[x->ndim - 1];
    gd_tensor *one = gd_to_device(gd_eye(gd_tensor_ctx(x), x->dtype, n, n), gd_tensor_device(x));
    return gd_mul(column(x), one);
}

/* Adds a term to a sum that starts as NULL; false if the term could not be computed. */
static bool add_to(gd_tensor **sum, gd_tensor *term)
{
    *sum = *sum && term ? gd_add(*sum, term) : term;
    return *sum != NULL;
}

/* ---- products ---- */

/* A product in its memory, if any. */
static gd_tensor *product_there(gd_tensor *room, gd_tensor *a, gd_tensor *b)
{
    return room ? gd__product_into(room, a, b) : gd__product(a, b);
}

RULE(matmul)
{
    gd_tensor *g = gd__g(p), *a = gd__in(p, 0), *b = gd__in(p, 1);
    if (!g || !a || !b) return;
    bool both = gd__need(p, 0) && gd__need(p, 1);
    if (both && g->ndim > 2 && !gd__matrix_in_place(g, false)) g = gd_contiguous(g); /* once for both */
    if (gd__need(p, 0)) gd__set(p, 0, product_there(gd__room(p, 0), g, T(b)));
    if (!gd__need(p, 1)) return;
    /* the gradient of a transposed operand has the operand's strides */
    bool turned = columns_of(b) > 1 && b->stride[b->ndim - 2] == 1;
    gd_tensor *room = gd__room(p, 1);
    gd__set(p, 1, turned ? T(product_there(room ? T(room) : NULL, T(g), a)) : product_there(room, T(a), g));
}

/* Y = beta C + alpha A B */
RULE(addmm)
{
    gd_tensor *g = gd__g(p);
    double beta = gd__attr_f(p, 0), alpha = gd__attr_f(p, 1);
    if (gd__need(p, 0)) gd__set(p, 0, gd_mul_scalar(g, beta));
    if (gd__need(p, 1)) gd__set(p, 1, gd_mul_scalar(times(g, T(gd__in(p, 2))), alpha));
    if (gd__need(p, 2)) gd__set(p, 2, gd_mul_scalar(times(T(gd__in(p, 1)), g), alpha));
}

/* Y = X W^T + b */
RULE(linear)
{
    gd_tensor *g = gd__g(p);
    if (!gd_grad_enabled(p->node->ctx) && gd__need(p, 0) && gd__need(p, 1) && gd__need(p, 2)) {
        gd_tensor *all[3];
        bool made = gd__linear_grad(g, gd__in(p, 0), gd__in(p, 1), all) == GD_OK;
        for (int k = 0; k < 3 && made; k++) gd__set(p, k, all[k]);
        return;
    }
    if (gd__need(p, 0)) gd__set(p, 0, times(g, gd__in(p, 1)));
    if (gd__need(p, 1)) gd__set(p, 1, times(T(g), gd__in(p, 0)));
    if (gd__need(p, 2)) gd__set(p, 2, gd_sum(g, "0", false));
}

/* ---- solvers ---- */

/* X = A^-1 B:  gB = A^-T gX,  gA = -gB X^T */
RULE(solve)
{
    gd_tensor *gb = gd_solve(T(gd__in(p, 0)), gd__g(p));
    if (gd__need(p, 1)) gd__set(p, 1, gb);
    if (gd__need(p, 0)) gd__set(p, 0, gd_neg(times(gb, T(gd__out(p, 0)))));
}

/* The same for the triangle that is read; with op(A) = A^T, gA = -X gB^T. */
RULE(triangular_solve)
{
    bool lower = gd__attr(p, 0), transposed = gd__attr(p, 1), unit = gd__attr(p, 2);
    gd_tensor *gb = gd_triangular_solve(gd__in(p, 0), gd__g(p), lower, !transposed, unit), *x = gd__out(p, 0);
    if (gd__need(p, 1)) gd__set(p, 1, gb);
    if (!gd__need(p, 0)) return;
    gd_tensor *ga = gd_neg(transposed ? times(x, T(gb)) : times(gb, T(x)));
    gd__set(p, 0, lower ? gd_tril(ga, unit ? -1 : 0) : gd_triu(ga, unit ? 1 : 0));
}

/* gA = g A^-T */
RULE(logdet) { gd__set(p, 0, gd_mul(column(column(gd__g(p))), T(gd_inverse(gd__in(p, 0))))); }

/* ---- factorisations ---- */

/* A = L L^T:  gA = L^-T Phi(L^T gL) L^-1, where Phi keeps the lower triangle and halves the diagonal.  The operator
 * symmetrises its operand, which makes this symmetric. */
RULE(cholesky)
{
    gd_tensor *l = gd__out(p, 0), *m = times(T(l), gd__g(p));
    gd_tensor *phi = gd_mul_scalar(gd_add(gd_tril(m, 0), gd_tril(m, -1)), 0.5);
    gd_tensor *left = gd_triangular_solve(l, phi, true, true, false);
    gd__set(p, 0, T(gd_triangular_solve(l, T(left), true, true, false)));
}

/* A = Q R with at least as many rows as columns:
 *   M = R gR^T - gQ^T Q,  gA = (gQ + Q mirror(M)) R^-T */
static gd_tensor *tall_qr(gd_tensor *q, gd_tensor *r, gd_tensor *gq, gd_tensor *gr)
{
    gd_tensor *m = gd_sub(times(r, T(gr)), times(T(gq), q));
    gd_tensor *x = gd_add(gq, times(q, mirror_lower(m)));
    return T(gd_triangular_solve(r, T(x), false, false, false));
}

/* Fewer rows than columns: A = [X Y], R = [U V], X = Q U, V = Q^T Y.  The effect of Y on Q goes through gQ. */
RULE(qr)
{
    gd_tensor *q = gd__out(p, 0), *r = gd__out(p, 1), *gq = gd__g_or_zero(p, 0), *gr = gd__g_or_zero(p, 1);
    if (!q || !r || !gq || !gr) return;
    int64_t m = rows_of(q), n = columns_of(r);
    if (m >= n) {
        gd__set(p, 0, tall_qr(q, r, gq, gr));
        return;
    }
    gd_tensor *u = gd_slice(r, "-1", 0, m, 1), *v = gd_slice(r, "-1", m, n, 1);
    gd_tensor *gu = gd_slice(gr, "-1", 0, m, 1), *gv = gd_slice(gr, "-1", m, n, 1);
    gq = gd_add(gq, times(times(q, v), T(gv)));
    gd_tensor *blocks[2] = {tall_qr(q, u, gq, gu), times(q, gv)};
    if (blocks[0] && blocks[1]) gd__set(p, 0, gd_cat(blocks, 2, "-1"));
}

/* A = V diag(w) V^T:  gA = V (diag(gw) + F o V^T gV) V^T,  F_ij = 1 / (w_j - w_i) off the diagonal. */
RULE(eigh)
{
    gd_tensor *w = gd__out(p, 0), *v = gd__out(p, 1), *gw = p->grad[0], *gv = p->grad[1], *inner = NULL;
    gd_tensor *gap = gv ? safe_reciprocal(gd_sub(row(w), column(w))) : NULL;
    if (gv && !add_to(&inner, gd_mul(gap, times(T(v), gv)))) return;
    if (gw && !add_to(&inner, diagonal_matrix(gw))) return;
    gd__set(p, 0, times(times(v, inner), T(v)));
}

/* The term of an SVD's gradient from one set of vectors, x = U or V with gradient g, in the coordinates
 * of both: F o (x^T g - g^T x), F_ij = 1 / (s_j^2 - s_i^2). */
static gd_tensor *turning(gd_tensor *s, gd_tensor *x, gd_tensor *g)
{
    gd_tensor *difference = gd_mul(gd_sub(row(s), column(s)), gd_add(row(s), column(s)));
    gd_tensor *xg = times(T(x), g);
    return gd_mul(safe_reciprocal(difference), gd_sub(xg, T(xg)));
}

/* The component of the gradient outside the space of all k vectors: (1 - x x^T) g diag(1/s). */
static gd_tensor *leaving(gd_tensor *s, gd_tensor *x, gd_tensor *g)
{
    gd_tensor *outside = gd_sub(g, times(x, times(T(x), g)));
    return gd_mul(outside, row(safe_reciprocal(s)));
}

/* A = U diag(s) V^T:  gA = U (turn(U) diag(s) + diag(s) turn(V) + diag(gs)) V^T + leave(U) V^T + U leave(V)^T */
RULE(svd)
{
    gd_tensor *u = gd__out(p, 0), *s = gd__out(p, 1), *vt = gd__out(p, 2), *v = T(vt), *inner = NULL,
              *out = NULL;
    gd_tensor *gu = p->grad[0], *gs = p->grad[1], *gv = p->grad[2] ? T(p->grad[2]) : NULL;
    if (!u || !s || !v || (p->grad[2] && !gv)) return;
    if (gs && !add_to(&inner, diagonal_matrix(gs))) return;
    if (gu && !add_to(&inner, gd_mul(turning(s, u, gu), row(s)))) return;
    if (gv && !add_to(&inner, gd_mul(column(s), turning(s, v, gv)))) return;
    if (!add_to(&out, times(times(u, inner), vt))) return;
    if (gu && rows_of(u) > columns_of(u) && !add_to(&out, times(leaving(s, u, gu), vt))) return;
    if (gv && rows_of(v) > columns_of(v) && !add_to(&out, times(u, T(leaving(s, v, gv))))) return;
    gd__set(p, 0, out);
}

/* ---- windows: each is the transpose of the other ---- */

static gd_windows windows_of(const gd_pullback *p)
{
    return (gd_windows){.tall = gd__attr(p, 0),
                        .wide = gd__attr(p, 1),
                        .stride = gd__attr(p, 2),
                        .padding = gd__attr(p, 3),
                        .height = gd__attr(p, 4),
                        .width = gd__attr(p, 5),
                        .together = gd__attr(p, 6) != 0,
                        .more_stride = gd__attr(p, 7),
                        .apart = {gd__attr(p, 8), gd__attr(p, 9)}};
}

RULE(unfold2d)
{
    gd_windows w = windows_of(p);
    gd__set(p, 0, gd__fold2d(gd__g(p), &w));
}

RULE(fold2d)
{
    gd_windows w = windows_of(p);
    gd__set(p, 0, gd__unfold2d(gd__g(p), &w, 0));
}

/* ---- convolutions: y, gx and gw are the derivatives of one trilinear form in x, w and g ---- */

static gd_convolution convolution_of(const gd_pullback *p)
{
    return (gd_convolution){gd__attr(p, 0), gd__attr(p, 1)};
}

static gd_tensor *by_image(const gd_pullback *p, gd_tensor *g, gd_tensor *w, const gd_tensor *x)
{
    gd_convolution c = convolution_of(p);
    return gd__conv2d_image(g, w, &c, x->size[2], x->size[3]);
}

static gd_tensor *by_weight(const gd_pullback *p, gd_tensor *g, gd_tensor *x, const gd_tensor *w)
{
    gd_convolution c = convolution_of(p);
    return gd__conv2d_weight(g, x, &c, w->size[2], w->size[3]);
}

RULE(conv2d)
{
    if (gd__need(p, 0)) gd__set(p, 0, by_image(p, gd__g(p), gd__in(p, 1), p->node->in[0]));
    if (gd__need(p, 1)) gd__set(p, 1, by_weight(p, gd__g(p), gd__in(p, 0), p->node->in[1]));
    if (gd__need(p, 2)) gd__set(p, 2, gd_sum(gd__g(p), "0,2,3", false));
}

RULE(conv2d_image)
{
    gd_convolution c = convolution_of(p);
    gd_tensor *h = gd__g(p);
    if (gd__need(p, 0)) gd__set(p, 0, gd__conv2d(h, gd__in(p, 1), NULL, &c));
    if (gd__need(p, 1)) gd__set(p, 1, by_weight(p, gd__in(p, 0), h, p->node->in[1]));
}

RULE(conv2d_weight)
{
    gd_convolution c = convolution_of(p);
    gd_tensor *h = gd__g(p);
    if (gd__need(p, 0)) gd__set(p, 0, gd__conv2d(gd__in(p, 1), h, NULL, &c));
    if (gd__need(p, 1)) gd__set(p, 1, by_image(p, gd__in(p, 0), h, p->node->in[1]));
}

/* ---- poolings ---- */

static gd_pool pool_of(const gd_pullback *p)
{
    return (gd_pool){gd__attr(p, 0), gd__attr(p, 1), gd__attr(p, 2)};
}

/* Each window's gradient goes to its first highest pixel; with operators if it is differentiated again. */
RULE(max_pool2d)
{
    gd_pool pool = pool_of(p);
    gd_tensor *x = gd__in(p, 0), *g = gd__g(p);
    if (!x || !g) return;
    if (!gd_grad_enabled(p->node->ctx)) {
        gd__set(p, 0, gd__max_pool2d_grad(g, x, &pool));
        return;
    }
    gd_windows w = gd__windows(pool.size, pool.size, pool.stride, pool.padding, x, true);
    gd_tensor *columns = gd__unfold2d(gd_detach(x), &w, -INFINITY);
    gd_tensor *place = gd_argmax(columns, "3", true);
    if (!place) return;
    gd_tensor *spread = gd__scatter_add(gd_zeros_like(columns), 3, place, gd__reshape(g, 4, place->size));
    gd__set(p, 0, gd__fold2d(spread, &w));
}

RULE(avg_pool2d)
{
    gd_pool pool = pool_of(p);
    gd__set(p, 0, gd__avg_pool2d_grad(gd__g(p), &pool, p->node->in[0]->size));
}

RULE(avg_pool2d_grad)
{
    gd_pool pool = pool_of(p);
    gd__set(p, 0, gd__avg_pool2d(gd__g(p), &pool));
}
