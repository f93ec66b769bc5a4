/* The table of commands. */
#include "cli/cli.h"

#include <string.h>

#define ADDRESS(name) &gd__command_##name,

const gd_command *const gd__commands[] = {GD_COMMANDS(ADDRESS) NULL};

const gd_command *gd__command_find(const char *name)
{
    for (const gd_command *const *c = gd__commands; *c; c++)
        if (!strcmp((*c)->name, name)) return *c;
    return NULL;
}
