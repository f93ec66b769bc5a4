/* Functions that the benchmarks of traced functions measure. */
#ifndef GD_BENCH_TRACE_CASES_H
#define GD_BENCH_TRACE_CASES_H

#include "count.h"
#include "gradus/trace.h"

/* Rosenbrock's function of two numbers; the chained one of many; 200 Runge-Kutta steps of a predator-prey model from a start and
 * four rates, the loss at the end; ten element-wise operators. */
gd_tensor *bench_valley(void *user, gd_tensor *const *in, int count);
gd_tensor *bench_chained(void *user, gd_tensor *const *in, int count);
gd_tensor *bench_rollout(void *user, gd_tensor *const *in, int count);
gd_tensor *bench_scan(void *user, gd_tensor *const *in, int count);
gd_tensor *bench_ten(void *user, gd_tensor *const *in, int count);

extern const bench_case bench_trace_cases[]; /* ended by a row without a name */

/* The first two by CasADi's C, between open and close.  False, and said: Python does not have it. */
extern const bench_case bench_casadi_cases[];
bool bench_casadi_open(void);
void bench_casadi_close(void);

#endif
