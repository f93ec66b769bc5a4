/* gradus complete: candidates at a position of a command line, for shells (gradus help --completions).
 *
 *   gradus complete bash 3 -- gradus minimize 'x^2' --ch
 *   --chain<TAB>the optimizer: links joined by |, ...
 *
 * One candidate per line, replacing the whole word, with its meaning after a tab; the line ":files" asks the shell for file names too.
 * Everything comes from the tables of the program, from the links (also of plugins on the line) and from the file on the line. A wrong line is not an
 * error: it has no candidates. */
#include "cli/cli.h"
#include "optim/text/until.h"
#include "table/table_load.h"
#include "expr/expr_internal.h"
#include "table/words.h"
#include "base/text/ascii.h"
#include "gradus/link/plugin.h"
#include "optim/link/classes.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const gd_option options[] = {{0}};

#define HEAD       65536        /* bytes of a table that are read for its columns */
#define WHOLE_FILE (16LL << 20) /* of files that are not text: read up to this size */

typedef struct line {
    gd_cli *cli;
    const gd_command *command;
    char word[4096]; /* the one to complete, without an opening quote */
    size_t cut;      /* its first bytes that the shell treats as a different word (bash, at '=' and ':') */
    const char **argument; /* of the command, those before the word */
    int arguments;
    gd_words columns, params; /* of the file on the line; given with --param */
} line;

/* ---- candidates ---- */

static void offer(line *l, const char *lead, size_t lead_length, const char *name, const char *tail,
                  const char *help)
{
    gd_text *out = &l->cli->out;
    size_t typed = strlen(l->word), length = strlen(name);
    if (typed < lead_length || typed - lead_length > length ||
        strncmp(l->word + lead_length, name, typed - lead_length) != 0)
        return;
    size_t skip = l->cut < lead_length ? l->cut : lead_length;
    gd__text_append(out, lead + skip, lead_length - skip);
    gd__text_add(out, name + (l->cut - skip < length ? l->cut - skip : length));
    gd__text_add(out, tail);
    if (help && *help) gd__text_put(out, "\t%.*s", (int)strcspn(help, ";\n\t"), help);
    gd__text_char(out, '\n');
}

static void offer_files(line *l) { gd__text_add(&l->cli->out, ":files\n"); }

/* Where the name that is being written begins. */
static size_t name_start(const char *text)
{
    size_t at = strlen(text);
    while (at && (gd__is_letter(text[at - 1]) || gd__is_digit(text[at - 1]) || text[at - 1] == '_' ||
                  (unsigned char)text[at - 1] >= 0x80))
        at--;
    return at;
}

static void offer_words(line *l, const gd_words *words, size_t from, const char *tail, const char *help)
{
    for (int i = 0; i < words->count; i++) offer(l, l->word, from, words->word[i], tail, help);
}

/* The link whose parenthesis is the innermost one that is open; NULL: none is, or a bracket. */
static const gd_link_class *open_link(line *l, size_t from)
{
    int depth = 0;
    char name[64];
    for (size_t at = strlen(l->word); at > from; at--) {
        char c = l->word[at - 1];
        depth += c == ')' || c == ']';
        if (c != '(' && c != '[') continue;
        if (depth-- > 0) continue;
        l->word[at - 1] = 0; /* temporarily ends the text there */
        (void)snprintf(name, sizeof name, "%s", l->word + from + name_start(l->word + from));
        l->word[at - 1] = c;
        return c == '(' ? gd__find_class(l->cli->ctx, name) : NULL;
    }
    return NULL;
}

/* The link that is being written, or a setting of the one whose parenthesis is open. */
static void offer_links(line *l, size_t from)
{
    size_t at = from + name_start(l->word + from);
    const gd_link_class *owner = open_link(l, from), *c;
    bool links = !owner;
    for (int i = 0; owner && i < owner->field_count; i++) {
        const gd_field *f = &owner->fields[i];
        links = links || f->kinds & GD_SET_CHAIN;
        if (!f->variadic) offer(l, l->word, at, f->name, "=", f->help);
    }
    for (int i = 0; links && (c = gd__class_at(l->cli->ctx, i)); i++)
        offer(l, l->word, at, c->name, "", c->summary);
}

