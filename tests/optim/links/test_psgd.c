/* PSGD: what its preconditioners tend to.  Documents define the fixed point and not the path to it: P = |H|^-1 from products with
 * the Hessian, P = E[g g^T]^(-1/2) from gradients. */
#include "optim/optim_support.h"

#define SCOPED(name) cmocka_unit_test_setup_teardown(name, begin_scoped_test, end_scoped_test)

static const char *const geometries[] = {"Q0.5EQ1.5", "EQ", "QEP", "QEQ", "QUAD"};

/* ---- matrices ---- */

/* R diag(l) R^T with R orthogonal, the same for the same seed. */
static gd_tensor *with_eigenvalues(gd_ctx *ctx, int n, const double *l, uint64_t seed)
{
    gd_tensor *q = NULL, *r = NULL, *d = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){n}, l);
    gd_seed(ctx, seed);
    OK(gd_qr(gd_randn(ctx, GD_F64, 2, (int64_t[]){n, n}), &q, &r));
    return gd_matmul(gd_mul(q, d), gd_transpose(q, 0, 1));
}

static gd_tensor *gram_of(gd_tensor *q) { return gd_matmul(gd_transpose(q, 0, 1), q); }

static double distance_from_one(gd_ctx *ctx, gd_tensor *x)
{
    return gd_item(gd_norm(gd_sub(x, gd_eye(ctx, GD_F64, gd_size(x, 0), gd_size(x, 0))), 2, NULL, false));
}

/* ---- products with a Hessian ---- */

typedef struct quadratic {
    gd_tensor *p, *left, *right; /* sum p (left p right) / 2; right NULL: 1 */
} quadratic;

static gd_tensor *value_of(void *user)
{
    const quadratic *q = user;
    gd_tensor *hp = gd_matmul(q->left, q->p);
    if (q->right) hp = gd_matmul(hp, q->right);
    return gd_mul_scalar(gd_sum(gd_mul(q->p, hp), NULL, false), 0.5);
}

/* The link after so many steps that move nothing. */
static gd_optimizer *taught(gd_ctx *ctx, const char *text, quadratic *q, int ndim, const int64_t *shape)
{
    char chain[200];
    snprintf(chain, sizeof chain, "%s | lr(0)", text);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    gd_seed(ctx, 11);
    q->p = gd_require_grad(gd_ones(ctx, GD_F64, ndim, shape));
    OK(gd_optimizer_add(o, "p", q->p));
    gd_objective objective = {.loss = value_of, .user = q};
    for (int i = 0; i < 5000; i++) OK(gd_optimizer_step(o, &objective, NULL));
    return o;
}

static gd_tensor *kept(gd_optimizer *o, gd_tensor *p, const char *slot)
{
    return gd_copy(gd_link_state(gd_link_child_at(gd_optimizer_chain(o), 0), p, slot));
}

static void the_dense_matrix_becomes_the_inverse_of_the_absolute_hessian(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const double values[2][5] = {{0.5, 1, 2, 3, 4}, {1, -2, 0.7, -0.5, 1.5}};
    for (int k = 0; k < 2 * COUNT_OF(geometries); k += test_share()) {
        const double *l = values[k % 2],
                     size[5] = {fabs(l[0]), fabs(l[1]), fabs(l[2]), fabs(l[3]), fabs(l[4])};
        quadratic q = {.left = with_eigenvalues(ctx, 5, l, 3)};
        char text[100];
        /* where H is indefinite single products are noise around their mean */
        snprintf(text, sizeof text, "psgd_dense_newton(dQ=\"%s\", lr_preconditioner=%g)", geometries[k / 2],
                 k % 2 ? 0.02 : 0.1);
        gd_optimizer *o = taught(ctx, text, &q, 1, (int64_t[]){5});
        gd_tensor *p = gram_of(kept(o, q.p, "factor_0"));
        double off = distance_from_one(ctx, gd_matmul(p, with_eigenvalues(ctx, 5, size, 3)));
        if (!(off < (k % 2 ? 0.5 : 0.1))) fail_msg("%s: P |H| is %g from 1", text, off);
        gd_optimizer_free(o);
    }
}

