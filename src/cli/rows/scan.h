/* Rows of a table straight to columns, without a place in memory for every cell: for tables that are read again and again.
 *
 * Text as csv.h describes it, of which the names of the columns are known.  What has quotes goes through gd_csv, the rest at the
 * speed of its bytes: a number of up to 19 digits is one multiplication by a power of ten, correctly rounded (Clinger 1990); other
 * numbers are read as everywhere. */
#ifndef GD_CLI_ROWS_SCAN_H
#define GD_CLI_ROWS_SCAN_H

#include "cli/rows/frame.h"

typedef struct gd_table_layout {
    const char *source;
    char separator, decimal;
    int columns;             /* of a row */
    const char *const *name; /* theirs */
} gd_table_layout;

/* Reads the rows of text[0..size), which a NUL follows: `wanted[i]` of `count` columns, of that kind (never FOUND), in any order.  first_line is that
 * of the text, for errors.  gd__frame_close also after a failure.  FORMAT: as everywhere. */
GD_NODISCARD gd_status gd__scan_rows(gd_ctx *ctx, const gd_table_layout *layout, const char *text,
                                     size_t size, int64_t first_line, const int *wanted, const gd_cells *kind,
                                     int count, gd_frame *out);

#endif
