/* Pictures of the fits of groups: points and curve of each chosen group in its own colour.
 *
 * Curves use the numbers in the table of gd_fit_by: nothing is fitted again. Groups that were fitted together share the columns of one
 * fit of all rows, with the origin of its dates.  Every other group gets a fit object of its rows that is not run; its dates are moved to the origin
 * of the first one. */
#include "base/text/number.h"
#include "fit/groups/fit_groups.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 8  /* groups, if none are chosen: each has its own colour */
#define MOST  16 /* the same colours again, with rings and dashed curves */

typedef struct drawing {
    gd_fit_groups g;
    gd_table *fits;
    int64_t chosen[MOST];
    int count;
    bool open; /* the first ones are shown because none were chosen */
    gd_fit *whole;
    gd_plot *plot;
    bool log[2];
    gd_fit_date date; /* of the x axis; unit 0: numbers */
    double ends[2];   /* of measured and fitted values, if the model has several columns */
} drawing;

/* ---- names ---- */

/* The shortest text of a number that reads back; printed: as the table shows it. */
static void put_number(gd_text *out, double x, bool printed)
{
    char text[40];
    double back = 0;
    (void)gd__format(text, sizeof text, printed ? "%.6g" : "%.15g", x);
    if (!printed && !(gd__is_number(text, strlen(text), true, &back) && back == x))
        (void)gd__format(text, sizeof text, "%.17g", x);
    gd__text_add(out, text);
}

/* "B/0": the cells of a group in the columns of `by`. */
static const char *name_group(const gd_fit_groups *g, int64_t i, bool printed, gd_text *out)
{
    gd__text_clear(out);
    for (int k = 0; k < g->count; k++) {
        double key = g->sorted[g->first[i]].key[k];
        int words = 0;
        bool day = false, clock = false;
        char date[GD_DATE_SIZE];
        const char *const *word = gd_table_words(g->spec->table, g->column[k], &words);
        if (k) gd__text_char(out, '/');
        if (word)
            gd__text_add(out, word[(int64_t)key]);
        else if (!printed && gd_table_dates(g->spec->table, g->column[k], &day, &clock) &&
                 gd__date_format(date, &(gd_date){key, day, clock}))
            gd__text_add(out, date);
        else
            put_number(out, key, printed);
    }
    return gd__text_string(out);
}

/* The length of the name at the start of a list; 0: a different name. */
static size_t matched(const char *list, const char *name)
{
    size_t length = strlen(name);
    return !strncmp(list, name, length) && (!list[length] || list[length] == ',') ? length : 0;
}

/* The group that a list begins with: the longest name, because words may contain commas. -1: none, or rounded numbers of several. */
static int64_t find_group(const gd_fit_groups *g, const char *list, size_t *length)
{
    gd_text name = gd__text(g->ctx);
    int64_t found = -1;
    *length = 0;
    for (int printed = 0; printed < 2 && found < 0; printed++) {
        int several = 0;
        for (int64_t i = 0; i < g->groups; i++) {
            size_t here = matched(list, name_group(g, i, printed, &name));
            if (here && here == *length) several++;
            if (here > *length) found = i, *length = here, several = 0;
        }
        if (several) found = -1;
    }
    gd__text_free(&name);
    return found;
}

static gd_status refuse_group(const gd_fit_groups *g, const char *list)
{
    gd_text names = gd__text(g->ctx), name = gd__text(g->ctx);
    for (int64_t i = 0; i < g->groups && i < SHOWN; i++)
        gd__text_put(&names, "%s%.40s", i ? ", " : "", name_group(g, i, false, &name));
    if (g->groups > SHOWN) gd__text_put(&names, ", ... (%lld)", (long long)g->groups);
    gd_status status = names.failed || name.failed
                           ? GD_NOMEM
                           : gd_fail(
                                 g->ctx, GD_ARGUMENT, "{chosen_groups}: no group '%.*s', there are %.360s",
                                 (int)fmin((double)strcspn(list, ","), 60), list, gd__text_string(&names));
    gd__text_free(&names);
    gd__text_free(&name);
    return status;
}

