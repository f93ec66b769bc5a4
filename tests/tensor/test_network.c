/* Network operators against long double loops; names, gradients to second order, determinism, errors. */
#include "support/support.h"
#include "tensor/linalg.h"

#include <limits.h>
#include <math.h>

static gd_tensor *noise(gd_ctx *ctx, uint64_t *state, gd_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    if (!values) abort();
    for (int64_t i = 0; i < n; i++) values[i] = 2 * random_unit(state) - 1;
    gd_tensor *t = gd_from_f64(ctx, dtype, ndim, shape, values);
    free(values);
    return t;
}

static void assert_near(const gd_tensor *t, const array *want, long double factor)
{
    assert_non_null(t);
    assert_shape_at(t, want->size, want->ndim, __FILE__, __LINE__);
    array got = array_of(t);
    long double eps = epsilon_of(gd_tensor_dtype(t));
    for (int64_t i = 0; i < got.numel; i++)
        if (!(fabsl(got.v[i] - want->v[i]) <= factor * eps * (1 + fabsl(want->v[i]))))
            fail_msg("element %d: wanted %.12Lg, got %.12Lg", (int)i, want->v[i], got.v[i]);
    array_free(&got);
}

/* ---- windows ---- */

typedef struct window {
    int64_t batch, in, out, height, width, tall, wide;
    int stride, padding;
} window;

static const window windows[] = {
    {1, 1, 1, 3, 3, 2, 2, 1, 0}, {2, 3, 4, 5, 6, 3, 3, 1, 1}, {2, 3, 4, 7, 5, 3, 2, 2, 1},
    {3, 2, 2, 4, 4, 1, 1, 1, 0}, {1, 2, 3, 6, 6, 3, 3, 3, 0}, {2, 1, 1, 2, 2, 4, 4, 1, 1},
    {1, 1, 2, 1, 9, 1, 3, 2, 2}, {0, 2, 3, 4, 4, 2, 2, 1, 0}, {2, 16, 8, 20, 20, 3, 3, 1, 1},
    {3, 2, 7, 7, 6, 4, 2, 1, 2},
};

/* The value of an image at a place that may be outside. */
static long double pixel(const array *x, int64_t n, int64_t c, int64_t y, int64_t z, long double outside)
{
    if (y < 0 || z < 0 || y >= x->size[2] || z >= x->size[3]) return outside;
    return x->v[((n * x->size[1] + c) * x->size[2] + y) * x->size[3] + z];
}

static int64_t count_of(int64_t size, int64_t part, const window *w)
{
    return (size + 2 * w->padding - part) / w->stride + 1;
}

static array convolution(const array *x, const array *weight, const array *bias, const window *w)
{
    array out = array_new(
        4, (int64_t[]){w->batch, w->out, count_of(w->height, w->tall, w), count_of(w->width, w->wide, w)});
    int64_t at[4] = {0};
    for (bool more = out.numel > 0; more; more = array_next(&out, at)) {
        long double sum = bias ? bias->v[at[1]] : 0;
        for (int64_t c = 0; c < w->in; c++)
            for (int64_t y = 0; y < w->tall; y++)
                for (int64_t z = 0; z < w->wide; z++)
                    sum += weight->v[((at[1] * w->in + c) * w->tall + y) * w->wide + z] *
                           pixel(x, at[0], c, at[2] * w->stride - w->padding + y,
                                 at[3] * w->stride - w->padding + z, 0);
        out.v[array_offset(&out, at)] = sum;
    }
    return out;
}

static void conv2d_agrees_with_loops(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 1;
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < COUNT_OF(windows); i++) {
            const window *w = &windows[i];
            gd_dtype dtype = d ? GD_F32 : GD_F64;
            gd_scope_begin(ctx);
            gd_tensor *x = noise(ctx, &state, dtype, 4, (int64_t[]){w->batch, w->in, w->height, w->width});
            gd_tensor *k = noise(ctx, &state, dtype, 4, (int64_t[]){w->out, w->in, w->tall, w->wide});
            gd_tensor *b = noise(ctx, &state, dtype, 1, &w->out);
            array p = array_of(x), q = array_of(k), r = array_of(b);
            array with = convolution(&p, &q, &r, w), without = convolution(&p, &q, NULL, w);
            gd_tensor *y = gd_conv2d(x, k, b, w->stride, w->padding);
            assert_no_error(ctx);
            assert_true(gd_is_contiguous(y));
            assert_near(y, &with, 200);
            assert_near(gd_conv2d(x, k, NULL, w->stride, w->padding), &without, 200);
            array_free(&p);
            array_free(&q);
            array_free(&r);
            array_free(&with);
            array_free(&without);
            gd_scope_end(ctx);
        }
    end_context(ctx, &m);
}

