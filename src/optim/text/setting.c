/* Settings and the values that fields accept; see setting.h. */
#include "optim/text/setting.h"
#include "base/text/suggest.h"
#include "gradus/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LARGEST_WHOLE 9007199254740992.0 /* 2^53: beyond, not every whole number is a double */

/* ---- values ---- */

gd_status gd__setting_copy(gd_ctx *ctx, gd_setting *out, const gd_setting *in)
{
    *out = (gd_setting){.kind = in->kind};
    if (in->kind == GD_SET_REAL || in->kind == GD_SET_BOOL) out->real = in->real;
    if (in->kind == GD_SET_STRING) out->string = gd__intern(ctx, in->string, strlen(in->string));
    if (in->kind == GD_SET_LIST) {
        size_t count = (size_t)in->list_count;
        double *list = gd__alloc_array(ctx, count, sizeof *list);
        if (list && count) memcpy(list, in->list, count * sizeof *list);
        out->list = list;
        out->list_count = in->list_count;
    }
    if (in->schedule && (out->schedule = gd__alloc(ctx, sizeof *in->schedule)))
        *(gd_schedule *)(uintptr_t)out->schedule = *in->schedule;
    bool failed = (in->kind == GD_SET_STRING && !out->string) || (in->kind == GD_SET_LIST && !out->list) ||
                  (in->schedule && !out->schedule);
    if (failed) *out = (gd_setting){0};
    return failed ? GD_NOMEM : GD_OK;
}

void gd__setting_free(gd_ctx *ctx, gd_setting *setting)
{
    if (setting->kind == GD_SET_LIST)
        gd__free(ctx, (void *)(uintptr_t)setting->list, (size_t)setting->list_count * sizeof *setting->list);
    gd__free(ctx, (void *)(uintptr_t)setting->schedule, sizeof *setting->schedule);
    *setting = (gd_setting){0};
}

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

bool gd__setting_equal(const gd_setting *a, const gd_setting *b)
{
    if (a->kind != b->kind) return false;
    if (a->schedule || b->schedule) return gd_schedule_equal(a->schedule, b->schedule);
    switch (a->kind) {
    case GD_SET_REAL:
    case GD_SET_BOOL: return same_number(a->real, b->real);
    case GD_SET_STRING: return !strcmp(a->string, b->string);
    case GD_SET_LIST:
        if (a->list_count != b->list_count) return false;
        for (int i = 0; i < a->list_count; i++)
            if (!same_number(a->list[i], b->list[i])) return false;
        return true;
    case GD_SET_NONE:
    case GD_SET_CHAIN: break;
    }
    return true;
}

void gd__setting_print(gd_print *p, const gd_setting *setting)
{
    if (setting->schedule) {
        gd__schedule_print(p, setting->schedule);
        return;
    }
    switch (setting->kind) {
    case GD_SET_REAL: gd__print_number(p, setting->real); break;
    case GD_SET_BOOL: gd__print_text(p, setting->real != 0 ? "true" : "false"); break;
    case GD_SET_STRING: gd__print_string(p, setting->string); break;
    case GD_SET_NONE: gd__print_text(p, "none"); break;
    case GD_SET_CHAIN: gd__print_text(p, "a chain"); break;
    case GD_SET_LIST:
        gd__print_text(p, "[");
        for (int i = 0; i < setting->list_count; i++) {
            if (i) gd__print_text(p, ", ");
            gd__print_number(p, setting->list[i]);
        }
        gd__print_text(p, "]");
        break;
    }
}

bool gd__setting_advance(gd_setting *s, int64_t step, bool whole)
{
    double value = gd_schedule_value(s->schedule, step);
    if (whole) value = gd__snap(value);
    bool changed = value != s->real;
    s->real = value;
    return changed;
}

/* ---- choices: "zeros|update" ---- */

/* The next choice: its length, and *next behind it; false at the end. */
static bool next_choice(const char **next, const char **choice, size_t *length)
{
    if (!*next) return false;
    const char *bar = strchr(*next, '|');
    *choice = *next;
    *length = bar ? (size_t)(bar - *next) : strlen(*next);
    *next = bar ? bar + 1 : NULL;
    return true;
}

bool gd__is_choice(const char *choices, const char *string)
{
    if (!choices) return true;
    const char *choice;
    size_t length;
    while (next_choice(&choices, &choice, &length))
        if (strlen(string) == length && !memcmp(choice, string, length)) return true;
    return false;
}

/* ---- accepted values, in words ---- */

