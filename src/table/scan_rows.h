/* Rows of a table straight to columns, without a place in memory for every cell: for tables that are read again and again.
 *
 * Text as csv.h describes it, of which the names of the columns are known.  A number of up to 19 digits is the quotient or product of
 * whole numbers, rounded once (base/text/number.h); other numbers are read as everywhere.  The context's threads share the text, unless it
 * has quotes; values and errors are those of one. */
#ifndef GD_TABLE_SCAN_ROWS_H
#define GD_TABLE_SCAN_ROWS_H

#include "table/frame.h"

typedef struct gd_table_layout {
    const char *source;
    char separator, decimal;
    int columns;             /* of a row */
    const char *const *name; /* theirs */
    const gd_words *missing; /* what else stands for a missing cell; NULL: nothing */
} gd_table_layout;

/* Reads the rows of text[0..size), which a NUL follows: `wanted[i]` of `count` columns, of that kind (never FOUND), in any order, none twice.  first_line is
 * that of the text, for errors.  gd__frame_close also after a failure.  FORMAT: the first cell or row that is wrong. */
GD_NODISCARD gd_status gd__scan_rows(gd_ctx *ctx, const gd_table_layout *layout, const char *text,
                                     size_t size, int64_t first_line, const int *wanted, const gd_cells *kind,
                                     int count, gd_frame *out);

/* How much of text[0..size) is whole rows, each with its line end: 0 where the first one goes on.  *lines: theirs. */
size_t gd__scan_whole_rows(const gd_table_layout *layout, const char *text, size_t size, int64_t *lines);

#endif
