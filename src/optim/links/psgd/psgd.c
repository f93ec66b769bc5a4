/* PSGD: a preconditioner P = Q^T Q that is learned by stochastic gradient descent (Li 2018, arXiv 2402.04553, 2402.11858).
 *
 * It minimises E[h P h + v P^-1 v], whose minimum has P E[h h^T] P = E[v v^T].
 *
 *   *_newton   v is random and h = H v with the Hessian H: P tends to |H|^-1
 *   *_whiten   h is the gradient and E[v v^T] = 1, of which the mean is taken exactly: P tends to E[g g^T]^(-1/2)
 *
 *   dense      Q is one n x n matrix over all parameters
 *   kron       Q is a Kronecker product: a matrix for each axis of each tensor that is longer than 1, or a diagonal where an
 *              axis is long
 *   lra        Q = (1 + U V^T) diag(d) over all parameters, U and V n x rank
 *
 * A step on Q (a factor of it) goes down the gradient relative to Q, in the geometry that dQ names.  With a = P h it is
 * S = a a^T - v v^T, with an axis first for the factor of that axis, and
 *
 *     Q0.5EQ1.5   Q - S Q, turned back towards a symmetric Q        QEQ    Q - Q S
 *     QUAD        (1 - S/2) Q (1 - S/2)                             QEP    Q - Q S P
 *     EQ          Q - triu(A A^T - B B^T) Q with A = Q h, B = Q^-T v: Q is triangular
 *
 * times lr_preconditioner / L, L = max(betaL L + (1 - betaL) l, l), l a bound of the norm of the sum of the two products, so
 * that Q stays regular.  For lra the steps are d - d (h P h - v P^-1 v), and in turns U - G V (1 + V^T U) and
 * V - (1 + V U^T) G U with G = A A^T - B B^T; U begins with zeros, V with cosines.
 *
 * Tensors of one shape are computed together.  State: the factors and a bound for each.  They begin with the first h that is
 * finite and not zero; until then, and with numbers that are not finite, the update is passed on and Q stays as it was.
 *
 * Five links in one long file: they share the learning rule, its noise, bounds and steps, which no other link uses, and a
 * link includes public headers only. */
#include "gradus/link/hessian.h"
#include "gradus/link/matrices.h"

#include <float.h>
#include <math.h>

static const char *const factor_name[GD_MAX_DIMS] = GD_AXIS_NAMES("factor");
static const char *const bound_name[GD_MAX_DIMS] = GD_AXIS_NAMES("bound");

/* Inputs of learning: tensors h and v, v NULL for its mean, each with the key of its state. */
typedef struct lesson {
    gd_link *link;
    int count;
    gd_tensor *const *keys;
    gd_tensor **h, **v;
} lesson;

static double number(const gd_link *link, const char *field) { return gd_link_real(link, field, NULL); }

static gd_dtype dtype_for(const gd_tensor *x) { return gd_tensor_dtype(x) == GD_F64 ? GD_F64 : GD_F32; }

/* ---- chance ---- */

static bool happens(gd_link *link, const char *probability)
{
    double p = number(link, probability);
    if (p >= 1 || p <= 0) return p >= 1;
    gd_tensor *like = gd_zeros(gd_link_ctx(link), GD_F64, 1,
                               (int64_t[]){1}); /* on the host, without waiting for a device */
    gd_tensor *x = like ? gd_link_random(link, GD_RANDOM_UNIFORM, like) : NULL;
    return x && gd_item(x) < p;
}

/* h with noise of a share of its size. */
static gd_tensor *with_noise(gd_link *link, gd_tensor *h)
{
    double share = number(link, "damping");
    if (!h || share == 0) return h;
    gd_tensor *size = gd_mul_scalar(gd_sqrt(gd_mean(gd_square(h), NULL, false)), share);
    return gd_add(h, gd_mul(size, gd_link_random(link, GD_RANDOM_NORMAL, h)));
}

/* The initial scale of Q; 0: not known yet. */
static double first_scale(const gd_link *link, gd_tensor *h, gd_tensor *v)
{
    double given = number(link, "init_scale"), hh = gd_item(gd_mean(gd_square(h), NULL, false));
    double vv = v ? gd_item(gd_mean(gd_square(v), NULL, false)) : 1;
    if (!(isfinite(hh) && hh > 0 && isfinite(vv))) return 0;
    return isnan(given) ? pow(vv / hh, 0.25) : given;
}

/* The next bound L. */
static gd_tensor *raised(const gd_link *link, gd_tensor *bound, gd_tensor *l)
{
    double keep = number(link, "betaL");
    return gd_maximum(gd_add(gd_mul_scalar(bound, keep), gd_mul_scalar(l, 1 - keep)), l);
}

/* lr / L; nothing where L is zero. */
static gd_tensor *rate(const gd_link *link, gd_tensor *bound)
{
    gd_tensor *zero = gd_zeros_like(bound);
    return gd_where(gd_gt(bound, zero),
                    gd_mul_scalar(gd_reciprocal(bound), number(link, "lr_preconditioner")), zero);
}

/* ---- Kronecker products ---- */

/* Tensors of one shape with their factors, stacked: [k, d, d] or [k, d], and bounds that multiply them. */
typedef struct batch {
    const lesson *of;
    gd_link *link;
    const int *member;
    int count, ndim;
    int64_t size[GD_MAX_DIMS], n;
    bool dense[GD_MAX_DIMS];
    gd_tensor *q[GD_MAX_DIMS], *bound[GD_MAX_DIMS];
} batch;

static bool axis_is_dense(const gd_link *link, int64_t size, int64_t n)
{
    if (!gd_link_has_field(link, "max_dim")) return true;
    double d = (double)size;
    return d <= number(link, "max_dim") && d * d <= number(link, "max_skew") * (double)n;
}

