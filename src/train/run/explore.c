/* Importance of columns, learning rates; see explore.h. */
#include "train/run/explore.h"
#include "plot/plot_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- importance ---- */

static bool is_of(const gd_recipe *r, int feature, int64_t place)
{
    if (!r->columns.count) return place == feature;
    const gd_column *c = &r->columns.column[feature];
    if (place >= c->at && place < c->at + c->width) return true;
    int64_t code = r->columns.numbers;
    for (int i = 0; i < feature; i++) code += r->columns.column[i].kind == GD_COLUMN_CODE;
    return c->kind == GD_COLUMN_CODE && place == code;
}

/* The rows with one column taken from other rows.  New. */
static gd_tensor *shuffled(const gd_checkpoint *c, gd_tensor *x, int feature, const int64_t *order)
{
    int64_t rows = gd_size(x, 0), width = gd_size(x, 1);
    gd_device *device = gd_tensor_device(x);
    gd_tensor *index = gd_to_device(gd_from_data(c->ctx, GD_I64, 1, &rows, order), device);
    gd_tensor *mask = gd_empty(c->ctx, GD_BOOL, 1, &width);
    if (!mask) return NULL;
    bool *taken = gd_data_mut(mask);
    for (int64_t k = 0; k < width; k++) taken[k] = is_of(&c->recipe, feature, k);
    return gd_where(gd_to_device(mask, device), gd_index_select(x, "0", index), x);
}

/* The more the better. */
static gd_status score(const gd_checkpoint *c, const gd_metric *by, gd_tensor *x, gd_tensor *y, double *out)
{
    gd_metrics m;
    gd_status status = gd__measure(c, x, y, &m);
    if (!status && (!strcmp(by->name, "f1") || !strcmp(by->name, "auc"))) {
        gd_report report = {.ctx = c->ctx};
        status = gd__report_make(c, x, y, &report);
        m.f1 = report.mean_f1;
        m.auc = report.mean_auc;
        gd__report_close(&report);
    }
    *out = (by->more ? 1 : -1) * gd__metric_of(by, &m);
    return status;
}

static gd_status measure_feature(const gd_checkpoint *c, const gd_metric *by, gd_tensor *x, gd_tensor *y,
                                 double whole, int64_t *order, gd_importance *out)
{
    double fall[GD_SHUFFLES], square = 0;
    gd_status status = GD_OK;
    out->mean = 0;
    for (int k = 0; k < GD_SHUFFLES && !status; k++) {
        double other_score;
        gd__shuffle(order, gd_size(x, 0), c->recipe.seed, INT64_C(1) << 20 | k);
        gd__aside_begin(c->ctx);
        gd_tensor *other = shuffled(c, x, out->feature, order);
        status = other ? score(c, by, other, y, &other_score) : gd_error(c->ctx);
        gd__aside_end(c->ctx);
        if (status) break;
        fall[k] = whole - other_score;
        out->mean += fall[k] / GD_SHUFFLES;
    }
    for (int k = 0; k < GD_SHUFFLES && !status; k++) square += (fall[k] - out->mean) * (fall[k] - out->mean);
    out->deviation = sqrt(square / GD_SHUFFLES);
    return status;
}

static int most_important_first(const void *a, const void *b)
{
    double x = ((const gd_importance *)a)->mean, y = ((const gd_importance *)b)->mean;
    return x > y ? -1 : x < y ? 1 : ((const gd_importance *)a)->feature - ((const gd_importance *)b)->feature;
}

gd_status gd__importance(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, const gd_metric *by,
                         gd_importance *out, int count)
{
    size_t bytes = (size_t)gd_size(x, 0) * sizeof(int64_t);
    int64_t *order = gd__alloc(c->ctx, bytes);
    double whole = NAN;
    gd_status status = order ? score(c, by, x, y, &whole) : GD_NOMEM;
    for (int i = 0; i < count && !status; i++) {
        out[i].feature = i;
        status = measure_feature(c, by, x, y, whole, order, &out[i]);
    }
    if (!status) qsort(out, (size_t)count, sizeof *out, most_important_first);
    gd__free(c->ctx, order, order ? bytes : 0);
    return status;
}

/* ---- learning rates ---- */

#define FIRST  1e-6
#define LAST   10.0
#define SMOOTH 0.9
#define WORSE  4

/* The rate at which the loss falls fastest, as a function of the logarithm of the rate: of the steps before the lowest. */
static gd_status choose_rate(gd_ctx *ctx, gd_rates *r)
{
    int low = 0, steep = -1;
    double slope = 0;
    for (int i = 1; i < r->count; i++)
        if (r->loss[i] < r->loss[low]) low = i;
    for (int i = 1; i + 1 <= low; i++) {
        double s = (r->loss[i + 1] - r->loss[i - 1]) / log(r->rate[i + 1] / r->rate[i - 1]);
        if (s < slope) slope = s, steep = i;
    }
    if (steep < 0)
        return gd_fail(ctx, GD_VALUE, "train: the loss falls at no rate from %g to %g", FIRST, LAST);
    r->best = r->rate[steep];
    r->lowest = r->rate[low];
    return GD_OK;
}

gd_status gd__find_rate(gd_trainer *t, gd_rates *out)
{
    double average = 0, lowest = INFINITY;
    gd_status status = GD_OK;
    *out = (gd_rates){0};
    for (int i = 0; i < GD_RATES && !status; i++) {
        double rate = FIRST * pow(LAST / FIRST, (double)i / (GD_RATES - 1));
        gd_step_info info = {.loss = NAN};
        status = gd_optimizer_set(t->optimizer, -1, "lr", rate);
        if (!status) status = gd__trainer_step(t, &info);
        if (status || !isfinite(info.loss)) break;
        average = SMOOTH * average + (1 - SMOOTH) * info.loss;
        out->rate[i] = rate;
        out->loss[i] = average / (1 - pow(SMOOTH, i + 1));
        out->count++;
        if (out->loss[i] > WORSE * lowest) break;
        lowest = fmin(lowest, out->loss[i]);
    }
    if (status == GD_VALUE && out->count > 2) { /* a loss that is not finite ends the search */
        gd_clear_error(t->ctx);
        status = GD_OK;
    }
    return status ? status : choose_rate(t->ctx, out);
}

gd_status gd__draw_rates(gd_ctx *ctx, const gd_rates *r, const char *path, bool dark)
{
    gd_plot *plot = gd_plot_new(ctx, "Learning rate", "lr", "loss, smoothed");
    if (!plot) return GD_NOMEM;
    gd_plot_log(plot, true, false);
    gd_plot_line(plot, "loss", r->rate, r->loss, (size_t)r->count);
    int k = 0;
    while (k + 1 < r->count && r->rate[k] < r->best) k++;
    gd_plot_points(plot, "falls fastest", &r->rate[k], &r->loss[k], 1);
    gd_status status = gd_plot_save(plot, path, dark);
    gd_plot_free(plot);
    return status;
}
