/* Links that compute with matrices: stacks of one size, orthogonalize on any shape, numbers that are not finite. */
#include "gradus/link/matrices.h"
#include "optim/optim_support.h"

#define SCOPED(name) cmocka_unit_test_setup_teardown(name, begin_scoped_test, end_scoped_test)

/* ---- stacks ---- */

static int calls, matrices_seen, entries_seen;

/* Every matrix times its transpose, plus the kind of the first entry. */
static gd_tensor *square_of(void *user, gd_tensor *stack, const int *entry, int entries)
{
    const int *kinds = user;
    calls++;
    entries_seen += entries;
    matrices_seen += (int)gd_size(stack, 0);
    return gd_add_scalar(gd_matmul(stack, gd_transpose(stack, 1, 2)), kinds ? kinds[entry[0]] : 0);
}

static int odd(void *user, int index) { return ((const int *)user)[index]; }

static gd_tensor *numbers(gd_ctx *ctx, int ndim, const int64_t *shape, double first)
{
    double x[64];
    for (int i = 0; i < 64; i++) x[i] = first + i;
    return gd_from_f64(ctx, GD_F64, ndim, shape, x);
}

static void stacks_of_one_size_go_through_one_call(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *list[4] = {numbers(ctx, 3, (int64_t[]){1, 2, 2}, 1), numbers(ctx, 3, (int64_t[]){2, 1, 2}, 0),
                          NULL, numbers(ctx, 3, (int64_t[]){2, 2, 2}, 1)};
    calls = matrices_seen = entries_seen = 0;
    OK(gd_map_stacked(list, 4, NULL, square_of, NULL));
    assert_int_equal(calls, 2);
    assert_int_equal(matrices_seen, 5);
    assert_int_equal(entries_seen, 3);
    assert_null(list[2]);
    assert_values(list[0], 5, 11, 11, 25);
    assert_values(list[1], 1, 13);
    assert_values(list[3], 5, 11, 11, 25, 61, 83, 83, 113);
}

static void kinds_keep_stacks_apart(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *list[3];
    for (int i = 0; i < 3; i++) list[i] = numbers(ctx, 3, (int64_t[]){1, 1, 1}, 2 + i);
    calls = 0;
    OK(gd_map_stacked(list, 3, odd, square_of, (int[]){0, 1, 0}));
    assert_int_equal(calls, 2);
    assert_values(list[0], 4);
    assert_values(list[1], 10);
    assert_values(list[2], 16);
}

static gd_tensor *one_too_few(void *user, gd_tensor *stack, const int *entry, int entries)
{
    (void)user, (void)entry, (void)entries;
    return gd_slice(stack, "0", 1, gd_size(stack, 0), 1);
}

static void a_result_of_another_size_is_refused(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *one = numbers(ctx, 3, (int64_t[]){2, 1, 1}, 0), *before = one;
    assert_int_equal(gd_map_stacked(&one, 1, NULL, one_too_few, NULL), GD_SHAPE);
    expect_error(ctx, GD_SHAPE, "2 matrices");
    assert_ptr_equal(one, before);
}

