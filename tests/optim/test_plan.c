/* Plans: the same bits however a chain is run - fused, link by link, interpreted, on any number of threads. */
#include "optim/optim_support.h"

#include <dirent.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define CHAINS 24
#define LARGE  20003
#else
#define CHAINS 200
#define LARGE  100003
#endif
#define STEPS 3

/* ---- random chains of the links here ---- */

typedef struct writer {
    char text[1200];
    size_t used;
    uint64_t seed;
} writer;

static void put(writer *w, const char *format, ...) GD_PRINTF(2, 3);

static void put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    w->used += (size_t)vsnprintf(w->text + w->used, sizeof w->text - w->used, format, args);
    va_end(args);
}

static bool coin(writer *w) { return random_below(&w->seed, 2); }
static double number(writer *w, double low, double high) { return low + (high - low) * random_unit(&w->seed); }
static const char *flag(writer *w) { return coin(w) ? "true" : "false"; }

static void put_chain(writer *w, int links, int depth);

static void put_child(writer *w, const char *name, int depth)
{
    put(w, "%s[", name);
    put_chain(w, 1 + (int)random_below(&w->seed, 2), depth + 1);
    put(w, "]");
}

static const char *target(writer *w)
{
    static const char *const targets[] = {"update", "update", "update", "grad", "update_difference", "params_difference"};
    return targets[random_below(&w->seed, COUNT_OF(targets))];
}

static void put_link(writer *w, int depth)
{
    static const char *const modes[] = {"zero", "grad", "backtrack"};
    const char *init = coin(w) ? "zeros" : "update", *dim = coin(w) ? ", dim=\"global\"" : "";
    switch (random_below(&w->seed, depth ? 12 : 15)) {
    case 0: put(w, "lr(%.3g)", number(w, 0.1, 2)); break;
    case 1:
        put(w, "adam(%.3g, 0.99, amsgrad=%s, debiased=%s", number(w, 0.5, 0.95), flag(w), flag(w));
        if (depth < 2 && coin(w)) put_child(w, ", inner=", depth);
        put(w, ")");
        break;
    case 2: put(w, "clip_norm(%.3g, ord=%d%s, target=\"%s\")", number(w, 0.1, 3), 1 + coin(w), dim, target(w)); break;
    case 3: put(w, "clip_value(%.3g, target=\"%s\")", number(w, 0.01, 1), target(w)); break;
    case 4:
        put(w, "heavy_ball(%.3g, debiased=%s, lerp=%s, ema_init=\"%s\")", number(w, 0, 0.9), flag(w), flag(w), init);
        break;
    case 5: put(w, "nag(%.3g, %.3g, lerp=%s)", number(w, 0, 0.9), number(w, 0, 0.5), flag(w)); break;
    case 6: put(w, "ema(%.3g, debiased=%s, ema_init=\"%s\")", number(w, 0.1, 0.9), flag(w), init); break;
    case 7: put(w, "weight_decay(%.3g, ord=%d)", number(w, -0.1, 0.1), 1 + coin(w)); break;
    case 8: put(w, "lion(%.3g, %.3g)", number(w, 0.1, 0.9), number(w, 0.1, 0.9)); break;
    case 9:
        put(w, "rmsprop(%.3g, centered=%s, debiased=%s, amsgrad=%s, init=\"%s\"", number(w, 0.5, 0.99), flag(w), flag(w),
            flag(w), init);
        if (depth < 2 && coin(w)) put_child(w, ", inner=", depth);
        put(w, ")");
        break;
    case 10: put(w, "normalize(%.3g%s)", number(w, 0.1, 2), dim); break;
    case 11: put(w, "cautious(normalize=%s, mode=\"%s\")", flag(w), modes[random_below(&w->seed, 3)]); break;
    case 12:
        put_child(w, "div_modules(", depth);
        put_child(w, ", ", depth);
        put(w, ", other_first=%s)", flag(w));
        break;
    case 13: put(w, "gradient_accumulation(2, mean=%s, stop=%s)", flag(w), flag(w)); break;
    default:
        put_child(w, coin(w) ? "multistep(" : "online(", depth);
        put(w, w->text[w->used - 1] == ']' && strstr(w->text, "multistep([") ? ", 2)" : ")");
    }
}

