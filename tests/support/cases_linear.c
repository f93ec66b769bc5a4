/* Linear algebra. */
#include "support/op_cases.h"
#include "support/op_references.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#include <math.h>

#define APPLY1(name, expression)                                      \
    static gd_tensor *apply_##name(gd_ctx *ctx, gd_tensor *const *in) \
    {                                                                 \
        (void)ctx;                                                    \
        gd_tensor *a = in[0];                                         \
        return expression;                                            \
    }
#define APPLY2(name, expression)                                      \
    static gd_tensor *apply_##name(gd_ctx *ctx, gd_tensor *const *in) \
    {                                                                 \
        (void)ctx;                                                    \
        gd_tensor *a = in[0], *b = in[1];                             \
        return expression;                                            \
    }

/* ---- products ---- */

/* An array seen with another shape of as many elements. */
static array seen_as(const array *a, int ndim, const int64_t *size)
{
    array view = {.ndim = ndim, .numel = a->numel, .v = a->v};
    memcpy(view.size, size, (size_t)ndim * sizeof *size);
    return view;
}

static void reshaped(array *a, int ndim, const int64_t *size)
{
    a->ndim = ndim;
    for (int i = 0; i < ndim; i++) a->size[i] = size[i];
}

APPLY2(matmul, gd_matmul(a, b))
APPLY2(matmul_fast, gd_matmul_fast(gd__nameless(a), gd__nameless(b)))
static void ref_product(const array *in, array *out) { ref_matmul(&in[0], &in[1], out); }

/* A vector from the left counts as a row, from the right as a column. */
static void ref_row_product(const array *in, array *out)
{
    array row = seen_as(&in[0], 2, (int64_t[]){1, in[0].size[0]});
    ref_matmul(&row, &in[1], out);
    reshaped(out, 1, (int64_t[]){in[1].size[1]});
}

static void ref_column_product(const array *in, array *out)
{
    array column = seen_as(&in[1], 2, (int64_t[]){in[1].size[0], 1});
    ref_matmul(&in[0], &column, out);
    reshaped(out, in[0].ndim - 1, in[0].size);
}

/* (q k^T) v of heads that lie side by side, [n, time, 3, heads, size], into memory of the same order. */
static gd_tensor *apply_heads(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *part[3];
    if (gd__split(gd_permute(gd__nameless(in[0]), (int[]){2, 0, 3, 1, 4}), 3, part)) return NULL;
    gd_tensor *scores = gd__product(part[0], gd_transpose(part[1], 2, 3));
    gd_tensor *out = gd__new_laid_like(gd_tensor_device(in[0]), part[0]);
    out = gd__product_into(out, scores, part[2]);
    return gd_permute(out, (int[]){0, 2, 1, 3});
}
static void ref_heads(const array *in, array *out)
{
    int64_t n = in->size[0], time = in->size[1], heads = in->size[3], size = in->size[4];
    int64_t down = 3 * heads * size; /* from one time to the next */
    *out = array_new(4, (int64_t[]){n, time, heads, size});
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t i = 0; i < out->numel; i++) {
        int64_t d = i % size, h = i / size % heads, t = i / size / heads % time, b = i / size / heads / time;
        const long double *first = in->v + b * time * down + h * size, *q = first + t * down;
        for (int64_t s = 0; s < time; s++) {
            const long double *k = first + s * down + heads * size, v = k[heads * size + d];
            for (int64_t e = 0; e < size; e++) {
                out->v[i] += q[e] * k[e] * v;
                out->scale[i] += fabsl(q[e] * k[e] * v);
            }
        }
    }
}

APPLY2(dot, gd_dot(a, b))
static void ref_dot(const array *in, array *out)
{
    array row = seen_as(&in[0], 2, (int64_t[]){1, in[0].size[0]}),
          column = seen_as(&in[1], 2, (int64_t[]){in[1].size[0], 1});
    ref_matmul(&row, &column, out);
    reshaped(out, 0, NULL);
}

