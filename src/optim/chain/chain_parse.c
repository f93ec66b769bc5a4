/* The chain language, by recursive descent:
 *
 *   chain  = item { "|" item }
 *   item   = link | "[" [chain] "]"
 *   link   = name [ "(" [ arg { "," arg } ] ")" ]
 *   arg    = [ name "=" ] value
 *   value  = number | string | "true" | "false" | "none" | "[" [number { "," number }] "]" | item
 *
 * The field of an argument is known before its value is read, so the type of the field decides what `[]` and bare words mean.
 * Links are collected flat: brackets and the name `chain` only splice.  A link that is in a chain cannot be moved
 * into another one, so the chain itself is made last. */
#include "gradus/chain.h"
#include "optim/chain/elsewhere.h"
#include "optim/chain/preset.h"
#include "optim/link/classes.h"
#include "optim/link/link_internal.h"
#include "base/text/scan.h"
#include "optim/text/setting.h"
#include "base/text/number.h"
#include "base/text/suggest.h"

#include <string.h>

/* ---- lists of links ---- */

typedef struct links {
    gd_link **item; /* owned references */
    int count, capacity;
} links;

static void links_free(gd_ctx *ctx, links *l)
{
    for (int i = 0; i < l->count; i++) gd_link_release(l->item[i]);
    gd__free(ctx, l->item, (size_t)l->capacity * sizeof *l->item);
    *l = (links){0};
}

/* The link is consumed, also on failure. */
static gd_status links_add(gd_ctx *ctx, links *l, gd_link *link)
{
    if (!gd__reserve(ctx, &l->item, l->count, &l->capacity, sizeof *l->item)) {
        gd_link_release(link);
        return GD_NOMEM;
    }
    l->item[l->count++] = link;
    return GD_OK;
}

/* Adds the links of a chain without other references, else the link itself.  Consumed. */
static gd_status add_flat(gd_ctx *ctx, links *out, gd_link *link)
{
    if (link->cls != &gd_link_chain || link->owned || link->head.refs > 1) return links_add(ctx, out, link);
    gd_status status = GD_OK;
    for (int i = 0; i < link->children && !status; i++) {
        gd_link *child = link->child[i];
        link->child[i] = NULL;
        child->owned = false;
        status = add_flat(ctx, out, child);
    }
    gd_link_release(link);
    return status;
}

/* The one link, or a chain of all; empties the list. */
static gd_link *links_join(gd_ctx *ctx, links *l)
{
    gd_link *out = NULL;
    if (l->count == 1) {
        out = l->item[0];
        l->count = 0;
    } else
        out = gd_link_new(ctx, &gd_link_chain);
    gd_status status = out ? GD_OK : GD_NOMEM;
    for (int i = 0; i < l->count && !status; i++) {
        status = gd_link_set_child(out, gd_link_chain.fields[0].name, l->item[i]);
        l->item[i] = NULL;
    }
    links_free(ctx, l);
    if (!status) return out;
    gd_link_release(out);
    return NULL;
}

/* ---- values ---- */

static gd_status parse_chain(gd_text_scan *s, links *out);
static gd_status parse_link(gd_text_scan *s, links *out);

/* A parsed argument; owns its texts and links. */
typedef struct value {
    gd_setting setting;
    gd_schedule schedule; /* that the setting points to, if it has one */
    gd_link *child;       /* kind CHAIN */
    size_t size;          /* bytes of the string */
    int capacity;         /* of the list */
} value;

static void value_free(gd_ctx *ctx, value *v)
{
    if (v->setting.kind == GD_SET_STRING) gd__free(ctx, (void *)(uintptr_t)v->setting.string, v->size);
    gd__free(ctx, (void *)(uintptr_t)v->setting.list, (size_t)v->capacity * sizeof(double));
    gd_link_release(v->child);
    *v = (value){0};
}

