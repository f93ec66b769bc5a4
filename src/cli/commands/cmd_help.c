/* gradus help: texts about the program, from its own tables. */
#include "cli/cli.h"
#include "expr/expr_internal.h"
#include "base/text/suggest.h"

static const gd_option options[] = {
    GD_SWITCH("functions", "the operators and functions of expressions"),
    GD_SWITCH("manual", "the manual page, in roff"),
    GD_OPTION("completions", "bash|zsh|fish", "the completions for a shell, to be sourced or installed"),
    {0},
};

static const char operators[] =
    "operators, from loosest to tightest:\n"
    "  c ? a : b          a if c is true, else b (both are computed)\n"
    "  a || b  a && b     or, and; numbers other than 0 are true\n"
    "  < <= > >= == !=    compare; the result counts as 0 and 1\n"
    "  + -  * / % @       % is the remainder with the sign of the divisor, @ the matrix product\n"
    "  -x !x  x^y         powers are right-associative: -x^2 is -(x^2)\n"
    "  x[0] x[-1,2] x[1:5]  [a, b]   indices and ranges as in Python; a list\n"
    "  name = ...; f(x, k) = ...;    user-defined names and functions, before the value; --def FILE for many\n"
    "  pi e inf                      numbers\n"
    "\n"
    "functions:\n";

static void print_functions(gd_text *out)
{
    const char *name, *help;
    gd__text_put(out, "%s", operators);
    for (int i = 0; (name = gd_expr_function(i, &help)); i++) gd__text_put(out, "  %-12s %s\n", name, help);
}

static int run_help(gd_cli *cli, const gd_args *args)
{
    int shell = 0;
    gd_status status = gd__args_choice(args, "completions", "bash zsh fish", &shell);
    if (status) return gd__cli_code(cli, status);
    const gd_command *command = args->arguments ? gd__command_find(args->argument[0]) : NULL;
    if (args->arguments && !command) {
        gd_suggest nearest = gd__suggest(args->argument[0], __builtin_strlen(args->argument[0]));
        for (const gd_command *const *c = gd__commands; *c; c++) gd__suggest_try(&nearest, (*c)->name);
        char hint[GD_HINT_SIZE];
        return gd__cli_code(cli, gd_fail(cli->ctx, GD_ARGUMENT, "help: no command '%.60s'%s",
                                         args->argument[0], gd__suggest_hint(&nearest, hint)));
    }
    if (gd__args_has(args, "functions"))
        print_functions(&cli->out);
    else if (gd__args_has(args, "manual"))
        gd__help_manual(&cli->out, gd__commands);
    else if (gd__args_has(args, "completions"))
        gd__help_completions(&cli->out, shell);
    else if (command)
        gd__help_command(&cli->out, command);
    else
        gd__help_all(&cli->out, gd__commands);
    return gd__cli_code(cli, cli->out.failed ? GD_NOMEM : GD_OK);
}

const gd_command gd__command_help = {
    .name = "help",
    .summary = "Explain a command, the functions of expressions, or the whole program.",
    .arguments = "[COMMAND]",
    .description = "",
    .options = options,
    .examples = "gradus help eval\ngradus help --functions\neval \"$(gradus help --completions bash)\"\n",
    .most = 1,
    .run = run_help,
};
