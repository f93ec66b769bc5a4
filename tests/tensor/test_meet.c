/* How axes meet, against a reference of the rule written on its own: random operands with and without names, labels and
 * sizes of 1; results and errors of operators of two and three tensors, and gradients by differences. */
#include "support/own_context.h"

#include <math.h>

enum { DIMS = 3, MOST = 5, ELEMENTS = MOST * MOST * MOST, JOINT = 16, OPERANDS = 3 };

/* An operand: axes with a name or 0, sizes, and labels as numbers. */
typedef struct operand {
    int ndim;
    char name[DIMS];
    int64_t size[DIMS];
    int label[DIMS][MOST]; /* -1: none */
    double value[ELEMENTS];
} operand;

/* ---- the rule ---- */

/* Axes have keys: their name, or for an anonymous one its rank from the right as a digit; one in front of all is a capital. */
typedef struct joint {
    bool may[GD_STATUS_COUNT]; /* errors that the rule asks for */
    bool fails;
    char key[JOINT]; /* of the result, a text */
    int64_t size[JOINT];
    int label[JOINT][MOST];
    int axis[OPERANDS][JOINT]; /* of each operand, -1: none */
} joint;

static void must_fail(joint *j, gd_status status)
{
    j->fails = true;
    j->may[status] = true;
}

static bool named(const operand *a)
{
    for (int i = 0; i < a->ndim; i++)
        if (a->name[i]) return true;
    return false;
}

static void keys_of(const operand *a, char *key)
{
    char rank = '0';
    for (int i = a->ndim; i-- > 0;) key[i] = a->name[i] ? a->name[i] : rank++;
    key[a->ndim] = 0;
}

static bool has_all(const char *keys, const char *of) { return strspn(of, keys) == strlen(of); }

/* Does a have an anonymous axis, and b a name, that the other lacks? */
static bool ambiguous(const char *a, const char *b)
{
    bool anonymous = false, name = false;
    for (int i = 0; a[i]; i++) anonymous = anonymous || (a[i] <= '9' && !strchr(b, a[i]));
    for (int i = 0; b[i]; i++) name = name || (b[i] > '9' && !strchr(a, b[i]));
    return anonymous && name;
}

/* The keys of both: those of the one that has all of the other's, or the left's with the right's new names behind its last. */
static void join_keys(char *a, const char *b)
{
    if (has_all(a, b)) return;
    if (has_all(b, a)) {
        strcpy(a, b);
        return;
    }
    char fresh[JOINT] = "", rest[JOINT];
    for (int i = 0, n = 0; b[i]; i++)
        if (!strchr(a, b[i])) fresh[n++] = b[i];
    int end = (int)strlen(a);
    while (end && a[end - 1] <= '9') end--;
    strcpy(rest, a + end);
    strcpy(a + end, fresh);
    strcat(a, rest);
}

static int axis_with(const operand *a, char key)
{
    char keys[DIMS + 1];
    keys_of(a, keys);
    const char *at = strchr(keys, key);
    return at ? (int)(at - keys) : -1;
}

/* Names from left to right, then operands without names by place. */
static void find_axes(joint *j, const operand *a, int count)
{
    bool any = false;
    for (int s = 0; s < count; s++) {
        char keys[DIMS + 1];
        keys_of(&a[s], keys);
        if (!named(&a[s])) continue;
        if (any && (ambiguous(j->key, keys) || ambiguous(keys, j->key))) must_fail(j, GD_AXIS);
        if (j->fails) return;
        if (any)
            join_keys(j->key, keys);
        else
            strcpy(j->key, keys);
        any = true;
    }
    int most = 0;
    for (int s = 0; s < count; s++) most = !named(&a[s]) && a[s].ndim > most ? a[s].ndim : most;
    int ndim = (int)strlen(j->key), front = most > ndim ? most - ndim : 0;
    memmove(j->key + front, j->key, (size_t)ndim + 1);
    for (int i = 0; i < front; i++) j->key[i] = (char)('A' + i);
    ndim += front;
    for (int s = 0; s < count; s++)
        for (int i = 0; i < ndim; i++) {
            int place = i - (ndim - a[s].ndim);
            j->axis[s][i] = named(&a[s]) ? axis_with(&a[s], j->key[i]) : place < 0 ? -1 : place;
        }
}

