/* Newton: solves (H + damping I) d = b with the full Hessian from autograd.
 *
 *   subspace_newton   the same equation in the space of some directions, as columns S, by products with H only:
 *                     d = S (S^T H S + damping I)^-1 S^T b
 *
 * Solved by Cholesky; where H is not positive definite by LU, where it is singular by least squares of least norm.  With
 * eigval_fn, eigv_tol or truncate through eigenvalues.  A Hessian that is not finite gives no step.
 *
 * inm, improved_newton: the step divided by 1 + a d, with s and y the change of parameters and gradient since the last step and
 *     a = (1 - y (H s) / y y) s / s s
 * so that it solves (H + g a^T) d = g (Saheya et al. 2016).  The first step, and one with a divisor of 0 or NaN, is Newton's.
 *
 * State: H (kept for update_freq).  Cost: n reverse passes, n^3 / 3 operations, n^2 memory. */
#include "gradus/link/hessian.h"

#include <math.h>

#define DAMPING GD_REAL("damping", 0, -INFINITY, INFINITY, "added to the diagonal of the Hessian")
#define LSTSQ   GD_FLAG("use_lstsq", false, "solve by least squares at once")
#define SPECTRUM                                                                                                \
    GD_CHOICE_OR_NONE(                                                                                          \
        "eigval_fn", "abs|clip",                                                                                \
        "change of the eigenvalues: absolute values, or clipped at eigv_tol times the largest absolute value"), \
        GD_REAL_OR_NONE("eigv_tol", 0, 1, "eigenvalues smaller than this times the largest count as zero"),     \
        GD_INT_OR_NONE("truncate", 1, 1e15, "eigenvalues to use, the largest in size")
#define DIFFERENCE(d) GD_REAL("h", d, 0, INFINITY, "step of gradient differences")
#define FACTORED      "the matrix is factored once per step, never inverted"
#define INNER         GD_INNER("links whose update takes the place of the gradient")

#define WHOLE_HESSIAN                                                                \
    DAMPING, LSTSQ, GD_UPDATE_FREQ("steps between new Hessians"), GD_HESSIAN_METHOD, \
        GD_FIXED_FLAG("vectorize", true, "rows of derivatives are always made together"), INNER

static const gd_field fields[] = {WHOLE_HESSIAN, SPECTRUM, DIFFERENCE(1e-3)};
static const gd_field inm_fields[] = {WHOLE_HESSIAN};

static const gd_slot inm_slots[] = {GD_CHANGE_SLOTS};

static gd_status newton_update(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double *steps = gd_link_global(link, "steps", 0);
    if (!steps) return gd_error(ctx);
    if (fmod(*steps, gd_link_real(link, "update_freq", NULL)) == 0) {
        double step = gd_link_has_field(link, "h") ? gd_link_real(link, "h", NULL) : 1e-3;
        gd_tensor *h = gd_link_hessian_matrix(link, var, step);
        gd_status status = h ? gd_link_set_global_tensor(link, "hessian", h) : gd_error(ctx);
        if (status) return status;
    }
    *gd_link_global(link, "steps", 0) += 1;
    return GD_OK;
}

/* h + damping I, borrowed or new. */
static gd_tensor *with_damping(const gd_link *link, gd_tensor *h)
{
    double damping = gd_link_real(link, "damping", NULL);
    if (!h || damping == 0) return h;
    gd_tensor *one = gd_eye(gd_link_ctx(link), gd_tensor_dtype(h), gd_size(h, 0), gd_size(h, 0));
    return gd_add(h, gd_mul_scalar(gd_to_device(one, gd_tensor_device(h)), damping));
}

static gd_tensor *damped(gd_link *link)
{
    gd_tensor *h = gd_link_global_tensor(link, "hessian");
    if (!h) (void)gd_fail(gd_link_ctx(link), GD_STATE, "newton: the Hessian was asked for before an update");
    return with_damping(link, h);
}

