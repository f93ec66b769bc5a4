/* Steps that all ranks of a world make together have the bits of one process: parameters, losses and state of every link of the table
 * and of the models of models.c, for every way to shard.  A launch loops over all of it:
 *
 *     mpirun -n 3 test_world_same_bits mpi 1           with one thread a process
 *     test_world_same_bits threads:4 1 2               a world of threads, whose ranks have one thread, then two
 *
 * GD_TEST_DEVICE=gpu: parameters and data are on that device, or on that of backends/plain.
 *
 * Each link is tried in one of the ways of a launch, in others with other numbers of ranks; with GD_WORLD_ALL=1 in all of them. */
#include "models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5, SHARDS = 3 };

/* What a run came to, to be compared. */
enum { STATUS, LOSSES, PARAMETERS, STATE, NUMBERS };
static const char *const number_names[NUMBERS] = {"outcome", "losses", "parameters", "state"};
typedef struct outcome {
    int64_t number[NUMBERS];
    int64_t kept; /* bytes of state that a rank has while steps are made */
} outcome;

typedef struct trial {
    const char *name, *chain;
    void (*open)(model *m); /* NULL: tensors alone */
    bool large;             /* they are, and are cut */
    bool by_rows;           /* a loss by ranges of rows, else one for all */
    bool timed;             /* it keeps a time */
} trial;

/* ---- a run ---- */

static void mix(int64_t *number, const void *data, size_t bytes)
{
    uint64_t h = (uint64_t)*number;
    for (const unsigned char *at = data, *end = at + bytes; at < end; at++) h = (h ^ *at) * 0x100000001b3u;
    *number = (int64_t)h;
}

static void mix_archive(int64_t *number, gd_archive *a)
{
    for (int64_t i = 0; i < gd_archive_count(a); i++) {
        gd_tensor *t = gd_archive_get(a, i);
        if (t) t = gd_contiguous(gd_to_device(t, gd_device_get(gd_tensor_ctx(t), "cpu")));
        const char *name = gd_archive_name(a, i);
        mix(number, name, strlen(name));
        mix(number, gd_data(t), (size_t)gd_numel(t) * gd_dtype_size(gd_tensor_dtype(t)));
    }
    for (int64_t i = 0; i < gd_archive_meta_count(a); i++) {
        const char *text = gd_archive_meta_text(a, i);
        mix(number, text, strlen(text));
    }
}

static gd_tensor *whole_loss(void *user) { return ((model *)user)->loss(user, 0, MODEL_ROWS); }

static gd_status add_up(gd_optimizer *o, const model *m, bool timed, outcome *out)
{
    gd_ctx *ctx = m->ctx;
    gd_archive *params = m->net ? gd_module_state(m->net) : gd_archive_new(ctx), *state = gd_archive_new(ctx);
    gd_status status = params && state ? gd_optimizer_pack(o, state, NULL) : gd_error(ctx);
    for (int i = 0; i < m->count && !status; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%d", i);
        status = gd_archive_put(params, name, m->p[i]);
    }
    if (!status) mix_archive(&out->number[PARAMETERS], params);
    if (!status && !timed) mix_archive(&out->number[STATE], state);
    gd_archive_free(params);
    gd_archive_free(state);
    return status ? status : gd_error(ctx);
}

/* As gd_explain counts it. */
static int64_t bytes_of_state(gd_optimizer *o)
{
    char text[8192];
    int length = gd_explain(o, false, text, sizeof text);
    const char *at = length > 0 && length < (int)sizeof text ? strstr(text, " bytes per element and step, ")
                                                             : NULL;
    return at ? strtoll(at + 28, NULL, 10) : -1;
}

