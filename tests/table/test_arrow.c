/* Columns of other programs by Arrow's C data interface.  Expected cells are those that pyarrow 26 and polars 2.1 show for the same
 * buffers (numbers with offsets, bits, views, dictionaries, dates). */
#include <gradus/table.h>

#include "support/corpus.h"
#include "support/own_context.h"
#include "table/arrow_made.h"
#include "table/arrow_random.h"

#include <math.h>

static gd_table *from(gd_ctx *own, made_stream *m, const char *const *names, int count)
{
    gd_arrow_stream s = made(m);
    gd_table *t = gd_table_from_arrow(own, (struct ArrowArrayStream *)&s, names, count);
    assert_int_equal(m->streams, 1);
    assert_null(s.release);
    assert_int_equal(m->schemas, m->fail_at == -1 ? 0 : 1);
    return t;
}

/* One batch. */
static made_stream one(int columns, int64_t rows)
{
    return (made_stream){.columns = columns, .batches = 1, .rows = {rows}, .fail_at = MADE_BATCHES};
}

#define BUFFERS(...) \
    (const void *[]) { __VA_ARGS__ }

static void put(made_stream *m, int k, int i, const char *format, const char *name, int64_t length,
                int64_t offset, int64_t nulls, int64_t count, const void **buffers)
{
    m->column[i].format = format;
    m->column[i].name = name;
    m->array[k][i] = (gd_arrow_array){
        .length = length, .offset = offset, .null_count = nulls, .n_buffers = count, .buffers = buffers};
}

static void check(gd_table *t, int column, const char *name, gd_cells kind, const double *want)
{
    assert_no_error(ctx);
    assert_string_equal(gd_table_name(t, column), name);
    assert_int_equal(gd_table_kind(t, column), kind);
    gd_tensor *v = gd_table_numbers(t, column);
    assert_no_error(ctx);
    const double *got = gd_data(v);
    for (int64_t i = 0; i < gd_table_rows(t); i++)
        if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i]))))
            fail_msg("'%s', row %d: %.17g, want %.17g", name, (int)i, got[i], want[i]);
    gd_release(v);
}

static void check_words(gd_table *t, int column, const char *name, const char *const *want)
{
    assert_no_error(ctx);
    assert_string_equal(gd_table_name(t, column), name);
    assert_int_equal(gd_table_kind(t, column), GD_CELLS_WORDS);
    int count;
    const char *const *words = gd_table_words(t, column, &count);
    gd_tensor *v = gd_table_numbers(t, column);
    const double *got = gd_data(v);
    for (int64_t i = 0; i < gd_table_rows(t); i++) {
        assert_true(want[i] ? got[i] >= 0 && got[i] < count : isnan(got[i]));
        if (want[i]) assert_string_equal(words[(int)got[i]], want[i]);
    }
    gd_release(v);
}

/* ---- numbers ---- */

static void f64_without_holes_is_lent(void **state)
{
    (void)state;
    static const double x[] = {7, 1.5, -2, NAN, 4};
    made_stream m = one(2, 3);
    m.offset[0] = 1; /* of the batch, beside that of its columns */
    put(&m, 0, 0, "g", "x", 4, 1, 0, 2, BUFFERS(NULL, x));
    put(&m, 0, 1, "g", "nulls not counted", 4, 1, -1, 2, BUFFERS("\x1F", x));
    gd_table *t = from(ctx, &m, NULL, 0);
    check(t, 0, "x", GD_CELLS_NUMBERS, x + 2);
    gd_tensor *a = gd_table_numbers(t, 0), *b = gd_table_numbers(t, 1);
    assert_ptr_equal(gd_data(a), x + 2);
    assert_ptr_equal(gd_data(b), x + 2);
    gd_table_free(t);
    gd_release(a);
    assert_int_equal(m.arrays, 0);
    gd_release(b);
    assert_int_equal(m.arrays, 1);
}

