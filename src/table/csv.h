/* Tables of text: CSV files.
 *
 *   gd_csv *csv = gd__csv_load(ctx, "data.csv", NULL);
 *   int y = gd__csv_column(csv, "y");                      error: "data.csv: no column 'y', the columns are a, b, c"
 *   gd__csv_numbers(csv, y, false, values);                error: "data.csv: line 7, column 'x': 'abc' is not a number"
 *   gd__csv_free(csv);
 *
 * Quotes as in RFC 4180 ("a ""b""", separators and line ends inside); separator , ; or tab, found from the first line, or
 * blanks, if the first two lines have as many words and none of the others, or none for fixed-width columns with empty cells (widths.h); line
 * ends LF or CRLF; text is UTF-8, or converted to it (encoding.h); a mark at the start is skipped, and so are empty lines and, before the first
 * row, lines that begin with #.  Spaces around cells without quotes are dropped.  The first line has the names of the columns; a column
 * without a name there is called by its position, c1 for the first; every row has as many cells.  Memory: the file, 8 bytes per cell, 16 per
 * row; cells of columns that are not numbers, or are requested as text, need memory for their text again. */
#ifndef GD_TABLE_CSV_H
#define GD_TABLE_CSV_H

#include "file/input.h"
#include "table/encoding.h"
#include "gradus/table.h"
#include "table/words.h"

typedef gd_table gd_csv; /* every table is one */

#define GD_CSV_WIDTHS GD_TABLE_WIDTHS

typedef struct gd_csv_options {
    char
        separator; /* 0: detected from the lines; ' ': any number of blanks; GD_CSV_WIDTHS: none, fixed-width columns */
    char decimal;   /* ',': decimals are written 1,5; 0: with a point */
    bool no_header; /* the columns are called c1, c2, ... */
    gd_encoding encoding;
    const char *const *missing; /* more texts for missing cells; NULL: none */
    int missing_count;
    const char *const *words; /* names of columns that are words; NULL: none */
    int words_count;
    bool one_by_one; /* every cell by the slow reader, for tests; what is accepted is the same */
    size_t slab;     /* bytes between two calls of the observer, for tests; 0: default */
    gd_input input;  /* of files; its observer also gets the progress of parsing */
} gd_csv_options;

/* Reads bytes; `source` leads the errors.  options NULL: defaults.  New; NULL with FORMAT recorded: ragged rows, an open
 * quote, bytes that are not text or not of the encoding, no line at all. */
gd_csv *gd__csv_parse(gd_ctx *ctx, const char *source, const void *data, size_t size,
                      const gd_csv_options *options);
/* Reads a file, gzip or not. */
gd_csv *gd__csv_load(gd_ctx *ctx, const char *path, const gd_csv_options *options);
gd_csv *gd__csv_retain(gd_csv *csv); /* one more reference, for gd__csv_free */
void gd__csv_free(gd_csv *csv);      /* NULL is fine */

int64_t gd__csv_rows(const gd_csv *csv);
int gd__csv_columns(const gd_csv *csv);
const char *gd__csv_name(const gd_csv *csv, int column); /* borrowed */
const char *gd__csv_source(const gd_csv *csv);           /* borrowed */
/* The name without its unit: S of "S [mM]", unless a second column is S too; gd__csv_find accepts both.  Borrowed. */
const char *gd__csv_word(const gd_csv *csv, int column);
/* The file that a row is from; borrowed. */
const char *gd__csv_source_of(const gd_csv *csv, int64_t row);
/* The k-th of several files; NULL: there are no more, or there is only one.  Borrowed. */
const char *gd__csv_part(const gd_csv *csv, int k);
bool gd__csv_is_text(const gd_csv *csv); /* or a part of it */
/* ARGUMENT: two columns have the same name. */
GD_NODISCARD gd_status gd__csv_check_names(const gd_csv *csv);
/* The column of a name; -1 with ARGUMENT recorded when there is none or there are two. */
int gd__csv_column(const gd_csv *csv, const char *name);
/* The same without an error: -1. */
int gd__csv_find(const gd_csv *csv, const char *name);

/* The kind of a column, given or found on reading; FOUND: neither. */
gd_cells gd__csv_told(const gd_csv *csv, int column);

/* One cell of text or words, borrowed; "" where it is empty, or a number or a date in memory. */
const char *gd__csv_cell(const gd_csv *csv, int64_t row, int column);
#define GD_CELL_SIZE 40 /* of numbers and dates as text */
/* Any cell as text: borrowed, or in `out`.  "" where it is empty. */
const char *gd__csv_text(const gd_csv *csv, int64_t row, int column, char out[GD_CELL_SIZE]);
/* The line of its file on which a row begins, counted from 1; the row where files have no lines. */
int64_t gd__csv_line(const gd_csv *csv, int64_t row);

/* The column as numbers in out[0..rows).  Empty cells, NA and NaN become NaN with `missing`, and are errors (FORMAT, with the
 * line) without; infinities are errors like them. */
GD_NODISCARD gd_status gd__csv_numbers(const gd_csv *csv, int column, bool missing, double *out);
/* One cell of a table of text: 1: a number; 0: missing (NaN); -1: neither. */
int gd__csv_number(const gd_csv *csv, int64_t row, int column, double *value);
/* One cell of columns that are not text but numbers; false: it is text. */
bool gd__csv_ready_number(const gd_csv *csv, int64_t row, int column, double *value);
/* Is a cell missing: empty, NA, NaN, null? */
bool gd__csv_is_missing(const char *cell);
/* The same with more texts for missing cells; NULL: none. */
bool gd__is_missing(const gd_words *own, const char *cell);
/* Columns (NULL: the first `count`) as an f64 matrix [rows, count].  New. */
gd_tensor *gd__csv_tensor(const gd_csv *csv, const int *columns, int count);

#endif
