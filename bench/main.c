/* gradus_bench [--json] [NAME...]: runs the named benchmarks, or all, with the comparisons that this machine has libraries
 * for.  With --count CASE REPEATS: a case that callgrind counts (count.h).  Exit 1 when a limit is missed.  (`gradus bench` is the same without those libraries: command.c.) */
#include "bench.h"
#include "count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(FILE *out)
{
    fprintf(out, "gradus_bench [--json] [NAME...]\n");
    for (const bench_row *row = bench_rows; row->name; row++)
        fprintf(out, "  %-14s %s\n", row->name, row->help);
    return out == stdout ? 0 : 2;
}

static void print_line(void *user, const char *text)
{
    (void)user;
    fputs(text, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    bench_run run = {.line = print_line};
    int named = 0;
    if (argc == 4 && !strcmp(argv[1], "--count")) return bench_count_case(argv[2], atol(argv[3]));
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) return usage(stdout);
        if (!strcmp(argv[i], "--json"))
            run.json = true;
        else if (!bench_find(argv[i]))
            return usage(stderr);
        else
            named++;
    }
    bench_begin(&run);
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") != 0) bench_find(argv[i])->run();
    for (const bench_row *row = bench_rows; row->name && !named; row++) row->run();
    bench_end(&run);
    return run.missed ? 1 : 0;
}
