/* Contexts: errors, warnings, options, memory, interned names, file operations. */
#include "gradus/version.h"
#include "support/support.h"

#include "base/ctx.h"

#include <fcntl.h>
#include <unistd.h>

static void the_library_tells_the_version_of_its_headers(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", GD_VERSION_MAJOR, GD_VERSION_MINOR, GD_VERSION_PATCH);
    assert_string_equal(gd_version(), text);
    assert_string_equal(GD_VERSION, text);
}

static void the_first_error_sticks(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    assert_int_equal(gd_error(ctx), GD_OK);
    assert_string_equal(gd_error_text(ctx), "");
    assert_int_equal(gd_fail(ctx, GD_SHAPE, "first %d", 1), GD_SHAPE);
    assert_int_equal(gd_fail(ctx, GD_DTYPE, "second"), GD_SHAPE);
    assert_int_equal(gd_error(ctx), GD_SHAPE);
    assert_string_equal(gd_error_text(ctx), "first 1");
    gd_clear_error(ctx);
    assert_int_equal(gd_error(ctx), GD_OK);
    assert_string_equal(gd_error_text(ctx), "");
    assert_int_equal(gd_fail(ctx, GD_OK, "nothing"), GD_OK);
    assert_int_equal(gd_error(ctx), GD_OK);
    /* an error without a text of its own has the text of its status */
    const char *empty = "";
    assert_int_equal(gd_fail(ctx, GD_AXIS, "%s", empty), GD_AXIS);
    assert_string_equal(gd_error_text(ctx), "no such axis");
    assert_int_equal(gd_fail(NULL, GD_IO, "no context"), GD_IO);
    end_context(ctx, NULL);
}

static void a_long_error_text_is_cut(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    (void)gd_fail(ctx, GD_VALUE, "%05000d", 7);
    assert_true(strlen(gd_error_text(ctx)) > 500 && strlen(gd_error_text(ctx)) < 2000);
    end_context(ctx, NULL);
}

