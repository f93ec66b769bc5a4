/* Trust regions: the radius and its rules, each method against the definition of its step, rejected and impossible trial
 * points, children without a Hessian. */
#include "gradus/link/trust_region.h"
#include "optim/problem.h"
#include <math.h>

#define assert_near(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

static const char *const methods[] = {"trust_cg", "levenberg_marquardt", "dogleg", "cubic_regularization"};

static double radius_of(const problem *q)
{
    return *gd_link_global(gd_optimizer_chain(q->optimizer), "radius", NAN);
}

static problem open_method(int method, const char *settings, gd_tensor *(*loss)(gd_tensor *p), int n,
                           const double *start)
{
    char chain[128];
    snprintf(chain, sizeof chain, "%s(%s)", methods[method], settings);
    return problem_open(chain, loss, n, start);
}

/* ---- all methods ---- */

static void every_method_minimises_rosenbrock(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "newton", rosenbrock, 2, (double[]){-1.2, 1});
        problem_steps(&q, 80);
        assert_values_near(q.p, 1e-7, 1, 1);
        problem_close(&q);
    }
}

static void every_method_works_on_residuals(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "gauss_newton", rosenbrock_residuals, 2, (double[]){-1.2, 1});
        problem_steps(&q, 120);
        assert_values_near(q.p, 1e-7, 1, 1);
        problem_close(&q);
    }
}

static void the_loss_never_rises(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "newton", rosenbrock, 2, (double[]){-1.2, 1});
        double last = INFINITY;
        for (int i = 0; i < 40; i++) {
            problem_steps(&q, 1);
            assert_true(q.info.loss <= last * (1 + 1e-14));
            last = q.info.loss;
        }
        problem_close(&q);
    }
}

static void rejected_steps_leave_the_parameters_and_shrink_the_radius(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "newton, max_attempts=3", rosenbrock, 2, (double[]){-1.2, 1});
        q.worse = 1e6;
        problem_steps(&q, 1);
        assert_true(q.info.search_failed);
        assert_values(q.p, -1.2, 1);
        assert_int_equal(q.evals, 4);
        assert_near(radius_of(&q), 1.0 / 64, 1e-15);
        /* and with a function that behaves again it goes on from there */
        q.worse = 0;
        problem_steps(&q, 30);
        assert_true(q.info.loss < 1);
        problem_close(&q);
    }
}

static void a_radius_under_which_nothing_moves_starts_again(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "newton, max_attempts=1000", rosenbrock, 2, (double[]){-1.2, 1});
        q.worse = 1e6;
        problem_steps(&q, 1);
        assert_true(q.info.search_failed);
        assert_near(radius_of(&q), 1, 0);
        assert_true(q.evals < 200);
        problem_close(&q);
    }
}

static void trial_points_that_are_not_finite_are_rejected(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "newton", rosenbrock, 2, (double[]){-1.2, 1});
        q.nan_from = 2;
        problem_steps(&q, 1);
        assert_true(q.info.search_failed);
        assert_values(q.p, -1.2, 1);
        problem_close(&q);
    }
}

/* log x + x^2 / 2: not defined for negative x, concave near 0 */
static gd_tensor *half_line(gd_tensor *p)
{
    return gd_sum(gd_sub(gd_mul_scalar(gd_square(p), 0.5), gd_log(p)), NULL, false);
}

static void steps_out_of_the_domain_are_taken_back(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "newton, init=1000", half_line, 2, (double[]){40, 0.01});
        problem_steps(&q, 60);
        assert_values_near(q.p, 1e-7, 1, 1);
        problem_close(&q);
    }
}

static void a_start_that_is_not_finite_moves_nothing(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "newton", half_line, 2, (double[]){-1, 0});
        problem_steps(&q, 2);
        assert_true(q.info.search_failed);
        assert_values(q.p, -1, 0);
        problem_close(&q);
    }
}

static gd_tensor *flat(gd_tensor *p) { return gd_mul_scalar(gd_sum(p, NULL, false), 0); }