static void numbers_of_every_type_are_read_wherever_they_lie(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        size_t size;
        const char *bytes; /* of two rows, behind one that is not looked at */
        double want[2];
    } cases[] = {
        {"c", 3, "\x7F\x80\xFE", {-128, -2}},
        {"C", 3, "\x7F\x80\xFE", {128, 254}},
        {"s", 6, "xx\x00\x80\x01\x00", {-32768, 1}},
        {"S", 6, "xx\x00\x80\x01\x00", {32768, 1}},
        {"i", 12, "xxxx\x00\x00\x00\x80\x02\x00\x00\x00", {-2147483648.0, 2}},
        {"I", 12, "xxxx\x00\x00\x00\x80\x02\x00\x00\x00", {2147483648.0, 2}},
        {"l", 24, "xxxxxxxx\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x05\0\0\0\0\0\0\0", {-1, 5}},
        {"L", 24, "xxxxxxxx\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x05\0\0\0\0\0\0\0", {18446744073709551615.0, 5}},
        {"e", 6, "xx\x00\x3E\x01\x80", {1.5, -0x1p-24}},
        {"f", 12, "xxxx\x00\x00\xC0\x3F\x00\x00\xC0\x7F", {1.5, NAN}},
        {"b", 1, "\xFC", {0, 1}},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char odd[32]; /* the data is at an odd place */
        memcpy(odd + 1, cases[i].bytes, cases[i].size);
        made_stream m = one(1, 2);
        put(&m, 0, 0, cases[i].format, "x", 2, 1, 0, 2, BUFFERS(NULL, odd + 1));
        gd_table *t = from(ctx, &m, NULL, 0);
        check(t, 0, "x", GD_CELLS_NUMBERS, cases[i].want);
        gd_table_free(t);
        assert_int_equal(m.arrays, 1);
    }
}

static void holes_are_bits_that_are_counted_from_an_offset(void **state)
{
    (void)state;
    static const int32_t x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    static const unsigned char valid[] = {0x5F, 0x0A}, bits[] = {0xF0, 0x0F};
    made_stream m = one(3, 5);
    put(&m, 0, 0, "i", "x", 5, 6, -1, 2, BUFFERS(valid, x));
    put(&m, 0, 1, "b", "flag", 5, 6, 3, 2, BUFFERS(valid, bits));
    put(&m, 0, 2, "n", "nothing", 5, 0, 5, 0, NULL);
    gd_table *t = from(ctx, &m, NULL, 0);
    check(t, 0, "x", GD_CELLS_NUMBERS, (double[]){6, NAN, NAN, 9, NAN});
    check(t, 1, "flag", GD_CELLS_NUMBERS, (double[]){1, NAN, NAN, 1, NAN});
    check(t, 2, "nothing", GD_CELLS_NUMBERS, (double[]){NAN, NAN, NAN, NAN, NAN});
    gd_table_free(t);
    assert_int_equal(m.arrays, 1);
}

/* ---- texts ---- */

static void strings_have_offsets_of_four_or_eight_bytes_or_are_views(void **state)
{
    (void)state;
    static const int32_t narrow[] = {0, 3, 7, 7, 8};
    static const int64_t wide[] = {0, 3, 7, 7, 8};
    static const char text[] = "xxxanna7", far[] = "..a long word of a view";
    static const int64_t sizes[] = {sizeof far - 1};
    struct {
        int32_t length;
        char text[12];
    } views[3] = {{4, "anna"}, {0, ""}, {21, "a lo"}};
    static const int32_t buffer = 0, at = 2;
    memcpy(views[2].text + 4, &buffer, 4);
    memcpy(views[2].text + 8, &at, 4);
    made_stream m = one(3, 3);
    put(&m, 0, 0, "u", "u", 3, 1, 0, 3, BUFFERS(NULL, narrow, text));
    put(&m, 0, 1, "U", "U", 3, 1, -1, 3, BUFFERS("\x0A", wide, text));
    put(&m, 0, 2, "vu", "vu", 3, 0, 0, 4, BUFFERS(NULL, views, far, sizes));
    gd_table *t = from(ctx, &m, NULL, 0);
    check_words(t, 0, "u", (const char *const[]){"anna", NULL, "7"});
    check_words(t, 1, "U", (const char *const[]){"anna", NULL, "7"});
    check_words(t, 2, "vu", (const char *const[]){"anna", NULL, "a long word of a view"});
    gd_table_free(t);
    assert_int_equal(m.arrays, 1);
}

