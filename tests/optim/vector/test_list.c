/* Lists of tensors as one vector, and what links share beside it, against sums written out. */
#include "gradus/link.h"
#include "gradus/optim.h"
#include "support/own_context.h"

#include <math.h>

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static void norms_and_products_are_those_of_one_long_vector(void **state)
{
    (void)state;
    gd_tensor *x[] = {VECTOR(ctx, 3, -4), MATRIX(ctx, 1, 2, 0, 12)},
              *y[] = {VECTOR(ctx, 1, 2), MATRIX(ctx, 1, 2, 3, -1)};
    double out = 0;
    assert_int_equal(gd_list_dot(x, y, 2, &out), GD_OK);
    assert_near(out, 3 - 8 + 0 - 12, 1e-15);
    const double want[][2] = {{1, 19}, {2, 13}, {INFINITY, 12}, {3, cbrt(27 + 64 + 1728)}};
    for (int i = 0; i < COUNT_OF(want); i++) {
        assert_int_equal(gd_list_norm(x, 2, want[i][0], &out), GD_OK);
        assert_near(out, want[i][1], 1e-12);
    }
    gd_tensor *sum[2];
    assert_int_equal(gd_list_combined(x, 2, y, -1, 2, sum), GD_OK);
    assert_values(sum[0], 5, -10);
    assert_values(sum[1], -3, 25);
    assert_int_equal(gd_list_scaled(x, 0.5, 2, sum), GD_OK);
    assert_values(sum[1], 0, 6);
}

static void a_vector_is_cut_into_what_it_was_made_of(void **state)
{
    (void)state;
    gd_tensor *x[] = {gd_rename(MATRIX(ctx, 2, 2, 1, 2, 3, 4), "i, j"), gd_cast(VECTOR(ctx, 5, 6), GD_F32)},
              *back[2];
    gd_tensor *v = gd_list_vector(x, 2);
    assert_values(v, 1, 2, 3, 4, 5, 6);
    assert_int_equal(gd_tensor_dtype(v), GD_F64);
    assert_int_equal(gd_list_split(v, x, 2, back), GD_OK);
    assert_values(back[0], 1, 2, 3, 4);
    assert_string_equal(gd_axis_name(back[0], 1), "j");
    assert_int_equal(gd_tensor_dtype(back[1]), GD_F32);
}

static void a_list_with_a_hole_is_refused(void **state)
{
    (void)state;
    gd_tensor *x[] = {VECTOR(ctx, 1, 2), NULL};
    double out = 7;
    assert_int_equal(gd_list_dot(x, x, 2, &out), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "a tensor of a list is NULL");
    assert_null(gd_list_vector(x, 2));
    assert_error(ctx, GD_ARGUMENT, "a tensor of a list is NULL");
    assert_int_equal(gd_list_norm(NULL, 1, 2, &out), GD_ARGUMENT);
}

static void vectors_know_their_size_and_whether_they_are_finite(void **state)
{
    (void)state;
    gd_tensor *a = VECTOR(ctx, 3, 4), *b = VECTOR(ctx, 1, NAN);
    assert_near(gd_vector_norm(a), 5, 1e-15);
    assert_near(gd_vector_dot(a, VECTOR(ctx, 2, 1)), 10, 1e-15);
    assert_true(gd_vector_finite(a));
    assert_false(gd_vector_finite(b));
    assert_values(gd_vector_sum(a, -2, VECTOR(ctx, 1, 1)), 1, 2);
    assert_near(gd_item(gd_vector_most(a)), 4, 0);
    assert_near(gd_vector_epsilon(a), 0x1p-52, 0);
    assert_near(gd_vector_epsilon(gd_cast(a, GD_F32)), 0x1p-23, 0);
}

/* ---- what a link asks the step ---- */

static gd_status ask_criteria(gd_link *link, gd_var *var)
{
    bool stop = true;
    gd_status status = gd_var_ask(var, gd_link_child(link, "no"), &stop);
    assert_false(stop);
    if (!status) status = gd_var_ask(var, gd_link_child(link, "yes"), &stop);
    assert_true(stop);
    assert_string_equal(gd_var_param_name(var, 0), "w");
    assert_null(gd_var_param_name(var, 1));
    assert_false(gd_var_failed(var));
    gd_var_note_skipped(var);
    assert_true(gd_var_failed(var));
    assert_true(gd_link_has_field(link, "yes") && !gd_link_has_field(link, "maybe"));
    assert_near(gd_link_kept(link, "times", 3), 3, 0);
    assert_int_equal(gd_link_keep(link, "times", 5), GD_OK);
    assert_near(gd_link_kept(link, "times", 3), 5, 0);
    const unsigned char *room = gd_link_memory(link, 100);
    for (int i = 0; i < 100; i++) assert_int_equal(room[i], 0);
    return status ? status : gd_var_set_zero_update(var);
}
static const gd_field ask_fields[] = {GD_CHILD("no", "says no"), GD_CHILD("yes", "says yes")};
static const gd_link_class ask_class = {.name = "asks", GD_FIELDS(ask_fields), .step = ask_criteria};

static void a_criterion_is_asked_without_anything_coming_of_it(void **state)
{
    (void)state;
    gd_link *link = gd_link_new(ctx, &ask_class);
    assert_int_equal(gd_link_set_child(link, "no", gd_chain(ctx, "terminate_never")), GD_OK);
    assert_int_equal(gd_link_set_child(link, "yes", gd_chain(ctx, "terminate_after_n_steps(1)")), GD_OK);
    gd_optimizer *o = gd_optimizer_new(ctx, link);
    gd_tensor *w = gd_require_grad(VECTOR(ctx, 1, 2));
    assert_int_equal(gd_optimizer_add(o, "w", w), GD_OK);
    assert_int_equal(gd_set_grad(w, VECTOR(ctx, 1, 1)), GD_OK);
    assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
    assert_false(gd_optimizer_should_terminate(o));
    assert_values(w, 1, 2);
    gd_optimizer_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(norms_and_products_are_those_of_one_long_vector, start_scope,
                                        stop_scope),
        cmocka_unit_test_setup_teardown(a_vector_is_cut_into_what_it_was_made_of, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(a_list_with_a_hole_is_refused, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(vectors_know_their_size_and_whether_they_are_finite, start_scope,
                                        stop_scope),
        cmocka_unit_test_setup_teardown(a_criterion_is_asked_without_anything_coming_of_it, start_scope,
                                        stop_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
