/* Fits a*exp(-b*t)+c to the columns t and y of a table, prints the parameters with their intervals, and draws the fit. */
#include <gradus/fit.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_table *table = gd_table_load(ctx, argc > 1 ? argv[1] : "data/decay.csv", NULL);
    gd_fit_param params[] = {{.name = "a", .start = 1}, {.name = "b", .start = 1}, {.name = "c"}};
    gd_fit_spec spec = gd_fit_defaults();
    spec.model = "a*exp(-b*t)+c", spec.table = table, spec.params = params, spec.param_count = 3;
    gd_fit *fit = gd_fit_new(ctx, &spec);
    gd_status status = gd_fit_run(fit);
    for (int64_t i = 0; !status && i < gd_fit_count(fit); i++) {
        gd_fit_estimate e;
        status = gd_fit_get(fit, i, &e);
        printf("%s = %9.6f +- %.6f   %9.6f .. %9.6f\n", e.name, e.value, e.error, e.low, e.high);
    }
    if (!status) status = gd_fit_draw(fit, "decay.svg", NULL);
    if (status) fprintf(stderr, "%s\n", gd_error_text(ctx));
    gd_fit_free(fit), gd_table_free(table), gd_ctx_free(ctx);
    return status != GD_OK;
}
