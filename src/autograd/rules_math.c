/* Gradient rules of the element-wise operators: those in their rows in ops.def, and those written by hand. */
#include "autograd/rules.h"

#include <math.h>

gd_tensor *gd__unbroadcast(gd_tensor *g, const gd_tensor *like)
{
    if (!g || gd__same_shape(g, like)) return g;
    int shift = g->ndim - like->ndim;
    unsigned mask = 0;
    for (int i = 0; i < g->ndim; i++)
        if (i < shift || (like->size[i - shift] == 1 && g->size[i] != 1)) mask |= 1u << i;
    return gd__reshape(gd__sum_axes(g, mask, true), like->ndim, like->size);
}

/* For an operand that may have been broadcast. */
static void set_sum(gd_pullback *p, int k, gd_tensor *grad)
{
    gd__set(p, k, gd__unbroadcast(grad, p->node->in[k]));
}

#define RULE(name) void gd__grad_##name(gd_pullback *p)
#define G          gd__g(p)
#define X          gd__in(p, 0)
#define Y          gd__out(p, 0)
#define A          gd__in(p, 0)
#define B          gd__in(p, 1)
#define C          gd__in(p, 2)
#define SETTING    gd__attr_f(p, 0)

static gd_tensor *one_minus(gd_tensor *t) { return gd_add_scalar(gd_neg(t), 1); }

/* Without cancellation where x is near 1 or -1. */
static gd_tensor *one_minus_square(gd_tensor *x) { return gd_mul(one_minus(x), gd_add_scalar(x, 1)); }

static gd_tensor *times_rest(gd_tensor *y) { return gd_mul(y, one_minus(y)); }
static gd_tensor *cubed(gd_tensor *y) { return gd_mul(y, gd_square(y)); }
static gd_tensor *zeros_of(gd_tensor *t) { return t ? gd_zeros_like(t) : NULL; }

/* One pass over memory instead of several, if nobody differentiates the gradient again; recordings fuse the passes themselves. */
static bool slope_in_one_pass(gd_pullback *p)
{
    const gd_node *node = p->node;
    if (!gd__has_slope(node->op)) return false;
    gd_tensor *of = gd__ops[node->op].needs == GD_NEEDS_OUT ? Y : X;
    if (!gd__once(p, of) || !G || of->dtype != G->dtype) return false;
    gd__set(p, 0, gd__slope(node->op, node->nf ? gd__attr_f(p, 0) : 0, G, of));
    return true;
}

/* ---- by the rows ---- */

#define SLOPE(d)                                     \
    {                                                \
        if (!slope_in_one_pass(p)) gd__set(p, 0, d); \
    }
#define OPERAND(k, d) \
    if (gd__need(p, k)) set_sum(p, k, d);
#define SLOPES(da, db)                \
    {                                 \
        OPERAND(0, da) OPERAND(1, db) \
    }
#define SLOPES3(da, db, dc)                          \
    {                                                \
        OPERAND(0, da) OPERAND(1, db) OPERAND(2, dc) \
    }
#define BY_HAND ;
#define ELEMENT(name, inputs, settings, kind, needs, takes, batch, element, whole, gradient, ...) \
    RULE(name) gradient
#define ELEMENT0(...)
#include "tensor/ops.def"

/* ---- by hand, one operand ---- */

/* One pass over memory, unless the gradient is differentiated again. */
static bool in_one_pass(gd_pullback *p, gd_op_id op, gd_tensor *of)
{
    if (gd_grad_enabled(p->node->ctx)) return false;
    gd__set(p, 0, gd__binary(op, G, of));
    return true;
}

RULE(tanh)
{
    if (!in_one_pass(p, GD_OP_tanh_grad, Y)) gd__set(p, 0, gd_mul(G, one_minus(gd_square(Y))));
}

RULE(sigmoid)
{
    if (!in_one_pass(p, GD_OP_sigmoid_grad, Y)) gd__set(p, 0, gd_mul(G, times_rest(Y)));
}

RULE(relu)
{
    if (in_one_pass(p, GD_OP_relu_grad, Y)) return;
    gd_tensor *zero = zeros_of(G);
    gd__set(p, 0, gd_where(gd_gt(Y, zero), G, zero));
}

/* d/dx x Phi(x) = Phi(x) + x phi(x) */
RULE(gelu)
{
    gd_tensor *x = X;
    if (in_one_pass(p, GD_OP_gelu_grad, x)) return;
    gd_tensor *cdf = gd_mul_scalar(gd_add_scalar(gd_erf(gd_mul_scalar(x, sqrt(0.5))), 1), 0.5);
    gd_tensor *density = gd_mul_scalar(gd_exp(gd_mul_scalar(gd_square(x), -0.5)), 0.3989422804014327);
    gd__set(p, 0, gd_mul(G, gd_add(cdf, gd_mul(x, density))));
}

