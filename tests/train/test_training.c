/* Trainings in one call (gradus/train.h): tables and files, what a model keeps, measures, folds, rates, callers. */
#include <gradus/file.h>
#include <gradus/train.h>

#include "base/text/number.h"
#include "support/own_context.h"

#include <math.h>
#include <unistd.h>

#define ROWS 60

static char folder[] = "/tmp/gradus_training_XXXXXX";

/* ---- data ---- */

/* y is a little more than a line in a, and differs by the word; every seventh a is missing. */
static double a_of(int i) { return (i * 37 % ROWS) / 10.0 - 3; }
static double y_of(int i) { return 2 * a_of(i) + (i % 3 == 1) + 0.125 * ((i * 7) % 5); }
static const char *word_of(int i) { return (const char *const[]){"red", "green", "blue"}[i % 3]; }
static bool is_hole(int i) { return i % 7 == 3; }

static const char *csv_text(void)
{
    static char text[8192];
    char *end = text + sprintf(text, "a,colour,day,y,kind\n");
    for (int i = 0; i < ROWS; i++) {
        end += is_hole(i) ? 0 : gd__format(end, 32, "%.17g", a_of(i));
        end += gd__format(end, 64, ",%s,2024-01-%02d,%.17g,%s\n", word_of(i), 1 + i % 28, y_of(i),
                          a_of(i) > 0 ? "high" : "low");
    }
    return text;
}

static const char *put_file(const char *name, const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    return path;
}

static gd_table *parsed(void)
{
    const char *text = csv_text();
    return gd_table_parse(ctx, text, strlen(text), NULL);
}

/* The same columns out of memory. */
static gd_table *in_memory(void)
{
    static double a[ROWS], y[ROWS], day[ROWS];
    static const char *colour[ROWS], *kind[ROWS];
    for (int i = 0; i < ROWS; i++) {
        a[i] = is_hole(i) ? NAN : a_of(i);
        y[i] = y_of(i);
        day[i] = 86400.0 * (19723 + i % 28); /* 2024-01-01 is day 19723 */
        colour[i] = word_of(i);
        kind[i] = a_of(i) > 0 ? "high" : "low";
    }
    gd_table *t = gd_table_new(ctx, "memory");
    gd_tensor *days = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){ROWS}, day);
    assert_int_equal(gd_table_add_numbers(t, "a", a, ROWS, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_words(t, "colour", colour, ROWS), GD_OK);
    assert_int_equal(gd_table_add_dates(t, "day", days, true, false), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "y", y, ROWS, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_words(t, "kind", kind, ROWS), GD_OK);
    gd_release(days);
    return t;
}

static gd_train_spec recipe(const char *target)
{
    gd_train_spec s = gd_train_defaults();
    s.target = target;
    s.model = "mlp(6, activation=tanh)";
    s.chain = "adam | lr(0.02)";
    s.epochs = 12;
    s.batch = 8;
    s.seed = 5;
    return s;
}

static void assert_same_numbers(gd_tensor *a, gd_tensor *b)
{
    assert_no_error(ctx);
    assert_int_equal(gd_numel(a), gd_numel(b));
    assert_memory_equal(gd_data(a), gd_data(b), (size_t)gd_numel(a) * sizeof(double));
}

/* ---- one model, however its rows come ---- */

static void tables_of_text_memory_and_files_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const targets[] = {"y", "kind"};
    for (int k = 0; k < 2; k++) {
        gd_train_spec s = recipe(targets[k]);
        gd_table *text = parsed(), *mine = in_memory();
        gd_model *one = gd_train(ctx, text, &s), *two = gd_train(ctx, mine, &s);
        s.path = put_file("data.csv", csv_text());
        gd_model *three = gd_train(ctx, NULL, &s);
        assert_no_error(ctx);
        gd_tensor *p = gd_model_predict(one, text), *q = gd_model_predict(two, mine),
                  *r = gd_model_predict(three, mine);
        assert_shape(p, ROWS, k ? 2 : 1);
        assert_same_numbers(p, q);
        assert_same_numbers(p, r);
        gd_release(p), gd_release(q), gd_release(r);
        gd_model_free(one), gd_model_free(two), gd_model_free(three);
        gd_table_free(text), gd_table_free(mine);
    }
}

