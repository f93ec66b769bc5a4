/* src/problem: what a text becomes, without the program around it. */
#include "problem/constraints.h"
#include "problem/problem_rows.h"
#include "gradus/solve.h"
#include "support/own_context.h"

#include <math.h>

static gd_words words(const char *first, const char *second)
{
    gd_words out = {0};
    assert_int_equal(gd__words_add(ctx, &out, first, strlen(first)), GD_OK);
    if (second) assert_int_equal(gd__words_add(ctx, &out, second, strlen(second)), GD_OK);
    return out;
}

static gd_problem_spec spec_of(const char *text, const gd_words *params, const gd_words *data)
{
    return (gd_problem_spec){.expression = text,
                             .params = params,
                             .data = data,
                             .dtype = GD_F64,
                             .device = gd_device_get(ctx, "cpu")};
}

static gd_solve_result solve(gd_problem *p, const char *text)
{
    gd_solve_result result;
    gd_solve_options o = gd_solve_defaults();
    gd_link *chain = gd_chain(ctx, text);
    assert_int_equal(gd__problem_restrict(p, 1, 100, &chain), GD_OK);
    gd_optimizer *optimizer = gd_optimizer_new(ctx, chain);
    for (int i = 0; i < p->params; i++)
        assert_int_equal(gd_optimizer_add(optimizer, p->name[i], p->value[i]), GD_OK);
    gd_objective objective = gd__problem_objective(p);
    assert_int_equal(gd_minimize_with(optimizer, &objective, &o, &result), GD_OK);
    gd_optimizer_free(optimizer);
    return result;
}

static void near_constraint(void *user, const gd_constraint_state *f, int number)
{
    assert_true(number == 0 && f->equal && f->count == 1 && f->multiplier == NULL);
    *(double *)user = f->value[0];
}

/* The point of the line x + y = 1 nearest to (a, a) is (1/2, 1/2): the loss there is 2 (a - 1/2)^2. */
static void a_text_with_a_constraint_is_solved(void **state)
{
    (void)state;
    double violation = NAN;
    const char *chain;
    gd_problem p;
    gd_words params = words("x=3", "y=0"), data = words("a=2", NULL), equal = words("x+y = 1", NULL);
    gd_problem_spec spec = spec_of("(x-a)^2+(y-a)^2", &params, &data);
    spec.equal = &equal;
    assert_int_equal(gd__problem_open(&p, ctx, &spec), GD_OK);
    assert_true(p.params == 2 && p.count == 3 && gd__problem_is_constrained(&p));
    assert_int_equal(gd__problem_check_names(&p), GD_OK);
    assert_int_equal(gd__problem_choose_chain(&p, &chain), GD_OK);
    assert_string_equal(chain, "nlp");
    assert_true(fabs(solve(&p, chain).loss - 4.5) < 1e-8);
    assert_int_equal(gd__constraints_visit(&p, NULL, near_constraint, &violation), GD_OK);
    assert_true(fabs(violation) < 1e-8);
    gd__problem_close(&p);
    gd__words_free(ctx, &params);
    gd__words_free(ctx, &data);
    gd__words_free(ctx, &equal);
}

static void bounds_hold(void **state)
{
    (void)state;
    gd_problem p;
    gd_words params = words("x=[0.5,0.5]", NULL), bounds = words("0<x<1", NULL);
    gd_problem_spec spec = spec_of("x-[3,0.25]", &params, NULL); /* residuals */
    spec.bounds = &bounds;
    assert_int_equal(gd__problem_open(&p, ctx, &spec), GD_OK);
    assert_true(gd__problem_is_bounded(&p) && fabs(solve(&p, "lbfgs | strong_wolfe").loss - 4) < 1e-9);
    gd__problem_close(&p);
    gd__words_free(ctx, &params);
    gd__words_free(ctx, &bounds);
}

/* Microbatches of 3 and 1 rows: the loss is the mean over all four, the minimum the variance of v. */
static void rows_add_up(void **state)
{
    (void)state;
    gd_problem p;
    gd_problem_rows rows;
    gd_words params = words("m=0", NULL), data = words("v=[-1,0,1,2]", NULL), names = words("v", NULL),
             none = words("w", NULL);
    gd_problem_spec spec = spec_of("mean((v-m)^2)", &params, &data);
    assert_int_equal(gd__problem_open(&p, ctx, &spec), GD_OK);
    assert_int_equal(gd__problem_rows_open(&p, &none, NULL, 3, &rows), GD_ARGUMENT);
    gd__problem_rows_close(&rows);
    gd_clear_error(ctx);
    assert_int_equal(gd__problem_rows_open(&p, &names, NULL, 3, &rows), GD_OK);
    assert_true(rows.batch.rows == 4 && rows.batch.microbatch == 3 && !rows.batch.sums);
    assert_true(fabs(solve(&p, "lbfgs | strong_wolfe").loss - 1.25) < 1e-9);
    gd__problem_rows_close(&rows);
    gd__problem_close(&p);
    gd__words_free(ctx, &params);
    gd__words_free(ctx, &data);
    gd__words_free(ctx, &names);
    gd__words_free(ctx, &none);
}

static void refuse(const char *text, const char *param, const char *equal, const char *said)
{
    gd_problem p;
    gd_words params = words(param, NULL), list = words(equal, NULL);
    gd_problem_spec spec = spec_of(text, &params, NULL);
    spec.equal = &list;
    gd_status status = gd__problem_open(&p, ctx, &spec);
    if (!status) status = gd__problem_check_names(&p);
    assert_true(status && strstr(gd_error_text(ctx), said));
    gd_clear_error(ctx);
    gd__problem_close(&p);
    gd__words_free(ctx, &params);
    gd__words_free(ctx, &list);
}

static void mistakes_name_their_place(void **state)
{
    (void)state;
    refuse("x^2", "x", "x=1", "NAME=VALUE expected");
    refuse("x^2", "x=1", "x < 1", "is an inequality");
    refuse("x^2", "x=1", "2 = 1", "no parameter is in it");
    refuse("x^2+z", "x=1", "x=1", "unknown name 'z'");
    refuse("2^2", "x=1", "y=1", "unknown name 'y'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_text_with_a_constraint_is_solved, start, stop),
        cmocka_unit_test_setup_teardown(bounds_hold, start, stop),
        cmocka_unit_test_setup_teardown(rows_add_up, start, stop),
        cmocka_unit_test_setup_teardown(mistakes_name_their_place, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
