/* No output destroys an input: every pair of the tables of all commands, and the command lines that did. */
#include "cli/cli.h"
#include "program.h"

static gd_ctx *ctx;

static int start(void **state)
{
    ctx = gd_ctx_new(NULL);
    return ctx ? enter_folder(state) : -1;
}

static int stop(void **state)
{
    gd_ctx_free(ctx);
    return leave_folder(state);
}

/* What gd__paths_check says about the words behind a command's name; the error is cleared. */
static gd_status check(const gd_command *c, int count, char *const *words)
{
    gd_args args;
    gd_status status = gd__args_parse(ctx, c, count, words, &args);
    assert_int_equal(status, GD_OK);
    status = gd__paths_check(&args);
    gd__args_free(&args);
    gd_clear_error(ctx);
    return status;
}

/* One place of a command line that names a file: an option, or argument `argument`. */
typedef struct site {
    const gd_option *option;
    int argument;
    bool reads, writes;
} site;

static int sites_of(const gd_command *c, site *sites)
{
    int count = 0;
    for (int i = c->reads_from - 1; i >= 0 && i < c->least; i++)
        sites[count++] = (site){.argument = i, .reads = true};
    for (const gd_option *o = c->options; o->name; o++) {
        gd_path_role p = o->path;
        bool writes = p == GD_PATH_WRITE || p == GD_PATH_WRITE_CONTINUED;
        if (p != GD_PATH_NONE && p != GD_PATH_FOLDER)
            sites[count++] = (site){.option = o, .argument = -1, .reads = !writes, .writes = writes};
    }
    return count;
}

/* The command line with a at `first` and b at `second`, all other arguments files of their own. */
static gd_status with(const gd_command *c, const site *first, const char *a, const site *second,
                      const char *b)
{
    static char text[16][300];
    char *words[16];
    int count = 0;
    for (int i = 0; i < c->least; i++) {
        snprintf(text[count], sizeof text[0], "other%d.npy", i);
        if (first->argument == i) snprintf(text[count], sizeof text[0], "%s", a);
        if (second->argument == i) snprintf(text[count], sizeof text[0], "%s", b);
        words[count] = text[count], count++;
    }
    for (int k = 0; k < 2; k++) {
        const site *s = k ? second : first;
        const char *path = k ? b : a;
        if (!s->option) continue;
        bool value = s->option->path == GD_PATH_READ_VALUE;
        snprintf(text[count], sizeof text[0], "--%s=%s%s", s->option->name, value ? "v=@" : "", path);
        words[count] = text[count], count++;
    }
    return check(c, count, words);
}

/* Is it the pair that is meant to be one file: --resume and --out? */
static bool is_continued(const site *a, const site *b)
{
    if (!a->option || !b->option) return false;
    gd_path_role p = a->option->path, q = b->option->path;
    return (p == GD_PATH_CONTINUE && q == GD_PATH_WRITE_CONTINUED) ||
           (q == GD_PATH_CONTINUE && p == GD_PATH_WRITE_CONTINUED);
}

static void expect(const gd_command *c, const site *a, const site *b, const char *x, const char *y,
                   gd_status want)
{
    gd_status got = with(c, a, x, b, y);
    if (got != want)
        fail_msg("%s: %s %s and %s %s: %s", c->name, a->option ? a->option->name : "argument", x,
                 b->option ? b->option->name : "argument", y, gd_status_name(got));
}

