/* What links promise about memory: dense quasi-Newton matrices are changed in place, histories are rings, methods by products never have
 * a matrix over all parameters.  Allocations are counted. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

#include "gradus/link/quasi_newton.h"
#include "tensor/device.h"

#include <math.h>

#define MANY 48 /* elements: a matrix has 18 kB, a vector 384 bytes */

/* ---- a chained quadratic ---- */

typedef struct valley {
    gd_optimizer *o;
    gd_tensor *p;
    int n, products;
} valley;

static double weight(int i) { return 1 + i % 5; }

static gd_status slope(void *user, double *loss, gd_tensor *const *grads)
{
    valley *v = user;
    double *x = gd_data_mut(v->p), *g = gd_data_mut(grads[0]);
    *loss = 0;
    for (int i = 0; i < v->n; i++) {
        double d = x[i] - 1, e = i ? x[i] - x[i - 1] : 0;
        g[i] = weight(i) * d + e;
        if (i) g[i - 1] -= e;
        *loss += 0.5 * (weight(i) * d * d + e * e);
    }
    return GD_OK;
}

static gd_status product(void *user, gd_tensor *const *vectors, gd_tensor *const *out)
{
    valley *v = user;
    const double *x = gd_data(vectors[0]);
    double *h = gd_data_mut(out[0]);
    v->products++;
    for (int i = 0; i < v->n; i++) {
        double e = i ? x[i] - x[i - 1] : 0;
        h[i] = weight(i) * x[i] + e;
        if (i) h[i - 1] -= e;
    }
    return GD_OK;
}

static valley open_valley(gd_ctx *ctx, const char *chain, int n)
{
    valley v = {.n = n};
    if (!gd_link_class_register(ctx, &probe_a_class)) v.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!v.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    v.p = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){n}));
    OK(gd_optimizer_add(v.o, "p", v.p));
    return v;
}

static void steps_of(valley *v, int count)
{
    gd_objective objective = {.gradient = slope, .hvp = product, .user = v};
    for (int i = 0; i < count; i++)
        if (gd_optimizer_step(v->o, &objective, NULL)) fail_msg("%s", gd_error_text(gd_optimizer_ctx(v->o)));
}

static void close_valley(valley *v)
{
    gd_optimizer_free(v->o);
    gd_release(v->p);
}

/* ---- dense quasi-Newton ---- */

/* A pair is taken into the matrix; the update stays the gradient. */
static gd_status learn_only(gd_link *link, gd_var *var)
{
    return gd_link_update(gd_link_child(link, "child"), var);
}

static bool has_matrix(const gd_link_class *cls)
{
    return cls->state_bytes == gd_dense_bytes && !strcmp(cls->family, "quasi_newton");
}

static void dense_matrices_are_changed_in_place(void **state)
{
    (void)state;
    int count = 0, seen = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        if (!has_matrix(all[i])) continue;
        char chain[120];
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        snprintf(chain, sizeof chain, "probe_a(child=%s) | lr(0.05)", all[i]->name);
        probe = (probes){.a = learn_only};
        valley v = open_valley(ctx, chain, MANY);
        steps_of(&v, 4);
        m.largest = 0;
        steps_of(&v, 3);
        if (m.largest >= MANY * MANY * sizeof(double))
            fail_msg("%s: a pair takes a block of %zu bytes, the matrix has %zu", all[i]->name, m.largest,
                     MANY * MANY * sizeof(double));
        close_valley(&v);
        end_context(ctx, &m);
        seen++;
    }
    assert_true(seen >= 15);
}

/* The largest block that was asked for on the device. */
static struct {
    gd_backend backend;
    const gd_backend *real;
    size_t largest;
} watched;

static void *watched_alloc(gd_device *device, size_t bytes)
{
    if (bytes > watched.largest) watched.largest = bytes;
    return watched.real->alloc(device, bytes);
}

static gd_tensor *weighed(void *user)
{
    gd_tensor *const *of = user;
    return gd_sum(gd_mul(of[1], gd_square(gd_add_scalar(of[0], -1))), NULL, false);
}

static void a_pair_takes_no_matrix_on(gd_device *device, gd_ctx *ctx, const char *name)
{
    char chain[120];
    double w[MANY];
    for (int i = 0; i < MANY; i++) w[i] = weight(i);
    snprintf(chain, sizeof chain, "probe_a(child=%s) | lr(0.05)", name);
    gd_scope_begin(ctx);
    gd_tensor *of[2] = {gd_to_device(gd_zeros(ctx, GD_F64, 1, (int64_t[]){MANY}), device),
                        gd_to_device(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){MANY}, w), device)};
    of[0] = gd_require_grad(gd_detach(of[0]));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add(o, "p", of[0]));
    gd_objective objective = {.loss = weighed, .user = of};
    for (int i = 0; i < 7; i++) {
        if (i == 4) watched.largest = 0;
        OK(gd_optimizer_step(o, &objective, NULL));
    }
    if (watched.largest >= MANY * MANY * sizeof(double))
        fail_msg("%s: a pair takes a block of %zu bytes on the device", name, watched.largest);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
}

