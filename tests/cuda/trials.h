/* Random chains of element-wise links, and the same optimizer steps with parameters on the CPU and on a device. */
#ifndef GD_TESTS_CUDA_TRIALS_H
#define GD_TESTS_CUDA_TRIALS_H

#include "optim/table_support.h"
#include "support/support.h"
#include "tensor/device.h"

#include <math.h>
#include <unistd.h>

#include "gradus/chain.h"
#include "gradus/link.h"
#include "gradus/optim.h"
#include "tensor/tensor_internal.h"

static inline void *room(size_t count, size_t size)
{
    void *block = calloc(count ? count : 1, size);
    assert_non_null(block);
    return block;
}

/* ---- chains ---- */

/* A value for a setting that has no default, or for a flag now and then. */
static inline bool put_setting(uint64_t *state, const gd_field *f, char *out, size_t size)
{
    bool needed = !f->fallback.kind;
    if (f->kinds & GD_SET_BOOL && !f->only && (int)random_below(state, 3) == 0)
        snprintf(out, size, "%s=%s", f->name, f->fallback.real != 0 ? "false" : "true");
    else if (needed)
        (void)put_needed(f, "lr(0.5)", out, size);
    else
        return false;
    return true;
}

static inline void put_link(uint64_t *state, const gd_link_class *cls, char *out, size_t size)
{
    char settings[200] = "";
    for (int i = 0; i < cls->field_count; i++) {
        char one[64];
        if (!put_setting(state, &cls->fields[i], one, sizeof one)) continue;
        size_t used = strlen(settings);
        snprintf(settings + used, sizeof settings - used, "%s%s", used ? ", " : "", one);
    }
    snprintf(out, size, *settings ? "%s(%s)" : "%s%s", cls->name, settings);
}

/* Not gradient_correction: along the gradient of a sum of squares it leaves nothing but rounding errors, and divides by them. */
static inline bool may_stand(const gd_link_class *cls)
{
    return (cls->rule || cls->update_rule) && !cls->element_wise && strcmp(cls->name, "chain") != 0 &&
           strcmp(cls->name, "gradient_correction") != 0;
}

static inline void put_chain(uint64_t *state, char *out, size_t size)
{
    int count = 0, links = 1 + (int)random_below(state, 5);
    const gd_link_class *const *all = gd_link_classes(&count);
    out[0] = 0;
    while (links > 0) {
        const gd_link_class *cls = all[(int)random_below(state, count)];
        size_t used = strlen(out);
        if (!may_stand(cls)) continue;
        snprintf(out + used, size - used, "%s", used ? " | " : "");
        used = strlen(out);
        put_link(state, cls, out + used, size - used);
        links--;
    }
}

/* ---- steps ---- */

#define PARAMS 4

static const int64_t param_sizes[PARAMS] = {3, 5000, 1, 40};
/* two of them are matrices, so that links along axes have some */
static const int64_t param_shapes[PARAMS][2] = {{3}, {10, 500}, {1}, {5, 8}};
static const int param_ndim[PARAMS] = {1, 2, 1, 2};

/* Parameters, some on a device and some not, and an optimizer over them. */
typedef struct trial {
    gd_ctx *ctx;
    gd_tensor *param[PARAMS], *goal[PARAMS];
    gd_optimizer *optimizer;
} trial;

/* 1/2 |x - goal|^2 over all parameters, wherever they are. */
static inline gd_tensor *distance(void *user)
{
    trial *t = user;
    gd_device *cpu = gd_device_get(t->ctx, "cpu");
    gd_tensor *loss = NULL;
    for (int i = 0; i < PARAMS; i++) {
        gd_tensor *part = gd_sum(gd_square(gd_sub(t->param[i], t->goal[i])), NULL, false);
        part = gd_to_device(gd_cast(gd_mul_scalar(part, 0.5), GD_F64), cpu);
        loss = loss ? gd_add(loss, part) : part;
    }
    return loss;
}

