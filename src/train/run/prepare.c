/* Data, model and optimizer of a training; see job.h. */
#include "train/run/job.h"
#include "base/spelling.h"
#include "base/system.h"
#include "file/output.h"
#include "file/safetensors.h"
#include "optim/state/tuning.h"
#include "optim/state/resume.h"
#include "train/run/row_parts.h"
#include "world/world_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef gd_train_job job;

/* ---- data ---- */

/* A table takes about eight times its file in memory: more than half of the memory is read in blocks. */
static bool is_large(const char *path)
{
    struct stat about;
    size_t length = strlen(path);
    uint64_t memory = gd__memory_bytes();
    bool packed = length > 3 && !strcmp(path + length - 3, ".gz");
    if (packed || !gd__dataset_is_table(path) || !memory || stat(path, &about)) return false;
    return S_ISREG(about.st_mode) && (double)about.st_size * 16 > (double)memory;
}

static bool is_table(const job *j) { return j->table || gd__dataset_is_table(j->source); }

/* Arrays have no columns to name. */
static gd_status check_columns(const job *j)
{
    const gd_train_spec *s = &j->spec;
    const struct {
        const char *name;
        const char *const *given;
    } of_tables[] = {{"features", s->features}, {"ignore", s->ignore}, {"text", s->text}};
    bool table = is_table(j);
    for (int i = 0; i < 3 && !table; i++)
        if (of_tables[i].given && of_tables[i].given[0])
            return gd_fail(j->t.ctx, GD_ARGUMENT, "train: %s is for tables, %.200s is an array",
                           gd__setting_of(j->t.ctx, of_tables[i].name), j->source);
    if (!table && j->split.column)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {split} %.60s is for tables, %.200s is an array",
                       j->t.point.recipe.split, j->source);
    return GD_OK;
}

static gd_status read_data(job *j, gd_task task)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *path = j->source, *target = j->spec.target;
    bool table = is_table(j);
    if (!target && !j->resume)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {target} is missing: %s",
                       table ? "the column to predict" : "a file with what to predict for each row");
    if (target && j->resume && table && strcmp(target, r->target) != 0)
        return gd__train_differs(j, "target", r->target, target);
    if (target && !(r->target = gd__intern(j->t.ctx, target, strlen(target)))) return GD_NOMEM;
    gd_data_request q = {.table = j->table,
                         .path = path,
                         .target = r->target,
                         .task = task,
                         .features = &r->features,
                         .ignored = &r->ignored,
                         .text = &r->text,
                         .columns = &r->columns,
                         .key = j->split.column,
                         .key_apart = j->split.kind == GD_SPLIT_GROUP,
                         .classes = &r->classes,
                         .csv = j->csv};
    gd_status status = check_columns(j);
    if (status) return status;
    q.row_axes = j->spec.row_axes ? j->spec.row_axes : j->resume ? r->row_axes : 0;
    memcpy(q.row, j->spec.row_axes ? j->spec.row : r->row, sizeof q.row);
    if (!j->resume) r->stream = j->spec.stream || (!j->folds && !j->table && is_large(path));
    if (r->stream && j->split.column)
        return gd_fail(j->t.ctx, GD_ARGUMENT,
                       "train: {split} %.60s wants the data in memory, without {stream}", r->split);
    if (r->stream && j->folds)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {folds} wants the data in memory, without {stream}");
    return r->stream ? gd__train_stream_open(j, &q) : gd__dataset_open(j->t.ctx, &q, &j->data);
}

static gd_status copy_words(gd_ctx *ctx, const gd_words *from, gd_words *to)
{
    gd_status status = GD_OK;
    gd__words_free(ctx, to);
    for (int i = 0; i < from->count && !status; i++)
        status = gd__words_add(ctx, to, from->word[i], strlen(from->word[i]));
    return status;
}

