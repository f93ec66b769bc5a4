/* The cache of the run-time compiler is private, survives damage, two processes, killed ones and its limits. */
#define _GNU_SOURCE /* dladdr */
#include "base/kernel_cache.h"
#include "program/compile_support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

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

/* Opening it to read waits for whoever writes. */
static void replace_by_fifo(const char *path)
{
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
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
    static void (*const damages[])(const char *) = {replace_by_fifo, flip_a_byte,      cut_short,
                                                    make_empty,      let_others_write, replace_by_link,
                                                    write_nonsense,  replace_by_folder};
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
    int32_t above = add_op(at->p, GD_I_gt, x, add_const(at->p, limit), -1);
    at->p->array[from].store = add_op(at->p, GD_I_where, above, add_op(at->p, GD_I_add, x, x, -1), x);
    gd__program_pass(at->p, 0, &at->pass);
    gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
    assert_true(fn != NULL);
    double value = 1e200;
    fn(0, 1, (char *[]){(char *)&value}, NULL, NULL);
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
        for (int more = 0; more < k; more++) x = add_op(at->p, GD_I_add, x, add_const(at->p, 1), -1);
        at->p->array[from].store = x;
        gd__program_pass(at->p, 0, &at->pass);
        gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
        if (!fn) fail_msg("%s", gd__kernel_trouble(ctx));
        fn(0, 1, (char *[]){(char *)&value[k]}, NULL, NULL);
        assert_float_equal(value[k], k, 0);
    }
    end_context(ctx, NULL);
}

#define SEVERAL 5

/* Programs that add 0, 1, ..., some of them to values of erf, in both dtypes. */
static void make_several(gd_ctx *ctx, gd_program *list, gd_pass *pass, gd_kernel_wish *wish)
{
    for (int k = 0; k < SEVERAL; k++) {
        gd_dtype dtype = k % 2 ? GD_F32 : GD_F64;
        list[k] = (gd_program){.ctx = ctx, .compute = dtype, .eager = true};
        int32_t from = add_array(&list[k], dtype), x = add_load(&list[k], from);
        if (k > 2) x = add_op(&list[k], GD_I_erf, x, -1, -1);
        list[k].array[from].store = add_op(&list[k], GD_I_add, x, add_const(&list[k], k), -1);
        gd__program_pass(&list[k], 0, &pass[k]);
        wish[k] = (gd_kernel_wish){&list[k], &pass[k], NULL};
    }
}

/* How many kernels there are; each computes what the interpreter does. */
static int good_kernels(const gd_kernel_wish *wish)
{
    int good = 0;
    for (int k = 0; k < SEVERAL; k++) {
        double twice[2] = {0.3, 0.3};
        float single[2] = {0.3F, 0.3F};
        for (int way = 0; way < 2 && wish[k].fn; way++) {
            char *at[] = {k % 2 ? (char *)&single[way] : (char *)&twice[way]};
            if (way)
                wish[k].fn(0, 1, at, NULL, NULL);
            else
                gd__interpret(wish[k].p, wish[k].pass, 0, 1, at, NULL, NULL);
        }
        assert_int_equal(memcmp(&twice[0], &twice[1], sizeof *twice), 0);
        assert_int_equal(memcmp(&single[0], &single[1], sizeof *single), 0);
        good += wish[k].fn != NULL;
    }
    return good;
}

static void several_kernels_take_one_call_of_the_compiler(void **state)
{
    place *at = *state;
    gd_program *list = calloc(SEVERAL, sizeof *list);
    gd_pass *pass = calloc(SEVERAL, sizeof *pass);
    gd_kernel_wish wish[SEVERAL];
    for (int round = 0; round < 3;
         round++) { /* compiled, then from disk, and again where the file is damaged */
        gd_ctx *ctx = compiling_context(at, NULL);
        char file[512];
        make_several(ctx, list, pass, wish);
        gd__kernels_for(ctx, wish, SEVERAL, round == 1);
        assert_int_equal(good_kernels(wish), SEVERAL);
        gd_kernel_fn before = wish[3].fn;
        gd__kernels_for(ctx, wish, SEVERAL, false); /* in memory */
        assert_true(wish[3].fn == before);
        assert_int_equal(count_files(at->cache, "gd-", file, sizeof file), 1);
        assert_int_equal(runs(at), round == 2 ? 2 : 1);
        if (round == 1) flip_a_byte(file);
        end_context(ctx, NULL);
    }
    free(list);
    free(pass);
}

/* Then each is tried alone. */
static void one_kernel_that_fails_takes_no_others_with_it(void **state)
{
    place *at = *state;
    gd_program *list = calloc(SEVERAL, sizeof *list);
    gd_pass *pass = calloc(SEVERAL, sizeof *pass);
    gd_kernel_wish wish[SEVERAL];
    set_compiler(
        at, "for f; do case $f in *.c) grep -q gd_kernel1 \"$f\" && exit 1;; esac; done\nexec cc \"$@\"");
    gd_ctx *ctx = compiling_context(at, NULL);
    make_several(ctx, list, pass, wish);
    gd__kernels_for(ctx, wish, SEVERAL, true);
    assert_int_equal(good_kernels(wish), 0);
    assert_int_equal(runs(at), 0);
    gd__kernels_for(ctx, wish, SEVERAL, false);
    assert_int_equal(good_kernels(wish), SEVERAL);
    assert_int_equal(runs(at), 1 + SEVERAL);
    end_context(ctx, NULL);
    for (int64_t n = 1;; n++) { /* without memory they are interpreted */
        memory m = {.fail_at = n};
        gd_options options = gd_options_default();
        options.cache_dir = at->cache;
        options.compiler = at->compiler;
        options.isa = "none";
        options.threads = 1;
        options.pool = false;
        options.allocator = memory_allocator(&m);
        if (!(ctx = gd_ctx_new(&options))) continue;
        make_several(ctx, list, pass, wish);
        gd__kernels_for(ctx, wish, SEVERAL, false);
        assert_no_error(ctx);
        (void)good_kernels(wish);
        bool failed = m.failed;
        end_context(ctx, &m);
        if (!failed) break;
    }
    free(list);
    free(pass);
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

int main(void)
{
    unsetenv("GRADUS_CC");
    unsetenv("GRADUS_CACHE");
    unsetenv("XDG_CACHE_HOME");
    const struct CMUnitTest tests[] = {
        TEST(a_program_is_compiled_once),
        TEST(the_cache_is_private),
        TEST(the_sealed_file_of_another_program_is_recognised),
        TEST(what_is_loaded_is_the_copy_that_was_checked),
        TEST(kernels_loaded_one_after_the_other_are_not_mixed_up),
        TEST(several_kernels_take_one_call_of_the_compiler),
        TEST(one_kernel_that_fails_takes_no_others_with_it),
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
