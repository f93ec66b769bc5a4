/* Shampoo, SOAP and chains in its basis: a factor for each axis of a tensor instead of one matrix over its elements.
 *
 *     G [a, b, c]      the update, its short axes merged while the product of their sizes is at most max_dim
 *     L_d [d, d]       for each axis d: G with d first as a matrix, times its transpose, summed or averaged over the steps
 *
 *   shampoo   multiplies every axis by L_d^(-1/exp_override), renewed every update_freq steps (Gupta, Koren & Singer 2018)
 *   soap      runs Adam in the basis of the eigenvectors Q_d of the L_d, which follow them by one step of the power method
 *             and a QR factorisation every precond_freq steps (Vyas et al. 2024)
 *   soap_basis  runs any chain there: it sees the update turned by the Q_d, in the shape of the parameter.  When they change
 *             its state is turned as well; squares follow the order of the vectors, as soap's do
 *
 * Axes of one element and those longer than max_dim have no factor.  A tensor without any (also a vector with
 * precondition_1d=false) gets Adagrad's scaling, or plain Adam's.
 *
 * Tensors of one shape, as they are seen, go through every product together, and factors of one size are factored together.
 * Products are made with reduced precision (gd_matmul_fast).  Factors that are not finite any more, because the gradient was
 * not or its products overflow, are not taken: the state is as before that step, and the update is passed on as it comes. */
#include "gradus/link.h"
#include "gradus/link/matrices.h"

#include <math.h>

static const char *const factor_name[GD_MAX_DIMS] = GD_AXIS_NAMES("factor");
static const char *const basis_name[GD_MAX_DIMS] = GD_AXIS_NAMES("basis");
/* ---- axes ---- */

/* How a tensor is seen: its axes in the order of their sizes, the first `merged` of them as one. */
typedef struct folding {
    int ndim, order[GD_MAX_DIMS], axes; /* axes: of the tensor itself */
    int64_t size[GD_MAX_DIMS];
    bool factor[GD_MAX_DIMS], any;
} folding;

static bool flag_of(const gd_link *link, const char *field, const gd_tensor *key)
{
    return gd_link_real(link, field, key) != 0;
}

/* Shortest first; equal ones keep their order. */
static void order_axes(folding *f, const gd_tensor *x)
{
    for (int i = 0; i < f->axes; i++) {
        int at = i;
        for (; at > 0 && gd_size(x, f->order[at - 1]) > gd_size(x, i); at--) f->order[at] = f->order[at - 1];
        f->order[at] = i;
    }
}

/* The two shortest axes become one; else no axis and no element moves. */
static bool some_merge(const gd_tensor *x, double most)
{
    int64_t least[2] = {INT64_MAX, INT64_MAX};
    for (int i = 0; i < gd_ndim(x); i++) {
        int64_t size = gd_size(x, i);
        if (size < least[0]) {
            least[1] = least[0];
            least[0] = size;
        } else if (size < least[1])
            least[1] = size;
    }
    return gd_ndim(x) > 1 && (double)least[0] * (double)least[1] <= most;
}

static folding fold(const gd_link *link, const gd_tensor *x, const gd_tensor *key)
{
    folding f = {.axes = gd_ndim(x)};
    double most = gd_link_real(link, "max_dim", key);
    for (int i = 0; i < f.axes; i++) f.order[i] = i;
    bool merge = flag_of(link, "merge_small", key) && some_merge(x, most);
    if (merge) order_axes(&f, x);
    bool open = merge; /* the first axis can still be merged with the next */
    for (int i = 0; i < f.axes; i++) {
        int64_t size = gd_size(x, f.order[i]);
        if (open && f.ndim && (double)(f.size[0] * size) <= most)
            f.size[0] *= size;
        else {
            open = open && !f.ndim;
            f.size[f.ndim++] = size;
        }
    }
    bool plain = gd_numel(x) == 0 ||
                 (f.ndim == 1 && gd_ndim(x) == 1 && !flag_of(link, "precondition_1d", key));
    for (int i = 0; i < f.ndim && !plain; i++) {
        f.factor[i] = f.size[i] > 1 && (double)f.size[i] <= most;
        f.any = f.any || f.factor[i];
    }
    return f;
}

static gd_dtype dtype_of(const gd_tensor *x) { return gd_tensor_dtype(x) == GD_F64 ? GD_F64 : GD_F32; }

/* A stack of one: [1, n], the elements in the order of the axes. */
static gd_tensor *row_of(gd_tensor *x) { return x ? gd_reshape(x, 2, (int64_t[]){1, gd_numel(x)}) : NULL; }

static gd_tensor *folded(const folding *f, gd_tensor *x)
{
    return gd_cast(row_of(gd_permute(gd_drop_names(x), f->order)), dtype_of(x));
}

