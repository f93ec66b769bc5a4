/* Chains that step over other tensors in place of the parameters: what they keep, what reaches them, what is saved. */
#include "gradus/file.h"
#include "gradus/link/projection.h"
#include "optim/optim_support.h"

#include <string.h>

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

/* All elements, p first. */
static void read_all(problem *x, double out[3])
{
    OK(gd_read_f64(x->p, out, 2));
    OK(gd_read_f64(x->q, out + 2, 1));
}

static gd_link *link_at(problem *x, int first)
{
    gd_link *chain = gd_optimizer_chain(x->o);
    return gd__is_chain(chain) ? gd_link_child_at(chain, first) : chain;
}

static void steps(problem *x, int n)
{
    for (int i = 0; i < n; i++)
        if (step(x, NULL)) fail_msg("%s", gd_error_text(x->ctx));
}

/* ---- searches ---- */

static void a_search_inside_a_projection_takes_the_way_it_takes_outside(void **state)
{
    static const char *const chains[] = {"vector_projection([lbfgs | strong_wolfe])",
                                         "to([lbfgs | backtracking], \"f64\")",
                                         "vector_projection([lbfgs | strong_wolfe], false, true, false)"};
    static const char *const outside[] = {"lbfgs | strong_wolfe", "lbfgs | backtracking",
                                          "lbfgs | strong_wolfe"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        problem a = open_problem(CTX(state), chains[k]), b = open_problem(CTX(state), outside[k]);
        for (int i = 0; i < 4; i++) {
            double there[3], here[3];
            OK(step(&a, NULL));
            OK(step(&b, NULL));
            read_all(&a, there);
            read_all(&b, here);
            for (int e = 0; e < 3; e++) assert_near(there[e], here[e], 1e-12);
        }
        close_problem(&a);
        close_problem(&b);
    }
}

/* A child that moves what it was given itself: the parameters follow. */
static gd_status move_and_skip(gd_link *link, gd_var *var)
{
    (void)link;
    assert_int_equal(gd_var_count(var), 1);
    assert_int_equal(gd_numel(gd_var_params(var)[0]), 3);
    gd_var_skip_update(var);
    return gd_add_into(gd_var_params(var)[0], gd_full_like(gd_var_params(var)[0], 1), 0.25);
}

static void parameters_follow_stand_ins_that_the_chain_moves(void **state)
{
    problem x = open_problem(CTX(state), "vector_projection(direct_weight_decay(0.1)) | lr(0)");
    double now[3];
    steps(&x, 1);
    read_all(&x, now);
    assert_near(now[0], 2.7, 1e-12);
    assert_near(now[2], 0.45, 1e-12);
    close_problem(&x);
    x = open_problem(CTX(state), "vector_projection(probe_a) | lr(7)");
    probe.a = move_and_skip;
    steps(&x, 2);
    read_all(&x, now);
    assert_near(now[0], 3.5, 0);
    assert_near(now[1], -0.5, 0);
    assert_near(now[2], 1, 0);
    close_problem(&x);
}

/* ---- state ---- */

static const char *const kept[] = {
    "vector_projection([adam | lr(0.1)])",
    "scalar_projection([heavy_ball | normalize_by_ema | lr(0.1)])",
    "to([adam | lr(0.1)], \"f32\") | ema",
    "to([to([adam(0.8)], \"f64\")], \"f32\") | lr(0.1)",
    "scalar_projection([vector_projection([lbfgs | backtracking])])",
    "vector_projection([to([rmsprop | add([ema(0.5)])], \"f32\")]) | lr(0.05)",
};

/* A run that was saved and goes on in another optimizer has the same bits. */
static void what_a_projected_chain_keeps_is_saved_and_loaded(void **state)
{
    for (int k = 0; k < COUNT_OF(kept); k++) {
        problem a = open_problem(CTX(state), kept[k]), b = open_problem(CTX(state), kept[k]);
        double want[3], got[3];
        steps(&a, 3);
        steps(&b, k % 2); /* with other state, or with none */
        gd_archive *archive = gd_archive_new(a.ctx);
        OK(gd_optimizer_pack(a.o, archive, NULL));
        OK(gd_assign(b.p, a.p));
        OK(gd_assign(b.q, a.q));
        if (gd_optimizer_unpack(b.o, archive, NULL, true)) fail_msg("%s: %s", kept[k], gd_error_text(a.ctx));
        steps(&a, 3);
        steps(&b, 3);
        read_all(&a, want);
        read_all(&b, got);
        assert_memory_equal(want, got, sizeof want);
        gd_archive_free(archive);
        close_problem(&a);
        close_problem(&b);
    }
}

static bool has_tensor(const gd_archive *archive, const char *name)
{
    for (int64_t i = 0; i < gd_archive_count(archive); i++)
        if (!strcmp(gd_archive_name(archive, i), name)) return true;
    return false;
}

static void state_has_the_names_of_the_parameter_and_of_the_link(void **state)
{
    problem a = open_problem(CTX(state), "vector_projection(adam) | lr(0.1)"),
            b = open_problem(CTX(state), "to(adam, \"f32\") | lr(0.1)");
    gd_archive *archive = gd_archive_new(a.ctx);
    steps(&a, 1);
    steps(&b, 1);
    OK(gd_optimizer_pack(a.o, archive, "a/"));
    OK(gd_optimizer_pack(b.o, archive, "b/"));
    assert_true(has_tensor(archive, "a/0:vector_projection#0/0:vector_projection.0:adam/exp_avg"));
    assert_true(has_tensor(archive, "b/q/0:to#0/0:to.0:adam/exp_avg_sq"));
    gd_archive_free(archive);
    close_problem(&a);
    close_problem(&b);
}

