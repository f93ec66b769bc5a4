/* The run-time compiler: its kernels give the interpreter's bits; its cache is private, survives damage, two processes and
 * its limits; whatever is wrong with the compiler, programs are interpreted. */
#define _GNU_SOURCE /* dladdr */
#include "base/kernel_cache.h"
#include "optim/step/optimizer.h"
#include "program/random_program.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- a folder a test, with a compiler that counts its runs ---- */

typedef struct place {
    char home[64];      /* all of this test's files */
    char cache[128];    /* FOLDER/cache folder: a space must not matter */
    char compiler[128]; /* a script around cc */
    char log[128];      /* one line a run */
    gd_program *p;
    gd_pass pass;
} place;

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* The compiler of this test: notes its run, then does `command`. */
static void set_compiler(place *at, const char *command)
{
    char text[512];
    snprintf(text, sizeof text, "#!/bin/sh\necho run >> '%s'\n%s\n", at->log, command);
    write_file(at->compiler, text, 0700);
}

static int runs(const place *at)
{
    FILE *file = fopen(at->log, "r");
    int lines = 0;
    for (int c; file && (c = fgetc(file)) != EOF;) lines += c == '\n';
    if (file) fclose(file);
    return lines;
}

static int set_up(void **state)
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

static void remove_tree(const char *path)
{
    char below[512];
    DIR *dir = opendir(path);
    struct stat s;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (lstat(below, &s) == 0 && S_ISDIR(s.st_mode))
            remove_tree(below);
        else
            unlink(below);
    }
    if (dir) closedir(dir);
    rmdir(path);
}

static int tear_down(void **state)
{
    place *at = *state;
    remove_tree(at->home);
    unsetenv("TMPDIR");
    free(at->p);
    free(at);
    return 0;
}

/* How many files of a folder begin with `start`; `found` is the path of one of them. */
static int count_files(const char *folder, const char *start, char *found, size_t size)
{
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, start, strlen(start)) != 0) continue;
        if (found) snprintf(found, size, "%s/%s", folder, entry->d_name);
        count++;
    }
    if (dir) closedir(dir);
    return count;
}

static gd_ctx *compiling_context(const place *at, memory *m)
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
static gd_kernel_fn ask(place *at, gd_ctx *ctx, gd_executor expected)
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
static void ask_anew(place *at, gd_executor expected)
{
    gd_ctx *ctx = compiling_context(at, NULL);
    ask(at, ctx, expected);
    end_context(ctx, NULL);
}

/* ---- the same bits ---- */

static void compare_with_interpreter(gd_ctx *ctx, const gd_program *p, uint64_t seed)
{
    static const int64_t lengths[] = {0, 1, 7, 15, 16, 17, 1000, 100003};
    gd_kernel_fn kernel[GD_MAX_REDUCTIONS + 1];
    assert_int_equal(gd__program_verify(p), GD_OK);
    for (int level = 0; level <= p->levels; level++) {
        gd_pass pass;
        gd_executor how;
        gd__program_pass(p, level, &pass);
        kernel[level] = gd__kernel_for(ctx, p, &pass, &how);
        if (!kernel[level]) fail_msg("seed %llu: %s", (unsigned long long)seed, gd__kernel_trouble(ctx));
    }
    uint64_t s = seed;
    double input[GD_MAX_UNIFORMS];
    for (int u = 0; u < p->uniforms; u++) input[u] = random_number(&s);
    for (int i = 0; i < COUNT_OF(lengths); i++) {
        tensors a = make_tensors(p, lengths[i], seed), b = make_tensors(p, lengths[i], seed);
        double want[GD_MAX_REDUCTIONS] = {0}, got[GD_MAX_REDUCTIONS] = {0};
        run_program(p, NULL, &a, input, want);
        run_program(p, kernel, &b, input, got);
        bool same = same_tensors(p, &a, &b);
        for (int r = 0; r < p->reductions; r++) same = same && same_number(want[r], got[r]);
        if (!same) fail_msg("seed %llu, %lld elements", (unsigned long long)seed, (long long)lengths[i]);
        free_tensors(&a);
        free_tensors(&b);
    }
}