static gd_status make_steps(const trial *t, model *m, gd_world *w, gd_shard shard, outcome *out)
{
    gd_link *chain = gd_chain(m->ctx, t->chain);
    gd_optimizer *o = chain ? gd_optimizer_new(m->ctx, chain) : NULL;
    gd_batch batch = {
        .rows = MODEL_ROWS, .microbatch = MODEL_MICROBATCH, .world = w, .user = m, .loss = m->loss};
    gd_objective objective = {.user = m, .batch = t->by_rows ? &batch : NULL};
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = shard;
    options.bucket = 50000; /* a tensor goes in portions, others together */
    if (!t->by_rows) objective.loss = whole_loss;
    gd_status status = o ? add_model(o, m) : gd_error(m->ctx);
    if (w) status = gd_world_agree(w, status);
    if (!status && w) status = gd_optimizer_distribute(o, w, &options);
    for (int i = 0; i < STEPS && !status; i++) {
        gd_step_info info;
        status = gd_optimizer_step(o, &objective, &info);
        mix(&out->number[LOSSES], &info.loss, status ? 0 : sizeof info.loss);
    }
    if (!status && t->open) out->kept = bytes_of_state(o);
    if (!status && w) status = gd_optimizer_distribute(o, NULL, NULL); /* all state here again */
    if (!status) status = add_up(o, m, t->timed, out);
    gd_optimizer_free(o);
    return status;
}

static gd_status on_device(model *m)
{
    const char *name = getenv("GD_TEST_DEVICE");
    gd_device *device = name ? gd_device_get(m->ctx, name) : NULL;
    return device ? place_model(m, device) : gd_error(m->ctx);
}

/* w NULL: alone. */
static outcome run(gd_ctx *ctx, const trial *t, gd_world *w, gd_shard shard)
{
    outcome out = {0};
    model m = {.ctx = ctx};
    gd_scope_begin(ctx);
    gd_seed(ctx, 3);
    if (t->open)
        t->open(&m);
    else
        open_tensors(&m, t->large);
    gd_status status = on_device(&m);
    out.number[STATUS] = status ? status : make_steps(t, &m, w, shard, &out);
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    return out;
}

/* ---- the comparison ---- */

/* What one process has, from rank 0 to all.  Links that cannot do with ranges of rows have a loss. */
static gd_status run_alone(gd_world *w, trial *t, outcome *want)
{
    gd_ctx *ctx = gd_world_ctx(w);
    if (!gd_world_rank(w)) {
        *want = run(ctx, t, NULL, GD_SHARD_NONE);
        if (want->number[STATUS] && !t->open) {
            t->by_rows = false;
            *want = run(ctx, t, NULL, GD_SHARD_NONE);
        }
    }
    int64_t told[NUMBERS + 2];
    memcpy(told, want->number, sizeof want->number);
    told[NUMBERS] = t->by_rows;
    told[NUMBERS + 1] = want->kept;
    gd_tensor *all = gd_from_data(ctx, GD_I64, 1, (int64_t[]){NUMBERS + 2}, told);
    gd_status status = gd_world_broadcast(w, all, 0);
    if (status) return status;
    memcpy(want->number, gd_data(all), sizeof want->number);
    t->by_rows = ((const int64_t *)gd_data(all))[NUMBERS];
    want->kept = ((const int64_t *)gd_data(all))[NUMBERS + 1];
    return GD_OK;
}

static gd_status check(gd_world *w, const trial *t, gd_shard shard, const outcome *want, const outcome *got)
{
    static const char *const shards[SHARDS] = {"none", "state", "gradients"};
    for (int i = 0; i < NUMBERS; i++)
        if (got->number[i] != want->number[i])
            return gd_fail(gd_world_ctx(w), GD_INTERNAL, "%s, shard %s, %d threads: another %s%s", t->name,
                           shards[shard], gd_ctx_threads(gd_world_ctx(w)), number_names[i],
                           t->by_rows ? " (by rows)" : "");
    return GD_OK;
}

/* Ranks that share state have no more of it than one alone, all together. */
static gd_status check_shares(gd_world *w, const trial *t, gd_shard shard, int64_t want, int64_t got)
{
    gd_tensor *all = gd_full(gd_world_ctx(w), GD_I64, 0, NULL, (double)got);
    gd_status status = gd_world_all_reduce(w, all, GD_REDUCE_EXACT);
    int64_t sum = status ? 0 : *(const int64_t *)gd_data(all);
    if (status || sum == want) return status;
    return gd_fail(gd_world_ctx(w), GD_INTERNAL,
                   "%s, shard %d: ranks keep %lld bytes of state, one alone %lld", t->name, (int)shard,
                   (long long)sum, (long long)want);
}

