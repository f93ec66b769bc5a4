/* Chains as text: reading, printing, errors with their column. */
#include "optim/chain_property.h"
#include "optim/chain_support.h"
#include "base/text/scan.h"
#include "base/text/suggest.h"
#include "support/corpus.h"

#include <math.h>

/* ---- reading ---- */

static void one_link_is_itself_and_several_are_a_chain(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *one = parsed(ctx, "tx_plain");
    assert_string_equal(name_of(one), "tx_plain");
    gd_link_release(one);
    gd_link *several = parsed(ctx, "tx_plain | tx_rate(0.1) | tx_plain");
    assert_ptr_equal(gd_link_class_of(several), &gd_link_chain);
    assert_int_equal(gd_link_children(several), 3);
    assert_string_equal(name_of(gd_link_child_at(several, 1)), "tx_rate");
    gd_link_release(several);
}

static void spaces_and_empty_parentheses_mean_nothing(void **state)
{
    gd_link *a = parsed(*state, "tx_decay(0.5,every=3)|tx_plain()"),
            *b = parsed(*state, "\n tx_decay ( 0.5 ,\tevery = 3 )  |\r\n tx_plain ( ) ");
    assert_true(same_link(a, b));
    gd_link_release(a);
    gd_link_release(b);
}

static void settings_go_by_position_then_by_name(void **state)
{
    gd_link *link = parsed(*state, "tx_decay(0.5, 0.25, init=\"update\", limit=2)");
    assert_true(gd_link_real(link, "beta1", NULL) == 0.5);
    assert_true(gd_link_real(link, "beta2", NULL) == 0.25);
    assert_true(gd_link_is(link, "init", "update"));
    assert_true(gd_link_real(link, "limit", NULL) == 2);
    assert_true(gd_link_flag(link, "debiased"));
    assert_null(gd_link_child(link, "inner"));
    gd_link_release(link);
}

static void values_of_every_kind_are_read(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *link = parsed(
        ctx, "tx_window([1, 0.5, -1/4, inf], axes=none, title=\"a \\\"b\\\" \\\\ \\n\\t| [é]\")");
    const gd_setting *weights = gd_link_get(link, "weights", NULL);
    assert_int_equal(weights->kind, GD_SET_LIST);
    assert_int_equal(weights->list_count, 4);
    assert_true(weights->list[1] == 0.5 && weights->list[2] == -0.25 && isinf(weights->list[3]));
    assert_string_equal(gd_link_get(link, "title", NULL)->string, "a \"b\" \\ \n\t| [é]");
    gd_link_release(link);
    link = parsed(ctx, "tx_window([], [0, 2])");
    assert_int_equal(gd_link_get(link, "weights", NULL)->kind, GD_SET_LIST);
    assert_int_equal(gd_link_get(link, "weights", NULL)->list_count, 0);
    assert_int_equal(gd_link_get(link, "axes", NULL)->list_count, 2);
    gd_link_release(link);
    link = parsed(ctx, "tx_window(none, \"global\")");
    assert_true(gd_link_is(link, "axes", "global"));
    gd_link_release(link);
    link = parsed(ctx, "tx_decay(debiased=false)");
    assert_false(gd_link_flag(link, "debiased"));
    gd_link_release(link);
}

static void numbers_are_read_as_strtod_reads_them(void **state)
{
    static const struct {
        const char *text;
        double value;
    } numbers[] = {
        {"1", 1},
        {"-0.5", -0.5},
        {"+2", 2},
        {".5", 0.5},
        {"1.", 1},
        {"1e-3", 1e-3},
        {"1E+3", 1000},
        {"1/3", 1.0 / 3},
        {"-1 / 2", -0.5},
        {"1/-4", -0.25},
        {"inf", INFINITY},
        {"-inf", -INFINITY},
        {"0.1", 0.1},
        {"1e-400", 0},
        {"1.7976931348623157e308", 1.7976931348623157e308},
        {"4.9e-324", 4.9e-324},
        {"0.30000000000000004", 0.1 + 0.2},
        {"123456789012345678901234567890", 123456789012345678901234567890.0},
    };
    for (int i = 0; i < COUNT_OF(numbers); i++) {
        char text[80];
        snprintf(text, sizeof text, "tx_scale(%s)", numbers[i].text);
        gd_link *link = parsed(*state, text);
        assert_true(gd_link_real(link, "factor", NULL) == numbers[i].value);
        gd_link_release(link);
    }
}

