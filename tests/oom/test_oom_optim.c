/* Every allocation of what optimizers do fails once: the error is NOMEM, nothing leaks, nothing crashes, and the optimizer
 * goes on afterwards. */
#include "gradus/file.h"
#include "optim/optim_support.h"

#include <inttypes.h>
#include <unistd.h>

static int64_t points; /* failures so far */

/* ---- what is used ---- */

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
static const gd_link_class scaler = {.name = "scaler", .fields = fields, .field_count = 2, .slots = slots, .slot_count = 1,
                                     .update_tensors = scale_update, .apply_tensors = scale_apply};
static const gd_link_class flat = {.name = "flat", .fields = fields, .field_count = 2, .slots = slots, .slot_count = 1,
                                   .update_tensors = scale_update, .apply_tensors = scale_apply, .concat_params = true};

static gd_status observe(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_var *clone = gd_var_clone(var, true, var);
    if (!clone) return gd_error(ctx);
    gd_status status = gd_var_grad(clone) ? GD_OK : gd_error(ctx);
    gd_var_take_from(var, clone);
    gd_var_free(clone);
    if (!status) status = gd_var_set_attr(var, "seen", 1);
    gd_tensor *v[2] = {gd_var_params(var)[0], gd_var_params(var)[1]}, *out[2];
    for (int how = GD_HVP_AUTOGRAD; how <= GD_HVP_CENTRAL && !status; how++) {
        status = gd_var_hvp(var, (gd_hvp_method)how, 1e-3, true, v, out);
        for (int i = 0; i < 2; i++) gd_release(out[i]);
    }
    if (!status && !gd_var_hessian(var)) status = gd_error(ctx);
    if (!status && !gd_link_random(link, GD_RANDOM_NORMAL, v[0])) status = gd_error(ctx);
    return status ? status : gd_error(ctx);
}

/* ---- one optimizer through its life ---- */

typedef struct life {
    memory *m;
    problem x;
    gd_tensor *r;
    char path[64];
} life;

static bool failed(const life *l) { return gd_error(l->x.ctx) != GD_OK; }

/* After a failure: the same again must work, with finite parameters. */
static void goes_on(life *l)
{
    int64_t fail_at = l->m->fail_at;
    l->m->fail_at = 0;
    gd_clear_error(l->x.ctx);
    if (l->x.o && gd_optimizer_count(l->x.o) >= 2 && step(&l->x, NULL))
        fail_msg("the step after the failure: %s", gd_error_text(l->x.ctx));
    double p[2];
    if (l->x.p) {
        OK(gd_read_f64(l->x.p, p, 2));
        assert_true(isfinite(p[0]) && isfinite(p[1]));
    }
    l->m->fail_at = fail_at;
}

static bool begin(life *l, gd_ctx *ctx, const char *chain)
{
    probe = (probes){.a = observe};
    l->x = (problem){.ctx = ctx};
    static const gd_link_class *const classes[] = {&probe_a_class, &scaler, &flat};
    for (int i = 0; i < 3; i++)
        if (gd_link_class_register(ctx, classes[i])) return false;
    l->x.p = gd_require_grad(VECTOR(ctx, 3, -1));
    l->x.q = gd_require_grad(VECTOR(ctx, 0.5));
    l->r = gd_require_grad(VECTOR(ctx, 2));
    gd_link *link = l->x.p && l->x.q && l->r ? gd_chain(ctx, chain) : NULL;
    l->x.o = link ? gd_optimizer_new(ctx, link) : NULL;
    return l->x.o && gd_optimizer_add(l->x.o, "p", l->x.p) == GD_OK && gd_optimizer_add(l->x.o, "q", l->x.q) == GD_OK;
}

static void end(life *l)
{
    gd_optimizer_free(l->x.o);
    gd_release(l->x.p);
    gd_release(l->x.q);
    gd_release(l->r);
}