static gd_tensor *solved(gd_link *link, gd_tensor *h, gd_tensor *b)
{
    if (!gd_link_has_field(link, "eigval_fn")) return gd_hessian_solve(h, b, gd_link_flag(link, "use_lstsq"));
    const gd_setting *how = gd_link_get(link, "eigval_fn", NULL);
    bool spectral = how->kind == GD_SET_STRING || !gd_link_is_none(link, "eigv_tol") ||
                    !gd_link_is_none(link, "truncate");
    if (!spectral) return gd_hessian_solve(h, b, gd_link_flag(link, "use_lstsq"));
    if (!gd_vector_finite(h)) return NULL;
    double tolerance = gd_link_is_none(link, "eigv_tol") ? gd_vector_epsilon(h)
                                                         : gd_link_real(link, "eigv_tol", NULL);
    int64_t most = gd_link_is_none(link, "truncate") ? 0 : (int64_t)gd_link_real(link, "truncate", NULL);
    return gd_hessian_spectral(h, b, how->kind == GD_SET_STRING ? how->string : NULL, tolerance, most);
}

/* The step; NULL without an error if there is none. */
static gd_tensor *newton_step(gd_link *link, gd_var *var)
{
    gd_tensor *b = gd_link_update_vector(link, var), *h = b ? damped(link) : NULL;
    gd_tensor *mask = gd_var_free_mask(var);
    if (h && mask) h = gd_hessian_free(h, mask, false);
    gd_tensor *d = h ? solved(link, h, b) : NULL;
    return d && gd_vector_finite(d) ? d : NULL;
}

static gd_status step_or_skip(gd_var *var, gd_tensor *d)
{
    gd_ctx *ctx = gd_var_ctx(var);
    if (gd_error(ctx)) return gd_error(ctx);
    if (d) return gd_var_set_update_vector(var, d);
    gd_var_note_skipped(var);
    return gd_var_set_zero_update(var);
}

static gd_status newton_apply(gd_link *link, gd_var *var)
{
    return step_or_skip(var, newton_step(link, var));
}

/* ---- inm ---- */

/* The change of a list since the last step as a vector, NULL if there was none; keeps the present list. */
static gd_tensor *change_of(gd_link *link, gd_var *var, const char *slot, gd_tensor *const *now)
{
    int count = gd_var_count(var);
    gd_tensor *const *params = gd_var_params(var), **before = gd_link_scratch(link, count), *change = NULL;
    bool first = !before || !count || !gd_link_has_state(link, params[0], slot);
    for (int i = 0; i < count && !first; i++)
        if (!(before[i] = gd_link_state(link, params[i], slot))) return NULL;
    if (!first) change = gd_vector_sum(gd_list_vector(now, count), -1, gd_list_vector(before, count));
    for (int i = 0; i < count; i++)
        if (gd_link_set_state(link, params[i], slot, now[i])) return NULL;
    return change;
}

/* 1 + a d; 1 if there is no such number. */
static double divisor(gd_tensor *h, gd_tensor *s, gd_tensor *y, gd_tensor *d)
{
    if (!h || !s || !y || !d) return 1;
    double rest = 1 - gd_vector_dot(y, gd_matmul(h, s)) / gd_vector_dot(y, y);
    double by = 1 + rest * gd_vector_dot(s, d) / gd_vector_dot(s, s);
    return isfinite(by) && fabs(by) > 1e-8 ? by : 1;
}

static gd_status inm_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *const *grad = gd_var_grad(var);
    gd_tensor *s = grad ? change_of(link, var, "previous_params", gd_var_params(var)) : NULL;
    gd_tensor *y = grad ? change_of(link, var, "previous_update", grad) : NULL;
    gd_tensor *d = gd_error(ctx) ? NULL : newton_step(link, var);
    double by = divisor(gd_link_global_tensor(link, "hessian"), s, y, d);
    return step_or_skip(var, d && by != 1 ? gd_mul_scalar(d, 1 / by) : d);
}

static int64_t inm_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return gd_link_matrix_bytes(link, params, count) + gd_link_slot_bytes(2, params, count);
}

static gd_linop *newton_hessian(gd_link *link, gd_var *var)
{
    (void)var;
    gd_tensor *h = damped(link);
    return h ? gd_linop_dense(h) : NULL;
}

GD_LINK(second_order, newton,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Newton's method with the exact Hessian",
    .formula = "d = (H + damping I)^-1 g",
    .paper = "Nocedal & Wright, Numerical Optimization, 2006, 3.4",
    .cost =
        "n reverse passes, fewer where the Hessian has zeros, and one factorisation of an [n, n] matrix per step, for n elements",
    .example = "newton | strong_wolfe",
    GD_FIELDS(fields),
    .update = newton_update,
    .apply = newton_apply,
    .hessian = newton_hessian,
    .state_bytes = gd_link_matrix_bytes,
    .traits.needs_closure = true);

