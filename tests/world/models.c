#include "models.h"

/* The mean over some rows of data. */
static gd_tensor *rows_of(gd_tensor *t, int64_t first, int64_t count)
{
    return gd_slice(t, "0", first, first + count, 1);
}

static gd_tensor *call(const model *m, const char *layer, gd_tensor *x)
{
    return gd_module_call(gd_module_get_module(m->net, layer), x);
}

static void add_layer(model *m, gd_module *layer)
{
    if (!m->net) m->net = gd_sequential_new(m->ctx, NULL, 0);
    gd_status status = gd_sequential_add(m->net, layer); /* what fails sticks in the context */
    (void)status;
}

/* Classes 0, 1, 2, 0, ... */
static gd_tensor *classes(gd_ctx *ctx, int64_t count)
{
    int64_t y[MODEL_ROWS * 8];
    for (int64_t i = 0; i < count; i++) y[i] = i % 3;
    return gd_from_data(ctx, GD_I64, 1, &count, y);
}

/* ---- a perceptron with dropout, of which several ranks own a part of the first matrix ---- */

static gd_tensor *mlp_loss(void *user, int64_t first, int64_t count)
{
    const model *m = user;
    gd_tensor *h = gd_tanh(call(m, "0", rows_of(m->x, first, count)));
    return gd_cross_entropy(call(m, "1", gd_dropout(h, 0.2)), rows_of(m->y, first, count));
}

static void open_mlp(model *m)
{
    add_layer(m, gd_linear_new(m->ctx, 90, 200, NULL));
    add_layer(m, gd_linear_new(m->ctx, 200, 3, NULL));
    m->x = gd_randn(m->ctx, GD_F32, 2, (int64_t[]){MODEL_ROWS, 90});
    m->y = classes(m->ctx, MODEL_ROWS);
    m->loss = mlp_loss;
}

/* ---- images ---- */

static gd_tensor *conv_loss(void *user, int64_t first, int64_t count)
{
    const model *m = user;
    gd_tensor *h = gd_max_pool2d(gd_relu(call(m, "0", rows_of(m->x, first, count))), 2, 2, 0);
    h = gd_reshape(h, 2, (int64_t[]){count, 4 * 2 * 2});
    return gd_cross_entropy(call(m, "1", h), rows_of(m->y, first, count));
}

static void open_conv(model *m)
{
    add_layer(m, gd_conv2d_new(m->ctx, 1, 4, 3, NULL));
    add_layer(m, gd_linear_new(m->ctx, 4 * 2 * 2, 3, NULL));
    m->x = gd_rand(m->ctx, GD_F32, 4, (int64_t[]){MODEL_ROWS, 1, 6, 6});
    m->y = classes(m->ctx, MODEL_ROWS);
    m->loss = conv_loss;
}

/* ---- a block of a transformer: examples/chars.c in small, with dropout ---- */

enum { SYMBOLS = 7, PLACES = 6, WIDTH = 8 };

static gd_tensor *transformer_loss(void *user, int64_t first, int64_t count)
{
    const model *m = user;
    gd_tensor *places = gd_to_device(gd_arange(m->ctx, GD_I64, 0, PLACES, 1), gd_tensor_device(m->x));
    gd_tensor *x = gd_add(call(m, "0", rows_of(m->x, first, count)), call(m, "1", places));
    x = gd_add(x, gd_dropout(call(m, "3", call(m, "2", x)), 0.1));
    x = gd_add(x, call(m, "5", call(m, "4", x)));
    gd_tensor *scores = gd_reshape(call(m, "6", x), 2, (int64_t[]){count * PLACES, SYMBOLS});
    gd_tensor *next = gd_reshape(rows_of(m->y, first, count), 1, (int64_t[]){count * PLACES});
    return gd_cross_entropy(scores, next);
}