/* In its original shape. */
static gd_tensor *unfolded(const folding *f, gd_tensor *u, const gd_tensor *like)
{
    int64_t size[GD_MAX_DIMS];
    int back[GD_MAX_DIMS];
    for (int i = 0; i < f->axes; i++) {
        size[i] = gd_size(like, f->order[i]);
        back[f->order[i]] = i;
    }
    return gd_permute(gd_reshape(u, f->axes, size), back);
}

/* Replaces a tensor of the update. */
static gd_status hand_on(const gd_transform *t, int i, gd_tensor *u)
{
    gd_tensor *old = t->tensors[i], *next = u ? gd_named_like(gd_cast(u, gd_tensor_dtype(old)), old) : NULL;
    if (!next) return gd_error(gd_link_ctx(t->link));
    t->tensors[i] = next;
    return GD_OK;
}

/* ---- tensors that are processed together ---- */

/* Tensors of one folding whose settings are the same. */
typedef struct group {
    const gd_transform *t;
    const int *entry;
    int count;
    folding f;
} group;

static group group_of(const gd_transform *t, const int *entry, int count)
{
    return (group){t, entry, count, fold(t->link, t->tensors[entry[0]], t->keys[entry[0]])};
}

static gd_tensor *key_of(const group *g, int k) { return g->t->keys[g->entry[k]]; }
static double setting(const group *g, const char *name)
{
    return gd_link_real(g->t->link, name, key_of(g, 0));
}

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool same_shape(const folding *a, const folding *b)
{
    bool same = a->ndim == b->ndim;
    for (int d = 0; d < a->ndim && same; d++) same = a->size[d] == b->size[d];
    return same;
}

static bool alike(const gd_transform *t, int i, int k)
{
    folding a = fold(t->link, t->tensors[i], t->keys[i]), b = fold(t->link, t->tensors[k], t->keys[k]);
    if (!same_shape(&a, &b)) return false;
    const gd_link_class *cls = gd_link_class_of(t->link);
    for (int n = 0; n < cls->field_count; n++)
        if (cls->fields[n].kinds & (GD_SET_REAL | GD_SET_BOOL) &&
            !same_number(gd_link_real(t->link, cls->fields[n].name, t->keys[i]),
                         gd_link_real(t->link, cls->fields[n].name, t->keys[k])))
            return false;
    const double *one = gd_link_scalar(t->link, t->keys[i], "step"),
                 *other = gd_link_scalar(t->link, t->keys[k], "step");
    return one && other && *one == *other;
}

/* The first tensor of the same shape with the same settings and as many steps: they are processed together. */
static int first_alike(void *user, int index)
{
    int k = 0;
    while (k < index && !alike(user, index, k)) k++;
    return k;
}

/* Replaces the entries of x that have factors with the results of fn: stacks of one. */
static gd_status map_folded(const gd_transform *t, gd_tensor **x, gd_stack_fn fn)
{
    return gd_map_stacked(x, t->count, first_alike, fn, (void *)t);
}

/* The state of a slot of all of a group as one stack: of matrices, or of rows. */
static gd_tensor *stacked_state(const group *g, const char *slot, gd_init init, bool matrices)
{
    gd_tensor **list = gd_link_scratch(g->t->link, g->count);
    for (int k = 0; k < g->count && list; k++) {
        gd_tensor *state = gd_link_state_from(g->t->link, key_of(g, k), slot, init);
        if (!(list[k] = matrices ? gd_unsqueeze(state, 0, NULL) : row_of(state))) return NULL;
    }
    return !list ? NULL : g->count == 1 ? list[0] : gd_cat(list, g->count, "0");
}

static gd_status keep_stacked(const group *g, const char *slot, gd_tensor *stack)
{
    gd_ctx *ctx = gd_link_ctx(g->t->link);
    for (int k = 0; k < g->count && stack; k++) {
        gd_tensor *state = gd_link_state(g->t->link, key_of(g, k), slot), *value = gd_index(stack, "0", k);
        if (!state || !value || gd_assign(state, gd_reshape(value, gd_ndim(state), gd_shape(state))))
            return gd_error(ctx);
    }
    return gd_error(ctx);
}

/* Axis d of tensors in rows times m [k, n, n], NULL: as it is. */
static gd_tensor *turn(const folding *f, gd_tensor *x, int d, gd_tensor *m)
{
    if (!m) return x;
    int64_t k = gd_size(x, 0), row = gd_numel(x) / k, n = f->size[d], before = 1;
    for (int i = 0; i < d; i++) before *= f->size[i];
    int64_t after = row / n / before;
    gd_tensor *t = gd_transpose(m, 1, 2);
    if (after == 1)
        x = gd_matmul_fast(gd_reshape(x, 3, (int64_t[]){k, before, n}), m);
    else if (before == 1)
        x = gd_matmul_fast(t, gd_reshape(x, 3, (int64_t[]){k, n, after}));
    else
        x = gd_matmul(gd_unsqueeze(t, 1, NULL), gd_reshape(x, 4, (int64_t[]){k, before, n, after}));
    return gd_reshape(x, 2, (int64_t[]){k, row});
}

