/* Chains with a line search on all unconstrained problems: MGH's sums of squares and those of CUTE. */
#include "problems/unconstrained.h"

#define COUNT SMALL_COUNT

typedef struct score {
    int solved, claimed; /* claimed: said to have converged without being solved */
    int64_t evals;       /* of those that were solved: how long others go on is decided by rounding */
} score;

static bool verbose(void) { return getenv("GD_VERBOSE") != NULL; }

static void run_one(int number, const char *chain, const gd_solve_options *options, score *s)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    instance i = open_instance(ctx, number);
    gd_objective objective = {.loss = instance_value, .user = &i};
    gd_solve_result r;
    gd_status status = gd_minimize(i.value, 1, &objective, chain, options, &r);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    bool good = instance_solved(&i, r.loss);
    s->solved += good;
    s->claimed += !good && r.converged;
    s->evals += good ? r.evals : 0;
    if (!good || verbose())
        print_message("%-30s %-22s %s %.9g after %lld steps, %lld evaluations: %s\n", i.name, chain,
                      good ? "      " : "NOT AT", r.loss, (long long)r.steps, (long long)r.evals,
                      gd_stop_name(r.reason));
    gd_scope_end(ctx);
    close_instance(&i);
    end_context(ctx, NULL);
}

static score run_all(const char *chain)
{
    gd_solve_options options = gd_solve_defaults();
    options.max_steps = 2000;
    score s = {0};
    for (int i = 0; i < COUNT; i++) run_one(i, chain, &options, &s);
    print_message("%s: %d of %d solved, in %lld evaluations\n", chain, s.solved, COUNT, (long long)s.evals);
    return s;
}

/* The one that is left is Watson 12, whose gradient is below the tolerance long before. */
static void limited_memory_bfgs_solves_all_but_one(void **state)
{
    (void)state;
    score s = run_all("lbfgs | strong_wolfe");
    assert_true(s.solved >= COUNT - 1 && s.evals <= 4400);
}

/* Without a short first step 9 more were left, most of them where they started. */
static void bfgs_solves_all_but_one(void **state)
{
    (void)state;
    score s = run_all("bfgs | strong_wolfe");
    assert_true(s.solved >= COUNT - 1 && s.evals <= 4200);
}

/* Without searches that make sure of descent 20 were left. */
static void newton_solves_all(void **state)
{
    (void)state;
    score s = run_all("newton | strong_wolfe");
    assert_true(s.solved >= COUNT && s.evals <= 3000);
}

/* A search that would fail idles for ever: none of these chains does. */
static void other_chains_solve_most(void **state)
{
    (void)state;
    static const struct {
        const char *chain;
        int least;
    } cases[] = {
        {"bfgs | backtracking", 70},
        {"newton | backtracking", 72},
        {"polak_ribiere | strong_wolfe(c2=0.1)", 60},
        {"sr1 | strong_wolfe", 60},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(run_all(cases[i].chain).solved >= cases[i].least);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limited_memory_bfgs_solves_all_but_one),
        cmocka_unit_test(bfgs_solves_all_but_one),
        cmocka_unit_test(newton_solves_all),
        cmocka_unit_test(other_chains_solve_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
