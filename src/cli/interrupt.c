/* Ctrl-C: a flag that long runs check between steps. The program does not wait for a step that does not end in time. */
#include "cli/cli.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

/* A signal handler can only use static variables. */
static volatile sig_atomic_t interrupted; /* the signal */
static volatile sig_atomic_t patience;    /* milliseconds from it to the next check of the flag */

/* alarm() has whole seconds only.  This is a plain system call in Linux, so a handler may make it. */
static void wake_in(int milliseconds)
{
    struct itimerval once = {.it_value = {milliseconds / 1000, milliseconds % 1000 * 1000}};
    (void)setitimer(ITIMER_REAL, &once, NULL);
}

static void note(int signal_number)
{
    interrupted = signal_number;
    wake_in((int)patience);
}

/* The flag was not checked: dies of the signal, whose action is the default again (SA_RESETHAND). */
static void give_up(int alarm_number)
{
    static const char text[] = "gradus: interrupted in the middle of a step\n";
    (void)alarm_number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)raise((int)interrupted);
}

void gd__interrupt_catch(double grace)
{
    patience = (sig_atomic_t)(grace * 1000);
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    struct sigaction late = {.sa_handler = give_up, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigemptyset(&late.sa_mask);
    (void)sigaction(SIGALRM, &late, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    /* under nohup it is ignored, and stays so */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(SIGHUP, &action, NULL);
}

bool gd__interrupt_pending(void) { return interrupted; }

bool gd__interrupted(void)
{
    if (!interrupted) return false;
    wake_in(0);
    return true;
}
