/* What the suites of the run-time compiler share: a folder a test, with a compiler that counts its runs. */
#ifndef GD_TESTS_COMPILE_SUPPORT_H
#define GD_TESTS_COMPILE_SUPPORT_H

#include "program/random_program.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct place {
    char home[64];      /* all of this test's files */
    char cache[128];    /* FOLDER/cache folder: a space must not matter */
    char compiler[128]; /* a script around cc */
    char log[128];      /* one line per run */
    gd_program *p;
    gd_pass pass;
} place;

static inline void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* The compiler of this test: notes its run, then does `command`. */
static inline void set_compiler(place *at, const char *command)
{
    char text[512];
    snprintf(text, sizeof text, "#!/bin/sh\necho run >> '%s'\n%s\n", at->log, command);
    write_file(at->compiler, text, 0700);
}

static inline int runs(const place *at)
{
    FILE *file = fopen(at->log, "r");
    int lines = 0;
    for (int c; file && (c = fgetc(file)) != EOF;) lines += c == '\n';
    if (file) fclose(file);
    return lines;
}

static inline int set_up(void **state)
{
    place *at = calloc(1, sizeof *at);
    *state = at;
    assert_non_null(at);
    snprintf(at->home, sizeof at->home, "/tmp/gd-test-XXXXXX");
    assert_non_null(mkdtemp(at->home));
    snprintf(at->cache, sizeof at->cache, "%s/cache folder", at->home);
    snprintf(at->compiler, sizeof at->compiler, "%s/compiler", at->home);
    snprintf(at->log, sizeof at->log, "%s/log", at->home);
    set_compiler(at, "exec cc \"$@\"");
    char tmp[80];
    snprintf(tmp, sizeof tmp, "%s/tmp", at->home);
    assert_int_equal(mkdir(tmp, 0700), 0);
    setenv("TMPDIR", tmp, 1);
    at->p = calloc(1, sizeof *at->p);
    assert_non_null(at->p);
    return 0;
}

static inline void remove_tree(const char *path)
{
    char below[512];
    DIR *dir = opendir(path);
    struct stat s;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        assert_true(snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below);
        if (lstat(below, &s) == 0 && S_ISDIR(s.st_mode))
            remove_tree(below);
        else
            unlink(below);
    }
    if (dir) closedir(dir);
    rmdir(path);
}

static inline int tear_down(void **state)
{
    place *at = *state;
    remove_tree(at->home);
    unsetenv("TMPDIR");
    free(at->p);
    free(at);
    return 0;
}

/* How many files of a folder begin with `start`; `found` is the path of one of them. */
static inline int count_files(const char *folder, const char *start, char *found, size_t size)
{
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, start, strlen(start)) != 0) continue;
        if (found) assert_true(snprintf(found, size, "%s/%s", folder, entry->d_name) < (int)size);
        count++;
    }
    if (dir) closedir(dir);
    return count;
}

static inline gd_ctx *compiling_context(const place *at, memory *m)
{
    gd_options options = gd_options_default();
    options.compiler = at->compiler;
    options.cache_dir = at->cache;
    options.isa = "none"; /* no built-in programs */
    options.threads = 1;
    if (m) {
        options.allocator = memory_allocator(m);
        options.pool = false;
    }
    gd_ctx *ctx = gd_ctx_new(&options);
    assert_non_null(ctx);
    return ctx;
}

/* Asks for the kernel of the last pass of AdamW; fails the test unless it is compiled or interpreted as expected. */
static inline gd_kernel_fn ask(place *at, gd_ctx *ctx, gd_executor expected)
{
    gd_executor how = GD_EXEC_BUILT_IN;
    make_adamw(at->p, ctx, GD_F32, GD_F32, false);
    gd__program_pass(at->p, 0, &at->pass);
    gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
    assert_no_error(ctx);
    if (how != expected) fail_msg("executor %d, not %d: %s", how, expected, gd__kernel_trouble(ctx));
    if (expected == GD_EXEC_COMPILED) {
        assert_true(fn != NULL);
        assert_string_equal(gd__kernel_trouble(ctx), "");
    } else {
        assert_true(fn == NULL);
    }
    return fn;
}

/* The same in a context of its own. */
static inline void ask_anew(place *at, gd_executor expected)
{
    gd_ctx *ctx = compiling_context(at, NULL);
    ask(at, ctx, expected);
    end_context(ctx, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