static void a_tensor_becomes_matrices_and_comes_back(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *x = numbers(ctx, 4, (int64_t[]){3, 2, 2, 2}, 0), *m = gd_to_matrices(x);
    assert_int_equal(gd_size(m, 0), 4);
    /* matrix 1 is x[:, :, 0, 1] */
    assert_values(gd_index(m, "0", 1), 1, 5, 9, 13, 17, 21);
    gd_tensor *back = gd_from_matrices(m, x);
    assert_true(gd_item(gd_all(gd_eq(back, x), NULL, false)) == 1);
    assert_null(gd_to_matrices(VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_SHAPE, "to_matrices: needs two axes, got 1");
    assert_null(gd_from_matrices(m, VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_SHAPE, "from_matrices: 24 elements");
}

/* ---- orthogonalize ---- */

typedef struct shape {
    int ndim;
    int64_t size[GD_MAX_DIMS];
} shape;

static const shape shapes[] = {
    {2, {4, 6}},
    {2, {6, 4}},
    {2, {4, 6}},
    {2, {1, 3}},
    {2, {5, 1}},
    {3, {3, 2, 4}},
    {1, {5}},
    {0, {0}},
    {4, {2, 3, 2, 2}},
    {2, {0, 4}},
    {8, {2, 2, 1, 2, 1, 1, 2, 1}},
    {3, {2, 3, 4}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* What the link makes of these tensors; the caller's scope has them. */
static void transform(gd_ctx *ctx, const char *text, gd_tensor **tensors, int count)
{
    gd_link *link = gd_chain(ctx, text);
    if (!link) fail_msg("%s: %s", text, gd_error_text(ctx));
    gd_tensor *params[SHAPES];
    for (int i = 0; i < count; i++) params[i] = gd_zeros_like(tensors[i]);
    gd_status status = gd_link_transform(link, tensors, params, NULL, NULL, count);
    if (status) fail_msg("%s: %s", text, gd_error_text(ctx));
    gd_link_release(link);
}

static double rounded(double x, bool half)
{
    uint16_t bits = 0;
    float single = (float)x;
    if (!half) return x;
    encode_item(GD_BF16, (long double)single, &bits);
    return (double)decode_item(GD_BF16, &bits);
}

/* Newton-Schulz of one r x c matrix with straight loops; half: everything rounded to bf16, sums in f32 in any order. */
static void newton_schulz(double *x, int r, int c, bool half)
{
    double norm = 0, a[64], b[64], y[64];
    bool tall = r > c;
    int rows = tall ? c : r, cols = tall ? r : c;
    for (int i = 0; i < r * c; i++) x[i] = rounded(x[i], half);
    for (int i = 0; i < r * c; i++) norm += x[i] * x[i];
    norm = rounded(rounded(sqrt(norm), half) + 1e-7, half);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            y[i * cols + j] = rounded((tall ? x[j * c + i] : x[i * c + j]) / norm, half);
    for (int step = 0; step < 5; step++) {
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < rows; j++) {
                double sum = 0;
                for (int k = 0; k < cols; k++) sum += y[i * cols + k] * y[j * cols + k];
                a[i * rows + j] = rounded(sum, half);
            }
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < rows; j++) {
                double sum = 0;
                for (int k = 0; k < rows; k++)
                    sum += rounded(2.0315 * a[i * rows + k], half) * a[k * rows + j];
                b[i * rows + j] = rounded(rounded(-4.7750 * a[i * rows + j], half) + rounded(sum, half),
                                          half);
            }
        double z[64];
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < cols; j++) {
                double sum = 0;
                for (int k = 0; k < rows; k++) sum += b[i * rows + k] * y[k * cols + j];
                z[i * cols + j] = rounded(rounded(3.4445 * y[i * cols + j], half) + rounded(sum, half), half);
            }
        memcpy(y, z, sizeof z);
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) x[tall ? j * c + i : i * c + j] = y[i * cols + j];
}

/* Every matrix of a tensor by rows; its first two axes are the matrix. */
static void each_matrix(const shape *s, double *x, bool half)
{
    int r = (int)s->size[0], c = (int)s->size[1], others = 1;
    for (int i = 2; i < s->ndim; i++) others *= (int)s->size[i];
    for (int k = 0; k < others; k++) {
        double m[64];
        for (int i = 0; i < r * c; i++) m[i] = x[i * others + k];
        newton_schulz(m, r, c, half);
        for (int i = 0; i < r * c; i++) x[i * others + k] = m[i];
    }
}

static void orthogonalize_is_the_published_iteration(void **state, const char *chain, bool half,
                                                     double tolerance)
{
    gd_ctx *ctx = CTX(state);
    double want[SHAPES][64], got[64];
    gd_tensor *t[SHAPES];
    gd_seed(ctx, 7);
    for (int i = 0; i < SHAPES; i++) {
        t[i] = gd_randn(ctx, GD_F64, shapes[i].ndim, shapes[i].size);
        OK(gd_read_f64(t[i], want[i], gd_numel(t[i])));
        if (shapes[i].ndim >= 2 && gd_numel(t[i])) each_matrix(&shapes[i], want[i], half);
    }
    transform(ctx, chain, t, SHAPES);
    for (int i = 0; i < SHAPES; i++) {
        OK(gd_read_f64(t[i], got, gd_numel(t[i])));
        for (int k = 0; k < gd_numel(t[i]); k++)
            if (!(fabs(got[k] - want[i][k]) <= tolerance))
                fail_msg("%s, shape %d, element %d: %g, not %g", chain, i, k, got[k], want[i][k]);
    }
}

static void in_full_precision_every_shape_follows_the_iteration(void **state)
{
    orthogonalize_is_the_published_iteration(state, "orthogonalize(precision=\"full\")", false, 1e-12);
}

/* Nothing but a sum that lies within f32's rounding of a tie may differ: the seed has none. */
static void in_bf16_every_shape_follows_the_iteration_bit_for_bit(void **state)
{
    orthogonalize_is_the_published_iteration(state, "orthogonalize", true, 0);
}

static void exact_matrices_are_orthogonal_and_nearest(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_seed(ctx, 3);
    gd_tensor *g = gd_randn(ctx, GD_F64, 2, (int64_t[]){4, 6}), *u = g;
    transform(ctx, "orthogonalize(method=\"svd\")", &u, 1);
    gd_tensor *off = gd_sub(gd_matmul(u, gd_transpose(u, 0, 1)), gd_eye(ctx, GD_F64, 4, 4));
    assert_true(gd_item(gd_norm(off, 2, NULL, false)) < 1e-13);
    /* nearest: g u^T is symmetric and positive definite */
    gd_tensor *p = gd_matmul(g, gd_transpose(u, 0, 1)), *values = NULL, *vectors = NULL;
    assert_true(gd_item(gd_norm(gd_sub(p, gd_transpose(p, 0, 1)), 2, NULL, false)) < 1e-12);
    OK(gd_eigh(p, &values, &vectors));
    assert_true(gd_item(gd_min(values, NULL, false)) > 0);
}

/* A direction in which the matrix is zero could become any; it stays zero. */
static void zero_directions_stay_zero(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char *const chains[] = {"orthogonalize", "orthogonalize(method=\"svd\")",
                                         "orthogonalize(dual_norm_correction=true, adjust_lr=true)"};
    for (int i = 0; i < 3; i++) {
        gd_tensor *u = gd_zeros(ctx, GD_F64, 2, (int64_t[]){3, 2});
        transform(ctx, chains[i], &u, 1);
        assert_values(u, 0, 0, 0, 0, 0, 0);
    }
    gd_tensor *u = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){2, 2}, (double[]){3, 4, 6, 8});
    transform(ctx, chains[1], &u, 1);
    assert_true(fabs(gd_item(gd_sum(gd_square(u), NULL, false)) - 1) < 1e-12);
}