static gd_status list_add(gd_ctx *ctx, value *v, double number)
{
    if (v->setting.list_count == v->capacity) {
        int capacity = v->capacity ? 2 * v->capacity : 8;
        double *list = gd__realloc(ctx, (void *)(uintptr_t)v->setting.list,
                                   (size_t)v->capacity * sizeof *list, (size_t)capacity * sizeof *list);
        if (!list) return GD_NOMEM;
        v->setting.list = list;
        v->capacity = capacity;
    }
    ((double *)(uintptr_t)v->setting.list)[v->setting.list_count++] = number;
    return GD_OK;
}

/* The numbers of a list after its bracket at `open`. */
static gd_status parse_list(gd_text_scan *s, size_t open, value *v)
{
    v->setting.kind = GD_SET_LIST;
    if (gd__scan_peek(s) == ']') return gd__scan_close(s, ']', open);
    gd_status status;
    do {
        double number;
        status = gd__scan_number(s, &number);
        if (!status) status = list_add(s->ctx, v, number);
    } while (!status && gd__scan_take(s, ','));
    return status ? status : gd__scan_close(s, ']', open);
}

/* One link, or the chain after an opening bracket. */
static gd_status parse_child(gd_text_scan *s, gd_status (*parse)(gd_text_scan *, links *), value *v)
{
    links list = {0};
    gd_status status = parse(s, &list);
    if (!status) {
        v->child = links_join(s->ctx, &list);
        status = v->child ? GD_OK : GD_NOMEM;
    }
    links_free(s->ctx, &list);
    v->setting.kind = GD_SET_CHAIN;
    return status;
}

static gd_status parse_bracket(gd_text_scan *s, const gd_field *field, value *v)
{
    size_t open = s->at;
    gd_status status = gd__scan_open(s);
    if (status) return status;
    bool empty = gd__scan_peek(s) == ']',
         list_only = (field->kinds & GD_SET_LIST) || !(field->kinds & GD_SET_CHAIN);
    if (gd__scan_is_number(s) || (empty && list_only)) return parse_list(s, open, v);
    if (empty) {
        status = gd__scan_close(s, ']', open);
        v->setting.kind = GD_SET_CHAIN;
        if (!status && !(v->child = gd_link_new(s->ctx, &gd_link_chain))) status = GD_NOMEM;
        return status;
    }
    status = parse_child(s, parse_chain, v);
    return status ? status : gd__scan_close(s, ']', open);
}

/* A word that is a schedule, for a number: a link of that name takes precedence if the field takes both. */
static bool means_schedule(gd_text_scan *s, const gd_field *field, const char *word)
{
    if (!(field->kinds & GD_SET_REAL)) return false;
    if (field->kinds & GD_SET_CHAIN) return !gd__find_class(s->ctx, word) && gd__is_schedule(word);
    return gd__scan_is_schedule(s, word);
}

/* true, false, none, a schedule; else a link. */
static gd_status parse_word(gd_text_scan *s, const char *owner, const gd_field *field, value *v)
{
    size_t begin = s->at;
    char word[GD_NAME_SIZE];
    gd_status status = gd__scan_name(s, word);
    if (status) return status;
    bool yes = !strcmp(word, "true"), no = !strcmp(word, "false"), none = !strcmp(word, "none");
    v->setting = (gd_setting){.kind = none ? GD_SET_NONE : GD_SET_BOOL, .real = yes};
    if (yes || no || none) return GD_OK;
    v->setting.kind = 0;
    if (means_schedule(s, field, word)) {
        s->at = begin;
        return gd__scan_scheduled(s, &v->schedule, &v->setting);
    }
    if (!(field->kinds & GD_SET_CHAIN)) {
        char kinds[300];
        bool quotes = field->kinds & GD_SET_STRING && gd__is_choice(field->choices, word);
        return gd__scan_fail(s, begin, "%s: %s takes %s, got '%s'%s", owner, field->name,
                             gd__field_kinds(field, kinds, sizeof kinds), word,
                             quotes ? "; write it in quotes" : "");
    }
    s->at = begin;
    return parse_child(s, parse_link, v);
}

