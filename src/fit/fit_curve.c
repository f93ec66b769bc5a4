/* The curve of a fit for a picture: more points where it bends, so that its line is smooth however often it turns. */
#include "fit/fit_job.h"
#include "gradus/autograd.h"

#include <math.h>
#include <stdlib.h>

#define FIRST     240  /* even steps to begin with */
#define ROUNDS    8    /* of halving steps */
#define MOST      8192 /* points */
#define TOLERANCE 0.2  /* error of a line, in pixels */
#define FINEST    0.02 /* steps that are not halved any more, in pixels */
#define ACROSS    720.0
#define UPWARDS   340.0 /* about the frame of a picture, in pixels */

typedef struct plane {
    bool log[2];
    double low[2], high[2];
} plane;

/* The position of a number on an axis, in pixels. */
static double pixel(const plane *p, int axis, double v)
{
    double at = p->log[axis] ? log10(v) : v;
    double share = (at - p->low[axis]) / (p->high[axis] - p->low[axis]);
    return share * (axis ? UPWARDS : ACROSS);
}

static void widen(plane *p, int axis, double v)
{
    double at = p->log[axis] ? log10(v) : v;
    if (!isfinite(at)) return;
    p->low[axis] = fmin(p->low[axis], at);
    p->high[axis] = fmax(p->high[axis], at);
}

/* The model at some places, where the column of sets, if there is one, is `k`. */
static gd_status follow_model(gd_fit *j, const gd_fit_line *line, const double *x, int64_t count, double *y)
{
    gd_tensor *data = j->value[line->x], *sets = line->set < 0 ? NULL : j->value[line->set];
    gd_scope_begin(j->ctx);
    gd_no_grad_begin(j->ctx);
    gd_tensor *at = gd_from_f64(j->ctx, GD_F64, 1, &count, x),
              *of = line->set < 0 ? at : gd_full(j->ctx, GD_F64, 1, &count, line->k);
    j->value[line->x] = at;
    if (line->set >= 0) j->value[line->set] = of;
    gd_expr_forget(j->model);
    gd_tensor *curve = at && of ? gd_expand(gd__fit_model(j, j->param), 1, &count) : NULL;
    curve = gd_reshape(curve, 1, &count);
    gd_status status = curve ? gd_read_f64(curve, y, count) : gd_error(j->ctx);
    gd_expr_forget(j->model);
    j->value[line->x] = data;
    if (line->set >= 0) j->value[line->set] = sets;
    gd_no_grad_end(j->ctx);
    gd_scope_end(j->ctx);
    return status;
}

/* ---- places ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int64_t sort_places(double *x, int64_t count)
{
    int64_t kept = 0;
    qsort(x, (size_t)count, sizeof *x, ascending);
    for (int64_t i = 0; i < count; i++)
        if (!kept || x[i] > x[kept - 1]) x[kept++] = x[i];
    return kept;
}

/* Even steps on the axis over the range of the data, and, if they are few, the data themselves: this shows oscillations from row to
 * row. */
static int64_t first_places(const plane *p, const double *data, int64_t rows, double *x)
{
    int64_t count = 0;
    for (int i = 0; i <= FIRST; i++) {
        double at = p->low[0] + (p->high[0] - p->low[0]) * i / FIRST;
        x[count++] = p->log[0] ? pow(10, at) : at;
    }
    for (int64_t i = 0; i < rows && rows <= MOST / 4; i++)
        if (isfinite(data[i]) && (!p->log[0] || data[i] > 0)) x[count++] = data[i];
    return sort_places(x, count);
}

/* How far point i is from the line between its neighbours, in pixels; 0: one of them has no place. */
static double off_line(const plane *p, const double *x, const double *y, int64_t i)
{
    double a[2] = {pixel(p, 0, x[i - 1]), pixel(p, 1, y[i - 1])};
    double b[2] = {pixel(p, 0, x[i]) - a[0], pixel(p, 1, y[i]) - a[1]};
    double c[2] = {pixel(p, 0, x[i + 1]) - a[0], pixel(p, 1, y[i + 1]) - a[1]};
    double length = hypot(c[0], c[1]), off = fabs(c[0] * b[1] - c[1] * b[0]) / length;
    return isfinite(off) ? off : 0;
}

/* Adds the middles of the steps beside points where the curve bends; the number of points then. */
static int64_t refine(const plane *p, double *x, const double *y, int64_t count)
{
    int64_t more = 0, last = 0; /* the last step with a middle */
    for (int64_t i = 1; i + 1 < count; i++) {
        if (!(off_line(p, x, y, i) > TOLERANCE)) continue;
        for (int64_t step = i; step <= i + 1; step++) {
            double from = pixel(p, 0, x[step - 1]), to = pixel(p, 0, x[step]);
            if (step <= last || to - from < FINEST || count + more == MOST) continue;
            last = step;
            x[count + more++] = p->log[0] ? sqrt(x[step - 1] * x[step]) : (x[step - 1] + x[step]) / 2;
        }
    }
    return more ? sort_places(x, count + more) : count;
}

gd_status gd__fit_curve(gd_fit *j, gd_fit_line *line, const double *data, int64_t rows)
{
    plane p = {{j->log[0], j->log[1]}, {INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    const double *y = gd_data(j->y);
    for (int64_t i = 0; i < rows; i++) widen(&p, 0, data[i]);
    for (int64_t i = 0; i < gd_numel(j->y); i++) widen(&p, 1, y[i]);
    if (!(p.low[0] <= p.high[0])) p.low[0] = p.high[0] = 0;
    line->ctx = j->ctx;
    if (!(line->xs = gd__alloc_array(j->ctx, 2 * (size_t)MOST, sizeof *line->xs))) return GD_NOMEM;
    line->ys = line->xs + MOST;
    line->count = first_places(&p, data, rows, line->xs);
    gd_status status = follow_model(j, line, line->xs, line->count, line->ys);
    for (int round = 0; round < ROUNDS && !status; round++) {
        for (int64_t i = 0; i < line->count && !round; i++) widen(&p, 1, line->ys[i]);
        int64_t count = refine(&p, line->xs, line->ys, line->count);
        if (count == line->count) break;
        line->count = count;
        status = follow_model(j, line, line->xs, line->count, line->ys);
    }
    return status;
}

void gd__fit_curve_close(gd_fit_line *line)
{
    if (line->xs) gd__free(line->ctx, line->xs, 2 * (size_t)MOST * sizeof *line->xs);
    line->xs = NULL;
}
