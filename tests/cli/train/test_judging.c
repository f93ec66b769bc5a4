/* gradus train: losses, weights, folds, ensembles, reports, importance, learning rates, other settings of a resumed run. */
#include "train/model/loss.h"

#include "cli/program.h"

#include "gradus/file.h"

#define FLOWERS "train " DATA "flowers.csv --target kind --model 'mlp(8)' "
#define EXACT \
    "--model linear --dtype f64 --batch 0 --validation 0 --chain 'lbfgs | strong_wolfe' --epochs 200 "

/* ---- losses ---- */

/* By hand: off = y - p = 1, -2, 0.5. */
static void losses_are_what_they_say(void **state)
{
    (void)state;
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_tensor *p = MATRIX(ctx, 3, 1, 0, 2, 0.5), *y = MATRIX(ctx, 3, 1, 1, 0, 1);
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"squares", (1 + 4 + 0.25) / 3},          {"absolute", (1 + 2 + 0.5) / 3},
        {"huber", (0.5 + 1.5 + 0.125) / 3},       {"huber:0.5", (0.375 + 0.875 + 0.125) / 3},
        {"quantile:0.9", (0.9 + 0.2 + 0.45) / 3},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        gd_loss loss;
        assert_int_equal(gd__loss_parse(ctx, rows[i].text, &loss), GD_OK);
        double got = gd_item(gd__loss(&loss, p, y, NULL));
        if (!(fabs(got - rows[i].value) < 1e-12)) fail_msg("%s: %.17g", rows[i].text, got);
    }
    gd_loss loss;
    assert_int_equal(gd__loss_parse(ctx, "poisson", &loss), GD_OK);
    double want = (1 - 0 + exp(2) - 0 + exp(0.5) - 0.5) / 3;
    assert_true(fabs(gd_item(gd__loss(&loss, p, y, NULL)) - want) < 1e-12);
    static const char *const bad[] = {"",          "hube",      "huber:",       "huber:0",
                                      "huber:x",   "quantile",  "quantile:1",   "quantile:0",
                                      "squares:1", "poisson:2", "quantile:0.5x"};
    for (int i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(gd__loss_parse(ctx, bad[i], &loss), GD_PARSE);
        assert_non_null(strstr(gd_error_text(ctx), "loss: "));
        gd_clear_error(ctx);
    }
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
}

/* Without anything to tell rows apart: the median, the quantile, the mean of counts. */
static void answers_are_median_quantile_and_rate(void **state)
{
    (void)state;
    FILE *f = fopen("y.csv", "w"), *g = fopen("counts.csv", "w");
    fprintf(f, "x,y\n");
    fprintf(g, "kind,n\n");
    for (int i = 0; i < 101; i++) fprintf(f, "1,%g\n", i == 100 ? 1e4 : i + 0.5);
    for (int i = 0; i < 40; i++)
        fprintf(g, "%s,%d\n", i % 2 ? "often" : "seldom", i % 2 ? 7 + i % 4 : (i / 2) % 2);
    fclose(f);
    fclose(g);
#define CONSTANT \
    "train y.csv --target y --features x --model linear --dtype f64 --batch 0 --validation 0 --epochs 1500 "
    works(CONSTANT "--chain 'adam | lr(0.003)' --loss absolute --out m.safetensors");
    works("predict m.safetensors y.csv");
    double p;
    assert_int_equal(sscanf(out, "y\n%lf", &p), 1);
    assert_true(fabs(p - 50.5) < 15); /* the mean is 148.5 */
    works(CONSTANT "--chain 'adam | lr(0.003)' --loss quantile:0.9 --out q.safetensors --json");
    assert_true(fabs(json_number_in("training", "below") - 0.9) < 0.05);
    works("train counts.csv --target n --loss poisson " EXACT "--out c.safetensors");
    put("new.csv", "kind\noften\nseldom\n");
    works("predict c.safetensors new.csv");
    double often, seldom;
    assert_int_equal(sscanf(out, "n\n%lf\n%lf\n", &often, &seldom), 2);
    assert_true(fabs(often - 9) < 1e-4 &&
                fabs(seldom - 0.5) < 1e-4); /* 8 and 10 by turns, 0 and 1 by turns */
    works("predict c.safetensors counts.csv --score --json");
    assert_true(fabs(json_number("rmse") - sqrt((1 + 0.25) / 2)) < 1e-4);
    put("minus.csv", "x,n\n1,3\n2,-1\n");
    fails("train minus.csv --target n --loss poisson", 1, "row 2 of 'n' is -1: poisson wants counts from 0");
    fails("train counts.csv --target kind --loss huber", 1, "is not a number");
    fails("train counts.csv --target n --loss cross_entropy --task regress", 2,
          "--loss cross_entropy is for classes, --task says numbers");
    fails("train counts.csv --target n --loss quantil:0.5", 2, "did you mean 'quantile'?");
    fails("train counts.csv --resume c.safetensors --loss squares", 2,
          "--loss is 'squares', c.safetensors was made with 'poisson'");
}

