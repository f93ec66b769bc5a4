/* Saving and loading optimizers: going on gives the same bits, what does not fit is named, a failed load changes nothing. */
#include "gradus/file.h"
#include "gradus/layers.h"
#include "optim/optim_support.h"
#include "optim/table_support.h"

#include <unistd.h>

/* ---- a link that draws random numbers ---- */

static gd_status add_noise(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++) {
        gd_tensor *noise = gd_link_random(t->link, GD_RANDOM_NORMAL, t->tensors[i]);
        t->tensors[i] = gd_add(gd_drop_names(t->tensors[i]), gd_mul_scalar(noise, 1e-3));
        if (!t->tensors[i]) return gd_error(gd_link_ctx(t->link));
    }
    return GD_OK;
}

static const gd_field noise_fields[] = {GD_INT_OR_NONE("seed", 0, 1e15, "of the generator")};
static const gd_link_class noise = {.name = "noise", GD_FIELDS(noise_fields), .apply_tensors = add_noise};

/* A rule that keeps a number per parameter: the largest norm so far. */
static gd_value largest_rule(gd_rule *r, gd_value u)
{
    gd_value most = gd_rule_max(r, gd_rule_scalar(r, "most"), gd_rule_norm(r, u, 2, GD_EACH));
    gd_rule_set_scalar(r, "most", most);
    return gd_rule_div(r, u, gd_rule_add(r, most, gd_rule_const(r, 1)));
}

static const char *const largest_scalars[] = {"most"};
static const gd_link_class largest = {.name = "largest", GD_SCALARS(largest_scalars), .rule = largest_rule};

/* ---- a run: residuals p^2 - 1 and (q0 - 2 q1, q1 q2, q2 + p00), as links for least squares want them ---- */

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q;
} run;

static gd_tensor *residuals(void *user)
{
    run *r = user;
    gd_tensor *q0 = gd_slice(r->q, "0", 0, 1, 1), *q1 = gd_slice(r->q, "0", 1, 2, 1),
              *q2 = gd_slice(r->q, "0", 2, 3, 1);
    gd_tensor *flat = gd_reshape(r->p, 1, (int64_t[]){4});
    gd_tensor *parts[4] = {gd_add_scalar(gd_square(flat), -1), gd_sub(q0, gd_mul_scalar(q1, 2)),
                           gd_mul(q1, q2), gd_add(q2, gd_slice(flat, "0", 0, 1, 1))};
    return gd_cat(parts, 4, "0");
}

static gd_ctx *new_context(void)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.compile = false; /* the interpreter serves: programs that are not built in are many here */
    options.seed = 3;
    options.files = quick_files();
    gd_ctx *ctx = gd_ctx_new(&options);
    OK(gd_link_class_register(ctx, &noise));
    OK(gd_link_class_register(ctx, &largest));
    OK(gd_link_class_register(ctx, &probe_a_class));
    return ctx;
}

