/* Linear operators: products and solutions of every kind and of their combinations, against plain loops on the matrix. */
#include "gradus/link.h"
#include "support/support.h"

#include <math.h>

/* ---- plain matrices ---- */

#define N 5

typedef struct plain {
    double m[N][N];
} plain;

static plain plain_random(uint64_t *seed)
{
    plain p;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) p.m[i][j] = random_unit(seed) - 0.5 + 2 * (i == j);
    return p;
}

static plain plain_transpose(const plain *p)
{
    plain t;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) t.m[i][j] = p->m[j][i];
    return t;
}

static plain plain_product(const plain *a, const plain *b)
{
    plain c = {{{0}}};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) c.m[i][j] += a->m[i][k] * b->m[k][j];
    return c;
}

/* factor * p + shift * I */
static plain plain_shifted(const plain *p, double factor, double shift)
{
    plain s;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) s.m[i][j] = factor * p->m[i][j] + shift * (i == j);
    return s;
}

/* Gauss and Jordan with row exchange. */
static plain plain_inverse(plain p)
{
    plain x = {{{0}}};
    for (int i = 0; i < N; i++) x.m[i][i] = 1;
    for (int k = 0; k < N; k++) {
        int best = k;
        for (int i = k; i < N; i++)
            if (fabs(p.m[i][k]) > fabs(p.m[best][k])) best = i;
        for (int j = 0; j < N; j++) {
            double swap = p.m[k][j], swap_x = x.m[k][j];
            p.m[k][j] = p.m[best][j], p.m[best][j] = swap;
            x.m[k][j] = x.m[best][j], x.m[best][j] = swap_x;
        }
        double pivot = p.m[k][k];
        for (int j = 0; j < N; j++) p.m[k][j] /= pivot, x.m[k][j] /= pivot;
        for (int i = 0; i < N; i++) {
            double times = p.m[i][k];
            for (int j = 0; j < N && i != k; j++) {
                p.m[i][j] -= times * p.m[k][j];
                x.m[i][j] -= times * x.m[k][j];
            }
        }
    }
    return x;
}

static void plain_apply(const plain *p, const double *x, double *y)
{
    for (int i = 0; i < N; i++) {
        y[i] = 0;
        for (int j = 0; j < N; j++) y[i] += p->m[i][j] * x[j];
    }
}

static gd_tensor *tensor_of(gd_ctx *ctx, const plain *p)
{
    return gd_from_f64(ctx, GD_F64, 2, (int64_t[]){N, N}, &p->m[0][0]);
}

/* ---- an operator must do what its matrix does ---- */

static void expect_vector(gd_ctx *ctx, gd_tensor *got, const plain *p, const double *x)
{
    double want[N];
    plain_apply(p, x, want);
    assert_no_error(ctx);
    assert_shape(got, N);
    assert_values_at(got, want, N, 1e-10, __FILE__, __LINE__);
    gd_release(got);
}

/* The operator is consumed. */
static void check_without_solve(gd_ctx *ctx, gd_linop *op, const plain *p)
{
    assert_no_error(ctx);
    assert_int_equal(gd_linop_size(op), N);
    double x[N] = {0.5, -1, 2, 0.25, -3};
    plain t = plain_transpose(p);
    gd_tensor *v = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, x);
    expect_vector(ctx, gd_linop_matvec(op, v), p, x);
    expect_vector(ctx, gd_linop_rmatvec(op, v), &t, x);
    gd_tensor *dense = gd_linop_to_dense(op);
    assert_no_error(ctx);
    assert_shape(dense, N, N);
    assert_values_at(dense, &p->m[0][0], N * N, 1e-10, __FILE__, __LINE__);
    gd_linop_release(op);
}

static void check_operator(gd_ctx *ctx, gd_linop *op, const plain *p)
{
    double b[N] = {1, 2, -0.5, 3, -1};
    plain inverse = plain_inverse(*p);
    gd_tensor *v = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, b);
    assert_non_null(op);
    expect_vector(ctx, gd_linop_solve(op, v), &inverse, b);
    check_without_solve(ctx, op, p);
}

