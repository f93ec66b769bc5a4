/* Sums of products of a window with a weight: Conv2d over images [batch, channel, height, width], Conv1d over signals
 * [batch, channel, length], which are images of one row.
 * Initial values: weight and bias uniform in [-b, b), b = 1/sqrt(numbers that an output sees), as linear with its fan-in. */
#include "module/layers/layer.h"

#include <limits.h>
#include <math.h>

gd_conv2d_options gd_conv2d_defaults(void)
{
    return (gd_conv2d_options){
        .stride = 1, .dilation = 1, .groups = 1, .bias = true, .dtype = GD_F32, .padding_across = -1};
}
gd_conv1d_options gd_conv1d_defaults(void)
{
    return (gd_conv1d_options){.stride = 1, .dilation = 1, .groups = 1, .bias = true, .dtype = GD_F32};
}

/* ---- settings: attributes of the module ---- */

enum { SETTINGS = 9 };

/* What each is called, of images and of signals, in the order of gd_conv_options; NULL: its default. */
static const char *const setting_name[2][SETTINGS] = {
    {NULL, "stride", NULL, "dilation", NULL, NULL, "padding", "padding_right", "groups"},
    {"stride", "stride_across", "dilation", "dilation_across", "padding", "padding_below", "padding_left",
     "padding_right", "groups"}};

static int *setting(gd_conv_options *o, int i)
{
    int *const at[SETTINGS] = {&o->stride[0],   &o->stride[1],  &o->dilation[0],
                               &o->dilation[1], &o->padding[0], &o->padding[1],
                               &o->padding[2],  &o->padding[3], &o->groups};
    return at[i];
}

static gd_status write_settings(gd_module *m, bool images, gd_conv_options *o)
{
    gd_status status = GD_OK;
    for (int i = 0; i < SETTINGS && !status; i++)
        if (setting_name[images][i]) status = gd_module_set_int(m, setting_name[images][i], *setting(o, i));
    return status;
}

static gd_status read_settings(gd_module *m, bool images, const gd_kwargs *kwargs, gd_conv_options *o)
{
    *o = gd_conv_defaults();
    gd_status status = gd_kwargs_only(m->head.ctx, kwargs, NULL);
    for (int i = 0; i < SETTINGS && !status; i++) {
        int64_t value = 0;
        if (!setting_name[images][i]) continue;
        status = gd_module_get_int(m, setting_name[images][i], &value);
        *setting(o, i) = value > INT_MAX ? INT_MAX : value < INT_MIN ? INT_MIN : (int)value;
    }
    return status;
}

/* ---- forward ---- */

static gd_object *conv2d_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    gd_module *m = (gd_module *)self;
    gd_conv_options o;
    (void)user;
    if (read_settings(m, true, kwargs, &o)) return NULL;
    return gd_tensor_object(gd_conv2d_with((gd_tensor *)argument, gd_module_get_tensor(m, "weight"),
                                           gd__optional(m, "bias"), &o));
}

static gd_object *conv1d_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument;
    gd_conv_options o;
    (void)user;
    if (read_settings(m, false, kwargs, &o)) return NULL;
    if (x->ndim != 3)
        return gd__refuse(self->ctx, GD_SHAPE,
                          "conv1d: the input has %d axes, expected batch, channel, length", (int)x->ndim);
    o.stride[0] = o.stride[1]; /* of one row: any */
    gd_tensor *y = gd_conv2d_with(gd_unsqueeze(x->axes ? gd_drop_names(x) : x, 2, NULL),
                                  gd_unsqueeze(gd_module_get_tensor(m, "weight"), 2, NULL),
                                  gd__optional(m, "bias"), &o);
    return gd_tensor_object(gd_squeeze(y, "2"));
}

gd_class *gd_class_conv2d(gd_ctx *ctx) { return gd__layer_class(ctx, "Conv2d", conv2d_forward); }
gd_class *gd_class_conv1d(gd_ctx *ctx) { return gd__layer_class(ctx, "Conv1d", conv1d_forward); }

/* ---- making ---- */

typedef struct convolution {
    const char *layer;
    bool images;
    int64_t inputs, outputs, kernel[2];
    gd_conv_options settings;
    bool bias;
    gd_dtype dtype;
} convolution;

