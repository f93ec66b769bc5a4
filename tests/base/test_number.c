/* Numbers as text in a locale with a decimal comma: of the program, and of one thread alone. */
#include "support/support.h"

#include "base/text/ascii.h"
#include "base/text/json.h"
#include "base/text/number.h"
#include "base/text/text.h"

#include <pthread.h>

/* Locales to be in; C where the suite runs without GD_TEST_LOCALE. */
static locale_t own_locale(void)
{
    const char *name = getenv("GD_TEST_LOCALE");
    locale_t made = newlocale(LC_ALL_MASK, name ? name : "C", (locale_t)0);
    assert_true(made != (locale_t)0);
    return made;
}

static void check_numbers(void)
{
    char text[64];
    double value = 0;
    assert_int_equal(gd__format(text, sizeof text, "%.17g %.2f", 0.75, 1e6), 15);
    assert_string_equal(text, "0.75 1000000.00");
    assert_true(gd__is_number("1.7976931348623157e308", 22, false, &value));
    assert_true(value == 1.7976931348623157e308);
    assert_false(gd__is_number("0,75", 4, false, &value));
    assert_true(gd__is_number("INF", 3, true, &value));
    assert_true(gd__begins_with("Iteration", "ITER", 4));
    assert_false(gd__is_letter((char)0xE9));
    json_t *j = gd__json_read("[0.75, 1e-3]", 12, NULL);
    assert_non_null(j);
    assert_float_equal(json_real_value(json_array_get(j, 0)), 0.75, 0);
    assert_float_equal(json_real_value(json_array_get(j, 1)), 1e-3, 0);
    assert_string_equal(gd__json_write(j, text, sizeof text), "[0.75, 0.001]");
    assert_string_equal(gd__json_write(j, text, 6), "[0.75");
    json_decref(j);
}

static void check_errors(void)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_text t = {.ctx = ctx};
    gd__text_put(&t, "%g", 2.5);
    assert_string_equal(t.data, "2.5");
    gd__text_free(&t);
    gd_scope_begin(ctx);
    assert_null(gd_clamp(gd_ones(ctx, GD_F64, 0, NULL), 1.5, 0.5));
    assert_error(ctx, GD_VALUE, "clamp: low 1.5 is above high 0.5");
    gd_warn(ctx, "%.1f", 0.5);
    assert_string_equal(gd_warning_text(ctx), "0.5");
    char print[64];
    gd_format(VECTOR(ctx, 0.5, -1.25), print, sizeof print);
    assert_string_equal(print, "[0.5, -1.25]  f64[2]");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void numbers_have_a_point_in_the_locale_of_the_program(void **state)
{
    (void)state;
    const char *point = localeconv()->decimal_point;
    if (getenv("GD_TEST_LOCALE") && !strncmp(getenv("GD_TEST_LOCALE"), "de_DE", 5))
        assert_string_equal(point, ",");
    check_numbers();
    check_errors();
}

static void *in_a_thread(void *arg)
{
    locale_t made = own_locale();
    (void)uselocale(made);
    check_numbers();
    check_errors();
    *(bool *)arg = uselocale((locale_t)0) == made; /* the thread keeps its own */
    (void)uselocale(LC_GLOBAL_LOCALE);
    freelocale(made);
    return NULL;
}

static void numbers_have_a_point_in_the_locale_of_a_thread(void **state)
{
    (void)state;
    pthread_t thread;
    bool kept = false;
    assert_int_equal(pthread_create(&thread, NULL, in_a_thread, &kept), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(kept);
}

/* Between two doubles, a little to either side of the middle, and digits of all lengths: strtod of the C library rounds correctly. */
static void a_number_is_rounded_once(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "9007199254740993",
        "9007199254740995",
        "9007199254740993.001",
        "4503599627370497.5",
        "4503599627370496.5",
        "18446744073709551615",
        "18446744073709551616",
        "0.500000000000000055",
        "1000000000000000128e3",
        "1000000000000000129e3",
        "9007199254740993e27",
        "9007199254740993e-27",
        "36028797018963972e0",
        "1e27",
        "1e-27",
        "0e27",
    };
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c_locale);
    uint64_t seed = 5;
    for (int i = 0; i < 200000; i++) {
        char text[64];
        double value, want;
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t digits = (seed ^ seed >> 29) >> (seed >> 58);
        if (i < COUNT_OF(texts))
            strcpy(text, texts[i]);
        else
            snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, (int)(seed >> 33) % 31);
        if (i >= COUNT_OF(texts) && seed >> 40 & 1)
            snprintf(text, sizeof text, "%llue-%d", (unsigned long long)digits, (int)(seed >> 33 & 31));
        want = strtod(text, NULL);
        assert_true(gd__is_number(text, strlen(text), false, &value));
        if (value != want) fail_msg("%s: %.17g, want %.17g", text, value, want);
    }
    (void)uselocale(before);
    freelocale(c_locale);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_a_point_in_the_locale_of_the_program),
        cmocka_unit_test(numbers_have_a_point_in_the_locale_of_a_thread),
        cmocka_unit_test(a_number_is_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
