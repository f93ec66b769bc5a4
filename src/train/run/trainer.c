/* The training loop; see trainer.h. */
#include "train/run/trainer.h"
#include "train/run/row_parts.h"
#include "base/trouble.h"
#include "gradus/autograd.h"
#include "optim/solve/solve_internal.h"
#include "world/world_internal.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define RETRY 5 /* seconds after which a save that failed is tried again */

/* ---- one step ---- */

static gd_tensor *batch_loss(void *user)
{
    gd_trainer *t = user;
    gd_tensor *out = gd__network_call(&t->point.model, t->batch_x, true);
    if (t->offset) out = gd_add(out, t->offset);
    return gd__loss(&t->point.recipe.loss, out, t->batch_y, t->weight);
}

/* The rows order[at..at + count) of x and y. */
static gd_status pick_batch(gd_trainer *t, int64_t at, int64_t count)
{
    gd_no_grad_begin(t->ctx);
    gd_tensor *rows = gd_to_device(gd_from_data(t->ctx, GD_I64, 1, &count, t->order + at), t->device);
    t->batch_x = t->parted ? gd__part_rows(t, at, count) : gd_index_select(t->x, "0", rows);
    t->batch_y = gd_index_select(t->y, "0", rows);
    gd_no_grad_end(t->ctx);
    return t->batch_x && t->batch_y ? GD_OK : gd_error(t->ctx);
}

/* Is the step recorded once and replayed?  It reads batches of the usual size from the memory of the first one. */
static bool is_replayed(const gd_trainer *t)
{
    bool alone = !t->point.world && t->device == gd__cpu(t->ctx);
    return alone &&
           (!t->room_x || (gd__same_shape(t->room_x, t->batch_x) && gd__same_shape(t->room_y, t->batch_y)));
}

static gd_status to_room(gd_tensor **room, gd_tensor **batch)
{
    gd_status status = GD_OK;
    if (*room)
        status = gd_assign(*room, *batch);
    else if ((*room = gd_copy(*batch)))
        gd__own(*room);
    else
        status = gd_error(gd_tensor_ctx(*batch));
    *batch = *room;
    return status;
}

static gd_status step_alone(gd_trainer *t, int64_t at, int64_t count, gd_step_info *info)
{
    gd_status status = pick_batch(t, at, count);
    bool replayed = !status && is_replayed(t);
    if (replayed) status = to_room(&t->room_x, &t->batch_x);
    if (replayed && !status) status = to_room(&t->room_y, &t->batch_y);
    const gd_objective step = {.loss = batch_loss, .user = t, .traced = replayed};
    return status ? status : gd_optimizer_step(t->optimizer, &step, info);
}

/* Some rows of the batch: those of a microbatch. */
static gd_tensor *microbatch_loss(void *user, int64_t first, int64_t count)
{
    gd_trainer *t = user;
    return pick_batch(t, t->batch_at + first, count) ? NULL : batch_loss(t);
}

/* Without microbatches every rank computes all of a batch. */
static gd_status step_over(gd_trainer *t, int64_t at, int64_t count, gd_step_info *info)
{
    gd_batch batch = {.rows = count,
                      .microbatch = t->point.recipe.microbatch,
                      .world = t->point.world,
                      .how = t->reduce,
                      .user = t,
                      .loss = microbatch_loss};
    t->batch_at = at;
    if (batch.microbatch) return gd_optimizer_step(t->optimizer, &(gd_objective){.batch = &batch}, info);
    return step_alone(t, at, count, info);
}

/* at: in the order of the rows in memory */
static gd_status one_step(gd_trainer *t, int64_t at, int64_t count, gd_step_info *info)
{
    gd_scope_begin(t->ctx);
    gd_status status = step_over(t, at, count, info);
    t->batch_x = t->batch_y = NULL;
    gd_scope_end(t->ctx);
    t->broken = status || !isfinite(info->loss);
    if (status || !t->broken) return status;
    return gd_fail(t->ctx, GD_VALUE,
                   "train: the loss is %g in epoch %lld, at step %lld; a smaller lr may help", info->loss,
                   (long long)t->point.progress.epoch + 1, (long long)info->step);
}

/* ---- several ranks ---- */