static void compiled_programs_give_the_bits_of_the_interpreter(void **state)
{
    place *at = *state;
    static const gd_dtype states[] = {GD_F32, GD_BF16, GD_F16, GD_F64};
    gd_ctx *ctx = compiling_context(at, NULL);
    for (int i = 0; i < COUNT_OF(states); i++) {
        make_adamw(at->p, ctx, i == 3 ? GD_F64 : GD_F32, states[i], true);
        compare_with_interpreter(ctx, at->p, (uint64_t)i);
    }
    const char *more = getenv("GD_TEST_PROGRAMS"); /* for a long run */
    int programs = more ? atoi(more) : 10;
    for (int seed = 0; seed < programs; seed++) {
        uint64_t s = (uint64_t)seed;
        make_random(at->p, ctx, &s, 15 + pick(&s, 40));
        compare_with_interpreter(ctx, at->p, (uint64_t)seed);
    }
    end_context(ctx, NULL);
}

static void every_instruction_compiles_to_the_bits_of_the_interpreter(void **state)
{
    place *at = *state;
    gd_ctx *ctx = compiling_context(at, NULL);
    for (int type = 0; type < 2; type++) {
        gd_dtype compute = type ? GD_F64 : GD_F32;
        gd_program *p = at->p;
        *p = (gd_program){.ctx = ctx, .compute = compute};
        int32_t x[3];
        for (int k = 0; k < 3; k++) x[k] = add_load(p, add_array(p, compute));
        for (int op = GD_I_NEG; op < GD_I_SUM; op++) {
            int n = gd__opcode_operands((unsigned)op);
            int32_t out = p->arrays < GD_MAX_ARRAYS ? add_array(p, compute) : 0;
            p->array[out].store = add_op(p, (gd_opcode)op, x[0], n > 1 ? x[1] : -1, n > 2 ? x[2] : -1);
        }
        compare_with_interpreter(ctx, p, 7);
    }
    end_context(ctx, NULL);
}

static void clang_gives_the_same_bits(void **state)
{
    place *at = *state;
    set_compiler(at, "exec clang \"$@\"");
    if (system("command -v clang > /dev/null 2>&1")) skip();
    gd_ctx *ctx = compiling_context(at, NULL);
    make_adamw(at->p, ctx, GD_F32, GD_BF16, true);
    compare_with_interpreter(ctx, at->p, 1);
    for (uint64_t seed = 100; seed < 103; seed++) {
        uint64_t s = seed;
        make_random(at->p, ctx, &s, 40);
        compare_with_interpreter(ctx, at->p, seed);
    }
    end_context(ctx, NULL);
}

/* ---- caches ---- */

static void a_program_is_compiled_once(void **state)
{
    place *at = *state;
    gd_ctx *ctx = compiling_context(at, NULL);
    gd_kernel_fn first = ask(at, ctx, GD_EXEC_COMPILED);
    assert_true(ask(at, ctx, GD_EXEC_COMPILED) == first);
    assert_int_equal(runs(at), 1);
    end_context(ctx, NULL);
    ask_anew(at, GD_EXEC_COMPILED); /* from disk */
    assert_int_equal(runs(at), 1);
    assert_int_equal(count_files(at->cache, "", NULL, 0), 1);
    set_compiler(at, "exec cc -g \"$@\""); /* another compiler */
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(runs(at), 2);
}

