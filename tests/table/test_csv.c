/* CSV files: what other programs write is read, what is wrong is named with its line. */
#include "table/csv.h"
#include "support/corpus.h"
#include "support/own_context.h"

#include <math.h>

static gd_csv *parse(const char *text, const gd_csv_options *options)
{
    return gd__csv_parse(ctx, "data.csv", text, strlen(text), options);
}

/* The table as "name|name\ncell|cell\n". */
static void check_with(const gd_csv_options *options, const char *text, const char *want)
{
    gd_csv *csv = parse(text, options);
    if (!csv) fail_msg("'%s': %s", text, gd_error_text(ctx));
    char got[1024] = "";
    for (int i = 0; i < gd__csv_columns(csv); i++) {
        strcat(got, gd__csv_name(csv, i));
        strcat(got, i + 1 < gd__csv_columns(csv) ? "|" : "\n");
    }
    for (int64_t row = 0; row < gd__csv_rows(csv); row++) {
        for (int i = 0; i < gd__csv_columns(csv); i++) {
            strcat(got, gd__csv_cell(csv, row, i));
            strcat(got, i + 1 < gd__csv_columns(csv) ? "|" : "\n");
        }
    }
    if (strcmp(got, want) != 0) fail_msg("'%s' gives\n%s, want\n%s", text, got, want);
    gd__csv_free(csv);
}

static void check(const char *text, const char *want) { check_with(NULL, text, want); }

static void refused(const char *text, const char *error)
{
    gd_csv *csv = parse(text, NULL);
    if (csv) fail_msg("'%s' is accepted", text);
    assert_error(ctx, GD_FORMAT, error);
}

static void tables_are_read_as_rfc_4180_says(void **state)
{
    (void)state;
    check("x,y\n1,2\n3,4\n", "x|y\n1|2\n3|4\n");
    check("x,y\r\n1,2\r\n3,4", "x|y\n1|2\n3|4\n");
    check("x\n1\n", "x\n1\n");
    check("x,y\n\"1\",\"a,b\"\n", "x|y\n1|a,b\n");
    check("x,y\n\"say \"\"hi\"\"\",2\n", "x|y\nsay \"hi\"|2\n");
    check("x,y\n\"two\nlines\",2\n", "x|y\ntwo\nlines|2\n");
    check("x,y\n\"\",\n", "x|y\n|\n");
    check("x,y\n,\n", "x|y\n|\n");
    check("\"a b\",c\n1,2\n", "a b|c\n1|2\n");
    check("x,y\n", "x|y\n");
    check("x", "x\n");
}

static void what_other_programs_write_is_read(void **state)
{
    (void)state;
    check("x;y\n1;2\n", "x|y\n1|2\n");
    check("x\ty\n1\t2\n", "x|y\n1|2\n");
    check("\"a,b\";y\n1;2\n", "a,b|y\n1|2\n");
    check("\xEF\xBB\xBFx,y\n1,2\n", "x|y\n1|2\n");
    check("x,y\r1,2\r3,4\r", "x|y\n1|2\n3|4\n");
    check("# made by hand\n\n  \nx,y\n\n1,2\n\n\n3,4\n\n", "x|y\n1|2\n3|4\n");
    check(" x , y \n 1 , 2 \n", "x|y\n1|2\n");
    check("x,y\n \" kept \" , 2\n", "x|y\n kept |2\n");
    check("x,y\n#1,2\n", "x|y\n#1|2\n");
    check("x\ty\n\t2\n", "x|y\n|2\n");
    /* a unit belongs to the name before it */
    check("t [s]  S [mol / l]\n0.5 2\n1 3\n", "t [s]|S [mol / l]\n0.5|2\n1|3\n");
    check("t S[mM]  v [l]x\n1 2 3\n", "t|S[mM]|v [l]x\n1|2|3\n");
    check("[a] b\n1 2\n", "[a]|b\n1|2\n");
    check("t [s\n1 2\n3 4\n", "t|[s\n1|2\n3|4\n");
}