static void a_model_says_what_it_has_learnt(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    gd_train_spec s = recipe("kind");
    s.features = (const char *const[]){"a", "colour", NULL};
    gd_model *m = gd_train(ctx, t, &s);
    assert_no_error(ctx);
    const gd_train_result *r = gd_model_result(m);
    assert_int_equal(gd_model_task(m), GD_TASK_CLASSIFY);
    assert_string_equal(gd_model_target(m), "kind");
    assert_string_equal(gd_model_text(m), "mlp(6, activation=tanh)");
    assert_string_equal(gd_model_chain(m), "adam | lr(0.02)");
    assert_int_equal(gd_model_classes(m), 2);
    assert_string_equal(gd_model_class(m, 0), "high");
    assert_string_equal(gd_model_class(m, 1), "low");
    assert_null(gd_model_class(m, 2));
    assert_null(gd_model_class(m, -1));
    assert_int_equal(gd_model_features(m), 2);
    assert_string_equal(gd_model_feature(m, 1), "colour");
    assert_null(gd_model_feature(m, 2));
    /* a, its mark of a hole and three words to 6, 6 to 2 */
    assert_int_equal(r->parameters, (5 + 1) * 6 + (6 + 1) * 2);
    assert_int_equal(r->epochs, 12);
    assert_int_equal(r->rows + r->validation_rows, ROWS);
    assert_int_equal(r->steps, 12 * ((r->rows + 7) / 8));
    assert_string_equal(r->stopped, "epochs");
    assert_true(r->training.accuracy > 0.5 && isnan(r->training.rmse));
    gd_model_free(m);
    gd_table_free(t);
}

static void a_line_is_found(void **state)
{
    (void)state;
    double x[40], y[40];
    for (int i = 0; i < 40; i++) x[i] = (i * 17 % 40) / 8.0 - 2, y[i] = 3 * x[i] - 2;
    gd_table *t = gd_table_new(ctx, "line");
    assert_int_equal(gd_table_add_numbers(t, "x", x, 40, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "y", y, 40, 1, NULL, NULL), GD_OK);
    gd_train_spec s = gd_train_defaults();
    s.target = "y";
    s.task = "regress";
    s.model = "linear";
    s.dtype = "f64";
    s.chain = "lbfgs | strong_wolfe";
    s.batch = 0;
    s.epochs = 20;
    gd_model *m = gd_train(ctx, t, &s);
    gd_tensor *rows = MATRIX(ctx, 3, 1, -7, 0, 100), *p = gd_model_predict_rows(m, rows);
    assert_no_error(ctx);
    assert_values_near(p, 1e-6, -23, -2, 298);
    assert_true(gd_model_result(m)->validation.r2 > 1 - 1e-12);
    gd_release(rows);
    gd_release(p);
    gd_model_free(m);
    gd_table_free(t);
}

static void numbers_may_be_taken_as_words(void **state)
{
    (void)state;
    double code[ROWS], y[ROWS];
    for (int i = 0; i < ROWS; i++) code[i] = 100 + i % 4, y[i] = (const double[]){3, -1, 4, 1.5}[i % 4];
    gd_table *t = gd_table_new(ctx, "codes");
    assert_int_equal(gd_table_add_numbers(t, "code", code, ROWS, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "y", y, ROWS, 1, NULL, NULL), GD_OK);
    gd_train_spec s = gd_train_defaults();
    s.target = "y";
    s.task = "regress";
    s.model = "linear";
    s.chain = "lbfgs | strong_wolfe";
    s.batch = 0;
    s.text = (const char *const[]){"code", NULL};
    gd_model *m = gd_train(ctx, t, &s);
    gd_tensor *p = gd_model_predict(m, t);
    assert_no_error(ctx);
    assert_int_equal(gd_model_result(m)->parameters, 4 + 1); /* one for each word */
    for (int i = 0; i < 4; i++) assert_true(fabs(gd_at(p, (int64_t[]){i, 0}) - y[i]) < 0.1);
    gd_release(p);
    gd_model_free(m);
    gd_table_free(t);
}