/* Names in an expression: columns, parameters, functions. */
static void offer_expression(line *l, size_t from)
{
    size_t at = from + name_start(l->word + from);
    const char *name, *help;
    offer_words(l, &l->params, at, "", "parameter");
    offer_words(l, &l->columns, at, "", "column");
    for (int i = 0; (name = gd_expr_function(i, &help)); i++) offer(l, l->word, at, name, "(", help);
}

/* Names of the expression without a value yet: candidates for --param. */
static void offer_unknown(line *l, size_t from)
{
    gd_ctx *ctx = l->cli->ctx;
    gd_expr *e = l->arguments ? gd_expr_parse(ctx, l->argument[0], NULL) : NULL;
    for (int i = 0; e && i < gd_expr_variables(e); i++) {
        const char *name = gd_expr_variable(e, i);
        if (gd__words_find(&l->columns, name) < 0 && gd__words_find(&l->params, name) < 0)
            offer(l, l->word, from, name, "=", "where it starts");
    }
    gd_expr_free(e);
    if (gd_error(ctx) != GD_NOMEM) gd_clear_error(ctx);
}

/* The words of "f32|f64", "huber:D|poisson", "linear|mlp(N, ...)": capitals stand for what the user writes. */
static void offer_choices(line *l, const char *choices, size_t from)
{
    char word[64];
    for (const char *end; *choices; choices = end + (*end == '|')) {
        end = choices + strcspn(choices, "|");
        size_t kept = strcspn(choices, "|[ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        (void)snprintf(word, sizeof word, "%.*s", (int)kept, choices);
        if (kept) offer(l, l->word, from, word, "", NULL);
    }
}

static void offer_conditions(line *l, size_t from)
{
    const char *name;
    for (int i = 0; (name = gd__until_name(i)); i++)
        offer(l, l->word, from, name, !strcmp(name, "evals") || !strcmp(name, "seconds") ? ">" : "<", NULL);
}

/* ---- values of options and arguments ---- */

static void offer_commands(line *l, size_t from)
{
    for (const gd_command *const *c = gd__commands; *c; c++)
        if (!(*c)->hidden) offer(l, l->word, from, (*c)->name, "", (*c)->summary);
}

/* Behind the last comma of COLUMNS, behind the '=' of [NAME=]COLUMN. */
static size_t column_start(const line *l, const char *value, size_t from)
{
    const char *mark = strstr(value, "COLUMNS") ? strrchr(l->word + from, ',')
                       : strstr(value, "=]")    ? strchr(l->word + from, '=')
                                                : NULL;
    return mark ? (size_t)(mark + 1 - l->word) : from;
}

static void offer_value(line *l, const gd_option *o, size_t from)
{
    const char *v = o->value, *comma = strrchr(l->word + from, ','), *at_sign = strchr(l->word + from, '@');
    if (o->path == GD_PATH_READ_VALUE && at_sign)
        offer_files(l);
    else if (!strcmp(o->name, "param") || !strcmp(o->name, "fix"))
        offer_unknown(l, from);
    else if (!strcmp(o->name, "bound"))
        offer_words(l, &l->params, from, "", "parameter");
    else if (!strcmp(o->name, "device"))
        offer_choices(l, "cpu|gpu", from);
    else if (!strcmp(o->name, "until"))
        offer_conditions(l, comma ? (size_t)(comma + 1 - l->word) : from);
    else if (strstr(v, "COLUMN"))
        offer_words(l, &l->columns, column_start(l, v, from), "", "column");
    else if (!strcmp(v, "CHAIN"))
        offer_links(l, from);
    else if (strstr(v, "EXPR") || !strcmp(o->name, "exclude"))
        offer_expression(l, from);
    else if (strchr(v, '|') && !strstr(v, "FILE"))
        offer_choices(l, v, from);
    if (o->path && o->path != GD_PATH_READ_VALUE) offer_files(l);
}

static void offer_options(line *l)
{
    char name[64];
    for (const gd_option *o = l->command->options; o->name; o++) {
        (void)snprintf(name, sizeof name, "--%s", o->name);
        offer(l, "", 0, name, "", o->help);
    }
    offer(l, "", 0, "--help", "", "this command");
}

/* The index of an argument by its placeholder in --help. */
static void offer_argument(line *l)
{
    const char *called = l->command->arguments;
    for (int i = 0; i < l->arguments && *called; i++) {
        size_t length = strcspn(called, " ");
        if (called[length]) called += length + 1;
    }
    if (!strncmp(called, "'EXPR'", 6) || !strncmp(called, "'MODEL'", 7))
        offer_expression(l, 0);
    else if (!strncmp(called, "CHAIN", 5) || !strncmp(called, "[NAME]", 6))
        offer_links(l, 0);
    else if (!strncmp(called, "[COMMAND]", 9))
        offer_commands(l, 0);
    else if (l->command->reads_from)
        offer_files(l);
}

/* ---- reading the line ---- */

/* The first lines of a text, without the one that is cut off. */
static gd_csv *read_head(gd_ctx *ctx, const char *path)
{
    FILE *f = fopen(path, "rb");
    char *data = f ? gd__alloc(ctx, HEAD) : NULL;
    size_t size = data ? fread(data, 1, HEAD, f) : 0;
    bool whole = f && feof(f);
    if (f) (void)fclose(f);
    while (!whole && size && data[size - 1] != '\n') size--;
    gd_csv *csv = size ? gd__csv_parse(ctx, path, data, size, NULL) : NULL;
    if (data) gd__free(ctx, data, HEAD);
    return csv;
}

static gd_status read_columns(line *l, const char *path)
{
    gd_ctx *ctx = l->cli->ctx;
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return GD_OK;
    gd_csv *csv = read_head(ctx, path);
    if (!csv && about.st_size <= WHOLE_FILE && gd_error(ctx) != GD_NOMEM) {
        gd_clear_error(ctx);
        csv = gd__table_load(ctx, &path, 1, NULL);
    }
    gd_status status = gd_error(ctx) == GD_NOMEM ? GD_NOMEM : GD_OK;
    if (!status) gd_clear_error(ctx);
    for (int i = 0; csv && i < gd__csv_columns(csv) && !status; i++) {
        const char *word = gd__csv_word(csv, i);
        status = gd__words_add(ctx, &l->columns, word, strlen(word));
    }
    gd__csv_free(csv);
    return status;
}

/* An option on the line with its value. */
static gd_status take_option(line *l, const gd_option *o, const char *value)
{
    gd_ctx *ctx = l->cli->ctx;
    if (!strcmp(o->name, "param")) return gd__words_add(ctx, &l->params, value, strcspn(value, "[="));
    if (strcmp(o->name, "plugin") != 0) return GD_OK;
    gd_status status = gd_link_plugin_load(ctx, value);
    if (status && status != GD_NOMEM) gd_clear_error(ctx);
    return status == GD_NOMEM ? status : GD_OK;
}

static const gd_option *option_of(const gd_command *command, const char *word)
{
    return !strncmp(word, "--", 2) ? gd__option_find(command, word + 2, strcspn(word + 2, "=")) : NULL;
}

/* The words after the command: arguments, and values of options. */
static gd_status read_line(line *l, const char *const *words, int count)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        const gd_option *o = option_of(l->command, words[i]);
        const char *equals = strchr(words[i], '=');
        if (o && o->value && (equals || i + 1 < count))
            status = take_option(l, o, equals ? equals + 1 : words[++i]);
        else if (strncmp(words[i], "--", 2) != 0)
            l->argument[l->arguments++] = words[i];
    }
    for (int i = l->command->reads_from - 1; i >= 0 && i < l->arguments && !status && !l->columns.count; i++)
        status = read_columns(l, l->argument[i]);
    return status;
}

