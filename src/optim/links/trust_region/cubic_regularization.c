/* Cubic regularisation (Nesterov & Polyak 2006), its weight set by the gain ratio as in ARC (Cartis, Gould & Toint 2011).
 *
 *     min over d of  -b . d + d . H d / 2 + |d|^3 / (3 radius)
 *
 * The global minimum of this model has (H + w I) d = b with w = |d| / radius and H + w I positive semidefinite; in the
 * eigenvectors of H that is one equation in w, solved by Newton steps inside a bracket.  Cost: one symmetric eigenproblem a
 * step, whatever the number of attempts. */
#include "gradus/link/trust_region.h"

#include <math.h>

#define UNFELT 1e-8 /* weight times step by gradient below which the cubic term makes no difference */

static const gd_field fields[] = {
    GD_TRUST_HESSIAN,
    GD_TRUST_RATIOS(3.5, 0.99, 1e-4),
    GD_TRUST_TRIES,
    GD_INT("maxiter", 100, 1, 1e9, "iterations for the weight"),
    GD_REAL("eps", 1e-8, 0, 1, "relative precision of the weight"),
    GD_FIXED_FLAG("check_decrease", false, "the step always lowers the model"),
    GD_TRUST_UPDATE,
    GD_TRUST_INNER,
};

/* H = V diag(values) V^T, c = V^T b. */
typedef struct spectrum {
    gd_tensor *vectors;
    double *values, *c, *q;
    int64_t n;
} spectrum;

static spectrum *spectrum_of(gd_trust *t)
{
    if (t->memo) return t->memo;
    gd_ctx *ctx = gd_link_ctx(t->link);
    spectrum *s = t->memo = gd_link_memory(t->link, sizeof *s);
    if (!s) return NULL;
    s->n = gd_numel(t->b);
    if (!(s->values = gd_link_memory(t->link, (size_t)(3 * s->n) * sizeof(double)))) return NULL;
    s->c = s->values + s->n;
    s->q = s->c + s->n;
    gd_scope_begin(ctx);
    gd_tensor *h = gd_linop_to_dense(t->hessian), *values = NULL;
    h = gd_mul_scalar(gd_add(h, gd_transpose(h, 0, 1)), 0.5);
    gd_status status = gd_vector_finite(h) ? gd_eigh(h, &values, &s->vectors) : GD_VALUE;
    if (!status) gd_keep(s->vectors);
    gd_tensor *c = status ? NULL : gd_matmul(gd_transpose(s->vectors, 0, 1), t->b);
    if (!status) status = gd_read_f64(values, s->values, s->n);
    if (!status) status = c ? gd_read_f64(c, s->c, s->n) : gd_error(ctx);
    gd_scope_end(ctx);
    return status ? NULL : s;
}

/* |d(w)| and its derivative. */
static double norm_at(const spectrum *s, double w, double *slope)
{
    double sum = 0, change = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double d = s->values[i] + w, q = s->c[i] == 0 ? 0 : s->c[i] / d;
        sum += q * q;
        change += s->c[i] == 0 ? 0 : q * q / d;
    }
    *slope = sum > 0 ? -change / sqrt(sum) : 0;
    return sqrt(sum);
}

/* The root of |d(w)| = w radius above `low`: |d(w)| falls and w radius rises, so there is at most one. */
static double weight(const spectrum *s, double low, double radius, int iterations, double eps)
{
    double slope, cc = 0, floor = low;
    for (int64_t i = 0; i < s->n; i++) cc = hypot(cc, s->c[i]);
    /* (w - low) w radius >= |c| holds at the upper end */
    double high = low + sqrt(cc / radius) + 1e-300, w = 0.5 * (low + high);
    for (int i = 0; i < iterations && high - low > eps * 1e-3 * (high - floor); i++) {
        double norm = norm_at(s, w, &slope), gap = norm - w * radius;
        if (gap > 0 || isnan(gap))
            low = w;
        else
            high = w;
        /* Newton on 1 / |d| - 1 / (w radius), which is nearly straight */
        double f = 1 / norm - 1 / (w * radius), df = -slope / (norm * norm) + 1 / (w * w * radius),
               next = w - f / df;
        if (fabs(next - w) <= eps * 1e-4 * fabs(w) && next > low && next < high) return next;
        w = next > low && next < high ? next : 0.5 * (low + high);
    }
    return w;
}

static gd_tensor *propose(gd_trust *t)
{
    spectrum *s = spectrum_of(t);
    if (!s) return NULL;
    gd_link *link = t->link;
    double least = s->n ? s->values[0] : 0, low = fmax(0, -least), slope, extra = 0;
    double w = weight(s, low, t->radius, (int)gd_link_real(link, "maxiter", NULL),
                      gd_link_real(link, "eps", NULL));
    /* no root: b has no part along the lowest eigenvector, which fills up the length */
    double norm = norm_at(s, w, &slope);
    if (least < 0 && norm < 0.999 * w * t->radius) {
        w = low;
        extra = 1;
    }
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double d = s->values[i] + w;
        s->q[i] = d > 1e-15 * fabs(w) + 1e-300 ? s->c[i] / d : 0;
        sum = hypot(sum, s->q[i]);
    }
    if (extra > 0) s->q[0] += sqrt(fmax(0, w * t->radius * (w * t->radius) - sum * sum));
    gd_ctx *ctx = gd_link_ctx(link);
    gd_tensor *q = gd_cast(gd_from_f64(ctx, GD_F64, 1, &s->n, s->q), gd_tensor_dtype(t->b));
    gd_tensor *d = q ? gd_matmul(s->vectors, gd_to_device(q, gd_tensor_device(t->b))) : NULL;
    double length = gd_vector_norm(d);
    t->less = length * length * length / (3 * t->radius);
    t->inside = w * length <= UNFELT * gd_vector_norm(t->b);
    return d;
}

static gd_status cubic_apply(gd_link *link, gd_var *var)
{
    return gd_trust_apply(link, var, &(gd_trust_method){.propose = propose});
}

GD_LINK(trust_region, cubic_regularization,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Newton steps kept short by a cubic term, its weight set by the gain ratio",
    .formula = "argmin of -u.d + d.H d / 2 + norm(d)^3 / (3 radius)",
    .paper = "Cartis, Gould & Toint, Adaptive cubic regularisation methods, Math. Program. 127, 2011",
    .cost = "one symmetric eigenproblem of the Hessian of its child per step; an evaluation per trial step",
    .example = "cubic_regularization(newton)",
    GD_FIELDS(fields),
    .update = gd_trust_update,
    .apply = cubic_apply,
    .traits.needs_closure = true);