/* By the same name, by another, by links, and where only an input is there or nothing yet. */
static void every_output_is_compared_with_every_file_of_the_command_line(void **state)
{
    (void)state;
    int pairs = 0;
    put("a.npy", "x");
    put("b.npy", "y");
    assert_int_equal(symlink("a.npy", "soft.npy") | symlink("new.npy", "dangling.npy") | mkdir("sub", 0777) |
                         link("a.npy", "hard.npy"),
                     0);
    for (const gd_command *const *c = gd__commands; *c; c++) {
        site s[64];
        int count = sites_of(*c, s);
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < i; k++) {
                if (!s[i].writes && !s[k].writes) continue;
                gd_status want = is_continued(&s[i], &s[k]) ? GD_OK : GD_ARGUMENT;
                static const char *const same[][2] = {{"a.npy", "a.npy"},       {"a.npy", "./sub/../a.npy"},
                                                      {"a.npy", "soft.npy"},    {"hard.npy", "a.npy"},
                                                      {"new.npy", "./new.npy"}, {"dangling.npy", "new.npy"}};
                for (size_t p = 0; p < sizeof same / sizeof *same; p++) {
                    expect(*c, &s[i], &s[k], same[p][0], same[p][1], want);
                    expect(*c, &s[i], &s[k], same[p][1], same[p][0], want);
                }
                expect(*c, &s[i], &s[k], "a.npy", "b.npy", GD_OK);
                expect(*c, &s[i], &s[k], "a.npy", "new.npy", GD_OK);
                expect(*c, &s[i], &s[k], "sub/new.npy", "new.npy", GD_OK);
                expect(*c, &s[i], &s[k], "/dev/null", "/dev/null", GD_OK);
                pairs++;
            }
        }
    }
    assert_true(pairs >= 20);
}

/* An option that takes a file says what it does with it. */
static void every_option_with_a_file_has_a_role(void **state)
{
    (void)state;
    for (const gd_command *const *c = gd__commands; *c; c++)
        for (const gd_option *o = (*c)->options; o->name; o++) {
            bool file = o->value && (strstr(o->value, "FILE") || strstr(o->value, "FOLDER") ||
                                     !strcmp(o->value, "NAME=VALUE"));
            if (file != (o->path != GD_PATH_NONE) && strcmp(o->name, "size") != 0)
                fail_msg("%s --%s %s", (*c)->name, o->name, o->value ? o->value : "");
        }
}

#define TABLE "x,y\n0,1\n1,3\n2,5\n3,7\n4,9\n"

/* Refused with exit code 2, and the file has the bytes it had. */
static void keeps(const char *arguments, const char *file)
{
    char before[4096], after[4096];
    slurp(file, before, sizeof before);
    fails(arguments, 2, "are the same file");
    slurp(file, after, sizeof after);
    if (strcmp(before, after) != 0) fail_msg("gradus %s changed %s", arguments, file);
}

static void outputs_leave_inputs_alone(void **state)
{
    (void)state;
    put("d.csv", TABLE);
    put("x.svg", "{\"step\":1,\"loss\":2}\n");
    put("x.jsonl", "{\"step\":1,\"loss\":2}\n");
    assert_int_equal(link("d.csv", "hard.csv"), 0);
    works("train d.csv --target y --model linear --epochs 1 --out m");
    keeps("train d.csv --target y --model linear --epochs 1 --out d.csv", "d.csv");
    keeps("train d.csv --target y --model linear --epochs 1 --trace d.csv", "d.csv");
    keeps("train d.csv --target y --model linear --epochs 1 --out hard.csv", "d.csv");
    keeps("train - --target y --model linear --epochs 1 --out d.csv <d.csv", "d.csv");
    keeps("train d.csv --target y --resume m --epochs 2 --trace m", "m");
    keeps("predict m d.csv --out m", "m");
    keeps("predict m d.csv --out d.csv", "d.csv");
    keeps("fit 'a*x+b' d.csv --param a=1 --param b=1 --out d.csv", "d.csv");
    keeps("minimize 'sum((d-a)^2)' --data d=@d.csv:x --param a=1 --trace d.csv", "d.csv");
    keeps("minimize 'a^2' --param a=1 --trace new --out new", "d.csv");
    keeps("plot x.jsonl x.svg", "x.svg");
    /* the documented way to go on, and a column that is called as a file */
    works("train d.csv --target y --resume m --epochs 2");
    works("train d.csv --target y --resume m --epochs 3 --out m");
    put("y", "");
    works("train d.csv --target y --model linear --epochs 1 --out y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_output_is_compared_with_every_file_of_the_command_line, start,
                                        stop),
        cmocka_unit_test(every_option_with_a_file_has_a_role),
        PROGRAM_TEST(outputs_leave_inputs_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
