/* Reverse mode: what is accumulated where, lives of graphs, changes in place, deep and wide graphs. */
#include "tensor/device.h"
#include "tensor/elementwise.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#include "autograd/graph_support.h"

#include <math.h>
#include <sys/resource.h>

static gd_tensor *leaf(double a, double b) { return gd_require_grad(VECTOR(ctx, a, b)); }

/* ---- accumulation ---- */

static void backward_accumulates_into_grad(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2);
    assert_null(gd_grad_of(x));
    assert_ok(gd_backward(total(gd_square(x)), NULL, 0));
    assert_values(gd_grad_of(x), 2, 4);
    assert_ok(gd_backward(total(gd_mul_scalar(x, 10)), NULL, 0));
    assert_values(gd_grad_of(x), 12, 14);
    gd_zero_grad(x);
    assert_null(gd_grad_of(x));
    assert_ok(gd_backward(total(x), NULL, 0));
    assert_values(gd_grad_of(x), 1, 1);
}

static void a_tensor_used_twice_gets_both_gradients(void **state)
{
    (void)state;
    gd_tensor *x = leaf(3, 5), *y = gd_exp(gd_mul_scalar(x, 0));
    assert_ok(gd_backward(total(gd_add(gd_mul(x, x), gd_mul(y, x))), NULL, 0));
    assert_values(gd_grad_of(x), 7, 11);
}

static void a_seed_weighs_the_outputs(void **state)
{
    (void)state;
    gd_tensor *x = leaf(3, 5);
    assert_ok(gd_backward(gd_square(x), VECTOR(ctx, 1, 10), 0));
    assert_values(gd_grad_of(x), 6, 100);
    assert_int_equal(gd_backward(gd_square(x), NULL, 0), GD_SHAPE);
    assert_error(ctx, GD_SHAPE,
                 "backward: the output has shape [2]; give a seed or reduce it to one element");
    assert_int_equal(gd_backward(gd_square(x), VECTOR(ctx, 1, 2, 3), 0), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "backward: the seed is f64 [3], the output f64 [2]");
    gd_tensor *narrow = gd_ones(ctx, GD_F32, 1, (int64_t[]){2});
    assert_int_equal(gd_backward(gd_square(x), narrow, 0), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "backward: the seed is f32 [2], the output f64 [2]");
}

/* The gradient of a leaf by itself is the seed, in memory of its own. */
static void a_leaf_is_its_own_output(void **state)
{
    (void)state;
    gd_tensor *x = leaf(3, 5), *seed = VECTOR(ctx, 1, 10);
    assert_ok(gd_backward(x, seed, 0));
    assert_ok(gd_fill(seed, 77));
    assert_values(gd_grad_of(x), 1, 10);
    gd_tensor *one = gd_require_grad(gd_scalar(ctx, GD_F64, 4)), *grad;
    assert_ok(gd_grad(one, NULL, &one, 1, 0, &grad));
    assert_values(grad, 1);
}

/* The gradients of leaves are their own, contiguous memory: changing one changes nothing else. */
static void leaf_gradients_share_no_memory(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = leaf(3, 4), *seed = VECTOR(ctx, 5, 6);
    assert_ok(gd_backward(gd_add(x, y), seed, 0));
    assert_ok(gd_fill(gd_grad_of(x), 0));
    assert_values(gd_grad_of(y), 5, 6);
    assert_values(seed, 5, 6);
    gd_tensor *z = leaf(1, 2);
    assert_ok(gd_backward(total(z), NULL, 0)); /* an expanded one */
    assert_true(gd_is_contiguous(gd_grad_of(z)));
    assert_ok(gd_fill(gd_index(gd_grad_of(z), "0", 0), 9));
    assert_values(gd_grad_of(z), 9, 1);
}

static void gradients_can_be_set_and_must_fit(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *g = VECTOR(ctx, 7, 8);
    assert_ok(gd_set_grad(x, g));
    assert_ptr_equal(gd_grad_of(x), g);
    assert_ok(gd_backward(total(x), NULL, 0));
    assert_values(gd_grad_of(x), 8, 9);
    assert_int_equal(gd_set_grad(x, VECTOR(ctx, 1)), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "set_grad: f64 [1] is no gradient of f64 [2]");
    assert_int_equal(gd_set_grad(x, gd_zeros(ctx, GD_I64, 1, (int64_t[]){2})), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "set_grad: i64 [2] is no gradient of f64 [2]");
    assert_ok(gd_set_grad(x, NULL));
    assert_null(gd_grad_of(x));
}

