/* The options that describe a table, and lists of words as options. */
#ifndef GD_CLI_TABLE_OPTIONS_H
#define GD_CLI_TABLE_OPTIONS_H

#include "cli/args.h"
#include "table/csv.h"
#include "table/words.h"

#define GD_TABLE_OPTIONS                                                                                  \
    GD_OPTION("separator", "C",                                                                           \
              "of a table: , ; tab, space (any number of them), or width: none, cells stand under "       \
              "each other and may be empty (found from the lines)"),                                      \
        GD_OPTION("decimal", "point|comma", "how the table writes decimals: 1.5 or 1,5 (point)"),         \
        GD_SWITCH("no-header", "the table's first line is data; the columns are called c1, c2, ..."),     \
        GD_OPTION("encoding", "utf-8|latin1|windows-1252|utf-16",                                         \
                  "of the table's text (utf-8, or utf-16 where the file begins with its mark)"),          \
        GD_OPTION("max-bytes", "N",                                                                       \
                  "refuse data of more bytes in memory, unpacked; 500M and 2G are understood (a quarter " \
                  "of the memory)")

/* --separator, --decimal, --no-header and --encoding. */
GD_NODISCARD gd_status gd__csv_options(const gd_args *args, gd_csv_options *out);
/* ARGUMENT: one of them is given, and no table was read. */
GD_NODISCARD gd_status gd__csv_options_used(const gd_args *args, bool used);
/* --shape 3,32,32 */
GD_NODISCARD gd_status gd__shape_option(const gd_args *args, int *axes, int64_t *shape);

/* All values of a repeated option; with `split` each value may be several words joined by commas. */
GD_NODISCARD gd_status gd__words_of_option(const gd_args *args, const char *name, bool split, gd_words *out);

#endif
