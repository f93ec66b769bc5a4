/* Settings in force, through the table of links: every setting of every link is reached by a group, by a schedule and by
 * link-local settings, with the same bits as when it is written in the chain.  A link that is added is tested at once; a
 * setting that does nothing in the usual situation needs a row below, or the test fails. */
#include "gradus/chain.h"
#include "optim/optim_support.h"
#include "optim/table_support.h"

#define STEPS 6
#define N     3 /* elements: p has two, q one; both are matrices, which some links want */

/* ---- where a setting acts that does not in `LINK | lr(0.5)` ---- */

typedef struct situation {
    const char *link, *field; /* field NULL: all of the link */
    const char *chain;        /* NULL: none with two tensors of one axis longer than 1; tested elsewhere */
    double value;             /* 0: found by trying */
} situation;

static const situation situations[] = {
    {"lr", NULL, "lr(0.5)", 0},
    {"adahessian", "fd_h", "adahessian(hvp_method=\"forward\") | lr(0.5)", 0},
    {"esgd", "fd_h", "esgd(hvp_method=\"forward\", update_freq=1) | lr(0.5)", 0},
    {"sophia_h", "fd_h", "sophia_h(hvp_method=\"forward\", update_freq=1, clip=1e6) | lr(0.01)", 0},
    {"random_hvp", "h", "random_hvp(hvp_method=\"forward\") | lr(0.5)", 0},
    {"matrix_momentum", "h", "matrix_momentum(0.01, hvp_method=\"forward\")", 0},
    {"matrix_momentum", "adapt_freq", "matrix_momentum(0.01, adaptive=true)", 0},
    {"forward_gradient", "h", "forward_gradient(jvp_method=\"forward\") | lr(0.01)", 0},
    {"cd", "seed", "cd(index=\"random\") | lr(0.1)", 0},
    {"escape_annealing", "tol", "escape_annealing(n_tol=1, max_iter=5) | lr(0.01)", 1e10},
    {"escape_annealing", "n_tol", "escape_annealing(tol=1e10, max_iter=5) | lr(0.01)", 1},
    {"escape_annealing", NULL, "escape_annealing(n_tol=1, tol=1e10, max_iter=5) | lr(0.01)", 0},
    {"gradient_sampling", "decay",
     "gradient_sampling(n=2, termination=terminate_after_n_steps(1)) | lr(0.01)", 0},
    {"gradient_sampling", "sigma_nminus",
     "gradient_sampling(n=2, sigma_strategy=\"value\", sigma_target=100) | lr(0.01)", 0},
    {"gradient_sampling", "sigma_nplus",
     "gradient_sampling(n=2, sigma_strategy=\"value\", sigma_target=0) | lr(0.01)", 0},
    {"gradient_sampling", "sigma_target",
     "gradient_sampling(n=2, sigma_strategy=\"value\", sigma_target=0) | lr(0.01)", 100},
    {"basin_hopping", "n", "basin_hopping([lr(0.01)], steps=1)", 0},
    {"basin_hopping", "reach", "basin_hopping([lr(0.01)], steps=1)", 0},
    {"basin_hopping", "temperature", "basin_hopping([lr(0.01)], steps=1)", 0},
    {"basin_hopping", "seed", "basin_hopping([lr(0.01)], steps=1)", 0},
    {"multi_start", "n", "multi_start([lr(0.01)], steps=1)", 0},
    {"multi_start", "seed", "multi_start([lr(0.01)], steps=1)", 0},
    {"cma_es", "restarts", "cma_es(sigma=1e-12)", 0},
    {"nelder_mead", "restarts", "nelder_mead(size=10, tol=1e10)", 0},
    {"cma_es", "growth", "cma_es(sigma=1e-12)", 0},
    {"differential_evolution", "restarts", "differential_evolution(population=5, tol=1e10)", 0},
    {"random_reinitialize", "store_every", "random_reinitialize(1, 0.5) | lr(0.1)", 1},
    {"random_reinitialize", "beta", "random_reinitialize(1, 0.5, store_every=1) | lr(0.1)", 0},
    {"random_reinitialize", "seed", "random_reinitialize(0.5, 0.5) | lr(0.1)", 0},
    {"powell_restart", "cond1", "powell_restart(heavy_ball(0.5), cond2=none) | lr(0.01)", 0},
    {"powell_restart", "cond2", "powell_restart(heavy_ball(0.5), cond1=none) | lr(0.01)", 0},
    {"restart_on_stuck", "tol", "restart_on_stuck(heavy_ball(0.5), n_tol=1) | lr(0.1)", 1e10},
    {"restart_on_stuck", "n_tol", "restart_on_stuck(heavy_ball(0.5), tol=1e10, n_tol=2) | lr(0.1)", 1},
    {"cautious", "eps", "heavy_ball(0.99) | cautious(normalize=true) | lr(0.01)", 0.99},
    {"dogleg", "nminus", "dogleg(newton, init=100, eta=0.9)", 0},
    {"dogleg", "max_attempts", "dogleg(newton, init=100, eta=0.9)", 0},
    {"higher_order_newton", "nminus", "higher_order_newton(2, init=100, eta=0.9)", 0},
    {"higher_order_newton", "max_attempts", "higher_order_newton(2, init=100, eta=0.9)", 0},
    {"higher_order_newton", "boundary_tol", "higher_order_newton(trust_method=\"proximal\", init=0.4)", 0},
    {"trust_cg", "nminus", "trust_cg(newton, init=100, eta=0.9)", 0},
    {"trust_cg", "max_attempts", "trust_cg(newton, init=100, eta=0.9)", 0},
    {"cubic_regularization", "nminus", "cubic_regularization(newton, init=100, eta=0.9)", 0},
    {"cubic_regularization", "max_attempts", "cubic_regularization(newton, init=100, eta=0.9)", 0},
    {"levenberg_marquardt", "nminus", "levenberg_marquardt(newton, init=100, eta=0.9)", 0},
    {"levenberg_marquardt", "max_attempts", "levenberg_marquardt(newton, init=100, eta=0.9)", 0},
    {"dogleg", "nplus", "dogleg(newton, init=0.01)", 0},
    {"dogleg", "rho_good", "dogleg(newton, init=0.01)", 1000000.0},
    {"dogleg", "boundary_tol", "dogleg(newton, init=0.1)", 0},
    {"trust_cg", "nplus", "trust_cg(newton, init=0.01)", 0},
    {"trust_cg", "rho_good", "trust_cg(newton, init=0.01)", 1000000.0},
    {"trust_cg", "boundary_tol", "trust_cg(newton, init=0.4)", 0},
    {"newton_cg_steihaug", "h", "newton_cg_steihaug(hvp_method=\"forward\")", 0},
    {"newton_cg_steihaug", "nminus", "newton_cg_steihaug(init=100, eta=0.9)", 0},
    {"newton_cg_steihaug", "max_attempts", "newton_cg_steihaug(init=100, eta=0.9)", 0},
    {"newton_cg_steihaug", "max_history", "newton_cg_steihaug(init=100, eta=0.9, hvp_method=\"central\")", 0},
    {"newton_cg_steihaug", "nplus", "newton_cg_steihaug(init=0.01)", 0},
    {"newton_cg_steihaug", "rho_good", "newton_cg_steihaug(init=0.01)", 1000000.0},
    {"newton_cg_steihaug", "boundary_tol", "newton_cg_steihaug(init=0.01)", 0},
    {"newton_cg_steihaug", "miniter", "newton_cg_steihaug(tol=1e10)", 0},
    {"clip_modules", "input", "clip_modules(0.5, -5, 5) | lr(0.5)", 0},
    {"clip_modules", "min", "clip_modules(0.5, -5, 5) | lr(0.5)", 0},
    {"lerp_modules", "weight", "lerp_modules(ema, heavy_ball, 0.5) | lr(0.5)", 0},
    {"debias", "pow", "debias(beta2=0.9) | lr(0.5)", 0},
    {"nan_to_num", "nan", "sub(1e3) | sqrt | nan_to_num | lr(0.5)", 0},
    {"nan_to_num", "posinf", "sub(grad) | reciprocal | nan_to_num | lr(0.5)", 0},
    {"nan_to_num", "neginf", "sub(grad) | rdiv(-1) | nan_to_num | lr(0.5)", 0},
    {"newton_cg", "miniter", "newton_cg(tol=1e10)", 0},
    {"newton_cg", "h", "newton_cg(hvp_method=\"forward\")", 0},
    {"nystrom_pcg", "h", "nystrom_pcg(2, hvp_method=\"forward\")", 0},
    {"nystrom_sketch_and_solve", "h", "nystrom_sketch_and_solve(2, reg=1, hvp_method=\"forward\")", 0},
    {"rsn", "h", "rsn(2, hvp_method=\"forward\")", 0},
    {"newton", "h", "newton(hessian_method=\"gfd_forward\") | lr(0.5)", 0},
    {"inverse_free_newton", "h", "inverse_free_newton(hessian_method=\"gfd_forward\") | lr(0.5)", 0},
    {"psgd_kron_newton", "balance_probability", NULL, 0}, /* test_psgd.c */
    {"psgd_kron_whiten", "balance_probability", NULL, 0},
    {"psgd_dense_newton", "h", "psgd_dense_newton(hvp_method=\"forward\") | lr(0.5)", 0},
    {"psgd_kron_newton", "h", "psgd_kron_newton(hvp_method=\"forward\") | lr(0.5)", 0},
    {"psgd_lra_newton", "h", "psgd_lra_newton(hvp_method=\"forward\") | lr(0.5)", 0},
    {"improved_newton", "h", "improved_newton(hessian_method=\"gfd_forward\") | lr(0.5)", 0},
    {"subspace_newton", "h", "subspace_newton(hvp_method=\"forward\") | lr(0.5)", 0},
    {"subspace_newton", "seed", "subspace_newton(1, \"gaussian\") | lr(0.5)", 0},
    {"sg2", NULL, "sg2(start_step=2) | lr(0.05)", 0},
    {"laplacian_smoothing", "sigma", "laplacian_smoothing(min_numel=0) | lr(0.5)", 0},
    {"soap", "decay", "soap(precond_freq=1) | lr(0.5)", 0},
    {"radam", "eps", "radam | lr(0.01)", 0},
    {"augmented_lagrangian", NULL, "augmented_lagrangian([lbfgs | strong_wolfe])", 0},
    {"clip_norm_growth", "max_decay", "clip_norm_growth(mul=0.9) | lr(0.01)", 1.01},
    {"clip_value_growth", "max_decay", "clip_value_growth(mul=0.9) | lr(0.01)", 1.01},
    {"intermodule_cautious", "eps",
     "intermodule_cautious(heavy_ball(0.9), ema(0), normalize=true) | lr(0.01)", 0},
    {"update_gradient_sign_consistency", "eps", "update_gradient_sign_consistency(normalize=true) | lr(0.01)",
     0},
    {"asgd", NULL, "asgd(t0=1)", 0},
    {"bold_driver", "nminus", "bold_driver(0.5) | lr(0.5)", 0},
    {"mul_by_loss", "min_value", "mul_by_loss(min_value=100) | lr(0.001)", 0},
    {"div_by_loss", "min_value", "div_by_loss(min_value=100) | lr(0.5)", 0},
    {"loss_scale", "growth_interval", "loss_scale(1e305, growth_interval=1, growth=1000) | lr(0.01)", 0},
    {"loss_scale", "growth", "loss_scale(1e305, growth_interval=1) | lr(0.01)", 1000},
    {"loss_scale", "backoff", "loss_scale(1e308) | lr(0.01)", 0.001},
    {"polyak_step_size", "y", "polyak_step_size(f_star=none)", 0},
    {"polyak_step_size", "y_decay", "polyak_step_size(f_star=none)", 0},
    {"strong_wolfe", "maxiter", "strong_wolfe(init_value=1e-9)", 1},
    {"terminate_by_gradient_norm", "n", "terminate_by_gradient_norm(tol=1e10) | lr(0.01)", 0},
    {"terminate_by_gradient_norm", "ord", "terminate_by_gradient_norm(tol=10, n=1) | lr(0.05)", 0.1},
    {"terminate_by_update_norm", "n", "terminate_by_update_norm(tol=1e10) | lr(0.01)", 0},
    {"terminate_by_update_norm", "ord", "terminate_by_update_norm(tol=10, n=1) | lr(0.05)", 0.1},
    {"terminate_on_no_improvement", "tol", "terminate_on_no_improvement(n=2) | lr(0.01)", 10000000000.0},
};

