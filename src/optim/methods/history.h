/* Data of history.c that history_bounds.c, its part for bounds, uses too. */
#ifndef GD_OPTIM_METHODS_HISTORY_H
#define GD_OPTIM_METHODS_HISTORY_H

#include "gradus/autograd.h"
#include "gradus/link/quasi_newton.h"
#include "optim/vector/layout.h"

#define GD_SOME_PAIRS 32      /* processed together */
#define GD_FLAT_PAIR  2.3e-16 /* s y / y y up to which a pair is left out of directions inside bounds */

typedef struct gd_history {
    gd_link *link;
    gd_layout layout;
    gd_tensor *const *params;
    int most, rows, pairs, newest;
    double *kept_pairs, *kept_newest; /* where the link keeps the last two */
    gd_tensor *s, *y, *gram;          /* borrowed from the link */
    double *ss, *sy, *yy;             /* [rows][rows] inside gram */
    double *s_dots, *y_dots;          /* products of the rows with the update, by row */
    double *sums;                     /* room for those of one reading */
    bool uses_ss;                     /* products s s, and s y both ways, are kept too */
    gd_optimizer
        *shared;   /* each rank has its own columns, spans of other ranks begin at -1; NULL: all columns */
    int64_t width; /* columns of this rank */
    bool own;      /* then update and direction are this rank's shards */
} gd_history;

/* Row of the k-th pair, the oldest being 0. */
static inline int gd__history_row(const gd_history *h, int k)
{
    return (h->newest + 1 + (h->rows - h->pairs) + k) % h->rows;
}
static inline char *gd__history_at(const gd_history *h, gd_tensor *matrix, int row)
{
    return matrix->data + (size_t)row * (size_t)h->width * h->layout.item;
}

/* A list as one vector; NULL with the error recorded. */
gd_tensor *gd__history_vector(const gd_history *h, gd_tensor *const *list);
/* The pairs in their order. */
gd_status gd__history_matrices(gd_history *h, gd_tensor **s, gd_tensor **y);
/* c times the update and coefficients times the rows. */
gd_status gd__history_combine(gd_history *h, gd_tensor *const *update, double c, const double *cs,
                              const double *cy, gd_tensor **out);

/* A tensor of the link with these sizes, created (then *made) if it is missing or has different sizes. */
gd_tensor *gd__history_held(gd_history *h, const char *name, const gd_layout *like, int ndim,
                            const int64_t *size, bool *made);

/* ---- history_share.c ---- */

/* May the history be sharded for the update of a step? If not, every rank has all of it, as when operators run over whole vectors. */
bool gd__history_is_shared(const gd_link *link, const gd_var *var);
/* The position of a span in this rank's shards of a list. */
void *gd__history_own_at(const gd_history *h, gd_tensor *const *list, const gd_span *span);
/* New tensors of the current scope for this rank's shards of a list. */
gd_status gd__history_own_new(const gd_history *h, gd_tensor **out);
/* The update, shortened by its 1-norm if scale is set. */
gd_status gd__history_own_first(const gd_history *h, gd_tensor *const *update, bool scale, gd_tensor **out);
void gd__history_find_columns(gd_history *h);
/* gd__history_held for a matrix of all columns, of which this rank keeps its own. */
gd_tensor *gd__history_columns(gd_history *h, const char *name, bool *made);
/* The previous value of a parameter's state, or this rank's shard of it; the present one is kept in its place. */
gd_tensor *gd__history_previous(gd_history *h, int i, const char *name);
gd_status gd__history_keep(gd_history *h, int i, const char *name, const gd_tensor *now, bool own);

/* The direction of the free block of the model: all products are over the free elements alone.  out has room for two lists. */
gd_status gd__history_direction_within(gd_history *h, gd_var *var, const gd_limited_memory *m,
                                       gd_tensor *const *update, gd_tensor **out);

#endif
