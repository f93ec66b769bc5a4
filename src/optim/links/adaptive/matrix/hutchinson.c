/* Preconditioners from random products with the Hessian: z of mean 0 and unit covariance, so that
 *
 *     E z (H z) = diagonal of H  (Hutchinson 1989; Bekas et al. 2007),      E (H z)^2 = sums of squares of its rows.
 *
 *   adahessian   d = mean z (H z), z = +-1, averaged over blocks along axis 0; v = EMA(d^2), corrected by the number of its
 *                updates; m = EMA(g); u = m_hat / (sqrt(v_hat)^hessian_power + eps)        (Yao et al. 2021)
 *   sophia_h     h = EMA(mean z (H z)), z gaussian; m = EMA(g); u = clip(m / max(precond_scale h, eps), +-clip)    (Liu et al. 2023)
 *   esgd         D += mean (H z)^2, z gaussian, k += 1; u = g / (sqrt(D / k) + damping)     (Dauphin et al. 2015)
 *
 * Products are made at every update_freq-th step of the link and serve until the next.  A product that is not finite leaves the
 * estimate as it is.  State: as the formulas say.  Cost: n_samples products then, each about two gradients. */
#include "gradus/autograd.h"
#include "gradus/link/hessian.h"

#include <math.h>

/* One value for all parameters, because a product involves all of them. */
#define ONCE(n, d, lo, hi, whole_number, h)                                                       \
    {                                                                                             \
        .name = n, .kinds = GD_SET_REAL, .fallback = {.kind = GD_SET_REAL, .real = d}, .low = lo, \
        .high = hi, .integer = whole_number, .whole = true, .help = h                             \
    }
#define PRODUCTS                                                                                  \
    GD_HVP_CHOICE("autograd", "autograd|batched_autograd|forward|central|fd_forward|fd_central"), \
        ONCE("fd_h", 1e-3, 1e-300, INFINITY, false, "step of differences"),                       \
        ONCE("n_samples", 1, 1, 1e6, true, "products to average over"),                           \
        GD_SEED("of its own random numbers; none: those of the context"),                         \
        GD_INNER("links whose update takes the place of the incoming one")
#define EVERY(n) GD_INT("update_freq", n, 1, 1e9, "steps from products to products")

static const gd_field adahessian_fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the average of updates"),
    GD_REAL("beta2", 0.999, 0, 1, "decay of the average of squared diagonals"),
    GD_FLAG("averaging", true, "averages the diagonal of tensors of two axes and more along the first"),
    GD_INT_OR_NONE("block_size", 1, 1e15, "elements along that axis to average over; none: all"),
    EVERY(1),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the denominator"),
    GD_REAL("hessian_power", 1, 0, INFINITY, "power of the root of the averaged squares"),
    PRODUCTS,
};

static const gd_field sophia_fields[] = {
    GD_REAL("beta1", 0.96, 0, 1, "decay of the average of updates"),
    GD_REAL("beta2", 0.99, 0, 1, "decay of the average of diagonals"),
    EVERY(10),
    GD_REAL("precond_scale", 1, 0, INFINITY, "factor of the diagonal"),
    GD_REAL("clip", 1, 0, INFINITY, "largest size of an element of the result"),
    GD_REAL("eps", 1e-12, 0, INFINITY, "smallest denominator"),
    PRODUCTS,
};

static const gd_field esgd_fields[] = {
    GD_REAL("damping", 1e-4, 0, INFINITY, "added to the denominator"),
    EVERY(20),
    PRODUCTS,
};

static const gd_slot moments[] = {{"exp_avg", 0}, {"diagonal", 0}};
static const gd_slot squares[] = {{"squares", 0}};

/* ---- estimates ---- */

static gd_dtype wide_of(gd_tensor *t) { return gd_tensor_dtype(t) == GD_F64 ? GD_F64 : GD_F32; }

/* Adds one sample: z (H z), or (H z)^2. */
static gd_status add_sample(const gd_transform *t, bool square, double share, gd_tensor **sum)
{
    gd_tensor **z = gd_link_scratch(t->link, 2 * t->count), **hz = z + t->count;
    const char *kind = gd_link_has_field(t->link, "averaging") ? "rademacher" : "normal";
    gd_status status = z ? gd_link_random_list(t->link, kind, t->params, t->count, z) : GD_NOMEM;
    if (!status) status = gd_link_hessian_times(t->link, t->var, z, hz);
    for (int i = 0; i < t->count && !status; i++) {
        gd_tensor *h = gd_cast(hz[i], wide_of(hz[i]));
        gd_tensor *one = gd_mul_scalar(square ? gd_square(h) : gd_mul(gd_cast(z[i], wide_of(z[i])), h),
                                       share);
        sum[i] = sum[i] ? gd_add(sum[i], one) : one;
        if (!sum[i]) status = gd_error(gd_link_ctx(t->link));
    }
    return status;
}

