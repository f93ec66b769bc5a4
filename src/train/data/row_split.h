/* Splits rows into training and validation. The split is a function of the seed, the number of rows and their classes, so that
 * runs with other models, chains or encodings use the same validation rows. */
#ifndef GD_TRAIN_ROW_SPLIT_H
#define GD_TRAIN_ROW_SPLIT_H

#include "base/ctx.h"

typedef struct gd_classes {
    const int64_t *of; /* class of each row; NULL: none, or they do not matter */
    int64_t count;
} gd_classes;

/* order[0..count) becomes a permutation of 0 .. count - 1, a function of seed and stream alone. */
void gd__shuffle(int64_t *order, int64_t count, int64_t seed, int64_t stream);
/* Validation rows come first, *apart of them, about `share` of each class; a class with a single row keeps it for training. */
GD_NODISCARD gd_status gd__split_rows(gd_ctx *ctx, int64_t *order, int64_t count, int64_t seed, double share,
                                      const gd_classes *classes, int64_t *apart);
/* Rows in the order of the file: results do not depend on how the rows were chosen. */
void gd__sort_rows(int64_t *rows, int64_t count);
/* The same for rows in such an order already. */
GD_NODISCARD gd_status gd__split_more(gd_ctx *ctx, int64_t *order, int64_t count, double share,
                                      const gd_classes *classes, int64_t *apart);
/* The rows of fold k of `folds` come first, *apart of them: every row is in one fold, each has about as many of a class. */
GD_NODISCARD gd_status gd__split_fold(gd_ctx *ctx, int64_t *order, int64_t count, int64_t seed, int64_t folds,
                                      int64_t k, const gd_classes *classes, int64_t *apart);

/* ---- which rows are kept for validation (split_by.c) ---- */

typedef enum gd_split_kind {
    GD_SPLIT_RANDOM,  /* any rows, about as many of each class */
    GD_SPLIT_ORDERED, /* the last ones, by a column or in the order of the file */
    GD_SPLIT_GROUP    /* whole groups: rows with the same value of a column stay together */
} gd_split_kind;

typedef struct gd_row_split {
    gd_split_kind kind;
    const char *column; /* in the text; NULL: none */
    const double
        *key; /* of each row: the value that orders or groups them; NULL: their position in the file */
    int64_t seed;
    gd_classes classes; /* of random ones */
} gd_row_split;

/* random, ordered, ordered:COLUMN or group:COLUMN; ARGUMENT for any other text.  The column is borrowed from it. */
GD_NODISCARD gd_status gd__split_parse(gd_ctx *ctx, const char *text, gd_row_split *out);
/* order[0..count) becomes the rows, validation first, *apart of them. */
GD_NODISCARD gd_status gd__split_by(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count,
                                    double share, int64_t *apart);
/* The same for rows that are in such an order already. */
GD_NODISCARD gd_status gd__split_by_more(gd_ctx *ctx, const gd_row_split *split, int64_t *order,
                                         int64_t count, double share, int64_t *apart);
/* Fold k: *apart validation rows first, then *learn training rows.  Ordered ones are cut into one block more than there are
 * folds: a fold validates on one and trains on all before it.  ARGUMENT: there are fewer groups than folds. */
GD_NODISCARD gd_status gd__split_by_fold(gd_ctx *ctx, const gd_row_split *split, int64_t *order,
                                         int64_t count, int64_t folds, int64_t k, int64_t *apart,
                                         int64_t *learn);

#endif
