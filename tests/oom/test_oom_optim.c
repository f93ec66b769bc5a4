/* Every allocation of what optimizers do fails once: the error is NOMEM, nothing leaks or crashes, a step that failed has
 * moved no parameter, and the optimizer goes on afterwards.  Every link of the table goes through its life: read, stepped,
 * explained, printed, saved, loaded; and scenarios for what is done by hand. */
#include "gradus/file.h"
#include "gradus/module.h"
#include "gradus/solve.h"
#include "optim/optim_support.h"
#include "optim/table_support.h"

#include <inttypes.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__
#define STRIDE 7 /* sanitized builds look at every seventh failure of a link */
#else
#define STRIDE 1
#endif

static int64_t points; /* failures so far */
static char path[64];

/* ---- links of the caller's ---- */

static gd_status scale_update(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++) {
        gd_init like = {.kind = GD_INIT_ZEROS, .tensor = t->tensors[i]};
        gd_tensor *sum = gd_link_state_from(t->link, t->keys[i], "sum", like);
        if (!sum || gd_add_into(sum, t->tensors[i], 1)) return gd_error(gd_link_ctx(t->link));
    }
    return GD_OK;
}

static gd_status scale_apply(const gd_transform *t)
{
    if (!gd_link_global(t->link, "applied", 0)) return GD_NOMEM;
    for (int i = 0; i < t->count; i++) {
        t->tensors[i] = gd_mul_scalar(t->tensors[i], 0.5);
        if (!t->tensors[i]) return gd_error(gd_link_ctx(t->link));
    }
    return gd_link_set_global_tensor(t->link, "last", t->tensors[0]);
}

static const gd_slot slots[] = {{"sum", 0}};
static const gd_field fields[] = {GD_CHILD("inner", ""), GD_TARGET};
static const gd_link_class scaler = {.name = "scaler",
                                     GD_FIELDS(fields),
                                     GD_SLOTS(slots),
                                     .update_tensors = scale_update,
                                     .apply_tensors = scale_apply};
static const gd_link_class flat = {.name = "flat",
                                   GD_FIELDS(fields),
                                   GD_SLOTS(slots),
                                   .update_tensors = scale_update,
                                   .apply_tensors = scale_apply,
                                   .traits.concat_params = true};

/* Clones, attributes, products with the Hessian, random numbers. */
static gd_status observe(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_var *clone = gd_var_clone(var, true, var);
    if (!clone) return gd_error(ctx);
    gd_status status = gd_var_grad(clone) ? GD_OK : gd_error(ctx);
    gd_var_take_from(var, clone);
    gd_var_free(clone);
    if (!status) status = gd_var_set_attr(var, "seen", 1);
    if (!status) status = gd_var_set_storage(var, "lent", 2);
    if (!status) status = gd_var_set_storage_tensor(var, "loss", gd_var_loss(var, false));
    if (!status) status = gd_var_zero_grad(var, true);
    if (!status && !gd_var_read_update(var)) status = gd_error(ctx);
    gd_tensor *v[2] = {gd_var_params(var)[0], gd_var_params(var)[1]}, *out[2];
    for (int how = GD_HVP_AUTOGRAD; how <= GD_HVP_CENTRAL && !status; how++) {
        status = gd_var_hvp(var, (gd_hvp_method)how, 1e-3, true, v, out);
        for (int i = 0; i < 2; i++) gd_release(out[i]);
    }
    if (!status && !gd_var_hessian(var)) status = gd_error(ctx);
    if (!status && !gd_link_random(link, GD_RANDOM_NORMAL, v[0])) status = gd_error(ctx);
    return status ? status : gd_error(ctx);
}

/* ---- one optimizer ---- */

typedef struct life {
    memory *m;
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q, *r;
    const char *chain;
    gd_dtype dtype;
} life;

