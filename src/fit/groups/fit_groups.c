/* A model fitted separately to each group of rows of a table.
 *
 * Rows of equal cells in the columns `by` are a group.  Models that use one row at a time are fitted by gd_least_squares_many: they are parsed
 * once per thread and traced.  Everything else is one gd_fit per group: guesses, starts, intervals, other chains, differential equations, and robust
 * losses, whose scale and errors gd_fit finds from the residuals of each fit. */
#include "fit/groups/fit_groups.h"
#include "gradus/lsq.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS, RSS, SIGMA, DOF, CONVERGED, NUMBERS };
static const char *const number_names[NUMBERS] = {"points", "rss", "sigma", "dof", "converged"};

/* ---- which rows belong together ---- */

static int by_key(const void *a, const void *b)
{
    const gd_key_row *x = a, *y = b;
    for (int k = 0; k < x->count; k++)
        if (x->key[k] != y->key[k]) return x->key[k] < y->key[k] ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static gd_status read_key(gd_fit_groups *g, int k)
{
    gd_table *table = g->spec->table;
    g->column[k] = gd_table_find(table, g->by[k]);
    if (g->column[k] < 0) return gd_error(g->ctx);
    gd_tensor *t = gd_table_numbers(table, g->column[k]);
    if (!t) return gd_error(g->ctx);
    const double *v = gd_data(t);
    for (int64_t i = 0; i < g->rows; i++) {
        if (isnan(v[i])) {
            gd_release(t);
            return gd_fail(g->ctx, GD_FORMAT, "{by}: column '%.60s' has no value in row %lld", g->by[k],
                           (long long)i + 1);
        }
        g->key[i * g->count + k] = v[i];
    }
    gd_release(t);
    return GD_OK;
}

gd_status gd__find_groups(gd_fit_groups *g)
{
    while (g->by && g->by[g->count] && g->count < GD_GROUP_COLUMNS) g->count++;
    if (!g->count || g->by[g->count])
        return gd_fail(g->ctx, GD_ARGUMENT,
                       "{by}: one to %d columns, whose cells say which rows belong together",
                       GD_GROUP_COLUMNS);
    g->rows = gd_table_rows(g->spec->table);
    size_t rows = (size_t)g->rows + 1;
    g->key = gd__calloc(g->ctx, rows * (size_t)g->count * sizeof *g->key);
    g->sorted = gd__calloc(g->ctx, rows * sizeof *g->sorted);
    g->first = gd__calloc(g->ctx, (rows + 1) * sizeof *g->first);
    g->of_row = gd__calloc(g->ctx, rows * sizeof *g->of_row);
    gd_status status = g->key && g->sorted && g->first && g->of_row ? GD_OK : GD_NOMEM;
    for (int k = 0; k < g->count && !status; k++) status = read_key(g, k);
    if (status) return status;
    for (int64_t i = 0; i < g->rows; i++) g->sorted[i] = (gd_key_row){g->key + i * g->count, i, g->count};
    qsort(g->sorted, (size_t)g->rows, sizeof *g->sorted, by_key);
    for (int64_t i = 0; i < g->rows; i++) {
        const gd_key_row *here = &g->sorted[i];
        if (!i || memcmp(here->key, here[-1].key, (size_t)g->count * sizeof *here->key))
            g->first[g->groups++] = i;
        g->of_row[here->row] = g->groups - 1;
    }
    g->first[g->groups] = g->rows;
    return GD_OK;
}

static gd_status make_results(gd_fit_groups *g, int64_t n)
{
    size_t all = (size_t)(g->groups * n), count = (size_t)g->groups;
    g->n = n;
    g->result_bytes = (2 * all + count * NUMBERS) * sizeof(double) + (count + (size_t)n) * sizeof(char *);
    if (!(g->x = gd__calloc(g->ctx, g->result_bytes))) return GD_NOMEM;
    g->error = g->x + all;
    g->number = g->error + all;
    g->stop = (const char **)(g->number + count * NUMBERS);
    g->name = g->stop + count;
    return GD_OK;
}

void gd__end_groups(gd_fit_groups *g)
{
    size_t rows = (size_t)g->rows + 1;
    gd__free(g->ctx, g->key, rows * (size_t)g->count * sizeof *g->key);
    gd__free(g->ctx, g->sorted, rows * sizeof *g->sorted);
    gd__free(g->ctx, g->first, (rows + 1) * sizeof *g->first);
    gd__free(g->ctx, g->of_row, rows * sizeof *g->of_row);
    gd__free(g->ctx, g->x, g->result_bytes);
}

/* A group without results. */
static void put_nothing(gd_fit_groups *g, int64_t i)
{
    for (int64_t k = 0; k < g->n; k++) g->x[i * g->n + k] = g->error[i * g->n + k] = NAN;
    for (int k = 0; k < NUMBERS; k++) g->number[i * NUMBERS + k] = k == RSS || k == SIGMA ? NAN : 0;
    g->stop[i] = gd_stop_name(GD_STOP_ERROR);
}

const char *gd__group_text(const gd_fit_groups *g, int64_t i, char out[200])
{
    int used = 0;
    for (int k = 0; k < g->count && used < 150; k++) {
        double key = g->sorted[g->first[i]].key[k];
        int words = 0;
        const char *const *word = gd_table_words(g->spec->table, g->column[k], &words);
        used += word ? gd__format(out + used, 200 - (size_t)used, "%s%.30s = %.30s", k ? ", " : "", g->by[k],
                                  word[(int64_t)key])
                     : gd__format(out + used, 200 - (size_t)used, "%s%.30s = %.10g", k ? ", " : "", g->by[k],
                                  key);
    }
    return out;
}

/* ---- many at once ---- */

bool gd__fits_at_once(gd_fit *j)
{
    const gd_fit_spec *s = &j->spec;
    return !s->chain && !s->device && !s->guess && s->starts <= 1 && !s->function && !s->world && !j->set &&
           !j->robust.loss && !j->derived_count && j->how.kind == GD_INTERVALS_NORMAL &&
           gd__fit_rows_apart(j);
}

static gd_status name_elements(gd_fit_groups *g, const gd_fit *j)
{
    char text[96];
    int64_t at = 0;
    for (int k = 0; k < j->params; k++)
        for (int64_t e = 0; e < gd_numel(j->param[k]); e++) {
            gd__fit_element_name(j, k, e, text);
            if (!(g->name[at++] = gd__intern(g->ctx, text, strlen(text)))) return GD_NOMEM;
        }
    return GD_OK;
}

/* Kept rows of the fit, group after group: their indices among the kept ones, and the starts of groups. */
static void order_rows(const gd_fit_groups *g, const gd_fit *j, int64_t *place, int64_t *first,
                       int64_t *order)
{
    int64_t kept = 0, at = 0;
    for (int64_t i = 0; i < g->rows; i++) place[i] = j->left_out.why[i] ? -1 : kept++;
    for (int64_t k = 0; k < g->groups; k++) {
        first[k] = at;
        for (int64_t i = g->first[k]; i < g->first[k + 1]; i++)
            if (place[g->sorted[i].row] >= 0) order[at++] = place[g->sorted[i].row];
    }
    first[g->groups] = at;
}

static void take_results(gd_fit_groups *g, const gd_lsq_one *one)
{
    for (int64_t i = 0; i < g->groups; i++) {
        double *number = g->number + i * NUMBERS;
        if (one[i].status) {
            put_nothing(g, i);
            continue;
        }
        number[POINTS] = (double)one[i].residuals;
        number[RSS] = one[i].rss;
        number[SIGMA] = one[i].sigma;
        number[DOF] = (double)one[i].dof;
        number[CONVERGED] = one[i].converged;
        g->stop[i] = gd_stop_name(one[i].reason);
    }
}

/* Starts of all groups into g->x; bounds [2, groups, n] where groups have some of their own. */
static gd_status start_all(gd_fit_groups *g, const gd_fit *j, double *bounds)
{
    gd_status status = gd__list_read(j->param, j->params, g->x);
    size_t bytes = (size_t)g->n * sizeof *g->x;
    for (int64_t i = g->groups - 1; i >= 0 && !status; i--) {
        double *low = bounds + i * g->n, *high = low + g->groups * g->n;
        if (i) memcpy(g->x + i * g->n, g->x, bytes);
        if (!bounds) continue;
        memcpy(low, j->element.low, bytes);
        memcpy(high, j->element.high, bytes);
        status = gd__start_group(g, i, j, g->x + i * g->n, low, high);
    }
    return status;
}

static gd_status run_many(gd_fit_groups *g, gd_fit *j, gd_rows *rows, const int64_t *first)
{
    size_t bytes = (size_t)g->groups * sizeof(gd_lsq_one),
           bound_bytes = g->starts.row ? 2 * (size_t)(g->groups * g->n) * sizeof(double) : 0;
    gd_lsq_one *one = gd__calloc(g->ctx, bytes);
    double *bounds = bound_bytes ? gd__alloc(g->ctx, bound_bytes) : NULL;
    gd_status status = one && (bounds || !bound_bytes) ? start_all(g, j, bounds) : GD_NOMEM;
    gd_lsq_options o = gd__fit_options(j);
    o.names = NULL;
    o.rows = NULL;
    o.solve.max_steps = j->spec.max_steps;
    o.solve.max_evals = j->spec.max_evals;
    o.solve.max_seconds = j->spec.max_seconds;
    gd_lsq_many many = {.fits = g->groups,
                        .rows = rows,
                        .like = j->param,
                        .like_count = j->params,
                        .first = first,
                        .low = bounds,
                        .high = bounds ? bounds + g->groups * g->n : NULL,
                        .errors = g->error};
    if (!status) status = gd_least_squares_many(g->ctx, &many, &o, g->x, one);
    if (!status) take_results(g, one);
    gd__free(g->ctx, bounds, bound_bytes);
    gd__free(g->ctx, one, bytes);
    return status;
}

static gd_status fit_at_once(gd_fit_groups *g, gd_fit *j)
{
    size_t bytes = (size_t)(3 * g->rows + 2) * sizeof(int64_t);
    int64_t *place = gd__alloc(g->ctx, bytes), *first = place + g->rows, *order = first + g->groups + 1;
    gd_status status = place ? make_results(g, j->element.count) : GD_NOMEM;
    if (!status) status = name_elements(g, j);
    if (!status) status = gd__fit_fill_rows(j);
    if (!status) {
        order_rows(g, j, place, first, order);
        gd_scope_begin(g->ctx);
        gd_no_grad_begin(g->ctx);
        gd_rows rows = j->rows;
        gd_tensor *data[64], *index = gd_from_data(g->ctx, GD_I64, 1, &rows.count, order);
        if (rows.columns > 64)
            status = gd_fail(g->ctx, GD_ARGUMENT, "{by}: the model has more than 64 columns");
        for (int k = 0; k < rows.columns && !status; k++)
            if (!(data[k] = gd_index_select(j->rows.data[k], "0", index))) status = gd_error(g->ctx);
        rows.data = data;
        if (!status) status = run_many(g, j, &rows, first);
        gd_no_grad_end(g->ctx);
        gd_scope_end(g->ctx);
    }
    gd__free(g->ctx, place, bytes);
    return status;
}

/* ---- one after the other ---- */

gd_table *gd__rows_of_group(const gd_fit_groups *g, int64_t i)
{
    int64_t count = g->first[i + 1] - g->first[i];
    gd_tensor *index = gd_empty(g->ctx, GD_I64, 1, &count);
    int64_t *to = index ? gd_data_mut(index) : NULL;
    for (int64_t k = 0; k < count && to; k++) to[k] = g->sorted[g->first[i] + k].row;
    return index ? gd_table_select_rows(g->spec->table, index) : NULL;
}

static gd_status take_fit(gd_fit_groups *g, int64_t i, gd_fit *fit)
{
    gd_fit_summary s;
    gd_fit_estimate e;
    int64_t n = gd_fit_count(fit) + gd_fit_derived(fit);
    if (g->x && n != g->n)
        return gd_fail(g->ctx, GD_VALUE,
                       "a fit of %lld numbers, other groups have %lld: A[COLUMN] needs the same sets in each",
                       (long long)n, (long long)g->n);
    gd_status status = g->x ? GD_OK : make_results(g, n);
    for (int64_t k = 0; k < i && !status && !g->name[0]; k++)
        put_nothing(g, k); /* those before the first success */
    if (!status) status = gd_fit_summarise(fit, &s);
    for (int64_t k = 0; k < n && !status; k++) {
        if ((status = gd_fit_get(fit, k, &e))) break;
        g->x[i * n + k] = e.value;
        g->error[i * n + k] = e.error;
        if (!g->name[k] && !(g->name[k] = gd__intern(g->ctx, e.name, strlen(e.name)))) status = GD_NOMEM;
    }
    if (status) return status;
    double *number = g->number + i * NUMBERS;
    number[POINTS] = (double)s.points;
    number[RSS] = s.rss;
    number[SIGMA] = s.sigma;
    number[DOF] = (double)s.dof;
    number[CONVERGED] = s.converged;
    g->stop[i] = gd_stop_name(s.stop);
    return GD_OK;
}

/* The start and the bounds of this group. */
static gd_status start_one(const gd_fit_groups *g, int64_t i, gd_fit *fit)
{
    size_t bytes = (size_t)fit->element.count * sizeof(double);
    double *x = gd__alloc(g->ctx, bytes + !bytes);
    gd_status status = x ? gd__list_read(fit->param, fit->params, x) : GD_NOMEM;
    if (!status) status = gd__start_group(g, i, fit, x, fit->element.low, fit->element.high);
    if (!status) status = gd__list_write(fit->param, fit->params, x);
    for (int64_t k = 0; k < fit->element.count; k++)
        fit->bounded |= isfinite(fit->element.low[k]) || isfinite(fit->element.high[k]);
    gd__free(g->ctx, x, bytes + !bytes);
    return status;
}

static gd_status fit_group(gd_fit_groups *g, int64_t i)
{
    gd_scope_begin(g->ctx);
    gd_fit_spec spec = *g->spec;
    spec.table = gd__rows_of_group(g, i);
    spec.group_starts = NULL;
    gd_fit *fit = spec.table ? gd_fit_new(g->ctx, &spec) : NULL;
    gd_status status = fit ? GD_OK : gd_error(g->ctx);
    if (!status && g->starts.row) status = start_one(g, i, fit);
    if (!status) status = gd_fit_run(fit);
    if (!status) status = take_fit(g, i, fit);
    gd_fit_free(fit);
    gd_table_free(spec.table);
    gd_scope_end(g->ctx);
    if (!status || status == GD_NOMEM || status == GD_INTERRUPTED) return status;
    char text[200], why[300];
    (void)snprintf(why, sizeof why, "%s", gd_error_text(g->ctx));
    gd_clear_error(g->ctx);
    gd_warn(g->ctx, "fit: %s: %s", gd__group_text(g, i, text), why);
    if (g->x) put_nothing(g, i);
    return GD_OK;
}

static gd_status fit_each(gd_fit_groups *g)
{
    gd_status status = GD_OK;
    for (int64_t i = 0; i < g->groups && !status; i++) status = fit_group(g, i);
    if (!status && !g->x)
        status = gd_fail(g->ctx, GD_VALUE, "fit: none of the %lld groups could be fitted",
                         (long long)g->groups);
    return status;
}

/* ---- the table ---- */

/* A table holds no infinity: the error of an undetermined parameter is a missing value. */
static gd_status add_column(gd_table *t, gd_ctx *ctx, const char *name, const double *value, int64_t stride,
                            int64_t rows)
{
    gd_tensor *v = gd_empty(ctx, GD_F64, 1, &rows);
    if (!v) return gd_error(ctx);
    double *to = gd_data_mut(v);
    for (int64_t i = 0; i < rows; i++) to[i] = isinf(value[i * stride]) ? NAN : value[i * stride];
    return gd_table_add(t, name, v);
}

static gd_status add_words(const gd_fit_groups *g, gd_table *t, int k, const char *const *word)
{
    const char **cell = gd__alloc_array(g->ctx, (size_t)g->groups, sizeof *cell);
    if (!cell) return GD_NOMEM;
    for (int64_t i = 0; i < g->groups; i++) cell[i] = word[(int64_t)g->sorted[g->first[i]].key[k]];
    gd_status status = gd_table_add_words(t, g->by[k], cell, g->groups);
    gd__free(g->ctx, cell, (size_t)g->groups * sizeof *cell);
    return status;
}

static gd_status add_key(const gd_fit_groups *g, gd_table *t, int k)
{
    int words = 0;
    bool day = false, clock = false;
    const char *const *word = gd_table_words(g->spec->table, g->column[k], &words);
    if (word) return add_words(g, t, k, word);
    gd_tensor *v = gd_empty(g->ctx, GD_F64, 1, &g->groups);
    if (!v) return gd_error(g->ctx);
    for (int64_t i = 0; i < g->groups; i++) ((double *)gd_data_mut(v))[i] = g->sorted[g->first[i]].key[k];
    return gd_table_dates(g->spec->table, g->column[k], &day, &clock)
               ? gd_table_add_dates(t, g->by[k], v, day, clock)
               : gd_table_add(t, g->by[k], v);
}

static gd_table *result_table(gd_fit_groups *g)
{
    gd_table *t = gd_table_new(g->ctx, "fits");
    gd_status status = t ? GD_OK : GD_NOMEM;
    for (int k = 0; k < g->count && !status; k++) status = add_key(g, t, k);
    if (!status) status = add_column(t, g->ctx, number_names[POINTS], g->number + POINTS, NUMBERS, g->groups);
    for (int64_t k = 0; k < g->n && !status; k++) {
        char name[120];
        (void)snprintf(name, sizeof name, "%s_error", g->name[k]);
        status = add_column(t, g->ctx, g->name[k], g->x + k, g->n, g->groups);
        if (!status) status = add_column(t, g->ctx, name, g->error + k, g->n, g->groups);
    }
    for (int k = RSS; k < NUMBERS && !status; k++)
        status = add_column(t, g->ctx, number_names[k], g->number + k, NUMBERS, g->groups);
    if (!status) status = gd_table_add_words(t, "stop", g->stop, g->groups);
    if (!status) return t;
    gd_table_free(t);
    return NULL;
}

gd_table *gd_fit_by(gd_ctx *ctx, const gd_fit_spec *spec, const char *const *by)
{
    if (!ctx || gd_error(ctx)) return NULL;
    if (!spec) return gd__refuse(ctx, GD_ARGUMENT, "fit: no spec");
    gd_fit_groups g = {.ctx = ctx, .spec = spec, .by = by};
    gd_table *out = NULL;
    if (!spec->table) return gd__refuse(ctx, GD_ARGUMENT, "fit: a model and a table are needed");
    gd_scope_begin(ctx);
    gd_fit_spec all = *spec;
    all.group_starts = NULL;
    gd_status status = gd__find_groups(&g);
    if (!status) status = gd__begin_group_starts(&g);
    gd_fit *whole = status || spec->guess ? NULL : gd_fit_new(ctx, &all);
    if (!status && !whole && !spec->guess) status = gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    if (!status)
        status = whole && gd__fits_at_once(whole) ? fit_at_once(&g, whole)
                 : gd_error(ctx)                  ? gd_error(ctx)
                                                  : fit_each(&g);
    gd_fit_free(whole);
    if (!status) out = result_table(&g);
    gd__end_group_starts(&g);
    gd__end_groups(&g);
    gd_scope_end(ctx);
    return out;
}
