/* Output of gradus train; see train_screen.h. */
#include "cli/commands/train_screen.h"
#include "cli/metrics_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LINES 20 /* number of lines about epochs on standard output */

typedef gd_train_screen screen;

/* ---- progress ---- */

/* Steps have a line of their own, "epoch 3/100  step 120/5000  loss 0.1"; reading has the usual line. */
static void show(void *user, const char *what, const char *unit, int64_t done, int64_t total, double loss)
{
    screen *s = user;
    if (s->args->observer && (!unit || strcmp(unit, "step") != 0))
        s->args->observer->progress(s->args->observer->user, what, unit, done, total, loss);
    if (!unit) {
        gd__meter_end(&s->meter);
        s->meter = (gd_meter){0};
    } else if (!strcmp(unit, "step")) {
        if (s->meter.begun == 0) {
            s->meter = gd__meter_start(total);
            s->meter.first = done;
        }
        if (s->meter.on) (void)snprintf(s->meter.note, sizeof s->meter.note, "%s  ", what);
        gd__meter_show(&s->meter, unit, done, loss);
    }
}

static bool interrupted(void *user)
{
    (void)user;
    return gd__interrupted();
}

gd_observer gd__train_observer(screen *s)
{
    return (gd_observer){.progress = show, .interrupted = interrupted, .user = s};
}

/* A line at about twenty epochs of a run. */
static gd_status epoch_done(void *user, const gd_trainer *t)
{
    screen *s = user;
    gd_text *out = &s->cli->out;
    int64_t epoch = t->point.progress.epoch, epochs = t->point.recipe.epochs;
    int64_t every = epochs > LINES ? (epochs + LINES - 1) / LINES : 1;
    bool last = epoch == epochs || t->stopped, quiet = s->json || s->folds || s->spec.seeds > 1;
    if (quiet || (epoch % every != 0 && !last)) return GD_OK;
    gd__text_put(out, "epoch %4lld  loss %-*.5g", (long long)epoch, t->check_x ? 10 : 0,
                 t->point.progress.last_loss);
    if (t->check_x) {
        gd__text_put(out, "  validation loss %-10.5g", t->checked.loss);
        if (t->point.recipe.task == GD_TASK_CLASSIFY)
            gd__text_put(out, "  accuracy %.2f %%", 100 * t->checked.accuracy);
        else
            gd__text_put(out, "  rmse %.5g", t->checked.rmse);
    }
    gd__text_char(out, '\n');
    gd__meter_end(&s->meter);
    return gd__cli_flush(s->cli);
}

static gd_status seed_done(void *user, gd_train_job *j, int64_t number)
{
    const screen *s = user;
    const gd_trainer *t = &j->t;
    gd_text *out = &s->cli->out;
    if (s->json) return GD_OK;
    gd__text_put(out, "seed %lld: %lld epochs, loss %.6g", (long long)(t->point.recipe.seed + number),
                 (long long)t->point.progress.epoch, t->point.progress.last_loss);
    if (t->check_x) {
        gd__text_add(out, "; validation ");
        gd__metrics_print(out, t->point.recipe.task, &t->checked);
    } else {
        gd__text_char(out, '\n');
    }
    return gd__cli_flush(s->cli);
}

static gd_status fold_done(void *user, gd_train_job *j, int64_t fold, const gd_metrics *measured)
{
    const screen *s = user;
    if (s->json) return GD_OK;
    gd__text_put(&s->cli->out, "fold %lld: ", (long long)fold + 1);
    gd__metrics_print(&s->cli->out, j->t.point.recipe.task, measured);
    return gd__cli_flush(s->cli);
}

/* ---- before the first epoch ---- */

