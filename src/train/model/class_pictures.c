/* Pictures of a model's quality; see metrics.h. */
#include "train/model/metrics.h"
#include "plot/plot_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define GRID   201 /* points of a curve */
#define CURVES 8   /* more classes: their mean */
#define BINS   10

typedef struct scored {
    double p;
    bool right;
} scored;

static int most_sure_first(const void *a, const void *b)
{
    double x = ((const scored *)a)->p, y = ((const scored *)b)->p;
    return x > y ? -1 : x < y;
}

/* Share of the class that is found, where `false_share[i]` = i / (GRID - 1) of the others are taken for it; straight between the
 * points of the curve. */
static void roc_curve(const scored *sorted, int64_t rows, double found[GRID])
{
    double right = 0, wrong = 0, rights = 0, x0 = 0, y0 = 0;
    for (int64_t i = 0; i < rows; i++) rights += sorted[i].right;
    double wrongs = (double)rows - rights;
    int at = 0;
    for (int64_t i = 0, end; i < rows; i = end) {
        for (end = i; end < rows && sorted[end].p == sorted[i].p; end++)
            right += sorted[end].right, wrong += !sorted[end].right;
        double x1 = wrong / wrongs, y1 = right / rights;
        for (; at < GRID && (double)at / (GRID - 1) <= x1; at++) {
            double part = x1 > x0 ? ((double)at / (GRID - 1) - x0) / (x1 - x0) : 1;
            found[at] = y0 + part * (y1 - y0);
        }
        if (at > 0 && x1 == x0) found[at - 1] = fmax(found[at - 1], y1); /* straight up */
        x0 = x1, y0 = y1;
    }
    for (; at < GRID; at++) found[at] = 1;
}

static void put_diagonal(gd_plot *plot)
{
    gd_plot_ink(plot, 7);
    gd_plot_line(plot, NULL, (double[]){0, 1}, (double[]){0, 1}, 2);
    gd_plot_limits(plot, 0, 1, 0, 1);
}

static gd_status put_curves(const gd_report *r, const gd_words *names, gd_plot *plot)
{
    double x[GRID], y[GRID], mean[GRID] = {0}, drawn = 0;
    scored *all = gd__alloc_array(r->ctx, (size_t)r->rows, sizeof *all);
    if (!all) return gd_error(r->ctx);
    for (int i = 0; i < GRID; i++) x[i] = (double)i / (GRID - 1);
    /* with two classes the second suffices */
    for (int64_t k = r->classes == 2; k < r->classes; k++) {
        char label[120];
        if (isnan(r->auc[k])) continue;
        for (int64_t i = 0; i < r->rows; i++) all[i] = (scored){r->p[i * r->classes + k], r->right[i] == k};
        qsort(all, (size_t)r->rows, sizeof *all, most_sure_first);
        roc_curve(all, r->rows, y);
        for (int i = 0; i < GRID; i++) mean[i] = (mean[i] * drawn + y[i]) / (drawn + 1);
        drawn++;
        (void)gd__format(label, sizeof label, "%.60s, AUC %.4f", names->word[k], r->auc[k]);
        if (r->classes <= CURVES) gd_plot_line(plot, label, x, y, GRID);
    }
    char label[80];
    (void)gd__format(label, sizeof label, "mean of %lld classes, AUC %.4f", (long long)r->classes,
                     r->mean_auc);
    if (r->classes > CURVES) gd_plot_line(plot, label, x, mean, GRID);
    gd__free(r->ctx, all, (size_t)r->rows * sizeof *all);
    return GD_OK;
}

static gd_status save(gd_plot *plot, gd_status status, const char *path, bool dark)
{
    if (!status) status = gd_plot_save(plot, path, dark);
    gd_plot_free(plot);
    return status;
}

gd_status gd__report_roc(const gd_report *r, const gd_words *names, const char *path, bool dark)
{
    gd_plot *plot = gd_plot_new(r->ctx, "ROC", "others taken for the class", "of the class found");
    if (!plot) return GD_NOMEM;
    gd_status status = put_curves(r, names, plot);
    put_diagonal(plot);
    return save(plot, status, path, dark);
}

/* Of two classes the probability of the second and whether it is that; of more the probability of the answer and whether it is
 * right. */
static void fill_bins(const gd_report *r, double sure[BINS], double right[BINS], double count[BINS])
{
    for (int64_t i = 0; i < r->rows; i++) {
        const double *p = r->p + i * r->classes;
        int64_t best = r->classes == 2;
        for (int64_t k = 0; k < r->classes && r->classes > 2; k++)
            if (p[k] > p[best]) best = k;
        int bin = (int)(p[best] * BINS);
        if (bin >= BINS) bin = BINS - 1;
        sure[bin] += p[best];
        right[bin] += r->right[i] == best;
        count[bin]++;
    }
}

gd_status gd__report_calibration(const gd_report *r, const gd_words *names, const char *path, bool dark)
{
    double sure[BINS] = {0}, right[BINS] = {0}, count[BINS] = {0}, half[BINS];
    char label[120];
    size_t bins = 0;
    gd_plot *plot = gd_plot_new(r->ctx, "Calibration", "probability", "share that is right");
    if (!plot) return GD_NOMEM;
    fill_bins(r, sure, right, count);
    for (int i = 0; i < BINS; i++) {
        if (!(count[i] > 0)) continue;
        double share = right[i] / count[i];
        half[bins] = 1.96 * sqrt((share * (1 - share) + 1 / (4 * count[i])) / count[i]);
        sure[bins] = sure[i] / count[i];
        right[bins++] = share;
    }
    if (r->classes == 2)
        (void)snprintf(label, sizeof label, "is %.60s, with 95 %% bars", names->word[1]);
    else
        (void)snprintf(label, sizeof label, "the answer is right, with 95 %% bars");
    gd_plot_errors(plot, label, sure, right, NULL, half, bins);
    put_diagonal(plot);
    return save(plot, GD_OK, path, dark);
}
