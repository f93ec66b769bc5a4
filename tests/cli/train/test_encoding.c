/* Text of tables: other encodings, bytes of none, names that are there twice, characters that steer terminals. */
#include "table/csv.h"
#include "base/text/compose.h"
#include "cli/cli.h"
#include "cli/program.h"

#include <time.h>

static gd_ctx *ctx;

static int start(void **state)
{
    (void)state;
    ctx = gd_ctx_new(NULL);
    return ctx ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    gd_ctx_free(ctx);
    return 0;
}

/* ---- encodings ---- */

typedef struct sample {
    gd_encoding encoding;
    const char *bytes;
    size_t size;
    const char *cell; /* of column "x", row 0; NULL: refused */
} sample;

#define BYTES(text) text, sizeof text - 1

/* From the Unicode tables: e acute U+00E9, euro U+20AC, z caron U+017E, G clef U+1D11E. */
static const sample samples[] = {
    {GD_UTF8, BYTES("x\n\xC3\xA9\n"), "\xC3\xA9"},
    {GD_UTF8, BYTES("\xEF\xBB\xBFx\n\xC3\xA9\n"), "\xC3\xA9"},
    {GD_UTF8, BYTES("x\n\xE9t\xE9\n"), NULL},
    {GD_UTF8, BYTES("x\n\xED\xA0\x80\n"), NULL}, /* half a surrogate pair */
    {GD_LATIN1, BYTES("x\n\xE9t\xE9\n"), "\xC3\xA9t\xC3\xA9"},
    {GD_LATIN1, BYTES("x\n\x80\n"), "\xC2\x80"},
    {GD_LATIN1, BYTES("\xEF\xBB\xBFx\n\xE9\n"), NULL},
    {GD_LATIN1, BYTES("\xFF\xFEx\0\n\0"), NULL},
    {GD_WINDOWS_1252, BYTES("x\n\x80\x9E\xE9\n"), "\xE2\x82\xAC\xC5\xBE\xC3\xA9"},
    {GD_WINDOWS_1252, BYTES("x\n\x81\n"), NULL}, /* no character */
    {GD_UTF8, BYTES("\xFF\xFEx\0\n\0\xE9\0\x34\xD8\x1E\xDD\n\0"), "\xC3\xA9\xF0\x9D\x84\x9E"},
    {GD_UTF8, BYTES("\xFE\xFF\0x\0\n\0\xE9\0\n"), "\xC3\xA9"},
    {GD_UTF16, BYTES("x\0\n\0\xE9\0\n\0"), "\xC3\xA9"},
    {GD_UTF16, BYTES("\xFE\xFF\0x\0\n\0\xE9\0\n"), "\xC3\xA9"},
    {GD_UTF16, BYTES("x\0\n\0\x34\xD8\n\0"), NULL}, /* half a pair */
    {GD_UTF16, BYTES("x\0\n\0\xE9"), NULL},
};

static void text_of_every_encoding_becomes_utf8_or_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const sample *s = &samples[i];
        gd_csv_options options = {.encoding = s->encoding};
        gd_csv *csv = gd__csv_parse(ctx, "t.csv", s->bytes, s->size, &options);
        if (!csv != !s->cell) fail_msg("sample %zu: %s", i, csv ? "read" : gd_error_text(ctx));
        if (!csv && gd_error(ctx) != GD_FORMAT) fail_msg("sample %zu: %s", i, gd_error_text(ctx));
        if (csv) assert_string_equal(gd__csv_cell(csv, 0, gd__csv_column(csv, "x")), s->cell);
        gd__csv_free(csv);
        gd_clear_error(ctx);
    }
}

#define LATIN "a,kind\n1,gr\xFCn\n2,gr\xE4n\n3,gr\xFCn\n4,gr\xE4n\n5,gr\xFCn\n6,gr\xE4n\n"

/* Before, both classes became gr U+FFFD n, and the model knew one class twice. */
static void classes_in_latin1_stay_apart(void **state)
{
    (void)state;
    put("d.csv", LATIN);
    fails("train d.csv --target kind --model linear --epochs 1 --out m.safetensors", 1,
          "d.csv: line 2, column 'kind': byte 0xFC is not UTF-8; --encoding latin1 or windows-1252");
    assert_false(exists("m.safetensors"));
    works("train d.csv --target kind --model linear --epochs 1 --out m.safetensors --json --encoding latin1");
    assert_non_null(strstr(out, "\"classes\": [\"gr\xC3\xA4n\", \"gr\xC3\xBCn\"]"));
    works("predict m.safetensors d.csv --score --json --encoding latin1");
    fails("predict m.safetensors d.csv --score", 1, "is not UTF-8");
    fails("train d.csv --target kind --encoding klingon", 2,
          "--encoding: 'klingon' is none of: utf-8 latin1 windows-1252 utf-16");
}

