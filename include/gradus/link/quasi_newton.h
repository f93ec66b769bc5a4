/* gradus/link/quasi_newton.h: links that learn curvature from pairs s = change of the parameters, y = change of the update.
 *
 * Limited memory: the last pairs are kept as rows, with their products among each other and with the update.  A method
 * only computes the coefficients of its direction c u + sum cs[k] s_k + cy[k] y_k:
 *
 *     static gd_status barzilai(gd_link *link, const gd_pairs *p, double *c, double *cs, double *cy)
 *     {
 *         (void)link, (void)cs, (void)cy;
 *         int last = p->count * p->count - 1;
 *         *c = p->sy[last] / p->yy[last];
 *         return GD_OK;
 *     }
 *
 * A dense matrix over all parameters (or one per parameter), or a diagonal, is updated in place by every new pair; a method is
 * mainly the function that updates it (GD_DENSE_LINK). */
#ifndef GRADUS_QUASI_NEWTON_H
#define GRADUS_QUASI_NEWTON_H

#include "gradus/link.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limited memory ---- */

/* Products of the pairs, the oldest first: sy[i * count + j] = s_i y_j; su[i] = s_i u with the update u. */
typedef struct gd_pairs {
    int count;                  /* at least 1 */
    const double *ss, *sy, *yy; /* without uses_ss: no ss, and sy for i <= j only */
    const double *su, *yu;      /* 0 for a Hessian */
} gd_pairs;

/* cs and cy are zeros of `count` numbers each, *c is 1 to begin with. */
typedef gd_status (*gd_direction_fn)(gd_link *link, const gd_pairs *p, double *c, double *cs, double *cy);
/* Computes the Hessian; s and y are the pairs as rows [count, n].  New. */
typedef gd_linop *(*gd_pairs_hessian_fn)(gd_link *link, const gd_pairs *p, gd_tensor *s, gd_tensor *y);

/* A method that computes its direction from the last pairs. */
typedef struct gd_limited_memory {
    gd_direction_fn direction;
    gd_pairs_hessian_fn hessian; /* NULL: none */
    bool uses_ss;
} gd_limited_memory;

/* Class functions.  The link has settings history_size, ptol, ptol_restart, gtol, gtol_restart, scale_first, update_freq,
 * damping, inner and perhaps sy_tol, and the slots GD_PAIR_SLOTS.  Before the first pair the direction is the update, with
 * scale_first shortened to a 1-norm of at most 1. */
GD_NODISCARD gd_status gd_limited_memory_step(gd_link *link, gd_var *var, const gd_limited_memory *method);
GD_NODISCARD gd_status gd_limited_memory_update(gd_link *link, gd_var *var, const gd_limited_memory *method);
GD_NODISCARD gd_status gd_limited_memory_apply(gd_link *link, gd_var *var, const gd_limited_memory *method);
gd_linop *gd_limited_memory_hessian(gd_link *link, gd_var *var, const gd_limited_memory *method); /* new */
/* For gd_link_class.state_bytes. */
int64_t gd_limited_memory_bytes(const gd_link *link, gd_tensor *const *params, int count);

/* The state that pairs are computed from. */
#define GD_PAIR_SLOTS \
    {"previous_params", GD_SLOT_ONLINE}, { "previous_update", GD_SLOT_ONLINE }
/* The class of a method NAME, a static gd_limited_memory of that name with _method behind it; its summary, fields and paper come
 * after it. */