/* places: a letter a parameter, 'g' for the device, else the CPU; dtypes: 's' f32, 'd' f64, 'b' bf16. */
static inline void make_trial(trial *t, gd_ctx *ctx, gd_device *gpu, const char *chain, const char *places,
                              const char *dtypes)
{
    *t = (trial){.ctx = ctx, .optimizer = gd_optimizer_new(ctx, gd_chain(ctx, chain))};
    assert_non_null(t->optimizer);
    uint64_t state = 5;
    for (int i = 0; i < PARAMS; i++) {
        gd_dtype dtype = dtypes[i] == 's' ? GD_F32 : dtypes[i] == 'b' ? GD_BF16 : GD_F64;
        gd_device *device = places[i] == 'g' ? gpu : gd_device_get(ctx, "cpu");
        double *value = room((size_t)param_sizes[i], sizeof *value);
        for (int64_t k = 0; k < param_sizes[i]; k++) value[k] = random_unit(&state) - 0.5;
        t->param[i] = gd_to_device(gd_from_f64(ctx, dtype, param_ndim[i], param_shapes[i], value), device);
        t->param[i] = gd_require_grad(gd_detach(t->param[i]));
        for (int64_t k = 0; k < param_sizes[i]; k++) value[k] = random_unit(&state) * 3;
        t->goal[i] = gd_to_device(gd_from_f64(ctx, dtype, param_ndim[i], param_shapes[i], value), device);
        free(value);
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        assert_int_equal(gd_optimizer_add(t->optimizer, name, t->param[i]), GD_OK);
    }
    assert_no_error(ctx);
}

static inline gd_status trial_step(trial *t)
{
    gd_objective objective = {.user = t, .loss = distance};
    return gd_optimizer_step(t->optimizer, &objective, NULL);
}

static inline bool trials_agree(const trial *a, const trial *b, double tolerance)
{
    for (int i = 0; i < PARAMS; i++) {
        array x = array_of(a->param[i]), y = array_of(b->param[i]);
        bool good = true;
        for (int64_t k = 0; k < x.numel && good; k++) {
            long double most = fabsl(x.v[k]) > 1 ? fabsl(x.v[k]) : 1;
            good = fabsl(x.v[k] - y.v[k]) <= tolerance * most || (x.v[k] != x.v[k] && y.v[k] != y.v[k]);
            if (!good) print_error("p%d[%lld]: %.17Lg and %.17Lg\n", i, (long long)k, x.v[k], y.v[k]);
        }
        array_free(&x);
        array_free(&y);
        if (!good) return false;
    }
    return true;
}

/* The same steps on the CPU and with parameters on the device. */
static inline bool steps_agree(gd_ctx *ctx, gd_device *gpu, const char *chain, const char *places,
                               const char *dtypes, double tolerance)
{
    trial here, there;
    gd_scope_begin(ctx);
    make_trial(&here, ctx, gpu, chain, "cccc", dtypes);
    make_trial(&there, ctx, gpu, chain, places, dtypes);
    bool good = true;
    for (int step = 0; step < 4 && good; step++) {
        /* settings that differ from group to group, from the third step on */
        if (step == 2) {
            assert_int_equal(gd_optimizer_regroup(here.optimizer, "p1", "lr=0.03"), GD_OK);
            assert_int_equal(gd_optimizer_regroup(there.optimizer, "p1", "lr=0.03"), GD_OK);
        }
        good = trial_step(&here) == GD_OK && trial_step(&there) == GD_OK &&
               trials_agree(&here, &there, tolerance);
    }
    if (!good) print_error("%s (%s, %s): %s\n", chain, places, dtypes, gd_error_text(ctx));
    gd_clear_error(ctx);
    gd_optimizer_free(here.optimizer);
    gd_optimizer_free(there.optimizer);
    gd_scope_end(ctx);
    return good;
}

/* Gradients of the trial's objective, into the memory of those that are there. */
static inline void trial_gradients(trial *t)
{
    gd_tensor *grads[PARAMS];
    gd_scope_begin(t->ctx);
    assert_int_equal(gd_grad(distance(t), NULL, t->param, PARAMS, 0, grads), GD_OK);
    for (int i = 0; i < PARAMS; i++) {
        gd_tensor *before = gd_grad_of(t->param[i]);
        assert_int_equal(before ? gd_assign(before, grads[i]) : gd_set_grad(t->param[i], gd_copy(grads[i])),
                         GD_OK);
    }
    gd_scope_end(t->ctx);
}

