/* Rows of a table read in pieces side by side: values, words and errors are those of the whole, on any number of threads. */
#include "table/scan_rows.h"
#include "support/support.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>

#define COLUMNS 5 /* two numbers, words, dates, a number that nobody wants but in some tests */

static const char *const names[COLUMNS] = {"a", "b", "word", "day", "rest"};
static const gd_cells kinds[COLUMNS] = {GD_CELLS_NUMBERS, GD_CELLS_NUMBERS, GD_CELLS_WORDS, GD_CELLS_DATES,
                                        GD_CELLS_NUMBERS};

/* ---- texts ---- */

typedef struct sheet {
    char *text;
    size_t size, room;
    char separator, decimal;
} sheet;

static void GD_PRINTF(2, 3) add(sheet *s, const char *format, ...)
{
    va_list args;
    if (s->room - s->size < 4096) assert_non_null(s->text = realloc(s->text, s->room = 2 * s->room + 8192));
    va_start(args, format);
    s->size += (size_t)vsnprintf(s->text + s->size, s->room - s->size, format, args);
    va_end(args);
}

static uint64_t dice(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* A number as some program writes it: whole ones, decimals of all lengths, exponents, more digits than a double has. */
static void put_digits(uint64_t *seed, char *out)
{
    int whole = (int)(dice(seed) % 12), behind = (int)(dice(seed) % 19), kind = (int)(dice(seed) % 8);
    if (kind == 6) behind = (int)(dice(seed) % 5), whole = (int)(dice(seed) % 21);
    if (kind == 7) whole = 1, behind = 15 + (int)(dice(seed) % 10);
    if (!whole && !behind) whole = 1;
    if (dice(seed) % 2) *out++ = '-';
    for (int i = 0; i < whole; i++) *out++ = (char)('0' + dice(seed) % 10);
    if (behind || dice(seed) % 8 == 0) *out++ = '.';
    for (int i = 0; i < behind; i++) *out++ = (char)('0' + dice(seed) % 10);
    if (kind == 5 || kind == 7) {
        *out++ = dice(seed) % 2 ? 'e' : 'E';
        if (dice(seed) % 3) *out++ = dice(seed) % 2 ? '+' : '-';
        for (int i = 1 + (int)(dice(seed) % 2); i > 0; i--) *out++ = (char)('0' + dice(seed) % 10);
    }
    *out = 0;
}

static void to_decimal_comma(char *text)
{
    char *point = strchr(text, '.');
    if (point) *point = ',';
}

/* ---- reading ---- */

static gd_status scan(gd_ctx *ctx, const sheet *s, int64_t first_line, const int *wanted, int count,
                      gd_frame *out)
{
    const gd_table_layout layout = {"t.csv", s->separator, s->decimal, COLUMNS, names, NULL};
    gd_cells kind[COLUMNS];
    for (int i = 0; i < count; i++) kind[i] = kinds[wanted[i]];
    /* a copy of the very size: a look behind the NUL is seen by the sanitizer */
    char *exact = malloc(s->size + 1);
    assert_non_null(exact);
    memcpy(exact, s->text, s->size);
    exact[s->size] = 0;
    gd_status status = gd__scan_rows(ctx, &layout, exact, s->size, first_line, wanted, kind, count, out);
    free(exact);
    return status;
}

static const int all[COLUMNS] = {0, 1, 2, 3, 4};

static bool same_bits(double a, double b) { return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b)); }

static void same_frames(const gd_frame *got, const gd_frame *want, const char *what)
{
    if (got->rows != want->rows)
        fail_msg("%s: %lld rows, want %lld", what, (long long)got->rows, (long long)want->rows);
    for (int i = 0; i < want->count; i++) {
        for (int64_t row = 0; row < want->rows; row++)
            if (!same_bits(got->column[i].value[row], want->column[i].value[row]))
                fail_msg("%s: row %lld of %s: %.17g, want %.17g", what, (long long)row, want->column[i].name,
                         got->column[i].value[row], want->column[i].value[row]);
        assert_int_equal(got->column[i].words.count, want->column[i].words.count);
        for (int k = 0; k < want->column[i].words.count; k++)
            assert_string_equal(got->column[i].words.word[k], want->column[i].words.word[k]);
    }
}

/* As any table is read: cell by cell, by csv.h. */
static void read_as_any(gd_ctx *ctx, const sheet *s, gd_frame *out)
{
    gd_csv_options o = {.separator = s->separator, .decimal = s->decimal, .no_header = true};
    gd_csv *csv = gd__csv_parse(ctx, "t.csv", s->text, s->size, &o);
    if (!csv) fail_msg("%s", gd_error_text(ctx));
    if (gd__frame_read(ctx, csv, all, COLUMNS, kinds, out)) fail_msg("%s", gd_error_text(ctx));
    gd__csv_free(csv);
}

/* ---- numbers ---- */

