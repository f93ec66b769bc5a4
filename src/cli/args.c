/* Options; see args.h. */
#include "cli/args.h"
#include "base/text/suggest.h"

#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

const gd_option *gd__option_find(const gd_command *command, const char *name, size_t length)
{
    for (const gd_option *o = command->options; o->name; o++)
        if (strlen(o->name) == length && !memcmp(o->name, name, length)) return o;
    return NULL;
}

static gd_status unknown(gd_ctx *ctx, const gd_command *command, const char *name, size_t length)
{
    gd_suggest nearest = gd__suggest(name, length);
    for (const gd_option *o = command->options; o->name; o++) gd__suggest_try(&nearest, o->name);
    gd__suggest_try(&nearest, "help");
    char best[64] = "";
    if (nearest.best) (void)snprintf(best, sizeof best, ", did you mean '--%.40s'?", nearest.best);
    return gd_fail(ctx, GD_ARGUMENT, "%s: unknown option '--%.*s'%s", command->name,
                   length > 60 ? 60 : (int)length, name, best);
}

/* One option; *at is moved past its value where that is a word of its own. */
static gd_status read_option(gd_args *a, int argc, char *const *argv, int *at)
{
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const gd_option *o = gd__option_find(a->command, name, length);
    if (!o && length == 4 && !memcmp(name, "help", 4) && !equals) {
        a->help = true;
        return GD_OK;
    }
    if (!o) return unknown(a->ctx, a->command, name, length);
    const char *value = equals ? equals + 1 : NULL;
    if (!o->value && value)
        return gd_fail(a->ctx, GD_ARGUMENT, "%s: --%s takes no value", a->command->name, o->name);
    if (o->value && !value) {
        if (*at + 1 >= argc)
            return gd_fail(a->ctx, GD_ARGUMENT, "%s: --%s wants a value: --%s %s", a->command->name, o->name,
                           o->name, o->value);
        value = argv[++*at];
    }
    if (!o->repeated && gd__args_has(a, o->name))
        return gd_fail(a->ctx, GD_ARGUMENT, "%s: --%s is given twice", a->command->name, o->name);
    a->option[a->options] = o;
    a->value[a->options++] = value;
    return GD_OK;
}

static gd_status check_count(const gd_args *a)
{
    const gd_command *c = a->command;
    if (a->help || (a->arguments >= c->least && a->arguments <= c->most)) return GD_OK;
    if (a->arguments < c->least)
        return gd_fail(a->ctx, GD_ARGUMENT, "%s: %s is missing; see gradus %s --help", c->name, c->arguments,
                       c->name);
    return gd_fail(a->ctx, GD_ARGUMENT, "%s: '%.60s' is one argument too many", c->name,
                   a->argument[c->most]);
}

gd_status gd__args_parse(gd_ctx *ctx, const gd_command *command, int argc, char *const *argv, gd_args *out)
{
    *out = (gd_args){.ctx = ctx, .command = command};
    size_t words = (size_t)argc + 1;
    out->bytes = words * sizeof(char *);
    out->argument = gd__alloc(ctx, out->bytes);
    out->option = gd__alloc(ctx, out->bytes);
    out->value = gd__alloc(ctx, out->bytes);
    out->asked = gd__calloc(ctx, out->bytes);
    gd_status status = out->argument && out->option && out->value && out->asked ? GD_OK : GD_NOMEM;
    bool ended = false;
    for (int i = 0; i < argc && !status; i++) {
        if (ended || strncmp(argv[i], "--", 2) != 0) {
            if (!ended && !strcmp(argv[i], "-h"))
                out->help = true;
            else
                out->argument[out->arguments++] = argv[i];
        } else if (!argv[i][2]) {
            ended = true;
        } else {
            status = read_option(out, argc, argv, &i);
        }
    }
    return status ? status : check_count(out);
}

void gd__args_drop_outputs(gd_args *a)
{
    int kept = 0;
    for (int i = 0; i < a->options; i++) {
        gd_path_role role = a->option[i]->path;
        if (role == GD_PATH_WRITE || role == GD_PATH_FOLDER) continue;
        a->option[kept] = a->option[i];
        a->asked[kept] = a->asked[i];
        a->value[kept++] = a->value[i];
    }
    a->options = kept;
}

void gd__args_warn(const gd_args *a)
{
    for (int i = 0; i < a->options; i++)
        if (!a->asked[i])
            gd_warn(a->ctx, "%s: --%s%s%.60s has no effect here", a->command->name, a->option[i]->name,
                    a->value[i] ? " " : "", a->value[i] ? a->value[i] : "");
}

void gd__args_free(gd_args *a)
{
    gd__free(a->ctx, a->argument, a->bytes);
    gd__free(a->ctx, a->option, a->bytes);
    gd__free(a->ctx, a->value, a->bytes);
    gd__free(a->ctx, a->asked, a->bytes);
    *a = (gd_args){.ctx = a->ctx};
}

/* ---- asking ---- */

/* The position of an option from `at` on, which is then marked as read; -1: not given. */
static int ask(const gd_args *a, const char *name, int at)
{
    for (; at < a->options; at++)
        if (!strcmp(a->option[at]->name, name)) {
            a->asked[at] = true;
            return at;
        }
    return -1;
}

bool gd__args_has(const gd_args *a, const char *name) { return ask(a, name, 0) >= 0; }

const char *gd__args_next(const gd_args *a, const char *name, int *at)
{
    int i = ask(a, name, *at);
    *at = i < 0 ? a->options : i + 1;
    return i < 0 ? NULL : a->value[i];
}

const char *gd__args_get(const gd_args *a, const char *name)
{
    const char *last = NULL;
    int at = 0;
    for (const char *v; (v = gd__args_next(a, name, &at));) last = v;
    return last;
}

gd_status gd__args_integer(const gd_args *a, const char *name, int64_t low, int64_t high, int64_t *value)
{
    const char *text = gd__args_get(a, name);
    int64_t v;
    if (!text) return GD_OK;
    if (gd__is_integer(text, &v) && v >= low && v <= high) {
        *value = v;
        return GD_OK;
    }
    char upper[40] = "";
    if (high < INT64_MAX) (void)snprintf(upper, sizeof upper, " to %lld", (long long)high);
    return gd_fail(a->ctx, GD_ARGUMENT, "%s: --%s: '%.60s' is not a whole number from %lld%s",
                   a->command->name, name, text, (long long)low, upper);
}

gd_status gd__args_real(const gd_args *a, const char *name, double low, double high, double *value)
{
    const char *text = gd__args_get(a, name);
    double v = 0;
    if (!text) return GD_OK;
    if (gd__is_number(text, strlen(text), true, &v) && v >= low && v <= high) {
        *value = v;
        return GD_OK;
    }
    return gd_fail(a->ctx, GD_ARGUMENT, "%s: --%s: '%.60s' is not a number from %g to %g", a->command->name,
                   name, text, low, high);
}

gd_status gd__args_choice(const gd_args *a, const char *name, const char *choices, int *value)
{
    const char *text = gd__args_get(a, name);
    if (!text) return GD_OK;
    int k = 0;
    for (const char *word = choices; *word; k++) {
        size_t length = strcspn(word, " ");
        if (strlen(text) == length && !memcmp(word, text, length)) {
            *value = k;
            return GD_OK;
        }
        word += length + (word[length] == ' ');
    }
    return gd_fail(a->ctx, GD_ARGUMENT, "%s: --%s: '%.60s' is none of: %s", a->command->name, name, text,
                   choices);
}
