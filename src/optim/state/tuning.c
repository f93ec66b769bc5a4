/* Groups and schedules; see tuning.h. */
#include "optim/state/tuning.h"
#include "gradus/link.h"
#include "optim/text/setting.h"

#include <stdio.h>
#include <string.h>

/* The text before `end`; false: empty, or too long. */
static bool before(const char *text, const char *end, char *out, size_t size)
{
    if (!end || end == text || (size_t)(end - text) >= size) return false;
    (void)snprintf(out, size, "%.*s", (int)(end - text), text);
    return true;
}

/* The three parts of a text: before the colon, before the equals sign, and the rest. */
typedef struct scoped {
    char glob[256], key[64]; /* glob "": for all */
    const char *rest;
} scoped;

static const char *past_spaces(const char *text) { return text + strspn(text, " "); }

static gd_status take_group(gd_ctx *ctx, const char *text, scoped *p)
{
    const char *colon = strchr(text, ':');
    if (!before(text, colon, p->glob, sizeof p->glob))
        return gd_fail(ctx, GD_PARSE, "{groups}: GLOB: KEY=VALUE expected, '%.60s' found", text);
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
                       "{schedules}: KEY=SCHEDULE or GLOB: KEY=SCHEDULE expected, '%.60s' found", text);
    p->rest = equals + 1;
    return GD_OK;
}

/* ---- a chain among the settings of a group ---- */