static void a_number_is_what_strtod_reads_to_the_last_bit(void **state)
{
    (void)state;
    enum { ROWS = 60000 };
    static double want[ROWS];
    gd_ctx *ctx = context(NULL, 2, NULL);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c_locale);
    for (int comma = 0; comma < 2; comma++) {
        sheet s = {.separator = comma ? ';' : ',', .decimal = comma ? ',' : 0};
        uint64_t seed = 11;
        for (int row = 0; row < ROWS; row++) {
            char text[64];
            put_digits(&seed, text);
            want[row] = strtod(text, NULL);
            if (comma) to_decimal_comma(text);
            add(&s, "%s%c1%c%c%c2\n", text, s.separator, s.separator, s.separator, s.separator);
        }
        gd_frame got;
        if (scan(ctx, &s, 1, all, 1, &got)) fail_msg("%s", gd_error_text(ctx));
        assert_int_equal(got.rows, ROWS);
        const char *line = s.text;
        for (int row = 0; row < ROWS; row++, line = strchr(line, '\n') + 1)
            if (!same_bits(got.column[0].value[row], want[row]))
                fail_msg("%.40s: %.17g, want %.17g", line, got.column[0].value[row], want[row]);
        gd__frame_close(&got);
        free(s.text);
    }
    (void)uselocale(before);
    freelocale(c_locale);
    end_context(ctx, NULL);
}

/* ---- tables ---- */

enum { CRLF = 1, EMPTY = 2, PADDED = 4, QUOTED = 8, NO_LAST_END = 16 };

static void put_table(sheet *s, int rows, int how, uint64_t seed)
{
    static const char *const words[] = {"low", "middle", "high", "\xc3\xa4rger", "x-y"};
    const char *line_end = how & CRLF ? "\r\n" : "\n", *pad = how & PADDED ? " " : "";
    bool blanks = s->separator == ' ';
    for (int row = 0; row < rows; row++) {
        char number[2][64];
        for (int k = 0; k < 2; k++) {
            put_digits(&seed, number[k]);
            if (s->decimal) to_decimal_comma(number[k]);
            if (dice(&seed) % 17 == 0) strcpy(number[k], blanks || dice(&seed) % 2 ? "NA" : "");
        }
        if (how & EMPTY && dice(&seed) % 9 == 0) add(s, "%s%s", dice(&seed) % 2 ? "  " : "", line_end);
        const char *word = words[dice(&seed) % 5];
        add(s, "%s%s%s%c%s%s%c", pad, number[0], pad, s->separator, pad, number[1], s->separator);
        if (how & QUOTED && dice(&seed) % 3 == 0)
            add(s, "\"%s, %c\"\"%s%d\"", word, s->separator, dice(&seed) % 4 ? "" : "\n\n",
                (int)(dice(&seed) % 3));
        else if (how & QUOTED && dice(&seed) % 5 == 0)
            add(s, "5\"%s", word); /* a quote that opens nothing */
        else
            add(s, "%s%s%s", pad, word, pad);
        add(s, "%c%s2024-%02d-%02d%c%s%d%s%s", s->separator, pad, 1 + (int)(dice(&seed) % 12),
            1 + (int)(dice(&seed) % 28), s->separator, pad, row, pad,
            row + 1 == rows && how & NO_LAST_END ? "" : line_end);
    }
}

static void values_and_words_are_those_of_one_thread_and_of_any_table(void **state)
{
    (void)state;
    static const struct {
        char separator, decimal;
        int how;
    } kinds_of_table[] = {{',', 0, 0},
                          {',', 0, CRLF | EMPTY},
                          {';', ',', EMPTY | NO_LAST_END},
                          {'\t', 0, PADDED | EMPTY},
                          {'\t', ',', CRLF | NO_LAST_END},
                          {' ', 0, PADDED | EMPTY},
                          {' ', 0, PADDED | CRLF | NO_LAST_END},
                          {',', 0, PADDED},
                          {',', 0, QUOTED},
                          {';', ',', QUOTED | CRLF | EMPTY | PADDED},
                          {'\t', 0, QUOTED | NO_LAST_END}};
    for (int i = 0; i < COUNT_OF(kinds_of_table); i++)
        for (int rows = 1; rows < 8000; rows = rows * 9 + 1) {
            char what[80];
            sheet s = {.separator = kinds_of_table[i].separator, .decimal = kinds_of_table[i].decimal};
            put_table(&s, rows, kinds_of_table[i].how, (uint64_t)(i + rows));
            snprintf(what, sizeof what, "table %d of %d rows", i, rows);
            for (int threads = 1; threads <= 4; threads *= 2) {
                gd_ctx *ctx = context(NULL, threads, NULL);
                gd_frame want, got, last;
                read_as_any(ctx, &s, &want);
                if (scan(ctx, &s, 1, all, COLUMNS, &got)) fail_msg("%s: %s", what, gd_error_text(ctx));
                same_frames(&got, &want, what);
                /* one column alone: the others are passed over */
                if (scan(ctx, &s, 1, all + 4, 1, &last)) fail_msg("%s: %s", what, gd_error_text(ctx));
                for (int64_t row = 0; row < rows; row++)
                    assert_true(last.column[0].value[row] == (double)row);
                gd__frame_close(&last);
                gd__frame_close(&want);
                gd__frame_close(&got);
                end_context(ctx, NULL);
            }
            free(s.text);
        }
}