/* Broadcasts a number of the first rank. */
static gd_status take_first(gd_trainer *t, double *number)
{
    if (!t->point.world) return GD_OK;
    gd__aside_begin(t->ctx);
    gd_tensor *of_all = gd_scalar(t->ctx, GD_F64, *number);
    gd_status status = gd_world_broadcast(t->point.world, of_all, 0);
    if (!status) *number = gd_item(of_all);
    gd__aside_end(t->ctx);
    return status;
}

/* Decisions by time use the clock of rank 0. */
static gd_status common_time(gd_trainer *t, double *now)
{
    *now = gd__seconds();
    return take_first(t, now);
}

/* Is there a reason to stop? Ranks exchange this during a step, so that the answer is known after it. */
typedef struct wish {
    gd_tensor *wants; /* interrupted, time is up */
    gd_exchange *work;
} wish;

static wish ask_to_stop(gd_trainer *t)
{
    bool late = gd__seconds() - t->begun > t->time && gd__checkpoint_writes(&t->point);
    wish w = {0};
    if (!t->point.world) return w;
    gd__aside_begin(t->ctx);
    w.wants = gd_from_data(t->ctx, GD_I64, 1, (int64_t[]){2},
                           (int64_t[]){gd__is_interrupted(t->observer), late});
    gd__own(w.wants);
    gd__aside_end(t->ctx);
    w.work = gd_world_start(t->point.world, &(gd_collective){.kind = GD_ALL_REDUCE, .tensor = w.wants});
    return w;
}

static gd_status stop_if_asked(gd_trainer *t, wish *w)
{
    bool late = gd__seconds() - t->begun > t->time, interrupted = gd__is_interrupted(t->observer);
    gd_status status = GD_OK;
    if (t->point.world) {
        status = w->work ? gd_world_wait(w->work) : gd_error(t->ctx);
        const int64_t *wants = status ? NULL : gd_data(w->wants);
        interrupted = wants && wants[0];
        late = wants && wants[1];
        gd__release(w->wants);
    }
    if (late) t->stopped = "time is up";
    if (interrupted) t->stopped = "interrupted";
    return status;
}

/* ---- saving ---- */

/* Lines first: a trace may be ahead of the checkpoint (--resume drops extra lines), but never behind. */
static gd_status flush_records(gd_trainer *t)
{
    gd_status status = t->tracer ? gd__run_writer_flush(t->tracer) : GD_OK;
    return !status && t->events ? gd__events_flush(t->events) : status;
}

/* Does a link keep weights for evaluation? */
static bool averages(const gd_link *link)
{
    bool does = gd_link_class_of(link)->evaluated != NULL;
    for (int i = 0; i < gd_link_children(link) && !does; i++) does = averages(gd_link_child_at(link, i));
    return does;
}

/* Without validation, the model of a run is the last one; if a link keeps weights for evaluation, these are the model, saved in addition
 * to the weights of steps. */
static gd_status save(gd_trainer *t)
{
    bool averaged = !t->check_x && averages(gd_optimizer_chain(t->optimizer));
    gd_status status = averaged ? gd_optimizer_evaluate(t->optimizer, true) : GD_OK;
    if (averaged && !status) status = gd__checkpoint_remember(&t->point);
    if (averaged && !status) status = gd_optimizer_evaluate(t->optimizer, false);
    return status ? status : gd__checkpoint_save(&t->point, t->optimizer, t->out);
}

/* A save between epochs.  A failure does not end the run: it is tried again soon. */
static gd_status save_between(gd_trainer *t)
{
    double now;
    gd_status status = t->out ? common_time(t, &now) : GD_OK;
    if (status || !t->out || now - t->saved <= t->save_every) return status;
    status = flush_records(t);
    if (t->point.world) status = gd_world_agree(t->point.world, status);
    if (status) return status;
    status = save(t);
    if (!t->check_x) gd__checkpoint_free_copies(&t->point, &t->point.best);
    t->saved = now;
    if (status) {
        gd__progress_end(t->observer);
        if (!t->save_fails)
            gd_warn(t->ctx, "%s; the run continues and tries again",
                    gd_error(t->ctx) ? gd_error_text(t->ctx) : "out of memory");
        if (t->save_every > RETRY) t->saved = now - t->save_every + RETRY;
        gd_clear_error(t->ctx);
    }
    t->save_fails = status != GD_OK;
    return GD_OK;
}