/* The groups of a list, "A,B". */
static gd_status choose_some(drawing *d, const char *list)
{
    gd_ctx *ctx = d->g.ctx;
    for (size_t length; *list || !d->count;) {
        list += strspn(list, " ");
        int64_t group = find_group(&d->g, list, &length);
        if (gd_error(ctx)) return gd_error(ctx);
        if (group < 0) return refuse_group(&d->g, list);
        for (int k = 0; k < d->count; k++)
            if (d->chosen[k] == group)
                return gd_fail(ctx, GD_ARGUMENT, "{chosen_groups}: '%.*s' is there twice",
                               (int)fmin((double)length, 60), list);
        if (d->count == MOST)
            return gd_fail(ctx, GD_ARGUMENT, "{chosen_groups}: a picture shows at most %d", MOST);
        d->chosen[d->count++] = group;
        list += length;
        if (*list && !*++list) return refuse_group(&d->g, list);
    }
    return GD_OK;
}

static gd_status choose_groups(drawing *d, const char *const *groups)
{
    gd_status status = GD_OK;
    d->open = !groups || !*groups;
    for (int64_t i = 0; d->open && i < d->g.groups && i < SHOWN; i++) d->chosen[d->count++] = i;
    for (; !d->open && *groups && !status; groups++)
        status = **groups ? choose_some(d, *groups) : refuse_group(&d->g, *groups);
    return status;
}

/* ---- the table of fits ---- */

/* Is row i of the table that of group i? */
static bool is_row_of_group(const drawing *d, int64_t i, const int *column, const double *const *value)
{
    const gd_fit_groups *g = &d->g;
    for (int k = 0; k < g->count; k++) {
        int words = 0;
        double key = g->sorted[g->first[i]].key[k], cell = value[k][i];
        const char *const *here = gd_table_words(d->fits, column[k], &words);
        const char *const *word = gd_table_words(g->spec->table, g->column[k], &words);
        if (isnan(cell) || !here != !word) return false;
        if (word ? strcmp(word[(int64_t)key], here[(int64_t)cell]) != 0 : key != cell) return false;
    }
    return true;
}

static gd_status check_fits(const drawing *d)
{
    const gd_fit_groups *g = &d->g;
    int column[GD_GROUP_COLUMNS];
    const double *value[GD_GROUP_COLUMNS];
    bool same = gd_table_rows(d->fits) == g->groups;
    for (int k = 0; k < g->count && same; k++) {
        column[k] = gd_table_find(d->fits, g->by[k]);
        gd_tensor *t = column[k] < 0 ? NULL : gd_table_numbers(d->fits, column[k]);
        if (!t) return gd_error(g->ctx);
        value[k] = gd_data(t);
    }
    for (int64_t i = 0; i < g->groups && same; i++) same = is_row_of_group(d, i, column, value);
    if (gd_error(g->ctx)) return gd_error(g->ctx);
    return same ? GD_OK
                : gd_fail(
                      g->ctx, GD_ARGUMENT,
                      "fit: the table of fits is not that of these groups: give what gd_fit_by made of them");
}

static gd_status read_cell(const drawing *d, const char *name, int64_t i, double *out)
{
    int column = gd_table_find(d->fits, name);
    gd_tensor *v = column < 0 ? NULL : gd_table_numbers(d->fits, column);
    if (!v) return gd_error(d->g.ctx);
    *out = ((const double *)gd_data(v))[i];
    gd_release(v);
    return GD_OK;
}

/* Sets the parameters to the result of group i; *fitted: all are known.  A group without a fit may have parameters that the table
 * has no columns for. */
static gd_status set_params(const drawing *d, gd_fit *j, int64_t i, bool *fitted)
{
    gd_ctx *ctx = j->ctx;
    double points, *x = gd__alloc_array(ctx, (size_t)j->element.count, sizeof *x);
    int64_t at = 0;
    gd_status status = x ? read_cell(d, "points", i, &points) : GD_NOMEM;
    *fitted = !status && points > 0;
    for (int k = 0; k < j->params && *fitted && !status; k++)
        for (int64_t e = 0; e < gd_numel(j->param[k]) && !status; e++, at++) {
            char name[96];
            gd__fit_element_name(j, k, e, name);
            status = read_cell(d, name, i, &x[at]);
            *fitted = *fitted && !status && isfinite(x[at]);
        }
    if (!status && *fitted) status = gd__list_write(j->param, j->params, x);
    gd__free(ctx, x, (size_t)j->element.count * sizeof *x);
    return status;
}

