/* Fits whose residuals, made of operators, read few parameters each: what the graph says they read, and the fits that come of it. */
#include "gradus/solve.h"
#include "optim/solve/numbers/reads.h"
#include "optim/vector/jacobian.h"
#include "support/own_context.h"

#include <math.h>

static gd_tensor *x; /* [6] unless a test says otherwise */

static gd_tensor *numbers(int64_t count, const int64_t *value)
{
    return gd_from_data(ctx, GD_I64, 1, &count, value);
}

/* ---- which elements are read ---- */

static gd_tensor *neighbours(void) { return gd_mul(gd_slice(x, "0", 0, 5, 1), gd_slice(x, "0", 1, 6, 1)); }
static gd_tensor *times_zero(void) { return gd_mul_scalar(gd_square(x), 0); }
static gd_tensor *lost_choice(void)
{
    return gd_maximum(x,
                      gd_add_scalar(gd_index_select(x, "0", numbers(6, (int64_t[]){5, 4, 3, 2, 1, 0})), 99));
}
static gd_tensor *picked(void)
{
    return gd_exp(gd_index_select(x, "0", numbers(4, (int64_t[]){2, 2, 0, 5})));
}
static gd_tensor *turned(void)
{
    gd_tensor *m = gd_transpose(gd_reshape(x, 2, (int64_t[]){2, 3}), 0, 1);
    return gd_sum(m, "1", false);
}
static gd_tensor *spread_out(void)
{
    gd_tensor *m = gd_reshape(gd_slice(x, "0", 0, 3, 1), 2, (int64_t[]){3, 1});
    return gd_mul(m, gd_reshape(gd_slice(x, "0", 3, 5, 1), 2, (int64_t[]){1, 2}));
}
static gd_tensor *joined(void)
{
    gd_tensor *parts[] = {gd_slice(x, "0", 4, 6, 1), gd_sin(gd_slice(x, "0", 0, 1, 1))};
    return gd_cat(parts, 2, "0");
}
static gd_tensor *by_matrix(void)
{
    gd_tensor *m = gd_reshape(x, 2, (int64_t[]){3, 2});
    return gd_matmul(m, gd_ones(ctx, GD_F64, 2, (int64_t[]){2, 2}));
}
static gd_tensor *every_second(void) { return gd_div(gd_slice(x, "0", 1, 6, 2), gd_index(x, "0", 0)); }
static gd_tensor *added_up(void) { return gd_mul(x, gd_sum(x, NULL, false)); }
static gd_tensor *decomposed(void)
{
    gd_tensor *m = gd_reshape(gd_slice(x, "0", 0, 4, 1), 2, (int64_t[]){2, 2});
    return gd_reshape(gd_matmul(m, gd_transpose(m, 0, 1)), 1, (int64_t[]){4});
}

static const struct {
    const char *name;
    gd_tensor *(*residuals)(void);
    int64_t entries; /* that can be other than zero for some x */
} functions[] = {
    {"neighbours", neighbours, 10}, {"times_zero", times_zero, 6}, {"lost_choice", lost_choice, 12},
    {"picked", picked, 4},          {"turned", turned, 6},         {"spread_out", spread_out, 12},
    {"joined", joined, 3},          {"by_matrix", by_matrix, 12},  {"every_second", every_second, 6},
    {"added_up", added_up, 36},     {"decomposed", decomposed, 12}};

static void the_graph_says_what_is_read_whatever_the_values(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        x = gd_require_grad(VECTOR(ctx, 1, 2, 3, 4, 5, 6));
        gd_tensor *r = functions[f].residuals(), *flat = gd_reshape(r, 1, (int64_t[]){gd_numel(r)});
        gd_reads reads;
        bool found;
        assert_int_equal(gd__reads_find(flat, &x, 1, 6, 1000, &reads, &found), GD_OK);
        if (!found || reads.entries != functions[f].entries)
            fail_msg("%s: %lld entries", functions[f].name, (long long)(found ? reads.entries : -1));
        gd_tensor *j = gd__jacobian_matrix(flat, &x, 1);
        const double *value = gd_data(gd_contiguous(j));
        for (int64_t i = 0; i < reads.m; i++)
            for (int64_t c = 0; c < 6; c++) {
                bool read = false;
                for (int64_t e = reads.start[i]; e < reads.start[i + 1]; e++)
                    read = read || reads.column[e] == c;
                if (value[i * 6 + c] != 0 && !read)
                    fail_msg("%s: %d is read by %d", functions[f].name, (int)c, (int)i);
            }
        gd__reads_free(ctx, &reads);
    }
}

/* ---- fits ---- */

typedef struct chain {
    gd_tensor *x, *y, *second;
    int64_t m, n;
} chain;

/* r = x_a^2 - x_b - y with the minimum x_k = 1 + k / n */
static gd_tensor *chain_residuals(void *user)
{
    chain *c = user;
    gd_tensor *a = gd_reshape(gd_expand(c->x, 2, (int64_t[]){c->m / c->n, c->n}), 1, &c->m);
    return gd_sub(gd_sub(gd_square(a), gd_index_select(c->x, "0", c->second)), c->y);
}

