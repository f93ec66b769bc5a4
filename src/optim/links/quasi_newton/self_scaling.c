/* Variable metrics that scale themselves:
 *
 *   ssvm      H = g (H - H y y^T H / t + b v v^T) + s s^T / o,   v = sqrt(t) (s / o - H y / t)
 *             with o = s y, t = y H y, e = s H^-1 s (Oren & Luenberger 1974; Oren & Spedicato 1976).  switch:
 *               1  g = e/o, b = 0 where e/o <= 1;  g = o/t, b = 1 where o/t >= 1;  else g = 1, b = o (e - o) / (e t - o^2)
 *               2  g = sqrt(e/t), b = 1 / (1 + sqrt(e t) / o)
 *               3  as 1, with b = o (t - o) / (e t - o^2)
 *               4  g = sqrt(e/t), b = 1/2
 *             e is computed as o (g s) / (g H y) with the gradient g of the previous step, which went along H g.
 *   new_ssm   (I - s y^T / s y) H (I - y s^T / s y) + s s^T / q,  q the curvature along s that function values f show
 *             where a search was exact (Moghrabi, Hassan & Askar 2022).  type:
 *               1  q = 2 (f - f_before) + 2 s y
 *               2  q = f_before - f + s y / 2
 *   psb       Powell's symmetric Broyden, the least symmetric change: with r = y - B s
 *             B + (r s^T + s r^T) / s s - (s r) s s^T / (s s)^2;  `inverse`: the same change of B^-1
 *   shor_r    space dilation: H - (1 - alpha^2) H y (H y)^T / y H y (Shor 1985)
 *
 * Pairs with s y <= tol are left out, for psb and shor_r those whose denominator is. */
#include "gradus/link/quasi_newton.h"

static const gd_field ssvm_fields[] = {GD_INT("switch", 3, 1, 4, "how scale and share of BFGS are chosen"),
                                       GD_DENSE_FIELDS, GD_DENSE_INNER};
static const gd_field new_ssm_fields[] = {
    GD_INT("type", 1, 1, 2, "what function values say of the curvature"), GD_DENSE_FIELDS, GD_DENSE_INNER};
static const gd_field psb_fields[] = {GD_DENSE_FIELDS, GD_DENSE_INVERSE(false), GD_DENSE_INNER};
static const gd_field shor_r_fields[] = {
    GD_REAL("alpha", 0.5, 0, INFINITY, "factor of the space along the change of the gradient"),
    GD_DENSE_FIELDS_(NULL, GD_SET_REAL, NULL, GD_SET_NONE), GD_DENSE_INNER};
static const gd_slot slots[] = {GD_DENSE_SLOTS};
static const char *const scalars[] = {GD_DENSE_SCALAR, "loss"};

/* ---- ssvm ---- */

/* Scale and share of BFGS. */
static void choose(int choice, double o, double t, double e, double *scale, double *share)
{
    bool conditioned = choice == 2 || choice == 4;
    if (!(e > 0) || !isfinite(e)) /* the step did not go along H g: Oren's scaled BFGS */
        *scale = o / t, *share = 1;
    else if (conditioned)
        *scale = sqrt(e / t), *share = choice == 4 ? 0.5 : 1 / (1 + sqrt(e * t) / o);
    else if (e <= o)
        *scale = e / o, *share = 0;
    else if (o >= t)
        *scale = o / t, *share = 1;
    else
        *scale = 1, *share = o * (choice == 1 ? e - o : t - o) / (e * t - o * o);
}

static gd_status ssvm_pair(gd_dense *d)
{
    double o = d->sy, scale, share;
    if (o <= d->tol) return GD_OK;
    gd_status status = gd_dense_times(d, d->y, d->z);
    double t = gd_dense_dot(d, d->y, d->z);
    if (status || !(t > 0)) return status;
    double gs = gd_dense_dot(d, d->u, d->s) - o, ghy = gd_dense_dot(d, d->u, d->z) - t;
    choose((int)gd_link_real(d->link, "switch", NULL), o, t, o * gs / ghy, &scale, &share);
    status = gd_dense_scale(d, scale);
    double a = (1 + scale * share * t / o) / o, b = -scale * share / o, c = -scale * (1 - share) / t;
    return status ? status : gd_dense_rank_two(d, d->s, d->z, a, b, c);
}

/* ---- new_ssm ---- */

static gd_status new_ssm_pair(gd_dense *d)
{
    double before = *gd_link_scalar(d->link, d->key, "loss"), now = gd_var_loss_value(d->var, false),
           o = d->sy;
    if (gd_error(gd_link_ctx(d->link))) return gd_error(gd_link_ctx(d->link));
    double q = gd_link_real(d->link, "type", NULL) == 1 ? 2 * (now - before) + 2 * o : before - now + o / 2;
    if (o <= d->tol || !(q > d->tol) || !isfinite(q)) return GD_OK;
    gd_status status = gd_dense_times(d, d->y, d->z);
    double yhy = gd_dense_dot(d, d->y, d->z);
    return status ? status : gd_dense_rank_two(d, d->s, d->z, 1 / q + yhy / o / o, -1 / o, 0);
}

/* ---- psb ---- */

/* The change of B as one of H: with U = [s r] and M the coefficients of its products,
 * H - H U (M^-1 + U^T H U)^-1 U^T H. */
