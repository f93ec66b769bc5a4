/* Layers: values against plain loops, gradients against central differences, initial values, errors. */
#include "layers_support.h"

/* ---- linear ---- */

static gd_linear_options linear64(void)
{
    gd_linear_options options = gd_linear_defaults();
    options.dtype = GD_F64;
    return options;
}

static void linear_is_x_times_the_transposed_weight_plus_bias(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_linear_options options = linear64();
    gd_module *m = gd_linear_new(ctx, 3, 2, &options);
    gd_tensor *x = random_tensor(ctx, 3, (int64_t[]){4, 5, 3}), *y = gd_module_call(m, x);
    assert_int_equal(gd_ndim(y), 3);
    double *xv = values_of(x), *w = values_of(gd_module_get_tensor(m, "weight"));
    double *b = values_of(gd_module_get_tensor(m, "bias")), expected[40];
    for (int i = 0; i < 20; i++) {
        for (int o = 0; o < 2; o++) {
            expected[2 * i + o] = b[o];
            for (int k = 0; k < 3; k++) expected[2 * i + o] += xv[3 * i + k] * w[3 * o + k];
        }
    }
    expect_values_at(y, 40, expected, 1e-13, __FILE__, __LINE__);
    free(xv), free(w), free(b);
    gd_scope_end(ctx);
}

static void linear_starts_uniform_within_its_bound(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = gd_linear_new(ctx, 25, 100, NULL);
    gd_tensor *weight = gd_module_get_tensor(m, "weight");
    assert_int_equal(gd_tensor_dtype(weight), GD_F32);
    assert_true(gd_size(weight, 0) == 100 && gd_size(weight, 1) == 25);
    expect_between(weight, -0.2, 0.2); /* 1 / sqrt(25) */
    expect_between(gd_module_get_tensor(m, "bias"), -0.2, 0.2);
    assert_true(gd_requires_grad(weight));
    gd_seed(ctx, 5);
    gd_tensor *first = gd_module_get_tensor(gd_linear_new(ctx, 4, 4, NULL), "weight");
    gd_seed(ctx, 5); /* the context's generator decides */
    gd_tensor *second = gd_module_get_tensor(gd_linear_new(ctx, 4, 4, NULL), "weight");
    assert_memory_equal(gd_data(first), gd_data(second), 16 * sizeof(float));
    gd_scope_end(ctx);
}

static void linear_without_bias_has_none(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_linear_options options = linear64();
    options.bias = false;
    gd_module *m = gd_linear_new(ctx, 3, 2, &options);
    assert_false(gd_module_has(m, "bias"));
    expect_values(gd_module_call(m, gd_zeros(ctx, GD_F64, 1, (int64_t[]){3})), 0, 0);
    gd_scope_end(ctx);
}

static void linear_contracts_a_named_axis(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_linear_options options = linear64();
    options.input = "feature";
    options.output = "hidden";
    gd_module *m = gd_linear_new(ctx, 3, 2, &options);
    gd_tensor *x = gd_rename(random_tensor(ctx, 2, (int64_t[]){3, 4}),
                             "feature, batch"); /* not the last axis */
    gd_tensor *y = gd_module_call(m, x);
    assert_int_equal(gd_ndim(y), 2);
    assert_string_equal(gd_axis_name(y, 0), "batch");
    assert_string_equal(gd_axis_name(y, 1), "hidden");
    gd_module *plain = gd_linear_new(ctx, 3, 2, &(gd_linear_options){.bias = true, .dtype = GD_F64});
    ok(gd_module_set_parameter(plain, "weight", gd_drop_names(gd_module_get_tensor(m, "weight"))));
    ok(gd_module_set_parameter(plain, "bias", gd_drop_names(gd_module_get_tensor(m, "bias"))));
    double *expected = values_of(gd_module_call(plain, gd_transpose(gd_drop_names(x), 0, 1)));
    expect_values_at(y, 8, expected, 1e-13, __FILE__, __LINE__);
    free(expected);
    gd_scope_end(ctx);
}

static void linear_gradients_are_right(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_linear_options options = linear64();
    check_gradients(gd_linear_new(ctx, 3, 2, &options),
                    gd_require_grad(random_tensor(ctx, 2, (int64_t[]){4, 3})));
    gd_scope_end(ctx);
}

