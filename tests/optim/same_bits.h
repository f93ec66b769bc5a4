/* The same bits however a chain is run: fused, link by link, interpreted, on any number of threads.  Random chains, and
 * what runs one in every way and compares. */
#ifndef GD_TESTS_OPTIM_SAME_BITS_H
#define GD_TESTS_OPTIM_SAME_BITS_H

#include "optim/optim_support.h"

#include <dirent.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) /* a few chains show what threads share, and take minutes there */
#define CHAINS 12
#define LARGE  20003
#elif defined(__SANITIZE_ADDRESS__)
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
static double number(writer *w, double low, double high)
{
    return low + (high - low) * random_unit(&w->seed);
}
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
    static const char *const targets[] = {"update",           "update", "update", "grad", "update_difference",
                                          "params_difference"};
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
    case 2:
        put(w, "clip_norm(%.3g, ord=%d%s, target=\"%s\")", number(w, 0.1, 3), 1 + coin(w), dim, target(w));
        break;
    case 3: put(w, "clip_value(%.3g, target=\"%s\")", number(w, 0.01, 1), target(w)); break;
    case 4:
        put(w, "heavy_ball(%.3g, debiased=%s, lerp=%s, ema_init=\"%s\")", number(w, 0, 0.9), flag(w), flag(w),
            init);
        break;
    case 5: put(w, "nag(%.3g, %.3g, lerp=%s)", number(w, 0, 0.9), number(w, 0, 0.5), flag(w)); break;
    case 6: put(w, "ema(%.3g, debiased=%s, ema_init=\"%s\")", number(w, 0.1, 0.9), flag(w), init); break;
    case 7: put(w, "weight_decay(%.3g, ord=%d)", number(w, -0.1, 0.1), 1 + coin(w)); break;
    case 8: put(w, "lion(%.3g, %.3g)", number(w, 0.1, 0.9), number(w, 0.1, 0.9)); break;
    case 9:
        put(w, "rmsprop(%.3g, centered=%s, debiased=%s, amsgrad=%s, init=\"%s\"", number(w, 0.5, 0.99),
            flag(w), flag(w), flag(w), init);
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

UNUSED static void put_chain(writer *w, int links, int depth)
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
        gd_tensor *part = gd_mul_scalar(gd_sum(gd_square(gd_sub(t->p[i], t->target[i])), NULL, false),
                                        0.5 + i);
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

UNUSED static bool open_trial(trial *t, gd_ctx *ctx, const char *chain, gd_dtype dtype)
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

UNUSED static void close_trial(trial *t)
{
    gd_optimizer_free(t->o);
    for (int i = 0; i < PARAMS; i++) {
        gd_release(t->p[i]);
        gd_release(t->target[i]);
    }
}

UNUSED static void run_trial(trial *t, const char *chain)
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

UNUSED static void compare(const trial *a, const trial *b, const char *chain, const char *how, int threads)
{
    for (int i = 0; i < PARAMS; i++)
        if (!same_tensor(a->p[i], b->p[i]))
            fail_msg("%s: %s on %d threads: the parameter of %lld elements differs", chain, how, threads,
                     (long long)sizes[i]);
    gd_link *left = a->o->chain, *right = b->o->chain;
    if (!gd__is_chain(left) && !same_link(left, right))
        fail_msg("%s: %s on %d threads: state differs", chain, how, threads);
    for (int i = 0; i < left->children; i++)
        if (!same_link(left->child[i], right->child[i]))
            fail_msg("%s: %s on %d threads: state of %s differs", chain, how, threads,
                     left->child[i]->cls->name);
}

/* ---- contexts that share a cache of compiled programs, deleted at the end ---- */

static char cache[64];
static gd_ctx *contexts[3];
static const int threads[3] = {1, 2, 4};

UNUSED static int open_contexts(void **state)
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

UNUSED static int close_contexts(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) end_context(contexts[i], NULL);
    delete_folder(cache);
    return 0;
}

UNUSED static void every_way(const char *chain, gd_dtype dtype)
{
    trial first;
    open_trial(&first, contexts[0], chain, dtype);
    run_trial(&first, chain);
    static const char *const ways[] = {"fused", "link by link", "interpreted", "interpreted link by link"};
    for (int way = 0; way < 4; way++)
        for (int i = way ? 0 : 1; i < (way == 3 ? 1 : 3); i++) {
            trial other;
            open_trial(&other, contexts[i], chain, dtype);
            other.o->test.no_fusion = way & 1;
            other.o->test.interpret = way & 2;
            run_trial(&other, chain);
            compare(&first, &other, chain, ways[way], threads[i]);
            close_trial(&other);
        }
    close_trial(&first);
}

UNUSED static void random_chains_give_the_same_bits_in_every_way(gd_dtype dtype)
{
    for (int i = 0; i < CHAINS; i += test_share()) {
        writer w = {.seed = 1000 + (uint64_t)i};
        put_chain(&w, 1 + (int)random_below(&w.seed, 5), 0);
        every_way(w.text, dtype);
    }
}

#endif