/* Residuals (p - 1, 1.5 q); r is added by one scenario only. */
static gd_tensor *residuals(void *user)
{
    life *l = user;
    gd_tensor *parts[] = {gd_add_scalar(l->p, -1), gd_mul_scalar(l->q, 1.5), gd_mul_scalar(l->r, 0.5)};
    return gd_cat(parts, 3, "0");
}

static bool failed(const life *l) { return gd_error(l->ctx) != GD_OK; }

/* The parameters as they lie in memory: looking at them allocates nothing. */
typedef struct bits {
    char of[3 * sizeof(double)];
} bits;

static bits bits_of(const life *l)
{
    size_t size = gd_dtype_size(l->dtype);
    bits b = {{0}};
    memcpy(b.of, gd_data(l->p), 2 * size);
    memcpy(b.of + 2 * size, gd_data(l->q), size);
    return b;
}

/* mezo keeps no copy of the parameters: it moves them back within rounding. */
static bool stayed(const life *l, const bits *before, const bits *after)
{
    size_t size = gd_dtype_size(l->dtype);
    if (!strstr(l->chain, "mezo")) return !memcmp(before, after, sizeof *before);
    for (size_t i = 0; i < 3; i++) {
        long double was = decode_item(l->dtype, before->of + i * size),
                    is = decode_item(l->dtype, after->of + i * size);
        if (fabsl(is - was) > 4 * epsilon_of(l->dtype)) return false;
    }
    return true;
}

static bool is_finite(const life *l)
{
    bits now = bits_of(l);
    for (size_t i = 0; i < 3; i++)
        if (!isfinite((double)decode_item(l->dtype, now.of + i * gd_dtype_size(l->dtype)))) return false;
    return true;
}

/* Some links make numbers that are not finite without any failure: powers of negative ones. */
static bool finite_otherwise = true;

static void assert_finite(const life *l)
{
    if (finite_otherwise && !is_finite(l)) fail_msg("%s: not finite after the failure", l->chain);
}

/* A step that fails moves nothing. */
static void step_once(life *l)
{
    bits before = bits_of(l);
    gd_step_info info;
    gd_status status = gd_optimizer_step(l->o, &(gd_objective){.loss = residuals, .user = l}, &info);
    bits after = bits_of(l);
    if (status && !stayed(l, &before, &after))
        fail_msg("%s: a step without memory moves parameters", l->chain);
    if (status && !failed(l)) fail_msg("%s: a status without an error", l->chain);
}

static bool begin(life *l)
{
    gd_ctx *ctx = l->ctx;
    probe = (probes){.a = observe};
    static const gd_link_class *const classes[] = {&probe_a_class, &scaler, &flat};
    for (int i = 0; i < 3; i++)
        if (gd_link_class_register(ctx, classes[i])) return false;
    l->p = gd_require_grad(gd_from_f64(ctx, l->dtype, 1, (int64_t[]){2}, (double[]){1.5, 0.25}));
    l->q = gd_require_grad(gd_from_f64(ctx, l->dtype, 1, (int64_t[]){1}, (double[]){0.25}));
    l->r = gd_require_grad(gd_from_f64(ctx, l->dtype, 1, (int64_t[]){1}, (double[]){0.5}));
    gd_link *link = l->p && l->q && l->r ? gd_chain(ctx, l->chain) : NULL;
    l->o = link ? gd_optimizer_new(ctx, link) : NULL;
    return l->o && gd_optimizer_add(l->o, "p", l->p) == GD_OK && gd_optimizer_add(l->o, "q", l->q) == GD_OK;
}

static void end(life *l)
{
    gd_optimizer_free(l->o);
    gd_release(l->p);
    gd_release(l->q);
    gd_release(l->r);
}

/* After a failure: the same again must work, with finite parameters. */
static void goes_on(life *l)
{
    gd_clear_error(l->ctx);
    if (!l->p || !l->q || !l->r || !l->o || gd_optimizer_count(l->o) < 2) return;
    step_once(l);
    if (failed(l)) fail_msg("%s: the step after the failure: %s", l->chain, gd_error_text(l->ctx));
    assert_finite(l);
}

/* ---- what is done with it ---- */

