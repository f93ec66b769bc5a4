/* Durable writes and bounded reads, without tensors. */
#include "file_support.h"
#include "module/file.h"

#include <fcntl.h>

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
    /* folder and file opened, two writes, sync, close, rename, sync of the folder, close */
    assert_string_equal(f.log, "oowwscnsc");
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
        gd_ctx_free(ctx);
        assert_int_equal(m.bytes, 0);
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
        gd_ctx_free(ctx);
        assert_int_equal(m.bytes, 0);
    }
}

static void no_memory_at_any_allocation_is_reported(void **state)
{
    (void)state;
    const char *path = in_folder("memory");
    for (int k = 1, done = 0; !done; k++) {
        memory m = {0};
        gd_ctx *ctx = make_ctx(NULL, &m);
        m.calls = 0;
        m.at = k;
        void *data = NULL;
        size_t size = 0;
        gd_status status = save(ctx, path);
        if (!status) status = gd__file_read_all(ctx, path, 1000, &data, &size);
        if (status) expect_error(ctx, GD_NOMEM, "out of memory");
        gd__free(ctx, data, size);
        done = m.calls < k;
        gd_ctx_free(ctx);
        assert_int_equal(m.bytes, 0);
        assert_int_equal(temporary_files(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_file_is_there_and_no_temporary_one),
        cmocka_unit_test(a_save_syncs_the_file_before_and_the_folder_after_the_rename),
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
    return cmocka_run_group_tests_name("module/file", tests, make_folder, remove_folder);
}
