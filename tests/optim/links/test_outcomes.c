/* What every link does where numbers or evaluations fail, through the table of links: points that are not finite, negative
 * curvature, singular and indefinite Hessians, dependent columns, flat and unbounded functions, closures that fail halfway.  The
 * outcomes are those of docs/outcomes.md. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

#include <unistd.h>

#define N 3 /* elements: p has two, q one */

/* ---- situations: residuals of p and q, or one number, and where to start ---- */

typedef struct situation {
    const char *name;
    gd_tensor *(*residuals)(gd_tensor *p, gd_tensor *q);
    double start[N];
} situation;

static gd_tensor *both(gd_tensor *p, gd_tensor *q) { return gd_cat((gd_tensor *[]){p, q}, 2, "0"); }

static gd_tensor *well_behaved(gd_tensor *p, gd_tensor *q)
{
    return both(gd_add_scalar(p, -1),
                gd_add(gd_add_scalar(q, -0.25), gd_mul_scalar(gd_slice(p, "0", 0, 1, 1), 0.1)));
}

static gd_tensor *logarithms(gd_tensor *p, gd_tensor *q) { return gd_mul_scalar(gd_log(both(p, q)), 10); }
static gd_tensor *exponentials(gd_tensor *p, gd_tensor *q) { return gd_exp(gd_mul_scalar(both(p, q), 400)); }
static gd_tensor *double_wells(gd_tensor *p, gd_tensor *q)
{
    return gd_add_scalar(gd_square(both(p, q)), -1);
}
static gd_tensor *well_and_bowl(gd_tensor *p, gd_tensor *q)
{
    return both(gd_add_scalar(gd_square(p), -1), q);
}
/* One residual, and a 0: a result of one element would be the loss itself. */
static gd_tensor *one_sum(gd_tensor *p, gd_tensor *q)
{
    gd_tensor *sum = gd_add(gd_sum(p, "0", true), gd_add_scalar(q, -3));
    return both(sum, gd_mul_scalar(q, 0));
}

static gd_tensor *dependent(gd_tensor *p, gd_tensor *q)
{
    gd_tensor *sum = gd_sum(p, "0", true);
    return gd_cat((gd_tensor *[]){gd_add_scalar(sum, -1), gd_add_scalar(gd_mul_scalar(sum, 2), -3),
                                  gd_add_scalar(q, -1), gd_mul_scalar(sum, 0.5)},
                  4, "0");
}

static gd_tensor *linear(gd_tensor *p, gd_tensor *q) { return gd_sqrt(both(p, q)); }
static gd_tensor *flat(gd_tensor *p, gd_tensor *q) { return gd_add_scalar(gd_mul_scalar(both(p, q), 0), 1); }
static gd_tensor *quartic(gd_tensor *p, gd_tensor *q) { return gd_square(both(p, q)); }
static gd_tensor *without_q(gd_tensor *p, gd_tensor *q)
{
    (void)q;
    return gd_add_scalar(p, -1);
}

static gd_tensor *constant(gd_tensor *p, gd_tensor *q)
{
    (void)q;
    return gd_ones(gd_tensor_ctx(p), gd_tensor_dtype(p), 1, (int64_t[]){4});
}

/* One number each, without a lowest one: downhill for ever, and ever steeper until it overflows. */
static gd_tensor *endless(gd_tensor *p, gd_tensor *q) { return gd_sum(both(p, q), NULL, false); }
static gd_tensor *abyss(gd_tensor *p, gd_tensor *q)
{
    gd_tensor *x = both(p, q);
    return gd_neg(gd_sum(gd_mul(gd_square(x), x), NULL, false));
}

