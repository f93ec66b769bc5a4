/* Has callgrind count the instructions of a case: the difference of a run of some repeats and of three times as many. */
#include "count.h"
#include "bench.h"
#include "trace/trace_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exit statuses: this build has no such case (a peer that is missing); the shell found no valgrind. */
enum { NO_CASE = 2, NO_PROGRAM = 127 };

static const bench_case *find(const bench_case *list, const char *name)
{
    for (; list->name; list++)
        if (!strcmp(list->name, name)) return list;
    return NULL;
}

void (*bench_count_find(const char *name))(long)
{
    const bench_case *found = find(bench_trace_cases, name);
    if (!found) found = find(bench_casadi_cases, name);
    if (!found) found = find(bench_small_cases, name);
    if (!found) found = find(bench_small_peers, name);
    return found ? found->run : NULL;
}

int bench_count_case(const char *name, long repeats)
{
    void (*run)(long) = bench_count_find(name);
    if (!run) return NO_CASE;
    run(repeats);
    return 0;
}

/* The program of the benchmarks, which knows --count; false: a different program. */
static int find_program(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    const char *name = strrchr(path, '/');
    return name && !strcmp(name, "/gradus_bench") && !strchr(path, '\'');
}

static double collected(const char *name, long repeats)
{
    char path[512], command[1200], line[256];
    double count = 0;
    if (!find_program(path, sizeof path)) return 0;
    (void)snprintf(command, sizeof command,
                   "valgrind --tool=callgrind --callgrind-out-file=/dev/null '%s' --count %s %ld 2>&1", path,
                   name, repeats);
    FILE *out = popen(command, "r");
    if (!out) return 0;
    while (fgets(line, sizeof line, out)) {
        const char *at = strstr(line, "Collected :");
        if (at) count = strtod(at + strlen("Collected :"), NULL);
    }
    int status = pclose(out), code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code && code != NO_CASE && code != NO_PROGRAM)
        bench_note("a program that was to be counted failed:", name);
    return code ? 0 : count;
}

/* Once for nothing: a kernel that is compiled in the first run alone would be counted there. */
double bench_instructions(const char *name, long repeats)
{
    if (!(collected(name, 1) > 0)) return 0;
    double few = collected(name, repeats), many = few > 0 ? collected(name, 3 * repeats) : 0;
    return many > few ? (many - few) / (2 * (double)repeats) : 0;
}
