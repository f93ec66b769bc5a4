/* Forward and backward of a small network and of a convolutional one, and a training step of a transformer, f32. */
#include "transformer.h"
#include "work.h"

#include <stdlib.h>

enum { BATCH = 128, CLASSES = 10 };

typedef struct network {
    gd_ctx *ctx;
    gd_module *model;
    gd_optimizer *optimizer;
    gd_tensor *x, *labels;
} network;

static network *open_network(void)
{
    network *n = gradus_memory(sizeof *n);
    n->ctx = gradus_context();
    gd_seed(n->ctx, 1);
    return n;
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
    n->labels = bench_labels(n->ctx, BATCH, CLASSES);
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
    n->labels = bench_labels(ctx, BATCH, CLASSES);
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

typedef struct training {
    gd_ctx *ctx;
    transformer t;
} training;

static void *open_transformer(void)
{
    static const transformer_sizes sizes = {8, 64, 128, 4, 2, 65};
    training *job = gradus_memory(sizeof *job);
    job->ctx = gradus_context();
    gd_seed(job->ctx, 1);
    job->t = transformer_new(job->ctx, "Block", sizes, GD_F32, NULL);
    gradus_check(job->ctx);
    return job;
}

static void train_step(void *job)
{
    training *t = job;
    gd_scope_begin(t->ctx);
    if (!transformer_step(&t->t)) gradus_check(t->ctx);
    gd_scope_end(t->ctx);
}

static void close_transformer(void *job)
{
    training *t = job;
    transformer_end(&t->t);
    gradus_end(t->ctx);
    free(t);
}

const peer_kind gradus_transformer = {"transformer", open_transformer, train_step, NULL, close_transformer};