/* ---- kinds ---- */

static gd_tensor *apply_matrix(void *user, gd_tensor *x) { return gd_matmul(user, x); }

/* An operator of a kind with its matrix; what 5 kinds have in common. */
enum { DENSE, SYMMETRIC, DEFINITE, INVERSE, DIAGONAL, FUNCTION, KINDS };

static gd_linop *make(gd_ctx *ctx, int kind, uint64_t *seed, plain *p)
{
    *p = plain_random(seed);
    plain t = plain_transpose(p), inverse;
    if (kind == DEFINITE) *p = plain_product(p, &t);
    if (kind == SYMMETRIC || kind == FUNCTION) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < i; j++) p->m[i][j] = p->m[j][i];
        p->m[0][0] = -p->m[0][0]; /* not definite: Cholesky gives up */
    }
    double d[N] = {0.5, -2, 3, 0.1, 7};
    for (int i = 0; kind == DIAGONAL && i < N; i++)
        for (int j = 0; j < N; j++) p->m[i][j] = i == j ? d[i] : 0;
    switch (kind) {
    case INVERSE: inverse = plain_inverse(*p); return gd_linop_dense_inverse(tensor_of(ctx, &inverse));
    case DIAGONAL: return gd_linop_diagonal(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, d));
    case FUNCTION: return gd_linop_function(ctx, N, apply_matrix, tensor_of(ctx, p), NULL);
    default: return gd_linop_dense(tensor_of(ctx, p));
    }
}

static void every_kind_does_what_its_matrix_does(void **state)
{
    uint64_t seed = 1;
    for (int kind = 0; kind < KINDS; kind++) {
        plain p;
        gd_linop *op = make(*state, kind, &seed, &p);
        check_operator(*state, op, &p);
    }
}

static void scaled_and_shifted_operators_of_every_kind(void **state)
{
    uint64_t seed = 2;
    for (int kind = 0; kind < KINDS; kind++) {
        plain p, q;
        gd_linop *op = gd_linop_scaled(make(*state, kind, &seed, &p), -2.5);
        q = plain_shifted(&p, -2.5, 0);
        check_operator(*state, op, &q);
        op = gd_linop_shifted(make(*state, kind, &seed, &p), 0.75);
        q = plain_shifted(&p, 1, 0.75);
        check_operator(*state, op, &q);
        /* 3 (-2 (A + 0.5) + 4) - 1 */
        op = gd_linop_scaled(gd_linop_shifted(make(*state, kind, &seed, &p), 0.5), -2);
        op = gd_linop_shifted(gd_linop_scaled(gd_linop_shifted(op, 4), 3), -1);
        q = plain_shifted(&p, -6, 3 * (-2 * 0.5 + 4) - 1);
        check_operator(*state, op, &q);
    }
}

static void products_of_every_pair_of_kinds(void **state)
{
    uint64_t seed = 3;
    for (int i = 0; i < KINDS; i++) {
        for (int j = 0; j < KINDS; j++) {
            plain p, q;
            gd_linop *a = make(*state, i, &seed, &p), *b = gd_linop_scaled(make(*state, j, &seed, &q), 2);
            plain product = plain_product(&p, &q), all = plain_shifted(&product, 2, 0), more;
            gd_linop *op = gd_linop_composed(a, b);
            check_operator(*state, gd_linop_retain(op), &all);
            /* with a shift it cannot be solved one after the other */
            more = plain_shifted(&all, 0.5, 0.25);
            check_operator(*state, gd_linop_shifted(gd_linop_scaled(op, 0.5), 0.25), &more);
        }
    }
}