static void an_operator_after_an_error_still_works_but_null_stays_null(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = VECTOR(ctx, 1, 2), *bad = gd_index(x, "0", 5);
    assert_null(bad);
    assert_null(gd_exp(gd_add(bad, x)));
    assert_null(gd_sum(gd_reshape(gd_neg(bad), 1, (int64_t[]){2}), NULL, false));
    assert_values(gd_add(x, x), 2, 4);
    assert_error(ctx, GD_INDEX, "index: 5 on axis 0 of size 2");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void a_verb_that_fails_after_an_error_returns_the_first_status(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = VECTOR(ctx, 1, 2);
    double values[3] = {0};
    assert_null(gd_index(x, "0", 5));
    assert_int_equal(gd_write_f64(x, values, 3), GD_INDEX);
    assert_int_equal(gd_read_f64(x, values, 3), GD_INDEX);
    assert_int_equal(gd_backward(x, NULL, 0), GD_INDEX);
    assert_int_equal(gd_write_f64(x, values, 2), GD_OK); /* one that succeeds says so */
    assert_error(ctx, GD_INDEX, "index: 5 on axis 0 of size 2");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void every_status_has_a_name(void **state)
{
    (void)state;
#define NAMED(name, text) assert_string_equal(gd_status_name(GD_##name), #name);
    GD_STATUS_LIST(NAMED)
    assert_string_equal(gd_status_name(GD_STATUS_COUNT), "UNKNOWN");
    assert_string_equal(gd_status_name((gd_status)-1), "UNKNOWN");
}

static void remember_warning(void *user, const char *text) { snprintf(user, 64, "%s", text); }

static void warnings_are_counted_and_passed_on(void **state)
{
    (void)state;
    char heard[64] = "";
    gd_options options = gd_options_default();
    options.warn = remember_warning;
    options.warn_user = heard;
    gd_ctx *ctx = gd_ctx_new(&options);
    assert_int_equal(gd_warning_count(ctx), 0);
    gd_warn(ctx, "slow %s", "path");
    gd_warn(ctx, "slower path");
    assert_string_equal(heard, "slower path");
    assert_string_equal(gd_warning_text(ctx), "slower path");
    assert_int_equal(gd_warning_count(ctx), 2);
    assert_int_equal(gd_error(ctx), GD_OK);
    end_context(ctx, NULL);
}

static void threads_come_from_options_or_environment(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 3, NULL);
    assert_int_equal(gd_ctx_threads(ctx), 3);
    end_context(ctx, NULL);
    setenv("GRADUS_THREADS", "5", 1);
    ctx = context(NULL, 0, NULL);
    assert_int_equal(gd_ctx_threads(ctx), 5);
    end_context(ctx, NULL);
    setenv("GRADUS_THREADS", "nonsense", 1);
    ctx = context(NULL, 0, NULL);
    assert_true(gd_ctx_threads(ctx) >= 1);
    end_context(ctx, NULL);
    unsetenv("GRADUS_THREADS");
    gd_ctx_free(NULL);
}

/* ---- memory ---- */

static void blocks_are_aligned_and_reused(void **state)
{
    (void)state;
    gd_options options = gd_options_default();
    options.pool = true;
    gd_ctx *ctx = gd_ctx_new(&options);
    void *block[40];
    for (size_t size = 0; size < 40; size++) {
        block[size] = gd__alloc(ctx, size * size * 10);
        assert_int_equal((uintptr_t)block[size] % 64, 0);
        memset(block[size], 1, size * size * 10);
    }
    for (size_t size = 0; size < 40; size++) gd__free(ctx, block[size], size * size * 10);
    void *again = gd__alloc(ctx, 10), *third;
    gd__free(ctx, again, 10);
    assert_ptr_equal(third = gd__alloc(ctx, 50), again);
    gd__free(ctx, third, 50);
    gd__free(ctx, NULL, 10);
    end_context(ctx, NULL);
}

static void large_blocks_are_kept_and_given_back(void **state)
{
    (void)state;
    memory m = {0};
    gd_options options = gd_options_default();
    options.pool = true;
    options.allocator = memory_allocator(&m);
    gd_ctx *ctx = gd_ctx_new(&options);
    int64_t before = m.bytes;
    gd__free(ctx, gd__alloc(ctx, 100000000),
             100000000); /* a peak: below it, blocks of other sizes need not go first */
    /* a block of nearly the same size is the same block */
    void *first = gd__alloc(ctx, 1000000);
    gd__free(ctx, first, 1000000);
    assert_true(m.bytes - before >= 1000000 && m.bytes - before < 1130000);
    void *again = gd__alloc(ctx, 999000), *other = gd__alloc(ctx, 1000000);
    assert_ptr_equal(again, first);
    assert_ptr_not_equal(other, first);
    gd__free(ctx, again, 999000);
    gd__free(ctx, other, 1000000);
    /* many sizes: not more than 32 blocks stay */
    for (size_t k = 1; k <= 100; k++) gd__free(ctx, gd__alloc(ctx, k * 200000), k * 200000);
    int64_t kept = m.blocks;
    for (size_t k = 1; k <= 100; k++) gd__free(ctx, gd__alloc(ctx, k * 200000), k * 200000);
    assert_true(m.blocks <= kept + 1);
    /* no memory: what is kept goes first */
    m.fail_at = m.requests + 1;
    void *rescued = gd__alloc(ctx, 50000000);
    assert_non_null(rescued);
    assert_no_error(ctx);
    assert_true(m.bytes - before < 60000000);
    gd__free(ctx, rescued, 50000000);
    assert_null(gd__alloc(ctx, SIZE_MAX));
    assert_error(ctx, GD_NOMEM, "out of memory");
    end_context(ctx, &m);
}

static void little_is_kept_of_what_is_no_longer_used(void **state)
{
    (void)state;
    enum { BLOCKS = 20, BYTES = 16000000 };
    memory m = {0};
    gd_options options = gd_options_default();
    options.pool = true;
    options.allocator = memory_allocator(&m);
    gd_ctx *ctx = gd_ctx_new(&options);
    int64_t before = m.bytes;
    void *block[BLOCKS];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++) assert_non_null(block[i] = gd__alloc(ctx, BYTES));
        for (int i = 0; i < BLOCKS / 2; i++) gd__free(ctx, block[i], BYTES);
        /* half of it is in use: some waits for more */
        assert_true(m.bytes - before >= (BLOCKS / 2 + 3) * (int64_t)BYTES);
        for (int i = BLOCKS / 2; i < BLOCKS; i++) gd__free(ctx, block[i], BYTES);
        assert_true(m.bytes - before >= BYTES);
        assert_true(m.bytes - before <= BLOCKS * (int64_t)BYTES / 10 + BYTES / 8);
    }
    gd_ctx_trim(ctx);
    assert_true(m.bytes - before <= 0);
    end_context(ctx, &m);
}

static void realloc_keeps_what_was_there(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    char *text = gd__realloc(ctx, NULL, 0, 8);
    memcpy(text, "abcdefg", 8);
    text = gd__realloc(ctx, text, 8, 3000);
    assert_string_equal(text, "abcdefg");
    text = gd__realloc(ctx, text, 3000, 4);
    assert_memory_equal(text, "abcd", 4);
    gd__free(ctx, text, 4);
    assert_null(gd__alloc_array(ctx, SIZE_MAX / 4, 8));
    assert_error(ctx, GD_OVERFLOW, "");
    assert_null(gd__alloc(ctx, SIZE_MAX - 10));
    assert_error(ctx, GD_NOMEM, "out of memory");
    end_context(ctx, &m);
}