/* An axis of size 1 has no factor: it would be a redundant factor, and Q would be learned faster than the bounds allow. */
static batch batch_like(const lesson *of, const gd_tensor *x, const int *member, int count)
{
    batch b = {.of = of, .link = of->link, .member = member, .count = count, .n = gd_numel(x)};
    for (int d = 0; d < gd_ndim(x); d++)
        if (gd_size(x, d) != 1) b.size[b.ndim++] = gd_size(x, d);
    if (!b.ndim) b.size[b.ndim++] = 1;
    for (int d = 0; d < b.ndim; d++) b.dense[d] = axis_is_dense(b.link, b.size[d], b.n);
    return b;
}

static gd_tensor *identity_like(gd_tensor *x, int64_t n, double scale)
{
    gd_tensor *one = gd_to_device(gd_eye(gd_tensor_ctx(x), dtype_for(x), n, n), gd_tensor_device(x));
    return gd_mul_scalar(one, scale);
}

/* Factors and bounds of a tensor at its first step. */
static gd_status begin_factors(const lesson *of, int i)
{
    gd_ctx *ctx = gd_link_ctx(of->link);
    gd_tensor *h = of->h[i];
    double scale = first_scale(of->link, h, of->v ? of->v[i] : NULL);
    batch b = batch_like(of, h, NULL, 1);
    for (int d = 0; d < b.ndim && scale > 0 && !gd_error(ctx); d++) {
        gd_tensor *q = identity_like(h, b.size[d], pow(scale, 1.0 / b.ndim));
        gd_tensor *bound = b.dense[d] ? gd_slice(gd_slice(q, "0", 0, 1, 1), "1", 0, 1, 1)
                                      : gd_slice(gd_diagonal(q), "0", 0, 1, 1);
        if (!b.dense[d]) q = gd_diagonal(q);
        gd_tensor *none = bound ? gd_zeros_like(bound) : NULL;
        if (!none || !q || gd_link_set_state(of->link, of->keys[i], bound_name[d], none) ||
            gd_link_set_state(of->link, of->keys[i], factor_name[d], q))
            break;
    }
    return gd_error(ctx);
}

static bool has_begun(const lesson *of, int i)
{
    return gd_link_has_state(of->link, of->keys[i], factor_name[0]);
}

/* All members as one tensor: their state, or the tensors of a list as vectors. */
static gd_tensor *stacked(const batch *b, const char *slot, gd_tensor *const *x)
{
    gd_tensor **list = gd_link_scratch(b->link, b->count);
    for (int k = 0; k < b->count && list; k++) {
        int i = b->member[k];
        list[k] = slot ? gd_link_state(b->link, b->of->keys[i], slot)
                       : gd_cast(gd_reshape(gd_drop_names(x[i]), 1, (int64_t[]){b->n}), dtype_for(x[i]));
        if (!list[k]) return NULL;
    }
    return list ? gd_stack(list, b->count, 0, NULL) : NULL;
}

static gd_status put_back(const batch *b, const char *slot, gd_tensor *value)
{
    gd_status status = value ? GD_OK : gd_error(gd_link_ctx(b->link));
    for (int k = 0; k < b->count && !status; k++)
        status = gd_assign(gd_link_state(b->link, b->of->keys[b->member[k]], slot), gd_index(value, "0", k));
    return status;
}

/* x with axis d first: [k, d, the others]; passed on transposed it has the next axis first. */
static gd_tensor *axis_first(const batch *b, gd_tensor *x, int d)
{
    return gd_reshape(x, 3, (int64_t[]){b->count, b->size[d], b->n / b->size[d]});
}

enum multiply { BY_Q, BY_P, BY_INVERSE }; /* Q x, Q^T Q x, Q^-T x of a triangular Q */

static gd_tensor *times(const batch *b, gd_tensor *x, int d, enum multiply how)
{
    gd_tensor *q = b->q[d];
    if (!b->dense[d]) {
        q = gd_unsqueeze(q, 2, NULL);
        return how == BY_INVERSE ? gd_div(x, q) : gd_mul(x, how == BY_P ? gd_square(q) : q);
    }
    if (how == BY_INVERSE) return gd_triangular_solve(q, x, false, true, false);
    x = gd_matmul(q, x);
    return how == BY_P ? gd_matmul(gd_transpose(q, 1, 2), x) : x;
}

/* Every axis of x [k, n]. */
static gd_tensor *through(const batch *b, gd_tensor *x, enum multiply how)
{
    for (int d = 0; d < b->ndim && x; d++) x = gd_transpose(times(b, axis_first(b, x, d), d, how), 1, 2);
    return gd_reshape(x, 2, (int64_t[]){b->count, b->n});
}

/* The product of x with itself that the factor of its first axis sees. */
static gd_tensor *product_along(const batch *b, gd_tensor *x, int d)
{
    return b->dense[d] ? gd_matmul(x, gd_transpose(x, 1, 2)) : gd_sum(gd_square(x), "2", false);
}