static const situation situations[] = {
    {"a good problem", well_behaved, {1.75, 0.5, 0.75}},
    {"loss that is not a number", logarithms, {-1, 2, 3}},
    {"infinite loss", exponentials, {2, 1, 3}},
    {"trial points that are not finite", logarithms, {2, 0.5, 3}},
    {"trial points that overflow", exponentials, {0.01, -0.02, 0.02}},
    {"negative curvature everywhere", double_wells, {0.1, -0.05, 0.2}},
    {"indefinite Hessian", well_and_bowl, {0.1, -0.05, 2}},
    {"fewer residuals than parameters", one_sum, {1, 2, -4}},
    {"dependent columns", dependent, {1, 2, -4}},
    {"linear loss", linear, {1, 2, 4}},
    {"flat function", flat, {1, 2, 4}},
    {"singular minimum", quartic, {0.5, 0, -1e-3}},
    {"parameter without influence", without_q, {3, 2, 1}},
    {"constant objective", constant, {3, 2, 1}},
    {"unbounded function", endless, {3, 2, 1}},
    {"unbounded function, ever steeper", abyss, {1, 2, 0.5}},
};

/* ---- a run ---- */

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q;
    const situation *now;
    double eps;                  /* from 1 to the next number */
    int calls, fail_at, nowhere; /* nowhere: evaluations at parameters that are not finite */
    gd_step_info info;
} run;

static void read_params(const run *r, double *x)
{
    OK(gd_read_f64(r->p, x, 2));
    OK(gd_read_f64(r->q, x + 2, 1));
}

static bool all_finite(const double *x) { return isfinite(x[0]) && isfinite(x[1]) && isfinite(x[2]); }

static gd_tensor *objective(void *user)
{
    run *r = user;
    double x[N];
    read_params(r, x);
    r->nowhere += !all_finite(x);
    if (++r->calls == r->fail_at) {
        (void)gd_fail(r->ctx, GD_CALLBACK, "made to fail");
        return NULL;
    }
    return r->now->residuals(r->p, r->q);
}

static gd_status step_of(run *r)
{
    return gd_optimizer_step(r->o, &(gd_objective){.loss = objective, .user = r}, &r->info);
}

static gd_ctx *seeded_context(uint64_t seed)
{
    gd_options options = gd_options_default();
    options.seed = seed;
    options.threads = 1;
    options.compile = false;
    options.files = quick_files();
    return gd_ctx_new(&options);
}

static gd_ctx *plain_context(void) { return seeded_context(gd_options_default().seed); }

static run open_run(gd_ctx *ctx, const char *chain, const situation *now, gd_dtype dtype)
{
    run r = {.ctx = ctx, .now = now, .eps = (double)epsilon_of(dtype)};
    r.p = gd_require_grad(gd_from_f64(ctx, dtype, 1, (int64_t[]){2}, now->start));
    r.q = gd_require_grad(gd_from_f64(ctx, dtype, 1, (int64_t[]){1}, now->start + 2));
    r.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!r.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
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

static double loss_now(run *r)
{
    gd_scope_begin(r->ctx);
    gd_tensor *result = r->now->residuals(r->p, r->q);
    double loss = gd_item(gd_ndim(result) ? gd_sum(gd_square(result), NULL, false) : result);
    gd_scope_end(r->ctx);
    return loss;
}

/* ---- what must hold ---- */

static int checked, complaints;

/* Goes on after a failure: what is wrong with one link may be wrong with others. */
__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (complaints++ < 200) {
        vprint_error(format, args);
        print_error("\n");
    }
    va_end(args);
}

static void assert_no_complaints(void)
{
    int count = complaints;
    complaints = 0;
    if (count) fail_msg("%d complaints", count);
}

/* Links that only make or change a gradient hand on what is not finite; those of these families do not. */
static bool never_hands_on_nonsense(const gd_link_class *cls)
{
    static const char *const families[] = {"line_search", "trust_region", "second_order", "higher_order",
                                           "least_squares"};
    for (int i = 0; i < COUNT_OF(families); i++)
        if (!strcmp(cls->family, families[i])) return strcmp(cls->name, "sum_of_squares") != 0;
    return false;
}