static void a_matrix_that_is_not_finite_harms_no_other(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char *const chains[] = {"orthogonalize", "orthogonalize(method=\"svd\")",
                                         "orthogonalize(precision=\"full\")"};
    static const double bad[] = {NAN, INFINITY};
    for (int k = 0; k < 6; k++) {
        double x[2][4] = {{1, 2, 3, 4}, {2, bad[k % 2], 1, 1}}, got[3][4];
        gd_tensor *t[3], *alone;
        for (int i = 0; i < 3; i++) t[i] = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){2, 2}, x[i == 1]);
        alone = t[0];
        transform(ctx, chains[k / 2], t, 3);
        transform(ctx, chains[k / 2], &alone, 1);
        double want[4];
        OK(gd_read_f64(alone, want, 4));
        for (int i = 0; i < 3; i++) OK(gd_read_f64(t[i], got[i], 4));
        for (int i = 0; i < 4; i++) {
            assert_true(got[0][i] == want[i] && got[2][i] == want[i]);
            assert_true(isnan(got[1][i]));
        }
    }
}

static void names_of_axes_stay(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *u = gd_rename(numbers(ctx, 3, (int64_t[]){3, 2, 2}, 1), "in, out, head");
    gd_tensor *plain = numbers(ctx, 3, (int64_t[]){3, 2, 2}, 1);
    transform(ctx, "orthogonalize | muon_adjust_lr", &u, 1);
    transform(ctx, "orthogonalize | muon_adjust_lr", &plain, 1);
    assert_string_equal(gd_axis_name(u, 0), "in");
    assert_true(gd_item(gd_all(gd_eq(gd_drop_names(u), plain), NULL, false)) == 1);
}

