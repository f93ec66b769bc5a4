/* What bench/world.c measures in several processes: started by an MPI launcher, prints numbers for it from rank 0.
 *
 *     mpirun -n 2 gradus_bench_ranks sums 25000000       seconds of an exact sum of that many f32, and of MPI_Allreduce in place
 *     mpirun -n 2 gradus_bench_ranks wires               seconds a message of nothing takes, bytes per second of long ones, seconds of
 *                                                        an exact sum of one number and of MPI_Allreduce of one
 *     mpirun -n 2 gradus_bench_ranks steps               seconds of a training step, state whole, state shared, gradients shared
 *     mpirun -n 2 gradus_bench_ranks adam 8000000        the same of an optimizer's step over that many parameters in 32 tensors
 *
 * What is compared takes turns, between barriers. */
#include <gradus/gradus.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST   25  /* rounds */
#define PERIOD 6.0 /* seconds that one comparison may take */

typedef void (*action)(void *arg);

static void check(gd_ctx *ctx, bool fine)
{
    if (fine && !gd_error(ctx)) return;
    fprintf(stderr, "%s\n", gd_error_text(ctx));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Seconds from a barrier until the last rank is through. */
static double timed(action fn, void *arg)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double took, begun = MPI_Wtime();
    fn(arg);
    double own = MPI_Wtime() - begun;
    MPI_Allreduce(&own, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return took;
}

/* Medians of actions that take turns; the first round is not counted. */
static void compare(action fn, void *const *arg, int count, double *median)
{
    double took[4][MOST], begun = MPI_Wtime();
    int rounds = 0, more = 1;
    for (int i = 0; i < count; i++) (void)timed(fn, arg[i]);
    while (more) {
        for (int i = 0; i < count; i++) took[i][rounds] = timed(fn, arg[i]);
        rounds++;
        more = rounds < MOST && (rounds < 5 || MPI_Wtime() - begun < PERIOD);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; i < count; i++) {
        qsort(took[i], (size_t)rounds, sizeof **took, by_size);
        median[i] = took[i][rounds / 2];
    }
}

static void tell(const double *number, int count)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < count && rank == 0; i++) printf("%.9g%s", number[i], i + 1 < count ? " " : "\n");
}

/* ---- sums ---- */

typedef struct sum {
    gd_world *world; /* NULL: by MPI */
    gd_tensor *x;
} sum;

static void add_up(void *arg)
{
    sum *s = arg;
    if (s->world)
        check(gd_world_ctx(s->world), gd_world_all_reduce(s->world, s->x, GD_REDUCE_EXACT) == GD_OK);
    else
        MPI_Allreduce(MPI_IN_PLACE, gd_data_mut(s->x), (int)gd_numel(s->x), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
}

static void sums(gd_world *w, int64_t numel, double *median)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *x = gd_zeros(ctx, GD_F32, 1, &numel), *y = gd_zeros(ctx, GD_F32, 1, &numel);
    check(ctx, x && y);
    sum ours = {w, x}, theirs = {NULL, y};
    compare(add_up, (void *[]){&ours, &theirs}, 2, median);
    gd_release(x);
    gd_release(y);
}

/* ---- wires ---- */

