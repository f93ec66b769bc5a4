#include "solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sweep {
    char set_name[40], method[40];
    long size;
    int count, solved;
    double evals, seconds, digits; /* of all, sums over those that are solved */
    double *each, *times;
} sweep;

static solve_fn solver;

double solve_tolerance(const problem *p) { return problem_size(p) > 1000 ? 1e-6 : 1e-8; }

static void *open_sweep(void)
{
    sweep *s = calloc(1, sizeof *s);
    if (!s) abort();
    strncpy(s->set_name, peer_word("set", ""), sizeof s->set_name - 1);
    strncpy(s->method, peer_word("method", ""), sizeof s->method - 1);
    s->size = (long)peer_number("size", 0);
    s->count = problem_count(s->set_name);
    double most = peer_number("most", 0);
    if (most > 0 && most < s->count) s->count = (int)most;
    if (!s->count) {
        free(s);
        return peer_missing("the problems are not there (NIST: GRADUS_NIST names the folder of the files)");
    }
    s->each = calloc((size_t)s->count, sizeof *s->each);
    s->times = calloc((size_t)s->count, sizeof *s->times);
    if (!s->each || !s->times) abort();
    return s;
}

static void solve_one(sweep *s, int number)
{
    problem *p = problem_open(s->set_name, s->size ? s->size : number);
    int n = problem_size(p);
    double *x = malloc((size_t)n * sizeof *x), seconds;
    if (!x) abort();
    memcpy(x, problem_start(p), (size_t)n * sizeof *x);
    double begun = peer_now(), loss = solver(p, s->method, x);
    s->seconds += peer_now() - begun;
    int evals = problem_solved(p, x, loss, &seconds);
    s->each[number] = evals;
    s->times[number] = evals ? seconds : 0;
    s->solved += evals > 0;
    s->evals += problem_evals(p);
    s->digits += problem_digits(p, x);
    free(x);
    problem_close(p);
}

static void run_sweep(void *job)
{
    sweep *s = job;
    s->solved = 0;
    s->evals = s->seconds = s->digits = 0;
    for (int i = 0; i < s->count; i++) solve_one(s, i);
}

static void result_of(void *job, peer_result *out)
{
    sweep *s = job;
    out->seconds = s->seconds;
    out->evals = s->evals;
    out->solved = s->solved;
    out->each = s->each;
    out->times = s->times;
    out->count = s->count;
    if (!strcmp(s->set_name, "nist")) out->digits = s->digits / s->count;
}

static void close_sweep(void *job)
{
    sweep *s = job;
    free(s->each);
    free(s->times);
    free(s);
}

int solve_main(const char *version, solve_fn fn, const peer_kind *more)
{
    peer_kind kinds[18] = {{"solve", open_sweep, run_sweep, result_of, close_sweep}};
    for (int i = 0; more && more[i].name && i < 16; i++) kinds[i + 1] = more[i];
    solver = fn;
    return peer_main(version, kinds);
}