/* ---- shampoo, soap, full_matrix_adagrad ---- */

static const char *const keepers[] = {
    "shampoo(update_freq=1, merge_small=false)",
    "shampoo(beta=0.9, update_freq=2)",
    "soap(precond_freq=2)",
    "soap(precond_freq=1, merge_small=false)",
    "full_matrix_adagrad",
    "full_matrix_adagrad(0.9, init=\"zeros\")",
    "lm_adagrad(5)",
    "lm_adagrad(3, update_freq=2, damping=1e-9, order=2, U_beta=0.5, concat_params=false)",
    "ggt(4, damping=0)",
    "ggt(4, basis_optimizer=adam)",
    "ggt_basis(adam, 4)",
    "psgd_kron_whiten(damping=0)",
    "psgd_kron_whiten(damping=0, dQ=\"EQ\", max_skew=4)",
    "psgd_lra_whiten(2, damping=0)",
    "soap_basis(adam, precond_freq=2)",
    "soap_basis([rmsprop | ema], precond_freq=1, merge_small=false)",
};

/* Steps with the gradients given; p is left where they lead. */
static gd_optimizer *keeper(gd_ctx *ctx, const char *text, gd_tensor **p, const shape *s)
{
    char chain[200];
    snprintf(chain, sizeof chain, "%s | lr(0.01)", text);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    *p = gd_require_grad(gd_ones(ctx, GD_F64, s->ndim, s->size));
    OK(gd_optimizer_add(o, "p", *p));
    return o;
}

static void step_with(gd_optimizer *o, gd_tensor *p, gd_tensor *g)
{
    OK(gd_set_grad(p, g));
    OK(gd_optimizer_step(o, NULL, NULL));
}

/* Neither one that is not finite nor one whose squares overflow. */
static void a_gradient_that_is_not_finite_does_not_poison_the_state(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const double bad[] = {NAN, INFINITY, 1e200};
    const shape s = {2, {3, 2}};
    for (int k = 0; k < COUNT_OF(keepers) * 3; k++) {
        gd_tensor *p[2], *g = numbers(ctx, 2, s.size, -2), *worse = gd_copy(g);
        OK(gd_write_f64(gd_slice(worse, "0", 1, 2, 1), (double[]){bad[k % 3], 1}, 2));
        double x[2][6];
        for (int with = 0; with < 2; with++) {
            gd_optimizer *o = keeper(ctx, keepers[k / 3], &p[with], &s);
            for (int i = 0; i < 3; i++) step_with(o, p[with], g);
            if (with) step_with(o, p[1], worse);
            OK(gd_fill(p[with], 1));
            for (int i = 0; i < 3; i++) step_with(o, p[with], gd_mul_scalar(g, 1 + i));
            OK(gd_read_f64(p[with], x[with], 6));
            gd_optimizer_free(o);
        }
        /* periods and corrections count that step too: finite and of the usual size is what is asked for */
        for (int i = 0; i < 6; i++)
            if (!(fabs(x[1][i] - x[0][i]) < 0.1))
                fail_msg("%s, after %g: %g, not %g", keepers[k / 3], bad[k % 3], x[1][i], x[0][i]);
    }
}