/* From a finite start one step stays finite, but for these. */
static bool may_leave(const gd_link_class *cls)
{
    static const struct {
        const char *link, *why;
    } exceptions[] = {
        {"aegd", "the root of a loss below -c is no number"},
        {"div", "divides by what its chain gives, zero too"},
        {"div_modules", "divides zero by zero where its chains give zero"},
        {"exp", "the exponential of a large gradient overflows"},
        {"exp_homotopy", "the exponential of a large loss overflows"},
        {"pow", "no power of a negative number that is not whole is one"},
        {"pow_modules", "no power of a negative number that is not whole is one"},
        {"rdiv", "divides by the gradient"},
        {"reciprocal", "divides by the gradient"},
        {"rpow", "no power of a negative number that is not whole is one"},
        {"sqrt", "a negative number has no root"},
        {"sqrt_homotopy", "a negative loss has no root"},
        {"last_ratio", "divides by the last update"},
        {"multistep", "nothing searches along its own steps: they may leave the domain"},
        {"sequential", "the same"},
        {"weight_dropout", "the gradient where some weights are 0 need not be finite"},
    };
    for (int i = 0; i < COUNT_OF(exceptions); i++)
        if (!strcmp(cls->name, exceptions[i].link)) return true;
    return false;
}

/* mezo keeps no copy: it moves the parameters there and back, which leaves them within rounding. */
static bool is_inexact(const char *chain) { return strstr(chain, "mezo") != NULL; }

static bool moved(const run *r, const char *chain, const double *before, const double *after)
{
    if (!is_inexact(chain)) return memcmp(before, after, N * sizeof *before) != 0;
    for (int i = 0; i < N; i++)
        if (fabs(after[i] - before[i]) > 8 * r->eps * (fabs(before[i]) + 1)) return true;
    return false;
}

/* How much higher a loss may be and still count as the same: what line searches take for rounding. */
static double noise_of(const run *r, const char *chain, double loss)
{
    double noise = 8 * r->eps * fabs(loss);
    /* rounding of the parameters times slopes, which are up to 800 times the loss here */
    return is_inexact(chain) ? 400 * noise + 32 * r->eps * (sqrt(fabs(loss)) + r->eps) : noise;
}

/* It changes the parameters whatever a search after it finds, or the search is along another function than the loss. */
static bool moves_by_itself(const gd_link_class *cls)
{
    static const char *const others[] = {"basin_hopping",   "gradient_sampling",   "multi_start",
                                         "perturb_weights", "random_reinitialize", "weight_dropout"};
    for (int i = 0; i < COUNT_OF(others); i++)
        if (!strcmp(cls->name, others[i])) return true;
    return cls->target && !strcmp(cls->target, "params_direct");
}

/* One step in a situation.  searches: the last link is a line search on the true loss. */
static void check_step(run *r, const gd_link_class *cls, const char *chain, bool searches, bool first)
{
    double before[N], after[N], loss = loss_now(r);
    read_params(r, before);
    r->nowhere = 0;
    gd_status status = step_of(r);
    read_params(r, after);
    if (status) {
        /* no gradient leads to the parameters: links that ask for it get an error, and move nothing */
        if (status != GD_GRAPH || r->now->residuals != constant || moved(r, chain, before, after))
            complain("%s, %s: %s", chain, r->now->name, gd_error_text(r->ctx));
        gd_clear_error(r->ctx);
        return;
    }
    bool start_finite = isfinite(loss), careful = searches || never_hands_on_nonsense(cls);
    if ((careful || (first && start_finite && !may_leave(cls))) && !all_finite(after))
        complain("%s, %s: the step leads to %g %g %g", chain, r->now->name, after[0], after[1], after[2]);
    if (!start_finite && r->info.has_loss && r->info.finite && !moves_by_itself(cls))
        complain("%s, %s: a loss that is not finite is not in the step info", chain, r->now->name);
    if (all_finite(before) && r->nowhere && !may_leave(cls))
        complain("%s, %s: evaluated where parameters are not finite", chain, r->now->name);
    /* these two let nothing through while they gather */
    bool gathers = !strcmp(cls->name, "gradient_accumulation") || !strcmp(cls->name, "svrg");
    bool says_so = r->info.search_failed || r->info.skipped || gathers;
    if (!start_finite && careful && !says_so)
        complain("%s, %s: the step info says nothing", chain, r->now->name);
    /* an estimate of spsa1 has the whole value of the loss in it */
    bool noisy = !strcmp(cls->name, "spsa1");
    if (r->now->residuals == flat && careful && !noisy && moved(r, chain, before, after))
        complain("%s: moves on a flat function", chain);
    if (!searches) return;
    double now = loss_now(r);
    if (start_finite && !(now <= loss + noise_of(r, chain, loss)))
        complain("%s, %s: the loss rises from %.17g to %.17g", chain, r->now->name, loss, now);
    if (r->info.search_failed && moved(r, chain, before, after))
        complain("%s, %s: a failed search moves the parameters", chain, r->now->name);
    if (!start_finite && moved(r, chain, before, after))
        complain("%s, %s: the parameters move from a start that is not finite", chain, r->now->name);
}

