/* Conditions to stop at. */
#include "optim/text/until.h"
#include "support/own_context.h"

#include <math.h>

static void conditions_are_read_and_compared(void **state)
{
    (void)state;
    gd_until u = {0};
    assert_int_equal(gd__until_parse(ctx, "grad_norm<1e-8, loss <= 0.5", &u), GD_OK);
    assert_int_equal(gd__until_parse(ctx, " seconds>=2 ", &u), GD_OK);
    assert_int_equal(u.count, 3);
    assert_true(u.uses[GD_UNTIL_GRAD_NORM] && u.uses[GD_UNTIL_LOSS] && u.uses[GD_UNTIL_SECONDS]);
    assert_false(u.uses[GD_UNTIL_EVALS]);
    double values[GD_UNTIL_COUNT] = {
        [GD_UNTIL_LOSS] = 1, [GD_UNTIL_GRAD_NORM] = 1e-8, [GD_UNTIL_SECONDS] = 1.9};
    assert_null(gd__until_met(&u, values));
    values[GD_UNTIL_LOSS] = 0.5;
    assert_string_equal(gd__until_met(&u, values), "loss <= 0.5");
    values[GD_UNTIL_LOSS] = NAN;
    assert_null(gd__until_met(&u, values));
    values[GD_UNTIL_SECONDS] = 2;
    assert_string_equal(gd__until_met(&u, values), "seconds>=2");
    values[GD_UNTIL_GRAD_NORM] = 0;
    assert_string_equal(gd__until_met(&u, values), "grad_norm<1e-8");
}

static void mistakes_are_pointed_at(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", ".until: column 1: loss, loss_change, grad_norm, step_norm, kkt, evals or seconds expected"},
        {"los<1",
         ".until: column 1: loss, loss_change, grad_norm, step_norm, kkt, evals or seconds expected, did you mean 'loss'?"},
        {"loss", ".until: column 5: '<' or '>' expected"},
        {"loss=1", ".until: column 5: '<' or '>' expected"},
        {"loss<", ".until: column 6: a number expected"},
        {"loss<1 2", ".until: column 8: ',' expected"},
        {"loss<1,", ".until: column 8: loss, loss_change"},
        {"loss<1e-3x", ".until: column 10: ',' expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gd_until u = {0};
        assert_int_equal(gd__until_parse(ctx, cases[i].text, &u), GD_PARSE);
        assert_error(ctx, GD_PARSE, cases[i].error);
    }
    gd_until u = {0};
    for (int i = 0; i < GD_MAX_CONDITIONS; i++) assert_int_equal(gd__until_parse(ctx, "loss<1", &u), GD_OK);
    assert_int_equal(gd__until_parse(ctx, "loss<1", &u), GD_PARSE);
    gd_clear_error(ctx);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(conditions_are_read_and_compared),
        TEST(mistakes_are_pointed_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