static void wrong_sizes_are_errors(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    assert_null(gd_linear_new(ctx, 0, 2, NULL));
    expect_error(ctx, GD_VALUE, "linear: inputs is 0, must be at least 1");
    assert_null(gd_linear_new(ctx, 2, -1, NULL));
    expect_error(ctx, GD_VALUE, "outputs is -1");
    assert_null(gd_conv2d_new(ctx, 1, 1, 0, NULL));
    expect_error(ctx, GD_VALUE, "conv2d: kernel is 0");
    gd_conv2d_options conv = gd_conv2d_defaults();
    conv.padding = -1;
    assert_null(gd_conv2d_new(ctx, 1, 1, 1, &conv));
    expect_error(ctx, GD_VALUE, "conv2d: padding is -1");
    assert_null(gd_layer_norm_new(ctx, 0, NULL));
    expect_error(ctx, GD_VALUE, "layer_norm: size");
    assert_null(gd_embedding_new(ctx, 0, 3, NULL));
    expect_error(ctx, GD_VALUE, "embedding: count");
    assert_null(gd_attention_new(ctx, 6, 4, NULL));
    expect_error(ctx, GD_VALUE, "attention: 4 heads do not divide the size 6");
    assert_null(gd_mlp_new(ctx, (int64_t[]){3}, 1, NULL));
    expect_error(ctx, GD_VALUE, "mlp: 1 sizes");
    assert_null(gd_mlp_new(ctx, (int64_t[]){3, 0}, 2, NULL));
    expect_error(ctx, GD_VALUE, "linear: outputs is 0");
    assert_null(gd_activation_new(ctx, "rellu"));
    expect_error(ctx, GD_VALUE, "activation: 'rellu' is unknown");
    gd_linear_options named = gd_linear_defaults();
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    named.input = name;
    assert_null(gd_linear_new(ctx, 3, 2, &named));
    expect_error(ctx, GD_VALUE, "linear: the axis names are longer");
    gd_module *m = gd_linear_new(ctx, 3, 2, NULL);
    assert_null(gd_module_call(m, gd_zeros(ctx, GD_F32, 2, (int64_t[]){2, 4})));
    assert_int_equal(gd_error(ctx), GD_SHAPE);
    gd_clear_error(ctx);
    assert_null(gd_module_call(gd_layer_norm_new(ctx, 3, NULL), gd_zeros(ctx, GD_F32, 1, (int64_t[]){4})));
    expect_error(ctx, GD_SHAPE, "layer_norm: the last axis has 4 elements, expected 3");
    assert_null(
        gd_module_call(gd_attention_new(ctx, 4, 2, NULL), gd_zeros(ctx, GD_F32, 2, (int64_t[]){2, 3})));
    expect_error(ctx, GD_SHAPE, "attention: needs [..., time, 4], got [2, 3]");
    assert_null(gd_invoke(gd_module_object(m), gd_tensor_object(gd_zeros(ctx, GD_F32, 1, (int64_t[]){3})),
                          GD_KWARGS(gd_int_argument("axis", 1))));
    expect_error(ctx, GD_ARGUMENT, "keyword 'axis' is not expected");
    gd_scope_end(ctx);
}

/* ---- conv2d ---- */

static void conv2d_is_the_sum_over_windows(void **state)
{
    gd_ctx *ctx = CTX(state);
    enum { N = 2, C = 2, H = 5, W = 6, O = 3, K = 3, S = 2, P = 1, OH = 3, OW = 3 };
    gd_scope_begin(ctx);
    gd_conv2d_options options = gd_conv2d_defaults();
    options.stride = S;
    options.padding = P;
    options.dtype = GD_F64;
    gd_module *m = gd_conv2d_new(ctx, C, O, K, &options);
    gd_tensor *x = random_tensor(ctx, 4, (int64_t[]){N, C, H, W}), *y = gd_module_call(m, x);
    double *xv = values_of(x), *w = values_of(gd_module_get_tensor(m, "weight"));
    double *b = values_of(gd_module_get_tensor(m, "bias")), expected[N * O * OH * OW];
    for (int at = 0; at < N * O * OH * OW; at++) {
        int ox = at % OW, oy = at / OW % OH, o = at / (OW * OH) % O, n = at / (OW * OH * O);
        double sum = b[o];
        for (int k = 0; k < C * K * K; k++) {
            int kx = k % K, ky = k / K % K, c = k / (K * K), ix = ox * S + kx - P, iy = oy * S + ky - P;
            if (ix >= 0 && ix < W && iy >= 0 && iy < H)
                sum += xv[((n * C + c) * H + iy) * W + ix] * w[((o * C + c) * K + ky) * K + kx];
        }
        expected[at] = sum;
    }
    expect_values_at(y, N * O * OH * OW, expected, 1e-12, __FILE__, __LINE__);
    free(xv), free(w), free(b);
    expect_between(gd_module_get_tensor(gd_conv2d_new(ctx, 4, 50, 2, NULL), "weight"), -0.25, 0.25);
    gd_scope_end(ctx);
}

