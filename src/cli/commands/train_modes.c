/* Folds, ensembles, learning rates; see train_modes.h. */
#include "cli/commands/train_modes.h"
#include "cli/train/explore.h"

#include <math.h>
#include <string.h>

typedef gd_train_job job;

/* ---- options that go together ---- */

gd_status gd__train_check_options(const job *j)
{
    /* the first is refused beside any of the others */
    static const char *const apart[][11] = {
        {"find-lr", "out", "resume", "trace", "events", "folds", "seeds", "importance", "roc", "calibration"},
        {"folds", "out", "resume", "trace", "events", "seeds", "importance", "roc", "calibration"},
        {"seeds", "resume", "trace", "events"},
        {"features", "ignore"},
    };
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        for (int k = 1; apart[i][k] && gd__args_has(j->args, apart[i][0]); k++)
            if (gd__args_has(j->args, apart[i][k]))
                return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --%s and --%s do not go together", apart[i][0],
                               apart[i][k]);
    static const char *const needs[][4] = {
        {"plot", "find-lr"}, {"save-every", "out", "resume"}, {"dark", "plot", "roc", "calibration"}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        bool met = !gd__args_has(j->args, needs[i][0]);
        for (int k = 1; k < 4 && needs[i][k]; k++) met = met || gd__args_has(j->args, needs[i][k]);
        if (!met)
            return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --%s is for --%s, which is not given", needs[i][0],
                           needs[i][1]);
    }
    /* what says when a training ends, where there is none */
    static const char *const of_training[] = {"epochs", "patience", "stop-on", "time"};
    for (size_t i = 0; i < sizeof of_training / sizeof *of_training; i++)
        if (gd__args_has(j->args, "find-lr") && gd__args_has(j->args, of_training[i]))
            gd_warn(j->t.ctx, "train: --%s has no effect with --find-lr, which trains nothing",
                    of_training[i]);
    return GD_OK;
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
    if (!k) gd__train_introduce(j);
    status = gd__trainer_run(t);
    if (!status && !strcmp(t->stopped, "interrupted"))
        status = gd_fail(t->ctx, GD_INTERRUPTED, "interrupted in fold %lld", (long long)k + 1);
    if (!status) status = gd__train_take_best(j);
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

static void json_folds(job *j, const gd_metrics *all, const gd_metrics *mean, const gd_metrics *deviation)
{
    gd_text *out = &j->t.cli->out;
    const gd_recipe *r = &j->t.point.recipe;
    gd__text_char(out, '{');
    gd__json_put_string(out, "task", gd__task_name(r->task));
    gd__json_put_string(out, "model", r->model);
    gd__json_put_string(out, "chain", r->chain);
    gd__json_put_whole(out, "rows", j->data.rows);
    gd__text_add(out, ", \"folds\": [");
    for (int64_t k = 0; k < j->folds; k++) {
        gd__text_add(out, k ? ", {" : "{");
        gd__json_metrics(out, &all[k]);
        gd__text_char(out, '}');
    }
    gd__text_add(out, "], \"mean\": {");
    gd__json_metrics(out, mean);
    gd__text_add(out, "}, \"deviation\": {");
    gd__json_metrics(out, deviation);
    gd__text_add(out, "}}\n");
}

static void print_folds(gd_text *out, const gd_metrics *mean, const gd_metrics *deviation)
{
    gd__text_add(out, "mean and deviation over folds:");
    for (int i = 0; i < GD_METRICS; i++) {
        double value = gd__metric_of(&gd__metric[i], mean);
        if (!isnan(value))
            gd__text_put(out, "%s %s %.6g +- %.2g", i ? "," : "", gd__metric[i].name, value,
                         gd__metric_of(&gd__metric[i], deviation));
    }
    gd__text_char(out, '\n');
}

