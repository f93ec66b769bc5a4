/* Adagrad's whole matrix through the last gradients alone: lm_adagrad, ggt, ggt_basis.
 *
 *     M [h, n]   the last h gradients as rows, a ring; with order k they are differenced k - 1 times
 *     M M^T = V diag(L) V^T, h x h, so M^T M has the eigenvectors U = M^T V L^(-1/2), as columns
 *
 *   lm_adagrad   U (L + damping)^(-1/2) U^T u
 *   ggt          U (L + damping)^matrix_power U^T u (Agarwal et al. 2019), or U times what a chain makes of U^T u
 *   ggt_basis    the same chain, whose state follows U
 *
 * M M^T is kept: a new gradient changes a row and a column of it, so a step costs 6 h n and h^3 operations.  U itself is only formed
 * if it outlives M, with update_freq > 1, with averages of U, and in ggt_basis: h^2 n then.  Eigenvalues within
 * the rounding error of the largest are left out.  A chain sees U^T u as the first elements of tensors like the parameters, the
 * largest eigenvalue first, and zeros behind them.
 *
 * State: M and M M^T, U where it is formed.  A gradient that is not finite, or whose square overflows, is passed on and not
 * kept; a chain does not see it.  Before there is a row the update is passed on as well. */
#include "gradus/link.h"
#include "gradus/link/matrices.h"

#include <float.h>
#include <math.h>

#define HISTORY_FIELDS(what)                                    \
    GD_INT("history_size", 100, 1, 46340, "gradients to keep"), \
        GD_UPDATE_FREQ("steps between eigenvectors; " what)
#define DAMPING_FIELDS(of)                                         \
    GD_REAL("damping", 1e-4, 0, INFINITY, "added to eigenvalues"), \
        GD_REAL("rdamping", 0, 0, INFINITY, "the same as a share of " of)
#define SPECTRUM_FIELDS                                                                      \
    GD_REAL("eig_tol", 1e-7, 0, 1, "eigenvalues below this times the largest are left out"), \
        GD_INT_OR_NONE("truncate", 1, 1e9, "eigenvectors to use at most")

static const gd_slot slots[] = {{"history", 0}, {"gram", 0},   {"differences", 0},
                                {"turn", 0},    {"values", 0}, {"basis", 0}};
static const char *const scalars[] = {"step", "rows", "seen"};

static gd_dtype dtype_for(const gd_tensor *x) { return gd_tensor_dtype(x) == GD_F64 ? GD_F64 : GD_F32; }

static double number(const gd_link *link, const char *field, double otherwise)
{
    return gd_link_has_field(link, field) && !gd_link_is_none(link, field) ? gd_link_real(link, field, NULL)
                                                                           : otherwise;
}

static bool averages_basis(const gd_link *link)
{
    return gd_link_has_field(link, "U_beta") && !gd_link_is_none(link, "U_beta");
}

/* Is U needed after M has changed? */
static bool forms_basis(const gd_link *link)
{
    return number(link, "update_freq", 1) > 1 || averages_basis(link) || gd_link_has_field(link, "basis_opt");
}

/* Zeros [rows, columns], or vectors if columns is 0, on the device of a tensor. */
static gd_tensor *zeros_for(gd_tensor *x, int64_t rows, int64_t columns)
{
    return gd_to_device(gd_zeros(gd_tensor_ctx(x), dtype_for(x), columns ? 2 : 1, (int64_t[]){rows, columns}),
                        gd_tensor_device(x));
}

static gd_tensor *column_of(gd_tensor *x)
{
    return gd_cast(gd_reshape(gd_drop_names(x), 2, (int64_t[]){gd_numel(x), 1}), dtype_for(x));
}

/* ---- the history ---- */

/* A slot [rows, columns], zeros at first. */
static gd_tensor *matrix_of(const gd_transform *t, int i, const char *slot, int64_t rows, int64_t columns)
{
    bool there = gd_link_has_state(t->link, t->keys[i], slot);
    gd_tensor *like = there ? NULL : zeros_for(t->tensors[i], rows, columns);
    if (!there && !like) return NULL; /* without one it would have the shape of the parameter */
    return gd_link_state_from(t->link, t->keys[i], slot, (gd_init){.kind = GD_INIT_ZEROS, .tensor = like});
}

