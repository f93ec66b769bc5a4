/* Axes: how named and labelled operands meet, what results carry, and the texts when they do not fit. */
#include "support/own_context.h"

/* Numbers 0, 1, 2, ... in a shape with names. */
static gd_tensor *counting(const char *names, int ndim, const int64_t *size)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= size[i];
    return gd_rename(gd_reshape(gd_arange(ctx, GD_F64, 0, (double)n, 1), ndim, size), names);
}

#define COUNTING(names, ...) \
    counting(names, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* "batch, _, feature" of a tensor, for comparison. */
static const char *names_of(const gd_tensor *t)
{
    static char text[256];
    text[0] = 0;
    for (int i = 0; i < gd_ndim(t); i++) {
        const char *name = gd_axis_name(t, i);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "", name ? name : "_");
    }
    return text;
}

#define assert_axes(t, names, ...)               \
    do {                                         \
        assert_shape(t, __VA_ARGS__);            \
        assert_string_equal(names_of(t), names); \
    } while (0)

/* ---- meeting by name ---- */

static void axes_meet_by_name_whatever_their_order(void **state)
{
    (void)state;
    gd_tensor *a = COUNTING("row, col", 2, 3), *b = COUNTING("col, row", 3, 2);
    gd_tensor *sum = gd_add(a, b);
    assert_axes(sum, "row, col", 2, 3);
    assert_values(sum, 0, 3, 6, 4, 7, 10);
    assert_axes(gd_add(b, a), "col, row", 3, 2);
    assert_values(gd_add(b, a), 0, 4, 3, 7, 6, 10);
}

static void a_missing_name_broadcasts(void **state)
{
    (void)state;
    gd_tensor *x = COUNTING("batch, feature", 2, 3);
    gd_tensor *per_batch = COUNTING("batch", 2), *per_feature = COUNTING("feature", 3);
    assert_values(gd_sub(x, per_batch), 0, 1, 2, 2, 3, 4);
    assert_values(gd_sub(x, per_feature), 0, 0, 0, 3, 3, 3);
    /* the operand with all the axes gives their order, on either side */
    assert_axes(gd_sub(per_batch, x), "batch, feature", 2, 3);
    assert_values(gd_sub(per_batch, x), 0, -1, -2, -2, -3, -4);
    gd_tensor *outer = gd_mul(per_batch, per_feature);
    assert_axes(outer, "batch, feature", 2, 3);
    assert_values(outer, 0, 0, 0, 0, 1, 2);
    assert_axes(gd_mul(per_feature, per_batch), "feature, batch", 3, 2);
}

static void anonymous_axes_meet_from_the_right(void **state)
{
    (void)state;
    gd_tensor *x = COUNTING("batch, _, _", 2, 2, 3), *row = COUNTING("_", 3),
              *column = COUNTING("_, _", 2, 1);
    assert_axes(gd_add(x, row), "batch, _, _", 2, 2, 3);
    assert_values(gd_add(x, row), 0, 2, 4, 3, 5, 7, 6, 8, 10, 9, 11, 13);
    assert_values(gd_add(x, column), 0, 1, 2, 4, 5, 6, 6, 7, 8, 10, 11, 12);
    /* beside another name, names between anonymous axes do not count; new names go behind the last name */
    gd_tensor *mixed = COUNTING("_, name, _", 2, 1, 3);
    assert_axes(gd_add(mixed, COUNTING("_, _, name", 2, 3, 1)), "_, name, _", 2, 1, 3);
    assert_values(gd_add(mixed, COUNTING("_, _, name", 2, 3, 1)), 0, 2, 4, 6, 8, 10);
    assert_axes(gd_add(COUNTING("_, a", 3, 2), COUNTING("_, b", 3, 2)), "_, a, b", 3, 2, 2);
}