gd_status gd__train_folds(job *j)
{
    gd_text *out = &j->t.cli->out;
    bool json = gd__args_has(j->args, "json");
    gd_metrics *all, mean, deviation;
    gd_status status = GD_OK;
    if (j->folds > j->data.rows)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --folds %lld: the data has %lld rows",
                       (long long)j->folds, (long long)j->data.rows);
    if (!(all = gd__calloc(j->t.ctx, (size_t)j->folds * sizeof *all))) return GD_NOMEM;
    for (int64_t k = 0; k < j->folds && !status; k++) {
        status = run_fold(j, k, &all[k]);
        if (status || json) continue;
        gd__text_put(out, "fold %lld: ", (long long)k + 1);
        gd__metrics_print(out, j->t.point.recipe.task, &all[k]);
        status = gd__cli_flush(j->t.cli);
    }
    if (!status) {
        summarise(all, j->folds, &mean, &deviation);
        if (json)
            json_folds(j, all, &mean, &deviation);
        else
            print_folds(out, &mean, &deviation);
    }
    gd__free(j->t.ctx, all, (size_t)j->folds * sizeof *all);
    return !status && out->failed ? GD_NOMEM : status;
}

/* ---- ensembles ---- */

static gd_status tell_seed(job *j, int64_t k)
{
    gd_trainer *t = &j->t;
    if (gd__args_has(j->args, "json")) return GD_OK;
    gd__text_put(&t->cli->out, "seed %lld: %lld epochs, loss %.6g", (long long)(t->point.recipe.seed + k),
                 (long long)t->point.progress.epoch, t->point.progress.last_loss);
    if (t->check_x) {
        gd__text_add(&t->cli->out, "; validation ");
        gd__metrics_print(&t->cli->out, t->point.recipe.task, &t->checked);
    } else {
        gd__text_char(&t->cli->out, '\n');
    }
    return gd__cli_flush(t->cli);
}

/* Saves the models there are.  The steps of an ensemble do not go on, so there is no optimizer. */
static gd_status save_models(job *j)
{
    gd_checkpoint *c = &j->t.point;
    c->recipe.seeds = c->members + 1;
    gd__checkpoint_free_copies(c, &c->best);
    return j->t.out ? gd__checkpoint_save(c, NULL, j->t.out) : GD_OK;
}

/* One model alone: the others do not answer with it, and it is no checkpoint to go on from. */
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
        if (!status) status = gd__train_take_best(j);
        if (!status) status = tell_seed(j, k);
        if (!status) status = save_models(j);
        if (status || !strcmp(t->stopped, "interrupted")) break;
    }
    t->seconds = seconds;
    return status;
}

/* ---- learning rates ---- */

gd_status gd__train_find_rate(job *j)
{
    gd_text *out = &j->t.cli->out;
    gd_rates *r = gd__calloc(j->t.ctx, sizeof *r);
    const char *plot = gd__args_get(j->args, "plot");
    gd_status status = r ? gd__find_rate(&j->t, r) : GD_NOMEM;
    if (!status && plot) status = gd__draw_rates(j->t.ctx, r, plot, gd__args_has(j->args, "dark"));
    if (!status && gd__args_has(j->args, "json")) {
        gd__text_char(out, '{');
        gd__json_put_number(out, "lr", r->best);
        gd__json_put_number(out, "lowest", r->lowest);
        gd__text_add(out, ", \"curve\": [");
        for (int i = 0; i < r->count; i++)
            gd__text_put(out, "%s[%.6g, %.9g]", i ? ", " : "", r->rate[i], r->loss[i]);
        gd__text_add(out, "]}\n");
    } else if (!status) {
        gd__text_put(out, "lr %.2g: there the loss falls fastest; it is lowest at %.2g\n", r->best,
                     r->lowest);
        if (plot) gd__text_put(out, "%s\n", plot);
    }
    gd__free(j->t.ctx, r, r ? sizeof *r : 0);
    return !status && out->failed ? GD_NOMEM : status;
}
