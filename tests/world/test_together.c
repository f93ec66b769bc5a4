/* Ranks that solve together: if one stops all do, after the same step; ranks with different settings get an error. */
#include "support/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROWS 3000

/* y = 3 exp(-2 x) and noise, fitted by a exp(-b x): by rows of several ranks, or by microbatches of a batch. */
typedef struct problem {
    gd_world *world;
    gd_tensor *p, *x, *y; /* every rank has all rows */
    gd_tensor *data[2];
    gd_rows rows;
    gd_batch batch;
} problem;

static gd_tensor *residuals(gd_tensor *p, gd_tensor *x, gd_tensor *y)
{
    return gd_sub(gd_mul(gd_index(p, "0", 0), gd_exp(gd_neg(gd_mul(gd_index(p, "0", 1), x)))), y);
}

static gd_tensor *of_rows(void *user, gd_tensor *const *p, gd_tensor *const *data, int64_t first)
{
    (void)user, (void)first;
    return residuals(p[0], data[0], data[1]);
}

static gd_tensor *of_batch(void *user, int64_t first, int64_t count)
{
    const problem *q = user;
    gd_tensor *x = gd_slice(q->x, "0", first, first + count, 1),
              *y = gd_slice(q->y, "0", first, first + count, 1);
    return gd_mean(gd_square(residuals(q->p, x, y)), NULL, false);
}

static gd_status open_problem(gd_world *w, problem *q)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int64_t rows = ROWS;
    gd_seed(ctx, 7);
    *q = (problem){.world = w, .x = gd_rand(ctx, GD_F64, 1, &rows)};
    gd_tensor *noise = gd_mul_scalar(gd_randn(ctx, GD_F64, 1, &rows), 0.01);
    q->y = gd_add(gd_mul_scalar(gd_exp(gd_mul_scalar(q->x, -2)), 3), noise);
    q->p = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){2}));
    q->data[0] = q->x;
    q->data[1] = q->y;
    q->rows = (gd_rows){
        .count = ROWS, .data = q->data, .columns = 2, .user = q, .residuals = of_rows, .world = w};
    q->batch = (gd_batch){.rows = ROWS, .microbatch = 500, .world = w, .user = q, .loss = of_batch};
    return gd_error(ctx);
}

/* The ways to solve it. */
enum { LEAST_SQUARES, BY_ROWS, BY_BATCH, WAYS };

static gd_status solve(problem *q, int way, const gd_solve_options *options, gd_solve_result *result)
{
    if (way == BY_ROWS)
        return gd_minimize(&q->p, 1, &(gd_objective){.rows = &q->rows}, "gauss_newton", options, result);
    if (way == BY_BATCH)
        return gd_minimize(&q->p, 1, &(gd_objective){.batch = &q->batch}, NULL, options, result);
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result fit;
    o.solve = *options;
    o.rows = &q->rows;
    TRY(gd_least_squares(&q->p, 1, NULL, NULL, &o, &fit));
    *result = fit.solve;
    gd_lsq_result_clear(&fit);
    return GD_OK;
}

static gd_solve_options options_of(int way)
{
    return way == LEAST_SQUARES ? gd_lsq_defaults().solve : gd_solve_defaults();
}

/* ---- stopping ---- */

static bool stops_at_2(void *user, const gd_progress *progress)
{
    (void)user;
    return progress->step < 2;
}

/* Of three ranks one has a reason of its own to stop: all end after the same step, where they are the same, for that reason. */
static gd_status one_stops(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int way = ((const int *)user)[0], why = ((const int *)user)[1];
    static const gd_stop reasons[] = {GD_STOP_CALLER, GD_STOP_TIME, GD_STOP_MAX_STEPS};
    problem q;
    gd_scope_begin(ctx);
    TRY(open_problem(w, &q));
    gd_solve_options o = options_of(way);
    if (gd_world_rank(w) == 1) {
        if (reasons[why] == GD_STOP_CALLER) o.callback = stops_at_2;
        if (reasons[why] == GD_STOP_TIME) o.max_seconds = 1e-9;
        if (reasons[why] == GD_STOP_MAX_STEPS) o.max_steps = 2;
    }
    gd_solve_result result;
    TRY(solve(&q, way, &o, &result));
    EXPECT(ctx, result.reason == reasons[why]);
    EXPECT(ctx, result.steps == (reasons[why] == GD_STOP_TIME ? 1 : 2));
    gd_tensor *all = gd_zeros(ctx, GD_F64, 1, (int64_t[]){2 * gd_world_size(w)});
    TRY(gd_world_all_gather(w, q.p, all));
    const double *at = gd_data(all);
    for (int r = 1; r < gd_world_size(w); r++) EXPECT(ctx, !memcmp(at, at + 2 * r, 2 * sizeof *at));
    gd_scope_end(ctx);
    return GD_OK;
}

static void where_one_rank_stops_all_do_after_the_same_step(void **state)
{
    for (int way = 0; way < WAYS; way++)
        for (int why = 0; why < 3; why++) run_in(CTX(state), 3, one_stops, (int[]){way, why});
}

/* ---- meaning the same ---- */

/* Settings of rank 1 alone, and the error of all ranks. */
typedef struct difference {
    int way;
    void (*make)(problem *q);
    const char *said;
} difference;

