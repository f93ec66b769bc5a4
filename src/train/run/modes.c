/* Folds, ensembles, and the end of a training; see job.h. */
#include "train/run/job.h"

#include <math.h>
#include <string.h>

typedef gd_train_job job;

/* ---- one model ---- */

/* The best parameters, or those to evaluate with, become the model's. */
static gd_status take_best(job *j)
{
    gd_trainer *t = &j->t;
    return t->point.best ? gd__checkpoint_take_best(&t->point) : gd_optimizer_evaluate(t->optimizer, true);
}

static gd_status measure_end(job *j)
{
    gd_trainer *t = &j->t;
    gd_status status = j->seeds > 1 ? GD_OK : take_best(j);
    if (!status) status = gd__measure(&t->point, t->x, t->y, &j->trained);
    if (status || !t->check_x) return status;
    status = gd__measure(&t->point, t->check_x, t->check_y, &t->checked);
    if (status || t->point.recipe.task != GD_TASK_CLASSIFY) return status;
    status = gd__report_make(&t->point, t->check_x, t->check_y, &j->report);
    t->checked.f1 = j->report.mean_f1;
    t->checked.auc = j->report.mean_auc;
    return status;
}

gd_status gd__train_run(job *j)
{
    gd_trainer *t = &j->t;
    gd_status status = j->hooks.begun ? j->hooks.begun(j->hooks.user, j) : GD_OK;
    if (!status) status = j->seeds > 1 ? gd__train_seeds(j) : gd__trainer_run(t);
    if (status) return status;
    gd_status closed = gd__run_writer_close(t->tracer);
    status = gd__events_close(t->events);
    t->tracer = NULL;
    t->events = NULL;
    return closed || status ? (closed ? closed : status) : measure_end(j);
}

/* ---- folds ---- */

static gd_status measure_fold(job *j, const int64_t *rows, int64_t count, gd_metrics *out)
{
    gd_trainer *t = &j->t;
    gd_tensor *x = NULL, *y = NULL;
    gd_report report = {.ctx = t->ctx};
    gd_status status = gd__train_rows(j, rows, count, &x, &y);
    if (!status) status = gd__measure(&t->point, x, y, out);
    if (!status && t->point.recipe.task == GD_TASK_CLASSIFY) {
        status = gd__report_make(&t->point, x, y, &report);
        out->f1 = report.mean_f1;
        out->auc = report.mean_auc;
    }
    gd__report_close(&report);
    gd_release(x);
    gd_release(y);
    return status;
}

static gd_status run_fold(job *j, int64_t k, gd_metrics *out)
{
    gd_trainer *t = &j->t;
    const gd_recipe *r = &t->point.recipe;
    int64_t apart, left, check = 0;
    gd_status status = gd__split_by_fold(t->ctx, &j->split, j->order, j->data.rows, j->folds, k, &apart,
                                         &left);
    int64_t *rest = j->order + apart;
    if (!status) status = gd__split_by_more(t->ctx, &j->split, rest, left, r->validation, &check);
    if (status) return status;
    gd__sort_rows(rest + check, left - check);
    status = gd__train_begin(j, rest + check, left - check, rest, check);
    if (status) return status;
    if (!k && j->hooks.begun) status = j->hooks.begun(j->hooks.user, j);
    if (!status) status = gd__trainer_run(t);
    if (!status && !strcmp(t->stopped, "interrupted"))
        status = gd_fail(t->ctx, GD_INTERRUPTED, "interrupted in fold %lld", (long long)k + 1);
    if (!status) status = take_best(j);
    return status ? status : measure_fold(j, j->order, apart, out);
}

/* Mean and standard deviation (n - 1) of every number over the folds. */
static void summarise(const gd_metrics *all, int64_t folds, gd_metrics *mean, gd_metrics *deviation)
{
    for (int i = 0; i < GD_METRICS; i++) {
        double sum = 0, square = 0;
        for (int64_t k = 0; k < folds; k++) sum += gd__metric_of(&gd__metric[i], &all[k]);
        for (int64_t k = 0; k < folds; k++) {
            double off = gd__metric_of(&gd__metric[i], &all[k]) - sum / (double)folds;
            square += off * off;
        }
        *(double *)((char *)mean + gd__metric[i].at) = sum / (double)folds;
        *(double *)((char *)deviation + gd__metric[i].at) = sqrt(square / (double)(folds - 1));
    }
}

gd_status gd__train_folds(job *j, gd_metrics *all, gd_metrics *mean, gd_metrics *deviation)
{
    gd_status status = GD_OK;
    if (j->folds > j->data.rows)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {folds} %lld: the data has %lld rows",
                       (long long)j->folds, (long long)j->data.rows);
    for (int64_t k = 0; k < j->folds && !status; k++) {
        status = run_fold(j, k, &all[k]);
        if (!status && j->hooks.fold_done) status = j->hooks.fold_done(j->hooks.user, j, k, &all[k]);
    }
    if (!status) summarise(all, j->folds, mean, deviation);
    return status;
}

/* ---- ensembles ---- */

/* Saves the models.  The steps of an ensemble are not resumed, so there is no optimizer. */
static gd_status save_models(job *j)
{
    gd_checkpoint *c = &j->t.point;
    c->recipe.seeds = c->members + 1;
    gd__checkpoint_free_copies(c, &c->best);
    return j->t.out ? gd__checkpoint_save(c, NULL, j->t.out) : GD_OK;
}

/* One model alone, without the others of the ensemble, and no checkpoint for --resume. */
static gd_status run_member(gd_trainer *t)
{
    const char *out = t->out;
    int members = t->point.members;
    t->out = NULL;
    t->point.members = 0;
    gd_status status = gd__trainer_run(t);
    t->out = out;
    t->point.members = members;
    return status;
}

gd_status gd__train_seeds(job *j)
{
    gd_trainer *t = &j->t;
    double seconds = 0;
    gd_status status = GD_OK;
    for (int64_t k = j->seeds - 1; k >= 0 && !status; k--) {
        if (t->stopped) status = gd__checkpoint_add_member(&t->point);
        if (!status) status = gd__train_again(j, k);
        if (!status) status = run_member(t);
        seconds += t->seconds;
        t->time -= t->seconds;
        if (!status) status = take_best(j);
        if (!status && j->hooks.seed_done) status = j->hooks.seed_done(j->hooks.user, j, k);
        if (!status) status = save_models(j);
        if (status || !strcmp(t->stopped, "interrupted")) break;
    }
    t->seconds = seconds;
    return status;
}