static void dense_matrices_are_changed_in_place_on_a_device(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    if (!gd_gpu_count(ctx)) {
        end_context(ctx, NULL);
        skip();
    }
    gd_device *device = gd_device_get(ctx, "gpu");
    OK(gd_link_class_register(ctx, &probe_a_class));
    watched.real = device->backend;
    watched.backend = *device->backend;
    watched.backend.alloc = watched_alloc;
    device->backend = &watched.backend;
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    probe = (probes){.a = learn_only};
    for (int i = 0; i < count; i++)
        if (has_matrix(all[i])) a_pair_takes_no_matrix_on(device, ctx, all[i]->name);
    device->backend = watched.real;
    end_context(ctx, NULL);
}

/* ---- limited memory ---- */

/* After the history is full, a step writes one row of each ring, the next one, where it lies. */
static void histories_are_rings(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs(4) | lr(0.1)", "lsr1(4) | lr(0.1)"};
    enum { ROWS = 5 };
    for (int c = 0; c < COUNT_OF(chains); c++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        valley v = open_valley(ctx, chains[c], MANY);
        gd_link *link = gd_link_child_at(gd_optimizer_chain(v.o), 0);
        steps_of(&v, 8);
        for (int t = 0; t < 2 * ROWS; t++) {
            static double before[2][ROWS * MANY];
            gd_tensor *ring[2] = {gd_link_global_tensor(link, "s_history"),
                                  gd_link_global_tensor(link, "y_history")};
            const void *where[2] = {gd_data(ring[0]), gd_data(ring[1])};
            double newest = *gd_link_global(link, "newest", 0);
            for (int k = 0; k < 2; k++) OK(gd_read_f64(ring[k], before[k], ROWS * MANY));
            steps_of(&v, 1);
            double next = *gd_link_global(link, "newest", 0);
            assert_int_equal((int)next, ((int)newest + 1) % ROWS);
            for (int k = 0; k < 2; k++) {
                const double *now = gd_data(ring[k]);
                assert_ptr_equal(now, where[k]);
                for (int row = 0; row < ROWS; row++) {
                    bool same = !memcmp(now + row * MANY, before[k] + row * MANY, MANY * sizeof *now);
                    assert_int_equal(same, row != (int)next);
                }
            }
        }
        close_valley(&v);
        end_context(ctx, NULL);
    }
}

/* ---- products only ---- */

/* Steps of these never hold a matrix over all parameters, nor as many products as it has columns. */
static void methods_by_products_never_have_a_matrix(void **state)
{
    (void)state;
    static const char *const chains[] = {"newton_cg | strong_wolfe",
                                         "newton_cg_steihaug",
                                         "nystrom_pcg(6) | strong_wolfe",
                                         "nystrom_sketch_and_solve(6, reg=1) | lr(0.1)",
                                         "rsn(6) | strong_wolfe",
                                         "subspace_newton(6) | strong_wolfe",
                                         "trust_cg(lbfgs)",
                                         "trust_cg(lsr1)",
                                         "box(-1, 0.5) | trust_cg(lsr1)",
                                         "box(-1, 0.5) | newton_cg_steihaug",
                                         "adahessian | lr(0.1)",
                                         "sophia_h | lr(0.1)"};
    enum { WIDE = 400 }; /* a matrix has 1.28 MB, a history of ten pairs 70 kB */
    for (int c = 0; c < COUNT_OF(chains); c++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        valley v = open_valley(ctx, chains[c], WIDE);
        m.largest = 0;
        for (int t = 0; t < 4; t++) {
            v.products = 0;
            steps_of(&v, 1);
            if (v.products >= WIDE / 2) fail_msg("%s: %d products in a step", chains[c], v.products);
        }
        if (m.largest >= WIDE * WIDE * sizeof(double) / 4)
            fail_msg("%s: a block of %zu bytes, a matrix has %zu", chains[c], m.largest,
                     WIDE * WIDE * sizeof(double));
        close_valley(&v);
        end_context(ctx, &m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(dense_matrices_are_changed_in_place),
        TEST(dense_matrices_are_changed_in_place_on_a_device),
        TEST(histories_are_rings),
        TEST(methods_by_products_never_have_a_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