/* An error if ranks read different files. */
static gd_status same_file(job *j, const char *what, uint64_t sum)
{
    char name[60];
    (void)snprintf(name, sizeof name, "%s with the sum %016llx", what, (unsigned long long)sum);
    return gd__world_same(j->t.point.world, "train", name);
}

/* Recipe and progress, which includes losses that differ between runs. */
static gd_status same_checkpoint(job *j)
{
    const char *text = gd_archive_get_meta(j->archive, "train");
    return same_file(j, "a checkpoint", text ? gd__checksum(0, text, strlen(text)) : 0);
}

/* Completes the recipe from the data; for a checkpoint, checks that the data are the same. */
static gd_status describe_data(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    uint64_t sum = 0;
    gd_status status = gd__dataset_sum(&j->data, &sum);
    int64_t rows = j->stream ? gd__train_stream_rows(j) : j->data.rows;
    if (j->stream) sum ^= gd__train_stream_sum(j);
    if (!status && j->resume && sum != r->data)
        status = gd_fail(j->t.ctx, GD_MISMATCH, "%s: not the data that %s was trained on", j->source,
                         j->resume);
    if (!status) status = j->resume ? same_checkpoint(j) : same_file(j, "data", sum);
    if (status || j->resume) return status;
    r->data = sum;
    r->task = j->data.task;
    r->row_axes = gd_ndim(j->data.x) - 1;
    memcpy(r->row, gd_shape(j->data.x) + 1, (size_t)r->row_axes * sizeof *r->row);
    r->outputs = r->task == GD_TASK_CLASSIFY ? j->data.classes.count : gd_size(j->data.y, 1);
    if (r->epochs < 0) {
        r->epochs = GD_TRAIN_ROWS / rows;
        if (r->epochs < GD_TRAIN_LEAST) r->epochs = GD_TRAIN_LEAST;
        if (r->epochs > GD_TRAIN_EPOCHS) r->epochs = GD_TRAIN_EPOCHS;
    }
    status = copy_words(j->t.ctx, &j->data.features, &r->features);
    return status ? status : copy_words(j->t.ctx, &j->data.classes, &r->classes);
}

/* ---- checks of the task ---- */

static gd_status check_counts(job *j)
{
    const double *y = gd_data(j->data.y);
    double sum = 0;
    for (int64_t i = 0; i < gd_numel(j->data.y); i++) {
        sum += y[i];
        if (y[i] < 0)
            return gd_fail(j->t.ctx, GD_FORMAT, "%s: row %lld of '%.60s' is %g: poisson wants counts from 0",
                           j->source, (long long)(i / gd_size(j->data.y, 1)) + 1, j->t.point.recipe.target,
                           y[i]);
    }
    return sum > 0 ? GD_OK
                   : gd_fail(j->t.ctx, GD_FORMAT, "%s: every count of '%.60s' is 0", j->source,
                             j->t.point.recipe.target);
}

/* Do loss, weights and metric fit the task? */
static gd_status check_task(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    bool classes = r->task == GD_TASK_CLASSIFY;
    const gd_metric *metric = gd__metric_find(r->stop_on);
    if (!j->resume && !j->spec.loss) r->loss.kind = classes ? GD_LOSS_CROSS_ENTROPY : GD_LOSS_SQUARES;
    if (metric->task && metric->task != r->task)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {stop_on} %s is for %s", r->stop_on,
                       classes ? "numbers, the target is classes" : "classes, the target is numbers");
    if (*r->class_weights && !classes)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {class_weights} is for classes, the target is numbers");
    if (j->resume || (!*r->class_weights && r->loss.kind != GD_LOSS_POISSON)) return GD_OK;
    return classes ? gd__class_weights(&j->t.point, j->data.y) : check_counts(j);
}

/* ---- rows ---- */

