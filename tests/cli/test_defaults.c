/* What gradus train makes of data without any setting, against scores of scikit-learn on the same rows.
 *
 * The tables are made here, or lie in tables/ (breast cancer and diabetes, from scikit-learn); the last quarter of the rows is kept
 * for the score.  Scores are those of MLPClassifier (accuracy) and MLPRegressor (R2), scikit-learn 1.9.1, default settings,
 * StandardScaler on the inputs, mean and standard deviation over random_state 0 ... 9.  (bench/train.c compares them live, over splits.) */
#include "program.h"

/* Numbers from 0 to 1 that any language makes alike. */
static uint32_t seed;

static double uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) / 16777216.0;
}

/* Nearly normal: the sum of twelve. */
static double normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum;
}

/* Friedman 1991: ten numbers, five of which count. */
static void put_friedman(FILE *train, FILE *test)
{
    seed = 1;
    for (int i = 0; i < 1000; i++) {
        double x[10];
        FILE *f = i < 750 ? train : test;
        for (int k = 0; k < 10; k++) fprintf(f, "%.9f,", x[k] = uniform());
        fprintf(f, "%.9f\n",
                10 * sin(acos(-1.0) * x[0] * x[1]) + 20 * (x[2] - 0.5) * (x[2] - 0.5) + 10 * x[3] + 5 * x[4] +
                    normal());
    }
}

/* Three classes by curved borders, with noise. */
static void put_classes(FILE *train, FILE *test)
{
    seed = 2;
    for (int i = 0; i < 4000; i++) {
        double x[12], score[3];
        FILE *f = i < 3000 ? train : test;
        for (int k = 0; k < 12; k++) fprintf(f, "%.6f,", x[k] = normal());
        score[0] = sin(2 * x[0]) + x[1] * x[2] + 0.3 * normal();
        score[1] = x[3] * x[3] - 1 + x[4] + 0.3 * normal();
        score[2] = x[5] - x[0] * x[6] + 0.3 * normal();
        fprintf(f, "%d\n", score[1] > score[0] ? score[2] > score[1] ? 2 : 1 : score[2] > score[0] ? 2 : 0);
    }
}

static void put_header(FILE *f, int columns)
{
    for (int k = 0; k < columns; k++) fprintf(f, "x%d,", k);
    fprintf(f, "y\n");
}

static void make_tables(int columns, void (*fill)(FILE *, FILE *))
{
    FILE *train = fopen("train.csv", "w"), *test = fopen("test.csv", "w");
    assert_true(train && test);
    put_header(train, columns);
    put_header(test, columns);
    fill(train, test);
    fclose(train);
    fclose(test);
}

/* A shipped table: the last quarter of its rows is for the score. */
static void cut_table(const char *name)
{
    char command[512];
    snprintf(
        command, sizeof command,
        "gzip -dc " GD_TEST_DIR "/cli/tables/%s.csv.gz >all.csv && n=$(($(wc -l <all.csv) - 1)) && "
        "head -n $((1 + n - n / 4)) all.csv >train.csv && (head -n 1 all.csv; tail -n $((n / 4)) all.csv) >test.csv",
        name);
    assert_int_equal(system(command), 0);
}

/* The mean of three seeds is no more than two standard deviations below. */
static void is_as_good_as(const char *name, double mean, double deviation)
{
    double sum = 0;
    for (int k = 0; k < 3; k++) {
        char arguments[200];
        snprintf(arguments, sizeof arguments, "train train.csv --target y --seed %d --out m.safetensors", k);
        works(arguments);
        works("predict m.safetensors test.csv --score --json");
        sum += json_number(strstr(out, "\"accuracy\"") ? "accuracy" : "r2") / 3;
    }
    print_message("%s: %.4f, scikit-learn %.4f +- %.4f\n", name, sum, mean, deviation);
    if (!(sum >= mean - 2 * deviation))
        fail_msg("%s: %g, scikit-learn has %g +- %g", name, sum, mean, deviation);
}

static void defaults_are_as_good_on_friedman(void **state)
{
    (void)state;
    make_tables(10, put_friedman);
    is_as_good_as("friedman1", 0.5931, 0.0130);
}

static void defaults_are_as_good_on_a_table_of_classes(void **state)
{
    (void)state;
    make_tables(12, put_classes);
    is_as_good_as("table", 0.8612, 0.0070);
}

static void defaults_are_as_good_on_shipped_tables(void **state)
{
    (void)state;
    cut_table("cancer");
    is_as_good_as("cancer", 0.9669, 0.0034);
    cut_table("diabetes");
    is_as_good_as("diabetes", -1.3340, 0.0991);
    cut_table("digits");
    is_as_good_as("digits", 0.9740, 0.0060);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(defaults_are_as_good_on_friedman),
        PROGRAM_TEST(defaults_are_as_good_on_a_table_of_classes),
        PROGRAM_TEST(defaults_are_as_good_on_shipped_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
