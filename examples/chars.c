/* A small character-level transformer that learns a short text by heart.
 *
 *     ./chars
 *
 * Shows: a class of modules of one's own with a forward function, attention, residuals, layer norms, an optimizer,
 * sampling. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gradus/gradus.h>

enum { CONTEXT = 32, SIZE = 32, HEADS = 4, BLOCKS = 2, BATCH = 16, SYMBOLS = 28 };

static const char text[] =
    "one small step and then a small step more, the slope is long and the valley is deep; "
    "follow the gradient down to the floor, the careful walker has no need to leap. ";

/* letters, space, and one symbol for everything else */
static int64_t symbol(char c) { return c >= 'a' && c <= 'z' ? c - 'a' : c == ' ' ? 26 : 27; }

static char letter(int64_t s) { return s < 26 ? (char)('a' + s) : s == 26 ? ' ' : ','; }

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
    x = gd_add(x, gd_module_call(gd_module_get_module(m, "mlp"), thought));
    gd_keep(x);
    gd_scope_end(ctx);
    return gd_tensor_object(x);
}

/* Integer symbols [batch, time] to scores [batch, time, SYMBOLS]. */
static gd_object *chars_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)kwargs, (void)user;
    gd_module *m = gd_object_module(self);
    gd_tensor *symbols = gd_object_tensor(argument);
    gd_ctx *ctx = gd_object_ctx(self);
    gd_scope_begin(ctx);
    gd_tensor *places = gd_arange(ctx, GD_I64, 0, (double)gd_size(symbols, -1), 1);
    gd_tensor *x = gd_add(gd_module_call(gd_module_get_module(m, "symbols"), symbols),
                          gd_module_call(gd_module_get_module(m, "places"), places));
    x = gd_keep(gd_module_call(gd_module_get_module(m, "layers"), x));
    gd_scope_end(ctx);
    return gd_tensor_object(x);
}

/* Assigns a new child.  What fails, here or in its maker, sticks in the context and is seen at the end. */
static void add(gd_module *parent, const char *name, gd_module *child)
{
    gd_status status = gd_module_set_module(parent, name, child);
    (void)status;
}

static gd_module *make_block(gd_ctx *ctx, gd_class *cls)
{
    gd_attention_options attention = gd_attention_defaults();
    attention.causal = true;
    gd_mlp_options mlp = gd_mlp_defaults();
    mlp.activation = "gelu";
    gd_module *m = gd_module_new(cls);
    gd_scope_begin(ctx);
    add(m, "norm1", gd_layer_norm_new(ctx, SIZE, NULL));
    add(m, "attention", gd_attention_new(ctx, SIZE, HEADS, &attention));
    add(m, "norm2", gd_layer_norm_new(ctx, SIZE, NULL));
    add(m, "mlp", gd_mlp_new(ctx, (int64_t[]){SIZE, 4 * SIZE, SIZE}, 3, &mlp));
    gd_scope_end(ctx);
    return m;
}

static gd_module *make_model(gd_ctx *ctx)
{
    gd_class *base = gd_class_module(ctx), *tensor = gd_class_tensor(ctx);
    gd_class *block = gd_class_new(ctx, "Block", &base, 1), *chars = gd_class_new(ctx, "Chars", &base, 1);
    if (gd_register(block, tensor, block_forward, NULL) || gd_register(chars, tensor, chars_forward, NULL))
        return NULL;
    gd_embedding_options embedding = gd_embedding_defaults();
    embedding.std = 0.1;
    gd_module *m = gd_module_new(chars);
    gd_scope_begin(ctx);
    gd_module *layers = gd_sequential_new(ctx, NULL, 0);
    gd_status status = GD_OK;
    for (int i = 0; i < BLOCKS && !status; i++) status = gd_sequential_add(layers, make_block(ctx, block));
    if (!status) status = gd_sequential_add(layers, gd_layer_norm_new(ctx, SIZE, NULL));
    if (!status) status = gd_sequential_add(layers, gd_linear_new(ctx, SIZE, SYMBOLS, NULL));
    add(m, "symbols", gd_embedding_new(ctx, SYMBOLS, SIZE, &embedding));
    add(m, "places", gd_embedding_new(ctx, CONTEXT, SIZE, &embedding));
    add(m, "layers", layers);
    gd_scope_end(ctx);
    return gd_error(ctx) ? NULL : m;
}

