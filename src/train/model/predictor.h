/* Predictions of a model for rows of a table or of arrays, and its scores. */
#ifndef GD_TRAIN_PREDICTOR_H
#define GD_TRAIN_PREDICTOR_H

#include "train/model/metrics.h"

#define GD_PREDICT_ROWS 1024 /* at a time */

typedef struct gd_predictor {
    gd_ctx *ctx;
    gd_checkpoint *point; /* borrowed; its model is on `device` */
    gd_device *device;
    gd_dataset data;
} gd_predictor;

/* The data request for a model's rows, from its recipe.  table NULL: the file.  target NULL: none is read. */
gd_data_request gd__predictor_request(const gd_recipe *recipe, gd_table *table, const char *path,
                                      const char *target);
/* Reads the rows in the model's encoding.  Numbers without names are those of its columns in their order: a warning.  MISMATCH: the
 * model wants a table, or arrays.  gd__predictor_close also after a failure. */
GD_NODISCARD gd_status gd__predictor_open(gd_ctx *ctx, gd_checkpoint *point, gd_device *device,
                                          const gd_data_request *request, gd_predictor *out);
void gd__predictor_close(gd_predictor *p);

/* Probabilities, or numbers in their own units, of the rows [at, end).  New, f64, on the CPU. */
gd_tensor *gd__predictor_rows(gd_predictor *p, int64_t at, int64_t end);
/* All rows and their targets for gd__measure.  New. */
GD_NODISCARD gd_status gd__predictor_measured(gd_predictor *p, gd_tensor **x, gd_tensor **y);
/* The scores of the model on its rows; of classes *report has them one by one (gd__report_close). */
GD_NODISCARD gd_status gd__predictor_score(gd_predictor *p, gd_metrics *out, gd_report *report);

#endif
