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
 * Factors of one size are multiplied and factored together.  Factors that are not finite any more, because the gradient was
 * not or its products overflow, are not taken: the state is as before that step, and the update is handed on as it comes. */
#include "gradus/link.h"
#include "gradus/matrices.h"

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

/* Shortest first, as they stand where they are equal. */
static void order_axes(folding *f, const gd_tensor *x)
{
    for (int i = 0; i < f->axes; i++) {
        int at = i;
        for (; at > 0 && gd_size(x, f->order[at - 1]) > gd_size(x, i); at--) f->order[at] = f->order[at - 1];
        f->order[at] = i;
    }
}

static folding fold(const gd_link *link, const gd_tensor *x, const gd_tensor *key)
{
    folding f = {.axes = gd_ndim(x)};
    double most = gd_link_real(link, "max_dim", key);
    bool merge = flag_of(link, "merge_small", key);
    for (int i = 0; i < f.axes; i++) f.order[i] = i;
    if (merge) order_axes(&f, x);
    bool open = merge; /* the first axis still takes others */
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

static gd_tensor *folded(const folding *f, gd_tensor *x)
{
    return gd_cast(gd_reshape(gd_permute(gd_drop_names(x), f->order), f->ndim, f->size), dtype_of(x));
}

/* In the shape that it came from. */
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

static gd_status unfold(const folding *f, gd_tensor *u, gd_tensor *into)
{
    u = unfolded(f, u, into);
    return u ? gd_assign(into, u) : gd_error(gd_tensor_ctx(into));
}

/* Axis 0 of x [a, b, c] times m (NULL: as it is) and moved to the end: [b, c, a]. */
static gd_tensor *turn(const folding *f, gd_tensor *x, int first, gd_tensor *m)
{
    int64_t size[GD_MAX_DIMS], rows = f->size[first];
    for (int i = 0; i < f->ndim; i++) size[i] = f->size[(first + 1 + i) % f->ndim];
    gd_tensor *flat = gd_transpose(gd_reshape(x, 2, (int64_t[]){rows, gd_numel(x) / rows}), 0, 1);
    return gd_reshape(m ? gd_matmul(flat, m) : flat, f->ndim, size);
}

/* Every axis times the state of that name, where there is one; back: times its transpose. */
static gd_tensor *times_all(const gd_transform *t, int i, const folding *f, gd_tensor *x,
                            const char *const *name, bool back)
{
    for (int d = 0; d < f->ndim && x && f->any; d++) {
        gd_tensor *m = NULL;
        if (f->factor[d] && gd_link_has_state(t->link, t->keys[i], name[d]))
            m = gd_link_state(t->link, t->keys[i], name[d]);
        x = turn(f, x, d, back && m ? gd_transpose(m, 0, 1) : m);
    }
    return x;
}

/* ---- factors ---- */

/* x with axis d first, as a stack of one matrix. */
static gd_tensor *along(const folding *f, gd_tensor *x, int d)
{
    int order[GD_MAX_DIMS];
    for (int i = 0; i < f->ndim; i++) order[i] = i == 0 ? d : i <= d ? i - 1 : i;
    return gd_reshape(gd_permute(x, order), 3, (int64_t[]){1, f->size[d], gd_numel(x) / f->size[d]});
}

static gd_tensor *gram(void *user, gd_tensor *stack, int kind)
{
    (void)user, (void)kind;
    return gd_matmul(stack, gd_transpose(stack, 1, 2));
}

/* What an average or sum becomes; where that is not finite it stays. */
static gd_tensor *gathered(const gd_link *link, const gd_tensor *key, const char *beta_name, gd_tensor *old,
                           gd_tensor *more)
{
    double beta = gd_link_real(link, beta_name, key);
    double decay = gd_link_has_field(link, "decay") ? gd_link_real(link, "decay", key) : NAN;
    gd_tensor *next = isnan(decay) ? old : gd_mul_scalar(old, decay);
    next = isnan(beta) ? gd_add(next, more)
                       : gd_add(gd_mul_scalar(next, beta), gd_mul_scalar(more, 1 - beta));
    return next ? gd_where(gd_all(gd_isfinite(next), NULL, false), next, old) : NULL;
}

static gd_tensor *identity(void *user, gd_tensor *param)
{
    gd_tensor *like = user;
    (void)param;
    int64_t n = gd_size(like, 0);
    return gd_to_device(gd_eye(gd_tensor_ctx(like), gd_tensor_dtype(like), n, n), gd_tensor_device(like));
}

static gd_status gather_into(const gd_transform *t, int i, const char *slot, const char *beta,
                             gd_tensor *more, bool one)
{
    gd_init init = {
        .kind = one ? GD_INIT_FUNCTION : GD_INIT_ZEROS, .tensor = more, .make = identity, .user = more};
    gd_tensor *old = gd_link_state_from(t->link, t->keys[i], slot, init);
    gd_tensor *next = old ? gathered(t->link, t->keys[i], beta, old, more) : NULL;
    return next ? gd_assign(old, next) : gd_error(gd_link_ctx(t->link));
}

/* Adds the products of all tensors to their factors, which begin as the identity (one) or as zeros.  stack: an entry for each
 * axis of each tensor, left as the factors as stacks of one. */
static gd_status gather_all(const gd_transform *t, gd_tensor **stack, const char *beta, bool one)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    for (int i = 0; i < t->count; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        gd_tensor *x = f.any ? folded(&f, t->tensors[i]) : NULL;
        for (int d = 0; d < f.ndim; d++)
            if (f.factor[d] && !(stack[i * GD_MAX_DIMS + d] = along(&f, x, d))) return gd_error(ctx);
    }
    gd_status status = gd_map_stacked(stack, t->count * GD_MAX_DIMS, NULL, gram, NULL);
    for (int k = 0; k < t->count * GD_MAX_DIMS && !status; k++) {
        if (!stack[k]) continue;
        const char *slot = factor_name[k % GD_MAX_DIMS];
        gd_tensor *more = gd_squeeze(stack[k], "0");
        status = more ? gather_into(t, k / GD_MAX_DIMS, slot, beta, more, one) : gd_error(ctx);
        gd_tensor *factor = status ? NULL : gd_link_state(t->link, t->keys[k / GD_MAX_DIMS], slot);
        stack[k] = gd_unsqueeze(factor, 0, NULL);
        if (!status && !stack[k]) status = gd_error(ctx);
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
    {.name = "exp_override",
     .kinds = GD_SET_REAL | GD_SET_NONE,
     .fallback = {.kind = GD_SET_REAL, .real = 2},
     .low = 1e-3,
     .high = 1e3,
     .help = "factors to the power -1 / this; none: twice the number of axes"},
    FOLDING_FIELDS(2000),
    GD_REAL("adagrad_eps", 1e-8, 0, INFINITY, "added to the root where there is no factor"),
    GD_INNER("acts on the update before the factors do"),
};
static const gd_slot shampoo_slots[] = {{"squares", 0}, GD_AXIS_SLOTS("factor"), GD_AXIS_SLOTS("basis")};
static const char *const shampoo_scalars[] = {"step"};

/* The power of the factors of a tensor. */
static double exponent_of(const gd_transform *t, int i)
{
    double root = gd_link_real(t->link, "exp_override", t->keys[i]);
    return -1 / (isnan(root) ? 2 * fold(t->link, t->tensors[i], t->keys[i]).ndim : root);
}

/* The first tensor with the same power and regularisation: those go together. */
static int first_alike(void *user, int index)
{
    const gd_transform *t = user;
    int i = index / GD_MAX_DIMS, k = 0;
    double exponent = exponent_of(t, i), reg = gd_link_real(t->link, "reg", t->keys[i]);
    while (k < i && (exponent_of(t, k) != exponent || gd_link_real(t->link, "reg", t->keys[k]) != reg)) k++;
    return k;
}

static gd_tensor *inverse_roots(void *user, gd_tensor *stack, int kind)
{
    const gd_transform *t = user;
    return gd_matrix_power(stack, gd_link_real(t->link, "reg", t->keys[kind]), exponent_of(t, kind));
}

/* Leaves the factors in the stack that are due. */
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
    gd_tensor *g = gd_cast(t->tensors[i], dtype_of(t->tensors[i])), *more = g ? gd_square(g) : NULL;
    return more ? gather_into(t, i, "squares", "beta", more, false) : gd_error(gd_link_ctx(t->link));
}