static void every_batch_has_a_dictionary_of_its_own(void **state)
{
    (void)state;
    static const int32_t first[] = {0, 1, 2, 3}, second[] = {0, 1, 2};
    static const int8_t codes[] = {2, 0, 2}, more[] = {1, 0};
    static const int64_t years[] = {2000, 1990};
    made_stream m = one(2, 3);
    m.batches = 3; /* one without rows, and without buffers */
    m.rows[2] = 2;
    m.column[0].dictionary = &m.dictionary[0];
    m.dictionary[0].format = "u";
    put(&m, 0, 0, "c", "who", 3, 0, 0, 2, BUFFERS(NULL, codes));
    put(&m, 1, 0, "c", "who", 0, 0, 0, 2, BUFFERS(NULL, NULL));
    put(&m, 2, 0, "c", "who", 2, 0, 0, 2, BUFFERS(NULL, more));
    m.words[0][0] = (gd_arrow_array){.length = 3, .n_buffers = 3, .buffers = BUFFERS(NULL, first, "abc")};
    m.words[1][0] = (gd_arrow_array){.length = 0, .n_buffers = 3, .buffers = BUFFERS(NULL, NULL, NULL)};
    m.words[2][0] = (gd_arrow_array){.length = 2, .n_buffers = 3, .buffers = BUFFERS(NULL, second, "cd")};
    m.column[1].dictionary = &m.dictionary[1];
    m.dictionary[1].format = "l";
    put(&m, 0, 1, "C", "year", 3, 0, 1, 2, BUFFERS("\x03", (const uint8_t[]){0, 1, 9}));
    put(&m, 1, 1, "C", "year", 0, 0, 0, 2, BUFFERS(NULL, NULL));
    put(&m, 2, 1, "C", "year", 2, 0, 0, 2, BUFFERS(NULL, (const uint8_t[]){1, 1}));
    const void *both[] = {NULL, years};
    for (int k = 0; k < 3; k++)
        m.words[k][1] = (gd_arrow_array){.length = 2, .n_buffers = 2, .buffers = both};
    gd_table *t = from(ctx, &m, NULL, 0);
    assert_int_equal(gd_table_rows(t), 5);
    check_words(t, 0, "who", (const char *const[]){"c", "a", "c", "d", "c"});
    int count;
    (void)gd_table_words(t, 0, &count);
    assert_int_equal(count, 3); /* b is the word of no row */
    check(t, 1, "year", GD_CELLS_NUMBERS, (double[]){2000, 1990, NAN, 1990, 1990});
    gd_table_free(t);
    assert_int_equal(m.arrays, 3);
}

/* ---- dates ---- */

static void dates_are_seconds_whatever_their_unit(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        bool wide, day, clock;
        int64_t value[2];
        double want[2];
    } cases[] = {
        {"tdD", false, true, false, {19782, -1}, {1709164800, -86400}},
        {"tdm", true, true, false, {1709164800000, -1500}, {1709164800, -1.5}},
        {"tts", false, false, true, {49500, 0}, {49500, 0}},
        {"ttm", false, false, true, {49500250, 1}, {49500.25, 0.001}},
        {"ttu", true, false, true, {49500250000, 1}, {49500.25, 1e-6}},
        {"ttn", true, false, true, {49500250000000, 1}, {49500.25, 1e-9}},
        {"tss:", true, true, true, {1709164800, INT64_MIN}, {1709164800, NAN}},
        {"tsm:UTC", true, true, true, {1709164800125, -1}, {1709164800.125, -0.001}},
        {"tsu:Europe/Berlin", true, true, true, {1709164800125000, 0}, {1709164800.125, 0}},
        {"tsn:+02:00", true, true, true, {1709164800125000000, 1}, {1709164800.125, 1e-9}},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        int32_t narrow[] = {(int32_t)cases[i].value[0], (int32_t)cases[i].value[1]};
        made_stream m = one(1, 2);
        const void *data = cases[i].wide ? (const void *)cases[i].value : narrow;
        put(&m, 0, 0, cases[i].format, "when", 2, 0, 0, 2, BUFFERS(NULL, data));
        gd_table *t = from(ctx, &m, NULL, 0);
        check(t, 0, "when", GD_CELLS_DATES, cases[i].want);
        bool day, clock;
        assert_true(gd_table_dates(t, 0, &day, &clock));
        assert_true(day == cases[i].day && clock == cases[i].clock);
        gd_table_free(t);
    }
}

/* ---- which columns ---- */