/* Means of products of v: of B = Q^-T v with EQ, else of v itself. */
static gd_status mean_products(const batch *b, bool triangular, gd_tensor **out)
{
    gd_tensor *size[GD_MAX_DIMS] = {NULL};
    for (int d = 0; d < b->ndim; d++) {
        gd_tensor *one = b->dense[d] ? identity_like(b->q[d], b->size[d], 1) : NULL;
        double share = (double)(b->n / b->size[d]);
        if (!triangular) {
            out[d] = one ? gd_mul_scalar(one, share) : gd_full_like(b->q[d], share);
            continue;
        }
        gd_tensor *inverse = one ? gd_triangular_solve(b->q[d], gd_add(gd_zeros_like(b->q[d]), one), false,
                                                       true, false)
                                 : gd_reciprocal(b->q[d]);
        out[d] = one ? gd_matmul(inverse, gd_transpose(inverse, 1, 2)) : gd_square(inverse);
        size[d] = gd_sum(gd_square(inverse), one ? "1, 2" : "1", false);
    }
    for (int d = 0; d < b->ndim && triangular; d++)
        for (int o = 0; o < b->ndim; o++)
            if (o != d && out[d])
                out[d] = gd_mul(out[d],
                                gd_reshape(size[o], b->dense[d] ? 3 : 2, (int64_t[]){b->count, 1, 1}));
    return gd_error(gd_link_ctx(b->link));
}

/* A bound of the norm of a symmetric matrix or a diagonal, for each of a stack; of any matrix where it is not symmetric. */
static gd_tensor *norm_bound(gd_tensor *x, bool dense, bool symmetric)
{
    if (!dense) return gd_max(gd_abs(x), "1", true);
    gd_tensor *frobenius = gd_norm(x, 2, "1, 2", true);
    if (!symmetric) return frobenius;
    return gd_minimum(frobenius, gd_max(gd_sum(gd_abs(x), "2", true), "1", true));
}

/* Q rotated towards a symmetric matrix: by 1 + a R + (a R)^2 / 2, R = (Q^T - Q) / its norm, with the a that makes the trace the
 * largest. */
static gd_tensor *turned_back(gd_tensor *q)
{
    gd_tensor *r = gd_sub(gd_transpose(q, 1, 2), q), *norm = gd_norm(r, 2, "1, 2", true);
    r = gd_div(r, gd_maximum(norm, gd_full_like(norm, FLT_MIN)));
    gd_tensor *once = gd_matmul(r, q), *twice = gd_matmul(r, once);
    gd_tensor *first = gd_unsqueeze(gd_sum(gd_diagonal(once), "1", true), 2, NULL);
    gd_tensor *second = gd_unsqueeze(gd_sum(gd_diagonal(twice), "1", true), 2, NULL);
    if (!first || !second) return NULL;
    gd_tensor *zero = gd_zeros_like(first), *most = gd_full_like(first, 0.125);
    gd_tensor *a = gd_where(gd_lt(second, zero), gd_minimum(gd_div(first, gd_neg(second)), most), most);
    a = gd_where(gd_gt(first, zero), a, zero);
    return gd_add(q, gd_mul(a, gd_add(once, gd_mul_scalar(gd_mul(a, twice), 0.5))));
}

static gd_tensor *next_diagonal(const gd_link *link, gd_tensor *q, gd_tensor *s)
{
    if (gd_link_is(link, "dQ", "QUAD")) return gd_mul(q, gd_square(gd_add_scalar(gd_mul_scalar(s, -0.5), 1)));
    if (gd_link_is(link, "dQ", "QEP")) s = gd_mul(s, gd_square(q));
    return gd_sub(q, gd_mul(q, s));
}

static gd_tensor *next_dense(const gd_link *link, gd_tensor *q, gd_tensor *s)
{
    if (gd_link_is(link, "dQ", "EQ")) return gd_sub(q, gd_matmul(gd_triu(s, 0), q));
    if (gd_link_is(link, "dQ", "QEQ")) return gd_sub(q, gd_matmul(q, s));
    if (gd_link_is(link, "dQ", "QEP"))
        return gd_sub(q, gd_matmul(gd_matmul(q, s), gd_matmul(gd_transpose(q, 1, 2), q)));
    if (!gd_link_is(link, "dQ", "QUAD")) return turned_back(gd_sub(q, gd_matmul(s, q)));
    gd_tensor *left = gd_sub(q, gd_mul_scalar(gd_matmul(s, q), 0.5));
    return gd_sub(left, gd_mul_scalar(gd_matmul(left, s), 0.5));
}

/* One factor of all members, from the two products. */
static gd_status step_factor(batch *b, int d, gd_tensor *plus, gd_tensor *minus)
{
    bool dense = b->dense[d], relative = gd_link_is(b->link, "dQ", "QEP");
    gd_tensor *q = b->q[d], *sum = gd_add(plus, minus);
    if (relative)
        sum = dense ? gd_matmul(gd_matmul(sum, gd_transpose(q, 1, 2)), q) : gd_mul(sum, gd_square(q));
    gd_tensor *bound = raised(b->link, b->bound[d], norm_bound(sum, dense, !relative));
    gd_tensor *s = bound ? gd_mul(gd_sub(plus, minus), rate(b->link, bound)) : NULL;
    gd_tensor *next = dense ? next_dense(b->link, q, s) : next_diagonal(b->link, q, s);
    gd_tensor *finite = next ? gd_all(gd_isfinite(next), dense ? "1, 2" : "1", true) : NULL;
    if (finite) finite = gd_logical_and(finite, gd_isfinite(bound));
    b->q[d] = finite ? gd_where(finite, next, q) : NULL;
    gd_status status = b->q[d] ? put_back(b, bound_name[d], gd_where(finite, bound, b->bound[d]))
                               : gd_error(gd_link_ctx(b->link));
    return status ? status : put_back(b, factor_name[d], b->q[d]);
}

/* Factors of one size: their product is what counts. */
static gd_status balance(batch *b)
{
    gd_tensor *norm[GD_MAX_DIMS], *mean = NULL;
    for (int d = 0; d < b->ndim; d++) {
        norm[d] = gd_reshape(gd_max(gd_abs(b->q[d]), b->dense[d] ? "1, 2" : "1", false), 1,
                             (int64_t[]){b->count});
        mean = d ? gd_mul(mean, norm[d]) : norm[d];
    }
    mean = gd_pow_scalar(mean, 1.0 / b->ndim);
    gd_status status = mean ? GD_OK : gd_error(gd_link_ctx(b->link));
    for (int d = 0; d < b->ndim && !status; d++) {
        gd_tensor *factor = gd_reshape(gd_div(mean, norm[d]), b->dense[d] ? 3 : 2,
                                       (int64_t[]){b->count, 1, 1});
        status = put_back(b, factor_name[d], gd_mul(b->q[d], factor));
    }
    return status;
}

