/* Columns of dates in a fit: numbers of days or seconds since an origin, which the fit reports and saves. */
#include "fit/fit_job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DAY 86400.0

bool gd__fit_holds_dates(const gd_csv *csv, int column)
{
    gd_date date;
    double value;
    if (gd__csv_told(csv, column)) return gd__csv_told(csv, column) == GD_CELLS_DATES;
    for (int64_t row = 0; row < gd__csv_rows(csv) && gd__csv_is_text(csv); row++) {
        const char *cell = gd__csv_cell(csv, row, column);
        if (gd__csv_is_missing(cell)) continue;
        return gd__csv_number(csv, row, column, &value) < 0 && gd__date_parse(cell, &date);
    }
    return false;
}

/* ---- units and origins as text ---- */

bool gd__fit_date_parse(const char *text, gd_fit_date *out)
{
    static const struct {
        const char *name;
        double unit;
    } units[] = {{"days", DAY}, {"seconds", 1}};
    size_t length = strcspn(text, ":");
    gd_date origin = {.day = true};
    *out = (gd_fit_date){.origin = NAN, .day = true};
    for (int i = 0; i < 2; i++)
        if (strlen(units[i].name) == length && !memcmp(units[i].name, text, length))
            out->unit = units[i].unit;
    if (out->unit == 0 || (text[length] && !gd__date_parse(text + length + 1, &origin))) return false;
    if (text[length]) out->origin = origin.seconds;
    out->day = origin.day;
    return true;
}

void gd__fit_date_print(char out[GD_FIT_DATE_SIZE], const gd_fit_date *date, const char *between)
{
    char origin[GD_DATE_SIZE] = "";
    bool clock = !date->day || fmod(date->origin, DAY) != 0;
    (void)gd__date_format(origin, &(gd_date){.seconds = date->origin, .day = date->day, .clock = clock});
    (void)snprintf(out, GD_FIT_DATE_SIZE, "%s%s%s", date->unit == DAY ? "days" : "seconds", between, origin);
}

/* ---- columns ---- */

/* The midnight before the earliest; times of day count from midnight.  False: no cell has a value. */
static bool learn_date(const gd_frame_column *column, int64_t rows, gd_fit_date *date)
{
    double first = INFINITY;
    for (int64_t i = 0; i < rows; i++)
        if (!isnan(column->value[i])) first = fmin(first, column->value[i]);
    if (date->unit == 0) date->unit = column->clock ? 1 : DAY;
    if (isnan(date->origin)) date->origin = column->day ? DAY * floor(first / DAY) : 0;
    date->day = column->day;
    return isfinite(first);
}

/* --dates, where a column is found to hold dates. */
static gd_status wanted_date(gd_ctx *ctx, const char *text, gd_fit_date *date)
{
    *date = (gd_fit_date){.origin = NAN, .day = true};
    if (!text || gd__fit_date_parse(text, date)) return GD_OK;
    return gd_fail(ctx, GD_ARGUMENT,
                   "{dates}: '%.60s' is neither days nor seconds, with an origin as in days:2000-01-01",
                   text);
}

gd_status gd__fit_check_dates(gd_ctx *ctx, const char *text)
{
    gd_fit_date ignored;
    return wanted_date(ctx, text, &ignored);
}

gd_status gd__fit_dates(gd_ctx *ctx, const char *wanted, const gd_csv *csv, int column, bool missing,
                        gd_fit_date *date, double *out)
{
    static const gd_cells kind = GD_CELLS_DATES;
    gd_frame frame = {.ctx = ctx};
    bool learn = date->unit == 0, origin_of_day;
    gd_status status = gd__frame_read(ctx, csv, &column, 1, &kind, &frame);
    const gd_frame_column *c = &frame.column[0];
    int64_t rows = gd__csv_rows(csv);
    if (!status && learn) status = wanted_date(ctx, wanted, date);
    origin_of_day = date->day;
    bool given = !isnan(date->origin);
    if (!status && learn && !learn_date(c, rows, date)) date->origin = 0;
    if (!status && given && c->day != origin_of_day)
        status = gd_fail(ctx, GD_FORMAT, "%s: column '%.60s' holds %s, its origin is a %s",
                         gd__csv_source(csv), c->name, c->day ? "dates" : "times of day",
                         origin_of_day ? "date" : "time of day");
    for (int64_t i = 0; i < rows && !status; i++) {
        if (isnan(c->value[i]) && !missing)
            status = gd_fail(ctx, GD_FORMAT, "%s: line %lld, column '%.60s': the cell has no date",
                             gd__csv_source_of(csv, i), (long long)gd__csv_line(csv, i), c->name);
        else
            out[i] = (c->value[i] - date->origin) / date->unit;
    }
    gd__frame_close(&frame);
    return status;
}

/* ---- text about dates ---- */

const gd_fit_date *gd__fit_date_of(const gd_fit *j, int place)
{
    int column = place - j->params;
    bool is = j->date && column >= 0 && column < gd__csv_columns(j->csv) && j->value[place];
    return is && j->date[column].unit > 0 ? &j->date[column] : NULL;
}

bool gd__fit_has_dates(const gd_fit *j)
{
    bool any = false;
    for (int i = 0; i < gd__csv_columns(j->csv); i++) any = any || j->date[i].unit > 0;
    return any;
}

void gd__fit_date_cell(gd_text *out, const gd_fit_date *date, double value)
{
    char text[GD_DATE_SIZE];
    gd_date d = {.seconds = date->origin + value * date->unit, .day = date->day};
    d.clock = !date->day || date->unit != DAY || fmod(d.seconds, DAY) != 0;
    if (gd__date_format(text, &d))
        gd__text_add(out, text);
    else
        gd__text_put(out, "%.17g", value);
}

void gd__fit_date_axis(const gd_fit *j, gd_plot *plot, int axis, int place)
{
    const gd_fit_date *date = gd__fit_date_of(j, place);
    if (date) gd_plot_dates(plot, axis, date->origin, date->unit, date->day);
}