static void a_flat_function_is_no_failure(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        problem q = open_method(k, "newton", flat, 2, (double[]){3, 4});
        problem_steps(&q, 3);
        assert_false(q.info.search_failed);
        assert_values(q.p, 3, 4);
        problem_close(&q);
    }
}

static void a_closure_that_fails_in_an_attempt_leaves_the_parameters(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++)
        for (int fail_at = 1; fail_at <= 3; fail_at++) {
            problem q = open_method(k, "newton, init=1000", rosenbrock, 2, (double[]){-1.2, 1});
            q.worse = 1e6;
            q.fail_at = fail_at;
            assert_int_equal(problem_step(&q), GD_CALLBACK);
            assert_error(q.ctx, GD_CALLBACK, "made to fail");
            assert_values(q.p, -1.2, 1);
            q.worse = 0;
            problem_steps(&q, 1);
            problem_close(&q);
        }
}

static void a_child_without_a_hessian_is_an_error(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(methods); k++) {
        char text[80];
        snprintf(text, sizeof text, "%s: its child 'lr' has no Hessian", methods[k]);
        problem q = open_method(k, "lr(0.1)", rosenbrock, 2, (double[]){-1.2, 1});
        assert_int_equal(problem_step(&q), GD_STATE);
        assert_error(q.ctx, GD_STATE, text);
        assert_values(q.p, -1.2, 1);
        problem_close(&q);
    }
}

static void gauss_newton_needs_residuals(void **state)
{
    (void)state;
    problem q = problem_open("levenberg_marquardt(gauss_newton)", rosenbrock, 2, (double[]){-1.2, 1});
    assert_int_equal(problem_step(&q), GD_SHAPE);
    assert_error(q.ctx, GD_SHAPE, "");
    problem_close(&q);
}

static void a_fixed_radius_evaluates_once(void **state)
{
    (void)state;
    problem q = problem_open("trust_cg(newton, init=0.5, radius_strategy=\"fixed\")", rosenbrock, 2,
                             (double[]){-1.2, 1});
    double a[2] = {-1.2, 1}, b[2];
    for (int i = 0; i < 5; i++) {
        problem_steps(&q, 1);
        read_point(&q, b);
        assert_true(norm_between(a, b, 2) <= 0.5 * (1 + 1e-12));
        memcpy(a, b, sizeof a);
    }
    assert_int_equal(q.evals, 5);
    problem_close(&q);
}

/* ---- single methods ---- */

static void steps_end_inside_the_region(void **state)
{
    (void)state;
    const char *const chains[] = {"trust_cg(newton, init=0.1)", "dogleg(newton, init=0.1)",
                                  "newton_cg_steihaug(init=0.1, hvp_method=\"autograd\", solver=\"minres\")"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        problem q = problem_open(chains[k], rosenbrock, 2, (double[]){-1.2, 1});
        double a[2] = {-1.2, 1}, b[2], radius = 0.1;
        for (int i = 0; i < 20; i++) {
            problem_steps(&q, 1);
            read_point(&q, b);
            assert_true(norm_between(a, b, 2) <= radius * (1 + 1e-9));
            memcpy(a, b, sizeof a);
            radius = radius_of(&q);
        }
        problem_close(&q);
    }
}

/* -x . b + x . H x / 2 at 0 with H = diag(h): the steps can be found by hand */
static const double *diagonal_h, *diagonal_b;
static gd_tensor *diagonal_model(gd_tensor *p)
{
    gd_ctx *ctx = gd_tensor_ctx(p);
    int64_t n = gd_numel(p);
    gd_tensor *h = gd_from_f64(ctx, GD_F64, 1, &n, diagonal_h),
              *b = gd_from_f64(ctx, GD_F64, 1, &n, diagonal_b);
    return gd_sum(gd_sub(gd_mul_scalar(gd_mul(h, gd_square(p)), 0.5), gd_mul(b, p)), NULL, false);
}

