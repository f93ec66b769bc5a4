/* A quadratic model between bounds and inside a ball: the generalised Cauchy point, and conjugate gradients projected into both
 * (More & Toraldo 1991; Lin & More 1999).
 *
 * A point is feasible where low <= d <= high, element by element, and norm(d) <= radius; 0 is.  Moving an element into its bounds
 * brings it nearer to 0, so projecting into the box never leaves the ball. */
#include "gradus/autograd.h"
#include "gradus/link/trust_region.h"
#include "base/ctx.h"

#include <math.h>

#define ENOUGH   0.01 /* share of the decrease of the linear model to reach */
#define FACTOR   4    /* from trial step to trial step of the Cauchy point */
#define TRIALS   40
#define HALVINGS 30

typedef struct model {
    gd_linop *h;
    gd_tensor *b, *low, *high; /* low, high: NULL if there are none */
    double radius;
} model;

/* A point with its product and the value of the model: -b d + d H d / 2. */
typedef struct place {
    gd_tensor *d, *hd;
    double value;
} place;

static gd_tensor *into_box(const model *m, gd_tensor *d)
{
    if (d && m->low) d = gd_maximum(d, m->low);
    return d && m->high ? gd_minimum(d, m->high) : d;
}

/* False on failure. */
static bool visit(const model *m, gd_tensor *d, place *at)
{
    at->d = d;
    at->hd = d ? gd_linop_matvec(m->h, d) : NULL;
    if (!at->hd) return false;
    at->value = gd_vector_dot(d, at->hd) / 2 - gd_vector_dot(m->b, d);
    return !gd_error(gd_tensor_ctx(m->b));
}

/* ---- the Cauchy point ---- */

/* P(t b); *good: it is in the ball and the model falls enough. */
static bool along_gradient(const model *m, double t, place *at, bool *good)
{
    if (!visit(m, into_box(m, gd_mul_scalar(m->b, t)), at)) return false;
    *good = at->value <= -ENOUGH * gd_vector_dot(m->b, at->d) && gd_vector_norm(at->d) <= m->radius;
    return true;
}

/* The unconstrained minimum along b, or the edge of the ball; then longer while that is good, or shorter until it is. */
static bool cauchy_point(const model *m, place *best)
{
    place next;
    bool good = false;
    gd_tensor *hb = gd_linop_matvec(m->h, m->b);
    double bb = gd_vector_dot(m->b, m->b), curvature = hb ? gd_vector_dot(m->b, hb) : NAN;
    double edge = isfinite(m->radius) ? m->radius / sqrt(bb) : 1, t = curvature > 0 ? bb / curvature : edge;
    if (!hb) return false;
    if (t > edge && isfinite(m->radius)) t = edge;
    if (!(bb > 0) || !isfinite(t)) return visit(m, gd_zeros_like(m->b), best);
    if (!along_gradient(m, t, best, &good)) return false;
    double factor = good ? FACTOR : 1.0 / FACTOR;
    for (int i = 0; i < TRIALS; i++) {
        bool was = good;
        t *= factor;
        if (!along_gradient(m, t, &next, &good)) return false;
        /* longer steps change nothing any more: all elements are at their bounds */
        if (factor > 1 && (!good || next.value >= best->value)) return true;
        *best = next;
        if (!was && good) return true;
    }
    return good || visit(m, gd_zeros_like(m->b), best);
}

/* ---- projected conjugate gradients ---- */

/* 1 for elements that may move: all except those at a bound that the model's gradient pushes against. */
static gd_tensor *movable(const model *m, gd_tensor *d, gd_tensor *down)
{
    gd_tensor *zero = gd_zeros_like(d), *held = gd_lt(zero, zero);
    if (m->low) held = gd_logical_or(held, gd_logical_and(gd_le(d, m->low), gd_lt(down, zero)));
    if (m->high) held = gd_logical_or(held, gd_logical_and(gd_ge(d, m->high), gd_gt(down, zero)));
    return gd_where(held, zero, gd_ones_like(d));
}

