/* Linear operators on vectors of all parameters.
 *
 * Operators are trees.  Scaled and shifted ones are peeled off before solving, so the system is always factor * B
 * + shift * I, and B is solved by its type:
 *
 *   dense          Cholesky where the matrix is exactly symmetric and positive definite, else LU
 *   dense inverse  given B^-1 = M: factor B + shift I  =  M^-1 (factor I + shift M)
 *   diagonal       element by element
 *   low rank       Woodbury: a system of the rank's size
 *   gram           QR of J, never J^T J; the dual system where J is wide
 *   composed       one after the other, without a shift
 *   function       through a dense matrix, up to FUNCTION_LIMIT unknowns
 *
 * The rest (a shifted product, a low-rank operator of full rank) becomes dense.  A function is assumed symmetric, like a
 * Hessian: A^T x = A x.
 *
 * Internally nothing has names. An operator keeps the names of its rows and columns; input vectors are matched with them, and results
 * get them. */
#include "base/ctx.h"
#include "optim/vector/linear_model.h"
#include "optim/vector/linop_internal.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

#include <math.h>

#define FUNCTION_LIMIT 1024

typedef enum linop_kind {
    DENSE,
    DENSE_INVERSE,
    DIAGONAL,
    LOW_RANK,
    GRAM,
    SCALED,
    SHIFTED,
    COMPOSED,
    FUNCTION
} linop_kind;

struct gd_linop {
    gd_ctx *ctx;
    uint32_t refs;
    linop_kind kind;
    int64_t n;
    gd_tensor *matrix;         /* DENSE, DENSE_INVERSE; LOW_RANK: U; GRAM: J */
    gd_tensor *vector;         /* DIAGONAL; LOW_RANK: s; GRAM: r or NULL */
    gd_tensor *right;          /* GRAM: J^T r */
    gd_tensor *triangle;       /* GRAM: of [J r], once a shift was solved with */
    gd_tensor *rows, *columns; /* vectors with the name and labels of what A x and x have; NULL: none */
    gd_linop *a, *b;           /* SCALED, SHIFTED: a; COMPOSED: both */
    double number;             /* SCALED, SHIFTED */
    gd_matvec_fn fn;           /* FUNCTION */
    void *user;
    void (*free_user)(void *);
    gd_dtype dtype; /* of the last vector of a function, for its matrix */
    gd_device *device;
};

/* ---- life ---- */

static gd_linop *linop_new(gd_ctx *ctx, linop_kind kind, int64_t n)
{
    gd_linop *op = gd__calloc(ctx, sizeof *op);
    if (!op) return NULL;
    op->ctx = ctx;
    op->refs = 1;
    op->kind = kind;
    op->n = n;
    return op;
}

gd_linop *gd_linop_retain(gd_linop *a)
{
    if (a) a->refs++;
    return a;
}

void gd_linop_release(gd_linop *a)
{
    if (!a || --a->refs) return;
    gd__release(a->matrix);
    gd__release(a->vector);
    gd__release(a->right);
    gd__release(a->triangle);
    gd__release(a->rows);
    gd__release(a->columns);
    gd_linop_release(a->a);
    gd_linop_release(a->b);
    if (a->free_user) a->free_user(a->user);
    gd__free(a->ctx, a, sizeof *a);
}

int64_t gd_linop_size(const gd_linop *a) { return a ? a->n : 0; }

/* The same elements without names and history, owned by the operator whatever scope is open. */
static gd_tensor *hold(gd_tensor *t)
{
    gd_ctx *ctx = gd_tensor_ctx(t);
    gd_scope_begin(ctx);
    gd_tensor *own = gd_drop_names(gd_detach(t));
    gd__own(own);
    gd_scope_end(ctx);
    return own;
}

/* ---- names ---- */

/* A vector with the name and labels of one axis, owned: only these are used. *out stays NULL if there are none. */
static gd_status axis_of(const gd_tensor *t, int axis, gd_tensor **out)
{
    if (!gd__name(t, axis) && !gd__labels(t, axis)) return GD_OK;
    gd_ctx *ctx = gd_tensor_ctx(t);
    gd_scope_begin(ctx);
    *out = gd__new(gd_device_get(ctx, "cpu"), GD_U8, 1, &t->size[axis]);
    gd__own(*out);
    gd_status status = *out ? gd__axes_map(*out, t, &axis) : gd_error(ctx);
    gd_scope_end(ctx);
    return status;
}

