/* Many reverse passes at once against one by one: every differentiable operator case in every layout, by itself, with
 * something behind it that reads its elements singly, in pieces, in another order, several times or summed, and as the
 * gradient of a function of it. */
#include "autograd/reverse_batch.h"
#include "gradus/autograd.h"
#include "support/op_cases.h"

#include <math.h>

#define MOST 4096 /* entries of a matrix in this test */

/* ---- what follows the operator ---- */

static gd_tensor *itself(gd_tensor *y) { return y; }

static gd_tensor *elements(gd_tensor *y) { return gd_mul(gd_tanh(y), gd_add_scalar(y, 0.5)); }

static gd_tensor *numbers_like(gd_tensor *y)
{
    gd_tensor *t = gd_zeros_like(y);
    double *x = t ? gd_data_mut(t) : NULL;
    for (int64_t i = 0; x && i < gd_numel(t); i++) x[i] = 0.2 + 0.1 * (double)(i % 13);
    return t;
}

static gd_tensor *weighed(gd_tensor *y) { return gd_mul(gd_square(y), numbers_like(y)); }

static gd_tensor *a_piece(gd_tensor *y)
{
    int64_t n = gd_ndim(y) ? gd_size(y, 0) : 0;
    return n < 2 ? NULL : weighed(gd_slice(y, "0", 1, n, n > 2 ? 2 : 1));
}

static gd_tensor *backwards(gd_tensor *y)
{
    return gd_ndim(y) ? weighed(gd_slice(y, "-1", gd_size(y, -1) - 1, INT64_MIN, -1)) : NULL;
}

static gd_tensor *one_row(gd_tensor *y)
{
    return gd_ndim(y) && gd_size(y, 0) ? weighed(gd_index(y, "0", gd_size(y, 0) - 1)) : NULL;
}

/* A piece of a piece, and another that overlaps it. */
static gd_tensor *overlapping(gd_tensor *y)
{
    int64_t n = gd_ndim(y) ? gd_size(y, 0) : 0;
    if (n < 2) return NULL;
    gd_tensor *a = weighed(gd_slice(y, "0", 0, n - 1, 1)), *b = gd_sin(gd_slice(y, "0", 1, n, 1));
    return gd_cat((gd_tensor *[]){gd_mul(a, b), b}, 2, "0");
}

static gd_tensor *turned(gd_tensor *y)
{
    int order[GD_MAX_DIMS];
    for (int i = 0; i < gd_ndim(y); i++) order[i] = gd_ndim(y) - 1 - i;
    return weighed(gd_permute(y, order));
}

static gd_tensor *flat(gd_tensor *y)
{
    int64_t n = gd_numel(y);
    return weighed(gd_reshape(weighed(y), 1, &n));
}

static gd_tensor *spread(gd_tensor *y)
{
    int64_t size[GD_MAX_DIMS] = {3};
    if (gd_ndim(y) > 3) return NULL;
    for (int i = 0; i < gd_ndim(y); i++) size[i + 1] = gd_size(y, i);
    return weighed(gd_expand(gd_unsqueeze(y, 0, NULL), gd_ndim(y) + 1, size));
}

static gd_tensor *summed(gd_tensor *y) { return gd_ndim(y) ? gd_exp(gd_sum(weighed(y), "-1", false)) : NULL; }

/* Rows that depend on whole columns, and then on single elements again. */
static gd_tensor *centred(gd_tensor *y)
{
    return gd_ndim(y) ? elements(gd_sub(y, gd_sum(y, "0", true))) : NULL;
}

static gd_tensor *multiplied(gd_tensor *y)
{
    if (gd_ndim(y) != 2) return NULL;
    return elements(gd_matmul(elements(y), gd_transpose(numbers_like(y), 0, 1)));
}

static gd_tensor *gram(gd_tensor *y)
{
    if (gd_ndim(y) != 2) return NULL;
    return weighed(gd_matmul(gd_transpose(y, 0, 1), y));
}

/* The first sees names, the others do not. */
static const struct {
    const char *name;
    gd_tensor *(*fn)(gd_tensor *);
} ends[] = {{"itself", itself},           {"elements", elements}, {"weighed", weighed}, {"a piece", a_piece},
            {"backwards", backwards},     {"one row", one_row},   {"turned", turned},   {"flat", flat},
            {"overlapping", overlapping}, {"spread", spread},     {"summed", summed},   {"centred", centred},
            {"multiplied", multiplied},   {"gram", gram}};

/* Cases that are taken row by row.  Anything else, and so every new operator, must have a batched rule. */
static const char row_by_row[] =
    " prod/all prod/first prod/zero prod/number max/all max/ends max/number min/first norm/max to_device tril triu "
    "gather gather/u8 scatter_add index_add index_put put matmul/heads cholesky qr qr/tall eigh svd svd/tall svd/wide solve "
    "solve/vector triangular_solve/lower triangular_solve/upper triangular_solve/turned triangular_solve/unit "
    "inverse logdet conv2d conv2d_with conv2d/stride conv2d_image conv2d_weight max_pool2d avg_pool2d avg_pool2d_grad unfold2d unfold2d/apart fold2d layer_norm layer_norm/plain standardize "
    "split/pieces cross_entropy sort/last sort/first custom ";