static void rows_of_arrays_are_read_and_predicted(void **state)
{
    (void)state;
    double x[ROWS * 4], y[ROWS];
    char rows[128], answers[128];
    for (int i = 0; i < ROWS * 4; i++) x[i] = (i * 29 % 61) / 30.0 - 1;
    for (int i = 0; i < ROWS; i++) y[i] = x[4 * i] - 2 * x[4 * i + 3] + 5;
    gd_tensor *all = gd_from_f64(ctx, GD_F64, 3, (int64_t[]){ROWS, 2, 2}, x),
              *right = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){ROWS}, y);
    snprintf(rows, sizeof rows, "%s/x.npy", folder);
    snprintf(answers, sizeof answers, "%s/y.npy", folder);
    assert_int_equal(gd_npy_save(all, rows), GD_OK);
    assert_int_equal(gd_npy_save(right, answers), GD_OK);
    gd_train_spec s = gd_train_defaults();
    s.path = rows;
    s.target = answers;
    s.model = "linear";
    s.dtype = "f64";
    s.chain = "lbfgs | strong_wolfe";
    s.batch = 0;
    gd_model *m = gd_train(ctx, NULL, &s);
    gd_tensor *p = gd_model_predict_rows(m, all);
    assert_no_error(ctx);
    assert_int_equal(gd_model_features(m), 0);
    for (int i = 0; i < ROWS; i++) assert_true(fabs(gd_at(p, (int64_t[]){i, 0}) - y[i]) < 1e-6);
    gd_table *t = in_memory();
    assert_null(gd_model_predict(m, t));
    expect_error(ctx, GD_MISMATCH, "the model was trained on arrays");
    assert_null(gd_model_predict_rows(m, right));
    expect_error(ctx, GD_SHAPE, "rows of 4 numbers are wanted");
    gd_table_free(t);
    gd_release(p), gd_release(all), gd_release(right);
    gd_model_free(m);
}

/* ---- files ---- */

static void a_saved_model_predicts_the_same(void **state)
{
    (void)state;
    static const int64_t seeds[] = {1, 3};
    for (int k = 0; k < 2; k++) {
        gd_table *t = in_memory();
        gd_train_spec s = recipe("kind");
        char path[128], out[128];
        snprintf(path, sizeof path, "%s/m%d.safetensors", folder, k);
        snprintf(out, sizeof out, "%s/out%d.safetensors", folder, k);
        s.chain = "adam | lr(0.02) | ema_weights(0.9)";
        s.seeds = seeds[k];
        s.out = out;
        gd_model *m = gd_train(ctx, t, &s);
        assert_int_equal(gd_model_save(m, path), GD_OK);
        gd_model *again = gd_model_load(ctx, path), *other = gd_model_load(ctx, out);
        gd_tensor *p = gd_model_predict(m, t), *q = gd_model_predict(again, t),
                  *r = gd_model_predict(other, t);
        assert_same_numbers(p, q);
        assert_same_numbers(p, r);
        assert_int_equal(gd_model_result(again)->epochs, gd_model_result(m)->epochs);
        assert_int_equal(gd_model_result(again)->parameters, gd_model_result(m)->parameters);
        assert_true(isnan(gd_model_result(again)->training.loss));
        gd_release(p), gd_release(q), gd_release(r);
        gd_model_free(m), gd_model_free(again), gd_model_free(other);
        gd_table_free(t);
    }
    assert_null(gd_model_load(ctx, "/nowhere/m.safetensors"));
    expect_error(ctx, GD_IO, "/nowhere/m.safetensors");
}

static bool after_five(void *user)
{
    int *left = user;
    return --*left < 0;
}