static bool same_set(const int *a, const int *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool found = false;
        for (int64_t k = 0; k < n; k++) found = found || a[i] == b[k];
        if (!found) return false;
    }
    return true;
}

static void find_size_and_labels(joint *j, const operand *a, int count, int i)
{
    j->size[i] = 1;
    j->label[i][0] = -1;
    int64_t labelled = 0;
    for (int s = 0; s < count; s++) {
        int axis = j->axis[s][i];
        if (axis < 0) continue;
        int64_t size = a[s].size[axis];
        if (size != 1 && j->size[i] != 1 && size != j->size[i]) must_fail(j, GD_SHAPE);
        if (size != 1) j->size[i] = size;
        const int *label = a[s].label[axis];
        if (label[0] < 0) continue;
        if (labelled && (labelled == size || labelled == 1 || size == 1) &&
            (labelled != size || !same_set(j->label[i], label, size)))
            must_fail(j, GD_LABEL);
        if (!labelled) memcpy(j->label[i], label, sizeof j->label[i]);
        if (!labelled) labelled = size;
    }
    if (labelled != j->size[i]) j->label[i][0] = -1;
}

static joint rule(const operand *a, int count)
{
    joint j = {0};
    find_axes(&j, a, count);
    for (int i = 0; j.key[i] && !j.may[GD_AXIS]; i++) find_size_and_labels(&j, a, count, i);
    return j;
}

/* ---- operands ---- */

static gd_tensor *tensor_of(const operand *a)
{
    char names[32] = "";
    for (int i = 0; i < a->ndim; i++) {
        names[2 * i] = a->name[i] ? a->name[i] : '_';
        names[2 * i + 1] = i + 1 < a->ndim ? ',' : 0;
    }
    gd_tensor *t = gd_from_f64(ctx, GD_F64, a->ndim, a->size, a->value);
    if (named(a)) t = gd_rename(t, names);
    for (int i = 0; i < a->ndim; i++) {
        char text[MOST][4], axis[2] = {(char)('0' + i), 0};
        const char *label[MOST];
        if (a->label[i][0] < 0) continue;
        for (int64_t k = 0; k < a->size[i]; k++) {
            (void)snprintf(text[k], sizeof text[k], "l%d", a->label[i][k]);
            label[k] = text[k];
        }
        t = gd_with_labels(t, axis, label);
    }
    return t;
}

static bool one_in(uint64_t *seed, int64_t n) { return random_below(seed, n) == 0; }

static void put_labels(uint64_t *seed, operand *a, int i, int64_t rarely)
{
    a->label[i][0] = -1;
    if (!one_in(seed, rarely)) return;
    for (int64_t k = 0; k < a->size[i]; k++) a->label[i][k] = (int)k;
    if (one_in(seed, 12)) a->label[i][0] = 9; /* one of its own */
    for (int64_t k = a->size[i] - 1; k > 0; k--) {
        int64_t other = random_below(seed, k + 1);
        int swap = a->label[i][k];
        a->label[i][k] = a->label[i][other];
        a->label[i][other] = swap;
    }
}

/* Names a, b, c of sizes 2, 3, 4 and anonymous axes of size 3 in any order; some sizes are 1, few are wrong. */
static void with_names(uint64_t *seed, operand *a)
{
    char pool[] = "abc__";
    for (int k = 4; k > 0; k--) {
        int other = (int)random_below(seed, k + 1);
        char swap = pool[k];
        pool[k] = pool[other];
        pool[other] = swap;
    }
    for (int i = 0; i < a->ndim; i++) {
        a->name[i] = pool[i] == '_' ? 0 : pool[i];
        a->size[i] = a->name[i] ? a->name[i] - 'a' + 2 : 3;
        if (one_in(seed, 6)) a->size[i] = 1;
        if (one_in(seed, 40)) a->size[i] = MOST;
        put_labels(seed, a, i, a->name[i] ? 3 : 8);
    }
}

