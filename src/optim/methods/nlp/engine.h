/* Declarations that interior_point.c and safeguards.c share. */
#ifndef GD_OPTIM_METHODS_NLP_ENGINE_H
#define GD_OPTIM_METHODS_NLP_ENGINE_H

#include "optim/methods/nlp/interior_point.h"

#include <math.h>
#include <stdbool.h>

static inline bool has_low(const gd_ip *e, int64_t i) { return e->low[i] > -INFINITY; }
static inline bool has_high(const gd_ip *e, int64_t i) { return e->high[i] < INFINITY; }
static inline double below(const gd_ip *e, const double *x, int64_t i) { return x[i] - e->low[i]; }
static inline double above(const gd_ip *e, const double *x, int64_t i) { return e->high[i] - x[i]; }

static inline double most_of(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(x[i]));
    return most;
}

static inline bool all_finite(const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static inline void forget_filter(gd_ip *e) { e->k.filter = 0; }

static inline void forget_errors(gd_ip *e)
{
    e->k.seen = 0;
    e->k.least_seen = INFINITY;
}

/* c + E t into r; scaled values at x, with the costs of the tails; derivatives at e->x; its Hessian into e->w; grad L [all]. */
void gd__ip_rows(const gd_ip *e, const double *c, const double *x, double *r);
gd_status gd__ip_values(gd_ip *e, double *x, double *f, double *c);
gd_status gd__ip_derive(gd_ip *e);
gd_status gd__ip_curvature(gd_ip *e);
void gd__ip_stationarity(gd_ip *e, double *out);

/* Safeguards.  True if the scale of f has changed; a possible false minimum; *left: the point was a saddle and has been left. */
double gd__ip_factor(double most); /* 100 by the largest of a gradient, at most 1 */
bool gd__ip_scale_anew(gd_ip *e);
bool gd__ip_is_far(gd_ip *e);
gd_status gd__ip_leave_saddle(gd_ip *e, bool *left);
/* Rows without an interior get one; unbounded multipliers are cut. */
void gd__ip_relax(gd_ip *e);
void gd__ip_cut_multipliers(gd_ip *e);

#endif
