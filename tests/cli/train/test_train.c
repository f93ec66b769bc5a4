/* gradus train and gradus predict: what is learnt, and that a run that was stopped goes on with the same bits. */
#include "cli/program.h"

#include "gradus/file.h"

#include <signal.h>

#define SPIRALS "train " DATA "spirals.csv --target arm "
#define FLOWERS "train " DATA "flowers.csv --target kind --model 'mlp(16, dropout=0.2)' "

/* ---- what the README states ---- */

/* Three seeds, points that were not trained on. */
static void the_shipped_classifier_tells_the_spirals_apart(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 3; seed++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments,
                 SPIRALS "--chain 'adam | lr(0.01)' --epochs 40 --validation 0.25 --seed %d --json", seed);
        works(arguments);
        assert_true(json_number("validation_rows") == 150);
        double accuracy = json_number_in("validation", "accuracy");
        if (!(accuracy >= 0.98)) fail_msg("seed %d: accuracy %g", seed, accuracy);
    }
}

static void a_convolution_reads_digits_from_packed_images(void **state)
{
    (void)state;
    works(
        "train " DATA "digits-images.idx3-ubyte.gz --target " DATA "digits-labels.idx1-ubyte.gz "
        "--model 'conv(8, 16, dense=32)' --chain 'clip_norm(1) | adam | weight_decay(0.01) | lr(0.01)' --epochs 8 "
        "--out digits.safetensors --json");
    assert_true(json_number_in("validation", "accuracy") >= 0.95);
    works("predict digits.safetensors " DATA "digits-images.idx3-ubyte.gz --target " DATA
          "digits-labels.idx1-ubyte.gz --score --json");
    assert_true(json_number("rows") == 1000 && json_number("accuracy") >= 0.97);
    works("predict digits.safetensors " DATA "digits-images.idx3-ubyte.gz");
    assert_true(!strncmp(out, "prediction,probability\n", 23));
}

/* ---- known answers ---- */

static const char line_data[] = "x,y,s\n0,1.1,1\n1,2.9,1\n2,5.2,2\n3,6.8,2\n4,9.1,1\n";

/* The straight line of least squares, from its closed form. */
static void a_linear_model_is_the_regression_line(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works(
        "train line.csv --target y --features x --model linear --batch 0 --validation 0 --dtype f64 --epochs 60 "
        "--chain 'lbfgs | strong_wolfe' --out line.safetensors");
    put("new.csv", "other,x\ntext,10\n,-2.5\n");
    works("predict line.safetensors new.csv");
    double at10, below;
    assert_int_equal(sscanf(out, "y\n%lf\n%lf\n", &at10, &below), 2);
    assert_true(fabs(at10 - (1.04 + 1.99 * 10)) < 1e-6);
    assert_true(fabs(below - (1.04 - 1.99 * 2.5)) < 1e-6);
    works("predict line.safetensors line.csv --score --json");
    assert_true(fabs(json_number("rmse") - sqrt(0.107 / 5)) < 1e-6);
    assert_true(fabs(json_number("r2") - 0.9973053289009771) < 1e-6);
    works("predict line.safetensors new.csv --json");
    assert_non_null(strstr(out, "\"predictions\": [20.9"));
}

/* The score is what counting the predictions gives, and the probabilities are probabilities. */
static void scores_agree_with_the_predictions(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 4 --out f.safetensors");
    works("predict f.safetensors " DATA "flowers.csv --score --json");
    double accuracy = json_number("accuracy");
    works("predict f.safetensors " DATA "flowers.csv --probabilities --out p.csv");
    assert_true(!*out);
    FILE *table = fopen(DATA "flowers.csv", "r"), *predictions = fopen("p.csv", "r");
    char line[200], kind[40], guess[40];
    assert_true(table && predictions && fgets(line, sizeof line, table));
    assert_true(fgets(line, sizeof line, predictions));
    assert_string_equal(line, "kind,probability,p(amber),p(ruby),p(violet)\n");
    int rows = 0, right = 0;
    double p, a, r, v;
    while (fscanf(table, "%*f,%*f,%*f,%*f,%39s\n", kind) == 1) {
        assert_int_equal(fscanf(predictions, "%39[^,],%lf,%lf,%lf,%lf\n", guess, &p, &a, &r, &v), 5);
        assert_true(fabs(a + r + v - 1) < 1e-6 && p == fmax(a, fmax(r, v)));
        right += !strcmp(kind, guess);
        rows++;
    }
    fclose(table);
    fclose(predictions);
    assert_int_equal(rows, 240);
    assert_true(fabs(accuracy - (double)right / rows) < 1e-12);
}

