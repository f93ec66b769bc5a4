/* Normalisation by other sums than those of layer_norm.
 *
 *   rms_norm    x / sqrt(mean x^2 + eps) over the last axis (Zhang & Sennrich 2019)
 *   group_norm  over groups of channels and all places (Wu & He 2018)
 *   batch_norm  over batch and places of each channel (Ioffe & Szegedy 2015); in evaluation mode, by running averages
 *
 * Initial values: weight one, bias zero, running_mean zero, running_var one. */
#include "module/layers/layer.h"

gd_rms_norm_options gd_rms_norm_defaults(void)
{
    return (gd_rms_norm_options){.eps = 1e-6, .affine = true, .dtype = GD_F32};
}
gd_group_norm_options gd_group_norm_defaults(void)
{
    return (gd_group_norm_options){.eps = 1e-5, .affine = true, .dtype = GD_F32};
}
gd_batch_norm_options gd_batch_norm_defaults(void)
{
    return (gd_batch_norm_options){.eps = 1e-5, .momentum = 0.1, .affine = true, .dtype = GD_F32};
}

/* ---- over the last axis ---- */

static gd_object *rms_norm_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument, *weight = gd__optional(m, "weight");
    double eps;
    gd_tensor *bare = gd__norm_input(self, x, kwargs, "rms_norm", &eps);
    (void)user;
    if (!bare) return NULL;
    gd_tensor *y = gd_mul(bare, gd_rsqrt(gd_add_scalar(gd_mean(gd_square(bare), "-1", true), eps)));
    return gd_tensor_object(gd__relabel_like(weight ? gd_mul(y, weight) : y, x));
}

gd_class *gd_class_rms_norm(gd_ctx *ctx) { return gd__layer_class(ctx, "RMSNorm", rms_norm_forward); }

gd_module *gd_rms_norm_new(gd_ctx *ctx, int64_t size, const gd_rms_norm_options *options)
{
    gd_rms_norm_options o = options ? *options : gd_rms_norm_defaults();
    return gd__norm_module(ctx, gd_class_rms_norm, "rms_norm", size, o.eps, o.affine, o.dtype);
}

/* ---- by channels, the second axis ---- */

static gd_status check_channels(gd_module *m, const char *layer, const gd_tensor *x, int64_t channels)
{
    if (x->ndim >= 2 && x->size[1] == channels) return GD_OK;
    return gd_fail(m->head.ctx, GD_SHAPE, "%s: the second axis has %lld channels, expected %lld", layer,
                   x->ndim >= 2 ? (long long)x->size[1] : 0LL, (long long)channels);
}

/* [channels] as [1, channels, 1, ...], to meet a tensor like x. */
static gd_tensor *by_channel(gd_tensor *t, const gd_tensor *x)
{
    int64_t size[GD_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) size[i] = 1;
    size[1] = x->size[1];
    return gd_reshape(t, x->ndim, size);
}

/* y weight + bias, if there are such, with the axes of x. */
static gd_tensor *with_weight_and_bias(gd_module *m, gd_tensor *y, gd_tensor *x)
{
    gd_tensor *weight = gd__optional(m, "weight"), *bias = gd__optional(m, "bias");
    if (weight) y = gd_mul(y, by_channel(weight, x));
    if (bias) y = gd_add(y, by_channel(bias, x));
    return gd__relabel_like(y, x);
}

static gd_object *group_norm_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs,
                                     void *user)
{
    (void)user;
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument;
    int64_t groups, channels;
    double eps;
    if (gd_kwargs_only(self->ctx, kwargs, NULL) || gd_module_get_int(m, "groups", &groups) ||
        gd_module_get_int(m, "channels", &channels) || gd_module_get_real(m, "eps", &eps) ||
        check_channels(m, "group_norm", x, channels))
        return NULL;
    gd_tensor *flat = gd_reshape(x, 3, (int64_t[]){x->size[0], groups, x->numel / (x->size[0] * groups)});
    gd_tensor *y = gd_layer_norm(flat, "-1", NULL, NULL, eps);
    return gd_tensor_object(with_weight_and_bias(m, gd_reshape(y, x->ndim, x->size), x));
}

gd_class *gd_class_group_norm(gd_ctx *ctx) { return gd__layer_class(ctx, "GroupNorm", group_norm_forward); }

gd_module *gd_group_norm_new(gd_ctx *ctx, int64_t groups, int64_t channels,
                             const gd_group_norm_options *options)
{
    gd_group_norm_options o = options ? *options : gd_group_norm_defaults();
    if (gd__layer_size(ctx, "group_norm", "groups", groups) ||
        gd__layer_size(ctx, "group_norm", "channels", channels))
        return NULL;
    if (channels % groups)
        return gd__refuse(ctx, GD_VALUE, "group_norm: %lld groups do not divide %lld channels",
                          (long long)groups, (long long)channels);
    gd_module *m = gd_module_new(gd_class_group_norm(ctx));
    if (!m) return NULL;
    gd_status status = gd_module_set_int(m, "groups", groups);
    if (!status) status = gd_module_set_int(m, "channels", channels);
    if (!status) status = gd_module_set_real(m, "eps", o.eps);
    if (!status && o.affine) status = gd__init_constant(m, "weight", o.dtype, channels, 1);
    if (!status && o.affine) status = gd__init_constant(m, "bias", o.dtype, channels, 0);
    return status ? gd__give_up(m) : m;
}

/* ---- by running averages per channel ---- */

static const char *const other_axes[] = {"0", "0", "0", "0, 2", "0, 2, 3"}; /* by the number of axes */