/* The operator with rows and columns named as these axes of a tensor are. */
static gd_linop *named_as(gd_linop *op, const gd_tensor *t, int rows, int columns)
{
    if (!op || (!axis_of(t, rows, &op->rows) && !axis_of(t, columns, &op->columns))) return op;
    gd_linop_release(op);
    return NULL;
}

static void share_names(gd_linop *op, gd_tensor *rows, gd_tensor *columns)
{
    gd__retain(op->rows = rows);
    gd__retain(op->columns = columns);
}

/* x without names, its elements in the order of the axis: by name and label where both have them, else as they are. */
static gd_tensor *along(const char *what, gd_tensor *x, const gd_tensor *axis)
{
    return gd_drop_names(x && axis ? gd__aligned_to(what, x, axis) : x);
}

static gd_status need_shape(const char *what, const gd_tensor *t, int ndim, int64_t rows, int64_t columns)
{
    gd_ctx *ctx = gd_tensor_ctx(t);
    if (!gd_dtype_is_float(gd_tensor_dtype(t)))
        return gd_fail(ctx, GD_DTYPE, "linop: %s has dtype %s, needs a floating one", what,
                       gd_dtype_name(gd_tensor_dtype(t)));
    if (gd_ndim(t) == ndim && gd_size(t, 0) == rows && (ndim == 1 || gd_size(t, 1) == columns)) return GD_OK;
    if (gd_ndim(t) != ndim)
        return gd_fail(ctx, GD_SHAPE, "linop: %s has %d axes, needs %d", what, gd_ndim(t), ndim);
    if (ndim == 1)
        return gd_fail(ctx, GD_SHAPE, "linop: %s has %lld elements, needs %lld", what,
                       (long long)gd_size(t, 0), (long long)rows);
    return gd_fail(ctx, GD_SHAPE, "linop: %s has shape [%lld, %lld], needs [%lld, %lld]", what,
                   (long long)gd_size(t, 0), (long long)gd_size(t, 1), (long long)rows, (long long)columns);
}

/* An operator that holds a matrix, a vector, or both. */
static gd_linop *holding(linop_kind kind, gd_tensor *matrix, gd_tensor *vector)
{
    gd_tensor *any = matrix ? matrix : vector;
    gd_linop *op = linop_new(gd_tensor_ctx(any), kind, gd_size(any, 0));
    if (!op) return NULL;
    op->matrix = matrix ? hold(matrix) : NULL;
    op->vector = vector ? hold(vector) : NULL;
    if ((!matrix || op->matrix) && (!vector || op->vector)) return op;
    gd_linop_release(op);
    return NULL;
}

/* A vector in the order of one axis of a tensor. */
static gd_tensor *along_axis(const char *what, gd_tensor *x, const gd_tensor *t, int axis)
{
    gd_tensor *like = NULL, *seen = axis_of(t, axis, &like) ? NULL : along(what, x, like);
    gd__release(like);
    return seen;
}

static gd_linop *square(linop_kind kind, gd_tensor *a)
{
    if (!a) return NULL;
    int64_t n = gd_size(a, 0);
    return need_shape("the matrix", a, 2, n, n) ? NULL : holding(kind, a, NULL);
}

gd_linop *gd_linop_dense(gd_tensor *a) { return named_as(square(DENSE, a), a, 0, 1); }

gd_linop *gd_linop_dense_inverse(gd_tensor *a_inverse)
{
    return named_as(square(DENSE_INVERSE, a_inverse), a_inverse, 1, 0);
}

gd_linop *gd_linop_diagonal(gd_tensor *d)
{
    if (!d || need_shape("the diagonal", d, 1, gd_size(d, 0), 0)) return NULL;
    return named_as(holding(DIAGONAL, NULL, d), d, 0, 0);
}