static void settings_of_convolutions_reach_the_operator(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_conv2d_options o = gd_conv2d_defaults();
    o.stride = 2, o.stride_across = 1, o.dilation = 1, o.dilation_across = 3, o.padding = 1,
    o.padding_across = 2;
    o.groups = 2, o.kernel_across = 4;
    gd_module *m = gd_conv2d_new(ctx, 4, 6, 3, &o);
    gd_tensor *x = gd_cast(random_tensor(ctx, 4, (int64_t[]){2, 4, 7, 11}), GD_F32),
              *y = gd_module_call(m, x);
    gd_conv_options same = {{2, 1}, {1, 3}, {1, 1, 2, 2}, 2};
    gd_tensor *want = gd_conv2d_with(x, gd_module_get_tensor(m, "weight"), gd_module_get_tensor(m, "bias"),
                                     &same);
    assert_true(gd_size(gd_module_get_tensor(m, "weight"), 1) == 2 &&
                gd_size(gd_module_get_tensor(m, "weight"), 3) == 4);
    assert_non_null(want);
    double *a = values_of(y), *b = values_of(want);
    for (int i = 0; i < gd_numel(want); i++) assert_true(a[i] == b[i]);
    free(a), free(b);
    o = gd_conv2d_defaults();
    o.same = true;
    o.dilation = 2;
    y = gd_module_call(gd_conv2d_new(ctx, 4, 1, 4, &o), x);
    assert_true(gd_size(y, 2) == 7 && gd_size(y, 3) == 11);
    o.stride = 2;
    assert_null(gd_conv2d_new(ctx, 1, 1, 3, &o));
    expect_error(ctx, GD_VALUE, "conv2d: same keeps the size, so stride is 1 and padding is not given");
    o = gd_conv2d_defaults();
    o.groups = 2;
    assert_null(gd_conv2d_new(ctx, 4, 3, 3, &o));
    expect_error(ctx, GD_VALUE, "conv2d: 2 groups do not divide 4 inputs and 3 outputs");
    o.groups = 0;
    assert_null(gd_conv2d_new(ctx, 4, 3, 3, &o));
    expect_error(ctx, GD_VALUE, "conv2d: groups is 0");
    gd_scope_end(ctx);
}

static void conv2d_gradients_are_right(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_conv2d_options options = gd_conv2d_defaults();
    options.padding = 1;
    options.dtype = GD_F64;
    check_gradients(gd_conv2d_new(ctx, 2, 2, 2, &options),
                    gd_require_grad(random_tensor(ctx, 4, (int64_t[]){2, 2, 3, 3})));
    gd_scope_end(ctx);
}

/* ---- layer norm ---- */

static void layer_norm_centres_and_scales_the_last_axis(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_layer_norm_options options = gd_layer_norm_defaults();
    options.dtype = GD_F64;
    gd_module *m = gd_layer_norm_new(ctx, 4, &options);
    expect_values(gd_module_get_tensor(m, "weight"), 1, 1, 1, 1);
    expect_values(gd_module_get_tensor(m, "bias"), 0, 0, 0, 0);
    ok(gd_module_set_parameter(m, "weight", VECTOR(ctx, 1, 2, 3, 4)));
    ok(gd_module_set_parameter(m, "bias", VECTOR(ctx, 0, 0, 1, 1)));
    /* mean 2.5, variance 1.25 */
    double s = 1 / sqrt(1.25 + 1e-5);
    gd_tensor *x = gd_rename(gd_reshape(VECTOR(ctx, 1, 2, 3, 4), 2, (int64_t[]){1, 4}), "batch, feature");
    gd_tensor *y = gd_module_call(m, x);
    expect_near(y, 1e-12, -1.5 * s, -0.5 * s * 2, 0.5 * s * 3 + 1, 1.5 * s * 4 + 1);
    assert_string_equal(gd_axis_name(y, 1), "feature");
    options.affine = false;
    assert_int_equal(gd_named_count(gd_module_parameters(gd_layer_norm_new(ctx, 4, &options), NULL)), 0);
    check_gradients(m, gd_require_grad(random_tensor(ctx, 2, (int64_t[]){3, 4})));
    gd_scope_end(ctx);
}

