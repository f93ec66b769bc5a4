/* --chain, --group and --schedule: the optimizer of a command. */
#ifndef GD_CLI_COMMANDS_TUNING_OPTIONS_H
#define GD_CLI_COMMANDS_TUNING_OPTIONS_H

#include "cli/args.h"

#define GD_TUNING_OPTIONS(chain)                                                                                   \
    GD_OPTION("chain", "CHAIN", "the optimizer: links joined by |, see gradus links (" chain ")"),                 \
        GD_REPEATED(                                                                                               \
            "group", "GLOB: KEY=VALUE",                                                                            \
            "settings for the parameters whose names match: 'w*: lr=0.1', or with axes>=2, numel<9, axis=NAME, "   \
            "label=AXIS.LABEL, not, and, or; matching groups are combined, and the later value wins; chain=[...] " \
            "sets a separate optimizer: 'head.*: chain=[lion | lr(1e-4)]'"),                                       \
        GD_REPEATED(                                                                                               \
            "schedule", "[GLOB: ]KEY=SCHEDULE",                                                                    \
            "a schedule for a setting: 'lr=warmup(100, cosine(0.1, 0.001, 1000))'; constant, linear, cosine, "     \
            "cosine_restarts, exponential, polynomial, step, multistep, one_cycle, wsd; a group's own value has "  \
            "precedence, and 'w*: lr=...' applies to the parameters whose names match"),                           \
        GD_PLUGIN_OPTION

#endif
