#include "transformer.h"

#include <stdlib.h>

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

/* What fails sticks in the context. */
static gd_module *set(gd_module *m, const char *name, gd_module *child)
{
    return gd_module_set_module(m, name, child) ? NULL : child;
}

static gd_module *make_block(gd_ctx *ctx, gd_class *cls, const transformer_sizes *of)
{
    gd_attention_options attention = gd_attention_defaults();
    attention.causal = true;
    gd_mlp_options mlp = gd_mlp_defaults();
    mlp.activation = "gelu";
    gd_module *m = gd_module_new(cls);
    (void)set(m, "norm1", gd_layer_norm_new(ctx, of->size, NULL));
    (void)set(m, "attention", gd_attention_new(ctx, of->size, of->heads, &attention));
    (void)set(m, "norm2", gd_layer_norm_new(ctx, of->size, NULL));
    (void)set(m, "mlp", gd_mlp_new(ctx, (int64_t[]){of->size, 4 * of->size, of->size}, 3, &mlp));
    return m;
}

static gd_module *make_layers(gd_ctx *ctx, const char *name, const transformer_sizes *of)
{
    gd_class *base = gd_class_module(ctx), *block = gd_class_new(ctx, name, &base, 1);
    gd_module *layers = gd_sequential_new(ctx, NULL, 0);
    gd_status status = gd_register(block, gd_class_tensor(ctx), block_forward, NULL);
    for (int64_t i = 0; i < of->blocks && !status; i++)
        status = gd_sequential_add(layers, make_block(ctx, block, of));
    if (!status) status = gd_sequential_add(layers, gd_layer_norm_new(ctx, of->size, NULL));
    if (!status) status = gd_sequential_add(layers, gd_linear_new(ctx, of->size, of->symbols, NULL));
    return status ? NULL : layers;
}

gd_tensor *bench_labels(gd_ctx *ctx, int64_t count, int64_t below)
{
    int64_t *list = malloc((size_t)count * sizeof *list);
    if (!list) exit(1);
    for (int64_t i = 0; i < count; i++) list[i] = below == count ? i : (i * 7919 + 13) % below;
    gd_tensor *made = gd_from_data(ctx, GD_I64, 1, &count, list);
    free(list);
    return made;
}

transformer transformer_new(gd_ctx *ctx, const char *name, transformer_sizes of, gd_dtype dtype,
                            gd_device *gpu)
{
    transformer t = {.of = of, .model = gd_module_new(gd_class_module(ctx))};
    int64_t batch = of.rows * of.time;
    t.symbols = set(t.model, "symbols", gd_embedding_new(ctx, of.symbols, of.size, NULL));
    t.places = set(t.model, "places", gd_embedding_new(ctx, of.time, of.size, NULL));
    t.layers = set(t.model, "layers", make_layers(ctx, name, &of));
    t.in = gd_reshape(bench_labels(ctx, batch, of.symbols), 2, (int64_t[]){of.rows, of.time});
    t.next = bench_labels(ctx, batch, of.symbols);
    t.place = bench_labels(ctx, of.time, of.time);
    gd_status status = gd_module_to(t.model, dtype);
    if (gpu) {
        if (!status) status = gd_module_to_device(t.model, gpu);
        gd_tensor **batches[] = {&t.in, &t.next, &t.place};
        for (int i = 0; i < 3; i++) *batches[i] = gd_to_device(*batches[i], gpu);
    }
    t.optimizer = gd_optimizer_new(ctx, gd_chain(ctx, "adam | weight_decay(0.01) | lr(1e-3)"));
    if (!status) status = gd_optimizer_add_module(t.optimizer, t.model, NULL, NULL);
    (void)status;
    return t;
}

gd_tensor *transformer_step(transformer *t)
{
    gd_optimizer_zero_grad(t->optimizer);
    gd_tensor *x = gd_add(gd_module_call(t->symbols, t->in), gd_module_call(t->places, t->place));
    x = gd_reshape(gd_module_call(t->layers, x), 2, (int64_t[]){t->of.rows * t->of.time, t->of.symbols});
    gd_tensor *loss = gd_cross_entropy(gd_cast(x, GD_F32), t->next);
    if (!loss || gd_backward(loss, NULL, 0) || gd_optimizer_step(t->optimizer, NULL, NULL)) return NULL;
    return loss;
}

void transformer_end(transformer *t) { gd_optimizer_free(t->optimizer); }