static void low_rank_of_any_rank(void **state)
{
    gd_ctx *ctx = *state;
    uint64_t seed = 4;
    for (int rank = 1; rank <= N + 2; rank++) {
        double u[N * (N + 2)], s[N + 2];
        for (int i = 0; i < N * rank; i++) u[i] = random_unit(&seed) - 0.5;
        for (int k = 0; k < rank; k++)
            s[k] = k == 1 ? 0 : random_unit(&seed) + 0.5; /* a zero must do no harm */
        plain p = {{{0}}};
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                for (int k = 0; k < rank; k++) p.m[i][j] += u[i * rank + k] * s[k] * u[j * rank + k];
        gd_tensor *ut = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){N, rank}, u);
        gd_tensor *st = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){rank}, s);
        check_without_solve(ctx, gd_linop_low_rank(ut, st), &p);
        plain q = plain_shifted(&p, 3, 0.5);
        check_operator(ctx, gd_linop_shifted(gd_linop_scaled(gd_linop_low_rank(ut, st), 3), 0.5), &q);
        q = plain_shifted(&p, -3, 10);
        check_operator(ctx, gd_linop_shifted(gd_linop_scaled(gd_linop_low_rank(ut, st), -3), 10), &q);
        if (rank > N)
            check_operator(ctx, gd_linop_low_rank(ut, st), &p); /* full rank, also without a shift */
    }
}

static void f32_operators_stay_f32(void **state)
{
    gd_ctx *ctx = *state;
    gd_tensor *a = gd_cast(MATRIX(ctx, 2, 2, 4, 1, 1, 3), GD_F32), *x = gd_cast(VECTOR(ctx, 1, 2), GD_F32);
    gd_linop *op = gd_linop_shifted(gd_linop_dense(a), 1);
    assert_int_equal(gd_tensor_dtype(gd_linop_matvec(op, x)), GD_F32);
    assert_int_equal(gd_tensor_dtype(gd_linop_solve(op, x)), GD_F32);
    assert_int_equal(gd_tensor_dtype(gd_linop_to_dense(op)), GD_F32);
    gd_linop_release(op);
    op = gd_linop_function(ctx, 2, apply_matrix, a, NULL);
    assert_values_near(gd_linop_solve(op, x), 1e-6, 1.0 / 11, 7.0 / 11);
    assert_int_equal(gd_tensor_dtype(gd_linop_to_dense(op)), GD_F32); /* it has seen an f32 vector */
    gd_linop_release(op);
}

static void an_operator_keeps_what_it_was_made_of(void **state)
{
    gd_ctx *ctx = *state;
    gd_scope_begin(ctx);
    gd_linop *op = gd_linop_dense(gd_rename(MATRIX(ctx, 2, 2, 2, 1, 0, 4), "row, column"));
    gd_scope_end(ctx);
    gd_tensor *y = gd_linop_matvec(op, VECTOR(ctx, 1, 1));
    assert_values(y, 3, 4);
    assert_string_equal(gd_axis_name(y, 0), "row");
    gd_linop_release(op);
}

/* ---- names and labels ---- */

enum { SIDE = 3 };
static const char *const row_labels[SIDE] = {"x", "y", "z"}, *const column_labels[SIDE] = {"a", "b", "c"};

static gd_tensor *labelled(gd_tensor *t, const char *axis, const char *name, const char *const *labels)
{
    return gd_with_labels(gd_rename_axis(t, axis, name), name, labels);
}

static gd_linop *for_products(gd_linop *a)
{
    gd_linop *made = gd_linop_for_products(a);
    gd_linop_release(a);
    return made;
}

