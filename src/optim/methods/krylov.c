/* Conjugate gradients and minimal residuals inside a ball. */
#include "gradus/link/trust_region.h"
#include "base/ctx.h"
#include "tensor/tensor_internal.h"

#include <math.h>

/* The run, and its internals. */
typedef struct inside {
    gd_krylov seen;
    gd_krylov_options o;
    gd_linop *a;
    gd_tensor *b, **kept;
    int64_t keeps;
} inside;

static inside *inside_of(gd_krylov *k) { return (inside *)k; }

gd_krylov *gd_krylov_new(gd_linop *a, gd_tensor *b, const gd_krylov_options *options)
{
    if (!a || !b)
        return gd__none(gd__null(b ? gd_tensor_ctx(b) : NULL, "krylov: an operator or vector is NULL"));
    gd_ctx *ctx = gd_tensor_ctx(b);
    inside *k = gd__calloc(ctx, sizeof *k);
    if (!k) return NULL;
    *k = (inside){.a = a, .b = b, .o = {.most = gd_numel(b)}};
    if (options) k->o = *options;
    if (k->o.kept_most > k->o.most) k->o.kept_most = k->o.most;
    if (k->o.kept_most <= 0) return &k->seen;
    if ((k->kept = gd__calloc(ctx, (size_t)k->o.kept_most * sizeof(gd_tensor *)))) return &k->seen;
    gd__free(ctx, k, sizeof *k);
    return NULL;
}

void gd_krylov_free(gd_krylov *of)
{
    inside *k = inside_of(of);
    if (!k || !k->b) return;
    gd_ctx *ctx = gd_tensor_ctx(k->b);
    for (int64_t i = 0; i < k->keeps; i++) gd__release(k->kept[i]);
    if (k->kept) gd__free(ctx, k->kept, (size_t)k->o.kept_most * sizeof(gd_tensor *));
    gd__release(k->seen.before);
    gd__free(ctx, k, sizeof *k);
}

/* (A + shift I) p of the given step; owned. */
static gd_tensor *product_of(inside *k, int64_t step, gd_tensor *p)
{
    if (step < k->keeps) {
        gd__retain(k->kept[step]);
        return k->kept[step];
    }
    gd_ctx *ctx = gd_tensor_ctx(p);
    gd_scope_begin(ctx);
    gd_tensor *ap = gd_linop_matvec(k->a, p);
    if (ap && k->o.shift != 0) ap = gd_vector_sum(ap, k->o.shift, p);
    if (ap) gd__own(ap);
    gd_scope_end(ctx);
    if (ap && step == k->keeps && step < k->o.kept_most) {
        gd__retain(ap);
        k->kept[k->keeps++] = ap;
    }
    return ap;
}

/* The tensors of a run; all owned. */
typedef struct walk {
    gd_tensor *x, *ax, *r, *p;
    double rr, radius;
    bool done;
} walk;

static void replace(gd_tensor **slot, gd_tensor *fresh)
{
    if (fresh) gd__own(fresh);
    gd__release(*slot);
    *slot = fresh;
}

/* tau >= 0 with |x + tau p| = radius. */
static double to_edge(gd_tensor *x, gd_tensor *p, double radius)
{
    double xx = gd_vector_dot(x, x), xp = gd_vector_dot(x, p), pp = gd_vector_dot(p, p);
    double room = radius * radius - xx;
    if (!(room > 0) || !(pp > 0)) return 0;
    double root = sqrt(xp * xp + pp * room);
    /* the formula without cancellation */
    return xp > 0 ? room / (xp + root) : (root - xp) / pp;
}

static gd_status advance(walk *w, double alpha, gd_tensor *p, gd_tensor *ap)
{
    gd_status status = gd_add_into(w->x, p, alpha);
    return status ? status : gd_add_into(w->ax, ap, alpha);
}

