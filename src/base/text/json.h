/* Reading and writing JSON. */
#ifndef GD_BASE_JSON_H
#define GD_BASE_JSON_H

#include <jansson.h>

/* text[0..length) as one JSON value, duplicate keys refused; new, NULL with *error (which may be NULL) set.  jansson turns
 * the point of a number into what the locale has, if that is one byte long: so this function reads in the C locale. */
json_t *gd__json_read(const char *text, size_t length, json_error_t *error);
/* The value as text on one line, cut where out is full; returns out. */
char *gd__json_write(const json_t *value, char *out, size_t size);

#endif
