/* A training step of the character transformer of examples/chars.c, of about ten million parameters, on a GPU. */
#include "gpu.h"
#include "gradus/gradus.h"

#include <stdlib.h>

enum { BATCH = 16, TIME = 256, SIZE = 384, HEADS = 6, BLOCKS = 6, SYMBOLS = 65 };

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
    if (gd_module_set_module(m, name, child)) bench_check(gd_module_ctx(m));
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

typedef struct training {
    gd_ctx *ctx;
    gd_device *gpu;
    gd_module *model; /* symbols, places, layers */
    gd_optimizer *optimizer;
    gd_tensor *in, *next, *place;
} training;

static gd_tensor *numbers(training *t, int64_t count, int64_t below)
{
    int64_t *list = malloc((size_t)count * sizeof *list);
    if (!list) exit(1);
    for (int64_t i = 0; i < count; i++) list[i] = below == count ? i : (i * 7919 + 13) % below;
    gd_tensor *made = gd_to_device(gd_from_data(t->ctx, GD_I64, 1, &count, list), t->gpu);
    free(list);
    bench_check(t->ctx);
    return made;
}

static void begin(training *t, gd_dtype dtype)
{
    gd_ctx *ctx = t->ctx;
    gd_class *base = gd_class_module(ctx), *tensor = gd_class_tensor(ctx);
    gd_class *block = gd_class_new(ctx, dtype == GD_F32 ? "Block" : "HalfBlock", &base, 1);
    if (!block || gd_register(block, tensor, block_forward, NULL)) bench_check(ctx);
    gd_module *layers = gd_sequential_new(ctx, NULL, 0);
    gd_status status = GD_OK;
    for (int i = 0; i < BLOCKS && !status; i++) status = gd_sequential_add(layers, make_block(ctx, block));
    if (!status) status = gd_sequential_add(layers, gd_layer_norm_new(ctx, SIZE, NULL));
    if (!status) status = gd_sequential_add(layers, gd_linear_new(ctx, SIZE, SYMBOLS, NULL));
    t->model = gd_module_new(base);
    set(t->model, "symbols", gd_embedding_new(ctx, SYMBOLS, SIZE, NULL));
    set(t->model, "places", gd_embedding_new(ctx, TIME, SIZE, NULL));
    set(t->model, "layers", layers);
    if (!status) status = gd_module_to(t->model, dtype);
    if (!status) status = gd_module_to_device(t->model, t->gpu);
    t->optimizer = gd_optimizer_new(ctx, gd_chain(ctx, "adam | weight_decay(0.01) | lr(1e-3)"));
    if (!status) status = gd_optimizer_add_module(t->optimizer, t->model, NULL, NULL);
    bench_check(ctx);
    t->in = gd_reshape(numbers(t, BATCH * TIME, SYMBOLS), 2, (int64_t[]){BATCH, TIME});
    t->next = numbers(t, BATCH * TIME, SYMBOLS);
    t->place = numbers(t, TIME, TIME);
}

static double train_step(training *t, bool look)
{
    gd_ctx *ctx = t->ctx;
    gd_scope_begin(ctx);
    gd_optimizer_zero_grad(t->optimizer);
    gd_tensor *x = gd_add(gd_module_call(gd_module_get_module(t->model, "symbols"), t->in),
                          gd_module_call(gd_module_get_module(t->model, "places"), t->place));
    x = gd_module_call(gd_module_get_module(t->model, "layers"), x);
    x = gd_cast(gd_reshape(x, 2, (int64_t[]){BATCH * TIME, SYMBOLS}), GD_F32);
    gd_tensor *loss = gd_cross_entropy(x, t->next);
    if (!loss || gd_backward(loss, NULL, 0) || gd_optimizer_step(t->optimizer, NULL, NULL)) bench_check(ctx);
    double value = look ? gd_item(loss) : 0;
    gd_scope_end(ctx);
    bench_check(ctx);
    return value;
}

double bench_gpu_train(gd_ctx *ctx, gd_device *gpu, gd_dtype dtype, double *first, double *last)
{
    training t = {.ctx = ctx, .gpu = gpu};
    double best = 1e9;
    gd_scope_begin(ctx);
    begin(&t, dtype);
    *first = train_step(&t, true);
    for (int r = 0; r < 7; r++) {
        if (gd_device_sync(gpu)) bench_check(ctx);
        double begun = bench_now();
        for (int i = 0; i < 20; i++) (void)train_step(&t, false);
        if (gd_device_sync(gpu)) bench_check(ctx);
        double took = (bench_now() - begun) / 20;
        if (r && took < best) best = took;
    }
    *last = train_step(&t, true);
    gd_optimizer_free(t.optimizer);
    gd_scope_end(ctx);
    return best;
}