static void open_transformer(model *m)
{
    gd_attention_options attention = gd_attention_defaults();
    attention.causal = true;
    gd_mlp_options mlp = gd_mlp_defaults();
    mlp.activation = "gelu";
    int64_t in[MODEL_ROWS * PLACES], next[MODEL_ROWS * PLACES];
    for (int64_t i = 0; i < MODEL_ROWS * PLACES; i++) {
        in[i] = i * i % SYMBOLS;
        next[i] = (i + 1) * (i + 1) % SYMBOLS;
    }
    add_layer(m, gd_embedding_new(m->ctx, SYMBOLS, WIDTH, NULL));
    add_layer(m, gd_embedding_new(m->ctx, PLACES, WIDTH, NULL));
    add_layer(m, gd_layer_norm_new(m->ctx, WIDTH, NULL));
    add_layer(m, gd_attention_new(m->ctx, WIDTH, 2, &attention));
    add_layer(m, gd_layer_norm_new(m->ctx, WIDTH, NULL));
    add_layer(m, gd_mlp_new(m->ctx, (int64_t[]){WIDTH, 4 * WIDTH, WIDTH}, 3, &mlp));
    add_layer(m, gd_linear_new(m->ctx, WIDTH, SYMBOLS, NULL));
    m->x = gd_from_data(m->ctx, GD_I64, 2, (int64_t[]){MODEL_ROWS, PLACES}, in);
    m->y = gd_from_data(m->ctx, GD_I64, 2, (int64_t[]){MODEL_ROWS, PLACES}, next);
    m->loss = transformer_loss;
}

const model_class model_classes[] = {
    {"mlp", open_mlp}, {"conv", open_conv}, {"transformer", open_transformer}};
const int model_count = (int)(sizeof model_classes / sizeof *model_classes);

/* ---- tensors alone ---- */

/* Not a square: curvature differs from place to place, and from microbatch to microbatch. */
static gd_tensor *tensors_loss(void *user, int64_t first, int64_t count)
{
    const model *m = user;
    gd_tensor *centre = gd_mean(rows_of(m->x, first, count), NULL, false), *sum = NULL;
    for (int i = 0; i < m->count; i++) {
        gd_tensor *square = gd_square(gd_sub(m->p[i], gd_mul_scalar(centre, 0.3 * (i + 1))));
        gd_tensor *part = gd_sum(gd_add(square, gd_mul_scalar(gd_square(square), 0.1)), NULL, false);
        sum = sum ? gd_add(sum, part) : part;
    }
    return sum;
}

void open_tensors(model *m, bool large)
{
    static const int64_t shape[MODEL_TENSORS][2] = {{2, 3}, {3, 1}, {170, 100}};
    m->count = large ? MODEL_TENSORS : MODEL_TENSORS - 1;
    m->loss = tensors_loss;
    m->x = gd_cos(gd_arange(m->ctx, GD_F32, 0, MODEL_ROWS, 1));
    for (int i = 0; i < m->count; i++) {
        double numel = (double)(shape[i][0] * shape[i][1]);
        gd_tensor *first = gd_sin(gd_mul_scalar(gd_arange(m->ctx, GD_F64, 0, numel, 1), 0.7));
        first = gd_reshape(gd_cast(first, GD_F32), 2, shape[i]);
        m->p[i] = gd_require_grad(gd_detach(gd_copy(first)));
    }
}

gd_status place_model(model *m, gd_device *device)
{
    gd_status status = m->net ? gd_module_to_device(m->net, device) : GD_OK;
    m->x = gd_to_device(m->x, device);
    if (m->y) m->y = gd_to_device(m->y, device);
    for (int i = 0; i < m->count; i++) m->p[i] = gd_require_grad(gd_detach(gd_to_device(m->p[i], device)));
    return status ? status : gd_error(m->ctx);
}

gd_status add_model(gd_optimizer *o, const model *m)
{
    static const char *const names[MODEL_TENSORS] = {"a", "b", "c"};
    gd_status status = m->net ? gd_optimizer_add_module(o, m->net, NULL, NULL) : GD_OK;
    for (int i = 0; i < m->count && !status; i++) status = gd_optimizer_add(o, names[i], m->p[i]);
    return status;
}
