/* The link box: every chain stays inside, held elements lie on their bounds bit for bit, and the step info has the residual. */
#include "gradus/link/hessian.h"
#include "gradus/solve.h"
#include "optim/optim_support.h"
#include "optim/table_support.h"

#include <unistd.h>

#define LOW  0.25
#define HIGH 0.75

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q;
    int calls;
    double first[3]; /* where the first evaluation was */
    int strays;      /* evaluations outside 0.25 to 0.75 */
    double stray;    /* such an element */
} run;

static void values_of(const run *r, double x[3])
{
    OK(gd_read_f64(r->p, x, 2));
    OK(gd_read_f64(r->q, x + 2, 1));
}

/* Residuals p - [2, 0.5], q + 1 + p_0 / 10: without bounds p would be 2 or so, q below 0. */
static gd_tensor *residuals(void *user)
{
    run *r = user;
    double x[3];
    values_of(r, x);
    if (!r->calls++) memcpy(r->first, x, sizeof x);
    for (int k = 0; k < 3; k++)
        if (x[k] < LOW || x[k] > HIGH) r->strays++, r->stray = x[k];
    gd_tensor *target = gd_from_f64(r->ctx, gd_tensor_dtype(r->p), 1, (int64_t[]){2}, (double[]){2, 0.5});
    gd_tensor *second = gd_add(gd_add_scalar(r->q, 1), gd_mul_scalar(gd_slice(r->p, "0", 0, 1, 1), 0.1));
    return gd_cat((gd_tensor *[]){gd_sub(r->p, target), second}, 2, "0");
}

static run open_run(const char *chain, gd_dtype dtype)
{
    run r = {.ctx = context(NULL, 1, NULL)};
    r.p = gd_require_grad(gd_from_f64(r.ctx, dtype, 1, (int64_t[]){2}, (double[]){0.5, 0.3}));
    r.q = gd_require_grad(gd_from_f64(r.ctx, dtype, 1, (int64_t[]){1}, (double[]){0.6}));
    r.o = gd_optimizer_new(r.ctx, gd_chain(r.ctx, chain));
    if (!r.o) fail_msg("%s: %s", chain, gd_error_text(r.ctx));
    OK(gd_optimizer_add(r.o, "p", r.p));
    OK(gd_optimizer_add(r.o, "q", r.q));
    return r;
}

static gd_status step_of(run *r, gd_step_info *info)
{
    return gd_optimizer_step(r->o, &(gd_objective){.loss = residuals, .user = r}, info);
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
    gd_release(r->q);
    end_context(r->ctx, NULL);
}

/* ---- every link ---- */

static int outside, links;

static void text_stays_inside(const char *text)
{
    char chain[500];
    for (int search = 0; search < 2; search++) {
        snprintf(chain, sizeof chain, "box(0.25, 0.75) | %s%s", text, search ? " | strong_wolfe" : "");
        run r = open_run(chain, GD_F64);
        gd_status status = GD_OK;
        for (int i = 0; i < 4 && !status; i++) {
            double x[3];
            status = step_of(&r, NULL);
            values_of(&r, x);
            for (int k = 0; k < 3; k++)
                if (x[k] < LOW || x[k] > HIGH) {
                    print_error("%s: element %d is %.17g after step %d\n", chain, k, x[k], i);
                    outside++;
                }
        }
        if (r.strays)
            print_error("%s: %d evaluations outside, one of them at %.17g\n", chain, r.strays, r.stray);
        outside += r.strays;
        if (status) gd_clear_error(r.ctx); /* links that need what this problem has not */
        links += !status;
        close_run(&r);
    }
}

static void stays_inside(const gd_link_class *cls, const char *text)
{
    char other[500];
    if (!strcmp(cls->name, "box")) return;
    text_stays_inside(text);
    /* the same by differences */
    static const char *const methods[] = {"hvp_method=\"central\"", "hvp_method=\"forward\"",
                                          "jvp_method=\"central\"", "jvp_method=\"forward\""};
    for (int k = 0; k < COUNT_OF(methods); k++) {
        bool products = methods[k][0] == 'h', has = false;
        for (int i = 0; i < cls->field_count; i++)
            has = has || !strcmp(cls->fields[i].name, products ? "hvp_method" : "jvp_method");
        if (!has || strchr(text, '(')) continue;
        snprintf(other, sizeof other, "%s(%s)", text, methods[k]);
        text_stays_inside(other);
    }
}

