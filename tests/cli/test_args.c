/* Options of commands, and the texts made from their tables. */
#include "cli/cli.h"
#include "support/own_context.h"

static const gd_option options[] = {
    GD_OPTION("steps", "N", "how many"), GD_OPTION("rate", "R", "how fast"),
    GD_OPTION("mode", "a|b", "which"),   GD_REPEATED("param", "NAME=VALUE", "what"),
    GD_SWITCH("json", "as JSON"),        {0},
};

static const gd_command command = {.name = "do",
                                   .summary = "Does it.",
                                   .arguments = "FILE",
                                   .description = "At length.",
                                   .options = options,
                                   .examples = "gradus do x\n",
                                   .least = 1,
                                   .most = 2};

#define WORDS(...) \
    (char *const[]) { __VA_ARGS__, NULL }

static int count(char *const *words)
{
    int n = 0;
    while (words[n]) n++;
    return n;
}

static gd_args parse(char *const *words)
{
    gd_args args;
    if (gd__args_parse(ctx, &command, count(words), words, &args)) fail_msg("%s", gd_error_text(ctx));
    return args;
}

static void refused(char *const *words, const char *error)
{
    gd_args args;
    assert_int_equal(gd__args_parse(ctx, &command, count(words), words, &args), GD_ARGUMENT);
    gd__args_free(&args);
    assert_error(ctx, GD_ARGUMENT, error);
}

static void options_may_stand_anywhere_and_take_values_two_ways(void **state)
{
    (void)state;
    gd_args a = parse(
        WORDS("--steps", "5", "x.csv", "--param=a=1", "--json", "--param", "b=2", "--rate=0.5"));
    assert_int_equal(a.arguments, 1);
    assert_string_equal(a.argument[0], "x.csv");
    assert_string_equal(gd__args_get(&a, "steps"), "5");
    assert_string_equal(gd__args_get(&a, "rate"), "0.5");
    assert_true(gd__args_has(&a, "json"));
    assert_false(gd__args_has(&a, "mode"));
    assert_null(gd__args_get(&a, "mode"));
    int at = 0;
    assert_string_equal(gd__args_next(&a, "param", &at), "a=1");
    assert_string_equal(gd__args_next(&a, "param", &at), "b=2");
    assert_null(gd__args_next(&a, "param", &at));
    gd__args_free(&a);
}

static void signs_begin_arguments_and_two_dashes_end_options(void **state)
{
    (void)state;
    gd_args a = parse(WORDS("-x^2", "--steps", "-3"));
    assert_string_equal(a.argument[0], "-x^2");
    assert_string_equal(gd__args_get(&a, "steps"), "-3");
    gd__args_free(&a);
    a = parse(WORDS("--", "--steps", "-h"));
    assert_int_equal(a.arguments, 2);
    assert_false(a.help);
    gd__args_free(&a);
    a = parse(WORDS("-h"));
    assert_true(a.help);
    gd__args_free(&a);
    a = parse(WORDS("--help", "x", "y", "z"));
    assert_true(a.help);
    gd__args_free(&a);
}

static void wrong_usage_is_named(void **state)
{
    (void)state;
    refused(WORDS("x", "--stpes", "3"), "do: unknown option '--stpes', did you mean '--steps'?");
    refused(WORDS("x", "--frobnicate"), "do: unknown option '--frobnicate'");
    refused(WORDS("x", "--steps"), "do: --steps wants a value: --steps N");
    refused(WORDS("x", "--json=1"), "do: --json takes no value");
    refused(WORDS("x", "--steps", "1", "--steps=2"), "do: --steps is given twice");
    refused(WORDS("--json"), "do: FILE is missing; see gradus do --help");
    refused(WORDS("x", "y", "z"), "do: 'z' is one argument too many");
}

static void numbers_are_checked_against_their_range(void **state)
{
    (void)state;
    int64_t steps = 7;
    double rate = 0.25;
    int mode = 0;
    gd_args a = parse(WORDS("x"));
    assert_int_equal(gd__args_integer(&a, "steps", 0, 10, &steps), GD_OK);
    assert_int_equal(steps, 7);
    gd__args_free(&a);
    a = parse(WORDS("x", "--steps", "10", "--rate", "1e-3", "--mode", "b"));
    assert_int_equal(gd__args_integer(&a, "steps", 0, 10, &steps), GD_OK);
    assert_int_equal(gd__args_real(&a, "rate", 0, 1, &rate), GD_OK);
    assert_int_equal(gd__args_choice(&a, "mode", "a b", &mode), GD_OK);
    assert_true(steps == 10 && rate == 1e-3 && mode == 1);
    gd__args_free(&a);
    a = parse(WORDS("x", "--steps", "11", "--rate", "fast", "--mode", "c"));
    assert_int_equal(gd__args_integer(&a, "steps", 0, 10, &steps), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "do: --steps: '11' is not a whole number from 0 to 10");
    assert_int_equal(gd__args_real(&a, "rate", 0, 1, &rate), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "do: --rate: 'fast' is not a number from 0 to 1");
    assert_int_equal(gd__args_choice(&a, "mode", "a b", &mode), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "do: --mode: 'c' is none of: a b");
    gd__args_free(&a);
}

static void help_names_every_option_of_every_command(void **state)
{
    (void)state;
    for (const gd_command *const *c = gd__commands; *c; c++) {
        gd_text out = gd__text(ctx);
        gd__help_command(&out, *c);
        for (const gd_option *o = (*c)->options; o->name; o++) {
            char option[64];
            snprintf(option, sizeof option, "  --%s", o->name);
            assert_non_null(strstr(out.data, option));
        }
        assert_non_null(strstr(out.data, "\nexamples:\n  gradus "));
        /* no line wider than a terminal, examples aside */
        *strstr(out.data, "\nexamples:") = 0;
        for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n"))
            assert_true(strlen(line) <= 80);
        gd__text_free(&out);
    }
}

/* docs/ is made by the program itself: gradus help --manual > docs/gradus.1 */
static void check_document(const char *path, gd_text out)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    char *data = malloc(1 << 20);
    size_t size = fread(data, 1, 1 << 20, f);
    fclose(f);
    bool same = size == out.used && !memcmp(data, out.data, size);
    free(data);
    gd__text_free(&out);
    if (!same) fail_msg("%s is not what the tables say: make it again (tools/docs/make_docs)", path);
}

static void documents_agree_with_the_tables(void **state)
{
    (void)state;
    gd_text manual = gd__text(ctx);
    gd__help_manual(&manual, gd__commands);
    check_document(GD_TEST_DIR "/../docs/gradus.1", manual);
    for (int i = 0; gd__shells[i]; i++) {
        char path[600];
        gd_text script = gd__text(ctx);
        gd__help_completions(&script, i);
        snprintf(path, sizeof path, GD_TEST_DIR "/../docs/completions/gradus.%s", gd__shells[i]);
        check_document(path, script);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(options_may_stand_anywhere_and_take_values_two_ways),
        TEST(signs_begin_arguments_and_two_dashes_end_options),
        TEST(wrong_usage_is_named),
        TEST(numbers_are_checked_against_their_range),
        TEST(help_names_every_option_of_every_command),
        TEST(documents_agree_with_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
