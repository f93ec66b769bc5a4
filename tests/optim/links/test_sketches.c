/* Links that know a Hessian or a Fisher matrix by samples: sg2's mean, subspaces of every kind, natural_gradient of a vector. */
#include "optim/optim_support.h"

#define SCOPED(name) cmocka_unit_test_setup_teardown(name, begin_scoped_test, end_scoped_test)
#define N            4

/* A definite and an indefinite Hessian, by rows. */
static const double hessians[2][N * N] = {{4, 1, 0, 0.5, 1, 3, 0.2, 0, 0, 0.2, 2, -0.3, 0.5, 0, -0.3, 1},
                                          {4, 1, 0, 0.5, 1, -3, 0.2, 0, 0, 0.2, 2, -0.3, 0.5, 0, -0.3, 1}};

typedef struct bowl {
    gd_ctx *ctx;
    gd_tensor *p, *h;
    gd_optimizer *o;
} bowl;

static gd_tensor *value_of(void *user)
{
    const bowl *b = user;
    return gd_mul_scalar(gd_sum(gd_mul(b->p, gd_matmul(b->h, b->p)), NULL, false), 0.5);
}

static bowl open_bowl(gd_ctx *ctx, const char *chain, int which)
{
    bowl b = {.ctx = ctx, .h = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){N, N}, hessians[which])};
    b.p = gd_require_grad(VECTOR(ctx, 1, -2, 0.5, 3));
    b.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!b.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    OK(gd_optimizer_add(b.o, "p", b.p));
    gd_seed(ctx, 3);
    return b;
}

static void step_bowl(bowl *b, int steps)
{
    gd_objective objective = {.loss = value_of, .user = b};
    for (int i = 0; i < steps; i++) {
        gd_status status = gd_optimizer_step(b->o, &objective, NULL);
        if (status) fail_msg("%s", gd_error_text(b->ctx));
    }
}

/* ---- sg2 ---- */

/* On a quadratic a sample is H z z^T made symmetric: its mean is H, the variance of an element off the diagonal at most
 * the sum of squares of two rows over 4. */
static void the_mean_of_samples_is_the_hessian(void **state)
{
    gd_ctx *ctx = CTX(state);
    bowl b = open_bowl(ctx, "sg2(n_first_step_samples=4000, start_step=100) | lr(0)", 0);
    step_bowl(&b, 1);
    double got[N * N];
    gd_link *link = gd_link_child_at(gd_optimizer_chain(b.o), 0);
    OK(gd_read_f64(gd_link_global_tensor(link, "hessian"), got, N * N));
    for (int i = 0; i < N * N; i++) {
        double rows = 0;
        for (int k = 0; k < N; k++)
            rows += hessians[0][i / N * N + k] * hessians[0][i / N * N + k] +
                    hessians[0][i % N * N + k] * hessians[0][i % N * N + k];
        double deviation = sqrt(rows / 2 / 4000);
        if (!(fabs(got[i] - hessians[0][i]) < 5 * deviation))
            fail_msg("element %d: %g, not %g", i, got[i], hessians[0][i]);
        assert_true(fabs(got[i] - got[i % N * N + i / N]) < 1e-12);
    }
    gd_optimizer_free(b.o);
}

