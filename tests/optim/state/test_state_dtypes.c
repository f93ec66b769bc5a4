/* State in bf16, f16 and codes of eight bits, for every rule of the table that keeps state: the same bits however it runs and
 * after a checkpoint, nearly the loss of f32, and a clear word where it cannot be. */
#include "base/narrow.h"
#include "gradus/file.h"
#include "optim/optim_support.h"
#include "optim/table_support.h"

#include <math.h>

/* ---- which links ---- */

/* Slots that a choice is for: not those that must have the parameter's dtype. */
static int slots_to_choose_for(const gd_link_class *cls)
{
    int n = 0;
    for (int i = 0; cls->rule && i < cls->slot_count; i++) n += !(cls->slots[i].flags & GD_SLOT_EXACT);
    return n;
}

static const gd_field *field_named(const gd_link_class *cls, const char *name)
{
    for (int i = 0; i < cls->field_count; i++)
        if (!strcmp(cls->fields[i].name, name)) return &cls->fields[i];
    return NULL;
}

static const gd_field *state_field(const gd_link_class *cls) { return field_named(cls, "state"); }

static void exactly_rules_with_state_have_the_setting(void **state)
{
    (void)state;
    int count = 0, with = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        bool has = state_field(all[i]), should = slots_to_choose_for(all[i]) > 0;
        if (has != should)
            fail_msg("%s: %s", all[i]->name,
                     has ? "has the setting 'state' and no state that it is for" : "lacks GD_STATE_IN");
        with += has;
    }
    assert_true(with > 30);
}

/* The text of a link with one more setting. */
static void with_state(const char *text, const char *in, char *out, size_t size)
{
    size_t length = strlen(text);
    bool closed = text[length - 1] == ')';
    snprintf(out, size, "%.*s%sstate=\"%s\") | lr(0.01)", (int)(closed ? length - 1 : length), text,
             closed ? ", " : "(", in);
}

static const char *const forms[] = {"bf16", "f16", "8bit"};

/* ---- runs ---- */

static const int64_t shapes[][8] = {{0}, {1}, {7}, {5001}, {2, 1, 2, 2, 3, 5, 8, 6}, {70, 73}};
static const int dims[] = {1, 0, 1, 1, 8, 2};
#define PARAMS COUNT_OF(dims)

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p[PARAMS], *target[PARAMS];
} run;

static gd_tensor *loss_of(void *user)
{
    run *r = user;
    gd_tensor *sum = NULL;
    for (int i = 0; i < PARAMS; i++) {
        gd_tensor *part = gd_sum(gd_square(gd_sub(r->p[i], r->target[i])), NULL, false);
        part = gd_mul_scalar(part, 0.5 + i);
        sum = sum ? gd_add(sum, part) : part;
    }
    return sum;
}

