/* gradus/train.h: models trained on tables, and what they predict.
 *
 *     gd_table *flowers = gd_table_load(ctx, "flowers.csv", NULL);
 *     gd_train_spec spec = gd_train_defaults();
 *     spec.target = "kind";
 *     gd_model *model = gd_train(ctx, flowers, &spec);
 *     gd_tensor *p = gd_model_predict(model, flowers);        f64 [rows, classes]: probabilities
 *     if (gd_error(ctx)) puts(gd_error_text(ctx));
 *     gd_release(p);
 *     if (gd_model_save(model, "flowers.safetensors")) puts(gd_error_text(ctx));    for gd_model_load, and for gradus predict
 *     gd_model_free(model);
 *     gd_table_free(flowers);
 *
 * A model includes the preprocessing of its columns: their names, the words of each, the value for missing cells, the scaling of
 * numbers.  The same seed, data and microbatch give the same bits for any number of threads and processes. */
#ifndef GRADUS_TRAIN_H
#define GRADUS_TRAIN_H

#include "gradus/optim.h"
#include "gradus/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of prediction. */
typedef enum gd_task {
    GD_TASK_AUTO,     /* classes for words and for few whole numbers, else numbers */
    GD_TASK_CLASSIFY, /* classes */
    GD_TASK_REGRESS   /* numbers */
} gd_task;

/* Measures of a model on some rows.  NaN: not for this task, or not measured. */
typedef struct gd_metrics {
    double loss;          /* the loss that training minimises */
    double accuracy;      /* of classes: fraction of the rows whose most probable class is correct */
    double f1;            /* of classes: mean over them of the harmonic mean of precision and recall */
    double auc;           /* of classes: mean over them of the area under the ROC curve */
    double rmse, mae, r2; /* of numbers, in their own units */
    double below;         /* of the loss quantile: fraction of the numbers not above the prediction */
} gd_metrics;

/* A completed epoch. */
typedef struct gd_train_epoch {
    int64_t epoch, step;          /* from 1 */
    double loss;                  /* mean over the epoch's rows */
    const gd_metrics *validation; /* NULL: no validation rows; f1 and auc only if stop_on names one of them */
} gd_train_epoch;

/* The arguments of a training.  Errors name them as `.stop_on`.  An unset member (NULL,
 * -1, NaN) has the value of `resume`, or else the default in parentheses.  Texts and lists are borrowed for the call; lists end with NULL. */
typedef struct gd_train_spec {
    /* the data */
    const char *path;            /* if no table is given: a CSV file, or rows as npy, IDX or safetensors */
    const char *target;          /* the column to predict; for arrays a file with as many rows */
    const char *const *features; /* input columns (all except the target and row numbers) */
    const char *const *ignore;   /* columns to ignore (none) */
    const char *const *text;     /* columns of numbers that are categories (none) */
    int row_axes;                /* number of sizes in `row`; 0: rows as in the data */
    int64_t row[GD_MAX_DIMS];    /* shape of a row for conv: 3, 32, 32 */
    bool stream; /* read the file in blocks (only if it needs a sixteenth of the memory or more) */
    /* the model */
    const char *task;  /* auto, class or regress (auto) */
    const char *model; /* linear, mlp(64, 64, activation=tanh) or conv(16, 32, dense=[64]) (mlp(100)) */
    const char *loss;  /* cross_entropy; squares, absolute, huber:D, quantile:Q, poisson (by the task) */
    const char *class_weights; /* balanced, or CLASS=WEIGHT,... (equal weights) */
    const char *standardise;   /* auto, none, each or all: to mean 0 and deviation 1 (auto) */
    const char *dtype;         /* f32 or f64 (f32) */
    const char *device;        /* cpu, gpu, gpu:1 (cpu) */
    /* the training */
    const char *chain;            /* the optimizer (adam | lr(0.003) | ema_weights(0.99)) */
    const char *const *groups;    /* "GLOB: KEY=VALUE, ..." (none) */
    const char *const *schedules; /* "KEY=SCHEDULE" or "GLOB: KEY=SCHEDULE" (none) */
    int64_t
        epochs; /* passes over the data (100; 20 to 100 for more than 20,000 rows; with `time` unlimited) */
    int64_t batch; /* rows per step; 0: all (32) */
    int64_t
        patience; /* epochs without a better stop_on until it stops; 0: never (20; 0 with epochs or time) */
    const char *stop_on; /* loss, accuracy, f1, auc, rmse, mae or r2 of the validation (loss) */
    double time;         /* seconds (unlimited) */
    int64_t seed;        /* of initial values, order, split and dropout (0) */
    int64_t seeds;       /* number of seeds; the predictions of their models are averaged (1) */
    /* validation rows */
    double validation; /* their fraction (0.1) */
    const char *split; /* random, ordered, ordered:COLUMN or group:COLUMN (random) */
    /* files */
    const char *out;   /* the model and the state to resume from, written also if the training fails (none) */
    double save_every; /* seconds between two saves of `out` (60) */
    const char *resume; /* such a file to continue, with the same bits as without the stop (none) */
    const char *trace;  /* one JSON object per epoch (none) */
    const char *events; /* a folder: event files for TensorBoard (none) */
    /* several processes */
    gd_world *world; /* ranks that share every batch; NULL: none; borrowed */
    int64_t
        microbatch; /* rows evaluated at a time; 0: the whole batch (0; with a world an eighth of the batch) */
    gd_shard shard;   /* of the optimizer's state */
    gd_reduce reduce; /* sums over ranks */
    /* callbacks */
    const gd_observer *observer; /* progress per step, interruption; NULL: none */
    /* Called after each epoch; a failure ends the training with that status.  NULL: none. */
    gd_status (*epoch_done)(void *user, const gd_train_epoch *epoch);
    void *user;
} gd_train_spec;

