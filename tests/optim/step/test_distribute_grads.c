/* Gradients of ranks that step together: who sums them, where the sums go, and what becomes of those that somebody still has. */
#include "optim/distribute.h"
#include "tensor/device.h"

/* ---- they are added ---- */

/* `how` options; every rank brings its own gradient, and one that is alone their sum. */
static gd_status sums_gradients(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o, *alone;
    gd_tensor *p[PARAMS], *q[PARAMS];
    gd_scope_begin(ctx);
    TRY(make(ctx, "clip_norm(1, dim=\"global\") | adam | lr(0.1)", &o, p));
    TRY(make(ctx, "clip_norm(1, dim=\"global\") | adam | lr(0.1)", &alone, q));
    TRY(gd_optimizer_distribute(o, w, user));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < PARAMS; i++) {
            TRY(set_grad(p[i], gd_world_rank(w), gd_world_size(w)));
            TRY(set_grad(q[i], -1, gd_world_size(w)));
        }
        TRY(gd_optimizer_step(o, NULL, NULL));
        TRY(gd_optimizer_step(alone, NULL, NULL));
    }
    for (int i = 0; i < PARAMS; i++)
        EXPECT(ctx, !memcmp(gd_data(p[i]), gd_data(q[i]), (size_t)lengths[i] * sizeof(float)));
    gd_optimizer_free(o);
    gd_optimizer_free(alone);
    gd_scope_end(ctx);
    return GD_OK;
}

static void gradients_of_all_ranks_are_added_in_one_order(void **state)
{
    gd_distribute_options options = gd_distribute_defaults();
    for (int n = 1; n <= 5; n++) run_in(CTX(state), n, sums_gradients, &options);
    options.bucket = 1; /* each by itself */
    run_in(CTX(state), 3, sums_gradients, &options);
}

/* Where state is shared a rank gets the sums of what it owns, in its gradient; the rest of that stays its share. */
static gd_status keeps_gradients(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int rank = gd_world_rank(w), ranks = gd_world_size(w), width = 1;
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    const bool *misses = user;
    while (width < ranks) width *= 2;
    gd_scope_begin(ctx);
    TRY(make_shared(w, GD_SHARD_STATE, 0, &o, p));
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < PARAMS; i++) TRY(set_grad(p[i], rank, ranks));
        if (*misses && rank == 1) TRY(gd_set_grad(p[0], NULL)); /* zeros for this rank */
        TRY(gd_optimizer_step(o, NULL, NULL));
        double own = 0;
        const float *g = gd_data(gd_grad_of(p[1]));
        for (int64_t i = 0; i < lengths[1]; i++) {
            bool sum = g[i] != (float)value_of(rank, i);
            if (sum) EXPECT(ctx, g[i] == summed(i, 0, width, ranks));
            own += sum;
        }
        gd_tensor *all = gd_scalar(ctx, GD_F64, own);
        TRY(gd_world_all_reduce(w, all, GD_REDUCE_EXACT));
        /* of a rank that wants one the gradients are copies */
        EXPECT(ctx, *misses ? gd_item(all) < 40000 : gd_item(all) > 39000 && gd_item(all) <= 40000);
    }
    for (int i = 0; i < 5 && *misses; i++) {
        float want = 0.5f, sum = (float)value_of(0, i) + 0.0f;
        for (int r = 2; r < ranks; r++) sum += (float)value_of(r, i);
        EXPECT(ctx, ranks > 3 || ((const float *)gd_data(p[0]))[i] == want - sum - sum);
    }
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

enum { KINDS = 4 };

/* Parameters of several dtypes, and one whose gradient lies otherwise. */
static gd_status make_kinds(gd_ctx *ctx, gd_optimizer **o, gd_tensor **p)
{
    static const gd_dtype dtypes[KINDS] = {GD_BF16, GD_F64, GD_F32, GD_F16};
    *o = gd_optimizer_new(ctx, gd_chain(ctx, "clip_norm(1, dim=\"global\") | adam | lr(0.1)"));
    for (int i = 0; i < KINDS; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "p%d", i);
        p[i] = gd_full(ctx, dtypes[i], 2, (int64_t[]){200, 170}, 0.5);
        if (i == 2) p[i] = gd_transpose(p[i], 0, 1);
        p[i] = gd_require_grad(gd_detach(p[i]));
        TRY(gd_optimizer_add(*o, name, p[i]));
    }
    return gd_error(ctx);
}

/* rank -1: the sum of two, rounded once. */
static gd_tensor *gradient_of(const gd_tensor *p, int rank)
{
    gd_ctx *ctx = gd_tensor_ctx(p);
    gd_tensor *places = gd_arange(ctx, GD_F64, 0, (double)gd_numel(p), 1), *g[2];
    gd_dtype partial = gd_tensor_dtype(p) == GD_F64 ? GD_F64 : GD_F32;
    for (int r = 0; r < 2; r++) {
        g[r] = gd_cast(gd_sin(gd_mul_scalar(places, 0.7 + r)), gd_tensor_dtype(p));
        g[r] = gd_reshape(g[r], 2, (int64_t[]){gd_size(p, 0), gd_size(p, 1)});
    }
    if (rank >= 0) return g[rank];
    return gd_cast(gd_add(gd_cast(g[0], partial), gd_cast(g[1], partial)), gd_tensor_dtype(p));
}