/* What the error advises must be there: of every command that reads values from files. */
static void every_command_that_reads_values_takes_an_encoding(void **state)
{
    (void)state;
    int readers = 0;
    for (const gd_command *const *c = gd__commands; *c; c++) {
        bool reads = false, takes = false;
        for (const gd_option *o = (*c)->options; o && o->name; o++) {
            reads = reads || o->path == GD_PATH_READ_VALUE || o->path == GD_PATH_READ_ROWS;
            takes = takes || !strcmp(o->name, "encoding");
        }
        readers += reads;
        if (reads && !takes) fail_msg("gradus %s has no --encoding", (*c)->name);
    }
    assert_true(readers >= 4);
}

static void values_from_tables_of_other_encodings_are_read(void **state)
{
    (void)state;
    put("d.csv", "gr\xFCn;x\n1;2\n3;4\n");
    put("t.csv", "x\ty\n1\t2\n2\t4\n3\t6\n");
    put("y.csv", "l\xE4nge\n2\n4\n6\n8\n10\n12\n14\n16\n18\n20\n");
    static const char *const rows[] = {
        "eval 'sum(A)' --param A=@d.csv",
        "minimize 'sum((a*A)^2)' --param a=1 --data A=@d.csv --steps 2 --chain 'lr(0.001)'",
        "fit 'sum(a)*x' t.csv --param a=@d.csv --steps 2",
    };
    char arguments[256];
    for (int i = 0; i < 2; i++) {
        fails(rows[i], 1, "d.csv: line 1, column 1: byte 0xFC is not UTF-8; --encoding latin1");
        snprintf(arguments, sizeof arguments, "%s --encoding latin1", rows[i]);
        works(arguments);
    }
    fails(rows[2], 1, "--encoding latin1");
    snprintf(arguments, sizeof arguments, "%s --encoding latin1", rows[2]);
    (void)gradus(arguments); /* one of the numbers would do, and it says so */
    if (!strstr(out, "a[0")) fail_msg("%s", err);
    works("eval 'A' --data A=@d.csv:x --encoding latin1 --json");
    assert_non_null(strstr(out, "[2,4]"));
    fails("eval 'sum(A)' --data A=@d.csv --no-header --encoding latin1", 1, "is not a number");
    works("explain 'lr(1)' --size @d.csv --encoding latin1");
    works("eval 'A' --data A=@t.csv:y --separator tab --json");
    assert_non_null(strstr(out, "[2,4,6]"));
}

/* Where no table is read, how to read one says nothing. */
static void an_encoding_of_no_table_is_refused(void **state)
{
    (void)state;
    put("d.csv", "x,y\n1,2\n2,4\n3,6\n4,8\n");
    fails("eval 'x' --param x=1 --encoding latin1", 2, "eval: --encoding: no value is a table");
    fails("minimize 'x^2' --param x=1 --separator ';'", 2, "minimize: --separator: no value is a table");
    fails("explain 'lr(1)' --no-header", 2, "explain: --no-header: no value is a table");
    works("minimize 'sum((a-1)^2)' --param a=@d.csv --out x.safetensors");
    fails("train x.safetensors:a --target x.safetensors:a --model linear --epochs 1 --encoding latin1", 2,
          "x.safetensors:a is no table: --separator, --decimal, --no-header and --encoding say nothing here");
    works("train x.safetensors:a --target x.safetensors:a --model linear --epochs 1");
}

/* ---- names ---- */

static void names_that_are_there_twice_are_refused(void **state)
{
    (void)state;
    put("d.csv", "a,b,a,y\n1,2,3,4\n2,3,4,5\n3,4,5,6\n4,5,6,7\n");
    put("n.csv", "a,,,y\n1,2,3,4\n2,3,4,5\n3,4,5,6\n4,5,6,7\n");
    fails("train d.csv --target y --model linear --epochs 1", 2, "d.csv: two columns are called 'a'");
    works("train n.csv --target y --model linear --epochs 1"); /* c2 and c3 */
    fails("train d.csv --target a --model linear --epochs 1", 2, "d.csv: two columns are called 'a'");
    fails("train d.csv --target y --features a --model linear --epochs 1", 2,
          "d.csv: two columns are called 'a'");
    /* what is asked for by name is there once */
    works("train d.csv --target y --features b --model linear --epochs 1 --out m.safetensors");
    works("predict m.safetensors d.csv");
}

/* Quadratic in the columns it took 47 s for 100,000. */
static void many_columns_are_found_in_no_time(void **state)
{
    (void)state;
    int columns = 60000;
    FILE *f = fopen("d.csv", "w");
    assert_non_null(f);
    for (int i = 0; i < columns; i++) fprintf(f, "column_with_a_long_common_name_%d,", i);
    fputs("y\n", f);
    for (int row = 0; row < 3; row++) {
        for (int i = 0; i < columns; i++) fprintf(f, "%d,", (i + row) % 3);
        fprintf(f, "%d\n", row);
    }
    fclose(f);
    works("train d.csv --target y --model linear --epochs 1 --out m.safetensors");
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    works("predict m.safetensors d.csv");
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    if (seconds > 5 * test_share()) fail_msg("%g s", seconds); /* more under a sanitizer */
}