/* One line for each column that is not a plain number, and one for those left out. */
static void describe_columns(gd_text *out, const gd_dataset *d, const gd_recipe *r)
{
    for (int i = 0; i < r->columns.count; i++) {
        const gd_column *c = &r->columns.column[i];
        if (c->kind == GD_COLUMN_NUMBER && !c->missing) continue;
        gd__text_add(out, "  ");
        gd__text_plain(out, r->features.word[i], strlen(r->features.word[i]), false);
        gd__column_describe(out, c);
        gd__text_char(out, '\n');
    }
    for (int i = 0; i < d->ids.count; i++) {
        gd__text_add(out, "  ");
        gd__text_plain(out, d->ids.word[i], strlen(d->ids.word[i]), false);
        gd__text_add(out, ": left out, it only numbers the rows (--features takes it)\n");
    }
}

/* Devices, threads and processes, and the division of a batch. */
static void introduce_world(gd_text *out, const gd_trainer *t)
{
    const gd_world *w = t->point.world;
    const gd_recipe *r = &t->point.recipe;
    long long microbatch = (long long)r->microbatch;
    int size = w ? gd_world_size(w) : 1;
    int64_t batch = r->batch && r->batch < t->rows ? r->batch : t->rows;
    int64_t microbatches = microbatch && batch ? (batch - 1) / microbatch + 1 : size;
    if (w) gd__text_put(out, "%d process%s (%s); ", size, size == 1 ? "" : "es", gd_world_about(w));
    if (microbatch) gd__text_put(out, "microbatches of %lld row%s", microbatch, microbatch == 1 ? "" : "s");
    if (microbatch && microbatches < size)
        gd__text_put(out, ", %lld in a batch: %lld of %d processes without work", (long long)microbatches,
                     (long long)(size - microbatches), size);
    if (microbatch) gd__text_char(out, '\n');
    if (w && !microbatch) gd__text_add(out, "each computes all of a batch: --microbatch shares it\n");
}

/* Rows to validate with that are not random ones. */
static void introduce_split(gd_text *out, const gd_train_job *j)
{
    const char *column = j->split.column;
    if (j->split.kind == GD_SPLIT_RANDOM) return;
    bool group = j->split.kind == GD_SPLIT_GROUP;
    gd__text_add(out, group    ? "  all rows with the same "
                      : column ? "  validated by the last rows in the order of "
                               : "  validated by the last rows of the file");
    if (column) gd__text_plain(out, column, strlen(column), false);
    gd__text_add(out, group ? " are on one side of the validation\n" : "\n");
}

/* In front of the lines about epochs. */
static gd_status introduce(void *user, gd_train_job *j)
{
    const screen *s = user;
    const gd_trainer *t = &j->t;
    gd_text *out = &s->cli->out;
    const gd_recipe *r = &t->point.recipe;
    if (s->json) return GD_OK;
    if (r->task == GD_TASK_CLASSIFY) gd__text_put(out, "%d classes of ", r->classes.count);
    gd__text_plain(out, r->target, strlen(r->target) < 60 ? strlen(r->target) : 60, false);
    gd__text_add(out, j->data.guessed ? " (--task regress if they are quantities) from rows of "
                                      : " from rows of ");
    for (int i = 0; i < r->row_axes; i++) gd__text_put(out, "%s%lld", i ? " x " : "", (long long)r->row[i]);
    gd__text_put(out, "; %lld rows to learn from, %lld to validate\n", (long long)t->rows,
                 (long long)t->check_rows);
    introduce_split(out, j);
    if (j->stream)
        gd__text_put(out, "  read in %lld blocks; columns and scales are those of %lld rows\n",
                     (long long)gd__train_stream_blocks(j), (long long)j->data.rows);
    describe_columns(out, &j->data, r);
    gd__text_put(out, "%s with %lld parameters; %s\n", r->model,
                 (long long)gd__network_parameters(&t->point.model), r->chain);
    introduce_world(out, t);
    for (int i = 0; i < j->changed.count; i++) {
        gd__text_plain(out, j->changed.word[i], strlen(j->changed.word[i]), false);
        gd__text_char(out, '\n');
    }
    return GD_OK;
}

void gd__train_watch(screen *s)
{
    s->job.hooks = (gd_train_hooks){
        .begun = introduce, .seed_done = seed_done, .fold_done = fold_done, .user = s};
    s->job.t.epoch_done = epoch_done;
    s->job.t.user = s;
}

/* ---- importance ---- */

