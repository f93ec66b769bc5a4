/* The 115 problems of bench/peers beside NLopt's LBFGS: seconds from the opening of a problem to the first point that is as good as asked
 * for, the contexts, chains and callbacks of both included.  Programs of bench/peers solve them, one thread each. */
#include "bench.h"
#include "small/small_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef GD_BENCH_SET_PEER

#define MOST   200 /* problems */
#define ROUNDS 5   /* of both programs in turn */
#define SWEEPS 3   /* of a program; the fastest time of each problem counts */

typedef struct sweep {
    int count;
    double seconds[MOST]; /* 0: not solved */
} sweep;

/* A line of a peer: "times": [0.000123, 0, ...]. */
static void take_times(const char *line, sweep *s)
{
    const char *at = strstr(line, "\"times\": [");
    int k = 0;
    for (at = at ? at + strlen("\"times\": [") : NULL; at && *at && *at != ']' && k < MOST; k++) {
        char *end;
        double seconds = strtod(at, &end);
        if (end == at) return;
        if (k == s->count) s->seconds[s->count++] = seconds;
        if (seconds > 0 && !(seconds >= s->seconds[k] && s->seconds[k] > 0)) s->seconds[k] = seconds;
        at = *end == ',' ? end + 1 : end;
    }
}

static void solve_all(const char *program, const char *method, sweep *s)
{
    static char line[1 << 14];
    char command[1200];
    (void)snprintf(
        command, sizeof command,
        "{ echo open solve set=minimize method=%s; for i in $(seq %d); do echo go 0; done; echo close; } | "
        "OMP_NUM_THREADS=1 '%s'",
        method, SWEEPS, program);
    FILE *out = popen(command, "r");
    while (out && fgets(line, sizeof line, out)) take_times(line, s);
    if (out) (void)pclose(out);
}

static void report_times(const sweep *ours, const sweep *other)
{
    int both = 0, our_solved = 0, other_solved = 0;
    double our_sum = 0, other_sum = 0, logs = 0;
    for (int k = 0; k < ours->count; k++) {
        our_solved += ours->seconds[k] > 0;
        other_solved += other->seconds[k] > 0;
        if (!(ours->seconds[k] > 0 && other->seconds[k] > 0)) continue;
        both++;
        our_sum += ours->seconds[k];
        other_sum += other->seconds[k];
        logs += log(ours->seconds[k] / other->seconds[k]);
    }
    if (!both) return;
    bench_report((report){.name = "115 problems, solved",
                          .value = our_solved,
                          .unit = "",
                          .against = "NLopt's LBFGS:",
                          .other = other_solved});
    bench_report((report){.name = "those both solve, in all",
                          .value = 1e3 * our_sum,
                          .unit = "ms",
                          .against = "NLopt's LBFGS:",
                          .other = 1e3 * other_sum,
                          .ratio_limit = 1});
    bench_report((report){.name = "geometric mean of the times, by NLopt's",
                          .value = exp(logs / both),
                          .unit = "x",
                          .limit = 1});
}

void bench_small_set(void)
{
    sweep ours = {0}, other = {0};
    for (int round = 0; round < ROUNDS; round++) {
        solve_all(GD_BENCH_SET, "default", &ours);
        solve_all(GD_BENCH_SET_PEER, "lbfgs", &other);
    }
    if (ours.count && ours.count == other.count) report_times(&ours, &other);
}

#else

void bench_small_set(void) {} /* bench_missing_peers names NLopt */

#endif