/* Every axis times the state of that name, if there is one; back: times its transpose. */
static gd_tensor *times_all(const group *g, gd_tensor *x, const char *const *name, bool back)
{
    for (int d = 0; d < g->f.ndim && x && g->f.any; d++) {
        gd_tensor *m = NULL;
        if (g->f.factor[d] && gd_link_has_state(g->t->link, key_of(g, 0), name[d])) {
            m = stacked_state(g, name[d], (gd_init){.kind = GD_INIT_ZEROS}, true);
            if (!m) return NULL;
        }
        x = turn(&g->f, x, d, back && m ? gd_transpose(m, 1, 2) : m);
    }
    return x;
}

static gd_tensor *into_basis(void *user, gd_tensor *stack, const int *entry, int entries)
{
    group g = group_of(user, entry, entries);
    return times_all(&g, stack, basis_name, false);
}

static gd_tensor *out_of_basis(void *user, gd_tensor *stack, const int *entry, int entries)
{
    group g = group_of(user, entry, entries);
    return times_all(&g, stack, basis_name, true);
}

/* ---- factors ---- */

/* Rows of tensors with axis d first, as matrices; no element moves where d is the first or the last. */
static gd_tensor *along(const folding *f, gd_tensor *x, int d)
{
    int64_t k = gd_size(x, 0), before = 1, n = f->size[d];
    for (int i = 0; i < d; i++) before *= f->size[i];
    int64_t after = gd_numel(x) / k / n / before;
    if (after == 1) return gd_transpose(gd_reshape(x, 3, (int64_t[]){k, before, n}), 1, 2);
    if (before > 1) x = gd_permute(gd_reshape(x, 4, (int64_t[]){k, before, n, after}), (int[]){0, 2, 1, 3});
    return gd_reshape(x, 3, (int64_t[]){k, n, before * after});
}

/* The point between a and b at that fraction. */
static gd_tensor *mean_of(gd_tensor *a, gd_tensor *b, double share)
{
    if (!a || gd_numel(a) == 0) return a;
    gd_tensor *one = gd_index(gd_reshape(a, 1, (int64_t[]){gd_numel(a)}), "0", 0);
    return gd_lerp(a, b, gd_full_like(one, share));
}

/* The next average or sum; where that is not finite, looking along the axes, the old value. */
static gd_tensor *gathered(const group *g, const char *beta_name, gd_tensor *old, gd_tensor *more,
                           const char *axes)
{
    double beta = setting(g, beta_name);
    double decay = gd_link_has_field(g->t->link, "decay") ? setting(g, "decay") : NAN;
    gd_tensor *next = isnan(decay) ? old : gd_mul_scalar(old, decay);
    next = isnan(beta) ? gd_add(next, more) : mean_of(next, more, 1 - beta);
    return next ? gd_where(gd_all(gd_isfinite(next), axes, axes != NULL), next, old) : NULL;
}

static gd_tensor *identity(void *user, gd_tensor *param)
{
    gd_tensor *like = user;
    (void)param;
    int64_t n = gd_size(like, 1);
    return gd_to_device(gd_eye(gd_tensor_ctx(like), gd_tensor_dtype(like), n, n), gd_tensor_device(like));
}

/* Shampoo's factors start as the identity, soap's as zeros. */
static gd_status gather_factor(const group *g, int d, gd_tensor *x)
{
    bool shampoo = !gd_link_has_field(g->t->link, "shampoo_beta");
    gd_tensor *m = along(&g->f, x, d), *more = m ? gd_matmul_fast(m, gd_transpose(m, 1, 2)) : NULL;
    if (!more) return gd_error(gd_link_ctx(g->t->link));
    gd_init init = {.kind = shampoo ? GD_INIT_FUNCTION : GD_INIT_ZEROS,
                    .tensor = gd_index(more, "0", 0),
                    .make = identity,
                    .user = more};
    gd_tensor *old = stacked_state(g, factor_name[d], init, true);
    gd_tensor *next = old ? gathered(g, shampoo ? "beta" : "shampoo_beta", old, more, "1, 2") : NULL;
    return next ? keep_stacked(g, factor_name[d], next) : gd_error(gd_link_ctx(g->t->link));
}

static gd_tensor *gather_group(void *user, gd_tensor *stack, const int *entry, int entries)
{
    group g = group_of(user, entry, entries);
    for (int d = 0; d < g.f.ndim; d++)
        if (g.f.factor[d] && gather_factor(&g, d, stack)) return NULL;
    return stack;
}

/* Tensors as stacks of one: all, or those that have factors. */
static gd_tensor **fold_all(const gd_transform *t, bool all)
{
    gd_tensor **x = gd_link_scratch(t->link, t->count);
    for (int i = 0; i < t->count && x; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        if ((all || f.any) && !(x[i] = folded(&f, t->tensors[i]))) return NULL;
    }
    return x;
}

/* Adds the products of all tensors to their factors.  stack: an entry for each axis of each tensor, left as the factors as
 * stacks of one. */
