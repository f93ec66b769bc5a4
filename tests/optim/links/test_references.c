/* Every link agrees with somebody else's numbers: a recorded trace (tests/golden), or a straight loop in double written from
 * its paper (reference_*.h, compared here over 50 steps), or what another suite says.  A link with none of them fails. */
#include "optim/optim_support.h"
#include "optim/reference_adaptive.h"
#include "optim/reference_bounds.h"
#include "optim/reference_higher_order.h"
#include "optim/reference_history.h"
#include "optim/reference_matrix.h"
#include "optim/reference_misc.h"
#include "optim/reference_newton.h"
#include "optim/reference_ops.h"
#include "optim/reference_psgd.h"
#include "optim/reference_quasi_newton.h"
#include "optim/reference_second_order.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS 50

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p[TENSORS], *weight[TENSORS], *centre[TENSORS];
} run;

static gd_tensor *part(gd_ctx *ctx, const double *x, int k)
{
    static const int64_t shape[TENSORS][2] = {{3}, {2, 2}};
    return gd_from_f64(ctx, GD_F64, k + 1, shape[k], x + begin[k]);
}

static gd_tensor *loss_of(void *user)
{
    run *r = user;
    gd_tensor *loss = NULL, *sum = NULL;
    for (int k = 0; k < TENSORS; k++) {
        gd_tensor *d = gd_sub(r->p[k], r->centre[k]);
        gd_tensor *bowl = gd_mul_scalar(gd_sum(gd_mul(r->weight[k], gd_square(d)), NULL, false), 0.5);
        gd_tensor *waves = gd_mul_scalar(gd_sum(gd_cos(gd_mul_scalar(r->p[k], 3)), NULL, false), -0.1);
        gd_tensor *own = gd_add(bowl, waves), *total = gd_sum(r->p[k], NULL, false);
        loss = k ? gd_add(loss, own) : own;
        sum = k ? gd_add(sum, total) : total;
    }
    return gd_add(loss, gd_mul_scalar(gd_square(sum), 0.05));
}

static run open_run(gd_ctx *ctx, const char *chain)
{
    run r = {.ctx = ctx};
    gd_link *link = gd_chain(ctx, chain);
    if (!link) fail_msg("%s: %s", chain, gd_error_text(ctx));
    r.o = gd_optimizer_new(ctx, link);
    for (int k = 0; k < TENSORS; k++) {
        r.p[k] = gd_require_grad(part(ctx, bowl_start, k));
        r.weight[k] = part(ctx, bowl_weight, k);
        r.centre[k] = part(ctx, bowl_centre, k);
        OK(gd_optimizer_add(r.o, k ? "b" : "a", r.p[k]));
    }
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    for (int k = 0; k < TENSORS; k++) {
        gd_release(r->p[k]);
        gd_release(r->weight[k]);
        gd_release(r->centre[k]);
    }
}

static void compare(run *r, const char *chain, int step, const double *want, double *got)
{
    for (int k = 0; k < TENSORS; k++) OK(gd_read_f64(r->p[k], got + begin[k], begin[k + 1] - begin[k]));
    EACH(i)
    if (!(fabs(got[i] - want[i]) <= 1e-12 * (1 + fabs(want[i]))))
        fail_msg("%s, step %d, element %d: %.17g, the reference has %.17g", chain, step, i, got[i], want[i]);
}

/* given: every step of the reference begins where the link is; for methods that turn rounding into another path. */
static void follow(gd_ctx *ctx, const reference *ref, bool given)
{
    char chain[300];
    snprintf(chain, sizeof chain, "%s | lr(%g)", ref->text, ref->lr);
    run r = open_run(ctx, chain);
    gd_objective objective = {.loss = loss_of, .user = &r};
    double p[N], g[N], u[N], got[N];
    memcpy(p, bowl_start, sizeof p);
    moment_of x = {.p = p, .g = g, .u = u};
    for (x.t = 1; x.t <= STEPS; x.t++) {
        x.loss = loss_at(p, g);
        memcpy(u, g, sizeof u);
        ref->fn(&x);
        EACH(i) p[i] -= ref->lr * u[i];
        OK(gd_optimizer_step(r.o, &objective, NULL));
        compare(&r, chain, x.t, p, got);
        if (given) memcpy(p, got, sizeof p);
    }
    close_run(&r);
}

static const struct {
    const reference *first;
    int count;
    bool given;
} tables[] = {
    {adaptive_references, COUNT_OF(adaptive_references), false},
    {bounds_references, COUNT_OF(bounds_references), false},
    {higher_order_references, COUNT_OF(higher_order_references), true},
    {history_references, COUNT_OF(history_references), false},
    {matrix_references, COUNT_OF(matrix_references), false},
    {misc_references, COUNT_OF(misc_references), false},
    {ops_references, COUNT_OF(ops_references), false},
    {newton_references, COUNT_OF(newton_references), false},
    {psgd_references, COUNT_OF(psgd_references), false},
    {quasi_newton_references, COUNT_OF(quasi_newton_references), true},
    {second_order_references, COUNT_OF(second_order_references), true},
};

