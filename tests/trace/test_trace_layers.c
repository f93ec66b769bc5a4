/* Every layer, traced: the bits of the layer itself, values, gradients by its input, products with the Hessian, and the parameters
 * after steps of an optimizer whose objective is traced. */
#include "gradus/layers.h"
#include "gradus/optim.h"
#include "trace_support.h"

#define CALLS 6
#define STEPS 7

typedef struct job {
    gd_module *module;
    gd_tensor *x;
} job;

typedef gd_module *(*maker)(gd_ctx *ctx, gd_dtype dtype);

#define LAYER(name) static gd_module *name(gd_ctx *ctx, gd_dtype dtype)
#define OPTIONS(layer)                                \
    gd_##layer##_options o = gd_##layer##_defaults(); \
    o.dtype = dtype

LAYER(linear)
{
    OPTIONS(linear);
    return gd_linear_new(ctx, 6, 4, &o);
}
LAYER(conv2d)
{
    OPTIONS(conv2d);
    return gd_conv2d_new(ctx, 2, 3, 3, &o);
}
LAYER(conv1d)
{
    OPTIONS(conv1d);
    return gd_conv1d_new(ctx, 2, 3, 3, &o);
}
LAYER(layer_norm)
{
    OPTIONS(layer_norm);
    return gd_layer_norm_new(ctx, 6, &o);
}
LAYER(rms_norm)
{
    OPTIONS(rms_norm);
    return gd_rms_norm_new(ctx, 6, &o);
}
LAYER(group_norm)
{
    OPTIONS(group_norm);
    return gd_group_norm_new(ctx, 2, 4, &o);
}
LAYER(batch_norm1d)
{
    OPTIONS(batch_norm);
    return gd_batch_norm1d_new(ctx, 6, &o);
}
LAYER(batch_norm2d)
{
    OPTIONS(batch_norm);
    return gd_batch_norm2d_new(ctx, 2, &o);
}
LAYER(max_pool2d)
{
    (void)dtype;
    return gd_max_pool2d_new(ctx, 2, NULL);
}
LAYER(avg_pool2d)
{
    (void)dtype;
    return gd_avg_pool2d_new(ctx, 2, NULL);
}
LAYER(dropout)
{
    (void)dtype;
    return gd_dropout_layer_new(ctx, 0.4);
}
LAYER(flatten)
{
    (void)dtype;
    return gd_flatten_new(ctx);
}
LAYER(embedding)
{
    OPTIONS(embedding);
    return gd_embedding_new(ctx, 9, 4, &o);
}
LAYER(attention)
{
    OPTIONS(attention);
    o.causal = true;
    return gd_attention_new(ctx, 6, 2, &o);
}
LAYER(activation)
{
    (void)dtype;
    return gd_activation_new(ctx, "gelu");
}
LAYER(mlp)
{
    OPTIONS(mlp);
    o.activation = "tanh";
    return gd_mlp_new(ctx, (int64_t[]){6, 8, 5}, 3, &o);
}
LAYER(sequential)
{
    return gd_sequential_new(
        ctx, (gd_module *[]){linear(ctx, dtype), activation(ctx, dtype), dropout(ctx, dtype)}, 3);
}

static const struct {
    const char *name;
    maker make;
    int ndim;
    int64_t size[4];
    bool params, words; /* words: the input is a list of integers */
    const char *why;    /* it is not traced while it trains */
} layers[] = {
    {"linear", linear, 2, {5, 6}, true, false, NULL},
    {"conv2d", conv2d, 4, {3, 2, 6, 5}, true, false, NULL},
    {"conv1d", conv1d, 3, {3, 2, 8}, true, false, NULL},
    {"layer_norm", layer_norm, 2, {7, 6}, true, false, NULL},
    {"rms_norm", rms_norm, 2, {7, 6}, true, false, NULL},
    {"group_norm", group_norm, 3, {3, 4, 5}, true, false, NULL},
    {"batch_norm1d", batch_norm1d, 2, {7, 6}, true, false, "changes a tensor in place that was made outside"},
    {"batch_norm2d",
     batch_norm2d,
     4,
     {3, 2, 4, 4},
     true,
     false,
     "changes a tensor in place that was made outside"},
    {"max_pool2d", max_pool2d, 4, {2, 2, 6, 4}, false, false, NULL},
    {"avg_pool2d", avg_pool2d, 4, {2, 2, 6, 4}, false, false, NULL},
    {"dropout", dropout, 2, {5, 6}, false, false, NULL},
    {"flatten", flatten, 3, {3, 4, 5}, false, false, NULL},
    {"embedding", embedding, 1, {6}, true, true, NULL},
    {"attention", attention, 3, {2, 4, 6}, true, false, NULL},
    {"activation", activation, 2, {5, 6}, false, false, NULL},
    {"mlp", mlp, 2, {5, 6}, true, false, NULL},
    {"sequential", sequential, 2, {5, 6}, true, false, NULL},
};

static gd_tensor *point(gd_ctx *ctx, int k, gd_dtype dtype, int call)
{
    if (layers[k].words) {
        int64_t word[6];
        for (int i = 0; i < 6; i++) word[i] = (5 * call + 2 * i) % 9;
        return gd_from_data(ctx, GD_I64, 1, layers[k].size, word);
    }
    gd_seed(ctx, (uint64_t)(100 + call));
    return gd_cast(gd_randn(ctx, GD_F64, layers[k].ndim, layers[k].size), dtype);
}

