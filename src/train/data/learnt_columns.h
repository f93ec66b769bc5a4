/* Encoding of the columns of a table as rows of numbers, learnt from some rows and applied to all:
 *
 *   numbers    themselves
 *   words      one number each: 1 for the word of the row, 0 for the others; a word that was not learnt is all 0.  More than
 *              GD_ONE_HOT words: a code, for which the model learns a few numbers (an embedding); 0: a word seen less than twice
 *   dates      days since 1970, sine and cosine of the fraction of the year and of the week, with a time also of the day; times
 *              alone: the fraction of the day, its sine and cosine
 *
 * Missing cells become the median of the training rows (for words: no word, for cycles 0); if training rows had missing cells there
 * is an indicator: 1 for missing.  A row has all numbers in the order of the columns, then the codes. */
#ifndef GD_TRAIN_LEARNT_COLUMNS_H
#define GD_TRAIN_LEARNT_COLUMNS_H

#include "train/data/dataset.h"
#include "table/frame.h"

#define GD_ONE_HOT 50

typedef enum gd_column_kind {
    GD_COLUMN_NUMBER,
    GD_COLUMN_WORDS,
    GD_COLUMN_CODE,
    GD_COLUMN_DATE,
    GD_COLUMN_KINDS
} gd_column_kind;

typedef struct gd_column {
    gd_column_kind kind;
    bool missing;    /* has an indicator */
    bool day, clock; /* of dates */
    double median;
    gd_words words;
    int64_t size;      /* numbers that the model learns for a code */
    int64_t at, width; /* numbers of a row; of a code width is that of the number for missing */
} gd_column;

typedef struct gd_columns {
    gd_ctx *ctx;
    gd_column *column;
    int count;
    int64_t numbers, codes; /* of a row */
} gd_columns;

/* Learns them from rows of a frame (NULL: all).  FORMAT: a column without information.  gd__columns_close also after a failure. */
GD_NODISCARD gd_status gd__columns_learn(gd_ctx *ctx, const gd_frame *frame, const int64_t *rows,
                                         int64_t count, gd_columns *out);
void gd__columns_close(gd_columns *columns);
/* Columns of numbers without medians: missing cells are errors. */
GD_NODISCARD gd_status gd__columns_numbers(gd_ctx *ctx, int count, gd_columns *out);
/* The frame as numbers, f64 [rows, numbers + codes].  Its columns are those learnt, in their order.  New. */
gd_tensor *gd__columns_apply(const gd_columns *columns, const gd_frame *frame);
/* The required kind of a column's cells. */
gd_cells gd__column_cells(const gd_column *column);
/* Mean and deviation of quantities; words, cycles, indicators and codes stay as they are. */
GD_NODISCARD gd_status gd__columns_scaling(const gd_columns *columns, gd_tensor *x, gd_standardise how,
                                           gd_scaling *out);
/* The k-th column with a code; borrowed. */
const gd_column *gd__columns_code(const gd_columns *columns, int64_t k);

/* ": 3 words", ": day, year and week, 5 holes" for people. */
void gd__column_describe(gd_text *out, const gd_column *column);

/* As a JSON list and back; FORMAT for something else. */
void gd__columns_print(gd_text *out, const gd_columns *columns);
GD_NODISCARD gd_status gd__columns_read(gd_ctx *ctx, const json_t *list, gd_columns *out);

#endif