/* None is evaluated outside either. */
static void every_link_of_the_table_stays_inside(void **state)
{
    (void)state;
    each_link_text(stays_inside);
    static const char *const more[] = {"cd(threepoint=false)", "fdm(target=\"closure\") | newton_cg",
                                       "mezo(n_samples=3, formula=\"forward5\") | lr(0.1)", "fdm | bfgs"};
    for (int k = 0; k < COUNT_OF(more); k++) text_stays_inside(more[k]);
    assert_int_equal(outside, 0);
    assert_true(links * test_share() > 250);
}

/* sum c x^1.5 with x >= 0, whose gradient exists inside only.  Its Hessian is 0.75 c / sqrt x: here 0.75 [1, 2] / [1, 0.5] at
 * x = [1, 0.25], and next to the upper bound of 1 the middle of two points moves by the distance of them. */
static gd_tensor *roots(void *user)
{
    run *r = user;
    double x[2];
    OK(gd_read_f64(r->p, x, 2));
    r->strays += x[0] < 0 || x[1] < 0 || x[0] > 1 || x[1] > 1;
    gd_tensor *c = gd_from_f64(r->ctx, GD_F64, 1, (int64_t[]){2}, (double[]){1, 2});
    return gd_sum(gd_mul(c, gd_pow_scalar(r->p, 1.5)), NULL, false);
}

static gd_status products_step(gd_link *link, gd_var *var)
{
    static const gd_hvp_method methods[] = {GD_HVP_FORWARD, GD_HVP_CENTRAL};
    (void)link;
    gd_tensor *v[2] = {gd_from_f64(gd_var_ctx(var), GD_F64, 1, (int64_t[]){2}, (double[]){1, -2}),
                       gd_from_f64(gd_var_ctx(var), GD_F64, 1, (int64_t[]){1}, (double[]){0})};
    for (int k = 0; k < 2; k++) {
        gd_tensor *out[2] = {NULL, NULL};
        double h[2];
        OK(gd_var_hvp(var, methods[k], 1e-4, true, v, out));
        OK(gd_read_f64(out[0], h, 2));
        assert_float_equal(h[0], 0.75, 1e-3);
        assert_float_equal(h[1], -6, 1e-2);
    }
    return gd_var_set_zero_update(var);
}

static const gd_link_class probing = {
    .name = "probing", .summary = "asks for products", .traits.needs_closure = true, .step = products_step};

static void products_by_differences_stay_inside(void **state)
{
    (void)state;
    run r = {.ctx = context(NULL, 1, NULL)};
    r.p = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 1, (int64_t[]){2}, (double[]){1, 0.25}));
    r.q = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 1, (int64_t[]){1}, (double[]){0.6}));
    gd_link *chain[] = {gd_chain(r.ctx, "box(0, 1)"), gd_link_new(r.ctx, &probing)};
    r.o = gd_optimizer_new(r.ctx, gd_chain_of(r.ctx, chain, 2));
    OK(gd_optimizer_add(r.o, "p", r.p));
    OK(gd_optimizer_add(r.o, "q", r.q));
    OK(gd_optimizer_step(r.o, &(gd_objective){.loss = roots, .user = &r}, NULL));
    assert_int_equal(r.strays, 0);
    close_run(&r);
}

/* ---- where it ends ---- */

/* With p_0 and q held at 0.75 and 0.25 the rest is p_1 = 0.5. */
static void held_elements_lie_on_their_bounds_bit_for_bit(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs | strong_wolfe", "newton | strong_wolfe",
                                         "bfgs | backtracking",  "adam | lr(0.1)",
                                         "trust_cg(newton)",     "levenberg_marquardt(gauss_newton)",
                                         "gauss_newton | lr(1)", "heavy_ball(0.5) | lr(0.1)"};
    for (int dtype = 0; dtype < 2; dtype++)
        for (int i = 0; i < COUNT_OF(chains); i++) {
            char chain[200];
            double x[3];
            snprintf(chain, sizeof chain, "box(0.25, 0.75) | %s", chains[i]);
            run r = open_run(chain, dtype ? GD_F32 : GD_F64);
            for (int k = 0; k < 150; k++) OK(step_of(&r, NULL));
            values_of(&r, x);
            if (x[0] != HIGH || x[2] != LOW || fabs(x[1] - 0.5) > 1e-3)
                fail_msg("%s: %.17g %.17g %.17g", chain, x[0], x[1], x[2]);
            close_run(&r);
        }
}