/* ---- a run: what a chain did ---- */

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q;
    bool constrained;
} run;

typedef struct trace {
    double x[STEPS][N], evaluated[STEPS][N];
    double loss[STEPS];
    int64_t evals[STEPS];
    bool terminate[STEPS];
} trace;

static const double start[N] = {-1.2, 1, 0.75};

/* Rosenbrock's residuals and one that ties q to p: curved, never flat, with a minimum at (1, 1, 0.5). */
static gd_tensor *residuals(void *user)
{
    const run *r = user;
    gd_tensor *p = gd_reshape(r->p, 1, (int64_t[]){2}), *q = gd_reshape(r->q, 1, (int64_t[]){1});
    gd_tensor *a = gd_slice(p, "0", 0, 1, 1), *b = gd_slice(p, "0", 1, 2, 1);
    gd_tensor *list[] = {gd_mul_scalar(gd_sub(b, gd_square(a)), 3), gd_add_scalar(a, -1),
                         gd_sub(gd_square(q), gd_mul_scalar(a, 0.25))};
    return gd_cat(list, 3, "0");
}

/* Something to honour for chains that do: p_0 p_1 + q = 3. */
static gd_tensor *constraint(void *user)
{
    const run *r = user;
    gd_tensor *p = gd_reshape(r->p, 1, (int64_t[]){2}), *q = gd_reshape(r->q, 1, (int64_t[]){1});
    return gd_add_scalar(gd_add(gd_mul(gd_slice(p, "0", 0, 1, 1), gd_slice(p, "0", 1, 2, 1)), q), -3);
}

