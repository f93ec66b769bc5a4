/* Texts of links made from the table of classes, so that a new link is tested the moment it exists. */
#ifndef GD_TESTS_TABLE_SUPPORT_H
#define GD_TESTS_TABLE_SUPPORT_H

#include "support/support.h"
#include "base/text/number.h"
#include "gradus/link.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A number or a chain. */
static inline bool is_operand(const gd_field *f)
{
    return !f->variadic && f->kinds & GD_SET_CHAIN && f->kinds & GD_SET_REAL;
}

/* A value for a setting that must be given, in range; where it may be a number or a chain: child, NULL: the number. */
static inline size_t put_needed(const gd_field *f, const char *child, char *out, size_t size)
{
    double number = f->integer ? 2 : 0.5;
    number = number < f->low ? f->low : number > f->high ? f->high : number;
    if (f->variadic) return (size_t)snprintf(out, size, "lr(0.5), ema");
    if (is_operand(f) && !child) return (size_t)gd__format(out, size, "%s=%g", f->name, number);
    if (f->kinds & GD_SET_CHAIN) return (size_t)snprintf(out, size, "%s=%s", f->name, child);
    if (f->kinds & GD_SET_REAL) return (size_t)gd__format(out, size, "%s=%g", f->name, number);
    if (f->kinds & GD_SET_BOOL) return (size_t)snprintf(out, size, "%s=true", f->name);
    if (f->kinds & GD_SET_LIST) return (size_t)snprintf(out, size, "%s=[1, 0.5]", f->name);
    if (f->selection) return (size_t)snprintf(out, size, "%s=\"axes!=1\"", f->name);
    return (size_t)snprintf(out, size, "%s=\"%.*s\"", f->name, (int)strcspn(f->choices, "|"), f->choices);
}

/* True for links that build on the Hessian of a child. */
static inline bool wants_hessian(const gd_link_class *cls)
{
    for (int i = 0; i < cls->field_count; i++)
        if (strstr(cls->fields[i].name, "hess_module")) return true;
    return false;
}

static inline bool has_operands(const gd_link_class *cls)
{
    for (int i = 0; i < cls->field_count; i++)
        if (is_operand(&cls->fields[i])) return true;
    return false;
}

/* The link with what it needs and no more.  hessian: its child where it builds on one (NULL: newton).  operands: what stands
 * where a number or a chain is taken, NULL: a number; those that may be left out are given then. */
static inline void link_text_of(const gd_link_class *cls, const char *hessian, const char *operands,
                                char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s", cls->name);
    bool any = false;
    for (int i = 0; i < cls->field_count; i++) {
        const gd_field *f = &cls->fields[i];
        bool chosen = cls->part && f->kinds & GD_SET_CHAIN; /* without its chains it would do nothing */
        if (f->fallback.kind && !f->variadic && !chosen && !(is_operand(f) && !operands)) continue;
        const char *child = strstr(f->name, "hess") ? hessian ? hessian : "newton" : "[ema | lr(0.5)]";
        if (is_operand(f)) child = operands;
        used += (size_t)snprintf(out + used, size - used, "%s", any ? ", " : "(");
        used += put_needed(f, child, out + used, size - used);
        any = true;
    }
    snprintf(out + used, size - used, "%s", any ? ")" : "");
}

static inline void link_text(const gd_link_class *cls, const char *hessian, char *out, size_t size)
{
    link_text_of(cls, hessian, "[ema | lr(0.5)]", out, size);
}

/* Calls fn for every link of the table (of a share of it: every n-th) but `chain`: once, or once for each child with a
 * Hessian. */
static inline void each_link_text(void (*fn)(const gd_link_class *cls, const char *text))
{
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i += test_share()) {
        char text[400];
        if (!strcmp(all[i]->name, "chain")) continue;
        for (int k = 0; wants_hessian(all[i]) && k < count; k++) {
            if (!all[k]->hessian) continue;
            link_text(all[i], all[k]->name, text, sizeof text);
            fn(all[i], text);
        }
        if (wants_hessian(all[i])) continue;
        link_text(all[i], NULL, text, sizeof text);
        fn(all[i], text);
    }
}

/* Calls fn for every link that takes numbers in place of chains, with numbers. */
static inline void each_number_text(void (*fn)(const gd_link_class *cls, const char *text))
{
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        char text[400];
        if (!has_operands(all[i])) continue;
        link_text_of(all[i], NULL, NULL, text, sizeof text);
        fn(all[i], text);
    }
}

#endif