#define PIECE_SIZE 64
#define MAX_PIECES 24

/* Words that become "a, b or c". */
typedef struct pieces {
    char text[MAX_PIECES][PIECE_SIZE];
    int count;
} pieces;

static gd_print add_piece(pieces *p)
{
    int at = p->count < MAX_PIECES ? p->count++ : MAX_PIECES - 1;
    return gd__print(p->text[at], PIECE_SIZE);
}

static void add_choices(pieces *p, const char *choices)
{
    const char *choice;
    size_t length;
    while (next_choice(&choices, &choice, &length)) {
        char text[PIECE_SIZE - 2];
        size_t fits = length < sizeof text ? length : sizeof text - 1;
        memcpy(text, choice, fits);
        text[fits] = 0;
        gd_print out = add_piece(p);
        gd__print_string(&out, text);
    }
}

/* " from 0 to 1", " 0 or more", " 1 or less", ""; `of` leads if there is one bound. */
static void print_range(gd_print *out, const gd_field *field, const char *of)
{
    bool low = field->low > -INFINITY, high = field->high < INFINITY;
    if (!low && !high) return;
    gd__print_text(out, low && high ? " from " : of);
    gd__print_number(out, low ? field->low : field->high);
    if (low && high) {
        gd__print_text(out, " to ");
        gd__print_number(out, field->high);
    } else
        gd__print_text(out, low ? " or more" : " or less");
}

static void add_number(pieces *p, const gd_field *field, bool range)
{
    gd_print out = add_piece(p);
    gd__print_text(&out, field->integer ? "a whole number" : "a number");
    if (range) print_range(&out, field, " of ");
}

static void add_word(pieces *p, const char *word)
{
    gd_print out = add_piece(p);
    gd__print_text(&out, word);
}

static pieces pieces_of(const gd_field *field, bool range)
{
    pieces p = {.count = 0};
    if (field->kinds & GD_SET_REAL) add_number(&p, field, range);
    if (field->kinds & GD_SET_STRING) {
        if (field->choices)
            add_choices(&p, field->choices);
        else
            add_word(&p, "a string");
    }
    if (field->kinds & GD_SET_LIST) add_word(&p, "a list of numbers");
    if (field->kinds & GD_SET_CHAIN) add_word(&p, "a link or chain");
    if (field->kinds & GD_SET_BOOL) {
        add_word(&p, "true");
        add_word(&p, "false");
    }
    if (field->kinds & GD_SET_NONE) add_word(&p, "none");
    return p;
}

static const char *join(const pieces *p, char *out, size_t size)
{
    gd_print text = gd__print(out, size);
    for (int i = 0; i < p->count; i++) {
        if (i) gd__print_text(&text, i + 1 < p->count ? ", " : " or ");
        gd__print_text(&text, p->text[i]);
    }
    return out;
}

const char *gd__field_kinds(const gd_field *field, char *out, size_t size)
{
    pieces p = pieces_of(field, true);
    return join(&p, out, size);
}

/* ---- the check ---- */

/* Data of an error message. */
typedef struct check {
    gd_ctx *ctx;
    const char *where, *owner;
    const gd_field *field;
    const gd_setting *setting;
} check;

static gd_status complain(const check *c, gd_status status, const char *verb, const char *value,
                          const char *rest)
{
    bool parsing = c->where && *c->where;
    return gd_fail(c->ctx, parsing ? GD_PARSE : status, "%s%s: %s %s %s%s", parsing ? c->where : "", c->owner,
                   c->field->name, verb, value, rest);
}

/* amsgrad takes true or false, got 3 */
static gd_status wrong_kind(const check *c)
{
    char kinds[400], got[80] = ", got ";
    pieces p = pieces_of(c->field, false);
    gd_print text = gd__print(got + 6, sizeof got - 6);
    bool nothing = !c->setting->kind || (c->setting->kind == GD_SET_STRING && !c->setting->string);
    if (nothing)
        gd__print_text(&text, "nothing");
    else
        gd__setting_print(&text, c->setting);
    return complain(c, GD_TYPE, "takes", join(&p, kinds, sizeof kinds), got);
}

/* beta1 is 1.5, must be from 0 to 1; `must` NULL: the range */
static gd_status wrong_number(const check *c, int index, double value, const char *must)
{
    char is[24] = "is", number[GD_NUMBER_SIZE], rest[120];
    if (index >= 0) {
        gd_print verb = gd__print(is, sizeof is);
        gd__print_text(&verb, "item ");
        gd__print_number(&verb, index);
        gd__print_text(&verb, " is");
    }
    gd_print text = gd__print(rest, sizeof rest);
    gd__print_text(&text, ", must be");
    if (must)
        gd__print_text(&text, must);
    else
        print_range(&text, c->field, " ");
    return complain(c, GD_VALUE, is, gd__number_text(value, number), rest);
}

