/* What the objective is asked for while gd_minimize runs: through the table of links, with every choice and flag of theirs,
 * alone, with a rate and with searches after them, no point is asked about twice.  A point is all bits of the parameters.
 * Values and gradients that callbacks give are two requests, as are loss and residuals where they are two functions.
 * With a device (a GPU, or that of backends/plain) everything runs there as well. */
#include "gradus/autograd.h"
#include "gradus/module.h"
#include "gradus/solve.h"
#include "optim/table_support.h"
#include "support/support.h"

#include <math.h>
#include <stddef.h>

#define MOST_CALLS 30000
#define OK(call)   assert_int_equal(call, GD_OK)

typedef struct request {
    double at[3];
    char what; /* 'f' the loss, 'r' residuals, 'v' a value, 'g' value and gradient */
} request;

/* Two parameters, one of them on its own: f = (x - 1)^2 + 10 (y - x^2)^2 + (z + y / 2)^2, asked in several ways. */
typedef struct asked {
    gd_ctx *ctx;
    gd_tensor *p[2];
    int calls;
    request call[MOST_CALLS];
} asked;

static asked record;

static void note(asked *a, char what)
{
    if (a->calls == MOST_CALLS) fail_msg("more than %d evaluations", MOST_CALLS);
    request *r = &a->call[a->calls++];
    r->what = what;
    OK(gd_read_f64(a->p[0], r->at, 2));
    OK(gd_read_f64(a->p[1], r->at + 2, 1));
}

static gd_tensor *terms(asked *a)
{
    gd_tensor *x = gd_slice(a->p[0], "0", 0, 1, 1), *y = gd_slice(a->p[0], "0", 1, 2, 1);
    gd_tensor *first = gd_add_scalar(x, -1), *second = gd_mul_scalar(gd_sub(y, gd_square(x)), sqrt(10)),
              *third = gd_add(a->p[1], gd_mul_scalar(y, 0.5));
    return gd_cat((gd_tensor *[]){first, second, third}, 3, "0");
}

static gd_tensor *as_a_number(void *user)
{
    note(user, 'f');
    return gd_sum(gd_square(terms(user)), NULL, false);
}

static gd_tensor *as_residuals(void *user)
{
    note(user, 'f');
    return terms(user);
}

static gd_tensor *residuals_beside(void *user)
{
    note(user, 'r');
    return terms(user);
}

static gd_status give(asked *a, double *loss, gd_tensor *const *grads)
{
    gd_scope_begin(a->ctx);
    int previous = gd_enable_grad_begin(a->ctx);
    gd_tensor *f = gd_sum(gd_square(terms(a)), NULL, false), *g[2];
    if (grads) OK(gd_grad(f, NULL, a->p, 2, 0, g));
    *loss = gd_item(gd_detach(f));
    gd_enable_grad_end(a->ctx, previous);
    for (int i = 0; i < 2 && grads; i++) OK(gd_assign(grads[i], g[i]));
    gd_scope_end(a->ctx);
    return GD_OK;
}

static gd_status value(void *user, double *loss)
{
    note(user, 'v');
    return give(user, loss, NULL);
}

static gd_status gradient(void *user, double *loss, gd_tensor *const *grads)
{
    note(user, 'g');
    return give(user, loss, grads);
}

static const struct {
    const char *name;
    gd_objective how;
} objectives[] = {
    {"a number", {.loss = as_a_number, .user = &record}},
    {"residuals", {.loss = as_residuals, .user = &record}},
    {"residuals beside a number", {.loss = as_a_number, .residuals = residuals_beside, .user = &record}},
    {"callbacks", {.value = value, .gradient = gradient, .user = &record}},
    {"one callback", {.gradient = gradient, .user = &record}},
    {"a value only", {.value = value, .user = &record}},
};

static const char *const tails[] = {"",
                                    " | lr(0.05)",
                                    " | backtracking",
                                    " | adaptive_backtracking",
                                    " | strong_wolfe",
                                    " | strong_wolfe(fallback=true, maxiter=2, maxzoom=1)"};

/* How chains begin that may ask twice, and why. */
#define RANDOM "its points are random and many: more than are remembered"
#define VALUES "values are all it needs, until a search asks for the gradient where it ends"

