/* gradus compare: which of two fits of the same data is to be preferred. */
#include "cli/cli.h"
#include "fit/fit_job.h"
#include "base/text/number.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const gd_option options[] = {
    GD_SWITCH("json",
              "print one JSON object: fits [{model, points, free, dof, rss, aic, aicc, bic}], f, p, nested"),
    {0},
};

static const struct {
    const char *name, *key;
    size_t at;
} lines[] = {{"points", "points", offsetof(gd_fit_file, points)},
             {"free parameters", "free", offsetof(gd_fit_file, free)},
             {"degrees of freedom", "dof", offsetof(gd_fit_file, dof)},
             {"sum of squares", "rss", offsetof(gd_fit_file, rss)},
             {"log likelihood", "log_likelihood", offsetof(gd_fit_file, log_likelihood)},
             {"AIC", "aic", offsetof(gd_fit_file, numbers.aic)},
             {"AICc", "aicc", offsetof(gd_fit_file, numbers.aicc)},
             {"BIC", "bic", offsetof(gd_fit_file, numbers.bic)}};
#define LINES ((int)(sizeof lines / sizeof *lines))

static double number_of(const gd_fit_file *f, int line)
{
    double value;
    memcpy(&value, (const char *)f + lines[line].at, sizeof value);
    return value;
}

static void print_compared(gd_text *out, const gd_fit_file fit[2], const gd_fit_verdict *v)
{
    for (int k = 0; k < 2; k++) gd__text_put(out, "%c  %.200s: %.200s\n", 'A' + k, fit[k].path, fit[k].model);
    gd__text_put(out, "\n%-20s %16s %16s\n", "", "A", "B");
    for (int i = 0; i < LINES; i++)
        gd__text_put(out, "%-20s %16.8g %16.8g\n", lines[i].name, number_of(&fit[0], i),
                     number_of(&fit[1], i));
    double difference = fit[0].numbers.aicc - fit[1].numbers.aicc;
    if (isfinite(difference))
        gd__text_put(out, "\n%c is preferred by AICc, by %.4g: exp(-difference/2) = %.4g\n",
                     difference <= 0 ? 'A' : 'B', fabs(difference), exp(-fabs(difference) / 2));
    if (v->no)
        gd__text_put(out, "no F-test: %s\n", v->no);
    else
        gd__text_put(out, "F-test of %c inside %c: F = %.6g with %g and %g degrees of freedom, p = %.4g\n",
                     'A' + v->small, 'A' + !v->small, v->f, v->more, fit[!v->small].dof, v->p);
    if (!v->no && (fit[0].active > 0 || fit[1].active > 0))
        gd__text_add(out, "a parameter is at an active bound: p does not follow the F distribution\n");
}

static void json_compared(gd_text *out, const gd_fit_file fit[2], const gd_fit_verdict *v)
{
    gd__text_add(out, "{\"fits\": [");
    for (int k = 0; k < 2; k++) {
        gd__text_add(out, k ? ", {" : "{");
        gd__json_put_string(out, "model", fit[k].model);
        for (int i = 0; i < LINES; i++) gd__json_put_number(out, lines[i].key, number_of(&fit[k], i));
        gd__text_char(out, '}');
    }
    gd__text_put(out, "], \"nested\": %s", v->no ? "false" : "true");
    gd__json_put_number(out, "f", v->f);
    gd__json_put_number(out, "p", v->p);
    gd__text_put(out, ", \"active\": %s}\n", fit[0].active > 0 || fit[1].active > 0 ? "true" : "false");
}

static int run_compare(gd_cli *cli, const gd_args *args)
{
    gd_fit_file fit[2] = {{0}, {0}};
    gd_status status = gd__fit_file_load(cli->ctx, args->argument[0], &fit[0]);
    if (!status) status = gd__fit_file_load(cli->ctx, args->argument[1], &fit[1]);
    if (!status) status = gd__fit_check_rows(cli->ctx, fit);
    if (!status) {
        gd_fit_verdict v = gd__fit_compare(fit);
        (gd__args_has(args, "json") ? json_compared : print_compared)(&cli->out, fit, &v);
        if (cli->out.failed) status = GD_NOMEM;
    }
    for (int k = 0; k < 2; k++) gd_archive_free(fit[k].archive);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_compare = {
    .name = "compare",
    .summary =
        "Compare two fits of the same data: AIC, AICc, BIC and the F-test if one is a special case of the other.",
    .arguments = "FIT_A.safetensors FIT_B.safetensors",
    .description =
        "The files are written by gradus fit --out.  AIC, AICc and BIC count the standard deviation as a "
        "parameter, unless --absolute-sigma gave it; the smaller is preferred.  The F-test needs a fit whose "
        "parameters are all parameters of the other: p is the probability of such a gain by chance if the "
        "smaller model is right.",
    .options = options,
    .least = 2,
    .most = 2,
    .reads_from = 1,
    .examples =
        "gradus fit 'a*exp(-b*t)' decay.csv --param a=1 --param b=1 --out small.safetensors\n"
        "gradus fit 'a*exp(-b*t)+c' decay.csv --param a=1 --param b=1 --param c=0 --out large.safetensors\n"
        "gradus compare small.safetensors large.safetensors\n",
    .run = run_compare,
};