GD_LINK(second_order, inm,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Newton's method corrected by the curvature along the last step",
    .formula = "a = (1 - y (H s) / y y) s / s s;  d = H^-1 g / (1 + a H^-1 g)",
    .paper = "Saheya, Chen, Sui & Wu, A new Newton-like method for solving nonlinear equations, 2016",
    .cost =
        "n reverse passes, fewer where the Hessian has zeros, and one factorisation of an [n, n] matrix per step, for n elements",
    .example = "inm | strong_wolfe",
    GD_FIELDS(inm_fields),
    GD_SLOTS(inm_slots),
    .update = newton_update,
    .apply = inm_apply,
    .state_bytes = inm_bytes,
    .traits.needs_closure = true);

/* ---- improved_newton ---- */

static const gd_field improved_fields[] = {
    DAMPING,
    SPECTRUM,
    GD_UPDATE_FREQ("steps between new Hessians"),
    {.name = "precompute_inverse",
     .kinds = GD_SET_BOOL | GD_SET_NONE,
     .fallback = {.kind = GD_SET_NONE},
     .only = FACTORED,
     .help = "fixed: " FACTORED},
    LSTSQ,
    GD_HESSIAN_CHOICE("batched_autograd"),
    DIFFERENCE(1e-3),
    INNER,
};

GD_LINK(second_order, improved_newton,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Newton's method with a rank-one correction from the last step",
    .formula = "N = (H + damping I)^-1 u;  a = (1 - y H s / y y) s / s s;  N / (1 + a N)",
    .paper =
        "Saheya, Chen, Sui & Wu, A new Newton-like method for solving nonlinear equations, SpringerPlus 5, 2016",
    .cost = "as newton, and two vectors",
    .example = "improved_newton | strong_wolfe",
    GD_FIELDS(improved_fields),
    GD_SLOTS(inm_slots),
    .update = newton_update,
    .apply = inm_apply,
    .state_bytes = inm_bytes,
    .traits.needs_closure = true);

/* ---- subspace_newton ---- */

static const gd_field subspace_fields[] = {
    GD_INT("sketch_size", 100, 1, 1e6, "directions"),
    GD_CHOICE(
        "sketch_type", "common_directions",
        "common_directions|orthonormal|gaussian|rademacher|rows|topk|mixed",
        "the last gradients, random ones, unit vectors at random or of the largest elements of the update; mixed: the "
        "gradient, averages of it, the last update, and random ones"),
    DAMPING,
    SPECTRUM,
    GD_UPDATE_FREQ("steps between new directions and Hessians"),
    GD_FIXED_FLAG("precompute_inverse", false, FACTORED),
    LSTSQ,
    GD_HVP_CHOICE("batched_autograd", "autograd|batched_autograd|forward|central|fd_forward|fd_central"),
    DIFFERENCE(1e-2),
    GD_SEED("of random directions; none: the context's"),
    INNER,
};

static bool has_type(const gd_link *link, const char *type) { return gd_link_is(link, "sketch_type", type); }

/* Unit vectors as rows [k, n] by their numbers. */
static gd_tensor *unit_rows(gd_link *link, gd_tensor *b, const int64_t *index, int64_t k)
{
    int64_t n = gd_numel(b);
    double *flat = gd_link_memory(link, (size_t)(k * n) * sizeof *flat);
    for (int64_t i = 0; i < k && flat; i++) flat[i * n + index[i]] = 1;
    gd_tensor *rows = flat ? gd_from_f64(gd_link_ctx(link), gd_tensor_dtype(b), 2, (int64_t[]){k, n}, flat)
                           : NULL;
    return gd_to_device(rows, gd_tensor_device(b));
}

/* Numbers of the k largest keys. */
static gd_tensor *largest_rows(gd_link *link, gd_tensor *b, gd_tensor *key, int64_t k)
{
    int64_t n = gd_numel(b);
    double *value = gd_link_memory(link, (size_t)n * sizeof *value);
    int64_t *index = gd_link_memory(link, (size_t)k * sizeof *index);
    if (!value || !index || gd_read_f64(key, value, n)) return NULL;
    for (int64_t i = 0; i < k; i++) {
        int64_t best = 0;
        for (int64_t j = 1; j < n; j++)
            if (!(value[best] >= value[j])) best = j;
        index[i] = best;
        value[best] = -INFINITY;
    }
    return unit_rows(link, b, index, k);
}

