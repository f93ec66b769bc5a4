/* Selecting names: '*' any run (dots too), '?' any one, [abc] [a-z] [!abc] one of a set, '\' the next as it is. */
#include "module/module_internal.h"

/* The end of the set that starts after '[': the place behind its ']', or NULL.  A ']' that comes first is a member. */
static const char *set_end(const char *set)
{
    if (*set == '!') set++;
    if (*set == ']') set++;
    for (; *set && *set != ']'; set++)
        if (*set == '\\' && set[1]) set++;
    return *set ? set + 1 : NULL;
}

static bool in_set(const char *set, unsigned char c)
{
    bool negated = *set == '!', found = false;
    if (negated) set++;
    for (bool first = true; first || *set != ']'; first = false) {
        if (*set == '\\' && set[1]) set++;
        unsigned char low = (unsigned char)*set++, high = low;
        if (*set == '-' && set[1] != ']') {
            high = (unsigned char)set[1];
            set += 2;
        }
        found |= c >= low && c <= high;
    }
    return found != negated;
}

/* Matches one character of the text against one item of the glob; returns what follows the item, or NULL. */
static const char *match_one(const char *glob, char c)
{
    if (!c) return NULL;
    if (*glob == '?') return glob + 1;
    if (*glob == '[') {
        const char *end = set_end(glob + 1);
        if (end) return in_set(glob + 1, (unsigned char)c) ? end : NULL;
    }
    if (*glob == '\\' && glob[1]) glob++;
    return *glob == c ? glob + 1 : NULL;
}

/* Only the last star can need one more try: O(length of glob * length of text). */
bool gd_glob_match(const char *glob, const char *text)
{
    if (!glob || !text) return false;
    const char *star = NULL, *retry = NULL;
    for (;;) {
        if (*glob == '*') {
            star = ++glob;
            retry = text;
            continue;
        }
        if (!*glob && !*text) return true;
        const char *next = *glob ? match_one(glob, *text) : NULL;
        if (next) {
            glob = next;
            text++;
            continue;
        }
        if (!star || !*retry) return false;
        glob = star;
        text = ++retry;
    }
}

gd_status gd__glob_check(gd_ctx *ctx, const char *glob)
{
    for (const char *at = glob; at && *at; at++) {
        if (*at == '\\' && at[1])
            at++;
        else if (*at == '[') {
            const char *end = set_end(at + 1);
            if (!end)
                return gd_fail(ctx, GD_PARSE, "pattern '%s': column %d: '[' does not end", glob,
                               (int)(at - glob) + 1);
            at = end - 1;
        }
    }
    return GD_OK;
}