static void the_cache_is_private(void **state)
{
    place *at = *state;
    struct stat s;
    char file[512];
    mode_t old = umask(0);
    ask_anew(at, GD_EXEC_COMPILED);
    umask(old);
    assert_int_equal(stat(at->cache, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    assert_int_equal(count_files(at->cache, "gd-", file, sizeof file), 1);
    assert_int_equal(stat(file, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(count_files(at->cache, "", NULL, 0), 1); /* no source, nothing half made */
}

static void flip_a_byte(const char *path)
{
    int fd = open(path, O_RDWR);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, 4000), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 4000), 1);
    close(fd);
}

static void cut_short(const char *path) { assert_int_equal(truncate(path, 5000), 0); }
static void make_empty(const char *path) { assert_int_equal(truncate(path, 0), 0); }
static void let_others_write(const char *path) { assert_int_equal(chmod(path, 0622), 0); }

static void replace_by_link(const char *path)
{
    char other[600];
    snprintf(other, sizeof other, "%s.other", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
}

static void replace_by_folder(const char *path)
{
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* The key is in the name: gd- and two numbers of sixteen digits. */
static gd_digest key_of(const char *name)
{
    unsigned long long a, b;
    assert_int_equal(sscanf(name, "gd-%16llx%16llx", &a, &b), 2);
    return (gd_digest){a, b};
}

/* A file of the cache whose folder and name are `path`. */
static bool is_intact(const char *path)
{
    char folder[512];
    const char *name = strrchr(path, '/') + 1;
    snprintf(folder, sizeof folder, "%.*s", (int)(name - 1 - path), path);
    gd_cache cache = {.fd = open(folder, O_RDONLY | O_DIRECTORY)};
    gd_digest key = key_of(name);
    int copy = gd__cache_copy(&cache, name, &key);
    if (copy >= 0) close(copy);
    gd__cache_close(&cache);
    return copy >= 0;
}

static void seal_file(const char *path, const char *name)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    gd_cache cache = {.fd = open(folder, O_RDONLY | O_DIRECTORY)};
    gd_digest key = key_of(name);
    assert_true(gd__cache_seal(&cache, strrchr(path, '/') + 1, &key));
    gd__cache_close(&cache);
}

static void write_nonsense(const char *path)
{
    write_file(path, "not a shared object", 0600);
    seal_file(path, strrchr(path, '/') + 1); /* that fits */
    assert_true(is_intact(path));
}

static void damaged_files_are_compiled_again(void **state)
{
    place *at = *state;
    static void (*const damages[])(const char *) = {flip_a_byte,      cut_short,       make_empty,
                                                    let_others_write, replace_by_link, write_nonsense,
                                                    replace_by_folder};
    char file[512];
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(at->cache, "gd-", file, sizeof file), 1);
    for (int i = 0; i < COUNT_OF(damages); i++) {
        damages[i](file);
        ask_anew(at, GD_EXEC_COMPILED);
        assert_int_equal(runs(at), i + 2);
        if (damages[i] != replace_by_folder) assert_true(is_intact(file));
    }
}

/* The last value doubled where it is above `limit`: one program a limit, all of them the same on small numbers. */
static bool ask_limited(place *at, double limit, const char *name, char *file, size_t size)
{
    gd_ctx *ctx = compiling_context(at, NULL);
    gd_executor how;
    *at->p = (gd_program){.ctx = ctx, .compute = GD_F64};
    int32_t from = add_array(at->p, GD_F64), x = add_load(at->p, from);
    int32_t above = add_op(at->p, GD_I_GT, x, add_const(at->p, limit), -1);
    at->p->array[from].store = add_op(at->p, GD_I_WHERE, above, add_op(at->p, GD_I_ADD, x, x, -1), x);
    gd__program_pass(at->p, 0, &at->pass);
    gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
    assert_true(fn != NULL);
    double value = 1e200;
    fn(1, (char *[]){(char *)&value}, NULL, NULL);
    end_context(ctx, NULL);
    if (name) assert_int_equal(count_files(at->cache, name, file, size), 1);
    return value > 1e200;
}

/* The kernel of another program under this one's name, sealed as its own: it agrees with the interpreter on what is
 * tried before it is used. */
static void the_sealed_file_of_another_program_is_recognised(void **state)
{
    place *at = *state;
    char ours[512], other[512], aside[512];
    assert_true(ask_limited(at, 1e100, "gd-", ours, sizeof ours));
    snprintf(aside, sizeof aside, "%s/aside.so", at->home);
    assert_int_equal(rename(ours, aside), 0);
    assert_false(ask_limited(at, 1e300, "gd-", other, sizeof other));
    assert_int_equal(rename(other, ours), 0);
    assert_int_equal(runs(at), 2);
    assert_true(ask_limited(at, 1e100, NULL, NULL, 0));
    assert_int_equal(runs(at), 3);
    assert_true(is_intact(ours));
}

/* The kernel of another program, with the seal of this one: what is left is that it computes something else. */
static void a_file_that_computes_something_else_is_compiled_again(void **state)
{
    place *at = *state;
    char file[512], other[512];
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(at->cache, "gd-", file, sizeof file), 1);
    assert_int_equal(unlink(file), 0);
    assert_false(ask_limited(at, 1e300, "gd-", other, sizeof other));
    assert_int_equal(rename(other, file), 0);
    struct stat s;
    assert_int_equal(stat(file, &s), 0);
    assert_int_equal(truncate(file, s.st_size - 48), 0);
    seal_file(file, strrchr(file, '/') + 1);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(runs(at), 3);
}

