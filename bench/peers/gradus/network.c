/* Forward and backward of a small network and of a convolutional one, and a training step of a transformer, f32. */
#include "work.h"

#include <stdlib.h>

enum { BATCH = 128, CLASSES = 10 };

typedef struct network {
    gd_ctx *ctx;
    gd_module *model, *second; /* the layers; of the transformer: embeddings of places */
    gd_module *first;          /* embeddings of symbols */
    gd_optimizer *optimizer;
    gd_tensor *x, *labels, *places;
} network;

static network *open_network(void)
{
    network *n = gradus_memory(sizeof *n);
    n->ctx = gradus_context();
    gd_seed(n->ctx, 1);
    return n;
}

static gd_tensor *numbers(gd_ctx *ctx, int64_t count, int64_t below)
{
    int64_t *list = gradus_memory((size_t)count * sizeof *list);
    for (int64_t i = 0; i < count; i++) list[i] = below == count ? i : (i * 7919 + 13) % below;
    gd_tensor *made = gd_from_data(ctx, GD_I64, 1, &count, list);
    free(list);
    return made;
}

static void add(gd_module *layers, gd_module *layer)
{
    if (gd_sequential_add(layers, layer)) gradus_check(gd_module_ctx(layers));
}

static void backward(void *job)
{
    network *n = job;
    gd_scope_begin(n->ctx);
    gd_optimizer_zero_grad(n->optimizer);
    gd_tensor *loss = gd_cross_entropy(gd_module_call(n->model, n->x), n->labels);
    if (!loss || gd_backward(loss, NULL, 0)) gradus_check(n->ctx);
    gd_scope_end(n->ctx);
}

static void *ready(network *n)
{
    n->optimizer = gd_optimizer_new(n->ctx, gd_chain(n->ctx, "adam | weight_decay(0.01) | lr(1e-3)"));
    if (gd_optimizer_add_module(n->optimizer, n->model, NULL, NULL)) gradus_check(n->ctx);
    gradus_check(n->ctx);
    return n;
}

static void *open_mlp(void)
{
    network *n = open_network();
    n->model = gd_mlp_new(n->ctx, (int64_t[]){784, 256, CLASSES}, 3, NULL);
    n->x = gd_rand(n->ctx, GD_F32, 2, (int64_t[]){BATCH, 784});
    n->labels = numbers(n->ctx, BATCH, CLASSES);
    return ready(n);
}

/* ---- 28 x 28 pictures: two convolutions of 3 x 3, each with relu and the largest of 2 x 2 ---- */

static gd_object *pool_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)self, (void)kwargs, (void)user;
    return gd_tensor_object(gd_max_pool2d(gd_relu(gd_object_tensor(argument)), 2, 2, 0));
}

static gd_object *flat_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)self, (void)kwargs, (void)user;
    gd_tensor *x = gd_object_tensor(argument);
    return gd_tensor_object(gd_reshape(x, 2, (int64_t[]){gd_size(x, 0), gd_numel(x) / gd_size(x, 0)}));
}

static gd_class *layer_class(gd_ctx *ctx, const char *name, gd_handler forward)
{
    gd_class *base = gd_class_module(ctx), *made = gd_class_new(ctx, name, &base, 1);
    if (gd_register(made, gd_class_tensor(ctx), forward, NULL)) gradus_check(ctx);
    return made;
}

static void *open_conv(void)
{
    network *n = open_network();
    gd_ctx *ctx = n->ctx;
    gd_conv2d_options options = gd_conv2d_defaults();
    gd_class *pool = layer_class(ctx, "Pool", pool_forward), *flat = layer_class(ctx, "Flat", flat_forward);
    options.padding = 1;
    n->model = gd_sequential_new(ctx, NULL, 0);
    add(n->model, gd_conv2d_new(ctx, 1, 16, 3, &options));
    add(n->model, gd_module_new(pool));
    add(n->model, gd_conv2d_new(ctx, 16, 32, 3, &options));
    add(n->model, gd_module_new(pool));
    add(n->model, gd_module_new(flat));
    add(n->model, gd_linear_new(ctx, 32L * 7 * 7, CLASSES, NULL));
    n->x = gd_rand(ctx, GD_F32, 4, (int64_t[]){BATCH, 1, 28, 28});
    n->labels = numbers(ctx, BATCH, CLASSES);
    return ready(n);
}

