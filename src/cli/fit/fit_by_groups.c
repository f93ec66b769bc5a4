/* gradus fit --by: a fit per group of rows, as a table. */
#include "cli/fit/fit_by_groups.h"
#include "base/text/compose.h"
#include "file/output.h"
#include "fit/groups/fit_groups.h"

#include <math.h>
#include <string.h>

#define MOST_COLUMNS 9 /* of --by, and the NULL behind them */

/* "a,b" as a list; text: room for a copy. */
static gd_status split_columns(gd_ctx *ctx, const char *option, char *text, size_t size, const char **by)
{
    int count = 0;
    if (strlen(option) >= size) return gd_fail(ctx, GD_ARGUMENT, "--by: '%.60s...' is too long", option);
    memcpy(text, option, strlen(option) + 1);
    for (char *at = text; at; count++) {
        if (count == MOST_COLUMNS - 1)
            return gd_fail(ctx, GD_ARGUMENT, "--by: more than %d columns", MOST_COLUMNS - 1);
        by[count] = at;
        if ((at = strchr(at, ','))) *at++ = 0;
        if (!*by[count])
            return gd_fail(ctx, GD_ARGUMENT, "--by: COLUMN[,COLUMN] expected, '%.60s' found", option);
    }
    by[count] = NULL;
    return GD_OK;
}

/* A cell as text; exact: as many digits as the number has. */
static gd_status cell_text(gd_table *t, int column, const gd_tensor *v, int64_t row, bool json, gd_text *out)
{
    int words = 0;
    double x = ((const double *)gd_data(v))[row];
    const char *const *word = gd_table_words(t, column, &words);
    if (word && !isnan(x))
        json ? gd__json_string(out, word[(int64_t)x]) : gd__text_add(out, word[(int64_t)x]);
    else if (json)
        gd__json_number(out, x);
    else
        gd__text_put(out, isnan(x) ? "-" : "%.6g", x);
    return out->failed ? GD_NOMEM : GD_OK;
}

/* Columns under each other: each as wide as its widest cell. */
static gd_status put_columns(gd_table *t, gd_tensor **value, gd_text *out)
{
    gd_ctx *ctx = out->ctx;
    int columns = gd_table_columns(t);
    int64_t rows = gd_table_rows(t);
    size_t bytes = (size_t)columns * sizeof(int);
    int *width = gd__calloc(ctx, bytes);
    gd_text cell = gd__text(ctx);
    gd_status status = width ? GD_OK : GD_NOMEM;
    for (int measured = 0; measured < 2 && !status; measured++)
        for (int64_t i = -1; i < rows && !status; i++) {
            for (int c = 0; c < columns && !status; c++) {
                gd__text_clear(&cell);
                if (i < 0)
                    gd__text_add(&cell, gd_table_name(t, c));
                else
                    status = cell_text(t, c, value[c], i, false, &cell);
                const char *text = gd__text_string(&cell);
                int length = (int)strlen(text);
                if (!measured && length > width[c]) width[c] = length;
                if (measured) gd__text_put(out, "%s%*s", c ? "  " : "", width[c], text);
            }
            if (measured) gd__text_add(out, "\n");
        }
    gd__text_free(&cell);
    gd__free(ctx, width, bytes);
    return status;
}

/* [{"set": 0, "points": 20, "a": 2.5, ...}, ...] */
static gd_status put_objects(gd_table *t, gd_tensor **value, gd_text *out)
{
    gd_status status = GD_OK;
    gd__text_add(out, "[");
    for (int64_t i = 0; i < gd_table_rows(t) && !status; i++) {
        gd__text_add(out, i ? ",\n {" : "{");
        for (int c = 0; c < gd_table_columns(t) && !status; c++) {
            if (c) gd__text_add(out, ", ");
            gd__json_string(out, gd_table_name(t, c));
            gd__text_add(out, ": ");
            bool truth = !strcmp(gd_table_name(t, c), "converged");
            if (truth)
                gd__text_add(out, ((const double *)gd_data(value[c]))[i] != 0 ? "true" : "false");
            else
                status = cell_text(t, c, value[c], i, true, out);
        }
        gd__text_add(out, "}");
    }
    gd__text_add(out, "]\n");
    return status;
}

static gd_status print_fits(gd_cli *cli, gd_table *t, bool json)
{
    int columns = gd_table_columns(t);
    gd_tensor **value = gd__calloc(cli->ctx, (size_t)columns * sizeof *value);
    gd_status status = value ? GD_OK : GD_NOMEM;
    for (int c = 0; c < columns && !status; c++)
        if (!(value[c] = gd_table_numbers(t, c))) status = gd_error(cli->ctx);
    if (!status) status = (json ? put_objects : put_columns)(t, value, &cli->out);
    for (int c = 0; c < columns && value; c++) gd_release(value[c]);
    gd__free(cli->ctx, value, (size_t)columns * sizeof *value);
    return status ? status : cli->out.failed ? GD_NOMEM : GD_OK;
}