/* Four steps in the situation, then from a good start the links must work as if nothing had been. */
static void check_situation(const gd_link_class *cls, const char *chain, bool searches, const situation *s,
                            gd_dtype dtype)
{
    run r = open_run(plain_context(), chain, s, dtype);
    for (int i = 0; i < 4; i++) check_step(&r, cls, chain, searches, i == 0);
    r.now = &situations[0];
    OK(gd_write_f64(r.p, r.now->start, 2));
    OK(gd_write_f64(r.q, r.now->start + 2, 1));
    double x[N];
    for (int i = 0; i < 3; i++) {
        if (step_of(&r)) {
            complain("%s, after %s: %s", chain, s->name, gd_error_text(r.ctx));
            gd_clear_error(r.ctx);
        }
        read_params(&r, x);
    }
    if (searches && !all_finite(x)) complain("%s, after %s: not finite", chain, s->name);
    close_run(&r);
}

/* Sums of squares have a lowest value: links that need residuals cannot be there. */
static bool possible(const char *chain, const situation *s)
{
    bool one_number = s->residuals == endless || s->residuals == abyss;
    return !one_number || !(strstr(chain, "gauss_newton") || strstr(chain, "sum_of_squares") ||
                            strstr(chain, "natural_gradient"));
}

static void check_situations(const gd_link_class *cls, const char *chain, bool searches)
{
    static const gd_dtype dtypes[] = {GD_F64, GD_F32};
    for (int i = 0; i < COUNT_OF(situations); i++)
        for (int k = 0; k < 2 && possible(chain, &situations[i]); k++, checked++)
            check_situation(cls, chain, searches, &situations[i], dtypes[k]);
}

static void in_every_situation(const gd_link_class *cls, const char *text)
{
    static const char *const shapes[] = {"%s | lr(0.01)", "%s | backtracking", "%s | strong_wolfe",
                                         "%s | strong_wolfe(fallback=true, plus_minus=true, adaptive=false)",
                                         "%s | adaptive_backtracking"};
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        char chain[500];
        snprintf(chain, sizeof chain, shapes[i], text);
        check_situations(cls, chain, i > 0 && !moves_by_itself(cls));
    }
}

static void every_link_has_an_outcome_in_every_situation(void **state)
{
    (void)state;
    each_link_text(in_every_situation);
    print_message("%d situations\n", checked);
    assert_no_complaints();
}

