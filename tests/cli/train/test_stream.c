/* gradus train --stream: tables and arrays read in blocks, again and again. */
#include "table/scan_rows.h"

#include "cli/program.h"

#include "gradus/file.h"

#include <sys/resource.h>

/* ---- the fast reader is the other one ---- */

static const char *const texts[] = {
    "1,2,u\n3,4,v\n",
    "1.5,-2.25e3,u\r\n-0.1,1E-5,v\r\n",
    "  1 ,\t2 , a b \n,NA,\nnan,0.1234567890123456789,z",
    "123456789012345678901234567890,0.000000000000000000000000000001,x\n9007199254740993,-9007199254740992.5,y\n",
    "1,2,\"u, \"\"v\"\"\"\n\"3\",4,\"two\nlines\"\n5,6,w\n",
    "\n\n1,2,u\n   \n3,4,v\n\n",
    "+1,.5,u\n5.,1e22,v\n1e23,4.9e-324,w\n1e-400,0.3,x\n",
    "0.1,0.2,q\n0.30000000000000004,179769313486231570000000000000000000000,r\n",
};

static gd_frame frame_by_table(gd_ctx *ctx, const char *text, const gd_cells *kind)
{
    gd_csv_options o = {.separator = ',', .no_header = true};
    gd_csv *csv = gd__csv_parse(ctx, "t.csv", text, strlen(text), &o);
    assert_non_null(csv);
    gd_frame f;
    if (gd__frame_read(ctx, csv, (int[]){0, 1, 2}, 3, kind, &f)) fail_msg("%s: %s", text, gd_error_text(ctx));
    gd__csv_free(csv);
    return f;
}

static void the_fast_reader_gives_the_bits_of_the_other_one(void **state)
{
    (void)state;
    gd_ctx *ctx = gd_ctx_new(NULL);
    const gd_cells kind[] = {GD_CELLS_NUMBERS, GD_CELLS_NUMBERS, GD_CELLS_WORDS};
    const gd_table_layout layout = {"t.csv", ',', 0, 3, (const char *const[]){"a", "b", "c"}, NULL};
    for (int i = 0; i < COUNT_OF(texts); i++) {
        gd_frame want = frame_by_table(ctx, texts[i], kind), got;
        if (gd__scan_rows(ctx, &layout, texts[i], strlen(texts[i]), 1, (int[]){0, 1, 2}, kind, 3, &got))
            fail_msg("%s: %s", texts[i], gd_error_text(ctx));
        assert_int_equal(got.rows, want.rows);
        for (int k = 0; k < 3; k++) {
            for (int64_t row = 0; row < want.rows; row++) {
                double a = want.column[k].value[row], b = got.column[k].value[row];
                if (memcmp(&a, &b, sizeof a) != 0 && !(isnan(a) && isnan(b)))
                    fail_msg("%s: row %d, column %d: %.17g, want %.17g", texts[i], (int)row, k, b, a);
            }
            assert_int_equal(got.column[k].words.count, want.column[k].words.count);
            for (int w = 0; w < got.column[k].words.count; w++)
                assert_string_equal(got.column[k].words.word[w], want.column[k].words.word[w]);
        }
        gd__frame_close(&want);
        gd__frame_close(&got);
    }
    static const struct {
        const char *text, *error;
    } bad[] = {{"1,2,u\n3,4\n", "t.csv: line 8: 2 cells, but the first line has 3"},
               {"1,2,u\n3,4,v,5\n", "t.csv: line 8: 4 cells, but the first line has 3"},
               {"1,2,u\n\n3,4x,v\n", "t.csv: line 9, column 'b': '4x' is not a number"},
               {"1,inf,u\n", "t.csv: line 7, column 'b': 'inf' is not finite"},
               {"1,2,\xff\n", "t.csv: line 7, column 'c'"},
               {"1,2,\"u\n", "quote is never closed"}};
    for (int i = 0; i < COUNT_OF(bad); i++) {
        gd_frame got;
        assert_int_equal(
            gd__scan_rows(ctx, &layout, bad[i].text, strlen(bad[i].text), 7, (int[]){0, 1, 2}, kind, 3, &got),
            GD_FORMAT);
        if (!strstr(gd_error_text(ctx), bad[i].error)) fail_msg("%s: %s", bad[i].text, gd_error_text(ctx));
        gd_clear_error(ctx);
        gd__frame_close(&got);
    }
    gd_ctx_free(ctx);
}

/* ---- learning ---- */