/* A model that sees nothing answers with the shares of the classes, each as large as its weight makes it. */
static void weights_of_classes_count(void **state)
{
    (void)state;
    FILE *f = fopen("k.csv", "w");
    fprintf(f, "x,k\n");
    for (int i = 0; i < 40; i++) fprintf(f, "1,%s\n", i % 4 ? "many" : "few");
    fclose(f);
    static const struct {
        const char *option;
        double few;
    } rows[] = {{"", 0.25}, {"--class-weights balanced", 0.5}, {"--class-weights few=6", 2.0 / 3}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments,
                 "train k.csv --target k --features x " EXACT "%s --out k.safetensors", rows[i].option);
        works(arguments);
        works("predict k.safetensors k.csv --proba");
        double few;
        assert_int_equal(sscanf(out, "k,probability,p(few),p(many)\n%*[^,],%*f,%lf", &few), 1);
        if (!(fabs(few - rows[i].few) < 1e-4)) fail_msg("%s: %g", rows[i].option, few);
    }
    works("train k.csv --resume k.safetensors --epochs 201"); /* knows its weights */
    fails("train k.csv --resume k.safetensors --class-weights balanced", 2, "--class-weights is 'balanced'");
    fails("train k.csv --target k --class-weights feu=2", 2, "no class 'feu', did you mean 'few'?");
    fails("train k.csv --target k --class-weights few=-1", 2, "'few=-1' is not CLASS=WEIGHT");
    fails("train k.csv --target k --class-weights few=1,,many=2", 2, "'' is not CLASS=WEIGHT");
    fails("train k.csv --target x --task regress --features k --class-weights balanced", 2,
          "--class-weights is for classes");
}

/* ---- reports ---- */

#define MOST 400