/* ---- embedding ---- */

static void embedding_takes_rows_and_gives_them_gradients(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_embedding_options options = gd_embedding_defaults();
    options.dtype = GD_F64;
    gd_module *m = gd_embedding_new(ctx, 5, 2, &options);
    gd_tensor *index = gd_from_data(ctx, GD_I64, 2, (int64_t[]){2, 2}, (int64_t[]){3, 0, 3, 4});
    gd_tensor *y = gd_module_call(m, index), *weight = gd_module_get_tensor(m, "weight");
    assert_true(gd_ndim(y) == 3 && gd_size(y, 2) == 2);
    double *w = values_of(weight);
    expect_values(y, w[6], w[7], w[0], w[1], w[6], w[7], w[8], w[9]);
    free(w);
    ok(gd_backward(gd_sum(y, NULL, false), NULL, 0));
    expect_values(gd_grad_of(weight), 1, 1, 0, 0, 0, 0, 2, 2, 1, 1);
    gd_scope_end(ctx);
}

static void embedding_starts_normal(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_embedding_options options = gd_embedding_defaults();
    options.std = 0.02;
    gd_tensor *weight = gd_module_get_tensor(gd_embedding_new(ctx, 100, 100, &options), "weight");
    double *w = values_of(weight), mean = 0, square = 0;
    for (int i = 0; i < 10000; i++) {
        mean += w[i] / 10000;
        square += w[i] * w[i] / 10000;
    }
    free(w);
    assert_true(fabs(mean) < 0.02 * 4 / 100);                  /* four standard errors */
    assert_true(fabs(sqrt(square) - 0.02) < 0.02 * 4 / 141.4); /* 1 / sqrt(2 n) each */
    gd_scope_end(ctx);
}

/* ---- activation, mlp, sequential ---- */

static void activations_apply_their_function(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_tensor *x = VECTOR(ctx, -1, 0.5);
    expect_values(gd_module_call(gd_activation_new(ctx, "relu"), x), 0, 0.5);
    expect_near(gd_module_call(gd_activation_new(ctx, "tanh"), x), 1e-15, tanh(-1), tanh(0.5));
    expect_near(gd_module_call(gd_activation_new(ctx, "sigmoid"), x), 1e-15, 1 / (1 + exp(1)),
                1 / (1 + exp(-0.5)));
    expect_near(gd_module_call(gd_activation_new(ctx, "softplus"), x), 1e-15, log1p(exp(-1)),
                log1p(exp(0.5)));
    gd_tensor *gelu = gd_module_call(gd_activation_new(ctx, "gelu"), x); /* exact or its tanh form */
    expect_near(gelu, 1e-3, -0.5 * erfc(sqrt(0.5)), 0.25 * (1 + erf(0.5 * sqrt(0.5))));
    gd_tensor *same = gd_module_call(gd_activation_new(ctx, "identity"), x);
    assert_ptr_not_equal(same, x);
    expect_values(same, -1, 0.5);
    gd_scope_end(ctx);
}

static void mlp_is_linear_layers_with_activations_between(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_mlp_options options = gd_mlp_defaults();
    options.activation = "tanh";
    options.dtype = GD_F64;
    gd_module *m = gd_mlp_new(ctx, (int64_t[]){3, 5, 4, 2}, 4, &options);
    gd_named *parameters = gd_module_parameters(m, NULL);
    const char *names[] = {"0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"};
    assert_int_equal(gd_named_count(parameters), 6);
    for (int i = 0; i < 6; i++) assert_string_equal(gd_named_name(parameters, i), names[i]);
    gd_tensor *x = gd_require_grad(random_tensor(ctx, 2, (int64_t[]){6, 3})), *h = x;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        h = gd_module_call(gd_module_get_module(m, name), h);
        if (i < 2) h = gd_tanh(h);
    }
    double *expected = values_of(h);
    expect_values_at(gd_module_call(m, x), 12, expected, 0, __FILE__, __LINE__);
    free(expected);
    check_gradients(m, x);
    options.activation = "none";
    assert_null(gd_mlp_new(ctx, (int64_t[]){3, 2}, 2, &options));
    expect_error(ctx, GD_VALUE, "mlp: activation 'none' is unknown");
    gd_scope_end(ctx);
}