/* ---- series ---- */

enum { X, Y, ACROSS, UP, PARTS }; /* of a point: its position, and half of its bars */

/* Rows of group i among those of the fit. */
static size_t take_points(const drawing *d, const gd_fit *j, int64_t i, const double *const *from,
                          double *const *to)
{
    size_t count = 0;
    int64_t kept = 0, rows = j == d->whole ? d->g.rows : gd__csv_rows(j->csv);
    for (int64_t row = 0; row < rows; row++) {
        if (j->left_out.why[row]) continue;
        if (j != d->whole || d->g.of_row[row] == i) {
            for (int part = 0; part < PARTS; part++)
                if (from[part]) to[part][count] = from[part][kept];
            count++;
        }
        kept++;
    }
    return count;
}

static gd_status check_log(const drawing *d, int axis, const double *v, size_t count)
{
    for (size_t i = 0; i < count && d->log[axis]; i++)
        if (v[i] < 0)
            return gd_fail(d->g.ctx, GD_VALUE, "fit: %g has no place on a logarithmic %s axis", v[i],
                           axis ? "y" : "x");
    return GD_OK;
}

/* Dates of a fit as numbers of the axis. */
static void move_dates(drawing *d, const gd_fit *j, int x, double *v, size_t count)
{
    const gd_fit_date *date = x < 0 ? NULL : gd__fit_date_of(j, x);
    if (!date || date->unit == 0 || d->date.unit == 0) return;
    double shift = date->origin - d->date.origin;
    for (size_t i = 0; i < count; i++) v[i] = (v[i] * date->unit + shift) / d->date.unit;
}

/* The curve over the points of one column. */
static gd_status put_curve(drawing *d, gd_fit *j, int x, int ink, const double *points, size_t count)
{
    gd_fit_line line = {.x = x, .set = -1};
    gd_status status = gd__fit_curve(j, &line, points, (int64_t)count);
    if (!status) {
        move_dates(d, j, x, line.xs, (size_t)line.count);
        gd_plot_ink(d->plot, ink);
        gd_plot_line(d->plot, NULL, line.xs, line.ys, (size_t)line.count);
    }
    gd__fit_curve_close(&line);
    return status;
}

/* "A", or "A (not fitted)". */
static gd_status put_points(drawing *d, int ink, bool fitted, double *const *to, const double *const *from,
                            size_t count)
{
    gd_text name = gd__text(d->g.ctx);
    (void)name_group(&d->g, d->chosen[ink], false, &name);
    if (!fitted) gd__text_add(&name, " (not fitted)");
    gd_plot_ink(d->plot, ink);
    gd_plot_errors(d->plot, gd__text_string(&name), to[X], to[Y], from[ACROSS] ? to[ACROSS] : NULL,
                   from[UP] ? to[UP] : NULL, count);
    gd_status status = name.failed ? GD_NOMEM : GD_OK;
    gd__text_free(&name);
    return status;
}

/* Points and curve of one group; part: PARTS times room for the rows of the fit.  fitted values [rows] take the place of x if the
 * model has several columns. */
static gd_status put_group(drawing *d, gd_fit *j, int ink, bool known, const double *fitted, double *part)
{
    int x = gd__fit_only_column(j);
    int64_t rows = gd_numel(j->y);
    double *half, *const to[PARTS] = {part, part + rows, part + 2 * rows, part + 3 * rows};
    gd_status status = gd__fit_bars(j, &half);
    if (status) return status;
    const double *const from[PARTS] = {x < 0 ? fitted : gd_data(j->value[x]), gd_data(j->y),
                                       x < 0 ? NULL : gd__fit_noise_of(j, x), half};
    size_t count = take_points(d, j, d->chosen[ink], from, to);
    status = check_log(d, 0, to[X], count);
    if (!status) status = check_log(d, 1, to[Y], count);
    if (!status && x >= 0 && known && count) status = put_curve(d, j, x, ink, to[X], count);
    for (size_t i = 0; i < count && x < 0 && known; i++) {
        d->ends[0] = fmin(d->ends[0], fmin(to[X][i], to[Y][i]));
        d->ends[1] = fmax(d->ends[1], fmax(to[X][i], to[Y][i]));
    }
    move_dates(d, j, x, to[X], count);
    if (!status) status = put_points(d, ink, known, to, from, x < 0 && !known ? 0 : count);
    gd__free(d->g.ctx, half, half ? (size_t)rows * sizeof *half : 0);
    return status;
}

