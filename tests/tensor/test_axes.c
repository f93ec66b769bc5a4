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
    /* names between anonymous axes do not count */
    gd_tensor *mixed = COUNTING("_, name, _", 2, 1, 3);
    assert_axes(gd_add(mixed, COUNTING("_, _", 2, 3)), "_, name, _", 2, 1, 3);
    assert_values(gd_add(mixed, COUNTING("_, _", 2, 3)), 0, 2, 4, 6, 8, 10);
    /* new names go behind the last name, new anonymous axes before the first anonymous one */
    assert_axes(gd_add(COUNTING("a, _", 2, 3), COUNTING("b, _, _", 2, 2, 3)), "a, b, _, _", 2, 2, 2, 3);
    assert_axes(gd_add(COUNTING("_, a", 3, 2), COUNTING("_, b", 3, 2)), "_, a, b", 3, 2, 2);
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
    /* a name never broadcasts, not even from size 1 */
    assert_null(gd_mul(a, COUNTING("batch", 1)));
    assert_error(ctx, GD_SHAPE, "mul: axis 'batch' has 32 on the left and 1 on the right");
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

/* ---- against a model ---- */

/* An operand as the model sees it: axes with names ("" anonymous) and labels as numbers. */
typedef struct model {
    int ndim;
    char name[4][2];
    int64_t size[4];
    int label[4][4]; /* -1: none */
    double value[256];
} model;

static int64_t model_offset(const model *a, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < a->ndim; i++) at = at * a->size[i] + index[i];
    return at;
}

static gd_tensor *model_tensor(const model *a)
{
    char names[32] = "";
    for (int i = 0; i < a->ndim; i++) {
        strcat(names, i ? "," : "");
        strcat(names, a->name[i][0] ? a->name[i] : "_");
    }
    gd_tensor *t = gd_rename(gd_from_f64(ctx, GD_F64, a->ndim, a->size, a->value), names);
    for (int i = 0; i < a->ndim; i++) {
        if (a->label[i][0] < 0) continue;
        char text[4][4];
        const char *label[4];
        for (int64_t k = 0; k < a->size[i]; k++) {
            snprintf(text[k], sizeof text[k], "l%d", a->label[i][k]);
            label[k] = text[k];
        }
        char axis[2] = {(char)('0' + i), 0};
        t = gd_with_labels(t, axis, label);
    }
    return t;
}

/* The element of a that belongs to index of the result t: by name and label, or by rank among the
 * anonymous ones. */
static double model_at(const model *a, const gd_tensor *t, const int64_t *index)
{
    int64_t at[4] = {0};
    for (int i = 0; i < a->ndim; i++) {
        int axis = -1, rank = 0;
        if (a->name[i][0])
            axis = gd_axis_find(t, a->name[i]);
        else {
            for (int k = i + 1; k < a->ndim; k++) rank += !a->name[k][0];
            for (int k = gd_ndim(t) - 1; k >= 0 && axis < 0; k--)
                if (!gd_axis_name(t, k) && rank-- == 0) axis = k;
        }
        assert_true(axis >= 0);
        at[i] = a->size[i] == 1 ? 0 : index[axis];
        const char *label = gd_axis_label(t, axis, index[axis]);
        if (label && a->label[i][0] >= 0 && a->name[i][0]) {
            int wanted = atoi(label + 1);
            at[i] = -1;
            for (int64_t k = 0; k < a->size[i]; k++)
                if (a->label[i][k] == wanted) at[i] = k;
            assert_true(at[i] >= 0);
        }
    }
    return a->value[model_offset(a, at)];
}

static const int64_t pool_size[] = {2, 3, 4};

