/* Help texts, the manual page and shell completions from the tables of the commands. */
#include "cli/args.h"
#include "program/emit.h"

#include "completions_bash.h"
#include "completions_fish.h"
#include "completions_zsh.h"
#include <string.h>

#define WIDTH  79
#define COLUMN 26 /* where the help of an option begins */

/* Text in lines of at most WIDTH, each begun with `indent` spaces; the first line has `used` columns already. */
static void wrapped(gd_text *out, const char *text, size_t indent, size_t used)
{
    for (const char *s = text; *s;) {
        size_t length = strcspn(s, " \n");
        if (used > indent && used + 1 + length > WIDTH) {
            gd__text_put(out, "\n%*s", (int)indent, "");
            used = indent;
        } else if (used > indent) {
            gd__text_char(out, ' ');
            used++;
        }
        gd__text_append(out, s, length);
        used += length;
        s += length;
        if (*s == '\n') {
            gd__text_put(out, "\n%s", s[1] == '\n' ? "\n" : "");
            gd__text_put(out, "%*s", (int)indent, "");
            used = indent;
        }
        while (*s == ' ' || *s == '\n') s++;
    }
    gd__text_char(out, '\n');
}

static void option_help(gd_text *out, const gd_option *o)
{
    size_t before = out->used;
    gd__text_put(out, "  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    size_t used = out->used - before;
    if (used > COLUMN - 2) {
        gd__text_char(out, '\n');
        used = 0;
    }
    gd__text_put(out, "%*s", (int)(COLUMN - used), "");
    wrapped(out, o->help, COLUMN, COLUMN);
}

/* Calls for each line of the examples. */
static const char *next_line(const char *text, size_t *length)
{
    *length = strcspn(text, "\n");
    return text[*length] ? text + *length + 1 : text + *length;
}

void gd__help_command(gd_text *out, const gd_command *c)
{
    gd__text_put(out, "usage: gradus %s%s%s%s\n\n", c->name, *c->arguments ? " " : "", c->arguments,
                 c->options->name ? " [OPTIONS]" : "");
    wrapped(out, c->summary, 0, 0);
    if (*c->description) {
        gd__text_char(out, '\n');
        wrapped(out, c->description, 0, 0);
    }
    gd__text_add(out, "\noptions:\n");
    for (const gd_option *o = c->options; o->name; o++) option_help(out, o);
    option_help(out, &(gd_option){.name = "help", .help = "this text"});
    gd__text_add(out, "\nexamples:\n");
    size_t length;
    for (const char *s = c->examples; *s;) {
        const char *next = next_line(s, &length);
        gd__text_put(out, "  %.*s\n", (int)length, s);
        s = next;
    }
}

void gd__help_all(gd_text *out, const gd_command *const *commands)
{
    gd__text_add(out, "usage: gradus COMMAND [ARGUMENTS] [OPTIONS]\n\n"
                      "Minimise, fit and train differentiable things.\n\ncommands:\n");
    for (const gd_command *const *c = commands; *c; c++) {
        if ((*c)->hidden) continue;
        gd__text_put(out, "  %-10s", (*c)->name);
        wrapped(out, (*c)->summary, 12, 12);
    }
    gd__text_add(out, "\ngradus COMMAND --help explains a command, with examples.\n\nexamples:\n");
    size_t length;
    for (const gd_command *const *c = commands; *c; c++) {
        if ((*c)->hidden) continue;
        (void)next_line((*c)->examples, &length);
        gd__text_put(out, "  %.*s\n", (int)length, (*c)->examples);
    }
}

/* ---- the manual page ---- */

/* Text for roff: no line may begin with a control character, backslashes and minus signs are written out. */
static void roff(gd_text *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '\\')
            gd__text_add(out, "\\e");
        else if (c == '-')
            gd__text_add(out, "\\-");
        else if ((c == '.' || c == '\'') && (i == 0 || text[i - 1] == '\n'))
            gd__text_put(out, "\\&%c", c);
        else if (c == '\n')
            gd__text_add(out, i + 1 < length && text[i + 1] == '\n' ? "\n.PP" : "\n");
        else
            gd__text_char(out, c);
    }
}