/* Some rows, with standardised numbers, on the device.  New. */
static gd_tensor *prepared_rows(job *j, gd_tensor *from, gd_tensor *rows, const gd_scaling *scaling)
{
    gd_trainer *t = &j->t;
    gd_scope_begin(t->ctx);
    gd_tensor *v = gd_index_select(from, "0", rows);
    if (scaling)
        v = gd__scaling_apply(scaling, v, t->point.recipe.dtype);
    else
        v = gd_contiguous(v);
    return gd__scope_leave(t->ctx, gd_to_device(v, t->device));
}

static gd_tensor *on_device(gd_trainer *t, gd_tensor *from)
{
    gd__aside_begin(t->ctx);
    return gd__aside_leave(t->ctx, gd_to_device(gd_cast(from, t->point.recipe.dtype), t->device));
}

static gd_status measure_scales(job *j, gd_tensor *rows)
{
    gd_checkpoint *c = &j->t.point;
    if (j->resume) return GD_OK;
    gd_tensor *x = gd_index_select(j->data.x, "0", rows), *y = gd_index_select(j->data.y, "0", rows);
    if (!x || !y) return gd_error(j->t.ctx);
    const gd_columns *columns = &c->recipe.columns;
    gd_status status = columns->count && c->recipe.row_axes == 1
                           ? gd__columns_scaling(columns, x, c->recipe.standardise, &c->input)
                           : gd__scaling_measure(x, c->recipe.standardise, &c->input);
    if (!status && c->recipe.loss.kind == GD_LOSS_POISSON)
        status = gd__scaling_of_rates(y, &c->output);
    else if (!status && c->recipe.task == GD_TASK_REGRESS && c->recipe.standardise != GD_SCALE_NONE)
        status = gd__scaling_measure(y, GD_SCALE_EACH, &c->output);
    gd_tensor *const kept[] = {c->input.mean, c->input.scale, c->output.mean, c->output.scale};
    for (int i = 0; i < 4; i++) (void)gd_keep(kept[i]);
    return status;
}

gd_status gd__train_rows(job *j, const int64_t *rows, int64_t count, gd_tensor **x, gd_tensor **y)
{
    static const gd_scaling as_it_is;
    gd_checkpoint *c = &j->t.point;
    const gd_scaling *of_y = c->recipe.task != GD_TASK_REGRESS        ? NULL
                             : c->recipe.loss.kind == GD_LOSS_POISSON ? &as_it_is
                                                                      : &c->output;
    gd__aside_begin(c->ctx);
    gd_tensor *index = gd_from_data(c->ctx, GD_I64, 1, &count, rows);
    *x = gd_keep(prepared_rows(j, j->data.x, index, &c->input));
    *y = gd_keep(prepared_rows(j, j->data.y, index, of_y));
    gd__aside_end(c->ctx);
    return *x && *y ? GD_OK : gd_error(c->ctx);
}

/* The training rows, which determine the scaling of numbers, and the validation rows. */
static gd_status make_rows(job *j, const int64_t *learn, const int64_t *check)
{
    gd_trainer *t = &j->t;
    gd__aside_begin(t->ctx);
    gd_tensor *index = gd_from_data(t->ctx, GD_I64, 1, &t->rows, learn);
    gd_status status = index ? measure_scales(j, index) : gd_error(t->ctx);
    gd__aside_end(t->ctx);
    if (!status) status = gd__train_rows(j, learn, t->rows, &t->x, &t->y);
    if (!status && t->check_rows) status = gd__train_rows(j, check, t->check_rows, &t->check_x, &t->check_y);
    if (!status && t->point.weight && !(t->weight = on_device(t, t->point.weight))) status = gd_error(t->ctx);
    if (!status && t->point.recipe.loss.kind == GD_LOSS_POISSON &&
        !(t->offset = on_device(t, t->point.output.mean)))
        status = gd_error(t->ctx);
    /* permuting single columns needs whole rows */
    bool parts = t->point.world && t->point.recipe.microbatch && !j->stream && !j->whole_rows;
    if (!status && parts) status = gd__part_keep(t);
    /* without a validation a failed run keeps its best model for predict; --resume continues from the last one */
    if (!t->check_rows && !j->stream) gd__checkpoint_free_copies(&t->point, &t->point.best);
    return status;
}