/* With all settings: {batch, inputs, outputs, height, width, window height, width}, then those of gd_conv_options. */
static const struct {
    int64_t size[7];
    gd_conv_options o;
} all_settings[] = {{{2, 3, 4, 7, 9, 2, 3}, {{1, 2}, {1, 1}, {0}, 1}},
                    {{2, 4, 6, 7, 8, 3, 2}, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 2}},
                    {{1, 2, 3, 9, 8, 3, 3}, {{1, 1}, {2, 2}, {2, 2, 2, 2}, 1}},
                    {{2, 4, 4, 6, 7, 3, 3}, {{2, 1}, {1, 2}, {0, 1, 2, 3}, 4}},
                    {{1, 6, 9, 5, 11, 1, 4}, {{3, 2}, {5, 3}, {0, 0, 4, 1}, 3}},
                    {{2, 3, 2, 6, 5, 4, 4}, {{1, 1}, {1, 1}, {1, 2, 1, 2}, 1}},
                    {{1, 2, 2, 1, 12, 1, 5}, {{1, 1}, {7, 2}, {0, 0, 4, 4}, 2}},
                    {{0, 2, 2, 5, 5, 2, 2}, {{1, 1}, {2, 2}, {0}, 2}},
                    {{3, 8, 8, 12, 13, 3, 3}, {{2, 3}, {3, 2}, {3, 3, 2, 2}, 8}},
                    {{1, 1, 1, 3, 3, 2, 2}, {{4, 4}, {2, 2}, {0}, 1}}};

static array convolution_with(const array *x, const array *weight, const array *bias,
                              const gd_conv_options *o)
{
    int64_t size[4] = {x->size[0], weight->size[0]}, at[4] = {0}, in = weight->size[1];
    for (int i = 0; i < 2; i++) {
        int64_t all = x->size[2 + i] + o->padding[2 * i] + o->padding[2 * i + 1];
        size[2 + i] = (all - (weight->size[2 + i] - 1) * o->dilation[i] - 1) / o->stride[i] + 1;
    }
    array out = array_new(4, size);
    for (bool more = out.numel > 0; more; more = array_next(&out, at)) {
        int64_t first = at[1] / (weight->size[0] / o->groups) * in; /* channel of the group */
        long double sum = bias->v[at[1]];
        for (int64_t c = 0; c < in; c++)
            for (int64_t y = 0; y < weight->size[2]; y++)
                for (int64_t z = 0; z < weight->size[3]; z++)
                    sum += weight->v[((at[1] * in + c) * weight->size[2] + y) * weight->size[3] + z] *
                           pixel(x, at[0], first + c,
                                 at[2] * o->stride[0] - o->padding[0] + y * o->dilation[0],
                                 at[3] * o->stride[1] - o->padding[2] + z * o->dilation[1], 0);
        out.v[array_offset(&out, at)] = sum;
    }
    return out;
}

static gd_tensor *convolve_with(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    return gd_conv2d_with(in[0], in[1], in[2], user);
}

static void groups_dilation_and_pairs_agree_with_loops(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 11;
    for (int i = 0; i < 2 * COUNT_OF(all_settings); i++) {
        const int64_t *s = all_settings[i / 2].size;
        gd_conv_options o = all_settings[i / 2].o;
        gd_dtype dtype = i % 2 ? GD_F32 : GD_F64;
        gd_scope_begin(ctx);
        gd_tensor *in[3] = {noise(ctx, &state, dtype, 4, (int64_t[]){s[0], s[1], s[3], s[4]}),
                            noise(ctx, &state, dtype, 4, (int64_t[]){s[2], s[1] / o.groups, s[5], s[6]}),
                            noise(ctx, &state, dtype, 1, &s[2])};
        array x = array_of(in[0]), w = array_of(in[1]), b = array_of(in[2]),
              want = convolution_with(&x, &w, &b, &o);
        assert_near(gd_conv2d_with(in[0], in[1], in[2], &o), &want, 200);
        assert_no_error(ctx);
        gd_gradcheck_options check = gd_gradcheck_defaults();
        check.order = s[0] * s[1] * s[3] * s[4] < 100 ? 2 : 1;
        if (dtype == GD_F64 && s[0] && gd_gradcheck(convolve_with, &o, in, 3, &check))
            fail_msg("%d: %s", i / 2, gd_error_text(ctx));
        array_free(&x);
        array_free(&w);
        array_free(&b);
        array_free(&want);
        gd_scope_end(ctx);
    }
    end_context(ctx, &m);
}

