/* gd_matmul, gd_dot and gd_outer: values against long double loops over dtypes, sizes and layouts, NumPy's shape rules,
 * names and labels, the same bits on any number of threads, gradients, errors. */
#include "support/support.h"
#include "tensor/linalg.h"

#include <math.h>

static gd_tensor *noise(gd_ctx *ctx, uint64_t *state, gd_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    if (!values) abort();
    for (int64_t i = 0; i < n; i++)
        values[i] = gd_dtype_is_float(dtype) ? 2 * random_unit(state) - 1 : (double)random_below(state, 7);
    gd_tensor *t = gd_from_f64(ctx, dtype, ndim, shape, values);
    free(values);
    return t;
}

/* Every element of c against the sum of products in long double; matrices are the last two axes, batches broadcast. */
static void check_product(const gd_tensor *a, const gd_tensor *b, const gd_tensor *c)
{
    assert_non_null(c);
    array x = array_of(a), y = array_of(b), z = array_of(c);
    int n = z.ndim;
    int64_t inner = x.size[x.ndim - 1], index[GD_MAX_DIMS] = {0};
    long double eps = epsilon_of(gd_tensor_dtype(c));
    for (bool more = z.numel > 0; more; more = array_next(&z, index)) {
        int64_t left[GD_MAX_DIMS], right[GD_MAX_DIMS];
        memcpy(left, index, sizeof left);
        memcpy(right, index, sizeof right);
        long double sum = 0, scale = 0;
        for (int64_t k = 0; k < inner; k++) {
            left[n - 1] = right[n - 2] = k;
            long double term = array_broadcast(&x, left, n) * array_broadcast(&y, right, n);
            sum += term;
            scale += fabsl(term);
        }
        long double work = eps > 0x1p-20L ? 0x1p-23L : eps; /* halves are summed in f32 and rounded once */
        long double bound = work * (long double)(inner + 2) * scale + eps * fabsl(sum);
        if (fabsl(z.v[array_offset(&z, index)] - sum) > bound)
            fail_msg("element %d: wanted %.17Lg, got %.17Lg", (int)array_offset(&z, index), sum,
                     z.v[array_offset(&z, index)]);
    }
    array_free(&x);
    array_free(&y);
    array_free(&z);
}

/* ---- values ---- */

static const int64_t sizes[][3] = {
    {1, 1, 1},     {2, 3, 4},     {3, 1, 5},     {4, 4, 4},    {5, 7, 1},     {1, 9, 6},
    {1, 300, 1},   {8, 8, 8},     {17, 33, 9},   {70, 3, 130}, {300, 40, 50}, {50, 40, 300},
    {129, 65, 67}, {9, 5000, 3},  {0, 3, 2},     {2, 0, 3},    {3, 2, 0},     {1, 20000, 1},
    {700, 300, 1}, {1, 300, 900}, {64, 4500, 3}, {2, 5, 4500}, {600, 16, 40},
};

enum { PLAIN, TRANSPOSED, STEPPED, FLIPPED, SPREAD, LAYOUTS };

/* A rows x columns matrix of noise in one of several layouts. */
static gd_tensor *laid_out(gd_ctx *ctx, uint64_t *state, gd_dtype dtype, int64_t rows, int64_t columns,
                           int layout)
{
    switch (layout) {
    case TRANSPOSED: return gd_transpose(noise(ctx, state, dtype, 2, (int64_t[]){columns, rows}), 0, 1);
    case STEPPED:
        return gd_slice(noise(ctx, state, dtype, 2, (int64_t[]){rows, 2 * columns}), "1", 0, 2 * columns, 2);
    case FLIPPED: return gd_flip(noise(ctx, state, dtype, 2, (int64_t[]){rows, columns}), "0, 1");
    case SPREAD:
        return gd_expand(noise(ctx, state, dtype, 2, (int64_t[]){1, columns}), 2, (int64_t[]){rows, columns});
    default: return noise(ctx, state, dtype, 2, (int64_t[]){rows, columns});
    }
}

