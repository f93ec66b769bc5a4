/* gradus/layers.h: layers of networks.
 *
 *     gd_module *net = gd_sequential_new(ctx, NULL, 0);
 *     gd_status status = gd_sequential_add(net, gd_linear_new(ctx, 4, 16, NULL));
 *     if (!status) status = gd_sequential_add(net, gd_activation_new(ctx, "relu"));
 *     if (!status) status = gd_sequential_add(net, gd_linear_new(ctx, 16, 3, NULL));
 *     gd_tensor *logits = gd_module_call(net, x);                    x is [batch, 4], logits [batch, 3]
 *
 * Every layer is a module of its own class below Module, called on a Tensor; its parameters are attributes.  A
 * constructor takes sizes and options (NULL: the defaults), draws initial values from the context's generator as
 * described, and returns a new module; NULL with VALUE recorded for sizes below 1, or NOMEM. */
#ifndef GRADUS_LAYERS_H
#define GRADUS_LAYERS_H

#include "gradus/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- linear: y = x W^T + b over the last axis, or over a named one ---- */

/* Start from gd_linear_defaults(). */
typedef struct gd_linear_options {
    bool bias;          /* default true */
    gd_dtype dtype;     /* default f32 */
    const char *input;  /* name of the contracted axis; NULL: the last axis, with any name */
    const char *output; /* axis name of the result's last axis; NULL: anonymous */
} gd_linear_options;

gd_linear_options gd_linear_defaults(void); /* as the comments above say */
/* weight [outputs, inputs] and bias [outputs] are uniform in [-1/sqrt(inputs), 1/sqrt(inputs)). */
gd_module *gd_linear_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, const gd_linear_options *options);
gd_class *gd_class_linear(gd_ctx *ctx);

/* ---- conv2d: images [batch, channel, height, width] ---- */

/* Start from gd_conv2d_defaults(). */
typedef struct gd_conv2d_options {
    int stride, padding;  /* default 1, 0 */
    int dilation, groups; /* of gd_conv_options; default 1 */
    bool bias;            /* default true */
    gd_dtype dtype;       /* default f32 */
    bool same;            /* default false; true: pads so that height and width stay, for stride 1 */
    /* Along the width, if different from those along the height; default 0, 0, -1, 0. */
    int kernel_across, stride_across, padding_across, dilation_across;
} gd_conv2d_options;

gd_conv2d_options gd_conv2d_defaults(void); /* as the comments above say */
/* weight [outputs, inputs / groups, kernel, kernel] and bias [outputs] are uniform in [-b, b), b = 1/sqrt(elements per output). */
gd_module *gd_conv2d_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, int64_t kernel,
                         const gd_conv2d_options *options);
gd_class *gd_class_conv2d(gd_ctx *ctx);

/* ---- layer_norm: (x - mean) / sqrt(var + eps) * weight + bias over the last axis ---- */

/* Start from gd_layer_norm_defaults(). */
typedef struct gd_layer_norm_options {
    double eps;     /* default 1e-5 */
    bool affine;    /* default true: has weight and bias */
    gd_dtype dtype; /* default f32 */
} gd_layer_norm_options;

gd_layer_norm_options gd_layer_norm_defaults(void); /* as the comments above say */
/* weight [size] is one, bias [size] zero. */
gd_module *gd_layer_norm_new(gd_ctx *ctx, int64_t size, const gd_layer_norm_options *options);
gd_class *gd_class_layer_norm(gd_ctx *ctx);

/* ---- rms_norm: x / sqrt(mean x^2 + eps) * weight over the last axis ---- */

/* Start from gd_rms_norm_defaults(). */
typedef struct gd_rms_norm_options {
    double eps;     /* default 1e-6 */
    bool affine;    /* default true: has a weight */
    gd_dtype dtype; /* default f32 */
} gd_rms_norm_options;

