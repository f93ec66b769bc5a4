/* Products with Hessians and Jacobians, full ones, and gradcheck itself, against closed forms. */
#include "autograd/graph_support.h"

#include <math.h>

/* ---- functions with known derivatives ---- */

/* (1 - x)^2 + 100 (y - x^2)^2 of p = [x, y] */
static gd_tensor *rosenbrock(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    gd_tensor *x = gd_index(in[0], "0", 0), *y = gd_index(in[0], "0", 1);
    gd_tensor *valley = gd_mul_scalar(gd_square(gd_sub(y, gd_square(x))), 100);
    return gd_add(gd_square(gd_add_scalar(gd_neg(x), 1)), valley);
}

static const double px = -1.2, py = 1;
#define ROSENBROCK_HESSIAN 1200 * px *px - 400 * py + 2, -400 * px, -400 * px, 200

/* [x0 x1, sin(x0) y0, y1^2] of x, y */
static gd_tensor *three(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    gd_tensor *x0 = gd_index(in[0], "0", 0), *x1 = gd_index(in[0], "0", 1);
    gd_tensor *y0 = gd_index(in[1], "0", 0), *y1 = gd_index(in[1], "0", 1);
    gd_tensor *part[] = {gd_mul(x0, x1), gd_mul(gd_sin(x0), y0), gd_square(y1)};
    return gd_stack(part, 3, 0, "out");
}

/* sum of a^2 b, of names */
static gd_tensor *named(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    return total(gd_mul(gd_square(in[0]), in[1]));
}

static gd_tensor *linear(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    return total(gd_mul_scalar(in[0], 3));
}

static gd_tensor *constant(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    (void)in;
    return gd_scalar(user, GD_F64, 3);
}

static gd_tensor *failing(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)in;
    (void)count;
    return NULL;
}

/* ---- Hessians ---- */

static void hessian_of_rosenbrock(void **state)
{
    (void)state;
    gd_tensor *p = VECTOR(ctx, px, py), *v = VECTOR(ctx, 0.3, -0.7), *hv;
    gd_tensor *h = gd_hessian(rosenbrock, NULL, &p, 1);
    assert_shape(h, 2, 2);
    assert_values(h, ROSENBROCK_HESSIAN);
    assert_false(gd_requires_grad(h));
    const double want[] = {ROSENBROCK_HESSIAN};
    assert_ok(gd_hvp(rosenbrock, NULL, &p, 1, &v, &hv));
    assert_values(hv, want[0] * 0.3 - want[1] * 0.7, want[2] * 0.3 - want[3] * 0.7);
    assert_false(gd_requires_grad(hv));
    /* the inputs themselves are left alone */
    assert_false(gd_requires_grad(p));
    assert_values(p, px, py);
}

static void hessian_of_several_named_inputs(void **state)
{
    (void)state;
    gd_tensor *a = gd_rename(VECTOR(ctx, 1, 2), "k"), *b = gd_rename(VECTOR(ctx, 5, 7), "k"), *in[] = {a, b},
              *out[2];
    assert_values(gd_hessian(named, NULL, in, 2), 10, 0, 2, 0, 0, 14, 0, 4, 2, 0, 0, 0, 0, 4, 0, 0);
    gd_tensor *v[] = {gd_rename(VECTOR(ctx, 1, 0), "k"), gd_rename(VECTOR(ctx, 0, 1), "k")};
    assert_ok(gd_hvp(named, NULL, in, 2, v, out));
    assert_values(out[0], 10, 4);
    assert_values(out[1], 2, 0);
    assert_string_equal(gd_axis_name(out[1], 0), "k");
}

static void hessian_of_what_has_none(void **state)
{
    (void)state;
    gd_tensor *p = VECTOR(ctx, 1, 2), *v = VECTOR(ctx, 1, 1), *out;
    assert_values(gd_hessian(linear, NULL, &p, 1), 0, 0, 0, 0);
    assert_values(gd_hessian(constant, ctx, &p, 1), 0, 0, 0, 0);
    assert_ok(gd_hvp(linear, NULL, &p, 1, &v, &out));
    assert_values(out, 0, 0);
    assert_ok(gd_hvp(constant, ctx, &p, 1, &v, &out));
    assert_values(out, 0, 0);
}

/* ---- Jacobians ---- */

static gd_tensor *square_each(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    return gd_square(in[0]);
}

static gd_tensor *sum_of_squares(void *user, gd_tensor *const *in, int count)
{
    return gd_sum(square_each(user, in, count), NULL, false);
}

static const double a0 = 0.5, a1 = -2, b0 = 3, b1 = 4;

