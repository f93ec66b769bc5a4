/* The picture of a fitted equation: the points, and the curve where it holds. */
#include "fit/fit_job.h"
#include "plot/plot_internal.h"
#include "gradus/autograd.h"

#include <math.h>

#define GRID   241  /* points of the grid on each axis */
#define MARGIN 0.08 /* beyond the points, by their range */

typedef struct frame {
    gd_plot *plot;
    int column[2]; /* that are x and y, their places among the names */
    double low[2], step[2];
    bool named; /* the curve is in the legend */
    gd_ctx *ctx;
    gd_status status;
} frame;

/* A piece of the curve, in units of the grid. */
static void put_piece(void *user, const double *xy, size_t points)
{
    frame *f = user;
    double *place = gd__alloc_array(f->ctx, points, 2 * sizeof *place);
    if (!place) {
        f->status = GD_NOMEM;
        return;
    }
    for (size_t i = 0; i < 2 * points; i++)
        place[i % 2 * points + i / 2] = f->low[i % 2] + xy[i] * f->step[i % 2];
    gd_plot_ink(f->plot, 1);
    gd_plot_line(f->plot, f->named ? NULL : "fit", place, place + points, points);
    f->named = true;
    gd__free(f->ctx, place, points * 2 * sizeof *place);
}

/* Both columns over the grid, the first along its rows. */
static gd_tensor *grid_column(const frame *f, int axis)
{
    gd_tensor *t = gd_empty(f->ctx, GD_F64, 1, (int64_t[]){GRID * GRID});
    double *v = t ? gd_data_mut(t) : NULL;
    for (int i = 0; v && i < GRID * GRID; i++)
        v[i] = f->low[axis] + (axis ? i / GRID : i % GRID) * f->step[axis];
    return t;
}

static void take_range(frame *f, int axis, const gd_tensor *data)
{
    const double *v = gd_data(data);
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < gd_numel(data); i++) low = fmin(low, v[i]), high = fmax(high, v[i]);
    double range = high > low ? high - low : 1;
    f->low[axis] = low - MARGIN * range;
    f->step[axis] = (1 + 2 * MARGIN) * range / (GRID - 1);
}

static gd_status draw_curve_of(gd_fit *j, frame *f)
{
    gd_tensor *data[2];
    gd_scope_begin(j->ctx);
    gd_no_grad_begin(j->ctx);
    for (int k = 0; k < 2; k++) {
        data[k] = j->value[f->column[k]];
        j->value[f->column[k]] = grid_column(f, k);
    }
    gd_tensor *z = gd__fit_model(j, j->param);
    f->status = z ? GD_OK : gd_error(j->ctx);
    if (z) {
        gd_status status = gd__contour(j->ctx, gd_data(z), GRID, GRID, 0, put_piece, f);
        if (status) f->status = status;
    }
    for (int k = 0; k < 2; k++) j->value[f->column[k]] = data[k];
    gd_no_grad_end(j->ctx);
    gd_scope_end(j->ctx);
    return f->status;
}

static int columns_used(const gd_fit *j)
{
    int used = 0;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) used += j->value[i] != NULL;
    return used;
}

gd_status gd__fit_check_draw(const gd_fit *j)
{
    int used = columns_used(j);
    if (j->y_name || used == 2) return GD_OK;
    return gd_fail(j->ctx, GD_ARGUMENT, "fit: a picture shows an equation of two columns, this one has %d",
                   used);
}

gd_plot *gd__fit_plot_equation(gd_fit *j)
{
    frame f = {.ctx = j->ctx};
    int used = 0;
    gd_status status = gd__fit_check_draw(j);
    if (status) return NULL;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++)
        if (j->value[i] && used++ < 2) f.column[used - 1] = i;
    gd_tensor *x = j->value[f.column[0]], *y = j->value[f.column[1]];
    f.plot = gd_plot_new(j->ctx, j->spec.model, gd__fit_axis_name(j, j->name[f.column[0]]),
                         gd__fit_axis_name(j, j->name[f.column[1]]));
    if (!f.plot) return NULL;
    for (int k = 0; k < 2; k++) gd__fit_date_axis(j, f.plot, k, f.column[k]);
    take_range(&f, 0, x);
    take_range(&f, 1, y);
    gd_plot_ink(f.plot, 0);
    gd_plot_errors(f.plot, "data", gd_data(x), gd_data(y), gd__fit_noise_of(j, f.column[0]),
                   gd__fit_noise_of(j, f.column[1]), (size_t)gd_numel(x));
    status = draw_curve_of(j, &f);
    if (!status) return f.plot;
    gd_plot_free(f.plot);
    return NULL;
}
