/* Progress: a line on a terminal for what takes longer than a second, nothing anywhere else. */
#define _GNU_SOURCE /* posix_openpt */
#include "cli/cli.h"

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>

/* How many times longer an emulated program is waited for; how long a line of a table takes to come */
#ifdef GD_TEST_EMULATED
enum { SLOWER = 15 };
#define NAP "3"
#else
enum { SLOWER = 1 };
#define NAP "0.3"
#endif

/* A command whose standard error is a pseudo-terminal, and what it wrote there. */
typedef struct terminal {
    pid_t child;
    int master, code;
    bool open;
    char said[1 << 14];
    size_t used;
} terminal;

static void start_on_terminal(terminal *t, const char *arguments, int columns)
{
    *t = (terminal){.master = posix_openpt(O_RDWR | O_NOCTTY), .open = true, .code = -1};
    assert_true(t->master >= 0 && grantpt(t->master) == 0 && unlockpt(t->master) == 0);
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(t->master, TIOCSWINSZ, &size), 0);
    t->child = fork();
    if (t->child) return;
    char command[2048];
    int slave = open(ptsname(t->master), O_RDWR | O_NOCTTY);
    snprintf(command, sizeof command, "%s %s >/dev/null", GD_CLI, arguments);
    const char *pipe = strstr(arguments, "| ");
    if (pipe)
        snprintf(command, sizeof command, "%.*s| %s %s >/dev/null", (int)(pipe - arguments), arguments,
                 GD_CLI, pipe + 2);
    if (slave < 0 || dup2(slave, 2) != 2 || setpgid(0, 0) != 0) _exit(99);
    close(t->master);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(99);
}

static void read_terminal(terminal *t)
{
    int status;
    struct pollfd p = {.fd = t->master, .events = POLLIN};
    if (poll(&p, 1, 5) > 0) {
        ssize_t got = read(t->master, t->said + t->used, sizeof t->said - 1 - t->used);
        t->open = got > 0;
        t->used += got > 0 ? (size_t)got : 0;
    } else if (t->code < 0 && waitpid(t->child, &status, WNOHANG) == t->child) {
        t->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
        t->open = false;
    }
}

static void end_terminal(terminal *t)
{
    int status = 0;
    if (t->code < 0) {
        (void)kill(-t->child, SIGKILL);
        (void)waitpid(t->child, &status, 0);
        t->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    }
    close(t->master);
}

/* One command, at most so many seconds; its exit code, what it wrote is in err. */
static int on_terminal(const char *arguments, int columns, double seconds)
{
    terminal t;
    double end = gd__cli_seconds() + SLOWER * seconds;
    start_on_terminal(&t, arguments, columns);
    while (t.open && gd__cli_seconds() < end) read_terminal(&t);
    end_terminal(&t);
    snprintf(err, sizeof err, "%s", t.said);
    return t.code;
}

/* A table of so many rows. */
static void put_rows(const char *name, int rows)
{
    FILE *f = fopen(name, "w");
    fputs("x,y\n", f);
    for (int i = 0; i < rows; i++) fprintf(f, "%d,%d.5\n", i, 2 * i + i % 3);
    fclose(f);
}

/* What lasts, and what its line has. */
static const struct {
    const char *arguments, *shown[4];
} lasting[] = {
    {"minimize 'sum(x^2)' --param x='ones(100)' --chain 'lr(1e-9)' --steps 100000000",
     {"step ", "/100000000  loss ", " steps/s  ", " left"}},
    {"fit 'a*exp(-b*x)+c*x' t.csv --param a=1 --param b=0.1 --param c=2 --intervals bootstrap:1000000",
     {"resample ", "/1000000", " resamples/s  ", " left"}},
    {"fit 'a*exp(-b*x)+c*x' t.csv --param a=1 --param b=0.1 --param c=2 --starts 100000",
     {"start ", "/100000", " starts/s  ", " left"}},
    {"train t.csv --target y --task regress --epochs 1000000", {"step ", " steps/s  ", " left"}},
    {"{ cat t.csv; for i in 1 2 3 4 5 6 7; do sleep " NAP
     "; echo 1,3; done; } | fit 'a+b*x' - --param a=1 --param b=0",
     {"standard input: 0 MB  ", " MB/s"}},
};