/* Steps without objective, one optimizer as a graph and one not: the same bits, whatever changes between steps. */
static inline void replays_agree(gd_ctx *ctx, gd_device *gpu, const char *chain, const char *dtypes)
{
    trial t[2];
    gd_scope_begin(ctx);
    for (int k = 0; k < 2; k++) {
        make_trial(&t[k], ctx, gpu, chain, "gggg", dtypes);
        if (k) assert_int_equal(gd_optimizer_capture(t[k].optimizer, true), GD_OK);
    }
    for (int step = 0; step < 9; step++) {
        for (int k = 0; k < 2; k++) {
            gd_optimizer *o = t[k].optimizer;
            if (step == 4) gd_optimizer_zero_grad(o); /* gradients in other memory */
            if (step == 5) assert_int_equal(gd_optimizer_set(o, -1, "lr", 0.05), GD_OK);
            if (step == 6) assert_int_equal(gd_optimizer_schedule(o, 0, "lr", "linear(0.1, 0, 20)"), GD_OK);
            if (step == 7) assert_int_equal(gd_optimizer_regroup(o, "p1", "lr=0.03"), GD_OK);
            trial_gradients(&t[k]);
            assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
        }
        if (!trials_agree(&t[0], &t[1], 0)) fail_msg("%s (%s), step %d", chain, dtypes, step);
    }
    assert_int_equal(gd_optimizer_replays(t[0].optimizer), 0);
    assert_int_equal(gd_optimizer_replays(t[1].optimizer), gpu->backend->replay ? 9 : 0);
    for (int k = 0; k < 2; k++) {
        gd_optimizer_zero_grad(t[k].optimizer);
        gd_optimizer_free(t[k].optimizer);
    }
    gd_scope_end(ctx);
    assert_no_error(ctx);
}

static inline void all_replays_agree(gd_ctx *ctx, gd_device *gpu)
{
    replays_agree(ctx, gpu, "clip_norm(1) | adam | weight_decay(0.01) | lr(0.1)", "ssss");
    replays_agree(ctx, gpu, "clip_norm(1) | adam(amsgrad=true) | lr(0.1)", "sdsb"); /* several programs */
    replays_agree(ctx, gpu, "normalize | nag | lr(0.1)", "bsbs");
    replays_agree(ctx, gpu, "adam(state=\"8bit\") | lr(0.1)", "ssss");
    replays_agree(ctx, gpu, "centralize(dim=1) | adafactor | lr(0.1)", "sdss"); /* along axes */
}

/* Parameters whose gradients come every step, every second, every third ...: each with its own count of steps, as on the CPU. */
static inline bool skips_agree(gd_ctx *ctx, gd_device *gpu, const char *chain, const char *dtypes,
                               bool capture)
{
    trial t[2];
    bool good = true;
    gd_scope_begin(ctx);
    for (int k = 0; k < 2; k++) {
        make_trial(&t[k], ctx, gpu, chain, k ? "gggg" : "cccc", dtypes);
        assert_int_equal(gd_optimizer_skip_missing(t[k].optimizer, true), GD_OK);
        if (k && capture) assert_int_equal(gd_optimizer_capture(t[k].optimizer, true), GD_OK);
    }
    for (int step = 0; step < 7 && good; step++) {
        for (int k = 0; k < 2 && good; k++) {
            trial_gradients(&t[k]);
            for (int i = 0; i < PARAMS; i++)
                if (step % (i + 1)) gd_zero_grad(t[k].param[i]);
            good = gd_optimizer_step(t[k].optimizer, NULL, NULL) == GD_OK;
        }
        good = good && trials_agree(&t[0], &t[1], 1e-5);
        if (!good) print_error("%s (%s), step %d: %s\n", chain, dtypes, step, gd_error_text(ctx));
    }
    for (int k = 0; k < 2; k++) {
        gd_optimizer_zero_grad(t[k].optimizer);
        gd_optimizer_free(t[k].optimizer);
    }
    gd_scope_end(ctx);
    return good;
}

