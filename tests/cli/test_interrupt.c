/* Signals: noted between steps, and not waited for when a step never ends. */
#include "cli/cli.h"
#include "support/support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that catches signals, does `work` and is sent one; how it ended. */
static int end_of(void (*work)(int ready), int signal_number)
{
    int ready[2], status;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gd__interrupt_catch(1);
        work(ready[1]);
        _exit(9);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(child, signal_number), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ready[0]);
    close(ready[1]);
    return status;
}

static void never_end(int ready)
{
    (void)!write(ready, "", 1);
    for (;;) pause();
}

/* Looks at the flag, then takes longer than a step may. */
static void save_slowly(int ready)
{
    (void)!write(ready, "", 1);
    while (!gd__interrupted()) usleep(1000);
    for (int i = 0; i < 3; i++) sleep(1);
    _exit(0);
}

static void a_step_that_never_ends_dies_of_the_signal(void **state)
{
    (void)state;
    int status = end_of(never_end, SIGTERM);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void what_follows_an_interrupt_may_take_its_time(void **state)
{
    (void)state;
    int status = end_of(save_slowly, SIGINT);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_never_ends_dies_of_the_signal),
        cmocka_unit_test(what_follows_an_interrupt_may_take_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
