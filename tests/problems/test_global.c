/* cma_es and differential_evolution on twelve functions with many minima, against SciPy and pycma; multi_start and basin_hopping on
 * the same.  GD_SEEDS=50 runs as many seeds as they had; else a few, with a limit in proportion. */
#include "gradus/optim.h"
#include "gradus/solve.h"
#include "problems/multimodal.h"
#include "support/support.h"

#include <stdlib.h>

#define SEEDS   5
#define COUNT   (int)(sizeof multimodals / sizeof *multimodals)
#define ALLOWED 15 /* fewer of 600 than the others */

typedef struct instance {
    const multimodal *p;
    gd_tensor *x;
    int64_t calls, reached; /* evaluations; how many to the first point within the target, 0: none yet */
    int outside;
} instance;

static double low_of(const multimodal *p, int i) { return p->low[i > 0]; }
static double high_of(const multimodal *p, int i) { return p->high[i > 0]; }

static double note(instance *i, const double *x)
{
    const multimodal *p = i->p;
    double f = p->f(x), target = p->minimum + 1e-4 * fmax(1, fabs(p->minimum));
    i->calls++;
    for (int k = 0; k < p->n; k++) i->outside += !(x[k] >= low_of(p, k) && x[k] <= high_of(p, k));
    if (!i->reached && f <= target && i->calls <= 2000 * p->n) i->reached = i->calls;
    return f;
}

static gd_status value(void *user, double *loss)
{
    instance *i = user;
    double x[MULTIMODAL_MOST];
    gd_status status = gd_read_f64(i->x, x, i->p->n);
    *loss = note(i, x);
    return status;
}

/* By differences: near enough for a search. */
static gd_status gradient(void *user, double *loss, gd_tensor *const *grads)
{
    instance *i = user;
    double x[MULTIMODAL_MOST], g[MULTIMODAL_MOST];
    gd_status status = gd_read_f64(i->x, x, i->p->n);
    *loss = note(i, x);
    for (int k = 0; k < i->p->n; k++) {
        double h = 1e-6 * (high_of(i->p, k) - low_of(i->p, k)), at = x[k];
        x[k] = at + h;
        double ahead = i->p->f(x);
        x[k] = at - h;
        g[k] = (ahead - i->p->f(x)) / (2 * h);
        x[k] = at;
    }
    return status ? status : gd_write_f64(grads[0], g, i->p->n);
}

static gd_tensor *values(void *user, gd_tensor *points)
{
    instance *i = user;
    int64_t k = gd_size(points, 0), n = i->p->n;
    double *x = malloc((size_t)(k * n) * sizeof *x), *f = malloc((size_t)k * sizeof *f);
    gd_status status = gd_read_f64(points, x, k * n);
    for (int64_t j = 0; j < k; j++) f[j] = note(i, x + j * n);
    gd_tensor *out = status ? NULL : gd_from_f64(gd_tensor_ctx(points), GD_F64, 1, &k, f);
    free(x);
    free(f);
    return out;
}

static bool not_yet(void *user, const gd_progress *progress)
{
    (void)progress;
    return !((instance *)user)->reached;
}

/* From a random start; evaluations to the target, 0: it was not reached. */
static int64_t run_one(const multimodal *p, const char *chain, uint64_t seed)
{
    double low[MULTIMODAL_MOST], high[MULTIMODAL_MOST], x[MULTIMODAL_MOST];
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_seed(ctx, seed);
    uint64_t stream = seed + 1;
    for (int k = 0; k < p->n; k++) {
        low[k] = low_of(p, k);
        high[k] = high_of(p, k);
        x[k] = low[k] + (high[k] - low[k]) * random_unit(&stream);
    }
    instance i = {.p = p, .x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){p->n}, x))};
    char text[200];
    snprintf(text, sizeof text, "box | %s", chain);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, text));
    assert_no_error(ctx);
    assert_int_equal(gd_optimizer_add(o, "x", i.x), GD_OK);
    gd_link *box = gd_link_child_at(gd_optimizer_chain(o), 0);
    assert_int_equal(gd_link_set_for(box, i.x, "low", gd_setting_list(low, p->n)), GD_OK);
    assert_int_equal(gd_link_set_for(box, i.x, "high", gd_setting_list(high, p->n)), GD_OK);
    gd_solve_options options = gd_solve_defaults();
    options.max_steps = 0;
    options.max_evals = 2000 * p->n;
    options.callback = not_yet;
    options.callback_user = &i;
    gd_objective objective = {.value = value, .gradient = gradient, .values = values, .user = &i};
    gd_solve_result r;
    gd_status status = gd_minimize_with(o, &objective, &options, &r);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    assert_int_equal(i.outside, 0);
    /* the end is at the lowest point seen */
    assert_int_equal(gd_read_f64(i.x, x, p->n), GD_OK);
    assert_true(r.loss == p->f(x) && (!i.reached || r.loss <= p->minimum + 1e-4 * fmax(1, fabs(p->minimum))));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
    return i.reached;
}