static void columns_are_chosen_and_the_index_of_pandas_is_left_out(void **state)
{
    (void)state;
    static const double x[] = {1, 2};
    const void *buffers[] = {NULL, x};
    static const char *const names[] = {"x", "list", "__index_level_0__", "__index_level_x__", "x"};
    for (int round = 0; round < 3; round++) {
        made_stream m = one(round == 2 ? 5 : 4, 2);
        for (int i = 0; i < m.columns; i++) put(&m, 0, i, i == 1 ? "+l" : "g", names[i], 2, 0, 0, 2, buffers);
        static const char *const wanted[] = {"__index_level_0__", "x"};
        gd_table *t = from(ctx, &m, round ? wanted : NULL, 2);
        if (round == 1) {
            check(t, 0, "__index_level_0__", GD_CELLS_NUMBERS, x);
            check(t, 1, "x", GD_CELLS_NUMBERS, x);
            assert_int_equal(gd_table_columns(t), 2); /* nobody wants the list */
            gd_table_free(t);
        } else {
            assert_null(t);
            if (round)
                assert_error(ctx, GD_ARGUMENT, "arrow: two columns are called 'x'");
            else
                assert_error(ctx, GD_FORMAT, "arrow: column 'list' is of format '+l'");
        }
        assert_int_equal(m.arrays, 1);
    }
    made_stream m = one(1, 2);
    put(&m, 0, 0, "g", "__index_level_0__", 2, 0, 0, 2, BUFFERS(NULL, x));
    gd_table *t = from(ctx, &m, NULL, 0);
    assert_int_equal(gd_table_columns(t), 0);
    gd_table_free(t);
}

/* ---- what is wrong ---- */

static void formats_that_are_no_columns_are_named(void **state)
{
    (void)state;
    static const char *const formats[] = {"z", "Z",  "vz", "d:10,2", "tDs", "tiM",  "+s",    "+r", "w:16",
                                          "",  "gg", "ts", "tdX",    "tss", "+w:3", "+us:1", "ug"};
    for (int i = 0; i < COUNT_OF(formats); i++)
        for (int coded = 0; coded < 2; coded++) {
            made_stream m = one(1, 0);
            char want[100];
            put(&m, 0, 0, coded ? "i" : formats[i], "x", 0, 0, 0, 2, BUFFERS(NULL, NULL));
            m.dictionary[0].format = formats[i];
            if (coded) m.column[0].dictionary = &m.dictionary[0];
            assert_null(from(ctx, &m, NULL, 0));
            snprintf(want, sizeof want, "arrow: column 'x' is of format '%s'", formats[i]);
            assert_error(ctx, GD_FORMAT, want);
            assert_int_equal(m.arrays, 1);
        }
}

static void buffers_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const int32_t down[] = {0, 3, 1}, minus[] = {-1, 2, 3}, fine[] = {0, 1, 2};
    static const double x[] = {1, 2};
    static const struct {
        const char *format;
        int64_t length, offset, count;
        const void *buffer[3];
        const char *error;
    } cases[] = {
        {"g", 1, 0, 2, {NULL, x}, "it has fewer rows than its batch"},
        {"g", -1, 0, 2, {NULL, x}, "it has an impossible length"},
        {"g", 2, -1, 2, {NULL, x}, "it has an impossible length"},
        {"g", 2, 0, 1, {NULL, x}, "it has too few buffers"},
        {"g", 2, 0, 2, {NULL, NULL}, "it has no data"},
        {"u", 2, 0, 2, {NULL, fine}, "it has too few buffers"},
        {"u", 2, 0, 3, {NULL, down, "abc"}, "it has texts outside its buffers"},
        {"u", 2, 0, 3, {NULL, minus, "abc"}, "it has texts outside its buffers"},
        {"u", 2, 0, 3, {NULL, fine, NULL}, "it has texts outside its buffers"},
        {"u", 2, 0, 3, {NULL, fine, "a\xFF"}, "it has a text that is not UTF-8"},
        {"u", 2, 0, 3, {NULL, fine, "a\0"}, "it has a text with a zero byte"},
        {"vu", 2, 0, 2, {NULL, x}, "it has no buffer with the sizes of its texts"},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        const void *buffers[3];
        memcpy(buffers, cases[i].buffer, sizeof buffers);
        made_stream m = one(1, 2);
        put(&m, 0, 0, cases[i].format, "x", cases[i].length, cases[i].offset, 0, cases[i].count, buffers);
        assert_null(from(ctx, &m, NULL, 0));
        expect_error(ctx, GD_FORMAT, cases[i].error);
        assert_int_equal(m.arrays, 1);
    }
    made_stream m = one(1, 2);
    m.column[0].dictionary = &m.dictionary[0];
    m.dictionary[0].format = "g";
    put(&m, 0, 0, "c", "x", 2, 0, 0, 2, BUFFERS(NULL, "\0\2"));
    m.words[0][0] = (gd_arrow_array){.length = 2, .n_buffers = 2, .buffers = BUFFERS(NULL, x)};
    assert_null(from(ctx, &m, NULL, 0));
    assert_error(ctx, GD_FORMAT, "arrow: batch 1, column 'x': it has places outside its dictionary");
    m = one(1, 2);
    m.format = "g";
    assert_null(from(ctx, &m, NULL, 0));
    assert_error(ctx, GD_FORMAT, "arrow: the stream is of format 'g'");
}