static void jacobian_of_two_inputs(void **state)
{
    (void)state;
    gd_tensor *in[] = {VECTOR(ctx, a0, a1), VECTOR(ctx, b0, b1)}, *j[2];
    assert_ok(gd_jacobian(three, NULL, in, 2, j));
    assert_shape(j[0], 3, 2);
    assert_values(j[0], a1, a0, cos(a0) * b0, 0, 0, 0);
    assert_values(j[1], 0, 0, sin(a0), 0, 0, 2 * b1);
    gd_tensor *p = VECTOR(ctx, px, py), *row, *none;
    assert_ok(gd_jacobian(rosenbrock, NULL, &p, 1, &row));
    assert_shape(row, 2);
    assert_values(row, -2 * (1 - px) - 400 * px * (py - px * px), 200 * (py - px * px));
    assert_ok(gd_jacobian(constant, ctx, &p, 1, &none));
    assert_values(none, 0, 0);
}

/* Axes of the result, then of the input; a repeated name gets a number, labels stay. */
static void derivatives_keep_names(void **state)
{
    (void)state;
    gd_tensor *p = gd_with_labels(gd_rename(VECTOR(ctx, px, py), "p"), "p", (const char *[]){"a", "b"}), *j;
    assert_ok(gd_jacobian(square_each, NULL, &p, 1, &j));
    gd_tensor *h = gd_hessian(sum_of_squares, NULL, &p, 1);
    gd_tensor *both[] = {j, h};
    for (int i = 0; i < 2; i++) {
        assert_string_equal(gd_axis_name(both[i], 0), "p");
        assert_string_equal(gd_axis_name(both[i], 1), "p2");
        assert_string_equal(gd_axis_label(both[i], 1, 1), "b");
    }
    assert_values(j, 2 * px, 0, 0, 2 * py);
    assert_values(h, 2, 0, 0, 2);
}

static void jacobian_times_vector(void **state)
{
    (void)state;
    gd_tensor *in[] = {VECTOR(ctx, a0, a1), VECTOR(ctx, b0, b1)},
              *v[] = {VECTOR(ctx, 1, 2), VECTOR(ctx, 3, 4)};
    gd_tensor *jv = gd_jvp(three, NULL, in, 2, v);
    assert_values(jv, a1 + 2 * a0, cos(a0) * b0 + 3 * sin(a0), 8 * b1);
    assert_string_equal(gd_axis_name(jv, 0), "out");
    assert_false(gd_requires_grad(jv));
    gd_tensor *p = VECTOR(ctx, 1, 2), *u = VECTOR(ctx, 10, 1);
    assert_values(gd_jvp(linear, NULL, &p, 1, &u), 33);
    assert_values(gd_jvp(constant, ctx, &p, 1, &u), 0);
}

static void derivatives_are_taken_inside_no_grad_too(void **state)
{
    (void)state;
    gd_tensor *p = VECTOR(ctx, px, py);
    gd_no_grad_begin(ctx);
    assert_values(gd_hessian(rosenbrock, NULL, &p, 1), ROSENBROCK_HESSIAN);
    assert_ok(gd_gradcheck(rosenbrock, NULL, &p, 1, NULL));
    assert_false(gd_grad_enabled(ctx));
    gd_no_grad_end(ctx);
}

static void a_function_that_fails_is_reported(void **state)
{
    (void)state;
    gd_tensor *p = VECTOR(ctx, 1, 2), *out;
    assert_int_equal(gd_hvp(failing, NULL, &p, 1, &p, &out), GD_CALLBACK);
    assert_error(ctx, GD_CALLBACK, "hvp: the function returned NULL");
    assert_null(out);
    assert_null(gd_jvp(failing, NULL, &p, 1, &p));
    assert_error(ctx, GD_CALLBACK, "jvp: the function returned NULL");
    assert_int_equal(gd_jacobian(failing, NULL, &p, 1, &out), GD_CALLBACK);
    assert_error(ctx, GD_CALLBACK, "jacobian: the function returned NULL");
    assert_null(gd_hessian(failing, NULL, &p, 1));
    assert_error(ctx, GD_CALLBACK, "hessian: the function returned NULL");
    assert_int_equal(gd_gradcheck(failing, NULL, &p, 1, NULL), GD_CALLBACK);
    assert_error(ctx, GD_CALLBACK, "gradcheck: the function returned NULL");
    /* a vector has no Hessian */
    gd_tensor *in[] = {p, p}, *two[2];
    assert_null(gd_hessian(three, NULL, in, 2));
    assert_error(ctx, GD_SHAPE, "backward: the output has shape [out=3]");
    assert_int_equal(gd_hvp(three, NULL, in, 2, in, two), GD_SHAPE);
    gd_clear_error(ctx);
    gd_tensor *wrong = VECTOR(ctx, 1, 2, 3);
    assert_int_equal(gd_hvp(rosenbrock, NULL, &p, 1, &wrong, &out), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "hvp: vector 0 is [3], the input [2]");
    assert_null(gd_jvp(rosenbrock, NULL, &p, 1, &wrong));
    assert_error(ctx, GD_SHAPE, "jvp: vector 0 is [3], the input [2]");
    assert_true(gd_grad_enabled(ctx));
}