gd_rms_norm_options gd_rms_norm_defaults(void); /* as the comments above say */
/* weight [size] is one. */
gd_module *gd_rms_norm_new(gd_ctx *ctx, int64_t size, const gd_rms_norm_options *options);
gd_class *gd_class_rms_norm(gd_ctx *ctx);

/* ---- group_norm: layer_norm over groups of channels, of [batch, channel, ...] ---- */

/* Start from gd_group_norm_defaults(). */
typedef struct gd_group_norm_options {
    double eps;     /* default 1e-5 */
    bool affine;    /* default true: has weight and bias */
    gd_dtype dtype; /* default f32 */
} gd_group_norm_options;

gd_group_norm_options gd_group_norm_defaults(void); /* as the comments above say */
/* weight [channels] is one, bias [channels] zero.  VALUE when groups does not divide channels. */
gd_module *gd_group_norm_new(gd_ctx *ctx, int64_t groups, int64_t channels,
                             const gd_group_norm_options *options);
gd_class *gd_class_group_norm(gd_ctx *ctx);

/* ---- batch_norm: each channel of [batch, channel, ...] by its mean and variance over all else ---- */

/* Start from gd_batch_norm_defaults(). */
typedef struct gd_batch_norm_options {
    double eps;      /* default 1e-5 */
    double momentum; /* default 0.1: how far running averages move per call */
    bool affine;     /* default true: has weight and bias */
    gd_dtype dtype;  /* default f32 */
} gd_batch_norm_options;

gd_batch_norm_options gd_batch_norm_defaults(void); /* as the comments above say */
/* [batch, channel] or [batch, channel, length].  weight [channels] is one, bias zero; the buffers running_mean and running_var follow
 * the batches while the module trains (gd_module_train), and are used in place of theirs when it evaluates. */
gd_module *gd_batch_norm1d_new(gd_ctx *ctx, int64_t channels, const gd_batch_norm_options *options);
/* The same of images [batch, channel, height, width]. */
gd_module *gd_batch_norm2d_new(gd_ctx *ctx, int64_t channels, const gd_batch_norm_options *options);
gd_class *gd_class_batch_norm1d(gd_ctx *ctx);
gd_class *gd_class_batch_norm2d(gd_ctx *ctx);

/* ---- conv1d: signals [batch, channel, length] ---- */

/* Start from gd_conv1d_defaults(). */
typedef struct gd_conv1d_options {
    int stride, padding;  /* default 1, 0 */
    int dilation, groups; /* of gd_conv_options; default 1 */
    bool bias;            /* default true */
    gd_dtype dtype;       /* default f32 */
    bool same;            /* default false; true: pads so that the length stays, for stride 1 */
} gd_conv1d_options;

gd_conv1d_options gd_conv1d_defaults(void); /* as the comments above say */
/* weight [outputs, inputs / groups, kernel] and bias [outputs] are uniform in [-b, b), b = 1/sqrt(elements per output). */
gd_module *gd_conv1d_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, int64_t kernel,
                         const gd_conv1d_options *options);
gd_class *gd_class_conv1d(gd_ctx *ctx);

/* ---- pooling: the largest, or the mean, of each window of images [batch, channel, height, width] ---- */

/* Start from gd_max_pool2d_defaults(). */
typedef struct gd_max_pool2d_options {
    int stride, padding; /* default 0: the size of a window; 0 */
} gd_max_pool2d_options;

gd_max_pool2d_options gd_max_pool2d_defaults(void); /* as the comments above say */
/* The largest of windows of size x size. */
gd_module *gd_max_pool2d_new(gd_ctx *ctx, int64_t size, const gd_max_pool2d_options *options);
gd_class *gd_class_max_pool2d(gd_ctx *ctx);

/* Start from gd_avg_pool2d_defaults(). */
typedef struct gd_avg_pool2d_options {
    int stride, padding; /* default 0: the size of a window; 0 */
} gd_avg_pool2d_options;