static inline void all_skips_agree(gd_ctx *ctx, gd_device *gpu)
{
    assert_true(skips_agree(ctx, gpu, "clip_norm(1) | adam | weight_decay(0.01) | lr(0.1)", "ssss", false));
    assert_true(skips_agree(ctx, gpu, "adam | lr(0.1)", "sdss", false));
    assert_true(skips_agree(ctx, gpu, "adam | lr(0.1)", "ssss", true));
}

/* Parameters and gradients whose columns are neighbours in memory, as on the CPU with rows. */
static inline bool layouts_agree(gd_ctx *ctx, gd_device *gpu, const char *chain)
{
    gd_optimizer *o[2] = {NULL};
    gd_tensor *p[2] = {NULL}, *g[2] = {NULL};
    bool good = true;
    gd_scope_begin(ctx);
    gd_tensor *start = gd_rand(ctx, GD_F32, 2, (int64_t[]){300, 40}),
              *slope = gd_rand(ctx, GD_F32, 2, (int64_t[]){300, 40});
    for (int k = 0; k < 2; k++) {
        gd_device *device = k ? gpu : gd_device_get(ctx, "cpu");
        o[k] = gd_optimizer_new(ctx, gd_chain(ctx, chain));
        p[k] = k ? gd_detach(
                       gd_transpose(gd_to_device(gd_contiguous(gd_transpose(start, 0, 1)), device), 0, 1))
                 : gd_copy(start);
        g[k] = k ? gd_detach(
                       gd_transpose(gd_to_device(gd_contiguous(gd_transpose(slope, 0, 1)), device), 0, 1))
                 : gd_copy(slope);
        gd_require_grad(p[k]);
        assert_int_equal(gd_is_contiguous(p[k]), !k);
        assert_int_equal(gd_optimizer_add(o[k], "p", p[k]), GD_OK);
        assert_int_equal(gd_set_grad(p[k], g[k]), GD_OK);
    }
    for (int step = 0; step < 4 && good; step++)
        for (int k = 0; k < 2 && good; k++) good = gd_optimizer_step(o[k], NULL, NULL) == GD_OK;
    array x = array_of(p[0]), y = array_of(p[1]);
    for (int64_t i = 0; i < x.numel && good; i++) good = fabsl(x.v[i] - y.v[i]) <= 1e-5;
    if (!good) print_error("%s: %s\n", chain, gd_error_text(ctx));
    array_free(&x);
    array_free(&y);
    for (int k = 0; k < 2; k++) {
        gd_zero_grad(p[k]);
        gd_optimizer_free(o[k]);
    }
    gd_scope_end(ctx);
    return good;
}

static inline void all_layouts_agree(gd_ctx *ctx, gd_device *gpu)
{
    assert_true(layouts_agree(ctx, gpu, "clip_norm(1) | adam | weight_decay(0.01) | lr(0.1)"));
    assert_true(layouts_agree(ctx, gpu, "adafactor | lr(0.1)"));            /* along axes: on copies */
    assert_true(layouts_agree(ctx, gpu, "adam(state=\"bf16\") | lr(0.1)")); /* rounded by chance: the same */
}

/* What cannot be captured is said, and steps go on as they were. */
static inline void captures_are_refused(gd_ctx *ctx, gd_device *gpu)
{
    trial t;
    gd_scope_begin(ctx);
    make_trial(&t, ctx, gpu, "adam | lr(0.1)", "ggcg", "ssss");
    assert_int_equal(gd_optimizer_capture(t.optimizer, true), GD_DEVICE);
    assert_error(ctx, GD_DEVICE, "capture: parameter 'p2' is on the CPU; move it to a GPU");
    trial_gradients(&t);
    assert_int_equal(gd_optimizer_step(t.optimizer, NULL, NULL), GD_OK);
    gd_optimizer_zero_grad(t.optimizer);
    gd_optimizer_free(t.optimizer);
    make_trial(&t, ctx, gpu, "lbfgs | lr(0.1)", "gggg", "ssss");
    assert_int_equal(gd_optimizer_capture(t.optimizer, true), GD_NOT_IMPLEMENTED);
    assert_error(ctx, GD_NOT_IMPLEMENTED, "capture: 'lbfgs' is not element-wise");
    gd_optimizer_free(t.optimizer);
    gd_optimizer *empty = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.1)"));
    assert_int_equal(gd_optimizer_capture(empty, true), GD_STATE);
    assert_error(ctx, GD_STATE, "capture: the optimizer has no parameters");
    assert_int_equal(gd_optimizer_capture(empty, false), GD_OK);
    gd_optimizer_free(empty);
    gd_scope_end(ctx);
}