static run open_run(const char *chain)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.compile = false;
    options.files = quick_files();
    run r = {.ctx = gd_ctx_new(&options)};
    gd_seed(r.ctx, 7);
    r.constrained = strstr(chain, "augmented_lagrangian") != NULL;
    r.p = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 2, (int64_t[]){2, 1}, start));
    r.q = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 2, (int64_t[]){1, 1}, start + 2));
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

static gd_status go(run *r, trace *t, int i)
{
    gd_step_info info = {0};
    gd_status status = gd_optimizer_step(
        r->o, &(gd_objective){.loss = residuals, .user = r, .equal = r->constrained ? constraint : NULL},
        &info);
    OK(gd_read_f64(r->p, t->x[i], 2));
    OK(gd_read_f64(r->q, t->x[i] + 2, 1));
    if (!status) {
        OK(gd_optimizer_evaluate(r->o, true));
        OK(gd_read_f64(r->p, t->evaluated[i], 2));
        OK(gd_read_f64(r->q, t->evaluated[i] + 2, 1));
        OK(gd_optimizer_evaluate(r->o, false));
    }
    t->loss[i] = info.has_loss ? info.loss : 0;
    t->evals[i] = info.evals;
    t->terminate[i] = info.terminate;
    return status;
}

/* Runs and closes; where a step fails the rest of the trace is zeros. */
static gd_status finish(run *r, trace *t)
{
    memset(t, 0, sizeof *t);
    gd_status status = GD_OK;
    for (int i = 0; i < STEPS && !status; i++) status = go(r, t, i);
    gd_clear_error(r->ctx);
    close_run(r);
    return status;
}