static gd_status gather_all(const gd_transform *t, gd_tensor **stack)
{
    gd_tensor **x = fold_all(t, false);
    gd_status status = x ? map_folded(t, x, gather_group) : gd_error(gd_link_ctx(t->link));
    for (int k = 0; k < t->count * GD_MAX_DIMS && !status; k++) {
        int i = k / GD_MAX_DIMS, d = k % GD_MAX_DIMS;
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        if (d >= f.ndim || !f.factor[d]) continue;
        stack[k] = gd_unsqueeze(gd_link_state(t->link, t->keys[i], factor_name[d]), 0, NULL);
        if (!stack[k]) status = gd_error(gd_link_ctx(t->link));
    }
    return status;
}

/* ---- shampoo ---- */

#define FOLDING_FIELDS(most)                                                                              \
    GD_FLAG("merge_small", true, "merge short axes while the product of their sizes is at most max_dim"), \
        GD_INT("max_dim", most, 1, 46340, "longer axes have no factor"),                                  \
        GD_FLAG("precondition_1d", true, "vectors have a factor too")

static const gd_field shampoo_fields[] = {
    GD_REAL_OR_NONE("decay", 0, 1, "factors are multiplied by it before products are added"),
    GD_REAL_OR_NONE("beta", 0, 1, "decay of the moving average of products; none: their sum"),
    GD_REAL("reg", 1e-12, 0, INFINITY, "added to the eigenvalues of the factors"),
    GD_INT("update_freq", 10, 1, 1e9, "steps between factorisations"),
    GD_REAL_OR_OFF("exp_override", 2, 1e-3, 1e3,
                   "factors to the power -1 / this; none: twice the number of axes"),
    FOLDING_FIELDS(2000),
    GD_REAL("adagrad_eps", 1e-8, 0, INFINITY, "added to the root where there is no factor"),
    GD_INNER("acts on the update before the factors do"),
};
static const gd_slot shampoo_slots[] = {{"squares", 0}, GD_AXIS_SLOTS("factor"), GD_AXIS_SLOTS("basis")};
static const char *const shampoo_scalars[] = {"step"};

/* Factors are processed together whatever the shapes of their tensors: the first with the same power and regularisation. */
static double root_of(const gd_transform *t, int i)
{
    double root = gd_link_real(t->link, "exp_override", t->keys[i]);
    return isnan(root) ? 2 * fold(t->link, t->tensors[i], t->keys[i]).ndim : root;
}

static int root_alike(void *user, int index)
{
    const gd_transform *t = user;
    int i = index / GD_MAX_DIMS, k = 0;
    double reg = gd_link_real(t->link, "reg", t->keys[i]);
    while (k < i && (root_of(t, k) != root_of(t, i) || gd_link_real(t->link, "reg", t->keys[k]) != reg)) k++;
    return k;
}

static gd_tensor *inverse_roots(void *user, gd_tensor *stack, const int *entry, int entries)
{
    const gd_transform *t = user;
    int i = entry[0] / GD_MAX_DIMS;
    (void)entries;
    return gd_matrix_power(stack, gd_link_real(t->link, "reg", t->keys[i]), -1 / root_of(t, i));
}

/* Keeps only the due factors in the stack. */
static gd_status take_due(const gd_transform *t, gd_tensor **stack)
{
    for (int i = 0; i < t->count; i++) {
        double *step = gd_link_scalar(t->link, t->keys[i], "step");
        if (!step) return gd_error(gd_link_ctx(t->link));
        bool due = fmod(*step, gd_link_real(t->link, "update_freq", t->keys[i])) == 0;
        for (int d = 0; d < GD_MAX_DIMS && !due; d++) stack[i * GD_MAX_DIMS + d] = NULL;
    }
    return GD_OK;
}

static gd_status add_squares(const gd_transform *t, int i)
{
    gd_tensor *x = gd_cast(t->tensors[i], dtype_of(t->tensors[i])), *more = x ? gd_square(x) : NULL;
    if (!more) return gd_error(gd_link_ctx(t->link));
    group g = group_of(t, &i, 1);
    gd_init zeros = {.kind = GD_INIT_ZEROS, .tensor = more};
    gd_tensor *old = gd_link_state_from(t->link, t->keys[i], "squares", zeros);
    gd_tensor *next = old ? gathered(&g, "beta", old, more, NULL) : NULL;
    return next ? gd_assign(old, next) : gd_error(gd_link_ctx(t->link));
}

