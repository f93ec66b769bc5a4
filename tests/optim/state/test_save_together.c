/* Checkpoints of state that several ranks keep: each writes its own, into the file that one process would have written. */
#include "file/file_support.h"
#include "support/ranks.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#define CHAIN "clip_norm(1, dim=\"global\") | adam | lr(0.1)"
enum { PARAMS = 4 };
static const int64_t shape[PARAMS][2] = {{300, 170}, {3, 5}, {1, 500}, {110, 301}};
static const char *const names[PARAMS] = {"a", "b", "c", "d"};

/* ---- file operations that fail, from any thread ---- */

typedef struct trouble {
    _Atomic int64_t read; /* bytes */
    atomic_int calls, joins;
    int at;    /* the call that fails, counted from 1; 0: none */
    int blind; /* this one to open what another rank has begun does not see it; 0: all do */
} trouble;

static bool is_due(void *user)
{
    trouble *t = user;
    bool due = atomic_fetch_add(&t->calls, 1) + 1 == t->at;
    if (due) errno = EIO;
    return due;
}

static int try_open(void *user, const char *path, int flags, unsigned mode)
{
    trouble *t = user;
    if (is_due(user)) return -1;
    if (strstr(path, ".gradus-") && !(flags & O_CREAT) && atomic_fetch_add(&t->joins, 1) + 1 == t->blind) {
        errno = ENOENT;
        return -1;
    }
    return gd__posix_files.open(NULL, path, flags, mode);
}

static int64_t try_read(void *user, int fd, void *data, size_t size)
{
    trouble *t = user;
    if (is_due(user)) return -1;
    int64_t got = gd__posix_files.read(NULL, fd, data, size);
    if (got > 0) t->read += got;
    return got;
}

static int64_t try_write(void *user, int fd, const void *data, size_t size)
{
    return is_due(user) ? -1 : gd__posix_files.write(NULL, fd, data, size);
}

static int try_skip(void *user, int fd, int64_t bytes)
{
    return is_due(user) ? -1 : (gd__posix_files.skip)(NULL, fd, bytes);
}

static int try_sync(void *user, int fd)
{
    (void)fd; /* nothing loses power here */
    return is_due(user) ? -1 : 0;
}

static int try_rename(void *user, const char *from, const char *to)
{
    return is_due(user) ? -1 : gd__posix_files.rename(NULL, from, to);
}

static gd_ctx *make_context(const gd_file_ops *files)
{
    gd_options options = gd_options_default();
    options.allocator.fn = counted;
    options.pool = false;
    options.threads = 1;
    options.compile = false;
    options.files = files;
    live_of_all = peak_of_all = 0;
    return gd_ctx_new(&options);
}

/* ---- a run ---- */

typedef struct run {
    const char *path;
    bool other;             /* rank 1 saves elsewhere: */
    const char *other_path; /* NULL: nowhere */
    gd_shard shard;
    int saves;        /* a step before each */
    bool small;       /* one parameter, a rule alone */
    const char *load; /* what it goes on from, with nothing of its own before; NULL: it begins */
    gd_status last;
    int64_t grown, state; /* bytes that the last save took, and those of what it saved */
} run;

static gd_status step(gd_optimizer *o, gd_tensor *const *p, int params)
{
    gd_tensor *sum = NULL;
    gd_scope_begin(gd_optimizer_ctx(o));
    gd_optimizer_zero_grad(o);
    for (int i = 0; i < params; i++) {
        gd_tensor *part = gd_sum(gd_square(p[i]), NULL, false);
        sum = sum ? gd_add(sum, part) : part;
    }
    (void)!gd_backward(sum, NULL, 0);
    gd_scope_end(gd_optimizer_ctx(o));
    return gd_optimizer_step(o, NULL, NULL); /* which tells the others of an error before */
}

static gd_status save_measured(gd_world *w, gd_optimizer *o, run *r)
{
    TRY(gd_world_barrier(w));
    if (!gd_world_rank(w)) peak_of_all = r->grown = live_of_all;
    TRY(gd_world_barrier(w));
    gd_status status = gd_optimizer_save(o, r->other && gd_world_rank(w) == 1 ? r->other_path : r->path);
    if (!gd_world_rank(w)) {
        r->grown = peak_of_all - r->grown;
        r->last = status;
    }
    return status;
}

