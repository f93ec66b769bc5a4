/* What benchmarks share: the table, time, contexts, reports. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const bench_row bench_rows[] = {
#define BENCH(name, help) {#name, help, bench_##name},
#include "benches.def"
#undef BENCH
    {0},
};

const bench_row *bench_find(const char *name)
{
    for (const bench_row *row = bench_rows; row->name; row++)
        if (!strcmp(row->name, name)) return row;
    return NULL;
}

/* ---- time ---- */

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int bench_threads(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 2 ? 1 : 2;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* How many calls take about `seconds`, at least one. */
static long calls_for(bench_fn fn, void *arg, double seconds)
{
    long calls = 1;
    for (;;) {
        double start = bench_now();
        for (long i = 0; i < calls; i++) fn(arg);
        double took = bench_now() - start;
        if (took > seconds / 4 || calls > 100000000)
            return (long)((double)calls * seconds / (took + 1e-9)) + 1;
        calls *= 4;
    }
}

static double per_call(bench_fn fn, void *arg, long calls)
{
    double start = bench_now();
    for (long i = 0; i < calls; i++) fn(arg);
    return (bench_now() - start) / (double)calls;
}

#define REPEATS 15
#define FEWEST  5    /* that may be enough */
#define SPREAD  0.02 /* of the middle half of them, where they are */

double bench_time(bench_fn fn, void *arg)
{
    double took[REPEATS];
    long calls = calls_for(fn, arg, 0.03);
    (void)per_call(fn, arg, calls); /* a processor at rest is slow at first */
    for (int r = 0; r < REPEATS; r++) took[r] = per_call(fn, arg, calls);
    return bench_median(took, REPEATS);
}

static bool is_stable(const double *took, int count)
{
    double sorted[REPEATS];
    if (count < FEWEST) return false;
    memcpy(sorted, took, (size_t)count * sizeof *took);
    double median = bench_median(sorted, count);
    return sorted[count - 1 - count / 4] - sorted[count / 4] < SPREAD * median;
}

void bench_compare(bench_fn ours, void *our_arg, bench_fn other, void *other_arg, double *our_time,
                   double *other_time)
{
    double first[REPEATS], second[REPEATS];
    long a = calls_for(ours, our_arg, 0.05), b = calls_for(other, other_arg, 0.05);
    int count = 0;
    while (count < REPEATS && !(is_stable(first, count) && is_stable(second, count))) {
        first[count] = per_call(ours, our_arg, a);
        second[count++] = per_call(other, other_arg, b);
    }
    *our_time = bench_median(first, count);
    *other_time = bench_median(second, count);
}

/* ---- contexts ---- */

gd_ctx *bench_context(int threads)
{
    gd_options options = gd_options_default();
    options.threads = threads;
    gd_ctx *ctx = gd_ctx_new(&options);
    if (!ctx) {
        fprintf(stderr, "no memory for a context\n");
        exit(1);
    }
    return ctx;
}

void bench_check(gd_ctx *ctx)
{
    if (!gd_error(ctx)) return;
    fprintf(stderr, "gradus: bench: %s\n", gd_error_text(ctx));
    exit(1);
}

/* ---- other programs ---- */

FILE *bench_python(const char *script, int threads)
{
#ifdef GD_BENCH_DIR
    bool scipy = !strncmp(script, "scipy", 5);
    const char *python = getenv(scipy ? "GRADUS_SCIPY_PYTHON" : "GRADUS_TORCH_PYTHON");
    char command[1024];
    (void)snprintf(command, sizeof command, "%s '%s/%s' %d 2>/dev/null", python ? python : "python3",
                   GD_BENCH_DIR, script, threads);
    return popen(command, "r");
#else
    (void)script, (void)threads;
    return NULL;
#endif
}

/* ---- reports ---- */

/* Benchmarks take no argument, so this is how they reach the run they are part of. */
static bench_run *run;

void bench_begin(bench_run *r)
{
    run = r;
    if (r->json) r->line(r->user, "[");
}

void bench_end(bench_run *r)
{
    if (r->json) r->line(r->user, r->lines ? "\n]\n" : "]\n");
    run = NULL;
}

static void json_line(const report *r, double ratio, bool good, char *out, size_t size)
{
    char against[200] = "", limit[40] = "", ratio_limit[40] = "";
    if (r->against)
        (void)snprintf(against, sizeof against, ", \"against\": \"%s\", \"other\": %.6g, \"ratio\": %.4g",
                       r->against, r->other, ratio);
    if (r->limit > 0) (void)snprintf(limit, sizeof limit, ", \"limit\": %.6g", r->limit);
    if (r->ratio_limit > 0)
        (void)snprintf(ratio_limit, sizeof ratio_limit, ", \"ratio_limit\": %.6g", r->ratio_limit);
    (void)snprintf(out, size,
                   "%s\n  {\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"%s%s%s, \"good\": %s}",
                   run->lines ? "," : "", r->name, r->value, r->unit, against, limit, ratio_limit,
                   good ? "true" : "false");
}

static void text_line(const report *r, double ratio, bool good, char *out, size_t size)
{
    char against[200] = "", limit[40] = "", ratio_limit[40] = "";
    if (r->against)
        (void)snprintf(against, sizeof against, "  %s %.4g %s, ratio %.3f", r->against, r->other, r->unit,
                       ratio);
    if (r->limit > 0) (void)snprintf(limit, sizeof limit, "  (at most %.4g)", r->limit);
    if (r->ratio_limit > 0)
        (void)snprintf(ratio_limit, sizeof ratio_limit, "  (at least %.2f)", r->ratio_limit);
    (void)snprintf(out, size, "%-28s %10.4g %-3s%s%s%s%s\n", r->name, r->value, r->unit, against, limit,
                   ratio_limit, good ? "" : "  MISSED");
}

void bench_report(report r)
{
    char line[600];
    double ratio = r.against && r.value > 0 ? r.other / r.value : 0;
    bool good = (r.limit <= 0 || r.value <= r.limit) &&
                (r.ratio_limit <= 0 || !r.against || ratio >= r.ratio_limit);
    if (!good) run->missed++;
    (run->json ? json_line : text_line)(&r, ratio, good, line, sizeof line);
    run->lines++;
    run->line(run->user, line);
}

void bench_note(const char *text, const char *more)
{
    char line[600];
    if (run->json) return;
    (void)snprintf(line, sizeof line, "%s%s\n", text, more);
    run->line(run->user, line);
}