static const struct {
    const char *begin, *why;
} exceptions[] = {
    {"cma_es", VALUES}, /* alone: optim/global_search */
    {"differential_evolution", VALUES},
    {"fdm(target=\"grad\")", VALUES},
    {"nelder_mead", VALUES},
    {"gaussian_smoothing", RANDOM},
    {"escape_annealing", RANDOM},
    {"forward_gradient", RANDOM},
    {"gradient_sampling", RANDOM},
    {"higher_order_newton(trust_method=\"proximal\")",
     "where there is no graph it takes differences at more points than are remembered: after a search that failed, all again"},
    {"mezo", RANDOM},
    {"perturb_weights", RANDOM},
    {"randomized_fdm", RANDOM},
    {"rdsa", RANDOM},
    {"sixth_order_3p",
     "its last gradient comes without a Hessian: where no step is left, the next step begins there and wants one"},
    {"spsa", RANDOM},
    {"weight_dropout", RANDOM},
};

static bool excepted(const char *chain)
{
    for (int i = 0; i < COUNT_OF(exceptions); i++)
        if (!strncmp(chain, exceptions[i].begin, strlen(exceptions[i].begin))) return true;
    return false;
}

static int repeated(char what)
{
    int repeats = 0;
    for (int i = 0; i < record.calls; i++)
        for (int k = 0; k < i; k++)
            if (record.call[i].what == what &&
                !memcmp(&record.call[i], &record.call[k], offsetof(request, what) + 1)) {
                repeats++;
                break;
            }
    return repeats;
}

static gd_ctx *table_ctx;
static gd_device *table_device;
static int runs, failed;

static void run_chain(const char *chain, int k)
{
    gd_ctx *ctx = table_ctx;
    gd_scope_begin(ctx);
    record = (asked){.ctx = ctx};
    record.p[0] = gd_require_grad(gd_to_device(VECTOR(ctx, -0.5, 1), table_device));
    record.p[1] = gd_require_grad(gd_to_device(VECTOR(ctx, 0.5), table_device));
    gd_solve_options o = gd_solve_defaults();
    o.max_steps = 12;
    o.curvature_products = 0; /* its graph is the one evaluation more that gd_minimize says it takes */
    gd_solve_result r;
    gd_status status = gd_minimize(record.p, 2, &objectives[k].how, chain, &o, &r);
    if (status == GD_OK) {
        runs++;
        if (r.evals != record.calls) {
            failed++;
            print_error("%s, %s: %d calls, said %lld\n", chain, objectives[k].name, record.calls,
                        (long long)r.evals);
        }
        /* the points of differences are not remembered */
        bool differences = objectives[k].how.value && !objectives[k].how.gradient &&
                           r.derivatives != GD_DERIVATIVES_NONE;
        for (const char *what = "frvg"; *what && !differences; what++)
            if (repeated(*what)) {
                failed++;
                print_error("%s, %s: %d of %d requests '%c' were known\n", chain, objectives[k].name,
                            repeated(*what), record.calls, *what);
            }
    } else if (status != GD_NOT_IMPLEMENTED && status != GD_SHAPE && status != GD_STATE) {
        failed++;
        print_error("%s, %s: %s\n", chain, objectives[k].name, gd_error_text(ctx));
    }
    gd_clear_error(ctx);
    gd_scope_end(ctx);
}

static void run_everywhere(const char *text)
{
    char chain[600];
    if (excepted(text)) return;
    for (int t = 0; t < COUNT_OF(tails); t++)
        for (int k = 0; k < COUNT_OF(objectives); k++) {
            snprintf(chain, sizeof chain, "%s%s", text, tails[t]);
            run_chain(chain, k);
        }
}

/* The link with one setting more. */
static void with_setting(const char *text, const char *name, const char *value, int length)
{
    char other[500];
    size_t end = strlen(text);
    bool open = text[end - 1] == ')';
    snprintf(other, sizeof other, "%.*s%s%s=%.*s)", (int)(open ? end - 1 : end), text, open ? ", " : "(",
             name, length, value);
    run_everywhere(other);
}

static void every_choice(const gd_link_class *cls, const char *text)
{
    run_everywhere(text);
    for (int i = 0; i < cls->field_count; i++) {
        const gd_field *f = &cls->fields[i];
        if (!f->fallback.kind || f->only || !strcmp(f->name, "state"))
            continue; /* what state is kept in asks for no point */
        if (f->kinds & GD_SET_BOOL) with_setting(text, f->name, f->fallback.real != 0 ? "false" : "true", 5);
        for (const char *c = f->kinds & GD_SET_STRING ? f->choices : NULL; c && *c;) {
            char quoted[80];
            int length = (int)strcspn(c, "|");
            snprintf(quoted, sizeof quoted, "\"%.*s\"", length, c);
            with_setting(text, f->name, quoted, length + 2);
            c += length + (c[length] == '|');
        }
    }
}

