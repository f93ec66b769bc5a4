/* Durable writes and bounded reads, without tensors. */
#include "file_support.h"
#include "file/file_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

static const char old_text[] = "what was there before";
static const char new_text[] = "what is to be there afterwards, a little longer";

/* Writes new_text in three pieces. */
static gd_status save(gd_ctx *ctx, const char *path)
{
    gd_file_writer w;
    gd_status status = gd__file_create(ctx, path, &w);
    if (status) return status;
    status = gd__file_write(&w, new_text, 10);
    if (!status) status = gd__file_write(&w, new_text + 10, 0);
    if (!status) status = gd__file_write(&w, new_text + 10, strlen(new_text) - 10);
    if (!status) return gd__file_commit(&w);
    gd__file_discard(&w);
    return status;
}

static bool holds(const char *path, const char *text)
{
    size_t size;
    unsigned char *data = get_file(path, &size);
    bool same = size == strlen(text) && memcmp(data, text, size) == 0;
    free(data);
    return same;
}

static void a_saved_file_is_there_and_no_temporary_one(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    const char *path = in_folder("plain");
    assert_int_equal(save(ctx, path), GD_OK);
    assert_true(holds(path, new_text));
    assert_int_equal(temporary_files(), 0);
    gd_ctx_free(ctx);
}

static void a_save_syncs_the_file_before_and_the_folder_after_the_rename(void **state)
{
    (void)state;
    faults f = {0};
    gd_file_ops files = faulty_files(&f);
    gd_ctx *ctx = make_ctx(&files, NULL);
    assert_int_equal(save(ctx, in_folder("order")), GD_OK);
    /* folder and file opened, two writes, sync, rename under the lock, close, sync of the folder, close */
    assert_string_equal(f.log, "oowwsncsc");
    assert_int_equal(f.open, 0);
    gd_ctx_free(ctx);
}

static void a_discarded_file_leaves_the_old_one(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    const char *path = in_folder("discarded");
    put_file(path, old_text, strlen(old_text));
    gd_file_writer w;
    assert_int_equal(gd__file_create(ctx, path, &w), GD_OK);
    assert_int_equal(gd__file_write(&w, new_text, 5), GD_OK);
    gd__file_discard(&w);
    gd__file_discard(&w);
    assert_true(holds(path, old_text));
    assert_int_equal(temporary_files(), 0);
    gd_ctx_free(ctx);
}

static mode_t mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

static void a_replaced_file_keeps_its_permissions(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    const char *path = in_folder("secret");
    static const mode_t modes[] = {0600, 0640, 0444, 0755};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        unlink(path);
        put_file(path, old_text, strlen(old_text));
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(save(ctx, path), GD_OK);
        assert_true(holds(path, new_text));
        assert_int_equal(mode_of(path), modes[i]);
    }
    gd_ctx_free(ctx);
}

/* Links in a row, relative and absolute, to a file that is there and to one that is not. */
static void a_symbolic_link_is_followed(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    const char *file = in_folder("file"), *near = in_folder("near"), *far = in_folder("far");
    assert_int_equal(symlink("file", near) | symlink(near, far), 0);
    for (int there = 0; there < 2; there++) {
        if (there) put_file(file, old_text, strlen(old_text));
        assert_int_equal(save(ctx, far), GD_OK);
        struct stat info;
        assert_int_equal(lstat(near, &info), 0);
        assert_true(S_ISLNK(info.st_mode));
        assert_int_equal(lstat(far, &info), 0);
        assert_true(S_ISLNK(info.st_mode));
        assert_int_equal(lstat(file, &info), 0);
        assert_true(S_ISREG(info.st_mode));
        assert_true(holds(file, new_text));
    }
    const char *circle = in_folder("circle");
    assert_int_equal(symlink("circle", circle), 0);
    assert_int_equal(save(ctx, circle), GD_IO);
    expect_error(ctx, GD_IO, "cannot follow it");
    assert_int_equal(temporary_files(), 0);
    gd_ctx_free(ctx);
}

