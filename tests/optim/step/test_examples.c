/* What `gradus links NAME` shows beside the formula: an example that runs, and a cost that is the one of explain. */
#include "gradus/chain.h"
#include "optim/optim_support.h"
#include "optim/table_support.h"

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q;
} run;

/* Residuals, so that links of every family have what they need. */
static gd_tensor *residuals(void *user)
{
    const run *r = user;
    gd_tensor *a = gd_slice(r->p, "0", 0, 1, 1), *b = gd_slice(r->p, "0", 1, 2, 1);
    gd_tensor *list[] = {gd_mul_scalar(gd_sub(b, gd_square(a)), 3), gd_add_scalar(a, -1),
                         gd_sub(gd_square(r->q), gd_mul_scalar(a, 0.25))};
    return gd_cat(list, 3, "0");
}

static run open_run(gd_ctx *ctx, const char *chain)
{
    run r = {.ctx = ctx};
    r.p = gd_require_grad(VECTOR(ctx, -1.2, 1));
    r.q = gd_require_grad(VECTOR(ctx, 0.75));
    r.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!r.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    OK(gd_optimizer_add(r.o, "p", r.p));
    OK(gd_optimizer_add(r.o, "q", r.q));
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
    gd_release(r->q);
}

static gd_status is_there(void *user, gd_link *link, const char *path)
{
    (void)path;
    const gd_link_class **wanted = user;
    if (gd_link_class_of(link) == *wanted) *wanted = NULL;
    return GD_OK;
}

static bool needs_settings(const gd_link_class *cls)
{
    for (int i = 0; i < cls->field_count; i++)
        if (!cls->fields[i].fallback.kind) return true;
    return false;
}

/* A rule with nothing to be given is shown as `NAME | lr(0.01)` when it says nothing else. */
static void every_link_has_an_example_that_runs(void **state)
{
    gd_ctx *ctx = CTX(state);
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        char chain[300];
        snprintf(chain, sizeof chain, "%s | lr(0.01)", all[i]->name);
        if (!all[i]->example && (!all[i]->rule || needs_settings(all[i])))
            fail_msg("%s has no example", all[i]->name);
        if (all[i]->example) snprintf(chain, sizeof chain, "%s", all[i]->example);
        run r = open_run(ctx, chain);
        const gd_link_class *wanted = all[i];
        OK(gd__visit_links(gd_optimizer_chain(r.o), "", is_there, &wanted));
        if (wanted && strcmp(all[i]->name, "chain"))
            fail_msg("%s is not in its example '%s'", all[i]->name, chain);
        for (int k = 0; k < 3; k++)
            if (gd_optimizer_step(r.o, &(gd_objective){.loss = residuals, .user = &r}, NULL))
                fail_msg("%s: '%s': %s", all[i]->name, chain, gd_error_text(ctx));
        close_run(&r);
    }
}

static gd_ctx *shared;

/* How many passes a rule says it takes with `| lr` behind it; 0: it does not say. */
static int passes_said(const gd_link_class *cls)
{
    if (!cls->cost || !strncmp(cls->cost, "element-wise", 12)) return 1;
    return !strncmp(cls->cost, "one more pass", 13) ? 2 : !strncmp(cls->cost, "two more passes", 15) ? 3 : 0;
}

static void compare_cost(const gd_link_class *cls, const char *text)
{
    if (!cls->rule && !cls->cost) fail_msg("%s does not say what it costs", cls->name);
    if (!cls->rule) return;
    char chain[500], explained[4000], total[40], last[40], beyond[40];
    snprintf(chain, sizeof chain, "%s | lr(0.01)", text);
    snprintf(total, sizeof total, "total: %d pass", passes_said(cls));
    snprintf(last, sizeof last, "  pass %d: ", passes_said(cls));
    snprintf(beyond, sizeof beyond, "  pass %d: ", passes_said(cls) + 1);
    run r = open_run(shared, chain);
    assert_in_range(gd_explain(r.o, false, explained, sizeof explained), 1, sizeof explained - 1);
    /* tensors of another shape may have passes of their own: then those of any of them */
    bool each = strstr(explained, last) && !strstr(explained, beyond);
    if (!strstr(explained, total) && !each)
        fail_msg("%s says '%s', but:\n%s", cls->name, cls->cost ? cls->cost : "one pass", explained);
    close_run(&r);
}

static void rules_take_the_passes_they_say_and_other_links_say_what_they_cost(void **state)
{
    shared = CTX(state);
    each_link_text(compare_cost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_link_has_an_example_that_runs),
        CASE(rules_take_the_passes_they_say_and_other_links_say_what_they_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