static gd_status load_factors(batch *b)
{
    for (int d = 0; d < b->ndim; d++)
        if (!(b->q[d] = stacked(b, factor_name[d], NULL)) || !(b->bound[d] = stacked(b, bound_name[d], NULL)))
            return gd_error(gd_link_ctx(b->link));
    return GD_OK;
}

static gd_status learn_batch(batch *b)
{
    bool triangular = gd_link_is(b->link, "dQ", "EQ");
    gd_tensor *minus[GD_MAX_DIMS] = {NULL}, *h = stacked(b, NULL, b->of->h), *v = NULL;
    if (!h || load_factors(b)) return gd_error(gd_link_ctx(b->link));
    gd_tensor *a = through(b, with_noise(b->link, h), triangular ? BY_Q : BY_P);
    if (b->of->v) v = stacked(b, NULL, b->of->v);
    if (v && triangular) v = through(b, v, BY_INVERSE);
    gd_status status = b->of->v ? gd_error(gd_link_ctx(b->link)) : mean_products(b, triangular, minus);
    for (int d = 0; d < b->ndim && !status; d++) {
        a = axis_first(b, a, d);
        if (v) minus[d] = product_along(b, v = axis_first(b, v, d), d);
        gd_tensor *plus = product_along(b, a, d);
        status = plus && minus[d] ? step_factor(b, d, plus, minus[d]) : gd_error(gd_link_ctx(b->link));
        a = gd_transpose(a, 1, 2);
        if (v) v = gd_transpose(v, 1, 2);
    }
    bool balances = !status && b->ndim > 1 && happens(b->link, "balance_probability");
    return balances ? balance(b) : status;
}

static bool are_alike(const gd_tensor *a, const gd_tensor *b)
{
    bool alike = gd_ndim(a) == gd_ndim(b) && gd_tensor_dtype(a) == gd_tensor_dtype(b) &&
                 gd_tensor_device(a) == gd_tensor_device(b);
    for (int d = 0; d < gd_ndim(a) && alike; d++) alike = gd_size(a, d) == gd_size(b, d);
    return alike;
}

typedef gd_status (*batch_fn)(batch *b);

/* Every group of tensors of one shape that have begun. */
static gd_status each_batch(const lesson *of, batch_fn fn)
{
    gd_ctx *ctx = gd_link_ctx(of->link);
    int *member = gd_link_memory(of->link, 2 * (size_t)of->count * sizeof *member),
        *done = member + of->count;
    gd_status status = member ? GD_OK : gd_error(ctx);
    for (int i = 0; i < of->count && !status; i++) {
        int count = 0;
        for (int j = i; j < of->count; j++) {
            if (done[j] || gd_numel(of->h[j]) == 0 || !has_begun(of, j) || !are_alike(of->h[i], of->h[j]))
                continue;
            done[j] = 1;
            member[count++] = j;
        }
        if (!count) continue;
        batch b = batch_like(of, of->h[i], member, count);
        gd_scope_begin(ctx);
        status = fn(&b);
        gd_scope_end(ctx);
    }
    return status;
}

static gd_status learn_kron(const lesson *of)
{
    gd_status status = GD_OK;
    for (int i = 0; i < of->count && !status; i++)
        if (gd_numel(of->h[i]) && !has_begun(of, i)) status = begin_factors(of, i);
    return status ? status : each_batch(of, learn_batch);
}

/* h becomes P h. */
static gd_status apply_batch(batch *b)
{
    gd_tensor *x = stacked(b, NULL, b->of->h);
    gd_status status = x ? load_factors(b) : gd_error(gd_link_ctx(b->link));
    gd_tensor *u = status ? NULL : through(b, x, BY_P);
    for (int k = 0; k < b->count && u; k++) {
        gd_tensor *into = b->of->h[b->member[k]];
        gd_tensor *one = gd_reshape(gd_index(u, "0", k), gd_ndim(into), gd_shape(into));
        if (!one || gd_assign(into, one)) return gd_error(gd_link_ctx(b->link));
    }
    return gd_error(gd_link_ctx(b->link));
}

static gd_status apply_kron(const lesson *of) { return each_batch(of, apply_batch); }

static int64_t kron_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t bytes = 0;
    if (!gd_link_has_field(link, "max_dim")) {
        int64_t matrix = gd_link_matrix_bytes(link, params, count), item = 4;
        for (int i = 0; i < count; i++)
            if (dtype_for(params[i]) == GD_F64) item = 8;
        return matrix ? matrix + item : 0;
    }
    for (int i = 0; i < count; i++) {
        lesson of = {.link = (gd_link *)link};
        batch b = batch_like(&of, params[i], NULL, 1);
        for (int d = 0; d < b.ndim && b.n; d++)
            bytes += (dtype_for(params[i]) == GD_F64 ? 8 : 4) *
                     (b.size[d] * (b.dense[d] ? b.size[d] : 1) + 1);
    }
    return bytes;
}

/* ---- a diagonal and a low rank ---- */

/* Q = (1 + U V^T) diag(d) and K = (1 + V^T U)^-1. */
typedef struct low_rank {
    gd_tensor *u, *v, *d, *k;
} low_rank;

