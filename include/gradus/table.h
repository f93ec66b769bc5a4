/* gradus/table.h: tables: columns of numbers, words and dates by name, with missing cells.
 *
 *     gd_table *t = gd_table_load(ctx, "decay.csv", NULL);               or .npy, .npz, .safetensors, IDX
 *     gd_tensor *y = gd_table_numbers(t, gd_table_find(t, "y"));         f64; NaN for a missing cell
 *     if (gd_error(ctx)) puts(gd_error_text(ctx));                       "decay.csv: line 7, column 'y': ..."
 *     gd_release(y);
 *     gd_table_free(t);
 *
 *     double time[] = {0, 1, 2}, level[] = {9, 4, 2};                    your memory, which is not copied
 *     gd_table *mine = gd_table_new(ctx, "tank");
 *     if (gd_table_add_numbers(mine, "t", time, 3, 1, NULL, NULL) ||
 *         gd_table_add_numbers(mine, "level", level, 3, 1, NULL, NULL))
 *         puts(gd_error_text(ctx));
 *     gd_table_free(mine);
 *
 * A text column is numbers or ISO 8601 dates and times if all its cells are, otherwise words.  Empty cells, NA,
 * N/A, NaN, nan, NAN, null, NULL and -nan are missing everywhere.  A column is parsed on first use.
 *
 * Tensors of a table may share its memory: do not write to them. */
#ifndef GRADUS_TABLE_H
#define GRADUS_TABLE_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns with the same number of rows.  It belongs to its context. */
typedef struct gd_table gd_table;

/* The kind of the cells of a column. */
typedef enum gd_cells {
    GD_CELLS_FOUND, /* determined from the cells */
    GD_CELLS_NUMBERS,
    GD_CELLS_WORDS,
    GD_CELLS_DATES
} gd_cells;

/* The encoding of a text; a byte order mark of UTF-16 takes precedence. */
typedef enum gd_encoding { GD_UTF8, GD_LATIN1, GD_WINDOWS_1252, GD_UTF16 } gd_encoding;

/* The separator of tables with fixed column widths: cells are aligned and may be empty. */
#define GD_TABLE_WIDTHS 1

/* Options for reading a table; all members may be 0. */
typedef struct gd_table_options {
    char separator;             /* 0: automatic; ' ': any number of blanks; GD_TABLE_WIDTHS: fixed widths */
    char decimal;               /* ',': decimals are written 1,5; 0: with a point */
    bool no_header;             /* the first line is data; the columns are called c1, c2, ... */
    gd_encoding encoding;       /* of the text */
    const char *const *missing; /* texts for missing cells, in addition to those above; NULL: none */
    int missing_count;
    const char *const *words; /* names of columns to read as words; NULL: none */
    int words_count;
    uint64_t max_bytes; /* most bytes in memory, uncompressed; 0: a quarter of the machine's memory */
    const gd_observer
        *observer; /* gets the progress and may end the reading; borrowed for the call; NULL: none */
} gd_table_options;

/* ---- tables from files and memory ---- */

/* Reads a file by the ending of its name: .npy, .npz, .safetensors and IDX (-ubyte, .idx, each perhaps with .gz) are columns of
 * numbers; everything else is text between separators, gzip or not.  A vector is a column of its name; a matrix [rows, k] is the
 * columns NAME1 to NAMEk; a file without names has c1, c2, ...  options NULL: defaults.  New: gd_table_free.  NULL with IO, FORMAT
 * ("data.csv: line 3: 1 cell, but line 1 has 2"), SHAPE, ARGUMENT (a column of words does not exist) or INTERRUPTED recorded. */
gd_table *gd_table_load(gd_ctx *ctx, const char *path, const gd_table_options *options);
/* The rows of several files of the same columns, one file after the other, and a last column `set`: the number of the file from
 * 0.  New, as gd_table_load; NULL with ARGUMENT recorded: no file, or one is given twice; FORMAT: the columns differ. */
gd_table *gd_table_load_all(gd_ctx *ctx, const char *const *paths, int count,
                            const gd_table_options *options);
/* Reads text[0..size), which is copied.  New, as gd_table_load. */
gd_table *gd_table_parse(gd_ctx *ctx, const char *text, size_t size, const gd_table_options *options);

struct ArrowArrayStream; /* of Arrow's C stream interface; its header may be included beside this one */

/* The columns of an Arrow stream of record batches: numbers, bools, strings, dates, times and dictionaries of them; dates with a time
 * zone are UTC.  names: those wanted, in that order; NULL: all but the index that pandas adds.  f64 columns in one batch without
 * missing cells are not copied: their batch is released when the table and its tensors are freed.  stream: consumed, on
 * failure too; the struct itself stays the caller's.  New: gd_table_free.  NULL with FORMAT recorded (a column of another format:
 * "arrow: column 'x' is of format '+l'"; texts that are not UTF-8), ARGUMENT (no such column) or CALLBACK (the stream failed). */