static void what_is_no_regular_file_is_not_replaced(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    const char *pipe = in_folder("no_file");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(save(ctx, pipe), GD_IO);
    expect_error(ctx, GD_IO, "not regular");
    struct stat info;
    assert_int_equal(lstat(pipe, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    gd_ctx_free(ctx);
}

/* The number of a process that has ended. */
static long dead_process(void)
{
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return (long)child;
}

static void a_save_removes_what_dead_processes_left(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    char left[128], held[128], live[128];
    long dead = dead_process();
    snprintf(left, sizeof left, "%s/.gradus-%ld-0-0123456789abcdef.tmp", test_folder, dead);
    snprintf(held, sizeof held, "%s/.gradus-%ld-1-0123456789abcdef.tmp", test_folder, dead);
    snprintf(live, sizeof live, "%s/.gradus-%ld-0-0123456789abcdef.tmp", test_folder, (long)getpid());
    const char *other = in_folder(".gradus-notes.tmp");
    put_file(left, "x", 1);
    put_file(held, "x", 1);
    put_file(live, "x", 1);
    put_file(other, "x", 1);
    /* the same number on another machine: its process holds the lock */
    int fd = open(held, O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_int_equal(save(ctx, in_folder("saved")), GD_OK);
    assert_int_not_equal(access(left, F_OK), 0);
    assert_int_equal(access(held, F_OK) | access(live, F_OK) | access(other, F_OK), 0);
    close(fd);
    assert_int_equal(save(ctx, in_folder("saved")), GD_OK);
    assert_int_not_equal(access(held, F_OK), 0);
    assert_int_equal(access(live, F_OK) | access(other, F_OK), 0);
    temporary_files();
    gd_ctx_free(ctx);
}

/* A process that is killed in the middle of a save leaves its file locked only as long as it lives. */
static void a_killed_save_leaves_nothing_for_long(void **state)
{
    (void)state;
    const char *path = in_folder("killed");
    pid_t child = fork();
    if (child == 0) {
        gd_ctx *ctx = make_ctx(NULL, NULL);
        gd_file_writer w;
        if (gd__file_create(ctx, path, &w) || gd__file_write(&w, new_text, 5)) _exit(1);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    gd_ctx *ctx = make_ctx(NULL, NULL);
    assert_int_equal(save(ctx, path), GD_OK);
    assert_int_equal(temporary_files(), 0);
    gd_ctx_free(ctx);
}

/* Fails call k = 1, 2, ... until a save makes fewer than k calls. */
static void fail_each_call(int error, bool lasting)
{
    const char *path = in_folder("faults");
    int saved = 0;
    for (int k = 1; !saved; k++) {
        assert_true(k < 100);
        faults f = {.at = k, .error = error, .lasting = lasting};
        gd_file_ops files = faulty_files(&f);
        memory m = {0};
        gd_ctx *ctx = make_ctx(&files, &m);
        put_file(path, old_text, strlen(old_text));
        gd_status status = save(ctx, path);
        assert_int_equal(f.open, 0);
        if (status) {
            assert_int_equal(status, GD_IO);
            assert_non_null(strstr(gd_error_text(ctx), path));
            assert_non_null(strstr(gd_error_text(ctx), strerror(error)));
        } else
            saved = f.calls < k;
        /* once renamed the new file is complete, even if it is not known to be durable */
        bool renamed = strstr(gd_error_text(ctx), "durable") != NULL;
        assert_true(holds(path, status && !renamed ? old_text : new_text));
        if (!lasting) assert_int_equal(temporary_files(), 0);
        end_context(ctx, &m);
    }
    temporary_files();
}

static void an_error_at_any_call_leaves_a_complete_file_and_no_temporary_one(void **state)
{
    (void)state;
    fail_each_call(ENOSPC, false);
    fail_each_call(EIO, false);
}

static void an_error_that_lasts_leaves_a_complete_file(void **state)
{
    (void)state;
    fail_each_call(ENOSPC, true);
    fail_each_call(EIO, true);
}

static void interruptions_and_partial_writes_are_no_errors(void **state)
{
    (void)state;
    const char *path = in_folder("partial");
    static const int errors[] = {EINTR, 0};
    for (int i = 0; i < 2; i++) {
        for (int k = 1; k < 20; k++) {
            faults f = {.at = k, .error = errors[i], .lasting = errors[i] == 0};
            gd_file_ops files = faulty_files(&f);
            gd_ctx *ctx = make_ctx(&files, NULL);
            assert_int_equal(save(ctx, path), GD_OK);
            assert_true(holds(path, new_text));
            f.calls = 0;
            void *data;
            size_t size;
            assert_int_equal(gd__file_read_all(ctx, path, 1000, &data, &size), GD_OK);
            assert_int_equal(size, strlen(new_text));
            assert_memory_equal(data, new_text, size);
            gd__free(ctx, data, size);
            assert_int_equal(f.open, 0);
            gd_ctx_free(ctx);
        }
    }
}

static int taken; /* how many names are said to exist */

static int open_taken(void *user, const char *path, int flags, unsigned mode)
{
    if ((flags & O_EXCL) && taken-- > 0) {
        errno = EEXIST;
        return -1;
    }
    return gd__posix_files.open(user, path, flags, mode);
}

static void a_temporary_name_that_exists_is_passed_over(void **state)
{
    (void)state;
    gd_file_ops files = gd__posix_files;
    files.open = open_taken;
    gd_ctx *ctx = make_ctx(&files, NULL);
    taken = 5;
    assert_int_equal(save(ctx, in_folder("taken")), GD_OK);
    assert_true(holds(in_folder("taken"), new_text));
    taken = 1000;
    assert_int_equal(save(ctx, in_folder("taken")), GD_IO);
    expect_error(ctx, GD_IO, "temporary file beside it: File exists");
    gd_ctx_free(ctx);
}

static int sync_invalid(void *user, int fd)
{
    (void)user, (void)fd;
    errno = EINVAL;
    return -1;
}

static void an_unsyncable_file_is_an_error(void **state)
{
    (void)state;
    gd_file_ops files = gd__posix_files;
    files.sync = sync_invalid;
    gd_ctx *ctx = make_ctx(&files, NULL);
    assert_int_equal(save(ctx, in_folder("unsynced")), GD_IO);
    expect_error(ctx, GD_IO, "Invalid argument");
    gd_ctx_free(ctx);
}

static void the_longest_file_name_can_be_saved(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    assert_int_equal(save(ctx, in_folder(name)), GD_OK);
    assert_true(holds(in_folder(name), new_text));
    gd_ctx_free(ctx);
}

static void a_path_without_a_folder_is_beside_the_caller(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(test_folder), 0);
    assert_int_equal(save(ctx, "bare"), GD_OK);
    assert_int_equal(chdir(before), 0);
    assert_true(holds(in_folder("bare"), new_text));
    gd_ctx_free(ctx);
}

static void a_save_that_cannot_be_says_why(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    assert_int_equal(save(ctx, ""), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "save: no path given");
    assert_int_equal(save(ctx, NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "save: no path given");
    assert_int_equal(save(ctx, in_folder("nowhere/file")), GD_IO);
    expect_error(ctx, GD_IO, "nowhere/file': cannot open its folder: No such file or directory");
    assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
    assert_int_equal(save(ctx, in_folder("sub")), GD_IO);
    expect_error(ctx, GD_IO, "sub': cannot put the new file in place: Is a directory");
    assert_int_equal(temporary_files(), 0);
    gd_ctx_free(ctx);
}

static void a_read_that_cannot_be_says_why(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    void *data;
    size_t size;
    assert_int_equal(gd__file_read_all(ctx, NULL, 9, &data, &size), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "load: no path given");
    assert_int_equal(gd__file_read_all(ctx, in_folder("missing"), 9, &data, &size), GD_IO);
    expect_error(ctx, GD_IO, "missing': cannot open: No such file or directory");
    assert_int_equal(gd__file_read_all(ctx, test_folder, 1 << 20, &data, &size), GD_IO);
    expect_error(ctx, GD_IO, "cannot read: Is a directory");
    put_file(in_folder("ten"), "0123456789", 10);
    assert_int_equal(gd__file_read_all(ctx, in_folder("ten"), 9, &data, &size), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "10 bytes, at most 9 are read");
    assert_null(data);
    gd_ctx_free(ctx);
}

static void a_pipe_is_not_waited_for(void **state)
{
    (void)state;
    gd_ctx *ctx = make_ctx(NULL, NULL);
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    gd_file_reader reader;
    assert_int_equal(gd__file_open(ctx, in_folder("pipe"), 100, &reader), GD_OK);
    char byte;
    assert_int_equal(gd__file_read(&reader, &byte, 1), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "the file ends at byte 0, 1 more are needed");
    gd__file_close(&reader);
    gd__file_close(&reader);
    gd_ctx_free(ctx);
}

static int64_t smaller_size(void *user, int fd) { return gd__posix_files.size(user, fd) - 3; }

static int64_t larger_size(void *user, int fd) { return gd__posix_files.size(user, fd) + 3; }

static void a_file_that_grows_or_shrinks_while_it_is_read_is_refused(void **state)
{
    (void)state;
    put_file(in_folder("moving"), "0123456789", 10);
    gd_file_ops files = gd__posix_files;
    void *data;
    size_t size;
    files.size = smaller_size;
    gd_ctx *ctx = make_ctx(&files, NULL);
    assert_int_equal(gd__file_read_all(ctx, in_folder("moving"), 100, &data, &size), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "bytes follow the end of the data at byte 7");
    gd_ctx_free(ctx);
    files.size = larger_size;
    ctx = make_ctx(&files, NULL);
    assert_int_equal(gd__file_read_all(ctx, in_folder("moving"), 100, &data, &size), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "the file ends at byte 10, 3 more are needed");
    gd_ctx_free(ctx);
}

static void an_error_at_any_call_of_a_read_is_reported(void **state)
{
    (void)state;
    put_file(in_folder("source"), new_text, strlen(new_text));
    for (int k = 1, done = 0; !done; k++) {
        faults f = {.at = k, .error = EIO};
        gd_file_ops files = faulty_files(&f);
        memory m = {0};
        gd_ctx *ctx = make_ctx(&files, &m);
        void *data;
        size_t size;
        gd_status status = gd__file_read_all(ctx, in_folder("source"), 100, &data, &size);
        assert_int_equal(f.open, 0);
        if (status)
            expect_error(ctx, GD_IO, "Input/output error");
        else
            gd__free(ctx, data, size);
        done = f.calls < k;
        end_context(ctx, &m);
    }
}

static void no_memory_at_any_allocation_is_reported(void **state)
{
    (void)state;
    const char *path = in_folder("memory");
    for (int k = 1, done = 0; !done; k++) {
        memory m = {0};
        gd_ctx *ctx = make_ctx(NULL, &m);
        m.fail_at = m.requests + k;
        void *data = NULL;
        size_t size = 0;
        gd_status status = save(ctx, path);
        if (!status) status = gd__file_read_all(ctx, path, 1000, &data, &size);
        if (status) expect_error(ctx, GD_NOMEM, "out of memory");
        gd__free(ctx, data, size);
        done = !m.failed;
        end_context(ctx, &m);
        assert_int_equal(temporary_files(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_file_is_there_and_no_temporary_one),
        cmocka_unit_test(a_save_syncs_the_file_before_and_the_folder_after_the_rename),
        cmocka_unit_test(a_replaced_file_keeps_its_permissions),
        cmocka_unit_test(a_symbolic_link_is_followed),
        cmocka_unit_test(what_is_no_regular_file_is_not_replaced),
        cmocka_unit_test(a_save_removes_what_dead_processes_left),
        cmocka_unit_test(a_killed_save_leaves_nothing_for_long),
        cmocka_unit_test(a_discarded_file_leaves_the_old_one),
        cmocka_unit_test(an_error_at_any_call_leaves_a_complete_file_and_no_temporary_one),
        cmocka_unit_test(an_error_that_lasts_leaves_a_complete_file),
        cmocka_unit_test(interruptions_and_partial_writes_are_no_errors),
        cmocka_unit_test(a_temporary_name_that_exists_is_passed_over),
        cmocka_unit_test(an_unsyncable_file_is_an_error),
        cmocka_unit_test(the_longest_file_name_can_be_saved),
        cmocka_unit_test(a_path_without_a_folder_is_beside_the_caller),
        cmocka_unit_test(a_save_that_cannot_be_says_why),
        cmocka_unit_test(a_read_that_cannot_be_says_why),
        cmocka_unit_test(a_pipe_is_not_waited_for),
        cmocka_unit_test(a_file_that_grows_or_shrinks_while_it_is_read_is_refused),
        cmocka_unit_test(an_error_at_any_call_of_a_read_is_reported),
        cmocka_unit_test(no_memory_at_any_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("file/file", tests, make_folder, remove_folder);
}