/* The mean over samples, in out: new, at least f32. */
static gd_status estimate(const gd_transform *t, bool square, gd_tensor **out)
{
    if (!t->var)
        return gd_fail(gd_link_ctx(t->link), GD_STATE, "%s: needs a step", gd_link_class_of(t->link)->name);
    int samples = (int)gd_link_real(t->link, "n_samples", NULL);
    gd_status status = GD_OK;
    gd_no_grad_begin(gd_link_ctx(t->link));
    for (int s = 0; s < samples && !status; s++) status = add_sample(t, square, 1.0 / samples, out);
    gd_no_grad_end(gd_link_ctx(t->link));
    return status;
}

/* Every element becomes the mean of its block along the first axis. */
static gd_tensor *averaged(gd_link *link, gd_tensor *key, gd_tensor *d)
{
    if (gd_ndim(d) < 2 || !gd_numel(d) || gd_link_get(link, "averaging", key)->real == 0) return d;
    int64_t size = gd_size(d, 0);
    double asked = gd_link_real(link, "block_size", key); /* NaN: all */
    int64_t block = asked < (double)size ? (int64_t)asked : size;
    int count = (int)((size + block - 1) / block);
    gd_tensor **pieces = gd_link_scratch(link, count), *plain = gd_drop_names(d);
    for (int k = 0; pieces && k < count; k++) {
        int64_t end = (k + 1) * block < size ? (k + 1) * block : size;
        gd_tensor *piece = gd_slice(plain, "0", k * block, end, 1);
        pieces[k] = piece ? gd_add(gd_zeros_like(piece), gd_mean(piece, "0", true)) : NULL;
        if (!pieces[k]) return NULL;
    }
    return pieces ? gd_cat(pieces, count, "0") : NULL;
}

static bool all_finite(gd_tensor *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (!gd_vector_finite(list[i])) return false;
    return true;
}

/* state = state + share (value - state), from zeros, where it lies; sum: state + value.  Borrowed, without names. */
static gd_tensor *drawn_in(gd_link *link, gd_tensor *key, const char *slot, double share, gd_tensor *value,
                           bool sum)
{
    if (!value) return NULL;
    if (!gd_link_has_state(link, key, slot) &&
        gd_link_set_state(link, key, slot, gd_zeros_like(gd_drop_names(value))))
        return NULL;
    gd_tensor *state = gd_drop_names(gd_link_state(link, key, slot)), *plain = gd_drop_names(value);
    gd_tensor *way = sum ? plain : gd_sub(plain, state);
    return way && !gd_add_into(state, way, share) ? state : NULL;
}

/* ---- learning ---- */

/* Products need the gradient with its graph; other steps do not. */
static gd_status before(gd_link *link, gd_var *var)
{
    return gd_link_is_due(link) ? gd_link_expect_products(link, var) : GD_OK;
}

/* Updates the average of the diagonal, or of the squares of rows. */
static gd_status learn(const gd_transform *t, bool square)
{
    gd_link *link = t->link;
    gd_tensor **d = gd_link_scratch(link, t->count);
    bool adahessian = gd_link_has_field(link, "averaging");
    gd_status status = d ? estimate(t, square, d) : gd_error(gd_link_ctx(link));
    if (status || !all_finite(d, t->count)) return status;
    for (int i = 0; i < t->count && !status; i++) {
        gd_tensor *key = t->keys[i], *value = adahessian ? gd_square(averaged(link, key, d[i])) : d[i];
        const char *slot = square ? "squares" : "diagonal";
        double share = square ? 1 : 1 - gd_link_real(link, "beta2", key);
        if (!drawn_in(link, key, slot, share, value, square)) status = gd_error(gd_link_ctx(link));
    }
    return status ? status : gd_link_keep(link, "learnt", gd_link_kept(link, "learnt", 0) + 1);
}

static gd_status learn_diagonal(const gd_transform *t) { return learn(t, false); }
static gd_status learn_squares(const gd_transform *t) { return learn(t, true); }

/* ---- using ---- */

/* m = EMA(g); the average of updates continues independent of the Hessian. */
static gd_tensor *averaged_update(const gd_transform *t, int i)
{
    gd_tensor *g = gd_cast(t->tensors[i], wide_of(t->tensors[i]));
    return drawn_in(t->link, t->keys[i], "exp_avg", 1 - gd_link_real(t->link, "beta1", t->keys[i]), g, false);
}

static gd_tensor *known(const gd_transform *t, int i, const char *slot)
{
    gd_tensor *key = t->keys[i];
    if (gd_link_has_state(t->link, key, slot)) return gd_drop_names(gd_link_state(t->link, key, slot));
    return gd_zeros_like(gd_cast(gd_drop_names(t->tensors[i]), wide_of(t->tensors[i])));
}

static double correction(double beta, double count) { return count > 0 ? 1 - pow(beta, count) : 1; }