/* At the start p - P(p - g): g = 2 r + ... by hand. */
static void the_step_info_has_the_residual(void **state)
{
    (void)state;
    run r = open_run("box(0.25, 0.75) | lbfgs | strong_wolfe", GD_F64);
    gd_step_info info;
    OK(step_of(&r, &info));
    double second = 0.6 + 1 + 0.05, g[3] = {2 * (0.5 - 2) + 0.2 * second, 2 * (0.3 - 0.5), 2 * second},
           x[3] = {0.5, 0.3, 0.6}, most = 0;
    for (int i = 0; i < 3; i++) most = fmax(most, fabs(x[i] - fmin(fmax(x[i] - g[i], LOW), HIGH)));
    assert_true(fabs(info.kkt - most) < 1e-14);
    for (int i = 0; i < 20; i++) OK(step_of(&r, &info));
    assert_true(info.kkt < 1e-12);
    close_run(&r);
    r = open_run("adam | lr(0.1)", GD_F64);
    OK(step_of(&r, &info));
    assert_true(isnan(info.kkt));
    close_run(&r);
}

static void minimising_stops_by_the_residual_and_not_by_the_gradient(void **state)
{
    (void)state;
    run r = open_run("box(0.25, 0.75) | lbfgs | strong_wolfe", GD_F64);
    gd_solve_result result;
    OK(gd_minimize_with(r.o, &(gd_objective){.loss = residuals, .user = &r}, NULL, &result));
    assert_int_equal(result.reason, GD_STOP_GRADIENT);
    assert_true(result.gradient_norm <= 1e-8 && result.evals < 15);
    double x[3], a = 0.75 - 2, b = 1.25 + 0.075;
    values_of(&r, x);
    assert_true(x[0] == HIGH && x[2] == LOW && fabs(x[1] - 0.5) < 1e-8);
    assert_true(fabs(result.loss - (a * a + b * b)) < 1e-12);
    close_run(&r);
}

/* ---- ways to say them ---- */

static void a_start_outside_is_moved_before_it_is_evaluated(void **state)
{
    (void)state;
    run r = open_run("box(0.55, 0.58) | lbfgs | strong_wolfe", GD_F64);
    gd_solve_result result;
    gd_solve_options options = gd_solve_defaults();
    options.max_steps = 1;
    OK(gd_minimize_with(r.o, &(gd_objective){.loss = residuals, .user = &r}, &options, &result));
    assert_true(r.first[0] == 0.55 && r.first[1] == 0.55 && r.first[2] == 0.58);
    close_run(&r);
}

static void groups_lists_and_single_parameters_say_bounds(void **state)
{
    (void)state;
    double x[3];
    run r = open_run("box | lbfgs | strong_wolfe", GD_F64);
    OK(gd_optimizer_regroup(r.o, "p", "high=1.25"));
    OK(gd_optimizer_regroup(r.o, "q", "low=-0.5"));
    for (int i = 0; i < 20; i++) OK(step_of(&r, NULL));
    values_of(&r, x);
    assert_true(x[0] == 1.25 && x[2] == -0.5 && fabs(x[1] - 0.5) < 1e-6);
    close_run(&r);
    r = open_run("split(\"p\", [box([0, 0.6], [0.9, 1]) | lbfgs | strong_wolfe], lbfgs)", GD_F64);
    for (int i = 0; i < 20; i++) OK(step_of(&r, NULL));
    values_of(&r, x);
    assert_true(x[0] == 0.9 && x[1] == 0.6);
    close_run(&r);
    r = open_run("box([0, 0.6, -0.5], [0.9, 1, 2]) | lbfgs | strong_wolfe",
                 GD_F64); /* of p and q, in order */
    for (int i = 0; i < 20; i++) OK(step_of(&r, NULL));
    values_of(&r, x);
    assert_true(x[0] == 0.9 && x[1] == 0.6 && x[2] == -0.5);
    close_run(&r);
    r = open_run("box | newton | strong_wolfe", GD_F64);
    const double high[] = {0.875, INFINITY};
    OK(gd_link_set_for(gd_link_child_at(gd_optimizer_chain(r.o), 0), r.p, "high", gd_setting_list(high, 2)));
    for (int i = 0; i < 20; i++) OK(step_of(&r, NULL));
    values_of(&r, x);
    assert_true(x[0] == 0.875 && fabs(x[1] - 0.5) < 1e-6 && fabs(x[2] + 1.0875) < 1e-6);
    close_run(&r);
}

static void bounds_that_are_none_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *chain, *error;
    } cases[] = {
        {"box(1, 0) | lr(0.1)", "bounds: parameter 'p', element 0: no number is between 1 and 0"},
        {"box([1, 2, 3, 4]) | lr(0.1)", "box: low has 4 numbers, parameter 'p' 2 elements"},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        double x[3];
        run r = open_run(cases[i].chain, GD_F64);
        assert_int_equal(step_of(&r, NULL), GD_VALUE);
        assert_error(r.ctx, GD_VALUE, cases[i].error);
        values_of(&r, x);
        assert_true(x[0] == 0.5 && x[1] == 0.3 && x[2] == 0.6);
        close_run(&r);
    }
}