static gd_status shampoo_update(const gd_transform *t)
{
    gd_tensor **stack = gd_link_scratch(t->link, t->count * GD_MAX_DIMS);
    gd_status status = stack ? gather_all(t, stack) : gd_error(gd_link_ctx(t->link));
    if (!status) status = take_due(t, stack);
    if (!status) status = gd_map_stacked(stack, t->count * GD_MAX_DIMS, root_alike, inverse_roots, (void *)t);
    for (int k = 0; k < t->count * GD_MAX_DIMS && !status; k++)
        if (stack[k])
            status = gd_link_set_state(t->link, t->keys[k / GD_MAX_DIMS], basis_name[k % GD_MAX_DIMS],
                                       gd_squeeze(stack[k], "0"));
    for (int i = 0; i < t->count && !status; i++)
        if (!fold(t->link, t->tensors[i], t->keys[i]).any) status = add_squares(t, i);
    /* a failed step does not count: its due work is due again */
    for (int i = 0; i < t->count && !status; i++) *gd_link_scalar(t->link, t->keys[i], "step") += 1;
    return status;
}

static gd_status scale_like_adagrad(const gd_transform *t, int i)
{
    gd_tensor *squares = gd_link_state(t->link, t->keys[i], "squares");
    double eps = gd_link_real(t->link, "adagrad_eps", t->keys[i]);
    gd_tensor *u = gd_cast(t->tensors[i], dtype_of(t->tensors[i]));
    u = gd_div(u, gd_add_scalar(gd_sqrt(squares), eps));
    return hand_on(t, i, u);
}

static gd_status shampoo_apply(const gd_transform *t)
{
    gd_tensor **x = fold_all(t, false);
    gd_status status = x ? map_folded(t, x, into_basis) : gd_error(gd_link_ctx(t->link));
    for (int i = 0; i < t->count && !status; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        status = f.any ? hand_on(t, i, unfolded(&f, x[i], t->tensors[i])) : scale_like_adagrad(t, i);
    }
    return status;
}

/* Two matrices for each factor; `more` tensors like the parameter beside them, or without factors `plain`. */
static int64_t kronecker_bytes(const gd_link *link, gd_tensor *const *params, int count, int more, int plain)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        folding f = fold(link, params[i], params[i]);
        int64_t item = dtype_of(params[i]) == GD_F64 ? 8 : 4;
        bytes += item * gd_numel(params[i]) * (f.any ? more : plain);
        for (int d = 0; d < f.ndim; d++) bytes += f.factor[d] ? 2 * item * f.size[d] * f.size[d] : 0;
    }
    return bytes;
}

static int64_t shampoo_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return kronecker_bytes(link, params, count, 0, 1);
}

GD_LINK(adaptive, shampoo,
    .summary = "a matrix for each axis of a tensor, from products of gradients",
    .formula =
        "L_d += G_d G_d^T for each axis d, L_d = 1 at first;  u times (L_d + reg)^(-1/exp_override) along each",
    .paper = "Gupta, Koren & Singer, Shampoo: preconditioned stochastic tensor optimization, ICML 2018",
    .cost =
        "products of 2 n d flops for each axis d twice, d^3 every update_freq steps; two d x d matrices for each",
    .example = "shampoo(beta=0.95) | lr(0.01)",
    GD_FIELDS(shampoo_fields),
    GD_SLOTS(shampoo_slots),
    GD_SCALARS(shampoo_scalars),
    .update_tensors = shampoo_update,
    .apply_tensors = shampoo_apply,
    .traits.reads_only = true,
    .state_bytes = shampoo_bytes,
    .spread = GD_SPREAD_TENSOR,
    .traits.updates_always = true);

/* ---- soap ---- */

static const gd_field soap_fields[] = {
    GD_REAL("beta1", 0.95, 0, 1, "decay of the first moment"),
    GD_REAL("beta2", 0.95, 0, 1, "decay of the second moment"),
    GD_REAL_OR_OFF("shampoo_beta", 0.95, 0, 1, "decay of the moving average of products; none: their sum"),
    GD_INT("precond_freq", 10, 1, 1e9, "steps between renewals of the bases"),
    FOLDING_FIELDS(2000),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the root of the second moment"),
    GD_REAL_OR_NONE("decay", 0, 1, "factors are multiplied by it before products are added"),
    GD_REAL("alpha", 1, -INFINITY, INFINITY, "times it"),
    GD_FLAG("bias_correction", true, "as Adam's"),
};
static const gd_slot soap_slots[] = {
    {"exp_avg", 0}, {"exp_avg_sq", GD_SLOT_SQUARE}, GD_AXIS_SLOTS("factor"), GD_AXIS_SLOTS("basis")};
static const char *const soap_scalars[] = {"step"};

static double soap_scale(const group *g, double step)
{
    double alpha = setting(g, "alpha");
    if (setting(g, "bias_correction") == 0) return alpha;
    double one = 1 - pow(setting(g, "beta1"), step), two = 1 - pow(setting(g, "beta2"), step);
    return alpha * sqrt(two) / one;
}