/* Without names on one side axes meet by place, as in NumPy: never an outer product. */
static void no_names_meet_names_by_place(void **state)
{
    (void)state;
    gd_tensor *x = COUNTING("i", 3), *y = VECTOR(ctx, 1, 2, 4);
    assert_axes(gd_sub(x, y), "i", 3);
    assert_values(gd_sub(x, y), -1, -1, -2);
    assert_axes(gd_sub(y, x), "i", 3);
    assert_values(gd_mse(x, y), 2);
    assert_axes(gd_where(gd_gt(y, x), x, y), "i", 3);
    gd_tensor *table = COUNTING("row, col", 2, 3), *deep = COUNTING("_, _, _", 2, 2, 3);
    assert_axes(gd_add(y, table), "row, col", 2, 3);
    assert_values(gd_add(y, table), 1, 3, 6, 4, 6, 9);
    assert_axes(gd_add(table, COUNTING("_, _", 2, 1)), "row, col", 2, 3);
    assert_axes(gd_add(deep, table), "_, row, col", 2, 2, 3);
    assert_axes(gd_add(COUNTING("_, name, _", 2, 1, 3), COUNTING("_, _", 2, 3)), "_, name, _", 2, 2, 3);
    /* labels of the side that has some, also without names on both */
    gd_tensor *abc = gd_with_labels(VECTOR(ctx, 1, 2, 3), "0", (const char *[]){"a", "b", "c"}),
              *cab = gd_with_labels(COUNTING("i", 3), "i", (const char *[]){"c", "a", "b"});
    assert_string_equal(gd_axis_label(gd_add(table, abc), 1, 2), "c");
    assert_axes(gd_add(cab, abc), "i", 3);
    assert_values(gd_add(cab, abc), 3, 2, 4);
    assert_values(gd_add(abc, cab), 2, 4, 3);
    /* with three operands those with names join first: (x + y) + z may be another than x + (y + z) */
    gd_tensor *column = COUNTING("col", 3), *row = COUNTING("row", 2), *square = COUNTING("_, _", 2, 3);
    assert_axes(gd_fma(square, row, column), "row, col", 2, 3);
    assert_axes(gd_fma(column, row, gd_transpose(square, 0, 1)), "col, row", 3, 2);
}

static void an_axis_without_name_beside_a_name_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *left, *right, *text;
    } bad[] = {
        {"batch, _", "batch, feature",
         "add: axis 1 of [batch=3, 3] has no name and axis 'feature' of [batch=3, feature=3] no partner; name axis 1"},
        {"batch, feature", "_, batch",
         "add: axis 0 of [3, batch=3] has no name and axis 'feature' of [batch=3, feature=3] no partner; name axis 0"},
        {"a, _", "b, _, _", "add: axis 1 of [b=3, 3, 3] has no name and axis 'a' of [a=3, 3] no partner"},
        {"_, a", "b", "add: axis 0 of [3, a=3] has no name and axis 'b' of [b=3] no partner"},
    };
    for (int i = 0; i < COUNT_OF(bad); i++) {
        gd_tensor *side[2];
        const char *names[2] = {bad[i].left, bad[i].right};
        for (int s = 0; s < 2; s++) {
            int n = 1;
            for (const char *p = names[s]; *p; p++) n += *p == ',';
            side[s] = gd_rename(gd_ones(ctx, GD_F64, n, (int64_t[]){3, 3, 3}), names[s]);
        }
        assert_null(gd_add(side[0], side[1]));
        assert_error(ctx, GD_AXIS, bad[i].text);
    }
    /* the axes that one side lacks are not beside each other */
    assert_axes(gd_add(COUNTING("a, b, _", 2, 3, 2), COUNTING("a", 2)), "a, b, _", 2, 3, 2);
}

static void a_scalar_meets_everything(void **state)
{
    (void)state;
    gd_tensor *x = COUNTING("batch, feature", 1, 2), *one = gd_scalar(ctx, GD_F64, 1);
    assert_axes(gd_add(x, one), "batch, feature", 1, 2);
    assert_axes(gd_add(one, x), "batch, feature", 1, 2);
}