/* ---- from one device to another ---- */

/* Steps on one device, saved, loaded over the same parameters on the other, and on: as if it had never moved. */
static inline void checkpoints_cross(gd_ctx *ctx, gd_device *gpu, const char *chain, double tolerance)
{
    static const char *const places[2] = {"cccc", "gggg"};
    char path[64]; /* suites with these tests may run side by side in one folder */
    snprintf(path, sizeof path, "crossing.%ld.safetensors", (long)getpid());
    for (int from = 0; from < 2; from++) {
        trial stays, before, after;
        gd_scope_begin(ctx);
        make_trial(&stays, ctx, gpu, chain, places[from], "dddd");
        make_trial(&before, ctx, gpu, chain, places[from], "dddd");
        make_trial(&after, ctx, gpu, chain, places[1 - from], "dddd");
        for (int step = 0; step < 3; step++) {
            assert_int_equal(trial_step(&stays), GD_OK);
            assert_int_equal(trial_step(&before), GD_OK);
        }
        assert_int_equal(gd_optimizer_save(before.optimizer, path), GD_OK);
        for (int i = 0; i < PARAMS; i++) {
            gd_tensor *there = gd_to_device(gd_detach(before.param[i]), gd_tensor_device(after.param[i]));
            assert_int_equal(gd_assign(after.param[i], there), GD_OK);
        }
        assert_int_equal(gd_optimizer_load(after.optimizer, path, true), GD_OK);
        for (int step = 0; step < 3; step++) {
            assert_int_equal(trial_step(&stays), GD_OK);
            assert_int_equal(trial_step(&after), GD_OK);
            if (!trials_agree(&stays, &after, tolerance)) fail_msg("%s from %s", chain, places[from]);
        }
        gd_optimizer_free(stays.optimizer);
        gd_optimizer_free(before.optimizer);
        gd_optimizer_free(after.optimizer);
        gd_scope_end(ctx);
        remove(path);
    }
    assert_no_error(ctx);
}

static inline gd_tensor *module_loss(void *user)
{
    gd_tensor *w = gd_module_get_tensor(user, "w");
    return gd_sum(gd_square(gd_add_scalar(w, -3)), NULL, false);
}

/* A module that moves between steps takes the state of its optimizer along. */
static inline void state_follows(gd_ctx *ctx, gd_device *gpu, const char *chain, double tolerance)
{
    array result[2];
    for (int moves = 0; moves < 2; moves++) {
        gd_scope_begin(ctx);
        gd_module *m = gd_module_new(gd_class_module(ctx));
        assert_int_equal(gd_module_set_tensor(m, "w", VECTOR(ctx, 1, -2, 0.5, 4)), GD_OK);
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
        assert_int_equal(gd_optimizer_add_module(o, m, NULL, NULL), GD_OK);
        gd_objective objective = {.loss = module_loss, .user = m};
        for (int step = 0; step < 9; step++) {
            if (moves && step == 3) assert_int_equal(gd_module_to_device(m, gpu), GD_OK);
            if (moves && step == 6) assert_int_equal(gd_module_cpu(m), GD_OK);
            gd_status status = gd_optimizer_step(o, &objective, NULL);
            if (status) fail_msg("%s, step %d: %s", chain, step, gd_error_text(ctx));
        }
        result[moves] = array_of(gd_module_get_tensor(m, "w"));
        gd_optimizer_free(o);
        gd_scope_end(ctx);
    }
    for (int64_t i = 0; i < result[0].numel; i++)
        if (fabsl(result[0].v[i] - result[1].v[i]) > tolerance)
            fail_msg("%s: %.17Lg without moving, %.17Lg with", chain, result[0].v[i], result[1].v[i]);
    array_free(&result[0]);
    array_free(&result[1]);
}