static run open_run(gd_ctx *ctx, const char *chain, gd_dtype dtype, gd_dtype state_dtype)
{
    run r = {.ctx = ctx};
    r.p = gd_require_grad(gd_from_f64(ctx, dtype, 2, (int64_t[]){2, 2}, (double[]){0.5, -2, 1.5, 3}));
    r.q = gd_require_grad(gd_from_f64(ctx, dtype, 1, (int64_t[]){3}, (double[]){1, 0.25, -0.75}));
    gd_link *link = gd_chain(ctx, chain);
    r.o = link ? gd_optimizer_new(ctx, link) : NULL;
    if (!r.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    OK(gd_optimizer_state_dtype(r.o, state_dtype));
    OK(gd_optimizer_add(r.o, "p", r.p));
    OK(gd_optimizer_add(r.o, "layer.q", r.q));
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
    gd_release(r->q);
}

static void steps(run *r, int count, const char *chain)
{
    gd_objective objective = {.loss = residuals, .user = r};
    for (int i = 0; i < count; i++)
        if (gd_optimizer_step(r->o, &objective, NULL))
            fail_msg("%s: step %d: %s", chain, i, gd_error_text(r->ctx));
}

/* ---- everything an optimizer and its parameters hold, as bytes ---- */

typedef struct snapshot {
    char *data;
    size_t size;
} snapshot;

static void append(snapshot *s, const void *data, size_t size)
{
    s->data = realloc(s->data, s->size + size);
    memcpy(s->data + s->size, data, size);
    s->size += size;
}

static void append_tensor(snapshot *s, const gd_tensor *t)
{
    size_t bytes = (size_t)t->numel * gd__item_size(t);
    append(s, t->data, bytes);
}

static snapshot snapshot_of(const run *r)
{
    snapshot s = {0};
    gd_archive *archive = gd_archive_new(r->ctx);
    OK(gd_optimizer_pack(r->o, archive, NULL));
    const char *json = gd_archive_get_meta(archive, "optimizer");
    append(&s, json, strlen(json));
    for (int64_t i = 0; i < gd_archive_count(archive); i++) {
        append(&s, gd_archive_name(archive, i), strlen(gd_archive_name(archive, i)));
        append_tensor(&s, gd_archive_get(archive, i));
    }
    append_tensor(&s, r->p);
    append_tensor(&s, r->q);
    gd_archive_free(archive);
    return s;
}

static bool same_snapshot(snapshot a, snapshot b)
{
    bool same = a.size == b.size && !memcmp(a.data, b.data, a.size);
    if (!same && getenv("GD_SHOW")) {
        size_t i = 0;
        while (i < a.size && i < b.size && a.data[i] == b.data[i]) i++;
        size_t from = i > 200 ? i - 200 : 0;
        print_message("%.*s\n%.*s\n", (int)(i - from + 100), a.data + from, (int)(i - from + 100),
                      b.data + from);
    }
    free(a.data);
    free(b.data);
    return same;
}

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/gradus-test-state-XXXXXX");
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    return fd < 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* ---- going on ---- */

#define TOTAL 10

/* Loads into a fresh optimizer, in a context that has seen nothing of the run so far. */
static void go_on(const run *before, const char *chain, gd_dtype dtype, gd_dtype state_dtype, int done,
                  snapshot *end)
{
    gd_ctx *ctx = new_context();
    run r = open_run(ctx, chain, dtype, state_dtype);
    memcpy(gd_data_mut(r.p), gd_data(before->p), (size_t)r.p->numel * gd__item_size(r.p));
    memcpy(gd_data_mut(r.q), gd_data(before->q), (size_t)r.q->numel * gd__item_size(r.q));
    ctx->rng.counter = 12345; /* must not matter */
    if (gd_optimizer_load(r.o, path, true)) fail_msg("%s: %s", chain, gd_error_text(ctx));
    assert_int_equal(gd_optimizer_steps(r.o), done);
    steps(&r, TOTAL - done, chain);
    *end = snapshot_of(&r);
    close_run(&r);
    end_context(ctx, NULL);
}

static void same_bits_from(const char *chain, gd_dtype dtype, gd_dtype state_dtype, int k)
{
    gd_ctx *ctx = new_context();
    run r = open_run(ctx, chain, dtype, state_dtype);
    steps(&r, k, chain);
    if (gd_optimizer_save(r.o, path)) fail_msg("%s: %s", chain, gd_error_text(ctx));
    snapshot whole, resumed;
    go_on(&r, chain, dtype, state_dtype, k, &resumed);
    steps(&r, TOTAL - k, chain);
    whole = snapshot_of(&r);
    if (!same_snapshot(whole, resumed))
        fail_msg("%s, %s with state in %s: going on from step %d differs", chain, gd_dtype_name(dtype),
                 state_dtype == GD_DTYPE_COUNT ? "the default" : gd_dtype_name(state_dtype), k);
    close_run(&r);
    end_context(ctx, NULL);
}

static void same_bits(const char *chain)
{
    static const int at[] = {0, 1, 7};
    for (int i = 0; i < 3; i++) {
        same_bits_from(chain, GD_F32, GD_DTYPE_COUNT, at[i]);
        same_bits_from(chain, GD_F64, GD_DTYPE_COUNT, at[i]);
        same_bits_from(chain, GD_F32, GD_BF16, at[i]);
    }
}

static void every_link_here_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const chains[] = {
        "lr(0.01)",
        "adam | lr(0.01)",
        "adam(amsgrad=true, debiased=false) | lr(0.01)",
        "clip_norm(1) | lr(0.01)",
        "clip_norm(1, dim=0) | lr(0.01)",
        "clip_value(1) | lr(0.01)",
        "heavy_ball(debiased=true) | lr(0.01)",
        "heavy_ball(target=\"grad\") | lr(0.01)",
        "nag | lr(0.01)",
        "ema(ema_init=\"update\") | lr(0.01)",
        "adam | weight_decay(0.1) | lr(0.01)",
        "lion | lr(0.01)",
        "rmsprop(centered=true, amsgrad=true, debiased=true) | lr(0.01)",
        "normalize | lr(0.01)",
        "adam | cautious(normalize=true) | lr(0.01)",
        "div_modules(ema, [rmsprop | ema(0.5)]) | normalize | lr(0.01)",
        "online(adam, lr(0.01))",
        "multistep([adam | lr(0.01)], 3)",
        "gradient_accumulation(3) | adam | lr(0.01)",
        "sqrt_homotopy | adam | lr(0.01)",
        "weight_decay(0.01) | heavy_ball | lr(0.001)",
        "largest | lr(0.1)",
        "noise(seed=5) | lr(0.01)",
        "noise | lr(0.01)",
    };
    for (int i = 0; i < COUNT_OF(chains); i++) same_bits(chains[i]);
}