/* One that fails has changed nothing. */
static gd_status load_measured(gd_world *w, gd_optimizer *o, run *r)
{
    TRY(gd_world_barrier(w));
    if (!gd_world_rank(w)) peak_of_all = r->grown = live_of_all;
    TRY(gd_world_barrier(w));
    gd_status status = gd_optimizer_load(o, r->load, true);
    (void)!gd_world_agree(w, GD_OK);
    if (!gd_world_rank(w)) r->grown = peak_of_all - r->grown;
    if (status && gd_optimizer_steps(o)) return gd_fail(gd_world_ctx(w), GD_INTERNAL, "half of it is loaded");
    return status;
}

static gd_status train(gd_world *w, void *user)
{
    run *r = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *p[PARAMS];
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = r->shard;
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, r->small ? "adam" : CHAIN));
    gd_status status = gd_error(ctx);
    int params = r->small ? 1 : PARAMS;
    for (int i = 0; i < params && !status; i++) {
        gd_tensor *flat = gd_sin(gd_arange(ctx, GD_F32, 1, (double)(shape[i][0] * shape[i][1] + 1), 1));
        p[i] = gd_require_grad(gd_rename_axis(gd_copy(gd_reshape(flat, 2, shape[i])), "0", "row"));
        status = gd_optimizer_add(o, names[i], p[i]);
        if (!gd_world_rank(w)) r->state += 8 * gd_numel(p[i]);
    }
    options.joined = r->shard != GD_SHARD_GRADIENTS; /* each has the whole gradient */
    status = gd_world_agree(w, status);
    if (!status) status = gd_optimizer_distribute(o, w, &options);
    if (!status && r->load) status = load_measured(w, o, r);
    for (int i = 0; i < r->saves && !status; i++) {
        status = step(o, p, params);
        if (!status) status = save_measured(w, o, r);
    }
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return status;
}

static gd_status train_in(gd_ctx *ctx, int ranks, run *r)
{
    char name[16];
    (void)snprintf(name, sizeof name, "threads:%d", ranks);
    return gd_world_run(ctx, name, NULL, train, r);
}

static bool same_as(const char *path, const unsigned char *want, size_t bytes)
{
    size_t size;
    unsigned char *got = get_file(path, &size);
    bool same = size == bytes && !memcmp(got, want, bytes);
    free(got);
    return same;
}

/* ---- what holds ---- */

static void a_checkpoint_does_not_know_how_many_have_written_it(void **state)
{
    (void)state;
    gd_ctx *ctx = make_context(NULL);
    run r = {.path = in_folder("one.safetensors"), .saves = 2};
    assert_int_equal(train_in(ctx, 1, &r), GD_OK);
    size_t bytes;
    unsigned char *want = get_file(r.path, &bytes);
    r = (run){.path = in_folder("many.safetensors"), .shard = GD_SHARD_STATE, .saves = 2};
    for (int n = 2; n <= 8; n++) {
        if (train_in(ctx, n, &r)) fail_msg("%d ranks: %s", n, gd_error_text(ctx));
        if (!same_as(r.path, want, bytes)) fail_msg("%d ranks write another file", n);
    }
    free(want);
    gd_ctx_free(ctx);
}

static void saving_brings_nothing_together(void **state)
{
    (void)state;
    gd_ctx *ctx = make_context(NULL);
    run r = {.path = in_folder("state.safetensors"), .shard = GD_SHARD_STATE, .saves = 2};
    for (r.shard = GD_SHARD_STATE; r.shard <= GD_SHARD_GRADIENTS; r.shard++) {
        r.state = 0;
        assert_int_equal(train_in(ctx, 4, &r), GD_OK);
        if (r.grown >
            r.state /
                3) /* texts and messages of four ranks, about 90 KB; all state at one of them would be more than all */
            fail_msg("saving %lld bytes took %lld more", (long long)r.state, (long long)r.grown);
    }
    gd_ctx_free(ctx);
    assert_int_equal(live_of_all, 0);
}

static gd_file_ops trouble_with(trouble *t)
{
    gd_file_ops ops = gd__posix_files;
    ops.open = try_open;
    ops.read = try_read;
    ops.write = try_write;
    ops.skip = try_skip;
    ops.sync = try_sync;
    ops.rename = try_rename;
    ops.user = t;
    return ops;
}

