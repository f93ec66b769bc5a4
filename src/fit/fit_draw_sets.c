/* The picture of a fit over sets of rows: points and curve of each set in its own colour. */
#include "fit/fit_job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DRAWN 12 /* sets: more would not be distinguishable */

bool gd__fit_has_sets(const gd_fit *j, int *x, int *set)
{
    *x = *set = -1;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) {
        if (!gd__fit_uses(j, i)) continue;
        if (j->set && !strcmp(j->name[i], j->set) && *set < 0)
            *set = i;
        else if (*x < 0)
            *x = i;
        else
            return false;
    }
    return *x >= 0 && *set >= 0;
}

enum { X, Y, ACROSS, UP, PARTS }; /* of a point: where it is, and half of its bars */

/* Rows of set k one after the other; their number. */
static size_t rows_of_set(const gd_fit *j, int set, double k, const double *const *from, double *const *to)
{
    const double *s = gd_data(j->value[set]);
    size_t count = 0;
    for (int64_t i = 0; i < gd_numel(j->y); i++) {
        if (s[i] != k) continue;
        for (int part = 0; part < PARTS; part++)
            if (from[part]) to[part][count] = from[part][i];
        count++;
    }
    return count;
}

/* The name of set k in the legend: of several tables the file without its folders, of a column its name and number. */
static void name_set(const gd_fit *j, int k, char out[80])
{
    const char *path = gd__csv_part(j->csv, k), *slash = path ? strrchr(path, '/') : NULL;
    if (strcmp(j->set, "set") != 0 || !path) {
        (void)snprintf(out, 80, "%.40s %d", j->set, k);
        return;
    }
    bool other = false; /* is there a file of that name in a different folder? */
    for (int i = 0; gd__csv_part(j->csv, i); i++) {
        const char *name = gd__csv_part(j->csv, i), *end = strrchr(name, '/');
        other = other || (i != k && !strcmp(end ? end + 1 : name, slash ? slash + 1 : path));
    }
    (void)snprintf(out, 80, "%.79s", slash && !other ? slash + 1 : path);
}

/* Points and line of set k, which has `count` points. */
static gd_status draw_set(gd_fit *j, gd_plot *plot, gd_fit_line *line, double *const *to, bool across,
                          bool up, size_t count)
{
    char label[80];
    gd_status status = gd__fit_curve(j, line, to[X], (int64_t)count);
    if (!status) {
        name_set(j, (int)line->k, label);
        gd_plot_ink(plot, (int)line->k);
        gd_plot_errors(plot, label, to[X], to[Y], across ? to[ACROSS] : NULL, up ? to[UP] : NULL, count);
        gd_plot_ink(plot, (int)line->k);
        gd_plot_line(plot, NULL, line->xs, line->ys, (size_t)line->count);
    }
    gd__fit_curve_close(line);
    return status;
}

gd_status gd__fit_draw_sets(gd_fit *j, gd_plot *plot, int x, int set)
{
    int64_t rows = gd_numel(j->y);
    const double *s = gd_data(j->value[set]);
    double most = 0, *half, *px = gd__alloc_array(j->ctx, (size_t)rows, PARTS * sizeof *px);
    if (!px) return GD_NOMEM;
    double *const to[PARTS] = {px, px + rows, px + 2 * rows, px + 3 * rows};
    gd_status status = gd__fit_bars(j, &half);
    const double *const from[PARTS] = {gd_data(j->value[x]), gd_data(j->y), gd__fit_noise_of(j, x), half};
    for (int64_t i = 0; i < rows; i++) most = fmax(most, s[i]);
    if (most >= DRAWN) gd_warn(j->ctx, "fit: the picture shows the first %d of %g sets", DRAWN, most + 1);
    for (int k = 0; k <= (int)fmin(most, DRAWN - 1) && !status; k++) {
        size_t count = rows_of_set(j, set, k, from, to);
        gd_fit_line line = {.x = x, .set = set, .k = k};
        if (count) status = draw_set(j, plot, &line, to, from[ACROSS] != NULL, half != NULL, count);
    }
    gd__free(j->ctx, half, half ? (size_t)rows * sizeof *half : 0);
    gd__free(j->ctx, px, (size_t)rows * PARTS * sizeof *px);
    return status;
}