/* Adam in the basis of the factors, where both moments live: updates tensors x and their moments. */
static gd_tensor *adam_in_basis(const group *g, gd_tensor *x, double step)
{
    gd_tensor *one = gd_reshape(gd_index(x, "0", 0), g->f.ndim, g->f.size);
    gd_init zeros = {.kind = GD_INIT_ZEROS, .tensor = one};
    gd_tensor *m = one ? stacked_state(g, "exp_avg", zeros, false) : NULL;
    gd_tensor *v = one ? stacked_state(g, "exp_avg_sq", zeros, false) : NULL;
    gd_tensor *turned = times_all(g, x, basis_name, false);
    if (!m || !v || !turned) return NULL;
    gd_tensor *next_m = mean_of(m, turned, 1 - setting(g, "beta1")),
              *next_v = mean_of(v, gd_square(turned), 1 - setting(g, "beta2"));
    gd_tensor *sure = next_v ? gd_all(gd_isfinite(next_v), "1", true) : NULL;
    if (!sure || keep_stacked(g, "exp_avg", gd_where(sure, next_m, m)) ||
        keep_stacked(g, "exp_avg_sq", gd_where(sure, next_v, v)))
        return NULL;
    gd_tensor *root = gd_add_scalar(gd_sqrt(next_v), setting(g, "eps"));
    gd_tensor *u = gd_div(next_m, root);
    return gd_mul_scalar(times_all(g, u, basis_name, true), soap_scale(g, step));
}

/* [n] -> [n, n]: column r is the unit vector of the r-th largest, equal ones in their order. */
static gd_tensor *descending(gd_tensor *x)
{
    int64_t n = gd_numel(x);
    gd_dtype dtype = gd_tensor_dtype(x);
    gd_tensor *row = gd_reshape(x, 2, (int64_t[]){1, n}), *column = gd_reshape(x, 2, (int64_t[]){n, 1});
    gd_tensor *earlier = gd_triu(gd_ones_like(gd_mul(column, row)), 1);
    gd_tensor *before = gd_add(gd_cast(gd_gt(column, row), dtype),
                               gd_mul(gd_cast(gd_eq(column, row), dtype), earlier));
    gd_tensor *places = gd_to_device(gd_arange(gd_tensor_ctx(x), dtype, 0, (double)n, 1),
                                     gd_tensor_device(x));
    return gd_cast(gd_eq(gd_reshape(gd_sum(before, "0", false), 2, (int64_t[]){n, 1}), places), dtype);
}

/* Slots of links below that are squares, or those that are not, with every axis times its matrix. */
static gd_status turn_below(const gd_transform *t, int i, const folding *f, gd_link *below,
                            gd_tensor *const *m, bool squares)
{
    const gd_link_class *cls = gd_link_class_of(below);
    gd_status status = GD_OK;
    for (int k = 0; k < cls->slot_count && !status; k++) {
        bool square = cls->slots[k].flags & GD_SLOT_SQUARE;
        gd_tensor *x = square == squares ? gd_transform_below(t, below, cls->slots[k].name, i) : NULL;
        if (!x) continue;
        x = folded(f, x);
        for (int d = 0; d < f->ndim && x; d++) x = turn(f, x, d, m[d]);
        x = x ? unfolded(f, x, t->tensors[i]) : NULL;
        status = x ? gd_transform_set_below(t, below, cls->slots[k].name, i, x)
                   : gd_error(gd_link_ctx(below));
    }
    for (int k = 0; k < gd_link_children(below) && !status; k++)
        status = turn_below(t, i, f, gd_link_child_at(below, k), m, squares);
    return status ? status : gd_error(gd_link_ctx(below));
}

/* A moment of soap itself with every axis times its matrix. */
static gd_status turn_moment(const gd_transform *t, int i, const folding *f, const char *slot,
                             gd_tensor *const *m)
{
    gd_tensor *kept = gd_link_state(t->link, t->keys[i], slot), *x = kept ? row_of(kept) : NULL;
    for (int d = 0; d < f->ndim && x; d++) x = turn(f, x, d, m[d]);
    return x ? gd_assign(kept, gd_reshape(x, gd_ndim(kept), gd_shape(kept))) : gd_error(gd_link_ctx(t->link));
}

/* Second moments, soap's own or those of a chain, in the new order of the basis vectors. */
static gd_status follow_order(const gd_transform *t, int i, const folding *f, gd_tensor *const *order)
{
    gd_link *chain = gd_link_child(t->link, "basis_opt");
    if (chain) return turn_below(t, i, f, chain, order, true);
    return turn_moment(t, i, f, "exp_avg_sq", order);
}

/* One step of the power method from the bases of a tensor, their vectors ordered by their weight in the factors; second moments follow
 * that order. */
static gd_status power_step(const gd_transform *t, int i, const folding *f, gd_tensor **stack)
{
    gd_tensor *order[GD_MAX_DIMS] = {NULL};
    for (int d = 0; d < f->ndim; d++) {
        if (!f->factor[d]) continue;
        gd_tensor *basis = gd_link_state(t->link, t->keys[i], basis_name[d]);
        gd_tensor *product = gd_matmul(gd_squeeze(stack[d], "0"), basis);
        order[d] = product ? gd_unsqueeze(descending(gd_sum(gd_mul(basis, product), "0", false)), 0, NULL)
                           : NULL;
        stack[d] = order[d] ? gd_matmul(gd_unsqueeze(product, 0, NULL), order[d]) : NULL;
        if (!stack[d]) return gd_error(gd_link_ctx(t->link));
    }
    return follow_order(t, i, f, order);
}