/* ---- the same bits ---- */

/* A run in two parts, with options for both; `device` is among them where it is not the CPU. */
static void resumed_equals_uninterrupted(const char *options, const char *device)
{
    char arguments[1024];
    snprintf(arguments, sizeof arguments, "%s --epochs 6 --out whole.safetensors --trace whole.jsonl",
             options);
    works(arguments);
    snprintf(arguments, sizeof arguments, "%s --epochs 2 --out part.safetensors --trace part.jsonl", options);
    works(arguments);
    assert_false(same_files("-s whole.safetensors", "part.safetensors"));
    char data[256];
    assert_int_equal(sscanf(options, "train %255s", data), 1);
    snprintf(arguments, sizeof arguments,
             "train %s --resume part.safetensors --epochs 6 --trace part.jsonl %s", data, device);
    works(arguments);
    assert_true(same_files("whole.safetensors", "part.safetensors"));
    assert_true(same_files("whole.jsonl", "part.jsonl"));
}

static void going_on_gives_the_same_bits(void **state)
{
    (void)state;
    resumed_equals_uninterrupted(
        FLOWERS "--patience 50 --chain 'clip_norm(1) | adam | weight_decay(0.01) | lr(0.01)' "
                "--schedule 'lr=warmup(10, cosine(0.02, 0.001, 60))'",
        "");
    resumed_equals_uninterrupted(
        FLOWERS "--dtype f64 --batch 0 --validation 0 --chain 'lbfgs | strong_wolfe'", "");
    resumed_equals_uninterrupted(FLOWERS "--group 'out.*: lr=0.5' --seed 5", "");
    resumed_equals_uninterrupted(
        FLOWERS "--group 'axes>=2: chain=[nag(0.9) | orthogonalize | lr(0.01)], momentum=0.8' --seed 5", "");
    put("line.csv", line_data);
    resumed_equals_uninterrupted(
        "train line.csv --target y --model 'mlp(8)' --batch 2 --chain 'heavy_ball(0.9) | lr(0.05)'", "");
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 3 --threads 1 --out a.safetensors");
    works(FLOWERS "--epochs 3 --threads 3 --out b.safetensors");
    assert_true(same_files("a.safetensors", "b.safetensors"));
    works(FLOWERS "--epochs 3 --seed 1 --out c.safetensors");
    assert_false(same_files("-s a.safetensors", "c.safetensors"));
}

/* Starts a long run, ends it with a signal once it is under way, and gives the epochs it has done. */
static int64_t stop_a_run(const char *arguments, const char *signal_name, int exit_code)
{
    for (double seconds = 0.15; seconds < 20; seconds *= 2) {
        char command[2048];
        snprintf(command, sizeof command, "rm -f cut.*; timeout -s %s %g %s %s >stdout.txt 2>stderr.txt",
                 signal_name, seconds, GD_CLI, arguments);
        int status = system(command);
        slurp("stderr.txt", err, sizeof err);
        slurp("cut.jsonl", out, sizeof out);
        if (!exists("cut.safetensors") || !*out) continue;
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == exit_code);
        int64_t epochs = 0;
        for (const char *s = out; (s = strchr(s, '\n')); s++) epochs++;
        return epochs;
    }
    fail_msg("the run could not be stopped: %s", err);
    return 0;
}

static void after_the_stop(int64_t epochs, const char *more)
{
    char arguments[1024];
    snprintf(arguments, sizeof arguments,
             "train " DATA "spirals.csv --resume cut.safetensors --trace cut.jsonl --epochs %lld",
             (long long)epochs + 2);
    works(arguments);
    snprintf(arguments, sizeof arguments,
             SPIRALS "%s --epochs %lld --out whole.safetensors --trace whole.jsonl", more,
             (long long)epochs + 2);
    works(arguments);
    assert_true(same_files("whole.safetensors", "cut.safetensors"));
    assert_true(same_files("whole.jsonl", "cut.jsonl"));
}

