/* Selections of parameters, and split: other chains for other parameters. */
#include "optim/optim_support.h"

#include <string.h>
#include <unistd.h>

/* ---- three parameters: f(w, h, b) = sum k_i (p_i - 1)^2 over all of them ---- */

enum { W, H, B, PARAMS };

static const char *const names[] = {"layer.weight", "head.weight", "layer.bias"};

typedef struct model {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_objective objective;
} model;

static gd_tensor *model_loss(void *user)
{
    model *m = user;
    gd_tensor *sum = NULL;
    for (int i = 0; i < PARAMS; i++) {
        if (!m->p[i]) continue;
        gd_tensor *one = gd_sum(gd_square(gd_square(gd_add_scalar(m->p[i], -1))), NULL, false);
        one = gd_mul_scalar(one, i + 1);
        sum = sum ? gd_add(sum, one) : one;
    }
    return sum;
}

static gd_tensor *param(gd_ctx *ctx, int i)
{
    static const char *const colours[] = {"red", "green"};
    gd_tensor *t;
    if (i == B) return gd_require_grad(VECTOR(ctx, 0.1, -0.2, 0.3));
    gd_scope_begin(ctx);
    t = i == W ? MATRIX(ctx, 2, 3, 0.5, -1, 2, 0.25, 3, -0.5) : MATRIX(ctx, 2, 2, 2, 1, -3, 0.75);
    if (i == W) t = gd_with_labels(gd_rename(t, "colour, x"), "colour", colours);
    t = gd_require_grad(gd_copy(t));
    gd_retain(t);
    gd_scope_end(ctx);
    return t;
}

/* Those of the parameters that `which` has as bits. */
static model open_model(gd_ctx *ctx, const char *chain, unsigned which)
{
    model m = {.ctx = ctx, .objective = {.loss = model_loss}};
    m.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    for (int i = 0; i < PARAMS; i++) {
        if (!(which >> i & 1)) continue;
        m.p[i] = param(ctx, i);
        OK(gd_optimizer_add(m.o, names[i], m.p[i]));
    }
    return m;
}

static void close_model(model *m)
{
    gd_optimizer_free(m->o);
    for (int i = 0; i < PARAMS; i++) gd_release(m->p[i]);
}

static void steps(model *m, int count)
{
    m->objective.user = m;
    for (int i = 0; i < count; i++) OK(gd_optimizer_step(m->o, &m->objective, NULL));
}

static void assert_same(gd_tensor *a, gd_tensor *b, double tolerance, const char *what)
{
    const double *x = gd_data(a), *y = gd_data(b);
    for (int64_t i = 0; i < gd_numel(a); i++)
        if (!(fabs(x[i] - y[i]) <= tolerance * fabs(y[i])))
            fail_msg("%s: element %d is %.17g, not %.17g", what, (int)i, x[i], y[i]);
}

/* ---- selections ---- */

static void selections_are_by_name_axes_size_axis_and_label(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *p[PARAMS];
    static const struct {
        const char *text;
        unsigned which;
    } rows[] = {
        {"*", 7},
        {"*.bias", 4},
        {"layer.*", 5},
        {"*weight, layer*", 1},
        {"layer.* and not *.bias", 1},
        {"head.weight or *.bias", 6},
        {"not not *.bias", 4},
        {"axes>=2", 3},
        {"axes < 2", 4},
        {"axes=1", 4},
        {"axes!=1", 3},
        {"numel>4", 1},
        {"numel<=4 and axes==2", 2},
        {"axis=colour", 1},
        {"axis=col*", 1},
        {"axis!=colour", 6},
        {"not axis=x", 6},
        {"label=colour.red", 1},
        {"label=*.gr*", 1},
        {"label=x.red", 0},
        {"label!=colour.red", 6},
        {"*.bias or axes>=2, numel<5", 6},
        {"layer[.,]bias", 4},
        {"axes", 0}, /* a name */
        {"\\not", 0},
    };
    for (int i = 0; i < PARAMS; i++) p[i] = param(ctx, i);
    for (int r = 0; r < COUNT_OF(rows); r++)
        for (int i = 0; i < PARAMS; i++) {
            bool yes = !(rows[r].which >> i & 1);
            OK(gd_select(ctx, rows[r].text, names[i], p[i], &yes));
            if (yes != (rows[r].which >> i & 1)) fail_msg("'%s' and %s", rows[r].text, names[i]);
        }
    bool yes = false;
    OK(gd_select(ctx, "*", NULL, NULL, &yes));
    assert_true(yes);
    for (int i = 0; i < PARAMS; i++) gd_release(p[i]);
}