/* Steps with and without an objective. */
static void stepping(life *l)
{
    gd_step_info info;
    for (int i = 0; i < 3 && !failed(l); i++) (void)!step(&l->x, &info);
    if (failed(l)) return;
    gd_scope_begin(l->x.ctx);
    gd_tensor *loss = problem_loss(&l->x);
    if (loss && gd_backward(loss, NULL, 0) == GD_OK && !strstr(l->x.o->chain->cls->name, "probe"))
        (void)!gd_optimizer_step(l->x.o, NULL, &info);
    gd_scope_end(l->x.ctx);
    if (gd_error(l->x.ctx) == GD_STATE) gd_clear_error(l->x.ctx); /* the chain needs an objective */
    gd_optimizer_zero_grad(l->x.o);
}

static void grouping(life *l)
{
    gd_optimizer *o = l->x.o;
    const char *name = "r";
    int groups = gd_optimizer_groups(o), count = gd_optimizer_count(o);
    if (gd_optimizer_add_group(o, &name, &l->r, 1, "lr=0.5, momentum=0.25", NULL)) {
        assert_int_equal(gd_optimizer_groups(o), groups);
        assert_int_equal(gd_optimizer_count(o), count);
        return;
    }
    if (gd_optimizer_schedule(o, -1, "lr", "warmup(2, cosine(0.1, 0.01, 10))") || gd_optimizer_set(o, 0, "momentum", 0.5) ||
        gd_optimizer_regroup(o, "q", "momentum=0.75") ||
        gd_link_set_group(gd_link_child_at(gd_optimizer_chain(o), 1), &l->x.p, 1, "momentum=0.125, lerp=true"))
        return;
    stepping(l);
    if (!failed(l)) (void)!gd_optimizer_remove(o, "r");
    if (!failed(l)) stepping(l);
}

static void saving(life *l)
{
    stepping(l);
    if (failed(l) || gd_optimizer_save(l->x.o, l->path)) return;
    stepping(l);
    if (failed(l)) return;
    int64_t steps = gd_optimizer_steps(l->x.o);
    if (gd_optimizer_load(l->x.o, l->path, true)) assert_int_equal(gd_optimizer_steps(l->x.o), steps);
    else assert_true(gd_optimizer_steps(l->x.o) < steps);
    if (!failed(l)) stepping(l);
}

static void explaining(life *l)
{
    char text[4000];
    if (gd_explain(l->x.o, true, text, sizeof text) < 0) assert_true(failed(l));
}

static void by_hand(life *l)
{
    gd_ctx *ctx = l->x.ctx;
    gd_tensor *params[2] = {l->x.p, l->x.q};
    gd_scope_begin(ctx);
    for (int i = 0; i < gd_link_children(gd_optimizer_chain(l->x.o)) && !failed(l); i++) {
        gd_link *link = gd_link_child_at(gd_optimizer_chain(l->x.o), i);
        if (!link->cls->rule && !link->cls->apply_tensors) continue;
        gd_tensor *t[2] = {gd_copy(l->x.p), gd_copy(l->x.q)};
        gd_states *states = t[0] && t[1] ? gd_states_new(link, 2) : NULL;
        if (states && !gd_states_update(states, t, params, t, NULL)) (void)!gd_states_apply(states, t, params, t, NULL);
        gd_states_free(states);
        if (!failed(l) && !gd_link_keyed_update(link, t, params, t, NULL, 2))
            (void)!gd_link_keyed_apply(link, t, params, t, NULL, 2);
    }
    gd_scope_end(ctx);
}

static void reshaping(life *l)
{
    gd_link *rms = gd_link_child_at(gd_optimizer_chain(l->x.o), 0);
    stepping(l);
    if (failed(l) || gd_link_set_child(rms, "inner", gd_chain(l->x.ctx, "ema | nag"))) return;
    stepping(l);
    if (!failed(l)) (void)!gd_link_set_none(rms, "inner");
    if (!failed(l)) stepping(l);
    gd_optimizer_reset(l->x.o);
    if (!failed(l)) stepping(l);
}

/* ---- the loop ---- */