/* Each operation of any rank fails once: all ranks get the error, the file is the one of before, nothing is left lying about. */
static void whatever_fails_leaves_the_file_of_before(void **state)
{
    (void)state;
    trouble t = {0};
    gd_file_ops ops = trouble_with(&t);
    gd_ctx *ctx = make_context(&ops);
    run r = {.path = in_folder("state.safetensors"), .shard = GD_SHARD_STATE, .saves = 1};
    assert_int_equal(train_in(ctx, 3, &r), GD_OK);
    int calls = t.calls;
    size_t bytes;
    unsigned char *before = get_file(r.path, &bytes);
    r.saves = 2;
    for (int at = calls + 1; at <= 2 * calls; at += test_share() > 1 ? 3 : 1) {
        (void)remove(r.path);
        t.calls = 0;
        t.at = at; /* of the second save */
        gd_status status = train_in(ctx, 3, &r);
        if (at < 2 * calls && (status != GD_IO || !strstr(gd_error_text(ctx), "state.safetensors")))
            fail_msg("call %d: %s", at, gd_error_text(ctx));
        /* the last one syncs the folder: the new file is in place by then */
        if (at < 2 * calls && !same_as(r.path, before, bytes)) fail_msg("call %d: another file", at);
        assert_int_equal(temporary_files(), 0);
        gd_clear_error(ctx);
    }
    free(before);
    gd_ctx_free(ctx);
    assert_int_equal(live_of_all, 0);
}

static void a_folder_that_not_all_ranks_see_is_said(void **state)
{
    (void)state;
    trouble t = {.blind = 2};
    gd_file_ops ops = trouble_with(&t);
    gd_ctx *ctx = make_context(&ops);
    put_file(in_folder("state.safetensors"), "before", 6);
    run r = {.path = in_folder("state.safetensors"), .shard = GD_SHARD_STATE, .saves = 1};
    assert_int_equal(train_in(ctx, 3, &r), GD_IO);
    expect_error(ctx, GD_IO, "its folder must be the same for all of them");
    assert_true(same_as(r.path, (const unsigned char *)"before", 6));
    assert_int_equal(temporary_files(), 0);
    gd_ctx_free(ctx);
}

/* ---- loading ---- */

/* Its path would not be written to, and nobody would know. */
static void a_rank_that_saves_under_another_name_is_told(void **state)
{
    (void)state;
    gd_ctx *ctx = make_context(NULL);
    const char *other = in_folder("other.safetensors");
    put_file(in_folder("state.safetensors"), "before", 6);
    run r = {.path = in_folder("state.safetensors"), .shard = GD_SHARD_STATE, .saves = 1, .other = true};
    assert_int_equal(train_in(ctx, 3, &r), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "save: no path given");
    r.other_path = other;
    assert_int_equal(train_in(ctx, 3, &r), GD_MISMATCH);
    expect_error(ctx, GD_MISMATCH, "the process that makes the file calls it otherwise");
    assert_true(same_as(r.path, (const unsigned char *)"before", 6));
    assert_int_not_equal(access(other, F_OK), 0);
    assert_int_equal(temporary_files(), 0);
    gd_ctx_free(ctx);
}

static void each_rank_reads_what_it_keeps(void **state)
{
    (void)state;
    trouble t = {0};
    gd_file_ops ops = trouble_with(&t);
    gd_ctx *ctx = make_context(&ops);
    run r = {.path = in_folder("state.safetensors"), .saves = 2};
    assert_int_equal(train_in(ctx, 1, &r), GD_OK);
    r.load = in_folder("state.safetensors");
    r.path = in_folder("again.safetensors");
    r.saves = 0;
    for (r.shard = GD_SHARD_STATE; r.shard <= GD_SHARD_GRADIENTS; r.shard++) {
        t.read = r.state = 0;
        if (train_in(ctx, 4, &r)) fail_msg("%s", gd_error_text(ctx));
        if (t.read > r.state * 5 / 4)
            fail_msg("four ranks read %lld bytes for %lld of state", (long long)t.read, (long long)r.state);
        if (r.grown > r.state * 3 / 2)
            fail_msg("%lld bytes of state took %lld in all ranks", (long long)r.state, (long long)r.grown);
    }
    gd_ctx_free(ctx);
    assert_int_equal(live_of_all, 0);
}

/* What is loaded and saved without a step between is the same file, whoever loads it. */
static gd_status hand_on(gd_world *w, void *user)
{
    run *r = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_distribute_options options = {.shard = r->shard, .bucket = 1000};
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, CHAIN));
    for (int i = 0; i < PARAMS; i++)
        TRY(gd_optimizer_add(
            o, names[i], gd_require_grad(gd_rename_axis(gd_zeros(ctx, GD_F32, 2, shape[i]), "0", "row"))));
    TRY(gd_optimizer_distribute(o, w, &options));
    gd_status status = gd_optimizer_load(o, r->load, true);
    if (!status) status = gd_optimizer_save(o, r->path);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return status;
}