/* Counts by hand what a report says: pairs for the area under the curve. */
static void reports_agree_with_counting(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 3 --out f.safetensors");
    works("predict f.safetensors " DATA "flowers.csv --proba --out p.csv");
    static double p[MOST][3];
    static int right[MOST], answer[MOST];
    const char *const names[] = {"amber", "ruby", "violet"};
    FILE *table = fopen(DATA "flowers.csv", "r"), *predictions = fopen("p.csv", "r");
    char line[200], kind[40], guess[40];
    int rows = 0;
    assert_true(table && predictions && fgets(line, sizeof line, table) &&
                fgets(line, sizeof line, predictions));
    while (fscanf(table, "%*f,%*f,%*f,%*f,%39s\n", kind) == 1) {
        assert_int_equal(
            fscanf(predictions, "%39[^,],%*f,%lf,%lf,%lf\n", guess, p[rows], p[rows] + 1, p[rows] + 2), 4);
        for (int k = 0; k < 3; k++) {
            if (!strcmp(kind, names[k])) right[rows] = k;
            if (!strcmp(guess, names[k])) answer[rows] = k;
        }
        rows++;
    }
    fclose(table);
    fclose(predictions);
    works("predict f.safetensors " DATA
          "flowers.csv --score --json --roc roc.svg --calibration c.svg --dark");
    double mean_f1 = 0;
    for (int k = 0; k < 3; k++) {
        double both = 0, answered = 0, there = 0, pairs = 0, won = 0;
        for (int i = 0; i < rows; i++) {
            both += right[i] == k && answer[i] == k;
            answered += answer[i] == k;
            there += right[i] == k;
            for (int m = 0; m < rows; m++)
                if (right[i] == k && right[m] != k) {
                    pairs++;
                    won += p[i][k] > p[m][k] ? 1 : p[i][k] == p[m][k] ? 0.5 : 0;
                }
        }
        char key[64];
        snprintf(key, sizeof key, "{\"class\": \"%s\"", names[k]);
        char *at = strstr(out, key);
        assert_non_null(at);
        double precision = strtod(strstr(at, "\"precision\": ") + 13, NULL);
        double recall = strtod(strstr(at, "\"recall\": ") + 10, NULL);
        double f1 = strtod(strstr(at, "\"f1\": ") + 6, NULL), auc = strtod(strstr(at, "\"auc\": ") + 7, NULL);
        if (answered > 0) assert_true(fabs(precision - both / answered) < 1e-12);
        assert_true(fabs(recall - both / there) < 1e-12 && fabs(f1 - 2 * both / (answered + there)) < 1e-12);
        assert_true(fabs(auc - won / pairs) < 1e-3); /* printed probabilities have nine digits: ties */
        mean_f1 += f1 / 3;
    }
    assert_true(fabs(json_number("f1") - mean_f1) < 1e-12);
    const char *confusion = strstr(out, "\"confusion\": [[");
    assert_non_null(confusion);
    int first = 0;
    for (int i = 0; i < rows; i++) first += right[i] == 0 && answer[i] == 0;
    assert_int_equal(atoi(confusion + 15), first);
    assert_true(exists("roc.svg") && exists("c.svg"));
    slurp("roc.svg", out, sizeof out);
    assert_non_null(strstr(out, "AUC"));
    works("predict f.safetensors " DATA "flowers.csv --score");
    assert_non_null(strstr(out, "right \\ answered  amber"));
    fails("predict f.safetensors " DATA "flowers.csv --roc r.svg", 2, "--roc is for --score");
    fails("predict f.safetensors " DATA "flowers.csv --score --dark", 2, "--dark is for --roc");
    fails("predict f.safetensors " DATA "flowers.csv --score --roc r.gif", 2, "r.gif");
}

/* ---- several models ---- */

static void folds_have_a_mean_and_a_deviation(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 8 --folds 4 --json");
    double value[4], sum = 0, square = 0;
    const char *at = strstr(out, "\"folds\": [");
    for (int k = 0; k < 4; k++) {
        at = strstr(at, "\"accuracy\": ");
        assert_non_null(at);
        sum += value[k] = strtod(at += 12, NULL);
    }
    for (int k = 0; k < 4; k++) square += (value[k] - sum / 4) * (value[k] - sum / 4);
    assert_true(fabs(json_number_in("mean", "accuracy") - sum / 4) < 1e-12);
    assert_true(fabs(json_number_in("deviation", "accuracy") - sqrt(square / 3)) < 1e-12);
    static char before[1 << 14];
    snprintf(before, sizeof before, "%s", out);
    works(FLOWERS "--epochs 8 --folds 4 --json --threads 1");
    assert_string_equal(before, out);
    works(FLOWERS "--epochs 8 --folds 4 --json --seed 1");
    assert_string_not_equal(before, out);
    works(FLOWERS "--epochs 1 --folds 2");
    assert_non_null(strstr(out, "mean and deviation over folds: loss "));
    put("d.csv", "x,y\n1,2.5\n2,3.5\n3,1.5\n");
    fails("train d.csv --target y --folds 4", 1, "--folds 4: the data has 3 rows");
    fails(FLOWERS "--folds 1", 2, "--folds: '1' is not a whole number from 2");
}

/* The mean of what models of the seeds say one by one. */
static void an_ensemble_answers_with_the_mean(void **state)
{
    (void)state;
    double sum[3] = {0}, p[3];
    for (int seed = 3; seed < 6; seed++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments,
                 FLOWERS "--validation 0 --epochs 3 --seed %d --out one.safetensors", seed);
        works(arguments);
        works("predict one.safetensors " DATA "flowers.csv --proba");
        assert_int_equal(sscanf(strchr(out, '\n') + 1, "%*[^,],%*f,%lf,%lf,%lf", p, p + 1, p + 2), 3);
        for (int k = 0; k < 3; k++) sum[k] += p[k] / 3;
    }
    works(FLOWERS "--validation 0 --epochs 3 --seed 3 --seeds 3 --out all.safetensors");
    assert_non_null(strstr(out, "seed 5: 3 epochs"));
    works("predict all.safetensors " DATA "flowers.csv --proba");
    assert_int_equal(sscanf(strchr(out, '\n') + 1, "%*[^,],%*f,%lf,%lf,%lf", p, p + 1, p + 2), 3);
    for (int k = 0; k < 3; k++) assert_true(fabs(p[k] - sum[k]) < 1e-8);
    fails("train " DATA "flowers.csv --resume all.safetensors", 2, "holds 3 models of different seeds");
    works("train " DATA "decay.csv --target y --seeds 2 --epochs 2 --out d.safetensors --json");
    assert_true(json_number("seeds") == 2);
    works("predict d.safetensors " DATA "decay.csv --score");
}