/* Operators of every kind whose rows and columns have names: `same` where both have those of the columns. */
static gd_linop *named_operator(gd_ctx *ctx, int kind, bool *same)
{
    gd_tensor *m = MATRIX(ctx, SIDE, SIDE, 4, 1, 0, 2, 5, 1, 0, 3, 6);
    gd_tensor *a = labelled(labelled(m, "0", "i", row_labels), "1", "j", column_labels);
    gd_tensor *t = labelled(labelled(m, "0", "j", column_labels), "1", "i", row_labels);
    gd_tensor *d = labelled(VECTOR(ctx, 2, 3, 5), "0", "j", column_labels);
    gd_tensor *u = labelled(m, "0", "j", column_labels), *s = VECTOR(ctx, 1, 2, 3);
    *same = kind >= 4;
    switch (kind) {
    case 0: return gd_linop_dense(a);
    case 1: return gd_linop_dense_inverse(t);
    case 2: return gd_linop_scaled(gd_linop_dense(a), 2);
    case 3: return gd_linop_composed(gd_linop_dense(a), gd_linop_diagonal(d));
    case 4: return gd_linop_diagonal(d);
    case 5: return gd_linop_low_rank(u, s);
    case 6: return gd_linop_gram(a, NULL);
    case 7: return gd_linop_shifted(gd_linop_gram(a, NULL), 1);
    case 8: *same = false; return for_products(gd_linop_dense_inverse(t));
    default: return NULL;
    }
}

typedef gd_tensor *(*product_fn)(gd_linop *a, gd_tensor *x);

/* x and the same with its labels in another order, with and without its name. */
static void check_product(gd_ctx *ctx, gd_linop *op, product_fn fn, bool takes_rows, bool gives_rows)
{
    const char *in = takes_rows ? "i" : "j", *out = gives_rows ? "i" : "j";
    const char *const *labels = takes_rows ? row_labels : column_labels;
    const char *const mixed[SIDE] = {labels[2], labels[0], labels[1]}, *const other[SIDE] = {"a", "b", "?"};
    gd_tensor *x = VECTOR(ctx, 7, 11, 13), *turned = VECTOR(ctx, 13, 7, 11), *want = fn(op, x);
    double expected[SIDE], got[SIDE];
    assert_int_equal(gd_read_f64(want, expected, SIDE), GD_OK);
    gd_tensor *const forms[] = {labelled(x, "0", in, labels), labelled(turned, "0", in, mixed)};
    for (int i = 0; i < COUNT_OF(forms); i++) {
        gd_tensor *y = fn(op, forms[i]);
        assert_int_equal(gd_read_f64(y, got, SIDE), GD_OK);
        assert_memory_equal(got, expected, sizeof got);
        assert_string_equal(gd_axis_name(y, 0), out);
        assert_string_equal(gd_axis_label(y, 0, 2), (gives_rows ? row_labels : column_labels)[2]);
    }
    assert_null(fn(op, gd_rename(x, "weight")));
    assert_int_equal(gd_error(ctx), GD_AXIS);
    gd_clear_error(ctx);
    assert_null(fn(op, labelled(x, "0", in, other)));
    assert_int_equal(gd_error(ctx), GD_LABEL);
    gd_clear_error(ctx);
}

static void vectors_meet_operators_by_name_and_label(void **state)
{
    gd_ctx *ctx = *state;
    bool same = false;
    int kinds = 0;
    for (gd_linop *op; (op = named_operator(ctx, kinds, &same)); kinds++) {
        check_product(ctx, op, gd_linop_matvec, false, !same);
        check_product(ctx, op, gd_linop_rmatvec, !same, false);
        check_product(ctx, op, gd_linop_solve, !same, false);
        gd_linop_release(op);
    }
    assert_int_equal(kinds, 9);
}