static gd_status parse_value(gd_text_scan *s, const char *owner, const gd_field *field, value *v)
{
    char next = gd__scan_peek(s);
    if (gd__scan_is_number(s)) {
        v->setting.kind = GD_SET_REAL;
        return gd__scan_number(s, &v->setting.real);
    }
    if (next == '[') return parse_bracket(s, field, v);
    if (gd__scan_is_name(s)) return parse_word(s, owner, field, v);
    if (next != '"') return gd__scan_expected(s, "a value");
    char *string;
    gd_status status = gd__scan_string(s, &string, &v->size);
    if (!status) v->setting = (gd_setting){.kind = GD_SET_STRING, .string = string};
    return status;
}

/* ---- arguments ---- */

/* A link whose arguments are being read. */
typedef struct call {
    const gd_link_class *cls;
    gd_link *link;
    links *splice;  /* instead of a link, for the class chain: children go here */
    uint64_t given; /* bits of fields */
    int next;       /* field of the next value by position */
    bool named;     /* there was one by name */
} call;

static gd_status set_value(gd_text_scan *s, call *c, const gd_field *field, value *v)
{
    gd_link *child = v->child;
    v->child = NULL; /* consumed below */
    if (child && c->splice) return add_flat(s->ctx, c->splice, child);
    if (child) return gd_link_set_child(c->link, field->name, child);
    return gd_link_set(c->link, field->name, v->setting);
}

/* A name that is not a setting of the class; it may be a link, which adam(lr=0.1) has elsewhere as a setting. */
static gd_status unknown_setting(gd_text_scan *s, size_t begin, const gd_link_class *cls, const char *name)
{
    char where[GD_WHERE_SIZE];
    double number;
    const char *given = s->text + s->at + strspn(s->text + s->at, " =");
    size_t length = gd__parse_number(given, strlen(given), false, &number);
    bool rate = gd__is_rate(name, strlen(name));
    const char *link = rate ? "lr" : name;
    if (rate && gd__field_index(cls, link) >= 0)
        return gd__scan_fail(s, begin, "%s has no setting '%s', did you mean '%s'?", cls->name, name, link);
    if (!gd__find_class(s->ctx, link))
        return gd__no_such_field(s->ctx, gd__scan_where(s, begin, where), cls, name);
    return gd__scan_fail(s, begin, "%s has no setting '%s', which is a link: write %s | %s(%.*s)", cls->name,
                         name, cls->name, link, length && length < 40 ? (int)length : 3,
                         length && length < 40 ? given : "...");
}

/* Reads `name =` and returns its field. */
static gd_status named_field(gd_text_scan *s, call *c, int *field)
{
    size_t begin = s->at;
    char name[GD_NAME_SIZE];
    gd_status status = gd__scan_name(s, name);
    if (status) return status;
    *field = gd__field_index(c->cls, name);
    if (*field < 0 && !strcmp(name, "schedule") && c->cls->field_count &&
        c->cls->fields[0].kinds & GD_SET_REAL)
        *field = 0; /* lr(schedule=...) */
    if (*field < 0) return unknown_setting(s, begin, c->cls, name);
    if (c->cls->fields[*field].variadic)
        return gd__scan_fail(s, begin, "%s: %s are given by position", c->cls->name, name);
    if (c->given >> *field & 1) return gd__scan_fail(s, begin, "%s: %s is given twice", c->cls->name, name);
    (void)gd__scan_take(s, '=');
    c->named = true;
    return GD_OK;
}

/* The field of a value by position. */
static gd_status next_field(gd_text_scan *s, call *c, int *field)
{
    int count = c->cls->field_count;
    *field = c->next;
    if (c->named) return gd__scan_fail(s, s->at, "%s: a value by position after one by name", c->cls->name);
    if (!count) return gd__scan_fail(s, s->at, "%s takes no settings", c->cls->name);
    if (c->next >= count)
        return gd__scan_fail(s, s->at, "%s takes at most %d setting%s", c->cls->name, count,
                             count > 1 ? "s" : "");
    if (!c->cls->fields[c->next].variadic) c->next++;
    return GD_OK;
}

