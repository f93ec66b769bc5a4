/* Settings in errors and warnings (base/spelling.h). */
#include "base/spelling.h"
#include "support/spellings.h"

static void only_names_in_the_format_are_settings(void **state)
{
    gd_ctx *ctx = CTX(state);
    const struct {
        const char *format, *c;
    } cases[] = {{"{y} and {max_steps}", ".y and .max_steps"},
                 {"{by}: {folds}", "by: folds"},
                 {"{ y } {} {1} {A.b} {a", "{ y } {} {1} {A.b} {a"},
                 {"a\x7d {x_errors}", "a\x7d .x_errors"}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char out[100];
        assert_string_equal(gd__spell(ctx, cases[i].format, out, sizeof out), cases[i].c);
    }
    (void)gd_fail(ctx, GD_VALUE, "{y}: no '%s'", "{y}"); /* a column of that name */
    assert_error(ctx, GD_VALUE, ".y: no '{y}'");
    gd_warn(ctx, "{stop_on} %d", 3);
    assert_string_equal(gd_warning_text(ctx), ".stop_on 3");
}

static void what_does_not_fit_stays_as_it_is(void **state)
{
    gd_ctx *ctx = CTX(state);
    char out[12];
    for (size_t size = 1; size <= sizeof out; size++) {
        memset(out, 'q', sizeof out);
        const char *said = gd__spell(ctx, "{max_evals}", out, size);
        assert_string_equal(said, size > 10 ? ".max_evals" : "{max_evals}");
        for (size_t i = size; i < sizeof out; i++) assert_int_equal(out[i], 'q');
    }
    char room[GD_SETTING], longest[300];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_true(strlen(gd__setting(ctx, longest, room)) < sizeof room);
}

static void a_vocabulary_spells_names(void **state)
{
    gd_ctx *ctx = CTX(state);
    const char *const want[][3] = {{".x_errors b", "--x-errors b", "x_errors= b"},
                                   {".bounds b", "--bound b", "bound= b"},
                                   {".max_steps b", "--steps b", "steps= b"}};
    const char *const names[] = {"x_errors b", "bounds b", "max_steps b"};
    for (int i = 0; i < COUNT_OF(names); i++)
        for (int k = 0; k < COUNT_OF(spellings); k++) {
            ctx->vocabulary = &spellings[k];
            assert_string_equal(gd__setting_of(ctx, names[i]), want[i][k]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_names_in_the_format_are_settings, begin_test, end_test),
        cmocka_unit_test_setup_teardown(what_does_not_fit_stays_as_it_is, begin_test, end_test),
        cmocka_unit_test_setup_teardown(a_vocabulary_spells_names, begin_test, end_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