/* Clears state of a different history_size or order. */
static gd_status begin_anew_if_resized(const gd_transform *t, int i, int64_t h)
{
    gd_status status = GD_OK;
    gd_tensor *key = t->keys[i];
    int64_t order = (int64_t)number(t->link, "order", 1) - 1;
    bool kept = gd_link_has_state(t->link, key, "history");
    bool other = kept && gd_size(gd_link_state(t->link, key, "history"), 0) != h;
    if (kept && order) other = other || gd_size(gd_link_state(t->link, key, "differences"), 0) != order;
    for (int k = 0; k < (int)(sizeof slots / sizeof *slots) && other && !status; k++)
        status = gd_link_set_state(t->link, key, slots[k].name, NULL);
    if (other && !status) *gd_link_scalar(t->link, key, "rows") = *gd_link_scalar(t->link, key, "seen") = 0;
    return status;
}

/* The new row [1, n]: the gradient, or its difference of the order asked for. */
static gd_tensor *new_row(const gd_transform *t, int i, double *seen)
{
    int64_t order = (int64_t)number(t->link, "order", 1), n = gd_numel(t->tensors[i]);
    gd_tensor *row = gd_transpose(column_of(t->tensors[i]), 0, 1);
    gd_tensor *kept = order > 1 ? matrix_of(t, i, "differences", order - 1, n) : NULL;
    if (order > 1 && !kept) return NULL;
    gd_tensor *finite = kept ? gd_isfinite(gd_sum(gd_square(row), NULL, false)) : NULL;
    for (int64_t k = 0; k < order - 1; k++) {
        gd_tensor *before = gd_slice(kept, "0", k, k + 1, 1), *difference = gd_sub(row, before);
        if (!difference || gd_assign(before, gd_where(finite, row, before))) return NULL;
        row = difference;
    }
    *seen += 1;
    return row;
}

/* Puts a row into the ring, and its products into the gram matrix; one whose square is not finite leaves both. */
static gd_status take_row(const gd_transform *t, int i, gd_tensor *row, int64_t at, int64_t h)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor *history = matrix_of(t, i, "history", h, gd_size(row, 1)),
              *gram = matrix_of(t, i, "gram", h, h);
    gd_tensor *place = history && gram ? gd_slice(history, "0", at, at + 1, 1) : NULL;
    gd_tensor *finite = place ? gd_isfinite(gd_sum(gd_square(row), NULL, false)) : NULL;
    if (!finite || gd_assign(place, gd_where(finite, row, place))) return gd_error(ctx);
    gd_tensor *products = gd_matmul(history, gd_transpose(place, 0, 1));
    gd_status status = products ? gd_assign(gd_slice(gram, "1", at, at + 1, 1), products) : gd_error(ctx);
    return status ? status : gd_assign(gd_slice(gram, "0", at, at + 1, 1), gd_transpose(products, 0, 1));
}

/* Keeps this step's gradient if it is due. */
static gd_status keep_gradient(const gd_transform *t, int i, int64_t h)
{
    double *step = gd_link_scalar(t->link, t->keys[i], "step"),
           *rows = gd_link_scalar(t->link, t->keys[i], "rows"),
           *seen = gd_link_scalar(t->link, t->keys[i], "seen");
    if (!step || !rows || !seen) return gd_error(gd_link_ctx(t->link));
    if (fmod(*step, number(t->link, "interval", 1)) != 0) return GD_OK;
    gd_tensor *row = new_row(t, i, seen);
    if (!row) return gd_error(gd_link_ctx(t->link));
    if (*seen < number(t->link, "order", 1)) return GD_OK;
    gd_status status = take_row(t, i, row, (int64_t)fmod(*rows, (double)h), h);
    if (!status) *rows += 1;
    return status;
}

/* ---- eigenvectors ---- */

