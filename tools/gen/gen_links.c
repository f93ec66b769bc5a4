/* gen_links: writes the public header gradus/links.h, typed options for every built-in link and preset, to the standard output.
 *
 * Run by the build (cmake/Library.cmake), linked from the library's objects: what it knows of a link is its list of fields,
 * the same that parser, range checks and help use. */
#include "gradus/link.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words that cannot be members of a struct in C or C++. */
static const char *const taken[] = {
    "and",      "asm",       "auto",    "bool",   "break",    "case",   "catch",   "char",
    "class",    "const",     "default", "delete", "do",       "double", "else",    "enum",
    "explicit", "export",    "extern",  "false",  "float",    "for",    "friend",  "goto",
    "if",       "inline",    "int",     "long",   "new",      "not",    "or",      "private",
    "public",   "protected", "return",  "short",  "signed",   "sizeof", "static",  "struct",
    "switch",   "template",  "this",    "throw",  "true",     "try",    "typedef", "union",
    "unsigned", "using",     "virtual", "void",   "volatile", "while",  "xor"};

/* The name of a field as a member. */
static const char *member(const gd_field *f)
{
    static char name[128];
    bool word = false;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) word = word || !strcmp(taken[i], f->name);
    snprintf(name, sizeof name, "%s%s", f->name, word ? "_" : "");
    return name;
}

/* How a field is seen in C.  `any`: it takes values of different kinds. */
typedef enum form { NUMBER, FLAG, OPEN, STRING, CHILD, CHILDREN, OPERAND, ANY } form;
static const char *const form_name[] = {"number", "flag",     "open",    "string",
                                        "child",  "children", "operand", "any"};

static form form_of(const gd_field *f)
{
    unsigned kinds = f->kinds & ~(unsigned)GD_SET_NONE;
    if (f->variadic) return CHILDREN;
    if (kinds == (GD_SET_CHAIN | GD_SET_REAL)) return OPERAND;
    if (kinds == GD_SET_CHAIN) return CHILD;
    if (kinds == GD_SET_BOOL) return f->kinds & GD_SET_NONE ? OPEN : FLAG;
    if (kinds == GD_SET_STRING) return STRING;
    return kinds == GD_SET_REAL ? NUMBER : ANY;
}

/* As short as it can be read back. */
static void put_number(double x)
{
    char text[40];
    int digits = 6;
    do snprintf(text, sizeof text, "%.*g", digits, x);
    while (digits++ < 17 && strtod(text, NULL) != x);
    printf("%s", !isinf(x) ? text : x < 0 ? "-INFINITY" : "INFINITY");
}

/* What a member may be, behind it. */
static void put_comment(const gd_field *f)
{
    printf(" /*");
    if (f->kinds & GD_SET_REAL && !(isinf(f->low) && isinf(f->high))) printf(" %g .. %g,", f->low, f->high);
    if (f->integer) printf(" whole,");
    if (f->choices) {
        printf(" \"");
        for (const char *c = f->choices; *c; c++) *c == '|' ? (void)printf("\", \"") : (void)putchar(*c);
        printf("\",");
    }
    if (!f->fallback.kind) printf(" must be given,");
    if (f->kinds & GD_SET_CHAIN) printf(" consumed,");
    printf(" %s */\n", f->help ? f->help : "");
}

static void put_member(const gd_field *f)
{
    static const char *const type[] = {"double ",      "bool ",      "int ",
                                       "const char *", "gd_link *",  "gd_link *const *",
                                       "double ",      "gd_setting "};
    form k = form_of(f);
    printf("    %s%s;", type[k], member(f));
    put_comment(f);
    if (k == CHILDREN) printf("    int %s_count;\n", member(f));
    if (k == OPERAND) printf("    gd_link *%s_link; /* instead of a number; consumed */\n", member(f));
}

static void put_any(const gd_setting *s)
{
    if (s->kind == GD_SET_REAL) {
        printf("gd_setting_real(");
        put_number(s->real);
        printf(")");
    } else if (s->kind == GD_SET_STRING)
        printf("gd_setting_string(\"%s\")", s->string);
    else if (s->kind == GD_SET_BOOL)
        printf("gd_setting_bool(%s)", s->real != 0 ? "true" : "false");
    else if (s->kind == GD_SET_LIST) {
        fprintf(stderr, "gen_links: a list as default has no C form yet: write it here\n");
        exit(1);
    } else
        printf("gd_setting_none()");
}

static void put_default(const gd_field *f)
{
    const gd_setting *s = &f->fallback;
    printf("    o.%s = ", member(f));
    switch (form_of(f)) {
    case NUMBER: s->kind == GD_SET_REAL ? put_number(s->real) : (void)printf("NAN"); break;
    case FLAG: printf(s->real != 0 ? "true" : "false"); break;
    case OPEN: printf(s->kind == GD_SET_BOOL ? s->real != 0 ? "1" : "0" : "GD_OPEN"); break;
    case STRING: s->kind == GD_SET_STRING ? printf("\"%s\"", s->string) : printf("NULL"); break;
    case CHILD: printf("NULL"); break;
    case CHILDREN: printf("NULL;\n    o.%s_count = 0", member(f)); break;
    case OPERAND:
        s->kind == GD_SET_REAL ? put_number(s->real) : (void)printf("NAN");
        printf(";\n    o.%s_link = NULL", member(f));
        break;
    case ANY: put_any(s); break;
    }
    printf(";\n");
}