static bool is_bounded(const gd_field *f) { return f->low > -INFINITY || f->high < INFINITY; }

bool gd__field_in_range(const gd_field *f, double value)
{
    return is_bounded(f) ? value >= f->low && value <= f->high : !isnan(value);
}

static gd_status check_number(const check *c, int index, double value, bool ranged)
{
    const gd_field *f = c->field;
    if (f->integer && (floor(value) != value || fabs(value) > LARGEST_WHOLE))
        return wrong_number(c, index, value, " a whole number");
    bool inside = ranged ? gd__field_in_range(f, value) : !isnan(value);
    return inside ? GD_OK : wrong_number(c, index, value, ranged && is_bounded(f) ? NULL : " a number");
}

/* init is "zero", must be "zeros" or "update" */
static gd_status check_selection(const check *c)
{
    char why[256];
    if (gd_select(c->ctx, c->setting->string, NULL, NULL, NULL) == GD_OK) return GD_OK;
    (void)snprintf(why, sizeof why, "%s", gd_error_text(c->ctx));
    gd_clear_error(c->ctx);
    return complain(c, GD_VALUE, "is no selection:", why, "");
}

static gd_status check_string(const check *c)
{
    if (c->field->selection) return check_selection(c);
    if (gd__is_choice(c->field->choices, c->setting->string)) return GD_OK;
    char got[80], rest[500] = ", must be ";
    gd_print text = gd__print(got, sizeof got);
    gd__print_string(&text, c->setting->string);
    pieces p = {.count = 0};
    add_choices(&p, c->field->choices);
    (void)join(&p, rest + strlen(rest), sizeof rest - strlen(rest));
    return complain(c, GD_VALUE, "is", got, rest);
}

/* vectorize is false, must be true: all rows of the Hessian are made at once */
static gd_status check_only(const check *c)
{
    const gd_setting *usual = &c->field->fallback;
    if (c->setting->kind == usual->kind && c->setting->real == usual->real) return GD_OK;
    char got[80], rest[200] = ", must be ";
    gd_print text = gd__print(got, sizeof got);
    gd__setting_print(&text, c->setting);
    text = gd__print(rest + strlen(rest), sizeof rest - strlen(rest));
    gd__setting_print(&text, usual);
    gd__print_text(&text, ": ");
    gd__print_text(&text, c->field->only);
    return complain(c, GD_VALUE, "is", got, rest);
}

gd_status gd__field_check_of(gd_ctx *ctx, const char *where, const char *owner, const gd_field *field,
                             const gd_setting *setting)
{
    check c = {ctx, where, owner, field, setting};
    bool text = setting->kind == GD_SET_STRING;
    if (!(field->kinds & (unsigned)setting->kind) || (text && !setting->string)) return wrong_kind(&c);
    if (field->only) return check_only(&c);
    if (text) return check_string(&c);
    if (setting->schedule) return gd__schedule_fits(ctx, where, owner, field, setting->schedule);
    if (setting->kind == GD_SET_REAL) return check_number(&c, -1, setting->real, true);
    if (setting->kind != GD_SET_LIST) return GD_OK;
    /* a list follows the range of the field where it has one */
    gd_status status = GD_OK;
    for (int i = 0; i < setting->list_count && !status; i++)
        status = check_number(&c, i, setting->list[i], field->low < field->high);
    return status;
}

gd_status gd__field_check(gd_ctx *ctx, const char *where, const gd_link_class *cls, const gd_field *field,
                          const gd_setting *setting)
{
    return gd__field_check_of(ctx, where, cls->name, field, setting);
}

gd_status gd__no_such_field(gd_ctx *ctx, const char *where, const gd_link_class *cls, const char *name)
{
    gd_suggest s = gd__suggest(name, strlen(name));
    for (int i = 0; i < cls->field_count; i++) gd__suggest_try(&s, cls->fields[i].name);
    char hint[GD_HINT_SIZE];
    bool parsing = where && *where;
    return gd_fail(ctx, parsing ? GD_PARSE : GD_ATTRIBUTE, "%s%s has no setting '%.80s'%s",
                   parsing ? where : "", cls->name, name, gd__suggest_hint(&s, hint));
}