static gd_tensor *random_rows(gd_link *link, gd_tensor *b, int64_t k, gd_random_kind kind)
{
    gd_tensor *like = gd_to_device(
        gd_zeros(gd_link_ctx(link), gd_tensor_dtype(b), 2, (int64_t[]){k, gd_numel(b)}), gd_tensor_device(b));
    return like ? gd_link_random(link, kind, like) : NULL;
}

/* The last gradients as rows, this one first; the room for all of them is kept from the first on. */
static gd_tensor *recent_rows(gd_link *link, gd_tensor *b, int64_t most)
{
    gd_tensor *old = gd_link_global_tensor(link, "history"),
              *row = gd_reshape(b, 2, (int64_t[]){1, gd_numel(b)});
    if (old && gd_size(old, 0) != most) old = NULL; /* sketch_size has changed */
    double rows = fmin(old ? gd_link_kept(link, "rows", 0) + 1 : 1, (double)most);
    gd_tensor *rest = old ? gd_slice(old, "0", 0, most - 1, 1) : NULL;
    gd_tensor *all = rest ? gd_cat((gd_tensor *[]){row, rest}, 2, "0")
                          : gd_pad(row, (int64_t[]){0, 0}, (int64_t[]){most - 1, 0}, 0);
    if (!all || gd_link_set_global_tensor(link, "history", all) || gd_link_keep(link, "rows", rows))
        return NULL;
    return gd_slice(all, "0", 0, (int64_t)rows, 1);
}

static gd_tensor *average_row(gd_link *link, const char *name, gd_tensor *b, double keep)
{
    gd_tensor *old = gd_link_global_tensor(link, name);
    gd_tensor *next = old ? gd_add(gd_mul_scalar(old, keep), gd_mul_scalar(b, 1 - keep)) : gd_copy(b);
    return next && gd_link_set_global_tensor(link, name, next) == GD_OK ? next : NULL;
}

/* The gradient, its slow and fast average, the last update, then random rows. */
static gd_tensor *mixed_rows(gd_link *link, gd_tensor *b, int64_t k)
{
    gd_tensor *list[5] = {b, average_row(link, "slow", b, 0.99), average_row(link, "fast", b, 0.9),
                          gd_link_global_tensor(link, "last_update")};
    int64_t n = gd_numel(b), known = list[3] ? 4 : 3;
    for (int i = 0; i < known; i++)
        if (!(list[i] = gd_reshape(list[i], 2, (int64_t[]){1, n}))) return NULL;
    if (known >= k) return gd_cat(list, (int)k, "0");
    list[known] = random_rows(link, b, k - known, GD_RANDOM_NORMAL);
    return list[known] ? gd_cat(list, (int)known + 1, "0") : NULL;
}

/* S [n, k]: orthonormal except for those that are named after their distribution. */
static gd_tensor *directions(gd_link *link, gd_tensor *b)
{
    int64_t n = gd_numel(b), k = (int64_t)fmin(gd_link_real(link, "sketch_size", NULL), (double)n);
    gd_tensor *rows = NULL, *q = NULL, *r = NULL;
    double root = 1 / sqrt((double)n);
    if (has_type(link, "gaussian"))
        return gd_transpose(gd_mul_scalar(random_rows(link, b, k, GD_RANDOM_NORMAL), root), 0, 1);
    if (has_type(link, "rademacher"))
        return gd_transpose(gd_mul_scalar(random_rows(link, b, k, GD_RANDOM_SIGN), root), 0, 1);
    if (has_type(link, "rows"))
        return gd_transpose(largest_rows(link, b, gd_link_random(link, GD_RANDOM_UNIFORM, b), k), 0, 1);
    if (has_type(link, "topk")) return gd_transpose(largest_rows(link, b, gd_abs(b), k), 0, 1);
    if (has_type(link, "common_directions"))
        rows = recent_rows(link, b, k);
    else
        rows = has_type(link, "mixed") ? mixed_rows(link, b, k) : random_rows(link, b, k, GD_RANDOM_NORMAL);
    return rows && gd_qr(gd_transpose(rows, 0, 1), &q, &r) == GD_OK ? q : NULL;
}

