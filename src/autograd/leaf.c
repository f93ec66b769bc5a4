/* Leaves: which tensors want gradients, and the gradients they have. */
#include "gradus/autograd.h"
#include "tensor/tensor.h"

gd_status gd_set_requires_grad(gd_tensor *t, bool on)
{
    if (!t) return GD_ARGUMENT;
    gd_ctx *ctx = t->head.ctx;
    if (t->node)
        return gd_fail(ctx, GD_GRAPH, "require_grad: the tensor is the result of '%s', not a leaf; detach it",
                       gd__ops[t->node->op].name);
    if (on && !gd_dtype_is_float(t->dtype))
        return gd_fail(ctx, GD_DTYPE, "require_grad: %s has no gradients; only floating dtypes do",
                       gd_dtype_name(t->dtype));
    t->leaf_grad = on;
    ctx->changes++;
    return GD_OK;
}

gd_tensor *gd_require_grad(gd_tensor *t) { return t && gd_set_requires_grad(t, true) == GD_OK ? t : NULL; }

bool gd_requires_grad(const gd_tensor *t) { return t && gd__wants_grad(t); }

bool gd_is_leaf(const gd_tensor *t) { return t && !t->node; }

gd_tensor *gd_grad_of(const gd_tensor *t) { return t ? t->grad : NULL; }

gd_status gd_set_grad(gd_tensor *t, gd_tensor *grad)
{
    if (!t) return GD_ARGUMENT;
    char a[256], b[256];
    if (grad && (!gd__same_shape(t, grad) || t->dtype != grad->dtype))
        return gd_fail(t->head.ctx, GD_SHAPE, "set_grad: %s %s is no gradient of %s %s",
                       gd_dtype_name(grad->dtype), gd__shape_text(grad, a, sizeof a), gd_dtype_name(t->dtype),
                       gd__shape_text(t, b, sizeof b));
    gd__retain(grad);
    gd__release(t->grad);
    t->grad = grad;
    t->head.ctx->changes++;
    return GD_OK;
}

void gd_zero_grad(gd_tensor *t)
{
    if (!t) return;
    gd__release(t->grad);
    t->grad = NULL;
    t->head.ctx->changes++;
}

gd_status gd_zero_grad_in_place(gd_tensor *t)
{
    if (!t) return GD_ARGUMENT;
    return t->grad ? gd_fill(t->grad, 0) : GD_OK;
}

void gd_no_grad_begin(gd_ctx *ctx)
{
    if (ctx) ctx->grad_off++;
}

void gd_no_grad_end(gd_ctx *ctx)
{
    if (!ctx) return;
    if (ctx->grad_off) ctx->grad_off--;
}

bool gd_grad_enabled(const gd_ctx *ctx) { return ctx && !ctx->grad_off; }

int gd_enable_grad_begin(gd_ctx *ctx)
{
    if (!ctx) return 0;
    int previous = ctx->grad_off;
    ctx->grad_off = 0;
    return previous;
}

void gd_enable_grad_end(gd_ctx *ctx, int previous)
{
    if (ctx) ctx->grad_off = (uint8_t)previous;
}