gd_linop *gd_linop_low_rank(gd_tensor *u, gd_tensor *s)
{
    if (!u || !s || need_shape("U", u, 2, gd_size(u, 0), gd_size(u, 1))) return NULL;
    if (need_shape("s", s, 1, gd_size(u, 1), 0)) return NULL;
    gd_scope_begin(gd_tensor_ctx(u));
    s = along_axis("linop: s", s, u, 1);
    gd_linop *op = s ? named_as(holding(LOW_RANK, u, s), u, 0, 0) : NULL;
    gd_scope_end(gd_tensor_ctx(u));
    return op;
}

gd_linop *gd_linop_gram(gd_tensor *j, gd_tensor *r)
{
    if (!j || need_shape("J", j, 2, gd_size(j, 0), gd_size(j, 1))) return NULL;
    if (r && need_shape("r", r, 1, gd_size(j, 0), 0)) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(j);
    gd_scope_begin(ctx);
    gd_tensor *seen = r ? along_axis("linop: r", r, j, 0) : NULL;
    gd_linop *op = r && !seen ? NULL : named_as(holding(GRAM, j, seen), j, 1, 1);
    if (op) op->n = gd_size(j, 1);
    if (op && r) {
        op->right = gd_matmul(gd_transpose(op->matrix, 0, 1), op->vector);
        gd__own(op->right);
        if (!op->right) gd_linop_release(op), op = NULL;
    }
    gd_scope_end(ctx);
    return op;
}

/* An operator over others, which are consumed. */
static gd_linop *over(linop_kind kind, gd_linop *a, gd_linop *b, double number)
{
    bool given = a && (b || kind != COMPOSED);
    gd_linop *op = given ? linop_new(a->ctx, kind, a->n) : NULL;
    if (!op) {
        gd_linop_release(a);
        gd_linop_release(b);
        return NULL;
    }
    op->a = a;
    op->b = b;
    op->number = number;
    share_names(op, a->rows, (b ? b : a)->columns);
    return op;
}

gd_linop *gd_linop_scaled(gd_linop *a, double factor) { return over(SCALED, a, NULL, factor); }

gd_linop *gd_linop_shifted(gd_linop *a, double shift) { return over(SHIFTED, a, NULL, shift); }

/* The outputs of B are the inputs of A. */
static gd_status check_composed(const gd_linop *a, const gd_linop *b)
{
    char left[256], right[256];
    if (a->n != b->n)
        return gd_fail(a->ctx, GD_SHAPE, "linop: the left operator has size %lld, the right one %lld",
                       (long long)a->n, (long long)b->n);
    if (!a->columns || !b->rows || gd__same_axes(a->columns, b->rows)) return GD_OK;
    bool names = gd__name(a->columns, 0) == gd__name(b->rows, 0);
    return gd_fail(
        a->ctx, names ? GD_LABEL : GD_AXIS, "linop: the left operator takes %s, the right one gives %s%s",
        gd__shape_text(a->columns, left, sizeof left), gd__shape_text(b->rows, right, sizeof right),
        names ? ", with different labels or in a different order" : "");
}

gd_linop *gd_linop_composed(gd_linop *a, gd_linop *b)
{
    if (a && b && check_composed(a, b)) {
        gd_linop_release(a);
        a = NULL;
    }
    return over(COMPOSED, a, b, 0);
}

gd_linop *gd_linop_function(gd_ctx *ctx, int64_t n, gd_matvec_fn fn, void *user, void (*free_user)(void *))
{
    gd_linop *op = NULL;
    if (!ctx || !fn || n < 0)
        (void)gd_fail(ctx, GD_ARGUMENT, "linop: a function operator needs a function and a size");
    else
        op = linop_new(ctx, FUNCTION, n);
    if (!op) {
        if (free_user) free_user(user);
        return NULL;
    }
    op->fn = fn;
    op->user = user;
    op->free_user = free_user;
    op->dtype = GD_F64;
    return op;
}

/* ---- solving with tensors ---- */

static bool is_symmetric(gd_tensor *a)
{
    gd_tensor *same = gd_all(gd_eq(a, gd_transpose(a, 0, 1)), NULL, false);
    return same && gd_item(same) != 0;
}

/* a x = b. */
static gd_tensor *solve_dense(gd_tensor *a, gd_tensor *b)
{
    if (!a || !b) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(a);
    /* a failed factorisation records an error, which may be cleared only if there was none before */
    if (!gd_error(ctx) && is_symmetric(a)) {
        gd_tensor *lower = gd_cholesky(a);
        if (lower)
            return gd_triangular_solve(lower, gd_triangular_solve(lower, b, true, false, false), true, true,
                                       false);
        if (gd_error(ctx) != GD_SINGULAR) return NULL;
        gd_clear_error(ctx);
    }
    return gd_solve(a, b);
}