/* Keeps a checkpoint in memory at the end of an epoch, for the case that a later step fails: often enough to lose little, and rarely
 * enough to cost at most a twentieth of the time. Without memory, none is kept. */
static gd_status keep_good(gd_trainer *t)
{
    double now;
    gd_status status = t->out ? common_time(t, &now) : GD_OK;
    if (status || !t->out || (t->kept_time > 0 && now - t->kept_time < 20 * t->kept_cost)) return status;
    gd_archive *kept = gd__checkpoint_keep(&t->point, t->optimizer);
    if (!kept) gd_clear_error(t->ctx);
    status = common_time(t, &t->kept_time);
    t->kept_cost = t->kept_time - now;
    if (!kept) return status;
    gd_archive_free(t->kept[1]);
    t->kept[1] = t->kept[0];
    t->kept_at[1] = t->kept_at[0];
    t->kept[0] = kept;
    t->kept_at[0] = t->point.progress;
    return status;
}

/* Saves the current state; *epoch is that of the model, 0 if a step failed without a good earlier model. */
static gd_status save_good(gd_trainer *t, int64_t *epoch)
{
    *epoch = t->point.progress.epoch;
    if (!t->broken) return save(t);
    *epoch = 0;
    if (!t->point.best) {
        t->point.best = t->lowest;
        t->lowest = NULL;
    }
    for (int k = 0; k < 2; k++) {
        if (!t->kept[k] || !gd__checkpoint_kept_finite(t->ctx, t->kept[k])) continue;
        *epoch = t->point.best ? t->point.progress.best_epoch : t->kept_at[k].epoch;
        return gd__checkpoint_save_kept(&t->point, t->kept[k], &t->kept_at[k], t->out);
    }
    return GD_OK;
}

/* The last save of a failed run; then reports its error, with the file of the model. */
static gd_status save_after(gd_trainer *t, const gd_trouble *why)
{
    int64_t epoch;
    gd_trouble second = {.status = GD_OK};
    gd__put_aside(t->ctx, save_good(t, &epoch), &second);
    if (second.status) gd_warn(t->ctx, "the model is not saved: %s", second.text);
    if (second.status || (t->broken && !epoch)) return gd_fail(t->ctx, why->status, "%s", why->text);
    if (t->broken)
        return gd_fail(t->ctx, why->status, "%s; %s has the model of epoch %lld", why->text, t->out,
                       (long long)epoch);
    return gd_fail(t->ctx, why->status, "%s; continue with {resume} %s", why->text, t->out);
}

/* The end of a run, successful or not. */
static gd_status save_end(gd_trainer *t, gd_status status)
{
    if (!t->out) return status;
    gd_world *world = t->point.world;
    if (!status) status = flush_records(t);
    if (world) status = gd_world_agree(world, status);
    if (!status) return save(t);
    /* a failed rank may have left: the first rank saves alone, if it has the whole state */
    if (world && (gd_world_rank(world) > 0 || t->shard != GD_SHARD_NONE)) return status;
    t->point.world = NULL;
    gd_trouble why = {.status = GD_OK};
    gd__put_aside(t->ctx, status, &why);
    status = save_after(t, &why);
    t->point.world = world;
    return status;
}

/* ---- the end of an epoch ---- */

/* Names of the numbers of an epoch in traces and event files. */
typedef struct value {
    const char *key, *tag;
    double number;
} value;

static int collect(const gd_trainer *t, value out[4])
{
    int count = 0;
    out[count++] = (value){"loss", "loss/train", t->point.progress.last_loss};
    if (!t->check_x) return count;
    out[count++] = (value){"val_loss", "loss/validation", t->checked.loss};
    if (t->point.recipe.task == GD_TASK_CLASSIFY) {
        out[count++] = (value){"val_accuracy", "accuracy/validation", t->checked.accuracy};
    } else {
        out[count++] = (value){"val_rmse", "rmse/validation", t->checked.rmse};
        out[count++] = (value){"val_r2", "r2/validation", t->checked.r2};
    }
    return count;
}