/* [k, h, h] -> [k, h, h + 1]: rows V^T L^(-1/2), the largest first, and L behind them; zeros for those that are left out. */
static gd_tensor *turns(void *user, gd_tensor *stack, const int *entry, int entries)
{
    const gd_link *link = user;
    (void)entry, (void)entries;
    gd_tensor *l = NULL, *v = NULL;
    if (gd_finite_eigh(stack, &l, &v)) return NULL;
    int64_t h = gd_size(stack, 1), most = (int64_t)number(link, "truncate", (double)h);
    double epsilon = gd_tensor_dtype(stack) == GD_F64 ? DBL_EPSILON : FLT_EPSILON;
    double share = fmax(number(link, "eig_tol", 0), epsilon * (double)h);
    l = gd_flip(l, "1");
    gd_tensor *least = gd_mul_scalar(gd_max(l, "1", true), share), *zero = gd_zeros_like(l);
    gd_tensor *there = gd_logical_and(gd_ge(l, least), gd_gt(l, zero));
    if (most < h) {
        gd_tensor *place = gd_arange(gd_tensor_ctx(l), gd_tensor_dtype(l), 0, (double)h, 1);
        there = gd_logical_and(
            there, gd_lt(gd_to_device(place, gd_tensor_device(l)), gd_full_like(zero, (double)most)));
    }
    gd_tensor *root = gd_where(there, gd_rsqrt(l), zero);
    gd_tensor *rows = gd_mul(gd_transpose(gd_flip(v, "2"), 1, 2), gd_unsqueeze(root, 2, NULL));
    l = gd_unsqueeze(gd_where(there, l, zero), 2, NULL);
    /* 0 times a vector that is not finite is none */
    rows = gd_where(gd_unsqueeze(there, 2, NULL), rows, gd_zeros_like(rows));
    return rows && l ? gd_cat((gd_tensor *[]){rows, l}, 2, "2") : NULL;
}

/* The next value of a slot: `next`, or its average with the old value by that decay. */
static gd_status average_into(const gd_transform *t, int i, const char *slot, const char *beta,
                              gd_tensor *next)
{
    double keep = number(t->link, beta, 0);
    gd_tensor *old = keep > 0 && gd_link_has_state(t->link, t->keys[i], slot)
                         ? gd_link_state(t->link, t->keys[i], slot)
                         : NULL;
    if (old) next = gd_add(gd_mul_scalar(old, keep), gd_mul_scalar(next, 1 - keep));
    return next ? gd_link_set_state(t->link, t->keys[i], slot, next) : gd_error(gd_link_ctx(t->link));
}

/* The sign of an eigenvector is arbitrary: takes the one nearer to the old average. */
static gd_tensor *with_signs_of(gd_tensor *rows, gd_tensor *old)
{
    gd_tensor *along = gd_sum(gd_mul(rows, old), "1", true);
    gd_tensor *opposite = along ? gd_lt(along, gd_zeros_like(along)) : NULL;
    return opposite ? gd_where(opposite, gd_neg(rows), rows) : NULL;
}

static gd_status follow_basis(const gd_transform *t, int i, gd_tensor *old, gd_tensor *new_rows);

/* U^T as rows, from M. */
static gd_status form_basis(const gd_transform *t, int i, gd_tensor *turn)
{
    gd_tensor *key = t->keys[i], *history = gd_link_state(t->link, key, "history");
    gd_tensor *rows = gd_matmul(turn, history), *old = NULL;
    if (rows && gd_link_has_state(t->link, key, "basis")) old = gd_link_state(t->link, key, "basis");
    if (rows && old) rows = with_signs_of(rows, old);
    if (!rows) return gd_error(gd_link_ctx(t->link));
    gd_status status = old && gd_link_has_field(t->link, "basis_opt") ? follow_basis(t, i, old, rows) : GD_OK;
    return status ? status : average_into(t, i, "basis", "U_beta", rows);
}

static gd_status take_eigenvectors(const gd_transform *t, int i, gd_tensor *both)
{
    int64_t h = gd_size(both, 1);
    gd_tensor *one = gd_squeeze(both, "0"), *turn = gd_slice(one, "1", 0, h, 1), *l = gd_index(one, "1", h);
    if (!turn || !l) return gd_error(gd_link_ctx(t->link));
    gd_status status = average_into(t, i, "values", "L_beta", l);
    if (status) return status;
    return forms_basis(t->link) ? form_basis(t, i, turn)
                                : gd_link_set_state(t->link, t->keys[i], "turn", turn);
}