/* ---- a run ---- */

static gd_status make_optimizer(job *j)
{
    gd_trainer *t = &j->t;
    const gd_recipe *r = &t->point.recipe;
    gd_link *chain = gd_chain(t->ctx, r->chain), *split = chain;
    gd_status status = chain ? gd__tune_check_schedules(t->ctx, r->schedules.word, r->schedules.count)
                             : gd_error(t->ctx);
    for (int i = 0; i < r->groups.count && !status; i++)
        status = gd__tune_split(t->ctx, &split, r->groups.word[i]);
    if (status) gd_link_release(split);
    t->optimizer = status ? NULL : gd_optimizer_new(t->ctx, split);
    if (!t->optimizer) return gd_error(t->ctx);
    status = gd_optimizer_add_module(t->optimizer, t->point.model.module, NULL, NULL);
    for (int i = 0; i < r->groups.count && !status; i++)
        status = gd__tune_group(t->optimizer, r->groups.word[i]);
    for (int i = 0; i < r->schedules.count && !status; i++)
        status = gd__tune_schedule(t->optimizer, r->schedules.word[i]);
    if (!status && !j->told_unused && j->spec.chain && !gd__tune_uses(t->optimizer, split, chain))
        gd_warn(t->ctx,
                "train: {chain} has no effect: every parameter is in a group with a chain of its own");
    j->told_unused = true;
    gd_distribute_options shares = gd_distribute_defaults();
    shares.shard = t->shard;
    shares.reduce = t->reduce;
    gd_world *world = t->point.world;
    if (!status && world) status = gd_optimizer_distribute(t->optimizer, world, &shares);
    /* of state that is shared each reads its own */
    if (!status && j->archive)
        status = gd__optimizer_resume(t->optimizer, j->archive, "optimizer/", j->other_steps);
    gd_archive_free(j->archive);
    j->archive = NULL;
    return status;
}

/* Seeds the generator and makes a model, unless the checkpoint has one. */
static gd_status make_model(job *j)
{
    gd_trainer *t = &j->t;
    const gd_recipe *r = &t->point.recipe;
    gd_status status = GD_OK;
    j->network.columns = &r->columns;
    if (!j->resume) {
        gd_seed(t->ctx, (uint64_t)(r->seed + t->shift));
        status = gd__network_open(t->ctx, &j->network, r->row_axes, r->row, r->outputs, r->dtype,
                                  &t->point.model);
    }
    if (!status) status = gd__checkpoint_move(&t->point, t->device);
    return status ? status : make_optimizer(j);
}

/* Model, optimizer and their state. */
static void forget_model(job *j)
{
    gd_trainer *t = &j->t;
    gd__checkpoint_free_copies(&t->point, &t->point.best);
    gd_optimizer_free(t->optimizer);
    t->optimizer = NULL;
    gd__network_close(&t->point.model);
    t->point.progress = (gd_progress_state){.last_loss = NAN, .best_loss = INFINITY};
    t->stopped = NULL;
    t->trained_rows = 0;
}

static void forget_rows(job *j)
{
    gd_trainer *t = &j->t;
    gd_tensor **all[] = {&t->x, &t->y, &t->check_x, &t->check_y, &t->weight, &t->offset};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gd_release(*all[i]);
        *all[i] = NULL;
    }
    gd__part_free(t);
    gd__scaling_close(&t->point.input);
    gd__scaling_close(&t->point.output);
    gd__columns_close(&t->point.recipe.columns);
}