static int features_of(const gd_recipe *r) { return r->columns.count ? r->columns.count : (int)r->row[0]; }

static const char *feature_name(const gd_recipe *r, int feature, char out[24])
{
    if (r->features.count) return r->features.word[feature];
    (void)snprintf(out, 24, "c%d", feature + 1);
    return out;
}

/* The measure of --stop-on; without it accuracy of classes, R2 of numbers. */
static const gd_metric *importance_metric(const screen *s)
{
    const gd_recipe *r = &s->job.t.point.recipe;
    bool given = s->spec.stop_on || strcmp(r->stop_on, "loss") != 0;
    return gd__metric_find(given ? r->stop_on : r->task == GD_TASK_CLASSIFY ? "accuracy" : "r2");
}

static void print_importance(gd_text *out, const gd_recipe *r, const gd_metric *by, const gd_importance *all,
                             int count)
{
    bool r2 = !strcmp(by->name, "r2");
    gd__text_put(out, "%s %s when a column is shuffled among the rows:\n", r2 ? "R2" : by->name,
                 by->more ? "lost" : "gained");
    for (int i = 0; i < count; i++) {
        char number[24];
        const char *name = feature_name(r, all[i].feature, number);
        gd__text_put(out, "  %8.4f +- %.4f  ", all[i].mean, all[i].deviation);
        gd__text_plain(out, name, strlen(name), false);
        gd__text_char(out, '\n');
    }
}

static void json_importance(gd_text *out, const gd_recipe *r, const gd_metric *by, const gd_importance *all,
                            int count)
{
    gd__json_put_string(out, "importance_of", by->name);
    gd__text_add(out, ", \"importance\": [");
    for (int i = 0; i < count; i++) {
        char number[24];
        gd__text_add(out, i ? ", {" : "{");
        gd__json_put_string(out, "column", feature_name(r, all[i].feature, number));
        gd__json_put_number(out, "mean", all[i].mean);
        gd__json_put_number(out, "deviation", all[i].deviation);
        gd__text_char(out, '}');
    }
    gd__text_char(out, ']');
}

/* Appends the results: the text for people, or a member of the JSON object. */
static gd_status add_importance(screen *s, gd_text *out, bool json)
{
    gd_train_job *j = &s->job;
    const gd_recipe *r = &j->t.point.recipe;
    int count = features_of(r);
    size_t bytes = (size_t)count * sizeof(gd_importance);
    gd_importance *all = gd__calloc(j->t.ctx, bytes);
    const gd_metric *by = importance_metric(s);
    /* on the validation rows; without any, on the training rows */
    gd_tensor *x = j->t.check_x ? j->t.check_x : j->t.x, *y = j->t.check_x ? j->t.check_y : j->t.y;
    gd_status status = all ? gd__importance(&j->t.point, x, y, by, all, count) : GD_NOMEM;
    if (!status) (json ? json_importance : print_importance)(out, r, by, all, count);
    gd__free(j->t.ctx, all, all ? bytes : 0);
    return status;
}

/* ---- results ---- */

static void print_metrics(gd_text *out, gd_task task, const char *where, const gd_metrics *m)
{
    gd__text_put(out, "%s: ", where);
    gd__metrics_print(out, task, m);
}

static gd_status print_text(screen *s)
{
    gd_train_job *j = &s->job;
    gd_trainer *t = &j->t;
    gd_text *out = &s->cli->out;
    const gd_recipe *r = &t->point.recipe;
    const gd_progress_state *p = &t->point.progress;
    if (t->check_x && p->best_epoch) gd__text_put(out, "best epoch %lld\n", (long long)p->best_epoch);
    print_metrics(out, r->task, "training", &j->trained);
    if (t->check_x) print_metrics(out, r->task, "validation", &t->checked);
    if (j->report.p) gd__report_print(out, &j->report, &r->classes);
    gd_status status = j->whole_rows ? add_importance(s, out, false) : GD_OK;
    gd__text_put(out, "%lld epochs, %lld steps, %.3g s, %.0f rows/s", (long long)p->epoch,
                 (long long)gd_optimizer_steps(t->optimizer), t->seconds,
                 t->seconds > 0 ? (double)t->trained_rows / t->seconds : 0);
    if (strcmp(t->stopped, "epochs") != 0) gd__text_put(out, " (%s)", t->stopped);
    gd__text_char(out, '\n');
    if (t->out) gd__text_put(out, "%s\n", t->out);
    return status;
}

