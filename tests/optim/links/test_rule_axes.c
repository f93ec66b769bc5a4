/* Rules that reduce along axes: every set of axes of shapes from 0 to 5 dimensions against straight loops, the same bits
 * however they run, and the links made of them against their formulas written out in doubles. */
#include "optim/same_bits.h"

/* ---- one class that does everything: sums and maxima along a list of axes, state without them, old and new ---- */

static gd_value probe_rule(gd_rule *r, gd_value u)
{
    unsigned axes = gd_rule_axes(r, "dim", "inverse_dims");
    gd_rule_slot_without(r, "kept", axes);
    gd_value mean = gd_rule_div(r, gd_rule_sum_along(r, u, axes), gd_rule_count_along(r, axes));
    gd_value before = gd_rule_state(r, "kept"), kept = gd_rule_add(r, before, mean);
    gd_rule_set(r, "kept", kept);
    gd_value largest = gd_rule_max_along(r, gd_rule_abs(r, gd_rule_sub(r, u, kept)), axes);
    return gd_rule_add(r, gd_rule_mul(r, u, largest), gd_rule_sub(r, kept, gd_rule_mul(r, before, u)));
}

static const gd_field probe_axes_fields[] = {{.name = "dim",
                                              .kinds = GD_SET_LIST | GD_SET_REAL,
                                              .fallback = {.kind = GD_SET_REAL, .real = 0},
                                              .low = -8,
                                              .high = 7,
                                              .integer = true,
                                              .structural = true},
                                             GD_FLAG("inverse_dims", false, "the others")};
static const gd_slot probe_axes_slots[] = {{"kept", GD_SLOT_PARTIAL}};
static const gd_link_class probe_axes_class = {
    .name = "along", GD_FIELDS(probe_axes_fields), GD_SLOTS(probe_axes_slots), .rule = probe_rule};

/* ---- shapes ---- */

static const int64_t shapes[][5] = {{1, 1, 1, 1, 1},    {7, 1, 1, 1, 1},    {5, 9, 1, 1, 1},
                                    {1, 6, 1, 4, 1},    {3, 4, 5, 1, 1},    {2, 3, 4, 5, 6},
                                    {300, 70, 1, 1, 1}, {2, 9000, 1, 1, 1}, {9000, 3, 1, 1, 1},
                                    {6, 5000, 2, 1, 1}, {0, 4, 1, 1, 1},    {40, 3, 300, 1, 1}};

static int64_t numel_of(const int64_t *shape, int ndim)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    return n;
}

/* The place of element i among the results along `axes`. */
static int64_t result_of(const int64_t *shape, int ndim, unsigned axes, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        if (!(axes >> d & 1)) {
            at += i % shape[d] * step;
            step *= shape[d];
        }
        i /= shape[d];
    }
    return at;
}

/* ---- the class against loops ---- */

static void check_along(gd_ctx *ctx, const int64_t *shape, int ndim, unsigned axes, gd_dtype dtype, int dims)
{
    char chain[100] = "along(dim=[";
    for (int d = 0, any = 0; d < dims; d++)
        if (axes >> d & 1)
            snprintf(chain + strlen(chain), 20, "%s%d", any++ ? ", " : "", d % 2 && d < ndim ? d - ndim : d);
    strcat(chain, "])");
    int64_t n = numel_of(shape, ndim), results = 1, count = 1;
    for (int d = 0; d < ndim; d++) *(axes >> d & 1 ? &count : &results) *= shape[d];
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, dtype, ndim, shape)), *g = gd_zeros(ctx, dtype, ndim, shape);
    uint64_t seed = axes;
    fill(g, &seed);
    OK(gd_optimizer_add(o, "p", p));
    double *u = calloc((size_t)n + 1, sizeof *u), *want = calloc((size_t)n + 1, sizeof *want),
           *got = calloc((size_t)n + 1, sizeof *got), *kept = calloc((size_t)results + 1, sizeof *kept),
           *before = calloc((size_t)results + 1, sizeof *before),
           *largest = calloc((size_t)results + 1, sizeof *largest);
    OK(gd_read_f64(g, u, n));
    for (int step = 0; step < 2; step++) {
        OK(gd_set_grad(p, g));
        OK(gd_optimizer_step(o, NULL, NULL));
        for (int64_t k = 0; k < results; k++) before[k] = kept[k];
        for (int64_t i = 0; i < n; i++) kept[result_of(shape, ndim, axes, i)] += u[i] / (double)count;
        for (int64_t k = 0; k < results; k++) largest[k] = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            int64_t k = result_of(shape, ndim, axes, i);
            largest[k] = fmax(largest[k], fabs(u[i] - kept[k]));
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t k = result_of(shape, ndim, axes, i);
            want[i] -= u[i] * largest[k] + kept[k] - before[k] * u[i];
        }
    }
    OK(gd_read_f64(p, got, n));
    double eps = dtype == GD_F64 ? 1e-13 : 1e-5;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= eps * (1 + fabs(want[i]))))
            fail_msg("%s on %lld x %lld x %lld ...: element %lld is %.17g, not %.17g", chain,
                     (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)i, got[i],
                     want[i]);
    gd_tensor *state = gd_link_state(gd_optimizer_chain(o), p, "kept");
    assert_int_equal(gd_numel(state), results);
    free(u), free(want), free(got), free(kept), free(before), free(largest);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
}