static void nested_chains_go_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const chains[] = {
        "adam(inner=[ema | largest]) | lr(0.01)",
        "multistep([gradient_accumulation(2) | adam(inner=ema) | lr(0.01)], 2) | lr(1)",
        "sqrt_homotopy | online(multistep([noise | heavy_ball | lr(0.01)], 2)) | clip_norm(1)",
        "div_modules([noise(seed=1) | adam], [noise(seed=2) | rmsprop(inner=noise(seed=3))]) | clip_value(1) | lr(0.01)",
        "multistep(multistep([nag | lr(0.01)], 2), 2)",
        "adam",
    };
    for (int i = 0; i < COUNT_OF(chains); i++) same_bits(chains[i]);
}

/* Parameters and state of each dtype, saved before the first step and after one and seven. */
static void same_bits_everywhere(const char *chain)
{
    static const int at[] = {0, 1, 7};
    for (int i = 0; i < 3; i++) {
        same_bits_from(chain, GD_F32, GD_DTYPE_COUNT, at[i]);
        same_bits_from(chain, GD_F64, GD_DTYPE_COUNT, at[i]);
        same_bits_from(chain, GD_BF16, GD_DTYPE_COUNT, at[i]);
        same_bits_from(chain, GD_F32, GD_BF16, at[i]);
    }
}

/* Settings that make a link keep something more, or otherwise. */
static void links_that_evaluate_go_on_with_any_settings(void **state)
{
    (void)state;
    static const char *const chains[] = {
        "newton(update_freq=3, damping=1) | backtracking",
        "newton(eigval_fn=\"abs\", truncate=4) | lr(0.5)",
        "newton_cg(warm_start=true) | strong_wolfe(a_init=\"previous\")",
        "newton_cg_steihaug(hvp_method=\"autograd\", max_history=2)",
        "bfgs(inverse=false, restart_interval=4) | strong_wolfe(a_init=\"quadratic\", plus_minus=true)",
        "sr1(concat_params=false, update_freq=2) | strong_wolfe(a_init=\"first-order\", fallback=true)",
        "lbfgs(history_size=2, damping=\"powell\", inner=ema) | strong_wolfe(a_init=\"quadratic-clip\")",
        "lsr1(history_size=2, damping=\"double\", update_freq=2) | adaptive_backtracking(scale_beta=0.5)",
        "polak_ribiere(restart_interval=3, inner=[ema | lr(0.5)]) | backtracking(init=8, condition=\"strong_wolfe\")",
        "trust_cg(lbfgs(history_size=3), update_freq=2, inner=ema)",
        "levenberg_marquardt(gauss_newton, y=1, init=1e-6) | restart_every(strong_wolfe, 3)",
        "dogleg(bfgs) | save_best | terminate_any(terminate_by_update_norm(n=2), terminate_on_no_improvement)",
        "cubic_regularization(newton(update_freq=2), update_freq=3)",
        "sqrt_homotopy | sam(p=3) | lbfgs | strong_wolfe",
        "spsa(seed=4, pre_generate=false, n_samples=3) | adam | lr(0.01)",
        "gaussian_smoothing(n_samples=5) | online(polak_ribiere, lr(0.001))",
        "mezo(n_samples=3, distribution=\"sphere\") | adam | lr(0.01)",
        "polyak_step_size(f_star=none, inner=ema)",
        "bb_stab(type=\"short\", inf_iters=1) | multistep(lr(0.5), 2)",
    };
    for (int i = 0; i < COUNT_OF(chains); i++) same_bits_everywhere(chains[i]);
}