static void fill_random(gd_tensor *t, uint64_t *seed)
{
    int64_t n = gd_numel(t);
    double *values = malloc((size_t)(n ? n : 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = 2 * random_unit(seed) - 1;
    OK(gd_write_f64(t, values, n));
    free(values);
}

static void fill_run(run *r)
{
    uint64_t seed = 31;
    for (int i = 0; i < PARAMS; i++) {
        fill_random(r->p[i], &seed);
        fill_random(r->target[i], &seed);
    }
}

static run open_run(gd_ctx *ctx, const char *chain, gd_dtype dtype)
{
    run r = {.ctx = ctx};
    static const char *const names[PARAMS] = {"none", "one", "few", "long", "deep", "matrix"};
    gd_link *link = gd_chain(ctx, chain);
    r.o = link ? gd_optimizer_new(ctx, link) : NULL;
    if (!r.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    for (int i = 0; i < PARAMS; i++) {
        r.p[i] = gd_require_grad(gd_zeros(ctx, dtype, dims[i], shapes[i]));
        r.target[i] = gd_zeros(ctx, dtype, dims[i], shapes[i]);
        OK(gd_optimizer_add(r.o, names[i], r.p[i]));
    }
    fill_run(&r);
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    for (int i = 0; i < PARAMS; i++) {
        gd_release(r->p[i]);
        gd_release(r->target[i]);
    }
}

static void steps(run *r, int count, const char *chain)
{
    gd_objective objective = {.loss = loss_of, .user = r};
    for (int i = 0; i < count; i++)
        if (gd_optimizer_step(r->o, &objective, NULL)) fail_msg("%s: %s", chain, gd_error_text(r->ctx));
}

/* Everything that an optimizer and its parameters hold. */
static gd_archive *snapshot(run *r)
{
    gd_archive *archive = gd_archive_new(r->ctx);
    OK(gd_optimizer_pack(r->o, archive, NULL));
    for (int i = 0; i < PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "param%d", i);
        OK(gd_archive_put(archive, name, r->p[i]));
    }
    return archive;
}

static bool same_bytes(const gd_tensor *a, const gd_tensor *b)
{
    return a->dtype == b->dtype && a->numel == b->numel &&
           !memcmp(a->data, b->data, (size_t)a->numel * gd__item_size(a));
}

static void assert_same(gd_archive *a, gd_archive *b, const char *chain, const char *what)
{
    if (gd_archive_count(a) != gd_archive_count(b)) fail_msg("%s: %s: other state", chain, what);
    for (int64_t i = 0; i < gd_archive_count(a); i++)
        if (strcmp(gd_archive_name(a, i), gd_archive_name(b, i)) ||
            !same_bytes(gd_archive_get(a, i), gd_archive_get(b, i)))
            fail_msg("%s: %s: %s differs", chain, what, gd_archive_name(a, i));
    if (strcmp(gd_archive_get_meta(a, "optimizer"), gd_archive_get_meta(b, "optimizer")))
        fail_msg("%s: %s: the rest differs", chain, what);
    gd_archive_free(b);
}

static gd_ctx *open_context(int threads, bool compile)
{
    gd_options options = gd_options_default();
    options.threads = threads;
    options.compile = compile;
    options.seed = 3;
    return gd_ctx_new(&options);
}

/* ---- the same bits ---- */

#define STEPS 4

static gd_archive *run_in(gd_ctx *ctx, const char *chain, gd_dtype dtype, bool separate, bool interpret)
{
    run r = open_run(ctx, chain, dtype);
    r.o->test.no_fusion = separate;
    r.o->test.interpret = interpret;
    steps(&r, STEPS, chain);
    gd_archive *end = snapshot(&r);
    close_run(&r);
    return end;
}

/* Stops after two steps and goes on in an optimizer that has seen nothing. */
static gd_archive *interrupted(gd_ctx *ctx, const char *chain, gd_dtype dtype)
{
    run r = open_run(ctx, chain, dtype);
    steps(&r, STEPS / 2, chain);
    gd_archive *half = gd_archive_new(ctx);
    OK(gd_optimizer_pack(r.o, half, NULL));
    run next = open_run(ctx, chain, dtype);
    for (int i = 0; i < PARAMS; i++)
        memcpy(gd_data_mut(next.p[i]), gd_data(r.p[i]), (size_t)r.p[i]->numel * gd__item_size(r.p[i]));
    if (gd_optimizer_unpack(next.o, half, NULL, true)) fail_msg("%s: %s", chain, gd_error_text(ctx));
    gd_archive_free(half);
    close_run(&r);
    steps(&next, STEPS - STEPS / 2, chain);
    gd_archive *end = snapshot(&next);
    close_run(&next);
    return end;
}

/* Forgets everything after two steps, and begins anew. */
static gd_archive *begun_again(gd_ctx *ctx, const char *chain, gd_dtype dtype)
{
    run r = open_run(ctx, chain, dtype);
    steps(&r, 2, chain);
    gd_optimizer_reset(r.o);
    fill_run(&r);
    r.o->step = r.o->evals = 0;
    steps(&r, STEPS, chain);
    gd_archive *end = snapshot(&r);
    close_run(&r);
    return end;
}

static bool draws_from_the_context(const char *chain)
{
    return strstr(chain, "seed") != NULL; /* its place in the stream is not reset */
}

static void check_bits(const char *chain, gd_dtype dtype, bool compile)
{
    gd_ctx *one = open_context(1, false), *two = open_context(2, compile);
    gd_scope_begin(one);
    gd_scope_begin(two);
    gd_archive *want = run_in(one, chain, dtype, false, true);
    assert_same(want, run_in(one, chain, dtype, true, true), chain, "link by link");
    assert_same(want, run_in(two, chain, dtype, false, false), chain, "two threads");
    assert_same(want, interrupted(one, chain, dtype), chain, "going on");
    if (!draws_from_the_context(chain))
        assert_same(want, begun_again(one, chain, dtype), chain, "after a reset");
    gd_archive_free(want);
    gd_scope_end(one);
    gd_scope_end(two);
    end_context(one, NULL);
    end_context(two, NULL);
}

static void check_link(const gd_link_class *cls, const char *text)
{
    char chain[600];
    if (!state_field(cls)) return;
    bool narrow = strstr(state_field(cls)->choices, "8bit");
    for (int i = 0; i < (narrow ? 3 : 2); i++) {
        with_state(text, forms[i], chain, sizeof chain);
        check_bits(chain, GD_F32, i == 2);
    }
    with_state(text, narrow ? "8bit+feedback" : "bf16", chain, sizeof chain);
    check_bits(chain, GD_F64, false);
}

static void every_link_has_the_same_bits_however_it_runs(void **state)
{
    (void)state;
    each_link_text(check_link);
}

/* The text of a link with the state of an ema in it in another form; false: there is none. */
static bool with_state_of_child(const char *text, const char *in, char *out, size_t size)
{
    for (const char *at = text; (at = strstr(at, "ema")); at++) {
        bool whole = at > text && strchr("(=[ ", at[-1]) && at[3] && strchr(" ,)]", at[3]);
        if (!whole) continue;
        snprintf(out, size, "%.*sema(state=\"%s\")%s | lr(0.01)", (int)(at - text), text, in, at + 3);
        return true;
    }
    return false;
}

static int wrappers;

static void check_child(const gd_link_class *cls, const char *text)
{
    static const char *const in[] = {"8bit+feedback", "8bit", "bf16"};
    char chain[600];
    for (int i = 0; i < (cls ? 1 : COUNT_OF(in)); i++) {
        if (!with_state_of_child(text, in[i], chain, sizeof chain)) return;
        gd_ctx *one = open_context(1, false), *two = open_context(2, false);
        gd_scope_begin(one);
        gd_scope_begin(two);
        gd_archive *want = run_in(one, chain, GD_F32, false, true);
        assert_same(want, run_in(two, chain, GD_F32, false, false), chain, "two threads");
        /* another link with a seed of its own draws other numbers from the context */
        if (!cls || !field_named(cls, "seed"))
            assert_same(want, interrupted(one, chain, GD_F32), chain, "going on");
        gd_archive_free(want);
        gd_scope_end(one);
        gd_scope_end(two);
        end_context(one, NULL);
        end_context(two, NULL);
    }
    wrappers++;
}

/* Wrappers that turn the state of their child (soap_basis, ggt_basis), hand it to stand-ins or run it now and then. */
static void a_child_keeps_narrow_state_in_every_wrapper(void **state)
{
    (void)state;
    wrappers = 0;
    each_link_text(check_child);
    check_child(NULL, "soap_basis([ema | rmsprop(state=\"8bit\")], precond_freq=2)");
    check_child(NULL, "ggt_basis([ema | rmsprop(state=\"8bit\")], 4)");
    print_message("%d wrappers\n", wrappers);
    assert_true(wrappers * test_share() > 20);
}

static void halves_have_the_same_bits_compiled(void **state)
{
    (void)state;
    check_bits("adam(state=\"bf16\") | lr(0.01)", GD_F32, true);
    check_bits("adam(amsgrad=true, state=\"f16\") | clip_norm(1, dim=\"global\") | lr(0.01)", GD_F32, true);
    check_bits("adam(state=\"f16\") | lr(0.01)", GD_F64, true);
}

/* A norm after the state reads it in a pass of its own; sums along axes read it in tiles of any place. */
static void codes_are_read_by_every_pass(void **state)
{
    (void)state;
    check_bits("adam(state=\"8bit\") | clip_norm(1, dim=\"global\") | lr(0.01)", GD_F32, true);
    check_bits("adam(state=\"8bit+feedback\") | centralize(dim=0) | lr(0.01)", GD_F32, true);
    check_bits("adam(amsgrad=true, state=\"8bit+feedback\") | clip_norm(1, dim=\"global\") | lr(0.01)",
               GD_F32, true);
    check_bits("adam(state=\"8bit\") | clip_norm(1, dim=1) | heavy_ball(state=\"8bit\") | lr(0.01)", GD_F64,
               true);
}

/* ---- bytes ---- */

static gd_tensor *slot_of(run *r, int link, int param, const char *name)
{
    return gd_link_state(gd_link_child_at(gd_optimizer_chain(r->o), link), r->p[param], name);
}

static void large_parameters_have_codes_and_small_ones_f32(void **state)
{
    (void)state;
    gd_ctx *ctx = open_context(1, false);
    gd_scope_begin(ctx);
    run r = open_run(ctx, "adam(state=\"8bit\") | lr(0.01)", GD_F32);
    steps(&r, 1, "adam");
    assert_int_equal(slot_of(&r, 0, 2, "exp_avg")->dtype, GD_F32);
    gd_tensor *codes = slot_of(&r, 0, 3, "exp_avg");
    assert_int_equal(codes->dtype, GD_U8);
    /* 20 blocks: 20 scales in two lines of a cache, and a byte an element */
    assert_int_equal(codes->numel, 128 + 5001);
    close_run(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* The state of one step is known: m = (1 - beta1) g. */
static void codes_hold_what_the_rule_computed(void **state)
{
    (void)state;
    gd_ctx *ctx = open_context(1, false);
    gd_scope_begin(ctx);
    run r = open_run(ctx, "adam(state=\"8bit\") | lr(0.01)", GD_F32);
    const float *p = gd_data(r.p[3]), *t = gd_data(r.target[3]);
    float *g = malloc(5001 * sizeof *g);
    for (int i = 0; i < 5001; i++) g[i] = 7 * (p[i] - t[i]); /* 2 (0.5 + 3) */
    steps(&r, 1, "adam");
    const uint8_t *code = (const uint8_t *)slot_of(&r, 0, 3, "exp_avg")->data + 128;
    const float *scale = (const float *)(const void *)code - 1;
    for (int i = 0; i < 5001; i++) {
        double top = fabs((double)scale[-(i / 256)]), want = 0.1 * (double)g[i],
               got = (double)scale[-(i / 256)] * (double)gd__value_signed(code[i]);
        double most = fabs(want) > 0.1 * top ? 0.0142 : 0.0142 / 5; /* cells: 1/64 of 0.9, and less below */
        assert_true(fabs(got - want) <= most * top);
    }
    free(g);
    close_run(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void explain_counts_the_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *chain, *text;
    } rows[] = {{"adam | lr(0.1)", "28 bytes per element"},
                {"adam(state=\"bf16\") | lr(0.1)", "20 bytes per element"},
                {"adam(state=\"f16\") | lr(0.1)", "state: 4 bytes per element"},
                {"adam(state=\"8bit\") | lr(0.1)", "state: 2.031 bytes per element"},
                {"adam(state=\"8bit+feedback\") | lr(0.1)", "state: 4.062 bytes per element"}};
    gd_ctx *ctx = open_context(1, false);
    for (int i = 0; i < COUNT_OF(rows); i++) {
        gd_scope_begin(ctx);
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, rows[i].chain));
        OK(gd_optimizer_add(o, "p", gd_require_grad(gd_zeros(ctx, GD_F32, 1, (int64_t[]){65536}))));
        char text[2000];
        (void)gd_explain(o, false, text, sizeof text);
        if (!strstr(text, rows[i].text)) fail_msg("no '%s' in: %s", rows[i].text, text);
        gd_optimizer_free(o);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

/* ---- choosing ---- */

static void groups_and_the_optimizer_choose_too(void **state)
{
    (void)state;
    gd_ctx *ctx = open_context(1, false);
    gd_scope_begin(ctx);
    run r = open_run(ctx, "adam | lr(0.01)", GD_F32);
    OK(gd_link_set_for(gd_link_child_at(gd_optimizer_chain(r.o), 0), r.p[3], "state",
                       gd_setting_string("8bit")));
    OK(gd_optimizer_state_dtype(r.o, GD_BF16));
    steps(&r, 2, "adam");
    assert_int_equal(slot_of(&r, 0, 3, "exp_avg")->dtype, GD_U8);
    assert_int_equal(slot_of(&r, 0, 5, "exp_avg")->dtype, GD_BF16);
    assert_int_equal(slot_of(&r, 0, 2, "exp_avg")->dtype, GD_BF16);
    close_run(&r);
    r = open_run(ctx, "adam | lr(0.01)", GD_F32);
    OK(gd_optimizer_state_dtype(r.o, GD_U8));
    steps(&r, 2, "adam");
    assert_int_equal(slot_of(&r, 0, 3, "exp_avg")->dtype, GD_U8);
    close_run(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* What is there follows: the next step has it in the new form. */
static void another_form_may_be_chosen_on_the_way(void **state)
{
    (void)state;
    static const char *const way[] = {"f32",  "8bit",          "bf16", "8bit+feedback",
                                      "8bit", "8bit+feedback", "f16",  "auto"};
    static const gd_dtype want[] = {GD_F32, GD_U8, GD_BF16, GD_U8, GD_U8, GD_U8, GD_F16, GD_F32};
    gd_ctx *ctx = open_context(1, false);
    gd_scope_begin(ctx);
    run r = open_run(ctx, "adam | lr(0)", GD_F32);
    gd_link *adam = gd_link_child_at(gd_optimizer_chain(r.o), 0);
    steps(&r, 20, "adam");
    float *first = malloc(5001 * sizeof *first);
    memcpy(first, slot_of(&r, 0, 3, "exp_avg")->data, 5001 * sizeof *first);
    for (int i = 0; i < COUNT_OF(way); i++) {
        OK(gd_link_set_string(adam, "state", way[i]));
        steps(&r, 1, "adam");
        assert_int_equal(slot_of(&r, 0, 3, "exp_avg")->dtype, want[i]);
    }
    /* parameters do not move, so the average has only gone on to the gradient */
    const float *last = (const float *)(const void *)slot_of(&r, 0, 3, "exp_avg")->data;
    const float *p = gd_data(r.p[3]), *t = gd_data(r.target[3]);
    for (int i = 0; i < 5001; i++) {
        double g = 7 * ((double)p[i] - (double)t[i]),
               want_now = g + ((double)first[i] - g) * pow(0.9, COUNT_OF(way));
        assert_true(fabs((double)last[i] - want_now) < 0.2);
    }
    free(first);
    close_run(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    gd_ctx *ctx = open_context(1, false);
    assert_null(gd_chain(ctx, "adam(state=\"int4\") | lr(0.1)"));
    expect_error(ctx, GD_PARSE, "state");
    assert_null(gd_chain(ctx, "adam(state=\"bf16+feedback\") | lr(0.1)"));
    expect_error(ctx, GD_PARSE, "state");
    assert_null(gd_chain(ctx, "ema_weights(state=\"8bit\")"));
    expect_error(ctx, GD_PARSE, "state");
    assert_null(gd_chain(ctx, "clip_value(1, state=\"8bit\")"));
    gd_clear_error(ctx);
    end_context(ctx, NULL);
}

/* ---- what it costs ---- */

typedef struct fit {
    gd_tensor *x, *y, *w;
    int64_t first; /* row of the batch of 32; -1: all */
} fit;

static gd_tensor *fit_loss(void *user)
{
    fit *f = user;
    gd_tensor *x = f->first < 0 ? f->x : gd_slice(f->x, "0", f->first, f->first + 32, 1);
    gd_tensor *y = f->first < 0 ? f->y : gd_slice(f->y, "0", f->first, f->first + 32, 1);
    return gd_sum(gd_square(gd_sub(gd_tanh(gd_matmul(x, f->w)), y)), NULL, false);
}

/* A layer of 64 to 80 units fits noisy targets of such a layer, batch by batch or all at a time: the loss after 200 steps. */
static double loss_after(const char *chain, bool batches)
{
    gd_ctx *ctx = open_context(1, false);
    gd_scope_begin(ctx);
    uint64_t seed = 77;
    fit f = {.x = gd_zeros(ctx, GD_F32, 2, (int64_t[]){256, 64}),
             .w = gd_require_grad(gd_zeros(ctx, GD_F32, 2, (int64_t[]){64, 80}))};
    gd_tensor *truth = gd_zeros(ctx, GD_F32, 2, (int64_t[]){64, 80}),
              *noise = gd_zeros(ctx, GD_F32, 2, (int64_t[]){256, 80});
    fill_random(f.x, &seed);
    fill_random(truth, &seed);
    fill_random(noise, &seed);
    f.y = gd_add(gd_tanh(gd_matmul(f.x, truth)), gd_mul_scalar(noise, 0.2));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add(o, "w", f.w));
    gd_objective objective = {.loss = fit_loss, .user = &f};
    for (int i = 0; i < 200; i++) {
        f.first = batches ? 32 * random_below(&seed, 8) : -1;
        OK(gd_optimizer_step(o, &objective, NULL));
    }
    f.first = -1;
    gd_scope_begin(ctx);
    double loss = gd_item(fit_loss(&f));
    gd_scope_end(ctx);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
    return loss;
}

static void losses_are_nearly_those_of_f32(void **state)
{
    (void)state;
    static const struct {
        const char *link, *lr;
    } rows[] = {{"adam", "lr(0.01)"},       {"heavy_ball", "lr(0.001)"}, {"rmsprop", "lr(0.005)"},
                {"adagrad", "lr(0.05)"},    {"lion", "lr(0.001)"},       {"nag", "lr(0.001)"},
                {"adabelief", "lr(0.005)"}, {"adamax", "lr(0.01)"},      {"nadam", "lr(0.01)"}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        char chain[200];
        snprintf(chain, sizeof chain, "%s | %s", rows[i].link, rows[i].lr);
        double wide = loss_after(chain, true);
        for (int k = 0; k < COUNT_OF(forms); k++) {
            snprintf(chain, sizeof chain, "%s(state=\"%s\") | %s", rows[i].link, forms[k], rows[i].lr);
            double narrow = loss_after(chain, true);
            if (!(fabs(narrow - wide) <= 0.03 * wide)) fail_msg("%s: %g, with f32 %g", chain, narrow, wide);
        }
    }
}

/* Without noise, what codes leave out is lost step after step; given back, it is not. */
static void feedback_follows_f32_where_codes_fall_behind(void **state)
{
    (void)state;
    double wide = loss_after("lion | lr(0.001)", false),
           codes = loss_after("lion(state=\"8bit\") | lr(0.001)", false),
           fed = loss_after("lion(state=\"8bit+feedback\") | lr(0.001)", false);
    assert_true(codes > 1.1 * wide);
    if (!(fabs(fed - wide) <= 0.002 * wide)) fail_msg("with feedback %g, with f32 %g", fed, wide);
    wide = loss_after("adam | lr(0.01)", false);
    fed = loss_after("adam(state=\"8bit+feedback\") | lr(0.01)", false);
    if (!(fabs(fed - wide) <= 0.002 * wide)) fail_msg("with feedback %g, with f32 %g", fed, wide);
}

/* An average of halves rounded to nearest stops moving where a step is below half of its last digit; by chance it goes on. */
static void small_steps_are_not_lost(void **state)
{
    (void)state;
    gd_ctx *ctx = open_context(1, false);
    gd_scope_begin(ctx);
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F32, 1, (int64_t[]){4000}));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "ema(0.999, state=\"bf16\") | lr(0)"));
    OK(gd_optimizer_add(o, "p", p));
    for (int i = 0; i < 1500; i++) {
        gd_tensor *ones = gd_ones_like(p);
        OK(gd_set_grad(p, ones));
        OK(gd_optimizer_step(o, NULL, NULL));
        gd_release(ones);
    }
    gd_tensor *v = gd_link_state(gd_link_child_at(gd_optimizer_chain(o), 0), p, "velocity");
    double mean = gd_item(gd_mean(gd_cast(v, GD_F64), NULL, false)), want = 1 - pow(0.999, 1500);
    /* to nearest it stays at 0.25, where 0.001 of what is left is a quarter of a digit */
    assert_true(fabs(mean - want) < 0.002);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* A gradient that is not finite spoils its own parameter and none of its block. */
static void one_nan_leaves_the_rest_of_its_block_alone(void **state)
{
    (void)state;
    gd_ctx *ctx = open_context(1, false);
    gd_scope_begin(ctx);
    float *after[2], *g = malloc(4096 * sizeof *g);
    for (int bad = 0; bad < 2; bad++) {
        uint64_t seed = 12;
        gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F32, 1, (int64_t[]){4096}));
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "adam(state=\"8bit\") | lr(0.1)"));
        OK(gd_optimizer_add(o, "p", p));
        for (int step = 0; step < 5; step++) {
            for (int i = 0; i < 4096; i++) g[i] = (float)random_unit(&seed) - 0.5f;
            g[300] = bad && step == 2 ? NAN : 0.0f;
            g[301] = bad && step == 2 ? INFINITY : 0.0f;
            OK(gd_set_grad(p, gd_from_data(ctx, GD_F32, 1, (int64_t[]){4096}, g)));
            OK(gd_optimizer_step(o, NULL, NULL));
        }
        after[bad] = malloc(4096 * sizeof **after);
        memcpy(after[bad], gd_data(p), 4096 * sizeof **after);
        gd_optimizer_free(o);
    }
    for (int i = 0; i < 4096; i++) {
        if (i == 300 || i == 301) continue;
        assert_true(after[0][i] == after[1][i]);
    }
    assert_true(isnan(after[1][300]));
    free(after[0]);
    free(after[1]);
    free(g);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- memory ---- */