static void links_follow_their_references(void **state)
{
    for (int i = 0; i < COUNT_OF(tables); i++)
        for (int k = 0; k < tables[i].count; k++) follow(CTX(state), &tables[i].first[k], tables[i].given);
}

/* ---- every link of the table ---- */

/* Links that neither table nor traces have: what they do is random, or no number. */
static const struct {
    const char *link, *suite;
} elsewhere[] = {
    {"cd", "optim/changed_objectives"},
    {"escape_annealing", "optim/changed_objectives"},
    {"forward_gradient", "optim/changed_objectives"},
    {"gradient_sampling", "optim/changed_objectives"},
    {"perturb_weights", "optim/changed_objectives"},
    {"random_reinitialize", "optim/changed_objectives"},
    {"spsa1", "optim/changed_objectives"},
    {"weight_dropout", "optim/changed_objectives"},
    {"adahessian", "optim/random_curvature"},
    {"esgd", "optim/random_curvature"},
    {"random_hvp", "optim/random_curvature"},
    {"sophia_h", "optim/random_curvature"},
    {"adafactor", "optim/rule_axes"},
    {"agc", "optim/rule_axes"},
    {"augmented_lagrangian", "problems/constrained, optim/constraints"},
    {"nlp", "problems/constrained, optim/constraints"},
    {"nelder_mead", "problems/mgh: SciPy's data profile"},
    {"basin_hopping", "optim/global_search, problems/global"},
    {"box", "problems/bounds, optim/bounds"},
    {"chain", "optim/chain_classes"},
    {"cma_es", "optim/global_search, problems/global"},
    {"differential_evolution", "optim/global_search, problems/global"},
    {"dropout", "optim/ops"},
    {"gaussian_smoothing", "optim/gradient_estimates"},
    {"loss_scale", "optim/nonfinite"},
    {"mezo", "optim/gradient_estimates"},
    {"multi_start", "optim/global_search, problems/global"},
    {"natural_gradient", "optim/sketches"},
    {"noise_sign", "optim/ops"},
    {"nystrom_pcg", "optim/second_order"},
    {"randomized_fdm", "optim/gradient_estimates"},
    {"print_loss", "optim/ops"},
    {"print_update", "optim/ops"},
    {"psgd_dense_newton", "optim/psgd"},
    {"psgd_kron_newton", "optim/psgd"},
    {"psgd_lra_newton", "optim/psgd"},
    {"randn", "optim/ops"},
    {"random_step_size", "optim/rule_random"},
    {"random_sample", "optim/ops"},
    {"rdsa", "optim/gradient_estimates"},
    {"sg2", "optim/sketches"},
    {"skip_nonfinite", "optim/nonfinite"},
    {"spsa", "optim/gradient_estimates"},
    {"terminate_after_n_evaluations", "optim/termination"},
    {"terminate_after_n_seconds", "optim/termination"},
    {"terminate_all", "optim/termination"},
    {"terminate_any", "optim/termination"},
    {"terminate_by_gradient_norm", "optim/termination"},
    {"terminate_by_update_norm", "optim/termination"},
    {"terminate_never", "optim/termination"},
    {"terminate_on_loss_reached", "optim/termination"},
    {"terminate_on_no_improvement", "optim/termination"},
    {"uniform", "optim/ops"},
    {"zero_nonfinite", "optim/nonfinite"},
};

/* Is the name a word of the text? */
static bool has_word(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !isalnum((unsigned char)at[length]) && at[length] != '_') return true;
    }
    return false;
}

static bool has_reference(const char *name)
{
    for (int i = 0; i < COUNT_OF(tables); i++)
        for (int k = 0; k < tables[i].count; k++)
            if (has_word(tables[i].first[k].text, name)) return true;
    for (int i = 0; i < COUNT_OF(elsewhere); i++)
        if (!strcmp(elsewhere[i].link, name)) return true;
    return false;
}

/* All chains of the recorded runs in a file. */
static char *recorded_chains(const char *file)
{
    char path[1024], *line = NULL, *all = calloc(1, 1 << 20);
    size_t room = 0, used = 0;
    snprintf(path, sizeof path, "%s/golden/%s", GD_TEST_DIR, file);
    FILE *f = fopen(path, "r");
    assert_true(f && all);
    while (getline(&line, &room, f) > 0) {
        char *chain = strstr(line, "\"chain\": \""), *end = chain ? strstr(chain + 10, "\", \"") : NULL;
        assert_true(chain && end && used + (size_t)(end - chain) < 1 << 20);
        used += (size_t)snprintf(all + used, (1 << 20) - used, "%.*s ", (int)(end - chain), chain);
    }
    free(line);
    fclose(f);
    return all;
}

static void every_link_has_a_recording_or_a_reference(void **state)
{
    (void)state;
    int count = 0, without = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    char *recorded = recorded_chains("traces.jsonl"), *torch = recorded_chains("torch.jsonl");
    for (int i = 0; i < count; i++) {
        const char *name = all[i]->name;
        if (has_word(recorded, name) || has_word(torch, name) || has_reference(name)) continue;
        print_error("%s has neither a recorded run nor a reference\n", all[i]->name);
        without++;
    }
    free(recorded);
    free(torch);
    assert_int_equal(without, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(links_follow_their_references),
        TEST(every_link_has_a_recording_or_a_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
