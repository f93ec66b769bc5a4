/* Ctrl-C: a flag that long runs look at between steps. */
#include "cli/cli.h"

#include <signal.h>

/* A signal handler can reach nothing but a variable of static storage. */
static volatile sig_atomic_t interrupted;

static void note(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void gd__interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    /* nohup has it ignored, and then it stays so */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(SIGHUP, &action, NULL);
}

bool gd__interrupted(void) { return interrupted != 0; }