static void close_network(void *job)
{
    network *n = job;
    gd_optimizer_free(n->optimizer);
    gradus_end(n->ctx);
    free(n);
}

const peer_kind gradus_mlp = {"mlp", open_mlp, backward, NULL, close_network};
const peer_kind gradus_conv = {"conv", open_conv, backward, NULL, close_network};

/* ---- a transformer of characters ---- */

enum { ROWS = 8, TIME = 64, SIZE = 128, HEADS = 4, BLOCKS = 2, SYMBOLS = 65 };

/* x + attention(norm(x)), then x + mlp(norm(x)). */
static gd_object *block_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)kwargs, (void)user;
    gd_module *m = gd_object_module(self);
    gd_tensor *x = gd_object_tensor(argument);
    gd_ctx *ctx = gd_object_ctx(self);
    gd_scope_begin(ctx);
    gd_tensor *seen = gd_module_call(gd_module_get_module(m, "norm1"), x);
    x = gd_add(x, gd_module_call(gd_module_get_module(m, "attention"), seen));
    gd_tensor *thought = gd_module_call(gd_module_get_module(m, "norm2"), x);
    x = gd_keep(gd_add(x, gd_module_call(gd_module_get_module(m, "mlp"), thought)));
    gd_scope_end(ctx);
    return gd_tensor_object(x);
}

static void set(gd_module *m, const char *name, gd_module *child)
{
    if (gd_module_set_module(m, name, child)) gradus_check(gd_module_ctx(m));
}

static gd_module *make_block(gd_ctx *ctx, gd_class *cls)
{
    gd_attention_options attention = gd_attention_defaults();
    attention.causal = true;
    gd_mlp_options mlp = gd_mlp_defaults();
    mlp.activation = "gelu";
    gd_module *m = gd_module_new(cls);
    set(m, "norm1", gd_layer_norm_new(ctx, SIZE, NULL));
    set(m, "attention", gd_attention_new(ctx, SIZE, HEADS, &attention));
    set(m, "norm2", gd_layer_norm_new(ctx, SIZE, NULL));
    set(m, "mlp", gd_mlp_new(ctx, (int64_t[]){SIZE, 4 * SIZE, SIZE}, 3, &mlp));
    return m;
}

static void *open_transformer(void)
{
    network *n = open_network();
    gd_ctx *ctx = n->ctx;
    gd_class *block = layer_class(ctx, "Block", block_forward);
    gd_module *layers = gd_sequential_new(ctx, NULL, 0);
    for (int i = 0; i < BLOCKS; i++) add(layers, make_block(ctx, block));
    add(layers, gd_layer_norm_new(ctx, SIZE, NULL));
    add(layers, gd_linear_new(ctx, SIZE, SYMBOLS, NULL));
    n->model = gd_module_new(gd_class_module(ctx));
    set(n->model, "symbols", n->first = gd_embedding_new(ctx, SYMBOLS, SIZE, NULL));
    set(n->model, "places", n->second = gd_embedding_new(ctx, TIME, SIZE, NULL));
    set(n->model, "layers", layers);
    n->x = gd_reshape(numbers(ctx, (int64_t)ROWS * TIME, SYMBOLS), 2, (int64_t[]){ROWS, TIME});
    n->labels = numbers(ctx, (int64_t)ROWS * TIME, SYMBOLS);
    n->places = numbers(ctx, TIME, TIME);
    return ready(n);
}

static void train_step(void *job)
{
    network *n = job;
    gd_scope_begin(n->ctx);
    gd_optimizer_zero_grad(n->optimizer);
    gd_tensor *x = gd_add(gd_module_call(n->first, n->x), gd_module_call(n->second, n->places));
    x = gd_module_call(gd_module_get_module(n->model, "layers"), x);
    gd_tensor *loss = gd_cross_entropy(gd_reshape(x, 2, (int64_t[]){ROWS * TIME, SYMBOLS}), n->labels);
    if (!loss || gd_backward(loss, NULL, 0) || gd_optimizer_step(n->optimizer, NULL, NULL))
        gradus_check(n->ctx);
    gd_scope_end(n->ctx);
}

const peer_kind gradus_transformer = {"transformer", open_transformer, train_step, NULL, close_network};