static void children_are_links_or_chains(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *link = parsed(ctx, "tx_pair(tx_rate(0.5), [tx_plain | tx_rate], 3)");
    gd_link *left = gd_link_child(link, "left"), *right = gd_link_child(link, "right");
    assert_string_equal(name_of(left), "tx_rate");
    assert_true(gd_link_real(left, "tx_rate", NULL) == 0.5);
    assert_ptr_equal(gd_link_class_of(right), &gd_link_chain);
    assert_int_equal(gd_link_children(right), 2);
    assert_true(gd_link_real(link, "steps", NULL) == 3);
    gd_link_release(link);
    /* one link in brackets is that link */
    link = parsed(ctx, "tx_decay(inner=[tx_plain])");
    assert_string_equal(name_of(gd_link_child(link, "inner")), "tx_plain");
    gd_link_release(link);
    /* a number or a chain */
    link = parsed(ctx, "tx_mix(0.5)");
    assert_true(gd_link_real(link, "other", NULL) == 0.5);
    gd_link_release(link);
    link = parsed(ctx, "tx_mix(tx_mix([tx_plain]), alpha=2)");
    assert_string_equal(name_of(gd_link_child(link, "other")), "tx_mix");
    gd_link_release(link);
    /* names that are words of the language elsewhere */
    link = parsed(ctx, "tx_split(\"*.bias\", false=tx_plain)");
    assert_null(gd_link_child(link, "true"));
    assert_non_null(gd_link_child(link, "false"));
    gd_link_release(link);
}

static void any_number_of_children_goes_by_position(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *link = parsed(ctx, "tx_all(tx_plain, [tx_plain | tx_rate], tx_rate(2), steps=4)");
    assert_int_equal(gd_link_children(link), 3);
    assert_int_equal(gd_link_children(gd_link_child_at(link, 1)), 2);
    assert_true(gd_link_real(link, "steps", NULL) == 4);
    gd_link_release(link);
    link = parsed(ctx, "tx_all([tx_plain | tx_rate])");
    assert_int_equal(gd_link_children(link), 1);
    gd_link_release(link);
}

static void chains_in_chains_are_taken_apart(void **state)
{
    static const char *const texts[] = {
        "[tx_plain | tx_rate] | tx_plain",
        "tx_plain | [[tx_rate] | [tx_plain]]",
        "[tx_plain | [tx_rate | tx_plain]]",
        "chain(tx_plain, [tx_rate | tx_plain])",
        "chain(tx_plain, chain(chain(tx_rate), tx_plain))",
        "tx_plain | [] | tx_rate | chain | tx_plain",
    };
    gd_link *want = parsed(*state, "tx_plain | tx_rate | tx_plain");
    for (int i = 0; i < COUNT_OF(texts); i++) {
        gd_link *got = parsed(*state, texts[i]);
        assert_true(same_link(got, want));
        gd_link_release(got);
    }
    gd_link_release(want);
    gd_link *one = parsed(*state, "chain([[tx_plain]])");
    assert_string_equal(name_of(one), "tx_plain");
    gd_link_release(one);
}

static void an_empty_chain_is_written_with_brackets(void **state)
{
    gd_link *link = parsed(*state, "[]");
    assert_ptr_equal(gd_link_class_of(link), &gd_link_chain);
    assert_int_equal(gd_link_children(link), 0);
    expect_print(link, "[]");
    gd_link_release(link);
    link = parsed(*state, "tx_mix([])");
    expect_print(link, "tx_mix([])");
    gd_link_release(link);
}

/* ---- errors ---- */