/* The empty plot, once there is a fit that knows its axes. */
static gd_status begin_plot(drawing *d, gd_fit *j)
{
    if (d->plot) return GD_OK;
    int x = gd__fit_only_column(j);
    gd_text title = gd__text(d->g.ctx);
    gd__text_put(&title, "%s by ", j->spec.model ? j->spec.model : "function");
    for (int k = 0; k < d->g.count; k++) gd__text_put(&title, "%s%s", k ? "/" : "", d->g.by[k]);
    if (!title.failed)
        d->plot = gd_plot_new(d->g.ctx, gd__text_string(&title),
                              x < 0 ? "fitted" : gd__fit_axis_name(j, j->name[x]),
                              gd__fit_axis_name(j, j->y_name));
    gd__text_free(&title);
    if (!d->plot) return GD_NOMEM;
    gd_plot_log(d->plot, d->log[0], d->log[1]);
    if (x < 0) return GD_OK;
    gd__fit_date_axis(j, d->plot, 0, x);
    const gd_fit_date *date = gd__fit_date_of(j, x);
    if (date) d->date = *date;
    return GD_OK;
}

static gd_status draw_group(drawing *d, gd_fit *j, int ink)
{
    bool known = false;
    gd_ctx *ctx = d->g.ctx;
    j->log[0] = d->log[0], j->log[1] = d->log[1];
    gd_status status = begin_plot(d, j);
    if (!status) status = set_params(d, j, d->chosen[ink], &known);
    gd_scope_begin(ctx);
    if (!status && j->model) gd_expr_forget(j->model);
    gd_tensor *fitted = status || gd__fit_only_column(j) >= 0 ? NULL : gd__fit_fitted(j);
    if (!status && !fitted) status = gd_error(ctx);
    size_t bytes = PARTS * (size_t)gd_numel(j->y) * sizeof(double);
    double *part = status ? NULL : gd__alloc(ctx, bytes);
    if (!status)
        status = part ? put_group(d, j, ink, known, fitted ? gd_data(fitted) : NULL, part) : GD_NOMEM;
    gd__free(ctx, part, part ? bytes : 0);
    gd_scope_end(ctx);
    return status;
}

/* A spec without members that only a run needs. */
static gd_fit_spec drawn_spec(const gd_fit_spec *spec)
{
    gd_fit_spec out = *spec;
    out.guess = false;
    out.starts = 1;
    out.intervals = out.chain = out.device = NULL;
    out.derive = NULL;
    out.world = NULL;
    out.observer = NULL;
    out.step = NULL;
    return out;
}

/* A group that cannot be fitted is left out with a warning, as in gd_fit_by. */
static gd_status draw_own_group(drawing *d, int ink)
{
    gd_ctx *ctx = d->g.ctx;
    gd_fit_spec spec = drawn_spec(d->g.spec);
    gd_scope_begin(ctx);
    spec.table = gd__rows_of_group(&d->g, d->chosen[ink]);
    gd_fit *fit = spec.table ? gd_fit_new(ctx, &spec) : NULL;
    gd_status status = fit ? draw_group(d, fit, ink) : gd_error(ctx);
    if (!fit && status && status != GD_NOMEM && status != GD_INTERRUPTED) {
        char why[300];
        gd_text name = gd__text(ctx);
        (void)snprintf(why, sizeof why, "%s", gd_error_text(ctx));
        gd_clear_error(ctx);
        gd_warn(ctx, "fit: group %s is not in the picture: %s",
                name_group(&d->g, d->chosen[ink], false, &name), why);
        gd__text_free(&name);
        status = GD_OK;
    }
    gd_fit_free(fit);
    gd_table_free(spec.table);
    gd_scope_end(ctx);
    return status;
}