static void a_text_that_is_no_selection_says_where(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "expected a name, axes, numel, axis or label, but the text ends"},
        {"a b", "column 3: expected ',', 'and' or 'or', got 'b'"},
        {"a,", "expected a name"},
        {"not", "expected a name"},
        {"axes>=two", "expected a number"},
        {"axis>x", "column 6: names of axes and labels are compared with = or !="},
        {"label=red", "expected AXIS.LABEL (*.LABEL: on any axis), got 'red'"},
        {"axis=", "expected the name of an axis"},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(gd_select(ctx, rows[i].text, NULL, NULL, NULL), GD_PARSE);
        expect_error(ctx, GD_PARSE, rows[i].why);
    }
    assert_null(gd_chain(ctx, "adam | split(\"a b\", lr(0.1))"));
    expect_error(ctx, GD_PARSE, "split: filter is no selection: selection: column 3: expected ','");
    model m = open_model(ctx, "split(\"*.bias\", lr(0.1), adam)", 7);
    assert_int_equal(gd_optimizer_regroup(m.o, "layer.*", "filter=\"a b\""), GD_PARSE);
    expect_error(ctx, GD_PARSE, "split: filter is no selection");
    assert_int_equal(gd_optimizer_regroup(m.o, "a b", "lr=1"), GD_PARSE);
    expect_error(ctx, GD_PARSE, "selection: column 3");
    close_model(&m);
}

/* ---- split ---- */

static void each_chain_is_a_step_of_its_own_over_its_parameters(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const struct {
        const char *yes, *no;
        double tolerance; /* searches see the losses of the others too: other roundings */
    } rows[] = {
        {"adam | lr(0.1)", "lion | lr(0.01)", 0},
        {"clip_norm(0.5, dim=\"global\") | lr(0.1)", "normalize(dim=\"global\") | lr(0.1)", 0},
        {"clip_norm(0.5, dim=\"global\") | lr(0.1)", "trust_ratio | adam | lr(0.1)", 0},
        {"orthogonalize | lr(0.1)", "adam | lr(0.1)", 0},
        {"heavy_ball | lr(0.01)", "lbfgs | lr(0.01)", 0},
        {"newton | lr(0.1)", "lr(0.01)", 1e-12},
        {"lr(0.01)", "newton_cg | lr(0.1)", 1e-9},
    };
    for (int r = 0; r < COUNT_OF(rows); r++) {
        char text[300];
        snprintf(text, sizeof text, "split(\"axes>=2\", [%s], [%s])", rows[r].yes, rows[r].no);
        model all = open_model(ctx, text, 7), yes = open_model(ctx, rows[r].yes, 3),
              no = open_model(ctx, rows[r].no, 4);
        steps(&all, 10);
        steps(&yes, 10);
        steps(&no, 10);
        assert_same(all.p[W], yes.p[W], rows[r].tolerance, text);
        assert_same(all.p[H], yes.p[H], rows[r].tolerance, text);
        assert_same(all.p[B], no.p[B], rows[r].tolerance, text);
        close_model(&all);
        close_model(&yes);
        close_model(&no);
    }
}

static void a_search_moves_its_own_parameters_only(void **state)
{
    gd_ctx *ctx = CTX(state);
    model m = open_model(ctx, "split(\"*.bias\", [lbfgs | strong_wolfe], fill(0))", 7);
    gd_tensor *w = gd_copy(m.p[W]);
    steps(&m, 15);
    assert_values_near(m.p[B], 1e-2, 1, 1, 1);
    assert_same(m.p[W], w, 0, "the parameters of the other chain");
    gd_release(w);
    close_model(&m);
}