#define LASTING (sizeof lasting / sizeof *lasting)

static bool has_all(const char *text, const char *const parts[4])
{
    for (int k = 0; k < 4 && parts[k]; k++)
        if (!strstr(text, parts[k])) return false;
    return true;
}

/* All at the same time. */
static void whatever_lasts_says_how_far_it_is(void **state)
{
    (void)state;
    static terminal t[LASTING];
    put_rows("t.csv", 300);
    for (size_t i = 0; i < LASTING; i++) start_on_terminal(&t[i], lasting[i].arguments, 200);
    double end = gd__cli_seconds() + SLOWER * 20; /* far less on a machine that is not busy */
    for (bool all = false; !all && gd__cli_seconds() < end;) {
        all = true;
        for (size_t i = 0; i < LASTING; i++) {
            if (t[i].open) read_terminal(&t[i]);
            all = all && (!t[i].open || has_all(t[i].said, lasting[i].shown));
        }
    }
    for (size_t i = 0; i < LASTING; i++) end_terminal(&t[i]);
    for (size_t i = 0; i < LASTING; i++)
        if (!has_all(t[i].said, lasting[i].shown) || strchr(t[i].said, 27))
            fail_msg("%s: %s", lasting[i].arguments, t[i].said);
}

static void nothing_is_said_of_what_is_short(void **state)
{
    (void)state;
    put_rows("t.csv", 300);
    assert_int_equal(on_terminal("fit 'a+b*x' t.csv --param a=1 --param b=0.1 --intervals profile", 200, 5),
                     0);
    assert_string_equal(err, "");
    assert_int_equal(on_terminal("minimize 'x^2' --param x=1", 200, 5), 0);
    assert_string_equal(err, "");
}

/* A line that wraps could not be taken back. */
static void a_line_fits_the_terminal(void **state)
{
    (void)state;
    (void)on_terminal(lasting[0].arguments, 30, 1.4);
    int width = 0, lines = 0;
    for (const char *s = err; *s; s++) {
        width = *s == '\r' ? 0 : width + 1;
        lines += *s == '\r';
        if (width > 29) fail_msg("a line of more than 29 columns: %s", err);
    }
    assert_true(lines > 0);
    assert_non_null(strstr(err, "step "));
}

/* The line is gone before the results, and a terminal that cannot take lines back gets none. */
static void the_line_is_taken_away(void **state)
{
    (void)state;
    (void)on_terminal(
        "minimize 'sum(x^2)' --param x='ones(100)' --chain 'lr(1e-9)' --steps 100000000 --until 'seconds>1.2'",
        100, 5);
    const char *last = strrchr(err, '\r');
    assert_true(last && last[1] == 0 && strstr(err, "steps/s"));
    assert_int_equal(setenv("TERM", "dumb", 1), 0);
    (void)on_terminal(
        "minimize 'sum(x^2)' --param x='ones(100)' --chain 'lr(1e-9)' --steps 100000000 --until 'seconds>1.2'",
        100, 5);
    assert_int_equal(unsetenv("TERM"), 0);
    assert_string_equal(err, "");
}

static void pipes_and_files_get_nothing(void **state)
{
    (void)state;
    works(
        "minimize 'sum(x^2)' --param x='ones(100)' --chain 'lr(1e-9)' --steps 100000000 --until 'seconds>1.2'");
    assert_string_equal(err, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(whatever_lasts_says_how_far_it_is), PROGRAM_TEST(nothing_is_said_of_what_is_short),
        PROGRAM_TEST(a_line_fits_the_terminal),          PROGRAM_TEST(the_line_is_taken_away),
        PROGRAM_TEST(pipes_and_files_get_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