static bool same(const trace *a, const trace *b) { return !memcmp(a, b, sizeof *a); }

/* ---- ways to set ---- */

typedef enum way { BY_NOTHING, BY_TEXT, BY_GROUP, BY_SCHEDULE, BY_LOCAL, WAYS } way;
static const char *const way_name[] = {"nothing", "text", "group", "schedule", "link-local"};

typedef struct change {
    const char *field;
    gd_setting value;
    run *r;
} change;

static gd_status set_own(void *user, gd_link *link, const char *path)
{
    (void)path;
    const change *c = user;
    if (gd__field_index(gd_link_class_of(link), c->field) < 0) return GD_OK;
    switch (c->value.kind) {
    case GD_SET_REAL: return gd_link_set_real(link, c->field, c->value.real);
    case GD_SET_BOOL: return gd_link_set_bool(link, c->field, c->value.real != 0);
    default: return gd_link_set_string(link, c->field, c->value.string);
    }
}

static gd_status set_locals(void *user, gd_link *link, const char *path)
{
    (void)path;
    const change *c = user;
    if (gd__field_index(gd_link_class_of(link), c->field) < 0) return GD_OK;
    gd_status status = gd_link_set_for(link, c->r->p, c->field, c->value);
    return status ? status : gd_link_set_for(link, c->r->q, c->field, c->value);
}