static const struct {
    const char *text, *error;
} wrong[] = {
    {"", "chain: column 1: expected a link, but the text ends"},
    {"  ", "chain: column 3: expected a link, but the text ends"},
    {"tx_plain |", "chain: column 11: expected a link, but the text ends"},
    {"tx_plain | | tx_plain", "chain: column 12: expected a link, got '|'"},
    {"3", "chain: column 1: expected a link, got '3'"},
    {"tx_plain | tx_plian", "chain: column 12: link 'tx_plian' unknown, did you mean 'tx_plain'?"},
    {"tx_plain | \"é\"", "chain: column 12: expected a link, got '\"'"},
    {"tx_window(title=\"éé\") | nothing_like_it", "chain: column 25: link 'nothing_like_it' unknown"},
    {"é", "chain: column 1: expected a link, got 'é'"},
    {"true", "chain: column 1: link 'true' unknown"},
    {"inf", "chain: column 1: expected a link, got 'inf'"},
    {"tx_decay(beta3=1)", "chain: column 10: tx_decay has no setting 'beta3', did you mean 'beta1'?"},
    {"tx_decay(zzz=1)", "chain: column 10: tx_decay has no setting 'zzz'"},
    {"tx_decay(beta1=1.5)", "chain: column 16: tx_decay: beta1 is 1.5, must be from 0 to 1"},
    {"tx_decay( beta1 = nan)", "chain: column 19: tx_decay: beta1 is nan, must be from 0 to 1"},
    {"tx_scale(nan)", "chain: column 10: tx_scale: factor is nan, must be a number"},
    {"tx_decay(limit=-1)", "chain: column 16: tx_decay: limit is -1, must be 0 or more"},
    {"tx_decay(every=2.5)", "chain: column 16: tx_decay: every is 2.5, must be a whole number"},
    {"tx_decay(every=inf)", "chain: column 16: tx_decay: every is inf, must be a whole number"},
    {"tx_decay(every=0)", "chain: column 16: tx_decay: every is 0, must be from 1 to 1000"},
    {"tx_decay(debiased=3)", "chain: column 19: tx_decay: debiased takes true or false, got 3"},
    {"tx_decay(true)", "chain: column 10: tx_decay: beta1 takes a number, got true"},
    {"tx_decay(limit=\"x\")", "chain: column 16: tx_decay: limit takes a number or none, got \"x\""},
    {"tx_decay(init=\"zero\")",
     "chain: column 15: tx_decay: init is \"zero\", must be \"zeros\" or \"update\""},
    {"tx_decay(init=1)", "chain: column 15: tx_decay: init takes \"zeros\" or \"update\", got 1"},
    {"tx_decay(init=zeros)",
     "chain: column 15: tx_decay: init takes \"zeros\" or \"update\", got 'zeros'; write it in quotes"},
    {"tx_decay(beta1=tx_plain)",
     "chain: column 16: tx_decay: beta1 takes a number from 0 to 1, got 'tx_plain'"},
    {"tx_decay([tx_plain])", "chain: column 10: tx_decay: beta1 takes a number, got a chain"},
    {"tx_decay(inner=3)", "chain: column 16: tx_decay: inner takes a link or chain or none, got 3"},
    {"tx_decay(inner=[1])", "chain: column 16: tx_decay: inner takes a link or chain or none, got [1]"},
    {"tx_window([1, nan])", "chain: column 11: tx_window: weights item 1 is nan, must be a number"},
    {"tx_window(axes=[1, 9])", "chain: column 16: tx_window: axes item 1 is 9, must be from 0 to 7"},
    {"tx_window([1, \"x\"])", "chain: column 15: expected a number, got '\"'"},
    {"tx_window([1 2])", "chain: column 14: expected ',' or ']', got '2'"},
    {"tx_window([1, 2", "chain: column 11: '[' is not closed"},
    {"tx_scale", "chain: column 1: tx_scale: needs 'factor'"},
    {"tx_plain | tx_scale(power=2)", "chain: column 12: tx_scale: needs 'factor'"},
    {"tx_all(steps=2)", "chain: column 1: tx_all: needs 'modules'"},
    {"tx_all(modules=tx_plain)", "chain: column 8: tx_all: modules are given by position"},
    {"tx_all(tx_plain, 3)", "chain: column 18: tx_all: modules takes a link or chain, got 3"},
    {"tx_scale(1, 2, 3)", "chain: column 16: tx_scale takes at most 2 settings"},
    {"tx_rate(1, 2)", "chain: column 12: tx_rate takes at most 1 setting"},
    {"tx_plain(1)", "chain: column 10: tx_plain takes no settings"},
    {"tx_scale(factor=1, factor=2)", "chain: column 20: tx_scale: factor is given twice"},
    {"tx_scale(1, factor=2)", "chain: column 13: tx_scale: factor is given twice"},
    {"tx_scale(factor=1, 2)", "chain: column 20: tx_scale: a value by position after one by name"},
    {"tx_scale(1,)", "chain: column 12: expected a value, got ')'"},
    {"tx_scale(1", "chain: column 9: '(' is not closed"},
    {"tx_scale(1]", "chain: column 11: expected ',' or ')', got ']'"},
    {"tx_scale(factor=)", "chain: column 17: expected a value, got ')'"},
    {"tx_all(tx_plain | tx_plain)", "chain: column 17: expected ',' or ')', got '|'"},
    {"[tx_plain", "chain: column 1: '[' is not closed"},
    {"tx_plain tx_plain", "chain: column 10: expected '|' or the end, got 'tx_plain'"},
    {"tx_plain)", "chain: column 9: expected '|' or the end, got ')'"},
    {"tx_scale(0x10)", "chain: column 10: malformed number '0x10'"},
    {"tx_scale(1.2.3)", "chain: column 10: malformed number '1.2.3'"},
    {"tx_scale(1e)", "chain: column 10: malformed number '1e'"},
    {"tx_scale(-)", "chain: column 10: malformed number '-'"},
    {"tx_scale(1e999)", "chain: column 10: the number 1e999 is too large"},
    {"tx_scale(1/0)", "chain: column 11: division by zero"},
    {"tx_scale(1/2/3)", "chain: column 13: expected ',' or ')', got '/'"},
    {"tx_window(title=\"x", "chain: column 17: the string is not closed"},
    {"tx_window(title=\"x\\", "chain: column 17: the string is not closed"},
    {"tx_window(title=\"x\\q\")", "chain: column 19: unknown escape in a string"},
    {"tx_plain | tx_span(2)", "chain: column 12: tx_span: low is above high"},
    {"tx_pair(tx_scale, tx_plain, 1)", "chain: column 9: tx_scale: needs 'factor'"},
    {"a123456789012345678901234567890123456789012345678901234567890123",
     "chain: column 1: the name 'a1234567890123456789...' is longer than 63 letters"},
};