/* Nothing but zeros, one direction only: factors are singular, updates finite. */
static void singular_factors_give_finite_updates(void **state)
{
    gd_ctx *ctx = CTX(state);
    const shape s = {3, {3, 2, 2}};
    for (int k = 0; k < COUNT_OF(keepers) * 2; k++) {
        gd_tensor *p, *g = k % 2 ? gd_ones(ctx, GD_F64, 3, s.size) : gd_zeros(ctx, GD_F64, 3, s.size);
        gd_optimizer *o = keeper(ctx, keepers[k / 2], &p, &s);
        for (int i = 0; i < 400; i++) step_with(o, p, g);
        double x[12];
        OK(gd_read_f64(p, x, 12));
        /* along directions that no gradient has soap divides rounding errors by eps: 1e-8 a step; psgd goes on learning */
        for (int i = 0; i < 12; i++)
            if (!(k % 2 ? isfinite(x[i]) && (fabs(x[i] - x[0]) < 1e-5 || strstr(keepers[k / 2], "psgd"))
                        : x[i] == 1))
                fail_msg("%s: element %d is %g, the first %g", keepers[k / 2], i, x[i], x[0]);
        gd_optimizer_free(o);
    }
}

/* Matrices may have the shape of the parameter, but they are no value of its: they do not get its names. */
static void named_parameters_of_the_shape_of_their_state_are_as_nameless_ones(void **state)
{
    gd_ctx *ctx = CTX(state);
    for (int k = 0; k < COUNT_OF(keepers) * 3; k++) {
        const shape s = {2 + k % 3 / 2, {k % 3 ? 2 : 1, k % 3 ? 2 : 1, 2}};
        double x[2][8] = {{0}};
        for (int named = 0; named < 2; named++) {
            gd_tensor *p = gd_ones(ctx, GD_F64, s.ndim, s.size), *g = numbers(ctx, s.ndim, s.size, -2);
            char chain[200];
            snprintf(chain, sizeof chain, "%s | lr(0.01)", keepers[k / 3]);
            gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
            p = gd_require_grad(named ? gd_rename(p, s.ndim == 2 ? "a, b" : "a, b, c") : p);
            OK(gd_optimizer_add(o, "p", p));
            for (int i = 0; i < 5; i++) {
                OK(gd_set_grad(p, gd_rename(g, !named        ? s.ndim == 2 ? "_, _" : "_, _, _"
                                               : s.ndim == 2 ? "a, b"
                                                             : "a, b, c")));
                gd_status status = gd_optimizer_step(o, NULL, NULL);
                if (status) fail_msg("%s: %s", chain, gd_error_text(ctx));
            }
            OK(gd_read_f64(p, x[named], gd_numel(p)));
            gd_optimizer_free(o);
        }
        assert_memory_equal(x[0], x[1], sizeof x[0]);
    }
}