/* S^T H S by a product for each direction. */
static gd_tensor *reduced_hessian(gd_link *link, gd_linop *hessian, gd_tensor *s)
{
    int64_t k = gd_size(s, 1);
    gd_tensor **column = gd_link_scratch(link, (int)k);
    for (int64_t i = 0; i < k && column; i++)
        if (!(column[i] = gd_linop_matvec(hessian, gd_contiguous(gd_index(s, "1", i))))) return NULL;
    gd_tensor *hs = column ? gd_stack(column, (int)k, 1, NULL) : NULL;
    gd_tensor *small = hs ? gd_matmul(gd_transpose(s, 0, 1), hs) : NULL;
    return small ? gd_mul_scalar(gd_add(small, gd_transpose(small, 0, 1)), 0.5) : NULL;
}

/* New directions and the Hessian in their space, if they are due. */
static gd_status renew_space(gd_link *link, gd_var *var, gd_linop *hessian, gd_tensor *b)
{
    double *steps = gd_link_global(link, "steps", 0);
    if (!steps) return gd_error(gd_var_ctx(var));
    bool due = fmod(*steps, gd_link_real(link, "update_freq", NULL)) == 0 ||
               !gd_link_global_tensor(link, "hessian");
    *steps += 1;
    if (!due) return GD_OK;
    gd_tensor *s = directions(link, b), *h = s ? reduced_hessian(link, hessian, s) : NULL;
    if (!h) return gd_error(gd_var_ctx(var));
    /* room for all directions from the first step on */
    int64_t used = gd_size(s, 1),
            more = (int64_t)fmin(gd_link_real(link, "sketch_size", NULL), (double)gd_numel(b)) - used;
    s = gd_pad(s, (int64_t[]){0, 0}, (int64_t[]){0, more}, 0);
    h = gd_pad(h, (int64_t[]){0, 0}, (int64_t[]){more, more}, 0);
    gd_status status = s && h ? gd_link_set_global_tensor(link, "directions", s) : gd_error(gd_var_ctx(var));
    if (!status) status = gd_link_keep(link, "used", (double)used);
    return status ? status : gd_link_set_global_tensor(link, "hessian", h);
}

static gd_status subspace_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_linop *hessian = gd_link_hessian_products(link, var);
    gd_tensor *b = hessian ? gd_link_update_vector(link, var) : NULL, *d = NULL;
    bool good = b && gd_numel(b) > 0 && gd_vector_finite(b);
    gd_status status = good ? renew_space(link, var, hessian, b) : gd_error(ctx);
    gd_linop_release(hessian);
    int64_t used = (int64_t)gd_link_kept(link, "used", 0);
    gd_tensor *s = !status && good ? gd_slice(gd_link_global_tensor(link, "directions"), "1", 0, used, 1)
                                   : NULL;
    gd_tensor *h = s ? gd_slice(gd_slice(gd_link_global_tensor(link, "hessian"), "0", 0, used, 1), "1", 0,
                                used, 1)
                     : NULL;
    if (h) d = solved(link, with_damping(link, gd_contiguous(h)), gd_matmul(gd_transpose(s, 0, 1), b));
    d = d && gd_vector_finite(d) ? gd_matmul(s, d) : NULL;
    if (gd_error(ctx)) return gd_error(ctx);
    if (!d) {
        if (gd_numel(b)) gd_var_note_skipped(var);
        return gd_var_set_zero_update(var);
    }
    if (has_type(link, "mixed")) status = gd_link_set_global_tensor(link, "last_update", d);
    return status ? status : gd_var_set_update_vector(var, d);
}

static int64_t subspace_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t n = 0, one = gd_link_slot_bytes(1, params, count);
    for (int i = 0; i < count; i++) n += gd_numel(params[i]);
    int64_t k = (int64_t)fmin(gd_link_real(link, "sketch_size", NULL), (double)n);
    int64_t vectors = k * (has_type(link, "common_directions") ? 2 : 1) + (has_type(link, "mixed") ? 3 : 0);
    return n ? one * vectors + one / n * k * k : 0;
}

GD_LINK(second_order, subspace_newton,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Newton's method in the space of a few directions",
    .formula = "S (S^T H S + damping I)^-1 S^T u",
    .paper = "Gower, Kovalev, Lieder & Richtarik, RSN: randomized subspace Newton, NeurIPS 2019",
    .cost =
        "a Hessian product for each direction, a factorisation of sketch_size^3; vectors, sketch_size of them",
    .example = "subspace_newton(5) | strong_wolfe",
    GD_FIELDS(subspace_fields),
    .apply = subspace_apply,
    .state_bytes = subspace_bytes,
    .traits.needs_closure = true);