static void one_name_with_two_sizes_is_an_error(void **state)
{
    (void)state;
    gd_tensor *a = COUNTING("batch, feature", 32, 4), *b = COUNTING("batch, feature", 16, 4);
    assert_null(gd_add(a, b));
    assert_error(ctx, GD_SHAPE, "add: axis 'batch' has 32 on the left and 16 on the right");
    assert_null(gd_lt(COUNTING("feature, batch", 4, 16), a));
    assert_error(ctx, GD_SHAPE, "lt: axis 'batch' has 16 on the left and 32 on the right");
    /* a size of 1 is broadcast, with a name too: keep_dims */
    assert_axes(gd_mul(a, COUNTING("batch", 1)), "batch, feature", 32, 4);
    assert_axes(gd_sub(gd_mean(a, "feature", true), a), "batch, feature", 32, 4);
    assert_null(gd_add(COUNTING("row, col", 2, 3), COUNTING("_", 4)));
    assert_error(
        ctx, GD_SHAPE,
        "add: axis 'col' has 3 on the left and axis 0 has 4 on the right; shapes [row=2, col=3] and [4]");
    assert_null(gd_fma(a, a, COUNTING("feature", 3)));
    assert_error(ctx, GD_SHAPE, "fma: axis 'feature' has 4 on the left and 3 on the right");
    assert_null(gd_add(COUNTING("_, _", 2, 3), COUNTING("_, _", 2, 4)));
    assert_error(ctx, GD_SHAPE, "add: axis 1 has 3 on the left and 4 on the right; shapes [2, 3] and [2, 4]");
    assert_null(gd_sub(COUNTING("_", 3), COUNTING("_, _", 3, 2)));
    assert_error(ctx, GD_SHAPE, "sub: axis 0 has 3 on the left and 2 on the right; shapes [3] and [3, 2]");
    assert_null(gd_fma(COUNTING("_, _", 1, 1), COUNTING("_", 4), COUNTING("_", 5)));
    assert_error(ctx, GD_SHAPE, "fma: axis 0 has 4 on the left and 5 on the right; shapes [4] and [5]");
    assert_null(
        gd_where(gd_gt(COUNTING("_", 2), COUNTING("_", 2)), COUNTING("_, _", 3, 1), COUNTING("_, _", 4, 1)));
    assert_error(ctx, GD_SHAPE, "where: axis 0 has 3 on the left and 4 on the right");
}

static void too_many_axes_are_an_error(void **state)
{
    (void)state;
    gd_tensor *a = COUNTING("a, b, c, d, e", 1, 1, 1, 1, 1), *b = COUNTING("p, q, r, s", 1, 1, 1, 1);
    assert_null(gd_add(a, b));
    assert_error(ctx, GD_SHAPE, "add: the result would have 9 axes, more than 8");
}

/* ---- labels ---- */

static const char *const abc[] = {"a", "b", "c"}, *const cab[] = {"c", "a", "b"},
                         *const abd[] = {"a", "b", "d"};

static gd_tensor *labelled(const char *const *labels, double first, double second, double third)
{
    return gd_with_labels(gd_rename(VECTOR(ctx, first, second, third), "k"), "k", labels);
}

static void the_same_labels_in_another_order_are_permuted(void **state)
{
    (void)state;
    gd_tensor *x = labelled(abc, 1, 2, 3), *y = labelled(cab, 30, 10, 20);
    gd_tensor *sum = gd_add(x, y);
    assert_values(sum, 11, 22, 33);
    assert_string_equal(gd_axis_label(sum, 0, 0), "a");
    assert_values(gd_add(y, x), 33, 11, 22);
    assert_string_equal(gd_axis_label(gd_add(y, x), 0, 0), "c");
    /* also inside another axis, and where the axes must be permuted as well */
    gd_tensor *wide = gd_with_labels(COUNTING("row, k", 2, 3), "k", cab);
    assert_values(gd_add(wide, x), 3, 2, 4, 6, 5, 7);
    assert_values(gd_add(x, gd_permute(wide, (int[]){1, 0})), 2, 5, 4, 7, 3, 6);
}

static void labels_meet_no_labels(void **state)
{
    (void)state;
    gd_tensor *x = labelled(abc, 1, 2, 3), *bare = gd_rename(VECTOR(ctx, 10, 20, 30), "k");
    assert_values(gd_add(bare, x), 11, 22, 33);
    assert_string_equal(gd_axis_label(gd_add(bare, x), 0, 2), "c");
}

static void different_labels_are_an_error(void **state)
{
    (void)state;
    assert_null(gd_add(labelled(abc, 1, 2, 3), labelled(abd, 1, 2, 3)));
    assert_error(ctx, GD_LABEL, "add: axis 'k' has the label 'c' only on one side");
    assert_null(gd_add(labelled(abd, 1, 2, 3), labelled(abc, 1, 2, 3)));
    assert_error(ctx, GD_LABEL, "add: axis 'k' has the label 'd' only on one side");
    /* one labelled element does not stand for others */
    gd_tensor *one = gd_slice(labelled(abc, 1, 2, 3), "k", 0, 1, 1);
    assert_null(gd_sub(labelled(abc, 1, 2, 3), one));
    assert_error(ctx, GD_LABEL, "sub: axis 'k' has the label 'b' only on one side");
    gd_tensor *two = gd_slice(labelled(abc, 1, 2, 3), "k", 0, 2, 1);
    assert_null(gd_mul(labelled(abc, 1, 2, 3), two));
    assert_error(ctx, GD_SHAPE, "mul: axis 'k' has 3 on the left and 2 on the right");
}

