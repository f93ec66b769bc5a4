/* Trainings in one call; see gradus/train.h. */
#include "train/run/trained_model.h"
#include "base/spelling.h"

#include <string.h>

gd_status gd__train_status(gd_ctx *ctx, gd_status status)
{
    if (gd_error(ctx)) return gd_error(ctx);
    return status ? gd_fail(ctx, status, "train: %s", status == GD_NOMEM ? "out of memory" : "failed")
                  : GD_OK;
}

/* A job of a table or a file; NULL: an error is recorded. */
static gd_train_job *new_job(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec)
{
    if (!ctx || gd_error(ctx)) return NULL;
    if (!spec) return gd__none(gd__null(ctx, "train: the spec is NULL"));
    gd_train_job *j = gd__calloc(ctx, sizeof *j);
    if (!j) return gd__none(gd__train_status(ctx, GD_NOMEM));
    gd__train_init(ctx, table, spec, NULL, j);
    return j;
}

static void free_job(gd_train_job *j)
{
    gd_ctx *ctx = j->t.ctx;
    gd__train_close(j);
    gd__free(ctx, j, sizeof *j);
}

static bool was_interrupted(const gd_train_job *j)
{
    return j->t.stopped && !strcmp(j->t.stopped, "interrupted");
}

gd_model *gd_train(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec)
{
    gd_train_job *j = new_job(ctx, table, spec);
    if (!j) return NULL;
    gd_status status = gd__train_open(j);
    if (!status) status = gd__train_run(j);
    if (!status && was_interrupted(j))
        status = gd_fail(ctx, GD_INTERRUPTED, "train: interrupted in epoch %lld%s%s",
                         (long long)j->t.point.progress.epoch + 1, j->t.out ? "; continue with " : "",
                         j->t.out ? j->t.out : "");
    gd_model *model = status ? NULL : gd__model_take(j);
    if (!model) (void)gd__train_status(ctx, status ? status : GD_NOMEM);
    free_job(j);
    return model;
}

/* Runs that train several models, or none, keep no model. */
static gd_status keeps_nothing(gd_ctx *ctx, const gd_train_spec *s, const char *what)
{
    const struct {
        const char *name;
        bool given;
    } member[] = {{"out", s->out},
                  {"resume", s->resume},
                  {"trace", s->trace},
                  {"events", s->events},
                  {"seeds", s->seeds != 1}};
    for (size_t i = 0; i < sizeof member / sizeof *member; i++)
        if (member[i].given)
            return gd_fail(ctx, GD_ARGUMENT, "train: %s and %s do not go together", what,
                           gd__setting_of(ctx, member[i].name));
    return GD_OK;
}

static gd_status run_folds(gd_train_job *j, gd_metrics *each, gd_metrics *mean, gd_metrics *deviation)
{
    gd_metrics of_all[2];
    size_t bytes = (size_t)j->folds * sizeof *each;
    gd_metrics *all = gd__calloc(j->t.ctx, bytes);
    if (!all) return GD_NOMEM;
    gd_status status = gd__train_open(j);
    if (!status) status = gd__train_folds(j, all, &of_all[0], &of_all[1]);
    if (!status && each) memcpy(each, all, bytes);
    if (!status && mean) *mean = of_all[0];
    if (!status && deviation) *deviation = of_all[1];
    gd__free(j->t.ctx, all, bytes);
    return status;
}

gd_status gd_train_folds(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec, int64_t folds,
                         gd_metrics *each, gd_metrics *mean, gd_metrics *deviation)
{
    gd_train_job *j = new_job(ctx, table, spec);
    if (!j) return ctx ? gd_error(ctx) : GD_ARGUMENT;
    gd_status status = keeps_nothing(ctx, spec, "folds");
    if (!status && (folds < 2 || folds > 1000))
        status = gd_fail(ctx, GD_ARGUMENT, "train: {folds}: '%lld' is not a whole number from 2 to 1000",
                         (long long)folds);
    j->folds = folds;
    if (!status) status = run_folds(j, each, mean, deviation);
    status = gd__train_status(ctx, status);
    free_job(j);
    return status;
}

gd_status gd_train_find_rate(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec, gd_rates *out)
{
    gd_train_job *j = new_job(ctx, table, spec);
    if (!j) return ctx ? gd_error(ctx) : GD_ARGUMENT;
    gd_status status = out ? keeps_nothing(ctx, spec, "a search for a rate")
                           : gd__null(ctx, "train: there is no place for the rates");
    if (!status) status = gd__train_open(j);
    if (!status) status = gd__find_rate(&j->t, out);
    status = gd__train_status(ctx, status);
    free_job(j);
    return status;
}
