/* The picture of a fit over sets of rows: points and curve of each set in its own colour. */
#include "cli/fit/fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CURVE 241 /* points of a drawn curve */
#define DRAWN 12  /* sets: more could not be told apart */

bool gd__fit_has_sets(const gd_fit_job *j, int *x, int *set)
{
    *x = *set = -1;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) {
        if (!gd__expr_uses(j->model, i)) continue;
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
static size_t rows_of_set(const gd_fit_job *j, int set, double k, const double *const *from,
                          double *const *to)
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

/* The model over the range of the points of set k. */
static gd_status curve_of_set(gd_fit_job *j, int x, int set, double k, const double *px, size_t count,
                              double *xs, double *ys)
{
    gd_tensor *data = j->value[x], *sets = j->value[set];
    double first = INFINITY, last = -INFINITY;
    for (size_t i = 0; i < count; i++) first = fmin(first, px[i]), last = fmax(last, px[i]);
    gd_scope_begin(j->ctx);
    j->value[x] = gd_linspace(j->ctx, GD_F64, first, last, CURVE);
    j->value[set] = gd_full(j->ctx, GD_F64, 1, (int64_t[]){CURVE}, k);
    gd__expr_forget(j->model);
    gd_tensor *curve = j->value[x] && j->value[set] ? gd__fit_model(j, j->param) : NULL;
    gd_status status = curve ? gd_read_f64(j->value[x], xs, CURVE) : gd_error(j->ctx);
    if (!status) status = gd_read_f64(curve, ys, CURVE);
    gd__expr_forget(j->model);
    j->value[x] = data;
    j->value[set] = sets;
    gd_scope_end(j->ctx);
    return status;
}

gd_status gd__fit_draw_sets(gd_fit_job *j, gd_plot *plot, int x, int set)
{
    int64_t rows = gd_numel(j->y);
    const double *s = gd_data(j->value[set]);
    double xs[CURVE], ys[CURVE], most = 0, *half,
                                 *px = gd__alloc_array(j->ctx, (size_t)rows, PARTS * sizeof *px);
    if (!px) return GD_NOMEM;
    double *const to[PARTS] = {px, px + rows, px + 2 * rows, px + 3 * rows};
    gd_status status = gd__fit_bars(j, &half);
    const double *const from[PARTS] = {gd_data(j->value[x]), gd_data(j->y), gd__fit_noise_of(j, x), half};
    for (int64_t i = 0; i < rows; i++) most = fmax(most, s[i]);
    if (most >= DRAWN) gd_warn(j->ctx, "--plot: the first %d of %g sets are drawn", DRAWN, most + 1);
    for (int k = 0; k <= (int)fmin(most, DRAWN - 1) && !status; k++) {
        char label[80];
        size_t count = rows_of_set(j, set, k, from, to);
        if (!count) continue;
        (void)snprintf(label, sizeof label, "%.40s %d", j->set, k);
        status = curve_of_set(j, x, set, k, px, count, xs, ys);
        if (status) break;
        gd__plot_ink(plot, k);
        gd__plot_errors(plot, label, px, to[Y], from[ACROSS] ? to[ACROSS] : NULL, half ? to[UP] : NULL,
                        count);
        gd__plot_ink(plot, k);
        gd__plot_line(plot, NULL, xs, ys, CURVE);
    }
    gd__free(j->ctx, half, half ? (size_t)rows * sizeof *half : 0);
    gd__free(j->ctx, px, (size_t)rows * PARTS * sizeof *px);
    return status;
}