static void errors_say_where_and_what(void **state)
{
    gd_ctx *ctx = *state;
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        assert_null(gd_chain(ctx, wrong[i].text));
        if (strcmp(gd_error_text(ctx), wrong[i].error)) print_error("for '%s'\n", wrong[i].text);
        assert_string_equal(gd_error_text(ctx), wrong[i].error);
        assert_error(ctx, GD_PARSE, "chain: ");
        assert_int_equal(gd_ctx_live(ctx), 0);
    }
    assert_null(gd_chain(ctx, NULL));
    assert_error(ctx, GD_ARGUMENT, "chain: no text");
}

static void an_earlier_error_sticks(void **state)
{
    gd_ctx *ctx = *state;
    (void)gd_fail(ctx, GD_IO, "before");
    assert_null(gd_chain(ctx, "tx_plain | nothing"));
    gd_link *link = gd_chain(ctx, "tx_plain");
    assert_non_null(link);
    gd_link_release(link);
    assert_error(ctx, GD_IO, "before");
}

/* "tx_all(" depth times around "tx_plain". */
static char *nested(int depth, const char *open, const char *close)
{
    char *text = calloc(1, (size_t)depth * (strlen(open) + strlen(close)) + 16), *end = text;
    for (int i = 0; i < depth; i++) end = stpcpy(end, open);
    end = stpcpy(end, "tx_plain");
    for (int i = 0; i < depth; i++) end = stpcpy(end, close);
    return text;
}

static void depth_and_length_have_limits(void **state)
{
    gd_ctx *ctx = *state;
    char *deep = nested(64, "tx_all(", ")");
    gd_link_release(parsed(ctx, deep));
    free(deep);
    deep = nested(65, "tx_all(", ")");
    assert_null(gd_chain(ctx, deep));
    assert_error(ctx, GD_PARSE, "chain: column 455: nested deeper than 64 levels");
    free(deep);
    deep = nested(5000, "[", "]");
    assert_null(gd_chain(ctx, deep));
    assert_error(ctx, GD_PARSE, "chain: column 65: nested deeper than 64 levels");
    free(deep);
    char *long_text = malloc(65538);
    memset(long_text, ' ', 65537);
    memcpy(long_text, "tx_plain", 8);
    long_text[65536] = 0;
    gd_link_release(parsed(ctx, long_text));
    long_text[65536] = ' ';
    long_text[65537] = 0;
    assert_null(gd_chain(ctx, long_text));
    assert_error(ctx, GD_PARSE, "chain: longer than 65536 bytes");
    free(long_text);
}

