/* Two runs of a tank that empties: columns of two files, their kinds, a part of them, a fit, and its formula as C.
 *
 *   cc tables.c $(pkg-config --cflags --libs gradus) -lm && ./a.out */
#include <gradus/gradus.h>

#include <math.h>
#include <stdio.h>

static gd_status write_run(gd_ctx *ctx, const char *path, double level)
{
    double time[12], height[12];
    const char *note[12];
    for (int i = 0; i < 12; i++) {
        time[i] = i;
        height[i] = level * exp(-0.3 * i) + 0.01 * (i % 3 - 1);
        note[i] = i % 4 ? "ok" : "stirred";
    }
    gd_table *run = gd_table_new(ctx, "run");
    gd_tensor *day = gd_add_scalar(gd_mul_scalar(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){12}, time), 86400),
                                   1.7e9 - fmod(1.7e9, 86400));
    gd_status status = gd_table_add_numbers(run, "t", time, 12, 1, NULL, NULL);
    if (!status) status = gd_table_add_numbers(run, "h", height, 12, 1, NULL, NULL);
    if (!status) status = gd_table_add_words(run, "note", note, 12);
    if (!status) status = gd_table_add_dates(run, "day", day, true, false);
    if (!status) status = gd_table_save(run, path);
    gd_table_free(run);
    return status;
}

static void print_columns(gd_table *table)
{
    static const char *const kind[] = {"?", "numbers", "words", "dates"};
    for (int i = 0; i < gd_table_columns(table); i++) {
        bool day = false, clock = false;
        printf("%-5s %s", gd_table_name(table, i), kind[gd_table_kind(table, i)]);
        if (gd_table_dates(table, i, &day, &clock)) printf(", %s", clock ? "with a time" : "days only");
        printf("\n");
    }
    printf("column of the notes: %d\n", gd_table_find(table, "note"));
}

/* The level of one run, with the time in which it halves as a derived parameter. */
static gd_status fit_run(gd_ctx *ctx, gd_table *table)
{
    gd_fit_param params[] = {{.name = "h0", .start = 1}, {.name = "rate", .start = 1}};
    gd_fit_spec spec = gd_fit_defaults();
    spec.model = "h0 * exp(-rate * t)", spec.y = "h", spec.table = table, spec.params = params,
    spec.param_count = 2;
    spec.derive = (const char *const[]){"half = log(2) / rate", NULL};
    gd_fit *fit = gd_fit_new(ctx, &spec);
    gd_status status = gd_fit_run(fit);
    for (int64_t i = 0; !status && i < gd_fit_count(fit) + gd_fit_derived(fit); i++) {
        gd_fit_estimate e;
        status = gd_fit_get(fit, i, &e);
        printf("%s = %.4f, %.4f .. %.4f\n", e.name, e.value, e.low, e.high);
    }
    gd_fit_free(fit);
    return status;
}

static void print_as_c(gd_ctx *ctx)
{
    char body[500];
    gd_expr *model = gd_expr_parse(ctx, "h0 * exp(-rate * t)", NULL);
    if (gd_expr_export(model, GD_EXPR_C, NULL, body, sizeof body) >= 0) printf("in C:\n%s;\n", body);
    gd_expr_free(model);
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    const char *path[] = {"run1.csv", "run2.csv"};
    gd_scope_begin(ctx);
    gd_status status = write_run(ctx, path[0], 2);
    if (!status) status = write_run(ctx, path[1], 5);
    gd_table *both = gd_table_load_all(ctx, path, 2, NULL);
    print_columns(both);
    gd_table *wanted = gd_table_select(both, (const char *const[]){"t", "h"}, 2);
    gd_table *second = gd_table_select_rows(wanted, gd_arange(ctx, GD_I64, 12, 24, 1));
    printf("%lld rows of %d columns\n", (long long)gd_table_rows(second), gd_table_columns(second));
    if (!status) status = fit_run(ctx, second);
    print_as_c(ctx);
    gd_scope_end(ctx);
    gd_table_free(second), gd_table_free(wanted), gd_table_free(both);
    if (!status) status = gd_error(ctx);
    if (status) fprintf(stderr, "tables: %s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status != GD_OK;
}
