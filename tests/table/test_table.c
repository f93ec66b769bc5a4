/* Tables as programs have them (gradus/table.h): from files, text and memory, in parts, and written. */
#include <gradus/file.h>
#include <gradus/table.h>

#include "base/text/number.h"
#include "support/own_context.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static gd_table *parse(const char *text, const gd_table_options *options)
{
    return gd_table_parse(ctx, text, strlen(text), options);
}

/* The cells of a table, one row per line: numbers with %g, ? for what is missing, words, dates as seconds. */
static const char *shown(gd_table *t)
{
    static char text[4096];
    char *end = text;
    *text = 0;
    for (int64_t row = -1; row < gd_table_rows(t); row++) {
        for (int i = 0; i < gd_table_columns(t); i++) {
            int count;
            const char *const *words = gd_table_words(t, i, &count);
            gd_tensor *v = gd_table_numbers(t, i);
            assert_no_error(ctx);
            double value = row < 0 ? 0 : ((const double *)gd_data(v))[row];
            if (row < 0)
                end += sprintf(end, "%s", gd_table_name(t, i));
            else if (isnan(value))
                end += sprintf(end, "?");
            else if (words)
                end += sprintf(end, "%s", words[(int)value]);
            else
                end += gd__format(end, 32, "%.10g", value);
            end += sprintf(end, "%s", i + 1 < gd_table_columns(t) ? "|" : "\n");
            gd_release(v);
        }
    }
    return text;
}

static void check(gd_table *t, const char *want)
{
    assert_no_error(ctx);
    const char *got = shown(t);
    if (strcmp(got, want) != 0) fail_msg("got\n%swant\n%s", got, want);
}

/* ---- reading ---- */

static void columns_are_numbers_words_or_dates(void **state)
{
    (void)state;
    gd_table *t = parse("x,who,when,at\n1,anna,2024-02-29,13:45\n,NA,NA,\n-2.5e3,ben,1970-01-02,00:00:30\n",
                        NULL);
    check(t, "x|who|when|at\n1|anna|1709164800|49500\n?|?|?|?\n-2500|ben|86400|30\n");
    assert_int_equal(gd_table_columns(t), 4);
    assert_int_equal(gd_table_rows(t), 3);
    static const gd_cells kinds[] = {GD_CELLS_NUMBERS, GD_CELLS_WORDS, GD_CELLS_DATES, GD_CELLS_DATES};
    for (int i = 0; i < 4; i++) assert_int_equal(gd_table_kind(t, i), kinds[i]);
    bool day, clock;
    assert_false(gd_table_dates(t, 1, &day, &clock));
    assert_true(gd_table_dates(t, 2, &day, &clock) && day && !clock);
    assert_true(gd_table_dates(t, 3, &day, &clock) && !day && clock);
    assert_null(gd_table_name(t, 4));
    assert_null(gd_table_name(t, -1));
    gd_table_free(t);
}

static void columns_are_found_by_name_and_without_their_unit(void **state)
{
    (void)state;
    gd_table *t = parse("t [s],mass\n1,2\n", NULL);
    assert_int_equal(gd_table_find(t, "t"), 0);
    assert_int_equal(gd_table_find(t, "t [s]"), 0);
    assert_int_equal(gd_table_find(t, "mas"), -1);
    assert_error(ctx, GD_ARGUMENT, "table: no column 'mas', did you mean 'mass'?");
    assert_null(gd_table_numbers(t, 2));
    assert_error(ctx, GD_INDEX, "table: there is no column 2, the last one is 1");
    gd_table_free(t);
}

static void options_say_how_text_is_read(void **state)
{
    (void)state;
    const char *const missing[] = {"-999", "unknown"}, *const words[] = {"code"};
    gd_table_options o = {.missing = missing, .missing_count = 2, .words = words, .words_count = 1};
    gd_table *t = parse("code,x,when\n007,-999,unknown\n12,5,2000-01-01\n", &o);
    check(t, "code|x|when\n007|?|?\n12|5|946684800\n");
    gd_table_free(t);
    o = (gd_table_options){.separator = ';', .decimal = ',', .no_header = true};
    t = parse("1,5;2\n2,5;3\n", &o);
    check(t, "c1|c2\n1.5|2\n2.5|3\n");
    gd_table_free(t);
    t = parse("x    y\n1.0  3\n     4\n", &(gd_table_options){.separator = GD_TABLE_WIDTHS});
    check(t, "x|y\n1|3\n?|4\n");
    gd_table_free(t);
    t = parse("x\nM\xFCller\n", &(gd_table_options){.encoding = GD_LATIN1});
    check(t, "x\nMüller\n");
    gd_table_free(t);
}

