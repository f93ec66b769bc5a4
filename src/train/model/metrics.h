/* Measures of a model. */
#ifndef GD_TRAIN_METRICS_H
#define GD_TRAIN_METRICS_H

#include "train/model/recipe.h"

#define GD_MEASURE_ROWS 1024 /* at a time; a fixed number, so that sums are the same each time */

#define GD_METRICS 8

typedef struct gd_metric {
    const char *name;
    gd_task task; /* AUTO: of both */
    bool more;    /* more is better */
    size_t at;    /* in gd_metrics */
} gd_metric;

extern const gd_metric gd__metric[GD_METRICS]; /* in the order of gd_metrics */
/* NULL if there is none of that name. */
const gd_metric *gd__metric_find(const char *name);
static inline double gd__metric_of(const gd_metric *metric, const gd_metrics *m)
{
    return *(const double *)((const char *)m + metric->at);
}

/* The model's predictions for standardised rows on its device: logarithms of the probabilities of classes, or numbers in their own
 * units; of an ensemble the mean (of probabilities).  f64.  New. */
gd_tensor *gd__answer(const gd_checkpoint *c, gd_tensor *x);

/* Over standardised rows on the model's device: y are classes, standardised numbers or counts.  The ranks of the checkpoint's world
 * divide the rows, GD_MEASURE_ROWS at a time, and all get the same result as one process.  x has all rows, or those that
 * gd__measure_share gives this rank; y has all. */
GD_NODISCARD gd_status gd__measure(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, gd_metrics *out);
/* Which of `rows` rows this rank measures. */
void gd__measure_share(const gd_checkpoint *c, int64_t rows, int64_t *first, int64_t *count);
/* Gathers numbers that ranks computed for their rows, `each` per row (per GD_MEASURE_ROWS rows: by_piece), in place. failed: this
 * rank has not computed its own. */
GD_NODISCARD gd_status gd__measure_join(const gd_checkpoint *c, gd_status failed, double *numbers,
                                        int64_t rows, int64_t each, bool by_piece);
/* The rows [at, end) of those that this rank has. */
gd_tensor *gd__measured_rows(const gd_checkpoint *c, gd_tensor *x, int64_t rows, int64_t at, int64_t end);

/* ---- class by class ---- */

typedef struct gd_report {
    gd_ctx *ctx;
    int64_t rows, classes;
    double *p;                  /* [rows, classes] */
    int64_t *right;             /* class of each row */
    int64_t *confusion;         /* [right class, answer] */
    double *precision, *recall; /* of each class; NAN for 0 / 0 */
    double *f1, *auc;
    int64_t *count; /* rows of each class */
    double mean_f1, mean_auc, brier;
} gd_report;

/* Of some rows, as gd__measure.  gd__report_close also after a failure. */
GD_NODISCARD gd_status gd__report_make(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, gd_report *out);
void gd__report_close(gd_report *report);

/* Pictures: the ROC curve of each class against the others (of many classes their mean); accuracy over confidence. */
GD_NODISCARD gd_status gd__report_roc(const gd_report *report, const gd_words *names, const char *path,
                                      bool dark);
GD_NODISCARD gd_status gd__report_calibration(const gd_report *report, const gd_words *names,
                                              const char *path, bool dark);

#endif