static low_rank low_rank_of(gd_link *link, gd_tensor *key)
{
    low_rank q = {.u = gd_link_state(link, key, "U"),
                  .v = gd_link_state(link, key, "V"),
                  .d = gd_link_state(link, key, "d")};
    gd_tensor *product = q.u && q.v && q.d ? gd_matmul(gd_transpose(q.v, 0, 1), q.u) : NULL;
    q.k = product ? gd_add(product, identity_like(product, gd_size(product, 0), 1)) : NULL;
    return q;
}

/* a (b^T x). */
static gd_tensor *outer_times(gd_tensor *a, gd_tensor *b, gd_tensor *x)
{
    return gd_matmul(a, gd_matmul(gd_transpose(b, 0, 1), x));
}

static gd_tensor *by_q(const low_rank *q, gd_tensor *x)
{
    x = gd_mul(q->d, x);
    return gd_add(x, outer_times(q->u, q->v, x));
}

static gd_tensor *by_q_transposed(const low_rank *q, gd_tensor *x)
{
    return gd_mul(q->d, gd_add(x, outer_times(q->v, q->u, x)));
}

static gd_tensor *by_inverse(const low_rank *q, gd_tensor *x)
{
    gd_tensor *small = gd_solve(q->k, gd_matmul(gd_transpose(q->v, 0, 1), x));
    return gd_div(gd_sub(x, gd_matmul(q->u, small)), q->d);
}

static gd_tensor *by_inverse_transposed(const low_rank *q, gd_tensor *x)
{
    x = gd_div(x, q->d);
    gd_tensor *small = gd_solve(gd_transpose(q->k, 0, 1), gd_matmul(gd_transpose(q->u, 0, 1), x));
    return gd_sub(x, gd_matmul(q->v, small));
}

/* The diagonal of P^-1 = Q^-1 Q^-T, [n, 1]: squares of the rows of (1 - U K V^T), over d^2. */
static gd_tensor *inverse_diagonal(const low_rank *q)
{
    gd_tensor *right = gd_transpose(gd_solve(q->k, gd_transpose(q->v, 0, 1)), 0, 1); /* V K^T */
    gd_tensor *gram = gd_matmul(gd_transpose(right, 0, 1), right);
    gd_tensor *cross = gd_sum(gd_mul(q->u, right), "1", true);
    gd_tensor *square = gd_sum(gd_mul(q->u, gd_matmul(q->u, gram)), "1", true);
    return gd_div(gd_add_scalar(gd_sub(square, gd_mul_scalar(cross, 2)), 1), gd_square(q->d));
}

/* V: cosines, orthogonal to each other. */
static gd_tensor *cosines(gd_tensor *h, int64_t n, int64_t rank)
{
    gd_ctx *ctx = gd_tensor_ctx(h);
    gd_tensor *place = gd_reshape(gd_add_scalar(gd_arange(ctx, GD_F64, 0, (double)n, 1), 0.5), 2,
                                  (int64_t[]){n, 1});
    gd_tensor *wave = gd_arange(ctx, GD_F64, 0, (double)rank, 1);
    gd_tensor *v = gd_mul_scalar(gd_cos(gd_mul_scalar(gd_mul(place, wave), acos(-1) / (double)n)),
                                 0.1 * sqrt(2.0 / (double)n));
    return gd_to_device(gd_cast(v, dtype_for(h)), gd_tensor_device(h));
}

static gd_status begin_low_rank(const lesson *of, int i)
{
    gd_tensor *h = of->h[i], *key = of->keys[i];
    int64_t n = gd_numel(h), rank = (int64_t)fmin(number(of->link, "rank"), (double)n);
    double scale = first_scale(of->link, h, of->v ? of->v[i] : NULL);
    gd_tensor *v = scale > 0 ? cosines(h, n, rank) : NULL, *one = v ? gd_slice(v, "1", 0, 1, 1) : NULL;
    gd_tensor *none = one ? gd_zeros_like(gd_slice(one, "0", 0, 1, 1)) : NULL;
    static const char *const slot[] = {"bound_U", "bound_V", "bound_d", "U", "V", "d"};
    gd_tensor *first[] = {
        none, none, none, none ? gd_zeros_like(v) : NULL, v, none ? gd_full_like(one, scale) : NULL};
    gd_status status = gd_error(gd_link_ctx(of->link));
    for (int k = 0; k < 6 && none && !status; k++)
        status = gd_link_set_state(of->link, key, slot[k], first[k]);
    return status;
}

/* A slot minus a bounded step, if all of it is finite. */
static gd_status step_slot(const lesson *of, int i, const char *slot, const char *bound_slot, gd_tensor *l,
                           gd_tensor *gradient)
{
    gd_ctx *ctx = gd_link_ctx(of->link);
    gd_tensor *old = gd_link_state(of->link, of->keys[i], slot),
              *bound = gd_link_state(of->link, of->keys[i], bound_slot);
    gd_tensor *next_bound = bound && l ? raised(of->link, bound, l) : NULL;
    gd_tensor *next = next_bound ? gd_sub(old, gd_mul(gradient, rate(of->link, next_bound))) : NULL;
    gd_tensor *finite = next ? gd_logical_and(gd_all(gd_isfinite(next), NULL, false),
                                              gd_all(gd_isfinite(next_bound), NULL, false))
                             : NULL;
    if (!finite || gd_assign(bound, gd_where(finite, next_bound, bound))) return gd_error(ctx);
    return gd_assign(old, gd_where(finite, next, old));
}

static gd_tensor *size_of(gd_tensor *x) { return gd_norm(x, 2, "0, 1", true); }

