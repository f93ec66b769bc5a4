/* The commands, in the order of --help: one line each. */
#include "cli/cli.h"

#include <string.h>

const gd_command *const gd__commands[] = {
    &gd__command_minimize,
    &gd__command_eval,
    &gd__command_links,
    &gd__command_plot,
    &gd__command_devices,
    &gd__command_help,
    NULL,
};

const gd_command *gd__command_find(const char *name)
{
    for (const gd_command *const *c = gd__commands; *c; c++)
        if (!strcmp((*c)->name, name)) return *c;
    return NULL;
}
