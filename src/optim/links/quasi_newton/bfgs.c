/* BFGS, DFP, combinations of them, and SR1: symmetric secant updates of a dense matrix (Nocedal & Wright 2006, chapter 6).
 *
 *   bfgs   H + (s y + y H y) / (s y)^2 s s^T - (H y s^T + s (H y)^T) / s y     B + y y^T / s y - B s (B s)^T / s B s
 *   dfp    H + s s^T / s y - H y (H y)^T / y H y                               the same with H, s, y for B, y, s in bfgs
 *   sr1    H + v v^T / v y,  v = s - H y                                       B + v v^T / v s,  v = y - B s
 *
 *   (1 - f) dfp + f bfgs   f = s y / (s y + y H y)              horisho, that is Hoshino
 *                          f = 1 where s y >= y H y, else 0     fletcher_vmm
 *
 * Those with f = 1 in H have f = 0 in B and vice versa; in general it is (1 - f) / (1 - f + f (y H y) (s B s) / (s y)^2).
 * All but sr1 keep the matrix positive definite: pairs with s y <= tol are left out.  sr1 leaves out pairs whose
 * denominator is below 1e-8 of the norms in it (6.26). */
#include "gradus/link/quasi_newton.h"

static const gd_field fields[] = {GD_DENSE_FIELDS, GD_DENSE_INVERSE(true), GD_DENSE_INNER};
static const gd_slot slots[] = {GD_DENSE_SLOTS};
static const char *const scalars[] = {GD_DENSE_SCALAR};

/* A += (1 + f y A y / x y) / x y x x^T - f (A y x^T + x (A y)^T) / x y - (1 - f) A y (A y)^T / y A y, which makes A y = x. */
static gd_status between(gd_dense *d, gd_tensor *x, gd_tensor *y, double f)
{
    gd_status status = gd_dense_times(d, y, d->z);
    double yay = gd_dense_dot(d, y, d->z), xy = d->sy;
    if (status || (f < 1 && !(yay > 0))) return status;
    return gd_dense_rank_two(d, x, d->z, (1 + f * yay / xy) / xy, -f / xy, f < 1 ? -(1 - f) / yay : 0);
}

static gd_status bfgs_pair(gd_dense *d)
{
    if (d->sy <= d->tol) return GD_OK;
    return d->inverse ? between(d, d->s, d->y, 1) : between(d, d->y, d->s, 0);
}

static gd_status dfp_pair(gd_dense *d)
{
    if (d->sy <= d->tol) return GD_OK;
    return d->inverse ? between(d, d->s, d->y, 0) : between(d, d->y, d->s, 1);
}

/* y H y, and s B s where B is kept. */
static gd_status curvatures(gd_dense *d, double *yhy, double *sbs)
{
    gd_status status = d->inverse ? gd_dense_times(d, d->y, d->z) : gd_dense_solve(d, d->y, d->z);
    *yhy = gd_dense_dot(d, d->y, d->z);
    if (!status && !d->inverse) status = gd_dense_times(d, d->s, d->z);
    *sbs = gd_dense_dot(d, d->s, d->z);
    return status;
}

static gd_status horisho_pair(gd_dense *d)
{
    double yhy = 0, sbs = 0, sy = d->sy;
    gd_status status = sy <= d->tol ? GD_OK : curvatures(d, &yhy, &sbs);
    if (status || sy <= d->tol || !(yhy > 0)) return status;
    double f = sy / (sy + yhy);
    return d->inverse ? between(d, d->s, d->y, f)
                      : between(d, d->y, d->s, (1 - f) / (1 - f + f * yhy / sy * sbs / sy));
}

static gd_status fletcher_vmm_pair(gd_dense *d)
{
    double yhy = 0, sbs = 0;
    gd_status status = d->sy <= d->tol ? GD_OK : curvatures(d, &yhy, &sbs);
    if (status) return status;
    return d->sy >= yhy ? bfgs_pair(d) : dfp_pair(d);
}

static gd_status sr1_pair(gd_dense *d)
{
    gd_tensor *x = d->inverse ? d->s : d->y, *y = d->inverse ? d->y : d->s;
    gd_status status = gd_dense_times(d, y, d->z);
    if (!status) status = gd_dense_add(d, x, -1, d->z); /* v, in the memory of x */
    double vy = gd_dense_dot(d, x, y);
    double least = fmax(d->tol, 1e-8 * sqrt(gd_dense_dot(d, x, x) * gd_dense_dot(d, y, y)));
    return status || fabs(vy) <= least ? status : gd_dense_rank_two(d, x, x, 1 / vy, 0, 0);
}

GD_DENSE_LINK(bfgs, .diagonal = false)
GD_DENSE_LINK(dfp, .diagonal = false)
GD_DENSE_LINK(fletcher_vmm, .diagonal = false)
GD_DENSE_LINK(horisho, .diagonal = false)
GD_DENSE_LINK(sr1, .diagonal = false)

GD_LINK(quasi_newton, bfgs,
    GD_DENSE_CLASS(bfgs),
    .summary = "Broyden, Fletcher, Goldfarb, Shanno: the usual dense quasi-Newton method",
    .formula = "H = H + (1 + y H y / s y) s s^T / s y - (H y s^T + s y^T H) / s y;  H u",
    .paper = "Broyden 1970; Fletcher 1970; Goldfarb 1970; Shanno 1970",
    .example = "bfgs | strong_wolfe");

GD_LINK(quasi_newton, dfp,
    GD_DENSE_CLASS(dfp),
    .summary = "Davidon, Fletcher, Powell: wants an accurate line search",
    .formula = "H = H + s s^T / s y - H y y^T H / y H y;  H u",
    .paper = "Davidon 1959; Fletcher & Powell 1963",
    .example = "dfp | strong_wolfe");

GD_LINK(quasi_newton, fletcher_vmm,
    GD_DENSE_CLASS(fletcher_vmm),
    .summary = "Fletcher's switch between BFGS and DFP",
    .formula = "H = bfgs(H) where s y >= y H y, else dfp(H);  H u",
    .paper = "Fletcher, A new approach to variable metric algorithms, 1970",
    .example = "fletcher_vmm | strong_wolfe");

GD_LINK(quasi_newton, horisho,
    GD_DENSE_CLASS(horisho),
    .summary = "Hoshino's method, between DFP and BFGS",
    .formula = "f = s y / (s y + y H y);  H = (1 - f) dfp(H) + f bfgs(H);  H u",
    .paper = "Hoshino, A formulation of variable metric methods, 1972",
    .example = "horisho | strong_wolfe");

GD_LINK(quasi_newton, sr1,
    GD_DENSE_CLASS(sr1),
    .summary = "symmetric rank one: follows negative curvature, for trust regions",
    .formula = "v = s - H y;  H = H + v v^T / v y;  H u",
    .paper =
        "Conn, Gould & Toint, Convergence of quasi-Newton matrices generated by the symmetric rank one update, 1991",
    .example = "trust_cg(sr1)");