static void equal_names_are_equal_pointers(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    const char *first[500];
    char text[16];
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "name%d", i);
        first[i] = gd__intern(ctx, text, strlen(text));
        assert_string_equal(first[i], text);
    }
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "name%d", i);
        assert_ptr_equal(gd__intern(ctx, text, strlen(text)), first[i]);
    }
    assert_ptr_equal(gd__intern(ctx, "name1234", 5), first[1]);
    assert_string_equal(gd__intern(ctx, "", 0), "");
    end_context(ctx, &m);
}

/* ---- extensions ---- */

static const char key_a, key_b;
static char order[8];

static void *make_a(gd_ctx *ctx) { return gd__alloc(ctx, 1); }
static void *make_nothing(gd_ctx *ctx) { return (void)ctx, NULL; }
static void destroy_a(gd_ctx *ctx, void *data)
{
    strcat(order, "a");
    gd__free(ctx, data, 1);
}
static void destroy_b(gd_ctx *ctx, void *data)
{
    strcat(order, "b");
    gd__free(ctx, data, 1);
}

static void extensions_are_made_once_and_freed_last_first(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    order[0] = 0;
    assert_null(gd__extension_find(ctx, &key_a));
    assert_null(gd__extension(ctx, &key_a, make_nothing, destroy_a));
    void *a = gd__extension(ctx, &key_a, make_a, destroy_a);
    assert_non_null(a);
    assert_ptr_equal(gd__extension(ctx, &key_a, make_a, destroy_a), a);
    assert_ptr_equal(gd__extension_find(ctx, &key_a), a);
    assert_non_null(gd__extension(ctx, &key_b, make_a, destroy_b));
    end_context(ctx, &m);
    assert_string_equal(order, "ba");
}

/* ---- the POSIX file table ---- */

static void the_posix_file_table_works(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    const gd_file_ops *f = &ctx->files;
    char from[] = "/tmp/gradus_context_XXXXXX", to[64], text[8] = "";
    int made = mkstemp(from);
    assert_true(made >= 0);
    close(made);
    snprintf(to, sizeof to, "%s.moved", from);
    int fd = f->open(f->user, from, O_WRONLY, 0);
    assert_int_equal(f->write(f->user, fd, "gradus", 6), 6);
    assert_int_equal(f->sync(f->user, fd), 0);
    assert_int_equal(f->close(f->user, fd), 0);
    assert_int_equal(f->rename(f->user, from, to), 0);
    fd = f->open(f->user, to, O_RDONLY, 0);
    assert_int_equal(f->size(f->user, fd), 6);
    assert_int_equal(f->read(f->user, fd, text, sizeof text), 6);
    assert_string_equal(text, "gradus");
    f->close(f->user, fd);
    assert_int_equal(f->size(f->user, fd), -1);
    assert_int_equal(f->unlink(f->user, to), 0);
    assert_int_equal(f->open(f->user, to, O_RDONLY, 0), -1);
    end_context(ctx, NULL);
}

/* ---- isolation ---- */

static void contexts_share_nothing(void **state)
{
    (void)state;
    gd_ctx *a = context(NULL, 1, NULL), *b = context(NULL, 1, NULL);
    gd_tensor *x = VECTOR(a, 1, 2), *y = VECTOR(b, 1, 2);
    (void)gd_fail(a, GD_VALUE, "only in a");
    assert_int_equal(gd_error(b), GD_OK);
    gd_no_grad_begin(a);
    assert_true(gd_grad_enabled(b));
    gd_no_grad_end(a);
    gd_clear_error(a);
    gd_scope_begin(a);
    gd_tensor *z = gd_exp(y); /* b has no scope: ours */
    gd_scope_end(a);
    assert_values(z, 2.718281828459045, 7.38905609893065);
    assert_int_equal(gd_ctx_live(a), 1);
    assert_int_equal(gd_ctx_live(b), 2);
    gd_release(x);
    gd_release(y);
    gd_release(z);
    end_context(a, NULL);
    end_context(b, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_tells_the_version_of_its_headers),
        cmocka_unit_test(the_first_error_sticks),
        cmocka_unit_test(a_verb_that_fails_after_an_error_returns_the_first_status),
        cmocka_unit_test(a_long_error_text_is_cut),
        cmocka_unit_test(an_operator_after_an_error_still_works_but_null_stays_null),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(warnings_are_counted_and_passed_on),
        cmocka_unit_test(threads_come_from_options_or_environment),
        cmocka_unit_test(blocks_are_aligned_and_reused),
        cmocka_unit_test(large_blocks_are_kept_and_given_back),
        cmocka_unit_test(little_is_kept_of_what_is_no_longer_used),
        cmocka_unit_test(realloc_keeps_what_was_there),
        cmocka_unit_test(equal_names_are_equal_pointers),
        cmocka_unit_test(extensions_are_made_once_and_freed_last_first),
        cmocka_unit_test(the_posix_file_table_works),
        cmocka_unit_test(contexts_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
