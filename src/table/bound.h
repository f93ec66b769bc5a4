/* Bounds of parameters, as text. */
#ifndef GD_TABLE_BOUND_H
#define GD_TABLE_BOUND_H

#include "gradus/tensor.h"

typedef struct gd_bound {
    bool has_low, has_high;
    double low, high;
    int64_t index[8]; /* of an element: x[2]>0 */
    int indices;      /* 0: of all */
    const char
        *value; /* instead of the number: a value as for --param, with one for each element; else NULL */
} gd_bound;

/* Reads "b>0", "b<5", "0<b<1" (>= and <= mean the same), "b[1,2]>0", "b>[0,1]", "b<@high.npy"; *name points into the text.
 * PARSE: "--bound: column 3: ..." */
GD_NODISCARD gd_status gd__bound_parse(gd_ctx *ctx, const char *text, const char **name, size_t *length,
                                       gd_bound *out);

/* Such a text for the elements of these parameters, in their order: low and high get its values, and were infinite there. PARSE:
 * also for an unknown parameter or element, and for a side that already has a bound. */
GD_NODISCARD gd_status gd__bounds_read(gd_ctx *ctx, const char *text, const char *const *names,
                                       gd_tensor *const *params, int count, double *low, double *high);

#endif
