/* Leaves: tensors that want gradients, and their gradients. */
#include "gradus/autograd.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"
#include "tensor/tensor_internal.h"

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
    gd__put_wants_grad(t, on);
    return GD_OK;
}

gd_tensor *gd_require_grad(gd_tensor *t) { return t && gd_set_requires_grad(t, true) == GD_OK ? t : NULL; }

bool gd_requires_grad(const gd_tensor *t) { return t && gd__wants_grad(t); }

bool gd_is_leaf(const gd_tensor *t) { return t && !t->node; }

gd_tensor *gd_grad_of(const gd_tensor *t) { return t ? t->grad : NULL; }

/* The gradient in the order of t's axes and labels, as an owned reference. */
static gd_status aligned_gradient(gd_tensor *t, gd_tensor **grad)
{
    gd_ctx *ctx = t->head.ctx;
    gd_scope_begin(ctx);
    uint8_t grad_off = ctx->grad_off;
    ctx->grad_off = 1;
    gd_tensor *seen = gd__aligned_to("set_grad", *grad, t);
    if (seen && seen != *grad) seen = gd_copy(seen); /* a leaf's gradient is contiguous */
    ctx->grad_off = grad_off;
    gd__own(seen);
    gd_scope_end(ctx);
    *grad = seen;
    return seen ? GD_OK : gd_error(ctx);
}

static gd_status check_gradient(const gd_tensor *t, const gd_tensor *grad)
{
    char a[256], b[256];
    if (!gd__same_shape(t, grad) || !gd__is_float(grad))
        return gd_fail(t->head.ctx, GD_SHAPE, "set_grad: %s %s is no gradient of %s %s",
                       gd_dtype_name(grad->dtype), gd__shape_text(grad, a, sizeof a), gd_dtype_name(t->dtype),
                       gd__shape_text(t, b, sizeof b));
    if (t->storage->device == grad->storage->device) return GD_OK;
    return gd_fail(t->head.ctx, GD_DEVICE, "set_grad: the gradient is on %s, the tensor on %s",
                   grad->storage->device->name, t->storage->device->name);
}

/* A gradient with a different layout than its tensor. */
static __attribute__((noinline)) gd_status set_other(gd_tensor *t, gd_tensor *grad)
{
    gd_status status = GD_OK;
    if (gd__may_differ(grad, t))
        status = aligned_gradient(t, &grad);
    else
        gd__retain(grad);
    if (!status) status = check_gradient(t, grad);
    if (status)
        gd__release(grad);
    else
        gd__put_grad(t, grad);
    return status;
}

gd_status gd_set_grad(gd_tensor *t, gd_tensor *grad)
{
    if (!t) return GD_ARGUMENT;
    bool streams = gd__can_stream(grad, t);
    if (grad && !streams) return set_other(t, grad);
    gd__retain(grad);
    gd__put_checked_grad(t, grad, streams);
    return GD_OK;
}

void gd_zero_grad(gd_tensor *t)
{
    if (t) gd__put_grad(t, NULL);
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
