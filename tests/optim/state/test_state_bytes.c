/* The bytes of state that gd_explain promises before the first step are those that steps make. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

static gd_ctx *ctx;
static int links, with_state;

typedef struct trial {
    gd_optimizer *o;
    gd_tensor *p, *q;
} trial;

/* Residuals, so that every family has what it needs; their sum of squares is minimised. */
static gd_tensor *trial_residuals(void *user)
{
    const trial *t = user;
    gd_tensor *a = gd_add_scalar(gd_reshape(t->p, 1, (int64_t[]){6}), -1), *b = gd_exp(t->q);
    return gd_cat((gd_tensor *[]){a, b, gd_mul(gd_index(a, "0", 0), b)}, 3, "0");
}

static trial open_trial(const char *chain, gd_dtype dtype)
{
    trial t = {.o = gd_optimizer_new(ctx, gd_chain(ctx, chain))};
    if (!t.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    gd_scope_begin(ctx);
    t.p = gd_require_grad(gd_full(ctx, dtype, 2, (int64_t[]){2, 3}, 1.25));
    t.q = gd_require_grad(gd_full(ctx, dtype, 1, (int64_t[]){1}, 0.5));
    gd_retain(t.p);
    gd_retain(t.q);
    gd_scope_end(ctx);
    OK(gd_optimizer_add(t.o, "p", t.p));
    OK(gd_optimizer_add(t.o, "q", t.q));
    return t;
}

static void close_trial(trial *t)
{
    gd_optimizer_free(t->o);
    gd_release(t->p);
    gd_release(t->q);
}

static int64_t promised(trial *t)
{
    static char text[20000];
    int64_t bytes = -1;
    assert_true(gd_explain(t->o, false, text, sizeof text) > 0);
    const char *total = strstr(text, "\ntotal: ");
    assert_non_null(total);
    const char *end = strstr(total, " bytes of state\n");
    assert_non_null(end);
    while (end > total && end[-1] != ' ') end--;
    assert_int_equal(sscanf(end, "%ld", &bytes), 1);
    return bytes;
}

static gd_status add_held(void *user, gd_link *link, const char *path)
{
    (void)path;
    *(int64_t *)user += gd__state_held(link);
    return GD_OK;
}

static int64_t held(const trial *t)
{
    int64_t bytes = 0;
    OK(gd__visit_links(t->o->chain, "", add_held, &bytes));
    return bytes;
}

/* What a file of the state holds besides attributes, which are the user's. */
static int64_t saved(const trial *t)
{
    int64_t bytes = 0;
    gd_archive *archive = gd_archive_new(ctx);
    OK(gd_optimizer_pack(t->o, archive, NULL));
    for (int64_t i = 0; i < gd_archive_count(archive); i++) {
        gd_tensor *x = gd_archive_get(archive, i);
        if (strncmp(gd_archive_name(archive, i), "attribute/", 10) != 0)
            bytes += gd_numel(x) * (int64_t)gd_dtype_size(gd_tensor_dtype(x));
    }
    gd_archive_free(archive);
    return bytes;
}

static void compare(const char *chain, gd_dtype dtype)
{
    trial t = open_trial(chain, dtype);
    int64_t before = promised(&t);
    gd_objective objective = {.loss = trial_residuals, .user = &t};
    for (int i = 0; i < 4; i++)
        if (gd_optimizer_step(t.o, &objective, NULL)) fail_msg("%s: %s", chain, gd_error_text(ctx));
    if (before != held(&t) || before != saved(&t) || before != promised(&t))
        fail_msg("%s: explain promises %ld bytes of state, %ld are held, %ld saved, then it says %ld", chain,
                 (long)before, (long)held(&t), (long)saved(&t), (long)promised(&t));
    links++;
    with_state += before > 0;
    close_trial(&t);
}

static void compare_text(const gd_link_class *cls, const char *text)
{
    (void)cls;
    char chain[500];
    snprintf(chain, sizeof chain, "%s | lr(1e-3)", text);
    compare(chain, GD_F64);
    compare(chain, GD_F32);
}

static void every_link_holds_what_explain_promises(void **state)
{
    ctx = CTX(state);
    links = with_state = 0;
    each_link_text(compare_text);
    assert_true(links * test_share() > 100 && with_state * test_share() > 50);
}

/* Settings that change what is held, and links inside links. */
static void settings_and_children_count(void **state)
{
    static const char *const chains[] = {"lbfgs(3)",
                                         "lsr1(history_size=2)",
                                         "bfgs(concat_params=false)",
                                         "newton_cg(warm_start=true) | lr(1e-3)",
                                         "adam(amsgrad=true, inner=lbfgs(2)) | lr(1e-3)",
                                         "rmsprop(centered=true, inner=ema) | lr(1e-3)",
                                         "online(adam, lr(1e-3))",
                                         "adam(inner=newton) | lr(1e-3)",
                                         "newton(inner=adam) | lr(1e-3)",
                                         "nlp(hessian=\"bfgs\")",
                                         "nlp(method=\"interior_point\")"};
    ctx = CTX(state);
    for (int i = 0; i < COUNT_OF(chains); i++) compare(chains[i], GD_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_link_holds_what_explain_promises),
        CASE(settings_and_children_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