static void value_text(const gd_setting *value, char *out, size_t size)
{
    if (value->kind == GD_SET_REAL) snprintf(out, size, "%.17g", value->real);
    if (value->kind == GD_SET_BOOL) snprintf(out, size, "%s", value->real != 0 ? "true" : "false");
    if (value->kind == GD_SET_STRING) snprintf(out, size, "\"%s\"", value->string);
}

/* The chain with the setting written in it; false: its links do not take the value. */
static bool text_with(const char *chain, change c, char *out, size_t size)
{
    run r = open_run(chain);
    gd_link *copy = gd_chain(r.ctx, chain);
    bool taken = gd__visit_links(copy, "", set_own, &c) == GD_OK;
    if (taken) (void)gd_link_print(copy, out, size);
    gd_link_release(copy);
    gd_clear_error(r.ctx);
    close_run(&r);
    return taken;
}

static gd_status run_way(way how, const char *chain, change c, trace *t)
{
    char text[1000], value[80];
    value_text(&c.value, value, sizeof value);
    if (how == BY_TEXT) assert_true(text_with(chain, c, text, sizeof text));
    run r = open_run(how == BY_TEXT ? text : chain);
    c.r = &r;
    snprintf(text, sizeof text, "%s=%s", c.field, value);
    gd_status status = GD_OK;
    if (how == BY_GROUP) status = gd_optimizer_regroup(r.o, "*", text);
    if (how == BY_SCHEDULE) status = gd_optimizer_schedule(r.o, 0, c.field, value);
    if (how == BY_LOCAL) status = gd__visit_links(gd_optimizer_chain(r.o), "", set_locals, &c);
    if (status) fail_msg("%s: %s by %s: %s", chain, text, way_name[how], gd_error_text(r.ctx));
    return finish(&r, t);
}

/* ---- the table ---- */

static const situation *find_situation(const char *link, const char *field)
{
    for (int i = 0; i < COUNT_OF(situations); i++)
        if (!strcmp(situations[i].link, link) && situations[i].field && !strcmp(situations[i].field, field))
            return &situations[i];
    for (int i = 0; i < COUNT_OF(situations); i++)
        if (!strcmp(situations[i].link, link) && !situations[i].field) return &situations[i];
    return NULL;
}

static bool has_no_situation(const gd_link_class *cls, const gd_field *f)
{
    const situation *s = find_situation(cls->name, f->name);
    return s && !s->chain;
}

static void chain_for(const gd_link_class *cls, const char *field, char *out, size_t size)
{
    const situation *s = find_situation(cls->name, field);
    char link[400];
    bool number = is_operand(&cls->fields[gd__field_index(cls, field)]);
    link_text_of(cls, NULL, number ? NULL : "[ema | lr(0.5)]", link, sizeof link);
    if (s)
        snprintf(out, size, "%s", s->chain);
    else
        snprintf(out, size, "%s | lr(0.5)", link);
}

/* A value that the setting takes and that makes another trace; kind 0: none was found. */
static gd_setting acting(const gd_link_class *cls, const gd_field *f, const char *chain, const trace *usual)
{
    const situation *row = find_situation(cls->name, f->name);
    double d = f->fallback.kind == GD_SET_REAL ? f->fallback.real : 1;
    const double tries[] = {2 * d, d / 2, d + 1, d - 1, 0.5, 2,     3,    5,     10,
                            0.1,   0,     1,     1e-3,  100, 1e-10, 1e10, 1e300, -1};
    for (int i = 0; i < (row && row->value != 0 ? 1 : COUNT_OF(tries)); i++) {
        double v = row && row->value != 0 ? row->value : tries[i];
        change c = {.field = f->name, .value = {.kind = GD_SET_REAL, .real = v}};
        char text[1000];
        trace t;
        if (v < f->low || v > f->high || (f->integer && v != floor(v))) continue;
        if (!text_with(chain, c, text, sizeof text)) continue;
        gd_status status = run_way(BY_TEXT, chain, c, &t);
        if (!status && !same(&t, usual)) return c.value;
    }
    return (gd_setting){0};
}