static void no_chain_of_the_table_asks_twice(void **state)
{
    (void)state;
    gd_ctx *ctx = table_ctx = context(NULL, 1, NULL);
    table_device = gd_device_get(ctx, "cpu");
    runs = failed = 0;
    each_link_text(every_choice);
    assert_true(runs > 3000);
    assert_int_equal(failed, 0);
    end_context(ctx, NULL);
}

/* Chains where more than the first trial is looked at, or a graph. */
static const char *const searches[] = {"lbfgs | strong_wolfe", "newton | strong_wolfe", "trust_cg(bfgs)",
                                       "levenberg_marquardt(gauss_newton)", "cubic_regularization(newton)"};

static void with_one_search(const gd_link_class *cls, const char *text)
{
    (void)cls;
    char chain[600];
    snprintf(chain, sizeof chain, "%s | backtracking", text);
    if (!excepted(text)) run_chain(chain, 0);
}

static void nor_on_a_device(void **state)
{
    (void)state;
    gd_ctx *ctx = table_ctx = context(NULL, 1, NULL);
    table_device = gd_gpu_count(ctx) > 0 ? gd_device_get(ctx, "gpu") : NULL;
    gd_clear_error(ctx);
    if (!table_device) {
        end_context(ctx, NULL);
        skip();
    }
    runs = failed = 0;
    each_link_text(with_one_search);
    assert_true(runs > 60);
    for (int i = 0; i < COUNT_OF(searches); i++) run_chain(searches[i], 1);
    assert_int_equal(failed, 0);
    end_context(ctx, NULL);
}

/* ---- many parameters: compared where they are ---- */

typedef struct wide {
    gd_tensor *p, *weight;
    int calls;
} wide;

static gd_tensor *wide_loss(void *user)
{
    wide *w = user;
    w->calls++;
    return gd_sum(gd_mul(gd_square(gd_add_scalar(w->p, -1)), w->weight), NULL, false);
}

/* Evaluations of a quadratic in 3001 elements, with three eigenvalues. */
static int wide_calls(gd_ctx *ctx, gd_device *device, gd_dtype dtype, const char *chain)
{
    enum { N = 3001 };
    double weight[N];
    for (int i = 0; i < N; i++) weight[i] = i % 3 + 1;
    gd_scope_begin(ctx);
    wide w = {.p = gd_require_grad(gd_to_device(gd_zeros(ctx, dtype, 1, (int64_t[]){N}), device)),
              .weight = gd_to_device(gd_from_f64(ctx, dtype, 1, (int64_t[]){N}, weight), device)};
    gd_solve_options o = gd_solve_defaults();
    gd_solve_result r;
    o.max_steps = 4;
    OK(gd_minimize(&w.p, 1, &(gd_objective){.loss = wide_loss, .user = &w}, chain, &o, &r));
    assert_int_equal(r.evals, w.calls);
    gd_scope_end(ctx);
    return w.calls - (int)r.steps;
}

/* One evaluation more than steps: each search accepts its first trial, and the next step begins there. */
static void many_parameters_are_known_again_too(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_device *place[2] = {gd_device_get(ctx, "cpu"),
                           gd_gpu_count(ctx) > 0 ? gd_device_get(ctx, "gpu") : NULL};
    gd_clear_error(ctx);
    for (int k = 0; k < 2 && place[k]; k++)
        for (int d = 0; d < 3; d++) {
            gd_dtype dtype = (gd_dtype[]){GD_F64, GD_F32, GD_F16}[d];
            assert_int_equal(wide_calls(ctx, place[k], dtype, "lr(0.1) | backtracking"), 1);
            assert_int_equal(wide_calls(ctx, place[k], dtype, "lr(0.25) | strong_wolfe"), 1);
        }
    end_context(ctx, NULL);
}

/* ---- graphs that do not serve again ---- */

typedef struct rewriting {
    gd_tensor *p, *buffer;
    int calls;
} rewriting;