static void products_agree_with_loops_for_every_dtype_size_and_layout(void **unused)
{
    (void)unused;
    static const gd_dtype dtypes[] = {GD_F64, GD_F32, GD_I64, GD_F16, GD_BF16, GD_I32, GD_U8};
    uint64_t state = 1;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    for (int d = 0; d < COUNT_OF(dtypes); d++)
        for (int s = 0; s < COUNT_OF(sizes); s++)
            for (int layout = 0; layout < (d < 3 ? LAYOUTS * LAYOUTS : 1); layout += emulated_share()) {
                if (layout && sizes[s][0] * sizes[s][1] * sizes[s][2] > 400000) continue;
                gd_scope_begin(ctx);
                gd_tensor *a = laid_out(ctx, &state, dtypes[d], sizes[s][0], sizes[s][1], layout % LAYOUTS);
                gd_tensor *b = laid_out(ctx, &state, dtypes[d], sizes[s][1], sizes[s][2], layout / LAYOUTS);
                gd_tensor *c = gd_matmul(a, b);
                assert_no_error(ctx);
                if (dtypes[d] != GD_U8) check_product(a, b, c);
                assert_int_equal(gd_tensor_dtype(c), dtypes[d]);
                gd_scope_end(ctx);
            }
    end_context(ctx, &m);
}

static void batches_broadcast_from_the_right(void **unused)
{
    (void)unused;
    static const struct {
        int na, nb;
        int64_t a[5], b[5], out[5];
        int n;
    } cases[] = {
        {3, 3, {4, 2, 3}, {4, 3, 5}, {4, 2, 5}, 3},
        {3, 2, {4, 2, 3}, {3, 5}, {4, 2, 5}, 3},
        {2, 3, {2, 3}, {4, 3, 5}, {4, 2, 5}, 3},
        {4, 3, {6, 1, 2, 3}, {4, 3, 5}, {6, 4, 2, 5}, 4},
        {4, 4, {1, 4, 2, 3}, {6, 1, 3, 5}, {6, 4, 2, 5}, 4},
        {3, 3, {0, 2, 3}, {1, 3, 5}, {0, 2, 5}, 3},
        {3, 3, {300, 2, 3}, {300, 3, 2}, {300, 2, 2}, 3},
        {3, 3, {3, 90, 80}, {3, 80, 70}, {3, 90, 70}, 3},
        {4, 2, {2, 3, 40, 30}, {30, 20}, {2, 3, 40, 20}, 4},
    };
    uint64_t state = 2;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++)
        for (int turned = 0; turned < 2; turned++) {
            gd_scope_begin(ctx);
            gd_tensor *a = noise(ctx, &state, GD_F64, cases[i].na, cases[i].a);
            if (turned) a = gd_transpose(gd_copy(gd_transpose(a, 0, -1)), 0, -1);
            gd_tensor *b = noise(ctx, &state, GD_F64, cases[i].nb, cases[i].b), *c = gd_matmul(a, b);
            assert_no_error(ctx);
            assert_shape_at(c, cases[i].out, cases[i].n, __FILE__, __LINE__);
            check_product(a, b, c);
            gd_scope_end(ctx);
        }
    end_context(ctx, &m);
}

