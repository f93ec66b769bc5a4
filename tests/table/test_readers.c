/* A table is read by the fast reader of whole texts, by the one that looks at every cell, and block by block: what they accept is one
 * list, and what they read is the same. */
#include "base/text/compose.h"
#include "table/csv_inside.h"
#include "table/scan_rows.h"
#include "train/data/stream.h"
#include "support/corpus.h"
#include "support/own_context.h"

#include <math.h>
#include <unistd.h>

/* What the readers are given: text and options. */
static const struct text {
    const char *text;
    gd_csv_options o;
} texts[] = {
    {"x,y\n1,2\n3,4\n", {0}},
    {"x,y\r\n1,2\r\n3,4", {0}},
    {"x\n1\n\n2\n \n3\n", {0}},
    {"x,y\n\n1,2\n\n\n3,4\n\n", {0}},
    {"x,who\n1,anna\n2,\"ben, the \"\"first\"\"\"\n3,\"two\nlines\"\n4,\n", {0}},
    {"x,y\n\"1\",\" 2 \"\n 3 , 4\t\n", {0}},
    {"x;y\n1,5;2\n3;\n", {.decimal = ','}},
    {"x\ty\tz\n1\t\t3\n\t\t\n4\t5\t6\n", {0}},
    {"x y z\n1 2 3\n 4  5 6 \n", {0}},
    {"t [s]  S [mol / l]\n0.5 2\n1 3\n", {0}},
    {"x,y\n1,NA\nNaN,nan\nnull,-nan\n,5\n", {0}},
    {"x,y\n1,inf\n2,3\n", {0}},
    {"x,y\n1,1e999\n2,3\n", {0}},
    {"x,y\n1,0x12\n-2.5e-3,.5\n+7,1.\n1e,2\n", {0}},
    {"x\n12345678901234567890\n0.1234567890123456789\n123456789012345678e-40\n", {0}},
    {"x,day\n1,2024-02-29\n2,1999-12-31T23:59:59.5\n", {0}},
    {"x,y\n-999,1\nnone,2\n5,-999\n", {.missing = (const char *const[]){"-999", "none"}, .missing_count = 2}},
    {"code,y\n007,1\n012,2\n", {.words = (const char *const[]){"code"}, .words_count = 1}},
    {"1,2\n3,x\n\"5\",6\n", {.no_header = true}},
    {"\"a\nb\",2\n3,4\n", {.no_header = true}},
    {"\xEF\xBB\xBFx,größe\n1,ä\n2,öß\n", {0}},
    {"# made by hand\n\n  \nx,y\n1,2\n#3,4\n", {0}},
    {"x,y,\n1,2,\n3,4,\n", {0}},
    {"x    y    z\n1.0  3.5  2\n2.0       3\n", {0}},
    {"x,y\r1,2\r3,4\r", {0}},
    {"x,y\n1,2", {0}},
    {"x,y\n", {0}},
    {"x", {0}},
    /* what all refuse, in the same words */
    {"", {0}},
    {"x,y\n1,2\n3\n", {0}},
    {"x,y\n1,2,3\n", {0}},
    {"x,y\n1,\"abc\n", {0}},
    {"x,y\n1,\"a\"b\n", {0}},
    {"x\n\xE9\n", {0}},
    {"x,\xE9\n1,2\n", {0}},
    {"a,b\nx,1\n\"q,2\n", {0}},
    {"1,2\n3\n", {.no_header = true}},
    {"x,y\n1,2\n", {.words = (const char *const[]){"z"}, .words_count = 1}},
};

static gd_csv *parse(const void *text, size_t size, gd_csv_options o, bool one_by_one, size_t slab)
{
    o.one_by_one = one_by_one;
    o.slab = slab;
    return gd__csv_parse(ctx, "data.csv", text, size, &o);
}

static bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void same_tables(gd_csv *a, gd_csv *b)
{
    char one[GD_CELL_SIZE], two[GD_CELL_SIZE];
    assert_int_equal(gd__csv_columns(a), gd__csv_columns(b));
    assert_int_equal(gd__csv_rows(a), gd__csv_rows(b));
    for (int i = 0; i < gd__csv_columns(a); i++) {
        assert_string_equal(gd__csv_name(a, i), gd__csv_name(b, i));
        for (int64_t row = 0; row < gd__csv_rows(a); row++) {
            double x, y;
            assert_int_equal(gd__csv_number(a, row, i, &x), gd__csv_number(b, row, i, &y));
            if (!same_double(x, y)) fail_msg("row %d, column %d: %.17g and %.17g", (int)row, i, x, y);
            assert_string_equal(gd__csv_text(a, row, i, one), gd__csv_text(b, row, i, two));
            assert_int_equal(gd__csv_line(a, row), gd__csv_line(b, row));
        }
    }
}

/* Columns as numbers, words and dates, or why they are none. */
static void same_columns(gd_csv *a, gd_csv *b)
{
    for (int i = 0; i < gd__csv_columns(a); i++) {
        char why[2][300] = {"", ""};
        gd_csv *of[] = {a, b};
        gd_tensor *v[2];
        for (int k = 0; k < 2; k++) {
            v[k] = gd_table_numbers(of[k], i);
            if (!v[k]) snprintf(why[k], sizeof why[k], "%s", gd_error_text(ctx));
            gd_clear_error(ctx);
        }
        assert_string_equal(why[0], why[1]);
        for (int64_t row = 0; v[0] && row < gd__csv_rows(a); row++)
            assert_true(
                same_double(((const double *)gd_data(v[0]))[row], ((const double *)gd_data(v[1]))[row]));
        gd_release(v[0]);
        gd_release(v[1]);
    }
}

static int by_the_fast_one;

static void check_pair(const void *text, size_t size, gd_csv_options o, size_t slab)
{
    char why[300] = "";
    gd_csv *fast = parse(text, size, o, false, slab);
    if (!fast) snprintf(why, sizeof why, "%s", gd_error_text(ctx));
    gd_clear_error(ctx);
    gd_csv *slow = parse(text, size, o, true, 0);
    if (strcmp(why, slow ? "" : gd_error_text(ctx)) != 0)
        fail_msg("'%.*s': '%s' and '%s'", (int)size, (const char *)text, why, gd_error_text(ctx));
    gd_clear_error(ctx);
    if (fast) {
        by_the_fast_one += fast->row_at != NULL;
        assert_null(slow->row_at);
        same_columns(fast, slow);
        same_tables(fast, slow);
    }
    gd__csv_free(fast);
    gd__csv_free(slow);
}

static void every_text_is_the_same_table_for_both_readers(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(texts); i++)
        for (size_t slab = 0; slab < 24; slab += 3)
            check_pair(texts[i].text, strlen(texts[i].text), texts[i].o, slab);
    assert_true(by_the_fast_one >= 8 * 25);
}

static void corpus_pair(gd_ctx *own, const corpus_file *file)
{
    if (!file->size) return;
    (void)own;
    const char first = (char)file->data[0];
    gd_csv_options o = {.separator = first & 8 ? GD_CSV_WIDTHS : ",;\t\0"[first >> 1 & 3],
                        .no_header = first & 1};
    check_pair(file->data + 1, file->size - 1, o, 0);
}

static void the_corpus_is_the_same_for_both_readers(void **state)
{
    (void)state;
    replay_corpus(ctx, GD_TEST_DIR "/table/corpus/csv", 11, corpus_pair);
}

/* Long texts: several pieces, columns that stop being numbers late, words that are asked for one after the other. */
static void long_texts_are_the_same_on_any_number_of_threads(void **state)
{
    (void)state;
    size_t size = 0, rows = 6000;
    char *text = malloc(rows * 80);
    size += (size_t)sprintf(text, "x,late,w,y,v\n");
    for (size_t i = 0; i < rows; i++) {
        const char *late = i == rows - 7 ? "word" : i % 5 ? "3.25" : "";
        size += (size_t)sprintf(text + size, "%.17g,%s,w%zu,%zu,%s%s", (double)i / 7, late, i % 11, i,
                                i % 3 ? "v" : "\"v\"", i % 4 ? "\n" : "\r\n\n");
    }
    static const size_t slabs[] = {0, 1000, 60000};
    for (int k = 0; k < COUNT_OF(slabs); k++) check_pair(text, size, (gd_csv_options){0}, slabs[k]);
    for (char *c = text; (c = strchr(c, '"'));) *c = 'q'; /* without quotes: side by side */
    for (int k = 0; k < COUNT_OF(slabs); k++) check_pair(text, size, (gd_csv_options){0}, slabs[k]);
    free(text);
}

