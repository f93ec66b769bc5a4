/* Tables of many rows: the residuals of a range of them, on any thread.  Each thread has the model in its own context; the data of the
 * table are shared. */
#include "fit/fit_job.h"
#include "gradus/autograd.h"
#include "gradus/dlpack.h"
#include "optim/vector/row_blocks.h"

#include <string.h>

/* Data of a thread. */
typedef struct row_model {
    gd_fit *j;
    gd_ctx *ctx;
    gd_expr *model;
    gd_tensor **value; /* parameters and columns of a range; followed by the constants of --fix, owned */
} row_model;

static int columns_end(const gd_fit *j) { return j->params + gd__csv_columns(j->csv); }
static size_t value_bytes(const gd_fit *j) { return (size_t)j->names * sizeof(gd_tensor *); }

static void close_rows(void *state)
{
    row_model *m = state;
    gd_expr_free(m->model);
    for (int i = columns_end(m->j); m->value && i < m->j->names; i++) gd_release(m->value[i]);
    if (m->value) gd__free(m->ctx, m->value, value_bytes(m->j));
    if (m->ctx != m->j->ctx) gd__fit_listen(m->j, m->ctx, false);
    gd__free(m->ctx, m, sizeof *m);
}

/* The same numbers in a different context. */
static gd_tensor *lent(gd_ctx *ctx, gd_tensor *t)
{
    int64_t size[GD_MAX_DIMS];
    for (int i = 0; i < gd_ndim(t); i++) size[i] = gd_size(t, i);
    return gd_from_memory(gd_device_get(ctx, "cpu"), gd_tensor_dtype(t), gd_ndim(t), size, NULL,
                          gd_data_mut(t), GD_READ_ONLY, NULL, NULL);
}

static void *open_rows(void *user, gd_ctx *ctx)
{
    gd_fit *j = user;
    row_model *m = gd__calloc(ctx, sizeof *m);
    if (!m) return NULL;
    *m = (row_model){.j = j, .ctx = ctx, .value = gd__calloc(ctx, value_bytes(j))};
    if (m->value) m->model = gd__fit_parse_model(j, ctx, j->form);
    gd__fit_listen(j, ctx, true);
    bool ok = m->model != NULL;
    for (int i = columns_end(j); i < j->names && ok; i++) {
        ok = (m->value[i] = lent(ctx, j->value[i])) != NULL;
        gd_expr_fix(m->model, i);
    }
    if (ok) return m;
    close_rows(m);
    return NULL;
}

static gd_tensor *range_residuals(void *state, gd_tensor *const *params, gd_tensor *const *data,
                                  int64_t first)
{
    row_model *m = state;
    gd_fit *j = m->j;
    int used = 0;
    (void)first;
    if (!j->stopping && !j->spec.world && gd__fit_interrupted(j))
        return gd__refuse(m->ctx, GD_INTERRUPTED, "fit: interrupted");
    for (int i = 0; i < j->params; i++) m->value[i] = params[i];
    for (int i = j->params; i < columns_end(j); i++)
        if (j->value[i]) m->value[i] = data[used++];
    gd_tensor *y = data[used++], *scale = j->scale ? data[used++] : NULL;
    return gd__fit_off_curve(j, m->model, m->value, data + used, y, scale);
}

bool gd__fit_rows_apart(gd_fit *j)
{
    if (j->spec.function) return j->spec.by_rows;
    bool *rows = gd__calloc(j->ctx, (size_t)j->names);
    if (!rows) return false;
    for (int i = j->params; i < columns_end(j); i++) rows[i] = true;
    for (int i = 0; i < j->params; i++) j->value[i] = j->param[i];
    bool apart = gd__expr_by_rows(j->model, rows, j->value, GD_F64);
    gd__free(j->ctx, rows, (size_t)j->names);
    return apart;
}

gd_status gd__fit_by_rows(gd_fit *j)
{
    bool whole = j->spec.errors && !strcmp(j->spec.errors, "hc3"); /* leverages need all rows */
    bool apart = gd_numel(j->y) > GD_BLOCK_ROWS && !whole && !j->spec.function && gd__fit_rows_apart(j);
    if (!apart && j->spec.world && !gd_error(j->ctx))
        gd_warn(
            j->ctx,
            "fit: every process computes all rows: more than %d, of a model that looks at one at a time, are shared",
            GD_BLOCK_ROWS);
    return apart ? gd__fit_fill_rows(j) : gd_error(j->ctx);
}

gd_status gd__fit_fill_rows(gd_fit *j)
{
    if (j->row_data) return GD_OK;
    if (!(j->row_data = gd__calloc(j->ctx, j->name_bytes))) return GD_NOMEM;
    j->rows = (gd_rows){.count = gd_numel(j->y),
                        .world = j->spec.world,
                        .data = j->row_data,
                        .user = j,
                        .open = open_rows,
                        .close = close_rows,
                        .residuals = range_residuals,
                        .traced = !j->spec.function};
    for (int i = j->params; i < columns_end(j); i++)
        if (j->value[i]) j->row_data[j->rows.columns++] = j->value[i];
    j->row_data[j->rows.columns++] = j->y;
    if (j->scale) j->row_data[j->rows.columns++] = j->scale;
    for (int k = 0; k < j->x_errors.count; k++) j->row_data[j->rows.columns++] = j->x_errors.value[k];
    return GD_OK;
}