static void parts_of_an_operator_meet_by_name_and_label(void **state)
{
    gd_ctx *ctx = *state;
    const char *const mixed[SIDE] = {"z", "x", "y"};
    gd_tensor *j = labelled(MATRIX(ctx, 3, 2, 1, 2, 3, 4, 5, 7), "0", "i", row_labels);
    gd_tensor *r = labelled(VECTOR(ctx, 3, 1, 2), "0", "i", mixed); /* 1, 2, 3 in the order of J */
    gd_linop *op = gd_linop_gram(j, r), *ordered = gd_linop_gram(j, VECTOR(ctx, 1, 2, 3));
    gd_tensor *right = VECTOR(ctx, 1 + 6 + 15, 2 + 8 + 21);
    double got[2], want[2];
    assert_int_equal(gd_read_f64(gd_linop_solve(op, right), got, 2), GD_OK);
    assert_int_equal(gd_read_f64(gd_linop_solve(ordered, right), want, 2), GD_OK);
    assert_memory_equal(got, want, sizeof got);
    gd_linop_release(op);
    gd_linop_release(ordered);
    assert_null(gd_linop_gram(j, gd_rename(VECTOR(ctx, 1, 2, 3), "k")));
    assert_error(ctx, GD_AXIS, "linop: r: not every axis of [k=3] is one of [i=3]");
    /* U diag(s) U^T with the labels of s turned */
    gd_tensor *u = labelled(MATRIX(ctx, 2, 3, 1, 0, 0, 0, 1, 0), "1", "i", row_labels);
    op = gd_linop_low_rank(u, r);
    assert_values(gd_linop_to_dense(op), 1, 0, 0, 2);
    gd_linop_release(op);
    /* A B: what B gives is what A takes */
    gd_tensor *d = labelled(VECTOR(ctx, 1, 2, 3), "0", "i", row_labels),
              *e = gd_rename(VECTOR(ctx, 1, 2, 3), "k");
    assert_null(gd_linop_composed(gd_linop_diagonal(d), gd_linop_diagonal(e)));
    assert_error(ctx, GD_AXIS, "linop: the left operator takes [i=3], the right one gives [k=3]");
    assert_null(gd_linop_composed(gd_linop_diagonal(d), gd_linop_diagonal(r)));
    assert_error(
        ctx, GD_LABEL,
        "linop: the left operator takes [i=3], the right one gives [i=3], with different labels or in a different order");
    /* S A S */
    gd_linop *a = gd_linop_diagonal(d), *c = gd_linop_congruent(a, r);
    assert_values(gd_linop_diagonal_of(c), 1, 8, 27);
    assert_string_equal(gd_axis_name(gd_linop_matvec(c, r), 0), "i");
    gd_linop_release(c);
    assert_null(gd_linop_congruent(a, e));
    assert_int_equal(gd_error(ctx), GD_AXIS);
    gd_clear_error(ctx);
    gd_linop_release(a);
}

static void a_dense_copy_is_ones_own(void **state)
{
    gd_ctx *ctx = *state;
    gd_tensor *a = MATRIX(ctx, 2, 2, 1, 2, 3, 4);
    gd_linop *op = gd_linop_dense(a);
    gd_tensor *copy = gd_linop_to_dense(op);
    assert_int_equal(gd_fill(copy, 0), GD_OK);
    assert_values(gd_linop_to_dense(op), 1, 2, 3, 4);
    gd_linop_release(op);
}

static void infinite_diagonals_stay_on_the_diagonal(void **state)
{
    gd_linop *op = gd_linop_diagonal(VECTOR(*state, INFINITY, 2));
    assert_values(gd_linop_to_dense(op), INFINITY, 0, 0, 2);
    gd_linop_release(op);
}

static void empty_operators_work(void **state)
{
    gd_ctx *ctx = *state;
    gd_tensor *none = gd_zeros(ctx, GD_F64, 1, (int64_t[]){0});
    gd_linop *op = gd_linop_shifted(gd_linop_diagonal(none), 1);
    assert_int_equal(gd_numel(gd_linop_matvec(op, none)), 0);
    assert_int_equal(gd_numel(gd_linop_solve(op, none)), 0);
    assert_int_equal(gd_numel(gd_linop_to_dense(op)), 0);
    gd_linop_release(op);
}

/* ---- errors ---- */