/* Random windows of the text and what follows each symbol. */
static gd_tensor *batch_loss(void *user)
{
    gd_module *model = user;
    gd_ctx *ctx = gd_module_ctx(model);
    int64_t in[BATCH * CONTEXT], next[BATCH * CONTEXT], windows = (int64_t)strlen(text) - CONTEXT;
    gd_tensor *draw = gd_rand(ctx, GD_F64, 1, (int64_t[]){BATCH});
    const double *u = gd_data(draw);
    if (!u) return NULL;
    for (int b = 0; b < BATCH; b++) {
        const char *window = text + (int64_t)(u[b] * (double)windows);
        for (int t = 0; t < CONTEXT; t++) {
            in[b * CONTEXT + t] = symbol(window[t]);
            next[b * CONTEXT + t] = symbol(window[t + 1]);
        }
    }
    gd_tensor *x = gd_from_data(ctx, GD_I64, 2, (int64_t[]){BATCH, CONTEXT}, in);
    gd_tensor *y = gd_from_data(ctx, GD_I64, 1, (int64_t[]){BATCH * CONTEXT}, next);
    gd_tensor *scores = gd_reshape(gd_module_call(model, x), 2, (int64_t[]){BATCH * CONTEXT, SYMBOLS});
    return gd_cross_entropy(scores, y);
}

static gd_status train(gd_module *model, int steps, double *last)
{
    gd_ctx *ctx = gd_module_ctx(model);
    gd_objective objective = {.loss = batch_loss, .user = model};
    gd_optimizer *optimizer = gd_optimizer_new(ctx, gd_chain(ctx, "clip_norm(1) | adam | lr(3e-3)"));
    gd_step_info info;
    gd_status status = gd_optimizer_add_module(optimizer, model, NULL, NULL);
    for (int step = 1; step <= steps && !status; step++) {
        status = gd_optimizer_step(optimizer, &objective, &info);
        if (status) break;
        *last = info.loss;
        if (step % 50 == 0) printf("step %3d  loss %.3f\n", step, *last);
    }
    gd_optimizer_free(optimizer);
    return status;
}

/* Goes on after a few symbols of the text, always with the likeliest one. */
static void recite(gd_module *model, int start, int count)
{
    gd_ctx *ctx = gd_module_ctx(model);
    char said[256];
    memcpy(said, text, (size_t)start);
    gd_no_grad_begin(ctx);
    for (int n = start; n < count && !gd_error(ctx); n++) {
        gd_scope_begin(ctx);
        int64_t in[CONTEXT], length = n < CONTEXT ? n : CONTEXT;
        for (int64_t t = 0; t < length; t++) in[t] = symbol(said[n - length + t]);
        gd_tensor *scores = gd_module_call(model, gd_from_data(ctx, GD_I64, 1, &length, in));
        said[n] = letter((int64_t)gd_item(gd_argmax(gd_index(scores, "0", length - 1), "0", false)));
        gd_scope_end(ctx);
    }
    gd_no_grad_end(ctx);
    said[count] = 0;
    printf("%.*s|%s\n", start, said, said + start);
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    if (!ctx) return 1;
    gd_seed(ctx, 1);
    gd_scope_begin(ctx);
    double loss = INFINITY;
    gd_module *model = make_model(ctx);
    gd_status status = model ? train(model, getenv("GD_EXAMPLE_QUICK") ? 150 : 400, &loss) : gd_error(ctx);
    if (!status) recite(model, 16, 120);
    if (gd_error(ctx)) fprintf(stderr, "chars: %s\n", gd_error_text(ctx));
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
    return loss < 1 ? 0 : 1;
}
