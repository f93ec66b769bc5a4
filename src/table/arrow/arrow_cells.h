/* The cells of one column of one record batch. */
#ifndef GD_TABLE_ARROW_CELLS_H
#define GD_TABLE_ARROW_CELLS_H

#include "table/arrow/arrow.h"
#include "table/frame.h"

/* A parsed format. */
typedef struct gd_arrow_type {
    char
        kind; /* n: nothing but missing cells; b: bits; i u f: whole and other numbers; s: texts; v: views of texts */
    int bytes; /* of a number, or of an offset of texts */
    gd_cells cells;
    bool day, clock; /* of dates */
    double unit;     /* seconds of a date's number */
} gd_arrow_type;

/* False: not supported. */
bool gd__arrow_type(const char *format, gd_arrow_type *out);

/* A column of a batch: rows from `first` on.  Checks everything except the sizes of buffers, which are unknown. */
typedef struct gd_arrow_cells {
    gd_arrow_type type;
    const unsigned char *valid; /* bits; NULL: all are */
    const unsigned char *data, *text;
    const void *const *views; /* buffers of views */
    const int64_t *view_bytes;
    int64_t view_count;
    int64_t first, rows;
} gd_arrow_cells;

/* Returns what is wrong, or NULL.  offset: of the batch. */
const char *gd__arrow_cells(const gd_arrow_array *array, const gd_arrow_type *type, int64_t offset,
                            int64_t rows, gd_arrow_cells *out);
bool gd__arrow_valid(const gd_arrow_cells *cells, int64_t row);
/* Numbers and dates; NAN where it is missing. */
double gd__arrow_number(const gd_arrow_cells *cells, int64_t row);
/* A whole number, for indices of a dictionary. */
int64_t gd__arrow_whole(const gd_arrow_cells *cells, int64_t row);
/* The bytes of a text; NULL: not in the buffers. */
const char *gd__arrow_text(const gd_arrow_cells *cells, int64_t row, size_t *size);

#endif