static gd_status sums_kinds(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o, *alone;
    gd_tensor *p[KINDS], *q[KINDS];
    gd_scope_begin(ctx);
    TRY(make_kinds(ctx, &o, p));
    TRY(make_kinds(ctx, &alone, q));
    TRY(gd_optimizer_distribute(o, w, user));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < KINDS; i++) {
            TRY(gd_set_grad(p[i], gradient_of(p[i], gd_world_rank(w))));
            TRY(gd_set_grad(q[i], gradient_of(q[i], -1)));
        }
        TRY(gd_optimizer_step(o, NULL, NULL));
        TRY(gd_optimizer_step(alone, NULL, NULL));
    }
    for (int i = 0; i < KINDS; i++) {
        size_t bytes = (size_t)gd_numel(p[i]) * gd_dtype_size(gd_tensor_dtype(p[i]));
        const gd_tensor *a = gd_contiguous(p[i]), *b = gd_contiguous(q[i]);
        EXPECT(ctx, !memcmp(gd_data(a), gd_data(b), bytes));
    }
    gd_optimizer_free(o);
    gd_optimizer_free(alone);
    gd_scope_end(ctx);
    return GD_OK;
}

static void gradients_of_any_dtype_and_order_are_added(void **state)
{
    gd_distribute_options options = gd_distribute_defaults();
    for (int shard = GD_SHARD_NONE; shard <= GD_SHARD_GRADIENTS; shard++) {
        options.shard = (gd_shard)shard;
        options.bucket = 25 << 20;
        run_in(CTX(state), 2, sums_kinds, &options);
        options.bucket = 20000;
        run_in(CTX(state), 2, sums_kinds, &options);
    }
}

static void gradients_stay_with_their_ranks_where_state_is_shared(void **state)
{
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_STATE;
    for (int n = 1; n <= 5; n++) run_in(CTX(state), n, sums_gradients, &options);
    options.bucket = 1;
    run_in(CTX(state), 3, sums_gradients, &options);
    for (int n = 2; n <= 4; n++) run_in(CTX(state), n, keeps_gradients, &(bool){false});
    for (int n = 2; n <= 3; n++) run_in(CTX(state), n, keeps_gradients, &(bool){true});
}

/* ---- a gradient that is complete leaves its parameter ---- */