/* Rows whose class is decided by two numbers and a word, one class after the other in the file. */
static void put_rows(const char *name, int rows, bool sorted)
{
    FILE *f = fopen(name, "w");
    uint32_t seed = 3;
    assert_non_null(f);
    fprintf(f, "# made by a test\na,b,word,y\n");
    for (int i = 0; i < rows; i++) {
        double v[2];
        for (int k = 0; k < 2; k++) {
            seed = seed * 1664525u + 1013904223u;
            v[k] = (seed >> 8) / 8388608.0 - 1;
        }
        if (sorted) v[0] = i < rows / 2 ? -fabs(v[0]) : fabs(v[0]);
        bool up = v[0] > 0;
        if (i % 50 == 7)
            fprintf(f, ",%.5f,%s,%s\n", v[1], up ? "no" : "yes", up ? "high" : "low");
        else
            fprintf(f, "%.5f,%.5f,%s,%s\n", v[0], v[1],
                    i % 3 ? "maybe"
                    : up  ? "no"
                          : "yes",
                    up ? "high" : "low");
    }
    fclose(f);
}

#define SMALL "--model 'mlp(8)' --epochs 3 "

static void a_streamed_table_is_learnt_also_where_it_is_sorted(void **state)
{
    (void)state;
    for (int sorted = 0; sorted < 2; sorted++) {
        put_rows("t.csv", 8000, sorted);
        works("train t.csv --target y --stream " SMALL "--out m.safetensors --importance");
        assert_non_null(strstr(out, "  read in "));
        assert_non_null(strstr(out, "word: 3 words"));
        works("predict m.safetensors t.csv --score --json");
        assert_true(json_number("rows") == 8000 && json_number("accuracy") > 0.97);
    }
    works("train t.csv --target b --ignore y --stream " SMALL "--json --loss huber --validation 0.2");
    assert_true(json_number("rows") + json_number("validation_rows") == 8000 &&
                json_number("validation_rows") > 800);
    works("train t.csv --target b --ignore y --stream " SMALL "--validation 0");
}

static void a_streamed_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    put_rows("t.csv", 3000, false);
#define RUN "train t.csv --target y --stream --model 'mlp(8, dropout=0.1)' --seed 4 "
    works(RUN "--epochs 4 --out whole.safetensors --trace whole.jsonl");
    works(RUN "--epochs 1 --out part.safetensors --trace part.jsonl");
    works("train t.csv --resume part.safetensors --epochs 4 --trace part.jsonl --threads 1");
    assert_true(same_files("whole.safetensors", "part.safetensors") &&
                same_files("whole.jsonl", "part.jsonl"));
    /* in the middle of an epoch */
    works(RUN "--epochs 1000000 --time 0.3 --out cut.safetensors --json");
    char arguments[300];
    int epochs = (int)json_number("epochs") + 2;
    snprintf(arguments, sizeof arguments, "train t.csv --resume cut.safetensors --epochs %d", epochs);
    works(arguments);
    snprintf(arguments, sizeof arguments, RUN "--epochs %d --out whole.safetensors", epochs);
    works(arguments);
    assert_true(same_files("whole.safetensors", "cut.safetensors"));
    put_rows("t.csv", 3001, false);
    fails("train t.csv --resume part.safetensors --epochs 5", 2,
          "not the data that part.safetensors was trained on");
}

/* A rate that soon makes things worse: the best epoch is long past when the run goes on, and is not forgotten. */
static void a_streamed_run_that_goes_on_keeps_its_best_epoch(void **state)
{
    (void)state;
    put_rows("t.csv", 3000, false);
#define WORSE "train t.csv --target y --stream --model 'mlp(8)' --seed 4 --chain 'adam | lr(0.5)' --json "
    works(WORSE "--epochs 12 --out whole.safetensors");
    double best = json_number("best_epoch");
    works(WORSE "--epochs 9 --out part.safetensors");
    assert_true(best > 0 && best < 9 && json_number("best_epoch") == best);
    works("train t.csv --resume part.safetensors --epochs 12 --json");
    assert_true(json_number("best_epoch") == best);
    assert_true(same_files("whole.safetensors", "part.safetensors"));
#undef WORSE
}

static void arrays_are_streamed(void **state)
{
    (void)state;
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_randn(ctx, GD_F32, 2, (int64_t[]){6000, 3});
    gd_tensor *y = gd_matmul(gd_cast(x, GD_F64), MATRIX(ctx, 3, 2, 1, 2, -1, 0.5, 0, 3));
    gd_tensor *k = gd_cast(gd_gt(gd_index(y, "1", 0), gd_scalar(ctx, GD_F64, 0)), GD_I64);
    gd_archive *archive = gd_archive_new(ctx);
    assert_int_equal(gd_npy_save(x, "x.npy") | gd_npy_save(y, "y.npy") | gd_npy_save(k, "k.npy"), GD_OK);
    assert_int_equal(gd_archive_put(archive, "x", x) | gd_archive_put(archive, "y", y), GD_OK);
    assert_int_equal(gd_archive_save(archive, "xy.safetensors"), GD_OK);
    gd_archive_free(archive);
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
    works(
        "train x.npy --target y.npy --stream --model linear --chain 'adam | lr(0.05)' --epochs 4 --out m.safetensors");
    works("predict m.safetensors x.npy --target y.npy --score --json");
    assert_true(json_number("r2") > 0.999);
    works(
        "train xy.safetensors:x --target xy.safetensors:y --stream --model linear --chain 'adam | lr(0.05)' --epochs 4 "
        "--out s.safetensors");
    assert_int_equal(system("cmp m.safetensors s.safetensors >cmp.txt; true"), 0);
    works("predict s.safetensors x.npy --target y.npy --score --json");
    assert_true(json_number("r2") > 0.999);
    works("train x.npy --target k.npy --stream " SMALL "--out k.safetensors");
    works("predict k.safetensors x.npy --target k.npy --score --json");
    assert_true(json_number("accuracy") > 0.98);
    fails("train xy.safetensors:z --target y.npy --stream", 2, "has no tensor 'z'");
    put("bad.npy", "no array");
    fails("train bad.npy --target y.npy --stream", 1, "bad.npy");
}