static void what_is_loaded_is_the_copy_that_was_checked(void **state)
{
    place *at = *state;
    char file[512];
    for (int round = 0; round < 2; round++) { /* just made, then from disk */
        gd_ctx *ctx = compiling_context(at, NULL);
        gd_kernel_fn fn = ask(at, ctx, GD_EXEC_COMPILED);
        Dl_info info;
        void *address;
        memcpy(&address, &fn, sizeof fn);
        assert_true(dladdr(address, &info));
        assert_int_equal(strncmp(info.dli_fname, "/proc/self/fd/", 14), 0);
        assert_int_equal(count_files(at->cache, "gd-", file, sizeof file), 1);
        /* whatever becomes of the file */
        if (round) assert_int_equal(truncate(file, 0), 0);
        assert_true(ask(at, ctx, GD_EXEC_COMPILED) == fn);
        end_context(ctx, NULL);
    }
    assert_int_equal(runs(at), 1);
}

/* Descriptors are used again, and the loader takes a name that it knows for the object it knows. */
static void kernels_loaded_one_after_the_other_are_not_mixed_up(void **state)
{
    place *at = *state;
    gd_ctx *ctx = compiling_context(at, NULL);
    double value[3] = {0};
    for (int k = 0; k < 3; k++) {
        gd_executor how;
        *at->p = (gd_program){.ctx = ctx, .compute = GD_F64};
        int32_t from = add_array(at->p, GD_F64), x = add_load(at->p, from);
        for (int more = 0; more < k; more++) x = add_op(at->p, GD_I_ADD, x, add_const(at->p, 1), -1);
        at->p->array[from].store = x;
        gd__program_pass(at->p, 0, &at->pass);
        gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
        if (!fn) fail_msg("%s", gd__kernel_trouble(ctx));
        fn(1, (char *[]){(char *)&value[k]}, NULL, NULL);
        assert_float_equal(value[k], k, 0);
    }
    end_context(ctx, NULL);
}

static void folders_of_others_are_not_used(void **state)
{
    place *at = *state;
    char tmp[80], real[80];
    snprintf(tmp, sizeof tmp, "%s/tmp", at->home);
    snprintf(real, sizeof real, "%s/real", at->home);
    /* readable by all */
    assert_int_equal(mkdir(at->cache, 0755), 0);
    assert_int_equal(chmod(at->cache, 0755), 0);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(at->cache, "", NULL, 0), 0);
    /* writable by the group */
    assert_int_equal(chmod(at->cache, 0720), 0);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(at->cache, "", NULL, 0), 0);
    /* a link to a good one, with and without a slash at its end */
    assert_int_equal(rmdir(at->cache), 0);
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, at->cache), 0);
    ask_anew(at, GD_EXEC_COMPILED);
    strcat(at->cache, "/");
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(real, "", NULL, 0), 0);
    /* a file */
    at->cache[strlen(at->cache) - 1] = 0;
    assert_int_equal(unlink(at->cache), 0);
    write_file(at->cache, "", 0600);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(runs(at), 5);
    assert_int_equal(count_files(tmp, "", NULL, 0), 0); /* what was compiled aside is gone */
}

static void another_owners_folder_is_not_used(void **state)
{
    place *at = *state;
    assert_int_equal(mkdir(at->cache, 0700), 0);
    if (geteuid() != 0 || chown(at->cache, 12345, 12345)) skip();
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(at->cache, "", NULL, 0), 0);
}

/* ---- the way to the folder ---- */

enum { SOMEBODY = 12345, US = 65534 };

/* A way to the folder: owner and mode of the one above it, and whether that is reached by a link of `link_owner`. */
typedef struct road {
    const char *what;
    uid_t owner;
    mode_t mode;
    int link_owner; /* -1: no link */
    bool good;
} road;

/* In a process of another user, as tests may run as root: does the cache in `folder` get used? */
static bool cache_is_used(place *at, const char *folder)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char path[512];
        if (setgid(US) || setuid(US)) _exit(9);
        assert_true(snprintf(at->cache, sizeof at->cache, "%s/cache", folder) < (int)sizeof at->cache);
        set_compiler(at, "exec cc \"$@\"");
        ask_anew(at, GD_EXEC_COMPILED);
        _exit(count_files(at->cache, "gd-", path, sizeof path) == 1 ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    return WEXITSTATUS(status);
}