static void singular_operators_say_so(void **state)
{
    gd_ctx *ctx = *state;
    gd_tensor *b = VECTOR(ctx, 1, 1);
    gd_linop *ops[] = {
        gd_linop_dense(MATRIX(ctx, 2, 2, 1, 2, 2, 4)),
        gd_linop_dense(MATRIX(ctx, 2, 2, 1, 2, 3, 6)),
        gd_linop_diagonal(VECTOR(ctx, 1, 0)),
        gd_linop_shifted(gd_linop_diagonal(VECTOR(ctx, 1, 3)), -3),
        gd_linop_low_rank(MATRIX(ctx, 2, 1, 1, 2), VECTOR(ctx, 1)),
        gd_linop_scaled(gd_linop_diagonal(VECTOR(ctx, 1, 1)), 0),
        gd_linop_composed(gd_linop_diagonal(VECTOR(ctx, 1, 1)), gd_linop_diagonal(VECTOR(ctx, 0, 1))),
    };
    for (int i = 0; i < COUNT_OF(ops); i++) {
        assert_null(gd_linop_solve(ops[i], b));
        assert_error(ctx, GD_SINGULAR, "");
        gd_linop_release(ops[i]);
    }
    /* the matrix of which only the inverse is known, and that is singular */
    gd_linop *op = gd_linop_dense_inverse(MATRIX(ctx, 2, 2, 1, 2, 2, 4));
    assert_null(gd_linop_matvec(op, b));
    assert_error(ctx, GD_SINGULAR, "");
    gd_linop_release(op);
}

static void a_zero_operator_with_a_shift_is_solved(void **state)
{
    gd_linop *op = gd_linop_shifted(gd_linop_scaled(gd_linop_diagonal(VECTOR(*state, 1, 2)), 0), 4);
    assert_values(gd_linop_solve(op, VECTOR(*state, 2, 8)), 0.5, 2);
    gd_linop_release(op);
}

static void a_failed_cholesky_leaves_no_error_behind(void **state)
{
    gd_ctx *ctx = *state;
    gd_linop *op = gd_linop_dense(MATRIX(ctx, 2, 2, 0, 1, 1, 0));
    assert_values(gd_linop_solve(op, VECTOR(ctx, 2, 3)), 3, 2);
    assert_no_error(ctx);
    /* an error from before stays, and does not stand in the way */
    (void)gd_fail(ctx, GD_IO, "before");
    assert_values(gd_linop_solve(op, VECTOR(ctx, 2, 3)), 3, 2);
    assert_error(ctx, GD_IO, "before");
    gd_linop_release(op);
}

