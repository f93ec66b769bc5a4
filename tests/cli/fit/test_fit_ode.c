/* Fits of differential equations: from far starts, and interrupted inside an evaluation that lasts. */
#include "cli/program.h"

#include <signal.h>
#include <time.h>

/* Hares of the Hudson Bay Company, 1900 to 1920, in thousands (Elton & Nicholson 1942). */
static void put_hares(void)
{
    static const double hares[] = {30,   47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22,   25.4, 27.1,
                                   40.3, 57,   76.6, 52.3, 19.5, 11.2, 7.6,  14.6, 16.2, 24.7};
    FILE *f = fopen("hares.csv", "w");
    assert_non_null(f);
    fputs("t,H\n", f);
    for (int i = 0; i < COUNT_OF(hares); i++) fprintf(f, "%d,%g\n", i, hares[i]);
    assert_int_equal(fclose(f), 0);
}

/* SciPy's least_squares over LSODA, bounds (0, inf): 330.2155 in 33 evaluations from [30, 4].  Only b times the start of the lynx
 * counts, so that all starts lead to one minimum. */
static void hares_alone_are_fitted_from_a_far_start(void **state)
{
    (void)state;
    static const char *const bounds[] = {
        "", "--bound 'a>0' --bound 'b>0' --bound 'c>0' --bound 'd>0' --bound 'h>0'"};
    static const char *const lynx[] = {"4", "6.1", "8"};
    put_hares();
    for (int i = 0; i < COUNT_OF(bounds) * COUNT_OF(lynx); i++) {
        char command[500];
        snprintf(
            command, sizeof command,
            "fit \"ode(\\\"u' = a*u - b*u*v; v' = -c*v + d*u*v\\\", [h, %s], t)[0]\" hares.csv --y H --param a=0.5 "
            "--param b=0.02 --param c=0.8 --param d=0.02 --param h=30 --json %s",
            lynx[i % COUNT_OF(lynx)], bounds[i / COUNT_OF(lynx)]);
        works(command);
        if (!(fabs(json_number("rss") - 330.2155) < 1e-3) || !(json_number("evals") <= 3 * 33))
            fail_msg("gradus %s: %.9g after %g evaluations", command, json_number("rss"),
                     json_number("evals"));
        assert_true(fabs(json_number_in("params", "a") - 0.38693) < 1e-4);
    }
}

/* ---- signals ---- */

static pid_t start(const char *arguments)
{
    char command[1024];
    pid_t child = fork();
    if (child == 0) {
        snprintf(command, sizeof command, "exec %s %s >stdout.txt 2>stderr.txt", GD_CLI, arguments);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

/* x'' = -k x for long: seconds per evaluation, more than a signal waits for the end of a step. */
static void a_signal_is_heard_inside_an_evaluation(void **state)
{
    (void)state;
    static const char *const runs[] = {
        "fit \"a*ode(\\\"x' = v; v' = -k*x\\\", [1, 0], 400*t)[0]\" far.csv --y y --param a=1 --param k=1.0 ",
        "minimize \"sum(ode(\\\"x' = v; v' = -k*x\\\", [1, 0], [2500, 2500.5])[0])\" --param k=1.0 ",
        "minimize \"sum(ode(\\\"x' = v; v' = -k*x\\\", [1, 0], [2500, 2500.5])[0])\" --param k=1.0 --chain 'lr(1e-9)' --steps 100 ",
    };
    put("far.csv", "t,y\n0,1\n1,0.5\n2,0.2\n6,0.1\n");
    for (int i = 0; i < COUNT_OF(runs); i++) {
        int status;
        pid_t child = start(runs[i]);
        usleep(500000);
        assert_int_equal(kill(child, SIGINT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        slurp("stderr.txt", err, sizeof err);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || !strstr(err, "interrupted") ||
            strstr(err, "in the middle of a step"))
            fail_msg("gradus %s: %d: %s", runs[i], status, err);
    }
}

/* Without --out the point is printed. */
static void an_interrupted_fit_prints_its_best_point(void **state)
{
    (void)state;
    static const char *const formats[] = {"", "--json"};
    put("far.csv", "t,y\n0,1\n1,0.5\n2,0.2\n6,0.1\n");
    for (int i = 0; i < 2; i++) {
        int status;
        char command[300];
        snprintf(command, sizeof command,
                 "fit 'x + 0*t' far.csv --y y --param x=1 --chain 'lr(1e-9)' --steps 1000000000 %s",
                 formats[i]);
        pid_t child = start(command);
        usleep(700000);
        assert_int_equal(kill(child, SIGINT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        slurp("stderr.txt", err, sizeof err);
        slurp("stdout.txt", out, sizeof out);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        assert_non_null(strstr(err, "interrupted after "));
        double x = i ? json_number_in("params", "x") : NAN;
        const char *line = strstr(out, "\nx = ");
        if (!i && line) x = strtod(line + 5, NULL);
        if (!(x > 0.9 && x < 1) || !strstr(out, i ? "\"stopped\": \"interrupted\"" : "sum of squares "))
            fail_msg("prints %s", out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(hares_alone_are_fitted_from_a_far_start),
        PROGRAM_TEST(a_signal_is_heard_inside_an_evaluation),
        PROGRAM_TEST(an_interrupted_fit_prints_its_best_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
