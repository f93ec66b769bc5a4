/* Which rows of the table are fitted: not those with missing cells (--missing drop), not those that --exclude names, not
 * those of weight 0. */
#include "fit/fit_job.h"

#include <math.h>

/* A column as a vector; missing cells are NaN where they may be. */
static gd_tensor *column(gd_fit *j, int index)
{
    gd_tensor *t = gd_empty(j->ctx, GD_F64, 1, (int64_t[]){gd__csv_rows(j->csv)});
    if (t && gd__csv_numbers(j->csv, index, j->spec.drop_missing, gd_data_mut(t)) == GD_OK) return t;
    gd_release(t);
    return NULL;
}

gd_tensor *gd__fit_model_column(gd_fit *j, int index)
{
    gd_fit_date *date = &j->date[index];
    if (date->unit == 0 && !gd__fit_holds_dates(j->csv, index)) return column(j, index);
    gd_tensor *t = gd_empty(j->ctx, GD_F64, 1, (int64_t[]){gd__csv_rows(j->csv)});
    if (t && !gd__fit_dates(j->ctx, j->spec.dates, j->csv, index, j->spec.drop_missing, date, gd_data_mut(t)))
        return t;
    gd_release(t);
    return NULL;
}

gd_tensor *gd__fit_column(gd_fit *j, const char *name)
{
    int index = gd__csv_column(j->csv, name);
    return index < 0 ? NULL : column(j, index);
}

/* ---- rows that --exclude names ---- */

/* The condition over the table: [rows], or one number for all. */
static gd_tensor *condition(gd_fit *j, const char *text, gd_tensor **value)
{
    const char **name = j->name + j->params; /* columns follow the parameters there */
    int columns = gd__csv_columns(j->csv);
    gd_expr *e = gd__fit_parse(j, "exclude", text, name, columns);
    bool ok = e != NULL;
    for (int i = 0; i < columns && ok; i++)
        if (gd_expr_uses(e, i)) ok = (value[i] = gd__fit_model_column(j, i)) != NULL;
    gd_tensor *t = ok ? gd_expr_eval(e, value, GD_F64) : NULL;
    gd_expr_free(e);
    return t;
}

static gd_status exclude(gd_fit *j, const char *text)
{
    int64_t rows = gd__csv_rows(j->csv), hit = 0;
    size_t bytes = (size_t)gd__csv_columns(j->csv) * sizeof(gd_tensor *);
    gd_tensor **value = gd__calloc(j->ctx, bytes);
    if (!value) return GD_NOMEM;
    gd_scope_begin(j->ctx);
    gd_no_grad_begin(j->ctx);
    gd_tensor *t = condition(j, text, value);
    gd_status status = t ? GD_OK : gd_error(j->ctx);
    if (t && (gd_ndim(t) != 1 || gd_numel(t) != rows))
        status = gd_fail(j->ctx, GD_ARGUMENT, "{exclude}: '%.60s' is not one condition a row", text);
    const double *holds = status ? NULL : gd_data(t);
    for (int64_t i = 0; i < rows && holds; i++)
        if (holds[i] != 0) hit++, j->left_out.why[i] |= GD_ROW_EXCLUDED;
    gd_no_grad_end(j->ctx);
    gd_scope_end(j->ctx);
    gd__free(j->ctx, value, bytes);
    if (!status && !hit) gd_warn(j->ctx, "{exclude} '%.60s': no row is like that", text);
    return status;
}

/* ---- all reasons together ---- */

static void mark(gd_fit *j, const gd_tensor *t, unsigned char reason, bool (*is)(double))
{
    const double *v = t ? gd_data(t) : NULL;
    for (int64_t i = 0; v && i < gd_numel(t); i++)
        if (is(v[i])) j->left_out.why[i] |= reason;
}

static bool is_nan(double v) { return isnan(v); }
static bool is_zero(double v) { return v == 0; }

static gd_status keep_rows(const gd_fit *j, gd_tensor **t, int64_t rows)
{
    if (!*t) return GD_OK;
    gd_tensor *out = gd_empty(j->ctx, GD_F64, 1, &rows);
    if (!out) return gd_error(j->ctx);
    const double *from = gd_data(*t);
    double *to = gd_data_mut(out);
    for (int64_t i = 0; i < gd_numel(*t); i++)
        if (!j->left_out.why[i]) *to++ = from[i];
    gd_release(*t);
    *t = out;
    return GD_OK;
}

/* A row counts once, for the first of its reasons. */
static int64_t count_rows(gd_fit *j)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < gd__csv_rows(j->csv); i++) {
        int reason = j->left_out.why[i];
        kept += !reason;
        j->left_out.missing += reason & GD_ROW_MISSING ? 1 : 0;
        j->left_out.excluded += (reason & (GD_ROW_MISSING | GD_ROW_EXCLUDED)) == GD_ROW_EXCLUDED;
        j->left_out.weightless += reason == GD_ROW_WEIGHTLESS;
    }
    return kept;
}

gd_status gd__fit_choose_rows(gd_fit *j)
{
    gd_status status = GD_OK;
    if (!(j->left_out.why = gd__calloc(j->ctx, (size_t)gd__csv_rows(j->csv)))) return GD_NOMEM;
    for (const char *const *each = j->spec.exclude; each && *each && !status; each++)
        status = exclude(j, *each);
    if (status) return status;
    mark(j, j->y, GD_ROW_MISSING, is_nan);
    mark(j, j->scale, GD_ROW_MISSING, is_nan);
    mark(j, j->scale, GD_ROW_WEIGHTLESS, is_zero);
    for (int k = 0; k < j->x_errors.count; k++) mark(j, j->x_errors.value[k], GD_ROW_MISSING, is_nan);
    int columns = gd__csv_columns(j->csv);
    for (int i = 0; i < columns; i++) mark(j, j->value[j->params + i], GD_ROW_MISSING, is_nan);
    int64_t rows = count_rows(j);
    if (rows == gd__csv_rows(j->csv)) return GD_OK;
    if (!rows)
        return gd_fail(j->ctx, GD_FORMAT, "%s: %s", gd__csv_source(j->csv),
                       j->left_out.missing || j->left_out.excluded ? "no row is left to fit"
                                                                   : "all weights are 0");
    status = keep_rows(j, &j->y, rows);
    for (int i = 0; i < columns && !status; i++) status = keep_rows(j, &j->value[j->params + i], rows);
    for (int k = 0; k < j->x_errors.count && !status; k++) status = keep_rows(j, &j->x_errors.value[k], rows);
    return status ? status : keep_rows(j, &j->scale, rows);
}