static void stepping(life *l)
{
    for (int i = 0; i < 3 && !failed(l); i++) step_once(l);
}

/* With the gradients that gd_backward left. */
static void without_objective(life *l)
{
    stepping(l);
    if (failed(l)) return;
    gd_scope_begin(l->ctx);
    gd_tensor *loss = gd_sum(gd_square(residuals(l)), NULL, false);
    if (loss && gd_backward(loss, NULL, 0) == GD_OK) (void)!gd_optimizer_step(l->o, NULL, NULL);
    gd_scope_end(l->ctx);
    gd_optimizer_zero_grad(l->o);
}

static void looking(life *l)
{
    static char text[20000];
    if (gd_explain(l->o, true, text, sizeof text) < 0) {
        assert_true(failed(l));
        return;
    }
    gd_link_print(gd_optimizer_chain(l->o), text, sizeof text);
    gd_link_release(gd_chain(l->ctx, text));
}

static void saving(life *l)
{
    int64_t steps = gd_optimizer_steps(l->o);
    if (failed(l) || gd_optimizer_save(l->o, path)) return;
    step_once(l);
    if (failed(l)) return;
    if (gd_optimizer_load(l->o, path, true))
        assert_int_equal(gd_optimizer_steps(l->o), steps + 1); /* as if nothing had been */
    else
        assert_int_equal(gd_optimizer_steps(l->o), steps);
}

static void whole_life(life *l)
{
    step_once(l);
    if (!failed(l)) step_once(l);
    if (!failed(l)) looking(l);
    if (!failed(l)) saving(l);
    if (!failed(l)) step_once(l);
    if (!failed(l)) gd_optimizer_reset(l->o);
    if (!failed(l)) step_once(l);
}

static void grouping(life *l)
{
    gd_optimizer *o = l->o;
    const char *name = "r";
    int groups = gd_optimizer_groups(o), count = gd_optimizer_count(o);
    if (gd_optimizer_add_group(o, &name, &l->r, 1, "lr=0.5, momentum=0.25", NULL)) {
        assert_int_equal(gd_optimizer_groups(o), groups);
        assert_int_equal(gd_optimizer_count(o), count);
        return;
    }
    gd_link *second = gd_link_child_at(gd_optimizer_chain(o), 1);
    if (gd_optimizer_schedule(o, -1, "lr", "warmup(2, cosine(0.1, 0.01, 10))") ||
        gd_optimizer_set(o, 0, "momentum", 0.5) || gd_optimizer_regroup(o, "q", "momentum=0.75") ||
        gd_link_set_group(second, &l->p, 1, "momentum=0.125, lerp=true"))
        return;
    groups = gd_optimizer_groups(o);
    if (gd_optimizer_schedule_matching(o, "[pq]", "lr", "linear(0.2, 0.1, 9)")) {
        assert_int_equal(gd_optimizer_groups(o), groups);
        return;
    }
    if (gd_optimizer_unset(o, 0, "momentum") || gd_link_unset_for(second, l->p, "lerp") ||
        gd_optimizer_unschedule(o, -1, "lr"))
        return;
    groups = gd_optimizer_groups(o);
    if (gd_optimizer_regroup(o, "*", "lerp=true, momentum=0.5")) {
        assert_int_equal(gd_optimizer_groups(o), groups);
        return;
    }
    const gd_link_option values[] = {gd_number_option("lr", 0.25), gd_flag_option("lerp", false)};
    if (gd_optimizer_group_settings(o, 0, values, 2) || gd_optimizer_regroup_with(o, "p", values, 2)) return;
    whole_life(l);
    if (!failed(l)) (void)!gd_optimizer_remove(o, "r");
    if (!failed(l)) step_once(l);
}