static gd_status psb_inverse(gd_dense *d, double ss)
{
    gd_tensor *bs = gd_zeros_like(d->s), *hs = gd_zeros_like(d->s), *hr = d->z;
    gd_status status = bs && hs ? gd_dense_solve(d, d->s, bs) : gd_error(gd_link_ctx(d->link));
    if (!status) status = gd_dense_times(d, d->s, hs);
    if (!status) status = gd_dense_times(d, d->y, hr);
    if (!status) status = gd_dense_add(d, hr, -1, d->s);
    double sr = d->sy - gd_dense_dot(d, d->s, bs), a = gd_dense_dot(d, d->s, hs),
           b = ss + gd_dense_dot(d, d->s, hr), c = sr + gd_dense_dot(d, d->y, hr) - gd_dense_dot(d, bs, hr),
           det = a * c - b * b;
    if (status || !(fabs(det) > 1e-8 * (fabs(a * c) + b * b)) || !isfinite(det)) return status;
    return gd_dense_rank_two(d, hs, hr, -c / det, b / det, -a / det);
}

static gd_status psb_pair(gd_dense *d)
{
    double ss = gd_dense_dot(d, d->s, d->s);
    if (!(ss > d->tol)) return GD_OK;
    if (d->inverse) return psb_inverse(d, ss);
    gd_status status = gd_dense_times(d, d->s, d->z);
    if (!status) status = gd_dense_add(d, d->y, -1, d->z); /* r, in the memory of y */
    double sr = gd_dense_dot(d, d->s, d->y);
    return status ? status : gd_dense_rank_two(d, d->s, d->y, -sr / ss / ss, 1 / ss, 0);
}

/* ---- shor_r ---- */

static gd_status shor_r_pair(gd_dense *d)
{
    double alpha = gd_link_real(d->link, "alpha", NULL);
    gd_status status = gd_dense_times(d, d->y, d->z);
    double yhy = gd_dense_dot(d, d->y, d->z);
    if (status || !(yhy > d->tol)) return status;
    return gd_dense_rank_two(d, d->z, d->z, -(1 - alpha * alpha) / yhy, 0, 0);
}

GD_DENSE_LINK(ssvm, .diagonal = false)
GD_DENSE_LINK(new_ssm, .diagonal = false)
GD_DENSE_LINK(psb, .diagonal = false)
GD_DENSE_LINK(shor_r, .diagonal = false)

/* The loss of a pair's end is kept for the next. */
static gd_status new_ssm_step(gd_link *link, gd_var *var)
{
    bool due = gd_link_steps(link) % (int64_t)gd_link_real(link, "update_freq", NULL) == 0;
    double loss = due ? gd_var_loss_value(var, true) : 0;
    if (gd_error(gd_var_ctx(var))) return gd_error(gd_var_ctx(var));
    gd_status status = new_ssm_update(link, var);
    for (int i = 0; i < gd_var_count(var) && due && !status; i++) {
        double *kept = gd_link_scalar(link, gd_var_params(var)[i], "loss");
        if (kept)
            *kept = loss;
        else
            status = gd_error(gd_var_ctx(var));
    }
    return status;
}

#define CLASS(NAME)                                                                              \
    .spread = GD_SPREAD_WHOLE, GD_FIELDS(NAME##_fields), GD_SLOTS(slots), .apply = NAME##_apply, \
    .hessian = NAME##_hessian, .state_bytes = gd_dense_bytes, .cost = GD_DENSE_COST, .scalars = scalars

GD_LINK(quasi_newton, ssvm,
    CLASS(ssvm),
    .scalar_count = 1,
    .update = ssvm_update,
    .summary = "self-scaling variable metric",
    .formula =
        "v = sqrt(y H y) (s / s y - H y / y H y);  H = a (H - H y y^T H / y H y + b v v^T) + s s^T / s y;  H u",
    .paper = "Oren & Spedicato, Optimal conditioning of self-scaling variable metric algorithms, 1976",
    .example = "ssvm | strong_wolfe");

GD_LINK(quasi_newton, new_ssm,
    CLASS(new_ssm),
    .scalar_count = 2,
    .update = new_ssm_step,
    .summary = "BFGS scaled by what function values say of the curvature",
    .formula =
        "V = I - y s^T / s y;  q = 2 (f - f_before) + 2 s y, with type=2 f_before - f + s y / 2;  H = V^T H V + s s^T / q;  H u",
    .paper =
        "Moghrabi, Hassan & Askar, New self-scaling quasi-Newton methods for unconstrained optimization, 2022",
    .example = "new_ssm | strong_wolfe",
    .traits.uses_loss = true);

GD_LINK(quasi_newton, psb,
    CLASS(psb),
    .scalar_count = 1,
    .update = psb_update,
    .summary = "Powell's symmetric Broyden: need not be positive definite, for trust regions",
    .formula = "r = y - B s;  B = B + (r s^T + s r^T) / s s - (s r) s s^T / (s s)^2;  B^-1 u",
    .paper = "Powell, A new algorithm for unconstrained optimization, 1970",
    .example = "trust_cg(psb)");

GD_LINK(quasi_newton, shor_r,
    CLASS(shor_r),
    .scalar_count = 1,
    .update = shor_r_update,
    .summary = "Shor's r-algorithm: dilates space along changes of the gradient, for functions with kinks",
    .formula = "H = H - (1 - alpha^2) H y (H y)^T / y H y;  H u",
    .paper = "Shor, Minimization methods for non-differentiable functions, 1985",
    .example = "shor_r | strong_wolfe");
