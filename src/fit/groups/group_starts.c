/* If groups start: a table with a row per group, which has starts in columns named like parameters, and bounds in NAME_low and NAME_high.
 * The table of gd_fit_by is one, so fits can begin where others ended. */
#include "fit/groups/fit_groups.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const endings[] = {"", "_low", "_high"};

/* Is it the column of an element, or of its low or high bound? */
static bool is_of(const char *column, const char *name, int what)
{
    size_t length = strlen(name);
    return !strncmp(column, name, length) && !strcmp(column + length, endings[what]);
}

/* A column that no parameter is named like, so none, is a mistake. */
static gd_status check_columns(const gd_fit_groups *g)
{
    gd_table *t = g->spec->group_starts;
    for (int k = 0; k < g->spec->param_count; k++) {
        const char *name = g->spec->params[k].name;
        size_t length = name ? strcspn(name, "[") : 0;
        for (int c = 0; c < gd_table_columns(t) && length; c++) {
            const char *column = gd_table_name(t, c);
            if (strncmp(column, name, length)) continue;
            const char *rest = column + length;
            if (*rest == '[' || !*rest || !strcmp(rest, endings[1]) || !strcmp(rest, endings[2]))
                return GD_OK;
        }
    }
    return gd_fail(g->ctx, GD_ARGUMENT,
                   "{group_starts}: no column is named like a parameter, or a parameter with _low or _high");
}

/* The cells of a column of `by` as the fitted table writes them; words that it does not have are NAN. */
static gd_status read_key(const gd_fit_groups *g, int k, double *key)
{
    gd_table *t = g->spec->group_starts;
    int column = gd_table_find(t, g->by[k]), count = 0, known = 0;
    gd_tensor *v = column < 0 ? NULL : gd_table_numbers(t, column);
    if (!v) return gd_error(g->ctx);
    const char *const *word = gd_table_words(t, column, &count), *const *of = gd_table_words(
                                                                     g->spec->table, g->column[k], &known);
    const double *cell = gd_data(v);
    gd_status status = GD_OK;
    if (!word != !of)
        status = gd_fail(g->ctx, GD_ARGUMENT,
                         "{group_starts}: column '%.60s' has %s, and %s in the table that is fitted",
                         g->by[k], word ? "words" : "numbers", of ? "words" : "numbers");
    for (int64_t i = 0; i < gd_table_rows(t) && !status; i++) {
        double *to = &key[i * g->count + k];
        *to = cell[i];
        if (!word || isnan(cell[i])) continue;
        *to = NAN;
        for (int w = 0; w < known && isnan(*to); w++)
            if (!strcmp(of[w], word[(int64_t)cell[i]])) *to = w;
    }
    gd_release(v);
    return status;
}

static int before(const double *a, const double *b, int count)
{
    for (int k = 0; k < count; k++)
        if (a[k] != b[k]) return a[k] < b[k] ? -1 : 1;
    return 0;
}

/* The group of a key; -1: there is none. */
static int64_t group_of(const gd_fit_groups *g, const double *key)
{
    int64_t low = 0, high = g->groups;
    for (int k = 0; k < g->count; k++)
        if (isnan(key[k])) return -1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = before(g->sorted[g->first[middle]].key, key, g->count);
        if (!order) return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static gd_status match_rows(gd_fit_groups *g, const double *key)
{
    int64_t rows = gd_table_rows(g->spec->group_starts), strangers = 0;
    char text[200];
    for (int64_t i = 0; i < g->groups; i++) g->starts.row[i] = -1;
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = group_of(g, key + r * g->count);
        if (i < 0)
            strangers++;
        else if (g->starts.row[i] >= 0)
            return gd_fail(g->ctx, GD_ARGUMENT, "{group_starts}: two rows for %s",
                           gd__group_text(g, i, text));
        else
            g->starts.row[i] = r;
    }
    if (strangers && strangers == rows)
        return gd_fail(g->ctx, GD_ARGUMENT,
                       "{group_starts}: no row belongs to a group of the table that is fitted");
    if (strangers)
        gd_warn(g->ctx, "fit: %lld of %lld rows of {group_starts} belong to no group", (long long)strangers,
                (long long)rows);
    return GD_OK;
}

gd_status gd__begin_group_starts(gd_fit_groups *g)
{
    gd_table *t = g->spec->group_starts;
    if (!t) return GD_OK;
    int columns = gd_table_columns(t);
    size_t keys = (size_t)gd_table_rows(t) * (size_t)g->count + 1;
    gd_status status = check_columns(g);
    if (status) return status;
    double *key = gd__alloc_array(g->ctx, keys, sizeof *key);
    g->starts.row = gd__alloc_array(g->ctx, (size_t)g->groups + 1, sizeof *g->starts.row);
    g->starts.value = gd__calloc(g->ctx, ((size_t)columns + 1) * sizeof *g->starts.value);
    g->starts.columns = g->starts.value ? columns : 0;
    if (!key || !g->starts.row || !g->starts.value) status = GD_NOMEM;
    for (int k = 0; k < g->count && !status; k++) status = read_key(g, k, key);
    if (!status) status = match_rows(g, key);
    for (int c = 0; c < columns && !status; c++) {
        if (gd_table_kind(t, c) != GD_CELLS_NUMBERS) continue;
        if (!(g->starts.value[c] = gd_table_numbers(t, c))) status = gd_error(g->ctx);
    }
    gd__free(g->ctx, key, keys * sizeof *key);
    return status ? status : gd_error(g->ctx);
}

void gd__end_group_starts(gd_fit_groups *g)
{
    for (int c = 0; c < g->starts.columns; c++) gd_release(g->starts.value[c]);
    gd__free(g->ctx, g->starts.value, ((size_t)g->starts.columns + 1) * sizeof *g->starts.value);
    gd__free(g->ctx, g->starts.row, ((size_t)g->groups + 1) * sizeof *g->starts.row);
}

gd_status gd__start_group(const gd_fit_groups *g, int64_t i, const gd_fit *j, double *x, double *low,
                          double *high)
{
    int64_t at = 0, row = g->starts.row[i];
    char name[96], text[200];
    for (int k = 0; k < j->params && row >= 0; k++)
        for (int64_t e = 0; e < gd_numel(j->param[k]); e++, at++) {
            double *const to[] = {x + at, low + at, high + at};
            gd__fit_element_name(j, k, e, name);
            for (int c = 0; c < g->starts.columns; c++)
                for (int what = 0; what < 3 && g->starts.value[c]; what++) {
                    double cell = ((const double *)gd_data(g->starts.value[c]))[row];
                    bool is = is_of(gd_table_name(g->spec->group_starts, c), name, what);
                    if (is && !isnan(cell)) *to[what] = cell;
                }
            if (!(low[at] <= high[at]))
                return gd_fail(g->ctx, GD_ARGUMENT,
                               "{group_starts}: %s: the low bound %g of %s is above the high one, %g",
                               gd__group_text(g, i, text), low[at], name, high[at]);
            x[at] = fmin(fmax(x[at], low[at]), high[at]);
        }
    return GD_OK;
}