/* Cells that stand under each other may be empty; what only looks like it is read as before. */
static void tables_of_fixed_width_have_empty_cells(void **state)
{
    (void)state;
    const gd_csv_options asked = {.separator = GD_CSV_WIDTHS},
                         bare = {.separator = GD_CSV_WIDTHS, .no_header = true};
    check("x    y    z\n1.0  3.5  2\n2.0       3\n3.0  7.5\n     1.0  5\n",
          "x|y|z\n1.0|3.5|2\n2.0||3\n3.0|7.5|\n|1.0|5\n");
    check("x    y    z\n1.0       2\n2.0  5.5  3", "x|y|z\n1.0||2\n2.0|5.5|3\n"); /* the first row, too */
    check("# made by hand\n\n  t     level\r\n\r\n 10      1,5\r\n  9\r\n 11      2,5\r\n",
          "t|level\n10|1,5\n9|\n11|2,5\n");
    check("größe   n\nä       1\n        2\nöß      3\n", "größe|n\nä|1\n|2\nöß|3\n");
    check("x   note\n1   it rains\n2\n3   dry\n", "x|note\n1|it rains\n2|\n3|dry\n");
    check_with(&asked, "S [mM]   v, corrected\n1.5      2\n2.5\n", "S [mM]|v, corrected\n1.5|2\n2.5|\n");
    check_with(&asked, "a\n1\n2\n", "a\n1\n2\n");
    assert_null(parse(" \r \n", &asked));
    assert_error(ctx, GD_FORMAT, "data.csv: line 1: nothing but blanks");
    check_with(&bare, "1.5   2\n      3\n", "c1|c2\n1.5|2\n|3\n");
    /* columns that lie under no words, free lines, names with blanks */
    refused("x y z\n1 2 3\n10 20 30\n5 6\n", "data.csv: line 4: 2 cells, but line 1 has 3");
    check("x y z\n10 20 30\n1 2 3\n", "x|y|z\n10|20|30\n1|2|3\n");
    check("name of thing\n1\n2\n", "name of thing\n1\n2\n");
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    (void)state;
    refused("", "data.csv: the file is empty");
    refused("\n\n", "data.csv: the file is empty");
    refused("# only this\n", "data.csv: the file is empty");
    refused("x,y\n1,2\n3\n", "data.csv: line 3: 1 cell, but line 1 has 2");
    refused("x,y\n1,2,3\n", "data.csv: line 2: 3 cells, but line 1 has 2");
    refused("x,y\n\"two\nlines\",2\n1\n", "data.csv: line 4: 1 cell, but line 1 has 2");
    refused("x,y\n1,\"abc\n", "data.csv: line 2: a quote is never closed");
    refused("x,y\n1,\"a\"b\n", "data.csv: line 2: text follows a closing quote");
    refused("\xFF\xFEx", "data.csv: half a character of UTF-16 at the end");
    refused("x\n\xE9\n", "data.csv: line 2, column 'x': byte 0xE9 is not UTF-8");
    refused("x,\xE9\n1,2\n", "data.csv: line 1, column 2: byte 0xE9 is not UTF-8");
    gd_csv *csv = gd__csv_parse(ctx, "data.csv", "x\n1\n\0\n", 6, NULL);
    assert_null(csv);
    assert_error(ctx, GD_FORMAT, "data.csv: line 3: a zero byte: this is not a text file");
}

static void options_choose_separator_and_header(void **state)
{
    (void)state;
    gd_csv *csv = parse("1,2\n3,4\n", &(gd_csv_options){.no_header = true});
    assert_int_equal(gd__csv_rows(csv), 2);
    assert_string_equal(gd__csv_name(csv, 1), "c2");
    assert_int_equal(gd__csv_column(csv, "c1"), 0);
    assert_int_equal(gd__csv_line(csv, 1), 2);
    gd__csv_free(csv);
    csv = parse("a,b;c\n1,5;2\n", &(gd_csv_options){.separator = ';'});
    assert_string_equal(gd__csv_name(csv, 0), "a,b");
    gd__csv_free(csv);
}

static void columns_are_found_by_name(void **state)
{
    (void)state;
    gd_csv *csv = parse("time,mass,mass,length\n1,2,3,4\n", NULL);
    assert_int_equal(gd__csv_column(csv, "length"), 3);
    assert_int_equal(gd__csv_column(csv, "lenght"), -1);
    assert_error(
        ctx, GD_ARGUMENT,
        "data.csv: no column 'lenght', did you mean 'length'? (the columns are time, mass, mass, length)");
    assert_int_equal(gd__csv_column(csv, "q"), -1);
    assert_error(ctx, GD_ARGUMENT, "data.csv: no column 'q', the columns are time, mass, mass, length");
    assert_int_equal(gd__csv_column(csv, "mass"), -1);
    assert_error(ctx, GD_ARGUMENT, "data.csv: two columns are called 'mass'");
    gd__csv_free(csv);
    csv = parse("1,2\n3,4\n", NULL);
    assert_int_equal(gd__csv_column(csv, "y"), -1);
    assert_error(
        ctx, GD_ARGUMENT,
        "data.csv: no column 'y', the columns are 1, 2 (numbers: .no_header if the first line is data)");
    gd__csv_free(csv);
}

static void cells_become_numbers(void **state)
{
    (void)state;
    gd_csv *csv = parse("x,y\n1,NA\n-2.5e3,\n.5,nan\n", NULL);
    double v[3];
    assert_int_equal(gd__csv_numbers(csv, 0, false, v), GD_OK);
    assert_true(v[0] == 1 && v[1] == -2500 && v[2] == 0.5);
    assert_int_equal(gd__csv_numbers(csv, 1, true, v), GD_OK);
    assert_true(isnan(v[0]) && isnan(v[1]) && isnan(v[2]));
    gd_tensor *t = gd__csv_tensor(csv, (int[]){0}, 1);
    assert_values(t, 1, -2500, 0.5);
    gd_release(t);
    assert_null(gd__csv_tensor(csv, NULL, 2));
    assert_error(ctx, GD_FORMAT, "data.csv: line 2, column 'y': 'NA' stands for a missing number");
    gd__csv_free(csv);
}

