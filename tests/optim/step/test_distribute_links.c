/* Gradients of backward passes over a world of threads: every rule of the table has the parameters, state and losses of one process.
 * Links with objectives: tests/world/same_bits.c. */
#include "support/support.h"
#include "optim/table_support.h"
#include "optim/ranks/share.h"

#include <gradus/gradus.h>
#include <unistd.h>

#define STEPS 5
#define MOST  4 /* parameters */

typedef struct problem {
    const char *chain;
    bool leaves; /* gradients by backward passes, without an objective */
    int count, ndim[MOST];
    int64_t shape[MOST][3];
} problem;

typedef struct run {
    const problem *of;
    gd_optimizer *o;
    gd_tensor *p[MOST], *centre[MOST];
} run;

/* What one process has after its steps. */
typedef struct outcome {
    gd_status status;
    char why[300];
    char *params, *state;
    size_t params_bytes, state_bytes;
    double loss[STEPS];
} outcome;

/* Not a square: curvature differs from place to place. */
static gd_tensor *loss_of(void *user)
{
    const run *r = user;
    gd_tensor *sum = NULL;
    for (int i = 0; i < r->of->count; i++) {
        gd_tensor *d = gd_sub(r->p[i], r->centre[i]), *square = gd_square(d);
        gd_tensor *part = gd_sum(gd_add(square, gd_mul_scalar(gd_square(square), 0.1 * (i + 1))), NULL,
                                 false);
        sum = sum ? gd_add(sum, part) : part;
    }
    return sum;
}

static gd_status fill_random(gd_tensor *t, uint64_t *seed)
{
    int64_t n = gd_numel(t);
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = 2 * random_unit(seed) - 1;
    gd_status status = gd_write_f64(t, values, n);
    free(values);
    return status;
}

static gd_status open_run(gd_ctx *ctx, const problem *of, run *r)
{
    static const char *const names[MOST] = {"a", "b", "c", "d"};
    uint64_t seed = 77;
    *r = (run){.of = of};
    gd_seed(ctx, 3);
    gd_link *chain = gd_chain(ctx, of->chain);
    r->o = chain ? gd_optimizer_new(ctx, chain) : NULL;
    if (!r->o) return gd_error(ctx);
    r->o->test.interpret = true; /* a compiler would run for every rank */
    gd_status status = GD_OK;
    for (int i = 0; i < of->count && !status; i++) {
        r->p[i] = gd_require_grad(gd_zeros(ctx, GD_F32, of->ndim[i], of->shape[i]));
        r->centre[i] = gd_zeros(ctx, GD_F32, of->ndim[i], of->shape[i]);
        status = fill_random(r->p[i], &seed);
        if (!status) status = fill_random(r->centre[i], &seed);
        if (!status) status = gd_optimizer_add(r->o, names[i], r->p[i]);
    }
    return status;
}

static void append(char **all, size_t *used, const void *data, size_t bytes)
{
    *all = realloc(*all, *used + bytes + 1);
    if (bytes) memcpy(*all + *used, data, bytes);
    *used += bytes;
}

static gd_status put_state(void *user, gd_link *link, const char *path)
{
    outcome *out = user;
    append(&out->state, &out->state_bytes, path, strlen(path));
    append(&out->state, &out->state_bytes, &link->step, sizeof link->step);
    for (int i = 0; i < link->entries; i++) {
        const gd_entry *e = link->entry[i];
        append(&out->state, &out->state_bytes, e->scalar,
               (size_t)link->cls->scalar_count * sizeof *e->scalar);
        for (int k = 0; k < link->cls->slot_count; k++)
            if (e->slot[k])
                append(&out->state, &out->state_bytes, e->slot[k]->data,
                       (size_t)e->slot[k]->numel * gd_dtype_size(e->slot[k]->dtype));
    }
    for (int i = 0; i < link->globals; i++) {
        const gd_tensor *t = link->global[i]->tensor;
        append(&out->state, &out->state_bytes, &link->global[i]->value, sizeof(double));
        if (t) append(&out->state, &out->state_bytes, t->data, (size_t)t->numel * gd_dtype_size(t->dtype));
    }
    return GD_OK;
}

/* Shares of one loss that add up to it exactly, in the order of the tree: 1/4, 1/4, 1/2 of three. */
static double share_of(gd_world *w)
{
    int size = w ? gd_world_size(w) : 1, rank = w ? gd_world_rank(w) : 0, width = 1;
    while (width < size) width *= 2;
    return rank == size - 1 ? 1 - (double)(size - 1) / width : 1.0 / width;
}