static gd_status shampoo_update(const gd_transform *t)
{
    gd_tensor **stack = gd_link_scratch(t->link, t->count * GD_MAX_DIMS);
    gd_status status = stack ? gather_all(t, stack, "beta", true) : gd_error(gd_link_ctx(t->link));
    if (!status) status = take_due(t, stack);
    if (!status)
        status = gd_map_stacked(stack, t->count * GD_MAX_DIMS, first_alike, inverse_roots, (void *)t);
    for (int k = 0; k < t->count * GD_MAX_DIMS && !status; k++)
        if (stack[k])
            status = gd_link_set_state(t->link, t->keys[k / GD_MAX_DIMS], basis_name[k % GD_MAX_DIMS],
                                       gd_squeeze(stack[k], "0"));
    for (int i = 0; i < t->count && !status; i++)
        if (!fold(t->link, t->tensors[i], t->keys[i]).any) status = add_squares(t, i);
    /* a step that failed is not counted: what was due then is due again */
    for (int i = 0; i < t->count && !status; i++) *gd_link_scalar(t->link, t->keys[i], "step") += 1;
    return status;
}

static gd_status scale_like_adagrad(const gd_transform *t, int i)
{
    gd_tensor *squares = gd_link_state(t->link, t->keys[i], "squares");
    double eps = gd_link_real(t->link, "adagrad_eps", t->keys[i]);
    gd_tensor *u = gd_cast(t->tensors[i], dtype_of(t->tensors[i]));
    u = gd_div(u, gd_add_scalar(gd_sqrt(squares), eps));
    return u ? gd_assign(t->tensors[i], u) : gd_error(gd_link_ctx(t->link));
}