/* Some of the names a, b, c (sizes 2, 3, 4) and up to two anonymous axes, in a random order. */
static model random_model(uint64_t *seed)
{
    model a = {0};
    for (int k = 0; k < 5 && a.ndim < 4; k++) {
        if (random_below(seed, 2)) continue;
        int i = a.ndim++;
        a.name[i][0] = k < 3 ? (char)('a' + k) : 0;
        a.size[i] = k < 3 ? pool_size[k] : random_below(seed, 3) ? 3 : 1;
        a.label[i][0] = -1;
        if (k >= 3 || random_below(seed, 2)) continue;
        for (int64_t l = 0; l < a.size[i]; l++) a.label[i][l] = (int)l;
        for (int64_t l = a.size[i] - 1; l > 0; l--) {
            int64_t j = random_below(seed, l + 1);
            int swap = a.label[i][l];
            a.label[i][l] = a.label[i][j];
            a.label[i][j] = swap;
        }
    }
    for (int i = a.ndim - 1; i > 0; i--) { /* shuffle the axes */
        int j = (int)random_below(seed, i + 1);
        model copy = a;
        memcpy(a.name[i], copy.name[j], 2);
        memcpy(a.name[j], copy.name[i], 2);
        a.size[i] = copy.size[j];
        a.size[j] = copy.size[i];
        memcpy(a.label[i], copy.label[j], sizeof a.label[i]);
        memcpy(a.label[j], copy.label[i], sizeof a.label[i]);
    }
    for (int k = 0; k < 256; k++) a.value[k] = (double)random_below(seed, 1000);
    return a;
}

static int64_t axes_in_all(const model *a, int count)
{
    int64_t names = 0, anonymous = 0;
    for (char n = 'a'; n <= 'c'; n++) {
        bool has = false;
        for (int k = 0; k < count; k++)
            for (int i = 0; i < a[k].ndim; i++) has = has || a[k].name[i][0] == n;
        names += has;
    }
    for (int k = 0; k < count; k++) {
        int64_t own = 0;
        for (int i = 0; i < a[k].ndim; i++) own += !a[k].name[i][0];
        anonymous = own > anonymous ? own : anonymous;
    }
    return names + anonymous;
}

static void check_result(const gd_tensor *t, const model *a, int count, double (*value)(const double *))
{
    assert_no_error(ctx);
    assert_int_equal(gd_ndim(t), axes_in_all(a, count));
    array got = array_of(t);
    int64_t index[GD_MAX_DIMS] = {0};
    if (got.numel) do {
            double operand[3];
            for (int k = 0; k < count; k++) operand[k] = model_at(&a[k], t, index);
            assert_true((double)got.v[array_offset(&got, index)] == value(operand));
        } while (array_next(&got, index));
    array_free(&got);
}

static double minus(const double *x) { return x[0] - x[1]; }
static double fused(const double *x) { return x[0] * x[1] + x[2]; }
static double chosen(const double *x) { return x[0] > 500 ? x[1] : x[2]; }

static void random_operands_meet_as_in_a_model(void **state)
{
    (void)state;
    uint64_t seed = 77;
    for (int round = 0; round < 3000; round++) {
        gd_scope_begin(ctx);
        model a[3];
        for (int k = 0; k < 3; k++) a[k] = random_model(&seed);
        gd_tensor *t[3];
        for (int k = 0; k < 3; k++) t[k] = model_tensor(&a[k]);
        assert_no_error(ctx);
        check_result(gd_sub(t[0], t[1]), a, 2, minus);
        check_result(gd_fma(t[0], t[1], t[2]), a, 3, fused);
        gd_tensor *above = gd_gt(t[0], gd_scalar(ctx, GD_F64, 500));
        check_result(gd_where(above, t[1], t[2]), a, 3, chosen);
        gd_scope_end(ctx);
    }
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
        TEST(a_scalar_meets_everything),
        TEST(one_name_with_two_sizes_is_an_error),
        TEST(too_many_axes_are_an_error),
        TEST(the_same_labels_in_another_order_are_permuted),
        TEST(labels_meet_no_labels),
        TEST(different_labels_are_an_error),
        TEST(labels_survive_operators),
        TEST(joining_joins_labels),
        TEST(labels_are_looked_up),
        TEST(renaming),
        TEST(axes_are_chosen_by_name_or_number),
        TEST(align_brings_axes_and_labels_into_order),
        TEST(random_operands_meet_as_in_a_model),
        TEST(gradients_come_back_on_their_own_axes),
        TEST(gradients_of_broadcast_operands_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
