/* A line on the terminal that says how far a run is. */
#include "cli/cli.h"
#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL 0.1

double gd__cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

gd_meter gd__meter_start(int64_t total)
{
    const char *terminal = getenv("TERM");
    double now = gd__cli_seconds();
    bool on = isatty(STDERR_FILENO) && !(terminal && !strcmp(terminal, "dumb"));
    return (gd_meter){.on = on, .total = total, .begun = now, .shown = now};
}

/* "12 s", "3 min 20 s", "1 h 5 min" */
static void duration(char *out, size_t size, double seconds)
{
    long s = (long)(seconds + 0.5);
    if (seconds < 10)
        (void)gd__format(out, size, "%.1f s", seconds);
    else if (s < 60)
        (void)snprintf(out, size, "%ld s", s);
    else if (s < 3600)
        (void)snprintf(out, size, "%ld min %ld s", s / 60, s % 60);
    else
        (void)snprintf(out, size, "%ld h %ld min", s / 3600, s % 3600 / 60);
}

static void put_line(gd_meter *p, const char *text)
{
    int width = (int)strlen(text);
    int blank = p->width > width ? p->width - width : 0;
    (void)fprintf(stderr, "\r%s%*s", text, blank, "");
    (void)fflush(stderr);
    p->width = width;
}

void gd__meter_show(gd_meter *p, const char *unit, int64_t done, double loss)
{
    if (!p->on) return;
    double now = gd__cli_seconds();
    if (now - p->shown < INTERVAL) return;
    p->shown = now;
    double elapsed = now - p->begun, rate = elapsed > 0 ? (double)(done - p->first) / elapsed : 0;
    char of[32] = "", left[64] = "", line[256];
    if (p->total) (void)snprintf(of, sizeof of, "/%lld", (long long)p->total);
    if (p->total && rate > 0) {
        char time_left[40];
        duration(time_left, sizeof time_left, (double)(p->total - done) / rate);
        (void)snprintf(left, sizeof left, "  %s left", time_left);
    }
    (void)gd__format(line, sizeof line, "%s%s %lld%s  loss %.6g  %.*f %ss/s%s", p->note, unit,
                     (long long)done, of, loss, rate < 10 ? 2 : 0, rate, unit, left);
    put_line(p, line);
}

void gd__meter_end(gd_meter *p)
{
    if (p->on && p->width) (void)fprintf(stderr, "\r%*s\r", p->width, "");
    p->width = 0;
}