/* ---- who has gradients ---- */

static void only_floating_leaves_may_want_gradients(void **state)
{
    (void)state;
    gd_tensor *i = gd_ones(ctx, GD_I32, 1, (int64_t[]){2}), *x = leaf(1, 2), *y = gd_exp(x);
    assert_null(gd_require_grad(i));
    assert_error(ctx, GD_DTYPE, "require_grad: i32 has no gradients; only floating dtypes do");
    assert_null(gd_require_grad(y));
    assert_error(ctx, GD_GRAPH, "require_grad: the tensor is the result of 'exp', not a leaf; detach it");
    assert_true(gd_is_leaf(x) && !gd_is_leaf(y) && !gd_is_leaf(NULL));
    assert_true(gd_requires_grad(x) && gd_requires_grad(y) && !gd_requires_grad(i) &&
                !gd_requires_grad(NULL));
    assert_ok(gd_set_requires_grad(x, false));
    assert_false(gd_requires_grad(gd_exp(x)));
    gd_tensor *plain = VECTOR(ctx, 1, 2);
    assert_false(gd_requires_grad(gd_add(plain, plain)));
    assert_int_equal(gd_backward(total(plain), NULL, 0), GD_GRAPH);
    assert_error(ctx, GD_GRAPH, "backward: the output does not depend on any tensor that wants gradients");
}

static void detach_cuts_the_graph(void **state)
{
    (void)state;
    gd_tensor *x = leaf(2, 3), *y = gd_square(x), *cut = gd_detach(y);
    assert_false(gd_requires_grad(cut));
    assert_ptr_equal(gd_data(cut), gd_data(y));
    assert_ok(gd_backward(total(gd_mul(y, cut)), NULL, 0));
    assert_values(gd_grad_of(x), 2 * 2 * 4, 2 * 3 * 9);
}

static void no_grad_records_nothing(void **state)
{
    (void)state;
    gd_tensor *x = leaf(2, 3);
    assert_true(gd_grad_enabled(ctx));
    gd_no_grad_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_no_grad_end(ctx);
    assert_false(gd_grad_enabled(ctx));
    gd_tensor *y = gd_square(x);
    int previous = gd_enable_grad_begin(ctx);
    assert_true(gd_grad_enabled(ctx));
    gd_tensor *z = gd_square(x);
    gd_enable_grad_end(ctx, previous);
    assert_false(gd_grad_enabled(ctx));
    gd_no_grad_end(ctx);
    gd_no_grad_end(ctx); /* one too many does nothing */
    assert_true(gd_grad_enabled(ctx));
    assert_false(gd_requires_grad(y));
    assert_true(gd_requires_grad(z));
}

static void integer_results_stop_gradients(void **state)
{
    (void)state;
    gd_tensor *x = leaf(2.5, -3.5);
    assert_false(gd_requires_grad(gd_gt(x, x)));
    assert_false(gd_requires_grad(gd_argmax(x, NULL, false)));
    assert_false(gd_requires_grad(gd_cast(x, GD_I32)));
    assert_false(gd_requires_grad(gd_floor(x)));
    assert_true(gd_requires_grad(gd_cast(x, GD_F32)));
    /* a gradient comes back in the dtype of its leaf */
    assert_ok(gd_backward(total(gd_cast(x, GD_F32)), NULL, 0));
    assert_int_equal(gd_tensor_dtype(gd_grad_of(x)), GD_F64);
}

/* ---- gd_grad ---- */

static void grad_returns_and_leaves_grad_alone(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = leaf(3, 4), *inputs[] = {x, y}, *g[2];
    assert_ok(gd_grad(total(gd_mul(x, gd_square(y))), NULL, inputs, 2, 0, g));
    assert_values(g[0], 9, 16);
    assert_values(g[1], 6, 16);
    assert_null(gd_grad_of(x));
}