#define SLOW "--model 'mlp(16, dropout=0.1)' --batch 1 --seed 3"

static void an_interrupted_run_saves_and_goes_on(void **state)
{
    (void)state;
    int64_t epochs = stop_a_run(SPIRALS SLOW " --epochs 1000000 --out cut.safetensors --trace cut.jsonl",
                                "INT", 124);
    assert_true(!strncmp(err, "gradus: interrupted after ", 26));
    assert_non_null(strstr(err, "; continue with --resume cut.safetensors\n"));
    after_the_stop(epochs, SLOW);
}

/* Nothing can be saved then: what is on disk is the last checkpoint, whole, and the trace may be ahead of it. */
static void a_killed_run_goes_on_from_its_last_checkpoint(void **state)
{
    (void)state;
    int64_t epochs = stop_a_run(
        SPIRALS SLOW " --epochs 1000000 --save-every 0 --out cut.safetensors --trace cut.jsonl", "KILL", 137);
    after_the_stop(epochs, SLOW);
}

/* ---- options ---- */

static void early_stopping_keeps_the_best_epoch(void **state)
{
    (void)state;
    /* a rate that soon makes things worse */
    works(FLOWERS
          "--chain 'adam | lr(0.3)' --epochs 500 --patience 5 --json --out f.safetensors --trace t.jsonl");
    double best = json_number("best_epoch"), epochs = json_number("epochs"),
           loss = json_number_in("validation", "loss");
    assert_true(epochs == best + 5 && epochs < 500);
    assert_non_null(strstr(out, "\"stopped\": \"no better for some epochs\""));
    slurp("t.jsonl", out, sizeof out);
    double lowest = INFINITY;
    for (const char *s = out; (s = strstr(s, "\"val_loss\":")); s++)
        lowest = fmin(lowest, strtod(s + 11, NULL));
    assert_true(lowest == loss);
    works("train " DATA "flowers.csv --resume f.safetensors --json");
    assert_true(json_number("epochs") == epochs);
}

static gd_tensor *tensor_of(gd_ctx *ctx, const char *path, const char *name)
{
    gd_archive *archive = gd_archive_load(ctx, path);
    if (!archive) fail_msg("%s", gd_error_text(ctx));
    gd_tensor *t = gd_copy(gd_archive_find(archive, name));
    if (!t) fail_msg("%s has no %s", path, name);
    gd_archive_free(archive);
    return t;
}

static bool changed(const char *name)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_tensor *a = tensor_of(ctx, "start.safetensors", name), *b = tensor_of(ctx, "end.safetensors", name);
    bool other = gd_item(gd_any(gd_ne(a, b), NULL, false)) != 0;
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
    return other;
}

static void groups_have_settings_of_their_own(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 0 --out start.safetensors");
    works(FLOWERS "--epochs 2 --group 'out.*: lr=0' --out end.safetensors");
    assert_true(changed("model.dense0.weight") && changed("model.dense0.bias"));
    assert_false(changed("model.out.weight") || changed("model.out.bias"));
}

static void classes_may_be_numbers_or_quoted_text(void **state)
{
    (void)state;
    put("n.csv", "x,label\n-3,10\n-2,10\n-4,10\n3,9\n2,9\n4,9\n");
    works(
        "train n.csv --target label --task classify --model linear --validation 0 --epochs 200 --chain 'adam | lr(0.1)' "
        "--out n.safetensors --json");
    assert_non_null(strstr(out, "\"classes\": [\"9\", \"10\"]"));
    works("predict n.safetensors n.csv --score --json");
    assert_true(json_number("accuracy") == 1);
    works("predict n.safetensors n.csv");
    assert_true(!strncmp(out, "label,probability\n10,0.9", 24));
    put("q.csv", "x,label\n-3,\"a, \"\"b\"\"\"\n3,c\n-2,\"a, \"\"b\"\"\"\n2,c\n");
    works(
        "train q.csv --target label --model linear --validation 0 --epochs 200 --chain 'adam | lr(0.1)' --out q.safetensors");
    works("predict q.safetensors q.csv --out q2.csv");
    works("predict q.safetensors q.csv --score");
    slurp("q2.csv", out, sizeof out);
    assert_true(!strncmp(out, "label,probability\n\"a, \"\"b\"\"\",", 29));
}