static gd_status shampoo_apply(const gd_transform *t)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        if (!f.any) {
            status = scale_like_adagrad(t, i);
            continue;
        }
        gd_tensor *u = times_all(t, i, &f, folded(&f, t->tensors[i]), basis_name, false);
        status = u ? unfold(&f, u, t->tensors[i]) : gd_error(gd_link_ctx(t->link));
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

const gd_link_class gd_link_shampoo = {
    .name = "shampoo",
    .family = "adaptive",
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
    .state_bytes = shampoo_bytes,
    .spread = GD_SPREAD_TENSOR,
    .updates_always = true,
};

/* ---- soap ---- */

static const gd_field soap_fields[] = {
    GD_REAL("beta1", 0.95, 0, 1, "decay of the first moment"),
    GD_REAL("beta2", 0.95, 0, 1, "decay of the second moment"),
    {.name = "shampoo_beta",
     .kinds = GD_SET_REAL | GD_SET_NONE,
     .fallback = {.kind = GD_SET_REAL, .real = 0.95},
     .high = 1,
     .help = "decay of the moving average of products; none: their sum"},
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

static gd_tensor *averaged(const gd_transform *t, int i, const char *beta, gd_tensor *old, gd_tensor *x)
{
    double keep = gd_link_real(t->link, beta, t->keys[i]);
    return gd_add(gd_mul_scalar(old, keep), gd_mul_scalar(x, 1 - keep));
}

static double soap_scale(const gd_transform *t, int i, double step)
{
    double alpha = gd_link_real(t->link, "alpha", t->keys[i]);
    if (!flag_of(t->link, "bias_correction", t->keys[i])) return alpha;
    double one = 1 - pow(gd_link_real(t->link, "beta1", t->keys[i]), step);
    double two = 1 - pow(gd_link_real(t->link, "beta2", t->keys[i]), step);
    return alpha * sqrt(two) / one;
}

/* Adam in the basis of the factors: the update of x, and the moments after it. */
static gd_tensor *adam_in_basis(const gd_transform *t, int i, const folding *f, gd_tensor *x, double step)
{
    gd_init zeros = {.kind = GD_INIT_ZEROS, .tensor = x};
    gd_tensor *m = gd_link_state_from(t->link, t->keys[i], "exp_avg", zeros);
    gd_tensor *v = gd_link_state_from(t->link, t->keys[i], "exp_avg_sq", zeros);
    gd_tensor *turned = times_all(t, i, f, x, basis_name, false);
    if (!m || !v || !turned) return NULL;
    gd_tensor *next_m = averaged(t, i, "beta1", m, x),
              *next_v = averaged(t, i, "beta2", v, gd_square(turned));
    gd_tensor *sure = next_v ? gd_all(gd_isfinite(next_v), NULL, false) : NULL;
    if (!sure || gd_assign(m, gd_where(sure, next_m, m)) || gd_assign(v, gd_where(sure, next_v, v)))
        return NULL;
    gd_tensor *root = gd_add_scalar(gd_sqrt(next_v), gd_link_real(t->link, "eps", t->keys[i]));
    gd_tensor *u = gd_div(times_all(t, i, f, next_m, basis_name, false), root);
    return gd_mul_scalar(times_all(t, i, f, u, basis_name, true), soap_scale(t, i, step));
}

/* [n] -> [n, n]: column r is the unit vector of the r-th largest, equal ones as they stand. */
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

/* Second moments, soap's own or those of a chain, in the order that vectors of their bases come to have. */
static gd_status follow_order(const gd_transform *t, int i, const folding *f, gd_tensor *const *order)
{
    gd_link *chain = gd_link_child(t->link, "basis_opt");
    if (chain) return turn_below(t, i, f, chain, order, true);
    gd_tensor *v = gd_link_state(t->link, t->keys[i], "exp_avg_sq"), *moved = v;
    for (int d = 0; d < f->ndim && moved; d++) moved = turn(f, moved, d, order[d]);
    return moved ? gd_assign(v, moved) : gd_error(gd_link_ctx(t->link));
}

/* One step of the power method from the bases of a tensor, their vectors in the order of what they say of the factors, in which
 * second moments follow. */
static gd_status power_step(const gd_transform *t, int i, const folding *f, gd_tensor **stack)
{
    gd_tensor *order[GD_MAX_DIMS] = {NULL};
    for (int d = 0; d < f->ndim; d++) {
        if (!f->factor[d]) continue;
        gd_tensor *basis = gd_link_state(t->link, t->keys[i], basis_name[d]);
        gd_tensor *product = gd_matmul(gd_squeeze(stack[d], "0"), basis);
        order[d] = product ? descending(gd_sum(gd_mul(basis, product), "0", false)) : NULL;
        stack[d] = order[d] ? gd_unsqueeze(gd_matmul(product, order[d]), 0, NULL) : NULL;
        if (!stack[d]) return gd_error(gd_link_ctx(t->link));
    }
    return follow_order(t, i, f, order);
}

/* First moments of a chain from the bases that are there to those in stack. */
static gd_status follow_bases(const gd_transform *t, int i, gd_tensor *const *stack)
{
    gd_link *chain = gd_link_child(t->link, "basis_opt");
    folding f = fold(t->link, t->tensors[i], t->keys[i]);
    gd_tensor *between[GD_MAX_DIMS] = {NULL};
    for (int d = 0; d < f.ndim && chain; d++) {
        if (!stack[d]) continue;
        gd_tensor *old = gd_link_state(t->link, t->keys[i], basis_name[d]);
        between[d] = gd_matmul(gd_transpose(old, 0, 1), gd_squeeze(stack[d], "0"));
        if (!between[d]) return gd_error(gd_link_ctx(t->link));
    }
    return chain ? turn_below(t, i, &f, chain, between, false) : GD_OK;
}

static gd_tensor *eigenvectors(void *user, gd_tensor *stack, int kind)
{
    (void)user, (void)kind;
    gd_tensor *values = NULL, *vectors = NULL;
    return gd_finite_eigh(stack, &values, &vectors) ? NULL : gd_flip(vectors, "2");
}

static gd_tensor *orthonormal(void *user, gd_tensor *stack, int kind)
{
    (void)user, (void)kind;
    gd_tensor *q = NULL, *r = NULL;
    return gd_qr(stack, &q, &r) ? NULL : q;
}

/* Bases of the tensors that begin, or of those that are due, from the factors in stack. */
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
static gd_tensor *soap_update(const gd_transform *t, int i)
{
    double *step = gd_link_scalar(t->link, t->keys[i], "step");
    folding f = fold(t->link, t->tensors[i], t->keys[i]);
    gd_tensor *x = folded(&f, t->tensors[i]);
    if (!step || !x) return NULL;
    return *step > 0 ? adam_in_basis(t, i, &f, x, *step) : gd_clamp(x, -0.1, 0.1);
}

/* After the updates were made in the bases of before, which do not know this gradient: factors, bases, and the updates into
 * the tensors. */
static gd_status finish_step(const gd_transform *t, gd_tensor *const *update)
{
    int entries = t->count * GD_MAX_DIMS;
    gd_tensor **room = gd_link_scratch(t->link, 2 * entries);
    gd_status status = room ? gather_all(t, room, "shampoo_beta", false) : gd_error(gd_link_ctx(t->link));
    if (!status) status = renew_bases(t, room, true, room + entries);
    if (!status) status = renew_bases(t, room, false, room + entries);
    for (int i = 0; i < t->count && !status; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        status = unfold(&f, update[i], t->tensors[i]);
        *gd_link_scalar(t->link, t->keys[i], "step") += 1;
    }
    return status;
}

static gd_status soap_apply(const gd_transform *t)
{
    gd_tensor **update = gd_link_scratch(t->link, t->count);
    if (!update) return gd_error(gd_link_ctx(t->link));
    for (int i = 0; i < t->count; i++)
        if (!(update[i] = soap_update(t, i))) return gd_error(gd_link_ctx(t->link));
    return finish_step(t, update);
}

static int64_t soap_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return kronecker_bytes(link, params, count, 2, 2);
}

