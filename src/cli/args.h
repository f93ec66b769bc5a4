/* Commands and their options: one table per command gives the parser, --help, the manual page and the completions.
 *
 *   static const gd_option options[] = {GD_OPTION("steps", "N", "how many steps (100)"),
 *                                       GD_REPEATED("param", "NAME=VALUE", "..."), GD_SWITCH("json", "..."), {0}};
 *
 *   gd_args args;
 *   if (gd__args_parse(ctx, &command, argc, argv, &args)) ...       "minimize: unknown option '--stpes', did you mean ..."
 *   gd__args_integer(&args, "steps", 0, INT64_MAX, &steps);
 *   gd__args_free(&args);
 *
 * `--name value` and `--name=value`; `--` ends the options.  What begins with a single '-' is not an option (an expression may begin
 * with a sign), save -h. */
#ifndef GD_CLI_ARGS_H
#define GD_CLI_ARGS_H

#include "base/text/compose.h"

/* The role of an option's value on disk, declared in the table: gd__paths_check compares all inputs with all outputs, for every
 * command. */
typedef enum gd_path_role {
    GD_PATH_NONE,
    GD_PATH_READ,
    GD_PATH_READ_VALUE, /* NAME=@FILE, or @FILE, or something that is not a file */
    GD_PATH_READ_ROWS,  /* a file unless the command's data is a table: there it is a column */
    GD_PATH_CONTINUE,   /* read, and rewritten if no output is named */
    GD_PATH_WRITE,
    GD_PATH_WRITE_CONTINUED, /* may be the file that GD_PATH_CONTINUE reads */
    GD_PATH_FOLDER,          /* new files in a folder: they cannot collide with existing ones */
} gd_path_role;

typedef struct gd_option {
    const char *name;
    const char *value; /* its placeholder in --help; NULL: a switch */
    const char *help;
    bool repeated;
    gd_path_role path;
} gd_option;

#define GD_OPTION(name, value, help)           \
    {                                          \
        name, value, help, false, GD_PATH_NONE \
    }
#define GD_REPEATED(name, value, help)        \
    {                                         \
        name, value, help, true, GD_PATH_NONE \
    }
#define GD_SWITCH(name, help)                 \
    {                                         \
        name, NULL, help, false, GD_PATH_NONE \
    }
#define GD_PATH_OPTION(name, value, role, help) \
    {                                           \
        name, value, help, false, role          \
    }
#define GD_OUTPUT(name, help) GD_PATH_OPTION(name, "FILE", GD_PATH_WRITE, help)
/* NAME=VALUE, where the value may be @FILE. */
#define GD_VALUES(name, help)                              \
    {                                                      \
        name, "NAME=VALUE", help, true, GD_PATH_READ_VALUE \
    }

/* Wherever a chain is taken; gd__cli_dispatch loads it. */
#define GD_PLUGIN_OPTION                                                                                    \
    {                                                                                                       \
        "plugin", "FILE", "a shared library with user-defined links, see gradus/link/plugin.h; repeatable", \
            true, GD_PATH_READ                                                                              \
    }

typedef struct gd_cli gd_cli;
typedef struct gd_args gd_args;

typedef struct gd_command {
    const char *name;
    const char *summary;     /* one line */
    const char *arguments;   /* "'EXPR'", "DATA.csv [MORE.csv...]" */
    const char *description; /* paragraphs; "" if the summary says it all */
    const gd_option *options;
    const char *examples; /* lines "command\n", at least one */
    int least, most;      /* arguments that are not options */
    int reads_from;       /* arguments from this one on, counted from 1, are files; 0: none */
    bool hidden;          /* internal: not listed in help */
    int (*run)(gd_cli *cli, const gd_args *args); /* the exit code */
} gd_command;

struct gd_args {
    gd_ctx *ctx;
    const gd_command *command;
    const char **argument; /* those that are not options */
    int arguments;
    const gd_option **option; /* in the order given */
    const char **value;       /* NULL for a switch */
    bool *asked;              /* the option was read: unread options have no effect */
    int options;
    size_t bytes;
    bool help;
    const gd_observer *observer; /* callbacks of long work of the command; NULL: none */
};

/* Reads argv[0..argc), the words after the command's name. ARGUMENT: the text names command and option. */
GD_NODISCARD gd_status gd__args_parse(gd_ctx *ctx, const gd_command *command, int argc, char *const *argv,
                                      gd_args *out);
void gd__args_free(gd_args *args);
/* After a successful run: a warning for each option that was not read. */
void gd__args_warn(const gd_args *args);
/* Clears the options that name outputs, except those that may continue from their file. */
void gd__args_drop_outputs(gd_args *args);

/* Refuses (ARGUMENT) an output that is the same file as an input or as a second output: by a different name, a symbolic or a hard
 * link, or not there yet.  Opens nothing.  A file that is not regular (a pipe, /dev/null) may be used twice. */
GD_NODISCARD gd_status gd__paths_check(const gd_args *args);
/* The same for an output that no option names. */
GD_NODISCARD gd_status gd__paths_check_output(const gd_args *args, const char *path);

/* The option of a name, given as a prefix of the text; NULL: the command has none. */
const gd_option *gd__option_find(const gd_command *command, const char *name, size_t length);

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
/* The manual page in roff. */
void gd__help_manual(gd_text *out, const gd_command *const *commands);
/* The shells that completions are for, ended by NULL, and the script for one of them, by its number. */
extern const char *const gd__shells[];
void gd__help_completions(gd_text *out, int shell);
/* The text of `gradus` alone, and the commands in it, ended by NULL: each runs as it is. */
extern const char *const gd__to_try[];
void gd__help_start(gd_text *out);

#endif
