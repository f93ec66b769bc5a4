/* The text of a preset with its settings put in. */
#include "optim/chain/preset.h"
#include "optim/link/link_internal.h"

#include <string.h>

/* The preset that is being expanded. */
typedef struct expansion {
    const gd_link *settings;
    const char *at;
    gd_text *out;
    bool any; /* a link was written */
} expansion;

/* Reads the next name and returns its field.  -1: the preset names none of its settings. */
static int take_field(expansion *e)
{
    char name[GD_NAME_SIZE];
    size_t length = gd__name_length(e->at), kept = length < sizeof name ? length : sizeof name - 1;
    memcpy(name, e->at, kept);
    name[kept] = 0;
    e->at += length;
    return gd__field_index(e->settings->cls, name);
}

static void put_value(expansion *e, int field)
{
    if (field < 0) return;
    gd_print p = gd__print(NULL, 0);
    gd__print_value(&p, e->settings, field);
    char small[256], *text = small;
    size_t size = p.used + 1;
    if (size > sizeof small && !(text = gd__alloc(e->out->ctx, size))) {
        e->out->failed = true;
        return;
    }
    p = gd__print(text, size);
    gd__print_value(&p, e->settings, field);
    gd__text_add(e->out, text);
    if (text != small) gd__free(e->out->ctx, text, size);
}

static bool is_on(const gd_setting *s)
{
    return s->kind == GD_SET_REAL || s->kind == GD_SET_BOOL ? s->real != 0
                                                            : s->kind && s->kind != GD_SET_NONE;
}

/* Reads `name:` and `!name:` before a link. False: the link is left out. */
static bool conditions_hold(expansion *e)
{
    for (bool hold = true;;) {
        e->at += strspn(e->at, " ");
        const char *name = e->at + (*e->at == '!');
        if (!gd__name_length(name) || name[gd__name_length(name)] != ':') return hold;
        bool wanted = *e->at != '!';
        e->at = name;
        int field = take_field(e);
        e->at++;
        hold = hold && field >= 0 && is_on(&e->settings->value[field]) == wanted;
    }
}

/* One link, up to the '|' outside of all brackets and quotes. */
static void put_link(expansion *e, bool wanted)
{
    int depth = 0;
    bool quoted = false;
    if (wanted && e->any) gd__text_add(e->out, " | ");
    e->any = e->any || wanted;
    for (; *e->at && (depth || quoted || *e->at != '|');) {
        char c = *e->at++;
        if (c == '"') quoted = !quoted;
        depth += (c == '(' || c == '[') - (c == ')' || c == ']');
        if (c == '$') {
            int field = take_field(e);
            if (wanted) put_value(e, field);
        } else if (wanted)
            gd__text_append(e->out, &c, 1);
    }
    if (*e->at) e->at++;
}

void gd__preset_expand(const gd_link *settings, gd_text *out)
{
    expansion e = {.settings = settings, .at = settings->cls->preset, .out = out};
    while (*e.at) put_link(&e, conditions_hold(&e));
    if (!e.any) gd__text_add(out, "[]");
}
