/* Columns of tables as numbers to learn from: words, codes, dates, holes, ids; the same for other tables. */
#include "train/data/learnt_columns.h"
#include "base/text/date.h"
#include "train/data/row_split.h"

#include "cli/program.h"

/* ---- dates ---- */

/* Seconds by GNU date. */
static void dates_are_seconds_of_the_calendar(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
        bool day, clock;
    } good[] = {{"1970-01-01", 0, true, false},
                {"1969-12-31", -86400, true, false},
                {"2024-02-29", 1709164800, true, false},
                {"2000-02-29", 951782400, true, false},
                {"1900-03-01", -2203891200, true, false},
                {"0001-01-01", -62135596800, true, false},
                {"2000-01-01T00:00:00Z", 946684800, true, true},
                {"2024-02-29T13:45:10.5+02:00", 1709207110.5, true, true},
                {"2024-02-29 13:45:10-0330", 1709226910, true, true},
                {"2024-02-29 13:45", 1709214300, true, true},
                {"13:45", 49500, false, true},
                {"23:59:59.25", 86399.25, false, true}};
    for (int i = 0; i < COUNT_OF(good); i++) {
        gd_date d;
        if (!gd__date_parse(good[i].text, &d)) fail_msg("%s", good[i].text);
        if (fabs(d.seconds - good[i].seconds) > 1e-6) fail_msg("%s: %.3f", good[i].text, d.seconds);
        assert_true(d.day == good[i].day && d.clock == good[i].clock);
    }
    static const char *const bad[] = {"2023-02-29",
                                      "1900-02-29",
                                      "2024-13-01",
                                      "2024-00-10",
                                      "2024-04-31",
                                      "2024-2-9",
                                      "24:00",
                                      "12:60",
                                      "2024-02-29x",
                                      "2024-02-29T",
                                      "2024-02-29T1",
                                      "2024-02-29T12:00+",
                                      "",
                                      "12",
                                      "12:3",
                                      "2024-02-29T12:00+25:00",
                                      "2024-02-29T12:00:00.",
                                      "20240229"};
    for (int i = 0; i < COUNT_OF(bad); i++) {
        gd_date d;
        if (gd__date_parse(bad[i], &d)) fail_msg("%s is no date", bad[i]);
    }
}

/* ---- what a row becomes ---- */

static gd_csv *table_of(gd_ctx *ctx, const char *text)
{
    gd_csv *csv = gd__csv_parse(ctx, "t.csv", text, strlen(text), NULL);
    assert_non_null(csv);
    return csv;
}

static gd_frame frame_of(gd_ctx *ctx, const gd_csv *csv)
{
    int columns[16];
    gd_frame frame;
    for (int i = 0; i < gd__csv_columns(csv); i++) columns[i] = i;
    if (gd__frame_read(ctx, csv, columns, gd__csv_columns(csv), NULL, &frame))
        fail_msg("%s", gd_error_text(ctx));
    return frame;
}

/* The cycles by sin and cos of the part of 365.2425 and 7 days since a Thursday. */
static void rows_are_numbers_words_cycles_and_holes(void **state)
{
    (void)state;
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_csv *csv = table_of(ctx, "n,w,d\n"
                                "1,b,2024-03-01T06:00\n"
                                ",a,2024-03-02T12:00\n"
                                "5,,NA\n"
                                "100,z,1970-01-01T00:00\n"
                                "9,b,2024-03-01T06:00\n");
    gd_frame frame = frame_of(ctx, csv);
    gd_columns columns;
    /* the rows with 100 and 9 are not learnt from: the median is 3, z is unknown */
    assert_int_equal(gd__columns_learn(ctx, &frame, (int64_t[]){0, 1, 2}, 3, &columns), GD_OK);
    assert_int_equal(columns.numbers, 2 + 3 + 8);
    assert_int_equal(columns.codes, 0);
    gd_tensor *x = gd__columns_apply(&columns, &frame);
    assert_non_null(x);
    double t = 2 * acos(-1.0), day = 19783.25, median = 19783.875; /* of 19783.25 and 19784.5 */
    const double want[5][13] = {
        {1, 0, 0, 1, 0, day, sin(t * day / 365.2425), cos(t * day / 365.2425), sin(t * 1 / 7), cos(t * 1 / 7),
         1, 0, 0},
        {3, 1, 1, 0, 0, day + 1.25, sin(t * 19784.5 / 365.2425), cos(t * 19784.5 / 365.2425), sin(t * 2 / 7),
         cos(t * 2 / 7), 0, -1, 0},
        {5, 0, 0, 0, 1, median, 0, 0, 0, 0, 0, 0, 1},
        {100, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0},
        {9, 0, 0, 1, 0, day, sin(t * day / 365.2425), cos(t * day / 365.2425), sin(t * 1 / 7), cos(t * 1 / 7),
         1, 0, 0},
    };
    for (int64_t i = 0; i < 5; i++)
        for (int64_t k = 0; k < 13; k++)
            if (!(fabs(gd_at(x, (int64_t[]){i, k}) - want[i][k]) < 1e-9))
                fail_msg("row %d, number %d: %g, want %g", (int)i, (int)k, gd_at(x, (int64_t[]){i, k}),
                         want[i][k]);
    /* only quantities are standardised */
    gd_scaling s;
    assert_int_equal(gd__columns_scaling(&columns, x, GD_SCALE_EACH, &s), GD_OK);
    for (int64_t k = 0; k < 13; k++) {
        bool quantity = k == 0 || k == 5;
        assert_true(quantity == (gd_at(s.scale, &k) != 1) && quantity == (gd_at(s.mean, &k) != 0));
    }
    assert_true(fabs(gd_at(s.mean, (int64_t[]){0}) - 23.6) < 1e-12);
    gd__scaling_close(&s);
    gd_release(x);
    gd__columns_close(&columns);
    gd__frame_close(&frame);
    gd__csv_free(csv);
    gd_ctx_free(ctx);
}

