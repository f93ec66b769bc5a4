/* Did you mean: the known name nearest to a misspelt one.
 *
 *   gd_suggest s = gd__suggest("adm", 3);
 *   for (...) gd__suggest_try(&s, name[i]);
 *   gd__suggest_hint(&s, hint)                  ", did you mean 'adam'?" or "" */
#ifndef GD_BASE_SUGGEST_H
#define GD_BASE_SUGGEST_H

#include <stddef.h>

#define GD_HINT_SIZE 96

typedef struct gd_suggest {
    const char *text;
    size_t length;
    const char *best; /* NULL: nothing near */
    int distance;     /* of best, or one more than what counts as near */
} gd_suggest;

gd_suggest gd__suggest(const char *text, size_t length);
/* A candidate is kept by address.  Of equally near ones the first wins. */
void gd__suggest_try(gd_suggest *s, const char *candidate);
/* Returns out. */
const char *gd__suggest_hint(const gd_suggest *s, char out[GD_HINT_SIZE]);

#endif