static void factors_become_those_of_a_hessian_that_is_a_product(void **state)
{
    gd_ctx *ctx = CTX(state);
    for (int k = 0; k < COUNT_OF(geometries); k += test_share()) {
        quadratic q = {.left = with_eigenvalues(ctx, 3, (double[]){0.5, 1, 2}, 3),
                       .right = with_eigenvalues(ctx, 2, (double[]){1, 3}, 4)};
        char text[100];
        snprintf(text, sizeof text, "psgd_kron_newton(dQ=\"%s\", max_skew=2)", geometries[k]);
        gd_optimizer *o = taught(ctx, text, &q, 2, (int64_t[]){3, 2});
        gd_tensor *a = gd_matmul(gram_of(kept(o, q.p, "factor_0")), q.left);
        gd_tensor *b = gd_matmul(gram_of(kept(o, q.p, "factor_1")), q.right);
        /* each is 1 but for a number that the other has inversely */
        double scale = gd_at(a, (int64_t[]){0, 0});
        double off = distance_from_one(ctx, gd_mul_scalar(a, 1 / scale)) +
                     distance_from_one(ctx, gd_mul_scalar(b, scale));
        if (!(off < 0.1)) fail_msg("%s: P H is %g from 1", text, off);
        gd_optimizer_free(o);
    }
}

/* A diagonal where an axis is longer than max_dim, and where its square is more than max_skew times the elements. */
static void long_axes_have_diagonals(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char *const chains[] = {"psgd_kron_newton(max_dim=2)", "psgd_kron_newton",
                                         "psgd_kron_newton(dQ=\"EQ\", max_dim=2)"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        double d[9] = {0.5, 0, 0, 0, 1, 0, 0, 0, 2};
        quadratic q = {.left = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){3, 3}, d),
                       .right = with_eigenvalues(ctx, 2, (double[]){1, 3}, 4)};
        gd_optimizer *o = taught(ctx, chains[k], &q, 2, (int64_t[]){3, 2});
        gd_tensor *diagonal = kept(o, q.p, "factor_0");
        assert_int_equal(gd_ndim(diagonal), 1);
        assert_int_equal(gd_ndim(kept(o, q.p, "factor_1")), 2);
        gd_tensor *a = gd_mul(gd_square(diagonal), gd_diagonal(q.left));
        double off = gd_item(
            gd_norm(gd_add_scalar(gd_mul_scalar(a, 1 / gd_at(a, (int64_t[]){0})), -1), 2, NULL, false));
        if (!(off < 0.1)) fail_msg("%s: %g", chains[k], off);
        gd_optimizer_free(o);
    }
}

/* The parameter after steps along gradients that turn. */
static gd_tensor *after_steps(gd_ctx *ctx, const char *text, int ndim, const int64_t *shape, gd_optimizer **o)
{
    gd_optimizer *made = gd_optimizer_new(ctx, gd_chain(ctx, text));
    if (!made) fail_msg("%s: %s", text, gd_error_text(ctx));
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, ndim, shape));
    OK(gd_optimizer_add(made, "p", p));
    for (int i = 0; i < 20; i++) {
        double g[5];
        for (int k = 0; k < 5; k++) g[k] = sin(1 + k + 0.7 * i) + 0.3 * k;
        OK(gd_set_grad(p, gd_from_f64(ctx, GD_F64, ndim, shape, g)));
        OK(gd_optimizer_step(made, NULL, NULL));
    }
    *o = made;
    return p;
}

/* A second number that multiplies Q would make it grow twice as fast. */
static void axes_of_size_one_have_no_factor(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const struct {
        int ndim;
        int64_t shape[3];
    } shapes[] = {{2, {5, 1}}, {2, {1, 5}}, {3, {1, 5, 1}}};
    for (int k = 0; k < COUNT_OF(geometries) * COUNT_OF(shapes); k++) {
        char text[120];
        snprintf(text, sizeof text, "psgd_kron_whiten(dQ=\"%s\", damping=0) | lr(0.1)",
                 geometries[k / COUNT_OF(shapes)]);
        int of = k % COUNT_OF(shapes);
        gd_optimizer *flat, *o;
        gd_tensor *want = after_steps(ctx, text, 1, (int64_t[]){5}, &flat),
                  *got = after_steps(ctx, text, shapes[of].ndim, shapes[of].shape, &o);
        gd_tensor *off = gd_sub(gd_reshape(gd_detach(got), 1, (int64_t[]){5}), gd_detach(want));
        if (gd_item(gd_max(gd_abs(off), NULL, false)) != 0) fail_msg("%s: shape %d differs", text, of);
        gd_link *link = gd_link_child_at(gd_optimizer_chain(o), 0);
        assert_true(gd_link_has_state(link, got, "factor_0"));
        assert_false(gd_link_has_state(link, got, "factor_1"));
        gd_optimizer_free(flat);
        gd_optimizer_free(o);
    }
}