static void labels_survive_operators(void **state)
{
    (void)state;
    gd_tensor *x = gd_with_labels(gd_with_labels(COUNTING("row, k", 2, 3), "k", abc), "row",
                                  (const char *[]){"u", "v"});
    gd_tensor *same[] = {gd_exp(x),           gd_copy(x),        gd_cast(x, GD_F32),
                         gd_neg(x),           gd_cumsum(x, "k"), gd_softmax(x, "k"),
                         gd_detach(x),        gd_clamp(x, 0, 1), gd_zeros_like(x),
                         gd_gt(x, x),         gd_contiguous(x),  gd_dropout(x, 0.5),
                         gd_mul(x, x),        gd_triu(x, 0),     gd_layer_norm(x, "k", NULL, NULL, 1e-5),
                         gd_pow_scalar(x, 2), gd_tril(x, 0),     gd_where(gd_gt(x, x), x, x)};
    for (int i = 0; i < COUNT_OF(same); i++) {
        assert_axes(same[i], "row, k", 2, 3);
        assert_string_equal(gd_axis_label(same[i], 0, 1), "v");
        assert_string_equal(gd_axis_label(same[i], -1, 2), "c");
    }
    gd_tensor *column[] = {
        gd_sum(x, "row", false),  gd_mean(x, "row", false),      gd_max(x, "row", false),
        gd_argmin(x, "0", false), gd_any(x, "row", false),       gd_norm(x, 2, "row", false),
        gd_prod(x, "row", false), gd_logsumexp(x, "row", false), gd_variance(x, "row", 0, false),
        gd_index(x, "row", 0),    gd_index_label(x, "row", "v")};
    for (int i = 0; i < COUNT_OF(column); i++) {
        assert_axes(column[i], "k", 3);
        assert_string_equal(gd_axis_label(column[i], 0, 0), "a");
    }
    assert_axes(gd_sum(x, "row", true), "row, k", 1, 3);
    assert_null(gd_axis_label(gd_sum(x, "row", true), 0, 0));
    gd_tensor *cut = gd_slice(x, "k", 2, INT64_MIN, -2);
    assert_axes(cut, "row, k", 2, 2);
    assert_string_equal(gd_axis_label(cut, 1, 0), "c");
    assert_string_equal(gd_axis_label(cut, 1, 1), "a");
    assert_string_equal(gd_axis_label(gd_flip(x, "k"), 1, 0), "c");
    gd_tensor *turned = gd_transpose(x, 0, 1);
    assert_axes(turned, "k, row", 3, 2);
    assert_string_equal(gd_axis_label(turned, 0, 2), "c");
    gd_tensor *picked = gd_index_select(x, "k", INDEX(ctx, 2, 0));
    assert_axes(picked, "row, k", 2, 2);
    assert_string_equal(gd_axis_label(picked, 0, 1), "v");
    assert_string_equal(gd_axis_label(picked, 1, 0), "c");
    assert_no_error(ctx);
}

static void joining_joins_labels(void **state)
{
    (void)state;
    gd_tensor *x = labelled(abc, 1, 2, 3),
              *y = gd_with_labels(gd_rename(VECTOR(ctx, 4, 5), "k"), "k", (const char *[]){"x", "y"});
    gd_tensor *both = gd_cat((gd_tensor *[]){x, y}, 2, "k");
    assert_axes(both, "k", 5);
    assert_string_equal(gd_axis_label(both, 0, 3), "x");
    assert_values(gd_index_label(both, "k", "y"), 5);
    /* labels that would stand twice are dropped: they no longer say which element is meant */
    gd_tensor *twice = gd_cat((gd_tensor *[]){x, x}, 2, "k");
    assert_null(gd_axis_label(twice, 0, 0));
    gd_tensor *stacked = gd_stack((gd_tensor *[]){x, x}, 2, 0, "pair");
    assert_axes(stacked, "pair, k", 2, 3);
    assert_string_equal(gd_axis_label(stacked, 1, 1), "b");
    /* the other axes must agree */
    gd_tensor *wide = gd_unsqueeze(x, 0, "row"), *other = gd_unsqueeze(labelled(cab, 3, 1, 2), 0, "row");
    gd_tensor *rows = gd_cat((gd_tensor *[]){wide, other}, 2, "row");
    assert_values(rows, 1, 2, 3, 1, 2, 3);
    assert_null(gd_cat((gd_tensor *[]){wide, gd_unsqueeze(labelled(abd, 1, 2, 3), 0, "row")}, 2, "row"));
    assert_error(ctx, GD_LABEL, "cat: axis 'k' has the label 'c' only on one side");
}

