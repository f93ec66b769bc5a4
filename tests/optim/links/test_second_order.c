/* Newton and its relatives: closed forms on quadratics, singular and indefinite Hessians, points that are not finite,
 * closures that fail, state that survives a file. */
#include "autograd/reverse_batch.h"
#include "optim/vector/jacobian.h"
#include "optim/problem.h"

#include <stdio.h>
#include <unistd.h>
#include <math.h>

#define assert_near(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

/* ---- quadratics ---- */

static void one_newton_step_solves_a_quadratic(void **state)
{
    (void)state;
    const char *const chains[] = {"newton",
                                  "newton(use_lstsq=true)",
                                  "newton(eigval_fn=\"abs\")",
                                  "newton(hessian_method=\"gfd_central\")",
                                  "newton_cg(reg=0)",
                                  "newton_cg(reg=0, solver=\"minres\", tol=1e-13)",
                                  "two_point_newton"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        problem q = problem_open(chains[i], quadratic, 3, (double[]){3, -2, 5});
        problem_steps(&q, 1);
        assert_values_near(q.p, 1e-8, QUADRATIC_MINIMUM);
        problem_close(&q);
    }
}

static void newton_evaluates_once_a_step(void **state)
{
    (void)state;
    problem q = problem_open("newton", rosenbrock, 2, (double[]){-1.2, 1});
    problem_steps(&q, 5);
    assert_int_equal(q.evals, 5);
    problem_close(&q);
    q = problem_open("newton_cg", quadratic, 3, (double[]){3, -2, 5});
    problem_steps(&q, 1);
    assert_int_equal(q.evals, 1);
    problem_close(&q);
}

/* (x - y)^2 / 2 + (x - 1)^2 over two parameters of their own shapes and names */
typedef struct pair {
    gd_tensor *a, *b;
} pair;

static gd_tensor *pair_loss(void *user)
{
    pair *q = user;
    gd_tensor *apart = gd_sub(gd_drop_names(q->a), gd_reshape(q->b, 2, (int64_t[]){1, 2}));
    gd_tensor *far = gd_add_scalar(gd_drop_names(q->a), -1);
    return gd_add(gd_mul_scalar(gd_sum(gd_square(apart), NULL, false), 0.5),
                  gd_sum(gd_square(far), NULL, false));
}

static void parameters_of_any_shape_are_one_vector(void **state)
{
    (void)state;
    const char *const chains[] = {"newton", "newton_cg(reg=0)", "trust_cg(newton, init=100)",
                                  "dogleg(newton, init=100)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        pair q = {.a = gd_require_grad(gd_rename(MATRIX(ctx, 3, 2, 1, 2, 3, 4, 5, 6), "row, column")),
                  .b = gd_require_grad(VECTOR(ctx, 7, 8))};
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chains[i]));
        assert_int_equal(gd_optimizer_add(o, "a", q.a), GD_OK);
        assert_int_equal(gd_optimizer_add(o, "b", q.b), GD_OK);
        assert_int_equal(gd_optimizer_step(o, &(gd_objective){.loss = pair_loss, .user = &q}, NULL), GD_OK);
        assert_no_error(ctx);
        assert_values_near(q.a, 1e-7, 1, 1, 1, 1, 1, 1);
        assert_values_near(q.b, 1e-7, 1, 1);
        gd_optimizer_free(o);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* ---- singular, indefinite, not finite ---- */

/* (x + y - 1)^2: a valley */
static gd_tensor *valley(gd_tensor *p)
{
    return gd_square(gd_add_scalar(gd_add(item(p, 0), item(p, 1)), -1));
}

static void a_singular_hessian_gives_the_step_of_least_norm(void **state)
{
    (void)state;
    const char *const chains[] = {"newton", "newton(use_lstsq=true)", "newton(eigv_tol=1e-10)",
                                  "newton(truncate=1)", "newton_cg"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        problem q = problem_open(chains[i], valley, 2, (double[]){3, 1});
        problem_steps(&q, 1);
        assert_values_near(q.p, 1e-7, 1.5, -0.5);
        problem_close(&q);
    }
}

