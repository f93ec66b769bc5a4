/* The default of gradus minimize beside SciPy's L-BFGS-B: how many problems each solves, and after how many evaluations the same
 * target is reached first.  SciPy's numbers were recorded by bench/python/scipy_problems.py, for which this program evaluates the functions;
 * `./dev bench shell` compares again.
 *
 * Where extra evaluations would come from: with the start of every step evaluated again (gd_solve_options.noisy) it is 1.75 times
 * SciPy's in place of 1.01, with the same problems solved. */
#include "problems/unconstrained.h"

#define MOST_CALLS 20000

/* Evaluations of SciPy 1.17.1 (gtol 1e-8, ftol 0), a problem each; 0: not solved. */
static const int scipy[ALL_COUNT] = {
    43, 17, 0,  24,  15,  0,  31, 22, 9,  0,   56, 37, 39,  116, 32, 13,  121, 40, 83, 52,  277, 0,   44,
    40, 65, 63, 383, 127, 19, 28, 17, 39, 6,   16, 11, 3,   3,   3,  17,  24,  25, 29, 43,  45,  86,  13,
    8,  5,  9,  8,   8,   5,  5,  19, 6,  40,  10, 8,  9,   9,   15, 23,  10,  27, 7,  15,  25,  27,  10,
    11, 6,  14, 3,   10,  8,  15, 9,  47, 44,  43, 42, 117, 119, 20, 0,   63,  69, 36, 126, 516, 339, 16,
    12, 11, 12, 24,  504, 40, 11, 8,  19, 306, 22, 0,  288, 10,  54, 224, 12,  9,  9,  48,  13,  12,  12,
};

/* ---- a run with the losses of all its evaluations ---- */

typedef struct history {
    instance i;
    double *loss;
    int count;
} history;

static gd_tensor *loss_of(gd_tensor *value)
{
    return value && gd_ndim(value) ? gd_sum(gd_square(value), NULL, false) : value;
}

static gd_tensor *recorded(void *user)
{
    history *h = user;
    gd_tensor *value = instance_value(&h->i), *loss = loss_of(value);
    if (loss && h->count < MOST_CALLS) h->loss[h->count++] = gd_item(loss);
    return value;
}

/* The evaluation that first was as low as the target of the minimum that the run ended at; 0: it ended at none. */
static int evaluations_to_target(const history *h, double end)
{
    for (int k = 0; k < h->i.minima; k++) {
        double least = h->i.minimum[k], margin = least == 0 ? 1e-8 : 1e-4 * fabs(least);
        if (fabs(end - least) > margin) continue;
        for (int at = 0; at < h->count; at++)
            if (h->loss[at] <= least + margin) return at + 1;
    }
    return 0;
}

static int evaluations_of(int number)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    history h = {.loss = calloc(MOST_CALLS, sizeof(double))};
    gd_solve_result r;
    gd_solve_options o = gd_solve_defaults();
    o.max_steps = 5000;
    o.max_evals = MOST_CALLS - 100;
    gd_scope_begin(ctx);
    h.i = open_instance(ctx, number);
    gd_status status = gd_minimize(h.i.value, 1, &(gd_objective){.loss = recorded, .user = &h}, NULL, &o, &r);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    int evals = evaluations_to_target(&h, r.loss);
    if (getenv("GD_VERBOSE"))
        print_message("%-34s %4d, SciPy %4d: %.9g after %lld steps, %lld evaluations, %s\n", h.i.name, evals,
                      scipy[number], r.loss, (long long)r.steps, (long long)r.evals, gd_stop_name(r.reason));
    gd_scope_end(ctx);
    close_instance(&h.i);
    free(h.loss);
    end_context(ctx, NULL);
    return evals;
}

/* ---- tests ---- */

static void the_problems_are_at_least_sixty_of_2_to_1000_numbers(void **state)
{
    (void)state;
    int64_t least = INT64_MAX, most = 0;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    for (int i = 0; i < ALL_COUNT; i++) {
        instance one = open_instance(ctx, i);
        int64_t n = gd_numel(one.value[0]);
        least = n < least ? n : least;
        most = n > most ? n : most;
        close_instance(&one);
    }
    gd_scope_end(ctx);
    end_context(ctx, NULL);
    assert_true(ALL_COUNT >= 60 && least == 2 && most == 1000);
}

static void as_many_are_solved_as_by_scipy_in_at_most_1_2_times_its_evaluations(void **state)
{
    (void)state;
    int ours = 0, theirs = 0, both = 0;
    double logs = 0;
    for (int i = 0; i < ALL_COUNT; i++) {
        int evals = evaluations_of(i);
        ours += evals > 0;
        theirs += scipy[i] > 0;
        if (!evals || !scipy[i]) continue;
        logs += log((double)evals / scipy[i]);
        both++;
    }
    double ratio = exp(logs / both);
    print_message("%d of %d solved, SciPy %d; %.3f times its evaluations\n", ours, ALL_COUNT, theirs, ratio);
    assert_true(ours >= theirs);
    assert_true(both >= 60 && ratio <= 1.2);
}

/* ---- for bench/python/scipy_problems.py ---- */

/* The point of x becomes its gradient, and *loss its loss. */
static bool evaluate(gd_ctx *ctx, instance *i, double *x, int64_t n, double *loss)
{
    gd_scope_begin(ctx);
    gd_tensor *g = NULL;
    bool good = gd_assign(i->value[0], gd_from_f64(ctx, GD_F64, 1, &n, x)) == GD_OK;
    gd_tensor *value = good ? loss_of(instance_value(i)) : NULL;
    good = value && gd_grad(value, NULL, i->value, 1, 0, &g) == GD_OK && gd_read_f64(g, x, n) == GD_OK;
    *loss = good ? gd_item(value) : NAN;
    gd_scope_end(ctx);
    return good;
}

/* Name, size and minima in lines, the start; then for every point that comes its loss and gradient, in the machine's numbers. */
static int serve(int number)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    instance i = open_instance(ctx, number);
    int64_t n = gd_numel(i.value[0]);
    size_t size = (size_t)n;
    double *x = calloc(size + 1, sizeof *x);
    printf("%s\n%lld\n", i.name, (long long)n);
    for (int k = 0; k < i.minima; k++) printf("%.17g ", i.minimum[k]);
    putchar('\n');
    bool good = gd_read_f64(i.value[0], x, n) == GD_OK && fwrite(x, sizeof *x, size, stdout) == size;
    while (good && !fflush(stdout) && fread(x + 1, sizeof *x, size, stdin) == size) {
        good = evaluate(ctx, &i, x + 1, n, x);
        good = good && fwrite(x, sizeof *x, size + 1, stdout) == size + 1;
    }
    gd_scope_end(ctx);
    close_instance(&i);
    free(x);
    end_context(ctx, NULL);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "serve")) return serve(atoi(argv[2]));
    if (argc == 2 && !strcmp(argv[1], "evaluations")) {
        for (int i = 0; i < ALL_COUNT; i++) printf("%d\n", evaluations_of(i));
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_problems_are_at_least_sixty_of_2_to_1000_numbers),
        cmocka_unit_test(as_many_are_solved_as_by_scipy_in_at_most_1_2_times_its_evaluations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
