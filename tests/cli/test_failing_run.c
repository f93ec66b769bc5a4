/* A minimize or fit that fails keeps what it has found: the parameters are on disk before the error is reported, with exit code 1;
 * and a signal does not wait for a step that takes long. */
#include "program.h"

#include <signal.h>
#include <time.h>

/* 2 exp(-0.7 x) + 0.5 and a little that is not of the model. */
static void make_data(int rows)
{
    FILE *f = fopen("d.csv", "w");
    assert_non_null(f);
    fputs("x,y\n", f);
    for (int i = 0; i < rows; i++) {
        double x = 4.0 * i / rows;
        fprintf(f, "%.9g,%.9g\n", x, 2 * exp(-0.7 * x) + 0.5 + 0.01 * sin(7.3 * i));
    }
    assert_int_equal(fclose(f), 0);
}

#define DECAY "fit 'a*exp(-b*x)+c' d.csv --param a=1 --param b=1 --param c=0 "

static double saved(const char *file, const char *name)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "eval v --param v=@%s:%s --json", file, name);
    works(arguments);
    return json_number("value");
}

static void fails_with(const char *arguments, const char *text)
{
    int code = gradus(arguments);
    if (code != 1 || !strstr(err, text)) fail_msg("gradus %s: exit %d: %s", arguments, code, err);
}

/* ---- outputs ---- */

/* It was "the callback said so". */
static void a_trace_that_fails_on_the_way_is_the_reason(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
#define LONG "minimize '(x-3)^2' --param x=1 --chain 'lr(0.001)' --steps 5000 --trace /dev/full "
    fails_with(LONG, "gradus: /dev/full: cannot write: No space left on device\n");
    assert_non_null(strstr(out, ": /dev/full: cannot write: No space left on device\n"));
    fails_with(LONG "--json", "gradus: /dev/full: cannot write: No space left on device\n");
    assert_non_null(strstr(out, "\"stopped\": \"output failed\", \"reason\": \"/dev/full: cannot write: "));
    fails_with("minimize '(x-3)^2' --param x=1 --trace nowhere/t.jsonl",
               "gradus: nowhere/t.jsonl: cannot open");
}

static void a_file_that_cannot_be_written_leaves_parameters_and_results(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    make_data(200);
    assert_int_equal(symlink("/dev/full", "full.svg"), 0);
    static const struct {
        const char *arguments, *name;
        double value;
    } rows[] = {
        {"minimize '(x-3)^2' --param x=1 --trace /dev/full --out m.safetensors", "x", 3},
        {"minimize '(x-3)^2' --param x=1 --plot full.svg --out m.safetensors", "x", 3},
        {"minimize '(x-3)^2' --param x=1 --plot full.svg --trace /dev/full --out m.safetensors", "x", 3},
        {DECAY "--plot full.svg --out m.safetensors", "b", 0.7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unlink("m.safetensors");
        fails_with(rows[i].arguments, "No space left on device; m.safetensors has the parameters");
        assert_true(*out);
        if (!(fabs(saved("m.safetensors", rows[i].name) - rows[i].value) < 0.01)) fail_msg("%s", out);
    }
}

/* A trace that fails in the middle: 100000 steps do not fit into a kilobyte. */
static void a_trace_that_fails_on_the_way_ends_the_run_and_leaves_the_parameters(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    fails_with("minimize '(x-3)^2' --param x=1 --chain 'lr(0.01)' --steps 100000 --trace /dev/full --out "
               "m.safetensors",
               "/dev/full: cannot write: No space left on device; m.safetensors has the parameters");
    double x = saved("m.safetensors", "x");
    assert_true(x > 1.5 && x <= 3);
}

static void a_closed_standard_output_leaves_the_parameters(void **state)
{
    (void)state;
    char command[512];
    make_data(200);
    static const char *const rows[] = {"minimize '(b-0.7)^2' --param b=1 ", DECAY};
    for (int i = 0; i < 2; i++) {
        unlink("m.safetensors");
        snprintf(command, sizeof command, "%s %s --out m.safetensors >&- 2>stderr.txt", GD_CLI, rows[i]);
        int status = system(command);
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_true(fabs(saved("m.safetensors", "b") - 0.7) < 0.01);
    }
}

/* ---- losses ---- */

#define OVERFLOWS                                                                           \
    "minimize '(x-3)^2' --param x=1 --chain 'lr(1)' --schedule 'lr=exponential(0.1, 1.1)' " \
    "--steps 3000 --out m.safetensors"

/* The rate grows until the loss overflows, long after the point was as good as it gets. */
static void a_loss_that_is_not_finite_leaves_the_best_parameters(void **state)
{
    (void)state;
    fails_with(OVERFLOWS, "steps; m.safetensors has the best parameters before");
    assert_true(fabs(saved("m.safetensors", "x") - 3) < 0.01);
}

static void a_run_that_fails_at_once_leaves_the_old_file(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "minimize 'log(x)' --param x=-1 --out old",
        "minimize 'log(x)' --param x=-1 --chain 'lr(1)' --steps 5 --out old",
        "fit 'log(a)*x' d.csv --param a=-1 --out old",
    };
    make_data(20);
    put("old", "what was there before");
    for (int i = 0; i < 3; i++) {
        if (gradus(rows[i]) != 1 || strstr(err, "has the")) fail_msg("gradus %s: %s", rows[i], err);
        slurp("old", out, sizeof out);
        assert_string_equal(out, "what was there before");
    }
}