/* Half floats: state and work are in f32, the parameter is rounded once per step. */
static void half_floats_follow_f32(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char *const others[] = {"orthogonalize", "dual_norm_correction", "muon_adjust_lr",
                                         "laplacian_smoothing", "orthogonalize(method=\"svd\")"};
    const shape s[] = {{2, {3, 2}}, {1, {4}}, {1, {1}}, {0, {0}}};
    for (int k = 0; k < (COUNT_OF(keepers) + COUNT_OF(others)) * COUNT_OF(s); k++) {
        const char *link = k / 4 < COUNT_OF(keepers) ? keepers[k / 4] : others[k / 4 - COUNT_OF(keepers)];
        double x[2][6] = {{0}};
        for (int half = 0; half < 2; half++) {
            char chain[200];
            snprintf(chain, sizeof chain, "%s | lr(0.125)", link);
            gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
            gd_dtype dtype = half ? GD_BF16 : GD_F32;
            gd_tensor *p = gd_require_grad(
                gd_cast(gd_ones(ctx, GD_F64, s[k % 4].ndim, s[k % 4].size), dtype));
            OK(gd_optimizer_add(o, "p", p));
            for (int i = 0; i < 3; i++) {
                OK(gd_set_grad(p, gd_cast(numbers(ctx, s[k % 4].ndim, s[k % 4].size, i - 2), dtype)));
                gd_status status = gd_optimizer_step(o, NULL, NULL);
                if (status) fail_msg("%s: %s", chain, gd_error_text(ctx));
            }
            OK(gd_read_f64(p, x[half], gd_numel(p)));
            gd_optimizer_free(o);
        }
        for (int i = 0; i < 6; i++)
            if (!(fabs(x[1][i] - x[0][i]) <= 0.02 * (1 + fabs(x[0][i]))))
                fail_msg("%s, shape %d: %g, in f32 %g", link, k % 4, x[1][i], x[0][i]);
    }
}

/* Rotating rows and columns of every gradient rotates the path: what distinguishes these links from element-wise ones. */
static void paths_turn_with_the_gradients(void **state)
{
    gd_ctx *ctx = CTX(state);
    const shape s = {2, {3, 2}};
    double c = cos(0.7), d = sin(0.7);
    gd_tensor *left = MATRIX(ctx, 3, 3, c, -d, 0, d, c, 0, 0, 0, 1), *right = MATRIX(ctx, 2, 2, d, c, -c, d);
    for (int k = 0; k < COUNT_OF(keepers); k++) {
        /* their first step, or the bound of their steps, goes element by element */
        if (strstr(keepers[k], "soap") || strstr(keepers[k], "psgd")) continue;
        gd_tensor *p[2];
        gd_optimizer *o[2];
        gd_seed(ctx, 5);
        for (int i = 0; i < 2; i++) o[i] = keeper(ctx, keepers[k], &p[i], &s);
        OK(gd_fill(p[0], 0));
        OK(gd_fill(p[1], 0));
        for (int i = 0; i < 12; i++) {
            gd_tensor *g = gd_randn(ctx, GD_F64, 2, s.size);
            step_with(o[0], p[0], g);
            step_with(o[1], p[1], gd_matmul(gd_matmul(left, g), right));
        }
        gd_tensor *off = gd_sub(gd_matmul(gd_matmul(left, gd_detach(p[0])), right), gd_detach(p[1]));
        if (!(gd_item(gd_norm(off, 2, NULL, false)) < 1e-9)) fail_msg("%s does not turn", keepers[k]);
        for (int i = 0; i < 2; i++) gd_optimizer_free(o[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPED(stacks_of_one_size_go_through_one_call),
        SCOPED(kinds_keep_stacks_apart),
        SCOPED(a_result_of_another_size_is_refused),
        SCOPED(a_tensor_becomes_matrices_and_comes_back),
        SCOPED(in_full_precision_every_shape_follows_the_iteration),
        SCOPED(in_bf16_every_shape_follows_the_iteration_bit_for_bit),
        SCOPED(exact_matrices_are_orthogonal_and_nearest),
        SCOPED(zero_directions_stay_zero),
        SCOPED(a_matrix_that_is_not_finite_harms_no_other),
        SCOPED(names_of_axes_stay),
        SCOPED(a_gradient_that_is_not_finite_does_not_poison_the_state),
        SCOPED(singular_factors_give_finite_updates),
        SCOPED(named_parameters_of_the_shape_of_their_state_are_as_nameless_ones),
        SCOPED(half_floats_follow_f32),
        SCOPED(paths_turn_with_the_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