/* (p - b)^2 with b = 3 written anew into the same memory: the graph of an earlier call is spoilt. */
static gd_tensor *rewriting_loss(void *user)
{
    rewriting *w = user;
    w->calls++;
    if (gd_fill(w->buffer, 3)) return NULL;
    return gd_sum(gd_mul(gd_square(gd_sub(w->p, w->buffer)), w->buffer), NULL, false);
}

static void an_objective_that_spoils_its_graphs_is_asked_again(void **state)
{
    (void)state;
    static const char *const chains[] = {"lr(0.5) | backtracking", "newton | strong_wolfe",
                                         "trust_cg(newton)"};
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_scope_begin(ctx);
        rewriting w = {.p = gd_require_grad(VECTOR(ctx, 1, 7)), .buffer = gd_zeros(ctx, GD_F64, 0, NULL)};
        gd_solve_result r;
        OK(gd_minimize(&w.p, 1, &(gd_objective){.loss = rewriting_loss, .user = &w}, chains[i], NULL, &r));
        assert_true(r.converged && r.evals == w.calls);
        assert_values_near(w.p, 1e-8, 3, 3);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

/* ---- values that modules remember ---- */

static gd_tensor *twice(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    return gd_mul_scalar(gd_module_get_tensor(owner, "p"), 2);
}

typedef struct modelled {
    gd_module *module;
    int stale;
} modelled;

/* Rosenbrock's function of half of x, which the module says is 2 p. */
static gd_tensor *modelled_loss(void *user)
{
    modelled *m = user;
    gd_tensor *two = gd_module_get_tensor(m->module, "x"), *x = gd_mul_scalar(two, 0.5);
    double p[2], half[2];
    OK(gd_read_f64(gd_module_get_tensor(m->module, "p"), p, 2));
    OK(gd_read_f64(x, half, 2));
    m->stale += p[0] != half[0] || p[1] != half[1];
    gd_tensor *a = gd_index(x, "0", 0), *bent = gd_sub(gd_index(x, "0", 1), gd_square(a));
    return gd_add(gd_square(gd_add_scalar(a, -1)), gd_mul_scalar(gd_square(bent), 100));
}

/* Several trials from one point: each is another content of the parameters, though all go back to the same one. */
static void what_modules_remember_is_of_the_point_that_is_tried(void **state)
{
    (void)state;
    static const char *const chains[] = {"trust_cg(newton)", "dogleg(newton)", "newton | backtracking",
                                         "cubic_regularization(newton)", "levenberg_marquardt(newton)"};
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_class *base = gd_class_module(ctx), *net = gd_class_new(ctx, "Net", &base, 1);
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_scope_begin(ctx);
        modelled m = {.module = gd_module_new(net)};
        OK(gd_module_set_parameter(m.module, "p", VECTOR(ctx, -1.2, 1)));
        gd_virtual_options options = gd_virtual_defaults();
        options.fn = twice;
        options.dtype = GD_F64;
        options.memoise = true;
        OK(gd_virtual_create(m.module, "x", &options));
        gd_tensor *p = gd_module_get_tensor(m.module, "p");
        gd_solve_result r;
        OK(gd_minimize(&p, 1, &(gd_objective){.loss = modelled_loss, .user = &m}, chains[i], NULL, &r));
        if (m.stale || !r.converged) fail_msg("%s: %d values of another point", chains[i], m.stale);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

/* ---- a loss that is the parameter ---- */

static gd_tensor *itself(void *user) { return user; }

static void a_loss_that_is_the_parameter_stays_what_it_was(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *p = gd_require_grad(gd_scalar(ctx, GD_F64, 1));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.25)"));
    gd_objective objective = {.loss = itself, .user = p};
    gd_step_info info;
    OK(gd_optimizer_add(o, "p", p));
    OK(gd_optimizer_step(o, &objective, &info));
    assert_true(info.loss == 1);
    gd_solve_options options = gd_solve_defaults();
    gd_solve_result r;
    options.max_steps = 3;
    OK(gd_minimize_with(o, &objective, &options, &r));
    assert_true(r.loss == 0 && r.evals == 4);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_chain_of_the_table_asks_twice),
        cmocka_unit_test(nor_on_a_device),
        cmocka_unit_test(many_parameters_are_known_again_too),
        cmocka_unit_test(an_objective_that_spoils_its_graphs_is_asked_again),
        cmocka_unit_test(what_modules_remember_is_of_the_point_that_is_tried),
        cmocka_unit_test(a_loss_that_is_the_parameter_stays_what_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