static void dogleg_follows_its_path(void **state)
{
    (void)state;
    diagonal_h = (const double[]){1, 4};
    diagonal_b = (const double[]){2, 2};
    /* Cauchy point b.b / b.Hb b = 8/20 (2, 2) = (0.8, 0.8), Newton point (2, 0.5) */
    problem q = problem_open("dogleg(newton, init=3)", diagonal_model, 2, (double[]){0, 0});
    problem_steps(&q, 1);
    assert_values(q.p, 2, 0.5);
    problem_close(&q);
    q = problem_open("dogleg(newton, init=0.5)", diagonal_model, 2, (double[]){0, 0});
    problem_steps(&q, 1);
    assert_values(q.p, sqrt(0.125), sqrt(0.125));
    problem_close(&q);
    q = problem_open("dogleg(newton, init=1.5)", diagonal_model, 2, (double[]){0, 0});
    problem_steps(&q, 1);
    double x[2];
    read_point(&q, x);
    assert_near(hypot(x[0], x[1]), 1.5, 1e-12);
    assert_near((x[0] - 0.8) / 1.2, (x[1] - 0.8) / -0.3, 1e-12);
    problem_close(&q);
    /* negative curvature along the gradient: down it to the edge */
    diagonal_h = (const double[]){-1, -4};
    q = problem_open("dogleg(newton, init=0.5)", diagonal_model, 2, (double[]){0, 0});
    problem_steps(&q, 1);
    assert_values(q.p, sqrt(0.125), sqrt(0.125));
    problem_close(&q);
}

static void levenberg_marquardt_adds_the_reciprocal_of_the_radius(void **state)
{
    (void)state;
    diagonal_h = (const double[]){1, 4};
    diagonal_b = (const double[]){2, 2};
    problem q = problem_open("levenberg_marquardt(newton, init=0.5)", diagonal_model, 2, (double[]){0, 0});
    problem_steps(&q, 1);
    assert_values(q.p, 2.0 / 3, 2.0 / 6);
    problem_close(&q);
    q = problem_open("levenberg_marquardt(newton, init=0.5, y=1)", diagonal_model, 2, (double[]){0, 0});
    problem_steps(&q, 1);
    assert_values(q.p, 2.0 / 3, 2.0 / 12);
    problem_close(&q);
    q = problem_open("levenberg_marquardt(newton, init=0.5, y=0.5)", diagonal_model, 2, (double[]){0, 0});
    problem_steps(&q, 1);
    assert_values(q.p, 2.0 / 3, 2.0 / 9);
    problem_close(&q);
}

/* Residuals in scaled parameters. */
static double scale = 1;
static gd_tensor *scaled(gd_tensor *p)
{
    return rosenbrock_residuals(
        gd_stack((gd_tensor *[]){gd_mul_scalar(item(p, 0), scale), item(p, 1)}, 2, 0, NULL));
}

static void marquardt_scaling_makes_the_units_of_parameters_irrelevant(void **state)
{
    (void)state;
    double a[2], b[2];
    const char *chain = "levenberg_marquardt(gauss_newton, y=1)";
    scale = 1;
    problem q = problem_open(chain, scaled, 2, (double[]){-1.2, 1});
    scale = 1e5;
    problem r = problem_open(chain, scaled, 2, (double[]){-1.2e-5, 1});
    for (int i = 0; i < 15; i++) {
        scale = 1;
        problem_steps(&q, 1);
        scale = 1e5;
        problem_steps(&r, 1);
        read_point(&q, a);
        read_point(&r, b);
        assert_near(a[0], b[0] * 1e5, 1e-8 * (1 + fabs(a[0])));
        assert_near(a[1], b[1], 1e-8 * (1 + fabs(a[1])));
    }
    problem_close(&q);
    problem_close(&r);
}

static void the_damping_does_not_grow_beyond_what_counts(void **state)
{
    (void)state;
    problem q = problem_open("levenberg_marquardt(newton)", quadratic, 3, (double[]){3, -2, 5});
    problem_steps(&q, 200);
    assert_true(radius_of(&q) < 1e12);
    problem_close(&q);
}

/* The model -b.d + d.Hd/2 + |d|^3 / (3 r) at d. */
static double cubic_model(int n, const double *d, double r)
{
    double sum = 0, norm = 0;
    for (int i = 0; i < n; i++) {
        sum += d[i] * (0.5 * diagonal_h[i] * d[i] - diagonal_b[i]);
        norm = hypot(norm, d[i]);
    }
    return sum + norm * norm * norm / (3 * r);
}

