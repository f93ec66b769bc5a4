/* Bounds of parameters by transformation: the solver sees a free number u, the model a bounded one.
 *
 *   b > low           b = low + exp(u)
 *   b < high          b = high - exp(u)
 *   low < b < high    b = low + (high - low) sigmoid(u) */
#ifndef GD_CLI_BOUND_H
#define GD_CLI_BOUND_H

#include "gradus/tensor.h"

typedef struct gd_bound {
    bool has_low, has_high;
    double low, high;
} gd_bound;

/* Reads "b>0", "b<5", "0<b<1" (>= and <= mean the same); *name points into the text.  PARSE: "--bound: column 3: ..." */
GD_NODISCARD gd_status gd__bound_parse(gd_ctx *ctx, const char *text, const char **name, size_t *length,
                                       gd_bound *out);

/* The free value of a bounded one; VALUE, named `name`, unless every element lies inside.  New. */
gd_tensor *gd__bound_free(const gd_bound *bound, const char *name, gd_tensor *value);
/* The bounded value of a free one, recorded for gradients.  New; the tensor itself where there is no bound. */
gd_tensor *gd__bound_value(const gd_bound *bound, gd_tensor *u);
/* db / du at one element. */
double gd__bound_slope(const gd_bound *bound, double u);

#endif
