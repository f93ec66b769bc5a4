/* gradus/search.h: for links that look for the lowest of many minima, by losses of many points or from many starts.
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
 * link keeps where it began and the lowest point, as state `start` and `best`; nothing of a step is kept where it fails. */
#ifndef GRADUS_SEARCH_H
#define GRADUS_SEARCH_H

#include "gradus/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step of a search.  Its arrays have n numbers, are the step's memory, and may be written. */
typedef struct gd_search {
    gd_link *link;
    gd_var *var;
    int64_t n;
    double *x;             /* where the parameters are */
    double *low, *high;    /* their bounds, infinite where there are none */
    double *start;         /* where they were at the first step */
    double *best;          /* the lowest point so far, the start where none is finite */
    double best_loss;      /* INFINITY: none is finite */
    double best_violation; /* of the constraints there; 0: there are none */
    bool constrained;      /* gd_search_begin_constrained, and the objective has constraints */
    bool first;            /* nothing was kept before this step */
} gd_search;

/* Reads parameters, bounds and what the link kept; other parameters than before: the link is reset.  gd_minimize is told that
 * this is no search for the nearest minimum (gd_var_note_search).  NOT_IMPLEMENTED: the objective has constraints. */
GD_NODISCARD gd_status gd_search_begin(gd_search *s, gd_link *link, gd_var *var);
/* The same for a link whose child satisfies constraints (gd_var_note_constraints); gd_search_offer_constrained then ranks the points.
 * NOT_IMPLEMENTED: the link stands inside the link that does so, and sees an objective with penalties. */
GD_NODISCARD gd_status gd_search_begin_constrained(gd_search *s, gd_link *link, gd_var *var);
/* The loss where the parameters are becomes that of the step: known where they are at the lowest point, else evaluated. */
GD_NODISCARD gd_status gd_search_here(gd_search *s);
/* Reads the bounds again, which a child of the link may have set; x is moved onto them, as the parameters were. */
GD_NODISCARD gd_status gd_search_look(gd_search *s);
/* Zeroed memory for the rest of the step; NULL on failure. */
double *gd_search_numbers(gd_search *s, int64_t count);
/* Numbers that the link keeps, as state of that name, f64: read back where there are so many, else false; and kept. */
bool gd_search_kept(gd_search *s, const char *name, int64_t count, double *out);
GD_NODISCARD gd_status gd_search_keep(gd_search *s, const char *name, int64_t count, const double *values);

/* The size of element i: the distance of its bounds where it has two, else max(1, |start|); 0 where bounds fix it. */
double gd_search_scale(const gd_search *s, int64_t i);
/* A number brought between the bounds of element i by reflection; NaN stays. */
double gd_search_reflect(const gd_search *s, int64_t i, double x);
/* Random numbers of the link [count]. */
GD_NODISCARD gd_status gd_search_draw(gd_search *s, gd_random_kind kind, int64_t count, double *out);
/* k points [k, n] spread evenly: one in each of k slices of every element's range (a Latin hypercube), which is between its bounds,
 * without two of them within its size of the start. */
GD_NODISCARD gd_status gd_search_spread(gd_search *s, int64_t k, double *points);
/* gd_var_evaluate_many; the points become what the parameters would hold, and the lowest is offered. */
GD_NODISCARD gd_status gd_search_evaluate(gd_search *s, int64_t k, double *points, double *losses);
/* The lowest point becomes x where loss is lower; not under constraints. */
void gd_search_offer(gd_search *s, const double *x, double loss);
/* Under constraints: among points that violate them by at most tol the lower loss wins, else the smaller violation.  True: x is the best
 * now. */
bool gd_search_offer_constrained(gd_search *s, const double *x, double loss, double violation, double tol);

/* The end of the step: the update leads from where the parameters are to the lowest point; as the last link it sets them to
 * exactly that. */
GD_NODISCARD gd_status gd_search_end(gd_search *s);
/* The same without an update of its own: that of a child stays. */
GD_NODISCARD gd_status gd_search_stay(gd_search *s);
/* The same to another point, whatever stands after the link: the parameters are set, and no further link runs. */
GD_NODISCARD gd_status gd_search_jump(gd_search *s, const double *x);

#ifdef __cplusplus
}
#endif
#endif