static void arrays_tables_and_packed_files_agree(void **state)
{
    (void)state;
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_randn(ctx, GD_F64, 2, (int64_t[]){40, 3});
    gd_tensor *y = gd_matmul(x, MATRIX(ctx, 3, 2, 1, 2, -1, 0.5, 0, 3));
    assert_int_equal(gd_npy_save(x, "x.npy"), GD_OK);
    assert_int_equal(gd_npy_save(y, "y.npy"), GD_OK);
    assert_int_equal(gd_npy_save(gd_index(y, "1", 0), "y0.npy"), GD_OK);
    FILE *f = fopen("t.csv", "w");
    fprintf(f, "a,b,c,y\n");
    for (int64_t i = 0; i < 40; i++)
        fprintf(f, "%.17g,%.17g,%.17g,%.17g\n", gd_at(x, (int64_t[]){i, 0}), gd_at(x, (int64_t[]){i, 1}),
                gd_at(x, (int64_t[]){i, 2}), gd_at(y, (int64_t[]){i, 0}));
    fclose(f);
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
    assert_int_equal(system("gzip -k x.npy y0.npy t.csv"), 0);
#define RUN "--model linear --dtype f64 --batch 0 --epochs 30 --chain 'lbfgs | strong_wolfe' --out "
    works("train t.csv --target y " RUN "t.safetensors");
    works("train t.csv.gz --target y " RUN "tz.safetensors");
    works("train x.npy --target y0.npy " RUN "a.safetensors");
    works("train x.npy.gz --target y0.npy.gz " RUN "az.safetensors");
    assert_true(same_files("t.safetensors", "tz.safetensors"));
    works("predict t.safetensors t.csv --out t.out");
    works("predict tz.safetensors t.csv.gz --out tz.out");
    works("predict a.safetensors x.npy --out a.out");
    works("predict az.safetensors x.npy.gz --out az.out");
    assert_int_equal(system("tail -n +2 t.out >t1; tail -n +2 a.out >a1; tail -n +2 az.out >az1"), 0);
    assert_true(same_files("t1", "a1") && same_files("a1", "az1") && same_files("t.out", "tz.out"));
    /* several numbers per row */
    works("train x.npy --target y.npy " RUN "two.safetensors --json");
    works("predict two.safetensors x.npy --target y.npy --score --json");
    assert_true(json_number("r2") > 0.999999);
    works("predict two.safetensors x.npy");
    assert_true(!strncmp(out, "prediction,prediction_2\n", 24));
}

static void events_hold_the_metrics(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 2 --events runs/a");
    assert_int_equal(system("cat runs/a/events.out.tfevents.* >all && test $(ls runs/a | wc -l) = 1"), 0);
    assert_int_equal(
        system("grep -q loss/train all && grep -q loss/validation all && grep -q accuracy/validation all"),
        0);
}

static void rows_may_be_given_a_shape(void **state)
{
    (void)state;
    FILE *f = fopen("pixels.csv", "w");
    for (int k = 0; k < 16; k++) fprintf(f, "p%d,", k);
    fprintf(f, "side\n");
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 16; k++) fprintf(f, "%d,", (k % 4 < 2) == (i % 2) ? 5 + i % 3 : k % 3);
        fprintf(f, "%s\n", i % 2 ? "left" : "right");
    }
    fclose(f);
    fails("train pixels.csv --target side --model 'conv(4)'", 2, "--shape 28,28 says what they are");
    fails("train pixels.csv --target side --model 'conv(4)' --shape 5,4", 2,
          "rows have 16 numbers, 20 are wanted");
    works(
        "train pixels.csv --target side --model 'conv(4)' --shape 4,4 --epochs 30 --chain 'adam | lr(0.02)' --out p.safetensors");
    works("predict p.safetensors pixels.csv --score --json");
    assert_true(json_number("accuracy") == 1);
}

/* ---- another device ---- */