/* tau >= 0 with norm(x + tau p) = radius. */
static double to_ball(gd_tensor *x, gd_tensor *p, double radius)
{
    double xp = gd_vector_dot(x, p), pp = gd_vector_dot(p, p), room = radius * radius - gd_vector_dot(x, x);
    if (isinf(radius)) return INFINITY;
    if (!(room > 0) || !(pp > 0)) return 0;
    double root = sqrt(xp * xp + pp * room);
    return xp > 0 ? room / (xp + root) : (root - xp) / pp;
}

/* Conjugate gradients for the movable elements from d on, in the ball.  w: the step, new; *edge: it ends at the ball, or is unbounded. */
static gd_tensor *way_within(const model *m, const place *at, gd_tensor *mask, gd_tensor *down,
                             double tolerance, int64_t *left, bool *edge)
{
    gd_tensor *w = gd_zeros_like(down), *r = down, *p = r;
    double rr = gd_vector_dot(r, r);
    *edge = false;
    while (w && p && *left > 0 && sqrt(rr) > tolerance && !*edge) {
        gd_tensor *hp = gd_linop_matvec(m->h, p);
        hp = hp ? gd_mul(hp, mask) : NULL;
        if (!hp) return NULL;
        double curvature = gd_vector_dot(p, hp), alpha = rr / curvature,
               most = to_ball(gd_add(at->d, w), p, m->radius);
        *edge = !(curvature > 0) || alpha >= most;
        --*left;
        if (*edge && isinf(most))
            return gd_vector_sum(w, rr > 0 ? 1 / sqrt(rr) : 0, p); /* the model is unbounded */
        w = gd_vector_sum(w, *edge ? most : alpha, p);
        r = gd_vector_sum(r, -alpha, hp);
        double next = r ? gd_vector_dot(r, r) : NAN;
        p = r ? gd_vector_sum(r, next / rr, p) : NULL;
        rr = next;
    }
    return w;
}

/* P(d + beta w), beta halved until the model falls enough.  *met: a bound was reached; *moved: the model fell. */
static bool projected_search(const model *m, place *at, gd_tensor *w, gd_tensor *down, bool *met, bool *moved)
{
    double beta = 1;
    *moved = false;
    for (int i = 0; i < HALVINGS && !*moved; i++, beta /= 2) {
        place next;
        gd_tensor *straight = gd_vector_sum(at->d, beta, w), *d = into_box(m, straight),
                  *way = gd_sub(d, at->d);
        if (!way || !visit(m, d, &next)) return false;
        *met = beta < 1 || gd_vector_norm(gd_sub(d, straight)) > 0;
        *moved = next.value < at->value && next.value <= at->value - ENOUGH * gd_vector_dot(down, way);
        if (*moved) *at = next;
    }
    return true;
}

static bool descend(const model *m, place *at, double tolerance, int64_t left)
{
    bool edge = false, met = true, moved = true;
    /* at the edge of the ball with no bound reached this is the end; otherwise elements may leave their bounds */
    while (left > 0 && moved && (met || !edge)) {
        gd_tensor *down = gd_sub(m->b, at->hd), *mask = down ? movable(m, at->d, down) : NULL;
        down = mask ? gd_mul(down, mask) : NULL;
        if (!down) return false;
        if (gd_vector_norm(down) <= tolerance) break;
        gd_tensor *w = way_within(m, at, mask, down, tolerance, &left, &edge);
        if (!w || !projected_search(m, at, w, down, &met, &moved)) return false;
    }
    return !gd_error(gd_tensor_ctx(m->b));
}

/* ---- public functions ---- */

gd_tensor *gd_projected_cg(gd_linop *h, gd_tensor *b, gd_tensor *low, gd_tensor *high, double radius,
                           double tolerance, int64_t most, gd_tensor **hd)
{
    gd_ctx *ctx = gd_tensor_ctx(b);
    const model m = {h, b, low, high, radius};
    place at = {NULL, NULL, 0};
    if (hd) *hd = NULL;
    if (!h || !b) return gd__none(gd__null(ctx, "a model in a box: an operator or vector is NULL"));
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    bool good = cauchy_point(&m, &at) && descend(&m, &at, tolerance, most);
    gd_tensor *out[2] = {good ? gd_keep(at.d) : NULL, good && hd ? gd_keep(at.hd) : NULL};
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    if (hd) *hd = out[1];
    return out[0];
}
