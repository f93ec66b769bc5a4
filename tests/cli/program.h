/* The program, run as a user runs it, in a folder of the test's own. */
#ifndef GD_TESTS_CLI_PROGRAM_H
#define GD_TESTS_CLI_PROGRAM_H

#include "support/support.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DATA GD_TEST_DIR "/../examples/data/"

static char folder[64], out[1 << 20], err[1 << 14];

/* Makes the folder and goes there; the second takes it away. */
static inline int enter_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gradus_test_XXXXXX");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static inline int leave_folder(void **state)
{
    (void)state;
    char command[256];
    if (chdir("/") != 0) return -1;
    snprintf(command, sizeof command, "chmod -R u+w %s && rm -r %s", folder, folder);
    return system(command);
}

static inline void slurp(const char *path, char *into, size_t size)
{
    FILE *f = fopen(path, "rb");
    into[f ? fread(into, 1, size - 1, f) : 0] = 0;
    if (f) fclose(f);
}

static inline void put_bytes(const char *name, const void *data, size_t size)
{
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static inline void put(const char *name, const char *text) { put_bytes(name, text, strlen(text)); }

static inline bool exists(const char *name) { return access(name, F_OK) == 0; }

/* Splits at spaces, for gd__cli_dispatch; an argument with spaces inside stands between quotes. */
static inline int split_words(char *text, char **words, int room)
{
    int count = 0;
    for (char *s = text; *s;) {
        s += strspn(s, " ");
        char quote = *s == '\'' ? *s++ : ' ';
        assert_true(count < room);
        words[count++] = s;
        s += strcspn(s, quote == ' ' ? " " : "'");
        if (*s) *s++ = 0;
    }
    return count;
}

/* Runs `gradus ARGUMENTS` through the shell; the exit code.  What it says is in out and err. */
static inline int gradus(const char *arguments)
{
    char command[4096];
    int length = snprintf(command, sizeof command, "%s %s >stdout.txt 2>stderr.txt", GD_CLI, arguments);
    assert_true(length > 0 && length < (int)sizeof command);
    int status = system(command);
    slurp("stdout.txt", out, sizeof out);
    slurp("stderr.txt", err, sizeof err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static inline void works(const char *arguments)
{
    if (gradus(arguments) != 0) fail_msg("gradus %s: %s", arguments, err);
    if (*err) fail_msg("gradus %s says %s", arguments, err);
}

/* Exit code, one line that begins with "gradus: " and holds `text`, nothing on standard output. */
static inline void fails(const char *arguments, int code, const char *text)
{
    int got = gradus(arguments);
    size_t length = strlen(err);
    if (got != code) fail_msg("gradus %s: exit %d, want %d: %s", arguments, got, code, err);
    if (strncmp(err, "gradus: ", 8) != 0 || !strstr(err, text) || strchr(err, '\n') != err + length - 1)
        fail_msg("gradus %s says\n  %swant\n  %s", arguments, err, text);
    if (*out) fail_msg("gradus %s prints %s", arguments, out);
}

/* The number behind "key": in what the program printed, after the text `object` ("" for the first such key). */
static inline double json_number_in(const char *object, const char *key)
{
    char quoted[64];
    const char *at = out;
    if (*object) {
        snprintf(quoted, sizeof quoted, "\"%s\": {", object);
        at = strstr(out, quoted);
        if (!at) fail_msg("no %s in %s", object, out);
    }
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    at = strstr(at, quoted);
    if (!at) fail_msg("no %s in %s", key, out);
    at += strlen(quoted);
    at += strspn(at, " [");
    return strtod(at, NULL);
}

static inline double json_number(const char *key) { return json_number_in("", key); }

/* Are two files the same bytes? */
static inline bool same_files(const char *a, const char *b)
{
    char command[256];
    snprintf(command, sizeof command, "cmp %s %s", a, b);
    return system(command) == 0;
}

#define PROGRAM_TEST(f) cmocka_unit_test_setup_teardown(f, enter_folder, leave_folder)

#endif