/* A spec with no member set. */
gd_train_spec gd_train_defaults(void);

/* A trained model: network, learnt columns, scaling.  It belongs to its context and is not counted: gd_model_free. */
typedef struct gd_model gd_model;

/* ---- training ---- */

/* Trains a model; the model is that of the epoch with the best validation.  table NULL: the file
 * spec->path.  New: gd_model_free.  NULL with an error recorded: ARGUMENT and PARSE for the spec, FORMAT for cells that
 * cannot be read, VALUE: the loss is not finite; INTERRUPTED by the observer (`out` is written). */
gd_model *gd_train(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec);
/* Cross-validation: trains `folds` models, each without one fold of the rows, and measures it on that fold.  each[0..folds) gets all
 * measures, mean and deviation (with n - 1) their statistics; each pointer may be NULL.  ARGUMENT: the spec has files or several seeds. */
GD_NODISCARD gd_status gd_train_folds(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec, int64_t folds,
                                      gd_metrics *each, gd_metrics *mean, gd_metrics *deviation);

#define GD_RATES 100 /* steps of a search for a learning rate */

/* A search for a learning rate (Smith 2017). */
typedef struct gd_rates {
    int count;
    double rate[GD_RATES], loss[GD_RATES]; /* the loss is smoothed */
    double best;                           /* the rate with the steepest fall of the loss */
    double lowest;                         /* the rate with the lowest loss */
} gd_rates;

/* Takes steps with a learning rate that grows from 1e-6 to 10 until the loss is four times its lowest.  The model is discarded.  VALUE:
 * the loss falls at no rate; ATTRIBUTE: the chain has no setting lr. */
GD_NODISCARD gd_status gd_train_find_rate(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec,
                                          gd_rates *out);

/* ---- models ---- */

/* The result of a training.  A loaded model has only epochs, best_epoch and parameters. */
typedef struct gd_train_result {
    gd_metrics training, validation; /* on training and validation rows */
    int64_t rows, validation_rows;
    int64_t epochs, best_epoch, steps, evals;
    int64_t parameters; /* numbers in one network */
    double seconds;
    const char *stopped; /* "epochs", "no better for some epochs", "time is up", ...; "" if unknown */
} gd_train_result;

/* Reads a model written by gd_model_save, `out` or `gradus train`.  New: gd_model_free.  NULL with IO, or FORMAT: it is no model. */
gd_model *gd_model_load(gd_ctx *ctx, const char *path);
/* Writes the model, without the state of its optimizer: gd_train_spec.out includes it.  IO: an existing file stays. */
GD_NODISCARD gd_status gd_model_save(gd_model *model, const char *path);
void gd_model_free(gd_model *model); /* NULL is fine */

/* Borrowed; NULL if model is. */
const gd_train_result *gd_model_result(const gd_model *model);
/* GD_TASK_AUTO if model is NULL. */
gd_task gd_model_task(const gd_model *model);
/* The target column, the network as text ("mlp(64)"), and the chain it was trained with.  Borrowed; NULL if model is. */
const char *gd_model_target(const gd_model *model);
const char *gd_model_text(const gd_model *model);
const char *gd_model_chain(const gd_model *model);
/* Classes in the order of the probabilities: how many (0: numbers are predicted), and the name of each.  Borrowed; NULL if there is
 * none. */
int gd_model_classes(const gd_model *model);
const char *gd_model_class(const gd_model *model, int index);
/* The input columns, in the model's order: how many (0: rows of arrays), and the name of each.  Borrowed; NULL if there is
 * none. */
int gd_model_features(const gd_model *model);
const char *gd_model_feature(const gd_model *model, int index);
/* The network: parameters dense0.weight, ..., out.bias.  Borrowed; NULL if model is.  Its rows are standardised. */
gd_module *gd_model_module(const gd_model *model);

/* ---- predicting ---- */

/* The probabilities of the classes, f64 [rows, classes], or the numbers in their own units, f64 [rows, outputs].  The table needs
 * the model's columns, in any order, and may have more.  New.  FORMAT, ARGUMENT: a column is missing or of a different kind. */
gd_tensor *gd_model_predict(gd_model *model, gd_table *table);
/* The same for rows [n, ...] of numbers: rows of arrays, or all columns of a table of numbers in the model's order.  New.  SHAPE. */
gd_tensor *gd_model_predict_rows(gd_model *model, gd_tensor *rows);
/* Measures the model on rows with known targets.  target: their column; NULL: that of the training. */
GD_NODISCARD gd_status gd_model_score(gd_model *model, gd_table *table, const char *target, gd_metrics *out);

/* The loss of a measure when a column is shuffled among the rows (Breiman 2001), over five shuffles. */
typedef struct gd_importance {
    int feature; /* gd_model_feature */
    double mean, deviation;
} gd_importance;

/* The importance of each column on rows with known targets, the most important first: out has gd_model_features(model)
 * elements.  measure: a member of gd_metrics; NULL: accuracy or r2.  target: as gd_model_score. */
GD_NODISCARD gd_status gd_model_importance(gd_model *model, gd_table *table, const char *target,
                                           const char *measure, gd_importance *out);

#ifdef __cplusplus
}
#endif
#endif