/* ---- memory ---- */

static long peak_kilobytes(const char *arguments)
{
    char command[512];
    snprintf(command, sizeof command, "exec %s %s >stdout.txt 2>stderr.txt", GD_CLI, arguments);
    struct rusage usage;
    int status;
    pid_t child = fork();
    if (!child) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_true(wait4(child, &status, 0, &usage) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return usage.ru_maxrss;
}

static void memory_does_not_grow_with_the_table(void **state)
{
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); /* a sanitizer keeps memory that was freed: the peak is not the program's */
#endif
    put_rows("few.csv", 500000, false);
    assert_int_equal(system("(cat few.csv; for i in 1 2 3; do tail -n +3 few.csv; done) >many.csv"), 0);
    const char *run = "train %s --target y --stream --model linear --epochs 1 --threads 1 --batch 512";
    char arguments[200];
    snprintf(arguments, sizeof arguments, run, "few.csv");
    long few = peak_kilobytes(arguments);
    snprintf(arguments, sizeof arguments, run, "many.csv");
    long many = peak_kilobytes(arguments);
    print_message("%ld KB, four times the rows %ld KB\n", few, many);
    assert_true((double)many < 1.15 * (double)few);
}

/* ---- mistakes ---- */

static void mistakes_far_down_are_named(void **state)
{
    (void)state;
    put_rows("t.csv", 3000, false);
    assert_int_equal(
        system(
            "cp t.csv cell.csv; echo '1,x,yes,low' >>cell.csv; cp t.csv row.csv; echo '1,2,yes' >>row.csv; "
            "cp t.csv hole.csv; echo '1,2,yes,' >>hole.csv; cp t.csv class.csv; echo '1,2,yes,middle' >>class.csv; "
            "gzip -k t.csv; printf '1,\\0,yes,low\\n' >zero; cat t.csv zero >zero.csv"),
        0);
    assert_int_equal(gradus("train cell.csv --target y --stream --validation 0 " SMALL), 1);
    assert_non_null(strstr(err, "cell.csv: line 3003, column 'b': 'x' is not a number"));
    fails("train row.csv --target y --stream " SMALL, 1, "row.csv: line 3003: 3 cells");
    fails("train hole.csv --target y --stream " SMALL, 1, "column 'y': the cell is empty");
    fails("train zero.csv --target y --stream " SMALL, 1, "a zero byte: this is not a text file");
    works("train class.csv --target y --stream " SMALL "--json"); /* a class that is there once */
    assert_non_null(strstr(out, "\"classes\": [\"high\", \"low\", \"middle\"]"));
    fails("train t.csv.gz --target y --stream", 2, "a packed file cannot be read again and again");
    fails("train - --target y --stream <t.csv", 2, "standard input cannot be read again and again");
    fails("train t.csv --target y --stream --encoding latin1", 2, "only UTF-8 can be streamed");
    put("cr.csv", "x,y\r1,2\r2,3\r3,4\r");
    fails("train cr.csv --target y --stream", 2, "cr.csv: lines that end in CR alone cannot be streamed");
    fails("train t.csv --target y --stream --folds 3", 2, "--folds wants the data in memory");
    fails("train nowhere.csv --target y --stream", 1, "nowhere.csv: cannot open");
    fails("train t.csv --target z --stream", 2, "t.csv: no column 'z'");
    put("empty.csv", "");
    fails("train empty.csv --target y --stream", 1, "empty.csv: the file is empty");
    put("small.csv", "x,y\n1,2.5\n2,3.5\n3,4.5\n4,5.5\n");
    works("train small.csv --target y --stream --epochs 1"); /* a single block: nothing to validate with */
    assert_non_null(strstr(out, "4 rows to learn from, 0 to validate"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fast_reader_gives_the_bits_of_the_other_one),
        PROGRAM_TEST(a_streamed_table_is_learnt_also_where_it_is_sorted),
        PROGRAM_TEST(a_streamed_run_goes_on_with_the_same_bits),
        PROGRAM_TEST(a_streamed_run_that_goes_on_keeps_its_best_epoch),
        PROGRAM_TEST(arrays_are_streamed),
        PROGRAM_TEST(memory_does_not_grow_with_the_table),
        PROGRAM_TEST(mistakes_far_down_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