static gd_status history_update(const gd_transform *t)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    int64_t h = (int64_t)number(t->link, "history_size", 1);
    gd_tensor **stack = gd_link_scratch(t->link, t->count);
    gd_status status = stack ? GD_OK : gd_error(ctx);
    for (int i = 0; i < t->count && !status; i++) {
        if (gd_numel(t->tensors[i]) == 0) continue;
        status = begin_anew_if_resized(t, i, h);
        if (!status) status = keep_gradient(t, i, h);
        double *step = status ? NULL : gd_link_scalar(t->link, t->keys[i], "step");
        if (status || !gd_link_has_state(t->link, t->keys[i], "gram")) continue;
        if (fmod(*step, number(t->link, "update_freq", 1)) != 0 &&
            gd_link_has_state(t->link, t->keys[i], "values"))
            continue;
        stack[i] = gd_unsqueeze(gd_link_state(t->link, t->keys[i], "gram"), 0, NULL);
        if (!stack[i]) status = gd_error(ctx);
    }
    if (!status) status = gd_map_stacked(stack, t->count, NULL, turns, t->link);
    for (int i = 0; i < t->count && !status; i++)
        if (stack[i]) status = take_eigenvectors(t, i, stack[i]);
    /* a step that failed is not counted */
    for (int i = 0; i < t->count && !status; i++) *gd_link_scalar(t->link, t->keys[i], "step") += 1;
    return status;
}

/* ---- applying them ---- */

/* The space of a tensor: U^T = turn rows, or rows alone. */
typedef struct space {
    gd_tensor *rows, *turn, *values;
} space;

static space space_of(const gd_transform *t, int i)
{
    gd_tensor *key = t->keys[i];
    bool formed = forms_basis(t->link);
    space s = {.rows = gd_link_state(t->link, key, formed ? "basis" : "history")};
    s.turn = formed ? NULL : gd_link_state(t->link, key, "turn");
    s.values = gd_link_state(t->link, key, "values");
    return s;
}

/* U^T x, [h, 1]. */
static gd_tensor *into(const space *s, gd_tensor *x)
{
    gd_tensor *c = gd_matmul(s->rows, x);
    return s->turn ? gd_matmul(s->turn, c) : c;
}

/* U c, [n, 1]. */
static gd_tensor *out_of(const space *s, gd_tensor *c)
{
    if (s->turn) c = gd_matmul(gd_transpose(s->turn, 0, 1), c);
    return gd_matmul(gd_transpose(s->rows, 0, 1), c);
}

/* The number added to the eigenvalues; their norm, computed without squares that overflow. */
static gd_tensor *damping_for(const gd_link *link, gd_tensor *l, bool ggt)
{
    gd_tensor *size = gd_max(l, NULL, false);
    double share = number(link, "rdamping", 0);
    if (!ggt && share > 0)
        size = gd_mul(size,
                      gd_norm(gd_div(l, gd_maximum(size, gd_full_like(size, FLT_MIN))), 2, NULL, false));
    return gd_add_scalar(gd_mul_scalar(size, share), number(link, "damping", 0));
}

/* A power of the eigenvalues, damped. */
static gd_tensor *weights(const gd_link *link, gd_tensor *l)
{
    bool ggt = gd_link_has_field(link, "matrix_power"), within = ggt || gd_link_flag(link, "true_damping");
    gd_tensor *shift = damping_for(link, l, ggt), *zero = gd_zeros_like(l);
    gd_tensor *w = within ? gd_pow_scalar(gd_add(l, shift), number(link, "matrix_power", -0.5))
                          : gd_reciprocal(gd_add(gd_sqrt(l), shift));
    return w ? gd_where(gd_gt(l, zero), w, zero) : NULL;
}

/* Copies coordinates [h, 1] to the first elements of a tensor shaped like a second one, and back. */
static gd_tensor *laid_out(gd_tensor *c, gd_tensor *like)
{
    int64_t n = gd_numel(like), h = gd_size(c, 0), rank = h < n ? h : n;
    gd_tensor *flat = gd_slice(gd_reshape(c, 1, (int64_t[]){h}), "0", 0, rank, 1);
    flat = gd_pad(flat, (int64_t[]){0}, (int64_t[]){n - rank}, 0);
    return flat ? gd_reshape(flat, gd_ndim(like), gd_shape(like)) : NULL;
}

