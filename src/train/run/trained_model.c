/* Trained models; see gradus/train.h. */
#include "train/run/trained_model.h"
#include "train/model/predictor.h"

#include <math.h>
#include <string.h>

/* ---- from a job or a file ---- */

static const gd_metrics unknown = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};

/* The tensors of a model outlive the scope in which it was made. */
static void own_parts(gd_checkpoint *c)
{
    gd_tensor *const tensors[] = {c->input.mean, c->input.scale, c->output.mean, c->output.scale, c->weight};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) gd__own_made(tensors[i]);
    gd__own_made(c->model.module);
    for (int k = 0; k < c->members; k++) gd__own_made(c->member[k].module);
}

/* The networks refer to the columns of the recipe next to them. */
static void join_columns(gd_checkpoint *c)
{
    c->model.spec.columns = &c->recipe.columns;
    for (int k = 0; k < c->members; k++) c->member[k].spec.columns = &c->recipe.columns;
}

static void settle(gd_model *m)
{
    gd__checkpoint_free_copies(&m->point, &m->point.best);
    m->point.world = NULL;
    join_columns(&m->point);
    own_parts(&m->point);
}

gd_model *gd__model_take(gd_train_job *j)
{
    gd_trainer *t = &j->t;
    gd_model *m = gd__alloc(t->ctx, sizeof *m);
    if (!m) return NULL;
    *m = (gd_model){.ctx = t->ctx, .device = t->device, .point = t->point};
    const gd_progress_state *p = &t->point.progress;
    m->result = (gd_train_result){.training = j->trained,
                                  .validation = t->check_x ? t->checked : unknown,
                                  .rows = t->rows,
                                  .validation_rows = t->check_rows,
                                  .epochs = p->epoch,
                                  .best_epoch = p->best_epoch,
                                  .steps = gd_optimizer_steps(t->optimizer),
                                  .evals = gd_optimizer_evals(t->optimizer),
                                  .parameters = gd__network_parameters(&t->point.model),
                                  .seconds = t->seconds,
                                  .stopped = t->stopped};
    t->point = (gd_checkpoint){.ctx = t->ctx};
    settle(m);
    return m;
}

static gd_status read_model(gd_model *m, const char *path)
{
    gd_archive *archive = NULL;
    gd_status status = gd__checkpoint_load(m->ctx, path, false, &m->point, &archive);
    gd_archive_free(archive);
    if (!status) status = gd__checkpoint_take_best(&m->point);
    settle(m);
    if (status) return status;
    m->result = (gd_train_result){.training = unknown,
                                  .validation = unknown,
                                  .epochs = m->point.progress.epoch,
                                  .best_epoch = m->point.progress.best_epoch,
                                  .parameters = gd__network_parameters(&m->point.model),
                                  .stopped = ""};
    return GD_OK;
}

gd_model *gd_model_load(gd_ctx *ctx, const char *path)
{
    if (!ctx || gd_error(ctx)) return NULL;
    if (!path) return gd__none(gd__null(ctx, "gd_model_load: the path is NULL"));
    gd_model *m = gd__alloc(ctx, sizeof *m);
    if (!m) return gd__none(gd__train_status(ctx, GD_NOMEM));
    *m = (gd_model){.ctx = ctx, .device = gd_device_get(ctx, "cpu"), .point = {.ctx = ctx}};
    gd_status status = m->device ? read_model(m, path) : gd_error(ctx);
    if (!status) return m;
    (void)gd__train_status(ctx, status);
    gd_model_free(m);
    return NULL;
}

gd_status gd_model_save(gd_model *m, const char *path)
{
    if (!m) return GD_ARGUMENT;
    if (gd_error(m->ctx)) return gd_error(m->ctx);
    if (!path) return gd__null(m->ctx, "gd_model_save: the path is NULL");
    m->point.recipe.seeds = m->point.members + 1;
    return gd__train_status(m->ctx, gd__checkpoint_save(&m->point, NULL, path));
}

void gd_model_free(gd_model *m)
{
    if (!m) return;
    gd_ctx *ctx = m->ctx;
    gd__checkpoint_close(&m->point);
    gd__free(ctx, m, sizeof *m);
}