static void grad_of_inner_tensors(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = gd_square(x), *z = gd_mul(y, x), *inputs[] = {y, x, z}, *g[3];
    assert_ok(gd_grad(total(z), NULL, inputs, 3, 0, g));
    assert_values(g[0], 1, 2);
    assert_values(g[1], 3, 12);
    assert_values(g[2], 1, 1);
    /* named inner tensors too */
    gd_tensor *named = gd_rename(gd_exp(x), "k"), *inner;
    assert_ok(gd_grad(total(gd_mul_scalar(named, 3)), NULL, &named, 1, 0, &inner));
    assert_values(inner, 3, 3);
    assert_string_equal(gd_axis_name(inner, 0), "k");
}

static void what_the_output_does_not_use(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = gd_rename(leaf(3, 4), "k"), *inputs[] = {x, y}, *g[2];
    assert_ok(gd_grad(total(gd_square(x)), NULL, inputs, 2, 0, g));
    assert_values(g[1], 0, 0);
    assert_string_equal(gd_axis_name(g[1], 0), "k");
    assert_ok(gd_grad(total(gd_square(x)), NULL, inputs, 2, GD_ALLOW_UNUSED, g));
    assert_non_null(g[0]);
    assert_null(g[1]);
    assert_no_error(ctx);
    /* the same input twice */
    gd_tensor *twice[] = {x, x};
    assert_ok(gd_grad(total(gd_square(x)), NULL, twice, 2, 0, g));
    assert_values(g[0], 2, 4);
    assert_values(g[1], 2, 4);
    gd_tensor *holed[] = {x, NULL};
    assert_int_equal(gd_grad(total(gd_square(x)), NULL, holed, 2, 0, g), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "grad: an operand is NULL");
}

/* ---- lives of graphs ---- */

static void a_graph_serves_one_backward(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = total(gd_exp(x));
    assert_ok(gd_backward(y, NULL, 0));
    assert_int_equal(gd_backward(y, NULL, 0), GD_GRAPH);
    assert_error(ctx, GD_GRAPH,
                 "backward: the graph of 'sum' was freed by an earlier backward; pass GD_RETAIN_GRAPH there");
    /* a shared inner part was freed with it */
    gd_tensor *inner = gd_square(x), *a = total(inner), *b = total(gd_neg(inner));
    assert_ok(gd_backward(a, NULL, 0));
    assert_int_equal(gd_backward(b, NULL, 0), GD_GRAPH);
    assert_error(ctx, GD_GRAPH, "backward: the graph of 'square' was freed");
}

static void a_retained_graph_serves_again(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = total(gd_square(x)), *g;
    assert_ok(gd_backward(y, NULL, GD_RETAIN_GRAPH));
    assert_ok(gd_grad(y, NULL, &x, 1, GD_RETAIN_GRAPH, &g));
    assert_ok(gd_backward(y, NULL, 0));
    assert_values(gd_grad_of(x), 4, 8);
    assert_values(g, 2, 4);
    assert_int_equal(gd_backward(y, NULL, 0), GD_GRAPH);
    gd_clear_error(ctx);
}

static void backward_frees_what_the_graph_held(void **state)
{
    (void)state;
    gd_tensor *x = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){10000}));
    gd_scope_begin(ctx);
    gd_tensor *y = gd_keep(total(gd_exp(gd_sin(gd_square(x)))));
    gd_scope_end(ctx);
    int64_t held = test_memory()->bytes;
    assert_ok(gd_backward(y, NULL, 0));
    gd_zero_grad(x);
    assert_true(held - test_memory()->bytes >= 2 * 80000); /* the results of square and exp */
}

/* Values that no rule needs are not kept alive by the graph. */
static void a_graph_holds_no_values_it_does_not_need(void **state)
{
    (void)state;
    gd_tensor *x = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){10000}));
    int64_t before = test_memory()->bytes;
    gd_scope_begin(ctx);
    gd_tensor *y = x;
    for (int i = 0; i < 50; i++) y = gd_add_scalar(gd_neg(y), 1);
    y = gd_keep(total(y));
    gd_scope_end(ctx);
    assert_true(test_memory()->bytes - before < 80000);
    assert_ok(gd_backward(y, NULL, 0));
    assert_true(gd_at(gd_grad_of(x), (int64_t[]){0}) == 1);
}