/* average += momentum (seen - average) */
static gd_status follow(gd_module *m, const char *name, gd_tensor *seen, double momentum)
{
    gd_tensor *average = gd_module_get_tensor(m, name);
    gd_tensor *flat = average ? gd_reshape(gd_detach(seen), 1, average->size) : NULL;
    gd_tensor *moved = gd_add(gd_mul_scalar(average, 1 - momentum), gd_mul_scalar(flat, momentum));
    return moved ? gd_assign(average, moved) : gd__failure(m, GD_NOMEM);
}

static gd_tensor *by_batch(gd_module *m, gd_tensor *x, double eps, double momentum)
{
    const char *axes = other_axes[x->ndim];
    int64_t count = x->numel / x->size[1];
    if (count < 2)
        return gd__refuse(m->head.ctx, GD_VALUE, "batch_norm: one value for each channel has no variance");
    gd_tensor *mean = gd_mean(x, axes, true), *off = gd_sub(x, mean);
    gd_tensor *variance = gd_mean(gd_square(off), axes, true);
    if (!variance) return NULL;
    gd_no_grad_begin(m->head.ctx);
    double unbiased = (double)count / (double)(count - 1);
    gd_status status = follow(m, "running_mean", mean, momentum);
    if (!status) status = follow(m, "running_var", gd_mul_scalar(variance, unbiased), momentum);
    gd_no_grad_end(m->head.ctx);
    return status ? NULL : gd_mul(off, gd_rsqrt(gd_add_scalar(variance, eps)));
}

static gd_object *batch_norm(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, int low, int high)
{
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument;
    int64_t channels;
    double eps, momentum;
    if (gd_kwargs_only(self->ctx, kwargs, NULL) || gd_module_get_int(m, "channels", &channels) ||
        gd_module_get_real(m, "eps", &eps) || gd_module_get_real(m, "momentum", &momentum) ||
        check_channels(m, "batch_norm", x, channels))
        return NULL;
    if (x->ndim < low || x->ndim > high)
        return gd__refuse(self->ctx, GD_SHAPE, "batch_norm: the input has %d axes, expected %d to %d",
                          (int)x->ndim, low, high);
    gd_tensor *bare = x->axes ? gd_drop_names(x) : x, *y;
    if (gd_module_is_training(m))
        y = by_batch(m, bare, eps, momentum);
    else {
        gd_tensor *mean = by_channel(gd_module_get_tensor(m, "running_mean"), bare);
        gd_tensor *variance = by_channel(gd_module_get_tensor(m, "running_var"), bare);
        y = gd_mul(gd_sub(bare, mean), gd_rsqrt(gd_add_scalar(variance, eps)));
    }
    return y ? gd_tensor_object(with_weight_and_bias(m, y, x)) : NULL;
}

static gd_object *batch_norm1d_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs,
                                       void *user)
{
    (void)user;
    return batch_norm(self, argument, kwargs, 2, 3);
}
static gd_object *batch_norm2d_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs,
                                       void *user)
{
    (void)user;
    return batch_norm(self, argument, kwargs, 4, 4);
}

gd_class *gd_class_batch_norm1d(gd_ctx *ctx)
{
    return gd__layer_class(ctx, "BatchNorm1d", batch_norm1d_forward);
}
gd_class *gd_class_batch_norm2d(gd_ctx *ctx)
{
    return gd__layer_class(ctx, "BatchNorm2d", batch_norm2d_forward);
}

static gd_status set_running(gd_module *m, const char *name, gd_dtype dtype, int64_t channels, double value)
{
    if (!gd__local_begin(m->head.ctx)) return GD_NOMEM;
    gd_tensor *t = gd_full(m->head.ctx, dtype, 1, &channels, value);
    gd_status status = t ? gd_module_set_buffer(m, name, t) : gd__failure(m, GD_NOMEM);
    gd_scope_end(m->head.ctx);
    return status;
}

static gd_module *batch_norm_new(gd_ctx *ctx, gd_class *cls, int64_t channels,
                                 const gd_batch_norm_options *options)
{
    gd_batch_norm_options o = options ? *options : gd_batch_norm_defaults();
    if (gd__layer_size(ctx, "batch_norm", "channels", channels)) return NULL;
    if (!(o.momentum >= 0 && o.momentum <= 1))
        return gd__refuse(ctx, GD_VALUE, "batch_norm: momentum is %g, must be 0 to 1", o.momentum);
    gd_module *m = gd_module_new(cls);
    if (!m) return NULL;
    gd_status status = gd_module_set_int(m, "channels", channels);
    if (!status) status = gd_module_set_real(m, "eps", o.eps);
    if (!status) status = gd_module_set_real(m, "momentum", o.momentum);
    if (!status && o.affine) status = gd__init_constant(m, "weight", o.dtype, channels, 1);
    if (!status && o.affine) status = gd__init_constant(m, "bias", o.dtype, channels, 0);
    if (!status) status = set_running(m, "running_mean", o.dtype, channels, 0);
    if (!status) status = set_running(m, "running_var", o.dtype, channels, 1);
    return status ? gd__give_up(m) : m;
}

gd_module *gd_batch_norm1d_new(gd_ctx *ctx, int64_t channels, const gd_batch_norm_options *options)
{
    return batch_norm_new(ctx, gd_class_batch_norm1d(ctx), channels, options);
}
gd_module *gd_batch_norm2d_new(gd_ctx *ctx, int64_t channels, const gd_batch_norm_options *options)
{
    return batch_norm_new(ctx, gd_class_batch_norm2d(ctx), channels, options);
}
