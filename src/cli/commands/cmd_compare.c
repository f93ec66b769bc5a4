/* gradus compare: which of two fits of the same data is to be preferred. */
#include "base/special.h"
#include "cli/fit/fit.h"
#include "base/text/number.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const gd_option options[] = {
    GD_SWITCH("json",
              "print one JSON object: fits [{model, points, free, dof, rss, aic, aicc, bic}], f, p, nested"),
    {0},
};

typedef struct fit_file {
    const char *path, *model;
    gd_archive *archive;
    double rss, dof, points, free, active, log_likelihood;
    const char *rows;
    gd_fit_numbers numbers;
} fit_file;

static gd_status read_number(gd_ctx *ctx, const fit_file *f, const char *key, double *out)
{
    const char *text = gd_archive_get_meta(f->archive, key);
    if (text && gd__parse_number(text, strlen(text), true, out) == strlen(text)) return GD_OK;
    if (gd__fit_is_saved(f->archive))
        return gd_fail(ctx, GD_VALUE, "compare: %.200s: the fit did not come to its end: nothing to compare",
                       f->path);
    return gd_fail(ctx, GD_FORMAT, "compare: %.200s: no '%s': a file that gradus fit --out wrote is needed",
                   f->path, key);
}

static gd_status read_fit(gd_ctx *ctx, const char *path, fit_file *f)
{
    *f = (fit_file){.path = path, .archive = gd_archive_load(ctx, path)};
    if (!f->archive) return gd_error(ctx);
    const char *loss = gd_archive_get_meta(f->archive, "fit.loss");
    if (loss)
        return gd_fail(ctx, GD_VALUE, "compare: %.200s: fitted by --loss %.20s: no likelihoods to compare",
                       path, loss);
    if (gd_archive_get_meta(f->archive, "fit.noise.0"))
        return gd_fail(ctx, GD_VALUE, "compare: %.200s: fitted with errors in x: no likelihoods to compare",
                       path);
    const struct {
        const char *key;
        double *to;
    } numbers[] = {{"fit.rss", &f->rss},       {"fit.dof", &f->dof},
                   {"fit.points", &f->points}, {"fit.free", &f->free},
                   {"fit.active", &f->active}, {"fit.log_likelihood", &f->log_likelihood}};
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++)
        status = read_number(ctx, f, numbers[i].key, numbers[i].to);
    f->rows = gd_archive_get_meta(f->archive, "fit.rows");
    f->model = gd_archive_get_meta(f->archive, "model");
    if (!status && (!f->rows || !f->model)) status = read_number(ctx, f, "fit.rows", &f->rss);
    bool known = gd_archive_get_meta(f->archive, "fit.known_sigma") != NULL;
    f->numbers = gd__fit_numbers(f->log_likelihood, f->free, f->points, known);
    return status;
}

/* Are all parameters of a also parameters of b? */
static bool inside(const fit_file *a, const fit_file *b)
{
    for (int64_t i = 0; i < gd_archive_count(a->archive); i++)
        if (strncmp(gd_archive_name(a->archive, i), "fit.", 4) != 0 &&
            !gd_archive_find(b->archive, gd_archive_name(a->archive, i)))
            return false;
    return true;
}

/* ---- results ---- */

typedef struct verdict {
    int small;         /* index of the fit with fewer parameters */
    const char *no;    /* why there is no F-test; NULL: there is one */
    double f, p, more; /* more: parameters that the larger has more */
} verdict;

static verdict judge(const fit_file fit[2])
{
    verdict v = {.small = fit[0].free <= fit[1].free ? 0 : 1, .f = NAN, .p = NAN};
    const fit_file *a = &fit[v.small], *b = &fit[!v.small];
    v.more = a->dof - b->dof;
    if (!(v.more > 0))
        v.no = "both have as many parameters";
    else if (!inside(a, b))
        v.no =
            "the parameters of the one are not all parameters of the other, so it is not a special case of it";
    else if (!(b->dof > 0))
        v.no = "the larger has no degrees of freedom";
    else if (a->rss < b->rss)
        v.no = "the larger fits worse: it has not reached its minimum";
    if (v.no) return v;
    v.f = (a->rss - b->rss) / v.more / (b->rss / b->dof);
    v.p = gd__f_tail(v.f, v.more, b->dof);
    return v;
}

static const struct {
    const char *name, *key;
    size_t at;
} lines[] = {{"points", "points", offsetof(fit_file, points)},
             {"free parameters", "free", offsetof(fit_file, free)},
             {"degrees of freedom", "dof", offsetof(fit_file, dof)},
             {"sum of squares", "rss", offsetof(fit_file, rss)},
             {"log likelihood", "log_likelihood", offsetof(fit_file, log_likelihood)},
             {"AIC", "aic", offsetof(fit_file, numbers.aic)},
             {"AICc", "aicc", offsetof(fit_file, numbers.aicc)},
             {"BIC", "bic", offsetof(fit_file, numbers.bic)}};
#define LINES ((int)(sizeof lines / sizeof *lines))

static double number_of(const fit_file *f, int line)
{
    double value;
    memcpy(&value, (const char *)f + lines[line].at, sizeof value);
    return value;
}

static void print_compared(gd_text *out, const fit_file fit[2], const verdict *v)
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
        gd__text_add(out, "a parameter is at an active bound: p is not what the F distribution says\n");
}

static void json_compared(gd_text *out, const fit_file fit[2], const verdict *v)
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
    fit_file fit[2] = {{0}, {0}};
    gd_status status = read_fit(cli->ctx, args->argument[0], &fit[0]);
    if (!status) status = read_fit(cli->ctx, args->argument[1], &fit[1]);
    if (!status && strcmp(fit[0].rows, fit[1].rows) != 0)
        status = gd_fail(cli->ctx, GD_VALUE, "compare: the fits are of different data: %g and %g rows%s",
                         fit[0].points, fit[1].points,
                         fit[0].points == fit[1].points ? " with other values or weights" : "");
    if (!status) {
        verdict v = judge(fit);
        (gd__args_has(args, "json") ? json_compared : print_compared)(&cli->out, fit, &v);
        if (cli->out.failed) status = GD_NOMEM;
    }
    for (int k = 0; k < 2; k++) gd_archive_free(fit[k].archive);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_compare = {
    .name = "compare",
    .summary =
        "Compare two fits of the same data: AIC, AICc, BIC and, where one is a special case of the other, the F-test.",
    .arguments = "FIT_A.safetensors FIT_B.safetensors",
    .description =
        "The files are what gradus fit --out writes.  AIC, AICc and BIC count the standard deviation as a parameter, "
        "unless --absolute-sigma gave it; the smaller is preferred.  The F-test is made where the parameters of one fit are all parameters of the "
        "other: p is how likely so large a gain is by chance if the smaller model is right.",
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