static gd_tensor *adahessian_update(const gd_transform *t, int i, double steps)
{
    gd_link *link = t->link;
    gd_tensor *key = t->keys[i], *m = averaged_update(t, i), *v = m ? known(t, i, "diagonal") : NULL;
    double fixed = correction(gd_link_real(link, "beta2", key), gd_link_kept(link, "learnt", 0));
    double power = gd_link_real(link, "hessian_power", key);
    gd_tensor *root = gd_sqrt(gd_mul_scalar(v, 1 / fixed));
    if (power != 1) root = gd_pow_scalar(root, power);
    gd_tensor *size = gd_add_scalar(root, gd_link_real(link, "eps", key));
    return gd_div(gd_mul_scalar(m, 1 / correction(gd_link_real(link, "beta1", key), steps)), size);
}

static gd_tensor *sophia_update(const gd_transform *t, int i, double steps)
{
    (void)steps;
    gd_link *link = t->link;
    gd_tensor *key = t->keys[i], *m = averaged_update(t, i), *h = m ? known(t, i, "diagonal") : NULL;
    double most = gd_link_real(link, "clip", key);
    double scale = gd_link_real(link, "precond_scale", key);
    gd_tensor *scaled = scale == 1 ? h : gd_mul_scalar(h, scale);
    gd_tensor *size = scaled ? gd_clamp(scaled, gd_link_real(link, "eps", key), INFINITY) : NULL;
    return gd_clamp(gd_div(m, size), -most, most);
}

static gd_tensor *esgd_update(const gd_transform *t, int i, double steps)
{
    (void)steps;
    double learnt = gd_link_kept(t->link, "learnt", 0);
    gd_tensor *mean = gd_mul_scalar(known(t, i, "squares"), learnt > 0 ? 1 / learnt : 1);
    gd_tensor *size = gd_add_scalar(gd_sqrt(mean), gd_link_real(t->link, "damping", t->keys[i]));
    return gd_div(gd_drop_names(gd_cast(t->tensors[i], wide_of(t->tensors[i]))), size);
}

/* Results have the dtype of the update. */
static gd_status apply(const gd_transform *t, gd_tensor *(*update)(const gd_transform *, int, double))
{
    double steps = gd_link_kept(t->link, "steps", 0) + 1;
    for (int i = 0; i < t->count; i++) {
        gd_tensor *u = update(t, i, steps), *out = u ? gd_cast(u, gd_tensor_dtype(t->tensors[i])) : NULL;
        if (!out) return gd_error(gd_link_ctx(t->link));
        t->tensors[i] = out;
    }
    return gd_link_keep(t->link, "steps", steps);
}

static gd_status apply_adahessian(const gd_transform *t) { return apply(t, adahessian_update); }
static gd_status apply_sophia(const gd_transform *t) { return apply(t, sophia_update); }
static gd_status apply_esgd(const gd_transform *t) { return apply(t, esgd_update); }

#define COMMON(label, what, state, learn_fn, apply_fn)                                                    \
    .spread = GD_SPREAD_VECTOR, .summary = what, GD_FIELDS(label##_fields), GD_SLOTS(state),              \
    .pre_step = before, .update_tensors = learn_fn, .apply_tensors = apply_fn, .traits.reads_only = true, \
    .traits.needs_closure = true, .traits.restores_params = true,                                         \
    .cost = "n_samples products with the Hessian every update_freq steps, each about two gradients"

GD_LINK(adaptive, adahessian,
    COMMON(adahessian, "average of updates over an average of the Hessian's diagonal", moments,
           learn_diagonal, apply_adahessian),
    .formula =
        "m = beta1 m + (1 - beta1) u;  d = mean of z (H z);  v = beta2 v + (1 - beta2) d^2;  m / (1 - beta1^t) / (sqrt(v / (1 - beta2^k))^hessian_power + eps)",
    .paper = "Yao et al., ADAHESSIAN: an adaptive second order optimizer for machine learning, AAAI 2021",
    .example = "adahessian | lr(0.1)");

#define sophia_h_fields sophia_fields
GD_LINK(adaptive, sophia_h,
    COMMON(sophia_h, "average of updates over the Hessian's diagonal, clipped", moments, learn_diagonal,
           apply_sophia),
    .formula =
        "m = beta1 m + (1 - beta1) u;  h = beta2 h + (1 - beta2) mean of z (H z);  clamp(m / max(precond_scale h, eps), -clip, clip)",
    .paper = "Liu, Li, Hall, Liang & Ma, Sophia: a scalable stochastic second-order optimizer, 2023",
    .example = "sophia_h | lr(0.01)");

GD_LINK(adaptive, esgd,
    COMMON(esgd, "update over the root mean square of random products with the Hessian", squares,
           learn_squares, apply_esgd),
    .formula = "D = D + mean of (H z)^2;  u / (sqrt(D / k) + damping)",
    .paper =
        "Dauphin, de Vries & Bengio, Equilibrated adaptive learning rates for non-convex optimization, 2015",
    .example = "esgd | lr(0.01)");
