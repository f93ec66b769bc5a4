/* gradus links: the links for chains. */
#include "cli/cli.h"
#include "base/text/ascii.h"
#include "optim/chain/elsewhere.h"
#include "optim/link/classes.h"
#include "optim/link/symbols.h"
#include "base/text/scan.h"
#include "base/text/suggest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gd_option options[] = {
    GD_OPTION("search", "TEXT", "only those whose name, summary, formula or paper has the text"),
    GD_PLUGIN_OPTION,
    GD_SWITCH("json", "print one JSON object"),
    {0},
};

/* ---- values ---- */

/* As chains read it: 1/3 has all its digits. */
static void number(gd_text *out, double value)
{
    char text[GD_NUMBER_SIZE];
    gd__text_add(out, gd__number_text(value, text));
}

static void fallback(gd_text *out, const gd_field *f)
{
    switch (f->fallback.kind) {
    case GD_SET_NONE: gd__text_add(out, "none"); break;
    case GD_SET_REAL: number(out, f->fallback.real); break;
    case GD_SET_BOOL: gd__text_add(out, f->fallback.real != 0 ? "true" : "false"); break;
    case GD_SET_STRING: gd__text_put(out, "\"%s\"", f->fallback.string ? f->fallback.string : ""); break;
    case GD_SET_LIST:
        gd__text_char(out, '[');
        for (int i = 0; i < f->fallback.list_count; i++) {
            if (i) gd__text_add(out, ", ");
            number(out, f->fallback.list[i]);
        }
        gd__text_char(out, ']');
        break;
    case GD_SET_CHAIN: gd__text_add(out, "a chain"); break;
    default: gd__text_add(out, "must be given"); break;
    }
}

/* "number from 0 to 1", "whole number from 1", "zeros|update", "chain or none" */
static void kind(gd_text *out, const gd_field *f)
{
    const char *before = "";
    if (f->kinds & GD_SET_REAL) {
        gd__text_add(out, f->integer ? "whole number" : f->variadic ? "numbers" : "number");
        if (isfinite(f->low)) gd__text_put(out, " from %g", f->low);
        if (isfinite(f->high)) gd__text_put(out, "%s to %g", isfinite(f->low) ? "" : " up", f->high);
        before = " or ";
    }
    if (f->kinds & GD_SET_BOOL) gd__text_put(out, "%strue or false", before), before = " or ";
    if (f->kinds & GD_SET_STRING)
        gd__text_put(out, "%s%s", before, f->choices ? f->choices : "text"), before = " or ";
    if (f->kinds & GD_SET_LIST) gd__text_put(out, "%slist", before), before = " or ";
    if (f->kinds & GD_SET_CHAIN)
        gd__text_put(out, "%s%s", before, f->variadic ? "chains" : "chain"), before = " or ";
    if (f->kinds & GD_SET_NONE) gd__text_put(out, "%snone", before);
}

/* Its distribution over processes: "flat", or "flat, else tensor" where settings decide whether the rule serves. */
static const char *spread_of(const gd_link_class *c, char text[40])
{
    const char *other = gd_spread_name(c->spread ? c->spread : GD_SPREAD_WHOLE);
    if (!c->rule) return other;
    if (!c->element_wise && !c->along_axes) return gd_spread_name(GD_SPREAD_FLAT);
    if (c->along_axes) other = gd_spread_name(GD_SPREAD_TENSOR);
    (void)snprintf(text, 40, "%s, else %s", gd_spread_name(GD_SPREAD_FLAT), other);
    return text;
}

/* A rule without a description is element-wise. */
static const char *cost_of(const gd_link_class *c)
{
    if (c->cost) return c->cost;
    if (c->preset) return "that of its links";
    return c->rule ? "element-wise: one pass over memory, shared with its neighbours" : "";
}

static void example(gd_text *out, const gd_link_class *c)
{
    if (c->example)
        gd__text_add(out, c->example);
    else
        gd__text_put(out, "%s%s", c->name, c->preset ? "" : " | lr(0.01)");
}

/* "exp_avg, exp_avg_sq", followed by the scalars per tensor. */
static void state_of(gd_text *out, const gd_link_class *c)
{
    for (int i = 0; i < c->slot_count; i++) gd__text_put(out, "%s%s", i ? ", " : "", c->slots[i].name);
    for (int i = 0; i < c->scalar_count; i++)
        gd__text_put(out, "%s%s (a number)", i || c->slot_count ? ", " : "", c->scalars[i]);
}