/* ---- looking ---- */

static void the_column_that_matters_is_the_most_important(void **state)
{
    (void)state;
    FILE *f = fopen("i.csv", "w");
    fprintf(f, "noise,word,x,y\n");
    for (int i = 0; i < 200; i++)
        fprintf(f, "%d,%s,%d,%d.25\n", i * 37 % 101, i % 3 ? "a" : "b", i * 7 % 13,
                3 * (i * 7 % 13) + (i % 3 ? 0 : 9));
    fclose(f);
    works(
        "train i.csv --target y --validation 0.25 --model linear --epochs 60 --chain 'adam | lr(0.05)' --importance --json");
    const char *list = strstr(out, "\"importance\": [");
    assert_non_null(list);
    const char *x = strstr(list, "\"x\""), *word = strstr(list, "\"word\""),
               *noise = strstr(list, "\"noise\"");
    assert_true(x && word && noise && x < word && word < noise);
    assert_true(strtod(strstr(x, "\"mean\": ") + 8, NULL) > 1);
    assert_true(fabs(strtod(strstr(noise, "\"mean\": ") + 8, NULL)) < 0.05);
    works("train i.csv --target y --model linear --epochs 1 --importance");
    assert_non_null(strstr(out, "R2 lost when a column is shuffled"));
    fails("train " DATA "digits-images.idx3-ubyte.gz --target " DATA
          "digits-labels.idx1-ubyte.gz --model 'conv(2)' --epochs 0 --importance",
          2, "--importance is for tables");
}

static void a_learning_rate_is_found(void **state)
{
    (void)state;
    works(FLOWERS "--find-lr --plot lr.svg --json");
    double rate = json_number("lr"), lowest = json_number("lowest");
    assert_true(rate > 1e-4 && rate < 1 && lowest > rate);
    assert_true(exists("lr.svg"));
    /* plain steps want larger ones */
    works(FLOWERS "--find-lr --chain 'lr(1)' --json");
    assert_true(json_number("lr") > 3 * rate);
    works(FLOWERS "--find-lr");
    assert_true(!strncmp(out, "lr 0.", 5));
    fails(FLOWERS "--find-lr --chain adam", 1, "lr");
    fails(FLOWERS "--find-lr --out m.safetensors", 2, "--find-lr and --out do not go together");
    fails(FLOWERS "--plot lr.svg", 2, "--plot is for --find-lr");
    fails(FLOWERS "--folds 3 --out m.safetensors", 2, "--folds and --out do not go together");
    fails(FLOWERS "--seeds 3 --trace t.jsonl", 2, "--seeds and --trace do not go together");
    fails(FLOWERS "--validation 0 --roc r.svg", 2, "--roc is for classes, with rows to validate with");
    fails("train " DATA "decay.csv --target y --calibration r.svg", 2, "--calibration is for classes");
}

/* ---- stopping ---- */

static void the_metric_asked_for_chooses_the_epoch(void **state)
{
    (void)state;
    works(FLOWERS
          "--chain 'adam | lr(0.05)' --epochs 30 --stop-on accuracy --patience 4 --json --trace t.jsonl");
    double best = json_number("best_epoch"), epochs = json_number("epochs"), highest = -1, first = 0,
           epoch = 0;
    slurp("t.jsonl", out, sizeof out);
    for (const char *s = out; (s = strstr(s, "\"val_accuracy\":")); s++) {
        double value = strtod(s + 15, NULL);
        epoch++;
        if (value > highest) highest = value, first = epoch;
    }
    assert_true(best == first && (epochs == best + 4 || epochs == 30));
    works(FLOWERS "--epochs 2 --stop-on auc --json");
    works("train " DATA "decay.csv --target y --epochs 2 --stop-on mae --json");
    fails(FLOWERS "--stop-on r2", 2, "--stop-on r2 is for numbers, the target is classes");
    fails("train " DATA "decay.csv --target y --stop-on f1", 2, "--stop-on f1 is for classes");
    fails(FLOWERS "--stop-on luck", 2, "--stop-on: 'luck' is none of");
    fails(FLOWERS "--stop-on accuracy --validation 0", 2, "wants rows to validate with");
}

