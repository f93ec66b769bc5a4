/* --plugin: links of one's own from shared libraries, wherever a chain is taken. */
#include "gradus/link/plugin.h"
#include "gradus/chain.h"

#include "program.h"

#define PLUGINS GD_PLUGIN_DIR "/plugin_"

static void every_command_with_a_chain_takes_links_of_a_plugin(void **state)
{
    (void)state;
    put("t.csv", "x,y\n0,1\n1,3.1\n2,4.9\n3,7\n");
    /* half of the gradient's way, doubled: (x - 1)^2 from 3 with lr 0.1 doubled twice is at 1.4 after 1 step */
    works("minimize '(x-1)^2' --param x=3 --plugin " PLUGINS "good.so "
          "--chain 'plugin_gradient | plugin_twice(2) | lr(0.1)' --steps 1 --json");
    assert_true(fabs(json_number_in("params", "x") - 1.4) < 1e-12);
    works("fit 'a+b*x' t.csv --param a=0 --param b=0 --plugin " PLUGINS "good.so "
          "--chain 'plugin_twice | lbfgs | strong_wolfe' --json");
    assert_true(fabs(json_number_in("params", "b") - 1.98) < 0.01);
    works("train t.csv --target y --task regress --model linear --epochs 2 --plugin " PLUGINS "good.so "
          "--chain 'plugin_twice | lr(0.01)' --json");
    works("explain 'plugin_twice(3) | lr(0.1)' --plugin " PLUGINS "good.so");
    assert_non_null(strstr(out, "plugin_twice"));
    works("links plugin_twice --plugin " PLUGINS "good.so");
    assert_non_null(strstr(out, "times two"));
    works("links --search plugin_ --plugin " PLUGINS "good.so");
    assert_true(strstr(out, "plugin_twice") && strstr(out, "plugin_gradient"));
}

static void a_plugin_may_be_given_twice_and_lie_in_the_folder(void **state)
{
    (void)state;
    assert_int_equal(symlink(PLUGINS "good.so", "mine.so"), 0);
    works("explain plugin_twice --plugin mine.so --plugin ./mine.so");
    fails("explain plugin_twice", 2, "link 'plugin_twice' unknown");
    fails("explain plugin_twise --plugin mine.so", 2, "did you mean 'plugin_twice'?");
}

static const struct {
    const char *file, *error;
} broken[] = {
    {"missing.so", "plugin missing.so: cannot read: No such file or directory"},
    {"text.so", "plugin text.so: it is no shared library, or not all of one"},
    {"empty.so", "plugin empty.so: it is no shared library, or not all of one"},
    {"cut.so", "plugin cut.so: it is no shared library, or not all of one"},
    {".", "plugin .: it is no shared library, or not all of one"},
    {PLUGINS "nothing.so",
     "it has no 'gd_plugin_links', which GD_LINK_PLUGIN of gradus/link/plugin.h defines"},
    {PLUGINS "older.so", "it was compiled for gradus 0.0.9, this is " GD_VERSION},
    {PLUGINS "other.so", "it was compiled with other headers than this gradus: compile it again"},
    {PLUGINS "empty.so", "it brings no link"},
    {PLUGINS "taken.so", "link class 'adam': there is one of that name"},
    {PLUGINS "senseless.so", "link class 'plugin_senseless': does nothing"},
    {PLUGINS "unresolved.so", "nobody_has_this"},
};

static void broken_plugins_are_named(void **state)
{
    (void)state;
    char command[600];
    put("text.so", "this is no library\n");
    put("empty.so", "");
    assert_int_equal(system("head -c 3000 " PLUGINS "good.so > cut.so"), 0);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        snprintf(command, sizeof command, "explain 'adam | lr(0.1)' --plugin %s", broken[i].file);
        int code = gradus(command);
        if ((code != 1 && code != 2) || !strstr(err, broken[i].error) || *out ||
            strncmp(err, "gradus: plugin ", 15))
            fail_msg("%s: exit %d: %s", command, code, err);
    }
    fails("explain adam --plugin", 2, "--plugin wants a value");
}