static bool steps_with_codes(gd_ctx *ctx)
{
    gd_scope_begin(ctx);
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F32, 1, (int64_t[]){4100}));
    gd_link *chain = gd_chain(ctx, "adam(state=\"8bit\") | lr(0.1)");
    gd_optimizer *o = chain ? gd_optimizer_new(ctx, chain) : NULL;
    bool done = p && o && gd_optimizer_add(o, "p", p) == GD_OK;
    for (int i = 0; i < 3 && done; i++) {
        static const char *const way[] = {"8bit", "bf16", "8bit+feedback"};
        done = gd_link_set_string(gd_link_child_at(gd_optimizer_chain(o), 0), "state", way[i]) == GD_OK;
        gd_tensor *g = done ? gd_ones_like(p) : NULL;
        done = g && gd_set_grad(p, g) == GD_OK && gd_optimizer_step(o, NULL, NULL) == GD_OK;
    }
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return done;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, steps_with_codes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(exactly_rules_with_state_have_the_setting),
        TEST(every_link_has_the_same_bits_however_it_runs),
        TEST(a_child_keeps_narrow_state_in_every_wrapper),
        TEST(halves_have_the_same_bits_compiled),
        TEST(codes_are_read_by_every_pass),
        TEST(large_parameters_have_codes_and_small_ones_f32),
        TEST(codes_hold_what_the_rule_computed),
        TEST(explain_counts_the_bytes),
        TEST(groups_and_the_optimizer_choose_too),
        TEST(another_form_may_be_chosen_on_the_way),
        TEST(mistakes_are_named),
        TEST(losses_are_nearly_those_of_f32),
        TEST(feedback_follows_f32_where_codes_fall_behind),
        TEST(small_steps_are_not_lost),
        TEST(one_nan_leaves_the_rest_of_its_block_alone),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
