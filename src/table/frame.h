/* Raw columns of a table, before encoding: numbers, words or dates, with missing cells.
 *
 * The kind of a column is found from all of its cells: numbers, if each is a number or missing; dates, if each is one (date.h); else
 * words. A column of mostly numbers with some other texts is an error that names the cell, unless it is declared as words. */
#ifndef GD_TABLE_FRAME_H
#define GD_TABLE_FRAME_H

#include "table/csv.h"
#include "table/words.h"
#include "base/text/address_map.h"

typedef struct gd_frame_column {
    const char *name; /* interned */
    gd_cells kind;
    double *value;   /* numbers; indices of words; seconds of dates; NAN: missing */
    gd_tensor *lent; /* owner of the memory of `value`, which is then read-only; NULL: the column */
    gd_words words;
    bool day, clock;         /* of dates: what they have */
    const gd_words *missing; /* more texts for missing cells while it is read; NULL: none */
} gd_frame_column;

typedef struct gd_frame {
    gd_ctx *ctx;
    gd_frame_column *column;
    int count, room;
    int64_t rows, row_room;
} gd_frame;

/* Indices of the words of a column among them. */
typedef struct gd_word_places {
    gd_map table;
} gd_word_places;

/* Reads columns; kind NULL: all are found.  FORMAT names line and column.  gd__frame_close also after a failure. */
GD_NODISCARD gd_status gd__frame_read(gd_ctx *ctx, const gd_csv *csv, const int *columns, int count,
                                      const gd_cells *kind, gd_frame *out);
void gd__frame_close(gd_frame *frame);

/* ---- for other readers (scan_rows.h) ---- */

/* Columns of those kinds with memory for so many rows. */
GD_NODISCARD gd_status gd__frame_new(gd_ctx *ctx, int64_t rows, const gd_cells *kind, int count,
                                     gd_frame *out);
/* A cell of a column of words, of dates: *out is its value in the column.  False: it is not a date, or of a different kind than those
 * before. */
GD_NODISCARD gd_status gd__frame_word(gd_ctx *ctx, gd_word_places *places, gd_frame_column *column,
                                      const char *cell, double *out);
bool gd__frame_date(gd_frame_column *column, const char *cell, double *out);
void gd__frame_places_free(gd_ctx *ctx, gd_word_places *places);

/* Removes a column. */
void gd__frame_drop(gd_frame *frame, int column);
/* Does the column only number the rows: distinct words, or whole numbers that increase or decrease from row to row,
 * but not by equal steps other than one, in at least 20 rows? */
bool gd__frame_is_id(const gd_frame *frame, int column);

#endif