/* Fits that did not converge are an error once all is printed. */
static gd_status count_failed(gd_ctx *ctx, gd_table *t)
{
    int column = gd_table_find(t, "converged");
    gd_tensor *v = column < 0 ? NULL : gd_table_numbers(t, column);
    if (!v) return gd_error(ctx);
    int64_t failed = 0, first = -1, rows = gd_table_rows(t);
    for (int64_t i = rows - 1; i >= 0; i--)
        if (((const double *)gd_data(v))[i] == 0) failed++, first = i;
    gd_release(v);
    return failed ? gd_fail(ctx, GD_VALUE, "fit: not converged: %lld of %lld groups, the first in row %lld",
                            (long long)failed, (long long)rows, (long long)first + 1)
                  : GD_OK;
}

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), count = strlen(ending);
    return length > count && !strcmp(path + length - count, ending);
}

/* --plot, --groups, --log and --dark. */
typedef struct group_picture {
    const char *path;            /* NULL: none */
    const char *const groups[2]; /* the text of --groups, or none */
    gd_fit_picture how;
} group_picture;

static gd_status check_picture(gd_ctx *ctx, const gd_args *args, group_picture *p)
{
    static const char *const of_plot[] = {"groups", "log", "dark"};
    for (int i = 0; i < 3 && !p->path; i++)
        if (gd__args_has(args, of_plot[i]))
            return gd_fail(ctx, GD_ARGUMENT, "fit: --%s is for --plot, which is not given", of_plot[i]);
    if (!p->path) return GD_OK;
    int axes = 0;
    p->how.dark = gd__args_has(args, "dark");
    gd_status status = GD_OK;
    if (gd__args_has(args, "log")) {
        status = gd__args_choice(args, "log", "x y xy", &axes);
        p->how.log_x = axes != 1;
        p->how.log_y = axes != 0;
    }
    if (!status) status = gd_plot_check_path(ctx, p->path);
    return status ? status : gd__check_output(ctx, p->path);
}

static gd_status draw_groups(gd_ctx *ctx, const group_picture *p, const gd_fit_spec *spec,
                             const char *const *by, gd_table *fits)
{
    gd_plot *plot = gd_fit_by_plot(ctx, spec, by, fits, p->groups, &p->how);
    gd_status status = plot            ? gd_plot_save(plot, p->path, p->how.dark)
                       : gd_error(ctx) ? gd_error(ctx)
                                       : GD_NOMEM;
    gd_plot_free(plot);
    return status;
}

gd_status gd__fit_by_groups(gd_cli *cli, const gd_args *args, const gd_fit_spec *spec)
{
    gd_ctx *ctx = cli->ctx;
    char text[600];
    const char *by[MOST_COLUMNS], *out = gd__args_get(args, "out");
    bool json = gd__args_has(args, "json");
    group_picture picture = {gd__args_get(args, "plot"), {gd__args_get(args, "groups"), NULL}, {0}};
    gd_status status = split_columns(ctx, gd__args_get(args, "by"), text, sizeof text, by);
    if (!status && out && !ends_in(out, ".csv") && !ends_in(out, ".tsv"))
        status = gd_fail(ctx, GD_ARGUMENT, "--out: with --by a .csv or .tsv file, '%.60s' is neither", out);
    if (!status && out) status = gd__check_output(ctx, out);
    if (!status && spec->world)
        status = gd_fail(ctx, GD_ARGUMENT,
                         "--by: not with --world: the threads of a process share the groups");
    if (!status) status = check_picture(ctx, args, &picture);
    if (!status && picture.path) status = gd__check_groups(ctx, spec, by, picture.groups);
    gd_fit_spec own = *spec;
    const char *starts = gd__args_get(args, "group-starts");
    if (!status && starts && !(own.group_starts = gd_table_load(ctx, starts, NULL))) status = gd_error(ctx);
    if (status) return status;
    gd_table *t = gd_fit_by(ctx, &own, by);
    gd_table_free(own.group_starts);
    if (!t) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    cli->running = true; /* errors from here on are not mistakes of usage */
    gd_trouble why = {0};
    if (out) gd__put_aside(ctx, gd_table_save(t, out), &why);
    if (picture.path) gd__put_aside(ctx, draw_groups(ctx, &picture, spec, by, t), &why);
    gd__put_aside(ctx, print_fits(cli, t, json), &why);
    if (!why.status) gd__put_aside(ctx, count_failed(ctx, t), &why);
    if (why.status) gd__put_aside(ctx, gd__cli_flush(cli), &why);
    gd_table_free(t);
    return gd__tell(ctx, &why, out, NULL);
}
