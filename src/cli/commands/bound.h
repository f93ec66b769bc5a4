/* Bounds of parameters, and for chains, which know none, bounds by transformation: the chain sees a free number u, the model
 * a bounded one.
 *
 *   b > low           b = low + exp(u)
 *   b < high          b = high - exp(u)
 *   low < b < high    b = low + (high - low) sigmoid(u) */
#ifndef GD_CLI_COMMANDS_BOUND_H
#define GD_CLI_COMMANDS_BOUND_H

#include "gradus/tensor.h"

typedef struct gd_bound {
    bool has_low, has_high;
    double low, high;
} gd_bound;

/* Reads "b>0", "b<5", "0<b<1" (>= and <= mean the same); *name points into the text.  PARSE: "--bound: column 3: ..." */
GD_NODISCARD gd_status gd__bound_parse(gd_ctx *ctx, const char *text, const char **name, size_t *length,
                                       gd_bound *out);

/* VALUE, named `name`, unless every element lies inside or on the bound. */
GD_NODISCARD gd_status gd__bound_check(const gd_bound *bound, const char *name, gd_tensor *value);
/* The free value of a bounded one; an element on its bound, or closer than the transformation can say, starts a little
 * inside.  New. */
gd_tensor *gd__bound_free(const gd_bound *bound, gd_tensor *value);
/* The bounded value of a free one, recorded for gradients.  New; the tensor itself where there is no bound. */
gd_tensor *gd__bound_value(const gd_bound *bound, gd_tensor *u);
/* x, or the bound that a transformation has brought it as good as onto. */
double gd__bound_snap(double low, double high, double x);

#endif