/* ---- terminals ---- */

static void text_for_people_steers_no_terminal(void **state)
{
    (void)state;
    static const struct {
        const char *text, *plain;
    } rows[] = {
        {"plain", "plain"},
        {"gr\xC3\xBCn \xE2\x82\xAC", "gr\xC3\xBCn \xE2\x82\xAC"},
        {"\x1B[31mred", "\\u001b[31mred"},
        {"a\x7F", "a\\u007f"},
        {"\xC2\x9B"
         "31m",
         "\\u009b31m"},
        {"\xE2\x80\xAE"
         "desrever",
         "\\u202edesrever"},
        {"a\xE2\x80\xA8"
         "b\xE2\x80\xA9",
         "a\\u2028b\\u2029"},
        {"a\xE2\x80\x8B\xE2\x80\x8D\xE2\x81\xA0\xEF\xBB\xBF\xC2\xAD.",
         "a\\u200b\\u200d\\u2060\\ufeff\\u00ad."},
        {"tag\xF3\xA0\x81\xA1\xF0\x9F\x98\x80", "tag\\U000e0061\xF0\x9F\x98\x80"},
        {"\xFFx\xE9", "\\xffx\\xe9"},
        {"tab\tend\n", "tab\\u0009end\\u000a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gd_text t = gd__text(ctx);
        gd__text_plain(&t, rows[i].text, strlen(rows[i].text), false);
        assert_string_equal(gd__text_string(&t), rows[i].plain);
        gd__text_free(&t);
    }
    gd_text t = gd__text(ctx);
    gd__text_plain(&t, "a\tb\n\r", 5, true);
    assert_string_equal(t.data, "a\tb\n\\u000d");
    gd__text_free(&t);
}

static void expect_plain(const char *arguments)
{
    (void)gradus(arguments);
    for (const char *s = err; *s; s++)
        if ((unsigned char)*s < 0x20 && *s != '\n')
            fail_msg("gradus %s: control character in %s", arguments, err);
    for (const char *s = out; *s; s++)
        if ((unsigned char)*s < 0x20 && *s != '\n' && *s != '\t')
            fail_msg("gradus %s: control character in %s", arguments, out);
}

/* Column and class names, file names, words of the command line: in errors, summaries, tables and pictures. */
static void no_command_lets_data_steer_the_terminal(void **state)
{
    (void)state;
    put("d.csv", "\x1B[2Jx,y\x1B]0;t\x07\n1,a\x1B[5m\n2,b\x07\n3,a\x1B[5m\n4,b\x07\n5,b\x07\n");
    put("n.csv", "x\x1B[2J,y\n1,2\n2,4\n3,6.1\n4,8\n");
    put("bad\x1B[1m.csv", "x,y\n1,oops\x1B[1m\n");
    put("run\x1B.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":1}\n");
    expect_plain("train d.csv --target nothing");
    expect_plain(
        "train d.csv --target \"$(printf 'y\\033]0;t\\007')\" --model linear --epochs 2 --out m.safetensors");
    assert_true(exists("m.safetensors"));
    assert_non_null(strstr(out, "y\\u001b]0;t\\u0007"));
    expect_plain("predict m.safetensors d.csv --json");
    expect_plain("fit 'a*`x\x1B[2J`' n.csv --y y --param a=1 --plot p.svg");
    expect_plain("fit 'a*x' \"$(printf 'bad\\033[1m.csv')\" --y y --param a=1");
    expect_plain("plot \"$(printf 'run\\033.jsonl')\"");
    expect_plain("\"$(printf 'com\\033mand')\"");
    expect_plain("minimize 'x^2' --param \"$(printf 'x\\033=1')\"");
    expect_plain("eval 'x\x1B'");
    slurp("run\x1B.svg", out, sizeof out);
    assert_null(strchr(out, 0x1B));
    /* a table for another program has its bytes */
    works("predict m.safetensors d.csv >raw.csv; cat raw.csv");
    assert_non_null(strstr(out, "a\x1B[5m"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_of_every_encoding_becomes_utf8_or_is_refused, start, stop),
        PROGRAM_TEST(classes_in_latin1_stay_apart),
        cmocka_unit_test(every_command_that_reads_values_takes_an_encoding),
        PROGRAM_TEST(values_from_tables_of_other_encodings_are_read),
        PROGRAM_TEST(an_encoding_of_no_table_is_refused),
        PROGRAM_TEST(names_that_are_there_twice_are_refused),
        PROGRAM_TEST(many_columns_are_found_in_no_time),
        cmocka_unit_test_setup_teardown(text_for_people_steers_no_terminal, start, stop),
        PROGRAM_TEST(no_command_lets_data_steer_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
