/* gradus, the program. */
#include "base/system.h"
#include "cli/cli.h"
#include "gradus/version.h"

typedef struct words {
    int count;
    char **word;
} words;

static int run_program(void *user)
{
    words *w = user;
    return gd__cli_main(w->count, w->word);
}

/* A shell may allow less stack than a step needs. */
int main(int argc, char **argv)
{
    words w = {argc > 0 ? argc - 1 : 0, argv + (argc > 0)};
    return gd__with_stack(GD_STEP_STACK + (64 << 10), run_program, &w);
}
