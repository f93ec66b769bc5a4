/* Classes one by one; see metrics.h. */
#include "train/model/metrics.h"
#include "gradus/autograd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory: numbers of classes and rows in two blocks ---- */

static size_t numbers_of(const gd_report *r) { return (size_t)(r->rows * r->classes + 4 * r->classes); }
static size_t wholes_of(const gd_report *r)
{
    return (size_t)(r->rows + r->classes * r->classes + r->classes);
}

static gd_status open_report(gd_report *r)
{
    if (!(r->p = gd__calloc(r->ctx, numbers_of(r) * sizeof *r->p))) return GD_NOMEM;
    if (!(r->right = gd__calloc(r->ctx, wholes_of(r) * sizeof *r->right))) return GD_NOMEM;
    r->precision = r->p + r->rows * r->classes;
    r->recall = r->precision + r->classes;
    r->f1 = r->recall + r->classes;
    r->auc = r->f1 + r->classes;
    r->confusion = r->right + r->rows;
    r->count = r->confusion + r->classes * r->classes;
    return GD_OK;
}

void gd__report_close(gd_report *r)
{
    gd__free(r->ctx, r->p, r->p ? numbers_of(r) * sizeof *r->p : 0);
    gd__free(r->ctx, r->right, r->right ? wholes_of(r) * sizeof *r->right : 0);
    *r = (gd_report){.ctx = r->ctx};
}

/* ---- answers ---- */

static gd_status take_answers(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, gd_report *r)
{
    gd_status status = GD_OK;
    gd__aside_begin(c->ctx);
    gd_device *cpu = gd_device_get(c->ctx, "cpu");
    gd_tensor *right = gd_contiguous(gd_to_device(y, cpu));
    if (right) memcpy(r->right, gd_data(right), (size_t)r->rows * sizeof *r->right);
    if (!right) status = gd_error(c->ctx);
    int64_t first, count;
    gd__measure_share(c, r->rows, &first, &count);
    for (int64_t at = first; at < first + count && !status; at += GD_MEASURE_ROWS) {
        int64_t end = at + GD_MEASURE_ROWS < r->rows ? at + GD_MEASURE_ROWS : r->rows;
        gd_scope_begin(c->ctx);
        gd_tensor *answer = gd_exp(gd__answer(c, gd__measured_rows(c, x, r->rows, at, end)));
        answer = gd_to_device(answer, cpu);
        status = answer ? gd_read_f64(answer, r->p + at * r->classes, (end - at) * r->classes)
                        : gd_error(c->ctx);
        gd_scope_end(c->ctx);
    }
    gd__aside_end(c->ctx);
    return gd__measure_join(c, status, r->p, r->rows, r->classes, false);
}

/* ---- counting ---- */

static double ratio(double part, double whole) { return whole > 0 ? part / whole : NAN; }

static void count_answers(gd_report *r)
{
    for (int64_t i = 0; i < r->rows; i++) {
        const double *p = r->p + i * r->classes;
        int64_t best = 0;
        for (int64_t k = 0; k < r->classes; k++) {
            double off = p[k] - (k == r->right[i]);
            if (p[k] > p[best]) best = k;
            r->brier += off * off / (double)r->rows;
        }
        r->confusion[r->right[i] * r->classes + best]++;
        r->count[r->right[i]]++;
    }
}

/* F1 is 0 for a class that occurs and is never predicted, and NaN for a class that neither occurs nor is predicted. */
static void measure_classes(gd_report *r)
{
    double sum = 0, classes = 0;
    for (int64_t k = 0; k < r->classes; k++) {
        int64_t answered = 0, found = r->confusion[k * r->classes + k];
        for (int64_t i = 0; i < r->classes; i++) answered += r->confusion[i * r->classes + k];
        r->precision[k] = ratio((double)found, (double)answered);
        r->recall[k] = ratio((double)found, (double)r->count[k]);
        r->f1[k] = ratio(2 * (double)found, (double)(answered + r->count[k]));
        if (!isnan(r->f1[k])) sum += r->f1[k], classes++;
    }
    r->mean_f1 = ratio(sum, classes);
}

typedef struct scored {
    double p;
    bool right;
} scored;

static int compare_scores(const void *a, const void *b)
{
    double x = ((const scored *)a)->p, y = ((const scored *)b)->p;
    return x < y ? -1 : x > y;
}

/* The fraction of pairs, one row of the class and one of a different class, in which the former has the higher probability; equal ones are
 * half a pair.  From ranks, equal ones sharing their mean. */
static double area(const scored *sorted, int64_t rows)
{
    double ranks = 0, right = 0;
    for (int64_t i = 0, end; i < rows; i = end) {
        for (end = i + 1; end < rows && sorted[end].p == sorted[i].p;) end++;
        for (int64_t k = i; k < end; k++)
            if (sorted[k].right) ranks += 0.5 * (double)(i + end + 1), right++;
    }
    return ratio(ranks - right * (right + 1) / 2, right * ((double)rows - right));
}

static void fill_scores(const gd_report *r, int64_t k, scored *out)
{
    for (int64_t i = 0; i < r->rows; i++) out[i] = (scored){r->p[i * r->classes + k], r->right[i] == k};
    qsort(out, (size_t)r->rows, sizeof *out, compare_scores);
}

static gd_status measure_areas(gd_report *r)
{
    scored *all = gd__alloc_array(r->ctx, (size_t)r->rows, sizeof *all);
    double sum = 0, classes = 0;
    if (!all) return gd_error(r->ctx);
    for (int64_t k = 0; k < r->classes; k++) {
        fill_scores(r, k, all);
        r->auc[k] = area(all, r->rows);
        if (!isnan(r->auc[k])) sum += r->auc[k], classes++;
    }
    r->mean_auc = ratio(sum, classes);
    gd__free(r->ctx, all, (size_t)r->rows * sizeof *all);
    return GD_OK;
}

gd_status gd__report_make(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, gd_report *r)
{
    *r = (gd_report){.ctx = c->ctx, .rows = gd_size(y, 0), .classes = c->recipe.outputs};
    gd_status status = open_report(r);
    if (!status) status = take_answers(c, x, y, r);
    if (status) return status;
    count_answers(r);
    measure_classes(r);
    return measure_areas(r);
}
