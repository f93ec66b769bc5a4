/* gradus train: which rows it is judged by (--split), by what measure columns matter, and keys of rows that predict keeps. */
#include "train/data/row_split.h"
#include "cli/program.h"

#define LINEAR " --model linear --epochs 40 --task regress "

/* Days in no order; what is to be predicted follows the day, and in the last quarter goes the other way. */
static void put_days(void)
{
    FILE *f = fopen("d.csv", "w");
    fprintf(f, "day,who,x,y\n");
    for (int i = 0; i < 80; i++) {
        int k = i * 37 % 80;
        fprintf(f, "2024-%02d-%02d,w%d,%d,%g\n", 1 + k / 28, 1 + k % 28, k % 8, k % 7,
                k < 60 ? k : 120 - 2.5 * k);
    }
    fclose(f);
}

static void rows_to_validate_with_may_be_the_last_ones(void **state)
{
    (void)state;
    put_days();
    works("train d.csv --target y" LINEAR "--split random --validation 0.25 --json");
    double at_random = json_number_in("validation", "r2");
    assert_non_null(strstr(out, "\"split\": \"random\""));
    works("train d.csv --target y" LINEAR "--split ordered --validation 0.25 --json");
    assert_int_equal((int)json_number("validation_rows"), 20);
    double later = json_number_in("validation", "r2");
    if (!(at_random > 0 && later < at_random - 1)) fail_msg("R2 %g at random, %g later", at_random, later);
    works("train d.csv --target y" LINEAR "--split ordered");
    assert_non_null(strstr(out, "validated by the last rows in the order of day\n"));
    works("train d.csv --target y --ignore day" LINEAR "--split ordered");
    assert_non_null(strstr(out, "validated by the last rows of the file\n"));
    works("train d.csv --target y --ignore day" LINEAR "--split ordered:day --validation 0.25 --json");
    assert_true(json_number_in("validation", "r2") < 0);
    works("train d.csv --target y" LINEAR "--split ordered --validation 0.25 --folds 3 --json");
}

static void dates_split_at_random_are_warned_of(void **state)
{
    (void)state;
    put_days();
    static const char *const told[] = {"train d.csv --target y" LINEAR,
                                       "train d.csv --target y --folds 2" LINEAR};
    for (int i = 0; i < COUNT_OF(told); i++) {
        assert_int_equal(gradus(told[i]), 0);
        assert_non_null(strstr(
            err, "warning: train: column 'day' holds dates, and the rows to validate with are chosen at "
                 "random"));
        assert_non_null(strstr(err, "--split ordered"));
    }
    works("train d.csv --target y --validation 0" LINEAR);
    works("train d.csv --target y --ignore day" LINEAR);
    works("train d.csv --target y --split random" LINEAR);
    works("train d.csv --target y --split group:who" LINEAR);
}

static void a_resumed_run_has_the_split_of_its_file(void **state)
{
    (void)state;
    put_days();
    works(
        "train d.csv --target y --model linear --epochs 4 --split group:who --validation 0.25 --out whole.safetensors");
    works(
        "train d.csv --target y --model linear --epochs 2 --split group:who --validation 0.25 --out half.safetensors");
    works("train d.csv --resume half.safetensors --epochs 4");
    assert_true(same_files("whole.safetensors", "half.safetensors"));
    fails("train d.csv --resume half.safetensors --epochs 5 --split ordered", 2,
          "--split is 'ordered', half.safetensors was made with 'group:who'");
}

static void what_no_rows_are_told_apart_by_is_named(void **state)
{
    (void)state;
    put_days();
    fails("train d.csv --target y --split later", 2,
          "--split: 'later' is none of random, ordered, ordered:COLUMN and group:COLUMN");
    fails("train d.csv --target y --split group", 2, "none of random");
    fails("train d.csv --target y --split random:x", 2, "none of random");
    fails("train d.csv --target y --split group:z", 2, "no column 'z'");
    fails("train d.csv --target y --split ordered:who", 2, "column 'who' holds words, which order no rows");
    fails("train d.csv --target y --split ordered --validation 0", 2, "--split wants rows to validate with");
    fails("train d.csv --target y --split group:who --folds 9 --epochs 1", 1, "--split finds 8 groups");
    fails("train d.csv --target y --split group:who --stream", 2, "wants the data in memory");
    put("one.csv", "x,g,y\n1,a,1.5\n2,a,2.5\n3,a,3.5\n4,a,4.5\n");
    fails("train one.csv --target y --split group:g --validation 0.5 --epochs 1", 2,
          "column 'g' has one group");
    put("hole.csv", "x,g,y\n1,a,1.5\n2,,2.5\n3,b,3.5\n4,b,4.5\n");
    fails("train hole.csv --target y --split group:g --validation 0.5 --epochs 1", 1,
          "row 2, column 'g': missing");
}

static void streams_are_validated_by_their_last_blocks(void **state)
{
    (void)state;
    FILE *f = fopen("s.csv", "w");
    fprintf(f, "x,y\n");
    for (int i = 0; i < 60000; i++) fprintf(f, "%d,%d.5\n", i % 7, i < 54000 ? i % 7 : 1000);
    fclose(f);
    works("train s.csv --target y --model linear --task regress --epochs 1 --stream --split ordered --json");
    assert_true(json_number_in("validation", "mae") > 500);
}

/* ---- the rows ---- */

