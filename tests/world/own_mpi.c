/* A program that has called MPI_Init_thread itself.  Without a word: worlds over its MPI, two at a time and one after the other,
 * collectives of its own between them, and an MPI that it ends before the world.  "alone": one process does not open the world. */
#include <gradus/gradus.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, gd_error_text(ctx)); \
            return 1;                                                                        \
        }                                                                                    \
    } while (0)

/* What MPI keeps of the world that is freed after it has ended: its communicator, which nobody can give back any more, and the
 * attributes that this one shares with the first. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:ompi_comm_idup_with_info\nleak:ompi_attr_create_predefined\n";
}

static int between_its_own(gd_ctx *ctx, gd_world *world, int rank, int size)
{
    gd_tensor *x = gd_full(ctx, GD_F32, 1, (int64_t[]){100000}, rank + 1);
    gd_exchange *work = gd_world_start(world, &(gd_collective){.kind = GD_ALL_REDUCE, .tensor = x});
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size - 1) / 2);
    CHECK(gd_world_wait(work) == GD_OK);
    CHECK(((const float *)gd_data(x))[99999] == (float)(size * (size + 1) / 2));
    gd_release(x);
    return 0;
}

int main(int argc, char **argv)
{
    int level, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_world_options options = gd_world_defaults();
    if (argc > 1) {
        options.timeout = 0.5;
        if (rank) sleep(20);
        return gd_world_open(ctx, "mpi", &options) ? 0 : 1;
    }
    for (int i = 0; i < 3; i++) { /* it stays the program's: worlds come and go */
        gd_world *one = gd_world_open(ctx, "mpi", NULL), *two = gd_world_open(ctx, "mpi", NULL);
        CHECK(one && two && gd_world_rank(one) == rank && gd_world_size(two) == size);
        if (between_its_own(ctx, two, rank, size) || between_its_own(ctx, one, rank, size)) return 1;
        gd_world_free(one);
        if (between_its_own(ctx, two, rank, size)) return 1;
        gd_world_free(two);
    }
    gd_world *world = gd_world_open(ctx, "mpi", NULL);
    CHECK(world && gd_world_barrier(world) == GD_OK);
    MPI_Finalize();
    CHECK(gd_world_barrier(world) == GD_STATE && strstr(gd_error_text(ctx), "has ended MPI (MPI_Finalize)"));
    gd_clear_error(ctx);
    gd_world_free(world);
    CHECK(!gd_world_open(ctx, "mpi", NULL) && gd_error(ctx) == GD_STATE);
    gd_ctx_free(ctx);
    return 0;
}