typedef void (*field_fn)(const gd_link_class *cls, const gd_field *f, const char *chain);

static void each_field(unsigned kinds, field_fn fn)
{
    int count = 0, seen = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i += test_share())
        for (int k = 0; k < all[i]->field_count; k++) {
            char chain[500];
            const gd_field *f = &all[i]->fields[k];
            if (!(f->kinds & kinds) || f->variadic || has_no_situation(all[i], f)) continue;
            if (f->only || (f->kinds == GD_SET_REAL && f->low == f->high))
                continue; /* fixed_settings_... below */
            chain_for(all[i], f->name, chain, sizeof chain);
            fn(all[i], f, chain);
            seen++;
        }
    assert_true(seen * test_share() > 100);
}

static int silent;

static void reaches(const gd_link_class *cls, const gd_field *f, const char *chain)
{
    trace usual, written, t;
    change c = {.field = f->name};
    (void)run_way(BY_NOTHING, chain, c, &usual);
    c.value = acting(cls, f, chain, &usual);
    if (!c.value.kind) {
        print_error("'%s' of %s does nothing in '%s': give it a situation\n", f->name, cls->name, chain);
        silent++;
        return;
    }
    (void)run_way(BY_TEXT, chain, c, &written);
    for (way how = BY_GROUP; how < WAYS; how++) {
        (void)run_way(how, chain, c, &t);
        if (same(&t, &written)) continue;
        print_error("'%s' of %s in '%s': %g by %s is %s\n", f->name, cls->name, chain, c.value.real,
                    way_name[how], same(&t, &usual) ? "ignored" : "not what it is in the chain");
        silent++;
    }
}

static void every_number_of_every_link_is_reached_by_groups_schedules_and_locals(void **state)
{
    (void)state;
    silent = 0;
    each_field(GD_SET_REAL, reaches);
    assert_int_equal(silent, 0);
}

/* ---- flags and words ---- */

/* The settings that are no numbers: another value than the default. */
static gd_setting another(const gd_field *f, char *word, size_t size)
{
    if (f->kinds & GD_SET_BOOL) return (gd_setting){.kind = GD_SET_BOOL, .real = f->fallback.real == 0};
    const char *choice = f->selection ? "axes=1" : f->choices ? f->choices : "other words";
    size_t length = strcspn(choice, "|");
    bool first = f->fallback.kind == GD_SET_STRING && strlen(f->fallback.string) == length &&
                 !strncmp(f->fallback.string, choice, length);
    if (first && choice[length]) choice += length + 1;
    snprintf(word, size, "%.*s", (int)strcspn(choice, "|"), choice);
    return (gd_setting){.kind = GD_SET_STRING, .string = word};
}

static void reaches_word(const gd_link_class *cls, const gd_field *f, const char *chain)
{
    char word[80];
    trace written, t;
    if (f->kinds & GD_SET_CHAIN) return; /* groups and schedules refuse a link, see test_groups.c */
    change c = {.field = f->name, .value = another(f, word, sizeof word)};
    gd_status status = run_way(BY_TEXT, chain, c, &written);
    for (way how = BY_GROUP; how < WAYS; how++) {
        if (how == BY_SCHEDULE) continue;
        gd_status now = run_way(how, chain, c, &t);
        if (now == status && same(&t, &written)) continue;
        print_error("'%s' of %s in '%s' by %s is not what it is in the chain\n", f->name, cls->name, chain,
                    way_name[how]);
        silent++;
    }
    if (f->kinds & GD_SET_REAL) return;
    run r = open_run(chain);
    assert_int_equal(gd_optimizer_schedule(r.o, -1, f->name, "1"), GD_PARSE);
    assert_non_null(strstr(gd_error_text(r.ctx), f->name));
    gd_clear_error(r.ctx);
    close_run(&r);
}

static void every_flag_and_word_of_every_link_is_reached_by_groups_and_locals(void **state)
{
    (void)state;
    silent = 0;
    each_field(GD_SET_BOOL | GD_SET_STRING, reaches_word);
    assert_int_equal(silent, 0);
}