static void put_chain(writer *w, int links, int depth)
{
    for (int i = 0; i < links; i++) {
        if (i) put(w, " | ");
        put_link(w, depth);
    }
}

/* ---- running one ---- */

static const int64_t sizes[] = {0, 1, 7, 1000, LARGE};
#define PARAMS COUNT_OF(sizes)

typedef struct trial {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p[PARAMS], *target[PARAMS];
} trial;

/* sum of w (p - t)^2 / 2 with w growing from tensor to tensor */
static gd_tensor *trial_loss(void *user)
{
    trial *t = user;
    gd_tensor *sum = NULL;
    for (int i = 0; i < PARAMS; i++) {
        gd_tensor *part = gd_mul_scalar(gd_sum(gd_square(gd_sub(t->p[i], t->target[i])), NULL, false), 0.5 + i);
        sum = sum ? gd_add(sum, part) : part;
    }
    return sum;
}

static void fill(gd_tensor *t, uint64_t *seed)
{
    int64_t n = gd_numel(t);
    double *values = malloc((size_t)(n ? n : 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = 2 * random_unit(seed) - 1;
    OK(gd_write_f64(t, values, n));
    free(values);
}

static bool open_trial(trial *t, gd_ctx *ctx, const char *chain, gd_dtype dtype)
{
    *t = (trial){.ctx = ctx};
    gd_link *link = gd_chain(ctx, chain);
    t->o = link ? gd_optimizer_new(ctx, link) : NULL;
    if (!t->o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    uint64_t seed = 99;
    static const char *const names[PARAMS] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < PARAMS; i++) {
        t->p[i] = gd_require_grad(gd_zeros(ctx, dtype, 1, &sizes[i]));
        t->target[i] = gd_zeros(ctx, dtype, 1, &sizes[i]);
        fill(t->p[i], &seed);
        fill(t->target[i], &seed);
        OK(gd_optimizer_add(t->o, names[i], t->p[i]));
    }
    return true;
}

static void close_trial(trial *t)
{
    gd_optimizer_free(t->o);
    for (int i = 0; i < PARAMS; i++) {
        gd_release(t->p[i]);
        gd_release(t->target[i]);
    }
}

static void run_trial(trial *t, const char *chain)
{
    gd_objective objective = {.loss = trial_loss, .user = t};
    for (int i = 0; i < STEPS; i++)
        if (gd_optimizer_step(t->o, &objective, NULL)) fail_msg("%s: %s", chain, gd_error_text(t->ctx));
}

/* Bits of a tensor, all NaNs the same: which of two a sum keeps is left to the compiler. */
static bool same_tensor(const gd_tensor *a, const gd_tensor *b)
{
    if (!a || !b) return a == b;
    if (a->dtype != b->dtype || a->numel != b->numel) return false;
    for (int64_t i = 0; i < a->numel; i++) {
        if (a->dtype == GD_F32) {
            float x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
            if (memcmp(&x, &y, sizeof x) && !(isnan(x) && isnan(y))) return false;
        } else {
            double x = ((const double *)a->data)[i], y = ((const double *)b->data)[i];
            if (memcmp(&x, &y, sizeof x) && !(isnan(x) && isnan(y))) return false;
        }
    }
    return true;
}

static bool same_link(const gd_link *a, const gd_link *b)
{
    bool same = a->step == b->step && a->entries == b->entries;
    for (int i = 0; same && i < a->entries; i++)
        for (int k = 0; same && k < a->cls->slot_count; k++)
            same = same_tensor(a->entry[i]->slot[k], b->entry[i]->slot[k]);
    for (int i = 0; same && i < a->children; i++) same = same_link(a->child[i], b->child[i]);
    return same;
}

static void compare(const trial *a, const trial *b, const char *chain, const char *how, int threads)
{
    for (int i = 0; i < PARAMS; i++)
        if (!same_tensor(a->p[i], b->p[i]))
            fail_msg("%s: %s on %d threads: the parameter of %lld elements differs", chain, how, threads,
                     (long long)sizes[i]);
    gd_link *left = a->o->chain, *right = b->o->chain;
    if (!gd__is_chain(left) && !same_link(left, right)) fail_msg("%s: %s on %d threads: state differs", chain, how, threads);
    for (int i = 0; i < left->children; i++)
        if (!same_link(left->child[i], right->child[i]))
            fail_msg("%s: %s on %d threads: state of %s differs", chain, how, threads, left->child[i]->cls->name);
}

/* ---- contexts that share a cache of compiled programs, deleted at the end ---- */

static char cache[64];
static gd_ctx *contexts[3];
static const int threads[3] = {1, 2, 4};

static int open_contexts(void **state)
{
    (void)state;
    strcpy(cache, "/tmp/gradus-test-plan-XXXXXX");
    if (!mkdtemp(cache)) return -1;
    for (int i = 0; i < 3; i++) {
        gd_options options = gd_options_default();
        options.threads = threads[i];
        options.cache_dir = cache;
        contexts[i] = gd_ctx_new(&options);
        if (!contexts[i]) return -1;
    }
    return 0;
}

static void delete_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char inside[512];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        if (unlink(inside)) delete_folder(inside);
    }
    if (dir) closedir(dir);
    (void)!rmdir(path);
}