static bool is_row_by_row(const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(row_by_row, word) != NULL;
}

/* ---- comparing ---- */

typedef struct counts {
    int64_t compared, without_rule;
} counts;

typedef struct place {
    const op_case *c;
    layout l;
    const char *end, *how;
    double tolerance;
} place;

/* One reverse pass per row: [elements of output, elements of all inputs]. */
static void one_by_one(gd_tensor *output, gd_tensor **inputs, int count, double *matrix)
{
    gd_ctx *ctx = gd_tensor_ctx(output);
    int64_t rows = gd_numel(output);
    for (int64_t r = 0; r < rows; r++) {
        gd_tensor *grads[MAX_OPERANDS];
        gd_scope_begin(ctx);
        gd_tensor *seed = gd_zeros(ctx, GD_F64, gd_ndim(output), gd_shape(output));
        ((double *)gd_data_mut(seed))[r] = 1;
        assert_int_equal(gd_grad(output, seed, inputs, count, GD_RETAIN_GRAPH | GD_ALLOW_UNUSED, grads),
                         GD_OK);
        for (int k = 0; k < count; k++) {
            int64_t n = gd_numel(inputs[k]);
            if (grads[k])
                assert_int_equal(gd_read_f64(grads[k], matrix, n), GD_OK);
            else
                memset(matrix, 0, (size_t)n * sizeof *matrix);
            matrix += n;
        }
        gd_scope_end(ctx);
    }
}

static void same(const place *at, gd_tensor **into, int count, int64_t rows, const double *want)
{
    double got[MOST];
    int64_t width = 0, left = 0;
    for (int k = 0; k < count; k++) width += gd_size(into[k], 1);
    for (int k = 0; k < count; k++) {
        int64_t n = gd_size(into[k], 1);
        assert_int_equal(gd_read_f64(into[k], got, rows * n), GD_OK);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < n; j++) {
                double a = got[r * n + j], b = want[r * width + left + j];
                if (fabs(a - b) > at->tolerance * (1 + fabs(b)))
                    fail_msg("%s, %s, %s, %s: row %d, input %d, element %d is %.17g, one by one %.17g",
                             at->c->name, layout_names[at->l], at->end, at->how, (int)r, k, (int)j, a, b);
            }
        left += n;
    }
}

static void batches(place at, gd_tensor *output, gd_tensor **inputs, int count, counts *n)
{
    gd_ctx *ctx = gd_tensor_ctx(output);
    int64_t rows = gd_numel(output), width = 0, size[GD_MAX_DIMS] = {rows};
    for (int k = 0; k < count; k++) width += gd_numel(inputs[k]);
    if (!gd_requires_grad(output) || rows == 0 || rows * width > MOST) return;
    double want[MOST];
    one_by_one(output, inputs, count, want);
    for (int i = 0; i < gd_ndim(output); i++) size[i + 1] = gd_size(output, i);
    for (int given = 0; given < 2; given++) {
        gd_tensor *into[MAX_OPERANDS], *seeds = NULL;
        for (int k = 0; k < count; k++) /* as columns of a wider matrix */
            into[k] = gd_slice(gd_zeros(ctx, GD_F64, 2, (int64_t[]){rows, gd_numel(inputs[k]) + 3}), "1", 2,
                               gd_numel(inputs[k]) + 2, 1);
        if (given) seeds = gd_reshape(gd_eye(ctx, GD_F64, rows, rows), gd_ndim(output) + 1, size);
        at.how = given ? "seeds" : "all elements";
        gd_status status = gd__grad_batch(output, seeds, inputs, count, into);
        assert_no_error(ctx);
        if (status == GD_NOT_IMPLEMENTED) {
            n->without_rule++;
            continue;
        }
        assert_int_equal(status, GD_OK);
        same(&at, into, count, rows, want);
        n->compared++;
    }
}