static void check_cubic(double radius)
{
    char chain[128];
    snprintf(chain, sizeof chain, "cubic_regularization(newton, init=%.17g, radius_strategy=\"fixed\")",
             radius);
    problem q = problem_open(chain, diagonal_model, 2, (double[]){0, 0});
    problem_steps(&q, 1);
    double d[2];
    read_point(&q, d);
    double w = hypot(d[0], d[1]) / radius, here = cubic_model(2, d, radius);
    /* (H + w I) d = b with H + w I positive semidefinite */
    for (int i = 0; i < 2; i++) {
        assert_near((diagonal_h[i] + w) * d[i], diagonal_b[i], 1e-9);
        assert_true(diagonal_h[i] + w >= -1e-9);
    }
    /* and no other point of a grid is lower */
    for (int i = -60; i <= 60; i++)
        for (int j = -60; j <= 60; j++)
            assert_true(cubic_model(2, (double[]){0.1 * i, 0.1 * j}, radius) >= here - 1e-9);
    problem_close(&q);
}

static void cubic_steps_are_global_minima_of_their_model(void **state)
{
    (void)state;
    const double h[][2] = {{1, 4}, {-1, 4}, {-1, -3}, {0, 2}, {-1, 2}, {-2, 1}, {1, 1}};
    const double b[][2] = {{2, 2}, {2, 2}, {1, -1}, {1, 0}, {0, 1} /* hard case */, {0, 0} /* saddle */,
                           {1, 0}};
    for (int k = 0; k < COUNT_OF(h); k++)
        for (double radius = 0.1; radius < 2; radius *= 3) {
            diagonal_h = h[k];
            diagonal_b = b[k];
            check_cubic(radius);
        }
}

static void the_child_is_updated_every_update_freq_steps(void **state)
{
    (void)state;
    problem q = problem_open("levenberg_marquardt(newton, update_freq=4)", rosenbrock, 2,
                             (double[]){-1.2, 1});
    problem_steps(&q, 200);
    assert_values_near(q.p, 1e-4, 1, 1);
    problem_close(&q);
    /* residuals of this step with the Jacobian of an earlier one */
    q = problem_open("levenberg_marquardt(gauss_newton, update_freq=3)", rosenbrock_residuals, 2,
                     (double[]){-1.2, 1});
    problem_steps(&q, 200);
    assert_values_near(q.p, 1e-4, 1, 1);
    problem_close(&q);
}

/* ---- Gauss-Newton ---- */

/* Three parameters, two residuals. */
static gd_tensor *wide_residuals(gd_tensor *p)
{
    gd_tensor *sum = gd_add_scalar(gd_sum(p, NULL, false), -6);
    return gd_stack((gd_tensor *[]){sum, gd_sub(item(p, 0), item(p, 1))}, 2, 0, NULL);
}

static void fewer_residuals_than_parameters_give_the_nearest_solution(void **state)
{
    (void)state;
    const char *const chains[] = {"gauss_newton", "gauss_newton(reg=0)",
                                  "levenberg_marquardt(gauss_newton, init=1e8)",
                                  "trust_cg(gauss_newton, init=1e3)"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        problem q = problem_open(chains[k], wide_residuals, 3, (double[]){1, 3, 0.5});
        problem_steps(&q, 2);
        /* the least change: x + y + z = 6 and x = y */
        assert_values_near(q.p, 1e-6, 2.5, 2.5, 1);
        problem_close(&q);
    }
}

/* Columns 0 and 1 of the Jacobian are the same. */
static gd_tensor *dependent_residuals(gd_tensor *p)
{
    gd_tensor *sum = gd_add(item(p, 0), item(p, 1));
    return gd_stack(
        (gd_tensor *[]){gd_add_scalar(sum, -2), gd_mul_scalar(gd_add_scalar(sum, -4), 2), item(p, 2)}, 3, 0,
        NULL);
}

