/* --chain, --group and --schedule: the optimizer of a command. */
#ifndef GD_CLI_COMMANDS_TUNING_H
#define GD_CLI_COMMANDS_TUNING_H

#include "cli/args.h"
#include "base/text/compose.h"
#include "gradus/optim.h"

#define GD_TUNING_OPTIONS(chain)                                                                           \
    GD_OPTION("chain", "CHAIN", "the optimizer: links joined by |, see gradus links (" chain ")"),         \
        GD_REPEATED("group", "GLOB: KEY=VALUE",                                                            \
                    "settings of their own for the parameters whose names match: 'w*: lr=0.1', or with "   \
                    "axes>=2, numel<9, axis=NAME, label=AXIS.LABEL, not, and, or; those of "               \
                    "several groups add up, the later wins where two say the same; with chain=[...] an "   \
                    "optimizer of their own: 'head.*: chain=[lion | lr(1e-4)]'"),                          \
        GD_REPEATED(                                                                                       \
            "schedule", "[GLOB: ]KEY=SCHEDULE",                                                            \
            "a setting that changes with the step: 'lr=warmup(100, cosine(0.1, 0.001, 1000))'; constant, " \
            "linear, cosine, cosine_restarts, exponential, polynomial, step, multistep, one_cycle, wsd; "  \
            "a group's own value wins, and 'w*: lr=...' is for the parameters whose names match"),         \
        GD_PLUGIN_OPTION

/* The chain of an optimizer that is to be made: where a group has chain=[...], its parameters go through that one and the rest
 * through *chain, which is consumed.  On failure *chain may be NULL. */
GD_NODISCARD gd_status gd__tune_split(gd_ctx *ctx, gd_link **chain, const char *text);
/* GLOB: KEY=VALUE, ...  PARSE: "--group: ..." */
GD_NODISCARD gd_status gd__tune_group(gd_optimizer *optimizer, const char *text);
/* KEY=SCHEDULE for all groups without a value of their own, or GLOB: KEY=SCHEDULE. */
GD_NODISCARD gd_status gd__tune_schedule(gd_optimizer *optimizer, const char *text);

/* ARGUMENT: two of --schedule are for one setting of the same parameters. */
GD_NODISCARD gd_status gd__tune_check_schedules(const gd_args *args);
/* Warns where --chain is given and every parameter of the optimizer has a chain of its own; split: what gd__tune_split has made
 * around it. */
void gd__tune_warn_unused(const gd_args *args, const gd_optimizer *optimizer, const gd_link *split,
                          const gd_link *chain);

/* What an option says, in one way of writing: texts that mean the same print the same, 'lr(1e-3)' and 'lr(0.001)'.  PARSE:
 * as when it is used. */
typedef gd_status (*gd_print_option)(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_chain(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_group(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_schedule(gd_ctx *ctx, const char *text, gd_text *out);

#endif