static void vectors_are_rows_on_the_left_and_columns_on_the_right(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *v = VECTOR(ctx, 1, 2), *w = VECTOR(ctx, 3, 4, 5), *a = MATRIX(ctx, 2, 3, 1, 2, 3, 4, 5, 6);
    gd_tensor *vv = gd_matmul(v, v), *va = gd_matmul(v, a), *aw = gd_matmul(a, w);
    assert_int_equal(gd_ndim(vv), 0);
    assert_values(vv, 5);
    assert_shape(va, 3);
    assert_values(va, 9, 12, 15);
    assert_shape(aw, 2);
    assert_values(aw, 26, 62);
    gd_tensor *stack = gd_stack((gd_tensor *[]){a, gd_mul_scalar(a, 2)}, 2, 0, NULL);
    assert_shape(gd_matmul(stack, w), 2, 2);
    assert_values(gd_matmul(stack, w), 26, 62, 52, 124);
    assert_shape(gd_matmul(v, stack), 2, 3);
    assert_values(gd_dot(v, VECTOR(ctx, -1, 3)), 5);
    assert_shape(gd_outer(v, w), 2, 3);
    assert_values(gd_outer(v, w), 3, 4, 5, 6, 8, 10);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void nan_in_an_operand_reaches_only_its_row_and_column(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    uint64_t state = 3;
    gd_tensor *a = noise(ctx, &state, GD_F64, 2, (int64_t[]){20, 30});
    gd_tensor *b = noise(ctx, &state, GD_F64, 2, (int64_t[]){30, 25});
    ((double *)gd_data_mut(a))[3 * 30 + 4] = NAN;
    array c = array_of(gd_matmul(a, b));
    for (int64_t i = 0; i < c.numel; i++) assert_int_equal(isnan(c.v[i]) != 0, i / 25 == 3);
    array_free(&c);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- names and labels ---- */

static void surviving_names_are_carried(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    uint64_t state = 4;
    gd_tensor *x = gd_rename(noise(ctx, &state, GD_F64, 3, (int64_t[]){4, 2, 3}), "batch, row, in");
    gd_tensor *w = gd_rename(noise(ctx, &state, GD_F64, 2, (int64_t[]){3, 5}), "feature, out");
    gd_tensor *y = gd_matmul(x, w);
    assert_string_equal(gd_axis_name(y, 0), "batch");
    assert_string_equal(gd_axis_name(y, 1), "row");
    assert_string_equal(gd_axis_name(y, 2), "out");
    check_product(x, w, y);
    gd_tensor *v = gd_rename(noise(ctx, &state, GD_F64, 1, (int64_t[]){3}), "in");
    y = gd_matmul(x, v);
    assert_shape(y, 4, 2);
    assert_string_equal(gd_axis_name(y, 1), "row");
    /* a name cannot be there twice: the right one becomes anonymous */
    gd_tensor *a = gd_rename(noise(ctx, &state, GD_F64, 2, (int64_t[]){4, 3}), "sample, feature");
    y = gd_matmul(a, gd_transpose(a, 0, 1));
    assert_string_equal(gd_axis_name(y, 0), "sample");
    assert_null(gd_axis_name(y, 1));
    y = gd_outer(gd_rename(VECTOR(ctx, 1, 2), "i"), gd_rename(VECTOR(ctx, 3, 4), "j"));
    assert_string_equal(gd_axis_name(y, 0), "i");
    assert_string_equal(gd_axis_name(y, 1), "j");
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void named_batches_meet_by_name(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    uint64_t state = 5;
    gd_tensor *a = noise(ctx, &state, GD_F64, 4, (int64_t[]){2, 3, 4, 5});
    gd_tensor *b = noise(ctx, &state, GD_F64, 4, (int64_t[]){2, 3, 5, 6});
    a = gd_rename(a, "head, time, q, d");
    b = gd_rename(gd_transpose(b, 0, 1), "time, head, d, k");
    gd_tensor *got = gd_matmul(a, b);
    assert_string_equal(gd_axis_name(got, 0), "head");
    assert_string_equal(gd_axis_name(got, 1), "time");
    assert_string_equal(gd_axis_name(got, 2), "q");
    assert_string_equal(gd_axis_name(got, 3), "k");
    check_product(gd_drop_names(a), gd_transpose(gd_drop_names(b), 0, 1), got);
    /* a batch axis that only one side has */
    gd_tensor *c = gd_matmul(a, gd_rename(noise(ctx, &state, GD_F64, 3, (int64_t[]){3, 5, 6}), "time, d, k"));
    assert_shape(c, 2, 3, 4, 6);
    assert_string_equal(gd_axis_name(c, 1), "time");
    assert_no_error(ctx);
    assert_null(gd_matmul(a, gd_rename(noise(ctx, &state, GD_F64, 3, (int64_t[]){2, 5, 6}), "time, d, k")));
    assert_error(ctx, GD_SHAPE, "matmul: axis 'time' has 3 on the left and 2 on the right");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void labels_of_the_inner_axis_are_matched(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    const char *abc[] = {"a", "b", "c"}, *cab[] = {"c", "a", "b"}, *abd[] = {"a", "b", "d"},
               *rows[] = {"one", "two"};
    gd_tensor *x = gd_rename(MATRIX(ctx, 2, 3, 1, 2, 3, 4, 5, 6), "row, f");
    x = gd_with_labels(gd_with_labels(x, "f", abc), "row", rows);
    gd_tensor *w = gd_with_labels(gd_rename(VECTOR(ctx, 30, 10, 20), "f"), "f", cab), *y = gd_matmul(x, w);
    assert_values(y, 10 + 40 + 90, 40 + 100 + 180);
    assert_string_equal(gd_axis_label(y, 0, 1), "two");
    assert_null(gd_matmul(x, gd_with_labels(w, "f", abd)));
    assert_error(ctx, GD_LABEL, "matmul: axis 'f' has the label 'c' only on one side");
    assert_values(gd_dot(gd_index(x, "row", 0), w), 140);
    assert_values(gd_matmul(x, gd_rename(w, "g")), 30 + 20 + 60, 120 + 50 + 120); /* another axis: by place */
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- determinism ---- */

static void bits_do_not_depend_on_the_threads(void **unused)
{
    (void)unused;
    static const int64_t shapes[][4] = {
        {1, 512, 256, 512}, {1, 1000, 300, 130}, {1, 64, 9000, 32},  {1, 1, 100000, 1},  {1, 2000, 700, 1},
        {1, 1, 700, 2000},  {200, 9, 8, 7},      {3, 150, 150, 150}, {1, 10, 300, 5000}, {5, 300, 40, 300},
    };
    for (int s = 0; s<COUNT_OF(shapes); s += emulated_share()> 1 ? 4 : 1)
        for (int d = 0; d < 2; d++) {
            gd_dtype dtype = d ? GD_F64 : GD_F32;
            const int64_t *z = shapes[s];
            size_t bytes = (size_t)(z[0] * z[1] * z[3]) * gd_dtype_size(dtype);
            char *first = malloc(bytes), *other = malloc(bytes);
            if (!first || !other) abort();
            for (int threads = 1; threads <= 4; threads *= 2) {
                gd_ctx *ctx = context(NULL, threads, NULL);
                gd_scope_begin(ctx);
                uint64_t state = 77;
                gd_tensor *a = noise(ctx, &state, dtype, 3, (int64_t[]){z[0], z[1], z[2]});
                gd_tensor *b = noise(ctx, &state, dtype, 3, (int64_t[]){z[0], z[2], z[3]});
                assert_int_equal(gd_read(gd_matmul(a, b), threads == 1 ? first : other, bytes), GD_OK);
                if (threads > 1) assert_memory_equal(first, other, bytes);
                gd_scope_end(ctx);
                end_context(ctx, NULL);
            }
            free(first);
            free(other);
        }
}

/* ---- gradients ---- */

static gd_tensor *product_of(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    return gd_matmul(in[0], in[1]);
}

static gd_tensor *outer_of(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    return gd_outer(in[0], in[1]);
}

static void gradients_pass_the_check_to_second_order(void **unused)
{
    (void)unused;
    static const struct {
        int na, nb;
        int64_t a[4], b[4];
        const char *names_a, *names_b;
    } cases[] = {
        {2, 2, {2, 3}, {3, 4}, NULL, NULL},
        {1, 1, {4}, {4}, NULL, NULL},
        {1, 2, {3}, {3, 2}, NULL, NULL},
        {2, 1, {2, 3}, {3}, NULL, NULL},
        {3, 2, {2, 2, 3}, {3, 2}, NULL, NULL},
        {2, 3, {2, 3}, {2, 3, 2}, NULL, NULL},
        {4, 3, {2, 1, 2, 3}, {2, 3, 2}, NULL, NULL},
        {2, 2, {0, 3}, {3, 2}, NULL, NULL},
        {2, 2, {2, 0}, {0, 2}, NULL, NULL},
        {3, 3, {2, 2, 3}, {2, 3, 2}, "b, i, k", "b, k, j"},
        {4, 4, {2, 3, 1, 2}, {3, 2, 2, 2}, "b, h, i, k", "h, b, k, j"},
    };
    uint64_t state = 6;
    gd_gradcheck_options o = gd_gradcheck_defaults();
    o.order = 2;
    gd_ctx *ctx = context(NULL, 2, NULL);
    for (int i = 0; i < COUNT_OF(cases); i++)
        for (int turned = 0; turned < 2; turned++) {
            gd_scope_begin(ctx);
            gd_tensor *a = noise(ctx, &state, GD_F64, cases[i].na, cases[i].a);
            gd_tensor *b = noise(ctx, &state, GD_F64, cases[i].nb, cases[i].b);
            if (turned && cases[i].na > 1) a = gd_transpose(gd_copy(gd_transpose(a, -1, -2)), -1, -2);
            if (cases[i].names_a) a = gd_rename(a, cases[i].names_a);
            if (cases[i].names_b) b = gd_rename(b, cases[i].names_b);
            gd_status status = gd_gradcheck(product_of, NULL, (gd_tensor *[]){a, b}, 2, &o);
            assert_no_error(ctx);
            assert_int_equal(status, GD_OK);
            gd_scope_end(ctx);
        }
    gd_scope_begin(ctx);
    gd_tensor *v[2] = {VECTOR(ctx, 1, 2, 3), VECTOR(ctx, -1, 0.5)};
    assert_int_equal(gd_gradcheck(outer_of, NULL, v, 2, &o), GD_OK);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void a_gradient_has_the_axes_of_its_operand(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    const char *abc[] = {"a", "b", "c"}, *cab[] = {"c", "a", "b"};
    gd_tensor *x = gd_with_labels(gd_rename(MATRIX(ctx, 2, 3, 1, 2, 3, 4, 5, 6), "row, f"), "f", abc);
    gd_tensor *w = gd_require_grad(gd_detach(gd_with_labels(gd_rename(VECTOR(ctx, 1, 1, 1), "f"), "f", cab)));
    assert_int_equal(gd_backward(gd_sum(gd_matmul(x, w), NULL, false), NULL, 0), GD_OK);
    gd_tensor *g = gd_grad_of(w);
    assert_string_equal(gd_axis_name(g, 0), "f");
    assert_string_equal(gd_axis_label(g, 0, 0), "c");
    assert_values(g, 9, 5, 7);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- errors ---- */

static void bad_operands_are_named(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *a = gd_ones(ctx, GD_F64, 2, (int64_t[]){2, 4}),
              *b = gd_ones(ctx, GD_F64, 2, (int64_t[]){3, 5});
    assert_null(gd_matmul(a, b));
    assert_error(ctx, GD_SHAPE, "matmul: the left has 4 columns, the right 3 rows; shapes [2, 4] and [3, 5]");
    assert_null(gd_matmul(gd_rename(a, "batch, in"), b));
    assert_error(ctx, GD_SHAPE,
                 "matmul: the left has 4 columns, the right 3 rows; shapes [batch=2, in=4] and [3, 5]");
    assert_null(gd_matmul(gd_ones(ctx, GD_F64, 3, (int64_t[]){2, 3, 4}),
                          gd_ones(ctx, GD_F64, 3, (int64_t[]){5, 4, 2})));
    assert_error(ctx, GD_SHAPE,
                 "matmul: batch axis 0 has 2 on the left and 5 on the right; shapes [2, 3, 4] and");
    assert_null(gd_matmul(gd_scalar(ctx, GD_F64, 1), a));
    assert_error(ctx, GD_SHAPE, "matmul: needs a vector or matrix, got 0 axes");
    gd_tensor *flags = gd_gt(a, a);
    assert_null(gd_matmul(flags, gd_transpose(flags, 0, 1)));
    assert_error(ctx, GD_DTYPE, "matmul: bool has no arithmetic");
    assert_null(gd_matmul(a, NULL));
    assert_error(ctx, GD_ARGUMENT, "matmul: an operand is NULL");
    assert_null(gd_dot(a, a));
    assert_error(ctx, GD_SHAPE, "dot: needs vectors, got [2, 4]");
    assert_null(gd_dot(VECTOR(ctx, 1, 2), VECTOR(ctx, 1, 2, 3)));
    assert_error(ctx, GD_SHAPE, "dot: 2 elements on the left and 3 on the right");
    assert_null(gd_outer(a, a));
    assert_error(ctx, GD_SHAPE, "outer: needs vectors");
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

/* However the product is cut: not at all, into rows, into columns, along the inner axis. */
static void a_linear_map_is_the_product_plus_the_bias_bit_for_bit(void **unused)
{
    (void)unused;
    static const int64_t cuts[][3] = {{1, 2, 3},      {2, 1, 1},       {5, 7, 9},    {300, 200, 64},
                                      {64, 1000, 64}, {256, 784, 128}, {8, 9, 5000}, {0, 3, 4}};
    gd_ctx *ctx = context(NULL, 2, NULL);
    uint64_t state = 5;
    for (int i = 0; i < COUNT_OF(cuts); i++)
        for (int d = 0; d < 2; d++) {
            gd_dtype dtype = d ? GD_F64 : GD_F32;
            int64_t m = cuts[i][0], n = cuts[i][1], k = cuts[i][2];
            gd_scope_begin(ctx);
            gd_tensor *x = noise(ctx, &state, dtype, 2, (int64_t[]){m, k});
            gd_tensor *w = noise(ctx, &state, dtype, 2, (int64_t[]){n, k}),
                      *b = noise(ctx, &state, dtype, 1, &n);
            gd_tensor *one = gd__linear(x, w, b), *two = gd_add(gd_matmul(x, gd_transpose(w, 0, 1)), b);
            assert_no_error(ctx);
            size_t bytes = (size_t)(m * n) * gd_dtype_size(dtype);
            void *first = malloc(bytes + 1), *second = malloc(bytes + 1);
            assert_int_equal(gd_read(one, first, bytes), GD_OK);
            assert_int_equal(gd_read(two, second, bytes), GD_OK);
            assert_memory_equal(first, second, bytes);
            free(first);
            free(second);
            gd_scope_end(ctx);
        }
    end_context(ctx, NULL);
}

/* Products that go different ways; true when all of it worked. */
static bool touch_everything(gd_ctx *ctx)
{
    uint64_t state = 8;
    gd_tensor *a = gd_rename(noise(ctx, &state, GD_F16, 3, (int64_t[]){2, 5, 6}), "b, i, k");
    gd_tensor *b = noise(ctx, &state, GD_F16, 3, (int64_t[]){2, 6, 5});
    gd_tensor *c = gd_rename(noise(ctx, &state, GD_F64, 2, (int64_t[]){20, 30}), "i, j");
    gd_tensor *d = gd_slice(gd_matmul(c, gd_transpose(c, 0, 1)), "1", 0, 20, 2);
    gd_tensor *long_one = gd_matmul(gd_reshape(d, 1, (int64_t[]){200}), gd_reshape(d, 1, (int64_t[]){200}));
    gd_tensor *e = gd_matmul(a, gd_rename(b, "b, k, j"));
    gd_tensor *wide = noise(ctx, &state, GD_F32, 2, (int64_t[]){4, 9000});
    gd_tensor *deep = gd_matmul(wide, gd_transpose(wide, 0, 1));
    return d && long_one && e && deep && !gd_error(ctx);
}

static void every_failed_allocation_is_an_error_without_a_leak(void **unused)
{
    (void)unused;
    fail_each_allocation(2, touch_everything);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree_with_loops_for_every_dtype_size_and_layout),
        cmocka_unit_test(batches_broadcast_from_the_right),
        cmocka_unit_test(vectors_are_rows_on_the_left_and_columns_on_the_right),
        cmocka_unit_test(nan_in_an_operand_reaches_only_its_row_and_column),
        cmocka_unit_test(surviving_names_are_carried),
        cmocka_unit_test(named_batches_meet_by_name),
        cmocka_unit_test(labels_of_the_inner_axis_are_matched),
        cmocka_unit_test(bits_do_not_depend_on_the_threads),
        cmocka_unit_test(a_linear_map_is_the_product_plus_the_bias_bit_for_bit),
        cmocka_unit_test(gradients_pass_the_check_to_second_order),
        cmocka_unit_test(a_gradient_has_the_axes_of_its_operand),
        cmocka_unit_test(bad_operands_are_named),
        cmocka_unit_test(every_failed_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