const gd_link_class gd_link_soap = {
    .name = "soap",
    .family = "adaptive",
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
    .state_bytes = soap_bytes,
    .spread = GD_SPREAD_TENSOR,
};

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
    /* one number to wait for, unless something is wrong */
    gd_tensor *all = n ? gd_all(gd_stack(flag, n, 0, NULL), NULL, false) : NULL;
    if (!flag || (n && !all)) return gd_error(ctx);
    if (!n || gd_item(all) != 0) return gd_error(ctx);
    for (int i = 0; i < t->count; i++)
        if (turned[i] && !gd_vector_finite(gd_square(turned[i]))) turned[i] = NULL;
    return gd_error(ctx);
}

/* The first step only fills the factors, as in soap; what is not finite is handed on. */
static gd_status soap_basis_apply(const gd_transform *t)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor **update = gd_link_scratch(t->link, 2 * t->count), **turned = update + t->count;
    for (int i = 0; i < t->count && update; i++) {
        double *step = gd_link_scalar(t->link, t->keys[i], "step");
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        gd_tensor *x = folded(&f, t->tensors[i]);
        update[i] = step && *step == 0 ? gd_clamp(x, -0.1, 0.1) : x;
        if (!step || !update[i]) return gd_error(ctx);
        if (*step == 0 || gd_numel(x) == 0) continue;
        if (!(turned[i] = unfolded(&f, times_all(t, i, &f, x, basis_name, false), t->tensors[i])))
            return gd_error(ctx);
    }
    gd_status status = update ? choose(t, turned) : gd_error(ctx);
    if (!status) status = gd_transform_child(t, "basis_opt", turned);
    for (int i = 0; i < t->count && !status; i++) {
        folding f = fold(t->link, t->tensors[i], t->keys[i]);
        if (turned[i]) update[i] = times_all(t, i, &f, folded(&f, turned[i]), basis_name, true);
        if (!update[i]) status = gd_error(ctx);
    }
    return status ? status : finish_step(t, update);
}

static int64_t soap_basis_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return kronecker_bytes(link, params, count, 0, 0);
}

const gd_link_class gd_link_soap_basis = {
    .name = "soap_basis",
    .family = "adaptive",
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
    .state_bytes = soap_basis_bytes,
    .spread = GD_SPREAD_TENSOR,
};
