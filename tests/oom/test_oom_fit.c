/* Every allocation of a fit fails once, from the spec to the picture: NOMEM, nothing leaks. */
#include "fit/line.h"

#include <unistd.h>

/* Everything that may be asked of a fit that has run. */
static bool ask_all(gd_ctx *ctx, gd_fit *fit, gd_table *table)
{
    gd_fit_estimate e;
    char text[64];
    gd_tensor *bands = gd_fit_predict(fit, table), *left = bands ? gd_fit_residuals(fit) : NULL;
    bool ok = left && gd_fit_get(fit, 0, &e) == GD_OK && gd_fit_report(fit, true, text, sizeof text) > 0;
    gd_release(bands);
    gd_release(left);
    if (!ok || gd_fit_save(fit, "oom_fit.safetensors")) return false;
    gd_fit *loaded = gd_fit_load(ctx, "oom_fit.safetensors");
    gd_fit_comparison c;
    ok = loaded && gd_fit_compare(loaded, fit, &c) == GD_OK && gd_fit_export(fit, "oom_fit.py") == GD_OK;
    gd_fit_free(loaded);
    return ok && gd_fit_draw(fit, "oom_fit.svg", NULL) == GD_OK;
}

static bool fit_a_line(gd_ctx *ctx)
{
    static const gd_fit_param params[] = {{.name = "a", .start = 1, .low = -9, .high = 9},
                                          {.name = "b", .start = 1},
                                          {.name = "c", .tied = "a/b"}};
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    spec.params = params;
    spec.param_count = 3;
    spec.derive = (const char *const[]){"s=a+b", NULL};
    spec.exclude = (const char *const[]){"x > 9", NULL};
    gd_fit *fit = table ? gd_fit_new(ctx, &spec) : NULL;
    bool ok = fit && gd_fit_run(fit) == GD_OK && ask_all(ctx, fit, table);
    gd_fit_free(fit);
    gd_table_free(table);
    return ok;
}

static void a_fit_survives_every_failed_allocation(void **state)
{
    (void)state;
    fail_each_allocation(1, fit_a_line);
    unlink("oom_fit.safetensors");
    unlink("oom_fit.py");
    unlink("oom_fit.svg");
}

static gd_tensor *line_of(void *user, gd_tensor *const *params, gd_tensor *const *columns)
{
    (void)user;
    return gd_add(params[0], gd_mul(params[1], columns[0]));
}

static bool fit_a_function(gd_ctx *ctx)
{
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    spec.function = line_of;
    spec.columns = (const char *const[]){"x", NULL};
    gd_fit *fit = table ? gd_fit_new(ctx, &spec) : NULL;
    gd_tensor *bands = fit && gd_fit_run(fit) == GD_OK ? gd_fit_predict(fit, table) : NULL;
    bool ok = bands != NULL;
    gd_release(bands);
    gd_fit_free(fit);
    gd_table_free(table);
    return ok;
}

static void a_fit_of_a_function_survives_every_failed_allocation(void **state)
{
    (void)state;
    fail_each_allocation(1, fit_a_function);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fit_survives_every_failed_allocation),
        cmocka_unit_test(a_fit_of_a_function_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