static void gradients_of_gradients(void **state)
{
    (void)state;
    gd_tensor *x = leaf(2, 3), *g, *h, *t;
    assert_ok(gd_grad(total(gd_mul(gd_square(x), gd_square(x))), NULL, &x, 1, GD_CREATE_GRAPH, &g));
    assert_values(g, 4 * 8, 4 * 27);
    assert_ok(gd_grad(total(g), NULL, &x, 1, GD_CREATE_GRAPH, &h));
    assert_values(h, 12 * 4, 12 * 9);
    assert_ok(gd_grad(total(h), NULL, &x, 1, 0, &t));
    assert_values(t, 24 * 2, 24 * 3);
    /* into .grad, which then has a history */
    gd_tensor *y = leaf(2, 3);
    assert_ok(gd_backward(total(gd_mul(gd_square(y), y)), NULL, GD_CREATE_GRAPH));
    gd_tensor *first = gd_grad_of(y);
    assert_true(gd_requires_grad(first));
    gd_tensor *second;
    assert_ok(gd_grad(total(first), NULL, &y, 1, 0, &second));
    assert_values(second, 12, 18);
    gd_zero_grad(y);
}

/* A penalty on the gradient, as in training: the second backward goes through the first. */
static void a_gradient_penalty(void **state)
{
    (void)state;
    gd_tensor *x = leaf(0.5, -1), *g;
    gd_tensor *loss = total(gd_exp(x));
    assert_ok(gd_grad(loss, NULL, &x, 1, GD_CREATE_GRAPH, &g));
    assert_ok(gd_backward(gd_add(loss, total(gd_square(g))), NULL, 0));
    assert_values(gd_grad_of(x), exp(0.5) + 2 * exp(1), exp(-1) + 2 * exp(-2));
}

/* ---- changes in place ---- */

static void a_changed_operand_is_reported(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *w = VECTOR(ctx, 3, 4), *y = total(gd_mul(x, w));
    assert_ok(gd_fill(w, 9));
    assert_int_equal(gd_backward(y, NULL, 0), GD_GRAPH);
    assert_error(ctx, GD_GRAPH, "backward: operand 1 of 'mul' was changed in place after it was used");
    assert_null(gd_grad_of(x));
}

static void a_change_through_a_view_is_reported(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *w = VECTOR(ctx, 3, 4), *last = gd_slice(w, "0", 1, 2, 1);
    gd_tensor *y = total(gd_mul(x, w));
    assert_ok(gd_add_into(last, gd_scalar(ctx, GD_F64, 1), 1));
    assert_int_equal(gd_backward(y, NULL, 0), GD_GRAPH);
    gd_clear_error(ctx);
    y = total(gd_mul(x, w));
    ((double *)gd_data_mut(last))[0] = 5;
    assert_int_equal(gd_backward(y, NULL, 0), GD_GRAPH);
    gd_clear_error(ctx);
}

static void a_changed_result_is_reported(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = gd_exp(x), *z = total(y);
    assert_ok(gd_write_f64(y, (double[]){0, 0}, 2));
    assert_int_equal(gd_backward(z, NULL, 0), GD_GRAPH);
    assert_error(ctx, GD_GRAPH,
                 "backward: the result of 'exp' was changed in place; its old values are needed");
    /* also one that is not the first of several results */
    gd_tensor *a = gd_require_grad(MATRIX(ctx, 2, 2, 2, 0.5, 0.5, 1)), *values, *vectors;
    assert_ok(gd_eigh(a, &values, &vectors));
    assert_ok(gd_fill(vectors, 0));
    assert_int_equal(gd_backward(total(values), NULL, 0), GD_GRAPH);
    assert_error(ctx, GD_GRAPH, "backward: the result of 'eigh' was changed in place");
}

