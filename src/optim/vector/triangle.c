#include "optim/vector/triangle.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define AT_ONCE 4096 /* numbers of a block: they stay in the first cache */
#define SHARD   1024 /* rows that are worth a separate triangle */

/* The norm of rows numbers and alpha, also where their squares over- or underflow. */
static double norm_with(const gd_vector_loops *loops, double alpha, double *x, int64_t rows)
{
    double sum = loops->dot(x, x, rows);
    if (sum > 1e-280 && sum < 1e280) return hypot(alpha, sqrt(sum));
    double most = loops->largest(x, NULL, rows), squares = 0;
    if (most == 0 || !isfinite(most)) return most == 0 ? fabs(alpha) : most + sum;
    for (int64_t i = 0; i < rows; i++) squares += (x[i] / most) * (x[i] / most);
    return hypot(alpha, most * sqrt(squares));
}

/* The reflection of column k: v = (1, x / v0) with H (alpha, x) = (beta, 0), H = I - tau v v^T. */
static void reflect(const gd_vector_loops *loops, double *triangle, int64_t n, double *const *column,
                    int64_t k, int64_t rows)
{
    double *r = triangle + k * n, *x = column[k], alpha = r[k], norm = norm_with(loops, alpha, x, rows);
    /* zeros, or too small to matter, or to divide by */
    if (norm == fabs(alpha) || norm < 4 * DBL_MIN) return;
    double beta = alpha > 0 ? -norm : norm, v0 = alpha - beta, tau = -v0 / beta;
    loops->scale(x, x, 1 / v0, rows);
    r[k] = beta;
    for (int64_t j = k + 1; j < n; j++) {
        double w = tau * (r[j] + loops->dot(x, column[j], rows));
        r[j] -= w;
        loops->move(column[j], column[j], x, w, rows);
    }
}

void gd__triangle_add(const gd_vector_loops *loops, double *triangle, int64_t n, double *const *column,
                      int64_t rows)
{
    for (int64_t k = 0; k < n; k++) reflect(loops, triangle, n, column, k, rows);
}

void gd__triangle_damp(const gd_vector_loops *loops, double *triangle, int64_t n, double *room,
                       double **column, double by)
{
    memset(room, 0, (size_t)(n * n) * sizeof *room);
    for (int64_t j = 0; j < n; j++) column[j] = room + j * n;
    /* row k of the diagonal is zeros in all columns before: k + 1 rows have something in column k */
    for (int64_t k = 0; k + 1 < n; k++) {
        column[k][k] = by;
        reflect(loops, triangle, n, column, k, k + 1);
    }
}

void gd__triangle_join(const gd_vector_loops *loops, double *triangle, const double *other, int64_t n,
                       double *room, double **column)
{
    for (int64_t j = 0; j < n; j++) {
        column[j] = room + j * n;
        for (int64_t i = 0; i < n; i++) column[j][i] = other[i * n + j];
    }
    gd__triangle_add(loops, triangle, n, column, n);
}

/* ---- rows in memory ---- */

typedef struct tall {
    const gd_vector_loops *loops;
    const double *a, *b;
    int64_t m, n, wide, shards, block; /* rows, columns of A, of both; rows at a time */
    double *triangle, *room;           /* of each shard: [wide, wide]; [wide, block] */
    double **column;                   /* [wide] */
} tall;

static void run_shard(void *arg, int64_t s)
{
    const tall *t = arg;
    double *triangle = t->triangle + s * t->wide * t->wide, *room = t->room + s * t->wide * t->block;
    double **column = t->column + s * t->wide;
    int64_t end = t->m * (s + 1) / t->shards;
    memset(triangle, 0, (size_t)(t->wide * t->wide) * sizeof *triangle);
    for (int64_t j = 0; j < t->wide; j++) column[j] = room + j * t->block;
    for (int64_t at = t->m * s / t->shards; at < end; at += t->block) {
        int64_t rows = end - at < t->block ? end - at : t->block;
        const double *from = t->a + at * t->n;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < t->n; j++) column[j][i] = from[i * t->n + j];
        if (t->b) memcpy(column[t->n], t->b + at, (size_t)rows * sizeof **column);
        gd__triangle_add(t->loops, triangle, t->wide, column, rows);
    }
}

static gd_tensor *join_shards(const tall *t, gd_ctx *ctx)
{
    for (int64_t s = 1; s < t->shards; s++)
        gd__triangle_join(t->loops, t->triangle, t->triangle + s * t->wide * t->wide, t->wide, t->room,
                          t->column);
    return gd_from_f64(ctx, GD_F64, 2, (int64_t[]){t->wide, t->wide}, t->triangle);
}

gd_tensor *gd__triangle_of_rows(gd_tensor *a, gd_tensor *b)
{
    gd_ctx *ctx = gd_tensor_ctx(a);
    gd_scope_begin(ctx);
    gd_tensor *rows = gd_contiguous(a), *right = b ? gd_contiguous(b) : NULL, *out = NULL;
    tall t = {.loops = gd__loops_for(ctx, GD_F64), .m = a->size[0], .n = a->size[1]};
    t.wide = t.n + (b != NULL);
    t.block = AT_ONCE / t.wide < 32 ? 32 : AT_ONCE / t.wide;
    if (t.block < t.wide) t.block = t.wide; /* joining needs that much room */
    int64_t least = 4 * t.wide < SHARD ? SHARD : 4 * t.wide;
    t.shards = t.m / least < 1 ? 1 : t.m / least < GD_ROW_SHARDS ? t.m / least : GD_ROW_SHARDS;
    size_t numbers = (size_t)(t.shards * t.wide) * (size_t)(t.wide + t.block) * sizeof(double),
           pointers = (size_t)(t.shards * t.wide) * sizeof(double *);
    if (rows && (right || !b)) {
        t.a = gd_data(rows);
        t.b = right ? gd_data(right) : NULL;
        t.triangle = gd__alloc(ctx, numbers);
        t.column = gd__alloc(ctx, pointers);
        if (t.triangle && t.column) {
            t.room = t.triangle + t.shards * t.wide * t.wide;
            gd__parallel(ctx, t.shards, run_shard, &t);
            out = join_shards(&t, ctx);
        }
        gd__free(ctx, t.triangle, numbers);
        gd__free(ctx, t.column, pointers);
    }
    gd_keep(out);
    gd_scope_end(ctx);
    return out;
}