/* The default microbatch: gives several processes work, and the same result for usual numbers of processes. */
static void set_microbatch(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    int64_t batch = r->batch ? r->batch : j->t.rows;
    if (r->microbatch < 0)
        r->microbatch = j->t.point.world ? (batch + GD_TRAIN_MICROBATCHES - 1) / GD_TRAIN_MICROBATCHES : 0;
}

gd_status gd__train_begin(job *j, const int64_t *learn, int64_t rows, const int64_t *check,
                          int64_t check_rows)
{
    gd_trainer *t = &j->t;
    gd_recipe *r = &t->point.recipe;
    if (t->x) {
        forget_model(j);
        forget_rows(j);
    }
    t->rows = rows;
    t->check_rows = check_rows;
    gd_status status = gd__dataset_encode(&j->data, &r->columns, learn, rows);
    if (!status) status = describe_data(j);
    if (!status) status = check_task(j);
    if (status) return status;
    if (j->standardise >= 0)
        r->standardise = j->standardise < 3 ? (gd_standardise)j->standardise
                         : r->row_axes == 1 ? GD_SCALE_EACH
                                            : GD_SCALE_ALL;
    set_microbatch(j);
    status = make_model(j);
    return status ? status : make_rows(j, learn, check);
}

gd_status gd__train_again(job *j, int64_t shift)
{
    forget_model(j);
    j->t.shift = shift;
    return make_model(j);
}

/* ---- preparing ---- */

/* Seconds of the spec, if they are set. */
static gd_status take_seconds(const job *j, const char *option, double given, double *out)
{
    const double most = 1e9;
    if (isnan(given)) return GD_OK;
    *out = given;
    return given >= 0 && given <= most
               ? GD_OK
               : gd_fail(j->t.ctx, GD_ARGUMENT, "train: %s: '%g' is not a number from 0 to %g",
                         gd__setting_of(j->t.ctx, option), given, most);
}

static gd_status check_outputs(job *j)
{
    gd_trainer *t = &j->t;
    t->out = j->spec.out;
    t->save_every = 60;
    t->time = INFINITY;
    bool writes = gd__checkpoint_writes(&t->point);
    gd_status status = t->out && writes ? gd__check_file(t->ctx, t->out) : GD_OK;
    if (!status) status = take_seconds(j, "time", j->spec.time, &t->time);
    return status ? status : take_seconds(j, "save_every", j->spec.save_every, &t->save_every);
}

static gd_status open_records(job *j)
{
    gd_trainer *t = &j->t;
    const char *trace = j->spec.trace, *folder = j->spec.events;
    if (trace)
        t->tracer = j->resume ? gd__run_writer_resume(t->ctx, trace, gd_optimizer_steps(t->optimizer))
                              : gd__run_writer_open(t->ctx, trace);
    if (trace && !t->tracer) return gd_error(t->ctx);
    if (folder && !(t->events = gd__events_open(t->ctx, folder))) return gd_error(t->ctx);
    return GD_OK;
}

/* The column that orders or groups the rows: the named one, or for an order the only column of dates. */
static const gd_frame_column *key_column(const job *j)
{
    const gd_frame *f = &j->data.frame;
    int found = -1, dates = 0;
    if (j->data.key.count) return &j->data.key.column[0];
    for (int i = 0; i < f->count; i++)
        if (f->column[i].kind == GD_CELLS_DATES && f->column[i].day) found = i, dates++;
    return dates == 1 && j->split.kind == GD_SPLIT_ORDERED ? &f->column[found] : NULL;
}

static gd_status take_key(job *j)
{
    const gd_frame_column *key = key_column(j);
    if (!key) return GD_OK;
    if (j->split.kind == GD_SPLIT_ORDERED && key->kind == GD_CELLS_WORDS)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "{split}: column '%.60s' holds words, which order no rows",
                       key->name);
    for (int64_t i = 0; i < j->data.rows; i++)
        if (isnan(key->value[i]))
            return gd_fail(j->t.ctx, GD_FORMAT, "%s: row %lld, column '%.60s': missing, {split} wants all",
                           j->source, (long long)i + 1, key->name);
    j->split.column = key->name;
    j->split.key = key->value;
    return GD_OK;
}

