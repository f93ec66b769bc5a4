/* The nearest known name, by edit distance; see suggest.h. */
#include "base/text/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 64

static int least(int a, int b) { return a < b ? a : b; }

static bool swapped(const char *a, const char *b) { return a[-1] == b[0] && a[0] == b[-1]; }

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b (restricted Damerau-Levenshtein).
 * row[i % 3][j] is the distance of a[0..i) and b[0..j); a swap looks two rows back. */
static int edit_distance(const char *a, size_t m, const char *b, size_t n)
{
    int row[3][LONGEST + 1];
    for (size_t j = 0; j <= n; j++) row[0][j] = (int)j;
    for (size_t i = 1; i <= m; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *two_before = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            int replace = before[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least(replace, 1 + least(before[j], now[j - 1]));
            if (i > 1 && j > 1 && swapped(a + i - 1, b + j - 1))
                now[j] = least(now[j], two_before[j - 2] + 1);
        }
    }
    return row[m % 3][n];
}

/* One edit in three letters is a slip, at most three of them. */
gd_suggest gd__suggest(const char *text, size_t length)
{
    int near = length < 3 ? 1 : length > 9 ? 3 : (int)(length / 3);
    return (gd_suggest){.text = text, .length = length, .distance = near + 1};
}

void gd__suggest_try(gd_suggest *s, const char *candidate)
{
    size_t length = strlen(candidate), shorter = length < s->length ? length : s->length;
    if (shorter == 0 || length > LONGEST || s->length > LONGEST) return;
    /* as many edits as the lengths differ by at least */
    if (length + s->length - 2 * shorter >= (size_t)s->distance) return;
    int distance = edit_distance(s->text, s->length, candidate, length);
    /* the shorter one has no common letters: not a slip */
    if (distance >= (int)shorter || distance >= s->distance) return;
    s->distance = distance;
    s->best = candidate;
}

const char *gd__suggest_hint(const gd_suggest *s, char out[GD_HINT_SIZE])
{
    out[0] = 0;
    if (s->best) (void)snprintf(out, GD_HINT_SIZE, ", did you mean '%.64s'?", s->best);
    return out;
}