static gd_status draw_all(drawing *d)
{
    gd_ctx *ctx = d->g.ctx;
    gd_fit *whole = d->g.spec->guess ? NULL : gd_fit_new(ctx, d->g.spec);
    gd_status status = gd_error(ctx);
    if (!status && whole && gd__fits_at_once(whole)) d->whole = whole;
    for (int k = 0; k < d->count && !status; k++)
        status = d->whole ? draw_group(d, d->whole, k) : draw_own_group(d, k);
    gd_fit_free(whole);
    if (!status && !d->plot)
        status = gd_fail(ctx, GD_VALUE, "fit: none of the %d groups can be drawn", d->count);
    if (!status && d->ends[0] < d->ends[1]) {
        gd_plot_ink(d->plot, 0);
        gd_plot_line(d->plot, "agreement", d->ends, d->ends, 2);
    }
    return status;
}

/* ---- public functions ---- */

/* Nothing is fitted: no group starts anywhere. */
static gd_fit_spec spec_of_all(const gd_fit_spec *spec)
{
    gd_fit_spec out = *spec;
    out.group_starts = NULL;
    return out;
}

static gd_status begin_drawing(drawing *d, const char *const *groups)
{
    if (!d->g.spec->table) return gd_fail(d->g.ctx, GD_ARGUMENT, "fit: a model and a table are needed");
    gd_status status = gd__find_groups(&d->g);
    return status ? status : choose_groups(d, groups);
}

/* Equations are refused.  The model alone is read for that, with the rows of the first chosen group. */
static gd_status check_model(drawing *d)
{
    gd_fit_spec spec = drawn_spec(d->g.spec);
    spec.dates = NULL;
    spec.table = gd__rows_of_group(&d->g, d->chosen[0]);
    gd_fit *fit = spec.table ? gd_fit_new(d->g.ctx, &spec) : NULL;
    gd_status status = GD_OK;
    if (!fit && gd_error(d->g.ctx) != GD_NOMEM)
        gd_clear_error(d->g.ctx); /* gd_fit_by reports it */
    else if (!fit)
        status = GD_NOMEM;
    else if (!fit->y_name)
        status = gd_fail(d->g.ctx, GD_ARGUMENT,
                         "fit: a picture of groups is for models of a y, this one is an equation");
    gd_fit_free(fit);
    gd_table_free(spec.table);
    return status;
}

gd_status gd__check_groups(gd_ctx *ctx, const gd_fit_spec *spec, const char *const *by,
                           const char *const *groups)
{
    gd_fit_spec all = spec_of_all(spec);
    drawing d = {.g = {.ctx = ctx, .spec = &all, .by = by}};
    gd_scope_begin(ctx);
    gd_status status = begin_drawing(&d, groups);
    if (!status && d.count) status = check_model(&d);
    gd__end_groups(&d.g);
    gd_scope_end(ctx);
    return status;
}

gd_plot *gd_fit_by_plot(gd_ctx *ctx, const gd_fit_spec *spec, const char *const *by, gd_table *fits,
                        const char *const *groups, const gd_fit_picture *how)
{
    if (!ctx || gd_error(ctx)) return NULL;
    if (!spec || !fits)
        return gd__refuse(ctx, GD_ARGUMENT, "fit: a spec and the table of its fits are needed");
    gd_fit_spec all = spec_of_all(spec);
    drawing d = {.g = {.ctx = ctx, .spec = &all, .by = by}, .fits = fits, .ends = {INFINITY, -INFINITY}};
    d.log[0] = how && how->log_x, d.log[1] = how && how->log_y;
    gd_scope_begin(ctx);
    gd_status status = begin_drawing(&d, groups);
    if (!status) status = check_fits(&d);
    if (!status && d.count) status = check_model(&d);
    if (!status) status = draw_all(&d);
    if (!status && d.open && d.count < d.g.groups)
        gd_warn(ctx, "fit: the picture shows the first %d of %lld groups", d.count, (long long)d.g.groups);
    gd__end_groups(&d.g);
    gd_scope_end(ctx);
    if (!status) return d.plot;
    gd_plot_free(d.plot);
    return NULL;
}