/* Words without quotes, joined again for bash, which splits at '='. They point into the text, which is new and large enough;
 * returns their number. */
static int clean_words(line *l, const char **words, int count, bool joins, char *text)
{
    int kept = 0;
    bool after = false; /* a '=' of a word of its own */
    for (int i = 0; i < count; i++) {
        bool sign = joins && !strcmp(words[i], "="), join = kept > 2 && (sign || after);
        const char *word = words[i], quote = *word == '\'' || *word == '"' ? *word : 0;
        size_t length = strlen(word += quote != 0);
        if (quote && length && word[length - 1] == quote) length--;
        if (join) text--; /* over the NUL */
        if (!join) words[kept++] = text;
        l->cut = join ? (size_t)(text - words[kept - 1]) + sign : 0;
        memcpy(text, word, length);
        text += length;
        *text++ = 0;
        after = sign;
    }
    return kept;
}

/* The kind of word expected here: the value of an option, an option, an argument. */
static void offer_at(line *l, const char *before)
{
    const gd_option *own = option_of(l->command, l->word), *last = option_of(l->command, before);
    const char *equals = strchr(l->word, '=');
    if (own && own->value && equals)
        offer_value(l, own, (size_t)(equals + 1 - l->word));
    else if (last && last->value && !strchr(before, '='))
        offer_value(l, last, 0);
    else if (l->word[0] == '-')
        offer_options(l);
    else
        offer_argument(l);
}

