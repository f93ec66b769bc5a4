/* Every line search after every link that makes directions, on the objective itself and inside the links that change it, through
 * the table of links: each pair takes steps, a search that failed leaves the parameters where they were and says so. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

#define N 3

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q;
    gd_step_info info;
} run;

/* A bowl with a bend: sum of squares of p - 1, q - p_0^2 / 2 and 0.1 everything. */
static gd_tensor *bowl(void *user)
{
    const run *r = user;
    gd_tensor *first = gd_slice(r->p, "0", 0, 1, 1);
    gd_tensor *bend = gd_sub(r->q, gd_mul_scalar(gd_square(first), 0.5));
    gd_tensor *all = gd_cat((gd_tensor *[]){r->p, r->q}, 2, "0");
    return gd_cat((gd_tensor *[]){gd_add_scalar(r->p, -1), bend, gd_mul_scalar(all, 0.1)}, 3, "0");
}

static double loss_of(const run *r)
{
    gd_scope_begin(r->ctx);
    double loss = gd_item(gd_sum(gd_square(bowl((void *)(uintptr_t)r)), NULL, false));
    gd_scope_end(r->ctx);
    return loss;
}

static run open_run(const char *chain)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.compile = false;
    options.files = quick_files();
    run r = {.ctx = gd_ctx_new(&options)};
    r.p = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 1, (int64_t[]){2}, (double[]){1.75, 0.5}));
    r.q = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 1, (int64_t[]){1}, (double[]){0.75}));
    r.o = gd_optimizer_new(r.ctx, gd_chain(r.ctx, chain));
    if (!r.o) fail_msg("%s: %s", chain, gd_error_text(r.ctx));
    OK(gd_optimizer_add(r.o, "p", r.p));
    OK(gd_optimizer_add(r.o, "q", r.q));
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
    gd_release(r->q);
    end_context(r->ctx, NULL);
}

static void read_params(const run *r, double *x)
{
    OK(gd_read_f64(r->p, x, 2));
    OK(gd_read_f64(r->q, x + 2, 1));
}

static int tried, complaints;

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (complaints++ < 40) {
        vprint_error(format, args);
        print_error("\n");
    }
    va_end(args);
}

/* exact: values that the search sees are those of the objective, so the loss cannot rise. */
static void check_chain(const char *chain, bool exact)
{
    run r = open_run(chain);
    double before[N], after[N];
    int moved = 0;
    for (int i = 0; i < 3; i++) {
        double loss = loss_of(&r);
        read_params(&r, before);
        gd_status status = gd_optimizer_step(r.o, &(gd_objective){.loss = bowl, .user = &r}, &r.info);
        if (status) {
            complain("%s: %s", chain, gd_error_text(r.ctx));
            gd_clear_error(r.ctx);
            break;
        }
        read_params(&r, after);
        bool same = memcmp(before, after, sizeof before) == 0;
        moved += !same;
        if (!isfinite(after[0]) || !isfinite(after[1]) || !isfinite(after[2]))
            complain("%s: not finite", chain);
        if (r.info.search_failed && !same) complain("%s: a failed search moves the parameters", chain);
        if (same && !r.info.search_failed && !r.info.skipped && loss > 1e-20)
            complain("%s: nothing moves and the step info does not say why", chain);
        if (exact && loss_of(&r) > loss * (1 + 1e-12)) complain("%s: the loss rises", chain);
    }
    if (exact && !moved) complain("%s: no step at all", chain);
    tried++;
    close_run(&r);
}

static bool is_of(const gd_link_class *cls, const char *const *families, int count)
{
    for (int i = 0; i < count; i++)
        if (cls->family && !strcmp(cls->family, families[i])) return true;
    return false;
}

/* Links that need residuals have none of a closure that was changed. */
static bool needs_residuals(const char *text)
{
    return strstr(text, "gauss_newton") || strstr(text, "sum_of_squares");
}

static void after_every_direction(const gd_link_class *cls, const char *text)
{
    static const char *const families[] = {"quasi_newton", "conjugate_gradient", "second_order",
                                           "trust_region", "least_squares",      "step_size",
                                           "higher_order"};
    static const struct {
        const char *text;
        bool exact;
    } around[] = {{"", true}, {"fdm | ", true}, {"sam | ", false}, {"spsa(seed=1) | ", false}};
    if (!is_of(cls, families, COUNT_OF(families))) return;
    /* the inverse of products of gradients is longer the nearer the minimum: searches give up, and say so */
    if (!strcmp(cls->name, "natural_gradient")) return;
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        if (strcmp(all[i]->family ? all[i]->family : "", "line_search") != 0) continue;
        for (int k = 0; k < COUNT_OF(around); k++) {
            char chain[600];
            if (k && needs_residuals(text)) continue;
            snprintf(chain, sizeof chain, "%s%s | %s", around[k].text, text, all[i]->name);
            check_chain(chain, around[k].exact);
        }
    }
}

static void every_search_works_after_every_direction_inside_every_change_of_the_objective(void **state)
{
    (void)state;
    each_link_text(after_every_direction);
    print_message("%d chains\n", tried);
    if (complaints) fail_msg("%d complaints", complaints);
}

/* Products of a changed closure are differences of its gradients: those of finite differences lead where autograd does. */
static void newton_inside_fdm_takes_newtons_step(void **state)
{
    (void)state;
    static const char *const links[] = {"newton",
                                        "newton_cg",
                                        "inm",
                                        "rsn(3)",
                                        "sixth_order_3p",
                                        "trust_cg(newton)",
                                        "inverse_free_newton",
                                        "two_point_newton"};
    for (int i = 0; i < COUNT_OF(links); i++) {
        double x[2][N];
        for (int inside = 0; inside < 2; inside++) {
            char chain[80];
            snprintf(chain, sizeof chain, "%s%s", inside ? "fdm(h=1e-4) | " : "", links[i]);
            run r = open_run(chain);
            OK(gd_optimizer_step(r.o, &(gd_objective){.loss = bowl, .user = &r}, &r.info));
            read_params(&r, x[inside]);
            close_run(&r);
        }
        for (int k = 0; k < N; k++)
            if (!(fabs(x[0][k] - x[1][k]) < 1e-4))
                fail_msg("%s: %g inside fdm, %g without", links[i], x[1][k], x[0][k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_search_works_after_every_direction_inside_every_change_of_the_objective),
        TEST(newton_inside_fdm_takes_newtons_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