static void fewer_rows(problem *q) { q->rows.count = q->batch.rows = ROWS - 1; }
static void another_start(problem *q) { (void)!gd_fill(q->p, 1.5); }
static void sums(problem *q) { q->batch.sums = true; }
static void smaller_microbatch(problem *q) { q->batch.microbatch = 400; }
static void another_seed(problem *q) { gd_seed(gd_world_ctx(q->world), 3); }

static gd_status one_differs(gd_world *w, void *user)
{
    const difference *d = user;
    gd_ctx *ctx = gd_world_ctx(w);
    problem q;
    gd_solve_result result;
    gd_scope_begin(ctx);
    TRY(open_problem(w, &q));
    bool other = gd_world_rank(w) == 1;
    if (other) d->make(&q);
    if (other && q.rows.count < ROWS)
        for (int i = 0; i < 2; i++) q.data[i] = gd_slice(q.data[i], "0", 0, q.rows.count, 1);
    double before[2], after[2];
    TRY(gd_read_f64(q.p, before, 2));
    gd_solve_options o = options_of(d->way);
    gd_status status = solve(&q, d->way, &o, &result);
    const char *text = gd_error_text(ctx);
    bool told = strstr(text, "rank 1 brings") && strstr(text, d->said);
    if (!told) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), text);
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_MISMATCH && told);
    TRY(gd_read_f64(q.p, after, 2));
    EXPECT(ctx, !memcmp(before, after, sizeof before));
    TRY(gd_world_barrier(w)); /* the world goes on */
    gd_scope_end(ctx);
    return GD_OK;
}

static void ranks_that_mean_different_things_are_told_at_the_first_evaluation(void **state)
{
    difference cases[] = {
        {LEAST_SQUARES, fewer_rows, "'2999 rows"}, {LEAST_SQUARES, another_start, "3000 rows, parameters"},
        {BY_ROWS, fewer_rows, "'2999 rows"},       {BY_ROWS, another_start, "3000 rows, parameters"},
        {BY_BATCH, fewer_rows, "means of 2999"},   {BY_BATCH, another_start, ", parameters"},
        {BY_BATCH, sums, "'sums of 3000 rows"},    {BY_BATCH, smaller_microbatch, "rows by 400"},
        {BY_BATCH, another_seed, "generator 3/0"}};
    for (int i = 0; i < COUNT_OF(cases); i++) run_in(CTX(state), 3, one_differs, &cases[i]);
}

/* ---- a rank that cannot even begin ---- */

static gd_status one_cannot_begin(gd_world *w, void *user)
{
    int way = *(const int *)user;
    gd_ctx *ctx = gd_world_ctx(w);
    problem q;
    gd_solve_result result;
    gd_scope_begin(ctx);
    TRY(open_problem(w, &q));
    gd_solve_options o = options_of(way);
    bool wrong = gd_world_rank(w) == 2;
    if (wrong) o.gradient_tol = -1;
    gd_status status = solve(&q, way, &o, &result);
    const char *want = wrong ? "gradient_tol is -1" : "rank 2: ";
    bool told = strstr(gd_error_text(ctx), want) && strstr(gd_error_text(ctx), "must be 0 or more");
    if (!told) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), gd_error_text(ctx));
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_ARGUMENT && told);
    /* a chain that only one of them can read */
    status = gd_minimize(&q.p, 1, &(gd_objective){.batch = &q.batch}, wrong ? "adm | lr(1)" : NULL, NULL,
                         NULL);
    told = strstr(gd_error_text(ctx), "'adm' unknown") != NULL;
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_PARSE && told);
    TRY(gd_world_barrier(w));
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_rank_that_cannot_begin_leaves_nobody_waiting(void **state)
{
    for (int way = 0; way < WAYS; way++) run_in(CTX(state), 3, one_cannot_begin, &way);
}

/* ---- statuses without a text, sums of no kind ---- */

static gd_status fails_twice(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_status own = gd_world_rank(w) == 1 ? GD_VALUE : GD_OK;
    for (int i = 0; i < 2; i++) {
        EXPECT(ctx, gd_world_agree(w, own) == GD_VALUE);
        gd_clear_error(ctx);
    }
    gd_scope_begin(ctx);
    gd_tensor *x = gd_ones(ctx, GD_F32, 1, (int64_t[]){3});
    EXPECT(ctx, gd_world_all_reduce(w, x, (gd_reduce)7) == GD_VALUE);
    EXPECT(ctx, strstr(gd_error_text(ctx), "all_reduce: there is no sum of kind 7"));
    gd_clear_error(ctx);
    gd_world_free(w); /* that of gd_world_run ends with the function */
    TRY(gd_world_all_reduce(w, x, GD_REDUCE_EXACT));
    EXPECT(ctx, ((const float *)gd_data(x))[0] == 3);
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_status_without_a_text_is_told_each_time(void **state)
{
    run_in(CTX(state), 3, fails_twice, NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_scoped_test, end_scoped_test)
    const struct CMUnitTest tests[] = {
        TEST(where_one_rank_stops_all_do_after_the_same_step),
        TEST(ranks_that_mean_different_things_are_told_at_the_first_evaluation),
        TEST(a_rank_that_cannot_begin_leaves_nobody_waiting),
        TEST(a_status_without_a_text_is_told_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