static void time_may_be_limited(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 100000000 --time 0.2 --json --out t.safetensors");
    assert_non_null(strstr(out, "\"stopped\": \"time is up\""));
    assert_true(json_number("seconds") > 0.15 && json_number("seconds") < 10);
    fails(FLOWERS "--time -1", 2, "--time");
}

/* ---- going on in another way ---- */

static void a_resumed_run_may_change_its_chain_and_says_so(void **state)
{
    (void)state;
    works(FLOWERS "--epochs 2 --chain 'adam | lr(1e-3)' --out a.safetensors --json");
    double steps = json_number("steps");
    assert_int_equal(system("cp a.safetensors b.safetensors; cp a.safetensors c.safetensors"), 0);
    /* a rate of zero: the steps count, the model stays */
    works("train " DATA "flowers.csv --resume a.safetensors --epochs 3 --chain 'adam | lr(0)' --json");
    assert_non_null(strstr(out, "\"changed\": [\"--chain was adam | lr(1e-3) and is now adam | lr(0)\", "
                                "\"--epochs was 2 and is now 3\"]"));
    assert_true(json_number("steps") == steps / 2 * 3);
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_archive *a = gd_archive_load(ctx, "a.safetensors"), *b = gd_archive_load(ctx, "b.safetensors");
    assert_true(a && b);
    size_t bytes = (size_t)gd_numel(gd_archive_find(a, "model.out.weight")) * sizeof(float);
    assert_memory_equal(gd_data(gd_archive_find(a, "model.out.weight")),
                        gd_data(gd_archive_find(b, "model.out.weight")), bytes);
    /* and the averages of before were there: they are not those of one epoch */
    assert_memory_not_equal(gd_data(gd_archive_find(a, "optimizer/out.weight/0:adam/exp_avg_sq")),
                            gd_data(gd_archive_find(b, "optimizer/out.weight/0:adam/exp_avg_sq")), bytes);
    gd_archive_free(a);
    gd_archive_free(b);
    gd_ctx_free(ctx);
    works("train " DATA
          "flowers.csv --resume b.safetensors --epochs 3 --chain 'clip_norm(1) | adam | lr(0.01)' --json");
    assert_true(json_number("steps") == steps / 2 * 3);
    works(
        "train " DATA
        "flowers.csv --resume c.safetensors --epochs 3 --group 'out.*: lr=0.5' --schedule 'lr=linear(1, 0, 9)'");
    assert_non_null(strstr(out, "--group was [] and is now [\"out.*: lr=0.5\"]\n"));
    /* what it goes on with is what it says from then on */
    works("train " DATA "flowers.csv --resume c.safetensors --epochs 3 --json");
    assert_non_null(strstr(out, "\"changed\": []"));
    works("train " DATA "flowers.csv --resume c.safetensors --epochs 4");
    assert_non_null(strstr(out, "--epochs was 3 and is now 4\n"));
    fails("train " DATA "flowers.csv --resume c.safetensors --chain 'adm'", 2, "link 'adm' unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_what_they_say),
        PROGRAM_TEST(answers_are_median_quantile_and_rate),
        PROGRAM_TEST(weights_of_classes_count),
        PROGRAM_TEST(reports_agree_with_counting),
        PROGRAM_TEST(folds_have_a_mean_and_a_deviation),
        PROGRAM_TEST(an_ensemble_answers_with_the_mean),
        PROGRAM_TEST(the_column_that_matters_is_the_most_important),
        PROGRAM_TEST(a_learning_rate_is_found),
        PROGRAM_TEST(the_metric_asked_for_chooses_the_epoch),
        PROGRAM_TEST(time_may_be_limited),
        PROGRAM_TEST(a_resumed_run_may_change_its_chain_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
