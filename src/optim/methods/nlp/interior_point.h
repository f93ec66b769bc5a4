/* The interior point: min f(x) + cost t under c(x) + E t = 0, low <= x <= high, t >= 0, in plain doubles. */
#ifndef GD_OPTIM_METHODS_NLP_INTERIOR_POINT_H
#define GD_OPTIM_METHODS_NLP_INTERIOR_POINT_H

#include "gradus/base.h"
#include "optim/methods/nlp/ldl.h"

/* The problem. Tails t are variables that appear in one row each, with a sign and a cost: slacks of inequalities, and violations of elastic
 * rows.  They are eliminated, so the linear systems have the order variables + rows. */
typedef struct gd_ip_problem {
    int64_t n, rows, tails;
    const double *low, *high;  /* [n], low < high */
    const int64_t *row;        /* [tails] */
    const double *sign, *cost; /* [tails] */
    int64_t slacks;            /* the first of the tails, of inequalities c + t = 0 */
    void *user;
    /* At x, which may be rounded to the dtype of the parameters; a value that is not finite is not an error. */
    gd_status (*values)(void *user, double *x, double *f, double *c);
    gd_status (*first)(void *user, const double *x, double *g,
                       double *j); /* gradient [n], Jacobian [rows, n] */
    /* weight f'' + sum y c'' [n, n], both triangles */
    gd_status (*second)(void *user, const double *x, double weight, const double *y, double *w);
} gd_ip_problem;

typedef struct gd_ip_options {
    double tol, violation_tol; /* of the scaled conditions; of rows as they were given */
    double first_mu, least_mu;
    double push;       /* how far inside its bounds a start is moved */
    double theta_most; /* violation that is never accepted, by that of the start */
    int max_steps, corrections;
    bool adaptive;      /* barrier parameter; else monotone */
    bool scaled;        /* by the gradients at the start */
    bool least_squares; /* first multipliers */
    bool thorough;      /* relax slacks that collapse, scale again, look at the curvature, restore */
} gd_ip_options;

/* Why it ended. */
typedef enum gd_ip_end {
    GD_IP_GOES_ON,
    GD_IP_SOLVED,
    GD_IP_STALLED, /* no progress; `error` is the remaining error */
    GD_IP_SINGULAR,
    GD_IP_NOT_FINITE,
    GD_IP_BAD_START,
    GD_IP_LIMIT,
    GD_IP_UNBOUNDED,
    GD_IP_INFEASIBLE,
    GD_IP_RESTORE /* no step is accepted, and rows are violated */
} gd_ip_end;

/* Numbers kept from step to step; all are doubles, so that they are saved as such. */
typedef struct gd_ip_numbers {
    double mu, is_free, weight; /* weight: of f */
    double theta_most, theta_least, last_shift;
    double kicks, tiny, steps, restorations;
    double first_f, first_size;
    double seen, least_seen, recent[4]; /* errors while the barrier is adaptive */
    double filter;                      /* pairs */
} gd_ip_numbers;

#define GD_IP_FILTER 200 /* pairs, at most */

typedef struct gd_ip {
    const gd_ip_problem *p;
    gd_ip_options o;
    int64_t n, rows, all; /* all: variables and tails */
    gd_ip_numbers k;
    /* kept from step to step */
    double *x;       /* [all] */
    double *y;       /* [rows] */
    double *zl, *zu; /* [all] */
    double *scale;   /* [rows] */
    double *relaxed; /* [rows] by how much a row may exceed 0 */
    double *filter;  /* pairs of violation and barrier function */
    /* of the point */
    double f, *c, *r; /* scaled; r: c + tails */
    double *g, *j;    /* scaled; g [all] */
    double error, dual, violation;
    /* room */
    double *low, *high, *w, *matrix, *b, *b2, *dx, *dy, *dx2, *dy2, *dzl, *dzu, *trial, *ct, *rt, *cc,
        *barrier;
    double *room; /* for bordered.c; the same as ldl.a */
    gd_ldl ldl;
} gd_ip;

gd_ip_options gd__ip_defaults(void);
/* The number of doubles it needs, and assigning them. */
int64_t gd__ip_room(const gd_ip_problem *p);
void gd__ip_open(gd_ip *e, const gd_ip_problem *p, const gd_ip_options *o, double *room);
/* How many of the first of them are kept from step to step, including x. */
int64_t gd__ip_kept(const gd_ip_problem *p);

/* From x [n] on, tails that are not slacks where e->x has them.  *end: GOES_ON or BAD_START. */
gd_status gd__ip_start(gd_ip *e, const double *x, gd_ip_end *end);
/* f, c and their derivatives at x, which a caller that continues from kept numbers asks for first. */
gd_status gd__ip_look(gd_ip *e);
/* One step, or the end. */
gd_status gd__ip_step(gd_ip *e, gd_ip_end *end);

/* For restoration: does the filter take a point with these values? */
double gd__ip_violation(const gd_ip *e, const double *c, const double *x, double *most);
double gd__ip_barrier(const gd_ip *e, double f, const double *x, double mu);
bool gd__ip_accepts(const gd_ip *e, double theta, double phi);
void gd__ip_forbid(gd_ip *e, double theta, double phi);
/* Continues from e->x, whose f and c are known: multipliers by least squares, bounds' by mu. */
gd_status gd__ip_go_on_from(gd_ip *e);

/* A direction d [n] of length 1 along which w is negative, below -tol max(1, |w|), that leaves rows j [m, n] and elements with held[i]
 * unchanged; false: there is none.  room: gd__bordered_room(n, m). */
bool gd__falling_direction(int64_t n, int64_t m, const double *w, const double *j, const bool *held,
                           double tol, double *d, double *room);
/* y [m] that makes |J'y + r| least, of nearly the least norm if rows are linearly dependent.  room: gd__bordered_room(n, m). */
void gd__least_norm(int64_t n, int64_t m, const double *j, const double *r, double *y, double *room);
int64_t gd__bordered_room(int64_t n, int64_t m); /* doubles */

#endif