static void make_chain(chain *c, int64_t m, int64_t n)
{
    *c = (chain){.m = m, .n = n};
    double *y = malloc((size_t)m * sizeof *y);
    int64_t *second = malloc((size_t)m * sizeof *second);
    for (int64_t i = 0; i < m; i++) {
        second[i] = (i % n + 1 + i / n) % n;
        double a = 1 + (double)(i % n) / (double)n, b = 1 + (double)second[i] / (double)n;
        y[i] = a * a - b;
    }
    c->x = gd_require_grad(gd_full(ctx, GD_F64, 1, &n, 1.5));
    c->y = gd_from_f64(ctx, GD_F64, 1, &m, y);
    c->second = gd_from_data(ctx, GD_I64, 1, &m, second);
    free(y);
    free(second);
}

static void check_minimum(const chain *c, double tolerance)
{
    for (int64_t i = 0; i < c->n; i++)
        assert_true(fabs(((const double *)gd_data(c->x))[i] - 1 - (double)i / (double)c->n) < tolerance);
}

static void many_parameters_take_little_memory(void **state)
{
    (void)state;
    chain c;
    make_chain(&c, 100000, 10000);
    gd_lsq_result fit;
    test_memory()->most = test_memory()->bytes;
    assert_int_equal(gd_least_squares(&c.x, 1, chain_residuals, &c, NULL, &fit), GD_OK);
    assert_true(fit.solve.converged);
    assert_true(test_memory()->most < 200000000);
    check_minimum(&c, 1e-9);
    assert_int_equal(fit.residuals, 100000);
    assert_int_equal(fit.rank, 10000);
    assert_int_equal(gd_numel(fit.standard_errors), 10000);
    gd_lsq_result_clear(&fit);
}

static void bounds_losses_and_errors_work_as_in_dense_fits(void **state)
{
    (void)state;
    enum { N = 200 };
    double low[N], high[N];
    for (int i = 0; i < N; i++) low[i] = -9, high[i] = i < 10 ? 0.9 : 9;
    for (int way = 0; way < 4; way++) {
        chain c;
        make_chain(&c, 10000, N);
        gd_lsq_options o = gd_lsq_defaults();
        if (way == 1) o.low = low, o.high = high;
        if (way == 2) o.loss = GD_LSQ_HUBER, o.loss_scale = 0.1;
        if (way == 3) o.errors = GD_LSQ_HC3;
        gd_lsq_result fit;
        assert_int_equal(gd_least_squares(&c.x, 1, chain_residuals, &c, &o, &fit), GD_OK);
        assert_true(fit.solve.converged);
        if (way != 1) check_minimum(&c, 1e-8);
        if (way == 1)
            assert_true(((const double *)gd_data(c.x))[4] == 0.9 &&
                        ((const int32_t *)gd_data(fit.active))[4] == 1);
        assert_int_equal(gd_numel(fit.covariance), N * N);
        gd_lsq_result_clear(&fit);
    }
}

static gd_tensor *one_is_not_read(void *user)
{
    chain *c = user;
    gd_tensor *r = gd_slice(c->x, "0", 0, c->n - 1, 1);
    gd_tensor *all[150];
    for (int i = 0; i < 150; i++) all[i] = gd_add_scalar(r, i % 3);
    return gd_cat(all, 150, "0");
}

static void an_element_that_nothing_reads_is_named(void **state)
{
    (void)state;
    chain c;
    make_chain(&c, 200, 200);
    gd_lsq_options o = gd_lsq_defaults();
    o.names = (const char *const[]){"weights"};
    gd_lsq_result fit;
    assert_int_equal(gd_least_squares(&c.x, 1, one_is_not_read, &c, &o, &fit), GD_OK);
    assert_int_equal(fit.solve.reason, GD_STOP_UNDETERMINED);
    assert_string_equal(fit.says, "the residuals do not determine weights[199]");
    gd_lsq_result_clear(&fit);
}

static gd_tensor *copies(void *user)
{
    chain *c = user;
    return gd_square(gd_reshape(gd_expand(c->x, 2, (int64_t[]){c->m / c->n, c->n}), 1, &c->m));
}

static bool small_chain(gd_ctx *other)
{
    gd_ctx *mine = ctx;
    ctx = other;
    gd_tensor *p = gd_require_grad(gd_ones(other, GD_F64, 1, (int64_t[]){100}));
    chain c = {.x = p, .m = 20000, .n = 100};
    gd_lsq_options o = gd_lsq_defaults();
    o.solve.max_steps = 1;
    gd_lsq_result fit;
    bool ok = p && gd_least_squares(&p, 1, copies, &c, &o, &fit) == GD_OK;
    if (ok) gd_lsq_result_clear(&fit);
    ctx = mine;
    return ok;
}

static void failed_allocations_are_errors(void **state)
{
    (void)state;
    fail_each_allocation(1, small_chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_graph_says_what_is_read_whatever_the_values, start_scope,
                                        stop_scope),
        cmocka_unit_test_setup_teardown(many_parameters_take_little_memory, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(bounds_losses_and_errors_work_as_in_dense_fits, start_scope,
                                        stop_scope),
        cmocka_unit_test_setup_teardown(an_element_that_nothing_reads_is_named, start_scope, stop_scope),
        cmocka_unit_test(failed_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