static inline void states_and_checkpoints_cross(gd_ctx *ctx, gd_device *gpu)
{
    static const char *const chains[] = {"clip_norm(1) | adam | lr(0.1)", "heavy_ball | lr(0.05)",
                                         "lbfgs(history_size=3) | lr(0.1)", "bfgs | lr(0.1)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        state_follows(ctx, gpu, chains[i], 1e-9);
        checkpoints_cross(ctx, gpu, chains[i], 1e-9);
    }
}

/* The same numbers from the same seed on both devices: uniform ones and signs to the bit, normal ones to rounding. */
static inline void random_numbers_agree(gd_ctx *ctx, gd_device *gpu)
{
    gd_device *device[2] = {gd_device_get(ctx, "cpu"), gpu};
    for (int kind = GD_RANDOM_UNIFORM; kind <= GD_RANDOM_SIGN; kind++)
        for (gd_dtype dtype = GD_F32; dtype <= GD_BF16; dtype++) {
            array x[2];
            gd_scope_begin(ctx);
            for (int k = 0; k < 2; k++) {
                gd_rng rng = {.key = 12345};
                gd_tensor *t = gd__random(device[k], &rng, "test", (gd_random_kind)kind, dtype, 1,
                                          (int64_t[]){1001});
                assert_non_null(t);
                x[k] = array_of(t);
            }
            for (int64_t i = 0; i < 1001; i++) {
                long double allowed = kind != GD_RANDOM_NORMAL ? 0
                                      : dtype == GD_F64        ? 1e-14L
                                      : dtype == GD_F32        ? 1e-6L
                                                               : 0.02L;
                if (fabsl(x[0].v[i] - x[1].v[i]) > allowed * (1 + fabsl(x[0].v[i])))
                    fail_msg("kind %d, %s: number %lld is %.17Lg and %.17Lg", kind, gd_dtype_name(dtype),
                             (long long)i, x[0].v[i], x[1].v[i]);
            }
            array_free(&x[0]);
            array_free(&x[1]);
            gd_scope_end(ctx);
        }
}

/* Chains, where the parameters are and of what dtypes; how far from the CPU's results they may be. */
typedef struct trial_row {
    const char *chain, *places, *dtypes;
    double tolerance;
} trial_row;

static const trial_row trial_rows[] = {
    {"clip_norm(1) | adam | weight_decay(0.01) | lr(0.1)", "gggg", "ssss", 1e-5},
    {"clip_norm(1) | adam | lr(0.1)", "gggg", "sdsd", 1e-5},
    {"clip_norm(1) | heavy_ball | lr(0.1)", "gcgc", "sssd", 1e-5},
    {"normalize | nag | lr(0.1)", "ggcg", "dddd", 1e-12},
    {"rmsprop | lr(0.1)", "gggg", "bsbs", 1e-2},
    {"adam(amsgrad=true) | clip_value(0.5) | lr(0.1)", "gggg", "dddd", 1e-12},
    {"centralize(dim=1) | adam | lr(0.1)", "gggg", "ssss", 1e-5},
    {"clip_norm(1, dim=\"global\") | normalize(dim=0) | adam | lr(0.1)", "gcgg", "dddd", 1e-12},
    {"clip_norm(1) | adafactor | centralize(dim=-1) | lr(0.1)", "gggg", "bsdb", 3e-2},
    /* narrow state has the same bits everywhere, and what is computed from it without functions too */
    {"adam(state=\"8bit\") | lr(0.1)", "gggg", "ssss", 0},
    {"adam(state=\"8bit+feedback\") | weight_decay(0.01) | lr(0.1)", "gggg", "sdss", 0},
    {"adam(state=\"bf16\") | lr(0.1)", "gggg", "ssss", 0},
    {"heavy_ball(state=\"f16\") | lr(0.1)", "gggg", "ssds", 0},
};

/* ---- along axes ---- */