/* ---- signals ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Does the process catch SIGTERM?  Then its computation has begun. */
static bool catches(pid_t process)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    slurp(path, text, sizeof text);
    const char *caught = strstr(text, "SigCgt:");
    return caught && strtoull(caught + 7, NULL, 16) >> (SIGTERM - 1) & 1;
}

/* Seconds of work that the process has done, whatever else runs on the machine; no end of them when it has ended. */
static double worked(pid_t process)
{
    char path[64], text[1024];
    unsigned long user, system;
    char how;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    slurp(path, text, sizeof text);
    const char *name = strrchr(text, ')'); /* a name may have blanks in it */
    int found = name ? sscanf(name + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &how, &user,
                              &system)
                     : 0;
    if (found != 3 || how == 'Z') return INFINITY;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Until it has worked for so long from now on: on a busy machine that takes its time. */
static void let_work(pid_t process, double enough)
{
    double begun = worked(process), limit = seconds() + 300;
    while (worked(process) < begun + enough && seconds() < limit) usleep(10000);
}

static pid_t start(const char *arguments)
{
    char command[1024];
    pid_t child = fork();
    if (child == 0) {
        snprintf(command, sizeof command, "exec %s %s >stdout.txt 2>stderr.txt", GD_CLI, arguments);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 3000 && !catches(child); i++) usleep(10000);
    return child;
}

/* Sends a signal that must find the process running; how it ended, and after how many seconds. */
static int stop(pid_t child, int number, double *took)
{
    int status;
    double begun = seconds();
    if (waitpid(child, &status, WNOHANG) == child) fail_msg("ended before the signal");
    assert_int_equal(kill(child, number), 0);
    bool ended = false;
    while (!ended && seconds() - begun < 20) {
        ended = waitpid(child, &status, WNOHANG) == child;
        if (!ended) usleep(1000);
    }
    *took = seconds() - begun;
    if (!ended) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    slurp("stderr.txt", err, sizeof err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* How long a program works before it has made some steps, in seconds; in how many the first of them must have ended; rows of a
 * matrix whose products take seconds */
#ifdef GD_TEST_EMULATED
#define WARM_UP 5.0
enum { STEP_ENDS = 300 };
#define LARGE "300"
#else
#define WARM_UP 0.1
enum { STEP_ENDS = 30 };
#define LARGE   "1500"
#endif

/* x is 1 at the start of all of them, and moves towards 3. */
static const char *const long_runs[] = {
    "minimize '(x-3)^2' --param x=1 --chain 'lr(1e-6)' --steps 1000000000 --out m.safetensors",
    "minimize '(x-3)^2' --param x=1 --chain 'lr(1e-6)' --until 'loss<0' --steps 1000000000 --out m.safetensors",
    "fit 'x' d.csv --param x=1 --chain 'lr(1e-7)' --steps 1000000000 --out m.safetensors",
    "fit 'x' d.csv --param x=1 --bound 'x<10' --chain 'lr(1e-8)' --steps 1000000000 --out m.safetensors",
    "fit 'x' d.csv --param x=1 --starts 100000 --out m.safetensors",
    "fit 'x' d.csv --param x=1 --intervals bootstrap:1000000 --out m.safetensors",
};

static void a_signal_saves_the_best_point_and_ends(void **state)
{
    (void)state;
    double took;
    FILE *f = fopen("d.csv", "w");
    assert_non_null(f);
    fputs("t,y\n", f);
    for (int i = 0; i < 20; i++) fprintf(f, "%d,%d\n", i, 2 + i % 3);
    assert_int_equal(fclose(f), 0);
    static const int numbers[] = {SIGHUP, SIGTERM, SIGINT};
    for (size_t i = 0; i < sizeof long_runs / sizeof *long_runs; i++) {
        for (int k = 0; k < 3; k++) {
            unlink("m.safetensors");
            pid_t child = start(long_runs[i]);
            let_work(child, WARM_UP);
            int code = stop(child, numbers[k], &took);
            if (code != 1 || !strstr(err, "interrupted after ") ||
                !strstr(err, "; m.safetensors has the parameters"))
                fail_msg("gradus %s: %d: %s", long_runs[i], code, err);
            double x = saved("m.safetensors", "x");
            if (!(x > 1 && x < 3.5)) fail_msg("gradus %s: x is %g", long_runs[i], x);
            /* what was not judged has no likelihood to compare */
            assert_int_not_equal(gradus("compare m.safetensors m.safetensors"), 0);
            assert_non_null(
                strstr(err, *long_runs[i] == 'f' ? "the fit did not come to its end" : "no 'fit.rss'"));
        }
    }
}

/* Every step takes longer than a signal waits for it: what the last one found is there. */
#define SLOW "1e-30*sum((x*W)@W@W@W@W@W)' --param x=1 --data 'W=ones(" LARGE "," LARGE ")' --threads 1 "

static void slow_steps_are_saved_before_a_signal_comes(void **state)
{
    (void)state;
    double took;
    static const char *const rows[] = {
        "minimize '(x-3)^2 + " SLOW "--chain 'lr(0.1)' --steps 1000 --out m.safetensors",
        "minimize '(x-3)^2 + " SLOW "--chain 'lr(0.1)' --until 'loss<0' --steps 1000 --out m.safetensors",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unlink("m.safetensors");
        pid_t child = start(rows[i]);
        for (int k = 0; k < 100 * STEP_ENDS && !exists("m.safetensors"); k++) usleep(10000);
        bool there = exists("m.safetensors");
        usleep(50000);
        int code = stop(child, SIGTERM, &took);
        if (!there || (code != 128 + SIGTERM && code != 1)) fail_msg("gradus %s: %d: %s", rows[i], code, err);
        assert_non_null(strstr(err, "interrupted"));
        double x = saved("m.safetensors", "x");
        if (!(x > 1 && x <= 3)) fail_msg("gradus %s: x is %g", rows[i], x);
    }
}

/* Seven tenths of a second are given; the rest is for a machine that is busy.  The work itself takes longer. */
#ifdef __SANITIZE_THREAD__
#define WITHIN 30
#else
#define WITHIN 4
#endif

static void dies_in_time(const char *arguments, double after)
{
    double took;
    pid_t child = start(arguments);
    usleep((useconds_t)(after * 1e6));
    int code = stop(child, SIGTERM, &took);
    if (took > WITHIN || (code != 128 + SIGTERM && code != 1))
        fail_msg("gradus %s: %d after %g s: %s", arguments, code, took, err);
}

static void a_fit_dies_of_sigterm_inside_a_product_of_matrices(void **state)
{
    (void)state;
    make_data(20);
    dies_in_time("fit 'a*x + 1e-30*sum(W@W@W@W@W@W@W@W@W@W)' d.csv --param a=1 --param "
                 "'W=ones(3000,3000)' --threads 1",
                 0.5);
}

/* A Jacobian of 3000 x 1500 and its decompositions. */
static void a_fit_dies_of_sigterm_inside_the_solver(void **state)
{
    (void)state;
    make_data(3000);
    dies_in_time("fit 'sum(w)*x + dot(w, w)' d.csv --param 'w=rand(1500)' --threads 1", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(a_trace_that_fails_on_the_way_is_the_reason),
        PROGRAM_TEST(a_file_that_cannot_be_written_leaves_parameters_and_results),
        PROGRAM_TEST(a_trace_that_fails_on_the_way_ends_the_run_and_leaves_the_parameters),
        PROGRAM_TEST(a_closed_standard_output_leaves_the_parameters),
        PROGRAM_TEST(a_loss_that_is_not_finite_leaves_the_best_parameters),
        PROGRAM_TEST(a_run_that_fails_at_once_leaves_the_old_file),
        PROGRAM_TEST(a_signal_saves_the_best_point_and_ends),
        PROGRAM_TEST(slow_steps_are_saved_before_a_signal_comes),
        PROGRAM_TEST(a_fit_dies_of_sigterm_inside_a_product_of_matrices),
        PROGRAM_TEST(a_fit_dies_of_sigterm_inside_the_solver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
