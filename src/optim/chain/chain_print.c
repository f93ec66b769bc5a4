/* The text of links; see gradus/chain.h.
 *
 * Settings at their default are left out.  A setting that must be given, and one named like its link (lr of lr), is printed
 * by position as long as everything before it was: clip_norm(1), lr(0.1), multistep([adam | lr(0.1)], 3).  Children of a setting
 * that takes any number of them can only go by position, so everything before them goes by position too, defaults included: both(none, 0.5,
 * adam, lr(1)). */
#include "gradus/chain.h"
#include "optim/chain/preset.h"
#include "optim/link/classes.h"
#include "optim/link/link_internal.h"
#include "base/text/scan.h"
#include "optim/text/setting.h"

#include <string.h>

static void print_link(gd_print *p, const gd_link *link);

/* The links of a chain, nested chains flattened.  Returns how many; p NULL: only counts. */
static int print_items(gd_print *p, const gd_link *chain, int before)
{
    int count = 0;
    for (int i = 0; i < chain->children; i++) {
        const gd_link *child = chain->child[i];
        if (child->cls == &gd_link_chain) {
            count += print_items(p, child, before + count);
            continue;
        }
        if (p && before + count) gd__print_text(p, " | ");
        if (p) print_link(p, child);
        count++;
    }
    return count;
}

/* A child: one link bare, several or none in brackets. */
static void print_child(gd_print *p, const gd_link *child)
{
    bool brackets = child->cls == &gd_link_chain && print_items(NULL, child, 0) != 1;
    if (brackets) gd__print_text(p, "[");
    if (child->cls == &gd_link_chain)
        (void)print_items(p, child, 0);
    else
        print_link(p, child);
    if (brackets) gd__print_text(p, "]");
}

/* The arguments of a link that are printed already. */
typedef struct arguments {
    gd_print *p;
    bool any, by_name;
    int positions; /* that many first settings are always printed, by position */
} arguments;

/* "(" or ", ", and the name unless the value goes by position. */
static void begin_argument(arguments *a, const gd_field *field, bool by_position)
{
    gd__print_text(a->p, a->any ? ", " : "(");
    a->any = true;
    if (by_position) return;
    a->by_name = true;
    gd__print_text(a->p, field->name);
    gd__print_text(a->p, "=");
}

/* A number that was given where any number of children and numbers are taken. */
static bool is_number(const gd_field *field, const gd_link *child)
{
    return field->kinds & GD_SET_REAL && !strcmp(child->cls->name, "fill");
}

static void print_children(arguments *a, const gd_link *link, int field)
{
    for (int i = 0; i < link->children; i++) {
        if (link->child_field[i] != field) continue;
        begin_argument(a, &link->cls->fields[field], true);
        if (is_number(&link->cls->fields[field], link->child[i]))
            gd__setting_print(a->p, &link->child[i]->value[0]);
        else
            print_child(a->p, link->child[i]);
    }
    a->by_name = true; /* what follows has a name */
}

static const gd_link *child_of(const gd_link *link, int field)
{
    for (int i = 0; i < link->children; i++)
        if (link->child_field[i] == field) return link->child[i];
    return NULL;
}

void gd__print_value(gd_print *p, const gd_link *link, int field)
{
    const gd_link *child = link->value[field].kind == GD_SET_CHAIN ? child_of(link, field) : NULL;
    if (child)
        print_child(p, child);
    else
        gd__setting_print(p, &link->value[field]);
}

/* Settings before one that takes any number of children and has some. */
static int positions_of(const gd_link *link)
{
    for (int i = 0; i < link->cls->field_count; i++)
        if (link->cls->fields[i].variadic && child_of(link, i)) return i;
    return 0;
}

static void print_argument(arguments *a, const gd_link *link, int index)
{
    const gd_field *field = &link->cls->fields[index];
    const gd_setting *value = &link->value[index];
    if (field->variadic) {
        print_children(a, link, index);
        return;
    }
    bool leads = !field->fallback.kind || !strcmp(field->name, link->cls->name),
         child = value->kind == GD_SET_CHAIN, placed = index < a->positions;
    bool usual = !child && field->fallback.kind && gd__setting_equal(value, &field->fallback);
    if (!placed && (!value->kind || usual)) {
        a->by_name = true; /* a gap in the order */
        return;
    }
    begin_argument(a, field, placed || (leads && !a->by_name));
    gd__print_value(a->p, link, index);
}

static void print_link(gd_print *p, const gd_link *link)
{
    gd__print_text(p, link->cls->name);
    arguments a = {.p = p, .positions = positions_of(link)};
    for (int i = 0; i < link->cls->field_count; i++) print_argument(&a, link, i);
    if (a.any) gd__print_text(p, ")");
}

int gd_link_print(const gd_link *link, char *out, size_t size)
{
    gd_print p = gd__print(out, size);
    if (!link) return 0;
    if (link->cls != &gd_link_chain)
        print_link(&p, link);
    else if (!print_items(&p, link, 0))
        gd__print_text(&p, "[]");
    return gd__print_end(&p);
}