static void an_interrupted_training_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    gd_train_spec s = recipe("y");
    char path[128];
    int left = 20;
    snprintf(path, sizeof path, "%s/resume.safetensors", folder);
    gd_model *straight = gd_train(ctx, t, &s);
    s.out = path;
    s.observer = &(gd_observer){.interrupted = after_five, .user = &left};
    assert_null(gd_train(ctx, t, &s));
    expect_error(ctx, GD_INTERRUPTED, "resume.safetensors");
    gd_train_spec rest = gd_train_defaults();
    rest.resume = rest.out = path;
    gd_model *m = gd_train(ctx, t, &rest);
    gd_tensor *p = gd_model_predict(straight, t), *q = gd_model_predict(m, t);
    assert_same_numbers(p, q);
    assert_int_equal(gd_model_result(m)->steps, gd_model_result(straight)->steps);
    gd_release(p), gd_release(q);
    gd_model_free(straight), gd_model_free(m);
    gd_table_free(t);
}

/* ---- callers ---- */

typedef struct witness {
    int64_t epochs, step, progress, total;
    double loss;
    int64_t fail_in;
} witness;

static gd_status count_epoch(void *user, const gd_train_epoch *e)
{
    witness *w = user;
    assert_int_equal(e->epoch, ++w->epochs);
    assert_true(e->step > w->step && isfinite(e->loss) && e->validation && isfinite(e->validation->rmse));
    w->step = e->step;
    w->loss = e->loss;
    return e->epoch == w->fail_in ? gd_fail(ctx, GD_VALUE, "enough") : GD_OK;
}

static void count_progress(void *user, const char *what, const char *unit, int64_t done, int64_t total,
                           double loss)
{
    witness *w = user;
    (void)what, (void)loss;
    if (!unit || strcmp(unit, "step") != 0) return;
    w->progress = done;
    w->total = total;
}

static void callers_see_epochs_and_steps(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    witness w = {0};
    gd_observer o = {.progress = count_progress, .user = &w};
    gd_train_spec s = recipe("y");
    s.observer = &o;
    s.epoch_done = count_epoch;
    s.user = &w;
    gd_model *m = gd_train(ctx, t, &s);
    assert_no_error(ctx);
    assert_int_equal(w.epochs, 12);
    assert_int_equal(w.step, gd_model_result(m)->steps);
    assert_int_equal(w.progress, w.step);
    assert_int_equal(w.total, w.step);
    gd_model_free(m);
    w = (witness){.fail_in = 3};
    assert_null(gd_train(ctx, t, &s));
    assert_error(ctx, GD_VALUE, "enough");
    assert_int_equal(w.epochs, 3);
    gd_table_free(t);
}

static void a_model_outlives_the_scope_it_was_made_in(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    gd_train_spec s = recipe("kind");
    s.seeds = 2;
    s.class_weights = "balanced";
    gd_model *outside = gd_train(ctx, t, &s);
    gd_scope_begin(ctx);
    gd_model *inside = gd_train(ctx, t, &s);
    gd_scope_end(ctx);
    gd_tensor *p = gd_model_predict(outside, t), *q = gd_model_predict(inside, t);
    assert_same_numbers(p, q);
    gd_release(p), gd_release(q);
    gd_model_free(outside), gd_model_free(inside);
    gd_table_free(t);
}

/* ---- measures ---- */