static void by_hand(life *l)
{
    gd_ctx *ctx = l->ctx;
    gd_tensor *params[2] = {l->p, l->q};
    gd_scope_begin(ctx);
    for (int i = 0; i < gd_link_children(gd_optimizer_chain(l->o)) && !failed(l); i++) {
        gd_link *link = gd_link_child_at(gd_optimizer_chain(l->o), i);
        gd_tensor *t[2] = {gd_copy(l->p), gd_copy(l->q)};
        gd_states *states = t[0] && t[1] ? gd_states_new(link, 2) : NULL;
        if (states && !gd_states_update(states, t, params, t, NULL))
            (void)!gd_states_apply(states, t, params, t, NULL);
        gd_states_free(states);
        if (!failed(l) && !gd_link_keyed_update(link, t, params, t, NULL, 2))
            (void)!gd_link_keyed_apply(link, t, params, t, NULL, 2);
    }
    gd_scope_end(ctx);
}

static void reshaping(life *l)
{
    gd_link *rms = gd_link_child_at(gd_optimizer_chain(l->o), 0);
    stepping(l);
    if (failed(l) || gd_link_set_child(rms, "inner", gd_chain(l->ctx, "ema | nag"))) return;
    stepping(l);
    if (!failed(l)) (void)!gd_link_set_none(rms, "inner");
    if (!failed(l)) stepping(l);
}

/* The tensors of a module in the place of p and q, by name; all of them or none. */
static void rebinding(life *l)
{
    gd_ctx *ctx = l->ctx;
    gd_class *cls = gd_class_module(ctx);
    gd_module *m = cls ? gd_module_new(cls) : NULL;
    stepping(l);
    if (m && !failed(l) && !gd_module_set_parameter(m, "p", l->p) && !gd_module_set_parameter(m, "q", l->q) &&
        gd_optimizer_rebind(l->o, m)) {
        assert_ptr_equal(gd_optimizer_param(l->o, 0), l->p);
        assert_ptr_equal(gd_optimizer_param(l->o, 1), l->q);
    }
    gd_tensor **held[] = {&l->p, &l->q};
    for (int i = 0; i < 2 && !failed(l); i++) {
        gd_tensor *now = gd_retain(gd_optimizer_param(l->o, i));
        gd_release(*held[i]);
        *held[i] = now;
    }
    if (!failed(l)) stepping(l);
    if (!failed(l)) (void)!gd_optimizer_zero_grad_in_place(l->o);
    gd_module_release(m);
}

/* What another chain knows of a file and of an archive, and what it misses. */
static void reporting(life *l)
{
    gd_ctx *ctx = l->ctx;
    gd_load_report *report = NULL;
    gd_archive *archive = NULL;
    stepping(l);
    gd_link *chain = failed(l) ? NULL : gd_chain(ctx, "clip_norm(1) | adam | heavy_ball | lr(0.01)");
    gd_optimizer *other = chain ? gd_optimizer_new(ctx, chain) : NULL;
    if (other && !gd_optimizer_add(other, "q", l->q) && !gd_optimizer_save(l->o, path)) {
        if (gd_optimizer_load_report(other, path, false, &report))
            assert_int_equal(gd_optimizer_steps(other), 0);
        if (!failed(l)) assert_true(gd_load_report_count(report, GD_LOAD_UNEXPECTED) > 0);
        gd_load_report_release(report);
        report = NULL;
        if (!failed(l) && (archive = gd_archive_new(ctx)) && !gd_optimizer_pack(l->o, archive, "o/"))
            (void)!gd_optimizer_unpack_report(other, archive, "o/", false, &report);
        gd_load_report_release(report);
        gd_archive_free(archive);
    }
    gd_optimizer_free(other);
}

static void minimising_with(life *l)
{
    gd_solve_options options = gd_solve_defaults();
    gd_solve_result result;
    options.max_steps = 4;
    gd_objective objective = {.loss = residuals, .user = l};
    if (gd_minimize_with(l->o, &objective, &options, &result)) assert_true(failed(l));
    assert_finite(l);
}