/* ---- about a model ---- */

const gd_train_result *gd_model_result(const gd_model *m) { return m ? &m->result : NULL; }
gd_task gd_model_task(const gd_model *m) { return m ? m->point.recipe.task : GD_TASK_AUTO; }
const char *gd_model_target(const gd_model *m) { return m ? m->point.recipe.target : NULL; }
const char *gd_model_text(const gd_model *m) { return m ? m->point.recipe.model : NULL; }
const char *gd_model_chain(const gd_model *m) { return m ? m->point.recipe.chain : NULL; }
gd_module *gd_model_module(const gd_model *m) { return m ? m->point.model.module : NULL; }

static const char *word_of(const gd_words *words, int index)
{
    return index >= 0 && index < words->count ? words->word[index] : NULL;
}

int gd_model_classes(const gd_model *m) { return m ? m->point.recipe.classes.count : 0; }

const char *gd_model_class(const gd_model *m, int index)
{
    return m ? word_of(&m->point.recipe.classes, index) : NULL;
}

int gd_model_features(const gd_model *m) { return m ? m->point.recipe.features.count : 0; }

const char *gd_model_feature(const gd_model *m, int index)
{
    return m ? word_of(&m->point.recipe.features, index) : NULL;
}

/* ---- predicting ---- */

/* All rows, in blocks, into an existing tensor. */
static gd_status fill_rows(gd_predictor *p, int64_t outputs, double *to)
{
    gd_status status = GD_OK;
    for (int64_t at = 0, end; at < p->data.rows && !status; at = end) {
        end = at + GD_PREDICT_ROWS < p->data.rows ? at + GD_PREDICT_ROWS : p->data.rows;
        gd_scope_begin(p->ctx);
        gd_tensor *piece = gd__predictor_rows(p, at, end);
        status = piece ? gd_read_f64(piece, to + at * outputs, (end - at) * outputs) : gd_error(p->ctx);
        gd_scope_end(p->ctx);
    }
    return status;
}

static gd_tensor *predict(gd_predictor *p)
{
    int64_t outputs = p->point->recipe.outputs;
    gd_tensor *out = gd_empty(p->ctx, GD_F64, 2, (int64_t[]){p->data.rows, outputs});
    if (!out) return NULL;
    if (!fill_rows(p, outputs, gd_data_mut(out))) return out;
    gd_release(out);
    return NULL;
}

gd_tensor *gd_model_predict(gd_model *m, gd_table *table)
{
    if (!m || gd_error(m->ctx)) return NULL;
    if (!table) return gd__none(gd__null(m->ctx, "gd_model_predict: the table is NULL"));
    gd_predictor p;
    gd_data_request q = gd__predictor_request(&m->point.recipe, table, NULL, NULL);
    gd_status status = gd__predictor_open(m->ctx, &m->point, m->device, &q, &p);
    gd_tensor *out = status ? NULL : predict(&p);
    gd__predictor_close(&p);
    if (!out) (void)gd__train_status(m->ctx, status ? status : GD_NOMEM);
    return out;
}

/* Columns of a table in the model's order. */
static gd_tensor *predict_columns(gd_model *m, gd_tensor *rows)
{
    const gd_words *names = &m->point.recipe.features;
    if (gd_ndim(rows) != 2 || gd_size(rows, 1) != names->count)
        return gd__refuse(m->ctx, GD_SHAPE, "gd_model_predict_rows: the model has learnt from %d columns",
                          names->count);
    gd_table *table = gd_table_new(m->ctx, "rows");
    gd_status status = table ? GD_OK : GD_NOMEM;
    for (int i = 0; i < names->count && !status; i++) {
        gd_scope_begin(m->ctx);
        gd_tensor *column = gd_squeeze(gd_slice(rows, "1", i, i + 1, 1), "1");
        status = column ? gd_table_add(table, names->word[i], column) : gd_error(m->ctx);
        gd_scope_end(m->ctx);
    }
    gd_tensor *out = status ? NULL : gd_model_predict(m, table);
    gd_table_free(table);
    return out;
}

