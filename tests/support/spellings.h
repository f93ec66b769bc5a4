/* One message in three spellings: as a program in C, a user of the shell and a user of Python read it. */
#ifndef GD_TESTS_SPELLINGS_H
#define GD_TESTS_SPELLINGS_H

#include "base/ctx.h"
#include "support/support.h"

/* As src/cli and python/src register them. */
static const char *const shell_names[][2] = {{"params", "--param"},
                                             {"fixed", "--fix"},
                                             {"bounds", "--bound"},
                                             {"max_steps", "--steps"},
                                             {"drop_missing", "--missing"},
                                             {"groups", "--group"},
                                             {"schedules", "--schedule"},
                                             {"row", "--shape"},
                                             {NULL, NULL}};
static const char *const python_names[][2] = {{"fixed", "fix="},
                                              {"bounds", "bound="},
                                              {"max_steps", "steps="},
                                              {"drop_missing", "missing="},
                                              {NULL, NULL}};
static const char *const c_names[][2] = {
    {"by", "by"}, {"folds", "folds"}, {"export", "export"}, {NULL, NULL}};
static const gd_vocabulary spellings[] = {
    {".", "", '_', c_names}, {"--", "", '-', shell_names}, {"", "=", '_', python_names}};

/* want: "stop_on" in angle brackets where the message names a setting, "<stop_on> f1 is for". */
static inline void spell_here(const gd_vocabulary *v, const char *want, char *out, size_t size)
{
    size_t used = 0;
    for (const char *s = want; *s && used + 80 < size;) {
        size_t length = *s == '<' ? strspn(s + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
        if (!length || s[length + 1] != '>') {
            out[used++] = *s++;
            continue;
        }
        char name[40];
        snprintf(name, sizeof name, "%.*s", (int)length, s + 1);
        const char *own = NULL;
        for (int k = 0; v->names && v->names[k][0]; k++)
            if (!strcmp(v->names[k][0], name)) own = v->names[k][1];
        for (char *c = name; *c; c++) *c = *c == '_' ? v->join : *c;
        used += (size_t)(own ? snprintf(out + used, 60, "%s", own)
                             : snprintf(out + used, 60, "%s%s%s", v->before, name, v->after));
        s += length + 2;
    }
    out[used] = 0;
}

/* The error in the context, or with `warns` its last warning, begins as wanted; clears it. */
static inline void expect_spelling(gd_ctx *c, const gd_vocabulary *v, const char *want, bool warns)
{
    char text[400];
    const char *said = warns ? gd_warning_text(c) : gd_error_text(c);
    spell_here(v, want, text, sizeof text);
    if (strncmp(said, text, strlen(text)) != 0) fail_msg("'%s', but '%s' is wanted", said, text);
    gd_clear_error(c);
}

#endif