/* Without names, most often fitting an operand by place. */
static void without_names(uint64_t *seed, operand *a, const operand *like)
{
    for (int i = 0; i < a->ndim; i++) {
        int k = i + (like ? like->ndim - a->ndim : 0);
        a->name[i] = 0;
        a->size[i] = like && k >= 0 ? like->size[k] : 1 + random_below(seed, 3);
        if (one_in(seed, 6)) a->size[i] = 1;
        if (one_in(seed, 40)) a->size[i] = MOST;
        put_labels(seed, a, i, 8);
    }
}

static operand random_operand(uint64_t *seed, const operand *like)
{
    operand a = {.ndim = (int)random_below(seed, DIMS + 1)};
    if (one_in(seed, 3))
        without_names(seed, &a, like);
    else
        with_names(seed, &a);
    for (int k = 0; k < ELEMENTS; k++) a.value[k] = (double)random_below(seed, 1000) - 400;
    return a;
}

static void random_operands(uint64_t *seed, operand *a)
{
    for (int s = 0; s < OPERANDS; s++) a[s] = random_operand(seed, s ? &a[random_below(seed, s)] : NULL);
}

/* ---- operators ---- */

static gd_tensor *sub(gd_tensor *const *x) { return gd_sub(x[0], x[1]); }
static gd_tensor *atan_of(gd_tensor *const *x) { return gd_atan2(x[0], x[1]); }
static gd_tensor *lower(gd_tensor *const *x) { return gd_minimum(x[0], x[1]); }
static gd_tensor *below(gd_tensor *const *x) { return gd_lt(x[0], x[1]); }
static gd_tensor *fma_of(gd_tensor *const *x) { return gd_fma(x[0], x[1], x[2]); }
static gd_tensor *lerp(gd_tensor *const *x) { return gd_lerp(x[0], x[1], x[2]); }
static gd_tensor *where(gd_tensor *const *x)
{
    return gd_where(gd_gt(x[0], gd_scalar(ctx, GD_F64, 0)), x[1], x[2]);
}

static double sub_of(const double *x) { return x[0] - x[1]; }
static double angle(const double *x) { return atan2(x[0], x[1]); }
static double least(const double *x) { return x[0] < x[1] ? x[0] : x[1]; }
static double less(const double *x) { return x[0] < x[1]; }
static double fused(const double *x) { return x[0] * x[1] + x[2]; }
static double between(const double *x) { return x[0] + x[2] * (x[1] - x[0]); }
static double chosen(const double *x) { return x[0] > 0 ? x[1] : x[2]; }

static const struct operation {
    const char *name;
    int count;
    gd_tensor *(*of)(gd_tensor *const *x);
    double (*value)(const double *x);
    bool smooth; /* differences of it are its slope */
} operations[] = {
    {"sub", 2, sub, sub_of, true},       {"atan2", 2, atan_of, angle, false},
    {"minimum", 2, lower, least, false}, {"lt", 2, below, less, false},
    {"fma", 3, fma_of, fused, true},     {"lerp", 3, lerp, between, true},
    {"where", 3, where, chosen, false},
};

/* ---- results ---- */

static double operand_at(const operand *a, const int *axis_of, const joint *j, const int64_t *index)
{
    int64_t at[DIMS] = {0}, offset = 0;
    for (int i = 0; j->key[i]; i++) {
        int axis = axis_of[i];
        if (axis < 0 || a->size[axis] == 1) continue;
        at[axis] = index[i];
        if (a->label[axis][0] < 0 || j->label[i][0] < 0) continue;
        for (int64_t k = 0; k < a->size[axis]; k++)
            if (a->label[axis][k] == j->label[i][index[i]]) at[axis] = k;
    }
    for (int i = 0; i < a->ndim; i++) offset = offset * a->size[i] + at[i];
    return a->value[offset];
}