/* ---- learning from them ---- */

#define EXACT "--model linear --dtype f64 --batch 0 --epochs 300 --chain 'lbfgs | strong_wolfe' "

/* y = 2 x + a number for the word; where x is missing y is 7 + that number. */
static void put_words_and_holes(const char *name, bool target)
{
    static const char *const word[] = {"ash", "birch", "cedar"};
    static const double extra[] = {1, 5, -2};
    FILE *f = fopen(name, "w");
    fprintf(f, target ? "tree,x,y\n" : "x,other,tree\n");
    for (int i = 0; i < 60; i++) {
        int k = i % 3;
        double x = (i * 7) % 11 + 0.5;
        bool hole = i % 5 == 4;
        char cell[32] = "";
        if (!hole) snprintf(cell, sizeof cell, "%g", x);
        if (target)
            fprintf(f, "%s,%s,%g\n", word[k], cell, extra[k] + (hole ? 7 : 2 * x));
        else
            fprintf(f, "%s,17,%s\n", cell, word[k]);
    }
    fclose(f);
}

static void words_and_holes_are_learnt_and_known_in_other_tables(void **state)
{
    (void)state;
    put_words_and_holes("train.csv", true);
    works("train train.csv --target y --validation 0.2 " EXACT "--out m.safetensors");
    assert_non_null(strstr(out, "tree: 3 words\n"));
    assert_non_null(strstr(out, "x: a number; missing ones count as 5.5 and are marked\n"));
    works("predict m.safetensors train.csv --score --json");
    assert_true(json_number("rmse") < 1e-5);
    /* columns in another order, one more, an unknown word, holes */
    put("new.csv", "x,other,tree\n10,1,cedar\nNA,2,birch\n,3,ash\n4,4,yew\n4,5,\n");
    works("predict m.safetensors new.csv");
    double p[5];
    assert_int_equal(sscanf(out, "y\n%lf\n%lf\n%lf\n%lf\n%lf\n", &p[0], &p[1], &p[2], &p[3], &p[4]), 5);
    assert_true(fabs(p[0] - 18) < 1e-4 && fabs(p[1] - 12) < 1e-4 && fabs(p[2] - 8) < 1e-4);
    assert_true(p[3] == p[4] && isfinite(p[3])); /* neither word is one that was learnt */
    put("bad.csv", "tree,x\nash,1\nash,soon\n");
    fails("predict m.safetensors bad.csv", 1, "bad.csv: line 3, column 'x': 'soon' is not a number");
    put("bad.csv", "tree,x\nash,inf\n");
    fails("predict m.safetensors bad.csv", 1, "bad.csv: line 2, column 'x': 'inf' is not finite");
}