static void every_set_of_axes_of_every_shape_is_summed_as_by_loops(void **state)
{
    gd_ctx *ctx = CTX(state);
    OK(gd_link_class_register(ctx, &probe_axes_class));
    for (int k = 0; k < COUNT_OF(shapes); k++)
        for (int ndim = 0; ndim <= 5; ndim++) {
            if (ndim < 5 && shapes[k][ndim] != 1) continue;
            for (unsigned axes = 0; axes < 1u << ndim; axes++)
                check_along(ctx, shapes[k], ndim, axes, k % 2 ? GD_F64 : GD_F32, ndim);
        }
    check_along(ctx, shapes[4], 3, 0x1a, GD_F64, 5); /* axes that are not there are skipped */
}

/* ---- the same bits ---- */

static const int64_t mixed[PARAMS][3] = {{40, 50, 1}, {7, 1, 1}, {6, 1100, 3}, {1000, 9, 1}, {3, 5, 40}};
static const int mixed_ndim[PARAMS] = {2, 1, 3, 2, 3};

static void open_mixed(trial *t, gd_ctx *ctx, const char *chain, gd_dtype dtype)
{
    static const char *const names[PARAMS] = {"a", "b", "c", "d", "e"};
    uint64_t seed = 7;
    *t = (trial){.ctx = ctx, .o = gd_optimizer_new(ctx, gd_chain(ctx, chain))};
    if (!t->o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    for (int i = 0; i < PARAMS; i++) {
        t->p[i] = gd_require_grad(gd_zeros(ctx, dtype, mixed_ndim[i], mixed[i]));
        t->target[i] = gd_zeros(ctx, dtype, mixed_ndim[i], mixed[i]);
        fill(t->p[i], &seed);
        fill(t->target[i], &seed);
        OK(gd_optimizer_add(t->o, names[i], t->p[i]));
    }
}

static void chains_along_axes_give_the_same_bits_in_every_way(void **state)
{
    (void)state;
    static const char *const chains[] = {
        "adafactor | lr(0.1)",
        "agc | adam | lr(0.1)",
        "centralize(dim=0, inverse_dims=true) | clip_norm(1, dim=\"global\") | adam | lr(0.1)",
        "clip_norm(0.1, dim=[0, 2]) | adafactor | centralize(dim=-1) | normalize(dim=1) | lr(0.1)",
        "adam(inner=[centralize(dim=1)]) | normalize(2, ord=3, dim=0) | clip_norm(1) | lr(0.1)",
        "along(dim=[0, 2]) | along(dim=1) | clip_norm(0.5, ord=inf, dim=0)",
    };
    static const char *const ways[] = {"fused", "link by link", "interpreted", "interpreted link by link"};
    for (int i = 0; i < 3; i++) OK(gd_link_class_register(contexts[i], &probe_axes_class));
    for (int c = 0; c < 2 * COUNT_OF(chains); c += test_share()) {
        const char *chain = chains[c / 2];
        gd_dtype dtype = c % 2 ? GD_F64 : GD_F32;
        trial first;
        open_mixed(&first, contexts[0], chain, dtype);
        run_trial(&first, chain);
        for (int way = 0; way < 4; way++)
            for (int i = 0; i < 3; i++) {
                trial other;
                open_mixed(&other, contexts[i], chain, dtype);
                other.o->test.no_fusion = way & 1;
                other.o->test.interpret = way & 2;
                run_trial(&other, chain);
                compare(&first, &other, chain, ways[way], threads[i]);
                close_trial(&other);
            }
        close_trial(&first);
    }
}

/* ---- links against their formulas ---- */

enum { STEPS_LONG = 50, MOST = 200 };

typedef struct follower {
    const int64_t *shape;
    int ndim;
    int64_t n;
    double p[MOST], state[3][MOST];
} follower;

typedef void (*formula)(follower *f, const double *g, double *u, int step);

/* Mean of x along `axes` for each element of x. */
static void means(const follower *f, const double *x, unsigned axes, double *out)
{
    double sum[MOST] = {0}, count[MOST] = {0};
    for (int64_t i = 0; i < f->n; i++) {
        int64_t k = result_of(f->shape, f->ndim, axes, i);
        sum[k] += x[i];
        count[k]++;
    }
    for (int64_t i = 0; i < f->n; i++) {
        int64_t k = result_of(f->shape, f->ndim, axes, i);
        out[i] = sum[k] / count[k];
    }
}

static void centralize_last(follower *f, const double *g, double *u, int step)
{
    (void)step;
    double mean[MOST];
    bool enough = f->ndim && f->shape[f->ndim - 1] >= 4;
    means(f, g, f->ndim ? 1u << (f->ndim - 1) : 0, mean);
    for (int64_t i = 0; i < f->n; i++) u[i] = enough ? g[i] - mean[i] : g[i];
}

static void agc_units(follower *f, const double *g, double *u, int step)
{
    (void)step;
    unsigned rest = f->ndim > 1 ? ((1u << f->ndim) - 1) & ~1u : 0;
    for (int64_t i = 0; i < f->n; i++) {
        double own = 0, norm = 0;
        for (int64_t j = 0; j < f->n; j++) {
            if (result_of(f->shape, f->ndim, rest, i) != result_of(f->shape, f->ndim, rest, j)) continue;
            own += f->p[j] * f->p[j];
            norm += g[j] * g[j];
        }
        u[i] = g[i] * fmin(1, 0.05 * fmax(sqrt(own), 1e-3) / sqrt(norm));
    }
}

/* Every number of the factors is kept for each element here, so that nothing about their shapes is taken for granted. */
static void adafactor_steps(follower *f, const double *g, double *u, int step)
{
    double g2[MOST] = {0}, row[MOST], column[MOST], mean[MOST], b = 1 - pow(step, -0.8), square = 0, size = 0;
    int64_t longest = 0, next = 0;
    int a = -1, c = -1;
    for (int d = 0; d < f->ndim; d++)
        if (f->shape[d] > longest) longest = f->shape[d], a = d;
    for (int d = 0; d < f->ndim; d++)
        if (d != a && f->shape[d] > next) next = f->shape[d], c = d;
    int first = a < c ? a : c, last = a < c ? c : a;
    for (int64_t i = 0; i < f->n; i++) g2[i] = g[i] * g[i] + 1e-30;
    if (c >= 0 && next >= 2) {
        means(f, g2, 1u << last, row);
        means(f, g2, 1u << first, column);
        for (int64_t i = 0; i < f->n; i++) {
            f->state[0][i] = b * f->state[0][i] + (1 - b) * row[i];
            f->state[1][i] = b * f->state[1][i] + (1 - b) * column[i];
        }
        means(f, f->state[0], 1u << first, mean);
        for (int64_t i = 0; i < f->n; i++) u[i] = g[i] / sqrt(f->state[0][i] * f->state[1][i] / mean[i]);
    } else
        for (int64_t i = 0; i < f->n; i++) {
            f->state[2][i] = b * f->state[2][i] + (1 - b) * g2[i];
            u[i] = g[i] / sqrt(f->state[2][i]);
        }
    for (int64_t i = 0; i < f->n; i++) square += u[i] * u[i], size += f->p[i] * f->p[i];
    double rms = sqrt(square / (double)f->n), scale = fmax(1e-3, sqrt(size / (double)f->n));
    for (int64_t i = 0; i < f->n; i++) u[i] = u[i] / fmax(1, rms) * scale;
}

/* Fifty steps on sum w (p - t)^2 / 2 whose gradients the loops make for themselves. */
static void follow(gd_ctx *ctx, const char *chain, formula next, const int64_t *shape, int ndim)
{
    follower f = {.shape = shape, .ndim = ndim, .n = numel_of(shape, ndim)};
    double t[MOST], w[MOST], g[MOST], u[MOST], got[MOST];
    uint64_t seed = 31;
    gd_scope_begin(ctx);
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, ndim, shape)), *grad = gd_zeros_like(p);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    OK(gd_optimizer_add(o, "p", p));
    for (int64_t i = 0; i < f.n; i++) {
        f.p[i] = 2 * random_unit(&seed) - 1;
        t[i] = 2 * random_unit(&seed) - 1;
        w[i] = 0.5 + random_unit(&seed);
    }
    OK(gd_write_f64(p, f.p, f.n));
    for (int step = 1; step <= STEPS_LONG; step++) {
        for (int64_t i = 0; i < f.n; i++) g[i] = w[i] * (f.p[i] - t[i]);
        OK(gd_write_f64(grad, g, f.n));
        OK(gd_set_grad(p, grad));
        OK(gd_optimizer_step(o, NULL, NULL));
        next(&f, g, u, step);
        OK(gd_read_f64(p, got, f.n));
        for (int64_t i = 0; i < f.n; i++) {
            f.p[i] -= 0.1 * u[i];
            if (!(fabs(got[i] - f.p[i]) <= 1e-12 * (1 + fabs(f.p[i]))))
                fail_msg("%s, %d axes, step %d: element %lld is %.17g, not %.17g", chain, ndim, step,
                         (long long)i, got[i], f.p[i]);
        }
    }
    gd_optimizer_free(o);
    gd_scope_end(ctx);
}