typedef struct scenario {
    const char *name, *chain;
    void (*run)(life *l);
} scenario;

static const scenario scenarios[] = {
    {"rules", "clip_norm(1) | adam | weight_decay(0.01) | cautious(normalize=true) | lr(0.01)", stepping},
    {"nested rules", "div_modules([adam(inner=ema)], rmsprop(inner=[lion | lr(0.5)])) | normalize | lr(0.01)", stepping},
    {"children that are no rules", "adam(inner=scaler(inner=flat)) | rmsprop(inner=clip_norm(1, dim=0)) | lr(0.01)", stepping},
    {"targets", "clip_value(1, target=\"grad\") | ema(target=\"update_difference\") | nag(target=\"params_difference\") | "
                "clip_value(9, target=\"params_direct\") | lr(0.01)", stepping},
    {"closure", "clip_value(1, target=\"closure\") | scaler(target=\"closure\") | lr(0.01)", stepping},
    {"evaluating", "sqrt_homotopy | multistep([heavy_ball | lr(0.01)], 2) | online(adam, lr(0.1))", stepping},
    {"accumulation", "gradient_accumulation(2) | flat | adam | lr(0.01)", stepping},
    {"derivatives", "probe_a(seed=3) | lr(0.01)", stepping},
    {"groups", "nag | heavy_ball | lr(0.01)", grouping},
    {"files", "scaler | adam(inner=ema) | gradient_accumulation(2) | lr(0.01)", saving},
    {"explaining", "clip_norm(1) | adam(inner=flat) | multistep([ema | lr(1)], 2) | lr(0.01)", explaining},
    {"by hand", "scaler | flat | adam | rmsprop(inner=scaler) | lr(0.01)", by_hand},
    {"other children", "rmsprop | lr(0.01)", reshaping},
};

/* Runs the scenario with its k-th allocation failing (and with all_after, all that follow); false when there are not that
 * many. */
static bool fails_well(const scenario *s, int64_t k, bool all_after)
{
    memory m = {0};
    gd_options options = gd_options_default();
    options.allocator = memory_allocator(&m);
    options.pool = false;
    options.threads = 1;
    options.compile = false;
    gd_ctx *ctx = gd_ctx_new(&options);
    assert_non_null(ctx);
    life l = {.m = &m};
    snprintf(l.path, sizeof l.path, "/tmp/gradus-test-oom-%d", (int)getpid());
    m.fail_at = m.requests + k;
    m.fail_on = all_after;
    if (begin(&l, ctx, s->chain)) s->run(&l);
    bool happened = m.failed;
    m.fail_at = 0;
    if (!happened) assert_no_error(ctx);
    else if (gd_error(ctx) && gd_error(ctx) != GD_NOMEM)
        fail_msg("%s: allocation %" PRId64 " failed, but the error is %s (%s)", s->name, k, gd_status_name(gd_error(ctx)),
                 gd_error_text(ctx));
    goes_on(&l);
    end(&l);
    if (gd_ctx_live(ctx))
        fail_msg("%s: %" PRId64 " objects left after allocation %" PRId64 " failed", s->name, gd_ctx_live(ctx), k);
    end_context(ctx, &m);
    points += happened;
    return happened;
}

static void scenarios_survive(bool all_after, int64_t stride)
{
    for (int i = 0; i < COUNT_OF(scenarios); i++) {
        int64_t before = points;
        for (int64_t k = 1; fails_well(&scenarios[i], k, all_after); k += stride) assert_true(k < 50000);
        print_message("%s: %" PRId64 " failure points\n", scenarios[i].name, points - before);
    }
    char path[64];
    snprintf(path, sizeof path, "/tmp/gradus-test-oom-%d", (int)getpid());
    (void)unlink(path);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    scenarios_survive(false, 1);
}

static void all_allocations_after_one_may_fail(void **state)
{
    (void)state;
    scenarios_survive(true, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_allocation_may_fail),
        TEST(all_allocations_after_one_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