/* ---- mistakes ---- */

#define MANY 4000 /* rows: about ten pieces */

static void put_good_row(sheet *s, int row) { add(s, "%d.5,-2e3,low,2024-02-29,%d\n", row, row); }

static void the_first_mistake_in_the_file_is_the_one_that_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *row, *error;
    } bad[] = {{"1,x,low,2024-02-29,1\n", "column 'b': 'x' is not a number"},
               {"1,2,low,2024-02-29,1,\n", ": 6 cells, but the first line has 5"},
               {"1\n", ": 1 cell, but the first line has 5"},
               {"1,2,low,tomorrow,1\n", "column 'day': 'tomorrow' is not a date"},
               {"1,2,low,tomorrow,x\n", "column 'day': 'tomorrow' is not a date"},
               {"y,2,low,tomorrow,x\n", "column 'a': 'y' is not a number"},
               {"1,2,\xff,2024-02-29,1\n", "column 'word': '?' is not UTF-8"},
               {"1,inf,low,2024-02-29,1\n", "column 'b': 'inf' is not finite"},
               {"1.2.3,2,low,2024-02-29,1\n", "column 'a': '1.2.3' is not a number"},
               {".,2,low,2024-02-29,1\n", "column 'a': '.' is not a number"},
               {"1,2,\"low\"er,2024-02-29,1\n", ": text follows a closing quote"},
               {"1,\"2x\",low,2024-02-29,1\n", "column 'b': '2x' is not a number"},
               {"1,2,\"two\nlines\",2024-02-29,z\n", "column 'rest': 'z' is not a number"},
               {"1,2,\"low,2024-02-29,1\n", ": a quote is never closed"}};
    static const int places[] = {0, 1, MANY / 2, MANY - 2, MANY - 1};
    for (int i = 0; i < COUNT_OF(bad); i++)
        for (int k = 0; k < COUNT_OF(places); k++) {
            sheet s = {.separator = ','};
            for (int row = 0; row < MANY; row++) {
                if (row == places[k] + 1 && !strchr(bad[i].row, '"')) add(&s, "later,2,low,2024-02-29,1\n");
                if (row != places[k])
                    put_good_row(&s, row);
                else
                    add(&s, "\n%s", bad[i].row);
            }
            for (int threads = 1; threads <= 2; threads++) {
                gd_ctx *ctx = context(NULL, threads, NULL);
                gd_frame got;
                char place[40];
                assert_int_equal(scan(ctx, &s, 7, all, COLUMNS, &got), GD_FORMAT);
                snprintf(place, sizeof place, "t.csv: line %d", 7 + places[k] + 1);
                if (!strstr(gd_error_text(ctx), place) || !strstr(gd_error_text(ctx), bad[i].error))
                    fail_msg("%s at %d: %s", bad[i].row, places[k], gd_error_text(ctx));
                gd_clear_error(ctx);
                gd__frame_close(&got);
                end_context(ctx, NULL);
            }
            free(s.text);
        }
}

/* ---- where rows end ---- */

static void quotes_hold_line_ends_only_at_the_start_of_a_cell(void **state)
{
    (void)state;
    const gd_table_layout layout = {"t.csv", ',', 0, COLUMNS, names, NULL};
    static const struct {
        const char *text;
        size_t whole;
        int64_t lines;
    } cases[] = {{"a,b\nc,d", 4, 1},
                 {"a,b\nc,d\n", 8, 2},
                 {"a,\"b\nc\",d\ne", 10, 2},
                 {"a,\"b\nc,d\ne\n", 0, 0},
                 {"a, \"b\n\"\nc", 8, 2},
                 {"5\" pipe,b\nc,d\ne", 14, 2}, /* an inch */
                 {"a,\"b\"\"\n\"\nc,d\ne", 13, 3},
                 {"a,\"b\"x\nc\nd", 9, 2},
                 {"", 0, 0}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        int64_t lines;
        size_t whole = gd__scan_whole_rows(&layout, cases[i].text, strlen(cases[i].text), &lines);
        if (whole != cases[i].whole || lines != cases[i].lines)
            fail_msg("'%s': %zu bytes, %lld lines", cases[i].text, whole, (long long)lines);
    }
}

/* ---- memory ---- */

static bool scans_a_table(gd_ctx *ctx)
{
    sheet s = {.separator = ','};
    for (int row = 0; row < 3000; row++) put_good_row(&s, row);
    add(&s, "1,2,\"high\",2024-02-29,3\n");
    gd_frame got;
    bool good = scan(ctx, &s, 1, all, COLUMNS, &got) == GD_OK && got.rows == 3001 &&
                got.column[2].words.count == 2 && got.column[4].value[2999] == 2999;
    gd__frame_close(&got);
    free(s.text);
    return good;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(2, scans_a_table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_what_strtod_reads_to_the_last_bit),
        cmocka_unit_test(values_and_words_are_those_of_one_thread_and_of_any_table),
        cmocka_unit_test(the_first_mistake_in_the_file_is_the_one_that_is_named),
        cmocka_unit_test(quotes_hold_line_ends_only_at_the_start_of_a_cell),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
