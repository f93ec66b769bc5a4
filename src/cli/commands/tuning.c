/* Groups and schedules; see tuning.h. */
#include "cli/commands/tuning.h"
#include "optim/text/setting.h"

#include <stdio.h>
#include <string.h>

/* What stands before `end` in a text; false: nothing, or too much. */
static bool before(const char *text, const char *end, char *out, size_t size)
{
    if (!end || end == text || (size_t)(end - text) >= size) return false;
    (void)snprintf(out, size, "%.*s", (int)(end - text), text);
    return true;
}

/* A text that is taken apart: what stands before the colon, before the equals sign, and the rest. */
typedef struct scoped {
    char glob[256], key[64]; /* glob "": for all */
    const char *rest;
} scoped;

static const char *past_spaces(const char *text) { return text + strspn(text, " "); }

static gd_status take_group(gd_ctx *ctx, const char *text, scoped *p)
{
    const char *colon = strchr(text, ':');
    if (!before(text, colon, p->glob, sizeof p->glob))
        return gd_fail(ctx, GD_PARSE, "--group: GLOB: KEY=VALUE expected, '%.60s' found", text);
    p->rest = past_spaces(colon + 1);
    return GD_OK;
}

static gd_status take_schedule(gd_ctx *ctx, const char *text, scoped *p)
{
    const char *colon = strchr(text, ':'), *rest = colon ? past_spaces(colon + 1) : text;
    const char *equals = strchr(rest, '=');
    p->glob[0] = 0;
    if (!before(rest, equals, p->key, sizeof p->key) ||
        (colon && !before(text, colon, p->glob, sizeof p->glob)))
        return gd_fail(ctx, GD_PARSE,
                       "--schedule: KEY=SCHEDULE or GLOB: KEY=SCHEDULE expected, '%.60s' found", text);
    p->rest = equals + 1;
    return GD_OK;
}

gd_status gd__tune_group(gd_optimizer *optimizer, const char *text)
{
    scoped p;
    gd_status status = take_group(gd_optimizer_ctx(optimizer), text, &p);
    return status ? status : gd_optimizer_regroup(optimizer, p.glob, p.rest);
}

gd_status gd__tune_schedule(gd_optimizer *optimizer, const char *text)
{
    scoped p;
    gd_status status = take_schedule(gd_optimizer_ctx(optimizer), text, &p);
    if (status) return status;
    return p.glob[0] ? gd_optimizer_schedule_matching(optimizer, p.glob, p.key, p.rest)
                     : gd_optimizer_schedule(optimizer, -1, p.key, p.rest);
}

/* ---- what a text says ---- */

gd_status gd__tune_print_chain(gd_ctx *ctx, const char *text, gd_text *out)
{
    gd_link *chain = gd_chain(ctx, text);
    if (!chain) return gd_error(ctx);
    size_t size = (size_t)gd_link_print(chain, NULL, 0) + 1;
    char *printed = gd__alloc(ctx, size);
    if (printed) {
        (void)gd_link_print(chain, printed, size);
        gd__text_add(out, printed);
        gd__free(ctx, printed, size);
    }
    gd_link_release(chain);
    return printed && !out->failed ? GD_OK : GD_NOMEM;
}

static gd_status print_setting(void *user, const char *key, const gd_setting *value)
{
    gd_text *out = user;
    gd__text_put(out, " %s=", key);
    if (value->kind == GD_SET_REAL)
        gd__text_put(out, "%.17g", value->real);
    else if (value->kind == GD_SET_STRING)
        gd__text_quote(out, value->string);
    else
        gd__text_add(out, value->kind == GD_SET_NONE ? "none" : value->real != 0 ? "true" : "false");
    return out->failed ? GD_NOMEM : GD_OK;
}

gd_status gd__tune_print_group(gd_ctx *ctx, const char *text, gd_text *out)
{
    scoped p;
    gd_status status = take_group(ctx, text, &p);
    if (status) return status;
    gd__text_put(out, "%s:", p.glob);
    return gd__settings_parse(ctx, p.rest, print_setting, out);
}

gd_status gd__tune_print_schedule(gd_ctx *ctx, const char *text, gd_text *out)
{
    scoped p;
    gd_schedule schedule;
    gd_status status = take_schedule(ctx, text, &p);
    if (!status) status = gd_schedule_parse(ctx, p.rest, &schedule);
    if (status) return status;
    size_t size = (size_t)gd_schedule_print(&schedule, NULL, 0) + 1;
    char *printed = gd__alloc(ctx, size);
    if (!printed) return GD_NOMEM;
    (void)gd_schedule_print(&schedule, printed, size);
    gd__text_put(out, "%s: %s=", p.glob, p.key);
    gd__text_add(out, printed);
    gd__free(ctx, printed, size);
    return out->failed ? GD_NOMEM : GD_OK;
}