static void without_a_chain_the_update_stays(void **state)
{
    gd_ctx *ctx = CTX(state);
    model m = open_model(ctx, "split(\"axes>=2\", adam) | lr(0.01)", 7),
          plain = open_model(ctx, "lr(0.01)", 4),
          other = open_model(ctx, "split(\"axes>=2\", false=adam) | lr(0.01)", 7);
    steps(&m, 5);
    steps(&plain, 5);
    steps(&other, 5);
    assert_same(m.p[B], plain.p[B], 0, "the rest");
    model adam = open_model(ctx, "adam | lr(0.01)", 7);
    steps(&adam, 5);
    assert_same(other.p[B], adam.p[B], 0, "the rest through adam");
    assert_same(m.p[H], adam.p[H], 0, "those that match");
    close_model(&adam);
    close_model(&m);
    close_model(&plain);
    close_model(&other);
}

static void a_chain_that_holds_its_step_leaves_its_parameters(void **state)
{
    gd_ctx *ctx = CTX(state);
    model m = open_model(ctx, "split(\"*.bias\", gradient_accumulation(2)) | lr(0.01)", 7);
    steps(&m, 1);
    assert_values(m.p[B], 0.1, -0.2, 0.3);
    assert_true(*(const double *)gd_data(m.p[W]) != 0.5);
    steps(&m, 1);
    assert_true(*(const double *)gd_data(m.p[B]) != 0.1);
    close_model(&m);
}

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    return n;
}

static void rules_on_both_sides_fuse_in_one_pass(void **state)
{
    gd_ctx *ctx = CTX(state);
    char text[4000];
    model m = open_model(ctx, "ema(0.9) | split(\"axes>=2\", adam, lion) | lr(0.001)", 7);
    assert_true(gd_explain(m.o, false, text, sizeof text) > 0);
    assert_int_equal(count_of(text, "segment"), 1);
    assert_int_equal(count_of(text, "pass 1"), 2); /* one for each program, each over its own tensors */
    assert_int_equal(count_of(text, "pass 2"), 0);
    assert_non_null(strstr(text, "for 2 tensors of f64, 10 elements"));
    assert_non_null(strstr(text, "for 1 tensor of f64, 3 elements"));
    close_model(&m);
    /* a norm of its own: not one program, but every chain sees its own parameters */
    m = open_model(ctx, "split(\"axes>=2\", [clip_norm(1, dim=\"global\") | adam], lion) | lr(0.001)", 7);
    assert_true(gd_explain(m.o, false, text, sizeof text) > 0);
    assert_non_null(strstr(text, "break: split; a step of its own for each part of the parameters"));
    assert_non_null(strstr(text, "true: 2 tensors, 10 elements"));
    assert_non_null(strstr(text, "false: 1 tensor, 3 elements"));
    steps(&m, 2);
    close_model(&m);
    /* norms around it are over all */
    m = open_model(ctx, "clip_norm(1, dim=\"global\") | split(\"axes>=2\", trust_ratio, lion) | lr(0.001)",
                   7);
    model apart = open_model(
        ctx, "clip_norm(1, dim=\"global\") | split(\"axes>=2\", trust_ratio, lion) | lr(0.001)", 7);
    apart.o->test.no_fusion = true;
    steps(&m, 4);
    steps(&apart, 4);
    for (int i = 0; i < PARAMS; i++) assert_same(m.p[i], apart.p[i], 0, "a norm around it");
    close_model(&m);
    close_model(&apart);
}

static void state_goes_through_checkpoints(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char *const chains[] = {
        "split(\"axes>=2\", adam, lion) | lr(0.01)",
        "split(\"axes>=2\", [clip_norm(1, dim=\"global\") | adam], lbfgs) | lr(0.01)",
    };
    for (int c = 0; c < COUNT_OF(chains); c++) {
        model straight = open_model(ctx, chains[c], 7), first = open_model(ctx, chains[c], 7),
              second = open_model(ctx, chains[c], 7);
        steps(&straight, 8);
        steps(&first, 4);
        char path[] = "/tmp/gradus_split_XXXXXX";
        int file = mkstemp(path);
        assert_true(file >= 0);
        close(file);
        OK(gd_optimizer_save(first.o, path));
        OK(gd_optimizer_load(second.o, path, true));
        for (int i = 0; i < PARAMS; i++) OK(gd_assign(second.p[i], first.p[i]));
        steps(&second, 4);
        for (int i = 0; i < PARAMS; i++) assert_same(second.p[i], straight.p[i], 0, chains[c]);
        unlink(path);
        close_model(&straight);
        close_model(&first);
        close_model(&second);
    }
}