static void put_option(const gd_field *f)
{
    form k = form_of(f);
    printf("        gd_%s_option(\"%s\", ", form_name[k], f->name);
    printf("o.%s", member(f));
    if (k == CHILDREN) printf(", o.%s_count", member(f));
    if (k == OPERAND) printf(", o.%s_link", member(f));
    printf("),\n");
}

/* There is a layer `sequential` already. */
static const char *stem(const gd_link_class *c)
{
    return strcmp(c->name, "sequential") ? c->name : "sequential_link";
}

/* Those that gradus/presets.h has already: their options have the same members. */
static bool is_known(const gd_link_class *c) { return !strcmp(c->name, "sgd") || !strcmp(c->name, "adamw"); }

static void put_options(const gd_link_class *c, const char *n)
{
    printf("typedef struct gd_%s_options {\n", n);
    for (int i = 0; i < c->field_count; i++) put_member(&c->fields[i]);
    printf("} gd_%s_options;\nstatic inline gd_%s_options gd_%s_defaults(void)\n{\n    gd_%s_options o;\n", n,
           n, n, n);
    for (int i = 0; i < c->field_count; i++) put_default(&c->fields[i]);
    printf("    return o;\n}\n");
}

static void put_link(const gd_link_class *c)
{
    const char *n = stem(c);
    printf("/* %s: %s. */\n", c->name, c->summary);
    if (!c->field_count) {
        printf("static inline gd_link *gd_%s_new(gd_ctx *ctx) { return gd_link_with(ctx, \"%s\", NULL, 0); } "
               "/* new */\n\n",
               n, c->name);
        return;
    }
    if (!is_known(c)) put_options(c, n);
    printf(
        "static inline gd_link *gd_%s_new(gd_ctx *ctx, const gd_%s_options *options) /* new */\n{\n"
        "    const gd_%s_options o = options ? *options : gd_%s_defaults();\n    const gd_link_option list[] = {\n",
        n, n, n, n);
    for (int i = 0; i < c->field_count; i++) put_option(&c->fields[i]);
    printf("    };\n    return gd_link_with(ctx, \"%s\", list, (int)(sizeof list / sizeof *list));\n}\n",
           c->name);
    printf("#define GD_OPTIONS_OF_%s(X)", n);
    for (int i = 0; i < c->field_count; i++)
        printf(" X(%s, %s)", form_name[form_of(&c->fields[i])], member(&c->fields[i]));
    printf("\n\n");
}

static const char opening[] =
    "/* gradus/links.h: every built-in link and preset with typed options.  Made by tools/gen/gen_links.c from the links' lists of fields.\n"
    " *\n"
    " *     gd_adam_options o = gd_adam_defaults();\n"
    " *     o.beta1 = 0.8;\n"
    " *     gd_link *links[] = {gd_adam_new(ctx, &o), gd_cautious_new(ctx, NULL)};\n"
    " *     gd_link *chain = gd_chain_of(ctx, links, 2);                       adam(0.8) | cautious\n"
    " *\n"
    " * NULL options are the defaults, which are those of the chain text.  A number that is none, or must be given and is not yet,\n"
    " * is NAN; a string and a link NULL; what may be a number or a link has a member for each; a flag that is left open GD_OPEN.  Links among the options are consumed, also on failure.\n"
    " * gd_NAME_new gives a new link; NULL, and recorded by name: VALUE or TYPE of an option, ARGUMENT where one is missing. */\n"
    "#ifndef GRADUS_LINKS_H\n"
    "#define GRADUS_LINKS_H\n\n"
    "#include \"gradus/link.h\"\n#include \"gradus/presets.h\"\n\n"
    "#include <math.h>\n\n"
    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";

int main(void)
{
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    fputs(opening, stdout);
    for (int i = 0; i < count; i++) put_link(all[i]);
    int presets = 0;
    const gd_link_class *const *preset = gd_link_presets(&presets);
    for (int i = 0; i < presets; i++) put_link(preset[i]);
    printf(
        "/* Every link with options, X(adam), and every one without.  The options of one are GD_OPTIONS_OF_adam(X): X(form,\n"
        " * member), the forms being number, flag, open, string, child, children, operand and any. */\n#define GD_LINKS(X)");
    for (int i = 0; i < count; i++)
        if (all[i]->field_count) printf(" X(%s)", stem(all[i]));
    printf("\n#define GD_LINKS_WITHOUT_OPTIONS(X)");
    for (int i = 0; i < count; i++)
        if (!all[i]->field_count) printf(" X(%s)", stem(all[i]));
    printf("\n/* Every preset: gd_NAME_new makes its chain. */\n#define GD_PRESETS(X)");
    for (int i = 0; i < presets; i++) printf(" X(%s)", stem(preset[i]));
    printf("\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