static void minimising(life *l)
{
    gd_solve_options options = gd_solve_defaults();
    gd_solve_result result;
    options.max_steps = 4;
    gd_tensor *params[2] = {l->p, l->q};
    gd_objective objective = {.loss = residuals, .user = l};
    if (gd_minimize(params, 2, &objective, l->chain, &options, &result)) assert_true(failed(l));
    assert_finite(l);
}

/* ---- the loop ---- */

typedef struct scenario {
    const char *name, *chain;
    void (*run)(life *l);
    bool half; /* parameters in bf16: lists are no plain arrays then */
} scenario;

static const scenario scenarios[] = {
    {"rules", "clip_norm(1) | adam | weight_decay(0.01) | cautious(normalize=true) | lr(0.01)",
     without_objective, false},
    {"nested rules", "div_modules([adam(inner=ema)], rmsprop(inner=[lion | lr(0.5)])) | normalize | lr(0.01)",
     whole_life, false},
    {"children that are no rules",
     "adam(inner=scaler(inner=flat)) | rmsprop(inner=clip_norm(1, dim=0)) | lr(0.01)", whole_life, false},
    {"targets",
     "clip_value(1, target=\"grad\") | ema(target=\"update_difference\") | nag(target=\"params_difference\") | "
     "clip_value(9, target=\"params_direct\") | lr(0.01)",
     stepping, false},
    {"closure", "clip_value(1, target=\"closure\") | scaler(target=\"closure\") | lr(0.01)", stepping, false},
    {"evaluating", "sqrt_homotopy | multistep([heavy_ball | lr(0.01)], 2) | online(adam, lr(0.1))", stepping,
     false},
    {"accumulation", "gradient_accumulation(2) | flat | adam | lr(0.01)", stepping, false},
    {"derivatives", "probe_a(seed=3) | lr(0.01)", stepping, false},
    {"groups", "nag | heavy_ball | lr(0.01)", grouping, false},
    {"files", "scaler | adam(inner=ema) | gradient_accumulation(2) | lr(0.01)", saving, false},
    {"by hand", "scaler | flat | adam | rmsprop(inner=scaler) | lr(0.01)", by_hand, false},
    {"other children", "rmsprop | lr(0.01)", reshaping, false},
    {"rebinding", "adam | scaler | lr(0.01)", rebinding, false},
    {"reports", "adam | nag | lr(0.01)", reporting, false},
    {"minimising with an optimizer", "bfgs | strong_wolfe", minimising_with, false},
    {"searches", "lbfgs(damping=\"double\", inner=ema) | strong_wolfe(a_init=\"quadratic\", fallback=true)",
     stepping, false},
    {"dense", "bfgs(inverse=false, concat_params=false) | backtracking(condition=\"strong_wolfe\")", stepping,
     false},
    {"bounds", "box(0.1, 0.9) | lbfgs | strong_wolfe", minimising, false},
    {"bounds of a matrix", "box(0.1, 0.9) | bfgs | backtracking", minimising, false},
    {"bounds in a trust region", "box(0.1, 0.9) | trust_cg(newton)", minimising, false},
    {"eigenvalues",
     "newton(eigval_fn=\"clip\", truncate=2, damping=1) | strong_wolfe(interpolation=\"polynomial2\")",
     stepping, false},
    {"Krylov", "newton_cg(solver=\"minres\", warm_start=true, inner=ema) | adaptive_backtracking", stepping,
     false},
    {"minimising", "lbfgs | strong_wolfe", minimising, false},
    {"descent by curvature", "newton | lr(-1) | strong_wolfe", minimising, false},
    {"descent by an inverse", "sr1 | lr(-1) | backtracking", minimising, false},
    {"searches that fail", "bfgs | lr(-1) | strong_wolfe(descent=false) | terminate_by_update_norm",
     minimising, false},
};

/* Runs the scenario with its k-th allocation failing (and with all_after, all that follow); false when there are not that
 * many.  A failure that nobody reports (a cache that was not filled) has changed no number: arrival is where the run without
 * failures arrives; k = 0 fills it. */