gd_avg_pool2d_options gd_avg_pool2d_defaults(void); /* as the comments above say */
/* The mean of windows of size x size, padding counted as 0. */
gd_module *gd_avg_pool2d_new(gd_ctx *ctx, int64_t size, const gd_avg_pool2d_options *options);
gd_class *gd_class_avg_pool2d(gd_ctx *ctx);

/* ---- dropout and flatten ---- */

/* While it trains an element is 0 with chance p, else divided by 1 - p; when it evaluates nothing changes.  VALUE unless 0 <= p < 1. */
gd_module *gd_dropout_layer_new(gd_ctx *ctx, double p);
gd_class *gd_class_dropout(gd_ctx *ctx);

/* [batch, ...] as [batch, all else]. */
gd_module *gd_flatten_new(gd_ctx *ctx);
gd_class *gd_class_flatten(gd_ctx *ctx);

/* ---- embedding: integer index [...] to table rows [..., size] ---- */

/* Start from gd_embedding_defaults(). */
typedef struct gd_embedding_options {
    double std;     /* default 1 */
    gd_dtype dtype; /* default f32 */
} gd_embedding_options;

gd_embedding_options gd_embedding_defaults(void); /* as the comments above say */
/* weight [count, size] is normal with mean 0 and standard deviation std. */
gd_module *gd_embedding_new(gd_ctx *ctx, int64_t count, int64_t size, const gd_embedding_options *options);
gd_class *gd_class_embedding(gd_ctx *ctx);

/* ---- attention: multi-head self attention over [..., time, size] ---- */

/* Start from gd_attention_defaults(). */
typedef struct gd_attention_options {
    bool
        causal; /* default false: a position sees only itself and earlier ones; also a keyword (int) of the call */
    bool bias;      /* default true */
    gd_dtype dtype; /* default f32 */
} gd_attention_options;

gd_attention_options gd_attention_defaults(void); /* as the comments above say */
/* Two linear children: "qkv" [3 * size, size] (queries, keys, values, each split into heads) and "out" [size, size],
 * both with linear's initial values.  VALUE if heads does not divide size. */
gd_module *gd_attention_new(gd_ctx *ctx, int64_t size, int64_t heads, const gd_attention_options *options);
gd_class *gd_class_attention(gd_ctx *ctx);

/* ---- activation: an element-wise function without parameters ---- */

/* "relu", "gelu", "tanh", "sigmoid", "softplus" or "identity"; VALUE for any other name. */
gd_module *gd_activation_new(gd_ctx *ctx, const char *function);
gd_class *gd_class_activation(gd_ctx *ctx);

/* ---- mlp: linear layers with an activation between them ---- */

/* Start from gd_mlp_defaults(). */
typedef struct gd_mlp_options {
    const char *activation; /* default "relu" */
    bool bias;              /* default true */
    gd_dtype dtype;         /* default f32 */
} gd_mlp_options;

gd_mlp_options gd_mlp_defaults(void); /* as the comments above say */
/* sizes[0] inputs, sizes[count - 1] outputs; children "0", "1", ... are linear with linear's initial values. */
gd_module *gd_mlp_new(gd_ctx *ctx, const int64_t *sizes, int count, const gd_mlp_options *options);
gd_class *gd_class_mlp(gd_ctx *ctx);

/* ---- sequential: children "0", "1", ... one after the other ---- */

/* The modules are consumed, on failure too: pass the results of constructors directly, or gd_module_retain a module to share
 * it.  A NULL module fails with the error that its constructor recorded. */
gd_module *gd_sequential_new(gd_ctx *ctx, gd_module *const *modules, int count);
/* Appends one module, which is consumed in the same way.  TYPE for a module that is not a sequential. */
GD_NODISCARD gd_status gd_sequential_add(gd_module *sequential, gd_module *module);
gd_class *gd_class_sequential(gd_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