/* ---- for authors of links ---- */

static gd_status look_at_bounds(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *low = NULL, *high = NULL;
    double mask[3], low_value;
    assert_true(gd_var_bounds(var, 0, &low, &high) && low && high);
    OK(gd_read_f64(low, &low_value, 1));
    assert_true(low_value == LOW);
    assert_false(gd_var_bounds(var, 2, &low, &high) || low || high);
    gd_tensor *free_ones = gd_var_free_mask(var);
    if (gd_var_step(var) < 8) return GD_OK;
    OK(gd_read_f64(free_ones, mask, 3));
    assert_true(mask[0] == 0 && mask[1] == 1 && mask[2] == 0);
    /* who knows nothing of bounds sees no gradient where they hold */
    double u[2];
    OK(gd_read_f64(gd_var_read_update(var)[0], u, 2));
    assert_true(u[0] == 0);
    OK(gd_read_f64(gd_var_grad(var)[0], u, 2));
    assert_true(u[0] < 0);
    /* the free block of a matrix, and the inverse of the block of an inverse */
    gd_ctx *ctx = gd_var_ctx(var);
    double h[9] = {4, 1, 2, 1, 3, 0.5, 2, 0.5, 5};
    gd_tensor *m = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){3, 3}, h),
              *block = gd_hessian_free(m, free_ones, false),
              *inverse = gd_hessian_free(gd_solve(m, gd_eye(ctx, GD_F64, 3, 3)), free_ones, true);
    OK(gd_read_f64(block, h, 9));
    assert_true(h[0] == 1 && h[1] == 0 && h[4] == 3 && h[5] == 0 && h[8] == 1);
    OK(gd_read_f64(inverse, h, 9));
    assert_true(fabs(h[4] - 1.0 / 3) < 1e-14 && h[0] == 0 && h[1] == 0 && h[8] == 0);
    return GD_OK;
}

static void authors_see_bounds_and_who_is_held(void **state)
{
    (void)state;
    run r = {.ctx = context(NULL, 1, NULL)};
    OK(gd_link_class_register(r.ctx, &probe_a_class));
    end_context(r.ctx, NULL);
    probe.a = look_at_bounds;
    r = (run){.ctx = context(NULL, 1, NULL)};
    OK(gd_link_class_register(r.ctx, &probe_a_class));
    r.p = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 1, (int64_t[]){2}, (double[]){0.5, 0.3}));
    r.q = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 1, (int64_t[]){1}, (double[]){0.6}));
    r.o = gd_optimizer_new(r.ctx, gd_chain(r.ctx, "box(0.25, 0.75) | probe_a | lr(0.1)"));
    assert_no_error(r.ctx);
    OK(gd_optimizer_add(r.o, "p", r.p));
    OK(gd_optimizer_add(r.o, "q", r.q));
    for (int i = 0; i < 12; i++) OK(step_of(&r, NULL));
    assert_int_equal(probe.ran_a, 12);
    close_run(&r);
    probe.a = NULL;
}

/* ---- several boxes ---- */

/* Whatever stands between them, and whichever is the tighter one. */
static void of_several_boxes_the_intersection_holds(void **state)
{
    (void)state;
    static const char *const chains[] = {
        "box(-1, 0.75) | box | lbfgs | strong_wolfe",
        "box | box(-1, 0.75) | lbfgs | strong_wolfe",
        "box(-1, 3) | box(-4, 0.75) | lbfgs | strong_wolfe",
        "box(-4, 0.75) | box(-1, 3) | lbfgs | strong_wolfe",
        "box(-1) | box(high=0.75) | newton | backtracking",
        "box(high=0.75) | box(-1) | trust_cg(newton)",
        "box(-1, 3) | box(-2, 2) | box(-3, 0.75) | lbfgs | strong_wolfe",
        "box(-1, 0.75) | chain([box(-5, 1) | lbfgs | strong_wolfe])",
        "box(-1, 0.75) | augmented_lagrangian([box(-5, 1) | lbfgs | strong_wolfe])",
        "box(-1, 0.75) | multi_start([box(-5, 1) | lbfgs | strong_wolfe], n=2)",
        "box(-1, 0.75) | box(-5, 1) | adam | lr(0.1)",
        "box(-1, 0.75) | adam | box(-5, 1) | lr(0.1)",
    };
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        run r = open_run(chains[i], GD_F64);
        gd_solve_options options = gd_solve_defaults();
        gd_solve_result result;
        double x[3];
        options.max_steps = 300;
        OK(gd_minimize_with(r.o, &(gd_objective){.loss = residuals, .user = &r}, &options, &result));
        values_of(&r, x);
        if (x[0] != 0.75 || fabs(x[1] - 0.5) > 1e-4 || x[2] != -1)
            fail_msg("%s ends at %.17g %.17g %.17g", chains[i], x[0], x[1], x[2]);
        close_run(&r);
    }
}

