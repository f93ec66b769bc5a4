/* Comparison of two fits of the same data. */
#include "base/special.h"
#include "base/text/number.h"
#include "fit/fit_job.h"

#include <math.h>
#include <string.h>

static gd_status read_number(gd_ctx *ctx, const gd_fit_file *f, const char *key, double *out)
{
    const char *text = gd_archive_get_meta(f->archive, key);
    if (text && gd__parse_number(text, strlen(text), true, out) == strlen(text)) return GD_OK;
    if (gd__fit_is_saved(f->archive))
        return gd_fail(ctx, GD_VALUE, "compare: %.200s: the fit did not come to its end: nothing to compare",
                       f->path);
    return gd_fail(ctx, GD_FORMAT, "compare: %.200s: no '%s': a file with a saved fit is needed", f->path,
                   key);
}

gd_status gd__fit_file_of(gd_ctx *ctx, gd_archive *archive, const char *path, gd_fit_file *f)
{
    *f = (gd_fit_file){.path = path, .archive = archive};
    if (!f->archive) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    const char *loss = gd_archive_get_meta(f->archive, "fit.loss");
    if (loss)
        return gd_fail(ctx, GD_VALUE,
                       "compare: %.200s: fitted with the loss %.20s: no likelihoods to compare", path, loss);
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
static bool inside(const gd_fit_file *a, const gd_fit_file *b)
{
    for (int64_t i = 0; i < gd_archive_count(a->archive); i++)
        if (strncmp(gd_archive_name(a->archive, i), "fit.", 4) != 0 &&
            !gd_archive_find(b->archive, gd_archive_name(a->archive, i)))
            return false;
    return true;
}

gd_fit_verdict gd__fit_compare(const gd_fit_file fit[2])
{
    gd_fit_verdict v = {.small = fit[0].free <= fit[1].free ? 0 : 1, .f = NAN, .p = NAN};
    const gd_fit_file *a = &fit[v.small], *b = &fit[!v.small];
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

gd_status gd__fit_file_load(gd_ctx *ctx, const char *path, gd_fit_file *f)
{
    return gd__fit_file_of(ctx, gd_archive_load(ctx, path), path, f);
}

gd_status gd__fit_check_rows(gd_ctx *ctx, const gd_fit_file fit[2])
{
    if (!strcmp(fit[0].rows, fit[1].rows)) return GD_OK;
    return gd_fail(ctx, GD_VALUE, "compare: the fits are of different data: %g and %g rows%s", fit[0].points,
                   fit[1].points, fit[0].points == fit[1].points ? " with other values or weights" : "");
}

/* ---- for programs ---- */

static gd_status open_fit(gd_fit *fit, const char *name, gd_fit_file *out)
{
    gd_status status = fit->state == GD_FIT_LOADED ? gd_error(fit->ctx) : gd__fit_check_done(fit);
    if (status) return status;
    return gd__fit_file_of(fit->ctx, fit->texts.archive ? fit->texts.archive : gd__fit_archive(fit),
                           fit->texts.path ? fit->texts.path : name, out);
}

gd_status gd_fit_compare(gd_fit *a, gd_fit *b, gd_fit_comparison *out)
{
    if (!a) return GD_ARGUMENT;
    if (gd_error(a->ctx)) return gd_error(a->ctx);
    if (!b || !out) return gd__null(a->ctx, "gd_fit_compare");
    gd_fit_file file[2] = {{0}, {0}};
    gd_status status = open_fit(a, "the first fit", &file[0]);
    if (!status) status = open_fit(b, "the second fit", &file[1]);
    if (!status) status = gd__fit_check_rows(a->ctx, file);
    if (!status) {
        gd_fit_verdict v = gd__fit_compare(file);
        *out = (gd_fit_comparison){.f = v.f, .p = v.p, .nested = !v.no, .why = v.no};
        for (int k = 0; k < 2; k++) out->aicc[k] = file[k].numbers.aicc;
        out->evidence_ratio = exp(fabs(out->aicc[0] - out->aicc[1]) / 2);
    }
    if (!a->texts.archive) gd_archive_free(file[0].archive);
    if (!b->texts.archive) gd_archive_free(file[1].archive);
    return status;
}