/* A random split puts rows of the same or close times on both sides: the score is then too optimistic for later rows. */
static void warn_of_dates(const job *j)
{
    const gd_frame *f = &j->data.frame;
    bool chosen = j->spec.split || j->resume;
    if (j->split.kind != GD_SPLIT_RANDOM || chosen || !(j->folds || j->t.check_rows)) return;
    for (int i = 0; i < f->count; i++) {
        if (f->column[i].kind != GD_CELLS_DATES || !f->column[i].day) continue;
        gd_warn(
            j->t.ctx,
            "train: column '%.60s' holds dates, and the rows to validate with are chosen at random: on later rows the "
            "model may be worse; {split} ordered validates on the last ones ({split} random says that this is meant)",
            f->column[i].name);
        return;
    }
}

/* Splits the rows. */
static gd_status split_data(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    gd_dataset *d = &j->data;
    if (!j->resume) r->stratified = d->task == GD_TASK_CLASSIFY && j->split.kind == GD_SPLIT_RANDOM;
    j->split.classes = (gd_classes){.of = r->stratified ? gd_data(d->y) : NULL, .count = d->classes.count};
    j->split.seed = r->seed;
    gd_status status = take_key(j);
    if (status) return status;
    j->order_bytes = (size_t)d->rows * sizeof *j->order;
    if (!(j->order = gd__alloc(d->ctx, j->order_bytes))) return GD_NOMEM;
    int64_t *apart = &j->t.check_rows;
    status = gd__split_by(d->ctx, &j->split, j->order, d->rows, r->validation, apart);
    if (status) return status;
    warn_of_dates(j);
    if (r->validation > 0 && !*apart && j->split.kind == GD_SPLIT_GROUP && d->rows > 1)
        return gd_fail(d->ctx, GD_ARGUMENT,
                       "{split}: column '%.60s' has one group: there is nothing to validate with",
                       j->split.column);
    gd__sort_rows(j->order, *apart);
    gd__sort_rows(j->order + *apart, d->rows - *apart);
    return GD_OK;
}

/* For streamed data, the rows in memory are a sample from which columns and scales are learnt. */
static gd_status take_sample(job *j)
{
    j->order_bytes = (size_t)j->data.rows * sizeof *j->order;
    if (!(j->order = gd__alloc(j->t.ctx, j->order_bytes))) return GD_NOMEM;
    for (int64_t i = 0; i < j->data.rows; i++) j->order[i] = i;
    return GD_OK;
}

/* The recipe from options or checkpoint, then the data, then the model. */
static gd_status open_data(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    int task = (int)r->task;
    j->standardise = j->resume ? (int)r->standardise : 3;
    gd_status status = gd__train_settings(j, &task, &j->standardise);
    if (!status) status = read_data(j, (gd_task)task);
    if (!status) status = j->stream ? take_sample(j) : split_data(j);
    if (status || j->folds) return status;
    int64_t apart = j->t.check_rows;
    status = gd__train_begin(j, j->order + apart, j->data.rows - apart, j->order, apart);
    if (!status && j->stream) status = gd__train_stream_begin(j);
    gd_release(j->data.x);
    gd_release(j->data.y);
    j->data.x = j->data.y = NULL;
    gd__frame_close(&j->data.frame);
    return status;
}

/* Report of an epoch to the caller. */
static gd_status epoch_done(void *user, const gd_trainer *t)
{
    const job *j = user;
    gd_train_epoch e = {.epoch = t->point.progress.epoch,
                        .step = gd_optimizer_steps(t->optimizer),
                        .loss = t->point.progress.last_loss,
                        .validation = t->check_x ? &t->checked : NULL};
    return j->spec.epoch_done(j->spec.user, &e);
}

