/* Four ranks compute together: a sum over a batch whose bits do not depend on their number, a transposed matrix, shards of a sum.
 *
 *   cc ranks.c $(pkg-config --cflags --libs gradus) -lm && ./a.out [WORLD]       threads:4 by default; self, mpi
 *
 * With mpi:  mpirun -n 4 ./a.out mpi */
#include <gradus/gradus.h>

#include <math.h>
#include <stdio.h>

#define MICROBATCHES 8
#define ROWS         4096 /* of a microbatch */

/* The mean of exp(-x^2) over the rows of all microbatches, by the ranks that have them. */
static gd_status mean_over_the_batch(gd_world *world, double *mean)
{
    gd_ctx *ctx = gd_world_ctx(world);
    gd_tensor *sum = gd_zeros(ctx, GD_F32, 0, NULL);
    gd_microbatches *parts = gd_microbatches_new(world, sum, MICROBATCHES);
    int64_t first, count;
    gd_status status = gd_error(ctx);
    gd_world_share(world, MICROBATCHES, &first, &count);
    for (int64_t b = first; b < first + count && !status; b++) {
        gd_scope_begin(ctx);
        double from = (double)b * ROWS / (MICROBATCHES * ROWS),
               to = (double)(b + 1) * ROWS / (MICROBATCHES * ROWS);
        gd_tensor *x = gd_linspace(ctx, GD_F32, from, to, ROWS);
        status = gd_microbatches_add(parts, gd_sum(gd_exp(gd_neg(gd_square(x))), NULL, false));
        gd_scope_end(ctx);
    }
    if (!status) status = gd_microbatches_sum(parts, sum);
    if (!status) *mean = gd_item(sum) / (MICROBATCHES * ROWS);
    gd_microbatches_free(parts);
    gd_release(sum);
    return status;
}

/* Rank r has row r of a square matrix with as many rows as ranks; then it has column r. */
static gd_status transposed(gd_world *world, gd_tensor *row, gd_tensor *column)
{
    int64_t cuts[65];
    int size = gd_world_size(world);
    for (int r = 0; r <= size; r++) cuts[r] = r;
    return gd_world_all_to_all(world, row, cuts, column, cuts);
}

static gd_status work(gd_world *world, void *user)
{
    double *mean = user;
    gd_ctx *ctx = gd_world_ctx(world);
    int rank = gd_world_rank(world), size = gd_world_size(world);
    if (size > 64) return gd_fail(ctx, GD_ARGUMENT, "ranks: at most 64");
    gd_scope_begin(ctx);
    double mine = 0;
    gd_tensor *row = gd_add_scalar(gd_arange(ctx, GD_F64, 0, size, 1), 10 * rank),
              *column = gd_zeros(ctx, GD_F64, 1, (int64_t[]){size});
    gd_tensor *total = gd_zeros(ctx, GD_F64, 1, (int64_t[]){1});
    gd_status status = mean_over_the_batch(world, &mine);
    if (!status) status = transposed(world, row, column);
    if (!status) status = gd_world_reduce_scatter(world, row, total); /* element r of the sum of all rows */
    if (!status) status = gd_world_barrier(world);
    for (int64_t r = 0; r < size && !status; r++)
        if (gd_at(column, &r) != (double)(10 * r + rank))
            status = gd_fail(ctx, GD_STATE, "ranks: not the column");
    double wanted = 5.0 * size * (size - 1) + size * rank;
    if (!status && gd_at(total, (int64_t[]){0}) != wanted)
        status = gd_fail(ctx, GD_STATE, "ranks: not the sum");
    if (rank == 0) *mean = mine;
    gd_scope_end(ctx);
    return status;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "threads:4";
    double alone = 0, together = 0;
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_status status = gd_world_run(ctx, name, NULL, work, &together);
    if (!status && argc < 2) {
        status = gd_world_run(ctx, "self", NULL, work, &alone);
        printf("mean of exp(-x^2) over 0 to 1: %.9g, alone %.9g: %s\n", together, alone,
               together == alone ? "the same bits" : "different");
    }
    if (status) fprintf(stderr, "ranks: %s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status || (argc < 2 && (together != alone || fabs(together - 0.746824) > 1e-4));
}