/* m' = 0.5 m + g, in another dtype from the second step on. */
static void state_follows_to_another_dtype(void **state)
{
    problem x = open_problem(CTX(state), "to([heavy_ball(0.5, ema_init=\"zeros\")], \"f32\") | lr(0.125)");
    double now[3];
    steps(&x, 1); /* g = 4, -4, 2: p = 2.5, -0.5, q = 0.25 */
    OK(gd_link_set_string(link_at(&x, 0), "dtype", "f64"));
    steps(&x, 1); /* g = 3, -3, 1; m = 5, -5, 2 */
    read_all(&x, now);
    assert_near(now[0], 2.5 - 5 * 0.125, 0);
    assert_near(now[1], -0.5 + 5 * 0.125, 0);
    assert_near(now[2], 0, 0);
    close_problem(&x);
}

static void a_reset_or_a_parameter_that_goes_takes_its_stand_ins_along(void **state)
{
    problem x = open_problem(CTX(state), "to([heavy_ball(0.5, ema_init=\"zeros\")], \"f64\") | lr(0.125)");
    double now[3];
    steps(&x, 1);
    OK(gd_optimizer_remove(x.o, "q"));
    OK(gd_optimizer_add(x.o, "q", x.q));
    steps(&x, 1); /* p as above, q begins anew: g = 1 */
    read_all(&x, now);
    assert_near(now[0], 2.5 - 5 * 0.125, 0);
    assert_near(now[2], 0.25 - 0.125, 0);
    gd_optimizer_reset(x.o);
    steps(&x, 1); /* p = 1.875: g = 1.75 */
    read_all(&x, now);
    assert_near(now[0], 1.875 - 1.75 * 0.125, 0);
    assert_int_equal(link_at(&x, 0)->stand_ins, 2);
    close_problem(&x);
}

/* One vector of other parameters is a different vector. */
static void a_vector_of_another_length_begins_anew(void **state)
{
    problem x = open_problem(CTX(state),
                             "vector_projection([heavy_ball(0.5, ema_init=\"zeros\")]) | lr(0.125)");
    double now[3];
    steps(&x, 1);
    OK(gd_optimizer_remove(x.o, "q"));
    steps(&x, 1); /* g = 3 */
    read_all(&x, now);
    assert_near(now[0], 2.5 - 3 * 0.125, 0);
    close_problem(&x);
}

/* ---- settings ---- */

static void groups_reach_a_chain_over_copies_of_their_parameters(void **state)
{
    static const char *const chains[] = {"to([lr(0.25)], \"f64\")", "scalar_projection(lr(0.25))"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        problem x = open_problem(CTX(state), chains[k]);
        double now[3];
        OK(gd_optimizer_regroup(x.o, "q", "lr=0.5"));
        steps(&x, 1); /* g = 4, 2 */
        read_all(&x, now);
        assert_near(now[0], 3 - 4 * 0.25, 0);
        assert_near(now[2], 0.5 - 2 * 0.5, 0);
        close_problem(&x);
    }
}

static void one_vector_has_one_setting(void **state)
{
    problem x = open_problem(CTX(state),
                             "vector_projection([heavy_ball(0.5, ema_init=\"zeros\") | lr(0.25)])");
    double now[3];
    OK(gd_optimizer_regroup(x.o, "q", "lr=0.5"));
    assert_int_equal(step(&x, NULL), GD_VALUE);
    assert_non_null(strstr(gd_error_text(x.ctx), "'lr' has one value for the whole step"));
    gd_clear_error(x.ctx);
    read_all(&x, now);
    assert_near(now[0], 3, 0);
    OK(gd_optimizer_set(x.o, 0, "lr", 0.5));
    steps(&x, 1);
    read_all(&x, now);
    assert_near(now[0], 3 - 4 * 0.5, 0);
    assert_near(now[2], 0.5 - 2 * 0.5, 0);
    close_problem(&x);
}

/* ---- what cannot be ---- */

static void mistakes_are_named(void **state)
{
    problem x = open_problem(CTX(state), "to([adam], \"f32\", \"gpu:77\")");
    assert_int_equal(step(&x, NULL), GD_DEVICE);
    gd_clear_error(x.ctx);
    close_problem(&x);
    x = open_problem(CTX(state), "vector_projection([lbfgs | backtracking], true, false)");
    assert_int_equal(step(&x, NULL), GD_STATE); /* it has no objective to evaluate */
    gd_clear_error(x.ctx);
    close_problem(&x);
    assert_null(gd_chain(CTX(state), "to([adam], \"i32\")"));
    gd_clear_error(CTX(state));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_search_inside_a_projection_takes_the_way_it_takes_outside),
        CASE(parameters_follow_stand_ins_that_the_chain_moves),
        CASE(what_a_projected_chain_keeps_is_saved_and_loaded),
        CASE(state_has_the_names_of_the_parameter_and_of_the_link),
        CASE(state_follows_to_another_dtype),
        CASE(a_reset_or_a_parameter_that_goes_takes_its_stand_ins_along),
        CASE(a_vector_of_another_length_begins_anew),
        CASE(groups_reach_a_chain_over_copies_of_their_parameters),
        CASE(one_vector_has_one_setting),
        CASE(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
