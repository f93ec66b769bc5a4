/* Dates and times as ISO 8601 writes them, in the Gregorian calendar, also before it was introduced. */
#ifndef GD_BASE_TEXT_DATE_H
#define GD_BASE_TEXT_DATE_H

#include "gradus/base.h"

typedef struct gd_date {
    double seconds;  /* since 1970-01-01 in UTC; without a day since midnight */
    bool day, clock; /* which of both the text has */
} gd_date;

/* 2024-02-29, 2024-02-29T13:45, 2024-02-29 13:45:10.5Z, ...+02:00, or 13:45 alone.  False: the text is not a date, or not a day of
 * the calendar. */
bool gd__date_parse(const char *text, gd_date *out);

#define GD_DATE_SIZE 32

/* A date as it is parsed: 2024-02-29, with a clock 2024-02-29T13:45:10, or 13:45:10 alone; parts of a second up to microseconds
 * if there are any.  False: its year is not one of four digits. */
bool gd__date_format(char out[GD_DATE_SIZE], const gd_date *date);

/* The day of a date since 1970-01-01, and back; months and days count from 1. */
int gd__days_since_1970(int year, int month, int day);
void gd__date_of_days(int days, int *year, int *month, int *day);

#endif