static void json_metrics(gd_text *out, const char *where, const gd_metrics *m, const gd_report *report,
                         const gd_words *classes)
{
    gd__json_key(out, where);
    gd__text_char(out, '{');
    gd__json_metrics(out, m);
    if (report) gd__json_report(out, report, classes);
    gd__text_char(out, '}');
}

static gd_status print_json(screen *s)
{
    gd_train_job *j = &s->job;
    gd_trainer *t = &j->t;
    gd_text *out = &s->cli->out;
    const gd_recipe *r = &t->point.recipe;
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"parameters", gd__network_parameters(&t->point.model)},
                   {"rows", t->rows},
                   {"validation_rows", t->check_rows},
                   {"epochs", t->point.progress.epoch},
                   {"best_epoch", t->point.progress.best_epoch},
                   {"steps", gd_optimizer_steps(t->optimizer)},
                   {"evals", gd_optimizer_evals(t->optimizer)},
                   {"seeds", r->seeds},
                   {"microbatch", r->microbatch},
                   {"processes", t->point.world ? gd_world_size(t->point.world) : 1}};
    gd__text_char(out, '{');
    gd__json_put_string(out, "task", gd__task_name(r->task));
    gd__json_put_string(out, "model", r->model);
    gd__json_put_string(out, "chain", r->chain);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        gd__json_put_whole(out, numbers[i].key, numbers[i].value);
    json_metrics(out, "training", &j->trained, NULL, NULL);
    if (t->check_x)
        json_metrics(out, "validation", &t->checked, j->report.p ? &j->report : NULL, &r->classes);
    gd_status status = j->whole_rows ? add_importance(s, out, true) : GD_OK;
    gd__json_key(out, "classes");
    gd__words_print(out, &r->classes);
    gd__json_key(out, "features");
    gd__words_print(out, &r->features);
    gd__json_key(out, "ids");
    gd__words_print(out, &j->data.ids);
    gd__json_key(out, "changed");
    gd__words_print(out, &j->changed);
    gd__json_put_string(out, "split", r->split);
    gd__json_put_string(out, "stopped", t->stopped);
    gd__json_put_number(out, "seconds", t->seconds);
    gd__text_add(out, "}\n");
    return status;
}

gd_status gd__train_print(screen *s) { return s->json ? print_json(s) : print_text(s); }

/* ---- folds ---- */

static void json_folds(screen *s, const gd_metrics *all, const gd_metrics *mean, const gd_metrics *deviation)
{
    const gd_train_job *j = &s->job;
    gd_text *out = &s->cli->out;
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

void gd__train_print_folds(screen *s, const gd_metrics *all, const gd_metrics *mean,
                           const gd_metrics *deviation)
{
    if (s->json)
        json_folds(s, all, mean, deviation);
    else
        print_folds(&s->cli->out, mean, deviation);
}

/* ---- learning rates ---- */

void gd__train_print_rates(screen *s, const gd_rates *r, const char *plot)
{
    gd_text *out = &s->cli->out;
    if (!s->json) {
        gd__text_put(out, "lr %.2g: there the loss falls fastest; it is lowest at %.2g\n", r->best,
                     r->lowest);
        if (plot) gd__text_put(out, "%s\n", plot);
        return;
    }
    gd__text_char(out, '{');
    gd__json_put_number(out, "lr", r->best);
    gd__json_put_number(out, "lowest", r->lowest);
    gd__text_add(out, ", \"curve\": [");
    for (int i = 0; i < r->count; i++)
        gd__text_put(out, "%s[%.6g, %.9g]", i ? ", " : "", r->rate[i], r->loss[i]);
    gd__text_add(out, "]}\n");
}