static void a_gpu_learns_what_the_cpu_does(void **state)
{
    (void)state;
    works("devices --json");
    if (!strstr(out, "\"gpu:0\"")) skip();
#define DIGITS                                                                                                 \
    "train " DATA "digits-images.idx3-ubyte.gz --target " DATA "digits-labels.idx1-ubyte.gz --dtype f64 "      \
    "--model 'conv(4, 8, dense=16)' --chain 'clip_norm(1) | adam | weight_decay(0.01) | lr(0.01)' --epochs 2 " \
    "--json "
    works(DIGITS "--out cpu.safetensors");
    double loss = json_number_in("validation", "loss");
    works(DIGITS "--device gpu --out gpu.safetensors");
    assert_true(fabs(json_number_in("validation", "loss") - loss) < 1e-6 * loss);
    works("predict gpu.safetensors " DATA "digits-images.idx3-ubyte.gz --target " DATA
          "digits-labels.idx1-ubyte.gz --score --json");
    loss = json_number("loss");
    works("predict gpu.safetensors " DATA "digits-images.idx3-ubyte.gz --target " DATA
          "digits-labels.idx1-ubyte.gz --score --json --device gpu");
    assert_true(fabs(json_number("loss") - loss) < 1e-9 * loss);
    resumed_equals_uninterrupted(FLOWERS "--chain 'clip_norm(1) | adam | lr(0.01)' --device gpu",
                                 "--device gpu");
}

/* ---- averages ---- */

/* What predict takes from a file is what a slot of the last link holds, and steps go on from something else. */
static void best_is_the_average(const char *path, int link, const char *slot)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_archive *archive = gd_archive_load(ctx, path);
    assert_non_null(archive);
    int compared = 0;
    for (int64_t i = 0; i < gd_archive_count(archive); i++) {
        const char *name = gd_archive_name(archive, i);
        if (strncmp(name, "best.", 5) != 0) continue;
        char other[200];
        snprintf(other, sizeof other, "optimizer/%s/%d:%s", name + 5, link, slot);
        gd_tensor *best = gd_archive_get(archive, i), *average = gd_archive_find(archive, other);
        snprintf(other, sizeof other, "model.%s", name + 5);
        gd_tensor *last = gd_archive_find(archive, other);
        assert_non_null(average);
        size_t bytes = (size_t)gd_numel(best) * sizeof(float);
        assert_memory_equal(gd_data(best), gd_data(average), bytes);
        assert_memory_not_equal(gd_data(best), gd_data(last), bytes);
        compared++;
    }
    assert_int_equal(compared, 4); /* two layers */
    gd_archive_free(archive);
    gd_ctx_free(ctx);
}

static void a_model_is_the_average_where_a_link_keeps_one(void **state)
{
    (void)state;
#define AVERAGED FLOWERS "--chain 'adam | lr(0.05) | ema_weights(0.95)' --epochs 4 --out a.safetensors "
    works(AVERAGED "--validation 0");
    best_is_the_average("a.safetensors", 2, "ema_weights/average");
    works("train " DATA "flowers.csv --resume a.safetensors --epochs 6");
    best_is_the_average("a.safetensors", 2, "ema_weights/average");
    works(AVERAGED "--validation 0.2 --json");
    if (json_number("best_epoch") == 4) best_is_the_average("a.safetensors", 2, "ema_weights/average");
#undef AVERAGED
    /* an average that stays where it began is as good at the end as at the beginning */
    works(FLOWERS "--chain 'adam | lr(0.05) | ema_weights(1)' --epochs 6 --json");
    assert_true(json_number("best_epoch") == 1);
    works(FLOWERS "--chain 'adam | lr(0.05)' --epochs 6 --json");
    assert_true(json_number("best_epoch") > 1);
    resumed_equals_uninterrupted(FLOWERS "--chain 'adam | lr(0.01) | swa' --validation 0", "");
    resumed_equals_uninterrupted(FLOWERS "--chain 'schedule_free(adam, 0.01)'", "");
}

/* ---- mistakes ---- */

static void a_resumed_run_takes_its_settings_written_in_another_way(void **state)
{
    (void)state;
    works(FLOWERS
          "--epochs 1 --group 'out.*: lr=step(0.1, every=3), chain=[lion(0.9)|lr(1)]' --out g.safetensors");
#define OTHERWISE(group) \
    "train " DATA "flowers.csv --resume g.safetensors --epochs 2 --group 'out.*: " group "'"
    static const char *const others[] = {
        OTHERWISE("lr=0.1, chain=[lion | lr(1)]"), /* the same number at the first step */
        OTHERWISE("lr=step(0.1, every=3), chain=[lion | lr(2)]"), OTHERWISE("lr=step(0.1, every=3)")};
    for (int i = 0; i < COUNT_OF(others); i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "%s --out other.safetensors", others[i]);
        works(arguments);
        assert_non_null(strstr(out, "--group was "));
    }
    works(OTHERWISE("chain = [ lion | lr(1.0) ],lr=step(.1,every=3)"));
    assert_null(strstr(out, "--group was "));
    assert_null(strstr(out, "--chain was "));
    assert_null(strstr(out, "--schedule was "));