static const int64_t axes_shapes[][3] = {{300, 70, 1}, {2, 900, 1}, {900, 3, 1}, {6, 50, 8}, {130, 260, 1}};
static const char *const axes_chains[] = {"centralize(dim=1)",
                                          "centralize(dim=[0, 2]) | normalize(dim=1)",
                                          "clip_norm(0.1, dim=0) | clip_norm(1)",
                                          "normalize(ord=inf, dim=1)",
                                          "agc | adam",
                                          "adafactor"};

/* Three steps over all shapes at once on a device; parameters as the CPU finds them go to got. */
static inline void axes_steps(gd_ctx *ctx, gd_device *device, const char *chain, gd_dtype dtype, array *got)
{
    uint64_t state = 9;
    gd_tensor *p[COUNT_OF(axes_shapes)];
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_non_null(o);
    for (int i = 0; i < COUNT_OF(axes_shapes); i++) {
        int ndim = axes_shapes[i][2] == 1 ? 2 : 3;
        int64_t n = axes_shapes[i][0] * axes_shapes[i][1] * axes_shapes[i][2];
        double *value = room((size_t)n, sizeof *value);
        gd_tensor *pair[2];
        for (int k = 0; k < 2; k++) {
            for (int64_t e = 0; e < n; e++) value[e] = random_unit(&state) - 0.4;
            pair[k] = gd_to_device(gd_from_f64(ctx, dtype, ndim, axes_shapes[i], value), device);
        }
        free(value);
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        p[i] = gd_require_grad(gd_detach(pair[0]));
        assert_int_equal(gd_optimizer_add(o, name, p[i]), GD_OK);
        assert_int_equal(gd_set_grad(p[i], pair[1]), GD_OK);
    }
    int64_t before = device->host_calls;
    for (int step = 0; step < 3; step++) assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
    /* nothing of it is left to the host, where the device has a compiler */
    if (device->backend->program) assert_int_equal(device->host_calls - before, 0);
    for (int i = 0; i < COUNT_OF(axes_shapes); i++) {
        got[i] = array_of(p[i]);
        gd_zero_grad(p[i]);
    }
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    assert_no_error(ctx);
}

/* The number of chains whose steps are not those of the CPU. */
static inline int run_axes_trials(gd_ctx *ctx, gd_device *gpu)
{
    int failures = 0;
    for (int c = 0; c < COUNT_OF(axes_chains); c += test_share()) {
        array want[COUNT_OF(axes_shapes)], got[COUNT_OF(axes_shapes)];
        gd_dtype dtype = c % 2 ? GD_F64 : GD_F32;
        bool good = true;
        axes_steps(ctx, gd_device_get(ctx, "cpu"), axes_chains[c], dtype, want);
        axes_steps(ctx, gpu, axes_chains[c], dtype, got);
        for (int i = 0; i < COUNT_OF(axes_shapes); i++) {
            for (int64_t e = 0; e < want[i].numel && good; e++) {
                long double x = want[i].v[e], y = got[i].v[e];
                good = fabsl(x - y) <= (dtype == GD_F64 ? 1e-11L : 2e-4L) * (1 + fabsl(x));
                if (!good)
                    print_error("%s, %s, p%d[%lld]: %.17Lg and %.17Lg\n", axes_chains[c],
                                gd_dtype_name(dtype), i, (long long)e, x, y);
            }
            array_free(&want[i]);
            array_free(&got[i]);
        }
        failures += !good;
    }
    return failures;
}

/* All rows or every so many-th, and some random chains; the number of those that differ. */
static inline int run_trials(gd_ctx *ctx, gd_device *gpu, int every, int random_chains)
{
    int failures = 0;
    uint64_t state = 77;
    for (int i = 0; i < COUNT_OF(trial_rows); i += every) {
        const trial_row *r = &trial_rows[i];
        failures += !steps_agree(ctx, gpu, r->chain, r->places, r->dtypes, r->tolerance);
    }
    for (int i = 0; i < random_chains; i++) {
        char chain[400];
        put_chain(&state, chain, sizeof chain - 12);
        strcat(chain, " | lr(0.1)");
        failures += !steps_agree(ctx, gpu, chain, "gggg", "dddd", 1e-9);
    }
    return failures;
}

#endif