/* x^2 - y^2 */
static gd_tensor *saddle(gd_tensor *p) { return gd_sub(gd_square(item(p, 0)), gd_square(item(p, 1))); }

static void an_indefinite_hessian_leads_to_the_saddle_unless_told_otherwise(void **state)
{
    (void)state;
    problem q = problem_open("newton", saddle, 2, (double[]){2, 1});
    problem_steps(&q, 1);
    assert_values(q.p, 0, 0);
    problem_close(&q);
    q = problem_open("newton(eigval_fn=\"abs\")", saddle, 2, (double[]){2, 1});
    problem_steps(&q, 1);
    assert_values(q.p, 0, 2);
    problem_close(&q);
    /* eigenvalues 2 and -2: clipped at a tenth of the largest size */
    q = problem_open("newton(eigval_fn=\"clip\", eigv_tol=0.1)", saddle, 2, (double[]){2, 1});
    problem_steps(&q, 1);
    assert_values(q.p, 0, 11);
    problem_close(&q);
    q = problem_open("newton(damping=4)", saddle, 2, (double[]){2, 1});
    problem_steps(&q, 1);
    assert_values(q.p, 2 - 4.0 / 6, 2);
    problem_close(&q);
}

static void newton_cg_never_hands_on_an_uphill_update(void **state)
{
    (void)state;
    const char *const chains[] = {"newton_cg", "newton_cg(solver=\"minres\")", "newton_cg(maxiter=1)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        /* at (0.1, 1) the Newton direction is uphill */
        problem q = problem_open(chains[i], saddle, 2, (double[]){0.1, 1});
        problem_steps(&q, 1);
        double x[2];
        read_point(&q, x);
        /* down the gradient (0.2, -2) */
        assert_true((0.1 - x[0]) * 0.2 + (1 - x[1]) * -2 > 0);
        problem_close(&q);
    }
}

static gd_tensor *flat(gd_tensor *p) { return gd_mul_scalar(gd_sum(p, NULL, false), 0); }
static gd_tensor *not_finite(gd_tensor *p) { return gd_sum(gd_log(p), NULL, false); }

static const char *const all_chains[] = {
    "newton",
    "newton(eigval_fn=\"abs\")",
    "newton_cg",
    "newton_cg(hvp_method=\"forward\")",
    "newton_cg_steihaug",
    "newton_cg_steihaug(hvp_method=\"autograd\", solver=\"minres\")",
    "inverse_free_newton",
    "two_point_newton",
};

static void a_flat_function_moves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(all_chains); i++) {
        problem q = problem_open(all_chains[i], flat, 2, (double[]){2, 1});
        problem_steps(&q, 3);
        assert_values(q.p, 2, 1);
        problem_close(&q);
    }
}

static void a_function_that_is_not_finite_moves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(all_chains); i++) {
        problem q = problem_open(all_chains[i], not_finite, 2, (double[]){-2, 0});
        problem_steps(&q, 2);
        assert_values(q.p, -2, 0);
        assert_true(q.info.skipped || q.info.search_failed);
        problem_close(&q);
    }
}

static void a_closure_that_fails_leaves_the_parameters_where_they_were(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(all_chains); i++) {
        for (int fail_at = 1; fail_at < 8; fail_at++) {
            problem q = problem_open(all_chains[i], rosenbrock, 2, (double[]){-1.2, 1});
            q.fail_at = fail_at;
            gd_status status = problem_step(&q);
            if (status) {
                assert_int_equal(status, GD_CALLBACK);
                assert_error(q.ctx, GD_CALLBACK, "made to fail");
                assert_values(q.p, -1.2, 1);
                /* and it can go on */
                problem_steps(&q, 1);
            }
            problem_close(&q);
        }
    }
}

/* ---- settings ---- */

