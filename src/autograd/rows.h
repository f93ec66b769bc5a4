/* Matrices of derivatives from a recorded graph. */
#ifndef GD_AUTOGRAD_ROWS_H
#define GD_AUTOGRAD_ROWS_H

#include "gradus/tensor.h"

/* into[i] is [elements of all outputs together, elements of input i]: its rows become the derivatives of the outputs'
 * elements.  In one pass over the graph of each output if most of them are zero, else in batches, else in one pass per row.
 * The graph stays.
 * GD_SPARSE: in the first way or not at all; then NOT_IMPLEMENTED, without an error, and into is undefined. */
enum { GD_SPARSE = 1 };
GD_NODISCARD gd_status gd__fill_rows(gd_tensor *const *outputs, int output_count, gd_tensor *const *inputs,
                                     int count, int flags, gd_tensor *const *into);

#endif