static void sequential_calls_its_parts_in_order(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_linear_options options = linear64();
    gd_module *parts[] = {gd_linear_new(ctx, 3, 4, &options), gd_activation_new(ctx, "tanh")};
    gd_module *m = gd_sequential_new(ctx, parts,
                                     2); /* outside every scope: the parts are the sequential's now */
    ok(gd_sequential_add(m, gd_linear_new(ctx, 4, 2, &options)));
    gd_scope_begin(ctx);
    ok(gd_sequential_add(m, gd_activation_new(ctx, "sigmoid"))); /* and out of the scope here */
    gd_scope_end(ctx);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_require_grad(random_tensor(ctx, 2, (int64_t[]){5, 3}));
    gd_tensor *h = gd_tanh(gd_module_call(gd_module_get_module(m, "0"), x));
    double *expected = values_of(gd_sigmoid(gd_module_call(gd_module_get_module(m, "2"), h)));
    expect_values_at(gd_module_call(m, x), 10, expected, 0, __FILE__, __LINE__);
    free(expected);
    check_gradients(m, x);
    gd_scope_end(ctx);
    gd_module_release(m);
}

static void a_part_can_be_shared_when_it_is_retained(void **state)
{
    gd_ctx *ctx = CTX(state);
    for (int scoped = 0; scoped < 2; scoped++) {
        if (scoped) gd_scope_begin(ctx);
        gd_linear_options options = linear64();
        gd_module *shared = gd_linear_new(ctx, 3, 3, &options), *m = gd_sequential_new(ctx, NULL, 0);
        ok(gd_sequential_add(m, gd_module_retain(shared)));
        ok(gd_sequential_add(m, gd_module_retain(shared))); /* twice in a row: tied weights */
        gd_named *all = gd_module_parameters(m, NULL);
        assert_int_equal(gd_named_count(all), 2);
        gd_named_release(all);
        gd_module_release(m);
        assert_true(gd_module_has(shared, "weight"));
        gd_module_release(shared);
        if (scoped) gd_scope_end(ctx);
    }
}

static void an_empty_sequential_gives_its_input(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = gd_sequential_new(ctx, NULL, 0);
    gd_tensor *x = VECTOR(ctx, 1, 2), *y = gd_module_call(m, x);
    expect_values(y, 1, 2);
    gd_release(x);
    gd_release(y);
    gd_module_release(m);
}

static void a_sequential_takes_only_what_fits(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = gd_sequential_new(ctx, NULL, 0), *linear = gd_linear_new(ctx, 1, 1, NULL);
    assert_int_equal(gd_sequential_add(linear, gd_linear_new(ctx, 1, 1, NULL)),
                     GD_TYPE); /* consumed all the same */
    expect_error(ctx, GD_TYPE, "class 'Linear' was given");
    assert_int_equal(gd_sequential_add(m, gd_linear_new(ctx, 0, 1, NULL)), GD_VALUE);
    expect_error(ctx, GD_VALUE, "linear: inputs"); /* what its maker said */
    assert_null(gd_sequential_new(ctx, (gd_module *[]){NULL, linear}, 2));
    expect_error(ctx, GD_ARGUMENT, "no module given");
    gd_module_release(m);
}

static void layers_outside_every_scope_leave_nothing_behind(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *net[] = {gd_attention_new(ctx, 4, 2, NULL), gd_layer_norm_new(ctx, 4, NULL),
                        gd_mlp_new(ctx, (int64_t[]){4, 3, 4}, 3, NULL), gd_linear_new(ctx, 4, 4, NULL)};
    gd_tensor *x = gd_ones(ctx, GD_F32, 3, (int64_t[]){2, 3, 4});
    for (int i = 0; i < 4; i++) {
        gd_tensor *y = gd_module_call(net[i], x);
        assert_int_equal(gd_size(y, 2), 4);
        gd_release(y);
        gd_module_release(net[i]);
    }
    gd_release(x);
}

