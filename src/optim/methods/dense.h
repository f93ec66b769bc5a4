/* Dense quasi-Newton links: a matrix over all parameters (or one a parameter), changed in place by every new pair
 * s = change of the parameters, y = change of the update.
 *
 * A method is one function that changes the matrix; the rest is here: settings, state, first scale, restarts, the product
 * with the update or the solution for it, the Hessian operator.
 *
 *   inverse   the matrix is the inverse Hessian H: update = H u
 *   otherwise it is the Hessian B:                 update = B^-1 u; where B is singular the update stays as it is
 *
 * State, with the first parameter of the matrix: matrix [n, n], previous_params and previous_update [n], pairs taken. */
#ifndef GD_OPTIM_METHODS_DENSE_H
#define GD_OPTIM_METHODS_DENSE_H

#include "optim/vector/layout.h"

#include <math.h>

#define GD_NUMBER_OR_NONE(n, d, h)                                                                   \
    {                                                                                                \
        .name = n, .kinds = GD_SET_REAL | GD_SET_NONE, .fallback = {.kind = GD_SET_REAL, .real = d}, \
        .high = INFINITY, .help = h                                                                  \
    }

#define GD_DENSE_FIELDS_(scale, scale_kind, restart, restart_kind)                                         \
    {.name = "init_scale",                                                                                 \
     .kinds = GD_SET_REAL | GD_SET_STRING,                                                                 \
     .fallback = {.kind = scale_kind, .real = 1, .string = scale},                                         \
     .low = 1e-300,                                                                                        \
     .high = INFINITY,                                                                                     \
     .choices = "auto",                                                                                    \
     .help =                                                                                               \
         "Hessian before the first pair, times the identity; auto: 1, then y y / s y of the first pair"},  \
        GD_REAL("tol", 1e-32, 0, INFINITY, "least curvature or denominator of a pair"),                    \
        GD_NUMBER_OR_NONE("ptol", 1e-32, "parameters that moved less give no pair"),                       \
        GD_FLAG("ptol_restart", false, "start again then"),                                                \
        GD_NUMBER_OR_NONE("gtol", 1e-32, "an update that changed less gives no pair"),                     \
        {.name = "restart_interval",                                                                       \
         .kinds = GD_SET_REAL | GD_SET_STRING | GD_SET_NONE,                                               \
         .fallback = {.kind = restart_kind, .string = restart},                                            \
         .low = 1,                                                                                         \
         .high = 1e15,                                                                                     \
         .integer = true,                                                                                  \
         .choices = "auto",                                                                                \
         .help = "steps from restart to restart; auto: the number of elements and one"},                   \
        GD_REAL_OR_NONE("beta", 0, 1, "inertia of the matrix"), GD_UPDATE_FREQ("steps from pair to pair"), \
        GD_OPEN_FLAG("scale_first", "shorten the first step; none: only where gd_minimize runs it"),       \
        GD_CONCAT_PARAMS("one matrix for all parameters; false: one for each")

#define GD_DENSE_FIELDS     GD_DENSE_FIELDS_("auto", GD_SET_STRING, NULL, GD_SET_NONE)
#define GD_DENSE_INVERSE(d) GD_FLAG("inverse", d, "keep the inverse Hessian")
#define GD_DENSE_INNER      GD_INNER("links that change the update before the matrix does")

/* The matrix and the new pair. */
typedef struct gd_dense {
    gd_link *link;
    gd_layout layout;
    gd_tensor *key; /* whose state it is */
    gd_tensor *matrix;
    gd_tensor *s, *y, *z; /* [n]; z is room for the method */
    double sy, tol;
    double weight; /* of changes: 1 - beta */
    bool inverse;
    bool taken; /* the pair changed the matrix */
    int64_t n;
} gd_dense;

/* Takes the pair into the matrix, or leaves it out. */
typedef gd_status (*gd_dense_fn)(gd_dense *d);

int64_t gd__dense_bytes(const gd_link *link, gd_tensor *const *params, int count);
extern const gd_slot gd__dense_slots[3];
extern const char *const gd__dense_scalars[1];

/* The operations of such a link. */
GD_NODISCARD gd_status gd__dense_update(gd_link *link, gd_var *var, gd_dense_fn fn);
GD_NODISCARD gd_status gd__dense_apply(gd_link *link, gd_var *var);
gd_linop *gd__dense_hessian(gd_link *link, gd_var *var);

/* For methods: out = A x or A^T x; x y; A += a x x^T + b (x z^T + z x^T) + d z z^T; A += a x z^T; x = x + a z. */
GD_NODISCARD gd_status gd__dense_times(gd_dense *d, gd_tensor *x, gd_tensor *out);
GD_NODISCARD gd_status gd__dense_times_transposed(gd_dense *d, gd_tensor *x, gd_tensor *out);
double gd__dense_dot(gd_dense *d, gd_tensor *x, gd_tensor *y);
GD_NODISCARD gd_status gd__dense_rank_two(gd_dense *d, gd_tensor *x, gd_tensor *z, double a, double b,
                                          double c);
GD_NODISCARD gd_status gd__dense_outer(gd_dense *d, double a, gd_tensor *x, gd_tensor *z);
GD_NODISCARD gd_status gd__dense_scale(gd_dense *d, double factor);
GD_NODISCARD gd_status gd__vector_add(gd_dense *d, gd_tensor *x, double a, gd_tensor *z);

/* The three functions and the class of a method. */
#define GD_DENSE_LINK(NAME, method) \
    static gd_status NAME##_update(gd_link *link, gd_var *var) { return gd__dense_update(link, var, method); }
#define GD_DENSE_CLASS(NAME, field_list)                                                       \
    .name = #NAME, .family = "quasi_newton", GD_FIELDS(field_list), GD_SLOTS(gd__dense_slots), \
    GD_SCALARS(gd__dense_scalars), .state_bytes = gd__dense_bytes, .update = NAME##_update,    \
    .apply = gd__dense_apply, .hessian = gd__dense_hessian

#endif
