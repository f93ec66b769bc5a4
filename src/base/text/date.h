/* Dates and times as ISO 8601 writes them. */
#ifndef GD_CLI_ROWS_DATE_H
#define GD_CLI_ROWS_DATE_H

#include "gradus/base.h"

typedef struct gd_date {
    double seconds;  /* since 1970-01-01 in UTC; without a day since midnight */
    bool day, clock; /* what the text has of both */
} gd_date;

/* 2024-02-29, 2024-02-29T13:45, 2024-02-29 13:45:10.5Z, ...+02:00, or 13:45 alone.  False: the text is no such thing, or no
 * day of the calendar. */
bool gd__date_parse(const char *text, gd_date *out);

#endif