static void update_freq_keeps_the_hessian(void **state)
{
    (void)state;
    /* f = x^4: with the Hessian 12 of x = 1 kept, steps are 4 x^3 / 12 */
    problem q = problem_open("newton(update_freq=3)", rosenbrock, 2, (double[]){-1.2, 1}), r;
    problem_steps(&q, 4);
    r = problem_open("newton", rosenbrock, 2, (double[]){-1.2, 1});
    problem_steps(&r, 1);
    double kept[2], fresh[2];
    read_point(&q, kept);
    read_point(&r, fresh);
    assert_true(norm_between(kept, fresh, 2) > 1e-3);
    problem_close(&q);
    problem_close(&r);
}

static void warm_start_begins_at_the_solution_before(void **state)
{
    (void)state;
    /* one iteration per step on a quadratic, lr 0: the same system again and again */
    problem q = problem_open("newton_cg(maxiter=1, warm_start=true, reg=0) | lr(0)", quadratic, 3,
                             (double[]){3, -2, 5});
    problem_steps(&q, 1);
    assert_values(q.p, 3, -2, 5);
    problem_close(&q);
    problem cold = problem_open("newton_cg(maxiter=1, reg=0)", quadratic, 3, (double[]){3, -2, 5});
    problem warm = problem_open("newton_cg(maxiter=1, warm_start=true, reg=0)", quadratic, 3,
                                (double[]){3, -2, 5});
    problem_steps(&cold, 1);
    problem_steps(&warm, 1);
    double a[3], b[3];
    read_point(&cold, a);
    read_point(&warm, b);
    assert_true(norm_between(a, b, 3) == 0);
    problem_steps(&warm, 1);
    problem_steps(&cold, 1);
    read_point(&cold, a);
    read_point(&warm, b);
    assert_true(norm_between(a, b, 3) > 0);
    problem_close(&cold);
    problem_close(&warm);
}

static void inner_links_take_the_place_of_the_gradient(void **state)
{
    (void)state;
    problem q = problem_open("newton(inner=lr(0.5))", quadratic, 3, (double[]){3, -2, 5});
    problem_steps(&q, 1);
    const double start[] = {3, -2, 5}, end[] = {QUADRATIC_MINIMUM};
    double x[3];
    read_point(&q, x);
    for (int i = 0; i < 3; i++) assert_near(x[i], (start[i] + end[i]) / 2, 1e-12);
    problem_close(&q);
}

static void inner_links_may_evaluate(void **state)
{
    (void)state;
    const char *const chains[] = {"newton_cg(inner=online(lr(1)))",
                                  "newton_cg_steihaug(hvp_method=\"autograd\", inner=online(lr(1)))",
                                  "newton(inner=online(lr(1)))", "trust_cg(newton, inner=online(lr(1)))"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        problem q = problem_open(chains[i], quadratic, 3, (double[]){3, -2, 5});
        problem_steps(&q, 12);
        assert_values_near(q.p, 1e-5, QUADRATIC_MINIMUM);
        problem_close(&q);
    }
}

static void inverse_free_newton_converges_to_newton(void **state)
{
    (void)state;
    problem q = problem_open("inverse_free_newton", quadratic, 3, (double[]){3, -2, 5});
    problem_steps(&q, 30);
    assert_values_near(q.p, 1e-12, QUADRATIC_MINIMUM);
    problem_close(&q);
}

/* Only the first of three directions has curvature, or none: the inverse must learn the others later. */
static gd_tensor *one_direction(gd_tensor *p)
{
    return gd_sum(gd_square(gd_slice(p, "0", 0, 1, 1)), NULL, false);
}

static void inverse_free_newton_recovers_from_singular_hessians(void **state)
{
    (void)state;
    gd_tensor *(*const before[])(gd_tensor *) = {flat, one_direction};
    for (int i = 0; i < COUNT_OF(before); i++) {
        problem q = problem_open("inverse_free_newton", before[i], 3, (double[]){3, -2, 5});
        problem_steps(&q, 20);
        q.loss = quadratic;
        problem_steps(&q, 60);
        assert_values_near(q.p, 1e-10, QUADRATIC_MINIMUM);
        problem_close(&q);
    }
}