static void dependent_columns_give_the_nearest_solution(void **state)
{
    (void)state;
    problem q = problem_open("gauss_newton", dependent_residuals, 3, (double[]){1, 2, 3});
    problem_steps(&q, 1);
    /* least squares: sum = 3.6, changed by the same amount in both */
    assert_values_near(q.p, 1e-6, 1.3, 2.3, 0);
    problem_close(&q);
    q = problem_open("gauss_newton(reg=0)", dependent_residuals, 3, (double[]){1, 2, 3});
    problem_steps(&q, 1);
    assert_values_near(q.p, 1e-12, 1.3, 2.3, 0);
    problem_close(&q);
    q = problem_open("dogleg(gauss_newton, init=100)", dependent_residuals, 3, (double[]){1, 2, 3});
    problem_steps(&q, 50);
    double x[3];
    read_point(&q, x);
    assert_near(x[0] + x[1], 3.6, 1e-6);
    problem_close(&q);
}

static gd_tensor *log_residuals(gd_tensor *p) { return gd_log(p); }

static void residuals_that_are_not_finite_move_nothing(void **state)
{
    (void)state;
    const char *const chains[] = {"gauss_newton", "levenberg_marquardt(gauss_newton)",
                                  "trust_cg(gauss_newton)", "dogleg(gauss_newton)",
                                  "cubic_regularization(gauss_newton)"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        problem q = problem_open(chains[k], log_residuals, 2, (double[]){-1, 0});
        problem_steps(&q, 2);
        assert_true(q.info.search_failed || q.info.skipped);
        assert_values(q.p, -1, 0);
        problem_close(&q);
        /* steps out of the domain are taken back */
        q = problem_open(chains[k], log_residuals, 2, (double[]){30, 0.5});
        if (k) problem_steps(&q, 40);
        if (k) assert_values_near(q.p, 1e-6, 1, 1);
        problem_close(&q);
    }
}

static void gauss_newton_sets_the_true_loss_and_gradient(void **state)
{
    (void)state;
    /* after it, the gradient of the sum of squares is 2 J^T r */
    problem q = problem_open("gauss_newton", rosenbrock_residuals, 2, (double[]){-1.2, 1});
    problem_steps(&q, 1);
    assert_near(q.info.loss, 24.2, 1e-12);
    assert_int_equal(q.info.evals, 1);
    problem_close(&q);
}

/* ---- memory ---- */

/* Two steps with the k-th allocation failing; true when none did. */
static bool runs_out(const char *chain, bool residuals, int64_t k)
{
    memory counted = {0};
    problem q = {.ctx = context(&counted, 1, NULL), .loss = residuals ? rosenbrock_residuals : rosenbrock};
    q.p = gd_require_grad(VECTOR(q.ctx, -1.2, 1));
    q.optimizer = gd_optimizer_new(q.ctx, gd_chain(q.ctx, chain));
    assert_int_equal(gd_optimizer_add(q.optimizer, "p", q.p), GD_OK);
    counted.fail_at = counted.requests + k;
    gd_status status = problem_step(&q);
    if (!status) status = problem_step(&q);
    if (status) assert_int_equal(status, GD_NOMEM);
    bool none = !counted.failed;
    counted.fail_at = 0;
    double x[2];
    assert_int_equal(gd_read_f64(q.p, x, 2), GD_OK);
    assert_true(isfinite(x[0]) && isfinite(x[1]));
    gd_optimizer_free(q.optimizer);
    gd_release(q.p);
    end_context(q.ctx, &counted);
    return none;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const struct {
        const char *chain;
        bool residuals;
    } cases[] = {
        {"newton", false},
        {"newton(eigval_fn=\"abs\")", false},
        {"newton_cg", false},
        {"newton_cg(solver=\"minres\", warm_start=true)", false},
        {"newton_cg_steihaug", false},
        {"inverse_free_newton", false},
        {"two_point_newton", false},
        {"trust_cg(newton)", false},
        {"dogleg(newton)", false},
        {"cubic_regularization(newton)", false},
        {"higher_order_newton(3, de_iters=2)", false},
        {"fdm | higher_order_newton(3)", false},
        {"box(-2, 0.5) | trust_cg(newton)", false},
        {"levenberg_marquardt(newton, y=1)", false},
        {"levenberg_marquardt(gauss_newton)", true},
        {"gauss_newton", true},
    };
    for (int i = 0; i < COUNT_OF(cases); i++)
        for (int64_t k = 1; !runs_out(cases[i].chain, cases[i].residuals, k); k += 1 + k / 100) {}
}