static double largest(gd_tensor *x) { return gd_item(gd_max(gd_abs(x), NULL, false)); }

/* By the chain, the group, a schedule or the link itself: the largest elements of both factors are the same. */
static void factors_are_balanced_as_often_as_is_said(void **state)
{
    gd_ctx *ctx = CTX(state);
    for (int how = 0; how < 4; how++) {
        gd_optimizer *o = gd_optimizer_new(
            ctx, gd_chain(ctx, how == 0 ? "psgd_kron_whiten(balance_probability=1) | lr(0.1)"
                                        : "psgd_kron_whiten(balance_probability=0) | lr(0.1)"));
        gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, 2, (int64_t[]){2, 3}));
        OK(gd_optimizer_add(o, "p", p));
        gd_link *link = gd_link_child_at(gd_optimizer_chain(o), 0);
        gd_setting one = {.kind = GD_SET_REAL, .real = 1};
        if (how == 1) OK(gd_optimizer_regroup(o, "*", "balance_probability=1"));
        if (how == 2) OK(gd_optimizer_schedule(o, 0, "balance_probability", "1"));
        for (int i = 0; i < 12; i++) {
            if (i == 11 && how == 3) {
                double a = largest(kept(o, p, "factor_0")), b = largest(kept(o, p, "factor_1"));
                assert_true(fabs(a / b - 1) > 1e-3);
                OK(gd_link_set(link, "balance_probability", one));
            }
            OK(gd_set_grad(p, gd_mul_scalar(MATRIX(ctx, 2, 3, 30, -10, 5, 20, 1, 2), 1 + 0.2 * i)));
            OK(gd_optimizer_step(o, NULL, NULL));
        }
        double a = largest(kept(o, p, "factor_0")), b = largest(kept(o, p, "factor_1"));
        if (!(fabs(a / b - 1) < 1e-12)) fail_msg("way %d: factors of %g and %g", how, a, b);
        gd_optimizer_free(o);
    }
}

static gd_tensor *low_rank_of(gd_ctx *ctx, gd_optimizer *o, gd_tensor *p, int n)
{
    gd_tensor *u = kept(o, p, "U"), *v = kept(o, p, "V"), *d = kept(o, p, "d");
    gd_tensor *q = gd_add(gd_eye(ctx, GD_F64, n, n), gd_matmul(u, gd_transpose(v, 0, 1)));
    return gram_of(gd_mul(q, gd_reshape(d, 1, (int64_t[]){n})));
}

static gd_tensor *diagonal_and_rank_two(gd_ctx *ctx)
{
    double h[36] = {0}, w[2][6] = {{1, -1, 0.5, 0, 1, 0}, {0, 1, 1, 1, 0, -0.5}};
    for (int i = 0; i < 36; i++)
        h[i] = (i / 6 == i % 6 ? 0.5 + 0.3 * (i % 6) : 0) + w[0][i / 6] * w[0][i % 6] +
               w[1][i / 6] * w[1][i % 6];
    return gd_from_f64(ctx, GD_F64, 2, (int64_t[]){6, 6}, h);
}

static void a_diagonal_and_a_low_rank_become_the_inverse_of_such_a_hessian(void **state)
{
    gd_ctx *ctx = CTX(state);
    quadratic q = {.left = diagonal_and_rank_two(ctx)};
    gd_optimizer *o = taught(ctx, "psgd_lra_newton(4)", &q, 1, (int64_t[]){6});
    double off = distance_from_one(ctx, gd_matmul(low_rank_of(ctx, o, q.p, 6), q.left));
    if (!(off < 0.1)) fail_msg("P H is %g from 1", off);
    gd_optimizer_free(o);
}

/* ---- gradients alone ---- */

