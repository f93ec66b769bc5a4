/* Problems of two numbers as a plane; see problem.h. */
#include "problem/problem.h"

#include "gradus/autograd.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdio.h>

#define GRID_COLUMNS 241
#define GRID_ROWS    161

/* Which parameter and element the k-th number is. */
static void find_number(const gd_problem *p, int k, int *param, int64_t *element)
{
    *param = 0;
    *element = k;
    while (*element >= gd_numel(p->value[*param])) *element -= gd_numel(p->value[(*param)++]);
}

bool gd__problem_is_plane(const gd_problem *p, char axis[2][80])
{
    if (gd__list_numel(p->value, p->params) != 2) return false;
    for (int k = 0; k < 2; k++) {
        int param;
        int64_t element;
        find_number(p, k, &param, &element);
        if (gd_ndim(p->value[param]) == 0)
            (void)snprintf(axis[k], 80, "%.70s", p->name[param]);
        else
            (void)snprintf(axis[k], 80, "%.50s[%lld]", p->name[param], (long long)element);
    }
    return true;
}

static gd_status fill_grid(gd_problem *p, const double box[4], double *z)
{
    gd_status status = GD_OK;
    for (int row = 0; row < GRID_ROWS && !status; row++) {
        for (int column = 0; column < GRID_COLUMNS && !status; column++) {
            double point[2] = {box[0] + (box[1] - box[0]) * column / (GRID_COLUMNS - 1),
                               box[2] + (box[3] - box[2]) * row / (GRID_ROWS - 1)};
            status = gd__list_write(p->value, p->params, point);
            if (status) break;
            gd_scope_begin(p->ctx);
            gd_tensor *loss = gd__problem_loss(p);
            if (loss)
                z[row * GRID_COLUMNS + column] = gd_item(loss);
            else
                status = gd_error(p->ctx);
            gd_scope_end(p->ctx);
        }
    }
    return status;
}

gd_status gd__problem_contours(gd_problem *p, gd_plot *plot, const double box[4])
{
    double before[2], *z = gd__alloc_array(p->ctx, GRID_COLUMNS * GRID_ROWS, sizeof *z);
    gd_status status = z ? gd__list_read(p->value, p->params, before) : GD_NOMEM;
    if (!status) {
        gd_no_grad_begin(p->ctx);
        status = fill_grid(p, box, z);
        gd_status restored = gd__list_write(p->value, p->params, before);
        if (!status) status = restored;
        gd_no_grad_end(p->ctx);
    }
    if (!status) gd_plot_contours(plot, box[0], box[1], GRID_COLUMNS, box[2], box[3], GRID_ROWS, z);
    gd__free(p->ctx, z, GRID_COLUMNS * GRID_ROWS * sizeof *z);
    return status;
}

/* One side of a box: the points, and a fifth of their spread on either end. */
static void side(const double *v, size_t count, double out[2])
{
    out[0] = INFINITY;
    out[1] = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(v[i])) continue;
        out[0] = fmin(out[0], v[i]);
        out[1] = fmax(out[1], v[i]);
    }
    if (!(out[0] <= out[1])) out[0] = -1, out[1] = 1;
}

void gd__plane_box(const double *x, const double *y, size_t count, double box[4])
{
    side(x, count, box);
    side(y, count, box + 2);
    double wide = fmax(box[1] - box[0], box[3] - box[2]);
    if (!(wide > 0)) wide = fmax(1, fmax(fabs(box[0]), fabs(box[2])));
    for (int k = 0; k < 4; k += 2) {
        double spread = fmax(box[k + 1] - box[k], 0.2 * wide), middle = (box[k] + box[k + 1]) / 2;
        box[k] = middle - 0.7 * spread;
        box[k + 1] = middle + 0.7 * spread;
    }
}
