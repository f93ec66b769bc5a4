/* Gradient rules of the element-wise operators.  g is the gradient of the output, x the operand, y the output. */
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
#define UNARY_RULE(name, expression) \
    RULE(name) { gd__set(p, 0, expression); }

static gd_tensor *one_minus(gd_tensor *t) { return gd_add_scalar(gd_neg(t), 1); }

/* Without cancellation where x is near 1 or -1. */
static gd_tensor *one_minus_square(gd_tensor *x) { return gd_mul(one_minus(x), gd_add_scalar(x, 1)); }

static gd_tensor *zeros_of(gd_tensor *t) { return t ? gd_zeros_like(t) : NULL; }

UNARY_RULE(neg, gd_neg(G))
UNARY_RULE(abs, gd_mul(G, gd_sign(X)))
UNARY_RULE(sqrt, gd_div(gd_mul_scalar(G, 0.5), Y))
UNARY_RULE(exp, gd_mul(G, Y))
UNARY_RULE(expm1, gd_mul(G, gd_add_scalar(Y, 1)))
UNARY_RULE(log, gd_div(G, X))
UNARY_RULE(log1p, gd_div(G, gd_add_scalar(X, 1)))
UNARY_RULE(log2, gd_div(gd_mul_scalar(G, 1.4426950408889634), X))
UNARY_RULE(log10, gd_div(gd_mul_scalar(G, 0.43429448190325182), X))
UNARY_RULE(sin, gd_mul(G, gd_cos(X)))
UNARY_RULE(cos, gd_neg(gd_mul(G, gd_sin(X))))
UNARY_RULE(tan, gd_mul(G, gd_add_scalar(gd_square(Y), 1)))
UNARY_RULE(asin, gd_div(G, gd_sqrt(one_minus_square(X))))
UNARY_RULE(acos, gd_neg(gd_div(G, gd_sqrt(one_minus_square(X)))))
UNARY_RULE(atan, gd_div(G, gd_add_scalar(gd_square(X), 1)))
UNARY_RULE(sinh, gd_mul(G, gd_cosh(X)))
UNARY_RULE(cosh, gd_mul(G, gd_sinh(X)))
UNARY_RULE(tanh, gd_mul(G, one_minus(gd_square(Y))))
UNARY_RULE(softplus, gd_mul(G, gd_sigmoid(X)))
UNARY_RULE(erf, gd_mul(G, gd_mul_scalar(gd_exp(gd_neg(gd_square(X))), 1.1283791670955126)))
UNARY_RULE(erfc, gd_mul(G, gd_mul_scalar(gd_exp(gd_neg(gd_square(X))), -1.1283791670955126)))
UNARY_RULE(lgamma, gd_mul(G, gd_polygamma(X, 0)))
UNARY_RULE(square, gd_mul(gd_mul_scalar(G, 2), X))
UNARY_RULE(add_scalar, G)
UNARY_RULE(mul_scalar, gd_mul_scalar(G, gd__attr_f(p, 0)))

RULE(rsqrt)
{
    gd_tensor *y = Y;
    gd__set(p, 0, gd_mul(gd_mul_scalar(G, -0.5), gd_mul(y, gd_square(y))));
}

RULE(sigmoid)
{
    gd_tensor *y = Y;
    gd__set(p, 0, gd_mul(G, gd_mul(y, one_minus(y))));
}

RULE(reciprocal) { gd__set(p, 0, gd_neg(gd_mul(G, gd_square(Y)))); }

RULE(relu)
{
    if (!gd_grad_enabled(p->node->ctx)) {
        gd__set(p, 0, gd__binary(GD_OP_relu_grad, G, Y));
        return;
    }
    gd_tensor *zero = zeros_of(G);
    gd__set(p, 0, gd_where(gd_gt(Y, zero), G, zero));
}

/* d/dx x Phi(x) = Phi(x) + x phi(x) */
RULE(gelu)
{
    gd_tensor *x = X;
    if (!gd_grad_enabled(p->node->ctx)) {
        gd__set(p, 0, gd__binary(GD_OP_gelu_grad, G, x));
        return;
    }
    gd_tensor *cdf = gd_mul_scalar(gd_add_scalar(gd_erf(gd_mul_scalar(x, sqrt(0.5))), 1), 0.5);
    gd_tensor *density = gd_mul_scalar(gd_exp(gd_mul_scalar(gd_square(x), -0.5)), 0.3989422804014327);
    gd__set(p, 0, gd_mul(G, gd_add(cdf, gd_mul(x, density))));
}

RULE(pow_scalar)
{
    double e = gd__attr_f(p, 0);
    if (e == 0)
        gd__set(p, 0, zeros_of(G));
    else
        gd__set(p, 0, gd_mul(G, gd_mul_scalar(gd_pow_scalar(X, e - 1), e)));
}

RULE(polygamma) { gd__set(p, 0, gd_mul(G, gd_polygamma(X, (int)gd__attr_f(p, 0) + 1))); }

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

#define A gd__in(p, 0)
#define B gd__in(p, 1)

RULE(add)
{
    if (gd__need(p, 0)) set_sum(p, 0, G);
    if (gd__need(p, 1)) set_sum(p, 1, G);
}

RULE(sub)
{
    if (gd__need(p, 0)) set_sum(p, 0, G);
    if (gd__need(p, 1)) set_sum(p, 1, gd_neg(G));
}

RULE(mul)
{
    if (gd__need(p, 0)) set_sum(p, 0, gd_mul(G, B));
    if (gd__need(p, 1)) set_sum(p, 1, gd_mul(G, A));
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

/* a - b floor(a / b) */
RULE(mod)
{
    if (gd__need(p, 0)) set_sum(p, 0, G);
    if (gd__need(p, 1)) set_sum(p, 1, gd_neg(gd_mul(G, gd_floor(gd_div(A, B)))));
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

RULE(fma)
{
    if (gd__need(p, 0)) set_sum(p, 0, gd_mul(G, B));
    if (gd__need(p, 1)) set_sum(p, 1, gd_mul(G, A));
    if (gd__need(p, 2)) set_sum(p, 2, G);
}

RULE(lerp)
{
    gd_tensor *weight = gd__in(p, 2);
    if (gd__need(p, 0)) set_sum(p, 0, gd_mul(G, one_minus(weight)));
    if (gd__need(p, 1)) set_sum(p, 1, gd_mul(G, weight));
    if (gd__need(p, 2)) set_sum(p, 2, gd_mul(G, gd_sub(B, A)));
}

/* ---- copies ---- */

RULE(cast) { gd__set(p, 0, gd_cast(G, p->node->in[0]->dtype)); }

RULE(copy) { gd__set(p, 0, G); }

RULE(to_device) { gd__set(p, 0, gd_to_device(G, gd_tensor_device(p->node->in[0]))); }