static void wrong_settings_of_a_convolution_are_named(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_ones(ctx, GD_F64, 4, (int64_t[]){1, 4, 5, 5}),
              *w = gd_ones(ctx, GD_F64, 4, (int64_t[]){6, 2, 3, 3});
    gd_conv_options o = gd_conv_defaults();
    o.groups = 3;
    assert_null(gd_conv2d_with(x, w, NULL, &o));
    assert_error(ctx, GD_VALUE, "conv2d: 3 groups do not divide 4 channels and 6 outputs");
    o.groups = 0;
    assert_null(gd_conv2d_with(x, w, NULL, &o));
    assert_error(ctx, GD_VALUE, "conv2d: 0 groups do not divide");
    o.groups = 2;
    o.dilation[1] = 3;
    assert_null(gd_conv2d_with(x, w, NULL, &o));
    assert_error(ctx, GD_SHAPE,
                 "conv2d: a window of 3 pixels, dilation 3, does not fit the width 5 with padding 0 and 0");
    o.dilation[1] = INT_MAX;
    o.padding[2] = INT_MAX;
    assert_null(gd_conv2d_with(x, w, NULL, &o));
    assert_error(ctx, GD_SHAPE,
                 "conv2d: a window of 3 pixels, dilation 2147483647, does not fit the width 5");
    o = gd_conv_defaults();
    o.padding[3] = -1;
    assert_null(gd_conv2d_with(x, gd_ones(ctx, GD_F64, 4, (int64_t[]){6, 4, 3, 3}), NULL, &o));
    assert_error(ctx, GD_VALUE, "conv2d: a window of 3 pixels, stride 1, padding -1, dilation 1");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static array pooling(const array *x, const window *w, bool largest)
{
    array out = array_new(
        4, (int64_t[]){w->batch, w->in, count_of(w->height, w->tall, w), count_of(w->width, w->tall, w)});
    int64_t at[4] = {0};
    for (bool more = out.numel > 0; more; more = array_next(&out, at)) {
        long double best = -INFINITY, sum = 0;
        for (int64_t y = 0; y < w->tall; y++)
            for (int64_t z = 0; z < w->tall; z++) {
                int64_t row = at[2] * w->stride - w->padding + y, column = at[3] * w->stride - w->padding + z;
                best = fmaxl(best, pixel(x, at[0], at[1], row, column, -INFINITY));
                sum += pixel(x, at[0], at[1], row, column, 0);
            }
        out.v[array_offset(&out, at)] = largest ? best : sum / (long double)(w->tall * w->tall);
    }
    return out;
}

static void pooling_agrees_with_loops(void **unused)
{
    (void)unused;
    static const window cases[] = {{2, 3, 0, 6, 7, 2, 2, 2, 0}, {1, 2, 0, 5, 5, 3, 3, 1, 1},
                                   {2, 1, 0, 4, 9, 3, 3, 2, 1}, {0, 1, 0, 4, 4, 2, 2, 2, 0},
                                   {1, 1, 0, 3, 3, 3, 3, 1, 0}, {3, 8, 0, 30, 30, 2, 2, 2, 1}};
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 2;
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < COUNT_OF(cases); i++) {
            const window *w = &cases[i];
            gd_dtype dtype = d == 0 ? GD_F64 : d == 1 ? GD_F32 : GD_F16;
            gd_scope_begin(ctx);
            gd_tensor *x = noise(ctx, &state, dtype, 4, (int64_t[]){w->batch, w->in, w->height, w->width});
            array p = array_of(x), most = pooling(&p, w, true), mean = pooling(&p, w, false);
            assert_near(gd_max_pool2d(x, (int)w->tall, w->stride, w->padding), &most, 0);
            assert_near(gd_avg_pool2d(x, (int)w->tall, w->stride, w->padding), &mean, 8);
            assert_no_error(ctx);
            array_free(&p);
            array_free(&most);
            array_free(&mean);
            gd_scope_end(ctx);
        }
    end_context(ctx, &m);
}