/* A step of one chain, however it gets its gradients. */
static gd_status one_step(run *r, gd_world *w, gd_step_info *info)
{
    gd_ctx *ctx = gd_optimizer_ctx(r->o);
    gd_objective objective = {.loss = loss_of, .user = r};
    if (!r->of->leaves) return gd_optimizer_step(r->o, &objective, info);
    gd_scope_begin(ctx);
    gd_optimizer_zero_grad(r->o);
    gd_tensor *loss = loss_of(r), *seed = gd_full(ctx, GD_F32, 0, NULL, share_of(w));
    gd_status status = gd_backward(loss, seed, 0);
    info->loss = gd_item(loss);
    gd_scope_end(ctx);
    return status ? status : gd_optimizer_step_with(r->o, NULL, NULL, NULL);
}

static gd_status steps_of(gd_ctx *ctx, const problem *of, gd_world *w, const gd_distribute_options *options,
                          outcome *out)
{
    run r;
    gd_scope_begin(ctx);
    gd_status status = open_run(ctx, of, &r);
    gd_step_info info = {0};
    if (!status && w) status = gd_optimizer_distribute(r.o, w, options);
    for (int i = 0; i < STEPS && !status; i++) {
        status = one_step(&r, w, &info);
        out->loss[i] = info.loss;
    }
    for (int i = 0; i < of->count && !status; i++)
        append(&out->params, &out->params_bytes, gd_data(r.p[i]), (size_t)gd_numel(r.p[i]) * sizeof(float));
    if (!status && w) status = gd_optimizer_distribute(r.o, NULL, NULL); /* all state here again */
    if (!status) status = gd__visit_links(gd_optimizer_chain(r.o), "", put_state, out);
    out->status = status;
    (void)snprintf(out->why, sizeof out->why, "%s", status ? gd_error_text(ctx) : "");
    gd_optimizer_free(r.o);
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    return status;
}

static void drop(outcome *out)
{
    free(out->params);
    free(out->state);
    *out = (outcome){0};
}

/* ---- saved by some ranks, loaded by others ---- */

typedef struct checkpoint {
    const problem *of;
    const char *path;
    gd_distribute_options options;
    int from, to;    /* steps */
    bool in_archive; /* the parameters are in the same file */
    char *params;    /* those saved beside it */
    const outcome *want;
} checkpoint;

static gd_status save_all(const checkpoint *c, run *r)
{
    gd_ctx *ctx = gd_optimizer_ctx(r->o);
    gd_archive *archive = gd_archive_new(ctx);
    gd_status status = archive ? GD_OK : gd_error(ctx);
    for (int i = 0; i < c->of->count && !status; i++)
        status = gd_archive_put(archive, (char[]){'p', (char)('0' + i), 0}, r->p[i]);
    if (!status) status = gd_optimizer_save_in(r->o, archive, "optimizer/", c->path);
    gd_archive_free(archive);
    return status;
}

static gd_status load_all(const checkpoint *c, run *r)
{
    gd_ctx *ctx = gd_optimizer_ctx(r->o);
    gd_archive *archive = gd_archive_load(ctx, c->path);
    gd_status status = archive ? GD_OK : gd_error(ctx);
    gd_no_grad_begin(ctx);
    for (int i = 0; i < c->of->count && !status; i++)
        status = gd_assign(r->p[i], gd_archive_find(archive, (char[]){'p', (char)('0' + i), 0}));
    gd_no_grad_end(ctx);
    if (!status) status = gd_optimizer_unpack(r->o, archive, "optimizer/", true);
    gd_archive_free(archive);
    return status;
}

static gd_status some_steps(gd_world *w, void *user)
{
    checkpoint *c = user;
    gd_ctx *ctx = gd_world_ctx(w);
    run r;
    gd_scope_begin(ctx);
    gd_status status = open_run(ctx, c->of, &r);
    gd_step_info info;
    char *at = c->params;
    for (int i = 0; i < c->of->count && c->from && !c->in_archive && !status;
         at += gd_numel(r.p[i++]) * (int64_t)sizeof(float)) {
        gd_tensor *before = gd_from_data(ctx, GD_F32, c->of->ndim[i], c->of->shape[i], at);
        gd_no_grad_begin(ctx);
        status = gd_assign(r.p[i], before);
        gd_no_grad_end(ctx);
    }
    if (!status) status = gd_optimizer_distribute(r.o, w, &c->options);
    if (!status && c->from) status = c->in_archive ? load_all(c, &r) : gd_optimizer_load(r.o, c->path, true);
    for (int i = c->from; i < c->to && !status; i++) status = one_step(&r, w, &info);
    if (!status && c->to < STEPS) status = c->in_archive ? save_all(c, &r) : gd_optimizer_save(r.o, c->path);
    outcome got = {0};
    for (int i = 0; i < c->of->count && !status; i++)
        append(&got.params, &got.params_bytes, gd_data(r.p[i]), (size_t)gd_numel(r.p[i]) * sizeof(float));
    if (!status && c->to < STEPS && !gd_world_rank(w)) memcpy(c->params, got.params, got.params_bytes);
    if (!status && c->to == STEPS) {
        status = gd_optimizer_distribute(r.o, NULL, NULL);
        if (!status) status = gd__visit_links(gd_optimizer_chain(r.o), "", put_state, &got);
        if (!status &&
            (memcmp(got.params, c->want->params, got.params_bytes) ||
             got.state_bytes != c->want->state_bytes || memcmp(got.state, c->want->state, got.state_bytes)))
            status = gd_fail(ctx, GD_INTERNAL, "%s: other bits than never stopping", c->of->chain);
    }
    drop(&got);
    gd_optimizer_free(r.o);
    gd_scope_end(ctx);
    return status;
}