static void slips_find_the_nearest_name(void **state)
{
    static const char *const names[] = {"adam", "adamax", "lbfgs", "strong_wolfe", "lr", "sign"};
    static const struct {
        const char *slip, *hint;
    } slips[] = {
        {"adm", ", did you mean 'adam'?"},
        {"amda", ""},
        {"adma", ", did you mean 'adam'?"},
        {"lbgfs", ", did you mean 'lbfgs'?"},
        {"lt", ", did you mean 'lr'?"},
        {"strongwolf", ", did you mean 'strong_wolfe'?"},
        {"sgd", ""},
        {"x", ""},
        {"", ""},
        {"adamx", ", did you mean 'adam'?"},
    };
    (void)state;
    for (int i = 0; i < COUNT_OF(slips); i++) {
        gd_suggest s = gd__suggest(slips[i].slip, strlen(slips[i].slip));
        for (int k = 0; k < COUNT_OF(names); k++) gd__suggest_try(&s, names[k]);
        char hint[GD_HINT_SIZE];
        assert_string_equal(gd__suggest_hint(&s, hint), slips[i].hint);
    }
}

/* ---- printing ---- */

static void printing_leaves_out_what_is_default(void **state)
{
    static const struct {
        const char *text, *print;
    } cases[] = {
        {"tx_plain()", "tx_plain"},
        {"tx_decay(0.9, 0.999)", "tx_decay"},
        {"tx_decay(0.8)", "tx_decay(beta1=0.8)"},
        {"tx_decay(0.8, 0.999, false, \"update\", 2, 5)",
         "tx_decay(beta1=0.8, debiased=false, init=\"update\", limit=2, every=5)"},
        {"tx_scale(1)", "tx_scale(1)"},
        {"tx_scale(power=2, factor=1e-8)", "tx_scale(1e-08, power=2)"},
        {"tx_rate(0.1)", "tx_rate(0.1)"},
        {"tx_rate(0.001)", "tx_rate"},
        {"tx_mix(other=2)", "tx_mix(2)"},
        {"tx_mix([tx_plain], 2)", "tx_mix(tx_plain, alpha=2)"},
        {"tx_decay(inner=[tx_scale(1)])", "tx_decay(inner=tx_scale(1))"},
        {"tx_pair([tx_plain|tx_rate(0.1)], tx_plain, 3)", "tx_pair([tx_plain | tx_rate(0.1)], tx_plain, 3)"},
        {"tx_all([tx_plain],[tx_plain|tx_rate],steps=2)", "tx_all(tx_plain, [tx_plain | tx_rate], steps=2)"},
        {"tx_split(\"a\", false=tx_plain)", "tx_split(\"a\", false=tx_plain)"},
        {"tx_split(\"a\", tx_plain)", "tx_split(\"a\", true=tx_plain)"},
        {"tx_window([1,2/4,-inf], axes=[], title=\"\")",
         "tx_window(weights=[1, 0.5, -inf], axes=[], title=\"\")"},
        {"tx_window(title=\"a\\\"b\\\\c\\nd\\te\")", "tx_window(title=\"a\\\"b\\\\c\\nd\\te\")"},
        {"[tx_plain | [tx_plain]]", "tx_plain | tx_plain"},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_link *link = parsed(*state, cases[i].text);
        expect_print(link, cases[i].print);
        gd_link *again = parsed(*state, cases[i].print);
        assert_true(same_link(link, again));
        gd_link_release(link);
        gd_link_release(again);
    }
}