/* ---- one link ---- */

static void explain_symbols(gd_text *out, const gd_link_class *c)
{
    gd_symbol symbol;
    for (int next = 0, first = 1; gd__formula_symbol(c, &next, &symbol); first = 0)
        gd__text_put(out, "%s  %-6s %s\n", first ? "\n" : "", symbol.name, symbol.meaning);
}

static void describe(gd_text *out, const gd_link_class *c)
{
    gd__text_put(out, "%s", c->name);
    if (c->field_count) gd__text_char(out, '(');
    for (int i = 0; i < c->field_count; i++) gd__text_put(out, "%s%s", i ? ", " : "", c->fields[i].name);
    gd__text_put(out, "%s\n\n%s\n", c->field_count ? ")" : "", c->summary ? c->summary : "");
    if (c->formula) gd__text_put(out, "\n    %s\n", c->formula);
    explain_symbols(out, c);
    if (c->preset) gd__text_put(out, "\nstands for\n\n    %s\n", c->preset);
    if (c->paper) gd__text_put(out, "\n%s\n", c->paper);
    if (c->field_count) gd__text_add(out, "\nsettings:\n");
    for (int i = 0; i < c->field_count; i++) {
        const gd_field *f = &c->fields[i];
        gd__text_put(out, "  %-18s ", f->name);
        kind(out, f);
        gd__text_add(out, " (");
        fallback(out, f);
        gd__text_put(out, ")\n%21s%s\n", "", f->help ? f->help : "");
    }
    bool state = c->slot_count || c->scalar_count;
    if (state) gd__text_add(out, "\nstate: ");
    state_of(out, c);
    char text[40];
    gd__text_put(out, "%s\ncost: %s\n", state ? "\n" : "", cost_of(c));
    if (!c->preset) gd__text_put(out, "several processes: %s\n", spread_of(c, text));
    gd__text_add(out, "\nexample: ");
    example(out, c);
    gd__text_char(out, '\n');
}

/* A member whose text is written into `value`, which is empty again after it. */
static void put_value(gd_text *out, const char *key, gd_text *value)
{
    gd__json_put_string(out, key, gd__text_string(value));
    out->failed = out->failed || value->failed;
    gd__text_clear(value);
}

static void add_field(gd_text *out, const gd_field *f)
{
    gd_text value = gd__text(out->ctx);
    gd__text_char(out, '{');
    gd__json_put_string(out, "name", f->name);
    kind(&value, f);
    put_value(out, "kind", &value);
    fallback(&value, f);
    put_value(out, "default", &value);
    gd__json_put_string(out, "help", f->help ? f->help : "");
    gd__text_char(out, '}');
    gd__text_free(&value);
}

static void add_symbols(gd_text *out, const gd_link_class *c)
{
    gd_symbol symbol;
    gd__json_key(out, "symbols");
    gd__text_char(out, '[');
    for (int next = 0; gd__formula_symbol(c, &next, &symbol);) {
        gd__text_comma(out);
        gd__text_char(out, '{');
        gd__json_put_string(out, "name", symbol.name);
        gd__json_put_string(out, "meaning", symbol.meaning);
        gd__text_char(out, '}');
    }
    gd__text_char(out, ']');
}

static void add_class(gd_text *out, const gd_link_class *c)
{
    const char *const keys[] = {"name", "family", "summary", "formula", "paper", "preset", "cost"};
    const char *const texts[] = {c->name, c->family, c->summary, c->formula, c->paper, c->preset, cost_of(c)};
    gd_text value = gd__text(out->ctx);
    gd__text_char(out, '{');
    for (int i = 0; i < 7; i++) gd__json_put_string(out, keys[i], texts[i] ? texts[i] : "");
    char text[40];
    state_of(&value, c);
    put_value(out, "state", &value);
    example(&value, c);
    put_value(out, "example", &value);
    gd__text_free(&value);
    gd__json_put_string(out, "spread", spread_of(c, text));
    add_symbols(out, c);
    gd__json_key(out, "settings");
    gd__text_char(out, '[');
    for (int i = 0; i < c->field_count; i++) {
        gd__text_comma(out);
        add_field(out, &c->fields[i]);
    }
    gd__text_add(out, "]}");
}