static void check(gd_ctx *ctx, const op_case *c, layout l, counts *n)
{
    case_inputs made;
    gd_tensor *inputs[MAX_OPERANDS];
    int count = 0;
    gd_scope_begin(ctx);
    assert_true(case_build(&made, ctx, c, l, GD_F64, 7, false, false));
    for (int k = 0; k < c->operands; k++)
        if (gd_dtype_is_float(gd_tensor_dtype(made.leaf[k])))
            inputs[count++] = made.leaf[k] = gd_require_grad(gd_detach(made.leaf[k]));
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        gd_scope_begin(ctx);
        gd_tensor *y = case_apply(&made, ctx, made.leaf), *output = ends[e].fn(e ? gd_drop_names(y) : y);
        assert_no_error(ctx);
        place at = {.c = c, .l = l, .end = ends[e].name};
        at.tolerance = strstr(c->name, "f32") ? 1e-5 : 1e-12; /* there and back */
        if (output) batches(at, output, inputs, count, n);
        if (output && c->order == 2 && gd_requires_grad(output)) {
            gd_tensor *grads[MAX_OPERANDS] = {NULL}, *sum = gd_sum(gd_sin(output), NULL, false);
            assert_int_equal(gd_grad(sum, NULL, inputs, count, GD_CREATE_GRAPH | GD_ALLOW_UNUSED, grads),
                             GD_OK);
            for (int k = 0; k < count; k++)
                if (grads[k]) batches(at, grads[k], inputs, count, n);
        }
        gd_scope_end(ctx);
    }
    gd_scope_end(ctx);
}

static void run(layout l)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    int with = 0, without = 0;
    counts all = {0};
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        counts n = {0};
        if (c->order == 0 || !case_has_layout(c, l)) continue;
        check(ctx, c, l, &n);
        bool stale = n.compared > 0 && l != EMPTY; /* nothing to do has a rule */
        if (is_row_by_row(c->name) ? stale : n.compared == 0 && n.without_rule > 0)
            fail_msg("%s, %s: %s", c->name, layout_names[l],
                     n.compared ? "has a batched rule and is listed without" : "has no batched rule");
        with += n.compared > 0;
        without += n.compared == 0 && n.without_rule > 0;
        all.compared += n.compared;
        all.without_rule += n.without_rule;
    }
    print_message("%s: %d cases compared, %d without a batched rule; %d matrices, %d refused\n",
                  layout_names[l], with, without, (int)all.compared, (int)all.without_rule);
    assert_true(with > 80);
    end_context(ctx, NULL);
}

DEFINE_LAYOUT_TESTS(run)

/* A chain of functions of single elements costs its entries, not a matrix an operator. */
static void large_diagonals_are_not_made_dense(void **state)
{
    (void)state;
    enum { N = 3000 };
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *p = gd_require_grad(gd_rand(ctx, GD_F64, 1, (int64_t[]){N}));
    gd_tensor *a = gd_slice(p, "0", 0, N - 1, 1), *b = gd_slice(p, "0", 1, N, 1);
    gd_tensor *y = gd_mul(gd_exp(gd_square(a)), gd_tanh(gd_sub(b, a)));
    gd_tensor *into = gd_zeros(ctx, GD_F64, 2, (int64_t[]){N - 1, N});
    assert_int_equal(gd__grad_batch(y, NULL, &p, 1, &into), GD_OK);
    /* two entries per row, and nothing else */
    gd_tensor *others = gd_cast(gd_ne(into, gd_zeros_like(into)), GD_F64);
    assert_true(gd_item(gd_sum(others, NULL, false)) == 2.0 * (N - 1));
    const double *x = gd_data(p), *d = gd_data(into);
    for (int64_t i = 0; i < N - 1; i++) {
        double t = tanh(x[i + 1] - x[i]), e = exp(x[i] * x[i]);
        assert_true(fabs(d[i * N + i] - e * (2 * x[i] * t - (1 - t * t))) < 1e-12);
        assert_true(fabs(d[i * N + i + 1] - e * (1 - t * t)) < 1e-12);
    }
    /* what mixes all elements would need a large one */
    gd_tensor *mixed = gd_softmax(p, "0");
    gd_tensor *square = gd_zeros(ctx, GD_F64, 2, (int64_t[]){N, N});
    assert_int_equal(gd__grad_batch(mixed, NULL, &p, 1, &square), GD_NOT_IMPLEMENTED);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* d (X^T G) / d G of a wide batch has more entries than the Hessian it is on the way to. */
static void more_entries_than_the_result_are_refused(void **state)
{
    (void)state;
    enum { ROWS = 2000, N = 20 };
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *w = gd_require_grad(gd_rand(ctx, GD_F64, 2, (int64_t[]){N, N})), *g = NULL;
    for (int rows = ROWS; rows > 0; rows -= ROWS - 5) { /* many, then few */
        gd_tensor *x = gd_rand(ctx, GD_F64, 2, (int64_t[]){rows, N});
        gd_tensor *y = gd_sum(gd_tanh(gd_matmul(x, w)), NULL, false);
        assert_int_equal(gd_grad(y, NULL, &w, 1, GD_CREATE_GRAPH, &g), GD_OK);
        gd_tensor *into = gd_zeros(ctx, GD_F64, 2, (int64_t[]){N * N, N * N});
        assert_int_equal(gd__grad_batch(g, NULL, &w, 1, &into), rows == ROWS ? GD_NOT_IMPLEMENTED : GD_OK);
        assert_no_error(ctx);
    }
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_TESTS,
        cmocka_unit_test(large_diagonals_are_not_made_dense),
        cmocka_unit_test(more_entries_than_the_result_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