/* Sixty words: the model learns numbers for each; one that is there once is none of them. */
static void many_words_are_embedded(void **state)
{
    (void)state;
    FILE *f = fopen("towns.csv", "w");
    fprintf(f, "town,x,y\n");
    for (int i = 0; i < 360; i++) fprintf(f, "town%d,%d,%g\n", i % 60, i % 7, sin(i % 60) * 10 + i % 7);
    fprintf(f, "once,3,4\n");
    fclose(f);
    works("train towns.csv --target y --validation 0 --model 'mlp(16)' --epochs 60 --chain 'adam | lr(0.01)' "
          "--out t.safetensors");
    assert_non_null(strstr(out, "town: 60 words, 16 numbers are learnt for each\n"));
    works("predict t.safetensors towns.csv --score --json");
    assert_true(json_number("r2") > 0.98);
    put("new.csv", "x,town\n3,town1\n3,nowhere\n3,once\n3,\n");
    works("predict t.safetensors new.csv");
    double known, unknown, once, hole;
    assert_int_equal(sscanf(out, "y\n%lf\n%lf\n%lf\n%lf\n", &known, &unknown, &once, &hole), 4);
    assert_true(fabs(known - (sin(1) * 10 + 3)) < 2 && unknown == once && once == hole);
    fails("train towns.csv --target y --model 'conv(4)' --shape 2,1 --epochs 1", 2, "have no shape");
    /* what goes on is what was begun */
#define HALVES "train towns.csv --target y --model 'mlp(8)' --seed 3 "
    works(HALVES "--epochs 4 --out whole.safetensors");
    works(HALVES "--epochs 2 --out part.safetensors");
    works("train towns.csv --resume part.safetensors --epochs 4");
    assert_true(same_files("whole.safetensors", "part.safetensors"));
}

/* A weekly rhythm that no number of days since 1970 shows. */
static void dates_are_learnt_by_their_cycles(void **state)
{
    (void)state;
    FILE *f = fopen("sales.csv", "w");
    fprintf(f, "day,sales\n");
    for (int i = 0; i < 112; i++)
        fprintf(f, "2023-%02d-%02d,%.6f\n", 1 + i / 28, 1 + i % 28,
                20 + 3 * cos(2 * acos(-1.0) *
                             ((i / 28 * 28 + i % 28) + (i >= 28 ? 3 : 0) + (i >= 84 ? 3 : 0)) / 7.0));
    fclose(f);
    works("train sales.csv --target sales --task regress --validation 0 " EXACT "--out s.safetensors");
    assert_non_null(strstr(out, "day: date, part of the year and the week\n"));
    works("predict s.safetensors sales.csv --score --json");
    assert_true(json_number("r2") > 0.999);
    put("new.csv", "day\n2023-02-30\n");
    fails("predict s.safetensors new.csv", 1, "new.csv: line 2, column 'day': '2023-02-30' is not a date");
}

/* ---- what is left out, what is a class ---- */

static void columns_that_number_the_rows_are_left_out_with_a_word(void **state)
{
    (void)state;
    FILE *f = fopen("ids.csv", "w"), *g = fopen("grid.csv", "w");
    fprintf(f, "id,x,key,y\n");
    fprintf(g, "t,y\n");
    for (int i = 0; i < 40; i++) fprintf(f, "%d,%d,k%03d,%g\n", 1000 + i + i / 7, i % 9, i, 0.5 * (i % 9));
    for (int i = 0; i < 40; i++) fprintf(g, "%d,%g\n", 10 * i, 0.5 * i);
    fclose(f);
    fclose(g);
    works("train ids.csv --target y --task regress --epochs 1 --out m.safetensors");
    assert_non_null(strstr(out, "id: left out, it only numbers the rows"));
    assert_non_null(strstr(out, "key: left out, it only numbers the rows"));
    works("train ids.csv --target y --task regress --epochs 1 --json");
    assert_non_null(strstr(out, "\"features\": [\"x\"]"));
    assert_non_null(strstr(out, "\"ids\": [\"key\", \"id\"]"));
    put("new.csv", "x\n3\n"); /* and are not wanted */
    works("predict m.safetensors new.csv");
    works("train ids.csv --target y --features id,x --task regress --epochs 1 --json");
    assert_non_null(strstr(out, "\"features\": [\"id\", \"x\"]"));
    works("train grid.csv --target y --epochs 1 --json"); /* the only column; and steps of ten are a grid */
    assert_non_null(strstr(out, "\"ids\": []"));
}