static void a_folder_that_somebody_could_put_another_in_place_of_is_not_used(void **state)
{
    place *at = *state;
    static const road roads[] = {
        {"ours", US, 0700, -1, true},
        {"root's", 0, 0755, -1, true},
        {"root's, sticky", 0, 01777, -1, true},
        {"somebody's", SOMEBODY, 0755, -1, false},
        {"somebody's, sticky", SOMEBODY, 01777, -1, false},
        {"ours, writable for all", US, 0777, -1, false},
        {"ours, writable for the group", US, 0770, -1, false},
        {"through root's link", US, 0700, 0, true},
        {"through our link", US, 0700, US, true},
        {"through somebody's link", US, 0700, SOMEBODY, false},
    };
    if (geteuid() != 0) {
        print_message("skipped: folders of other users take root to make\n");
        skip();
    }
    char above[128], cache[160], link[128];
    assert_int_equal(chmod(at->home, 01777), 0); /* as /tmp */
    snprintf(at->compiler, sizeof at->compiler, "%s/another", at->home);
    snprintf(at->log, sizeof at->log, "%s/another log", at->home);
    unsetenv("TMPDIR"); /* it is root's alone */
    for (int i = 0; i < COUNT_OF(roads); i++) {
        const road *w = &roads[i];
        snprintf(above, sizeof above, "%s/above%d", at->home, i);
        snprintf(cache, sizeof cache, "%s/cache", above);
        snprintf(link, sizeof link, "%s/link%d", at->home, i);
        assert_int_equal(mkdir(above, 0700), 0);
        assert_int_equal(mkdir(cache, 0700), 0);
        assert_int_equal(chown(cache, US, US), 0);
        assert_int_equal(chown(above, w->owner, w->owner), 0);
        assert_int_equal(chmod(above, w->mode), 0);
        if (w->link_owner >= 0) {
            assert_int_equal(symlink(above, link), 0);
            assert_int_equal(lchown(link, (uid_t)w->link_owner, (gid_t)w->link_owner), 0);
        }
        bool used = cache_is_used(at, w->link_owner < 0 ? above : link);
        if (used != w->good) fail_msg("%s: %s", w->what, used ? "used" : "not used");
    }
}

static void the_cache_is_where_the_environment_says(void **state)
{
    place *at = *state;
    char folder[160], old_home[512] = "";
    if (getenv("HOME")) snprintf(old_home, sizeof old_home, "%s", getenv("HOME"));
    gd_options options = gd_options_default();
    options.compiler = at->compiler;
    options.isa = "none";
    for (int way = 0; way < 3; way++) {
        if (way == 0) setenv("XDG_CACHE_HOME", at->home, 1);
        if (way == 1) unsetenv("XDG_CACHE_HOME"), setenv("HOME", at->home, 1);
        if (way == 2) unsetenv("HOME"); /* nowhere */
        snprintf(folder, sizeof folder, way ? "%s/.cache/gradus" : "%s/gradus", at->home);
        gd_ctx *ctx = gd_ctx_new(&options);
        ask(at, ctx, GD_EXEC_COMPILED);
        end_context(ctx, NULL);
        assert_int_equal(count_files(folder, "gd-", NULL, 0), 1);
        assert_int_equal(runs(at), way + 1);
    }
    if (*old_home) setenv("HOME", old_home, 1);
}

static void fill_cache(place *at, int files, off_t bytes)
{
    char path[256];
    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof path, "%s/gd-%06d.so", at->cache, i);
        write_file(path, "x", 0600);
        assert_int_equal(truncate(path, bytes), 0);
        struct timespec long_ago[2] = {{.tv_sec = 1000000 + i}, {.tv_sec = 1000000 + i}};
        assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    }
}

static void the_cache_keeps_to_its_number_of_files(void **state)
{
    place *at = *state;
    char path[256];
    assert_int_equal(mkdir(at->cache, 0700), 0);
    fill_cache(at, GD_CACHE_FILES + 7, 10);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(at->cache, "gd-", NULL, 0), GD_CACHE_FILES);
    for (int i = 0; i < 10; i++) { /* eight had to go, the oldest */
        snprintf(path, sizeof path, "%s/gd-%06d.so", at->cache, i);
        assert_int_equal(access(path, F_OK) == 0, i >= 8);
    }
    ask_anew(at, GD_EXEC_COMPILED); /* the new one stayed */
    assert_int_equal(runs(at), 1);
}

