/* Analytic against central-difference gradients.
 *
 * The output is reduced to a number by a fixed random weighting w, so that one reverse pass gives all derivatives:
 * d(sum w f(x)) / dx_i against (sum w f(x + h e_i) - sum w f(x - h e_i)) / 2h. */
#include "gradus/autograd.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

#include <math.h>

gd_gradcheck_options gd_gradcheck_defaults(void)
{
    return (gd_gradcheck_options){.eps = 1e-6, .atol = 1e-5, .rtol = 1e-3, .order = 1};
}

typedef struct check {
    gd_function fn;
    void *user;
    gd_ctx *ctx;
    int count;
} check;

/* A weight for element k: fixed, different for each, neither tiny nor huge. */
static double weight_of(int64_t k)
{
    uint32_t w[4];
    gd__philox(0x6772616463686b, (uint64_t)k, w);
    return 0.5 + gd__unit_f64(w[0], w[1]);
}

/* sum of weight * f(inputs) as a tensor, with history if gradients are on. */
static gd_tensor *weighted(const check *c, gd_tensor *const *inputs)
{
    gd_tensor *out = c->fn(c->user, inputs, c->count);
    if (!out) return gd__refuse(c->ctx, GD_CALLBACK, "gradcheck: the function returned NULL");
    gd_tensor *weights = gd_empty(c->ctx, GD_F64, 1, &out->numel);
    if (!weights) return NULL;
    for (int64_t k = 0; k < out->numel; k++) ((double *)(void *)weights->data)[k] = weight_of(k);
    return gd_sum(gd_mul(gd__reshape(out, 1, &out->numel), weights), NULL, false);
}

static double value_at(const check *c, gd_tensor *const *inputs)
{
    gd_scope_begin(c->ctx);
    double value = gd_item(weighted(c, inputs));
    gd_scope_end(c->ctx);
    return value;
}

static gd_status compare(const check *c, const gd_gradcheck_options *o, int input, int64_t k, double analytic,
                         double numeric)
{
    if (fabs(analytic - numeric) <= o->atol + o->rtol * fabs(numeric)) return GD_OK;
    return gd_fail(c->ctx, GD_MISMATCH, "gradcheck: input %d, element %lld: analytic %.10g, numeric %.10g",
                   input, (long long)k, analytic, numeric);
}

/* Moves one element of an f64 tensor and back. */
static gd_status check_element(const check *c, const gd_gradcheck_options *o, gd_tensor *const *inputs,
                               int input, int64_t k, double analytic)
{
    gd_tensor *x = inputs[input];
    int64_t offset = 0, rest = k;
    for (int i = x->ndim; i-- > 0;) {
        offset += rest % x->size[i] * x->stride[i];
        rest /= x->size[i];
    }
    double *at = (double *)(void *)x->data + offset, kept = *at;
    *at = kept + o->eps;
    double above = value_at(c, inputs);
    *at = kept - o->eps;
    double below = value_at(c, inputs);
    *at = kept;
    if (gd_error(c->ctx)) return gd_error(c->ctx);
    return compare(c, o, input, k, analytic, (above - below) / (2 * o->eps));
}

static gd_status check_inputs(gd_ctx *ctx, gd_tensor *const *inputs, int count)
{
    for (int i = 0; i < count; i++) {
        if (inputs[i]->dtype != GD_F64)
            return gd_fail(ctx, GD_DTYPE, "gradcheck: input %d is %s, not f64", i,
                           gd_dtype_name(inputs[i]->dtype));
        for (int d = 0; d < inputs[i]->ndim; d++)
            if (inputs[i]->stride[d] == 0 && inputs[i]->size[d] > 1)
                return gd_fail(ctx, GD_SHAPE,
                               "gradcheck: input %d is an expanded view: its elements share memory", i);
    }
    return GD_OK;
}

/* Copies of the inputs would not have the same strides; so the inputs themselves are changed and restored. */
static gd_status first_order(const check *c, const gd_gradcheck_options *o, gd_tensor *const *inputs)
{
    gd_ctx *ctx = c->ctx;
    size_t bytes = (size_t)c->count * sizeof(gd_tensor *);
    gd_tensor **leaf = gd__calloc(ctx, bytes), **grad = gd__calloc(ctx, bytes);
    gd_status status = leaf && grad ? GD_OK : GD_NOMEM;
    gd_scope_begin(ctx);
    for (int i = 0; i < c->count && !status; i++)
        if (!(leaf[i] = gd_require_grad(gd__alias(inputs[i])))) status = GD_NOMEM;
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *loss = status ? NULL : weighted(c, leaf);
    if (!status && !loss) status = gd_error(ctx);
    if (!status) status = gd_grad(loss, NULL, leaf, c->count, 0, grad);
    gd_enable_grad_end(ctx, previous);
    gd_no_grad_begin(ctx);
    for (int i = 0; i < c->count && !status; i++) {
        gd_tensor *g = gd_contiguous(grad[i]);
        if (!g) status = GD_NOMEM;
        for (int64_t k = 0; k < inputs[i]->numel && !status; k++)
            status = check_element(c, o, inputs, i, k, ((double *)(void *)g->data)[k]);
    }
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    gd__free(ctx, leaf, bytes);
    gd__free(ctx, grad, bytes);
    return status;
}

/* The weighted gradient as a function of its own: checking it to first order checks fn to second. */
static gd_tensor *gradient_function(void *user, gd_tensor *const *inputs, int count)
{
    const check *c = user;
    gd_ctx *ctx = c->ctx;
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **leaf = gd__calloc(ctx, bytes), **grad = gd__calloc(ctx, bytes), *all = NULL;
    gd_status status = leaf && grad ? GD_OK : GD_NOMEM;
    int previous = gd_enable_grad_begin(ctx);
    for (int i = 0; i < count && !status; i++) {
        leaf[i] = gd__wants_grad(inputs[i]) ? inputs[i] : gd_require_grad(gd__alias(inputs[i]));
        if (!leaf[i]) status = GD_NOMEM;
    }
    gd_tensor *loss = status ? NULL : weighted(c, leaf);
    if (loss && gd_grad(loss, NULL, leaf, count, GD_CREATE_GRAPH, grad) == GD_OK) {
        int made = 0;
        while (made < count && (grad[made] = gd__reshape(grad[made], 1, &inputs[made]->numel))) made++;
        if (made == count) all = gd_cat(grad, count, "0");
    }
    gd_enable_grad_end(ctx, previous);
    gd__free(ctx, leaf, bytes);
    gd__free(ctx, grad, bytes);
    return all;
}

gd_status gd_gradcheck(gd_function fn, void *user, gd_tensor *const *inputs, int count,
                       const gd_gradcheck_options *options)
{
    if (count <= 0 || !gd__given("gradcheck", inputs, count)) return GD_ARGUMENT;
    if (!fn) return gd__null(inputs[0]->head.ctx, "gradcheck: the function is NULL");
    gd_gradcheck_options o = options ? *options : gd_gradcheck_defaults();
    check c = {.fn = fn, .user = user, .ctx = inputs[0]->head.ctx, .count = count};
    gd_status status = check_inputs(c.ctx, inputs, count);
    if (!status) status = first_order(&c, &o, inputs);
    if (status || o.order < 2) return status;
    check second = {.fn = gradient_function, .user = &c, .ctx = c.ctx, .count = count};
    return first_order(&second, &o, inputs);
}