/* The comma that ends an item of a list, or the end of the text: not one in brackets or in quotes. */
static const char *item_end(const char *text)
{
    int depth = 0;
    bool quoted = false;
    for (; *text && (quoted || depth > 0 || *text != ','); text++) {
        if (quoted && *text == '\\' && text[1])
            text++;
        else if (*text == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (*text == '[' || *text == '(') - (*text == ']' || *text == ')');
    }
    return text;
}

/* The text after "chain ="; NULL: it is a different setting. */
static const char *chain_value(const char *item)
{
    if (strncmp(item, "chain", 5) != 0) return NULL;
    const char *equals = past_spaces(item + 5);
    return *equals == '=' ? past_spaces(equals + 1) : NULL;
}

/* The items of a group's text: those that are settings in one, the chain, without its brackets, in the other. */
static gd_status take_items(gd_ctx *ctx, const scoped *p, gd_text *settings, gd_text *chain)
{
    for (const char *at = p->rest, *end; *(at = past_spaces(at)); at = *end ? end + 1 : end) {
        end = item_end(at);
        const char *value = chain_value(at);
        if (!value) {
            gd__text_put(settings, "%s%.*s", settings->used ? ", " : "", (int)(end - at), at);
            continue;
        }
        size_t length = (size_t)(end - value);
        while (length && value[length - 1] == ' ') length--;
        bool brackets = length > 1 && *value == '[' && value[length - 1] == ']';
        if (chain->used || length <= (brackets ? 2 : 0))
            return gd_fail(ctx, GD_PARSE, "{groups} '%.80s': %s", p->glob,
                           chain->used ? "it has two chains" : "its chain is empty");
        gd__text_put(chain, "%.*s", (int)length - 2 * brackets, value + brackets);
    }
    return settings->failed || chain->failed ? GD_NOMEM : GD_OK;
}

/* Splits the text of a group. The caller frees the results. */
static gd_status open_group(gd_ctx *ctx, const char *text, scoped *p, gd_text *settings, gd_text *chain)
{
    *settings = *chain = (gd_text){.ctx = ctx};
    gd_status status = take_group(ctx, text, p);
    return status ? status : take_items(ctx, p, settings, chain);
}

/* split(GLOB, own, rest); both are consumed. */
static gd_link *split_off(gd_ctx *ctx, const char *glob, gd_link *own, gd_link *rest)
{
    const gd_link_option options[] = {gd_string_option("filter", glob), gd_child_option("true", own),
                                      gd_child_option("false", rest)};
    return gd_link_with(ctx, "split", options, 3);
}

/* The chain of a group.  New; NULL with the error recorded, which names the group. */
static gd_link *own_chain(gd_ctx *ctx, const scoped *p, const gd_text *text)
{
    gd_link *link = gd_chain(ctx, text->data);
    if (link) return link;
    char why[300];
    gd_status status = gd_error(ctx);
    (void)snprintf(why, sizeof why, "%s", gd_error_text(ctx));
    gd_clear_error(ctx);
    (void)gd_fail(ctx, status, "{groups} '%.80s': %s", p->glob, why);
    return NULL;
}

gd_status gd__tune_split(gd_ctx *ctx, gd_link **chain, const char *text)
{
    scoped p;
    gd_text settings, own;
    gd_status status = open_group(ctx, text, &p, &settings, &own);
    if (!status && own.used) {
        gd_link *link = own_chain(ctx, &p, &own);
        if (!link || !(*chain = split_off(ctx, p.glob, link, *chain))) status = gd_error(ctx);
    }
    gd__text_free(&settings);
    gd__text_free(&own);
    return status;
}

gd_status gd__tune_group(gd_optimizer *optimizer, const char *text)
{
    scoped p;
    gd_text settings, own;
    gd_status status = open_group(gd_optimizer_ctx(optimizer), text, &p, &settings, &own);
    if (!status && !settings.used && !own.used)
        status = gd_fail(gd_optimizer_ctx(optimizer), GD_PARSE, "{groups} '%.80s': it has no setting",
                         p.glob);
    if (!status) status = gd_optimizer_regroup(optimizer, p.glob, settings.used ? settings.data : NULL);
    gd__text_free(&settings);
    gd__text_free(&own);
    return status;
}

gd_status gd__tune_schedule(gd_optimizer *optimizer, const char *text)
{
    scoped p;
    gd_status status = take_schedule(gd_optimizer_ctx(optimizer), text, &p);
    if (status) return status;
    return p.glob[0] ? gd_optimizer_schedule_matching(optimizer, p.glob, p.key, p.rest)
                     : gd_optimizer_schedule(optimizer, -1, p.key, p.rest);
}

gd_status gd__tune_check_schedules(gd_ctx *ctx, const char *const *texts, int count)
{
    scoped one, other;
    for (int i = 0; i < count; i++) {
        gd_status status = take_schedule(ctx, texts[i], &one);
        for (int k = i + 1; k < count && !status; k++) {
            status = take_schedule(ctx, texts[k], &other);
            if (!status && !strcmp(one.glob, other.glob) && !strcmp(one.key, other.key))
                status = gd_fail(ctx, GD_ARGUMENT, "{schedules}: %.80s%s%.60s is given twice", one.glob,
                                 one.glob[0] ? ": " : "", one.key);
        }
        if (status) return status;
    }
    return GD_OK;
}

static bool reaches(const gd_link *split, const gd_link *chain, const gd_tensor *param)
{
    while (split && split != chain)
        split = gd_link_selects(split, "filter", param) ? NULL : gd_link_child(split, "false");
    return split != NULL;
}

bool gd__tune_uses(const gd_optimizer *optimizer, const gd_link *split, const gd_link *chain)
{
    bool used = false;
    for (int i = 0; i < gd_optimizer_count(optimizer) && !used; i++)
        used = reaches(split, chain, gd_optimizer_param(optimizer, i));
    return used;
}

/* ---- canonical text ---- */

/* A chain, which is consumed; NULL means failure. */
static gd_status put_chain(gd_ctx *ctx, gd_link *chain, gd_text *out)
{
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

gd_status gd__tune_print_chain(gd_ctx *ctx, const char *text, gd_text *out)
{
    return put_chain(ctx, gd_chain(ctx, text), out);
}

static void put_schedule(gd_text *out, const gd_schedule *schedule)
{
    size_t size = (size_t)gd_schedule_print(schedule, NULL, 0) + 1;
    char *printed = gd__alloc(out->ctx, size);
    if (!printed) {
        out->failed = true;
        return;
    }
    (void)gd_schedule_print(schedule, printed, size);
    gd__text_add(out, printed);
    gd__free(out->ctx, printed, size);
}

static gd_status print_setting(void *user, const char *key, const gd_setting *value)
{
    gd_text *out = user;
    gd__text_put(out, " %s=", key);
    if (value->schedule)
        put_schedule(out, value->schedule);
    else if (value->kind == GD_SET_REAL)
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
    gd_text settings, own;
    gd_status status = open_group(ctx, text, &p, &settings, &own);
    gd__text_put(out, "%s:", status ? "" : p.glob);
    if (!status && own.used) {
        gd__text_add(out, " chain=[");
        status = put_chain(ctx, own_chain(ctx, &p, &own), out);
        gd__text_add(out, "]");
    }
    if (!status && settings.used) status = gd__settings_parse(ctx, settings.data, print_setting, out);
    gd__text_free(&settings);
    gd__text_free(&own);
    return status;
}

gd_status gd__tune_print_schedule(gd_ctx *ctx, const char *text, gd_text *out)
{
    scoped p;
    gd_schedule schedule;
    gd_status status = take_schedule(ctx, text, &p);
    if (!status) status = gd_schedule_parse(ctx, p.rest, &schedule);
    if (status) return status;
    gd__text_put(out, "%s: %s=", p.glob, p.key);
    put_schedule(out, &schedule);
    return out->failed ? GD_NOMEM : GD_OK;
}
