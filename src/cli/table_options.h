/* The options that describe a table, and lists of words as options. */
#ifndef GD_CLI_TABLE_OPTIONS_H
#define GD_CLI_TABLE_OPTIONS_H

#include "cli/args.h"
#include "table/csv.h"
#include "table/words.h"

#define GD_TABLE_OPTIONS                                                                                   \
    GD_OPTION(                                                                                             \
        "separator", "C",                                                                                  \
        "of a table: , ; tab, space (any number of them), or width: columns of fixed width, cells may be " \
        "empty (automatic)"),                                                                              \
        GD_OPTION("decimal", "point|comma", "decimal separator of the table: 1.5 or 1,5 (point)"),         \
        GD_SWITCH("no-header", "the table's first line is data; the columns are called c1, c2, ..."),      \
        GD_OPTION("encoding", "utf-8|latin1|windows-1252|utf-16",                                          \
                  "encoding of the table (utf-8, or utf-16 if the file has its byte order mark)"),         \
        GD_OPTION(                                                                                         \
            "max-bytes", "N",                                                                              \
            "most bytes of data in memory, uncompressed, such as 500M or 2G (a quarter of the memory)")

/* --separator, --decimal, --no-header and --encoding. */
GD_NODISCARD gd_status gd__csv_options(const gd_args *args, gd_csv_options *out);
/* ARGUMENT: one of them is given, and no table was read. */
GD_NODISCARD gd_status gd__csv_options_used(const gd_args *args, bool used);
/* --shape 3,32,32 */
GD_NODISCARD gd_status gd__shape_option(const gd_args *args, int *axes, int64_t *shape);

/* All values of a repeated option; with `split` each value may be several words joined by commas. */
GD_NODISCARD gd_status gd__words_of_option(const gd_args *args, const char *name, bool split, gd_words *out);

#endif