/* Zeros around the image that keep its size: the odd one is behind, as elsewhere. */
static void pad_the_same(convolution *c)
{
    for (int axis = 0; axis < 2; axis++) {
        int64_t all = (c->kernel[axis] - 1) * c->settings.dilation[axis], most = INT_MAX;
        c->settings.padding[2 * axis] = (int)(all / 2 > most ? most : all / 2);
        c->settings.padding[2 * axis + 1] = (int)(all - all / 2 > most ? most : all - all / 2);
    }
}

/* The message names what `layer` calls it. */
static gd_status check_settings(gd_ctx *ctx, const convolution *c, bool same)
{
    const gd_conv_options *s = &c->settings;
    const struct {
        const char *what;
        int64_t size;
    } sizes[] = {{"inputs", c->inputs},        {"outputs", c->outputs},      {"kernel", c->kernel[1]},
                 {"kernel", c->kernel[0]},     {"stride", s->stride[1]},     {"stride", s->stride[0]},
                 {"dilation", s->dilation[0]}, {"dilation", s->dilation[1]}, {"groups", s->groups}};
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !status; i++)
        status = gd__layer_size(ctx, c->layer, sizes[i].what, sizes[i].size);
    for (int i = 0; i < 4 && !status; i++)
        if (s->padding[i] < 0)
            status = gd_fail(ctx, GD_VALUE, "%s: padding is %d, must be at least 0", c->layer, s->padding[i]);
    if (!status && (c->inputs % s->groups || c->outputs % s->groups))
        status = gd_fail(ctx, GD_VALUE, "%s: %d groups do not divide %lld inputs and %lld outputs", c->layer,
                         s->groups, (long long)c->inputs, (long long)c->outputs);
    if (!status && same && (s->stride[0] > 1 || s->stride[1] > 1 || s->padding[0] || s->padding[2]))
        status = gd_fail(ctx, GD_VALUE, "%s: same keeps the size, so stride is 1 and padding is not given",
                         c->layer);
    return status;
}

/* weight [outputs, inputs of a group, kernel...] */
static gd_status fill(gd_module *m, convolution *c)
{
    int64_t seen = c->inputs / c->settings.groups, size[4] = {c->outputs, seen, c->kernel[0], c->kernel[1]};
    double bound = 1 / sqrt((double)seen * (double)c->kernel[0] * (double)c->kernel[1]);
    if (!c->images) size[2] = c->kernel[1];
    gd_status status = write_settings(m, c->images, &c->settings);
    if (!status) status = gd__init_uniform(m, "weight", c->dtype, c->images ? 4 : 3, size, bound, NULL);
    if (!status && c->bias) status = gd__init_uniform(m, "bias", c->dtype, 1, size, bound, NULL);
    return status;
}

static gd_module *convolution_module(gd_ctx *ctx, gd_class *(*cls)(gd_ctx *), convolution *c, bool same)
{
    if (check_settings(ctx, c, same)) return NULL;
    if (same) pad_the_same(c);
    gd_module *m = gd_module_new(cls(ctx));
    return m && fill(m, c) ? gd__give_up(m) : m;
}

gd_module *gd_conv2d_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, int64_t kernel,
                         const gd_conv2d_options *options)
{
    gd_conv2d_options o = options ? *options : gd_conv2d_defaults();
    int across = o.padding_across == -1 ? o.padding : o.padding_across;
    convolution c = {
        .layer = "conv2d",
        .images = true,
        .inputs = inputs,
        .outputs = outputs,
        .kernel = {kernel, o.kernel_across ? o.kernel_across : kernel},
        .settings = {.stride = {o.stride, o.stride_across ? o.stride_across : o.stride},
                     .dilation = {o.dilation, o.dilation_across ? o.dilation_across : o.dilation},
                     .padding = {o.padding, o.padding, across, across},
                     .groups = o.groups},
        .bias = o.bias,
        .dtype = o.dtype};
    return convolution_module(ctx, gd_class_conv2d, &c, o.same);
}

gd_module *gd_conv1d_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, int64_t kernel,
                         const gd_conv1d_options *options)
{
    gd_conv1d_options o = options ? *options : gd_conv1d_defaults();
    convolution c = {.layer = "conv1d",
                     .inputs = inputs,
                     .outputs = outputs,
                     .kernel = {1, kernel},
                     .settings = {.stride = {1, o.stride},
                                  .dilation = {1, o.dilation},
                                  .padding = {0, 0, o.padding, o.padding},
                                  .groups = o.groups},
                     .bias = o.bias,
                     .dtype = o.dtype};
    return convolution_module(ctx, gd_class_conv1d, &c, o.same);
}