static gd_tensor *identity(gd_tensor *like, int64_t n)
{
    return gd_to_device(gd_eye(gd_tensor_ctx(like), gd_tensor_dtype(like), n, n), gd_tensor_device(like));
}

/* factor * m + shift * I. */
static gd_tensor *shifted_matrix(gd_tensor *m, double factor, double shift)
{
    if (!m) return NULL;
    if (factor != 1) m = gd_mul_scalar(m, factor);
    return shift == 0 ? m : gd_add(m, gd_mul_scalar(identity(m, gd_size(m, 0)), shift));
}

static gd_tensor *singular(gd_linop *op, const char *why)
{
    return gd__refuse(op->ctx, GD_SINGULAR, "linop: solve: %s", why);
}

static gd_tensor *solve_diagonal(gd_linop *op, double factor, double shift, gd_tensor *b)
{
    gd_tensor *d = gd_add_scalar(gd_mul_scalar(op->vector, factor), shift);
    gd_tensor *whole = gd_all(d, NULL, false);
    if (whole && gd_item(whole) == 0) return singular(op, "the diagonal has a zero");
    return gd_div(b, d);
}

/* x = (b - U S z) / c with z = U^T x from (c I + U^T U S) z = U^T b; S may hold zeros. */
static gd_tensor *solve_woodbury(gd_linop *op, double factor, double c, gd_tensor *b)
{
    gd_tensor *u = op->matrix, *ut = gd_transpose(u, 0, 1), *s = gd_mul_scalar(op->vector, factor);
    gd_tensor *small = shifted_matrix(gd_mul(gd_matmul(ut, u), s), 1, c);
    gd_tensor *z = solve_dense(small, gd_matmul(ut, b));
    return gd_mul_scalar(gd_sub(b, gd_matmul(u, gd_mul(s, z))), 1 / c);
}

static bool same_elements(gd_tensor *a, gd_tensor *b)
{
    gd_tensor *same = a && b ? gd_all(gd_eq(a, b), NULL, false) : NULL;
    return same && gd_item(same) != 0;
}

/* J with fewer rows than columns: (f J^T J + s I)^-1 J^T = J^T (f J J^T + s I)^-1, and Woodbury for other right sides. */
static gd_tensor *solve_wide(gd_linop *op, double factor, double shift, gd_tensor *b)
{
    if (shift == 0) return singular(op, "J has fewer rows than columns");
    gd_tensor *j = op->matrix, *jt = gd_transpose(j, 0, 1),
              *small = shifted_matrix(gd_matmul(j, jt), factor, shift);
    if (same_elements(b, op->right)) return gd_matmul(jt, solve_dense(small, op->vector));
    gd_tensor *correction = gd_matmul(jt, solve_dense(small, gd_matmul(j, b)));
    return gd_mul_scalar(gd_sub(b, gd_mul_scalar(correction, factor)), 1 / shift);
}

/* x with R^T R x = b. */
static gd_tensor *solve_twice(gd_tensor *r, gd_tensor *b)
{
    return gd_triangular_solve(r, gd_triangular_solve(r, b, false, true, false), false, false, false);
}

#define TALL \
    4 /* rows per column from which the triangle of [J r] is made first and kept, for the shifts to come */

/* The damped triangle of [J r]. */
static gd_tensor *damped(gd_linop *op, double factor, double shift)
{
    if (shift == 0 || gd_size(op->matrix, 0) < TALL * op->n)
        return gd__damped(op->matrix, op->vector, factor, shift);
    if (!op->triangle && (op->triangle = gd__triangle(op->matrix, op->vector))) gd__own(op->triangle);
    gd_tensor *t = op->triangle;
    if (!t) return NULL;
    return gd__damped(gd_slice(t, "1", 0, op->n, 1), op->vector ? gd_index(t, "1", op->n) : NULL, factor,
                      shift);
}

