/* Columns of a table that are written with results about its rows: their keys (--keep). */
#ifndef GD_CLI_KEEP_H
#define GD_CLI_KEEP_H

#include "cli/cli.h"
#include "table/csv.h"

#define GD_KEEP_OPTION             \
    GD_REPEATED("keep", "COLUMNS", \
                "of DATA, joined by commas: copied in front of the predictions; with --json as \"kept\"")

typedef struct gd_kept_columns {
    gd_ctx *ctx;
    const gd_csv *csv; /* borrowed */
    int *column;
    int count;
} gd_kept_columns;

/* The columns of --keep, none without it.  ARGUMENT: the table has no such column, or `taken` is one of them.  gd__keep_close
 * also after a failure. */
GD_NODISCARD gd_status gd__keep_open(const gd_args *args, const gd_csv *csv, const char *taken,
                                     gd_kept_columns *out);
void gd__keep_close(gd_kept_columns *kept);

/* Cells of CSV, each followed by a comma: the names, a row. */
void gd__keep_names(gd_text *out, const gd_kept_columns *kept);
void gd__keep_row(gd_text *out, const gd_kept_columns *kept, int64_t row);
/* The member "kept" of a JSON object: a list for each column; nothing without columns. */
void gd__keep_json(gd_text *out, const gd_kept_columns *kept);

#endif
