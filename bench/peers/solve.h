/* The kind "solve" of a peer in C: set=SET size=SIZE method=METHOD. */
#ifndef GD_PEER_SOLVE_H
#define GD_PEER_SOLVE_H

#include "peer.h"
#include "problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Goes from x to a minimum, by that method of the peer, which x is then, and returns the loss there.  It stops where the largest
 * element of the gradient is 1e-8 (large problems: 1e-6), or as near to that as the peer's rules come; problem_over ends it too. */
typedef double (*solve_fn)(problem *p, const char *method, double *x);

/* peer_main with that kind and those of `more`, at most sixteen. */
int solve_main(const char *version, solve_fn fn, const peer_kind *more);

double solve_tolerance(const problem *p);

#ifdef __cplusplus
}
#endif
#endif
