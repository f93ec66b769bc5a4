/* Multi-head self attention (Vaswani et al. 2017) over [..., time, size]:
 *
 *   q, k, v = x Wqkv^T + b            [n, heads, time, size / heads] each
 *   y = softmax(q k^T / sqrt(size / heads)) v, heads side by side, times Wout^T + b
 *
 * causal: scores of later positions are -infinity before the softmax.  Initial values: those of linear. */
#include "module/layers/layer.h"
#include "tensor/linalg.h"

#include <math.h>

gd_attention_options gd_attention_defaults(void)
{
    return (gd_attention_options){.causal = false, .bias = true, .dtype = GD_F32};
}

/* softmax(q k^T * scale) v; all [n, heads, time, depth].  q, k and v are views, and the result has the strides of q: with
 * the heads of one time side by side. */
static gd_tensor *attend(gd_tensor *q, gd_tensor *k, gd_tensor *v, bool causal)
{
    if (!q || !k || !v) return NULL;
    double scale = 1 / sqrt((double)gd_size(q, 3));
    gd_tensor *weights = gd__attention_softmax(gd__product(q, gd_transpose(k, 2, 3)), scale, causal);
    return gd__product_into(gd__new_laid_like(gd_tensor_device(q), q), weights, v);
}

/* x is [n, time, size] without names. */
static gd_tensor *heads_of(gd_module *m, gd_tensor *x, int64_t heads, bool causal)
{
    if (!x) return NULL;
    int64_t n = gd_size(x, 0), time = gd_size(x, 1), size = gd_size(x, 2);
    gd_tensor *qkv = gd_module_call(gd_module_get_module(m, "qkv"), x);
    qkv = gd_reshape(qkv, 5, (int64_t[]){n, time, 3, heads, size / heads});
    qkv = gd_permute(qkv, (int[]){2, 0, 3, 1, 4});
    gd_tensor *piece[3];
    if (gd__split(qkv, 3, piece)) return NULL;
    gd_tensor *y = attend(piece[0], piece[1], piece[2], causal);
    y = gd_reshape(gd_permute(y, (int[]){0, 2, 1, 3}), 3, (int64_t[]){n, time, size});
    return gd_module_call(gd_module_get_module(m, "out"), y);
}

static gd_status check_input(gd_ctx *ctx, const gd_tensor *x, int64_t size)
{
    if (gd_ndim(x) >= 2 && gd_size(x, -1) == size) return GD_OK;
    char shape[256];
    return gd_fail(ctx, GD_SHAPE, "attention: needs [..., time, %lld], got %s", (long long)size,
                   gd__shape_text(x, shape, sizeof shape));
}

static gd_object *attention_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument;
    gd_ctx *ctx = self->ctx;
    int64_t size, heads, causal;
    if (gd_module_get_int(m, "size", &size) || gd_module_get_int(m, "heads", &heads) ||
        gd_module_get_int(m, "causal", &causal) || gd_kwargs_only(ctx, kwargs, "causal") ||
        gd_kwargs_int(ctx, kwargs, "causal", &causal) || check_input(ctx, x, size))
        return NULL;
    gd_tensor *flat = gd_reshape(x, 3, (int64_t[]){-1, gd_size(x, -2), size});
    gd_tensor *y = gd_reshape(heads_of(m, flat, heads, causal != 0), x->ndim, x->size);
    return gd_tensor_object(gd__relabel_like(y, x));
}

gd_class *gd_class_attention(gd_ctx *ctx) { return gd__layer_class(ctx, "Attention", attention_forward); }

static gd_status fill(gd_module *m, int64_t size, int64_t heads, const gd_attention_options *o)
{
    gd_ctx *ctx = m->head.ctx;
    gd_linear_options linear = gd_linear_defaults();
    linear.bias = o->bias;
    linear.dtype = o->dtype;
    gd_status status = gd_module_set_int(m, "size", size);
    if (!status) status = gd_module_set_int(m, "heads", heads);
    if (!status) status = gd_module_set_int(m, "causal", o->causal);
    if (!status) status = gd__add_child(m, "qkv", gd_linear_new(ctx, size, 3 * size, &linear));
    if (!status) status = gd__add_child(m, "out", gd_linear_new(ctx, size, size, &linear));
    return status;
}

gd_module *gd_attention_new(gd_ctx *ctx, int64_t size, int64_t heads, const gd_attention_options *options)
{
    gd_attention_options o = options ? *options : gd_attention_defaults();
    if (gd__layer_size(ctx, "attention", "size", size) || gd__layer_size(ctx, "attention", "heads", heads))
        return NULL;
    if (size % heads || size > INT64_MAX / 3)
        return gd__refuse(ctx, GD_VALUE, "attention: %lld heads do not divide the size %lld",
                          (long long)heads, (long long)size);
    gd_module *m = gd_module_new(gd_class_attention(ctx));
    return m && fill(m, size, heads, &o) ? gd__give_up(m) : m;
}
