/* Regularised logistic regression with optima known to 15 digits:
 *
 *     mean log(1 + exp(-y x.w)) + |w|^2 / (2 n)
 *
 * The data come from Debian packages and are read where those put them, or below GD_DATA_ROOT; without them there is
 * nothing to test. */
#include "gradus/optim.h"
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>

#define MOST_ROWS    600
#define MOST_COLUMNS 32

typedef struct table {
    int rows, columns;
    double x[MOST_ROWS * MOST_COLUMNS], y[MOST_ROWS]; /* y is 1 or -1 */
} table;

typedef struct regression {
    gd_tensor *w, *x, *y;
} regression;

static FILE *open_data(const char *path)
{
    char full[1024];
    const char *root = getenv("GD_DATA_ROOT");
    snprintf(full, sizeof full, "%s%s", root ? root : "", path);
    return fopen(full, "r");
}

/* "+1 1:0.708333 3:1 ..." */
static bool read_heart(table *t)
{
    FILE *f = open_data("/usr/share/doc/liblinear-tools/examples/heart_scale");
    char line[4096];
    if (!f) return false;
    *t = (table){.columns = 13};
    while (fgets(line, sizeof line, f) && t->rows < MOST_ROWS) {
        char *rest = line;
        t->y[t->rows] = strtod(rest, &rest);
        int k, used;
        double v;
        while (sscanf(rest, " %d:%lf%n", &k, &v, &used) == 2) {
            t->x[t->rows * t->columns + k - 1] = v;
            rest += used;
        }
        t->rows++;
    }
    fclose(f);
    return t->rows == 270;
}

/* Columns with mean 0 and (population) standard deviation 1. */
static void standardise(table *t)
{
    for (int j = 0; j < t->columns; j++) {
        double mean = 0, square = 0;
        for (int i = 0; i < t->rows; i++) mean += t->x[i * t->columns + j] / t->rows;
        for (int i = 0; i < t->rows; i++) square += pow(t->x[i * t->columns + j] - mean, 2) / t->rows;
        for (int i = 0; i < t->rows; i++)
            t->x[i * t->columns + j] = (t->x[i * t->columns + j] - mean) / sqrt(square);
    }
}

/* A line of counts and names, then 30 numbers and the class. */
static bool read_breast(table *t)
{
    FILE *f = open_data("/usr/lib/python3/dist-packages/sklearn/datasets/data/breast_cancer.csv");
    char line[4096];
    if (!f) return false;
    *t = (table){.columns = 30};
    bool header = true;
    while (fgets(line, sizeof line, f) && t->rows < MOST_ROWS) {
        char *rest = line;
        if (header) {
            header = false;
            continue;
        }
        for (int j = 0; j < 30; j++, rest++) t->x[t->rows * 30 + j] = strtod(rest, &rest);
        t->y[t->rows++] = strtod(rest, NULL) > 0 ? 1 : -1;
    }
    fclose(f);
    standardise(t);
    return t->rows == 569;
}

static gd_tensor *log_loss(void *user)
{
    regression *r = user;
    gd_tensor *margin = gd_mul(r->y, gd_matmul(r->x, r->w));
    gd_tensor *fit = gd_mean(gd_softplus(gd_neg(margin)), NULL, false);
    return gd_add(fit, gd_mul_scalar(gd_sum(gd_square(r->w), NULL, false), 0.5 / (double)gd_size(r->x, 0)));
}

static void reaches(const table *t, const char *chain, double optimum, double within)
{
    if (strstr(chain, "lbfgs") && !gd_link_class_find("lbfgs")) return;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    regression r = {.w = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){t->columns})),
                    .x = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){t->rows, t->columns}, t->x),
                    .y = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){t->rows}, t->y)};
    gd_solve_options options = gd_solve_defaults();
    options.gradient_tol = 1e-9;
    gd_solve_result result;
    gd_status status = gd_minimize(&r.w, 1, &(gd_objective){.loss = log_loss, .user = &r}, chain, &options,
                                   &result);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    print_message("%s: %.15g after %lld steps and %lld evaluations, off by %.1e: %s\n", chain, result.loss,
                  (long long)result.steps, (long long)result.evals, result.loss - optimum,
                  gd_stop_text(result.reason));
    assert_true(fabs(result.loss - optimum) <= within);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void all_reach(const table *t, double optimum)
{
    reaches(t, "newton", optimum, 1e-14);
    reaches(t, "newton_cg", optimum, 1e-14);
    reaches(t, "newton_cg_steihaug(hvp_method=\"autograd\")", optimum, 1e-14);
    reaches(t, "trust_cg(newton)", optimum, 1e-14);
    reaches(t, "dogleg(newton)", optimum, 1e-14);
    reaches(t, "levenberg_marquardt(newton)", optimum, 1e-14);
    reaches(t, "cubic_regularization(newton)", optimum, 1e-14);
    reaches(t, "lbfgs | strong_wolfe", optimum, 1e-12);
}

static void heart_scale_reaches_its_optimum(void **state)
{
    (void)state;
    static table t;
    if (!read_heart(&t)) skip();
    all_reach(&t, 0.363802961141248);
}

static void breast_cancer_reaches_its_optimum(void **state)
{
    (void)state;
    static table t;
    if (!read_breast(&t)) skip();
    all_reach(&t, 0.066569008008947);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heart_scale_reaches_its_optimum),
        cmocka_unit_test(breast_cancer_reaches_its_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