static gd_status parse_argument(gd_text_scan *s, call *c)
{
    int index = -1;
    gd_status status = gd__scan_is_assignment(s) ? named_field(s, c, &index) : next_field(s, c, &index);
    if (status) return status;
    const gd_field *field = &c->cls->fields[index];
    char where[GD_WHERE_SIZE];
    (void)gd__scan_peek(s);
    size_t begin = s->at;
    value v = {.child = NULL};
    status = parse_value(s, c->cls->name, field, &v);
    if (!status) status = gd__field_check(s->ctx, gd__scan_where(s, begin, where), c->cls, field, &v.setting);
    if (!status) status = set_value(s, c, field, &v);
    if (!status) c->given |= (uint64_t)1 << index;
    value_free(s->ctx, &v);
    return status;
}

static gd_status parse_arguments(gd_text_scan *s, call *c)
{
    if (gd__scan_peek(s) != '(') return GD_OK;
    size_t open = s->at;
    gd_status status = gd__scan_open(s);
    if (!status && gd__scan_peek(s) != ')') {
        do status = parse_argument(s, c);
        while (!status && gd__scan_take(s, ','));
    }
    return status ? status : gd__scan_close(s, ')', open);
}

/* ---- links and chains ---- */

/* A name of a different library. */
static gd_status known_elsewhere(gd_text_scan *s, size_t at, size_t length, const char *chain)
{
    return gd__scan_fail(s, at, "link '%.*s' unknown: write %s", (int)(length < 60 ? length : 60),
                         s->text + at, chain);
}

static gd_status unknown_link(gd_text_scan *s, size_t at, const char *name)
{
    char chain[GD_ELSEWHERE_SIZE];
    size_t length;
    if (gd__elsewhere(s->text + at, &length, chain)) return known_elsewhere(s, at, length, chain);
    gd_suggest nearest = gd__suggest(name, strlen(name));
    const gd_link_class *cls;
    for (int i = 0; (cls = gd__class_at(s->ctx, i)); i++) gd__suggest_try(&nearest, cls->name);
    char hint[GD_HINT_SIZE];
    return gd__scan_fail(s, at, "link '%s' unknown%s", name, gd__suggest_hint(&nearest, hint));
}

/* The class's own check; its error gets the column in front. */
static gd_status check_together(gd_text_scan *s, size_t at, const call *c)
{
    bool clean = gd_error(s->ctx) == GD_OK;
    gd_status status = c->cls->check ? c->cls->check(c->link) : GD_OK;
    if (!status || status == GD_NOMEM || !clean) return status;
    char text[sizeof s->ctx->error];
    memcpy(text, s->ctx->error, sizeof text);
    gd_clear_error(s->ctx);
    return gd__scan_fail(s, at, "%s", *text ? text : c->cls->name);
}

/* The links of a preset. */
static gd_status add_expanded(gd_text_scan *s, size_t at, const gd_link *settings, links *out)
{
    gd_text text = {.ctx = s->ctx};
    gd__preset_expand(settings, &text);
    gd_text_scan inner;
    gd_status status = text.failed ? GD_NOMEM
                                   : gd__scan_begin(&inner, s->ctx, settings->cls->name, text.data);
    inner.depth = s->depth + 1; /* a preset may contain a preset, but not endlessly */
    if (!status && inner.depth >= GD_SCAN_MAX_DEPTH)
        status = gd__scan_fail(s, at, "%s: presets nest too deep", settings->cls->name);
    if (!status) status = parse_chain(&inner, out);
    if (!status && gd__scan_peek(&inner)) status = gd__scan_expected(&inner, "'|' or the end");
    gd__text_free(&text);
    return status;
}