static void links_along_axes_follow_their_formulas(void **state)
{
    static const int64_t small[][4] = {{1, 1, 1, 1}, {9, 1, 1, 1}, {6, 5, 1, 1}, {5, 6, 1, 1}, {4, 3, 5, 1},
                                       {2, 7, 3, 4}, {7, 1, 5, 1}, {1, 8, 1, 1}, {3, 4, 5, 1}};
    static const int axes[] = {0, 1, 2, 2, 3, 4, 3, 2, 3};
    for (int k = 0; k < COUNT_OF(small); k++) {
        follow(CTX(state), "centralize(dim=-1, min_size=4) | lr(0.1)", centralize_last, small[k], axes[k]);
        follow(CTX(state), "agc(0.05) | lr(0.1)", agc_units, small[k], axes[k]);
        follow(CTX(state), "adafactor | lr(0.1)", adafactor_steps, small[k], axes[k]);
    }
}

/* ---- state ---- */

static void factors_are_saved_loaded_and_refused_where_they_do_not_fit(void **state)
{
    gd_ctx *ctx = CTX(state);
    char path[] = "/tmp/gradus-test-axes-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && close(file) == 0);
    trial a, b;
    open_mixed(&a, ctx, "adafactor | lr(0.1)", GD_F32);
    run_trial(&a, "adafactor");
    OK(gd_optimizer_save(a.o, path));
    open_mixed(&b, ctx, "adafactor | lr(0.1)", GD_F32);
    OK(gd_optimizer_load(b.o, path, true));
    for (int i = 0; i < PARAMS; i++) OK(gd_assign(b.p[i], a.p[i]));
    run_trial(&a, "adafactor");
    run_trial(&b, "adafactor");
    compare(&a, &b, "adafactor", "saved and loaded", 1);
    gd_link *link = gd_link_child_at(gd_optimizer_chain(b.o), 0);
    gd_scope_begin(ctx);
    OK(gd_link_set_state(link, b.p[0], "row", gd_ones(ctx, GD_F32, 1, (int64_t[]){40})));
    assert_int_equal(gd_link_set_state(link, b.p[0], "row", gd_ones(ctx, GD_F32, 1, (int64_t[]){41})),
                     GD_SHAPE);
    gd_clear_error(ctx);
    OK(gd_link_set_state(link, b.p[0], "row", gd_ones(ctx, GD_F32, 1, (int64_t[]){50})));
    gd_scope_end(ctx);
    gd_objective objective = {.loss = trial_loss, .user = &b};
    assert_int_equal(gd_optimizer_step(b.o, &objective, NULL), GD_MISMATCH);
    gd_clear_error(ctx);
    assert_int_equal(unlink(path), 0);
    close_trial(&a);
    close_trial(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_set_of_axes_of_every_shape_is_summed_as_by_loops),
        CASE(links_along_axes_follow_their_formulas),
        CASE(factors_are_saved_loaded_and_refused_where_they_do_not_fit),
        TEST(chains_along_axes_give_the_same_bits_in_every_way),
    };
    return cmocka_run_group_tests(tests, open_contexts, close_contexts);
}