static void options_that_contradict_are_refused(void **state)
{
    (void)state;
    const char *const nobody[] = {NULL}, *const other[] = {"y"};
    const struct {
        gd_table_options o;
        gd_status status;
        const char *error;
    } cases[] = {
        {{.decimal = ',', .separator = ','}, GD_ARGUMENT, "table: separator and decimal are both a comma"},
        {{.decimal = 'x'}, GD_ARGUMENT, "table: decimals are written with . or ,"},
        {{.separator = '"'}, GD_ARGUMENT, "table: the separator is a quote or the end of a line"},
        {{.encoding = (gd_encoding)7}, GD_ARGUMENT, "table: encoding 7 is none of gd_encoding"},
        {{.missing = nobody, .missing_count = 1}, GD_ARGUMENT, "table: a word for missing cells"},
        {{.words = other, .words_count = 1}, GD_ARGUMENT, "table: no column 'y', the columns are x"},
        {{.max_bytes = 3}, GD_FORMAT, "table: 4 bytes, more than the 3 allowed"},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        assert_null(parse("x\n1\n", &cases[i].o));
        assert_error(ctx, cases[i].status, cases[i].error);
    }
}

static void what_is_wrong_is_named_and_the_rest_is_read(void **state)
{
    (void)state;
    gd_table *t = parse("x,y,z\n1,2,3\n2,oops,inf\n3,4,5\n4,5,6\n", NULL);
    assert_int_equal(gd_table_kind(t, 1), GD_CELLS_FOUND);
    expect_error(ctx, GD_FORMAT, "table: line 3, column 'y': 'oops' is not a number");
    assert_null(gd_table_numbers(t, 2));
    assert_error(ctx, GD_FORMAT, "table: line 3, column 'z': 'inf' is not finite");
    gd_tensor *x = gd_table_numbers(t, 0);
    assert_values(x, 1, 2, 3, 4);
    gd_release(x);
    assert_null(gd_table_matrix(t, (const char *const[]){"x", "y"}, 2));
    assert_error(ctx, GD_FORMAT, "table: line 3, column 'y': 'oops' is not a number");
    gd_table_free(t);
}

static bool stop_reading(void *user) { return ++*(int *)user > 0; }

static void a_reading_can_be_ended(void **state)
{
    (void)state;
    int asked = 0;
    gd_observer observer = {.interrupted = stop_reading, .user = &asked};
    size_t rows = 20000;
    char *text = malloc(rows * 2 + 3);
    strcpy(text, "x\n");
    for (size_t i = 0; i < rows; i++) strcpy(text + 2 + 2 * i, "1\n");
    assert_null(parse(text, &(gd_table_options){.observer = &observer}));
    assert_error(ctx, GD_INTERRUPTED, "table: interrupted");
    assert_true(asked > 0);
    free(text);
}

/* ---- files ---- */

static const char *path_of(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "/tmp/gradus_table_%ld_%s", (long)getpid(), name);
    return path;
}

static void write_text(const char *name, const char *text, size_t size)
{
    FILE *f = fopen(path_of(name), "wb");
    fwrite(text, 1, size, f);
    fclose(f);
}