/* ---- a model in a box and a ball ---- */

#define WIDTH 4

typedef struct boxed {
    double h[WIDTH * WIDTH], b[WIDTH], low[WIDTH], high[WIDTH];
} boxed;

static double model_value(const boxed *q, const double *d)
{
    double value = 0;
    for (int i = 0; i < WIDTH; i++) {
        value -= q->b[i] * d[i];
        for (int j = 0; j < WIDTH; j++) value += 0.5 * d[i] * q->h[i * WIDTH + j] * d[j];
    }
    return value;
}

/* A random definite matrix, vector, and box around 0. */
static boxed random_model(uint64_t *seed)
{
    boxed q;
    double a[WIDTH * WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++) a[i] = 2 * random_unit(seed) - 1;
    for (int i = 0; i < WIDTH; i++) {
        q.b[i] = 4 * random_unit(seed) - 2;
        q.low[i] = -random_unit(seed);
        q.high[i] = random_unit(seed);
        for (int j = 0; j < WIDTH; j++) {
            q.h[i * WIDTH + j] = i == j ? 0.1 : 0;
            for (int k = 0; k < WIDTH; k++) q.h[i * WIDTH + j] += a[i * WIDTH + k] * a[j * WIDTH + k];
        }
    }
    return q;
}

/* The minimum in the box by coordinate descent, which is exact for each element. */
static void minimum_in_box(const boxed *q, double *d)
{
    for (int i = 0; i < WIDTH; i++) d[i] = 0;
    for (int round = 0; round < 20000; round++)
        for (int i = 0; i < WIDTH; i++) {
            double rest = q->b[i];
            for (int j = 0; j < WIDTH; j++)
                if (j != i) rest -= q->h[i * WIDTH + j] * d[j];
            d[i] = fmax(q->low[i], fmin(q->high[i], rest / q->h[i * WIDTH + i]));
        }
}

typedef struct boxed_tensors {
    gd_linop *h;
    gd_tensor *b, *low, *high;
} boxed_tensors;

static boxed_tensors tensors_of(gd_ctx *ctx, const boxed *q)
{
    int64_t n = WIDTH;
    return (boxed_tensors){gd_linop_dense(gd_from_f64(ctx, GD_F64, 2, (int64_t[]){n, n}, q->h)),
                           gd_from_f64(ctx, GD_F64, 1, &n, q->b), gd_from_f64(ctx, GD_F64, 1, &n, q->low),
                           gd_from_f64(ctx, GD_F64, 1, &n, q->high)};
}

