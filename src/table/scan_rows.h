/* Reads rows of a table directly into columns, without memory for every cell: for tables that are read again and again.
 *
 * Text as csv.h describes it, with known names of columns.  A number of up to 19 digits is the quotient or product of
 * whole numbers, rounded once (base/text/number.h); other numbers are read by the general function. The context's threads divide the text, unless
 * it has quotes; values and errors are those of one thread. */
#ifndef GD_TABLE_SCAN_ROWS_H
#define GD_TABLE_SCAN_ROWS_H

#include "table/frame.h"

typedef struct gd_table_layout {
    const char *source;
    char separator, decimal;
    int columns;             /* of a row */
    const char *const *name; /* theirs */
    const gd_words *missing; /* more texts for missing cells; NULL: none */
} gd_table_layout;

/* Reads the rows of text[0..size), which a NUL follows: `wanted[i]` of `count` columns, of that kind (never FOUND), in any order, none twice.
 * first_line is that of the text, for errors.  gd__frame_close also after a failure.  FORMAT: the first cell or row that is wrong. */
GD_NODISCARD gd_status gd__scan_rows(gd_ctx *ctx, const gd_table_layout *layout, const char *text,
                                     size_t size, int64_t first_line, const int *wanted, const gd_cells *kind,
                                     int count, gd_frame *out);

/* ---- whole tables (whole_text.c) ---- */

/* All columns of numbers: column[i]->value (column[i] NULL: not wanted) gets those of the rows from 0 on, and column[i]
 * becomes NULL if a cell is neither a number nor missing.  There is room for gd__scan_lines rows.  Also the starts of rows in the text,
 * and their lines. *rows: -1, and no error: a row is wrong, and the slower reader reports it.  NOMEM. */
GD_NODISCARD gd_status gd__scan_numbers(gd_ctx *ctx, const gd_table_layout *layout, const char *text,
                                        size_t size, int64_t first_line, gd_frame_column **column,
                                        size_t *row_at, int64_t *row_line, int64_t *rows);
int64_t gd__scan_lines(const char *text, size_t size);
/* Cells of rows that gd__scan_numbers has read: slot[i] is the number k of a column among those wanted, or -1; place[2 (k rows + row)]
 * is the start of its cell, followed by its length in bytes, with its quotes. */
void gd__scan_find(gd_ctx *ctx, const gd_table_layout *layout, const char *text, size_t size,
                   const size_t *row_at, int64_t rows, const int *slot, size_t *place);
/* The same for one cell of the row that begins at text[row_at]. */
void gd__scan_find_one(const gd_table_layout *layout, const char *text, size_t size, size_t row_at,
                       int column, size_t place[2]);
/* The text of a cell without its quotes and with a NUL: at most length + 1 bytes. */
void gd__scan_copy(const char *cell, size_t length, char *out);

/* The length of the complete rows in text[0..size), each with its line end: 0 if the first row is incomplete.  *lines: their number. */
size_t gd__scan_whole_rows(const gd_table_layout *layout, const char *text, size_t size, int64_t *lines);

#endif