static gd_module *make(gd_ctx *ctx, int k, gd_dtype dtype, bool trains)
{
    gd_seed(ctx, 7);
    gd_module *m = layers[k].make(ctx, dtype);
    assert_non_null(m);
    assert_int_equal(trains ? gd_module_train(m) : gd_module_eval(m), GD_OK);
    return m;
}

static gd_tensor *loss_of(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    const job *j = user;
    return gd_sum(gd_sin(gd_module_call(j->module, in[0])), NULL, false);
}

static void check_explained(int k, const gd_traced *f, bool trains, const char *what)
{
    char text[4000];
    (void)gd_explain_trace(f, text, sizeof text);
    bool refused = trains && layers[k].why;
    if (refused ? !strstr(text, layers[k].why) : !strstr(text, "replayed"))
        fail_msg("%s, %s: %s", layers[k].name, what, text);
}

static void by_its_input(gd_ctx *ctx, int k, gd_dtype dtype, bool trains)
{
    job a = {make(ctx, k, dtype, trains), NULL}, b = {make(ctx, k, dtype, trains), NULL};
    gd_traced *f = gd_trace(ctx, loss_of, &b, NULL), *h = gd_trace(ctx, loss_of, &b, NULL);
    for (int call = 0; call < CALLS; call++) {
        gd_tensor *x = point(ctx, k, dtype, call), *v = point(ctx, k, dtype, call + 40);
        gd_tensor *value = NULL, *grad = NULL, *got = NULL, *got_grad = NULL, *want = NULL, *product = NULL;
        gd_seed(ctx, (uint64_t)call);
        assert_int_equal(eager_gradient(loss_of, &a, &x, 1, &value, &grad), GD_OK);
        gd_seed(ctx, (uint64_t)call);
        assert_int_equal(gd_traced_gradient(f, &x, 1, &got, &got_grad), GD_OK);
        assert_no_error(ctx);
        if (!same_bits(got, value) || !same_bits(got_grad, grad))
            fail_msg("%s of %s differs in call %d", layers[k].name, gd_dtype_name(dtype), call);
        gd_seed(ctx, (uint64_t)call);
        assert_int_equal(gd_hvp(loss_of, &a, &x, 1, &v, &want), GD_OK);
        gd_seed(ctx, (uint64_t)call);
        assert_int_equal(gd_traced_hvp(h, &x, 1, &v, &product), GD_OK);
        assert_no_error(ctx);
        if (!same_bits(product, want)) fail_msg("a product of %s differs in call %d", layers[k].name, call);
    }
    check_explained(k, f, trains, "gradient");
    check_explained(k, h, trains, "product");
    gd_traced_free(f);
    gd_traced_free(h);
}

static gd_tensor *step_loss(void *user)
{
    const job *j = user;
    return gd_mean(gd_square(gd_module_call(j->module, j->x)), NULL, false);
}

static void by_its_parameters(gd_ctx *ctx, int k, gd_dtype dtype, bool trains)
{
    job of[2];
    gd_optimizer *opt[2];
    gd_tensor *x = point(ctx, k, dtype, 0);
    for (int i = 0; i < 2; i++) {
        of[i] = (job){make(ctx, k, dtype, trains), gd_copy(x)};
        opt[i] = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.05)"));
        assert_int_equal(gd_optimizer_add_module(opt[i], of[i].module, NULL, NULL), GD_OK);
    }
    for (int s = 0; s < STEPS; s++) {
        gd_tensor *next = point(ctx, k, dtype, s);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(gd_assign(of[i].x, next), GD_OK);
            gd_seed(ctx, (uint64_t)s);
            const gd_objective objective = {.loss = step_loss, .user = &of[i], .traced = i == 1};
            assert_int_equal(gd_optimizer_step(opt[i], &objective, NULL), GD_OK);
        }
    }
    gd_named *want = gd_module_parameters(of[0].module, NULL),
             *got = gd_module_parameters(of[1].module, NULL);
    for (int64_t i = 0; i < gd_named_count(want); i++)
        if (!same_bits(gd_named_tensor(want, i), gd_named_tensor(got, i)))
            fail_msg("%s: '%s' differs after %d steps (%s)", layers[k].name, gd_named_name(want, i), STEPS,
                     gd_dtype_name(dtype));
    gd_named_release(want);
    gd_named_release(got);
    for (int i = 0; i < 2; i++) gd_optimizer_free(opt[i]);
}

static void run(int threads)
{
    gd_ctx *ctx = context(NULL, threads, NULL);
    for (int k = 0; k < COUNT_OF(layers); k++)
        for (int how = 0; how < 4; how++) {
            gd_dtype dtype = how % 2 ? GD_F32 : GD_F64;
            bool trains = how > 1;
            gd_scope_begin(ctx);
            if (!layers[k].words) by_its_input(ctx, k, dtype, trains);
            if (layers[k].params) by_its_parameters(ctx, k, dtype, trains);
            gd_scope_end(ctx);
        }
    gd_ctx_free(ctx);
}

static void layers_on_one_thread(void **state) { (void)state, run(1); }
static void layers_on_two_threads(void **state) { (void)state, run(2); }
static void layers_on_three_threads(void **state) { (void)state, run(3); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_on_one_thread),
        cmocka_unit_test(layers_on_two_threads),
        cmocka_unit_test(layers_on_three_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