static void the_cache_keeps_to_its_size(void **state)
{
    place *at = *state;
    char path[256];
    assert_int_equal(mkdir(at->cache, 0700), 0);
    fill_cache(at, 5, 30 << 20);
    ask_anew(at, GD_EXEC_COMPILED);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/gd-%06d.so", at->cache, i);
        assert_int_equal(access(path, F_OK) == 0, i >= 3);
    }
    assert_int_equal(count_files(at->cache, "gd-", NULL, 0), 3);
}

/* A child whose compiler has written half an object and takes long.  Returns when that is there, in `folder` or one folder
 * below. */
static pid_t start_slow_compile(place *at, const char *folder)
{
    char below[256];
    int before = runs(at);
    set_compiler(at, "while [ \"$1\" != -o ]; do shift; done\necho half > \"$2\"\nexec sleep 3");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ask_anew(at, GD_EXEC_COMPILED);
        _exit(0);
    }
    for (int i = 0; i < 1000; i++) {
        bool passing = count_files(folder, "gradus-kernels-", below, sizeof below) > 0;
        if (runs(at) > before && count_files(passing ? below : folder, "tmp-", NULL, 0) == 2) break;
        usleep(5000);
    }
    usleep(50000); /* the script has become sleep */
    set_compiler(at, "exec cc \"$@\"");
    return child;
}

static void kill_child(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void what_a_killed_process_left_in_the_cache_is_gone_at_the_next_use(void **state)
{
    place *at = *state;
    pid_t child = start_slow_compile(at, at->cache);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(at->cache, "tmp-", NULL, 0), 2); /* it lives: they are not touched */
    kill_child(child);
    ask_anew(at, GD_EXEC_COMPILED); /* only loads */
    assert_int_equal(count_files(at->cache, "tmp-", NULL, 0), 0);
    assert_int_equal(runs(at), 2);
}

static void the_folder_of_a_killed_process_is_gone_at_the_next_use(void **state)
{
    place *at = *state;
    char tmp[80], own[128], note[160];
    assert_int_equal(mkdir(at->cache, 0700), 0);
    assert_int_equal(chmod(at->cache, 0722), 0); /* not to be used */
    snprintf(tmp, sizeof tmp, "%s/tmp", at->home);
    pid_t child = start_slow_compile(at, tmp);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(tmp, "gradus-kernels-", NULL, 0), 1); /* it lives */
    kill_child(child);
    /* a folder of somebody who likes the name */
    snprintf(own, sizeof own, "%s/gradus-kernels-of-mine", tmp);
    snprintf(note, sizeof note, "%s/notes", own);
    assert_int_equal(mkdir(own, 0700), 0);
    write_file(note, "dear diary", 0600);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(count_files(tmp, "gradus-", NULL, 0), 1);
    assert_int_equal(access(note, F_OK), 0);
}

static void two_processes_may_compile_at_once(void **state)
{
    place *at = *state;
    pid_t child[4];
    for (int i = 0; i < COUNT_OF(child); i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i]) continue;
        gd_ctx *ctx = compiling_context(at, NULL);
        bool good = true;
        for (int k = 0; k < 2; k++) {
            gd_executor how;
            make_adamw(at->p, ctx, GD_F32, k ? GD_BF16 : GD_F32, false);
            gd__program_pass(at->p, 0, &at->pass);
            good = good && gd__kernel_for(ctx, at->p, &at->pass, &how) != NULL;
        }
        gd_ctx_free(ctx);
        _exit(good ? 0 : 1);
    }
    for (int i = 0; i < COUNT_OF(child); i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(count_files(at->cache, "", NULL, 0), 2);
    int before = runs(at);
    ask_anew(at, GD_EXEC_COMPILED);
    assert_int_equal(runs(at), before);
}

/* ---- compilers that do not work ---- */

/* Interpreted, with a reason, and the compiler is not tried again. */
static void check_trouble(place *at, const char *text, int expected_runs)
{
    gd_ctx *ctx = compiling_context(at, NULL);
    for (int i = 0; i < 3; i++) {
        ask(at, ctx, GD_EXEC_INTERPRETER);
        if (!strstr(gd__kernel_trouble(ctx), text)) fail_msg("trouble is: %s", gd__kernel_trouble(ctx));
    }
    assert_int_equal(runs(at), expected_runs);
    end_context(ctx, NULL);
    unlink(at->log);
}