/* After a link neither '|' nor an end follows: `lr 0.1`, `lr = 0.1`, and names like newton-cg. */
static gd_status check_behind(gd_text_scan *s, size_t begin)
{
    char next = gd__scan_peek(s), chain[GD_ELSEWHERE_SIZE];
    if (!next || strchr("|,])", next)) return GD_OK;
    const char *name = s->text + begin;
    size_t own = gd__name_length(name), length = 0, given;
    if (gd__elsewhere(name, &length, chain) && length > own) return known_elsewhere(s, begin, length, chain);
    size_t place = s->at;
    if (gd__scan_take(s, '=')) (void)gd__scan_peek(s);
    double number;
    bool bare = begin + own + strspn(name + own, " ") == place;
    const char *behind = s->text + s->at;
    given = bare ? gd__parse_number(behind, strlen(behind), false, &number) : 0;
    if (given && given < 40)
        return gd__scan_fail(s, place, "settings stand in parentheses: write %.*s(%.*s)", (int)own, name,
                             (int)given, behind);
    s->at = place;
    return GD_OK; /* the caller reports what it expected */
}

static gd_status parse_link(gd_text_scan *s, links *out)
{
    (void)gd__scan_peek(s);
    size_t begin = s->at;
    char name[GD_NAME_SIZE];
    if (!gd__scan_is_name(s)) return gd__scan_expected(s, "a link");
    gd_status status = gd__scan_name(s, name);
    if (status) return status;
    call c = {.cls = gd__find_class(s->ctx, name)};
    if (!c.cls) return unknown_link(s, begin, name);
    if (c.cls == &gd_link_chain) {
        c.splice = out;
        return parse_arguments(s, &c);
    }
    if (!(c.link = gd__link_new(s->ctx, c.cls))) return GD_NOMEM;
    status = parse_arguments(s, &c);
    if (!status) status = check_behind(s, begin);
    if (!status && gd__link_needs(c.link))
        status = gd__scan_fail(s, begin, "%s: needs '%s'", c.cls->name, gd__link_needs(c.link));
    if (!status) status = check_together(s, begin, &c);
    if (!status && !c.cls->preset) return links_add(s->ctx, out, c.link);
    if (!status) status = add_expanded(s, begin, c.link, out);
    gd_link_release(c.link);
    return status;
}

static gd_status parse_item(gd_text_scan *s, links *out)
{
    if (gd__scan_peek(s) != '[') return parse_link(s, out);
    size_t open = s->at;
    gd_status status = gd__scan_open(s);
    if (!status && gd__scan_peek(s) != ']') status = parse_chain(s, out);
    return status ? status : gd__scan_close(s, ']', open);
}

static gd_status parse_chain(gd_text_scan *s, links *out)
{
    gd_status status;
    do status = parse_item(s, out);
    while (!status && gd__scan_take(s, '|'));
    return status;
}

gd_link *gd_chain(gd_ctx *ctx, const char *text)
{
    if (!ctx) return NULL;
    gd_text_scan s;
    links list = {0};
    gd_status status = gd__scan_begin(&s, ctx, "chain", text);
    if (!status) status = parse_chain(&s, &list);
    if (!status && gd__scan_peek(&s)) status = gd__scan_expected(&s, "'|' or the end");
    gd_link *out = status ? NULL : links_join(ctx, &list);
    links_free(ctx, &list);
    return out;
}

/* ---- chains from links ---- */

gd_link *gd_chain_of(gd_ctx *ctx, gd_link *const *given, int count)
{
    links list = {0};
    gd_status status = ctx && (given || count <= 0) ? GD_OK : gd__null(ctx, "chain: the links are NULL");
    for (int i = 0; given && i < count; i++) {
        if (given[i] && !status)
            status = add_flat(ctx, &list, given[i]);
        else
            gd_link_release(given[i]);
        if (!given[i]) status = GD_ARGUMENT;
    }
    gd_link *out = status ? NULL : links_join(ctx, &list);
    links_free(ctx, &list);
    return out;
}
