/* The inside of a table: text, or columns of numbers, or several tables one after the other. */
#ifndef GD_TABLE_CSV_INSIDE_H
#define GD_TABLE_CSV_INSIDE_H

#include "table/csv.h"
#include "table/words.h"

struct gd_csv {
    gd_ctx *ctx;
    char *source;
    char *data; /* the cells, with one NUL more than there were bytes */
    size_t block;
    size_t *cell; /* offsets into data, row after row */
    size_t cells, cell_bytes;
    int64_t *line; /* of each row; NULL: rows have no lines */
    size_t lines, line_bytes;
    const char **name; /* of the columns; interned or in data */
    const char **word; /* the same without units: S of "S [mM]"; behind the names */
    size_t name_bytes;
    gd_name_index index; /* of the names */
    int columns;
    int unnamed; /* columns without a name in the file: c1 for the first */
    char separator, decimal;
    gd_tensor **number; /* of each column, f64 [rows]; owned; NULL: text */
    gd_csv **part;      /* tables that this one is made of; owned */
    int parts;
    int *place; /* [parts, columns]: of a column in a part; -1: the number of the part */
};

/* A cell by the table's decimals: 1: a number; 0: missing; -1: neither. */
int gd__csv_text_number(const gd_csv *csv, const char *cell, double *value);
/* Names are in csv->name: makes words and index of them. */
GD_NODISCARD gd_status gd__csv_index_names(gd_csv *csv);

#endif