static void run_steps(gd_ctx *ctx, int ranks, checkpoint *c, int from, int to)
{
    char name[16];
    c->from = from;
    c->to = to;
    (void)snprintf(name, sizeof name, "threads:%d", ranks);
    if (gd_world_run(ctx, name, NULL, some_steps, c))
        fail_msg("%s, steps %d to %d: %s", name, from, to, gd_error_text(ctx));
}

static void what_n_ranks_saved_m_ranks_load(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 8};
    static const char *const chains[] = {
        "clip_norm(1, dim=\"global\") | adam | weight_decay(0.01) | lr(0.01)",
        "adafactor | lr(0.01)",
        "adam(state=\"8bit\") | noise_sign | lr(0.01)",
        "dai_yuan | adgd | lr(0.01)",
        "adam(state=\"bf16\") | lbfgs | lr(0.01)",
        "split(\"a\", adam, [nag(0.9) | shampoo(update_freq=2, max_dim=30) | orthogonalize]) | lr(0.01)"};
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/gradus-ranks-%ld.safetensors", (long)getpid());
    for (int k = 0; k<COUNT_OF(chains); k += test_share()> 1 ? 2 : 1) {
        problem p = {
            .chain = chains[k], .count = 3, .ndim = {1, 2, 2}, .shape = {{20}, {150, 120}, {30, 40}}};
        if (strstr(chains[k], "shampoo")) p.shape[1][0] = p.shape[1][1] = p.shape[2][0] = 9;
        outcome alone = {0};
        assert_int_equal(steps_of(CTX(state), &p, NULL, NULL, &alone), GD_OK);
        checkpoint c = {.of = &p, .path = path, .want = &alone, .options = gd_distribute_defaults()};
        c.params = malloc(alone.params_bytes);
        for (int n = 0; n < COUNT_OF(sizes); n++) {
            c.options.shard = n % 2 ? GD_SHARD_GRADIENTS : GD_SHARD_STATE;
            c.in_archive = n % 2 != k % 2;
            run_steps(CTX(state), sizes[n], &c, 0, 2);
            for (int m = 0; m < COUNT_OF(sizes); m++) run_steps(CTX(state), sizes[m], &c, 2, STEPS);
        }
        free(c.params);
        drop(&alone);
    }
    (void)remove(path);
}

/* ---- all of them in one launch ---- */

enum { MOST_CASES = 1000 };
static struct {
    problem of;
    char chain[500];
    outcome alone;
} cases[MOST_CASES];
static int count_of_cases;
static gd_ctx *the_ctx;

static void add_case(const char *text, bool closure, problem p)
{
    assert_true(count_of_cases < MOST_CASES);
    char *chain = cases[count_of_cases].chain;
    (void)snprintf(chain, sizeof cases->chain, closure ? "%s" : "%s | lr(0.01)", text);
    p.chain = chain;
    cases[count_of_cases].of = p;
    (void)!steps_of(the_ctx, &cases[count_of_cases].of, NULL, NULL, &cases[count_of_cases].alone);
    count_of_cases++;
}

static void drop_cases(void)
{
    for (int i = 0; i < count_of_cases; i++) drop(&cases[i].alone);
    count_of_cases = 0;
}

static bool same_bytes(const char *a, size_t bytes, const char *b, size_t others)
{
    return bytes == others && (!bytes || !memcmp(a, b, bytes));
}

/* The first difference from one process; NULL: none. */
static const char *difference(const outcome *got, const outcome *want)
{
    if (got->status != want->status) return "outcome";
    for (int i = 0; i < STEPS && !got->status; i++)
        if (memcmp(&got->loss[i], &want->loss[i], sizeof(double))) return "loss";
    if (!same_bytes(got->params, got->params_bytes, want->params, want->params_bytes)) return "parameters";
    return same_bytes(got->state, got->state_bytes, want->state, want->state_bytes) ? NULL : "state";
}