static void projected_conjugate_gradients_find_the_minimum_in_the_box(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    uint64_t seed = 7;
    for (int k = 0; k < 200; k++) {
        gd_scope_begin(ctx);
        boxed q = random_model(&seed);
        boxed_tensors t = tensors_of(ctx, &q);
        double want[WIDTH], got[WIDTH], product[WIDTH];
        gd_tensor *hd = NULL, *d = gd_projected_cg(t.h, t.b, t.low, t.high, INFINITY, 1e-12, 1000, &hd);
        minimum_in_box(&q, want);
        assert_int_equal(gd_read_f64(d, got, WIDTH) | gd_read_f64(hd, product, WIDTH), GD_OK);
        for (int i = 0; i < WIDTH; i++) {
            double hd_i = 0;
            for (int j = 0; j < WIDTH; j++) hd_i += q.h[i * WIDTH + j] * got[j];
            assert_near(got[i], want[i], 1e-9);
            assert_near(product[i], hd_i, 1e-12);
        }
        gd_linop_release(t.h);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

/* In the box and in the ball, lower than 0 by what is promised, and no higher than a fine walk along the path up to the same length; then
 * projected conjugate gradients are lower still, inside both. */
static void the_cauchy_point_is_on_the_projected_path(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    uint64_t seed = 11;
    for (int k = 0; k < 200; k++) {
        gd_scope_begin(ctx);
        boxed q = random_model(&seed);
        if (k % 4 == 3) /* indefinite */
            for (int i = 0; i < WIDTH; i++) q.h[i * WIDTH + i] -= 1.5;
        boxed_tensors t = tensors_of(ctx, &q);
        double radius = k % 2 ? 0.3 : 10, d[WIDTH], e[WIDTH], along = 0, norm = 0, length = 0;
        gd_tensor *cauchy = gd_projected_cg(t.h, t.b, t.low, t.high, radius, 0, 0, NULL);
        gd_tensor *further = gd_projected_cg(t.h, t.b, t.low, t.high, radius, 1e-10, 100, NULL);
        assert_int_equal(gd_read_f64(cauchy, d, WIDTH) | gd_read_f64(further, e, WIDTH), GD_OK);
        double reach = 0; /* the t of the path */
        for (int i = 0; i < WIDTH; i++) {
            assert_true(d[i] >= q.low[i] && d[i] <= q.high[i] && e[i] >= q.low[i] && e[i] <= q.high[i]);
            along += q.b[i] * d[i], norm = hypot(norm, d[i]), length = hypot(length, e[i]);
            reach = fmax(reach, d[i] / q.b[i]);
        }
        for (int i = 0; i < WIDTH; i++)
            assert_near(d[i], fmax(q.low[i], fmin(q.high[i], reach * q.b[i])), 1e-12);
        assert_true(norm <= radius * (1 + 1e-12) && length <= radius * (1 + 1e-12));
        assert_true(along > 0 && model_value(&q, d) <= -0.01 * along);
        assert_true(model_value(&q, e) <= model_value(&q, d) + 1e-14);
        gd_linop_release(t.h);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

/* A chained quadratic: half of the elements end at a bound. */
static gd_tensor *pulled_out(gd_tensor *p)
{
    double centre[20];
    int64_t n = gd_numel(p);
    for (int i = 0; i < n; i++) centre[i] = 2 * sin(0.9 * i);
    gd_tensor *away = gd_sub(p, gd_from_f64(gd_tensor_ctx(p), GD_F64, 1, &n, centre));
    gd_tensor *step = gd_sub(gd_slice(p, "0", 1, n, 1), gd_slice(p, "0", 0, n - 1, 1));
    return gd_add(gd_sum(gd_square(away), NULL, false), gd_sum(gd_square(step), NULL, false));
}

static void a_quadratic_between_bounds_takes_a_trust_region_one_step(void **state)
{
    (void)state;
    static const char *const chains[] = {
        "box(-0.5, 0.5) | trust_cg(newton, init=100)",
        "box(-0.5, 0.5) | newton_cg_steihaug(init=100, hvp_method=\"autograd\")"};
    double start[20] = {0}, first[20];
    for (int c = 0; c < COUNT_OF(chains); c++) {
        problem q = problem_open(chains[c], pulled_out, 20, start);
        problem_steps(&q, 2);
        assert_true(q.info.kkt < 1e-6); /* where the second began: the first ended at the solution */
        double x[20];
        read_point(&q, x);
        for (int i = 0; i < 20 && c; i++) assert_near(x[i], first[i], 1e-6);
        memcpy(first, x, sizeof x);
        problem_close(&q);
    }
}

/* ---- higher orders ---- */

/* A polynomial of fourth order is its own model: in a wide box the first step ends at its minimum. */
static void a_model_of_fourth_order_minimises_rosenbrock_in_one_step(void **state)
{
    (void)state;
    problem q = problem_open("higher_order_newton(init=100)", rosenbrock, 2, (double[]){-1.2, 1});
    problem_steps(&q, 1);
    assert_values_near(q.p, 1e-6, 1, 1);
    assert_int_equal(q.info.evals, 2);
    problem_close(&q);
}

/* p^4 - 2 p^2 + 0.3 p has its minima where 4 p^3 - 4 p + 0.3 = 0: the lower one at -1.0355787, the other at 0.9601494. */
static gd_tensor *two_wells(gd_tensor *p)
{
    gd_tensor *square = gd_square(p);
    gd_tensor *even = gd_sub(gd_square(square), gd_mul_scalar(square, 2));
    return gd_sum(gd_add(even, gd_mul_scalar(p, 0.3)), NULL, false);
}

static void differential_evolution_finds_the_lower_well_of_the_model(void **state)
{
    (void)state;
    problem near = problem_open("higher_order_newton(init=3)", two_wells, 1, (double[]){1.2});
    problem far = problem_open("higher_order_newton(init=3, de_iters=20)", two_wells, 1, (double[]){1.2});
    problem_steps(&near, 1);
    problem_steps(&far, 1);
    assert_values_near(near.p, 1e-6, 0.9601494);
    assert_values_near(far.p, 1e-6, -1.0355787);
    problem_close(&near);
    problem_close(&far);
}

static void higher_orders_stay_inside_the_bounds_of_the_parameters(void **state)
{
    (void)state;
    problem q = problem_open("box(-2, 0.5) | higher_order_newton", rosenbrock, 2, (double[]){-1.2, 0.4});
    problem_steps(&q, 10);
    /* the minimum of (1 - x)^2 + 100 (y - x^2)^2 with x <= 1/2 */
    assert_values_near(q.p, 1e-9, 0.5, 0.25);
    assert_true(gd_at(q.p, (int64_t[]){0}) == 0.5);
    problem_close(&q);
}

static void derivatives_that_would_be_too_many_are_refused(void **state)
{
    (void)state;
    double start[40] = {0};
    problem q = problem_open("higher_order_newton(8)", two_wells, 40, start);
    assert_int_equal(problem_step(&q), GD_VALUE);
    expect_error(q.ctx, GD_VALUE, "derivatives of order 8 are too many");
    problem_close(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_minimises_rosenbrock),
        cmocka_unit_test(every_method_works_on_residuals),
        cmocka_unit_test(the_loss_never_rises),
        cmocka_unit_test(rejected_steps_leave_the_parameters_and_shrink_the_radius),
        cmocka_unit_test(a_radius_under_which_nothing_moves_starts_again),
        cmocka_unit_test(trial_points_that_are_not_finite_are_rejected),
        cmocka_unit_test(steps_out_of_the_domain_are_taken_back),
        cmocka_unit_test(a_start_that_is_not_finite_moves_nothing),
        cmocka_unit_test(a_flat_function_is_no_failure),
        cmocka_unit_test(a_closure_that_fails_in_an_attempt_leaves_the_parameters),
        cmocka_unit_test(a_child_without_a_hessian_is_an_error),
        cmocka_unit_test(gauss_newton_needs_residuals),
        cmocka_unit_test(a_fixed_radius_evaluates_once),
        cmocka_unit_test(steps_end_inside_the_region),
        cmocka_unit_test(dogleg_follows_its_path),
        cmocka_unit_test(levenberg_marquardt_adds_the_reciprocal_of_the_radius),
        cmocka_unit_test(marquardt_scaling_makes_the_units_of_parameters_irrelevant),
        cmocka_unit_test(the_damping_does_not_grow_beyond_what_counts),
        cmocka_unit_test(cubic_steps_are_global_minima_of_their_model),
        cmocka_unit_test(the_child_is_updated_every_update_freq_steps),
        cmocka_unit_test(fewer_residuals_than_parameters_give_the_nearest_solution),
        cmocka_unit_test(dependent_columns_give_the_nearest_solution),
        cmocka_unit_test(residuals_that_are_not_finite_move_nothing),
        cmocka_unit_test(gauss_newton_sets_the_true_loss_and_gradient),
        cmocka_unit_test(projected_conjugate_gradients_find_the_minimum_in_the_box),
        cmocka_unit_test(the_cauchy_point_is_on_the_projected_path),
        cmocka_unit_test(a_quadratic_between_bounds_takes_a_trust_region_one_step),
        cmocka_unit_test(a_model_of_fourth_order_minimises_rosenbrock_in_one_step),
        cmocka_unit_test(differential_evolution_finds_the_lower_well_of_the_model),
        cmocka_unit_test(higher_orders_stay_inside_the_bounds_of_the_parameters),
        cmocka_unit_test(derivatives_that_would_be_too_many_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