gd_table *gd_table_from_arrow(gd_ctx *ctx, struct ArrowArrayStream *stream, const char *const *names,
                              int count);
/* A table without columns.  name: prefix of errors about it; NULL: "table".  New: gd_table_free.  NULL if there is no memory. */
gd_table *gd_table_new(gd_ctx *ctx, const char *name);
void gd_table_free(gd_table *table); /* NULL is fine */

/* ---- columns of your own ----
 * The first column sets the number of rows.  Tables that were read cannot be changed.  ARGUMENT: the name is taken, or the table
 * was read; SHAPE: a different number of rows.  A column that cannot be added leaves the table as it was. */

/* Adds a vector as a column, a matrix [rows, k] as the columns NAME1 to NAMEk; NaN is missing.  The elements of f64 vectors are
 * shared, others are converted.  values: borrowed, a reference is kept. */
GD_NODISCARD gd_status gd_table_add(gd_table *table, const char *name, gd_tensor *values);
/* Adds values[0], values[stride], ...; the memory is not copied if stride is 1.  release(user), if given, is called once when the
 * table no longer needs the memory, possibly before this returns; not on failure. */
GD_NODISCARD gd_status gd_table_add_numbers(gd_table *table, const char *name, const double *values,
                                            int64_t rows, int64_t stride, void (*release)(void *user),
                                            void *user);
/* Adds words, which are copied; NULL is missing.  FORMAT: one is not UTF-8. */
GD_NODISCARD gd_status gd_table_add_words(gd_table *table, const char *name, const char *const *words,
                                          int64_t rows);
/* Adds dates: a vector of seconds since 1970-01-01, or with day false of times of day, since midnight; NaN is missing.  clock: they
 * include a time.  values: as gd_table_add. */
GD_NODISCARD gd_status gd_table_add_dates(gd_table *table, const char *name, gd_tensor *values, bool day,
                                          bool clock);

/* ---- contents of a table ---- */

int gd_table_columns(const gd_table *table);  /* number of columns */
int64_t gd_table_rows(const gd_table *table); /* number of rows */
/* The name of a column.  Borrowed; NULL if there is none. */
const char *gd_table_name(const gd_table *table, int column);
/* The column of a name, or of a name without its unit: S of "S [mM]".  -1 with ARGUMENT recorded if there is none or more
 * than one: "data.csv: no column 'mas', did you mean 'mass'?" */
int gd_table_find(gd_table *table, const char *name);
/* The kind of a column.  GD_CELLS_FOUND with FORMAT recorded: most cells are numbers and some are not, and the error names the
 * first of those; or with INDEX: there is no such column. */
gd_cells gd_table_kind(gd_table *table, int column);
/* A column as f64 [rows]; NaN is missing.  A word is its index in gd_table_words, a date the seconds since 1970-01-01, a time
 * of day those since midnight.  New.  FORMAT: as gd_table_kind, or an infinite number; INDEX. */
gd_tensor *gd_table_numbers(gd_table *table, int column);
/* The distinct words of a column in order of appearance, and in *count their number; numbers and dates have none.  Borrowed.
 * NULL with *count 0: none, or an error is recorded. */
const char *const *gd_table_words(gd_table *table, int column, int *count);
/* Whether dates of a column have days, times of day, or both.  False: it is no column of dates. */
bool gd_table_dates(gd_table *table, int column, bool *day, bool *clock);
/* Columns of numbers as f64 [rows, count]; names NULL: all columns, count is ignored.  New.  FORMAT: a cell is missing or not a number;
 * ARGUMENT: no such column. */
gd_tensor *gd_table_matrix(gd_table *table, const char *const *names, int count);

/* ---- parts of a table ---- */

/* A table of some rows: i64 indices, also negative and repeated, or one bool per row.  Its errors still name lines of the file.  New; the
 * cells are shared, and `table` may be freed.  INDEX, DTYPE, SHAPE. */
gd_table *gd_table_select_rows(gd_table *table, gd_tensor *rows);
/* A table of some columns, in that order.  New; the cells are shared, and `table` may be freed.  ARGUMENT: no such column, or a repeated one. */
gd_table *gd_table_select(gd_table *table, const char *const *names, int count);

/* ---- writing ---- */

/* Writes a table as text that gd_table_load reads back: UTF-8, numbers with as many digits as needed, dates as ISO 8601 (to the
 * microsecond), empty missing cells; separated by tabs if the name ends in .tsv, else by commas.  A column of words that look like
 * numbers or dates is read as such unless gd_table_options.words names it.  IO: an existing file stays; VALUE: a year of
 * more than four digits. */
GD_NODISCARD gd_status gd_table_save(gd_table *table, const char *path);

#ifdef __cplusplus
}
#endif
#endif
