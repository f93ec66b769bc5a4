/* Classes of rows that are read in blocks. */
#ifndef GD_TABLE_LABELS_H
#define GD_TABLE_LABELS_H

#include "table/frame.h"

typedef struct gd_class_names {
    gd_ctx *ctx;
    gd_map seen; /* interned names */
    gd_words names;
} gd_class_names;

/* Adds those of a column of words or numbers.  OVERFLOW: too many. */
GD_NODISCARD gd_status gd__labels_add(gd_class_names *labels, const gd_frame_column *column, int64_t rows);
/* Moves them out, sorted: numbers by their value. */
GD_NODISCARD gd_status gd__labels_take(gd_class_names *labels, bool numeric, gd_words *out);
void gd__labels_close(gd_class_names *labels);
/* The class of each row.  FORMAT: an unknown class. */
GD_NODISCARD gd_status gd__labels_number(gd_ctx *ctx, const char *source, const gd_frame_column *column,
                                         int64_t rows, bool numeric, const gd_words *classes, int64_t *out);

#endif
