/* Commands and their options: one table a command gives the parser, --help, the manual page and the completions.
 *
 *   static const gd_option options[] = {GD_OPTION("steps", "N", "how many steps (100)"),
 *                                       GD_REPEATED("param", "NAME=VALUE", "..."), GD_SWITCH("json", "..."), {0}};
 *
 *   gd_args args;
 *   if (gd__args_parse(ctx, &command, argc, argv, &args)) ...       "minimize: unknown option '--stpes', did you mean ..."
 *   gd__args_integer(&args, "steps", 0, INT64_MAX, &steps);
 *   gd__args_free(&args);
 *
 * `--name value` and `--name=value`; `--` ends the options.  What begins with a single '-' is no option (an expression may begin
 * with a sign), save -h. */
#ifndef GD_CLI_ARGS_H
#define GD_CLI_ARGS_H

#include "cli/text.h"

typedef struct gd_option {
    const char *name;
    const char *value; /* what --help calls it; NULL: a switch */
    const char *help;
    bool repeated;
} gd_option;

#define GD_OPTION(name, value, help) \
    {                                \
        name, value, help, false     \
    }
#define GD_REPEATED(name, value, help) \
    {                                  \
        name, value, help, true        \
    }
#define GD_SWITCH(name, help)   \
    {                           \
        name, NULL, help, false \
    }

typedef struct gd_cli gd_cli;
typedef struct gd_args gd_args;

typedef struct gd_command {
    const char *name;
    const char *summary;     /* one line */
    const char *arguments;   /* "'EXPR'", "DATA.csv [MORE.csv...]" */
    const char *description; /* paragraphs; "" if the summary says it all */
    const gd_option *options;
    const char *examples;                         /* lines "command\n", at least one */
    int least, most;                              /* arguments that are no options */
    int (*run)(gd_cli *cli, const gd_args *args); /* the exit code */
} gd_command;

struct gd_args {
    gd_ctx *ctx;
    const gd_command *command;
    const char **argument; /* those that are no options */
    int arguments;
    const gd_option **option; /* in the order given */
    const char **value;       /* NULL for a switch */
    int options;
    size_t bytes;
    bool help;
};

/* Reads argv[0..argc), the words behind the command's name.  ARGUMENT: the text names command and option. */
GD_NODISCARD gd_status gd__args_parse(gd_ctx *ctx, const gd_command *command, int argc, char *const *argv,
                                      gd_args *out);
void gd__args_free(gd_args *args);

bool gd__args_has(const gd_args *args, const char *name);
/* The value given last; NULL: not given. */
const char *gd__args_get(const gd_args *args, const char *name);
/* The values of a repeated option: start with *at = 0; NULL after the last. */
const char *gd__args_next(const gd_args *args, const char *name, int *at);

/* Numbers in a range; *value stays as it is where the option is not given.  ARGUMENT: "minimize: --steps: ..." */
GD_NODISCARD gd_status gd__args_integer(const gd_args *args, const char *name, int64_t low, int64_t high,
                                        int64_t *value);
GD_NODISCARD gd_status gd__args_real(const gd_args *args, const char *name, double low, double high,
                                     double *value);
/* One of the words of choices ("f32 f64"); its number. */
GD_NODISCARD gd_status gd__args_choice(const gd_args *args, const char *name, const char *choices,
                                       int *value);

/* ---- help ---- */

void gd__help_command(gd_text *out, const gd_command *command);
void gd__help_all(gd_text *out, const gd_command *const *commands);
/* The manual page in roff, the completions for bash. */
void gd__help_manual(gd_text *out, const gd_command *const *commands);
void gd__help_completions(gd_text *out, const gd_command *const *commands);

#endif
