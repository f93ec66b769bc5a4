/* Chains for names of other libraries.  Nothing is translated silently: the same name may have different defaults there, so an
 * error names the chain, with the given learning rate. */
#include "optim/chain/elsewhere.h"
#include "base/text/ascii.h"
#include "base/text/number.h"

#include <stdio.h>
#include <string.h>

typedef struct elsewhere {
    const char *name, *chain, *rate;
} elsewhere;

static const elsewhere rows[] = {
#define ELSEWHERE(name, chain, rate) {name, chain, rate},
#include "optim/chain/elsewhere.def"
#undef ELSEWHERE
};

#define ROWS ((int)(sizeof rows / sizeof *rows))
#define LONG 40 /* letters of a name that are compared */

static bool of_name(char c)
{
    return gd__is_letter(c) || gd__is_digit(c) || c == '_' || c == '-' || c == '.';
}

/* Letters and digits in lower case; the text before a point is the module. */
static bool plain_name(const char *text, size_t length, char out[LONG])
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.') used = 0;
        if (!gd__is_letter(text[i]) && !gd__is_digit(text[i])) continue;
        if (used + 1 == LONG) return false;
        out[used++] = gd__lower(text[i]);
    }
    out[used] = 0;
    if (!strncmp(out, "nlopt", 5)) memmove(out, out + 5, used - 4); /* NLOPT_LD_LBFGS */
    return *out;
}

bool gd__is_rate(const char *name, size_t length)
{
    static const char *const names[] = {"lr", "learning_rate", "eta", "step_size", "learning_rate_init"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !memcmp(names[i], name, length)) return true;
    return false;
}

/* The learning rate in the parentheses that a text begins with, by its name or as the first argument; bytes of the number,
 * 0: there is none. */
static size_t rate_given(const char *text, const char **number)
{
    double value;
    int depth = 0;
    const char *argument = NULL;
    for (const char *s = text; *s; s++) {
        depth += (*s == '(' || *s == '[') - (*s == ')' || *s == ']');
        if (depth < 1) break;
        if (depth > 1 || (*s != '(' && *s != ',' && *s != '=')) continue;
        const char *next = s + 1 + strspn(s + 1, " ");
        size_t length = gd__parse_number(next, strlen(next), false, &value), name = 0;
        while (argument && argument + name < s && of_name(argument[name])) name++;
        if (length && (*s == '(' || (*s == '=' && gd__is_rate(argument, name)))) {
            *number = next;
            return length;
        }
        if (*s != '=') argument = next;
    }
    return 0;
}

/* The chain with the rate in it. */
static void put_rate(const elsewhere *row, const char *rate, size_t length, char out[GD_ELSEWHERE_SIZE])
{
    const char *place = strchr(row->chain, '$');
    if (!place)
        (void)snprintf(out, GD_ELSEWHERE_SIZE, "%s", row->chain);
    else
        (void)snprintf(out, GD_ELSEWHERE_SIZE, "%.*s%.*s%s", (int)(place - row->chain), row->chain,
                       (int)(length < 30 ? length : 30), rate, place + 1);
}

bool gd__elsewhere(const char *text, size_t *length, char out[GD_ELSEWHERE_SIZE])
{
    char name[LONG];
    size_t end = 0;
    while (of_name(text[end])) end++;
    if (!plain_name(text, end, name)) return false;
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        const char *rate = rows[i].rate;
        size_t given = text[end] == '(' ? rate_given(text + end, &rate) : 0;
        put_rate(&rows[i], rate, given ? given : strlen(rate), out);
        *length = end;
        return true;
    }
    return false;
}