static gd_status record(gd_trainer *t)
{
    value v[4];
    int count = collect(t, v);
    int64_t step = gd_optimizer_steps(t->optimizer);
    gd_status status = GD_OK;
    if (t->tracer) {
        gd_text *out = gd__run_writer_begin(t->tracer);
        gd__text_put(out, "{\"step\":%lld,\"epoch\":%lld,\"evals\":%lld", (long long)step,
                     (long long)t->point.progress.epoch, (long long)gd_optimizer_evals(t->optimizer));
        for (int i = 0; i < count; i++) {
            gd__text_put(out, ",\"%s\":", v[i].key);
            gd__json_number(out, v[i].number);
        }
        gd__text_add(out, "}\n");
        status = gd__run_writer_end(t->tracer);
    }
    for (int i = 0; i < count && t->events && !status; i++)
        status = gd__events_scalar(t->events, v[i].tag, step, v[i].number);
    return status;
}

/* The monitored number of the last epoch. */
static gd_status standing(gd_trainer *t, double *out)
{
    const gd_metric *metric = gd__metric_find(t->point.recipe.stop_on);
    *out = t->point.progress.last_loss;
    if (!t->check_x) return GD_OK;
    bool by_class = metric->at == offsetof(gd_metrics, f1) || metric->at == offsetof(gd_metrics, auc);
    gd_report report = {.ctx = t->ctx};
    gd_status status = by_class ? gd__report_make(&t->point, t->check_x, t->check_y, &report) : GD_OK;
    if (by_class) t->checked.f1 = report.mean_f1, t->checked.auc = report.mean_auc;
    gd__report_close(&report);
    *out = (metric->more ? -1 : 1) * gd__metric_of(metric, &t->checked);
    return status;
}

/* Is this epoch the best so far?  Then its parameters are kept: with validation as the result of the run, else in case the run fails. */
static gd_status judge(gd_trainer *t)
{
    gd_progress_state *p = &t->point.progress;
    double loss;
    gd_status status = standing(t, &loss);
    if (status) return status;
    if (!(loss < p->best_loss)) {
        p->bad++;
        if (t->point.recipe.patience && p->bad >= t->point.recipe.patience)
            t->stopped = "no better for some epochs";
        return GD_OK;
    }
    p->best_loss = loss;
    p->best_epoch = p->epoch;
    p->bad = 0;
    if (t->check_x) return gd__checkpoint_remember(&t->point);
    return t->out ? gd__checkpoint_copy(&t->point, &t->lowest) : GD_OK;
}

static gd_status end_epoch(gd_trainer *t)
{
    gd_progress_state *p = &t->point.progress;
    p->last_loss = p->loss_sum / (double)t->rows;
    p->epoch++;
    p->at = 0;
    p->loss_sum = 0;
    gd_status status = gd_optimizer_evaluate(t->optimizer, true);
    if (!status && t->check_x) status = gd__measure(&t->point, t->check_x, t->check_y, &t->checked);
    if (!status) status = judge(t);
    if (!status) status = gd_optimizer_evaluate(t->optimizer, false);
    if (!status) status = keep_good(t);
    if (!status) status = record(t);
    if (!status && t->epoch_done) status = t->epoch_done(t->user, t);
    if (t->point.world) status = gd_world_agree(t->point.world, status);
    return status ? status : save_between(t);
}

/* ---- the run ---- */

/* Memory for the order of the rows, whose number may have changed. */
static gd_status make_order(gd_trainer *t, int64_t rows)
{
    if (t->order_bytes == (size_t)rows * sizeof *t->order) return GD_OK;
    gd__free(t->ctx, t->order, t->order_bytes);
    t->order_bytes = (size_t)rows * sizeof *t->order;
    t->order = gd__alloc(t->ctx, t->order_bytes);
    if (t->order) return GD_OK;
    t->order_bytes = 0;
    return GD_NOMEM;
}

/* How far the run is: "epoch 3/100", so many of its steps. */
static void show(const gd_trainer *t, int64_t step, double loss)
{
    const gd_recipe *r = &t->point.recipe;
    int64_t batch = r->batch ? r->batch : t->rows, steps = (t->rows + batch - 1) / batch;
    char what[64];
    if (!t->observer || !t->observer->progress || !gd__checkpoint_writes(&t->point)) return;
    (void)snprintf(what, sizeof what, "epoch %lld/%lld", (long long)t->point.progress.epoch + 1,
                   (long long)r->epochs);
    gd__progress(t->observer, what, "step", step, r->epochs < INT64_MAX / steps ? r->epochs * steps : 0,
                 loss);
}

