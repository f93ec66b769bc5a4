/* Residuals whose rows live on several ranks: fits and chains have the same bits with any number of them. */
#include "support/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct table {
    gd_tensor *p[3], *data[2]; /* the rows of this rank */
    gd_rows rows;
    int64_t fail_at; /* a row; -1: none */
} table;

/* y = 2 exp(-0.7 x) + 0.3 and noise that is a function of the row */
static double noise(int64_t row) { return 0.1 * sin((double)(row * row % 1009)); }

/* a exp(-b x) + c - y */
static gd_tensor *decay(void *user, gd_tensor *const *p, gd_tensor *const *data, int64_t first)
{
    const table *t = user;
    if (t->fail_at >= first && t->fail_at < first + gd_numel(data[0])) {
        (void)gd_fail(gd_tensor_ctx(p[0]), GD_VALUE, "row %d is broken", (int)t->fail_at);
        return NULL;
    }
    return gd_sub(gd_add(gd_mul(p[0], gd_exp(gd_neg(gd_mul(p[1], data[0])))), p[2]), data[1]);
}

/* The rows of a rank; world NULL: all. */
static gd_status open_table(gd_ctx *ctx, gd_world *world, int64_t count, table *t)
{
    int64_t first, own;
    gd_rows_share(world, count, &first, &own);
    *t = (table){.fail_at = -1};
    for (int i = 0; i < 3; i++) t->p[i] = gd_require_grad(gd_scalar(ctx, GD_F64, i == 2 ? 0 : 1));
    if (gd_error(ctx)) return gd_error(ctx);
    for (int i = 0; i < 2; i++)
        if (!(t->data[i] = gd_empty(ctx, GD_F64, 1, &own))) return gd_error(ctx);
    double *x = gd_data_mut(t->data[0]), *y = gd_data_mut(t->data[1]);
    for (int64_t i = 0; i < own; i++) {
        x[i] = 4.0 * (double)(first + i) / (double)count;
        y[i] = 2 * exp(-0.7 * x[i]) + 0.3 + noise(first + i);
    }
    t->rows = (gd_rows){
        .count = count, .data = t->data, .columns = 2, .user = t, .residuals = decay, .world = world};
    return GD_OK;
}

/* ---- the same bits ---- */

typedef struct rows_case {
    int64_t count;
    const char *chain; /* NULL: gd_least_squares */
    double want[16];
    bool same_alone; /* more than a block: as without a world */
} rows_case;

static gd_status solve(gd_ctx *ctx, table *t, const rows_case *c, double out[16])
{
    memset(out, 0, 16 * sizeof *out);
    if (c->chain) {
        gd_solve_result r;
        TRY(gd_minimize(t->p, 3, &(gd_objective){.rows = &t->rows}, c->chain, NULL, &r));
        out[3] = r.loss;
        out[4] = (double)r.steps;
    } else {
        gd_lsq_options o = gd_lsq_defaults();
        gd_lsq_result r;
        o.rows = &t->rows;
        TRY(gd_least_squares(t->p, 3, NULL, NULL, &o, &r));
        EXPECT(ctx, r.residuals == c->count && r.solve.converged);
        out[3] = r.rss;
        out[4] = (double)r.solve.steps;
        gd_status status = gd_read_f64(r.covariance, out + 5, 9);
        gd_lsq_result_clear(&r);
        TRY(status);
    }
    for (int i = 0; i < 3; i++) out[i] = gd_item(t->p[i]);
    return gd_error(ctx);
}

static gd_status same_bits(gd_world *w, void *user)
{
    rows_case *c = user;
    gd_ctx *ctx = gd_world_ctx(w);
    table t;
    double got[16];
    gd_scope_begin(ctx);
    gd_status status = open_table(ctx, w, c->count, &t);
    if (!status) status = solve(ctx, &t, c, got);
    gd_scope_end(ctx);
    TRY(status);
    if (gd_world_size(w) == 1) memcpy(c->want, got, sizeof got);
    EXPECT(ctx, !memcmp(c->want, got, sizeof got));
    return GD_OK;
}

static void fits_over_ranks_have_the_same_bits_with_1_to_8(void **state)
{
    static const int ranks[] = {1, 2, 3, 4, 8};
    rows_case cases[] = {{.count = 5000, .same_alone = true},
                         {.count = 66001, .same_alone = true}, /* more blocks than shards */
                         {.count = 300},                       /* one block: one rank has it */
                         {.count = 5000, .chain = "gauss_newton | backtracking", .same_alone = true},
                         {.count = 5000, .chain = "lbfgs | strong_wolfe", .same_alone = true}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        rows_case *c = &cases[i];
        for (int k = 0; k < COUNT_OF(ranks); k++) run_in(CTX(state), ranks[k], same_bits, c);
        assert_true(fabs(c->want[0] - 2) < 0.05 && fabs(c->want[1] - 0.7) < 0.05);
        if (!c->same_alone) continue;
        table t;
        double alone[16];
        assert_int_equal(open_table(CTX(state), NULL, c->count, &t), GD_OK);
        assert_int_equal(solve(CTX(state), &t, c, alone), GD_OK);
        assert_memory_equal(alone, c->want, sizeof alone);
    }
}