APPLY2(outer, gd_outer(a, b))
static void ref_outer(const array *in, array *out)
{
    array column = seen_as(&in[0], 2, (int64_t[]){in[0].size[0], 1}),
          row = seen_as(&in[1], 2, (int64_t[]){1, in[1].size[0]});
    ref_matmul(&column, &row, out);
}

/* Contraction over the middle axis of the left: [i, k, j] x [k, l] -> [i, j, l]. */
APPLY2(contract, gd_contract(gd_rename(a, "i, k, j"), gd_rename(b, "k, l"), "k"))
static gd_tensor *apply_einsum(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_einsum("ikj,kl->ijl", in, 2);
}
static void ref_contract(const array *in, array *out)
{
    array swapped;
    ref_transpose(&in[0], &swapped);
    int64_t i = in[0].size[0], k = in[0].size[1], j = in[0].size[2], l = in[1].size[1];
    array rows = seen_as(&swapped, 2, (int64_t[]){i * j, k});
    ref_matmul(&rows, &in[1], out);
    reshaped(out, 3, (int64_t[]){i, j, l});
    array_free(&swapped);
}

/* Three operands, a repeated letter and a sum over what is left: sum over i of a[i, i] b[i, j], times all
 * of c. */
static gd_tensor *apply_addmm(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_addmm(gd__nameless(in[0]), gd__nameless(in[1]), gd__nameless(in[2]), -0.75, 2.5);
}
static void ref_addmm(const array *in, array *out)
{
    ref_matmul(&in[1], &in[2], out);
    for (int64_t i = 0; i < out->numel; i++) {
        out->v[i] = -0.75L * in[0].v[i] + 2.5L * out->v[i];
        if (out->scale) out->scale[i] = 0.75L * fabsl(in[0].v[i]) + 2.5L * out->scale[i];
    }
}

static gd_tensor *apply_einsum_trace(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_einsum("ii,ij,k->j", in, 3);
}
static void ref_einsum_trace(const array *in, array *out)
{
    int64_t n = in[1].size[0], m = in[1].size[1];
    *out = array_new(1, &m);
    out->scale = calloc((size_t)m + 1, sizeof *out->scale);
    long double factor = 0, size = 0;
    for (int64_t k = 0; k < in[2].numel; k++) {
        factor += in[2].v[k];
        size += fabsl(in[2].v[k]);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            long double part = in[0].v[i * n + i] * in[1].v[i * m + j];
            out->v[j] += part * factor;
            out->scale[j] += fabsl(part) * size;
        }
}

/* ---- factorisations: all results flat, one after the other ---- */

static gd_tensor *joined(gd_tensor *const *part, int count)
{
    gd_tensor *flat[3];
    for (int k = 0; k < count; k++) flat[k] = gd_reshape(part[k], 1, (int64_t[]){-1});
    return gd_cat(flat, count, "0");
}

APPLY1(cholesky, gd_cholesky(a))
static void ref_factor(const array *in, array *out) { ref_cholesky(in, out); }

static gd_tensor *apply_qr(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *part[2];
    return gd_qr(in[0], &part[0], &part[1]) ? NULL : joined(part, 2);
}

static gd_tensor *apply_eigh(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *part[2];
    return gd_eigh(in[0], &part[0], &part[1]) ? NULL : joined(part, 2);
}

static gd_tensor *apply_svd(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *part[3];
    return gd_svd(in[0], &part[0], &part[1], &part[2]) ? NULL : joined(part, 3);
}