/* The link of a chain with one setting more, written first. */
static void with_setting(const char *chain, const char *link, const char *name, const char *value, char *out,
                         size_t size)
{
    const char *rest = strchr(chain, '(');
    bool alone = !rest || strchr(chain, '|') < rest;
    snprintf(out, size, "%s(%s=%s%s%s", link, name, value, alone ? ")" : ", ", alone ? "" : rest + 1);
}

static void is_fixed(const gd_link_class *cls, const gd_field *f)
{
    char chain[500], text[600];
    const char *usual = f->fallback.kind == GD_SET_NONE ? "none" : f->fallback.real != 0 ? "true" : "false";
    const char *other = f->fallback.real != 0 ? "false" : "true";
    chain_for(cls, f->name, chain, sizeof chain);
    run r = open_run(chain);
    snprintf(text, sizeof text, "%s=%s", f->name, other);
    assert_int_not_equal(gd_optimizer_regroup(r.o, "q", text), GD_OK);
    assert_non_null(strstr(gd_error_text(r.ctx), f->only));
    gd_clear_error(r.ctx);
    with_setting(chain, cls->name, f->name, other, text, sizeof text);
    assert_null(gd_chain(r.ctx, text));
    assert_non_null(strstr(gd_error_text(r.ctx), f->name));
    assert_non_null(strstr(gd_error_text(r.ctx), f->only));
    gd_clear_error(r.ctx);
    with_setting(chain, cls->name, f->name, usual, text, sizeof text);
    gd_link *link = gd_chain(r.ctx, text);
    if (!link) fail_msg("%s: %s", text, gd_error_text(r.ctx));
    gd_link_release(link);
    close_run(&r);
}

/* Settings of other systems that cannot be changed here: any value but the default is refused with the reason, by text and by group. */
static void fixed_settings_take_their_default_and_say_why_no_other(void **state)
{
    (void)state;
    int count = 0, seen = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < all[i]->field_count; k++) {
            if (!all[i]->fields[k].only) continue;
            is_fixed(all[i], &all[i]->fields[k]);
            seen++;
        }
    assert_true(seen >= 10);
}

/* ---- groups that disagree ---- */

static void acts_or_is_refused(const gd_link_class *cls, const gd_field *f, const char *chain)
{
    trace usual, t;
    char text[80];
    change c = {.field = f->name};
    (void)run_way(BY_NOTHING, chain, c, &usual);
    c.value = acting(cls, f, chain, &usual);
    run r = open_run(chain);
    snprintf(text, sizeof text, "%s=%.17g", f->name, c.value.real);
    OK(gd_optimizer_regroup(r.o, "q", text));
    memset(&t, 0, sizeof t);
    gd_status status = go(&r, &t, 0);
    if (status) {
        /* by name, and nothing has moved */
        assert_int_equal(status, GD_VALUE);
        snprintf(text, sizeof text, "'%s' has one value for the whole step", f->name);
        if (!strstr(gd_error_text(r.ctx), text)) fail_msg("%s: %s", chain, gd_error_text(r.ctx));
        assert_memory_equal(t.x[0], start, sizeof start);
        assert_int_equal(gd_optimizer_evals(r.o), 0);
        gd_clear_error(r.ctx);
        /* again: refused until they agree */
        assert_int_equal(go(&r, &t, 0), GD_VALUE);
        gd_clear_error(r.ctx);
        OK(gd_optimizer_unset(r.o, 1, f->name));
        OK(go(&r, &t, 0));
        assert_memory_equal(t.x[0], usual.x[0], sizeof start);
    } else
        assert_true(cls->rule || cls->apply_tensors || cls->traits.own_settings);
    gd_clear_error(r.ctx);
    close_run(&r);
}

static void groups_that_disagree_act_for_each_or_are_refused_by_name(void **state)
{
    (void)state;
    each_field(GD_SET_REAL, acts_or_is_refused);
}

/* ---- a value that changes on the way ---- */

