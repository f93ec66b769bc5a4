/* A train that fails keeps what it has learnt: the model is on disk before the error is reported, with exit code 1. */
#include "cli/cli.h"
#include "cli/program.h"

#include "gradus/file.h"

#include <errno.h>
#include <signal.h>

/* y = 3x + 1 with noise of deviation 0.3: R2 of the true line is about 0.99. */
static void make_data(void)
{
    FILE *f = fopen("d.csv", "w");
    assert_non_null(f);
    fputs("x,y\n", f);
    uint64_t bits = 1;
    for (int i = 0; i < 200; i++) {
        double noise = 0, x = -2 + 4.0 * i / 199;
        for (int k = 0; k < 12; k++) {
            bits = bits * 6364136223846793005u + 1442695040888963407u;
            noise += (double)(bits >> 11) * 0x1p-53 - 0.5;
        }
        fprintf(f, "%.9g,%.9g\n", x, 3 * x + 1 + 0.3 * noise);
    }
    assert_int_equal(fclose(f), 0);
}

static void has_a_good_model(const char *model)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "predict %s d.csv --score --json", model);
    works(arguments);
    if (!(json_number("r2") > 0.98)) fail_msg("%s: %s", model, out);
}

static void fails_with(const char *arguments, const char *text)
{
    int code = gradus(arguments);
    if (code != 1 || !strstr(err, text)) fail_msg("gradus %s: exit %d: %s", arguments, code, err);
}

/* A rate that grows until the loss overflows, long after the model was as good as it gets. */
#define DIVERGES                                                                                           \
    "train d.csv --target y --model linear --epochs 400 --chain 'lr(1)' --schedule 'lr=exponential(0.01, " \
    "1.005)' --out m.safetensors "

static void a_loss_that_is_not_finite_leaves_the_best_model(void **state)
{
    (void)state;
    make_data();
    fails_with(DIVERGES "--validation 0.1", "m.safetensors has the model of epoch ");
    has_a_good_model("m.safetensors");
    fails_with(DIVERGES "--validation 0", "m.safetensors has the model of epoch ");
    has_a_good_model("m.safetensors");
}

/* What was saved goes on as any checkpoint does, and fails again at the same step. */
static void a_run_that_failed_can_be_resumed(void **state)
{
    (void)state;
    make_data();
    char first[sizeof err];
    fails_with(DIVERGES, "the loss is ");
    memcpy(first, err, sizeof first);
    fails_with("train d.csv --resume m.safetensors", "the loss is ");
    *strchr(first, ';') = 0;
    assert_non_null(strstr(err, first));
    has_a_good_model("m.safetensors");
}

/* Nothing is known to be good in the first epoch: what was there before stays. */
static void a_run_that_fails_at_once_leaves_the_old_file(void **state)
{
    (void)state;
    make_data();
    put("m.safetensors", "what was there before");
    fails_with("train d.csv --target y --model linear --chain 'lr(1e38)' --out m.safetensors",
               "the loss is ");
    slurp("m.safetensors", out, sizeof out);
    assert_string_equal(out, "what was there before");
}

static void a_trace_that_cannot_be_written_leaves_the_model(void **state)
{
    (void)state;
    make_data();
    fails_with("train d.csv --target y --model linear --chain 'adam | lr(0.05)' --epochs 5000 "
               "--trace /dev/full --out m.safetensors",
               "/dev/full: cannot write: No space left on device; continue with --resume m.safetensors");
    has_a_good_model("m.safetensors");
}

static void a_closed_standard_output_leaves_the_model(void **state)
{
    (void)state;
    make_data();
    char command[512];
    snprintf(command, sizeof command,
             "%s train d.csv --target y --model linear --chain 'adam | lr(0.05)' --epochs 300 "
             "--out m.safetensors >&- 2>stderr.txt",
             GD_CLI);
    int status = system(command);
    assert_int_equal(WEXITSTATUS(status), 1);
    slurp("stderr.txt", err, sizeof err);
    assert_non_null(strstr(err, "continue with --resume m.safetensors"));
    works("train d.csv --resume m.safetensors");
    has_a_good_model("m.safetensors");
}