static bool fails_well(const scenario *s, int64_t k, bool all_after, bits *arrival, int64_t *requests)
{
    memory m = {0};
    gd_options options = gd_options_default();
    options.allocator = memory_allocator(&m);
    options.pool = false;
    options.threads = 1;
    options.compile = false;
    options.files = quick_files();
    life l = {.m = &m, .ctx = gd_ctx_new(&options), .chain = s->chain};
    l.dtype = s->half ? GD_BF16 : GD_F64;
    assert_non_null(l.ctx);
    *requests = m.requests;
    m.fail_at = k ? m.requests + k : 0;
    m.fail_on = all_after;
    if (begin(&l)) s->run(&l);
    bool happened = m.failed;
    m.fail_at = 0;
    *requests = m.requests - *requests;
    if (!happened) assert_no_error(l.ctx);
    if (gd_error(l.ctx) && gd_error(l.ctx) != GD_NOMEM)
        fail_msg("%s: allocation %" PRId64 " failed, but the error is %s (%s)", s->chain, k,
                 gd_status_name(gd_error(l.ctx)), gd_error_text(l.ctx));
    if (!failed(&l)) {
        bits now = bits_of(&l);
        if (k && memcmp(&now, arrival, sizeof now))
            fail_msg("%s: allocation %" PRId64 " failed unnoticed", s->chain, k);
        *arrival = now;
    }
    goes_on(&l);
    if (!k) finite_otherwise = is_finite(&l);
    end(&l);
    if (gd_ctx_live(l.ctx))
        fail_msg("%s: %" PRId64 " objects left after allocation %" PRId64 " failed", s->chain,
                 gd_ctx_live(l.ctx), k);
    end_context(l.ctx, &m);
    points += happened;
    return happened;
}

#define MOST 600 /* failures looked at: links that average over many evaluations repeat themselves */

static int64_t first_failure = 1;

static void exhaust(const scenario *s, bool all_after, int64_t stride)
{
    int64_t before = points, requests, ignored;
    bits arrival;
    finite_otherwise = false;
    fails_well(s, 0, false, &arrival, &requests);
    stride *= test_share();
    if (requests / stride > MOST) stride = requests / MOST;
    for (int64_t k = first_failure; fails_well(s, k, all_after, &arrival, &ignored); k += stride)
        assert_true(k < 100000);
    print_message("%s: %" PRId64 " failure points\n", s->name ? s->name : s->chain, points - before);
}

/* ---- tests ---- */

static void what_is_done_by_hand_survives(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(scenarios); i++) exhaust(&scenarios[i], false, STRIDE);
}

static void it_survives_without_any_memory(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(scenarios); i++) exhaust(&scenarios[i], true, 5 * STRIDE);
}

static void live_once(const gd_link_class *cls, const char *text)
{
    char chain[500];
    snprintf(chain, sizeof chain, "%s | lr(0.01)", text);
    /* links that take children with a Hessian see each of them: newton first, the others in part; most of the way is the same
     * for all, of rules nearly all of it, so that each begins at another allocation */
    static int64_t turn;
    bool in_part = wants_hessian(cls) && !strstr(text, "=newton");
    int64_t times = cls->rule ? 19 : in_part ? 13 : 3;
    first_failure = 1 + turn++ % times;
    exhaust(&(scenario){.chain = chain, .run = whole_life}, false, times * STRIDE);
    exhaust(&(scenario){.chain = chain, .run = whole_life, .half = true}, false, (times + 20) * STRIDE);
    snprintf(chain, sizeof chain, "lbfgs | %s | strong_wolfe", text);
    exhaust(&(scenario){.chain = chain, .run = stepping}, false, (times + 20) * STRIDE);
    first_failure = 1;
}

static void every_link_of_the_table_survives(void **state)
{
    (void)state;
    each_link_text(live_once);
    print_message("%" PRId64 " failure points in all\n", points);
}

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/gradus-test-oom-%d", (int)getpid());
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_done_by_hand_survives),
        TEST(it_survives_without_any_memory),
        TEST(every_link_of_the_table_survives),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