static int seeds_wanted(void)
{
    const char *text = getenv("GD_SEEDS");
    return text ? atoi(text) : SEEDS;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Successes over all functions and seeds. */
static int run_all(const char *chain, int seeds)
{
    int sum = 0;
    for (int i = 0; i < COUNT; i++) {
        int64_t evals[1000];
        int good = 0;
        for (int s = 0; s < seeds && s < 1000; s++) {
            int64_t reached = run_one(&multimodals[i], chain, (uint64_t)s);
            if (reached) evals[good++] = reached;
        }
        qsort(evals, (size_t)good, sizeof *evals, by_size);
        if (getenv("GD_VERBOSE"))
            print_message("%-16s %3d of %d, median %lld evaluations\n", multimodals[i].name, good, seeds,
                          good ? (long long)evals[good / 2] : 0);
        sum += good;
    }
    print_message("%s: %d of %d\n", chain, sum, seeds * COUNT);
    return sum;
}

static void the_minima_are_where_they_are_listed(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        const multimodal *p = &multimodals[i];
        if (!(fabs(p->f(p->at) - p->minimum) <= 1e-8 * fmax(1, fabs(p->minimum))))
            fail_msg("%s: %.17g at its minimum", p->name, p->f(p->at));
    }
}

/* At most ALLOWED fewer successes than theirs of 50 seeds a function; of fewer seeds a share of that, and two standard errors. */
static void assert_as_good_as(const char *chain, int other)
{
    double theirs = -ALLOWED, variance = 0, seeds = seeds_wanted();
    for (int i = 0; i < COUNT; i++) {
        double p = multimodals[i].others[other] / 50.0;
        theirs += multimodals[i].others[other];
        variance += p * (1 - p);
    }
    double least = theirs * seeds / 50 - (seeds < 50 ? 2 * sqrt(variance * seeds) : 0);
    int ours = run_all(chain, (int)seeds);
    if (ours < least) fail_msg("%s: %d of %g, at least %.1f are wanted", chain, ours, seeds * COUNT, least);
}

static void cma_es_finds_as_many_as_cma_with_restarts(void **state)
{
    (void)state;
    assert_as_good_as("cma_es", OTHER_CMA);
}

static void differential_evolution_finds_as_many_as_scipy(void **state)
{
    (void)state;
    assert_as_good_as("differential_evolution", OTHER_DE);
}

/* By gradients; n starts and hops are more than the evaluations allow. */
static void starts_and_hops_find_many(void **state)
{
    (void)state;
    static const char *const chains[] = {"multi_start([lbfgs | strong_wolfe], n=1000)",
                                         "basin_hopping([lbfgs | strong_wolfe], n=1000)"};
    int seeds = getenv("GD_SEEDS") ? seeds_wanted() : 2;
    for (int i = 0; i < 2; i++) assert_true(5 * run_all(chains[i], seeds) > 2 * seeds * COUNT);
}

int main(void)
{
    const char *chain = getenv("GD_CHAIN"); /* that one alone */
    if (chain) return run_all(chain, seeds_wanted()) < 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_minima_are_where_they_are_listed),
        cmocka_unit_test(cma_es_finds_as_many_as_cma_with_restarts),
        cmocka_unit_test(differential_evolution_finds_as_many_as_scipy),
        cmocka_unit_test(starts_and_hops_find_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
