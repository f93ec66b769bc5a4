/* What the files problem*.c share. */
#ifndef GD_PEER_PROBLEM_PARTS_H
#define GD_PEER_PROBLEM_PARTS_H

#include "gradus/autograd.h"
#include "problem.h"

#define PROBLEM_EVALS  20000
#define PROBLEM_MINIMA 4

typedef struct problem_class problem_class;

struct problem {
    const problem_class *cls;
    gd_ctx *ctx;
    void *job; /* the class's own */
    const char *name;
    int n, rows;
    double *start, *low, *high;
    double *certified;              /* where a fit should end; NULL: the loss tells */
    double minimum[PROBLEM_MINIMA]; /* and how far from it is near enough */
    double margin[PROBLEM_MINIMA];
    int minima;
    double *loss, *time; /* of each evaluation */
    int evals, reached;  /* the first evaluation that was good enough by itself, for classes that tell */
    double begun, used, reached_at;
};

/* One for each set.  `open` fills the problem, false: there is none of that number. */
struct problem_class {
    const char *name;
    int (*count)(void);
    bool (*open)(problem *p, long number);
    double (*evaluate)(problem *p, const double *x, double *g);
    void (*residuals)(problem *p, const double *x, double *r, double *j);
    double (*digits)(const double *got, const double *want, int count);
    void (*close)(problem *p);
};

extern const problem_class problem_minimize, problem_bounds, problem_nist, problem_chained, problem_paired,
    problem_quadratic;

/* The fits of "nist" as gradus takes them: numbers as tensors, and residuals made of operators. */
gd_tensor *const *problem_params(problem *p);
gd_tensor *problem_operators(void *p);
void problem_record(problem *p, double loss); /* an evaluation */

double *problem_numbers(int n); /* zeros; ends the program where there is no memory */
void problem_check(gd_ctx *ctx);
/* Of a scalar made of operators at x: its value, and the gradient in g. */
double problem_value_of(problem *p, gd_tensor *at, gd_tensor *(*fn)(void *job), const double *x, double *g);

#endif
