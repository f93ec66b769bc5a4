/* Internals of a table.  Its cells are one of four things:
 *
 *   text     of a file: `data`, with the place of each cell; or of each row, if the fast reader read it (whole_text.c): then columns of
 *            numbers are stored, and cells as text are located on request
 *   stored   columns of numbers, words and dates in memory
 *   parts    tables one after the other
 *   base     some rows or columns of a table that has text, columns or parts */
#ifndef GD_TABLE_CSV_INSIDE_H
#define GD_TABLE_CSV_INSIDE_H

#include "table/csv.h"
#include "table/words.h"

/* A column in memory. */
typedef struct gd_stored {
    gd_cells kind; /* FOUND: not stored and not known */
    gd_tensor
        *value; /* f64 [rows], contiguous: numbers, places among the words, seconds; owned; NULL: none */
    gd_words words;
    bool day, clock; /* of dates: what they have */
} gd_stored;

/* The cells of a column, each with a NUL. */
typedef struct gd_column_text {
    char *cells; /* NULL: not requested */
    size_t bytes;
    size_t *at; /* [rows] */
} gd_column_text;

struct gd_table {
    gd_ctx *ctx;
    char *source;
    int references;
    char *data; /* the cells, with one NUL more than there were bytes */
    size_t block;
    size_t *cell; /* offsets into data, row after row */
    size_t cells, cell_bytes;
    size_t size;              /* of data, if it is read by rows */
    size_t *row_at;           /* offsets of rows into data; NULL: `cell` has those of the cells */
    gd_column_text *text;     /* of each column, if any was requested */
    int64_t *line;            /* of each row; NULL: rows have no lines */
    size_t lines, line_bytes; /* line_bytes: also those of row_at */
    const char **name;        /* of the columns; interned or in data */
    const char **word;        /* the same without units: S of "S [mM]"; behind the names */
    size_t name_bytes;        /* of both */
    gd_name_index index;      /* of the names */
    int columns;
    int unnamed; /* columns without a name in the file: c1 for the first */
    char separator, decimal;
    gd_words missing; /* more texts for missing cells */
    /* Of each column, owned. A table without text has its cells here; in others these are columns that were read before, or declared as
     * words.  NULL: none. */
    gd_stored *stored;
    size_t stored_bytes;
    bool built;      /* columns may be added */
    gd_table **part; /* tables that this one is made of; owned */
    int parts;
    gd_table *base; /* a reference is held */
    int64_t *pick;  /* rows of base; NULL: all */
    int *place; /* [parts, columns]: of a column in a part; -1: the number of the part.  [columns] of base */
};

/* The table, row and column of a cell, after resolving parts and selections; column -1: the cell is the number `row`. */
typedef struct gd_cell_place {
    const gd_table *table;
    int64_t row;
    int column;
} gd_cell_place;

gd_cell_place gd__csv_place(const gd_table *table, int64_t row, int column);
/* The column in memory: of this table, or of the one that it is selected from, whose rows it has (*pick; NULL: all).  NULL: its cells
 * are text that was not read yet. */
const gd_stored *gd__csv_stored(const gd_table *table, int column, const int64_t **pick);

/* Reads rows from data[at..size) and columns of numbers, if possible: *done. The slower reader reports problems. */
GD_NODISCARD gd_status gd__whole_text_read(gd_table *csv, size_t at, size_t size, int64_t line, bool ascii,
                                           const gd_csv_options *options, bool *done);
/* Finds the cells of a column. */
GD_NODISCARD gd_status gd__whole_text_find(gd_table *csv, int column);
/* One cell of at most size - 1 bytes. */
const char *gd__whole_text_cell(const gd_table *csv, int64_t row, int column, char *out, size_t size);
void gd__whole_text_close(gd_table *csv);

/* A cell by the table's decimals: 1: a number; 0: missing; -1: neither. */
int gd__csv_text_number(const gd_table *csv, const char *cell, double *value);
/* Names are in csv->name: makes words and index of them. */
GD_NODISCARD gd_status gd__csv_index_names(gd_table *csv);
/* The word before a unit: S of "S [mM]", else the name; interned, or the name itself.  NULL: no memory. */
const char *gd__csv_word_of(gd_ctx *ctx, const char *name);
/* The word of one more column, whose name is in csv->name and in the index; its word is interned already. */
void gd__csv_add_word(gd_table *csv, int column);
/* An empty table with room for names. */
gd_table *gd__csv_new(gd_ctx *ctx, const char *source, int columns);
/* Adds a column to a table of gd_table_new: takes a reference on its values, and its words if that succeeds. */
GD_NODISCARD gd_status gd__table_take(gd_table *table, const char *name, gd_stored *stored, int64_t rows);
/* Memory for the stored columns. */
GD_NODISCARD gd_status gd__csv_store(gd_table *csv);

#endif