static void without_a_compiler_programs_are_interpreted(void **state)
{
    place *at = *state;
    char script[128];
    snprintf(script, sizeof script, "%s", at->compiler);
    snprintf(at->compiler, sizeof at->compiler, "/nonexistent/cc");
    check_trouble(at, "not found", 0);
    snprintf(at->compiler, sizeof at->compiler, "no-such-compiler-anywhere");
    check_trouble(at, "not found", 0);
    snprintf(at->compiler, sizeof at->compiler, "%s", at->home); /* a folder */
    check_trouble(at, "not found", 0);
    snprintf(at->compiler, sizeof at->compiler, "/bin/false");
    check_trouble(at, "failed", 0);
    snprintf(at->compiler, sizeof at->compiler, "/bin/true"); /* makes no file */
    check_trouble(at, "cannot read back", 0);
    snprintf(at->compiler, sizeof at->compiler, "%s", script);
    write_file(at->compiler, "neither a program nor a script", 0700);
    check_trouble(at, "", 0);
    set_compiler(at, "exit 3");
    check_trouble(at, "failed", 1);
    set_compiler(at, "kill -SEGV $$");
    check_trouble(at, "failed", 1);
    /* an object that is none; -o is followed by its name */
    set_compiler(at, "while [ \"$1\" != -o ]; do shift; done; echo rubbish > \"$2\"");
    check_trouble(at, "cannot load", 2); /* in the cache, then aside: the folder might be to blame */
    assert_int_equal(count_files(at->cache, "", NULL, 0), 0);
}

static void a_compiler_that_is_loose_with_numbers_is_refused(void **state)
{
    place *at = *state;
    set_compiler(at, "exec cc \"$@\" -Ofast -mrecip -fno-trapping-math");
    gd_ctx *ctx = compiling_context(at, NULL);
    gd_executor how;
    make_adamw(at->p, ctx, GD_F32, GD_F32, false);
    gd__program_pass(at->p, 0, &at->pass);
    gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
#ifdef __x86_64__
    assert_true(fn == NULL);
    assert_non_null(strstr(gd__kernel_trouble(ctx), "something else"));
#else
    (void)fn;
#endif
    end_context(ctx, NULL);
}

static void compiling_can_be_switched_off(void **state)
{
    place *at = *state;
    gd_options options = gd_options_default();
    options.isa = "none";
    options.compile = false;
    options.compiler = at->compiler;
    gd_ctx *ctx = gd_ctx_new(&options);
    ask(at, ctx, GD_EXEC_INTERPRETER);
    assert_string_equal(gd__kernel_trouble(ctx), "compiling is switched off");
    end_context(ctx, NULL);
    options.compile = true;
    options.compiler = NULL;
    setenv("GRADUS_CC", "", 1);
    ctx = gd_ctx_new(&options);
    ask(at, ctx, GD_EXEC_INTERPRETER);
    end_context(ctx, NULL);
    setenv("GRADUS_CC", at->compiler, 1);
    ctx = gd_ctx_new(&options);
    assert_string_equal(gd__kernel_trouble(ctx), "");
    ctx->compile = true;
    options.cache_dir = at->cache;
    end_context(ctx, NULL);
    ctx = gd_ctx_new(&options);
    ask(at, ctx, GD_EXEC_COMPILED);
    end_context(ctx, NULL);
    unsetenv("GRADUS_CC");
    assert_int_equal(runs(at), 1);
}

static void a_program_that_ignores_its_children_can_compile(void **state)
{
    place *at = *state;
    signal(SIGCHLD, SIG_IGN);
    ask_anew(at, GD_EXEC_COMPILED);
    set_compiler(at, "exit 1");
    ask_anew(at, GD_EXEC_INTERPRETER);
    signal(SIGCHLD, SIG_DFL);
}

/* ---- built in ---- */

static gd_status check_builtin(void *user, const gd_program *p, const gd_pass *pass)
{
    gd_executor how;
    gd_kernel_fn fn = gd__kernel_for(p->ctx, p, pass, &how);
    if (!fn || how != GD_EXEC_BUILT_IN) fail_msg("not built in: %s", (const char *)user);
    return GD_OK;
}