RULE(pow_scalar)
{
    double e = gd__attr_f(p, 0);
    if (e == 0)
        gd__set(p, 0, zeros_of(G));
    else if (!slope_in_one_pass(p))
        gd__set(p, 0, gd_mul(G, gd_mul_scalar(gd_pow_scalar(X, e - 1), e)));
}

RULE(bessel_j)
{
    int n = (int)gd__attr_f(p, 0);
    gd_tensor *x = X, *twice = gd_sub(gd_bessel_j(x, n - 1), gd_bessel_j(x, n + 1));
    gd__set(p, 0, gd_mul(G, gd_mul_scalar(twice, 0.5)));
}

RULE(clamp)
{
    gd_tensor *x = X, *inside = gd_eq(x, gd_clamp(x, gd__attr_f(p, 0), gd__attr_f(p, 1)));
    gd__set(p, 0, gd_where(inside, G, zeros_of(G)));
}

/* ---- two operands ---- */

/* What was broadcast gets its sum first, which is less to negate. */
RULE(sub)
{
    if (gd__need(p, 0)) set_sum(p, 0, G);
    if (gd__need(p, 1)) gd__set(p, 1, gd_neg(gd__unbroadcast(G, p->node->in[1])));
}

RULE(div)
{
    gd_tensor *over = gd_div(G, B);
    if (gd__need(p, 0)) set_sum(p, 0, over);
    if (gd__need(p, 1)) set_sum(p, 1, gd_neg(gd_mul(over, gd_div(A, B))));
}

/* d/da = b a^(b-1); d/db = a^b log a, taken as 0 where a is not positive */
RULE(pow)
{
    gd_tensor *a = A, *b = B;
    if (gd__need(p, 0)) set_sum(p, 0, gd_mul(G, gd_mul(b, gd_pow(a, gd_add_scalar(b, -1)))));
    if (!gd__need(p, 1)) return;
    gd_tensor *zero = zeros_of(a), *positive = gd_gt(a, zero);
    gd_tensor *log_a = gd_where(positive, gd_log(gd_where(positive, a, gd_ones_like(a))), zero);
    set_sum(p, 1, gd_mul(G, gd_mul(Y, log_a)));
}

RULE(atan2)
{
    gd_tensor *a = A, *b = B, *over = gd_div(G, gd_add(gd_square(a), gd_square(b)));
    if (gd__need(p, 0)) set_sum(p, 0, gd_mul(over, b));
    if (gd__need(p, 1)) set_sum(p, 1, gd_neg(gd_mul(over, a)));
}

/* 0 for both operands if both are 0: the cone has no slope at its tip. */
RULE(hypot)
{
    gd_tensor *y = Y, *tip = y ? gd_eq(y, gd_zeros_like(y)) : NULL;
    gd_tensor *over = gd_div(G, y ? gd_where(tip, gd_ones_like(y), y) : NULL);
    if (gd__need(p, 0)) set_sum(p, 0, gd_mul(over, A));
    if (gd__need(p, 1)) set_sum(p, 1, gd_mul(over, B));
}

RULE(copysign)
{
    if (gd__need(p, 0)) set_sum(p, 0, gd_mul(G, gd_mul(gd_sign(A), gd_copysign(gd_ones_like(B), B))));
    if (gd__need(p, 1)) set_sum(p, 1, zeros_of(G));
}

/* Equal operands: the gradient goes to the left one. */
static void choose(gd_pullback *p, gd_tensor *left)
{
    gd_tensor *zero = zeros_of(G);
    if (gd__need(p, 0)) set_sum(p, 0, gd_where(left, G, zero));
    if (gd__need(p, 1)) set_sum(p, 1, gd_where(left, zero, G));
}

RULE(minimum) { choose(p, gd_le(A, B)); }

RULE(maximum) { choose(p, gd_ge(A, B)); }

/* ---- three operands ---- */

RULE(where)
{
    gd_tensor *zero = zeros_of(G);
    if (gd__need(p, 1)) set_sum(p, 1, gd_where(A, G, zero));
    if (gd__need(p, 2)) set_sum(p, 2, gd_where(A, zero, G));
}

/* ---- copies ---- */

RULE(cast) { gd__set(p, 0, gd_cast(G, p->node->in[0]->dtype)); }

RULE(copy) { gd__set(p, 0, G); }

RULE(to_device) { gd__set(p, 0, gd_to_device(G, gd_tensor_device(p->node->in[0]))); }