static void arrays_are_columns_of_numbers(void **state)
{
    (void)state;
    gd_tensor *m = gd_from_f64(ctx, GD_F32, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, NAN});
    assert_int_equal(gd_npy_save(m, path_of("a.npy")), GD_OK);
    gd_table *t = gd_table_load(ctx, path_of("a.npy"), NULL);
    check(t, "c1|c2|c3\n1|2|3\n4|5|?\n");
    gd_table_free(t);
    gd_archive *a = gd_archive_new(ctx);
    gd_tensor *v = gd_from_f64(ctx, GD_I32, 1, (int64_t[]){2}, (double[]){7, 8});
    assert_int_equal(gd_archive_put(a, "n", v), GD_OK);
    assert_int_equal(gd_archive_put(a, "m", m), GD_OK);
    assert_int_equal(gd_archive_save(a, path_of("a.safetensors")), GD_OK);
    t = gd_table_load(ctx, path_of("a.safetensors"), NULL);
    check(t, "n|m1|m2|m3\n7|1|2|3\n8|4|5|?\n");
    gd_table_free(t);
    gd_archive_free(a);
    gd_release(m);
    gd_release(v);
    write_text("a.idx", "\0\0\x08\x01\0\0\0\x03\x05\x06\xFF", 11); /* the format of MNIST's labels */
    t = gd_table_load(ctx, path_of("a.idx"), NULL);
    check(t, "c1\n5\n6\n255\n");
    gd_table_free(t);
    for (const char *const *n = (const char *const[]){"a.npy", "a.safetensors", "a.idx", NULL}; *n; n++)
        remove(path_of(*n));
}

static void files_of_the_same_columns_are_one_table(void **state)
{
    (void)state;
    char first[100], second[100];
    write_text("1.csv", "x,who\n1,anna\n2,ben\n", 19);
    strcpy(first, path_of("1.csv"));
    write_text("2.csv", "who,x\nanna,3\n", 13);
    strcpy(second, path_of("2.csv"));
    gd_table *t = gd_table_load_all(ctx, (const char *const[]){first, second}, 2, NULL);
    check(t, "x|who|set\n1|anna|0\n2|ben|0\n3|anna|1\n");
    gd_table *some = gd_table_select_rows(t, gd_from_data(ctx, GD_I64, 1, (int64_t[]){2}, (int64_t[]){2, 0}));
    check(some, "x|who|set\n3|anna|1\n1|anna|0\n");
    gd_table_free(some);
    gd_table_free(t);
    assert_null(gd_table_load_all(ctx, (const char *const[]){first, first}, 2, NULL));
    expect_error(ctx, GD_ARGUMENT, "given twice");
    assert_null(gd_table_load(ctx, first, &(gd_table_options){.max_bytes = 5}));
    expect_error(ctx, GD_FORMAT, "more than 5 bytes");
    t = gd_table_load(ctx, first, NULL); /* the limit was that of the call */
    assert_no_error(ctx);
    gd_table_free(t);
    remove(first);
    remove(second);
    assert_null(gd_table_load(ctx, first, NULL));
    assert_int_equal(gd_error(ctx), GD_IO);
    gd_clear_error(ctx);
}

/* ---- memory ---- */

static void count_release(void *user) { ++*(int *)user; }

static void lent_memory_is_not_copied_and_given_back_once(void **state)
{
    (void)state;
    double x[] = {1, 2, NAN, 4, 5, 6};
    int released[2] = {0};
    gd_table *t = gd_table_new(ctx, "mine");
    assert_int_equal(gd_table_add_numbers(t, "x", x, 3, 1, count_release, &released[0]), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "back", x + 5, 3, -2, count_release, &released[1]), GD_OK);
    assert_int_equal(released[1], 1); /* copied */
    check(t, "x|back\n1|6\n2|4\n?|2\n");
    gd_tensor *v = gd_table_numbers(t, 0);
    assert_ptr_equal(gd_data(v), x);
    gd_table_free(t);
    assert_int_equal(released[0], 0);
    gd_release(v);
    assert_int_equal(released[0], 1);
}