/* A box with a list and one with a number; a setting that changes between steps says the bounds of the next one. */
static void lists_meet_numbers_and_later_steps_say_their_own(void **state)
{
    (void)state;
    run r = open_run("box(-9, 9) | box(-1, 0.75) | newton | backtracking", GD_F64);
    gd_link *first = gd_link_child_at(gd_optimizer_chain(r.o), 0);
    const double high[] = {0.5, 0.4};
    double x[3];
    OK(gd_link_set_for(first, r.p, "high", gd_setting_list(high, 2)));
    for (int i = 0; i < 4; i++) OK(step_of(&r, NULL));
    values_of(&r, x);
    assert_true(x[0] == 0.5 && x[1] == 0.4 && x[2] == -1);
    OK(gd_link_set_for(first, r.p, "high", gd_setting_real(9)));
    for (int i = 0; i < 4; i++) OK(step_of(&r, NULL));
    values_of(&r, x);
    assert_true(x[0] == 0.75 && fabs(x[1] - 0.5) < 1e-9 && x[2] == -1);
    close_run(&r);
}

static void boxes_that_have_nothing_in_common_are_named_both(void **state)
{
    (void)state;
    run r = open_run("box(0, 2) | box(3, 4) | lbfgs | strong_wolfe", GD_F64);
    double before[3], after[3];
    values_of(&r, before);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(step_of(&r, NULL), GD_VALUE);
        const char *text = gd_error_text(r.ctx);
        if (!strstr(text, "parameter 'p', element 0") || !strstr(text, "between 0 and 2") ||
            !strstr(text, "between 3 and 4"))
            fail_msg("%s", text);
        gd_clear_error(r.ctx);
        values_of(&r, after);
        assert_memory_equal(before, after, sizeof before);
    }
    close_run(&r);
}

/* ---- state ---- */

static void saved_and_loaded_it_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    char path[] = "/tmp/gradus_bounds_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    double whole[3], resumed[3];
    run r = open_run("box(none, 0.75) | lbfgs | strong_wolfe", GD_F64);
    const double low[] = {-1, 0.6};
    OK(gd_link_set_for(gd_link_child_at(gd_optimizer_chain(r.o), 0), r.p, "low", gd_setting_list(low, 2)));
    for (int i = 0; i < 2; i++) OK(step_of(&r, NULL));
    OK(gd_optimizer_save(r.o, path));
    double middle[3];
    values_of(&r, middle);
    for (int i = 0; i < 3; i++) OK(step_of(&r, NULL));
    values_of(&r, whole);
    close_run(&r);
    r = open_run("box(none, 0.75) | lbfgs | strong_wolfe", GD_F64);
    gd_no_grad_begin(r.ctx);
    OK(gd_write_f64(r.p, middle, 2));
    OK(gd_write_f64(r.q, middle + 2, 1));
    gd_no_grad_end(r.ctx);
    OK(gd_optimizer_load(r.o, path, true));
    for (int i = 0; i < 3; i++) OK(step_of(&r, NULL));
    values_of(&r, resumed);
    assert_memory_equal(whole, resumed, sizeof whole);
    assert_true(whole[1] == 0.6 && whole[0] == 0.75);
    close_run(&r);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_link_of_the_table_stays_inside),
        TEST(products_by_differences_stay_inside),
        TEST(held_elements_lie_on_their_bounds_bit_for_bit),
        TEST(the_step_info_has_the_residual),
        TEST(minimising_stops_by_the_residual_and_not_by_the_gradient),
        TEST(a_start_outside_is_moved_before_it_is_evaluated),
        TEST(groups_lists_and_single_parameters_say_bounds),
        TEST(bounds_that_are_none_are_refused_by_name),
        TEST(authors_see_bounds_and_who_is_held),
        TEST(of_several_boxes_the_intersection_holds),
        TEST(lists_meet_numbers_and_later_steps_say_their_own),
        TEST(boxes_that_have_nothing_in_common_are_named_both),
        TEST(saved_and_loaded_it_goes_on_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