/* ---- closures that fail halfway ---- */

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/gradus-test-outcomes-XXXXXX");
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    return fd < 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* What is left can be saved, and goes on from the file as it does without. */
static void goes_on(run *r, const gd_link_class *cls, const char *chain, int k)
{
    double here[N], there[N];
    if (gd_optimizer_save(r->o, path)) complain("%s, evaluation %d: %s", chain, k, gd_error_text(r->ctx));
    run other = open_run(plain_context(), chain, r->now, GD_F64);
    memcpy(gd_data_mut(other.p), gd_data(r->p), 2 * sizeof(double));
    memcpy(gd_data_mut(other.q), gd_data(r->q), sizeof(double));
    if (gd_optimizer_load(other.o, path, true))
        complain("%s, evaluation %d: %s", chain, k, gd_error_text(other.ctx));
    for (int i = 0; i < 2; i++) {
        if (step_of(r)) complain("%s, after evaluation %d failed: %s", chain, k, gd_error_text(r->ctx));
        if (step_of(&other)) complain("%s, after loading: %s", chain, gd_error_text(other.ctx));
    }
    read_params(r, here);
    read_params(&other, there);
    if (memcmp(here, there, sizeof here))
        complain("%s: differs after evaluation %d failed and a load", chain, k);
    /* without a learning rate or a search steps may be of any size */
    if (!all_finite(here) && strchr(chain, '|') && !may_leave(cls))
        complain("%s: not finite after evaluation %d failed", chain, k);
    close_run(&other);
}

/* False when the step has no evaluation k. */
static bool check_failure(const gd_link_class *cls, const char *chain, const situation *s, int warm, int k)
{
    double before[N], after[N];
    run r = open_run(plain_context(), chain, s, GD_F64);
    for (int i = 0; i < warm; i++)
        if (step_of(&r)) complain("%s: %s", chain, gd_error_text(r.ctx));
    read_params(&r, before);
    int64_t steps = gd_optimizer_steps(r.o);
    r.fail_at = r.calls + k;
    gd_status status = step_of(&r);
    bool failed = r.calls >= r.fail_at;
    if (failed) {
        read_params(&r, after);
        if (status != GD_CALLBACK || strcmp(gd_error_text(r.ctx), "made to fail") != 0)
            complain("%s: evaluation %d fails, the step says %s", chain, k, gd_error_text(r.ctx));
        if (moved(&r, chain, before, after))
            complain("%s: evaluation %d fails and moves the parameters", chain, k);
        if (gd_optimizer_steps(r.o) != steps) complain("%s: a failed step is counted", chain);
        gd_clear_error(r.ctx);
        goes_on(&r, cls, chain, k);
        checked++;
    } else if (status)
        complain("%s: %s", chain, gd_error_text(r.ctx));
    close_run(&r);
    return failed;
}

static void in_every_evaluation(const gd_link_class *cls, const char *text)
{
    static const char *const shapes[] = {"%s | lr(0.01)",
                                         "%s",
                                         "%s | strong_wolfe",
                                         "heavy_ball | %s | lr(0.01)",
                                         "lbfgs | %s | backtracking",
                                         "clip_value(9, target=\"params_direct\") | %s"};
    /* closures that fail need a closure; a clock runs on while the others are compared */
    if (strstr(cls->name, "seconds")) return;
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        char chain[500];
        snprintf(chain, sizeof chain, shapes[i], text);
        for (int warm = 0; warm <= 2; warm += 2)
            for (int k = 1; k < 40 && check_failure(cls, chain, &situations[0], warm, k);) k++;
    }
}

static void a_failing_closure_leaves_parameters_and_state_for_every_link(void **state)
{
    (void)state;
    checked = 0;
    each_link_text(in_every_evaluation);
    print_message("%d failed evaluations\n", checked);
    assert_no_complaints();
}

/* ---- what docs/outcomes.md says, link by link ---- */

/* Columns of its table but the first, the link, and the last, closures that fail. */
static const char *const columns[] = {"loss that is not a number",
                                      "trial points that are not finite",
                                      "negative curvature everywhere",
                                      "fewer residuals than parameters",
                                      "indefinite Hessian",
                                      "dependent columns",
                                      "flat function",
                                      "unbounded function, ever steeper"};

static const situation *situation_called(const char *name)
{
    for (int i = 0; i < COUNT_OF(situations); i++)
        if (!strcmp(situations[i].name, name)) return &situations[i];
    fail_msg("no situation '%s'", name);
    return NULL;
}

static bool evaluates(const gd_link_class *cls)
{
    return cls->traits.needs_closure || cls->hessian || cls->traits.uses_loss || !strcmp(cls->name, "box");
}