static gd_status accumulate(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_scope_begin(ctx);
    TRY(make_shared(w, GD_SHARD_GRADIENTS, 1000, &o, p));
    /* of two passes before a step both count; p[2] is an operand twice, p[1] has none in the second */
    gd_tensor *first = gd_add(gd_sum(gd_mul(p[2], p[2]), NULL, false), gd_sum(p[1], NULL, false));
    TRY(gd_backward(first, NULL, 0));
    EXPECT(ctx, !gd_grad_of(p[2]) && !gd_grad_of(p[1]));
    TRY(gd_backward(gd_sum(p[2], NULL, false), NULL, 0));
    TRY(gd_optimizer_step(o, NULL, NULL));
    double n = gd_world_size(w);
    EXPECT(ctx, ((const float *)gd_data(p[0]))[4] == 0.5F);
    EXPECT(ctx, ((const float *)gd_data(p[1]))[39999] == (float)(1.5 - n));
    EXPECT(ctx, ((const float *)gd_data(p[2]))[2] == (float)(2.5 - n * (2 * 2.5 + 1)));
    /* the step has used them up; what is not wanted is forgotten */
    TRY(gd_backward(gd_sum(p[0], NULL, false), NULL, 0));
    gd_optimizer_zero_grad(o);
    TRY(gd_optimizer_step(o, NULL, NULL));
    EXPECT(ctx, ((const float *)gd_data(p[0]))[4] == 0.5F);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void gradients_leave_their_parameters_when_they_are_complete(void **state)
{
    for (int n = 2; n <= 4; n++) run_in(CTX(state), n, accumulate, NULL);
}

/* ---- those that are not there, or elsewhere ---- */

/* A device that works as the CPU does. */
static gd_status is_elsewhere(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_device *cpu = gd_device_get(ctx, "cpu"), other = *cpu;
    gd_distribute_options options = gd_distribute_defaults();
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    (void)user;
    (void)snprintf(other.name, sizeof other.name, "gpu:7");
    gd_scope_begin(ctx);
    TRY(make(ctx, "adam | lr(0.1)", &o, p));
    options.shard = GD_SHARD_GRADIENTS;
    TRY(gd_optimizer_distribute(o, w, &options));
    p[1]->storage->device = &other;
    gd_status status = gd_optimizer_step(o, NULL, NULL);
    p[1]->storage->device = cpu;
    EXPECT(ctx, status == GD_NOT_IMPLEMENTED);
    EXPECT(ctx, strstr(gd_error_text(ctx),
                       "step: 'b' is on gpu:7 and 'a' on cpu, and gradients on several devices "
                       "are not sharded"));
    gd_clear_error(ctx);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void gradients_on_several_devices_are_refused_by_name(void **state)
{
    run_in(CTX(state), 2, is_elsewhere, NULL);
}

/* What it has of a loss is summed over all ranks while the backward pass of the others goes on, in seven buckets. */
static gd_status learns(gd_optimizer *o, gd_tensor **p)
{
    gd_tensor *loss = gd_add(gd_sum(gd_mul(p[2], p[2]), NULL, false), gd_sum(p[1], NULL, false));
    TRY(gd_backward(gd_add(loss, gd_sum(p[0], NULL, false)), NULL, 0));
    return gd_optimizer_step(o, NULL, NULL);
}

/* tells: it says so by itself, as a step does, or leaves that to the step. */
static gd_status has_no_loss(gd_world *w, void *user)
{
    const bool *tells = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_scope_begin(ctx);
    TRY(make_shared(w, GD_SHARD_GRADIENTS, 32000, &o, p));
    for (int i = 0; i < 3; i++) {
        bool fails = gd_world_rank(w) == i;
        gd_status status = fails ? gd_fail(ctx, GD_CALLBACK, "no such file") : learns(o, p);
        if (fails) status = *tells ? gd_world_agree(w, status) : gd_optimizer_step(o, NULL, NULL);
        EXPECT(ctx, status == GD_CALLBACK && strstr(gd_error_text(ctx), "no such file"));
        if (!*tells)
            EXPECT(ctx, gd_optimizer_step(o, NULL, NULL) == GD_CALLBACK); /* an error is reported once */
        gd_clear_error(ctx);
        gd_optimizer_zero_grad(o);
    }
    TRY(learns(o, p));
    double n = gd_world_size(w);
    EXPECT(ctx, ((const float *)gd_data(p[0]))[4] == (float)(0.5 - n));
    EXPECT(ctx, ((const float *)gd_data(p[1]))[39999] == (float)(1.5 - n));
    EXPECT(ctx, ((const float *)gd_data(p[2]))[2] == (float)(2.5 - n * 2 * 2.5));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_rank_that_fails_while_gradients_are_under_way_leaves_nobody_waiting(void **state)
{
    for (int tells = 0; tells < 2; tells++) run_in(CTX(state), 3, has_no_loss, (bool[]){tells});
}

/* Long ones travel from where they are: with three ranks and more sums of some are made on the way. */
static gd_status holds_gradient(gd_world *w, void *user)
{
    (void)user;
    enum { LENGTH = 100003 };
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    int64_t n = LENGTH, size = gd_world_size(w), rank = gd_world_rank(w);
    gd_tensor *p = gd_require_grad(gd_full(ctx, GD_F32, 1, &n, 0.5)),
              *g = gd_full(ctx, GD_F32, 1, &n, (double)rank + 1);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(1)"));
    TRY(gd_optimizer_add(o, "p", p));
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_GRADIENTS;
    TRY(gd_optimizer_distribute(o, w, &options));
    double want = 0.5;
    for (int step = 0; step < 3; step++) {
        TRY(gd_set_grad(p, g));
        TRY(gd_optimizer_step(o, NULL, NULL));
        gd_optimizer_zero_grad(o);
        want -= (double)(size * (size + 1) / 2);
        for (int i = 0; i < LENGTH; i++) {
            EXPECT(ctx, ((const float *)gd_data(g))[i] == (float)rank + 1);
            EXPECT(ctx, ((const float *)gd_data(p))[i] == (float)want);
        }
    }
    /* of two passes the second adds to what is kept */
    for (int pass = 0; pass < 2; pass++) TRY(gd_backward(gd_sum(p, NULL, false), NULL, 0));
    TRY(gd_optimizer_step(o, NULL, NULL));
    for (int i = 0; i < LENGTH; i++)
        EXPECT(ctx, ((const float *)gd_data(p))[i] == (float)(want - 2 * (double)size));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_gradient_that_somebody_holds_stays_as_it_was(void **state)
{
    for (int n = 1; n <= 5; n++) run_in(CTX(state), n, holds_gradient, NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(gradients_of_all_ranks_are_added_in_one_order),
        TEST(gradients_stay_with_their_ranks_where_state_is_shared),
        TEST(gradients_of_any_dtype_and_order_are_added),
        TEST(gradients_leave_their_parameters_when_they_are_complete),
        TEST(gradients_on_several_devices_are_refused_by_name),
        TEST(a_rank_that_fails_while_gradients_are_under_way_leaves_nobody_waiting),
        TEST(a_gradient_that_somebody_holds_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