/* By place: names at one place are equal, or one is absent. */
static void pieces_and_assignments_stand_by_place(void **state)
{
    (void)state;
    gd_tensor *table = COUNTING("row, col", 2, 3), *plain = COUNTING("_, _", 1, 3);
    gd_tensor *first = gd_cat((gd_tensor *[]){plain, table}, 2, "row"),
              *last = gd_cat((gd_tensor *[]){table, plain}, 2, "0");
    assert_axes(first, "row, col", 3, 3);
    assert_values(first, 0, 1, 2, 0, 1, 2, 3, 4, 5);
    assert_axes(last, "row, col", 3, 3);
    assert_axes(gd_cat((gd_tensor *[]){COUNTING("row, _", 1, 3), COUNTING("_, col", 1, 3)}, 2, "0"),
                "row, col", 2, 3);
    assert_axes(gd_stack((gd_tensor *[]){VECTOR(ctx, 1, 2), COUNTING("k", 2)}, 2, 0, "pair"), "pair, k", 2,
                2);
    assert_null(gd_cat((gd_tensor *[]){table, COUNTING("col, row", 2, 3)}, 2, "0"));
    assert_error(
        ctx, GD_AXIS,
        "cat: axis 'col' of [col=2, row=3] stands where [row=2, col=3] has 'row'; names must be equal");
    assert_null(gd_cat((gd_tensor *[]){COUNTING("row, _", 2, 2), COUNTING("_, row", 2, 2)}, 2, "0"));
    assert_error(ctx, GD_AXIS, "cat: axis 1 of [2, row=2] is 'row', which is axis 0 of pieces before it");
    assert_null(gd_cat((gd_tensor *[]){table, COUNTING("row", 3)}, 2, "0"));
    assert_error(ctx, GD_SHAPE, "cat: piece 1 is [row=3], piece 0 is [row=2, col=3]");
    gd_tensor *to = gd_copy(table);
    assert_int_equal(gd_assign(to, VECTOR(ctx, 7, 8, 9)), GD_OK);
    assert_int_equal(gd_assign(to, COUNTING("col", 3)), GD_OK);
    assert_values(to, 0, 1, 2, 0, 1, 2);
    assert_int_equal(gd_assign(to, COUNTING("row", 3)), GD_AXIS);
    assert_error(ctx, GD_AXIS, "assign: axis 'row' of [row=3] stands where [row=2, col=3] has 'col'");
    assert_int_equal(gd_assign(to, COUNTING("depth, row, col", 1, 2, 3)), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "assign: [depth=1, row=2, col=3] does not broadcast into [row=2, col=3]");
    /* picking and placing, classes */
    gd_tensor *index = gd_rename(gd_zeros(ctx, GD_I64, 2, (int64_t[]){2, 1}), "col, pick");
    assert_null(gd_gather(table, "col", index));
    assert_error(ctx, GD_AXIS, "gather: axis 'col' of [col=2, pick=1] stands where [row=2, col=3] has 'row'");
    assert_null(gd_cross_entropy(table, gd_rename(gd_zeros(ctx, GD_I64, 1, (int64_t[]){2}), "time")));
    assert_error(ctx, GD_AXIS,
                 "cross_entropy: axis 'time' of [time=2] stands where [row=2, col=3] has 'row'");
}

