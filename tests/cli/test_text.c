/* Numbers and JSON as text. */
#include "base/text/compose.h"
#include "support/own_context.h"

#include <math.h>

static void numbers_are_read_as_the_nearest_double(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"0", 0},
                 {"1", 1},
                 {"-1.5", -1.5},
                 {"+2", 2},
                 {".5", 0.5},
                 {"5.", 5},
                 {"1e3", 1e3},
                 {"1E-3", 1e-3},
                 {"1e+22", 1e22},
                 {"123456789012345678", 123456789012345678.0},
                 {"0.1", 0.1},
                 {"0.30000000000000004", 0.30000000000000004},
                 {"2.2250738585072011e-308", 2.2250738585072011e-308},
                 {"4.9e-324", 4.9e-324},
                 {"1.7976931348623157e308", 1.7976931348623157e308},
                 {"9007199254740993", 9007199254740993.0},
                 {"0.000000000000000000000000000001", 1e-30},
                 {"100000000000000000000000000000000000000", 1e38},
                 {"3.14159265358979323846264338327950288", 3.14159265358979323846},
                 {"8.5e-3", 8.5e-3},
                 {"1e-23", 1e-23}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = -77;
        assert_true(gd__is_number(cases[i].text, strlen(cases[i].text), false, &value));
        if (memcmp(&value, &cases[i].value, sizeof value) != 0)
            fail_msg("%s is read as %.17g", cases[i].text, value);
    }
    double value;
    assert_true(gd__is_number("1e999", 5, false, &value) && isinf(value));
}

/* Against the C library, over printed doubles of every size. */
static void printed_doubles_read_back_as_themselves(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = random_bits(&random);
        double v, back = 0;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v)) continue;
        if (i % 3 == 0) v = round(fmod(v, 1e6) * 1000) / 1000;
        char text[64];
        snprintf(text, sizeof text, i % 2 ? "%.17g" : "%.6f", fabs(v) < 1e15 || i % 2 ? v : 1.5);
        assert_true(gd__is_number(text, strlen(text), false, &back));
        assert_true(back == strtod(text, NULL));
    }
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",    "-",  ".",  "e5",  "abc", "1x",  "0x10", "1e",   "1e+",
                                        "--1", " 1", "1 ", "1,5", "nan", "inf", "1..2", "1.2.3"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double value;
        if (gd__is_number(texts[i], strlen(texts[i]), false, &value)) fail_msg("'%s' is a number", texts[i]);
    }
    char digits[2000];
    memset(digits, '9', sizeof digits);
    double value;
    assert_false(gd__is_number(digits, sizeof digits, false, &value));
    assert_int_equal(gd__parse_number("12abc", 5, false, &value), 2);
    assert_int_equal(gd__parse_number("1e", 2, false, &value), 1);
}

static void nan_and_infinities_are_read_where_asked_for(void **state)
{
    (void)state;
    double value;
    assert_true(gd__is_number("NaN", 3, true, &value) && isnan(value));
    assert_true(gd__is_number("-inf", 4, true, &value) && value < 0 && isinf(value));
    assert_true(gd__is_number("Infinity", 8, true, &value) && value > 0 && isinf(value));
    assert_false(gd__is_number("in", 2, true, &value));
    assert_false(gd__is_number("-", 1, true, &value));
}

static void whole_numbers_are_read_exactly(void **state)
{
    (void)state;
    int64_t value;
    assert_true(gd__is_integer("9223372036854775807", &value) && value == INT64_MAX);
    assert_true(gd__is_integer("-12", &value) && value == -12);
    assert_false(gd__is_integer("9223372036854775808", &value));
    assert_false(gd__is_integer("1.0", &value));
    assert_false(gd__is_integer("", &value));
    assert_false(gd__is_integer("-", &value));
    assert_false(gd__is_integer("12 ", &value));
}

static void json_numbers_and_strings_are_valid(void **state)
{
    (void)state;
    gd_text t = gd__text(ctx);
    gd__text_char(&t, '{');
    gd__json_put_number(&t, "a", 0.1);
    gd__json_put_number(&t, "b\"\\\n", NAN);
    gd__json_put_number(&t, "c", -INFINITY);
    gd__json_put_number(&t, "\xC3\xA9\xFF", 3);
    gd__text_char(&t, '}');
    assert_string_equal(t.data,
                        "{\"a\": 0.10000000000000001, \"b\\\"\\\\\\u000a\": \"NaN\", \"c\": \"-Infinity\", "
                        "\"\xC3\xA9\\ufffd\": 3}");
    gd__text_clear(&t);
    assert_string_equal(gd__text_string(&t), "");
    gd__text_free(&t);
}

static void malformed_utf8_is_recognised(void **state)
{
    (void)state;
    assert_int_equal(gd__utf8_length("a"), 1);
    assert_int_equal(gd__utf8_length("\xC3\xA9"), 2);
    assert_int_equal(gd__utf8_length("\xE2\x82\xAC"), 3);
    assert_int_equal(gd__utf8_length("\xF0\x9F\x98\x80"), 4);
    static const char *const bad[] = {
        "\x80",    "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xF4\x90\x80\x80",
        "\xE2\x82"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(gd__utf8_length(bad[i]), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_are_read_as_the_nearest_double), TEST(printed_doubles_read_back_as_themselves),
        TEST(what_is_no_number_is_refused),           TEST(nan_and_infinities_are_read_where_asked_for),
        TEST(whole_numbers_are_read_exactly),         TEST(json_numbers_and_strings_are_valid),
        TEST(malformed_utf8_is_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