static void shapes_and_dtypes_are_checked(void **state)
{
    gd_ctx *ctx = *state;
    assert_null(gd_linop_dense(MATRIX(ctx, 2, 3, 1, 2, 3, 4, 5, 6)));
    assert_error(ctx, GD_SHAPE, "linop: the matrix has shape [2, 3], needs [2, 2]");
    assert_null(gd_linop_dense(VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_SHAPE, "linop: the matrix has 1 axes, needs 2");
    assert_null(gd_linop_diagonal(MATRIX(ctx, 1, 1, 1)));
    assert_error(ctx, GD_SHAPE, "linop: the diagonal has 2 axes, needs 1");
    assert_null(gd_linop_low_rank(MATRIX(ctx, 2, 1, 1, 2), VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_SHAPE, "linop: s has 2 elements, needs 1");
    assert_null(gd_linop_diagonal(INDEX(ctx, 1, 2)));
    assert_error(ctx, GD_DTYPE, "linop: the diagonal has dtype i64, needs a floating one");
    gd_linop *op = gd_linop_diagonal(VECTOR(ctx, 1, 2));
    assert_null(gd_linop_matvec(op, VECTOR(ctx, 1, 2, 3)));
    assert_error(ctx, GD_SHAPE, "linop: the vector has 3 elements, needs 2");
    assert_null(gd_linop_solve(op, VECTOR(ctx, 1)));
    assert_error(ctx, GD_SHAPE, "linop: the right side has 1 elements, needs 2");
    assert_null(gd_linop_composed(op, gd_linop_diagonal(VECTOR(ctx, 1))));
    assert_error(ctx, GD_SHAPE, "linop: the left operator has size 2, the right one 1");
}

static void nothing_in_gives_nothing_out(void **state)
{
    gd_ctx *ctx = *state;
    gd_tensor *x = VECTOR(ctx, 1);
    assert_null(gd_linop_dense(NULL));
    assert_null(gd_linop_dense_inverse(NULL));
    assert_null(gd_linop_diagonal(NULL));
    assert_null(gd_linop_low_rank(NULL, x));
    assert_null(gd_linop_scaled(NULL, 2));
    assert_null(gd_linop_shifted(NULL, 2));
    assert_null(gd_linop_composed(NULL, gd_linop_diagonal(x)));
    assert_null(gd_linop_composed(gd_linop_diagonal(x), NULL));
    assert_null(gd_linop_matvec(NULL, x));
    assert_null(gd_linop_rmatvec(NULL, x));
    assert_null(gd_linop_solve(NULL, x));
    assert_null(gd_linop_to_dense(NULL));
    assert_null(gd_linop_retain(NULL));
    assert_int_equal(gd_linop_size(NULL), 0);
    gd_linop_release(NULL);
    gd_linop *op = gd_linop_diagonal(x);
    assert_null(gd_linop_matvec(op, NULL));
    gd_linop_release(op);
}

/* ---- functions ---- */

typedef struct watched {
    int calls, freed;
} watched;

static gd_tensor *twice(void *user, gd_tensor *x)
{
    ((watched *)user)->calls++;
    return gd_mul_scalar(x, 2);
}

static gd_tensor *fails(void *user, gd_tensor *x)
{
    (void)user;
    (void)x;
    return NULL;
}

static gd_tensor *wrong_size(void *user, gd_tensor *x)
{
    (void)user;
    return gd_slice(x, "0", 0, 1, 1);
}

static gd_tensor *unchanged(void *user, gd_tensor *x)
{
    (void)user;
    return x;
}

static void count_free(void *user) { ((watched *)user)->freed++; }

static void functions_are_called_and_their_data_freed_once(void **state)
{
    gd_ctx *ctx = *state;
    watched w = {0};
    gd_linop *op = gd_linop_function(ctx, 3, twice, &w, count_free);
    assert_values(gd_linop_matvec(op, VECTOR(ctx, 1, 2, 3)), 2, 4, 6);
    assert_values(gd_linop_rmatvec(op, VECTOR(ctx, 1, 2, 3)), 2, 4, 6);
    assert_int_equal(w.calls, 2);
    assert_values(gd_linop_solve(op, VECTOR(ctx, 1, 2, 3)), 0.5, 1, 1.5);
    assert_int_equal(w.calls, 5);
    gd_linop_retain(op);
    gd_linop_release(op);
    assert_int_equal(w.freed, 0);
    gd_linop_release(op);
    assert_int_equal(w.freed, 1);
    assert_null(gd_linop_function(ctx, 3, NULL, &w, count_free));
    assert_error(ctx, GD_ARGUMENT, "linop: a function operator needs a function and a size");
    assert_int_equal(w.freed, 2);
}

static void a_function_may_return_its_argument(void **state)
{
    gd_ctx *ctx = *state;
    gd_linop *op = gd_linop_function(ctx, 2, unchanged, NULL, NULL);
    gd_tensor *x = VECTOR(ctx, 1, 2), *y = gd_linop_matvec(op, x);
    assert_values(y, 1, 2);
    gd_release(y);
    assert_values(x, 1, 2);
    gd_linop_release(op);
}

static void functions_that_fail_are_reported(void **state)
{
    gd_ctx *ctx = *state;
    gd_linop *op = gd_linop_function(ctx, 2, fails, NULL, NULL);
    assert_null(gd_linop_matvec(op, VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_CALLBACK, "linop: the function gave no vector");
    assert_null(gd_linop_to_dense(op));
    assert_error(ctx, GD_CALLBACK, "linop: the function gave no vector");
    gd_linop_release(op);
    op = gd_linop_function(ctx, 2, wrong_size, NULL, NULL);
    assert_null(gd_linop_matvec(op, VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_SHAPE, "linop: what the function gave has 1 elements, needs 2");
    gd_linop_release(op);
}

static void large_functions_are_not_solved(void **state)
{
    gd_ctx *ctx = *state;
    watched w = {0};
    int64_t n = 5000;
    gd_linop *op = gd_linop_shifted(gd_linop_function(ctx, n, twice, &w, NULL), 1);
    assert_null(gd_linop_solve(op, gd_ones(ctx, GD_F64, 1, &n)));
    assert_error(ctx, GD_NOT_IMPLEMENTED, "linop: solve: a function operator of size 5000, more than 1024");
    /* nor where it is part of something */
    op = gd_linop_composed(op, gd_linop_diagonal(gd_ones(ctx, GD_F64, 1, &n)));
    op = gd_linop_shifted(op, 1);
    assert_null(gd_linop_solve(op, gd_ones(ctx, GD_F64, 1, &n)));
    assert_error(ctx, GD_NOT_IMPLEMENTED, "linop: solve: a function operator of size 5000, more than 1024");
    assert_int_equal(w.calls, 0);
    gd_linop_release(op);
}

/* ---- no memory ---- */

static void run_all(gd_ctx *ctx, const double *d, const double *m)
{
    gd_tensor *a = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){3, 3}, m),
              *v = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, d);
    gd_tensor *u = gd_slice(a, "1", 0, 2, 1), *s = gd_slice(v, "0", 0, 2, 1);
    gd_linop *op = gd_linop_shifted(gd_linop_low_rank(u, s), 1);
    op = gd_linop_composed(op, gd_linop_dense_inverse(a));
    op = gd_linop_composed(gd_linop_scaled(op, 2), gd_linop_diagonal(v));
    op = gd_linop_composed(op, gd_linop_function(ctx, 3, apply_matrix, a, NULL));
    (void)gd_linop_matvec(op, v);
    (void)gd_linop_rmatvec(op, v);
    (void)gd_linop_solve(op, v);
    (void)gd_linop_to_dense(op);
    gd_linop_release(op);
}

static void no_memory_at_any_allocation_is_reported(void **state)
{
    (void)state;
    static const double d[3] = {2, 3, 4}, m[9] = {4, 1, 0, 1, 3, 1, 0, 1, 5};
    for (int64_t k = 1;; k++) {
        memory mem = {0};
        gd_ctx *ctx = context(&mem, 1, NULL);
        gd_scope_begin(ctx);
        mem.requests = 0;
        mem.fail_at = k;
        run_all(ctx, d, m);
        gd_scope_end(ctx);
        assert_int_equal(gd_error(ctx), mem.failed ? GD_NOMEM : GD_OK);
        end_context(ctx, &mem);
        if (!mem.failed) break;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_scoped_test, end_scoped_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_does_what_its_matrix_does),
        TEST(scaled_and_shifted_operators_of_every_kind),
        TEST(products_of_every_pair_of_kinds),
        TEST(low_rank_of_any_rank),
        TEST(f32_operators_stay_f32),
        TEST(an_operator_keeps_what_it_was_made_of),
        TEST(vectors_meet_operators_by_name_and_label),
        TEST(parts_of_an_operator_meet_by_name_and_label),
        TEST(a_dense_copy_is_ones_own),
        TEST(infinite_diagonals_stay_on_the_diagonal),
        TEST(empty_operators_work),
        TEST(singular_operators_say_so),
        TEST(a_zero_operator_with_a_shift_is_solved),
        TEST(a_failed_cholesky_leaves_no_error_behind),
        TEST(shapes_and_dtypes_are_checked),
        TEST(nothing_in_gives_nothing_out),
        TEST(functions_are_called_and_their_data_freed_once),
        TEST(a_function_may_return_its_argument),
        TEST(functions_that_fail_are_reported),
        TEST(large_functions_are_not_solved),
        TEST(no_memory_at_any_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("optim/linop", tests, NULL, NULL);
}