/* G w = A (A^T w) - B (B^T w), and a bound of G w w^T. */
static gd_tensor *projected(const low_rank *q, gd_tensor *a, gd_tensor *b, gd_tensor *w, gd_tensor **l)
{
    gd_tensor *plus = outer_times(a, a, w);
    gd_tensor *minus = b ? outer_times(b, b, w) : by_inverse_transposed(q, by_inverse(q, w));
    *l = gd_add(gd_mul(size_of(a), size_of(outer_times(w, w, a))),
                b ? gd_mul(size_of(b), size_of(outer_times(w, w, b))) : gd_mul(size_of(minus), size_of(w)));
    return gd_sub(plus, minus);
}

static gd_tensor *column_of(gd_tensor *x)
{
    return gd_cast(gd_reshape(gd_drop_names(x), 2, (int64_t[]){gd_numel(x), 1}), dtype_for(x));
}

static gd_status learn_low_rank_of(const lesson *of, int i)
{
    gd_ctx *ctx = gd_link_ctx(of->link);
    gd_tensor *h = with_noise(of->link, column_of(of->h[i])), *v = of->v ? column_of(of->v[i]) : NULL,
              *l = NULL;
    double *step = gd_link_scalar(of->link, of->keys[i], "step");
    low_rank q = low_rank_of(of->link, of->keys[i]);
    if (!h || !q.k || !step || (of->v && !v)) return gd_error(ctx);
    gd_tensor *a = by_q(&q, h), *b = v ? by_inverse_transposed(&q, v) : NULL;
    gd_tensor *plus = gd_mul(h, by_q_transposed(&q, a)),
              *minus = v ? gd_mul(v, by_inverse(&q, b)) : inverse_diagonal(&q);
    bool first = fmod(*step, 2) == 0; /* U, then V */
    gd_tensor *g = projected(&q, a, b, first ? q.v : q.u, &l);
    g = first ? gd_matmul(g, q.k) : gd_add(g, outer_times(q.v, q.u, g));
    gd_tensor *most = gd_max(gd_add(gd_abs(plus), gd_abs(minus)), "0, 1", true);
    gd_tensor *down = gd_mul(q.d, gd_sub(plus, minus));
    gd_status status = g && down ? step_slot(of, i, first ? "U" : "V", first ? "bound_U" : "bound_V", l, g)
                                 : gd_error(ctx);
    if (!status) status = step_slot(of, i, "d", "bound_d", most, down);
    if (!status) *step += 1;
    return status;
}

static gd_status learn_low_rank(const lesson *of)
{
    gd_status status = GD_OK;
    for (int i = 0; i < of->count && !status; i++) {
        if (gd_numel(of->h[i]) == 0) continue;
        if (!gd_link_has_state(of->link, of->keys[i], "d")) status = begin_low_rank(of, i);
        if (!status && gd_link_has_state(of->link, of->keys[i], "d")) status = learn_low_rank_of(of, i);
    }
    return status;
}

static gd_status apply_low_rank(const lesson *of)
{
    gd_ctx *ctx = gd_link_ctx(of->link);
    for (int i = 0; i < of->count; i++) {
        gd_tensor *x = of->h[i];
        if (!gd_link_has_state(of->link, of->keys[i], "d")) continue;
        low_rank q = low_rank_of(of->link, of->keys[i]);
        gd_tensor *u = q.k ? by_q_transposed(&q, by_q(&q, column_of(x))) : NULL;
        u = u ? gd_reshape(u, gd_ndim(x), gd_shape(x)) : NULL;
        if (!u || gd_assign(x, u)) return gd_error(ctx);
    }
    return GD_OK;
}

static int64_t low_rank_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t all = 0, n = 0, widest = 4;
    double rank = number(link, "rank");
    bool one = !gd_link_has_field(link, "concat_params") || gd_link_flag(link, "concat_params");
    for (int i = 0; i < count; i++) {
        int64_t item = dtype_for(params[i]) == GD_F64 ? 8 : 4, size = gd_numel(params[i]);
        if (item > widest) widest = item;
        n += size;
        if (size) all += item * (size * (2 * (int64_t)fmin(rank, (double)size) + 1) + 3);
    }
    return !one ? all : n ? widest * (n * (2 * (int64_t)fmin(rank, (double)n) + 1) + 3) : 0;
}

/* ---- as links ---- */

/* u no larger than a root mean square, or a norm over all. */
static gd_tensor *clipped(const gd_link *link, gd_tensor *u)
{
    bool amplitude = gd_link_has_field(link, "grad_clip_max_amp");
    double most = number(link, amplitude ? "grad_clip_max_amp" : "grad_clip_max_norm");
    if (!u || isinf(most)) return u;
    gd_tensor *wide = gd_cast(u, dtype_for(u));
    gd_tensor *size = amplitude ? gd_sqrt(gd_mean(gd_square(wide), NULL, false))
                                : gd_norm(wide, 2, NULL, false);
    gd_tensor *over = gd_gt(size, gd_full_like(size, most));
    return over
               ? gd_mul(u, gd_cast(gd_where(over, gd_div(gd_full_like(size, most), size), gd_ones_like(size)),
                                   gd_tensor_dtype(u)))
               : NULL;
}

typedef gd_status (*lesson_fn)(const lesson *of);

static gd_status whiten_update(const gd_transform *t, lesson_fn learn)
{
    lesson of = {.link = t->link, .count = t->count, .keys = t->keys, .h = t->tensors};
    return happens(t->link, "update_probability") ? learn(&of) : gd_error(gd_link_ctx(t->link));
}

static gd_status whiten_apply(const gd_transform *t, lesson_fn apply)
{
    lesson of = {.link = t->link, .count = t->count, .keys = t->keys, .h = t->tensors};
    gd_status status = apply(&of);
    for (int i = 0; i < t->count && !status; i++)
        if (!(t->tensors[i] = clipped(t->link, t->tensors[i]))) status = gd_error(gd_link_ctx(t->link));
    return status;
}

