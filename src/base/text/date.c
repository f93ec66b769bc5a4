/* Dates; see date.h. */
#include "base/text/date.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Exactly `digits` digits at *at, which moves on. */
static bool take_whole(const char **at, int digits, int *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, (*at)++) {
        if (!is_digit(**at)) return false;
        *out = 10 * *out + (**at - '0');
    }
    return true;
}

static bool take_sign(const char **at, char c)
{
    if (**at != c) return false;
    (*at)++;
    return true;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

/* Days since 1970-01-01 of the calendar that everyone uses, also for days before it was made.  A year begins in March, so that the
 * leap day is its last; 400 years have 146097 days. */
int gd__days_since_1970(int year, int month, int day)
{
    if (month <= 2) year--;
    int era = (year >= 0 ? year : year - 399) / 400, of_era = year - 400 * era;
    int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool take_day(const char **at, double *seconds)
{
    int year, month, day;
    if (!take_whole(at, 4, &year) || !take_sign(at, '-') || !take_whole(at, 2, &month) ||
        !take_sign(at, '-') || !take_whole(at, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_of_month(year, month)) return false;
    *seconds += 86400.0 * gd__days_since_1970(year, month, day);
    return true;
}

/* Parts of a second, as many digits as there are. */
static bool take_fraction(const char **at, double *seconds)
{
    if (!take_sign(at, '.')) return true;
    if (!is_digit(**at)) return false;
    for (double unit = 0.1; is_digit(**at); (*at)++, unit /= 10) *seconds += unit * (**at - '0');
    return true;
}

static bool take_clock(const char **at, double *seconds)
{
    int hour, minute, second = 0;
    if (!take_whole(at, 2, &hour) || !take_sign(at, ':') || !take_whole(at, 2, &minute)) return false;
    bool whole = !take_sign(at, ':');
    if (!whole && !take_whole(at, 2, &second)) return false;
    if (hour > 23 || minute > 59 || second > 60) return false;
    *seconds += 3600.0 * hour + 60.0 * minute + second;
    return whole || take_fraction(at, seconds);
}

/* Z, +02:00, +0200 or nothing. */
static bool take_zone(const char **at, double *seconds)
{
    int hour, minute;
    bool east = **at == '+';
    if (take_sign(at, 'Z') || (!east && **at != '-')) return true;
    (*at)++;
    if (!take_whole(at, 2, &hour)) return false;
    (void)take_sign(at, ':');
    if (!take_whole(at, 2, &minute) || hour > 23 || minute > 59) return false;
    *seconds += (east ? -1 : 1) * (3600.0 * hour + 60.0 * minute);
    return true;
}

bool gd__date_parse(const char *text, gd_date *out)
{
    const char *at = text;
    *out = (gd_date){.day = true};
    if (is_digit(text[0]) && is_digit(text[1]) && text[2] == ':') {
        *out = (gd_date){.clock = true};
        return take_clock(&at, &out->seconds) && !*at;
    }
    if (!take_day(&at, &out->seconds)) return false;
    if (!*at) return true;
    out->clock = true;
    if (*at != 'T' && *at != ' ') return false;
    at++;
    return take_clock(&at, &out->seconds) && take_zone(&at, &out->seconds) && !*at;
}

void gd__date_of_days(int days, int *year, int *month, int *day)
{
    int shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int of_era = shifted - era * 146097;
    int of_400 = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * of_400 + of_400 / 4 - of_400 / 100), march = (5 * of_year + 2) / 153;
    *day = of_year - (153 * march + 2) / 5 + 1;
    *month = march < 10 ? march + 3 : march - 9;
    *year = era * 400 + of_400 + (*month <= 2);
}

/* 13:45, 13:45:10 or 13:45:10.25 after the date. */
static void put_clock(char out[GD_DATE_SIZE], int second, int micro)
{
    size_t used = strlen(out);
    (void)snprintf(out + used, GD_DATE_SIZE - used, "%02d:%02d", second / 3600 % 24, second / 60 % 60);
    used = strlen(out);
    if (second % 60 || micro) (void)snprintf(out + used, GD_DATE_SIZE - used, ":%02d", second % 60);
    used = strlen(out);
    if (!micro) return;
    (void)snprintf(out + used, GD_DATE_SIZE - used, ".%06d", micro);
    for (size_t end = strlen(out); out[end - 1] == '0';) out[--end] = 0;
}

bool gd__date_format(char out[GD_DATE_SIZE], const gd_date *date)
{
    double day = floor(date->seconds / 86400);
    if (!(fabs(day) < 4e6)) return false;
    double micros = round((date->seconds - 86400 * day) * 1e6);
    if (micros >= 86400e6) day++, micros = 0;
    int year = 0, month, of_month, second = (int)(micros / 1e6), micro = (int)(micros - 1e6 * second);
    *out = 0;
    if (date->day) {
        gd__date_of_days((int)day, &year, &month, &of_month);
        if (year < 0 || year > 9999) return false;
        (void)snprintf(out, GD_DATE_SIZE, "%04d-%02d-%02d%s", year, month, of_month, date->clock ? "T" : "");
    }
    if (date->clock) put_clock(out, second, micro);
    return true;
}