/* T x = t where b = J^T r; any other b through T^T T with one refinement (the corrected seminormal equations, Bjorck 1987). */
static gd_tensor *solve_gram(gd_linop *op, double factor, double shift, gd_tensor *b)
{
    gd_tensor *j = op->matrix;
    if (op->n == 0) return gd_copy(b);
    if (gd_size(j, 0) < op->n) return solve_wide(op, factor, shift, b);
    gd_tensor *t = damped(op, factor, shift), *r = t ? gd_slice(t, "1", 0, op->n, 1) : NULL;
    /* the remainder of each column after the previous ones, relative to its length: units do not matter */
    gd_tensor *left = r ? gd_div(gd_abs(gd_diagonal(r)), gd_norm(r, 2, "0", false)) : NULL,
              *least = left ? gd_min(left, NULL, false) : NULL;
    double eps = (gd_tensor_dtype(j) == GD_F64 ? 0x1p-52 : 0x1p-23) * (double)(op->n + 8);
    if (!least) return NULL;
    if (!(gd_item(least) > eps)) return singular(op, "the columns of J are dependent");
    if (same_elements(b, op->right))
        return gd_triangular_solve(r, gd_index(t, "1", op->n), false, false, false);
    gd_tensor *x = solve_twice(r, b), *back = gd_matmul(gd_transpose(j, 0, 1), gd_matmul(j, x));
    back = gd_add(gd_mul_scalar(back, factor), gd_mul_scalar(x, shift));
    return gd_add(x, solve_twice(r, gd_sub(b, back)));
}

static gd_tensor *dense_like(gd_linop *op, gd_tensor *like);

static bool has_function(const gd_linop *op)
{
    return op && (op->kind == FUNCTION || has_function(op->a) || has_function(op->b));
}

/* The matrix of a function takes a call per column. */
static bool can_be_dense(gd_linop *op)
{
    if (op->n <= FUNCTION_LIMIT || !has_function(op)) return true;
    (void)gd_fail(op->ctx, GD_NOT_IMPLEMENTED,
                  "linop: solve: a function operator of size %lld, more than %d; use an iterative method",
                  (long long)op->n, FUNCTION_LIMIT);
    return false;
}

/* (factor * op + shift * I) x = b for an op that is neither scaled nor shifted. */
static gd_tensor *solve_peeled(gd_linop *op, double factor, double shift, gd_tensor *b)
{
    int64_t rank = op->kind == LOW_RANK ? gd_size(op->matrix, 1) : 0;
    gd_tensor *m = op->matrix;
    switch (op->kind) {
    case DENSE: return solve_dense(shifted_matrix(m, factor, shift), b);
    case DENSE_INVERSE:
        if (shift == 0) return gd_mul_scalar(gd_matmul(m, b), 1 / factor);
        return solve_dense(shifted_matrix(gd_mul_scalar(m, shift), 1, factor), gd_matmul(m, b));
    case DIAGONAL: return solve_diagonal(op, factor, shift, b);
    case LOW_RANK:
        if (shift == 0 && rank < op->n) return singular(op, "the operator has a lower rank than its size");
        if (shift != 0 && rank <= op->n) return solve_woodbury(op, factor, shift, b);
        break;
    case GRAM:
        if (factor > 0 && shift >= 0) return solve_gram(op, factor, shift, b);
        break;
    case COMPOSED:
        if (shift == 0) return gd_mul_scalar(gd_linop_solve(op->b, gd_linop_solve(op->a, b)), 1 / factor);
        break;
    case FUNCTION:
    case SCALED:
    case SHIFTED: break;
    }
    return can_be_dense(op) ? solve_dense(shifted_matrix(dense_like(op, b), factor, shift), b) : NULL;
}

static gd_tensor *solve(gd_linop *op, gd_tensor *b)
{
    if (!b) return NULL;
    /* factor * (number * A) + shift * I and factor * (A + number * I) + shift * I */
    double factor = 1, shift = 0;
    for (; op->kind == SCALED || op->kind == SHIFTED; op = op->a) {
        if (op->kind == SCALED)
            factor *= op->number;
        else
            shift += factor * op->number;
    }
    if (factor != 0) return solve_peeled(op, factor, shift, b);
    return shift != 0 ? gd_mul_scalar(b, 1 / shift) : singular(op, "the operator is zero");
}