static void labelled_channels_are_put_in_order(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    const char *rg[] = {"red", "green"}, *gr[] = {"green", "red"}, *rb[] = {"red", "blue"};
    gd_tensor *x = gd_from_f64(ctx, GD_F64, 4, (int64_t[]){1, 2, 1, 1}, (double[]){3, 5});
    gd_tensor *w = gd_from_f64(ctx, GD_F64, 4, (int64_t[]){1, 2, 1, 1}, (double[]){10, 1});
    x = gd_with_labels(gd_rename(x, "n, colour, y, x"), "colour", rg);
    w = gd_rename(w, "out, colour, _, _");
    assert_values(gd_conv2d(x, gd_with_labels(w, "colour", gr), VECTOR(ctx, 100), 1, 0), 153);
    assert_no_error(ctx);
    assert_null(gd_conv2d(x, gd_with_labels(w, "colour", rb), NULL, 1, 0));
    assert_error(ctx, GD_LABEL, "conv2d: axis 'colour' has the label 'green' only on one side");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void images_keep_their_names(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    uint64_t state = 3;
    const char *colours[] = {"red", "green"};
    gd_tensor *x = gd_rename(noise(ctx, &state, GD_F64, 4, (int64_t[]){2, 2, 5, 5}), "batch, channel, y, x");
    x = gd_with_labels(x, "channel", colours);
    gd_tensor *w = noise(ctx, &state, GD_F64, 4, (int64_t[]){2, 2, 3, 3}), *y = gd_conv2d(x, w, NULL, 1, 1);
    assert_string_equal(gd_axis_name(y, 0), "batch");
    assert_string_equal(gd_axis_name(y, 1), "channel");
    assert_null(gd_axis_label(y, 1, 0)); /* other channels than those of the image */
    assert_string_equal(gd_axis_name(y, 3), "x");
    y = gd_conv2d(x, gd_rename(w, "feature, channel, y, x"), NULL, 1, 0);
    assert_string_equal(gd_axis_name(y, 1), "feature");
    y = gd_max_pool2d(x, 2, 2, 0);
    assert_string_equal(gd_axis_name(y, 2), "y");
    assert_string_equal(gd_axis_label(y, 1, 1), "green");
    assert_string_equal(gd_axis_name(gd_avg_pool2d(x, 2, 1, 0), 3), "x");
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- the others ---- */

static void layer_norm_gives_mean_zero_and_variance_one(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    uint64_t state = 4;
    static const char *const axes[] = {"2", "1, 2", "0", NULL, "time", "time, feature"};
    static const bool over[][3] = {{0, 0, 1}, {0, 1, 1}, {1, 0, 0}, {1, 1, 1}, {0, 1, 0}, {0, 1, 1}};
    for (int a = 0; a < COUNT_OF(axes); a++) {
        gd_scope_begin(ctx);
        gd_tensor *x = gd_rename(noise(ctx, &state, GD_F64, 3, (int64_t[]){3, 4, 5}), "batch, time, feature");
        array p = array_of(x), want = array_new(3, p.size);
        int64_t at[3] = {0}, other[3];
        bool more = true;
        for (; more; more = array_next(&p, at)) {
            long double n = 0, sum = 0, squares = 0;
            memset(other, 0, sizeof other);
            for (bool go = true; go; go = array_next(&p, other)) {
                bool in = true;
                for (int i = 0; i < 3; i++) in = in && (over[a][i] || other[i] == at[i]);
                if (!in) continue;
                n++;
                sum += p.v[array_offset(&p, other)];
                squares += p.v[array_offset(&p, other)] * p.v[array_offset(&p, other)];
            }
            long double mean = sum / n, spread = squares / n - mean * mean;
            want.v[array_offset(&p, at)] = (p.v[array_offset(&p, at)] - mean) / sqrtl(spread + 1e-3L);
        }
        gd_tensor *y = gd_layer_norm(x, axes[a], NULL, NULL, 1e-3);
        assert_near(y, &want, 64);
        assert_string_equal(gd_axis_name(y, 1), "time");
        array_free(&p);
        array_free(&want);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

static void layer_norm_scales_by_place_or_by_name(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_rename(MATRIX(ctx, 2, 2, 1, 3, 10, 30), "row, f"), *w = VECTOR(ctx, 2, 3),
              *b = VECTOR(ctx, 10, 20);
    assert_values(gd_layer_norm(x, "f", w, b, 0), 8, 23, 8, 23);
    assert_values(gd_layer_norm(x, "f", gd_rename(w, "f"), gd_rename(b, "f"), 0), 8, 23, 8, 23);
    assert_values(gd_layer_norm(x, "row", gd_rename(w, "f"), NULL, 0), -2, -3, 2,
                  3); /* weights of the other axis */
    gd_tensor *square = gd_rename(MATRIX(ctx, 2, 2, 1, 2, 3, 4), "f, row");
    array y = array_of(gd_layer_norm(x, "row, f", square, NULL, 0)),
          z = array_of(gd_layer_norm(x, NULL, NULL, NULL, 0));
    assert_true(fabsl(y.v[1] - 3 * z.v[1]) < 1e-14L); /* the weight is turned to x's order */
    array_free(&y);
    array_free(&z);
    assert_null(gd_layer_norm(x, "f", VECTOR(ctx, 1, 2, 3), NULL, 0));
    assert_error(ctx, GD_SHAPE,
                 "layer_norm: a weight or bias of [3] does not fit the 1 normalised axes of [row=2, f=2]");
    assert_null(gd_layer_norm(x, "f", NULL, NULL, -1));
    assert_error(ctx, GD_VALUE, "layer_norm: eps is -1");
    assert_null(gd_layer_norm(x, "z", NULL, NULL, 0));
    assert_error(ctx, GD_AXIS, "layer_norm: no axis 'z'");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void embedding_looks_rows_up(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *table = gd_rename(MATRIX(ctx, 3, 2, 1, 2, 3, 4, 5, 6), "word, feature");
    gd_tensor *index = gd_rename(gd_reshape(INDEX(ctx, 2, 0, 1, 1), 2, (int64_t[]){2, 2}), "batch, time");
    gd_tensor *y = gd_embedding(table, index);
    assert_shape(y, 2, 2, 2);
    assert_values(y, 5, 6, 1, 2, 3, 4, 3, 4);
    assert_string_equal(gd_axis_name(y, 0), "batch");
    assert_string_equal(gd_axis_name(y, 1), "time");
    assert_string_equal(gd_axis_name(y, 2), "feature");
    assert_values(gd_embedding(table, gd_index(INDEX(ctx, 1), "0", 0)), 3, 4);
    assert_shape(gd_embedding(VECTOR(ctx, 7, 8, 9), index), 2, 2);
    assert_no_error(ctx);
    assert_null(gd_embedding(table, INDEX(ctx, 3)));
    assert_int_equal(gd_error(ctx), GD_INDEX);
    gd_clear_error(ctx);
    assert_null(gd_embedding(table, VECTOR(ctx, 1)));
    assert_int_equal(gd_error(ctx), GD_DTYPE);
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void dropout_keeps_the_mean_and_repeats_with_the_seed(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_rename(gd_ones(ctx, GD_F32, 2, (int64_t[]){300, 400}), "a, b");
    gd_seed(ctx, 5);
    gd_tensor *y = gd_dropout(x, 0.25), *again;
    assert_string_equal(gd_axis_name(y, 1), "b");
    array v = array_of(y);
    int64_t kept = 0;
    for (int64_t i = 0; i < v.numel; i++) {
        assert_true(v.v[i] == 0 || fabsl(v.v[i] - 4 / 3.0L) < 1e-6L);
        kept += v.v[i] != 0;
    }
    assert_true(labs((long)kept - 90000) < 750); /* five standard deviations */
    gd_seed(ctx, 5);
    again = gd_dropout(x, 0.25);
    array w = array_of(again);
    for (int64_t i = 0; i < v.numel; i++) assert_true(v.v[i] == w.v[i]);
    array_free(&v);
    array_free(&w);
    assert_values(gd_dropout(VECTOR(ctx, 1, 2), 0), 1, 2);
    assert_no_error(ctx);
    assert_null(gd_dropout(x, 1));
    assert_error(ctx, GD_VALUE, "dropout: p is 1, must be at least 0 and below 1");
    assert_null(gd_dropout(INDEX(ctx, 1), 0.5));
    assert_error(ctx, GD_DTYPE, "dropout: needs a floating dtype");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void losses_agree_with_their_definition(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *logits = MATRIX(ctx, 2, 3, 1, 2, 3, -1, 0, 500), *classes = INDEX(ctx, 0, 2);
    double first = log(1 + exp(1) + exp(2)), want = (first + 0) / 2;
    assert_values(gd_cross_entropy(logits, classes), want);
    assert_values(gd_cross_entropy(logits, gd_cast(classes, GD_I32)), want);
    assert_values(gd_cross_entropy(logits, gd_cast(classes, GD_U8)), want);
    const char *ab[] = {"a", "b"}, *ba[] = {"b", "a"};
    gd_tensor *l = gd_with_labels(gd_rename(logits, "n, class"), "n", ab);
    gd_tensor *c = gd_with_labels(gd_rename(INDEX(ctx, 2, 0), "n"), "n", ba);
    assert_values(gd_cross_entropy(l, c), want);
    assert_values(gd_mse(VECTOR(ctx, 1, 2, 3), VECTOR(ctx, 2, 2, 5)), 5.0 / 3);
    assert_no_error(ctx);
    assert_null(gd_cross_entropy(logits, INDEX(ctx, 0, 3)));
    assert_int_equal(gd_error(ctx), GD_INDEX);
    gd_clear_error(ctx);
    assert_null(gd_cross_entropy(logits, INDEX(ctx, 0, -1)));
    assert_int_equal(gd_error(ctx), GD_INDEX);
    gd_clear_error(ctx);
    assert_null(gd_cross_entropy(logits, INDEX(ctx, 0, 1, 2)));
    assert_error(ctx, GD_SHAPE,
                 "cross_entropy: needs logits [n, classes] and classes [n], got [2, 3] and [3]");
    assert_null(gd_cross_entropy(logits, VECTOR(ctx, 0, 1)));
    assert_error(ctx, GD_DTYPE, "cross_entropy: the classes are f64, not integers");
    assert_null(gd_mse(VECTOR(ctx, 1), NULL));
    assert_error(ctx, GD_ARGUMENT, "mse: an operand is NULL");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- gradients ---- */

enum { CONV, CONV_BIAS, MAX_POOL, AVG_POOL, LAYER_NORM, EMBEDDING, DROPOUT, CROSS_ENTROPY, MSE };

typedef struct scene {
    int kind, stride, padding;
    gd_tensor *index;
} scene;

static gd_tensor *function_of(void *user, gd_tensor *const *in, int count)
{
    const scene *s = user;
    (void)count;
    switch (s->kind) {
    case CONV: return gd_conv2d(in[0], in[1], NULL, s->stride, s->padding);
    case CONV_BIAS: return gd_conv2d(in[0], in[1], in[2], s->stride, s->padding);
    case MAX_POOL: return gd_max_pool2d(in[0], 2, s->stride, s->padding);
    case AVG_POOL: return gd_avg_pool2d(in[0], 2, s->stride, s->padding);
    case LAYER_NORM: return gd_layer_norm(in[0], "-1", in[1], in[2], 1e-2);
    case EMBEDDING: return gd_embedding(in[0], s->index);
    case DROPOUT: gd_seed(gd_tensor_ctx(in[0]), 3); return gd_dropout(in[0], 0.5);
    case CROSS_ENTROPY: return gd_cross_entropy(in[0], s->index);
    default: return gd_mse(in[0], in[1]);
    }
}

static void check_gradient(gd_ctx *ctx, scene s, gd_tensor *const *in, int count)
{
    gd_gradcheck_options o = gd_gradcheck_defaults();
    o.order = 2;
    gd_status status = gd_gradcheck(function_of, &s, in, count, &o);
    if (status) print_error("kind %d\n", s.kind);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
}

static void gradients_pass_the_check_to_second_order(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 2, NULL);
    uint64_t state = 6;
    for (int round = 0; round < 4; round++) {
        gd_scope_begin(ctx);
        int stride = 1 + round % 2, padding = round / 2;
        gd_tensor *x = noise(ctx, &state, GD_F64, 4, (int64_t[]){2, 2, 3, 4}),
                  *m = noise(ctx, &state, GD_F64, 2, (int64_t[]){3, 4});
        gd_tensor *w = noise(ctx, &state, GD_F64, 4, (int64_t[]){2, 2, 2, 2}),
                  *v = noise(ctx, &state, GD_F64, 1, (int64_t[]){4});
        if (round == 1) x = gd_rename(x, "n, c, y, x");
        if (round == 2) x = gd_transpose(gd_copy(gd_transpose(x, 1, 3)), 1, 3);
        if (round == 3) m = gd_transpose(gd_copy(gd_transpose(m, 0, 1)), 0, 1);
        check_gradient(ctx, (scene){CONV, stride, padding, NULL}, (gd_tensor *[]){x, w}, 2);
        check_gradient(ctx, (scene){CONV_BIAS, stride, padding, NULL},
                       (gd_tensor *[]){x, w, VECTOR(ctx, 1, 2)}, 3);
        check_gradient(ctx, (scene){MAX_POOL, stride, padding, NULL}, &x, 1);
        check_gradient(ctx, (scene){AVG_POOL, stride, padding, NULL}, &x, 1);
        check_gradient(ctx, (scene){LAYER_NORM, 0, 0, NULL}, (gd_tensor *[]){m, v, gd_square(v)}, 3);
        check_gradient(ctx, (scene){EMBEDDING, 0, 0, INDEX(ctx, 2, 0, 2)}, &m, 1);
        check_gradient(ctx, (scene){DROPOUT, 0, 0, NULL}, &m, 1);
        check_gradient(ctx, (scene){CROSS_ENTROPY, 0, 0, INDEX(ctx, 2, 0, 3)}, &m, 1);
        check_gradient(ctx, (scene){MSE, 0, 0, NULL}, (gd_tensor *[]){m, gd_sin(m)}, 2);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

/* ---- determinism, errors ---- */

static void bits_do_not_depend_on_the_threads(void **unused)
{
    (void)unused;
    enum { SIZE = 4 * 8 * 30 * 30 };
    float *first = malloc(SIZE * sizeof *first), *other = malloc(SIZE * sizeof *other);
    if (!first || !other) abort();
    for (int threads = 1; threads <= 4; threads *= 2) {
        gd_ctx *ctx = context(NULL, threads, NULL);
        gd_scope_begin(ctx);
        uint64_t state = 7;
        float *out = threads == 1 ? first : other;
        gd_tensor *x = gd_require_grad(noise(ctx, &state, GD_F32, 4, (int64_t[]){4, 8, 30, 30}));
        gd_tensor *w = noise(ctx, &state, GD_F32, 4, (int64_t[]){16, 8, 3, 3});
        gd_tensor *y = gd_max_pool2d(gd_layer_norm(gd_conv2d(x, w, NULL, 1, 1), "1", NULL, NULL, 1e-5), 2, 2,
                                     0);
        assert_int_equal(gd_backward(gd_sum(gd_square(gd_dropout(y, 0.1)), NULL, false), NULL, 0), GD_OK);
        assert_int_equal(gd_read(gd_grad_of(x), out, SIZE * sizeof *out), GD_OK);
        if (threads > 1) assert_memory_equal(first, other, SIZE * sizeof *first);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
    free(first);
    free(other);
}

static void bad_images_are_named(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_ones(ctx, GD_F64, 4, (int64_t[]){1, 3, 4, 4}),
              *w = gd_ones(ctx, GD_F64, 4, (int64_t[]){2, 3, 5, 5});
    assert_null(gd_conv2d(x, w, NULL, 1, 0));
    assert_error(ctx, GD_SHAPE,
                 "conv2d: a window of 5 pixels, dilation 1, does not fit the height 4 with padding 0 and 0");
    assert_null(gd_conv2d(x, w, NULL, 0, 1));
    assert_error(ctx, GD_VALUE, "conv2d: a window of 5 pixels, stride 0, padding 1, dilation 1");
    assert_null(gd_conv2d(x, gd_ones(ctx, GD_F64, 4, (int64_t[]){2, 4, 1, 1}), NULL, 1, 0));
    assert_error(ctx, GD_SHAPE,
                 "conv2d: the image has 3 channels, the weight 4; shapes [1, 3, 4, 4] and [2, 4, 1, 1]");
    assert_null(gd_conv2d(x, w, VECTOR(ctx, 1), 1, 1));
    assert_error(ctx, GD_SHAPE, "conv2d: the bias is [1], the weight has 2 output channels");
    assert_null(gd_conv2d(VECTOR(ctx, 1), w, NULL, 1, 1));
    assert_error(ctx, GD_SHAPE, "conv2d: needs [batch, channel, height, width], got [1]");
    assert_null(gd_conv2d(x, VECTOR(ctx, 1), NULL, 1, 1));
    assert_error(ctx, GD_SHAPE, "conv2d: the weight must be [out, in, height, width], got [1]");
    assert_null(gd_max_pool2d(x, 2, 1, 2));
    assert_error(ctx, GD_VALUE, "max_pool2d: padding 2 is more than half of the window 2");
    assert_null(gd_avg_pool2d(x, 0, 1, 0));
    assert_error(ctx, GD_VALUE, "avg_pool2d: a window of 0 x 0");
    assert_null(gd_max_pool2d(gd_cast(x, GD_I64), 2, 1, 0));
    assert_error(ctx, GD_DTYPE, "max_pool2d: needs a floating dtype");
    assert_null(gd_conv2d(NULL, NULL, NULL, 1, 1));
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

/* Every operator of this file, with gradients; true when all of it worked. */
static bool touch_everything(gd_ctx *ctx)
{
    uint64_t state = 8;
    gd_tensor *x = noise(ctx, &state, GD_F64, 4, (int64_t[]){1, 2, 4, 4}),
              *w = noise(ctx, &state, GD_F64, 4, (int64_t[]){2, 2, 2, 2});
    x = gd_require_grad(gd_detach(gd_rename(x, "n, c, y, x")));
    gd_tensor *b = VECTOR(ctx, 1, 2), *y = gd_conv2d(x, w, b, 1, 1);
    y = gd_avg_pool2d(gd_max_pool2d(y, 2, 1, 0), 2, 1, 0);
    y = gd_dropout(gd_layer_norm(y, "y, x", NULL, gd_ones(ctx, GD_F64, 2, (int64_t[]){3, 3}), 1e-3), 0.2);
    gd_tensor *flat = gd_reshape(y, 2, (int64_t[]){6, 3}), *index = INDEX(ctx, 0, 1, 2, 0, 1, 2);
    gd_tensor *loss = gd_cross_entropy(gd_embedding(flat, index), index);
    loss = gd_add(loss, gd_mse(flat, gd_zeros_like(flat)));
    return loss && gd_backward(loss, NULL, 0) == GD_OK;
}

static void every_failed_allocation_is_an_error_without_a_leak(void **unused)
{
    (void)unused;
    fail_each_allocation(2, touch_everything);
}

/* Taps that never see a pixel take nothing of it, whatever it holds. */
static void infinity_reaches_only_weights_that_see_it(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int dtype = GD_F32; dtype <= GD_F64; dtype++)
        for (int corner = 0; corner < 2; corner++) {
            double pixels[25];
            for (int i = 0; i < 25; i++) pixels[i] = i % 7 - 3;
            pixels[corner ? 24 : 0] = INFINITY;
            gd_scope_begin(ctx);
            gd_tensor *x = gd_from_f64(ctx, dtype, 4, (int64_t[]){1, 1, 5, 5}, pixels);
            gd_tensor *g = gd_ones(ctx, dtype, 4, (int64_t[]){1, 1, 5, 5});
            array w = array_of(gd__conv2d_weight(g, x, &(gd_convolution){1, 1}, 3, 3));
            for (int k = 0; k < 9; k++) {
                bool unseen = corner ? k / 3 == 0 || k % 3 == 0 : k / 3 == 2 || k % 3 == 2;
                long double sum = 0;
                for (int i = 0; i < 25; i++) {
                    int y = i / 5 - 1 + k / 3, z = i % 5 - 1 + k % 3;
                    if (y >= 0 && z >= 0 && y < 5 && z < 5) sum += pixels[y * 5 + z];
                }
                assert_int_equal(unseen, isfinite(w.v[k]) != 0);
                if (unseen) assert_true(w.v[k] == sum);
            }
            array_free(&w);
            gd_scope_end(ctx);
        }
    gd_ctx_free(ctx);
}

static void conv2d_of_two_dtypes_is_of_the_wider(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *x = gd_ones(ctx, GD_F32, 4, (int64_t[]){1, 1, 3, 3});
    gd_tensor *w = gd_ones(ctx, GD_F64, 4, (int64_t[]){1, 1, 2, 2}),
              *bias = gd_ones(ctx, GD_F16, 1, (int64_t[]){1});
    gd_tensor *y = gd_conv2d(x, w, bias, 1, 0);
    assert_int_equal(gd_tensor_dtype(y), GD_F64);
    array got = array_of(y);
    for (int i = 0; i < 4; i++) assert_true(got.v[i] == 5);
    array_free(&got);
    gd_release(y);
    gd_release(bias);
    gd_release(w);
    gd_release(x);
    gd_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv2d_agrees_with_loops),
        cmocka_unit_test(groups_dilation_and_pairs_agree_with_loops),
        cmocka_unit_test(wrong_settings_of_a_convolution_are_named),
        cmocka_unit_test(conv2d_of_two_dtypes_is_of_the_wider),
        cmocka_unit_test(infinity_reaches_only_weights_that_see_it),
        cmocka_unit_test(pooling_agrees_with_loops),
        cmocka_unit_test(labelled_channels_are_put_in_order),
        cmocka_unit_test(images_keep_their_names),
        cmocka_unit_test(layer_norm_gives_mean_zero_and_variance_one),
        cmocka_unit_test(layer_norm_scales_by_place_or_by_name),
        cmocka_unit_test(embedding_looks_rows_up),
        cmocka_unit_test(dropout_keeps_the_mean_and_repeats_with_the_seed),
        cmocka_unit_test(losses_agree_with_their_definition),
        cmocka_unit_test(gradients_pass_the_check_to_second_order),
        cmocka_unit_test(bits_do_not_depend_on_the_threads),
        cmocka_unit_test(bad_images_are_named),
        cmocka_unit_test(every_failed_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