static void check_axes(const gd_tensor *t, const joint *j)
{
    assert_int_equal(gd_ndim(t), strlen(j->key));
    for (int i = 0; j->key[i]; i++) {
        const char *name = gd_axis_name(t, i), want[2] = {j->key[i], 0};
        assert_int_equal(gd_size(t, i), j->size[i]);
        if (j->key[i] >= 'a')
            assert_string_equal(name ? name : "none", want);
        else
            assert_null(name);
        for (int64_t k = 0; k < j->size[i]; k++) {
            const char *label = gd_axis_label(t, i, k);
            assert_int_equal(label ? atoi(label + 1) : -1, j->label[i][0] < 0 ? -1 : j->label[i][k]);
        }
    }
}

static void check_values(const gd_tensor *t, const joint *j, const operand *a, const struct operation *o)
{
    array got = array_of(t);
    int64_t index[GD_MAX_DIMS] = {0};
    if (got.numel) do {
            double x[OPERANDS];
            for (int s = 0; s < o->count; s++) x[s] = operand_at(&a[s], j->axis[s], j, index);
            double value = (double)got.v[array_offset(&got, index)], want = o->value(x);
            assert_true(fabs(value - want) <= 1e-12 * fabs(want));
        } while (array_next(&got, index));
    array_free(&got);
}

static void operands_meet_by_the_rule(void **state)
{
    (void)state;
    uint64_t seed = 20;
    int worked = 0, failed[GD_STATUS_COUNT] = {0};
    for (int round = 0; round < 6000; round++) {
        operand a[OPERANDS];
        random_operands(&seed, a);
        const struct operation *o = &operations[round % COUNT_OF(operations)];
        joint j = rule(a, o->count);
        gd_scope_begin(ctx);
        gd_tensor *x[OPERANDS];
        for (int s = 0; s < OPERANDS; s++) x[s] = tensor_of(&a[s]);
        assert_no_error(ctx);
        gd_tensor *t = o->of(x);
        if (!j.fails) {
            assert_no_error(ctx);
            check_axes(t, &j);
            check_values(t, &j, a, o);
            worked++;
        } else {
            assert_null(t);
            assert_true(j.may[gd_error(ctx)]);
            failed[gd_error(ctx)]++;
            gd_clear_error(ctx);
        }
        gd_scope_end(ctx);
    }
    assert_true(worked > 1500 && failed[GD_AXIS] > 200 && failed[GD_SHAPE] > 200 && failed[GD_LABEL] > 100);
}

/* ---- gradients ---- */

/* Sum of an operation's result with weights by place. */
static gd_tensor *weighted(const struct operation *o, gd_tensor *const *x)
{
    gd_tensor *y = gd_drop_names(o->of(x));
    gd_tensor *weight = gd_arange(ctx, GD_F64, 1, (double)gd_numel(y) + 1, 1);
    return gd_sum(gd_mul(y, gd_reshape(weight, gd_ndim(y), gd_shape(y))), NULL, false);
}

static double loss_of(const struct operation *o, const operand *a)
{
    gd_tensor *x[OPERANDS];
    for (int s = 0; s < OPERANDS; s++) x[s] = tensor_of(&a[s]);
    return gd_item(weighted(o, x));
}

/* The operations are linear in each operand: differences are exact but for rounding. */
static void check_gradient(const struct operation *o, operand *a, int s, const gd_tensor *x,
                           const gd_tensor *grad)
{
    double got[ELEMENTS];
    assert_int_equal(gd_ndim(grad), gd_ndim(x));
    for (int i = 0; i < gd_ndim(x); i++) {
        const char *want = gd_axis_name(x, i), *name = gd_axis_name(grad, i);
        assert_string_equal(name ? name : "", want ? want : "");
        for (int64_t k = 0; k < gd_size(x, i); k++)
            assert_ptr_equal(gd_axis_label(grad, i, k), gd_axis_label(x, i, k));
    }
    assert_int_equal(gd_read_f64(grad, got, gd_numel(grad)), GD_OK);
    for (int64_t e = 0; e < gd_numel(x); e++) {
        gd_scope_begin(ctx);
        double kept = a[s].value[e], both[2];
        for (int side = 0; side < 2; side++) {
            a[s].value[e] = kept + (side ? 1 : -1);
            both[side] = loss_of(o, a);
        }
        a[s].value[e] = kept;
        gd_scope_end(ctx);
        double slope = (both[1] - both[0]) / 2;
        assert_true(fabs(slope - got[e]) <= 1e-6 * (1 + fabs(slope)));
    }
}