gd_tensor *gd_model_predict_rows(gd_model *m, gd_tensor *rows)
{
    if (!m || gd_error(m->ctx)) return NULL;
    if (!rows) return gd__none(gd__null(m->ctx, "gd_model_predict_rows: the rows are NULL"));
    const gd_recipe *r = &m->point.recipe;
    if (r->features.count) return predict_columns(m, rows);
    int64_t shape[GD_MAX_DIMS] = {gd_ndim(rows) ? gd_size(rows, 0) : 0}, numbers = 1;
    for (int i = 0; i < r->row_axes; i++) numbers *= shape[i + 1] = r->row[i];
    if (!shape[0] || gd_numel(rows) != shape[0] * numbers)
        return gd__refuse(m->ctx, GD_SHAPE, "gd_model_predict_rows: rows of %lld numbers are wanted",
                          (long long)numbers);
    gd__aside_begin(m->ctx);
    gd_tensor *x = gd_to_device(gd_reshape(gd_detach(rows), r->row_axes + 1, shape),
                                gd_device_get(m->ctx, "cpu"));
    gd_predictor p = {.ctx = m->ctx,
                      .point = &m->point,
                      .device = m->device,
                      .data = {.ctx = m->ctx, .x = x, .rows = shape[0]}};
    return gd__aside_leave(m->ctx, x ? predict(&p) : NULL);
}

/* ---- judging ---- */

/* The rows with their targets. */
static gd_status open_judged(gd_model *m, gd_table *table, const char *target, gd_predictor *p)
{
    const gd_recipe *r = &m->point.recipe;
    gd_data_request q = gd__predictor_request(r, table, NULL, target ? target : r->target);
    return gd__predictor_open(m->ctx, &m->point, m->device, &q, p);
}

gd_status gd_model_score(gd_model *m, gd_table *table, const char *target, gd_metrics *out)
{
    if (!m) return GD_ARGUMENT;
    if (gd_error(m->ctx)) return gd_error(m->ctx);
    if (!table || !out)
        return gd__null(m->ctx, "gd_model_score: the table or the place for the result is NULL");
    gd_predictor p;
    gd_report report = {.ctx = m->ctx};
    gd_metrics measured;
    gd_status status = open_judged(m, table, target, &p);
    if (!status) status = gd__predictor_score(&p, &measured, &report);
    if (!status) *out = measured;
    gd__report_close(&report);
    gd__predictor_close(&p);
    return gd__train_status(m->ctx, status);
}

static gd_status measure_importance(gd_model *m, gd_predictor *p, const gd_metric *by, gd_importance *out)
{
    gd_tensor *x, *y;
    int count = m->point.recipe.features.count;
    size_t bytes = (size_t)count * sizeof *out;
    gd_importance *all = gd__calloc(m->ctx, bytes);
    if (!all) return GD_NOMEM;
    gd__aside_begin(m->ctx);
    gd_status status = gd__predictor_measured(p, &x, &y);
    if (!status) status = gd__importance(&m->point, x, y, by, all, count);
    gd__aside_end(m->ctx);
    if (!status) memcpy(out, all, bytes);
    gd__free(m->ctx, all, bytes);
    return status;
}

gd_status gd_model_importance(gd_model *m, gd_table *table, const char *target, const char *measure,
                              gd_importance *out)
{
    if (!m) return GD_ARGUMENT;
    if (gd_error(m->ctx)) return gd_error(m->ctx);
    if (!table || !out)
        return gd__null(m->ctx, "gd_model_importance: the table or the place for the result is NULL");
    bool classes = m->point.recipe.task == GD_TASK_CLASSIFY;
    const gd_metric *by = gd__metric_find(measure ? measure : classes ? "accuracy" : "r2");
    if (!by || (by->task && by->task != m->point.recipe.task))
        return gd_fail(m->ctx, GD_ARGUMENT, "gd_model_importance: '%.60s' is no measure of %s", measure,
                       classes ? "classes" : "numbers");
    gd_predictor p;
    gd_status status = open_judged(m, table, target, &p);
    if (!status) status = measure_importance(m, &p, by, out);
    gd__predictor_close(&p);
    return gd__train_status(m->ctx, status);
}
