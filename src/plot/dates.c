/* Ticks of an axis of dates: at round times, days, months or years. */
#include "base/text/date.h"
#include "plot/plot_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DAY   86400.0
#define MONTH (365.2425 / 12 * DAY)
#define YEAR  (365.2425 * DAY)

typedef enum step_kind { SECONDS, DAYS, MONTHS, YEARS } step_kind;

typedef struct date_step {
    step_kind kind;
    int count;
} date_step;

static const date_step steps[] = {
    {SECONDS, 1},    {SECONDS, 2},    {SECONDS, 5},     {SECONDS, 10},    {SECONDS, 15},    {SECONDS, 30},
    {SECONDS, 60},   {SECONDS, 120},  {SECONDS, 300},   {SECONDS, 600},   {SECONDS, 900},   {SECONDS, 1800},
    {SECONDS, 3600}, {SECONDS, 7200}, {SECONDS, 10800}, {SECONDS, 21600}, {SECONDS, 43200}, {DAYS, 1},
    {DAYS, 2},       {DAYS, 7},       {DAYS, 14},       {MONTHS, 1},      {MONTHS, 2},      {MONTHS, 3},
    {MONTHS, 6},     {YEARS, 1},      {YEARS, 2},       {YEARS, 5},       {YEARS, 10},      {YEARS, 20},
    {YEARS, 50},     {YEARS, 100},    {YEARS, 200},     {YEARS, 500},     {YEARS, 1000}};

static double length_of(date_step step)
{
    static const double unit[] = {1, DAY, MONTH, YEAR};
    return unit[step.kind] * step.count;
}

/* The k-th mark of a step, in seconds since 1970; weeks begin on Mondays. */
static double mark_at(date_step step, int64_t k)
{
    if (step.kind == SECONDS) return (double)k * step.count;
    if (step.kind == DAYS) return (double)(k * step.count + (step.count % 7 ? 0 : 4)) * DAY;
    int64_t month = k * step.count * (step.kind == YEARS ? 12 : 1);
    int64_t year = (month >= 0 ? month : month - 11) / 12;
    return DAY * gd__days_since_1970((int)year, (int)(month - 12 * year) + 1, 1);
}

/* A tick at most `seconds`, and at most two steps before it. */
static int64_t first_mark(date_step step, double seconds)
{
    double zero = step.kind >= MONTHS ? -1970 * YEAR : 0;
    return (int64_t)floor((seconds - zero) / length_of(step)) - 1;
}

static void label_mark(char out[32], date_step step, double seconds, bool day)
{
    char text[GD_DATE_SIZE] = "";
    gd_date date = {.seconds = seconds, .day = day, .clock = step.kind == SECONDS};
    (void)gd__date_format(text, &date);
    char *t = strchr(text, 'T');
    if (t) *t = ' ';
    size_t length = step.kind == YEARS ? 4 : step.kind == MONTHS ? 7 : strlen(text);
    (void)snprintf(out, 32, "%.*s", (int)length, text);
}

bool gd__date_ticks(gd_ticks *out, double low, double high, int wanted, const gd_date_scale *scale)
{
    const int all = sizeof steps / sizeof *steps;
    const double limit = 2.9e11; /* the years of four digits */
    double from = scale->origin + low * scale->unit, to = scale->origin + high * scale->unit;
    int k = 0, last = scale->day ? all : 17; /* times of day have neither days nor years */
    if (!(from > -7e10 && to < limit && to - from >= 2)) return false;
    while (k < last && length_of(steps[k]) * wanted < to - from) k++;
    if (k == last) return false;
    *out = (gd_ticks){0};
    for (int64_t i = first_mark(steps[k], from); out->count < GD_MAX_TICKS; i++) {
        double at = mark_at(steps[k], i);
        if (at > to) break;
        if (at < from) continue;
        label_mark(out->label[out->count], steps[k], at, scale->day);
        out->at[out->count++] = (at - scale->origin) / scale->unit;
    }
    return true;
}