static gd_status complete(line *l, const char **words, int count)
{
    gd_ctx *ctx = l->cli->ctx;
    (void)snprintf(l->word, sizeof l->word, "%s", words[count - 1]);
    if (count == 2) {
        offer_commands(l, 0);
        offer(l, "", 0, "--help", "", NULL);
        offer(l, "", 0, "--version", "", NULL);
        return GD_OK;
    }
    if (!(l->command = gd__command_find(words[1]))) return GD_OK;
    size_t bytes = (size_t)count * sizeof *l->argument;
    if (!(l->argument = gd__alloc(ctx, bytes))) return GD_NOMEM;
    gd_status status = read_line(l, words + 2, count - 3);
    if (!status) offer_at(l, words[count - 2]);
    gd__words_free(ctx, &l->columns);
    gd__words_free(ctx, &l->params);
    gd__free(ctx, l->argument, bytes);
    return status ? status : gd_error(ctx);
}

static int run_complete(gd_cli *cli, const gd_args *args)
{
    gd_ctx *ctx = cli->ctx;
    line l = {.cli = cli};
    int64_t place = 0;
    int shell = 0;
    const char **words = args->argument + 2;
    while (gd__shells[shell] && strcmp(gd__shells[shell], args->argument[0]) != 0) shell++;
    if (!gd__shells[shell])
        return gd__cli_code(
            cli, gd_fail(ctx, GD_ARGUMENT, "complete: '%.60s' is no shell that is known", args->argument[0]));
    if (!gd__is_integer(args->argument[1], &place) || place < 1 || place > args->arguments - 3)
        return gd__cli_code(cli, gd_fail(ctx, GD_ARGUMENT, "complete: '%.60s' is not the place of a word",
                                         args->argument[1]));
    size_t bytes = 0;
    for (int i = 0; i <= place; i++) bytes += strlen(words[i]) + 1;
    char *text = gd__alloc(ctx, bytes);
    if (!text) return gd__cli_code(cli, GD_NOMEM);
    cli->raw = true;
    gd_status status = complete(&l, words, clean_words(&l, words, (int)place + 1, shell == 0, text));
    gd__free(ctx, text, bytes);
    return gd__cli_code(cli, !status && cli->out.failed ? GD_NOMEM : status);
}

const gd_command gd__command_complete = {
    .name = "complete",
    .summary = "Complete a command line, for shells.",
    .arguments = "SHELL PLACE -- WORDS...",
    .description = "",
    .options = options,
    .examples = "gradus complete bash 2 -- gradus minimize --ch\n",
    .least = 3,
    .most = 100000,
    .hidden = true,
    .run = run_complete,
};