static void two_point_newton_converges_faster_than_newton(void **state)
{
    (void)state;
    problem q = problem_open("two_point_newton", rosenbrock, 2, (double[]){1.1, 1.2});
    problem r = problem_open("newton", rosenbrock, 2, (double[]){1.1, 1.2});
    problem_steps(&q, 2);
    problem_steps(&r, 2);
    double a[2], b[2], best[] = {1, 1};
    read_point(&q, a);
    read_point(&r, b);
    assert_true(norm_between(a, best, 2) < norm_between(b, best, 2));
    assert_int_equal(q.evals, 4);
    problem_close(&q);
    problem_close(&r);
}

static void steihaug_minimises_rosenbrock(void **state)
{
    (void)state;
    const char *const chains[] = {"newton_cg_steihaug",
                                  "newton_cg_steihaug(hvp_method=\"autograd\")",
                                  "newton_cg_steihaug(hvp_method=\"forward\", h=1e-5)",
                                  "newton_cg_steihaug(hvp_method=\"autograd\", solver=\"minres\")",
                                  "newton_cg_steihaug(hvp_method=\"autograd\", npc_terminate=true)",
                                  "newton_cg_steihaug(hvp_method=\"autograd\", max_history=0)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        problem q = problem_open(chains[i], rosenbrock, 2, (double[]){-1.2, 1});
        problem_steps(&q, 80);
        assert_values_near(q.p, 1e-4, 1, 1);
        problem_close(&q);
    }
}

static void steihaug_needs_one_gradient_and_one_value_with_autograd(void **state)
{
    (void)state;
    problem q = problem_open("newton_cg_steihaug(hvp_method=\"autograd\", init=100)", quadratic, 3,
                             (double[]){3, -2, 5});
    problem_steps(&q, 1);
    assert_int_equal(q.evals, 2);
    assert_values_near(q.p, 1e-6, QUADRATIC_MINIMUM);
    problem_close(&q);
}

/* ---- state in files ---- */

static void saved_runs_go_on_bit_for_bit(void **state)
{
    (void)state;
    const char *const chains[] = {"newton(update_freq=3, damping=0.1)",
                                  "newton_cg(warm_start=true, maxiter=1)",
                                  "newton_cg_steihaug",
                                  "inverse_free_newton",
                                  "trust_cg(newton(update_freq=2))",
                                  "levenberg_marquardt(newton)",
                                  "dogleg(newton)",
                                  "cubic_regularization(newton)"};
    char path[] = "/tmp/gd_second_order_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (int i = 0; i < COUNT_OF(chains); i++) {
        problem q = problem_open(chains[i], rosenbrock, 2, (double[]){-1.2, 1});
        problem_steps(&q, 4);
        double middle[2], want[2], got[2];
        read_point(&q, middle);
        assert_int_equal(gd_optimizer_save(q.optimizer, path), GD_OK);
        problem_steps(&q, 4);
        read_point(&q, want);
        problem_close(&q);
        problem r = problem_open(chains[i], rosenbrock, 2, middle);
        assert_int_equal(gd_optimizer_load(r.optimizer, path, true), GD_OK);
        assert_no_error(r.ctx);
        problem_steps(&r, 4);
        read_point(&r, got);
        assert_memory_equal(got, want, sizeof want);
        problem_close(&r);
    }
    unlink(path);
}

/* ---- batched reverse passes ---- */