/* ---- all links ---- */

static bool has(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *s = text; s && strlen(s) >= length; s++)
        if (gd__begins_with(s, word, length)) return true;
    return false;
}

static bool wanted(const gd_link_class *c, const char *search)
{
    return !search || has(c->name, search) || has(c->summary, search) || has(c->formula, search) ||
           has(c->paper, search) || has(c->family, search);
}

static int by_family(const void *a, const void *b)
{
    const gd_link_class *x = *(const gd_link_class *const *)a, *y = *(const gd_link_class *const *)b;
    int order = strcmp(x->family ? x->family : "", y->family ? y->family : "");
    return order ? order : strcmp(x->name, y->name);
}

static void print_table(gd_text *out, const gd_link_class *const *classes, int count, bool json)
{
    const char *family = "";
    int width = 0;
    for (int i = 0; i < count; i++)
        if ((int)strlen(classes[i]->name) > width) width = (int)strlen(classes[i]->name);
    if (json) gd__text_add(out, "{\"links\": [");
    for (int i = 0; i < count; i++) {
        const gd_link_class *c = classes[i];
        if (json) {
            if (i) gd__text_add(out, ",\n");
            add_class(out, c);
            continue;
        }
        const char *own = c->family ? c->family : "others";
        if (strcmp(own, family) != 0) gd__text_put(out, "%s%s\n", i ? "\n" : "", own);
        family = own;
        gd__text_put(out, "  %-*s  %s\n", width, c->name, c->summary ? c->summary : "");
    }
    if (json) gd__text_add(out, "]}\n");
}

static gd_status list(gd_cli *cli, const char *search, bool json)
{
    int count = 0, kept = 0;
    while (gd__class_at(cli->ctx, count)) count++;
    size_t bytes = (size_t)(count + 1) * sizeof(gd_link_class *);
    const gd_link_class **chosen = gd__alloc(cli->ctx, bytes);
    if (!chosen) return GD_NOMEM;
    for (int i = 0; i < count; i++)
        if (wanted(gd__class_at(cli->ctx, i), search)) chosen[kept++] = gd__class_at(cli->ctx, i);
    qsort(chosen, (size_t)kept, sizeof *chosen, by_family);
    print_table(&cli->out, chosen, kept, json);
    gd__free(cli->ctx, chosen, bytes);
    if (!kept) return gd_fail(cli->ctx, GD_ARGUMENT, "links: no link has '%.60s'", search ? search : "");
    return GD_OK;
}

static gd_status show(gd_cli *cli, const char *name, bool json)
{
    const gd_link_class *c = gd__find_class(cli->ctx, name);
    if (c) {
        if (json)
            add_class(&cli->out, c);
        else
            describe(&cli->out, c);
        if (json) gd__text_char(&cli->out, '\n');
        return GD_OK;
    }
    char hint[GD_HINT_SIZE], chain[GD_ELSEWHERE_SIZE];
    size_t length;
    if (gd__elsewhere(name, &length, chain))
        return gd_fail(cli->ctx, GD_ARGUMENT, "links: link '%.60s' unknown: here it is %s", name, chain);
    gd_suggest nearest = gd__suggest(name, strlen(name));
    for (int i = 0; (c = gd__class_at(cli->ctx, i)); i++) gd__suggest_try(&nearest, c->name);
    return gd_fail(cli->ctx, GD_ARGUMENT, "links: link '%.60s' unknown%s", name,
                   gd__suggest_hint(&nearest, hint));
}

static int run_links(gd_cli *cli, const gd_args *args)
{
    bool json = gd__args_has(args, "json");
    gd_status status = args->arguments ? show(cli, args->argument[0], json)
                                       : list(cli, gd__args_get(args, "search"), json);
    if (!status && cli->out.failed) status = GD_NOMEM;
    return gd__cli_code(cli, status);
}

const gd_command gd__command_links = {
    .name = "links",
    .summary = "List the links that chains are made of, or explain one.",
    .arguments = "[NAME]",
    .description =
        "With a name: settings with their ranges and defaults, formula, paper, state, cost, and a chain with it.",
    .options = options,
    .examples = "gradus links\ngradus links adam\ngradus links --search 'line search'\n",
    .most = 1,
    .run = run_links,
};
