/* Ctrl-C: a flag that long runs look at between steps.  A step that does not end in time is not waited for. */
#include "cli/cli.h"

#include <signal.h>
#include <unistd.h>

#define GRACE 5 /* seconds from the signal to the next look at the flag */

/* A signal handler can reach nothing but a variable of static storage. */
static volatile sig_atomic_t interrupted; /* the signal */

static void note(int signal_number)
{
    interrupted = signal_number;
    (void)alarm(GRACE);
}

/* Nobody looked: dies of the signal that came, whose action is the usual one again (SA_RESETHAND). */
static void give_up(int alarm_number)
{
    (void)alarm_number;
    (void)raise(interrupted);
}

void gd__interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    struct sigaction late = {.sa_handler = give_up, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigemptyset(&late.sa_mask);
    (void)sigaction(SIGALRM, &late, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    /* nohup has it ignored, and then it stays so */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(SIGHUP, &action, NULL);
}

bool gd__interrupted(void)
{
    if (!interrupted) return false;
    (void)alarm(0); /* what comes now, saving say, may take its time */
    return true;
}