#undef OTHERWISE
    works(FLOWERS
          "--epochs 1 --chain 'adam(beta1=0.9) | lr(1e-3)' --group 'out.*: lr=0.5, beta1=0.8' "
          "--schedule 'eps=linear(1e-8, 1e-9, 10)' --schedule 'dense0.*: beta2=0.5' --out s.safetensors");
#define AGAIN "train " DATA "flowers.csv --resume s.safetensors --epochs 2 "
    works(AGAIN "--chain 'adam|lr(0.001)' --group 'out.*:lr=5e-1,beta1=.8' "
                "--schedule 'eps=linear( 0.00000001, 1e-9,10)' --schedule 'dense0.*: beta2=constant(0.5)'");
    assert_null(strstr(out, "--group was "));
    assert_null(strstr(out, "--chain was "));
    assert_null(strstr(out, "--schedule was "));
    fails(AGAIN "--chain 'adm | lr(0.001)'", 2, "chain: column 1: link 'adm' unknown");
    works(AGAIN
          "--schedule 'eps=linear(1e-8, 1e-9, 11)' --schedule 'dense0.*: beta2=0.5' --out other.safetensors");
    assert_non_null(strstr(out, "--schedule was "));
    works(AGAIN "--schedule 'eps=linear(1e-8, 1e-9, 10)' --out other.safetensors");
    assert_non_null(strstr(out, "--schedule was "));
#undef AGAIN
}

static void settings_of_a_resumed_run_cannot_change(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 1 --out f.safetensors");
    put("other.csv",
        "sepal_length,sepal_width,petal_length,petal_width,kind\n1,2,3,4,ruby\n5,6,7,8,amber\n9,8,7,6,violet\n");
    /* what was asked for, and what the file has */
    static const char *const others[][2] = {
        {"--model linear", "--model is 'linear', f.safetensors was made with 'mlp(16, dropout=0.2)'"},
        {"--batch 7", "--batch is '7', f.safetensors was made with '32'"},
        {"--seed 9", "--seed is '9', f.safetensors was made with '0'"},
        {"--validation 0.2", "--validation is '0.2', f.safetensors was made with '0.1'"},
        {"--dtype f64", "--dtype is 'f64', f.safetensors was made with 'f32'"},
        {"--standardise all", "--standardise is 'all', f.safetensors was made with 'each'"},
        {"--target petal_width", "--target is 'petal_width', f.safetensors was made with 'kind'"},
        {"--ignore petal_width", "--ignore is '[\"petal_width\"]', f.safetensors was made with '[]'"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "train " DATA "flowers.csv --resume f.safetensors %s",
                 others[i][0]);
        fails(arguments, 2, others[i][1]);
    }
    works("train " DATA
          "flowers.csv --resume f.safetensors --epochs 2 --batch 32 --model 'mlp( 16,dropout=0.2 )'");
    fails("train other.csv --resume f.safetensors", 2,
          "other.csv: not the data that f.safetensors was trained on");
    fails("train " DATA "flowers.csv --resume nowhere.safetensors", 1, "nowhere.safetensors");
    works("minimize 'x^2' --param x=1 --out x.safetensors");
    fails("train " DATA "flowers.csv --resume x.safetensors", 1,
          "x.safetensors: not a model of gradus train");
    fails("predict x.safetensors " DATA "flowers.csv", 1, "x.safetensors: not a model of gradus train");
}

static void a_loss_that_is_not_finite_leaves_the_old_file(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 1 --out f.safetensors");
    assert_int_equal(system("cp f.safetensors old.safetensors"), 0);
    assert_int_equal(gradus(FLOWERS "--chain 'lr(1e30)' --epochs 50 --out f.safetensors"), 1);
    assert_non_null(strstr(err, "a smaller lr may help"));
    assert_true(same_files("f.safetensors", "old.safetensors"));
}