static gd_status run_cases(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    for (int i = 0; i < count_of_cases; i++) {
        outcome got = {0};
        (void)!steps_of(ctx, &cases[i].of, w, user, &got);
        const char *what = difference(&got, &cases[i].alone);
        gd_status status = what ? gd_fail(ctx, GD_INTERNAL, "%s: another %s (%s)", cases[i].chain, what,
                                          got.why)
                                : GD_OK;
        drop(&got);
        if (status) return status;
    }
    return GD_OK;
}

static void compare(const int *ranks, int sizes, gd_shard least, gd_shard most)
{
    gd_distribute_options options = gd_distribute_defaults();
    options.bucket = 50000; /* a tensor goes in portions, others together */
    for (int i = 0; i < sizes; i++)
        for (int shard = (int)least; shard <= (int)most; shard++) {
            char name[16];
            options.shard = (gd_shard)shard;
            (void)snprintf(name, sizeof name, "threads:%d", ranks[i]);
            if (gd_world_run(the_ctx, name, NULL, run_cases, &options))
                fail_msg("%s, shard %d: %s", name, shard, gd_error_text(the_ctx));
        }
    drop_cases();
}

/* ---- every link ---- */

/* One text a link; which Hessian a child has changes nothing about who does what. */
static void each_link(void (*fn)(const gd_link_class *cls, const char *text))
{
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i += test_share()) {
        char text[400];
        link_text(all[i], NULL, text, sizeof text);
        if (strcmp(all[i]->name, "chain")) fn(all[i], text);
    }
}

/* Long enough that several ranks have a shard of a tensor. */
static void long_ones(const gd_link_class *cls, const char *text)
{
    problem p = {.leaves = true, .count = 3, .ndim = {1, 2, 2}, .shape = {{20}, {170, 200}, {30, 40}}};
    bool tensors = cls->spread == GD_SPREAD_TENSOR;
    if (tensors) p.shape[1][0] = p.shape[1][1] = p.shape[2][0] = 9; /* their work grows with the cube */
    bool vector = cls->spread == GD_SPREAD_VECTOR && cls->apply_tensors;
    if ((cls->rule || cls->update_rule || tensors || vector) && !cls->traits.needs_closure)
        add_case(text, false, p);
}

static void every_rule_and_function_of_lists_has_the_same_bits_where_tensors_are_cut(void **state)
{
    static const int ranks[] = {3};
    the_ctx = CTX(state);
    each_link(long_ones);
    compare(ranks, COUNT_OF(ranks), GD_SHARD_NONE, GD_SHARD_GRADIENTS);
}

/* Rules before and behind links that work on whole tensors, norms over all, other chains for other parameters. */
static void chains_with_links_over_whole_tensors_have_the_same_bits(void **state)
{
    static const int ranks[] = {1, 2, 3, 4, 8};
    static const char *const chains[] = {
        "clip_norm(1, dim=\"global\") | nag(0.9) | orthogonalize | clip_norm(1, dim=\"global\") | adam",
        "muon(0.01)",
        "split(\"axes>=2\", [clip_norm(1, dim=\"global\") | shampoo(update_freq=2, max_dim=30)], normalize(dim=\"global\"))",
        "shampoo(inner=heavy_ball, max_dim=30) | dual_norm_correction | adafactor",
        "adam | orthogonalize(target=\"grad\") | soap(precond_freq=2, max_dim=30) | lbfgs",
        "graft([orthogonalize | adam]) | adagrad(inner=orthogonalize) | weight_decay(0.01)",
        "split(\"axes>=2\", [soap(max_dim=30) | lion], [lbfgs | clip_value(1)]) | adam(state=\"8bit\")",
        "soap_basis(adam, precond_freq=2, max_dim=30) | lion",
        "lbfgs(history_size=2)",
        "normalize | lsr1(history_size=3) | adam",
        "split(\"axes>=2\", fletcher_reeves, [adam | barzilai_borwein(type=\"short\")])",
        "polyak_step_size | hager_zhang(restart_interval=3) | backtracking",
        "clip_norm(1, dim=\"global\") | dyhs | bb_stab(inf_iters=1) | adam",
        "adgd(use_grad=false) | orthogonalize | polak_ribiere(inner=adam) | adgd",
    };
    problem p = {.count = 4, .ndim = {2, 1, 3, 2}, .shape = {{15, 20}, {17000}, {6, 5, 7}, {12, 30}}};
    the_ctx = CTX(state);
    for (int i = 0; i < COUNT_OF(chains); i++) {
        p.leaves = i % 2 == 0 || i == 1;
        add_case(chains[i], false, p);
        if (cases[i].alone.status) fail_msg("%s: %s", chains[i], cases[i].alone.why);
    }
    compare(ranks, COUNT_OF(ranks), GD_SHARD_STATE, GD_SHARD_GRADIENTS);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(what_n_ranks_saved_m_ranks_load),
        TEST(chains_with_links_over_whole_tensors_have_the_same_bits),
        TEST(every_rule_and_function_of_lists_has_the_same_bits_where_tensors_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
