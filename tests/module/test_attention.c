/* Attention: values against plain loops, gradients against central differences, axis names. */
#include "layers_support.h"

/* The definition, in loops: x is [time, size]. */
static void attend(const double *x, int time, int size, int heads, bool causal, const double *wqkv,
                   const double *bqkv, const double *wout, const double *bout, double *y)
{
    double qkv[8][48], mixed[8][16];
    int depth = size / heads;
    for (int t = 0; t < time; t++)
        for (int o = 0; o < 3 * size; o++) {
            qkv[t][o] = bqkv[o];
            for (int k = 0; k < size; k++) qkv[t][o] += x[t * size + k] * wqkv[o * size + k];
        }
    for (int h = 0; h < heads; h++) {
        for (int t = 0; t < time; t++) {
            double score[8], total = 0;
            int seen = causal ? t + 1 : time;
            for (int u = 0; u < seen; u++) {
                double dot = 0;
                for (int d = 0; d < depth; d++) dot += qkv[t][h * depth + d] * qkv[u][size + h * depth + d];
                score[u] = exp(dot / sqrt(depth));
                total += score[u];
            }
            for (int d = 0; d < depth; d++) {
                mixed[t][h * depth + d] = 0;
                for (int u = 0; u < seen; u++)
                    mixed[t][h * depth + d] += score[u] / total * qkv[u][2 * size + h * depth + d];
            }
        }
    }
    for (int t = 0; t < time; t++)
        for (int o = 0; o < size; o++) {
            y[t * size + o] = bout[o];
            for (int k = 0; k < size; k++) y[t * size + o] += mixed[t][k] * wout[o * size + k];
        }
}

static gd_module *attention64(gd_ctx *ctx, int64_t size, int64_t heads, bool causal)
{
    gd_attention_options options = gd_attention_defaults();
    options.causal = causal;
    options.dtype = GD_F64;
    return gd_attention_new(ctx, size, heads, &options);
}

static void attention_is_softmax_of_scores_times_values(void **state)
{
    gd_ctx *ctx = CTX(state);
    for (int causal = 0; causal < 2; causal++) {
        gd_scope_begin(ctx);
        gd_module *m = attention64(ctx, 6, 2, causal);
        gd_tensor *x = random_tensor(ctx, 3, (int64_t[]){2, 4, 6}), *y = gd_module_call(m, x);
        double *p[4], *xv = values_of(x), expected[48];
        const char *names[] = {"qkv.weight", "qkv.bias", "out.weight", "out.bias"};
        for (int i = 0; i < 4; i++) p[i] = values_of(gd_module_get_tensor(m, names[i]));
        for (int n = 0; n < 2; n++)
            attend(xv + 24 * n, 4, 6, 2, causal, p[0], p[1], p[2], p[3], expected + 24 * n);
        expect_values_at(y, 48, expected, 1e-12, __FILE__, __LINE__);
        gd_tensor *one = gd_module_call(m, gd_index(x, "0", 1)); /* without a batch */
        assert_int_equal(gd_ndim(one), 2);
        expect_values_at(one, 24, expected + 24, 1e-12, __FILE__, __LINE__);
        for (int i = 0; i < 4; i++) free(p[i]);
        free(xv);
        gd_scope_end(ctx);
    }
}

static void causal_attention_does_not_see_the_future(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = attention64(ctx, 4, 2, true);
    gd_tensor *x = random_tensor(ctx, 2, (int64_t[]){3, 4}), *before = gd_module_call(m, x);
    double *old = values_of(before);
    ok(gd_fill(gd_slice(x, "0", 2, 3, 1), 9)); /* the last position */
    gd_tensor *after = gd_module_call(m, x);
    expect_values_at(gd_slice(after, "0", 0, 2, 1), 8, old, 0, __FILE__, __LINE__);
    double *now = values_of(after);
    assert_true(fabs(now[8] - old[8]) > 1e-6);
    free(old), free(now);
    gd_scope_end(ctx);
}

static void the_causal_keyword_overrides_the_option(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = attention64(ctx, 4, 2, false), *causal = attention64(ctx, 4, 2, true);
    gd_archive *archive = gd_module_state(m);
    ok(gd_module_load_state(causal, archive, NULL, NULL));
    gd_archive_free(archive);
    gd_tensor *x = random_tensor(ctx, 2, (int64_t[]){3, 4});
    gd_object *y = gd_invoke(gd_module_object(m), gd_tensor_object(x),
                             GD_KWARGS(gd_int_argument("causal", 1)));
    double *expected = values_of(gd_module_call(causal, x));
    expect_values_at(gd_object_tensor(y), 12, expected, 0, __FILE__, __LINE__);
    free(expected);
    gd_scope_end(ctx);
}

static void attention_keeps_axis_names_so_that_residuals_add(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = attention64(ctx, 4, 2, true);
    gd_tensor *x = gd_rename(random_tensor(ctx, 3, (int64_t[]){2, 3, 4}), "batch, time, feature");
    gd_tensor *y = gd_add(x, gd_module_call(m, x));
    assert_int_equal(gd_ndim(y), 3);
    assert_string_equal(gd_axis_name(y, 2), "feature");
    check_gradients(m, gd_require_grad(gd_detach(x)));
    gd_scope_end(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attention_is_softmax_of_scores_times_values),
        TEST(causal_attention_does_not_see_the_future),
        TEST(the_causal_keyword_overrides_the_option),
        TEST(attention_keeps_axis_names_so_that_residuals_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
