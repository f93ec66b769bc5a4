/* gradus train against scikit-learn's networks, both with default settings; the reading of a table against pandas. */
#include "bench.h"
#include "train/data/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The program beside this one: its own path, or one folder up. */
static bool find_program(char *out, size_t size)
{
    char self[1024];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return false;
    self[length] = 0;
    for (char *slash = strrchr(self, '/'); slash; slash = strrchr(self, '/')) {
        *slash = 0;
        (void)snprintf(out, size, "%s/gradus", self);
        if (access(out, X_OK) == 0) return true;
    }
    return false;
}

static void report_set(const char *name, double difference, double error, double ours, double theirs)
{
    char text[120];
    (void)snprintf(text, sizeof text, "train, %.60s: worse by standard errors", name);
    bench_report((report){.name = text, .value = -difference / error, .unit = "", .limit = 2});
    (void)snprintf(text, sizeof text, "train, %.60s: time", name);
    bench_report((report){.name = text,
                          .value = 1e3 * ours,
                          .unit = "ms",
                          .against = "scikit-learn",
                          .other = 1e3 * theirs,
                          .ratio_limit = 3});
}

/* ---- reading ---- */

#define ROWS    1000000
#define COLUMNS 12

/* About 110 MB of numbers. */
static bool make_table(const char *path)
{
    FILE *f = fopen(path, "w");
    uint32_t seed = 1;
    if (!f) return false;
    for (int k = 0; k < COLUMNS; k++) fprintf(f, "x%d,", k);
    fprintf(f, "y\n");
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < COLUMNS; k++) {
            seed = seed * 1664525u + 1013904223u;
            fprintf(f, "%.6f,", (seed >> 8) / 4194304.0 - 2);
        }
        fprintf(f, "%d\n", i % 3);
    }
    return fclose(f) == 0;
}

typedef struct reading {
    gd_ctx *ctx;
    gd_row_stream s;
    gd_dataset data;
    gd_columns columns;
} reading;

static void read_all(void *arg)
{
    reading *r = arg;
    for (int64_t k = 0; k < r->s.blocks; k++) {
        gd_tensor *x, *y;
        if (gd__stream_read(&r->s, k, &r->columns, &r->data, &x, &y)) bench_check(r->ctx);
        gd_release(x);
        gd_release(y);
    }
}

/* The best of three. */
static double time_reading(const char *path)
{
    reading r = {.ctx = bench_context(bench_threads())};
    gd_data_request q = {.path = path, .target = "y", .task = GD_TASK_REGRESS};
    if (gd__stream_open(r.ctx, &q, &r.s) || gd__stream_sample(&r.s, &q, (int64_t[]){0}, 1, &r.data) ||
        gd__dataset_encode(&r.data, &r.columns, NULL, 0) ||
        gd__stream_survey(&r.s, &r.data, &r.columns, false))
        bench_check(r.ctx);
    double best = INFINITY;
    for (int i = 0; i < 3; i++) {
        double begin = bench_now();
        read_all(&r);
        best = fmin(best, bench_now() - begin);
    }
    gd__stream_close(&r.s);
    gd__columns_close(&r.columns);
    gd__dataset_close(&r.data);
    gd_ctx_free(r.ctx);
    return best;
}

/* The best of three by pandas, which takes as many threads as it likes; infinite where it is not there. */
static double time_pandas(void)
{
    char line[128] = "";
    double seconds;
    FILE *out = bench_python("scipy_csv.py", bench_threads());
    if (out && !fgets(line, sizeof line, out)) line[0] = 0;
    return out && pclose(out) == 0 && sscanf(line, "%lf", &seconds) == 1 ? seconds : INFINITY;
}

/* In turn, so that both meet the machine as it is. */
static void compare_reading(void)
{
    char path[64];
    double ours = INFINITY, theirs = INFINITY;
    (void)snprintf(path, sizeof path, "/tmp/gradus_bench_%ld.csv", (long)getpid());
    (void)setenv("GRADUS_TABLE", path, 1);
    if (make_table(path)) {
        for (int turn = 0; turn < 3; turn++) {
            ours = fmin(ours, time_reading(path));
            theirs = fmin(theirs, time_pandas());
        }
        bool live = isfinite(theirs);
        bench_report((report){.name = "a table of 1M rows, 13 columns, read in blocks",
                              .value = 1e3 * ours,
                              .unit = "ms",
                              .against = live ? "pandas" : NULL,
                              .other = live ? 1e3 * theirs : 0,
                              .ratio_limit = live ? 1.5 : 0});
    }
    (void)remove(path);
}

void bench_train(void)
{
    compare_reading();

    char program[1100], line[256], name[64];
    double difference, error, ours, theirs;
    int sets = 0;
    if (find_program(program, sizeof program)) (void)setenv("GRADUS", program, 0);
    FILE *out = bench_python("scipy_train.py", 1);
    while (out && fgets(line, sizeof line, out))
        if (sscanf(line, "%63s %lf %lf %lf %lf", name, &difference, &error, &ours, &theirs) == 5) {
            report_set(name, difference, error, ours, theirs);
            sets++;
        }
    if (out) (void)pclose(out);
    if (!sets) bench_report((report){.name = "scikit-learn is not there (GRADUS_SCIPY_PYTHON)", .unit = ""});
}
