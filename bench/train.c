/* gradus train against scikit-learn's networks, both with default settings. */
#include "bench.h"

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

void bench_train(void)
{
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