/* Seconds that one message takes from rank 0 to rank 1. */
static double one_way(int bytes, int rounds)
{
    char *data = calloc(1, (size_t)bytes + 1);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int i = 0; i < rounds && rank < 2; i++) {
        if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(data, bytes, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    free(data);
    return (MPI_Wtime() - begun) / (2 * rounds);
}

static void wires(gd_world *w)
{
    enum { LONG = 1 << 25 };
    double number[4];
    (void)one_way(0, 100);
    number[0] = one_way(0, 2000);
    (void)one_way(LONG, 1);
    number[1] = LONG / one_way(LONG, 10);
    sums(w, 1, number + 2);
    tell(number, 4);
}

/* ---- training ---- */

enum { BATCH = 1024, INPUTS = 784, HIDDEN = 256, CLASSES = 10, MICROBATCH = BATCH / 8, LAYERS = 32 };

typedef struct training {
    gd_ctx *ctx;
    gd_optimizer *opt;
    gd_module *net;
    gd_tensor *x, *classes, *grad[LAYERS], *param[LAYERS];
    gd_batch batch;
} training;

static gd_tensor *mean_loss(void *user, int64_t first, int64_t count)
{
    training *t = user;
    gd_tensor *x = gd_slice(t->x, "0", first, first + count, 1),
              *classes = gd_slice(t->classes, "0", first, first + count, 1);
    return gd_cross_entropy(gd_module_call(t->net, x), classes);
}

static bool share(training *t, gd_world *w, gd_shard shard)
{
    gd_distribute_options o = gd_distribute_defaults();
    o.shard = shard;
    gd_status status = gd_optimizer_distribute(t->opt, w, &o);
    if (status == GD_NOT_IMPLEMENTED) gd_clear_error(t->ctx);
    check(t->ctx, status == GD_OK || status == GD_NOT_IMPLEMENTED);
    return status == GD_OK;
}

static void train_step(void *arg)
{
    training *t = arg;
    gd_scope_begin(t->ctx);
    check(t->ctx, gd_optimizer_step(t->opt, &(gd_objective){.batch = &t->batch}, NULL) == GD_OK);
    gd_scope_end(t->ctx);
}

static training open_training(gd_world *w)
{
    gd_ctx *ctx = gd_world_ctx(w);
    training t = {.ctx = ctx};
    int64_t classes[BATCH];
    for (int i = 0; i < BATCH; i++) classes[i] = i * 7 % CLASSES;
    gd_seed(ctx, 1);
    t.x = gd_rand(ctx, GD_F32, 2, (int64_t[]){BATCH, INPUTS});
    t.classes = gd_from_data(ctx, GD_I64, 1, (int64_t[]){BATCH}, classes);
    t.net = gd_mlp_new(ctx, (int64_t[]){INPUTS, HIDDEN, CLASSES}, 3, NULL);
    t.opt = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.001)"));
    check(ctx, t.opt && gd_optimizer_add_module(t.opt, t.net, NULL, NULL) == GD_OK);
    t.batch = (gd_batch){.rows = BATCH, .microbatch = MICROBATCH, .world = w, .loss = mean_loss};
    return t;
}

/* Gradients that are this rank's share lie on the parameters: the step adds those of all. */
static void adam_step(void *arg)
{
    training *t = arg;
    for (int i = 0; i < LAYERS; i++) check(t->ctx, gd_set_grad(t->param[i], t->grad[i]) == GD_OK);
    check(t->ctx, gd_optimizer_step(t->opt, NULL, NULL) == GD_OK);
}

static training open_adam(gd_world *w, int64_t numel)
{
    gd_ctx *ctx = gd_world_ctx(w);
    training t = {.ctx = ctx};
    int64_t layer = (numel + LAYERS - 1) / LAYERS;
    t.opt = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.001)"));
    check(ctx, t.opt != NULL);
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "p%d", i);
        t.param[i] = gd_require_grad(gd_zeros(ctx, GD_F32, 1, &layer));
        t.grad[i] = gd_zeros(ctx, GD_F32, 1, &layer); /* sums that replace them stay what they are */
        check(ctx, gd_optimizer_add(t.opt, name, t.param[i]) == GD_OK);
    }
    return t;
}

static void close_training(training *t)
{
    gd_optimizer_free(t->opt);
    gd_module_release(t->net);
    gd_release(t->x);
    gd_release(t->classes);
    for (int i = 0; i < LAYERS; i++) {
        gd_release(t->param[i]);
        gd_release(t->grad[i]);
    }
}

static void steps(gd_world *w, int64_t numel)
{
    training t[3];
    double median[3];
    int modes = 0;
    bool more = true;
    for (int i = 0; i < 3; i++) {
        t[i] = numel ? open_adam(w, numel) : open_training(w);
        t[i].batch.user = &t[i];
        more = more && share(&t[i], w, (gd_shard)i);
        modes += more;
    }
    compare(numel ? adam_step : train_step, (void *[]){&t[0], &t[1], &t[2]}, modes, median);
    tell(median, modes);
    for (int i = 0; i < 3; i++) close_training(&t[i]);
}

int main(int argc, char **argv)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_world *w = gd_world_open(ctx, "mpi", NULL);
    const char *what = argc > 1 ? argv[1] : "";
    int64_t numel = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    double median[2];
    check(ctx, w != NULL);
    if (!strcmp(what, "sums") && numel) {
        sums(w, numel, median);
        tell(median, 2);
    } else if (!strcmp(what, "wires")) {
        wires(w);
    } else if (!strcmp(what, "steps") || (!strcmp(what, "adam") && numel)) {
        steps(w, numel);
    } else {
        fprintf(stderr, "gradus_bench_ranks sums NUMEL | wires | steps | adam NUMEL\n");
    }
    gd_world_free(w);
    gd_ctx_free(ctx);
    MPI_Finalize();
    return 0;
}