static void a_change_that_no_rule_sees_is_fine(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *w = VECTOR(ctx, 3, 4);
    gd_tensor *y = gd_add(x, w), *z = total(y);
    assert_ok(gd_fill(w, 9));
    assert_ok(gd_fill(y, 9));
    assert_ok(gd_backward(z, NULL, 0));
    assert_values(gd_grad_of(x), 1, 1);
    /* a leaf may be changed between graphs: an optimizer's step */
    assert_ok(gd_add_into(x, gd_grad_of(x), -1));
    gd_zero_grad(x);
    assert_ok(gd_backward(total(gd_square(x)), NULL, 0));
    assert_values(gd_grad_of(x), 0, 2);
}

static void a_step_inside_a_graph_is_reported(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = total(gd_square(x));
    assert_ok(gd_add_into(x, VECTOR(ctx, 1, 1), 1));
    assert_int_equal(gd_backward(y, NULL, 0), GD_GRAPH);
    assert_error(ctx, GD_GRAPH, "backward: operand 0 of 'square' was changed in place");
}

/* ---- errors ---- */

static void an_earlier_error_stops_backward(void **state)
{
    (void)state;
    gd_tensor *x = leaf(1, 2), *y = total(gd_square(x));
    (void)gd_index(x, "0", 9);
    assert_int_equal(gd_backward(y, NULL, 0), GD_INDEX);
    assert_error(ctx, GD_INDEX, "index: 9");
    assert_null(gd_grad_of(x));
    assert_ok(gd_backward(y, NULL, 0));
}

/* ---- large graphs ---- */

#ifdef __SANITIZE_ADDRESS__
#define DEPTH 200000
#else
#define DEPTH 1000000
#endif

/* A million operators deep, on a small stack. */
static void a_deep_graph_neither_overflows_nor_leaks(void **state)
{
    (void)state;
    gd_ctx *pooled = context(NULL, 1, NULL), *own = ctx;
    ctx = pooled;
    for (int run = 0; run < 2; run++) {
        gd_tensor *x = gd_require_grad(gd_scalar(ctx, GD_F64, 1)), *y = gd_retain(x);
        for (int i = 0; i < DEPTH; i++) {
            gd_scope_begin(ctx);
            gd_tensor *next = gd_retain(i % 2 ? gd_neg(y) : gd_mul_scalar(y, -1));
            gd_scope_end(ctx);
            gd_release(y);
            y = next;
        }
        assert_true(gd_ctx_live(ctx) >= DEPTH);
        if (run == 0) {
            assert_ok(gd_backward(y, NULL, 0));
            assert_values(gd_grad_of(x), 1);
        }
        gd_release(y); /* without a backward the whole chain goes at once */
        gd_release(x);
        assert_int_equal(gd_ctx_live(ctx), 0);
    }
    ctx = own;
    end_context(pooled, NULL);
}

static void a_wide_graph(void **state)
{
    (void)state;
    enum { WIDTH = 2000 };
    gd_tensor *x = gd_require_grad(gd_scalar(ctx, GD_F64, 2)), *part[WIDTH];
    for (int i = 0; i < WIDTH; i++) part[i] = gd_mul_scalar(gd_square(x), i);
    assert_ok(gd_backward(total(gd_stack(part, WIDTH, 0, NULL)), NULL, 0));
    assert_values(gd_grad_of(x), 4.0 * WIDTH * (WIDTH - 1) / 2);
}

/* Paths of different length meet again: every node is visited once, after all of its users. */
static void diamonds(void **state)
{
    (void)state;
    gd_tensor *x = gd_require_grad(gd_scalar(ctx, GD_F64, 1)), *y = x;
    for (int i = 0; i < 60; i++) y = gd_mul_scalar(gd_add(y, gd_neg(gd_neg(y))), 0.5);
    assert_ok(gd_backward(y, NULL, 0));
    assert_values(gd_grad_of(x), 1);
}

/* ---- pieces of one tensor ---- */

static int64_t copies;
static const gd_backend *real;

static gd_status copies_counted(gd_device *device, const gd_call *call)
{
    copies += call->op == GD_OP_cast || call->op == GD_OP_copy;
    return real->run(device, call);
}