/* The rows in memory, after the `first` rows of the epoch, in their own order. */
static gd_status run_rows(gd_trainer *t, int64_t first, int64_t rows, int64_t stream)
{
    gd_progress_state *p = &t->point.progress;
    int64_t batch = t->point.recipe.batch ? t->point.recipe.batch : rows;
    gd_status status = make_order(t, rows);
    if (!status) gd__shuffle(t->order, rows, t->point.recipe.seed + t->shift, stream);
    if (!status) status = gd__part_take(t, rows);
    while (p->at < first + rows && !status && !t->stopped) {
        int64_t at = p->at - first, count = at + batch < rows ? batch : rows - at;
        gd_step_info info = {.loss = NAN};
        wish w = ask_to_stop(t);
        status = one_step(t, at, count, &info);
        gd_status asked = stop_if_asked(t, &w);
        if (!status) status = asked;
        if (status) break;
        p->at += count;
        p->loss_sum += info.loss * (double)count;
        t->trained_rows += count;
        show(t, info.step, p->loss_sum / (double)p->at);
        if (info.terminate && !t->stopped) t->stopped = "a link of the chain ended the run";
    }
    return status;
}

/* Pool by pool; pools that a resumed run has completed are not read. */
static gd_status run_pools(gd_trainer *t)
{
    const gd_feed *feed = t->feed;
    int64_t epoch = t->point.progress.epoch, first = 0;
    gd_status status = GD_OK;
    for (int64_t k = 0; k < feed->pools && !status && !t->stopped; k++) {
        int64_t rows = feed->rows(feed->user, epoch, k);
        if (t->point.progress.at < first + rows) {
            gd_release(t->x);
            gd_release(t->y);
            status = feed->load(feed->user, epoch, k, &t->x, &t->y);
            if (!status) status = run_rows(t, first, rows, (epoch + 1) * feed->pools + k);
        }
        first += rows;
    }
    return status;
}

static gd_status run_epoch(gd_trainer *t)
{
    const gd_progress_state *p = &t->point.progress;
    gd_status status = t->feed ? run_pools(t) : run_rows(t, 0, t->rows, p->epoch + 1);
    return status || p->at < t->rows ? status : end_epoch(t);
}

gd_status gd__trainer_step(gd_trainer *t, gd_step_info *info)
{
    gd_progress_state *p = &t->point.progress;
    int64_t rows = gd_size(t->y, 0), batch = t->point.recipe.batch ? t->point.recipe.batch : rows;
    if (p->at >= rows) p->epoch++, p->at = 0;
    if (!p->at) {
        gd_status status = make_order(t, rows);
        if (status) return status;
        gd__shuffle(t->order, rows, t->point.recipe.seed + t->shift, p->epoch + 1);
        status = gd__part_take(t, rows);
        if (status) return status;
    }
    int64_t count = p->at + batch < rows ? batch : rows - p->at;
    gd_status status = one_step(t, p->at, count, info);
    p->at += count;
    return status;
}

gd_status gd__trainer_run(gd_trainer *t)
{
    const gd_recipe *r = &t->point.recipe;
    show(t, gd_optimizer_steps(t->optimizer), NAN);
    t->begun = gd__seconds();
    gd_status status = common_time(t, &t->saved);
    if (r->patience && t->point.progress.bad >= r->patience) t->stopped = "no better for some epochs";
    while (t->point.progress.epoch < r->epochs && !t->stopped && !status) status = run_epoch(t);
    gd__progress_end(t->observer);
    t->seconds = gd__seconds() - t->begun;
    if (!t->stopped) t->stopped = "epochs";
    return save_end(t, status);
}

void gd__trainer_close(gd_trainer *t)
{
    (void)gd__run_writer_close(t->tracer);
    (void)gd__events_close(t->events);
    gd_optimizer_free(t->optimizer);
    gd__release(t->room_x);
    gd__release(t->room_y);
    gd_release(t->x);
    gd_release(t->y);
    gd_release(t->check_x);
    gd_release(t->check_y);
    gd__part_free(t);
    gd_release(t->weight);
    gd_release(t->offset);
    for (int k = 0; k < 2; k++) gd_archive_free(t->kept[k]);
    gd__checkpoint_free_copies(&t->point, &t->lowest);
    gd__free(t->ctx, t->order, t->order_bytes);
    gd__checkpoint_close(&t->point);
}