/* ---- products ---- */

static gd_tensor *call_function(gd_linop *op, gd_tensor *x)
{
    if (!x) return NULL;
    op->dtype = gd_tensor_dtype(x);
    op->device = gd_tensor_device(x);
    gd_tensor *y = op->fn(op->user, x);
    if (!y && !gd_error(op->ctx)) (void)gd_fail(op->ctx, GD_CALLBACK, "linop: the function gave no vector");
    if (!y || need_shape("what the function gave", y, 1, op->n, 0)) return NULL;
    return gd_drop_names(y);
}

/* A x, or A^T x. */
static gd_tensor *multiply(gd_linop *op, gd_tensor *x, bool transposed)
{
    if (!x) return NULL;
    bool plain = op->kind == DENSE || op->kind == DENSE_INVERSE;
    gd_tensor *m = plain && transposed ? gd_transpose(op->matrix, 0, 1) : op->matrix;
    switch (op->kind) {
    case DENSE: return gd_matmul(m, x);
    case DENSE_INVERSE: return solve_dense(m, x);
    case DIAGONAL: return gd_mul(op->vector, x);
    case LOW_RANK: return gd_matmul(m, gd_mul(op->vector, gd_matmul(gd_transpose(m, 0, 1), x)));
    case GRAM: return gd_matmul(gd_transpose(m, 0, 1), gd_matmul(m, x));
    case SCALED: return gd_mul_scalar(multiply(op->a, x, transposed), op->number);
    case SHIFTED: return gd_add(multiply(op->a, x, transposed), gd_mul_scalar(x, op->number));
    case COMPOSED:
        if (transposed) return multiply(op->b, multiply(op->a, x, true), true);
        return multiply(op->a, multiply(op->b, x, false), false);
    case FUNCTION: return call_function(op, x);
    }
    return NULL;
}

/* Column i is A applied to unit vector i. */
static gd_tensor *columns_of(gd_linop *op, gd_tensor *one)
{
    if (!one) return NULL;
    gd_tensor *out = gd_zeros_like(one);
    for (int64_t i = 0; i < op->n && out; i++) {
        gd_scope_begin(op->ctx);
        gd_tensor *row = gd_index(out, "0", i), *y = call_function(op, gd_contiguous(gd_index(one, "0", i)));
        if (!row || !y || gd_assign(row, y)) out = NULL;
        gd_scope_end(op->ctx);
    }
    return gd_transpose(out, 0, 1);
}

/* The matrix, with dtype and device of `like`. */
static gd_tensor *dense_like(gd_linop *op, gd_tensor *like)
{
    gd_tensor *m = op->matrix, *one;
    switch (op->kind) {
    case DENSE: return m;
    case DENSE_INVERSE: return gd_inverse(m);
    case DIAGONAL:
        one = identity(op->vector, op->n);
        return gd_where(gd_cast(one, GD_BOOL), op->vector, gd_zeros_like(op->vector));
    case LOW_RANK: return gd_matmul(gd_mul(m, op->vector), gd_transpose(m, 0, 1));
    case GRAM: return gd_matmul(gd_transpose(m, 0, 1), m);
    case SCALED: return shifted_matrix(dense_like(op->a, like), op->number, 0);
    case SHIFTED: return shifted_matrix(dense_like(op->a, like), 1, op->number);
    case COMPOSED: return gd_matmul(dense_like(op->a, like), dense_like(op->b, like));
    case FUNCTION: return columns_of(op, identity(like, op->n));
    }
    return NULL;
}

/* ---- public functions: checks, and a scope for intermediate tensors ---- */

static bool fits(const char *what, gd_linop *op, gd_tensor *x)
{
    return op && x && !need_shape(what, x, 1, op->n, 0);
}

static gd_tensor *leave(gd_ctx *ctx, gd_tensor *out, gd_tensor *axis)
{
    return gd__scope_leave(ctx, axis ? gd__relabel_like(out, axis) : out);
}

gd_tensor *gd__linop_matrix(const gd_linop *a, bool *inverse)
{
    *inverse = a->kind == DENSE_INVERSE;
    return a->kind == DENSE || a->kind == DENSE_INVERSE ? a->matrix : NULL;
}