/* One step of conjugate gradients. */
static gd_status cg_step(inside *k, walk *w)
{
    gd_tensor *ap = product_of(k, k->seen.steps, w->p);
    if (!ap) return gd_error(gd_tensor_ctx(k->b));
    double curvature = gd_vector_dot(w->p, ap), alpha = w->rr / curvature;
    gd_status status = GD_OK;
    w->done = true;
    if (!(curvature > 0)) {
        if (!k->seen.negative && isinf(w->radius) && (k->seen.steps || k->o.start)) {
            k->seen.before = gd_copy(w->x);
            if (k->seen.before)
                gd__own(k->seen.before);
            else
                status = gd_error(gd_tensor_ctx(k->b));
        }
        k->seen.negative = true;
        bool stay = k->o.stop_at_negative && k->seen.steps;
        if (!status && isfinite(w->radius) && !stay && !isnan(curvature))
            status = advance(w, to_edge(w->x, w->p, w->radius), w->p, ap);
        if (isfinite(w->radius) || stay || !(curvature < 0)) goto out;
    }
    if (!status && isfinite(w->radius)) {
        double edge = to_edge(w->x, w->p, w->radius);
        if (alpha >= edge) {
            status = advance(w, edge, w->p, ap);
            goto out;
        }
    }
    w->done = false;
    if (!status) status = advance(w, alpha, w->p, ap);
    if (!status) status = gd_add_into(w->r, ap, -alpha);
    if (!status) {
        double rr = gd_vector_dot(w->r, w->r);
        replace(&w->p, gd_vector_sum(w->r, rr / w->rr, w->p));
        w->rr = rr;
        if (!w->p) status = gd_error(gd_tensor_ctx(k->b));
    }
out:
    k->seen.steps++;
    gd__release(ap);
    return status;
}

static gd_status conjugate(inside *k, walk *w)
{
    gd_status status = GD_OK;
    while (!status && !w->done && k->seen.steps < k->o.most && w->rr > 0) {
        if (k->seen.steps >= k->o.least && sqrt(w->rr) < k->o.tolerance) break;
        status = cg_step(k, w);
    }
    return status;
}

/* ---- minimal residuals (Paige & Saunders 1975): Lanczos vectors v, directions d = (v - d1 d' - e d'') / g ---- */

typedef struct lanczos {
    gd_tensor *v, *v1;            /* this vector and the one before; owned */
    gd_tensor *d, *d1, *ad, *ad1; /* the last two directions and their products; owned or NULL */
    double beta, c, s, delta, epsilon, phi;
} lanczos;

static gd_tensor *combined(gd_tensor *v, double a, gd_tensor *x, double b, gd_tensor *y, double scale)
{
    if (x) v = gd_vector_sum(v, -a, x);
    if (y) v = gd_vector_sum(v, -b, y);
    return v ? gd_mul_scalar(v, scale) : NULL;
}

/* before = now, now = fresh */
static void shift(gd_tensor **before, gd_tensor **now, gd_tensor *fresh)
{
    gd__release(*before);
    *before = *now;
    *now = NULL;
    replace(now, fresh);
}