static void columns_that_do_not_fit_leave_the_table_as_it_was(void **state)
{
    (void)state;
    double x[] = {1, 2, 3};
    int released = 0;
    gd_table *t = gd_table_new(ctx, NULL);
    assert_int_equal(gd_table_add_numbers(t, "x", x, 3, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "x", x, 3, 1, count_release, &released), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "table: there is a column 'x' already");
    assert_int_equal(gd_table_add_numbers(t, "y", x, 2, 1, count_release, &released), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "table: 'y' has 2 rows, 'x' has 3");
    assert_int_equal(released, 0);
    assert_int_equal(gd_table_add_words(t, "w", (const char *const[]){"a", "\xFF", "b"}, 3), GD_FORMAT);
    assert_error(ctx, GD_FORMAT, "table: row 2 of 'w' is not UTF-8");
    assert_int_equal(gd_table_add_words(t, "\xFF", (const char *const[]){"a", "c", "b"}, 3), GD_FORMAT);
    assert_error(ctx, GD_FORMAT, "table: the name of column 2 is not UTF-8");
    assert_int_equal(gd_table_add(t, "", gd_ones(ctx, GD_F64, 1, (int64_t[]){3})), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "table: a column without a name");
    assert_int_equal(gd_table_add(t, "m", gd_ones(ctx, GD_F64, 3, (int64_t[]){3, 1, 1})), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "table: 'm' has 3 axes; vectors and matrices are columns");
    assert_int_equal(gd_table_add_numbers(t, "m2", x, 3, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add(t, "m", gd_ones(ctx, GD_F64, 2, (int64_t[]){3, 2})), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "table: there is a column 'm2' already");
    check(t, "x|m2\n1|1\n2|2\n3|3\n"); /* m1 is gone again */
    assert_int_equal(gd_table_find(t, "m1"), -1);
    gd_clear_error(ctx);
    assert_int_equal(gd_table_add(t, "m1", gd_ones(ctx, GD_F64, 1, (int64_t[]){3})), GD_OK);
    assert_int_equal(gd_table_find(t, "m1"), 2);
    gd_table_free(t);
    t = parse("x\n1\n", NULL);
    assert_int_equal(gd_table_add_numbers(t, "y", x, 1, 1, NULL, NULL), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "table: a table that was read or selected takes no columns");
    gd_table_free(t);
}

static void tensors_words_and_dates_are_columns(void **state)
{
    (void)state;
    gd_table *t = gd_table_new(ctx, "mine");
    gd_tensor *n = gd_from_f64(ctx, GD_I32, 1, (int64_t[]){3}, (double[]){1, -2, 3});
    gd_tensor *d = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){0, NAN, 86400.5});
    gd_tensor *g = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){4, 5, 6}));
    assert_int_equal(gd_table_add(t, "n", n), GD_OK);
    assert_int_equal(gd_table_add(t, "g", g), GD_OK);
    assert_int_equal(gd_table_add(t, "m [kg]", gd_ones(ctx, GD_F32, 2, (int64_t[]){3, 2})), GD_OK);
    assert_int_equal(gd_table_add_dates(t, "when", d, true, true), GD_OK);
    const char *words[] = {"anna", NULL, "7"};
    assert_int_equal(gd_table_add_words(t, "who [1]", words, 3), GD_OK);
    check(t, "n|g|m [kg]1|m [kg]2|when|who [1]\n1|4|1|1|0|anna\n-2|5|1|1|?|?\n3|6|1|1|86400.5|7\n");
    assert_int_equal(gd_table_kind(t, 5), GD_CELLS_WORDS); /* said, though one is a number */
    assert_int_equal(gd_table_find(t, "who"), 5);
    assert_int_equal(gd_table_add_words(t, "who", words, 3), GD_OK);
    assert_int_equal(gd_table_find(t, "who"), 6);
    gd_table_free(t);
}

static void many_columns_are_added_in_time_that_grows_with_their_number(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    double x[] = {1, 2};
    gd_table *t = gd_table_new(ctx, "wide");
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "x%d [m]", i);
        assert_int_equal(gd_table_add_numbers(t, name, x, 2, 1, NULL, NULL), GD_OK);
    }
    assert_int_equal(gd_table_find(t, "x19999 [m]"), MANY - 1);
    gd_table_free(t);
}

/* ---- parts ---- */

static void selected_rows_share_cells_and_know_their_lines(void **state)
{
    (void)state;
    gd_table *t = parse("x,who\n1,anna\n2,ben\noops,anna\n4,cleo\n5,ben\n6,ben\n", NULL);
    gd_tensor *pick = gd_from_data(ctx, GD_I64, 1, (int64_t[]){4}, (int64_t[]){3, -2, 0, 3});
    gd_table *some = gd_table_select_rows(t, pick);
    gd_table *bad = gd_table_select_rows(t, gd_from_data(ctx, GD_I64, 1, (int64_t[]){1}, (int64_t[]){2}));
    gd_table_free(t);
    check(some, "x|who\n4|cleo\n5|ben\n1|anna\n4|cleo\n");
    assert_null(gd_table_matrix(bad, (const char *const[]){"x"}, 1));
    assert_error(ctx, GD_FORMAT, "table: line 4, column 'x': 'oops' is not a number");
    gd_table *again = gd_table_select_rows(
        some, gd_from_data(ctx, GD_BOOL, 1, (int64_t[]){4}, (bool[]){0, 1, 1, 0}));
    gd_table *names = gd_table_select(again, (const char *const[]){"who"}, 1);
    gd_table_free(again);
    gd_table_free(some);
    check(names, "who\nben\nanna\n");
    gd_table_free(names);
    gd_table_free(bad);
    gd_release(pick);
}