static gd_tensor *picked_up(gd_tensor *x, int64_t h)
{
    int64_t n = gd_numel(x), rank = h < n ? h : n;
    gd_tensor *flat = gd_slice(gd_reshape(gd_drop_names(x), 1, (int64_t[]){n}), "0", 0, rank, 1);
    flat = gd_cast(gd_pad(flat, (int64_t[]){0}, (int64_t[]){h - rank}, 0), dtype_for(x));
    return gd_reshape(flat, 2, (int64_t[]){h, 1});
}

static const char *chain_field(const gd_link *link)
{
    const char *field = gd_link_has_field(link, "basis_opt") ? "basis_opt" : "basis_optimizer";
    return gd_link_has_field(link, field) && gd_link_child(link, field) ? field : NULL;
}

/* Coordinates of all tensors through the chain; those that are not finite do not go there. */
static gd_status through_chain(const gd_transform *t, gd_tensor **coordinate)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    const char *field = chain_field(t->link);
    gd_tensor **list = field ? gd_link_scratch(t->link, t->count) : NULL;
    if (!list) return field ? gd_error(ctx) : GD_OK;
    bool any = false;
    for (int i = 0; i < t->count; i++) {
        if (!coordinate[i] || !gd_vector_finite(gd_square(coordinate[i]))) continue;
        if (!(list[i] = laid_out(coordinate[i], t->tensors[i]))) return gd_error(ctx);
        any = true;
    }
    gd_status status = any ? gd_transform_child(t, field, list) : gd_error(ctx);
    for (int i = 0; i < t->count && !status; i++) {
        if (list[i]) coordinate[i] = picked_up(list[i], gd_size(coordinate[i], 0));
        if (list[i] && !coordinate[i]) status = gd_error(ctx);
    }
    return status;
}

static gd_status history_apply(const gd_transform *t)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor **coordinate = gd_link_scratch(t->link, t->count);
    gd_status status = coordinate ? GD_OK : gd_error(ctx);
    for (int i = 0; i < t->count && !status; i++) {
        if (!gd_link_has_state(t->link, t->keys[i], "values")) continue;
        space s = space_of(t, i);
        if (s.rows && s.values && !(coordinate[i] = into(&s, column_of(t->tensors[i]))))
            status = gd_error(ctx);
    }
    if (!status) status = through_chain(t, coordinate);
    bool own = !chain_field(t->link);
    for (int i = 0; i < t->count && !status; i++) {
        if (!coordinate[i]) continue;
        space s = space_of(t, i);
        gd_tensor *w = own ? weights(t->link, s.values) : NULL;
        if (w) coordinate[i] = gd_mul(coordinate[i], gd_unsqueeze(w, 1, NULL));
        gd_tensor *u = gd_reshape(out_of(&s, coordinate[i]), gd_ndim(t->tensors[i]), gd_shape(t->tensors[i]));
        status = u && (w || !own) ? gd_assign(t->tensors[i], u) : gd_error(ctx);
    }
    return status;
}

/* M and M M^T, the eigenvectors of that, and U where it is formed. */
static int64_t history_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t h = (int64_t)number(link, "history_size", 1), rows = h * (forms_basis(link) ? 2 : 1), bytes = 0,
            n = 0, widest = 4;
    bool one = !gd_link_has_field(link, "concat_params") || gd_link_flag(link, "concat_params");
    rows += (int64_t)number(link, "order", 1) - 1;
    for (int i = 0; i < count; i++) {
        int64_t item = dtype_for(params[i]) == GD_F64 ? 8 : 4, size = gd_numel(params[i]);
        if (item > widest) widest = item;
        n += size;
        bytes += size ? item * (rows * size + h * (forms_basis(link) ? h : 2 * h) + h) : 0;
    }
    return one && n ? widest * (rows * n + h * (forms_basis(link) ? h : 2 * h) + h) : one ? 0 : bytes;
}