/* Which ways of launch `at`, of `ways` of a world, a trial takes; bits. */
static int chosen(int index, int at, int ways)
{
    if (getenv("GD_WORLD_ALL")) return (1 << SHARDS) - 1;
    int way = index % ways;
    return way / SHARDS == at ? 1 << way % SHARDS : 0;
}

/* ---- all of them ---- */

typedef struct launch {
    int at, of;       /* which of the launches with this number of ranks it is */
    int tried, fails; /* links at rank 0, and those that fail alone: they tell nothing */
} launch;

static gd_status compare(gd_world *w, trial t, int shards, launch *l)
{
    gd_ctx *ctx = gd_world_ctx(w);
    outcome want = {0};
    if (!shards) return GD_OK;
    gd_scope_begin(ctx);
    gd_status status = run_alone(w, &t, &want);
    if (!gd_world_rank(w)) {
        l->tried++;
        l->fails += want.number[STATUS] != GD_OK;
        if (want.number[STATUS] && getenv("GD_WORLD_TELL")) fprintf(stderr, "%s fails alone\n", t.name);
    }
    for (int s = 0; s < SHARDS && !status; s++) {
        if (!(shards >> s & 1)) continue;
        outcome got = run(ctx, &t, w, (gd_shard)s);
        status = gd_world_agree(w, check(w, &t, (gd_shard)s, &want, &got));
        if (!status && t.open && s) status = check_shares(w, &t, (gd_shard)s, want.kept, got.kept);
    }
    gd_scope_end(ctx);
    return status;
}

/* Every how many-th link is tried. */
static int share_of_links(void)
{
    const char *share = getenv("GD_TEST_SHARE");
    return share && atoi(share) > 0 ? atoi(share) : 1;
}

static gd_status every_link(gd_world *w, launch *l)
{
    int count = 0, each = share_of_links(), n = gd_world_size(w) % 8; /* 1, 2, 3, 4, 0 */
    const gd_link_class *const *all = gd_link_classes(&count);
    gd_status status = GD_OK;
    for (int i = n % each; i < count && !status; i += each) {
        const gd_link_class *cls = all[i];
        trial t = {.name = cls->name,
                   .chain = cls->example ? cls->example : cls->name,
                   .large = cls->rule != NULL,
                   .by_rows = true,
                   .timed = strstr(cls->name, "seconds") != NULL};
        /* with another number of ranks in another way */
        if (strcmp(cls->name, "chain"))
            status = compare(w, t, chosen(i / each + n, l->at, l->of * SHARDS), l);
    }
    if (!status && each == 1 && l->fails * 20 > l->tried) /* of a share all may */
        return gd_fail(gd_world_ctx(w), GD_INTERNAL, "%d of %d links fail alone", l->fails, l->tried);
    return status;
}

static gd_status every_model(gd_world *w, launch *l)
{
    gd_status status = GD_OK;
    for (int i = 0; i < model_count && !status; i++) {
        trial t = {.name = model_classes[i].name,
                   .chain = "clip_norm(1, dim=\"global\") | adam | lr(0.01)",
                   .open = model_classes[i].open,
                   .by_rows = true};
        status = compare(w, t, (1 << SHARDS) - 1, l);
    }
    return status;
}

static gd_status everything(gd_world *w, void *user)
{
    const char *device = getenv("GD_TEST_DEVICE");
    if (device && !gd_device_get(gd_world_ctx(w), device)) return gd_error(gd_world_ctx(w));
    gd_status status = every_model(w, user);
    return status ? status : every_link(w, user);
}

static gd_status run_world(const char *world, int threads, launch *l)
{
    gd_options options = gd_options_default();
    options.threads = threads;
    options.compile = false; /* a compiler would run for every rank */
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_status status = gd_world_run(ctx, world, NULL, everything, l);
    if (status) fprintf(stderr, "%s: %s\n", world, gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status;
}

int main(int argc, char **argv)
{
    gd_status status = GD_OK;
    if (argc < 3) {
        fprintf(stderr, "test_world_same_bits WORLD THREADS...\n");
        return 2;
    }
    launch l = {.of = argc - 2};
    for (; l.at < l.of && !status; l.at++) status = run_world(argv[1], atoi(argv[l.at + 2]), &l);
    return status != GD_OK;
}
