/* gradus_bench [--json] [NAME...]: runs the named benchmarks, or all.  Exit 1 when a limit is missed. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct row {
    const char *name, *help;
    void (*run)(void);
} row;

static const row rows[] = {
#define BENCH(name, help) {#name, help, bench_##name},
#include "benches.def"
#undef BENCH
};

#define ROWS (sizeof rows / sizeof *rows)

static bool json;
static int lines, missed;

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

static double median(double *v, int n)
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

double bench_time(bench_fn fn, void *arg)
{
    double took[REPEATS];
    long calls = calls_for(fn, arg, 0.03);
    (void)per_call(fn, arg, calls); /* a processor at rest is slow at first */
    for (int r = 0; r < REPEATS; r++) took[r] = per_call(fn, arg, calls);
    return median(took, REPEATS);
}

void bench_compare(bench_fn ours, void *our_arg, bench_fn other, void *other_arg, double *our_time,
                   double *other_time)
{
    double first[REPEATS], second[REPEATS];
    long a = calls_for(ours, our_arg, 0.05), b = calls_for(other, other_arg, 0.05);
    for (int r = 0; r < REPEATS; r++) {
        first[r] = per_call(ours, our_arg, a);
        second[r] = per_call(other, other_arg, b);
    }
    *our_time = median(first, REPEATS);
    *other_time = median(second, REPEATS);
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
    fprintf(stderr, "%s: %s\n", gd_status_name(gd_error(ctx)), gd_error_text(ctx));
    exit(1);
}

/* ---- reports ---- */

void bench_report(report r)
{
    double ratio = r.against && r.value > 0 ? r.other / r.value : 0;
    bool good = (r.limit <= 0 || r.value <= r.limit) &&
                (r.ratio_limit <= 0 || !r.against || ratio >= r.ratio_limit);
    if (!good) missed++;
    if (json) {
        printf("%s\n  {\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"", lines++ ? "," : "[", r.name,
               r.value, r.unit);
        if (r.against)
            printf(", \"against\": \"%s\", \"other\": %.6g, \"ratio\": %.4g", r.against, r.other, ratio);
        if (r.limit > 0) printf(", \"limit\": %.6g", r.limit);
        if (r.ratio_limit > 0) printf(", \"ratio_limit\": %.6g", r.ratio_limit);
        printf(", \"good\": %s}", good ? "true" : "false");
        return;
    }
    printf("%-28s %10.4g %-3s", r.name, r.value, r.unit);
    if (r.against) printf("  %s %.4g %s, ratio %.3f", r.against, r.other, r.unit, ratio);
    if (r.limit > 0) printf("  (at most %.4g)", r.limit);
    if (r.ratio_limit > 0) printf("  (at least %.2f)", r.ratio_limit);
    printf("%s\n", good ? "" : "  MISSED");
    fflush(stdout);
}

static int usage(FILE *out)
{
    fprintf(out, "gradus_bench [--json] [NAME...]\n");
    for (size_t i = 0; i < ROWS; i++) fprintf(out, "  %-14s %s\n", rows[i].name, rows[i].help);
    return out == stdout ? 0 : 2;
}

static const row *find(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

int main(int argc, char **argv)
{
    int named = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) return usage(stdout);
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!find(argv[i]))
            return usage(stderr);
        else
            named++;
    }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") != 0) find(argv[i])->run();
    for (size_t i = 0; i < ROWS && !named; i++) rows[i].run();
    if (json) printf("%s]\n", lines ? "\n" : "[");
    return missed ? 1 : 0;
}
