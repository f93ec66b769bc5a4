/* Every link of the table in steps that all ranks of a world make together: parameters, losses and the file of the state have the
 * bytes of one process.  One launch loops over all:
 *
 *     mpirun -n 3 test_world_links mpi FOLDER */
#include <gradus/gradus.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 3, MOST = 3 };

typedef struct run {
    gd_optimizer *o;
    gd_tensor *p[MOST];
    int count;
    double loss[STEPS];
} run;

static gd_tensor *loss_of(void *user)
{
    const run *r = user;
    gd_tensor *sum = NULL;
    for (int i = 0; i < r->count; i++) {
        gd_tensor *square = gd_square(gd_add_scalar(r->p[i], -0.3 * (i + 1)));
        gd_tensor *part = gd_sum(gd_add(square, gd_mul_scalar(gd_square(square), 0.1)), NULL, false);
        sum = sum ? gd_add(sum, part) : part;
    }
    return sum;
}

static gd_status open_run(gd_ctx *ctx, const gd_link_class *cls, run *r)
{
    static const char *const names[MOST] = {"a", "b", "c"};
    static const int64_t shape[MOST][2] = {{2, 3}, {3, 1}, {170, 100}};
    *r = (run){.count = cls->rule ? MOST : MOST - 1}; /* matrices of all parameters stay small */
    gd_seed(ctx, 3);
    gd_link *chain = gd_chain(ctx, cls->example ? cls->example : cls->name);
    r->o = chain ? gd_optimizer_new(ctx, chain) : NULL;
    gd_status status = r->o ? GD_OK : gd_error(ctx);
    for (int i = 0; i < r->count && !status; i++) {
        gd_tensor *first = gd_mul_scalar(gd_arange(ctx, GD_F64, 0, (double)(shape[i][0] * shape[i][1]), 1),
                                         0.7);
        first = gd_reshape(gd_cast(gd_sin(first), GD_F32), 2, shape[i]);
        r->p[i] = gd_require_grad(gd_detach(gd_copy(first)));
        status = r->p[i] ? gd_optimizer_add(r->o, names[i], r->p[i]) : gd_error(ctx);
    }
    return status;
}

static gd_status steps_of(gd_ctx *ctx, const gd_link_class *cls, gd_world *w, gd_shard shard,
                          const char *path, run *r)
{
    gd_status status = open_run(ctx, cls, r);
    gd_objective objective = {.loss = loss_of, .user = r};
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = shard;
    if (w) status = gd_world_agree(w, status);
    if (!status && w) status = gd_optimizer_distribute(r->o, w, &options);
    for (int i = 0; i < STEPS && !status; i++) {
        gd_step_info info;
        status = gd_optimizer_step(r->o, &objective, &info);
        r->loss[i] = info.loss;
    }
    return status ? status : gd_optimizer_save(r->o, path);
}

static bool same_files(const char *a, const char *b)
{
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    int c = 0, d = 0;
    while (f && g && c == d && c != EOF) {
        c = getc(f);
        d = getc(g);
    }
    bool same = f && g && c == d;
    if (f) fclose(f);
    if (g) fclose(g);
    return same;
}

/* What is another than with one process; NULL: nothing. */
static const char *difference(const run *a, const run *b, const char *file, const char *other, bool timed)
{
    if (memcmp(a->loss, b->loss, sizeof a->loss)) return "losses";
    for (int i = 0; i < a->count; i++)
        if (memcmp(gd_data(a->p[i]), gd_data(b->p[i]), (size_t)gd_numel(a->p[i]) * sizeof(float)))
            return "parameters";
    return timed || same_files(file, other) ? NULL : "state";
}

static gd_status compare(gd_world *w, const gd_link_class *cls, gd_shard shard, const char *folder)
{
    gd_ctx *ctx = gd_world_ctx(w);
    char alone[300], together[300];
    (void)snprintf(alone, sizeof alone, "%s/links-alone-%d", folder, gd_world_rank(w));
    (void)snprintf(together, sizeof together, "%s/links-together", folder);
    run a = {0}, b = {0};
    gd_scope_begin(ctx);
    gd_status one = steps_of(ctx, cls, NULL, GD_SHARD_NONE, alone, &a);
    gd_clear_error(ctx);
    gd_status all = steps_of(ctx, cls, w, shard, together, &b);
    gd_clear_error(ctx);
    bool timed = strstr(cls->name, "seconds"); /* it keeps a time */
    const char *what = one != all ? "outcome" : one ? NULL : difference(&a, &b, alone, together, timed);
    gd_status status = what ? gd_fail(ctx, GD_INTERNAL, "%s: another %s", cls->name, what) : GD_OK;
    gd_optimizer_free(a.o);
    gd_optimizer_free(b.o);
    gd_scope_end(ctx);
    (void)remove(alone);
    status = gd_world_agree(w, status); /* nobody writes the file while others read it */
    return status;
}

static gd_status every_link(gd_world *w, void *user)
{
    int count = 0;
    const char *share = getenv("GD_TEST_SHARE");
    int each = share && atoi(share) > 0 ? atoi(share) : 1;
    const gd_link_class *const *all = gd_link_classes(&count);
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i += each)
        if (strcmp(all[i]->name, "chain")) status = compare(w, all[i], (gd_shard)(i / each % 3), user);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "test_world_links WORLD FOLDER\n");
        return 2;
    }
    gd_options options = gd_options_default();
    options.threads = 1;
    options.compile = false;
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_status status = gd_world_run(ctx, argv[1], NULL, every_link, argv[2]);
    if (status) fprintf(stderr, "%s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status != GD_OK;
}