/* Many operators, broadcasts, views and reductions at once. */
static gd_tensor *busy(gd_tensor *x, gd_tensor *w)
{
    gd_tensor *m = gd_matmul(gd_reshape(x, 2, (int64_t[]){2, 3}), w); /* [2, 4] */
    gd_tensor *s = gd_softmax(m, "1"),
              *l = gd_logsumexp(gd_transpose(m, 0, 1), "0", true); /* [2, 4], [1, 2] */
    gd_tensor *t = gd_mul(gd_tanh(m), gd_exp(gd_mul_scalar(s, 0.3)));
    t = gd_add(t, gd_transpose(gd_expand(l, 2, (int64_t[]){4, 2}), 0, 1));
    gd_tensor *c = gd_cat((gd_tensor *[]){gd_slice(t, "1", 0, 4, 2), gd_sqrt(gd_add_scalar(gd_square(t), 1))},
                          2, "1");
    gd_tensor *picked = gd_index_select(
        c, "1", gd_from_data(gd_tensor_ctx(x), GD_I64, 1, (int64_t[]){3}, (int64_t[]){5, 0, 5}));
    gd_tensor *sums = gd_cumsum(gd_div(c, gd_add_scalar(gd_sum(gd_square(x), NULL, false), 1)), "1");
    gd_tensor *y = gd_cat((gd_tensor *[]){gd_reshape(sums, 1, (int64_t[]){12}),
                                          gd_reshape(picked, 1, (int64_t[]){6}),
                                          gd_pow(gd_abs(x), gd_mean(gd_sigmoid(w), NULL, false)),
                                          gd_maximum(x, gd_index(gd_index(w, "0", 0), "0", 1)),
                                          gd_index(gd_log_softmax(w, "1"), "0", 2)},
                          5, "0");
    return gd_where(gd_gt(y, gd_full_like(y, 0.4)), gd_atan2(y, gd_add_scalar(gd_square(y), 1)), gd_sin(y));
}

static void batched_passes_agree_with_single_ones(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_seed(ctx, 5);
    gd_tensor *x = gd_require_grad(gd_randn(ctx, GD_F64, 1, (int64_t[]){6}));
    gd_tensor *w = gd_require_grad(gd_randn(ctx, GD_F64, 2, (int64_t[]){3, 4}));
    gd_tensor *y = busy(x, w), *params[] = {x, w}, *one[2];
    assert_no_error(ctx);
    int64_t m = gd_numel(y);
    gd_tensor *seeds = gd_eye(ctx, GD_F64, m, m), *grads[2];
    for (int i = 0; i < 2; i++) grads[i] = gd_zeros(ctx, GD_F64, 2, (int64_t[]){m, gd_numel(params[i])});
    assert_int_equal(gd__grad_batch(y, seeds, params, 2, grads), GD_OK);
    for (int64_t k = 0; k < m; k++) {
        assert_int_equal(gd_grad(y, gd_index(seeds, "0", k), params, 2, GD_RETAIN_GRAPH, one), GD_OK);
        for (int i = 0; i < 2; i++) {
            double got[12], want[12];
            assert_int_equal(gd_read_f64(gd_index(grads[i], "0", k), got, gd_numel(params[i])), GD_OK);
            assert_int_equal(gd_read_f64(one[i], want, gd_numel(params[i])), GD_OK);
            for (int j = 0; j < gd_numel(params[i]); j++) assert_near(got[j], want[j], 1e-14);
        }
    }
    /* columns through J^T u and rows are the same matrix */
    gd_tensor *j = gd__jacobian_matrix(y, params, 2);
    assert_shape(j, m, 18);
    gd_tensor *by_rows = gd__derivative_rows(&y, 1, params, 2);
    assert_true(gd_item(gd_max(gd_abs(gd_sub(j, by_rows)), NULL, false)) < 1e-14);
    gd_scope_end(ctx);
    assert_no_error(ctx);
    end_context(ctx, NULL);
}

