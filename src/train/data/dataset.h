/* Data sets: rows of numbers with a target, a class or numbers.
 *
 *   table     a CSV file: columns are features, one is the target
 *   arrays    an npy, IDX or safetensors file with one row per entry of the first axis; the target is a file too */
#ifndef GD_TRAIN_DATASET_H
#define GD_TRAIN_DATASET_H

#include "table/frame.h"
#include "gradus/train.h"

typedef struct gd_columns gd_columns; /* columns.h */

/* What to read. */
typedef struct gd_data_request {
    gd_table *table;    /* the columns themselves; borrowed; NULL: the file */
    const char *path;   /* leads the errors */
    const char *target; /* a column, or for arrays a file; NULL: none */
    gd_task task;       /* AUTO: classes for text, few whole numbers and whole-number types, else numbers */
    const gd_words *features; /* columns; none: all but the target, those ignored, and ids */
    const gd_words *ignored;
    const gd_words *text;      /* columns that are words, whatever they look like; NULL: none */
    const gd_columns *columns; /* encoding of the features; NULL or empty: to be learnt */
    bool keep_table;           /* its cells are needed afterwards */
    const char *key;           /* a column that orders or groups rows; NULL: none */
    bool key_apart;            /* nothing is learnt from it unless it is among the features */
    const gd_words *classes;   /* none: those found, in order; else others are an error */
    gd_csv_options csv;
    int row_axes; /* a row's shape, for rows of as many numbers; 0: as they are */
    int64_t row[GD_MAX_DIMS];
} gd_data_request;

typedef struct gd_dataset {
    gd_ctx *ctx;
    const char *path, *target;
    gd_frame frame; /* of a table, before encoding */
    gd_csv *csv;    /* the table itself, if it is kept */
    gd_frame key;   /* the one requested column */
    gd_words ids;   /* columns left out because they only number the rows */
    gd_tensor *x;   /* [rows, row...], in the file's dtype (f64 for a table, from gd__dataset_encode on) */
    gd_tensor *y;   /* classes: i64 [rows]; numbers: f64 [rows, outputs]; NULL without a target */
    gd_task task;   /* AUTO without a target */
    bool numeric;   /* the target as numbers, even for classes */
    bool guessed;   /* the task was found from few whole numbers */
    gd_words features, classes;
    int64_t rows;
    int row_axes; /* as requested */
    int64_t row[GD_MAX_DIMS];
} gd_dataset;

/* Reads it.  Errors name file, line and column.  gd__dataset_close also after a failure. */
GD_NODISCARD gd_status gd__dataset_open(gd_ctx *ctx, const gd_data_request *request, gd_dataset *out);
void gd__dataset_close(gd_dataset *data);
/* The same from a table's text. */
GD_NODISCARD gd_status gd__dataset_open_text(gd_ctx *ctx, const gd_data_request *request, const char *text,
                                             size_t size, gd_dataset *out);
/* Reads the target for so many rows of an array, without the rows. */
GD_NODISCARD gd_status gd__dataset_open_target(gd_ctx *ctx, const gd_data_request *request, int64_t rows,
                                               gd_dataset *out);
/* Reshapes rows of an array as requested. */
GD_NODISCARD gd_status gd__dataset_shape(gd_dataset *data);
GD_NODISCARD gd_status gd__dataset_check_finite(gd_ctx *ctx, const char *path, gd_tensor *t);
/* Makes x of a table, which has none before: columns are learnt from some rows (NULL: all) if there are none, and x has the
 * requested shape.  Again: a new x. */
GD_NODISCARD gd_status gd__dataset_encode(gd_dataset *data, gd_columns *columns, const int64_t *rows,
                                          int64_t count);
/* A fingerprint of the data. */
GD_NODISCARD gd_status gd__dataset_sum(const gd_dataset *data, uint64_t *sum);
/* Is it a table, by its name? */
bool gd__dataset_is_table(const char *path);

/* ---- standardising: (x - mean) / scale ---- */

typedef enum gd_standardise { GD_SCALE_NONE, GD_SCALE_EACH, GD_SCALE_ALL } gd_standardise;

typedef struct gd_scaling {
    gd_tensor *mean, *scale; /* f64, of a row's shape or one number; NULL: nothing is changed */
} gd_scaling;

/* Mean and standard deviation of each number of a row, or of all together; a deviation of 0 counts as 1. */
GD_NODISCARD gd_status gd__scaling_measure(gd_tensor *x, gd_standardise how, gd_scaling *out);
/* For counts, whose log rate is predicted: the log of their mean, and a deviation of 1. */
GD_NODISCARD gd_status gd__scaling_of_rates(gd_tensor *y, gd_scaling *out);
void gd__scaling_close(gd_scaling *scaling);
/* Standardised and cast; in f64 on the way unless the values are of few bits.  New. */
gd_tensor *gd__scaling_apply(const gd_scaling *scaling, gd_tensor *x, gd_dtype dtype);
/* The way back, as f64.  New. */
gd_tensor *gd__scaling_undo(const gd_scaling *scaling, gd_tensor *x);

#endif