static int lines_of(const char *path)
{
    int lines = 0, c;
    FILE *f = fopen(path, "r");
    while (f && (c = fgetc(f)) != EOF) lines += c == '\n';
    if (f) fclose(f);
    return lines;
}

static bool ends_within(pid_t child, int *status, int tenths)
{
    for (int i = 0; i < tenths; i++) {
        if (waitpid(child, status, WNOHANG) == child) return true;
        usleep(100000);
    }
    return false;
}

/* Starts a run without end, sends a signal once it has trained long enough and saved; the exit code, -1 when it goes on. */
static int stop_with(const char *before, int number)
{
    char command[512];
    unlink("stop.jsonl");
    pid_t child = fork();
    if (child == 0) {
        snprintf(
            command, sizeof command,
            "%s exec %s train d.csv --target y --model linear --chain 'adam | lr(0.05)' --epochs 100000000 "
            "--save-every 0.1 --trace stop.jsonl --out m.safetensors >stdout.txt 2>stderr.txt",
            before, GD_CLI);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 6000 && !(exists("m.safetensors") && lines_of("stop.jsonl") > 300); i++)
        usleep(10000);
    assert_int_equal(kill(child, number), 0);
    int status;
    bool ended = ends_within(child, &status, *before ? 10 : 300);
    if (!ended) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    slurp("stderr.txt", err, sizeof err);
    return !ended ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_signal_saves_and_ends_unless_it_is_ignored(void **state)
{
    (void)state;
    make_data();
    static const int numbers[] = {SIGHUP, SIGTERM, SIGINT};
    for (int i = 0; i < 3; i++) {
        unlink("m.safetensors");
        assert_int_equal(stop_with("", numbers[i]), 1);
        assert_non_null(strstr(err, "interrupted after "));
        assert_non_null(strstr(err, "--resume m.safetensors"));
        has_a_good_model("m.safetensors");
    }
    unlink("m.safetensors");
    assert_int_equal(stop_with("trap '' HUP;", SIGHUP), -1); /* as nohup does */
}

/* ---- data that changes while it is learnt from ---- */

/* 200 KB of rows: a dozen blocks. */
static void make_long_data(void)
{
    FILE *f = fopen("long.csv", "w");
    assert_non_null(f);
    fputs("x,word,y\n", f);
    for (int i = 0; i < 9000; i++) {
        double x = -2 + 4.0 * ((i * 7919) % 9000) / 8999;
        fprintf(f, "%.9f,%s,%s\n", x, i % 3 ? "often" : "seldom", x > 0.1 ? "high" : "low");
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(system("cp long.csv kept.csv"), 0);
}

static void make_long_array(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_randn(ctx, GD_F64, 2, (int64_t[]){9000, 2});
    assert_int_equal(gd_npy_save(x, "long.npy") | gd_npy_save(gd_index(x, "1", 0), "y.npy"), GD_OK);
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
}

/* Starts a run without end over blocks, changes the file by a command of the shell once it has trained, and waits for its end. */
static int change_during(const char *data, const char *command)
{
    char line[512];
    unlink("stop.jsonl");
    pid_t child = fork();
    if (child == 0) {
        snprintf(line, sizeof line,
                 "exec %s train %s --stream --model linear --chain 'adam | lr(0.05)' --epochs 100000000 "
                 "--trace stop.jsonl --out m.safetensors >stdout.txt 2>stderr.txt",
                 GD_CLI, data);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    int status;
    for (int i = 0; i < 6000 && lines_of("stop.jsonl") < 2; i++) usleep(10000);
    assert_int_equal(system(command), 0);
    if (!ends_within(child, &status, 600)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        fail_msg("%s: the run continues", command);
    }
    slurp("stderr.txt", err, sizeof err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void data_that_changes_while_it_is_read_leaves_the_model(void **state)
{
    (void)state;
    static const struct {
        const char *change, *error;
    } all[] = {
        {"truncate -s 0 long.csv", "long.csv: became shorter while it was read"},
        {"truncate -s 100 long.csv", "long.csv: became shorter while it was read"},
        {"truncate -s 120000 long.csv", "long.csv: became shorter while it was read"},
        {"truncate -s -7 long.csv", "long.csv: became shorter while it was read"},
        {"tr '\\n' ' ' <kept.csv >long.csv", "long.csv: "}, /* no rows */
        {"sed 's/high$/  NA/; s/low$/ NA/' kept.csv | dd conv=notrunc of=long.csv 2>/dev/null",
         "the cell is empty"},
        {"sed '1!d' kept.csv >a; yes '' | head -c 300000 | cat a - | dd conv=notrunc of=long.csv 2>/dev/null",
         "long.csv: "}, /* blank lines in place of rows; which rows are half overwritten is chance */
        {"sed 's/low$/was/' kept.csv | dd conv=notrunc of=long.csv 2>/dev/null", "knows no class 'was'"},
        {"head -c 300000 /dev/zero >long.csv", "long.csv: "},
    };
    make_long_data();
    int each = test_share() > 1 ? 2 : 1;
    for (int i = 0; i < COUNT_OF(all); i += each) {
        unlink("m.safetensors");
        assert_int_equal(system("cat kept.csv >long.csv"), 0);
        int code = change_during("long.csv --target y", all[i].change);
        if (code != 1 || !strstr(err, all[i].error) || !strstr(err, "continue with --resume m.safetensors"))
            fail_msg("%s: exit %d: %s", all[i].change, code, err);
        works("predict m.safetensors kept.csv --score --json");
        assert_true(json_number("accuracy") > 0.9);
    }
    make_long_array();
    assert_int_equal(change_during("long.npy --target y.npy", "truncate -s 40000 long.npy"), 1);
    assert_non_null(strstr(err, "long.npy: became shorter while it was read; continue with --resume"));
}

/* ---- saves that fail, in a context of our own ---- */

static int syncs_left; /* that fail */

static int failing_sync(void *user, int fd)
{
    (void)user;
    if (syncs_left > 0) {
        syncs_left--;
        errno = ENOSPC;
        return -1;
    }
    return gd__posix_files.sync(NULL, fd);
}

static int run_with_failing_saves(int failing, int64_t *warnings, char *text, size_t size)
{
    gd_file_ops files = gd__posix_files;
    files.sync = failing_sync;
    gd_options options = gd_options_default();
    options.files = &files;
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_cli cli = {.ctx = ctx, .out = gd__text(ctx)};
    syncs_left = failing;
    char *words[] = {"train", "d.csv",        "--target", "y",      "--model", "linear",        "--epochs",
                     "8",     "--save-every", "0",        "--json", "--out",   "m.safetensors", NULL};
    int code = gd__cli_dispatch(&cli, 13, words);
    *warnings = gd_warning_count(ctx);
    snprintf(text, size, "%s", code ? gd_error_text(ctx) : gd_warning_text(ctx));
    gd__text_free(&cli.out);
    gd_ctx_free(ctx);
    return code;
}

static void a_save_that_fails_in_between_is_told_once_and_tried_again(void **state)
{
    (void)state;
    make_data();
    char text[512];
    int64_t warnings;
    works("train d.csv --target y --model linear --epochs 8 --out undisturbed.safetensors");
    assert_int_equal(run_with_failing_saves(3, &warnings, text, sizeof text), 0);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(text, "m.safetensors"));
    assert_non_null(strstr(text, "No space left on device; the run continues and tries again"));
    assert_true(same_files("undisturbed.safetensors", "m.safetensors"));
}

static void a_last_save_that_fails_is_an_error(void **state)
{
    (void)state;
    make_data();
    char text[512];
    int64_t warnings;
    assert_int_equal(run_with_failing_saves(1000, &warnings, text, sizeof text), 1);
    assert_non_null(strstr(text, "No space left on device"));
    assert_false(exists("m.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(a_loss_that_is_not_finite_leaves_the_best_model),
        PROGRAM_TEST(a_run_that_failed_can_be_resumed),
        PROGRAM_TEST(a_run_that_fails_at_once_leaves_the_old_file),
        PROGRAM_TEST(a_trace_that_cannot_be_written_leaves_the_model),
        PROGRAM_TEST(a_closed_standard_output_leaves_the_model),
        PROGRAM_TEST(a_signal_saves_and_ends_unless_it_is_ignored),
        PROGRAM_TEST(data_that_changes_while_it_is_read_leaves_the_model),
        PROGRAM_TEST(a_save_that_fails_in_between_is_told_once_and_tried_again),
        PROGRAM_TEST(a_last_save_that_fails_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
