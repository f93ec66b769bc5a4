/* What CasADi makes of the functions of trace_cases.c, as C (trace_casadi.py), for callgrind to count: the cases run in a process of their
 * own, which finds the library by the environment. */
#include "bench.h"
#include "trace/trace_cases.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHERE "GRADUS_BENCH_CASADI"

typedef int (*casadi_function)(const double **in, double **out, long long *integers, double *room,
                               int memory);
typedef int (*casadi_sizes)(long long *in, long long *out, long long *integers, long long *room);

static void *symbol_of(void *library, const char *name, const char *end)
{
    char symbol[40];
    (void)snprintf(symbol, sizeof symbol, "%s%s", name, end);
    return library ? dlsym(library, symbol) : NULL;
}

static void count_casadi(const char *name, long repeats)
{
    static const double x[6] = {0.7, 0.9, 0.6, 0.4, 0.5, 0.3};
    const char *path = getenv(WHERE);
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    void *symbols[2] = {symbol_of(library, name, ""), symbol_of(library, name, "_work")};
    casadi_function f;
    casadi_sizes sizes;
    if (!symbols[0] || !symbols[1]) exit(1);
    memcpy(&f, &symbols[0], sizeof f);
    memcpy(&sizes, &symbols[1], sizeof sizes);
    long long in, out, integers, room;
    (void)sizes(&in, &out, &integers, &room);
    double value, grad[6], *results[8] = {&value, grad}, *work = calloc((size_t)room + 1, sizeof *work);
    const double *inputs[8] = {x};
    for (long i = 0; i < repeats && work; i++) (void)f(inputs, results, NULL, work, 0);
    free(work);
    (void)dlclose(library);
}

static void count_valley(long repeats) { count_casadi("valley", repeats); }
static void count_rollout(long repeats) { count_casadi("rollout", repeats); }

const bench_case bench_casadi_cases[] = {
    {"casadi-valley", count_valley}, {"casadi-rollout", count_rollout}, {0}};

bool bench_casadi_open(void)
{
    char path[500] = "";
    FILE *out = bench_python("trace_casadi.py", 1);
    bool found = out && fgets(path, sizeof path, out);
    if (out) (void)pclose(out);
    path[strcspn(path, "\n")] = 0;
    if (found && path[0] == '/') return setenv(WHERE, path, 1) == 0;
    bench_note("not compared with, because Python does not have it:", "CasADi");
    return false;
}

void bench_casadi_close(void)
{
    char path[500];
    const char *given = getenv(WHERE);
    if (!given) return;
    (void)snprintf(path, sizeof path, "%s", given);
    (void)unlink(path);
    *strrchr(path, '/') = 0;
    (void)rmdir(path);
    (void)unsetenv(WHERE);
}