static void roff_line(gd_text *out, const char *text)
{
    roff(out, text, strlen(text));
    gd__text_char(out, '\n');
}

static void manual_command(gd_text *out, const gd_command *c)
{
    gd__text_put(out, ".SS \"gradus %s", c->name);
    if (*c->arguments) gd__text_char(out, ' ');
    roff(out, c->arguments, strlen(c->arguments));
    gd__text_add(out, "\"\n");
    roff_line(out, c->summary);
    if (*c->description) {
        gd__text_add(out, ".PP\n");
        roff_line(out, c->description);
    }
    for (const gd_option *o = c->options; o->name; o++) {
        gd__text_add(out, ".TP\n.B \\-\\-");
        roff(out, o->name, strlen(o->name));
        if (o->value) {
            gd__text_add(out, " \\fI");
            roff(out, o->value, strlen(o->value));
            gd__text_add(out, "\\fR");
        }
        gd__text_char(out, '\n');
        roff_line(out, o->help);
    }
    gd__text_add(out, ".PP\n.nf\n");
    roff_line(out, c->examples);
    gd__text_add(out, ".fi\n");
}

void gd__help_manual(gd_text *out, const gd_command *const *commands)
{
    gd__text_add(out, ".\\\" Made by: gradus help --manual\n"
                      ".TH GRADUS 1 \"\" \"gradus\" \"User Commands\"\n"
                      ".SH NAME\ngradus \\- minimise, fit and train differentiable things\n"
                      ".SH SYNOPSIS\n.B gradus\n\\fICOMMAND\\fR [\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]\n"
                      ".SH COMMANDS\n");
    for (const gd_command *const *c = commands; *c; c++)
        if (!(*c)->hidden) manual_command(out, *c);
    gd__text_add(
        out,
        ".SH EXIT STATUS\n0: done.  1: the run failed, for minimize also when it got stuck, diverged or had not converged at the "
        "default limit.  2: wrong usage.\n"
        ".SH NUMBERS\nJSON has no NaN and no infinities: they are written as the strings \"NaN\", "
        "\"Infinity\" and \"\\-Infinity\".\n");
}

/* ---- completions ---- */

/* The scripts of docs/completions ask the program (cli/commands/cmd_complete.c), so that they know the links, columns and files of
 * the moment.  ":files" in its answer asks for names of files; a word such as X=@da is completed behind the '@'. */
static const char *const *const scripts[] = {completions_bash, completions_zsh, completions_fish};

const char *const gd__shells[] = {"bash", "zsh", "fish", NULL};

void gd__help_completions(gd_text *out, int shell)
{
    if (shell >= 0 && shell < (int)(sizeof scripts / sizeof *scripts)) gd__put_lines(out, scripts[shell]);
}

/* ---- the start ---- */

const char *const gd__to_try[] = {
    "gradus minimize '(1-x)^2 + 100*(y-x^2)^2' --param x=-1.2 --param y=1",
    "printf 'x,y\\n0,1.1\\n1,2.9\\n2,5.2\\n3,6.9\\n' | gradus fit 'a + b*x' - --param a=0 --param b=1",
    "gradus eval 'sum(exp(-x^2))' --param x=[0,0.5,1]",
    "gradus links --search 'line search'",
    "gradus explain 'clip_norm(1) | adam | lr(0.001)'",
    NULL,
};

void gd__help_start(gd_text *out)
{
    gd__text_add(out, "gradus minimises, fits and trains. Five things to try:\n\n");
    for (const char *const *line = gd__to_try; *line; line++) gd__text_put(out, "  %s\n", *line);
    gd__text_add(out,
                 "\ngradus --help lists the commands; gradus COMMAND --help explains one, with examples.\n");
}