/* First moments, soap's own or those of a chain, from the current bases to those in stack. */
static gd_status follow_bases(const gd_transform *t, int i, gd_tensor *const *stack)
{
    gd_link *chain = gd_link_child(t->link, "basis_opt");
    folding f = fold(t->link, t->tensors[i], t->keys[i]);
    gd_tensor *between[GD_MAX_DIMS] = {NULL};
    bool any = false;
    for (int d = 0; d < f.ndim; d++) {
        if (!stack[d]) continue;
        any = true;
        gd_tensor *old = gd_unsqueeze(gd_link_state(t->link, t->keys[i], basis_name[d]), 0, NULL);
        between[d] = gd_matmul(gd_transpose(old, 1, 2), stack[d]);
        if (!between[d]) return gd_error(gd_link_ctx(t->link));
    }
    if (!any) return GD_OK;
    return chain ? turn_below(t, i, &f, chain, between, false) : turn_moment(t, i, &f, "exp_avg", between);
}

static gd_tensor *eigenvectors(void *user, gd_tensor *stack, const int *entry, int entries)
{
    (void)user, (void)entry, (void)entries;
    gd_tensor *values = NULL, *vectors = NULL;
    return gd_finite_eigh(stack, &values, &vectors) ? NULL : gd_flip(vectors, "2");
}

static gd_tensor *orthonormal(void *user, gd_tensor *stack, const int *entry, int entries)
{
    (void)user, (void)entry, (void)entries;
    gd_tensor *q = NULL, *r = NULL;
    return gd_qr(stack, &q, &r) ? NULL : q;
}

/* New bases, from the factors in stack, for tensors at their first step and for due ones. */
static gd_status renew_bases(const gd_transform *t, gd_tensor *const *factor, bool begin, gd_tensor **stack)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++) {
        double *step = gd_link_scalar(t->link, t->keys[i], "step");
        if (!step) return gd_error(gd_link_ctx(t->link));
        bool due = fmod(*step, gd_link_real(t->link, "precond_freq", t->keys[i])) == 0;
        bool takes = begin ? *step == 0 : *step > 0 && due;
        for (int d = 0; d < GD_MAX_DIMS; d++)
            stack[i * GD_MAX_DIMS + d] = takes ? factor[i * GD_MAX_DIMS + d] : NULL;
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        if (takes && !begin && f.any) status = power_step(t, i, &f, stack + (ptrdiff_t)i * GD_MAX_DIMS);
    }
    int entries = t->count * GD_MAX_DIMS;
    if (!status) status = gd_map_stacked(stack, entries, NULL, begin ? eigenvectors : orthonormal, NULL);
    for (int i = 0; i < t->count && !begin && !status; i++)
        status = follow_bases(t, i, stack + (ptrdiff_t)i * GD_MAX_DIMS);
    for (int k = 0; k < entries && !status; k++)
        if (stack[k])
            status = gd_link_set_state(t->link, t->keys[k / GD_MAX_DIMS], basis_name[k % GD_MAX_DIMS],
                                       gd_squeeze(stack[k], "0"));
    return status;
}

/* The first step only fills the factors: its update is the gradient, bounded. */
static gd_tensor *soap_updates(void *user, gd_tensor *stack, const int *entry, int entries)
{
    group g = group_of(user, entry, entries);
    double *step = gd_link_scalar(g.t->link, key_of(&g, 0), "step");
    if (!step) return NULL;
    return *step > 0 ? adam_in_basis(&g, stack, *step) : gd_clamp(stack, -0.1, 0.1);
}

/* After the updates were made in the old bases, which do not include this gradient: renews factors and bases, writes the updates
 * into the tensors. */
static gd_status finish_step(const gd_transform *t, gd_tensor *const *update)
{
    int entries = t->count * GD_MAX_DIMS;
    gd_tensor **room = gd_link_scratch(t->link, 2 * entries);
    gd_status status = room ? gather_all(t, room) : gd_error(gd_link_ctx(t->link));
    if (!status) status = renew_bases(t, room, true, room + entries);
    if (!status) status = renew_bases(t, room, false, room + entries);
    for (int i = 0; i < t->count && !status; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        status = hand_on(t, i, unfolded(&f, update[i], t->tensors[i]));
        *gd_link_scalar(t->link, t->keys[i], "step") += 1;
    }
    return status;
}

static gd_status soap_apply(const gd_transform *t)
{
    gd_tensor **update = fold_all(t, true);
    gd_status status = update ? map_folded(t, update, soap_updates) : gd_error(gd_link_ctx(t->link));
    return status ? status : finish_step(t, update);
}

static int64_t soap_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return kronecker_bytes(link, params, count, 2, 2);
}