static void selections_of_memory_have_its_words_and_dates(void **state)
{
    (void)state;
    double x[] = {1, NAN, INFINITY};
    gd_table *t = gd_table_new(ctx, "mine");
    assert_int_equal(gd_table_add_numbers(t, "x", x, 3, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_words(t, "w", (const char *const[]){"a", "b", NULL}, 3), GD_OK);
    gd_tensor *d = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){0, 0.125, NAN});
    assert_int_equal(gd_table_add_dates(t, "d", d, true, true), GD_OK);
    assert_null(gd_table_numbers(t, 0));
    assert_error(ctx, GD_FORMAT, "mine: row 3 of 'x': inf is not finite");
    gd_table *some = gd_table_select_rows(t, gd_from_data(ctx, GD_I64, 1, (int64_t[]){2}, (int64_t[]){1, 0}));
    gd_table_free(t);
    check(some, "x|w|d\n?|b|0.125\n1|a|0\n");
    gd_table_free(some);
}

static void selections_of_what_is_not_there_are_refused(void **state)
{
    (void)state;
    gd_table *t = parse("x,y\n1,2\n3,4\n", NULL);
    assert_null(gd_table_select_rows(t, gd_from_data(ctx, GD_I64, 1, (int64_t[]){1}, (int64_t[]){2})));
    assert_error(ctx, GD_INDEX, "table: row 2, but table has 2");
    assert_null(gd_table_select_rows(t, gd_ones(ctx, GD_BOOL, 1, (int64_t[]){3})));
    assert_error(ctx, GD_SHAPE, "table: rows are chosen by a vector with a flag for each, table has 2 rows");
    assert_null(gd_table_select_rows(t, gd_ones(ctx, GD_F64, 1, (int64_t[]){2})));
    assert_error(ctx, GD_DTYPE, "table: rows are chosen by i64 or bool, not by f64");
    assert_null(gd_table_select(t, (const char *const[]){"z"}, 1));
    assert_error(ctx, GD_ARGUMENT, "table: no column 'z', the columns are x, y");
    assert_null(gd_table_select(t, (const char *const[]){"x", "x"}, 2));
    assert_error(ctx, GD_ARGUMENT, "table: two columns are called 'x'");
    gd_tensor *all = gd_table_matrix(t, NULL, 0);
    assert_values(all, 1, 2, 3, 4);
    gd_release(all);
    gd_table_free(t);
}

/* ---- writing ---- */

static void a_table_that_is_written_is_read_as_the_same(void **state)
{
    (void)state;
    static const char *const files[] = {"w.csv", "w.tsv"};
    double x[] = {0.1, 1e300, NAN, -1.0 / 3};
    gd_table *t = gd_table_new(ctx, "mine");
    gd_tensor *d = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){4}, (double[]){0, 86400.5, NAN, -1});
    assert_int_equal(gd_table_add_numbers(t, "# x; [a,b]", x, 4, 1, NULL, NULL), GD_OK);
    const char *words[] = {"say \"hi\"", "a\tb;c,d", NULL, " two\nlines"};
    assert_int_equal(gd_table_add_words(t, "the words", words, 4), GD_OK);
    assert_int_equal(gd_table_add_dates(t, "when", d, true, true), GD_OK);
    gd_table *one = gd_table_select(t, (const char *const[]){"the words"}, 1);
    for (int i = 0; i < COUNT_OF(files); i++) {
        char want[500];
        strcpy(want, shown(t));
        assert_int_equal(gd_table_save(t, path_of(files[i])), GD_OK);
        gd_table *read = gd_table_load(ctx, path_of(files[i]), NULL);
        check(read, want);
        gd_tensor *same = gd_table_numbers(read, 0);
        assert_true(((const double *)gd_data(same))[3] == -1.0 / 3);
        gd_release(same);
        gd_table_free(read);
        strcpy(want, shown(one)); /* an empty cell is a row of its own */
        assert_int_equal(gd_table_save(one, path_of(files[i])), GD_OK);
        read = gd_table_load(ctx, path_of(files[i]), NULL);
        check(read, want);
        gd_table_free(read);
        remove(path_of(files[i]));
    }
    gd_table_free(one);
    assert_int_equal(gd_table_save(t, "/nonexistent/t.csv"), GD_IO);
    gd_clear_error(ctx);
    gd_table_free(t);
    t = gd_table_new(ctx, NULL);
    assert_int_equal(gd_table_save(t, "/tmp/nothing.csv"), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "table: no columns to write");
    d = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){1}, (double[]){1e15});
    assert_int_equal(gd_table_add_dates(t, "when", d, true, false), GD_OK);
    assert_int_equal(gd_table_save(t, "/tmp/nothing.csv"), GD_VALUE);
    assert_error(ctx, GD_VALUE, "table: row 1 of 'when' has no year of four digits");
    gd_table_free(t);
}

