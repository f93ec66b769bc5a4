/* Restoration: if no step is accepted, the interior point minimises the violation. */
#ifndef GD_OPTIM_METHODS_NLP_RESTORATION_H
#define GD_OPTIM_METHODS_NLP_RESTORATION_H

#include "optim/methods/nlp/interior_point.h"

typedef struct gd_restoration {
    gd_ip *outer;
    gd_ip ip;
    gd_ip_problem p;
    struct {
        double theta, zeta; /* violation where it began; weight of the distance from there */
    } k;
    double *from; /* [n] where that was */
    double *c;    /* of the last point, in the scaling of outer */
    double f;
} gd_restoration;

/* Tails of the restoration of a problem: its own, and the violation of each row, above and below. */
int64_t gd__restoration_room(const gd_ip_problem *outer);
void gd__restoration_open(gd_restoration *r, gd_ip *outer, double *room);
/* Numbers kept from step to step, `from` first, then those of ip. */
int64_t gd__restoration_kept(const gd_ip_problem *outer);

gd_status gd__restoration_start(gd_restoration *r, gd_ip_end *end);
/* One step.  *end: RESTORE: it continues; GOES_ON: outer continues from the point that was found; INFEASIBLE or STALLED. */
gd_status gd__restoration_step(gd_restoration *r, gd_ip_end *end);

#endif