/* Every row once; groups on one side; ordered ones after those learnt from. */
static void parts_keep_groups_and_order(void **state)
{
    (void)state;
    enum { ROWS = 200 };
    gd_ctx *ctx = gd_ctx_new(NULL);
    double group[ROWS], time[ROWS];
    int64_t order[ROWS], apart, learn;
    for (int i = 0; i < ROWS; i++) group[i] = i * i % 23, time[i] = i * 77 % ROWS / 2;
    for (int seed = 0; seed < 10; seed++) {
        gd_row_split by_group = {.kind = GD_SPLIT_GROUP, .key = group, .seed = seed},
                     by_time = {.kind = GD_SPLIT_ORDERED, .key = time, .seed = seed};
        assert_int_equal(gd__split_by(ctx, &by_group, order, ROWS, 0.2, &apart), GD_OK);
        assert_true(apart >= 20 && apart <= 60);
        for (int64_t a = 0; a < apart; a++)
            for (int64_t b = apart; b < ROWS; b++) assert_true(group[order[a]] != group[order[b]]);
        assert_int_equal(gd__split_by(ctx, &by_time, order, ROWS, 0.21, &apart), GD_OK);
        assert_true(apart >= 40 && apart <= 42);
        for (int64_t a = 0; a < apart; a++)
            for (int64_t b = apart; b < ROWS; b++) assert_true(time[order[a]] > time[order[b]]);
        int times[ROWS] = {0};
        for (int64_t k = 0; k < 4; k++) {
            assert_int_equal(gd__split_by_fold(ctx, &by_group, order, ROWS, 4, k, &apart, &learn), GD_OK);
            assert_int_equal(apart + learn, ROWS);
            for (int64_t a = 0; a < apart; a++) times[order[a]]++;
            for (int64_t a = 0; a < apart; a++)
                for (int64_t b = apart; b < ROWS; b++) assert_true(group[order[a]] != group[order[b]]);
            assert_int_equal(gd__split_by_fold(ctx, &by_time, order, ROWS, 4, k, &apart, &learn), GD_OK);
            assert_true(apart >= 38 && apart <= 42 && llabs(learn - 40 * (k + 1)) <= 2);
            for (int64_t a = 0; a < apart; a++)
                for (int64_t b = apart; b < apart + learn; b++) assert_true(time[order[a]] > time[order[b]]);
        }
        for (int i = 0; i < ROWS; i++) assert_int_equal(times[i], 1);
    }
    gd_ctx_free(ctx);
}

/* ---- importance ---- */

static void importance_is_by_the_measure_of_stop_on(void **state)
{
    (void)state;
    static const struct {
        const char *stop_on, *of;
    } rows[] = {
        {"", "accuracy"}, {"--stop-on loss", "loss"}, {"--stop-on f1", "f1"}, {"--stop-on auc", "auc"}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        char command[300], of[60];
        snprintf(command, sizeof command,
                 "train " DATA "flowers.csv --target kind --epochs 20 --importance --json %s",
                 rows[i].stop_on);
        works(command);
        snprintf(of, sizeof of, "\"importance_of\": \"%s\"", rows[i].of);
        assert_non_null(strstr(out, of));
        const char *first = strstr(out, "\"importance\": [");
        assert_non_null(first);
        assert_true(strtod(strstr(first, "\"mean\": ") + 8, NULL) > 0); /* worse, though a loss then grows */
    }
    works("train " DATA "decay.csv --target y --epochs 2 --importance --stop-on rmse");
    assert_non_null(strstr(out, "rmse gained when a column is shuffled"));
}

/* ---- keys ---- */

static void predictions_keep_the_keys_of_their_rows(void **state)
{
    (void)state;
    put("t.csv", "id,t,y\n\"a, b\",0,1.1\nNA,1,2.9\n007,2,5.2\nu,3,6.8\n");
    works("fit 'a+b*t' t.csv --param a=0 --param b=1 --out f.safetensors");
    works("predict f.safetensors t.csv --keep id,t");
    assert_memory_equal(out, "id,t,y,confidence_low,", 22);
    assert_non_null(strstr(out, "\n\"a, b\",0,") ? strstr(out, "\nNA,1,") : NULL);
    assert_non_null(strstr(out, "\n007,2,"));
    works("predict f.safetensors t.csv --keep id --json");
    assert_non_null(strstr(out, "\"kept\": {\"id\": [\"a, b\", \"NA\", \"007\", \"u\"]}"));
    works("train t.csv --target y --features t --model linear --epochs 1 --out m.safetensors");
    works("predict m.safetensors t.csv --keep id --keep t");
    assert_memory_equal(out, "id,t,y\n\"a, b\",0,", 16);
    works("predict m.safetensors t.csv --keep id --json");
    assert_non_null(strstr(out, "\"kept\": {\"id\": [\"a, b\", \"NA\", \"007\", \"u\"]}"));
    fails("predict m.safetensors t.csv --keep z", 2, "no column 'z'");
    fails("predict m.safetensors t.csv --keep id,id", 2, "--keep 'id': the column is named twice");
    fails("predict m.safetensors t.csv --keep y", 2, "--keep 'y': the predictions have that name");
    fails("predict f.safetensors t.csv --keep y", 2, "--keep 'y': the predictions have that name");
    fails("predict m.safetensors t.csv --score --keep id", 2, "--score prints no predictions for --keep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(rows_to_validate_with_may_be_the_last_ones),
        PROGRAM_TEST(dates_split_at_random_are_warned_of),
        PROGRAM_TEST(a_resumed_run_has_the_split_of_its_file),
        PROGRAM_TEST(what_no_rows_are_told_apart_by_is_named),
        PROGRAM_TEST(streams_are_validated_by_their_last_blocks),
        cmocka_unit_test(parts_keep_groups_and_order),
        PROGRAM_TEST(importance_is_by_the_measure_of_stop_on),
        PROGRAM_TEST(predictions_keep_the_keys_of_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
