/* gradus/link/search.h: for links that search for a global minimum, by losses of many points or from many starts.
 *
 *     static gd_status sample_step(gd_link *link, gd_var *var)
 *     {
 *         gd_search s;
 *         double losses[8], *points = NULL;
 *         gd_status status = gd_search_begin(&s, link, var);
 *         if (!status) status = gd_search_here(&s);
 *         if (!status && !(points = gd_search_numbers(&s, 8 * s.n))) status = gd_error(gd_var_ctx(var));
 *         if (!status) status = gd_search_spread(&s, 8, points);
 *         if (!status) status = gd_search_evaluate(&s, 8, points, losses);
 *         return status ? status : gd_search_end(&s);
 *     }
 *
 * It is the .step of a class with needs_closure (gradus/link.h).  All parameters are one point, their elements in their order.  The
 * link keeps its start and the lowest point as state `start` and `best`; a failed step changes neither. */
#ifndef GRADUS_SEARCH_H
#define GRADUS_SEARCH_H

#include "gradus/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step of a search.  Its arrays have n numbers, are freed with the step, and may be written. */
typedef struct gd_search {
    gd_link *link;
    gd_var *var;
    int64_t n;
    double *x;             /* the parameters */
    double *low, *high;    /* their bounds, infinite if there are none */
    double *start;         /* the parameters at the first step */
    double *best;          /* the lowest point so far, the start if no loss was finite */
    double best_loss;      /* INFINITY: no loss was finite */
    double best_violation; /* of the constraints there; 0 without constraints */
    bool constrained;      /* gd_search_begin_constrained, and the objective has constraints */
    bool first;            /* this is the first step */
} gd_search;

/* Reads parameters, bounds and the link's state; if the parameters have changed the link is reset.  Tells gd_minimize that this
 * is a global search (gd_var_note_search).  NOT_IMPLEMENTED: the objective has constraints. */
GD_NODISCARD gd_status gd_search_begin(gd_search *s, gd_link *link, gd_var *var);
/* The same for a link whose child satisfies constraints (gd_var_note_constraints); gd_search_offer_constrained then ranks the points.
 * NOT_IMPLEMENTED: the link is inside the link that does so, and its objective has penalties. */
GD_NODISCARD gd_status gd_search_begin_constrained(gd_search *s, gd_link *link, gd_var *var);
/* Sets the loss of the step to that of the current parameters: known at the lowest point, else evaluated. */
GD_NODISCARD gd_status gd_search_here(gd_search *s);
/* Reads the bounds again, which a child of the link may have set, and moves x onto them like the parameters. */
GD_NODISCARD gd_status gd_search_refresh(gd_search *s);
/* Zeroed memory for the rest of the step; NULL on failure. */
double *gd_search_numbers(gd_search *s, int64_t count);
/* Numbers in the link's state of that name, f64: reads them, false if there are not that many; and stores them. */
bool gd_search_kept(gd_search *s, const char *name, int64_t count, double *out);
GD_NODISCARD gd_status gd_search_keep(gd_search *s, const char *name, int64_t count, const double *values);

/* The size of element i: the distance of its bounds if it has two, else max(1, |start|); 0 if bounds fix it. */
double gd_search_scale(const gd_search *s, int64_t i);
/* Reflects a number into the bounds of element i; NaN stays. */
double gd_search_reflect(const gd_search *s, int64_t i, double x);
/* Random numbers of the link [count]. */
GD_NODISCARD gd_status gd_search_draw(gd_search *s, gd_random_kind kind, int64_t count, double *out);
/* k evenly spread points [k, n]: one in each of k slices of every element's range (a Latin hypercube).  The range is between
 * the bounds, without two bounds the start plus or minus the element's size. */
GD_NODISCARD gd_status gd_search_spread(gd_search *s, int64_t k, double *points);
/* Calls gd_var_evaluate_many, rounds the points to the parameters' dtypes, and offers the lowest. */
GD_NODISCARD gd_status gd_search_evaluate(gd_search *s, int64_t k, double *points, double *losses);
/* Makes x the lowest point if its loss is lower; not under constraints. */
void gd_search_offer(gd_search *s, const double *x, double loss);
/* Under constraints: among points that violate them by at most tol the lower loss wins, else the smaller violation.  True: x is the
 * best point now. */
bool gd_search_offer_constrained(gd_search *s, const double *x, double loss, double violation, double tol);

/* Ends the step: the update leads from the parameters to the lowest point; the last link sets the parameters to exactly that
 * point. */
GD_NODISCARD gd_status gd_search_end(gd_search *s);
/* The same with the update of a child. */
GD_NODISCARD gd_status gd_search_stay(gd_search *s);
/* The same to a different point: the parameters are set, and no later link runs. */
GD_NODISCARD gd_status gd_search_jump(gd_search *s, const double *x);

#ifdef __cplusplus
}
#endif
#endif