static int close_contexts(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) end_context(contexts[i], NULL);
    delete_folder(cache);
    return 0;
}

static void every_way(const char *chain, gd_dtype dtype)
{
    trial first;
    open_trial(&first, contexts[0], chain, dtype);
    run_trial(&first, chain);
    static const char *const ways[] = {"fused", "link by link", "interpreted", "interpreted link by link"};
    for (int way = 0; way < 4; way++)
        for (int i = way ? 0 : 1; i < 3; i++) {
            trial other;
            open_trial(&other, contexts[i], chain, dtype);
            other.o->no_fusion = way & 1;
            other.o->interpret = way & 2;
            run_trial(&other, chain);
            compare(&first, &other, chain, ways[way], threads[i]);
            close_trial(&other);
        }
    close_trial(&first);
}

static void random_chains_give_the_same_bits_in_every_way(gd_dtype dtype)
{
    for (int i = 0; i < CHAINS; i++) {
        writer w = {.seed = 1000 + (uint64_t)i};
        put_chain(&w, 1 + (int)random_below(&w.seed, 5), 0);
        every_way(w.text, dtype);
    }
}

static void f32_chains_give_the_same_bits_in_every_way(void **state)
{
    (void)state;
    random_chains_give_the_same_bits_in_every_way(GD_F32);
}

static void f64_chains_give_the_same_bits_in_every_way(void **state)
{
    (void)state;
    random_chains_give_the_same_bits_in_every_way(GD_F64);
}

/* ---- other things plans must do ---- */

static void a_chain_too_long_for_one_program_runs_in_several(void **state)
{
    (void)state;
    gd_ctx *ctx = contexts[0];
    writer w = {0};
    for (int i = 0; i < 20; i++) put(&w, "%sadam", i ? " | " : "");
    put(&w, " | multistep([");
    for (int i = 0; i < 20; i++) put(&w, "%sema(0.5)", i ? " | " : "");
    put(&w, "], 1)");
    trial a, b;
    open_trial(&a, ctx, w.text, GD_F32);
    open_trial(&b, ctx, w.text, GD_F32);
    b.o->no_fusion = true;
    run_trial(&a, w.text);
    run_trial(&b, w.text);
    compare(&a, &b, "twenty adams", "link by link", 1);
    char text[20000];
    assert_true(gd_explain(a.o, false, text, sizeof text) > 0);
    close_trial(&a);
    close_trial(&b);
    /* more links than may wait */
    w = (writer){0};
    for (int i = 0; i < 150; i++) put(&w, "%slr(1)", i ? "|" : "");
    open_trial(&a, ctx, w.text, GD_F64);
    run_trial(&a, w.text);
    close_trial(&a);
}

static int plans_of(const gd_optimizer *o)
{
    int n = 0;
    for (const gd_plan *p = o->plans; p; p = *(gd_plan *const *)p) n++; /* next comes first */
    return n;
}