static void labels_are_looked_up(void **state)
{
    (void)state;
    gd_tensor *x = labelled(abc, 1, 2, 3);
    assert_int_equal(gd_axis_find(x, "k"), 0);
    assert_int_equal(gd_axis_find(x, "q"), -1);
    assert_int_equal(gd_axis_index(x, 0, "b"), 1);
    assert_int_equal(gd_axis_index(x, -1, "c"), 2);
    assert_int_equal(gd_axis_index(x, 0, "q"), -1);
    assert_int_equal(gd_axis_index(x, 3, "a"), -1);
    assert_null(gd_axis_label(x, 0, 3));
    assert_null(gd_axis_label(x, 1, 0));
    assert_null(gd_axis_name(x, 1));
    assert_values(gd_index_label(x, "k", "b"), 2);
    assert_null(gd_index_label(x, "k", "q"));
    assert_error(ctx, GD_LABEL, "index_label: axis 'k' has no label 'q'");
    assert_null(gd_with_labels(x, "k", (const char *[]){"a", "b", "a"}));
    assert_error(ctx, GD_LABEL, "with_labels: axis 'k' has the label 'a' twice");
    assert_null(gd_with_labels(x, "k", (const char *[]){"a", NULL, "c"}));
    assert_error(ctx, GD_LABEL, "with_labels: label 1 is NULL");
    gd_tensor *none = gd_with_labels(x, "k", NULL);
    assert_null(gd_axis_label(none, 0, 0));
}

/* ---- names ---- */

static void renaming(void **state)
{
    (void)state;
    gd_tensor *x = COUNTING("a, b", 2, 3);
    assert_axes(gd_rename(x, " p ,_ "), "p, _", 2, 3);
    assert_axes(gd_rename_axis(x, "b", "q"), "a, q", 2, 3);
    assert_axes(gd_rename_axis(x, "-2", NULL), "_, b", 2, 3);
    assert_axes(gd_drop_names(x), "_, _", 2, 3);
    assert_axes(gd_unsqueeze(x, -1, "z"), "a, b, z", 2, 3, 1);
    assert_null(gd_rename(x, "p, p"));
    assert_error(ctx, GD_AXIS, "rename: two axes would be named 'p'");
    assert_null(gd_rename(x, "p"));
    assert_error(ctx, GD_AXIS, "rename: 1 names for 2 axes");
    assert_null(gd_rename(x, "p, q, r"));
    assert_error(ctx, GD_AXIS, "rename: 3 names for 2 axes");
    assert_null(gd_rename(x, "0, q"));
    assert_error(ctx, GD_AXIS, "rename: '0' is a number, not a name");
    assert_null(gd_rename_axis(x, "a", "b"));
    assert_error(ctx, GD_AXIS, "rename_axis: two axes would be named 'b'");
    assert_null(gd_unsqueeze(x, 0, "a"));
    assert_error(ctx, GD_AXIS, "unsqueeze: two axes would be named 'a'");
    /* names are the tensor's own: the text may go away */
    char text[] = "gone, soon";
    gd_tensor *kept = gd_rename(x, text);
    memset(text, 'x', sizeof text - 1);
    assert_axes(kept, "gone, soon", 2, 3);
}

static void axes_are_chosen_by_name_or_number(void **state)
{
    (void)state;
    gd_tensor *x = COUNTING("a, b, _", 2, 3, 2);
    assert_axes(gd_sum(x, "b", false), "a, _", 2, 2);
    assert_axes(gd_sum(x, "-1, a", false), "b", 3);
    assert_axes(gd_sum(x, "2,1", true), "a, b, _", 2, 1, 1);
    assert_shape(gd_reshape(gd_sum(x, NULL, false), 1, (int64_t[]){1}), 1);
    assert_values(gd_sum(x, "", false), 66);
    static const struct {
        const char *axes, *text;
    } bad[] = {
        {"q", "sum: no axis 'q' in [a=2, b=3, 2]"},
        {"3", "sum: no axis '3' in [a=2, b=3, 2]"},
        {"-4", "sum: no axis '-4'"},
        {"a, 0", "sum: axis '0' is named twice"},
        {"a,,b", "sum: an empty axis name in 'a,,b'"},
    };
    for (int i = 0; i < COUNT_OF(bad); i++) {
        assert_null(gd_sum(x, bad[i].axes, false));
        assert_error(ctx, GD_AXIS, bad[i].text);
    }
    assert_null(gd_softmax(x, "a, b"));
    assert_error(ctx, GD_AXIS, "softmax: needs one axis, 'a, b' names 2 of [a=2, b=3, 2]");
    assert_null(gd_cumsum(x, NULL));
    assert_error(ctx, GD_AXIS, "cumsum: needs one axis");
}

