/* What is to be trained on what: the settings of a training, before they are a recipe. */
#ifndef GD_TRAIN_SPEC_H
#define GD_TRAIN_SPEC_H

#include "gradus/optim.h"

/* Members are called as the options of `gradus train`, and errors name them so.  What is not set (NULL, -1, NaN) is that of `resume`,
 * or the default behind it.  Texts and lists are borrowed; lists end with NULL. */
typedef struct gd_train_spec {
    /* the data */
    const char *path;   /* a file: a table, or rows as npy, IDX or safetensors */
    const char *target; /* the column to predict; of arrays a file with as many rows */
    const char *const
        *features; /* columns to learn from (all but the target and those that only number the rows) */
    const char *const *ignore; /* columns not to learn from */
    const char *const *text;   /* columns that are words, whatever they look like */
    int row_axes;              /* of `row`: 0: rows are as they are */
    int64_t row[GD_MAX_DIMS];  /* the shape of a row, as 3, 32, 32 */
    bool stream;               /* read the file in blocks, also if it fits into memory */
    /* the model */
    const char *task;  /* auto, class or regress (auto) */
    const char *model; /* linear, mlp(64, 64), conv(16, 32, dense=[64]) (mlp(100)) */
    const char *loss;  /* cross_entropy, squares, absolute, huber:D, quantile:Q, poisson (by the task) */
    const char *class_weights; /* balanced, or CLASS=WEIGHT,... (all rows alike) */
    const char *standardise;   /* auto, none, each or all (auto) */
    const char *dtype;         /* f32 or f64 (f32) */
    const char *device;        /* cpu, gpu, gpu:1 (cpu) */
    /* the training */
    const char *chain;            /* (adam | lr(0.003) | ema_weights(0.99)) */
    const char *const *groups;    /* "GLOB: KEY=VALUE" */
    const char *const *schedules; /* "KEY=SCHEDULE", "GLOB: KEY=SCHEDULE" */
    int64_t epochs;               /* (by the number of rows, 20 to 100) */
    int64_t batch;                /* rows of a step; 0: all (32) */
    int64_t
        patience; /* stop if stop_on has not improved for so many epochs; 0: never (20, or 0 with epochs) */
    const char *stop_on; /* loss, accuracy, f1, auc, rmse, mae or r2 (loss) */
    double time;         /* seconds (any) */
    int64_t seed;        /* of initial values, order, split and dropout (0) */
    int64_t seeds;       /* models from seeds of their own, whose answers are averaged (1) */
    /* rows kept apart to judge by */
    double validation; /* their share (0.1) */
    const char *split; /* random, ordered, ordered:COLUMN or group:COLUMN (random) */
    /* files */
    const char *out;    /* the model, with everything that going on needs (none) */
    double save_every;  /* seconds between two saves of `out` (60) */
    const char *resume; /* go on from such a file (none) */
    const char *trace;  /* one JSON object per epoch (none) */
    const char *events; /* a folder for TensorBoard (none) */
    /* several processes */
    gd_world *world; /* that train together; NULL: this one alone */
    int64_t
        microbatch; /* rows of a batch that are evaluated at a time; 0: all (0; an eighth of the batch in a world) */
    gd_shard shard;
    gd_reduce reduce;
    /* who is told */
    const gd_observer *observer; /* progress and interruption; borrowed; NULL: nobody */
} gd_train_spec;

/* Nothing is set. */
gd_train_spec gd__train_defaults(void);

#endif