static void printing_keeps_to_the_room_it_has(void **state)
{
    const char *text = "tx_pair([tx_plain | tx_rate(0.1)], tx_window(title=\"x\"), 3)";
    gd_link *link = parsed(*state, text);
    for (size_t size = 0; size <= strlen(text) + 2; size++) {
        char out[128];
        memset(out, '#', sizeof out);
        assert_int_equal(gd_link_print(link, size ? out : NULL, size), strlen(text));
        size_t fits = size > strlen(text) ? strlen(text) : size ? size - 1 : 0;
        if (size) assert_int_equal(out[fits], 0);
        assert_memory_equal(out, text, size ? fits : 0);
        assert_int_equal(out[size ? fits + 1 : 0], '#');
    }
    gd_link_release(link);
    assert_int_equal(gd_link_print(NULL, NULL, 0), 0);
}

static void numbers_print_short_and_come_back(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {1e-8, "1e-08"},
                 {1.0 / 3, "0.3333333333333333"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {1e12, "1000000000000"},
                 {-0.0, "-0"},
                 {INFINITY, "inf"},
                 {-INFINITY, "-inf"},
                 {5e-324, "4.94065645841247e-324"}};
    (void)state;
    char text[GD_NUMBER_SIZE];
    for (int i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(gd__number_text(cases[i].value, text), cases[i].text);
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        union {
            uint64_t bits;
            double value;
        } any = {random_bits(&seed)};
        if (!isfinite(any.value)) continue;
        assert_true(strtod(gd__number_text(any.value, text), NULL) == any.value);
    }
}

/* ---- chains from links ---- */

static void chains_are_made_of_links(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *list[] = {parsed(ctx, "tx_plain"), parsed(ctx, "tx_rate | [tx_plain | tx_scale(1)]"),
                       parsed(ctx, "[]")};
    gd_link *chain = gd_chain_of(ctx, list, 3);
    assert_int_equal(gd_link_children(chain), 4);
    expect_print(chain, "tx_plain | tx_rate | tx_plain | tx_scale(1)");
    gd_link *one = gd_chain_of(ctx, &chain, 1);
    assert_int_equal(gd_link_children(one), 4);
    gd_link_release(one);
    gd_link *single[] = {parsed(ctx, "tx_plain")};
    one = gd_chain_of(ctx, single, 1);
    assert_string_equal(name_of(one), "tx_plain");
    gd_link_release(one);
    gd_link *none = gd_chain_of(ctx, NULL, 0);
    assert_int_equal(gd_link_children(none), 0);
    gd_link_release(none);
    /* NULL among them: an error was recorded where it came from */
    gd_link *broken[] = {parsed(ctx, "tx_plain"), NULL, parsed(ctx, "tx_plain")};
    assert_null(gd_chain_of(ctx, broken, 3));
}

static void nested_chains_print_and_come_apart_flat(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *inner = gd_link_new(ctx, &gd_link_chain), *outer = gd_link_new(ctx, &gd_link_chain);
    assert_int_equal(gd_link_set_child(inner, "modules", parsed(ctx, "tx_plain | tx_rate")), GD_OK);
    assert_int_equal(gd_link_set_child(inner, "modules", parsed(ctx, "[]")), GD_OK);
    assert_int_equal(gd_link_set_child(outer, "modules", parsed(ctx, "tx_scale(1)")), GD_OK);
    assert_int_equal(gd_link_set_child(outer, "modules", inner), GD_OK);
    expect_print(outer, "tx_scale(1) | tx_plain | tx_rate");
    gd_link *flat = gd_chain_of(ctx, &outer, 1);
    assert_int_equal(gd_link_children(flat), 3);
    expect_print(flat, "tx_scale(1) | tx_plain | tx_rate");
    gd_link_release(flat);
    /* as a child: brackets only where there are several */
    gd_link *one = gd_link_new(ctx, &gd_link_chain), *parent = parsed(ctx, "tx_decay");
    assert_int_equal(gd_link_set_child(one, "modules", parsed(ctx, "tx_plain")), GD_OK);
    assert_int_equal(gd_link_set_child(parent, "inner", one), GD_OK);
    expect_print(parent, "tx_decay(inner=tx_plain)");
    gd_link_release(parent);
}

static void the_same_link_twice_is_refused(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *link = parsed(ctx, "tx_plain");
    gd_link *twice[] = {link, gd_link_retain(link)};
    assert_null(gd_chain_of(ctx, twice, 2));
    assert_int_not_equal(gd_error(ctx), GD_OK);
    gd_clear_error(ctx);
}