static void align_brings_axes_and_labels_into_order(void **state)
{
    (void)state;
    gd_tensor *x = gd_with_labels(COUNTING("row, k", 2, 3), "k", abc);
    gd_tensor *like = gd_with_labels(COUNTING("k, new, row", 3, 5, 2), "k", cab);
    gd_tensor *out = gd_align(x, like);
    assert_axes(out, "k, new, row", 3, 1, 2);
    assert_values(out, 2, 5, 0, 3, 1, 4);
    assert_string_equal(gd_axis_label(out, 0, 0), "c");
    assert_null(gd_align(x, COUNTING("row", 2)));
    assert_error(ctx, GD_AXIS, "align: not every axis of [row=2, k=3] is named in [row=2]");
    assert_null(gd_align(x, gd_with_labels(COUNTING("k, row", 3, 2), "k", abd)));
    assert_error(ctx, GD_LABEL, "align: axis 'k' has other labels");
}

/* ---- gradients ---- */

static void gradients_come_back_on_their_own_axes(void **state)
{
    (void)state;
    gd_tensor *x = gd_require_grad(gd_with_labels(COUNTING("row, k", 2, 3), "k", abc));
    gd_tensor *w = gd_require_grad(labelled(cab, 30, 10, 20));
    gd_tensor *loss = gd_sum(gd_mul(w, x), NULL, false);
    assert_int_equal(gd_backward(loss, NULL, 0), GD_OK);
    gd_tensor *gx = gd_grad_of(x), *gw = gd_grad_of(w);
    assert_axes(gx, "row, k", 2, 3);
    assert_values(gx, 10, 20, 30, 10, 20, 30);
    assert_string_equal(gd_axis_label(gx, 1, 0), "a");
    assert_axes(gw, "k", 3);
    assert_values(gw, 2 + 5, 0 + 3, 1 + 4);
    assert_string_equal(gd_axis_label(gw, 0, 0), "c");
}

static void gradients_of_broadcast_operands_are_summed(void **state)
{
    (void)state;
    gd_tensor *x = gd_require_grad(COUNTING("batch, feature", 2, 3)),
              *bias = gd_require_grad(COUNTING("feature", 3));
    gd_tensor *anonymous = gd_require_grad(COUNTING("_, _", 1, 2)),
              *column = gd_require_grad(COUNTING("_, _", 3, 1));
    gd_tensor *grads[2];
    gd_tensor *inputs[] = {x, bias}, *plain[] = {anonymous, column};
    assert_int_equal(gd_grad(gd_sum(gd_sub(x, bias), NULL, false), NULL, inputs, 2, 0, grads), GD_OK);
    assert_axes(grads[0], "batch, feature", 2, 3);
    assert_axes(grads[1], "feature", 3);
    assert_values(grads[1], -2, -2, -2);
    assert_int_equal(gd_grad(gd_sum(gd_mul(anonymous, column), NULL, false), NULL, plain, 2, 0, grads),
                     GD_OK);
    assert_shape(grads[0], 1, 2);
    assert_values(grads[0], 3, 3);
    assert_shape(grads[1], 3, 1);
    assert_values(grads[1], 1, 1, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(axes_meet_by_name_whatever_their_order),
        TEST(a_missing_name_broadcasts),
        TEST(anonymous_axes_meet_from_the_right),
        TEST(no_names_meet_names_by_place),
        TEST(an_axis_without_name_beside_a_name_is_an_error),
        TEST(a_scalar_meets_everything),
        TEST(one_name_with_two_sizes_is_an_error),
        TEST(too_many_axes_are_an_error),
        TEST(the_same_labels_in_another_order_are_permuted),
        TEST(labels_meet_no_labels),
        TEST(different_labels_are_an_error),
        TEST(labels_survive_operators),
        TEST(joining_joins_labels),
        TEST(pieces_and_assignments_stand_by_place),
        TEST(labels_are_looked_up),
        TEST(renaming),
        TEST(axes_are_chosen_by_name_or_number),
        TEST(align_brings_axes_and_labels_into_order),
        TEST(gradients_come_back_on_their_own_axes),
        TEST(gradients_of_broadcast_operands_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
