/* A VALUE of the command line: a number, a nested list, a file, or a made array.
 *
 *   3.5      [1, 2, 3]      [[1, 2], [3, 4]]      zeros(3,4)      0.1*randn(784,10)      @weights.npy
 *   @table.csv (all columns as a matrix)      @table.csv:mass (one column)      @run.safetensors:p      @images.idx.gz */
#ifndef GD_TABLE_VALUE_H
#define GD_TABLE_VALUE_H

#include "table/csv.h"

/* Options for tables, and whether a table was read: an unused option is a mistake. */
typedef struct gd_value_tables {
    gd_csv_options csv;
    bool used;
} gd_value_tables;

/* The value of a text as a tensor of that dtype on the CPU.  tables NULL: defaults.  `what` leads the errors: "--param p: column 4: ...".  Random
 * values come from the context's generator.  New; NULL with PARSE, or what the file's reader recorded. */
gd_tensor *gd__value_parse(gd_ctx *ctx, const char *what, const char *text, gd_dtype dtype,
                           gd_value_tables *tables);

/* The length of the file's name behind the @; *part: the part of the file ("mass"), NULL: all. */
size_t gd__value_file(const char *path, const char **inner);

/* The value behind the @.  Its own dtype is kept.  New. */
gd_tensor *gd__value_load(gd_ctx *ctx, const char *what, const char *path, gd_value_tables *tables);

#endif