static void gradients_are_differences_on_their_own_axes(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int done = 0; done < 300;) {
        operand a[OPERANDS];
        random_operands(&seed, a);
        const struct operation *o = &operations[random_below(&seed, COUNT_OF(operations))];
        if (!o->smooth || rule(a, o->count).fails) continue;
        for (int s = 0; s < OPERANDS; s++)
            for (int k = 0; k < ELEMENTS; k++) a[s].value[k] /= 100;
        gd_scope_begin(ctx);
        gd_tensor *x[OPERANDS], *grads[OPERANDS];
        for (int s = 0; s < OPERANDS; s++) x[s] = gd_require_grad(tensor_of(&a[s]));
        assert_int_equal(gd_grad(weighted(o, x), NULL, x, o->count, 0, grads), GD_OK);
        for (int s = 0; s < o->count; s++) check_gradient(o, a, s, x[s], grads[s]);
        gd_scope_end(ctx);
        done++;
    }
}

/* ---- one tensor into another: assignment and cat, by place ---- */

/* What both have at one place from the right is the same name, and labels are the same set. */
static gd_status by_place(const operand *to, const operand *from)
{
    for (int i = from->ndim; i-- > 0;) {
        int k = i + to->ndim - from->ndim;
        if (k < 0) continue;
        if (to->name[k] && from->name[i] && to->name[k] != from->name[i]) return GD_AXIS;
        if (to->label[k][0] < 0 || from->label[i][0] < 0) continue;
        if (to->size[k] == from->size[i] ? !same_set(to->label[k], from->label[i], to->size[k])
                                         : to->size[k] == 1 || from->size[i] == 1)
            return GD_LABEL;
    }
    if (from->ndim > to->ndim) return GD_SHAPE;
    for (int i = 0; i < from->ndim; i++)
        if (from->size[i] != 1 && from->size[i] != to->size[i + to->ndim - from->ndim]) return GD_SHAPE;
    return GD_OK;
}

static void assignment_is_by_place(void **state)
{
    (void)state;
    uint64_t seed = 8;
    int seen[GD_STATUS_COUNT] = {0};
    for (int round = 0; round < 4000; round++) {
        operand a[OPERANDS];
        random_operands(&seed, a);
        if (round % 2) { /* the same axes with labels of its own */
            a[1] = a[0];
            for (int i = 0; i < a[1].ndim; i++) put_labels(&seed, &a[1], i, 2);
        }
        gd_status want = by_place(&a[0], &a[1]);
        gd_scope_begin(ctx);
        gd_tensor *to = tensor_of(&a[0]), *from = tensor_of(&a[1]);
        gd_status got = gd_assign(to, from);
        assert_true(want ? got != GD_OK : got == GD_OK);
        if (want != GD_SHAPE) assert_true(got == want || got == GD_AXIS || got == GD_LABEL);
        seen[got]++;
        gd_clear_error(ctx);
        if (!want) { /* as the difference of two that meet by place: names are those of the left */
            operand plain[2] = {a[0], a[1]};
            memset(plain[1].name, 0, sizeof plain[1].name);
            joint j = rule(plain, 2);
            array values = array_of(to);
            int64_t index[GD_MAX_DIMS] = {0};
            if (values.numel && !j.fails) do {
                    double x = operand_at(&plain[1], j.axis[1], &j, index);
                    assert_true((double)values.v[array_offset(&values, index)] == x);
                } while (array_next(&values, index));
            array_free(&values);
        }
        gd_scope_end(ctx);
    }
    assert_true(seen[GD_OK] > 500 && seen[GD_AXIS] > 100 && seen[GD_LABEL] > 20 && seen[GD_SHAPE] > 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(operands_meet_by_the_rule),
        TEST(gradients_are_differences_on_their_own_axes),
        TEST(assignment_is_by_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