static int tried;

static void goes_on_with_the_same_bits(const gd_link_class *cls, const char *text)
{
    static const char *const shapes[] = {"%s | lr(0.01)", "%s | strong_wolfe", "lbfgs | %s | backtracking",
                                         "online([heavy_ball | %s], lr(0.01))"};
    /* a clock shows another time when it is read again */
    if (strstr(cls->name, "seconds")) return;
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        char chain[500];
        snprintf(chain, sizeof chain, shapes[i], text);
        same_bits_everywhere(chain);
    }
    tried++;
}

static void every_link_of_the_table_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    tried = 0;
    each_link_text(goes_on_with_the_same_bits);
    print_message("%d links with children\n", tried);
}

/* ---- groups, schedules, settings, attributes ---- */

static run with_groups(gd_ctx *ctx)
{
    run r = open_run(ctx, "probe_a | heavy_ball | noise(seed=1) | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    OK(gd_optimizer_regroup(r.o, "layer.*", "lr=0.02, lerp=true"));
    OK(gd_optimizer_schedule(r.o, 0, "lr", "warmup(3, cosine(0.05, 0.001, 20))"));
    OK(gd_link_set_group(gd_link_child_at(gd_optimizer_chain(r.o), 1), &r.p, 1,
                         "momentum=0.25, ema_init=\"zeros\""));
    OK(gd_link_set_real(gd_link_child_at(gd_optimizer_chain(r.o), 1), "dampening", 0.125));
    return r;
}

static gd_status remember(gd_link *link, gd_var *var)
{
    *gd_link_global(link, "count", 100) += 1;
    *gd_link_global(link, "nothing", NAN) = NAN;
    *gd_link_global(link, "minus zero", 0) = -0.0;
    *gd_link_scalar(link, gd_var_params(var)[0], "number") -= INFINITY;
    gd_link_state(link, gd_var_params(var)[1], "kept");
    OK(gd_link_set_global_tensor(link, "start", gd_copy(gd_var_params(var)[0])));
    OK(gd_var_set_attr(var, "best", gd_var_loss_value(var, true)));
    OK(gd_var_set_attr_tensor(var, "average", gd_copy(gd_var_params(var)[1])));
    gd_var_terminate(var, true);
    return GD_OK;
}

static void groups_schedules_settings_and_attributes_are_saved(void **state)
{
    (void)state;
    for (int k = 1; k < 9; k += 3) {
        gd_ctx *ctx = new_context(), *other = new_context();
        probe = (probes){.a = remember};
        run r = with_groups(ctx),
            s = open_run(other, "probe_a | heavy_ball | noise(seed=1) | lr(7)", GD_F64, GD_DTYPE_COUNT);
        steps(&r, k, "groups");
        OK(gd_optimizer_save(r.o, path));
        memcpy(gd_data_mut(s.p), gd_data(r.p), 32);
        memcpy(gd_data_mut(s.q), gd_data(r.q), 24);
        OK(gd_optimizer_load(s.o, path, true));
        gd_link *heavy = gd_link_child_at(gd_optimizer_chain(s.o), 1),
                *first = gd_link_child_at(gd_optimizer_chain(s.o), 0);
        assert_int_equal(gd_optimizer_groups(s.o), 2);
        assert_true(gd_link_real(heavy, "momentum", s.p) == 0.25);
        assert_true(gd_link_real(heavy, "dampening", NULL) == 0.125);
        assert_true(gd_link_get(heavy, "lerp", s.q)->real == 1);
        assert_true(gd_optimizer_attr(s.o, "best", 0) == gd_optimizer_attr(r.o, "best", 1));
        assert_non_null(gd_optimizer_attr_tensor(s.o, "average"));
        assert_true(gd_optimizer_should_terminate(s.o));
        assert_true(*gd_link_global(first, "count", 0) == 100 + k);
        assert_true(isnan(*gd_link_global(first, "nothing", 0)));
        assert_true(signbit(*gd_link_global(first, "minus zero", 1)));
        assert_true(*gd_link_scalar(first, s.p, "number") == -INFINITY);
        assert_non_null(gd_link_global_tensor(first, "start"));
        steps(&r, 5, "groups");
        steps(&s, 5, "groups");
        assert_true(same_snapshot(snapshot_of(&r), snapshot_of(&s)));
        close_run(&r);
        close_run(&s);
        end_context(ctx, NULL);
        end_context(other, NULL);
    }
    probe = (probes){0};
}

static void what_all_groups_have_and_steps_held_back_are_saved(void **state)
{
    (void)state;
    const char *chain = "gradient_accumulation(3) | adam | lr(7)";
    for (int k = 1; k < 8; k++) {
        gd_ctx *ctx = new_context(), *other = new_context();
        run r = open_run(ctx, chain, GD_F64, GD_DTYPE_COUNT),
            s = open_run(other, chain, GD_F64, GD_DTYPE_COUNT);
        OK(gd_optimizer_schedule(r.o, -1, "lr", "linear(0.5, 0, 9)"));
        OK(gd_optimizer_schedule_matching(r.o, "layer.*", "beta1", "linear(0.5, 0.9, 4)"));
        steps(&r, k, "all groups");
        OK(gd_optimizer_save(r.o, path));
        memcpy(gd_data_mut(s.p), gd_data(r.p), 32);
        memcpy(gd_data_mut(s.q), gd_data(r.q), 24);
        OK(gd_optimizer_load(s.o, path, true));
        steps(&r, 7, "all groups");
        steps(&s, 7, "all groups");
        assert_true(same_snapshot(snapshot_of(&r), snapshot_of(&s)));
        gd_link *lr = gd_link_child_at(gd_optimizer_chain(s.o), 2);
        /* step k + 6 is the last; of those before, every third came out */
        assert_true(gd_link_real(lr, "lr", s.p) == 0.5 * (1 - (k + 6) / 3 / 9.0));
        close_run(&r);
        close_run(&s);
        end_context(ctx, NULL);
        end_context(other, NULL);
    }
}

/* ---- what does not fit ---- */

static void assert_refused(run *r, bool strict, gd_status status, const char *text)
{
    snapshot before = snapshot_of(r);
    assert_int_equal(gd_optimizer_load(r->o, path, strict), status);
    assert_error(r->ctx, status, text);
    assert_true(same_snapshot(before, snapshot_of(r))); /* nothing changed */
}

static void what_does_not_fit_is_named_and_nothing_changes(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context();
    run r = open_run(ctx, "adam | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    steps(&r, 3, "adam");
    OK(gd_optimizer_save(r.o, path));
    /* another chain */
    run s = open_run(ctx, "clip_norm(1) | adam | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    steps(&s, 1, "adam");
    assert_refused(
        &s, true, GD_MISMATCH,
        "optimizer state: missing: link 0:clip_norm, link 1:adam, link 2:lr; unexpected: link 0:adam, link 1:lr");
    close_run(&s);
    /* a parameter more, a parameter less */
    s = open_run(ctx, "adam | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    gd_tensor *extra = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){2}));
    OK(gd_optimizer_add(s.o, "extra", extra));
    assert_refused(&s, true, GD_MISMATCH, "optimizer state: missing: parameter extra");
    OK(gd_optimizer_remove(s.o, "extra"));
    OK(gd_optimizer_remove(s.o, "p"));
    assert_refused(&s, true, GD_MISMATCH, "optimizer state: unexpected: parameter p, ");
    /* of another shape or dtype, strict or not */
    OK(gd_optimizer_add(s.o, "p", extra));
    assert_refused(&s, true, GD_MISMATCH,
                   "optimizer state: different: p is f64 [2] here and f64 [2, 2] in the file");
    assert_refused(&s, false, GD_MISMATCH,
                   "optimizer state: different: p is f64 [2] here and f64 [2, 2] in the file");
    close_run(&s);
    gd_release(extra);
    s = open_run(ctx, "adam | lr(0.01)", GD_F32, GD_DTYPE_COUNT);
    assert_refused(&s, true, GD_MISMATCH,
                   "optimizer state: different: p is f32 [2, 2] here and f64 [2, 2] in the file");
    close_run(&s);
    s = open_run(ctx, "adam | lr(0.01)", GD_F64, GD_BF16);
    assert_refused(
        &s, true, GD_MISMATCH,
        "optimizer state: different: p/0:adam/exp_avg is bf16 [2, 2] here and f64 [2, 2] in the file");
    close_run(&s);
    close_run(&r);
    end_context(ctx, NULL);
}

static void loading_that_is_not_strict_takes_what_is_there(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context();
    run r = open_run(ctx, "adam | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    steps(&r, 3, "adam");
    OK(gd_optimizer_save(r.o, path));
    run s = open_run(ctx, "adam | lr(0.02) | clip_value(1)", GD_F64, GD_DTYPE_COUNT);
    gd_tensor *extra = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){2}));
    OK(gd_optimizer_add_group(s.o, (const char *const[]){"extra"}, &extra, 1, "lr=3", NULL));
    OK(gd_optimizer_step(s.o, NULL, NULL));
    OK(gd_optimizer_load(s.o, path, false));
    gd_link *adam = gd_link_child_at(gd_optimizer_chain(s.o), 0),
            *from = gd_link_child_at(gd_optimizer_chain(r.o), 0);
    assert_memory_equal(gd_data(gd_link_state(adam, s.p, "exp_avg")),
                        gd_data(gd_link_state(from, r.p, "exp_avg")), 32);
    assert_true(gd_link_has_state(adam, extra, "exp_avg")); /* it keeps what it had */
    assert_true(gd_link_real(gd_link_child_at(gd_optimizer_chain(s.o), 1), "lr", extra) == 3);
    assert_true(gd_link_real(gd_link_child_at(gd_optimizer_chain(s.o), 1), "lr", s.p) == 0.01);
    assert_int_equal(gd_optimizer_steps(s.o), 3);
    OK(gd_optimizer_step(s.o, NULL, NULL));
    close_run(&s);
    gd_release(extra);
    close_run(&r);
    end_context(ctx, NULL);
}

static void files_that_are_no_state_are_refused(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context();
    run r = open_run(ctx, "adam | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    steps(&r, 2, "adam");
    static const struct {
        const char *json, *text;
    } cases[] = {
        {NULL, "optimizer state: there is none in the file"},
        {"{", "optimizer state: line 1: "},
        {"{}", "optimizer state: of a version that this one does not know"},
        {"{\"version\": 1}", "optimizer state: the generator is malformed"},
        {"{\"version\": 1, \"generator\": [\"1\", \"x\"]}", "optimizer state: the generator is malformed"},
        {"{\"version\": 1, \"generator\": [\"1\", \"2\"]}",
         "optimizer state: the list of groups is malformed"},
        {"{\"version\": 1, \"generator\": [\"1\", \"2\"], \"groups\": [{}]}",
         "optimizer state: a group is malformed"},
        {"{\"version\": 1, \"generator\": [\"1\", \"2\"], \"groups\": [{\"settings\": {}, \"schedules\": {}}]}",
         "optimizer state: the list of parameters is malformed"}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_archive *archive = gd_archive_new(ctx);
        OK(gd_archive_set_meta(archive, "optimizer", cases[i].json));
        OK(gd_archive_save(archive, path));
        gd_archive_free(archive);
        assert_refused(&r, true, GD_FORMAT, cases[i].text);
    }
    /* a damaged file */
    OK(gd_optimizer_save(r.o, path));
    FILE *file = fopen(path, "r+b");
    fseek(file, -3, SEEK_END);
    int byte = fgetc(file);
    fseek(file, -3, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
    snapshot before = snapshot_of(&r);
    assert_int_equal(gd_optimizer_load(r.o, path, true), GD_FORMAT);
    gd_clear_error(ctx);
    assert_true(same_snapshot(before, snapshot_of(&r)));
    assert_int_equal(gd_optimizer_load(r.o, "/nowhere/at/all", true), GD_IO);
    gd_clear_error(ctx);
    close_run(&r);
    end_context(ctx, NULL);
}

static void wrong_settings_in_a_file_are_refused(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context();
    run r = open_run(ctx, "adam | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    steps(&r, 2, "adam");
    gd_archive *archive = gd_archive_new(ctx);
    OK(gd_optimizer_pack(r.o, archive, NULL));
    char *json = strdup(gd_archive_get_meta(archive, "optimizer")), *at = strstr(json, "0.90000000000000002");
    assert_non_null(at);
    memcpy(at, "7.90000000000000002", 19);
    OK(gd_archive_set_meta(archive, "optimizer", json));
    snapshot before = snapshot_of(&r);
    assert_int_equal(gd_optimizer_unpack(r.o, archive, NULL, true), GD_VALUE);
    assert_error(ctx, GD_VALUE, "adam: beta1 is 7.9, must be from 0 to 1");
    assert_true(same_snapshot(before, snapshot_of(&r)));
    free(json);
    gd_archive_free(archive);
    close_run(&r);
    end_context(ctx, NULL);
}

/* ---- archives with other things in them ---- */

static void model_and_optimizers_fit_into_one_archive(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context();
    run r = open_run(ctx, "adam | lr(0.01)", GD_F64, GD_DTYPE_COUNT),
        s = open_run(ctx, "lion | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    steps(&r, 2, "adam");
    steps(&s, 3, "lion");
    gd_archive *archive = gd_archive_new(ctx);
    OK(gd_archive_put(archive, "model.p", r.p));
    OK(gd_optimizer_pack(r.o, archive, "first:"));
    OK(gd_optimizer_pack(s.o, archive, "second:"));
    OK(gd_archive_save(archive, path));
    gd_archive_free(archive);
    archive = gd_archive_load(ctx, path);
    snapshot one = snapshot_of(&r), two = snapshot_of(&s);
    OK(gd_optimizer_unpack(r.o, archive, "first:", true));
    OK(gd_optimizer_unpack(s.o, archive, "second:", true));
    assert_true(same_snapshot(one, snapshot_of(&r)));
    assert_true(same_snapshot(two, snapshot_of(&s)));
    assert_int_equal(gd_optimizer_unpack(s.o, archive, "third:", true), GD_FORMAT);
    gd_clear_error(ctx);
    gd_archive_free(archive);
    close_run(&r);
    close_run(&s);
    end_context(ctx, NULL);
}

static void tensors_are_named_by_parameter_link_and_slot(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context();
    run r = open_run(ctx, "adam(inner=[ema | nag]) | lr(0.01)", GD_F64, GD_DTYPE_COUNT);
    steps(&r, 1, "adam");
    gd_archive *archive = gd_archive_new(ctx);
    OK(gd_optimizer_pack(r.o, archive, NULL));
    static const char *const names[] = {"p/0:adam/exp_avg", "layer.q/0:adam/exp_avg_sq",
                                        "p/0:adam.0:chain.1:nag/velocity"};
    for (int i = 0; i < 3; i++) assert_non_null(gd_archive_find(archive, names[i]));
    assert_int_equal(gd_archive_count(archive), 8);
    gd_archive_free(archive);
    close_run(&r);
    end_context(ctx, NULL);
}

/* adam on p^2 from (3, -4), saved after three steps by a gradus that wrote files of format 1, and its fourth step. */
static gd_tensor *sum_of_squares(void *p) { return gd_sum(gd_square(p), NULL, false); }

static void a_state_of_format_1_goes_on_as_it_would_have(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context();
    gd_tensor *p = gd_require_grad(VECTOR(ctx, 2.7003815351188671, -3.7002738530716122));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.1)"));
    OK(gd_optimizer_add(o, "p", p));
    OK(gd_optimizer_load(o, GD_TEST_DIR "/file/fixtures/version1_state.safetensors", true));
    OK(gd_optimizer_step(o, &(gd_objective){.loss = sum_of_squares, .user = p}, NULL));
    double got[2];
    OK(gd_read_f64(p, got, 2));
    assert_true(got[0] == 2.6009135452839045 && got[1] == -3.6006532310229766);
    gd_optimizer_free(o);
    gd_release(p);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_link_here_goes_on_with_the_same_bits),
        TEST(nested_chains_go_on_with_the_same_bits),
        TEST(links_that_evaluate_go_on_with_any_settings),
        TEST(every_link_of_the_table_goes_on_with_the_same_bits),
        TEST(groups_schedules_settings_and_attributes_are_saved),
        TEST(what_all_groups_have_and_steps_held_back_are_saved),
        TEST(what_does_not_fit_is_named_and_nothing_changes),
        TEST(loading_that_is_not_strict_takes_what_is_there),
        TEST(files_that_are_no_state_are_refused),
        TEST(wrong_settings_in_a_file_are_refused),
        TEST(model_and_optimizers_fit_into_one_archive),
        TEST(tensors_are_named_by_parameter_link_and_slot),
        TEST(a_state_of_format_1_goes_on_as_it_would_have),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