void gd__train_init(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec, const gd_csv_options *csv,
                    job *j)
{
    *j = (job){.spec = *spec,
               .table = table,
               .source = table ? gd__csv_source(table) : spec->path,
               .resume = spec->resume,
               .t = {.ctx = ctx, .observer = spec->observer, .point = {.ctx = ctx, .world = spec->world}},
               .report = {.ctx = ctx},
               .seeds = spec->seeds,
               .data = {.ctx = ctx}};
    if (csv) j->csv = *csv;
    if (!csv) j->csv.input.observer = spec->observer;
    if (spec->epoch_done) {
        j->t.epoch_done = epoch_done;
        j->t.user = j;
    }
}

/* Refuses settings that the options of the program cannot express. */
static gd_status check_spec(const job *j)
{
    const gd_train_spec *s = &j->spec;
    gd_ctx *ctx = j->t.ctx;
    if (!j->source) return gd_fail(ctx, GD_ARGUMENT, "train: there is no data: neither a table nor a path");
    if (s->stream && j->table)
        return gd_fail(ctx, GD_ARGUMENT, "train: {stream} reads a file, and a table is given");
    if (s->seeds < 1 || s->seeds > 1000)
        return gd_fail(ctx, GD_ARGUMENT, "train: {seeds}: '%lld' is not a whole number from 1 to 1000",
                       (long long)s->seeds);
    bool shape = s->row_axes >= 0 && s->row_axes < GD_MAX_DIMS;
    for (int i = 0; shape && i < s->row_axes; i++) shape = s->row[i] >= 1 && s->row[i] <= 1000000;
    if (!shape) return gd_fail(ctx, GD_ARGUMENT, "train: {row}: sizes are whole numbers from 1 to 1000000");
    if (s->world && gd_world_ctx(s->world) != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "train: the world belongs to a different context");
    return (unsigned)s->shard <= GD_SHARD_GRADIENTS && (unsigned)s->reduce <= GD_REDUCE_FAST
               ? GD_OK
               : gd_fail(ctx, GD_ARGUMENT, "train: shard or reduce is none of its enumeration");
}

gd_status gd__train_open(job *j)
{
    gd_trainer *t = &j->t;
    const char *device = j->spec.device;
    gd_status status = check_spec(j);
    if (!status && !(t->device = gd_device_get(t->ctx, device ? device : "cpu"))) status = gd_error(t->ctx);
    if (!status) status = check_outputs(j);
    t->point.recipe = (gd_recipe){.columns = {.ctx = t->ctx},
                                  .class_weights = "",
                                  .stop_on = "loss",
                                  .split = "random",
                                  .seeds = 1,
                                  .batch = 32,
                                  .microbatch = -1,
                                  .validation = 0.1,
                                  .epochs = -1, /* the data decides */
                                  .dtype = GD_F32};
    t->point.progress = (gd_progress_state){.last_loss = NAN, .best_loss = INFINITY};
    if (!status && j->resume)
        status = gd__checkpoint_load(t->ctx, j->resume, j->spec.world, &t->point, &j->archive);
    t->point.world = j->spec.world;
    if (!status && t->point.recipe.seeds > 1)
        status = gd_fail(t->ctx, GD_ARGUMENT,
                         "%s holds %lld models of different seeds, which cannot be resumed", j->resume,
                         (long long)t->point.recipe.seeds);
    if (!status) status = open_data(j);
    return status || j->folds ? status : open_records(j);
}

void gd__train_close(job *j)
{
    gd_ctx *ctx = j->t.ctx;
    gd_archive_free(j->archive);
    gd__free(ctx, j->order, j->order_bytes);
    gd__words_free(ctx, &j->changed);
    gd__report_close(&j->report);
    gd__train_stream_close(j);
    gd__dataset_close(&j->data);
    gd__trainer_close(&j->t);
}