/* What fails leaves nothing of itself. */
static void a_plugin_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    static const char *const bad[] = {"taken", "senseless"};
    for (int i = 0; i < 2; i++) {
        char path[600];
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        snprintf(path, sizeof path, PLUGINS "%s.so", bad[i]);
        assert_int_equal(gd_link_plugin_load(ctx, path), GD_ARGUMENT);
        gd_clear_error(ctx);
        assert_null(gd_chain(ctx, "plugin_twice"));
        gd_clear_error(ctx);
        assert_int_equal(gd_link_plugin_load(ctx, PLUGINS "good.so"), GD_OK);
        gd_link *link = gd_chain(ctx, "plugin_twice | lr(0.1)");
        assert_non_null(link);
        gd_link_release(link);
        end_context(ctx, &m);
    }
}

/* docs/plugins.md: its source compiles, without libgradus, and its commands run. */
static void the_how_to_is_so(void **state)
{
    (void)state;
    static char page[1 << 14];
    char command[2048];
    slurp(GD_TEST_DIR "/../docs/plugins.md", page, sizeof page);
    char *code = strstr(page, "```c\n"), *end = code ? strstr(code, "\n```") : NULL;
    assert_true(code && end);
    put_bytes("above.c", code + 5, (size_t)(end + 1 - code - 5));
    assert_int_equal(symlink(GD_CLI, "gradus"), 0);
    int commands = 0;
    char *shown = end + 4;
    for (char *line = shown; (line = strstr(line, "\n    "));) {
        line += 5;
        int length = (int)strcspn(line, "\n");
        bool compiles = !strncmp(line, "cc ", 3);
        snprintf(command, sizeof command, "PATH=.:$PATH; { %.*s\n} >tried.txt 2>said.txt", length, line);
        if (compiles)
            snprintf(command, sizeof command, "%s -I " GD_TEST_DIR "/../include %.*s\n",
                     getenv("CC") ? getenv("CC") : "cc", length - 3, line + 3);
        if (system(command) != 0) fail_msg("%s", command);
        commands++;
    }
    assert_int_equal(commands, 4);
    slurp("tried.txt", out, sizeof out);
    assert_non_null(strstr(out, "loss "));
}

/* The plugins of devices and worlds: a file beside the real program, which is no library, is the one that is complained about. */
static void a_program_started_by_a_link_looks_beside_the_real_one(void **state)
{
    (void)state;
    static const char *const starts[] = {
        "real/gradus",
        "./link",
        "deeper/link",
        "\"$PWD/link\"",
        "PATH=\"$PWD:$PATH\" link",
        "sh -c 'cd deeper && ./link'",
        "sh -c 'cd / && \"$OLDPWD/deeper/link\"'",
    };
    char command[600], want[128];
    assert_int_equal(
        system("mkdir real deeper && { ln " GD_CLI " real/gradus 2>ln.txt || cp " GD_CLI " real/gradus; } && "
               "ln -s real/gradus link && ln -s ../link deeper/link && echo none >real/libgradus_mpi.so"),
        0);
    snprintf(want, sizeof want, "mpi        not there: %s/real/libgradus_mpi.so: ", folder);
    for (int i = 0; i < COUNT_OF(starts); i++) {
        bool inside = starts[i][0] == 's'; /* sh -c: the words of the program are inside */
        snprintf(command, sizeof command, "unset GRADUS_MPI; %.*s world%s >stdout.txt 2>stderr.txt",
                 (int)strlen(starts[i]) - inside, starts[i], inside ? "'" : "");
        assert_int_equal(system(command), 0);
        slurp("stdout.txt", out, sizeof out);
        if (!strstr(out, want)) fail_msg("%s: %s", command, out);
    }
}

static void allocations_may_fail(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        m.fail_at = m.requests + k;
        gd_status status = gd_link_plugin_load(ctx, PLUGINS "good.so");
        bool failed = m.failed;
        m.fail_at = 0;
        assert_int_equal(status, failed ? GD_NOMEM : GD_OK);
        gd_clear_error(ctx);
        gd_link *link = gd_chain(ctx, "plugin_twice");
        assert_int_equal(link != NULL, !failed);
        gd_link_release(link);
        gd_clear_error(ctx);
        end_context(ctx, &m);
        if (!failed) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(every_command_with_a_chain_takes_links_of_a_plugin),
        PROGRAM_TEST(a_plugin_may_be_given_twice_and_lie_in_the_folder),
        PROGRAM_TEST(broken_plugins_are_named),
        PROGRAM_TEST(a_plugin_is_taken_whole_or_not_at_all),
        PROGRAM_TEST(the_how_to_is_so),
        PROGRAM_TEST(a_program_started_by_a_link_looks_beside_the_real_one),
        PROGRAM_TEST(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
