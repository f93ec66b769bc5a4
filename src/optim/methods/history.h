/* The history of L-BFGS and L-SR1: the last pairs s = change of the parameters, y = change of the update.
 *
 *   s_history, y_history   [most + 1, n]  rings of rows; one row is always free: a new pair is written there before it is
 *                                         known whether it will be taken
 *   gram                   [3, most + 1, most + 1] in f64: products of rows s s, s y and y y
 *
 * Everything that follows happens in the small space of these products: an update costs one reading of the history for the
 * products with it, and one for the combination.  All of it is state of the link: s_history, y_history, gram, pairs,
 * newest, and a parameter's previous_params and previous_update. */
#ifndef GD_OPTIM_METHODS_HISTORY_H
#define GD_OPTIM_METHODS_HISTORY_H

#include "optim/vector/layout.h"

#define GD_HISTORY_SLOTS \
    {"previous_params", true}, { "previous_update", true }

typedef struct gd_history {
    gd_link *link;
    gd_layout layout;
    gd_tensor *const *params;
    int most, rows, pairs, newest;
    gd_tensor *s, *y, *gram; /* borrowed from the link */
    double *ss, *sy, *yy;    /* [rows][rows] inside gram */
    double *s_dots, *y_dots; /* products of the rows with the update, by row */
    bool uses_ss;            /* products s s, and s y both ways, are kept too */
} gd_history;

/* What decides whether a pair is taken. */
typedef struct gd_pair_rules {
    double ptol, gtol, sy_tol; /* NAN: none */
    bool ptol_restart, gtol_restart;
    char damping; /* 0: none, 'p' Powell, 'd' double */
} gd_pair_rules;

GD_NODISCARD gd_status gd__history_open(gd_history *h, gd_link *link, gd_var *var, bool uses_ss);
/* Of all that stands above, for gd_link_class. */
int64_t gd__history_bytes(const gd_link *link, gd_tensor *const *params, int count);
void gd__history_close(gd_history *h);
/* Adds the pair since the last call, if there was one and the rules take it.  with_dots: s_dots and y_dots are made on the
 * way, for gd__history_combine with the same update. */
GD_NODISCARD gd_status gd__history_update(gd_history *h, gd_tensor *const *update, const gd_pair_rules *rules,
                                          bool with_dots);
GD_NODISCARD gd_status gd__history_dots(gd_history *h, gd_tensor *const *update);
/* out = c update + sum over pairs of cs[k] s_k + cy[k] y_k, the oldest first; new tensors of the current scope. */
GD_NODISCARD gd_status gd__history_combine(gd_history *h, gd_tensor *const *update, double c,
                                           const double *cs, const double *cy, gd_tensor **out);
void gd__history_forget(gd_link *link);

/* Row of the k-th pair, the oldest being 0. */
static inline int gd__history_row(const gd_history *h, int k)
{
    return (h->newest + 1 + (h->rows - h->pairs) + k) % h->rows;
}
static inline double gd__gram(const gd_history *h, const double *m, int i, int j)
{
    return m[gd__history_row(h, i) * h->rows + gd__history_row(h, j)];
}
/* The rows of the pairs as matrices [pairs, n], the oldest first; new tensors of the current scope. */
GD_NODISCARD gd_status gd__history_matrices(gd_history *h, gd_tensor **s, gd_tensor **y);

/* Before there is a pair: the update, scaled to a 1-norm of at most 1 with scale_first. */
GD_NODISCARD gd_status gd__history_first(gd_history *h, gd_tensor *const *update, gd_tensor **out);
/* The Hessian before there is a pair. */
gd_linop *gd__history_identity(const gd_history *h);

/* The link itself: takes the pair of this step (update), and makes the update what fn says (apply). */
typedef gd_status (*gd_direction_fn)(gd_history *h, gd_tensor *const *update, gd_tensor **out);
GD_NODISCARD gd_status gd__limited_memory(gd_link *link, gd_var *var, bool update, bool apply, bool uses_ss,
                                          gd_direction_fn fn);

#endif