#define HISTORY_CLASS                                                                                  \
    .spread = GD_SPREAD_WHOLE, GD_SLOTS(slots), GD_SCALARS(scalars), .update_tensors = history_update, \
    .apply_tensors = history_apply, .state_bytes = history_bytes, .traits.concat_params = true,        \
    .traits.whole_settings = true, .traits.updates_always = true

/* ---- lm_adagrad ---- */

static const gd_field lm_adagrad_fields[] = {
    HISTORY_FIELDS("gradients are kept in between"),
    DAMPING_FIELDS("their norm"),
    GD_INT("order", 1, 1, 100,
           "differences of gradients: 1 themselves, 2 their changes from one to the next, ..."),
    GD_FLAG("true_damping", true, "added to eigenvalues, else to their roots"),
    GD_REAL_OR_NONE("U_beta", 0, 1, "decay of a moving average of the eigenvectors"),
    GD_REAL_OR_NONE("L_beta", 0, 1, "decay of a moving average of the eigenvalues"),
    GD_INT("interval", 1, 1, 1e9, "steps from one gradient that is kept to the next"),
    GD_CONCAT_PARAMS("one matrix for all parameters, else one for each"),
    GD_INNER("acts on the update before the matrix does"),
};

GD_LINK(adaptive, lm_adagrad,
    HISTORY_CLASS,
    .summary = "Adagrad with the whole matrix of products of the last gradients",
    .formula =
        "U, L the eigenvectors and eigenvalues of the sum of g g^T over the last history_size gradients;  "
        "U (L + damping + rdamping norm(L))^(-1/2) U^T u",
    .paper = "Agarwal et al., Efficient full-matrix adaptive regularization, ICML 2019",
    .cost = "6 h n + h^3 flops, h^2 n where U is formed; h n numbers, h = history_size",
    .example = "lm_adagrad(20) | lr(0.1)",
    GD_FIELDS(lm_adagrad_fields));

/* ---- ggt ---- */

static const gd_field ggt_fields[] = {
    HISTORY_FIELDS("gradients are kept in between"),
    SPECTRUM_FIELDS,
    DAMPING_FIELDS("the largest"),
    GD_REAL("matrix_power", -0.5, -100, 100, "of the eigenvalues"),
    GD_CHILD("basis_optimizer", "acts on U^T u in place of the power of the eigenvalues"),
    GD_CONCAT_PARAMS("one matrix for all parameters, else one for each"),
    GD_INNER("acts on the update before the matrix does"),
};

GD_LINK(adaptive, ggt,
    HISTORY_CLASS,
    .summary = "full-matrix preconditioning by the last gradients",
    .formula =
        "U, L the eigenvectors and eigenvalues of the sum of g g^T over the last history_size gradients;  "
        "U (L + damping + rdamping max(L))^matrix_power U^T u, or U basis_optimizer(U^T u)",
    .paper = "Agarwal et al., Efficient full-matrix adaptive regularization, ICML 2019",
    .cost = "6 h n + h^3 flops, h^2 n where U is formed; h n numbers, h = history_size",
    .example = "ggt(20) | lr(0.1)",
    GD_FIELDS(ggt_fields));

/* ---- ggt_basis ---- */

static const gd_field basis_fields[] = {
    GD_CHILD_NEEDED("basis_opt", "runs on U^T u; its state follows U"),
    HISTORY_FIELDS("gradients are kept in between"),
    SPECTRUM_FIELDS,
    /* settings of ggt that chains may give; here the chain does their work */
    GD_REAL("damping", 1e-4, 1e-4, 1e-4, "as in ggt; here the chain replaces it"),
    GD_REAL("rdamping", 0, 0, 0, "the same"),
    GD_REAL("matrix_power", -0.5, -0.5, -0.5, "the same"),
    GD_FLAG("approx_sq_reproject", false,
            "squares are carried over as those of coordinates without correlation"),
    GD_FLAG("approx_cu_reproject", false,
            "third powers are carried over by those of the turn, not through squares"),
    GD_INNER("acts on the update before the chain does"),
};

/* Old coordinates in the new basis: T = U_new^T U_old. */
typedef struct carrying {
    const gd_transform *t;
    int index;
    gd_tensor *turn;
} carrying;