static void chains_of_the_list_are_built_in(void **state)
{
    (void)state;
    static const char *const isas[] = {"base", "avx2", "avx512"};
    for (int k = 0; k < COUNT_OF(isas); k++) {
        gd_options options = gd_options_default();
        options.isa = isas[k];
        options.compile = false;
        gd_ctx *ctx = gd_ctx_new(&options);
        FILE *file = fopen(GD_TEST_DIR "/../src/optim/plan/builtin.def", "r");
        assert_non_null(file);
        char line[1024];
        while (fgets(line, sizeof line, file)) {
            line[strcspn(line, "\n")] = 0;
            char *chain = strchr(line, ' ');
            if (!chain || *line == '#') continue;
            if (strstr(line, "f32")) (void)gd__plan_programs(ctx, chain, GD_F32, check_builtin, line);
            if (strstr(line, "f64")) (void)gd__plan_programs(ctx, chain, GD_F64, check_builtin, line);
            assert_no_error(ctx);
        }
        fclose(file);
        end_context(ctx, NULL);
    }
}

/* ---- memory ---- */

static void every_allocation_may_fail(void **state)
{
    place *at = *state;
    ask_anew(at, GD_EXEC_COMPILED);
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *ctx = compiling_context(at, &m);
        gd_executor how;
        make_adamw(at->p, ctx, GD_F32, GD_F32, false);
        gd__program_pass(at->p, 0, &at->pass);
        m.fail_at = m.requests + k;
        gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
        assert_no_error(ctx);
        assert_true((fn != NULL) == (how == GD_EXEC_COMPILED));
        bool failed = m.failed;
        m.fail_at = 0;
        assert_true(failed == (fn == NULL));
        ask(at, ctx, GD_EXEC_COMPILED); /* with memory, it works */
        end_context(ctx, &m);
        if (!failed) break;
        assert_true(k < 100);
    }
    assert_int_equal(runs(at), 1);
}

static void an_error_from_before_stays(void **state)
{
    place *at = *state;
    memory m = {0};
    gd_ctx *ctx = compiling_context(at, &m);
    gd_executor how;
    make_adamw(at->p, ctx, GD_F32, GD_F32, false);
    gd__program_pass(at->p, 0, &at->pass);
    (void)gd_fail(ctx, GD_SHAPE, "earlier");
    m.fail_at = m.requests + 1;
    assert_true(gd__kernel_for(ctx, at->p, &at->pass, &how) == NULL);
    assert_error(ctx, GD_SHAPE, "earlier");
    end_context(ctx, &m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    unsetenv("GRADUS_CC");
    unsetenv("GRADUS_CACHE");
    unsetenv("XDG_CACHE_HOME");
    const struct CMUnitTest tests[] = {
        TEST(compiled_programs_give_the_bits_of_the_interpreter),
        TEST(every_instruction_compiles_to_the_bits_of_the_interpreter),
        TEST(clang_gives_the_same_bits),
        TEST(a_program_is_compiled_once),
        TEST(the_cache_is_private),
        TEST(the_sealed_file_of_another_program_is_recognised),
        TEST(what_is_loaded_is_the_copy_that_was_checked),
        TEST(kernels_loaded_one_after_the_other_are_not_mixed_up),
        TEST(a_folder_that_somebody_could_put_another_in_place_of_is_not_used),
        TEST(damaged_files_are_compiled_again),
        TEST(a_file_that_computes_something_else_is_compiled_again),
        TEST(folders_of_others_are_not_used),
        TEST(another_owners_folder_is_not_used),
        TEST(the_cache_is_where_the_environment_says),
        TEST(the_cache_keeps_to_its_number_of_files),
        TEST(the_cache_keeps_to_its_size),
        TEST(what_a_killed_process_left_in_the_cache_is_gone_at_the_next_use),
        TEST(the_folder_of_a_killed_process_is_gone_at_the_next_use),
        TEST(two_processes_may_compile_at_once),
        TEST(without_a_compiler_programs_are_interpreted),
        TEST(a_compiler_that_is_loose_with_numbers_is_refused),
        TEST(compiling_can_be_switched_off),
        TEST(a_program_that_ignores_its_children_can_compile),
        TEST(chains_of_the_list_are_built_in),
        TEST(every_allocation_may_fail),
        TEST(an_error_from_before_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