static void plans_are_made_once_and_dropped_when_links_change(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, contexts[0], "clip_norm(1) | adam | gradient_accumulation(1) | lr(0.1)", GD_F32);
    run_trial(&t, "");
    const gd_plan *before = t.o->plans;
    int count = plans_of(t.o);
    assert_int_equal(count, 2);
    run_trial(&t, "");
    assert_ptr_equal(t.o->plans, before);
    OK(gd_optimizer_set(t.o, 0, "lr", 0.2)); /* a new key */
    run_trial(&t, "");
    assert_int_equal(plans_of(t.o), 2);
    before = t.o->plans;
    OK(gd_optimizer_set(t.o, 0, "lr", 0.3)); /* a number only */
    run_trial(&t, "");
    assert_ptr_equal(t.o->plans, before);
    gd_optimizer_reset(t.o); /* state is no part of a plan */
    run_trial(&t, "");
    assert_ptr_equal(t.o->plans, before);
    close_trial(&t);
}

static void parameters_of_several_dtypes_share_a_norm(void **state)
{
    (void)state;
    gd_ctx *ctx = contexts[1];
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "normalize(1, dim=\"global\") | lr(1)"));
    gd_tensor *p[3];
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16};
    static const char *const names[] = {"a", "b", "c"};
    gd_scope_begin(ctx);
    for (int i = 0; i < 3; i++) {
        p[i] = gd_require_grad(gd_zeros(ctx, dtypes[i], 1, (int64_t[]){1}));
        OK(gd_set_grad(p[i], gd_full(ctx, dtypes[i], 1, (int64_t[]){1}, i == 2 ? 12 : 3 + i)));
        OK(gd_optimizer_add(o, names[i], p[i]));
    }
    OK(gd_optimizer_step(o, NULL, NULL)); /* the norm of (3, 4, 12) is 13 */
    assert_values_near(p[0], 1e-7, -3.0 / 13);
    assert_values_near(p[1], 1e-15, -4.0 / 13);
    assert_values_near(p[2], 1e-2, -12.0 / 13);
    for (int i = 0; i < 3; i++) gd_zero_grad(p[i]);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
}

/* A rule whose result is the same everywhere, and one that the gradient must reach whatever the update is. */
static gd_value third(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_div(r, gd_rule_const(r, 1), gd_rule_const(r, 3));
}

static gd_value undeclared(gd_rule *r, gd_value u) { return gd_rule_add(r, u, gd_rule_grad(r)); }
static gd_value unknown(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_setting(r, "nothing")); }

static const gd_link_class third_class = {.name = "third", .rule = third};
static const gd_link_class undeclared_class = {.name = "undeclared", .rule = undeclared};
static const gd_link_class unknown_class = {.name = "unknown", .rule = unknown};

static void a_uniform_update_is_rounded_between_links(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) OK(gd_link_class_register(contexts[i], &third_class));
    every_way("third | lr(0.1) | lr(3)", GD_F32);
    every_way("third | adam | normalize | lr(0.1)", GD_F32);
}

static void wrong_rules_are_named(void **state)
{
    (void)state;
    gd_ctx *ctx = contexts[0];
    OK(gd_link_class_register(ctx, &undeclared_class));
    OK(gd_link_class_register(ctx, &unknown_class));
    static const struct {
        const char *chain, *text;
    } cases[] = {{"undeclared", "rule of 'undeclared': reads the gradient, but its class does not say uses_grad"},
                 {"lr(1) | unknown", "rule of 'unknown': there is no setting nothing"}};
    for (int i = 0; i < 2; i++) {
        trial t;
        open_trial(&t, ctx, cases[i].chain, GD_F32);
        gd_objective objective = {.loss = trial_loss, .user = &t};
        assert_int_equal(gd_optimizer_step(t.o, &objective, NULL), GD_INTERNAL);
        assert_error(ctx, GD_INTERNAL, cases[i].text);
        close_trial(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_chain_too_long_for_one_program_runs_in_several),
        TEST(plans_are_made_once_and_dropped_when_links_change),
        TEST(parameters_of_several_dtypes_share_a_norm),
        TEST(a_uniform_update_is_rounded_between_links),
        TEST(wrong_rules_are_named),
        TEST(f32_chains_give_the_same_bits_in_every_way),
        TEST(f64_chains_give_the_same_bits_in_every_way),
    };
    return cmocka_run_group_tests(tests, open_contexts, close_contexts);
}