GD_LINK(adaptive, soap,
    .summary = "Adam in the eigenvectors of Shampoo's factors",
    .formula =
        "L_d = shampoo_beta L_d + (1 - shampoo_beta) G_d G_d^T, Q_d its eigenvectors;  adam of u turned by Q_d, turned back; "
        "first step: clamp(u, -0.1, 0.1)",
    .paper = "Vyas et al., SOAP: improving and stabilizing Shampoo using Adam, ICLR 2025",
    .cost =
        "products of 2 n d flops for each axis d four times, a QR of d^3 every precond_freq steps; two d x d matrices for "
        "each",
    .example = "soap | lr(0.003)",
    GD_FIELDS(soap_fields),
    GD_SLOTS(soap_slots),
    GD_SCALARS(soap_scalars),
    .apply_tensors = soap_apply,
    .traits.reads_only = true,
    .state_bytes = soap_bytes,
    .spread = GD_SPREAD_TENSOR);

/* ---- soap_basis ---- */

static const gd_field basis_fields[] = {
    GD_CHILD_NEEDED("basis_opt", "runs on the turned update; its state follows the basis"),
    GD_REAL("shampoo_beta", 0.95, 0, 1, "decay of the factors"),
    GD_INT("precond_freq", 10, 1, 1e9, "steps between new bases"),
    FOLDING_FIELDS(4096),
    GD_INNER("acts on the update first: the factors are of what it gives"),
};
static const gd_slot basis_slots[] = {GD_AXIS_SLOTS("factor"), GD_AXIS_SLOTS("basis")};

/* Which tensors have a basis and squares that are finite: those that the chain may see. */
static gd_status choose(const gd_transform *t, gd_tensor **turned)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor **flag = gd_link_scratch(t->link, t->count);
    int n = 0;
    for (int i = 0; i < t->count && flag; i++)
        if (turned[i] && !(flag[n++] = gd_all(gd_isfinite(gd_square(turned[i])), NULL, false)))
            return gd_error(ctx);
    /* the host waits for one number, unless something is wrong */
    gd_tensor *all = n ? gd_all(gd_stack(flag, n, 0, NULL), NULL, false) : NULL;
    if (!flag || (n && !all)) return gd_error(ctx);
    if (!n || gd_item(all) != 0) return gd_error(ctx);
    for (int i = 0; i < t->count; i++)
        if (turned[i] && !gd_vector_finite(gd_square(turned[i]))) turned[i] = NULL;
    return gd_error(ctx);
}

/* The first step only fills the factors, as in soap; what is not finite is passed on. */
static gd_status soap_basis_apply(const gd_transform *t)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor **update = fold_all(t, true), **turned = update ? gd_link_scratch(t->link, t->count) : NULL;
    for (int i = 0; i < t->count && turned; i++) {
        double *step = gd_link_scalar(t->link, t->keys[i], "step");
        if (step && *step == 0 && !(update[i] = gd_clamp(update[i], -0.1, 0.1))) return gd_error(ctx);
        if (!step) return gd_error(ctx);
        if (*step > 0 && gd_numel(update[i])) turned[i] = update[i];
    }
    gd_status status = turned ? map_folded(t, turned, into_basis) : gd_error(ctx);
    for (int i = 0; i < t->count && !status; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        if (turned[i] && !(turned[i] = unfolded(&f, turned[i], t->tensors[i]))) status = gd_error(ctx);
    }
    if (!status) status = choose(t, turned);
    if (!status) status = gd_transform_child(t, "basis_opt", turned);
    for (int i = 0; i < t->count && !status; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        if (turned[i] && !(turned[i] = folded(&f, turned[i]))) status = gd_error(ctx);
    }
    if (!status) status = map_folded(t, turned, out_of_basis);
    for (int i = 0; i < t->count && !status; i++)
        if (turned[i]) update[i] = turned[i];
    return status ? status : finish_step(t, update);
}

static int64_t soap_basis_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return kronecker_bytes(link, params, count, 0, 0);
}

GD_LINK(adaptive, soap_basis,
    .summary = "runs a chain in the eigenvectors of Shampoo's factors",
    .formula =
        "L_d = shampoo_beta L_d + (1 - shampoo_beta) G_d G_d^T, Q_d its eigenvectors;  basis_opt of u turned by Q_d, turned "
        "back; first step: clamp(u, -0.1, 0.1)",
    .paper = "Vyas et al., SOAP: improving and stabilizing Shampoo using Adam, ICLR 2025",
    .cost =
        "products of 2 n d flops for each axis d three times, a QR of d^3 every precond_freq steps; two d x d matrices for "
        "each",
    .example = "soap_basis(adam(0.95, 0.95)) | lr(0.003)",
    GD_FIELDS(basis_fields),
    GD_SLOTS(basis_slots),
    GD_SCALARS(soap_scalars),
    .apply_tensors = soap_basis_apply,
    .traits.reads_only = true,
    .state_bytes = soap_basis_bytes,
    .spread = GD_SPREAD_WHOLE);