/* ---- every link there and back ---- */

static double random_number(uint64_t *seed, const gd_field *f)
{
    double low = f->low > -INFINITY ? f->low : -1e3, high = f->high < INFINITY ? f->high : fmax(low, 0) + 1e3;
    double value = low + random_unit(seed) * (high - low);
    if (!f->integer) return fmin(fmax(value, f->low), f->high);
    if (high - low > 1000) value = low + random_unit(seed) * 1000;
    return floor(value) < low ? ceil(low) : floor(value);
}

/* One of the choices, or a text with everything in it that needs care. */
static void random_string(uint64_t *seed, const gd_field *f, char out[64])
{
    strcpy(out, "a \"b\"\\ \n\t|]),");
    for (const char *c = f->choices; c && *c; c += *c == '|') {
        size_t length = strcspn(c, "|");
        if (c == f->choices || random_below(seed, 2)) snprintf(out, 64, "%.*s", (int)length, c);
        c += length;
    }
}

static gd_link *random_link(gd_ctx *ctx, uint64_t *seed, int depth);

/* A value of one of the kinds the field takes. */
static void set_random(gd_link *link, const gd_field *f, uint64_t *seed, int depth)
{
    gd_ctx *ctx = gd_link_ctx(link);
    unsigned kind;
    if (f->only) return; /* its default */
    do kind = 1u << random_below(seed, 6);
    while (!(f->kinds & kind) || (kind == GD_SET_CHAIN && depth > 3 && f->kinds != GD_SET_CHAIN));
    char string[64];
    double list[3] = {1, f->low > 0 ? f->low : 0, 2};
    gd_status status = GD_OK;
    if (kind == GD_SET_REAL) status = gd_link_set_real(link, f->name, random_number(seed, f));
    if (kind == GD_SET_BOOL) status = gd_link_set_bool(link, f->name, random_below(seed, 2));
    if (kind == GD_SET_NONE) status = gd_link_set_none(link, f->name);
    if (kind == GD_SET_STRING) {
        random_string(seed, f, string);
        if (f->selection) snprintf(string, sizeof string, "axes>=%d", (int)random_below(seed, 3));
        status = gd_link_set_string(link, f->name, string);
    }
    /* weights of children are as many as those */
    int count = gd_link_children(link) ? gd_link_children(link) : (int)random_below(seed, 4);
    if (kind == GD_SET_LIST) status = gd_link_set_list(link, f->name, list, count);
    if (kind == GD_SET_CHAIN) status = gd_link_set_child(link, f->name, random_link(ctx, seed, depth + 1));
    if (status) print_error("%s of %s: %s\n", f->name, name_of(link), gd_error_text(ctx));
    assert_int_equal(status, GD_OK);
}

static gd_link *random_of(gd_ctx *ctx, const gd_link_class *cls, uint64_t *seed, int depth, bool all)
{
    gd_link *link = gd_link_new(ctx, cls);
    assert_non_null(link);
    for (int i = 0; i < cls->field_count; i++) {
        const gd_field *f = &cls->fields[i];
        if (f->fallback.kind && !all) continue;
        int64_t times = f->variadic ? 1 + random_below(seed, 3) : 1;
        for (int64_t k = 0; k < times; k++) set_random(link, f, seed, depth);
    }
    return link;
}

static gd_link *random_link(gd_ctx *ctx, uint64_t *seed, int depth)
{
    int count = 0;
    while (gd__class_at(ctx, count)) count++;
    if (depth > 3) return random_of(ctx, &classes[COUNT_OF(classes) - 1], seed, depth, false);
    for (;;) {
        const gd_link_class *cls = gd__class_at(ctx, (int)random_below(seed, count));
        /* settings that must fit together are no subject here; a chain of one is that one */
        if (!cls->check && !cls->preset && cls != &gd_link_chain)
            return random_of(ctx, cls, seed, depth, random_below(seed, 2));
    }
}

static void check_round_trip(gd_ctx *ctx, gd_link *link)
{
    char text[65536], second[65536];
    int length = gd_link_print(link, text, sizeof text);
    assert_in_range(length, 1, sizeof text - 1);
    gd_link *again = parsed(ctx, text);
    assert_int_equal(gd_link_print(again, second, sizeof second), length);
    assert_string_equal(text, second);
    if (!same_link(link, again)) fail_msg("%s", text);
    gd_link_release(again);
    gd_link_release(link);
}