static void only_its_own_parameters_have_state_in_a_chain(void **state)
{
    gd_ctx *ctx = CTX(state);
    model m = open_model(ctx, "split(\"axes>=2\", adam, lion) | lr(0.01)", 7);
    steps(&m, 1);
    gd_link *split = gd_link_child_at(gd_optimizer_chain(m.o), 0);
    gd_link *adam = gd_link_child(split, "true"), *lion = gd_link_child(split, "false");
    assert_true(gd_link_has_state(adam, m.p[W], "exp_avg"));
    assert_false(gd_link_has_state(adam, m.p[B], "exp_avg"));
    assert_true(gd_link_has_state(lion, m.p[B], "exp_avg"));
    assert_false(gd_link_has_state(lion, m.p[W], "exp_avg"));
    close_model(&m);
}

static void a_filter_that_tells_nothing_apart_is_a_warning(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const struct {
        const char *filter, *warning;
    } rows[] = {
        {"nobody*", "split: its filter \"nobody*\" selects none of the parameters"},
        {"axes>=1", "split: its filter \"axes>=1\" selects all of the parameters"},
        {"axes>=2", NULL},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, "lookahead([split(\"%s\", adam, lion) | lr(0.01)])", rows[i].filter);
        model m = open_model(ctx, text, 7);
        int64_t before = gd_warning_count(ctx);
        steps(&m, 3);
        assert_int_equal(gd_warning_count(ctx) - before, rows[i].warning ? 1 : 0);
        if (rows[i].warning) assert_string_equal(gd_warning_text(ctx), rows[i].warning);
        close_model(&m);
    }
}

static void groups_are_selected_and_select(void **state)
{
    gd_ctx *ctx = CTX(state);
    const char *chain = "split(\"axes>=2\", adam, lion) | lr(0.01)";
    model m = open_model(ctx, chain, 7),
          same = open_model(ctx, "split(\"layer.weight\", adam, lion) | lr(0.01)", 7);
    OK(gd_optimizer_regroup(m.o, "numel=4 and axes=2",
                            "filter=\"none\"")); /* the head through the other chain */
    steps(&m, 4);
    steps(&same, 4);
    for (int i = 0; i < PARAMS; i++) assert_same(m.p[i], same.p[i], 0, names[i]);
    close_model(&m);
    close_model(&same);
}

/* A setting that a link reads once per step is that of the parameters it has: groups of others say nothing about it. */
static void settings_of_the_whole_step_are_those_of_the_part(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const char chain[] =
        "split(\"*.bias\", [bfgs | backtracking(init=0.5, maxiter=1, adaptive=false)], lr(0))";
    model a = open_model(ctx, chain, 1u << W | 1u << B), b = open_model(ctx, chain, 1u << W | 1u << B);
    OK(gd_optimizer_regroup(a.o, "layer.weight", "init=7"));
    OK(gd_optimizer_regroup(b.o, "layer.bias", "init=0.125"));
    gd_link *search = gd_link_child_at(gd_link_child(gd_optimizer_chain(a.o), "true"), 1);
    gd_link *other = gd_link_child_at(gd_link_child(gd_optimizer_chain(b.o), "true"), 1);
    for (int i = 0; i < 2; i++) {
        model *m = i ? &b : &a;
        m->objective.user = m;
        OK(gd_optimizer_step(m->o, &m->objective, NULL));
    }
    assert_true(gd_link_real(search, "init", NULL) == 0.5);
    assert_true(gd_link_real(other, "init", NULL) == 0.125);
    close_model(&a);
    close_model(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(selections_are_by_name_axes_size_axis_and_label),
        CASE(a_text_that_is_no_selection_says_where),
        CASE(each_chain_is_a_step_of_its_own_over_its_parameters),
        CASE(a_search_moves_its_own_parameters_only),
        CASE(without_a_chain_the_update_stays),
        CASE(a_chain_that_holds_its_step_leaves_its_parameters),
        CASE(rules_on_both_sides_fuse_in_one_pass),
        CASE(state_goes_through_checkpoints),
        CASE(only_its_own_parameters_have_state_in_a_chain),
        CASE(a_filter_that_tells_nothing_apart_is_a_warning),
        CASE(groups_are_selected_and_select),
        CASE(settings_of_the_whole_step_are_those_of_the_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