/* v over all parameters. */
static gd_tensor *probe(gd_link *link, gd_var *var)
{
    gd_tensor *like = gd_list_vector(gd_var_params(var), gd_var_count(var));
    bool uniform = gd_link_is(link, "distribution", "uniform"),
         sign = gd_link_is(link, "distribution", "rademacher");
    gd_tensor *v = like ? gd_link_random(link,
                                         uniform ? GD_RANDOM_UNIFORM
                                         : sign  ? GD_RANDOM_SIGN
                                                 : GD_RANDOM_NORMAL,
                                         like)
                        : NULL;
    if (v && uniform) v = gd_add_scalar(gd_mul_scalar(v, 2), -1);
    return v && gd_link_is(link, "distribution", "sphere") ? gd_div(v, gd_norm(v, 2, NULL, false)) : v;
}

/* Vectors as tensors: one per parameter, or unchanged if Q is over all of them. */
static gd_status parts_of(gd_link *link, gd_var *var, gd_tensor *vector, bool each, gd_tensor **out)
{
    if (!vector) return gd_error(gd_link_ctx(link));
    if (each) return gd_list_split(vector, gd_var_params(var), gd_var_count(var), out);
    out[0] = vector;
    return GD_OK;
}

static gd_status newton_update(gd_link *link, gd_var *var, bool each, lesson_fn learn)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = each ? gd_var_count(var) : 1;
    if (!happens(link, "update_probability") || gd_var_count(var) == 0) return gd_error(ctx);
    gd_tensor **room = gd_link_scratch(link, 2 * count);
    gd_linop *hessian = room ? gd_link_hessian_products(link, var) : NULL;
    gd_tensor *v = hessian ? probe(link, var) : NULL, *h = v ? gd_linop_matvec(hessian, v) : NULL;
    lesson of = {
        .link = link, .count = count, .keys = gd_var_params(var), .h = room, .v = room ? room + count : NULL};
    gd_status status = h ? parts_of(link, var, h, each, of.h) : gd_error(ctx);
    if (!status) status = parts_of(link, var, v, each, of.v);
    if (!status) status = learn(&of);
    gd_linop_release(hessian);
    return status;
}

static gd_status newton_apply(gd_link *link, gd_var *var, bool each, lesson_fn apply)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = each ? gd_var_count(var) : 1;
    gd_tensor **list = gd_link_scratch(link, count), *u = list ? gd_link_update_vector(link, var) : NULL;
    gd_status status = u ? parts_of(link, var, u = gd_copy(u), each, list) : gd_error(ctx);
    lesson of = {.link = link, .count = count, .keys = gd_var_params(var), .h = list};
    if (!status) status = apply(&of);
    for (int i = 0; i < count && !status; i++)
        if (!(list[i] = clipped(link, list[i]))) status = gd_error(ctx);
    if (status) return status;
    return each ? gd_var_set_update(var, list) : gd_var_set_update_vector(var, list[0]);
}

#define WHITEN_LINK(NAME, LEARN, APPLY)                                                       \
    static gd_status NAME##_update(const gd_transform *t) { return whiten_update(t, LEARN); } \
    static gd_status NAME##_apply(const gd_transform *t) { return whiten_apply(t, APPLY); }
#define NEWTON_LINK(NAME, EACH, LEARN, APPLY)                  \
    static gd_status NAME##_update(gd_link *link, gd_var *var) \
    {                                                          \
        return newton_update(link, var, EACH, LEARN);          \
    }                                                          \
    static gd_status NAME##_apply(gd_link *link, gd_var *var) { return newton_apply(link, var, EACH, APPLY); }
WHITEN_LINK(kron_whiten, learn_kron, apply_kron)
WHITEN_LINK(lra_whiten, learn_low_rank, apply_low_rank)
NEWTON_LINK(dense_newton, false, learn_kron, apply_kron)
NEWTON_LINK(kron_newton, true, learn_kron, apply_kron)
NEWTON_LINK(lra_newton, false, learn_low_rank, apply_low_rank)

#define AXIS_FIELDS                                                                  \
    GD_INT("max_dim", 10000, 0, 1e9, "a longer axis has a diagonal for its factor"), \
        GD_REAL("max_skew", 1, 0, INFINITY,                                          \
                "so has one whose square is more than this times the number of elements")
#define LEARNING_FIELDS(clip)                                                                                \
    GD_REAL_OR_NONE("init_scale", 1e-300, 1e300, "Q at first, times 1; none: (mean v^2 / mean h^2)^(1/4)"),  \
        GD_REAL("lr_preconditioner", 0.1, 0, 1, "share of the largest step on Q that leaves it regular"),    \
        GD_REAL("betaL", 0.9, 0, 1, "decay of the bound of that step"),                                      \
        GD_REAL("damping", 1e-9, 0, INFINITY, "noise added to h, as a share of its root mean square"), clip, \
        GD_REAL("update_probability", 1, 0, 1, "that a step changes Q")
#define CLIP_AMP                                                                                               \
    GD_REAL(                                                                                                   \
        "grad_clip_max_amp", INFINITY, 0, INFINITY,                                                            \
        "the largest root mean square of the update of a tensor; its mean is near 1, and a gradient in a new " \
        "direction makes it many times that")
#define CLIP_NORM \
    GD_REAL("grad_clip_max_norm", INFINITY, 0, INFINITY, "the largest norm of the update of all parameters")
#define GEOMETRY                                              \
    GD_CHOICE("dQ", "Q0.5EQ1.5", "Q0.5EQ1.5|EQ|QEP|QEQ|QUAD", \
              "geometry of steps on Q; with EQ it is triangular")