static void every_link_prints_what_it_is_read_from(void **state)
{
    gd_ctx *ctx = *state;
    uint64_t seed = 3;
    const gd_link_class *cls;
    for (int i = 0; (cls = gd__class_at(ctx, i)); i++) {
        if (cls == &gd_link_chain || cls->preset) continue;
        check_round_trip(ctx, random_of(ctx, cls, &seed, 3, false));
        for (int k = 0; k < 20 && !cls->check; k++)
            check_round_trip(ctx, random_of(ctx, cls, &seed, 3, true));
    }
}

static void random_chains_print_what_they_are_read_from(void **state)
{
    gd_ctx *ctx = *state;
    uint64_t seed = 11;
    for (int i = 0; i < 500; i++) {
        gd_link *list[4];
        int count = (int)(1 + random_below(&seed, 4));
        for (int k = 0; k < count; k++) list[k] = random_link(ctx, &seed, 1);
        check_round_trip(ctx, gd_chain_of(ctx, list, count));
    }
}

/* ---- no memory, corpus ---- */

static void no_memory_at_any_allocation_is_reported(void **state)
{
    (void)state;
    const char *text =
        "tx_pair([tx_plain | tx_rate(0.1)], tx_all(tx_plain, [tx_plain | tx_plain], steps=3), 3) | "
        "tx_window([1, 2, 3, 4, 5, 6, 7, 8, 9], title=\"a\\nb\") | chain(tx_plain, [tx_plain | tx_plain])";
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        m.requests = 0;
        m.fail_at = k;
        gd_status status = GD_OK;
        for (int i = 0; i < COUNT_OF(classes) && !status; i++)
            status = gd_link_class_register(ctx, &classes[i]);
        gd_link *link = status ? NULL : gd_chain(ctx, text);
        gd_link *pair[] = {link, link ? gd_chain(ctx, "tx_plain | tx_plain") : NULL};
        gd_link *both = link ? gd_chain_of(ctx, pair, 2) : NULL;
        if (m.failed) {
            assert_null(both);
            assert_int_equal(gd_error(ctx), GD_NOMEM);
        } else
            assert_int_equal(gd_link_children(both), 7);
        gd_link_release(both);
        gd_clear_error(ctx);
        end_context(ctx, &m);
        if (!m.failed) break;
    }
}

static void check_chain(gd_ctx *ctx, const corpus_file *file)
{
    const char *fault = chain_fault(ctx, (const char *)file->data);
    if (fault) fail_msg("%s: %s", file->path, fault);
}

static void the_fuzzers_corpus_does_no_harm(void **state)
{
    replay_corpus(*state, GD_TEST_DIR "/optim/corpus/chain", 21, check_chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_link_is_itself_and_several_are_a_chain),
        TEST(spaces_and_empty_parentheses_mean_nothing),
        TEST(settings_go_by_position_then_by_name),
        TEST(values_of_every_kind_are_read),
        TEST(numbers_are_read_as_strtod_reads_them),
        TEST(children_are_links_or_chains),
        TEST(any_number_of_children_goes_by_position),
        TEST(chains_in_chains_are_taken_apart),
        TEST(an_empty_chain_is_written_with_brackets),
        TEST(errors_say_where_and_what),
        TEST(an_earlier_error_sticks),
        TEST(depth_and_length_have_limits),
        TEST(slips_find_the_nearest_name),
        TEST(printing_leaves_out_what_is_default),
        TEST(printing_keeps_to_the_room_it_has),
        TEST(numbers_print_short_and_come_back),
        TEST(chains_are_made_of_links),
        TEST(nested_chains_print_and_come_apart_flat),
        TEST(the_same_link_twice_is_refused),
        TEST(every_link_prints_what_it_is_read_from),
        TEST(random_chains_print_what_they_are_read_from),
        TEST(no_memory_at_any_allocation_is_reported),
        TEST(the_fuzzers_corpus_does_no_harm),
    };
    return cmocka_run_group_tests_name("optim/chain_text", tests, NULL, NULL);
}