/* ---- block by block ---- */

/* Why a text cannot be streamed, though it can be read; NULL: it can. */
static const char *no_stream(const struct text *t)
{
    if (t->o.missing_count || t->o.words_count) return "options of gradus/table.h";
    if (strchr(t->text, '\r') && !strchr(t->text, '\n')) return "CR alone";
    return strstr(t->text, "x    y    z") ? "cells under each other" : NULL;
}

static void texts_that_are_streamed_give_the_same_numbers(void **state)
{
    (void)state;
    char path[64];
    int streamed = 0;
    snprintf(path, sizeof path, "/tmp/gradus_readers_%ld.csv", (long)getpid());
    for (int i = 0; i < COUNT_OF(texts); i++) {
        const struct text *t = &texts[i];
        FILE *f = fopen(path, "wb");
        fwrite(t->text, 1, strlen(t->text), f);
        fclose(f);
        const gd_data_request q = {.path = path, .csv = t->o};
        gd_row_stream s;
        gd_csv *whole = parse(t->text, strlen(t->text), t->o, false, 0);
        gd_clear_error(ctx);
        gd_status status = gd__stream_open(ctx, &q, &s);
        gd_clear_error(ctx);
        if (!whole || !gd__csv_rows(whole) || no_stream(t)) {
            if (no_stream(t) && !t->o.missing_count && !t->o.words_count) assert_int_not_equal(status, GD_OK);
        } else {
            assert_int_equal(status, GD_OK);
            char *text = calloc(1, strlen(t->text) + 100);
            strcpy(text, t->text + s.block[0].at);
            for (int c = 0; c < gd__csv_columns(whole); c++) {
                double *v = malloc((size_t)gd__csv_rows(whole) * sizeof *v);
                gd_frame frame;
                gd_status want = gd__csv_numbers(whole, c, true, v);
                gd_clear_error(ctx);
                gd_status got = gd__scan_rows(ctx, &s.layout, text, strlen(text), s.block[0].first_line, &c,
                                              &(gd_cells){GD_CELLS_NUMBERS}, 1, &frame);
                gd_clear_error(ctx);
                if ((want == GD_OK) != (got == GD_OK)) fail_msg("'%s', column %d", t->text, c);
                if (!got) assert_int_equal(frame.rows, gd__csv_rows(whole));
                for (int64_t row = 0; !got && row < frame.rows; row++)
                    assert_true(same_double(v[row], frame.column[0].value[row]));
                streamed += !got;
                gd__frame_close(&frame);
                free(v);
            }
            free(text);
        }
        gd__stream_close(&s);
        gd__csv_free(whole);
    }
    remove(path);
    assert_true(streamed >= 20);
}

/* ---- memory ---- */

static bool read_all(gd_ctx *own)
{
    static const char text[] = "x,w,y\n1,a,2\n3,b,\n5,\"c\",7\n";
    gd_csv *csv = gd__csv_parse(own, "data.csv", text, sizeof text - 1, NULL);
    bool ok = csv && gd_table_numbers(csv, 0) && gd_table_numbers(csv, 1);
    ok = ok && !strcmp(gd__csv_cell(csv, 2, 0), "5") && !gd_error(own);
    gd__csv_free(csv);
    return ok;
}

static bool read_without_header(gd_ctx *own)
{
    gd_csv *csv = gd__csv_parse(own, "data.csv", "1,a\n2,b\n", 8, &(gd_csv_options){.no_header = true});
    bool ok = csv && gd_table_numbers(csv, 1);
    gd__csv_free(csv);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, read_all);
    fail_each_allocation(2, read_without_header);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_text_is_the_same_table_for_both_readers),
        TEST(the_corpus_is_the_same_for_both_readers),
        TEST(long_texts_are_the_same_on_any_number_of_threads),
        TEST(texts_that_are_streamed_give_the_same_numbers),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