static void an_operator_without_a_batched_rule_is_taken_one_by_one(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_require_grad(VECTOR(ctx, 2, 3, 5));
    gd_tensor *y = gd_mul(x, gd_prod(x, NULL, false)), *square = gd_eye(ctx, GD_F64, 3, 3);
    assert_int_equal(gd__grad_batch(y, square, &x, 1, &square), GD_NOT_IMPLEMENTED);
    assert_no_error(ctx);
    /* d (x_i x_0 x_1 x_2) / d x_j */
    assert_values(gd__derivative_rows(&y, 1, &x, 1), 60, 20, 12, 45, 60, 18, 75, 50, 60);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- sketches ---- */

static void nystrom_pcg_reaches_the_newton_step(void **state)
{
    (void)state;
    static const char *const chains[] = {"nystrom_pcg(1, tol=1e-13, reg=0)",
                                         "nystrom_pcg(2, tol=1e-13, reg=0)",
                                         "nystrom_pcg(9, tol=1e-13, reg=0, seed=3)"};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        double x[3], want[] = {QUADRATIC_MINIMUM};
        problem q = problem_open(chains[i], quadratic, 3, (double[]){2, -1, 3});
        problem_steps(&q, 1);
        read_point(&q, x);
        for (int k = 0; k < 3; k++) assert_near(x[k], want[k], 1e-10);
        problem_close(&q);
    }
}

/* (a x)^2 + (b x)^2: the Hessian has rank 2. */
static gd_tensor *of_rank_two(gd_tensor *p)
{
    gd_tensor *a = gd_add(item(p, 0), gd_mul_scalar(item(p, 2), 2)), *b = gd_sub(item(p, 1), item(p, 3));
    return gd_add(gd_square(a), gd_mul_scalar(gd_square(b), 3));
}

/* H = 2 a a^T + 6 b b^T with orthogonal a, b of lengths sqrt(5) and sqrt(2); g = H x.  The step is g / (L + reg) along each. */
static void a_sketch_as_large_as_the_rank_is_exact(void **state)
{
    (void)state;
    double start[] = {1, 2, -1, 0.5}, x[4], ax = start[0] + 2 * start[2], bx = start[1] - start[3];
    double a = 2 * ax / (10 + 0.25), b = 6 * bx / (12 + 0.25);
    double want[] = {1 - a, 2 - b, -1 - 2 * a, 0.5 + b};
    for (int seed = 1; seed <= 5; seed++) {
        char chain[80];
        snprintf(chain, sizeof chain, "nystrom_sketch_and_solve(2, reg=0.25, seed=%d)", seed);
        problem q = problem_open(chain, of_rank_two, 4, start);
        problem_steps(&q, 1);
        read_point(&q, x);
        for (int k = 0; k < 4; k++) assert_near(x[k], want[k], 1e-5);
        problem_close(&q);
    }
}

/* The step of rsn is the minimum of a quadratic in the subspace: what is left of the gradient is orthogonal to the step. */
static void a_subspace_step_leaves_no_slope_along_it(void **state)
{
    (void)state;
    static const char *const types[] = {"orthonormal", "gaussian", "common_directions", "mixed"};
    for (size_t i = 0; i < 4; i++)
        for (int steps = 1; steps < 4; steps++) {
            char chain[80];
            double before[3], x[3];
            snprintf(chain, sizeof chain, "rsn(2, sketch_type=\"%s\", seed=7)", types[i]);
            problem q = problem_open(chain, quadratic, 3, (double[]){2, -1, 3});
            problem_steps(&q, steps - 1);
            read_point(&q, before);
            problem_steps(&q, 1);
            read_point(&q, x);
            double g[] = {2 * x[0] + x[1] - 1, 4 * x[1] + x[0] - x[2], 9 * x[2] - x[1]}, along = 0;
            for (int k = 0; k < 3; k++) along += g[k] * (x[k] - before[k]);
            assert_near(along, 0, 1e-9);
            problem_close(&q);
        }
}

static void the_same_seed_gives_the_same_steps(void **state)
{
    (void)state;
    static const char *const chains[] = {"rsn(1, seed=5)", "nystrom_sketch_and_solve(1, reg=9, seed=5)",
                                         "nystrom_pcg(1, maxiter=1, seed=5)"};
    for (size_t i = 0; i < 3; i++) {
        double x[2][3];
        for (int k = 0; k < 2; k++) {
            problem q = problem_open(chains[i], quadratic, 3, (double[]){2, -1, 3});
            gd_seed(q.ctx, (uint64_t)k);
            problem_steps(&q, 3);
            read_point(&q, x[k]);
            problem_close(&q);
        }
        assert_memory_equal(x[0], x[1], sizeof x[0]);
    }
}

