/* Tables from files of any kind, and several as one. */
#ifndef GD_TABLE_TABLE_LOAD_H
#define GD_TABLE_TABLE_LOAD_H

#include "table/csv.h"

/* The rows of all files, one file after the other.  .npy, .npz and .safetensors are columns of numbers, everything else is a table
 * of text.  A vector is a column of its name, a matrix [rows, k] the columns NAME1 ... NAMEk; an .npy file has no names: c1, c2,
 * ...  Several files have the same columns, in any order, and get one more, `set`: the number of the file from 0.  New;
 * NULL: FORMAT, ARGUMENT, SHAPE, or what reading fails with. */
gd_csv *gd__table_load(gd_ctx *ctx, const char *const *paths, int count, const gd_csv_options *options);

#endif