/* ---- memory that fails ---- */

static bool read_and_select(gd_ctx *own)
{
    const char *const missing[] = {"-"}, *const words[] = {"who"};
    gd_table_options o = {.missing = missing, .missing_count = 1, .words = words, .words_count = 1};
    static const char text[] = "x,who,when\n1,anna,2000-01-01\n-,7,-\n3,ben,2000-01-02\n";
    gd_table *t = gd_table_parse(own, text, sizeof text - 1, &o), *part = NULL;
    bool ok = t && gd_table_kind(t, 0) && gd_table_kind(t, 1) && gd_table_numbers(t, 2);
    ok = ok && (part = gd_table_select(t, (const char *const[]){"when", "who"}, 2));
    gd_table *rows = ok ? gd_table_select_rows(part, gd_zeros(own, GD_I64, 1, (int64_t[]){2})) : NULL;
    ok = rows && gd_table_numbers(rows, 0) && gd_table_numbers(rows, 1);
    gd_table_free(rows);
    gd_table_free(part);
    gd_table_free(t);
    return ok;
}

static bool build(gd_ctx *own)
{
    double x[] = {1, 2, 3};
    int released = 0;
    gd_table *t = gd_table_new(own, "mine");
    bool lent = t && gd_table_add_numbers(t, "x", x, 3, 1, count_release, &released) == GD_OK;
    bool ok = lent && gd_table_add_numbers(t, "y", x + 2, 3, -1, NULL, NULL) == GD_OK;
    ok = ok && gd_table_add(t, "m", gd_ones(own, GD_F32, 2, (int64_t[]){3, 8})) == GD_OK;
    ok = ok && gd_table_add_words(t, "w", (const char *const[]){"a", NULL, "b"}, 3) == GD_OK;
    ok = ok && gd_table_add_dates(t, "d", gd_ones(own, GD_F64, 1, (int64_t[]){3}), true, false) == GD_OK;
    ok = ok && gd_table_save(t, path_of("oom.csv")) == GD_OK;
    if (ok) assert_int_equal(gd_table_columns(t), 12);
    gd_table_free(t);
    assert_int_equal(released, lent);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, read_and_select);
    fail_each_allocation(1, build);
    remove(path_of("oom.csv"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(columns_are_numbers_words_or_dates),
        TEST(columns_are_found_by_name_and_without_their_unit),
        TEST(options_say_how_text_is_read),
        TEST(options_that_contradict_are_refused),
        TEST(what_is_wrong_is_named_and_the_rest_is_read),
        TEST(a_reading_can_be_ended),
        TEST(arrays_are_columns_of_numbers),
        TEST(files_of_the_same_columns_are_one_table),
        TEST(lent_memory_is_not_copied_and_given_back_once),
        TEST(columns_that_do_not_fit_leave_the_table_as_it_was),
        TEST(tensors_words_and_dates_are_columns),
        TEST(many_columns_are_added_in_time_that_grows_with_their_number),
        TEST(selected_rows_share_cells_and_know_their_lines),
        TEST(selections_of_memory_have_its_words_and_dates),
        TEST(selections_of_what_is_not_there_are_refused),
        TEST(a_table_that_is_written_is_read_as_the_same),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