static void scores_are_those_of_the_predictions(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    gd_train_spec s = recipe("y");
    gd_model *m = gd_train(ctx, t, &s);
    gd_tensor *p = gd_model_predict(m, t);
    gd_metrics measured;
    assert_int_equal(gd_model_score(m, t, NULL, &measured), GD_OK);
    double square = 0, absolute = 0, mean = 0, about = 0;
    for (int i = 0; i < ROWS; i++) {
        double off = gd_at(p, (int64_t[]){i, 0}) - y_of(i);
        square += off * off, absolute += fabs(off), mean += y_of(i) / ROWS;
    }
    for (int i = 0; i < ROWS; i++) about += (y_of(i) - mean) * (y_of(i) - mean);
    assert_true(fabs(measured.rmse - sqrt(square / ROWS)) < 1e-6);
    assert_true(fabs(measured.mae - absolute / ROWS) < 1e-6);
    assert_true(fabs(measured.r2 - (1 - square / about)) < 1e-6);
    assert_true(isnan(measured.accuracy));
    gd_release(p);
    gd_model_free(m);
    s = recipe("kind");
    s.features = (const char *const[]){"a", NULL};
    m = gd_train(ctx, t, &s);
    p = gd_model_predict(m, t);
    assert_int_equal(gd_model_score(m, t, "kind", &measured), GD_OK);
    int right = 0;
    for (int i = 0; i < ROWS; i++) right += (gd_at(p, (int64_t[]){i, 0}) > 0.5) == (a_of(i) > 0);
    assert_true(fabs(measured.accuracy - right / (double)ROWS) < 1e-12);
    assert_int_equal(gd_model_score(m, t, "colour", &measured), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "the model knows no class 'blue'");
    gd_release(p);
    gd_model_free(m);
    gd_table_free(t);
}

static void what_decides_is_the_most_important_column(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    gd_train_spec s = recipe("y");
    s.epochs = 60;
    s.features = (const char *const[]){"colour", "a", NULL};
    gd_model *m = gd_train(ctx, t, &s);
    gd_importance all[2];
    assert_int_equal(gd_model_importance(m, t, NULL, NULL, all), GD_OK);
    assert_string_equal(gd_model_feature(m, all[0].feature), "a");
    assert_true(all[0].mean > 0.5 && all[0].mean > all[1].mean && all[0].deviation > 0);
    assert_int_equal(gd_model_importance(m, t, NULL, "accuracy", all), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "'accuracy' is no measure of numbers");
    gd_model_free(m);
    gd_table_free(t);
}