/* ---- order ---- */

/* x^2/2 + y^2 + x y/2 + x^3/3 + x^2 y + y^3/5 + x^4: the minimum near which steps are measured is 0. */
static gd_tensor *with_higher_terms(gd_tensor *p)
{
    gd_tensor *x = item(p, 0), *y = item(p, 1);
    gd_tensor *even = gd_add(
        gd_mul_scalar(gd_square(x), 0.5),
        gd_add(gd_square(y), gd_add(gd_mul_scalar(gd_mul(x, y), 0.5), gd_square(gd_square(x)))));
    gd_tensor *odd = gd_add(gd_mul_scalar(gd_mul(gd_square(x), x), 1.0 / 3),
                            gd_add(gd_mul(gd_square(x), y), gd_mul_scalar(gd_mul(gd_square(y), y), 0.2)));
    return gd_add(even, odd);
}

static double left_from(const char *chain, double distance)
{
    double x[2], zero[2] = {0, 0};
    problem q = problem_open(chain, with_higher_terms, 2, (double[]){0.6 * distance, -0.8 * distance});
    problem_steps(&q, 1);
    read_point(&q, x);
    problem_close(&q);
    return norm_between(x, zero, 2);
}

static void halving_the_distance_divides_what_is_left_by_two_to_the_order(void **state)
{
    (void)state;
    static const struct {
        const char *chain;
        double order;
    } all[] = {{"newton", 2},
               {"two_point_newton", 3},
               {"sixth_order_3p", 6},
               {"sixth_order_3pm2", 6},
               {"sixth_order_5p", 6}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double order = log2(left_from(all[i].chain, 0.02) / left_from(all[i].chain, 0.01));
        if (!(fabs(order - all[i].order) < 0.4)) fail_msg("%s is of order %g", all[i].chain, order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_newton_step_solves_a_quadratic),
        cmocka_unit_test(newton_evaluates_once_a_step),
        cmocka_unit_test(parameters_of_any_shape_are_one_vector),
        cmocka_unit_test(a_singular_hessian_gives_the_step_of_least_norm),
        cmocka_unit_test(an_indefinite_hessian_leads_to_the_saddle_unless_told_otherwise),
        cmocka_unit_test(newton_cg_never_hands_on_an_uphill_update),
        cmocka_unit_test(a_flat_function_moves_nothing),
        cmocka_unit_test(a_function_that_is_not_finite_moves_nothing),
        cmocka_unit_test(a_closure_that_fails_leaves_the_parameters_where_they_were),
        cmocka_unit_test(update_freq_keeps_the_hessian),
        cmocka_unit_test(warm_start_begins_at_the_solution_before),
        cmocka_unit_test(inner_links_take_the_place_of_the_gradient),
        cmocka_unit_test(inner_links_may_evaluate),
        cmocka_unit_test(inverse_free_newton_converges_to_newton),
        cmocka_unit_test(inverse_free_newton_recovers_from_singular_hessians),
        cmocka_unit_test(two_point_newton_converges_faster_than_newton),
        cmocka_unit_test(steihaug_minimises_rosenbrock),
        cmocka_unit_test(steihaug_needs_one_gradient_and_one_value_with_autograd),
        cmocka_unit_test(saved_runs_go_on_bit_for_bit),
        cmocka_unit_test(batched_passes_agree_with_single_ones),
        cmocka_unit_test(an_operator_without_a_batched_rule_is_taken_one_by_one),
        cmocka_unit_test(nystrom_pcg_reaches_the_newton_step),
        cmocka_unit_test(a_sketch_as_large_as_the_rank_is_exact),
        cmocka_unit_test(a_subspace_step_leaves_no_slope_along_it),
        cmocka_unit_test(the_same_seed_gives_the_same_steps),
        cmocka_unit_test(halving_the_distance_divides_what_is_left_by_two_to_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
