/* gd_least_squares on the NIST Statistical Reference Datasets: 27 problems from two starts each.  The files are not part of
 * the repository; without them there is nothing to test. */
#include "gradus/solve.h"
#include "problems/nist.h"
#include "support/support.h"

#define FOLDER GD_TEST_DIR "/../../shared/nist"

typedef struct regression {
    const nist_model *model;
    gd_tensor *b[NIST_PARAMS], *x[2], *y;
} regression;

static gd_tensor *residuals(void *user)
{
    regression *r = user;
    return gd_sub(r->model->value(r->b, r->x), r->y);
}

/* Fits from one start; digits of the parameters and of their standard errors. */
static void fit(const nist_model *model, const nist_data *data, int start, gd_lsq_result *out, double *digits,
                double *error_digits)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    regression r = {.model = model};
    int64_t rows = data->rows;
    for (int i = 0; i < data->params; i++)
        r.b[i] = gd_require_grad(gd_scalar(ctx, GD_F64, data->start[start][i]));
    for (int i = 0; i < 2; i++) r.x[i] = gd_from_f64(ctx, GD_F64, 1, &rows, data->x[i]);
    r.y = gd_from_f64(ctx, GD_F64, 1, &rows, data->y);
    gd_status status = gd_least_squares(r.b, data->params, residuals, &r, NULL, out);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    double b[NIST_PARAMS], errors[NIST_PARAMS];
    for (int i = 0; i < data->params; i++) b[i] = gd_item(r.b[i]);
    assert_int_equal(gd_read_f64(out->standard_errors, errors, data->params), GD_OK);
    *digits = nist_digits(b, data->certified, data->params);
    *error_digits = nist_digits(errors, data->deviation, data->params);
    gd_lsq_result_clear(out);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void certified_values_are_found_from_both_starts(void **state)
{
    (void)state;
    int solved = 0, runs = 0, scored = 0;
    int64_t evals = 0;
    double digits = 0, error_digits = 0;
    bool verbose = getenv("GD_VERBOSE") != NULL;
    for (int i = 0; i < NIST_MODELS; i++) {
        nist_data data;
        if (!nist_read(FOLDER, nist_models[i].name, &data)) skip();
        for (int start = 0; start < 2; start++) {
            gd_lsq_result result;
            double q, e;
            fit(&nist_models[i], &data, start, &result, &q, &e);
            if (q < 4 || verbose)
                print_message("%-9s start %d: %5.2f digits, errors %5.2f, %4lld evaluations, %s\n",
                              nist_models[i].name, start + 1, q, e, (long long)result.solve.evals,
                              gd_stop_name(result.solve.reason));
            assert_true(result.solve.converged);
            runs++;
            solved += q >= 4;
            digits += q;
            evals += result.solve.evals;
            /* Lanczos1 was made without noise: its errors are rounding */
            if (strcmp(nist_models[i].name, "Lanczos1")) error_digits += e, scored++;
        }
    }
    print_message("%d of %d solved, mean %.2f digits (standard errors %.2f), %lld evaluations\n", solved,
                  runs, digits / runs, error_digits / scored, (long long)evals);
    assert_int_equal(solved, 54);
    assert_true(digits / runs >= 10.5);
    assert_true(error_digits / scored >= 9);
    assert_true(evals <= 1700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(certified_values_are_found_from_both_starts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