static void folds_have_their_mean_and_deviation(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    gd_train_spec s = recipe("y");
    gd_metrics each[4], mean, deviation;
    assert_int_equal(gd_train_folds(ctx, t, &s, 4, each, &mean, &deviation), GD_OK);
    double sum = 0, square = 0;
    for (int k = 0; k < 4; k++) sum += each[k].rmse / 4;
    for (int k = 0; k < 4; k++) square += (each[k].rmse - sum) * (each[k].rmse - sum);
    assert_true(fabs(mean.rmse - sum) < 1e-12 && fabs(deviation.rmse - sqrt(square / 3)) < 1e-12);
    assert_int_equal(gd_train_folds(ctx, t, &s, 4, NULL, NULL, NULL), GD_OK);
    assert_int_equal(gd_train_folds(ctx, t, &s, 1, each, NULL, NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "'1' is not a whole number from 2 to 1000");
    assert_int_equal(gd_train_folds(ctx, t, &s, ROWS + 1, NULL, NULL, NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "the data has 60 rows");
    s.out = "x.safetensors";
    assert_int_equal(gd_train_folds(ctx, t, &s, 4, each, NULL, NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "folds and .out do not go together");
    gd_table_free(t);
}

static void a_rate_is_found(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    gd_train_spec s = recipe("y");
    gd_rates r;
    s.batch = 0;
    assert_int_equal(gd_train_find_rate(ctx, t, &s, &r), GD_OK);
    assert_true(r.count > 10 && r.best > 1e-5 && r.best < r.lowest && r.lowest <= 10);
    s.chain = "adam";
    assert_int_equal(gd_train_find_rate(ctx, t, &s, &r), GD_ATTRIBUTE);
    gd_clear_error(ctx);
    gd_table_free(t);
}

/* ---- mistakes ---- */

static void mistakes_in_a_spec_are_named(void **state)
{
    (void)state;
    gd_table *t = in_memory();
    const char *const list[] = {"nothing", NULL};
    struct {
        gd_train_spec spec;
        gd_status status;
        const char *error;
    } cases[16];
    for (int i = 0; i < COUNT_OF(cases); i++) cases[i].spec = recipe("y"), cases[i].status = GD_ARGUMENT;
    int n = 0;
#define CASE(member, value, text) cases[n].spec.member = value, cases[n++].error = text
    CASE(target, NULL, "train: .target is missing");
    CASE(target, "z", "memory: no column 'z'");
    CASE(target, "day", "memory: column 'day' holds dates");
    CASE(task, "sort", "train: .task: 'sort' is none of");
    CASE(task, "class", "train: .loss"); /* with a loss of numbers */
    cases[n - 1].spec.loss = "squares";
    CASE(epochs, -2, "train: .epochs: '-2' is not a whole number");
    CASE(validation, 0.95, "train: .validation: '0.95'");
    CASE(time, -1, "train: .time: '-1'");
    CASE(seeds, 0, "train: .seeds: '0'");
    CASE(stream, true, "train: .stream reads a file");
    CASE(row_axes, 9, "train: .row");
    CASE(features, list, "memory: no column 'nothing'");
    CASE(stop_on, "accuracy", "train: .stop_on accuracy is for classes");
    CASE(model, "mpl(3)", "model: column 1: model 'mpl' unknown");
    cases[n - 1].status = GD_PARSE;
    CASE(chain, "adm | lr(1)", "chain: ");
    cases[n - 1].status = GD_PARSE;
    CASE(loss, "quantile:2", ".loss: 'quantile:2'");
    cases[n - 1].status = GD_PARSE;
#undef CASE
    for (int i = 0; i < n; i++) {
        assert_null(gd_train(ctx, t, &cases[i].spec));
        expect_error(ctx, cases[i].status, cases[i].error);
    }
    gd_train_spec s = recipe("y");
    assert_null(gd_train(ctx, NULL, &s));
    expect_error(ctx, GD_ARGUMENT, "neither a table nor a path");
    assert_null(gd_train(ctx, t, NULL));
    assert_error(ctx, GD_ARGUMENT, "train: the spec is NULL");
    gd_table_free(t);
}

static void other_tables_are_refused_by_name(void **state)
{
    (void)state;
    gd_table *t = in_memory(), *other = gd_table_parse(ctx, "a,colour\n1,red\n", 15, NULL);
    gd_train_spec s = recipe("y");
    gd_model *m = gd_train(ctx, t, &s);
    assert_null(gd_model_predict(m, other));
    expect_error(ctx, GD_ARGUMENT, "the model has learnt from a, colour, day, kind");
    gd_tensor *rows = MATRIX(ctx, 1, 2, 1, 2);
    assert_null(gd_model_predict_rows(m, rows));
    expect_error(ctx, GD_SHAPE, "the model has learnt from 4 columns");
    gd_release(rows);
    gd_model_free(m);
    gd_table_free(t);
    gd_table_free(other);
}

/* "-" is standard input for the program only. */
static void a_file_may_be_called_by_a_dash(void **state)
{
    (void)state;
    char *here = getcwd(NULL, 0);
    (void)put_file("-", csv_text());
    assert_int_equal(chdir(folder), 0);
    for (int stream = 0; stream < 2; stream++) {
        gd_train_spec s = recipe("y");
        s.path = "-";
        s.stream = stream;
        gd_model *m = gd_train(ctx, NULL, &s);
        assert_no_error(ctx);
        gd_model_free(m);
    }
    assert_int_equal(chdir(here), 0);
    free(here);
}

static int make_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tables_of_text_memory_and_files_give_the_same_bits),
        TEST(a_model_says_what_it_has_learnt),
        TEST(a_line_is_found),
        TEST(numbers_may_be_taken_as_words),
        TEST(rows_of_arrays_are_read_and_predicted),
        TEST(a_saved_model_predicts_the_same),
        TEST(an_interrupted_training_goes_on_with_the_same_bits),
        TEST(callers_see_epochs_and_steps),
        TEST(a_model_outlives_the_scope_it_was_made_in),
        TEST(scores_are_those_of_the_predictions),
        TEST(what_decides_is_the_most_important_column),
        TEST(folds_have_their_mean_and_deviation),
        TEST(a_rate_is_found),
        TEST(mistakes_in_a_spec_are_named),
        TEST(other_tables_are_refused_by_name),
        TEST(a_file_may_be_called_by_a_dash),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