#define BALANCING \
    GD_REAL("balance_probability", 0.01, 0, 1, "that a step makes the factors of a tensor of one size")
#define PRODUCT_FIELDS                                                                            \
    GD_HVP_CHOICE("autograd", "autograd|batched_autograd|forward|central|fd_forward|fd_central"), \
        GD_REAL("h", 1e-3, 0, INFINITY, "step of gradient differences"),                          \
        GD_CHOICE("distribution", "normal", "normal|gaussian|uniform|rademacher|sphere", "of v")
#define INNER GD_INNER("acts on the update before P does")

static const gd_field kron_whiten_fields[] = {AXIS_FIELDS, LEARNING_FIELDS(CLIP_AMP), GEOMETRY, BALANCING,
                                              INNER};
static const gd_field lra_whiten_fields[] = {
    GD_INT("rank", 10, 1, 1e6, "columns of U and V"), LEARNING_FIELDS(CLIP_AMP),
    GD_CONCAT_PARAMS("one Q for all parameters, else one for each"), INNER};
static const gd_field dense_newton_fields[] = {LEARNING_FIELDS(CLIP_NORM), GEOMETRY, PRODUCT_FIELDS, INNER};
static const gd_field kron_newton_fields[] = {
    AXIS_FIELDS, LEARNING_FIELDS(CLIP_AMP), GEOMETRY, BALANCING, PRODUCT_FIELDS, INNER};
static const gd_field lra_newton_fields[] = {GD_INT("rank", 10, 1, 1e6, "columns of U and V"),
                                             LEARNING_FIELDS(CLIP_NORM), PRODUCT_FIELDS, INNER};

static const gd_slot kron_slots[] = {GD_AXIS_SLOTS("factor"), GD_AXIS_SLOTS("bound")};
static const gd_slot low_rank_slots[] = {{"U", 0},       {"V", 0},       {"d", 0},
                                         {"bound_U", 0}, {"bound_V", 0}, {"bound_d", 0}};
static const char *const low_rank_scalars[] = {"step"};

/* The members of a link's class that depend on the names of its parts. */
#define KRON(NAME) PAPER, GD_FIELDS(NAME##_fields), GD_SLOTS(kron_slots), .state_bytes = kron_bytes
#define LOW_RANK(NAME)                                                                       \
    PAPER, GD_FIELDS(NAME##_fields), GD_SLOTS(low_rank_slots), GD_SCALARS(low_rank_scalars), \
        .state_bytes = low_rank_bytes
#define WHITEN(NAME) \
    .update_tensors = NAME##_update, .apply_tensors = NAME##_apply, .traits.whole_settings = true
#define NEWTON(NAME) \
    .update = NAME##_update, .apply = NAME##_apply, .spread = GD_SPREAD_WHOLE, .traits.needs_closure = true
#define PAPER \
    .paper =  \
        "Li, Preconditioned stochastic gradient descent, IEEE TNNLS 29, 2018; arXiv 2402.04553, 2402.11858"

GD_LINK(psgd, psgd_kron_whiten,
    KRON(kron_whiten),
    WHITEN(kron_whiten),
    .summary = "whitens gradients with a learned matrix for each axis",
    .formula = "P = Q^T Q, Q the product of a factor for each axis, learned so that P E[g g^T] P = 1;  P u",
    .cost = "products of 10 n d flops and of 6 d^3 for each axis d; a d x d matrix for each",
    .example = "psgd_kron_whiten | lr(0.001)",
    .spread = GD_SPREAD_WHOLE); /* noise is drawn for one tensor after the other, from one stream */

GD_LINK(psgd, psgd_lra_whiten,
    LOW_RANK(lra_whiten),
    WHITEN(lra_whiten),
    .summary = "whitens gradients with a learned diagonal and low rank",
    .formula =
        "P = Q^T Q, Q = (1 + U V^T) diag(d) with U, V [n, rank] and d learned so that P E[g g^T] P is near 1;  P u",
    .cost = "20 n rank + 4 n rank^2 flops; 2 n rank + n numbers",
    .example = "psgd_lra_whiten | lr(0.001)",
    .spread = GD_SPREAD_WHOLE,
    .traits.concat_params = true);

GD_LINK(psgd, psgd_dense_newton,
    KRON(dense_newton),
    NEWTON(dense_newton),
    .summary = "learns the inverse of the absolute Hessian as one matrix",
    .formula = "P = Q^T Q, Q [n, n] learned from h = H v so that P E[h h^T] P = E[v v^T], P = |H|^-1;  P u",
    .cost = "a Hessian product and 6 n^3 flops per step; an n x n matrix",
    .example = "psgd_dense_newton | lr(0.1)");

GD_LINK(psgd, psgd_kron_newton,
    KRON(kron_newton),
    NEWTON(kron_newton),
    .summary = "learns the inverse of the absolute Hessian as a matrix for each axis",
    .formula =
        "P = Q^T Q, Q the product of a factor for each axis, learned from h = H v so that P E[h h^T] P = E[v v^T];  P u",
    .cost =
        "a Hessian product, products of 12 n d flops and of 6 d^3 for each axis d; a d x d matrix for each",
    .example = "psgd_kron_newton | lr(0.1)");

GD_LINK(psgd, psgd_lra_newton,
    LOW_RANK(lra_newton),
    NEWTON(lra_newton),
    .summary = "learns the inverse of the absolute Hessian as a diagonal and low rank",
    .formula =
        "P = Q^T Q, Q = (1 + U V^T) diag(d) with U, V [n, rank] and d learned from h = H v so that P E[h h^T] P = E[v v^T];  P u",
    .cost = "a Hessian product and 20 n rank flops per step; 2 n rank + n numbers",
    .example = "psgd_lra_newton | lr(0.1)");