/* loss = sum of c o (piece_k w) (k + 1), so the gradient of piece k is (k + 1) c w^T; every `skip`-th piece is not used. */
static void check_pieces(int count, int skip, bool again)
{
    double c[] = {1, 2, 3, 5, 8, 13}, w[] = {1, -1, 2, 0.5, 3, 7, 0.25, -4}, got[64 * 12];
    gd_tensor *x = gd_require_grad(gd_ones(ctx, GD_F64, 3, (int64_t[]){count, 3, 4}));
    gd_tensor *weight = gd_from_data(ctx, GD_F64, 2, (int64_t[]){4, 2}, w), *piece[64], *grad;
    gd_tensor *factor = gd_from_data(ctx, GD_F64, 2, (int64_t[]){3, 2}, c), *loss = gd_scalar(ctx, GD_F64, 0);
    assert_ok(gd__split(gd_mul_scalar(x, 1), count, piece));
    for (int k = 0; k < count; k++)
        if ((k + 1) % skip)
            loss = gd_add(loss, total(gd_mul(gd__product(piece[k], weight), gd_mul_scalar(factor, k + 1))));
    copies = 0;
    assert_ok(gd_grad(loss, NULL, &x, 1, again ? GD_CREATE_GRAPH : 0, &grad));
    if (!again)
        assert_int_equal(copies, skip > count ? 0 : count / skip); /* nothing but the zeros of those */
    assert_ok(gd_read_f64(grad, got, 12 * count));
    for (int i = 0; i < 12 * count; i++) {
        int k = i / 12, row = i / 4 % 3, column = i % 4;
        double want = c[2 * row] * w[2 * column] + c[2 * row + 1] * w[2 * column + 1];
        assert_float_equal(got[i], ((k + 1) % skip ? (k + 1) * want : 0), 1e-12);
    }
}

static void gradients_of_any_number_of_pieces_are_written_side_by_side(void **state)
{
    (void)state;
    gd_device *cpu = gd_device_get(ctx, "cpu");
    gd_backend watched = *cpu->backend;
    real = cpu->backend;
    watched.run = copies_counted;
    cpu->backend = &watched;
    static const int counts[] = {1, 2, 3, 5, 17, GD_MAX_SPLIT};
    for (int i = 0; i < COUNT_OF(counts); i++) {
        check_pieces(counts[i], 1000, false);
        check_pieces(counts[i], 1000, true);
        if (counts[i] > 2) check_pieces(counts[i], 3, false);
    }
    cpu->backend = real;
}

static void a_split_is_of_as_many_pieces_as_the_axis_has(void **state)
{
    (void)state;
    gd_tensor *piece[GD_MAX_SPLIT + 1];
    assert_int_equal(gd__split(gd_ones(ctx, GD_F64, 2, (int64_t[]){4, 2}), 3, piece), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "split: 3 pieces (at most 64) of an axis of 4");
    assert_int_equal(gd__split(gd_ones(ctx, GD_F64, 1, (int64_t[]){65}), 65, piece), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "split: 65 pieces");
}

/* In one pass over memory, or by operators that can be differentiated again. */
static void the_slope_of_relu_is_the_same_to_first_and_second_order(void **state)
{
    (void)state;
    double at[] = {-INFINITY, -2, -0x1p-1074, -0.0, 0, 0x1p-1074, 3, INFINITY, NAN};
    double seed[] = {1, NAN, INFINITY, -0.0, -1, -0.0, NAN, -INFINITY, 5};
    double slope[COUNT_OF(at)] = {0, 0, 0, 0, 0, -0.0, NAN, -INFINITY, 0}, once[COUNT_OF(at)],
           twice[COUNT_OF(at)];
    int64_t n = COUNT_OF(at);
    gd_tensor *x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, &n, at)),
              *s = gd_from_f64(ctx, GD_F64, 1, &n, seed), *g;
    assert_ok(gd_grad(gd_relu(x), s, &x, 1, 0, &g));
    assert_int_equal(gd_read_f64(g, once, n), GD_OK);
    assert_ok(gd_grad(gd_relu(x), s, &x, 1, GD_CREATE_GRAPH, &g));
    assert_int_equal(gd_read_f64(g, twice, n), GD_OK);
    assert_memory_equal(once, twice, sizeof once);
    assert_memory_equal(once, slope, sizeof once);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