/* Gradients left z right: of covariance (left left^T) x (right^T right). */
static gd_optimizer *whitened(gd_ctx *ctx, const char *text, gd_tensor *left, gd_tensor *right, gd_tensor **p)
{
    char chain[200];
    snprintf(chain, sizeof chain, "%s | lr(0)", text);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    gd_seed(ctx, 5);
    int64_t shape[] = {gd_size(left, 0), right ? gd_size(right, 0) : 1};
    *p = gd_require_grad(gd_ones(ctx, GD_F64, 2, shape));
    OK(gd_optimizer_add(o, "p", *p));
    for (int i = 0; i < 5000; i++) {
        gd_tensor *g = gd_matmul(left, gd_randn(ctx, GD_F64, 2, shape));
        OK(gd_set_grad(*p, right ? gd_matmul(g, right) : g));
        OK(gd_optimizer_step(o, NULL, NULL));
    }
    return o;
}

/* P^2 C is 1: P is C^(-1/2). */
static void factors_whiten_gradients(void **state)
{
    gd_ctx *ctx = CTX(state);
    for (int k = 0; k < COUNT_OF(geometries); k += test_share()) {
        gd_tensor *left = with_eigenvalues(ctx, 3, (double[]){0.5, 1, 2}, 3),
                  *right = with_eigenvalues(ctx, 2, (double[]){1, 2}, 4), *param = NULL;
        char text[120];
        snprintf(text, sizeof text, "psgd_kron_whiten(dQ=\"%s\", max_skew=2, lr_preconditioner=0.03)",
                 geometries[k]);
        gd_optimizer *o = whitened(ctx, text, left, right, &param);
        /* roots of the covariances are left and right themselves */
        gd_tensor *a = gd_matmul(gram_of(kept(o, param, "factor_0")), left);
        gd_tensor *b = gd_matmul(gram_of(kept(o, param, "factor_1")), right);
        double scale = gd_item(gd_sum(gd_diagonal(a), NULL, false)) / 3;
        double off = distance_from_one(ctx, gd_mul_scalar(a, 1 / scale)) +
                     distance_from_one(ctx, gd_mul_scalar(b, scale));
        if (!(off < 0.3)) fail_msg("%s: P C^(1/2) is %g from 1", text, off);
        gd_optimizer_free(o);
    }
}

static void a_diagonal_and_a_low_rank_whiten_gradients(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *root = diagonal_and_rank_two(ctx), *param = NULL;
    gd_optimizer *o = whitened(ctx, "psgd_lra_whiten(4, lr_preconditioner=0.03)", root, NULL, &param);
    double off = distance_from_one(ctx, gd_matmul(low_rank_of(ctx, o, param, 6), root));
    if (!(off < 0.5)) fail_msg("P C^(1/2) is %g from 1", off);
    gd_optimizer_free(o);
}

/* ---- settings of chance and size ---- */

static void updates_are_no_larger_than_is_allowed(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char *const chains[] = {"psgd_kron_whiten(grad_clip_max_amp=0.5)",
                                         "psgd_lra_whiten(grad_clip_max_amp=0.5)"};
    for (int k = 0; k < 2; k++) {
        char chain[120];
        snprintf(chain, sizeof chain, "%s | lr(1)", chains[k]);
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
        gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, 2, (int64_t[]){2, 2}));
        OK(gd_optimizer_add(o, "p", p));
        OK(gd_set_grad(p, MATRIX(ctx, 2, 2, 30, -10, 5, 20)));
        OK(gd_optimizer_step(o, NULL, NULL));
        double size = sqrt(gd_item(gd_mean(gd_square(gd_detach(p)), NULL, false)));
        if (!(fabs(size - 0.5) < 1e-12)) fail_msg("%s: %g", chain, size);
        gd_optimizer_free(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPED(the_dense_matrix_becomes_the_inverse_of_the_absolute_hessian),
        SCOPED(factors_become_those_of_a_hessian_that_is_a_product),
        SCOPED(long_axes_have_diagonals),
        SCOPED(axes_of_size_one_have_no_factor),
        SCOPED(factors_are_balanced_as_often_as_is_said),
        SCOPED(a_diagonal_and_a_low_rank_become_the_inverse_of_such_a_hessian),
        SCOPED(factors_whiten_gradients),
        SCOPED(a_diagonal_and_a_low_rank_whiten_gradients),
        SCOPED(updates_are_no_larger_than_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