/* Squares v of coordinates with means m: the means bound their correlation, so with w = m, no larger than
 * the root of v, they become sum T_ij^2 (v_j - w_j^2) + (sum T_ij w_j)^2; without means, or approximately, sum T_ij^2 v_j. */
static gd_tensor *carried_squares(gd_tensor *turn, gd_tensor *v, gd_tensor *m)
{
    gd_tensor *squares = gd_square(turn);
    if (!m) return gd_matmul(squares, v);
    gd_tensor *root = gd_sqrt(gd_maximum(v, gd_zeros_like(v))),
              *w = gd_maximum(gd_minimum(m, root), gd_neg(root));
    return gd_add(gd_matmul(squares, gd_sub(v, gd_square(w))), gd_square(gd_matmul(turn, w)));
}

/* The same for a different power p: by |T|^p, or as squares of v^(2/p). */
static gd_tensor *carried_powers(const carrying *c, gd_tensor *v, gd_tensor *m, double power)
{
    bool exact = !gd_link_flag(c->t->link, power == 3 ? "approx_cu_reproject" : "approx_sq_reproject");
    if (power == 2) return carried_squares(c->turn, v, exact ? m : NULL);
    if (!exact) return gd_matmul(gd_pow_scalar(gd_abs(c->turn), power), v);
    return gd_pow_scalar(carried_squares(c->turn, gd_pow_scalar(gd_abs(v), 2 / power), m), power / 2);
}

static gd_tensor *coordinates_below(const carrying *c, gd_link *below, const char *slot)
{
    gd_tensor *x = gd_transform_below(c->t, below, slot, c->index);
    return x ? picked_up(x, gd_size(c->turn, 0)) : NULL;
}

/* The first slot of a link that is of the first power. */
static gd_tensor *mean_below(const carrying *c, gd_link *below)
{
    const gd_link_class *cls = gd_link_class_of(below);
    for (int k = 0; k < cls->slot_count; k++)
        if (!(cls->slots[k].flags & GD_SLOT_SQUARE)) return coordinates_below(c, below, cls->slots[k].name);
    return NULL;
}

static gd_status carry(const carrying *c, gd_link *below)
{
    gd_ctx *ctx = gd_link_ctx(below);
    const gd_link_class *cls = gd_link_class_of(below);
    double power = gd_link_has_field(below, "pow") ? gd_link_real(below, "pow", c->t->keys[c->index]) : 2;
    gd_tensor *mean = mean_below(c, below);
    for (int k = 0; k < cls->slot_count; k++) {
        gd_tensor *x = coordinates_below(c, below, cls->slots[k].name);
        if (!x) continue;
        bool square = cls->slots[k].flags & GD_SLOT_SQUARE;
        x = square ? carried_powers(c, x, mean, power) : gd_matmul(c->turn, x);
        x = x ? laid_out(x, c->t->tensors[c->index]) : NULL;
        if (!x || gd_transform_set_below(c->t, below, cls->slots[k].name, c->index, x)) return gd_error(ctx);
    }
    gd_status status = gd_error(ctx);
    for (int k = 0; k < gd_link_children(below) && !status; k++)
        status = carry(c, gd_link_child_at(below, k));
    return status;
}

static gd_status follow_basis(const gd_transform *t, int i, gd_tensor *old, gd_tensor *new_rows)
{
    carrying c = {.t = t, .index = i, .turn = gd_matmul(new_rows, gd_transpose(old, 0, 1))};
    return c.turn ? carry(&c, gd_link_child(t->link, "basis_opt")) : gd_error(gd_link_ctx(t->link));
}

GD_LINK(adaptive, ggt_basis,
    HISTORY_CLASS,
    .summary = "runs a chain in the space of the last gradients",
    .formula =
        "U the eigenvectors of the sum of g g^T over the last history_size gradients;  U basis_opt(U^T u), the state of "
        "basis_opt turned by T = U_new^T U_old, its squares by the squares of T",
    .paper = "Agarwal et al., Efficient full-matrix adaptive regularization, ICML 2019",
    .cost = "4 h n + h^3 flops, 4 h^2 n every update_freq steps; 2 h n numbers, h = history_size",
    .example = "ggt_basis(adam, 20) | lr(0.01)",
    GD_FIELDS(basis_fields));