/* What comes of three steps, in the words of the table. */
static const char *outcome_with(const char *chain, const situation *s, uint64_t seed)
{
    double before[N], after[N];
    bool went = false, failed = false, skipped = false, refused = false;
    run r = open_run(seeded_context(seed), chain, s, GD_F64);
    double first = loss_now(&r);
    for (int i = 0; i < 3 && !refused; i++) {
        read_params(&r, before);
        refused = step_of(&r) != GD_OK;
        read_params(&r, after);
        went = went || moved(&r, chain, before, after);
        failed = failed || r.info.search_failed;
        skipped = skipped || r.info.skipped;
    }
    gd_clear_error(r.ctx);
    double last = loss_now(&r);
    bool finite = all_finite(after);
    close_run(&r);
    if (refused) return "refused";
    if (!finite || (isfinite(first) && isnan(last))) return "not finite";
    if (!went) return failed ? "failed" : skipped ? "skipped" : "stays";
    return last < first ? "lower" : last > first ? "higher" : "moves";
}

/* What is a matter of chance is only a step. */
static const char *outcome_of(const char *chain, const situation *s)
{
    if (!possible(chain, s)) return "needs residuals";
    const char *one = outcome_with(chain, s, 1);
    for (uint64_t seed = 2; seed < 6; seed++)
        if (strcmp(one, outcome_with(chain, s, seed)) != 0) return "moves";
    return one;
}

static const char *failure_of(const char *chain)
{
    double before[N], after[N];
    run r = open_run(plain_context(), chain, &situations[0], GD_F64);
    OK(step_of(&r));
    int calls = r.calls;
    OK(step_of(&r));
    int each = r.calls - calls;
    read_params(&r, before);
    r.fail_at = r.calls + (each > 1 ? each : 1); /* the last of as many as the step before had */
    bool error = step_of(&r) == GD_CALLBACK;
    read_params(&r, after);
    gd_clear_error(r.ctx);
    bool same = !memcmp(before, after, sizeof before), near = !moved(&r, chain, before, after);
    close_run(&r);
    return !error ? "none" : same ? "back" : near ? "near" : "moved";
}

/* The cells of a link as they should be. */
static void make_cells(const gd_link_class *cls, char *row, size_t size)
{
    char text[400], chain[500];
    link_text(cls, NULL, text, sizeof text);
    snprintf(chain, sizeof chain, "%s | lr(0.01)", text);
    size_t used = (size_t)snprintf(row, size, " |");
    for (int i = 0; i < COUNT_OF(columns); i++)
        used += (size_t)snprintf(row + used, size - used, " %s |",
                                 outcome_of(chain, situation_called(columns[i])));
    snprintf(row + used, size - used, " %s |", failure_of(chain));
}

/* Has the text a line of a table whose first cell names the link, and whose others are these? */
static bool has_row(const char *text, const char *name, const char *cells)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t length = strcspn(line, "\n"), size = strlen(cells);
        const char *at = *line == '|' ? strstr(line, name) : NULL;
        if (length > size && at && at < line + length && !strncmp(line + length - size, cells, size))
            return true;
    }
    return false;
}

static void the_table_of_outcomes_has_every_link_that_evaluates(void **state)
{
    (void)state;
    static char text[1 << 16];
    char file[1024], row[1024];
    snprintf(file, sizeof file, "%s/../docs/outcomes.md", GD_TEST_DIR);
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i += test_share()) {
        if (!evaluates(all[i])) continue;
        char name[80];
        snprintf(name, sizeof name, "`%s`", all[i]->name);
        make_cells(all[i], row, sizeof row);
        if (!has_row(text, name, row)) complain("docs/outcomes.md should have a row\n| %s%s", name, row);
    }
    assert_no_complaints();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_table_of_outcomes_has_every_link_that_evaluates),
        TEST(every_link_has_an_outcome_in_every_situation),
        TEST(a_failing_closure_leaves_parameters_and_state_for_every_link),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