static void layers_take_the_dtype_of_their_options(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_linear_options options = gd_linear_defaults();
    options.dtype = GD_BF16;
    gd_module *m = gd_linear_new(ctx, 4, 4, &options);
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(m, "weight")), GD_BF16);
    ok(gd_module_to(m, GD_F64));
    assert_int_equal(gd_tensor_dtype(gd_module_call(m, gd_zeros(ctx, GD_F64, 1, (int64_t[]){4}))), GD_F64);
    gd_scope_end(ctx);
}

/* ---- layers by other sums ---- */

typedef struct made {
    const char *name;
    gd_module *(*make)(gd_ctx *ctx);
    int ndim;
    int64_t shape[4];
} made;

static gd_module *wide_rms(gd_ctx *ctx)
{
    gd_rms_norm_options o = gd_rms_norm_defaults();
    o.dtype = GD_F64;
    return gd_rms_norm_new(ctx, 3, &o);
}
static gd_module *wide_group(gd_ctx *ctx)
{
    gd_group_norm_options o = gd_group_norm_defaults();
    o.dtype = GD_F64;
    return gd_group_norm_new(ctx, 2, 4, &o);
}
static gd_module *wide_batch(gd_ctx *ctx,
                             gd_module *(*make)(gd_ctx *, int64_t, const gd_batch_norm_options *))
{
    gd_batch_norm_options o = gd_batch_norm_defaults();
    o.dtype = GD_F64;
    return make(ctx, 2, &o);
}
static gd_module *wide_batch1d(gd_ctx *ctx) { return wide_batch(ctx, gd_batch_norm1d_new); }
static gd_module *wide_batch2d(gd_ctx *ctx) { return wide_batch(ctx, gd_batch_norm2d_new); }
static gd_module *wide_conv1d(gd_ctx *ctx)
{
    gd_conv1d_options o = gd_conv1d_defaults();
    o.dtype = GD_F64;
    o.padding = 1;
    o.stride = 2;
    return gd_conv1d_new(ctx, 2, 3, 3, &o);
}
static gd_module *conv1d_in_groups(gd_ctx *ctx)
{
    gd_conv1d_options o = gd_conv1d_defaults();
    o.dtype = GD_F64;
    o.groups = 2;
    o.dilation = 2;
    o.same = true;
    return gd_conv1d_new(ctx, 2, 4, 2, &o);
}
static gd_module *conv2d_of_pairs(gd_ctx *ctx)
{
    gd_conv2d_options o = gd_conv2d_defaults();
    o.dtype = GD_F64;
    o.padding = 1;
    o.padding_across = 0;
    o.stride_across = 2;
    o.kernel_across = 3;
    return gd_conv2d_new(ctx, 2, 2, 2, &o);
}
static gd_module *of_two(gd_ctx *ctx) { return gd_max_pool2d_new(ctx, 2, NULL); }
static gd_module *mean_of_two(gd_ctx *ctx) { return gd_avg_pool2d_new(ctx, 2, NULL); }

static void gradients_of_the_other_layers_are_right(void **state)
{
    static const made rows[] = {
        {"rms_norm", wide_rms, 2, {4, 3}},
        {"group_norm", wide_group, 3, {2, 4, 3}},
        {"batch_norm1d", wide_batch1d, 2, {5, 2}},
        {"batch_norm1d", wide_batch1d, 3, {3, 2, 4}},
        {"batch_norm2d", wide_batch2d, 4, {2, 2, 3, 2}},
        {"conv1d", wide_conv1d, 3, {2, 2, 7}},
        {"conv1d", conv1d_in_groups, 3, {2, 2, 7}},
        {"conv2d", conv2d_of_pairs, 4, {1, 2, 3, 7}},
        {"max_pool2d", of_two, 4, {1, 2, 4, 4}},
        {"avg_pool2d", mean_of_two, 4, {1, 2, 4, 4}},
        {"flatten", gd_flatten_new, 3, {2, 3, 2}},
    };
    gd_ctx *ctx = CTX(state);
    for (int i = 0; i < COUNT_OF(rows); i++) {
        gd_scope_begin(ctx);
        gd_module *m = rows[i].make(ctx);
        assert_non_null(m);
        check_gradients(m, gd_require_grad(random_tensor(ctx, rows[i].ndim, rows[i].shape)));
        gd_scope_end(ctx);
    }
}