static gd_status minres_step(inside *k, walk *w, lanczos *l)
{
    gd_ctx *ctx = gd_tensor_ctx(k->b);
    gd_tensor *av = product_of(k, k->seen.steps, l->v);
    if (!av) return gd_error(ctx);
    gd_scope_begin(ctx);
    double alpha = gd_vector_dot(l->v, av);
    gd_tensor *next = gd_vector_sum(av, -alpha, l->v);
    if (l->v1) next = gd_vector_sum(next, -l->beta, l->v1);
    double beta = gd_vector_norm(next);
    double delta = l->c * l->delta + l->s * alpha, gamma1 = l->s * l->delta - l->c * alpha;
    double epsilon = l->epsilon;
    l->epsilon = l->s * beta;
    l->delta = -l->c * beta;
    double gamma = hypot(gamma1, beta);
    if (l->c * gamma1 >= 0) k->seen.negative = true;
    gd_status status = next ? GD_OK : gd_error(ctx);
    w->done = !(gamma > 0);
    if (!status && !w->done) {
        gd_tensor *d = combined(l->v, delta, l->d, epsilon, l->d1, 1 / gamma);
        gd_tensor *ad = combined(av, delta, l->ad, epsilon, l->ad1, 1 / gamma);
        l->c = gamma1 / gamma;
        l->s = beta / gamma;
        double tau = l->c * l->phi;
        l->phi *= l->s;
        /* the sign of the direction */
        double sign = tau < 0 ? -1 : 1, edge = INFINITY;
        if (d && ad && isfinite(w->radius)) edge = to_edge(w->x, sign < 0 ? gd_neg(d) : d, w->radius);
        w->done = fabs(tau) >= edge || beta == 0;
        status = d && ad ? advance(w, sign * fmin(fabs(tau), edge), d, ad) : gd_error(ctx);
        shift(&l->d1, &l->d, d);
        shift(&l->ad1, &l->ad, ad);
        shift(&l->v1, &l->v, beta > 0 ? gd_mul_scalar(next, 1 / beta) : next);
        l->beta = beta;
        if (!status) status = gd_error(ctx);
    }
    k->seen.steps++;
    gd_scope_end(ctx);
    gd__release(av);
    return status;
}

static gd_status minimal(inside *k, walk *w)
{
    gd_ctx *ctx = gd_tensor_ctx(k->b);
    double norm = sqrt(w->rr);
    if (norm == 0) return GD_OK;
    lanczos l = {.phi = norm, .c = -1};
    replace(&l.v, gd_mul_scalar(w->r, 1 / norm));
    gd_status status = l.v ? GD_OK : gd_error(ctx);
    while (!status && !w->done && k->seen.steps < k->o.most) {
        if (k->seen.steps >= k->o.least && l.phi < k->o.tolerance) break;
        status = minres_step(k, w, &l);
    }
    gd_tensor *all[] = {l.v, l.v1, l.d, l.d1, l.ad, l.ad1};
    for (int i = 0; i < 6; i++) gd__release(all[i]);
    return status;
}

gd_status gd_krylov_at(gd_krylov *of, double radius, gd_tensor **x, gd_tensor **ax)
{
    inside *k = inside_of(of);
    if (!k || !k->b || !x || !ax) return GD_ARGUMENT;
    gd_ctx *ctx = gd_tensor_ctx(k->b);
    gd_status status = GD_OK;
    walk w = {.radius = radius};
    k->seen.steps = 0;
    k->seen.negative = false;
    gd__release(k->seen.before);
    k->seen.before = NULL;
    gd_scope_begin(ctx);
    replace(&w.x, k->o.start ? gd_copy(k->o.start) : gd_zeros_like(k->b));
    if (k->o.start)
        w.ax = product_of(k, INT64_MAX, k->o.start);
    else
        replace(&w.ax, gd_zeros_like(k->b));
    replace(&w.r, w.ax ? gd_sub(k->b, w.ax) : NULL);
    replace(&w.p, w.r ? gd_copy(w.r) : NULL);
    if (!w.x || !w.p) status = gd_error(ctx);
    if (!status) {
        w.rr = gd_vector_dot(w.r, w.r);
        status = k->o.minres ? minimal(k, &w) : conjugate(k, &w);
    }
    gd_scope_end(ctx);
    gd__release(w.r);
    gd__release(w.p);
    /* owned references go to the caller's scope */
    *x = status ? NULL : gd__alias(w.x);
    *ax = status ? NULL : gd__alias(w.ax);
    gd__release(w.x);
    gd__release(w.ax);
    if (status || (*x && *ax)) return status;
    gd_release(*x);
    gd_release(*ax);
    *x = *ax = NULL;
    return gd_error(ctx);
}