static void cells_that_are_no_numbers_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *cell, *error;
    } cases[] = {
        {"abc", "data.csv: line 7, column 'x': 'abc' is not a number"},
        {"", "data.csv: line 7, column 'x': the cell is empty"},
        {"nan", "data.csv: line 7, column 'x': 'nan' stands for a missing number"},
        {"inf", "data.csv: line 7, column 'x': 'inf' is not finite"},
        {"1e999", "data.csv: line 7, column 'x': '1e999' is not finite"},
        {"\"1,5\"",
         "data.csv: line 7, column 'x': '1,5' is not a number (.decimal comma if this is a decimal comma)"},
        {"0x12", "data.csv: line 7, column 'x': '0x12' is not a number"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        double v[8];
        snprintf(text, sizeof text, "x,y\n1,2\n3,4\n\n5,6\n7,8\n%s,10\n11,12\n", cases[i].cell);
        gd_csv *csv = parse(text, NULL);
        assert_int_equal(gd__csv_numbers(csv, 0, false, v), GD_FORMAT);
        assert_error(ctx, GD_FORMAT, cases[i].error);
        assert_int_equal(gd__csv_numbers(csv, 1, false, v), GD_OK);
        gd__csv_free(csv);
    }
}

static void files_are_read_whole(void **state)
{
    (void)state;
    char path[] = "/tmp/gradus_csv_XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    fputs("i,square\n", f);
    for (int i = 0; i < 50000; i++) {
        char number[32];
        snprintf(number, sizeof number, "%.17g", (double)i * i / 7);
        fprintf(f, "%d,%s\n", i, number);
    }
    fclose(f);
    gd_csv *csv = gd__csv_load(ctx, path, NULL);
    assert_no_error(ctx);
    assert_int_equal(gd__csv_rows(csv), 50000);
    double *v = malloc(50000 * sizeof *v);
    assert_int_equal(gd__csv_numbers(csv, 1, false, v), GD_OK);
    for (int i = 0; i < 50000; i++) assert_true(v[i] == (double)i * i / 7);
    free(v);
    gd__csv_free(csv);
    remove(path);
    assert_null(gd__csv_load(ctx, path, NULL));
    assert_int_equal(gd_error(ctx), GD_IO);
    gd_clear_error(ctx);
    assert_null(gd__csv_load(ctx, "/tmp", NULL));
    assert_error(ctx, GD_IO, "/tmp: cannot read: Is a directory");
}

static void exhaust(const char *text)
{
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *own = context(&m, 1, NULL);
        m.fail_at = m.requests + k;
        gd_csv *csv = gd__csv_parse(own, "data.csv", text, strlen(text),
                                    &(gd_csv_options){.no_header = k % 2});
        gd_tensor *t = csv && k % 2 == 0 ? gd__csv_tensor(csv, NULL, 2) : NULL;
        bool done = csv && !m.failed;
        if (m.failed && !t) assert_int_equal(gd_error(own), GD_NOMEM);
        gd_release(t);
        gd__csv_free(csv);
        gd_clear_error(own);
        end_context(own, &m);
        if (done && k % 2 == 0) break;
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    exhaust("x,y\n1,\"2\"\n3,4\n5,6\n");
    exhaust("x  y  z\n1  2  3\n5  6\n");
}

/* The first byte chooses the options, as in fuzz_csv.c. */
static void read_table(gd_ctx *own, const corpus_file *file)
{
    if (!file->size) return;
    const char *text = (const char *)file->data;
    gd_csv_options options = {.separator = text[0] & 8 ? GD_CSV_WIDTHS : ",;\t\0"[text[0] >> 1 & 3],
                              .no_header = text[0] & 1};
    gd_csv *csv = gd__csv_parse(own, "data.csv", text + 1, file->size - 1, &options);
    assert_true((csv != NULL) == (gd_error(own) == GD_OK));
    for (int i = 0; csv && i < gd__csv_columns(csv); i++)
        for (int64_t row = 0; row < gd__csv_rows(csv); row++) (void)gd__csv_number(csv, row, i, &(double){0});
    gd_clear_error(own);
    gd__csv_free(csv);
}

static void the_corpus_is_read_without_harm(void **state)
{
    (void)state;
    replay_corpus(ctx, GD_TEST_DIR "/table/corpus/csv", 11, read_table);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tables_are_read_as_rfc_4180_says),
        TEST(what_other_programs_write_is_read),
        TEST(tables_of_fixed_width_have_empty_cells),
        TEST(what_is_wrong_is_named_with_its_line),
        TEST(options_choose_separator_and_header),
        TEST(columns_are_found_by_name),
        TEST(cells_become_numbers),
        TEST(cells_that_are_no_numbers_are_named),
        TEST(files_are_read_whole),
        TEST(every_allocation_may_fail),
        TEST(the_corpus_is_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