static void few_whole_numbers_are_classes_unless_told_otherwise(void **state)
{
    (void)state;
    FILE *f = fopen("grades.csv", "w");
    fprintf(f, "x,grade,count\n");
    for (int i = 0; i < 60; i++) fprintf(f, "%d,%d,%d\n", i % 6, 1 + i % 6 / 2, i % 6 * 10 + i % 30);
    fclose(f);
    works("train grades.csv --target grade --features x --epochs 1 --json");
    assert_non_null(strstr(out, "\"classes\": [\"1\", \"2\", \"3\"]"));
    works("train grades.csv --target grade --features x --epochs 1");
    assert_non_null(strstr(out, "3 classes of grade (--task regress if they are quantities)"));
    works("train grades.csv --target grade --features x --task regress --epochs 1 --json");
    assert_non_null(strstr(out, "\"task\": \"regress\""));
    works("train grades.csv --target count --features x --epochs 1 --json"); /* thirty of them */
    assert_non_null(strstr(out, "\"task\": \"regress\""));
    works("train grades.csv --target count --features x --task class --epochs 1 --json");
    assert_non_null(strstr(out, "\"task\": \"classify\""));
    fails("train grades.csv --target grade --task odd", 2, "--task: 'odd' is none of: auto class regress");
}

static void a_few_cells_that_are_no_numbers_are_mistakes(void **state)
{
    (void)state;
    put("m.csv", "x,z,y\n1,5,1.5\n2,6,2.5\nx,7,3.5\n4,8,4.5\n5,9,5.5\n6,1,6.5\n");
    fails(
        "train m.csv --target y --epochs 1", 1,
        "m.csv: line 4, column 'x': 'x' is not a number, as 5 other cells are (--text 'x' if all are words)");
    works("train m.csv --target y --text x --epochs 1");
    assert_non_null(strstr(out, "x: 6 words"));
    fails("train m.csv --target y --text u --epochs 1", 2, "no column 'u'");
    fails("train m.csv --target y --text z --ignore x,z --epochs 1", 2, "no column is left to learn from");
    fails("train m.csv --target y --text x --text z --ignore z --epochs 1", 2,
          "--text 'z': nothing is learnt from that column");
    FILE *f = fopen("names.csv", "w");
    fprintf(f, "name,x,y\n");
    for (int i = 0; i < 60; i++) fprintf(f, "n%d,%d,%d.5\n", i, i % 5, i);
    fclose(f);
    fails("train names.csv --target y --features name,x --epochs 1", 1,
          "column 'name': no word is there twice: nothing to learn from; leave it out with --ignore 'name'");
}

/* ---- the validation ---- */

/* One row in ten is of the rare class: so is one in ten of those to validate with, for every seed. */
static void validation_has_its_share_of_each_class(void **state)
{
    (void)state;
    gd_ctx *ctx = gd_ctx_new(NULL);
    int64_t of[200], order[200], apart;
    for (int i = 0; i < 200; i++) of[i] = i == 77 ? 2 : i % 10 == 3;
    gd_classes classes = {of, 3};
    bool first[200] = {false};
    for (int seed = 0; seed < 20; seed++) {
        int count[3] = {0}, seen[200] = {0};
        assert_int_equal(gd__split_rows(ctx, order, 200, seed, 0.2, &classes, &apart), GD_OK);
        for (int64_t i = 0; i < apart; i++) count[of[order[i]]]++;
        for (int i = 0; i < 200; i++) seen[order[i]]++;
        for (int i = 0; i < 200; i++) assert_int_equal(seen[i], 1);
        assert_true(apart >= 39 && apart <= 40 && count[1] >= 3 && count[1] <= 5 && !count[2]);
        for (int64_t i = 0; i < apart; i++) first[order[i]] = true;
    }
    int met = 0;
    for (int i = 0; i < 200; i++) met += first[i];
    assert_true(met > 150); /* other seeds, other rows */
    /* every row is in one fold */
    int times[200] = {0};
    for (int64_t k = 0; k < 5; k++) {
        int rare = 0;
        assert_int_equal(gd__split_fold(ctx, order, 200, 1, 5, k, &classes, &apart), GD_OK);
        assert_int_equal(apart, 40);
        for (int64_t i = 0; i < apart; i++) times[order[i]]++, rare += of[order[i]] == 1;
        assert_int_equal(rare, 4);
    }
    for (int i = 0; i < 200; i++) assert_int_equal(times[i], 1);
    gd_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_seconds_of_the_calendar),
        cmocka_unit_test(rows_are_numbers_words_cycles_and_holes),
        PROGRAM_TEST(words_and_holes_are_learnt_and_known_in_other_tables),
        PROGRAM_TEST(many_words_are_embedded),
        PROGRAM_TEST(dates_are_learnt_by_their_cycles),
        PROGRAM_TEST(columns_that_number_the_rows_are_left_out_with_a_word),
        PROGRAM_TEST(few_whole_numbers_are_classes_unless_told_otherwise),
        PROGRAM_TEST(a_few_cells_that_are_no_numbers_are_mistakes),
        cmocka_unit_test(validation_has_its_share_of_each_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
