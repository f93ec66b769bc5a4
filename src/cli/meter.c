/* A progress line on the terminal for runs longer than a second; none in a pipe, a file or a terminal that cannot clear a line. It has no
 * colours. */
#include "cli/cli.h"
#include "base/text/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL 0.1
#define PATIENCE 1.0 /* seconds before the first line */

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
    return (gd_meter){.on = on, .total = total, .begun = now, .shown = now + PATIENCE - INTERVAL};
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

/* Columns of the terminal, of which the last stays free, because a wrapped line cannot be cleared. */
static int columns(void)
{
    struct winsize size = {.ws_col = 0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

static void put_line(gd_meter *p, char *text)
{
    int width = (int)strlen(text), room = columns();
    if (width > room) text[width = room] = 0;
    int blank = p->width > width ? p->width - width : 0;
    (void)fprintf(stderr, "\r%s%*s", text, blank, "");
    (void)fflush(stderr);
    p->width = width;
}

/* "step 120/500  loss 0.01", or without a loss "120/500 MB". */
static void count_text(const gd_meter *p, const char *unit, int64_t done, double loss, char *out, size_t size)
{
    char of[32] = "";
    if (p->total) (void)snprintf(of, sizeof of, "/%lld", (long long)p->total);
    if (isnan(loss))
        (void)snprintf(out, size, "%lld%s %s", (long long)done, of, unit);
    else
        (void)gd__format(out, size, "%s %lld%s  loss %.6g", unit, (long long)done, of, loss);
}

void gd__meter_again(gd_meter *p)
{
    if (p && p->unit) gd__meter_show(p, p->unit, p->done, p->loss);
}

void gd__meter_show(gd_meter *p, const char *unit, int64_t done, double loss)
{
    if (!p->on) return;
    p->unit = unit;
    p->done = done;
    p->loss = loss;
    double now = gd__cli_seconds();
    if (now - p->shown < INTERVAL) return;
    p->shown = now;
    double elapsed = now - p->begun, rate = elapsed > 0 ? (double)(done - p->first) / elapsed : 0;
    char count[96], left[64] = "", line[256];
    if (p->total && rate > 0 && done <= p->total) {
        char time_left[40];
        duration(time_left, sizeof time_left, (double)(p->total - done) / rate);
        (void)snprintf(left, sizeof left, "  %s left", time_left);
    }
    count_text(p, unit, done, loss, count, sizeof count);
    const char *plural = isnan(loss) ? "" : "s";
    (void)gd__format(line, sizeof line, "%s%s  %.*f %s%s/s%s", p->note, count, rate < 10 ? 2 : 0, rate, unit,
                     plural, left);
    put_line(p, line);
}

void gd__meter_end(gd_meter *p)
{
    if (p->on && p->width) (void)fprintf(stderr, "\r%*s\r", p->width, "");
    p->width = 0;
    p->unit = NULL;
}

static void show_work(void *user, const char *what, const char *unit, int64_t done, int64_t total,
                      double loss)
{
    gd_meter *meter = user;
    if (!unit) {
        gd__meter_end(meter);
        *meter = (gd_meter){0};
        return;
    }
    if (meter->begun == 0) {
        *meter = gd__meter_start(total);
        if (what) (void)snprintf(meter->note, sizeof meter->note, "%.40s: ", what);
    }
    gd__meter_show(meter, unit, done, loss);
}

gd_observer gd__meter_observer(gd_meter *meter)
{
    return (gd_observer){.progress = show_work, .user = meter};
}
