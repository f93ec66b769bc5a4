/* Predictions; see predictor.h. */
#include "train/model/predictor.h"

#include <stdio.h>
#include <string.h>

gd_data_request gd__predictor_request(const gd_recipe *r, gd_table *table, const char *path,
                                      const char *target)
{
    gd_data_request q = {.table = table,
                         .path = table ? gd__csv_source(table) : path,
                         .target = target,
                         .task = r->task,
                         .features = &r->features,
                         .columns = &r->columns,
                         .classes = &r->classes,
                         .row_axes = r->row_axes};
    memcpy(q.row, r->row, sizeof q.row);
    return q;
}

/* Numbers without names are those of the columns that the model has learnt from, in their order; words have no such number. */
static gd_status open_numbers(gd_predictor *p, const gd_data_request *q)
{
    const gd_recipe *r = &p->point->recipe;
    char names[240], why[400];
    for (int i = 0; i < r->columns.count; i++)
        if (r->columns.column[i].kind != GD_COLUMN_NUMBER)
            return gd_fail(p->ctx, GD_MISMATCH, "%s: the model wants a table: its column '%.60s' is of %s",
                           q->path, r->features.word[i],
                           r->columns.column[i].kind == GD_COLUMN_DATE ? "dates" : "words");
    gd_status status = gd__dataset_open(p->ctx, q, &p->data);
    gd__names_list(r->features.word, r->features.count, names, sizeof names);
    if (!status)
        gd_warn(p->ctx, "%s has no names of columns: its numbers are taken as %s, in this order", q->path,
                names);
    if (status != GD_SHAPE) return status;
    (void)snprintf(why, sizeof why, "%s", gd_error_text(p->ctx));
    gd_clear_error(p->ctx);
    return gd_fail(p->ctx, status, "%s: %s, in this order", why, names);
}

gd_status gd__predictor_open(gd_ctx *ctx, gd_checkpoint *point, gd_device *device, const gd_data_request *q,
                             gd_predictor *p)
{
    gd_recipe *r = &point->recipe;
    bool table = q->table || gd__dataset_is_table(q->path);
    *p = (gd_predictor){.ctx = ctx, .point = point, .device = device, .data = {.ctx = ctx}};
    if (table && !r->features.count)
        return gd_fail(ctx, GD_MISMATCH, "%s: the model was trained on arrays, not on a table", q->path);
    gd_status status = !table && r->features.count ? open_numbers(p, q) : gd__dataset_open(ctx, q, &p->data);
    if (!status) status = gd__dataset_encode(&p->data, &r->columns, NULL, 0);
    if (!status && q->target && r->task == GD_TASK_REGRESS && gd_size(p->data.y, 1) != r->outputs)
        status = gd_fail(ctx, GD_SHAPE, "%s: %lld numbers per row, the model predicts %lld", q->target,
                         (long long)gd_size(p->data.y, 1), (long long)r->outputs);
    return status;
}

void gd__predictor_close(gd_predictor *p)
{
    if (p->ctx) gd__dataset_close(&p->data);
}

gd_tensor *gd__predictor_rows(gd_predictor *p, int64_t at, int64_t end)
{
    const gd_checkpoint *c = p->point;
    gd__aside_begin(p->ctx);
    gd_tensor *x = gd__scaling_apply(&c->input, gd_slice(p->data.x, "0", at, end, 1), c->recipe.dtype);
    gd_tensor *out = gd_to_device(gd__answer(c, gd_to_device(x, p->device)), gd_device_get(p->ctx, "cpu"));
    return gd__aside_leave(p->ctx, c->recipe.task == GD_TASK_CLASSIFY ? gd_exp(out) : out);
}

gd_status gd__predictor_measured(gd_predictor *p, gd_tensor **x, gd_tensor **y)
{
    static const gd_scaling as_it_is;
    const gd_checkpoint *c = p->point;
    const gd_recipe *r = &c->recipe;
    const gd_scaling *of_y = r->loss.kind == GD_LOSS_POISSON ? &as_it_is : &c->output;
    *x = gd_to_device(gd__scaling_apply(&c->input, p->data.x, r->dtype), p->device);
    *y = r->task == GD_TASK_CLASSIFY ? p->data.y : gd__scaling_apply(of_y, p->data.y, r->dtype);
    *y = gd_to_device(*y, p->device);
    return *x && *y ? GD_OK : gd_error(p->ctx);
}

gd_status gd__predictor_score(gd_predictor *p, gd_metrics *out, gd_report *report)
{
    const gd_checkpoint *c = p->point;
    gd_tensor *x, *y;
    *report = (gd_report){.ctx = p->ctx};
    gd__aside_begin(p->ctx);
    gd_status status = gd__predictor_measured(p, &x, &y);
    if (!status) status = gd__measure(c, x, y, out);
    if (!status && c->recipe.task == GD_TASK_CLASSIFY) {
        status = gd__report_make(c, x, y, report);
        out->f1 = report->mean_f1;
        out->auc = report->mean_auc;
    }
    gd__aside_end(p->ctx);
    return status;
}