static void mistakes_are_named(void **state)
{
    (void)state;
    put("d.csv", "x,name,y\n1,a,1\n2,b,2\n3,c,3\n");
    put("one.csv", "x,k\n1,a\n2,a\n");
    fails("train d.csv", 2, "train: --target is missing: the column to predict");
    fails("train x.npy", 2, "train: --target is missing: a file with what to predict for each row");
    fails("train d.csv --target z", 2, "d.csv: no column 'z', the columns are x, name, y");
    fails("train d.csv --target y --ignore nme", 2, "no column 'nme', did you mean 'name'?");
    fails("train d.csv --target y --features x,y", 2, "column 'y' is feature and target");
    fails("train d.csv --target name --task regress --features x", 1, "'a' is not a number");
    fails("train d.csv --target y --ignore x,name", 2, "d.csv: no column is left to learn from");
    fails("train one.csv --target k", 1, "one.csv: every row is of class 'a': nothing to tell apart");
    fails("train d.csv --target y --ignore name --model 'mpl(3)'", 2, "model: column 1: model 'mpl' unknown");
    fails("train d.csv --target y --ignore name --chain 'adm'", 2, "chain: column 1: link 'adm' unknown");
    fails("train d.csv --target y --ignore name --group 'x*: lr=1'", 2, "group: no parameter matches 'x*'");
    fails("train d.csv --target y --ignore name --schedule 'lr'", 2,
          "--schedule: KEY=SCHEDULE or GLOB: KEY=SCHEDULE expected");
    fails("train d.csv --target y --ignore name --validation 1", 2,
          "--validation: '1' is not a number from 0 to 0.9");
    fails("train d.csv --target y --ignore name --epochs -1", 2,
          "--epochs: '-1' is not a whole number from 0");
    fails("train d.csv --target y --ignore name --task odd", 2,
          "--task: 'odd' is none of: auto class regress");
    fails("train d.csv --target y --ignore name --shape 2y", 2,
          "--shape: '2y' is not whole numbers as in 28,28");
    fails("train d.csv --target y --ignore name --out /dev/full", 1,
          "/dev/full: cannot write: not a regular file");
    fails("train d.csv --target y --ignore name --trace nowhere/t.jsonl", 1, "nowhere/t.jsonl: cannot open");
    works("train d.csv --target name --model linear --features x --epochs 1 --out m.safetensors");
    put("new.csv", "x,name\n1,d\n");
    fails("predict m.safetensors new.csv --score", 1, "new.csv: the model knows no class 'd'");
    fails("predict m.safetensors d.csv --target name", 2, "predict: --target is for --score");
    fails("predict m.safetensors d.csv --score --out x.csv", 2, "--score prints no predictions for --out");
    put("none.csv", "y\n1\n");
    fails("predict m.safetensors none.csv", 2, "none.csv: no column 'x'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(the_shipped_classifier_tells_the_spirals_apart),
        PROGRAM_TEST(a_convolution_reads_digits_from_packed_images),
        PROGRAM_TEST(a_linear_model_is_the_regression_line),
        PROGRAM_TEST(scores_agree_with_the_predictions),
        PROGRAM_TEST(going_on_gives_the_same_bits),
        PROGRAM_TEST(threads_do_not_change_bits),
        PROGRAM_TEST(an_interrupted_run_saves_and_goes_on),
        PROGRAM_TEST(a_killed_run_goes_on_from_its_last_checkpoint),
        PROGRAM_TEST(early_stopping_keeps_the_best_epoch),
        PROGRAM_TEST(groups_have_settings_of_their_own),
        PROGRAM_TEST(classes_may_be_numbers_or_quoted_text),
        PROGRAM_TEST(arrays_tables_and_packed_files_agree),
        PROGRAM_TEST(events_hold_the_metrics),
        PROGRAM_TEST(rows_may_be_given_a_shape),
        PROGRAM_TEST(a_gpu_learns_what_the_cpu_does),
        PROGRAM_TEST(a_model_is_the_average_where_a_link_keeps_one),
        PROGRAM_TEST(settings_of_a_resumed_run_cannot_change),
        PROGRAM_TEST(a_resumed_run_takes_its_settings_written_in_another_way),
        PROGRAM_TEST(a_loss_that_is_not_finite_leaves_the_old_file),
        PROGRAM_TEST(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