static void a_seed_repeats_the_samples(void **state)
{
    gd_ctx *ctx = CTX(state);
    double x[2][N];
    for (int k = 0; k < 2; k++) {
        bowl b = open_bowl(ctx, "sg2(start_step=0, seed=5) | lr(0.1)", 1);
        gd_seed(ctx, (uint64_t)k);
        step_bowl(&b, 4);
        OK(gd_read_f64(b.p, x[k], N));
        gd_optimizer_free(b.o);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
}

/* Downhill along negative curvature too: sizes of eigenvalues divide. */
static void an_indefinite_mean_is_used_by_size(void **state)
{
    gd_ctx *ctx = CTX(state);
    bowl b = open_bowl(ctx, "sg2(n_first_step_samples=4000, start_step=0) | lr(0.01)", 1);
    double before = gd_item(value_of(&b));
    step_bowl(&b, 1);
    assert_true(gd_item(value_of(&b)) < before);
    gd_optimizer_free(b.o);
}

/* ---- subspaces ---- */

static void directions_of_every_kind_that_span_all_give_the_newton_step(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char *const kinds[] = {"orthonormal", "gaussian", "rows", "topk", "mixed"};
    for (int k = 0; k < COUNT_OF(kinds); k++) {
        char chain[100];
        snprintf(chain, sizeof chain, "subspace_newton(10, \"%s\") | lr(1)", kinds[k]);
        bowl b = open_bowl(ctx, chain, 0);
        step_bowl(&b, 1);
        double off = gd_item(gd_norm(gd_detach(b.p), 2, NULL, false));
        if (!(off < 1e-8)) fail_msg("%s: %g from the minimum", chain, off);
        gd_optimizer_free(b.o);
    }
}

static void fewer_directions_still_lead_down(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char *const kinds[] = {"orthonormal", "gaussian", "rademacher",       "rows",
                                        "topk",        "mixed",    "common_directions"};
    for (int k = 0; k < COUNT_OF(kinds); k++) {
        char chain[100];
        snprintf(chain, sizeof chain, "subspace_newton(2, \"%s\") | lr(1)", kinds[k]);
        bowl b = open_bowl(ctx, chain, 0);
        double before = gd_item(value_of(&b));
        step_bowl(&b, 12);
        double after = gd_item(value_of(&b));
        if (!(after < 0.2 * before)) fail_msg("%s: from %g to %g", chain, before, after);
        gd_optimizer_free(b.o);
    }
}

/* ---- natural_gradient ---- */

static gd_tensor *elements(void *user)
{
    const bowl *b = user;
    return gd_add_scalar(gd_matmul(b->h, b->p), -1);
}

/* G is constant: u by hand, in each form; the matrix has more columns than rows, and more rows than columns. */
static void every_element_of_a_loss_has_its_gradient(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const double wide[8] = {1, 2, 0, -1, 0, 1, 1, 3}, tall[8] = {1, 0, 2, 1, 0, 1, -1, 3};
    for (int k = 0; k < 8; k++) {
        bool is_tall = k & 1, root = k & 2, weighed = k & 4;
        int m = is_tall ? 4 : 2, n = 6 - m;
        char chain[100];
        snprintf(chain, sizeof chain, "natural_gradient(0.5, %s, %s) | lr(1)", root ? "true" : "false",
                 weighed ? "true" : "false");
        bowl b = {.ctx = ctx, .h = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){m, n}, is_tall ? tall : wide)};
        b.p = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){n}));
        b.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
        OK(gd_optimizer_add(b.o, "p", b.p));
        gd_tensor *f = gd_detach(elements(&b)), *g = b.h, *across = gd_transpose(g, 0, 1);
        gd_tensor *x = root && weighed ? f : gd_ones_like(f);
        /* through the matrix that the link does not take: n x n where m is smaller, m x m else */
        gd_tensor *a = is_tall ? gd_matmul(g, across) : gd_matmul(across, g), *l = NULL, *v = NULL;
        OK(gd_eigh(a, &l, &v));
        gd_tensor *power = gd_pow_scalar(gd_add_scalar(l, 0.5), root ? -0.5 : -1);
        gd_tensor *p = gd_matmul(gd_mul(v, power), gd_transpose(v, 0, 1));
        gd_tensor *want = is_tall ? gd_matmul(across, gd_matmul(p, x)) : gd_matmul(p, gd_matmul(across, x));
        OK(gd_optimizer_step(b.o, &(gd_objective){.loss = elements, .user = &b}, NULL));
        gd_tensor *got = gd_add_scalar(gd_neg(gd_detach(b.p)), 1);
        double off = gd_item(gd_norm(gd_sub(got, want), 2, NULL, false));
        if (!(off < 1e-12)) fail_msg("%s, %d elements: %g off", chain, m, off);
        gd_optimizer_free(b.o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPED(the_mean_of_samples_is_the_hessian),
        SCOPED(a_seed_repeats_the_samples),
        SCOPED(an_indefinite_mean_is_used_by_size),
        SCOPED(directions_of_every_kind_that_span_all_give_the_newton_step),
        SCOPED(fewer_directions_still_lead_down),
        SCOPED(every_element_of_a_loss_has_its_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