static void what_is_loaded_is_saved_as_it_was(void **state)
{
    (void)state;
    gd_ctx *ctx = make_context(NULL);
    run r = {.path = in_folder("first.safetensors"), .saves = 1};
    assert_int_equal(train_in(ctx, 1, &r), GD_OK);
    size_t bytes;
    unsigned char *want = get_file(r.path, &bytes);
    r = (run){.path = in_folder("second.safetensors"), .load = in_folder("first.safetensors")};
    for (int n = 1; n <= 5; n++) {
        char name[16];
        (void)snprintf(name, sizeof name, "threads:%d", n);
        r.shard = n % 2 ? GD_SHARD_GRADIENTS : GD_SHARD_STATE;
        if (gd_world_run(ctx, name, NULL, hand_on, &r)) fail_msg("%s: %s", name, gd_error_text(ctx));
        if (!same_as(r.path, want, bytes)) fail_msg("%s: another file", name);
    }
    free(want);
    gd_ctx_free(ctx);
}

/* One bit of a shard that only one rank reads; a file that is cut off; one that a rank cannot read. */
static void damage_that_one_rank_sees_is_told_to_all(void **state)
{
    (void)state;
    trouble t = {0};
    gd_file_ops ops = trouble_with(&t);
    gd_ctx *ctx = make_context(&ops);
    run r = {.path = in_folder("state.safetensors"), .saves = 1};
    assert_int_equal(train_in(ctx, 1, &r), GD_OK);
    size_t bytes;
    unsigned char *file = get_file(r.path, &bytes);
    r = (run){.path = in_folder("again.safetensors"),
              .load = in_folder("state.safetensors"),
              .shard = GD_SHARD_STATE};
    for (size_t at = bytes - 5; at > bytes / 4; at -= bytes / 7) {
        file[at] ^= 16;
        put_file(r.load, file, bytes);
        file[at] ^= 16;
        assert_int_equal(train_in(ctx, 3, &r), GD_FORMAT);
        assert_non_null(strstr(gd_error_text(ctx), "state.safetensors"));
        expect_error(ctx, GD_FORMAT, "is damaged");
    }
    put_file(r.load, file, bytes - 1);
    assert_int_equal(train_in(ctx, 3, &r), GD_FORMAT);
    gd_clear_error(ctx);
    put_file(r.load, file, bytes);
    t.calls = 0;
    assert_int_equal(train_in(ctx, 3, &r), GD_OK);
    for (int at = t.calls; at > 0; at -= 2) {
        t.calls = 0;
        t.at = at;
        if (train_in(ctx, 3, &r) != GD_IO) fail_msg("call %d: %s", at, gd_error_text(ctx));
        gd_clear_error(ctx);
    }
    free(file);
    gd_ctx_free(ctx);
    assert_int_equal(live_of_all, 0);
}

static bool loads_with_two(gd_ctx *ctx)
{
    run r = {.load = in_folder("small.safetensors"), .shard = GD_SHARD_STATE, .small = true};
    return gd_world_run(ctx, "threads:2", NULL, train, &r) == GD_OK;
}

static bool saves_with_two(gd_ctx *ctx)
{
    run r = {.path = in_folder("state.safetensors"), .shard = GD_SHARD_STATE, .saves = 1, .small = true};
    return gd_world_run(ctx, "threads:2", NULL, train, &r) == GD_OK;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, saves_with_two);
    run r = {.path = in_folder("small.safetensors"), .saves = 1, .small = true};
    gd_ctx *ctx = make_context(NULL);
    assert_int_equal(train_in(ctx, 1, &r), GD_OK);
    gd_ctx_free(ctx);
    fail_each_allocation(1, loads_with_two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_does_not_know_how_many_have_written_it),
        cmocka_unit_test(saving_brings_nothing_together),
        cmocka_unit_test(whatever_fails_leaves_the_file_of_before),
        cmocka_unit_test(a_folder_that_not_all_ranks_see_is_said),
        cmocka_unit_test(a_rank_that_saves_under_another_name_is_told),
        cmocka_unit_test(each_rank_reads_what_it_keeps),
        cmocka_unit_test(what_is_loaded_is_saved_as_it_was),
        cmocka_unit_test(damage_that_one_rank_sees_is_told_to_all),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