gd_tensor *gd_linop_matvec(gd_linop *a, gd_tensor *x)
{
    if (!fits("the vector", a, x)) return NULL;
    gd_scope_begin(a->ctx);
    return leave(a->ctx, multiply(a, along("linop: the vector", x, a->columns), false), a->rows);
}

gd_tensor *gd_linop_rmatvec(gd_linop *a, gd_tensor *x)
{
    if (!fits("the vector", a, x)) return NULL;
    gd_scope_begin(a->ctx);
    return leave(a->ctx, multiply(a, along("linop: the vector", x, a->rows), true), a->columns);
}

gd_tensor *gd_linop_solve(gd_linop *a, gd_tensor *b)
{
    if (!fits("the right side", a, b)) return NULL;
    gd_scope_begin(a->ctx);
    return leave(a->ctx, solve(a, along("linop: the right side", b, a->rows)), a->columns);
}

/* A tensor with the dtype and device of the operator: one of its own, or the last input of its function. */
static gd_tensor *alike(gd_linop *op)
{
    if (!op || op->matrix || op->vector) return !op ? NULL : op->matrix ? op->matrix : op->vector;
    if (op->kind != FUNCTION) {
        gd_tensor *found = alike(op->a);
        return found ? found : alike(op->b);
    }
    return op->device ? gd_empty_on(op->device, op->dtype, 0, NULL) : gd_scalar(op->ctx, op->dtype, 0);
}

gd_tensor *gd_linop_to_dense(gd_linop *a)
{
    if (!a) return NULL;
    gd_scope_begin(a->ctx);
    gd_tensor *like = alike(a);
    return leave(a->ctx, gd_copy(like ? dense_like(a, like) : NULL), NULL);
}

gd_tensor *gd_linop_diagonal_of(gd_linop *a)
{
    if (!a) return NULL;
    gd_scope_begin(a->ctx);
    gd_tensor *d = a->kind == DIAGONAL ? gd_copy(a->vector)
                   : a->kind == GRAM   ? gd_sum(gd_square(a->matrix), "0", false)
                                       : gd_copy(gd_diagonal(gd_linop_to_dense(a)));
    return leave(a->ctx, d, a->rows);
}

gd_linop *gd_linop_congruent(gd_linop *a, gd_tensor *s)
{
    if (!fits("the diagonal", a, s)) return NULL;
    gd_scope_begin(a->ctx);
    gd_tensor *left = along("linop: the diagonal", s, a->rows),
              *right = left ? along("linop: the diagonal", s, a->columns) : NULL;
    gd_linop *out = a->kind == GRAM ? gd_linop_gram(gd_mul(a->matrix, right), a->vector)
                                    : gd_linop_dense(gd_mul(gd_mul(gd_linop_to_dense(a), right),
                                                            gd_unsqueeze(left, 1, NULL)));
    if (out) share_names(out, a->rows, a->columns);
    gd_scope_end(a->ctx);
    return out;
}

/* (M + shift I)^-1, where the shift, half the digits below the largest element, regularises the null space of M. */
static gd_tensor *inverse_beside(gd_ctx *ctx, gd_tensor *m)
{
    gd_tensor *largest = gd_max(gd_abs(m), NULL, false);
    double size = largest ? gd_item(largest) : NAN, beside = gd_tensor_dtype(m) == GD_F64 ? 0x1p-26 : 0x1p-11;
    gd_tensor *one = gd_to_device(gd_eye(ctx, gd_tensor_dtype(m), gd_size(m, 0), gd_size(m, 0)),
                                  gd_tensor_device(m));
    return gd_inverse(gd_add(m, gd_mul_scalar(one, size > 0 ? beside * size : beside)));
}

gd_linop *gd_linop_for_products(gd_linop *a)
{
    if (!a || a->kind != DENSE_INVERSE) return gd_linop_retain(a);
    gd_scope_begin(a->ctx);
    gd_tensor *matrix = gd_inverse(a->matrix);
    if (!matrix && gd_error(a->ctx) == GD_SINGULAR) {
        gd_clear_error(a->ctx);
        matrix = inverse_beside(a->ctx, a->matrix);
    }
    gd_linop *out = gd_linop_dense(matrix);
    if (out) share_names(out, a->rows, a->columns);
    gd_scope_end(a->ctx);
    return out;
}