/* Gradients that nobody differentiates again come from one pass over memory: the bits are those of the passes one by one, which are
 * taken where they may be differentiated again. */
static void gradients_in_one_pass_have_the_bits_of_several(void **state)
{
    (void)state;
    enum { ROWS = 13, COLUMNS = 97, N = ROWS * COLUMNS };
    static double x_of[N], g_of[N], want[N], got[N];
    const double settings[] = {3, -2, 0.5, 1.7};
    const int64_t size[2] = {ROWS, COLUMNS};
    uint64_t random = 7;
    int seen = 0;
    for (gd_op_id op = 0; op < GD_OP_COUNT; op++)
        for (int way = 0; gd__has_slope(op) && way < 8; way++) {
            gd_dtype dtype = way % 2 ? GD_F64 : GD_F32;
            for (int i = 0; i < N; i++) {
                x_of[i] = i % 50 == 0 ? -0.0 : i % 51 == 0 ? INFINITY : 3 * random_unit(&random) - 1;
                g_of[i] = random_unit(&random) - 0.5;
            }
            gd_tensor *x = gd_from_f64(ctx, dtype, 2, size, x_of),
                      *g = gd_from_f64(ctx, dtype, 2, size, g_of), *in = x;
            gd_require_grad(x);
            if (way % 4 > 1) in = gd_transpose(x, 0, 1), g = gd_transpose(g, 0, 1);
            gd_attrs attrs = {.nf = 1, .f = {settings[way / 2]}};
            gd_tensor *y = gd__run1(op, &in, 1, &attrs, gd_empty(ctx, dtype, 2, gd_shape(in))), *again, *once;
            assert_ok(gd_grad(y, g, &x, 1, GD_CREATE_GRAPH, &again));
            assert_ok(gd_grad(y, g, &x, 1, 0, &once));
            assert_ok(gd_read_f64(again, want, N));
            assert_ok(gd_read_f64(once, got, N));
            for (int i = 0; i < N; i++)
                if (memcmp(&want[i], &got[i], sizeof *got) && !(isnan(want[i]) && isnan(got[i])))
                    fail_msg("%s of %a: %a, not %a", gd__ops[op].name, x_of[i], got[i], want[i]);
            seen++;
        }
    assert_true(seen > 8 * 15);
}

int main(void)
{
    /* recursion over a graph would show */
    struct rlimit limit = {512 * 1024, 512 * 1024};
    (void)setrlimit(RLIMIT_STACK, &limit);
    const struct CMUnitTest tests[] = {
        TEST(backward_accumulates_into_grad),
        TEST(a_tensor_used_twice_gets_both_gradients),
        TEST(a_seed_weighs_the_outputs),
        TEST(a_leaf_is_its_own_output),
        TEST(leaf_gradients_share_no_memory),
        TEST(gradients_can_be_set_and_must_fit),
        TEST(only_floating_leaves_may_want_gradients),
        TEST(detach_cuts_the_graph),
        TEST(no_grad_records_nothing),
        TEST(integer_results_stop_gradients),
        TEST(grad_returns_and_leaves_grad_alone),
        TEST(grad_of_inner_tensors),
        TEST(what_the_output_does_not_use),
        TEST(a_graph_serves_one_backward),
        TEST(a_retained_graph_serves_again),
        TEST(backward_frees_what_the_graph_held),
        TEST(a_graph_holds_no_values_it_does_not_need),
        TEST(gradients_of_gradients),
        TEST(a_gradient_penalty),
        TEST(a_changed_operand_is_reported),
        TEST(a_change_through_a_view_is_reported),
        TEST(a_changed_result_is_reported),
        TEST(a_change_that_no_rule_sees_is_fine),
        TEST(a_step_inside_a_graph_is_reported),
        TEST(an_earlier_error_stops_backward),
        TEST(a_deep_graph_neither_overflows_nor_leaks),
        TEST(a_wide_graph),
        TEST(diamonds),
        TEST(gradients_of_any_number_of_pieces_are_written_side_by_side),
        TEST(a_split_is_of_as_many_pieces_as_the_axis_has),
        TEST(the_slope_of_relu_is_the_same_to_first_and_second_order),
        TEST(gradients_in_one_pass_have_the_bits_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