/* ---- gradcheck ---- */

/* A square whose gradient is only half right: one factor is cut from the graph. */
static gd_tensor *half_a_square(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    return gd_mul(in[0], gd_detach(in[0]));
}

/* Right to first order: x^3 with a second derivative that misses a part. */
static gd_tensor *cube_cut_late(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    gd_tensor *x = in[0], *tangent = gd_mul_scalar(gd_square(gd_detach(x)), 3);
    gd_tensor *value = gd_detach(gd_mul(gd_square(x), x));
    return gd_add(value, gd_mul(tangent, gd_sub(x, gd_detach(x))));
}

static void gradcheck_passes_what_is_right(void **state)
{
    (void)state;
    gd_gradcheck_options second = gd_gradcheck_defaults();
    second.order = 2;
    gd_tensor *p = VECTOR(ctx, px, py), *in[] = {VECTOR(ctx, a0, a1), VECTOR(ctx, b0, b1)};
    assert_ok(gd_gradcheck(rosenbrock, NULL, &p, 1, NULL));
    assert_ok(gd_gradcheck(three, NULL, in, 2, &second));
    assert_ok(gd_gradcheck(constant, ctx, &p, 1, &second));
    assert_values(p, px, py);
}

static void gradcheck_finds_a_wrong_gradient(void **state)
{
    (void)state;
    gd_tensor *p = VECTOR(ctx, 1, 2);
    assert_int_equal(gd_gradcheck(half_a_square, NULL, &p, 1, NULL), GD_MISMATCH);
    assert_error(ctx, GD_MISMATCH, "gradcheck: input 0, element 0: analytic ");
    assert_values(p, 1, 2);
    gd_gradcheck_options o = gd_gradcheck_defaults();
    assert_ok(gd_gradcheck(cube_cut_late, NULL, &p, 1, &o));
    o.order = 2;
    assert_int_equal(gd_gradcheck(cube_cut_late, NULL, &p, 1, &o), GD_MISMATCH);
    gd_clear_error(ctx);
}

static void gradcheck_refuses_what_it_cannot_check(void **state)
{
    (void)state;
    gd_tensor *narrow = gd_ones(ctx, GD_F32, 1, (int64_t[]){2}), *p = VECTOR(ctx, 1, 2);
    assert_int_equal(gd_gradcheck(linear, NULL, &narrow, 1, NULL), GD_DTYPE);
    assert_error(ctx, GD_DTYPE, "gradcheck: input 0 is f32, not f64");
    gd_tensor *spread = gd_expand(p, 2, (int64_t[]){3, 2});
    assert_int_equal(gd_gradcheck(linear, NULL, &spread, 1, NULL), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "gradcheck: input 0 is an expanded view");
    assert_int_equal(gd_gradcheck(linear, NULL, &p, 0, NULL), GD_ARGUMENT);
    assert_int_equal(gd_gradcheck(linear, NULL, (gd_tensor *[]){p, NULL}, 2, NULL), GD_ARGUMENT);
    gd_clear_error(ctx);
}

/* A finite difference that is not a number is never taken for agreement. */
static gd_tensor *not_a_number(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    return gd_log(gd_neg(gd_square(in[0])));
}

static void gradcheck_does_not_accept_nan(void **state)
{
    (void)state;
    gd_tensor *p = VECTOR(ctx, 1, 2);
    assert_int_equal(gd_gradcheck(not_a_number, NULL, &p, 1, NULL), GD_MISMATCH);
    gd_clear_error(ctx);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hessian_of_rosenbrock),
        TEST(hessian_of_several_named_inputs),
        TEST(hessian_of_what_has_none),
        TEST(jacobian_of_two_inputs),
        TEST(derivatives_keep_names),
        TEST(jacobian_times_vector),
        TEST(derivatives_are_taken_inside_no_grad_too),
        TEST(a_function_that_fails_is_reported),
        TEST(gradcheck_passes_what_is_right),
        TEST(gradcheck_finds_a_wrong_gradient),
        TEST(gradcheck_refuses_what_it_cannot_check),
        TEST(gradcheck_does_not_accept_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