static void a_stream_that_fails_is_released_once(void **state)
{
    (void)state;
    static const double x[] = {1, 2};
    const void *buffers[] = {NULL, x};
    for (int at = -1; at < 3; at++) {
        made_stream m = one(1, 2);
        m.batches = 3;
        m.rows[1] = m.rows[2] = 2;
        m.fail_at = at;
        for (int k = 0; k < 3; k++) put(&m, k, 0, "g", "x", 2, 0, 0, 2, buffers);
        assert_null(from(ctx, &m, NULL, 0));
        assert_error(ctx, GD_CALLBACK,
                     at < 0 ? "arrow: the stream gives no schema: error 5: the disk is gone"
                            : "arrow: the stream gives no batch: error 5: the disk is gone");
        assert_int_equal(m.arrays, at < 0 ? 0 : at);
    }
    made_stream m = one(1, 2);
    gd_arrow_stream s = made(&m);
    s.release = NULL;
    assert_null(gd_table_from_arrow(ctx, (struct ArrowArrayStream *)&s, NULL, 0));
    assert_error(ctx, GD_ARGUMENT, "arrow: the stream was released already");
    s = made(&m);
    assert_null(gd_table_from_arrow(NULL, (struct ArrowArrayStream *)&s, NULL, 0));
    assert_int_equal(m.streams, 1); /* consumed, also without a context */
    assert_null(gd_table_from_arrow(ctx, NULL, NULL, 0));
    assert_error(ctx, GD_ARGUMENT, "arrow: the stream is NULL");
}

static bool import_all(gd_ctx *own)
{
    static const double x[] = {1, 2};
    static const int32_t offsets[] = {0, 1, 2};
    made_stream m = one(4, 2);
    put(&m, 0, 0, "g", "x", 2, 0, 0, 2, BUFFERS(NULL, x));
    put(&m, 0, 1, "g", "y", 2, 0, 1, 2, BUFFERS("\x01", x));
    put(&m, 0, 2, "u", "w", 2, 0, 0, 3, BUFFERS(NULL, offsets, "ab"));
    m.column[3].dictionary = &m.dictionary[3];
    m.dictionary[3].format = "u";
    put(&m, 0, 3, "c", "c", 2, 0, 0, 2, BUFFERS(NULL, "\1\0"));
    m.words[0][3] = (gd_arrow_array){.length = 2, .n_buffers = 3, .buffers = BUFFERS(NULL, offsets, "cd")};
    gd_arrow_stream s = made(&m);
    gd_table *t = gd_table_from_arrow(own, (struct ArrowArrayStream *)&s, NULL, 0);
    bool ok = t != NULL;
    gd_table_free(t);
    assert_int_equal(m.streams, 1);
    assert_int_equal(m.schemas, m.next ? 1 : m.schemas);
    assert_int_equal(m.arrays, m.next ? 1 : 0);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, import_all);
}

static void random_one(gd_ctx *own, const corpus_file *file) { random_stream(own, file->data, file->size); }

static void the_corpus_is_read_without_harm(void **state)
{
    (void)state;
    replay_corpus(ctx, GD_TEST_DIR "/table/corpus/arrow", 11, random_one);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(f64_without_holes_is_lent),
        TEST(numbers_of_every_type_are_read_wherever_they_lie),
        TEST(holes_are_bits_that_are_counted_from_an_offset),
        TEST(strings_have_offsets_of_four_or_eight_bytes_or_are_views),
        TEST(every_batch_has_a_dictionary_of_its_own),
        TEST(dates_are_seconds_whatever_their_unit),
        TEST(columns_are_chosen_and_the_index_of_pandas_is_left_out),
        TEST(formats_that_are_no_columns_are_named),
        TEST(buffers_that_do_not_fit_are_refused),
        TEST(a_stream_that_fails_is_released_once),
        TEST(every_allocation_may_fail),
        TEST(the_corpus_is_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