static void batch_norm_evaluates_by_what_it_has_seen(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = wide_batch1d(ctx);
    gd_tensor *x = gd_reshape(VECTOR(ctx, 1, 10, 3, 30), 2, (int64_t[]){2, 2});
    const double small = sqrt(1 + 1e-5), large = sqrt(100 + 1e-5);
    const double trained[] = {-1 / small, -10 / large, 1 / small, 10 / large};
    double *y = values_of(gd_module_call(m, x));
    for (int i = 0; i < 4; i++) assert_true(fabs(y[i] - trained[i]) < 1e-12);
    free(y);
    /* a tenth of the way from 0 to the mean, and from 1 to the unbiased variance */
    const double mean[] = {0.2, 2}, variance[] = {1.1, 20.9};
    double *seen = values_of(gd_module_get_tensor(m, "running_mean"));
    double *spread = values_of(gd_module_get_tensor(m, "running_var"));
    for (int i = 0; i < 2; i++)
        assert_true(fabs(seen[i] - mean[i]) < 1e-12 && fabs(spread[i] - variance[i]) < 1e-12);
    ok(gd_module_eval(m));
    y = values_of(gd_module_call(m, x));
    const double input[] = {1, 10, 3, 30};
    for (int i = 0; i < 4; i++)
        assert_true(fabs(y[i] - (input[i] - mean[i % 2]) / sqrt(variance[i % 2] + 1e-5)) < 1e-12);
    free(y);
    free(seen);
    free(spread);
    gd_scope_end(ctx);
}

static void the_mode_of_a_tree_reaches_dropout(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *net = gd_sequential_new(ctx, (gd_module *[]){gd_dropout_layer_new(ctx, 0.5)}, 1);
    gd_tensor *x = gd_ones(ctx, GD_F64, 1, (int64_t[]){1000});
    assert_true(gd_module_is_training(net));
    double sum = gd_item(gd_sum(gd_module_call(net, x), NULL, false));
    assert_true(sum > 800 && sum < 1200 && sum != 1000);
    ok(gd_module_eval(net));
    assert_false(gd_module_is_training(net));
    assert_true(gd_item(gd_sum(gd_module_call(net, x), NULL, false)) == 1000);
    ok(gd_module_train(net));
    assert_null(gd_dropout_layer_new(ctx, 1));
    expect_error(ctx, GD_VALUE, "p is 1");
    gd_scope_end(ctx);
}

static void a_tied_parameter_is_listed_once(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *a = gd_linear_new(ctx, 2, 2, NULL), *b = gd_linear_new(ctx, 2, 2, NULL);
    ok(gd_module_tie(b, "weight", gd_module_get_tensor(a, "weight")));
    gd_module *net = gd_sequential_new(ctx, (gd_module *[]){a, b}, 2);
    gd_named *all = gd_module_parameters(net, NULL);
    assert_int_equal(gd_named_count(all), 3);
    ok(gd_module_to(net, GD_F64));
    assert_ptr_equal(gd_module_get_tensor(net, "0.weight"), gd_module_get_tensor(net, "1.weight"));
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(net, "1.weight")), GD_F64);
    assert_int_equal(gd_module_tie(net, "1.bias", gd_square(gd_module_get_tensor(net, "0.bias"))),
                     GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "only be tied to a parameter");
    gd_scope_end(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(linear_is_x_times_the_transposed_weight_plus_bias),
        TEST(linear_starts_uniform_within_its_bound),
        TEST(linear_without_bias_has_none),
        TEST(linear_contracts_a_named_axis),
        TEST(linear_gradients_are_right),
        TEST(wrong_sizes_are_errors),
        TEST(conv2d_is_the_sum_over_windows),
        TEST(settings_of_convolutions_reach_the_operator),
        TEST(conv2d_gradients_are_right),
        TEST(layer_norm_centres_and_scales_the_last_axis),
        TEST(embedding_takes_rows_and_gives_them_gradients),
        TEST(embedding_starts_normal),
        TEST(activations_apply_their_function),
        TEST(mlp_is_linear_layers_with_activations_between),
        TEST(sequential_calls_its_parts_in_order),
        TEST(a_part_can_be_shared_when_it_is_retained),
        TEST(an_empty_sequential_gives_its_input),
        TEST(a_sequential_takes_only_what_fits),
        TEST(layers_outside_every_scope_leave_nothing_behind),
        TEST(layers_take_the_dtype_of_their_options),
        TEST(gradients_of_the_other_layers_are_right),
        TEST(batch_norm_evaluates_by_what_it_has_seen),
        TEST(the_mode_of_a_tree_reaches_dropout),
        TEST(a_tied_parameter_is_listed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