/* ---- shares ---- */

static gd_status shares(gd_world *w, void *user)
{
    int64_t *ends = user, first, own;
    gd_ctx *ctx = gd_world_ctx(w);
    static const int64_t counts[] = {1, 1024, 1025, 5000, 70001};
    for (int i = 0; i < COUNT_OF(counts); i++) {
        gd_rows_share(w, counts[i], &first, &own);
        EXPECT(ctx, first % 1024 == 0 || first == counts[i]);
        ends[2 * (COUNT_OF(counts) * gd_world_rank(w) + i)] = first;
        ends[2 * (COUNT_OF(counts) * gd_world_rank(w) + i) + 1] = first + own;
    }
    TRY(gd_world_barrier(w));
    for (int i = 0; i < COUNT_OF(counts); i++)
        for (int r = 0; r < 3; r++) { /* one after the other, all of them */
            int64_t before = r ? ends[2 * (COUNT_OF(counts) * (r - 1) + i) + 1] : 0;
            EXPECT(ctx, ends[2 * (COUNT_OF(counts) * r + i)] == before);
            if (r == 2) EXPECT(ctx, ends[2 * (COUNT_OF(counts) * r + i) + 1] == counts[i]);
        }
    return GD_OK;
}

static void every_row_is_of_one_rank(void **state)
{
    int64_t ends[64];
    run_in(CTX(state), 3, shares, ends);
}

/* ---- failures ---- */

static gd_status broken_row(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    table t;
    double out[16];
    gd_scope_begin(ctx);
    TRY(open_table(ctx, w, 5000, &t));
    t.fail_at = 4999;
    gd_status status = solve(ctx, &t, &(rows_case){.count = 5000}, out);
    const char *want = gd_world_rank(w) == 2 ? "row 4999 is broken" : "rank 2 cannot take part: row 4999";
    bool told = strstr(gd_error_text(ctx), want) != NULL;
    if (!told) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), gd_error_text(ctx));
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_VALUE && told);
    /* a table of a different length on one rank: all ranks get the error, and none waits */
    t.fail_at = -1;
    if (gd_world_rank(w) == 1) t.data[1] = gd_slice(t.data[1], "0", 0, 7, 1);
    status = solve(ctx, &t, &(rows_case){.count = 5000}, out);
    told = strstr(gd_error_text(ctx), "rows: table 1 has not 2048 rows") != NULL;
    if (!told) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), gd_error_text(ctx));
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_SHAPE && told);
    gd_lsq_options o = gd_lsq_defaults();
    o.rows = &t.rows;
    o.loss = GD_LSQ_HUBER;
    status = gd_least_squares(t.p, 3, (gd_tensor * (*)(void *)) gd_neg, t.p[0], &o, NULL);
    told = strstr(gd_error_text(ctx), "needs all residuals in one process") != NULL;
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    EXPECT(ctx, status == GD_NOT_IMPLEMENTED && told);
    return GD_OK;
}

static void where_one_rank_fails_all_are_told(void **state) { run_in(CTX(state), 3, broken_row, NULL); }

/* ---- memory ---- */

static gd_status a_step(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    table t;
    gd_scope_begin(ctx);
    gd_status status = open_table(ctx, w, 1100, &t);
    gd_optimizer *o = status ? NULL : gd_optimizer_new(ctx, gd_chain(ctx, "gauss_newton"));
    if (!o) status = gd_error(ctx);
    for (int i = 0; i < 3 && !status; i++) status = gd_optimizer_add(o, i ? i > 1 ? "c" : "b" : "a", t.p[i]);
    if (!status) status = gd_optimizer_step(o, &(gd_objective){.rows = &t.rows}, NULL);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return status;
}
static bool together(gd_ctx *ctx) { return gd_world_run(ctx, "threads:2", NULL, a_step, NULL) == GD_OK; }
static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, together);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_scoped_test, end_scoped_test)
    const struct CMUnitTest tests[] = {
        TEST(fits_over_ranks_have_the_same_bits_with_1_to_8),
        TEST(every_row_is_of_one_rank),
        TEST(where_one_rank_fails_all_are_told),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