#define GD_LIMITED_MEMORY_LINK(NAME)                                 \
    static gd_status NAME##_step(gd_link *link, gd_var *var)         \
    {                                                                \
        return gd_limited_memory_step(link, var, &NAME##_method);    \
    }                                                                \
    static gd_status NAME##_update(gd_link *link, gd_var *var)       \
    {                                                                \
        return gd_limited_memory_update(link, var, &NAME##_method);  \
    }                                                                \
    static gd_status NAME##_apply(gd_link *link, gd_var *var)        \
    {                                                                \
        return gd_limited_memory_apply(link, var, &NAME##_method);   \
    }                                                                \
    static gd_linop *NAME##_hessian(gd_link *link, gd_var *var)      \
    {                                                                \
        return gd_limited_memory_hessian(link, var, &NAME##_method); \
    }
#define GD_LIMITED_MEMORY_CLASS(NAME)                                                                 \
    .spread = GD_SPREAD_VECTOR, .state_bytes = gd_limited_memory_bytes, .traits.keeps_history = true, \
    .step = NAME##_step, .update = NAME##_update, .apply = NAME##_apply, .hessian = NAME##_hessian

/* ---- a dense matrix or a diagonal ---- */

/*   inverse   the matrix is the inverse Hessian H: update = H u
 *   otherwise it is the Hessian B:                 update = B^-1 u; if B is singular the update stays as it is
 *
 * State, stored with the first parameter of the matrix: matrix [n, n], for a diagonal [n], previous_params and previous_update
 * [n], the number of pairs. */

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
        GD_REAL_OR_OFF("ptol", 1e-32, 0, INFINITY, "no pair if the parameters moved less"),                \
        GD_FLAG("ptol_restart", false, "restart then"),                                                    \
        GD_REAL_OR_OFF("gtol", 1e-32, 0, INFINITY, "no pair if the update changed less"),                  \
        {.name = "restart_interval",                                                                       \
         .kinds = GD_SET_REAL | GD_SET_STRING | GD_SET_NONE,                                               \
         .fallback = {.kind = restart_kind, .string = restart},                                            \
         .low = 1,                                                                                         \
         .high = 1e15,                                                                                     \
         .integer = true,                                                                                  \
         .choices = "auto",                                                                                \
         .help = "steps from restart to restart; auto: the number of elements and one"},                   \
        GD_REAL_OR_NONE("beta", 0, 1, "inertia of the matrix"), GD_UPDATE_FREQ("steps from pair to pair"), \
        GD_OPEN_FLAG("scale_first", "shorten the first step; none: only under gd_minimize"),               \
        GD_CONCAT_PARAMS("one matrix for all parameters; false: one for each")

/* Settings and slots that classes of dense methods have. */
#define GD_DENSE_FIELDS GD_DENSE_FIELDS_("auto", GD_SET_STRING, NULL, GD_SET_NONE)
#define GD_DENSE_INVERSE(d) \
    GD_FLAG("inverse", d, "keep the inverse Hessian; false: the Hessian, changed the same way")
#define GD_DENSE_INNER GD_INNER("links that change the update before the matrix does")
#define GD_DENSE_SLOTS \
    {"matrix", 0}, {"previous_params", GD_SLOT_ONLINE}, { "previous_update", GD_SLOT_ONLINE }

/* The matrix and the new pair. */
typedef struct gd_dense {
    gd_link *link;
    gd_var *var;
    gd_tensor *key; /* the key of the state */
    gd_tensor *matrix;
    gd_tensor *s, *y, *z; /* [n]; z is room for the method */
    gd_tensor *u;         /* [n], read only: the current update; before the step it was u - y */
    double sy, tol;
    double weight; /* of changes: 1 - beta */
    bool inverse;
    bool taken; /* the pair changed the matrix */
    int64_t n;
    int64_t pairs; /* before this one, since the matrix was reset */
} gd_dense;

/* Updates the matrix with the pair, or skips it. */
typedef gd_status (*gd_dense_fn)(gd_dense *d);

/* A method that keeps a matrix and changes it with each pair. */
typedef struct gd_dense_method {
    gd_dense_fn pair;
    gd_dense_fn
        restart; /* every restart_interval (auto: n) steps, instead of a pair; NULL: the matrix is reset, auto n + 1 */
    bool diagonal;
    bool hessian;     /* without the setting `inverse`: the matrix is the Hessian; false: its inverse */
    bool unsymmetric; /* its Hessian is the symmetric part */
} gd_dense_method;

/* The operations of such a link. */
GD_NODISCARD gd_status gd_dense_update(gd_link *link, gd_var *var, const gd_dense_method *method);
GD_NODISCARD gd_status gd_dense_apply(gd_link *link, gd_var *var, const gd_dense_method *method);
gd_linop *gd_dense_hessian(gd_link *link, gd_var *var, const gd_dense_method *method); /* new */
/* For gd_link_class.state_bytes: every slot except GD_PAIR_SLOTS is an [n, n] matrix; a diagonal and those. */
int64_t gd_dense_bytes(const gd_link *link, gd_tensor *const *params, int count);
int64_t gd_diagonal_bytes(const gd_link *link, gd_tensor *const *params, int count);

/* For methods: out = A x or A^T x; x y; A += a x x^T + b (x z^T + z x^T) + c z z^T; A += a x z^T; A *= factor; A += a I; x += a z.
 * x, y, z and out are vectors of gd_dense, or like them. */
GD_NODISCARD gd_status gd_dense_times(gd_dense *d, gd_tensor *x, gd_tensor *out);
GD_NODISCARD gd_status gd_dense_times_transposed(gd_dense *d, gd_tensor *x, gd_tensor *out);
double gd_dense_dot(gd_dense *d, gd_tensor *x, gd_tensor *y); /* NAN on failure */
GD_NODISCARD gd_status gd_dense_rank_two(gd_dense *d, gd_tensor *x, gd_tensor *z, double a, double b,
                                         double c);
GD_NODISCARD gd_status gd_dense_outer(gd_dense *d, double a, gd_tensor *x, gd_tensor *z);
GD_NODISCARD gd_status gd_dense_scale(gd_dense *d, double factor);
GD_NODISCARD gd_status gd_dense_shift(gd_dense *d, double a);
GD_NODISCARD gd_status gd_dense_add(gd_dense *d, gd_tensor *x, double a, gd_tensor *z);
/* A becomes the value, shaped like it. */
GD_NODISCARD gd_status gd_dense_set(gd_dense *d, gd_tensor *value);
/* out = A^-1 x; x if A is singular. */
GD_NODISCARD gd_status gd_dense_solve(gd_dense *d, gd_tensor *x, gd_tensor *out);
/* Sets d->matrix to that of a slot, the identity at the first pair; "matrix" is the one for updates, and must be selected at
 * the end. */
GD_NODISCARD gd_status gd_dense_use(gd_dense *d, const char *slot);

/* The class of a method: static gd_status NAME_pair(gd_dense *d), with arrays `fields`, `slots` {GD_DENSE_SLOTS} and `scalars`
 * {GD_DENSE_SCALAR}; further members of its gd_dense_method may follow the name. */
#define GD_DENSE_SCALAR "pairs"
#define GD_DENSE_LINK(NAME, ...)                                                     \
    static const gd_dense_method NAME##_method = {.pair = NAME##_pair, __VA_ARGS__}; \
    static gd_status NAME##_update(gd_link *link, gd_var *var)                       \
    {                                                                                \
        return gd_dense_update(link, var, &NAME##_method);                           \
    }                                                                                \
    static gd_status NAME##_apply(gd_link *link, gd_var *var)                        \
    {                                                                                \
        return gd_dense_apply(link, var, &NAME##_method);                            \
    }                                                                                \
    static gd_linop *NAME##_hessian(gd_link *link, gd_var *var)                      \
    {                                                                                \
        return gd_dense_hessian(link, var, &NAME##_method);                          \
    }
#define GD_DENSE_OPERATIONS(NAME)                                                                   \
    .spread = GD_SPREAD_WHOLE, GD_SCALARS(scalars), .update = NAME##_update, .apply = NAME##_apply, \
    .hessian = NAME##_hessian
#define GD_DENSE_COST "a few products of an [n, n] matrix with vectors per step, for n elements"
#define GD_DENSE_CLASS(NAME)                                                                      \
    GD_DENSE_OPERATIONS(NAME), GD_FIELDS(fields), GD_SLOTS(slots), .state_bytes = gd_dense_bytes, \
                                                                   .cost = GD_DENSE_COST
#define GD_DIAGONAL_CLASS(NAME, FIELDS)                            \
    GD_DENSE_OPERATIONS(NAME), GD_FIELDS(FIELDS), GD_SLOTS(slots), \
        .state_bytes = gd_diagonal_bytes, .cost = "a few dot products; three vectors"

#ifdef __cplusplus
}
#endif
#endif