/* max |a - b| */
static long double distance(const array *a, const array *b)
{
    long double most = 0;
    for (int64_t i = 0; i < a->numel; i++) {
        long double d = fabsl(a->v[i] - b->v[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

/* max |a^T a - 1| */
static long double not_orthonormal(const array *a)
{
    array t, product;
    ref_transpose(a, &t);
    ref_matmul(&t, a, &product);
    array one = ref_identity(&product);
    long double d = distance(&product, &one);
    array_free(&t);
    array_free(&product);
    array_free(&one);
    return d;
}

/* max |x y - z| */
static long double product_error(const array *x, const array *y, const array *z)
{
    array product;
    ref_matmul(x, y, &product);
    long double d = distance(&product, z);
    array_free(&product);
    return d;
}

/* Matrices [batch, rows, columns] lying at `*at` of a joined result. */
static array part_of(const array *joint, int64_t *at, int64_t batch, int64_t rows, int64_t columns)
{
    array part = {
        .ndim = 3, .size = {batch, rows, columns}, .numel = batch * rows * columns, .v = joint->v + *at};
    *at += part.numel;
    return part;
}

static const char *holds_qr(const array *in, const array *out, long double eps)
{
    int64_t b = in->size[0], m = in->size[1], n = in->size[2], k = m < n ? m : n, at = 0;
    array q = part_of(out, &at, b, m, k), r = part_of(out, &at, b, k, n);
    for (int64_t i = 0; i < r.numel; i++)
        if (i / n % k > i % n && r.v[i] != 0) return "R is not upper triangular";
    if (not_orthonormal(&q) > 40 * eps) return "Q is not orthonormal";
    return product_error(&q, &r, in) > 80 * eps ? "Q R is not A" : NULL;
}

static const char *holds_eigh(const array *in, const array *out, long double eps)
{
    int64_t b = in->size[0], n = in->size[2], at = 0;
    array w = part_of(out, &at, b, 1, n), v = part_of(out, &at, b, n, n), scaled = array_new(3, in->size);
    for (int64_t i = 0; i < w.numel; i++)
        if (i % n && w.v[i] < w.v[i - 1]) return "the eigenvalues do not ascend";
    for (int64_t i = 0; i < scaled.numel; i++) scaled.v[i] = v.v[i] * w.v[i / (n * n) * n + i % n];
    long double d = product_error(in, &v, &scaled);
    array_free(&scaled);
    if (not_orthonormal(&v) > 40 * eps) return "the eigenvectors are not orthonormal";
    return d > 200 * eps ? "A V is not V diag(w)" : NULL;
}

static const char *holds_svd(const array *in, const array *out, long double eps)
{
    int64_t b = in->size[0], m = in->size[1], n = in->size[2], k = m < n ? m : n, at = 0;
    array u = part_of(out, &at, b, m, k), s = part_of(out, &at, b, 1, k), vt = part_of(out, &at, b, k, n);
    for (int64_t i = 0; i < s.numel; i++)
        if (s.v[i] < 0 || (i % k && s.v[i] > s.v[i - 1])) return "the singular values do not descend to 0";
    array scaled = array_new(3, vt.size), v;
    for (int64_t i = 0; i < scaled.numel; i++) scaled.v[i] = vt.v[i] * s.v[i / n];
    long double d = product_error(&u, &scaled, in);
    ref_transpose(&vt, &v);
    bool straight = not_orthonormal(&u) <= 40 * eps && not_orthonormal(&v) <= 40 * eps;
    array_free(&scaled);
    array_free(&v);
    if (!straight) return "the singular vectors are not orthonormal";
    return d > 200 * eps ? "U diag(s) VT is not A" : NULL;
}

/* ---- solving ---- */

APPLY2(solve, gd_solve(a, b))
static void ref_solution(const array *in, array *out) { ref_solve(&in[0], &in[1], out, NULL); }
static void ref_solution_vector(const array *in, array *out)
{
    array column = seen_as(&in[1], 2, (int64_t[]){in[1].size[0], 1});
    ref_solve(&in[0], &column, out, NULL);
    reshaped(out, 1, in[1].size);
}

/* The triangle that a triangular solver reads, as a full matrix. */
static void solve_triangle(const array *in, bool lower, bool transpose, bool unit, array *out)
{
    array t = array_new(in->ndim, in->size), turned;
    int64_t n = in->size[in->ndim - 1];
    for (int64_t i = 0; i < t.numel; i++) {
        int64_t row = i / n % n, column = i % n;
        bool inside = lower ? column <= row : column >= row;
        t.v[i] = row == column && unit ? 1 : inside ? in->v[i] : 0;
    }
    ref_transpose(&t, &turned);
    ref_solve(transpose ? &turned : &t, &in[1], out, NULL);
    array_free(&t);
    array_free(&turned);
}

#define TRIANGLES(X)              \
    X(lower, true, false, false)  \
    X(upper, false, false, false) \
    X(turned, true, true, false)  \
    X(unit, false, true, true)

#define TRIANGLE_FUNCTIONS(variant, lower, transpose, unit)                               \
    APPLY2(triangular_solve_##variant, gd_triangular_solve(a, b, lower, transpose, unit)) \
    static void ref_triangle_##variant(const array *in, array *out)                       \
    {                                                                                     \
        solve_triangle(in, lower, transpose, unit, out);                                  \
    }
TRIANGLES(TRIANGLE_FUNCTIONS)

APPLY1(inverse, gd_inverse(a))
static void ref_inverse(const array *in, array *out)
{
    array one = ref_identity(in);
    ref_solve(in, &one, out, NULL);
    array_free(&one);
}

APPLY1(logdet, gd_logdet(a))
static void ref_logdet(const array *in, array *out)
{
    array one = ref_identity(in), x;
    *out = array_new(1, in->size);
    ref_solve(in, &one, &x, out->v);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t i = 0; i < out->numel; i++) out->scale[i] = 1 + fabsl(out->v[i]);
    array_free(&one);
    array_free(&x);
}

/* ---- the table ---- */

#define PRODUCT(title, operator, fn, ref, left, right, allowed)                                      \
    {                                                                                                \
        .name = title, .op = GD_OP_##operator, .apply = apply_##fn, .reference = ref, .operands = 2, \
        .in = {left, right}, .dtypes = allowed, .order = 2, .error = 8                               \
    }
#define SHAPES(domain, plain, broadcast, empty, single, large) \
    {                                                          \
        domain, plain, broadcast, empty, single, large, 0      \
    }
#define MATRICES(domain)                                                                      \
    SHAPES(domain, "batch=2 row=3 col=3", NULL, "batch=0 row=3 col=3", "batch=1 row=1 col=1", \
           "batch=6 row=60 col=60")
#define SIDES                                                                                 \
    SHAPES(ANY, "batch=2 row=3 side=2", NULL, "batch=0 row=3 side=2", "batch=1 row=1 side=1", \
           "batch=6 row=60 side=30")
#define FACTOR(title, fn, domain)                                                                 \
    {                                                                                             \
        .name = title, .op = GD_OP_##fn, .apply = apply_##fn, .holds = holds_##fn, .operands = 1, \
        .in = {MATRICES(domain)}, .dtypes = FLOATS, .order = 2                                    \
    }
#define RECTANGLE(title, fn, plain, large_shape)                                                   \
    {                                                                                              \
        .name = title, .op = GD_OP_##fn, .apply = apply_##fn, .holds = holds_##fn, .operands = 1,  \
        .in = {SHAPES(SPREAD, plain, NULL, NULL, NULL, large_shape)}, .dtypes = FLOATS, .order = 2 \
    }
#define TRIANGLE_ROW(variant, lower, transpose, unit) \
    {.name = "triangular_solve/" #variant,            \
     .op = GD_OP_triangular_solve,                    \
     .apply = apply_triangular_solve_##variant,       \
     .reference = ref_triangle_##variant,             \
     .operands = 2,                                   \
     .in = {MATRICES(TRIANGLE), SIDES},               \
     .dtypes = FLOATS,                                \
     .order = 2,                                      \
     .error = 40},

static const op_case rows[] = {
    PRODUCT("matmul", matmul, matmul, ref_product,
            SHAPES(ANY, "row=2 k=3", NULL, "row=0 k=3", "row=1 k=1", "row=300 k=200"),
            SHAPES(ANY, "k=3 col=2", NULL, "k=3 col=2", "k=1 col=1", "k=200 col=100"), NUMBERS),
    PRODUCT("matmul/empty", matmul, matmul, ref_product,
            SHAPES(ANY, "row=2 k=3", NULL, "row=2 k=0", NULL, "row=200 k=300"),
            SHAPES(ANY, "k=3 col=3", NULL, "k=0 col=3", NULL, "k=300 col=170"), NUMBERS),
    PRODUCT("matmul/batched", matmul, matmul, ref_product,
            SHAPES(ANY, "batch=2 row=2 k=3", "batch=1 row=2 k=3", "batch=0 row=2 k=3", "batch=1 row=1 k=1",
                   "batch=20 row=60 k=50"),
            SHAPES(ANY, "batch=2 k=3 col=2", "more=2 batch=3 k=3 col=2", "batch=0 k=3 col=2",
                   "batch=1 k=1 col=1", "batch=20 k=50 col=40"),
            NUMBERS),
    PRODUCT("matmul/tall", matmul, matmul, ref_product,
            SHAPES(ANY, "batch=2 row=2 k=3", NULL, "batch=0 row=2 k=3", "batch=1 row=1 k=1",
                   "batch=20 row=60 k=50"),
            SHAPES(ANY, "k=3 col=2", NULL, "k=3 col=2", "k=1 col=1", "k=50 col=40"), FLOATS),
    PRODUCT("matmul/row", matmul, matmul, ref_row_product, SHAPES(ANY, "k=3", NULL, "k=0", "k=1", "k=300"),
            SHAPES(ANY, "k=3 col=2", NULL, "k=0 col=2", "k=1 col=1", "k=300 col=400"), FLOATS),
    PRODUCT("matmul/column", matmul, matmul, ref_column_product,
            SHAPES(ANY, "row=2 k=3", NULL, "row=0 k=3", "row=1 k=1", "row=300 k=400"),
            SHAPES(ANY, "k=3", NULL, "k=3", "k=1", "k=400"), FLOATS),
    PRODUCT("dot", matmul, dot, ref_dot, SHAPES(ANY, "k=5", NULL, "k=0", "k=1", "k=120000"),
            SHAPES(ANY, "k=5", NULL, "k=0", "k=1", "k=120000"), NUMBERS),
    PRODUCT("outer", mul, outer, ref_outer, SHAPES(ANY, "row=2", NULL, "row=0", "row=1", "row=300"),
            SHAPES(ANY, "col=3", NULL, "col=3", "col=1", "col=400"), NUMBERS),
    {.name = "addmm",
     .op = GD_OP_addmm,
     .apply = apply_addmm,
     .reference = ref_addmm,
     .operands = 3,
     .in = {SHAPES(ANY, "row=2 col=2", "batch=2 row=2 col=2", "row=0 col=3", "row=1 col=1",
                   "row=300 col=100"),
            SHAPES(ANY, "row=2 k=3", "batch=2 row=2 k=3", "row=0 k=2", "row=1 k=1", "row=300 k=200"),
            SHAPES(ANY, "k=3 col=2", "batch=2 k=3 col=2", "k=2 col=3", "k=1 col=1", "k=200 col=100")},
     .dtypes = FLOATS,
     .order = 2,
     .error = 10},
    PRODUCT("matmul_fast", matmul, matmul_fast, ref_product,
            SHAPES(ANY, "row=2 k=3", NULL, "row=0 k=3", "row=1 k=1", "row=300 k=200"),
            SHAPES(ANY, "k=3 col=2", NULL, "k=3 col=2", "k=1 col=1", "k=200 col=100"), NUMBERS),
    {.name = "matmul/heads",
     .op = GD_OP_matmul,
     .apply = apply_heads,
     .reference = ref_heads,
     .operands = 1,
     .in = {SHAPES(ANY, "n=2 time=2 third=3 head=2 size=4", NULL, "n=2 time=0 third=3 head=2 size=4",
                   "n=1 time=1 third=3 head=1 size=1", "n=5 time=40 third=3 head=4 size=16")},
     .dtypes = FLOATS,
     .order = 2,
     .error = 10},
    PRODUCT("contract", matmul, contract, ref_contract,
            SHAPES(ANY, "i=2 k=3 j=2", NULL, "i=0 k=3 j=2", "i=1 k=1 j=1", "i=20 k=80 j=30"),
            SHAPES(ANY, "k=3 l=2", NULL, "k=3 l=2", "k=1 l=1", "k=80 l=50"), NUMBERS),
    PRODUCT("einsum", matmul, einsum, ref_contract,
            SHAPES(ANY, "i=2 k=3 j=2", NULL, "i=0 k=3 j=2", "i=1 k=1 j=1", "i=20 k=80 j=30"),
            SHAPES(ANY, "k=3 l=2", NULL, "k=3 l=2", "k=1 l=1", "k=80 l=50"), NUMBERS),
    {.name = "einsum/trace",
     .op = GD_OP_matmul,
     .apply = apply_einsum_trace,
     .reference = ref_einsum_trace,
     .operands = 3,
     .in = {SHAPES(ANY, "i=3 j=3", NULL, "i=0 j=0", "i=1 j=1", "i=100 j=100"),
            SHAPES(ANY, "i=3 j=2", NULL, "i=0 j=2", "i=1 j=1", "i=100 j=1000"),
            SHAPES(ANY, "k=2", NULL, "k=2", "k=1", "k=50")},
     .dtypes = FLOATS,
     .order = 2,
     .error = 10},
    {.name = "cholesky",
     .op = GD_OP_cholesky,
     .apply = apply_cholesky,
     .reference = ref_factor,
     .operands = 1,
     .in = {MATRICES(DEFINITE)},
     .dtypes = FLOATS,
     .order = 2,
     .error = 20},
    FACTOR("qr", qr, REGULAR),
    RECTANGLE("qr/tall", qr, "batch=2 row=3 col=2", "batch=6 row=80 col=40"),
    FACTOR("eigh", eigh, SPREAD),
    FACTOR("svd", svd, SPREAD),
    RECTANGLE("svd/tall", svd, "batch=2 row=3 col=2", "batch=6 row=60 col=30"),
    RECTANGLE("svd/wide", svd, "batch=2 row=2 col=3", "batch=6 row=30 col=60"),
    PRODUCT("solve", solve, solve, ref_solution, MATRICES(REGULAR), SIDES, FLOATS),
    PRODUCT("solve/vector", solve, solve, ref_solution_vector,
            SHAPES(REGULAR, "row=3 col=3", "row=3 col=3", "row=0 col=0", "row=1 col=1", "row=200 col=200"),
            SHAPES(ANY, "row=3", NULL, "row=0", "row=1", "row=200"), FLOATS),
    TRIANGLES(TRIANGLE_ROW){.name = "inverse",
                            .op = GD_OP_solve,
                            .apply = apply_inverse,
                            .reference = ref_inverse,
                            .operands = 1,
                            .in = {MATRICES(REGULAR)},
                            .dtypes = FLOATS,
                            .order = 2,
                            .error = 20},
    {.name = "logdet",
     .op = GD_OP_logdet,
     .apply = apply_logdet,
     .reference = ref_logdet,
     .operands = 1,
     .in = {MATRICES(REGULAR)},
     .dtypes = FLOATS,
     .order = 2,
     .error = 20},
};

const op_case_table linear_cases = {rows, COUNT_OF(rows)};