static void changes_on_the_way(const gd_link_class *cls, const gd_field *f, const char *chain)
{
    trace usual, by_schedule = {0}, by_link = {0};
    char text[80];
    change c = {.field = f->name};
    (void)run_way(BY_NOTHING, chain, c, &usual);
    c.value = acting(cls, f, chain, &usual);
    for (int own = 0; own < 2; own++) {
        run r = open_run(chain);
        trace *t = own ? &by_link : &by_schedule;
        gd_status status = GD_OK;
        for (int i = 0; i < STEPS && !status; i++) {
            snprintf(text, sizeof text, "%.17g", c.value.real);
            if (i == 2 && !own) status = gd_optimizer_schedule(r.o, 0, f->name, text);
            if (i == 2 && own) status = gd__visit_links(gd_optimizer_chain(r.o), "", set_own, &c);
            assert_int_equal(status, GD_OK);
            status = go(&r, t, i);
        }
        gd_clear_error(r.ctx);
        close_run(&r);
    }
    if (same(&by_schedule, &by_link)) return;
    print_error("'%s' of %s in '%s': a later schedule is not the link changed then\n", f->name, cls->name,
                chain);
    silent++;
}

static void a_schedule_that_begins_later_is_as_the_link_changed_then(void **state)
{
    (void)state;
    silent = 0;
    each_field(GD_SET_REAL, changes_on_the_way);
    assert_int_equal(silent, 0);
}

/* ---- schedules in the text of a chain ---- */

typedef struct scheduling {
    const char *field;
    const gd_schedule *schedule;
    double usual;
} scheduling;

static gd_status find_usual(void *user, gd_link *link, const char *path)
{
    (void)path;
    scheduling *s = user;
    if (gd__field_index(gd_link_class_of(link), s->field) >= 0) s->usual = gd_link_real(link, s->field, NULL);
    return GD_OK;
}

static gd_status set_scheduled(void *user, gd_link *link, const char *path)
{
    (void)path;
    const scheduling *s = user;
    if (gd__field_index(gd_link_class_of(link), s->field) < 0) return GD_OK;
    return gd_link_set_schedule(link, s->field, s->schedule);
}

/* A setting with a schedule, written into the chain, printed and read again, is as the schedule of its group. */
static void scheduled_in_the_text(const gd_link_class *cls, const gd_field *f, const char *chain)
{
    trace usual, by_group = {0}, by_text = {0};
    char text[1000], printed[200];
    change c = {.field = f->name};
    scheduling s = {.field = f->name, .usual = NAN};
    (void)run_way(BY_NOTHING, chain, c, &usual);
    c.value = acting(cls, f, chain, &usual);
    run r = open_run(chain);
    OK(gd__visit_links(gd_optimizer_chain(r.o), "", find_usual, &s));
    gd_schedule schedule = f->integer || !isfinite(s.usual) ? gd_schedule_constant(c.value.real)
                                                            : gd_schedule_linear(s.usual, c.value.real, 3);
    s.schedule = &schedule;
    (void)gd_schedule_print(&schedule, printed, sizeof printed);
    OK(gd_optimizer_schedule(r.o, 0, f->name, printed));
    gd_link *copy = gd_chain(r.ctx, chain);
    OK(gd__visit_links(copy, "", set_scheduled, &s));
    assert_in_range(gd_link_print(copy, text, sizeof text), 1, sizeof text - 1);
    gd_link_release(copy);
    (void)finish(&r, &by_group);
    r = open_run(text);
    (void)finish(&r, &by_text);
    if (same(&by_group, &by_text)) return;
    print_error("'%s' of %s: '%s' is not as the schedule of the group\n", f->name, cls->name, text);
    silent++;
}

static void every_number_of_every_link_may_have_a_schedule_in_the_text(void **state)
{
    (void)state;
    silent = 0;
    each_field(GD_SET_REAL, scheduled_in_the_text);
    assert_int_equal(silent, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_number_of_every_link_may_have_a_schedule_in_the_text),
        TEST(every_number_of_every_link_is_reached_by_groups_schedules_and_locals),
        TEST(every_flag_and_word_of_every_link_is_reached_by_groups_and_locals),
        TEST(fixed_settings_take_their_default_and_say_why_no_other),
        TEST(groups_that_disagree_act_for_each_or_are_refused_by_name),
        TEST(a_schedule_that_begins_later_is_as_the_link_changed_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
