/* Ctrl-C: a flag that long runs look at between steps.  A step that does not end in time is not waited for. */
#include "cli/cli.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

/* A signal handler can reach nothing but variables of static storage. */
static volatile sig_atomic_t interrupted; /* the signal */
static volatile sig_atomic_t patience;    /* milliseconds from it to the next look at the flag */

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

/* Nobody looked: dies of the signal that came, whose action is the usual one again (SA_RESETHAND). */
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
    /* nohup has it ignored, and then it stays so */
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
